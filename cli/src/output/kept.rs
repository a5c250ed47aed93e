//! What is kept of what an agent chooses the size of: as much as somebody reads, and never more than there is room for.

use std::io;

use agentline_core::acp::ContentBlock;
use agentline_core::acp::update::{Location, ToolCallUpdate, ToolContent};
use serde::Serialize;

use super::filter::plain;

/// The start of a text, with no letter cut in two.
pub(crate) fn start(text: &str) -> &str {
    &text[..text.floor_char_boundary(TEXT)]
}

/// Shortens a call to what a question about it can show. Contents for which there is no room are named instead: who
/// decides has to know that something is missing. What the call weighs then, in bytes.
pub(crate) fn shorten(call: &mut ToolCallUpdate, room: usize) -> usize {
    (call.raw_output, call.meta) = (None, None);
    for text in [&mut call.title, &mut call.name].into_iter().flatten() {
        shorten_text(text);
    }
    shorten_text(&mut call.tool_call_id);
    let details = details(call);
    if details > room.min(DETAILS) {
        let missing = format!("(what it is about, {} KiB, is too large to be kept)", details.div_ceil(1024));
        call.content = Some(vec![ToolContent::Content(ContentBlock::text(missing))]);
        (call.locations, call.raw_input) = (None, None);
    }
    let texts = [&call.title, &call.name].into_iter().flatten().map(String::len).sum::<usize>();
    ENTRY + call.tool_call_id.len() + texts + self::details(call)
}

/// The entries of a plan, as far as they are shown.
pub(crate) fn plan_entries<'a>(entries: impl Iterator<Item = &'a str>) -> Vec<String> {
    entries.take(ENTRIES).map(|entry| plain(start(entry)).into_owned()).collect()
}

fn shorten_text(text: &mut String) {
    text.truncate(start(text).len());
    text.shrink_to_fit();
}

fn details(call: &ToolCallUpdate) -> usize {
    let ToolCallUpdate { content, locations, raw_input, .. } = call;
    let input = raw_input.as_ref().map_or(0, |input| input.get().len());
    weight::<ToolContent>(content.as_deref()) + weight::<Location>(locations.as_deref()) + input
}

fn weight<T: Serialize>(items: Option<&[T]>) -> usize {
    let Some(items) = items else { return 0 };
    let mut count = Count(size_of_val(items));
    // It has been JSON before, and a count takes everything.
    let _ = serde_json::to_writer(&mut count, items);
    count.0
}

struct Count(usize);

impl io::Write for Count {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Bytes of a title, a name or an id.
const TEXT: usize = 4 << 10;
/// Entries of a plan.
const ENTRIES: usize = 100;
/// Bytes of what one call is about: a change of a file that nobody reads through is larger.
const DETAILS: usize = 1 << 20;
/// Bytes of what is kept of all calls, or of all questions.
pub(crate) const ROOM: usize = 8 << 20;
/// What a call costs beside its texts.
const ENTRY: usize = 512;
