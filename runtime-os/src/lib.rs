//! Machines in an event loop of your own: every system call that does not wait.
//!
//! The runtimes of this project are two loops around an [`Engine`]. If neither fits, write the third:
//!
//! ```
//! # use agentline_core::Machine;
//! # fn run<M: Machine>(config: M::Config, mut application: impl FnMut(M::Event, &mut agentline_os::Engine<M>))
//! # -> std::io::Result<()> {
//! use agentline_os::{Engine, Round};
//!
//! let mut engine = Engine::<M>::new(config)?;
//! let (poller, mut round) = (engine.poller(), Round::default());
//! loop {
//!     while let Some(event) = engine.told() {
//!         application(event, &mut engine); // … engine.command(…)
//!     }
//!     if engine.is_over() {
//!         return Ok(());
//!     }
//!     if round.is_empty() {
//!         poller.wait(&mut round, engine.deadline())?; // the only wait
//!     }
//!     engine.turn(&mut round);
//! }
//! # }
//! ```
//!
//! In a loop that waits for other things as well, the [`Poller`] is one descriptor: wait until it is readable or
//! [`Engine::deadline`] has come, then [`look`](Poller::look), which never waits. `examples/poll_loop.rs` does it with
//! `poll(2)` and `examples/tokio_loop.rs` with tokio, both without `unsafe`.
//!
//! ```text
//!   Machine ◄──► Engine ──► links: children · sockets · given streams · stored files     never waits
//!                   └─────► Poller: what is ready                                        the only wait, yours
//! ```
//!
//! # What a loop owes
//!
//! * Take every event before the next [`turn`](Engine::turn). While one is not taken nothing is read: so a slow
//!   application slows its peers down, and no queue grows. The clocks of peers stand still meanwhile, by
//!   [`Input::Hold`](agentline_core::Input::Hold), which the engine feeds; a loop never does.
//! * Look right before a turn that may serve a deadline. What lies in a pipe is then read before any deadline is
//!   served, however late the loop is: after SIGSTOP and SIGCONT, in a debugger, on a machine that was frozen. The time
//!   of that lateness is not counted.
//! * Drop the engine, or [`abandon`](Engine::abandon) it, when the loop ends early: children are killed with their
//!   groups, private sockets are removed. [`guardian::arm`] does that for a process that dies.
//!
//! # What a machine may rely on
//!
//! * The exit of a child may be told before its last bytes: these are in the pipe, and somebody else may hold its other
//!   end. Its last words on standard error are told before.
//! * [`Output::Store`](agentline_core::Output::Store) is carried out before the next output, by temporary file and
//!   rename; only a failure is answered. A loop without files answers each one with
//!   [`Input::StoreFailed`](agentline_core::Input::StoreFailed).
//! * Late, early and repeated readiness is harmless.
//!
//! Nothing here decides: whatever the system says becomes an input of the machine. Linux and other Unix systems;
//! `polling` waits where there is no epoll.

mod birth;
mod clock;
pub mod detached;
mod engine;
mod errno;
pub mod file;
pub mod files;
mod given;
pub mod guardian;
mod handle;
mod hangup;
mod io;
mod lock;
pub mod look;
mod poll;
pub mod process;
mod providers;
pub mod socket;
pub mod store;
mod stream;
pub mod trust;
mod watch;
pub mod workspace;

pub use engine::{Batch, Engine};
pub use given::Given;
pub use handle::{Alert, Handle, Seat, Shared};
pub use lock::Lock;
pub use poll::{Poller, Round};
pub use providers::Providers;
