//! `trace import`: a plain capture of both directions becomes a trace that can be looked at.

use std::process::ExitCode;
use std::time::Duration;

use agentline_core::trace::{Body, Dir, Header, Record};
use agentline_core::{LinkId, Now, Time};
use serde::Deserialize;

use super::{Import, LARGEST, Side, Trace};
use crate::args::Global;
use crate::output::Notes;
use crate::prompt::{self, of_file};
use crate::words::Problem;

pub(super) fn run(args: &Import, global: Global, notes: &Notes) -> Result<ExitCode, Problem> {
    let capture = prompt::read("capture", &args.capture, LARGEST)?;
    let lines: Vec<Line> = capture
        .split(|byte| *byte == b'\n')
        .zip(1..)
        .filter(|(line, _)| !line.trim_ascii().is_empty())
        .map(|(line, number)| Line::read(line, args.own).map_err(|why| wrong(args, number, &why)))
        .collect::<Result<_, _>>()?;
    let mut trace = Trace::new(&args.output, args.force)?;
    let start = lines.iter().map(|line| line.at).min().unwrap_or_default();
    let now = |at| Now { mono: at, unix: args.start + at.since(start) };
    let role = if args.own == Side::In { "client" } else { "agent" };
    let header = Header::new(now(start), args.channel.clone(), role.into(), &Imported { imported: true });
    let mut broken = trace.write(&header.to_line());
    for line in &lines {
        let record = Record::new(now(line.at), Some(LinkId::FIRST), line.dir, Body::Bytes(line.bytes()));
        broken = broken.or_else(|| trace.write(&record.to_line(None)));
    }
    if let Some(broken) = broken.or_else(|| trace.flush()) {
        return Err(of_file("-o", &args.output, broken));
    }
    if !global.quiet {
        notes.line(&format!("◦ lines: {}; agentline trace view shows them", lines.len()));
    }
    Ok(ExitCode::SUCCESS)
}

/// The config of a run that was no run of ours.
#[derive(serde::Serialize)]
struct Imported {
    imported: bool,
}

fn wrong(args: &Import, number: usize, why: &str) -> Problem {
    let hint = r#"one object a line: {"t": milliseconds, "dir": "in" | "out" | "err", "line": text}"#;
    of_file("capture", &args.capture, format_args!("line {number}: {why}")).hint(hint)
}

/// A line of a capture.
struct Line {
    at: Time,
    dir: Dir,
    text: String,
}

impl Line {
    fn read(line: &[u8], own: Side) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Captured {
            #[serde(default)]
            t: f64,
            dir: String,
            line: String,
        }
        let Captured { t, dir, line } = serde_json::from_slice(line).map_err(|error| error.to_string())?;
        let (ours, theirs) = if own == Side::In { ("in", "out") } else { ("out", "in") };
        let dir = match dir.as_str() {
            dir if dir == ours => Dir::Out,
            dir if dir == theirs => Dir::In,
            // What a recorder says about itself comes from neither side.
            "err" | "note" => Dir::Err,
            other => return Err(format!("`{}` is no direction", other.escape_debug())),
        };
        let millis = Duration::try_from_secs_f64(t / 1e3).map_err(|error| format!("t: {error}"))?;
        Ok(Self { at: Time::ZERO + millis, dir, text: line })
    }

    fn bytes(&self) -> Vec<u8> {
        format!("{}\n", self.text).into()
    }
}

/// Seconds since the Unix epoch.
pub(super) fn start(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().map_err(|_| "is no number of seconds since 1970".to_owned())?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}
