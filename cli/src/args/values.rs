//! Values of options, as they are typed.

use std::time::Duration;

use clap::ValueEnum;

/// A name of something, which is never nothing.
pub(crate) fn id(text: &str) -> Result<String, &'static str> {
    if text.trim().is_empty() { Err("is empty") } else { Ok(text.to_owned()) }
}

/// `500ms`, `10s`, `5m`; a bare number is seconds.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let seconds = || text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let span = seconds().map_or_else(|| humantime::parse_duration(text), Ok);
    match span {
        Ok(Duration::ZERO) => Err("must be longer than nothing".into()),
        Ok(span) => Ok(span),
        Err(_) => Err("is no time such as 500ms, 10s or 5m".into()),
    }
}

/// An amount such as 0.50, in millionths.
pub(super) fn amount(text: &str) -> Result<u64, &'static str> {
    const WRONG: &str = "is no amount such as 0.50";
    let (whole, rest) = text.split_once('.').unwrap_or((text, ""));
    let is_number = |digits: &str| digits.bytes().all(|digit| digit.is_ascii_digit());
    if whole.len() + rest.len() == 0
        || whole.len() > 12
        || rest.len() > 6
        || !is_number(whole)
        || !is_number(rest)
    {
        return Err(WRONG);
    }
    format!("{whole}{rest:0<6}").parse().map_err(|_| WRONG)
}

/// On or off.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum Switch {
    On,
    Off,
}

/// `OPTION=VALUE`.
pub(crate) fn pair(text: &str) -> Result<(String, String), &'static str> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.into(), value.into())),
        Some(_) | None => Err("expected OPTION=VALUE"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_number_is_seconds() {
        for (text, millis) in [("500ms", 500), ("10s", 10_000), ("5m", 300_000), ("3", 3000), ("0.5", 500)] {
            assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for bad in ["", "0", "0s", "-1", "ten", "inf", "NaN", "10 apples", "1e999"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_amount_is_read_to_the_millionth() {
        for (text, millionths) in
            [("1", 1_000_000), ("0.5", 500_000), (".25", 250_000), ("2.", 2_000_000), ("0", 0)]
        {
            assert_eq!(amount(text), Ok(millionths), "{text}");
        }
        for bad in ["", ".", "-1", "1e3", "1.0000001", "1,5", "$1", "1.-5"] {
            assert!(amount(bad).is_err(), "{bad}");
        }
    }
}
