//! The contract between a protocol and whatever drives it: one trait, four verbs.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::ops::Add;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::place::Exposed;
use crate::secret::Secret;

/// A protocol state machine for one role of one channel, or a composite of such machines.
///
/// A run is the config plus the sequence of inputs and commands, and nothing else: the same sequence gives
/// the same outputs. State changes in [`handle`](Machine::handle) and [`command`](Machine::command) only;
/// [`poll`](Machine::poll) pops what they produced.
pub trait Machine: Sized {
    /// Plain data that a run starts from.
    type Config;
    /// What the application may ask, imperative.
    type Command;
    /// What the application is told, past tense.
    type Event;

    /// A machine at the start of its run. Its first outputs can be polled at once.
    fn new(now: Now, config: Self::Config) -> Self;

    /// Something happened outside. Infallible: a bad peer ends its link, never the caller.
    ///
    /// The input is processed first, then the timers due at `now`, one rung each. Late, early and repeated
    /// ticks are harmless.
    fn handle(&mut self, now: Now, input: Input<'_>);

    /// The application wants something.
    ///
    /// # Errors
    ///
    /// The caller asked at the wrong moment or for the wrong thing; nothing changed.
    fn command(&mut self, now: Now, command: Self::Command) -> Result<(), Refused>;

    /// The oldest output. A pure pop; `None` means drained.
    fn poll(&mut self) -> Option<Output<Self::Event>>;

    /// When to feed [`Input::Tick`] if nothing else comes first, and why (for logs and tests).
    fn deadline(&self) -> Option<Deadline>;
}

/// When a machine wants to be ticked, and the name of the timer.
pub type Deadline = (Time, &'static str);

/// The earlier of two deadlines.
#[must_use]
pub fn soonest(a: Option<Deadline>, b: Option<Deadline>) -> Option<Deadline> {
    match (a, b) {
        (Some(a), Some(b)) => Some(if b.0 < a.0 { b } else { a }),
        (one, None) | (None, one) => one,
    }
}

/// Monotonic time: whole microseconds since the start that the runtime chose.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Time(u64);

impl Time {
    /// The start that the runtime chose.
    pub const ZERO: Self = Self(0);

    /// A time that many microseconds after the start.
    #[must_use]
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// Microseconds since the start.
    #[must_use]
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// How long after `earlier` this is; zero when it is not.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Time {
    type Output = Self;

    fn add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(span.as_micros()).unwrap_or(u64::MAX)))
    }
}

/// The two clocks, read together by whoever drives the machine.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Now {
    /// For timeouts; never goes back.
    pub mono: Time,
    /// Time since the Unix epoch: for timestamps on the wire and ages of records, never for timeouts.
    pub unix: Duration,
}

/// The caller's name for a command that expects an answer; echoed in the event that brings it.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Tag(pub u64);

/// Names one byte link of a machine. Given out by the machine, never by a runtime.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LinkId(u32);

impl LinkId {
    /// The link of a machine that has only one.
    pub const FIRST: Self = Self(0);

    /// The number, for traces.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.0
    }

    /// The link of that number: for whoever reads a trace.
    #[must_use]
    pub const fn from_number(number: u32) -> Self {
        Self(number)
    }
}

/// Names one file that a machine keeps; whatever becomes of that file goes by the same id. Given out by the machine, so
/// that a failed store finds its owner through any number of composites.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StoreId(u32);

impl StoreId {
    /// The file of a machine that keeps only one.
    pub const FIRST: Self = Self(0);

    /// The number, for traces.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.0
    }

    /// The file of that number: for whoever reads a trace.
    #[must_use]
    pub const fn from_number(number: u32) -> Self {
        Self(number)
    }
}

/// Gives out the ids of links and of files, each once.
#[derive(Debug, Default)]
pub struct Ids {
    links: u32,
    stores: u32,
}

impl Ids {
    /// A link's id that was never given before.
    pub const fn fresh(&mut self) -> LinkId {
        let id = LinkId(self.links);
        self.links += 1;
        id
    }

    /// A file's id that was never given before.
    pub const fn fresh_store(&mut self) -> StoreId {
        let id = StoreId(self.stores);
        self.stores += 1;
        id
    }
}

/// What a machine is told about the outside.
#[derive(Clone, Copy, Debug)]
pub enum Input<'a> {
    /// Time passed. Whether a deadline came is the machine's to know.
    Tick,
    /// Whoever takes our events is full (`true`), or has room again (`false`). Until then the peers are not read, and
    /// what waits for a word of theirs has as much time afterwards as it had left.
    Hold(bool),
    /// Something happened on a link. Unknown and closed links are ignored: late wakes are normal.
    Link(LinkId, Heard<'a>),
    /// An [`Output::Store`] could not be carried out, for the reason of that system error number. The file is as it was.
    StoreFailed(StoreId, i32),
}

/// What happened on one link.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Heard<'a> {
    /// The link is up.
    Opened(Peer),
    /// The link could not be opened; nothing of it is left.
    OpenFailed(OpenError),
    /// The peer sent bytes.
    Bytes(&'a [u8]),
    /// The peer will send no more bytes.
    Eof,
    /// The child wrote to its standard error.
    Stderr(&'a [u8]),
    /// The outstanding write is with the operating system.
    Written,
    /// The peer no longer reads, and an outstanding write cannot be completed. Also said without one, by whoever
    /// sees a socket hang up: it tells a client that has gone from one that has only closed its half.
    WriteFailed,
    /// The child ended and was reaped.
    Exited(Exit),
    /// The answer to [`Action::Probe`].
    Group(Group),
}

/// Who is at the other end, as far as the operating system says.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
pub struct Peer {
    /// Its process id, where the system tells.
    pub pid: Option<u32>,
    /// Its user id, where the system tells.
    pub uid: Option<u32>,
}

/// How a child ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    /// It returned this status.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
    /// It is gone, and the system does not say how.
    Unknown,
}

/// Whether a child's process group still has a living member.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Group {
    /// Someone of the group lives, child or tool.
    Alive,
    /// Nobody is left, or only zombies.
    Gone,
}

/// Why a link could not be opened. The environment is at fault, not the caller and not the peer.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum OpenError {
    /// No such program, or no such socket.
    #[error("not found")]
    NotFound,
    /// The file is there but may not be executed.
    #[error("not executable")]
    NotExecutable,
    /// The file is executable but is no program: an empty file, a stub without `#!`, another machine's.
    #[error("not a program: no `#!` line, empty, or built for another machine")]
    NotAProgram,
    /// The script names an interpreter that is not there.
    #[error("its interpreter is missing")]
    NoInterpreter,
    /// The working directory is missing, is no directory, or cannot be entered.
    #[error("the working directory cannot be entered")]
    BadDirectory,
    /// Arguments and environment are larger than the system takes.
    #[error("arguments and environment are too long")]
    TooLong,
    /// Nobody listens at the socket.
    #[error("nobody listens there")]
    Refused,
    /// The listener's backlog is full. Opened again after a while.
    #[error("the listener is busy")]
    Busy,
    /// The process or the system has no descriptor left. Opened again after a while.
    #[error("too many open files")]
    TooManyFiles,
    /// The file at the path is not a socket.
    #[error("not a socket")]
    NotASocket,
    /// The path does not fit into a socket address.
    #[error("the socket path is too long")]
    PathTooLong,
    /// A living listener has the address.
    #[error("somebody listens there already")]
    InUse,
    /// The directory or socket is not ours alone, or another user is at the other end.
    #[error("not private: {0}")]
    NotPrivate(Exposed),
    /// We may not use what is there.
    #[error("permission denied")]
    Denied,
    /// A child was to be guarded, and the guardian is gone. Without one it could outlive this process.
    #[error("no guardian can be started, and without one the child could outlive us")]
    Unguarded,
    /// It took longer than the limit.
    #[error("timed out")]
    TimedOut,
    /// The runtime has no such kind of link.
    #[error("this runtime cannot open it")]
    Unsupported,
    /// Anything else the system says, by its error number.
    #[error("system error {0}")]
    System(i32),
}

impl OpenError {
    /// Whether the same attempt may go through a moment later.
    #[must_use]
    pub const fn is_transient(self) -> bool {
        matches!(self, Self::Busy | Self::TooManyFiles)
    }
}

/// What a machine wants or says, in order.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Output<E> {
    /// Work on a link, for the runtime.
    Do(LinkId, Action),
    /// Write or remove a small file before the next output. Only a failure is answered. Whoever keeps no files answers
    /// each one with [`Input::StoreFailed`].
    Store(StoreId, Box<Store>),
    /// News for the application.
    Tell(E),
    /// The machine is done; nothing follows.
    End,
}

impl<E> Output<E> {
    /// The same output with another event.
    pub fn map<F>(self, event: impl FnOnce(E) -> F) -> Output<F> {
        match self {
            Self::Do(link, action) => Output::Do(link, action),
            Self::Store(id, store) => Output::Store(id, store),
            Self::Tell(told) => Output::Tell(event(told)),
            Self::End => Output::End,
        }
    }
}

/// Work on one link. The order of write, half-close and signal is the protocol.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Open the link. Answered by `Opened` or `OpenFailed`.
    Open(Open),
    /// Report bytes and EOF of the peer (the state after opening), or leave them in the pipe.
    Read(bool),
    /// Whole lines. At most one is outstanding per link; answered by `Written` or `WriteFailed`.
    Write(#[serde(serialize_with = "crate::trace::wire")] Vec<u8>),
    /// Close our half. An outstanding write is given up.
    CloseWrite,
    /// Signal the child's whole process group.
    Signal(Signal),
    /// Ask whether the child's group still lives. Answered by `Group`.
    Probe,
    /// Forget the link: the last action on it. A child that lives on is killed with its group and reaped in
    /// the background.
    Close,
}

/// How a link comes about.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Open {
    /// Start a child and talk to its stdin and stdout.
    Spawn(Box<SpawnSpec>),
    /// Connect to a listening socket.
    Connect(Address),
    /// Listen; the link carries no bytes of its own.
    Listen(Address),
    /// Take the next connection of that listener.
    Accept(LinkId),
    /// A stream that the driver has already, by the number that it was given with: our own stdin and stdout, or one of the
    /// embedder's. Each can be opened once.
    Given(u32),
}

impl Open {
    /// A child process of that description.
    #[must_use]
    pub fn spawn(spec: SpawnSpec) -> Self {
        Self::Spawn(Box::new(spec))
    }
}

/// Where a socket is. Opaque to the machines.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Address(#[serde(with = "crate::trace::os")] pub PathBuf);

/// The child to start. No shell is involved: arguments arrive as they are.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
pub struct SpawnSpec {
    /// A path, or a bare name to be looked up in the `PATH` of `env`.
    #[serde(with = "crate::trace::os")]
    pub program: OsString,
    /// Its arguments, without the program itself.
    #[serde(with = "crate::trace::os_list")]
    pub args: Vec<OsString>,
    /// Its working directory, absolute.
    #[serde(with = "crate::trace::os")]
    pub cwd: PathBuf,
    /// Its whole environment, in order: nothing is inherited beside it.
    #[serde(with = "crate::trace::os_env")]
    pub env: Vec<(OsString, Secret<OsString>)>,
    /// What becomes of its standard error.
    pub stderr: Stderr,
}

/// What becomes of a child's standard error.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stderr {
    /// It goes where ours goes.
    #[default]
    Inherit,
    /// We read it: always drained, a bounded tail is kept.
    Pipe,
    /// It is thrown away.
    Null,
    /// It goes where its standard output goes: one stream, in the order in which both were written.
    Output,
}

/// A signal to a process group.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Signal {
    /// SIGTERM: it may clean up and save.
    Term,
    /// SIGKILL: it is gone, whatever it was doing.
    Kill,
}

/// A small file to be written by temporary file and rename, or removed.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Store {
    /// The absolute path of the file.
    #[serde(serialize_with = "crate::trace::os::serialize")]
    pub path: PathBuf,
    /// What becomes of it.
    pub change: Change,
}

/// What becomes of a stored file.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// It holds exactly these bytes, with these permission bits.
    Put {
        /// The whole new content; it may hold a token, so it is shown nowhere.
        bytes: Secret<Vec<u8>>,
        /// The permission bits of the file, from the start on.
        mode: u32,
    },
    /// These bytes stand at its end. A missing file is made, with these permission bits; one that fails may hold a part.
    Append {
        /// What is added; it may hold what people said, so it is shown nowhere.
        bytes: Secret<Vec<u8>>,
        /// The permission bits of a file that is made.
        mode: u32,
    },
    /// It is gone. A missing file is fine.
    Remove,
}

/// The caller asked for something that cannot be done now. Nothing changed.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Refused {
    /// The link or the machine is leaving or gone.
    #[error("the connection is closed")]
    Closed,
    /// The handshake is not finished.
    #[error("the connection is not ready yet")]
    NotReady,
    /// Something that excludes it is running: a turn on the same session, a request of the same tag.
    #[error("busy: a turn or request of that name is open")]
    Busy,
    /// No such session, request or key.
    #[error("no such session or request")]
    Unknown,
    /// The peer did not say that it can do this.
    #[error("the peer does not offer {0}")]
    NotOffered(&'static str),
    /// The value cannot be sent.
    #[error("{0}")]
    Invalid(&'static str),
    /// The peer reads slowly: try again when there is room.
    #[error("the peer reads slowly: wait until there is room")]
    Crowded,
    /// A limit of ours would be passed.
    #[error("too much at once: {0}")]
    Limit(&'static str),
}

/// The one ordered output queue of a machine.
#[derive(Debug)]
pub struct Outputs<E>(VecDeque<Output<E>>);

impl<E> Default for Outputs<E> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<E> Outputs<E> {
    /// Work for the runtime.
    pub fn act(&mut self, link: LinkId, action: Action) {
        self.0.push_back(Output::Do(link, action));
    }

    /// News for the application.
    pub fn tell(&mut self, event: E) {
        self.0.push_back(Output::Tell(event));
    }

    /// News for the application, in that order.
    pub fn tell_all(&mut self, events: impl IntoIterator<Item = E>) {
        self.0.extend(events.into_iter().map(Output::Tell));
    }

    /// Passes on what a machine inside ours wants, and hands over what it tells, to be translated.
    pub fn pass<F>(&mut self, output: Output<F>) -> Option<F> {
        let output = match output {
            Output::Tell(event) => return Some(event),
            Output::Do(link, action) => Output::Do(link, action),
            Output::Store(id, store) => Output::Store(id, store),
            Output::End => Output::End,
        };
        self.push(output);
        None
    }

    /// A file to keep.
    pub fn store(&mut self, id: StoreId, store: Store) {
        self.0.push_back(Output::Store(id, Box::new(store)));
    }

    /// Says that nothing follows, ever.
    pub fn end(&mut self) {
        self.0.push_back(Output::End);
    }

    /// An output that another machine made.
    pub fn push(&mut self, output: Output<E>) {
        self.0.push_back(output);
    }

    /// The oldest output. A queue that held a burst gives its memory back when it is empty.
    pub fn pop(&mut self) -> Option<Output<E>> {
        let output = self.0.pop_front();
        if output.is_none() && self.0.capacity() > Self::KEPT {
            self.0.shrink_to(Self::KEPT);
        }
        output
    }

    /// Outputs that an empty queue keeps room for: those of one message and its answer.
    const KEPT: usize = 16;
}
