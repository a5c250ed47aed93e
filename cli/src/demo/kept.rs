//! What was said in each session, on disk: so the next process can load it.

use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use agentline_core::acp::SessionId;
use agentline_core::acp::update::Speaker;
use serde::{Deserialize, Serialize};

/// A folder of sessions, a file each.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    folder: PathBuf,
}

/// A piece of a conversation.
#[derive(Serialize, Deserialize)]
struct Said {
    /// Else the agent did.
    user: bool,
    text: String,
}

impl Kept {
    pub(super) fn new(folder: &Path) -> std::io::Result<Self> {
        fs::create_dir_all(folder)?;
        Ok(Self { folder: folder.to_owned() })
    }

    /// The number of the newest session.
    pub(super) fn newest(&self) -> u32 {
        let names = fs::read_dir(&self.folder).into_iter().flatten().flatten().map(|entry| entry.file_name());
        names.filter_map(|name| number(name.to_str()?)).max().unwrap_or(0)
    }

    /// A session begins.
    pub(super) fn begin(&self, session: &SessionId) {
        let _ = self.open(session, true);
    }

    /// Keeps a piece; a disk that takes none costs the next process its history.
    pub(super) fn add(&self, session: &SessionId, speaker: Speaker, text: &str) {
        let user = match speaker {
            Speaker::User => true,
            Speaker::Agent => false,
            Speaker::Thought => return,
        };
        let line = serde_json::to_string(&Said { user, text: text.to_owned() });
        if let (Some(mut file), Ok(line)) = (self.open(session, false), line) {
            let _ = writeln!(file, "{line}");
        }
    }

    /// All of a session, if there is one of that name.
    pub(super) fn read(&self, session: &SessionId) -> Option<Vec<(Speaker, String)>> {
        number(session.as_str())?;
        let file = fs::File::open(self.folder.join(session.as_str())).ok()?;
        let said = BufReader::new(file).lines().map_while(Result::ok);
        let said = said.filter_map(|line| serde_json::from_str::<Said>(&line).ok());
        let speaker = |user| if user { Speaker::User } else { Speaker::Agent };
        Some(said.map(|Said { user, text }| (speaker(user), text)).collect())
    }

    fn open(&self, session: &SessionId, new: bool) -> Option<fs::File> {
        number(session.as_str())?;
        let path = self.folder.join(session.as_str());
        OpenOptions::new().append(true).create(new).open(path).ok()
    }
}

/// The number of a session of ours: nothing else is a name of a file.
fn number(name: &str) -> Option<u32> {
    name.strip_prefix("demo-").filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))?.parse().ok()
}
