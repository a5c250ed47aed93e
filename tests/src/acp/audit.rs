//! What holds for the two roles of ACP, beside what holds for every machine.

use std::collections::{BTreeMap, BTreeSet};

use agentline_core::acp::RequestKey;
use agentline_core::acp::agent::{self, Agent, TurnKey};
use agentline_core::acp::client::{self, Client};
use agentline_core::lines::{Line, Lines};
use agentline_core::rpc::{self, After, Frame, Id};
use agentline_core::{Action, Heard, Input, Limits, LinkId, Output, Refused, Tag};

use crate::invariants::Audit;

/// Each accepted prompt ends once, each accepted request is answered once, each question of the agent is
/// answered or withdrawn once, on the wire as for the application.
#[derive(Debug, Default)]
pub struct ClientAudit {
    wire: Wire,
    prompts: Open<Tag>,
    requests: Open<Tag>,
    questions: Open<RequestKey>,
    asked: Option<client::Command>,
    ready: bool,
    closed: bool,
}

/// Each turn ends once, each request of the client is answered or withdrawn once, each question of ours is
/// answered once, and a turn that was cancelled ends as cancelled.
#[derive(Debug, Default)]
pub struct AgentAudit {
    wire: Wire,
    turns: Open<TurnKey>,
    cancelled: BTreeSet<TurnKey>,
    requests: Open<RequestKey>,
    questions: Open<Tag>,
    asked: Option<agent::Command>,
    closed: bool,
}

/// Things that are opened and closed, each once at a time.
#[derive(Debug)]
struct Open<K>(BTreeSet<K>);

impl<K> Default for Open<K> {
    fn default() -> Self {
        Self(BTreeSet::new())
    }
}

impl<K: Ord + Copy + std::fmt::Debug> Open<K> {
    fn open(&mut self, key: K) {
        assert!(self.0.insert(key), "{key:?} opened twice");
    }

    fn close(&mut self, key: K) {
        assert!(self.0.remove(&key), "{key:?} closed, and it was not open");
    }
}

impl ClientAudit {
    /// For a client with these limits.
    #[must_use]
    pub fn within(limits: &Limits) -> Self {
        Self { wire: Wire::within(limits), ..Self::default() }
    }
}

impl AgentAudit {
    /// For an agent with these limits.
    #[must_use]
    pub fn within(limits: &Limits) -> Self {
        Self { wire: Wire::within(limits), ..Self::default() }
    }
}

impl Audit<Client> for ClientAudit {
    fn command(&mut self, command: &client::Command) {
        use client::Command as C;
        self.asked = Some(command.clone());
        match command {
            // A tag that is in use is refused, which is seen below.
            C::Prompt { tag, .. } if !self.uses(*tag) => self.prompts.open(*tag),
            C::Authenticate { tag, .. }
            | C::Logout { tag }
            | C::OpenSession { tag, .. }
            | C::ListSessions { tag, .. }
            | C::CloseSession { tag, .. }
            | C::DeleteSession { tag, .. }
            | C::SetMode { tag, .. }
            | C::SetModel { tag, .. }
            | C::SetOption { tag, .. }
            | C::Call { tag, .. }
                if !self.uses(*tag) =>
            {
                self.requests.open(*tag);
            }
            C::Answer { request, .. } | C::Reply { request, .. } | C::Fail { request, .. }
                if self.questions.0.contains(request) =>
            {
                self.questions.close(*request);
            }
            C::Shutdown | C::Hasten => self.wire.leaving = true,
            C::Prompt { .. }
            | C::Authenticate { .. }
            | C::Logout { .. }
            | C::OpenSession { .. }
            | C::ListSessions { .. }
            | C::CloseSession { .. }
            | C::DeleteSession { .. }
            | C::SetMode { .. }
            | C::SetModel { .. }
            | C::SetOption { .. }
            | C::Call { .. }
            | C::Answer { .. }
            | C::Reply { .. }
            | C::Fail { .. }
            | C::Cancel { .. }
            | C::Notify { .. }
            | C::Withdraw { .. } => self.asked = None,
        }
    }

    fn refused(&mut self, _: Refused) {
        use client::Command as C;
        match self.asked.take() {
            Some(C::Prompt { tag, .. }) => self.prompts.close(tag),
            Some(
                C::Authenticate { tag, .. }
                | C::Logout { tag }
                | C::OpenSession { tag, .. }
                | C::ListSessions { tag, .. }
                | C::CloseSession { tag, .. }
                | C::DeleteSession { tag, .. }
                | C::SetMode { tag, .. }
                | C::SetModel { tag, .. }
                | C::SetOption { tag, .. }
                | C::Call { tag, .. },
            ) => self.requests.close(tag),
            Some(C::Answer { request, .. } | C::Reply { request, .. } | C::Fail { request, .. }) => {
                self.questions.open(request);
            }
            Some(C::Cancel { .. } | C::Notify { .. } | C::Withdraw { .. } | C::Shutdown | C::Hasten)
            | None => {}
        }
    }

    fn input(&mut self, input: Input<'_>) {
        self.wire.input(input);
    }

    fn output(&mut self, output: &Output<client::Event>) {
        use client::Event as E;
        self.wire.output(output);
        let Output::Tell(event) = output else { return };
        assert!(!self.closed, "an event after Closed: {event:?}");
        match event {
            E::Ready(_) => assert!(!std::mem::replace(&mut self.ready, true), "ready twice"),
            E::TurnEnded(ended) => self.prompts.close(ended.tag),
            E::Answered(tag, _) | E::Failed(tag, _) => self.requests.close(*tag),
            E::PermissionAsked(asked) => self.questions.open(asked.request),
            E::Requested(asked) => self.questions.open(asked.request),
            E::Withdrawn(key) => self.questions.close(*key),
            E::Closed(_) => self.closed = true,
            E::Line(_) | E::Text(_) | E::Updated(_) | E::Notified(_) | E::Stderr(_) | E::Noticed(_) => {}
        }
    }

    fn settled(&mut self, client: &Client) {
        self.wire.settled(client.unsent(), self.questions.0.len());
    }

    fn ended(&mut self) {
        assert!(self.closed, "ended without Closed");
        assert!(self.prompts.0.is_empty(), "prompts that never ended: {:?}", self.prompts);
        assert!(self.requests.0.is_empty(), "requests that were never answered: {:?}", self.requests);
        assert!(self.questions.0.is_empty(), "questions that were never withdrawn: {:?}", self.questions);
    }
}

impl ClientAudit {
    fn uses(&mut self, tag: Tag) -> bool {
        let used = self.prompts.0.contains(&tag) || self.requests.0.contains(&tag);
        if used {
            self.asked = None;
        }
        used
    }
}

impl Audit<Agent> for AgentAudit {
    fn command(&mut self, command: &agent::Command) {
        use agent::Command as C;
        self.asked = Some(command.clone());
        match command {
            C::Reply { request, .. } | C::Fail { request, .. } if self.requests.0.contains(request) => {
                self.requests.close(*request);
            }
            C::EndTurn { turn, .. } | C::FailTurn { turn, .. } if self.turns.0.contains(turn) => {
                self.turns.close(*turn);
            }
            C::AskPermission { tag, .. } | C::Request { tag, .. } if !self.questions.0.contains(tag) => {
                self.questions.open(*tag);
            }
            C::Shutdown => self.wire.leaving = true,
            C::Reply { .. }
            | C::Fail { .. }
            | C::EndTurn { .. }
            | C::FailTurn { .. }
            | C::AskPermission { .. }
            | C::Request { .. }
            | C::Greet(_)
            | C::Say { .. }
            | C::Tell { .. }
            | C::Report { .. }
            | C::Announce { .. }
            | C::Withdraw { .. }
            | C::CompleteElicitation { .. }
            | C::Notify { .. } => self.asked = None,
        }
    }

    fn refused(&mut self, _: Refused) {
        use agent::Command as C;
        match self.asked.take() {
            Some(C::Reply { request, .. } | C::Fail { request, .. }) => self.requests.open(request),
            Some(C::EndTurn { turn, .. } | C::FailTurn { turn, .. }) => self.turns.open(turn),
            Some(C::AskPermission { tag, .. } | C::Request { tag, .. }) => self.questions.close(tag),
            Some(
                C::Greet(_)
                | C::Say { .. }
                | C::Tell { .. }
                | C::Report { .. }
                | C::Announce { .. }
                | C::Withdraw { .. }
                | C::Notify { .. }
                | C::CompleteElicitation { .. }
                | C::Shutdown,
            )
            | None => {}
        }
    }

    fn input(&mut self, input: Input<'_>) {
        self.wire.input(input);
    }

    fn output(&mut self, output: &Output<agent::Event>) {
        use agent::Event as E;
        self.wire.output(output);
        let Output::Tell(event) = output else { return };
        assert!(!self.closed, "an event after Closed: {event:?}");
        match event {
            E::Prompted(prompted) => self.turns.open(prompted.turn),
            E::TurnOver(turn) => self.turns.close(*turn),
            E::Cancelled(turn) => {
                assert!(self.turns.0.contains(turn), "{turn:?} cancelled, and it was not open");
                assert!(self.cancelled.insert(*turn), "{turn:?} cancelled twice");
            }
            E::Requested(asked) => self.requests.open(asked.request),
            E::Withdrawn(key) => self.requests.close(*key),
            E::PermissionAnswered(tag, _) | E::Served(tag, _) => self.questions.close(*tag),
            E::Closed(_) => self.closed = true,
            E::Initialized(_) | E::Crowded | E::Drained | E::Notified(_) | E::Noticed(_) => {}
        }
    }

    fn settled(&mut self, agent: &Agent) {
        let open = self.turns.0.len() + self.requests.0.len() + usize::from(agent.is_to_greet());
        self.wire.settled(agent.unsent(), open);
    }

    fn ended(&mut self) {
        assert!(self.closed, "ended without Closed");
        assert!(self.turns.0.is_empty(), "turns that never ended: {:?}", self.turns);
        assert!(self.requests.0.is_empty(), "requests that nobody answered: {:?}", self.requests);
        assert!(self.questions.0.is_empty(), "questions without an answer: {:?}", self.questions);
    }
}

/// Requests of the peer by id: how often each was heard and not yet answered.
#[derive(Debug)]
struct Wire {
    lines: Lines,
    depth: usize,
    unanswered: BTreeMap<Id, usize>,
    asked: BTreeSet<u64>,
    /// Nothing is promised any more.
    leaving: bool,
    /// Bytes that may be unsent.
    most: usize,
}

impl Default for Wire {
    fn default() -> Self {
        Self::within(&Limits::default())
    }
}

impl Wire {
    fn within(limits: &Limits) -> Self {
        Self {
            lines: Lines::new(limits.line),
            depth: limits.depth,
            unanswered: BTreeMap::new(),
            asked: BTreeSet::new(),
            leaving: false,
            // A line that is one too many, and an answer to whatever is open, each of which echoes its id.
            most: limits.unsent_hard + (1 + limits.peer_requests) * (limits.line + 200),
        }
    }

    fn input(&mut self, input: Input<'_>) {
        match input {
            Input::Link(LinkId::FIRST, Heard::Bytes(bytes)) => {
                let mut lines = std::mem::replace(&mut self.lines, Lines::new(0));
                let mut feed = lines.feed(bytes);
                while let Some(line) = feed.next() {
                    self.heard(line);
                }
                self.lines = lines;
            }
            Input::Link(LinkId::FIRST, Heard::Eof) => {
                let mut lines = std::mem::replace(&mut self.lines, Lines::new(0));
                if let Some(line) = lines.feed(b"\n").next() {
                    self.heard(line);
                }
                self.leaving = true;
            }
            Input::Link(LinkId::FIRST, Heard::WriteFailed) => self.leaving = true,
            Input::Link(..) | Input::Tick | Input::Hold(_) | Input::StoreFailed(..) => {}
        }
    }

    fn heard(&mut self, line: Line<'_>) {
        let id = rpc::read(line, self.depth, |frame| match frame {
            Frame::Request { id, .. } => Some(id),
            Frame::Malformed(flaw) => {
                self.leaving |= flaw.after == After::End;
                // Answered by an agent, not by a client; of either there may be more than are counted.
                flaw.answer.map(|_| flaw.id)
            }
            Frame::Notification { .. } | Frame::Response { .. } | Frame::Complaint(_) => None,
        });
        if let Some(id) = id {
            *self.unanswered.entry(id).or_default() += 1;
        }
    }

    fn output<E>(&mut self, output: &Output<E>) {
        match output {
            Output::Do(LinkId::FIRST, Action::Write(bytes)) => {
                for line in std::str::from_utf8(bytes).unwrap_or_default().lines() {
                    self.wrote(line);
                }
            }
            Output::Do(LinkId::FIRST, Action::CloseWrite | Action::Close) => self.leaving = true,
            Output::Do(..) | Output::Store(..) | Output::Tell(_) | Output::End => {}
        }
    }

    fn wrote(&mut self, line: &str) {
        match rpc::parse(line, 128) {
            Frame::Request { id, .. } => {
                let number = id.number().expect("our ids are numbers");
                assert!(self.asked.insert(number), "id {number} used twice");
            }
            Frame::Response { id, .. } => self.answered(&id, line),
            // An error that names no request answers one of id null, or a line that is none. Those are many.
            Frame::Complaint(_) => {
                if let Some(open) = self.unanswered.get_mut(&Id::null()) {
                    *open = open.saturating_sub(1);
                }
            }
            Frame::Notification { .. } => {}
            // The result of a request of id null names no request either.
            Frame::Malformed(flaw) if flaw.why == "a result for no request" => {
                self.answered(&Id::null(), line)
            }
            Frame::Malformed(flaw) => panic!("{} in {line}", flaw.why),
        }
    }

    fn answered(&mut self, id: &Id, line: &str) {
        let open = self.unanswered.get_mut(id).filter(|open| **open > 0);
        *open.unwrap_or_else(|| panic!("an answer to nothing: {line}")) -= 1;
    }

    /// When all is written, what is unanswered is what the application was asked.
    fn settled(&self, unsent: usize, open: usize) {
        assert!(unsent <= self.most, "{unsent} bytes are unsent");
        if self.leaving || unsent > 0 {
            return;
        }
        let (of_nobody, named): (Vec<_>, Vec<_>) =
            self.unanswered.iter().partition(|(id, _)| **id == Id::null());
        let named: usize = named.iter().map(|(_, count)| **count).sum();
        let of_nobody: usize = of_nobody.iter().map(|(_, count)| **count).sum();
        assert!(
            (named..=named + of_nobody).contains(&open),
            "{open} open for the application, and on the wire: {:?}",
            self.unanswered
        );
    }
}
