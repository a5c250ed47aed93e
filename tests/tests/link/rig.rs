//! One end of a toy conversation, driven by hand in virtual time.

use std::time::Duration;

use agentline_core::machine::Heard as News;
use agentline_core::{
    Action, Exit, Graces, Group, Input, Limits, LinkId, Machine, Now, Open, Output, Peer, Signal, SpawnSpec,
    Time,
};
use agentline_tests::toy::{Heard, Say, Start, Talk};
use agentline_tests::{Checked, Checks};

/// Sizes so small that every limit is met.
pub(crate) fn tiny() -> Limits {
    Limits { line: 10, write: 10, unsent_hard: 100, stderr_tail: 10, ..Limits::default() }
}

/// Toy lines are no JSON.
pub(crate) fn checks() -> Checks {
    Checks { json: false, line: 100, write: 10 }
}

/// A machine, its time in milliseconds, and what it last put out, as short words.
pub(crate) struct Rig {
    machine: Checked<Talk>,
    now: u64,
    /// What the last probe was answered with; a signal after an exit must have seen somebody alive.
    group: Option<Group>,
    exited: bool,
}

impl Rig {
    /// A link that opens like this.
    pub(crate) fn opening(how: Open) -> Self {
        let start = Start { how: Some(how), limits: tiny(), graces: Graces::default() };
        let talk = Talk::new(Now::default(), start);
        let machine = Checked::around(talk, checks()).and_refusals();
        Self { machine, now: 0, group: None, exited: false }
    }

    /// A child that runs.
    pub(crate) fn child() -> Self {
        let mut rig = Self::opening(Open::spawn(SpawnSpec::default()));
        rig.expect("open");
        rig.opened();
        rig
    }

    /// A connection that is up.
    pub(crate) fn stream() -> Self {
        let mut rig = Self::opening(Open::Connect(agentline_core::Address("s".into())));
        rig.expect("open");
        rig.opened();
        rig
    }

    /// Our own stdin and stdout.
    pub(crate) fn given() -> Self {
        let mut rig = Self::opening(Open::Given(0));
        rig.expect("open");
        rig.opened();
        rig
    }

    fn opened(&mut self) {
        self.hear(News::Opened(Peer::default()));
        self.expect("opened");
    }

    pub(crate) fn hear(&mut self, news: News<'_>) {
        match news {
            News::Exited(_) => self.exited = true,
            News::Group(group) => self.group = Some(group),
            News::Opened(_)
            | News::OpenFailed(_)
            | News::Bytes(_)
            | News::Eof
            | News::Stderr(_)
            | News::Written
            | News::WriteFailed => {}
        }
        self.machine.handle(self.time(), Input::Link(LinkId::FIRST, news));
    }

    pub(crate) fn exit(&mut self) {
        self.hear(News::Exited(Exit::Code(0)));
    }

    pub(crate) fn hold(&mut self, hold: bool) {
        self.machine.handle(self.time(), Input::Hold(hold));
    }

    pub(crate) fn say(&mut self, lines: &[&str]) {
        let lines = lines.iter().map(|&line| line.to_owned()).collect();
        assert_eq!(self.machine.command(self.time(), Say::Lines(lines)), Ok(()));
    }

    pub(crate) fn leave(&mut self) {
        assert_eq!(self.machine.command(self.time(), Say::Leave), Ok(()));
    }

    pub(crate) fn hasten(&mut self) {
        assert_eq!(self.machine.command(self.time(), Say::Hasten), Ok(()));
    }

    /// Asks to leave, whether or not that is still possible.
    pub(crate) fn try_leave(&mut self) {
        let _ = self.machine.command(self.time(), Say::Leave);
    }

    /// Lets time pass without a tick.
    pub(crate) fn pass(&mut self, millis: u64) {
        self.now += millis;
    }

    pub(crate) fn tick(&mut self) {
        self.machine.handle(self.time(), Input::Tick);
    }

    /// Ticks at the deadline, which is to come in so many milliseconds.
    pub(crate) fn tick_in(&mut self, millis: u64) {
        assert_eq!(self.due(), Some(millis), "{:?}", self.machine.deadline());
        self.pass(millis);
        self.tick();
    }

    /// Milliseconds until the deadline.
    pub(crate) fn due(&self) -> Option<u64> {
        let (at, _) = self.machine.deadline()?;
        Some(u64::try_from(at.since(self.time().mono).as_millis()).expect("a short time"))
    }

    pub(crate) fn unsent(&self) -> usize {
        self.machine.machine().unsent()
    }

    pub(crate) fn is_over(&self) -> bool {
        self.machine.is_ended()
    }

    /// What was put out since the last look is exactly this.
    pub(crate) fn expect(&mut self, words: &str) {
        assert_eq!(self.outputs().join(", "), words);
    }

    /// What was put out since the last look.
    pub(crate) fn outputs(&mut self) -> Vec<String> {
        let outputs: Vec<_> = std::iter::from_fn(|| self.machine.poll()).collect();
        outputs.into_iter().map(|output| self.word(output)).collect()
    }

    fn word(&self, output: Output<Heard>) -> String {
        match output {
            Output::Do(_, Action::Open(_)) => "open".to_owned(),
            Output::Do(_, Action::Read(on)) => if on { "read" } else { "hold" }.to_owned(),
            Output::Do(_, Action::Write(bytes)) => {
                format!("write {}", String::from_utf8_lossy(&bytes).trim_end().replace('\n', "+"))
            }
            Output::Do(_, Action::CloseWrite) => "end stdin".to_owned(),
            Output::Do(_, Action::Signal(signal)) => {
                assert_ne!(self.group, Some(Group::Gone), "a signal to nobody");
                assert!(!self.exited || self.group.is_some(), "a signal to who knows whom");
                if signal == Signal::Term { "term" } else { "kill" }.to_owned()
            }
            Output::Do(_, Action::Probe) => "probe".to_owned(),
            Output::Do(_, Action::Close) => "close".to_owned(),
            Output::Store(_, store) => panic!("{store:?}"),
            Output::Tell(Heard::Opened) => "opened".to_owned(),
            Output::Tell(Heard::Failed(error)) => format!("failed: {error}"),
            Output::Tell(Heard::Line(line)) => format!("line {}", line.unwrap_or_else(str::to_owned)),
            Output::Tell(Heard::Ended) => "ended".to_owned(),
            Output::Tell(Heard::Deaf) => "deaf".to_owned(),
            Output::Tell(Heard::Closed(obituary)) => {
                let exit = obituary.exit.map_or("-".to_owned(), |exit| format!("{exit:?}"));
                let group = obituary.group.map_or("-".to_owned(), |group| format!("{group:?}"));
                format!("closed {:?} {exit} {group} {:?}", obituary.rung, obituary.stderr_tail)
            }
            Output::End => "over".to_owned(),
        }
    }

    fn time(&self) -> Now {
        Now { mono: Time::ZERO + Duration::from_millis(self.now), unix: Duration::ZERO }
    }
}
