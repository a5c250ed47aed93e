//! No agent outlives us, however we die: we are our own guardian.

use std::io;
use std::process::ExitCode;

use crate::words::Problem;
use agentline_os::guardian;

use crate::output::Notes;
use crate::signals::Signals;

/// Guards this process from here on, by this very program or else a shell.
pub(crate) fn arm(notes: &Notes) {
    if let Err(error) = guardian::arm_with(&["guardian"]).or_else(|_| guardian::arm()) {
        notes.line(&format!(
            "! no guardian can be started: {error}; should agentline be killed, the agent may live on"
        ));
    }
}

/// Is the guardian. A signal that is meant for everybody does not end it.
pub(crate) fn serve() -> Result<ExitCode, Problem> {
    let deaf: io::Result<Signals> = Signals::catch();
    guardian::serve();
    drop(deaf);
    Ok(ExitCode::SUCCESS)
}
