//! Both clocks of a machine, and the time that does not count.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use agentline_core::{Now, Time};

/// Counts from the start of the machine, without the time that was lost: in which the process did not run, or had not
/// read yet what came before.
pub(crate) struct Clock {
    start: Instant,
    lost: Duration,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self { start: Instant::now(), lost: Duration::ZERO }
    }

    pub(crate) fn now(&self) -> Now {
        let mono = Time::ZERO + self.start.elapsed().saturating_sub(self.lost);
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Now { mono, unix }
    }

    /// It is that time again: what has passed since is lost.
    pub(crate) fn stand_at(&mut self, time: Time) -> Now {
        let now = self.now();
        self.lost += now.mono.since(time);
        Now { mono: time, ..now }
    }

    /// As if that much time had passed.
    #[cfg(test)]
    pub(crate) fn jump(&mut self, time: Duration) {
        self.start = self.start.checked_sub(time).unwrap_or(self.start);
    }

    /// When it will be that time; `None` when that is too far away to tell.
    pub(crate) fn at(&self, time: Time) -> Option<Instant> {
        self.start.checked_add(self.lost)?.checked_add(time.since(Time::ZERO))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lost_does_not_count() {
        let mut clock = Clock::start();
        let hour = Duration::from_secs(3600);
        clock.jump(hour);
        assert!(clock.now().mono >= Time::ZERO + hour);
        let stood = Time::ZERO + Duration::from_secs(5);
        assert_eq!(clock.stand_at(stood).mono, stood);
        let left = clock.at(stood + hour).expect("no far time").duration_since(Instant::now());
        assert!(clock.now().mono >= stood && left <= hour && clock.now().mono < Time::ZERO + hour);
    }
}
