//! An application behind a server.

use std::collections::BTreeMap;

use agentline_core::control::server::{Command, Event};
use agentline_core::control::{Answer, ErrorTag, Failure, Key, Request};
use serde::Serialize;

/// Does what a request's name says.
///
/// | command | answer |
/// |---|---|
/// | `echo` | its arguments |
/// | `fail` | `not_found` |
/// | `later` | true, when something is published |
/// | `watch` | a stream of what is published |
/// | `burst` | a stream of as many frames as the argument says |
/// | `publish` | how many streams there are, after one frame for each |
/// | `stop` | true, and the server stops |
#[derive(Debug, Default)]
pub struct Desk {
    waiting: Vec<Key>,
    /// Each with the number of its next frame.
    streams: BTreeMap<Key, u64>,
}

impl Desk {
    /// Hears an event, and answers.
    pub fn on(&mut self, event: Event, say: &mut Vec<Command>) {
        match event {
            Event::Requested(key, request) => {
                if let Err(failure) = self.asked(key, &request, say) {
                    say.push(Command::Answer(key, Answer::Fail(failure)));
                }
            }
            Event::Abandoned(key) => {
                self.waiting.retain(|waiting| *waiting != key);
                self.streams.remove(&key);
            }
            Event::Listening | Event::CaughtUp(..) | Event::Closed(_) => {}
        }
    }

    /// One more frame for every stream, and an answer for everybody who waits.
    pub fn publish(&mut self) -> Vec<Command> {
        let late = self.waiting.drain(..).map(|key| Command::Answer(key, Answer::reply(&true)));
        let frames = self.streams.iter_mut().map(|(key, next)| {
            *next += 1;
            Command::Answer(*key, frame(*next - 1))
        });
        late.chain(frames).collect()
    }

    /// Ends every stream.
    pub fn end_streams(&mut self) -> Vec<Command> {
        let streams = std::mem::take(&mut self.streams).into_keys();
        streams.map(|key| Command::Answer(key, Answer::End("completed".to_owned()))).collect()
    }

    /// Whether nobody waits for anything.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.streams.is_empty()
    }

    fn asked(&mut self, key: Key, request: &Request, say: &mut Vec<Command>) -> Result<(), Failure> {
        match &*request.command {
            "echo" => say.push(Command::Answer(key, Answer::reply(&request.args))),
            "fail" => return Err(Failure::new(ErrorTag::NotFound, "there is none")),
            "later" => self.waiting.push(key),
            "watch" => drop(self.streams.insert(key, 0)),
            "burst" => {
                let frames = request.decode::<u16>()?;
                say.extend((0..frames.into()).map(|n| Command::Answer(key, frame(n))));
                say.push(Command::Answer(key, Answer::End("completed".to_owned())));
            }
            "publish" => {
                say.extend(self.publish());
                say.push(Command::Answer(key, Answer::reply(&self.streams.len())));
            }
            "stop" => {
                say.push(Command::Answer(key, Answer::reply(&true)));
                say.push(Command::Shutdown("stopped".to_owned()));
            }
            other => return Err(Failure::unknown_command(other)),
        }
        Ok(())
    }
}

/// 512 bytes and a number.
fn frame(n: u64) -> Answer {
    #[derive(Serialize)]
    struct Frame {
        n: u64,
        text: &'static str,
    }
    const TEXT: &str = match std::str::from_utf8(&[b'.'; 512]) {
        Ok(text) => text,
        Err(_) => "",
    };
    Answer::frame(&Frame { n, text: TEXT })
}
