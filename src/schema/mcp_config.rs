//! MCP-config files.

use indexmap::IndexMap;
use schemars::JsonSchema;

/// The servers that an agent may use.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct McpConfig {
    /// The servers, by name.
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
    /// The transport; if omitted, it is derived from `command` or `url`.
    #[schemars(rename = "type")]
    pub kind: Option<ServerType>,
    /// The program. The value `gevals` means the running gevals executable.
    pub command: Option<String>,
    /// Arguments of the program.
    pub args: Option<Vec<String>>,
    /// Environment variables to add.
    pub env: Option<IndexMap<String, String>>,
    /// The URL of a streamable HTTP server.
    pub url: Option<String>,
    /// Headers sent with each request; their values are masked in output.
    pub headers: Option<IndexMap<String, String>>,
    /// Whether the server is disabled.
    pub disabled: Option<bool>,
    /// Tools that the agent may call.
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
