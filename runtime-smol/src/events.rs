//! What the machine says, for the application.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use agentline_core::{Machine, Refused};
use agentline_os::{Batch, Shared};
use futures_core::Stream;

use crate::wakers::{Reader, Wakers};

/// Commands a machine from any task or thread.
pub type Handle<M> = agentline_os::Handle<M, Wakers>;

/// The events of a machine, until it has ended.
///
/// Dropped, what the machine still has to say is thrown away; [`farewell`](Events::farewell) ends it too.
pub struct Events<M: Machine> {
    shared: Arc<Shared<M, Wakers>>,
    farewell: Option<M::Command>,
}

impl<M: Machine> Events<M> {
    pub(crate) const fn new(shared: Arc<Shared<M, Wakers>>) -> Self {
        Self { shared, farewell: None }
    }

    /// The next event, or `None` when the machine has ended or its driver is gone.
    pub async fn next(&mut self) -> Option<M::Event> {
        poll_fn(|context| self.take(context)).await
    }

    /// What is commanded when the events are dropped, so that the driver ends by itself and politely.
    #[must_use]
    pub fn farewell(mut self, command: M::Command) -> Self {
        self.farewell = Some(command);
        self
    }

    /// A way to command the machine from elsewhere.
    #[must_use]
    pub fn handle(&self) -> Handle<M> {
        Handle::new(&self.shared)
    }

    /// Whether the next event is there already: asking for it waits for nothing. For who gathers output.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.shared.seat().engine.has_told()
    }

    /// Commands the machine; what it writes is written before this returns.
    ///
    /// # Errors
    ///
    /// The machine refuses, or is over.
    pub fn command(&self, command: M::Command) -> Result<(), Refused> {
        self.shared.command(command)
    }

    /// Several commands, performed together before this returns: what they write goes out in as few writes as
    /// it fits. `commands` may do nothing else with this machine.
    pub fn batch<T>(&self, commands: impl FnOnce(&mut Batch<'_, M>) -> T) -> T {
        self.shared.batch(commands)
    }

    fn take(&self, context: &Context<'_>) -> Poll<Option<M::Event>> {
        let mut seat = self.shared.seat();
        match seat.engine.told() {
            Some(event) => {
                if !seat.engine.has_told() {
                    // It reads on.
                    seat.alert.wake_driver();
                }
                Poll::Ready(Some(event))
            }
            None if seat.engine.is_over() => Poll::Ready(None),
            None => {
                seat.alert.reader = Reader::Waiting(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl<M: Machine> Stream for Events<M> {
    type Item = M::Event;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<M::Event>> {
        self.take(context)
    }
}

impl<M: Machine> Unpin for Events<M> {}

impl<M: Machine> Drop for Events<M> {
    fn drop(&mut self) {
        self.shared.seat().alert.reader = Reader::Gone;
        self.shared.step(|engine| {
            // Refused means that it leaves or is gone already.
            self.farewell.take().map(|command| engine.command(command))
        });
        self.shared.seat().alert.wake_driver();
    }
}
