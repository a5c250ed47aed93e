//! What happens in sessions, on a terminal or in a pipe: answers on stdout as they arrive, everything else on stderr.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal};

use agentline_core::acp::update::{ToolCallUpdate, ToolStatus};
use agentline_core::hub::api::{
    By, Frame, Happening, MessageBrief, QueuedAt, Resolved, Role, RunComplete, SessionBrief, Status,
    ToolCallEnd, ToolCallPending, UserMessage,
};
use agentline_core::rpc::Json;

use super::row::{called, is_busy, stands, tilde, word};
use crate::output::{EndedTool, In, Notes, Out, Tools, fit, pad, plain, plan_entries, printable, span};

/// Shows frames.
pub(super) struct Screen {
    out: Out,
    notes: Notes,
    quiet: bool,
    /// Stdout is a terminal.
    terminal: bool,
    /// Lines say whose they are.
    several: bool,
    rows: BTreeMap<String, Row>,
    /// The session whose answer is in the middle of a line.
    open: Option<String>,
    /// The hub's machine.
    host: Option<String>,
}

/// What is known of a session.
#[derive(Default)]
struct Row {
    brief: SessionBrief,
    tools: Tools,
    plan: Vec<String>,
    /// With several sessions: the line that is not over.
    line: String,
}

impl Screen {
    pub(super) fn new(notes: &Notes, quiet: bool, several: bool, host: Option<String>) -> Self {
        Self {
            out: Out::beside(notes),
            notes: notes.clone(),
            quiet,
            terminal: io::stdout().is_terminal(),
            several,
            rows: BTreeMap::new(),
            open: None,
            host,
        }
    }

    pub(super) fn show(&mut self, frame: &Frame) {
        let id = frame.session_id.clone().unwrap_or_default();
        match &frame.what {
            Happening::SessionBrief(brief) => self.session(brief),
            Happening::MessageBrief(message) => self.message(message),
            Happening::UserMessage(message) => self.user(&id, message),
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
            Happening::ToolCallPending(pending) => self.pending(&id, pending),
            Happening::AskUser(ask) => {
                let line = format!("  {} {}", In(self.notes.paint().ask, "?"), plain(&ask.question));
                self.note(&id, &line);
                let answer = format!("  try: agentline session send {} \"…\"", self.at(&id));
                self.note(&id, &answer);
            }
            Happening::AskForm(ask) => {
                let line = format!("  {} {}", In(self.notes.paint().ask, "?"), plain(&ask.approval.title));
                self.note(&id, &line);
                let show = format!("  try: agentline approval show {}", self.at(&ask.approval.approval_id));
                self.note(&id, &show);
            }
            Happening::Resolved(resolved) => self.resolved(&id, resolved),
            Happening::PlanNow(plan) => {
                self.plan(&id, plan_entries(plan.entries.iter().map(|entry| &*entry.content)));
            }
            Happening::Warned(warned) => self.note(&id, &format!("! {}", plain(&warned.message))),
            Happening::SystemMessage(said) => self.note(&id, &format!("◦ {}", plain(&said.content))),
            Happening::QueuedAt(queued) => self.queued(&id, queued),
            Happening::NotSent(not) => self.note(&id, &format!("! not sent: {}", plain(&not.reason))),
            Happening::RunComplete(run) => self.complete(&id, run),
            Happening::Lagged(lagged) => {
                self.note(&id, &format!("! {} frames were lost: we were too slow", lagged.lost))
            }
            Happening::Other(kind) => {
                let line = format!("  {}", In(self.notes.paint().dim, plain(kind)));
                self.note(&id, &line);
            }
            Happening::Synced(_)
            | Happening::TurnStart(_)
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
        // An error has been told.
        let _ = self.flush();
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
        let _ = self.flush();
        let text = if self.several { format!("{} {text}", self.prefix(id)) } else { text.to_owned() };
        self.notes.line(&text);
    }

    fn prefix(&self, id: &str) -> String {
        In(self.notes.paint().strong, pad(&fit(&self.name(id), NAME), NAME)).to_string()
    }

    fn say(&mut self, id: &str, text: &str) {
        let text = if self.terminal { printable(text).into_owned() } else { text.to_owned() };
        if self.several {
            return self.say_lines(id, &text);
        }
        if let Some(last) = text.chars().next_back() {
            self.out.write(&text);
            self.open = (last != '\n').then(|| id.to_owned());
        }
    }

    /// Several sessions speak at once: each says whole lines.
    fn say_lines(&mut self, id: &str, text: &str) {
        let prefix = plain(&self.name(id)).into_owned();
        let row = self.row(id);
        row.line.push_str(text);
        let whole = row.line.rfind('\n').map(|end| end + 1);
        // A line that goes on and on is shown in pieces.
        let Some(end) = whole.or_else(|| (row.line.len() > LONG).then_some(row.line.len())) else { return };
        let rest = row.line.split_off(end);
        let lines = std::mem::replace(&mut row.line, rest);
        let shown: String =
            lines.lines().map(|line| format!("{} {line}\n", pad(&fit(&prefix, NAME), NAME))).collect();
        self.out.write(&shown);
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
        if !known && (!self.several || is_busy(&brief)) {
            let dim = self.notes.paint().dim;
            let about = format!("{} · {} · {}", plain(&brief.agent), tilde(&brief.cwd), stands(&brief));
            let name = if self.several { String::new() } else { format!("{} · ", called(&brief)) };
            self.note(&brief.id, &In(dim, format!("{name}{about}")).to_string());
        } else if known && before.status != brief.status && brief.status == Status::Connecting {
            let dim = self.notes.paint().dim;
            self.note(&brief.id, &In(dim, format!("◦ starting {}", plain(&brief.agent))).to_string());
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
        self.row(id).tools = Tools::default();
        self.prompt(id, text, &format!("{with}{from}"));
    }

    fn prompt(&mut self, id: &str, text: &str, about: &str) {
        let mark = In(self.notes.paint().strong, "›").to_string();
        let mut lines: Vec<String> = text.lines().map(|line| plain(line).into_owned()).collect();
        if let Some(first) = lines.first_mut() {
            *first = format!("{mark} {first}{}", In(self.notes.paint().dim, about));
        }
        self.note(id, &lines.join("\n  "));
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
        self.tool_ended(id, &call, None);
    }

    fn tool_end(&mut self, id: &str, end: &ToolCallEnd) {
        let mut news = call(&end.call, &end.tool_call_id, "");
        let failed = end.status == "failed";
        news.status.get_or_insert(if failed { ToolStatus::Failed } else { ToolStatus::Completed });
        self.row(id).tools.learn(news);
        self.tool_ended(id, &end.tool_call_id, Some(end));
    }

    fn tool_ended(&mut self, id: &str, call: &str, told: Option<&ToolCallEnd>) {
        let Some(EndedTool { label, failed, refused, why, took, .. }) = self.row(id).tools.ended(call) else {
            return;
        };
        // That it was refused was said.
        if failed && refused {
            return;
        }
        let paint = self.notes.paint();
        let mark = if failed { In(paint.bad, "✗") } else { In(paint.good, "✓") };
        // An agent's own calls come without a time.
        let took = told.map_or(took, |end| took.max(std::time::Duration::from_millis(end.elapsed_ms)));
        let columns = self.notes.columns().saturating_sub(14).max(20);
        let label = pad(&fit(&label, columns), columns.min(LABEL));
        let took = if took >= WORTH_SAYING { span(took) } else { String::new() };
        let line = format!("  {mark} {label}  {}", In(paint.dim, took));
        self.note(id, line.trim_end());
        if let Some(why) = why.filter(|_| failed) {
            let line = format!("    {}", plain(&why));
            self.note(id, &In(paint.dim, fit(&line, self.notes.columns())).to_string());
        }
    }

    fn pending(&mut self, id: &str, pending: &ToolCallPending) {
        let ToolCallPending { approval_id, approval, .. } = pending;
        let title = plain(&approval.title).into_owned();
        let answer = format!("waiting: agentline approve {}", self.at(approval_id));
        let columns = self.notes.columns().saturating_sub(answer.len() + 6).max(20);
        let paint = self.notes.paint();
        let line = format!(
            "  {} {}  {}",
            In(paint.ask, "?"),
            pad(&fit(&title, columns), columns.min(LABEL)),
            In(paint.dim, answer)
        );
        self.note(id, &line);
    }

    fn resolved(&mut self, id: &str, resolved: &Resolved) {
        let paint = self.notes.paint();
        let Resolved { approval_id, option_id, by, .. } = resolved;
        let by = match by {
            By::Client => "another client".to_owned(),
            By::Policy => "the policy".into(),
            By::Withdrawn | By::TurnEnded | By::Cancelled | By::Terminal | By::Expired | By::Gone => {
                word(by).replace('_', " ")
            }
        };
        let what = match option_id {
            Some(option) => In(paint.good, format!("◦ answered: {}", plain(option))),
            None => In(paint.bad, "◦ not answered".to_owned()),
        };
        self.note(id, &format!("  {what} ({}, by {by})", self.at(approval_id)));
    }

    fn plan(&mut self, id: &str, entries: Vec<String>) {
        // Most updates of a plan tick entries off.
        if entries.is_empty() || entries == self.row(id).plan {
            return;
        }
        let numbered: Vec<String> =
            entries.iter().enumerate().map(|(at, entry)| format!("{} {entry}", at + 1)).collect();
        self.note(id, &format!("  plan   {}", numbered.join("  ")));
        self.row(id).plan = entries;
    }

    fn queued(&mut self, id: &str, queued: &QueuedAt) {
        let dim = self.notes.paint().dim;
        let first = plain(queued.text.lines().next().unwrap_or_default()).into_owned();
        self.note(id, &In(dim, format!("  queued ({}): {first}", queued.position)).to_string());
    }

    fn complete(&mut self, id: &str, run: &RunComplete) {
        let paint = self.notes.paint();
        let RunComplete { status, status_reason, last_error, .. } = run;
        let reason = status_reason.map_or_else(String::new, |reason| format!(" ({})", word(&reason)));
        let mark = if *status == Status::Error { In(paint.bad, "✗") } else { In(paint.dim, "◦") };
        let why =
            last_error.as_ref().map_or_else(String::new, |error| format!(": {}", plain(&error.message)));
        let queued = self.rows.get(id).map_or(0, |row| row.brief.queued);
        let queued = if queued > 0 { format!(" · {queued} queued") } else { String::new() };
        self.note(id, &format!("{mark} {}{reason}{why}{queued}", word(status)));
    }
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

/// Sessions that are known at once; of one that was forgotten, less is shown.
const ROWS: usize = 1000;
/// Bytes of a line that does not end.
const LONG: usize = 64 << 10;
/// Columns of a tool's label before the time that it took.
const LABEL: usize = 48;
/// Columns of a name in front of a line.
const NAME: usize = 12;
/// What took less is not worth saying.
const WORTH_SAYING: std::time::Duration = std::time::Duration::from_millis(100);

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
