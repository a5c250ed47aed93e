//! Where files lie, and which variable says so.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// How the environment is asked: the value of a variable, if it is set.
pub type Env<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// The folders of one user. None of them need exist.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Folders {
    /// The home of the user, where `~` leads.
    pub home: PathBuf,
    /// Where `settings.json` lies.
    pub config: Folder,
    /// Records that outlive a run.
    pub state: Folder,
    /// Where the control socket lies if the path of the one above is too long for that.
    pub runtime: Folder,
    /// What is shared with BotBus: manifests and the reverse socket.
    pub botbus: Folder,
}

/// A folder, and how it came to be that one.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Folder {
    /// The absolute path of the folder.
    pub path: PathBuf,
    /// The variable that chose it, or `the password file`: to be named when nothing is found in it.
    pub chosen_by: &'static str,
}

impl Folders {
    /// The folders of the user whose home that is. An empty or relative value counts as unset.
    #[must_use]
    pub fn new(home: PathBuf, env: Env<'_>) -> Self {
        let given = |name| absolute(env, name).map(|path| Folder { path, chosen_by: name });
        let below = |name, rest| given(name).map(|folder| folder.join(rest));
        let own = || given("AGENTLINE_HOME");
        let is_set = env("HOME").is_some_and(|home| !home.is_empty());
        let chosen_by = if is_set { "HOME" } else { "the password file" };
        let at_home = |rest| Folder { path: home.join(rest), chosen_by };

        let config = own().or_else(|| below("XDG_CONFIG_HOME", "agentline"));
        let state = own().or_else(|| below("XDG_STATE_HOME", "agentline"));
        let state = state.unwrap_or_else(|| at_home(".local/state/agentline"));
        let runtime = below("XDG_RUNTIME_DIR", "agentline");
        Self {
            config: config.unwrap_or_else(|| at_home(".config/agentline")),
            runtime: runtime.unwrap_or_else(|| state.clone()),
            state,
            botbus: given("AGENTLINE_BOTBUS_DIR").unwrap_or_else(|| at_home(".botbus")),
            home,
        }
    }

    /// The settings: enable switches, default agent, remembered names, rules.
    #[must_use]
    pub fn settings(&self) -> PathBuf {
        self.config.path.join("settings.json")
    }

    /// The sessions that the hub remembers.
    #[must_use]
    pub fn sessions(&self) -> PathBuf {
        self.state.path.join("sessions")
    }

    /// The hub's control socket: in the folder of its records, so that whoever finds one finds the other. A path that is
    /// too long for a socket is replaced by one in the runtime folder that no other folder of records has.
    #[must_use]
    pub fn control_socket(&self) -> PathBuf {
        let path = self.state.path.join("control.sock");
        if path.as_os_str().len() <= LONGEST {
            return path;
        }
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        for byte in path.as_os_str().as_encoded_bytes() {
            // FNV-1a.
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
        self.runtime.path.join(format!("control-{hash:016x}.sock"))
    }

    /// Where the hub says who it is, while it serves.
    #[must_use]
    pub fn hub(&self) -> PathBuf {
        self.state.path.join("hub.json")
    }

    /// The lock that a hub holds as long as it lives.
    #[must_use]
    pub fn hub_lock(&self) -> PathBuf {
        self.state.path.join("hub.lock")
    }

    /// The lock of whoever starts a hub, and of a hub that leaves.
    #[must_use]
    pub fn start_lock(&self) -> PathBuf {
        self.state.path.join("start.lock")
    }

    /// What a hub that nobody looks at has to say.
    #[must_use]
    pub fn hub_log(&self) -> PathBuf {
        self.state.path.join("hub.log")
    }

    /// The lock of whoever changes the settings.
    #[must_use]
    pub fn settings_lock(&self) -> PathBuf {
        self.config.path.join("settings.lock")
    }

    /// The folder of the manifests.
    #[must_use]
    pub fn manifests(&self) -> PathBuf {
        self.botbus.path.join("agents")
    }

    /// The manifest of that agent.
    #[must_use]
    pub fn manifest(&self, id: &str) -> PathBuf {
        self.manifests().join(format!("{id}.json"))
    }

    /// The socket where agents show themselves.
    #[must_use]
    pub fn reverse_socket(&self) -> PathBuf {
        self.botbus.path.join("run/acp.sock")
    }

    /// A path as people write it: `~` and `~/…` are the home.
    #[must_use]
    pub fn expand(&self, path: &str) -> PathBuf {
        expand(&self.home, path)
    }
}

impl Folder {
    fn join(self, rest: &str) -> Self {
        Self { path: self.path.join(rest), ..self }
    }
}

/// The value of a variable that names an absolute path.
pub(super) fn absolute(env: Env<'_>, name: &str) -> Option<PathBuf> {
    env(name).map(PathBuf::from).filter(|path| path.is_absolute())
}

pub(super) fn expand(home: &Path, path: &str) -> PathBuf {
    match path.strip_prefix('~') {
        Some("") => home.to_owned(),
        Some(rest) if rest.starts_with('/') => home.join(rest.trim_start_matches('/')),
        Some(_) | None => path.into(),
    }
}

/// Bytes of a socket's path that every system takes.
const LONGEST: usize = 103;

#[cfg(test)]
mod tests {
    use super::*;

    fn folders(env: &[(&str, &str)]) -> Folders {
        Folders::new("/home/me".into(), &|name| {
            env.iter().find(|(set, _)| *set == name).map(|(_, value)| value.into())
        })
    }

    #[test]
    fn without_variables_everything_is_below_the_home() {
        let folders = folders(&[("XDG_CONFIG_HOME", ""), ("XDG_STATE_HOME", "rel/ative")]);
        assert_eq!(folders.settings(), Path::new("/home/me/.config/agentline/settings.json"));
        assert_eq!(folders.sessions(), Path::new("/home/me/.local/state/agentline/sessions"));
        assert_eq!(folders.control_socket(), Path::new("/home/me/.local/state/agentline/control.sock"));
        assert_eq!(folders.manifest("a"), Path::new("/home/me/.botbus/agents/a.json"));
        assert_eq!(folders.reverse_socket(), Path::new("/home/me/.botbus/run/acp.sock"));
        assert_eq!(folders.botbus.chosen_by, "the password file");
        assert_eq!(self::folders(&[("HOME", "/home/me")]).botbus.chosen_by, "HOME");
    }

    #[test]
    fn each_variable_moves_its_folder_and_is_named() {
        let folders = folders(&[
            ("XDG_CONFIG_HOME", "/c"),
            ("XDG_STATE_HOME", "/s"),
            ("XDG_RUNTIME_DIR", "/run/user/1"),
            ("AGENTLINE_BOTBUS_DIR", "/b"),
        ]);
        assert_eq!(folders.config, Folder { path: "/c/agentline".into(), chosen_by: "XDG_CONFIG_HOME" });
        assert_eq!(folders.state, Folder { path: "/s/agentline".into(), chosen_by: "XDG_STATE_HOME" });
        assert_eq!(folders.control_socket(), Path::new("/s/agentline/control.sock"));
        assert_eq!(folders.botbus, Folder { path: "/b".into(), chosen_by: "AGENTLINE_BOTBUS_DIR" });
    }

    #[test]
    fn one_variable_holds_everything_but_what_is_shared() {
        let folders = folders(&[("AGENTLINE_HOME", "/a"), ("XDG_RUNTIME_DIR", "/run/user/1")]);
        assert_eq!(folders.settings(), Path::new("/a/settings.json"));
        assert_eq!(folders.sessions(), Path::new("/a/sessions"));
        assert_eq!(folders.control_socket(), Path::new("/a/control.sock"));
        assert_eq!(folders.manifests(), Path::new("/home/me/.botbus/agents"));
    }

    #[test]
    fn a_socket_whose_path_is_too_long_lies_elsewhere() {
        let socket = |state: &str| {
            folders(&[("XDG_STATE_HOME", state), ("XDG_RUNTIME_DIR", "/run/user/1")]).control_socket()
        };
        let state = |bytes: usize| format!("/{}", "x".repeat(bytes - "//agentline/control.sock".len()));
        let longest = state(103);
        assert_eq!(socket(&longest), Path::new(&longest).join("agentline/control.sock"));
        let (one, other) = (socket(&state(104)), socket(&state(105)));
        assert!(one.starts_with("/run/user/1/agentline") && one.as_os_str().len() < 60, "{one:?}");
        assert_ne!(one, other);
    }

    #[test]
    fn a_tilde_is_the_home_only_at_the_front() {
        let folders = folders(&[]);
        for (written, meant) in [
            ("~", "/home/me"),
            ("~/bin/a", "/home/me/bin/a"),
            ("~//a", "/home/me/a"),
            ("~you/a", "~you/a"),
            ("/x/~/a", "/x/~/a"),
        ] {
            assert_eq!(folders.expand(written), Path::new(meant), "{written}");
        }
    }
}
