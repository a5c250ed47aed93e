//! `agentline chat`: talk to an agent, line by line, and let others speak into it.

pub(crate) mod host;
mod keyboard;

use std::io::{self, BufRead, IsTerminal};
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread;
use std::time::{Duration, Instant};

use agentline_blocking::{Driver, Handle};
use agentline_core::Refused;
use agentline_core::acp::client::Timeouts;
use agentline_core::acp::session::SessionSetup;
use agentline_core::attach::server::Why;
use agentline_core::chat::{Chat, Command, Config, Event, Limits};
use agentline_core::problem::{Kind, Phase, Problem};
use agentline_core::subagent::{self, Finished, Policy};

use crate::args::{Child, Format, Global};
use crate::attach::Peers;
use crate::failure::{Advice, Whose, explain};
use crate::guard;
use crate::output::{Json, Notes, Screen, Start, Text};
use crate::plan::{self, Spawn};
use crate::prompt;
use crate::signals::{self, Ask};
use keyboard::{Keyboard, Typed};

/// Talks to an agent, line by line. Without a terminal each line of stdin is a prompt.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  agentline chat                               the default agent
  agentline chat --attachable --agent gemini   others can speak into it: agentline attach send …
  printf 'hello\\nask\\n' | agentline chat -q    one answer after the other

Ctrl-C cancels the turn, once more it ends the agent; Ctrl-D leaves. /list-agents shows the sessions of this
machine. What is typed during a turn waits for its end.")]
pub(crate) struct Args {
    #[command(flatten)]
    child: Child,
    /// Let others speak into the session [default: if AGENTICA_ATTACH_ENABLED is 1]
    #[arg(long)]
    attachable: bool,
}

pub(crate) fn run(args: &Args, global: Global, notes: &Notes) -> Result<ExitCode, Problem> {
    let variables = prompt::variables(&args.child.environment)?;
    if !global.quiet {
        variables.warn(notes);
    }
    let mut start = Start::unknown(&args.child);
    let Spawn { spec, whose, .. } = plan::spawn(&args.child, variables, &mut start)?;
    let is_terminal = io::stdin().is_terminal() && io::stdout().is_terminal() && io::stderr().is_terminal();
    let edits = is_terminal && global.format() == Format::Text;
    // A terminal that cannot move its cursor is read like a pipe.
    let keyboard = if edits { Keyboard::new(notes.paint()).ok() } else { None };

    let attach = host::attach(args.attachable, &start.cwd)?;
    let timeouts = Timeouts { cancel: Some(CANCEL), ..Timeouts::default() };
    let config = Config {
        client: plan::client(spec, timeouts, args.child.leave_grace),
        setup: SessionSetup::in_directory(start.cwd.clone()),
        policy: if keyboard.is_some() { Policy::Ask } else { Policy::Reject },
        attach,
        limits: Limits::default(),
    };
    guard::arm(notes);
    let driver = Driver::<Chat>::new(config).map_err(|error| internal(&error))?;
    let ends = Arc::new(AtomicU8::new(OPEN));
    obey_signals(driver.handle(), Arc::clone(&ends)).map_err(|error| internal(&error))?;

    let advice = Rc::new(Advice {
        whose: if let Whose::Fallback(_) = whose { Whose::Demo } else { whose },
        withheld: start.withheld.clone(),
        policy: "nobody to ask here",
        words: std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect(),
    });
    let (turns, over) = mpsc::sync_channel(1);
    let (keyboard, notes) = match keyboard {
        Some((keyboard, reader)) => {
            let (chat, below, ends) = (driver.handle(), notes.clone(), Arc::clone(&ends));
            reader.start(move |typed| obey(typed, &chat, &below, &ends)).map_err(|error| internal(&error))?;
            let notes = keyboard.notes().clone();
            (Some(keyboard), notes)
        }
        None => {
            let (chat, notes) = (driver.handle(), notes.clone());
            read(chat, notes.clone(), over).map_err(|error| internal(&error))?;
            (None, notes)
        }
    };
    let screen: Box<dyn Screen> = match global.format() {
        Format::Json => Box::new(Json::new(notes.clone(), global.quiet, &advice)),
        Format::Text => Box::new(Text::new(notes.clone(), global.quiet, Rc::clone(&advice))),
    };
    let talk =
        Talk { screen, advice, notes, keyboard, start: Some(start), began: Instant::now(), turns, code: 0 };
    let code = talk.drive(driver);
    Ok(ExitCode::from(match ends.load(Ordering::Relaxed) {
        OPEN => code,
        ended => ended,
    }))
}

/// A conversation as it is shown.
struct Talk {
    screen: Box<dyn Screen>,
    advice: Rc<Advice>,
    notes: Notes,
    keyboard: Option<Keyboard>,
    /// Until it is shown.
    start: Option<Start>,
    /// When the turn began, or everything.
    began: Instant,
    /// Told of the end of each turn.
    turns: SyncSender<()>,
    /// The exit code of what went wrong last.
    code: u8,
}

impl Talk {
    fn drive(mut self, mut driver: Driver<Chat>) -> u8 {
        let mut gone = false;
        while let Some(event) = driver.next() {
            self.told(event, &driver);
            let urgent = self.screen.is_full() || !driver.is_ready();
            if urgent && self.screen.flush().is_err() && !std::mem::replace(&mut gone, true) {
                // Nobody reads any more. Refused when it is over anyway.
                let _ = driver.command(Command::Shutdown);
            }
        }
        let _ = self.screen.flush();
        if gone { 0 } else { self.code }
    }

    fn told(&mut self, event: Event, chat: &Driver<Chat>) {
        match event {
            Event::Said(said) => self.said(said, chat),
            Event::Begun(line) => {
                self.began = Instant::now();
                self.screen.begun(&line);
            }
            Event::Listening(at) => self.screen.listening(&at),
            Event::Detached(Why::Stopped) => {}
            Event::Detached(why) => self.notes.line(&format!("! nobody can attach: {}", cause(why))),
            Event::PresenceFailed { errno } => {
                let error = io::Error::from_raw_os_error(errno);
                self.notes.line(&format!("! others may not find this session: {error}"));
            }
        }
    }

    fn said(&mut self, event: subagent::Event, chat: &Driver<Chat>) {
        use subagent::Event as Said;
        match (&event, &mut self.keyboard) {
            (Said::Updated(updated), Some(keyboard)) => keyboard.learn(&updated.update),
            (Said::PermissionDecided(decision), Some(keyboard)) => keyboard.decided(decision.request),
            _ => {}
        }
        match (event, &mut self.keyboard) {
            (Said::Started(peer), _) => self.started(peer.pid),
            (Said::Finished(finished), _) => self.finished(*finished),
            (Said::PermissionAsked(asked), Some(keyboard)) => {
                self.screen.before_question();
                if let Some((request, outcome)) = keyboard.ask(*asked) {
                    // Refused when the question is moot by now.
                    let _ = chat.command(Command::Answer { request, outcome });
                }
            }
            (event, _) => self.screen.told(event),
        }
    }

    fn started(&mut self, pid: Option<u32>) {
        if let Some(start) = self.start.take() {
            self.screen.started(&start, pid);
        }
    }

    fn finished(&mut self, mut finished: Finished) {
        // There is no result without a start.
        self.started(None);
        if let Some(problem) = &mut finished.error {
            self.advice.improve(problem);
        }
        // A person has seen it; a script wants to know of any.
        if self.keyboard.is_some() || self.code == 0 {
            self.code = finished.exit_code();
        }
        self.screen.finished(&finished, self.began.elapsed());
        // Full when nobody waits for it.
        let _ = self.turns.try_send(());
    }
}

/// Reads prompts from a pipe, one a line, and no faster than they are answered.
fn read(chat: Handle<Chat>, notes: Notes, turns: Receiver<()>) -> io::Result<()> {
    let read = move || {
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            while let Err(Refused::Limit(_)) = enter(&line, &chat, &notes) {
                if turns.recv().is_err() {
                    return;
                }
            }
        }
        // Refused when it is over.
        let _ = chat.command(Command::Finish);
    };
    thread::Builder::new().name("agentline-keyboard".into()).spawn(read).map(drop)
}

/// Does what was typed at the terminal.
fn obey(typed: Typed, chat: &Handle<Chat>, notes: &Notes, ends: &AtomicU8) {
    // Refused when it is over, or the question is moot by now.
    let _ = match typed {
        Typed::Line(line) => enter(&line, chat, notes).inspect_err(|refused| {
            notes.line(&format!("! not said: {refused}"));
        }),
        Typed::Answer(request, outcome) => chat.command(Command::Answer { request, outcome }),
        Typed::Interrupt => interrupt(chat, notes, ends),
        Typed::End => {
            let _ = ends.compare_exchange(OPEN, 0, Ordering::Relaxed, Ordering::Relaxed);
            chat.command(Command::Finish)
        }
        Typed::HangUp => chat.command(Command::Shutdown),
    };
}

fn enter(line: &str, chat: &Handle<Chat>, notes: &Notes) -> Result<(), Refused> {
    match line.trim() {
        "" => Ok(()),
        "/list-agents" => {
            match Peers::look() {
                Ok(peers) => peers.rows().iter().for_each(|row| notes.line(&row.join("  "))),
                Err(problem) => notes.line(&explain(&problem, notes.paint())),
            }
            Ok(())
        }
        _ => chat.command(Command::Say(line.to_owned())),
    }
}

/// Cancels the turn. What cannot be cancelled is not waited for: the start, and a turn that is being cancelled.
fn interrupt(chat: &Handle<Chat>, notes: &Notes, ends: &AtomicU8) -> Result<(), Refused> {
    match chat.command(Command::Cancel) {
        Ok(()) => notes.line("◦ cancelling; Ctrl-C again ends the agent"),
        Err(Refused::NotReady) => {
            ends.store(INTERRUPTED, Ordering::Relaxed);
            return chat.command(Command::Shutdown);
        }
        Err(Refused::Busy) => {
            ends.store(INTERRUPTED, Ordering::Relaxed);
            return chat.command(Command::Hasten);
        }
        Err(Refused::Closed) => return chat.command(Command::Hasten),
        Err(_) => notes.line("◦ nothing runs; Ctrl-D leaves"),
    }
    Ok(())
}

fn obey_signals(chat: Handle<Chat>, ends: Arc<AtomicU8>) -> io::Result<()> {
    signals::on_each(chat, move |chat, ask| {
        let (code, end) = match ask {
            Ask::Interrupt => match chat.command(Command::Cancel) {
                Ok(()) => return,
                // It was asked before, and that takes too long.
                Err(Refused::Busy | Refused::Closed) => (INTERRUPTED, Command::Hasten),
                Err(_) => (INTERRUPTED, Command::Shutdown),
            },
            Ask::Terminate => (143, Command::Shutdown),
            Ask::HangUp => (129, Command::Shutdown),
        };
        ends.store(code, Ordering::Relaxed);
        // Refused when it is over.
        let _ = chat.command(end);
    })
}

fn cause(why: Why) -> String {
    match why {
        Why::Stopped => "the session is over".to_owned(),
        Why::ListenFailed(error) => error.to_string(),
        Why::TokenFailed { errno } => io::Error::from_raw_os_error(errno).to_string(),
    }
}

fn internal(error: &io::Error) -> Problem {
    Problem::new(Phase::Spawn, Kind::Internal, error.to_string())
}

/// For the agent's answer to a cancel.
const CANCEL: Duration = Duration::from_secs(5);
/// The exit code of who was interrupted.
const INTERRUPTED: u8 = 130;
/// Nobody has ended the conversation from our side.
const OPEN: u8 = u8::MAX;
