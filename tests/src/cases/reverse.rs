//! The reverse extension: both sides in a faulty world, and each against a peer that says anything.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "an application looks for the few events that it acts on"
)]

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use agentline_core::acp::update::{Speaker, ToolCallUpdate};
use agentline_core::acp::{
    OptionKind, PermissionOption, PermissionOutcome, RequestKey, SessionId, SessionSetup, StopReason,
};
use agentline_core::reverse::Capabilities;
use agentline_core::reverse::acceptor::{self, Acceptor, Command, Event};
use agentline_core::reverse::agent::{self, Agent};
use agentline_core::rpc::RpcError;
use agentline_core::{Address, Limits, Machine, Now, Open, Output, Refused, Tag};

use super::galley::{lines, talk};
use crate::acp::with_key;
use crate::dice::Dice;
use crate::door::{self, Door};
use crate::invariants::{Audit, Checked, Checks};
use crate::toy::{Heard, Say};
use crate::world::{Faults, Node, World};

/// A hub and an agent that dials in, whatever goes wrong: each turn, question and request ends once on both sides.
pub fn reverse_pair(data: &[u8]) {
    let _ = dialled(data, Faults::ALL);
}

/// A door and agents that dial in, again when their link is over, whatever goes wrong: each link is told once and ends, and
/// in the end nobody is left. How many links were let in.
///
/// # Panics
///
/// That does not hold.
#[must_use]
pub fn doors(data: &[u8]) -> usize {
    let mut dice = Dice::new(data);
    let faults = Faults { manners: false, ..Faults::ALL };
    let terminals: Vec<(TerminalHabits, Duration)> = (0..3)
        .map(|_| {
            let habits = TerminalHabits {
                sessions: 1 + dice.below(3),
                turns: dice.below(4),
                asks: dice.once_in(2),
                terminal_first: dice.once_in(3),
                fails: dice.once_in(4),
            };
            (habits, dice.pause())
        })
        .collect();
    let closes = dice.pause() * 4;
    let links: Rc<RefCell<BTreeMap<u32, (usize, usize)>>> = Rc::default();
    let mut world = World::new(dice, faults);
    let seen = links.clone();
    let app = move |_, event, say: &mut Vec<door::Command>| {
        let door::Event::Said(link, event) = event else { return };
        let mut seen = seen.borrow_mut();
        let (let_in, closed) = seen.entry(link).or_default();
        assert_eq!(*closed, 0, "a link that is over says nothing");
        match event {
            Event::Hello(_) => say.push(door::Command::To(link, Command::Accept)),
            Event::Accepted(_) => *let_in += 1,
            Event::Announced(announced) => {
                let (tag, session, text) = (Tag(1), announced.session, "go".to_owned());
                say.push(door::Command::To(link, Command::Prompt { tag, session, text }));
            }
            Event::Closed(_) => *closed += 1,
            _ => {}
        }
    };
    let address = Address("/run/acp.sock".into());
    let machine = Checked::<Door>::new(world.now(), (Checks::default(), address.clone()));
    let door = world.add(Node::new(machine, app));
    let mut agents = Vec::new();
    for (habits, pause) in terminals {
        world.run_until(world.now().mono + pause);
        for _ in 0..2 {
            let config = agent::Config { open: Open::Connect(address.clone()), ..dialling() };
            let machine = Checked::<Agent>::new(world.now(), (Checks::default(), config));
            let agent = world.add(Node::new(machine.and(Asks::default()), agent_of(habits)));
            world.command_in(pause, agent, agent::Command::Leave);
            agents.push(agent);
            world.run_until(world.now().mono + pause);
        }
    }
    world.command_in(closes, door, door::Command::Close);
    world.run();
    assert!(world.is_over(door) && agents.iter().all(|agent| world.is_over(*agent)), "somebody goes on");
    let links = links.borrow();
    assert!(links.values().all(|(_, closed)| *closed == 1), "{links:?}");
    links.values().map(|(let_in, _)| let_in).sum()
}

/// What came of a pair.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct DialledLog {
    /// Turns that the hub saw begin, of either side.
    pub turns: usize,
    /// Prompts of the hub's whose end was the agent's word.
    pub answered: usize,
    /// Questions that the hub was asked.
    pub asked: usize,
    /// Questions in which the terminal was first.
    pub terminal: usize,
    /// Sessions that the hub opened.
    pub opened: usize,
}

/// Plays a pair with these faults.
///
/// # Panics
///
/// An invariant does not hold.
#[must_use]
pub fn dialled(data: &[u8], faults: Faults) -> DialledLog {
    let mut dice = Dice::new(data);
    let hub = HubHabits {
        refuses: dice.once_in(12),
        prompts: dice.below(4) as u64,
        cancels: dice.once_in(3),
        opens: dice.once_in(3),
        answer: dice.below(4),
    };
    let terminal = TerminalHabits {
        sessions: 1 + dice.below(3),
        turns: dice.below(4),
        asks: dice.once_in(2),
        terminal_first: dice.once_in(3),
        fails: dice.once_in(4),
    };
    let leaves = dice.once_in(4).then(|| (dice.once_in(2), dice.pause()));
    let words = dice.secrets();
    let log = Rc::new(RefCell::new(DialledLog::default()));
    let mut world = World::new(dice, faults);
    let (here, there) = world.stream();
    let config = acceptor::Config { open: Some(Open::Given(0)), ..acceptor::Config::taken() };
    let machine = Checked::<Acceptor>::new(world.now(), (Checks::default(), config));
    let machine = machine.and(Accounts::default()).and_secrets(words.clone());
    let app = hub_of(hub, words.first().cloned(), log.clone());
    let hub = world.add_with_given(Node::new(machine, app), here);
    let machine = Checked::<Agent>::new(world.now(), (Checks::default(), dialling()));
    let machine = machine.and(Asks::default()).and_secrets(words);
    let agent = world.add_with_given(Node::new(machine, agent_of(terminal)), there);
    match leaves {
        Some((true, pause)) => world.command_in(pause, hub, Command::Leave),
        Some((false, pause)) => world.command_in(pause, agent, agent::Command::Leave),
        None => {}
    }
    world.command_in(DAY, hub, Command::Leave);
    world.run();
    assert!(world.is_over(hub) && world.is_over(agent), "somebody goes on");
    drop(world);
    log.take()
}

/// Whatever an agent says and a hub asks for, each turn, question and request ends once, and at the end all is over.
pub fn reverse_acceptor(data: &[u8]) {
    let (script, faults) = data.split_at(data.len() / 2);
    let mut script = Dice::new(script);
    let mut world = World::new(Dice::new(faults), Faults { late: true, cut: true, ..Faults::NONE });
    let (here, there) = world.stream();
    let config = acceptor::Config { open: Some(Open::Given(0)), kept: 3, ..acceptor::Config::taken() };
    let limits = Limits {
        line: *script.pick(&[2000, 150]),
        sessions: 3,
        own_requests: 3,
        unsent_hard: *script.pick(&[1 << 20, 500]),
        ..config.limits
    };
    let machine =
        Checked::<Acceptor>::new(world.now(), (Checks::default(), acceptor::Config { limits, ..config }));
    let refuses = script.once_in(8);
    let app = move |_, event, commands: &mut Vec<Command>| match event {
        Event::Hello(_) if refuses => commands.push(Command::Refuse("no".to_owned())),
        Event::Hello(_) => commands.push(Command::Accept),
        _ => {}
    };
    let hub = world.add_with_given(Node::new(machine.and(Accounts::default()), app), here);
    let mut said = lines(&mut script, &AGENT);
    if !script.once_in(4) {
        said.splice(0..0, [HELLO.to_owned(), AGENT[0].to_owned()]);
    }
    let peer = Node::new(talk(world.now()), move |_, heard, say| {
        if heard == Heard::Opened {
            say.push(Say::Lines(said.clone()));
        }
    });
    world.add_with_given(peer, there);
    for n in 0..script.below(12) as u64 {
        let _ = world.command(hub, command(&mut script, n));
        world.run_until(world.now().mono + script.pause());
    }
    world.command_in(DAY, hub, Command::Leave);
    world.run();
    assert!(world.is_over(hub), "the hub goes on");
}

/// Whatever a hub says and an agent does, each question and each prompt ends once, and at the end all is over.
pub fn reverse_agent(data: &[u8]) {
    let (script, faults) = data.split_at(data.len() / 2);
    let mut script = Dice::new(script);
    let mut world = World::new(Dice::new(faults), Faults { late: true, cut: true, ..Faults::NONE });
    let (here, there) = world.stream();
    let config = dialling();
    let limits = Limits {
        line: *script.pick(&[2000, 150]),
        peer_requests: 3,
        unsent_hard: *script.pick(&[1 << 20, 900]),
        ..config.limits
    };
    let habits = TerminalHabits {
        sessions: 2,
        turns: script.below(3),
        asks: script.once_in(2),
        terminal_first: script.once_in(3),
        fails: script.once_in(4),
    };
    let machine = Checked::<Agent>::new(world.now(), (Checks::default(), agent::Config { limits, ..config }));
    let agent = world.add_with_given(Node::new(machine.and(Asks::default()), agent_of(habits)), here);
    let mut said = lines(&mut script, &HUB);
    if !script.once_in(4) {
        said.insert(0, HUB[0].to_owned());
    }
    let peer = Node::new(talk(world.now()), move |_, heard, say| {
        if heard == Heard::Opened {
            say.push(Say::Lines(said.clone()));
        }
    });
    world.add_with_given(peer, there);
    world.command_in(DAY, agent, agent::Command::Leave);
    world.run();
    assert!(world.is_over(agent), "the agent goes on");
}

/// What a hub does.
#[derive(Clone, Copy, Debug)]
struct HubHabits {
    refuses: bool,
    prompts: u64,
    cancels: bool,
    opens: bool,
    answer: usize,
}

fn hub_of(
    habits: HubHabits,
    secret: Option<String>,
    log: Rc<RefCell<DialledLog>>,
) -> impl FnMut(Now, Event, &mut Vec<Command>) {
    let mut next = 0;
    move |_, event, commands| {
        let mut log = log.borrow_mut();
        let mut prompt = |session: SessionId, commands: &mut Vec<Command>| {
            if next < habits.prompts {
                next += 1;
                commands.push(Command::Prompt { tag: Tag(next), session, text: "go".to_owned() });
            }
        };
        match event {
            Event::Hello(_) if habits.refuses => commands.push(Command::Refuse("no".to_owned())),
            Event::Hello(_) => commands.push(Command::Accept),
            Event::Accepted(_) if habits.opens => {
                commands.push(Command::NewSession {
                    tag: NEW,
                    setup: Box::new(with_key("/n", secret.as_deref())),
                });
            }
            Event::SessionOpened(_, session) => {
                log.opened += 1;
                prompt(session, commands);
            }
            Event::Announced(announced) => prompt(announced.session, commands),
            Event::TurnStarted(session, _) => {
                log.turns += 1;
                if habits.cancels {
                    commands.push(Command::Cancel { session });
                }
            }
            Event::PermissionAsked(asked) => {
                log.asked += 1;
                let request = asked.request;
                match habits.answer {
                    0 => commands.push(Command::NoAnswer { request }),
                    1 => {
                        commands.push(Command::Answer { request, outcome: PermissionOutcome::selected("y") })
                    }
                    2 => commands.push(Command::Answer { request, outcome: PermissionOutcome::Cancelled }),
                    _ => {}
                }
            }
            Event::Settled { why: acceptor::Settled::InTerminal, .. } => log.terminal += 1,
            Event::TurnEnded(ended) => {
                log.answered += usize::from(ended.tag.is_some() && ended.end.is_ok());
                prompt(ended.session, commands);
            }
            _ => {}
        }
    }
}

/// What an agent and its terminal do.
#[derive(Clone, Copy, Debug)]
struct TerminalHabits {
    sessions: usize,
    turns: usize,
    asks: bool,
    terminal_first: bool,
    fails: bool,
}

/// Shows sessions, has turns of its own on the first, and asks in each turn. A turn is over when its question is.
fn agent_of(habits: TerminalHabits) -> impl FnMut(Now, agent::Event, &mut Vec<agent::Command>) {
    use agent::Command;

    /// Whose turn a question is of.
    enum Of {
        Own(SessionId),
        Hubs(agentline_core::acp::agent::TurnKey),
    }

    let mut open: BTreeMap<Tag, Of> = BTreeMap::new();
    let (mut tags, mut turns) = (0, habits.turns);
    let finish = move |of: Of, turns: &mut usize, commands: &mut Vec<Command>| match of {
        Of::Own(session) => {
            commands.push(Command::EndTurn { session: session.clone(), reason: StopReason::EndTurn });
            if *turns > 0 {
                *turns -= 1;
                commands.push(Command::StartTurn { session: session.clone() });
                commands.push(Command::EndTurn { session, reason: StopReason::Cancelled });
            }
        }
        Of::Hubs(turn) if habits.fails => {
            commands.push(Command::FailPrompt { turn, error: Box::new(RpcError::new(-5, "no")) });
        }
        Of::Hubs(turn) => {
            commands.push(Command::EndPrompt { turn, stopped: Box::new(StopReason::EndTurn.into()) });
        }
    };
    move |_, event, commands| {
        let mut work = |session: SessionId, of: Of, turns: &mut usize, commands: &mut Vec<Command>| {
            let (speaker, text) = (Speaker::Agent, "hm".to_owned());
            commands.push(Command::Say { session: session.clone(), speaker, text, message: None });
            if !habits.asks {
                return finish(of, turns, commands);
            }
            tags += 1;
            let tag = Tag(tags);
            let tool_call =
                Box::new(ToolCallUpdate { tool_call_id: "c".to_owned(), ..ToolCallUpdate::default() });
            commands.push(Command::AskPermission { tag, session, tool_call, options: options() });
            if habits.terminal_first {
                commands.push(Command::ResolvePermission { tag });
                finish(of, turns, commands);
            } else {
                open.insert(tag, of);
            }
        };
        match event {
            agent::Event::Accepted => {
                for n in 0..habits.sessions {
                    let session = SessionId::from(&*format!("s{n}"));
                    commands.push(Command::Announce { session, cwd: "/w".to_owned(), title: None });
                }
                if turns > 0 {
                    turns -= 1;
                    commands.push(Command::StartTurn { session: "s0".into() });
                    work("s0".into(), Of::Own("s0".into()), &mut turns, commands);
                }
            }
            agent::Event::Prompted(prompted) => {
                work(prompted.session, Of::Hubs(prompted.turn), &mut turns, commands);
            }
            agent::Event::SessionWanted(request, _) => {
                commands.push(Command::OpenSession { request, session: "new".into() });
            }
            agent::Event::PermissionAnswered(tag, _) | agent::Event::Unanswered(tag) => {
                if let Some(of) = open.remove(&tag) {
                    finish(of, &mut turns, commands);
                }
            }
            _ => {}
        }
    }
}

/// At a hub: a session's turns begin and end in turns, a prompt's with its own tag; each question is settled or answered
/// once, before its turn ends; each new session is one or failed.
#[derive(Default)]
struct Accounts {
    asked: Option<Command>,
    prompts: BTreeSet<Tag>,
    opening: BTreeSet<Tag>,
    running: BTreeMap<SessionId, Option<Tag>>,
    questions: BTreeMap<RequestKey, SessionId>,
}

impl Accounts {
    fn answered(&mut self, request: RequestKey) {
        assert!(self.questions.remove(&request).is_some(), "{request:?} was not open");
    }

    fn taken(&mut self, command: Command) {
        match command {
            Command::Answer { request, .. } | Command::NoAnswer { request } => self.answered(request),
            Command::NewSession { tag, .. } => assert!(self.opening.insert(tag), "{tag:?} was used"),
            _ => {}
        }
    }

    fn told(&mut self, event: &Event) {
        match event {
            Event::TurnStarted(session, tag) => {
                assert_eq!(self.running.insert(session.clone(), *tag), None, "a turn runs on {session}");
                assert!(tag.is_none_or(|tag| self.prompts.remove(&tag)), "{tag:?} was not sent");
            }
            Event::TurnEnded(ended) => {
                assert_eq!(self.running.remove(&ended.session), Some(ended.tag), "{ended:?}");
                assert!(
                    !self.questions.values().any(|of| *of == ended.session),
                    "a question outlives its turn"
                );
            }
            Event::PermissionAsked(asked) => {
                let session = asked.asked.session_id.clone();
                assert!(!self.questions.values().any(|of| *of == session), "two questions on {session}");
                self.questions.insert(asked.request, session);
            }
            Event::Settled { request, .. } => self.answered(*request),
            Event::SessionOpened(tag, _) | Event::Failed(tag, _) => {
                assert!(self.opening.remove(tag), "{tag:?} was answered before");
            }
            _ => {}
        }
    }
}

impl Audit<Acceptor> for Accounts {
    fn command(&mut self, command: &Command) {
        if let Command::Prompt { tag, .. } = command {
            self.prompts.insert(*tag);
        }
        self.asked = Some(command.clone());
    }

    fn refused(&mut self, _: Refused) {
        if let Some(Command::Prompt { tag, .. }) = self.asked.take() {
            self.prompts.remove(&tag);
        }
    }

    fn output(&mut self, output: &Output<Event>) {
        // It was not refused.
        if let Some(command) = self.asked.take() {
            self.taken(command);
        }
        if let Output::Tell(event) = output {
            self.told(event);
        }
    }

    fn settled(&mut self, _: &Acceptor) {
        if let Some(command) = self.asked.take() {
            self.taken(command);
        }
        assert!(self.prompts.is_empty(), "sent and never begun: {:?}", self.prompts);
    }

    fn ended(&mut self) {
        assert!(
            self.running.is_empty() && self.questions.is_empty(),
            "{:?} {:?}",
            self.running,
            self.questions
        );
        assert!(self.opening.is_empty(), "{:?}", self.opening);
    }
}

/// At an agent: each question that was not resolved is answered once, and each prompt is over once.
#[derive(Default)]
struct Asks {
    asked: Option<agent::Command>,
    questions: BTreeSet<Tag>,
    turns: BTreeSet<agentline_core::acp::agent::TurnKey>,
}

impl Asks {
    fn taken(&mut self, command: agent::Command) {
        match command {
            agent::Command::AskPermission { tag, .. } => drop(self.questions.insert(tag)),
            agent::Command::ResolvePermission { tag } => assert!(self.questions.remove(&tag), "{tag:?}"),
            agent::Command::EndPrompt { turn, .. } | agent::Command::FailPrompt { turn, .. } => {
                assert!(self.turns.remove(&turn), "{turn:?}");
            }
            _ => {}
        }
    }
}

impl Audit<Agent> for Asks {
    fn command(&mut self, command: &agent::Command) {
        self.asked = Some(command.clone());
    }

    fn refused(&mut self, _: Refused) {
        self.asked = None;
    }

    fn output(&mut self, output: &Output<agent::Event>) {
        if let Some(command) = self.asked.take() {
            self.taken(command);
        }
        match output {
            Output::Tell(agent::Event::Prompted(prompted)) => assert!(self.turns.insert(prompted.turn)),
            Output::Tell(agent::Event::TurnOver(turn)) => assert!(self.turns.remove(turn), "{turn:?}"),
            Output::Tell(agent::Event::PermissionAnswered(tag, _) | agent::Event::Unanswered(tag)) => {
                assert!(self.questions.remove(tag), "{tag:?}");
            }
            _ => {}
        }
    }

    fn settled(&mut self, _: &Agent) {
        if let Some(command) = self.asked.take() {
            self.taken(command);
        }
    }

    fn ended(&mut self) {
        assert!(self.questions.is_empty() && self.turns.is_empty(), "{:?} {:?}", self.questions, self.turns);
    }
}

fn dialling() -> agent::Config {
    let capabilities = Capabilities { prompt: true, cancel: true, new_session: true };
    agent::Config { open: Open::Given(0), capabilities, ..agent::Config::connect(Address("/".into()), "a") }
}

fn options() -> Vec<PermissionOption> {
    vec![PermissionOption { option_id: "y".to_owned(), name: "yes".to_owned(), kind: OptionKind::AllowOnce }]
}

fn command(dice: &mut Dice<'_>, n: u64) -> Command {
    let session = SessionId::from(*dice.pick(&["s", "t", "x"]));
    let request = serde_json::from_value(serde_json::json!(dice.below(4))).expect("a key");
    match dice.below(8) {
        0 | 1 => Command::Prompt { tag: Tag(n), session, text: "go".to_owned() },
        2 => Command::Cancel { session },
        3 => Command::NewSession { tag: Tag(n), setup: Box::new(SessionSetup::in_directory("/n")) },
        4 => Command::Answer { request, outcome: PermissionOutcome::selected("y") },
        5 => Command::Answer { request, outcome: PermissionOutcome::Cancelled },
        6 => Command::NoAnswer { request },
        _ => Command::Prompt { tag: Tag(n), session, text: " ".to_owned() },
    }
}

const HELLO: &str = r#"{"id":1,"method":"_botbus/hello","params":{"id":"a","version":1,"capabilities":{"prompt":true,"cancel":true,"newSession":true}}}"#;

const AGENT: [&str; 16] = [
    r#"{"method":"_botbus/session","params":{"sessionId":"s","cwd":"/w"}}"#,
    r#"{"method":"_botbus/session","params":{"sessionId":"t","cwd":"/w","title":"t"}}"#,
    r#"{"method":"_botbus/turn","params":{"sessionId":"s","state":"started"}}"#,
    r#"{"method":"_botbus/turn","params":{"sessionId":"s","state":"ended","stopReason":"cancelled"}}"#,
    r#"{"method":"_botbus/turn","params":{"sessionId":"t","state":"ended"}}"#,
    r#"{"method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"x"}}}}"#,
    r#"{"method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"user_message_chunk","content":{"type":"text","text":"x"}}}}"#,
    r#"{"id":2,"method":"session/request_permission","params":{"sessionId":"s","toolCall":{"toolCallId":"c"},"options":[{"optionId":"y"}]}}"#,
    r#"{"id":2,"method":"session/request_permission","params":{"sessionId":"t","toolCall":{"toolCallId":"d"},"options":[]}}"#,
    r#"{"method":"_botbus/permission_resolved","params":{"sessionId":"s","toolCallId":"c"}}"#,
    r#"{"id":0,"result":{"stopReason":"end_turn"}}"#,
    r#"{"id":1,"result":{"sessionId":"x"}}"#,
    r#"{"id":1,"error":{"code":-1,"message":"no"}}"#,
    r#"{"id":2,"result":null}"#,
    HELLO,
    r#"{"id":9,"method":"_botbus/hello","params":{"id":"a","version":2}}"#,
];

const HUB: [&str; 12] = [
    r#"{"id":0,"result":{"accepted":true}}"#,
    r#"{"id":0,"result":{"accepted":false,"reason":"no"}}"#,
    r#"{"id":1,"method":"session/prompt","params":{"sessionId":"s0","prompt":[{"type":"text","text":"go"}]}}"#,
    r#"{"id":2,"method":"session/prompt","params":{"sessionId":"s1","prompt":[]}}"#,
    r#"{"method":"session/cancel","params":{"sessionId":"s0"}}"#,
    r#"{"id":3,"method":"session/new","params":{"cwd":"/w","mcpServers":[]}}"#,
    r#"{"id":1,"result":{"outcome":{"outcome":"selected","optionId":"y"}}}"#,
    r#"{"id":2,"result":{"outcome":{"outcome":"cancelled"}}}"#,
    r#"{"id":1,"error":{"code":-32001,"message":"no answer"}}"#,
    r#"{"id":2,"error":{"code":-32001,"message":"no answer"}}"#,
    r#"{"id":4,"method":"fs/read_text_file","params":{}}"#,
    r#"{"error":{"code":-32700,"message":"?"}}"#,
];

const NEW: Tag = Tag(1000);
/// Longer than anybody waits for anything.
const DAY: Duration = Duration::from_secs(24 * 3600);
