//! Questions of the agent at the terminal: one at a time, and never answered by what was typed before.

mod form;
mod known;
mod permission;
mod queue;

use std::fs::File;
use std::io::{self, BufRead, IsTerminal, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use agentline_core::acp::client::{PermissionAsked, Updated};
use agentline_core::acp::{PermissionOutcome, RequestKey};
use agentline_core::chat;
use agentline_core::subagent::{Command, QuestionAsked, Reply};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::termios::QueueSelector;
use signal_hook::consts::SIGCONT;

use crate::output::{Notes, Paint};
use crate::signals;
pub(crate) use form::Filling;
pub(crate) use known::Known;
pub(crate) use permission::Permission;
pub(crate) use queue::Questions;

/// Something that is asked, and what whoever asks calls it.
#[derive(Clone)]
pub(crate) struct Asked<K> {
    pub(crate) key: K,
    pub(crate) question: Question,
}

/// Something that a person is to decide.
#[derive(Clone)]
pub(crate) enum Question {
    Permission(Permission),
    Form(Filling),
}

/// What a question is answered with.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Answer {
    Permission(PermissionOutcome),
    Reply(Reply),
}

/// What came of what was typed.
#[derive(Debug, Eq, PartialEq)]
pub(crate) enum Entered {
    Answer(Answer),
    /// The next part of the question is to be shown.
    Next,
    /// All of what it is about is to be shown.
    ShowAll,
    /// It is no answer.
    Nothing,
}

impl Asked<RequestKey> {
    pub(crate) fn form(asked: QuestionAsked) -> Self {
        let QuestionAsked { request, message, wanted } = asked;
        Self { key: request, question: Question::Form(Filling::new(message, wanted)) }
    }
}

impl Question {
    /// Shortens it to what there is room for; what it weighs then, in bytes.
    fn shorten(&mut self, room: usize) -> usize {
        match self {
            Self::Permission(permission) => permission.shorten(room),
            // A conversation lets through no more forms than it keeps itself.
            Self::Form(_) => 0,
        }
    }

    /// What it is about: as much of it as leaves the choice on the screen.
    pub(crate) fn show(&self, notes: &Notes) {
        match self {
            Self::Permission(permission) => permission.show(notes),
            Self::Form(filling) => filling.show(notes),
        }
    }

    /// The same with nothing left out.
    pub(crate) fn show_all(&self, notes: &Notes) {
        match self {
            Self::Permission(permission) => {
                permission.all(notes.paint()).iter().for_each(|line| notes.line(line));
            }
            Self::Form(filling) => filling.show(notes),
        }
    }

    /// All of what it is about, one a line.
    pub(crate) fn all(&self, paint: Paint) -> Vec<String> {
        match self {
            Self::Permission(permission) => permission.all(paint),
            Self::Form(filling) => filling.all(paint),
        }
    }

    /// Asks, below all that is said meanwhile.
    pub(crate) fn put(&self, notes: &Notes) {
        let call = format!("    {} › ", self.call());
        notes.question(&self.choices(notes.paint()), &call);
    }

    /// The question and what can be chosen, one a line.
    pub(crate) fn choices(&self, paint: Paint) -> Vec<String> {
        match self {
            Self::Permission(permission) => permission.choices(paint),
            Self::Form(filling) => filling.choices(paint),
        }
    }

    /// What to do now: `y, a or n, then Enter`.
    pub(crate) fn call(&self) -> String {
        match self {
            Self::Permission(permission) => permission.call(),
            Self::Form(filling) => filling.call(),
        }
    }

    /// What to say to an answer that is none.
    pub(crate) fn nudge(&self) -> String {
        match self {
            Self::Permission(permission) => permission.nudge(),
            Self::Form(filling) => filling.nudge(),
        }
    }

    /// Something was typed.
    pub(crate) fn enter(&mut self, typed: &str) -> Entered {
        match self {
            Self::Permission(permission) => permission.enter(typed),
            Self::Form(filling) => filling.enter(typed),
        }
    }

    /// No.
    pub(crate) fn denial(&self) -> Answer {
        match self {
            Self::Permission(permission) => permission.denial(),
            Self::Form(filling) => filling.denial(),
        }
    }
}

impl Answer {
    /// As a chat is told it.
    pub(crate) fn of_chat(self, request: RequestKey) -> chat::Command {
        match self {
            Self::Permission(outcome) => chat::Command::Answer { request, outcome },
            Self::Reply(reply) => chat::Command::Reply { request, reply },
        }
    }

    /// As a run is told it.
    pub(crate) fn of_run(self, request: RequestKey) -> Command {
        match self {
            Self::Permission(outcome) => Command::Answer { request, outcome },
            Self::Reply(reply) => Command::Reply { request, reply },
        }
    }
}

/// Who answers the questions of a run.
pub(crate) trait Asks {
    /// Takes news that a question may be about.
    fn learn(&mut self, updated: &Updated);

    /// Asks for a permission, after all that was asked before.
    fn ask(&mut self, asked: PermissionAsked);

    /// Asks for a form or a page, after all that was asked before.
    fn ask_form(&mut self, asked: QuestionAsked);

    /// The question is decided, by whomever.
    fn decided(&mut self, request: RequestKey);
}

/// Asks whoever sits at the terminal. An input that has ended says no.
pub(crate) struct Asker {
    known: Known,
    queue: Arc<Queue>,
    wake: PipeWriter,
}

struct Queue {
    /// The first one is shown.
    open: Mutex<Questions<RequestKey>>,
    notes: Notes,
}

/// What came of reading a line.
enum Typed {
    Line(String),
    End,
    /// The question may be moot.
    Woken,
    /// We were stopped, and go on.
    Continued,
}

impl Asker {
    /// Reads from `input`; `answer` is called on a thread of its own.
    pub(crate) fn new(
        notes: Notes,
        input: OwnedFd,
        answer: impl Fn(RequestKey, Answer) + Send + 'static,
    ) -> io::Result<Self> {
        let (woken, wake) = io::pipe()?;
        // After a stop and `fg` the question is asked again: the shell has written over it.
        signal_hook::low_level::pipe::register(SIGCONT, wake.try_clone()?)?;
        let queue = Arc::new(Queue { open: Mutex::default(), notes });
        let reader = Reader { input: input.into(), woken };
        let of = Arc::clone(&queue);
        thread::Builder::new().name("agentline-ask".into()).spawn(move || of.serve(reader, answer))?;
        Ok(Self { known: Known::default(), queue, wake })
    }

    fn put(&mut self, asked: Asked<RequestKey>) {
        self.queue.lock().push(asked);
        self.wake();
    }

    fn wake(&mut self) {
        // The thread ends with us only.
        let _ = self.wake.write_all(b".");
    }
}

impl Asks for Asker {
    fn learn(&mut self, updated: &Updated) {
        self.known.hear(updated);
    }

    fn ask(&mut self, asked: PermissionAsked) {
        let asked = self.known.permission(asked);
        self.put(asked);
    }

    fn ask_form(&mut self, asked: QuestionAsked) {
        self.put(Asked::form(asked));
    }

    fn decided(&mut self, request: RequestKey) {
        self.queue.lock().remove(&request);
        self.wake();
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Questions<RequestKey>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self, mut reader: Reader, answer: impl Fn(RequestKey, Answer)) {
        loop {
            let first = self.lock().first().cloned();
            let Some(mut asked) = first else {
                if reader.wait_for_news().is_err() {
                    return;
                }
                continue;
            };
            reader.forget_what_was_typed();
            asked.question.show(&self.notes);
            asked.question.put(&self.notes);
            let given = self.answer(&mut asked, &mut reader);
            self.notes.still();
            // Decided meanwhile, if there is none.
            if let Some(given) = given {
                self.lock().remove(&asked.key);
                answer(asked.key, given);
            }
        }
    }

    fn answer(&self, asked: &mut Asked<RequestKey>, reader: &mut Reader) -> Option<Answer> {
        let Asked { key, question } = asked;
        let mut patience = PATIENCE;
        loop {
            match reader.line() {
                Typed::Line(text) => {
                    self.notes.entered(reader.input.is_terminal());
                    match question.enter(&text) {
                        Entered::Answer(answer) => return Some(answer),
                        Entered::Next => {}
                        Entered::ShowAll => question.show_all(&self.notes),
                        // Whatever it is, nobody reads what we say to it.
                        Entered::Nothing if patience == 0 => return Some(question.denial()),
                        Entered::Nothing => self.notes.line(&question.nudge()),
                    }
                    patience = patience.saturating_sub(1);
                    question.put(&self.notes);
                }
                Typed::End => return Some(question.denial()),
                Typed::Woken => {
                    if self.lock().first().is_none_or(|first| first.key != *key) {
                        return None;
                    }
                }
                Typed::Continued => {
                    // What is above is the shell's by now.
                    self.notes.entered(true);
                    question.put(&self.notes);
                }
            }
        }
    }
}

/// Lines of the terminal, or of whatever our stdin is.
struct Reader {
    input: File,
    woken: PipeReader,
}

impl Reader {
    /// The next line, or else the next wake.
    fn line(&mut self) -> Typed {
        let mut line = Vec::new();
        loop {
            match self.poll() {
                Ok(None) => {}
                Ok(Some(CONTINUED)) => return Typed::Continued,
                Ok(Some(_)) => return Typed::Woken,
                Err(_) => return Typed::End,
            }
            let mut byte = [0];
            match self.input.read(&mut byte) {
                Ok(0) | Err(_) => return Typed::End,
                Ok(_) if byte == [b'\n'] => return Typed::Line(String::from_utf8_lossy(&line).into_owned()),
                // Nobody types as much in answer to a question.
                Ok(_) if line.len() >= LONGEST => return Typed::End,
                Ok(_) => line.extend(byte),
            }
        }
    }

    fn wait_for_news(&mut self) -> io::Result<u8> {
        let mut news = [0];
        self.woken.read_exact(&mut news)?;
        Ok(news[0])
    }

    /// Waits; who woke us, if somebody did.
    fn poll(&mut self) -> io::Result<Option<u8>> {
        let mut both = [PollFd::new(&self.woken, PollFlags::IN), PollFd::new(&self.input, PollFlags::IN)];
        rustix::io::retry_on_intr(|| rustix::event::poll(&mut both, None))?;
        let woken = !both[0].revents().is_empty();
        woken.then(|| self.wait_for_news()).transpose()
    }

    fn forget_what_was_typed(&mut self) {
        if rustix::termios::tcflush(&self.input, QueueSelector::IFlush).is_ok() {
            return;
        }
        let is_ready = |input: &File| {
            let now = Timespec::default();
            let mut one = [PollFd::from_borrowed_fd(input.as_fd(), PollFlags::IN)];
            rustix::event::poll(&mut one, Some(&now)).is_ok_and(|ready| ready > 0)
        };
        let mut typed = [0; 1024];
        // An input without an end would be forgotten for ever.
        for _ in 0..FORGOTTEN / typed.len() {
            if !is_ready(&self.input) || !self.input.read(&mut typed).is_ok_and(|read| read > 0) {
                break;
            }
        }
    }
}

/// What the system writes to us when we go on after a stop: see [`signal_hook::low_level::pipe`].
const CONTINUED: u8 = b'X';
/// Bytes of an answer.
const LONGEST: usize = 4096;
/// Bytes that are forgotten before a question.
const FORGOTTEN: usize = 1 << 20;
/// Answers that are none, until that counts as a no.
const PATIENCE: u32 = 100;

/// What a person types to a question; nothing at the end of the input, and at Ctrl-C.
pub(crate) fn typed(lines: &[String], call: &str, notes: &Notes) -> Option<String> {
    let (tell, told) = mpsc::channel();
    signals::on_each(tell.clone(), |tell, _| {
        let _ = tell.send(None);
    })
    .ok()?;
    // What was typed before it can be seen was no answer.
    let _ = rustix::termios::tcflush(io::stdin(), QueueSelector::IFlush);
    notes.question(lines, call);
    // A signal does not end a read. Whoever is still in it when we leave ends with us.
    thread::spawn(move || {
        let mut line = String::new();
        let read = io::stdin().lock().read_line(&mut line);
        let _ = tell.send(read.is_ok_and(|read| read > 0).then(|| line.trim().to_lowercase()));
    });
    let typed = told.recv().ok().flatten();
    notes.entered(typed.is_some());
    typed
}
