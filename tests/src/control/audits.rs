//! What holds for a client, for a server, and for the frames of a stream.

use std::collections::BTreeSet;

use agentline_core::control::{Answer, Client, Key, Server, client, server};
use agentline_core::rpc::Json;
use agentline_core::{Output, Refused, Tag};
use serde::Deserialize;

use crate::invariants::Audit;

/// Each call that a client takes ends exactly once.
#[derive(Debug, Default)]
pub struct Calls {
    open: BTreeSet<Tag>,
    /// The call that may be refused yet.
    newest: Option<Tag>,
}

impl Audit<Client> for Calls {
    fn command(&mut self, command: &client::Command) {
        self.newest = match command {
            client::Command::Call(tag, _) => self.open.insert(*tag).then_some(*tag),
            client::Command::Patience(_) | client::Command::Close => None,
        };
    }

    fn refused(&mut self, _: Refused) {
        if let Some(tag) = self.newest {
            self.open.remove(&tag);
        }
    }

    fn output(&mut self, output: &Output<client::Event>) {
        match output {
            Output::Tell(client::Event::Answered(tag, Answer::Frame(_))) => {
                assert!(self.open.contains(tag), "a frame for {tag:?}, which is not open");
            }
            Output::Tell(client::Event::Answered(tag, _) | client::Event::Lost(tag, _)) => {
                assert!(self.open.remove(tag), "a second end of {tag:?}");
            }
            Output::Tell(
                client::Event::Greeted(_)
                | client::Event::Line(_)
                | client::Event::Unexpected { .. }
                | client::Event::Closed(_),
            )
            | Output::Do(..)
            | Output::Store(..)
            | Output::End => {}
        }
    }

    fn ended(&mut self) {
        assert!(self.open.is_empty(), "calls without an end: {:?}", self.open);
    }
}

/// Each request of a server is answered completely or abandoned, once.
#[derive(Debug, Default)]
pub struct Requests {
    open: BTreeSet<Key>,
    seen: BTreeSet<Key>,
    /// The request whose last answer may be refused yet.
    newest: Option<Key>,
}

impl Audit<Server> for Requests {
    fn command(&mut self, command: &server::Command) {
        self.newest = match command {
            server::Command::Answer(_, Answer::Frame(_))
            | server::Command::State(..)
            | server::Command::Listen
            | server::Command::Shutdown(_) => None,
            server::Command::Answer(key, Answer::Reply(_) | Answer::Fail(_) | Answer::End(_)) => {
                self.open.remove(key).then_some(*key)
            }
        };
    }

    fn refused(&mut self, _: Refused) {
        self.open.extend(self.newest);
    }

    fn output(&mut self, output: &Output<server::Event>) {
        match output {
            Output::Tell(server::Event::Requested(key, _)) => {
                assert!(self.seen.insert(*key), "{key:?} is given twice");
                self.open.insert(*key);
            }
            Output::Tell(server::Event::Abandoned(key)) => {
                assert!(self.open.remove(key), "{key:?} is abandoned, and is not open");
            }
            Output::Tell(server::Event::CaughtUp(key, lost)) => {
                assert!(self.open.contains(key) && *lost > 0, "{key:?} caught up, and is not open");
            }
            Output::Tell(server::Event::Listening | server::Event::Closed(_))
            | Output::Do(..)
            | Output::Store(..)
            | Output::End => {}
        }
    }

    fn ended(&mut self) {
        assert!(self.open.is_empty(), "requests without an end: {:?}", self.open);
    }
}

/// The frames of a [`Desk`](super::Desk): each number comes in its turn, or is counted among the lost.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Numbers {
    /// Frames that came.
    pub seen: u64,
    /// Frames that did not, as the server says.
    pub lost: u64,
}

impl Numbers {
    /// Takes the data of a frame.
    ///
    /// # Panics
    ///
    /// It is not the next one.
    pub fn take(&mut self, data: &Json) {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Frame {
            Numbered { n: u64 },
            Lagged { lost: u64 },
        }
        match serde_json::from_str(data.get()).expect("a frame of a desk") {
            Frame::Numbered { n } => {
                assert_eq!(n, self.seen + self.lost, "{self:?}");
                self.seen += 1;
            }
            Frame::Lagged { lost } => self.lost += lost,
        }
    }
}
