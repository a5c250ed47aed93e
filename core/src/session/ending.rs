//! How the link of a source ended, for people.

use crate::closed::{Cause, Closed};
use crate::excerpt;
use crate::machine::Exit;

/// The kind of an end, and what people are told of it.
pub(crate) fn why(closed: &Closed<String>) -> (&'static str, String) {
    let (kind, text) = match &closed.cause {
        Cause::Left => ("cancelled", "we stopped it".to_owned()),
        Cause::Gone => match closed.obituary.exit {
            Some(Exit::Code(code)) => ("exited", format!("the agent exited with code {code}")),
            Some(Exit::Signal(signal)) => ("signalled", format!("signal {signal} ended the agent")),
            Some(Exit::Unknown) | None => ("exited", "the agent is gone".to_owned()),
        },
        Cause::Failed(error) => ("spawn", format!("the agent cannot be started: {error}")),
        Cause::Fault(fault) => ("protocol", fault.clone()),
    };
    match closed.obituary.stderr_tail.lines().rev().find(|line| !line.trim().is_empty()) {
        Some(last) => (kind, format!("{text}; it said: {}", excerpt::line(last, 200))),
        None => (kind, text),
    }
}
