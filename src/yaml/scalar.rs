//! The meaning of a plain word: YAML 1.2's core schema, and how YAML 1.1 tools read the same word.

use super::Data;

/// The type of a scalar. Numbers are parsed each time they are requested.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Core {
    Null,
    Bool,
    Int,
    Float,
    Str,
}

/// How a YAML 1.1 reader interprets a plain word that the core schema interprets differently.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Yaml11 {
    /// `yes`, `No`, `on`, `y`, …
    Bool(bool),
    /// `010`
    Octal(i64),
    /// `1_000`, `0b11`
    Int(i64),
    /// `1_000.5`
    Float(f64),
}

/// Returns the core schema's type of a plain scalar.
pub(super) fn core(text: &str) -> Core {
    match text.as_bytes() {
        [] => Core::Null,
        [b'0'..=b'9' | b'+' | b'-' | b'.', ..] => number(text),
        [b'~' | b'n' | b'N' | b't' | b'T' | b'f' | b'F', ..] => match text {
            "~" | "null" | "Null" | "NULL" => Core::Null,
            "true" | "True" | "TRUE" | "false" | "False" | "FALSE" => Core::Bool,
            _ => Core::Str,
        },
        _ => Core::Str,
    }
}

/// Returns the value of a scalar whose type was determined by [`core`] or by a matching tag.
pub(super) fn data(core: Core, text: &str) -> Data<'_> {
    match core {
        Core::Null => Data::Null,
        Core::Bool => Data::Bool(text.starts_with(['t', 'T'])),
        Core::Str => Data::Str(text),
        Core::Float => Data::Float(float(text)),
        Core::Int => {
            let parsed = match text.as_bytes() {
                [b'0', b'o', ..] => i64::from_str_radix(&text[2..], 8),
                [b'0', b'x', ..] => i64::from_str_radix(&text[2..], 16),
                _ => text.parse(),
            };
            parsed.map_or_else(|_| Data::Float(big_int(text)), Data::Int)
        }
    }
}

fn number(text: &str) -> Core {
    let digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
    if let Some(octal) = text.strip_prefix("0o") {
        let fits = !octal.is_empty() && octal.bytes().all(|b| matches!(b, b'0'..=b'7'));
        return if fits { Core::Int } else { Core::Str };
    }
    if let Some(hex) = text.strip_prefix("0x") {
        let fits = !hex.is_empty() && hex.bytes().all(|b| b.is_ascii_hexdigit());
        return if fits { Core::Int } else { Core::Str };
    }
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits(unsigned) {
        return Core::Int;
    }
    if matches!(unsigned, ".inf" | ".Inf" | ".INF") || matches!(text, ".nan" | ".NaN" | ".NAN") {
        return Core::Float;
    }
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent.strip_prefix(['+', '-']).unwrap_or(exponent))),
        None => (unsigned, None),
    };
    let mantissa = match mantissa.split_once('.') {
        Some(("", fraction)) => digits(fraction),
        Some((whole, fraction)) => digits(whole) && (fraction.is_empty() || digits(fraction)),
        None => digits(mantissa),
    };
    if mantissa && exponent.is_none_or(digits) { Core::Float } else { Core::Str }
}

fn float(text: &str) -> f64 {
    match text.trim_start_matches(['+', '-']) {
        ".inf" | ".Inf" | ".INF" if text.starts_with('-') => f64::NEG_INFINITY,
        ".inf" | ".Inf" | ".INF" => f64::INFINITY,
        ".nan" | ".NaN" | ".NAN" => f64::NAN,
        // An integer under `!!float` may be written in any base.
        _ => text.parse().unwrap_or_else(|_| big_int(text)),
    }
}

/// Returns the JSON number that is exactly this one, however large; `None` for infinities and for what is not a
/// number.
pub(super) fn exact(text: &str) -> Option<serde_json::Number> {
    let in_base =
        |digits: &str, base| digits.chars().try_fold(vec![0], |sum, c| Some(shifted(sum, base, c.to_digit(base)?)));
    let digits = match text.as_bytes() {
        [b'0', b'o', ..] => in_base(&text[2..], 8)?,
        [b'0', b'x', ..] => in_base(&text[2..], 16)?,
        _ => {
            // JSON allows no plus sign and no leading zeros, and requires digits on both sides of a point.
            let (sign, rest) = text.strip_prefix('-').map_or(("", text), |rest| ("-", rest));
            let rest = rest.strip_prefix('+').unwrap_or(rest);
            let (mantissa, exponent) = rest.split_at(rest.find(['e', 'E']).unwrap_or(rest.len()));
            let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
            let whole = match whole.trim_start_matches('0') {
                "" => "0",
                whole => whole,
            };
            let point = if fraction.is_empty() { "" } else { "." };
            return format!("{sign}{whole}{point}{fraction}{exponent}").parse().ok();
        }
    };
    let text: String = digits.iter().rev().map(|&d| char::from(b'0' + d)).collect();
    text.parse().ok()
}

/// Returns `digits × base + digit`, in decimal digits, with the last one first.
fn shifted(mut digits: Vec<u8>, base: u32, digit: u32) -> Vec<u8> {
    let mut carry = digit;
    for d in &mut digits {
        carry += u32::from(*d) * base;
        *d = (carry % 10) as u8;
        carry /= 10;
    }
    while carry > 0 {
        digits.push((carry % 10) as u8);
        carry /= 10;
    }
    digits
}

fn big_int(text: &str) -> f64 {
    let in_base = |digits: &str, base: u32| {
        digits.chars().filter_map(|c| c.to_digit(base)).fold(0.0, |sum, d| sum * f64::from(base) + f64::from(d))
    };
    match text.as_bytes() {
        [b'0', b'o', ..] => in_base(&text[2..], 8),
        [b'0', b'x', ..] => in_base(&text[2..], 16),
        _ => text.parse().unwrap_or(f64::NAN),
    }
}

/// Returns how Go's yaml.v2, and every tool based on `sigs.k8s.io/yaml`, reads a plain word, if that differs from the
/// core schema: booleans (`yes`, `off`, `y`, …), octal numbers (`010`), and numbers with `_` or in binary.
pub fn yaml11(text: &str) -> Option<Yaml11> {
    match text {
        "y" | "Y" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" => return Some(Yaml11::Bool(true)),
        "n" | "N" | "no" | "No" | "NO" | "off" | "Off" | "OFF" => return Some(Yaml11::Bool(false)),
        _ if !text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-')) => return None,
        _ => {}
    }
    let plain = text.replace('_', "");
    let (sign, digits) = match plain.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, plain.strip_prefix('+').unwrap_or(&plain)),
    };
    let radix = |digits: &str, radix| {
        // `from_str_radix` would accept a sign here, but Go never does.
        let clean = digits.bytes().all(|b| b.is_ascii_alphanumeric());
        i64::from_str_radix(digits, radix).ok().filter(|_| clean).map(|i| sign * i)
    };
    let lower = digits.to_ascii_lowercase();
    let ours = data(core(text), text);
    let theirs = if let Some(binary) = lower.strip_prefix("0b") {
        Yaml11::Int(radix(binary, 2)?)
    } else if let Some(octal) = lower.strip_prefix("0o") {
        Yaml11::Octal(radix(octal, 8)?)
    } else if let Some(hex) = lower.strip_prefix("0x") {
        Yaml11::Int(radix(hex, 16)?)
    } else if let Some(octal) = digits.strip_prefix('0').and_then(|rest| radix(rest, 8)) {
        Yaml11::Octal(octal)
    } else {
        match number(&plain) {
            Core::Int => Yaml11::Int(plain.parse().ok()?),
            Core::Float => Yaml11::Float(float(&plain)),
            _ => return None,
        }
    };
    let same = match (theirs, ours) {
        (Yaml11::Octal(i) | Yaml11::Int(i), Data::Int(j)) => i == j,
        (Yaml11::Float(f), Data::Float(g)) => f == g || f.is_nan() && g.is_nan(),
        _ => false,
    };
    (!same).then_some(theirs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_their_digits() {
        for (text, json) in [
            ("+1", "1"),
            ("-007", "-7"),
            (".5", "0.5"),
            ("1.", "1"),
            ("-1.50e+3", "-1.50e+3"),
            ("0x10000000000000001", "18446744073709551617"),
            ("0o17", "15"),
            ("0x0", "0"),
            ("18446744073709551617", "18446744073709551617"),
            ("1e400", "1e+400"),
        ] {
            assert_eq!(exact(text).map(|n| n.to_string()).as_deref(), Some(json), "{text}");
        }
        assert_eq!([".inf", "-.inf", ".nan"].map(exact), [None, None, None]);
    }

    #[test]
    fn plain_words_follow_the_core_schema() {
        for (text, expected) in [
            ("", Data::Null),
            ("~", Data::Null),
            ("NULL", Data::Null),
            ("nULL", Data::Str("nULL")),
            ("True", Data::Bool(true)),
            ("FALSE", Data::Bool(false)),
            ("yes", Data::Str("yes")),
            ("010", Data::Int(10)),
            ("-12", Data::Int(-12)),
            ("0o17", Data::Int(15)),
            ("0xFf", Data::Int(255)),
            ("0x", Data::Str("0x")),
            ("-0x1", Data::Str("-0x1")),
            ("1_000", Data::Str("1_000")),
            ("+", Data::Str("+")),
            (".", Data::Str(".")),
            (".5", Data::Float(0.5)),
            ("5.", Data::Float(5.0)),
            ("1e3", Data::Float(1000.0)),
            ("1e", Data::Str("1e")),
            ("-.inf", Data::Float(f64::NEG_INFINITY)),
            ("9223372036854775808", Data::Float(9_223_372_036_854_775_808.0)),
            ("0xffffffffffffffff", Data::Float(18_446_744_073_709_551_615.0)),
            ("1.2.3", Data::Str("1.2.3")),
            ("12:30", Data::Str("12:30")),
        ] {
            assert_eq!(data(core(text), text), expected, "{text}");
        }
    }

    #[test]
    fn only_words_with_another_meaning_in_yaml_1_1_are_reported() {
        assert_eq!(yaml11("yes"), Some(Yaml11::Bool(true)));
        assert_eq!(yaml11("N"), Some(Yaml11::Bool(false)));
        assert_eq!(yaml11("yEs"), None);
        assert_eq!(yaml11("true"), None);
        assert_eq!(yaml11("010"), Some(Yaml11::Octal(8)));
        assert_eq!(yaml11("-010"), Some(Yaml11::Octal(-8)));
        assert_eq!(yaml11("07"), None);
        assert_eq!(yaml11("089"), None);
        assert_eq!(yaml11("0"), None);
        assert_eq!(yaml11("0o17"), None);
        assert_eq!(yaml11("1_000"), Some(Yaml11::Int(1000)));
        assert_eq!(yaml11("0b11"), Some(Yaml11::Int(3)));
        assert_eq!(yaml11("10"), None);
        assert_eq!(yaml11("1.5"), None);
        assert_eq!(yaml11("-"), None);
        assert_eq!(yaml11("12:30"), None);
    }
}
