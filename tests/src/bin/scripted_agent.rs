//! [`Scripted`] as a process: `scripted_agent [FLAG…]`.

use std::path::PathBuf;
use std::process::ExitCode;

use agentline_blocking::{Driver, Given};
use agentline_tests::habits;
use agentline_tests::scripted::{Exits, Scripted, Start};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    habits::acquire(&args);
    let program = std::env::current_exe().unwrap_or_default();
    let start = Start {
        args,
        puppet: program.with_file_name("puppet").to_string_lossy().into_owned(),
        cwd: std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/")),
        env: std::env::vars().collect(),
    };
    let Ok(mut driver) = Driver::<Scripted>::with_given(start, [Given::stdio()]) else {
        return ExitCode::FAILURE;
    };
    let Exits(status) = driver.by_ref().last().unwrap_or(Exits(1));
    ExitCode::from(u8::try_from(status).unwrap_or(1))
}
