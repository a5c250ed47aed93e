//! [`Puppet`] as a process: `puppet [HABIT…] STEPS`.

use std::io::Write;
use std::process::ExitCode;

use agentline_blocking::{Driver, Given};
use agentline_tests::habits;
use agentline_tests::puppet::{Deed, Puppet};

fn main() -> ExitCode {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    habits::acquire(&args);
    let Ok(driver) = Driver::<Puppet>::with_given(args.pop().unwrap_or_default(), [Given::stdio()]) else {
        return ExitCode::FAILURE;
    };
    for deed in driver {
        match deed {
            Deed::Complain(bytes) if std::io::stderr().write_all(&vec![b'e'; bytes]).is_ok() => {}
            Deed::Complain(_) => return ExitCode::FAILURE,
            Deed::Exit(status) => return ExitCode::from(u8::try_from(status).unwrap_or(1)),
        }
    }
    ExitCode::FAILURE
}
