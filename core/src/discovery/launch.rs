//! How an agent is started: program, arguments, environment.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::search::Found;
use crate::machine::{SpawnSpec, Stderr};
use crate::secret::Secret;
use crate::subagent::env::is_marker;

/// What starts an agent. Two that are equal start the same file in the same way.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Launch {
    /// The program, and what its file is.
    pub found: Found,
    /// The arguments of the program, each whole.
    pub args: Vec<String>,
    /// Variables laid over the environment.
    pub env: BTreeMap<String, Secret<String>>,
}

/// An environment by name.
pub type Environment = BTreeMap<OsString, Secret<OsString>>;

impl Launch {
    /// The child to spawn. `base` is what it inherits: [`inherited`] for a hub, a scrubbed environment for
    /// somebody else's task.
    #[must_use]
    pub fn spawn(&self, cwd: PathBuf, base: Environment, stderr: Stderr) -> SpawnSpec {
        SpawnSpec {
            program: self.found.program.clone().into(),
            args: self.args.iter().map(OsString::from).collect(),
            cwd,
            env: self.environment(base).into_iter().collect(),
            stderr,
        }
    }

    /// The base with the search path of [`Self::path`] and, on top, the agent's own variables: one that sets
    /// `PATH` gets exactly that, as BotBus does it.
    #[must_use]
    pub fn environment(&self, mut base: Environment) -> Environment {
        let path = self.path(base.get(OsStr::new("PATH")).map(|path| path.expose().as_os_str()));
        base.insert("PATH".into(), path.into());
        base.extend(
            self.env.iter().map(|(name, value)| (name.into(), OsString::from(value.expose()).into())),
        );
        base
    }

    /// The search path of the child: the program's folder, its real file's folder, then `inherited` without
    /// these, without repetitions and without empty or relative elements. A script's interpreter lies beside
    /// the script more often than in the path of a service.
    #[must_use]
    pub fn path(&self, inherited: Option<&OsStr>) -> OsString {
        let own = [&self.found.program, &self.found.file.real].map(|file| file.parent().map(Path::to_owned));
        let rest = inherited.unwrap_or(OsStr::new(BARE_PATH));
        let mut path: Vec<PathBuf> = Vec::new();
        for dir in own.into_iter().flatten().chain(std::env::split_paths(rest)) {
            // A folder with a colon cannot be an element.
            if dir.is_absolute() && !dir.to_string_lossy().contains(':') && !path.contains(&dir) {
                path.push(dir);
            }
        }
        std::env::join_paths(path).unwrap_or_default()
    }

    /// Program and arguments, for people and for JSON.
    #[must_use]
    pub fn argv(&self) -> Vec<String> {
        let program = self.found.program.to_string_lossy().into_owned();
        std::iter::once(program).chain(self.args.iter().cloned()).collect()
    }
}

/// What a child of the hub inherits: ours without what is addressed to us, and without the marks of an agent
/// around us.
#[must_use]
pub fn inherited(ours: impl IntoIterator<Item = (OsString, OsString)>) -> Environment {
    ours.into_iter()
        .filter(|(name, _)| !name.as_encoded_bytes().starts_with(b"AGENTLINE_") && !is_marker(name))
        .map(|(name, value)| (name, value.into()))
        .collect()
}

/// What stands in when there is no `PATH`: what BotBus takes, and every system has.
const BARE_PATH: &str = "/usr/bin:/bin:/usr/sbin:/sbin";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discovery::look::File;

    fn launch(program: &str, real: &str) -> Launch {
        let file = File { real: real.into(), inode: 1, size: 1, modified: std::time::Duration::ZERO };
        Launch {
            found: Found { program: program.into(), file },
            args: vec!["--x=1 2".into(), String::new(), "'".into()],
            env: BTreeMap::from([
                ("KEY".into(), "hunter2".to_owned().into()),
                ("EMPTY".into(), String::new().into()),
            ]),
        }
    }

    #[test]
    fn the_folders_of_the_program_and_of_its_real_file_come_first() {
        let linked = launch("/nvm/bin/gemini", "/nvm/lib/node_modules/g/x.js");
        for (inherited, path) in [
            (Some("/usr/bin:/bin"), "/nvm/bin:/nvm/lib/node_modules/g:/usr/bin:/bin"),
            (Some("/bin:/nvm/bin:/bin::.:bin"), "/nvm/bin:/nvm/lib/node_modules/g:/bin"),
            (Some(""), "/nvm/bin:/nvm/lib/node_modules/g"),
            (None, "/nvm/bin:/nvm/lib/node_modules/g:/usr/bin:/bin:/usr/sbin:/sbin"),
        ] {
            assert_eq!(linked.path(inherited.map(OsStr::new)), path, "{inherited:?}");
        }
        assert_eq!(launch("/a b/x", "/a b/x").path(Some(OsStr::new("/bin"))), "/a b:/bin");
        assert_eq!(launch("/a:b/x", "/c/x").path(Some(OsStr::new("/bin"))), "/c:/bin");
    }

    #[test]
    fn the_environment_is_extended_never_replaced() {
        let ours = [("HOME", "/home/me"), ("PATH", "/bin"), ("AGENTLINE_HOME", "/a"), ("KEY", "old")];
        let base = inherited(ours.map(|(name, value)| (name.into(), value.into())));
        let spec = launch("/opt/x", "/opt/x").spawn("/home/me".into(), base, Stderr::Pipe);
        let env: Vec<_> = spec
            .env
            .iter()
            .map(|(name, value)| (name.to_str().unwrap(), value.expose().to_str().unwrap()))
            .collect();
        assert_eq!(env, [("EMPTY", ""), ("HOME", "/home/me"), ("KEY", "hunter2"), ("PATH", "/opt:/bin")]);
        assert_eq!(spec.args, ["--x=1 2", "", "'"]);
        assert!(!format!("{spec:?}{:?}", launch("/x", "/x")).contains("hunter2"));
    }

    #[test]
    fn a_path_of_the_agents_own_replaces_ours() {
        let mut own = launch("/opt/x", "/opt/x");
        own.env = BTreeMap::from([("PATH".into(), "/only".to_owned().into())]);
        let env = own.environment(Environment::new());
        assert_eq!(env.get(OsStr::new("PATH")), Some(&OsString::from("/only").into()));
    }
}
