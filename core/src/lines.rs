//! Bytes to lines: any chunking gives the same lines, and no line is held beyond the limit.
//!
//! What is no line of text is told as what it is, the same for every reader: [`rpc::read`](crate::rpc::read) says
//! what a reader makes of it.

use std::borrow::Cow;

use memchr::memchr;

/// Cuts a byte stream into lines. Lines that lie within one chunk are lent from it without a copy.
#[derive(Debug)]
pub struct Lines {
    limit: usize,
    /// The start of a line whose end has not come.
    carry: Vec<u8>,
    /// What is in `carry` is a whole line, and its reader is done with it.
    lent: bool,
    /// The rest of a line over the limit is being passed over.
    skipping: bool,
    /// An object came: whoever sends them one a line does not frame them by headers.
    begun: bool,
    /// Of a reader that takes lines when it can.
    waiting: Waiting,
}

/// One line, without its line end.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Line<'a> {
    /// Text; neither blank nor with a byte order mark.
    Text(&'a str),
    /// Bytes that are not UTF-8.
    NotUtf8(&'a [u8]),
    /// More bytes than the limit, and the first of them: at most 4 KiB, enough for an id. The rest is passed over.
    TooLong(&'a [u8]),
    /// A header as language servers write it, before any object: its writer frames messages like mail.
    Header(&'a str),
}

impl<'a> Line<'a> {
    /// The line as people are shown it, as far as it is there.
    #[must_use]
    pub fn shown(self) -> Cow<'a, str> {
        match self {
            Self::Text(text) | Self::Header(text) => Cow::Borrowed(text),
            Self::NotUtf8(bytes) | Self::TooLong(bytes) => String::from_utf8_lossy(bytes),
        }
    }
}

impl Lines {
    /// Takes lines of up to `limit` bytes, line end not counted.
    #[must_use]
    pub const fn new(limit: usize) -> Self {
        Self {
            limit,
            carry: Vec::new(),
            lent: false,
            skipping: false,
            begun: false,
            waiting: Waiting::NOTHING,
        }
    }

    /// Feeds a chunk and lends the lines that it ends. Where a stream has ended, a line end brings what is left of it.
    pub const fn feed<'a>(&'a mut self, chunk: &'a [u8]) -> Feed<'a> {
        Feed { lines: self, rest: chunk }
    }

    /// Clears the carry after the line in it was lent out.
    fn take_back(&mut self) {
        if std::mem::take(&mut self.lent) {
            if self.carry.capacity() > KEPT {
                self.carry = Vec::new();
            } else {
                self.carry.clear();
            }
        }
    }

    /// Appends to the carry, whose capacity stays within the limit however it grows.
    fn keep(&mut self, piece: &[u8]) {
        if self.carry.capacity() > self.limit / 2 {
            self.carry.reserve_exact(self.limit.saturating_sub(self.carry.len()));
        }
        self.carry.extend_from_slice(piece);
    }

    /// The line in the carry, with what follows it here, is over the limit: its start is lent.
    fn too_long(&mut self, piece: &[u8]) -> Line<'_> {
        let start = START.min(self.limit);
        self.carry.truncate(start);
        self.carry.shrink_to(start);
        let more = piece.get(..start - self.carry.len()).unwrap_or(piece);
        self.carry.extend_from_slice(more);
        self.lent = true;
        Line::TooLong(&self.carry)
    }

    /// Bytes that had to wait.
    pub(crate) const fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Has bytes wait, behind those that do.
    pub(crate) fn wait(&mut self, bytes: &[u8]) {
        self.waiting.push(bytes);
    }

    /// Feeds what waits to `take`, which returns how many bytes have to wait on.
    pub(crate) fn resume(&mut self, take: impl FnOnce(&mut Self, &[u8]) -> usize) {
        let waiting = std::mem::take(&mut self.waiting);
        let left = take(self, waiting.rest());
        self.waiting = waiting.keep(left);
    }

    /// Bytes held for a line whose end has not come.
    #[must_use]
    pub const fn held(&self) -> usize {
        if self.lent { 0 } else { self.carry.len() }
    }
}

/// The lines of one chunk, to be taken until there is none or [`stop`](Feed::stop) is called.
#[derive(Debug)]
pub struct Feed<'a> {
    lines: &'a mut Lines,
    rest: &'a [u8],
}

impl Feed<'_> {
    /// From here on lines may have so many bytes.
    pub(crate) const fn limit(&mut self, limit: usize) {
        self.lines.limit = limit;
    }

    /// Ends early and returns how many bytes at the end of the chunk no line was cut from; they are to be
    /// fed again.
    #[must_use]
    pub fn stop(self) -> usize {
        self.rest.len()
    }

    /// The next line; blank ones are passed over.
    #[expect(clippy::should_implement_trait, reason = "the line borrows from the feed")]
    pub fn next(&mut self) -> Option<Line<'_>> {
        self.lines.take_back();
        loop {
            let Some(end) = memchr(b'\n', self.rest) else {
                return self.keep_rest();
            };
            let (piece, rest) = self.rest.split_at(end);
            self.rest = rest.get(1..).unwrap_or_default();
            if std::mem::take(&mut self.lines.skipping) {
                continue;
            }
            if self.lines.carry.len() + piece.len() > self.lines.limit {
                return Some(self.lines.too_long(piece));
            }
            if self.lines.carry.is_empty() {
                if let Some(line) = line(piece, &mut self.lines.begun) {
                    return Some(line);
                }
            } else {
                self.lines.keep(piece);
                self.lines.lent = true;
                if is_blank(content(&self.lines.carry)) {
                    self.lines.take_back();
                } else {
                    return line(&self.lines.carry, &mut self.lines.begun);
                }
            }
        }
    }

    /// Keeps the start of an unfinished line, unless it is too long already.
    fn keep_rest(&mut self) -> Option<Line<'_>> {
        let rest = std::mem::take(&mut self.rest);
        if self.lines.skipping || rest.is_empty() {
            return None;
        }
        if self.lines.carry.len() + rest.len() > self.lines.limit {
            // Told now: a line whose end never comes would never be told.
            self.lines.skipping = true;
            return Some(self.lines.too_long(rest));
        }
        self.lines.keep(rest);
        None
    }
}

/// Bytes that came while no line was taken.
#[derive(Debug, Default)]
struct Waiting {
    bytes: Vec<u8>,
    taken: usize,
}

impl Waiting {
    const NOTHING: Self = Self { bytes: Vec::new(), taken: 0 };

    fn push(&mut self, bytes: &[u8]) {
        if !bytes.is_empty() {
            // What was taken makes room only when more comes: one move a chunk, and not one a line.
            self.bytes.drain(..self.taken);
            self.taken = 0;
            self.bytes.extend_from_slice(bytes);
        }
    }

    fn rest(&self) -> &[u8] {
        self.bytes.get(self.taken..).unwrap_or_default()
    }

    /// Without all but the last `left` bytes. One that is used up gives its memory back.
    fn keep(self, left: usize) -> Self {
        match left {
            0 => Self::NOTHING,
            left => Self { taken: self.bytes.len().saturating_sub(left), ..self },
        }
    }

    const fn len(&self) -> usize {
        self.bytes.len() - self.taken
    }
}

/// `None` for a blank line.
fn line<'a>(bytes: &'a [u8], begun: &mut bool) -> Option<Line<'a>> {
    let bytes = content(bytes);
    if is_blank(bytes) {
        return None;
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return Some(Line::NotUtf8(bytes)) };
    if !*begun {
        if is_header(text) {
            return Some(Line::Header(text));
        }
        *begun = text.trim_ascii_start().starts_with('{');
    }
    Some(Line::Text(text))
}

fn is_header(line: &str) -> bool {
    line.get(..HEADER.len()).is_some_and(|start| start.eq_ignore_ascii_case(HEADER))
}

fn content(bytes: &[u8]) -> &[u8] {
    let bytes = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes);
    bytes.strip_suffix(b"\r").unwrap_or(bytes)
}

fn is_blank(bytes: &[u8]) -> bool {
    bytes.iter().all(u8::is_ascii_whitespace)
}

const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();
const HEADER: &str = "content-length:";
/// Bytes of a line over the limit that are lent: room for the longest id and what stands before it.
const START: usize = 4 << 10;
/// Capacity that survives a line: what one read leaves over of lines as most are. An idle link keeps no more.
const KEPT: usize = 2 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines of a stream cut at `cuts`, as a reader would print them.
    fn lines(limit: usize, stream: &[u8], cuts: &[usize]) -> Vec<String> {
        let mut lines = Lines::new(limit);
        let mut seen = Vec::new();
        let mut from = 0;
        for to in cuts.iter().copied().chain([stream.len()]) {
            let mut feed = lines.feed(&stream[from..to]);
            while let Some(line) = feed.next() {
                seen.push(format!("{line:?}"));
            }
            from = to;
        }
        seen.extend(lines.feed(b"\n").next().map(|line| format!("end {line:?}")));
        seen
    }

    #[test]
    fn every_cut_gives_the_same_lines() {
        let streams: [&[u8]; 7] = [
            b"a\nbc\r\n\n  \t\nd",
            "中🎉—\n\u{feff}x\n".as_bytes(),
            b"0123456789\n01234567890\nok\n",
            b"\xff\xfe\n\xe4\xb8\n",
            b"",
            b"\n\r\n",
            b"0123456789abcdef",
        ];
        for stream in streams {
            let whole = lines(10, stream, &[]);
            for first in 0..=stream.len() {
                for second in first..=stream.len() {
                    assert_eq!(lines(10, stream, &[first, second]), whole, "{stream:?} {first} {second}");
                }
            }
        }
    }

    #[test]
    fn the_limit_is_of_the_line_and_not_of_the_buffer() {
        assert_eq!(
            lines(10, b"0123456789\n0123456789a\nb\nlast one 10", &[]),
            ["Text(\"0123456789\")", &too_long("0123456789"), "Text(\"b\")", &too_long("last one 1")]
        );
        let mut lines = Lines::new(10);
        for _ in 0..1000 {
            let mut feed = lines.feed(b"xxxxxxx");
            while feed.next().is_some() {}
            assert!(lines.held() <= 10);
        }
    }

    fn too_long(start: &str) -> String {
        format!("{:?}", Line::TooLong(start.as_bytes()))
    }

    #[test]
    fn a_header_is_one_only_before_any_object() {
        let header = "Header(\"Content-Length: 2\")";
        assert_eq!(
            lines(99, b"\n\xef\xbb\xbfContent-Length: 2\r\n\r\n{}", &[]),
            [header, "end Text(\"{}\")"]
        );
        assert_eq!(
            lines(99, b"hello\nContent-Length: 2\n {}\nContent-Length: 2\n", &[]),
            ["Text(\"hello\")", header, "Text(\" {}\")", "Text(\"Content-Length: 2\")"]
        );
    }

    #[test]
    fn the_start_of_a_long_line_is_lent_and_not_kept() {
        let mut lines = Lines::new(1 << 20);
        let mut feed = lines.feed(&[b'x'; 900_000]);
        assert_eq!(feed.next(), None);
        let mut feed = lines.feed(&[b'y'; 900_000]);
        assert_eq!(feed.next(), Some(Line::TooLong(&[b'x'; START])));
        assert_eq!(feed.next(), None);
        assert!(lines.carry.capacity() <= KEPT);
        let mut feed = lines.feed(b"\nnext\n");
        assert_eq!(feed.next(), Some(Line::Text("next")));
    }

    #[test]
    fn a_feed_that_stops_says_what_is_left() {
        let mut lines = Lines::new(10);
        let mut feed = lines.feed(b"ab");
        assert_eq!(feed.next(), None);
        let chunk = b"c\nd\ne";
        let mut feed = lines.feed(chunk);
        assert_eq!(feed.next(), Some(Line::Text("abc")));
        let left = feed.stop();
        assert_eq!(left, 3);
        let mut feed = lines.feed(&chunk[chunk.len() - left..]);
        assert_eq!(feed.next(), Some(Line::Text("d")));
        assert_eq!(feed.next(), None);
        assert_eq!(lines.held(), 1);
    }

    #[test]
    fn a_long_line_gives_its_memory_back() {
        let mut lines = Lines::new(1 << 20);
        let mut feed = lines.feed(&[b'x'; 900_000]);
        assert_eq!(feed.next(), None);
        let mut feed = lines.feed(b"\nshort\n");
        assert!(feed.next().is_some());
        assert_eq!(feed.next(), Some(Line::Text("short")));
        assert!(lines.carry.capacity() <= KEPT);
    }
}
