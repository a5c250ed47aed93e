//! The files of a hub, read: by the one that starts, and by whoever looks while none runs.

use std::fs;
use std::path::Path;

use agentline_core::discovery::Folders;
use agentline_core::hub::Stored;
use agentline_os::file;

/// Reads what a hub has left. `damaged` is told the files that cannot be read: the folder, and the name.
pub(crate) fn read(folders: &Folders, mut damaged: impl FnMut(&Path, &str)) -> Stored {
    let mut stored = Stored::default();
    for folder in Stored::FOLDERS {
        let path = folders.state.path.join(folder);
        let mut names: Vec<_> =
            fs::read_dir(&path).into_iter().flatten().flatten().map(|entry| entry.file_name()).collect();
        names.sort();
        for name in names.iter().filter_map(|name| name.to_str()).filter(|name| name.ends_with(".json")) {
            let Ok(bytes) = file::read(&path.join(name), RECORD) else { continue };
            if stored.read(folder, name, &bytes) {
                damaged(&path, name);
            }
        }
    }
    stored
}

/// Bytes of a record.
const RECORD: usize = 16 << 20;
