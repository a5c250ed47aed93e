//! What is done to a session that is there: cancel, close, archive, restore, delete, rename, set, queue.

use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::time::Instant;

use agentline_core::hub::api::{
    Drop, Method, OptionValue, QueueView, SessionArchive, SessionClose, SessionDelete, SessionQueue,
    SessionRename, SessionRestore, SessionSet, SessionSetPolicy, SessionStop, SessionWait, SessionsList,
    Shown, WaitedFor, Waiting,
};
use serde::Serialize;

use super::row::{called, word};
use super::{At, Delete, Desk, Queue, Rename, SHORT, Set};
use crate::args::Format;
use crate::hub::{Link, counted, yes};
use crate::output::{self, In, line, object, plain, span};
use crate::prompt::usage;
use crate::words::{Kind, Problem};

impl Desk<'_> {
    pub(super) fn cancel(&self, id: Option<&str>) -> Result<ExitCode, Problem> {
        let At { mut link, id } = self.at(id, SHORT, false)?;
        let began = Instant::now();
        let stopped = link.ask(&SessionStop::of(&*id))?;
        if stopped.dispatch == "already_stopped" {
            return self.did(&stopped, format!("nothing runs in {}", plain(&id)));
        }
        // A cancel that nobody answers ends in 5 s as well, for whoever looks.
        let wait = SessionWait { session_id: id.clone(), timeout_ms: Some(GRACE), through_questions: false };
        let waited = link.ask(&wait)?;
        let how = match waited.reason == WaitedFor::Timeout {
            true => "asked to stop, and has not answered yet, after",
            false => "cancelled after",
        };
        let held = match stopped.held {
            0 => String::new(),
            1 => format!(
                " · 1 prompt is held: agentline session queue {}",
                link.route.handle(&waited.session.id)
            ),
            more => format!(
                " · {more} prompts are held: agentline session queue {}",
                link.route.handle(&waited.session.id)
            ),
        };
        self.did(&stopped, format!("{how} {}{held}", span(began.elapsed())))
    }

    pub(super) fn close(&self, id: &str) -> Result<ExitCode, Problem> {
        self.change(id, "closed", SessionClose::of)
    }

    pub(super) fn archive(&self, id: &str) -> Result<ExitCode, Problem> {
        self.change(id, "archived", SessionArchive::of)
    }

    pub(super) fn restore(&self, id: &str) -> Result<ExitCode, Problem> {
        let At { mut link, id } = self.at(Some(id), SHORT, false)?;
        let shown = match link.ask(&SessionRestore::of(&*id)) {
            Err(problem) if problem.kind == Kind::NotFound => {
                // The names of archived sessions may be given again: the hub finds those of open ones only.
                let archived = SessionsList { archived: Some(true), all: true, ..SessionsList::default() };
                let rows = link.ask(&archived)?;
                let mut named = rows.iter().filter(|row| row.name.as_deref() == Some(&*id));
                match (named.next(), named.next()) {
                    (Some(row), None) => link.ask(&SessionRestore::of(&*row.id))?,
                    (Some(_), Some(_)) => {
                        let ids = rows.iter().filter(|row| row.name.as_deref() == Some(&*id));
                        let ids = ids.map(|row| link.route.handle(&plain(&row.id)));
                        let ids: Vec<String> = ids.collect();
                        return Err(usage(format!("several are called {}: {}", plain(&id), ids.join(", ")))
                            .hint(format!("agentline session restore {}", ids[0])));
                    }
                    (None, _) => return Err(problem.hint("agentline session list -a --status archived")),
                }
            }
            shown => shown?,
        };
        self.became(shown, &link, "restored")
    }

    pub(super) fn rename(&self, args: &Rename) -> Result<ExitCode, Problem> {
        let name = args.name.clone();
        self.change(&args.id, "renamed", |session_id: String| SessionRename { session_id, name })
    }

    fn change<M: Method<Result = Shown>>(
        &self,
        id: &str,
        how: &str,
        method: impl FnOnce(String) -> M,
    ) -> Result<ExitCode, Problem> {
        let At { mut link, id } = self.at(Some(id), SHORT, false)?;
        let shown = link.ask(&method(id))?;
        self.became(shown, &link, how)
    }

    fn became(&self, mut shown: Shown, link: &Link, how: &str) -> Result<ExitCode, Problem> {
        shown.session.host = link.route.host().map(str::to_owned);
        self.shown(&shown, how)
    }

    fn shown(&self, shown: &Shown, how: &str) -> Result<ExitCode, Problem> {
        if self.global.format() == Format::Json {
            return Ok(output::print(&object("session", &shown.session)));
        }
        if let Some(warning) = &shown.warning {
            self.notes.line(&format!("! {}", plain(warning)));
        }
        self.say(&format!("{how}: {}", called(&shown.session)));
        Ok(ExitCode::SUCCESS)
    }

    pub(super) fn delete(&self, args: &Delete) -> Result<ExitCode, Problem> {
        let At { mut link, id } = self.at(Some(&args.id), SHORT, false)?;
        let asks = !args.yes && io::stdin().is_terminal() && io::stderr().is_terminal();
        if asks {
            let rows = link.ask(&SessionsList { all: true, ..SessionsList::default() })?;
            let row = rows.iter().find(|row| row.id == id || row.name.as_deref() == Some(&id));
            let title = row.map_or_else(
                || plain(&id).into_owned(),
                |row| format!("{}: {}", called(row), plain(&row.title)),
            );
            if !yes(&format!("forget {title}, here and at its agent? [y/N] "), self.notes) {
                return Ok(ExitCode::FAILURE);
            }
        }
        let deleted = link.ask(&SessionDelete::of(&*id))?;
        self.did(&deleted, format!("deleted: {}", plain(&id)))
    }

    pub(super) fn set(&self, args: &Set) -> Result<ExitCode, Problem> {
        let At { mut link, id } = self.at(Some(&args.id), SHORT, false)?;
        let mut shown = Shown::default();
        if let Some(who) = args.permission {
            shown = link.ask(&SessionSetPolicy { session_id: id.clone(), policy: who.into() })?;
        }
        if args.model.is_some() || args.mode.is_some() || args.set.is_some() {
            let option = args.set.clone().map(|(id, value)| OptionValue { id, value });
            let (model, mode) = (args.model.clone(), args.mode.clone());
            shown = link.ask(&SessionSet { session_id: id, model, mode, option })?;
        }
        shown.session.host = link.route.host().map(str::to_owned);
        if args.permission.is_some() && shown.session.questions > 0 {
            let open = counted(shown.session.questions, "question");
            self.say(&format!("{open} of before still wait: agentline approval list"));
        }
        self.shown(&shown, "set")
    }

    pub(super) fn queue(&self, args: &Queue) -> Result<ExitCode, Problem> {
        let drop = args.drop.as_deref().map(which).transpose()?;
        let At { mut link, id } = self.at(Some(&args.id), SHORT, false)?;
        let view = link.ask(&SessionQueue { session_id: id.clone(), drop, release: args.go })?;
        if self.global.format() == Format::Json {
            return Ok(json(&view));
        }
        let QueueView { queued, held } = &view;
        let printed = output::print(&queued.iter().map(row).collect::<String>());
        let count = counted(queued.len(), "prompt");
        match held {
            Some(reason) if !queued.is_empty() => {
                self.say(&format!(
                    "{count} held, since {}: agentline session queue {} --go",
                    super::said::why(*reason),
                    plain(&id)
                ));
            }
            Some(_) | None if queued.is_empty() => self.say("nothing waits"),
            Some(_) | None => {}
        }
        Ok(printed)
    }

    fn say(&self, text: &str) {
        if !self.global.quiet {
            self.notes.line(&format!("{} {text}", In(self.notes.paint().dim, "◦")));
        }
    }

    fn did<T: Serialize>(&self, what: &T, said: String) -> Result<ExitCode, Problem> {
        Ok(match self.global.format() {
            Format::Json => output::print(&object("ok", what)),
            Format::Text => {
                self.say(&said);
                ExitCode::SUCCESS
            }
        })
    }
}

fn which(drop: &str) -> Result<Drop, Problem> {
    match drop {
        "all" => Ok(Drop::All),
        turn => turn.parse().map(Drop::Turn).map_err(|_| {
            usage("--drop takes the number of a prompt, or all").hint("agentline session queue last")
        }),
    }
}

fn row(waiting: &Waiting) -> String {
    let Waiting { turn, text, .. } = waiting;
    let text: Vec<String> = text.lines().map(|line| plain(line).into_owned()).collect();
    format!("{turn}\t{}\n", text.join(" ⏎ "))
}

fn json(view: &QueueView) -> ExitCode {
    #[derive(Serialize)]
    struct Row<'a> {
        #[serde(rename = "type")]
        kind: &'static str,
        #[serde(flatten)]
        waiting: &'a Waiting,
        #[serde(skip_serializing_if = "Option::is_none")]
        held: Option<String>,
    }
    let held = view.held.as_ref().map(word);
    let rows = view.queued.iter().enumerate();
    let rows = rows.map(|(at, waiting)| line(&Row { kind: "prompt", waiting, held: held.clone() }, at == 0));
    output::print(&rows.collect::<String>())
}

/// Milliseconds that an agent has for the answer to a cancel, and a bit.
const GRACE: u64 = 6000;
