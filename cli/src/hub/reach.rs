//! Which hub is meant, and the way to it.

use std::path::PathBuf;
use std::time::Duration;

use agentline_core::discovery::{Folders, Host, Settings};
use clap::Args;
use clap_complete::ArgValueCandidates;

use super::client::{Far, Link, Wants};
use super::place::unreachable;
use super::start::{self, forbidden};
use crate::args::duration;
use crate::completions;
use crate::find;
use crate::output::{Notes, plain};
use crate::prompt::usage;
use crate::words::Problem;

/// Which hub.
#[derive(Clone, Debug, Args)]
pub(crate) struct To {
    /// The hub of another machine, or `all` [default: AGENTLINE_HOST, else this machine]
    #[arg(long, global = true, value_name = "NAME", help_heading = "Which hub", conflicts_with = "socket", add = ArgValueCandidates::new(completions::hosts))]
    host: Option<String>,
    /// Any server of the control protocol [default: AGENTLINE_SOCKET, else the hub of this user]
    #[arg(long, global = true, value_name = "PATH", help_heading = "Which hub")]
    socket: Option<PathBuf>,
    /// Start no hub where none runs
    #[arg(long, global = true, help_heading = "Which hub")]
    no_start: bool,
    /// How long another machine has to answer
    #[arg(long, global = true, value_name = "TIME", value_parser = duration, default_value = "10s", help_heading = "Which hub")]
    host_timeout: Duration,
}

/// The way to a hub.
#[derive(Clone, Debug)]
pub(crate) enum Route {
    /// The hub of this user.
    Own(Box<Folders>),
    /// Whatever listens there.
    Socket(PathBuf),
    /// Another machine: by name, and with the command whose stdin and stdout are its hub's.
    Host { name: String, how: Host },
}

impl Route {
    /// What it is called.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Own(_) => "the hub".into(),
            Self::Socket(path) => path.display().to_string(),
            Self::Host { name, .. } => name.clone(),
        }
    }

    /// The machine, if it is another one.
    pub(crate) fn host(&self) -> Option<&str> {
        match self {
            Self::Own(_) | Self::Socket(_) => None,
            Self::Host { name, .. } => Some(name),
        }
    }

    pub(crate) const fn is_far(&self) -> bool {
        matches!(self, Self::Host { .. })
    }

    /// An id of that hub, as it is typed here.
    pub(crate) fn handle(&self, id: &str) -> String {
        self.host().map_or_else(|| id.to_owned(), |host| format!("{id}@{host}"))
    }
}

impl To {
    /// The hub of this user, whatever the environment says of others.
    pub(crate) fn here() -> Result<(Self, Route), Problem> {
        let host = Some(LOCAL.to_owned());
        Ok((Self { host, socket: None, no_start: false, host_timeout: Duration::from_secs(10) }, own()?))
    }

    /// All that are meant: one, or this machine and every host of the settings.
    pub(crate) fn routes(&self) -> Result<Vec<Route>, Problem> {
        if self.name().as_deref() != Some(ALL) {
            return Ok(vec![self.route()?]);
        }
        let hosts = hosts()?.into_iter().map(|(name, how)| Route::Host { name, how });
        Ok([own()?].into_iter().chain(hosts).collect())
    }

    /// The one that is meant.
    pub(crate) fn route(&self) -> Result<Route, Problem> {
        let chosen = || std::env::var_os("AGENTLINE_SOCKET").filter(|path| !path.is_empty());
        if let Some(socket) = &self.socket {
            return Ok(Route::Socket(socket.clone()));
        }
        match self.name() {
            Some(name) if name == ALL => {
                Err(usage("all hosts at once can be listed and watched only").hint("--host NAME, or ID@HOST"))
            }
            Some(name) => host(&name, self.host.is_none()),
            None => match chosen() {
                Some(path) => Ok(Route::Socket(path.into())),
                None => own(),
            },
        }
    }

    /// The hub of an id, and the id as it is known there: `s1@devbox`.
    pub(crate) fn of(&self, id: &str) -> Result<(Route, String), Problem> {
        match id.split_once('@') {
            Some((id, name)) if !id.is_empty() && self.socket.is_none() => {
                Ok((host(name, false)?, id.to_owned()))
            }
            Some(_) | None => Ok((self.route()?, id.to_owned())),
        }
    }

    /// Connects to one that runs. `patience`: for each answer.
    pub(crate) fn reach(&self, route: &Route, patience: Option<Duration>) -> Result<Link, Problem> {
        self.connect(route, Wants { patience, ..Wants::default() })
    }

    /// Connects to one that runs.
    pub(crate) fn connect(&self, route: &Route, wants: Wants) -> Result<Link, Problem> {
        match route {
            Route::Own(folders) => Link::own(folders, wants)?.ok_or_else(|| {
                unreachable(format!("no hub runs in {}", folders.state.path.display()))
                    .hint("agentline session new \"…\", or agentline hub start")
            }),
            Route::Socket(path) => Link::socket(path, wants),
            Route::Host { .. } => self.far(route, false, wants),
        }
    }

    /// Connects to one, and starts it where none runs.
    pub(crate) fn start(
        &self,
        route: &Route,
        patience: Option<Duration>,
        notes: &Notes,
    ) -> Result<Link, Problem> {
        let wants = Wants { patience, ..Wants::default() };
        let link = match route {
            Route::Own(folders) => match (Link::own(folders, wants)?, forbidden(self.no_start)) {
                (Some(link), _) => link,
                (None, None) => start::start(folders, wants, notes)?,
                (None, Some(why)) => {
                    let message = format!("no hub runs, and none is started from here: {why}");
                    return Err(unreachable(message).hint("agentline hub start, in a terminal of your own"));
                }
            },
            Route::Socket(path) => Link::socket(path, wants)?,
            Route::Host { .. } => self.far(route, !self.no_start, wants)?,
        };
        link.tell_version(notes);
        Ok(link)
    }

    fn far(&self, route: &Route, starts: bool, wants: Wants) -> Result<Link, Problem> {
        match Link::host(route, starts, self.host_timeout, wants)? {
            Far::Hub(link) => Ok(link),
            Far::NoHub { reason, .. } => {
                let name = route.name();
                let hint = format!("agentline hub start --host {name}");
                Err(unreachable(format!("{name}: {}", plain(&reason))).hint(hint))
            }
        }
    }

    /// The same with another limit for a machine to answer.
    pub(crate) fn within(&self, host_timeout: Duration) -> Self {
        Self { host_timeout: self.host_timeout.min(host_timeout), ..self.clone() }
    }

    fn name(&self) -> Option<String> {
        let chosen = || std::env::var("AGENTLINE_HOST").ok().filter(|name| !name.is_empty());
        let name = self.host.clone().or_else(|| chosen().filter(|_| self.socket.is_none()));
        name.filter(|name| name != LOCAL)
    }
}

impl Route {
    /// The command that leads to another machine.
    pub(crate) fn command(&self, starts: bool) -> Vec<String> {
        match self {
            Self::Host { how: Host::Command(words), .. } => words.clone(),
            Self::Host { name, how: Host::Ssh(_) } => ssh(name, starts),
            Self::Own(_) | Self::Socket(_) => Vec::new(),
        }
    }
}

/// It may ask for nothing: there is no terminal to ask at.
fn ssh(name: &str, starts: bool) -> Vec<String> {
    let ssh = ["ssh", "-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o", "ServerAliveInterval=15"];
    let rest = ["-o", "ServerAliveCountMax=3", "--", name, "agentline", "hub", "pipe"];
    ssh.into_iter().chain(rest).chain(starts.then_some("--start")).map(str::to_owned).collect()
}

fn own() -> Result<Route, Problem> {
    Ok(Route::Own(Box::new(find::folders()?)))
}

/// A machine by its name. `by_variable`: nobody typed it, so it has to be one that is known, or look like one.
pub(super) fn host(name: &str, by_variable: bool) -> Result<Route, Problem> {
    if name == LOCAL {
        return own();
    }
    let how = hosts()?.into_iter().find(|(known, _)| known == name).map(|(_, how)| how);
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || "._@:-".contains(letter);
    let is_plain = !name.is_empty() && !name.starts_with('-') && name.chars().all(is_name);
    match how {
        Some(how) => Ok(Route::Host { name: name.to_owned(), how }),
        None if name.starts_with('-') || name.is_empty() || by_variable && !is_plain => {
            Err(usage(format!("{name:?} is no name of a machine")).hint("agentline host list"))
        }
        None => Ok(Route::Host { name: name.to_owned(), how: Host::Ssh(Default::default()) }),
    }
}

/// The machines of the settings. They are commands: nobody else may have written them.
pub(super) fn hosts() -> Result<Vec<(String, Host)>, Problem> {
    let folders = find::folders()?;
    let settings: Settings = find::read_settings(&folders.settings())?;
    if !settings.hosts.is_empty() {
        find::trusted(&folders)?;
    }
    Ok(settings.hosts.into_iter().collect())
}

/// Every machine that is known.
pub(crate) const ALL: &str = "all";
/// This machine.
pub(crate) const LOCAL: &str = "local";
