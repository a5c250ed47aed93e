//! Our own lines, broken at blanks where the screen ends, and indented below what they belong to.

use std::borrow::Cow;

use super::paint::width;

/// The text in lines of so many columns. A word that is longer than a line stays whole: it may be a path, and is copied
/// as one. So does a line to be pasted into a shell.
pub(crate) fn wrapped(text: &str, columns: usize) -> Cow<'_, str> {
    if text.lines().all(|line| shown(line) <= columns || is_to_paste(line)) {
        return text.into();
    }
    let lines: Vec<Cow<'_, str>> = text
        .split('\n')
        .map(|line| if is_to_paste(line) { line.into() } else { broken(line, columns) })
        .collect();
    lines.join("\n").into()
}

fn is_to_paste(line: &str) -> bool {
    anstream::adapter::strip_str(line).to_string().trim_start().starts_with("try: ")
}

fn broken(line: &str, columns: usize) -> Cow<'_, str> {
    if shown(line) <= columns {
        return line.into();
    }
    let indent = " ".repeat(hang(line).min(columns / 2));
    let (mut text, mut used, mut is_first) = (String::new(), 0, true);
    for word in line.split(' ') {
        let wide = shown(word);
        if is_first {
            is_first = false;
        } else if used + 1 + wide > columns && used > indent.len() {
            let kept = text.trim_end_matches(' ').len();
            text.truncate(kept);
            text.push('\n');
            text.push_str(&indent);
            used = indent.len();
        } else {
            text.push(' ');
            used += 1;
        }
        text.push_str(word);
        used += wide;
    }
    text.into()
}

/// Columns up to the first word after the mark (`✗`, `try:`) that the line begins with.
fn hang(line: &str) -> usize {
    let plain = anstream::adapter::strip_str(line).to_string();
    let lead = plain.len() - plain.trim_start_matches(' ').len();
    let first = plain[lead..].split(' ').next().unwrap_or_default();
    let is_mark = first.ends_with(':') || width(first) == 1 && !first.starts_with(char::is_alphanumeric);
    if is_mark { lead + width(first) + 1 } else { lead + 2 }
}

/// Columns, without colours.
fn shown(text: &str) -> usize {
    width(&anstream::adapter::strip_str(text).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_broken_at_blanks_and_hang_below_their_first_word() {
        for (line, columns, lines) in [
            ("short", 20, "short"),
            ("✗ the agent exited during initialize", 20, "✗ the agent exited\n  during initialize"),
            ("  stderr: one two three four", 20, "  stderr: one two\n          three four"),
            ("two\nlines that are longer", 12, "two\nlines that\n  are longer"),
            ("a/very/long/path/of/a/file here", 10, "a/very/long/path/of/a/file\n  here"),
            ("\u{1b}[1m✗\u{1b}[0m one two three", 10, "\u{1b}[1m✗\u{1b}[0m one two\n  three"),
            ("  try: agentline run -e KEY \"fix it\"", 12, "  try: agentline run -e KEY \"fix it\""),
            ("中文 中文 中文", 9, "中文 中文\n  中文"),
        ] {
            assert_eq!(wrapped(line, columns), lines);
        }
    }
}
