//! Fills the holes of an expectation and ensures that every part of it still compares something.
//!
//! A hole that becomes null, empty or blank removes its comparison: `contains: "{steps.pod.outputs.ip}"` is true of any text
//! if the API returned no address. Such a step is *broken*, never *passed* (`decisions.md` §13).

use serde_json::Value;

use super::fill::{Fault, Filler};
use crate::{
    hir::{Arg, ArgKind, Def, Dialect, Template},
    template,
};

/// Fills an `expect`.
///
/// # Errors
/// A hole has no value, or a part would compare nothing.
pub(super) fn fill(filler: &Filler<'_>, expect: &Arg<Def>, dialect: Dialect) -> Result<Value, Fault> {
    Walk { filler, dialect }.arg(expect, &Place { path: "expect".to_owned(), key: "expect", of_json: false })?;
    filler.fill(expect)
}

struct Walk<'f> {
    filler: &'f Filler<'f>,
    dialect: Dialect,
}

/// The position of a part of an expectation.
struct Place<'k> {
    /// The path from `expect` on, for people.
    path: String,
    /// The last key of the path.
    key: &'k str,
    /// Whether the part is beside a `path`, or below such a part: it is then compared with a value of a JSON document.
    of_json: bool,
}

impl Walk<'_> {
    fn arg(&self, arg: &Arg<Def>, place: &Place<'_>) -> Result<(), Fault> {
        match &arg.kind {
            ArgKind::Record(_) | ArgKind::List(_) if self.is_value(place) => Ok(()),
            ArgKind::Record(fields) => {
                let of_json = place.refines_json() || fields.iter().any(|(name, _)| name.value == "path");
                fields.iter().try_for_each(|(name, value)| self.arg(value, &place.of(&name.value, of_json)))
            }
            ArgKind::List(items) => items.iter().try_for_each(|item| {
                self.arg(item, &Place { path: place.path.clone(), key: place.key, of_json: place.of_json })
            }),
            ArgKind::Text(template) => self.template(template, place),
            // In upstream's dialects, `check` does not prevent this from being run.
            ArgKind::Null if !self.is_value(place) => {
                Err(Fault::Broken(format!("`{}` compares nothing: it is null", place.path)))
            }
            _ => Ok(()),
        }
    }

    fn template(&self, template: &Template<Def>, place: &Place<'_>) -> Result<(), Fault> {
        let Some(first) = template.holes().next() else { return Ok(()) };
        // If part of a text is missing, the rest may be in every answer.
        if matches!(place.key, "contains" | "matches") {
            for hole in template.holes().filter(|hole| !hole.has_default()) {
                let value = self.filler.hole(hole)?;
                if is_blank(&value) {
                    return Err(hollow(&place.path, &hole.text, &value));
                }
            }
        }
        let value = self.filler.template(template)?;
        match self.hollow_at(&value, place) {
            Some((path, value)) => Err(hollow(&path, &first.text, value)),
            None => Ok(()),
        }
    }

    /// Returns the first part of a filled value that compares nothing.
    fn hollow_at<'v>(&self, value: &'v Value, place: &Place<'_>) -> Option<(String, &'v Value)> {
        if self.is_value(place) {
            return None;
        }
        match value {
            // The whole text is compared, so an empty one is a valid demand.
            Value::String(_) if matches!(place.key, "equals" | "stdout" | "stderr") => None,
            _ if is_blank(value) => Some((place.path.clone(), value)),
            Value::Object(fields) => {
                let of_json = place.refines_json() || fields.contains_key("path");
                fields.iter().find_map(|(name, value)| self.hollow_at(value, &place.of(name, of_json)))
            }
            Value::Array(items) => items.iter().find_map(|item| {
                self.hollow_at(item, &Place { path: place.path.clone(), key: place.key, of_json: place.of_json })
            }),
            _ => None,
        }
    }

    /// Whether the value here is compared as it is, even if null or empty, because it is a JSON value (`decisions.md` §4). In
    /// the steps dialect `equals: null` demands nothing (§6.1 of the upstream behaviour).
    fn is_value(&self, place: &Place<'_>) -> bool {
        let whole = matches!(place.path.as_str(), "expect.content.equals" | "expect.structuredContent");
        (whole || place.of_json && matches!(place.key, "equals" | "oneOf")) && self.dialect == Dialect::Portable
    }
}

impl Place<'_> {
    /// Whether this is a key that refines a demand on a JSON value: on its elements, or what it must not be.
    fn refines_json(&self) -> bool {
        self.of_json && matches!(self.key, "not" | "all" | "any")
    }

    fn of<'k>(&self, key: &'k str, of_json: bool) -> Place<'k> {
        Place { path: format!("{}.{key}", self.path), key, of_json }
    }
}

fn is_blank(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.trim().is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

fn hollow(path: &str, hole: &str, value: &Value) -> Fault {
    let what = match value {
        Value::Null => "null".to_owned(),
        Value::String(_) => "empty".to_owned(),
        other => format!("`{}`", template::render(other)),
    };
    Fault::Broken(format!("`{path}` compares nothing: `{hole}` is {what}"))
}
