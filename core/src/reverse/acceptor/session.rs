//! One session of a link: its turn, its question, and what is still to come of turns that are over.

use std::mem::take;

use crate::acp::RequestKey;
use crate::machine::Tag;
use crate::rpc::Id;

/// A session that the agent shows.
#[derive(Debug, Default)]
pub(super) struct Session {
    turn: Option<Turn>,
    due: Due,
    pub(super) question: Option<Question>,
    /// A tool call that was decided in the terminal before its question was read.
    resolved: Option<String>,
}

/// A turn that runs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Turn {
    /// Begun at the agent's own end.
    Theirs,
    /// Begun by a prompt.
    Ours(Prompt),
}

/// A prompt of ours.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Prompt {
    pub(super) tag: Tag,
    /// The number of its request.
    pub(super) number: u64,
    /// Whether the agent said `started` since.
    started: bool,
}

/// An `ended` that belongs to a turn which its answer has ended.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum Due {
    #[default]
    Nothing,
    /// The agent said no `started` either, and may never say it.
    Perhaps,
    Surely,
}

/// A question that is open.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) key: RequestKey,
    pub(super) id: Id,
    pub(super) call: String,
    pub(super) options: Vec<String>,
}

impl Session {
    pub(super) const fn turn(&self) -> Option<Turn> {
        self.turn
    }

    pub(super) const fn prompt(&self) -> Option<Prompt> {
        match self.turn {
            Some(Turn::Ours(prompt)) => Some(prompt),
            Some(Turn::Theirs) | None => None,
        }
    }

    /// A prompt is sent.
    pub(super) fn prompted(&mut self, tag: Tag, number: u64) {
        self.turn = Some(Turn::Ours(Prompt { tag, number, started: false }));
        self.resolved = None;
    }

    /// The agent says `started`. Whether a turn begins.
    pub(super) fn started(&mut self) -> bool {
        // It says one thing after the other: what was only perhaps to come would have come.
        if self.due == Due::Perhaps {
            self.due = Due::Nothing;
        }
        match &mut self.turn {
            Some(Turn::Ours(prompt)) => prompt.started = true,
            Some(Turn::Theirs) => {}
            None => {
                self.turn = Some(Turn::Theirs);
                self.resolved = None;
                return true;
            }
        }
        false
    }

    /// The agent says `ended`. The turn that is over; `Err`: it speaks of one that was over already, and another runs.
    pub(super) fn ended(&mut self) -> Result<Option<Turn>, ()> {
        let is_due = take(&mut self.due) != Due::Nothing;
        if is_due && self.turn.is_some() { Err(()) } else { Ok(self.end()) }
    }

    /// A prompt is answered. Whether its turn is over by that.
    pub(super) fn answered(&mut self, number: u64) -> Option<Prompt> {
        let prompt = self.prompt().filter(|prompt| prompt.number == number)?;
        self.end();
        self.due = if prompt.started { Due::Surely } else { Due::Perhaps };
        Some(prompt)
    }

    /// Ends the turn that runs.
    pub(super) fn end(&mut self) -> Option<Turn> {
        self.resolved = None;
        self.turn.take()
    }

    /// The terminal has decided about a tool call. Whether that is the question that is open.
    pub(super) fn resolve(&mut self, call: String) -> bool {
        let is_open = self.question.as_ref().is_some_and(|question| question.call == call);
        if !is_open {
            self.resolved = Some(call);
        }
        is_open
    }

    /// Whether the terminal has decided about that call before its question was read. Holds for one question.
    pub(super) fn is_resolved(&mut self, call: &str) -> bool {
        self.resolved.take_if(|resolved| resolved == call).is_some()
    }
}
