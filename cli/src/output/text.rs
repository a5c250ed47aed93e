//! For people: the answer on stdout, as it arrives; everything else on stderr.

use std::io::{self, IsTerminal};
use std::rc::Rc;
use std::time::Duration;

use agentline_core::acp::client::{Moment, Ready, Text as Piece};
use agentline_core::acp::update::{Plan, Speaker, ToolCallUpdate, Usage};
use agentline_core::acp::{Unknown, Update};
use agentline_core::attach::presence::Attachment;
use agentline_core::chat::{Line, Source};
use agentline_core::excerpt;
use agentline_core::host::Hosted;
use agentline_core::subagent::{
    By, Decision, Event, Finished, Outcome, QuestionDecided, Reply, Retrying, Verdict,
};
use serde::Deserialize;

use super::beside::{self, Beside};
use super::filter::{plain, printable};
use super::foreign::Foreign;
use super::kept::plan_entries;
use super::lines::{self, fold};
use super::notes::Notes;
use super::out::Out;
use super::paint::{In, Paint, fit, span};
use super::subagents::Subagents;
use super::tools::Tools;
use super::{Screen, Start};
use crate::failure::Advice;
use crate::words::{Ended as Result, Odd, command_line, hosts, offers};

/// A run on a terminal, or in a pipe: the same text.
pub(crate) struct Text {
    out: Out,
    notes: Notes,
    quiet: bool,
    /// Stdout is a terminal.
    terminal: bool,
    /// Whether the answer is in the middle of a line.
    open_line: bool,
    name: String,
    tools: Tools,
    /// Forms and pages of this turn.
    questions: usize,
    /// What the agent said last of what the session has used.
    usage: Option<Usage>,
    plan: Vec<String>,
    subagents: Subagents,
    stderr: Stderr,
    foreign: Foreign,
    odd: Odd,
    /// Nothing once it is over.
    doing: String,
    advice: Rc<Advice>,
}

/// What the agent wrote to standard error.
enum Stderr {
    /// Before the handshake is done, it is kept: mostly noise, or else the reason of a failure.
    Kept(String),
    Passed,
}

impl Text {
    pub(crate) fn new(notes: Notes, quiet: bool, advice: Rc<Advice>) -> Self {
        Self {
            out: Out::beside(&notes),
            quiet,
            terminal: io::stdout().is_terminal(),
            open_line: false,
            name: String::new(),
            tools: Tools::default(),
            questions: 0,
            usage: None,
            plan: Vec::new(),
            subagents: Subagents::default(),
            stderr: Stderr::Kept(String::new()),
            foreign: Foreign::new(notes.clone(), &advice),
            odd: Odd::default(),
            doing: String::new(),
            notes,
            advice,
        }
    }

    fn paint(&self) -> Paint {
        self.notes.paint()
    }

    /// A line for people, after all that was said before.
    fn note(&mut self, text: &str) {
        if !self.quiet {
            // An error comes again when the answer is flushed.
            let _ = self.show();
            self.notes.line(text);
        }
    }

    /// What the agent is doing, to be shown while nothing arrives.
    fn busy(&mut self, label: &str) {
        label.clone_into(&mut self.doing);
        self.wait();
    }

    fn wait(&self) {
        if !self.quiet && !self.doing.is_empty() {
            self.notes.busy(&self.doing);
        }
    }

    /// Brings the answer so far to where it can be read.
    fn show(&mut self) -> io::Result<()> {
        if self.out.is_empty() {
            return self.out.flush();
        }
        self.notes.before_answer();
        let done = self.out.flush();
        self.notes.after_answer(self.open_line);
        done
    }

    fn say(&mut self, text: &str) {
        if let Some(last) = text.chars().next_back() {
            // In a pipe it is data. On a terminal it could forge a question of ours.
            self.out.write(&if self.terminal { printable(text) } else { text.into() });
            self.open_line = last != '\n';
        }
    }

    /// What comes next is no part of the sentence before.
    fn end_line(&mut self) {
        if self.open_line {
            self.say("\n");
        }
    }

    fn ready(&mut self, ready: &Ready) {
        let info = ready.agent_info.as_ref();
        let title = info.map(|info| info.title.as_deref().unwrap_or(&info.name)).unwrap_or(&self.name);
        let version = info.map_or("", |info| &info.version);
        let line = if self.advice.is_demo() {
            "demo agent (built in: no model, no key)".to_owned()
        } else {
            format!("{} {}", plain(title), plain(version))
        };
        self.note(&format!("{} {}", In(self.paint().dim, "◦"), line.trim_end()));
        self.pass_stderr();
        self.busy("opening the session");
    }

    fn pass_stderr(&mut self) {
        if let Stderr::Kept(kept) = std::mem::replace(&mut self.stderr, Stderr::Passed)
            && !kept.is_empty()
        {
            self.stderr(&kept);
        }
    }

    fn stderr(&mut self, text: &str) {
        match &mut self.stderr {
            Stderr::Kept(kept) => {
                kept.push_str(text);
                excerpt::keep_end(kept, KEPT);
            }
            Stderr::Passed if !self.quiet => {
                let _ = self.show();
                self.foreign.write(text);
            }
            Stderr::Passed => {}
        }
    }

    fn text(&mut self, piece: &Piece) {
        match (piece.moment, piece.speaker) {
            (Moment::Turn, Speaker::Agent) if self.advice.last => self.busy("writing"),
            (Moment::Turn, Speaker::Agent) => self.say(&piece.text),
            (Moment::Turn, Speaker::Thought) => {
                self.end_line();
                self.busy("thinking");
            }
            // History, or what the user said.
            (Moment::Replay | Moment::Between, _) | (Moment::Turn, Speaker::User) => {}
        }
    }

    fn update(&mut self, update: Update) {
        match update {
            Update::ToolCall(call) => self.tool(call.into()),
            Update::ToolCallUpdate(news) => self.tool(news),
            Update::Plan(plan) => self.plan(&plan),
            Update::Message(Speaker::Agent, chunk) => match chunk.content.as_text() {
                Some(text) => self.say(text),
                None => {
                    let what = format!("[{}]", plain(chunk.content.tag()));
                    self.note(&format!("  {}", In(self.paint().dim, what)));
                }
            },
            Update::Other(unknown) => self.other(&unknown),
            Update::Message(..)
            | Update::AvailableCommands(_)
            | Update::CurrentMode(_)
            | Update::ConfigOptions(_)
            | Update::SessionInfo(_)
            | Update::Usage(_) => {}
        }
    }

    /// What is done here because the agent asked for it.
    fn hosted(&mut self, hosted: &Hosted) {
        if let Some(line) = lines::hosted(&hosted.deed, hosted.error.as_deref(), &self.notes) {
            self.end_line();
            self.note(&line);
        }
    }

    /// What is offered to an agent beside the protocol's older parts.
    fn other(&mut self, unknown: &Unknown) {
        if unknown.tag == "subagent_update" {
            let lines = self.subagents.learn(unknown);
            return self.beside(lines);
        }
        match beside::read(unknown) {
            Some(Beside::Plan(plan)) => self.plan(&plan),
            Some(Beside::Note { bad, text }) => {
                self.end_line();
                let style = if bad { self.paint().bad } else { self.paint().dim };
                let line = format!("  {} {}", if bad { "!" } else { "◦" }, plain(&text));
                let line = fit(&line, self.notes.columns());
                self.note(&In(style, line).to_string());
            }
            None => {}
        }
    }

    /// What subagents say and do.
    fn beside(&mut self, lines: Vec<String>) {
        if !lines.is_empty() {
            self.end_line();
        }
        for line in lines {
            let line = fit(&line, self.notes.columns());
            self.note(&In(self.paint().dim, line).to_string());
        }
    }

    /// What the turn and the session have cost, as far as the agent says.
    fn spent(&self, finished: &Finished) -> Option<String> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Turn {
            total_tokens: u64,
        }
        let turn = finished.usage.as_ref().and_then(|usage| serde_json::from_str::<Turn>(usage.get()).ok());
        let mut parts: Vec<String> =
            turn.map(|turn| format!("{} tokens", turn.total_tokens)).into_iter().collect();
        if let Some(Usage { used, size, cost }) = &self.usage {
            parts.push(format!("{used} of {size} tokens of context"));
            parts.extend(
                cost.as_ref().map(|cost| format!("{:.2} {} so far", cost.amount, plain(&cost.currency))),
            );
        }
        (!parts.is_empty()).then(|| parts.join(" · "))
    }

    fn tool(&mut self, news: ToolCallUpdate) {
        let id = news.tool_call_id.clone();
        if self.tools.learn(news) {
            self.end_line();
        }
        let ended = self.tools.ended(&id);
        let lines: Vec<String> = ended.iter().flat_map(|ended| lines::tool(ended, &self.notes)).collect();
        lines.iter().for_each(|line| self.note(line));
        let busy = self.tools.newest().unwrap_or_else(|| "waiting for the agent".into());
        self.busy(&busy);
    }

    fn plan(&mut self, plan: &Plan) {
        let entries = plan_entries(plan.entries.iter().map(|entry| &*entry.content));
        // Most updates of a plan tick entries off.
        if entries.is_empty() || entries == self.plan {
            return;
        }
        self.end_line();
        let line = lines::plan(&entries, self.notes.columns());
        self.note(&line);
        self.plan = entries;
    }

    fn decided(&mut self, decision: &Decision) {
        self.end_line();
        let allowed = decision.decision == Verdict::Allowed;
        self.tools.decided(&decision.tool_call_id, allowed);
        self.subagents.decided(&decision.tool_call_id, allowed);
        let kind = decision.option_id.as_deref().and_then(|id| {
            decision.options.iter().find(|option| option.option_id == id).map(|option| &option.kind)
        });
        let paint = self.paint();
        let what = match (decision.decision, kind.map(|kind| kind.as_str())) {
            (Verdict::Cancelled, _) => In(paint.bad, "✗ not answered").to_string(),
            (Verdict::Allowed, Some("allow_always")) => lines::chosen(Some("allow_always"), paint),
            (Verdict::Allowed, _) => lines::chosen(Some("allow_once"), paint),
            (Verdict::Rejected, Some("reject_always")) => lines::chosen(Some("reject_always"), paint),
            (Verdict::Rejected, _) => lines::chosen(Some("reject_once"), paint),
        };
        let title = match (&decision.title, self.tools.get(&decision.tool_call_id)) {
            (_, Some(call)) => super::label(call),
            (Some(title), None) => plain(title).into_owned(),
            (None, None) => plain(&decision.tool_call_id).into_owned(),
        };
        let line = match decision.by {
            By::User => format!("  {what}"),
            By::Policy => format!("  {what}: {title}{}", In(paint.dim, self.advice.about_policy())),
            By::Rule => {
                let rule = decision.rule.as_deref().unwrap_or_default();
                format!("  {what}: {title}{}", In(paint.dim, format!(" ({})", plain(rule))))
            }
            By::Cancel => format!("  {what}: {title}"),
        };
        if self.quiet && self.advice.by_default && decision.by == By::Policy {
            // Nobody asked for it, so somebody may look for the reason.
            let _ = self.show();
            self.notes.line(&line);
        }
        self.note(&line);
        self.busy("waiting for the agent");
    }

    fn answered(&mut self, decision: &QuestionDecided) {
        self.questions += 1;
        self.end_line();
        let paint = self.paint();
        let what = match decision.reply {
            Reply::Accept { .. } => In(paint.good, "✓ answered"),
            Reply::Decline => In(paint.bad, "✗ declined"),
            Reply::Cancel => In(paint.bad, "✗ not answered"),
        };
        let line = match (decision.by, &decision.why) {
            (By::User, _) => format!("  {what}"),
            (By::Policy | By::Rule | By::Cancel, None) => format!("  {what}: {}", plain(&decision.message)),
            (By::Policy | By::Rule | By::Cancel, Some(why)) => {
                let why = In(paint.dim, format!(" ({})", plain(why)));
                format!("  {what}: {}{why}", plain(&decision.message))
            }
        };
        self.note(&line);
        self.busy("waiting for the agent");
    }

    fn retrying(&mut self, Retrying { attempt, most, after, failed, .. }: &Retrying) {
        self.end_line();
        let why = self.advice.failed(failed).message;
        let line = format!("◦ {}; again in {} ({attempt} of {most})", plain(&why), span(*after));
        self.note(&In(self.paint().dim, line).to_string());
        self.busy("waiting for the model");
    }

    /// Tools of which nobody knows how they ended: they may still run.
    fn unended(&mut self) {
        let mut labels = self.tools.unended();
        let more = labels.len().saturating_sub(UNENDED);
        labels.truncate(UNENDED);
        if more > 0 {
            labels.push(format!("{more} more"));
        }
        if !labels.is_empty() {
            let line = fold("  not ended: ", labels, " · ", self.notes.columns());
            self.note(&In(self.paint().dim, line).to_string());
        }
    }

    fn summary(&self, finished: &Finished) -> String {
        let mut parts = Vec::new();
        let (below, unasked_below) = self.subagents.counts();
        match self.tools.count + below {
            0 => {}
            1 => parts.push("1 tool".to_owned()),
            count => parts.push(format!("{count} tools")),
        }
        let asked = |verdict| finished.permissions.iter().filter(|asked| asked.decision == verdict).count();
        match self.questions {
            0 if finished.permissions.is_empty() => parts.push("nothing asked".into()),
            0 => {}
            1 => parts.push("1 question".into()),
            count => parts.push(format!("{count} questions")),
        }
        if let unasked @ 1.. = self.tools.ran_unasked() + unasked_below
            && self.advice.guards
        {
            parts.push(ran_unasked(unasked));
        }
        for (verdict, word) in [
            (Verdict::Allowed, "allowed"),
            (Verdict::Rejected, "rejected"),
            (Verdict::Cancelled, "not answered"),
        ] {
            if let count @ 1.. = asked(verdict) {
                parts.push(format!("{count} {word}"));
            }
        }
        parts.join(" · ")
    }
}

impl Screen for Text {
    fn started(&mut self, start: &Start, _: Option<u32>) {
        self.name = start.name.clone();
        if !self.quiet {
            self.notes.animate();
        }
        let label = format!("starting {}", plain(&start.name));
        self.busy(&label);
    }

    fn dry_run(&mut self, start: &Start) {
        let command = start.command.as_deref().map(command_line).unwrap_or_default();
        self.say(&format!("command   {command}\ncwd       {}\n", start.cwd));
        let mut list = |head: &str, names: &[&str]| {
            let names = if names.is_empty() { "nothing".to_owned() } else { names.join(", ") };
            self.say(&format!("{head:<9} {names}\n"));
        };
        let withheld: Vec<&str> = start.withheld.iter().map(String::as_str).collect();
        list("withheld", &withheld);
        if let Some(it) = &start.offers {
            list("offers", &offers(it));
            list("hosts", &hosts(it));
        }
        for (at, row) in start.permissions.iter().enumerate() {
            let head = if at == 0 { "permits   " } else { "          " };
            self.say(&format!("{head}{:<7} {}\n", row.then, row.about()));
        }
    }

    fn warn(&mut self, warning: String) {
        self.end_line();
        self.notes.line(&format!("! {warning}"));
    }

    fn before_question(&mut self) {
        self.end_line();
        // An error comes again when the answer is flushed.
        let _ = self.show();
    }

    fn told(&mut self, event: Event) {
        match event {
            Event::Ready(ready) => self.ready(&ready),
            Event::Text(piece) => self.text(&piece),
            Event::Updated(updated) if updated.of.is_some() => {
                let lines = self.subagents.hear(&updated);
                self.beside(lines);
            }
            Event::Updated(updated) => match (updated.moment, updated.update) {
                (_, Update::Usage(usage)) => self.usage = Some(usage),
                (Moment::Turn, update) => self.update(update),
                // It is not part of any turn, and gone when nobody reads it now.
                (Moment::Between, Update::Other(unknown)) => self.other(&unknown),
                (Moment::Replay | Moment::Between, _) => {}
            },
            Event::PermissionDecided(decision) => self.decided(&decision),
            Event::QuestionDecided(decision) => self.answered(&decision),
            Event::Hosted(hosted) => self.hosted(&hosted),
            Event::Retrying(retrying) => self.retrying(&retrying),
            Event::PageDone(_) => self.note(&format!("  {}", In(self.paint().good, "✓ done at that page"))),
            Event::Stderr(text) => self.stderr(&text),
            Event::Noticed(notice) => self.odd.add(&notice),
            Event::SessionOpened(_) => self.busy("waiting for the agent"),
            Event::Started(_)
            | Event::PermissionAsked(_)
            | Event::QuestionAsked(_)
            | Event::FileWanted(_)
            | Event::Answered(_)
            | Event::Listed(_)
            | Event::Line(_)
            | Event::Finished(_)
            | Event::Closed(_) => {}
        }
    }

    fn judged(&mut self, why: Option<&str>, left: u32) {
        if let (Some(why), 1..) = (why, left) {
            self.end_line();
            let why = self.advice.masks.text(why);
            let line = format!("◦ the answer does not fit the schema: {}; asked again", plain(&why));
            self.note(&In(self.paint().dim, line).to_string());
            self.busy("waiting for the agent");
        }
    }

    fn begun(&mut self, line: &Line) {
        self.tools = Tools::default();
        self.subagents.begin();
        self.questions = 0;
        self.plan.clear();
        let (mark, from) = match line.from {
            Source::Outside(_) => ("»", " (from outside)"),
            Source::Hub(_) => ("»", " (from the hub)"),
            // It was seen when it was typed, and may be far above by now, or was never left on the screen.
            Source::Keyboard if line.waited || self.notes.page().is_some() => ("›", ""),
            Source::Keyboard => return self.busy("waiting for the agent"),
        };
        let words = lines::prompt(mark, &line.text, from, self.paint());
        self.note(&words);
        self.busy("waiting for the agent");
    }

    fn cancelling(&mut self, from_outside: bool) {
        if from_outside {
            return self.note("◦ cancelling, as was asked from outside");
        }
        let _ = self.show();
        self.notes.over("◦ cancelling; Ctrl-C again ends the agent");
    }

    fn at_rest(&mut self) {
        self.doing.clear();
        self.notes.still();
    }

    fn listening(&mut self, at: &Attachment) {
        let line =
            format!("◦ others can speak into this session: agentline attach send {} \"…\"", at.peer_id);
        self.note(&In(self.paint().dim, line).to_string());
    }

    fn finished(&mut self, Result { finished, problem, json, .. }: &Result, took: Duration) {
        let last = || finished.messages().last().filter(|_| self.advice.last);
        let last = if self.advice.schema.is_some() { json.as_deref() } else { last() };
        if let Some(last) = last {
            self.say(last);
        }
        self.end_line();
        let _ = self.show();
        self.doing.clear();
        self.notes.still();
        self.foreign.end();
        let paint = self.paint();
        let lines = self.subagents.end();
        self.beside(lines);
        self.unended();
        if let Some(line) = self.odd.take() {
            let line = self.advice.masks.text(&line).into_owned();
            self.note(&In(paint.dim, line).to_string());
        }
        if let Some(spent) = self.spent(finished) {
            self.note(&In(paint.dim, format!("◦ {spent}")).to_string());
        }
        if let Some(problem) = problem {
            let unseen = self.quiet || matches!(self.stderr, Stderr::Kept(_));
            self.notes.last_line(&self.advice.explain(problem, unseen, paint));
        } else {
            let (mark, how) = match finished.outcome {
                Outcome::Completed => (In(paint.dim, "◦"), "completed in"),
                Outcome::Aborted => (In(paint.dim, "◦"), "cancelled after"),
                Outcome::Rejected => {
                    (In(paint.bad, "✗"), "stopped by the agent, not permitted to go on, after")
                }
                Outcome::Refusal => (In(paint.bad, "✗"), "the agent refused, after"),
                Outcome::MaxTokens => (In(paint.bad, "✗"), "cut off at the model's output limit, after"),
                Outcome::Error => (In(paint.bad, "✗"), "failed after"),
            };
            let line = format!("{mark} {how} {} · {}", span(took), self.summary(finished));
            self.note(&line);
        }
        if let Some(steps) = self.advice.next_steps() {
            let line = fold("  try: ", steps, " · ", self.notes.columns());
            self.note(&In(paint.dim, line).to_string());
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        let shown = self.show();
        self.wait();
        shown
    }

    fn is_full(&self) -> bool {
        self.out.is_large()
    }
}

/// What a policy that refuses has not stopped, since nobody was asked.
pub(crate) fn ran_unasked(count: usize) -> String {
    format!("ran {count} tool{} without asking", if count == 1 { "" } else { "s" })
}

/// Bytes of standard error that are kept until the handshake is done.
const KEPT: usize = 4096;
/// Tools without an end that are named.
const UNENDED: usize = 3;
