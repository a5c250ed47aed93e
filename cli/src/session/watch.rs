//! `session watch` and `--follow`: what happens, as it happens.

use std::process::ExitCode;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use agentline_core::hub::api::{
    Frame, Happening, Role, RunComplete, SessionBrief, SessionStop, SessionWatch, SessionsWatch, Status,
};
use agentline_core::rpc::Json;

use super::row::{WAITS, exit_code, handle};
use super::screen::{Screen, frame_line};
use super::{Desk, Watch};
use crate::args::Format;
use crate::hub::{Link, Route, Said, Stream};
use crate::output::{Out, plain, unwritten};
use crate::words::{Kind, Problem};

impl Desk<'_> {
    pub(super) fn watch(&self, args: &Watch) -> Result<ExitCode, Problem> {
        let streams = self.streams(args)?;
        let several = args.id.len() != 1;
        if let [(route, _)] = &*streams {
            let host = route.host().map(str::to_owned);
            let (_, stream) =
                streams.into_iter().next().ok_or_else(|| crate::prompt::usage("nothing to watch"))?;
            return self.one(stream, several, host);
        }
        self.all(streams)
    }

    fn streams(&self, args: &Watch) -> Result<Vec<(Route, Stream)>, Problem> {
        let Watch { id, thoughts, raw, tail } = args;
        let attended = self.is_attended();
        if id.is_empty() {
            let watch = SessionsWatch { thoughts: *thoughts, raw: *raw, attended };
            let open = |route: Route| {
                let stream = self.to.reach(&route, None)?.heeding()?.stream(&watch)?;
                Ok((route, stream))
            };
            return self.to.routes()?.into_iter().map(open).collect();
        }
        let open = |id: &String| {
            let at = self.at(Some(id), None, false)?;
            let route = at.link.route.clone();
            let watch =
                SessionWatch { session_id: at.id, tail: *tail, thoughts: *thoughts, raw: *raw, attended };
            Ok((route, at.link.heeding()?.stream(&watch)?))
        };
        id.iter().map(open).collect()
    }

    /// A person looks: nobody has to be told otherwise.
    pub(super) fn is_attended(&self) -> bool {
        use std::io::IsTerminal;
        self.global.format() == Format::Text && std::io::stderr().is_terminal()
    }

    fn one(&self, mut stream: Stream, several: bool, host: Option<String>) -> Result<ExitCode, Problem> {
        let mut show = Show::new(self, several, host);
        loop {
            let said = stream.next();
            let done = match said {
                Ok(Said::End(reason)) => {
                    show.end();
                    self.ended(&reason);
                    Some(end_code(&reason))
                }
                Ok(said) => {
                    show.said(&said);
                    None
                }
                Err(problem) if problem.kind == Kind::Cancelled => {
                    show.end();
                    Some(problem.exit_code())
                }
                Err(problem) => {
                    show.end();
                    return Err(problem);
                }
            };
            if let Err(error) = show.flush(done.is_some() || !stream.is_ready()) {
                return Ok(unwritten(&error, stream.link.signal().unwrap_or_default(), self.notes));
            }
            if let Some(code) = done {
                return Ok(ExitCode::from(code));
            }
        }
    }

    /// Several hubs, or several sessions, each on a connection of its own.
    fn all(&self, streams: Vec<(Route, Stream)>) -> Result<ExitCode, Problem> {
        let (tell, told) = channel();
        let mut shows: Vec<Show<'_>> = Vec::new();
        for (at, (route, stream)) in streams.into_iter().enumerate() {
            shows.push(Show::new(self, true, route.host().map(str::to_owned)));
            pass(at, stream, tell.clone());
        }
        drop(tell);
        let mut code = 0;
        while let Ok((at, said)) = told.recv() {
            let show = &mut shows[at];
            match said {
                Ok(Said::End(reason)) => {
                    show.end();
                    self.ended(&reason);
                }
                Ok(said) => show.said(&said),
                Err(problem) if problem.kind == Kind::Cancelled => {
                    show.end();
                    return Ok(ExitCode::from(problem.exit_code()));
                }
                Err(problem) => {
                    show.end();
                    code = problem.exit_code();
                    self.notes.line(&format!("! {}", plain(&problem.message)));
                }
            }
            if let Err(error) = show.flush(true) {
                return Ok(unwritten(&error, 0, self.notes));
            }
        }
        Ok(ExitCode::from(code))
    }

    fn ended(&self, reason: &str) {
        if self.global.format() == Format::Text && !self.global.quiet {
            self.notes.line(&format!("◦ the stream has ended: {}", plain(reason)));
        }
    }
}

/// Passes on what a stream brings.
fn pass(at: usize, mut stream: Stream, tell: Sender<(usize, Result<Said, Problem>)>) {
    thread::spawn(move || {
        loop {
            let said = stream.next();
            let is_last = matches!(said, Ok(Said::End(_)) | Err(_));
            if tell.send((at, said)).is_err() || is_last {
                return;
            }
        }
    });
}

/// A stream that ends since the hub does has lost what it looked at.
fn end_code(reason: &str) -> u8 {
    if matches!(reason, "hub_stopping" | "lagging" | "stalled") { 4 } else { 0 }
}

/// Frames, for people or for programs.
pub(super) struct Show<'a> {
    desk: &'a Desk<'a>,
    pub(super) screen: Screen,
    out: Out,
    host: Option<String>,
    first: bool,
}

impl<'a> Show<'a> {
    pub(super) fn new(desk: &'a Desk<'a>, several: bool, host: Option<String>) -> Self {
        let screen = Screen::new(desk.notes, desk.global.quiet, several, host.clone());
        Self { desk, screen, out: Out::default(), host, first: true }
    }

    pub(super) fn said(&mut self, said: &Said) {
        match said {
            Said::Frame(frame, data) => self.frame(frame, data),
            Said::Other(data) if self.is_json() => self.json(data),
            Said::Other(_) | Said::End(_) => {}
        }
    }

    pub(super) fn frame(&mut self, frame: &Frame, data: &Json) {
        match self.is_json() {
            true => self.json(data),
            false => self.screen.show(frame),
        }
    }

    fn json(&mut self, data: &Json) {
        let line = frame_line(data, self.host.as_deref(), std::mem::take(&mut self.first));
        self.out.write(&line);
    }

    fn is_json(&self) -> bool {
        self.desk.global.format() == Format::Json
    }

    pub(super) fn flush(&mut self, surely: bool) -> std::io::Result<()> {
        match self.is_json() {
            true if surely || self.out.is_large() => self.out.flush(),
            false if surely || self.screen.is_full() => self.screen.flush(),
            true | false => Ok(()),
        }
    }

    pub(super) fn end(&mut self) {
        if !self.is_json() {
            self.screen.end();
        }
    }
}

/// One prompt, watched to its end.
pub(super) struct Follow<'a> {
    desk: &'a Desk<'a>,
    link: Link,
    session: SessionBrief,
    turn: Option<u64>,
    show: Show<'a>,
    /// The present state was told.
    synced: bool,
    /// What was said before it: shown if our prompt is over already.
    before: Vec<(Frame, Json)>,
}

impl<'a> Follow<'a> {
    pub(super) fn turn(desk: &'a Desk<'a>, link: Link, session: &SessionBrief, turn: Option<u64>) -> Self {
        let host = link.route.host().map(str::to_owned);
        let show = Show::new(desk, false, host);
        Self { desk, link, session: session.clone(), turn, show, synced: false, before: Vec::new() }
    }

    /// Shows it until it is over; exits like `session wait`.
    pub(super) fn run(mut self) -> Result<ExitCode, Problem> {
        let watch = SessionWatch {
            session_id: self.session.id.clone(),
            tail: TAIL,
            attended: self.desk.is_attended(),
            ..SessionWatch::default()
        };
        let route = self.link.route.clone();
        let mut stream = self.desk.to.reach(&route, None)?.heeding()?.stream(&watch)?;
        loop {
            let done = match stream.next() {
                Ok(Said::Frame(frame, data)) => self.take(*frame, data),
                Ok(Said::Other(_)) => None,
                Ok(Said::End(reason)) => {
                    self.desk.ended(&reason);
                    Some(match end_code(&reason) {
                        0 => exit_code(&self.session),
                        code => code,
                    })
                }
                Err(problem) if problem.kind == Kind::Cancelled => return self.leave(problem),
                Err(problem) => {
                    self.show.end();
                    return Err(problem);
                }
            };
            if done.is_some() {
                self.show.end();
            }
            if let Err(error) = self.show.flush(done.is_some() || !stream.is_ready()) {
                return Ok(unwritten(&error, stream.link.signal().unwrap_or_default(), self.desk.notes));
            }
            if let Some(code) = done {
                return Ok(ExitCode::from(code));
            }
        }
    }

    /// The exit code, if that was the end.
    fn take(&mut self, frame: Frame, data: Json) -> Option<u8> {
        let is_ours = self.turn.is_none() || frame.turn.is_none() || frame.turn == self.turn;
        if let Happening::SessionBrief(brief) = &frame.what {
            self.session = (**brief).clone();
            self.session.host = self.link.route.host().map(str::to_owned);
        }
        let ends = if let Happening::Synced(_) = frame.what {
            self.synced()
        } else if is_ours {
            self.end_of(&frame.what)
        } else {
            None
        };
        if matches!(frame.what, Happening::MessageBrief(_)) && !self.synced {
            self.before.push((frame, data));
        } else if is_ours {
            self.show.frame(&frame, &data);
        }
        ends
    }

    /// The exit code, if our prompt ends with that, or nobody is here to answer.
    fn end_of(&mut self, what: &Happening) -> Option<u8> {
        if let Happening::RunComplete(run) = what {
            self.session.status = run.status;
            self.session.status_reason = run.status_reason;
            return Some(exit_code(&self.session));
        }
        let asks =
            matches!(what, Happening::ToolCallPending(_) | Happening::AskUser(_) | Happening::AskForm(_));
        if asks && !self.desk.is_attended() {
            return Some(WAITS);
        }
        matches!(what, Happening::NotSent(_)).then_some(1)
    }

    /// The present state is told: is our prompt over already?
    fn synced(&mut self) -> Option<u8> {
        self.synced = true;
        let waits = self.turn.is_some_and(|turn| self.session.current_turn.is_none_or(|now| now < turn));
        let lives = self.session.current_turn.is_some() || self.session.status == Status::Connecting;
        let over = !lives && (self.session.queued == 0 || !waits);
        let before = std::mem::take(&mut self.before);
        if !over {
            return None;
        }
        let index = |(frame, _): &(Frame, Json)| {
            let Happening::MessageBrief(message) = &frame.what else { return None };
            message.turn_index
        };
        let last = before.iter().filter_map(index).max();
        for (frame, data) in &before {
            if let Happening::MessageBrief(message) = &frame.what
                && message.turn_index == last
                && message.role != Role::User
            {
                self.show.frame(frame, data);
            }
        }
        let over = Frame {
            session_id: Some(self.session.id.clone()),
            turn: self.turn,
            timestamp: None,
            what: Happening::from(RunComplete {
                status: self.session.status,
                status_reason: self.session.status_reason,
                last_error: self.session.last_error.clone(),
                ..RunComplete::default()
            }),
            raw: None,
        };
        self.show.frame(&over, &over.to_json());
        Some(exit_code(&self.session))
    }

    /// Ctrl-C cancels the turn; whoever is sent away otherwise leaves it running.
    fn leave(mut self, problem: Problem) -> Result<ExitCode, Problem> {
        self.show.end();
        let id = handle(&self.session);
        let code = problem.exit_code();
        if code != 130 {
            self.desk.notes.last_line(&format!("◦ left; it goes on: agentline session cancel {id}"));
            return Ok(ExitCode::from(code));
        }
        let route = self.link.route.clone();
        let stop = SessionStop::of(self.session.id.clone());
        let mut link = self.desk.to.reach(&route, Some(Duration::from_secs(10)))?;
        link.ask(&stop)?;
        self.desk.notes.last_line(&format!("◦ cancelled: {id}"));
        Ok(ExitCode::from(code))
    }
}

/// Messages of before that are asked for: a prompt that is over already is among them.
const TAIL: usize = 50;
