//! Verify uses a path, column, key or collection that nothing else in the task mentions: the agent cannot know it.

use std::{cell::LazyCell, collections::BTreeSet};

use crate::{
    ascii::{Ascii, ascii},
    diagnostic::{Diagnostic, Diagnostics, nearest},
    effects::{
        Act, Followed, Verb,
        value::{Piece, Value},
    },
    hir::PhaseKind,
    lint::{
        TaskView,
        analysis::{
            expected::{absent_paths, read_paths},
            facts, texts,
        },
        resources::elsewhere::{UNKNOWN_RESOURCE, is_known, is_told_apart, written},
    },
    source::Span,
};

/// Reports only names that neither setup nor the prompt contains. Most checks require that setup is fully known.
pub fn check(view: &TaskView<'_>, out: &mut Diagnostics) {
    if view.task.prompt.is_none() {
        return;
    }
    let said = view.effects.prompt.shown();
    beside(view, &said, out);
    other_folder(view, &said, out);
    never_there(view, &said, out);
    databases(view, &said, out);
    columns(view, &said, out);
    tables(view, &said, out);
    sql_values(view, &said, out);
    in_git(view, &said, out);
    data_keys(view, &said, out);
    stored_keys(view, &said, out);
    places(view, &said, out);
    collections(view, out);
}

fn finding(span: Span, message: String) -> Diagnostic {
    Diagnostic::new(&UNKNOWN_RESOURCE, span, message).help("check what setup creates, or what the prompt asks for")
}

fn verified<'a>(view: &TaskView<'a>) -> impl Iterator<Item = &'a Followed<'a>> {
    view.effects.scripts.iter().filter(|script| script.view.phase == PhaseKind::Verify)
}

/// The paths of the files that the task creates.
fn made(view: &TaskView<'_>) -> Vec<String> {
    let acts = view.effects.acts.iter();
    let files = acts.filter(|act| act.verb == Verb::Creates && act.thing.system == "file");
    files.filter_map(|act| act.thing.name.as_ref().map(Value::shown)).collect()
}

/// `/tmp/report.txt`, if setup or the prompt mentions `/tmp/report.csv`.
fn beside(view: &TaskView<'_>, said: &str, out: &mut Diagnostics) {
    if !view.effects.sees(PhaseKind::Setup) {
        return;
    }
    let read = read_paths(view);
    if read.is_empty() {
        return;
    }
    let made = made(view);
    // The model does not track files to which standard error is redirected.
    let redirects = verified(view).any(|script| {
        let text = &script.view.content.text;
        text.match_indices("2>")
            .map(|(at, _)| text[at + 2..].trim_start())
            .any(|rest| !rest.starts_with("&1") && !rest.starts_with("/dev/null"))
    });
    let written = LazyCell::new(|| written(view));
    let mut told = BTreeSet::new();
    for (span, path) in read {
        let Some((parent, file)) = path.rsplit_once('/') else { continue };
        let is_temporary = matches!(parent, "/tmp" | "/var/tmp");
        if !(is_temporary || parent.starts_with("/tmp/") && stands_for(view, said, &made, parent, file)) {
            continue;
        }
        let whole = file.contains('.') && !file.contains(['*', '$', '…', '{', '?']);
        let folder = &path[..path.len() - file.len()];
        let siblings = said.contains(folder) || made.iter().any(|made| made.starts_with(folder));
        let stem = file.split('.').next().unwrap_or(file);
        let known = is_known(view, said, file) || made.contains(&path) || is_known(view, said, &format!("{stem}*"));
        if whole && siblings && !known && !written.contains(&path) && !redirects && told.insert(path.clone()) {
            // A program that setup starts may write it. Its text is read only for this question.
            if !crate::lint::analysis::facts::data(view).contains(file) {
                out.push(finding(span, format!("neither the prompt nor the task mentions the file `{path}`")));
            }
        }
    }
}

/// `/tmp/inventory/count.txt`, if everything else uses `/tmp/inventory-eval/count.txt`.
fn other_folder(view: &TaskView<'_>, said: &str, out: &mut Diagnostics) {
    if !view.effects.sees(PhaseKind::Setup) {
        return;
    }
    let texts = facts::elsewhere(view);
    let written = LazyCell::new(|| written(view));
    let mut told = BTreeSet::new();
    for (span, path) in read_paths(view) {
        let Some((folder, file)) = path.rsplit_once('/').filter(|(folder, _)| folder.matches('/').count() > 1) else {
            continue;
        };
        let is_plain = path.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'/' | b'.' | b'-' | b'_'));
        let is_elsewhere = || {
            let in_verify = verified(view).map(|script| {
                let text = &script.view.content.text;
                text.match_indices(folder).filter(|(at, _)| is_whole(text, *at, folder)).count()
            });
            occurs(said, folder) || occurs(&texts.rest, folder) || in_verify.sum::<usize>() > 1
        };
        if !is_plain || !file.contains('.') || is_elsewhere() || written.contains(&path) {
            continue;
        }
        // A file may have another path in a container: the directories differ only in the last name, and little.
        let is_near = |other: &&str| {
            let near =
                other.rsplit_once('/').and_then(|(other, _)| Some((folder.rsplit_once('/')?, other.rsplit_once('/')?)));
            near.is_some_and(|((parent, name), (other_parent, other))| {
                parent == other_parent
                    && (name.starts_with(other)
                        || other.starts_with(name)
                        || crate::lint::shell::misspelt::is_slip(name, other))
            })
        };
        let others: BTreeSet<&str> =
            [said, &texts.rest].iter().flat_map(|text| ending_with(text, file)).filter(is_near).collect();
        if let ([other], true) = (others.into_iter().collect::<Vec<_>>().as_slice(), told.insert(path.clone())) {
            let message = format!("neither the prompt nor the task mentions the directory `{folder}`");
            out.push(finding(span, message).here(format!("did you mean `{other}`?")));
        }
    }
}

/// Whether a path occurs in a text, alone or as the beginning of another one.
fn occurs(text: &str, path: &str) -> bool {
    text.match_indices(path).any(|(at, _)| is_whole(text, at, path))
}

/// Whether the path at an offset of a text is not the beginning of a longer name.
fn is_whole(text: &str, at: usize, path: &str) -> bool {
    !text[at + path.len()..].starts_with(|c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
}

/// The absolute paths of a file in a text.
fn ending_with<'t>(text: &'t str, file: &str) -> Vec<&'t str> {
    let part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '-' | '_');
    let name = format!("/{file}");
    let ends = text.match_indices(&name).map(|(at, _)| at + name.len());
    ends.filter(|end| !text[*end..].trim_start_matches('.').starts_with(part))
        .map(|end| &text[text[..end].trim_end_matches(part).len()..end])
        .filter(|path| path.starts_with('/') && path.len() > name.len())
        .collect()
}

/// Whether a file in a directory of the task stands for the only file of this type that setup creates there: the prompt names that
/// one and no other of its type, and verify does not read it.
fn stands_for(view: &TaskView<'_>, said: &str, made: &[String], parent: &str, file: &str) -> bool {
    let Some((stem, ending)) = file.rsplit_once('.') else { return false };
    let mut alike: Vec<&str> = made
        .iter()
        .filter_map(|made| made.strip_prefix(parent)?.strip_prefix('/'))
        .filter(|name| !name.contains('/') && name.rsplit_once('.').is_some_and(|(_, own)| own == ending))
        .collect();
    alike.dedup();
    let [other] = alike.as_slice() else { return false };
    let rest = said.replace(other, "").to_lowercase();
    said.contains(other)
        && !facts::elsewhere(view).verify.contains(other)
        && !texts::has_word(said, stem)
        && !rest.contains(&ending.to_lowercase())
}

/// Verify expects that a file is absent from a directory that never exists.
fn never_there(view: &TaskView<'_>, said: &str, out: &mut Diagnostics) {
    let mut told = BTreeSet::new();
    let files = made(view);
    let names: Vec<&str> = files.iter().filter_map(|path| path.rsplit('/').next()).collect();
    for (span, path) in absent_paths(view) {
        let Some((folder, file)) = path.rsplit_once('/').filter(|(folder, _)| folder.starts_with('/')) else {
            continue;
        };
        let known = is_known(view, said, folder) || files.iter().any(|made| made.starts_with(&format!("{folder}/")));
        if names.contains(&file) && !known && !path.contains(['$', '…', '{']) && told.insert(span.start) {
            let made = files.iter().find(|made| made.rsplit('/').next() == Some(file));
            let finding = finding(span, format!("`{path}` never exists: nothing creates the directory `{folder}`"));
            out.push(match made {
                Some(made) => finding.here(format!("did you mean `{made}`?")),
                None => finding,
            });
        }
    }
}

/// Verify queries another SQLite database than the one in which setup creates its tables.
fn databases(view: &TaskView<'_>, said: &str, out: &mut Diagnostics) {
    let of = |act: &Act| act.thing.space.clone().filter(|_| act.thing.system == "sqlite" && act.thing.kind == "table");
    let made = view.effects.in_phase(PhaseKind::Setup).find(|act| act.verb == Verb::Creates && of(act).is_some());
    let Some((made, own)) = made.and_then(|made| Some((made, of(made)?))) else { return };
    let mut told = BTreeSet::new();
    for act in view.effects.in_phase(PhaseKind::Verify).filter(|act| act.verb == Verb::Reads) {
        let Some(path) = of(act).filter(Value::is_known).map(|space| space.shown()) else { continue };
        let file = path.rsplit('/').next().unwrap_or(&path);
        if own.is_known() && path != own.shown() && !is_known(view, said, file) && told.insert(path.clone()) {
            out.push(
                finding(
                    act.span,
                    format!("setup creates its tables in `{}`, but verify queries `{path}`", own.shown()),
                )
                .label(made.span, "created here"),
            );
        }
    }
}

/// `SELECT … FROM refund`, if setup creates tables but no such one.
fn tables(view: &TaskView<'_>, said: &str, out: &mut Diagnostics) {
    let is_sql = |act: &&Act| matches!(act.thing.system.as_str(), "sqlite" | "postgres" | "mysql") && !act.maybe;
    let acts =
        || view.effects.acts.iter().filter(is_sql).filter(|act| matches!(act.thing.kind.as_str(), "table" | "view"));
    let name = |act: &Act| act.thing.name.as_ref().and_then(Value::literal).map(str::to_owned);
    let made: Vec<String> = acts().filter(|act| act.verb == Verb::Creates).filter_map(name).collect();
    let with = view.effects.sql.iter().any(|sql| sql.text.shown().to_lowercase().contains("with "));
    if made.is_empty() || with || !view.effects.sees(PhaseKind::Setup) {
        return;
    }
    // A file name may contain the name of a table: `/tmp/refund-1.db`.
    let joins = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let has = |text: &str, table: &str| {
        text.match_indices(table).any(|(at, _)| {
            !text[..at].ends_with(|c| joins(c) || matches!(c, '/' | '.'))
                && !text[at + table.len()..].starts_with(joins)
        })
    };
    let others = view.scripts.iter().filter(|script| script.phase != PhaseKind::Verify);
    let others: Vec<String> =
        others.map(|script| script.content.text.to_lowercase()).chain([said.to_lowercase()]).collect();
    let mut told = BTreeSet::new();
    for act in acts().filter(|act| act.phase == PhaseKind::Verify && act.verb == Verb::Reads) {
        let Some(table) = name(act).filter(|table| table.len() > 2 && !table.contains('.')) else { continue };
        let lower = table.to_lowercase();
        if !others.iter().any(|text| has(text, &lower)) && told.insert(table.clone()) {
            let finding = finding(act.span, format!("neither setup nor the prompt mentions a table `{table}`"));
            out.push(match nearest(&table, made.iter().map(String::as_str)) {
                Some(near) => finding.here(format!("did you mean `{near}`?")),
                None => finding,
            });
        }
    }
}

/// `SELECT level FROM rooms`, if no table has a column `level`.
fn columns(view: &TaskView<'_>, said: &str, out: &mut Diagnostics) {
    let model = view.effects;
    let of = |phase: PhaseKind| model.sql.iter().filter(move |sql| sql.phase == phase);
    let tables = of(PhaseKind::Setup).any(|sql| CREATES.is_match(&sql.text.shown()));
    if !tables || !model.sees(PhaseKind::Setup) || of(PhaseKind::Setup).any(|sql| sql.text.shown().contains('…')) {
        return;
    }
    let mut known: BTreeSet<String> = BTreeSet::new();
    let rest = &facts::elsewhere(view).rest;
    let words = |text: &str| -> Vec<String> {
        let part = |c: char| !(c.is_ascii_alphanumeric() || c == '_');
        text.split(part).filter(|word| !word.is_empty()).map(str::to_lowercase).collect()
    };
    known.extend(words(rest));
    let prompt: BTreeSet<String> =
        words(said).into_iter().flat_map(|word| [word.clone(), format!("{word}s")]).collect();
    let is_told = |name: &str| {
        prompt.contains(name)
            || name.split('_').any(|part| {
                part.len() > 2
                    && (prompt.contains(part)
                        || prompt.iter().any(|word| word.len() > 3 && part.starts_with(word.as_str())))
            })
    };
    let mut told = BTreeSet::new();
    for sql in of(PhaseKind::Verify) {
        let text = sql.text.shown();
        if text.contains(['…', '{', '$']) || SYSTEM.is_match(&text) {
            continue;
        }
        for name in named(&text) {
            let lower = name.to_lowercase();
            if !known.contains(&lower) && !is_told(&lower) && told.insert(lower.clone()) {
                let near = nearest(&lower, known.iter().map(String::as_str).filter(|word| rest.contains(word)));
                let finding = finding(sql.span, format!("neither setup nor the prompt mentions a column `{name}`"));
                out.push(match near {
                    Some(near) => finding.here(format!("did you mean `{near}`?")),
                    None => finding,
                });
            }
        }
    }
}

static EQUALS: Ascii = ascii(r"(\w+)\s*=\s*'([A-Za-z][A-Za-z_ -]{3,})'");

/// `status = 'dispatched'`, if the prompt says what the column `status` is set to, and no row of setup has this value.
fn sql_values(view: &TaskView<'_>, said: &str, out: &mut Diagnostics) {
    let model = view.effects;
    let of = |phase: PhaseKind| model.sql.iter().filter(move |sql| sql.phase == phase);
    let inserts = of(PhaseKind::Setup).any(|sql| sql.text.shown().to_lowercase().contains("insert into"));
    if !model.sees(PhaseKind::Setup) || !inserts {
        return;
    }
    let (said, rest) = (said.to_lowercase(), facts::elsewhere(view).rest.to_lowercase());
    let mut told = BTreeSet::new();
    for sql in of(PhaseKind::Verify) {
        let text = sql.text.shown();
        // Of several spellings, one may be allowed only in case.
        if SYSTEM.is_match(&text) || text.to_lowercase().contains(" or ") {
            continue;
        }
        for found in EQUALS.captures_iter(&text) {
            let (column, value) = (found[1].to_lowercase(), found[2].to_lowercase());
            let stem = &value[..value.len().min(4)];
            let is_known = said.contains(stem) || rest.contains(&value);
            let is_set = texts::has_word(&said, &column) && texts::has_word(&rest, &column);
            if is_set && !is_known && told.insert(value) {
                let message =
                    format!("neither setup nor the prompt mentions the value `{}` of `{}`", &found[2], &found[1]);
                out.push(finding(sql.span, message));
            }
        }
    }
}

/// The columns in a query: names except SQL keywords, functions, tables and aliases.
fn named(text: &str) -> Vec<&str> {
    let bare = TEXTS.replace_all(text, |found| "'".repeat(found.len()));
    let words: Vec<(std::ops::Range<usize>, String)> =
        WORD.find_iter(&bare).map(|word| (word.range(), word.as_str().to_lowercase())).collect();
    let is_word = |at: usize| words.get(at).is_some_and(|(_, word)| WORDS.contains(&word.as_str()));
    let mut own: BTreeSet<&str> = BTreeSet::new();
    for (at, (range, word)) in words.iter().enumerate() {
        let before = at.checked_sub(1).and_then(|at| words.get(at));
        let follows = before.is_some_and(|(before, _)| bare[before.end..range.start].trim().is_empty());
        let begins = before.is_some_and(|(_, word)| {
            matches!(word.as_str(), "as" | "from" | "join" | "into" | "update" | "table" | "with")
        });
        // `rooms r`, `(…) r`.
        let alias = follows && !is_word(at - 1) || bare[..range.start].trim_end().ends_with(')');
        if follows && begins || alias && !is_word(at) {
            own.insert(word);
        }
    }
    let mut found = Vec::new();
    for (at, (range, word)) in words.iter().enumerate() {
        let (before, behind) = (&bare[..range.start], &bare[range.end..]);
        let calls = behind.trim_start().starts_with('(') || behind.starts_with('.');
        let inside = before.ends_with(|c: char| c.is_ascii_alphanumeric() || matches!(c, ':' | '@' | '-'));
        if !calls && !inside && !is_word(at) && !own.contains(word.as_str()) && word.len() > 2 {
            found.push(&text[range.clone()]);
        }
    }
    found
}

static CREATES: Ascii = ascii(r"(?i)\bcreate\s+table\b");
static SYSTEM: Ascii = ascii(
    r"(?im)information_schema|\bpg_|sqlite_|pragma|\bshow\b|\bdescribe\b|\bexplain\b|^\s*[.\\]|json_|\bcreate\b|\bbegin\b|->",
);
static TEXTS: Ascii = ascii(r#"'[^']*'|"[^"]*"|`[^`]*`|--[^\n]*"#);
static WORD: Ascii = ascii(r"[A-Za-z_]\w*");
/// SQL keywords, and names of types and of columns that every table has.
#[rustfmt::skip]
const WORDS: &[&str] = &[
    "select", "from", "where", "and", "or", "not", "null", "is", "in", "like", "ilike", "glob", "between", "exists", "distinct", "order", "by", "group",
    "having", "limit", "offset", "asc", "desc", "join", "left", "right", "inner", "outer", "cross", "full", "natural", "using", "on", "as", "case", "when",
    "then", "else", "end", "union", "all", "any", "some", "except", "intersect", "with", "recursive", "values", "true", "false", "cast", "collate", "nocase",
    "current_date", "current_time", "current_timestamp", "interval", "date", "time", "timestamp", "integer", "int", "bigint", "smallint", "text", "varchar",
    "char", "numeric", "decimal", "real", "float", "double", "precision", "boolean", "bool", "json", "jsonb", "uuid", "extract", "epoch", "year", "month",
    "day", "hour", "minute", "second", "filter", "over", "partition", "rows", "range", "unbounded", "preceding", "following", "current", "row", "first",
    "last", "nulls", "insert", "into", "update", "set", "delete", "returning", "rowid", "oid", "ctid", "table", "index", "view", "escape", "regexp", "rlike", "similar",
    "to", "lateral", "fetch", "next", "only", "for", "window", "isnull", "notnull", "unknown", "zone", "at", "binary", "user", "db", "dual", "div", "mod", "x", "e",
    "c", "f", "t", "n", "q", "b", "r", "s", "a", "commit", "rollback", "transaction", "read", "unique", "both", "leading", "trailing", "array", "count",
];

/// `git show main:server.conf`, `git log -- server.conf`, if nothing else names the file.
fn in_git(view: &TaskView<'_>, said: &str, out: &mut Diagnostics) {
    if !view.scripts.iter().any(|script| script.phase == PhaseKind::Setup) {
        return;
    }
    // The content of a clone or an archive is unknown.
    let rest = &facts::elsewhere(view).rest;
    if ["clone", "fetch", "pull", "submodule", "tar ", "unzip", "cp "].iter().any(|word| rest.contains(word))
        || !view.effects.sees(PhaseKind::Setup)
    {
        return;
    }
    let mut told = BTreeSet::new();
    for script in verified(view) {
        for run in script.trace.runs.iter().filter(|run| run.statement.name() == "git") {
            let words: Vec<&str> = run.words.iter().map(|word| word.literal().unwrap_or_default()).collect();
            let behind = words.iter().position(|word| *word == "--").map_or(words.len(), |at| at + 1);
            let shown = words
                .iter()
                .filter(|_| words.contains(&"show"))
                .filter_map(|word| word.split_once(':'))
                .map(|(_, path)| path);
            let revisions = words[1..].iter().flat_map(|word| word.split(['^', '~', ':', '/']));
            for tag in revisions.filter(|word| VERSION.is_match(word)) {
                let follows = crate::lint::prompt::disagrees::NEWER.is_match(&said.to_lowercase());
                if !follows && !is_known(view, said, tag) && told.insert(tag.to_owned()) {
                    let span = run.content.span(run.statement.range.clone());
                    out.push(finding(span, format!("neither the prompt nor the task mentions `{tag}`")));
                }
            }
            for path in shown.chain(words[behind..].iter().copied()) {
                let file = path.rsplit('/').next().unwrap_or(path);
                let is_file = file.contains('.')
                    && file.len() > 3
                    && file.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'));
                let stem = file.split('.').next().unwrap_or(file).to_lowercase();
                let known = is_known(view, said, file) || said.to_lowercase().contains(&stem);
                if is_file && !known && told.insert(path.to_owned()) {
                    let span = run.content.span(run.statement.range.clone());
                    out.push(finding(span, format!("neither the prompt nor the task mentions the file `{path}`")));
                }
            }
        }
    }
}

/// A tag of a release.
static VERSION: Ascii = ascii(r"^v\d+(?:\.\d+)+$");

/// `{.data.mood}` of a config map or secret, if nothing else names the key.
fn data_keys(view: &TaskView<'_>, said: &str, out: &mut Diagnostics) {
    let lower = said.to_lowercase();
    let rest = &facts::elsewhere(view).rest;
    // The templates of a chart have keys of their own.
    let is_chart = |script: &&Followed<'_>| script.trace.runs.iter().any(|run| run.statement.name() == "helm");
    if view.effects.scripts.iter().any(|script| is_chart(&script)) {
        return;
    }
    let mut told = BTreeSet::new();
    for script in verified(view) {
        for run in script.trace.runs.iter().filter(|run| run.statement.tool() == "kubectl") {
            let words: Vec<&str> = run.words.iter().map(|word| word.literal().unwrap_or_default()).collect();
            let is_map = |word: &&str| {
                let kind = word.split('/').next().unwrap_or_default();
                matches!(kind, "configmap" | "configmaps" | "cm" | "secret" | "secrets")
            };
            if !words.contains(&"get") || !words.iter().any(is_map) {
                continue;
            }
            // A filter for the whole object follows the command.
            let text = &run.content.text;
            let end = text[run.statement.range.end..]
                .match_indices('\n')
                .map(|(at, _)| run.statement.range.end + at)
                .find(|at| !text[..*at].ends_with(['\\', '|']))
                .unwrap_or(text.len());
            let text = &text[run.statement.range.start..end];
            for key in
                DATA.captures_iter(text).filter_map(|found| found.get(1)).map(|key| key.as_str().replace("\\.", "."))
            {
                let quoted = [format!("`{key}`"), format!("\"{key}\""), format!("key {key}")];
                let parts = key.split(['.', '_', '-']).map(str::to_lowercase);
                let hinted = parts.filter(|part| part.len() > 2).any(|part| lower.contains(&part));
                let longer = facts::given(view).iter().map(|fact| fact.key.as_str());
                let longer = longer.filter(|own| own.len() > key.len() + 1).find(|own| own.starts_with(&key));
                let usual =
                    matches!(key.as_str(), "username" | "password" | "token" | "tls.crt" | "tls.key" | "ca.crt");
                let given = || facts::given(view).iter().any(|fact| fact.key == key);
                let named = usual || texts::has_word(rest, &key) || quoted.iter().any(|form| said.contains(form));
                let named = named || given();
                if !named && (!hinted || longer.is_some()) && told.insert(key.clone()) {
                    let span = run.content.span(run.statement.range.clone());
                    let finding = finding(span, format!("neither the prompt nor the task mentions the key `{key}`"));
                    out.push(match longer {
                        Some(longer) => finding.here(format!("did you mean `{longer}`?")),
                        None => finding,
                    });
                }
            }
        }
    }
}

static DATA: Ascii = ascii(r#"\.(?:data|stringData)(?:\.|\[["'])([A-Za-z](?:[\w-]|\\\.)*)"#);

/// `redis-cli get user:24`, if nothing else names the key.
fn stored_keys(view: &TaskView<'_>, said: &str, out: &mut Diagnostics) {
    let mut told = BTreeSet::new();
    for script in verified(view) {
        for run in &script.trace.runs {
            let words: Vec<&str> = run.words.iter().map(|word| word.literal().unwrap_or_default()).collect();
            let Some(at) = words.iter().position(|word| matches!(*word, "redis-cli" | "valkey-cli" | "etcdctl")) else {
                continue;
            };
            let reads = |word: &str| READS.contains(&word.to_lowercase().as_str());
            let key = words[at + 1..].windows(2).find(|pair| reads(pair[0])).map(|pair| pair[1]);
            let Some(key) = key.filter(|key| key.len() > 2 && !key.starts_with('-')) else { continue };
            if !is_told_apart(view, said, key) && told.insert(key.to_owned()) {
                let span = run.content.span(run.statement.range.clone());
                out.push(finding(span, format!("neither the prompt nor the task mentions the key `{key}`")));
            }
        }
    }
}

/// Commands that read a key of a store.
#[rustfmt::skip]
const READS: &[&str] = &[
    "get", "hget", "hgetall", "exists", "ttl", "type", "llen", "lrange", "smembers", "scard", "sismember", "zrange", "zcard", "zscore", "strlen", "hlen", "hkeys",
];

/// `select(.Destination == "/var/lib/redis")`, if the prompt names another path.
fn places(view: &TaskView<'_>, said: &str, out: &mut Diagnostics) {
    if !PATH.is_match(said) {
        return;
    }
    let mut told = BTreeSet::new();
    for script in verified(view) {
        let content = &script.view.content;
        let paths = COMPARED.captures_iter(&content.text).filter_map(|found| found.get(1));
        // Programs and devices have the same path on every machine: `/bin/bash`.
        for path in paths.filter(|path| !OF_SYSTEM.is_match(path.as_str())) {
            if !is_known(view, said, path.as_str()) && told.insert(path.as_str().to_owned()) {
                out.push(finding(
                    content.span(path.range()),
                    format!("neither the prompt nor the task mentions `{}`", path.as_str()),
                ));
            }
        }
    }
}

static OF_SYSTEM: Ascii = ascii(r"^/(?:usr/(?:local/)?)?(?:s?bin|dev|proc|sys)/");
static PATH: Ascii = ascii(r"(?m)(?:^|[\s`(])/[a-z]");
static COMPARED: Ascii = ascii(r#"==?\s*["'](/[\w.-]+(?:/[\w.-]+)*)["']"#);

/// `/shows/{steps.booking.outputs.id}`, if the booking was created at `/bookings`, and something else at `/shows`.
fn collections(view: &TaskView<'_>, out: &mut Diagnostics) {
    let acts = || view.effects.acts.iter().filter(|act| act.thing.system == "http");
    let last = |act: &Act| {
        let url = act.thing.name.as_ref()?.split('/');
        url.last()?.literal().filter(|last| !last.is_empty()).map(str::to_owned)
    };
    let mut made: Vec<(String, String, Span)> = Vec::new();
    view.task.setup.steps.iter().for_each(|step| {
        step.walk(&mut |step| {
            let id = step.id.as_ref().map(|id| format!("{{steps.{}.", id.value));
            let act = acts().find(|act| act.step == step.key && act.verb == Verb::Creates);
            made.extend(id.zip(act.and_then(last)).map(|(id, collection)| (id, collection, step.key)));
        });
    });
    if made.len() < 2 {
        return;
    }
    let mut told = BTreeSet::new();
    for act in acts().filter(|act| act.phase != PhaseKind::Setup) {
        let Some(url) = &act.thing.name else { continue };
        for pair in url.split('/').windows(2) {
            let ([Piece::Text(collection)], [Piece::Name(id)]) = (pair[0].pieces(), pair[1].pieces()) else { continue };
            let Some((_, own, place)) = made.iter().find(|(begin, ..)| id.starts_with(begin.as_str())) else {
                continue;
            };
            if own != collection && made.iter().any(|(_, other, _)| other == collection) && told.insert(act.span.start)
            {
                out.push(
                    finding(act.span, format!("`{id}` was created at `{own}`, but is requested from `{collection}`"))
                        .label(*place, "created here")
                        .help("use the output of the step that created the resource of this URL"),
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_of_a_query_are_extracted() {
        for (query, names) in [
            ("SELECT max(beds) FROM rooms WHERE floor = 2", &["beds", "floor"][..]),
            (
                "SELECT r.number, count(*) AS n FROM rooms r JOIN stays AS s ON s.room = r.number GROUP BY 1",
                &["number", "room", "number"],
            ),
            ("SELECT group_concat(id) FROM (SELECT id FROM members WHERE status = 'blocked' ORDER BY id)", &["status"]),
            ("SELECT count(*) FROM orders o, items i WHERE i.price > 1e3", &["items", "price"]),
        ] {
            assert_eq!(named(query), names, "{query}");
        }
    }
}
