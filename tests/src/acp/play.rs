//! Anything that a peer, a runtime and an application may do to a machine of ACP, as the dice say.

use std::time::Duration;

use agentline_core::acp::agent::{self, Reply, TurnKey};
use agentline_core::acp::client::{self, Which};
use agentline_core::acp::services::{Elicit, ReadTextFile, ServiceRequest};
use agentline_core::acp::session::{ConfigValue, SessionList, SessionState};
use agentline_core::acp::update::{Speaker, ToolCall, ToolCallUpdate, Update};
use agentline_core::acp::{
    ContentBlock, Json, OptionKind, PermissionOption, PermissionOutcome, RequestKey, SessionId, SessionSetup,
    StopReason,
};
use agentline_core::rpc::RpcError;
use agentline_core::{
    Action, Exit, Group, Heard, Input, Limits, LinkId, Machine, Now, Open, OpenError, Output, Peer,
    SpawnSpec, Tag,
};

use super::rig::{CLIENT_OFFERS, OFFERS};
use crate::dice::Dice;

/// What a peer says now and then, for those who put something else there.
pub const MARK: &str = "sesame";

/// A role of the channel: how it begins, what its peer may write, and what its application may ask.
#[derive(Debug)]
pub struct Role<C> {
    /// Lines and commands that bring a machine to work, so that not every run must find them.
    pub opening: fn() -> Vec<Move<C>>,
    /// A line of the peer.
    pub line: fn(&mut Dice<'_>) -> String,
    /// A command of the application.
    pub command: fn(&mut Dice<'_>) -> C,
    /// The command that ends it.
    pub leave: fn() -> C,
}

/// A step of an opening.
#[derive(Clone, Debug)]
pub enum Move<C> {
    /// The peer writes.
    Line(String),
    /// The application asks.
    Command(C),
}

/// Plays until the dice are out, then leaves; events go to `told`.
///
/// # Panics
///
/// The machine does not end when it should.
pub fn play<M: Machine>(
    machine: &mut M,
    dice: &mut Dice<'_>,
    role: &Role<M::Command>,
    told: &mut impl FnMut(M::Event),
) {
    let mut play = Play::around(machine, told);
    if dice.once_in(16) {
        play.heard(Heard::OpenFailed(OpenError::Busy));
        play.wait_for_deadline();
    }
    play.heard(Heard::Opened(Peer::default()));
    let opening = (role.opening)();
    let kept = opening.len() - dice.below(opening.len() + 1);
    play.open(opening.into_iter().take(kept));
    for _ in 0..MOST_MOVES {
        if dice.is_empty() {
            break;
        }
        play.play(dice, role);
        if !dice.once_in(4) {
            play.acknowledge();
        }
    }
    play.leave(role);
}

/// Feeds a stream to a machine that is at work, then leaves; events go to `told`.
///
/// # Panics
///
/// The machine does not end when it should.
pub fn stream<M: Machine>(
    machine: &mut M,
    bytes: &[u8],
    role: &Role<M::Command>,
    told: &mut impl FnMut(M::Event),
) {
    let mut play = Play::around(machine, told);
    play.heard(Heard::Opened(Peer::default()));
    play.open((role.opening)());
    for chunk in bytes.chunks(1000) {
        play.heard(Heard::Bytes(chunk));
        play.acknowledge();
    }
    play.leave(role);
}

struct Play<'a, M: Machine, T> {
    machine: &'a mut M,
    told: &'a mut T,
    now: Now,
    writing: bool,
    ended: bool,
}

impl<'a, M: Machine, T: FnMut(M::Event)> Play<'a, M, T> {
    fn around(machine: &'a mut M, told: &'a mut T) -> Self {
        let mut play = Self { machine, told, now: Now::default(), writing: false, ended: false };
        play.drain();
        play
    }

    fn open(&mut self, opening: impl IntoIterator<Item = Move<M::Command>>) {
        for step in opening {
            self.acknowledge();
            match step {
                Move::Line(line) => self.line(&line),
                Move::Command(command) => self.command(command),
            }
        }
    }

    fn leave(mut self, role: &Role<M::Command>) {
        self.command((role.leave)());
        for _ in 0..MOST_MOVES {
            self.acknowledge();
            self.wait_for_deadline();
        }
        assert!(self.ended, "it did not end");
    }

    fn play(&mut self, dice: &mut Dice<'_>, role: &Role<M::Command>) {
        match dice.below(16) {
            0..=5 => {
                let line = (role.line)(dice);
                self.line(&line);
            }
            6 => {
                let line = (role.line)(dice) + "\n";
                let (start, end) = line.as_bytes().split_at(dice.below(line.len()));
                self.heard(Heard::Bytes(start));
                self.heard(Heard::Bytes(end));
            }
            7 => {
                let bytes = dice.bytes(60);
                self.heard(Heard::Bytes(bytes));
            }
            8..=11 => self.command((role.command)(dice)),
            12 => self.wait_for_deadline(),
            13 => self.wait(dice.pause()),
            14 => self.wait(Duration::from_secs(3600)),
            _ => {
                let odd = [
                    Input::Hold(true),
                    Input::Hold(false),
                    Input::Link(LinkId::FIRST, Heard::Stderr("warning: é\n".as_bytes())),
                    Input::Link(LinkId::FIRST, Heard::Group(Group::Alive)),
                    Input::Link(LinkId::FIRST, Heard::Written),
                    Input::Link(LinkId::FIRST, Heard::Opened(Peer::default())),
                    Input::Link(LinkId::FIRST, Heard::OpenFailed(OpenError::NotFound)),
                    Input::Link(LinkId::FIRST, Heard::WriteFailed),
                    Input::Link(LinkId::FIRST, Heard::Exited(Exit::Code(3))),
                    Input::Link(LinkId::FIRST, Heard::Group(Group::Gone)),
                    Input::Link(LinkId::FIRST, Heard::Eof),
                ];
                self.input(*dice.pick(&odd));
            }
        }
    }

    fn line(&mut self, line: &str) {
        self.heard(Heard::Bytes(format!("{line}\n").as_bytes()));
    }

    fn heard(&mut self, heard: Heard<'_>) {
        self.input(Input::Link(LinkId::FIRST, heard));
    }

    fn input(&mut self, input: Input<'_>) {
        self.machine.handle(self.now, input);
        self.drain();
    }

    fn command(&mut self, command: M::Command) {
        let _ = self.machine.command(self.now, command);
        self.drain();
    }

    fn acknowledge(&mut self) {
        if std::mem::take(&mut self.writing) {
            self.heard(Heard::Written);
        }
    }

    fn wait(&mut self, span: Duration) {
        self.now.mono = self.now.mono + span;
        self.now.unix += span;
        self.input(Input::Tick);
    }

    fn wait_for_deadline(&mut self) {
        if let Some((at, _)) = self.machine.deadline() {
            self.wait(at.since(self.now.mono));
        }
    }

    fn drain(&mut self) {
        while let Some(output) = self.machine.poll() {
            match output {
                Output::Do(_, Action::Write(_)) => self.writing = true,
                Output::Do(_, Action::CloseWrite | Action::Close) => self.writing = false,
                Output::Do(..) | Output::Store(..) => {}
                Output::Tell(event) => (self.told)(event),
                Output::End => self.ended = true,
            }
        }
    }
}

/// Limits that a short run meets.
const fn tight() -> Limits {
    Limits {
        line: 4000,
        write: 500,
        unsent_soft: 1000,
        unsent_hard: 9000,
        stderr_tail: 20,
        depth: 20,
        peer_requests: 4,
        own_requests: 6,
        sessions: 4,
    }
}

/// A client of this config on a child or a stream, with tight limits.
pub fn client_config(dice: &mut Dice<'_>) -> client::Config {
    let open = if dice.once_in(3) { Open::Given(0) } else { Open::spawn(SpawnSpec::default()) };
    let mut config = client::Config::new(open);
    let offers = *dice.pick(&[CLIENT_OFFERS, "{}"]);
    config.capabilities = serde_json::from_str(offers).unwrap_or_default();
    config.extensions = vec!["_x/known".to_owned()];
    config.raw = dice.once_in(3);
    config.timeouts.silence = dice.once_in(2).then(|| Duration::from_secs(20));
    config.limits = tight();
    config
}

/// An agent of this config, with tight limits.
pub fn agent_config(dice: &mut Dice<'_>) -> agent::Config {
    let offers = *dice.pick(&[OFFERS, "{}"]);
    agent::Config {
        capabilities: serde_json::from_str(offers).unwrap_or_default(),
        auth_methods: serde_json::from_str(r#"[{"id":"login","name":"Login"}]"#).unwrap_or_default(),
        extensions: vec!["_x/known".to_owned()],
        limits: tight(),
        ..agent::Config::on_stdio()
    }
}

/// The client and what may happen to it.
pub const CLIENT: Role<client::Command> = Role {
    opening: || {
        let setup = SessionSetup::in_directory("/w");
        vec![
            Move::Line(format!(
                r#"{{"id":0,"result":{{"protocolVersion":1,"agentCapabilities":{OFFERS},"authMethods":[{{"id":"login","name":"L"}}]}}}}"#
            )),
            Move::Command(client::Command::OpenSession { tag: Tag(0), which: Which::New, setup }),
            Move::Line(
                r#"{"id":1,"result":{"sessionId":"s0","modes":{"currentModeId":"a"},"configOptions":[]}}"#
                    .to_owned(),
            ),
            Move::Command(prompt(Tag(0), "s0".into())),
        ]
    },
    line: agent_line,
    command: client_command,
    leave: || client::Command::Shutdown,
};

/// The agent and what may happen to it.
pub const AGENT: Role<agent::Command> = Role {
    opening: || {
        vec![
            Move::Line(format!(
                r#"{{"id":0,"method":"initialize","params":{{"protocolVersion":1,"clientCapabilities":{CLIENT_OFFERS}}}}}"#
            )),
            Move::Line(r#"{"id":1,"method":"session/new","params":{"cwd":"/w","mcpServers":[]}}"#.to_owned()),
            Move::Command(agent::Command::Reply { request: key("1"), reply: opened("s0".into()) }),
            Move::Line(
                r#"{"id":2,"method":"session/prompt","params":{"sessionId":"s0","prompt":[]}}"#.to_owned(),
            ),
        ]
    },
    line: client_line,
    command: agent_command,
    leave: || agent::Command::Shutdown,
};

fn agent_line(dice: &mut Dice<'_>) -> String {
    const LINES: [&str; 30] = [
        r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":SID,"update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":TXT}}}}"#,
        r#"{"jsonrpc":"2.0","id":NUM,"result":{"stopReason":"end_turn"}}"#,
        r#"{"jsonrpc":"2.0","id":NUM,"result":{"sessionId":SID}}"#,
        r#"{"jsonrpc":"2.0","id":ANY,"method":"session/request_permission","params":{"sessionId":SID,"toolCall":{"toolCallId":"c"},"options":[{"optionId":"y","name":"Y","kind":"allow_once"},{"optionId":TXT,"name":"N","kind":"odd"}]}}"#,
        r#"{"jsonrpc":"2.0","id":NUM,"result":null}"#,
        r#"{"jsonrpc":"2.0","id":NUM,"result":{"stopReason":"cancelled","usage":{},"_meta":null}}"#,
        r#"{"jsonrpc":"2.0","id":NUM,"error":{"code":-32800,"message":TXT}}"#,
        r#"{"jsonrpc":"2.0","id":NUM,"error":{"code":-32002,"message":TXT,"data":[]}}"#,
        r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":ANY}}"#,
        r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":SID,"update":{"sessionUpdate":"tool_call","toolCallId":"c","title":TXT,"kind":"read","status":"pending","content":[{"type":"content","content":{"type":"text","text":TXT}},{"type":"diff","path":"/f","newText":TXT}],"locations":[{"path":"/f","line":1}]}}}"#,
        r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":SID,"update":{"sessionUpdate":"tool_call_update","toolCallId":"c","status":"completed"}}}"#,
        r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":SID,"update":{"sessionUpdate":"plan","entries":[{"content":TXT,"priority":"high","status":"pending"}]}}}"#,
        r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":SID,"update":{"sessionUpdate":"current_mode_update","currentModeId":TXT}}}"#,
        r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":SID,"update":{"sessionUpdate":"config_option_update","configOptions":[{"id":"m","name":"M","type":"select","currentValue":"a","options":[]}]}}}"#,
        r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":SID,"update":{"sessionUpdate":"session_info_update","title":null}}}"#,
        r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":SID,"update":{"sessionUpdate":"usage_update","used":1,"size":2}}}"#,
        r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":SID,"update":{"sessionUpdate":"future","x":TXT}}}"#,
        r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":SID,"update":{"sessionUpdate":"agent_thought_chunk","messageId":TXT,"content":{"type":"image","data":"","mimeType":"image/png"}}}}"#,
        r#"{"jsonrpc":"2.0","id":ANY,"method":"fs/read_text_file","params":{"sessionId":SID,"path":"/f"}}"#,
        r#"{"jsonrpc":"2.0","id":ANY,"method":"terminal/create","params":{"sessionId":SID,"command":TXT}}"#,
        r#"{"jsonrpc":"2.0","id":ANY,"method":"elicitation/create","params":{"sessionId":SID,"mode":"form","message":TXT}}"#,
        r#"{"jsonrpc":"2.0","id":ANY,"method":"_x/known","params":TXT}"#,
        r#"{"jsonrpc":"2.0","id":ANY,"method":TXT}"#,
        r#"{"jsonrpc":"2.0","method":TXT,"params":{"a":[1]}}"#,
        r#"{"jsonrpc":"2.0","id":NUM,"result":{"configOptions":[],"sessions":[{"sessionId":SID,"cwd":"/w"}]}}"#,
        r#"{"jsonrpc":"2.0","id":NUM,"result":{"protocolVersion":1}}"#,
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":TXT}}"#,
        r#"{"jsonrpc":"2.0","id":ANY,"result":1,"error":2}"#,
        "npm warn deprecated",
        "[]",
    ];
    fill(dice, &LINES)
}

fn client_line(dice: &mut Dice<'_>) -> String {
    const LINES: [&str; 28] = [
        r#"{"jsonrpc":"2.0","id":ANY,"method":"session/prompt","params":{"sessionId":SID,"prompt":[{"type":"text","text":TXT}]}}"#,
        r#"{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":SID}}"#,
        r#"{"jsonrpc":"2.0","id":NUM,"result":{"outcome":{"outcome":"selected","optionId":"y"}}}"#,
        r#"{"jsonrpc":"2.0","id":NUM,"result":{"outcome":{"outcome":"cancelled"}}}"#,
        r#"{"jsonrpc":"2.0","id":NUM,"error":{"code":-32800,"message":TXT}}"#,
        r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":ANY}}"#,
        r#"{"jsonrpc":"2.0","id":ANY,"method":"session/new","params":{"cwd":"/w","mcpServers":[{"name":"m","command":"/m"}]}}"#,
        r#"{"jsonrpc":"2.0","id":ANY,"method":"session/load","params":{"sessionId":SID,"cwd":"/w","mcpServers":[]}}"#,
        r#"{"jsonrpc":"2.0","id":ANY,"method":"session/resume","params":{"sessionId":SID,"cwd":"/w"}}"#,
        r#"{"jsonrpc":"2.0","id":ANY,"method":"session/list"}"#,
        r#"{"jsonrpc":"2.0","id":ANY,"method":"session/close","params":{"sessionId":SID}}"#,
        r#"{"jsonrpc":"2.0","id":ANY,"method":"session/delete","params":{"sessionId":SID}}"#,
        r#"{"jsonrpc":"2.0","id":ANY,"method":"session/set_mode","params":{"sessionId":SID,"modeId":TXT}}"#,
        r#"{"jsonrpc":"2.0","id":ANY,"method":"session/set_config_option","params":{"sessionId":SID,"configId":TXT,"value":TXT}}"#,
        r#"{"jsonrpc":"2.0","id":ANY,"method":"authenticate","params":{"methodId":"login"}}"#,
        r#"{"jsonrpc":"2.0","id":ANY,"method":"logout"}"#,
        r#"{"jsonrpc":"2.0","id":ANY,"method":"initialize","params":{"protocolVersion":1}}"#,
        r#"{"jsonrpc":"2.0","id":ANY,"method":"_x/known","params":TXT}"#,
        r#"{"jsonrpc":"2.0","id":ANY,"method":TXT}"#,
        r#"{"jsonrpc":"2.0","method":TXT}"#,
        r#"{"jsonrpc":"2.0","id":NUM,"result":{"content":TXT}}"#,
        r#"{"jsonrpc":"2.0","id":NUM,"result":null}"#,
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":TXT}}"#,
        r#"{"jsonrpc":"2.0","id":ANY,"method":"session/prompt","params":{"sessionId":SID,"prompt":[{"type":"image","data":"","mimeType":"m"},{"type":TXT}]}}"#,
        r#"{"jsonrpc":"2.0","id":1.5,"method":"session/list"}"#,
        r#"{"jsonrpc":"2.0","id":ANY,"result":1,"error":2}"#,
        "hello",
        "[]",
    ];
    fill(dice, &LINES)
}

/// One of several lines, with its blanks filled, now and then damaged.
fn fill(dice: &mut Dice<'_>, lines: &[&str]) -> String {
    const IDS: [&str; 10] =
        ["0", "1", "2", "3", "\"a\"", "null", "4", "\"1\"", "\"\\u00e9\"", "9007199254740993"];
    let mut line = (*dice.pick(lines)).to_owned();
    let session = format!("\"{}\"", session(dice).as_str());
    let mut text = dice.text(12);
    if text.len() % 4 == 3 {
        text += MARK;
    }
    let text = Json::new(&text).get().to_owned();
    for (blank, filling) in [
        ("NUM", dice.below(9).to_string()),
        ("ANY", (*dice.pick(&IDS)).to_owned()),
        ("SID", session),
        ("TXT", text),
    ] {
        line = line.replace(blank, &filling);
    }
    if dice.once_in(16) {
        let at = (0..=dice.below(line.len())).rev().find(|at| line.is_char_boundary(*at)).unwrap_or(0);
        match dice.below(3) {
            0 => line.truncate(at),
            1 => {
                let junk = *dice.pick(&["{", "\"", ",", "[[[[[[[[[[[[[[[[[[[[[", "null", "\u{feff}"]);
                line.insert_str(at, junk);
            }
            _ => line = line.get(at..).unwrap_or_default().to_owned(),
        }
    }
    if dice.once_in(40) {
        line.insert_str(0, &" ".repeat(5000));
    }
    line
}

fn session(dice: &mut Dice<'_>) -> SessionId {
    (*dice.pick(&["s0", "s1", "é", "s2", "s3"])).into()
}

/// A key of some number. Applications get theirs from events; these may be of nothing.
fn key<K: serde::de::DeserializeOwned>(number: &str) -> K {
    serde_json::from_str(number).expect("keys are numbers")
}

fn prompt(tag: Tag, session: SessionId) -> client::Command {
    client::Command::Prompt { tag, session, prompt: vec![ContentBlock::text("hello")] }
}

fn opened(session: SessionId) -> Reply {
    Reply::SessionOpened { session, state: SessionState::default() }
}

fn client_command(dice: &mut Dice<'_>) -> client::Command {
    use client::Command as C;
    let tag = Tag(u64::try_from(dice.below(5)).unwrap_or(0));
    let request: RequestKey = key(&dice.below(6).to_string());
    let session = session(dice);
    let setup = SessionSetup::in_directory(*dice.pick(&["/w", "w"]));
    let object = Json::new(&serde_json::json!({}));
    match dice.below(20) {
        0..=2 => prompt(tag, session),
        3 => C::Cancel { session },
        4 | 5 => C::Answer { request, outcome: PermissionOutcome::selected(*dice.pick(&["y", "n"])) },
        6 => C::Reply { request, result: object },
        7 => C::Fail { request, error: RpcError::new(-32603, "m") },
        8 => C::OpenSession { tag, which: Which::New, setup },
        9 => C::OpenSession { tag, which: Which::Load(session), setup },
        10 => C::OpenSession { tag, which: Which::Resume(session), setup },
        11 => C::CloseSession { tag, session },
        12 => C::DeleteSession { tag, session },
        13 => C::Withdraw { tag },
        14 if dice.once_in(2) => C::SetModel { tag, session, model: dice.text(3) },
        14 => C::SetMode { tag, session, mode: dice.text(3) },
        15 => C::SetOption { tag, session, option: dice.text(3), value: ConfigValue::Bool(dice.once_in(2)) },
        16 => C::Authenticate { tag, method: "login".to_owned() },
        17 => C::Call { tag, method: "_x".to_owned(), params: object },
        18 => C::ListSessions { tag, cwd: None, cursor: Some(dice.text(3)) },
        _ if dice.once_in(3) => {
            C::Prompt { tag, session, prompt: vec![ContentBlock::text("x".repeat(5000))] }
        }
        _ if dice.once_in(3) => dice.pick(&[C::Shutdown, C::Hasten]).clone(),
        _ => C::Notify { method: "_x".to_owned(), params: object },
    }
}

fn agent_command(dice: &mut Dice<'_>) -> agent::Command {
    use agent::Command as C;
    let tag = Tag(u64::try_from(dice.below(5)).unwrap_or(0));
    let request: RequestKey = key(&(1 + dice.below(9)).to_string());
    let turn: TurnKey = key(&(1 + dice.below(9)).to_string());
    let session = session(dice);
    let call = ToolCallUpdate { tool_call_id: "c".to_owned(), ..ToolCallUpdate::default() };
    match dice.below(20) {
        0..=2 => C::Say { turn, speaker: Speaker::Agent, text: dice.text(20) },
        3 => C::EndTurn { turn, stopped: StopReason::EndTurn.into() },
        4 | 5 => C::Reply { request, reply: opened(session) },
        6 => C::Reply { request, reply: Reply::Done },
        7 => C::Reply { request, reply: Reply::Sessions(SessionList::default()) },
        8 => C::Reply { request, reply: Reply::Options(vec![]) },
        9 => C::Fail { request, error: RpcError::new(-32603, "m") },
        10 | 11 => {
            let option = |id: &str| PermissionOption {
                option_id: id.to_owned(),
                name: id.to_owned(),
                kind: OptionKind::AllowOnce,
            };
            C::AskPermission { tag, of: turn.into(), tool_call: call, options: vec![option("y")], meta: None }
        }
        12 => C::FailTurn { turn, error: RpcError::new(-32603, "m") },
        13 => C::Withdraw { tag },
        14 => C::Report { turn, update: Update::ToolCall(ToolCall::default()) },
        15 => C::Announce { session, update: Update::ToolCallUpdate(call) },
        16 => {
            let read = ReadTextFile { session_id: session, path: "/f".to_owned(), line: None, limit: None };
            C::Request { tag, wanted: ServiceRequest::ReadTextFile(read) }
        }
        17 => {
            let elicit = Elicit { mode: "form".to_owned(), session_id: Some(session), ..Elicit::default() };
            C::Request { tag, wanted: ServiceRequest::Elicit(elicit) }
        }
        18 => C::Say { turn, speaker: Speaker::Thought, text: "x".repeat(900) },
        _ if dice.once_in(3) => C::Say { turn, speaker: Speaker::Agent, text: "x".repeat(5000) },
        _ if dice.once_in(3) => C::Shutdown,
        _ => C::Notify { method: "_x".to_owned(), params: Json::new(&serde_json::json!({})) },
    }
}

/// Enough for every ladder and every timer.
const MOST_MOVES: usize = 80;
