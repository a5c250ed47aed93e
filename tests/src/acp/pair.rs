//! A client and its agent in one world, each with an application whose habits the dice decide.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::rc::Rc;
use std::time::Duration;

use agentline_core::acp::agent::{self, Reply, TurnKey, Wanted};
use agentline_core::acp::client::{self, Answer, Which};
use agentline_core::acp::services::{ReadTextFile, ServiceRequest};
use agentline_core::acp::update::{Speaker, ToolCall, ToolCallUpdate, Update};
use agentline_core::acp::{
    ContentBlock, Json, OptionKind, PermissionOption, PermissionOutcome, SessionId, StopReason,
};
use agentline_core::gateway::{self, Gateway};
use agentline_core::rpc::{RpcError, code};
use agentline_core::{Machine, Now, Open, Secret, SpawnSpec, Stderr, Tag, Time};

use super::{AgentAudit, ClientAudit};
use crate::dice::Dice;
use crate::invariants::{Checked, Checks};
use crate::world::{Faults, Node, World};

/// What came of a run, for those who count.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Turns that the agent ended itself.
    pub stopped: usize,
    /// Turns that ended otherwise.
    pub broken: usize,
    /// Permissions that were asked for.
    pub asked: usize,
    /// Things that happened.
    pub steps: u64,
}

/// A client and an agent where anything may go wrong: each prompt, permission and request ends once, and
/// nobody is left behind. So many gateways stand between them.
///
/// # Panics
///
/// An invariant does not hold.
pub fn faulty(data: &[u8], gateways: usize) -> Tally {
    let mut dice = Dice::new(data);
    let mut habits = Habits::roll(&mut dice, false);
    // It costs time to look for it.
    let looks = data.first().is_none_or(|byte| byte.is_multiple_of(16));
    habits.client.secret = looks.then(|| dice.clone().secret());
    // Where everything goes wrong at once, little happens.
    let faults = Faults {
        late: dice.once_in(2),
        cut: dice.once_in(2),
        refuse: dice.once_in(2),
        death: dice.once_in(2),
        manners: dice.once_in(2),
        jump: dice.once_in(4),
    };
    let run = run(dice, faults, habits, gateways);
    let log = run.log.borrow();
    assert_eq!(log.closed, 1, "{log:#?}");
    run.tally
}

/// A client and an agent who behave: all that was said arrives in order, every turn ends as the agent says, and
/// no time passes, since nobody waits for a grace. So many gateways between them change nothing.
///
/// # Panics
///
/// An invariant does not hold.
pub fn clean(data: &[u8], gateways: usize) -> Tally {
    let mut dice = Dice::new(data);
    let habits = Habits::roll(&mut dice, true);
    let run = run(dice, Faults { cut: true, ..Faults::NONE }, habits, gateways);
    let log = run.log.borrow();
    assert_eq!(log.heard, log.said, "{log:#?}");
    // A cancel may overtake the agent's own end.
    let same = |(ended, end): (&String, &String)| ended == end || ended == "cancelled";
    for (session, ends) in &log.ends {
        let ended = log.ended.get(session).map_or(&[][..], Vec::as_slice);
        assert!(ended.len() == ends.len() && ended.iter().zip(ends).all(same), "{log:#?}");
    }
    assert_eq!((log.closed, run.end), (1, Time::ZERO), "{log:#?}");
    run.tally
}

struct Run {
    log: Rc<RefCell<Log>>,
    end: Time,
    tally: Tally,
}

/// What both applications saw, by session.
#[derive(Debug, Default)]
struct Log {
    said: BTreeMap<String, Vec<String>>,
    heard: BTreeMap<String, Vec<String>>,
    /// How the agent ended its turns, and how the client was told.
    ends: BTreeMap<String, Vec<String>>,
    ended: BTreeMap<String, Vec<String>>,
    asked: usize,
    closed: usize,
    /// Gateways that were started and have not ended by themselves.
    gateways: usize,
}

/// The program that is started instead of the agent, where there are gateways: each starts the next.
fn program(gateways: usize) -> String {
    if gateways == 0 { "agent".to_owned() } else { format!("gateway-{gateways}") }
}

fn spawn(program: &str, env: Vec<(OsString, Secret<OsString>)>) -> Open {
    Open::spawn(SpawnSpec { program: program.into(), env, stderr: Stderr::Pipe, ..SpawnSpec::default() })
}

fn run(dice: Dice<'_>, faults: Faults, habits: Habits, gateways: usize) -> Run {
    let Habits { client, agent, leave_after } = habits;
    let log = Rc::new(RefCell::new(Log::default()));
    let mut world = World::new(dice, faults);
    let agent_log = log.clone();
    let secrets: Vec<String> = client.secret.iter().cloned().collect();
    let words = secrets.clone();
    world.program("agent", move |now, _: &SpawnSpec| {
        let mut app =
            AgentApp { habits: agent.clone(), turns: BTreeMap::new(), next: 0, log: agent_log.clone() };
        let machine = Checked::new(now, (Checks::default(), agent::Config::on_stdio()));
        let machine = machine.and_secrets(words.clone());
        let hear = move |_: Now, event, say: &mut Vec<agent::Command>| app.hear(event, say);
        Node::new(machine.and(AgentAudit::default()), hear).on_term(|| agent::Command::Shutdown)
    });
    for n in 1..=gateways {
        let log = log.clone();
        world.program(&program(n), move |now, _: &SpawnSpec| {
            let log = log.clone();
            log.borrow_mut().gateways += 1;
            let agent = Box::new(client::Config::new(spawn(&program(n - 1), Vec::new())));
            let config = gateway::Config::on_stdio(agentline_core::session::SourceConfig::Acp(agent));
            let machine: Checked<Gateway> = Checked::new(now, (Checks::default(), config));
            let hear = move |_: Now, event, _: &mut Vec<gateway::Command>| {
                log.borrow_mut().gateways -= usize::from(event == gateway::Event::Closed);
            };
            Node::new(machine, hear).on_term(|| gateway::Command::Shutdown)
        });
    }
    let mut app = ClientApp { prompts: vec![0; client.sessions], open: 0, habits: client, log: log.clone() };
    let config = app.config(&program(gateways));
    let machine = Checked::new(world.now(), (Checks::default(), config)).and_secrets(secrets);
    let hear = move |_: Now, event, say: &mut Vec<client::Command>| app.hear(&event, say);
    let node = world.add(Node::new(machine.and(ClientAudit::default()), hear));
    if let Some(span) = leave_after {
        world.command_in(span, node, client::Command::Shutdown);
    }
    world.run();
    assert!(world.is_over(node), "the client is not done");
    // Who is killed leaves behind what only its guardian could see off.
    if log.borrow().gateways == 0 {
        assert_eq!(world.processes(), 0, "somebody is left behind");
    }
    let ends = log.borrow().ended.values().flatten().filter(|end| !end.starts_with('!')).count();
    let all = log.borrow().ended.values().flatten().count();
    let asked = log.borrow().asked;
    let tally = Tally { stopped: ends, broken: all - ends, asked, steps: world.steps() };
    Run { log, end: world.now().mono, tally }
}

#[derive(Clone, Debug)]
struct Habits {
    client: ClientHabits,
    agent: AgentHabits,
    leave_after: Option<Duration>,
}

#[derive(Clone, Debug)]
struct ClientHabits {
    sessions: usize,
    /// How many prompts each session gets.
    prompts: usize,
    /// After how many updates of a session its turn is cancelled; zero: never.
    patience: usize,
    policy: Policy,
    silence: Option<Duration>,
    raw: bool,
    /// Is handed on to the agent and its servers, and shown to nobody.
    secret: Option<String>,
}

#[derive(Clone, Copy, Debug)]
enum Policy {
    Allow,
    Reject,
    Dismiss,
    /// An option that was not offered, then the one that was.
    Fumble,
    /// Never.
    Ignore,
}

#[derive(Clone, Debug)]
struct AgentHabits {
    /// What happens in its turns, over and over.
    steps: Vec<Step>,
    on_cancel: OnCancel,
    /// Whether a new session may speak before its id is told.
    early: bool,
    refuses_sessions: bool,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Say,
    Report,
    Ask,
    Read,
    End,
    Fail,
    /// Nothing more comes of this turn.
    Hang,
}

#[derive(Clone, Copy, Debug)]
enum OnCancel {
    End,
    Fail,
    Ignore,
}

impl Habits {
    fn roll(dice: &mut Dice<'_>, clean: bool) -> Self {
        const STEPS: [Step; 10] = [
            Step::Say,
            Step::End,
            Step::Say,
            Step::Ask,
            Step::Report,
            Step::Say,
            Step::Read,
            Step::Ask,
            Step::Fail,
            Step::Hang,
        ];
        const POLICIES: [Policy; 5] =
            [Policy::Allow, Policy::Reject, Policy::Dismiss, Policy::Fumble, Policy::Ignore];
        const CANCELS: [OnCancel; 3] = [OnCancel::End, OnCancel::Fail, OnCancel::Ignore];
        let sane = usize::from(clean);
        let mut steps: Vec<Step> =
            (0..dice.below(12)).map(|_| *dice.pick(&STEPS[..STEPS.len() - sane])).collect();
        steps.push(Step::End);
        Self {
            client: ClientHabits {
                sessions: 1 + dice.below(3),
                prompts: 1 + dice.below(4),
                patience: dice.below(6),
                policy: *dice.pick(&POLICIES[..POLICIES.len() - sane]),
                silence: dice.once_in(4).then(|| Duration::from_secs(30)),
                raw: dice.once_in(8),
                secret: None,
            },
            agent: AgentHabits {
                steps,
                on_cancel: *dice.pick(&CANCELS[..CANCELS.len() - sane]),
                early: dice.once_in(4),
                refuses_sessions: dice.once_in(16),
            },
            leave_after: (!clean).then(|| Duration::from_secs([60, 300, 5, 1][dice.below(4)])),
        }
    }
}

struct ClientApp {
    habits: ClientHabits,
    /// Prompts that were sent, by session.
    prompts: Vec<usize>,
    /// Sessions that are neither done nor refused.
    open: usize,
    log: Rc<RefCell<Log>>,
}

impl ClientApp {
    fn config(&self, program: &str) -> client::Config {
        let secret = self.habits.secret.iter();
        let env = secret.map(|secret| ("KEY".into(), Secret::new(secret.into()))).collect();
        let mut config = client::Config::new(spawn(program, env));
        config.capabilities.fs.read_text_file = true;
        config.timeouts.silence = self.habits.silence;
        config.raw = self.habits.raw;
        config
    }

    fn hear(&mut self, event: &client::Event, say: &mut Vec<client::Command>) {
        use client::Event as E;
        match event {
            E::Ready(_) => {
                self.open = self.habits.sessions;
                let setup = super::with_key("/w", self.habits.secret.as_deref());
                say.extend((0..self.open).map(|n| client::Command::OpenSession {
                    tag: Tag(u64::try_from(n).unwrap_or(0)),
                    which: Which::New,
                    setup: setup.clone(),
                }));
            }
            E::Answered(_, answer) => {
                if let Answer::SessionOpened { session, .. } = &**answer {
                    self.prompt(session, say);
                }
            }
            E::Failed(..) => self.one_less(say),
            E::Text(text) => {
                let session = text.session.as_str().to_owned();
                let mut log = self.log.borrow_mut();
                let heard = log.heard.entry(session).or_default();
                heard.push(text.text.clone());
                if self.habits.patience > 0 && heard.len().is_multiple_of(self.habits.patience) {
                    say.push(client::Command::Cancel { session: text.session.clone() });
                }
            }
            E::PermissionAsked(asked) => self.answer(asked, say),
            E::Requested(asked) => {
                let request = asked.request;
                say.push(match self.habits.policy {
                    Policy::Allow | Policy::Fumble | Policy::Dismiss => {
                        let result = Json::new(&serde_json::json!({ "content": "text" }));
                        client::Command::Reply { request, result }
                    }
                    Policy::Reject => {
                        let error = RpcError::new(code::NOT_FOUND, "no such file");
                        client::Command::Fail { request, error }
                    }
                    Policy::Ignore => return,
                });
            }
            E::TurnEnded(ended) => {
                let end = match &ended.end {
                    Ok(stopped) => stopped.reason.as_str().to_owned(),
                    Err(client::Failure::Rpc(error)) => error.code.to_string(),
                    Err(failure) => format!("!{failure:?}"),
                };
                let session = ended.session.as_str().to_owned();
                self.log.borrow_mut().ended.entry(session).or_default().push(end);
                self.prompt(&ended.session, say);
            }
            E::Closed(_) => self.log.borrow_mut().closed += 1,
            E::Line(_) | E::Updated(_) | E::Withdrawn(_) | E::Notified(_) | E::Stderr(_) | E::Noticed(_) => {}
        }
    }

    fn answer(&mut self, asked: &client::PermissionAsked, say: &mut Vec<client::Command>) {
        self.log.borrow_mut().asked += 1;
        let request = asked.request;
        let selected = PermissionOutcome::selected;
        let outcomes = match self.habits.policy {
            Policy::Allow => vec![selected("yes")],
            Policy::Reject => vec![selected("no")],
            Policy::Dismiss => vec![PermissionOutcome::Cancelled],
            Policy::Fumble => vec![selected("perhaps"), selected("no"), selected("yes")],
            Policy::Ignore => vec![],
        };
        say.extend(outcomes.into_iter().map(|outcome| client::Command::Answer { request, outcome }));
    }

    /// The next prompt of a session, if it gets one more.
    fn prompt(&mut self, session: &SessionId, say: &mut Vec<client::Command>) {
        let n: usize = session.as_str().trim_start_matches('s').parse().unwrap_or(0);
        let Some(sent) = self.prompts.get_mut(n) else { return };
        if *sent == self.habits.prompts {
            return self.one_less(say);
        }
        *sent += 1;
        let tag = Tag(u64::try_from(100 * (1 + n) + *sent).unwrap_or(0));
        let prompt = vec![ContentBlock::text("go")];
        say.push(client::Command::Prompt { tag, session: session.clone(), prompt });
    }

    fn one_less(&mut self, say: &mut Vec<client::Command>) {
        self.open = self.open.saturating_sub(1);
        if self.open == 0 {
            say.push(client::Command::Shutdown);
        }
    }
}

struct AgentApp {
    habits: AgentHabits,
    turns: BTreeMap<TurnKey, Running>,
    /// Numbers sessions and questions.
    next: usize,
    log: Rc<RefCell<Log>>,
}

struct Running {
    session: SessionId,
    step: usize,
    cancelled: bool,
}

impl AgentApp {
    fn hear(&mut self, event: agent::Event, say: &mut Vec<agent::Command>) {
        use agent::Event as E;
        match event {
            E::Requested(asked) => self.requested(&asked, say),
            E::Prompted(prompted) => {
                let running = Running { session: prompted.session, step: 0, cancelled: false };
                self.turns.insert(prompted.turn, running);
                self.go_on(prompted.turn, say);
            }
            E::Cancelled(turn) => {
                if let Some(running) = self.turns.get_mut(&turn) {
                    running.cancelled = true;
                }
                match self.habits.on_cancel {
                    OnCancel::End => self.end(turn, Ok(StopReason::Cancelled), say),
                    OnCancel::Fail => self.end(turn, Err(aborted()), say),
                    OnCancel::Ignore => {}
                }
            }
            E::TurnOver(turn) => {
                self.turns.remove(&turn);
            }
            E::PermissionAnswered(tag, _) | E::Served(tag, _) => {
                let asker = self.turns.keys().copied().find(|turn| tag_of(*turn, &self.turns) == Some(tag));
                if let Some(turn) = asker {
                    self.go_on(turn, say);
                }
            }
            E::Initialized(_)
            | E::Withdrawn(_)
            | E::Crowded
            | E::Drained
            | E::Notified(_)
            | E::Noticed(_)
            | E::Closed(_) => {}
        }
    }

    fn requested(&mut self, asked: &agent::Requested, say: &mut Vec<agent::Command>) {
        let request = asked.request;
        if !matches!(asked.wanted, Wanted::NewSession(_)) {
            return say.push(agent::Command::Reply { request, reply: Reply::Done });
        }
        if self.habits.refuses_sessions {
            let error = RpcError::new(code::AUTH_REQUIRED, "log in first");
            return say.push(agent::Command::Fail { request, error });
        }
        let session = SessionId::from(&*format!("s{}", self.next));
        self.next += 1;
        say.push(agent::Command::Reply {
            request,
            reply: Reply::SessionOpened { session: session.clone(), state: Default::default() },
        });
        if self.habits.early {
            let update = Update::Other(agentline_core::acp::Unknown {
                tag: "_ready".into(),
                raw: Json::new(&serde_json::json!({ "sessionUpdate": "_ready" })),
            });
            say.push(agent::Command::Announce { session, update });
        }
    }

    /// The next steps of a turn, up to one that waits.
    fn go_on(&mut self, turn: TurnKey, say: &mut Vec<agent::Command>) {
        while let Some(running) = self.turns.get_mut(&turn) {
            let step = self.habits.steps.get(running.step).copied().unwrap_or(Step::End);
            running.step += 1;
            let session = running.session.clone();
            let tag = Tag(number(turn) * 1000 + u64::try_from(running.step).unwrap_or(0));
            match step {
                Step::Say => {
                    let text = format!("{turn:?} {}", running.step);
                    let said = &mut self.log.borrow_mut().said;
                    said.entry(session.as_str().to_owned()).or_default().push(text.clone());
                    say.push(agent::Command::Say { turn, speaker: Speaker::Agent, text });
                }
                Step::Report => {
                    let call =
                        ToolCall { tool_call_id: "c".into(), title: "t".into(), ..ToolCall::default() };
                    say.push(agent::Command::Report { turn, update: Update::ToolCall(call) });
                }
                Step::Ask => {
                    let option = |option_id: &str, kind| PermissionOption {
                        option_id: option_id.into(),
                        name: option_id.into(),
                        kind,
                    };
                    say.push(agent::Command::AskPermission {
                        tag,
                        of: turn.into(),
                        tool_call: ToolCallUpdate { tool_call_id: "c".into(), ..ToolCallUpdate::default() },
                        options: vec![
                            option("yes", OptionKind::AllowOnce),
                            option("no", OptionKind::RejectOnce),
                        ],
                        meta: None,
                    });
                    return;
                }
                Step::Read => {
                    let read =
                        ReadTextFile { session_id: session, path: "/f".into(), line: None, limit: None };
                    say.push(agent::Command::Request { tag, wanted: ServiceRequest::ReadTextFile(read) });
                    return;
                }
                Step::End => return self.end(turn, Ok(StopReason::EndTurn), say),
                Step::Fail => return self.end(turn, Err(aborted()), say),
                Step::Hang => return,
            }
        }
    }

    fn end(&mut self, turn: TurnKey, end: Result<StopReason, RpcError>, say: &mut Vec<agent::Command>) {
        let Some(running) = self.turns.remove(&turn) else { return };
        let word = match &end {
            _ if running.cancelled => StopReason::Cancelled.as_str().to_owned(),
            Ok(reason) => reason.as_str().to_owned(),
            Err(error) => error.code.to_string(),
        };
        let ends = &mut self.log.borrow_mut().ends;
        ends.entry(running.session.as_str().to_owned()).or_default().push(word);
        say.push(match end {
            Ok(reason) => agent::Command::EndTurn { turn, stopped: reason.into() },
            Err(error) => agent::Command::FailTurn { turn, error },
        });
    }
}

fn number(turn: TurnKey) -> u64 {
    serde_json::to_value(turn).ok().and_then(|json| json.as_u64()).unwrap_or(0)
}

/// The tag of the question that a turn waits for, if it waits.
fn tag_of(turn: TurnKey, turns: &BTreeMap<TurnKey, Running>) -> Option<Tag> {
    let step = u64::try_from(turns.get(&turn)?.step).ok()?;
    Some(Tag(number(turn) * 1000 + step))
}

fn aborted() -> RpcError {
    RpcError::new(code::INTERNAL_ERROR, "aborted")
}
