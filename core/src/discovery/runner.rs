//! Runners: commands of the user's settings that speak Galley's runner protocol, one process for each session.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::folders::Folders;
use super::launch::Launch;
use super::look::{Eyes, Unfit};
use super::manifest::{self, Place, Reason};
use super::{Agent, Origin};

/// What the settings say of a runner, under `runners.ID`. Other fields are refused: one that is mistyped is not
/// passed over in silence.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Runner {
    /// The name for people. Without: the id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// A path or a name to be searched.
    pub command: String,
    /// The arguments before those of the protocol, each whole: `["-m", "runner.workbench_bridge"]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Where it is started: the folder that holds the `runner` package. Without: the home.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<PathBuf>,
    /// The agent's repository. Without: `cwd`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ga_path: Option<PathBuf>,
    /// The model that a new session begins with, by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub llm_name: Option<String>,
    /// Names of variables that it may have, with the values of the client that starts it.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub env: BTreeSet<String>,
}

/// The agent that one entry makes. Programs that were passed over are added to `passed`.
pub(super) fn resolve(
    eyes: &mut Eyes<'_>,
    place: &Place<'_>,
    id: &str,
    entry: &Value,
    passed: &mut Vec<(PathBuf, Unfit)>,
) -> Result<Agent, Reason> {
    // A command of the settings is run: so nobody else may have written them.
    eyes.trust(&place.folders.settings(), &place.folders.home).map_err(Reason::Untrusted)?;
    manifest::check_id(id)?;
    manifest::check_free(id)?;
    let runner =
        Runner::deserialize(entry).map_err(|error| Reason::InvalidRunner(unlike(&error.to_string())))?;
    let runner = runner.checked(place.folders)?;
    let name = manifest::check_name(runner.name.as_deref().unwrap_or(id))?;
    let name = name.chars().take(place.limits.name).collect();
    let found = manifest::program(eyes, place, runner.command.trim(), passed)?;
    let launch = Launch { found, args: runner.args.clone(), env: BTreeMap::new() };
    let (id, origin) = (id.to_owned(), Origin::Runner(Box::new(runner)));
    Ok(Agent { id, name, origin, launch: Some(launch), enabled: true, over_cap: false })
}

/// What stands there is not repeated: it may be a secret.
fn unlike(error: &str) -> String {
    match error.split_once(", expected ").filter(|_| error.starts_with("invalid")) {
        Some((_, expected)) => format!("a field is of another type: {expected} is expected"),
        None => error.to_owned(),
    }
}

impl Runner {
    /// With whole paths.
    fn checked(self, folders: &Folders) -> Result<Self, Reason> {
        let whole = |path: Option<PathBuf>, what: &str| match path {
            None => Ok(None),
            Some(path) => {
                let whole = folders.expand(&path.to_string_lossy());
                let error = || Reason::InvalidRunner(format!("{what} is no absolute path"));
                if whole.is_absolute() { Ok(Some(whole)) } else { Err(error()) }
            }
        };
        if self.env.iter().any(|name| name.is_empty() || name.contains(['=', '\0'])) {
            let text = "env holds names of variables: they are not empty and have no `=`";
            return Err(Reason::InvalidRunner(text.to_owned()));
        }
        let cwd = whole(self.cwd, "cwd")?.unwrap_or_else(|| folders.home.clone());
        let ga_path = whole(self.ga_path, "gaPath")?.unwrap_or_else(|| cwd.clone());
        Ok(Self { cwd: Some(cwd), ga_path: Some(ga_path), ..self })
    }
}
