//! Whether a file is one of ours: what it says, read before and beside the parser.

use crate::{diagnostic::nearest, yaml::Node};

pub(super) fn is_mcp_config(root: Node<'_>) -> bool {
    root.entries().any(|e| nearest(e.name, ["mcpServers"]).is_some())
}

/// What files of ours begin a line with.
pub(super) const KEYS: [&str; 7] = ["kind", "Kind", "KIND", "spec", "steps", "config", "commands"];

/// A cheap look before the parser: does this file say, or nearly, that it is one of ours?
pub(super) fn begins_line(text: &str, keys: &[&str]) -> bool {
    let begins = |line: &str| {
        let line = line.trim_start_matches(['{', '"', '\'', ' ', '\u{feff}']);
        keys.iter().any(|k| line.starts_with(k))
    };
    text.lines().any(begins) || text.trim_start().starts_with('{')
}

/// Whether a text that does not parse says that it is of another program's API.
pub(super) fn is_foreign(text: &str) -> bool {
    let version = text.lines().find_map(|line| line.strip_prefix("apiVersion:")).unwrap_or_default();
    let version = version.trim().trim_matches(['"', '\'']);
    !version.is_empty() && !["mcpchecker/", "gevals/", "mcp-eval/"].iter().any(|ours| version.starts_with(ours))
}

pub(super) fn ours(text: &str) -> bool {
    ["kind: Task", "kind: Eval", "kind: Agent", "kind: Oracle"].iter().any(|k| text.contains(k))
}
