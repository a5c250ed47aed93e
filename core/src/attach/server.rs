//! The session's side: listens, lets in whoever has the token, and hands their prompts to the host.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::conn::{Ask, Conn, House, Tell};
use super::files;
use super::limits::Limits;
use super::presence::{Attachment, Record};
use super::turns::{End, Injection, PromptId, Turns};
use super::wire::{self, AgentInfo, Answer, NOT_ADMITTED, Session, Turn};
use crate::machine::{
    Address, Change, Deadline, Ids, Input, Machine, Now, OpenError, Output, Outputs, Refused, Store, StoreId,
    Time, soonest,
};
use crate::nest::{Serve, Served, Told};
use crate::rpc::RpcError;
use crate::secret::Secret;

/// What a server starts from.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Config {
    /// Where to listen. The token goes beside it.
    pub socket: PathBuf,
    /// What clients have to know: the one found in the token file, or a new one.
    pub token: Secret<String>,
    /// What the session says of itself. The server fills in `busy`, `attach_socket` and `updated_at`.
    pub record: Record,
    /// Where it says it.
    pub record_file: PathBuf,
    /// The name and version that `initialize` is answered with.
    pub agent: AgentInfo,
    /// Sizes and times, each with its reason.
    pub limits: Limits,
}

/// What the host says. The turns are all of its turns, whoever asked for them.
///
/// ```text
///           Injected(Steered)             TurnEnded               1 s passed
/// Received ────────────────────► Steered ───────────► Settling ────────────────► its stop reason
///    │                                                    │ TurnStarted
///    │ Injected(Queued)         TurnStarted               ▼       TurnEnded
///    └────────────────► Queued ──────────────────────► Running ────────────────► its stop reason
///
/// Running; Settling, 1 s passed ── TurnFailed ─► the error, with its reason
/// Steered, Running ── cancelled, unseen ───────► cancelled, agentica_pending
/// any ── session/cancel ───────────────────────► cancelled
/// any ── 600 s passed, Shutdown ───────────────► agentica_pending
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    /// What became of a prompt that was received. Said before the turn that takes it starts, and once nothing
    /// else stands before it: a host that lets lines of its own wait in the same queue says it when they are
    /// through.
    Injected(PromptId, Injection),
    /// The host has begun a turn, whoever asked for it.
    TurnStarted,
    /// The turn is over: [`ended`](Turn::ended) by itself, [`cancelled`](Turn::cancelled) by a client or at
    /// the host's own keyboard, or [`unseen`](Turn::unseen).
    TurnEnded(Turn),
    /// The turn failed. Who waits for it gets an error that says so, and that the words were delivered.
    TurnFailed {
        /// The reason, for people.
        why: String,
        /// The last piece of what was answered before.
        answer: Option<String>,
    },
    /// The session has something else to say of itself. Its peer id stays.
    Publish(Box<Record>),
    /// The session is leaving.
    Shutdown,
}

/// What the host is told.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// Clients can attach from here on. Belongs into notify events until [`Event::Closed`].
    Listening(Box<Attachment>),
    /// Somebody speaks: to be shown as coming from outside, and handed to the agent as if it were typed.
    PromptReceived {
        /// To be named in [`Command::Injected`].
        prompt: PromptId,
        /// The words, neither empty nor blank at either end.
        text: String,
    },
    /// The turn that runs is to be cancelled, and prompts that were received but have not begun are to be
    /// dropped: their clients have been told so.
    CancelReceived,
    /// Others may not find the session: its record could not be written. Tried again with each heartbeat.
    PresenceFailed {
        /// The system's error number.
        errno: i32,
    },
    /// Nobody can attach any more; socket, token and record are gone. The last event.
    Closed(Why),
}

/// Why a server closed. The session goes on without it.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// It was asked to.
    Stopped,
    /// The socket could not be made.
    ListenFailed(OpenError),
    /// Nobody could have known the token: its file could not be written.
    TokenFailed {
        /// The system's error number.
        errno: i32,
    },
}

/// The session's side of the channel. [The module](super) draws what a connection goes through.
#[derive(Debug)]
pub struct Server {
    serve: Serve<Conn>,
    house: Arc<House>,
    turns: Turns,
    record: Record,
    files: Files,
    /// Seats of those without the token.
    strangers: usize,
    heartbeat: Duration,
    phase: Phase,
    ids: Ids,
    out: Outputs<Event>,
}

#[derive(Debug)]
struct Files {
    socket: PathBuf,
    token: File,
    record: File,
}

/// A file that is there while the session is.
#[derive(Debug)]
struct File {
    id: StoreId,
    path: PathBuf,
}

#[derive(Debug)]
enum Phase {
    Opening,
    Serving {
        /// When the record is written again.
        beat: Time,
    },
    /// The last answers are on their way.
    Leaving,
    Over,
}

impl Machine for Server {
    type Config = Config;
    type Command = Command;
    type Event = Event;

    fn new(now: Now, config: Config) -> Self {
        let Config { socket, token, record, record_file, agent, limits } = config;
        let (mut ids, mut out) = (Ids::default(), Outputs::default());
        let address = Address(socket.clone());
        Self {
            serve: Serve::new(
                now,
                address,
                limits.connections + limits.strangers,
                &limits.graces,
                &mut ids,
                &mut out,
            ),
            turns: Turns::new(&limits),
            house: Arc::new(House {
                token,
                agent,
                limits: limits.link,
                graces: limits.graces,
                admission: limits.admission,
                stranger_line: limits.stranger_line,
            }),
            strangers: limits.strangers,
            record,
            files: Files {
                token: File { id: ids.fresh_store(), path: files::token_file(&socket) },
                record: File { id: ids.fresh_store(), path: record_file },
                socket,
            },
            heartbeat: limits.heartbeat,
            phase: Phase::Opening,
            ids,
            out,
        }
    }

    fn handle(&mut self, now: Now, input: Input<'_>) {
        match input {
            Input::Link(link, heard) => {
                let make = |_| Conn::new(now, Arc::clone(&self.house));
                let served = self.serve.handle(now, link, heard, &mut self.ids, &mut self.out, make);
                self.served(now, served);
            }
            Input::Hold(full) => self.serve.conns.hold_all(now, full),
            Input::StoreFailed(id, errno) => self.store_failed(now, id, errno),
            Input::Tick => {}
        }
        let served = self.serve.tick(now, &mut self.ids, &mut self.out);
        self.served(now, served);
        self.turns.tick(now);
        if let Phase::Serving { beat } = self.phase
            && beat <= now.mono
        {
            self.publish(now);
        }
        self.settle(now);
    }

    fn command(&mut self, now: Now, command: Command) -> Result<(), Refused> {
        if matches!(self.phase, Phase::Leaving | Phase::Over) {
            return Err(Refused::Closed);
        }
        match command {
            Command::Injected(prompt, how) => self.turns.injected(now, prompt, how)?,
            Command::TurnStarted => {
                self.turns.started()?;
                self.publish(now);
            }
            Command::TurnEnded(turn) => self.ended(now, &Ok(turn))?,
            Command::TurnFailed { why, answer } => {
                self.ended(now, &Err(wire::failed(&why, answer.as_deref())))?;
            }
            Command::Publish(record) => {
                let peer_id = std::mem::take(&mut self.record.peer_id);
                self.record = Record { peer_id, ..*record };
                self.publish(now);
            }
            Command::Shutdown => self.close(now, Why::Stopped),
        }
        self.settle(now);
        Ok(())
    }

    fn poll(&mut self) -> Option<Output<Event>> {
        self.out.pop()
    }

    fn deadline(&self) -> Option<Deadline> {
        let beat = match self.phase {
            Phase::Serving { beat } => Some((beat, "heartbeat")),
            Phase::Opening | Phase::Leaving | Phase::Over => None,
        };
        soonest(soonest(self.serve.deadline(), self.turns.deadline()), beat)
    }
}

impl Server {
    /// Translates until nothing more follows.
    fn settle(&mut self, now: Now) {
        loop {
            while let Some((conn, told)) = self.serve.next(&mut self.ids, &mut self.out) {
                match told {
                    Told::Event(ask) => self.asked(now, conn, ask),
                    Told::Ended => self.turns.forget(conn),
                }
            }
            let is_watched = |conn| self.serve.conns.get(&conn).is_some_and(Conn::is_watched);
            if let Some((conn, outcome)) = self.turns.pop() {
                self.answer(now, conn, outcome);
            } else if let Some((prompt, text)) = self.turns.begin(now, is_watched) {
                self.out.tell(Event::PromptReceived { prompt, text });
            } else {
                break;
            }
        }
        if matches!(self.phase, Phase::Leaving) && self.serve.conns.is_empty() {
            self.phase = Phase::Over;
            self.out.end();
        }
    }

    fn served(&mut self, now: Now, served: Served) {
        match served {
            Served::Listening => self.listening(now),
            Served::ListenFailed(error) => self.close(now, Why::ListenFailed(error)),
            Served::Accepted(_) => self.make_room(now),
            Served::NotOurs | Served::Quiet => {}
        }
    }

    /// Whoever has the token shows it at once, so those who came first and did not have to go: strangers lock
    /// nobody out.
    fn make_room(&mut self, now: Now) {
        let is_stranger = |conn: &&u32| self.serve.conns.get(conn).is_some_and(Conn::is_stranger);
        let strangers: Vec<u32> = self.serve.conns.keys().filter(is_stranger).copied().collect();
        let over = strangers.len().saturating_sub(self.strangers);
        for conn in strangers.into_iter().take(over) {
            let _ = self.serve.conns.command(now, &conn, Tell::MakeRoom);
        }
    }

    fn asked(&mut self, now: Now, conn: u32, ask: Ask) {
        let (Ask::Load { session } | Ask::Prompt { session, .. } | Ask::Cancel { session }) = &ask;
        if let Err(error) = self.serves(session.as_deref()) {
            return self.answer(now, conn, Err(error));
        }
        match ask {
            Ask::Load { .. } => {
                let session_id = self.record.session_id.clone().unwrap_or(self.record.peer_id.clone());
                let session =
                    Session { session_id, cwd: self.record.cwd.clone(), busy: self.turns.is_running() };
                self.answer(now, conn, Ok(Answer::Session(session.into())));
            }
            Ask::Prompt { text, .. } => self.turns.enqueue(conn, text),
            Ask::Cancel { .. } => {
                self.turns.cancel();
                self.out.tell(Event::CancelReceived);
                self.answer(now, conn, Ok(Answer::Done {}));
            }
        }
    }

    fn ended(&mut self, now: Now, end: &End) -> Result<(), Refused> {
        self.turns.ended(now, end)?;
        self.publish(now);
        Ok(())
    }

    /// A request may name the session it means; one for another session is refused.
    fn serves(&self, session: Option<&str>) -> Result<(), RpcError> {
        match (session, self.record.session_id.as_deref()) {
            (Some(named), Some(ours)) if named != ours => {
                Err(RpcError::new(NOT_ADMITTED, format!("this socket serves the session {ours}")))
            }
            (Some(_) | None, Some(_) | None) => Ok(()),
        }
    }

    fn answer(&mut self, now: Now, conn: u32, outcome: Result<Answer, RpcError>) {
        // Refused only when the client is leaving: then nobody waits for it.
        let _ = self.serve.conns.command(now, &conn, Tell::Answer(outcome));
    }

    /// The token is there before anybody can read of the socket, and neither is before it listens: a start
    /// that fails leaves nothing behind.
    fn listening(&mut self, now: Now) {
        let mut token = self.house.token.expose().clone().into_bytes();
        token.push(b'\n');
        self.files.token.put(token, &mut self.out);
        self.phase = Phase::Serving { beat: now.mono };
        self.publish(now);
        self.out.tell(Event::Listening(Box::new(Attachment {
            attach_socket: self.socket(),
            peer_id: self.record.peer_id.clone(),
        })));
    }

    fn publish(&mut self, now: Now) {
        if let Phase::Serving { beat } = &mut self.phase {
            *beat = now.mono + self.heartbeat;
            self.record.busy = self.turns.is_running();
            self.record.attach_socket = Some(self.socket());
            self.record.updated_at = now.unix;
            self.files.record.put(self.record.to_bytes(), &mut self.out);
        }
    }

    fn store_failed(&mut self, now: Now, id: StoreId, errno: i32) {
        if !matches!(self.phase, Phase::Serving { .. }) {
            return;
        }
        if id == self.files.token.id {
            self.close(now, Why::TokenFailed { errno });
        } else if id == self.files.record.id {
            self.out.tell(Event::PresenceFailed { errno });
        }
    }

    /// First nobody finds the socket, then it is gone, then the token for it. Clients get what they are owed.
    fn close(&mut self, now: Now, why: Why) {
        let served = matches!(self.phase, Phase::Serving { .. });
        self.phase = Phase::Leaving;
        if served {
            self.files.record.remove(&mut self.out);
        }
        self.serve.close(&mut self.out);
        if served {
            self.files.token.remove(&mut self.out);
        }
        self.turns.stop();
        while let Some((conn, outcome)) = self.turns.pop() {
            self.answer(now, conn, outcome);
        }
        let conns: Vec<u32> = self.serve.conns.keys().copied().collect();
        for conn in conns {
            let _ = self.serve.conns.command(now, &conn, Tell::Leave);
        }
        self.out.tell(Event::Closed(why));
    }

    fn socket(&self) -> String {
        self.files.socket.to_string_lossy().into_owned()
    }
}

impl File {
    fn put<E>(&self, bytes: Vec<u8>, out: &mut Outputs<E>) {
        let change = Change::Put { bytes: Secret::new(bytes), mode: 0o600 };
        out.store(self.id, Store { path: self.path.clone(), change });
    }

    fn remove<E>(&self, out: &mut Outputs<E>) {
        out.store(self.id, Store { path: self.path.clone(), change: Change::Remove });
    }
}
