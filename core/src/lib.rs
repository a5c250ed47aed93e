//! Sans-IO state machines for the channels that coding agents speak.
//!
//! A machine never reads, writes, spawns, sleeps or asks for the time. What happened outside goes in through
//! [`Machine::handle`], what the application wants goes in through [`Machine::command`], and everything that
//! comes of it is taken out with [`Machine::poll`]: work on links for whoever drives the machine, and events for
//! the application, in one order. The loop is the same for every channel and both roles:
//!
//! 1. Poll until `None`. Perform each [`Output::Do`] and [`Output::Store`], hand each [`Output::Tell`] to the
//!    application, stop at [`Output::End`].
//! 2. Wait for whatever comes first: something on a link, a command, or the [deadline](Machine::deadline).
//! 3. Feed it, with the time, and go to 1.
//!
//! A run is its config plus the sequence of inputs and commands, and nothing else: the same sequence gives the
//! same outputs, which is what [`trace`] records and replays.
//!
//! # Where to start reading
//!
//! [`machine`] is the contract. `role.rs` is what all machines around one link have in common, then [`session`], and then
//! any channel: they are all alike. A channel's page draws its states, shows its lines, and names its limits and what it leaves out.
//! `PROTOCOLS.md`, at the top of the project, names the documents behind them.
//!
//! | floor | modules |
//! |---|---|
//! | the contract | [`machine`], [`limits`] with a reason for each number, [`Secret`], [`Closed`] |
//! | one link | [`link`]: its life and the ladder of its end. [`lines`]: bytes to lines. [`rpc`]: lines to JSON-RPC. `role.rs`: the order of a step |
//! | many links | [`nest`]: machines made of machines, and a listener with its connections |
//! | channels | below |
//! | one vocabulary | [`session`]: what a session of any channel tells and takes; the sources are an ACP agent and one that dials in |
//! | what is made of them | [`conversation`]: one agent, one session, one turn after the other. [`subagent`]: one task. [`chat`]: a conversation that others can attach to. [`check`]: whether an agent can be used. [`gateway`]: a session of one channel, served on another |
//! | beside them | [`discovery`]: which agents there are. [`place`] and [`trust`]: whom a socket and a path may be trusted to. [`problem`]: why something came to nothing, as data. [`rules`]: what may be done without asking. [`host`]: commands and files for an agent without any. [`trace`]: record and replay |
//!
//! | channel | machines | speaks first |
//! |---|---|---|
//! | [`acp`] | [`acp::Client`], [`acp::Agent`] | the client |
//! | [`attach`] | [`attach::Client`], [`attach::Canceller`], [`attach::Caller`] of both; [`attach::Server`] | the client, with the token |
//! | [`galley`] | [`galley::Desktop`], [`galley::Bridge`] | the bridge, when it is ready |
//! | [`control`] | [`control::Client`], [`control::Server`] | the client |
//! | [`reverse`] | [`reverse::Acceptor`], [`reverse::Agent`] | the agent, which dials in |
//!
//! # A client and an agent in memory
//!
//! ```
//! use agentline_core::acp::{self, Agent, Client, ContentBlock, SessionSetup, StopReason, agent, client};
//! use agentline_core::{Action, Heard, Input, LinkId, Machine, Now, Open, Output, Peer, Tag};
//!
//! /// Moves what one machine writes to the other; returns the events that were told meanwhile.
//! fn deliver<A: Machine, B: Machine>(from: &mut A, to: &mut B) -> Vec<A::Event> {
//!     let mut events = Vec::new();
//!     while let Some(output) = from.poll() {
//!         let link = LinkId::FIRST;
//!         match output {
//!             Output::Do(_, Action::Open(_)) => {
//!                 from.handle(Now::default(), Input::Link(link, Heard::Opened(Peer::default())));
//!             }
//!             Output::Do(_, Action::Write(bytes)) => {
//!                 to.handle(Now::default(), Input::Link(link, Heard::Bytes(&bytes)));
//!                 from.handle(Now::default(), Input::Link(link, Heard::Written));
//!             }
//!             Output::Do(_, Action::CloseWrite) => {
//!                 to.handle(Now::default(), Input::Link(link, Heard::Eof));
//!             }
//!             Output::Tell(event) => events.push(event),
//!             Output::Do(..) | Output::Store(..) | Output::End => {}
//!         }
//!     }
//!     events
//! }
//!
//! let now = Now::default();
//! let mut client = Client::new(now, client::Config::new(Open::Given(0)));
//! let mut agent = Agent::new(now, agent::Config::on_stdio());
//! let mut answer = String::new();
//! loop {
//!     for event in deliver(&mut agent, &mut client) {
//!         match event {
//!             agent::Event::Requested(asked) => {
//!                 let reply = agent::Reply::SessionOpened { session: "s-1".into(), state: Default::default() };
//!                 agent.command(now, agent::Command::Reply { request: asked.request, reply })?;
//!             }
//!             agent::Event::Prompted(prompted) => {
//!                 let turn = prompted.turn;
//!                 let speaker = acp::update::Speaker::Agent;
//!                 let text = "hello to you".into();
//!                 agent.command(now, agent::Command::Say { turn, speaker, text })?;
//!                 agent.command(now, agent::Command::EndTurn { turn, stopped: StopReason::EndTurn.into() })?;
//!             }
//!             _ => {}
//!         }
//!     }
//!     for event in deliver(&mut client, &mut agent) {
//!         match event {
//!             client::Event::Ready(_) => {
//!                 let setup = SessionSetup::in_directory("/tmp");
//!                 let open = client::Command::OpenSession { tag: Tag(1), which: client::Which::New, setup };
//!                 client.command(now, open)?;
//!             }
//!             client::Event::Answered(_, reply) => {
//!                 if let client::Answer::SessionOpened { session, .. } = *reply {
//!                     let prompt = vec![ContentBlock::text("hello")];
//!                     client.command(now, client::Command::Prompt { tag: Tag(2), session, prompt })?;
//!                 }
//!             }
//!             client::Event::Text(piece) => answer += &piece.text,
//!             client::Event::TurnEnded(turn) => {
//!                 assert_eq!(turn.end.map(|stopped| stopped.reason), Ok(StopReason::EndTurn));
//!                 assert_eq!(answer, "hello to you");
//!                 return Ok(());
//!             }
//!             _ => {}
//!         }
//!     }
//! }
//! # #[allow(unreachable_code)]
//! # Ok::<(), agentline_core::Refused>(())
//! ```

pub mod acp;
pub mod attach;
pub mod chat;
pub mod check;
mod closed;
pub mod control;
pub mod conversation;
pub mod discovery;
pub mod excerpt;
pub mod galley;
pub mod gateway;
pub mod host;
pub mod hub;
pub mod limits;
pub mod lines;
pub mod link;
pub mod machine;
pub mod nest;
mod outbox;
pub mod place;
pub mod problem;
pub mod reverse;
mod role;
pub mod rpc;
pub mod rules;
pub mod secret;
pub mod session;
pub mod subagent;
mod timestamp;
pub mod trace;
pub mod trust;

pub use closed::{Cause, Closed};
pub use limits::{Graces, Limits};
pub use machine::{
    Action, Address, Change, Deadline, Exit, Group, Heard, Ids, Input, LinkId, Machine, Now, Open, OpenError,
    Output, Outputs, Peer, Refused, Signal, SpawnSpec, Stderr, Store, StoreId, Tag, Time,
};
pub use secret::Secret;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_are_small() {
        assert!(size_of::<Output<acp::client::Event>>() <= 64);
        assert!(size_of::<Output<acp::agent::Event>>() <= 64);
        assert!(size_of::<Output<attach::server::Event>>() <= 64);
        assert!(size_of::<Output<attach::client::Event>>() <= 64);
        assert!(size_of::<Output<attach::caller::Event>>() <= 64);
        assert!(size_of::<Output<conversation::Event>>() <= 64);
        assert!(size_of::<Output<chat::Event>>() <= 64);
        assert!(size_of::<Output<reverse::acceptor::Event>>() <= 64);
        assert!(size_of::<Output<reverse::agent::Event>>() <= 64);
    }
}
