//! A trace as people look at it: a row for each thing that happened, and what lasted from one row to another.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use agentline_core::trace::{Damage, Dir, Header, Reader, Record};
use serde::Serialize;
use serde_json::Value;

use super::kind::Kind;
use super::said::{Said, session, short, tagged};
use super::span::{Side, Span, Spans};

/// A whole trace.
#[derive(Debug)]
pub(super) struct Reading {
    pub(super) header: Header,
    pub(super) rows: Vec<Row>,
    pub(super) spans: Vec<Span>,
    /// Where the lines stand in the file, with the header.
    pub(super) lines: Vec<Range<usize>>,
}

/// One thing that happened.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Row {
    /// Its line in the file, from 1. A read of several messages has several rows.
    pub(super) line: usize,
    /// Microseconds since the start.
    pub(super) t: u64,
    /// Which kind of input or output it is; absent when the line cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) dir: Option<Dir>,
    pub(super) kind: Kind,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) link: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) session: Option<String>,
    pub(super) title: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) text: String,
    /// Microseconds since what it answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) took: Option<u64>,
    /// What was waited for before it, where that was long.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) waited: Option<String>,
    /// It tells of a failure.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_bad: bool,
}

impl Reading {
    /// Reads a whole file. A damaged line harms no other.
    pub(super) fn new(file: &[u8]) -> Result<Self, Damage> {
        let lines = lines(file);
        let text = |line: &Range<usize>| file.get(line.clone()).unwrap_or_default();
        let mut reader = Reader::new(lines.first().map(text).unwrap_or_default())?;
        let start = reader.header().t.as_micros();
        let mut page = Page::default();
        for line in lines.iter().skip(1).map(text) {
            match reader.line(line) {
                None => {}
                Some(Err(Damage { line, why })) => page.damage(line, why),
                Some(Ok(record)) => {
                    page.t = record.at.mono.as_micros().saturating_sub(start);
                    page.line = reader.number();
                    page.record(&record);
                }
            }
        }
        Ok(Self { header: reader.header().clone(), rows: page.attributed(), spans: page.spans.all, lines })
    }

    /// The sessions in the order in which they appear.
    pub(super) fn sessions(&self) -> Vec<&str> {
        let mut seen = BTreeSet::new();
        self.rows.iter().filter_map(|row| row.session.as_deref()).filter(|id| seen.insert(*id)).collect()
    }
}

/// The lines of a file without their ends.
fn lines(file: &[u8]) -> Vec<Range<usize>> {
    let mut start = 0;
    let mut lines = Vec::new();
    for line in file.split_inclusive(|byte| *byte == b'\n') {
        let end = start + line.len();
        lines.push(start..if line.ends_with(b"\n") { end - 1 } else { end });
        start = end;
    }
    lines
}

/// Rows as they are written, one after another.
#[derive(Debug, Default)]
struct Page {
    line: usize,
    t: u64,
    rows: Vec<Row>,
    spans: Spans,
    /// Beginnings of lines, by link and direction.
    begun: BTreeMap<(Option<u32>, Dir), Vec<u8>>,
}

impl Page {
    fn record(&mut self, record: &Record) {
        let link = record.link.map(|link| link.number());
        match record.dir {
            Dir::In | Dir::Out => self.bytes(link, record.dir, record.bytes()),
            Dir::Err => {
                for line in record.bytes().split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                    self.row(record.dir, link, Kind::Stderr, "stderr", short(&String::from_utf8_lossy(line)));
                }
            }
            Dir::Hold => {
                let holds = record.value().unwrap_or_default();
                self.spans.hold(self.rows.len(), holds);
                let title = if holds { "events are held back" } else { "events are taken again" };
                self.row(record.dir, link, Kind::Hold, title, String::new());
            }
            Dir::Written => self.row(record.dir, link, Kind::Flow, "written", String::new()),
            Dir::Tick => self.row(record.dir, link, Kind::Flow, "tick", String::new()),
            Dir::WriteFailed => self.failed(record.dir, link, "the write failed"),
            Dir::Eof => {
                let cut = self.begun.remove(&(link, Dir::In)).map_or(0, |begun| begun.len());
                let text =
                    if cut > 0 { format!("within a line, after {cut} bytes of it") } else { String::new() };
                self.spans.end_link(self.rows.len(), link);
                self.row(record.dir, link, Kind::Link, "end of input", text);
            }
            Dir::End => self.row(record.dir, link, Kind::Event, "end", String::new()),
            Dir::Opened | Dir::OpenFailed | Dir::Exit | Dir::Group | Dir::StoreFailed | Dir::Cmd => {
                self.value(record, link);
            }
            Dir::Refused | Dir::Act | Dir::Store | Dir::Event => self.value(record, link),
        }
    }

    /// Bytes of a link: a row for each line that is whole by now.
    fn bytes(&mut self, link: Option<u32>, dir: Dir, bytes: &[u8]) {
        let mut begun = self.begun.remove(&(link, dir)).unwrap_or_default();
        begun.extend_from_slice(bytes);
        let whole = begun.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let rest = begun.split_off(whole);
        for line in begun.split_inclusive(|byte| *byte == b'\n') {
            self.message(link, dir, line.strip_suffix(b"\n").unwrap_or(line));
        }
        if whole == 0 {
            let text = format!("{} bytes, {} of this line so far", bytes.len(), rest.len());
            self.row(dir, link, Kind::Flow, "part of a line", text);
        }
        if !rest.is_empty() {
            self.begun.insert((link, dir), rest);
        }
    }

    fn message(&mut self, link: Option<u32>, dir: Dir, line: &[u8]) {
        let said = Said::new(line);
        let side = if dir == Dir::Out { Side::Ours } else { Side::Theirs };
        let waited = self.waited();
        let row = self.rows.len();
        let ended = self.spans.take(row, link, side, &said);
        let answers = ended.filter(|span| span.kind != super::span::Lasting::Tool);
        let since = ended.and_then(|span| self.rows.get(span.first)).map(|first| (first, answers.is_some()));
        let mut row = Row {
            line: self.line,
            t: self.t,
            dir: Some(dir),
            kind: said.kind,
            link,
            session: said.session,
            title: said.title,
            text: said.text,
            took: None,
            waited,
            is_bad: said.is_bad,
        };
        if let Some((first, answers)) = since {
            row.took = Some(self.t.saturating_sub(first.t));
            row.session = row.session.or_else(|| first.session.clone());
            if answers {
                row.kind = first.kind;
                if row.title == "answer" {
                    row.title = format!("answer to {}", first.title);
                }
            }
        }
        self.rows.push(row);
    }

    fn value(&mut self, record: &Record, link: Option<u32>) {
        let value = record.value::<Value>().unwrap_or_default();
        let (tag, text) = tagged(&value);
        let (kind, title) = match record.dir {
            Dir::Opened => (Kind::Link, "opened".to_owned()),
            Dir::OpenFailed => (Kind::Link, "not opened".to_owned()),
            Dir::Exit => (Kind::Link, "exited".to_owned()),
            Dir::Group => (Kind::Flow, "its process group".to_owned()),
            Dir::Store | Dir::StoreFailed => (Kind::File, "file".to_owned()),
            Dir::Cmd => (Kind::Command, tag.clone()),
            Dir::Refused => (Kind::Command, "refused".to_owned()),
            Dir::Act if matches!(&*tag, "read" | "probe") => (Kind::Flow, tag.clone()),
            Dir::Act => (Kind::Link, tag.replace('_', " ")),
            Dir::In | Dir::Err | Dir::Written | Dir::WriteFailed | Dir::Eof | Dir::Tick | Dir::Hold => {
                (Kind::Flow, tag.clone())
            }
            Dir::Out | Dir::Event | Dir::End => (Kind::Event, tag.clone()),
        };
        let whole =
            matches!(record.dir, Dir::Opened | Dir::OpenFailed | Dir::Exit | Dir::Group | Dir::Refused);
        let text = match (whole, &value) {
            (true, Value::String(word)) => short(word),
            (true, other) => short(&other.to_string()),
            (false, _) => text,
        };
        let title = if title.is_empty() { "value".to_owned() } else { title };
        self.row(record.dir, link, kind, &title, text);
        if let Some(row) = self.rows.last_mut() {
            row.session = session(&value);
            row.is_bad = matches!(record.dir, Dir::OpenFailed | Dir::StoreFailed | Dir::Refused);
        }
    }

    fn failed(&mut self, dir: Dir, link: Option<u32>, title: &str) {
        self.row(dir, link, Kind::Link, title, String::new());
        if let Some(row) = self.rows.last_mut() {
            row.is_bad = true;
        }
    }

    fn damage(&mut self, line: usize, why: String) {
        self.line = line;
        self.push(Row { is_bad: true, ..self.bare(None, None, Kind::Damage, "a damaged line", short(&why)) });
    }

    fn row(&mut self, dir: Dir, link: Option<u32>, kind: Kind, title: &str, text: String) {
        let waited = self.waited();
        self.push(Row { waited, ..self.bare(Some(dir), link, kind, title, text) });
    }

    fn push(&mut self, row: Row) {
        self.rows.push(row);
    }

    fn bare(&self, dir: Option<Dir>, link: Option<u32>, kind: Kind, title: &str, text: String) -> Row {
        let title = title.to_owned();
        Row {
            line: self.line,
            t: self.t,
            dir,
            kind,
            link,
            session: None,
            title,
            text,
            took: None,
            waited: None,
            is_bad: false,
        }
    }

    /// What the row to come was waited for.
    fn waited(&self) -> Option<String> {
        let before = self.rows.last().map_or(0, |row| row.t);
        if self.t.saturating_sub(before) < LONG_WAIT {
            return None;
        }
        Some(self.spans.waits().map_or_else(String::new, |span| {
            let who = if span.is_ours { "the application" } else { "the peer" };
            format!("{who}: {}", span.label)
        }))
    }

    /// The rows, each with the session that it can only belong to.
    fn attributed(&mut self) -> Vec<Row> {
        let mut rows = std::mem::take(&mut self.rows);
        let mut of_link: BTreeMap<Option<u32>, BTreeSet<String>> = BTreeMap::new();
        for row in &rows {
            for link in [row.link, None] {
                of_link.entry(link).or_default().extend(row.session.clone());
            }
        }
        let only = |link| of_link.get(&link).filter(|ids| ids.len() == 1).and_then(|ids| ids.first());
        for row in &mut rows {
            if row.session.is_none() {
                row.session = only(row.link).cloned();
            }
        }
        rows
    }
}

/// Microseconds without a line that are shown as a wait.
const LONG_WAIT: u64 = 500_000;
