//! `session attach`: a session in this terminal for a while, as tmux has it.

use std::collections::VecDeque;
use std::io::{self, BufRead};
use std::process::ExitCode;
use std::sync::mpsc::{Sender, channel};
use std::thread;

use agentline_core::acp::PermissionOption;
use agentline_core::hub::api::{
    ApprovalBrief, ApprovalRespond, Class, Dispatched, Drop, Frame, Happening, Method, SessionQueue,
    SessionSend, SessionStop, SessionWatch,
};
use serde::de::DeserializeOwned;

use super::watch::Show;
use super::{At, Desk, SHORT};
use crate::approval::{body, choices, chosen};
use crate::args::Format;
use crate::ask::{keyed, meant};
use crate::hub::{Link, Route, Said};
use crate::output::{In, plain};
use crate::prompt::usage;
use crate::signals::{self, Ask};
use crate::words::Problem;

/// Joins the session that is named, or the newest of this folder.
pub(super) fn run(desk: &Desk<'_>, id: Option<&str>) -> Result<ExitCode, Problem> {
    if desk.global.format() == Format::Json {
        return Err(usage("attach is for people").hint("agentline session watch --json"));
    }
    join(desk, desk.at(id, None, true)?)
}

/// Joins a session.
pub(super) fn join(desk: &Desk<'_>, at: At) -> Result<ExitCode, Problem> {
    let At { link, id } = at;
    let route = link.route.clone();
    drop(link);
    let watch =
        SessionWatch { session_id: id.clone(), tail: TAIL, attended: true, ..SessionWatch::default() };
    let mut stream = desk.to.reach(&route, None)?.stream(&watch)?;
    let (tell, told) = channel();
    signals::on_each(tell.clone(), |tell: &mut Sender<News>, ask| {
        let _ = tell.send(News::Signal(ask));
    })
    .map_err(|error| usage(error.to_string()))?;
    let typed = tell.clone();
    thread::spawn(move || {
        for line in io::stdin().lock().lines() {
            let Ok(line) = line else { break };
            if typed.send(News::Line(line)).is_err() {
                return;
            }
        }
        let _ = typed.send(News::Left);
    });
    thread::spawn(move || {
        loop {
            let said = stream.next();
            let is_last = matches!(said, Ok(Said::End(_)) | Err(_));
            if tell.send(News::Said(Box::new(said))).is_err() || is_last {
                return;
            }
        }
    });
    let show = Show::new(desk, false, route.host().map(str::to_owned));
    let mut room =
        Room { desk, route, id, show, asked: VecDeque::new(), ours: Vec::new(), runs: false, pressed: false };
    loop {
        let news = told.recv().unwrap_or(News::Left);
        if let Some(code) = room.hear(news)? {
            return Ok(ExitCode::from(code));
        }
        // An error means that nobody sees it: then there is nobody to go on for.
        if room.show.flush(true).is_err() {
            return Ok(ExitCode::SUCCESS);
        }
    }
}

enum News {
    Line(String),
    Said(Box<Result<Said, Problem>>),
    Signal(Ask),
    /// There is nothing more to read.
    Left,
}

/// A session and whoever sits before it.
struct Room<'a> {
    desk: &'a Desk<'a>,
    route: Route,
    id: String,
    show: Show<'a>,
    /// Questions that are open, oldest first.
    asked: VecDeque<ApprovalBrief>,
    /// Prompts of ours that wait.
    ours: Vec<u64>,
    runs: bool,
    /// Ctrl-C came, and nothing has ended since.
    pressed: bool,
}

impl Room<'_> {
    /// What follows from that. The exit code, if it was the end.
    fn hear(&mut self, news: News) -> Result<Option<u8>, Problem> {
        match news {
            News::Said(said) => match *said {
                Ok(Said::Frame(frame, data)) => {
                    self.show.frame(&frame, &data);
                    self.keep(&frame);
                }
                Ok(Said::Other(_)) => {}
                Ok(Said::End(reason)) => {
                    self.show.end();
                    self.note(&format!("◦ the session is over: {}", plain(&reason)));
                    return Ok(Some(if reason == "hub_stopping" { 4 } else { 0 }));
                }
                Err(problem) => {
                    self.show.end();
                    return Err(problem);
                }
            },
            News::Line(line) => return self.line(line.trim()),
            News::Signal(Ask::Interrupt) if self.runs && !self.pressed => self.cancel(),
            News::Signal(Ask::Interrupt) => return Ok(Some(self.left(0))),
            News::Signal(Ask::Terminate) => return Ok(Some(self.left(143))),
            News::Signal(Ask::HangUp) => return Ok(Some(self.left(129))),
            News::Left => return Ok(Some(self.left(0))),
        }
        Ok(None)
    }

    fn keep(&mut self, frame: &Frame) {
        let what = &frame.what;
        if let Happening::SessionBrief(brief) = what {
            self.runs = brief.current_turn.is_some() || super::row::is_busy(brief);
        } else if let Happening::ToolCallPending(pending) = what {
            self.ask(pending.approval.clone());
        } else if let Happening::AskForm(ask) = what {
            self.ask(ask.approval.clone());
        } else if let Happening::Resolved(resolved) = what {
            self.asked.retain(|asked| asked.approval_id != resolved.approval_id);
        } else if let Happening::UserMessage(_) = what {
            self.ours.retain(|turn| Some(*turn) != frame.turn);
        } else if let Happening::RunComplete(_) = what {
            self.pressed = false;
            self.asked.clear();
        }
    }

    fn ask(&mut self, approval: ApprovalBrief) {
        if self.asked.iter().all(|asked| asked.approval_id != approval.approval_id) {
            for line in choices(&approval, self.desk.notes) {
                self.desk.notes.line(&line);
            }
            self.asked.push_back(approval);
        }
    }

    fn line(&mut self, line: &str) -> Result<Option<u8>, Problem> {
        match line {
            "" => {}
            "/quit" | "/q" => return Ok(Some(self.left(0))),
            "/cancel" => self.cancel(),
            "/queue" => self.queue(),
            "/help" => self.note("◦ a line is a prompt · /cancel · /queue · /quit, or Ctrl-D"),
            _ if line.starts_with('/') && self.is_command(line) => {}
            _ => match self.answer(line) {
                true => {}
                false => self.say(line),
            },
        }
        Ok(None)
    }

    /// A slash begins commands of agents as well: only what looks like one of ours is kept back.
    fn is_command(&self, line: &str) -> bool {
        let near = crate::nearest::of(line, ["/quit", "/cancel", "/queue", "/help"]);
        if let Some(near) = near {
            self.note(&format!("! {line} is no command; {near} is"));
        }
        near.is_some()
    }

    /// Whether a permission is asked: then nothing that is typed is ever a prompt.
    fn answer(&mut self, line: &str) -> bool {
        let Some(asked) = self.asked.front().filter(|asked| asked.class != Class::Question) else {
            return false;
        };
        let Some(PermissionOption { option_id, .. }) = chosen(asked, line) else {
            if meant(line) == "v" {
                body(asked, self.desk.notes, usize::MAX).iter().for_each(|line| self.desk.notes.line(line));
            } else {
                let keys: Vec<String> = keyed(&asked.options).into_iter().map(|(key, _)| key).collect();
                self.note(&format!("! not an answer: type {}; /cancel, or Ctrl-D leaves", keys.join(", ")));
            }
            return true;
        };
        let (approval_id, option_id) = (asked.approval_id.clone(), Some(option_id.clone()));
        let respond = ApprovalRespond { approval_id, option_id, ..ApprovalRespond::default() };
        self.tell(&respond);
        true
    }

    fn say(&mut self, text: &str) {
        let send =
            SessionSend { session_id: self.id.clone(), content: text.to_owned(), ..SessionSend::default() };
        let Some(started) = self.tell(&send) else { return };
        if started.dispatch == Dispatched::Queued {
            self.ours.extend(started.turn);
        }
    }

    /// Takes back what of ours waits, else cancels what runs.
    fn cancel(&mut self) {
        self.pressed = true;
        if let Some(turn) = self.ours.pop() {
            let drop = Some(Drop::Turn(turn));
            if self.tell(&SessionQueue { session_id: self.id.clone(), drop, release: false }).is_some() {
                self.note("◦ taken back; Ctrl-C again leaves");
            }
            return;
        }
        if self.tell(&SessionStop::of(&*self.id)).is_some() {
            self.note("◦ cancelling; Ctrl-C again leaves");
        }
    }

    fn queue(&mut self) {
        let Some(view) = self.tell(&SessionQueue { session_id: self.id.clone(), drop: None, release: false })
        else {
            return;
        };
        if view.queued.is_empty() {
            self.note("◦ nothing waits");
        }
        for waiting in &view.queued {
            self.note(&format!(
                "  {} {}",
                waiting.turn,
                plain(waiting.text.lines().next().unwrap_or_default())
            ));
        }
    }

    /// Asks the hub, on a connection of its own; what it refuses is said.
    fn tell<M: Method>(&self, method: &M) -> Option<M::Result>
    where
        M::Result: DeserializeOwned,
    {
        let link: Result<Link, Problem> = self.desk.to.reach(&self.route, SHORT);
        match link.and_then(|mut link| link.ask(method)) {
            Ok(result) => Some(result),
            Err(problem) => {
                self.note(&crate::failure::explain(&problem, self.desk.notes.paint()));
                None
            }
        }
    }

    fn note(&self, text: &str) {
        self.desk.notes.line(text);
    }

    fn left(&mut self, code: u8) -> u8 {
        self.show.end();
        let id = self.route.handle(&self.id);
        let dim = self.desk.notes.paint().dim;
        self.desk
            .notes
            .last_line(&format!("{} left; it goes on: agentline session attach {id}", In(dim, "◦")));
        code
    }
}

/// Messages of before that are shown first.
const TAIL: usize = 20;
