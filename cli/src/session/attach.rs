//! `session attach`: a session in this terminal for a while, as tmux has it. It is typed into as into a chat.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::sync::mpsc::{Sender, channel};

use agentline_core::hub::api::{
    ApprovalBrief, Dispatched, Drop, Frame, Happening, Method, QueueView, Responded, SessionQueue,
    SessionSend, SessionStop, SessionWatch, Started,
};
use serde::de::DeserializeOwned;

use super::screen::Whose;
use super::watch::Show;
use super::{At, Desk, said};
use crate::approval::{asked, question, respond};
use crate::args::Format;
use crate::ask::{Answer, Asked};
use crate::chat::{Keyboard, Typed};
use crate::hub::{self, Again, Heard, Job, Said, Worker};
use crate::output::{In, Sink, is_clever, lines, plain};
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
    let (tell, told) = channel();
    let signal = |tell: &mut Sender<News>, ask| drop(tell.send(News::Signal(ask)));
    signals::on_each(tell.clone(), signal).map_err(|error| usage(error.to_string()))?;
    let watch =
        SessionWatch { session_id: id.clone(), tail: TAIL, attended: true, ..SessionWatch::default() };
    let hear = tell.clone();
    let hears = move |heard| hear.send(News::Heard(Box::new(heard))).is_ok();
    hub::follow((desk.to, &route), Some(link), watch, Again::of(1), hears);

    // Nothing is typed into a session that is not there: its present state comes first.
    let mut first = VecDeque::new();
    loop {
        let news = told.recv().unwrap_or(News::Signal(Ask::HangUp));
        match news {
            News::Heard(heard) => match *heard {
                Heard::Over(problem) => return Err(problem),
                heard @ (Heard::Said(_) | Heard::Lost(_)) => {
                    let is_synced = matches!(&heard, Heard::Said(Said::Frame(frame, _)) if is_synced(frame));
                    let is_over = matches!(&heard, Heard::Said(Said::End(_)));
                    first.push_back(News::Heard(Box::new(heard)));
                    if is_synced || is_over {
                        break;
                    }
                }
            },
            News::Signal(ask) => return Ok(ExitCode::from(ask.exit_code())),
            News::Typed(_) | News::Done(_) => {}
        }
    }

    let edits =
        is_clever() && io::stdin().is_terminal() && io::stdout().is_terminal() && io::stderr().is_terminal();
    let (keyboard, notes) = match edits.then(|| Keyboard::keys(desk.notes, None)) {
        Some(Ok(both)) => both,
        Some(Err(_)) | None => (Keyboard::lines(desk.notes), desk.notes.clone()),
    };
    // Whoever leaves says no to nothing.
    keyboard.desk.leave_open();
    let desk = Desk { to: desk.to, global: desk.global, notes: &notes };
    let types = tell.clone();
    keyboard
        .read(move |typed| drop(types.send(News::Typed(typed))))
        .map_err(|error| usage(error.to_string()))?;
    let done = |tell: &Sender<News>| {
        let tell = tell.clone();
        move |done| tell.send(News::Done(done)).is_ok()
    };
    let show = Show::new(&desk, Whose::Theirs, route.host().map(str::to_owned));
    let mut room = Room {
        // What is said keeps its order; whatever is to stop it does not wait behind it.
        says: Worker::new(desk.to, &route, done(&tell)),
        acts: Worker::new(desk.to, &route, done(&tell)),
        typing: keyboard.desk.clone(),
        desk: &desk,
        handle: route.handle(&id),
        id,
        show,
        asked: BTreeMap::new(),
        ours: Vec::new(),
        echoed: VecDeque::new(),
        runs: false,
        said: false,
        saying: VecDeque::new(),
        pressed: false,
    };
    loop {
        let news = match first.pop_front() {
            Some(news) => news,
            None => told.recv().unwrap_or(News::Signal(Ask::HangUp)),
        };
        if let Some(code) = room.hear(news)? {
            drop(room);
            // The terminal is given back when all is on it.
            drop(keyboard);
            return Ok(ExitCode::from(code));
        }
        // An error means that nobody sees it: then there is nobody to go on for.
        if room.show.flush(true).is_err() {
            return Ok(ExitCode::SUCCESS);
        }
    }
}

fn is_synced(frame: &Frame) -> bool {
    matches!(frame.what, Happening::Synced(_))
}

enum News {
    Typed(Typed<String>),
    Heard(Box<Heard>),
    Done(Done),
    Signal(Ask),
}

/// What came of something that was asked of the hub.
enum Done {
    Said(Box<Started>),
    Answered(Box<Responded>),
    TakenBack,
    Cancelling,
    Queue(QueueView),
    /// It was refused; the question that it was about.
    Refused(Option<String>, Problem),
}

/// A session and whoever sits before it.
struct Room<'a> {
    desk: &'a Desk<'a>,
    typing: std::sync::Arc<crate::chat::Desk<String>>,
    says: Worker<Done>,
    acts: Worker<Done>,
    id: String,
    /// The id, as it is typed here.
    handle: String,
    show: Show<'a>,
    /// Questions that are open.
    asked: BTreeMap<String, ApprovalBrief>,
    /// Prompts of ours that wait.
    ours: Vec<u64>,
    /// What was typed where the terminal itself has shown it.
    echoed: VecDeque<String>,
    runs: bool,
    /// Something was said, and nothing has come of it.
    said: bool,
    /// What the hub has not answered yet.
    saying: VecDeque<String>,
    /// Ctrl-C came, and nothing has ended since.
    pressed: bool,
}

impl Room<'_> {
    /// What follows from that. The exit code, if it was the end.
    fn hear(&mut self, news: News) -> Result<Option<u8>, Problem> {
        match news {
            News::Heard(heard) => return self.heard(*heard),
            News::Done(done) => self.done(done),
            News::Typed(typed) => return Ok(self.typed(typed)),
            News::Signal(Ask::Interrupt) => return Ok(self.interrupt()),
            News::Signal(ask) => return Ok(Some(self.left(ask.exit_code()))),
        }
        Ok(None)
    }

    fn heard(&mut self, heard: Heard) -> Result<Option<u8>, Problem> {
        match heard {
            Heard::Said(Said::Frame(frame, data)) => {
                if !self.is_echo(&frame.what) {
                    self.show.frame(&frame, &data);
                }
                self.keep(&frame);
            }
            Heard::Said(Said::Other(_)) => {}
            Heard::Said(Said::End(reason)) => {
                self.show.end();
                self.note(&format!("◦ over: {}", said::over(&reason)));
                return Ok(Some(if hub::is_loss(&reason) { 4 } else { 0 }));
            }
            Heard::Lost(problem) => {
                self.show.end();
                self.note(&format!("! {}; it is tried again", plain(&problem.message)));
            }
            Heard::Over(problem) => {
                self.show.end();
                return Err(problem);
            }
        }
        Ok(None)
    }

    /// Whether it is a prompt that stands on the screen already, where it was typed.
    fn is_echo(&mut self, what: &Happening) -> bool {
        if let Happening::UserMessage(message) = what
            && self.echoed.front().is_some_and(|typed| *typed == message.text)
        {
            self.echoed.pop_front();
            return true;
        }
        false
    }

    fn keep(&mut self, frame: &Frame) {
        let what = &frame.what;
        if let Happening::SessionBrief(brief) = what {
            let runs = brief.current_turn.is_some() || super::row::is_busy(brief);
            if runs {
                self.typing.begun(false);
            } else if self.runs || !self.said {
                self.typing.rest();
            }
            self.runs = runs;
        } else if let Some(asked) = asked(what) {
            self.ask(asked);
        } else if let Happening::Resolved(resolved) = what {
            self.asked.remove(&resolved.approval_id);
            self.typing.decided(&resolved.approval_id);
        } else if let Happening::QueuedAt(queued) = what {
            // It may be told before it is answered.
            if self.saying.contains(&queued.text) {
                self.queued(frame.turn);
            }
        } else if let Happening::UserMessage(_) = what {
            self.ours.retain(|turn| Some(*turn) != frame.turn);
        } else if let Happening::RunComplete(_) = what {
            (self.pressed, self.said) = (false, false);
            self.typing.rest();
        }
    }

    fn ask(&mut self, asked: ApprovalBrief) {
        let id = asked.approval_id.clone();
        if self.asked.contains_key(&id) {
            return;
        }
        let question = question(&asked, &id);
        self.asked.insert(id.clone(), asked);
        // An error comes again with what is shown next.
        let _ = self.show.flush(true);
        // Nobody types any more: it stays open for others.
        let _ = self.typing.ask(Asked { key: id, question });
    }

    fn typed(&mut self, typed: Typed<String>) -> Option<u8> {
        match typed {
            Typed::Line(line) => return self.line(&line),
            Typed::Answer(id, answer) => self.answer(&id, answer),
            Typed::Interrupt => return self.interrupt(),
            Typed::End | Typed::TooLong => return Some(self.left(0)),
            Typed::HangUp => return Some(self.left(Ask::HangUp.exit_code())),
            Typed::Suspend => {}
        }
        None
    }

    fn line(&mut self, line: &str) -> Option<u8> {
        match line.trim() {
            "/quit" | "/q" | "/exit" => return Some(self.left(0)),
            "/cancel" => self.cancel(),
            "/queue" => self.queue(),
            "/help" => self.note("◦ a line is a prompt · /cancel · /queue · /quit, or Ctrl-D"),
            command if command.starts_with('/') && self.is_command(command) => {}
            _ => self.say(line),
        }
        None
    }

    /// A slash begins commands of agents as well: only what looks like one of ours is kept back.
    fn is_command(&self, line: &str) -> bool {
        let near = crate::nearest::of(line, ["/quit", "/cancel", "/queue", "/help"]);
        if let Some(near) = near {
            self.note(&format!("! {line} is no command; {near} is"));
        }
        near.is_some()
    }

    fn answer(&mut self, id: &str, answer: Answer) {
        let Some(respond) = self.asked.get(id).and_then(|asked| respond(asked, answer)) else { return };
        self.show.screen.answers(id);
        self.acts.send(job(respond, Some(id.to_owned()), |it| Done::Answered(Box::new(it))));
    }

    fn say(&mut self, text: &str) {
        if self.desk.notes.page().is_none() && io::stdin().is_terminal() {
            self.echoed.push_back(text.to_owned());
        }
        // A pipe gives its next line when this one is answered.
        self.said = true;
        self.saying.push_back(text.to_owned());
        self.typing.begun(false);
        let (session_id, content) = (self.id.clone(), text.to_owned());
        let send = SessionSend { session_id, content, ..SessionSend::default() };
        self.says.send(job(send, None, |started| Done::Said(Box::new(started))));
    }

    fn interrupt(&mut self) -> Option<u8> {
        if self.runs && !self.pressed {
            self.cancel();
            return None;
        }
        // As in a shell.
        if !self.runs && self.typing.clear() {
            return None;
        }
        Some(self.left(0))
    }

    /// Takes back what of ours waits, else cancels what runs.
    fn cancel(&mut self) {
        self.pressed = true;
        let session_id = self.id.clone();
        if let Some(turn) = self.ours.pop() {
            let queue = SessionQueue { session_id, drop: Some(Drop::Turn(turn)), release: false };
            return self.acts.send(job(queue, None, |_| Done::TakenBack));
        }
        self.acts.send(job(SessionStop::of(session_id), None, |_| Done::Cancelling));
    }

    fn queue(&mut self) {
        let queue = SessionQueue { session_id: self.id.clone(), drop: None, release: false };
        self.acts.send(job(queue, None, Done::Queue));
    }

    fn done(&mut self, done: Done) {
        match done {
            Done::Said(started) => {
                self.saying.pop_front();
                if started.dispatch == Dispatched::Queued {
                    self.queued(started.turn);
                }
            }
            Done::Answered(responded) => {
                self.note(&format!(
                    "  {}",
                    lines::chosen(responded.kind.as_deref(), self.desk.notes.paint())
                ));
            }
            Done::TakenBack => self.note("◦ taken back; Ctrl-C again leaves"),
            Done::Cancelling => self.note("◦ cancelling; Ctrl-C again leaves"),
            Done::Queue(view) => self.show_queue(&view),
            Done::Refused(question, problem) => {
                self.note(&crate::failure::explain(&problem, self.desk.notes.paint()));
                let Some(id) = question else {
                    self.said = false;
                    self.saying.pop_front();
                    return self.typing.rest();
                };
                self.show.screen.answers_not(&id);
                // If it is open still, it is asked again.
                let asked = self.asked.remove(&id);
                asked.into_iter().for_each(|asked| self.ask(asked));
            }
        }
    }

    fn queued(&mut self, turn: Option<u64>) {
        let turn = turn.filter(|turn| !self.ours.contains(turn));
        self.ours.extend(turn);
    }

    fn show_queue(&self, view: &QueueView) {
        if view.queued.is_empty() {
            self.note("◦ nothing waits");
        }
        for waiting in &view.queued {
            let first = plain(waiting.text.lines().next().unwrap_or_default());
            self.note(&format!("  {} {first}", waiting.turn));
        }
    }

    fn note(&self, text: &str) {
        self.desk.notes.line(text);
    }

    fn left(&mut self, code: u8) -> u8 {
        self.show.end();
        if code != 0 {
            Sink::ours().hurry();
        }
        let dim = self.desk.notes.paint().dim;
        let left = format!("{} left; it goes on: agentline session attach {}", In(dim, "◦"), self.handle);
        self.desk.notes.last_line(&left);
        code
    }
}

/// Something to be asked of the hub, about that question if it is about one.
fn job<M>(method: M, of: Option<String>, done: impl FnOnce(M::Result) -> Done + Send + 'static) -> Job<Done>
where
    M: Method + Send + 'static,
    M::Result: DeserializeOwned,
{
    Box::new(move |link| match link.and_then(|link| link.ask(&method)) {
        Ok(result) => done(result),
        Err(problem) => Done::Refused(of, problem),
    })
}

/// Messages of before that are shown first.
const TAIL: usize = 20;
