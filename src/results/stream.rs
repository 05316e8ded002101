//! Reads results files as streams: only one result is in memory at a time, however large the file is.

use std::{fmt, io::Read};

use serde::{
    Deserializer,
    de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Value};

use super::{ResultsFile, RunResult, of_value};

/// Reads the summary of a file, wherever it is in the file; empty in the older format, which has none.
///
/// # Errors
/// The file is not a results file; for people.
pub fn summary(from: impl Read) -> Result<Map<String, Value>, String> {
    let mut summary = Map::new();
    walk(from, &mut summary, &mut |_| Ok(()))?;
    let file = serde_json::json!({ "summary": summary, "results": [] });
    of_value(file).map(|ResultsFile { summary, .. }| summary)
}

/// Passes each result of a file to `take`.
///
/// # Errors
/// The file is not a results file; for people. Also the errors of `take`.
pub fn each(from: impl Read, take: &mut dyn FnMut(RunResult) -> Result<(), String>) -> Result<(), String> {
    walk(from, &mut Map::new(), take)
}

type Take<'t> = &'t mut dyn FnMut(RunResult) -> Result<(), String>;

fn walk(from: impl Read, summary: &mut Map<String, Value>, take: Take<'_>) -> Result<(), String> {
    let mut reader = serde_json::Deserializer::from_reader(from);
    let walked = reader.deserialize_any(File { summary, take }).and_then(|()| reader.end());
    walked.map_err(|error| {
        let text = error.to_string();
        if error.is_data() { text } else { format!("it is not JSON: {text}") }
    })
}

struct File<'f> {
    summary: &'f mut Map<String, Value>,
    take: Take<'f>,
}

impl<'de> Visitor<'de> for File<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a results file")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<(), A::Error> {
        Results { take: self.take }.visit_seq(seq)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut any = false;
        while let Some(name) = map.next_key::<String>()? {
            match name.as_str() {
                "summary" => {
                    if let Value::Object(found) = map.next_value()? {
                        *self.summary = found;
                    }
                }
                "results" => {
                    any = true;
                    map.next_value_seed(Results { take: &mut *self.take })?;
                }
                _ => _ = map.next_value::<IgnoredAny>()?,
            }
        }
        if any { Ok(()) } else { Err(A::Error::custom("it has no `results`: this is not a results file")) }
    }
}

struct Results<'f> {
    take: Take<'f>,
}

impl<'de> DeserializeSeed<'de> for Results<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<(), D::Error> {
        d.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Results<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of results")
    }

    /// An empty list, as Go serializes it.
    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let mut nth = 0;
        while let Some(map) = seq.next_element::<Map<String, Value>>()? {
            nth += 1;
            if !map.get("taskName").is_some_and(Value::is_string) {
                return Err(A::Error::custom(format!("its result {nth} has no `taskName`")));
            }
            (self.take)(RunResult(map)).map_err(A::Error::custom)?;
        }
        Ok(())
    }
}
