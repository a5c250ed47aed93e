//! Permission questions at the terminal: one at a time, and never answered by what was typed before.

mod question;

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, IsTerminal, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use agentline_core::acp::client::PermissionAsked;
use agentline_core::acp::{PermissionOutcome, RequestKey, Update};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::termios::QueueSelector;
use signal_hook::consts::SIGCONT;

use crate::output::{Notes, Tools};
pub(crate) use question::{Choice, Question};

/// Asks whoever sits at the terminal. An input that has ended says no.
pub(crate) struct Asker {
    /// What the agent said of its calls so far.
    known: Tools,
    queue: Arc<Queue>,
    wake: PipeWriter,
}

struct Queue {
    /// The first one is shown.
    open: Mutex<VecDeque<Question>>,
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
        answer: impl Fn(RequestKey, PermissionOutcome) + Send + 'static,
    ) -> io::Result<Self> {
        let (woken, wake) = io::pipe()?;
        // After a stop and `fg` the question is asked again: the shell has written over it.
        signal_hook::low_level::pipe::register(SIGCONT, wake.try_clone()?)?;
        let queue = Arc::new(Queue { open: Mutex::default(), notes });
        let reader = Reader { input: input.into(), woken };
        let of = Arc::clone(&queue);
        thread::Builder::new().name("agentline-ask".into()).spawn(move || of.serve(reader, answer))?;
        Ok(Self { known: Tools::default(), queue, wake })
    }

    /// Takes news about a call: a question about it may hold no more than its id.
    pub(crate) fn learn(&mut self, update: &Update) {
        self.known.hear(update);
    }

    /// Asks, after all that was asked before.
    pub(crate) fn ask(&mut self, asked: PermissionAsked) {
        self.queue.lock().push_back(Question::new(asked, &self.known));
        self.wake();
    }

    /// The question is decided, by whomever.
    pub(crate) fn decided(&mut self, request: RequestKey) {
        self.queue.lock().retain(|question| question.request != request);
        self.wake();
    }

    fn wake(&mut self) {
        // The thread ends with us only.
        let _ = self.wake.write_all(b".");
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Question>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self, mut reader: Reader, answer: impl Fn(RequestKey, PermissionOutcome)) {
        loop {
            let first = self.lock().front().cloned();
            let Some(question) = first else {
                if reader.wait_for_news().is_err() {
                    return;
                }
                continue;
            };
            reader.forget_what_was_typed();
            question.show(&self.notes);
            question.put(&self.notes);
            let outcome = self.outcome(&question, &mut reader);
            self.notes.still();
            // Decided meanwhile, if there is none.
            if let Some(outcome) = outcome {
                self.lock().retain(|open| open.request != question.request);
                answer(question.request, outcome);
            }
        }
    }

    fn outcome(&self, question: &Question, reader: &mut Reader) -> Option<PermissionOutcome> {
        let mut patience = PATIENCE;
        loop {
            match reader.line() {
                Typed::Line(text) => {
                    self.notes.entered(reader.input.is_terminal());
                    match question.choice(&text) {
                        Some(Choice::Answer(outcome)) => return Some(outcome),
                        Some(Choice::ShowAll) => question.show_all(&self.notes),
                        // Whatever it is, nobody reads what we say to it.
                        None if patience == 0 => return Some(question.denial()),
                        None => self.notes.line(&question.nudge()),
                    }
                    patience -= 1;
                    question.put(&self.notes);
                }
                Typed::End => return Some(question.denial()),
                Typed::Woken => {
                    if self.lock().front().is_none_or(|first| first.request != question.request) {
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
