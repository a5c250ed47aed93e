//! Questions that wait for whoever sits at the terminal.

use std::collections::VecDeque;

use super::Asked;
use crate::output::ROOM;

/// The open questions, the oldest first. There are as many as the agent may have open at once, which is told elsewhere;
/// what each of them is about is kept while there is room.
pub(crate) struct Questions<K> {
    open: VecDeque<(Asked<K>, usize)>,
    /// What they weigh.
    bytes: usize,
}

impl<K> Default for Questions<K> {
    fn default() -> Self {
        Self { open: VecDeque::new(), bytes: 0 }
    }
}

impl<K: PartialEq> Questions<K> {
    pub(crate) fn push(&mut self, mut asked: Asked<K>) {
        let weight = asked.question.shorten(ROOM.saturating_sub(self.bytes));
        self.bytes += weight;
        self.open.push_back((asked, weight));
    }

    /// The one that is to be answered.
    pub(crate) fn first(&self) -> Option<&Asked<K>> {
        self.open.front().map(|(asked, _)| asked)
    }

    pub(crate) fn first_mut(&mut self) -> Option<&mut Asked<K>> {
        self.open.front_mut().map(|(asked, _)| asked)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// It is answered, or moot.
    pub(crate) fn remove(&mut self, key: &K) {
        self.open.retain(|(asked, _)| asked.key != *key);
        self.bytes = self.open.iter().map(|(_, weight)| weight).sum();
    }

    /// Takes all of them.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Asked<K>> + use<K> {
        std::mem::take(self).open.into_iter().map(|(asked, _)| asked)
    }
}

#[cfg(test)]
mod tests {
    use agentline_core::acp::RequestKey;
    use agentline_core::acp::client::PermissionAsked;
    use agentline_tests::weigh;
    use serde_json::json;

    use super::*;
    use crate::ask::Known;

    fn question(request: u32, size: usize) -> Asked<RequestKey> {
        let text = "x".repeat(size);
        let asked = json!({
            "sessionId": "s",
            "toolCall": {"toolCallId": "c", "title": text, "rawInput": {"command": text}, "rawOutput": text, "_meta": text},
            "options": [{"optionId": "y", "name": text, "kind": text}],
            "_meta": text,
        });
        let request = serde_json::from_value(json!(request)).unwrap();
        let asked = serde_json::from_str(&asked.to_string()).unwrap();
        Known::default().permission(PermissionAsked { request, asked })
    }

    #[test]
    fn g2_however_much_is_asked_little_is_kept() {
        let mut questions = Questions::default();
        let ((), weight) = weigh(|| (0..300).for_each(|n| questions.push(question(n, 100 << 10))));
        assert!(weight.kept < 2 * ROOM as i64, "{weight:?}");
        for n in 0..300 {
            assert_eq!(questions.first().map(|asked| asked.key), Some(question(n, 0).key));
            questions.remove(&question(n, 0).key);
        }
        assert!(questions.is_empty() && questions.bytes == 0);
        questions.push(question(0, 10));
        assert_eq!(questions.drain().count(), 1);
    }
}
