//! Where sockets, tokens and records lie, and which token file may be trusted.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::secret::Secret;

/// Whether a session opens a socket: `$AGENTICA_ATTACH_ENABLED` when set, else the setting.
#[must_use]
pub fn is_enabled(variable: Option<&OsStr>, setting: bool) -> bool {
    match variable.and_then(OsStr::to_str).map(|word| word.trim().to_ascii_lowercase()) {
        Some(word) if !word.is_empty() => matches!(word.as_str(), "1" | "true" | "yes" | "on"),
        Some(_) | None => setting,
    }
}

/// Where sockets and tokens lie: `$AGENTICA_ATTACH_DIR`, else `agentica-<uid>` in `$TMPDIR` or `/tmp`. An
/// empty variable counts as unset, and `~` at the start of the first one is `home`.
#[must_use]
pub fn attach_dir(attach_dir: Option<&Path>, tmpdir: Option<&Path>, uid: u32, home: &Path) -> PathBuf {
    match (set(attach_dir), set(tmpdir)) {
        (Some(dir), _) => expanded(dir, home),
        (None, tmpdir) => tmpdir.unwrap_or(Path::new("/tmp")).join(format!("agentica-{uid}")),
    }
}

/// Where records lie: below `$AGENTICA_CACHE_DIR`, else `$AGENTICA_HOME/cache`, else `~/.agentica/cache`. An
/// empty variable counts as unset, and `~` at the start of one is `home`.
#[must_use]
pub fn live_dir(cache_dir: Option<&Path>, agentica_home: Option<&Path>, home: &Path) -> PathBuf {
    let cache = match (set(cache_dir), set(agentica_home)) {
        (Some(cache), _) => expanded(cache, home),
        (None, Some(agentica)) => expanded(agentica, home).join("cache"),
        (None, None) => home.join(".agentica/cache"),
    };
    cache.join("peers/live")
}

fn set(variable: Option<&Path>) -> Option<&Path> {
    variable.filter(|value| !value.as_os_str().is_empty())
}

/// A variable is read by more than shells: a `~` that none of them saw means what they would make of it.
fn expanded(path: &Path, home: &Path) -> PathBuf {
    path.strip_prefix("~").map_or_else(|_| path.to_owned(), |rest| home.join(rest))
}

/// The socket of a peer.
#[must_use]
pub fn socket_file(attach_dir: &Path, peer_id: &str) -> PathBuf {
    attach_dir.join(format!("{peer_id}.sock"))
}

/// The token beside a socket.
#[must_use]
pub fn token_file(socket: &Path) -> PathBuf {
    socket.with_extension("token")
}

/// The record of a peer.
#[must_use]
pub fn record_file(live_dir: &Path, peer_id: &str) -> PathBuf {
    live_dir.join(format!("{peer_id}.json"))
}

/// A peer id: eight hex characters.
#[must_use]
pub fn peer_id(random: u32) -> String {
    format!("{random:08x}")
}

/// A token: 64 hex characters.
#[must_use]
pub fn token(random: [u8; 32]) -> Secret<String> {
    Secret::new(random.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// A name for people: that of the working directory, and something to tell two of the same apart.
#[must_use]
pub fn peer_name(cwd: &Path, random: u8) -> String {
    let base = cwd.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let words = base.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    let slug = words.collect::<Vec<_>>().join("-");
    format!("{}-{random:02x}", if slug.is_empty() { "session" } else { &slug })
}

/// A token file as it was found.
#[derive(Clone, Copy, Debug)]
pub struct TokenFile<'a> {
    /// Whether it belongs to us.
    pub is_ours: bool,
    /// The permission bits of the file; nobody else may have any.
    pub mode: u32,
    /// The whole content of the file.
    pub bytes: &'a [u8],
}

/// Why a token file is neither kept by a server nor used by a client.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Unfit {
    /// Somebody else may have chosen the token.
    #[error("the token file belongs to another user")]
    NotOurs,
    /// Somebody else may have read it.
    #[error("the token file can be read by others")]
    NotPrivate,
    /// An empty token would let everybody in.
    #[error("the token file is empty")]
    Empty,
    /// It cannot be sent.
    #[error("the token file is not text")]
    NotText,
}

impl TokenFile<'_> {
    /// The token, without the blanks and line ends around it.
    ///
    /// # Errors
    ///
    /// The token is not ours alone, or there is none.
    pub fn token(&self) -> Result<Secret<String>, Unfit> {
        if !self.is_ours {
            return Err(Unfit::NotOurs);
        }
        if self.mode & 0o077 != 0 {
            return Err(Unfit::NotPrivate);
        }
        match std::str::from_utf8(self.bytes).map(str::trim) {
            Ok("") => Err(Unfit::Empty),
            Ok(token) => Ok(Secret::new(token.to_owned())),
            Err(_) => Err(Unfit::NotText),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_attach_dir_follows_its_variable_then_the_temporary_folder() {
        let dir = |own: Option<&str>, tmp: Option<&str>| {
            attach_dir(own.map(Path::new), tmp.map(Path::new), 501, Path::new("/home/u"))
        };
        assert_eq!(dir(Some("/a"), Some("/t")), Path::new("/a"));
        assert_eq!(dir(None, Some("/t")), Path::new("/t/agentica-501"));
        assert_eq!(dir(Some(""), Some("")), Path::new("/tmp/agentica-501"));
        assert_eq!(dir(None, None), Path::new("/tmp/agentica-501"));
    }

    #[test]
    fn records_move_with_the_cache_and_the_cache_with_its_home() {
        let dir = |cache: Option<&str>, own: Option<&str>| {
            live_dir(cache.map(Path::new), own.map(Path::new), Path::new("/home/u"))
        };
        assert_eq!(dir(Some("/c"), Some("/h")), Path::new("/c/peers/live"));
        assert_eq!(dir(Some(""), Some("/h")), Path::new("/h/cache/peers/live"));
        assert_eq!(dir(None, Some("")), Path::new("/home/u/.agentica/cache/peers/live"));
    }

    #[test]
    fn e1_a_tilde_that_no_shell_saw_is_the_home_in_every_folder() {
        let home = Path::new("/home/u");
        let live =
            |cache: Option<&str>, own: Option<&str>| live_dir(cache.map(Path::new), own.map(Path::new), home);
        assert_eq!(live(Some("~/c"), None), Path::new("/home/u/c/peers/live"));
        assert_eq!(live(Some("~"), None), Path::new("/home/u/peers/live"));
        assert_eq!(live(None, Some("~/.a")), Path::new("/home/u/.a/cache/peers/live"));
        assert_eq!(live(Some("/x/~/y"), None), Path::new("/x/~/y/peers/live"));
        assert_eq!(live(Some("~else/c"), None), Path::new("~else/c/peers/live"));
        assert_eq!(attach_dir(Some(Path::new("~/run")), None, 501, home), Path::new("/home/u/run"));
    }

    #[test]
    fn the_token_lies_beside_the_socket() {
        let socket = socket_file(Path::new("/run/a.sock/b"), "0a1b2c3d");
        assert_eq!(socket, Path::new("/run/a.sock/b/0a1b2c3d.sock"));
        assert_eq!(token_file(&socket), Path::new("/run/a.sock/b/0a1b2c3d.token"));
        assert_eq!(record_file(Path::new("/live"), "0a1b2c3d"), Path::new("/live/0a1b2c3d.json"));
    }

    #[test]
    fn ids_tokens_and_names_have_their_shape() {
        assert_eq!(peer_id(0xA1), "000000a1");
        assert_eq!(token([0xF0; 32]).expose(), &"f0".repeat(32));
        assert_eq!(peer_name(Path::new("/home/u/My  Project (2)"), 0x0F), "my-project-2-0f");
        assert_eq!(peer_name(Path::new("/"), 1), "session-01");
    }

    #[test]
    fn the_variable_outweighs_the_setting() {
        for (variable, setting, enabled) in [
            (Some("1"), false, true),
            (Some("True"), false, true),
            (Some("0"), true, false),
            (Some("nonsense"), true, false),
            (Some(""), true, true),
            (None, true, true),
            (None, false, false),
        ] {
            assert_eq!(is_enabled(variable.map(OsStr::new), setting), enabled, "{variable:?} {setting}");
        }
    }

    #[test]
    fn a_token_file_is_used_only_when_it_is_ours_alone_and_holds_something() {
        let file = |is_ours, mode, bytes| {
            TokenFile { is_ours, mode, bytes }.token().map(|token| token.expose().clone())
        };
        assert_eq!(file(true, 0o600, b" abc\r\n"), Ok("abc".to_owned()));
        assert_eq!(file(true, 0o100_400, b"abc"), Ok("abc".to_owned()));
        assert_eq!(file(false, 0o600, b"abc"), Err(Unfit::NotOurs));
        assert_eq!(file(true, 0o644, b"abc"), Err(Unfit::NotPrivate));
        assert_eq!(file(true, 0o620, b"abc"), Err(Unfit::NotPrivate));
        assert_eq!(file(true, 0o600, b" \n"), Err(Unfit::Empty));
        assert_eq!(file(true, 0o600, b"\xff"), Err(Unfit::NotText));
    }
}
