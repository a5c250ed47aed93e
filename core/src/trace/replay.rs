//! Runs a trace again, in virtual time.

use std::fmt::{self, Write};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::mask;
use super::record::{Damage, Dir, FailedStore, Header, Reader, Record};
use crate::machine::{Heard, Input, LinkId, Machine, Now, Refused, Time};

/// Replays a whole file.
///
/// # Errors
///
/// The first difference, or what keeps the trace from being replayed.
pub fn replay<M>(file: &[u8], until: Until) -> Result<Replayed, ReplayError>
where
    M: Machine<Config: DeserializeOwned, Command: DeserializeOwned, Event: Serialize>,
{
    let mut lines = file.strip_suffix(b"\n").unwrap_or(file).split(|byte| *byte == b'\n').peekable();
    let mut reader = Reader::new(lines.next().unwrap_or_default())?;
    let mut replay = Replay::<M>::new(reader.header())?;
    let mut done = Replayed::default();
    while let Some(line) = lines.next() {
        match reader.line(line) {
            None => {}
            Some(Ok(record)) if until.is_before(reader.number(), record.at.mono) => break,
            Some(Ok(record)) => {
                done.ended |= record.dir == Dir::End;
                replay.step(reader.number(), record)?;
                done.records += 1;
            }
            Some(Err(damage)) => {
                // The writer may have died within its last line.
                if lines.peek().is_some() {
                    replay.skip(&damage)?;
                }
                done.damaged.push(damage);
            }
        }
    }
    Ok(done)
}

/// How far to replay.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Until {
    /// To the end of the file.
    End,
    /// That line, and no further.
    Line(usize),
    /// That time, and no further.
    Time(Time),
}

/// A replay without a difference.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Replayed {
    /// Records that were run or compared.
    pub records: usize,
    /// Lines that could not be read. Each stood for an output, or was the last one of the file.
    pub damaged: Vec<Damage>,
    /// Whether the run was recorded to its end. If not, outputs of the last step may be missing.
    pub ended: bool,
}

/// Why a replay stopped.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ReplayError {
    /// The config is not one of this machine.
    #[error("the trace is of another machine, or of another version of it: {0}")]
    Config(String),
    /// The header, an input or a command cannot be read: nothing after it can be replayed.
    #[error("{0}")]
    Lost(#[from] Damage),
    /// The machine did something else.
    #[error("line {line}: recorded {}, seen {}", Excerpt(expected, *at), Excerpt(seen, *at))]
    Changed {
        /// The line of the file, from 1.
        line: usize,
        /// Characters of the two that agree before the first that does not.
        at: usize,
        /// What the file has there.
        expected: String,
        /// What the machine did.
        seen: String,
    },
    /// The machine did nothing.
    #[error("line {line}: recorded {}, seen nothing", Excerpt(expected, 0))]
    Missing {
        /// The line of the file, from 1.
        line: usize,
        /// What the file has there.
        expected: String,
    },
    /// The machine did something that is not recorded.
    #[error("before line {line}: recorded nothing, seen {}", Excerpt(seen, 0))]
    Unexpected {
        /// The line of the file before which it came, from 1.
        line: usize,
        /// What the machine did.
        seen: String,
    },
}

/// A machine that is led through its recorded run.
#[derive(Debug)]
pub struct Replay<M> {
    machine: M,
    now: Now,
    refused: Option<Refused>,
}

impl<M> Replay<M>
where
    M: Machine<Config: DeserializeOwned, Command: DeserializeOwned, Event: Serialize>,
{
    /// A machine of the recorded config, at the recorded start.
    ///
    /// # Errors
    ///
    /// The config is not one of `M`.
    pub fn new(header: &Header) -> Result<Self, ReplayError> {
        let now = Now { mono: header.t, unix: header.unix };
        let config = mask::json(header.config.clone(), mask::plain);
        let config =
            serde_json::from_str(config.get()).map_err(|error| ReplayError::Config(error.to_string()))?;
        Ok(Self { machine: M::new(now, config), now, refused: None })
    }

    /// Feeds a recorded input, or compares a recorded output with the machine's next one.
    ///
    /// # Errors
    ///
    /// The machine did something else than what was recorded, or the record cannot be fed.
    pub fn step(&mut self, line: usize, record: Record) -> Result<(), ReplayError> {
        let record = record.plain();
        match (self.pop(), record.dir.is_output()) {
            (Some(seen), true) if seen == record => Ok(()),
            (Some(seen), true) => Err(changed(line, &record, &seen)),
            (None, true) => Err(ReplayError::Missing { line, expected: record.to_line(None) }),
            (Some(seen), false) => Err(ReplayError::Unexpected { line, seen: seen.to_line(None) }),
            (None, false) => {
                self.feed(&record).map_err(|error| Damage { line, why: error.to_string() }.into())
            }
        }
    }

    /// Passes over a line that cannot be read: it is taken for the machine's next output.
    ///
    /// # Errors
    ///
    /// There is none, so the line was an input.
    pub fn skip(&mut self, damage: &Damage) -> Result<(), ReplayError> {
        self.pop().map(|_| ()).ok_or_else(|| damage.clone().into())
    }

    fn feed(&mut self, record: &Record) -> Result<(), serde_json::Error> {
        self.now = record.at;
        let link = |heard| Input::Link(record.link.unwrap_or(LinkId::FIRST), heard);
        let input = match record.dir {
            Dir::In => link(Heard::Bytes(record.bytes())),
            Dir::Err => link(Heard::Stderr(record.bytes())),
            Dir::Opened => link(Heard::Opened(record.value()?)),
            Dir::OpenFailed => link(Heard::OpenFailed(record.value()?)),
            Dir::Written => link(Heard::Written),
            Dir::WriteFailed => link(Heard::WriteFailed),
            Dir::Eof => link(Heard::Eof),
            Dir::Exit => link(Heard::Exited(record.value()?)),
            Dir::Group => link(Heard::Group(record.value()?)),
            Dir::Tick => Input::Tick,
            Dir::Hold => Input::Hold(record.value()?),
            Dir::StoreFailed => {
                let FailedStore { id, errno } = record.value()?;
                Input::StoreFailed(id, errno)
            }
            Dir::Cmd => {
                self.refused = self.machine.command(self.now, record.value()?).err();
                return Ok(());
            }
            Dir::Refused | Dir::Out | Dir::Act | Dir::Store | Dir::Event | Dir::End => return Ok(()),
        };
        self.machine.handle(self.now, input);
        Ok(())
    }

    fn pop(&mut self) -> Option<Record> {
        if let Some(refused) = self.refused.take() {
            return Some(Record::refused(self.now, &refused));
        }
        self.machine.poll().map(|output| Record::output(self.now, &output))
    }
}

impl Until {
    /// Whether a record lies beyond.
    fn is_before(self, line: usize, time: Time) -> bool {
        match self {
            Self::End => false,
            Self::Line(last) => last < line,
            Self::Time(last) => last < time,
        }
    }
}

fn changed(line: usize, expected: &Record, seen: &Record) -> ReplayError {
    let (expected, seen) = (expected.to_line(None), seen.to_line(None));
    let at = expected.chars().zip(seen.chars()).take_while(|(one, two)| one == two).count();
    ReplayError::Changed { line, at, expected, seen }
}

/// A long line around the place that matters.
struct Excerpt<'a>(&'a str, usize);

impl fmt::Display for Excerpt<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let from = self.1.saturating_sub(EXCERPT / 2);
        let mut rest = self.0.chars().skip(from);
        f.write_str(if from > 0 { "…" } else { "" })?;
        rest.by_ref().take(EXCERPT).try_for_each(|c| f.write_char(c))?;
        f.write_str(if rest.next().is_some() { "…" } else { "" })
    }
}

/// Characters of a line that an error shows.
const EXCERPT: usize = 160;
