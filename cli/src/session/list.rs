//! `session list`: the sessions of this machine, of another one, or of all.

use std::io;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use agentline_core::hub::api::{SessionBrief, SessionsList};
use serde::Serialize;

use super::row::{age, handle, is_busy, stands, tilde};
use super::{Desk, List, folder, stored};
use crate::args::Format;
use crate::hub::{Route, To, is_absent};
use crate::output::{self, columns, line, plain};
use crate::words::Problem;
use crate::workspace::Workspace;

/// What one hub has, or why nobody knows.
type Told = Result<Vec<SessionBrief>, Problem>;

impl Desk<'_> {
    pub(super) fn list(&self, args: &List) -> Result<ExitCode, Problem> {
        let routes = self.to.routes()?;
        let several = routes.len() > 1;
        let told =
            if several { self.ask_all(&routes, args) } else { vec![self.ask_one(self.to, &routes[0], args)] };
        if let ([told], false) = (&*told, several) {
            told.as_ref().map_err(Clone::clone)?;
        }
        let mut rows = Vec::new();
        let mut problems = Vec::new();
        for (route, told) in routes.iter().zip(told) {
            match told {
                Ok(of) => rows.extend(
                    of.into_iter().map(|row| SessionBrief { host: route.host().map(str::to_owned), ..row }),
                ),
                Err(problem) => problems.push((route.name(), problem)),
            }
        }
        if problems.len() == routes.len()
            && let Some((_, problem)) = problems.pop()
        {
            return Err(problem);
        }
        // Those that run come first, and then the newest.
        rows.sort_by(|a, b| {
            is_busy(b).cmp(&is_busy(a)).then_with(|| b.last_activity_at.cmp(&a.last_activity_at))
        });
        Ok(match self.global.format() {
            Format::Json => json(&rows, &problems),
            Format::Text => self.text(&rows, &problems, args),
        })
    }

    fn ask_one(&self, to: &To, route: &Route, args: &List) -> Told {
        match to.reach(route, super::SHORT) {
            Ok(mut link) => {
                link.tell_version(self.notes);
                let here = args.here.then(|| folder(&link, None)).transpose()?;
                link.ask(&args.wanted(here))
            }
            Err(problem) => match route {
                Route::Own(folders) if is_absent(&problem) => {
                    if !self.global.quiet {
                        self.notes.line("◦ no hub runs; this is what is stored");
                    }
                    let here = args.here.then(|| Workspace::of(None)).transpose()?;
                    let here = here.map(|here| here.path.to_string_lossy().into_owned());
                    Ok(stored::sessions(folders, &args.wanted(here)))
                }
                Route::Own(_) | Route::Socket(_) | Route::Host { .. } => Err(problem),
            },
        }
    }

    /// Asks all at once, and waits for none longer than a moment.
    fn ask_all(&self, routes: &[Route], args: &List) -> Vec<Told> {
        let to = self.to.within(MOMENT);
        thread::scope(|scope| {
            let asked: Vec<_> =
                routes.iter().map(|route| scope.spawn(|| self.ask_one(&to, route, args))).collect();
            asked.into_iter().map(|asked| asked.join().unwrap_or_else(|_| Ok(Vec::new()))).collect()
        })
    }

    fn text(&self, rows: &[SessionBrief], problems: &[(String, Problem)], args: &List) -> ExitCode {
        let screen = columns(io::stdout());
        let most = args.limit.unwrap_or(if screen.is_some() { SCREEN } else { usize::MAX });
        let shown = &rows[..rows.len().min(most)];
        let hosts = rows.iter().any(|row| row.host.is_some());
        let mut cells: Vec<[String; 8]> = shown.iter().map(|row| cells(row, hosts)).collect();
        let printed = match screen {
            Some(columns) if !cells.is_empty() => {
                let header = [
                    "ID",
                    "NAME",
                    "AGENT",
                    "STATUS",
                    "AGE",
                    "FOLDER",
                    "TITLE",
                    if hosts { "HOST" } else { "" },
                ];
                cells.insert(0, header.map(str::to_owned));
                output::print(&output::table(&cells, columns))
            }
            Some(_) | None => {
                let width = if hosts { 8 } else { 7 };
                output::print(&cells.iter().map(|row| row[..width].join("\t") + "\n").collect::<String>())
            }
        };
        for (_, problem) in problems {
            self.notes.line(&format!("! {}", plain(&problem.message)));
        }
        match rows.len() - shown.len() {
            _ if self.global.quiet => {}
            0 if rows.is_empty() => self.notes.line("◦ no session: agentline session new \"…\""),
            0 => {}
            more => self.notes.line(&format!("… {more} more: -a, --here, --limit")),
        }
        printed
    }
}

impl List {
    fn wanted(&self, cwd: Option<String>) -> SessionsList {
        let (status, all, agent, limit) = (self.status, self.all, self.agent.clone(), self.limit);
        SessionsList { status, all, agent, cwd, limit, ..SessionsList::default() }
    }
}

fn cells(row: &SessionBrief, hosts: bool) -> [String; 8] {
    let name = row.name.as_deref().map_or_else(|| "-".into(), |name| plain(name).into_owned());
    let host = if hosts { row.host.clone().unwrap_or_else(|| "local".into()) } else { String::new() };
    let (agent, title) = (plain(&row.agent).into_owned(), plain(&row.title).into_owned());
    [handle(row), name, agent, stands(row), age(&row.last_activity_at), tilde(&row.cwd), title, host]
}

fn json(rows: &[SessionBrief], problems: &[(String, Problem)]) -> ExitCode {
    #[derive(Serialize)]
    struct Row<'a> {
        #[serde(rename = "type")]
        kind: &'static str,
        #[serde(flatten)]
        session: &'a SessionBrief,
    }
    #[derive(Serialize)]
    struct Broken<'a> {
        #[serde(rename = "type")]
        kind: &'static str,
        host: &'a str,
        reason: &'a str,
        #[serde(rename = "kind")]
        sort: &'static str,
    }
    let sessions =
        rows.iter().enumerate().map(|(at, session)| line(&Row { kind: "session", session }, at == 0));
    let problems = problems.iter().enumerate().map(|(at, (host, problem))| {
        let broken = Broken { kind: "problem", host, reason: &problem.message, sort: "unreachable" };
        line(&broken, at == 0 && rows.is_empty())
    });
    output::print(&sessions.chain(problems).collect::<String>())
}

/// Rows that a screen is given unasked.
const SCREEN: usize = 50;
/// For each of many machines.
const MOMENT: Duration = Duration::from_secs(5);
