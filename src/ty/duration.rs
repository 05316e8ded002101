//! Durations in Go's syntax (`300ms`, `1.5h`, `2m30s`), which all dialects share (§0.4 of the upstream behavior).

use std::{fmt, time::Duration};

/// Why a text is not a duration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    Empty,
    /// A bare number: the unit is missing.
    NoUnit,
    UnknownUnit,
    NoNumber,
    Negative,
    TooLong,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "it is empty",
            Self::NoUnit => "the unit is missing",
            Self::UnknownUnit => "the unit is not one of ns, us, ms, s, m, h",
            Self::NoNumber => "a number is missing",
            Self::Negative => "it is negative",
            Self::TooLong => "it is longer than 292 years",
        })
    }
}

const UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Parses a duration. `0` alone needs no unit, as in Go.
///
/// # Errors
/// There is no number or no unit, or the duration is too long.
pub fn parse(text: &str) -> Result<Duration, Fault> {
    let (negative, mut rest) = match text.as_bytes().first() {
        None => return Err(Fault::Empty),
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        Some(_) => (false, text),
    };
    if rest == "0" {
        return Ok(Duration::ZERO);
    }
    if rest.is_empty() {
        return Err(Fault::NoNumber);
    }
    let mut nanos = 0f64;
    let mut whole = 0u128;
    while !rest.is_empty() {
        let number = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').len();
        let value: f64 = rest[..number].parse().map_err(|_| Fault::NoNumber)?;
        let exact: Option<u128> = rest[..number].parse().ok();
        rest = &rest[number..];
        let unit = rest.len() - rest.trim_start_matches(|c: char| !c.is_ascii_digit() && c != '.').len();
        if unit == 0 {
            return Err(Fault::NoUnit);
        }
        let (_, scale) = UNITS.iter().find(|(u, _)| *u == &rest[..unit]).ok_or(Fault::UnknownUnit)?;
        match exact.and_then(|n| n.checked_mul(u128::from(*scale))) {
            Some(n) => whole = whole.saturating_add(n),
            None => nanos += value * *scale as f64,
        }
        rest = &rest[unit..];
    }
    let total = whole.saturating_add(nanos as u128);
    if total > i64::MAX as u128 {
        return Err(Fault::TooLong);
    }
    match negative && total > 0 {
        true => Err(Fault::Negative),
        false => Ok(Duration::from_nanos(total as u64)),
    }
}

/// Formats a duration in the same syntax, in its shortest form: `1m30s`, `250ms`, `0s`.
pub fn format(duration: Duration) -> String {
    let nanos = duration.as_nanos();
    if nanos == 0 {
        return "0s".to_owned();
    }
    if nanos < 1_000_000_000 {
        let (scale, unit) = [(1_000_000, "ms"), (1_000, "us"), (1, "ns")]
            .into_iter()
            .find(|(scale, _)| nanos.is_multiple_of(*scale))
            .unwrap_or((1, "ns"));
        return format!("{}{unit}", nanos / scale);
    }
    let (seconds, fraction) = (duration.as_secs(), duration.subsec_nanos());
    let (h, m, s) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let mut out = String::new();
    if h > 0 {
        out += &format!("{h}h");
    }
    if m > 0 {
        out += &format!("{m}m");
    }
    if s > 0 || fraction > 0 {
        let fraction = format!("{fraction:09}");
        let fraction = fraction.trim_end_matches('0');
        let point = if fraction.is_empty() { "" } else { "." };
        out += &format!("{s}{point}{fraction}s");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn go_syntax() {
        assert_eq!(parse("1h30m"), Ok(Duration::from_secs(5400)));
        assert_eq!(parse("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(parse("0"), Ok(Duration::ZERO));
        assert_eq!(parse("-5m"), Err(Fault::Negative));
        assert_eq!(parse("30"), Err(Fault::NoUnit));
        assert_eq!(parse("5 min"), Err(Fault::UnknownUnit));
        assert_eq!(parse(""), Err(Fault::Empty));
        assert_eq!(parse("s"), Err(Fault::NoNumber));
        assert_eq!(parse("999999999h"), Err(Fault::TooLong));
    }

    #[test]
    fn durations_round_trip() {
        for text in ["1h", "2m30s", "250ms", "1.5s", "1us", "1h0.5s", "0s"] {
            assert_eq!(format(parse(text).unwrap()), text);
        }
    }
}
