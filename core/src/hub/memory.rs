//! What is kept of conversations with runners, and given back to them: nobody else keeps it. Agents that speak ACP keep
//! their own, and nothing of theirs is written.
//!
//! One file for each session, which grows at its end: a message a line. What an agent says is written when its turn is
//! over, or has said much; what a prompt said, when it is known that the runner has it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::agents::{Run, start_failed};
use super::api::{HubProblem, Transcripts};
use super::book::{Fact, Prompt, Sid, SourceId};
use super::config::Errand;
use super::machine::Hub;
use super::open::{Expects, Pending};
use crate::acp::ContentBlock;
use crate::acp::update::Speaker;
use crate::control::{Answer, ErrorTag, Failure, Key};
use crate::galley::HistoryMessage;
use crate::limits::Limits;
use crate::machine::{Now, Time};
use crate::session::{Item, Moment, News, OfRunner, Trouble, Wish};

/// What was said and is not written yet, by session.
#[derive(Debug, Default)]
pub(super) struct Memory {
    sessions: BTreeMap<Sid, Said>,
    /// When it is looked again which files are too old.
    looks: Time,
}

/// What was said in one session.
#[derive(Debug, Default)]
struct Said {
    /// A prompt of which it is not known whether the runner has it.
    prompt: Option<Message>,
    /// What the agent said since.
    text: String,
    /// It said more before in this turn.
    goes_on: bool,
    /// Bytes of the file.
    bytes: usize,
}

/// A line of the file.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
struct Message {
    /// When it was written, since the Unix epoch.
    at: Duration,
    /// `user` or `assistant`.
    role: String,
    content: String,
    /// Files that went with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    images: Vec<String>,
    /// It is the rest of the message before.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    more: bool,
}

/// Bytes of a file.
const MOST: usize = 64 << 20;
/// An agent's words that are kept back until its turn is over.
const UNWRITTEN: usize = 64 << 10;
/// How long a conversation is kept after its last word.
const MONTH: Duration = Duration::from_secs(30 * 24 * 3600);
const DAY: Duration = Duration::from_secs(24 * 3600);
/// What a line to a runner holds besides its messages.
const ROOM: usize = 1 << 10;

impl Hub {
    /// Whether conversations with runners are written.
    const fn remembers(&self) -> bool {
        matches!(self.config.switches.transcripts, Transcripts::Runners)
    }

    /// What the book says of a session of a runner.
    pub(super) fn note_fact(&mut self, now: Now, sid: Sid, fact: &Fact) {
        if !self.runners.contains_key(&sid) || !self.remembers() {
            return;
        }
        match fact {
            Fact::Began(_, Some(prompt)) => {
                self.write_down(now, sid);
                let said = self.memory.sessions.entry(sid).or_default();
                (said.prompt, said.goes_on) = (Some(Message::of(now, prompt)), false);
            }
            Fact::NotSent(..) => {
                if let Some(said) = self.memory.sessions.get_mut(&sid) {
                    said.prompt = None;
                }
            }
            Fact::Ended(_) => self.write_down(now, sid),
            Fact::Queued(..) | Fact::Began(_, None) | Fact::Changed | Fact::Asked(_) | Fact::Settled(_) => {}
        }
    }

    /// What a runner says. Its last words may come behind the end of their turn.
    pub(super) fn note_news(&mut self, now: Now, sid: Sid, item: &Item) {
        let News::Text { speaker: Speaker::Agent, text, .. } = &item.news else { return };
        if !self.runners.contains_key(&sid) || !self.remembers() {
            return;
        }
        let said = self.memory.sessions.entry(sid).or_default();
        said.text += text;
        if said.text.len() >= UNWRITTEN || item.moment == Moment::Between {
            self.write_down(now, sid);
        }
    }

    /// Writes what is known by now.
    fn write_down(&mut self, now: Now, sid: Sid) {
        // What was said last is told after a session was deleted, and its file with it.
        if self.book.get(sid).is_none() {
            self.memory.sessions.remove(&sid);
        }
        let Some(said) = self.memory.sessions.get_mut(&sid) else { return };
        let text = std::mem::take(&mut said.text);
        let more = said.goes_on;
        let words = (!text.is_empty()).then(|| Message {
            at: now.unix,
            role: "assistant".to_owned(),
            content: text,
            images: Vec::new(),
            more,
        });
        said.goes_on |= words.is_some();
        let mut lines = Vec::new();
        for message in said.prompt.take().into_iter().chain(words) {
            lines.extend(serde_json::to_vec(&message).unwrap_or_default());
            lines.push(b'\n');
        }
        if lines.is_empty() {
            return;
        }
        if said.bytes + lines.len() > MOST {
            let text = format!("the conversation of {sid} has 64 MiB, and no more of it is written");
            let next = Some("session new begins another one".to_owned());
            let id = format!("transcript:{sid}");
            return self.problem(now, HubProblem { id, since: String::new(), text, next });
        }
        said.bytes += lines.len();
        self.shelf.append(sid, lines, &mut self.ids, &mut self.out);
    }

    /// A runner is ready: one that had a process before is told what was said.
    pub(super) fn recall(&mut self, now: Now, source: SourceId, sid: Sid) {
        let is_new = self.book.get(sid).is_none_or(|session| session.name.is_none());
        let path = self.shelf.transcript(sid).filter(|_| self.remembers());
        match path {
            _ if is_new => self.open_runner(now, source, sid),
            Some(path) => self.errand(Errand::Read(path), Pending::Recall(source, sid)),
            None => self.open_without(now, source, sid, "transcripts are off"),
        }
    }

    fn open_without(&mut self, now: Now, source: SourceId, sid: Sid, why: &str) {
        let notice = format!("the agent goes on without what was said before: {why}");
        if let Some(runner) = self.runners.get_mut(&sid) {
            runner.notice = Some(notice);
        }
        self.open_runner(now, source, sid);
    }

    /// What was said before is known.
    pub(super) fn recalled(&mut self, now: Now, source: SourceId, sid: Sid, read: Result<Vec<u8>, String>) {
        let waits = self.runners.get(&sid).is_some_and(|runner| runner.run == Run::Up(source));
        if !waits || !self.book.get(sid).is_some_and(super::book::Session::is_wanted) {
            return;
        }
        let bytes = match read {
            Ok(bytes) => bytes,
            Err(why) => return self.open_without(now, source, sid, &why),
        };
        self.memory.sessions.entry(sid).or_default().bytes = bytes.len();
        let (messages, damaged) = Message::read(&bytes);
        if messages.is_empty() {
            return self.open_without(now, source, sid, "nothing of it is stored");
        }
        self.replay(now, sid, &messages);
        let (history, left_out) = history(messages);
        if history.is_empty() {
            return self.open_runner(now, source, sid);
        }
        let mut notices = Vec::new();
        if left_out > 0 {
            notices.push(format!("the agent is not told the first {left_out} messages: they are too many"));
        }
        if damaged > 0 {
            notices.push(format!("{damaged} lines of what was said before cannot be read"));
        }
        if let Some(runner) = self.runners.get_mut(&sid) {
            runner.notice = (!notices.is_empty()).then(|| notices.join("; "));
        }
        let wish = Wish::OfRunner(OfRunner::History(history));
        if let Err(refused) = self.wish(now, source, wish, Expects::History(sid)) {
            self.cannot_open(now, sid, start_failed("refused", refused.to_string()));
        }
    }

    /// It knows it, or not.
    pub(super) fn was_recalled(&mut self, now: Now, source: SourceId, sid: Sid, done: Result<(), Trouble>) {
        match done {
            Ok(()) => self.open_runner(now, source, sid),
            Err(trouble) => self.open_without(now, source, sid, &trouble.message),
        }
    }

    /// Readers see what was said before, unless they do already.
    fn replay(&mut self, now: Now, sid: Sid, messages: &[Message]) {
        if self.book.get(sid).is_some_and(|session| session.story.complete) {
            return;
        }
        self.book.reread(sid);
        let mut last = None;
        for message in messages {
            let speaker = if message.is_prompt() { Speaker::User } else { Speaker::Agent };
            // Two of one side are one message to readers.
            let gap = if last == Some(speaker) { "\n\n" } else { "" };
            last = Some(speaker);
            let news = News::Text { speaker, message: None, text: format!("{gap}{}", message.content) };
            let item =
                Item { session: sid.to_string().as_str().into(), moment: Moment::Replay, news, raw: None };
            self.book.news(now, sid, SourceId(0), &item);
        }
        self.book.reread_over(sid);
    }

    /// Somebody wants to see a conversation of which nothing is in memory.
    pub(super) fn show_stored(&mut self, key: Key, sid: Sid, tail: Option<usize>) -> bool {
        let Some(session) = self.book.get(sid) else { return false };
        let is_runners = session.can.is_some_and(|can| can.rules) && session.name.is_some();
        let path = self.shelf.transcript(sid).filter(|_| is_runners && self.remembers());
        let Some(path) = path.filter(|_| !session.story.complete && session.driver().is_none()) else {
            return false;
        };
        self.errand(Errand::Read(path), Pending::Show(key, sid, tail));
        true
    }

    /// What was said before is known, for whoever wants to see it.
    pub(super) fn shown_stored(
        &mut self,
        now: Now,
        key: Key,
        (sid, tail): (Sid, Option<usize>),
        read: Result<Vec<u8>, String>,
    ) {
        match read {
            Ok(bytes) => {
                self.replay(now, sid, &Message::read(&bytes).0);
                let messages = self.book.get(sid).map(|it| super::show::messages(sid, it, tail));
                self.answer(now, key, Answer::reply(&messages.unwrap_or_default()));
            }
            Err(why) => self.fail(now, key, Failure::new(ErrorTag::RunnerError, why)),
        }
    }

    /// Conversations that are over for long are removed, once a day.
    pub(super) fn forget_conversations(&mut self, now: Now) {
        if now.mono < self.memory.looks || !self.book.may_forget(now) {
            return;
        }
        self.memory.looks = now.mono + DAY;
        let is_old = |session: &super::book::Session| {
            session.can.is_some_and(|can| can.rules) && now.unix.saturating_sub(session.active) > MONTH
        };
        let old: Vec<Sid> =
            self.book.sessions().filter(|(_, session)| is_old(session)).map(|(sid, _)| sid).collect();
        for sid in old {
            if !self.runners.contains_key(&sid) {
                self.forget_conversation(sid);
            }
        }
    }

    pub(super) fn forget_conversation(&mut self, sid: Sid) {
        self.memory.sessions.remove(&sid);
        self.problems.remove(&format!("transcript:{sid}"));
        self.shelf.drop_transcript(sid, &mut self.ids, &mut self.out);
    }
}

impl Message {
    fn of(now: Now, prompt: &Prompt) -> Self {
        let images = prompt.words.iter().filter_map(|block| match block {
            ContentBlock::Image(image) => image.uri.clone(),
            ContentBlock::Text(_)
            | ContentBlock::Audio(_)
            | ContentBlock::Resource(_)
            | ContentBlock::ResourceLink(_)
            | ContentBlock::Unknown(_) => None,
        });
        let (at, role, content) = (now.unix, "user".to_owned(), prompt.text());
        Self { at, role, content, images: images.collect(), more: false }
    }

    fn is_prompt(&self) -> bool {
        self.role == "user"
    }

    /// The messages of a file, and how many lines of it are none: a write that was cut short leaves one.
    fn read(bytes: &[u8]) -> (Vec<Self>, usize) {
        let (mut messages, mut damaged) = (Vec::<Self>::new(), 0);
        for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let Ok(message) = serde_json::from_slice::<Self>(line) else {
                damaged += 1;
                continue;
            };
            let last = messages.last_mut().filter(|last| last.role == message.role);
            match last {
                Some(last) if message.more => last.content += &message.content,
                // It was tried again.
                Some(last) if last.is_prompt() && last.content == message.content => {}
                Some(_) | None => messages.push(message),
            }
        }
        (messages, damaged)
    }
}

/// The newest messages that fit one line, and how many do not. A prompt that nobody answered is said again, or not.
fn history(mut messages: Vec<Message>) -> (Vec<HistoryMessage>, usize) {
    while messages.pop_if(|last| last.is_prompt()).is_some() {}
    let count = messages.len();
    let mut room = Limits::default().line - ROOM;
    let mut history = Vec::new();
    for message in messages.into_iter().rev() {
        let images = message.images;
        let message = HistoryMessage { images, ..HistoryMessage::text(&message.role, &message.content) };
        let length = serde_json::to_vec(&message).map_or(0, |bytes| bytes.len() + 1);
        if length > room {
            break;
        }
        room -= length;
        history.push(message);
    }
    history.reverse();
    let left_out = count - history.len();
    (history, left_out)
}

/// Where the files of conversations are.
pub(super) fn file_name(sid: Sid) -> PathBuf {
    PathBuf::from(FOLDER).join(format!("{sid}.ndjson"))
}

const FOLDER: &str = "transcripts";

#[cfg(test)]
mod tests {
    use super::*;

    fn line(role: &str, content: &str, more: bool) -> String {
        let (role, content) = (role.to_owned(), content.to_owned());
        let message = Message { at: Duration::ZERO, role, content, images: Vec::new(), more };
        serde_json::to_string(&message).expect("JSON") + "\n"
    }

    #[test]
    fn a_message_in_pieces_is_one_and_a_torn_line_is_counted() {
        let file = [
            line("user", "q", false),
            line("assistant", "a", false),
            line("assistant", "b", true),
            "{\"role\":\"us\n\n".to_owned(),
            line("user", "q2", true),
            line("user", "q2", false),
        ];
        let (messages, damaged) = Message::read(file.concat().as_bytes());
        let said: Vec<(&str, &str)> = messages.iter().map(|it| (&*it.role, &*it.content)).collect();
        assert_eq!((said, damaged), (vec![("user", "q"), ("assistant", "ab"), ("user", "q2")], 1));
    }

    #[test]
    fn of_a_history_that_is_too_long_the_oldest_are_left_out() {
        let message = |content: String| Message {
            at: Duration::ZERO,
            role: "assistant".to_owned(),
            content,
            images: Vec::new(),
            more: false,
        };
        let third = "x".repeat(Limits::default().line / 3);
        let all = vec![message(third.clone()), message(third.clone()), message(third), message("new".into())];
        let prompt = Message { role: "user".to_owned(), ..message("unanswered".into()) };
        let all = [all, vec![prompt]].concat();
        let (history, left_out) = history(all);
        assert_eq!((history.len(), left_out), (3, 1));
        assert_eq!(history[2].content.get(), "\"new\"");
    }
}
