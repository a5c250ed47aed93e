//! `trace replay`: the machine of a trace is led through its run again.

use std::process::ExitCode;

use agentline_core::acp::agent::Agent;
use agentline_core::acp::client::Client as AcpClient;
use agentline_core::attach::{self, caller::Caller, canceller::Canceller};
use agentline_core::chat::Chat;
use agentline_core::control;
use agentline_core::conversation::Conversation;
use agentline_core::reverse;
use agentline_core::subagent::Run;
use agentline_core::trace::{Reader, ReplayError, Replayed, Until, replay};
use serde::Serialize;

use super::{LARGEST, Replay, no_trace};
use crate::args::{Format, Global};
use crate::output::{Notes, object, plain, print};
use crate::prompt::{self, of_file};
use crate::words::Problem;

pub(super) fn run(args: &Replay, global: Global, notes: &Notes) -> Result<ExitCode, Problem> {
    let file = prompt::read("trace", &args.trace, LARGEST)?;
    let first = file.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let reader = Reader::new(first).map_err(|damage| no_trace(&args.trace, &damage))?;
    let (channel, role) = (&*reader.header().channel, &*reader.header().role);
    let machine = MACHINES.iter().find(|(of, side, _)| (*of, *side) == (channel, role));
    let Some((_, _, replay)) = machine else {
        let why = format!("is of a machine that is not known here: {} {}", plain(channel), plain(role));
        return Err(
            of_file("trace", &args.trace, why).hint("agentline trace show FILE shows it all the same")
        );
    };
    let outcome = match replay(&file, args.line.map_or(Until::End, Until::Line)) {
        Ok(done) => Outcome::same(&done),
        Err(error @ ReplayError::Config(_)) => {
            let hint = "agentline trace show FILE shows it all the same";
            return Err(of_file("trace", &args.trace, plain(&error.to_string())).hint(hint));
        }
        Err(error) => Outcome { difference: Some(error.to_string()), ..Outcome::default() },
    };
    let printed = print(&match global.format() {
        Format::Json => object("replay", &outcome),
        Format::Text => outcome.text(),
    });
    if !outcome.damaged.is_empty() && global.format() == Format::Text {
        notes.line(&format!("! lines that cannot be read: {}", outcome.damaged.join("; ")));
    }
    Ok(if outcome.difference.is_some() { ExitCode::FAILURE } else { printed })
}

/// What came of it.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Outcome {
    /// Records that were run or compared, where there is no difference.
    records: usize,
    /// Whether the run was recorded to its end.
    ended: bool,
    damaged: Vec<String>,
    difference: Option<String>,
}

impl Outcome {
    fn same(done: &Replayed) -> Self {
        let damaged = done.damaged.iter().map(ToString::to_string).collect();
        Self { records: done.records, ended: done.ended, damaged, difference: None }
    }

    fn text(&self) -> String {
        match &self.difference {
            Some(difference) => format!("✗ {}\n", plain(difference)),
            None => {
                let end = if self.ended { "" } else { "; it was not recorded to its end" };
                format!("✓ no difference in {} records{end}\n", self.records)
            }
        }
    }
}

type Machine = (&'static str, &'static str, fn(&[u8], Until) -> Result<Replayed, ReplayError>);

/// By channel and role, as traces name them.
const MACHINES: [Machine; 12] = [
    ("acp", "subagent", replay::<Run>),
    ("acp", "chat", replay::<Chat>),
    ("acp", "conversation", replay::<Conversation>),
    ("acp", "client", replay::<AcpClient>),
    ("acp", "agent", replay::<Agent>),
    ("attach", "caller", replay::<Caller>),
    ("attach", "canceller", replay::<Canceller>),
    ("attach", "server", replay::<attach::Server>),
    ("control", "client", replay::<control::Client>),
    ("control", "server", replay::<control::Server>),
    ("reverse", "acceptor", replay::<reverse::Acceptor>),
    ("reverse", "agent", replay::<reverse::Agent>),
];
