//! `session … --fresh`: the sessions that an agent itself knows, asked of a fresh child of it.

use std::io;
use std::process::ExitCode;
use std::time::Duration;

use agentline_core::acp::session::SessionInfo;
use agentline_core::subagent::{Choice, Errand};
use serde::Serialize;

use super::Desk;
use super::row::tilde;
use crate::args::{Environment, Format};
use crate::output::{self, columns, line, plain};
use crate::visit::{Agent, Visit};
use crate::words::Problem;
use crate::workspace::Workspace;

impl Desk<'_> {
    pub(super) fn list_fresh(
        &self,
        agent: &str,
        here: bool,
        limit: Option<usize>,
    ) -> Result<ExitCode, Problem> {
        let here = here.then(|| Workspace::of(None)).transpose()?;
        let here = here.map(|here| here.path.to_string_lossy().into_owned());
        let Visit { mut sessions, left_out, .. } = self.ask_fresh(agent, Errand::List(here))?;
        if left_out > 0 {
            let line = format!("! {left_out} more sessions are left out: the list is longer than is read");
            self.notes.line(&line);
        }
        sessions.truncate(limit.unwrap_or(usize::MAX));
        if self.global.format() == Format::Json {
            let rows = sessions.iter().enumerate().map(|(at, session)| line(&Row::Stored(session), at == 0));
            return Ok(output::print(&rows.collect::<String>()));
        }
        let mut cells: Vec<[String; 4]> = sessions.iter().map(cells).collect();
        let printed = match columns(io::stdout()) {
            Some(columns) if !cells.is_empty() => {
                cells.insert(0, ["ID", "CHANGED", "FOLDER", "TITLE"].map(str::to_owned));
                output::print(&output::table(&cells, columns))
            }
            Some(_) | None => {
                output::print(&cells.iter().map(|row| row.join("\t") + "\n").collect::<String>())
            }
        };
        if sessions.is_empty() && !self.global.quiet {
            self.notes.line(&format!("◦ {} knows no session", plain(agent)));
        }
        Ok(printed)
    }

    pub(super) fn delete_fresh(&self, agent: &str, id: &str) -> Result<ExitCode, Problem> {
        self.ask_fresh(agent, Errand::Delete(id.into()))?;
        Ok(self.deleted(&Row::Deleted { session_id: id }, &format!("◦ deleted: {}", plain(id))))
    }

    /// Prints the new id and nothing else.
    pub(super) fn fork_fresh(&self, agent: &str, id: &str) -> Result<ExitCode, Problem> {
        let Visit { opened, .. } = self.ask_fresh(agent, Errand::Fork(id.into()))?;
        let opened = opened.as_ref().map_or("", |session| session.as_str());
        if self.global.format() == Format::Json {
            return Ok(output::print(&line(&Row::Forked { session_id: opened, from: id }, true)));
        }
        Ok(output::print(&format!("{}\n", plain(opened))))
    }

    fn ask_fresh(&self, agent: &str, errand: Errand) -> Result<Visit, Problem> {
        let environment = Environment { env: Vec::new(), env_file: Vec::new() };
        let agent = Agent::new(Some(agent), &[], &environment, HANDSHAKE)?;
        agent.visit(Choice::Errand(errand), self.notes)
    }

    fn deleted(&self, row: &Row<'_>, text: &str) -> ExitCode {
        if self.global.format() == Format::Json {
            return output::print(&line(row, true));
        }
        if !self.global.quiet {
            self.notes.line(text);
        }
        ExitCode::SUCCESS
    }
}

/// What an agent knows, as programs read it.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
enum Row<'a> {
    Stored(&'a SessionInfo),
    Deleted { session_id: &'a str },
    Forked { session_id: &'a str, from: &'a str },
}

fn cells(session: &SessionInfo) -> [String; 4] {
    let text =
        |text: &Option<String>| text.as_deref().map_or_else(|| "-".into(), |text| plain(text).into_owned());
    let id = plain(session.session_id.as_str()).into_owned();
    [id, text(&session.updated_at), tilde(&session.cwd), text(&session.title)]
}

/// For the handshake.
const HANDSHAKE: Duration = Duration::from_secs(60);
