//! A terminal in which somebody types: what is said goes above, and below stays what is not over yet.
//!
//! ```text
//!  whole lines, never touched again
//!  the row of the answer that is not full yet        ┐
//!  ⠹ run cargo test  12 s                            │ drawn anew
//!    queued: and then the docs                       │ with each
//!  › what is being typed                             ┘ change
//! ```

use std::fmt::Write;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::filter::plain;
use super::notes::{LONG, columns, rows, turning};
use super::out::whole_lines;
use super::paint::{In, Paint, fit, span, width};
use super::sink::{Sink, Stream};
use super::wrap::wrapped;

/// The terminal: the answer, and below it what goes on.
pub(crate) struct Page {
    paint: Paint,
    sink: Sink,
    below: Mutex<Below>,
    changed: Condvar,
}

/// What is below the last whole line.
struct Below {
    /// The end of the answer that fills no row yet.
    answer: Vec<u8>,
    doing: Option<Doing>,
    foot: Foot,
    drawn: Drawn,
    /// What is drawn is not what it should be.
    stale: bool,
    /// Nothing is drawn: we are stopped, or about to end.
    parked: bool,
}

/// What is waited for.
struct Doing {
    what: String,
    since: Instant,
}

/// What is drawn where one types.
#[derive(Clone, Debug, Default)]
pub(crate) struct Foot {
    /// Lines that wait for the end of the turn.
    pub(crate) queued: Vec<String>,
    /// What has to be chosen from, one a line.
    pub(crate) question: Vec<String>,
    /// What is typed, and the cursor in bytes. `None`: nothing can be typed.
    pub(crate) input: Option<(String, usize)>,
}

/// What is on the screen.
#[derive(Debug, Default)]
struct Drawn {
    /// The widths of the rows above that of the cursor.
    above: Vec<usize>,
    any: bool,
}

/// Rows to be drawn, and where the cursor goes.
#[derive(Debug, Default)]
struct Picture {
    rows: Vec<String>,
    widths: Vec<usize>,
    cursor: (usize, usize),
}

impl Page {
    /// A page on the terminal that our stdout and stderr are.
    pub(crate) fn new(paint: Paint) -> Arc<Self> {
        let below = Below {
            answer: Vec::new(),
            doing: None,
            foot: Foot::default(),
            drawn: Drawn::default(),
            stale: true,
            parked: false,
        };
        let page =
            Self { paint, sink: Sink::ours().clone(), below: Mutex::new(below), changed: Condvar::new() };
        let page = Arc::new(page);
        let clock = Arc::clone(&page);
        // Without it nothing turns.
        let _ = thread::Builder::new().name("agentline-page".into()).spawn(move || clock.turn());
        page
    }

    /// Prints whole lines above what goes on.
    pub(crate) fn lines(&self, text: &str) {
        let mut below = self.lock();
        if let Some(doing) = &mut below.doing {
            doing.since = Instant::now();
        }
        self.draw(&mut below, text);
    }

    /// A piece of the answer.
    pub(crate) fn answer(&self, text: &[u8]) {
        let mut below = self.lock();
        below.answer.extend_from_slice(text);
        let lines = whole_lines(&mut below.answer, width_of_screen());
        if let Some(doing) = &mut below.doing {
            doing.since = Instant::now();
        }
        self.draw(&mut below, &lines.unwrap_or_default());
    }

    /// Says what is waited for.
    pub(crate) fn doing(&self, what: Option<&str>) {
        let mut below = self.lock();
        if below.doing.as_ref().map(|doing| &*doing.what) != what {
            let since = below.doing.as_ref().map_or_else(Instant::now, |doing| doing.since);
            below.doing = what.map(|what| Doing { what: what.to_owned(), since });
            self.draw(&mut below, "");
        }
    }

    /// Changes what is drawn where one types.
    pub(crate) fn foot(&self, foot: Foot) {
        let mut below = self.lock();
        below.foot = foot;
        self.draw(&mut below, "");
    }

    /// Draws it all again, perhaps on a screen that was cleared or is of another size.
    pub(crate) fn redraw(&self, clear: bool) {
        let mut below = self.lock();
        if clear {
            below.drawn = Drawn::default();
            self.sink.write(Stream::Out, b"\x1b[H\x1b[2J");
        }
        self.draw(&mut below, "");
    }

    /// Takes away what is drawn, or draws it again. The rest of an answer stays.
    pub(crate) fn park(&self, on: bool) {
        let mut below = self.lock();
        below.parked = on;
        if on {
            let mut text = erase(&mut below.drawn, width_of_screen());
            if !below.answer.is_empty() {
                let rest = std::mem::take(&mut below.answer);
                let _ = write!(text, "{}\r\n", String::from_utf8_lossy(&rest));
            }
            self.sink.write_surely(Stream::Out, text.as_bytes());
        } else {
            below.drawn = Drawn::default();
            self.draw(&mut below, "");
        }
    }

    fn lock(&self) -> MutexGuard<'_, Below> {
        self.below.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes lines above, and draws below them what is not over.
    fn draw(&self, below: &mut Below, lines: &str) {
        let columns = width_of_screen();
        let is_behind = !self.sink.is_idle(Stream::Out);
        let mut text = String::new();
        if !lines.is_empty() || !is_behind {
            text += &erase(&mut below.drawn, columns);
        }
        text += &lines.replace('\n', "\r\n");
        // A terminal that is behind gets no pictures: the newest one follows when it has caught up.
        below.stale = is_behind;
        if !is_behind && !below.parked {
            let picture = below.picture(self.paint, columns, rows(std::io::stdout()).unwrap_or(24));
            text += &picture.drawn(&mut below.drawn);
        }
        self.sink.write(Stream::Out, text.as_bytes());
        self.changed.notify_all();
    }

    /// Draws what turns, and what could not be drawn before.
    fn turn(&self) {
        let mut below = self.lock();
        loop {
            let wait = if below.parked || (below.doing.is_none() && !below.stale) {
                Duration::from_secs(3600)
            } else {
                FRAME
            };
            let (again, timeout) =
                self.changed.wait_timeout(below, wait).unwrap_or_else(PoisonError::into_inner);
            below = again;
            if timeout.timed_out() && !below.parked && self.sink.is_idle(Stream::Out) {
                self.draw(&mut below, "");
            }
        }
    }
}

impl Below {
    fn picture(&self, paint: Paint, columns: usize, rows: usize) -> Picture {
        let mut picture = Picture::default();
        let room = columns - 1;
        if !self.answer.is_empty() {
            picture.row(String::from_utf8_lossy(&self.answer).trim_end());
        }
        // Behind a question we wait for nobody but a person.
        if let Some(Doing { what, since }) = self.doing.as_ref().filter(|_| self.foot.question.is_empty()) {
            let quiet = since.elapsed();
            let for_long = if quiet >= LONG { format!("  {}", span(quiet)) } else { String::new() };
            let label = fit(what, room.saturating_sub(2 + width(&for_long)).max(1));
            picture.styled(&In(paint.dim, format!("{} {label}{for_long}", turning(quiet))).to_string());
        }
        let shown = self.foot.queued.len().min(QUEUED);
        for line in &self.foot.queued[..shown] {
            let line = plain(line.lines().next().unwrap_or_default()).into_owned();
            let line = format!("  queued: {line}");
            picture.styled(&In(paint.dim, fit(&line, room)).to_string());
        }
        if let more @ 1.. = self.foot.queued.len() - shown {
            picture.styled(&In(paint.dim, format!("  and {more} more")).to_string());
        }
        for line in &self.foot.question {
            wrapped(line, room).lines().for_each(|line| picture.styled(line));
        }
        if let Some((text, cursor)) = &self.foot.input {
            let (style, mark) =
                if self.foot.question.is_empty() { (paint.strong, "›") } else { (paint.ask, "?") };
            picture.typed(text, *cursor, &In(style, mark).to_string(), room, rows.saturating_sub(1).max(1));
        } else {
            picture.cursor = (picture.rows.len().saturating_sub(1), 0);
        }
        picture.cut(rows.saturating_sub(1).max(1));
        picture
    }
}

impl Picture {
    fn row(&mut self, text: &str) {
        self.widths.push(width(text));
        self.rows.push(text.to_owned());
    }

    fn styled(&mut self, text: &str) {
        self.widths.push(width(&anstream::adapter::strip_str(text).to_string()));
        self.rows.push(text.to_owned());
    }

    /// What is typed, broken where the screen ends; of more rows than fit, those around the cursor.
    fn typed(&mut self, text: &str, cursor: usize, mark: &str, columns: usize, most: usize) {
        let mut rows = vec![String::new()];
        let mut used = 2;
        let mut at = (0, 2);
        for (offset, letter) in text.char_indices() {
            let shown = if letter == '\t' { ' ' } else { letter };
            let shown = if shown.is_control() && shown != '\n' { '\u{fffd}' } else { shown };
            let wide = unicode_width::UnicodeWidthChar::width(shown).unwrap_or(0);
            if letter != '\n' && used + wide > columns {
                rows.push(String::new());
                used = 2;
            }
            if offset == cursor {
                at = (rows.len() - 1, used);
            }
            if letter == '\n' {
                rows.push(String::new());
                used = 2;
            } else {
                if let Some(row) = rows.last_mut() {
                    row.push(shown);
                }
                used += wide;
            }
        }
        if cursor >= text.len() {
            if used >= columns {
                rows.push(String::new());
                used = 2;
            }
            at = (rows.len() - 1, used);
        }
        let first = (at.0 + 1).saturating_sub(most);
        let before = self.rows.len();
        for (number, row) in rows.iter().enumerate().skip(first).take(most) {
            let head = if number == 0 { format!("{mark} ") } else { "  ".to_owned() };
            self.widths.push(2 + width(row));
            self.rows.push(head + row);
        }
        self.cursor = (before + at.0 - first, at.1);
    }

    /// Leaves out what the screen is too low for: from above, since one types below.
    fn cut(&mut self, most: usize) {
        let surplus = self.rows.len().saturating_sub(most).min(self.cursor.0);
        self.rows.drain(..surplus);
        self.widths.drain(..surplus);
        self.rows.truncate(most);
        self.widths.truncate(most);
        self.cursor.0 -= surplus;
    }

    fn drawn(&self, drawn: &mut Drawn) -> String {
        let mut text = self.rows.join("\r\n");
        let up = self.rows.len().saturating_sub(1) - self.cursor.0;
        if up > 0 {
            let _ = write!(text, "\x1b[{up}A");
        }
        text.push('\r');
        if self.cursor.1 > 0 {
            let _ = write!(text, "\x1b[{}C", self.cursor.1);
        }
        drawn.any = !self.rows.is_empty();
        drawn.above = self.widths.iter().copied().take(self.cursor.0).collect();
        if drawn.any { text } else { String::new() }
    }
}

/// From the cursor to the first row of what is drawn, and all of it away. A screen that has become narrower has broken
/// the rows.
fn erase(drawn: &mut Drawn, columns: usize) -> String {
    let Drawn { above, any } = std::mem::take(drawn);
    let up: usize = above.iter().map(|width| width.div_ceil(columns).max(1)).sum();
    match (any, up) {
        (false, _) => String::new(),
        (true, 0) => "\r\x1b[J".to_owned(),
        (true, up) => format!("\r\x1b[{up}A\x1b[J"),
    }
}

fn width_of_screen() -> usize {
    columns(std::io::stdout()).unwrap_or(80)
}

/// Lines that wait and are shown.
const QUEUED: usize = 3;
/// How often what turns is drawn.
const FRAME: Duration = Duration::from_millis(200);

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(text: &str, cursor: usize, columns: usize, most: usize) -> (Vec<String>, (usize, usize)) {
        let mut picture = Picture::default();
        picture.typed(text, cursor, "›", columns, most);
        (picture.rows, picture.cursor)
    }

    #[test]
    fn what_is_typed_is_broken_where_the_screen_ends() {
        assert_eq!(typed("", 0, 10, 5), (vec!["› ".into()], (0, 2)));
        assert_eq!(typed("abc", 1, 10, 5), (vec!["› abc".into()], (0, 3)));
        assert_eq!(typed("12345678", 8, 10, 5), (vec!["› 12345678".into(), "  ".into()], (1, 2)));
        assert_eq!(typed("one\ntwo", 7, 10, 5), (vec!["› one".into(), "  two".into()], (1, 5)));
        assert_eq!(typed("中文中文中", 15, 10, 5), (vec!["› 中文中文".into(), "  中".into()], (1, 4)));
        let (rows, cursor) = typed("a\nb\nc\nd", 7, 10, 2);
        assert_eq!((rows, cursor), (vec!["  c".into(), "  d".into()], (1, 3)));
    }

    #[test]
    fn a_narrower_screen_has_broken_the_rows() {
        let mut drawn = Drawn { above: vec![30, 5, 0], any: true };
        assert_eq!(erase(&mut drawn, 20), "\r\x1b[4A\x1b[J");
        assert_eq!(erase(&mut drawn, 20), "");
    }
}
