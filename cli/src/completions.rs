//! What a shell offers at the tab key. Its script asks this program, which knows the agents and the sessions of that
//! moment.

use std::io;
use std::time::Duration;

use agentline_core::hub::api::{ApprovalsList, Method, SessionsList};
use clap::CommandFactory;
use clap_complete::env::Shells;
use clap_complete::{CompleteEnv, CompletionCandidate, Shell};
use serde::de::DeserializeOwned;

use crate::args::Cli;
use crate::attach::Peers;
use crate::find;
use crate::hub::{Link, Wants};
use crate::output::plain;
use crate::plan::DEMO;

/// Answers a shell and ends, if a shell is what called us.
pub(crate) fn answer() {
    CompleteEnv::with_factory(Cli::command).var(CALLED_BY).complete();
}

/// The script of a shell: it calls whichever `agentline` is found in `PATH`.
pub(crate) fn script(shell: Shell) -> io::Result<String> {
    let shells = Shells::builtins();
    let name = shell.to_string();
    let shell = shells.completer(&name).ok_or_else(|| io::Error::other(format!("no script for {name}")))?;
    let mut script = Vec::new();
    shell.write_registration(CALLED_BY, PROGRAM, PROGRAM, PROGRAM, &mut script)?;
    Ok(String::from_utf8_lossy(&script).into_owned())
}

/// The agents that can be named.
pub(crate) fn agents() -> Vec<CompletionCandidate> {
    let installed = find::look(None).map(|found| found.report.agents).unwrap_or_default();
    let installed = installed.iter().map(|agent| candidate(&agent.id, &agent.name));
    installed.chain([candidate(DEMO, "built in: no model, no key")]).collect()
}

/// The sessions that can be spoken into: by name and by id.
pub(crate) fn peers() -> Vec<CompletionCandidate> {
    let Ok(peers) = Peers::look() else { return Vec::new() };
    let alive = peers.iter().filter(|peer| peer.alive);
    let words = alive.flat_map(|peer| [candidate(peer.name, peer.cwd), candidate(peer.peer_id, peer.cwd)]);
    words.filter(is_word).collect()
}

/// The sessions of the hub, if one runs and answers at once.
pub(crate) fn sessions() -> Vec<CompletionCandidate> {
    let rows = ask(&SessionsList::default()).unwrap_or_default();
    let words = rows.iter().flat_map(|row| [Some(&row.id), row.name.as_ref()].map(|word| (word, &row.title)));
    words.filter_map(|(word, title)| Some(candidate(word?, title))).filter(is_word).collect()
}

/// The machines that are remembered.
pub(crate) fn hosts() -> Vec<CompletionCandidate> {
    let settings = find::folders().and_then(|folders| find::read_settings(&folders.settings()));
    let hosts = settings.map(|settings| settings.hosts).unwrap_or_default();
    hosts.keys().map(|name| candidate(name, "a machine")).filter(is_word).collect()
}

/// The questions that are open.
pub(crate) fn approvals() -> Vec<CompletionCandidate> {
    let rows = ask(&ApprovalsList::default()).unwrap_or_default();
    rows.iter().map(|row| candidate(&row.approval_id, &row.title)).filter(is_word).collect()
}

fn ask<M: Method>(method: &M) -> Option<M::Result>
where
    M::Result: DeserializeOwned,
{
    let folders = find::folders().ok()?;
    let wants = Wants { patience: Some(MOMENT), ..Wants::default() };
    Link::own(&folders, wants).ok()??.ask(method).ok()
}

fn is_word(candidate: &CompletionCandidate) -> bool {
    candidate.get_value().to_str().is_some_and(is_harmless)
}

fn candidate(word: &str, about: &str) -> CompletionCandidate {
    CompletionCandidate::new(word).help(Some(plain(about).into_owned().into()))
}

/// Whether a shell takes it for nothing but a word: it stands in a command line as it is, and others choose it.
fn is_harmless(word: &str) -> bool {
    !word.starts_with('-') && word.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '_' | '.'))
}

/// Longer than that nobody waits at the tab key.
const MOMENT: Duration = Duration::from_millis(200);
const PROGRAM: &str = "agentline";
/// The variable by which a script says which shell calls.
const CALLED_BY: &str = "AGENTLINE_COMPLETE";
