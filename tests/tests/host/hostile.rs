//! An agent that asks for anything, in any order, of a client whose commands do anything: nothing is kept without
//! bound, each request is answered once, and nobody is left.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use agentline_core::acp::{ContentBlock, RequestKey, SessionSetup, client};
use agentline_core::conversation::{Command, Config, Conversation, Event, Questions};
use agentline_core::host::{self, FileError, Files, Terminals};
use agentline_core::{
    Action, Exit, Group, Heard, Input, LinkId, Machine, Now, Open, OpenError, Output, Peer, Signal, rules,
};
use agentline_tests::{Checked, Checks, Dice, dice};
use serde_json::{Value, json};

/// Commands at once.
const MOST: usize = 3;
/// Bytes of output that are kept.
const KEEP: usize = 16;

/// A conversation, and whoever plays everything around it.
struct Siege {
    conversation: Checked<Conversation>,
    now: Now,
    /// Commands, and whether each lives.
    commands: BTreeMap<LinkId, bool>,
    /// Requests of the agent that wait for an answer.
    open: BTreeSet<u64>,
    asked: u64,
    answered: u64,
    files: Vec<RequestKey>,
    questions: Vec<RequestKey>,
    heard: Vec<(LinkId, Given)>,
    over: bool,
}

/// What is heard next.
enum Given {
    Opened,
    Failed,
    Written,
    Exited(Exit),
    Eof,
    Group(Group),
}

impl Siege {
    fn new() -> Self {
        let setup = SessionSetup::in_directory("/w");
        let mut config = Config::new(client::Config::new(Open::Given(0)), setup);
        config.host = host::Config {
            terminals: Some(Terminals { env: Vec::new(), most: MOST, output: KEEP }),
            files: Some(Files { limit: 64 }),
        };
        let list =
            r#"{"rules":[{"kind":"execute","command":"ask","then":"ask"},{"command":"no","then":"reject"}]}"#;
        config.rules.own = rules::rules(list.as_bytes(), "own").expect("rules");
        config.questions = Questions::Ask;
        let now = Now::default();
        let conversation = Checked::around(Conversation::new(now, config), Checks::default());
        let mut siege = Self {
            conversation,
            now,
            commands: BTreeMap::new(),
            open: BTreeSet::new(),
            asked: 1000,
            answered: 0,
            files: Vec::new(),
            questions: Vec::new(),
            heard: Vec::new(),
            over: false,
        };
        siege.drain();
        siege.quieten();
        for (id, result) in [(0, json!({ "protocolVersion": 1 })), (1, json!({ "sessionId": "s" }))] {
            siege.say(&json!({ "jsonrpc": "2.0", "id": id, "result": result }));
            siege.quieten();
        }
        siege.command(Command::Prompt(vec![ContentBlock::text("go")]));
        siege
    }

    fn say(&mut self, message: &Value) {
        let line = format!("{message}\n");
        self.hear(LinkId::FIRST, Heard::Bytes(line.as_bytes()));
    }

    fn hear(&mut self, link: LinkId, heard: Heard<'_>) {
        self.conversation.handle(self.now, Input::Link(link, heard));
        self.drain();
    }

    fn command(&mut self, command: Command) {
        // Refused when it is moot.
        let _ = self.conversation.command(self.now, command);
        self.drain();
    }

    fn drain(&mut self) {
        while let Some(output) = self.conversation.poll() {
            match output {
                Output::Do(link, action) => self.perform(link, action),
                Output::Tell(Event::FileWanted(wanted)) => self.files.push(wanted.request),
                Output::Tell(Event::PermissionAsked(asked)) => self.questions.push(asked.request),
                Output::Tell(_) => {}
                Output::Store(..) => panic!("no file is kept"),
                Output::End => self.over = true,
            }
        }
        assert!(self.commands.len() <= MOST, "{:?}", self.commands);
    }

    fn perform(&mut self, link: LinkId, action: Action) {
        let is_command = self.commands.contains_key(&link);
        match action {
            Action::Open(Open::Spawn(_)) => {
                self.commands.insert(link, false);
                self.heard.push((link, Given::Opened));
            }
            Action::Open(_) => self.heard.push((link, Given::Opened)),
            Action::Write(bytes) => {
                for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                    self.read(&serde_json::from_slice(line).expect("JSON"));
                }
                self.heard.push((link, Given::Written));
            }
            Action::Signal(signal) if is_command && signal == Signal::Kill => {
                self.commands.insert(link, false);
                self.heard.extend([(link, Given::Exited(Exit::Signal(9))), (link, Given::Eof)]);
            }
            Action::Probe => {
                let group = if self.commands.get(&link) == Some(&true) { Group::Alive } else { Group::Gone };
                self.heard.push((link, Given::Group(group)));
            }
            Action::CloseWrite if !is_command => self.heard.push((link, Given::Eof)),
            Action::Close => drop(self.commands.remove(&link)),
            Action::CloseWrite | Action::Signal(_) | Action::Read(_) => {}
        }
    }

    /// What the agent is told.
    fn read(&mut self, message: &Value) {
        if message["method"].is_string() {
            return;
        }
        let id = message["id"].as_u64().expect("an id");
        assert!(self.open.remove(&id), "a second answer to {id}");
        self.answered += 1;
        if let Some(output) = message["result"]["output"].as_str() {
            assert!(output.len() <= KEEP, "{output}");
        }
    }

    /// Whatever waits is heard.
    fn quieten(&mut self) {
        while !self.heard.is_empty() {
            self.next(0);
        }
    }

    fn next(&mut self, at: usize) {
        let (link, given) = self.heard.remove(at);
        match given {
            Given::Opened => {
                self.commands.entry(link).and_modify(|lives| *lives = true);
                self.hear(link, Heard::Opened(Peer::default()));
            }
            Given::Failed => {
                self.hear(link, Heard::OpenFailed(OpenError::NotFound));
            }
            Given::Written => self.hear(link, Heard::Written),
            Given::Exited(exit) => self.hear(link, Heard::Exited(exit)),
            Given::Eof => self.hear(link, Heard::Eof),
            Given::Group(group) => self.hear(link, Heard::Group(group)),
        }
    }

    fn wait(&mut self, span: Duration) {
        let until = self.now.mono + span;
        while let Some((at, _)) = self.conversation.deadline().filter(|(at, _)| *at <= until) {
            self.now.mono = at.max(self.now.mono);
            self.conversation.handle(self.now, Input::Tick);
            self.drain();
            self.quieten();
        }
        self.now.mono = until;
    }

    /// One thing that happens.
    fn act(&mut self, dice: &mut Dice<'_>) {
        match dice.below(12) {
            0..=5 => self.request(dice),
            6 if !self.heard.is_empty() => {
                let at = dice.below(self.heard.len());
                if let (link, given @ Given::Opened) = &mut self.heard[at]
                    && *link != LinkId::FIRST
                    && dice.once_in(4)
                {
                    *given = Given::Failed;
                }
                self.next(at);
            }
            7 => self.happen(dice),
            8 => {
                if let Some(request) = self.files.pop() {
                    let done = dice.pick(&[Ok("text\n".to_owned()), Err(FileError::Missing)]).clone();
                    self.command(Command::FileDone { request, done });
                }
            }
            9 => {
                if let Some(request) = self.questions.pop() {
                    let option = *dice.pick(&["allow", "reject", "nothing"]);
                    let outcome = agentline_core::acp::PermissionOutcome::selected(option);
                    self.command(Command::Answer { request, outcome });
                }
            }
            10 => self.wait(dice.pause()),
            _ => {
                // Moot as often as not.
                let id = self.asked - dice.below(8) as u64;
                let params = json!({ "requestId": id });
                self.say(&json!({ "jsonrpc": "2.0", "method": "$/cancel_request", "params": params }));
            }
        }
    }

    fn request(&mut self, dice: &mut Dice<'_>) {
        let terminal = format!("terminal-{}", dice.below(9));
        let of = json!({ "sessionId": "s", "terminalId": terminal });
        let command = *dice.pick(&["ls", "ask", "no", "a b", "", "./x"]);
        let create = json!({ "sessionId": "s", "command": command, "outputByteLimit": dice.below(40) });
        let path = *dice.pick(&["/w/a", "a", "/etc/x", "/w/\u{0}"]);
        let content = "x".repeat(dice.below(100));
        let (method, params) = match dice.below(10) {
            0..=3 => ("terminal/create", create),
            4 => ("terminal/output", of),
            5 => ("terminal/wait_for_exit", of),
            6 => ("terminal/kill", of),
            7 => ("terminal/release", of),
            8 => ("fs/read_text_file", json!({ "sessionId": "s", "path": path, "line": 1 })),
            _ => ("fs/write_text_file", json!({ "sessionId": "t", "path": path, "content": content })),
        };
        self.asked += 1;
        self.open.insert(self.asked);
        self.say(&json!({ "jsonrpc": "2.0", "id": self.asked, "method": method, "params": params }));
    }

    /// A command writes or ends.
    fn happen(&mut self, dice: &mut Dice<'_>) {
        let links: Vec<LinkId> =
            self.commands.iter().filter(|(_, lives)| **lives).map(|(link, _)| *link).collect();
        if links.is_empty() {
            return;
        }
        let link = *dice.pick(&links);
        match dice.below(3) {
            0 => {
                self.commands.insert(link, false);
                let exit = *dice.pick(&[Exit::Code(0), Exit::Signal(15), Exit::Code(-1), Exit::Unknown]);
                self.heard.extend([(link, Given::Exited(exit)), (link, Given::Eof)]);
            }
            _ => self.hear(link, Heard::Bytes(dice.bytes(60))),
        }
    }
}

#[test]
fn a_hostile_agent_gets_one_answer_each_and_leaves_nobody() {
    let mut answered = 0;
    for seed in 0..1000 {
        let bytes = dice::noise(seed, 1500);
        let mut dice = Dice::new(&bytes);
        let mut siege = Siege::new();
        // The two of ours are answered.
        siege.answered = 0;
        for _ in 0..dice.below(120) {
            siege.act(&mut dice);
        }
        siege.quieten();
        if dice.once_in(2) {
            // A turn that is over or cancelled decides about nothing any more; what runs goes on.
            siege.command(Command::Cancel);
            siege.quieten();
        }
        let last = *dice.pick(&[0, 1, 2]);
        match last {
            0 => siege.command(Command::Shutdown),
            1 => siege.command(Command::Hasten),
            _ => siege.hear(LinkId::FIRST, Heard::Eof),
        }
        siege.quieten();
        siege.wait(Duration::from_secs(60));
        assert!(siege.over && siege.commands.is_empty(), "seed {seed}: {:?}", siege.commands);
        answered += siege.answered;
    }
    assert!(answered > 7_000, "{answered}");
}
