//! The serving side: a listener, its connections, and the requests that wait for the application.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::connection::{self, Connection};
use super::wire::{Answer, Request};
use crate::limits::{Graces, Limits};
use crate::machine::{Address, Deadline, Ids, Input, Machine, Now, OpenError, Output, Outputs, Refused};
use crate::nest::{Serve, Served, Told};

/// Serves the control protocol on one socket. The commands themselves are the application's.
#[derive(Debug)]
pub struct Server {
    serve: Serve<Connection>,
    ids: Ids,
    stage: Stage,
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
    /// Where to listen.
    pub address: Address,
    /// The only user who may connect; a link of anybody else is closed unheard. `None`: whomever the file's mode
    /// lets in.
    pub owner: Option<u32>,
    /// Connections at once; more wait in the system's queue. 512: half of the usual limit of descriptors.
    pub connections: usize,
    /// From an answer until the next whole line, and for taking what is still unsent. Streams are exempt.
    /// 90 s: seed 002 §2, "Idle timeout".
    pub idle: Duration,
    /// How long an answer may wait to be sent together with the next one, if that was asked for already. 1 ms: far
    /// more than the next answer takes if it comes at once, and less than anybody notices.
    pub gather: Duration,
    /// Unsent bytes above which a watcher loses frames. 1 MiB: Galley's 1024 events, of 1 KiB.
    pub watch: usize,
    /// Bytes that the application may put into one answer. 31 MiB: clients take lines of 32.
    pub answer: usize,
    /// Sizes of every connection. Lines of up to 16 MiB are read: 3 MB messages have been seen, with images more.
    pub limits: Limits,
    /// How a connection may take its leave.
    pub graces: Graces,
}

impl Config {
    /// The protocol's numbers.
    #[must_use]
    pub fn new(address: Address) -> Self {
        Self {
            address,
            owner: None,
            connections: 512,
            idle: Duration::from_secs(90),
            gather: Duration::from_millis(1),
            watch: 1 << 20,
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
    /// Stops listening and ends every connection. Open requests fail with `app_unavailable`, streams end for
    /// this reason. Refused: `Closed`, it is stopping already.
    Shutdown(String),
}

/// What the application is told.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// Clients can connect.
    Listening,
    /// A client waits for an answer; its further requests wait behind this one.
    Requested(Key, Request),
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
        let serve =
            Serve::new(now, config.address.clone(), config.connections, &config.graces, &mut ids, &mut out);
        Self { serve, ids, stage: Stage::Serving, config: Arc::new(config), out }
    }

    fn handle(&mut self, now: Now, input: Input<'_>) {
        match input {
            Input::Link(link, heard) => {
                let make = |peer| Connection::new(now, (peer, Arc::clone(&self.config)));
                let served = self.serve.handle(now, link, heard, &mut self.ids, &mut self.out, make);
                self.served(served);
            }
            Input::Hold(full) => self.serve.conns.hold_all(now, full),
            Input::Tick | Input::StoreFailed(..) => {}
        }
        let served = self.serve.tick(now, &mut self.ids, &mut self.out);
        self.served(served);
        self.settle();
    }

    fn command(&mut self, now: Now, command: Command) -> Result<(), Refused> {
        match command {
            Command::Answer(Key { connection, number }, answer) => {
                let answer = connection::Command::Answer(number, answer);
                let done = self.serve.conns.command(now, &connection, answer);
                // One that is leaving waits for no answer.
                done.map_err(|refused| if refused == Refused::Closed { Refused::Unknown } else { refused })?;
            }
            Command::Shutdown(reason) => self.shutdown(now, &reason)?,
        }
        self.settle();
        Ok(())
    }

    fn poll(&mut self) -> Option<Output<Event>> {
        self.out.pop()
    }

    fn deadline(&self) -> Option<Deadline> {
        self.serve.deadline()
    }
}

impl Server {
    /// How many clients are connected.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.serve.conns.len()
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
    fn settle(&mut self) {
        while let Some((connection, told)) = self.serve.next(&mut self.ids, &mut self.out) {
            match told {
                Told::Event(connection::Event::Requested(number, request)) => {
                    self.out.tell(Event::Requested(Key { connection, number }, request));
                }
                Told::Event(connection::Event::Abandoned(number)) => {
                    self.out.tell(Event::Abandoned(Key { connection, number }));
                }
                Told::Ended => {}
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
