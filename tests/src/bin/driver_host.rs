//! A process for tests that look at a runtime from outside: `driver_host RUNTIME WHAT [DIR]`.

use std::path::Path;
use std::process::ExitCode;

use agentline_blocking::{Given, guardian};
use agentline_tests::driver_table::RUNTIMES;
use agentline_tests::driver_table::stopped::{First, stopped};
use agentline_tests::driver_table::whole::{answers, sudden_death, unheard};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let (runtime, script) = match args[..] {
        [runtime, "stopped"] => {
            return if stopped(runtime) == Some(First::Word) { ExitCode::SUCCESS } else { ExitCode::FAILURE };
        }
        [runtime, "sudden-death", dir] => (runtime, sudden_death(Path::new(dir))),
        [runtime, "answers"] => (runtime, answers()),
        [runtime, "unheard"] => (runtime, unheard()),
        _ => return ExitCode::FAILURE,
    };
    guardian::arm().expect("a guardian");
    let drive = RUNTIMES.into_iter().find(|(name, _)| *name == runtime);
    let seen = drive.and_then(|(_, drive)| drive(script, Some(Given::stdio())));
    if seen.is_some_and(|seen| seen.stuck.is_none()) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
