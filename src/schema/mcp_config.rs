//! MCP-config files.

use indexmap::IndexMap;
use schemars::JsonSchema;

/// The servers an agent may use.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct McpConfig {
    /// By name.
    #[schemars(extend("minProperties" = 1))]
    pub mcp_servers: IndexMap<String, Server>,
}

/// A program (`command`) or a streamable HTTP server (`url`). `${VAR}` and `${VAR:-default}` are expanded.
#[derive(JsonSchema, Debug)]
#[schemars(
    rename_all = "camelCase",
    deny_unknown_fields,
    extend("anyOf" = [{ "required": ["command"] }, { "required": ["url"] }])
)]
pub struct Server {
    /// Follows from `command` or `url` where it is left out.
    #[schemars(rename = "type")]
    pub kind: Option<ServerType>,
    /// The program; exactly `gevals` is this executable.
    pub command: Option<String>,
    /// What the program is started with.
    pub args: Option<Vec<String>>,
    /// Variables added to its environment.
    pub env: Option<IndexMap<String, String>>,
    /// Of a streamable HTTP server.
    pub url: Option<String>,
    /// Sent with each request; values are masked.
    pub headers: Option<IndexMap<String, String>>,
    /// Whether it is left out.
    pub disabled: Option<bool>,
    /// Tools the agent may call.
    pub always_allow: Option<Vec<String>>,
    /// Whether the agent may call every tool.
    pub enable_all_tools: Option<bool>,
}

/// How a server is reached.
#[derive(JsonSchema, Debug)]
pub enum ServerType {
    #[schemars(rename = "stdio")]
    Stdio,
    #[schemars(rename = "http")]
    Http,
    #[schemars(rename = "streamable-http")]
    StreamableHttp,
    #[schemars(rename = "streamableHttp")]
    StreamableHttpToo,
}
