//! `hub status`, `start`, `stop` and `restart`.

use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::time::Duration;

use agentline_core::hub::api::{
    AgentsList, Health, HubHealth, HubStop, SessionBrief, SessionsList, Status, Stopping,
};
use serde::Serialize;

use super::Stop;
use super::client::{Link, Wants, wait_gone};
use super::place::{Serving, unreachable};
use super::reach::{Route, To};
use crate::args::{Format, Global};
use crate::ask::typed;
use crate::find;
use crate::output::{self, In, Notes, object, plain, span};
use crate::words::Problem;

/// Shows how the hub is.
pub(super) fn status(to: &To, global: Global, notes: &Notes) -> Result<ExitCode, Problem> {
    let route = to.route()?;
    let mut link = to.reach(&route, Some(PATIENCE))?;
    let health = link.ask(&HubHealth {})?;
    let place = Place::of(&route);
    if global.format() == Format::Json {
        #[derive(Serialize)]
        struct Row<'a> {
            #[serde(flatten)]
            health: &'a Health,
            #[serde(flatten)]
            place: &'a Place,
        }
        return Ok(output::print(&object("hub", &Row { health: &health, place: &place })));
    }
    let printed = output::print(&table(&health, &place));
    for problem in &health.problems {
        let next =
            problem.next.as_deref().map_or_else(String::new, |next| format!("\n  try: {}", plain(next)));
        notes.line(&format!("{} {}{next}", In(notes.paint().bad, "✗"), plain(&problem.text)));
    }
    Ok(printed)
}

/// What is known of a hub from its files.
#[derive(Serialize)]
struct Place {
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    control: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    log: Option<String>,
}

impl Place {
    fn of(route: &Route) -> Self {
        let (control, log) = match route {
            Route::Own(folders) => {
                let control = Serving::read(folders).map(|serving| serving.control.display().to_string());
                (control, Some(folders.hub_log().display().to_string()))
            }
            Route::Socket(path) => (Some(path.display().to_string()), None),
            Route::Host { .. } => (None, None),
        };
        Self { host: route.host().map(str::to_owned), control, log }
    }
}

fn table(health: &Health, place: &Place) -> String {
    let Health { version, pid, sessions, running, questions, agents, links, .. } = health;
    let up = span(Duration::from_millis(health.uptime_ms));
    let version = plain(version);
    let mut rows = vec![
        ("hub", format!("{version}, pid {pid}, for {up}")),
        ("sessions", format!("{sessions} ({running} running, {})", counted(*questions, "open question"))),
        ("agents", format!("{agents} running")),
        ("links", links.to_string()),
    ];
    let paths = [
        ("host", place.host.as_deref()),
        ("control", place.control.as_deref()),
        ("reverse", health.reverse.as_deref()),
        ("log", place.log.as_deref()),
    ];
    rows.extend(paths.into_iter().filter_map(|(name, path)| Some((name, plain(path?).into_owned()))));
    rows.into_iter().map(|(name, value)| format!("{name:<9} {value}\n")).collect()
}

/// `1 question`, `2 questions`.
pub(crate) fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// The agents are others: a hub that runs looks at them.
pub(crate) fn look_again() {
    let looked = find::folders().and_then(|folders| {
        let wants = Wants { patience: Some(PATIENCE), ..Wants::default() };
        let Some(mut link) = Link::own(&folders, wants)? else { return Ok(()) };
        link.ask(&AgentsList {}).map(drop)
    });
    // One that does not answer looks when it is asked for something.
    let _ = looked;
}

/// Starts the hub where none runs.
pub(super) fn start(to: &To, global: Global, notes: &Notes) -> Result<ExitCode, Problem> {
    let route = to.route()?;
    let mut link = to.start(&route, Some(PATIENCE), notes)?;
    let health = link.ask(&HubHealth {})?;
    if global.format() == Format::Json {
        return Ok(output::print(&object("hub", &health)));
    }
    if !global.quiet {
        notes.line(&format!("{} the hub runs (pid {})", In(notes.paint().dim, "◦"), health.pid));
    }
    Ok(ExitCode::SUCCESS)
}

/// Stops the hub, if one runs.
pub(super) fn stop(to: &To, how: Stop, global: Global, notes: &Notes) -> Result<ExitCode, Problem> {
    let route = to.route()?;
    let stopped = halt(to, &route, how, notes)?;
    Ok(match global.format() {
        Format::Json => output::print(&object("hub", &stopped)),
        Format::Text => {
            let said = match stopped {
                Stopped { refused: true, .. } => "◦ it goes on",
                Stopped { was_running: true, .. } => "◦ stopped",
                Stopped { was_running: false, .. } => "◦ no hub runs",
            };
            if !global.quiet {
                notes.line(said);
            }
            ExitCode::from(u8::from(stopped.refused))
        }
    })
}

/// Stops it and starts it again, here or on another machine.
pub(super) fn restart(to: &To, how: Stop, global: Global, notes: &Notes) -> Result<ExitCode, Problem> {
    let route = to.route()?;
    if halt(to, &route, how, notes)?.refused {
        notes.line("◦ it goes on");
        return Ok(ExitCode::FAILURE);
    }
    start(to, global, notes)
}

/// How stopping went.
#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
struct Stopped {
    was_running: bool,
    /// Whoever was asked did not want it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    refused: bool,
}

fn halt(to: &To, route: &Route, how: Stop, notes: &Notes) -> Result<Stopped, Problem> {
    let wants = Wants { patience: Some(PATIENCE), ..Wants::default() };
    let mut link = match route {
        Route::Own(folders) => match Link::own(folders, wants)? {
            Some(link) => link,
            None => return Ok(Stopped { was_running: false, refused: false }),
        },
        Route::Socket(_) | Route::Host { .. } => to.reach(route, Some(PATIENCE))?,
    };
    if !how.yes && !how.when_idle && !agrees(&mut link, notes)? {
        return Ok(Stopped { was_running: true, refused: true });
    }
    let Stopping { running, .. } = link.ask(&HubStop { when_idle: how.when_idle })?;
    if how.when_idle && running > 0 {
        notes.line(&format!("◦ waiting for the end of {}", counted(running, "turn")));
    }
    // It ends when all is saved. A far one is seen to go by its end of the connection.
    match route {
        Route::Own(folders) => {
            drop(link);
            let patience = if how.when_idle { FOREVER } else { LEAVES };
            if !wait_gone(folders, patience) {
                return Err(unreachable("the hub does not leave").hint("agentline hub status"));
            }
        }
        Route::Socket(_) | Route::Host { .. } => link.until_end(),
    }
    Ok(Stopped { was_running: true, refused: false })
}

/// Whether the turns that run may be cut short: asked on a terminal only.
fn agrees(link: &mut Link, notes: &Notes) -> Result<bool, Problem> {
    if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
        return Ok(true);
    }
    let rows = link.ask(&SessionsList::default())?;
    let runs = |row: &SessionBrief| {
        matches!(row.status, Status::Running | Status::WaitingApproval | Status::Connecting)
    };
    let running: Vec<String> = rows
        .iter()
        .filter(|row| runs(row))
        .map(|row| plain(row.name.as_deref().unwrap_or(&row.id)).into_owned())
        .collect();
    if running.is_empty() {
        return Ok(true);
    }
    let count = counted(running.len(), "turn");
    notes.line(&format!("! this cuts short {count}: {}", running.join(", ")));
    Ok(yes("stop all the same? [y/N] ", notes))
}

/// Asks on the terminal.
pub(crate) fn yes(question: &str, notes: &Notes) -> bool {
    matches!(typed(&[], question, notes).as_deref(), Some("y" | "yes"))
}

/// For an answer to a short question.
const PATIENCE: Duration = Duration::from_secs(30);
/// For agents to leave, and all to be saved.
const LEAVES: Duration = Duration::from_secs(20);
/// A year is for ever.
const FOREVER: Duration = Duration::from_secs(365 * 24 * 3600);
