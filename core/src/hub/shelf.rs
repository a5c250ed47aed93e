//! The files of a hub: one small one for each session, one for each prompt that waits or can be tried again.
//!
//! No name of a file holds a word of a peer. A file of a later version is left alone; a damaged one is named, and put
//! aside by whoever reads it.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::api::{HubProblem, SessionBrief, SessionsList};
use super::book::{Book, Counters, Kept, Prompt, Record, Sid};
use super::config::{AgentKind, Stored};
use super::desk::looks::{is_listed, newest_first};
use super::memory;
use super::show;
use crate::machine::{Change, Ids, Now, Outputs, Store, StoreId};
use crate::session::TurnId;

/// Where each file goes, and which could not be written.
#[derive(Debug, Default)]
pub(super) struct Shelf {
    folder: Option<PathBuf>,
    ids: BTreeMap<File, StoreId>,
    /// Files that were removed last: a removal that fails is heard of soon, or not at all.
    removed: VecDeque<(StoreId, File)>,
    failed: BTreeSet<File>,
    counters: Counters,
}

#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum File {
    Counters,
    Session(Sid),
    Prompt(Sid, TurnId),
    Transcript(Sid),
}

/// What stands in the file of a prompt.
#[derive(Serialize, Deserialize)]
struct PromptFile<'a> {
    version: u32,
    prompt: Cow<'a, Prompt>,
}

/// The version of a prompt's file.
const VERSION: u32 = 1;
/// Removed files whose ids are known: the removals of one step are far fewer.
const REMOVED: usize = 1000;
/// The folder of sessions, the folder of prompts, and the file of numbers.
const SESSIONS: &str = "sessions";
const QUEUE: &str = "queue";
const COUNTERS: &str = "counters.json";

impl Shelf {
    pub(super) fn new(folder: Option<PathBuf>, counters: Counters) -> Self {
        Self { folder, counters, ..Self::default() }
    }

    /// Whether the disk took what it was given last.
    pub(super) fn is_well(&self) -> bool {
        self.failed.is_empty()
    }

    /// Writes what the book wants kept.
    pub(super) fn keep<E>(&mut self, kept: Kept, book: &Book, ids: &mut Ids, out: &mut Outputs<E>) {
        let file = match kept {
            Kept::Counters(counters) => {
                self.counters = counters;
                File::Counters
            }
            Kept::Session(sid) | Kept::Gone(sid) => File::Session(sid),
            Kept::Prompt(sid, turn, prompt) => {
                let bytes = prompt_file(&prompt);
                return self.put(File::Prompt(sid, turn), bytes, ids, out);
            }
            Kept::NoPrompt(sid, turn) => return self.put(File::Prompt(sid, turn), None, ids, out),
        };
        self.write(file, book, ids, out);
    }

    /// The file of a conversation.
    pub(super) fn transcript(&self, sid: Sid) -> Option<PathBuf> {
        Some(self.folder.as_ref()?.join(memory::file_name(sid)))
    }

    /// Adds to the file of a conversation.
    pub(super) fn append<E>(&mut self, sid: Sid, bytes: Vec<u8>, ids: &mut Ids, out: &mut Outputs<E>) {
        let Some(path) = self.transcript(sid) else { return };
        let id = *self.ids.entry(File::Transcript(sid)).or_insert_with(|| ids.fresh_store());
        out.store(id, Store { path, change: Change::Append { bytes: bytes.into(), mode: 0o600 } });
    }

    pub(super) fn drop_transcript<E>(&mut self, sid: Sid, ids: &mut Ids, out: &mut Outputs<E>) {
        self.put(File::Transcript(sid), None, ids, out);
    }

    /// Tries again what could not be written.
    pub(super) fn retry<E>(&mut self, book: &Book, ids: &mut Ids, out: &mut Outputs<E>) {
        for file in std::mem::take(&mut self.failed) {
            self.write(file, book, ids, out);
        }
    }

    /// A file could not be written; `false`: it is none of these.
    pub(super) fn store_failed(&mut self, id: StoreId) -> bool {
        let kept = self.ids.iter().find(|(_, of)| **of == id).map(|(file, _)| *file);
        let gone = || self.removed.iter().find(|(of, _)| *of == id).map(|(_, file)| *file);
        let file = kept.or_else(gone);
        // What was to be added is lost; the rest of the file is as it was.
        self.failed.extend(file.filter(|file| !matches!(file, File::Transcript(_))));
        file.is_some()
    }

    /// Writes a file as the book has it now.
    fn write<E>(&mut self, file: File, book: &Book, ids: &mut Ids, out: &mut Outputs<E>) {
        let bytes = match file {
            File::Counters => serde_json::to_vec(&self.counters).ok(),
            File::Session(sid) => book.record(sid).and_then(|record| serde_json::to_vec(&record).ok()),
            File::Prompt(sid, turn) => {
                let said = book.get(sid).and_then(|session| session.said(turn));
                said.and_then(|prompt| prompt_file(prompt))
            }
            File::Transcript(_) => return,
        };
        self.put(file, bytes, ids, out);
    }

    /// Writes these bytes, or removes the file.
    fn put<E>(&mut self, file: File, bytes: Option<Vec<u8>>, ids: &mut Ids, out: &mut Outputs<E>) {
        let Some(folder) = &self.folder else { return };
        let change = match bytes {
            Some(bytes) => Change::Put { bytes: bytes.into(), mode: 0o600 },
            None => Change::Remove,
        };
        let gone = change == Change::Remove;
        let id = *self.ids.entry(file).or_insert_with(|| ids.fresh_store());
        out.store(id, Store { path: path(folder, file), change });
        if gone {
            self.ids.remove(&file);
            self.removed.truncate(REMOVED - 1);
            self.removed.push_front((id, file));
        }
    }
}

fn prompt_file(prompt: &Prompt) -> Option<Vec<u8>> {
    serde_json::to_vec(&PromptFile { version: VERSION, prompt: Cow::Borrowed(prompt) }).ok()
}

fn path(folder: &Path, file: File) -> PathBuf {
    match file {
        File::Counters => folder.join(COUNTERS),
        File::Session(sid) => folder.join(SESSIONS).join(format!("{sid}.json")),
        File::Transcript(sid) => folder.join(memory::file_name(sid)),
        File::Prompt(sid, turn) => folder.join(QUEUE).join(format!("{sid}-{}.json", turn.0)),
    }
}

impl Stored {
    /// The folders, below that of the hub, whose files are to be given to [`read`](Self::read); the empty one is the
    /// hub's own.
    pub const FOLDERS: [&'static str; 3] = ["", SESSIONS, QUEUE];

    /// Reads one file, by the folder and the name that it has. What is no file of a hub is passed over.
    ///
    /// Returns whether it is damaged: it is a problem then, and is to be put aside, so that it is not written over.
    pub fn read(&mut self, folder: &str, name: &str, bytes: &[u8]) -> bool {
        let Some(stem) = name.strip_suffix(".json") else { return false };
        let read = match folder {
            "" if name == COUNTERS => serde_json::from_slice(bytes).map(|counters| self.counters = counters),
            SESSIONS => self.read_session(bytes),
            QUEUE => match number(stem) {
                Some((sid, turn)) => self.read_prompt(sid, turn, bytes),
                None => return false,
            },
            _ => return false,
        };
        let damaged = read.is_err();
        if let Err(error) = read {
            self.problems.push(HubProblem {
                id: format!("damaged:{folder}/{name}"),
                since: String::new(),
                text: format!("{folder}/{name} cannot be read: {error}"),
                next: Some(format!("it is kept as {name}.bad")),
            });
        }
        damaged
    }

    /// The rows that a hub would show which starts from this, newest first. For who looks while none runs.
    ///
    /// ```
    /// use agentline_core::Now;
    /// use agentline_core::hub::Stored;
    /// use agentline_core::hub::api::SessionsList;
    ///
    /// let mut stored = Stored::default();
    /// let record = br#"{"version":1,"session":3,"agent":"gemini","cwd":"/w","status":"running","created":{"secs":1,"nanos":0},
    ///     "active":{"secs":2,"nanos":0}}"#;
    /// assert!(!stored.read("sessions", "s3.json", record));
    /// let rows = stored.rows(Now::default(), &SessionsList { all: true, ..SessionsList::default() });
    /// assert_eq!((&*rows[0].id, rows[0].status), ("s3", agentline_core::hub::api::Status::Cancelled));
    /// ```
    #[must_use]
    pub fn rows(self, now: Now, wanted: &SessionsList) -> Vec<SessionBrief> {
        let mut book = Book::new(self.counters);
        drop(take_up(&mut book, now, self.records, self.prompts));
        let sids = newest_first(&book).into_iter().filter(|sid| is_listed(&book, now, *sid, wanted));
        let row = |sid: Sid| {
            let session = book.get(sid)?;
            let is_runner = session.can.is_some_and(|can| can.rules);
            let kind = if is_runner { AgentKind::Runner } else { AgentKind::Acp };
            let channel = show::channel(kind);
            let of = show::Agent { label: &session.home.agent, usable: false, channel };
            Some(show::session(sid, session, now.unix, now.unix, of))
        };
        sids.filter_map(row).take(wanted.limit.unwrap_or(usize::MAX)).collect()
    }

    fn read_session(&mut self, bytes: &[u8]) -> Result<(), serde_json::Error> {
        if !self.is_later(bytes)? {
            self.records.push(serde_json::from_slice::<Record>(bytes)?);
        }
        Ok(())
    }

    fn read_prompt(&mut self, sid: Sid, turn: TurnId, bytes: &[u8]) -> Result<(), serde_json::Error> {
        if !self.is_later(bytes)? {
            let PromptFile { prompt, .. } = serde_json::from_slice(bytes)?;
            self.prompts.push((sid, turn, prompt.into_owned()));
        }
        Ok(())
    }

    /// Whether another version wrote it, which is a problem, but no damage.
    fn is_later(&mut self, bytes: &[u8]) -> Result<bool, serde_json::Error> {
        #[derive(Deserialize)]
        struct Version {
            version: u32,
        }
        let Version { version } = serde_json::from_slice(bytes)?;
        let later = version != VERSION;
        if later {
            self.problems.push(HubProblem {
                id: "later_version".to_owned(),
                since: String::new(),
                text: format!("some records are of version {version}, and are not shown"),
                next: Some("use the agentline that wrote them".to_owned()),
            });
        }
        Ok(later)
    }
}

/// Takes up what is stored. The prompts whose session is not there: a disk was full when it was kept, or forgotten.
pub(super) fn take_up(
    book: &mut Book,
    now: Now,
    records: Vec<Record>,
    prompts: Vec<(Sid, TurnId, Prompt)>,
) -> Vec<(Sid, TurnId)> {
    let mut of: BTreeMap<Sid, Vec<(TurnId, Arc<Prompt>)>> = BTreeMap::new();
    for (sid, turn, prompt) in prompts {
        of.entry(sid).or_default().push((turn, Arc::new(prompt)));
    }
    for record in records {
        let mut mine = of.remove(&record.session).unwrap_or_default();
        mine.sort_by_key(|(turn, _)| *turn);
        book.take_up(now, record, mine);
    }
    of.into_iter().flat_map(|(sid, prompts)| prompts.into_iter().map(move |(turn, _)| (sid, turn))).collect()
}

fn number(stem: &str) -> Option<(Sid, TurnId)> {
    let (sid, turn) = stem.strip_prefix('s')?.split_once('-')?;
    Some((Sid(sid.parse().ok()?), TurnId(turn.parse().ok()?)))
}
