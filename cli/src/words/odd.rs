//! What an agent did that nobody understood.

use agentline_core::acp::Notice;

use super::agent::notice;

/// How often, and the first time in words.
#[derive(Debug, Default)]
pub(crate) struct Odd {
    count: usize,
    first: String,
}

impl Odd {
    pub(crate) fn add(&mut self, news: &Notice) {
        self.count += 1;
        if self.count == 1 {
            self.first = notice(news);
        }
    }

    /// All of it in one line. What comes next is of another turn.
    pub(crate) fn take(&mut self) -> Option<String> {
        let Self { count, first } = std::mem::take(self);
        match count {
            0 => None,
            1 => Some(format!("! 1 message of the agent was ignored: {first}")),
            count => Some(format!("! {count} messages of the agent were ignored; the first: {first}")),
        }
    }
}
