//! An agent that does what the prompt says. The same machine lives in a world and in a process of its own.
//!
//! A prompt is steps with `;` between them: `say TEXT`, `chunks N`, `think`, `tool TITLE`, `perm KIND,KIND`,
//! `stop REASON`, `fail`, `sleep MS`, `hang`, `die CODE`, `env WORD`, `cwd`, `proof TEXT`, `spend AMOUNT`, `brief` (whether
//! that option is on), `news` (a notice, a compaction, a plan by an id that goes again), `form`, `page`: the
//! last two ask the user, and say the answer. `sub NAME` tells of a subagent, `as NAME` does the steps that follow in its
//! session, and `as` alone is the agent again; a subagent that nobody wants to know of is the agent itself. What the client is asked to do, and what it answers, is said by
//! `run STEPS` (a [puppet](crate::puppet), with `&` between its steps), `output`, `wait`, `kill`, `release` (each of
//! `terminal-1`, or of another), `read PATH` and `write PATH TEXT` (each path in the workspace, unless it is absolute).
//! `overload N`: it is too busy for the prompt the first N times.
//!
//! Flags: `--login` (it wants one by the method `l` before a session), `--options` (its sessions have the option `brief`), `--slow-init MS`, `--noise` (a line of it before the first message), `--ignore-eof`, `--exit CODE` (at
//! once). A process knows two more, which a world has as [manners](crate::world::Manners): `--trap-term`,
//! `--grandchild`.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::Duration;

use agentline_core::acp::agent::{self, Agent, Command, Event, Of, Prompted, Reply, TurnKey, Wanted};
use agentline_core::acp::services::{
    CreateTerminal, Elicit, ReadTextFile, ServiceRequest, TerminalRef, WriteTextFile,
};
use agentline_core::acp::session::{
    AgentAuth, AgentCapabilities, ConfigKind, ConfigOption, ConfigValue, Implementation, SessionState,
};
use agentline_core::acp::update::{Cost, Speaker, ToolCall, ToolCallUpdate, Update, Usage};
use agentline_core::acp::{
    OptionKind, PermissionOption, PermissionOutcome, SessionId, SessionSetup, StopReason,
};
use agentline_core::machine::soonest;
use agentline_core::rpc::{RpcError, code};
use agentline_core::{
    Action, Change, Deadline, Heard, Input, LinkId, Machine, Now, Output, Outputs, Refused, SpawnSpec, Store,
    StoreId, Tag, Time,
};
use serde::Serialize;

/// What the agent is started with, as a process is.
#[derive(Clone, Debug, Default)]
pub struct Start {
    /// Its arguments.
    pub args: Vec<String>,
    /// Its working directory.
    pub cwd: PathBuf,
    /// Its environment.
    pub env: Vec<(String, String)>,
    /// The program that it has the client run.
    pub puppet: String,
}

impl Start {
    /// As the child that a world spawns.
    #[must_use]
    pub fn of(spec: &SpawnSpec) -> Self {
        let text = |text: &std::ffi::OsStr| text.to_string_lossy().into_owned();
        Self {
            args: spec.args.iter().map(|arg| text(arg)).collect(),
            cwd: spec.cwd.clone(),
            env: spec.env.iter().map(|(name, value)| (text(name), text(value.expose()))).collect(),
            puppet: "puppet".into(),
        }
    }

    /// Whether it was given that flag.
    #[must_use]
    pub fn has(&self, flag: &str) -> bool {
        self.args.iter().any(|arg| arg == flag)
    }

    fn number(&self, flag: &str) -> Option<u64> {
        let at = self.args.iter().position(|arg| arg == flag)?;
        self.args.get(at + 1)?.parse().ok()
    }
}

/// The agent.
pub struct Scripted {
    agent: Agent,
    start: Start,
    asleep: Option<Asleep>,
    noise: Option<&'static [u8]>,
    workspace: String,
    logged_in: bool,
    /// An option that is on or off.
    brief: bool,
    turn: Option<Turn>,
    /// How often it was too busy.
    overloads: u32,
    out: Outputs<Exits>,
    gone: bool,
}

/// Slow to begin: what came meanwhile waits.
struct Asleep {
    until: Time,
    unread: Vec<u8>,
    ended: bool,
}

/// The status that the process is to end with. The last event.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
pub struct Exits(pub i32);

struct Turn {
    key: TurnKey,
    /// Subagents that the client knows of.
    subagents: Vec<SessionId>,
    /// The one that does what follows.
    subagent: Option<SessionId>,
    steps: VecDeque<String>,
    wait: Wait,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Wait {
    Nothing,
    Until(Time),
    /// For an answer.
    Answer,
    Forever,
    /// Until all is written; then the process ends with that status.
    Written(i32),
}

impl Machine for Scripted {
    type Config = Start;
    type Command = Command;
    type Event = Exits;

    fn new(now: Now, start: Start) -> Self {
        let info =
            Implementation { name: "scripted".into(), version: "1".into(), ..Implementation::default() };
        let logins = r#"[{"id":"l","name":"Log in"},{"id":"t","type":"terminal"}]"#;
        let config = agent::Config {
            info: Some(info),
            capabilities: AgentCapabilities {
                auth: AgentAuth { logout: start.has("--login") },
                ..AgentCapabilities::default()
            },
            auth_methods: if start.has("--login") {
                serde_json::from_str(logins).expect("methods")
            } else {
                Vec::new()
            },
            ..agent::Config::on_stdio()
        };
        let slow = start.number("--slow-init").map(|millis| now.mono + Duration::from_millis(millis));
        let mut scripted = Self {
            agent: Agent::new(now, config),
            asleep: slow.map(|until| Asleep { until, unread: Vec::new(), ended: false }),
            noise: start.has("--noise").then_some(b"this is not JSON\n"),
            workspace: String::new(),
            logged_in: !start.has("--login"),
            brief: false,
            turn: None,
            overloads: 0,
            out: Outputs::default(),
            gone: false,
            start,
        };
        scripted.settle(now);
        scripted
    }

    fn handle(&mut self, now: Now, input: Input<'_>) {
        match (&mut self.asleep, input) {
            (Some(asleep), Input::Link(_, Heard::Bytes(bytes))) => asleep.unread.extend_from_slice(bytes),
            (Some(asleep), Input::Link(_, Heard::Eof)) => asleep.ended = true,
            (_, input) => self.agent.handle(now, input),
        }
        if let Input::Link(_, Heard::Opened(_)) = input
            && let Some(code) = self.start.number("--exit")
        {
            return self.exit(i32::try_from(code).unwrap_or(1));
        }
        if let Some(asleep) = self.asleep.take_if(|asleep| asleep.until <= now.mono) {
            self.agent.handle(now, Input::Link(LinkId::FIRST, Heard::Bytes(&asleep.unread)));
            if asleep.ended {
                self.agent.handle(now, Input::Link(LinkId::FIRST, Heard::Eof));
            }
        }
        if let Some(turn) = &mut self.turn
            && let Wait::Until(at) = turn.wait
            && at <= now.mono
        {
            turn.wait = Wait::Nothing;
        }
        self.settle(now);
    }

    fn command(&mut self, now: Now, command: Command) -> Result<(), Refused> {
        let done = self.agent.command(now, command);
        self.settle(now);
        done
    }

    fn poll(&mut self) -> Option<Output<Exits>> {
        self.out.pop()
    }

    fn deadline(&self) -> Option<Deadline> {
        if self.gone {
            return None;
        }
        let asleep = self.asleep.as_ref().map(|asleep| (asleep.until, "wake up"));
        let sleep = self.turn.as_ref().and_then(|turn| match turn.wait {
            Wait::Until(at) => Some((at, "go on")),
            Wait::Nothing | Wait::Answer | Wait::Forever | Wait::Written(_) => None,
        });
        soonest(soonest(asleep, sleep), self.agent.deadline())
    }
}

impl Scripted {
    fn settle(&mut self, now: Now) {
        loop {
            self.relay(now);
            if self.gone || !self.go_on(now) {
                return;
            }
        }
    }

    /// Passes on what the agent wants, and hears what it was told.
    fn relay(&mut self, now: Now) {
        let stays = self.start.has("--ignore-eof");
        while let Some(output) = self.agent.poll()
            && !self.gone
        {
            match output {
                Output::Tell(event) => self.hear(now, event),
                Output::Do(link, Action::Write(bytes)) => {
                    let noise = self.noise.take().unwrap_or_default();
                    self.out.act(link, Action::Write([noise, &bytes].concat()));
                }
                Output::Do(_, Action::CloseWrite | Action::Close) | Output::End if stays => {}
                Output::Do(link, action) => self.out.act(link, action),
                Output::Store(id, store) => self.out.push(Output::Store(id, store)),
                Output::End => {
                    self.gone = true;
                    self.out.tell(Exits(0));
                    self.out.end();
                }
            }
        }
    }

    fn hear(&mut self, now: Now, event: Event) {
        match event {
            Event::Requested(asked) => self.asked(now, *asked),
            Event::Prompted(prompted) => {
                let Prompted { turn: key, prompt, .. } = *prompted;
                let text: String = prompt.iter().filter_map(|block| block.as_text()).collect();
                let steps = text.split(';').map(|step| step.trim().to_owned()).collect();
                self.turn =
                    Some(Turn { key, subagents: Vec::new(), subagent: None, steps, wait: Wait::Nothing });
            }
            Event::Cancelled(key) => {
                // Who hangs does not hear it, and who was told `cancelled` finds out by itself.
                if let Some(Turn { wait: Wait::Until(_), .. }) = self.turn {
                    self.end(now, key, StopReason::Cancelled);
                }
            }
            Event::TurnOver(_) => self.turn = None,
            Event::PermissionAnswered(_, outcome) => {
                if let Some(turn) = &mut self.turn {
                    turn.wait = Wait::Nothing;
                    self.say(now, Speaker::Agent, &show(&outcome));
                }
            }
            Event::Served(_, answer) => {
                if let Some(turn) = &mut self.turn {
                    turn.wait = Wait::Nothing;
                    let said =
                        answer.map_or_else(|error| error.to_string(), |answer| answer.get().to_owned());
                    self.say(now, Speaker::Agent, &said);
                }
            }
            Event::Initialized(_)
            | Event::Withdrawn(_)
            | Event::Crowded
            | Event::Drained
            | Event::Notified(_)
            | Event::Noticed(_)
            | Event::Closed(_) => {}
        }
    }

    fn asked(&mut self, now: Now, agent::Requested { request, wanted }: agent::Requested) {
        let error = |code, why: &str| Command::Fail { request, error: RpcError::new(code, why) };
        let answer = match wanted {
            Wanted::NewSession(_) if !self.logged_in => error(code::AUTH_REQUIRED, "log in first"),
            Wanted::NewSession(SessionSetup { cwd, .. }) => {
                self.workspace = cwd;
                let config_options = self.start.has("--options").then(|| self.options());
                let state = SessionState { config_options, ..SessionState::default() };
                let reply = Reply::SessionOpened { session: "s-1".into(), state };
                Command::Reply { request, reply }
            }
            Wanted::Authenticate(_) | Wanted::Logout => {
                self.logged_in = matches!(wanted, Wanted::Authenticate(_));
                Command::Reply { request, reply: Reply::Done }
            }
            Wanted::SetOption(_, _, ConfigValue::Bool(brief)) => {
                self.brief = brief;
                Command::Reply { request, reply: Reply::Options(self.options()) }
            }
            Wanted::LoadSession(..)
            | Wanted::ResumeSession(..)
            | Wanted::ListSessions { .. }
            | Wanted::CloseSession(_)
            | Wanted::DeleteSession(_)
            | Wanted::SetMode(..)
            | Wanted::SetOption(..)
            | Wanted::Extension(..) => error(code::METHOD_NOT_FOUND, "no"),
        };
        self.ask(now, answer);
    }

    fn options(&self) -> Vec<ConfigOption> {
        vec![ConfigOption {
            id: "brief".into(),
            name: "Brief".into(),
            description: None,
            category: None,
            kind: ConfigKind::Boolean,
            current_value: ConfigValue::Bool(self.brief),
            options: None,
        }]
    }

    fn elicit(&mut self, now: Now, mode: &str) {
        let schema = r#"{"properties":{"n":{"type":"integer"},"w":{"enum":["a","b"]}},"required":["n"]}"#;
        let page = mode == "url";
        let elicit = Elicit {
            message: "which?".into(),
            mode: mode.into(),
            session_id: Some("s-1".into()),
            requested_schema: (!page).then(|| serde_json::from_str(schema).expect("JSON")),
            elicitation_id: page.then(|| "p".into()),
            url: page.then(|| "https://example.org".into()),
            ..Elicit::default()
        };
        self.wait(Wait::Answer);
        self.ask(now, Command::Request { tag: Tag(2), wanted: ServiceRequest::Elicit(elicit) });
        if page {
            self.ask(now, Command::CompleteElicitation { elicitation: "p".into() });
        }
    }

    /// What the client is to do.
    fn hosted(&self, word: &str, rest: &str) -> ServiceRequest {
        let session_id: SessionId = "s-1".into();
        let path = |path: &str| {
            if path.starts_with('/') { path.to_owned() } else { format!("{}/{path}", self.workspace) }
        };
        let terminal_id = if rest.is_empty() { "terminal-1" } else { rest };
        let of = TerminalRef { session_id: session_id.clone(), terminal_id: terminal_id.into() };
        match word {
            "run" => {
                let (habit, steps) = if rest.starts_with("--") {
                    rest.split_once(' ').unwrap_or((rest, ""))
                } else {
                    ("", rest)
                };
                let args = [habit, &steps.replace('&', ";")].map(str::to_owned);
                ServiceRequest::CreateTerminal(CreateTerminal {
                    session_id,
                    command: self.start.puppet.clone(),
                    args: args.into_iter().filter(|arg| !arg.is_empty()).collect(),
                    env: Vec::new(),
                    cwd: None,
                    output_byte_limit: Some(64),
                })
            }
            "output" => ServiceRequest::TerminalOutput(of),
            "wait" => ServiceRequest::WaitForTerminal(of),
            "kill" => ServiceRequest::KillTerminal(of),
            "release" => ServiceRequest::ReleaseTerminal(of),
            "read" => {
                let path = path(rest);
                ServiceRequest::ReadTextFile(ReadTextFile { session_id, path, line: None, limit: None })
            }
            _ => {
                let (name, content) = rest.split_once(' ').unwrap_or((rest, ""));
                let (path, content) = (path(name), content.to_owned());
                ServiceRequest::WriteTextFile(WriteTextFile { session_id, path, content })
            }
        }
    }

    /// Waits for the answer, which is said.
    fn request(&mut self, now: Now, wanted: ServiceRequest) {
        self.wait(Wait::Answer);
        if self.agent.command(now, Command::Request { tag: Tag(2), wanted }).is_err() {
            self.wait(Wait::Nothing);
            self.say(now, Speaker::Agent, "not offered");
        }
    }

    /// Takes the next step of the turn; `false`: there is none, or it is not yet time.
    fn go_on(&mut self, now: Now) -> bool {
        let Some(turn) = &mut self.turn else { return false };
        match turn.wait {
            Wait::Nothing => {}
            Wait::Written(code) if self.agent.unsent() == 0 => {
                self.exit(code);
                return false;
            }
            Wait::Until(_) | Wait::Answer | Wait::Forever | Wait::Written(_) => return false,
        }
        let (key, step) = (turn.key, turn.steps.pop_front());
        let Some(step) = step else {
            self.end(now, key, StopReason::EndTurn);
            return true;
        };
        let (word, rest) = step.split_once(' ').unwrap_or((&step, ""));
        match word {
            "say" => self.say(now, Speaker::Agent, rest),
            "think" => self.say(now, Speaker::Thought, "thinking"),
            "chunks" => {
                for number in 0..rest.parse().unwrap_or(0) {
                    self.say(now, Speaker::Agent, &format!("c{number} "));
                }
            }
            "env" => self.say(now, Speaker::Agent, &self.env(rest)),
            "cwd" => {
                let folders = format!("{}|{}", self.start.cwd.display(), self.workspace);
                self.say(now, Speaker::Agent, &folders);
            }
            "tool" => {
                let call = ToolCall { tool_call_id: "t1".into(), title: rest.into(), ..ToolCall::default() };
                let update = Update::ToolCall(call);
                let command = match turn.subagent.clone() {
                    Some(session) => Command::Announce { session, update },
                    None => Command::Report { turn: key, update },
                };
                self.ask(now, command);
            }
            "sub" => {
                let update =
                    format!(r#"{{"sessionUpdate":"subagent_update","sessionId":"{rest}","title":"{rest}"}}"#);
                if self.report(now, key, &update)
                    && let Some(turn) = &mut self.turn
                {
                    turn.subagents.push(rest.into());
                }
            }
            "as" => turn.subagent = turn.subagents.iter().find(|subagent| subagent.as_str() == rest).cloned(),
            "news" => {
                for update in NEWS {
                    if !self.report(now, key, update) {
                        self.say(now, Speaker::Agent, "not offered");
                    }
                }
            }
            "brief" => self.say(now, Speaker::Agent, if self.brief { "on" } else { "off" }),
            "perm" => self.ask_permission(now, key, rest),
            "run" | "output" | "wait" | "kill" | "release" | "read" | "write" => {
                let wanted = self.hosted(word, rest);
                self.request(now, wanted);
            }
            "form" => self.elicit(now, "form"),
            "page" => self.elicit(now, "url"),
            "spend" => {
                let cost = Cost { amount: rest.parse().unwrap_or(0.0), currency: "USD".into() };
                let usage = Usage { used: 1, size: 2, cost: Some(cost) };
                self.ask(now, Command::Report { turn: key, update: Update::Usage(usage) });
            }
            "stop" => self.end(now, key, reason(rest)),
            "fail" => {
                self.turn = None;
                let error = RpcError::new(code::INTERNAL_ERROR, "Internal error");
                self.ask(now, Command::FailTurn { turn: key, error });
            }
            "overload" if self.overloads < rest.parse().unwrap_or(0) => {
                self.turn = None;
                self.overloads += 1;
                let data = serde_json::from_str(r#"{"retryAfterMs":20}"#).ok();
                let error = RpcError { data, ..RpcError::new(529, "Overloaded") };
                self.ask(now, Command::FailTurn { turn: key, error });
            }
            "overload" => {}
            "sleep" => self.wait(Wait::Until(now.mono + Duration::from_millis(rest.parse().unwrap_or(0)))),
            "hang" => self.wait(Wait::Forever),
            "die" => self.wait(Wait::Written(rest.parse().unwrap_or(1))),
            "proof" => {
                let change = Change::Put { bytes: Vec::from(rest).into(), mode: 0o644 };
                self.out.store(StoreId::FIRST, Store { path: self.start.cwd.join("proof.txt"), change });
            }
            _ => self.say(now, Speaker::Agent, &format!("echo: {step}")),
        }
        true
    }

    fn say(&mut self, now: Now, speaker: Speaker, text: &str) {
        if let Some(turn) = &self.turn {
            let text = text.into();
            let command = match turn.subagent.clone() {
                Some(session) => Command::Tell { session, speaker, text, message: None },
                None => Command::Say { turn: turn.key, speaker, text },
            };
            self.ask(now, command);
        }
    }

    /// Whether the client takes it.
    fn report(&mut self, now: Now, turn: TurnKey, update: &str) -> bool {
        let update = serde_json::from_str(update).expect("an update");
        self.agent.command(now, Command::Report { turn, update }).is_ok()
    }

    /// The variables with that word in their name.
    fn env(&self, word: &str) -> String {
        let word = word.to_ascii_uppercase();
        let named = self.start.env.iter().filter(|(name, _)| name.to_ascii_uppercase().contains(&word));
        let mut shown: Vec<String> = named.map(|(name, value)| format!("{name}={value}")).collect();
        shown.sort();
        shown.join(",")
    }

    fn ask_permission(&mut self, now: Now, turn: TurnKey, kinds: &str) {
        let options = kinds.split(',').filter(|kind| !kind.is_empty()).enumerate();
        let options = options.map(|(at, kind)| PermissionOption {
            option_id: format!("{kind}-{at}"),
            name: kind.into(),
            kind: serde_json::from_value::<OptionKind>(kind.into()).expect("any text is a kind"),
        });
        let tool_call = ToolCallUpdate {
            tool_call_id: "t1".into(),
            title: Some("edit".into()),
            ..ToolCallUpdate::default()
        };
        let options = options.collect();
        let subagent = self.turn.as_ref().and_then(|turn| turn.subagent.clone());
        let of = subagent.map_or_else(|| turn.into(), Of::Session);
        self.wait(Wait::Answer);
        self.ask(now, Command::AskPermission { tag: Tag(1), of, tool_call, options, meta: None });
    }

    fn wait(&mut self, wait: Wait) {
        if let Some(turn) = &mut self.turn {
            turn.wait = wait;
        }
    }

    fn end(&mut self, now: Now, turn: TurnKey, reason: StopReason) {
        self.turn = None;
        self.ask(now, Command::EndTurn { turn, stopped: reason.into() });
    }

    /// What is refused is moot: the client has left, or reads too slowly for a test.
    fn ask(&mut self, now: Now, command: Command) {
        let _ = self.agent.command(now, command);
    }

    /// Ends as a process does: at once.
    fn exit(&mut self, code: i32) {
        self.gone = true;
        self.out.act(LinkId::FIRST, Action::Close);
        self.out.tell(Exits(code));
        self.out.end();
    }
}

const NEWS: [&str; 5] = [
    r#"{"sessionUpdate":"notice","severity":"warning","title":"slow today"}"#,
    r#"{"sessionUpdate":"compaction_update","compactionId":"c","status":"in_progress"}"#,
    r#"{"sessionUpdate":"compaction_update","compactionId":"c","status":"completed"}"#,
    r#"{"sessionUpdate":"plan_update","plan":{"type":"items","planId":"p","entries":[
        {"content":"tell the news","priority":"low","status":"pending"}]}}"#,
    r#"{"sessionUpdate":"plan_removed","planId":"p"}"#,
];

fn reason(word: &str) -> StopReason {
    serde_json::from_value(word.into()).expect("any word is a reason")
}

fn show(outcome: &PermissionOutcome) -> String {
    match outcome {
        PermissionOutcome::Selected { option_id } => option_id.clone(),
        PermissionOutcome::Cancelled => "cancelled".into(),
    }
}
