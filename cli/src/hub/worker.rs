//! What is asked of a hub one after the other, while something else goes on: on a thread and a connection of its own.

use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use super::client::Link;
use super::reach::{Route, To};
use crate::words::Problem;

/// Asks a hub, one thing after the other.
pub(crate) struct Worker<T>(Sender<Job<T>>);

/// Something to ask of a hub, which cannot be reached perhaps.
pub(crate) type Job<T> = Box<dyn FnOnce(Asking<'_>) -> T + Send>;

/// The hub, or why it cannot be reached.
type Asking<'a> = Result<&'a mut Link, Problem>;

impl<T: 'static> Worker<T> {
    /// `done` is told what came of each; it says whether somebody listens.
    pub(crate) fn new(to: &To, route: &Route, mut done: impl FnMut(T) -> bool + Send + 'static) -> Self {
        let (to, route) = (to.clone(), route.clone());
        let (give, given) = channel::<Job<T>>();
        thread::spawn(move || {
            // Kept for the next: to another machine it takes its time.
            let mut link: Option<Link> = None;
            for job in given {
                let connected =
                    link.take().filter(|link| !link.is_over()).map_or_else(|| to.reach(&route, PATIENCE), Ok);
                let came = match connected {
                    Ok(connected) => job(Ok(link.insert(connected))),
                    Err(problem) => job(Err(problem)),
                };
                if !done(came) {
                    return;
                }
            }
        });
        Self(give)
    }

    /// Asks that when what was asked before is answered.
    pub(crate) fn send(&self, job: Job<T>) {
        // The thread ends with us only.
        let _ = self.0.send(job);
    }
}

/// An agent may take 100 s to have a session, and then the hub answers all the same.
const PATIENCE: Option<Duration> = Some(Duration::from_secs(180));
