//! The variables of agents: named by clients, kept in memory, and given to the next process.

use std::sync::Arc;

use super::agents::Run;
use super::api::Variables;
use super::book::{Session, SourceId, Stand};
use super::machine::Hub;
use crate::control::Failure;
use crate::machine::Now;

/// Variables of an agent, and bytes of their names and values.
const VARIABLES: usize = 64;
const VARIABLES_BYTES: usize = 128 << 10;

impl Hub {
    /// A client names variables for an agent: those of before are forgotten. An idle process that has others leaves, so
    /// that the next one has them. Whether it goes on with others until then.
    ///
    /// # Errors
    ///
    /// There are more than anybody names.
    pub(super) fn equip(&mut self, now: Now, id: &Arc<str>, env: Variables) -> Result<bool, Failure> {
        let bytes: usize = env.0.iter().map(|(name, value)| name.len() + value.expose().len()).sum();
        if env.0.len() > VARIABLES || bytes > VARIABLES_BYTES {
            return Err(Failure::invalid_args("an agent is given at most 64 variables, 128 KiB in all"));
        }
        let Some(agent) = self.agents.get_mut(id).filter(|_| !env.is_empty()) else { return Ok(false) };
        agent.env = env;
        let (differs, run) = (agent.env != agent.runs_with, agent.run);
        match run {
            Run::Up(source) if differs && self.may_leave(source) => {
                self.dismiss(now, id, &Stand::default());
                Ok(false)
            }
            Run::Launching | Run::Starting(_) | Run::Up(_) => Ok(differs),
            Run::Down | Run::Leaving(_) => Ok(false),
        }
    }

    /// Whether a process can be replaced without anybody losing anything.
    fn may_leave(&self, source: SourceId) -> bool {
        let keeps = |session: &Session| {
            let can = session.can();
            session.child() != Some(source) || (session.questions() == 0 && (can.load || can.resume))
        };
        !self.book.is_at_work(source)
            && !self.opening.values().any(|of| *of == source)
            && self.book.at(source).filter_map(|sid| self.book.get(sid)).all(keeps)
    }
}
