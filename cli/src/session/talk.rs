//! `session new`, `send`, `retry` and `load`: what starts something.

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use agentline_core::acp::ContentBlock;
use agentline_core::discovery::Settings;
use agentline_core::hub::api::{
    Dispatched, Image, MessageBrief, SessionBrief, SessionLoad, SessionNew, SessionRetry, SessionSend,
    SessionShow, SessionsList, Shown, Started, Variables,
};
use serde::Serialize;

use super::row::{called, handle, tilde};
use super::watch::Follow;
use super::{At, Desk, Load, New, Retry, Send, attach, folder};
use crate::args::{Environment, Format};
use crate::find;
use crate::hub::{Link, Route, counted};
use crate::output::{self, In, line, object, plain};
use crate::prompt::{self, usage};
use crate::words::{Kind, Problem};

impl Desk<'_> {
    pub(super) fn open(&self, args: &New) -> Result<ExitCode, Problem> {
        let task = words(args.text.as_deref())?;
        let route = self.to.route()?;
        let agent =
            args.agent.clone().or_else(|| std::env::var("AGENTLINE_AGENT").ok().filter(|id| !id.is_empty()));
        let settings = if route.is_far() {
            Settings::default()
        } else {
            find::read_settings(&find::folders()?.settings())?
        };
        let named = agent.as_ref().or(settings.default_agent.as_ref());
        let env = variables(&args.talk.env, named.map(|agent| (&settings, agent.as_str())), route.is_far())?;
        let mut link = self.to.start(&route, STARTS, self.notes)?;
        let new = SessionNew {
            task,
            images: images(&args.talk.image, &route)?,
            env,
            agent,
            cwd: Some(folder(&link, args.cwd.as_deref())?),
            name: args.name.clone(),
            policy: args.permission.map(Into::into),
            model: args.model.clone(),
            ..SessionNew::default()
        };
        let started = self.while_busy("opening the session", || link.ask(&new));
        let started = started.map_err(|problem| after_login(problem, &mut link))?;
        let started = self.here(started, &route);
        if args.attach {
            return attach::join(self, At { link, id: started.session.id });
        }
        if args.talk.follow {
            self.warned(&started);
            return self.follow(link, &started);
        }
        self.started(&started)
    }

    pub(super) fn send(&self, args: &Send) -> Result<ExitCode, Problem> {
        let content = match words(args.text.as_deref())? {
            Some(text) => text,
            None if args.talk.image.is_empty() => {
                return Err(usage("nothing to say").hint(format!("agentline session send {} \"…\"", args.id)));
            }
            None => String::new(),
        };
        let At { mut link, id } = self.at(Some(&args.id), STARTS, true)?;
        let route = link.route.clone();
        let was_open = row(&mut link, &id)?.is_none_or(|row| row.live || row.agent_session_id.is_none());
        let send = SessionSend {
            content,
            images: images(&args.talk.image, &route)?,
            env: self.remembered(&mut link, &id, &args.talk.env)?,
            session_id: id,
            ..SessionSend::default()
        };
        let started = self.while_busy("waiting for the agent to have the session", || link.ask(&send));
        let started = started.map_err(|problem| after_login(problem, &mut link))?;
        if !was_open && !self.global.quiet && self.global.format() == Format::Text {
            self.loaded(&mut link, &started.session)?;
        }
        self.said(link, started, args.talk.follow)
    }

    /// Says what an agent has told of a session that it was asked to open again.
    fn loaded(&self, link: &mut Link, session: &SessionBrief) -> Result<(), Problem> {
        let show = SessionShow { session_id: session.id.clone(), tail: None, load: Some(false) };
        let messages = link.ask(&show)?;
        let last = messages.iter().filter_map(|message| message.turn_index).max();
        let count = messages.iter().filter(|message| message.turn_index != last).count();
        if count > 0 {
            let (id, agent) = (link.route.handle(&session.id), plain(&session.agent));
            let dim = In(self.notes.paint().dim, "◦");
            self.notes.line(&format!("{dim} {id} · loading {} from {agent}", counted(count, "message")));
        }
        Ok(())
    }

    pub(super) fn retry(&self, args: &Retry) -> Result<ExitCode, Problem> {
        let At { mut link, id } = self.at(Some(&args.id), STARTS, true)?;
        let retry = SessionRetry::of(id);
        let started = self.while_busy("waiting for the agent to have the session", || link.ask(&retry));
        let started = started.map_err(|problem| after_login(problem, &mut link))?;
        self.said(link, started, args.follow)
    }

    pub(super) fn load(&self, args: &Load) -> Result<ExitCode, Problem> {
        let (mut link, id) = match &args.agent {
            // The agent's own id may look like anything.
            Some(_) => (self.to.start(&self.to.route()?, STARTS, self.notes)?, args.id.clone()),
            None => {
                let At { link, id } = self.at(Some(&args.id), STARTS, true)?;
                (link, id)
            }
        };
        let route = link.route.clone();
        let cwd = args.agent.as_ref().map(|_| folder(&link, args.cwd.as_deref())).transpose()?;
        let env = self.remembered(&mut link, &id, &args.env)?;
        let load = SessionLoad { session_id: id, agent: args.agent.clone(), cwd, env };
        let Shown { session, warning } = self.while_busy("loading", || link.ask(&load))?;
        self.started(&self.here(Started { session, warning, ..Started::default() }, &route))
    }

    /// The end of what was said: nothing on stdout, unless it is followed.
    fn said(&self, link: Link, started: Started, follow: bool) -> Result<ExitCode, Problem> {
        let started = self.here(started, &link.route);
        if self.global.format() == Format::Json && !follow {
            return self.started(&started);
        }
        self.warned(&started);
        if follow {
            return self.follow(link, &started);
        }
        if !self.global.quiet {
            self.notes.line(&format!("{} {}", In(self.notes.paint().dim, "◦"), became(&started)));
        }
        Ok(ExitCode::SUCCESS)
    }

    /// The id on stdout, and the rest for people.
    fn started(&self, started: &Started) -> Result<ExitCode, Problem> {
        if self.global.format() == Format::Json {
            return Ok(json(started));
        }
        self.warned(started);
        let session = &started.session;
        let id = handle(session);
        let printed = output::print(&format!("{id}\n"));
        if !self.global.quiet {
            let dim = self.notes.paint().dim;
            let name = session.name.as_deref().map_or_else(|| id.clone(), |name| plain(name).into_owned());
            let folder = tilde(&session.cwd);
            self.notes.line(&format!("{} {name} · {} · {folder}", In(dim, "◦"), plain(&session.agent)));
            let watch = format!("agentline session attach {id} · agentline approval list --watch");
            self.notes.line(&format!("  try: {watch}"));
        }
        Ok(printed)
    }

    fn warned(&self, started: &Started) {
        let Some(warning) = &started.warning else { return };
        let why = match warning.as_str() {
            "slow_start" => "the agent is slow to start; the session goes on: agentline session list",
            "env_later" => "the agent runs with other variables; the new ones count from its next start on",
            "not_stored" => {
                "it cannot be stored, and would not survive a crash of the hub: agentline hub status"
            }
            "demo" => "no agent was chosen: it is the built-in demo agent (agentline agent default ID)",
            other => other,
        };
        self.notes.line(&format!("! {}", plain(why)));
    }

    fn follow(&self, link: Link, started: &Started) -> Result<ExitCode, Problem> {
        let Started { session, turn, .. } = started;
        Follow::turn(self, link.route.clone(), session, *turn).run(link)
    }

    /// Shows that something takes its time.
    fn while_busy<T>(&self, what: &str, ask: impl FnOnce() -> T) -> T {
        let shows = self.global.format() == Format::Text && !self.global.quiet;
        if shows {
            self.notes.animate();
            self.notes.busy(what);
        }
        let done = ask();
        if shows {
            self.notes.still();
        }
        done
    }

    /// The same session as one of that machine.
    fn here(&self, mut started: Started, route: &Route) -> Started {
        started.session.host = route.host().map(str::to_owned);
        started
    }

    /// The variables of a command line, and those that the agent of a session was promised.
    fn remembered(&self, link: &mut Link, id: &str, given: &[OsString]) -> Result<Variables, Problem> {
        let settings = if link.route.is_far() {
            Settings::default()
        } else {
            find::read_settings(&find::folders()?.settings())?
        };
        let is_far = link.route.is_far();
        if !settings.has_env() {
            return variables(given, None, is_far);
        }
        let agent = row(link, id)?.map(|row| row.agent);
        variables(given, agent.as_deref().map(|agent| (&settings, agent)), is_far)
    }
}

/// A session as it is now, by any of its names.
fn row(link: &mut Link, id: &str) -> Result<Option<SessionBrief>, Problem> {
    let rows = link.ask(&SessionsList { all: true, ..SessionsList::default() })?;
    let is_meant = |row: &SessionBrief| {
        row.id == id || row.name.as_deref() == Some(id) || row.agent_session_id.as_deref() == Some(id)
    };
    Ok(rows.into_iter().find(is_meant))
}

/// Where an agent wants a login first, the line that logs in comes before the one that tries again.
fn after_login(problem: Problem, link: &mut Link) -> Problem {
    let Some(retry) = problem.hint.clone().filter(|_| problem.kind == Kind::NeedsLogin) else {
        return problem;
    };
    let id = retry.rsplit(' ').next().unwrap_or_default();
    let id = id.split_once('@').map_or(id, |(id, _)| id);
    let Ok(Some(row)) = row(link, id) else { return problem };
    let agent = plain(&row.agent).into_owned();
    problem.hint(match link.route.host() {
        Some(host) => format!("ssh {host} agentline login {agent}, then {retry}"),
        None => format!("agentline login {agent}, then {retry}"),
    })
}

/// What became of a prompt, for people.
fn became(started: &Started) -> String {
    let Started { session, dispatch, position, .. } = started;
    let who = called(session);
    match dispatch {
        Dispatched::Opened => format!("{who} is open"),
        Dispatched::Dispatched => format!("{who} has it: agentline session attach {}", handle(session)),
        Dispatched::Queued => format!("{who}: queued ({})", position.unwrap_or(1)),
        Dispatched::Answered => format!("{who}: answered"),
        Dispatched::Held => format!("{who}: held until the cancel is confirmed"),
    }
}

/// What is to be said: from the command line, or from stdin.
fn words(given: Option<&str>) -> Result<Option<String>, Problem> {
    let text = match given {
        Some(text) if text != "-" => text.to_owned(),
        None if io::stdin().is_terminal() => return Ok(None),
        Some(_) | None => prompt::stdin_text()?,
    };
    match text.trim().is_empty() {
        true if given.is_some() => Err(usage("the prompt is empty").hint("agentline session new \"hello\"")),
        true => Ok(None),
        false => Ok(Some(text)),
    }
}

fn images(files: &[std::path::PathBuf], route: &Route) -> Result<Vec<Image>, Problem> {
    files.iter().map(|file| image(file, route)).collect()
}

fn image(file: &Path, route: &Route) -> Result<Image, Problem> {
    let path = std::path::absolute(file).ok().filter(|_| !route.is_far());
    let ContentBlock::Image(image) = prompt::image(file)? else {
        return Err(usage(format!("--image: {} is no picture", file.display())));
    };
    let path = path.map(|path| path.to_string_lossy().into_owned());
    Ok(Image { mime_type: image.mime_type, data: image.data, path })
}

/// What `-e` says, over what the agent was promised by name and the desktop that one sits at, as far as we have them.
/// Nothing but what `-e` says goes to another machine.
fn variables(
    given: &[OsString],
    named: Option<(&Settings, &str)>,
    is_far: bool,
) -> Result<Variables, Problem> {
    let given = prompt::variables(&Environment { env: given.to_vec(), env_file: Vec::new() })?;
    let mut variables = Variables::default();
    let named = named.into_iter().flat_map(|(settings, agent)| settings.env_names(agent));
    for name in DESKTOP.into_iter().chain(named).filter(|_| !is_far) {
        if let Ok(value) = std::env::var(name) {
            variables.0.insert(name.to_owned(), value.into());
        }
    }
    for (name, value) in given.given {
        let (Ok(name), Ok(value)) = (name.into_string(), value.into_string()) else {
            return Err(usage("-e: a variable of a hub's agent is UTF-8"));
        };
        variables.0.insert(name, value.into());
    }
    Ok(variables)
}

/// The objects that an answer is.
fn json(started: &Started) -> ExitCode {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Dispatch<'a> {
        #[serde(rename = "type")]
        kind: &'static str,
        dispatch: Dispatched,
        #[serde(skip_serializing_if = "Option::is_none")]
        turn: Option<u64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        position: Option<usize>,
        #[serde(skip_serializing_if = "Option::is_none")]
        warning: Option<&'a str>,
    }
    #[derive(Serialize)]
    struct Message<'a> {
        #[serde(rename = "type")]
        kind: &'static str,
        #[serde(flatten)]
        message: &'a MessageBrief,
    }
    let Started { session, message, dispatch, turn, position, warning } = started;
    let mut text = object("session", session);
    text.extend(message.iter().map(|message| line(&Message { kind: "message", message }, false)));
    let dispatch = Dispatch {
        kind: "dispatch",
        dispatch: *dispatch,
        turn: *turn,
        position: *position,
        warning: warning.as_deref(),
    };
    text += &line(&dispatch, false);
    output::print(&text)
}

/// What leads to the desktop, and to the keys, of whoever sits here: an agent may be started by a hub that another
/// terminal has started.
const DESKTOP: [&str; 5] =
    ["SSH_AUTH_SOCK", "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "DBUS_SESSION_BUS_ADDRESS"];
/// An agent may take 100 s to have a session, and then the hub answers all the same.
const STARTS: Option<Duration> = Some(Duration::from_secs(180));
