//! The loop: feed the machine what is ready, let the application have what it said, wait.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use agentline_core::Machine;
use agentline_os::{Engine, Given, Poller, Round, Shared};
use async_io::{Async, Timer};

use crate::events::Events;
use crate::wakers::Wakers;

/// Starts a machine: its events, and the future that drives it.
///
/// # Errors
///
/// The system has no descriptor left.
pub fn spawn<M: Machine>(config: M::Config) -> io::Result<(Events<M>, Driver<M>)> {
    spawn_with_given(config, [])
}

/// Starts a machine that opens links to streams which are there already: the first is number 0.
///
/// # Errors
///
/// The system has no descriptor left.
pub fn spawn_with_given<M: Machine>(
    config: M::Config,
    given: impl IntoIterator<Item = Given>,
) -> io::Result<(Events<M>, Driver<M>)> {
    let engine = Engine::with_given(config, given)?;
    let poller = Async::new_nonblocking(engine.poller())?;
    let shared = Arc::new(Shared::new(engine, Wakers::new()));
    let driver = Driver {
        shared: Arc::clone(&shared),
        poller,
        round: Round::default(),
        timer: Timer::never(),
        alarm: None,
    };
    Ok((Events::new(shared), driver))
}

/// A machine with its links, driven by an executor until the machine has ended.
///
/// Nothing is read while an event is not yet taken, so a slow application slows its peers down and no queue
/// grows. Dropped, it kills what children there are, with their groups.
pub struct Driver<M: Machine> {
    shared: Arc<Shared<M, Wakers>>,
    poller: Async<Poller>,
    round: Round,
    timer: Timer,
    /// What the timer is set to: the deadline, or an earlier one that has moved since, for setting it costs more than
    /// a needless look.
    alarm: Option<Instant>,
}

impl<M: Machine> Future for Driver<M> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        for _ in 0..TURNS {
            if this.shared.seat().engine.is_over() {
                return Poll::Ready(());
            }
            let reads = !this.shared.seat().engine.has_told();
            if reads && this.round.is_empty() && this.poller.get_ref().look(&mut this.round).is_err() {
                // Nothing would ever be heard again.
                this.shared.step(Engine::abandon);
                return Poll::Ready(());
            }
            let idle = !reads || this.round.is_empty();
            this.shared.step(|engine| engine.turn(&mut this.round));
            if idle {
                return this.wait(context);
            }
        }
        // Others of this executor want to go on as well.
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

impl<M: Machine> Driver<M> {
    /// Sees to it that we are polled when there is something to do.
    fn wait(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let mut seat = self.shared.seat();
        if seat.engine.is_over() {
            return Poll::Ready(());
        }
        let (reads, until) = (!seat.engine.has_told(), seat.engine.deadline());
        seat.alert.driver = Some(context.waker().clone());
        seat.alert.alarm = self.alarm.into_iter().chain(until).min();
        drop(seat);
        if self.set(until, context).is_ready() || reads && self.listen(context).is_ready() {
            context.waker().wake_by_ref();
        }
        Poll::Pending
    }

    /// Ready: the deadline has come, and is served after one more look.
    fn set(&mut self, until: Option<Instant>, context: &mut Context<'_>) -> Poll<()> {
        let Some(until) = until else { return Poll::Pending };
        loop {
            if self.alarm.is_none_or(|alarm| until < alarm) {
                self.timer.set_at(until);
                self.alarm = Some(until);
            }
            if Pin::new(&mut self.timer).poll(context).is_pending() {
                return Poll::Pending;
            }
            self.alarm = None;
            if until <= Instant::now() {
                return Poll::Ready(());
            }
        }
    }

    /// Asks for a call when the poller finds something. Ready: it cannot be asked.
    fn listen(&self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            match self.poller.poll_readable(context) {
                Poll::Pending => return Poll::Pending,
                // That call was for what is dealt with already.
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(_)) => return Poll::Ready(()),
            }
        }
    }
}

impl<M: Machine> Drop for Driver<M> {
    fn drop(&mut self) {
        self.shared.step(Engine::abandon);
    }
}

/// Turns of one poll.
const TURNS: usize = 256;
