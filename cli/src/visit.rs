//! A fresh child that is asked for one thing, outside of any session.

use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::time::Duration;

use agentline_blocking::Driver;
use agentline_core::SpawnSpec;
use agentline_core::acp::SessionId;
use agentline_core::acp::client::Timeouts;
use agentline_core::acp::session::{AuthMethod, SessionInfo, SessionSetup};
use agentline_core::conversation;
use agentline_core::subagent::{Choice, Command, Config, Event, Finished, Questions, Run};
use agentline_core::trace::Masks;

use crate::args::Environment;
use crate::ask::{Asker, Asks};
use crate::failure::Advice;
use crate::guard;
use crate::output::{Foreign, Notes, ROOM, Sink, Start};
use crate::plan::{self, Spawn, is_interactive};
use crate::prompt;
use crate::signals::Signals;
use crate::words::{Kind, Phase, Problem, Verb};

/// An agent that can be started, as often as that takes.
pub(crate) struct Agent {
    pub(crate) spec: SpawnSpec,
    pub(crate) start: Start,
    init_timeout: Duration,
    advice: Rc<Advice>,
}

/// What an agent said.
#[derive(Default)]
pub(crate) struct Visit {
    pub(crate) methods: Vec<AuthMethod>,
    pub(crate) sessions: Vec<SessionInfo>,
    /// What those weigh.
    bytes: usize,
    /// Sessions for which there was no room.
    pub(crate) left_out: usize,
    pub(crate) opened: Option<SessionId>,
}

impl Visit {
    /// Keeps a page of the agent's sessions, as far as there is room: a list may have no end.
    fn list(&mut self, page: Vec<SessionInfo>) {
        for session in page {
            let SessionInfo { session_id, cwd, additional_directories, title, updated_at } = &session;
            let texts = [title, updated_at].into_iter().flatten().chain([cwd]).chain(additional_directories);
            let texts = texts.map(|text| size_of::<String>() + text.len()).sum::<usize>();
            let weight = size_of::<SessionInfo>() + session_id.as_str().len() + texts;
            if self.bytes + weight > ROOM {
                self.left_out += 1;
            } else {
                self.bytes += weight;
                self.sessions.push(session);
            }
        }
    }
}

impl Agent {
    /// The agent of that id or command.
    pub(crate) fn new(
        id: Option<&str>,
        command: &[OsString],
        environment: &Environment,
        init_timeout: Duration,
    ) -> Result<Self, Problem> {
        let variables = prompt::variables(environment)?;
        let name = id.map_or_else(|| "the agent".into(), str::to_owned);
        let mut start = Start { name, ..Start::default() };
        let Spawn { spec, whose, secrets, .. } = plan::spawn_of(id, command, None, variables, &mut start)?;
        let masks = Rc::new(Masks::new(&secrets));
        let bare = start.clone();
        start.mask(&masks);
        let words = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
        let advice = Advice { whose, verb: Verb::Login, start, masks, words, ..Advice::default() };
        Ok(Self { spec, start: bare, init_timeout, advice: Rc::new(advice) })
    }

    /// Starts it, and lets it do one thing. When this returns, it is gone.
    pub(crate) fn visit(&self, choice: Choice, notes: &Notes) -> Result<Visit, Problem> {
        let visited = self.drive(choice, notes);
        let internal = |error: io::Error| Problem::new(Phase::Spawn, Kind::Internal, error.to_string());
        let (visit, finished) = visited.map_err(internal)?;
        self.advice.ended(finished).problem.map_or(Ok(visit), Err)
    }

    fn drive(&self, choice: Choice, notes: &Notes) -> io::Result<(Visit, Finished)> {
        guard::arm(notes);
        let signals = Signals::catch()?;
        let timeouts = Timeouts { initialize: Some(self.init_timeout), ..Timeouts::default() };
        let setup = SessionSetup::in_directory(self.spec.cwd.to_string_lossy());
        let questions = if is_interactive() { Questions::Ask } else { Questions::Decline };
        let client = plan::client(self.spec.clone(), timeouts, LEAVE);
        let conversation =
            conversation::Config { session: choice, questions, ..conversation::Config::new(client, setup) };
        let driver = Driver::<Run>::new(Config::new(conversation, Vec::new()))?;
        let mut end = Some(Command::Dispose);
        signals.on_each(driver.handle(), move |run, _| {
            // Refused when the run is over.
            let _ = run.command(end.take().unwrap_or(Command::Hasten));
            Sink::ours().hurry();
        })?;
        let mut asker = asker(&driver, notes)?;
        let mut foreign = Foreign::new(notes.clone(), &self.advice);
        let mut visit = Visit::default();
        let mut result = None;
        for event in driver {
            match event {
                Event::Ready(ready) => visit.methods = ready.auth_methods,
                Event::Listed(list) => visit.list(list.sessions),
                Event::SessionOpened(opened) => visit.opened = Some(opened.session),
                Event::Stderr(text) => foreign.write(&text),
                Event::Finished(finished) => result = Some(*finished),
                Event::QuestionAsked(asked) => {
                    if let Some(asker) = &mut asker {
                        asker.ask_form(*asked);
                    }
                }
                Event::QuestionDecided(decision) => {
                    if let Some(asker) = &mut asker {
                        asker.decided(decision.request);
                    }
                }
                Event::Started(_)
                | Event::Line(_)
                | Event::Text(_)
                | Event::Updated(_)
                | Event::PermissionAsked(_)
                | Event::PermissionDecided(_)
                | Event::PageDone(_)
                | Event::FileWanted(_)
                | Event::Hosted(_)
                | Event::Retrying(_)
                | Event::Answered(_)
                | Event::Noticed(_)
                | Event::Closed(_) => {}
            }
        }
        foreign.end();
        Ok((visit, result.unwrap_or_else(Finished::undriven)))
    }
}

/// Whoever answers what comes up, such as a page to visit.
fn asker(driver: &Driver<Run>, notes: &Notes) -> io::Result<Option<Asker>> {
    if !is_interactive() {
        return Ok(None);
    }
    let run = driver.handle();
    let stdin = io::stdin().as_fd().try_clone_to_owned()?;
    Asker::new(notes.clone(), stdin, move |request, answer| {
        // Refused when the question is moot by now.
        let _ = run.command(answer.of_run(request));
    })
    .map(Some)
}

/// From the end of the agent's input until SIGTERM: it may have to save what it has learnt.
const LEAVE: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use agentline_tests::weigh;

    use super::*;

    #[test]
    fn g2_a_list_without_an_end_keeps_little() {
        let mut visit = Visit::default();
        let ((), weight) = weigh(|| {
            for n in 0..2000 {
                let text = "x".repeat(n * 16);
                let session =
                    serde_json::json!({"sessionId": text, "cwd": text, "additionalDirectories": [text, "/"]});
                visit.list(vec![serde_json::from_str(&session.to_string()).unwrap()]);
            }
        });
        assert!(weight.kept < 2 * ROOM as i64, "{weight:?}");
        assert_eq!(visit.sessions.len() + visit.left_out, 2000);
        assert!(visit.left_out > 0 && visit.sessions.len() > 100);
    }
}
