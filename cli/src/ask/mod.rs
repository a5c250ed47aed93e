//! Permission questions at the terminal: one at a time, and never answered by what was typed before.

mod question;

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use agentline_core::acp::client::PermissionAsked;
use agentline_core::acp::{PermissionOutcome, RequestKey, Update};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::termios::QueueSelector;

use crate::output::{Notes, Tools};
pub(crate) use question::Question;

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
    /// The question is moot.
    Woken,
}

impl Asker {
    /// Reads from `input`; `answer` is called on a thread of its own.
    pub(crate) fn new(
        notes: Notes,
        input: OwnedFd,
        answer: impl Fn(RequestKey, PermissionOutcome) + Send + 'static,
    ) -> io::Result<Self> {
        let (woken, wake) = io::pipe()?;
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
        loop {
            match reader.line() {
                Typed::Line(text) => match question.choice(&text) {
                    Some(option) => return Some(PermissionOutcome::selected(&*option.option_id)),
                    None => self.notes.question(&question.prompt(&self.notes)),
                },
                Typed::End => return Some(question.denial()),
                Typed::Woken => {
                    if self.lock().front().is_none_or(|first| first.request != question.request) {
                        return None;
                    }
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
                Ok(true) => return Typed::Woken,
                Ok(false) => {}
                Err(_) => return Typed::End,
            }
            let mut byte = [0];
            match self.input.read(&mut byte) {
                Ok(0) | Err(_) => return Typed::End,
                Ok(_) if byte == [b'\n'] => return Typed::Line(String::from_utf8_lossy(&line).into_owned()),
                Ok(_) => line.extend(byte),
            }
        }
    }

    fn wait_for_news(&mut self) -> io::Result<()> {
        self.woken.read_exact(&mut [0])
    }

    /// Waits; whether somebody woke us.
    fn poll(&mut self) -> io::Result<bool> {
        let mut both = [PollFd::new(&self.woken, PollFlags::IN), PollFd::new(&self.input, PollFlags::IN)];
        rustix::io::retry_on_intr(|| rustix::event::poll(&mut both, None))?;
        let woken = !both[0].revents().is_empty();
        if woken {
            self.wait_for_news()?;
        }
        Ok(woken)
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
        while is_ready(&self.input) && self.input.read(&mut typed).is_ok_and(|read| read > 0) {}
    }
}
