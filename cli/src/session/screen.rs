//! What happens in sessions, on a terminal or in a pipe: answers on stdout as they arrive, everything else on stderr.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, IsTerminal};
use std::time::Duration;

use agentline_core::acp::OptionKind;
use agentline_core::acp::update::{ToolCallUpdate, ToolStatus};
use agentline_core::hub::api::{
    ApprovalBrief, By, Class, Frame, Happening, MessageBrief, QueuedAt, Reason, Resolved, Role, RunComplete,
    SessionBrief, Status, ToolCallEnd, UserMessage,
};
use agentline_core::rpc::Json;

use super::row::{called, is_busy, tilde};
use super::said::{self, stands, unsent};
use crate::approval::{asked, heading};
use crate::output::{
    In, Notes, Out, Tools, columns, fit, in_rows, lines, pad, plain, plan_entries, printable, span,
};

/// Shows frames.
pub(super) struct Screen {
    out: Out,
    notes: Notes,
    quiet: bool,
    /// Stdout is a terminal.
    terminal: bool,
    whose: Whose,
    rows: BTreeMap<String, Row>,
    /// The session whose answer is in the middle of a line.
    open: Option<String>,
    /// The questions that are open, by id, as far as they were seen.
    asked: BTreeMap<String, Asked>,
    /// Questions that were answered here.
    ours: BTreeSet<String>,
    /// The hub's machine.
    host: Option<String>,
    /// What is waited for, where one session is shown.
    doing: String,
    /// That was told.
    busy: bool,
}

/// What is shown, and to whom.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Whose {
    /// One session.
    One,
    /// Several: lines say whose they are.
    Several,
    /// One session, to somebody who sits before it: its questions are put to them.
    Theirs,
}

/// Of a question that is open, what its end is told by.
struct Asked {
    /// The call that it is about.
    call: Option<String>,
    options: Vec<(String, OptionKind)>,
}

/// What is known of a session.
#[derive(Default)]
struct Row {
    brief: SessionBrief,
    tools: Tools,
    plan: Vec<String>,
    /// When its turn began.
    began: Option<Duration>,
    /// With several sessions: the line that is not over.
    line: String,
}

impl Screen {
    pub(super) fn new(notes: &Notes, quiet: bool, whose: Whose, host: Option<String>) -> Self {
        if !quiet && whose != Whose::Several {
            notes.animate();
        }
        Self {
            out: Out::in_rows(notes),
            notes: notes.clone(),
            quiet,
            terminal: io::stdout().is_terminal(),
            whose,
            rows: BTreeMap::new(),
            open: None,
            asked: BTreeMap::new(),
            ours: BTreeSet::new(),
            host,
            doing: String::new(),
            busy: false,
        }
    }

    /// Whoever sits here answers that question: its end is no news to them.
    pub(super) fn answers(&mut self, approval: &str) {
        self.ours.insert(approval.to_owned());
    }

    /// They did not after all.
    pub(super) fn answers_not(&mut self, approval: &str) {
        self.ours.remove(approval);
    }

    pub(super) fn show(&mut self, frame: &Frame) {
        let id = frame.session_id.clone().unwrap_or_default();
        match &frame.what {
            Happening::SessionBrief(brief) => self.session(brief),
            Happening::MessageBrief(message) => self.message(message),
            Happening::UserMessage(message) => self.user(&id, message),
            Happening::TurnStart(_) => self.row(&id).began = at(frame),
            Happening::TurnProgress(piece) => self.say(&id, &piece.delta),
            Happening::Thought(piece) => self.thought(&id, &piece.delta),
            Happening::Block(block) => {
                let what =
                    format!("  {}", In(self.notes.paint().dim, format!("[{}]", plain(block.block.tag()))));
                self.note(&id, &what);
            }
            Happening::ToolCallStart(start) => {
                self.tool(&id, call(&start.call, &start.tool_call_id, &start.tool_name))
            }
            Happening::ToolCallProgress(news) => {
                self.tool(&id, call(&news.call, &news.tool_call_id, &news.text))
            }
            Happening::ToolCallEnd(end) => self.tool_end(&id, end),
            what @ (Happening::ToolCallPending(_) | Happening::AskUser(_) | Happening::AskForm(_)) => {
                asked(what).into_iter().for_each(|asked| self.asks(&id, asked));
            }
            Happening::Resolved(resolved) => self.resolved(&id, resolved),
            Happening::PlanNow(plan) => {
                self.plan(&id, plan_entries(plan.entries.iter().map(|entry| &*entry.content)));
            }
            Happening::Warned(warned) => self.note(&id, &format!("! {}", plain(&warned.message))),
            Happening::HostedNow(it) => {
                let line = lines::hosted(&it.deed, it.error.as_deref(), &self.notes);
                line.iter().for_each(|line| self.note(&id, line));
            }
            Happening::SystemMessage(said) => self.note(&id, &format!("◦ {}", plain(&said.content))),
            Happening::QueuedAt(queued) => self.queued(&id, queued),
            Happening::NotSent(not) => self.note(&id, &format!("! not sent: {}", unsent(&not.reason))),
            Happening::RunComplete(run) => self.complete(&id, run, at(frame)),
            Happening::Lagged(lagged) => {
                self.note(&id, &format!("! {} frames were lost: we were too slow", lagged.lost))
            }
            Happening::Other(kind) => {
                let line = format!("  {}", In(self.notes.paint().dim, plain(kind)));
                self.note(&id, &line);
            }
            Happening::Synced(_)
            | Happening::TurnEnd(_)
            | Happening::UsageNow(_)
            | Happening::ModeNow(_)
            | Happening::OptionsNow(_)
            | Happening::Update(_)
            | Happening::ApprovalBrief(_) => {}
        }
    }

    /// Nothing more is there to be shown for now.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        let done = self.hand_over();
        if self.quiet || self.open.is_some() {
            return done;
        }
        if !self.doing.is_empty() {
            self.notes.busy(&self.doing);
        } else if self.busy {
            self.notes.still();
        }
        self.busy = !self.doing.is_empty();
        done
    }

    fn hand_over(&mut self) -> io::Result<()> {
        if self.out.is_empty() {
            return self.out.flush();
        }
        self.notes.before_answer();
        let done = self.out.flush();
        self.notes.after_answer(self.open.is_some());
        done
    }

    /// Whether it is time to flush even though there is more.
    pub(super) fn is_full(&self) -> bool {
        self.out.is_large()
    }

    /// What is in the middle of a line is over.
    pub(super) fn end(&mut self) {
        let ids: Vec<String> = self.rows.keys().cloned().collect();
        ids.iter().for_each(|id| self.end_line(id));
        self.does("");
        // An error has been told.
        let _ = self.flush();
    }

    /// What is waited for; nothing once it is over.
    fn does(&mut self, what: &str) {
        if self.whose == Whose::Several {
            return;
        }
        what.clone_into(&mut self.doing);
    }

    fn row(&mut self, id: &str) -> &mut Row {
        if self.rows.len() >= ROWS && !self.rows.contains_key(id) {
            self.rows.pop_first();
        }
        self.rows.entry(id.to_owned()).or_default()
    }

    /// An id, as it is typed here.
    fn at(&self, id: &str) -> String {
        let id = plain(id);
        self.host.as_deref().map_or_else(|| id.clone().into_owned(), |host| format!("{id}@{host}"))
    }

    fn name(&self, id: &str) -> String {
        let brief = self.rows.get(id).map(|row| &row.brief);
        brief
            .and_then(|brief| brief.name.as_deref())
            .map_or_else(|| self.at(id), |name| plain(name).into_owned())
    }

    /// A line for people, after all that was said before.
    fn note(&mut self, id: &str, text: &str) {
        self.end_line(id);
        if self.quiet {
            return;
        }
        // An error comes again when the answer is flushed.
        let _ = self.hand_over();
        let text = if self.whose == Whose::Several {
            format!("{} {text}", self.prefix(id))
        } else {
            text.to_owned()
        };
        self.notes.line(&text);
    }

    fn prefix(&self, id: &str) -> String {
        In(self.notes.paint().strong, pad(&fit(&self.name(id), NAME), NAME)).to_string()
    }

    fn say(&mut self, id: &str, text: &str) {
        let text = if self.terminal { printable(text).into_owned() } else { text.to_owned() };
        if self.whose == Whose::Several {
            return self.say_lines(id, &text);
        }
        if let Some(last) = text.chars().next_back() {
            self.out.write(&text);
            self.open = (last != '\n').then(|| id.to_owned());
        }
    }

    /// Several sessions speak at once: each says whole lines.
    fn say_lines(&mut self, id: &str, text: &str) {
        let prefix = pad(&fit(&self.name(id), NAME), NAME);
        let row = self.row(id);
        row.line.push_str(text);
        let whole = row.line.rfind('\n').map(|end| end + 1);
        // A line that goes on and on is shown in pieces.
        let Some(end) = whole.or_else(|| (row.line.len() > LONG).then_some(row.line.len())) else { return };
        let rest = row.line.split_off(end);
        let mut lines = std::mem::replace(&mut row.line, rest);
        if let Some(columns) = columns(io::stdout()) {
            lines = in_rows(&lines, columns.saturating_sub(NAME + 1).max(NAME));
        }
        self.out.write(&lines.lines().map(|line| format!("{prefix} {line}\n")).collect::<String>());
    }

    fn end_line(&mut self, id: &str) {
        if self.rows.get(id).is_some_and(|row| !row.line.is_empty()) {
            self.say_lines(id, "\n");
        }
        if self.open.take().is_some() {
            self.out.write("\n");
        }
    }

    fn session(&mut self, brief: &SessionBrief) {
        let mut brief = brief.clone();
        brief.host.clone_from(&self.host);
        let known = self.rows.contains_key(&brief.id);
        let before = std::mem::replace(&mut self.row(&brief.id).brief, brief.clone());
        if !known && (self.whose != Whose::Several || is_busy(&brief)) {
            let dim = self.notes.paint().dim;
            let stands = stands(brief.status, brief.status_reason);
            let about = format!("{} · {} · {stands}", plain(&brief.agent), tilde(&brief.cwd));
            let name =
                if self.whose == Whose::Several { String::new() } else { format!("{} · ", called(&brief)) };
            self.note(&brief.id, &In(dim, format!("{name}{about}")).to_string());
        } else if known && before.status != brief.status && brief.status == Status::Connecting {
            let dim = self.notes.paint().dim;
            self.note(&brief.id, &In(dim, format!("◦ starting {}", plain(&brief.agent))).to_string());
        }
        // Nobody else tells it: its end was lost with the hub.
        if brief.status_reason == Some(Reason::Interrupted) && is_busy(&before) {
            let (status, status_reason) = (brief.status, brief.status_reason);
            let run = RunComplete { status, status_reason, ..RunComplete::default() };
            self.complete(&brief.id, &run, None);
        }
        match brief.status {
            Status::Connecting => self.does(&format!("starting {}", plain(&brief.agent))),
            Status::Running => self.does(WAITS),
            Status::WaitingApproval
            | Status::Idle
            | Status::Error
            | Status::Completed
            | Status::Cancelled
            | Status::Archived => self.does(""),
        }
    }

    fn message(&mut self, message: &MessageBrief) {
        let id = message.session_id.clone();
        match message.role {
            Role::User => self.prompt(&id, &message.content, ""),
            Role::Agent => {
                self.say(&id, &message.content);
                self.end_line(&id);
            }
            Role::Tool => {
                let paint = self.notes.paint();
                let mark = match message.tool_status.as_deref() {
                    Some("failed") => In(paint.bad, "✗"),
                    _ => In(paint.good, "✓"),
                };
                self.note(&id, &format!("  {mark} {}", plain(&message.content)));
            }
            Role::System => self.note(&id, &format!("◦ {}", plain(&message.content))),
        }
    }

    fn user(&mut self, id: &str, message: &UserMessage) {
        let UserMessage { text, images, by } = message;
        let agent = by.as_ref().and_then(|by| by.who.as_ref()).and_then(|who| who.agent.as_deref());
        let from = agent.map_or_else(String::new, |agent| format!(" (by agent {})", plain(agent)));
        let with = if *images > 0 { format!(" (+{images} images)") } else { String::new() };
        (self.row(id).tools, self.row(id).plan) = (Tools::default(), Vec::new());
        self.prompt(id, text, &format!("{with}{from}"));
    }

    fn prompt(&mut self, id: &str, text: &str, about: &str) {
        self.note(id, &lines::prompt("›", text, about, self.notes.paint()));
    }

    fn thought(&mut self, id: &str, text: &str) {
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            let line = format!("  {}", In(self.notes.paint().dim, plain(line)));
            self.note(id, &line);
        }
    }

    fn tool(&mut self, id: &str, news: ToolCallUpdate) {
        let call = news.tool_call_id.clone();
        self.row(id).tools.learn(news);
        self.tool_ended(id, &call, Duration::ZERO);
    }

    fn tool_end(&mut self, id: &str, end: &ToolCallEnd) {
        let mut news = call(&end.call, &end.tool_call_id, "");
        let failed = end.status == "failed";
        news.status.get_or_insert(if failed { ToolStatus::Failed } else { ToolStatus::Completed });
        self.row(id).tools.learn(news);
        self.tool_ended(id, &end.tool_call_id, Duration::from_millis(end.elapsed_ms));
    }

    /// `told`: the time that it took, as the source says. An agent's own calls come without.
    fn tool_ended(&mut self, id: &str, call: &str, told: Duration) {
        if let Some(mut ended) = self.row(id).tools.ended(call) {
            ended.took = ended.took.max(told);
            lines::tool(&ended, &self.notes).iter().for_each(|line| self.note(id, line));
        }
        let now = self.row(id).tools.newest();
        self.does(now.as_deref().unwrap_or(WAITS));
    }

    fn asks(&mut self, id: &str, asked: ApprovalBrief) {
        self.does("");
        let question = self.at(&asked.approval_id);
        let answer = match (asked.class, asked.schema.is_some() || asked.url.is_some()) {
            (Class::Question, false) => format!("try: agentline session send {} \"…\"", self.at(id)),
            (Class::Question, true) => format!("try: agentline approval show {question}"),
            (Class::Command | Class::FileChange | Class::Permission, _) => {
                format!("waiting: agentline approve {question}")
            }
        };
        let what = heading(&asked);
        if self.asked.len() >= MOST {
            self.asked.pop_first();
        }
        let options = asked.options.into_iter().map(|option| (option.option_id, option.kind)).collect();
        let call = asked.call.map(|call| call.tool_call_id);
        self.asked.insert(asked.approval_id, Asked { call, options });
        if self.whose == Whose::Theirs {
            // It is put to them.
            return self.end_line(id);
        }
        let (paint, columns) = (self.notes.paint(), self.notes.columns());
        let room = columns.saturating_sub(answer.len() + 7);
        let line = match room >= 20 {
            true => {
                let what = pad(&fit(&what, room), room.min(LABEL));
                format!("  {} {what}  {}", In(paint.ask, "?"), In(paint.dim, answer))
            }
            false => format!("  {} {what}\n    {}", In(paint.ask, "?"), In(paint.dim, answer)),
        };
        self.note(id, &line);
    }

    fn resolved(&mut self, id: &str, resolved: &Resolved) {
        let Resolved { approval_id, option_id, by, .. } = resolved;
        let asked = self.asked.remove(approval_id);
        let option = option_id
            .as_ref()
            .and_then(|chosen| asked.as_ref()?.options.iter().find(|(option, _)| option == chosen));
        let kind = option.map(|(_, kind)| kind.as_str());
        if let Some(call) = asked.as_ref().and_then(|asked| asked.call.as_ref()) {
            let allowed = matches!(kind, Some("allow_once" | "allow_always"));
            self.row(id).tools.decided(call, allowed);
        }
        self.does(WAITS);
        if self.ours.remove(approval_id) {
            // What came of it is said by whoever asked here.
            return;
        }
        let paint = self.notes.paint();
        let what = match (option_id, by) {
            (Some(_), _) | (None, By::Client) => lines::chosen(kind, paint),
            (None, _) => In(paint.bad, "✗ not answered").to_string(),
        };
        let about = In(paint.dim, format!("({}, {})", self.at(approval_id), said::by(*by)));
        self.note(id, &format!("  {what} {about}"));
    }

    fn plan(&mut self, id: &str, entries: Vec<String>) {
        // Most updates of a plan tick entries off.
        if entries.is_empty() || entries == self.row(id).plan {
            return;
        }
        let taken = if self.whose == Whose::Several { NAME + 1 } else { 0 };
        self.note(id, &lines::plan(&entries, self.notes.columns().saturating_sub(taken)));
        self.row(id).plan = entries;
    }

    fn queued(&mut self, id: &str, queued: &QueuedAt) {
        let dim = self.notes.paint().dim;
        let first = plain(queued.text.lines().next().unwrap_or_default()).into_owned();
        self.note(id, &In(dim, format!("  queued ({}): {first}", queued.position)).to_string());
    }

    fn complete(&mut self, id: &str, run: &RunComplete, at: Option<Duration>) {
        let paint = self.notes.paint();
        let RunComplete { status, status_reason, last_error, .. } = run;
        let mark = if *status == Status::Error { In(paint.bad, "✗") } else { In(paint.dim, "◦") };
        let error = last_error.as_ref().map(|error| plain(&error.message)).filter(|text| !text.is_empty());
        let how = match error {
            // It is more than its kind.
            Some(error) => format!("{}: {error}", stands(*status, None)),
            None => stands(*status, *status_reason),
        };
        let row = self.row(id);
        // A hub tells whole seconds: what took less has no time.
        let took = row.began.take().and_then(|began| Some(at?.saturating_sub(began)));
        let took = took.filter(|took| !took.is_zero());
        let took = took.map_or_else(String::new, |took| format!(" · {}", span(took)));
        let queued = row.brief.queued;
        self.does("");
        self.note(id, &format!("{mark} {how}{took} · queue {queued}"));
    }
}

/// When the hub heard of it, since the Unix epoch.
fn at(frame: &Frame) -> Option<Duration> {
    super::row::since_epoch(frame.timestamp.as_deref()?)
}

/// A tool call as the agent told it, or as much of it as there is.
fn call(told: &Option<ToolCallUpdate>, id: &str, name: &str) -> ToolCallUpdate {
    told.clone().unwrap_or_else(|| ToolCallUpdate {
        tool_call_id: id.to_owned(),
        title: (!name.is_empty()).then(|| name.to_owned()),
        ..ToolCallUpdate::default()
    })
}

/// A frame as a line of JSON: the server's own object, with what it is for us in front.
pub(crate) fn frame_line(data: &Json, host: Option<&str>, first: bool) -> String {
    let mut line = String::from("{\"type\":\"frame\"");
    if first {
        line += ",\"schemaVersion\":1";
    }
    if let Some(host) = host {
        line += &format!(",\"host\":{}", Json::new(host).get());
    }
    match data.get().strip_prefix('{').map(str::trim_start) {
        Some("}") => line += "}",
        Some(rest) => line += &format!(",{rest}"),
        None => line += &format!(",\"data\":{}}}", data.get()),
    }
    line + "\n"
}

/// What is waited for, as far as nothing else is known.
const WAITS: &str = "waiting for the agent";
/// Columns of a question before how it is answered.
const LABEL: usize = 46;
/// Columns of a name in front of a line.
const NAME: usize = 12;
/// Sessions that are known at once; of one that was forgotten, less is shown.
const ROWS: usize = 1000;
/// Bytes of a line that does not end.
const LONG: usize = 64 << 10;
/// Questions that are remembered.
const MOST: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_one_object_with_its_type() {
        let json = |text: &str| serde_json::from_str::<Json>(text).expect("JSON");
        for (data, line) in [
            (
                "{\"kind\":\"synced\"}",
                "{\"type\":\"frame\",\"schemaVersion\":1,\"host\":\"b\\\"x\",\"kind\":\"synced\"}\n",
            ),
            ("{ }", "{\"type\":\"frame\",\"schemaVersion\":1,\"host\":\"b\\\"x\"}\n"),
            ("[1]", "{\"type\":\"frame\",\"schemaVersion\":1,\"host\":\"b\\\"x\",\"data\":[1]}\n"),
        ] {
            assert_eq!(frame_line(&json(data), Some("b\"x"), true), line);
        }
        assert_eq!(frame_line(&json("{\"kind\":1}"), None, false), "{\"type\":\"frame\",\"kind\":1}\n");
    }
}
