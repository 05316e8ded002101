//! The steps dialect, `mcpchecker/v1alpha2` (§1.3 of the upstream behaviour), and its holes (§0.5).

use std::ops::Range;

use super::{DialectInfo, TaskFile, open, portable::requirement, prompt, step};
use crate::{
    decode::{Leniency, Reader, Scan, literal},
    hir::{Dialect, Hole, Part, Suspect, Task, Template},
    source::Span,
    template::{Ident, Path, Segment, SegmentKind, SuspectKind},
    yaml::Node,
};

/// How the steps dialect is recognized and read.
pub const DIALECT: DialectInfo = DialectInfo {
    dialect: Dialect::Steps,
    versions: &["mcpchecker/v1alpha2"],
    aliases: &["gevals/v1alpha2"],
    leniency: Leniency::Task,
    decode,
};

fn decode(reader: &mut Reader<'_>, root: Node<'_>, file: &TaskFile<'_>) -> Option<Task<Path>> {
    let help = "add `metadata: {name: …}`; other tools never select a task without a name";
    let (mut fields, head, mut task) = open(reader, root, file, Dialect::Steps, "a task", help)?;
    let help = "in the steps dialect, the prompt and the steps belong under `spec`";
    let spec = fields.require_entry(reader, "spec", head, Some(help));
    fields.finish(reader);
    let spec = spec?;
    let mut fields = reader.fields(spec.value, "a task's spec")?;
    if let Some(node) = fields.take(reader, "requires") {
        let items = reader.items(node, "`requires`");
        task.requires = items.into_iter().filter_map(|item| requirement(reader, item, Dialect::Steps)).collect();
    }
    if let Some(node) = fields.take(reader, "limits")
        && let Some(mut limits) = reader.fields(node, "the limits of a task")
    {
        if let Some(node) = limits.take(reader, "timeout") {
            task.meta.timeout = reader.duration(node, "the timeout of a task");
        }
        if let Some(node) = limits.take(reader, "cleanupTimeout") {
            task.meta.cleanup_timeout = reader.duration(node, "the cleanupTimeout of a task");
        }
        task.meta.bounds = super::bounds(reader, &mut limits);
        limits.finish(reader);
    }
    if let Some(node) = fields.require(reader, "prompt", spec.key.span()) {
        task.prompt = prompt(reader, node, file, prompt_holes, false);
    }
    let style = step::Style { vocabulary: file.vocabulary, id_beside: true, scan: templated };
    for (key, phase) in [("setup", &mut task.setup), ("verify", &mut task.verify), ("cleanup", &mut task.cleanup)] {
        let entry = fields.take_entry(reader, key);
        *phase = step::phase(reader, entry, style);
    }
    fields.finish(reader);
    Some(task)
}

/// Where upstream evaluates templates. Everywhere else, braces are plain text.
fn templated(operation: &str, argument: &str) -> Scan {
    match (operation, argument) {
        ("script", "env") | ("http", "url" | "method" | "headers") | ("llmJudge", "contains" | "exact") => holes,
        _ => unexpanded,
    }
}

/// Upstream's holes: `${NAME}`, `{source.field}`. There is no escape, and a text that does not parse is an error in
/// upstream.
pub fn holes(node: Node<'_>) -> Template<Path> {
    let text = node.text().unwrap_or_default();
    match parse(text, &|range| node.cooked(range)) {
        Ok(parts) => Template { parts, span: node.span(), suspects: Vec::new() },
        Err((range, detail)) => {
            let suspect = Suspect {
                kind: SuspectKind::Malformed,
                root: String::new(),
                span: node.cooked(range),
                detail: detail.to_owned(),
            };
            Template { suspects: vec![suspect], ..Template::literal(text, node.span()) }
        }
    }
}

/// Text whose holes upstream leaves unchanged. Each of them is a suspect.
pub fn unexpanded(node: Node<'_>) -> Template<Path> {
    let suspects = suspects(node.text().unwrap_or_default(), &|range| node.cooked(range), "is not filled here");
    Template { suspects, ..literal(node) }
}

/// Like [`unexpanded`], for the text of a prompt file.
pub fn unexpanded_text(text: &str, span: Span, place: &dyn Fn(Range<usize>) -> Span) -> Template<Path> {
    Template { suspects: suspects(text, place, "is not filled here"), ..Template::literal(text, span) }
}

fn suspects(text: &str, place: &dyn Fn(Range<usize>) -> Span, why: &str) -> Vec<Suspect> {
    looks_like_holes(text)
        .map(|(range, root)| Suspect { kind: SuspectKind::Malformed, root, span: place(range), detail: why.to_owned() })
        .collect()
}

/// The prompt. It is expanded only if it contains `{steps.`, and then as a whole or not at all (§0.5, "Prompt special
/// case").
pub fn prompt_holes(node: Node<'_>) -> Template<Path> {
    let text = node.text().unwrap_or_default();
    prompt_text(text, node.span(), &|range| node.cooked(range))
}

/// Like [`prompt_holes`], for the text of a prompt file.
pub fn prompt_text(text: &str, span: Span, place: &dyn Fn(Range<usize>) -> Span) -> Template<Path> {
    if !text.contains("{steps.") {
        let suspects = suspects(text, place, "is not filled in a prompt without `{steps.…}`");
        return Template { suspects, ..Template::literal(text, span) };
    }
    let broken = |range: Range<usize>, detail: &str| Suspect {
        kind: SuspectKind::Malformed,
        root: "steps".to_owned(),
        span: place(range),
        detail: detail.to_owned(),
    };
    match parse(text, place) {
        Ok(parts) => {
            let other = parts.iter().find_map(|p| match p {
                Part::Hole(hole) if !matches!(hole.reference.root.text.as_str(), "steps" | "env") => Some(hole.span),
                _ => None,
            });
            match other {
                None => Template { parts, span, suspects: Vec::new() },
                Some(at) => Template {
                    suspects: vec![Suspect {
                        kind: SuspectKind::Malformed,
                        root: "steps".to_owned(),
                        span: at,
                        detail: "prevents the whole prompt from being filled: only `{steps.…}` and `{env.…}` are allowed in a prompt".to_owned(),
                    }],
                    ..Template::literal(text, span)
                },
            }
        }
        Err((range, detail)) => {
            let detail = format!("prevents the whole prompt from being filled: {detail}");
            Template { suspects: vec![broken(range, &detail)], ..Template::literal(text, span) }
        }
    }
}

type Fault = (Range<usize>, &'static str);

fn parse(text: &str, place: &dyn Fn(Range<usize>) -> Span) -> Result<Vec<Part<Path>>, Fault> {
    let mut parts = Vec::new();
    let mut literal = String::new();
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let dollar = bytes[at] == b'$' && bytes.get(at + 1) == Some(&b'{');
        if dollar || bytes[at] == b'{' {
            let open = at + usize::from(dollar);
            let close = text[open..].find('}').map(|i| open + i).ok_or((at..text.len(), "the brace is not closed"))?;
            let inner = &text[open + 1..close];
            let path = match dollar {
                true => env_path(inner, open + 1).ok_or((at..close + 1, "this is not a variable name"))?,
                false => dotted_path(inner, open + 1)
                    .ok_or((at..close + 1, "this is not a `{source.field}`, and braces cannot be escaped"))?,
            };
            if !literal.is_empty() {
                parts.push(Part::Text(std::mem::take(&mut literal)));
            }
            let root = place(path.root.range.clone());
            let spans = std::iter::once(root).chain(path.segments.iter().map(|s| place(s.range.clone()))).collect();
            parts.push(Part::Hole(Box::new(Hole {
                text: text[at..=close].to_owned(),
                span: place(at..close + 1),
                spans,
                filters: Vec::new(),
                filter_spans: Vec::new(),
                reference: path,
            })));
            at = close + 1;
        } else if bytes[at] == b'}' {
            return Err((at..at + 1, "this closing brace has no opening one, and braces cannot be escaped"));
        } else {
            let width = text[at..].chars().next().map_or(1, char::len_utf8);
            literal.push_str(&text[at..at + width]);
            at += width;
        }
    }
    if !literal.is_empty() {
        parts.push(Part::Text(literal));
    }
    Ok(parts)
}

fn env_path(name: &str, start: usize) -> Option<Path> {
    let fits = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    let range = start..start + name.len();
    fits.then(|| Path {
        root: Ident { text: "env".to_owned(), range: range.clone() },
        segments: vec![Segment { kind: SegmentKind::Name(name.to_owned()), range }],
    })
}

/// Parses a path. `steps.TYPE.KEY` is split at its last dot, because a type may contain dots (§0.5).
fn dotted_path(inner: &str, start: usize) -> Option<Path> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let (root, field) = inner.split_once('.')?;
    if root.is_empty() || field.is_empty() || !inner.chars().all(fits) {
        return None;
    }
    let segment = |from: usize, text: &str| Segment {
        kind: SegmentKind::Name(text.to_owned()),
        range: start + from..start + from + text.len(),
    };
    let from = root.len() + 1;
    let segments = match (root, field.rsplit_once('.')) {
        ("steps", Some((ty, key))) => vec![segment(from, ty), segment(from + ty.len() + 1, key)],
        _ => vec![segment(from, field)],
    };
    Some(Path { root: Ident { text: root.to_owned(), range: start..start + root.len() }, segments })
}

/// Places that an author would take for a hole: `{` and one of upstream's sources. `{{env.X}}` and `${env.X}` belong to
/// other tools.
pub fn looks_like_holes(text: &str) -> impl Iterator<Item = (Range<usize>, String)> + '_ {
    const SOURCES: [&str; 4] = ["env", "random", "steps", "agent"];
    text.match_indices('{').filter_map(move |(at, _)| {
        let close = at + text[at..].find('}')?;
        let inner = &text[at + 1..close];
        if text[..at].ends_with(['{', '$']) {
            return None;
        }
        let root =
            SOURCES.iter().find(|s| inner.strip_prefix(**s).is_some_and(|r| r.starts_with('.') && r.len() > 1))?;
        inner
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'))
            .then(|| (at..close + 1, (*root).to_owned()))
    })
}
