//! Findings: everything gevals reports about a file. There is one type, built where the fault is found.
//!
//! `decisions.md` §1: *hard errors* leave a file without meaning; *verdict errors* give it a meaning that probably
//! misleads its author; warnings and notes never block.

mod emit;
pub mod fix;
mod mend;
mod places;
mod pretty;
mod sarif;
mod writers;

pub use emit::{DiagnosticReport, EditReport, Finding, FixReport, LabelReport, Level, PlaceReport, report};
pub use mend::{Mended, Texts, mend};
pub use places::{gather, places};
pub(crate) use pretty::visible;
pub use pretty::{Pretty, concise, print, summary};

pub use sarif::page_of;
pub use writers::{WRITERS, Writer, annotation};

use rustc_hash::FxHashMap;

use crate::source::{FileId, Sources, Span};

/// The strength of a finding (`decisions.md` §1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Strength {
    /// The meaning is undefined: no plan exists.
    Hard,
    /// The meaning is defined, but probably misleads the author.
    Verdict,
    Warning,
    Note,
}

impl Strength {
    /// The word in messages and in JSON. Both kinds of error are shown as `error`.
    pub fn level(self) -> &'static str {
        match self {
            Self::Hard | Self::Verdict => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        }
    }

    /// Whether the finding alone makes `check` fail.
    pub fn is_error(self) -> bool {
        self <= Self::Verdict
    }
}

/// A rule: its name, its default strength, and the page that explains it. Declared with [`rule!`](crate::rule) next to
/// the code that finds the fault, and listed in `lint::RULES`.
#[derive(Debug)]
pub struct Rule {
    pub name: &'static str,
    pub strength: Strength,
    /// The Markdown of `lints/NAME.md`, which is run as a test and printed by `gevals explain`.
    pub page: &'static str,
}

impl Rule {
    /// The first line of the page without its `#`, which is the summary of the rule everywhere.
    pub fn summary(&self) -> &'static str {
        self.page.lines().next().unwrap_or("").trim_start_matches('#').trim()
    }
}

/// Declares a [`Rule`](crate::diagnostic::Rule). A rule without a page in `lints/` does not compile.
#[macro_export]
macro_rules! rule {
    ($($vis:vis static $ident:ident = $name:literal, $strength:ident;)+) => {$(
        $vis static $ident: $crate::diagnostic::Rule = $crate::diagnostic::Rule {
            name: $name,
            strength: $crate::diagnostic::Strength::$strength,
            page: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/lints/", $name, ".md")),
        };
    )+};
}

/// One finding.
#[derive(Clone, Debug)]
pub struct Diagnostic {
    pub rule: &'static Rule,
    pub strength: Strength,
    /// Lower case, no full stop, backticks around the user's text.
    pub message: String,
    pub span: Span,
    /// The text under the primary underline; often empty.
    pub label: String,
    /// Further places, each with its relation to the fault.
    pub labels: Vec<Label>,
    /// Other places with the same finding; only [`gather`] fills it.
    pub places: Vec<Span>,
    /// How to correct it.
    pub help: Option<String>,
    pub fix: Option<Fix>,
}

/// A further place that a finding refers to.
#[derive(Clone, Debug)]
pub struct Label {
    pub span: Span,
    pub message: String,
}

/// Whether a fix can be applied without confirmation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Applicability {
    /// The fix preserves what the author meant: `--fix` applies it.
    Safe,
    /// The fix may lose meaning or change what runs: only `--unsafe-fixes` applies it.
    Unsafe,
}

/// A mechanical fix: edits that do not overlap and may span files.
#[derive(Clone, Debug)]
pub struct Fix {
    pub description: String,
    pub applicability: Applicability,
    pub edits: Vec<Edit>,
}

/// A replacement of a piece of a file. An empty span inserts.
#[derive(Clone, Debug)]
pub struct Edit {
    pub span: Span,
    pub text: String,
}

impl Diagnostic {
    /// A finding of a rule, with the rule's default strength.
    pub fn new(rule: &'static Rule, span: Span, message: impl Into<String>) -> Self {
        Self {
            rule,
            strength: rule.strength,
            message: message.into(),
            span,
            label: String::new(),
            labels: Vec::new(),
            places: Vec::new(),
            help: None,
            fix: None,
        }
    }

    /// Sets a strength that differs from the rule's (a rule that needs an eval is a note if no eval selects the task).
    pub fn strength(mut self, strength: Strength) -> Self {
        self.strength = strength;
        self
    }

    /// Sets the label at the finding's own place.
    pub fn here(mut self, label: impl Into<String>) -> Self {
        self.label = label.into();
        self
    }

    /// Adds another place that explains the finding.
    pub fn label(mut self, span: Span, message: impl Into<String>) -> Self {
        self.labels.push(Label { span, message: message.into() });
        self
    }

    /// Sets the help text, which says how to correct the finding.
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Sets the help text, if there is one.
    pub fn help_opt(mut self, help: Option<String>) -> Self {
        self.help = help.or(self.help);
        self
    }

    /// Adds an edit to this finding's fix. The description of the first edit is kept.
    pub fn fix(mut self, description: impl Into<String>, span: Span, text: impl Into<String>) -> Self {
        let fix = self.fix.get_or_insert_with(|| Fix {
            description: description.into(),
            applicability: Applicability::Safe,
            edits: Vec::new(),
        });
        fix.edits.push(Edit { span, text: text.into() });
        self
    }

    /// Like [`fix`](Self::fix), but the whole fix is applied only if unsafe fixes are requested.
    pub fn unsafe_fix(self, description: impl Into<String>, span: Span, text: impl Into<String>) -> Self {
        let mut diagnostic = self.fix(description, span, text);
        if let Some(fix) = &mut diagnostic.fix {
            fix.applicability = Applicability::Unsafe;
        }
        diagnostic
    }
}

/// Proof that an error was reported. Only [`Diagnostics::error`] creates one, so no stage can fail silently.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reported(());

impl Reported {
    /// The proof of an error that is already in `diagnostics`.
    ///
    /// # Panics
    /// In debug builds, if there is no such error.
    pub fn of(diagnostics: &Diagnostics) -> Self {
        debug_assert!(diagnostics.has_error(), "nothing was reported");
        Self(())
    }
}

/// The findings of all stages. No stage stops at its first error.
#[derive(Clone, Debug, Default)]
pub struct Diagnostics(Vec<Diagnostic>);

impl Diagnostics {
    /// Reports an error and returns the proof of it.
    ///
    /// # Panics
    /// In debug builds, if `diagnostic` is not an error, which a `Reported` has to stand for.
    pub fn error(&mut self, diagnostic: Diagnostic) -> Reported {
        debug_assert!(diagnostic.strength.is_error(), "`{}` is not an error", diagnostic.rule.name);
        self.0.push(diagnostic);
        Reported(())
    }

    /// Reports a finding of any strength.
    pub fn push(&mut self, diagnostic: Diagnostic) {
        self.0.push(diagnostic);
    }

    /// Adds findings, like [`Self::push`].
    pub fn extend(&mut self, others: impl IntoIterator<Item = Diagnostic>) {
        self.0.extend(others);
    }

    /// All findings, in the order in which they were found.
    pub fn iter(&self) -> impl Iterator<Item = &Diagnostic> {
        self.0.iter()
    }

    /// The number of findings.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether nothing was found.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether there is a hard error, so that there is no plan.
    pub fn has_hard(&self) -> bool {
        self.0.iter().any(|d| d.strength == Strength::Hard)
    }

    /// Whether there is an error.
    pub fn has_error(&self) -> bool {
        self.0.iter().any(|d| d.strength.is_error())
    }

    /// Removes the findings for which `keep` returns false.
    pub fn retain(&mut self, keep: impl FnMut(&Diagnostic) -> bool) {
        self.0.retain(keep);
    }

    /// All findings by path, place and rule: the order of every output. Identical findings, as of a task that several
    /// evals select, are merged into one with the labels of all.
    pub fn into_sorted(mut self, sources: &Sources) -> Vec<Diagnostic> {
        for d in &mut self.0 {
            d.fix = d.fix.take().filter(|fix| !fix.edits.iter().any(|edit| sources.get(edit.span.file).is_given()));
            fix::keep_quotes(d, sources);
        }
        sort(&mut self.0, sources);
        self.0.dedup_by(|again, first| {
            let same = again.span == first.span
                && again.rule.name == first.rule.name
                && again.message == first.message
                && again.strength == first.strength;
            if same {
                let new = |l: &Label| first.labels.iter().all(|f| f.span != l.span || f.message != l.message);
                let new: Vec<_> = again.labels.drain(..).filter(new).collect();
                first.labels.extend(new);
            }
            same
        });
        self.0
    }
}

/// Sorts findings by path, place and rule.
pub fn sort(found: &mut [Diagnostic], sources: &Sources) {
    let mut files: Vec<_> = found.iter().map(|d| d.span.file).collect();
    files.sort_unstable();
    files.dedup();
    let texts: Vec<_> = files.into_iter().map(|file| (sources.get(file), file)).collect();
    let mut files: Vec<(Vec<_>, FileId)> =
        texts.iter().map(|(text, file)| (text.path().components().collect(), *file)).collect();
    files.sort();
    // Two texts with the same path have the same rank.
    let mut ranks = FxHashMap::default();
    let mut rank = 0;
    for (at, (path, file)) in files.iter().enumerate() {
        rank += usize::from(at > 0 && files[at - 1].0 != *path);
        ranks.insert(*file, rank);
    }
    let key = |d: &Diagnostic| (ranks.get(&d.span.file).copied(), d.span.start, d.rule.name, d.span.end);
    found.sort_by(|a, b| key(a).cmp(&key(b)).then_with(|| a.message.cmp(&b.message)));
}

impl IntoIterator for Diagnostics {
    type Item = Diagnostic;
    type IntoIter = std::vec::IntoIter<Diagnostic>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

/// The candidate nearest to `word`, if it is near enough to be what the author meant, and no other is equally near.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let lower = word.to_lowercase();
    let length = word.chars().count();
    let limit = (length / 3).max(1);
    let mut near: Vec<(usize, &str)> = candidates
        .into_iter()
        // The distance is at least the difference in length, and words that users write may be long.
        .filter(|c| c.chars().count().abs_diff(length) <= limit.min(c.chars().count()))
        .map(|c| {
            let folded = c.to_lowercase();
            let distance = if folded == lower { 0 } else { strsim::osa_distance(&lower, &folded) };
            (distance, c)
        })
        .filter(|(distance, c)| *distance <= limit && *distance < c.chars().count())
        .collect();
    near.sort_unstable();
    near.dedup();
    match near.as_slice() {
        [(_, only)] => Some(only),
        [(first, nearest), (second, _), ..] if first < second => Some(nearest),
        _ => None,
    }
}
