//! What a terminal obeys instead of showing it. Whatever a peer says goes through here before it can reach one.

use std::borrow::Cow;

/// Text of a peer in a line of ours: it stays on its line.
pub(crate) fn plain(text: &str) -> Cow<'_, str> {
    clean(text, Keep { lines: false, styles: false })
}

/// Text of a peer on lines of its own.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    clean(text, Keep { lines: true, styles: false })
}

/// Lines of ours, as the last thing before a terminal: colours are all that it may obey.
pub(crate) fn styled(text: &str) -> Cow<'_, str> {
    clean(text, Keep { lines: true, styles: true })
}

#[derive(Clone, Copy)]
struct Keep {
    /// Line ends and tabs.
    lines: bool,
    /// Colours.
    styles: bool,
}

fn clean(text: &str, keep: Keep) -> Cow<'_, str> {
    let is_kept = |letter| keep.lines && matches!(letter, '\n' | '\t');
    if !text.contains(|letter| is_obeyed(letter) && !is_kept(letter)) {
        return text.into();
    }
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        let style = style(rest);
        let (taken, after) = rest.split_at(style.map_or(letter.len_utf8(), str::len));
        rest = after;
        if style.is_some() {
            // Many programs colour what they say. Colours of a peer are no harm, and of no use.
            shown.push_str(if keep.styles { taken } else { "" });
        } else if !is_obeyed(letter) || is_kept(letter) {
            shown.push_str(taken);
        } else if !(letter == '\r' && keep.lines && rest.starts_with('\n')) {
            shown.push('\u{fffd}');
        }
    }
    shown.into()
}

/// What a terminal acts upon instead of showing it, or shows in another place or not at all: control characters, marks
/// of direction, and what has no width but to hide something. Joiners are letters of some scripts, and stay.
fn is_obeyed(letter: char) -> bool {
    letter.is_control()
        || matches!(
            letter,
            '\u{ad}'
                | '\u{61c}'
                | '\u{180e}'
                | '\u{200b}'
                | '\u{200e}'
                | '\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{2069}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

/// The escape sequence of a colour that a text begins with.
fn style(text: &str) -> Option<&str> {
    let parameters = text.strip_prefix("\u{1b}[")?;
    let end = parameters.find(|letter: char| !matches!(letter, '0'..='9' | ';' | ':'))?;
    parameters[end..].starts_with('m').then(|| &text[..2 + end + 1])
}

#[cfg(test)]
mod tests {
    use quickcheck::quickcheck;

    use super::*;

    #[test]
    fn a_terminal_has_nothing_to_obey() {
        assert_eq!(plain("\u{1b}[2Jrm\r\n\u{202e}x"), "\u{fffd}[2Jrm\u{fffd}\u{fffd}\u{fffd}x");
        assert_eq!(plain("plain 中 🎉"), "plain 中 🎉");
        assert_eq!(printable("a\r\n\tb\u{1b}]0;x\u{7}\n"), "a\n\tb\u{fffd}]0;x\u{fffd}\n");
        assert_eq!(printable("10%\r20%"), "10%\u{fffd}20%");
        assert_eq!(plain("\u{1b}[1;31merror\u{1b}[0m \u{1b}[31"), "error \u{fffd}[31");
        assert_eq!(styled("\u{1b}[2mdim\u{1b}[0m\u{1b}[K"), "\u{1b}[2mdim\u{1b}[0m\u{fffd}[K");
        assert_eq!(plain("o\u{200b}k\u{feff}"), "o\u{fffd}k\u{fffd}");
        // A family is one letter, held together by joiners.
        assert_eq!(plain("👨\u{200d}👩\u{200d}👧 می\u{200c}خواهم"), "👨\u{200d}👩\u{200d}👧 می\u{200c}خواهم");
    }

    quickcheck! {
        fn c3_whatever_is_said_nothing_is_obeyed(pieces: Vec<(u8, String)>) -> bool {
            let evil = ["\u{1b}", "\u{1b}[2J", "\u{1b}]52;c;eA==\u{7}", "\u{9b}31m", "\r", "\u{202e}", "\u{1b}[", "31m", "\u{200b}"];
            let text: String = pieces
                .iter()
                .flat_map(|(pick, text)| [evil[usize::from(*pick) % evil.len()], text])
                .collect();
            let bare = |text: &str| text.replace(['\n', '\t'], "");
            let [one, lines, ours] = [plain(&text), printable(&text), styled(&text)];
            let once = styled(&ours) == ours && printable(&lines) == lines && plain(&one) == one;
            let mut colours = bare(&ours);
            while let Some(at) = colours.find('\u{1b}') {
                let Some(style) = style(&colours[at..]) else { return false };
                let end = at + style.len();
                colours.replace_range(at..end, "");
            }
            once && !one.contains(is_obeyed) && !bare(&lines).contains(is_obeyed) && !colours.contains(is_obeyed)
        }
    }
}
