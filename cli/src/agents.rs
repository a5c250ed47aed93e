//! `agentline agent …`: what is installed, what is added, what is on.

use std::process::ExitCode;

use agentline_core::problem::Problem;

use crate::args::{Agent, Global};
use crate::output::Notes;

pub(crate) fn run(_verb: &Agent, _global: Global, _notes: &Notes) -> Result<ExitCode, Problem> {
    Ok(ExitCode::SUCCESS)
}
