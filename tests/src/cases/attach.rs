//! Both ends of the attach channel, each against anything that the other end and its own side may do.

use std::time::Duration;

use agentline_core::attach::server::{Command, Event};
use agentline_core::attach::{Caller, Injection, PromptId, Server, Stop, Turn, caller, client};
use agentline_core::{Heard, LinkId, OpenError, Peer};
use serde_json::Value;

use crate::attach::{config, target};
use crate::desk::Desk;
use crate::dice::Dice;

/// Whatever clients send and a host does, everybody is answered once and in order, and a session that leaves
/// leaves nothing behind.
///
/// # Panics
///
/// That does not hold.
pub fn attach_server(data: &[u8]) {
    let mut dice = Dice::new(data);
    let mut session = Session::new();
    for _ in 0..dice.below(200) {
        session.step(&mut dice);
    }
    session.settle();
}

/// A server under any sequence of operations, with what it owes.
struct Session {
    desk: Desk<Server>,
    clients: Vec<Visitor>,
    received: Vec<PromptId>,
    running: bool,
    asked: u64,
}

struct Visitor {
    link: LinkId,
    stranger: bool,
    /// It has said its last byte.
    stopped: bool,
    /// Its end is gone: who answers it talks to nobody.
    broken: bool,
    /// The ids that it asked for, in order. `None` for what can only be complained about.
    asked: Vec<Option<u64>>,
    answers: String,
}

impl Session {
    fn new() -> Self {
        let mut config = config();
        (config.limits.connections, config.limits.strangers) = (SEATS, SEATS);
        // What becomes of those who never show a token is another suite's.
        config.limits.admission = Duration::from_secs(1 << 30);
        config.limits.link.unsent_soft = 300;
        let mut desk = Desk::new(config);
        desk.heard(LinkId::FIRST, Heard::Opened(Peer::default()));
        Self { desk, clients: Vec::new(), received: Vec::new(), running: false, asked: 0 }
    }

    fn step(&mut self, dice: &mut Dice<'_>) {
        let at = dice.below(self.clients.len());
        match dice.below(20) {
            0 | 1 => self.come(dice.once_in(4)),
            2..=4 => self.ask(at, "session/prompt"),
            5 => self.ask(at, "ping"),
            6 => self.ask(at, "session/load"),
            7 => self.ask(at, "session/cancel"),
            8 => self.stop(at),
            9 => self.shatter(at),
            10 | 11 => self.take(dice),
            12 if !self.running => self.turn(Command::TurnStarted),
            13 if self.running => {
                self.turn(Command::TurnEnded(Turn::ended(Stop::EndTurn, Some(dice.text(9)))))
            }
            18 if self.running => {
                let (why, answer) = (dice.text(9), Some(dice.text(9)));
                self.turn(Command::TurnFailed { why, answer });
            }
            14 if self.running => self.turn(Command::TurnEnded(Turn::cancelled())),
            15 => self.desk.pass(Duration::from_millis(10) * u32::from(dice.byte())),
            16 => self.babble(at, dice),
            17 => self.deafen(at),
            _ => self.hear(at),
        }
        for event in std::mem::take(&mut self.desk.events) {
            if let Event::PromptReceived { prompt, text } = event {
                assert!(self.received.last().is_none_or(|last| *last < prompt), "numbers rise");
                assert!(!text.trim().is_empty() && text.trim() == text, "{text:?}");
                self.received.push(prompt);
            }
        }
        self.read();
    }

    fn read(&mut self) {
        for client in &mut self.clients {
            client.answers += &self.desk.read(client.link);
        }
    }

    fn come(&mut self, stranger: bool) {
        let strangers = self.clients.iter().filter(|client| client.stranger && !client.stopped).count();
        let stranger = stranger && strangers + 1 < SEATS;
        let Some(link) = self.desk.accepting.take() else { return };
        self.desk.heard(link, Heard::Opened(Peer::default()));
        if !stranger {
            self.desk.send(link, HELLO);
            self.desk.read(link);
        }
        let (asked, answers) = (Vec::new(), String::new());
        self.clients.push(Visitor { link, stranger, stopped: false, broken: false, asked, answers });
    }

    fn talker(&mut self, at: usize) -> Option<&mut Visitor> {
        self.clients.get_mut(at).filter(|client| !client.stopped)
    }

    fn ask(&mut self, at: usize, method: &str) {
        let id = self.asked + 1;
        let Some(client) = self.talker(at) else { return };
        client.asked.push(Some(id));
        let link = client.link;
        let line = format!("{{\"id\":{id},\"method\":\"{method}\",\"params\":{{\"prompt\":\"x\"}}}}\n");
        self.asked = id;
        self.desk.send(link, line.as_bytes());
    }

    /// A line that is no request, whatever it holds.
    fn babble(&mut self, at: usize, dice: &mut Dice<'_>) {
        let Some(client) = self.talker(at) else { return };
        let mut line: Vec<u8> = dice.bytes(40).iter().copied().filter(|byte| *byte != b'\n').collect();
        line.splice(0..0, *b"{]");
        line.push(b'\n');
        client.asked.push(None);
        let link = client.link;
        self.desk.send(link, &line);
    }

    /// Who has said its last byte listens, or it would not be waited for.
    fn stop(&mut self, at: usize) {
        self.hear(at);
        if let Some(client) = self.talker(at) {
            client.stopped = true;
            let link = client.link;
            self.desk.heard(link, Heard::Eof);
        }
    }

    fn shatter(&mut self, at: usize) {
        if let Some(client) = self.clients.get_mut(at) {
            client.stopped = true;
            client.broken = true;
            self.desk.heard(client.link, Heard::WriteFailed);
            self.desk.heard(client.link, Heard::Eof);
        }
    }

    fn deafen(&mut self, at: usize) {
        if let Some(client) = self.talker(at) {
            let link = client.link;
            self.desk.deaf.insert(link);
        }
    }

    fn hear(&mut self, at: usize) {
        if let Some(client) = self.clients.get(at)
            && self.desk.deaf.remove(&client.link)
        {
            self.desk.heard(client.link, Heard::Written);
        }
    }

    fn take(&mut self, dice: &mut Dice<'_>) {
        let Some(prompt) = self.received.last().copied() else { return };
        let how = match dice.below(5) {
            0 => Injection::Steered,
            1 | 2 => Injection::Queued,
            3 => Injection::Unknown,
            _ => Injection::Failed("no".to_owned()),
        };
        // Refused when it is over already.
        let _ = self.desk.command(Command::Injected(prompt, how));
    }

    fn turn(&mut self, command: Command) {
        self.running = matches!(command, Command::TurnStarted);
        self.desk.run([command]);
    }

    /// However it went, everybody has got what they are owed, in order and once.
    fn settle(mut self) {
        for at in 0..self.clients.len() {
            self.hear(at);
        }
        // Each prompt that still waits in line waits its ten minutes.
        self.desk.pass(Duration::from_secs(600) * u32::try_from(1 + self.asked).unwrap_or(u32::MAX));
        self.read();
        for client in &self.clients {
            let answered: Vec<Option<u64>> = client.answers.lines().map(id).collect();
            if client.broken {
                assert!(client.asked.starts_with(&answered), "{answered:?} of {:?}", client.asked);
            } else {
                assert_eq!(answered, client.asked);
            }
            assert_eq!(client.stopped, self.desk.closed.contains(&client.link));
        }
        let seated = self.clients.iter().filter(|client| !client.stopped).count();
        assert!(self.desk.accepting.is_some() || seated == 2 * SEATS);
        self.desk.run([Command::Shutdown]);
        self.desk.pass(Duration::from_secs(5));
        assert!(self.desk.ended && self.desk.files.is_empty());
    }
}

fn id(line: &str) -> Option<u64> {
    let line: Value = serde_json::from_str(line).expect("one object a line");
    line["id"].as_u64()
}

/// Whatever a server sends, and however its connections break, each request has one answer, each cancel one
/// outcome, and the caller comes to its end.
///
/// # Panics
///
/// That does not hold.
pub fn attach_caller(data: &[u8]) {
    let mut dice = Dice::new(data);
    let mut visit = Visit { desk: Desk::new(target()), open: Vec::new(), asked: 0, cancels: 0 };
    for _ in 0..dice.below(200) {
        visit.step(&mut dice);
    }
    visit.settle();
}

/// A caller, and a server that says anything.
struct Visit {
    desk: Desk<Caller>,
    open: Vec<LinkId>,
    /// Answers that are owed.
    asked: usize,
    cancels: usize,
}

impl Visit {
    fn step(&mut self, dice: &mut Dice<'_>) {
        let link = self.open.get(dice.below(self.open.len())).copied();
        match (dice.below(14), link) {
            (0 | 1, _) => {
                if let Some(link) = self.desk.connecting.pop_front() {
                    self.open.push(link);
                    self.desk.heard(link, Heard::Opened(Peer::default()));
                }
            }
            (2, _) => {
                if let Some(link) = self.desk.connecting.pop_front() {
                    let error = *dice.pick(&[OpenError::Busy, OpenError::Refused]);
                    self.desk.heard(link, Heard::OpenFailed(error));
                }
            }
            (3, _) => self.ask(client::Command::Prompt { session: None, text: "x".to_owned() }),
            (4, _) => self.ask(client::Command::Load { session: Some("s".to_owned()) }),
            (5, _) => self.ask(client::Command::Ping),
            (6, _) => self.cancels += usize::from(self.desk.command(caller::Command::Cancel).is_ok()),
            (7, _) => self.desk.pass(Duration::from_millis(50) * u32::from(dice.byte())),
            (8..=10, Some(link)) => self.desk.send(link, answer(dice).as_bytes()),
            (11, Some(link)) => self.desk.send(link, dice.bytes(40)),
            (12, Some(link)) if dice.once_in(4) => self.desk.heard(link, Heard::Eof),
            (13, Some(link)) if dice.once_in(4) => self.desk.heard(link, Heard::WriteFailed),
            _ => {}
        }
    }

    fn ask(&mut self, ask: client::Command) {
        if self.desk.command(caller::Command::Ask(ask)).is_ok() {
            self.asked += 1;
        }
    }

    fn settle(mut self) {
        // Refused when it has ended by itself.
        let _ = self.desk.command(caller::Command::Ask(client::Command::Shutdown));
        self.desk.pass(Duration::from_secs(60));
        assert!(self.desk.ended, "it does not come to its end");
        let mut closed = 0;
        for event in std::mem::take(&mut self.desk.events) {
            match event {
                caller::Event::Said(client::Event::Answered(_)) => self.asked -= 1,
                caller::Event::Said(client::Event::Closed(_)) => closed += 1,
                caller::Event::Cancelled(_) => self.cancels -= 1,
                caller::Event::Said(client::Event::Ready(_) | client::Event::Noticed(_)) => {}
            }
        }
        assert_eq!((self.asked, self.cancels, closed), (0, 0, 1), "answers, cancels, ends");
    }
}

/// A line that may be an answer.
fn answer(dice: &mut Dice<'_>) -> String {
    const ENDS: [&str; 10] = [
        r#""result":{"protocolVersion":1,"agentInfo":{"name":"agentica","version":1}}"#,
        r#""result":{"stopReason":"end_turn","agenticaAnswer":"so"}"#,
        r#""result":{"stopReason":"cancelled"}"#,
        r#""result":{"sessionId":"s","cwd":"/","busy":true}"#,
        r#""result":{}"#,
        r#""error":{"code":-32000,"message":"no"}"#,
        r#""result":{"protocolVersion":2}"#,
        r#""result":NaN"#,
        r#""result":{"stopReason":7}"#,
        r#""method":"session/update""#,
    ];
    const IDS: [&str; 8] = ["1", "2", "3", "4", "5", "null", "NaN", "\"2\""];
    format!("{{\"jsonrpc\": \"2.0\", \"id\": {}, {}}}\n", dice.pick(&IDS), dice.pick(&ENDS))
}

const HELLO: &[u8] =
    b"{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{\"authToken\":\"5eb1\"}}\n";
/// Clients at once.
const SEATS: usize = 4;
