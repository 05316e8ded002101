//! What the schemas say about a place: which keys and words it accepts, and what they mean.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use serde_json::Value;

use super::place::Way;
use crate::{dialect::FileKind, hir::Dialect, schema::SCHEMAS};

/// A key or word that a place accepts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Choice {
    pub word: String,
    pub about: String,
}

/// The schema of a kind of file, created once.
pub fn of_kind(kind: FileKind) -> Option<Arc<Value>> {
    static MADE: Mutex<BTreeMap<(&str, Option<&str>), Arc<Value>>> = Mutex::new(BTreeMap::new());
    let (name, dialect) = match kind {
        FileKind::Task(dialect) => ("task", Some(dialect)),
        FileKind::Eval => ("eval", None),
        FileKind::Agent => ("agent", None),
        FileKind::Oracle => ("oracle", None),
        FileKind::McpEvals => ("evals", None),
    };
    let info = SCHEMAS.iter().find(|info| info.name == name)?;
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    let schema = made.entry((name, dialect.map(Dialect::name))).or_insert_with(|| Arc::new((info.make)(dialect)));
    Some(Arc::clone(schema))
}

/// The schemas that may apply to the node at the end of a way.
pub fn at<'s>(root: &'s Value, way: &[Way]) -> Vec<&'s Value> {
    let mut here = Vec::new();
    alternatives(root, root, &mut here, 0);
    for step in way {
        let mut next = Vec::new();
        for schema in here {
            let below: Vec<&Value> = match step {
                Way::Key(key) => match schema["properties"].get(key) {
                    Some(property) => vec![property],
                    None => vec![&schema["additionalProperties"]],
                },
                Way::Item(_) => vec![&schema["items"]],
            };
            below.into_iter().for_each(|schema| alternatives(root, schema, &mut next, 0));
        }
        here = next;
    }
    here
}

/// Collects a schema and its parts, with references resolved.
fn alternatives<'s>(root: &'s Value, schema: &'s Value, found: &mut Vec<&'s Value>, depth: usize) {
    if !schema.is_object() || depth > 12 || found.iter().any(|there| std::ptr::eq(*there, schema)) {
        return;
    }
    found.push(schema);
    let referred = schema["$ref"].as_str().and_then(|path| root.pointer(path.strip_prefix('#')?));
    let parts = ["allOf", "anyOf", "oneOf"].into_iter().filter_map(|key| schema[key].as_array()).flatten();
    let branches = ["then", "else"].into_iter().filter_map(|key| schema.get(key));
    for part in referred.into_iter().chain(parts).chain(branches) {
        alternatives(root, part, found, depth + 1);
    }
}

fn about(schema: &Value) -> String {
    schema["description"].as_str().unwrap_or_default().to_owned()
}

/// The keys that a mapping may have.
pub fn keys(root: &Value, schemas: &[&Value]) -> Vec<Choice> {
    let mut choices: Vec<Choice> = Vec::new();
    for (word, schema) in schemas.iter().filter_map(|schema| schema["properties"].as_object()).flatten() {
        if !choices.iter().any(|choice| choice.word == *word) {
            let mut below = Vec::new();
            alternatives(root, schema, &mut below, 0);
            let about = below.iter().map(|schema| about(schema)).find(|text| !text.is_empty()).unwrap_or_default();
            choices.push(Choice { word: word.clone(), about });
        }
    }
    choices
}

/// The words that a scalar may be.
pub fn words(schemas: &[&Value]) -> Vec<Choice> {
    let mut choices: Vec<Choice> = Vec::new();
    for schema in schemas {
        let listed = schema["enum"].as_array().into_iter().flatten().chain(schema.get("const"));
        let switch = (schema["type"] == "boolean").then_some(["true", "false"].map(str::to_owned));
        let words = listed.filter_map(|word| word.as_str().map(str::to_owned)).chain(switch.into_iter().flatten());
        for word in words {
            if !choices.iter().any(|choice| choice.word == word) {
                choices.push(Choice { word, about: about(schema) });
            }
        }
    }
    choices
}

/// The description of a place.
pub fn description(schemas: &[&Value]) -> Option<String> {
    schemas.iter().map(|schema| about(schema)).find(|text| !text.is_empty())
}
