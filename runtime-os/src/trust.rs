//! Follows a path step by step, and has each judged: [`agentline_core::trust`].

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use agentline_core::trust::{self, Step, Untrusted, User, Why};

/// Whether nobody but us and root can change what is at a path. What is not there is nobody's.
///
/// `below`: a folder that is taken for granted, such as the user's home; what is in it is judged from there on.
///
/// # Errors
///
/// The first step that others can change.
pub fn check(path: &Path, below: Option<&Path>) -> Result<(), Untrusted> {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut walk = match below.and_then(|base| Some((base, path.strip_prefix(base).ok()?))) {
        Some((base, rest)) => Walk::new(base.to_owned(), rest),
        None => Walk::new(PathBuf::from("/"), &path),
    };
    while let Some(name) = walk.rest.pop_front() {
        if !walk.go(&name)? {
            break;
        }
    }
    Ok(())
}

struct Walk {
    at: PathBuf,
    rest: VecDeque<OsString>,
    links: u32,
}

impl Walk {
    fn new(at: PathBuf, rest: &Path) -> Self {
        let mut walk = Self { at, rest: VecDeque::new(), links: 0 };
        walk.put_before(rest);
        walk
    }

    /// One step on; `false`: nothing is there.
    fn go(&mut self, name: &OsStr) -> Result<bool, Untrusted> {
        if name == ".." {
            self.at.pop();
            return Ok(true);
        }
        let next = self.at.join(name);
        let untrusted = |why| Untrusted { path: next.clone(), why };
        let found = match fs::symlink_metadata(&next) {
            Ok(found) => found,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            Err(_) => return Err(untrusted(Why::Nowhere)),
        };
        let step = Step {
            owner: found.uid(),
            group: found.gid(),
            mode: found.mode(),
            is_link: found.is_symlink(),
            is_folder: found.is_dir(),
        };
        trust::step(us(), step).map_err(untrusted)?;
        if step.is_link {
            self.links += 1;
            match fs::read_link(&next) {
                Ok(to) if self.links <= LINKS => self.put_before(&to),
                Ok(_) | Err(_) => return Err(untrusted(Why::Nowhere)),
            }
        } else {
            self.at = next;
        }
        Ok(true)
    }

    fn put_before(&mut self, path: &Path) {
        if path.is_absolute() {
            self.at = PathBuf::from("/");
        }
        for part in path.components().rev() {
            match part {
                Component::Normal(name) => self.rest.push_front(name.to_owned()),
                Component::ParentDir => self.rest.push_front("..".into()),
                Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
            }
        }
    }
}

fn us() -> User {
    User { user: rustix::process::geteuid().as_raw(), group: rustix::process::getegid().as_raw() }
}

/// Links that are followed: as many as Linux does.
const LINKS: u32 = 40;

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    use super::*;

    fn chmod(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn g9_a_path_is_trusted_as_far_as_each_step_is() {
        let dir = tempfile::TempDir::new().unwrap();
        let root = fs::canonicalize(dir.path()).unwrap();
        let at = |path: &str| root.join(path);
        fs::create_dir_all(at("a/b")).unwrap();
        for folder in ["a", "a/b"] {
            chmod(&at(folder), 0o755);
        }
        fs::write(at("a/b/file"), "").unwrap();
        chmod(&at("a/b/file"), 0o644);
        symlink("a/../a/./b", at("link")).unwrap();
        symlink("round", at("round")).unwrap();
        symlink(at("link"), at("absolute")).unwrap();
        let why = |path: &str| check(&at(path), None).err().map(|untrusted| (untrusted.path, untrusted.why));

        assert_eq!(why("a/b/file"), None);
        assert_eq!(why("absolute/file"), None);
        assert_eq!(why("a/none/file"), None);
        assert_eq!(why("round"), Some((at("round"), Why::Nowhere)));
        assert_eq!(why("a/b/file/below"), Some((at("a/b/file/below"), Why::Nowhere)));

        chmod(&at("a/b/file"), 0o646);
        assert_eq!(why("a/b/file"), Some((at("a/b/file"), Why::Writable(0o646))));
        chmod(&at("a/b/file"), 0o600);
        chmod(&at("a"), 0o757);
        let writable = Some((at("a"), Why::Writable(0o757)));
        assert_eq!((why("a/b/file"), why("absolute/file")), (writable.clone(), writable));
        assert_eq!(check(&at("a/b/file"), Some(&at("a"))), Ok(()), "taken for granted");
        chmod(&at("a"), 0o1777);
        assert_eq!(why("a/b/file"), None, "sticky");
        chmod(&at("a"), 0o755);

        if rustix::process::geteuid().is_root() {
            chown(at("a/b"), Some(65534), None).unwrap();
            assert_eq!(why("link/file"), Some((at("a/b"), Why::Owner(65534))));
            chown(at("a/b"), Some(0), None).unwrap();
            std::os::unix::fs::lchown(at("link"), Some(65534), None).unwrap();
            assert_eq!(why("absolute/file"), Some((at("link"), Why::Owner(65534))));
        }
    }
}
