//! An MCP server of an eval.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::Serialize;

use super::secret::is_secret_header;
use crate::{
    hir::{Expand, ExpandPart, Name, Server, Transport},
    secrets::{MASK, is_secret_name},
};

/// An MCP server; variables are not expanded, secrets are masked.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServerDocument {
    pub name: String,
    /// A program and its arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub env: IndexMap<String, String>,
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub headers: IndexMap<String, String>,
    /// Whether the agent may call every tool.
    pub all_tools: bool,
    /// The tools that the agent may call, if not all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
}

pub(super) fn server_document(server: &Server) -> ServerDocument {
    let mut document = ServerDocument {
        name: server.name.value.clone(),
        command: Vec::new(),
        url: None,
        env: IndexMap::new(),
        headers: IndexMap::new(),
        all_tools: server.enable_all_tools.is_some_and(|e| e.value),
        tools: server.always_allow.iter().map(|t| t.value.clone()).collect(),
    };
    let map = |entries: &[(Name, Expand)], secret: fn(&str) -> bool| {
        let shown = |n: &Name, v: &Expand| if secret(&n.value) { masked_expand(v) } else { v.display() };
        entries.iter().map(|(n, v)| (n.value.clone(), shown(n, v))).collect()
    };
    match &server.transport {
        Transport::Stdio { command, args, env } => {
            document.command = std::iter::once(command).chain(args).map(Expand::display).collect();
            document.env = map(env, is_secret_name);
        }
        Transport::Http { url, headers } => {
            document.url = Some(url.display());
            document.headers = map(headers, is_secret_header);
        }
    }
    document
}

fn masked_expand(value: &Expand) -> String {
    let parts = value.parts.iter().map(|part| match part {
        ExpandPart::Text(_) => MASK.to_owned(),
        ExpandPart::Var { name, default: None } => format!("${{{name}}}"),
        ExpandPart::Var { name, default: Some(_) } => format!("${{{name}:-{MASK}}}"),
    });
    parts.collect()
}
