//! JSON Schemas of all formats that gevals reads and writes. `schemas/` contains them as files; `tests/schema.rs` keeps
//! those files and the hand-written decoders consistent with this module.
//!
//! A file that gevals reads is described by structs that only document it: the decoders have better messages than
//! derived ones. Two-way property: *what the decoder accepts the schema accepts, and what the schema rejects is
//! reported.* All schemas are draft 7, the one that editors support best.

pub mod agent;
pub mod eval;
pub mod evals;
pub mod mcp_config;
pub mod oracle;
pub mod results;
pub mod step;
pub mod task;
pub mod word;

use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde_json::{Value, json};

use crate::{
    diagnostic::DiagnosticReport,
    event::{Event, recording::Line},
    hir::Dialect,
    plan::wire::PlanDocument,
};

/// One schema.
#[derive(Debug)]
pub struct SchemaInfo {
    pub name: &'static str,
    /// What it describes, in one line.
    pub summary: &'static str,
    /// The dialects for which there is a schema of its own; none for most.
    pub dialects: &'static [Dialect],
    pub make: fn(Option<Dialect>) -> Value,
}

/// All schemas: of what gevals reads, then of what it writes.
pub const SCHEMAS: &[SchemaInfo] = &[
    SchemaInfo {
        name: "task",
        summary: "tasks, in all dialects or in one",
        dialects: &[Dialect::Legacy, Dialect::Steps, Dialect::Portable],
        make: task,
    },
    SchemaInfo { name: "eval", summary: "evals", dialects: &[], make: |_| generate::<eval::Eval>("An eval", READ) },
    SchemaInfo {
        name: "agent",
        summary: "agent files",
        dialects: &[],
        make: |_| generate::<agent::Agent>("An agent", READ),
    },
    SchemaInfo {
        name: "oracle",
        summary: "what the scripted agent does",
        dialects: &[],
        make: |_| generate::<oracle::Oracle>("An oracle", READ),
    },
    SchemaInfo {
        name: "evals",
        summary: "evals that an MCP server ships",
        dialects: &[],
        make: |_| generate::<evals::McpEvals>("Evals of an MCP server", READ),
    },
    SchemaInfo {
        name: "prices",
        summary: "what models cost",
        dialects: &[],
        make: |_| generate::<crate::prices::Prices>("Prices of models", READ),
    },
    SchemaInfo {
        name: "mcp-config",
        summary: "MCP servers",
        dialects: &[],
        make: |_| generate::<mcp_config::McpConfig>("An MCP config", READ),
    },
    SchemaInfo {
        name: "config",
        summary: "`gevals.toml`",
        dialects: &[],
        make: |_| generate::<crate::policy::Document>("Settings of gevals", READ),
    },
    SchemaInfo {
        name: "plan",
        summary: "what `gevals plan --format json` prints",
        dialects: &[],
        make: |_| generate::<PlanDocument>("A plan", WRITTEN),
    },
    SchemaInfo {
        name: "event",
        summary: "one line of what `gevals run --format json` prints",
        dialects: &[],
        make: |_| generate::<Event>("An event", WRITTEN),
    },
    SchemaInfo {
        name: "recording",
        summary: "one line of a run's recording",
        dialects: &[],
        make: |_| generate::<Line>("A line of a recording", WRITTEN),
    },
    SchemaInfo {
        name: "results",
        summary: "the results file",
        dialects: &[],
        make: |_| generate::<results::Results>("Results", WRITTEN),
    },
    SchemaInfo {
        name: "diagnostic",
        summary: "what `gevals check --format json` prints",
        dialects: &[],
        make: |_| generate::<DiagnosticReport>("Findings", WRITTEN),
    },
];

/// Schemas of files that people write: those that belong in a catalog.
const BY_PEOPLE: [&str; 8] = ["task", "eval", "agent", "oracle", "evals", "prices", "mcp-config", "config"];

/// The file name of the catalog beside the schemas.
pub const CATALOG: &str = "catalog.json";

/// Returns the URL of a schema file in the repository: the ID of the schema, which can be fetched.
fn url(file: &str) -> String {
    format!("{}/raw/main/schemas/{file}", env!("CARGO_PKG_REPOSITORY"))
}

impl SchemaInfo {
    /// Returns the name of its file.
    fn file(&self, dialect: Option<Dialect>) -> String {
        let dot = dialect.map_or_else(String::new, |d| format!(".{}", d.name()));
        format!("{}{dot}.json", self.name)
    }

    /// Returns the schema with its ID.
    pub fn schema(&self, dialect: Option<Dialect>) -> Value {
        let mut schema = (self.make)(dialect);
        if let Value::Object(keys) = &mut schema {
            keys.shift_insert(0, "$id".to_owned(), url(&self.file(dialect)).into());
        }
        schema
    }
}

/// Returns every schema with the name of its file.
pub fn files() -> impl Iterator<Item = (String, Value)> {
    SCHEMAS.iter().flat_map(|info| {
        let dialects = info.dialects.iter().copied().map(Some);
        std::iter::once(None).chain(dialects).map(|dialect| (info.file(dialect), info.schema(dialect)))
    })
}

/// Returns the entries for a catalog such as that of schemastore.org. Only `gevals.toml` can be recognized by its name;
/// other files declare what they are.
pub fn catalog() -> Value {
    let of = |info: &SchemaInfo| {
        let mut entry = json!({
            "name": format!("gevals {}", info.name),
            "description": format!("gevals, evaluations of MCP servers: {}", info.summary),
            "url": url(&info.file(None)),
        });
        if info.name == "config" {
            entry["fileMatch"] = json!(["gevals.toml"]);
        }
        entry
    };
    let schemas: Vec<Value> = SCHEMAS.iter().filter(|info| BY_PEOPLE.contains(&info.name)).map(of).collect();
    json!({ "$schema": "https://json.schemastore.org/schema-catalog.json", "version": 1, "schemas": schemas })
}

/// Formats a schema as in its file and as printed by `gevals schema`.
pub fn text(schema: &Value) -> String {
    format!("{schema:#}\n")
}

/// How a key that may be missing is described.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Optional {
    /// Omitted or null, which is the same (`decisions.md` §13).
    Missing,
    /// As serde treats it.
    Null,
}

const READ: Optional = Optional::Missing;
const WRITTEN: Optional = Optional::Null;

fn task(dialect: Option<Dialect>) -> Value {
    match dialect {
        Some(Dialect::Legacy) => generate::<task::LegacyTask>("A task of the legacy dialect", READ),
        Some(Dialect::Steps) => generate::<task::StepsTask>("A task of the steps dialect", READ),
        Some(Dialect::Portable) => generate::<task::PortableTask>("A task of the portable dialect", READ),
        None => any_task(),
    }
}

/// A task of any dialect. `apiVersion` selects the dialect, so that an editor reports faults for one dialect and not
/// for all.
fn any_task() -> Value {
    let mut generator = generator(READ);
    let [legacy, steps, portable] = [
        generator.subschema_for::<task::LegacyTask>(),
        generator.subschema_for::<task::StepsTask>(),
        generator.subschema_for::<task::PortableTask>(),
    ];
    let versions = generator.subschema_for::<word::AnyVersion>();
    let is = |dialect| json!({ "properties": { "apiVersion": { "enum": word::versions_of(dialect) } }, "required": ["apiVersion"] });
    let mut schema = json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "A task",
        "type": "object",
        "properties": { "kind": { "const": "Task" }, "apiVersion": { "anyOf": [versions, { "enum": ["", null] }] } },
        "required": ["kind"],
        "if": is(Dialect::Portable),
        "then": portable,
        "else": { "if": is(Dialect::Steps), "then": steps, "else": legacy },
    });
    schema["definitions"] = generator.take_definitions(true).into();
    tidy(&mut schema, READ);
    schema
}

fn generator(optional: Optional) -> SchemaGenerator {
    let settings = SchemaSettings::draft07();
    match optional {
        Optional::Missing => settings,
        Optional::Null => settings.for_serialize(),
    }
    .into_generator()
}

fn generate<T: JsonSchema>(title: &str, optional: Optional) -> Value {
    let mut schema = generator(optional).into_root_schema_for::<T>().to_value();
    schema["title"] = json!(title);
    tidy(&mut schema, optional);
    schema
}

/// Removes what validators would misinterpret: formats of our own and of Rust's numbers. Steps do not come from
/// schemars, and are unchanged.
fn tidy(schema: &mut Value, optional: Optional) {
    match schema {
        Value::Object(map) => {
            if map.get("format").is_some_and(Value::is_string) {
                map.shift_remove("format");
            }
            map.iter_mut()
                .filter(|(key, _)| !step::NAMES.contains(&key.as_str()))
                .for_each(|(_, inner)| tidy(inner, optional));
            // A key that is required, among several or under some condition, needs a value.
            if optional == Optional::Missing
                && !map.contains_key("properties")
                && let Some(Value::Array(names)) = map.get("required")
            {
                let present = |name: &Value| Some((name.as_str()?.to_owned(), json!({ "not": { "type": "null" } })));
                let present: serde_json::Map<_, _> = names.iter().filter_map(present).collect();
                map.insert("properties".to_owned(), present.into());
            }
            // A name without a value counts as absent.
            let values = map.get_mut("additionalProperties").filter(|values| values.is_object());
            if let (Some(values), Optional::Missing) = (values, optional) {
                *values = step::or_null(values.take());
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|inner| tidy(inner, optional)),
        _ => {}
    }
}
