//! Questions that wait for whoever sits at the terminal.

use std::collections::VecDeque;

use agentline_core::acp::RequestKey;

use super::Question;
use crate::output::ROOM;

/// The open questions, the oldest first. There are as many as the agent may have open at once, which is told elsewhere;
/// what each of them is about is kept while there is room.
#[derive(Default)]
pub(crate) struct Questions {
    open: VecDeque<(Question, usize)>,
    /// What they weigh.
    bytes: usize,
}

impl Questions {
    pub(crate) fn push(&mut self, mut question: Question) {
        let weight = question.shorten(ROOM.saturating_sub(self.bytes));
        self.bytes += weight;
        self.open.push_back((question, weight));
    }

    /// The one that is to be answered.
    pub(crate) fn first(&self) -> Option<&Question> {
        self.open.front().map(|(question, _)| question)
    }

    pub(crate) fn first_mut(&mut self) -> Option<&mut Question> {
        self.open.front_mut().map(|(question, _)| question)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// It is answered, or moot.
    pub(crate) fn remove(&mut self, request: RequestKey) {
        self.open.retain(|(question, _)| question.request() != request);
        self.bytes = self.open.iter().map(|(_, weight)| weight).sum();
    }

    /// Takes all of them.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Question> + use<> {
        std::mem::take(self).open.into_iter().map(|(question, _)| question)
    }
}

#[cfg(test)]
mod tests {
    use agentline_core::acp::client::PermissionAsked;
    use agentline_tests::weigh;
    use serde_json::json;

    use super::*;
    use crate::output::Tools;

    fn question(request: u32, size: usize) -> Question {
        let text = "x".repeat(size);
        let asked = json!({
            "sessionId": "s",
            "toolCall": {"toolCallId": "c", "title": text, "rawInput": {"command": text}, "rawOutput": text, "_meta": text},
            "options": [{"optionId": "y", "name": text, "kind": text}],
            "_meta": text,
        });
        let request = serde_json::from_value(json!(request)).unwrap();
        let asked = serde_json::from_str(&asked.to_string()).unwrap();
        Question::permission(PermissionAsked { request, asked }, &Tools::default())
    }

    #[test]
    fn g2_however_much_is_asked_little_is_kept() {
        let mut questions = Questions::default();
        let ((), weight) = weigh(|| (0..300).for_each(|n| questions.push(question(n, 100 << 10))));
        assert!(weight.kept < 2 * ROOM as i64, "{weight:?}");
        for n in 0..300 {
            assert_eq!(questions.first().map(Question::request), Some(question(n, 0).request()));
            questions.remove(question(n, 0).request());
        }
        assert!(questions.is_empty() && questions.bytes == 0);
        questions.push(question(0, 10));
        assert_eq!(questions.drain().count(), 1);
    }
}
