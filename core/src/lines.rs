//! Bytes to lines: any chunking gives the same lines, and no line is held beyond the limit.

use memchr::memchr;

use crate::machine::Now;

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
    /// More bytes than the limit. The rest is passed over; the next line is sound again.
    TooLong,
}

impl Lines {
    /// Takes lines of up to `limit` bytes, line end not counted.
    #[must_use]
    pub const fn new(limit: usize) -> Self {
        Self { limit, carry: Vec::new(), lent: false, skipping: false, waiting: Waiting::NOTHING }
    }

    /// Feeds a chunk and lends the lines that it ends.
    pub const fn feed<'a>(&'a mut self, chunk: &'a [u8]) -> Feed<'a> {
        Feed { lines: self, rest: chunk }
    }

    /// The stream has ended: what is left is a line without an end.
    pub fn finish(&mut self) -> Option<Line<'_>> {
        self.take_back();
        self.skipping = false;
        self.lent = true;
        line(&self.carry)
    }

    /// Clears the carry after the line in it was lent out.
    fn take_back(&mut self) {
        if std::mem::take(&mut self.lent) {
            self.carry.clear();
            self.carry.shrink_to(KEPT);
        }
    }

    /// Appends to the carry, whose capacity stays within the limit however it grows.
    fn keep(&mut self, piece: &[u8]) {
        if self.carry.capacity() > self.limit / 2 {
            self.carry.reserve_exact(self.limit.saturating_sub(self.carry.len()));
        }
        self.carry.extend_from_slice(piece);
    }

    /// Bytes of lines that had to wait.
    pub(crate) const fn waiting(&self) -> usize {
        self.waiting.len()
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
                self.lines.carry = Vec::new();
                return Some(Line::TooLong);
            }
            if self.lines.carry.is_empty() {
                if let Some(line) = line(piece) {
                    return Some(line);
                }
            } else {
                self.lines.keep(piece);
                if is_blank(content(&self.lines.carry)) {
                    self.lines.carry.clear();
                } else {
                    self.lines.lent = true;
                    return line(&self.lines.carry);
                }
            }
        }
    }

    /// Keeps the start of an unfinished line, unless it is too long already.
    fn keep_rest(&mut self) -> Option<Line<'static>> {
        let rest = std::mem::take(&mut self.rest);
        if self.lines.skipping || rest.is_empty() {
            return None;
        }
        if self.lines.carry.len() + rest.len() > self.lines.limit {
            self.lines.carry = Vec::new();
            self.lines.skipping = true;
            return Some(Line::TooLong);
        }
        self.lines.keep(rest);
        None
    }
}

/// A machine that reads lines, and whose mind each line may change.
pub(crate) trait ReadLines {
    /// Its lines. They are not there while it reads one.
    fn lines(&mut self) -> &mut Lines;

    /// Whether it takes the next one.
    fn takes(&self) -> Takes;

    /// Reads one.
    fn line(&mut self, now: Now, line: Line<'_>);

    /// Bytes came.
    fn read(&mut self, now: Now, bytes: &[u8]) {
        let mut lines = std::mem::replace(self.lines(), Lines::new(0));
        let left = if lines.waiting.is_empty() { take(self, now, &mut lines, bytes) } else { bytes };
        lines.waiting.push(left);
        *self.lines() = lines;
    }

    /// The stream has ended. An unterminated last line is a line, and the end takes its turn behind what waits.
    fn read_end(&mut self, now: Now) {
        self.read(now, b"\n");
    }

    /// Goes on with what had to wait.
    fn resume(&mut self, now: Now) {
        if !self.lines().waiting.is_empty() {
            let mut lines = std::mem::replace(self.lines(), Lines::new(0));
            let waiting = std::mem::take(&mut lines.waiting);
            let left = take(self, now, &mut lines, waiting.rest()).len();
            lines.waiting = waiting.keep(left);
            *self.lines() = lines;
        }
    }
}

/// Whether a reader takes a line.
pub(crate) enum Takes {
    Now,
    /// What comes has to wait. Whoever says so holds its link.
    Later,
    /// What comes is thrown away.
    Never,
}

/// Reads lines as long as they are taken, and returns what has to wait.
fn take<'a, R: ReadLines + ?Sized>(reader: &mut R, now: Now, lines: &mut Lines, bytes: &'a [u8]) -> &'a [u8] {
    let mut feed = lines.feed(bytes);
    loop {
        match reader.takes() {
            Takes::Now => match feed.next() {
                Some(line) => reader.line(now, line),
                None => return &[],
            },
            Takes::Later => {
                let left = feed.stop();
                return bytes.get(bytes.len() - left..).unwrap_or_default();
            }
            Takes::Never => return &[],
        }
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

    const fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// `None` for a blank line.
fn line(bytes: &[u8]) -> Option<Line<'_>> {
    let bytes = content(bytes);
    if is_blank(bytes) {
        return None;
    }
    Some(std::str::from_utf8(bytes).map_or(Line::NotUtf8(bytes), Line::Text))
}

fn content(bytes: &[u8]) -> &[u8] {
    let bytes = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes);
    bytes.strip_suffix(b"\r").unwrap_or(bytes)
}

fn is_blank(bytes: &[u8]) -> bool {
    bytes.iter().all(u8::is_ascii_whitespace)
}

const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();
/// Capacity that survives a line: what one read usually leaves over.
const KEPT: usize = 64 << 10;

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
        seen.extend(lines.finish().map(|line| format!("end {line:?}")));
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
            ["Text(\"0123456789\")", "TooLong", "Text(\"b\")", "TooLong"]
        );
        let mut lines = Lines::new(10);
        for _ in 0..1000 {
            let mut feed = lines.feed(b"xxxxxxx");
            while feed.next().is_some() {}
            assert!(lines.held() <= 10);
        }
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

    /// Takes one line at a time, and nothing after one that says so.
    struct Slow {
        lines: Lines,
        seen: Vec<String>,
        busy: bool,
    }

    impl ReadLines for Slow {
        fn lines(&mut self) -> &mut Lines {
            &mut self.lines
        }

        fn takes(&self) -> Takes {
            match self.seen.last() {
                Some(last) if last == "Text(\"stop\")" => Takes::Never,
                Some(_) if self.busy => Takes::Later,
                Some(_) | None => Takes::Now,
            }
        }

        fn line(&mut self, _: Now, line: Line<'_>) {
            self.seen.push(format!("{line:?}"));
            self.busy = true;
        }
    }

    #[test]
    fn what_a_slow_reader_takes_later_is_the_same() {
        let stream = b"ab\n\ncd\r\n0123456789a\nef\n\xff\ngh";
        for (first, second) in
            (0..=stream.len()).flat_map(|second| (0..=second).map(move |first| (first, second)))
        {
            let mut slow = Slow { lines: Lines::new(10), seen: Vec::new(), busy: false };
            let now = Now::default();
            for piece in [&stream[..first], &stream[first..second], &stream[second..]] {
                slow.read(now, piece);
                slow.busy = false;
                slow.resume(now);
            }
            slow.read_end(now);
            while slow.lines.waiting() > 0 {
                slow.busy = false;
                slow.resume(now);
            }
            let whole: Vec<String> =
                lines(10, stream, &[]).iter().map(|line| line.replace("end ", "")).collect();
            assert_eq!(slow.seen, whole, "{first} {second}");
        }
    }

    #[test]
    fn what_nobody_will_take_is_not_kept() {
        let mut slow = Slow { lines: Lines::new(10), seen: Vec::new(), busy: true };
        slow.read(Now::default(), b"a\nstop\nb\n");
        assert_eq!(slow.lines.waiting(), 7);
        slow.busy = false;
        slow.resume(Now::default());
        slow.read(Now::default(), b"c\n");
        assert_eq!((slow.lines.waiting(), slow.seen.len()), (0, 2));
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
