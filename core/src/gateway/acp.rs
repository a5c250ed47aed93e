//! An ACP client, such as an editor, as a front: one machine around [`Agent`], so its link keeps its name.
//!
//! | the client | says |
//! |---|---|
//! | introduces itself | `Introduced`; it is answered when it is known what the far side can |
//! | opens, lists, closes, deletes, sets, logs in or out | a wish each |
//! | prompts, cancels | `Prompt`; `Withdraw` of its own prompt |
//! | answers | `Answer`, `Serve` |
//! | gives a request up | nothing; a session that opens for nobody is closed again |
//! | does not read | `Full`, and what it is shown waits here in its order |
//!
//! | it is shown | to the client |
//! |---|---|
//! | `Up` | the answer to `initialize` |
//! | a text | a chunk |
//! | any other update | as it was written, where it was; else what is known of it |
//! | a permission | `session/request_permission`, in a turn or not |
//! | a form, a page | `elicitation/create` where that is offered; else `NotMe` |
//! | a question in words | a text: the next prompt answers it |
//! | `Settled` | `$/cancel_request`; of a page that was agreed to, `elicitation/complete` |
//! | a warning, a note | a text |
//! | `Ended` | the answer to the prompt: the agent's word, its error, or why there is neither |
//! | `Began`, `Busy`, `Step` | nothing |
//! | `Wanted` | the file or terminal request |
//! | `Down` | open prompts and requests fail with the reason, and that is the end |

use std::collections::BTreeMap;

use serde::Deserialize;

use super::api::Event as Ours;
use super::front::{Said, Waiting, no_end, refusal};
use crate::acp::agent::{self, Agent, Command, Event, Greeting, Of, TurnKey, Wanted};
use crate::acp::content::Unknown;
use crate::acp::services::{Elicit, ServiceRequest};
use crate::acp::session::{
    AgentAuth, AgentCapabilities, McpCapabilities, PromptCapabilities, SessionCapabilities,
};
use crate::acp::update::{AvailableCommands, Chunk, ConfigOptions, CurrentMode, SessionInfoUpdate, Speaker};
use crate::acp::{ContentBlock, Json, PermissionOutcome, RequestKey, StopReason, Stopped, Update};
use crate::closed::Closed;
use crate::machine::{Deadline, Input, Machine, Now, Output, Outputs, Refused, Tag};
use crate::rpc::{RpcError, code};
use crate::session::{
    AskId, Asked, Can, Done, Ended, Item, Name, News, Noted, Open, Outcome, Question, Reply, Setting,
    Settled, Told, Trouble, TurnId, Up, Wish, why,
};

/// An ACP client as a front.
#[derive(Debug)]
pub(super) struct Front {
    agent: Agent,
    /// Of turns and of tags.
    next: u64,
    turns: BTreeMap<TurnId, TurnKey>,
    requests: BTreeMap<Tag, (RequestKey, Kind)>,
    /// Questions that the client has to answer.
    asks: BTreeMap<AskId, Asking>,
    /// Pages that were agreed to, by the name that the client knows.
    pages: BTreeMap<AskId, String>,
    waiting: Waiting,
    out: Outputs<Said>,
}

/// What a request is answered with.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Kind {
    Open,
    Options,
    Other,
}

/// What is asked, as far as the answer depends on it.
#[derive(Debug)]
enum Asking {
    Other,
    /// A page of that name.
    Page(String),
}

/// The result of an elicitation.
#[derive(Deserialize)]
struct Answered {
    action: String,
    #[serde(default)]
    content: Option<Json>,
}

impl Machine for Front {
    type Config = agent::Config;
    type Command = Told;
    type Event = Said;

    fn new(now: Now, config: agent::Config) -> Self {
        let config = agent::Config { greets_late: true, ..config };
        let mut this = Self {
            agent: Agent::new(now, config),
            next: 0,
            turns: BTreeMap::new(),
            requests: BTreeMap::new(),
            asks: BTreeMap::new(),
            pages: BTreeMap::new(),
            waiting: Waiting::default(),
            out: Outputs::default(),
        };
        this.settle(now);
        this
    }

    fn handle(&mut self, now: Now, input: Input<'_>) {
        self.agent.handle(now, input);
        self.settle(now);
    }

    /// Takes whatever it is shown.
    fn command(&mut self, now: Now, told: Told) -> Result<(), Refused> {
        self.waiting.push(told);
        self.settle(now);
        Ok(())
    }

    fn poll(&mut self) -> Option<Output<Said>> {
        self.out.pop()
    }

    fn deadline(&self) -> Option<Deadline> {
        self.agent.deadline()
    }
}

impl Front {
    fn settle(&mut self, now: Now) {
        loop {
            while let Some(output) = self.agent.poll() {
                if let Some(event) = self.out.pass(output) {
                    self.heard(now, event);
                }
            }
            let Some(told) = self.waiting.pop() else { break };
            self.show(now, told);
        }
        if let Some(full) = self.waiting.full() {
            self.out.tell(Said::Full(full));
        }
    }

    fn heard(&mut self, now: Now, event: Event) {
        match event {
            Event::Initialized(who) => self.out.tell(Said::Introduced(who)),
            Event::Requested(asked) => self.requested(now, asked.request, asked.wanted),
            Event::Prompted(prompted) => {
                let turn = TurnId(self.fresh());
                self.turns.insert(turn, prompted.turn);
                let (session, words) = (prompted.session, prompted.prompt);
                self.out.tell(Said::Wish(Tag(turn.0), Wish::Prompt { session, turn, words }));
            }
            Event::Cancelled(key) => self.withdraw(key),
            // Its session was closed, which cancelled it before, or the client has left, which cancels nothing by itself.
            Event::TurnOver(key) => self.turns.retain(|_, of| *of != key),
            // What was wished goes on; a session that it opens is closed again.
            Event::Withdrawn(request) => self.requests.retain(|_, (of, _)| *of != request),
            Event::PermissionAnswered(tag, outcome) => {
                let reply = match outcome {
                    PermissionOutcome::Selected { option_id } => Reply::Choose(option_id),
                    PermissionOutcome::Cancelled => Reply::Cancel,
                };
                self.answered(AskId(tag.0 / 2), reply);
            }
            Event::Served(tag, answer) if is_service(tag) => {
                self.wish(Wish::Serve { ask: AskId(tag.0 / 2), answer });
            }
            Event::Served(tag, answer) => self.answered(AskId(tag.0 / 2), elicited(answer)),
            Event::Crowded => self.waiting.is_crowded = true,
            Event::Drained => self.waiting.is_crowded = false,
            Event::Notified(_) => {}
            Event::Noticed(notice) => {
                let noted = Box::new(Noted::Odd(Json::new(&*notice)));
                self.out.tell(Said::Event(Ours::Noted(noted)));
            }
            Event::Closed(_) => {
                self.waiting.clear();
                self.out.tell(Said::Left);
            }
        }
    }

    fn requested(&mut self, now: Now, request: RequestKey, wanted: Wanted) {
        let set = |session, setting| Wish::Set { session, setting };
        let (wish, kind) = match wanted {
            Wanted::Authenticate(method) => (Wish::Login { method }, Kind::Other),
            Wanted::Logout => (Wish::Logout, Kind::Other),
            Wanted::NewSession(setup) => (Wish::Open(Open::New, Box::new(setup)), Kind::Open),
            Wanted::LoadSession(name, setup) => (Wish::Open(Open::Load(name), Box::new(setup)), Kind::Open),
            Wanted::ResumeSession(name, setup) => {
                (Wish::Open(Open::Resume(name), Box::new(setup)), Kind::Open)
            }
            Wanted::ListSessions { cwd, cursor } => (Wish::List { cwd, cursor }, Kind::Other),
            Wanted::CloseSession(session) => (Wish::Close { session }, Kind::Other),
            Wanted::DeleteSession(session) => (Wish::Delete { session }, Kind::Other),
            Wanted::SetMode(session, mode) => (set(session, Setting::Mode(mode)), Kind::Other),
            Wanted::SetOption(session, option, value) => {
                (set(session, Setting::Option(option, value)), Kind::Options)
            }
            // None is named in the config.
            Wanted::Extension(method, _) => {
                let error = RpcError::method_not_found(&method);
                return self.obey(now, Command::Fail { request, error });
            }
        };
        let tag = Tag(self.fresh());
        self.requests.insert(tag, (request, kind));
        self.out.tell(Said::Wish(tag, wish));
    }

    fn withdraw(&mut self, key: TurnKey) {
        if let Some((turn, _)) = self.turns.iter().find(|(_, of)| **of == key) {
            self.out.tell(Said::Withdraw(*turn));
        }
    }

    /// A question that is over needs no answer, whatever the client says.
    fn answered(&mut self, ask: AskId, reply: Reply) {
        let Some(asking) = self.asks.remove(&ask) else { return };
        if let (Asking::Page(id), Reply::Accept(_)) = (asking, &reply) {
            if self.pages.len() >= PAGES {
                self.pages.pop_first();
            }
            self.pages.insert(ask, id);
        }
        self.wish(Wish::Answer { ask, reply });
    }

    fn show(&mut self, now: Now, told: Told) {
        match told {
            Told::Up(up) => self.up(now, *up),
            Told::News(item) => self.news(now, item),
            Told::Wanted(ask, wanted) => {
                let tag = Tag(ask.0 * 2 + 1);
                if let Err(refused) = self.agent.command(now, Command::Request { tag, wanted: *wanted }) {
                    self.wish(Wish::Serve { ask, answer: Err(refusal(refused)) });
                }
            }
            Told::Done(tag, done) => self.done(now, tag, *done),
            Told::Other(other) => {
                let (method, params) = *other;
                let params = params.unwrap_or_else(|| Json::new(&serde_json::json!({})));
                // Anything that is no extension has no meaning here.
                self.obey(now, Command::Notify { method, params });
            }
            Told::Down(closed) => self.down(now, &closed),
            Told::Hello(_) | Told::Noted(_) | Told::File(_) => {}
        }
    }

    fn up(&mut self, now: Now, Up { who, can, mut logins, meta }: Up) {
        // Such a login is the agent's command once more, and the client knows only ours.
        logins.retain(|login| !login.is_terminal());
        let greeting = Greeting { info: who, capabilities: offers(can, meta), auth_methods: logins };
        // Refused when it has been greeted.
        self.obey(now, Command::Greet(Box::new(greeting)));
    }

    fn down(&mut self, now: Now, closed: &Closed<String>) {
        let error = RpcError::new(code::INTERNAL_ERROR, why(closed).1);
        for (request, _) in std::mem::take(&mut self.requests).into_values() {
            self.obey(now, Command::Fail { request, error: error.clone() });
        }
        for turn in std::mem::take(&mut self.turns).into_values() {
            self.obey(now, Command::FailTurn { turn, error: error.clone() });
        }
        self.obey(now, Command::Shutdown);
    }

    /// An update goes as it was written, where it was. Some of what is known is told no client of ACP.
    fn news(&mut self, now: Now, item: Item) {
        let Item { session, news, raw, .. } = item;
        let read = match news {
            News::Text { speaker, message, text } => {
                return self.obey(now, Command::Tell { session, speaker, text, message });
            }
            News::Asked(asked) => return self.asked(now, session, *asked),
            News::Settled(ask, how) => return self.settled(now, ask, how),
            News::Ended(ended) => return self.ended(now, *ended),
            News::Block(block) => Update::Message(block.0, block.1),
            News::Tool { is_new: true, call } => Update::ToolCall((*call).into()),
            News::Tool { is_new: false, call } => Update::ToolCallUpdate(*call),
            News::Plan(plan) => Update::Plan(*plan),
            News::Commands(available_commands) => {
                Update::AvailableCommands(AvailableCommands { available_commands })
            }
            News::Mode(current_mode_id) => Update::CurrentMode(CurrentMode { current_mode_id }),
            News::Options(config_options) => Update::ConfigOptions(ConfigOptions { config_options }),
            News::Info { title, updated_at } => {
                Update::SessionInfo(SessionInfoUpdate { title: *title, updated_at: *updated_at })
            }
            News::Usage(usage) => Update::Usage(*usage),
            News::Warned(warning) => {
                let hint = warning.hint.map(|hint| format!(": {hint}")).unwrap_or_default();
                said(&format!("{}{hint}", warning.text))
            }
            News::Note(text) => said(&text),
            News::Other(tag) => {
                let Some(raw) = raw.clone() else { return };
                Update::Other(Unknown { tag, raw })
            }
            // The client has what it hosts itself.
            News::Hosted(_)
            | News::Opened
            | News::Announced(_)
            | News::Can(_)
            | News::Began(_)
            | News::Busy(_)
            | News::Step(_)
            | News::Closed => return,
        };
        let update = match raw {
            Some(raw) => Update::Other(Unknown { tag: read.tag().to_owned(), raw }),
            None => read,
        };
        self.obey(now, Command::Announce { session, update });
    }

    fn asked(&mut self, now: Now, session: Name, Asked { ask, question, .. }: Asked) {
        let tag = Tag(ask.0 * 2);
        let elicit = |elicit| Command::Request { tag, wanted: ServiceRequest::Elicit(elicit) };
        let session_id = Some(session.clone());
        let (asking, command) = match question {
            Question::Permission { call, options, meta, .. } => {
                let of = Of::Session(session);
                (Asking::Other, Command::AskPermission { tag, of, tool_call: call, options, meta })
            }
            Question::Form { text, schema } => {
                let mode = "form".to_owned();
                let form =
                    Elicit { message: text, mode, session_id, requested_schema: schema, ..Elicit::default() };
                (Asking::Other, elicit(form))
            }
            Question::Page { text, url, id } => {
                let (mode, url, elicitation_id) = ("url".to_owned(), Some(url), Some(id.clone()));
                let page =
                    Elicit { message: text, mode, session_id, url, elicitation_id, ..Elicit::default() };
                (Asking::Page(id), elicit(page))
            }
            Question::Words { text, candidates } => {
                let candidates: String = candidates.iter().map(|one| format!("\n- {one}")).collect();
                let update = said(&format!("{text}{candidates}"));
                return self.obey(now, Command::Announce { session, update });
            }
        };
        match self.agent.command(now, command) {
            Ok(()) => drop(self.asks.insert(ask, asking)),
            Err(_) => self.wish(Wish::Answer { ask, reply: Reply::NotMe }),
        }
    }

    fn settled(&mut self, now: Now, ask: AskId, how: Settled) {
        if self.asks.remove(&ask).is_some() {
            self.obey(now, Command::Withdraw { tag: Tag(ask.0 * 2) });
        } else if how == Settled::Elsewhere
            && let Some(elicitation) = self.pages.remove(&ask)
        {
            self.obey(now, Command::CompleteElicitation { elicitation });
        }
    }

    fn ended(&mut self, now: Now, ended: Ended) {
        let Some(turn) = ended.turn.and_then(|turn| self.turns.remove(&turn)) else { return };
        let Ended { how, word, trouble, spent, meta, .. } = ended;
        let end = |reason| Command::EndTurn { turn, stopped: Stopped { reason, usage: spent, meta } };
        let fail = |why: &str| Command::FailTurn { turn, error: RpcError::new(code::INTERNAL_ERROR, why) };
        let command = match (how, trouble, word) {
            (Outcome::Cancelled, ..) => end(StopReason::Cancelled),
            (_, Some(error), _) => Command::FailTurn { turn, error: *error },
            (Outcome::Lost | Outcome::Unseen | Outcome::NotSent, ..) => fail(no_end(how)),
            (Outcome::Completed, None, _) => end(StopReason::EndTurn),
            (Outcome::MaxTokens, None, _) => end(StopReason::MaxTokens),
            (Outcome::Refused, None, _) => end(StopReason::Refusal),
            (Outcome::Failed, None, Some(word)) => end(StopReason::from_word(word)),
            (Outcome::Failed, None, None) => fail(no_end(how)),
        };
        self.obey(now, command);
    }

    fn done(&mut self, now: Now, tag: Tag, done: Result<Done, Trouble>) {
        let Some((request, kind)) = self.requests.remove(&tag) else {
            // Given up by the client: nobody else would ever close it.
            if let Ok(Done::Opened(session, _)) = done {
                self.wish(Wish::Close { session });
            }
            return;
        };
        let reply = match done {
            Ok(Done::Opened(session, state)) => Ok(agent::Reply::SessionOpened { session, state: *state }),
            Ok(Done::Listed(list)) => Ok(agent::Reply::Sessions(*list)),
            Ok(Done::Set(options)) if kind == Kind::Options => Ok(agent::Reply::Options(options)),
            Ok(Done::Fine) if kind == Kind::Options => Ok(agent::Reply::Options(Vec::new())),
            Ok(Done::Set(_) | Done::Fine) => Ok(agent::Reply::Done),
            Err(error) => Err(error),
        };
        let command = match reply {
            Ok(reply) => Command::Reply { request, reply },
            Err(error) => Command::Fail { request, error },
        };
        if let Err(refused) = self.agent.command(now, command) {
            self.obey(now, Command::Fail { request, error: RpcError::invalid_params(refused.to_string()) });
        }
    }

    /// Refused where there is nothing to say it to any more: the client, the session or the turn is gone, or it is a
    /// kind that the client does not take.
    fn obey(&mut self, now: Now, command: Command) {
        let _ = self.agent.command(now, command);
    }

    fn wish(&mut self, wish: Wish) {
        let tag = Tag(self.fresh());
        self.out.tell(Said::Wish(tag, wish));
    }

    const fn fresh(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

/// Services have odd tags, and questions even ones.
const fn is_service(tag: Tag) -> bool {
    tag.0 % 2 == 1
}

/// Whatever is not plainly an answer is none.
fn elicited(answer: Result<Json, RpcError>) -> Reply {
    let answered = answer.ok().and_then(|json| serde_json::from_str::<Answered>(json.get()).ok());
    match answered {
        Some(Answered { action, content }) if action == "accept" => Reply::Accept(content),
        Some(Answered { action, .. }) if action == "decline" => Reply::Decline,
        Some(_) | None => Reply::Cancel,
    }
}

/// A paragraph of ours.
fn said(text: &str) -> Update {
    let content = ContentBlock::text(format!("\n\n{text}\n\n"));
    Update::Message(Speaker::Agent, Chunk { content, message_id: None, meta: None })
}

/// What is offered to the client: what the far side can.
fn offers(can: Can, meta: Option<Json>) -> AgentCapabilities {
    AgentCapabilities {
        load_session: can.load,
        prompt_capabilities: PromptCapabilities {
            image: can.images,
            audio: can.audio,
            embedded_context: can.embed,
        },
        mcp_capabilities: McpCapabilities { http: can.mcp_http, sse: can.mcp_sse },
        session_capabilities: SessionCapabilities {
            list: can.list,
            delete: can.delete,
            fork: false,
            resume: can.resume,
            close: can.close,
            additional_directories: can.directories,
            system_prompt: can.system_prompt,
        },
        auth: AgentAuth { logout: can.logout },
        meta,
    }
}

/// Pages that were agreed to and are not done: as many as requests may be open.
const PAGES: usize = 1024;

/// What an ACP client has words for.
pub(super) fn words() -> Can {
    Can {
        new: true,
        load: true,
        resume: true,
        list: true,
        close: true,
        delete: true,
        logout: true,
        prompt: true,
        images: true,
        audio: true,
        embed: true,
        mcp_http: true,
        mcp_sse: true,
        directories: true,
        cancel: true,
        streams: true,
        asks: true,
        set: true,
        set_while_running: true,
        ..Can::default()
    }
}
