//! `approval list --watch`: one question at a time, and one key for its answer.

use std::collections::VecDeque;
use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use agentline_core::acp::{OptionKind, PermissionOption, PermissionOutcome};
use agentline_core::hub::api::{ApprovalBrief, ApprovalsWatch, Happening, Resolved};
use agentline_core::rpc::Json;

use super::answer::outcome;
use super::keys::{Keys, Pressed};
use super::question::{heading, question, respond};
use super::{Desk, SHORT};
use crate::args::Format;
use crate::ask::{Answer, Entered, Question};
use crate::hub::{self, Again, Heard, Route, Said, is_loss};
use crate::output::{Out, lines, plain, unwritten};
use crate::session::{frame_line, over};
use crate::signals::{self, Ask};
use crate::words::Problem;

pub(super) fn run(desk: &Desk<'_>) -> Result<ExitCode, Problem> {
    let answers =
        io::stdin().is_terminal() && io::stderr().is_terminal() && desk.global.format() == Format::Text;
    let routes = desk.to.routes()?;
    let (tell, told) = channel();
    let internal = |error: io::Error| crate::prompt::usage(error.to_string());
    let signal = |tell: &mut Sender<News>, ask| drop(tell.send(News::Signal(ask)));
    signals::on_each(tell.clone(), signal).map_err(internal)?;
    for (at, route) in routes.iter().enumerate() {
        let hear = tell.clone();
        let hears = move |heard| hear.send(News::Heard(at, Box::new(heard))).is_ok();
        let watch = ApprovalsWatch { attended: answers };
        hub::follow((desk.to, route), None, watch, Again::of(routes.len()), hears);
    }
    let keys = answers.then(|| Keys::take(move |pressed| tell.send(News::Key(pressed)).is_ok()));
    let mut board = Board {
        desk,
        routes: &routes,
        open: VecDeque::new(),
        drawn: None,
        keys: keys.transpose().map_err(internal)?,
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
    Heard(usize, Box<Heard>),
    Key(Pressed),
    Signal(Ask),
}

/// A question, at the hub of that number.
struct Open {
    at: usize,
    asked: ApprovalBrief,
    question: Question,
}

/// The questions that are open, and the one on the screen.
struct Board<'a> {
    desk: &'a Desk<'a>,
    routes: &'a [Route],
    open: VecDeque<Open>,
    /// Since when the first one is on the screen.
    drawn: Option<Instant>,
    /// Where answers are typed, if they are.
    keys: Option<Keys>,
    /// An answer for good is asked for twice.
    sure: Option<PermissionOption>,
    out: Out,
    first: bool,
}

impl Board<'_> {
    fn hear(&mut self, news: News) -> Result<Option<u8>, Problem> {
        match news {
            News::Heard(at, heard) => self.heard(at, *heard),
            News::Key(pressed) => Ok(self.pressed(pressed)),
            News::Signal(ask) => Ok(Some(self.left(ask.exit_code()))),
        }
    }

    fn heard(&mut self, at: usize, heard: Heard) -> Result<Option<u8>, Problem> {
        match heard {
            Heard::Said(Said::Frame(_, data) | Said::Other(data))
                if self.desk.global.format() == Format::Json =>
            {
                self.json(at, &data);
            }
            Heard::Said(Said::Frame(frame, _)) => {
                if let Happening::ApprovalBrief(asked) = frame.what {
                    self.asked(at, *asked);
                } else if let Happening::Resolved(resolved) = frame.what {
                    self.resolved(at, &resolved);
                } else if let Happening::Synced(_) = frame.what
                    && self.open.is_empty()
                {
                    self.draw();
                }
            }
            Heard::Said(Said::Other(_)) => {}
            Heard::Said(Said::End(reason)) if self.routes.len() == 1 => {
                self.note(&format!("◦ over: {}", over(&reason)));
                return Ok(Some(self.left(if is_loss(&reason) { 4 } else { 0 })));
            }
            Heard::Said(Said::End(reason)) => {
                self.gone(at, &format!("! {}: {}", self.routes[at].name(), over(&reason)));
            }
            Heard::Lost(problem) => {
                self.gone(at, &format!("! {}; it is tried again", plain(&problem.message)));
            }
            Heard::Over(problem) if self.routes.len() == 1 => {
                self.left(0);
                return Err(problem);
            }
            Heard::Over(problem) => self.gone(at, &format!("! {}", plain(&problem.message))),
        }
        Ok(None)
    }

    fn json(&mut self, at: usize, data: &Json) {
        let line = frame_line(data, self.routes[at].host(), std::mem::take(&mut self.first));
        self.out.write(&line);
    }

    /// Nobody can answer the questions of a hub that is lost. If it comes back, they do.
    fn gone(&mut self, at: usize, why: &str) {
        let shown = self.open.front().is_some_and(|first| first.at == at);
        self.open.retain(|open| open.at != at);
        self.note(why);
        if shown {
            self.draw();
        }
    }

    fn asked(&mut self, at: usize, asked: ApprovalBrief) {
        if self.open.iter().any(|open| open.at == at && open.asked.approval_id == asked.approval_id) {
            return;
        }
        let id = self.routes[at].handle(&plain(&asked.approval_id));
        if self.keys.is_none() {
            self.note(&format!("? {}  agentline approve {id}", heading(&asked)));
        } else {
            // For who looks elsewhere.
            self.desk.notes.bell();
        }
        let question = question(&asked, &id);
        self.open.push_back(Open { at, asked, question });
        if self.open.len() == 1 {
            self.draw();
        }
    }

    fn resolved(&mut self, at: usize, resolved: &Resolved) {
        let is_it = |open: &Open| open.at == at && open.asked.approval_id == resolved.approval_id;
        let Some(place) = self.open.iter().position(is_it) else { return };
        let Some(Open { asked, .. }) = self.open.remove(place) else { return };
        let chosen = resolved.option_id.as_ref();
        let option = chosen.and_then(|id| asked.options.iter().find(|option| option.option_id == *id));
        let how = match option {
            Some(option) => lines::chosen(Some(option.kind.as_str()), self.desk.notes.paint()),
            None => crate::session::by(resolved.by).to_owned(),
        };
        let id = self.routes[at].handle(&plain(&asked.approval_id));
        if place == 0 {
            self.desk.notes.still();
        }
        self.note(&format!("◦ {id} is over: {how}"));
        if place == 0 {
            self.draw();
        }
    }

    /// Shows the first question.
    fn draw(&mut self) {
        (self.drawn, self.sure) = (None, None);
        let Some(keys) = &mut self.keys else { return };
        self.desk.notes.still();
        let Some(first) = self.open.front() else {
            keys.single();
            return self.note("◦ nothing waits; q quits");
        };
        match &first.question {
            Question::Permission(_) => keys.single(),
            Question::Form(_) => keys.lines(),
        }
        first.question.show(self.desk.notes);
        self.put();
        self.drawn = Some(Instant::now());
    }

    /// The question, and what can be typed, below everything else.
    fn put(&self) {
        let Some(first) = self.open.front() else { return };
        let notes = self.desk.notes;
        if let Some(option) = &self.sure {
            let name = plain(&option.name).into_owned();
            return notes.question(&[format!("  ! for good: {name}")], "    y, or any other key for no › ");
        }
        let more = match self.open.len() - 1 {
            0 => String::new(),
            more => format!(" · {more} more"),
        };
        let call = match &first.question {
            Question::Permission(permission) => {
                let keys: Vec<String> = permission.keys().into_iter().map(|(key, _)| key).collect();
                format!("{} · s later · v all of it · q quit", keys.join(" · "))
            }
            Question::Form(filling) => format!("{} · /later · /quit", filling.call()),
        };
        notes.question(&first.question.choices(notes.paint()), &format!("    {call}{more} › "));
    }

    /// The exit code, if that was the end.
    fn pressed(&mut self, pressed: Pressed) -> Option<u8> {
        match pressed {
            Pressed::Continued => {
                // What is above is the shell's by now.
                self.keys.as_mut().into_iter().for_each(Keys::again);
                self.desk.notes.entered(true);
                self.put();
                None
            }
            Pressed::Suspended => {
                self.desk.notes.entered(false);
                self.keys.as_mut().into_iter().for_each(Keys::suspend);
                None
            }
            Pressed::End => Some(self.left(0)),
            Pressed::Key(key) => self.key(key),
            Pressed::Line(line) => self.line(line.trim()),
        }
    }

    /// What was typed before the question was read is no answer to it.
    fn is_read(&self) -> bool {
        self.drawn.is_some_and(|drawn| drawn.elapsed() >= BLINK)
    }

    fn key(&mut self, key: char) -> Option<u8> {
        if self.open.is_empty() {
            return (key == 'q').then(|| self.left(0));
        }
        if !self.is_read() {
            return None;
        }
        self.desk.notes.entered(false);
        if let Some(option) = self.sure.take() {
            match key {
                'y' | 'a' => {
                    self.respond(Answer::Permission(PermissionOutcome::selected(&*option.option_id)))
                }
                _ => self.put(),
            }
            return None;
        }
        match key {
            'q' => return Some(self.left(0)),
            's' => self.later(),
            _ => self.enter(&key.to_string()),
        }
        None
    }

    fn line(&mut self, line: &str) -> Option<u8> {
        self.desk.notes.entered(true);
        match line {
            "/quit" => return Some(self.left(0)),
            "/later" => self.later(),
            _ if self.is_read() => self.enter(line),
            _ => self.put(),
        }
        None
    }

    fn enter(&mut self, typed: &str) {
        let Some(first) = self.open.front_mut() else { return };
        match first.question.enter(typed) {
            Entered::Answer(answer) => {
                self.sure = for_good(&first.asked, &answer);
                match self.sure {
                    Some(_) => self.put(),
                    None => self.respond(answer),
                }
            }
            Entered::ShowAll => {
                first.question.show_all(self.desk.notes);
                self.put();
            }
            Entered::Next => self.put(),
            Entered::Nothing => {
                let nudge = first.question.nudge();
                if self.keys.as_ref().is_some_and(|keys| !keys.is_single()) {
                    self.note(&nudge);
                }
                self.put();
            }
        }
    }

    fn later(&mut self) {
        if let Some(first) = self.open.pop_front() {
            self.open.push_back(first);
        }
        self.draw();
    }

    fn respond(&mut self, answer: Answer) {
        let Some(Open { at, asked, .. }) = self.open.front() else { return };
        let Some(respond) = respond(asked, answer) else { return };
        let route = &self.routes[*at];
        let link = self.desk.to.reach(route, SHORT);
        match link.and_then(|mut link| link.ask(&respond)) {
            Ok(responded) => {
                let session = asked.session_id.as_ref().map(|id| route.handle(&plain(id)));
                let (title, paint) = (heading(asked), self.desk.notes.paint());
                self.open.pop_front();
                self.note(&outcome(&responded, &title, false, session.as_deref(), paint));
            }
            Err(problem) => self.note(&crate::failure::explain(&problem, self.desk.notes.paint())),
        }
        self.draw();
    }

    /// The screen is the shell's again.
    fn left(&mut self, code: u8) -> u8 {
        self.desk.notes.entered(false);
        self.desk.notes.still();
        code
    }

    fn note(&self, text: &str) {
        self.desk.notes.line(text);
    }
}

/// The option that was chosen, if it is one for good.
fn for_good(asked: &ApprovalBrief, answer: &Answer) -> Option<PermissionOption> {
    let Answer::Permission(PermissionOutcome::Selected { option_id }) = answer else { return None };
    let chosen = asked.options.iter().find(|option| option.option_id == *option_id)?;
    (chosen.kind == OptionKind::AllowAlways).then(|| chosen.clone())
}

/// Whoever types something sees the question at least so long before.
const BLINK: Duration = Duration::from_millis(300);
