//! `session show` and `session wait`: what was said, and how it ended.

use std::io;
use std::path::Path;
use std::process::ExitCode;

use agentline_core::hub::api::{
    MessageBrief, Role, SessionBrief, SessionShow, SessionWait, SessionsList, Waited, WaitedFor,
};
use serde::Serialize;

use super::row::{WAITS, called, exit_code, handle, tilde};
use super::{At, Desk, LAST, Show, Wait, said, stored};
use crate::args::Format;
use crate::hub::{Route, is_absent};
use crate::output::{self, EXPIRED, In, columns, in_rows, line, lines, object, plain, printable};
use crate::words::{Kind, Phase, Problem};
use crate::workspace::Workspace;

impl Desk<'_> {
    pub(super) fn show(&self, args: &Show) -> Result<ExitCode, Problem> {
        let At { mut link, id } = match self.at(args.id.as_deref(), None, false) {
            Err(problem) if is_absent(&problem) => {
                return self.stored(args.id.as_deref()).unwrap_or(Err(problem));
            }
            at => at?,
        };
        let load = args.no_load.then_some(false);
        let show = SessionShow { session_id: id, tail: args.tail, load };
        if self.global.format() == Format::Text && !self.global.quiet {
            self.notes.animate();
            self.notes.busy("reading the session");
        }
        let messages = link.ask(&show);
        self.notes.still();
        let messages = messages?;
        let shown: Vec<&MessageBrief> = match args.last {
            true => messages.iter().rev().find(|message| message.role == Role::Agent).into_iter().collect(),
            false => messages.iter().collect(),
        };
        if shown.is_empty() && self.global.format() == Format::Text && !self.global.quiet {
            self.notes.line("◦ nothing was said yet, or its agent does not tell");
        }
        Ok(output::print(&match self.global.format() {
            Format::Json => json(&shown),
            Format::Text if args.last => shown.iter().map(|message| text(&message.content)).collect(),
            Format::Text => shown.iter().map(|message| self.message(message)).collect::<Vec<_>>().join("\n"),
        }))
    }

    /// What is stored of a session: where it stands, and no word of what was said. `None`: it is another machine's.
    fn stored(&self, id: Option<&str>) -> Option<Result<ExitCode, Problem>> {
        let (Route::Own(folders), id) = self.to.of(id.unwrap_or(LAST)).ok()? else { return None };
        let rows = stored::sessions(&folders, &SessionsList { all: true, ..SessionsList::default() });
        let here = Workspace::of(None).ok()?.path;
        let is_meant = |row: &&SessionBrief| match &*id {
            LAST => here == Path::new(&row.cwd),
            id => {
                row.id == id
                    || [&row.name, &row.agent_session_id].iter().any(|name| name.as_deref() == Some(id))
            }
        };
        let Some(row) = rows.iter().find(is_meant) else {
            let message = format!("no hub runs, and no session {} is stored", plain(&id));
            let problem = Problem::new(Phase::Session, Kind::NotFound, message);
            return Some(Err(problem.hint("agentline session list -a")));
        };
        if !self.global.quiet {
            self.notes.line(
                "◦ no hub runs; what was said is at the agent: agentline session send, or attach, opens it",
            );
        }
        Some(Ok(output::print(&match self.global.format() {
            Format::Json => object("session", row),
            Format::Text => {
                let stands = said::stands(row.status, row.status_reason);
                format!(
                    "{} · {} · {} · {stands}\n{}\n",
                    called(row),
                    plain(&row.agent),
                    tilde(&row.cwd),
                    plain(&row.title)
                )
            }
        })))
    }

    fn message(&self, message: &MessageBrief) -> String {
        let paint = self.notes.paint();
        let content = &message.content;
        match message.role {
            Role::User => lines::prompt("›", content, "", paint) + "\n",
            Role::Agent => text(content),
            Role::Tool => {
                let mark = match message.tool_status.as_deref() {
                    Some("failed") => In(paint.bad, "✗"),
                    Some("completed") | None => In(paint.good, "✓"),
                    Some(_) => In(paint.dim, "…"),
                };
                format!("  {mark} {}\n", plain(content))
            }
            Role::System => format!("{} {}\n", In(paint.dim, "◦"), plain(content)),
        }
    }

    pub(super) fn wait(&self, args: &Wait) -> Result<ExitCode, Problem> {
        let At { link, id } = self.at(args.id.as_deref(), None, false)?;
        let wait = SessionWait {
            session_id: id.clone(),
            timeout_ms: args.timeout.map(|timeout| u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX)),
            through_questions: args.through_questions,
        };
        let shows = self.global.format() == Format::Text && !self.global.quiet;
        if shows {
            self.notes.animate();
            self.notes.busy(&format!("waiting for {}", plain(&id)));
        }
        let mut link = link.heeding()?;
        let waited = link.ask(&wait);
        self.notes.still();
        let Waited { mut session, reason, .. } =
            waited.map_err(|problem| match problem.kind == Kind::Cancelled {
                true => Problem { message: "we stopped waiting; the session goes on".into(), ..problem },
                false => problem,
            })?;
        session.host = link.route.host().map(str::to_owned);
        let code = match reason {
            WaitedFor::Completed | WaitedFor::Idle => 0,
            WaitedFor::Held => 1,
            WaitedFor::WaitingApproval => WAITS,
            WaitedFor::Timeout => EXPIRED,
            WaitedFor::Cancelled => 130,
            WaitedFor::Error => exit_code(&session).max(1),
        };
        self.waited(&session, reason, code)
    }

    fn waited(&self, session: &SessionBrief, reason: WaitedFor, code: u8) -> Result<ExitCode, Problem> {
        #[derive(Serialize)]
        struct Row<'a> {
            #[serde(flatten)]
            session: &'a SessionBrief,
            reason: WaitedFor,
        }
        if self.global.format() == Format::Json {
            let printed = output::print(&object("session", &Row { session, reason }));
            return Ok(if printed == ExitCode::SUCCESS { ExitCode::from(code) } else { printed });
        }
        let (id, who) = (handle(session), called(session));
        let hint = match reason {
            WaitedFor::WaitingApproval => Some("agentline approval list --watch".to_owned()),
            WaitedFor::Held => Some(format!("agentline session queue {id} --go")),
            WaitedFor::Timeout => Some(format!("agentline session cancel {id}")),
            WaitedFor::Error | WaitedFor::Cancelled if session.retryable => {
                Some(format!("agentline session retry {id}"))
            }
            WaitedFor::Error | WaitedFor::Cancelled | WaitedFor::Completed | WaitedFor::Idle => None,
        };
        let why = match reason {
            WaitedFor::Timeout => format!("{who}: it takes longer than --timeout, and goes on"),
            WaitedFor::Held => format!("{who}: only held prompts wait"),
            WaitedFor::Completed
            | WaitedFor::Idle
            | WaitedFor::Cancelled
            | WaitedFor::Error
            | WaitedFor::WaitingApproval => match &session.last_error {
                Some(error) if reason == WaitedFor::Error => {
                    format!("{who} failed: {}", plain(&error.message))
                }
                Some(_) | None => format!("{who} is {}", said::stands(session.status, session.status_reason)),
            },
        };
        if let WaitedFor::Completed | WaitedFor::Idle = reason {
            if !self.global.quiet {
                self.notes.line(&format!("{} {why}", In(self.notes.paint().dim, "◦")));
            }
            return Ok(ExitCode::from(code));
        }
        Err(Problem { hint, ..Problem::new(Phase::Session, Kind::Rpc, why).code(code) })
    }
}

/// What somebody said, with a line end.
fn text(content: &str) -> String {
    let content = match columns(io::stdout()) {
        Some(columns) => in_rows(&printable(content), columns).into(),
        None => std::borrow::Cow::from(content),
    };
    let end = if content.is_empty() || content.ends_with('\n') { "" } else { "\n" };
    format!("{content}{end}")
}

fn json(messages: &[&MessageBrief]) -> String {
    #[derive(Serialize)]
    struct Row<'a> {
        #[serde(rename = "type")]
        kind: &'static str,
        #[serde(flatten)]
        message: &'a MessageBrief,
    }
    let rows = messages.iter().enumerate();
    rows.map(|(at, message)| line(&Row { kind: "message", message }, at == 0)).collect()
}
