//! Terminals and files for an agent that has none of its own: commands are run, files are read and written for it.
//!
//! ```text
//!  agent ──fs/*, terminal/*──► checked ──► decided by whoever owns this ──► a file: FileWanted, answered
//!                                 │                    │                 └► a command: a child of ours
//!                                 └────── refused ─────┴──► an error that says why
//! ```
//!
//! Nothing of it is offered unless the [config](Config) says so. A command is a child in a session of its own that is
//! given no input; the end of what it writes is kept. It lives until it ends, or until the agent kills or releases it,
//! closes its session, or goes itself: then it and whatever it started gets SIGTERM, and SIGKILL 0.2 s later.
//!
//! A file must lie in the workspace: in the session's folder or one of its additional ones, with all links followed.
//! The machine touches none itself. It tells a [`FileWanted`], and whoever drives it answers with what came of it.

mod api;
mod files;
mod job;
mod output;
mod terminal;
pub mod walk;

pub use api::{Config, Deed, ExitStatus, Files, Hosted, Terminals};
pub use files::{Access, FileError, FileWanted};
pub(crate) use job::ALLOW;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::json;

use crate::acp::client::{self, Answer, Client, PermissionAsked, Requested};
use crate::acp::services::{CreateTerminal, ReadTextFile, ServiceRequest, TerminalRef, WriteTextFile};
use crate::acp::session::SessionSetup;
use crate::acp::{Json, Notice, RequestKey, SessionId};
use crate::limits::Graces;
use crate::machine::{
    Deadline, Ids, Input, LinkId, Machine, Now, OpenError, Output, Outputs, Refused, Tag, soonest,
};
use crate::nest::{self, Nest};
use crate::rpc::{RpcError, code, shown};
use job::{Job, Run, State, Work, absolute};
use terminal::{Command, Event, Terminal};

/// What an owner of a [`Hosting`] is told.
#[derive(Debug)]
pub(crate) enum Told {
    /// By the client, of anything else.
    Client(client::Event),
    /// The agent wants this done, and it is to be [decided](Hosting::decide) about.
    Asked(Box<PermissionAsked>),
    /// Somebody else has to do it, and [says](Hosting::file_done) how it went.
    File(Box<FileWanted>),
    Hosted(Box<Hosted>),
}

/// A client, and what is hosted for its agent.
#[derive(Debug)]
pub(crate) struct Hosting {
    client: Client,
    config: Config,
    /// Names of links; the first is the client's.
    ids: Ids,
    /// The setups of sessions that are being opened.
    opening: BTreeMap<Tag, Folders>,
    /// Sessions that are being closed.
    closing: BTreeMap<Tag, SessionId>,
    sessions: BTreeMap<SessionId, Folders>,
    jobs: BTreeMap<RequestKey, Job>,
    /// Bytes that these keep.
    bytes: usize,
    terminals: BTreeMap<u32, Entry>,
    /// Those, and others that are on their way out.
    children: Nest<u32, Terminal>,
    numbers: u32,
    /// The client is gone, and this is its last word: it comes when nothing of ours is left.
    last: Option<client::Event>,
    out: Outputs<Told>,
}

/// The folders of a workspace, the session's own first.
#[derive(Clone, Debug)]
struct Folders(Vec<String>);

impl Folders {
    fn of(setup: &SessionSetup) -> Self {
        Self([&setup.cwd].into_iter().chain(&setup.additional_directories).cloned().collect())
    }
}

/// A terminal that the agent knows.
#[derive(Debug)]
struct Entry {
    session: SessionId,
    /// The request that is answered when the command is there.
    created: Option<(RequestKey, Box<Run>)>,
    /// Requests that are answered when it has ended.
    waiting: BTreeSet<RequestKey>,
}

impl Hosting {
    pub(crate) fn new(now: Now, mut client: client::Config, config: Config) -> Self {
        config.offer(&mut client.capabilities);
        let mut ids = Ids::default();
        let own = ids.fresh();
        debug_assert!(own == LinkId::FIRST, "the client's link keeps its name");
        Self {
            client: Client::new(now, client),
            config,
            ids,
            opening: BTreeMap::new(),
            closing: BTreeMap::new(),
            sessions: BTreeMap::new(),
            jobs: BTreeMap::new(),
            bytes: 0,
            terminals: BTreeMap::new(),
            children: Nest::default(),
            numbers: 0,
            last: None,
            out: Outputs::default(),
        }
    }

    /// The client itself, to be looked at.
    pub(crate) const fn client(&self) -> &Client {
        &self.client
    }

    pub(crate) fn handle(&mut self, now: Now, input: Input<'_>) {
        if let Input::Link(link, heard) = input
            && link != LinkId::FIRST
        {
            self.children.handle(now, link, heard);
            if self.client.deadline().is_some_and(|(at, _)| at <= now.mono) {
                self.client.handle(now, Input::Tick);
            }
        } else {
            self.client.handle(now, input);
        }
        self.children.tick(now);
        self.settle(now);
    }

    pub(crate) fn command(&mut self, now: Now, command: client::Command) -> Result<(), Refused> {
        use client::Command as Wish;
        if !self.hosts() {
            return self.client.command(now, command);
        }
        let (mut opens, mut closes) = (None, None);
        if let Wish::OpenSession { tag, setup, .. } = &command {
            opens = Some((*tag, Folders::of(setup)));
        } else if let Wish::CloseSession { tag, session } | Wish::DeleteSession { tag, session } = &command {
            closes = Some((*tag, session.clone()));
        }
        let done = self.client.command(now, command);
        if done.is_ok() {
            self.opening.extend(opens);
            self.closing.extend(closes);
        }
        self.settle(now);
        done
    }

    /// The oldest of what it wants and says.
    pub(crate) fn poll(&mut self, now: Now) -> Option<Output<Told>> {
        loop {
            if let Some(output) = self.out.pop() {
                return Some(output);
            }
            let output = self.client.poll()?;
            match output {
                Output::Tell(event) => {
                    if let Some(event) = self.heard(now, event) {
                        return Some(Output::Tell(Told::Client(event)));
                    }
                }
                // With the last word.
                Output::End => {}
                Output::Do(link, action) => return Some(Output::Do(link, action)),
                Output::Store(id, store) => return Some(Output::Store(id, store)),
            }
        }
    }

    pub(crate) fn deadline(&self) -> Option<Deadline> {
        soonest(self.client.deadline(), self.children.deadline())
    }

    /// Whether that request waits for a decision.
    pub(crate) fn is_undecided(&self, request: RequestKey) -> bool {
        self.jobs.get(&request).is_some_and(|job| job.state == State::Undecided)
    }

    /// Requests that wait for a decision.
    pub(crate) fn undecided(&self) -> Vec<RequestKey> {
        self.jobs.keys().copied().filter(|request| self.is_undecided(*request)).collect()
    }

    /// It may be done, or why not.
    pub(crate) fn decide(&mut self, now: Now, request: RequestKey, decided: Result<(), RpcError>) {
        let Some(job) = self.jobs.get_mut(&request).filter(|job| job.state == State::Undecided) else {
            return;
        };
        job.state = State::Begun;
        match decided {
            Err(error) => {
                self.forget(request);
                self.fail(now, request, error);
            }
            Ok(()) => self.begin(now, request),
        }
        self.settle(now);
    }

    /// How a file was read or written: what it holds, or nothing.
    pub(crate) fn file_done(
        &mut self,
        now: Now,
        request: RequestKey,
        done: Result<String, FileError>,
    ) -> Result<(), Refused> {
        let is_begun = |job: &&Job| job.state == State::Begun && !matches!(job.work, Work::Run(_));
        self.jobs.get(&request).filter(is_begun).ok_or(Refused::Unknown)?;
        let Some(Job { session, work, .. }) = self.forget(request) else { return Err(Refused::Unknown) };
        let (deed, path, answer) = match work {
            Work::Read(ReadTextFile { path, line, limit, .. }) => {
                let answer = done.map(|text| {
                    let content = files::lines(&text, line, limit);
                    (content.len(), Json::new(&json!({ "content": content })))
                });
                (Deed::Read { path: path.clone() }, path, answer)
            }
            Work::Write(WriteTextFile { path, content, .. }) => {
                let answer = done.map(|_| (0, Json::new(&json!({}))));
                (Deed::Wrote { path: path.clone(), bytes: content.len() }, path, answer)
            }
            Work::Run(_) => return Err(Refused::Unknown),
        };
        let error = match answer {
            Ok((size, answer)) => self.answer(now, request, size, answer).err(),
            Err(error) => {
                let error = error.answer(&path);
                self.fail(now, request, error.clone());
                Some(error)
            }
        };
        self.hosted(session, deed, error.map(|error| error.message));
        self.settle(now);
        Ok(())
    }

    /// Whether anything is hosted.
    pub(crate) const fn hosts(&self) -> bool {
        self.config.terminals.is_some() || self.config.files.is_some()
    }

    fn settle(&mut self, now: Now) {
        if self.client.is_leaving() {
            self.release_all(now, |_| true);
        }
        while let Some((number, told)) = self.children.next(&mut self.ids, &mut self.out) {
            if let nest::Told::Event(event) = told {
                self.happened(now, number, &event);
            }
        }
        if self.children.is_empty()
            && let Some(last) = self.last.take()
        {
            self.out.tell(Told::Client(last));
            self.out.end();
        }
    }

    fn heard(&mut self, now: Now, event: client::Event) -> Option<client::Event> {
        if !self.hosts() && !matches!(event, client::Event::Closed(_)) {
            return Some(event);
        }
        match event {
            client::Event::Requested(requested) => return self.requested(now, *requested),
            client::Event::Closed(_) => {
                self.last = Some(event);
                self.settle(now);
                return None;
            }
            client::Event::Answered(tag, ref answer) => self.answered(now, tag, answer),
            client::Event::Failed(tag, _) => {
                self.opening.remove(&tag);
                self.closing.remove(&tag);
            }
            client::Event::Withdrawn(request) => {
                self.forget(request);
                for entry in self.terminals.values_mut() {
                    entry.waiting.remove(&request);
                    entry.created.take_if(|(created, _)| *created == request);
                }
            }
            client::Event::Noticed(ref notice) => {
                if let Notice::Forgotten(session) = &**notice {
                    let session = session.clone();
                    self.session_over(now, &session);
                }
            }
            client::Event::Ready(_)
            | client::Event::Line(_)
            | client::Event::Text(_)
            | client::Event::Updated(_)
            | client::Event::PermissionAsked(_)
            | client::Event::Notified(_)
            | client::Event::TurnEnded(_)
            | client::Event::Stderr(_) => {}
        }
        Some(event)
    }

    fn answered(&mut self, now: Now, tag: Tag, answer: &Answer) {
        if let (Answer::SessionOpened { session, .. }, Some(folders)) = (answer, self.opening.remove(&tag)) {
            self.sessions.insert(session.clone(), folders);
        }
        if let Some(session) = self.closing.remove(&tag) {
            self.session_over(now, &session);
        }
    }

    /// A session is over: so is what runs for it.
    pub(crate) fn session_over(&mut self, now: Now, session: &SessionId) {
        self.sessions.remove(session);
        self.release_all(now, |entry| entry.session == *session);
        self.settle(now);
    }

    /// Takes what is ours to do; anything else is handed on.
    fn requested(&mut self, now: Now, requested: Requested) -> Option<client::Event> {
        let Requested { request, wanted } = requested;
        let done = match wanted {
            ServiceRequest::ReadTextFile(read) => self.file(request, Work::Read(read)),
            ServiceRequest::WriteTextFile(write) => self.file(request, Work::Write(write)),
            ServiceRequest::CreateTerminal(create) => self.create(request, create),
            ServiceRequest::TerminalOutput(of) => self.output(now, request, &of),
            ServiceRequest::WaitForTerminal(of) => self.wait(now, request, &of),
            ServiceRequest::KillTerminal(of) => self.end(now, request, &of, Command::Kill),
            ServiceRequest::ReleaseTerminal(of) => self.end(now, request, &of, Command::Release),
            wanted @ (ServiceRequest::Elicit(_) | ServiceRequest::Extension { .. }) => {
                return Some(client::Event::Requested(Box::new(Requested { request, wanted })));
            }
        };
        if let Err(error) = done {
            self.fail(now, request, error);
        }
        self.settle(now);
        None
    }

    fn file(&mut self, request: RequestKey, work: Work) -> Result<(), RpcError> {
        let limit = self.config.files.as_ref().map_or(0, |files| files.limit);
        let (session, path) = match &work {
            Work::Read(read) => (&read.session_id, &read.path),
            Work::Write(write) if write.content.len() > limit => {
                return Err(FileError::TooLong(limit).answer(&write.path));
            }
            Work::Write(write) => (&write.session_id, &write.path),
            Work::Run(_) => return Ok(()),
        };
        absolute("the path", path)?;
        self.folders(session)?;
        self.ask(request, session.clone(), work)
    }

    fn create(&mut self, request: RequestKey, create: CreateTerminal) -> Result<(), RpcError> {
        let Some(host) = &self.config.terminals else { return Err(unknown(&create.command)) };
        let session = create.session_id.clone();
        let Folders(folders) = self.folders(&session)?;
        let cwd = folders.first().map(String::as_str).unwrap_or_default();
        let run = Run::new(create, cwd, host)?;
        self.ask(request, session, Work::Run(Box::new(run)))
    }

    /// The folders of a session. One that we do not know is an agent of the agent's, which works where it does.
    fn folders(&self, session: &SessionId) -> Result<&Folders, RpcError> {
        let only = || self.sessions.values().next().filter(|_| self.sessions.len() == 1);
        let folders = self.sessions.get(session).or_else(only);
        folders
            .ok_or_else(|| RpcError::new(code::NOT_FOUND, format!("no session {}", shown(session.as_str()))))
    }

    fn ask(&mut self, request: RequestKey, session: SessionId, work: Work) -> Result<(), RpcError> {
        let job = Job { session, work, state: State::Undecided };
        let size = job.size();
        if self.bytes + size > WAITING {
            return Err(RpcError::new(
                code::INTERNAL_ERROR,
                "too much waits: ask again when some of it is done",
            ));
        }
        self.bytes += size;
        self.out.tell(Told::Asked(Box::new(job.question(request))));
        self.jobs.insert(request, job);
        Ok(())
    }

    fn forget(&mut self, request: RequestKey) -> Option<Job> {
        let job = self.jobs.remove(&request)?;
        self.bytes -= job.size();
        Some(job)
    }

    fn begin(&mut self, now: Now, request: RequestKey) {
        let Some(job) = self.jobs.get(&request) else { return };
        let (path, access) = match &job.work {
            Work::Read(read) => (&read.path, Access::Read),
            Work::Write(write) => (&write.path, Access::Write(write.content.clone())),
            Work::Run(_) => return self.start(now, request),
        };
        let Ok(Folders(roots)) = self.folders(&job.session) else { return };
        let limit = self.config.files.as_ref().map_or(0, |files| files.limit);
        let (session, roots, path) = (job.session.clone(), roots.clone(), path.clone());
        self.out.tell(Told::File(Box::new(FileWanted { request, session, roots, path, access, limit })));
    }

    fn start(&mut self, now: Now, request: RequestKey) {
        let Some(Job { session, work: Work::Run(run), .. }) = self.forget(request) else { return };
        let most = self.config.terminals.as_ref().map_or(0, |host| host.most);
        // Those that are on their way out take as much of the system as any.
        if self.terminals.len().max(self.children.len()) >= most {
            let error = RpcError::new(
                code::INTERNAL_ERROR,
                format!("{most} terminals are there already: release those that are not needed"),
            );
            return self.fail(now, request, error);
        }
        self.numbers += 1;
        let config = terminal::Config { spec: run.spec.clone(), keep: run.keep, graces: graces() };
        let placed = self.children.insert(now, self.numbers, Terminal::new(now, config));
        debug_assert!(placed.is_ok(), "each number is given once");
        let entry = Entry { session, created: Some((request, run)), waiting: BTreeSet::new() };
        self.terminals.insert(self.numbers, entry);
    }

    fn happened(&mut self, now: Now, number: u32, event: &Event) {
        let status = self.status(number);
        // One that was released is nobody's.
        let Some(entry) = self.terminals.get_mut(&number) else { return };
        let session = entry.session.clone();
        match event {
            Event::Started => {
                // Withdrawn meanwhile: nobody knows of it.
                let Some((request, run)) = entry.created.take() else { return self.release(now, number) };
                let terminal_id = id(number);
                let answer = Json::new(&json!({ "terminalId": terminal_id }));
                let error = self.answer(now, request, 0, answer).err().map(|error| error.message);
                self.started(session, Some(terminal_id), *run, error);
            }
            Event::Failed(error) => {
                let created = entry.created.take();
                self.terminals.remove(&number);
                if let Some((request, run)) = created {
                    let error = cannot_start(*error);
                    self.fail(now, request, error.clone());
                    self.started(session, None, *run, Some(error.message));
                }
            }
            Event::Exited => {
                let Some(status) = status else { return };
                for request in std::mem::take(&mut entry.waiting) {
                    // Refused when nobody waits for it any more.
                    let _ = self.answer(now, request, 0, Json::new(&status));
                }
                self.hosted(session, Deed::Exited { terminal_id: id(number), status }, None);
            }
        }
    }

    fn started(&mut self, session: SessionId, terminal_id: Option<String>, run: Run, error: Option<String>) {
        let Run { words, cwd, .. } = run;
        self.hosted(session, Deed::Started { terminal_id, command: words, cwd }, error);
    }

    fn status(&self, number: u32) -> Option<ExitStatus> {
        self.children.get(&number)?.exit().map(ExitStatus::of)
    }

    fn output(&mut self, now: Now, request: RequestKey, of: &TerminalRef) -> Result<(), RpcError> {
        let number = self.number(of)?;
        let (output, truncated) = self.children.get(&number).map(Terminal::output).unwrap_or_default();
        let size = output.len();
        let mut answer = json!({ "output": output, "truncated": truncated });
        if let (Some(status), Some(answer)) = (self.status(number), answer.as_object_mut()) {
            answer.insert("exitStatus".into(), json!(status));
        }
        self.answer(now, request, size, Json::new(&answer))
    }

    fn wait(&mut self, now: Now, request: RequestKey, of: &TerminalRef) -> Result<(), RpcError> {
        let number = self.number(of)?;
        if let Some(status) = self.status(number) {
            return self.answer(now, request, 0, Json::new(&status));
        }
        if let Some(entry) = self.terminals.get_mut(&number) {
            entry.waiting.insert(request);
        }
        Ok(())
    }

    fn end(&mut self, now: Now, request: RequestKey, of: &TerminalRef, how: Command) -> Result<(), RpcError> {
        let number = self.number(of)?;
        match how {
            Command::Kill => drop(self.children.command(now, &number, Command::Kill)),
            Command::Release => self.release(now, number),
        }
        self.answer(now, request, 0, Json::new(&json!({})))
    }

    fn release_all(&mut self, now: Now, which: impl Fn(&Entry) -> bool) {
        let numbers = self.terminals.iter().filter(|(_, entry)| which(entry)).map(|(number, _)| *number);
        let numbers: Vec<u32> = numbers.collect();
        numbers.into_iter().for_each(|number| self.release(now, number));
    }

    fn release(&mut self, now: Now, number: u32) {
        let Some(Entry { created, waiting, .. }) = self.terminals.remove(&number) else { return };
        let open = created.map(|(request, _)| request).into_iter().chain(waiting);
        for request in open {
            self.fail(now, request, RpcError::new(code::CANCELLED, "the terminal was released"));
        }
        let _ = self.children.command(now, &number, Command::Release);
    }

    /// The terminal that the agent means.
    fn number(&self, of: &TerminalRef) -> Result<u32, RpcError> {
        let number = of.terminal_id.strip_prefix(PREFIX).and_then(|number| number.parse().ok());
        let known =
            number.filter(|number| id(*number) == of.terminal_id && self.terminals.contains_key(number));
        known.ok_or_else(|| unknown(&of.terminal_id))
    }

    /// Answers a request, unless too much is unread by the agent already: it asks faster than it reads.
    fn answer(&mut self, now: Now, request: RequestKey, size: usize, result: Json) -> Result<(), RpcError> {
        let unread = self.client.unsent();
        let answered = if size > 0 && unread > 0 && unread + result.get().len() > UNREAD {
            Err(RpcError::new(code::INTERNAL_ERROR, "earlier answers are not read yet: ask again after them"))
        } else {
            match self.client.command(now, client::Command::Reply { request, result }) {
                Err(Refused::Limit(_) | Refused::Crowded) => Err(RpcError::new(
                    code::INTERNAL_ERROR,
                    "too long for one message: ask for fewer lines with line and limit",
                )),
                // Nobody waits for it any more.
                Ok(()) | Err(_) => return Ok(()),
            }
        };
        if let Err(error) = &answered {
            self.fail(now, request, error.clone());
        }
        answered
    }

    fn fail(&mut self, now: Now, request: RequestKey, error: RpcError) {
        // Refused when nobody waits for it any more.
        let _ = self.client.command(now, client::Command::Fail { request, error });
    }

    fn hosted(&mut self, session: SessionId, deed: Deed, error: Option<String>) {
        self.out.tell(Told::Hosted(Box::new(Hosted { session, deed, error })));
    }
}

fn id(number: u32) -> String {
    format!("{PREFIX}{number}")
}

fn unknown(terminal: &str) -> RpcError {
    RpcError::new(code::NOT_FOUND, format!("no terminal {}", shown(terminal)))
}

fn cannot_start(error: OpenError) -> RpcError {
    RpcError::new(code::INTERNAL_ERROR, format!("the command cannot be started: {error}"))
}

fn graces() -> Graces {
    Graces { drain: DRAIN, ..Graces::default() }
}

const PREFIX: &str = "terminal-";
/// From the end of a command until what another process still writes there is not waited for.
const DRAIN: Duration = Duration::from_millis(250);
/// Bytes of all requests that wait for a decision or are being done: two of the longest files.
const WAITING: usize = 32 << 20;
/// Bytes of answers that an agent may leave unread before it gets no more long ones.
const UNREAD: usize = 32 << 20;
