//! What a run shows: to a person, or to a program.

mod beside;
mod filter;
mod foreign;
mod json;
mod kept;
pub(crate) mod lines;
mod notes;
mod out;
mod page;
mod paint;
mod sink;
mod subagents;
mod text;
mod tools;
mod wrap;

pub(crate) use filter::{plain, printable};
pub(crate) use foreign::Foreign;
pub(crate) use json::{Json, line, object};
pub(crate) use kept::{ROOM, plan_entries, shorten};
pub(crate) use notes::{Notes, columns, is_clever};
pub(crate) use out::{EXPIRED, Out, in_rows, print, unwritten};
pub(crate) use page::{Foot, Page};
pub(crate) use paint::{In, Paint, fit, pad, span, table};
pub(crate) use sink::{News, Settled, Sink, Stream};
pub(crate) use subagents::subagent_title;
pub(crate) use text::{Text, ran_unasked};
pub(crate) use tools::{Ended as EndedTool, Tools, label, merge};

use std::io;
use std::time::Duration;

use agentline_core::acp::session::ClientCapabilities;
use agentline_core::attach::presence::Attachment;
use agentline_core::chat::Line;
use agentline_core::subagent::Event;
use agentline_core::trace::Masks;
use serde::Serialize;

use crate::consent::Row;
use crate::words::Ended;

/// What is started, as `--dry-run` and the first object show it.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Start {
    /// Its id; absent when it was given as a command.
    pub(crate) agent: Option<String>,
    /// Program and arguments, as far as they are known.
    pub(crate) command: Option<Vec<String>>,
    pub(crate) cwd: String,
    /// Names of variables that it does not get.
    pub(crate) withheld: Vec<String>,
    /// What decides about permissions, where there are rules.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) permissions: Vec<Row>,
    /// What it is offered, where nothing is started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) offers: Option<ClientCapabilities>,
    /// What people call it.
    #[serde(skip)]
    pub(crate) name: String,
}

impl Start {
    /// Hides what nobody may be shown: a key may stand in the command line as well.
    pub(crate) fn mask(&mut self, masks: &Masks) {
        for word in self.command.iter_mut().flatten() {
            *word = masks.text(word).into_owned();
        }
    }
}

/// Shows a run: one start, what happens, one result.
pub(crate) trait Screen {
    /// The child runs, or it never will.
    fn started(&mut self, start: &Start, pid: Option<u32>);

    /// What would be started, and is not.
    fn dry_run(&mut self, start: &Start);

    /// Something of ours went wrong, and the run goes on.
    fn warn(&mut self, warning: String);

    /// A question comes next, on stderr.
    fn before_question(&mut self);

    /// Something happened.
    fn told(&mut self, event: Event);

    /// An answer was judged: what is wrong with it, and how often the agent can be asked again.
    fn judged(&mut self, _why: Option<&str>, _left: u32) {}

    /// A turn of a conversation begins. It ends with a result.
    fn begun(&mut self, line: &Line);

    /// The turn is being cancelled, as was wished here or from outside.
    fn cancelling(&mut self, _from_outside: bool) {}

    /// Nothing runs, and nothing is waited for, until a turn begins.
    fn at_rest(&mut self) {}

    /// Others can speak into the conversation.
    fn listening(&mut self, at: &Attachment);

    /// The result.
    fn finished(&mut self, ended: &Ended, took: Duration);

    /// Nothing more is there to be shown for now. After an error nobody reads any more.
    fn flush(&mut self) -> io::Result<()>;

    /// Whether it is time to flush even though there is more.
    fn is_full(&self) -> bool;
}
