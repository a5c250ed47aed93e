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

impl Timestamp {
    /// Reads an RFC 3339 time, to the second; without a zone it is UTC. `None`: it is none, or before the epoch.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (date, rest) = text.split_once(['T', 't', ' '])?;
        let [year, month, day] = numbers(date, '-')?;
        let zone = rest.find(['Z', 'z', '+', '-']).unwrap_or(rest.len());
        let (time, zone) = rest.split_at(zone);
        let [hour, minute, second] = numbers(time.split('.').next()?, ':')?;
        if !(1..=12).contains(&month) || !(1..=31).contains(&day) || hour > 23 || minute > 59 || second > 60 {
            return None;
        }
        let seconds = day_of(year, month, day)?.checked_mul(DAY)? + hour * 3600 + minute * 60 + second;
        let offset = match zone.split_at_checked(1) {
            Some(("+" | "-", offset)) => {
                let [hours, minutes] = numbers(offset, ':')?;
                hours * 3600 + minutes * 60
            }
            Some(_) | None => 0,
        };
        let seconds = if zone.starts_with('-') { seconds + offset } else { seconds.checked_sub(offset)? };
        Some(Self(Duration::from_secs(seconds)))
    }
}

/// Exactly so many short numbers.
fn numbers<const N: usize>(text: &str, between: char) -> Option<[u64; N]> {
    let numbers = text.split(between).map(|part| {
        let digits = (1..=4).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
        if digits { part.parse().ok() } else { None }
    });
    numbers.collect::<Option<Vec<u64>>>()?.try_into().ok()
}

/// The inverse of [`date`].
fn day_of(year: u64, month: u64, day: u64) -> Option<u64> {
    let (month, year) = if month < 3 { (month + 9, year.checked_sub(1)?) } else { (month - 3, year) };
    let day = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1;
    day.checked_sub(DAYS_BEFORE_1970)
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
    fn what_is_written_is_read_and_what_is_no_time_is_not() {
        for seconds in (0..5_000_000_000u64).step_by(7_654_321) {
            let at = Timestamp(Duration::from_secs(seconds));
            assert_eq!(Timestamp::parse(&at.to_string()), Some(at));
        }
        let noon = Timestamp::parse("2026-05-07T12:00:00Z");
        assert!(noon.is_some());
        for same in [
            "2026-05-07T12:00:00.999Z",
            "2026-05-07 12:00:00",
            "2026-05-07t14:30:00+02:30",
            "2026-05-07T10:00:00.1-02:00",
        ] {
            assert_eq!(Timestamp::parse(same), noon, "{same}");
        }
        for none in [
            "",
            "T",
            "2026-05-07",
            "2026-13-01T00:00:00Z",
            "x-05-07T12:00:00Z",
            "1969-01-01T00:00:00Z",
            "2026-05-07T1é",
        ] {
            assert_eq!(Timestamp::parse(none), None, "{none}");
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
