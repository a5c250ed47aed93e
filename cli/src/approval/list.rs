//! `approval list` and `show`.

use std::io;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use agentline_core::hub::api::{ApprovalBrief, ApprovalsList};
use serde::Serialize;

use super::question::{heading, question};
use super::{Desk, List, SHORT};
use crate::args::Format;
use crate::hub::{Route, To};
use crate::output::{self, columns, line, plain};
use crate::session::age;
use crate::words::Problem;

/// A question, and its machine.
#[derive(Serialize)]
pub(super) struct Row<'a> {
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    #[serde(flatten)]
    pub(super) asked: &'a ApprovalBrief,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) host: Option<&'a str>,
}

impl Desk<'_> {
    pub(super) fn list(&self, args: &List) -> Result<ExitCode, Problem> {
        let routes = self.to.routes()?;
        let several = routes.len() > 1;
        let to = if several { self.to.within(MOMENT) } else { self.to.clone() };
        let told: Vec<_> = thread::scope(|scope| {
            let asked: Vec<_> = routes.iter().map(|route| scope.spawn(|| ask(&to, route, args))).collect();
            asked.into_iter().map(|asked| asked.join().unwrap_or_else(|_| Ok(Vec::new()))).collect()
        });
        let answered = told.iter().any(Result::is_ok);
        let mut rows: Vec<(&Route, ApprovalBrief)> = Vec::new();
        for (route, told) in routes.iter().zip(told) {
            match told {
                Ok(asked) => rows.extend(asked.into_iter().map(|asked| (route, asked))),
                Err(problem) if answered => {
                    self.notes.line(&format!("! {}", plain(&problem.message)));
                }
                Err(problem) => return Err(problem),
            }
        }
        if rows.is_empty() && self.global.format() == Format::Text && !self.global.quiet {
            self.notes.line("◦ nothing waits for an answer");
        }
        Ok(match self.global.format() {
            Format::Json => {
                let row = |(at, (route, asked)): (usize, &(&Route, ApprovalBrief))| {
                    line(&Row { kind: "approval", asked, host: route.host() }, at == 0)
                };
                output::print(&rows.iter().enumerate().map(row).collect::<String>())
            }
            Format::Text => table(&rows),
        })
    }

    pub(super) fn show(&self, id: Option<&str>) -> Result<ExitCode, Problem> {
        let (mut link, mut asked) = self.find(id)?;
        if asked.created_at.is_empty() {
            let over = link.ask(&ApprovalsList { answered: true, ..ApprovalsList::default() })?;
            asked = over.into_iter().find(|over| over.approval_id == asked.approval_id).ok_or_else(|| {
                let message = format!("no question {}", plain(&asked.approval_id));
                Problem::new(crate::words::Phase::Session, crate::words::Kind::NotFound, message)
                    .hint("agentline approval list")
            })?;
        }
        if self.global.format() == Format::Json {
            let row = Row { kind: "approval", asked: &asked, host: link.route.host() };
            return Ok(output::print(&line(&row, true)));
        }
        let id = link.route.handle(&plain(&asked.approval_id));
        let mut text = format!("{}\n", heading(&asked));
        let about = [
            ("session", asked.session_id.as_deref()),
            ("agent", asked.agent.as_deref()),
            ("tool", asked.tool_name.as_deref()),
            ("risk", asked.risk_level.as_deref()),
        ];
        for (name, value) in about {
            text.extend(value.map(|value| format!("{name:<8} {}\n", plain(value))));
        }
        let all = question(&asked, &id).all(self.notes.paint());
        text.extend(all.into_iter().map(|line| line + "\n"));
        for option in &asked.options {
            text += &format!(
                "option   {}  {} ({})\n",
                plain(&option.option_id),
                plain(&option.name),
                option.kind.as_str()
            );
        }
        if let Some(over) = &asked.resolved {
            let what = over.option_id.as_deref().map(|option| format!("{} ", plain(option)));
            text += &format!("over     {}({})\n", what.unwrap_or_default(), crate::session::by(over.by));
        }
        Ok(output::print(&text))
    }
}

fn ask(to: &To, route: &Route, args: &List) -> Result<Vec<ApprovalBrief>, Problem> {
    let session_id = args.session.clone();
    to.reach(route, SHORT)?.ask(&ApprovalsList { session_id, answered: args.answered })
}

fn table(rows: &[(&Route, ApprovalBrief)]) -> ExitCode {
    let mut cells: Vec<[String; 6]> = rows.iter().map(|(route, asked)| row(route, asked)).collect();
    match columns(io::stdout()) {
        Some(columns) if !rows.is_empty() => {
            cells.insert(0, ["ID", "SESSION", "AGENT", "ASKS", "AGE", "WHAT"].map(str::to_owned));
            output::print(&output::table(&cells, columns))
        }
        Some(_) | None => output::print(&cells.iter().map(|row| row.join("\t") + "\n").collect::<String>()),
    }
}

fn row(route: &Route, asked: &ApprovalBrief) -> [String; 6] {
    let id = route.handle(&plain(&asked.approval_id));
    let or_none =
        |text: &Option<String>| text.as_deref().map_or_else(|| "-".into(), |text| plain(text).into_owned());
    let class = serde_json::to_value(asked.class).ok();
    let class = class.as_ref().and_then(|class| class.as_str()).unwrap_or_default().to_owned();
    [id, or_none(&asked.session_id), or_none(&asked.agent), class, age(&asked.created_at), heading(asked)]
}

/// For each of many machines.
const MOMENT: Duration = Duration::from_secs(5);
