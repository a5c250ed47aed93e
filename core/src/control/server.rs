//! The serving side: a listener, its connections, and the requests that wait for the application.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::connection::{self, Connection};
use super::wire::{Answer, Request};
use crate::limits::{Graces, Limits};
use crate::machine::{
    Address, Deadline, Ids, Input, Machine, Now, OpenError, Output, Outputs, Peer, Refused, Time, soonest,
};
use crate::nest::{Serve, Served, Told};
use crate::role::Role;
use crate::rpc::Json;

/// Serves the control protocol on one socket. The commands themselves are the application's.
#[derive(Debug)]
pub struct Server {
    serve: Serve<Connection>,
    ids: Ids,
    stage: Stage,
    /// Bytes of unfinished lines that are long, by connection.
    unfinished: BTreeMap<u32, usize>,
    config: Arc<Config>,
    out: Outputs<Event>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Stage {
    Serving,
    /// The listener is gone, perhaps because it never was; connections are leaving.
    Stopping(Option<OpenError>),
    Ended,
}

/// What a server starts from.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Config {
    /// The path of the socket. Its folder has to be private, or one like `/tmp`.
    pub address: Address,
    /// Connections at once; more wait in the system's queue. 512: half of the usual limit of descriptors.
    pub connections: usize,
    /// When they are that many and one more comes, one that has been idle for so long makes room. 10 s.
    pub patience: Duration,
    /// Bytes of long lines whose end has not come, of all connections. Whoever has the longest is turned away.
    /// 64 MiB: four of the longest.
    pub unfinished: usize,
    /// From an answer until the next whole line, and for taking what is still unsent. Streams are exempt.
    /// 90 s: the protocol's own (Galley, `docs/ipc-protocol.md` §2, "Idle timeout").
    pub idle: Duration,
    /// How long an answer may wait to be sent together with the next one, if that was asked for already. 1 ms: far
    /// more than the next answer takes if it comes at once, and less than anybody notices.
    pub gather: Duration,
    /// Unsent bytes above which a watcher loses frames. 1 MiB: Galley's 1024 events, of 1 KiB.
    pub watch: usize,
    /// For a watcher to take some of what is unsent; then its stream ends as `stalled`. 30 s.
    pub stall: Duration,
    /// Bytes that the application may put into one answer. 31 MiB: clients take lines of 32.
    pub answer: usize,
    /// Sizes of every connection. Lines of up to 16 MiB are read: 3 MB messages have been seen, with images more.
    pub limits: Limits,
    /// How a connection may take its leave.
    pub graces: Graces,
}

impl Config {
    /// With the numbers that the protocol gives, and our own where it gives none.
    #[must_use]
    pub fn new(address: Address) -> Self {
        Self {
            address,
            connections: 512,
            patience: Duration::from_secs(10),
            unfinished: 64 << 20,
            idle: Duration::from_secs(90),
            gather: Duration::from_millis(1),
            watch: 1 << 20,
            stall: Duration::from_secs(30),
            answer: 31 << 20,
            limits: Limits { line: 16 << 20, ..Limits::default() },
            graces: Graces::default(),
        }
    }
}

/// Names a request of a server until its answer is complete. Never given twice.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
pub struct Key {
    connection: u32,
    number: u32,
}

/// What the application says.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    /// Answers a request, or a part of it.
    ///
    /// A [`Reply`](Answer::Reply) or a [`Fail`](Answer::Fail) is a whole answer. The first
    /// [`Frame`](Answer::Frame) makes the answer a stream, which only an [`End`](Answer::End) completes, and the
    /// connection with it. Frames that a watcher is too slow for are counted and dropped; the command succeeds.
    ///
    /// Refused: `Unknown`, the answer is complete or the client gone; `Invalid`, a whole answer for a stream;
    /// `Limit`, longer than [`Config::answer`].
    Answer(Key, Answer),
    /// Frames that say how things stand, at the start of a stream or after [`Event::CaughtUp`]. They are written as the
    /// client reads, so that none is dropped; frames that are given meanwhile come behind them.
    ///
    /// Refused: as an [`Answer`](Self::Answer).
    State(Key, Vec<Json>),
    /// Listens anew at the same address, since its name is gone: [`Event::Listening`] follows. Connections go on.
    /// Refused: `Closed`, it is stopping.
    Listen,
    /// Stops listening and ends every connection. Open requests fail with `app_unavailable`, streams end for
    /// this reason. Refused: `Closed`, it is stopping already.
    Shutdown(String),
}

/// What the application is told.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// The socket is there: clients can connect from here on.
    Listening,
    /// A client waits for an answer; its further requests wait behind this one.
    Requested(Key, Request),
    /// A watcher that lost frames has room again, and was told how many it lost. What it missed may be told anew.
    CaughtUp(Key, u64),
    /// The client is gone, or the server stops: nobody waits for the rest of that answer.
    Abandoned(Key),
    /// The last event. The reason, if there never was a listener.
    Closed(Option<OpenError>),
}

impl Machine for Server {
    type Config = Config;
    type Command = Command;
    type Event = Event;

    fn new(now: Now, config: Config) -> Self {
        let (mut ids, mut out) = (Ids::default(), Outputs::default());
        let seats = config.connections + 1;
        let serve = Serve::new(now, config.address.clone(), seats, &config.graces, &mut ids, &mut out);
        let unfinished = BTreeMap::new();
        Self { serve, ids, stage: Stage::Serving, unfinished, config: Arc::new(config), out }
    }

    fn handle(&mut self, now: Now, input: Input<'_>) {
        match input {
            Input::Link(link, heard) => {
                let make = |peer| Connection::new(now, (Arc::clone(&self.config), peer));
                let served = self.serve.handle(now, link, heard, &mut self.ids, &mut self.out, make);
                self.served(served);
            }
            Input::Hold(full) => self.serve.conns.hold_all(now, full),
            Input::Tick | Input::StoreFailed(..) => {}
        }
        let served = self.serve.tick(now, &mut self.ids, &mut self.out);
        self.served(served);
        if let Some((at, idlest)) = self.idlest()
            && at <= now.mono
        {
            let _ = self.serve.conns.command(now, &idlest, connection::Command::Yield);
        }
        self.settle(now);
    }

    fn command(&mut self, now: Now, command: Command) -> Result<(), Refused> {
        match command {
            Command::Answer(key, answer) => {
                self.say(now, key, connection::Command::Answer(key.number, answer))?;
            }
            Command::State(key, frames) => {
                self.say(now, key, connection::Command::State(key.number, frames))?;
            }
            Command::Listen if self.stage != Stage::Serving => return Err(Refused::Closed),
            Command::Listen => {
                let (address, graces) = (self.config.address.clone(), &self.config.graces);
                self.serve.renew(now, address, graces, &mut self.ids, &mut self.out);
            }
            Command::Shutdown(reason) => self.shutdown(now, &reason)?,
        }
        self.settle(now);
        Ok(())
    }

    fn poll(&mut self) -> Option<Output<Event>> {
        self.out.pop()
    }

    fn deadline(&self) -> Option<Deadline> {
        soonest(self.serve.deadline(), self.idlest().map(|(at, _)| (at, "make room")))
    }
}

impl Server {
    fn say(&mut self, now: Now, key: Key, what: connection::Command) -> Result<(), Refused> {
        let done = self.serve.conns.command(now, &key.connection, what);
        // One that is leaving waits for no answer.
        done.map_err(|refused| if refused == Refused::Closed { Refused::Unknown } else { refused })
    }

    /// How many clients are connected.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.serve.conns.len()
    }

    /// Who waits for that answer, as far as the system says.
    #[must_use]
    pub fn peer(&self, key: Key) -> Peer {
        self.serve.conns.get(&key.connection).map_or_else(Peer::default, Connection::peer)
    }

    /// While there is one more connection than there are seats: the one that has been idle longest, and when it is
    /// to make room.
    fn idlest(&self) -> Option<(Time, u32)> {
        let conns = &self.serve.conns;
        if conns.len() <= self.config.connections {
            return None;
        }
        let is_up = |key: &&u32| conns.get(key).is_some_and(|connection| connection.wire().is_up());
        if conns.keys().filter(is_up).count() <= self.config.connections {
            return None;
        }
        conns.keys().filter_map(|key| Some((conns.get(key)?.yields()?, *key))).min()
    }

    /// An unfinished line grew, or is over.
    fn weigh(&mut self, now: Now, connection: u32, kept: usize) {
        if kept == 0 {
            self.unfinished.remove(&connection);
        } else {
            self.unfinished.insert(connection, kept);
        }
        if self.unfinished.values().sum::<usize>() > self.config.unfinished
            && let Some((longest, _)) = self.unfinished.iter().max_by_key(|(_, kept)| **kept)
        {
            let longest = *longest;
            self.unfinished.remove(&longest);
            let _ = self.serve.conns.command(now, &longest, connection::Command::Overflow);
        }
    }

    fn served(&mut self, served: Served) {
        match served {
            Served::Listening => self.out.tell(Event::Listening),
            Served::ListenFailed(error) => self.stage = Stage::Stopping(Some(error)),
            Served::NotOurs | Served::Quiet | Served::Accepted(_) => {}
        }
    }

    fn shutdown(&mut self, now: Now, reason: &str) -> Result<(), Refused> {
        if self.stage != Stage::Serving {
            return Err(Refused::Closed);
        }
        self.stage = Stage::Stopping(None);
        self.serve.close(&mut self.out);
        let connected: Vec<u32> = self.serve.conns.keys().copied().collect();
        for connection in connected {
            let leave = connection::Command::Leave(reason.to_owned());
            // One that is gone already has nothing to leave.
            let _ = self.serve.conns.command(now, &connection, leave);
        }
        Ok(())
    }

    /// The end of every step.
    fn settle(&mut self, now: Now) {
        while let Some((connection, told)) = self.serve.next(&mut self.ids, &mut self.out) {
            match told {
                Told::Event(connection::Event::Requested(number, request)) => {
                    self.out.tell(Event::Requested(Key { connection, number }, request));
                }
                Told::Event(connection::Event::CaughtUp(number, lost)) => {
                    self.out.tell(Event::CaughtUp(Key { connection, number }, lost));
                }
                Told::Event(connection::Event::Abandoned(number)) => {
                    self.out.tell(Event::Abandoned(Key { connection, number }));
                }
                Told::Event(connection::Event::Keeps(kept)) => self.weigh(now, connection, kept),
                Told::Ended => drop(self.unfinished.remove(&connection)),
            }
        }
        if let Stage::Stopping(failed) = self.stage
            && self.serve.conns.is_empty()
        {
            self.stage = Stage::Ended;
            self.out.tell(Event::Closed(failed));
            self.out.end();
        }
    }
}
