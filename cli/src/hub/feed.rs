//! Streams that are followed, each on a thread and a connection of its own. A machine that is lost is tried again.

use std::thread;
use std::time::{Duration, Instant};

use agentline_core::hub::api::Method;

use super::client::{Link, Said};
use super::place::unreachable;
use super::reach::{Route, To};
use crate::words::{Kind, Problem};

/// What comes of a stream that is followed.
pub(crate) enum Heard {
    /// What it brings. Its end is the last.
    Said(Said),
    /// It broke off, and is tried again. Then it begins with the present state.
    Lost(Problem),
    /// It is over.
    Over(Problem),
}

/// How long somebody who cannot be reached is tried again.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Again {
    /// For ever, from the first time on: there are others.
    Always,
    /// Another machine, once it was reached, and at most for so long.
    Far(Duration),
}

impl Again {
    /// For what is watched at so many places.
    pub(crate) const fn of(places: usize) -> Self {
        if places > 1 { Self::Always } else { Self::Far(GIVES_UP) }
    }
}

/// Follows a stream until it is over, or nobody listens: `tell` says whether somebody does. `link`: the first
/// connection, where there is one.
pub(crate) fn follow<M: Method + Clone + Send + 'static>(
    (to, route): (&To, &Route),
    link: Option<Link>,
    method: M,
    again: Again,
    mut tell: impl FnMut(Heard) -> bool + Send + 'static,
) {
    let (to, route) = (to.clone(), route.clone());
    let mut tries =
        Tries { again, is_far: route.is_far(), reached: link.is_some(), lost: None, pause: FIRST };
    let mut link = link;
    thread::spawn(move || {
        loop {
            let connected = link.take().map_or_else(|| to.reach(&route, None), Ok);
            let end = connected.and_then(|link| pass(link, &method, &mut tries, &mut tell));
            let problem = match end {
                Ok(()) => return,
                Err(problem) => problem,
            };
            let first = tries.lost.is_none();
            let Some(pause) = tries.after(&problem, Instant::now()) else {
                tell(Heard::Over(problem));
                return;
            };
            if first && !tell(Heard::Lost(problem)) {
                return;
            }
            thread::sleep(pause);
        }
    });
}

/// Passes on what a stream brings. An error: it broke off. Otherwise its end was told, or nobody listens.
fn pass<M: Method>(
    link: Link,
    method: &M,
    tries: &mut Tries,
    tell: &mut impl FnMut(Heard) -> bool,
) -> Result<(), Problem> {
    let name = link.route.name();
    let mut stream = link.stream(method)?;
    loop {
        let said = stream.next()?;
        if let Said::End(reason) = &said
            && is_loss(reason)
            && tries.is_tried()
        {
            return Err(unreachable(format!("{name}: {}", crate::session::over(reason))));
        }
        tries.reached();
        let is_last = matches!(said, Said::End(_));
        if !tell(Heard::Said(said)) || is_last {
            return Ok(());
        }
    }
}

/// Whether a stream that ends by that word has lost what it looked at.
pub(crate) fn is_loss(reason: &str) -> bool {
    matches!(reason, "hub_stopping" | "lagging" | "stalled")
}

/// When somebody who was lost is tried again.
struct Tries {
    again: Again,
    is_far: bool,
    reached: bool,
    /// Since when it is lost.
    lost: Option<Instant>,
    pause: Duration,
}

impl Tries {
    const fn is_tried(&self) -> bool {
        match self.again {
            Again::Always => true,
            Again::Far(_) => self.is_far && self.reached,
        }
    }

    fn reached(&mut self) {
        (self.reached, self.lost, self.pause) = (true, None, FIRST);
    }

    /// How long to wait before the next time. `None`: there is none.
    fn after(&mut self, problem: &Problem, now: Instant) -> Option<Duration> {
        if problem.kind != Kind::Unreachable || !self.is_tried() {
            return None;
        }
        let since = *self.lost.get_or_insert(now);
        let pause = self.pause;
        self.pause = (pause * 2).min(LAST);
        match self.again {
            Again::Far(limit) if now + pause > since + limit => None,
            Again::Far(_) | Again::Always => Some(pause),
        }
    }
}

/// Before somebody is tried again for the first time, and at most, each time twice as long.
const FIRST: Duration = Duration::from_secs(1);
const LAST: Duration = Duration::from_secs(60);
/// A machine that is not back by then is given up, if nothing else is watched.
const GIVES_UP: Duration = Duration::from_secs(300);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::Phase;

    /// The pauses in seconds until it is given up, or so many of them.
    fn pauses(again: Again, is_far: bool, reached: bool, most: usize) -> Vec<u64> {
        let mut tries = Tries { again, is_far, reached, lost: None, pause: FIRST };
        let mut now = Instant::now();
        let next = || {
            let pause = tries.after(&unreachable("gone"), now)?;
            now += pause;
            Some(pause.as_secs())
        };
        std::iter::from_fn(next).take(most).collect()
    }

    #[test]
    fn a_lost_machine_is_tried_again_less_and_less_often() {
        assert_eq!(pauses(Again::of(2), false, false, 9), [1, 2, 4, 8, 16, 32, 60, 60, 60]);
        assert_eq!(pauses(Again::of(1), true, true, 99), [1, 2, 4, 8, 16, 32, 60, 60, 60]);
        assert!(pauses(Again::of(1), true, false, 9).is_empty(), "it was never there");
        assert!(pauses(Again::of(1), false, true, 9).is_empty(), "our own hub is gone");
        let mut tries = Tries { again: Again::Always, is_far: true, reached: true, lost: None, pause: FIRST };
        let refused = Problem::new(Phase::Session, Kind::NotFound, "no session");
        assert_eq!(tries.after(&refused, Instant::now()), None);
    }
}
