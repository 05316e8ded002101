//! Findings as data: the output of `check --format json` (`decisions.md` §10).

use schemars::JsonSchema;
use serde::Serialize;

use super::{Applicability, Diagnostic, Strength};
use crate::source::{Position, Sources, Span};

/// What `gevals check --format json` prints: every finding, never truncated, by path, line, column and rule.
///
/// Lines and columns count from 1; columns are Unicode scalar values; ends are exclusive.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DiagnosticReport {
    /// The version of this format.
    #[schemars(extend("const" = 1))]
    pub version: u32,
    pub diagnostics: Vec<Finding>,
    /// How many files of a known kind were checked.
    pub files: usize,
}

/// One finding.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// The name of the rule; `gevals explain RULE` describes it.
    pub rule: String,
    pub level: Level,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub help: Option<String>,
    /// The path as given on the command line, joined with the relative path below it; symbolic links are not resolved.
    pub path: String,
    pub line: usize,
    pub column: usize,
    pub end_line: usize,
    pub end_column: usize,
    /// Further locations that belong to the finding; the first may repeat the finding's own location with more information.
    pub labels: Vec<LabelReport>,
    /// Other locations of the same finding: warnings and notes with the same message are merged into one finding.
    pub places: Vec<PlaceReport>,
    /// An automatic fix, if available.
    pub fix: Option<FixReport>,
}

/// The severity of a finding: `gevals check` fails only on errors.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    Error,
    Warning,
    Note,
}

/// A further location of a finding.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlaceReport {
    pub path: String,
    pub line: usize,
    pub column: usize,
    pub end_line: usize,
    pub end_column: usize,
}

/// A location and how it relates to the finding.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LabelReport {
    pub path: String,
    pub line: usize,
    pub column: usize,
    pub end_line: usize,
    pub end_column: usize,
    pub message: String,
}

/// A fix, which is applied completely or not at all: a safe fix by `gevals check --fix`, an unsafe one by `--unsafe-fixes`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FixReport {
    pub description: String,
    pub applicability: Applicability,
    /// Edits, which do not overlap and may be in different files.
    pub edits: Vec<EditReport>,
}

/// Replaces a range of a file's bytes; a byte order mark counts.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EditReport {
    pub path: String,
    /// The first byte replaced.
    pub start: u32,
    /// The byte after the last one replaced.
    pub end: u32,
    /// The replacement text.
    pub text: String,
}

/// Builds the report on `diagnostics`, in their order, after a check of `files` files of a known kind.
pub fn report(diagnostics: &[Diagnostic], sources: &Sources, files: usize) -> DiagnosticReport {
    DiagnosticReport { version: 1, diagnostics: diagnostics.iter().map(|d| finding(d, sources)).collect(), files }
}

fn finding(diagnostic: &Diagnostic, sources: &Sources) -> Finding {
    let (start, end) = ends(diagnostic.span, sources);
    let own = (!diagnostic.label.is_empty()).then(|| label(diagnostic.span, &diagnostic.label, sources));
    let others = diagnostic.labels.iter().map(|l| label(l.span, &l.message, sources));
    Finding {
        rule: diagnostic.rule.name.to_owned(),
        level: match diagnostic.strength {
            Strength::Hard | Strength::Verdict => Level::Error,
            Strength::Warning => Level::Warning,
            Strength::Note => Level::Note,
        },
        message: diagnostic.message.clone(),
        help: diagnostic.help.clone(),
        path: path(diagnostic.span, sources),
        line: start.line,
        column: start.column,
        end_line: end.line,
        end_column: end.column,
        labels: own.into_iter().chain(others).collect(),
        places: diagnostic.places.iter().map(|span| place(*span, sources)).collect(),
        fix: diagnostic.fix.as_ref().map(|fix| FixReport {
            description: fix.description.clone(),
            applicability: fix.applicability,
            edits: fix
                .edits
                .iter()
                .map(|edit| EditReport {
                    path: path(edit.span, sources),
                    start: edit.span.start,
                    end: edit.span.end,
                    text: edit.text.clone(),
                })
                .collect(),
        }),
    }
}

fn place(span: Span, sources: &Sources) -> PlaceReport {
    let (start, end) = ends(span, sources);
    PlaceReport {
        path: path(span, sources),
        line: start.line,
        column: start.column,
        end_line: end.line,
        end_column: end.column,
    }
}

fn label(span: Span, message: &str, sources: &Sources) -> LabelReport {
    let (start, end) = ends(span, sources);
    LabelReport {
        path: path(span, sources),
        line: start.line,
        column: start.column,
        end_line: end.line,
        end_column: end.column,
        message: message.to_owned(),
    }
}

fn ends(span: Span, sources: &Sources) -> (Position, Position) {
    let source = sources.get(span.file);
    (source.position(span.start), source.position(span.end.max(span.start)))
}

fn path(span: Span, sources: &Sources) -> String {
    sources.path(span).to_string_lossy().into_owned()
}
