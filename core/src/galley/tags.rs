//! The model's own tags in a stream of text: what people are meant to read, and what not.

/// Takes the tags of an agent's text out of it, however the stream is cut into pieces.
///
/// What stands in `<thinking>` is a thought; what stands in `<summary>`, `<tool_use>` and `<file_content>` is told by other
/// events, and left out. Anything else that looks like a tag is text. At most one tag is kept waiting for its other half.
#[derive(Debug, Default)]
pub struct Tags {
    /// What may become a tag.
    half: String,
    inside: Option<Tag>,
}

/// What people are meant to do with a piece.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Piece<'a> {
    /// To read it.
    Text(&'a str),
    /// To read it if they want to know how the model came to it.
    Thought(&'a str),
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Tag {
    Thinking,
    Hidden(&'static str),
}

impl Tag {
    const ALL: [Self; 4] =
        [Self::Thinking, Self::Hidden("summary"), Self::Hidden("tool_use"), Self::Hidden("file_content")];

    const fn name(self) -> &'static str {
        match self {
            Self::Thinking => "thinking",
            Self::Hidden(name) => name,
        }
    }
}

/// What stands at the beginning of a text that begins with `<`.
enum Start {
    /// A tag that counts here, and its length.
    Tag(Tag, usize),
    /// Perhaps one, if more comes.
    Half,
    Text,
}

impl Tags {
    /// Takes a piece, and says what is in it.
    pub fn push(&mut self, piece: &str, mut say: impl FnMut(Piece<'_>)) {
        let whole;
        let mut rest = if self.half.is_empty() {
            piece
        } else {
            self.half.push_str(piece);
            whole = std::mem::take(&mut self.half);
            &whole
        };
        while !rest.is_empty() {
            let (plain, tag) = rest.split_at(memchr::memchr(b'<', rest.as_bytes()).unwrap_or(rest.len()));
            self.say(plain, &mut say);
            rest = match self.start(tag) {
                Start::Tag(of, length) => {
                    self.inside = if self.inside.is_some() { None } else { Some(of) };
                    &tag[length..]
                }
                Start::Half => {
                    tag.clone_into(&mut self.half);
                    ""
                }
                Start::Text => {
                    let (less, behind) = tag.split_at(tag.len().min(1));
                    self.say(less, &mut say);
                    behind
                }
            };
        }
    }

    /// Nothing more is expected: what waited for its other half is text. A tag that is open stays open.
    pub fn flush(&mut self, mut say: impl FnMut(Piece<'_>)) {
        let half = std::mem::take(&mut self.half);
        self.say(&half, &mut say);
    }

    fn say(&self, text: &str, say: &mut impl FnMut(Piece<'_>)) {
        match self.inside {
            _ if text.is_empty() => {}
            None => say(Piece::Text(text)),
            Some(Tag::Thinking) => say(Piece::Thought(text)),
            Some(Tag::Hidden(_)) => {}
        }
    }

    /// Outside of all tags each that opens counts; inside of one only its own end does.
    fn start(&self, text: &str) -> Start {
        let mut is_half = false;
        let tags = self.inside.as_ref().map_or(&Tag::ALL[..], std::slice::from_ref);
        for tag in tags {
            let open = if self.inside.is_some() { "</" } else { "<" };
            let parts = [open, tag.name(), ">"];
            let length: usize = parts.iter().map(|part| part.len()).sum();
            let mut expected = parts.iter().flat_map(|part| part.bytes());
            if text.bytes().take(length).all(|byte| expected.next() == Some(byte)) {
                if text.len() >= length {
                    return Start::Tag(*tag, length);
                }
                is_half = true;
            }
        }
        if is_half && !text.is_empty() { Start::Half } else { Start::Text }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is read of a text in these pieces: words, and thoughts.
    fn read(pieces: &[&str]) -> (String, String) {
        let (mut words, mut thoughts) = (String::new(), String::new());
        let mut tags = Tags::default();
        let mut say = |piece: Piece<'_>| match piece {
            Piece::Text(text) => words.push_str(text),
            Piece::Thought(text) => thoughts.push_str(text),
        };
        for piece in pieces {
            tags.push(piece, &mut say);
            assert!(tags.half.len() < "</file_content>".len());
        }
        tags.flush(&mut say);
        (words, thoughts)
    }

    #[test]
    fn however_a_text_is_cut_the_same_is_read() {
        let text = "a<thinking>b < c</thinking>d<summary>é</summary></summary><tool_use>{\"x\":\"<summary>\"}</tool_use>\
                    e<br><file_content>f</file_contentx></file_content>ü<sum<<summary>g";
        let read_whole = read(&[text]);
        let expected = ("ad</summary>e<br>ü<sum<".to_owned(), "b < c".to_owned());
        assert_eq!(read_whole, expected);
        let cuts: Vec<usize> = (0..=text.len()).filter(|at| text.is_char_boundary(*at)).collect();
        for (n, first) in cuts.iter().enumerate() {
            for second in &cuts[n..] {
                let pieces = [&text[..*first], &text[*first..*second], &text[*second..]];
                assert_eq!(read(&pieces), expected, "{pieces:?}");
            }
        }
        let each: Vec<&str> = cuts.windows(2).map(|cut| &text[cut[0]..cut[1]]).collect();
        assert_eq!(read(&each), expected);
    }

    #[test]
    fn half_a_tag_is_text_when_nothing_follows() {
        assert_eq!(read(&["1 <", " 2"]).0, "1 < 2");
        assert_eq!(read(&["see </thi"]).0, "see </thi");
        assert_eq!(read(&["so <think"]).0, "so <think");
    }
}
