//! The loop: feed the machine what is ready, let the application have what it said, wait.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use agentline_core::Machine;
use agentline_os::{Engine, Given, Token, Way};
use smol::Timer;

use crate::events::Events;
use crate::handle::Shared;

/// Starts a machine: its events, and the future that drives it.
#[must_use]
pub fn spawn<M: Machine>(config: M::Config) -> (Events<M>, Driver<M>) {
    start(config, None)
}

/// Starts a machine that opens a link to a stream which is there already.
#[must_use]
pub fn spawn_with_given<M: Machine>(config: M::Config, given: Given) -> (Events<M>, Driver<M>) {
    start(config, Some(given))
}

fn start<M: Machine>(config: M::Config, given: Option<Given>) -> (Events<M>, Driver<M>) {
    let shared = Arc::new(Shared::new(config, given));
    let driver = Driver {
        shared: Arc::clone(&shared),
        ready: VecDeque::new(),
        timer: Timer::never(),
        alarm: Alarm::Off,
    };
    (Events::new(shared), driver)
}

/// A machine with its links, driven by an executor until the machine has ended.
///
/// The machine is told to hold while an event is not yet taken, so a slow application slows its peers down
/// and no queue grows. Dropped, it kills what children there are, with their groups.
pub struct Driver<M: Machine> {
    shared: Arc<Shared<M>>,
    ready: VecDeque<(Token, Way)>,
    timer: Timer,
    alarm: Alarm,
}

/// What the timer does.
#[derive(Clone, Copy)]
enum Alarm {
    Off,
    /// It is set to the deadline, or to an earlier one that has moved since: setting it costs more than a
    /// needless tick.
    Set(Instant),
    /// It has fired. Whatever is ready comes before the tick, however late we are.
    Fired,
}

impl<M: Machine> Future for Driver<M> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        this.shared.bell.answer(context.waker());
        this.shared.bell.take(&mut this.ready);
        BUFFER.with_borrow_mut(|buffer| {
            while let Some((token, way)) = this.ready.pop_front() {
                this.shared.step(|engine| engine.ready(token, way, buffer));
            }
        });
        if let Alarm::Fired = this.alarm {
            this.alarm = Alarm::Off;
            this.shared.step(Engine::tick);
        }
        let seat = this.shared.seat();
        if seat.engine.is_over() {
            return Poll::Ready(());
        }
        let until = seat.engine.deadline();
        drop(seat);
        this.wait(until, context);
        Poll::Pending
    }
}

impl<M: Machine> Driver<M> {
    /// Sees to it that we are polled at the deadline.
    fn wait(&mut self, until: Option<Instant>, context: &mut Context<'_>) {
        match (self.alarm, until) {
            (Alarm::Set(at), Some(until)) if at <= until => {}
            (_, Some(until)) => {
                self.timer.set_at(until);
                self.alarm = Alarm::Set(until);
            }
            (_, None) => {}
        }
        if let Alarm::Set(_) = self.alarm
            && Pin::new(&mut self.timer).poll(context).is_ready()
        {
            self.alarm = Alarm::Fired;
            context.waker().wake_by_ref();
        }
    }
}

impl<M: Machine> Drop for Driver<M> {
    fn drop(&mut self) {
        self.shared.step(Engine::abandon);
    }
}

thread_local! {
    /// One for all drivers of a thread of the executor: nothing stays in it between two polls.
    static BUFFER: RefCell<Box<[u8]>> = RefCell::new(vec![0; READ].into());
}

/// Bytes of one read: what a pipe holds.
const READ: usize = 64 << 10;
