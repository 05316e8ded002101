//! Compares JSON numbers by their decimal value: exactly, whatever their size and notation.

use std::cmp::Ordering;

use serde_json::{Number, Value};

/// Whether two numbers are the same: `1`, `1.0` and `10e-1` are, 2^64 and 2^64 + 1 are not.
pub fn same(a: &Number, b: &Number) -> bool {
    let (a, b) = (a.to_string(), b.to_string());
    a == b || matches!((Decimal::of(&a), Decimal::of(&b)), (Some(a), Some(b)) if a == b)
}

/// Whether two values are the same, types included. Numbers are compared by value, and the order of keys does not matter.
pub fn same_value(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => same(a, b),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same_value(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same_value(a, b)))
        }
        _ => a == b,
    }
}

/// Compares two decimal numbers exactly, with signs, leading zeros and exponents as people and programs write them. Returns `None`
/// if one is not a number.
pub fn compare(a: &str, b: &str) -> Option<Ordering> {
    let read = |text: &str| {
        let text = text.trim();
        let body = text.strip_prefix(['-', '+']).unwrap_or(text);
        let (mantissa, exponent) = body.split_once(['e', 'E']).unwrap_or((body, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, "0"));
        let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        let is_number =
            digits(whole) && digits(fraction) && digits(exponent.strip_prefix(['-', '+']).unwrap_or(exponent));
        is_number.then(|| Decimal::of(text.strip_prefix('+').unwrap_or(text)))?
    };
    let (a, b) = (read(a)?, read(b)?);
    let size = |x: &Decimal| match (x.digits.is_empty(), x.negative) {
        (true, _) => 0,
        (false, true) => -1,
        (false, false) => 1,
    };
    let order = size(&a).cmp(&size(&b));
    if order != Ordering::Equal || a.digits.is_empty() {
        return Some(order);
    }
    // Without zeros at either end, digits with the same exponent compare like texts.
    let order = a.exponent.cmp(&b.exponent).then_with(|| a.digits.cmp(&b.digits));
    Some(if a.negative { order.reverse() } else { order })
}

/// Returns the IEEE 754 binary64 number whose shortest decimal form is exactly this number.
pub fn as_float(number: &Number) -> Option<f64> {
    number.as_f64().filter(|&float| Number::from_f64(float).is_some_and(|shortest| same(number, &shortest)))
}

/// `0.DIGITS × 10^exponent`, without zeros at either end of the digits. Zero has no digits.
#[derive(PartialEq, Eq)]
struct Decimal {
    negative: bool,
    digits: String,
    exponent: i128,
}

impl Decimal {
    /// Returns `None` if the exponent is out of range.
    fn of(text: &str) -> Option<Self> {
        let (negative, text) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
        let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let all = format!("{whole}{fraction}");
        let leading = all.len() - all.trim_start_matches('0').len();
        let digits = all.trim_matches('0').to_owned();
        if digits.is_empty() {
            return Some(Self { negative: false, digits, exponent: 0 });
        }
        let point = i128::try_from(whole.len()).ok()? - i128::try_from(leading).ok()?;
        let exponent = exponent.parse::<i128>().ok()?.checked_add(point)?;
        Some(Self { negative, digits, exponent })
    }
}

/// Formats a float64 like `%v`: the shortest digits, with an exponent below 1e-4 and from 1e6 on.
pub fn go_float(x: f64) -> String {
    let scientific = format!("{x:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else { return scientific };
    match exponent.parse::<i32>() {
        Ok(exponent) if !(-4..6).contains(&exponent) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.abs())
        }
        _ => format!("{x}"),
    }
}

/// Formats a float64 like Go's `encoding/json`: the shortest digits, with an exponent below 1e-6 and from 1e21 on.
pub fn go_json(x: f64) -> String {
    if x == 0.0 || (1e-6..1e21).contains(&x.abs()) {
        return format!("{x}");
    }
    let text = format!("{x:e}");
    if text.contains("e-") { text } else { text.replace('e', "e+") }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn read(text: &str) -> Number {
        text.parse().unwrap()
    }

    /// Writes out all digits of a number, 500 on either side of the point: a second way to compute the same result.
    fn in_full(negative: bool, digits: &str, exponent: i32) -> String {
        let point = 500 - exponent;
        let full = format!("{}{digits}", "0".repeat(point as usize));
        let full = format!("{full:0<1000}");
        let zero = full.bytes().all(|b| b == b'0');
        format!("{}{full}", if negative && !zero { "-" } else { "" })
    }

    /// Writes `0.DIGITS × 10^exponent` with the point at some place.
    fn written(negative: bool, digits: &str, exponent: i32, point: usize, zeros: usize) -> String {
        let point = point % (digits.len() + 1);
        let (whole, fraction) = digits.split_at(point);
        let whole = whole.trim_start_matches('0');
        let whole = if whole.is_empty() { "0" } else { whole };
        let sign = if negative { "-" } else { "" };
        let exponent = exponent - point as i32;
        match (fraction.len() + zeros, exponent) {
            (0, 0) => format!("{sign}{whole}"),
            (0, e) => format!("{sign}{whole}E{e:+}"),
            (_, 0) => format!("{sign}{whole}.{fraction}{}", "0".repeat(zeros)),
            (_, e) => format!("{sign}{whole}.{fraction}{}e{e}", "0".repeat(zeros)),
        }
    }

    fn parts() -> impl Strategy<Value = (bool, String, i32)> {
        (any::<bool>(), "[0-9]{1,25}|0{0,3}1[0-9]0{0,20}|0{1,3}", prop_oneof![-30..30, -400..400])
    }

    proptest! {
        #[test]
        fn numbers_are_equal_if_all_their_digits_are(
            a in parts(), near: bool, last in 0u8..10, b in parts(), (i, j) in (0usize..30, 0usize..30), (k, l) in (0usize..3, 0usize..3)
        ) {
            // Another number, or nearly or exactly the same one.
            let b = if near { (a.0, format!("{}{last}", a.1), a.2) } else { b };
            let [x, y] = [(&a, i, k), (&b, j, l)].map(|((n, d, e), point, zeros)| written(*n, d, *e, point, zeros));
            let expected = in_full(a.0, &a.1, a.2) == in_full(b.0, &b.1, b.2);
            prop_assert_eq!(same(&read(&x), &read(&y)), expected, "{} {}", x, y);
            prop_assert!(same(&read(&x), &read(&written(a.0, &a.1, a.2, j, l))), "{}", x);
        }

        /// A float is equal to itself, in whatever form it was written.
        #[test]
        fn floats_equal_themselves_in_any_form(float in any::<f64>().prop_filter("finite", |f| f.is_finite())) {
            let shortest = Number::from_f64(float).unwrap();
            prop_assert_eq!(as_float(&shortest), Some(float));
            let text = shortest.to_string();
            let digits = text.trim_start_matches('-').split(['e', 'E']).next().unwrap().replace('.', "");
            let digits = digits.trim_matches('0');
            let exponent = format!("{float:e}").rsplit_once('e').unwrap().1.parse::<i32>().unwrap() + 1;
            let written = written(float.is_sign_negative(), if digits.is_empty() { "0" } else { digits }, exponent, 0, 1);
            prop_assert_eq!(as_float(&read(&written)), Some(float), "{}", written);
        }
    }

    /// Halfway between two decimals with the same number of digits there are two shortest forms; the even one counts.
    #[test]
    fn only_one_of_two_shortest_forms_is_a_float() {
        let tie: f64 = "220109658429192.625".parse().unwrap();
        assert_eq!(as_float(&read("220109658429192.62")), Some(tie));
        assert_eq!(as_float(&read("220109658429192.63")), None);
    }

    #[test]
    fn numbers_beyond_machine_words_are_compared() {
        let same = |a: &str, b: &str| same(&read(a), &read(b));
        assert!(!same("18446744073709551616", "18446744073709551617") && same("1e400", "10E+399") && same("-0.0", "0"));
        assert!(!same("1e400", "1e401") && !same("-1e400", "1e400") && same("0.10", "0.1") && same("1", "1.0"));
        assert!(!same("9007199254740993", "9007199254740992.0") && !same("0.1000000000000000055", "0.1"));
        // An exponent that is out of range: the text decides.
        let endless = format!("1e{}", "9".repeat(60));
        assert!(same(&endless, &endless) && !same(&endless, "1"));
        assert_eq!(
            ["9007199254740993", "18446744073709551616", "1e400", "0.10"].map(|n| as_float(&read(n))),
            [None, None, None, Some(0.1)]
        );
    }

    #[test]
    fn values_are_compared_with_their_types() {
        assert!(same_value(&json!({ "a": 1, "b": [2] }), &json!({ "b": [2.0], "a": 1 })));
        for (a, b) in [
            (json!("5"), json!(5)),
            (Value::Null, json!(0)),
            (json!([1]), json!([1, 1])),
            (json!({ "a": 1 }), json!({ "b": 1 })),
        ] {
            assert!(!same_value(&a, &b) && !same_value(&b, &a), "{a} {b}");
        }
    }
}
