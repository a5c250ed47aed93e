//! Lines for people that several screens show: calls of tools, plans, prompts, and how a permission was answered.

use std::time::Duration;

use agentline_core::host::Deed;

use super::filter::plain;
use super::notes::Notes;
use super::paint::{In, Paint, fit, pad, span, width};
use super::tools::Ended;
use crate::words::command_line;

/// A call that is over, and why it failed. Nothing of one that was refused: that was said.
pub(crate) fn tool(ended: &Ended, notes: &Notes) -> Vec<String> {
    let Ended { label, failed, refused, why, took } = ended;
    if *failed && *refused {
        return Vec::new();
    }
    let (paint, columns) = (notes.paint(), notes.columns());
    let mark = if *failed { In(paint.bad, "✗") } else { In(paint.good, "✓") };
    let room = columns.saturating_sub(14).max(20);
    let label = pad(&fit(label, room), room.min(LABEL));
    let took = if *took >= WORTH_SAYING { span(*took) } else { String::new() };
    let line = format!("  {mark} {label}  {}", In(paint.dim, took));
    let why = why.iter().filter(|_| *failed).map(|why| {
        let line = format!("    {}", plain(why));
        In(paint.dim, fit(&line, columns)).to_string()
    });
    std::iter::once(line.trim_end().to_owned()).chain(why).collect()
}

/// What was done here because an agent asked for it. How a command ends is told with the tool that it belongs to.
pub(crate) fn hosted(deed: &Deed, error: Option<&str>, notes: &Notes) -> Option<String> {
    let (done, what) = match deed {
        Deed::Exited { .. } => return None,
        Deed::Read { path } => ("read here", path.clone()),
        Deed::Wrote { path, .. } => ("written here", path.clone()),
        Deed::Started { command, .. } => {
            ("run here", if let [line] = &command[..] { line.clone() } else { command_line(command) })
        }
    };
    let (mark, style, what) = match error {
        None => ("◦", notes.paint().dim, format!("{done}: {what}")),
        // Of a file it says which.
        Some(why) if why.contains(&what) => ("✗", notes.paint().bad, format!("not {done}: {why}")),
        Some(why) => ("✗", notes.paint().bad, format!("not {done}: {what}: {why}")),
    };
    let line = format!("  {mark} {}", plain(&what));
    Some(In(style, fit(&line, notes.columns())).to_string())
}

/// A plan, on one line if it fits.
pub(crate) fn plan(entries: &[String], columns: usize) -> String {
    let columns = columns.saturating_sub(1);
    let room = columns.saturating_sub(10).max(20);
    let entries = entries.iter().enumerate();
    let numbered = entries.map(|(at, entry)| fit(&format!("{} {entry}", at + 1), room).into());
    fold("  plan   ", numbered, "  ", columns)
}

/// What somebody says, behind a mark. `about`: behind its first line.
pub(crate) fn prompt(mark: &str, text: &str, about: &str, paint: Paint) -> String {
    let mut lines: Vec<String> = text.lines().map(|line| plain(line).into_owned()).collect();
    if let Some(first) = lines.first_mut() {
        *first = format!("{} {first}{}", In(paint.strong, mark), In(paint.dim, about));
    }
    lines.join("\n  ")
}

/// That an option of this kind was chosen.
pub(crate) fn chosen(kind: Option<&str>, paint: Paint) -> String {
    let what = match kind {
        Some("allow_once") => In(paint.good, "✓ allowed once"),
        Some("allow_always") => In(paint.good, "✓ allowed for good"),
        Some("reject_once") => In(paint.bad, "✗ rejected"),
        Some("reject_always") => In(paint.bad, "✗ rejected for good"),
        Some(_) | None => In(paint.good, "✓ answered"),
    };
    what.to_string()
}

/// The parts on one line where they fit, else one below the other.
pub(crate) fn fold(
    head: &str,
    parts: impl IntoIterator<Item = String>,
    between: &str,
    columns: usize,
) -> String {
    let parts: Vec<String> = parts.into_iter().collect();
    let line = format!("{head}{}", parts.join(between));
    if width(&line) < columns {
        return line;
    }
    format!("{head}{}", parts.join(&format!("\n{:1$}", "", width(head))))
}

/// Columns of a tool's label, unless it needs more.
const LABEL: usize = 46;
/// A shorter time is not worth a word.
const WORTH_SAYING: Duration = Duration::from_millis(50);
