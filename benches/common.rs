//! What the measured programs of both runtimes share: the traffic they ask for or make, and the numbers they print.
//! The contract of a measured client stands in `benches/bed/README.md`.

#![allow(dead_code, missing_docs, unreachable_pub, clippy::print_stdout, clippy::wildcard_enum_match_arm)]

use std::time::{Duration, Instant};

use agentline_core::acp::client::{self, Answer, Which};
use agentline_core::acp::update::Speaker;
use agentline_core::acp::{ContentBlock, agent, update::ToolCallUpdate};
use agentline_core::acp::{
    OptionKind, PermissionOption, PermissionOutcome, SessionId, SessionSetup, StopReason,
};
use agentline_core::{Open, Refused, SpawnSpec, Tag};
use serde::{Deserialize, Serialize};

/// What to measure.
#[derive(Debug, Default)]
pub struct Options {
    control: Control,
    pings: usize,
    startup: bool,
    slow: Duration,
    agent: Vec<String>,
}

/// The traffic that a prompt asks for.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Control {
    pub n: usize,
    pub size: usize,
    pub perm: usize,
    pub kind: String,
}

impl Options {
    pub fn from_args() -> Self {
        let mut options =
            Self { control: Control { kind: "ascii".into(), ..Control::default() }, ..Self::default() };
        let mut args = std::env::args().skip(1);
        while let Some(arg) = args.next() {
            let mut value = || args.next().unwrap_or_default();
            match &*arg {
                "--n" => options.control.n = value().parse().expect("--n"),
                "--size" => options.control.size = value().parse().expect("--size"),
                "--perm" => options.control.perm = value().parse().expect("--perm"),
                "--kind" => options.control.kind = value(),
                "--pings" => options.pings = value().parse().expect("--pings"),
                "--slow-us" => options.slow = Duration::from_micros(value().parse().expect("--slow-us")),
                "--mode" => drop(value()),
                "--startup" => options.startup = true,
                "--" => options.agent.extend(args.by_ref()),
                _ => options.agent.push(arg),
            }
        }
        assert!(!options.agent.is_empty(), "no agent command");
        options
    }

    pub fn config(&self) -> client::Config {
        let (program, args) = self.agent.split_first().expect("checked");
        client::Config::new(Open::spawn(SpawnSpec {
            program: program.into(),
            args: args.iter().map(Into::into).collect(),
            cwd: std::env::current_dir().expect("a working directory"),
            env: std::env::vars_os().map(|(name, value)| (name, value.into())).collect(),
            ..SpawnSpec::default()
        }))
    }
}

/// Measures one connection: told each event, it answers with what to ask next.
pub struct Measurement {
    options: Options,
    report: Report,
    start: Instant,
    cpu: Duration,
    session: Option<SessionId>,
    pings: Vec<f64>,
}

#[derive(Debug, Default, Serialize)]
struct Report {
    peer: &'static str,
    updates: usize,
    updates_at_response: usize,
    bytes: usize,
    perms: usize,
    wall_ms: f64,
    cpu_ms: f64,
    cpu_total_ms: f64,
    agent_cpu_ms: f64,
    agent_maxrss_kb: u64,
    maxrss_kb: u64,
    idle_rss_kb: u64,
    init_ms: f64,
    mbps: f64,
    updates_per_s: f64,
    pings: usize,
    ping_p50_us: f64,
    ping_p99_us: f64,
    ping_cpu_ms: f64,
}

impl Measurement {
    pub fn new(peer: &'static str, options: Options) -> Self {
        let report = Report { peer, ..Report::default() };
        Self { options, report, start: Instant::now(), cpu: Duration::ZERO, session: None, pings: Vec::new() }
    }

    pub fn config(&self) -> client::Config {
        self.options.config()
    }

    /// What to ask next, if an event calls for it.
    pub fn on(&mut self, event: client::Event) -> Option<client::Command> {
        match event {
            client::Event::Ready(_) => {
                self.report.init_ms = millis(self.start.elapsed());
                if self.options.startup {
                    return Some(client::Command::Shutdown);
                }
                let cwd = std::env::current_dir().expect("a working directory");
                let setup = SessionSetup::in_directory(cwd.to_str().expect("UTF-8"));
                Some(client::Command::OpenSession { tag: Tag(0), which: Which::New, setup })
            }
            client::Event::Answered(_, answer) => match *answer {
                Answer::SessionOpened { session, .. } => {
                    self.session = Some(session);
                    self.report.idle_rss_kb = status_kb("VmRSS:");
                    self.cpu = cpu();
                    self.next_prompt()
                }
                _ => None,
            },
            client::Event::Text(piece) => {
                if !self.options.slow.is_zero() {
                    std::thread::sleep(self.options.slow);
                }
                self.report.updates += 1;
                self.report.bytes += piece.text.len();
                None
            }
            client::Event::PermissionAsked(asked) => {
                self.report.perms += 1;
                let option = asked.asked.first_of(&[OptionKind::AllowOnce]).expect("an option");
                let outcome = PermissionOutcome::selected(&*option.option_id);
                Some(client::Command::Answer { request: asked.request, outcome })
            }
            client::Event::TurnEnded(_) if self.pings.len() < self.options.pings => {
                self.pings.push(self.start.elapsed().as_secs_f64() * 1e6);
                self.next_prompt()
            }
            client::Event::TurnEnded(_) => {
                self.report.wall_ms = millis(self.start.elapsed());
                self.report.cpu_ms = millis(cpu() - self.cpu);
                self.report.updates_at_response = self.report.updates;
                Some(client::Command::Shutdown)
            }
            client::Event::Failed(_, failure) => panic!("{failure}"),
            _ => None,
        }
    }

    fn next_prompt(&mut self) -> Option<client::Command> {
        let control = if self.pings.len() < self.options.pings {
            Control { kind: "ascii".into(), ..Control::default() }
        } else {
            if self.options.pings > 0 && self.report.ping_cpu_ms == 0.0 {
                self.report.ping_cpu_ms = millis(cpu() - self.cpu);
            }
            if self.options.control.n + self.options.control.perm == 0 {
                return Some(client::Command::Shutdown);
            }
            self.options.control.clone()
        };
        let text = serde_json::to_string(&control).expect("plain data");
        self.start = Instant::now();
        if self.pings.len() == self.options.pings {
            self.cpu = cpu();
        }
        let session = self.session.clone()?;
        Some(client::Command::Prompt { tag: Tag(1), session, prompt: vec![ContentBlock::text(text)] })
    }

    /// Prints the numbers as one JSON line.
    pub fn finish(mut self) {
        let control = &self.options.control;
        if !self.options.startup {
            assert_eq!(self.report.updates, control.n, "updates");
            assert_eq!(self.report.bytes, control.n * control.size, "text bytes");
            assert_eq!(self.report.perms, control.perm, "permissions");
        }
        self.pings.sort_by(f64::total_cmp);
        let quantile =
            |q: usize| self.pings.get((self.pings.len() * q / 100).min(self.pings.len().max(1) - 1));
        let report = &mut self.report;
        report.ping_p50_us = quantile(50).copied().unwrap_or_default();
        report.ping_p99_us = quantile(99).copied().unwrap_or_default();
        report.pings = self.pings.len();
        report.cpu_total_ms = millis(cpu());
        report.maxrss_kb = status_kb("VmHWM:");
        let seconds = (report.wall_ms / 1e3).max(1e-9);
        report.mbps = report.bytes as f64 / 1e6 / seconds;
        report.updates_per_s = report.updates as f64 / seconds;
        println!("{}", serde_json::to_string(&self.report).expect("plain data"));
    }
}

/// An agent that makes the traffic a prompt asks for: told each event, it says what to do next.
#[derive(Default)]
pub struct Traffic {
    turn: Option<(agent::TurnKey, Control, String)>,
    sessions: u64,
}

impl Traffic {
    /// Reacts to an event by commands; `command` performs one.
    pub fn on(
        &mut self,
        event: agent::Event,
        mut command: impl FnMut(agent::Command) -> Result<(), Refused>,
    ) -> Result<(), Refused> {
        match event {
            agent::Event::Requested(asked) => {
                self.sessions += 1;
                let session = SessionId::from(&*format!("sess-{:04}", self.sessions));
                let reply = agent::Reply::SessionOpened { session, state: Default::default() };
                command(agent::Command::Reply { request: asked.request, reply })
            }
            agent::Event::Prompted(prompted) => {
                let text = prompted.prompt.first().and_then(ContentBlock::as_text).unwrap_or_default();
                let control: Control = serde_json::from_str(text).unwrap_or_default();
                let unit = if control.kind == "mixed" { MIXED } else { ASCII };
                let text = unit.chars().cycle().take(control.size).collect();
                self.turn = Some((prompted.turn, control, text));
                self.go_on(command)
            }
            agent::Event::Drained | agent::Event::PermissionAnswered(..) => self.go_on(command),
            _ => Ok(()),
        }
    }

    /// Speaks until the client is behind, or the turn is over.
    fn go_on(
        &mut self,
        mut command: impl FnMut(agent::Command) -> Result<(), Refused>,
    ) -> Result<(), Refused> {
        let Some((turn, control, text)) = &mut self.turn else { return Ok(()) };
        let turn = *turn;
        while control.n > 0 {
            match command(agent::Command::Say { turn, speaker: Speaker::Agent, text: text.clone() }) {
                Ok(()) => control.n -= 1,
                Err(Refused::Crowded) => return Ok(()),
                Err(refused) => return Err(refused),
            }
        }
        if control.perm > 0 {
            control.perm -= 1;
            let tool_call = ToolCallUpdate { tool_call_id: "t".into(), ..ToolCallUpdate::default() };
            let option = |option_id: &str, kind| PermissionOption {
                option_id: option_id.into(),
                name: option_id.into(),
                kind,
            };
            let options =
                vec![option("allow", OptionKind::AllowOnce), option("reject", OptionKind::RejectOnce)];
            return command(agent::Command::AskPermission {
                tag: Tag(0),
                of: turn.into(),
                tool_call,
                options,
                meta: None,
            });
        }
        self.turn = None;
        command(agent::Command::EndTurn { turn, stopped: StopReason::EndTurn.into() })
    }
}

const ASCII: &str = "The quick brown fox jumps over the lazy dog. ";
const MIXED: &str = "Grüße, \"quoted\"\n\tкод и текст 你好 🙂 ";

fn millis(span: Duration) -> f64 {
    span.as_secs_f64() * 1e3
}

/// Processor time of this process, all threads.
fn cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or_default())
}

fn status_kb(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    line.and_then(|rest| rest.split_whitespace().next()).and_then(|kb| kb.parse().ok()).unwrap_or_default()
}
