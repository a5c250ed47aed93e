//! One hub, and whatever clients, agents and the outside may do to it: no rule of theirs is kept.

use std::collections::VecDeque;
use std::time::Duration;

use agentline_core::control::server;
use agentline_core::hub::api::{Call, Who};
use agentline_core::hub::{AgentKind, AgentSpec, Caller, Command, Config, Errand, Event, Found, Hub, Stored};
use agentline_core::{Address, Exit, Group, Heard, Input, LinkId, OpenError, Peer, SpawnSpec, Tag};

use super::outside;
use crate::desk::Desk;
use crate::dice::Dice;

/// Whatever clients and agents say, however late and wrong, the hub keeps its invariants, and ends when it is told to.
///
/// # Panics
///
/// It does not.
pub fn run(data: &[u8]) {
    let mut siege = Siege::new(Dice::new(data));
    for _ in 0..400 {
        if siege.dice.is_empty() {
            break;
        }
        siege.step();
    }
    siege.end();
}

struct Siege<'d> {
    dice: Dice<'d>,
    hub: Desk<Hub>,
    clients: Vec<LinkId>,
    agents: Vec<LinkId>,
    errands: VecDeque<(Tag, Errand)>,
    pids: u32,
}

impl<'d> Siege<'d> {
    fn new(dice: Dice<'d>) -> Self {
        let mut control = server::Config::new(Address("/run/control.sock".into()));
        (control.connections, control.watch) = (3, 4000);
        let mut config = Config::new(control);
        config.state = Some("/state".into());
        config.agents = vec![spec("one", "registry"), spec("two", "manifest")];
        let mut hub = Desk::<Hub>::new(config);
        hub.heard(LinkId::FIRST, Heard::Opened(Peer::default()));
        let (clients, agents, errands) = (Vec::new(), Vec::new(), VecDeque::new());
        Self { dice, hub, clients, agents, errands, pids: 0 }
    }

    fn step(&mut self) {
        match self.dice.below(20) {
            0 => self.come(),
            1..=6 => self.ask(),
            7 | 8 => self.start(),
            9..=12 => self.say(),
            13 | 14 => self.errand(),
            15 => self.leave(),
            16 => self.odd(),
            17 => {
                let pause = self.dice.pause();
                self.hub.pass(pause);
            }
            18 => self.hub.pass(Duration::from_secs(61)),
            _ => self.come(),
        }
        let told: Vec<Event> = self.hub.events.drain(..).collect();
        for event in told {
            if let Event::Errand(tag, errand) = event {
                self.errands.push_back((tag, errand));
            }
        }
    }

    fn come(&mut self) {
        if let Some(link) = self.hub.accepting.take() {
            self.pids += 1;
            let peer = Peer { pid: (!self.dice.once_in(3)).then_some(self.pids), uid: None };
            self.hub.heard(link, Heard::Opened(peer));
            self.clients.push(link);
        }
    }

    fn client(&mut self) -> Option<LinkId> {
        self.clients.retain(|link| !self.hub.closed.contains(link));
        if self.clients.is_empty() { None } else { Some(*self.dice.pick(&self.clients)) }
    }

    fn agent(&mut self) -> Option<LinkId> {
        self.agents.retain(|link| !self.hub.closed.contains(link));
        if self.agents.is_empty() { None } else { Some(*self.dice.pick(&self.agents)) }
    }

    fn ask(&mut self) {
        let Some(client) = self.client() else { return };
        let line =
            if self.dice.once_in(12) { self.dice.bytes(40).to_vec() } else { self.request().into_bytes() };
        self.hub.send(client, &line);
        self.hub.send(client, b"\n");
    }

    fn request(&mut self) -> String {
        let dice = &mut self.dice;
        let command = if dice.once_in(30) { "no.such" } else { *dice.pick(Call::NAMES) };
        let words = |dice: &mut Dice<'_>| *dice.pick(&["s1", "s2", "s3", "a-1", "a-2", "x", "", "s999", "é"]);
        let session = words(dice);
        let approval = format!("a{}", dice.below(6));
        let agent = *dice.pick(&["one", "two", "three"]);
        let policy = *dice.pick(&["ask", "allow", "reject", "never"]);
        let mut args = format!(
            r#"{{"sessionId":"{session}","approvalId":"{approval}","agent":"{agent}","id":"{agent}","content":"c","name":"n{}","title":"t","enabled":{},"policy":"{policy}""#,
            dice.below(3),
            dice.once_in(2)
        );
        let extras = [
            r#","task":"do""#,
            r#","cwd":"/w""#,
            r#","cwd":"w""#,
            r#","decision":"allow""#,
            r#","decision":"deny""#,
            r#","optionId":"yes""#,
            r#","drop":"all""#,
            r#","drop":3"#,
            r#","release":true"#,
            r#","raw":true,"thoughts":true"#,
            r#","tail":2"#,
            r#","images":[{"mimeType":"image/png","data":"AA=="}]"#,
            r#","model":"m""#,
            r#","timeoutMs":1000"#,
            r#","whenIdle":true"#,
            r#","all":true,"limit":2"#,
            r#","options":[{"optionId":"yes","name":"y","kind":"allow_once"}]"#,
            r#","env":{"KEY":"v"}"#,
        ];
        for extra in extras {
            if dice.once_in(4) {
                args += extra;
            }
        }
        // A hub that is told to stop at once has little to show.
        let command = if command == "hub.stop" && !dice.once_in(8) { "health" } else { command };
        format!(r#"{{"command":"{command}","requestId":"r","args":{args}}}}}"#)
    }

    /// A child starts, or cannot be.
    fn start(&mut self) {
        let Some(link) = self.hub.connecting.pop_front() else { return };
        if self.dice.once_in(6) {
            return self.hub.heard(link, Heard::OpenFailed(OpenError::NotFound));
        }
        self.hub.heard(link, Heard::Opened(Peer { pid: Some(1000 + link.number()), uid: None }));
        self.agents.push(link);
        if !self.dice.once_in(8) {
            let result = r#"{"protocolVersion":1,"agentCapabilities":{"loadSession":true,"sessionCapabilities":{"list":{},"close":{}}}}"#;
            self.hub.send(link, format!("{{\"jsonrpc\":\"2.0\",\"id\":0,\"result\":{result}}}\n").as_bytes());
        }
    }

    /// An agent says something: mostly what it may.
    fn say(&mut self) {
        let Some(agent) = self.agent() else { return };
        let dice = &mut self.dice;
        let (id, session) = (dice.below(9), dice.below(3));
        let update = |update: &str| {
            format!(
                r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"a-{session}","update":{update}}}}}"#
            )
        };
        let line = match dice.below(14) {
            0..=2 => format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"sessionId":"a-{session}"}}}}"#),
            3 | 4 => format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"stopReason":"end_turn"}}}}"#),
            5 => format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32000,"message":"log in"}}}}"#),
            6 => format!(
                r#"{{"jsonrpc":"2.0","id":{id},"result":{{"sessions":[{{"sessionId":"a-{session}","cwd":"/w"}}],"nextCursor":"x"}}}}"#
            ),
            7 => {
                update(r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"hello"}}"#)
            }
            8 => update(r#"{"sessionUpdate":"user_message_chunk","content":{"type":"text","text":"echo"}}"#),
            9 => update(r#"{"sessionUpdate":"tool_call","toolCallId":"c","title":"ls","kind":"execute"}"#),
            10 => update(r#"{"sessionUpdate":"session_info_update","title":"a title"}"#),
            11 | 12 => format!(
                r#"{{"jsonrpc":"2.0","id":{},"method":"session/request_permission","params":{{"sessionId":"a-{session}","toolCall":{{"toolCallId":"c"}},"options":[{{"optionId":"yes","name":"y","kind":"allow_once"}}]}}}}"#,
                100 + id
            ),
            _ => String::from_utf8_lossy(dice.bytes(30)).into_owned(),
        };
        self.hub.send(agent, format!("{line}\n").as_bytes());
    }

    /// The outside finds something out, or answers another question.
    fn errand(&mut self) {
        let Some((tag, errand)) = self.errands.pop_front() else { return };
        let found = match errand {
            _ if self.dice.once_in(12) => Found::Folder(self.dice.once_in(2)),
            Errand::Folder(_) => Found::Folder(true),
            Errand::Discover => {
                let gone = self.dice.once_in(6);
                let agents = [spec("one", "registry"), spec("two", "manifest")];
                Found::Agents(agents.into_iter().skip(usize::from(gone)).collect(), Vec::new())
            }
            Errand::Launch { .. } if self.dice.once_in(8) => Found::Launch(Err("no".to_owned())),
            Errand::Launch { .. } => Found::Launch(Ok(Box::new(SpawnSpec::default()))),
            Errand::Enable { on, .. } => Found::Enabled(Ok(on)),
            errand @ (Errand::Rules(_) | Errand::Read(_) | Errand::File { .. }) => outside(&errand),
            Errand::Who(pid) => {
                let who = Who { pid: Some(pid), ..Who::default() };
                let parent = if self.dice.once_in(8) { 1001 } else { 1 };
                Found::Who(Caller { who, ancestors: vec![pid, parent], marked: self.dice.once_in(8) })
            }
        };
        // Refused when nobody waits for it any more.
        let _ = self.hub.command(Command::Done(tag, found));
    }

    fn leave(&mut self) {
        if self.dice.once_in(2) {
            if let Some(client) = self.client() {
                self.hub.heard(client, Heard::Eof);
            }
        } else if let Some(agent) = self.agent() {
            self.gone(agent);
        }
    }

    fn gone(&mut self, agent: LinkId) {
        for heard in [Heard::Eof, Heard::Exited(Exit::Code(1)), Heard::Group(Group::Gone)] {
            self.hub.heard(agent, heard);
        }
    }

    fn odd(&mut self) {
        let link = LinkId::from_number(u32::try_from(self.dice.below(30)).unwrap_or(0));
        let heard = [
            Heard::Written,
            Heard::WriteFailed,
            Heard::Stderr(b"warning\n"),
            Heard::Group(Group::Alive),
            Heard::Exited(Exit::Signal(9)),
            Heard::Bytes(b"{}\n"),
        ];
        let heard = *self.dice.pick(&heard);
        if link != LinkId::FIRST {
            self.hub.heard(link, heard);
        }
        let stored: Vec<_> = self.hub.stored_as.values().copied().collect();
        if let Some(id) = stored.first().filter(|_| self.dice.once_in(3)) {
            self.hub.handle(Input::StoreFailed(*id, 28));
        }
    }

    fn end(mut self) {
        // Refused when it is leaving.
        let _ = self.hub.command(Command::Stop);
        for _ in 0..60 {
            if self.hub.ended {
                break;
            }
            while let Some(link) = self.hub.connecting.pop_front() {
                self.hub.heard(link, Heard::OpenFailed(OpenError::NotFound));
            }
            for link in self.agents.clone() {
                self.gone(link);
            }
            self.hub.pass(Duration::from_secs(5));
        }
        assert!(self.hub.ended, "it does not end");
        let mut stored = Stored::default();
        for (path, (text, _)) in &self.hub.files {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let folder = path.parent().and_then(|folder| folder.strip_prefix("/state").ok());
            let folder = folder.and_then(|folder| folder.to_str()).unwrap_or_default();
            assert!(!stored.read(folder, name, text.as_bytes()), "{}: {text}", path.display());
        }
    }
}

fn spec(id: &str, origin: &str) -> AgentSpec {
    AgentSpec {
        id: id.into(),
        name: id.to_uppercase(),
        origin: origin.to_owned(),
        enabled: true,
        default: false,
        launch: Some(id.to_owned()),
        initialize: None,
        kind: AgentKind::Acp,
        host: Default::default(),
    }
}
