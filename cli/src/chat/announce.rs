//! How a conversation shows itself to a hub, and what is said of that.

use agentline_core::reverse::Capabilities;
use agentline_core::reverse::agent::{Config, Fault};
use agentline_core::{Address, Cause, Closed, OpenError};

use crate::find;
use crate::output::{Start, plain};
use crate::plan::DEMO;
use crate::words::{Problem, command_line, quote};

/// As whom a conversation is shown.
pub(crate) struct Announced {
    id: String,
    /// What starts the agent, where that is known.
    command: Vec<String>,
}

/// The id of a conversation whose agent no hub knows. Our own hub lets it in.
const NOBODY: &str = "agentline-chat";

impl Announced {
    /// `id`: as whom, if the user says so. Else as the agent, so that a hub can go on with the session when the terminal is
    /// gone.
    pub(crate) fn new(id: Option<&str>, start: &Start) -> Self {
        let own = start.agent.as_deref().filter(|agent| *agent != DEMO);
        let id = id.or(own).unwrap_or(NOBODY).to_owned();
        Self { id, command: start.command.clone().unwrap_or_default() }
    }

    /// The link to the hub of this user, if one is there.
    ///
    /// # Errors
    ///
    /// There is no home.
    pub(crate) fn config(&self) -> Result<Config, Problem> {
        let hub = Address(find::folders()?.reverse_socket());
        Ok(Config {
            pid: Some(std::process::id()),
            capabilities: Capabilities { prompt: true, cancel: true, new_session: false },
            ..Config::connect(hub, self.id.clone())
        })
    }

    /// A hub shows it.
    pub(crate) fn shown(&self) -> String {
        format!("◦ shown by the hub, as {}", self.id)
    }

    /// No hub shows it, or none does any more. `None`: we have left ourselves.
    pub(crate) fn hidden(&self, closed: &Closed<Fault>) -> Option<String> {
        Some(match &closed.cause {
            Cause::Left => return None,
            Cause::Failed(OpenError::NotFound | OpenError::Refused) => {
                "◦ no hub runs here: this conversation is shown nowhere else".to_owned()
            }
            Cause::Failed(error) => format!("! no hub shows this conversation: {error}"),
            Cause::Gone => "! the hub is gone: the conversation goes on without it".to_owned(),
            Cause::Fault(Fault::Refused(reason)) => {
                let reason = quote(reason);
                format!("✗ the hub does not show this conversation: {}\n    {}", plain(&reason), self.add())
            }
            Cause::Fault(fault) => format!("! no hub shows this conversation: {fault}"),
        })
    }

    /// What makes this agent known.
    fn add(&self) -> String {
        let known = ["agentline", "agent", "add", &self.id, "--"].map(str::to_owned);
        if self.command.is_empty() {
            return format!("{} COMMAND…", command_line(&known));
        }
        command_line(&known.into_iter().chain(self.command.iter().cloned()).collect::<Vec<_>>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(agent: Option<&str>, command: &[&str]) -> Start {
        let command = command.iter().map(|word| (*word).to_owned()).collect();
        Start { agent: agent.map(str::to_owned), command: Some(command), ..Start::default() }
    }

    #[test]
    fn it_is_the_agent_unless_nobody_knows_that_or_the_user_says_otherwise() {
        for (said, agent, id) in [
            (None, Some("gemini"), "gemini"),
            (None, Some(DEMO), NOBODY),
            (None, None, NOBODY),
            (Some("mine"), Some("gemini"), "mine"),
        ] {
            assert_eq!(Announced::new(said, &start(agent, &[])).id, id);
        }
    }

    #[test]
    fn who_is_refused_is_told_the_line_that_helps() {
        let announced = Announced::new(Some("mine"), &start(None, &["/opt/my agent", "--acp"]));
        assert_eq!(announced.add(), "agentline agent add mine -- '/opt/my agent' --acp");
        let unknown = Announced { command: Vec::new(), ..announced };
        assert_eq!(unknown.add(), "agentline agent add mine -- COMMAND…");
    }
}
