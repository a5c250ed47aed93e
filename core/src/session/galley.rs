//! A Galley runner as a source of one session: one machine around [`Desktop`], so its link keeps its name.
//!
//! | the desktop's | in the middle |
//! |---|---|
//! | `Ready` | `Up`; the session is there to be opened |
//! | `TurnStarted`, `TurnEnded` | `Step`: a run is a turn, its turns are steps |
//! | `Progress` | `Text`, without the model's own tags; what comes behind the end of a run is between turns |
//! | `ToolStarted`, `ToolSaid`, `ToolEnded` | `Tool` |
//! | `ApprovalAsked`, `ApprovalOver` | `Asked`, `Settled` |
//! | `Asked` | `Asked` for words: the next prompt is the answer |
//! | `RunEnded` | `Ended` |
//! | `Done`, `LlmChanged` | `Done`, `Options` |
//! | `Message`, `Warned`, `Silent` | `Note`, `Warned` |
//! | `Plan`, `Other` | `Other`, as it was written |
//! | `Line`, `Unreadable`, `Stderr` | `Noted` |
//! | `Closed` | `Down` |

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::acp::down;
use super::{
    AskId, Asked, By, Can, Done, Ended, Item, Moment, Name, News, Noted, OfRunner, Open, Outcome, Question,
    Reply, Setting, Settled, Step, Told, Trouble, TurnId, Up, Warning, Wish,
};
use crate::acp::session::{
    ConfigKind, ConfigOption, ConfigValue, Implementation, SessionMode, SessionModes, SessionState,
};
use crate::acp::update::{Speaker, ToolCallUpdate, ToolContent, ToolKind, ToolStatus};
use crate::acp::{ContentBlock, OptionKind, PermissionOption};
use crate::galley::desktop::{self, Command, Desktop, Event, Failure, Message, Over, RunEnded};
use crate::galley::{
    self, Decision, Exit, Hint, Llm, NEVER_EVERYWHERE, Piece, Ready, Rules, Tags, Telemetry,
};
use crate::machine::{Deadline, Input, Machine, Now, Output, Outputs, Refused, Tag};
use crate::rpc::{Json, RpcError, code};

/// What a runner is as a source.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct Config {
    /// How to reach it.
    pub desktop: desktop::Config,
    /// What its one session is called: the id that the runner was started with.
    pub session: Name,
}

/// A runner as a source of one session: a [`Desktop`], told in the words of [the vocabulary](super).
#[derive(Debug)]
pub struct Runner {
    desktop: Desktop,
    session: Name,
    is_up: bool,
    llms: Vec<Llm>,
    mode: &'static str,
    /// The run that goes on.
    turn: Option<TurnId>,
    /// Approvals that are open, by the number that they have here.
    asks: BTreeMap<AskId, String>,
    asks_given: u64,
    /// Whether the agent has a question that the next prompt answers.
    asked: bool,
    /// The last thing that went wrong in this run.
    warned: Option<String>,
    tags: Tags,
    out: Outputs<Told>,
}

impl Machine for Runner {
    type Config = Config;
    type Command = (Tag, Wish);
    type Event = Told;

    /// Without the desktop's own clock of an abort: whoever decides has one for all sources.
    fn new(now: Now, Config { mut desktop, session }: Config) -> Self {
        desktop.timeouts.abort = None;
        let mode = if desktop.auto_approve { ASKS_NOBODY } else { ASKS };
        let mut this = Self {
            desktop: Desktop::new(now, desktop),
            session,
            is_up: false,
            llms: Vec::new(),
            mode,
            turn: None,
            asks: BTreeMap::new(),
            asks_given: 0,
            asked: false,
            warned: None,
            tags: Tags::default(),
            out: Outputs::default(),
        };
        this.settle();
        this
    }

    fn handle(&mut self, now: Now, input: Input<'_>) {
        self.desktop.handle(now, input);
        self.settle();
    }

    fn command(&mut self, now: Now, (tag, wish): (Tag, Wish)) -> Result<(), Refused> {
        let done = self.wish(now, tag, wish);
        self.settle();
        done
    }

    fn poll(&mut self) -> Option<Output<Told>> {
        self.out.pop()
    }

    fn deadline(&self) -> Option<Deadline> {
        self.desktop.deadline()
    }
}

impl Runner {
    fn wish(&mut self, now: Now, tag: Tag, wish: Wish) -> Result<(), Refused> {
        let command = match wish {
            Wish::Open(Open::New, _) => return self.open(tag),
            Wish::Prompt { turn, words, .. } => return self.prompt(now, turn, &words),
            Wish::Cancel { .. } => Command::Abort,
            Wish::Answer { ask, reply } => return self.answer(now, ask, reply),
            Wish::Set { setting: Setting::Mode(mode), .. } => return self.set_mode(now, tag, mode),
            Wish::Set { setting, .. } => Command::SetLlm { tag, index: self.llm(setting)? },
            Wish::Aside { question, .. } => {
                let message = Box::new(Message::text(format!("{ASIDE} {question}")));
                Command::Say { tag, message }
            }
            Wish::Rules(rules) => {
                let rules = serde_json::from_str::<Rules>(rules.get());
                Command::SetRules(rules.map_err(|_| Refused::Invalid("rules are lists of tools"))?)
            }
            Wish::OfRunner(OfRunner::History(messages)) => Command::LoadHistory { tag, messages },
            Wish::OfRunner(OfRunner::AutoApprove(on)) => Command::SetAutoApprove(on),
            Wish::OfRunner(OfRunner::DescribeTools) => Command::ReinjectTools(tag),
            Wish::OfRunner(OfRunner::Pet(Some(port))) => Command::AttachPet { tag, port },
            Wish::OfRunner(OfRunner::Pet(None)) => Command::DetachPet(tag),
            Wish::Close { .. } => Command::Close,
            Wish::Leave => Command::Stop,
            Wish::Open(Open::Fork(_), _) => return Err(Refused::NotOffered("forking sessions")),
            Wish::Open(Open::Load(_), _) => return Err(Refused::NotOffered("loading sessions")),
            Wish::Open(Open::Resume(_), _) => return Err(Refused::NotOffered("resuming sessions")),
            Wish::List { .. } => return Err(Refused::NotOffered("a list of sessions")),
            Wish::Delete { .. } => return Err(Refused::NotOffered("deleting sessions")),
            Wish::Login { .. } | Wish::Logout => return Err(Refused::NotOffered("logins")),
            Wish::Seen(_) => return Err(Refused::NotOffered("presence records")),
            Wish::Accept | Wish::Refuse(_) => return Err(Refused::NotOffered("a hello")),
            Wish::Serve { .. } | Wish::FileDone { .. } => {
                return Err(Refused::NotOffered("files and terminals"));
            }
        };
        let silent = is_silent(&command);
        self.desktop.command(now, command)?;
        if silent {
            // The runner has no answer to these.
            self.done(tag, Ok(Done::Fine));
        }
        Ok(())
    }

    /// Its one session is there from its start on.
    fn open(&mut self, tag: Tag) -> Result<(), Refused> {
        if !self.is_up {
            return Err(Refused::NotReady);
        }
        let options = Some(options(&self.llms)).filter(|options| !options.is_empty());
        let modes = Some(SessionModes { current_mode_id: self.mode.to_owned(), available_modes: modes() });
        let state = SessionState { modes, config_options: options, ..SessionState::default() };
        self.done(tag, Ok(Done::Opened(self.session.clone(), Box::new(state))));
        self.news(Moment::Between, News::Opened);
        Ok(())
    }

    /// The runner has no answer to it.
    fn set_mode(&mut self, now: Now, tag: Tag, mode: String) -> Result<(), Refused> {
        let known = [ASKS, ASKS_NOBODY].into_iter().find(|known| *known == mode);
        let known = known.ok_or(Refused::Invalid("no mode of that name"))?;
        self.desktop.command(now, Command::SetAutoApprove(known == ASKS_NOBODY))?;
        self.mode = known;
        self.done(tag, Ok(Done::Fine));
        self.news(self.moment(), News::Mode(mode));
        Ok(())
    }

    fn prompt(&mut self, now: Now, turn: TurnId, words: &[ContentBlock]) -> Result<(), Refused> {
        let message = message(words)?;
        if message.text.trim_start().starts_with(ASIDE) {
            return Err(Refused::Invalid("a question beside the conversation begins no turn"));
        }
        let tag = Tag(turn.0);
        let command = if self.asked && message.images.is_empty() {
            Command::Reply { tag, text: message.text, absolute_turn_index: None }
        } else {
            Command::Say { tag, message: Box::new(message) }
        };
        self.desktop.command(now, command)?;
        (self.turn, self.asked, self.warned) = (Some(turn), false, None);
        self.tags = Tags::default();
        self.news(Moment::Turn, News::Began(By::Us(turn)));
        Ok(())
    }

    fn answer(&mut self, now: Now, ask: AskId, reply: Reply) -> Result<(), Refused> {
        let approval = self.asks.get(&ask).ok_or(Refused::Unknown)?.clone();
        let decision = match reply {
            Reply::Choose(option) => {
                decision(&option).ok_or(Refused::Invalid("that option was not offered"))?
            }
            Reply::Accept(_) | Reply::Decline | Reply::Cancel | Reply::NotMe => Decision::Deny,
        };
        self.desktop.command(now, Command::Decide { approval, decision })?;
        self.asks.remove(&ask);
        Ok(())
    }

    /// The place of a model, by its name.
    fn llm(&self, setting: Setting) -> Result<u32, Refused> {
        let name = match setting {
            Setting::Model(name) => name,
            Setting::Option(option, ConfigValue::Id(name)) if option == MODEL => name,
            Setting::Option(..) | Setting::Mode(_) => {
                return Err(Refused::NotOffered("settings but the model"));
            }
        };
        let llm = self.llms.iter().find(|llm| llm.name == name);
        llm.map(|llm| llm.index).ok_or(Refused::Invalid("no model of that name"))
    }

    fn settle(&mut self) {
        while let Some(output) = self.desktop.poll() {
            if let Some(event) = self.out.pass(output) {
                self.told(event);
            }
        }
    }

    fn told(&mut self, event: Event) {
        match event {
            Event::Ready(ready) => self.up(*ready),
            Event::TurnStarted(step) => self.step(step.turn_index, None),
            Event::TurnEnded(step) => self.step(step.turn_index, Some(step.summary)),
            Event::Progress(progress) => {
                let moment = if progress.in_run { Moment::Turn } else { Moment::Between };
                self.text(moment, |tags, say| tags.push(&progress.delta, say));
            }
            Event::ToolStarted(start) => {
                let call = ToolCallUpdate {
                    tool_call_id: start.tool_call_id,
                    status: Some(ToolStatus::InProgress),
                    ..call(start.tool_name, &start.args_preview, start.args)
                };
                self.tool(true, call);
            }
            Event::ToolSaid(said) => {
                let content = Some(vec![text(said.text)]);
                let tool_call_id = said.tool_call_id;
                self.tool(false, ToolCallUpdate { tool_call_id, content, ..ToolCallUpdate::default() });
            }
            Event::ToolEnded(end) => {
                let status = match end.status {
                    galley::ToolStatus::Success => ToolStatus::Completed,
                    galley::ToolStatus::Failed
                    | galley::ToolStatus::Denied
                    | galley::ToolStatus::Cancelled => ToolStatus::Failed,
                };
                let content = Some(vec![text(end.result_preview)]);
                let (tool_call_id, status) = (end.tool_call_id, Some(status));
                self.tool(
                    false,
                    ToolCallUpdate { tool_call_id, status, content, ..ToolCallUpdate::default() },
                );
            }
            Event::ApprovalAsked(pending) => self.approval(*pending),
            Event::ApprovalOver(approval, over) => self.approval_over(&approval, over),
            Event::Asked(asked) => {
                self.asked = true;
                let question = Question::Words { text: asked.question, candidates: asked.candidates };
                self.ask(question, None);
            }
            Event::RunEnded(ended) => self.ended(*ended),
            // Ends of runs are waited for here, however long they take.
            Event::Freed => {}
            Event::Silent => {
                let text = "nothing was heard for 10 minutes; it may be at a long call".to_owned();
                self.warn(Warning { text, hint: None, retryable: false });
            }
            Event::Warned(trouble) => {
                self.warned = Some(trouble.message.clone());
                let hint = trouble.hint.map(hint).map(str::to_owned);
                self.warn(Warning { text: trouble.message, hint, retryable: trouble.retryable });
            }
            Event::Done(tag, done) => self.answered(tag, *done),
            Event::LlmChanged(llm) => {
                for known in &mut self.llms {
                    known.is_current = known.index == llm.index;
                }
                self.news(self.moment(), News::Options(options(&self.llms)));
            }
            Event::Message(message) => self.news(self.moment(), News::Note(message.content)),
            Event::Plan(plan) => self.other("plan_update".to_owned(), plan),
            Event::Other(other) => self.other(other.0, other.1),
            Event::Line(line) => self.out.tell(Told::Noted(Box::new(Noted::Odd(Json::new(&line))))),
            Event::Unreadable(line) => self.out.tell(Told::Noted(Box::new(Noted::Odd(Json::new(&*line))))),
            Event::Stderr(text) => self.out.tell(Told::Noted(Box::new(Noted::Stderr(text)))),
            Event::Closed(closed) => self.out.tell(down(closed.closed)),
        }
    }

    fn up(&mut self, ready: Ready) {
        let who = Implementation {
            name: "galley-runner".to_owned(),
            title: Some(ready.llm_name).filter(|name| !name.is_empty()),
            version: ready.ga_commit,
        };
        let can = Can {
            new: true,
            prompt: true,
            images: ready.images_supported != Some(false),
            cancel: true,
            close: true,
            streams: true,
            asks: true,
            set: true,
            aside: true,
            rules: true,
            single: true,
            ..Can::default()
        };
        (self.is_up, self.llms) = (true, ready.available_llms);
        self.out.tell(Told::Up(Box::new(Up { who: Some(who), can, ..Up::default() })));
    }

    fn approval(&mut self, pending: galley::ToolCallPending) {
        let galley::ToolCallPending {
            approval_id, tool_call_id, tool_name, args, args_preview, reason, ..
        } = pending;
        let options = offered(&tool_name);
        let call = ToolCallUpdate {
            // A runner that does not say which call it is has one question for each.
            tool_call_id: tool_call_id.unwrap_or_else(|| approval_id.clone()),
            status: Some(ToolStatus::Pending),
            ..call(tool_name, &args_preview, args)
        };
        let why = Some(reason).filter(|reason| !reason.is_empty());
        let ask = self.ask(Question::Permission { call, options, why, meta: None }, Some(PATIENCE));
        self.asks.insert(ask, approval_id);
    }

    fn ask(&mut self, question: Question, expires: Option<Duration>) -> AskId {
        self.asks_given += 1;
        let ask = AskId(self.asks_given);
        self.news(self.moment(), News::Asked(Box::new(Asked { ask, question, of: None, expires })));
        ask
    }

    fn approval_over(&mut self, approval: &str, over: Over) {
        let ask = self.asks.iter().find(|(_, of)| **of == *approval).map(|(ask, _)| *ask);
        let Some(ask) = ask else { return };
        self.asks.remove(&ask);
        let how = match over {
            Over::Withdrawn => Settled::Withdrawn,
            Over::Expired => Settled::Expired,
            Over::Gone => Settled::Lost,
        };
        self.news(self.moment(), News::Settled(ask, how));
    }

    fn ended(&mut self, ended: RunEnded) {
        let turn = Some(TurnId(ended.tag.0));
        let spent = ended.telemetry.as_ref().map(spent);
        let word = ended.reason.map(|reason| reason.result);
        let error = |text: String| Some(Box::new(RpcError::new(code::INTERNAL_ERROR, text)));
        let warned = self.warned.take();
        let (how, trouble) = match ended.end {
            Ok(Exit::Done | Exit::SlashCommand) => (Outcome::Completed, None),
            // A question of the agent's ends its run.
            Ok(Exit::Exited) if self.asked => (Outcome::Completed, None),
            Ok(Exit::MaxTurns) => (Outcome::Failed, None),
            Ok(Exit::Aborted) => (Outcome::Cancelled, None),
            // Its word for it is no reason.
            Ok(Exit::Exited | Exit::Other(_)) => {
                (Outcome::Failed, error(warned.unwrap_or_else(|| "the agent gave up".to_owned())))
            }
            Err(failure) => (outcome(&failure), error(failure.to_string())),
        };
        let word = if how == Outcome::Failed && word.as_deref() == Some(MAX_TURNS) {
            Some("max_turn_requests".to_owned())
        } else {
            word
        };
        self.text(Moment::Turn, |tags, say| tags.flush(say));
        self.news(Moment::Turn, News::Ended(Box::new(Ended { turn, how, word, trouble, spent, meta: None })));
        self.turn = None;
    }

    fn text(&mut self, moment: Moment, read: impl FnOnce(&mut Tags, &mut dyn FnMut(Piece<'_>))) {
        let (session, out) = (&self.session, &mut self.out);
        read(&mut self.tags, &mut |piece| {
            let (speaker, text) = match piece {
                Piece::Text(text) => (Speaker::Agent, text),
                Piece::Thought(text) => (Speaker::Thought, text),
            };
            let news = News::Text { speaker, message: None, text: text.to_owned() };
            out.tell(Told::News(Item { session: session.clone(), moment, news, raw: None }));
        });
    }

    fn answered(&mut self, tag: Tag, done: Result<desktop::Done, Failure>) {
        let done = match done {
            Ok(desktop::Done::LlmSet) => Ok(Done::Set(options(&self.llms))),
            Ok(
                desktop::Done::HistoryLoaded(_)
                | desktop::Done::ToolsReinjected(_)
                | desktop::Done::PetAttached(_)
                | desktop::Done::PetDetached,
            ) => Ok(Done::Fine),
            Err(failure) => Err(RpcError::new(code::INTERNAL_ERROR, failure.to_string())),
        };
        self.done(tag, done);
    }

    fn done(&mut self, tag: Tag, done: Result<Done, Trouble>) {
        self.out.tell(Told::Done(tag, Box::new(done)));
    }

    fn step(&mut self, index: u32, ended: Option<String>) {
        self.news(Moment::Turn, News::Step(Box::new(Step { index, ended })));
    }

    fn tool(&mut self, is_new: bool, call: ToolCallUpdate) {
        self.news(self.moment(), News::Tool { is_new, call: Box::new(call) });
    }

    fn warn(&mut self, warning: Warning) {
        self.news(self.moment(), News::Warned(Box::new(warning)));
    }

    fn other(&mut self, kind: String, written: Json) {
        let (session, moment) = (self.session.clone(), self.moment());
        self.out.tell(Told::News(Item { session, moment, news: News::Other(kind), raw: Some(written) }));
    }

    const fn moment(&self) -> Moment {
        if self.turn.is_some() { Moment::Turn } else { Moment::Between }
    }

    fn news(&mut self, moment: Moment, news: News) {
        let session = self.session.clone();
        self.out.tell(Told::News(Item { session, moment, news, raw: None }));
    }
}

/// Whether the runner has no answer to it, so that it is done when it is written.
const fn is_silent(command: &Command) -> bool {
    match command {
        Command::Say { .. }
        | Command::Reply { .. }
        | Command::Decide { .. }
        | Command::SetRules(_)
        | Command::SetAutoApprove(_)
        | Command::Close => true,
        Command::LoadHistory { .. }
        | Command::SetLlm { .. }
        | Command::ReinjectTools(_)
        | Command::AttachPet { .. }
        | Command::DetachPet(_)
        | Command::Abort
        | Command::Stop => false,
    }
}

/// How a question beside the conversation begins.
const ASIDE: &str = "/btw";
/// The option that chooses the model.
const MODEL: &str = "model";
/// The mode in which tools that can do harm wait for a person.
const ASKS: &str = "ask";
/// The one in which none does. Runners call it so.
const ASKS_NOBODY: &str = "yolo";
/// How long a runner waits for a decision.
const PATIENCE: Duration = Duration::from_secs(600);
/// The runner's word for a run that was too long.
const MAX_TURNS: &str = "MAX_TURNS_EXCEEDED";

/// The words of a prompt as the one text that the protocol has, and pictures as files of this machine.
fn message(words: &[ContentBlock]) -> Result<Message, Refused> {
    let mut texts = Vec::new();
    let mut images = Vec::new();
    for block in words {
        match block {
            ContentBlock::Text(text) => texts.push(&*text.text),
            ContentBlock::ResourceLink(link) => texts.push(&*link.uri),
            ContentBlock::Image(image) => {
                let path = image.uri.as_deref().map(|uri| uri.strip_prefix("file://").unwrap_or(uri));
                let path = path.filter(|path| path.starts_with('/'));
                images.push(path.ok_or(Refused::Invalid("a runner takes pictures as files"))?.to_owned());
            }
            ContentBlock::Audio(_) | ContentBlock::Resource(_) | ContentBlock::Unknown(_) => {
                return Err(Refused::NotOffered("anything but text and pictures"));
            }
        }
    }
    Ok(Message { images, ..Message::text(texts.join("\n")) })
}

/// What is known of a call before it is done.
fn call(tool: String, preview: &str, args: Json) -> ToolCallUpdate {
    let kind = match &*tool {
        "code_run" => ToolKind::Execute,
        "file_write" | "file_patch" => ToolKind::Edit,
        "file_read" => ToolKind::Read,
        _ => ToolKind::Other,
    };
    let title = if preview.is_empty() { tool.clone() } else { format!("{tool}: {preview}") };
    let content = galley::diff(&tool, &args).map(|diff| vec![ToolContent::Diff(diff)]);
    let (kind, title, raw_input) = (Some(kind), Some(title), Some(args));
    ToolCallUpdate { name: Some(tool), kind, title, raw_input, content, ..ToolCallUpdate::default() }
}

fn text(text: String) -> ToolContent {
    ToolContent::Content(ContentBlock::text(text))
}

/// What can be decided about a call. A tool that changes what the agent is, is allowed everywhere by nobody.
fn offered(tool: &str) -> Vec<PermissionOption> {
    let all = [
        ("allow_once", "Allow once", OptionKind::AllowOnce),
        ("always_allow_project", "Always allow in this project", OptionKind::AllowAlways),
        ("always_allow_global", "Always allow", OptionKind::AllowAlways),
        ("deny", "Deny", OptionKind::RejectOnce),
    ];
    let fits = |id: &str| id != "always_allow_global" || tool != NEVER_EVERYWHERE;
    let all = all.into_iter().filter(|(id, ..)| fits(id));
    let option = |(id, name, kind): (&str, &str, _)| PermissionOption {
        option_id: id.into(),
        name: name.into(),
        kind,
    };
    all.map(option).collect()
}

fn decision(option: &str) -> Option<Decision> {
    Some(match option {
        "allow_once" => Decision::AllowOnce,
        "always_allow_project" => Decision::AlwaysAllowProject,
        "always_allow_global" => Decision::AlwaysAllowGlobal,
        "deny" => Decision::Deny,
        _ => return None,
    })
}

fn modes() -> Vec<SessionMode> {
    let mode = |(id, name): (&str, &str)| SessionMode { id: id.into(), name: name.into(), description: None };
    [(ASKS, "Ask first"), (ASKS_NOBODY, "Allow everything")].map(mode).into()
}

/// The models as the option that chooses one.
fn options(llms: &[Llm]) -> Vec<ConfigOption> {
    let Some(current) = llms.iter().find(|llm| llm.is_current).or(llms.first()) else { return Vec::new() };
    let value = |llm: &Llm| serde_json::json!({ "value": llm.name, "name": llm.display_name });
    let values: Vec<_> = llms.iter().map(value).collect();
    vec![ConfigOption {
        id: MODEL.to_owned(),
        name: "Model".to_owned(),
        description: None,
        category: Some(MODEL.to_owned()),
        kind: ConfigKind::Select,
        current_value: ConfigValue::Id(current.name.clone()),
        options: Some(Json::new(&values)),
    }]
}

const fn hint(hint: Hint) -> &'static str {
    match hint {
        Hint::CheckLlmConfig => "look at the key and the settings of the model",
        Hint::Network => "look at the network",
        Hint::QuotaExceeded => "look at the limits of the provider",
    }
}

/// What a run took, in the words that sums are made of.
fn spent(telemetry: &Telemetry) -> Json {
    let Telemetry { input_tokens, output_tokens, .. } = *telemetry;
    let total = input_tokens.zip(output_tokens).map(|(one, other)| one.saturating_add(other));
    Json::new(&serde_json::json!({
        "inputTokens": input_tokens, "outputTokens": output_tokens, "totalTokens": total
    }))
}

const fn outcome(failure: &Failure) -> Outcome {
    match failure {
        Failure::Disconnected => Outcome::Lost,
        Failure::Shutdown => Outcome::Cancelled,
        Failure::Unconfirmed => Outcome::Unseen,
        Failure::Refused(_) | Failure::Silent | Failure::TimedOut => Outcome::Failed,
    }
}
