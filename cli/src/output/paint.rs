//! Colours, and words that fit into a line.

use std::borrow::Cow;
use std::fmt::{self, Display};
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// The few styles there are; without colour they do nothing.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Paint {
    pub(crate) dim: Style,
    pub(crate) strong: Style,
    pub(crate) good: Style,
    pub(crate) bad: Style,
    pub(crate) ask: Style,
}

impl Paint {
    pub(crate) const fn new(colour: bool) -> Self {
        let plain = Style::new();
        if !colour {
            return Self { dim: plain, strong: plain, good: plain, bad: plain, ask: plain };
        }
        Self {
            dim: plain.dimmed(),
            strong: plain.bold(),
            good: AnsiColor::Green.on_default(),
            bad: AnsiColor::Red.on_default(),
            ask: AnsiColor::Yellow.on_default().bold(),
        }
    }
}

/// Text in a style.
pub(crate) struct In<T>(pub(crate) Style, pub(crate) T);

impl<T: Display> Display for In<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(style, text) = self;
        write!(f, "{style}{text}{style:#}")
    }
}

/// As much of a text as fits into so many columns.
pub(crate) fn fit(text: &str, columns: usize) -> Cow<'_, str> {
    if text.width() <= columns {
        return text.into();
    }
    let end = end_of(text, columns.saturating_sub(1)).unwrap_or(text.len());
    format!("{}…", &text[..end]).into()
}

/// Where a text goes beyond so many columns, if it does.
pub(super) fn end_of(text: &str, columns: usize) -> Option<usize> {
    let mut used = 0;
    let beyond = |(at, letter): (usize, char)| {
        used += letter.width().unwrap_or(0);
        (used > columns).then_some(at)
    };
    text.char_indices().find_map(beyond)
}

/// How many columns a text takes.
pub(crate) fn width(text: &str) -> usize {
    text.width()
}

/// The text, and as many spaces as fill the columns.
pub(crate) fn pad(text: &str, columns: usize) -> String {
    let missing = columns.saturating_sub(text.width());
    format!("{text}{:missing$}", "")
}

/// Rows for a terminal: aligned, and no line longer than the screen is wide.
pub(crate) fn table<const N: usize>(rows: &[[String; N]], columns: usize) -> String {
    let widths: [usize; N] =
        std::array::from_fn(|column| rows.iter().map(|row| width(&row[column])).max().unwrap_or_default());
    let mut text = String::new();
    for row in rows {
        let cells: Vec<String> = row.iter().zip(widths).map(|(cell, width)| pad(cell, width)).collect();
        text += &fit(cells.join("  ").trim_end(), columns);
        text.push('\n');
    }
    text
}

/// A span as people say it.
pub(crate) fn span(span: Duration) -> String {
    let seconds = span.as_secs();
    match seconds {
        0 if span.as_millis() < 100 => format!("{} ms", span.as_millis()),
        0..10 => format!("{:.1} s", span.as_secs_f64()),
        10..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_by_columns_not_by_bytes() {
        for (text, columns, cut) in [
            ("short", 5, "short"),
            ("longer", 5, "long…"),
            ("中文字符", 8, "中文字符"),
            ("中文字符", 7, "中文字…"),
            ("中文字符", 6, "中文…"),
            ("", 0, ""),
            ("x", 0, "…"),
        ] {
            assert_eq!(fit(text, columns), cut, "{text} {columns}");
        }
        assert_eq!(pad("中", 4), "中  ");
    }

    #[test]
    fn spans_are_short() {
        for (millis, shown) in [
            (0, "0 ms"),
            (99, "99 ms"),
            (449, "0.4 s"),
            (9_940, "9.9 s"),
            (10_000, "10 s"),
            (59_999, "59 s"),
            (125_000, "2 min 5 s"),
            (7_260_000, "2 h 1 min"),
        ] {
            assert_eq!(span(Duration::from_millis(millis)), shown);
        }
    }
}
