//! `gevals.lock`: what is known of programs that `check` never runs (`decisions.md` §10). YAML that gevals itself writes.

mod evals;

use std::path::PathBuf;

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

pub use evals::{EvalChanges, LockedEval, LockedEvals};

use crate::{hir::Substitute, signature::Schema};

/// The file's name; the file is beside the eval, or above it.
pub const FILE_NAME: &str = "gevals.lock";

/// The lock. An empty lock knows nothing; that it does not know something is not an error.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, expecting = "a mapping")]
pub struct Lock {
    pub version: u32,
    /// By the server's name in the MCP config.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub servers: IndexMap<String, LockedServer>,
    /// By the extension's alias in the eval, or by the package that a task imports.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub extensions: IndexMap<String, LockedExtension>,
    /// By reference: `github.com/OWNER/REPO@VERSION`.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub releases: IndexMap<String, LockedRelease>,
    /// Repositories of tasks, by `REPO@REF`.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub sources: IndexMap<String, LockedSource>,
    /// The evals that servers ship, by the server's name in the MCP config, or otherwise by the name that the server reports.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub evals: IndexMap<String, LockedEvals>,
    /// The directory of the file; not stored in it.
    #[serde(skip)]
    pub dir: PathBuf,
    /// Whether bundled extensions replace releases, as set by the eval for which this lock is read; not stored in the file.
    #[serde(skip)]
    pub substitute: Substitute,
}

/// A release of an extension, pinned.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, expecting = "a mapping")]
pub struct LockedRelease {
    /// The tag that `latest` was resolved to, or the version as written.
    pub tag: String,
    /// SHA-256 of each relevant file of the release, by name: the programs, the manifest.
    pub files: IndexMap<String, String>,
    /// The release before the last update: `gevals ext rollback` goes back to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<Box<LockedRelease>>,
}

/// A repository at a commit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, expecting = "a mapping")]
pub struct LockedSource {
    pub commit: String,
    /// Digest of its files.
    pub sha256: String,
}

/// What a server reported about itself when it was locked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, expecting = "a mapping")]
pub struct LockedServer {
    #[serde(default)]
    pub version: String,
    #[serde(default)]
    pub tools: IndexMap<String, LockedTool>,
}

/// A tool as its server listed it when the lock was written.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, expecting = "a mapping")]
pub struct LockedTool {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    pub input_schema: Schema,
}

/// What an extension's manifest contained when it was locked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, expecting = "a mapping")]
pub struct LockedExtension {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// Digest of the manifest.
    pub sha256: String,
    /// What it asks for in a sandbox.
    #[serde(default, skip_serializing_if = "Permissions::is_empty")]
    pub permissions: Permissions,
    #[serde(default)]
    pub operations: IndexMap<String, LockedOperation>,
}

/// What an extension may do in a sandbox: requested by its manifest, or granted by an eval.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default, expecting = "a mapping")]
pub struct Permissions {
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub network: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub read: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub write: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
}

impl Permissions {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// For people: `network, read data, env LANG`.
    pub fn words(&self) -> String {
        let mut words: Vec<String> = self.network.then(|| "network".to_owned()).into_iter().collect();
        for (what, names) in [("read", &self.read), ("write", &self.write), ("env", &self.env)] {
            if !names.is_empty() {
                words.push(format!("{what} {}", names.join(" ")));
            }
        }
        if words.is_empty() { "nothing".to_owned() } else { words.join(", ") }
    }
}

/// An operation as its extension's manifest described it when the lock was written.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, expecting = "a mapping")]
pub struct LockedOperation {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Whether it may be used in setup and cleanup.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub action: bool,
    /// Whether it may be used in verify.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub check: bool,
    pub input_schema: Schema,
    /// `None` if the manifest does not specify them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outputs: Option<IndexMap<String, Value>>,
}

/// `extension.yaml`, as an extension's author writes it.
#[derive(Deserialize)]
struct Manifest {
    #[serde(default)]
    version: Value,
    #[serde(default)]
    permissions: Permissions,
    #[serde(default)]
    actions: Vec<ManifestOperation>,
    #[serde(default)]
    checks: Vec<ManifestOperation>,
}

#[derive(Deserialize)]
struct ManifestOperation {
    name: String,
    #[serde(default)]
    description: String,
    #[serde(default)]
    args: IndexMap<String, ManifestArgument>,
    #[serde(default)]
    outputs: Option<IndexMap<String, Value>>,
}

#[derive(Deserialize, PartialEq)]
struct ManifestArgument {
    #[serde(default, rename = "type")]
    kind: Option<String>,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    required: bool,
    #[serde(default)]
    default: Option<Value>,
}

impl LockedExtension {
    /// Reads a manifest of the one-shot protocol, `extension.yaml`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn from_manifest(text: &str) -> Result<Self, String> {
        let manifest: Manifest = serde_yaml::from_str(text).map_err(|e| e.to_string())?;
        let version = manifest.version.as_str().map_or_else(|| manifest.version.to_string(), str::to_owned);
        let sha256 = hex::encode(Sha256::digest(text));
        let version = if manifest.version.is_null() { String::new() } else { version };
        let mut locked = Self { version, sha256, permissions: manifest.permissions, operations: IndexMap::new() };
        let actions = manifest.actions.into_iter().map(|o| (o, true));
        for (operation, action) in actions.chain(manifest.checks.into_iter().map(|o| (o, false))) {
            let input_schema = Schema::new(operation.schema()?);
            let entry = locked.operations.entry(operation.name.clone()).or_insert_with(|| LockedOperation {
                description: operation.description,
                input_schema: input_schema.clone(),
                outputs: operation.outputs,
                ..LockedOperation::default()
            });
            if entry.input_schema != input_schema {
                return Err(format!("`{}` has different arguments as an action and as a check", operation.name));
            }
            entry.action |= action;
            entry.check |= !action;
        }
        Ok(locked)
    }
}

/// An extension's answer to `initialize` (§7.4 of the upstream behavior), with what the portable format adds for each operation.
#[derive(Deserialize)]
struct Protocol {
    #[serde(default)]
    version: String,
    #[serde(default)]
    permissions: Permissions,
    #[serde(default)]
    operations: IndexMap<String, ProtocolOperation>,
}

#[derive(Deserialize)]
struct ProtocolOperation {
    #[serde(default)]
    description: String,
    #[serde(default)]
    params: Option<Value>,
    #[serde(default)]
    outputs: Option<IndexMap<String, Value>>,
    /// All phases if not specified.
    #[serde(default)]
    phases: Option<Vec<String>>,
}

impl LockedExtension {
    /// Reads an extension's answer to `initialize`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn from_protocol(manifest: &Value) -> Result<Self, String> {
        let sha256 = hex::encode(Sha256::digest(manifest.to_string()));
        let protocol: Protocol = serde_json::from_value(manifest.clone()).map_err(|e| e.to_string())?;
        let operation = |(name, operation): (String, ProtocolOperation)| {
            let stands = |phase: &str| operation.phases.as_ref().is_none_or(|phases| phases.iter().any(|p| p == phase));
            let locked = LockedOperation {
                action: stands("setup") || stands("cleanup"),
                check: stands("verify"),
                description: operation.description,
                input_schema: Schema::new(operation.params.unwrap_or_else(|| json!({"type": "object"}))),
                outputs: operation.outputs,
            };
            (name, locked)
        };
        Ok(Self {
            version: protocol.version,
            sha256,
            permissions: protocol.permissions,
            operations: protocol.operations.into_iter().map(operation).collect(),
        })
    }
}

impl ManifestOperation {
    fn schema(&self) -> Result<Value, String> {
        let mut properties = Map::new();
        for (name, argument) in &self.args {
            let mut schema = match argument.kind.as_deref() {
                None => json!({}),
                Some("duration") => json!({"type": "string", "format": "duration"}),
                Some(kind @ ("string" | "boolean" | "integer" | "number" | "object" | "array")) => {
                    json!({"type": kind})
                }
                Some(other) => return Err(format!("the type `{other}` of `{name}` is not supported")),
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
    /// The tools of a server, if the lock contains it.
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
            other => Err(format!("version {other} is not supported; this gevals reads version 1")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_becomes_operations() {
        let text = "name: k8s\nversion: 1.2.0\nactions:\n- name: wait\n  args: {for: {type: duration, required: true}}\nchecks:\n- name: wait\n  args: {for: {type: duration, required: true}}\n- {name: ready}\n";
        let locked = LockedExtension::from_manifest(text).unwrap();
        let wait = &locked.operations["wait"];
        assert!(wait.action && wait.check && !locked.operations["ready"].action);
        assert_eq!(wait.input_schema.json()["properties"]["for"]["format"], "duration");
        assert!(LockedExtension::from_manifest(&text.replacen("duration", "string", 1)).is_err());
        assert!(LockedExtension::from_manifest("actions: [{name: a, args: {b: {type: time}}}]").is_err());
    }
}
