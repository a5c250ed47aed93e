//! Habits of a child that no machine can have: what it inherits and whom it leaves behind. In a process a shell
//! gives them, in a world they are [`Manners`].
//!
//! Flags: `--trap-term`, `--grandchild` (which holds stdout and standard error).

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
    let habits: String = [trap, grandchild].into_iter().flatten().collect();
    if !habits.is_empty()
        && let Ok(program) = std::env::current_exe()
    {
        let plain = args.iter().filter(|arg| ![TRAP_TERM, GRANDCHILD].contains(&arg.as_str()));
        let mut shell = Command::new("sh");
        let _ = shell.arg("-c").arg(habits + "exec \"$0\" \"$@\"").arg(program).args(plain).exec();
    }
}

const TRAP_TERM: &str = "--trap-term";
const GRANDCHILD: &str = "--grandchild";
