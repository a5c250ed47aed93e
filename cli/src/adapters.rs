//! Agents that speak ACP through an adapter only: what people call them, and how to get one.

use crate::words::command_line;

/// A program that makes an agent speak ACP.
pub(crate) struct Adapter {
    /// The agent behind it.
    pub(crate) name: &'static str,
    /// What people type. The first is the id under which it is added.
    words: &'static [&'static str],
    /// The name of the adapter's executable.
    pub(crate) program: &'static str,
    /// The package that it comes in, as its installer takes it.
    pub(crate) install: &'static str,
}

/// The adapter that a word means.
pub(crate) fn of(word: &str) -> Option<&'static Adapter> {
    let word = word.to_lowercase();
    ADAPTERS.iter().find(|adapter| adapter.words.contains(&&*word))
}

impl Adapter {
    /// The line that makes an installed adapter an agent.
    pub(crate) fn add(&self) -> String {
        let id = self.words.first().copied().unwrap_or(self.program);
        let words = ["agentline", "agent", "add", id, "--name", self.name, "--", self.program];
        command_line(&words.map(str::to_owned))
    }
}

const ADAPTERS: [Adapter; 3] = [
    Adapter {
        name: "Claude Code",
        words: &["claude-code", "claude", "claude-acp", "claude-agent-acp", "claude-code-acp", "anthropic"],
        program: "claude-agent-acp",
        install: "npm install -g @agentclientprotocol/claude-agent-acp",
    },
    Adapter {
        name: "Codex CLI",
        words: &["codex-cli", "codex", "codex-acp", "openai", "chatgpt"],
        program: "codex-acp",
        install: "npm install -g @agentclientprotocol/codex-acp",
    },
    Adapter {
        name: "Hermes",
        words: &["hermes-agent", "hermes", "hermes-acp"],
        program: "hermes-acp",
        install: "pipx install 'hermes-agent[acp]'",
    },
];
