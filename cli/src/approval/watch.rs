//! `approval list --watch`: one question at a time, and one key for its answer.

use std::collections::VecDeque;
use std::io::{self, IsTerminal, Read};
use std::process::ExitCode;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use agentline_core::acp::{OptionKind, PermissionOption};
use agentline_core::hub::api::{ApprovalBrief, ApprovalRespond, ApprovalsWatch, Class, Happening, Resolved};
use agentline_core::rpc::Json;
use rustix::termios::{LocalModes, OptionalActions, Termios};

use super::answer::outcome;
use super::question::{body, choices, chosen};
use super::{Desk, SHORT};
use crate::args::Format;
use crate::ask::keyed;
use crate::hub::{Route, Said, Stream};
use crate::output::{Out, plain, unwritten};
use crate::session::frame_line;
use crate::signals::{self, Ask};
use crate::words::{Kind, Problem};

pub(super) fn run(desk: &Desk<'_>) -> Result<ExitCode, Problem> {
    let answers =
        io::stdin().is_terminal() && io::stderr().is_terminal() && desk.global.format() == Format::Text;
    let routes = desk.to.routes()?;
    let (tell, told) = channel();
    signals::on_each(tell.clone(), |tell: &mut Sender<News>, ask| {
        let _ = tell.send(News::Signal(ask));
    })
    .map_err(|error| crate::prompt::usage(error.to_string()))?;
    for (at, route) in routes.iter().enumerate() {
        let stream = desk.to.reach(route, None)?.stream(&ApprovalsWatch { attended: answers })?;
        pass(at, stream, tell.clone());
    }
    // Without Enter, and back as it was when we leave.
    let _raw = answers.then(Raw::new).flatten();
    if answers {
        thread::spawn(move || keys(&tell));
    }
    let mut board = Board {
        desk,
        routes: &routes,
        open: VecDeque::new(),
        drawn: None,
        answers,
        line: None,
        sure: None,
        out: Out::default(),
        first: true,
    };
    loop {
        match board.hear(told.recv().unwrap_or(News::Signal(Ask::HangUp)))? {
            Some(code) => return Ok(ExitCode::from(code)),
            None => {
                if let Err(error) = board.out.flush() {
                    return Ok(unwritten(&error, 0, desk.notes));
                }
            }
        }
    }
}

enum News {
    Said(usize, Box<Result<Said, Problem>>),
    Key(u8),
    Signal(Ask),
}

fn pass(at: usize, mut stream: Stream, tell: Sender<News>) {
    thread::spawn(move || {
        loop {
            let said = stream.next();
            let is_last = matches!(said, Ok(Said::End(_)) | Err(_));
            if tell.send(News::Said(at, Box::new(said))).is_err() || is_last {
                return;
            }
        }
    });
}

fn keys(tell: &Sender<News>) {
    let mut key = [0];
    while matches!(io::stdin().lock().read(&mut key), Ok(1)) {
        if tell.send(News::Key(key[0])).is_err() {
            return;
        }
    }
}

/// A terminal that hands over each key as it is pressed, and shows none.
struct Raw(Termios);

impl Raw {
    fn new() -> Option<Self> {
        let before = rustix::termios::tcgetattr(io::stdin()).ok()?;
        let mut raw = before.clone();
        raw.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        rustix::termios::tcsetattr(io::stdin(), OptionalActions::Now, &raw).ok()?;
        Some(Self(before))
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        let _ = rustix::termios::tcsetattr(io::stdin(), OptionalActions::Now, &self.0);
    }
}

/// The questions that are open, and the one on the screen.
struct Board<'a> {
    desk: &'a Desk<'a>,
    routes: &'a [Route],
    open: VecDeque<(usize, ApprovalBrief)>,
    /// Since when the first one is on the screen.
    drawn: Option<Instant>,
    answers: bool,
    /// Words that are typed.
    line: Option<Vec<u8>>,
    /// An answer for good is asked for twice.
    sure: Option<PermissionOption>,
    out: Out,
    first: bool,
}

impl Board<'_> {
    fn hear(&mut self, news: News) -> Result<Option<u8>, Problem> {
        match news {
            News::Said(at, said) => self.said(at, *said),
            News::Key(key) => Ok(self.key(key)),
            News::Signal(Ask::Interrupt) => Ok(Some(130)),
            News::Signal(Ask::Terminate) => Ok(Some(143)),
            News::Signal(Ask::HangUp) => Ok(Some(129)),
        }
    }

    fn said(&mut self, at: usize, said: Result<Said, Problem>) -> Result<Option<u8>, Problem> {
        match said {
            Ok(Said::Frame(_, data) | Said::Other(data)) if self.desk.global.format() == Format::Json => {
                self.json(at, &data);
            }
            Ok(Said::Frame(frame, _)) => {
                if let Happening::ApprovalBrief(asked) = frame.what {
                    self.asked(at, *asked);
                } else if let Happening::Resolved(resolved) = frame.what {
                    self.resolved(at, &resolved);
                }
            }
            Ok(Said::Other(_)) => {}
            Ok(Said::End(reason)) if self.routes.len() == 1 => {
                self.note(&format!("◦ the stream has ended: {}", plain(&reason)));
                return Ok(Some(if reason == "hub_stopping" { 4 } else { 0 }));
            }
            Ok(Said::End(reason)) => self.note(&format!("! {}: {}", self.routes[at].name(), plain(&reason))),
            Err(problem) if problem.kind == Kind::Cancelled => return Ok(Some(problem.exit_code())),
            Err(problem) if self.routes.len() == 1 => return Err(problem),
            // It is open still, or its end is told like that of any other.
            Err(problem) => self.note(&format!("! {}", plain(&problem.message))),
        }
        Ok(None)
    }

    fn json(&mut self, at: usize, data: &Json) {
        let line = frame_line(data, self.routes[at].host(), std::mem::take(&mut self.first));
        self.out.write(&line);
    }

    fn asked(&mut self, at: usize, asked: ApprovalBrief) {
        if self.open.iter().any(|(of, open)| *of == at && open.approval_id == asked.approval_id) {
            return;
        }
        self.open.push_back((at, asked));
        if !self.answers {
            let (at, asked) = &self.open[self.open.len() - 1];
            let id = self.routes[*at].handle(&plain(&asked.approval_id));
            return self.note(&format!("? {}  agentline approve {id}", plain(&asked.title)));
        }
        // The bell is for who looks elsewhere.
        self.desk.notes.bell();
        if self.open.len() == 1 {
            self.draw();
        }
    }

    fn resolved(&mut self, at: usize, resolved: &Resolved) {
        let is_it =
            |(of, open): &(usize, ApprovalBrief)| *of == at && open.approval_id == resolved.approval_id;
        let Some(place) = self.open.iter().position(is_it) else { return };
        let Some((_, asked)) = self.open.remove(place) else { return };
        let how = resolved.option_id.as_deref().map_or_else(|| "not answered".into(), plain);
        let id = self.routes[at].handle(&plain(&asked.approval_id));
        self.note(&format!("◦ {id} is over: {how}"));
        if place == 0 {
            self.draw();
        }
    }

    /// Shows the first question.
    fn draw(&mut self) {
        (self.drawn, self.line, self.sure) = (None, None, None);
        if !self.answers {
            return;
        }
        let Some((at, asked)) = self.open.front() else { return };
        let mut lines = choices(asked, self.desk.notes);
        if let Some(host) = self.routes[*at].host() {
            lines[0] = format!("{} on {host}", lines[0]);
        }
        lines.iter().for_each(|line| self.note(line));
        let more = match self.open.len() - 1 {
            0 => String::new(),
            more => format!(" · {more} more"),
        };
        let call = match asked.class {
            Class::Question => format!("a line, then Enter · s later · q quit{more}"),
            Class::Command | Class::FileChange | Class::Permission => {
                let keys: Vec<String> = keyed(&asked.options).into_iter().map(|(key, _)| key).collect();
                format!("{} · s later · v all of it · q quit{more}", keys.join(" · "))
            }
        };
        self.note(&format!("    {call}"));
        if asked.class == Class::Question {
            self.line = Some(Vec::new());
        }
        self.drawn = Some(Instant::now());
    }

    /// The exit code, if that was the end.
    fn key(&mut self, key: u8) -> Option<u8> {
        let drawn = self.drawn;
        // What was typed before the question was read is no answer to it.
        if drawn.is_none_or(|drawn| drawn.elapsed() < BLINK) {
            return (key == b'q' && drawn.is_none()).then_some(0);
        }
        if let Some(option) = self.sure.take() {
            match key {
                b'y' | b'a' => self.respond(Some(option.option_id), None),
                _ => self.note("◦ not for good then"),
            }
            return None;
        }
        if self.line.is_some() {
            return self.typed(key);
        }
        match key {
            b'q' => return Some(0),
            b's' => self.later(),
            b'v' => self.all(),
            _ => self.choose(key),
        }
        None
    }

    fn choose(&mut self, key: u8) {
        let Some((_, asked)) = self.open.front() else { return };
        let typed = char::from(key).to_string();
        match chosen(asked, &typed).cloned() {
            Some(option) if option.kind == OptionKind::AllowAlways => {
                self.note(&format!("! for good: {}? y", plain(&option.name)));
                self.sure = Some(option);
            }
            Some(option) => self.respond(Some(option.option_id), None),
            None => {}
        }
    }

    fn typed(&mut self, key: u8) -> Option<u8> {
        let Some(line) = &mut self.line else { return None };
        match key {
            b'\r' | b'\n' if !line.is_empty() => {
                let words = String::from_utf8_lossy(line).into_owned();
                self.respond(None, Some(Json::new(&words)));
            }
            b'\r' | b'\n' => {}
            0x7f | 0x08 => {
                line.pop();
            }
            b'q' if line.is_empty() => return Some(0),
            b's' if line.is_empty() => self.later(),
            key => line.push(key),
        }
        None
    }

    fn later(&mut self) {
        if let Some(first) = self.open.pop_front() {
            self.open.push_back(first);
        }
        self.draw();
    }

    fn all(&mut self) {
        let Some((_, asked)) = self.open.front() else { return };
        let lines = body(asked, self.desk.notes, usize::MAX);
        lines.iter().for_each(|line| self.note(line));
    }

    fn respond(&mut self, option_id: Option<String>, content: Option<Json>) {
        let Some((at, asked)) = self.open.front() else { return };
        let (at, session) = (*at, asked.session_id.clone());
        let respond = ApprovalRespond {
            approval_id: asked.approval_id.clone(),
            option_id,
            content,
            ..ApprovalRespond::default()
        };
        let link = self.desk.to.reach(&self.routes[at], SHORT);
        match link.and_then(|mut link| link.ask(&respond)) {
            Ok(responded) => {
                self.open.pop_front();
                let session = session.map(|id| self.routes[at].handle(&plain(&id)));
                self.note(&outcome(&responded, false, session.as_deref(), self.desk.notes.paint()));
            }
            Err(problem) => self.note(&crate::failure::explain(&problem, self.desk.notes.paint())),
        }
        self.draw();
    }

    fn note(&self, text: &str) {
        self.desk.notes.line(text);
    }
}

/// Whoever types something sees the question at least so long before.
const BLINK: Duration = Duration::from_millis(300);
