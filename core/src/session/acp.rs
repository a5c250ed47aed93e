//! An ACP agent as a source of sessions: a [`Client`](crate::acp::client::Client), told in the words of
//! [the vocabulary](super), and what is [hosted](crate::host) for its agent.
//!
//! | the client's | in the middle |
//! |---|---|
//! | `Ready` | `Up` |
//! | `Text`, `Updated` | news, with the update as it was written |
//! | `PermissionAsked`, `Requested` of a person | `Asked` |
//! | `Requested` of anything else | `Wanted`; it comes only where it was offered, and is not [hosted](crate::host) |
//! | what is hosted | `File`, and news of what was done |
//! | `Withdrawn`, `elicitation/complete` | `Settled` |
//! | `Answered`, `Failed` | `Done`, and `Opened` of a session |
//! | `TurnEnded` | `Ended` |
//! | `Line`, `Stderr`, `Noticed` | `Noted` |
//! | `Closed` | `Down` |

use std::collections::{BTreeMap, BTreeSet};

use super::{
    AskId, Asked, By, Can, Done, Ended, Item, Moment, Name, News, Noted, Outcome, Question, Reply, Setting,
    Settled, Told, Trouble, TurnId, Up, Wish,
};
use crate::acp::client::{self, Answer, Command, Config, Event, Failure, Requested, Updated};
use crate::acp::elicitation::{self, Wants};
use crate::acp::services::ServiceRequest;
use crate::acp::session::{AgentCapabilities, ConfigOption, ConfigValue};
use crate::acp::{Json, Notice, PermissionOutcome, RequestKey, StopReason, Stopped, Update};
use crate::closed::{Cause, Closed};
use crate::host::{self, Hosted, Hosting};
use crate::machine::{Deadline, Input, Machine, Now, Output, Outputs, Refused, Tag};
use crate::rpc::{RpcError, code, cut};

/// An ACP agent as a source of sessions.
#[derive(Debug)]
pub struct Acp {
    client: Hosting,
    /// Turns that run, by session.
    turns: BTreeMap<Name, TurnId>,
    /// The config option that chooses the model, by session.
    models: BTreeMap<Name, String>,
    asks: BTreeMap<RequestKey, Waiting>,
    /// Questions that were given up just now: whether by the end of their turn is what comes next.
    given_up: Vec<(Name, AskId)>,
    /// Files and terminals that were wanted.
    services: BTreeSet<RequestKey>,
    /// Pages that were agreed to, by their id.
    pages: BTreeMap<String, (AskId, Name)>,
    out: Outputs<Told>,
}

/// A question that is open.
#[derive(Debug)]
struct Waiting {
    session: Name,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Permission,
    Form,
    Page(String),
}

impl Machine for Acp {
    type Config = Config;
    type Command = (Tag, Wish);
    type Event = Told;

    /// Without the client's own clock of a cancel: whoever decides has one for all sources.
    fn new(now: Now, config: Config) -> Self {
        Self::hosting(now, config, host::Config::default())
    }

    fn handle(&mut self, now: Now, input: Input<'_>) {
        self.client.handle(now, input);
        self.settle(now);
    }

    fn command(&mut self, now: Now, (tag, wish): (Tag, Wish)) -> Result<(), Refused> {
        let done = self.wish(now, tag, wish);
        self.settle(now);
        done
    }

    fn poll(&mut self) -> Option<Output<Told>> {
        self.out.pop()
    }

    fn deadline(&self) -> Option<Deadline> {
        self.client.deadline()
    }
}

impl Acp {
    /// The same, with files and terminals for its agent: they are offered, and nobody is asked again.
    #[must_use]
    pub fn hosting(now: Now, mut config: Config, host: host::Config) -> Self {
        config.timeouts.cancel = None;
        config.whole = true;
        let mut this = Self {
            client: Hosting::new(now, config, host),
            turns: BTreeMap::new(),
            models: BTreeMap::new(),
            asks: BTreeMap::new(),
            given_up: Vec::new(),
            services: BTreeSet::new(),
            pages: BTreeMap::new(),
            out: Outputs::default(),
        };
        this.settle(now);
        this
    }

    fn wish(&mut self, now: Now, tag: Tag, wish: Wish) -> Result<(), Refused> {
        let command = match wish {
            Wish::Open(which, setup) => Command::OpenSession { tag, which, setup: *setup },
            Wish::List { cwd, cursor } => Command::ListSessions { tag, cwd, cursor },
            Wish::Prompt { session, turn, words } => {
                let prompt = Command::Prompt { tag: Tag(turn.0), session: session.clone(), prompt: words };
                self.client.command(now, prompt)?;
                self.turns.insert(session.clone(), turn);
                self.news(session, Moment::Turn, News::Began(By::Us(turn)));
                return Ok(());
            }
            Wish::Cancel { session } => Command::Cancel { session },
            Wish::Answer { ask, reply } => return self.answer(now, ask, reply),
            Wish::Serve { ask, answer } => return self.serve(now, ask, answer),
            Wish::FileDone { request, done } => return self.client.file_done(now, request, done),
            Wish::Set { session, setting } => self.setting(tag, session, setting),
            Wish::Close { session } => return self.close(now, tag, session),
            Wish::Delete { session } => Command::DeleteSession { tag, session },
            Wish::Login { method } => Command::Authenticate { tag, method },
            Wish::Logout => Command::Logout { tag },
            Wish::Leave => Command::Shutdown,
            Wish::Aside { .. } => return Err(Refused::NotOffered("side questions")),
            Wish::Rules(_) => return Err(Refused::NotOffered("rules of approval")),
            Wish::OfRunner(_) => return Err(Refused::NotOffered("what runners have")),
            Wish::Seen(_) => return Err(Refused::NotOffered("presence records")),
            Wish::Accept | Wish::Refuse(_) => return Err(Refused::NotOffered("a hello")),
        };
        self.client.command(now, command)
    }

    /// An agent may know no end of a session. What is hosted for it has one.
    fn close(&mut self, now: Now, tag: Tag, session: Name) -> Result<(), Refused> {
        let close = Command::CloseSession { tag, session: session.clone() };
        let done = self.client.command(now, close);
        if !matches!(done, Err(Refused::NotOffered(_))) || !self.client.hosts() {
            return done;
        }
        self.client.session_over(now, &session);
        self.done(tag, Ok(Done::Fine));
        Ok(())
    }

    fn setting(&self, tag: Tag, session: Name, setting: Setting) -> Command {
        match setting {
            Setting::Mode(mode) => Command::SetMode { tag, session, mode },
            Setting::Option(option, value) => Command::SetOption { tag, session, option, value },
            Setting::Model(model) => match self.models.get(&session) {
                Some(option) => {
                    let (option, value) = (option.clone(), ConfigValue::Id(model));
                    Command::SetOption { tag, session, option, value }
                }
                None => Command::SetModel { tag, session, model },
            },
        }
    }

    fn answer(&mut self, now: Now, ask: AskId, reply: Reply) -> Result<(), Refused> {
        let request = RequestKey(ask.0);
        let question = self.asks.get(&request).ok_or(Refused::Unknown)?;
        let mut agreed = false;
        let command = match (&question.kind, reply) {
            (Kind::Permission, Reply::Choose(option)) => {
                Command::Answer { request, outcome: PermissionOutcome::selected(option) }
            }
            (Kind::Permission, Reply::Accept(_) | Reply::Decline | Reply::Cancel | Reply::NotMe) => {
                Command::Answer { request, outcome: PermissionOutcome::Cancelled }
            }
            (Kind::Form | Kind::Page(_), reply) => {
                let reply = match reply {
                    Reply::Accept(content) => elicitation::Reply::Accept { content },
                    Reply::Decline => elicitation::Reply::Decline,
                    Reply::Choose(_) | Reply::Cancel | Reply::NotMe => elicitation::Reply::Cancel,
                };
                agreed = matches!(reply, elicitation::Reply::Accept { .. });
                Command::Reply { request, result: Json::new(&reply) }
            }
        };
        self.client.command(now, command)?;
        if let Some(Waiting { session, kind: Kind::Page(id) }) = self.asks.remove(&request)
            && agreed
        {
            if self.pages.len() >= PAGES {
                self.pages.pop_first();
            }
            self.pages.insert(id, (ask, session));
        }
        Ok(())
    }

    fn serve(&mut self, now: Now, ask: AskId, answer: Result<Json, RpcError>) -> Result<(), Refused> {
        let request = RequestKey(ask.0);
        if !self.services.remove(&request) {
            return Err(Refused::Unknown);
        }
        self.client.command(
            now,
            match answer {
                Ok(result) => Command::Reply { request, result },
                Err(error) => Command::Fail { request, error },
            },
        )
    }

    fn settle(&mut self, now: Now) {
        while let Some(output) = self.client.poll(now) {
            match self.out.pass(output) {
                None => {}
                Some(host::Told::Client(event)) => self.told(event),
                // It was offered, and that is the consent.
                Some(host::Told::Asked(asked)) => self.client.decide(now, asked.request, Ok(())),
                Some(host::Told::File(wanted)) => self.out.tell(Told::File(wanted)),
                Some(host::Told::Hosted(hosted)) => self.hosted(*hosted),
            }
        }
        self.give_up(None);
    }

    /// Tells which questions need no answer any more, those of the session whose turn is over as such.
    fn give_up(&mut self, over: Option<&Name>) {
        for (session, ask) in std::mem::take(&mut self.given_up) {
            let how = if over == Some(&session) { Settled::TurnOver } else { Settled::Withdrawn };
            self.settled(session, ask, how);
        }
    }

    fn told(&mut self, event: Event) {
        match &event {
            Event::Withdrawn(_) => {}
            Event::TurnEnded(ended) => self.give_up(Some(&ended.session)),
            Event::Ready(_)
            | Event::Line(_)
            | Event::Text(_)
            | Event::Updated(_)
            | Event::PermissionAsked(_)
            | Event::Requested(_)
            | Event::Notified(_)
            | Event::Answered(..)
            | Event::Failed(..)
            | Event::Stderr(_)
            | Event::Noticed(_)
            | Event::Closed(_) => self.give_up(None),
        }
        match event {
            Event::Ready(ready) => {
                let can = can(&ready.capabilities);
                let meta = ready.capabilities.meta;
                let up = Up { who: ready.agent_info, can, logins: ready.auth_methods, meta };
                self.out.tell(Told::Up(Box::new(up)));
            }
            Event::Line(line) => self.noted(Noted::Odd(Json::new(&line))),
            Event::Text(client::Text { session, speaker, moment, text, message }) => {
                self.news(session, moment, News::Text { speaker, message, text });
            }
            Event::Updated(updated) => self.updated(*updated),
            Event::PermissionAsked(asked) => {
                let client::PermissionAsked { request, asked } = *asked;
                let (call, options, meta) = (asked.tool_call, asked.options, asked.meta);
                let question = Question::Permission { call, options, why: None, meta };
                self.asked(request, Some(asked.session_id), Kind::Permission, question);
            }
            Event::Requested(requested) => self.requested(*requested),
            Event::Withdrawn(request) => {
                self.services.remove(&request);
                if let Some(Waiting { session, .. }) = self.asks.remove(&request) {
                    self.given_up.push((session, AskId(request.0)));
                }
            }
            Event::Notified(notified) => self.notified(notified.method, notified.params),
            Event::Answered(tag, answer) => self.answered(tag, *answer),
            Event::Failed(tag, failure) => self.done(tag, Err(trouble(*failure))),
            Event::TurnEnded(ended) => {
                let turn = TurnId(ended.tag.0);
                self.turns.remove(&ended.session);
                let end = Ended { turn: Some(turn), ..how(ended.end) };
                self.news(ended.session, Moment::Turn, News::Ended(Box::new(end)));
            }
            Event::Stderr(text) => self.noted(Noted::Stderr(text)),
            Event::Noticed(notice) => {
                if let Notice::Forgotten(session) = &*notice {
                    self.models.remove(session);
                    self.news(session.clone(), Moment::Between, News::Closed);
                }
                self.noted(Noted::Odd(Json::new(&*notice)));
            }
            Event::Closed(closed) => self.out.tell(down(*closed)),
        }
    }

    fn hosted(&mut self, hosted: Hosted) {
        let session = hosted.session.clone();
        let moment = if self.turns.contains_key(&session) { Moment::Turn } else { Moment::Between };
        self.news(session, moment, News::Hosted(Box::new(hosted)));
    }

    fn updated(&mut self, updated: Updated) {
        if let Update::ConfigOptions(all) = &updated.update {
            self.remember_model(&updated.session, &all.config_options);
        }
        self.out.tell(Told::News(item(updated)));
    }

    fn requested(&mut self, Requested { request, wanted }: Requested) {
        let elicit = match wanted {
            ServiceRequest::Elicit(elicit) => elicit,
            wanted @ (ServiceRequest::ReadTextFile(_)
            | ServiceRequest::WriteTextFile(_)
            | ServiceRequest::CreateTerminal(_)
            | ServiceRequest::TerminalOutput(_)
            | ServiceRequest::WaitForTerminal(_)
            | ServiceRequest::KillTerminal(_)
            | ServiceRequest::ReleaseTerminal(_)
            | ServiceRequest::Extension { .. }) => {
                self.services.insert(request);
                return self.out.tell(Told::Wanted(AskId(request.0), Box::new(wanted)));
            }
        };
        let session = elicit.session_id.clone();
        let (text, wants) = elicitation::read(elicit);
        let (kind, question) = match wants {
            Wants::Page { url, id } => {
                let id = id.unwrap_or_default();
                (Kind::Page(cut(&id, PAGE).to_owned()), Question::Page { text, url, id })
            }
            Wants::Form(schema) => (Kind::Form, Question::Form { text, schema }),
        };
        self.asked(request, session, kind, question);
    }

    /// A session that we do not know is one of the agent's own, a subagent's: its question belongs to the one turn that
    /// runs, if there is one.
    fn asked(&mut self, request: RequestKey, by: Option<Name>, kind: Kind, question: Question) {
        let only = if self.turns.len() == 1 { self.turns.keys().next().cloned() } else { None };
        let (session, of) = match (by, only) {
            (Some(by), Some(only)) if !self.client.client().knows(&by) => (only, Some(by)),
            (Some(by), _) => (by, None),
            (None, only) => (only.unwrap_or_else(|| "".into()), None),
        };
        let moment = if self.turns.contains_key(&session) { Moment::Turn } else { Moment::Between };
        self.asks.insert(request, Waiting { session: session.clone(), kind });
        let asked = Asked { ask: AskId(request.0), question, of, expires: None };
        self.news(session, moment, News::Asked(Box::new(asked)));
    }

    fn notified(&mut self, method: String, params: Option<Json>) {
        let page = elicitation::page_done(&method, params.as_ref());
        match page.and_then(|page| self.pages.remove(cut(&page, PAGE))) {
            Some((ask, session)) => self.settled(session, ask, Settled::Elsewhere),
            None => self.out.tell(Told::Other(Box::new((method, params)))),
        }
    }

    fn answered(&mut self, tag: Tag, answer: Answer) {
        let done = match answer {
            Answer::SessionOpened { session, state } => {
                self.remember_model(&session, state.config_options.as_deref().unwrap_or_default());
                // The name comes before what is said of it.
                self.done(tag, Ok(Done::Opened(session.clone(), Box::new(state))));
                return self.news(session, Moment::Between, News::Opened);
            }
            Answer::Sessions(list) => Done::Listed(Box::new(list)),
            Answer::OptionSet(options) => Done::Set(options),
            Answer::Authenticated
            | Answer::LoggedOut
            | Answer::SessionClosed
            | Answer::SessionDeleted
            | Answer::ModeSet
            | Answer::ModelSet
            | Answer::Called(_) => Done::Fine,
        };
        self.done(tag, Ok(done));
    }

    fn remember_model(&mut self, session: &Name, options: &[ConfigOption]) {
        if let Some(option) = options.iter().find(|option| option.category.as_deref() == Some("model")) {
            self.models.insert(session.clone(), option.id.clone());
        }
    }

    fn settled(&mut self, session: Name, ask: AskId, how: Settled) {
        self.news(session, Moment::Between, News::Settled(ask, how));
    }

    fn done(&mut self, tag: Tag, done: Result<Done, Trouble>) {
        self.out.tell(Told::Done(tag, Box::new(done)));
    }

    fn noted(&mut self, noted: Noted) {
        self.out.tell(Told::Noted(Box::new(noted)));
    }

    fn news(&mut self, session: Name, moment: Moment, news: News) {
        self.out.tell(Told::News(Item { session, moment, news, raw: None }));
    }
}

/// An update, with what was written.
pub(super) fn item(Updated { session, moment, update, raw, of: _ }: Updated) -> Item {
    let news = match update {
        Update::Message(speaker, chunk) => News::Block(Box::new((speaker, chunk))),
        Update::ToolCall(call) => News::Tool { is_new: true, call: Box::new(call.into()) },
        Update::ToolCallUpdate(call) => News::Tool { is_new: false, call: Box::new(call) },
        Update::Plan(plan) => News::Plan(Box::new(plan)),
        Update::AvailableCommands(commands) => News::Commands(commands.available_commands),
        Update::CurrentMode(mode) => News::Mode(mode.current_mode_id),
        Update::ConfigOptions(all) => News::Options(all.config_options),
        Update::SessionInfo(info) => {
            News::Info { title: Box::new(info.title), updated_at: Box::new(info.updated_at) }
        }
        Update::Usage(usage) => News::Usage(Box::new(usage)),
        Update::Other(unknown) => News::Other(unknown.tag),
    };
    Item { session, moment, news, raw: Some(raw) }
}

/// The end of a link, the same for every channel.
pub(super) fn down<F: ToString>(Closed { cause, obituary }: Closed<F>) -> Told {
    let cause = match cause {
        Cause::Left => Cause::Left,
        Cause::Gone => Cause::Gone,
        Cause::Failed(error) => Cause::Failed(error),
        Cause::Fault(fault) => Cause::Fault(fault.to_string()),
    };
    Told::Down(Box::new(Closed { cause, obituary }))
}

fn can(offers: &AgentCapabilities) -> Can {
    let sessions = &offers.session_capabilities;
    Can {
        new: true,
        fork: sessions.fork,
        load: offers.load_session,
        resume: sessions.resume,
        list: sessions.list,
        close: sessions.close,
        delete: sessions.delete,
        logout: offers.auth.logout,
        prompt: true,
        images: offers.prompt_capabilities.image,
        audio: offers.prompt_capabilities.audio,
        embed: offers.prompt_capabilities.embedded_context,
        mcp_http: offers.mcp_capabilities.http,
        mcp_sse: offers.mcp_capabilities.sse,
        directories: sessions.additional_directories,
        system_prompt: sessions.system_prompt,
        cancel: true,
        streams: true,
        asks: true,
        set: true,
        set_while_running: true,
        ..Can::default()
    }
}

/// How a turn ended.
pub(super) fn how(end: Result<Stopped, Failure>) -> Ended {
    let none = Ended { turn: None, how: Outcome::Failed, word: None, trouble: None, spent: None, meta: None };
    match end {
        Ok(Stopped { reason, usage, meta }) => {
            let how = match reason {
                StopReason::EndTurn => Outcome::Completed,
                StopReason::MaxTokens => Outcome::MaxTokens,
                StopReason::Refusal => Outcome::Refused,
                StopReason::Cancelled => Outcome::Cancelled,
                StopReason::MaxTurnRequests | StopReason::Other(_) => Outcome::Failed,
            };
            Ended { how, word: Some(reason.as_str().to_owned()), spent: usage, meta, ..none }
        }
        Err(failure) => {
            let how = match failure {
                Failure::Unconfirmed { .. } => Outcome::Cancelled,
                Failure::Disconnected | Failure::Shutdown => Outcome::Lost,
                Failure::Rpc(_)
                | Failure::Unreadable(_)
                | Failure::TimedOut { .. }
                | Failure::Silent { .. } => Outcome::Failed,
            };
            Ended { how, trouble: Some(Box::new(trouble(failure))), ..none }
        }
    }
}

/// The agent's error as it was, or one of ours.
pub(super) fn trouble(failure: Failure) -> Trouble {
    if let Failure::Rpc(error) = failure {
        return error;
    }
    RpcError::new(code::INTERNAL_ERROR, failure.to_string())
}

/// Pages that were agreed to and are not done: as many as requests may be open.
const PAGES: usize = 1024;
/// Bytes of a page's name that are kept: with each of them it is as good as unique.
const PAGE: usize = 1024;

#[cfg(test)]
mod tests {
    use super::super::Open;
    use super::*;
    use crate::acp::{ContentBlock, SessionSetup};
    use crate::machine::{Heard, LinkId, Peer};

    struct Rig(Acp);

    impl Rig {
        fn new() -> Self {
            Self::of(Config::new(crate::machine::Open::Given(0)))
        }

        fn of(config: Config) -> Self {
            let mut rig = Self(Acp::new(Now::default(), config));
            rig.hear(Heard::Opened(Peer::default()));
            rig.line(r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1}}"#);
            let setup = Box::new(SessionSetup::in_directory("/w"));
            rig.wish(Wish::Open(Open::New, setup));
            rig.line(r#"{"jsonrpc":"2.0","id":1,"result":{"sessionId":"s"}}"#);
            rig
        }

        fn hear(&mut self, heard: Heard<'_>) -> Vec<Told> {
            self.0.handle(Now::default(), Input::Link(LinkId::FIRST, heard));
            std::iter::from_fn(|| self.0.poll())
                .filter_map(|output| if let Output::Tell(told) = output { Some(told) } else { None })
                .collect()
        }

        fn line(&mut self, line: &str) -> Vec<Told> {
            self.hear(Heard::Bytes(format!("{line}\n").as_bytes()))
        }

        fn wish(&mut self, wish: Wish) {
            self.0.command(Now::default(), (Tag(7), wish)).expect("it may");
        }

        fn prompt(&mut self) {
            let words = vec![ContentBlock::text("x")];
            self.wish(Wish::Prompt { session: "s".into(), turn: TurnId(9), words });
        }
    }

    fn ask_of(session: &str) -> String {
        format!(
            r#"{{"jsonrpc":"2.0","id":5,"method":"session/request_permission","params":{{"sessionId":"{session}","toolCall":{{"toolCallId":"c"}},"options":[],"_meta":{{"x":1}}}}}}"#
        )
    }

    #[test]
    fn the_end_of_a_turn_comes_before_the_reason_of_the_crash() {
        let mut rig = Rig::new();
        rig.prompt();
        let mut told = rig.hear(Heard::Eof);
        for _ in 0..3 {
            told.extend(rig.hear(Heard::Written));
        }
        let ended = |told: &Told| {
            let Told::News(Item { news: News::Ended(ended), .. }) = told else { return None };
            Some((ended.turn, ended.how))
        };
        assert_eq!(told.iter().find_map(ended), Some((Some(TurnId(9)), Outcome::Lost)));
        assert!(matches!(told.last(), Some(Told::Down(closed)) if closed.cause == Cause::Gone), "{told:?}");
    }

    #[test]
    fn what_a_subagent_asks_is_the_question_of_the_turn_that_runs_and_ends_with_it() {
        let mut rig = Rig::new();
        rig.prompt();
        let told = rig.line(&ask_of("child"));
        let [.., Told::News(Item { session, news: News::Asked(asked), .. })] = &told[..] else {
            panic!("{told:?}")
        };
        assert_eq!((session.as_str(), asked.of.as_ref().map(Name::as_str)), ("s", Some("child")));
        let Question::Permission { meta: Some(meta), .. } = &asked.question else { panic!("{asked:?}") };
        assert_eq!(meta.get(), r#"{"x":1}"#);
        rig.wish(Wish::Cancel { session: "s".into() });
        let told = rig.hear(Heard::Written);
        let settled = News::Settled(asked.ask, Settled::Withdrawn);
        assert!(told.iter().any(|told| matches!(told, Told::News(item) if item.news == settled)), "{told:?}");
    }

    #[test]
    fn an_update_goes_along_as_it_was_written() {
        let mut rig = Rig::new();
        let update = r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"t","_meta":{"a" : 1}}}"#;
        let told = rig.line(&format!(
            r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"s","update":{update}}}}}"#
        ));
        let [Told::News(item)] = &told[..] else { panic!("{told:?}") };
        assert!(matches!(item.news, News::Block(_)));
        assert_eq!(item.raw.as_ref().map(Json::get), Some(update));
    }

    #[test]
    fn a_page_that_was_agreed_to_is_done_once() {
        let page = |id: &str| {
            format!(
                r#"{{"jsonrpc":"2.0","id":5,"method":"elicitation/create","params":{{"sessionId":"s","mode":"url","message":"accept","url":"https://x"{id}}}}}"#
            )
        };
        let done = r#"{"jsonrpc":"2.0","method":"elicitation/complete","params":{"elicitationId":"p"}}"#;
        let mut config = Config::new(crate::machine::Open::Given(0));
        config.capabilities.elicitation.url = true;
        for (id, reply, is_told) in [
            (r#","elicitationId":"p""#, Reply::Accept(None), true),
            (r#","elicitationId":"p""#, Reply::Decline, false),
            ("", Reply::Accept(None), false),
        ] {
            let mut rig = Rig::of(config.clone());
            let told = rig.line(&page(id));
            let [Told::News(Item { news: News::Asked(asked), .. })] = &told[..] else { panic!("{told:?}") };
            assert!(matches!(&asked.question, Question::Page { url, .. } if url == "https://x"));
            rig.wish(Wish::Answer { ask: asked.ask, reply });
            let settled = News::Settled(asked.ask, Settled::Elsewhere);
            for is_told in [is_told, false] {
                let told = rig.line(done);
                let is_it = |told: &Told| matches!(told, Told::News(item) if item.news == settled);
                assert_eq!(told.iter().any(is_it), is_told, "{id} {told:?}");
            }
        }
    }
}
