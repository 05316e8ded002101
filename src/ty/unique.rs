//! Finds keys that appear twice in a JSON text. Decoders disagree about which of them counts.

use std::fmt;

use rustc_hash::FxHashSet;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// Checks that no object in a JSON text has a key twice.
///
/// # Errors
/// The text is not one JSON value, or an object in it has a key twice.
pub fn check(json: &str) -> serde_json::Result<()> {
    let mut deserializer = serde_json::Deserializer::from_str(json);
    Unique.deserialize(&mut deserializer)?;
    deserializer.end()
}

struct Unique;

impl<'de> DeserializeSeed<'de> for Unique {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Unique {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut keys: FxHashSet<String> = FxHashSet::default();
        while let Some(key) = map.next_key::<String>()? {
            if keys.contains(&key) {
                return Err(A::Error::custom(format_args!("the key `{key}` appears twice")));
            }
            keys.insert(key);
            map.next_value_seed(Self)?;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while seq.next_element_seed(Self)?.is_some() {}
        Ok(())
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        self.deserialize(deserializer)
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn a_key_may_appear_once_in_each_object() {
        for json in [
            "1",
            "null",
            "\"a\"",
            r#"[{"a": 1}, {"a": [2, 1e400, 18446744073709551616]}]"#,
            r#"{"a": {"a": 1}, "b": true}"#,
        ] {
            assert!(check(json).is_ok(), "{json}");
        }
        for json in [r#"{"a": 1, "a": 1}"#, r#"[{"b": {"a": 1, "\u0061": 2}}]"#] {
            assert!(check(json).unwrap_err().to_string().contains("the key `a` appears twice"), "{json}");
        }
        assert!(check("{} {}").is_err());
    }
}
