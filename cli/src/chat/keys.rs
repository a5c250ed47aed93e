//! What a terminal sends for the keys that are pressed.

/// One key, or what was pasted in one piece.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Key {
    Char(char),
    Paste(String),
    Enter,
    /// Alt-Enter: a new line in the same text.
    NewLine,
    Backspace,
    Delete,
    Left,
    Right,
    WordLeft,
    WordRight,
    Up,
    Down,
    Home,
    End,
    /// Ctrl-W.
    KillWord,
    /// Ctrl-U.
    KillBefore,
    /// Ctrl-K.
    KillAfter,
    /// Ctrl-C.
    Interrupt,
    /// Ctrl-D.
    Leave,
    /// Ctrl-Z.
    Suspend,
    /// Ctrl-L.
    Clear,
}

/// Makes keys of bytes, however they are cut.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    /// The beginning of a key.
    begun: Vec<u8>,
    /// What is being pasted.
    pasted: Option<Vec<u8>>,
}

/// What the bytes so far are.
enum Read {
    /// So many of them are this key, or none that we know.
    Key(usize, Option<Key>),
    PasteBegins(usize),
    More,
}

impl Keys {
    pub(crate) fn feed(&mut self, bytes: &[u8], mut on: impl FnMut(Key)) {
        self.begun.extend_from_slice(bytes);
        loop {
            if let Some(pasted) = &mut self.pasted {
                let end = find(&self.begun, PASTE_END);
                // What may be the beginning of the end stays.
                let sure = end.unwrap_or_else(|| self.begun.len().saturating_sub(PASTE_END.len() - 1));
                let room = LONGEST.saturating_sub(pasted.len());
                pasted.extend(self.begun.drain(..sure).take(room));
                if end.is_none() {
                    return;
                }
                self.begun.drain(..PASTE_END.len());
                let text = String::from_utf8_lossy(&self.pasted.take().unwrap_or_default()).into_owned();
                on(Key::Paste(text.replace("\r\n", "\n").replace('\r', "\n")));
                continue;
            }
            match read(&self.begun) {
                Read::Key(bytes, key) => {
                    self.begun.drain(..bytes);
                    key.into_iter().for_each(&mut on);
                }
                Read::PasteBegins(bytes) => {
                    self.begun.drain(..bytes);
                    self.pasted = Some(Vec::new());
                }
                Read::More => return,
            }
        }
    }

    /// Nothing came for a while: what looked like the beginning of a key was the key Escape, which does nothing.
    pub(crate) fn pause(&mut self) {
        if self.pasted.is_none() {
            self.begun.clear();
        }
    }

    /// Whether more bytes may change what the last ones were.
    pub(crate) fn is_open(&self) -> bool {
        self.pasted.is_none() && !self.begun.is_empty()
    }
}

fn read(bytes: &[u8]) -> Read {
    match bytes {
        [] | [ESC] => Read::More,
        [ESC, b'[', rest @ ..] => sequence(rest),
        [ESC, b'O', rest @ ..] => match rest {
            [] => Read::More,
            [last, ..] => Read::Key(3, arrow(*last, false)),
        },
        // Escape before another key: Alt and that key.
        [ESC, ESC, ..] => Read::Key(1, None),
        [ESC, rest @ ..] => match read(rest) {
            Read::Key(bytes, key) => Read::Key(1 + bytes, key.and_then(alt)),
            Read::PasteBegins(_) | Read::More => Read::More,
        },
        [first, ..] if *first < 0x20 || *first == 0x7f => Read::Key(1, control(*first)),
        [first, ..] => letter(*first, bytes),
    }
}

/// What follows `ESC [`: parameters, and the letter that ends them.
fn sequence(rest: &[u8]) -> Read {
    let Some(end) = rest.iter().position(|byte| (0x40..=0x7e).contains(byte)) else {
        // No key is as long.
        return if rest.len() > 32 { Read::Key(2 + rest.len(), None) } else { Read::More };
    };
    let used = 2 + end + 1;
    let numbers: Vec<&[u8]> = rest[..end].split(|byte| *byte == b';').collect();
    let with_control = numbers.get(1).is_some_and(|number| matches!(*number, b"3" | b"5"));
    Read::Key(
        used,
        match (rest[end], numbers[0]) {
            (b'~', b"200") => return Read::PasteBegins(used),
            (b'~', b"1" | b"7") => Some(Key::Home),
            (b'~', b"4" | b"8") => Some(Key::End),
            (b'~', b"3") => Some(Key::Delete),
            // Enter with a modifier, where the terminal tells: xterm's way, and the newer one.
            (b'~', b"27") if numbers.get(2) == Some(&&b"13"[..]) => Some(Key::NewLine),
            (b'u', b"13") => Some(Key::NewLine),
            (last, _) => arrow(last, with_control),
        },
    )
}

const fn arrow(last: u8, with_control: bool) -> Option<Key> {
    Some(match last {
        b'A' => Key::Up,
        b'B' => Key::Down,
        b'C' if with_control => Key::WordRight,
        b'D' if with_control => Key::WordLeft,
        b'C' => Key::Right,
        b'D' => Key::Left,
        b'H' => Key::Home,
        b'F' => Key::End,
        _ => return None,
    })
}

fn alt(key: Key) -> Option<Key> {
    let meant =
        [(Key::Enter, Key::NewLine), (Key::Char('b'), Key::WordLeft), (Key::Char('f'), Key::WordRight)];
    let meant = meant.into_iter().chain([(Key::Backspace, Key::KillWord)]);
    meant.into_iter().find(|(plain, _)| *plain == key).map(|(_, with_alt)| with_alt)
}

const fn control(byte: u8) -> Option<Key> {
    Some(match byte {
        0x01 => Key::Home,
        0x02 => Key::Left,
        0x03 => Key::Interrupt,
        0x04 => Key::Leave,
        0x05 => Key::End,
        0x06 => Key::Right,
        0x08 | 0x7f => Key::Backspace,
        b'\t' => Key::Char('\t'),
        b'\r' | b'\n' => Key::Enter,
        0x0b => Key::KillAfter,
        0x0c => Key::Clear,
        0x0e => Key::Down,
        0x10 => Key::Up,
        0x15 => Key::KillBefore,
        0x17 => Key::KillWord,
        0x1a => Key::Suspend,
        _ => return None,
    })
}

fn letter(first: u8, bytes: &[u8]) -> Read {
    let length = match first {
        0..0x80 => 1,
        0xc0..0xe0 => 2,
        0xe0..0xf0 => 3,
        0xf0..0xf8 => 4,
        // The middle of a letter whose beginning we never saw.
        _ => return Read::Key(1, None),
    };
    let Some(letter) = bytes.get(..length) else { return Read::More };
    let letter = std::str::from_utf8(letter).ok().and_then(|letter| letter.chars().next());
    match letter {
        Some(letter) => Read::Key(length, Some(Key::Char(letter))),
        None => Read::Key(1, None),
    }
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

const ESC: u8 = 0x1b;
const PASTE_END: &[u8] = b"\x1b[201~";
/// Bytes of a line or of what is pasted: far more than anybody types.
pub(crate) const LONGEST: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(pieces: &[&[u8]]) -> Vec<Key> {
        let (mut keys, mut seen) = (Keys::default(), Vec::new());
        pieces.iter().for_each(|piece| keys.feed(piece, |key| seen.push(key)));
        seen
    }

    #[test]
    fn keys_are_what_terminals_send_for_them() {
        for (bytes, key) in [
            ("a", Key::Char('a')),
            ("ä", Key::Char('ä')),
            ("🎉", Key::Char('🎉')),
            ("\r", Key::Enter),
            ("\n", Key::Enter),
            ("\x1b\r", Key::NewLine),
            ("\x1b[13;2u", Key::NewLine),
            ("\x1b[27;2;13~", Key::NewLine),
            ("\x7f", Key::Backspace),
            ("\x1b[3~", Key::Delete),
            ("\x1b[A", Key::Up),
            ("\x1bOB", Key::Down),
            ("\x1b[1;5D", Key::WordLeft),
            ("\x1bf", Key::WordRight),
            ("\x1b[H", Key::Home),
            ("\x1b[4~", Key::End),
            ("\x03", Key::Interrupt),
            ("\x1a", Key::Suspend),
            ("\x1b[200~two\r\nlines\x1b[201~", Key::Paste("two\nlines".into())),
        ] {
            assert_eq!(keys(&[bytes.as_bytes()]), [key], "{bytes:?}");
        }
        assert_eq!(keys(&[b"\x1b[99;99Zx\x1b\x1b[C\xff\x80y"]), [Key::Char('x'), Key::Right, Key::Char('y')]);
    }

    #[test]
    fn keys_may_come_in_pieces() {
        let typed = "aä\x1b[1;5C\x1b[200~p\x1b[20\r\x1b[201~\x1b\r🎉\x1b[3~".as_bytes();
        let whole = keys(&[typed]);
        assert_eq!(whole.len(), 7, "{whole:?}");
        for first in 0..typed.len() {
            for second in first..typed.len() {
                let pieces = [&typed[..first], &typed[first..second], &typed[second..]];
                assert_eq!(keys(&pieces), whole, "{first} {second}");
            }
        }
    }

    #[test]
    fn escape_alone_is_nothing() {
        let mut keys = Keys::default();
        keys.feed(b"\x1b", |key| panic!("{key:?}"));
        assert!(keys.is_open());
        keys.pause();
        let mut seen = Vec::new();
        keys.feed(b"b", |key| seen.push(key));
        assert_eq!(seen, [Key::Char('b')]);
    }

    #[test]
    fn g5_what_is_pasted_is_bounded() {
        let mut keys = Keys::default();
        keys.feed(b"\x1b[200~", |key| panic!("{key:?}"));
        for _ in 0..40 {
            keys.feed(&[b'x'; 64 << 10], |key| panic!("{key:?}"));
        }
        let mut length = 0;
        keys.feed(PASTE_END, |key| length = if let Key::Paste(text) = key { text.len() } else { 0 });
        assert_eq!(length, LONGEST);
    }
}
