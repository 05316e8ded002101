//! `gevals.lock`: what is known of programs that `check` never runs (`decisions.md` §10). YAML that gevals itself writes.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;

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

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LockedTool {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    pub input_schema: Value,
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
