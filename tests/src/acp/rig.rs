//! A machine on a link that is up, spoken to line by line.

use std::fmt::Debug;
use std::time::Duration;

use agentline_core::acp::agent::{self, Agent};
use agentline_core::acp::client::{self, Client, Which};
use agentline_core::acp::{SessionId, SessionSetup};
use agentline_core::{Action, Heard, Input, LinkId, Machine, Now, Open, Output, Peer, Refused, Tag};

use super::{AgentAudit, ClientAudit};
use crate::invariants::{Checked, Checks};

/// A machine with one link, whose writes are with its peer at once, unless that is deaf.
pub struct Rig<M: Machine> {
    machine: Checked<M>,
    now: Now,
    peer: Ear,
    written: Vec<String>,
    told: Vec<M::Event>,
    done: Vec<String>,
}

/// Whether the peer reads what it is written.
enum Ear {
    Open,
    /// With the write that it left in the pipe.
    Deaf(Vec<u8>),
}

impl<M: Machine> Rig<M> {
    /// Opens the link of a machine.
    pub fn around(machine: Checked<M>) -> Self {
        let mut rig = Self {
            machine,
            now: Now::default(),
            peer: Ear::Open,
            written: Vec::new(),
            told: Vec::new(),
            done: Vec::new(),
        };
        rig.drain();
        rig.link(Heard::Opened(Peer::default()));
        rig
    }

    /// The peer writes a line.
    pub fn hear(&mut self, line: &str) {
        self.link(Heard::Bytes(format!("{line}\n").as_bytes()));
    }

    /// Something happens on the link.
    pub fn link(&mut self, heard: Heard<'_>) {
        self.input(Input::Link(LinkId::FIRST, heard));
    }

    /// Something happens.
    pub fn input(&mut self, input: Input<'_>) {
        self.machine.handle(self.now, input);
        self.drain();
    }

    /// The application asks for something.
    ///
    /// # Errors
    ///
    /// The machine refuses it.
    pub fn command(&mut self, command: M::Command) -> Result<(), Refused> {
        let done = self.machine.command(self.now, command);
        self.drain();
        done
    }

    /// The peer reads nothing more: the next write is the last.
    pub fn deafen(&mut self) {
        self.peer = Ear::Deaf(Vec::new());
    }

    /// The peer reads again, all that waits for it.
    pub fn undeafen(&mut self) {
        if let Ear::Deaf(write) = std::mem::replace(&mut self.peer, Ear::Open)
            && !write.is_empty()
        {
            self.take(write);
            self.drain();
        }
    }

    /// Time passes, and the machine is told at each of its deadlines.
    pub fn wait(&mut self, span: Duration) {
        let until = self.now.mono + span;
        while let Some((at, _)) = self.machine.deadline().filter(|(at, _)| *at <= until) {
            self.now.mono = self.now.mono.max(at);
            self.input(Input::Tick);
        }
        self.now.mono = until;
        self.input(Input::Tick);
    }

    /// The lines that were written since the last call.
    pub fn written(&mut self) -> Vec<String> {
        std::mem::take(&mut self.written)
    }

    /// The events that were told since the last call.
    pub fn told(&mut self) -> Vec<M::Event> {
        std::mem::take(&mut self.told)
    }

    /// Everything else that the machine did to its link since the last call, as it shows itself.
    pub fn done(&mut self) -> Vec<String> {
        std::mem::take(&mut self.done)
    }

    /// The one line that was written since the last call.
    ///
    /// # Panics
    ///
    /// It was none, or more than one.
    pub fn line(&mut self) -> String {
        let mut lines = self.written();
        assert_eq!(lines.len(), 1, "{lines:?}");
        lines.pop().unwrap_or_default()
    }

    /// The one event that was told since the last call.
    ///
    /// # Panics
    ///
    /// It was none, or more than one.
    pub fn event(&mut self) -> M::Event
    where
        M::Event: Debug,
    {
        let mut told = self.told();
        assert_eq!(told.len(), 1, "{told:?}");
        told.pop().expect("one event")
    }

    /// The machine.
    pub const fn machine(&self) -> &Checked<M> {
        &self.machine
    }

    /// The time.
    pub const fn now(&self) -> Now {
        self.now
    }

    fn take(&mut self, write: Vec<u8>) {
        let text = String::from_utf8(write).expect("lines are text");
        self.written.extend(text.lines().map(str::to_owned));
        self.machine.handle(self.now, Input::Link(LinkId::FIRST, Heard::Written));
    }

    fn drain(&mut self) {
        while let Some(output) = self.machine.poll() {
            match output {
                Output::Do(LinkId::FIRST, Action::Write(bytes)) => match &mut self.peer {
                    Ear::Open => self.take(bytes),
                    Ear::Deaf(write) => *write = bytes,
                },
                Output::Do(_, action) => self.done.push(format!("{action:?}")),
                Output::Store(_, store) => self.done.push(format!("{store:?}")),
                Output::End => self.done.push("End".to_owned()),
                Output::Tell(event) => self.told.push(event),
            }
        }
    }
}

impl Rig<Client> {
    /// A client whose link is up and that has sent its `initialize`, with request id 0.
    #[must_use]
    pub fn client(config: client::Config) -> Self {
        let client = Checked::new(Now::default(), (Checks::default(), config));
        Self::around(client.and_refusals().and(ClientAudit::default()))
    }

    /// A client that an agent of everything has answered.
    #[must_use]
    pub fn ready() -> Self {
        Self::ready_with(client::Config::new(Open::Given(0)), OFFERS)
    }

    /// A client that an agent with these capabilities has answered.
    #[must_use]
    pub fn ready_with(config: client::Config, offers: &str) -> Self {
        let mut rig = Self::client(config);
        rig.hear(&format!(
            r#"{{"jsonrpc":"2.0","id":0,"result":{{"protocolVersion":1,"agentCapabilities":{offers},"authMethods":[{{"id":"login","name":"Login"}},{{"id":"tty","name":"TTY","type":"terminal"}}]}}}}"#
        ));
        rig.written();
        rig.told();
        rig
    }

    /// A client with these sessions, each with modes and options; the next request id is one more than there
    /// are sessions.
    #[must_use]
    pub fn with_sessions(config: client::Config, sessions: &[&str]) -> Self {
        let mut rig = Self::ready_with(config, OFFERS);
        for (n, session) in (1..).zip(sessions) {
            let setup = SessionSetup::in_directory("/w");
            rig.command(client::Command::OpenSession { tag: Tag(1000 + n), which: Which::New, setup })
                .expect("an agent that is ready opens sessions");
            rig.hear(&format!(
                r#"{{"jsonrpc":"2.0","id":{n},"result":{{"sessionId":"{session}","modes":{{"currentModeId":"ask","availableModes":[{{"id":"ask","name":"Ask"}}]}},"configOptions":[{{"id":"m","name":"Model","type":"select","currentValue":"a","options":[{{"value":"a","name":"A"}}]}}]}}}}"#
            ));
        }
        rig.written();
        rig.told();
        rig
    }
}

impl Rig<Agent> {
    /// An agent whose link is up.
    #[must_use]
    pub fn agent(config: agent::Config) -> Self {
        let agent = Checked::new(Now::default(), (Checks::default(), config));
        Self::around(agent.and_refusals().and(AgentAudit::default()))
    }

    /// An agent that a client with these capabilities has initialized.
    #[must_use]
    pub fn greeted(config: agent::Config, offers: &str) -> Self {
        let mut rig = Self::agent(config);
        rig.hear(&format!(
            r#"{{"jsonrpc":"2.0","id":"init","method":"initialize","params":{{"protocolVersion":1,"clientCapabilities":{offers}}}}}"#
        ));
        rig.written();
        rig.told();
        rig
    }

    /// An agent with these sessions, opened by the requests `open 1`, `open 2` and so on.
    #[must_use]
    pub fn with_sessions(config: agent::Config, offers: &str, sessions: &[&str]) -> Self {
        let mut rig = Self::greeted(config, offers);
        for (n, session) in (1..).zip(sessions) {
            rig.hear(&format!(
                r#"{{"jsonrpc":"2.0","id":"open {n}","method":"session/new","params":{{"cwd":"/w","mcpServers":[]}}}}"#
            ));
            for event in rig.told() {
                if let agent::Event::Requested(asked) = event {
                    let session = SessionId::from(*session);
                    let reply = agent::Reply::SessionOpened { session, state: Default::default() };
                    rig.command(agent::Command::Reply { request: asked.request, reply })
                        .expect("the reply to a new session");
                }
            }
        }
        rig.written();
        rig.told();
        rig
    }
}

/// Everything that an agent can offer.
pub const OFFERS: &str = r#"{"loadSession":true,"promptCapabilities":{"image":true,"audio":true,"embeddedContext":true},"mcpCapabilities":{"http":true,"sse":true},"sessionCapabilities":{"list":{},"delete":{},"resume":{},"close":{},"additionalDirectories":{},"systemPrompt":{"mode":{"override":{}}}},"auth":{"logout":{}}}"#;
/// Everything that a client can offer.
pub const CLIENT_OFFERS: &str = r#"{"fs":{"readTextFile":true,"writeTextFile":true},"terminal":true,"auth":{"terminal":true},"session":{"configOptions":{"boolean":{}},"notices":{},"compaction":{}},"elicitation":{"form":{},"url":{}},"plan":{},"subagents":{}}"#;
