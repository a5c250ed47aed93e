//! `session watch` and `--follow`: what happens, as it happens.

use std::process::ExitCode;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use agentline_core::hub::api::{
    Frame, Happening, Role, RunComplete, SessionBrief, SessionStop, SessionWatch, SessionsWatch, Status,
};
use agentline_core::rpc::Json;

use super::row::{WAITS, exit_code, handle};
use super::said::over;
use super::screen::{Screen, Whose, frame_line};
use super::{At, Desk, Watch};
use crate::args::Format;
use crate::hub::{self, Again, Heard, Link, Route, Said, is_loss};
use crate::output::{Out, Sink, plain, unwritten};
use crate::prompt::usage;
use crate::signals::{self, Ask};
use crate::words::{Kind, Problem};

impl Desk<'_> {
    pub(super) fn watch(&self, args: &Watch) -> Result<ExitCode, Problem> {
        let (tell, told) = channel();
        let signal = |tell: &mut Sender<News>, ask| drop(tell.send(News::Signal(ask)));
        signals::on_each(tell.clone(), signal).map_err(|error| usage(error.to_string()))?;
        let routes = self.begin(args, &tell)?;
        drop(tell);
        let whose = if args.id.len() == 1 { Whose::One } else { Whose::Several };
        let shows = routes.iter().map(|route| Show::new(self, whose, route.host().map(str::to_owned)));
        let mut watching =
            Watching { desk: self, shows: shows.collect(), open: routes.len(), code: 0, routes };
        while let Ok(news) = told.recv() {
            let mut done = None;
            for news in std::iter::once(news).chain(told.try_iter()).take(BATCH) {
                done = watching.hear(news)?;
                if done.is_some() {
                    break;
                }
            }
            for show in &mut watching.shows {
                if let Err(error) = show.flush(true) {
                    let signal = done.filter(|code| *code >= 128).unwrap_or(0);
                    return Ok(unwritten(&error, signal, self.notes));
                }
            }
            if let Some(code) = done {
                return Ok(ExitCode::from(code));
            }
        }
        Ok(ExitCode::from(watching.code))
    }

    /// Begins to follow what is wanted, and says where.
    fn begin(&self, args: &Watch, tell: &Sender<News>) -> Result<Vec<Route>, Problem> {
        let Watch { id, thoughts, raw, tail } = args;
        let attended = self.is_attended();
        if id.is_empty() {
            let watch = SessionsWatch { thoughts: *thoughts, raw: *raw, attended };
            let routes = self.to.routes()?;
            let again = Again::of(routes.len());
            for (at, route) in routes.iter().enumerate() {
                hub::follow((self.to, route), None, watch.clone(), again, passing(at, tell));
            }
            return Ok(routes);
        }
        let found: Result<Vec<At>, Problem> = id.iter().map(|id| self.at(Some(id), None, false)).collect();
        let follow = |(at, At { link, id }): (usize, At)| {
            let (route, session_id) = (link.route.clone(), id);
            let watch = SessionWatch { session_id, tail: *tail, thoughts: *thoughts, raw: *raw, attended };
            hub::follow((self.to, &route), Some(link), watch, Again::of(1), passing(at, tell));
            route
        };
        Ok(found?.into_iter().enumerate().map(follow).collect())
    }

    /// A person looks: nobody has to be told otherwise.
    pub(super) fn is_attended(&self) -> bool {
        use std::io::IsTerminal;
        self.global.format() == Format::Text && std::io::stderr().is_terminal()
    }

    fn ended(&self, reason: &str) {
        if self.global.format() == Format::Text && !self.global.quiet {
            self.notes.line(&format!("◦ over: {}", over(reason)));
        }
    }
}

enum News {
    Heard(usize, Heard),
    Signal(Ask),
}

/// Passes on what comes of the stream of that number.
fn passing(at: usize, tell: &Sender<News>) -> impl FnMut(Heard) -> bool + Send + use<> {
    let tell = tell.clone();
    move |heard| tell.send(News::Heard(at, heard)).is_ok()
}

/// Streams that are watched at once.
struct Watching<'a> {
    desk: &'a Desk<'a>,
    routes: Vec<Route>,
    shows: Vec<Show<'a>>,
    /// Those that are not over.
    open: usize,
    code: u8,
}

impl Watching<'_> {
    /// The exit code, if that was the end.
    fn hear(&mut self, news: News) -> Result<Option<u8>, Problem> {
        let (at, heard) = match news {
            News::Heard(at, heard) => (at, heard),
            News::Signal(ask) => {
                self.shows.iter_mut().for_each(Show::end);
                Sink::ours().hurry();
                return Ok(Some(ask.exit_code()));
            }
        };
        let show = &mut self.shows[at];
        match heard {
            Heard::Said(Said::End(reason)) => {
                show.end();
                self.desk.ended(&reason);
                self.code = self.code.max(end_code(&reason));
                self.open -= 1;
            }
            Heard::Said(said) => show.said(&said),
            Heard::Lost(problem) => {
                show.end();
                self.desk.notes.line(&format!("! {}; it is tried again", plain(&problem.message)));
            }
            Heard::Over(problem) if self.routes.len() == 1 => {
                show.end();
                let _ = show.flush(true);
                return Err(problem);
            }
            Heard::Over(problem) => {
                show.end();
                self.desk.notes.line(&format!("! {}", plain(&problem.message)));
                self.code = self.code.max(problem.exit_code());
                self.open -= 1;
            }
        }
        Ok((self.open == 0).then_some(self.code))
    }
}

/// A stream that ends since the hub does has lost what it looked at.
fn end_code(reason: &str) -> u8 {
    if is_loss(reason) { 4 } else { 0 }
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
    pub(super) fn new(desk: &'a Desk<'a>, whose: Whose, host: Option<String>) -> Self {
        let screen = Screen::new(desk.notes, desk.global.quiet, whose, host.clone());
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
    route: Route,
    session: SessionBrief,
    turn: Option<u64>,
    show: Show<'a>,
    /// The present state was told.
    synced: bool,
    /// What was said before it: shown if our prompt is over already.
    before: Vec<(Frame, Json)>,
}

impl<'a> Follow<'a> {
    pub(super) fn turn(desk: &'a Desk<'a>, route: Route, session: &SessionBrief, turn: Option<u64>) -> Self {
        let show = Show::new(desk, Whose::One, route.host().map(str::to_owned));
        Self { desk, route, session: session.clone(), turn, show, synced: false, before: Vec::new() }
    }

    /// Shows it until it is over; exits like `session wait`.
    pub(super) fn run(mut self, link: Link) -> Result<ExitCode, Problem> {
        let watch = SessionWatch {
            session_id: self.session.id.clone(),
            tail: TAIL,
            attended: self.desk.is_attended(),
            ..SessionWatch::default()
        };
        let mut stream = link.heeding()?.stream(&watch)?;
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
            self.session.host = self.route.host().map(str::to_owned);
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
        let stop = SessionStop::of(self.session.id.clone());
        let mut link = self.desk.to.reach(&self.route, Some(Duration::from_secs(10)))?;
        link.ask(&stop)?;
        self.desk.notes.last_line(&format!("◦ cancelled: {id}"));
        Ok(ExitCode::from(code))
    }
}

/// What is taken in before it is shown.
const BATCH: usize = 256;
/// Messages of before that are asked for: a prompt that is over already is among them.
const TAIL: usize = 50;
