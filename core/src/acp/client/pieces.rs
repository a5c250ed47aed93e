//! Pieces of text on their way to the application. A character that the agent cut in two, as JavaScript does, is one
//! again when its second half follows; a half that stays alone is told as U+FFFD.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Client, Event, Moment, Text};
use crate::acp::fast::TextChunk;
use crate::acp::lenient::{Object, object};
use crate::acp::update::{Chunk, Speaker};
use crate::acp::{ContentBlock, Json, SessionId, Update};
use crate::lines::Line;
use crate::rpc::{Halves, join};

/// The end of a piece of text: half a character.
#[derive(Debug)]
pub(super) struct Cut {
    speaker: Speaker,
    moment: Moment,
    message: Option<Arc<str>>,
    first: u16,
}

impl Client {
    /// A piece that was decoded in one pass, in which there is no half of a character.
    pub(super) fn text_chunk(&mut self, chunk: TextChunk<'_>) {
        if let Some((session, of)) = self.sessions.subagent(&chunk.session) {
            let content = ContentBlock::text(chunk.text);
            let message_id = chunk.message.map(|id| id.into_owned());
            let update = Update::Message(chunk.speaker, Chunk { content, message_id, meta: None });
            let raw = Json::new(&update);
            return self.of_subagent(session, of, update, raw);
        }
        let Some((session, moment)) = self.place(&chunk.session) else { return };
        let message = chunk.message.map(|id| self.intern(&id));
        let text = chunk.text.into_owned();
        self.piece(Text { session, speaker: chunk.speaker, moment, text, message }, Halves::default());
    }

    /// Tells a piece of text; `line` is what it came in.
    pub(super) fn text(&mut self, piece: Text, line: Line<'_>) {
        let may_be_cut = piece.text.starts_with(char::REPLACEMENT_CHARACTER)
            || piece.text.ends_with(char::REPLACEMENT_CHARACTER);
        let halves = if may_be_cut { halves_of(line) } else { Halves::default() };
        self.piece(piece, halves);
    }

    fn piece(&mut self, mut piece: Text, halves: Halves) {
        if !self.cuts.is_empty()
            && let Some(cut) = self.cuts.remove(&piece.session)
        {
            let same = cut.speaker == piece.speaker && cut.message == piece.message;
            match halves.second.filter(|_| same).and_then(|second| join(cut.first, second)) {
                Some(whole) => {
                    piece.text.remove(0);
                    piece.text.insert(0, whole);
                }
                None => self.tell_cut(&piece.session, cut),
            }
        }
        if let Some(first) = halves.first
            && self.sessions.get(piece.session.as_str()).is_some()
        {
            piece.text.pop();
            let Text { speaker, moment, message, .. } = &piece;
            let cut = Cut { speaker: *speaker, moment: *moment, message: message.clone(), first };
            self.cuts.insert(piece.session.clone(), cut);
            if piece.text.is_empty() {
                return;
            }
        }
        self.wire.tell(Event::Text(piece));
    }

    /// Something else comes: the second half will not.
    pub(super) fn end_of_text(&mut self, session: &SessionId) {
        if let Some(cut) = self.cuts.remove(session) {
            self.tell_cut(session, cut);
        }
    }

    pub(super) fn end_of_all_text(&mut self) {
        for (session, cut) in std::mem::take(&mut self.cuts) {
            self.tell_cut(&session, cut);
        }
    }

    fn tell_cut(&mut self, session: &SessionId, Cut { speaker, moment, message, .. }: Cut) {
        let text = char::REPLACEMENT_CHARACTER.to_string();
        self.wire.tell(Event::Text(Text { session: session.clone(), speaker, moment, text, message }));
    }
}

/// The halves at both ends of the text, as the agent wrote it.
fn halves_of(line: Line<'_>) -> Halves {
    #[derive(Deserialize)]
    struct Message<'a> {
        #[serde(borrow)]
        params: Object<Params<'a>>,
    }
    #[derive(Deserialize)]
    struct Params<'a> {
        #[serde(borrow)]
        update: Object<Update<'a>>,
    }
    #[derive(Deserialize)]
    struct Update<'a> {
        #[serde(borrow)]
        content: Object<Content<'a>>,
    }
    #[derive(Deserialize)]
    struct Content<'a> {
        #[serde(borrow)]
        text: &'a RawValue,
    }
    let Line::Text(line) = line else { return Halves::default() };
    object(line).map_or_else(
        |_| Halves::default(),
        |Message {
             params: Object(Params { update: Object(Update { content: Object(Content { text }) }) }),
         }| { Halves::of(text.get()) },
    )
}
