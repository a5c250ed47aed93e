//! From a handshake to a session in which the first prompt can be said: which one, and what is set in it.
//!
//! ```text
//!  Waiting ──New, Old──► Opening ──opened──► Setting ──all set──► Set
//!     ├──Last──► Looking ──found──┘
//!     └──Errand──► Doing ──done──► Nowhere
//! ```
//!
//! Where the agent wants a login first and one is at hand, the request that it refused is asked once more after it.

use std::collections::VecDeque;

use super::api::{Choice, SessionOpened};
use super::errand::{Doing, Done};
use super::login::Login;
use super::settings::Settings;
use crate::acp::client::{Answer, Command, Failure, Which};
use crate::acp::session::{AgentCapabilities, SessionInfo, SessionList, SessionSetup, Setting};
use crate::acp::{SessionId, Update};
use crate::machine::Tag;
use crate::problem::{Phase, RootCause};

/// A session that is being opened. One request of it is open at a time.
#[derive(Debug)]
pub(crate) struct Opening {
    tag: Tag,
    setup: SessionSetup,
    settings: Vec<Setting>,
    /// The history of an old session is to be told.
    transcript: bool,
    login: Login,
    state: State,
}

#[derive(Debug)]
enum State {
    /// For the handshake.
    Waiting(Choice),
    /// For the latest session of the workspace.
    Looking(Search),
    Opening,
    Setting(Settings),
    Doing(Doing),
}

/// A walk through the agent's list of sessions.
#[derive(Debug)]
struct Search {
    latest: Option<SessionInfo>,
    /// How the workspace is spelled in the list that is read.
    cwd: String,
    /// Other spellings of it, to be tried when that list has nothing.
    spellings: VecDeque<String>,
    offers: AgentCapabilities,
    /// How many more pages are looked at.
    pages: u32,
}

/// What comes next.
#[derive(Debug)]
pub(crate) enum Step {
    /// The agent is asked, and its answer comes back.
    Ask(Command),
    /// It is open. What is to be set in it comes by [`Opening::go_on`].
    Opened(Box<SessionOpened>),
    /// Everything is set.
    Set(SessionId),
    /// A page of the agent's sessions. What comes after it comes by [`Opening::go_on`].
    Listed(Box<SessionList>),
    /// No session is wanted, and everything else is done.
    Nowhere,
    /// There will be none.
    Failed(RootCause),
}

impl Opening {
    pub(crate) const fn new(tag: Tag, setup: SessionSetup, choice: Choice, settings: Vec<Setting>) -> Self {
        Self {
            tag,
            setup,
            settings,
            transcript: false,
            login: Login::by(None),
            state: State::Waiting(choice),
        }
    }

    /// With the history of an old session, or without.
    pub(crate) fn transcript(self, transcript: bool) -> Self {
        Self { transcript, ..self }
    }

    /// With a method to log in by, should the agent want it.
    pub(crate) fn login(self, method: Option<String>) -> Self {
        Self { login: Login::by(method), ..self }
    }

    pub(crate) const fn phase(&self) -> Phase {
        match &self.state {
            _ if self.login.runs() => Phase::Authenticate,
            State::Waiting(_) => Phase::Initialize,
            State::Looking(_) | State::Opening | State::Setting(_) => Phase::Session,
            State::Doing(doing) => doing.phase(),
        }
    }

    /// A request was refused: what to do instead, if the agent wants a login and there is one at hand.
    pub(crate) fn refused(&mut self, failure: &Failure) -> Option<Step> {
        self.login.wanted(failure, self.tag).map(Step::Ask)
    }

    /// The handshake is done.
    pub(crate) fn ready(&mut self, offers: &AgentCapabilities) -> Option<Step> {
        let State::Waiting(choice) = &mut self.state else { return None };
        let first = match std::mem::take(choice) {
            Choice::New => self.open(Which::New),
            Choice::Old(session) => self.open(reopen(session, offers, self.transcript)),
            Choice::Nowhere => Step::Nowhere,
            Choice::Errand(errand) => {
                let mut doing = Doing::new(errand);
                let request = doing.request(self.tag, &self.setup);
                self.state = State::Doing(doing);
                Step::Ask(request)
            }
            Choice::Last(spellings) => {
                let (cwd, offers) = (self.setup.cwd.clone(), offers.clone());
                let search = Search { latest: None, cwd, spellings: spellings.into(), offers, pages: PAGES };
                let list = search.list(self.tag, None);
                self.state = State::Looking(search);
                list
            }
        };
        Some(self.remembered(first))
    }

    /// The agent has answered.
    pub(crate) fn answered(&mut self, answer: Answer) -> Option<Step> {
        if let Some(again) = self.login.done(&answer) {
            return Some(Step::Ask(again));
        }
        let next = self.next(answer)?;
        Some(self.remembered(next))
    }

    /// What is asked may have to be asked again.
    fn remembered(&mut self, step: Step) -> Step {
        if let Step::Ask(command) = &step {
            self.login.asked(command);
        }
        step
    }

    fn next(&mut self, answer: Answer) -> Option<Step> {
        match (answer, &mut self.state) {
            (Answer::Sessions(list), State::Looking(_)) => self.listed(list),
            (Answer::SessionOpened { session, state }, State::Opening) => {
                let settings = std::mem::take(&mut self.settings);
                self.state = State::Setting(Settings::new(session.clone(), state.clone(), settings));
                Some(Step::Opened(Box::new(SessionOpened { session, state })))
            }
            (
                answer @ (Answer::ModeSet | Answer::ModelSet | Answer::OptionSet(_)),
                State::Setting(settings),
            ) => {
                settings.made(answer);
                self.left()
            }
            (answer, State::Doing(doing)) => match doing.answered(answer) {
                Done::Page(list) => Some(Step::Listed(Box::new(list))),
                Done::Opened(opened) => Some(Step::Opened(Box::new(opened))),
                Done::Quietly => self.left(),
            },
            _ => None,
        }
    }

    /// The next setting or page, or the end of them.
    pub(crate) fn go_on(&mut self) -> Option<Step> {
        let next = self.left()?;
        Some(self.remembered(next))
    }

    fn left(&mut self) -> Option<Step> {
        match &mut self.state {
            State::Setting(settings) => Some(match settings.next(self.tag) {
                None => Step::Set(settings.session.clone()),
                Some(Ok(command)) => Step::Ask(command),
                Some(Err(why)) => Step::Failed(RootCause::Unsettable(why)),
            }),
            State::Doing(doing) if doing.goes_on() => Some(Step::Ask(doing.request(self.tag, &self.setup))),
            State::Doing(_) => Some(Step::Nowhere),
            State::Waiting(_) | State::Looking(_) | State::Opening => None,
        }
    }

    /// The agent says something about the session.
    pub(crate) fn hear(&mut self, update: &Update) {
        if let State::Setting(settings) = &mut self.state {
            settings.hear(update);
        }
    }

    /// The values of the setting that was asked for last, as the agent lists them now.
    pub(crate) fn values(&self) -> Vec<String> {
        if let State::Setting(settings) = &self.state { settings.values() } else { Vec::new() }
    }

    fn open(&mut self, which: Which) -> Step {
        self.state = State::Opening;
        Step::Ask(Command::OpenSession { tag: self.tag, which, setup: self.setup.clone() })
    }

    fn listed(&mut self, list: SessionList) -> Option<Step> {
        let State::Looking(search) = &mut self.state else { return None };
        search.read(list.sessions);
        if let Some(cursor) = list.next_cursor.filter(|_| search.pages > 0) {
            return Some(search.list(self.tag, Some(cursor)));
        }
        if let Some(session) = search.latest.take() {
            let which = reopen(session.session_id, &search.offers, self.transcript);
            // The agent may look it up by the folder as well.
            self.setup.cwd = session.cwd;
            return Some(self.open(which));
        }
        if let Some(cwd) = search.spellings.pop_front() {
            search.cwd = cwd;
            return Some(search.list(self.tag, None));
        }
        Some(Step::Failed(RootCause::NoSession { cwd: self.setup.cwd.clone() }))
    }
}

impl Search {
    fn list(&self, tag: Tag, cursor: Option<String>) -> Step {
        Step::Ask(Command::ListSessions { tag, cwd: Some(self.cwd.clone()), cursor })
    }

    /// Reads a page. Agents list what changed last first, so where there are no times the first one counts.
    fn read(&mut self, page: Vec<SessionInfo>) {
        let cwd = self.cwd.trim_end_matches('/');
        for session in page.into_iter().filter(|session| session.cwd.trim_end_matches('/') == cwd) {
            // ISO 8601 in UTC sorts as text.
            if self.latest.as_ref().is_none_or(|latest| session.updated_at > latest.updated_at) {
                self.latest = Some(session);
            }
        }
        self.pages -= 1;
    }
}

fn reopen(session: SessionId, offers: &AgentCapabilities, transcript: bool) -> Which {
    let resumes = offers.session_capabilities.resume && !(transcript && offers.load_session);
    if resumes { Which::Resume(session) } else { Which::Load(session) }
}

/// Pages of the agent's list of sessions that are looked at: a list may have no end.
const PAGES: u32 = 100;
