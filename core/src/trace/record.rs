//! The lines of a trace: written, and read back one by one so that a damaged one harms no other.

use std::borrow::Cow;
use std::fmt::Write;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use super::mask::{self, Masks};
use crate::machine::{Action, Heard, Input, LinkId, Now, Output, Refused, Store, StoreId, Time};
use crate::rpc::to_json;

/// The first line of a trace.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Header {
    /// The version of the format, [`Header::FORMAT`]. Additions do not change it.
    pub format: u32,
    /// The channel that the machine speaks.
    pub channel: String,
    /// Which side of the channel it is.
    pub role: String,
    /// The version of this crate that wrote the trace.
    pub version: String,
    /// The monotonic clock at the start.
    pub t: Time,
    /// The wall clock at the start, since the Unix epoch.
    pub unix: Duration,
    /// The machine's config, with limits and seeds.
    pub config: Box<RawValue>,
}

/// One input, command or output of a machine.
#[derive(Clone, Debug)]
pub struct Record {
    /// When it was handled, or when what caused it was.
    pub at: Now,
    /// On which link, if on one.
    pub link: Option<LinkId>,
    /// Which kind of input or output it is.
    pub dir: Dir,
    /// What came or went.
    pub body: Body,
}

/// What a record tells of.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dir {
    /// Input: bytes of the peer.
    In,
    /// Input: bytes of the child's standard error.
    Err,
    /// Input: the link is up; a [`Peer`](crate::Peer).
    Opened,
    /// Input: it is not; an [`OpenError`](crate::OpenError).
    OpenFailed,
    /// Input: the write is done.
    Written,
    /// Input: the write cannot be done.
    WriteFailed,
    /// Input: the peer's last byte has been read.
    Eof,
    /// Input: the child ended; an [`Exit`](crate::Exit).
    Exit,
    /// Input: about the child's group; a [`Group`](crate::Group).
    Group,
    /// Input: time passed, and nothing else happened.
    Tick,
    /// Input: hold events back, or go on; a bool.
    Hold,
    /// Input: a file could not be stored; its id and the error number.
    StoreFailed,
    /// Input: a command of the application.
    Cmd,
    /// Output: the command just recorded was refused; a [`Refused`].
    Refused,
    /// Output: bytes for the peer.
    Out,
    /// Output: any other [`Action`].
    Act,
    /// Output: a file to be stored.
    Store,
    /// Output: an event for the application.
    Event,
    /// Output: the machine is done.
    End,
}

impl Dir {
    /// Whether the machine put it out. If not, it was fed.
    #[must_use]
    pub const fn is_output(self) -> bool {
        matches!(self, Self::Refused | Self::Out | Self::Act | Self::Store | Self::Event | Self::End)
    }
}

/// What a record says.
#[derive(Clone, Debug)]
pub enum Body {
    /// Nothing beside its kind.
    Empty,
    /// Bytes that were read or written.
    Bytes(Vec<u8>),
    /// A value of the type that belongs to the [`Dir`].
    Value(Box<RawValue>),
}

/// A line that is no record. The lines around it stand.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("line {line}: {why}")]
pub struct Damage {
    /// Which one, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub why: String,
}

/// Reads a trace, one line at a time.
#[derive(Debug)]
pub struct Reader {
    header: Header,
    line: usize,
    clock: Clock,
}

impl Reader {
    /// Begins with the first line, the header.
    ///
    /// # Errors
    ///
    /// It is no header, or one of a later format.
    pub fn new(first: &[u8]) -> Result<Self, Damage> {
        let damage = |why| Damage { line: 1, why };
        let first = first.strip_prefix("\u{feff}".as_bytes()).unwrap_or(first);
        let header: Header =
            serde_json::from_slice(first).map_err(|error| damage(format!("no trace header: {error}")))?;
        if header.format > Header::FORMAT {
            return Err(damage(format!("format {} is newer than this program", header.format)));
        }
        let clock = Clock::new(Now { mono: header.t, unix: header.unix });
        Ok(Self { header, line: 1, clock })
    }

    /// The header of the file: what was run, and when.
    #[must_use]
    pub const fn header(&self) -> &Header {
        &self.header
    }

    /// Reads the next line, given without its line end. `None`: it is blank.
    pub fn line(&mut self, line: &[u8]) -> Option<Result<Record, Damage>> {
        self.line += 1;
        if line.trim_ascii().is_empty() {
            return None;
        }
        let read = serde_json::from_slice::<Wire<'_>>(line).map_err(|error| error.to_string());
        let record = read.and_then(|wire| {
            Ok(Record::new(self.clock.read(wire.t, wire.unix), wire.link, wire.dir, wire.body()?))
        });
        Some(record.map_err(|why| Damage { line: self.line, why }))
    }

    /// The number of the line that was read last, from 1.
    #[must_use]
    pub const fn number(&self) -> usize {
        self.line
    }
}

impl Header {
    /// The format that this crate writes, and the latest it reads.
    pub const FORMAT: u32 = 1;

    /// The header of a run that starts at `now`.
    pub fn new<C: Serialize>(now: Now, channel: String, role: String, config: &C) -> Self {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let (t, unix) = (now.mono, now.unix);
        Self { format: Self::FORMAT, channel, role, version, t, unix, config: raw(config) }
    }

    /// The line, without its line end.
    #[must_use]
    pub fn to_line(&self) -> String {
        to_json(self)
    }

    pub(super) fn masked(self, masks: &Masks) -> Self {
        Self { config: mask::json(self.config, |bytes| masks.apply(bytes)), ..self }
    }
}

impl Record {
    /// A record of the given parts.
    #[must_use]
    pub const fn new(at: Now, link: Option<LinkId>, dir: Dir, body: Body) -> Self {
        Self { at, link, dir, body }
    }

    /// What a machine is about to handle.
    #[must_use]
    pub fn input(at: Now, input: &Input<'_>) -> Self {
        let (link, dir, body) = match *input {
            Input::Tick => (None, Dir::Tick, Body::Empty),
            Input::Hold(hold) => (None, Dir::Hold, Body::value(&hold)),
            Input::StoreFailed(id, errno) => {
                (None, Dir::StoreFailed, Body::value(&FailedStore { id, errno }))
            }
            Input::Link(link, heard) => {
                let (dir, body) = match heard {
                    Heard::Opened(peer) => (Dir::Opened, Body::value(&peer)),
                    Heard::OpenFailed(error) => (Dir::OpenFailed, Body::value(&error)),
                    Heard::Bytes(bytes) => (Dir::In, Body::Bytes(bytes.into())),
                    Heard::Eof => (Dir::Eof, Body::Empty),
                    Heard::Stderr(bytes) => (Dir::Err, Body::Bytes(bytes.into())),
                    Heard::Written => (Dir::Written, Body::Empty),
                    Heard::WriteFailed => (Dir::WriteFailed, Body::Empty),
                    Heard::Exited(exit) => (Dir::Exit, Body::value(&exit)),
                    Heard::Group(group) => (Dir::Group, Body::value(&group)),
                };
                (Some(link), dir, body)
            }
        };
        Self::new(at, link, dir, body)
    }

    /// What the application is about to ask.
    pub fn command<C: Serialize>(at: Now, command: &C) -> Self {
        Self::new(at, None, Dir::Cmd, Body::value(command))
    }

    /// How it was refused.
    #[must_use]
    pub fn refused(at: Now, refused: &Refused) -> Self {
        Self::new(at, None, Dir::Refused, Body::value(refused))
    }

    /// What a machine put out.
    pub fn output<E: Serialize>(at: Now, output: &Output<E>) -> Self {
        match output {
            Output::Do(link, Action::Write(bytes)) => {
                Self::new(at, Some(*link), Dir::Out, Body::Bytes(bytes.clone()))
            }
            Output::Do(link, action) => Self::new(at, Some(*link), Dir::Act, Body::value(action)),
            Output::Store(id, store) => {
                Self::new(at, None, Dir::Store, Body::value(&NumberedStore { id: *id, store }))
            }
            Output::Tell(event) => Self::new(at, None, Dir::Event, Body::value(event)),
            Output::End => Self::new(at, None, Dir::End, Body::Empty),
        }
    }

    /// The line, without its line end. `unix` is stated in it: the wall clock, where it did not run along.
    #[must_use]
    pub fn to_line(&self, unix: Option<Duration>) -> String {
        let mut wire = Wire {
            t: self.at.mono,
            unix,
            link: self.link,
            dir: self.dir,
            line: None,
            text: None,
            hex: None,
            value: None,
        };
        match &self.body {
            Body::Empty => {}
            Body::Value(value) => wire.value = Some(value),
            Body::Bytes(bytes) => match std::str::from_utf8(bytes) {
                Err(_) => wire.hex = Some(to_hex(bytes)),
                Ok(text) => match text.strip_suffix('\n').filter(|line| !line.contains('\n')) {
                    Some(line) => wire.line = Some(line.into()),
                    None => wire.text = Some(text.into()),
                },
            },
        }
        to_json(&wire)
    }

    /// The bytes that were read or written.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        match &self.body {
            Body::Bytes(bytes) => bytes,
            Body::Empty | Body::Value(_) => &[],
        }
    }

    /// The value, as the type that the caller knows it to be.
    ///
    /// # Errors
    ///
    /// It is of another type.
    pub fn value<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(match &self.body {
            Body::Value(value) => value.get(),
            Body::Empty | Body::Bytes(_) => "null",
        })
    }

    pub(super) fn masked(self, masks: &Masks) -> Self {
        if masks.is_empty() { self } else { self.replaced(|bytes| masks.apply(bytes)) }
    }

    /// With one placeholder for all secrets.
    pub(super) fn plain(self) -> Self {
        self.replaced(mask::plain)
    }

    fn replaced(self, replace: impl Fn(&[u8]) -> Cow<'_, [u8]>) -> Self {
        let body = match self.body {
            Body::Empty => Body::Empty,
            Body::Bytes(bytes) => Body::Bytes(replace(&bytes).into_owned()),
            Body::Value(value) => Body::Value(mask::json(value, replace)),
        };
        Self { body, ..self }
    }
}

impl PartialEq for Record {
    fn eq(&self, other: &Self) -> bool {
        let key = |record: &Self| (record.at, record.link, record.dir);
        key(self) == key(other) && self.body == other.body
    }
}

impl Body {
    /// The value as JSON; `null` when it cannot be JSON.
    pub fn value<T: Serialize>(value: &T) -> Self {
        Self::Value(raw(value))
    }
}

/// Values are equal as JSON, however they are laid out.
impl PartialEq for Body {
    fn eq(&self, other: &Self) -> bool {
        let value = |raw: &RawValue| serde_json::from_str::<serde_json::Value>(raw.get()).ok();
        match (self, other) {
            (Self::Empty, Self::Empty) => true,
            (Self::Bytes(one), Self::Bytes(two)) => one == two,
            (Self::Value(one), Self::Value(two)) => {
                one.get() == two.get() || value(one).is_some_and(|one| Some(one) == value(two))
            }
            (Self::Empty | Self::Bytes(_) | Self::Value(_), _) => false,
        }
    }
}

/// The wall clock as it runs along with the monotonic one, so that it is stated only where it does not.
#[derive(Debug)]
pub(super) struct Clock(Now);

impl Clock {
    pub(super) const fn new(stated: Now) -> Self {
        Self(stated)
    }

    /// The wall clock at `at`, if it must be stated.
    pub(super) fn state(&mut self, at: Now) -> Option<Duration> {
        (self.read(at.mono, None) != at).then(|| self.read(at.mono, Some(at.unix)).unix)
    }

    fn read(&mut self, mono: Time, stated: Option<Duration>) -> Now {
        let unix = stated.unwrap_or_else(|| self.0.unix.saturating_add(mono.since(self.0.mono)));
        if stated.is_some() {
            self.0 = Now { mono, unix };
        }
        Now { mono, unix }
    }
}

/// A record as it stands in the file.
#[derive(Serialize, Deserialize)]
struct Wire<'a> {
    t: Time,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    unix: Option<Duration>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    link: Option<LinkId>,
    dir: Dir,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    line: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hex: Option<String>,
    #[serde(borrow, default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    value: Option<&'a RawValue>,
}

impl Wire<'_> {
    fn body(self) -> Result<Body, String> {
        Ok(match self {
            Self { line: Some(line), .. } => Body::Bytes(format!("{line}\n").into()),
            Self { text: Some(text), .. } => Body::Bytes(text.into_owned().into()),
            Self { hex: Some(hex), .. } => Body::Bytes(from_hex(&hex).ok_or("no hex digits")?),
            Self { value: Some(value), .. } => Body::Value(value.to_owned()),
            Self { .. } => Body::Empty,
        })
    }
}

#[derive(Serialize)]
struct NumberedStore<'a> {
    id: StoreId,
    #[serde(flatten)]
    store: &'a Store,
}

#[derive(Serialize, Deserialize)]
pub(super) struct FailedStore {
    pub(super) id: StoreId,
    pub(super) errno: i32,
}

/// A value of null is a value.
fn present<'de: 'a, 'a, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'a RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

fn raw<T: Serialize>(value: &T) -> Box<RawValue> {
    to_raw_value(value).unwrap_or_default()
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

fn from_hex(hex: &str) -> Option<Vec<u8>> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let (pairs, rest) = hex.as_bytes().as_chunks::<2>();
    let bytes = pairs.iter().map(|[high, low]| Some(digit(high)? << 4 | digit(low)?)).collect();
    if rest.is_empty() { bytes } else { None }
}
