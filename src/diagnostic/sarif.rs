//! Findings as SARIF 2.1.0, for code scanning.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{Applicability, Diagnostic, Fix, Pretty, Rule, Strength, report};
use crate::source::{Position, Sources, Span};

/// The home page of gevals.
const HOME: &str = "https://crates.io/crates/gevals";
/// The place of this version's sources, which include the pages of its rules.
const PAGES: &str = concat!("https://docs.rs/crate/gevals/", env!("CARGO_PKG_VERSION"), "/source/lints/");
/// The name of our fingerprints. Another algorithm needs another name.
const FINGERPRINT: &str = "gevalsFinding/v1";

pub(super) fn sarif(found: &[Diagnostic], sources: &Sources, _: usize, _: &Pretty) -> String {
    let mut rules: BTreeMap<&str, &Rule> = BTreeMap::new();
    for d in found {
        rules.entry(d.rule.name).or_insert(d.rule);
    }
    let index: BTreeMap<&str, usize> = rules.keys().enumerate().map(|(i, k)| (*k, i)).collect();
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let data = report(found, sources, 0);
    let results: Vec<Value> = found
        .iter()
        .zip(&data.diagnostics)
        .map(|(d, f)| {
            let text = match &f.help {
                Some(help) => format!("{}; {help}", f.message),
                None => f.message.clone(),
            };
            let related = f
                .labels
                .iter()
                .map(|l| location(&l.path, l.line, l.column, l.end_line, l.end_column, Some(&l.message)));
            // SARIF's `locations` are places that must all be changed to fix one fault.
            let again = f
                .places
                .iter()
                .map(|p| location(&p.path, p.line, p.column, p.end_line, p.end_column, Some("also here")));
            let mut result = json!({
                "ruleId": d.rule.name,
                "ruleIndex": index[d.rule.name],
                "kind": "fail",
                "level": level(d.strength),
                "message": { "text": text },
                "locations": [location(&f.path, f.line, f.column, f.end_line, f.end_column, None)],
                "relatedLocations": related.chain(again).collect::<Vec<_>>(),
                "partialFingerprints": { FINGERPRINT: fingerprint(d, &f.path, sources, &mut seen) },
            });
            if let Some(fix) = &d.fix {
                result["fixes"] = json!([mending(fix, sources)]);
                result["properties"] =
                    json!({ "fix": { "description": fix.description, "applicability": fix.applicability } });
            }
            result
        })
        .collect();
    let log = json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "columnKind": "unicodeCodePoints",
            "automationDetails": { "id": "gevals/check/" },
            "tool": { "driver": {
                "name": "gevals",
                "fullName": concat!("gevals ", env!("CARGO_PKG_VERSION")),
                "version": env!("CARGO_PKG_VERSION"),
                "semanticVersion": env!("CARGO_PKG_VERSION"),
                "informationUri": HOME,
                "rules": rules.into_values().map(told).collect::<Vec<_>>(),
            } },
            "invocations": [{ "executionSuccessful": true }],
            "results": results,
        }],
    });
    format!("{log:#}\n")
}

/// The URL of the page of a rule.
pub fn page_of(rule: &Rule) -> String {
    format!("{PAGES}{}.md", rule.name)
}

/// The description of a rule.
fn told(rule: &Rule) -> Value {
    let (strength, precision) = match rule.strength {
        Strength::Hard => ("error", "very-high"),
        Strength::Verdict => ("error", "high"),
        Strength::Warning => ("warning", "medium"),
        Strength::Note => ("recommendation", "medium"),
    };
    json!({
        "id": rule.name,
        "shortDescription": { "text": rule.summary() },
        "fullDescription": { "text": rule.summary() },
        "help": { "text": rule.page, "markdown": rule.page },
        "helpUri": page_of(rule),
        "defaultConfiguration": { "level": level(rule.strength) },
        "properties": { "precision": precision, "problem.severity": strength, "tags": ["gevals", "evals"] },
    })
}

fn level(strength: Strength) -> &'static str {
    match strength {
        Strength::Hard | Strength::Verdict => "error",
        Strength::Warning => "warning",
        Strength::Note => "note",
    }
}

fn location(path: &str, line: usize, column: usize, end_line: usize, end_column: usize, text: Option<&str>) -> Value {
    let region = json!({ "startLine": line, "startColumn": column, "endLine": end_line, "endColumn": end_column });
    let mut location = json!({ "physicalLocation": { "artifactLocation": { "uri": uri(path) }, "region": region } });
    if let Some(text) = text {
        location["message"] = json!({ "text": text });
    }
    location
}

/// Identifies a finding independently of its line number: the rule, the file, the message, the text of the line, and its index among
/// findings that are equal in all of these.
fn fingerprint(d: &Diagnostic, path: &str, sources: &Sources, seen: &mut BTreeMap<String, usize>) -> String {
    let source = sources.get(d.span.file);
    let start = d.span.range().start.min(source.text().len());
    let before = source.text().get(..start).unwrap_or_default();
    let line = before.rfind('\n').map_or(0, |end| end + 1);
    let line = source.text().get(line..).and_then(|rest| rest.lines().next()).unwrap_or_default().trim();
    let mut hash = Sha256::new();
    for part in [d.rule.name, uri(path).as_str(), d.message.as_str(), line] {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    let alike = hex::encode(&hash.finalize()[..16]);
    let nth = seen.entry(alike.clone()).or_default();
    *nth += 1;
    format!("{alike}:{nth}")
}

/// A fix with all its edits, grouped by file.
fn mending(fix: &Fix, sources: &Sources) -> Value {
    let mut changes: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for edit in &fix.edits {
        let (start, end) = ends(edit.span, sources);
        let region = json!({
            "startLine": start.line, "startColumn": start.column, "endLine": end.line, "endColumn": end.column,
        });
        let replacement = json!({ "deletedRegion": region, "insertedContent": { "text": edit.text } });
        let path = sources.path(edit.span);
        changes.entry(uri(&path.to_string_lossy())).or_default().push(replacement);
    }
    let changes: Vec<Value> = changes
        .into_iter()
        .map(|(uri, replacements)| json!({ "artifactLocation": { "uri": uri }, "replacements": replacements }))
        .collect();
    let text = match fix.applicability {
        Applicability::Safe => fix.description.clone(),
        Applicability::Unsafe => format!("{} (it may change what the file means)", fix.description),
    };
    json!({ "description": { "text": text }, "artifactChanges": changes })
}

fn ends(span: Span, sources: &Sources) -> (Position, Position) {
    let source = sources.get(span.file);
    (source.position(span.start), source.position(span.end.max(span.start)))
}

/// A path as a URI: forward slashes, other special characters escaped.
fn uri(path: &str) -> String {
    let keep = |b: u8| b.is_ascii_alphanumeric() || b"-._~/".contains(&b);
    let path = path.replace('\\', "/");
    let escaped: String = path
        .trim_start_matches("./")
        .bytes()
        .map(|b| if keep(b) { char::from(b).to_string() } else { format!("%{b:02X}") })
        .collect();
    if escaped.starts_with('/') { format!("file://{escaped}") } else { escaped }
}
