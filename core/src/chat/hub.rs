//! What a hub is shown of a conversation, and what it wants of it.

use crate::acp::agent::{Prompted, TurnKey};
use crate::acp::client::Moment;
use crate::acp::update::{Speaker, Update};
use crate::acp::{ContentBlock, PermissionOutcome, RequestKey, SessionId, StopReason};
use crate::closed::Closed;
use crate::conversation::{self, Finished};
use crate::machine::{Deadline, Heard, Ids, LinkId, Machine, Now, Outputs, Tag};
use crate::nest::{Nest, Told};
use crate::reverse::agent::{Agent, Command, Config, Event, Fault};
use crate::rpc::{RpcError, code};

/// The link to a hub, if one is wanted.
#[derive(Debug)]
pub(super) struct Hub {
    link: Nest<(), Agent>,
    /// Until the session is open.
    config: Option<Config>,
    session: Option<SessionId>,
    cwd: String,
    /// The turn that runs.
    turn: Option<Turn>,
}

#[derive(Debug)]
enum Turn {
    /// Of somebody else's words.
    Ours(String),
    /// Of the hub's own.
    Hubs(TurnKey),
}

/// What the hub says.
#[derive(Debug)]
pub(super) enum Says {
    Prompt(TurnKey, String),
    Cancel,
    Answer(RequestKey, PermissionOutcome),
    /// It shows the session from here on.
    Shown,
    Closed(Box<Closed<Fault>>),
    /// Its link is gone from here.
    Over,
}

impl Hub {
    pub(super) fn new(config: Option<Config>, cwd: String) -> Self {
        Self { link: Nest::default(), config, session: None, cwd, turn: None }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.link.is_empty()
    }

    pub(super) fn handle(&mut self, now: Now, link: LinkId, heard: Heard<'_>) {
        self.link.handle(now, link, heard);
    }

    pub(super) fn tick(&mut self, now: Now) {
        self.link.tick(now);
    }

    pub(super) fn deadline(&self) -> Option<Deadline> {
        self.link.deadline()
    }

    /// Whether another hub may be looked for: none shows it, and none is to.
    pub(super) fn is_free(&self) -> bool {
        self.link.is_empty() && self.config.is_none()
    }

    /// The hub to be looked for next.
    pub(super) fn look_for(&mut self, config: Config) {
        self.config = Some(config);
    }

    /// The session is open. Whether a hub is looked for.
    pub(super) fn dial(&mut self, now: Now, session: &SessionId) -> bool {
        let Some(mut config) = self.config.take() else { return false };
        // A terminal waits for no hub: one that does not keep up is left.
        config.limits.unsent_soft = config.limits.unsent_hard;
        self.session = Some(session.clone());
        // The config is taken once, so its seat is free.
        let _ = self.link.insert(now, (), Agent::new(now, config));
        true
    }

    pub(super) fn next<E>(&mut self, now: Now, ids: &mut Ids, out: &mut Outputs<E>) -> Option<Says> {
        loop {
            let says = match self.link.next(ids, out)?.1 {
                Told::Event(event) => self.told(now, event),
                Told::Ended => Some(Says::Over),
            };
            if says.is_some() {
                return says;
            }
        }
    }

    fn told(&mut self, now: Now, event: Event) -> Option<Says> {
        match event {
            Event::Accepted => {
                let (session, cwd) = (self.session.clone()?, self.cwd.clone());
                self.tell(now, Command::Announce { session, cwd, title: None });
                // It may have begun while we said hello.
                if let Some(Turn::Ours(words)) = &self.turn {
                    let words = words.clone();
                    self.start(now, words);
                }
                Some(Says::Shown)
            }
            Event::Prompted(prompted) => self.prompted(now, *prompted),
            Event::Cancelled(_) => Some(Says::Cancel),
            Event::PermissionAnswered(tag, outcome) => Some(Says::Answer(RequestKey(tag.0), outcome)),
            Event::Closed(closed) => Some(Says::Closed(closed)),
            // The terminal goes on, with or without a hub.
            Event::Unanswered(_)
            | Event::TurnOver(_)
            | Event::SessionWanted(..)
            | Event::Crowded
            | Event::Drained
            | Event::Noticed(_) => None,
        }
    }

    fn prompted(&mut self, now: Now, Prompted { turn, prompt, .. }: Prompted) -> Option<Says> {
        let texts: Option<Vec<&str>> = prompt.iter().map(ContentBlock::as_text).collect();
        match texts.map(|texts| texts.join("\n")) {
            Some(text) if !text.trim().is_empty() => Some(Says::Prompt(turn, text)),
            Some(_) | None => {
                let error = Box::new(RpcError::invalid_params("a prompt is a text"));
                self.tell(now, Command::FailPrompt { turn, error });
                None
            }
        }
    }

    /// A turn begins, by those words of somebody at this end.
    pub(super) fn begun(&mut self, now: Now, words: &str) {
        self.turn = Some(Turn::Ours(words.to_owned()));
        self.start(now, words.to_owned());
    }

    fn start(&mut self, now: Now, text: String) {
        let Some(session) = self.session.clone() else { return };
        self.tell(now, Command::StartTurn { session: session.clone() });
        self.tell(now, Command::Say { session, speaker: Speaker::User, text, message: None });
    }

    /// The turn of a prompt of the hub's begins.
    pub(super) fn begun_by_hub(&mut self, turn: TurnKey) {
        self.turn = Some(Turn::Hubs(turn));
    }

    /// A prompt of the hub's will never be said.
    pub(super) fn turn_away(&mut self, now: Now, turn: TurnKey) {
        let error =
            Box::new(RpcError::new(code::INTERNAL_ERROR, "the session is leaving; nothing was delivered"));
        self.tell(now, Command::FailPrompt { turn, error });
    }

    /// A prompt of the hub's was cancelled before it was said.
    pub(super) fn called_off(&mut self, now: Now, turn: TurnKey) {
        let stopped = Box::new(StopReason::Cancelled.into());
        self.tell(now, Command::EndPrompt { turn, stopped });
    }

    /// What is told of the conversation.
    pub(super) fn said(&mut self, now: Now, event: &conversation::Event) {
        use conversation::Event as Said;
        let Some(session) = self.session.clone().filter(|_| !self.link.is_empty()) else { return };
        let command = match event {
            Said::Text(text) if text.session == session => {
                let (speaker, message) = (text.speaker, text.message.clone());
                if is_echo(speaker, text.moment) {
                    return;
                }
                Command::Say { session, speaker, text: text.text.clone(), message }
            }
            Said::Updated(updated) if updated.session == session => {
                if let Update::Message(speaker, _) = updated.update
                    && is_echo(speaker, updated.moment)
                {
                    return;
                }
                Command::Report { session, update: Box::new(updated.update.clone()) }
            }
            Said::PermissionAsked(asked) => Command::AskPermission {
                tag: Tag(asked.request.0),
                session,
                tool_call: Box::new(asked.asked.tool_call.clone()),
                options: asked.asked.options.clone(),
            },
            // Refused where the hub itself has answered.
            Said::PermissionDecided(decision) => Command::ResolvePermission { tag: Tag(decision.request.0) },
            Said::Finished(finished) => return self.finished(now, session, finished),
            Said::Started(_)
            | Said::Ready(_)
            | Said::SessionOpened(_)
            | Said::Listed(_)
            | Said::Line(_)
            | Said::Text(_)
            | Said::Updated(_)
            // The extension has no forms: they are the terminal's.
            | Said::QuestionAsked(_)
            | Said::QuestionDecided(_)
            | Said::PageDone(_)
            | Said::FileWanted(_)
            | Said::Hosted(_)
            | Said::Retrying(_)
            | Said::Answered(_)
            | Said::Stderr(_)
            | Said::Noticed(_)
            | Said::Closed(_) => return,
        };
        self.tell(now, command);
    }

    fn finished(&mut self, now: Now, session: SessionId, finished: &Finished) {
        let command = match (self.turn.take(), super::stop(finished)) {
            (Some(Turn::Hubs(turn)), Ok(reason)) => {
                Command::EndPrompt { turn, stopped: Box::new(reason.into()) }
            }
            (Some(Turn::Hubs(turn)), Err(why)) => {
                Command::FailPrompt { turn, error: Box::new(RpcError::new(code::INTERNAL_ERROR, why)) }
            }
            (Some(Turn::Ours(_)), Ok(reason)) => Command::EndTurn { session, reason },
            (Some(Turn::Ours(_)), Err(_)) => {
                Command::EndTurn { session, reason: StopReason::Other("error".to_owned()) }
            }
            (None, _) => return,
        };
        self.tell(now, command);
    }

    pub(super) fn leave(&mut self, now: Now) {
        self.tell(now, Command::Leave);
    }

    /// Refused when there is no hub, or it is not interested.
    fn tell(&mut self, now: Now, command: Command) {
        let _ = self.link.command(now, &(), command);
    }
}

/// Whether it repeats the words that the turn began with: they were told with its beginning.
fn is_echo(speaker: Speaker, moment: Moment) -> bool {
    speaker == Speaker::User && moment == Moment::Turn
}
