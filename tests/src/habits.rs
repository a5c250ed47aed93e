//! Habits of a child that no machine can have: what it inherits and whom it leaves behind. In a process a shell
//! gives them, in a world they are [`Manners`].
//!
//! Flags: `--trap-term`, `--grandchild` (which holds stdout and standard error), `--no-stdin` (it is closed when the
//! child first writes, at the latest).

use std::os::unix::process::CommandExt;
use std::process::Command;

use agentline_core::SpawnSpec;

use crate::world::{Heir, Manners};

/// The habits in these arguments, for a world.
#[must_use]
pub fn manners(spec: &SpawnSpec) -> Manners {
    let has = |flag| spec.args.iter().any(|arg| arg == flag);
    let ignores_term = has(TRAP_TERM);
    Manners {
        ignores_term,
        shuts_stdin: has(NO_STDIN),
        heir: has(GRANDCHILD).then_some(Heir { ignores_term, chats: 0 }),
        ..Manners::default()
    }
}

/// Starts this process over with the habits in its arguments, below a shell, which hands them on. Returns when
/// there are none, or no shell.
pub fn acquire(args: &[String]) {
    let has = |flag| args.iter().any(|arg| arg == flag);
    let trap = has(TRAP_TERM).then_some("trap '' TERM; ");
    let grandchild = has(GRANDCHILD).then_some("sleep 1000 & ");
    let no_stdin = has(NO_STDIN).then_some("exec </dev/null; ");
    let habits: String = [trap, grandchild, no_stdin].into_iter().flatten().collect();
    if !habits.is_empty()
        && let Ok(program) = std::env::current_exe()
    {
        let plain = args.iter().filter(|arg| ![TRAP_TERM, GRANDCHILD, NO_STDIN].contains(&arg.as_str()));
        let mut shell = Command::new("sh");
        let _ = shell.arg("-c").arg(habits + "exec \"$0\" \"$@\"").arg(program).args(plain).exec();
    }
}

const TRAP_TERM: &str = "--trap-term";
const GRANDCHILD: &str = "--grandchild";
const NO_STDIN: &str = "--no-stdin";
