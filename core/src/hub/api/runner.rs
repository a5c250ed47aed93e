//! What only sessions of Galley runners have.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A question beside the conversation. The answer is a `system_message` of the session's stream.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionBtw {
    /// The session; its runner has to run.
    pub session_id: String,
    /// What is asked.
    pub question: String,
}

/// What became of something that a runner was told.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
pub struct Sent {
    /// `dispatched`, `shutdown_sent` or `already_stopped`.
    pub dispatch: String,
}

/// The tools that runners need not ask about.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
pub struct RulesList {}

/// The tools that runners need not ask about, by name. As a request: these from here on, in place of all others; runners
/// that run are told. Kept in the settings. They hold for runners only.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ToolRules {
    /// Everywhere.
    pub always_allow_global: Vec<String>,
    /// In one project, by its folder.
    pub always_allow_project: BTreeMap<String, Vec<String>>,
}
