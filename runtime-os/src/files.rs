//! How many descriptors may be open: as many as the system allows, for a program with many children, and what was before
//! for those children.

use std::sync::OnceLock;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// What was before we raised it.
static BEFORE: OnceLock<Rlimit> = OnceLock::new();

/// From here on as many descriptors may be open here as the system allows. Programs that are started have the limit that
/// we were started with: some close every descriptor below theirs.
pub fn raise() {
    let before = *BEFORE.get_or_init(|| getrlimit(Resource::Nofile));
    let _ = setrlimit(Resource::Nofile, Rlimit { current: before.maximum, ..before });
}

/// In a child: the limit that we were started with. Allocates nothing.
pub(crate) fn lower() {
    if let Some(before) = BEFORE.get() {
        let _ = setrlimit(Resource::Nofile, Rlimit { current: before.current, maximum: before.maximum });
    }
}
