//! The levels of findings: from `gevals.toml` and the command line, and the places where the author allows a rule to be
//! broken (`decisions.md` §10).

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Deserialize;

use crate::{
    ascii::{Ascii, ascii},
    bash::tools::{Tool, Tools},
    diagnostic::{Diagnostic, Diagnostics, Rule, Strength, nearest},
    outside, parallel, rule,
    source::{FileId, Files, ReadError, Sources, Span},
};

rule! {
    pub static UNUSED_ALLOW = "unused-allow", Warning;
    pub static UNKNOWN_RULE = "unknown-rule", Warning;
    pub static INVALID_CONFIG = "invalid-config", Hard;
}

/// The file name; the file is searched for in the directory and its parents.
pub const FILE_NAME: &str = "gevals.toml";

/// How the findings of a rule are treated. A hard error stays one at every level: without meaning there is no plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Level {
    Off,
    Note,
    Warning,
    Error,
}

/// The words for levels; those after the first four are aliases.
const LEVELS: [(&str, Level); 7] = [
    ("off", Level::Off),
    ("note", Level::Note),
    ("warning", Level::Warning),
    ("error", Level::Error),
    ("allow", Level::Off),
    ("warn", Level::Warning),
    ("deny", Level::Error),
];

impl Level {
    fn parse(word: &str) -> Option<Self> {
        LEVELS.iter().find(|(known, _)| *known == word).map(|(_, level)| *level)
    }
}

/// Levels of rules; later entries override earlier ones.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    levels: Vec<(String, Level)>,
    /// Patterns of paths that are skipped when a directory is searched.
    pub exclude: Vec<String>,
    /// The known programs and their effects.
    pub tools: Tools,
}

/// The contents of `gevals.toml`.
#[derive(Deserialize, JsonSchema, Default, Debug)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Document {
    /// The level of a rule's findings, by rule name.
    #[serde(default)]
    #[schemars(with = "indexmap::IndexMap<String, LevelWord>")]
    rules: indexmap::IndexMap<String, toml::Spanned<String>>,
    /// Patterns of paths that are skipped when a directory is searched.
    #[serde(default)]
    exclude: Vec<String>,
    /// The effects of your own programs, by program name.
    #[serde(default)]
    effects: indexmap::IndexMap<String, Tool>,
}

/// The words for levels.
#[derive(Clone, Copy, Debug)]
struct LevelWord;

impl JsonSchema for LevelWord {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Level".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "enum": LEVELS.map(|(word, _)| word) })
    }
}

impl Policy {
    /// Reads the `gevals.toml` in the directory of `start` or the nearest directory above it; there may be none.
    pub fn find(
        start: &Path,
        known: &[&'static Rule],
        sources: &Sources,
        files: &dyn Files,
        out: &mut Diagnostics,
    ) -> Self {
        let dir = match files.stat(start) {
            Some(crate::source::Stat::Dir) => start,
            _ => start.parent().unwrap_or(Path::new("")),
        };
        for path in candidates(dir) {
            let bytes = match files.read(&path) {
                Ok(bytes) => bytes,
                Err(why @ (ReadError::LeadsOut(_) | ReadError::Special(_) | ReadError::TooLarge(_))) => {
                    let place = Span::new(sources.add(&path, ""), 0..0);
                    out.error(match why.is_outside() {
                        true => outside::diagnostic(place, "file", FILE_NAME, &why),
                        false => {
                            Diagnostic::new(&INVALID_CONFIG, place, format!("`{FILE_NAME}` cannot be read: {why}"))
                        }
                    });
                    return Self::default();
                }
                Err(_) => continue,
            };
            let text = String::from_utf8_lossy(&bytes).into_owned();
            let file = sources.add(&path, text.as_str());
            return Self::read(&text, file, known, out);
        }
        Self::default()
    }

    fn read(text: &str, file: FileId, known: &[&'static Rule], out: &mut Diagnostics) -> Self {
        let document: Document = match toml::from_str(text) {
            Ok(document) => document,
            Err(error) => {
                let span = Span::new(file, error.span().unwrap_or(0..0));
                let message =
                    format!("`{FILE_NAME}` cannot be read: {}", error.message().lines().next().unwrap_or_default());
                out.error(
                    Diagnostic::new(&INVALID_CONFIG, span, message)
                        .help("expected `rules` (a table from a rule to a level), `exclude` (a list of patterns) or `effects` (a table for each program)"),
                );
                return Self::default();
            }
        };
        let tools = Tools::of(document.effects);
        let mut policy = Self { levels: Vec::new(), exclude: document.exclude, tools };
        for (name, level) in document.rules {
            let span = Span::new(file, level.span());
            match Level::parse(level.get_ref()) {
                Some(parsed) => {
                    if let Some(diagnostic) = unknown(&name, span, known) {
                        out.push(diagnostic);
                    }
                    policy.levels.push((name, parsed));
                }
                None => {
                    out.error(
                        Diagnostic::new(&INVALID_CONFIG, span, format!("`{}` is not a valid level", level.get_ref()))
                            .help("expected `off`, `note`, `warning` or `error`"),
                    );
                }
            }
        }
        policy
    }

    /// Sets a rule's level; overrides earlier ones.
    pub fn set(&mut self, rule: impl Into<String>, level: Level) {
        self.levels.push((rule.into(), level));
    }

    /// Applies levels to findings, and removes those that are off or allowed at their location.
    pub fn apply(&self, found: Diagnostics, known: &[&'static Rule], sources: &Sources) -> Diagnostics {
        let all: Vec<FileId> = sources.ids().collect();
        let mut allows: Vec<Allow> =
            parallel::map(&all, 16, |file| allows(*file, sources)).into_iter().flatten().collect();
        let mut kept = Diagnostics::default();
        for mut diagnostic in found {
            let name = diagnostic.rule.name;
            if diagnostic.strength != Strength::Hard {
                match self.levels.iter().rev().find(|(rule, _)| rule == name).map(|(_, level)| *level) {
                    Some(Level::Off) => continue,
                    Some(Level::Note) => diagnostic.strength = Strength::Note,
                    Some(Level::Warning) => diagnostic.strength = Strength::Warning,
                    Some(Level::Error) => diagnostic.strength = Strength::Verdict,
                    None => {}
                }
                let file = diagnostic.span.file;
                let near = |allow: &Allow| allow.span.file == file && allow.rule == name;
                let allow = if allows.iter().any(near) {
                    let source = sources.get(file);
                    let line = source.position(diagnostic.span.start).line;
                    let opener = block_openers(source.text()).get(line - 1).copied().unwrap_or(line);
                    let at = [line, opener];
                    allows.iter_mut().find(|a| near(a) && at.iter().any(|l| a.line == *l || a.line + 1 == *l))
                } else {
                    None
                };
                if let Some(allow) = allow {
                    allow.used = true;
                    continue;
                }
            }
            kept.push(diagnostic);
        }
        for allow in allows.iter().filter(|a| !a.used) {
            kept.push(unknown(&allow.rule, allow.span, known).unwrap_or_else(|| {
                Diagnostic::new(
                    &UNUSED_ALLOW,
                    allow.span,
                    format!("unused comment: nothing here violates the rule `{}`", allow.rule),
                )
                .help("remove the comment; hard errors cannot be allowed")
            }));
        }
        kept
    }
}

/// Returns, for each line of a YAML text, the line to which a comment about it belongs: the line itself, or, inside a
/// block scalar, where a comment would be text, the line that opens the scalar.
pub fn block_openers(text: &str) -> Vec<usize> {
    // The indentation of the key that opened the block, and its line.
    let mut block: Option<(usize, usize)> = None;
    let lines = text.lines().enumerate().map(|(index, line)| {
        let indent = line.len() - line.trim_start().len();
        if let Some((outer, opener)) = block
            && (line.trim().is_empty() || indent > outer)
        {
            return opener;
        }
        block = None;
        let code = line.split(" #").next().unwrap_or_default().trim_end();
        let header = code.rsplit(' ').next().unwrap_or_default();
        if header.starts_with(['|', '>']) && header[1..].chars().all(|c| matches!(c, '+' | '-' | '0'..='9')) {
            let dashes = if line.trim_start().starts_with("- ") { 2 } else { 0 };
            block = Some((indent + dashes, index + 1));
        }
        index + 1
    });
    lines.collect()
}

fn candidates(dir: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = dir.ancestors().map(|d| d.join(FILE_NAME)).collect();
    // A relative path ends at the current directory; the directories above it are searched as well.
    if dir.is_relative() {
        let climbs = dir.components().filter(|c| matches!(c, std::path::Component::ParentDir)).count();
        found.extend((1..=24).map(|n| std::iter::repeat_n("..", climbs + n).collect::<PathBuf>().join(FILE_NAME)));
    }
    found
}

fn unknown(name: &str, span: Span, known: &[&'static Rule]) -> Option<Diagnostic> {
    if known.iter().any(|r| r.name == name) {
        return None;
    }
    let diagnostic = Diagnostic::new(&UNKNOWN_RULE, span, format!("unknown rule `{name}`"));
    Some(match nearest(name, known.iter().map(|r| r.name)) {
        Some(near) => diagnostic.here(format!("did you mean `{near}`?")),
        None => diagnostic.help("for a list of all rules, run `gevals explain`"),
    })
}

/// A comment `gevals: allow(RULE)`: it applies to its own line and the next one, including the block scalar that starts
/// there.
struct Allow {
    rule: String,
    span: Span,
    line: usize,
    used: bool,
}

static ALLOW: Ascii = ascii(r"#[ \t]*gevals: allow\(([^)\n]*)[)\n]");

fn allows(file: FileId, sources: &Sources) -> Vec<Allow> {
    let source = sources.get(file);
    // A text that a client sent must not be able to silence findings in itself.
    // JSON has no comments; results contain texts about them.
    let is_json = source.path().extension().is_some_and(|extension| extension == "json");
    if source.is_given() || is_json || !source.mentions_gevals() {
        return Vec::new();
    }
    let text = source.text();
    let mut found = Vec::new();
    for rules in ALLOW.captures_iter(text).filter_map(|allow| allow.get(1)) {
        let line = source.position(rules.start() as u32).line;
        let mut offset = rules.start();
        for word in rules.as_str().split(',') {
            let lead = word.len() - word.trim_start().len();
            let rule = word.trim().to_owned();
            let start = offset + lead;
            offset += word.len() + 1;
            if rule.is_empty() {
                continue;
            }
            let span = Span::new(file, start..start + rule.len());
            found.push(Allow { rule, span, line, used: false });
        }
    }
    found
}
