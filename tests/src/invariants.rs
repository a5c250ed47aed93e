//! What holds after every step of every machine, whatever it speaks.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Debug;

use agentline_core::{Action, Deadline, Heard, Input, LinkId, Machine, Now, Open, Output, Refused, Signal};
use serde::de::IgnoredAny;

/// Which of the checks that depend on the channel are made, and with which numbers.
#[derive(Clone, Debug)]
pub struct Checks {
    /// Each line written is one JSON object.
    pub json: bool,
    /// Bytes of a line written, without its end.
    pub line: usize,
    /// Bytes of a write of more than one line.
    pub write: usize,
}

impl Default for Checks {
    fn default() -> Self {
        Self { json: true, line: 32 << 20, write: 64 << 10 }
    }
}

/// What holds for one channel: told everything that goes in and comes out.
pub trait Audit<M: Machine> {
    /// The application is about to ask for something.
    fn command(&mut self, _command: &M::Command) {}

    /// That was refused.
    fn refused(&mut self, _refused: Refused) {}

    /// The machine is told something.
    fn input(&mut self, _input: Input<'_>) {}

    /// The machine says or wants something.
    fn output(&mut self, _output: &Output<M::Event>) {}

    /// A step is over and all its outputs were seen.
    fn settled(&mut self, _machine: &M) {}

    /// The machine is done.
    fn ended(&mut self) {}
}

/// A machine that is watched: each step panics as soon as an invariant breaks.
pub struct Checked<M: Machine> {
    machine: M,
    checks: Checks,
    links: BTreeMap<LinkId, Watched>,
    /// Links that were signalled in the present step.
    signalled: Vec<LinkId>,
    outputs: VecDeque<Output<M::Event>>,
    ended: bool,
    show: Option<fn(&M) -> String>,
    secrets: Option<Secrets<M>>,
    steps: u32,
    audits: Vec<Box<dyn Audit<M>>>,
}

struct Secrets<M: Machine> {
    words: Vec<String>,
    show_machine: fn(&M) -> String,
    show_command: fn(&M::Command) -> String,
    show_output: fn(&Output<M::Event>) -> String,
}

/// Steps of a run in which a machine is looked at for secrets; then every such number of steps.
const OFTEN: u32 = 30;

/// What was seen of one link.
#[derive(Debug)]
struct Watched {
    stage: Stage,
    writing: bool,
}

#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Stage {
    /// Not asked for, or it failed.
    Unopened,
    Opening,
    Open,
    /// Our half is closed.
    Shut,
    Closed,
}

impl<M: Machine> Checked<M> {
    /// Watches a machine from here on.
    pub fn around(machine: M, checks: Checks) -> Self {
        let mut checked = Self {
            machine,
            checks,
            links: BTreeMap::new(),
            signalled: Vec::new(),
            outputs: VecDeque::new(),
            ended: false,
            show: None,
            secrets: None,
            steps: 0,
            audits: Vec::new(),
        };
        checked.settle();
        checked
    }

    /// Compares the machine before and after each refused command. Slow: for short runs.
    #[must_use]
    pub fn and_refusals(mut self) -> Self
    where
        M: Debug,
    {
        self.show = Some(|machine| format!("{machine:?}"));
        self
    }

    /// Looks for these words in all that the machine, its commands and its outputs show of themselves; in a long run
    /// at the machine only now and then, and at its end. Without words it does not look.
    #[must_use]
    pub fn and_secrets(mut self, words: Vec<String>) -> Self
    where
        M: Debug,
        M::Command: Debug,
        M::Event: Debug,
    {
        self.secrets = (!words.is_empty()).then_some(Secrets {
            words,
            show_machine: |machine| format!("{machine:?}"),
            show_command: |command| format!("{command:?}"),
            show_output: |output| format!("{output:?}"),
        });
        self
    }

    /// Adds what holds for the channel.
    #[must_use]
    pub fn and(mut self, audit: impl Audit<M> + 'static) -> Self {
        self.audits.push(Box::new(audit));
        self
    }

    /// The machine itself.
    #[must_use]
    pub const fn machine(&self) -> &M {
        &self.machine
    }

    /// Whether the machine is done.
    #[must_use]
    pub const fn is_ended(&self) -> bool {
        self.ended
    }

    /// Moves all outputs of the step out and looks at each.
    fn drain(&mut self) {
        while let Some(output) = self.machine.poll() {
            self.watch(&output);
            for audit in &mut self.audits {
                audit.output(&output);
            }
            self.outputs.push_back(output);
        }
        self.signalled.clear();
    }

    /// The end of a step.
    fn settle(&mut self) {
        self.drain();
        self.steps += 1;
        let looks = self.steps < OFTEN || self.steps.is_multiple_of(OFTEN) || self.ended;
        if let Some(secrets) = self.secrets.as_ref().filter(|_| looks) {
            secrets.must_not_be_in(&(secrets.show_machine)(&self.machine));
        }
        for audit in &mut self.audits {
            audit.settled(&self.machine);
        }
    }

    fn watch(&mut self, output: &Output<M::Event>) {
        assert!(!self.ended, "an output after End");
        if let Some(secrets) = &self.secrets {
            secrets.must_not_be_in(&(secrets.show_output)(output));
        }
        match output {
            Output::Do(link, action) => self.act(*link, action),
            Output::Store(..) | Output::Tell(_) => {}
            Output::End => {
                self.ended = true;
                for (link, watched) in &self.links {
                    assert_eq!(watched.stage, Stage::Closed, "End leaves {link:?} behind");
                }
                for audit in &mut self.audits {
                    audit.ended();
                }
            }
        }
    }

    fn act(&mut self, link: LinkId, action: &Action) {
        let opens = matches!(action, Action::Open(_));
        let watched = self.links.entry(link).or_insert_with(|| {
            // A machine around a link that was open already calls it its first.
            assert!(opens || link == LinkId::FIRST, "{action:?} of {link:?}, which nobody opened");
            Watched { stage: if opens { Stage::Unopened } else { Stage::Open }, writing: false }
        });
        assert!(watched.stage < Stage::Closed, "{action:?} after Close of {link:?}");
        match action {
            Action::Open(how) => {
                assert_eq!(watched.stage, Stage::Unopened, "a second Open of {link:?}");
                watched.stage = Stage::Opening;
                if let Open::Accept(listener) = how {
                    let stage = self.links.get(listener).map(|watched| watched.stage);
                    assert_eq!(stage, Some(Stage::Open), "accepts from {listener:?}");
                }
            }
            Action::Write(bytes) => {
                assert_eq!(watched.stage, Stage::Open, "a write to {link:?}");
                assert!(!std::mem::replace(&mut watched.writing, true), "two writes to {link:?}");
                self.checks.write(bytes);
            }
            Action::CloseWrite => {
                assert_eq!(watched.stage, Stage::Open, "CloseWrite of {link:?}");
                watched.stage = Stage::Shut;
                watched.writing = false;
            }
            Action::Signal(Signal::Term | Signal::Kill) => {
                assert!(watched.stage >= Stage::Open, "a signal to {link:?}, which has no child yet");
                assert!(!self.signalled.contains(&link), "two rungs in one step on {link:?}");
                self.signalled.push(link);
            }
            Action::Read(_) | Action::Probe => {
                assert!(watched.stage >= Stage::Open, "{action:?} of {link:?}, which is not open");
            }
            Action::Close => {
                watched.stage = Stage::Closed;
            }
        }
    }

    fn hear(&mut self, link: LinkId, heard: &Heard<'_>) {
        let Some(watched) = self.links.get_mut(&link) else { return };
        match heard {
            Heard::Opened(_) if watched.stage == Stage::Opening => watched.stage = Stage::Open,
            Heard::OpenFailed(_) if watched.stage == Stage::Opening => watched.stage = Stage::Unopened,
            Heard::Written | Heard::WriteFailed => watched.writing = false,
            Heard::Opened(_)
            | Heard::OpenFailed(_)
            | Heard::Bytes(_)
            | Heard::Eof
            | Heard::Stderr(_)
            | Heard::Exited(_)
            | Heard::Group(_) => {}
        }
    }
}

impl Checks {
    fn write(&self, bytes: &[u8]) {
        let content = bytes.strip_suffix(b"\n").expect("a write ends with a line end");
        let mut lines = 0;
        for line in content.split(|byte| *byte == b'\n') {
            lines += 1;
            assert!(line.len() <= self.line, "a line of {} bytes", line.len());
            if self.json {
                let text = std::str::from_utf8(line).expect("lines are text");
                assert!(text.starts_with('{'), "no object: {text}");
                assert!(!text.contains(['\r', '\u{2028}', '\u{2029}']), "a line end in {text}");
                let read: Result<IgnoredAny, _> = serde_json::from_str(text);
                assert!(read.is_ok(), "no JSON: {text}");
            }
        }
        assert!(lines == 1 || bytes.len() <= self.write, "a write of {} bytes", bytes.len());
    }
}

impl<M: Machine> Secrets<M> {
    fn must_not_be_in(&self, shown: &str) {
        for word in &self.words {
            assert!(!shown.contains(word), "a secret in {shown}");
        }
    }
}

impl<M: Machine> Machine for Checked<M> {
    type Config = (Checks, M::Config);
    type Command = M::Command;
    type Event = M::Event;

    fn new(now: Now, (checks, config): Self::Config) -> Self {
        Self::around(M::new(now, config), checks)
    }

    fn handle(&mut self, now: Now, input: Input<'_>) {
        if let Input::Link(link, heard) = &input {
            self.hear(*link, heard);
        }
        for audit in &mut self.audits {
            audit.input(input);
        }
        self.machine.handle(now, input);
        self.settle();
        if let Some((at, why)) = self.machine.deadline() {
            assert!(at > now.mono, "a step at {:?} leaves {why:?} due at {at:?}", now.mono);
            assert!(!self.ended, "{why:?} is to come after End");
        }
    }

    fn command(&mut self, now: Now, command: M::Command) -> Result<(), Refused> {
        let before = self.show.map(|show| (show(&self.machine), self.machine.deadline()));
        let queued = self.outputs.len();
        if let Some(secrets) = &self.secrets {
            secrets.must_not_be_in(&(secrets.show_command)(&command));
        }
        for audit in &mut self.audits {
            audit.command(&command);
        }
        let done = self.machine.command(now, command);
        self.drain();
        if let Err(refused) = done {
            for audit in &mut self.audits {
                audit.refused(refused);
            }
            assert_eq!(self.outputs.len(), queued, "refused ({refused}), yet it put something out");
            if let (Some(show), Some((machine, deadline))) = (self.show, before) {
                assert_eq!(show(&self.machine), machine, "refused ({refused}), yet it changed");
                assert_eq!(self.machine.deadline(), deadline, "refused ({refused}), yet the deadline moved");
            }
        }
        self.settle();
        done
    }

    fn poll(&mut self) -> Option<Output<M::Event>> {
        self.outputs.pop_front()
    }

    fn deadline(&self) -> Option<Deadline> {
        self.machine.deadline()
    }
}
