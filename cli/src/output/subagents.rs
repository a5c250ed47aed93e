//! What an agent's own agents say and do, told below the agent itself: whole lines with the name in front.

use std::collections::BTreeMap;

use agentline_core::acp::client::Updated;
use agentline_core::acp::update::{Speaker, ToolCallUpdate};
use agentline_core::acp::{SessionId, Unknown, Update};
use serde::Deserialize;

use super::filter::plain;
use super::tools::{Ended, Tools};

/// The subagents of a session.
#[derive(Debug, Default)]
pub(super) struct Subagents(BTreeMap<SessionId, Subagent>);

#[derive(Debug, Default)]
struct Subagent {
    title: Option<String>,
    /// As it was told last.
    state: Option<String>,
    tools: Tools,
    /// The line that it is in.
    line: String,
}

/// What is told of one. What is not there stays as it was.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Patch {
    session_id: SessionId,
    #[serde(default)]
    title: Option<String>,
    #[serde(default)]
    state: Option<State>,
}

#[derive(Deserialize)]
struct State {
    state: String,
}

/// The name of a subagent, where that is what an update tells.
pub(crate) fn subagent_title(unknown: &Unknown) -> Option<(SessionId, String)> {
    let is_it = unknown.tag == "subagent_update";
    let patch = is_it.then(|| serde_json::from_str::<Patch>(unknown.raw.get()));
    let Patch { session_id, title, .. } = patch?.ok()?;
    let mut title = title.filter(|title| !title.trim().is_empty())?;
    title.truncate(title.floor_char_boundary(TITLE));
    title.shrink_to_fit();
    Some((session_id, title))
}

impl Subagents {
    /// The lines that tell of news about a subagent.
    pub(super) fn learn(&mut self, unknown: &Unknown) -> Vec<String> {
        let Ok(Patch { session_id, title, state }) = serde_json::from_str(unknown.raw.get()) else {
            return Vec::new();
        };
        let Some(subagent) = self.get(&session_id) else { return Vec::new() };
        subagent.title = title.or(subagent.title.take());
        let mut lines = subagent.end_line();
        let state = state.map(|State { state }| state);
        // That it is busy is seen by what it does.
        if let Some(state) = state.filter(|state| subagent.state.as_ref() != Some(state)) {
            lines.push(subagent.says(match &*state {
                "running" => "begins",
                "idle" => "is done",
                "requires_action" => "waits",
                other => other,
            }));
            subagent.state = Some(state);
        }
        lines
    }

    /// The lines that tell of what a subagent says or does.
    pub(super) fn hear(&mut self, updated: &Updated) -> Vec<String> {
        if let Update::Other(unknown) = &updated.update
            && unknown.tag == "subagent_update"
        {
            return self.learn(unknown);
        }
        let Some(subagent) = self.get(&updated.session) else { return Vec::new() };
        if let Some(news) = updated.update.tool_call() {
            return subagent.tool(news);
        }
        if let Update::Message(Speaker::Agent, chunk) = &updated.update
            && let Some(text) = chunk.content.as_text()
        {
            return subagent.text(text);
        }
        Vec::new()
    }

    /// The lines that are not full yet. The turn is over.
    pub(super) fn end(&mut self) -> Vec<String> {
        self.0.values_mut().flat_map(Subagent::end_line).collect()
    }

    /// A turn begins.
    pub(super) fn begin(&mut self) {
        self.0.values_mut().for_each(|subagent| subagent.tools = Tools::default());
    }

    /// A permission for a call was decided.
    pub(super) fn decided(&mut self, call: &str, allowed: bool) {
        let tools = self.0.values_mut().map(|subagent| &mut subagent.tools);
        tools.filter(|tools| tools.get(call).is_some()).for_each(|tools| tools.decided(call, allowed));
    }

    /// How many tools they called, and how many of these nobody was asked about.
    pub(super) fn counts(&self) -> (usize, usize) {
        let tools = || self.0.values().map(|subagent| &subagent.tools);
        (tools().map(|tools| tools.count).sum(), tools().map(Tools::ran_unasked).sum())
    }

    fn get(&mut self, session: &SessionId) -> Option<&mut Subagent> {
        if self.0.len() >= MOST && !self.0.contains_key(session) {
            return None;
        }
        Some(self.0.entry(session.clone()).or_default())
    }
}

impl Subagent {
    fn says(&self, what: &str) -> String {
        let name = self.title.as_deref().filter(|title| !title.trim().is_empty()).unwrap_or("subagent");
        format!("  ┆ {}: {}", plain(name), plain(what))
    }

    fn tool(&mut self, news: ToolCallUpdate) -> Vec<String> {
        let mut lines = self.end_line();
        let id = news.tool_call_id.clone();
        self.tools.learn(news);
        let ended = self.tools.ended(&id).filter(|ended| !(ended.failed && ended.refused));
        lines.extend(ended.map(|Ended { label, failed, .. }| {
            let mark = if failed { "✗" } else { "✓" };
            self.says(&format!("{mark} {label}"))
        }));
        lines
    }

    fn text(&mut self, text: &str) -> Vec<String> {
        let mut lines = Vec::new();
        for piece in text.split_inclusive('\n') {
            self.line.push_str(piece.trim_end_matches('\n'));
            if piece.ends_with('\n') || self.line.len() > LINE {
                lines.extend(self.end_line());
            }
        }
        lines
    }

    fn end_line(&mut self) -> Vec<String> {
        let line = std::mem::take(&mut self.line);
        if line.trim().is_empty() { Vec::new() } else { vec![self.says(&line)] }
    }
}

/// Subagents that are told apart.
const MOST: usize = 512;
/// Bytes of a name that are kept.
const TITLE: usize = 200;
/// Bytes of a line that are waited for.
const LINE: usize = 4 << 10;
