//! Whether a path leads to what its user put there, as ssh asks of its own files: nobody but the user and root may be
//! able to change where it leads.
//!
//! A runtime follows the path from the root, link by link, and has each step judged.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// One step of a path, as the system describes it without following links.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Step {
    /// The id of the user whose it is.
    pub owner: u32,
    /// The id of the group whose it is.
    pub group: u32,
    /// Permission bits, the sticky bit among them.
    pub mode: u32,
    /// Whether it is a symbolic link, which has no permissions of its own.
    pub is_link: bool,
    /// Whether it is a folder.
    pub is_folder: bool,
}

/// For whom a path is followed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct User {
    /// The id of the user who asks.
    pub user: u32,
    /// The id of the user's own group.
    pub group: u32,
}

/// Why a step is not trusted.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// Another user put it there, who may put something else there.
    #[error("belongs to user {0}")]
    Owner(u32),
    /// Others may put something else there.
    #[error("can be written by other users (mode {0:03o})")]
    Writable(u32),
    /// It leads in circles, or nobody can say where.
    #[error("leads nowhere")]
    Nowhere,
}

/// A path that others could lead elsewhere.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{} {why}", .path.display())]
pub struct Untrusted {
    /// The first step that is not trusted.
    pub path: PathBuf,
    /// What another user could do there.
    pub why: Why,
}

/// Judges one step.
///
/// # Errors
///
/// Others could change it.
pub const fn step(us: User, step: Step) -> Result<(), Why> {
    if step.owner != us.user && step.owner != ROOT {
        return Err(Why::Owner(step.owner));
    }
    // In a sticky folder such as `/tmp` others may put things, but not in the place of ours.
    let is_shared = step.is_folder && step.mode & STICKY != 0;
    if step.is_link || is_shared {
        return Ok(());
    }
    let group_is_ours = step.group == us.group && us.group == us.user && us.user != ROOT;
    let others = if group_is_ours { WRITABLE & !GROUP } else { WRITABLE };
    if step.mode & others == 0 { Ok(()) } else { Err(Why::Writable(step.mode & PERMISSIONS)) }
}

/// Who may do anything anyway.
const ROOT: u32 = 0;
/// Only its owner removes a file from such a folder.
const STICKY: u32 = 0o1000;
/// The group's permission to write. A group of the same number as the user is the user's own, where each has one.
const GROUP: u32 = 0o020;
/// Everybody's but the owner's.
const WRITABLE: u32 = 0o022;
/// What a mode is without the file's type.
const PERMISSIONS: u32 = 0o7777;

#[cfg(test)]
mod tests {
    use super::*;

    const US: User = User { user: 501, group: 501 };

    fn file(owner: u32, group: u32, mode: u32) -> Step {
        Step { owner, group, mode, is_link: false, is_folder: false }
    }

    fn folder(owner: u32, group: u32, mode: u32) -> Step {
        Step { is_folder: true, ..file(owner, group, mode) }
    }

    #[test]
    fn g9_only_what_we_and_root_can_change_is_trusted() {
        for (one, expected) in [
            (file(501, 501, 0o100_600), Ok(())),
            (file(0, 0, 0o644), Ok(())),
            (file(501, 20, 0o640), Ok(())),
            (file(502, 501, 0o600), Err(Why::Owner(502))),
            (file(501, 20, 0o660), Err(Why::Writable(0o660))),
            (file(501, 501, 0o664), Ok(())),
            (file(501, 501, 0o666), Err(Why::Writable(0o666))),
            (folder(501, 501, 0o40_775), Ok(())),
            (folder(0, 0, 0o1777), Ok(())),
            (folder(0, 0, 0o775), Err(Why::Writable(0o775))),
            (folder(501, 20, 0o777), Err(Why::Writable(0o777))),
            (folder(7, 7, 0o1777), Err(Why::Owner(7))),
            // On a file the bit means nothing.
            (file(501, 501, 0o1666), Err(Why::Writable(0o1666))),
            (Step { is_link: true, ..file(501, 501, 0o777) }, Ok(())),
            (Step { is_link: true, ..file(7, 7, 0o777) }, Err(Why::Owner(7))),
        ] {
            assert_eq!(step(US, one), expected, "{one:?}");
        }
    }

    #[test]
    fn g9_a_group_is_nobodys_own_unless_it_has_the_users_number() {
        let shared = folder(501, 20, 0o775);
        assert_eq!(step(User { user: 501, group: 20 }, shared), Err(Why::Writable(0o775)));
        assert_eq!(step(User { user: 0, group: 0 }, folder(0, 0, 0o775)), Err(Why::Writable(0o775)));
    }
}
