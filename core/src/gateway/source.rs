//! What a client's own introduction means for the source.

use crate::acp::agent::Initialized;
use crate::acp::session::{ClientAuth, ClientCapabilities};
use crate::session::SourceConfig;

/// An agent is offered what the client offers, but for logins that would be our command once more, and agents of the
/// agent, whose sessions are not passed on. Other sources are offered nothing.
pub(super) fn introduce(source: &mut SourceConfig, who: Initialized) {
    match source {
        SourceConfig::Acp(agent) => {
            agent.info = who.client_info.or(agent.info.take());
            agent.capabilities =
                ClientCapabilities { auth: ClientAuth::default(), subagents: false, ..who.capabilities };
        }
        SourceConfig::Runner(_) | SourceConfig::Attached(_) | SourceConfig::Missing(_) => {}
    }
}
