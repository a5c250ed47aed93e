//! A process for tests that look at a runtime from outside: `driver_host RUNTIME WHAT [DIR]`.

use std::path::Path;
use std::process::ExitCode;

use agentline_blocking::{Driver, Given, guardian};
use agentline_tests::driver_table::whole::{answers, sudden_death, unheard};
use agentline_tests::driver_table::{Script, Scripted, Seen};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let seen = match args[..] {
        [runtime, "sudden-death", dir] => {
            guardian::arm();
            drive(runtime, sudden_death(Path::new(dir)))
        }
        [runtime, "answers"] => drive(runtime, answers()),
        [runtime, "unheard"] => drive(runtime, unheard()),
        _ => None,
    };
    if seen.is_some_and(|seen| seen.stuck.is_none()) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn drive(runtime: &str, script: Script) -> Option<Seen> {
    match runtime {
        "blocking" => Driver::<Scripted>::with_given(script, Given::stdio()).ok()?.next(),
        _ => None,
    }
}
