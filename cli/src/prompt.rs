//! What is read before anything is started: the task, and what goes with it.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, IsTerminal, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use agentline_core::acp::ContentBlock;
use agentline_core::acp::content::{EmbeddedResource, ImageContent, Resource};
use agentline_core::acp::session::McpServer;
use agentline_core::discovery::Position;
use agentline_core::problem::{Kind, Phase, Problem};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::args::{Child, Run};
use crate::output::Notes;

/// The prompt, from wherever it comes.
pub(crate) fn prompt(args: &Run) -> Result<Vec<ContentBlock>, Problem> {
    let text = match (&args.prompt, &args.prompt_file) {
        (Some(text), _) if text != "-" => text.clone(),
        (_, Some(file)) => text_of(file)?,
        (None, None) if io::stdin().is_terminal() => {
            return Err(usage("no prompt").hint("agentline run \"hello\", --prompt-file FILE, or a pipe"));
        }
        (_, None) => {
            let mut text = String::new();
            io::stdin().read_to_string(&mut text).map_err(|error| usage(format!("stdin: {error}")))?;
            text
        }
    };
    if text.trim().is_empty() {
        return Err(usage("the prompt is empty"));
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

/// The MCP servers of a file.
pub(crate) fn mcp_servers(file: &Path) -> Result<Vec<McpServer>, Problem> {
    serde_json::from_slice(&read(file)?)
        .map_err(|error| of_file(file, format_args!("no list of MCP servers ({})", Position::from(&error))))
}

/// What `-e` and `--env-file` say.
#[derive(Debug, Default)]
pub(crate) struct Variables {
    /// What the agent is given beside what it inherits.
    pub(crate) given: Vec<(OsString, OsString)>,
    /// Names of ours that were to be passed on, and are not set.
    pub(crate) unset: Vec<OsString>,
}

impl Variables {
    /// Says what may not be as it was meant.
    pub(crate) fn warn(&self, notes: &Notes) {
        for name in &self.unset {
            notes.line(&format!("! {} is not set here: the agent does not get it", name.display()));
        }
    }
}

/// The variables of a command line.
pub(crate) fn variables(args: &Child) -> Result<Variables, Problem> {
    let mut written = Vec::new();
    for file in &args.env_file {
        let bytes = read(file)?;
        let lines = bytes.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
        let lines = lines.filter(|line| !line.is_empty() && !line.starts_with(b"#"));
        written.extend(lines.map(|line| OsStr::from_bytes(line).to_owned()));
    }
    written.extend(args.env.iter().cloned());
    let mut variables = Variables::default();
    for variable in written {
        let bytes = variable.as_bytes();
        let end = bytes.iter().position(|byte| *byte == b'=').unwrap_or(bytes.len());
        let name = OsStr::from_bytes(&bytes[..end]).to_owned();
        if name.is_empty() || bytes.contains(&0) {
            return Err(usage(format!("{} is no NAME=VALUE", variable.display())));
        }
        match (bytes.get(end + 1..), std::env::var_os(&name)) {
            (Some(value), _) => variables.given.push((name, OsString::from_vec(value.to_vec()))),
            (None, Some(value)) => variables.given.push((name, value)),
            (None, None) => variables.unset.push(name),
        }
    }
    Ok(variables)
}

fn image(file: &Path) -> Result<ContentBlock, Problem> {
    let bytes = read(file)?;
    let kind = match &*bytes {
        [0x89, b'P', b'N', b'G', ..] => "image/png",
        [0xff, 0xd8, 0xff, ..] => "image/jpeg",
        [b'G', b'I', b'F', b'8', ..] => "image/gif",
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => "image/webp",
        _ => return Err(of_file(file, "is no PNG, JPEG, GIF or WebP picture")),
    };
    let data = STANDARD.encode(&bytes);
    let (uri, mime_type) = (Some(uri(file)?), kind.to_owned());
    Ok(ContentBlock::Image(ImageContent { data, mime_type, uri, annotations: None, meta: None }))
}

fn resource(file: &Path) -> Result<ContentBlock, Problem> {
    let (uri, mime_type) = (uri(file)?, None);
    let resource = match String::from_utf8(read(file)?) {
        Ok(text) => Resource::Text { uri, text, mime_type },
        Err(bytes) => Resource::Blob { uri, blob: STANDARD.encode(bytes.as_bytes()), mime_type },
    };
    Ok(ContentBlock::Resource(EmbeddedResource { resource, annotations: None, meta: None }))
}

/// The `file:` address of a path.
fn uri(file: &Path) -> Result<String, Problem> {
    let path = std::path::absolute(file).map_err(|error| of_file(file, error))?;
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

fn text_of(file: &Path) -> Result<String, Problem> {
    String::from_utf8(read(file)?).map_err(|_| of_file(file, "is not UTF-8"))
}

fn read(file: &Path) -> Result<Vec<u8>, Problem> {
    fs::read(file).map_err(|error| of_file(file, error))
}

fn of_file(file: &Path, why: impl std::fmt::Display) -> Problem {
    usage(format!("{}: {why}", file.display()))
}

pub(crate) fn usage(message: impl Into<String>) -> Problem {
    Problem::new(Phase::Usage, Kind::Usage, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_escaped() {
        assert_eq!(uri(Path::new("/a b/ü#?%.txt")).unwrap(), "file:///a%20b/%C3%BC%23%3F%25.txt");
    }
}
