//! The definition of a tool: its input, its output, and its effect.

use std::sync::Arc;

use rmcp::model::{JsonObject, ToolAnnotations};
use schemars::{JsonSchema, generate::SchemaSettings};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// The maximum number of bytes of text in an answer, which a model reads.
pub const LONGEST: usize = 100_000;

/// A tool.
#[derive(Clone, Copy)]
pub struct Tool {
    pub name: &'static str,
    pub title: &'static str,
    /// What it does and when to call it, for a model.
    pub about: &'static str,
    pub effect: Effect,
    pub input: fn() -> Value,
    pub output: fn() -> Value,
    pub call: fn(Value, &Stop) -> Answer,
}

/// Tells whether the answer is still needed.
pub struct Stop {
    /// Cancelled with the call.
    pub call: CancellationToken,
    /// Cancelled when the server ends.
    pub server: CancellationToken,
}

impl Stop {
    pub fn is_wanted(&self) -> bool {
        self.call.is_cancelled() || self.server.is_cancelled()
    }
}

/// The result of a tool. An error says what is wrong, and what to do.
pub type Answer = Result<Value, String>;

/// The effect of a tool.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// It reads files below the root.
    Reads,
    /// It adds files below the root.
    Adds,
    /// It executes an eval.
    Runs,
}

impl Tool {
    /// The entry in `tools/list`.
    pub fn listed(&self) -> rmcp::model::Tool {
        let object = |schema: Value| -> Arc<JsonObject> {
            match schema {
                Value::Object(map) => Arc::new(map),
                _ => Arc::default(),
            }
        };
        let annotations = match self.effect {
            Effect::Reads => {
                ToolAnnotations::new().read_only(true).destructive(false).idempotent(true).open_world(false)
            }
            Effect::Adds => {
                ToolAnnotations::new().read_only(false).destructive(false).idempotent(false).open_world(false)
            }
            Effect::Runs => {
                ToolAnnotations::new().read_only(false).destructive(true).idempotent(false).open_world(true)
            }
        };
        rmcp::model::Tool::new(self.name, self.about, object((self.input)()))
            .with_title(self.title)
            .with_raw_output_schema(object((self.output)()))
            .with_annotations(annotations)
    }
}

/// The schema of the input or output of a tool, without references.
pub fn schema<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    plain(&mut schema);
    schema
}

/// Removes formats of Rust's numbers, which validators do not know, and names of types.
fn plain(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            if map.get("format").is_some_and(Value::is_string) {
                map.shift_remove("format");
            }
            if map.get("title").is_some_and(Value::is_string) {
                map.shift_remove("title");
            }
            map.values_mut().for_each(plain);
        }
        Value::Array(items) => items.iter_mut().for_each(plain),
        _ => {}
    }
}

/// Decodes the arguments of a call.
pub fn taken<T: DeserializeOwned>(arguments: Value) -> Result<T, String> {
    let fits = |arguments: &Value| T::deserialize(arguments).map_err(|error| error.to_string());
    fits(&arguments).map_err(|why| {
        // If the error does not name the argument, it is the one without which the error would be another.
        let without = |key: &str| {
            let mut fewer = arguments.clone();
            fewer.as_object_mut().and_then(|map| map.shift_remove(key));
            fits(&fewer).err().as_ref() != Some(&why)
        };
        let mut named = arguments.as_object().into_iter().flat_map(serde_json::Map::keys);
        let which = named.find(|key| !why.contains(&format!("`{key}`")) && without(key));
        let which = which.map(|key| format!("`{key}`: ")).unwrap_or_default();
        let words = [("expected usize", "expected a whole number"), ("sequence", "list"), ("a map", "an object")];
        let why = words.iter().fold(why, |why, (of_rust, of_json)| why.replace(of_rust, of_json));
        format!("invalid arguments: {which}{why}")
    })
}

/// Encodes the answer of a call.
pub fn given(answer: &impl Serialize) -> Answer {
    serde_json::to_value(answer).map_err(|error| error.to_string())
}

/// Returns the text, truncated if it is too long, and whether it was truncated.
pub fn bounded(mut text: String) -> (String, bool) {
    if text.len() <= LONGEST {
        return (text, false);
    }
    let mut end = LONGEST;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    (text, true)
}
