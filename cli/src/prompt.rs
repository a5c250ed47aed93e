//! What is read before anything is started: the task, and what goes with it.

use std::ffi::{OsStr, OsString};
use std::io::{self, IsTerminal, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use crate::words::{Kind, Phase, Problem};
use agentline_core::Secret;
use agentline_core::acp::ContentBlock;
use agentline_core::acp::content::{EmbeddedResource, ImageContent, Resource};
use agentline_os::file;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustix::fs::FileType;

use crate::args::{Environment, Run};
use crate::output::Notes;

/// The prompt, from wherever it comes: the argument, with what is piped in behind it, a file, or stdin alone.
pub(crate) fn prompt(args: &Run, notes: &Notes) -> Result<Vec<ContentBlock>, Problem> {
    let text = match (&args.prompt, &args.prompt_file) {
        (Some(text), _) if text != "-" => match carried(args, notes)? {
            Some(more) => format!("{text}\n\n{more}"),
            None => text.clone(),
        },
        (_, Some(file)) => text_of("--prompt-file", file)?,
        // It is shown how it would be said, not what.
        (None, None) if args.dry_run => String::new(),
        (None, None) if io::stdin().is_terminal() => {
            return Err(usage("no prompt").hint("agentline run \"hello\", --prompt-file FILE, or a pipe"));
        }
        (_, None) => stdin_text()?,
    };
    if text.trim().is_empty() && !args.dry_run {
        return Err(usage("the prompt is empty").hint("agentline run \"hello\""));
    }
    let mut blocks = vec![ContentBlock::text(text)];
    for file in &args.image {
        blocks.push(image(file)?);
    }
    for file in &args.resource {
        blocks.push(resource(file)?);
    }
    Ok(blocks)
}

/// What goes along with a prompt that is an argument: `git diff | agentline run "review this"`.
fn carried(args: &Run, notes: &Notes) -> Result<Option<String>, Problem> {
    let stdin = rustix::fs::fstat(rustix::stdio::stdin()).map(|facts| FileType::from_raw_mode(facts.st_mode));
    let is_data = matches!(stdin, Ok(FileType::Fifo | FileType::Socket | FileType::RegularFile));
    if !is_data || args.stdin_answers() {
        return Ok(None);
    }
    let (read, is_read) = mpsc::channel::<()>();
    let notes = notes.clone();
    // Whoever has left a pipe open behind us waits for nothing, and shall know it.
    thread::spawn(move || {
        if is_read.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
            notes.line("◦ reading stdin, which goes along with the prompt; to leave it out: </dev/null");
        }
    });
    let text = stdin_text()?;
    drop(read);
    Ok(Some(text).filter(|text| !text.trim().is_empty()))
}

/// All of stdin, as text.
pub(crate) fn stdin_text() -> Result<String, Problem> {
    let mut bytes = Vec::new();
    let read = io::stdin().take(TEXT as u64 + 1).read_to_end(&mut bytes);
    read.map_err(|error| usage(format!("stdin cannot be read: {error}")))?;
    if bytes.len() > TEXT {
        return Err(usage(format!("stdin is longer than {} MiB", TEXT >> 20)).hint("--resource FILE"));
    }
    String::from_utf8(bytes).map_err(|_| usage("stdin is not UTF-8"))
}

/// What `-e` and `--env-file` say.
#[derive(Debug, Default)]
pub(crate) struct Variables {
    /// What the agent is given beside what it inherits.
    pub(crate) given: Vec<(OsString, OsString)>,
    /// What the agent does not get, be it as harmless as it may.
    pub(crate) removed: Vec<OsString>,
    /// Names of ours that were to be passed on, and are not set.
    pub(crate) unset: Vec<OsString>,
}

impl Variables {
    /// Takes what a file says, one a line.
    fn take_file(&mut self, file: &Path) -> Result<(), Problem> {
        let bytes = read("--env-file", file, TEXT)?;
        for (at, line) in bytes.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).enumerate() {
            if line.is_empty() || line.starts_with(b"#") {
                continue;
            }
            // Files for a shell have it in front.
            let line = line.strip_prefix(b"export ").map_or(line, <[u8]>::trim_ascii_start);
            if !self.take(line) {
                let at = at + 1;
                // What is in it may be a secret.
                return Err(of_file("--env-file", file, format_args!("line {at} is not NAME=VALUE")));
            }
        }
        Ok(())
    }

    /// The values, which nobody may be shown.
    pub(crate) fn secrets(&self) -> impl Iterator<Item = Secret<Vec<u8>>> {
        self.given.iter().map(|(_, value)| value.as_encoded_bytes().to_vec().into())
    }

    /// Says what may not be as it was meant.
    pub(crate) fn warn(&self, notes: &Notes) {
        for name in &self.unset {
            notes.line(&format!("! {} is not set here: the agent does not get it", name.display()));
        }
    }
}

/// The variables of a command line.
pub(crate) fn variables(args: &Environment) -> Result<Variables, Problem> {
    let mut variables = Variables::default();
    for file in &args.env_file {
        variables.take_file(file)?;
    }
    for variable in &args.env {
        if !variables.take(variable.as_bytes()) {
            let name = variable.as_bytes().split(|byte| *byte == b'=').next().unwrap_or_default();
            let name = String::from_utf8_lossy(name).into_owned();
            return Err(usage(format!(
                "-e {name}: a variable is NAME=VALUE, NAME, or NAME- to leave it out"
            ))
            .hint("agentline run -e API_KEY \"hello\""));
        }
    }
    Ok(variables)
}

/// The variables of a file that nobody else may read or write, nor choose.
pub(crate) fn own_variables(file: &Path) -> Result<Variables, Problem> {
    let facts = std::fs::symlink_metadata(file).map_err(|error| of_file("--env-file", file, error))?;
    let own = facts.is_file() && facts.uid() == rustix::process::getuid().as_raw();
    if !own || facts.mode() & 0o077 != 0 {
        let why = if own { "may be read by others" } else { "is no regular file of yours" };
        return Err(of_file("--env-file", file, why).hint(format!("chmod 600 {}", file.display())));
    }
    let mut variables = Variables::default();
    variables.take_file(file)?;
    Ok(variables)
}

impl Variables {
    /// Takes `NAME=VALUE`, `NAME` or `NAME-`. What comes later counts.
    fn take(&mut self, written: &[u8]) -> bool {
        let end = written.iter().position(|byte| *byte == b'=').unwrap_or(written.len());
        let (name, value) = (&written[..end], written.get(end + 1..));
        let (name, is_removed) = match name.strip_suffix(b"-") {
            Some(name) if value.is_none() => (name, true),
            Some(_) | None => (name, false),
        };
        let is_name = |byte: &u8| byte.is_ascii_graphic() || !byte.is_ascii();
        if name.is_empty() || !name.iter().all(is_name) || written.contains(&0) {
            return false;
        }
        let name = OsStr::from_bytes(name).to_owned();
        self.given.retain(|(given, _)| *given != name);
        self.removed.retain(|removed| *removed != name);
        match (value, std::env::var_os(&name)) {
            _ if is_removed => self.removed.push(name),
            (Some(value), _) => self.given.push((name, OsString::from_vec(value.to_vec()))),
            (None, Some(value)) => self.given.push((name, value)),
            (None, None) => self.unset.push(name),
        }
        true
    }
}

/// A picture, as a block of a prompt.
pub(crate) fn image(file: &Path) -> Result<ContentBlock, Problem> {
    let bytes = read("--image", file, MEDIA)?;
    let kind = match &*bytes {
        [0x89, b'P', b'N', b'G', ..] => "image/png",
        [0xff, 0xd8, 0xff, ..] => "image/jpeg",
        [b'G', b'I', b'F', b'8', ..] => "image/gif",
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => "image/webp",
        _ => return Err(of_file("--image", file, "is no PNG, JPEG, GIF or WebP picture")),
    };
    let data = STANDARD.encode(&bytes);
    let (uri, mime_type) = (Some(uri("--image", file)?), kind.to_owned());
    Ok(ContentBlock::Image(ImageContent { data, mime_type, uri, annotations: None, meta: None }))
}

fn resource(file: &Path) -> Result<ContentBlock, Problem> {
    let (uri, mime_type) = (uri("--resource", file)?, None);
    let resource = match String::from_utf8(read("--resource", file, MEDIA)?) {
        Ok(text) => Resource::Text { uri, text, mime_type },
        Err(bytes) => Resource::Blob { uri, blob: STANDARD.encode(bytes.as_bytes()), mime_type },
    };
    Ok(ContentBlock::Resource(EmbeddedResource { resource, annotations: None, meta: None }))
}

/// The `file:` address of a path.
fn uri(option: &str, file: &Path) -> Result<String, Problem> {
    let path = std::path::absolute(file).map_err(|error| of_file(option, file, error))?;
    let mut uri = String::from("file://");
    for byte in path.as_os_str().as_bytes() {
        if byte.is_ascii_alphanumeric() || b"/-._~".contains(byte) {
            uri.push(char::from(*byte));
        } else {
            uri.push_str(&format!("%{byte:02X}"));
        }
    }
    Ok(uri)
}

/// A file of text that an option names.
pub(crate) fn text_of(option: &str, file: &Path) -> Result<String, Problem> {
    String::from_utf8(read(option, file, TEXT)?).map_err(|_| of_file(option, file, "is not UTF-8"))
}

/// A file that an option names.
pub(crate) fn read(option: &str, path: &Path, limit: usize) -> Result<Vec<u8>, Problem> {
    file::read_given(path, limit).map_err(|error| of_file(option, path, error))
}

/// What is wrong with a file that an option names.
pub(crate) fn of_file(option: &str, file: &Path, why: impl std::fmt::Display) -> Problem {
    usage(format!("{option}: {} {why}", file.display()))
}

pub(crate) fn usage(message: impl Into<String>) -> Problem {
    Problem::new(Phase::Usage, Kind::Usage, message)
}

/// Bytes of a prompt, of variables, of a list of servers.
pub(crate) const TEXT: usize = 16 << 20;
/// Bytes of a picture or a resource: what a line of ACP holds, encoded.
const MEDIA: usize = 24 << 20;
/// How long a pipe may be silent before we say that we read it.
const PATIENCE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_escaped() {
        assert_eq!(uri("--image", Path::new("/a b/ü#?%.txt")).unwrap(), "file:///a%20b/%C3%BC%23%3F%25.txt");
    }
}
