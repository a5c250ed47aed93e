//! Tool calls as they are known so far: news about them tell only what changed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use agentline_core::acp::Update;
use agentline_core::acp::update::{ToolCallUpdate, ToolContent, ToolKind, ToolStatus};

use super::filter::plain;
use super::kept::{ROOM, shorten, start};
use crate::words::{quote, quote_details};

/// The tool calls that have not ended, the newest of them, within a budget.
#[derive(Debug, Default)]
pub(crate) struct Tools {
    /// By id, as much of it as is kept.
    open: BTreeMap<String, Open>,
    /// What the open ones weigh.
    bytes: usize,
    /// How many there were.
    pub(crate) count: usize,
    /// How many have ended and were never asked about.
    unasked: usize,
    /// The calls that were asked about before they were known.
    asked: BTreeSet<String>,
}

#[derive(Debug)]
struct Open {
    call: ToolCallUpdate,
    bytes: usize,
    /// The calls that came before it.
    number: usize,
    /// When it began to run, as far as the agent says so.
    since: Instant,
    /// Somebody was asked about it.
    asked: bool,
    /// It may not run: that it failed is no news.
    refused: bool,
    /// Why it failed, as far as the agent says so.
    why: Option<String>,
}

/// A tool call that has ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) label: String,
    pub(crate) failed: bool,
    /// Whether a permission was refused for it, so that nobody wonders.
    pub(crate) refused: bool,
    /// Why it failed, as far as the agent says so.
    pub(crate) why: Option<String>,
    pub(crate) took: Duration,
}

impl Tools {
    /// Takes news about a call; whether it is a new one.
    pub(crate) fn learn(&mut self, news: ToolCallUpdate) -> bool {
        let why = (news.status == Some(ToolStatus::Failed)).then(|| reason(&news)).flatten();
        if let Some(known) = self.open.get_mut(start(&news.tool_call_id)) {
            let (before, after) = (known.call.status, news.status);
            if after == Some(ToolStatus::InProgress) && before != after {
                // What was before is the time that a permission took.
                known.since = Instant::now();
            }
            known.why = why;
            merge(&mut known.call, news);
            self.bytes -= known.bytes;
            known.bytes = shorten(&mut known.call, ROOM);
            self.bytes += known.bytes;
            self.make_room();
            return false;
        }
        let mut call = news;
        let bytes = shorten(&mut call, ROOM);
        let id = call.tool_call_id.clone();
        let asked = self.asked.remove(&id);
        let open =
            Open { call, bytes, number: self.count, since: Instant::now(), asked, refused: false, why };
        self.open.insert(id, open);
        (self.count, self.bytes) = (self.count + 1, self.bytes + bytes);
        self.make_room();
        true
    }

    /// Forgets the oldest calls where there are too many. Some agents never say that one has ended.
    fn make_room(&mut self) {
        while self.open.len() > MOST || self.bytes > ROOM {
            let oldest = self.open.iter().min_by_key(|(_, open)| open.number);
            let Some(id) = oldest.map(|(id, _)| id.clone()) else { return };
            self.remove(&id);
        }
    }

    fn remove(&mut self, id: &str) -> Option<Open> {
        let open = self.open.remove(start(id))?;
        self.bytes -= open.bytes;
        Some(open)
    }

    /// Takes an update of the session, if it is about a call.
    pub(crate) fn hear(&mut self, update: &Update) {
        let Some(news) = update.tool_call() else { return };
        let id = news.tool_call_id.clone();
        self.learn(news);
        self.ended(&id);
    }

    /// What is known of a call.
    pub(crate) fn get(&self, id: &str) -> Option<&ToolCallUpdate> {
        self.open.get(start(id)).map(|open| &open.call)
    }

    /// A permission for a call was decided. The time until then was somebody else's.
    pub(crate) fn decided(&mut self, id: &str, allowed: bool) {
        if let Some(open) = self.open.get_mut(start(id)) {
            open.since = Instant::now();
            open.asked = true;
            open.refused = !allowed;
        } else if self.asked.len() < MOST {
            self.asked.insert(start(id).to_owned());
        }
    }

    /// How many calls ran that nobody was asked about.
    pub(crate) fn ran_unasked(&self) -> usize {
        let runs = |open: &&Open| !open.asked && open.call.status == Some(ToolStatus::InProgress);
        self.unasked + self.open.values().filter(runs).count()
    }

    /// Takes a call out when it has ended.
    pub(crate) fn ended(&mut self, id: &str) -> Option<Ended> {
        let status = self.get(id)?.status.filter(|status| status.is_final())?;
        let Open { call, since, asked, refused, why, .. } = self.remove(id)?;
        self.unasked += usize::from(!asked);
        let failed = status == ToolStatus::Failed;
        Some(Ended { label: label(&call), failed, refused, why, took: since.elapsed() })
    }

    /// The calls that have not ended, and may have run.
    pub(crate) fn unended(&self) -> Vec<String> {
        self.open.values().filter(|open| !open.refused).map(|open| label(&open.call)).collect()
    }

    /// What the newest open call is about.
    pub(crate) fn newest(&self) -> Option<String> {
        self.open.values().max_by_key(|open| open.since).map(|open| label(&open.call))
    }
}

/// Why a call failed: the first words of its output, or else what its raw output says.
fn reason(failed: &ToolCallUpdate) -> Option<String> {
    let texts = failed.content.iter().flatten().filter_map(|content| match content {
        ToolContent::Content(block) => block.as_text(),
        ToolContent::Diff(_) | ToolContent::Terminal(_) | ToolContent::Unknown(_) => None,
    });
    let mut lines = texts.flat_map(str::lines).filter(|line| !line.trim().is_empty());
    match lines.next() {
        Some(line) => Some(quote(line)),
        None => failed.raw_output.as_ref().and_then(quote_details),
    }
}

/// A call in a few words: `read README.md`.
pub(crate) fn label(call: &ToolCallUpdate) -> String {
    let title = call.title.as_deref().map(str::trim).filter(|title| !title.is_empty());
    let title = plain(title.or(call.name.as_deref()).unwrap_or(&call.tool_call_id)).into_owned();
    let word = match call.kind.unwrap_or_default() {
        ToolKind::Read => "read",
        ToolKind::Edit => "edit",
        ToolKind::Delete => "delete",
        ToolKind::Move => "move",
        ToolKind::Search => "search",
        ToolKind::Execute => "run",
        ToolKind::Fetch => "fetch",
        ToolKind::Think | ToolKind::SwitchMode | ToolKind::Other => return title,
    };
    // Some agents write a sentence, others no more than what the tool is used on.
    let is_sentence = title.starts_with(char::is_uppercase) && title.contains(' ');
    let says_so = title.split(' ').next().is_some_and(|first| first.eq_ignore_ascii_case(word));
    if is_sentence || says_so { title } else { format!("{word} {title}") }
}

/// Absent is unchanged, and what is there replaces what was.
pub(crate) fn merge(call: &mut ToolCallUpdate, news: ToolCallUpdate) {
    let ToolCallUpdate {
        tool_call_id: _,
        title,
        name,
        kind,
        status,
        content,
        locations,
        raw_input,
        raw_output: _,
        meta: _,
    } = news;
    call.title = title.or(call.title.take());
    call.name = name.or(call.name.take());
    call.kind = kind.or(call.kind);
    call.status = status.or(call.status);
    call.content = content.or(call.content.take());
    call.locations = locations.or(call.locations.take());
    call.raw_input = raw_input.or(call.raw_input.take());
}

/// Calls that are kept at once: far more than any turn has open.
const MOST: usize = 256;

#[cfg(test)]
mod tests {
    use agentline_core::acp::Json;
    use agentline_tests::weigh;

    use super::*;

    fn call(kind: ToolKind, title: &str) -> ToolCallUpdate {
        ToolCallUpdate {
            tool_call_id: "1".into(),
            title: Some(title.into()),
            kind: Some(kind),
            ..ToolCallUpdate::default()
        }
    }

    #[test]
    fn labels_say_what_is_done_to_what() {
        for (kind, title, shown) in [
            (ToolKind::Read, "README.md", "read README.md"),
            (ToolKind::Read, "Read README.md", "Read README.md"),
            (ToolKind::Execute, "cargo test login", "run cargo test login"),
            (ToolKind::Execute, "Clean the build folder", "Clean the build folder"),
            (ToolKind::Edit, "a\nb", "edit a\u{fffd}b"),
            (ToolKind::Other, "thing", "thing"),
            (ToolKind::Other, " ", "1"),
        ] {
            assert_eq!(label(&call(kind, title)), shown);
        }
    }

    #[test]
    fn what_is_not_said_is_as_it_was() {
        let mut tools = Tools::default();
        assert!(tools.learn(call(ToolKind::Read, "a")));
        let done = Some(ToolStatus::Completed);
        let news = ToolCallUpdate { tool_call_id: "1".into(), status: done, ..ToolCallUpdate::default() };
        assert!(!tools.learn(news));
        let ended = tools.ended("1").unwrap();
        assert_eq!((&*ended.label, ended.failed, tools.count), ("read a", false, 1));
        assert!(tools.ended("1").is_none() && tools.newest().is_none());
    }

    #[test]
    fn c10_why_a_call_failed_is_its_own_first_words() {
        for (said, why) in [
            (
                r#""content":[{"type":"content","content":{"type":"text","text":"\n no such file\nat x"}}]"#,
                "no such file",
            ),
            (r#""rawOutput":{"error":{"message":"exit 1"}}"#, "exit 1"),
            (r#""rawOutput":"boom""#, "boom"),
        ] {
            let news = format!(r#"{{"toolCallId":"1","status":"failed",{said}}}"#);
            let mut tools = Tools::default();
            tools.learn(call(ToolKind::Read, "a"));
            tools.learn(serde_json::from_str(&news).unwrap());
            let ended = tools.ended("1").unwrap();
            assert_eq!((ended.failed, ended.refused, ended.why.as_deref()), (true, false, Some(why)));
        }
    }

    #[test]
    fn c7_what_ran_without_asking_is_counted() {
        let mut tools = Tools::default();
        let news = |id: &str, status| ToolCallUpdate {
            tool_call_id: id.into(),
            status: Some(status),
            ..ToolCallUpdate::default()
        };
        tools.decided("early", true);
        for id in ["asked", "early", "free", "runs", "waits"] {
            tools.learn(news(id, ToolStatus::Pending));
        }
        tools.decided("asked", true);
        for id in ["asked", "early", "free"] {
            tools.learn(news(id, ToolStatus::Completed));
            assert!(tools.ended(id).is_some());
        }
        assert_eq!(tools.ran_unasked(), 1);
        tools.learn(news("runs", ToolStatus::InProgress));
        assert_eq!(tools.ran_unasked(), 2);
    }

    #[test]
    fn calls_that_never_end_are_forgotten() {
        let mut tools = Tools::default();
        for id in 0..1000 {
            tools.learn(ToolCallUpdate { tool_call_id: format!("{id:04}"), ..ToolCallUpdate::default() });
        }
        assert_eq!((tools.count, tools.open.len()), (1000, MOST));
        assert!(tools.get("0999").is_some() && tools.get("0000").is_none());
    }

    #[test]
    fn g2_whatever_an_agent_says_of_its_calls_little_is_kept() {
        fn property(steps: Vec<(u8, u8, u32)>) -> bool {
            let mut tools = Tools::default();
            let ((), weight) = weigh(|| {
                for (id, what, length) in steps {
                    let most = if what % 7 == 0 { 3 << 20 } else { 64 << 10 };
                    let text = "t".repeat(length as usize % most);
                    let mut news = ToolCallUpdate {
                        tool_call_id: if what % 16 == 0 { text.clone() } else { id.to_string() },
                        status: (what % 16 == 1).then_some(ToolStatus::Completed),
                        ..ToolCallUpdate::default()
                    };
                    match what % 5 {
                        0 => news.title = Some(text),
                        1 => news.name = Some(text),
                        2 => news.content = Some(vec![ToolContent::Terminal(text); 2]),
                        3 => news.raw_input = Some(Json::new(&text)),
                        _ => news.raw_output = Some(Json::new(&text)),
                    }
                    let id = news.tool_call_id.clone();
                    tools.learn(news);
                    tools.decided(&id, what % 2 == 0);
                    tools.ended(&id);
                }
            });
            // What is looked for by somebody who asks, and the ids that were decided before they were known.
            weight.kept < (ROOM + MOST * (8 << 10)) as i64 && tools.bytes <= ROOM
        }
        quickcheck::QuickCheck::new().tests(20).quickcheck(property as fn(Vec<(u8, u8, u32)>) -> bool);
    }

    #[test]
    fn g2_what_is_too_large_to_be_kept_is_named() {
        let mut tools = Tools::default();
        let large = ToolContent::Terminal("x".repeat(2 << 20));
        tools.learn(ToolCallUpdate { content: Some(vec![large]), ..call(ToolKind::Edit, "a.rs") });
        let kept = tools.get("1").unwrap().content.as_deref().unwrap_or_default();
        assert!(
            matches!(kept, [ToolContent::Content(block)] if block.as_text().is_some_and(|text| text.contains("2049 KiB, is too large")))
        );
    }
}
