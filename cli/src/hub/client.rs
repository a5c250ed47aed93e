//! One connection to a hub, here or on another machine: questions with one answer, and streams.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::{Duration, Instant};

use agentline_blocking::{Driver, Handle};
use agentline_core::control::client::{Command, Config, Event, Greeting};
use agentline_core::control::{Answer, Client, ErrorTag, Failure, Fault, Request};
use agentline_core::discovery::Folders;
use agentline_core::hub::api::{Frame, HubHealth, Method};
use agentline_core::rpc::Json;
use agentline_core::{Address, Cause, Closed, Exit, Open, OpenError, Refused, SpawnSpec, Stderr, Tag};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::place::{self, Serving, unreachable};
use super::reach::Route;
use crate::output::{News, Notes, Sink, plain, span};
use crate::prompt::usage;
use crate::signals;
use crate::words::{Kind, Phase, Problem};

/// A connection, and what is known of the other end.
pub(crate) struct Link {
    driver: Driver<Client>,
    next: u64,
    /// It has ended.
    over: bool,
    /// The exit code of the signal that ends us, once one does.
    ends: Arc<AtomicU8>,
    pub(crate) route: Route,
    /// How long an answer may take, as far as it is told.
    patience: Option<Duration>,
    /// The version of the hub, where it is one.
    pub(crate) version: Option<String>,
    /// The home of the user there, where that is another machine.
    pub(crate) home: Option<String>,
}

/// What a connection has to do.
#[derive(Clone, Copy, Default)]
pub(crate) struct Wants {
    /// How long an answer may take.
    pub(crate) patience: Option<Duration>,
    /// To tell every line of the other side as it came.
    pub(crate) lines: bool,
}

impl Wants {
    fn of(self, config: Config) -> Config {
        Config { answer: self.patience, tells_lines: self.lines, ..config }
    }
}

/// What is found on another machine.
pub(crate) enum Far {
    Hub(Link),
    /// Our program says that there is none, and why.
    NoHub {
        version: String,
        reason: String,
        /// The agents that one would have.
        agents: Vec<String>,
    },
}

/// What a stream brings, as it came.
pub(crate) enum Arrival {
    /// A line, where that was wanted.
    Line(String),
    Answer(Answer),
    /// A line that answers nothing, and what is wrong with it.
    Noise(&'static str, String),
}

/// What a stream brings.
pub(crate) enum Said {
    Frame(Box<Frame>, Json),
    /// Something that is no frame of ours.
    Other(Json),
    /// It is over, by that word.
    End(String),
}

impl Link {
    /// The hub of these folders, if one answers.
    pub(crate) fn own(folders: &Folders, wants: Wants) -> Result<Option<Self>, Problem> {
        let Some(serving) = Serving::read(folders) else { return Ok(None) };
        let serving = serving.here()?;
        let first = Wants { patience: Some(wants.patience.map_or(HEALTH, |it| it.min(HEALTH))), ..wants };
        let config = Config::connect(Address(serving.control.clone()));
        let mut link = Self::new(config, Route::Own(Box::new(folders.clone())), first)?;
        match link.try_ask(&HubHealth {}) {
            Ok(health) => {
                link.version = Some(health.version);
                link.patience = wants.patience;
                // Refused when it is over already, and the next question says so.
                let _ = link.driver.command(Command::Patience(wants.patience));
                Ok(Some(link))
            }
            Err(Lost::Absent(_)) if !place::lives(folders) => Ok(None),
            Err(Lost::Absent(error)) => {
                let message = format!(
                    "the hub (pid {}) does not serve at {}: {error}",
                    serving.pid,
                    serving.control.display()
                );
                Err(unreachable(message).hint("agentline hub status: it serves again within a minute"))
            }
            Err(lost) => Err(link.lost(lost)),
        }
    }

    /// A server of the control protocol, whatever it is.
    pub(crate) fn socket(path: &std::path::Path, wants: Wants) -> Result<Self, Problem> {
        Self::new(Config::connect(Address(path.to_owned())), Route::Socket(path.to_owned()), wants)
    }

    /// Another machine.
    pub(crate) fn host(route: &Route, starts: bool, connect: Duration, wants: Wants) -> Result<Far, Problem> {
        let mut link = Self::new(far_config(route, starts, connect)?, route.clone(), wants)?;
        let greeting = link.greeting().map_err(|lost| {
            link.patience = Some(connect);
            link.lost(lost)
        });
        match greeting? {
            Greeting { hub: 0, version, reason, agents, .. } => {
                let reason = reason.unwrap_or_else(|| "no hub runs there".into());
                Ok(Far::NoHub { version, reason, agents })
            }
            Greeting { version, home, .. } => {
                (link.version, link.home) = (Some(version), home);
                Ok(Far::Hub(link))
            }
        }
    }

    /// Whether it has ended, so that nothing more can be asked.
    pub(crate) const fn is_over(&self) -> bool {
        self.over
    }

    /// Waits until the other side hangs up.
    pub(crate) fn until_end(mut self) {
        while self.driver.next().is_some() {}
    }

    fn new(config: Config, route: Route, wants: Wants) -> Result<Self, Problem> {
        let driver = Driver::<Client>::new(wants.of(config)).map_err(|error| internal(&error))?;
        let (ends, patience) = (Arc::default(), wants.patience);
        Ok(Self { driver, next: 0, over: false, ends, route, patience, version: None, home: None })
    }

    /// Says, once, if the hub is another version than this program.
    pub(crate) fn tell_version(&self, notes: &Notes) {
        static TOLD: AtomicBool = AtomicBool::new(false);
        let ours = env!("CARGO_PKG_VERSION");
        let Some(version) = self.version.as_deref().filter(|version| !version.is_empty() && *version != ours)
        else {
            return;
        };
        if TOLD.swap(true, Ordering::Relaxed) {
            return;
        }
        let host = self.route.host().map_or_else(String::new, |host| format!(" --host {host}"));
        let (name, version) = (self.route.name(), plain(version));
        let name = if host.is_empty() { name } else { format!("the hub of {name}") };
        notes
            .line(&format!("! {name} is {version}, this is {ours}: agentline hub restart{host} --when-idle"));
    }

    /// A signal ends the connection from here on, and not us.
    pub(crate) fn heeding(self) -> Result<Self, Problem> {
        let ends = Arc::clone(&self.ends);
        signals::on_each(self.driver.handle(), move |client: &mut Handle<Client>, ask| {
            ends.store(ask.exit_code(), Ordering::Relaxed);
            // Refused when it is over already.
            let _ = client.command(Command::Close);
            Sink::ours().hurry();
        })
        .map_err(|error| internal(&error))?;
        Ok(self)
    }

    /// Asks, and waits for the answer.
    pub(crate) fn ask<M: Method>(&mut self, method: &M) -> Result<M::Result, Problem>
    where
        M::Result: DeserializeOwned,
    {
        self.try_ask(method).map_err(|lost| self.lost(lost))
    }

    fn try_ask<M: Method>(&mut self, method: &M) -> Result<M::Result, Lost>
    where
        M::Result: DeserializeOwned,
    {
        let tag = self.send(&method.request())?;
        loop {
            match self.answer(tag).map_err(|lost| lost.after(M::NAME))? {
                Answer::Reply(result) => {
                    let read = serde_json::from_str(result.get());
                    return read.map_err(|error| Lost::Unreadable(format!("{}: {error}", M::NAME)));
                }
                Answer::Fail(failure) => return Err(Lost::Failed(failure)),
                Answer::Frame(_) | Answer::End(_) => {}
            }
        }
    }

    /// Begins a stream.
    pub(crate) fn stream<M: Method>(self, method: &M) -> Result<Stream, Problem> {
        self.call(method.request())
    }

    /// Asks anything, and takes whatever comes of it. Whoever does not read what we show slows nobody down but the hub's
    /// answer to us.
    pub(crate) fn call(mut self, request: Request) -> Result<Stream, Problem> {
        let tag = self.send(&request).map_err(|lost| self.lost(lost))?;
        let runs = Arc::new(AtomicBool::new(true));
        let (client, goes_on) = (self.driver.handle(), Arc::clone(&runs));
        Sink::ours().watch(move |news| {
            match news {
                News::Full => client.hold(true),
                News::Room => client.hold(false),
                News::Gone => {
                    let _ = client.command(Command::Close);
                }
            }
            goes_on.load(Ordering::Relaxed)
        });
        Ok(Stream { link: self, tag, command: request.command, began: false, runs })
    }

    /// The exit code of the signal that ends us.
    pub(crate) fn signal(&self) -> Option<u8> {
        Some(self.ends.load(Ordering::Relaxed)).filter(|code| *code > 0)
    }

    fn send(&mut self, request: &Request) -> Result<Tag, Lost> {
        let tag = Tag(self.next);
        self.next += 1;
        match self.driver.command(Command::Call(tag, request.clone())) {
            Ok(()) => Ok(tag),
            // The last event says why.
            Err(Refused::Closed) => Err(self.end()),
            Err(refused) => Err(Lost::Unreadable(refused.to_string())),
        }
    }

    fn answer(&mut self, tag: Tag) -> Result<Answer, Lost> {
        loop {
            if let Arrival::Answer(answer) = self.heard(tag)? {
                return Ok(answer);
            }
        }
    }

    fn heard(&mut self, tag: Tag) -> Result<Arrival, Lost> {
        while let Some(event) = self.driver.next() {
            match event {
                Event::Answered(of, answer) if of == tag => return Ok(Arrival::Answer(answer)),
                Event::Line(line) => return Ok(Arrival::Line(line)),
                Event::Unexpected { why, line } => return Ok(Arrival::Noise(why, line)),
                // Of a child, its own end says more.
                Event::Lost(of, cause) if of == tag && !(self.route.is_far() && cause == Cause::Gone) => {
                    return Err(self.why(cause));
                }
                Event::Closed(closed) => return Err(self.closed(*closed)),
                Event::Answered(..) | Event::Lost(..) | Event::Greeted(_) => {}
            }
        }
        Err(Lost::Gone { asked: false })
    }

    fn greeting(&mut self) -> Result<Greeting, Lost> {
        while let Some(event) = self.driver.next() {
            match event {
                Event::Greeted(greeting) => return Ok(*greeting),
                Event::Closed(closed) => return Err(self.closed(*closed)),
                Event::Answered(..) | Event::Lost(..) | Event::Line(_) | Event::Unexpected { .. } => {}
            }
        }
        Err(Lost::Gone { asked: false })
    }

    fn end(&mut self) -> Lost {
        while let Some(event) = self.driver.next() {
            if let Event::Closed(closed) = event {
                return self.closed(*closed);
            }
        }
        Lost::Gone { asked: false }
    }

    fn closed(&mut self, closed: Closed<Fault>) -> Lost {
        let Closed { cause, obituary } = closed;
        match (self.route.is_far(), &cause) {
            (true, Cause::Gone) => {
                self.over = true;
                Lost::Far { exit: obituary.exit, said: obituary.stderr_tail }
            }
            _ => self.why(cause),
        }
    }

    fn why(&mut self, cause: Cause<Fault>) -> Lost {
        self.over = true;
        match cause {
            Cause::Failed(error @ (OpenError::NotFound | OpenError::Refused)) if !self.route.is_far() => {
                Lost::Absent(error)
            }
            Cause::Failed(error) => Lost::Unopened(error),
            Cause::Left => Lost::Left,
            Cause::Gone => Lost::Gone { asked: false },
            Cause::Fault(fault) => Lost::Fault(fault),
        }
    }

    /// Why no answer came, and what to try.
    fn lost(&self, lost: Lost) -> Problem {
        let name = self.route.name();
        match lost {
            Lost::Failed(failure) => refused(&failure, &self.route),
            Lost::Absent(error) | Lost::Unopened(error) => match &self.route {
                Route::Host { .. } => unreachable(format!("{name}: cannot be reached: {error}"))
                    .hint(format!("agentline host check {name}")),
                Route::Own(_) | Route::Socket(_) => unreachable(format!("cannot connect to {name}: {error}")),
            },
            Lost::Far { exit, said } => far(&name, exit, &said),
            Lost::Fault(Fault::TimedOut) => {
                let limit =
                    self.patience.map_or_else(String::new, |limit| format!(" within {}", span(limit)));
                let problem = unreachable(format!("{name} does not answer{limit}"));
                match &self.route {
                    Route::Own(_) => problem.hint("agentline hub restart, if it never does"),
                    Route::Host { .. } => problem.hint(format!("agentline host check {name}")),
                    Route::Socket(_) => problem,
                }
            }
            Lost::Fault(Fault::NoGreeting) => {
                let limit = self.patience.unwrap_or_default().as_secs_f64();
                unreachable(format!("{name}: no answer in {limit} s"))
                    .hint(format!("agentline host check {name}"))
            }
            Lost::Fault(fault @ Fault::Unreadable) => {
                unreachable(format!("{name}: {fault}")).hint(format!("agentline host check {name}"))
            }
            Lost::Gone { asked: true } => {
                unreachable(format!("{name} is gone; what was asked may have been accepted"))
                    .hint("agentline session list")
            }
            Lost::Gone { asked: false } => match &self.route {
                Route::Own(_) => unreachable("the hub is gone: it was killed, or has crashed")
                    .hint("agentline session list shows what is stored; agentline hub start"),
                Route::Host { .. } => {
                    unreachable(format!("{name} is gone")).hint(format!("agentline host check {name}"))
                }
                Route::Socket(_) => unreachable(format!("{name} hung up before the answer was complete")),
            },
            Lost::Left => {
                let code = self.signal().unwrap_or(130);
                Problem::new(Phase::Connect, Kind::Cancelled, "we left before the answer came").code(code)
            }
            Lost::Unreadable(why) => Problem::new(
                Phase::Session,
                Kind::Internal,
                format!("the answer of {name} makes no sense: {}", plain(&why)),
            )
            .hint("agentline hub restart, if it is another version"),
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        if self.route.is_far() {
            // Refused when it is over already.
            let _ = self.driver.command(Command::Close);
            while self.driver.next().is_some() {}
        }
    }
}

/// Whether it changes nothing, so that nobody has to know whether it was heard.
fn only_looks(command: &str) -> bool {
    let (_, verb) = command.split_once('.').unwrap_or(("", command));
    matches!(verb, "list" | "show" | "wait" | "watch" | "health" | "ping" | "version")
}

/// Why there is no answer.
enum Lost {
    /// It says no.
    Failed(Failure),
    /// Nobody is there.
    Absent(OpenError),
    /// It cannot be reached.
    Unopened(OpenError),
    /// The command that leads to another machine has ended.
    Far {
        exit: Option<Exit>,
        said: String,
    },
    Fault(Fault),
    Gone {
        asked: bool,
    },
    /// A signal came.
    Left,
    Unreadable(String),
}

impl Lost {
    /// The same, after that command was sent: whoever changes something has to know whether it was heard.
    fn after(self, command: &str) -> Self {
        match self {
            Self::Gone { .. } => Self::Gone { asked: !only_looks(command) },
            lost @ (Self::Failed(_)
            | Self::Absent(_)
            | Self::Unopened(_)
            | Self::Far { .. }
            | Self::Fault(_)
            | Self::Left
            | Self::Unreadable(_)) => lost,
        }
    }
}

/// A stream that runs, or an answer that comes.
pub(crate) struct Stream {
    pub(crate) link: Link,
    tag: Tag,
    command: String,
    /// Something came.
    began: bool,
    runs: Arc<AtomicBool>,
}

/// Ends a stream from elsewhere.
pub(crate) struct Close(Handle<Client>);

impl Close {
    pub(crate) fn close(self) {
        // Refused when it is over already.
        let _ = self.0.command(Command::Close);
    }
}

impl Stream {
    /// What ends it from elsewhere.
    pub(crate) fn close(&self) -> Close {
        Close(self.link.driver.handle())
    }

    /// What comes next, as it came. An error is the end, too.
    pub(crate) fn heard(&mut self) -> Result<Arrival, Problem> {
        let heard = self.link.heard(self.tag);
        let heard = heard.map_err(|lost| if self.began { lost } else { lost.after(&self.command) });
        self.began = true;
        heard.map_err(|lost| self.link.lost(lost))
    }

    /// What comes next. An error is the end, too.
    pub(crate) fn next(&mut self) -> Result<Said, Problem> {
        loop {
            return Ok(match self.heard()? {
                Arrival::Answer(Answer::Frame(data)) => match Frame::read(&data) {
                    Ok(frame) => Said::Frame(Box::new(frame), data),
                    Err(_) => Said::Other(data),
                },
                Arrival::Answer(Answer::Reply(result)) => Said::Other(result),
                Arrival::Answer(Answer::End(reason)) => Said::End(reason),
                Arrival::Answer(Answer::Fail(failure)) => return Err(refused(&failure, &self.link.route)),
                Arrival::Line(_) | Arrival::Noise(..) => continue,
            });
        }
    }

    /// Whether the next one is there already.
    pub(crate) fn is_ready(&self) -> bool {
        self.link.driver.is_ready()
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.runs.store(false, Ordering::Relaxed);
    }
}

/// What a hub refused, as a problem of ours.
fn refused(failure: &Failure, route: &Route) -> Problem {
    let (phase, kind) = match &failure.tag {
        ErrorTag::InvalidArgs => (Phase::Usage, Kind::Usage),
        ErrorTag::NotFound => (Phase::Session, Kind::NotFound),
        ErrorTag::Internal
        | ErrorTag::SchemaMismatch
        | ErrorTag::UnknownCommand
        | ErrorTag::NotImplemented
        | ErrorTag::Unknown(_) => (Phase::Session, Kind::Internal),
        ErrorTag::NeedsLogin => (Phase::Authenticate, Kind::NeedsLogin),
        ErrorTag::DbUnavailable | ErrorTag::IdleTimeout | ErrorTag::AppUnavailable => {
            (Phase::Connect, Kind::Unreachable)
        }
        ErrorTag::Busy => (Phase::Session, Kind::Busy),
        ErrorTag::AlreadyAnswered | ErrorTag::NotPermitted => (Phase::Session, Kind::Refused),
        ErrorTag::RunnerError
        | ErrorTag::PythonNotFound
        | ErrorTag::GaPathInvalid
        | ErrorTag::ManagedRuntimeInvalid
        | ErrorTag::ManagedModelNotConfigured
        | ErrorTag::BridgeCwdInvalid
        | ErrorTag::PathEncoding
        | ErrorTag::SpawnIo
        | ErrorTag::PipeUnavailable => (Phase::Spawn, Kind::Exited),
    };
    let beside = failure.beside.as_ref().and_then(|beside| serde_json::from_str(beside.get()).ok());
    let Beside { session_id, retryable } = beside.unwrap_or_default();
    let mut problem = Problem::new(phase, kind, plain(&failure.message)).code(failure.tag.exit_code());
    problem.retryable = retryable.unwrap_or(problem.retryable);
    match session_id {
        _ if failure.tag == ErrorTag::UnknownCommand => {
            problem.hint("agentline hub restart: the hub is another version")
        }
        Some(id) if retryable == Some(true) => {
            problem.hint(format!("agentline session retry {}", route.handle(&id)))
        }
        Some(_) | None => problem,
    }
}

/// What a hub says of a failure beside its kind.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Beside {
    /// The session that it is about.
    session_id: Option<String>,
    /// Whether the same could go through later, as `session retry` asks for it.
    retryable: Option<bool>,
}

/// A client of another machine's hub: of the command that leads there.
fn far_config(route: &Route, starts: bool, connect: Duration) -> Result<Config, Problem> {
    let command = route.command(starts);
    let [program, args @ ..] = &*command else { return Err(usage("a host with an empty command")) };
    let spec = SpawnSpec {
        program: program.into(),
        args: args.iter().map(Into::into).collect(),
        cwd: std::env::current_dir().unwrap_or_else(|_| "/".into()),
        env: std::env::vars_os().map(|(name, value)| (name, value.into())).collect(),
        stderr: Stderr::Pipe,
    };
    let mut config = Config { greeted: true, ..Config::new(Open::spawn(spec)) };
    config.graces.open = connect;
    // All that it has to do is to see the end of its input.
    (config.graces.eof, config.graces.term) = (LEAVES, LEAVES);
    Ok(config)
}

/// Why the command that leads to another machine has ended.
fn far(name: &str, exit: Option<Exit>, said: &str) -> Problem {
    let last =
        said.lines().rev().find(|line| !line.trim().is_empty()).map(|line| plain(line.trim()).into_owned());
    let said = last.map_or_else(String::new, |line| format!(": {line}"));
    match exit {
        Some(Exit::Code(127)) => unreachable(format!("{name}: agentline is not in the PATH there{said}"))
            .hint(format!("agentline host add {name} -- ssh -T {name} /path/to/agentline hub pipe --start")),
        Some(Exit::Code(255)) => unreachable(format!("{name} cannot be reached{said}")).hint(format!(
            "ssh {name}, which may ask for a password: with an agent or a ControlMaster this works too"
        )),
        Some(Exit::Code(0)) => unreachable(format!("{name} is gone: its hub has ended{said}"))
            .hint(format!("agentline host check {name}")),
        Some(Exit::Code(code)) => unreachable(format!("{name}: the connection ended with code {code}{said}"))
            .hint(format!("agentline host check {name}")),
        Some(Exit::Signal(_) | Exit::Unknown) | None => {
            unreachable(format!("{name}: the connection ended{said}"))
                .hint(format!("agentline host check {name}"))
        }
    }
}

fn internal(error: &io::Error) -> Problem {
    Problem::new(Phase::Connect, Kind::Internal, error.to_string())
}

/// Waits, at most so long, until nobody is there.
pub(crate) fn wait_gone(folders: &Folders, patience: Duration) -> bool {
    let until = Instant::now() + patience;
    while place::lives(folders) {
        if Instant::now() >= until {
            return false;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    true
}

/// How long a hub has to say how it is.
const HEALTH: Duration = Duration::from_secs(10);
/// From the end of its input, the command to another machine has so long until each signal.
const LEAVES: Duration = Duration::from_millis(500);
