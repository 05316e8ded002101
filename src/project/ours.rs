//! Decides from its text, before parsing, whether a file that was found, and not named, may be one of ours.
//!
//! A directory may contain thousands of files of other programs, and some are not YAML at all: JSON with comments, JSON
//! lines, templates. They must not cause findings or take the time of a parser.

use crate::{
    diagnostic::nearest,
    dialect::{KINDS, foreign, nearly_ours},
    yaml::Node,
};

pub(super) fn is_mcp_config(root: Node<'_>) -> bool {
    root.entries().any(|e| nearest(e.name, ["mcpServers"]).is_some())
}

/// Top-level keys of our files. Each file has at least one of them.
const KEYS: [&str; 8] = ["kind", "Kind", "KIND", "spec", "steps", "config", "commands", "prompt"];

/// A cheap check before parsing: whether a text declares, or nearly declares, to be one of ours.
pub fn may_be_ours(text: &str) -> bool {
    if is_lines(text) {
        return false;
    }
    if is_flow(text) {
        let any = |words: &[&str]| words.iter().any(|word| text.contains(word));
        let envelope = ["metadata", "spec", "steps", "config", "commands", "builtin", "acp", "tasks", "evals"];
        return text.contains("kind") && any(&envelope) || any(&["prompt", "taskSets", "mcpConfigFile", "runPrompt"]);
    }
    documents(text).any(|document| {
        let top = Top::of(document);
        let strange = top.version.is_some_and(|v| foreign(v) || !nearly_ours(v) && !top.kind.is_some_and(is_kind));
        top.has_key && !strange
    })
}

/// Whether a text that does not parse, or has several documents, declares to be one of ours.
pub fn says_so(text: &str) -> bool {
    if is_flow(text) {
        let value = |key: &str| {
            let (_, rest) = text.split_once(key)?;
            Some(rest.trim_start_matches(['"', '\'', ':', ' ', '\n', '\t']))
        };
        let kind = value("kind").is_some_and(|rest| KINDS.iter().any(|kind| rest.starts_with(kind)));
        return value("apiVersion")
            .map_or(kind, |rest| nearly_ours(rest.split(['"', '\'', ',', '}']).next().unwrap_or("")));
    }
    !is_template(text)
        && documents(text).any(|document| {
            let top = Top::of(document);
            // Truncated in the middle of its kind.
            let open = |kind: &str| kind.starts_with(['[', '{']) && !kind.starts_with("{{");
            top.version.map_or_else(
                || top.kind.is_some_and(|kind| is_kind(kind) || open(kind)),
                |v| !v.is_empty() && nearly_ours(v),
            )
        })
}

fn is_kind(word: &str) -> bool {
    KINDS.iter().any(|kind| kind.eq_ignore_ascii_case(word))
}

/// Whether a text is a mapping or a list in brackets, like JSON, and not a template that starts with an action.
fn is_flow(text: &str) -> bool {
    let text = text.trim_start_matches('\u{feff}').trim_start();
    text.starts_with(['{', '[']) && !text.starts_with("{{")
}

/// Whether a text is JSON lines, which are records of a log or of data, and not a single document.
fn is_lines(text: &str) -> bool {
    let mut lines = text.trim_start_matches('\u{feff}').lines().map(str::trim).filter(|line| !line.is_empty());
    let mut record = || lines.next().is_some_and(|line| line.starts_with('{') && line.ends_with('}'));
    record() && record()
}

fn documents(text: &str) -> impl Iterator<Item = &str> {
    text.split("\n---").map(|document| document.strip_prefix("---").unwrap_or(document))
}

/// Whether a text is a Helm chart or another Go template of a whole file: it has control lines or values of a chart.
fn is_template(text: &str) -> bool {
    text.contains("{{")
        && ([".Values", ".Release", ".Chart"].iter().any(|word| text.contains(word))
            || text.lines().any(|line| {
                let action = line.trim_start().strip_prefix("{{").map(|rest| rest.trim_start_matches(['-', ' ']));
                let words = ["if", "range", "with", "end", "else", "define", "include", "template", "/*", "$"];
                action.is_some_and(|action| words.iter().any(|word| action.starts_with(word)))
            }))
}

/// The top-level keys of one document in YAML's block style.
#[derive(Default)]
struct Top<'t> {
    version: Option<&'t str>,
    kind: Option<&'t str>,
    has_key: bool,
}

impl<'t> Top<'t> {
    fn of(document: &'t str) -> Self {
        let mut top = Self::default();
        let mut indent = None;
        for line in document.lines() {
            let line = line.trim_start_matches('\u{feff}');
            let content = line.trim_start_matches(' ');
            if content.is_empty() || content.starts_with('#') {
                continue;
            }
            let depth = line.len() - content.len();
            if depth > *indent.get_or_insert(depth) {
                continue;
            }
            let Some((key, value)) = content.split_once(':') else { continue };
            let key = key.trim_matches(['"', '\'', ' ']);
            let value = value.split(" #").next().unwrap_or("").trim().trim_matches(['"', '\'']);
            top.has_key |= KEYS.contains(&key);
            match key {
                _ if key.eq_ignore_ascii_case("kind") => top.kind = Some(value),
                _ if key.eq_ignore_ascii_case("apiVersion") => top.version = Some(value),
                _ => {}
            }
        }
        top
    }
}
