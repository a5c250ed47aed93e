//! What was typed in conversations before: a file that only we can read, of a bounded size.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use agentline_core::Secret;
use rustix::fs::OFlags;

/// Where lines are kept, and which are not.
pub(crate) struct History {
    file: PathBuf,
    /// A line that holds one of these is not kept.
    secrets: Vec<Secret<Vec<u8>>>,
}

impl History {
    /// Reads what is kept. A file that is not ours alone is not read.
    pub(crate) fn open(file: PathBuf, secrets: Vec<Secret<Vec<u8>>>) -> (Self, Vec<String>) {
        let lines = read(&file).unwrap_or_default();
        (Self { file, secrets }, lines)
    }

    /// Keeps a line. Not one that begins with a blank, as shells have it, nor one with a secret in it.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub(crate) fn keep(&self, line: &str) -> io::Result<()> {
        if line.starts_with(char::is_whitespace) || line.len() > LONGEST || self.is_secret(line) {
            return Ok(());
        }
        if let Some(folder) = self.file.parent() {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        let entry = serde_json::to_string(line)? + "\n";
        let mut file = open(&self.file, OpenOptions::new().append(true).create(true))?;
        if file.metadata()?.len() + entry.len() as u64 <= SIZE {
            return file.write_all(entry.as_bytes());
        }
        self.shorten(&entry)
    }

    /// Half of what is there, and the new line.
    fn shorten(&self, entry: &str) -> io::Result<()> {
        let kept = read(&self.file)?;
        let mut text = String::new();
        for line in &kept[kept.len() / 2..] {
            text += &(serde_json::to_string(line)? + "\n");
        }
        let new = self.file.with_extension("new");
        let mut file = open(&new, OpenOptions::new().write(true).create(true).truncate(true))?;
        file.write_all((text + entry).as_bytes())?;
        fs::rename(&new, &self.file)
    }

    fn is_secret(&self, line: &str) -> bool {
        let holds = |secret: &[u8]| {
            secret.len() >= SHORTEST_SECRET
                && line.as_bytes().windows(secret.len()).any(|part| part == secret)
        };
        self.secrets.iter().any(|secret| holds(secret.expose()))
    }
}

fn read(file: &Path) -> io::Result<Vec<String>> {
    let mut text = Vec::new();
    open(file, OpenOptions::new().read(true))?.take(2 * SIZE).read_to_end(&mut text)?;
    let lines = text.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok());
    let mut lines: Vec<String> = lines.collect();
    lines.drain(..lines.len().saturating_sub(MOST));
    Ok(lines)
}

/// Only a regular file that is ours alone, and no link to one.
fn open(path: &Path, how: &mut OpenOptions) -> io::Result<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = how.mode(0o600).custom_flags(flags).open(path)?;
    let facts = file.metadata()?;
    let ours = facts.uid() == rustix::process::geteuid().as_raw() && facts.mode() & 0o077 == 0;
    if facts.is_file() && ours { Ok(file) } else { Err(io::ErrorKind::PermissionDenied.into()) }
}

/// Lines that can be called back.
pub(crate) const MOST: usize = 1000;
/// Bytes of the file.
const SIZE: u64 = 256 << 10;
/// Bytes of a line that is kept.
const LONGEST: usize = 16 << 10;
/// A shorter value is no secret: it would hide half of what is typed.
const SHORTEST_SECRET: usize = 6;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_kept_for_us_alone_and_within_bounds() {
        let folder = tempfile::TempDir::new().unwrap();
        let file = folder.path().join("state/history");
        let (history, before) = History::open(file.clone(), vec![b"s3cr3t-value".to_vec().into()]);
        assert!(before.is_empty());
        for line in ["one", " not this", "with s3cr3t-value in it", "two\nlines", "last"] {
            history.keep(line).unwrap();
        }
        let mode = fs::metadata(&file).unwrap().mode() & 0o777;
        assert_eq!(mode, 0o600);
        let (history, lines) = History::open(file.clone(), Vec::new());
        assert_eq!(lines, ["one", "two\nlines", "last"]);
        for at in 0..100 {
            history.keep(&format!("{at} {}", "x".repeat(10_000))).unwrap();
        }
        assert!(fs::metadata(&file).unwrap().len() <= SIZE);
        let (_, lines) = History::open(file, Vec::new());
        assert!(lines.last().unwrap().starts_with("99 ") && lines.len() > 5);
    }

    #[test]
    fn a_file_of_somebody_else_is_left_alone() {
        let folder = tempfile::TempDir::new().unwrap();
        let (file, other) = (folder.path().join("history"), folder.path().join("other"));
        fs::write(&other, "kept\n").unwrap();
        std::os::unix::fs::symlink(&other, &file).unwrap();
        let (history, lines) = History::open(file, Vec::new());
        assert!(lines.is_empty() && history.keep("line").is_err());
        assert_eq!(fs::read_to_string(other).unwrap(), "kept\n");
    }
}
