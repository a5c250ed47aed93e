//! [`Scripted`] as a process: `scripted_agent [FLAG…]`.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use agentline_blocking::{Driver, Given};
use agentline_tests::scripted::{Exits, Scripted, Start};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let Some(habits) = habits(&args) {
        return with(&habits, &args);
    }
    let start = Start {
        args,
        cwd: std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/")),
        env: std::env::vars().collect(),
    };
    let Ok(mut driver) = Driver::<Scripted>::with_given(start, Given::stdio()) else {
        return ExitCode::FAILURE;
    };
    let Exits(status) = driver.by_ref().last().unwrap_or(Exits(1));
    ExitCode::from(u8::try_from(status).unwrap_or(1))
}

/// Starts over below a shell, which hands both on: what it ignores, and what it has started.
fn with(habits: &str, args: &[String]) -> ExitCode {
    let plain = args.iter().filter(|arg| ![TRAP_TERM, GRANDCHILD].contains(&arg.as_str()));
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(format!("{habits} exec \"$0\" \"$@\""));
    if let Ok(program) = std::env::current_exe() {
        let _ = shell.arg(program).args(plain).exec();
    }
    ExitCode::FAILURE
}

fn habits(args: &[String]) -> Option<String> {
    let has = |flag: &str| args.iter().any(|arg| arg == flag);
    let trap = has(TRAP_TERM).then_some("trap '' TERM;");
    let grandchild = has(GRANDCHILD).then_some("sleep 1000 & ");
    (trap.is_some() || grandchild.is_some()).then(|| [trap, grandchild].into_iter().flatten().collect())
}

const TRAP_TERM: &str = "--trap-term";
const GRANDCHILD: &str = "--grandchild";
