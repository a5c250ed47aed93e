//! What was said in a session, and what is known of it by that: its title, its last answer, what it used.

use std::time::Duration;

use serde::Deserialize;

use super::{Prompt, Stand, Transcript};
use crate::acp::update::{Patch, Usage};
use crate::excerpt;
use crate::hub::api::Status;
use crate::rpc::Json;
use crate::session::{News, Outcome};

/// What was said in a session, and what is known of it by that.
#[derive(Debug, Default)]
pub struct Story {
    /// Its messages.
    pub transcript: Transcript,
    /// Whether the transcript is all there is: the session began here, or was loaded here.
    pub complete: bool,
    /// Turns that began here.
    pub turns: usize,
    title: Option<String>,
    /// The agent gave the title.
    locked: bool,
    last: Option<String>,
    usage: Option<Usage>,
    spent: Option<Spent>,
    /// A history that is being told.
    scratch: Option<Box<Transcript>>,
}

/// Tokens that turns cost, added up.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct Spent {
    /// Into the model.
    pub input_tokens: Option<u64>,
    /// Out of the model.
    pub output_tokens: Option<u64>,
    /// Of both.
    pub total_tokens: Option<u64>,
}

/// Characters of a title.
const TITLE: usize = 80;
/// Characters of a last message.
const LAST: usize = 500;

impl Story {
    /// The title, once there is one.
    #[must_use]
    pub fn title(&self) -> Option<&str> {
        self.title.as_deref()
    }

    /// The start of the agent's last answer.
    #[must_use]
    pub fn last(&self) -> Option<&str> {
        self.last.as_deref()
    }

    /// What of the context is used, and the cost so far.
    #[must_use]
    pub const fn usage(&self) -> Option<&Usage> {
        self.usage.as_ref()
    }

    /// What the turns cost.
    #[must_use]
    pub const fn spent(&self) -> Option<Spent> {
        self.spent
    }

    /// A title from a list, or from a record.
    pub fn listed(&mut self, title: &str) {
        if let Some(title) = line(title, TITLE).filter(|_| !self.locked) {
            self.title = Some(title);
        }
    }

    /// A history is about to be told. It replaces what is known when it is complete.
    pub(super) fn reread(&mut self) {
        self.scratch = Some(Box::default());
    }

    /// A history was told to its end, or came to nothing.
    pub(super) fn read(&mut self, all: bool) {
        if let Some(scratch) = self.scratch.take().filter(|_| all) {
            (self.transcript, self.complete) = (*scratch, true);
        }
    }

    /// A turn begins.
    pub(super) fn began(&mut self, at: Duration, prompt: Option<&Prompt>) {
        self.turns += 1;
        let words = prompt.map(|prompt| (prompt.text(), prompt.attachments(), prompt.by.clone()));
        if let Some((text, ..)) = &words
            && self.title.is_none()
        {
            self.title = line(text, TITLE);
        }
        self.transcript.begin(at, words);
    }

    /// Its source has a title for it, which stays.
    fn entitle(&mut self, title: &str) {
        if let Some(title) = line(title, TITLE) {
            (self.title, self.locked) = (Some(title), true);
        }
    }

    /// Takes in what is news to readers of a story; `replayed`: of a history.
    pub(super) fn hear(&mut self, at: Duration, news: &News, replayed: bool) {
        let transcript = match &mut self.scratch {
            Some(scratch) if replayed => scratch,
            // The rest of a history that nobody reads any more.
            None if replayed => return,
            Some(_) | None => &mut self.transcript,
        };
        match news {
            News::Text { speaker, text, .. } => transcript.say(*speaker, Some(text), at),
            News::Block(block) => transcript.say(block.0, block.1.content.as_text(), at),
            News::Tool { call, .. } => transcript.tool(call, at),
            News::Info { title, .. } => {
                if let Patch::Set(title) = &**title {
                    self.entitle(title);
                }
            }
            News::Announced(there) => there.title.iter().for_each(|title| self.entitle(title)),
            // The level replaces the one before: its cost is the cost so far.
            News::Usage(usage) => self.usage = Some((**usage).clone()),
            News::Opened
            | News::Can(_)
            | News::Began(_)
            | News::Busy(_)
            | News::Step(_)
            | News::Plan(_)
            | News::Commands(_)
            | News::Asked(_)
            | News::Settled(..)
            | News::Mode(_)
            | News::Options(_)
            | News::Warned(_)
            | News::Note(_)
            | News::Hosted(_)
            | News::Ended(_)
            | News::Closed
            | News::Other(_) => {}
        }
    }

    /// A turn is over: what it said, or why it said nothing, is the last message.
    pub(super) fn ended(&mut self, how: Outcome, word: Option<&str>, stand: &Stand, spent: Option<&Json>) {
        let answer = self.transcript.answer();
        let answer = excerpt::start(answer.trim(), LAST).into_owned();
        let fixed = match how {
            Outcome::Refused => Some("the agent refused to continue"),
            Outcome::MaxTokens => Some("the answer reached the model's output limit"),
            Outcome::Failed if word == Some("max_turn_requests") => {
                Some("too many model requests in one turn")
            }
            Outcome::Completed
            | Outcome::Cancelled
            | Outcome::Failed
            | Outcome::Lost
            | Outcome::Unseen
            | Outcome::NotSent => None,
        };
        let error = stand.error.as_ref().filter(|_| stand.status == Status::Error);
        let instead = fixed
            .map(str::to_owned)
            .or_else(|| error.map(|error| excerpt::start(&error.message, LAST).into_owned()));
        if !answer.is_empty() {
            self.last = Some(answer);
        } else if let Some(instead) = instead {
            self.last = Some(instead);
        }
        if let Some(spent) = spent.and_then(|json| serde_json::from_str::<Spent>(json.get()).ok()) {
            self.spent.get_or_insert_default().add(spent);
        }
    }

    /// Makes room: what was said is forgotten, what is known of it is not.
    pub(super) fn forget(&mut self) {
        (self.transcript, self.complete) = (Transcript::default(), false);
    }
}

impl Spent {
    fn add(&mut self, more: Self) {
        for (sum, more) in [
            (&mut self.input_tokens, more.input_tokens),
            (&mut self.output_tokens, more.output_tokens),
            (&mut self.total_tokens, more.total_tokens),
        ] {
            if let Some(more) = more {
                *sum = Some(sum.unwrap_or(0).saturating_add(more));
            }
        }
    }
}

/// The first characters of a text, on one line; nothing of one that has none.
pub(super) fn line(text: &str, most: usize) -> Option<String> {
    let line = excerpt::line(text, most);
    (!line.is_empty()).then_some(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acp::ContentBlock;

    fn prompt(text: &str) -> Prompt {
        Prompt { words: vec![ContentBlock::text(text)], by: None, at: Duration::ZERO }
    }

    fn info(title: &str) -> News {
        News::Info { title: Box::new(Patch::Set(title.to_owned())), updated_at: Box::new(Patch::Keep) }
    }

    #[test]
    fn the_agents_title_wins_then_the_lists_then_the_first_prompts() {
        let mut story = Story::default();
        story.began(Duration::ZERO, Some(&prompt(&format!(" fix\n the  {}", "x".repeat(100)))));
        assert_eq!(story.title(), Some(&*format!("fix the {}…", "x".repeat(72))));
        story.began(Duration::ZERO, Some(&prompt("second")));
        assert!(story.title().is_some_and(|title| title.starts_with("fix")));
        story.listed("from the list");
        assert_eq!(story.title(), Some("from the list"));
        story.hear(Duration::ZERO, &info("  \n"), false);
        assert_eq!(story.title(), Some("from the list"));
        story.hear(Duration::ZERO, &info("the\nagent's"), false);
        story.listed("from the list");
        assert_eq!(story.title(), Some("the agent's"));
    }

    #[test]
    fn the_last_message_is_the_answer_else_the_reason_else_the_one_before() {
        let mut story = Story::default();
        let end = |story: &mut Story, how, text: &str, status, error: &str| {
            story.began(Duration::ZERO, None);
            if !text.is_empty() {
                let text = text.to_owned();
                let speaker = crate::acp::update::Speaker::Agent;
                story.hear(Duration::ZERO, &News::Text { speaker, message: None, text }, false);
            }
            story.ended(how, None, &Stand::new(status, None).because("rpc", error), None);
            story.last().map(str::to_owned)
        };
        assert_eq!(end(&mut story, Outcome::Completed, "", Status::Completed, "").as_deref(), None);
        assert_eq!(end(&mut story, Outcome::Completed, " a ", Status::Completed, "").as_deref(), Some("a"));
        assert_eq!(end(&mut story, Outcome::Cancelled, "", Status::Cancelled, "x").as_deref(), Some("a"));
        assert_eq!(end(&mut story, Outcome::Failed, "", Status::Error, "boom").as_deref(), Some("boom"));
        assert_eq!(end(&mut story, Outcome::Failed, "b", Status::Error, "boom").as_deref(), Some("b"));
        let refused = "the agent refused to continue";
        assert_eq!(end(&mut story, Outcome::Refused, "", Status::Error, "boom").as_deref(), Some(refused));
    }

    #[test]
    fn what_turns_cost_adds_up_and_a_level_replaces() {
        let mut story = Story::default();
        for n in 1..4u64 {
            let spent = Json::new(&serde_json::json!({"inputTokens": n, "totalTokens": 10, "later": "x"}));
            story.ended(Outcome::Completed, None, &Stand::default(), Some(&spent));
            let usage = Usage { used: n, size: 100, cost: None };
            story.hear(Duration::ZERO, &News::Usage(Box::new(usage)), false);
        }
        let sum = Spent { input_tokens: Some(6), output_tokens: None, total_tokens: Some(30) };
        assert_eq!((story.spent(), story.usage().map(|usage| usage.used)), (Some(sum), Some(3)));
    }
}
