//! The outside of a hub, where nothing of it matters.

use agentline_core::SpawnSpec;
use agentline_core::host::FileError;
use agentline_core::hub::{Caller, Errand, Found};

/// Each folder exists, each agent is the program of its name, no file can be opened, and nobody is anybody.
#[must_use]
pub fn outside(errand: &Errand) -> Found {
    match errand {
        Errand::Folder(_) => Found::Folder(true),
        Errand::Launch { agent, .. } => {
            let program = (&**agent).into();
            Found::Launch(Ok(Box::new(SpawnSpec { program, ..SpawnSpec::default() })))
        }
        Errand::Discover => Found::Agents(Vec::new(), Vec::new()),
        Errand::Enable { .. } => Found::Enabled(Ok(false)),
        Errand::Rules(_) => Found::Kept(Ok(())),
        Errand::Read(_) => Found::Read(Ok(Vec::new().into())),
        Errand::File { .. } => Found::File(Err(FileError::Denied)),
        Errand::Who(_) => Found::Who(Caller::default()),
    }
}
