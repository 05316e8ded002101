//! Amounts with units, as prompts and scripts write them.

/// An amount, in its base unit.
#[derive(Clone, PartialEq, Debug)]
pub struct Quantity {
    pub amount: f64,
    /// The number as written, without its unit.
    pub number: f64,
    /// `s`, `b`, or nothing.
    pub unit: &'static str,
    pub text: String,
}

impl Quantity {
    /// Whether two amounts are equal. A number without a unit may have any unit.
    pub fn is(&self, other: &Self) -> bool {
        let same = |a: f64, b: f64| (a - b).abs() <= f64::EPSILON * a.abs().max(b.abs());
        match (self.unit.is_empty(), other.unit.is_empty()) {
            (false, false) => self.unit == other.unit && same(self.amount, other.amount),
            (true, false) => other.is(self),
            _ => {
                let other = other.amount;
                same(self.amount, other)
                    || same(self.number, other)
                    || self.unit == "s"
                        && [1000.0, 1.0 / 60.0, 1.0 / 3600.0, 1.0 / 86400.0]
                            .iter()
                            .any(|f| same(self.amount * f, other))
            }
        }
    }

    /// The unit that a field's name says: its factor, its base unit, and its name.
    pub fn unit_of_field(name: &str) -> Option<(f64, &'static str, &'static str)> {
        // RabbitMQ documents these in milliseconds.
        if matches!(name, "x-message-ttl" | "message-ttl" | "x-expires") {
            return Some((1e-3, "s", "milliseconds"));
        }
        Some(match crate::effects::words(name).last()?.as_str() {
            "ms" | "millis" | "milliseconds" => (1e-3, "s", "milliseconds"),
            "secs" | "seconds" => (1.0, "s", "seconds"),
            "mins" | "minutes" => (60.0, "s", "minutes"),
            "hours" => (3600.0, "s", "hours"),
            "days" => (86400.0, "s", "days"),
            "bytes" => (1.0, "b", "bytes"),
            _ => return None,
        })
    }

    /// The factor and the base unit of a unit name.
    fn unit(word: &str) -> Option<(f64, &'static str)> {
        Some(match word {
            "s" | "sec" | "secs" | "second" | "seconds" => (1.0, "s"),
            "min" | "mins" | "minute" | "minutes" => (60.0, "s"),
            "h" | "hour" | "hours" => (3600.0, "s"),
            "d" | "day" | "days" => (86400.0, "s"),
            "week" | "weeks" => (604_800.0, "s"),
            "ki" | "kib" => (1024.0, "b"),
            "mi" | "mib" => (1_048_576.0, "b"),
            "gi" | "gib" => (1_073_741_824.0, "b"),
            "kb" => (1e3, "b"),
            "mb" => (1e6, "b"),
            "gb" => (1e9, "b"),
            _ => return None,
        })
    }

    /// The amount that is the whole text: `30s`, `256Mi`, `4`.
    pub fn of_value(text: &str) -> Option<Self> {
        let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
        let number: f64 = text[..end].parse().ok()?;
        let (factor, unit) = match &text[end..] {
            "" => (1.0, ""),
            "m" => (60.0, "s"),
            rest => Self::unit(&rest.to_lowercase())?,
        };
        Some(Self { amount: number * factor, number, unit, text: text.to_owned() })
    }

    /// The meaning of `128m` in `docker run --memory 128m`.
    pub fn of_memory(text: &str) -> Option<Self> {
        let number: f64 = text.trim_end_matches(|c: char| c.is_ascii_alphabetic()).parse().ok()?;
        let factor = match text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').to_lowercase().as_str() {
            "k" | "kb" | "ki" => 1024.0,
            "m" | "mb" | "mi" => 1_048_576.0,
            "g" | "gb" | "gi" => 1_073_741_824.0,
            _ => return None,
        };
        Some(Self { amount: number * factor, number, unit: "b", text: text.to_owned() })
    }

    /// All amounts in a lowercase text, with their offsets.
    pub fn all(lower: &str) -> Vec<(usize, Self)> {
        let mut found = Vec::new();
        let mut every = false;
        let mut number: Option<(usize, f64)> = None;
        for (start, word) in crate::lint::analysis::texts::words(lower, |c| c.is_ascii_alphanumeric() || c == '.') {
            let word = word.trim_end_matches('.');
            if word.is_empty() {
                continue;
            }
            if let Some((place, amount)) = number.take() {
                if let Some((factor, unit)) = Self::unit(word) {
                    let text = lower.get(place..start + word.len()).unwrap_or_default().to_owned();
                    found.push((place, Self { amount: amount * factor, number: amount, unit, text }));
                    every = false;
                    continue;
                }
                let text = lower.get(place..start).unwrap_or_default().trim_end().to_owned();
                found.push((place, Self { amount, number: amount, unit: "", text }));
            }
            if let (true, Some((factor, unit))) = (every, Self::unit(word)) {
                found.push((start, Self { amount: factor, number: 1.0, unit, text: word.to_owned() }));
            } else if word.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
                match word.parse::<f64>() {
                    Ok(amount) => number = Some((start, amount)),
                    Err(_) => found.extend(Self::of_value(word).map(|quantity| (start, quantity))),
                }
            }
            every = matches!(word, "every" | "each" | "a" | "an" | "one" | "per");
        }
        if let Some((place, amount)) = number {
            let text = lower.get(place..).unwrap_or_default().trim().to_owned();
            found.push((place, Self { amount, number: amount, unit: "", text }));
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts() {
        let all = |text: &str| -> Vec<(f64, &str)> {
            Quantity::all(text).into_iter().map(|(_, quantity)| (quantity.amount, quantity.unit)).collect()
        };
        assert_eq!(
            all("every minute, or 30 seconds. 256mi of 7 days"),
            [(60.0, "s"), (30.0, "s"), (268_435_456.0, "b"), (604_800.0, "s")]
        );
        assert_eq!(all("set 4 replicas and 10"), [(4.0, ""), (10.0, "")]);
        // Offsets are those of the number, also after multi-byte characters.
        let text = "für 1 → 3 replicas, 5 €";
        let places = Quantity::all(text).into_iter().map(|(at, quantity)| text[at..].starts_with(&quantity.text));
        assert_eq!(places.collect::<Vec<_>>(), [true; 3]);
        let is = |a: &str, b: &str| Quantity::of_value(a).zip(Quantity::of_value(b)).is_some_and(|(a, b)| a.is(&b));
        assert!(
            is("1m", "60s")
                && is("256Mi", "268435456")
                && is("7", "7d")
                && is("1m", "60000")
                && !is("30s", "60s")
                && !is("5", "6")
        );
        assert_eq!(Quantity::of_memory("256m").map(|q| q.amount), Some(268_435_456.0));
    }
}
