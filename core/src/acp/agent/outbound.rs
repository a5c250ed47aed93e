//! What the application answers, reports and asks.

use serde::Serialize;

use super::{
    About, Agent, Ask, Command, Event, Greeting, Of, Reply, Session, Stage, Turn, TurnKey, TurnState,
};
use crate::acp::exposed::Exposed;
use crate::acp::peer::{RequestKey, is_extension};
use crate::acp::permission::{PermissionOutcome, PermissionRequest};
use crate::acp::services::{Elicit, ServiceRequest};
use crate::acp::session::{ConfigKind, ConfigOption, SessionState};
use crate::acp::turn::{StopReason, Stopped};
use crate::acp::update::{ConfigOptions, SessionUpdate, Speaker, TextUpdate, Update};
use crate::acp::{Json, SessionId, method};
use crate::closed::Cause;
use crate::machine::{Now, Refused, Tag};
use crate::role::Role;
use crate::rpc::{self, Id, RpcError, code};

impl Agent {
    pub(super) fn act_on(&mut self, now: Now, command: Command) -> Result<(), Refused> {
        match self.stage {
            _ if matches!(command, Command::Shutdown) => {}
            Stage::Introduced(_) if matches!(command, Command::Greet(_)) => {}
            Stage::Opening | Stage::Fresh | Stage::Introduced(_) => return Err(Refused::NotReady),
            Stage::Greeted | Stage::Serving if !self.wire.link.is_open() => return Err(Refused::Closed),
            Stage::Greeted | Stage::Serving => {}
        }
        match command {
            Command::Greet(greeting) => {
                let Stage::Introduced(id) = &self.stage else {
                    return Err(Refused::Invalid("initialize is answered already"));
                };
                let id = id.clone();
                let Greeting { info, capabilities, auth_methods } = *greeting;
                self.greeting.agent_info = info;
                self.greeting.agent_capabilities = capabilities;
                self.greeting.auth_methods = auth_methods;
                self.greet(&id);
                Ok(())
            }
            Command::Reply { request, reply } => self.reply(request, reply),
            Command::Fail { request, error } => {
                let id = &self.requests.get(&request).ok_or(Refused::Unknown)?.id;
                self.wire.link.line_within(self.limits.line, |buf| rpc::reply_error(buf, id, &error))?;
                self.close_request(request);
                Ok(())
            }
            Command::Say { turn, speaker, text } => self.say(turn, speaker, &text),
            Command::Tell { session, speaker, text, message } => {
                self.home(&session)?;
                self.wire.has_room()?;
                self.text(&session, speaker, &text, message.as_deref())
            }
            Command::Report { turn, update } => {
                let session = self.turn(turn)?.session.clone();
                self.update(session, update)
            }
            Command::Announce { session, update } => {
                self.home(&session)?;
                self.update(session, update)
            }
            Command::AskPermission { tag, of, tool_call, options, meta } => {
                let (session_id, turn) = match of {
                    Of::Turn(turn) => (self.turn(turn)?.session.clone(), Some(turn)),
                    Of::Session(session) => match self.home(&session)?.1 {
                        Session::Running(turn) => (session, Some(turn)),
                        Session::Idle | Session::Loading => (session, None),
                    },
                };
                let ids = options.iter().map(|option| option.option_id.clone()).collect();
                let params = PermissionRequest { session_id, tool_call, options, meta };
                self.ask(Ask::Permission(tag, turn, ids), method::REQUEST_PERMISSION, &params)
            }
            Command::Request { tag, wanted } => self.service(tag, &wanted),
            Command::Withdraw { tag } => {
                let number = self.number_of(tag).ok_or(Refused::Unknown)?;
                let params = Withdraw { request_id: number };
                self.wire.link.line(|buf| rpc::notification(buf, method::CANCEL_REQUEST, &params));
                Ok(())
            }
            Command::EndTurn { turn, stopped } => {
                let Turn { id, state, .. } = self.turn(turn)?;
                let reason =
                    if let TurnState::Cancelled = state { StopReason::Cancelled } else { stopped.reason };
                let (id, stopped) = (id.clone(), Stopped { reason, ..stopped });
                self.answer(&id, &stopped)?;
                self.close_turn(turn);
                Ok(())
            }
            Command::FailTurn { turn, error } => {
                let Turn { id, state, .. } = self.turn(turn)?;
                // Aborting work makes it fail, and a client that cancelled must not be told of an error (ACP,
                // prompt-turn).
                if let TurnState::Cancelled = state {
                    return self
                        .act_on(now, Command::EndTurn { turn, stopped: StopReason::Cancelled.into() });
                }
                let id = id.clone();
                self.wire.link.line_within(self.limits.line, |buf| rpc::reply_error(buf, &id, &error))?;
                self.close_turn(turn);
                Ok(())
            }
            Command::Notify { method, params } => {
                is_extension(&method, &params)?;
                self.wire.send(self.limits.line, |buf| rpc::notification(buf, &method, &params))
            }
            Command::CompleteElicitation { elicitation } => {
                if !self.client.elicitation.url {
                    return Err(Refused::NotOffered("elicitation by url"));
                }
                let params = Completed { elicitation_id: &elicitation };
                let method = method::ELICITATION_COMPLETE;
                self.wire.send(self.limits.line, |buf| rpc::notification(buf, method, &params))
            }
            Command::Shutdown => {
                self.part(now, Cause::Left);
                Ok(())
            }
        }
    }

    fn turn(&self, key: TurnKey) -> Result<&Turn, Refused> {
        self.turns.get(&key).ok_or(Refused::Unknown)
    }

    /// The session that one of ours or of a subagent's works in, and how it stands.
    fn home(&self, session: &SessionId) -> Result<(&SessionId, Session), Refused> {
        let home = self.subagents.get(session).unwrap_or(session);
        self.sessions.get_key_value(home).map(|(home, state)| (home, *state)).ok_or(Refused::Unknown)
    }

    /// A session is no more, and none of its subagents is.
    pub(super) fn forget(&mut self, session: &SessionId) -> Option<Session> {
        self.subagents.retain(|_, of| of != session);
        self.sessions.remove(session)
    }

    fn reply(&mut self, key: RequestKey, reply: Reply) -> Result<(), Refused> {
        let question = self.requests.get(&key).ok_or(Refused::Unknown)?;
        let id = question.id.clone();
        match (&question.about, reply) {
            (About::NewSession, Reply::SessionOpened { session, state }) => {
                if self.sessions.contains_key(&session) {
                    return Err(Refused::Invalid("that session id is in use"));
                }
                self.answer(&id, &NewSession { session_id: &session, state: self.shown(state) })?;
                self.sessions.insert(session, Session::Idle);
            }
            (About::OldSession(asked, _), Reply::SessionOpened { session, state }) if *asked == session => {
                self.answer(&id, &self.shown(state))?;
                self.sessions.insert(session, Session::Idle);
            }
            (About::Close(session), Reply::Done) => {
                if let Some(Session::Running(turn)) = self.forget(&session.clone()) {
                    // The prompt is answered before the request that ended it.
                    self.cut_short(turn);
                }
                self.answer(&id, &Empty {})?;
            }
            (About::Sessions, Reply::Sessions(list)) => self.answer(&id, &list)?,
            (About::Options, Reply::Options(options)) => {
                let config_options = self.shown_options(options);
                self.answer(&id, &ConfigOptions { config_options })?;
            }
            (About::Extension, Reply::Called(result)) => self.answer(&id, &result)?,
            (About::Other, Reply::Done) => self.answer(&id, &Empty {})?,
            _ => return Err(Refused::Invalid("that is no answer to this request")),
        }
        self.requests.remove(&key);
        Ok(())
    }

    fn answer<R: Serialize>(&mut self, id: &Id, result: &R) -> Result<(), Refused> {
        self.wire.answer(self.limits.line, |buf| rpc::reply(buf, id, result))
    }

    /// The state of a session without what this client cannot show.
    fn shown(&self, mut state: SessionState) -> SessionState {
        state.config_options = state.config_options.map(|options| self.shown_options(options));
        state
    }

    fn shown_options(&self, mut options: Vec<ConfigOption>) -> Vec<ConfigOption> {
        options
            .retain(|option| option.kind == ConfigKind::Select || self.client.session.config_options.boolean);
        options
    }

    fn say(&mut self, turn: TurnKey, speaker: Speaker, text: &str) -> Result<(), Refused> {
        self.wire.has_room()?;
        let session = self.turns.get(&turn).ok_or(Refused::Unknown)?.session.clone();
        self.text(&session, speaker, text, None)
    }

    fn text(
        &mut self,
        session_id: &SessionId,
        speaker: Speaker,
        text: &str,
        message_id: Option<&str>,
    ) -> Result<(), Refused> {
        let params = TextUpdate::new(session_id, speaker, text, message_id);
        self.wire
            .link
            .line_within(self.limits.line, |buf| rpc::notification(buf, method::SESSION_UPDATE, &params))
    }

    fn update(&mut self, session_id: SessionId, mut update: Update) -> Result<(), Refused> {
        self.wire.has_room()?;
        if !self.client.take(&update) {
            return Err(Refused::NotOffered("that kind of update"));
        }
        if let Update::ConfigOptions(list) = &mut update {
            list.config_options = self.shown_options(std::mem::take(&mut list.config_options));
        }
        let subagent = update.subagent();
        let home = self.home(&session_id)?.0.clone();
        let params = SessionUpdate { session_id, update };
        self.wire
            .link
            .line_within(self.limits.line, |buf| rpc::notification(buf, method::SESSION_UPDATE, &params))?;
        self.subagents.extend(subagent.filter(|it| !self.sessions.contains_key(it)).map(|it| (it, home)));
        Ok(())
    }

    fn service(&mut self, tag: Tag, wanted: &ServiceRequest) -> Result<(), Refused> {
        let none = Json::new(&Empty {});
        let may = &self.client;
        let (offered, method): (bool, &str) = match wanted {
            ServiceRequest::ReadTextFile(_) => (may.fs.read_text_file, method::FS_READ),
            ServiceRequest::WriteTextFile(_) => (may.fs.write_text_file, method::FS_WRITE),
            ServiceRequest::CreateTerminal(_) => (may.terminal, method::TERMINAL_CREATE),
            ServiceRequest::TerminalOutput(_) => (may.terminal, method::TERMINAL_OUTPUT),
            ServiceRequest::WaitForTerminal(_) => (may.terminal, method::TERMINAL_WAIT),
            ServiceRequest::KillTerminal(_) => (may.terminal, method::TERMINAL_KILL),
            ServiceRequest::ReleaseTerminal(_) => (may.terminal, method::TERMINAL_RELEASE),
            ServiceRequest::Elicit(elicit) => match &*elicit.mode {
                "form" => (may.elicitation.form, method::ELICIT),
                "url" => (may.elicitation.url, method::ELICIT),
                _ => return Err(Refused::Invalid("an elicitation is a form or a url")),
            },
            ServiceRequest::Extension { method, params } => {
                is_extension(method, params.as_ref().unwrap_or(&none))?;
                (true, method)
            }
        };
        if !offered {
            return Err(Refused::NotOffered("that service"));
        }
        if let ServiceRequest::Elicit(Elicit { session_id, request_id, .. }) = wanted
            && session_id.is_some() == request_id.is_some()
        {
            return Err(Refused::Invalid("an elicitation is about a session or about a request"));
        }
        match wanted {
            ServiceRequest::ReadTextFile(params) => self.ask(Ask::Service(tag), method, params),
            ServiceRequest::WriteTextFile(params) => self.ask(Ask::Service(tag), method, params),
            ServiceRequest::CreateTerminal(params) => self.ask(Ask::Service(tag), method, &Exposed(params)),
            ServiceRequest::TerminalOutput(params)
            | ServiceRequest::WaitForTerminal(params)
            | ServiceRequest::KillTerminal(params)
            | ServiceRequest::ReleaseTerminal(params) => self.ask(Ask::Service(tag), method, params),
            ServiceRequest::Elicit(params) => self.ask(Ask::Service(tag), method, params),
            ServiceRequest::Extension { params, .. } => {
                self.ask(Ask::Service(tag), method, params.as_ref().unwrap_or(&none))
            }
        }
    }

    fn ask<P: Serialize>(&mut self, ask: Ask, method: &str, params: &P) -> Result<(), Refused> {
        if self.number_of(ask.tag()).is_some() {
            return Err(Refused::Busy);
        }
        if self.pending.len() >= self.limits.own_requests {
            return Err(Refused::Limit("open requests"));
        }
        let number = self.pending.next();
        self.wire.send(self.limits.line, |buf| rpc::request(buf, number, method, params))?;
        self.pending.open(ask);
        Ok(())
    }

    fn number_of(&self, tag: Tag) -> Option<u64> {
        self.pending.iter().find(|(_, ask)| ask.tag() == tag).map(|(number, _)| number)
    }

    /// Takes a turn out; its open questions are answered `cancelled`, and its late answers are orphans.
    fn close_turn(&mut self, key: TurnKey) -> Option<Turn> {
        let turn = self.turns.remove(&key)?;
        if let Some(session) = self.sessions.get_mut(&turn.session) {
            *session = Session::Idle;
        }
        let asked: Vec<(u64, Tag)> = self
            .pending
            .iter()
            .filter_map(|(number, ask)| match ask {
                Ask::Permission(tag, of, _) if *of == Some(key) => Some((number, *tag)),
                Ask::Permission(..) | Ask::Service(_) => None,
            })
            .collect();
        for (number, tag) in asked {
            self.pending.forget(number);
            self.wire.tell(Event::PermissionAnswered(tag, PermissionOutcome::Cancelled));
        }
        Some(turn)
    }

    /// Ends a turn for the application, which is told.
    pub(super) fn cut_short(&mut self, key: TurnKey) {
        if let Some(turn) = self.close_turn(key) {
            self.wire.link.line(|buf| rpc::reply(buf, &turn.id, &Stopped::from(StopReason::Cancelled)));
            self.wire.tell(Event::TurnOver(key));
        }
    }

    /// Answers what the application has not, and stops waiting for the client.
    pub(super) fn give_up_requests(&mut self) {
        while let Some((key, _)) = self.requests.first_key_value() {
            let key = *key;
            if let Some(question) = self.close_request(key) {
                self.complain(&question.id, RpcError::new(code::CANCELLED, "the agent is leaving"));
                self.wire.tell(Event::Withdrawn(key));
            }
        }
        while let Some(ask) = self.pending.pop() {
            self.wire.tell(match ask {
                Ask::Permission(tag, ..) => Event::PermissionAnswered(tag, PermissionOutcome::Cancelled),
                Ask::Service(tag) => {
                    Event::Served(tag, Err(RpcError::new(code::CANCELLED, "the connection ended")))
                }
            });
        }
    }
}

#[derive(Serialize)]
struct Empty {}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct NewSession<'a> {
    session_id: &'a SessionId,
    #[serde(flatten)]
    state: SessionState,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Withdraw {
    request_id: u64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Completed<'a> {
    elicitation_id: &'a str,
}
