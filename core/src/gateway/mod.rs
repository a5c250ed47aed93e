//! Gateways: a session of one channel, served on another.
//!
//! A gateway is one source of sessions under one front. The source is what the hub has as well: an agent's process, a Galley
//! runner, or a session in another terminal. The front is its mirror: it takes what a source tells, and says what a source is
//! wished. Between them is the hub's [book](crate::hub::book): which prompt waits, the one end of each turn, the clock of a
//! cancel, and whose answer counts.
//!
//! ```text
//!   client ──► front ──► book ──► source ──► agent
//!          ◄──       ◄── rules ◄──       ◄──
//!                        budget
//! ```
//!
//! # The order of the start
//!
//! What a client is offered depends on what the agent can, and what an agent is offered on what the client can. So the
//! client speaks first, the agent is started with the client's own offer, and the client's `initialize` is answered when
//! the agent's was. It is answered in any case: of an agent that does not come up nothing is offered, and whatever is
//! asked of it fails with the reason.
//!
//! # What passes
//!
//! Between an ACP client and an ACP agent every update passes as it was written, and so do permissions, forms, pages, files,
//! terminals, modes, options, logins, errors and the end of a turn. What is not passed on:
//!
//! * a login in a terminal: it would be our command once more;
//! * opening a session once more that is open;
//! * requests of extensions, both ways, and the `_meta` of a prompt;
//! * what an agent says of sessions of its own that the client has not opened.
//!
//! # What passes in each pair
//!
//! Fronts are an ACP client, whoever attaches, and Galley's desktop; `agent` is an ACP agent that offers everything. What is
//! `carried` passes; what is `refused` is an error before anything is sent, whatever the client tries; what is `lost` the
//! client has no words for; what has a dash neither side has.
//!
//! | | ACP ← agent | ACP ← runner | ACP ← terminal | attach ← agent | attach ← runner | attach ← terminal | Galley ← agent | Galley ← runner | Galley ← terminal |
//! |---|---|---|---|---|---|---|---|---|---|
//! | prompts | carried | carried | carried | carried | carried | carried | carried | carried | carried |
//! | pictures | carried | carried | refused | lost | lost | – | carried | carried | refused |
//! | sound | carried | refused | refused | lost | – | – | lost | – | – |
//! | whole resources | carried | refused | refused | lost | – | – | lost | – | – |
//! | a cancel | carried | carried | carried | carried | carried | carried | carried | carried | carried |
//! | modes, models, options | carried | carried | refused | lost | lost | – | carried | carried | refused |
//! | side questions | – | lost | – | – | lost | – | refused | carried | refused |
//! | rules of approval | – | lost | – | – | lost | – | – | lost | – |
//! | old sessions, with their history | carried | refused | refused | lost | – | – | lost | – | – |
//! | old sessions, without it | carried | refused | carried | lost | – | lost | lost | – | lost |
//! | a list of sessions | carried | refused | refused | lost | – | – | lost | – | – |
//! | closing a session | carried | carried | refused | lost | lost | – | lost | lost | – |
//! | deleting a session | carried | refused | refused | lost | – | – | lost | – | – |
//! | a logout | carried | refused | refused | lost | – | – | lost | – | – |
//! | text as it comes | carried | carried | – | lost | lost | – | carried | carried | – |
//! | its questions | carried | carried | – | lost | lost | – | carried | carried | – |
//!
//! Each front gets a session to begin with: a new one, or of a terminal the one that there is. An attached front and a desktop
//! have that one and no other, and when it is lost with its agent, they leave.
//!
//! # A runner behind
//!
//! A runner is one session. Its text comes without the model's own tags, and `<thinking>` as thoughts; its questions are
//! permissions with the options of Galley; `ask_user` is a text and the end of a turn, and the next prompt answers it; whether
//! it asks at all is its mode, its model is an option. A runner that is gone takes its session with it.
//!
//! # In front of whoever attaches, and of Galley's desktop
//!
//! Who attaches has no words for questions, so rules and the [policy](Config::policy) decide, and sees no text as it comes: the
//! answer is what was said behind the last tool. A desktop sees the calls of an agent as a runner would make them, by their kind:
//! execute is `code_run`, an edit with a diff `file_patch`, read `file_read`, delete, move and what has no kind `file_write`,
//! and any other has the name of its kind. A decision is the option of that kind; one that is for good is for good at the agent
//! where that offers it, and else kept here, by the name of the tool. Its pictures go as links to their files.
//!
//! # A session in another terminal
//!
//! Over the [attach](crate::attach) channel a client speaks to a session that runs already. It is the one session that there
//! is, and it is not ours: when the client leaves, it goes on, and nothing of it is cancelled. Its answer comes as a whole,
//! since the channel shows neither text as it comes, nor tools, nor questions. A cancel there ends whatever runs: it is sent
//! for our own turn, and not while that may wait behind another. Where the words were delivered and the end was not seen,
//! the prompt fails and says so.
//!
//! # The life of an agent
//!
//! ```text
//!         wanted             Up              gone, or goes on with a turn that was given up
//!  Down ─────────► Starting ────► Up ────────────────────────────────────────────► Leaving
//!   ▲  ◄──────────────┘ gone                                                          │
//!   └─────────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! An agent that is gone ends the prompts that it had, each once, for that reason. The client stays: the next request starts
//! the agent again, and the next prompt of a session that it had resumes or loads it there first, where the agent can. An
//! agent that does not confirm a cancel within 5 s is replaced in the same way. When the client leaves, the agent goes down
//! its ladder.
//!
//! # Slow sides
//!
//! While the client does not read, the agent is not read: what it has said by then waits in its order, which is one read at
//! most. Nothing is dropped and nothing grows. An agent that does not read refuses prompts, and that is their end.
//!
//! # Rules and a budget
//!
//! [`Rules`](crate::rules::Rules) decide about a permission before the client is asked; what they leave to a person is the
//! client's. Where a session has cost more than its [`Budget`](crate::conversation::Budget), its turn is cancelled and fails,
//! and so does every further prompt of it.
//!
//! # Limits
//!
//! | what | value | beyond it |
//! |---|---|---|
//! | prompts that wait in a session | 16 | refused |
//! | sessions | 1024, as the [client](crate::acp) has it | the longest idle one is forgotten, and opened again by its next prompt |
//! | news of a session whose id is not known yet | 100 | dropped |
//! | a cancel that is not confirmed | 5 s | the turn is over, and the agent is replaced |

mod acp;
mod api;
mod attach;
mod calls;
mod front;
mod galley;
mod heard;
mod life;
mod machine;
mod run;
mod source;

pub use self::api::{Command, Config, Event, Ruled};
pub use self::attach::Config as AttachConfig;
pub use self::front::FrontConfig;
pub use self::galley::Config as GalleyConfig;
pub use self::machine::Gateway;
