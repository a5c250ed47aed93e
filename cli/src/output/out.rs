//! Our stdout: gathered, and never the reason for a panic.

use std::io::{self, ErrorKind, IsTerminal};
use std::process::ExitCode;
use std::sync::Arc;

use super::filter::styled;
use super::notes::{Notes, columns, is_clever};
use super::page::Page;
use super::paint::end_of;
use super::sink::{Sink, Stream};

/// What is written to stdout, gathered until [`Out::flush`].
#[derive(Default)]
pub(crate) struct Out {
    gathered: Vec<u8>,
    page: Option<Arc<Page>>,
    /// What stands in the last row of a terminal, where no word is to be broken at its end.
    row: Option<Vec<u8>>,
}

impl Out {
    /// Goes where the notes go, if that is not to stderr.
    pub(crate) fn beside(notes: &Notes) -> Self {
        Self { page: notes.page().cloned(), ..Self::default() }
    }

    /// The same, and a terminal breaks no word where its rows end.
    pub(crate) fn in_rows(notes: &Notes) -> Self {
        let row = (io::stdout().is_terminal() && is_clever()).then(Vec::new);
        Self { row, ..Self::beside(notes) }
    }

    pub(crate) fn write(&mut self, text: &str) {
        self.gathered.extend_from_slice(text.as_bytes());
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.gathered.is_empty()
    }

    pub(crate) fn is_large(&self) -> bool {
        self.gathered.len() >= ENOUGH
    }

    /// Hands over all of it, and waits for no reader. Until there is room again, more is not wanted.
    ///
    /// After an error there is nothing but that error, and what is written is dropped.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.hand_over(Sink::write)
    }

    /// The same with the last words: they are said however far behind the reader is.
    pub(crate) fn flush_surely(&mut self) -> io::Result<()> {
        self.hand_over(Sink::write_surely)
    }

    fn hand_over(&mut self, write: impl FnOnce(&Sink, Stream, &[u8])) -> io::Result<()> {
        let sink = Sink::ours();
        if self.page.is_some() || io::stdout().is_terminal() {
            let shown = styled(&String::from_utf8_lossy(&self.gathered)).into_owned();
            self.gathered = shown.into();
        }
        match (&self.page, &mut self.row) {
            _ if self.gathered.is_empty() => {}
            (Some(page), _) => page.answer(&self.gathered),
            (None, Some(row)) => {
                let shown = continued(row, &self.gathered, columns(io::stdout()).unwrap_or(80));
                write(sink, Stream::Out, &shown);
            }
            (None, None) => write(sink, Stream::Out, &self.gathered),
        }
        self.gathered.clear();
        self.gathered.shrink_to(ENOUGH);
        sink.balance();
        sink.failure(Stream::Out).map_or(Ok(()), Err)
    }
}

/// Takes what fills lines: those that are over, and of the last one as much as the screen is wide. However a text
/// came, it is broken in the same places.
pub(super) fn whole_lines(gathered: &mut Vec<u8>, columns: usize) -> Option<String> {
    let text = String::from_utf8_lossy(gathered);
    let (mut lines, mut rest) = (String::new(), "");
    for line in text.split_inclusive('\n') {
        rest = line;
        while let Some((row, after)) = broken(rest, columns) {
            lines.push_str(row);
            lines.push('\n');
            rest = after;
        }
        if rest.ends_with('\n') {
            lines.push_str(std::mem::take(&mut rest));
        }
    }
    *gathered = rest.as_bytes().to_vec();
    (!lines.is_empty()).then_some(lines)
}

/// What to write behind what stands in a row, which is the rest of it from here on. The word that a row is too short
/// for moves to the next one, with the part of it that is there already.
fn continued(row: &mut Vec<u8>, text: &[u8], columns: usize) -> Vec<u8> {
    let again = if row.is_empty() { "" } else { "\r\x1b[K" };
    row.extend_from_slice(text);
    match whole_lines(row, columns) {
        Some(lines) => [again.as_bytes(), lines.as_bytes(), row].concat(),
        None => text.to_vec(),
    }
}

/// A text in rows of a screen, each of whole words.
pub(crate) fn in_rows(text: &str, columns: usize) -> String {
    let mut rest = text.as_bytes().to_vec();
    let lines = whole_lines(&mut rest, columns).unwrap_or_default();
    lines + &String::from_utf8_lossy(&rest)
}

/// A text that is wider than the screen, in two: at a blank where there is one.
fn broken(text: &str, columns: usize) -> Option<(&str, &str)> {
    let end = end_of(text.trim_end(), columns)?;
    let blank = if text[end..].starts_with(' ') { Some(end) } else { text[..end].rfind(' ') };
    match blank {
        Some(blank) if !text[..blank].trim().is_empty() => Some((&text[..blank], &text[blank + 1..])),
        Some(_) | None => Some(text.split_at(end)),
    }
}

/// Writes to stdout, and waits for the reader. One that is gone has read enough.
pub(crate) fn print(text: &str) -> ExitCode {
    let sink = Sink::ours();
    let text = if io::stdout().is_terminal() { styled(text) } else { text.into() };
    sink.write_surely(Stream::Out, text.as_bytes());
    sink.settle(None);
    match sink.failure(Stream::Out) {
        Some(error) if error.kind() != ErrorKind::BrokenPipe => ExitCode::FAILURE,
        Some(_) | None => ExitCode::SUCCESS,
    }
}

/// How a command ends whose stdout failed. A signal counts for more than a reader that is gone, and whoever has closed
/// our stdout has read enough.
pub(crate) fn unwritten(error: &io::Error, signal: u8, notes: &Notes) -> ExitCode {
    match (signal, error.kind()) {
        (1.., _) => ExitCode::from(signal),
        (0, ErrorKind::BrokenPipe) => ExitCode::SUCCESS,
        (0, _) => {
            notes.line(&format!("✗ stdout cannot be written: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// The exit code of an expired clock.
pub(crate) const EXPIRED: u8 = 124;
/// Bytes that are written even while more arrive: what a pipe holds.
const ENOUGH: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use quickcheck::quickcheck;

    use super::*;

    fn rows(pieces: &[&str], columns: usize) -> Vec<String> {
        let mut gathered = Vec::new();
        let lines = pieces.iter().filter_map(|piece| {
            gathered.extend_from_slice(piece.as_bytes());
            whole_lines(&mut gathered, columns)
        });
        lines.collect()
    }

    #[test]
    fn an_answer_fills_lines_of_a_screen_before_its_own_are_over() {
        let pieces = ["one two ", "three\nfo", "ur five", " six seven", "eightnineteneleven", "\n"];
        let shown = ["one two\nthree\n", "four five\n", "six\nseveneight\nninetenele\n", "ven\n"];
        assert_eq!(rows(&pieces, 10), shown);
        assert_eq!(rows(&["0123456789 \n    0123456789\n"], 10), ["0123456789 \n    012345\n6789\n"]);
    }

    #[test]
    fn a_word_that_does_not_fit_moves_to_the_next_row_with_what_is_there_of_it() {
        let mut screen = vt100::Parser::new(5, 10, 0);
        let mut row = Vec::new();
        for piece in ["one two thr", "ee fo", "ur", " five\nsi", "x"] {
            let shown = continued(&mut row, piece.as_bytes(), 10);
            screen.process(String::from_utf8_lossy(&shown).replace('\n', "\r\n").as_bytes());
        }
        assert_eq!(screen.screen().contents(), "one two\nthree four\nfive\nsix");
        assert_eq!(in_rows("one two three four\nfive", 10), "one two\nthree four\nfive");
    }

    quickcheck! {
        fn an_answer_is_broken_in_the_same_places_however_it_came(words: Vec<u8>, cuts: Vec<usize>) -> bool {
            let words = words.iter().map(|word| match word % 8 {
                0 => "\n".to_owned(),
                1 | 2 => " ".to_owned(),
                3 => "中".to_owned(),
                long => "x".repeat(usize::from(long)),
            });
            let text = words.collect::<String>() + "\n";
            let letters: Vec<String> = text.chars().map(String::from).collect();
            let mut pieces = vec![String::new()];
            for (at, letter) in letters.iter().enumerate() {
                if cuts.iter().any(|cut| cut % letters.len() == at) {
                    pieces.push(String::new());
                }
                pieces.last_mut().unwrap().push_str(letter);
            }
            let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
            let whole = rows(&[&text], 10).concat();
            whole == rows(&pieces, 10).concat() && whole.lines().all(|row| end_of(row.trim_end(), 10).is_none())
        }
    }
}
