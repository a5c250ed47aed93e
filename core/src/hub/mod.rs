//! The hub: every session of a machine in one place.
//!
//! A long-lived process that knows the agents, runs their sessions, collects what they ask, and serves everybody who wants
//! to see or say something: a command line, a script, an editor. Programs talk to it over the [control](crate::control)
//! channel, in the words of [`api`]; agents are its children and speak [ACP](crate::acp).
//!
//! ```text
//!   clients ──► control::Server ──► desk ──► book ──► session::Source ──► agents
//!           ◄──────────────────── tell ◄────── │ ◄──────────────────
//!                                              ▼
//!                                            shelf ──► files
//! ```
//!
//! [`Hub`] is one machine around these; [`book`] has all rules of who may speak, what waits and what is asked, and knows no
//! wire. A step goes: what the book makes of the last event is performed to its end, and only then the next event of a client
//! or an agent is looked at. So a fact stands before the news that came after it.
//!
//! # A session
//!
//! ```text
//!              its agent starts, opens it            a turn begins        it asks
//!  Idle ─────► Connecting ─────────────────► (open) ─────────► Running ◄───────► WaitingApproval
//!   ▲              │ cannot                     ▲                 │ its end, once
//!   │ a day later  ▼                            └─────────────────┤
//!  Completed     Error                                            ▼
//!                                             Completed, Cancelled, Error: for a reason
//! ```
//!
//! * It has a handle, `s12`, from acceptance on, which is never used again; its agent's own id comes later.
//! * One turn at a time. Further prompts wait, at most 16, oldest first. They are *held*, and wait for a person, after a
//!   cancel, a crash, a restart, a start that failed and a refusal for room.
//! * Each prompt ends once: its turn does, or it was not sent, and why is told.
//! * A cancel has 5 s. Then the turn is over for readers; the agent is replaced as soon as it has no other turn, and nothing
//!   is said to it there until then.
//! * A question has an id, `a7`, and is settled once. The first answer counts; a policy answers only what the hub's own turns
//!   ask, and allows nothing for ever. A program that an agent started may not answer, nor change what answers.
//!
//! # Agents that dial in
//!
//! With [`Config::reverse`] an agent that runs already can show its sessions by the [reverse extension](crate::reverse). Who is
//! let in is decided at its hello: an agent that is known and on, or `agentline-chat`, a conversation in a terminal. A session
//! that a link has is driven by that link alone, is never taken from it, and its cancel has no clock. When the link ends, its
//! turn is over as `link_lost`, and what waits is held; the agent's process may go on with the session then. A link that
//! offers it is asked for new sessions of its agent, the one that came last of several.
//!
//! # Galley runners
//!
//! An agent of the kind [`AgentKind::Runner`] speaks [Galley's runner protocol](crate::galley): each session has a process of
//! its own, which goes by the same commands, frames, questions and ends as any other. A question in words is answered by the
//! next prompt. The memory of a session is in its process, so idle ones stay, at most 20; of more the one that had nothing to
//! do for longest leaves. When a process goes, so do the streams of its session, as `subprocess_exited`. A run that was
//! cancelled and is not confirmed within 5 s is over for readers; its runner has 30 s more before it is replaced.
//!
//! # What survives
//!
//! Before anything of a step is said it is on disk: the numbers that may have been given, one small file for each session,
//! one for each prompt that waits or can be tried again. No reply of an agent that speaks ACP is written. After a crash what ran is
//! cancelled as interrupted, and what waited is held. What was said in a session with a runner is kept (a file of its own, 30
//! days, [`Switches::transcripts`]) and given back to the next process. A file that cannot be written is a problem of `health`, and is tried
//! again. [`Stored`] reads the files.
//!
//! # What the outside has to do
//!
//! Besides links and files, which every machine leaves to its driver: each [`Errand`] is answered by [`Command::Done`]. There
//! are seven: whether a folder exists, which agents there are, how one is started (program, arguments, and an environment
//! that only the outside knows), switching one on or off in the settings, who the process of a client is, what is
//! in a file, and keeping rules of runners in the settings. The lock of
//! the state folder, `hub.json`, the log, and running a command for a [`Notice`] are the driver's as well.
//!
//! ```
//! use agentline_core::control::server;
//! use agentline_core::hub::{Command, Config, Event, Found, Hub};
//! use agentline_core::{Action, Address, Heard, Input, LinkId, Machine, Now, Output, Peer};
//!
//! let now = Now::default();
//! let mut hub = Hub::new(now, Config::new(server::Config::new(Address("/run/control.sock".into()))));
//! let [listener, client] = [0, 1].map(LinkId::from_number);
//! for link in [listener, client] {
//!     hub.handle(now, Input::Link(link, Heard::Opened(Peer::default())));
//! }
//! let line = b"{\"command\":\"session.new\",\"args\":{\"task\":\"hello\",\"agent\":\"gemini\"}}\n";
//! hub.handle(now, Input::Link(client, Heard::Bytes(line)));
//! let mut written = String::new();
//! while let Some(output) = hub.poll() {
//!     match output {
//!         Output::Do(_, Action::Write(bytes)) => written += std::str::from_utf8(&bytes)?,
//!         Output::Tell(Event::Errand(tag, _)) => hub.command(now, Command::Done(tag, Found::Folder(true)))?,
//!         _ => {}
//!     }
//! }
//! assert!(written.contains("no agent \\\"gemini\\\""), "{written}");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Limits
//!
//! | what | default | beyond it |
//! |---|---|---|
//! | prompts that wait in a session | 16 | `busy` |
//! | `initialize` of an agent | 10 s, settable per agent | the start failed |
//! | an answer of `session.new`, `send` or `load` | 100 s | the session as it is, `slow_start` |
//! | an idle agent | 10 min | it is closed; the next prompt starts it |
//! | processes of runners | 20 | the one idle longest is closed |
//! | a list of sessions | 5 pages; every 60 s while somebody looks | nothing is forgotten by it |
//! | sessions in lists | active within 7 days | with `all` |
//! | messages of a session | 500, 4 MiB | the oldest go; those of 100 sessions an agent are kept |
//! | the running turn for a new watcher | its last 256 KiB | |
//! | news of a process about sessions whose id is not known yet | 100, 256 KiB | dropped |
//! | questions that are over | 1000, 24 h | forgotten; answering one is `already_answered` all the same |
//! | what a watcher does not read | 1 MiB | `lagged`, then how things stand |
//!
//! # Not supported, and why
//!
//! * Sessions of other terminals: the book has their rules, the hub does not take them in yet.
//! * Starting an agent again by itself: a crash is shown, and `session.retry` is a person's.
//! * Asking a person about what is hosted for an agent: the user's setting has allowed it, and the session's folder bounds it.

mod agents;
pub mod api;
pub mod book;
mod config;
mod desk;
mod frames;
mod hosted;
mod links;
mod lists;
mod lives;
mod machine;
mod memory;
mod open;
mod rules;
mod runners;
mod shelf;
mod show;
mod tell;
mod variables;
mod watch;

pub use self::config::{
    AgentKind, AgentSpec, Caller, Command, Config, Errand, Event, Found, Notice, NoticeKind, RunnerStart,
    Stored, Switches, Timeouts,
};
pub use self::machine::Hub;
