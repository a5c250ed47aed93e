//! Times of day for the wire.

use std::fmt;
use std::time::Duration;

/// A time since the Unix epoch as ISO 8601 in UTC, to the second: `2026-05-07T13:51:00+00:00`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Timestamp(pub(crate) Duration);

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        let (year, month, day) = date(seconds / DAY);
        let (hour, minute, second) = (seconds % DAY / 3600, seconds % 3600 / 60, seconds % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}+00:00")
    }
}

const DAY: u64 = 86_400;

/// Year, month and day of a day since the Unix epoch. Years begin in March here, so that the day that some
/// of them lack is their last one; 400 of them are always 146,097 days.
const fn date(day: u64) -> (u64, u64, u64) {
    let day = day + DAYS_BEFORE_1970;
    let (cycle, day) = (day / 146_097, day % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (cycle * 400 + year + next, month, day)
}

/// From the first of March of the year 0.
const DAYS_BEFORE_1970: u64 = 719_468;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_dates() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00+00:00"),
            (951_782_399, "2000-02-28T23:59:59+00:00"),
            (951_782_400, "2000-02-29T00:00:00+00:00"),
            (951_868_800, "2000-03-01T00:00:00+00:00"),
            (1_778_161_860, "2026-05-07T13:51:00+00:00"),
            (1_798_761_599, "2026-12-31T23:59:59+00:00"),
            (4_107_542_400, "2100-03-01T00:00:00+00:00"),
            (253_402_300_799, "9999-12-31T23:59:59+00:00"),
        ] {
            assert_eq!(Timestamp(Duration::from_secs(seconds)).to_string(), text);
        }
    }

    #[test]
    fn each_day_follows_the_one_before() {
        let mut before = date(0);
        for day in 1..200_000 {
            let (year, month, number) = date(day);
            let next = number == before.2 + 1 && (year, month) == (before.0, before.1);
            let first =
                number == 1 && before.2 >= 28 && (year * 12 + month) == (before.0 * 12 + before.1 + 1);
            assert!(next || first, "{before:?} {:?}", (year, month, number));
            before = (year, month, number);
        }
    }
}
