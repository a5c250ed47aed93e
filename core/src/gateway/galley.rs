//! Galley's desktop as a front: one machine around [`Bridge`], so its link keeps its name.
//!
//! A runner is one session, so this front opens it itself, at once, and says that it is ready when that is there, since only
//! then its models are known; after 25 s without them, for a desktop waits no longer than 30 s.
//!
//! | the desktop | says |
//! |---|---|
//! | a message, an answer to a question | `Prompt`; pictures go as links to their files |
//! | an abort; a shutdown in a run | `Withdraw` |
//! | a decision | `Answer`, by [kind](super::calls) |
//! | another model | `Set` |
//! | a question beside the conversation | `Aside` |
//! | a history, the tools again, a pet | refused: no agent takes them; an empty history is no history |
//! | its rules, and that none is asked | nothing: they are kept here, by the name of the tool |
//!
//! | it is shown | to the desktop |
//! |---|---|
//! | a text of the agent | a piece of the answer |
//! | a tool, a permission | a call, as a [runner](super::calls) would make it |
//! | a question in words | the question, behind the end of the run |
//! | a form, a page | a warning; the next one is asked (`NotMe`) |
//! | a plan, another model | the same |
//! | a warning, a note | a warning, a message |
//! | `Ended` | the end of the one step of a run, and of the run; an error before it |
//! | thoughts, steps, usage, modes, commands | nothing |

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::api::Event as Ours;
use super::calls::reply;
use super::front::{LOST, Said, Waiting, refusal};
use super::run::{CallStage, Run};
use crate::acp::content::ResourceLink;
use crate::acp::session::{ConfigOption, SessionState, Setting};
use crate::acp::update::{Plan, PlanStatus, Speaker};
use crate::acp::{ContentBlock, Json, SessionSetup};
use crate::galley::bridge::{self, Bridge, Command, Event, Reply as Answered, RequestKey, RunKey};
use crate::galley::{self, Category, Llm, LlmChanged, Severity, SystemMessage, Trouble, Variant};
use crate::machine::{Deadline, Input, Machine, Now, Output, Outputs, Refused, Tag, Time, soonest};
use crate::session::{Can, Done, Item, Moment, Name, News, Noted, Open, Told, TurnId, Wish};

/// What a runner for Galley's desktop starts from.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Config {
    /// How the desktop is reached, and what it is told first, but for the models.
    pub bridge: bridge::Config,
    /// The session that is opened.
    pub setup: SessionSetup,
    /// The model to begin with, by its place in the list.
    pub llm: Option<u32>,
    /// The model to begin with, by name; counts for more than its place.
    pub llm_name: Option<String>,
}

/// Galley's desktop as a front.
#[derive(Debug)]
pub(super) struct Galley {
    stage: Stage,
    wanted: (Option<u32>, Option<String>),
    session: Option<Name>,
    state: SessionState,
    /// The model that answers, as far as the desktop knows.
    llm: Option<u32>,
    /// Of turns and of tags.
    pub(super) next: u64,
    pub(super) run: Option<Run>,
    /// A turn whose run is over for the desktop: what is still said of it is nobody's.
    pub(super) aborted: Option<TurnId>,
    /// What the desktop waits for.
    requests: BTreeMap<Tag, Option<RequestKey>>,
    asides: BTreeSet<Tag>,
    waiting: Waiting,
    out: Outputs<Said>,
}

#[derive(Debug)]
enum Stage {
    /// The session is being opened; until then the desktop waits.
    Opening(Box<bridge::Config>, Option<Time>),
    Serving(Box<Bridge>),
    Over,
}

impl Machine for Galley {
    type Config = Config;
    type Command = Told;
    type Event = Said;

    fn new(now: Now, Config { bridge, setup, llm, llm_name }: Config) -> Self {
        let mut out = Outputs::default();
        out.tell(Said::Introduced(Box::default()));
        out.tell(Said::Wish(OPENING, Wish::Open(Open::New, Box::new(setup))));
        Self {
            stage: Stage::Opening(Box::new(bridge), Some(now.mono + PATIENCE)),
            wanted: (llm, llm_name),
            session: None,
            state: SessionState::default(),
            llm: None,
            next: OPENING.0,
            run: None,
            aborted: None,
            requests: BTreeMap::new(),
            asides: BTreeSet::new(),
            waiting: Waiting::default(),
            out,
        }
    }

    fn handle(&mut self, now: Now, input: Input<'_>) {
        match &mut self.stage {
            Stage::Serving(bridge) => bridge.handle(now, input),
            Stage::Opening(_, Some(until)) if *until <= now.mono => self.serve(now),
            Stage::Opening(..) | Stage::Over => {}
        }
        self.settle(now);
    }

    fn command(&mut self, now: Now, told: Told) -> Result<(), Refused> {
        self.waiting.push(told);
        self.settle(now);
        Ok(())
    }

    fn poll(&mut self) -> Option<Output<Said>> {
        self.out.pop()
    }

    fn deadline(&self) -> Option<Deadline> {
        match &self.stage {
            Stage::Opening(_, until) => soonest(None, until.map(|until| (until, "ready"))),
            Stage::Serving(bridge) => bridge.deadline(),
            Stage::Over => None,
        }
    }
}

impl Galley {
    fn settle(&mut self, now: Now) {
        loop {
            while let Stage::Serving(bridge) = &mut self.stage
                && let Some(output) = bridge.poll()
            {
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
            Event::Told(prompt) => self.prompted(now, *prompt),
            Event::AskedAside(question) => {
                let Some(session) = self.session.clone() else { return };
                let question = question.trim_start().trim_start_matches("/btw").trim_start().to_owned();
                let tag = self.wish(Wish::Aside { session, question });
                self.asides.insert(tag);
            }
            Event::Aborted(key) => self.aborted(key),
            Event::Decided(tag, verdict) => {
                let Some(run) = &mut self.run else { return };
                let Some((ask, options, call)) = run.asks.remove(&tag) else { return };
                let stage = if verdict.allows() { CallStage::Running } else { CallStage::Over };
                if let Some(known) = call.and_then(|call| run.calls.get_mut(&call)) {
                    known.stage = stage;
                } else if verdict.allows() {
                    // The call itself has begun before: this was only its question.
                    self.end_tool(now, tag, galley::ToolStatus::Success, "allowed".to_owned());
                }
                self.wish(Wish::Answer { ask, reply: reply(verdict, &options) });
            }
            Event::HistoryGiven(request, messages) if messages.is_empty() => {
                self.obey(now, Command::Reply { request, reply: Answered::HistoryLoaded(0) });
            }
            Event::HistoryGiven(request, _) => {
                self.fail(now, request, "the agent behind this takes no history from elsewhere");
            }
            Event::LlmWanted(request, index) => self.llm_wanted(now, request, index),
            Event::ToolsWanted(request) => self.fail(now, request, "the agent describes its tools itself"),
            Event::PetWanted(request, _) => self.fail(now, request, "there is no pet here"),
            Event::PetUnwanted(Some(request)) => {
                self.obey(now, Command::Reply { request, reply: Answered::PetDetached });
            }
            // The rules are the bridge's.
            Event::PetUnwanted(None) | Event::RulesSet(..) => {}
            // It does not wait for the end of a run for long.
            Event::ShutdownAsked => {
                if let Some(run) = &self.run {
                    self.out.tell(Said::Withdraw(run.turn));
                }
            }
            Event::Crowded => self.waiting.is_crowded = true,
            Event::Drained => self.waiting.is_crowded = false,
            Event::Unreadable(why) => {
                self.out.tell(Said::Event(Ours::Noted(Box::new(Noted::Odd(Json::new(&why))))));
            }
            Event::Closed(_) => {
                self.waiting.clear();
                self.out.tell(Said::Left);
            }
        }
    }

    fn prompted(&mut self, now: Now, prompt: bridge::Prompt) {
        self.next += 1;
        let mut words = vec![ContentBlock::text(prompt.text)];
        words.extend(prompt.images.into_iter().map(|path| {
            let name = path.rsplit('/').next().unwrap_or_default().to_owned();
            ContentBlock::ResourceLink(ResourceLink {
                uri: format!("file://{path}"),
                name,
                ..ResourceLink::default()
            })
        }));
        self.run = Some(Run::new(now, prompt.run, TurnId(self.next), words));
        self.speak();
    }

    /// The words go when there is a session to say them to.
    fn speak(&mut self) {
        let (Some(run), Some(session)) = (&mut self.run, self.session.clone()) else { return };
        let (Some(words), turn) = (run.words.take(), run.turn) else { return };
        self.out.tell(Said::Wish(Tag(turn.0), Wish::Prompt { session, turn, words }));
    }

    fn aborted(&mut self, key: RunKey) {
        let Some(run) = self.run.take_if(|run| run.key == key) else { return };
        if run.words.is_none() {
            self.aborted = Some(run.turn);
            self.out.tell(Said::Withdraw(run.turn));
        }
    }

    fn llm_wanted(&mut self, now: Now, request: RequestKey, index: u32) {
        let id = self.state.models().0.into_iter().nth(index as usize).map(|(id, _)| id);
        let setting = id.and_then(|id| self.state.request(&Setting::Model(id)).ok());
        match (self.session.clone(), setting) {
            (Some(session), Some(setting)) => {
                let tag = self.wish(Wish::Set { session, setting });
                self.requests.insert(tag, Some(request));
                self.llm = Some(index);
            }
            // There is one, and it is that.
            _ => self.obey(now, Command::Reply { request, reply: Answered::LlmSet }),
        }
    }

    fn show(&mut self, now: Now, told: Told) {
        match told {
            Told::Done(OPENING, done) => match *done {
                Ok(Done::Opened(name, state)) => self.opened(now, name, *state),
                Ok(Done::Listed(_) | Done::Set(_) | Done::Fine) => {}
                Err(trouble) => self.unserved(now, trouble.message),
            },
            Told::Done(tag, done) => self.done(now, tag, done.map(drop).map_err(|error| error.message)),
            Told::News(Item { moment: Moment::Turn | Moment::Between, news, .. }) => self.news(now, news),
            Told::Wanted(ask, _) => {
                let answer = Err(refusal(Refused::NotOffered("files and terminals")));
                self.wish(Wish::Serve { ask, answer });
            }
            Told::Down(_) => self.leave(now),
            Told::Hello(_)
            | Told::Up(_)
            | Told::News(_)
            | Told::File(_)
            | Told::Noted(_)
            | Told::Other(_) => {}
        }
    }

    fn opened(&mut self, now: Now, name: Name, state: SessionState) {
        self.session = Some(name.clone());
        self.state = state;
        let (models, current) = self.state.models();
        let place = |of: &str| models.iter().position(|(id, title)| id == of || title == of);
        let current = current.as_deref().and_then(place);
        let (llm, llm_name) = (self.wanted.0, self.wanted.1.as_deref());
        let numbered = llm.map(|llm| llm as usize).filter(|llm| *llm < models.len() && *llm > 0);
        let wanted = llm_name.and_then(place).or(numbered).filter(|wanted| Some(*wanted) != current);
        self.llm = wanted.or(current).and_then(|place| u32::try_from(place).ok());
        let setting = wanted.and_then(|wanted| {
            let (id, _) = models.get(wanted)?;
            self.state.request(&Setting::Model(id.clone())).ok()
        });
        if let Some(setting) = setting {
            let tag = self.wish(Wish::Set { session: name, setting });
            self.requests.insert(tag, None);
        }
        if let Stage::Opening(..) = self.stage {
            self.serve(now);
        } else if let Some(changed) = self.llm.and_then(|llm| self.changed(llm)) {
            // It came after all.
            self.obey(now, Command::LlmChanged(Box::new(changed)));
        }
        self.speak();
    }

    /// The desktop is told that it can begin.
    fn serve(&mut self, now: Now) {
        let Stage::Opening(config, _) = &mut self.stage else { return };
        let mut config = (**config).clone();
        let models = self.state.models().0;
        let llms = models.into_iter().zip(0..).map(|((id, name), index)| Llm {
            index,
            display_name: if name.is_empty() { id.clone() } else { name },
            name: id,
            is_current: self.llm == Some(index),
        });
        config.ready.available_llms = llms.collect();
        if config.ready.available_llms.is_empty() {
            let name = config.ready.llm_name.clone();
            config.ready.available_llms =
                vec![Llm { index: 0, display_name: name.clone(), name, is_current: true }];
        }
        if let Some(llm) = config.ready.available_llms.iter().find(|llm| llm.is_current) {
            config.ready.llm_name.clone_from(&llm.name);
        }
        self.stage = Stage::Serving(Box::new(Bridge::new(now, config)));
    }

    fn done(&mut self, now: Now, tag: Tag, done: Result<(), String>) {
        if self.asides.remove(&tag) {
            if let Err(why) = done {
                self.say(now, why, Variant::SideQuestion);
            }
            return;
        }
        match (self.requests.remove(&tag), done) {
            (Some(Some(request)), Ok(())) => {
                self.obey(now, Command::Reply { request, reply: Answered::LlmSet });
            }
            (Some(Some(request)), Err(why)) => self.obey(now, Command::Fail { request, why }),
            (Some(None), Err(why)) => self.warn(now, why),
            (Some(None), Ok(())) | (None, _) => {}
        }
    }

    fn news(&mut self, now: Now, news: News) {
        match news {
            News::Text { speaker: Speaker::Agent, message, text } if self.aborted.is_none() => {
                if let Some(run) = &mut self.run {
                    run.content.add(&text, message.as_ref());
                    run.answer.add(&text, message.as_ref());
                }
                self.obey(now, Command::Progress { delta: text });
            }
            News::Block(block) if block.0 == Speaker::Agent && self.aborted.is_none() => {
                self.obey(now, Command::Progress { delta: "[image]".to_owned() });
            }
            News::Tool { is_new, call } => self.tool(now, is_new, *call),
            News::Plan(plan) => self.obey(now, Command::Plan(told_of(&plan))),
            News::Asked(asked) => self.asked(now, *asked),
            News::Settled(ask, _) => {
                let run = self.run.as_mut();
                let tag =
                    run.and_then(|run| run.asks.iter().find(|(_, of)| of.0 == ask)).map(|(tag, _)| *tag);
                if let Some(tag) = tag {
                    self.obey(now, Command::WithdrawTool { tag });
                }
            }
            News::Options(options) => self.options(now, options),
            News::Warned(warning) => self.warn(now, warning.text),
            News::Note(text) => self.say(now, text, Variant::System),
            News::Ended(ended) => self.ended(now, *ended),
            News::Closed => self.unserved(now, LOST.to_owned()),
            News::Opened
            | News::Announced(_)
            | News::Can(_)
            | News::Began(_)
            | News::Busy(_)
            | News::Step(_)
            | News::Text { .. }
            | News::Block(_)
            | News::Commands(_)
            | News::Info { .. }
            | News::Mode(_)
            | News::Usage(_)
            | News::Hosted(_)
            | News::Other(_) => {}
        }
    }

    fn options(&mut self, now: Now, options: Vec<ConfigOption>) {
        self.state.config_options = Some(options);
        let (models, current) = self.state.models();
        let llm = current.and_then(|current| models.iter().position(|(id, _)| *id == current));
        let llm = llm.and_then(|llm| u32::try_from(llm).ok());
        if llm != self.llm
            && let Some(changed) = llm.and_then(|llm| self.changed(llm))
        {
            self.llm = llm;
            self.obey(now, Command::LlmChanged(Box::new(changed)));
        }
    }

    fn changed(&self, index: u32) -> Option<LlmChanged> {
        let (name, title) = self.state.models().0.into_iter().nth(index as usize)?;
        let display_name = if title.is_empty() { name.clone() } else { title };
        Some(LlmChanged { index, name, display_name })
    }

    fn unserved(&mut self, now: Now, why: String) {
        self.out.tell(Said::Event(Ours::Unserved(why)));
        self.leave(now);
    }

    fn leave(&mut self, now: Now) {
        match &mut self.stage {
            Stage::Serving(_) => self.obey(now, Command::Shutdown),
            Stage::Opening(..) => {
                self.stage = Stage::Over;
                self.out.tell(Said::Left);
                self.out.end();
            }
            Stage::Over => {}
        }
    }

    pub(super) fn warn(&mut self, now: Now, message: String) {
        let (category, severity) = (Category::Runtime, Severity::Warning);
        let trouble = Trouble { message, category, severity, ..Trouble::default() };
        self.obey(now, Command::Warn(Box::new(trouble)));
    }

    pub(super) fn say(&mut self, now: Now, content: String, variant: Variant) {
        self.obey(now, Command::Say(Box::new(SystemMessage { content, variant })));
    }

    fn fail(&mut self, now: Now, request: RequestKey, why: &str) {
        self.obey(now, Command::Fail { request, why: why.to_owned() });
    }

    /// Refused where it makes no difference any more: the desktop or the run is gone.
    pub(super) fn obey(&mut self, now: Now, command: Command) {
        let _ = self.tell(now, command);
    }

    pub(super) fn tell(&mut self, now: Now, command: Command) -> Result<(), Refused> {
        match &mut self.stage {
            Stage::Serving(bridge) => bridge.command(now, command),
            Stage::Opening(..) | Stage::Over => Err(Refused::Closed),
        }
    }

    pub(super) fn wish(&mut self, wish: Wish) -> Tag {
        self.next += 1;
        self.out.tell(Said::Wish(Tag(self.next), wish));
        Tag(self.next)
    }
}

/// A plan as a runner writes it.
fn told_of(plan: &Plan) -> Json {
    let is_done = |status| status == PlanStatus::Completed;
    let item = |entry: &crate::acp::update::PlanEntry| {
        let status = if is_done(entry.status) { "done" } else { "open" };
        json!({ "content": entry.content, "status": status })
    };
    let items: Vec<_> = plan.entries.iter().map(item).collect();
    let done = plan.entries.iter().filter(|entry| is_done(entry.status)).count();
    let step = plan.entries.iter().find(|entry| !is_done(entry.status)).map(|entry| &*entry.content);
    Json::new(&json!({
        "active": !items.is_empty(), "placeholder": items.is_empty(), "done": done, "total": items.len(),
        "complete": done == items.len(), "step": step.unwrap_or_default(), "pathHint": "", "items": items,
    }))
}

/// The wish that opens the session.
const OPENING: Tag = Tag(1);
/// How long a desktop is left without a word. It gives a runner 30 s.
const PATIENCE: Duration = Duration::from_secs(25);

/// What Galley's desktop has words for.
pub(super) fn words() -> Can {
    Can {
        prompt: true,
        images: true,
        cancel: true,
        streams: true,
        asks: true,
        set: true,
        aside: true,
        single: true,
        ..Can::default()
    }
}
