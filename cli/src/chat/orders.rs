//! What a person and the system want of a conversation.

use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use agentline_core::Refused;
use agentline_core::chat::Command;

use super::announce::Announced;
use super::{Conversation, Desk, OPEN, Typed, keyboard};
use crate::attach::Peers;
use crate::failure::explain;
use crate::output::{In, Notes, Sink};
use crate::signals::{Ask, Signals};

/// Does what was typed.
pub(super) struct Orders {
    pub(super) chat: Conversation,
    pub(super) notes: Notes,
    pub(super) desk: Arc<Desk>,
    pub(super) announced: Arc<Announced>,
    /// The exit code, once it is not the conversation's own.
    pub(super) ends: Arc<AtomicU8>,
}

impl Orders {
    pub(super) fn obey(&self, typed: Typed) {
        let Self { chat, notes, ends, .. } = self;
        // Refused when it is over, or the question is moot by now.
        let _ = match typed {
            Typed::Line(line) => self.enter(&line),
            Typed::Answer(request, answer) => chat.command(answer.of_chat(request)),
            Typed::Interrupt => self.interrupt(),
            Typed::End => {
                // Who leaves by a key has seen what went wrong; a script wants to know of it.
                if io::stdin().is_terminal() {
                    let _ = ends.compare_exchange(OPEN, 0, Ordering::Relaxed, Ordering::Relaxed);
                }
                chat.command(Command::Finish)
            }
            Typed::TooLong => {
                let most = keyboard::LONGEST >> 20;
                notes.line(&format!("✗ a line of more than {most} MiB: nothing more is read"));
                ends.store(2, Ordering::Relaxed);
                Ok(())
            }
            Typed::HangUp => chat.command(Command::Shutdown),
            Typed::Suspend => Ok(()),
        };
    }

    fn enter(&self, line: &str) -> Result<(), Refused> {
        let Self { chat, notes, desk, announced, .. } = self;
        let command = line.trim();
        let is_ours = matches!(command, "/help" | "/list-agents" | "/announce" | "/quit" | "/exit");
        if is_ours && notes.page().is_some() {
            notes.line(&format!("{} {command}", In(notes.paint().strong, "›")));
        }
        match command {
            "/list-agents" => match Peers::look() {
                Ok(peers) if peers.rows().is_empty() => notes.line(&format!("◦ {}", peers.nothing())),
                Ok(peers) => peers.rows().iter().for_each(|row| notes.line(&row.join("  "))),
                Err(problem) => notes.line(&explain(&problem, notes.paint())),
            },
            "/announce" => match announced.config() {
                Ok(config) => match chat.command(Command::Announce(Box::new(config))) {
                    Err(Refused::Busy) => notes.line("! it is shown by the hub already, or about to be"),
                    told => return told,
                },
                Err(problem) => notes.line(&explain(&problem, notes.paint())),
            },
            "/help" => notes.line(&help(notes.page().is_some())),
            "/quit" | "/exit" => {
                let answers = desk.end();
                answers.into_iter().chain([Typed::End]).for_each(|typed| self.obey(typed));
            }
            _ => {
                desk.queue(line);
                return chat.command(Command::Say(line.to_owned())).inspect_err(|refused| {
                    desk.refused();
                    notes.line(&format!("! not said: {refused}"));
                });
            }
        }
        Ok(())
    }

    /// Cancels the turn, and gives back what waits for its end. What cannot be cancelled is not waited for: the start,
    /// and a turn that is being cancelled.
    fn interrupt(&self) -> Result<(), Refused> {
        let Self { chat, ends, .. } = self;
        match cancel(chat) {
            Ok(()) => {}
            Err(Refused::NotReady) => end(chat, ends, INTERRUPTED, Command::Shutdown),
            Err(Refused::Busy) => end(chat, ends, INTERRUPTED, Command::Hasten),
            Err(Refused::Closed) => return chat.command(Command::Hasten),
            // As in a shell.
            Err(_) if self.desk.clear() => {}
            Err(_) => self.notes.line("◦ nothing runs; Ctrl-D leaves"),
        }
        Ok(())
    }
}

pub(super) fn obey_signals(signals: Signals, chat: Conversation, ends: Arc<AtomicU8>) -> io::Result<()> {
    signals.on_each(chat, move |chat, ask| match ask {
        Ask::Interrupt => match cancel(chat) {
            Ok(()) => {}
            // It was asked before, and that takes too long.
            Err(Refused::Busy | Refused::Closed) => end(chat, &ends, INTERRUPTED, Command::Hasten),
            Err(_) => end(chat, &ends, INTERRUPTED, Command::Shutdown),
        },
        Ask::Terminate => end(chat, &ends, 143, Command::Shutdown),
        Ask::HangUp => end(chat, &ends, 129, Command::Shutdown),
    })
}

pub(super) fn end(chat: &Conversation, ends: &AtomicU8, code: u8, how: Command) {
    ends.store(code, Ordering::Relaxed);
    Sink::ours().hurry();
    // Refused when it is over.
    let _ = chat.command(how);
}

fn cancel(chat: &Conversation) -> Result<(), Refused> {
    // Refused when it is over.
    let _ = chat.command(Command::Recall);
    chat.command(Command::Cancel)
}

fn help(keys: bool) -> String {
    let does_nothing = |line: &str| KEYS_ONLY.iter().any(|key| line.trim_start().starts_with(key));
    HELP.lines().filter(|line| keys || !does_nothing(line)).collect::<Vec<_>>().join("\n")
}

const HELP: &str = "\
  Enter         says what is typed; during a turn it waits for its end
  Alt-Enter     begins a new line in the same text
  Up, Down      what was typed before; kept for the next time unless it begins with a blank
  Ctrl-C        cancels the turn and gives back what waits; once more ends the agent
  Ctrl-D, /quit leaves when everything that was typed is answered
  Ctrl-Z        stops, until fg
  /announce     shows the conversation to the hub that runs, which may then speak into it
  /list-agents  the sessions of this machine that one can speak into
  Any other command that begins with a slash is the agent's.";
/// Where it is lines that come, and not keys, these do nothing.
const KEYS_ONLY: [&str; 2] = ["Alt-Enter", "Up, Down"];
/// The exit code of who was interrupted.
const INTERRUPTED: u8 = 130;
