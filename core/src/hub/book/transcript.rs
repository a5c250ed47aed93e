//! The messages of a session, put together from pieces.

use std::collections::VecDeque;
use std::time::Duration;

use crate::acp::update::{Speaker, ToolCallUpdate, ToolStatus};
use crate::hub::api::{Origin, Role};

/// The messages of a session, newest last.
///
/// Pieces of one speaker that follow each other are one message, but never across turns. A tool call is one row, which
/// news of it change. Read again from the agent, a session has the same ids.
#[derive(Clone, Debug, Default)]
pub struct Transcript {
    entries: VecDeque<Entry>,
    bytes: usize,
    turn: u32,
    part: u32,
    /// What comes next belongs to another turn.
    fresh: bool,
}

/// A message.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// `<turn>-<part>`, or `tool-<id>`.
    pub id: String,
    /// Whose it is.
    pub role: Role,
    /// The text; of a tool, its title.
    pub text: String,
    /// The turn, counted in this session, from 1; 0 before the first.
    pub turn: u32,
    /// When its first piece came, since the Unix epoch.
    pub at: Duration,
    /// Pictures and the like.
    pub attachments: usize,
    /// How far a tool is.
    pub tool: Option<ToolStatus>,
    /// Who said it.
    pub by: Option<Origin>,
}

/// Messages that are kept of one session; the oldest go.
const ENTRIES: usize = 500;
/// Bytes of their texts and ids. Four of the longest answers that were seen.
const BYTES: usize = 4 << 20;

impl Entry {
    /// Ids of tools are agents' own, and as long as they like.
    fn bytes(&self) -> usize {
        self.id.len() + self.text.len()
    }
}

impl Transcript {
    /// The messages, oldest first.
    #[must_use]
    pub fn entries(&self) -> impl DoubleEndedIterator<Item = &Entry> + ExactSizeIterator {
        self.entries.iter()
    }

    /// The number of the newest turn.
    #[must_use]
    pub const fn turn(&self) -> u32 {
        self.turn
    }

    /// Whether nothing is kept.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// A turn begins, with its words if it was a prompt of ours.
    pub fn begin(&mut self, at: Duration, words: Option<(String, usize, Option<Origin>)>) {
        (self.turn, self.part, self.fresh) = (self.turn + 1, 0, true);
        if let Some((text, attachments, by)) = words {
            let entry = self.entry(Role::User, at);
            self.push(Entry { text, attachments, by, ..entry });
            self.fresh = true;
        }
    }

    /// A piece of text, or of something else, which then counts as an attachment. Thoughts are not kept.
    pub fn say(&mut self, speaker: Speaker, text: Option<&str>, at: Duration) {
        let role = match speaker {
            Speaker::Agent => Role::Agent,
            Speaker::User => Role::User,
            Speaker::Thought => return,
        };
        if text == Some("") {
            return;
        }
        let joins = !self.fresh && self.entries.back().is_some_and(|last| last.role == role);
        let begun = self.turn > 0 && self.part == 0;
        // In a history a person's message is what begins a turn.
        if role == Role::User && !joins && !begun {
            (self.turn, self.part) = (self.turn + 1, 0);
        }
        if !joins {
            let entry = self.entry(role, at);
            self.push(entry);
        }
        let Some(last) = self.entries.back_mut() else { return };
        match text {
            Some(text) => {
                last.text.push_str(text);
                self.bytes += text.len();
            }
            None => last.attachments += 1,
        }
        self.trim();
    }

    /// News of a tool call.
    pub fn tool(&mut self, call: &ToolCallUpdate, at: Duration) {
        let id = format!("tool-{}", call.tool_call_id);
        let known = self.entries.iter_mut().rev().find(|entry| entry.id == id);
        let known = match known {
            Some(known) => known,
            None => {
                let text = call.kind.map_or("tool", |kind| kind.as_str()).to_owned();
                let entry = Entry { id, text, tool: Some(ToolStatus::Pending), ..self.entry(Role::Tool, at) };
                self.part -= 1;
                self.push(entry);
                let Some(last) = self.entries.back_mut() else { return };
                last
            }
        };
        if let Some(title) = call.title.as_ref().filter(|title| !title.is_empty()) {
            self.bytes = self.bytes + title.len() - known.text.len();
            known.text.clone_from(title);
        }
        known.tool = call.status.or(known.tool);
        self.trim();
    }

    /// When that tool call of the newest turn was first heard of, since the Unix epoch.
    pub(in super::super) fn began(&self, tool_call_id: &str) -> Option<Duration> {
        let mut turn = self.entries.iter().rev().take_while(|entry| entry.turn == self.turn);
        turn.find(|entry| entry.id.strip_prefix("tool-") == Some(tool_call_id)).map(|entry| entry.at)
    }

    /// The agent's text of the newest turn, its messages one after the other.
    #[must_use]
    pub fn answer(&self) -> String {
        let own = self.entries.iter().rev().take_while(|entry| entry.turn == self.turn);
        let mut texts: Vec<&str> =
            own.filter(|entry| entry.role == Role::Agent).map(|entry| &*entry.text).collect();
        texts.reverse();
        texts.concat()
    }

    fn entry(&mut self, role: Role, at: Duration) -> Entry {
        self.part += 1;
        self.fresh = false;
        let id = format!("{}-{}", self.turn, self.part);
        let (text, by, tool) = (String::new(), None, None);
        Entry { id, role, text, turn: self.turn, at, attachments: 0, tool, by }
    }

    fn push(&mut self, entry: Entry) {
        self.bytes += entry.bytes();
        self.entries.push_back(entry);
        self.trim();
    }

    /// The newest message stays, whatever it has.
    fn trim(&mut self) {
        while self.entries.len() > 1 && (self.entries.len() > ENTRIES || self.bytes > BYTES) {
            let gone = self.entries.pop_front();
            self.bytes -= gone.map_or(0, |entry| entry.bytes());
        }
        if let Some(last) = self.entries.back_mut()
            && last.bytes() > BYTES
            && last.text.len() > BYTES / 2
        {
            let from = last.text.ceil_char_boundary(last.text.len() - BYTES / 2);
            let kept = last.text.split_off(from);
            self.bytes = self.bytes + kept.len() - (last.text.len() + kept.len());
            last.text = kept;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Duration = Duration::ZERO;

    fn shown(transcript: &Transcript) -> Vec<String> {
        transcript.entries().map(|entry| format!("{} {:?} {}", entry.id, entry.role, entry.text)).collect()
    }

    fn call(id: &str, title: Option<&str>) -> ToolCallUpdate {
        let title = title.map(str::to_owned);
        ToolCallUpdate { tool_call_id: id.to_owned(), title, ..ToolCallUpdate::default() }
    }

    #[test]
    fn a_session_read_again_has_the_ids_that_it_had_live() {
        let mut live = Transcript::default();
        let mut again = Transcript::default();
        for turn in 0..3 {
            live.begin(AT, Some((format!("do {turn}"), 0, None)));
            again.say(Speaker::User, Some("do "), AT);
            again.say(Speaker::User, Some(&turn.to_string()), AT);
            for it in [&mut live, &mut again] {
                it.say(Speaker::Agent, Some("so "), AT);
                it.say(Speaker::Agent, Some(""), AT);
                it.say(Speaker::Thought, Some("hm"), AT);
                it.say(Speaker::Agent, Some("be it"), AT);
                it.tool(&call("c", Some("ls")), AT);
                it.tool(&call(&format!("d{turn}"), None), AT);
                it.say(Speaker::Agent, Some("done"), AT);
            }
        }
        assert_eq!(shown(&live), shown(&again));
        let last = ["3-1 User do 2", "3-2 Agent so be it", "tool-d2 Tool tool", "3-3 Agent done"];
        assert_eq!(shown(&live)[live.entries().len() - 4..], last);
        assert_eq!(live.answer(), "so be itdone");
    }

    #[test]
    fn texts_of_two_turns_never_join() {
        let mut transcript = Transcript::default();
        transcript.begin(AT, None);
        transcript.say(Speaker::Agent, Some("a"), AT);
        transcript.begin(AT, None);
        transcript.say(Speaker::Agent, Some("b"), AT);
        assert_eq!(shown(&transcript), ["1-1 Agent a", "2-1 Agent b"]);
        assert_eq!(transcript.answer(), "b");
    }

    #[test]
    fn what_is_kept_is_bounded_and_counted_right() {
        let mut transcript = Transcript::default();
        let long = "é".repeat(1 << 20);
        for n in 0..2000 {
            let text = if n % 7 == 0 { long.as_str() } else { "x" };
            transcript.say([Speaker::Agent, Speaker::User][n % 2], Some(text), AT);
            let title = "t".repeat(n % 50);
            let id = format!("c{}{}", n % 600, if n % 11 == 0 { long.as_str() } else { "" });
            transcript.tool(&call(&id, Some(&title)), AT);
            let bytes: usize = transcript.entries().map(Entry::bytes).sum();
            assert_eq!(bytes, transcript.bytes);
            assert!(bytes <= BYTES + long.len() && transcript.entries.len() <= ENTRIES);
        }
        let mut one = Transcript::default();
        (0..10).for_each(|_| one.say(Speaker::Agent, Some(&long), AT));
        assert!(one.bytes <= BYTES && one.entries.len() == 1);
    }
}
