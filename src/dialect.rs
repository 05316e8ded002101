//! The files that users write: three dialects of tasks, and Eval, Agent, Oracle and MCP-config files. Tasks of all
//! dialects are read into the one form of `hir`; their differences are confined to this module.

pub mod agent;
pub mod command;
pub mod eval;
pub mod legacy;
pub mod mcp_config;
pub mod oracle;
pub mod portable;
mod step;
pub mod steps;

pub use step::{INVALID_ID, STEP_SHAPE, unknown_operation_help};

use std::path::PathBuf;

use crate::{
    decode::{self, Fields, Leniency, Partial, Reader, quote},
    diagnostic::{Diagnostic, Diagnostics, Reported, Strength, nearest},
    hir::{Bounds, Dialect, Isolation, IsolationRef, Meta, Name, Permissions, Phase, Task, is_variable},
    primitive, rule,
    signature::Vocabulary,
    source::{FileId, Span, Spanned},
    template::Path,
    yaml::{Data, Node},
};

rule! {
    pub static UNKNOWN_KIND = "unknown-kind", Hard;
    pub static UNKNOWN_VERSION = "unknown-version", Hard;
    pub static OLD_VERSION = "old-version", Warning;
    pub static DIFFICULTY = "unknown-difficulty", Warning;
    pub static NO_VERIFY = "no-verify", Hard;
    pub static PROMPT_SHAPE = "prompt-shape", Hard;
    pub static NON_POSITIVE_RUNS = "non-positive-runs", Verdict;
}

/// One dialect of tasks.
#[derive(Debug)]
pub struct DialectInfo {
    pub dialect: Dialect,
    /// The values of `apiVersion` that select it.
    pub versions: &'static [&'static str],
    /// Old spellings, which are accepted and reported.
    pub aliases: &'static [&'static str],
    pub leniency: Leniency,
    pub decode: fn(&mut Reader<'_>, Node<'_>, &TaskFile<'_>) -> Option<Task<Path>>,
}

/// The dialects, oldest first. A task without `apiVersion` is in the first.
pub const DIALECTS: &[DialectInfo] = &[legacy::DIALECT, steps::DIALECT, portable::DIALECT];

/// Context that a decoder of tasks needs in addition to the text.
#[derive(Clone, Debug)]
pub struct TaskFile<'a> {
    pub file: FileId,
    pub dir: PathBuf,
    pub vocabulary: &'a Vocabulary,
}

/// The kind that a file declares.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileKind {
    Task(Dialect),
    Eval,
    Agent,
    Oracle,
    /// Evals that an MCP server ships.
    McpEvals,
}

impl FileKind {
    /// The name on the command line and in schemas.
    pub fn name(self) -> &'static str {
        match self {
            Self::Task(_) => "Task",
            Self::Eval => "Eval",
            Self::Agent => "Agent",
            Self::Oracle => "Oracle",
            Self::McpEvals => primitive::KIND,
        }
    }
}

/// Every value of `kind`.
pub const KINDS: [&str; 5] = ["Task", "Eval", "Agent", "Oracle", primitive::KIND];

/// Identifies a file by its `kind` and `apiVersion`. Returns `None` for a file of another program. `held` files were named
/// by a path, so they must be ours; other files were discovered, and must have the shape of what they declare.
///
/// # Errors
/// If the file is ours, or nearly, and declares its kind or version incorrectly.
pub fn identify(root: Node<'_>, held: bool, out: &mut Diagnostics) -> Result<Option<FileKind>, Reported> {
    let kind = root.entries().find(|e| e.name.eq_ignore_ascii_case("kind"));
    let version = root.entries().find(|e| e.name.eq_ignore_ascii_case("apiVersion")).map(|e| e.value);
    if let Some(text) = version.and_then(Node::as_str)
        && foreign(text)
    {
        return Ok(None);
    }
    let version_is_ours = version.is_none_or(|v| v.as_str().is_none_or(nearly_ours));
    let Some(entry) = kind else { return if held || version_is_ours { shapeless(root, out) } else { Ok(None) } };
    let Some(word) = entry.value.as_str() else { return Ok(None) };
    if let Some(&kind) = KINDS.iter().find(|k| **k == word) {
        let shaped = match version {
            Some(_) => version_is_ours || shape(root).is_some(),
            None => {
                let keys =
                    ["metadata", "spec", "steps", "config", "commands", "builtin", "acp", "skills", "tasks", "evals"];
                root.entries().any(|e| e.name != "kind" && nearest(e.name, keys).is_some())
            }
        };
        if !held && !shaped {
            return Ok(None);
        }
        return match kind {
            "Eval" | "Agent" | "Oracle" | primitive::KIND => {
                plain_version(root, version, kind, out)?;
                Ok(Some(match kind {
                    "Eval" => FileKind::Eval,
                    "Agent" => FileKind::Agent,
                    "Oracle" => FileKind::Oracle,
                    _ => FileKind::McpEvals,
                }))
            }
            _ => dialect_of(root, version, entry.value.span(), out).map(|d| Some(FileKind::Task(d))),
        };
    }
    let ours = version.and_then(Node::as_str).is_some_and(|v| DIALECTS.iter().any(|d| known(d, v)));
    let meant = shape(root).filter(|_| version.is_none());
    match nearest(word, KINDS).filter(|_| held || ours || version_is_ours && shape(root).is_some()) {
        Some(near) => Err(out.error(
            Diagnostic::new(&UNKNOWN_KIND, entry.value.span(), format!("unknown kind `{word}`"))
                .here(format!("did you mean `{near}`?"))
                .help("other tools silently skip files of an unknown kind")
                .fix(format!("write `{near}`"), entry.value.span(), near),
        )),
        None if ours => {
            let unknown = Diagnostic::new(&UNKNOWN_KIND, entry.value.span(), format!("unknown kind `{word}`"))
                .help("expected `Task`, `Eval`, `Agent`, `Oracle` or `McpEvals`");
            if held {
                return Err(out.error(unknown));
            }
            // Nothing else depends on this file.
            out.push(unknown.strength(Strength::Warning));
            Ok(None)
        }
        None => match meant {
            Some(meant) => Err(out.error(
                Diagnostic::new(&UNKNOWN_KIND, entry.value.span(), format!("unknown kind `{word}`"))
                    .here(format!("the rest looks like a file of kind `{meant}`"))
                    .help("other tools silently skip files of an unknown kind")
                    .fix(format!("write `{meant}`"), entry.value.span(), meant),
            )),
            None => Ok(None),
        },
    }
}

fn known(info: &DialectInfo, version: &str) -> bool {
    info.versions.contains(&version) || info.aliases.contains(&version)
}

/// Whether a version is one of ours, or probably meant to be one.
pub fn nearly_ours(version: &str) -> bool {
    let group = version.split('/').next();
    let ours = || DIALECTS.iter().flat_map(|d| d.versions.iter().chain(d.aliases));
    ours().any(|ours| ours.split('/').next() == group) || ours().any(|ours| strsim::osa_distance(version, ours) < 4)
}

/// Whether a version belongs to another program: its group is a domain name.
pub fn foreign(version: &str) -> bool {
    version.split_once('/').is_some_and(|(group, _)| group.contains('.'))
}

/// The kind of a file according to its keys, regardless of what it declares.
fn shape(root: Node<'_>) -> Option<&'static str> {
    let has = |key: &str| root.get(key).is_some();
    let below = |key: &str, inner: &[&str]| root.get(key).is_some_and(|n| inner.iter().any(|i| n.get(i).is_some()));
    let portable = below("spec", &["prompt"]) && (below("spec", &["verify", "setup"]) || has("metadata"));
    if portable || (below("steps", &["prompt"]) && has("metadata")) {
        Some("Task")
    } else if below("config", &["taskSets", "mcpConfigFile"]) {
        Some("Eval")
    } else if below("commands", &["runPrompt"]) {
        Some("Agent")
    } else {
        None
    }
}

/// Identifies a file without `kind`, which is ours if it has the shape of one of our files.
fn shapeless(root: Node<'_>, out: &mut Diagnostics) -> Result<Option<FileKind>, Reported> {
    let has = |key: &str| root.get(key).is_some();
    let Some(kind) = shape(root) else {
        let is_flat = has("prompt") && (has("verify") || has("cleanup") || has("setup") && has("name"));
        return if is_flat { Err(out.error(flat(root))) } else { Ok(None) };
    };
    let misspelt = root.entries().find(|e| e.value.as_str() == Some(kind));
    if let Some(entry) = misspelt {
        let key = entry.name;
        return Err(out.error(
            Diagnostic::new(
                &UNKNOWN_KIND,
                entry.key.span(),
                format!("this looks like a file of kind `{kind}`, but `kind` is missing"),
            )
            .here(format!("did you mean `kind` instead of `{key}`?"))
            .help(format!("write `kind: {kind}`; other tools silently skip the file without it"))
            .fix("write `kind`", entry.key.span(), "kind"),
        ));
    }
    let place = root.entries().next().map_or(root.span().head(), |e| e.key.span());
    Err(out.error(
        Diagnostic::new(
            &UNKNOWN_KIND,
            place,
            format!("this looks like a file of kind `{kind}`, but `kind` is missing"),
        )
        .help(format!("start the file with `kind: {kind}`; other tools silently skip the file without it"))
        .fix(format!("add `kind: {kind}`"), place.head(), format!("kind: {kind}\n")),
    ))
}

/// The error for a task whose parts are all at the top level, which no dialect allows. It names the right place of
/// each.
fn flat(root: Node<'_>) -> Diagnostic {
    let in_metadata =
        ["name", "description", "difficulty", "category", "labels", "tags", "timeout", "parallel", "runs"];
    let in_spec = ["prompt", "setup", "verify", "cleanup", "env", "requires", "imports"];
    let of = |known: &[&str]| -> Vec<String> {
        let keys = root.entries().map(|e| e.name).filter(|name| known.contains(name));
        keys.map(|name| format!("`{name}`")).collect()
    };
    let below = [(of(&in_metadata), "metadata"), (of(&in_spec), "spec")];
    let moves = below.iter().filter(|(keys, _)| !keys.is_empty());
    let moves: Vec<_> = moves.map(|(keys, key)| format!("put {} under `{key}`", keys.join(", "))).collect();
    let place = root.entries().next().map_or(root.span().head(), |e| e.key.span());
    Diagnostic::new(&UNKNOWN_KIND, place, "this looks like a task, but `kind` is missing: other tools skip the file")
        .help(format!("start the file with `kind: Task` and `apiVersion: mcp-eval/v1`; {}", moves.join("; ")))
}

/// Checks the version of files that are not tasks; they look the same in every version.
fn plain_version(root: Node<'_>, version: Option<Node<'_>>, kind: &str, out: &mut Diagnostics) -> Result<(), Reported> {
    let Some(node) = version.filter(|node| node.data() != Data::Null) else { return Ok(()) };
    match node.as_str() {
        Some(v) if DIALECTS.iter().any(|d| d.versions.contains(&v)) => Ok(()),
        Some(v) if DIALECTS.iter().any(|d| d.aliases.contains(&v)) => {
            let new = v.replace("gevals/", "mcpchecker/");
            out.push(old_version(node.span(), v, &new));
            Ok(())
        }
        _ => Err(out.error(unknown_version(root, node, kind))),
    }
}

fn dialect_of(
    root: Node<'_>,
    version: Option<Node<'_>>,
    kind: Span,
    out: &mut Diagnostics,
) -> Result<Dialect, Reported> {
    // A key without a value counts as absent.
    let Some(node) = version.filter(|node| node.data() != Data::Null) else { return Ok(Dialect::Legacy) };
    let Some(text) = node.as_str() else {
        return Err(out.error(unknown_version(root, node, "Task").label(kind, "of this kind")));
    };
    if text.is_empty() {
        return Ok(Dialect::Legacy);
    }
    for info in DIALECTS {
        if info.versions.contains(&text) {
            return Ok(info.dialect);
        }
        if info.aliases.contains(&text) {
            out.push(old_version(node.span(), text, info.versions[0]));
            return Ok(info.dialect);
        }
    }
    Err(out.error(unknown_version(root, node, "Task")))
}

fn old_version(span: Span, old: &str, new: &str) -> Diagnostic {
    Diagnostic::new(&OLD_VERSION, span, format!("`{old}` is the old name of `{new}`"))
        .help("other tools do not accept the old name")
        .fix(format!("write `{new}`"), span, new)
}

fn unknown_version(root: Node<'_>, node: Node<'_>, kind: &str) -> Diagnostic {
    let text = node.text().unwrap_or_default();
    let versions = DIALECTS.iter().flat_map(|d| d.versions).copied();
    let diagnostic =
        Diagnostic::new(&UNKNOWN_VERSION, node.span(), format!("unknown apiVersion `{text}` for kind `{kind}`"));
    let words: Vec<_> = versions.clone().map(|v| format!("`{v}`")).collect();
    let known = format!("valid versions: {}", words.join(", "));
    let near = versions
        .filter(|v| text.split('/').next() == v.split('/').next() || strsim::osa_distance(text, v) < 5)
        // A file `mcpchecker/v1` with a `spec` is not a legacy task.
        .min_by_key(|v| {
            (strsim::osa_distance(text, v), root.get("spec").is_some() && *v == legacy::DIALECT.versions[0])
        });
    match near {
        Some(near) => diagnostic.here(format!("did you mean `{near}`?")).help(known).fix(
            format!("write `{near}`"),
            node.span(),
            near,
        ),
        None => diagnostic.help(known),
    }
}

/// Decodes a task of the given dialect.
pub fn task(node: Node<'_>, dialect: Dialect, file: &TaskFile<'_>, out: &mut Diagnostics) -> Partial<Task<Path>> {
    let info = DIALECTS.iter().find(|d| d.dialect == dialect).unwrap_or(&DIALECTS[0]);
    let mut reader = Reader::new(out, info.leniency);
    match (info.decode)(&mut reader, node, file) {
        Some(task) => reader.finish(task),
        None => {
            let partial = reader.finish(());
            Partial { value: None, reported: partial.reported }
        }
    }
}

/// Reads the start of a task in any dialect: the envelope and the metadata. Returns the remaining fields, the place of the first one,
/// and a task without prompt and phases.
fn open<'t>(
    reader: &mut Reader<'_>,
    root: Node<'t>,
    file: &TaskFile<'_>,
    dialect: Dialect,
    what: &'static str,
    nameless: &'static str,
) -> Option<(Fields<'t>, Span, Task<Path>)> {
    let mut fields = reader.fields(root, what)?;
    let head = root.entries().next().map_or(root.span().head(), |e| e.key.span());
    envelope(&mut fields, reader);
    let entry = fields.require_entry(reader, "metadata", head, Some(nameless));
    let span = entry.map_or(head, |e| e.key.span());
    let (name, meta) = metadata(reader, entry.map(|e| e.value), span, dialect);
    let task = Task {
        dialect,
        file: file.file,
        dir: file.dir.clone(),
        name,
        meta,
        requires: Vec::new(),
        imports: Vec::new(),
        env: Vec::new(),
        prompt: None,
        setup: Phase::default(),
        verify: Phase::default(),
        cleanup: Phase::default(),
    };
    Some((fields, head, task))
}

/// Consumes `kind` and `apiVersion`, which [`identify`] has already read.
fn envelope(fields: &mut Fields<'_>, reader: &mut Reader<'_>) {
    fields.take(reader, "kind");
    fields.take(reader, "apiVersion");
}

/// Reads the metadata that all dialects share, and the tags and time limits of the portable dialect.
fn metadata(reader: &mut Reader<'_>, node: Option<Node<'_>>, parent: Span, dialect: Dialect) -> (Name, Meta) {
    let nameless = Spanned::new(String::new(), parent);
    let Some(node) = node else { return (nameless, Meta::default()) };
    let Some(mut fields) = reader.fields(node, "a task's metadata") else { return (nameless, Meta::default()) };
    let mut meta = Meta::default();
    let name = match fields.require(reader, "name", parent) {
        Some(node) => reader.name(node, "the name of a task").unwrap_or(nameless),
        None => nameless,
    };
    // On a terminal, control characters could overwrite the displayed verdict.
    if let Some(bad) = name.value.chars().find(|c| c.is_control()) {
        let message = format!("the name of a task cannot contain `{}`", bad.escape_default());
        let help = "verdicts are printed beside the name, on a single line: use plain text";
        reader.error(Diagnostic::new(&decode::INVALID_VALUE, name.span, message).help(help));
    }
    if let Some(node) = fields.take(reader, "description") {
        meta.description = reader.string(node, "the description of a task");
    }
    if let Some(node) = fields.take(reader, "difficulty") {
        meta.difficulty = reader.string(node, "the difficulty of a task");
        if let Some(word) = &meta.difficulty {
            difficulty(reader, word);
        }
    }
    if let Some(node) = fields.take(reader, "labels") {
        meta.labels = reader.strings(node, "the labels of a task");
    }
    if let Some(node) = fields.take(reader, "parallel") {
        meta.parallel = reader.bool(node, "`parallel`").is_some_and(|b| b.value);
    }
    if let Some(node) = fields.take(reader, "runs")
        && let Some(runs) = reader.integer(node, "`runs`")
    {
        match u32::try_from(runs.value) {
            Ok(n) if n > 0 => meta.runs = Some(Spanned::new(n, runs.span)),
            _ => reader.out.push(
                Diagnostic::new(&NON_POSITIVE_RUNS, runs.span, format!("a task cannot run {} times", runs.value))
                    .help("write 1 or more, or remove the key"),
            ),
        }
    }
    if let Some(node) = fields.take(reader, "gate") {
        meta.gate = gate(reader, node);
        if let (Some(gate), Some(runs)) = (&meta.gate, &meta.runs)
            && gate.value.1 != runs.value
        {
            let message = format!("the gate expects {} runs, but the task runs {} times", gate.value.1, runs.value);
            reader.error(
                Diagnostic::new(&decode::WRONG_TYPE, gate.span, message)
                    .label(runs.span, "runs")
                    .help("remove `runs`: the gate determines the number of runs"),
            );
        }
    }
    if dialect == Dialect::Portable {
        if let Some(node) = fields.take(reader, "tags") {
            meta.tags = reader.words(node, "the tags of a task");
        }
        if let Some(node) = fields.take(reader, "timeout") {
            meta.timeout = reader.duration(node, "the timeout of a task");
        }
        if let Some(node) = fields.take(reader, "parallelVerify") {
            meta.parallel_verify = reader.bool(node, "`parallelVerify`").is_some_and(|b| b.value);
        }
        if let Some(node) = fields.take(reader, "cleanupTimeout") {
            meta.cleanup_timeout = reader.duration(node, "the cleanupTimeout of a task");
        }
    }
    for carried in ["annotations", "category"] {
        fields.take(reader, carried);
    }
    fields.finish(reader);
    (name, meta)
}

fn difficulty(reader: &mut Reader<'_>, word: &Name) {
    const KNOWN: [&str; 3] = ["easy", "medium", "hard"];
    if KNOWN.contains(&word.value.as_str()) {
        return;
    }
    let mut diagnostic = Diagnostic::new(&DIFFICULTY, word.span, format!("unknown difficulty `{}`", word.value))
        .help("expected `easy`, `medium` or `hard`");
    if let Some(near) = nearest(&word.value, KNOWN) {
        diagnostic = diagnostic.here(format!("did you mean `{near}`?")).fix(format!("write `{near}`"), word.span, near);
    }
    reader.out.push(diagnostic);
}

/// Reads what an extension or an agent is allowed to do.
fn permissions(reader: &mut Reader<'_>, node: Node<'_>) -> Option<Permissions> {
    let mut fields = reader.fields(node, "the permissions of an extension")?;
    let permissions = permitted(reader, &mut fields);
    fields.finish(reader);
    Some(permissions)
}

fn permitted(reader: &mut Reader<'_>, fields: &mut Fields<'_>) -> Permissions {
    let network = fields.take(reader, "network").and_then(|n| reader.bool(n, "`network`"));
    let [read, write] = ["read", "write"]
        .map(|key| fields.take(reader, key).map(|n| reader.words(n, &format!("`{key}`"))).unwrap_or_default());
    let env = fields.take(reader, "env").map(|n| variables(reader, n, "`env`")).unwrap_or_default();
    Permissions { network: network.is_some_and(|n| n.value), read, write, env }
}

/// Reads a list of names of environment variables. An item that is not a name may be the secret itself, so it is not
/// repeated in messages.
fn variables(reader: &mut Reader<'_>, node: Node<'_>, what: &str) -> Vec<Name> {
    let words = reader.words(node, what);
    words.into_iter().filter_map(|word| variable(reader, word, what)).collect()
}

fn variable(reader: &mut Reader<'_>, word: Name, what: &str) -> Option<Name> {
    if is_variable(&word.value) {
        return Some(word);
    }
    let message = format!("an item of {what} is not the name of an environment variable");
    let diagnostic = Diagnostic::new(&decode::INVALID_VALUE, word.span, message);
    let bare = word.value.strip_prefix('$').map(|rest| {
        let inner = rest.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
        (inner.unwrap_or(rest), if inner.is_some() { "`${}`" } else { "`$`" })
    });
    reader.error(match bare {
        Some((bare, marks)) if is_variable(bare) => diagnostic
            .help("list only the names of the variables: values are not inserted here")
            .fix(format!("remove the {marks}"), word.span, bare),
        _ => diagnostic.help("write the name of the variable (letters, digits and `_`), never its value"),
    });
    None
}

/// Reads `isolation: LEVEL`, or a mapping with the level and the permissions granted.
fn isolation(reader: &mut Reader<'_>, node: Node<'_>) -> Option<IsolationRef> {
    let level = |reader: &mut Reader<'_>, node| {
        choice(reader, node, "isolation level", &Isolation::ALL.map(|level| (level.name(), level)))
    };
    if !matches!(node.data(), Data::Map) {
        return Some(IsolationRef { level: level(reader, node), permissions: Permissions::default() });
    }
    let mut fields = reader.fields(node, "the isolation of an agent")?;
    let level = fields.take(reader, "level").and_then(|node| level(reader, node));
    let permissions = permitted(reader, &mut fields);
    fields.finish(reader);
    Some(IsolationRef { level, permissions })
}

/// Reads a word that must be one of `known`.
fn choice<T: Copy>(reader: &mut Reader<'_>, node: Node<'_>, what: &str, known: &[(&'static str, T)]) -> Option<T> {
    let word = reader.name(node, &format!("the {what}"))?;
    if let Some((_, value)) = known.iter().find(|(name, _)| *name == word.value) {
        return Some(*value);
    }
    let names: Vec<String> = known.iter().map(|(name, _)| format!("`{name}`")).collect();
    let (last, others) = names.split_last()?;
    let message = format!("unknown {what} `{}`", word.value);
    let diagnostic = Diagnostic::new(&decode::WRONG_TYPE, word.span, message)
        .help(format!("expected one of {} and {last}", others.join(", ")));
    reader.error(match nearest(&word.value, known.iter().map(|(name, _)| *name)) {
        Some(near) => {
            diagnostic.here(format!("did you mean `{near}`?")).fix(format!("write `{near}`"), word.span, near)
        }
        None => diagnostic,
    });
    None
}

/// Reads `maxTokens`, `maxCost` and `maxToolCalls`.
fn bounds(reader: &mut Reader<'_>, fields: &mut Fields<'_>) -> Bounds {
    let mut bounds = Bounds::default();
    let mut whole = |reader: &mut Reader<'_>, key: &'static str| {
        let node = fields.take(reader, key)?;
        let n = reader.integer(node, &format!("`{key}`"))?;
        match u64::try_from(n.value) {
            Ok(value @ 1..) => Some(value),
            _ => {
                reader.error(not_positive(key, n.span));
                None
            }
        }
    };
    bounds.tokens = whole(reader, "maxTokens");
    bounds.tool_calls = whole(reader, "maxToolCalls");
    if let Some(node) = fields.take(reader, "maxCost") {
        match node.data() {
            Data::Int(n) if n > 0 => bounds.cost = Some(n as f64),
            Data::Float(n) if n > 0.0 && n.is_finite() => bounds.cost = Some(n),
            Data::Int(_) | Data::Float(_) => reader.error(not_positive("maxCost", node.span())),
            _ => reader.wrong_type(node, "a number", "`maxCost`"),
        }
    }
    bounds
}

fn not_positive(key: &str, span: Span) -> Diagnostic {
    Diagnostic::new(&decode::WRONG_TYPE, span, format!("`{key}` must be greater than 0"))
        .help("remove it if there is no such limit")
}

/// Reads `{passes: 4, of: 5}`.
fn gate(reader: &mut Reader<'_>, node: Node<'_>) -> Option<Spanned<(u32, u32)>> {
    if !matches!(node.data(), Data::Map) {
        let finding = decode::mistyped(node, "a mapping", "a gate");
        reader.error(finding.help("write `gate: {passes: P, of: N}`: P of N runs must pass"));
        return None;
    }
    let mut fields = reader.fields(node, "a gate")?;
    let mut number = |reader: &mut Reader<'_>, key| {
        let node = fields.require(reader, key, node.span())?;
        let n = reader.integer(node, &format!("`{key}`"))?;
        u32::try_from(n.value).ok().filter(|n| *n > 0).map(|n| Spanned::new(n, node.span())).or_else(|| {
            reader.error(not_positive(key, node.span()));
            None
        })
    };
    let (passes, of) = (number(reader, "passes"), number(reader, "of"));
    fields.finish(reader);
    let (passes, of) = (passes?, of?);
    if passes.value > of.value {
        let message = format!("a task cannot pass {} of {} runs", passes.value, of.value);
        reader.error(
            Diagnostic::new(&decode::WRONG_TYPE, passes.span, message).help("`passes` must not be greater than `of`"),
        );
        return None;
    }
    Some(Spanned::new((passes.value, of.value), node.span()))
}

/// Reads `{inline, file}`, or in the portable dialect also a plain text.
fn prompt(
    reader: &mut Reader<'_>,
    node: Node<'_>,
    file: &TaskFile<'_>,
    scan: crate::decode::Scan,
    bare: bool,
) -> Option<crate::hir::Prompt<Path>> {
    use crate::{
        hir::{Prompt, Template},
        yaml::Data,
    };
    match node.data() {
        Data::Str(_) if bare => Some(Prompt { text: scan(node), file: None }),
        Data::Str(text) => {
            reader.error(
                Diagnostic::new(&PROMPT_SHAPE, node.span(), "in this dialect, a prompt must be a mapping")
                    .help("write `prompt: {inline: …}` or `prompt: {file: …}`")
                    .fix("convert it to a mapping", node.span(), format!("{{inline: {}}}", quote(text))),
            );
            None
        }
        Data::Map => {
            let mut fields = reader.fields(node, "a prompt")?;
            let inline = fields.take(reader, "inline");
            let path = fields.take(reader, "file");
            let blank = if inline.or(path).is_none() { fields.take_blank(&["inline", "file"]) } else { None };
            fields.finish(reader);
            match (inline, path) {
                (Some(text), None) => {
                    reader.string(text, "the text of a prompt")?;
                    Some(Prompt { text: scan(text), file: None })
                }
                (None, Some(path)) => {
                    let name = reader.name(path, "the file of a prompt")?;
                    let path = crate::source::resolve(&file.dir, &name.value);
                    Some(Prompt { text: Template::literal("", name.span), file: Some(Spanned::new(path, name.span)) })
                }
                (Some(_), Some(path)) => {
                    reader.error(
                        Diagnostic::new(
                            &PROMPT_SHAPE,
                            path.span(),
                            "a prompt must have either `inline` or `file`, not both",
                        )
                        .help("remove one of them; other tools silently use `inline`"),
                    );
                    None
                }
                (None, None) => {
                    reader.error(
                        Diagnostic::new(
                            &PROMPT_SHAPE,
                            blank.map_or(node.span(), |e| e.key.span()),
                            "the prompt is empty",
                        )
                        .help("add `inline` with the text, or `file` with a path"),
                    );
                    None
                }
            }
        }
        _ => {
            reader.wrong_type(node, if bare { "a string" } else { "a mapping" }, "a prompt");
            None
        }
    }
}
