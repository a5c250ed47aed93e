//! What the agent said before it asks: of its calls, and of its own agents.

use std::collections::BTreeMap;

use agentline_core::acp::client::{PermissionAsked, Updated};
use agentline_core::acp::{RequestKey, SessionId, Update};

use super::{Asked, Permission, Question};
use crate::output::{Tools, subagent_title};

/// A question may hold no more than the id of a call, or come by the session of an agent of the agent.
#[derive(Debug, Default)]
pub(crate) struct Known {
    tools: Tools,
    /// Names of the agent's agents.
    names: BTreeMap<SessionId, String>,
}

impl Known {
    /// Takes note of an update.
    pub(crate) fn hear(&mut self, updated: &Updated) {
        self.tools.hear(&updated.update);
        if let Update::Other(unknown) = &updated.update
            && let Some((session, title)) = subagent_title(unknown)
            && (self.names.len() < NAMES || self.names.contains_key(&session))
        {
            self.names.insert(session, title);
        }
    }

    /// A permission, with what is known of it.
    pub(crate) fn permission(&self, asked: PermissionAsked) -> Asked<RequestKey> {
        let PermissionAsked { request, asked } = asked;
        let whose = self.names.get(&asked.session_id).cloned();
        let permission = Permission { whose, ..Permission::new(asked, &self.tools) };
        Asked { key: request, question: Question::Permission(permission) }
    }
}

/// Agents of an agent whose names are kept.
const NAMES: usize = 512;
