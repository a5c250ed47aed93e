//! A machine that plays a script and keeps what it hears.

use std::collections::BTreeMap;
use std::time::Duration;

use agentline_core::{
    Action, Deadline, Exit, Group, Heard, Input, LinkId, Machine, Now, OpenError, Output, Outputs, Peer,
    Refused, Store, StoreId, Time,
};

/// The steps of a row.
pub type Script = Vec<Step>;

/// One step of a script.
pub enum Step {
    /// Emits an action.
    Do(LinkId, Action),
    /// Changes a file.
    Store(StoreId, Store),
    /// Goes on when this was heard.
    Until(LinkId, Until),
    /// Asks again and again until nobody is left in the group.
    UntilGone(LinkId),
    /// Looks at what was heard so far, and at the system, once all before it is performed.
    Look(Box<dyn FnOnce(&Seen) + Send>),
}

/// What a script waits for.
#[derive(Clone, Copy, Debug)]
pub enum Until {
    /// The link is up.
    Opened,
    /// It will not be.
    Failed,
    /// So many bytes came.
    Bytes(usize),
    /// The peer's last byte came.
    Eof,
    /// So many bytes came on standard error.
    Stderr(usize),
    /// So many writes are done.
    Written(usize),
    /// A write failed.
    WriteFailed,
    /// The child ended.
    Exited,
    /// The answer to a probe.
    Group,
}

/// What a script heard.
#[derive(Debug, Default)]
pub struct Seen {
    /// By link.
    pub links: BTreeMap<LinkId, Log>,
    /// The failed stores, with their error numbers.
    pub stores_failed: Vec<(StoreId, i32)>,
    /// The step that was not left in time.
    pub stuck: Option<usize>,
}

/// What was heard on one link.
#[derive(Clone, Debug, Default)]
pub struct Log {
    /// Who is there.
    pub opened: Option<Peer>,
    /// Why nobody is.
    pub failed: Option<OpenError>,
    /// What came in.
    pub bytes: Vec<u8>,
    /// What came in on standard error.
    pub stderr: Vec<u8>,
    /// The end came.
    pub eof: bool,
    /// Writes that were done.
    pub written: usize,
    /// A write failed.
    pub write_failed: bool,
    /// How the child ended.
    pub exit: Option<Exit>,
    /// The last answer to a probe.
    pub group: Option<Group>,
}

impl Seen {
    /// What was heard on a link.
    #[must_use]
    pub fn on(&self, link: LinkId) -> Log {
        self.links.get(&link).cloned().unwrap_or_default()
    }
}

/// The machine that plays a script. Its only event is what it saw, at the end.
pub struct Scripted {
    steps: std::vec::IntoIter<Step>,
    next: Option<Step>,
    left: usize,
    total: usize,
    open: Vec<LinkId>,
    seen: Seen,
    out: Outputs<Seen>,
    /// Outputs came since the last tick: they may not be performed yet.
    acted: bool,
    /// When to go on if nothing is heard.
    again: Option<Time>,
    until: Time,
}

impl Machine for Scripted {
    type Config = Script;
    type Command = (LinkId, Action);
    type Event = Seen;

    fn new(now: Now, script: Script) -> Self {
        let total = script.len();
        let mut machine = Self {
            steps: script.into_iter(),
            next: None,
            left: total,
            total,
            open: Vec::new(),
            seen: Seen::default(),
            out: Outputs::default(),
            acted: false,
            again: None,
            until: now.mono + PATIENCE,
        };
        machine.go_on(now);
        machine
    }

    fn handle(&mut self, now: Now, input: Input<'_>) {
        match input {
            Input::Link(link, heard) => self.keep(link, heard),
            Input::StoreFailed(id, errno) => self.seen.stores_failed.push((id, errno)),
            // Whoever ticks has performed all there was.
            Input::Tick => self.acted = false,
            Input::Hold(_) => {}
        }
        self.go_on(now);
    }

    fn command(&mut self, now: Now, (link, action): Self::Command) -> Result<(), Refused> {
        self.act(link, action);
        self.go_on(now);
        Ok(())
    }

    fn poll(&mut self) -> Option<Output<Seen>> {
        self.out.pop()
    }

    fn deadline(&self) -> Option<Deadline> {
        Some((self.again.unwrap_or(self.until), "the script"))
    }
}

impl Scripted {
    fn keep(&mut self, link: LinkId, heard: Heard<'_>) {
        let log = self.seen.links.entry(link).or_default();
        match heard {
            Heard::Opened(peer) => log.opened = Some(peer),
            Heard::OpenFailed(error) => log.failed = Some(error),
            Heard::Bytes(bytes) => log.bytes.extend_from_slice(bytes),
            Heard::Eof => log.eof = true,
            Heard::Stderr(bytes) => log.stderr.extend_from_slice(bytes),
            Heard::Written => log.written += 1,
            Heard::WriteFailed => log.write_failed = true,
            Heard::Exited(exit) => log.exit = Some(exit),
            Heard::Group(group) => log.group = Some(group),
        }
    }

    fn act(&mut self, link: LinkId, action: Action) {
        match &action {
            Action::Open(_) => self.open.push(link),
            Action::Close => self.open.retain(|open| *open != link),
            Action::Read(_) | Action::Write(_) | Action::CloseWrite | Action::Signal(_) | Action::Probe => {}
        }
        self.acted = true;
        self.out.act(link, action);
    }

    /// Plays on until a step has to wait.
    fn go_on(&mut self, now: Now) {
        if self.until <= now.mono && self.left > 0 {
            self.seen.stuck = Some(self.total - self.left);
            return self.finish();
        }
        while let Some(step) = self.next.take().or_else(|| self.steps.next()) {
            match step {
                Step::Do(link, action) => self.act(link, action),
                Step::Store(id, store) => {
                    self.acted = true;
                    self.out.store(id, store);
                }
                Step::Look(_) if self.acted => return self.wait(step, Some(now.mono)),
                Step::Look(look) => {
                    self.again = None;
                    look(&self.seen);
                }
                Step::Until(link, until) if self.has(link, until) => {}
                Step::UntilGone(link) if self.seen.on(link).group == Some(Group::Gone) => self.again = None,
                Step::UntilGone(link) => {
                    let again = self.again.filter(|at| *at > now.mono);
                    if again.is_none() {
                        self.act(link, Action::Probe);
                    }
                    return self.wait(step, again.or(Some(now.mono + Duration::from_millis(5))));
                }
                Step::Until(..) => return self.wait(step, None),
            }
            self.left -= 1;
            if self.left == 0 {
                self.finish();
            }
        }
    }

    fn wait(&mut self, step: Step, again: Option<Time>) {
        self.next = Some(step);
        self.again = again;
    }

    fn has(&self, link: LinkId, until: Until) -> bool {
        let Some(log) = self.seen.links.get(&link) else { return false };
        match until {
            Until::Opened => log.opened.is_some(),
            Until::Failed => log.failed.is_some(),
            Until::Bytes(n) => log.bytes.len() >= n,
            Until::Eof => log.eof,
            Until::Stderr(n) => log.stderr.len() >= n,
            Until::Written(n) => log.written >= n,
            Until::WriteFailed => log.write_failed,
            Until::Exited => log.exit.is_some(),
            Until::Group => log.group.is_some(),
        }
    }

    fn finish(&mut self) {
        self.left = 0;
        self.again = None;
        for link in std::mem::take(&mut self.open) {
            self.out.act(link, Action::Close);
        }
        self.out.tell(std::mem::take(&mut self.seen));
        self.out.end();
    }
}

/// The global deadline of a script: no step is expected to take any time worth mentioning.
const PATIENCE: Duration = Duration::from_secs(30);
