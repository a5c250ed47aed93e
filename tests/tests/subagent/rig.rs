//! Runs a run: in a world, or for real.

use std::cell::{Cell, RefCell};
use std::fs;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use agentline_blocking::Driver;
use agentline_blocking::workspace;
use agentline_core::Closed;
use agentline_core::acp::Fault;
use agentline_core::acp::client::Moment;
use agentline_core::acp::update::Speaker;
use agentline_core::problem::{Failed, Kind};
use agentline_core::subagent::{Command, Config, Event, Finished, Outcome, Run};
use agentline_core::{Machine, Now, Output, Refused, SpawnSpec, Time};
use agentline_tests::puppet::{Deed, Puppet};
use agentline_tests::scripted::{Exits, Scripted, Start};
use agentline_tests::{Audit, Checked, Checks, Dice, Faults, Node, World, habits};

/// What is asked of a run, after which of its events; `None` is its start.
pub(crate) type Play = Box<dyn FnMut(Option<&Event>) -> Option<Command>>;

/// What came of a run.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) events: Vec<Event>,
    pub(crate) workspace: String,
    /// What is in `proof.txt` of the workspace.
    pub(crate) proof: Option<String>,
    /// How long it took, where time is not the machine's.
    pub(crate) took: Option<Duration>,
}

impl Seen {
    fn real(events: Vec<Event>, workspace: String) -> Self {
        let proof = fs::read_to_string(Path::new(&workspace).join("proof.txt")).ok();
        Self { events, workspace, proof, took: None }
    }

    /// The result: told once.
    pub(crate) fn finished(&self) -> &Finished {
        let mut told = self.events.iter().filter_map(finished);
        let (Some(finished), None) = (told.next(), told.next()) else { panic!("not one result: {self:#?}") };
        finished
    }

    /// The last word.
    pub(crate) fn closed(&self) -> &Closed<Fault> {
        let Some(Event::Closed(closed)) = self.events.last() else { panic!("no last word: {self:#?}") };
        closed
    }

    /// Whether the result was told when the child was gone already.
    pub(crate) fn finished_last(&self) -> bool {
        let before = self.events.iter().rev().nth(1);
        matches!(before, Some(Event::Finished(_)))
    }
}

/// The result, if this is the event that tells it.
pub(crate) fn finished(event: &Event) -> Option<&Finished> {
    if let Event::Finished(finished) = event { Some(finished) } else { None }
}

/// The scripted agent's name in a world.
pub(crate) const PROGRAM: &str = "scripted_agent";

/// With a simulated child, in a world where nothing goes wrong.
pub(crate) fn simulated(config: Config, mut play: Play) -> Seen {
    let mut world = World::new(Dice::new(&[]), Faults::NONE);
    let workspace = config.conversation.setup.cwd.clone();
    world.rude_program(PROGRAM, habits::manners, agent);
    world.rude_program("puppet", habits::manners, puppet);
    let first = play(None);
    let events = Rc::new(RefCell::new(Vec::new()));
    let end = Rc::new(Cell::new(Time::ZERO));
    let (heard, at) = (events.clone(), end.clone());
    let run = watched(world.now(), config);
    let node = Node::new(run, move |now, event, ask| {
        ask.extend(file_done(&event).or_else(|| play(Some(&event))));
        at.set(now.mono);
        heard.borrow_mut().push(event);
    });
    let node = world.add(node);
    if let Some(command) = first {
        world.command(node, command).expect("a command at the start");
    }
    world.run();
    assert!(world.is_over(node));
    assert_eq!(world.processes(), 0, "somebody is left");
    let proof = world
        .file(&Path::new(&workspace).join("proof.txt"))
        .map(|bytes| String::from_utf8_lossy(bytes).into());
    Seen { events: events.take(), workspace, proof, took: Some(end.get().since(Time::ZERO)) }
}

/// With a real child, on the blocking runtime.
pub(crate) fn blocking(config: Config, mut play: Play) -> Seen {
    let workspace = config.conversation.setup.cwd.clone();
    let mut driver = Driver::<Run>::new(config).expect("a driver");
    let mut events = Vec::new();
    play(None).map(|command| driver.command(command));
    while let Some(event) = driver.next() {
        file_done(&event).or_else(|| play(Some(&event))).map(|command| driver.command(command));
        events.push(event);
    }
    Seen::real(events, workspace)
}

/// With a real child, on the smol runtime.
pub(crate) fn smol(config: Config, mut play: Play) -> Seen {
    let workspace = config.conversation.setup.cwd.clone();
    let (mut told, driver) = agentline_smol::spawn::<Run>(config).expect("a driver");
    let mut events = Vec::new();
    smol::block_on(smol::future::zip(driver, async {
        play(None).map(|command| told.command(command));
        while let Some(event) = told.next().await {
            file_done(&event).or_else(|| play(Some(&event))).map(|command| told.command(command));
            events.push(event);
        }
    }));
    Seen::real(events, workspace)
}

/// A run whose every step is checked.
pub(crate) fn watched(now: Now, config: Config) -> Checked<Run> {
    Checked::new(now, (Checks::default(), config)).and(Settles::default())
}

/// The scripted agent as a node of a world.
pub(crate) fn agent(now: Now, spec: &SpawnSpec) -> Node<Scripted> {
    let scripted = Scripted::new(now, Start::of(spec));
    Node::new(Checked::around(scripted, Checks { json: false, ..Checks::default() }), |_, _, _| {})
        .exits(|Exits(status)| Some(*status))
}

/// A command that it has run, as a node of a world.
pub(crate) fn puppet(now: Now, spec: &SpawnSpec) -> Node<Puppet> {
    let steps = spec.args.last().map(|steps| steps.to_string_lossy().into_owned()).unwrap_or_default();
    let machine = Checked::around(Puppet::new(now, steps), Checks { json: false, ..Checks::default() });
    Node::new(machine, |_, _, _| {})
        .exits(|deed| if let Deed::Exit(status) = deed { Some(*status) } else { None })
}

/// The file that is wanted, read or written for real.
pub(crate) fn file_done(event: &Event) -> Option<Command> {
    let Event::FileWanted(wanted) = event else { return None };
    Some(Command::FileDone { request: wanted.request, done: workspace::carry_out(wanted) })
}

/// Exactly one result, then exactly one last word; the result holds all that was told before.
#[derive(Default)]
pub(crate) struct Settles {
    finished: bool,
    closed: bool,
    /// The latest command.
    cancels: bool,
    cancelled: bool,
    said: Said,
    /// Of the turn whose answer was judged last.
    judged: Said,
}

/// What was told of a turn.
#[derive(Default)]
struct Said {
    text: String,
    decisions: usize,
}

impl Audit<Run> for Settles {
    fn command(&mut self, command: &Command) {
        self.cancels = matches!(command, Command::Cancel | Command::Dispose);
        self.cancelled |= self.cancels && !self.finished;
    }

    fn refused(&mut self, _: Refused) {
        assert!(!self.cancels || self.finished, "a run that goes on can be cancelled");
    }

    fn output(&mut self, output: &Output<Event>) {
        let Output::Tell(event) = output else { return };
        assert!(!self.closed, "{event:?} after the last word");
        match event {
            Event::Text(text) => {
                assert!(!self.finished, "text after the result");
                if text.speaker == Speaker::Agent && text.moment == Moment::Turn {
                    self.said.text += &text.text;
                }
            }
            Event::PermissionDecided(_) => {
                assert!(!self.finished, "a decision after the result");
                self.said.decisions += 1;
            }
            Event::Answered(answered) => {
                assert!(!self.finished, "a judgement after the result");
                assert!(self.said.text.contains(&*answered.message), "{answered:?}");
                self.judged = std::mem::take(&mut self.said);
            }
            Event::Finished(finished) => self.finished(finished),
            Event::Closed(_) => self.closed = true,
            Event::Started(_)
            | Event::Ready(_)
            | Event::SessionOpened(_)
            | Event::Listed(_)
            | Event::QuestionAsked(_)
            | Event::QuestionDecided(_)
            | Event::PageDone(_)
            | Event::FileWanted(_)
            | Event::Hosted(_)
            | Event::Retrying(_)
            | Event::Line(_)
            | Event::Updated(_)
            | Event::PermissionAsked(_)
            | Event::Stderr(_)
            | Event::Noticed(_) => {}
        }
    }

    fn ended(&mut self) {
        assert!(self.finished && self.closed, "the end without a result");
    }
}

impl Settles {
    fn finished(&mut self, finished: &Finished) {
        assert!(!std::mem::replace(&mut self.finished, true), "a second result");
        // Messages are set off from each other by line ends.
        let bare = |text: &str| text.replace('\n', "");
        let output = bare(&finished.output);
        let is_of = |said: &Said| {
            let whole = bare(&said.text);
            let is_whole = finished.output_truncated || output == whole;
            is_whole && whole.starts_with(&output) && finished.permissions.len() == said.decisions
        };
        assert!(is_of(&self.said) || is_of(&self.judged), "{finished:?}");
        let messages: Vec<&str> = finished.messages().collect();
        assert_eq!(bare(&messages.concat()), output);
        let counts = finished.decisions;
        let count = counts.allowed + counts.rejected + counts.cancelled;
        assert_eq!(count, finished.permissions.len() as u64);
        assert_eq!(finished.outcome == Outcome::Error, finished.error.is_some(), "{finished:?}");
        // What ended it on our side before the cancel counts for more.
        let ours = |error: &Failed| matches!(error.kind(), Kind::Timeout | Kind::Refused);
        let aborted = finished.outcome == Outcome::Aborted || finished.error.as_ref().is_some_and(ours);
        assert!(!self.cancelled || aborted, "{finished:?}");
    }
}
