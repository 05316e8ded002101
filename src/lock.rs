//! `gevals.lock`: what is known of programs that `check` never runs (`decisions.md` §10). YAML that gevals itself writes.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::signature::Schema;

/// The file's name; it stands beside the eval, or above it.
pub const FILE_NAME: &str = "gevals.lock";

/// The lock. An empty one knows nothing, and what it does not know is not an error.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Lock {
    pub version: u32,
    /// By the name a server has in the MCP config.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub servers: IndexMap<String, LockedServer>,
    /// By the alias an extension has in the eval, or by the package that a task imports.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub extensions: IndexMap<String, Manifest>,
}

/// What a server said of itself when it was locked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LockedServer {
    #[serde(default)]
    pub version: String,
    #[serde(default)]
    pub tools: IndexMap<String, LockedTool>,
}

/// A tool as its server listed it when the lock was written.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LockedTool {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    pub input_schema: Schema,
}

/// What an extension says of itself: `extension.yaml`, the answer to `initialize`, or either as it was when it was locked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Manifest {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// Of the manifest's text, in hexadecimal digits.
    pub sha256: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<Protocol>,
    /// The program, from the manifest's folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// Programs that must be on the PATH.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requires: Vec<String>,
    #[serde(default)]
    pub operations: IndexMap<String, ManifestOperation>,
}

/// How an extension is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// One process for a run of a task (§7.4 of the upstream behaviour).
    JsonRpc,
    /// One process for a call (`portable-format.md`).
    OneShot,
}

impl Protocol {
    /// As manifests write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::JsonRpc => "json-rpc",
            Self::OneShot => "one-shot",
        }
    }
}

/// An operation as its extension's manifest describes it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ManifestOperation {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Whether it may stand in setup and cleanup.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub action: bool,
    /// Whether it may stand in verify.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub check: bool,
    pub input_schema: Schema,
    /// None where the manifest does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outputs: Option<IndexMap<String, Value>>,
}

/// `extension.yaml`, as an extension's author writes it.
#[derive(Deserialize)]
struct Written {
    #[serde(default)]
    name: String,
    #[serde(default)]
    version: Value,
    #[serde(default)]
    protocol: Option<Protocol>,
    #[serde(default)]
    program: Option<String>,
    #[serde(default)]
    requires: Vec<Requirement>,
    #[serde(default)]
    actions: Vec<WrittenOperation>,
    #[serde(default)]
    checks: Vec<WrittenOperation>,
}

#[derive(Deserialize)]
struct Requirement {
    command: String,
}

#[derive(Deserialize)]
struct WrittenOperation {
    name: String,
    #[serde(default)]
    description: String,
    #[serde(default)]
    args: IndexMap<String, Argument>,
    #[serde(default)]
    outputs: Option<IndexMap<String, Value>>,
}

#[derive(Deserialize, PartialEq)]
struct Argument {
    #[serde(default, rename = "type")]
    kind: Option<String>,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    required: bool,
    #[serde(default)]
    default: Option<Value>,
}

/// The answer to `initialize`.
#[derive(Deserialize)]
struct Initialized {
    #[serde(default)]
    name: String,
    #[serde(default)]
    version: Value,
    #[serde(default)]
    operations: Option<IndexMap<String, InitializedOperation>>,
}

#[derive(Deserialize)]
struct InitializedOperation {
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    params: Option<Value>,
    #[serde(default)]
    outputs: Option<IndexMap<String, Value>>,
    #[serde(default)]
    phases: Option<Vec<String>>,
}

impl Manifest {
    /// Beside the program, or in the folder that is the package.
    pub const FILE_NAME: &str = "extension.yaml";

    /// Reads `extension.yaml`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let written: Written = serde_yaml::from_str(text).map_err(|e| e.to_string())?;
        let mut manifest = Self {
            name: written.name,
            version: version(&written.version),
            sha256: hex::encode(Sha256::digest(text)),
            protocol: written.protocol,
            program: written.program,
            requires: written.requires.into_iter().map(|requirement| requirement.command).collect(),
            operations: IndexMap::new(),
        };
        let actions = written.actions.into_iter().map(|o| (o, true));
        for (operation, action) in actions.chain(written.checks.into_iter().map(|o| (o, false))) {
            let input_schema = Schema::new(operation.schema()?);
            let entry = manifest.operations.entry(operation.name.clone()).or_insert_with(|| ManifestOperation {
                description: operation.description,
                input_schema: input_schema.clone(),
                outputs: operation.outputs,
                ..ManifestOperation::default()
            });
            if entry.input_schema != input_schema {
                return Err(format!("`{}` takes other arguments as an action than as a check", operation.name));
            }
            entry.action |= action;
            entry.check |= !action;
        }
        Ok(manifest)
    }

    /// Reads the answer to `initialize` (§7.4 of the upstream behaviour).
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn of_initialize(answer: &Value) -> Result<Self, String> {
        let sha256 = hex::encode(Sha256::digest(answer.to_string()));
        let said = Initialized::deserialize(answer).map_err(|e| e.to_string())?;
        let operations = said.operations.unwrap_or_default().into_iter().map(|(name, operation)| {
            let may = |names: &[&str]| {
                operation.phases.as_ref().is_none_or(|phases| phases.iter().any(|p| names.contains(&p.as_str())))
            };
            let read = ManifestOperation {
                description: operation.description.clone().unwrap_or_default(),
                action: may(&["setup", "cleanup"]),
                check: may(&["verify"]),
                input_schema: Schema::new(operation.params.clone().unwrap_or_else(|| json!({}))),
                outputs: operation.outputs.clone(),
            };
            (name, read)
        });
        let operations = operations.collect();
        let (name, version) = (said.name, version(&said.version));
        Ok(Self { name, version, sha256, operations, protocol: Some(Protocol::JsonRpc), ..Self::default() })
    }

    /// The answer to `initialize` of a program whose folder has an `extension.yaml`: this says what the answer does not.
    pub fn with(mut self, written: Self) -> Self {
        for (name, operation) in written.operations {
            if let Some(said) = self.operations.get_mut(&name) {
                (said.action, said.check) = (operation.action, operation.check);
                said.outputs = said.outputs.take().or(operation.outputs);
            }
        }
        Self { requires: written.requires, program: written.program, ..self }
    }
}

fn version(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

impl WrittenOperation {
    fn schema(&self) -> Result<Value, String> {
        let mut properties = Map::new();
        for (name, argument) in &self.args {
            let mut schema = match argument.kind.as_deref() {
                None => json!({}),
                Some("duration") => json!({"type": "string", "format": "duration"}),
                Some(kind @ ("string" | "boolean" | "integer" | "number" | "object" | "array")) => {
                    json!({"type": kind})
                }
                Some(other) => return Err(format!("`{other}`, the type of `{name}`, is not known")),
            };
            for (key, value) in
                [("description", argument.description.clone().map(Value::from)), ("default", argument.default.clone())]
            {
                if let Some(value) = value {
                    schema[key] = value;
                }
            }
            properties.insert(name.clone(), schema);
        }
        let required: Vec<_> = self.args.iter().filter(|(_, a)| a.required).map(|(name, _)| name.as_str()).collect();
        Ok(json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false}))
    }
}

impl Lock {
    /// The tools of a server, where the lock knows it.
    pub fn tools(&self, server: &str) -> Option<&IndexMap<String, LockedTool>> {
        self.servers.get(server).map(|s| &s.tools)
    }

    /// Reads a lock file's text.
    ///
    /// # Errors
    /// The parser's message.
    pub fn parse(text: &str) -> Result<Self, String> {
        let lock: Self = serde_yaml::from_str(text).map_err(|e| e.to_string())?;
        match lock.version {
            1 => Ok(lock),
            other => Err(format!("version {other} is not known; this gevals reads version 1")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_becomes_operations() {
        let text = "name: k8s\nversion: 1.2.0\nactions:\n- name: wait\n  args: {for: {type: duration, required: true}}\nchecks:\n- name: wait\n  args: {for: {type: duration, required: true}}\n- {name: ready}\n";
        let locked = Manifest::parse(text).unwrap();
        let wait = &locked.operations["wait"];
        assert!(wait.action && wait.check && !locked.operations["ready"].action);
        assert_eq!(wait.input_schema.json()["properties"]["for"]["format"], "duration");
        assert!(Manifest::parse(&text.replacen("duration", "string", 1)).is_err());
        assert!(Manifest::parse("actions: [{name: a, args: {b: {type: time}}}]").is_err());
    }
}
