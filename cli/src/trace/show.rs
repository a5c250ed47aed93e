//! `trace show`: a run as lines of a terminal.

use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::time::Duration;

use agentline_core::trace::Dir;
use anstyle::Style;
use serde::Serialize;

use super::kind::Kind;
use super::reading::Row;
use super::{Show, read};
use crate::args::{Format, Global};
use crate::output::{In, Notes, Out, Paint, columns, fit, line, pad, plain, print, span, unwritten};
use crate::words::Problem;

pub(super) fn run(args: &Show, global: Global, notes: &Notes) -> Result<ExitCode, Problem> {
    let (_, reading) = read(&args.trace)?;
    let rows: Vec<&Row> = reading.rows.iter().filter(|row| args.choice.is_wanted(row)).collect();
    let look = Look {
        paint: if io::stdout().is_terminal() { notes.paint() } else { Paint::default() },
        columns: columns(io::stdout()).unwrap_or(usize::MAX),
        names_links: rows.iter().any(|row| row.link.is_some_and(|link| link > 0)),
    };
    let mut out = Out::default();
    for (at, row) in rows.iter().enumerate() {
        out.write(&match global.format() {
            Format::Json => line(&Typed { kind: "row", row }, at == 0),
            Format::Text => look.line(row),
        });
        if out.is_large()
            && let Err(error) = out.flush_surely()
        {
            return Ok(unwritten(&error, 0, notes));
        }
    }
    if let Err(error) = out.flush_surely() {
        return Ok(unwritten(&error, 0, notes));
    }
    if global.format() == Format::Text && !global.quiet {
        let damaged = reading.rows.iter().filter(|row| row.kind == Kind::Damage).count();
        if damaged > 0 {
            notes.line(&format!("! lines that cannot be read: {damaged}"));
        }
        if rows.is_empty() {
            notes.line(&format!("◦ nothing is shown of {}", args.choice.all(reading.rows.len())));
        }
    }
    Ok(print(""))
}

/// A row among objects of other types.
#[derive(Serialize)]
struct Typed<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(flatten)]
    row: &'a Row,
}

/// How rows are shown.
struct Look {
    paint: Paint,
    columns: usize,
    /// There is more than one link.
    names_links: bool,
}

impl Look {
    fn line(&self, row: &Row) -> String {
        let seconds = Duration::from_micros(row.t).as_secs_f64();
        let link = match row.link {
            Some(link) if self.names_links => format!(" #{link}"),
            Some(_) | None => String::new(),
        };
        let link = if self.names_links { pad(&link, 5) } else { link };
        let took = row.took.filter(|took| *took > 0).map(Duration::from_micros);
        let took = took.map(|took| format!(" ({})", span(took))).unwrap_or_default();
        let lead = format!("{seconds:>11.6}{link}  {}  ", way(row.dir));
        let said = format!("{}{took}", plain(&row.title));
        let room = self.columns.saturating_sub(lead.chars().count());
        let said = fit(&said, room).into_owned();
        let room = room.saturating_sub(said.chars().count() + 2);
        let text = if row.text.is_empty() || room < LEAST {
            String::new()
        } else {
            format!("  {}", In(self.paint.dim, fit(&plain(&row.text), room)))
        };
        let style = match row.kind {
            _ if row.is_bad => self.paint.bad,
            Kind::Permission => self.paint.ask,
            Kind::Turn | Kind::Command => self.paint.strong,
            Kind::Tool => self.paint.good,
            Kind::Flow | Kind::Stderr | Kind::Link => self.paint.dim,
            Kind::Text | Kind::Message | Kind::Event | Kind::Hold | Kind::File | Kind::Damage => Style::new(),
        };
        format!("{}{}{text}\n", In(self.paint.dim, lead), In(style, said))
    }
}

/// Who speaks to whom: the application on the left, the machine in the middle, the peer on the right.
const fn way(dir: Option<Dir>) -> &'static str {
    match dir {
        Some(Dir::Cmd) => "app →       ",
        Some(Dir::Event | Dir::Refused | Dir::End) => "app ←       ",
        Some(Dir::Out) => "      → peer",
        Some(Dir::In | Dir::Err) => "      ← peer",
        Some(Dir::Act | Dir::Store) => "      ▸     ",
        Some(
            Dir::Opened
            | Dir::OpenFailed
            | Dir::Written
            | Dir::WriteFailed
            | Dir::Eof
            | Dir::Exit
            | Dir::Group
            | Dir::Tick
            | Dir::Hold
            | Dir::StoreFailed,
        ) => "      ◂     ",
        None => "      !     ",
    }
}

/// Columns that are worth being filled.
const LEAST: usize = 6;
