//! Names in verify or cleanup that nothing else uses, and that differ in an ending or in one letter from a name that the
//! prompt or setup uses.

use std::cell::OnceCell;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::{
    ascii::{Ascii, ascii},
    diagnostic::{Diagnostic, Diagnostics},
    effects::{Act, Verb, script::Form},
    hir::{ArgKind, OperationKind, PhaseKind},
    lint::{
        TaskView,
        analysis::{facts, texts},
        resources::odd_word::{ODD_WORD, REPAIRS, is_of_program, is_slip},
    },
    source::{Span, resolve},
};

/// A name in verify or cleanup.
struct Suspect {
    text: String,
    span: Span,
    phase: PhaseKind,
    /// The field or column that the name is compared with. Its value may be an ordinary word of the prompt.
    field: Option<String>,
}

/// The minimum length of a name: shorter names are often similar.
const SHORTEST: usize = 4;

/// A name that occurs nowhere else in the task, and a similar one that the prompt or setup has.
pub fn check(view: &TaskView<'_>, out: &mut Diagnostics) {
    if view.task.prompt.is_none() || view.task.verify.steps.is_empty() {
        return;
    }
    locations(view, out);
    numbered(view, out);
    unused(view, out);
    versions(view, out);
    data_keys(view, out);
    let suspects = suspects(view);
    let judges = view.task.verify.steps.iter().any(|step| step.op.signature.judges);
    if suspects.is_empty() && facts::asked(view).is_empty() && !judges {
        return;
    }
    let said = view.effects.prompt.shown();
    if ["spell", "spelt", "typo"].iter().any(|word| said.contains(word)) {
        return;
    }
    let known = Known::of(view, said);
    abbreviations(view, &known, out);
    references(view, &known, out);
    let mut told: FxHashSet<String> = FxHashSet::default();
    for suspect in suspects {
        let text = suspect.text.as_str();
        if known.has(text, suspect.phase) || told.contains(text) || is_of_program(text) {
            continue;
        }
        let Some(near) = known.near(&suspect) else { continue };
        let is_reported = out.iter().any(|other| {
            other.message.contains(text) || other.span.file == suspect.span.file && other.span == suspect.span
        });
        if is_reported || known.is_in_files(view, text) {
            continue;
        }
        told.insert(text.to_owned());
        let part = if suspect.phase == PhaseKind::Cleanup { "cleanup" } else { "verify" };
        out.push(
            Diagnostic::new(
                &ODD_WORD,
                suspect.span,
                format!("`{text}` appears only in {part}; a similar name appears elsewhere"),
            )
            .here(format!("did you mean `{near}`?"))
            .help("use the same spelling everywhere; if it is intended, add `# gevals: allow(odd-word)`"),
        );
    }
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// A judge's reference with the month `March` or the number `2300`, which nothing else in the task contains, if setup contains another
/// month, or `3200`.
fn references(view: &TaskView<'_>, known: &Known, out: &mut Diagnostics) {
    let others = format!("{}\n{}", known.said, known.made);
    let digits = |word: &str| {
        let mut digits = word.as_bytes().to_vec();
        digits.sort_unstable();
        digits
    };
    let is_number = |word: &str| word.len() > 2 && word.bytes().all(|b| b.is_ascii_digit());
    for step in view.task.verify.steps.iter().filter(|step| step.op.signature.judges) {
        for (text, span) in step.args.iter().filter_map(|(_, arg)| Some((arg.as_literal()?, arg.span))) {
            let absent = |word: &&str| !is_there(&others, word);
            let mut months = MONTHS.iter().copied().filter(|month| is_there(text, month)).filter(absent);
            let mut told = MONTHS.iter().copied().filter(|month| is_there(&others, month));
            let month = months.next().and_then(|month| Some((month, told.next().filter(|_| told.next().is_none())?)));
            let number = texts::words(text, is_part)
                .map(|(_, word)| word)
                .filter(|word| is_number(word))
                .filter(absent)
                .find_map(|number| {
                    let mut same = texts::words(&others, is_part).map(|(_, word)| word);
                    let other = same.find(|word| is_number(word) && digits(word) == digits(number))?;
                    Some((number, other))
                });
            // `the directory /var/lib/ledger`, where setup has `/var/ledger`.
            let path = || {
                let of = |text: &'_ str| PATH.find_iter(text).map(|m| m.as_str().to_owned()).collect::<Vec<_>>();
                let path = of(text).into_iter().find(|path| !others.contains(path.as_str()))?;
                let last = |path: &str| path.rsplit('/').next().map(str::to_owned);
                let mut near: Vec<String> = of(&others);
                near.retain(|other| last(other) == last(&path) && !text.contains(other.as_str()));
                near.dedup();
                let at = others.find(near.first()?)?;
                let (start, path_start) = (text.find(&path)?, at);
                let (one, all) = (near.len() == 1, near.first()?.len());
                one.then(|| (&text[start..start + path.len()], &others[path_start..path_start + all]))
            };
            if let Some((word, other)) = month.or(number).or_else(path) {
                out.push(
                    Diagnostic::new(
                        &ODD_WORD,
                        span,
                        format!("the judge expects `{word}`, which nothing else mentions"),
                    )
                    .here(format!("did you mean `{other}`?"))
                    .help("write what setup and the prompt say; if it is intended, add `# gevals: allow(odd-word)`"),
                );
            }
        }
    }
}

/// A path with at least two parts.
static PATH: Ascii = ascii(r"(?:/[A-Za-z0-9_-]+){2,}(?:\.[a-z]+)?");

/// Verify looks for `2.4.1`, and the only version that the rest of the task has is `2.4.0`.
fn versions(view: &TaskView<'_>, out: &mut Diagnostics) {
    if !VERSION.is_match(&facts::elsewhere(view).verify) {
        return;
    }
    let is_version = |text: &str| VERSION.find_iter(text).next().is_some_and(|m| m.as_str() == text);
    let asked: Vec<_> = crate::lint::analysis::expected::expected(view).filter(|(_, text)| is_version(text)).collect();
    if asked.is_empty() {
        return;
    }
    let known = Known::of(view, view.effects.prompt.shown());
    if crate::lint::prompt::disagrees::NEWER.is_match(&known.said) || VERSION.is_match(&known.said) {
        return;
    }
    let mut made: Vec<&str> = VERSION.find_iter(&known.made).map(|m| m.as_str()).collect();
    made.sort_unstable();
    made.dedup();
    let [made] = made[..] else { return };
    for (span, text) in asked {
        let differs = text.len() == made.len() && text.bytes().zip(made.bytes()).filter(|(a, b)| a != b).count() == 1;
        if differs && !known.verified.contains(made) {
            out.push(
                Diagnostic::new(
                    &ODD_WORD,
                    span,
                    format!("`{text}` appears only in verify; a similar version appears in setup"),
                )
                .here(format!("did you mean `{made}`?"))
                .help("use the same version everywhere; if it is intended, add `# gevals: allow(odd-word)`"),
            );
        }
    }
}

/// `{.data.message}`, where the config map of setup has the key `message.txt`.
fn data_keys(view: &TaskView<'_>, out: &mut Diagnostics) {
    let data = |fact: &&facts::Fact| matches!(fact.parent.as_deref(), Some("data" | "stringData"));
    for asked in facts::asked(view).iter().filter(data) {
        let mut given = facts::given(view).iter().filter(data).map(|fact| fact.key.as_str());
        let behind = |long: &str| long.strip_prefix(asked.key.as_str()).is_some_and(|rest| rest.starts_with('.'));
        let is_known = facts::given(view).iter().any(|fact| fact.key == asked.key);
        let Some(long) = given.find(|known| behind(known)).filter(|_| !is_known) else { continue };
        let written = long.replace('.', "\\.");
        if !facts::elsewhere(view).verify.contains(&written) {
            out.push(
                Diagnostic::new(&ODD_WORD, asked.span, format!("setup creates the key `{long}`, not `{}`", asked.key))
                    .here(format!("did you mean `{{.data.{written}}}`?"))
                    .help("in a path, a dot that is part of a key needs a backslash"),
            );
        }
    }
}

/// A version with three parts.
static VERSION: Ascii = ascii(r"\b[0-9]+\.[0-9]+\.[0-9]+\b");

/// Verify reads `…/issues/1`, where the other requests use the ID of the issue that setup creates.
fn numbered(view: &TaskView<'_>, out: &mut Diagnostics) {
    let (mut checked, mut others): (Vec<(String, Span)>, Vec<String>) = (Vec::new(), Vec::new());
    view.task.walk(&mut |phase, step| {
        let Some(ArgKind::Text(url)) = step.arg("url").map(|arg| &arg.kind) else { return };
        others.push(texts::written(url));
        if phase == PhaseKind::Verify {
            checked.push((texts::written(url), url.span));
        }
    });
    others.truncate(256);
    let said = view.effects.prompt.shown();
    for (url, span) in checked.iter().take(64) {
        let numbers = url.match_indices('/').filter_map(|(at, _)| {
            let rest = &url[at + 1..];
            let number = rest.split(['/', '?']).next().filter(|part| part.bytes().all(|b| b.is_ascii_digit()))?;
            // The prompt may mean a certain issue: `a duplicate of issue 1`.
            (!number.is_empty() && !is_there(&said, number)).then_some((&url[..=at], number))
        });
        for (begin, number) in numbers {
            let id = others.iter().find_map(|other| {
                let rest = other.strip_prefix(begin)?.strip_prefix("{steps.")?;
                let end = rest.find('}')?;
                rest[end + 1..]
                    .is_empty()
                    .then_some(&rest[..end])
                    .or_else(|| rest[end + 1..].starts_with(['/', '?']).then_some(&rest[..end]))
            });
            if let Some(id) = id.filter(|_| !out.iter().any(|other| other.span == *span)) {
                out.push(
                    Diagnostic::new(
                        &ODD_WORD,
                        *span,
                        format!("`{number}` is written here, where another request uses the ID that setup got"),
                    )
                    .here(format!("did you mean `{{steps.{id}}}`?"))
                    .help("IDs differ in each run; if it is intended, add `# gevals: allow(odd-word)`"),
                );
            }
        }
    }
}

/// A resource of setup that nothing else names, if the prompt names a similar one that setup does not have.
fn unused(view: &TaskView<'_>, out: &mut Diagnostics) {
    let of_setup =
        |act: &&Act| act.verb == Verb::Creates && matches!(act.thing.system.as_str(), "kubernetes" | "helm" | "docker");
    let made: Vec<(&Act, &str)> = view
        .effects
        .in_phase(PhaseKind::Setup)
        .filter(of_setup)
        .filter_map(|act| Some((act, act.thing.name.as_ref()?.literal()?)))
        .filter(|(_, name)| is_name(name))
        .collect();
    let said = view.effects.prompt.shown();
    // Most names are in the prompt.
    if made.iter().all(|(_, name)| said.contains(name)) || REPAIRS.is_match(&said) {
        return;
    }
    let quoted: Vec<&str> = named(&said).filter(|name| is_name(name)).collect();
    let variables: String =
        view.task.env.iter().map(|(_, template)| format!("{}\n", texts::written(template))).collect();
    let others = OnceCell::new();
    for (act, name) in &made {
        let Some(near) = quoted.iter().find(|near| is_near(name, near)) else { continue };
        if made.iter().any(|(_, known)| known == near) || is_there(&said, name) || is_of_program(name) {
            continue;
        }
        let others = others.get_or_init(|| Known::of(view, String::new()));
        let mentions = |text: &str, name: &str| texts::words(text, is_part).filter(|(_, word)| *word == name).count();
        let is_alone = mentions(&others.made, name) == 1
            && mentions(&others.verified, name) == 0
            // Variables are a part of `made`.
            && mentions(&others.made, near) == mentions(&variables, near)
            && mentions(&others.verified, near) + mentions(&variables, near) > 0;
        if is_alone && !out.iter().any(|other| other.message.contains(name)) {
            out.push(
                Diagnostic::new(
                    &ODD_WORD,
                    act.span,
                    format!("`{name}` appears only in setup; a similar name appears elsewhere"),
                )
                .here(format!("did you mean `{near}`?"))
                .help("use the same spelling everywhere; if it is intended, add `# gevals: allow(odd-word)`"),
            );
        }
    }
}

/// `.prio == 2`, if the prompt says `the priority 2` and a file of the task has the field `priority`.
fn abbreviations(view: &TaskView<'_>, known: &Known, out: &mut Diagnostics) {
    for fact in facts::asked(view) {
        let (key, value) = (fact.key.as_str(), fact.text());
        if !(SHORTEST..12).contains(&key.len()) || value.is_empty() || known.has(key, PhaseKind::Verify) {
            continue;
        }
        let whole = tokens(&known.said).find(|(at, word)| {
            let behind = known.said[at + word.len()..].trim_start_matches([' ', '`', '"', '=', ':']);
            word.len() > key.len() + 2
                && word.starts_with(key)
                && behind.strip_prefix(value.as_str()).is_some_and(|rest| !rest.starts_with(is_part))
        });
        let Some((_, whole)) = whole else { continue };
        if known.is_in_files(view, whole) && !known.is_in_files(view, key) {
            out.push(
                Diagnostic::new(
                    &ODD_WORD,
                    fact.span,
                    format!("`{key}` appears only in verify; a similar name appears elsewhere"),
                )
                .here(format!("did you mean `{whole}`?"))
                .help("use the same spelling everywhere; if it is intended, add `# gevals: allow(odd-word)`"),
            );
            return;
        }
    }
}

/// Cleanup deletes `…/customers/acme`, but the rest of the task only has `…/customers/s05-acme`.
fn locations(view: &TaskView<'_>, out: &mut Diagnostics) {
    let (mut deleted, mut others): (Vec<(String, Span)>, Vec<String>) = (Vec::new(), Vec::new());
    view.task.walk(&mut |phase, step| {
        let Some(ArgKind::Text(url)) = step.arg("url").map(|arg| &arg.kind) else { return };
        let is_delete = step.arg("method").and_then(|method| method.as_literal()) == Some("DELETE");
        match phase {
            PhaseKind::Cleanup if is_delete => deleted.push((texts::written(url), url.span)),
            PhaseKind::Cleanup => {}
            _ => others.push(texts::written(url)),
        }
    });
    for followed in &view.effects.scripts {
        for run in followed.trace.runs.iter().filter(|run| matches!(run.statement.name(), "curl" | "gh")) {
            let literal = |word: &crate::effects::value::Value| word.literal() == Some("DELETE");
            let is_delete = run.words.iter().any(literal);
            let urls = run.words.iter().skip(1).filter(|word| word.is_known()).map(crate::effects::value::Value::shown);
            for url in urls.filter(|url| url.matches('/').count() > 1 && !url.contains([' ', '{'])) {
                match followed.view.phase {
                    PhaseKind::Cleanup if is_delete => {
                        deleted.push((url, run.content.span(run.statement.range.clone())));
                    }
                    PhaseKind::Cleanup => {}
                    _ => others.push(url),
                }
            }
        }
    }
    deleted.truncate(64);
    others.truncate(256);
    for (url, span) in &deleted {
        let is_known = || out.iter().any(|other| other.span == *span);
        if let Some((name, near)) = near_segment(url, &others).filter(|_| !is_known()) {
            out.push(
                Diagnostic::new(
                    &ODD_WORD,
                    *span,
                    format!("`{name}` appears only in cleanup; a similar name appears elsewhere"),
                )
                .here(format!("did you mean `{near}`?"))
                .help("use the same spelling everywhere; if it is intended, add `# gevals: allow(odd-word)`"),
            );
            continue;
        }
        let Some((parent, name)) = url.trim_end_matches('/').rsplit_once('/') else { continue };
        let is_known =
            others.iter().any(|other| other.strip_prefix(url.as_str()).is_some_and(|rest| !rest.starts_with(is_part)));
        if is_known
            || name.len() < 3
            || !name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
        {
            continue;
        }
        let near = others.iter().filter_map(|other| other.strip_prefix(parent)?.strip_prefix('/')).find(|rest| {
            let first = rest.split(['/', '?']).next().unwrap_or_default();
            let is_longer = |long: &str| {
                long.strip_suffix(name).is_some_and(|begin| begin.ends_with(['-', '_', '/']))
                    || long.strip_prefix(name).is_some_and(|end| end.starts_with(['-', '_']))
            };
            let is_deleted = deleted
                .iter()
                .any(|(known, _)| known.strip_prefix(parent).and_then(|end| end.strip_prefix('/')) == Some(rest));
            !is_deleted && (is_longer(first) || is_longer(rest) || is_near(name, first))
        });
        if let Some(near) = near.filter(|_| !out.iter().any(|other| other.span == *span)) {
            out.push(
                Diagnostic::new(
                    &ODD_WORD,
                    *span,
                    format!("`{name}` appears only in cleanup; a similar name appears elsewhere"),
                )
                .here(format!("did you mean `{near}`?"))
                .help("use the same spelling everywhere; if it is intended, add `# gevals: allow(odd-word)`"),
            );
        }
    }
}

/// A part of a URL, before its last, that the others do not have, and the similar one at its place: `…/todo/3` beside `…/todos`.
fn near_segment<'u>(url: &'u str, others: &'u [String]) -> Option<(&'u str, &'u str)> {
    let parts: Vec<&str> = url.trim_end_matches('/').split('/').collect();
    let inner = parts.iter().enumerate().take(parts.len().saturating_sub(1)).skip(1);
    for (at, part) in inner.filter(|(_, part)| part.len() >= SHORTEST && part.bytes().all(|b| b.is_ascii_alphabetic()))
    {
        if others.iter().any(|other| other.split(['/', '?']).any(|known| known == *part)) {
            continue;
        }
        let near = others.iter().find_map(|other| {
            let known: Vec<&str> = other.split(['/', '?']).collect();
            let same = known.get(..at)? == &parts[..at];
            known.get(at).copied().filter(|known| same && is_near(part, known))
        });
        if let Some(near) = near {
            return Some((part, near));
        }
    }
    None
}

fn is_part(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-')
}

/// The texts of a task outside of cleanup, and the names in them.
struct Known {
    said: String,
    /// Setup and the variables.
    made: String,
    verified: String,
    /// The names in the prompt and in setup by their first letter, and whether each may be a value of a column.
    /// Collected when the first name is looked for.
    names: OnceCell<FxHashMap<u8, Vec<(String, bool)>>>,
}

impl Known {
    fn of(view: &TaskView<'_>, said: String) -> Self {
        let (mut made, mut verified) = (String::new(), String::new());
        view.task.env.iter().for_each(|(_, template)| made.push_str(&format!("{}\n", texts::written(template))));
        view.task.walk(&mut |phase, step| {
            let text = match phase {
                PhaseKind::Setup => &mut made,
                PhaseKind::Verify => &mut verified,
                PhaseKind::Cleanup => return,
            };
            step.templates(&mut |template| text.push_str(&format!("{}\n", texts::written(template))));
        });
        for followed in &view.effects.scripts {
            let text = match followed.view.phase {
                PhaseKind::Setup => &mut made,
                PhaseKind::Verify => &mut verified,
                PhaseKind::Cleanup => continue,
            };
            // An inline script is one of the templates.
            if !matches!(followed.view.form, Form::Inline) {
                text.push_str(&followed.view.content.text);
                text.push('\n');
            }
            for source in &followed.trace.sources {
                text.push_str(&source.text);
                text.push('\n');
            }
        }
        Self { said, made, verified, names: OnceCell::new() }
    }

    /// The names that begin with this letter.
    fn beginning(&self, letter: u8) -> &[(String, bool)] {
        let names = self.names.get_or_init(|| {
            let mut names: FxHashMap<u8, Vec<(String, bool)>> = FxHashMap::default();
            let mut seen: FxHashSet<(&str, bool)> = FxHashSet::default();
            let made = &self.made;
            let in_setup = tokens(made).map(|(at, name)| (name, made[..at].ends_with(['\'', '"'])));
            for (name, is_value) in in_setup.chain(named(&self.said).map(|name| (name, true))) {
                if name.len() >= SHORTEST && seen.insert((name, is_value)) {
                    let letter = name.as_bytes()[0].to_ascii_lowercase();
                    names.entry(letter).or_default().push((name.to_owned(), is_value));
                }
            }
            names
        });
        names.get(&letter).map(Vec::as_slice).unwrap_or_default()
    }

    /// Whether a name occurs outside of the part that it is in.
    fn has(&self, name: &str, phase: PhaseKind) -> bool {
        let in_verify = || phase == PhaseKind::Cleanup && is_there(&self.verified, name);
        is_there(&self.said, name) || is_there(&self.made, name) || in_verify()
    }

    /// A name that is similar.
    fn near(&self, suspect: &Suspect) -> Option<String> {
        let text = suspect.text.as_str();
        let letter = text.as_bytes().first()?.to_ascii_lowercase();
        let names = self.beginning(letter).iter();
        let is_value = suspect.field.as_deref().is_some_and(|field| !CATALOG.contains(&field));
        let mut names = names.filter(|(name, quoted)| name.len().abs_diff(text.len()) < 3 && (*quoted || !is_value));
        let found = names.find(|(name, _)| is_near(text, name));
        found.map(|(name, _)| name.clone()).or_else(|| {
            // `the status of all orders to refunded`, for `status = 'refund'`.
            let field = suspect.field.as_deref()?;
            let start = self.said.find(field)?;
            let sentence = crate::lint::analysis::orders::sentence(&self.said, start);
            let rest = self.said.get(start + field.len()..sentence.end)?;
            let told = VALUE.captures_iter(rest).filter_map(|found| Some(found.get(1)?.as_str()));
            told.into_iter().find(|told| is_near(text, told)).map(str::to_owned)
        })
    }

    /// Whether a file that setup names contains the name.
    fn is_in_files(&self, view: &TaskView<'_>, name: &str) -> bool {
        let mut paths: FxHashSet<&str> = FxHashSet::default();
        paths.extend(FILE.find_iter(&self.made).map(|m| m.as_str()).take(64));
        let mut dirs: Vec<_> = vec![view.task.dir.clone()];
        dirs.extend(view.scripts.iter().filter_map(|script| script.dir.clone()));
        paths.iter().any(|path| {
            dirs.iter().any(|dir| {
                let text = view.files.read(&resolve(dir, path)).ok();
                text.and_then(|bytes| String::from_utf8(bytes).ok()).is_some_and(|text| is_there(&text, name))
            })
        })
    }
}

/// Whether a text contains a name that is not part of a longer one.
fn is_there(text: &str, name: &str) -> bool {
    text.match_indices(name)
        .any(|(at, _)| !text[..at].ends_with(is_part) && !text[at + name.len()..].starts_with(is_part))
}

/// Whether two names differ in the ending of a part or in one letter.
fn is_near(a: &str, b: &str) -> bool {
    let (short, long) = if a.len() < b.len() { (a, b) } else { (b, a) };
    if short.len() < SHORTEST || a.eq_ignore_ascii_case(b) {
        return false;
    }
    let bytes = |text: &str, wanted: fn(&u8) -> bool| text.bytes().filter(wanted).collect::<Vec<_>>();
    let sorted = |text: &str| {
        let mut letters = bytes(text, u8::is_ascii_alphanumeric);
        letters.sort_unstable();
        letters
    };
    let ends = long.strip_prefix(short).is_some_and(|end| ENDINGS.contains(&end));
    // `text` and `test` are different words, `tier` and `teir` are not.
    let slips = || is_slip(a, b) && (short.len() >= 6 || sorted(a) == sorted(b));
    bytes(a, u8::is_ascii_digit) == bytes(b, u8::is_ascii_digit) && (ends || slips())
}

/// Columns of the catalogs of databases, whose values are names.
const CATALOG: [&str; 8] =
    ["column_name", "attname", "table_name", "tablename", "indexname", "index_name", "rolname", "datname"];

/// The endings by which names are confused.
const ENDINGS: [&str; 6] = ["s", "es", "d", "ed", "r", "S"];

/// The tokens of a text that may be names, and their offsets.
fn tokens(text: &str) -> impl Iterator<Item = (usize, &str)> {
    texts::words(text, is_part).filter(|(_, word)| word.starts_with(|c: char| c.is_ascii_alphabetic()))
}

/// The names in a prompt: quoted, with an underscore or a digit, in capitals, or after a word that introduces a name.
fn named(said: &str) -> impl Iterator<Item = &str> {
    tokens(said)
        .filter(|(at, word)| {
            let before = &said[..*at];
            let behind = &said[at + word.len()..];
            let form = word.contains(['_', '-']) && !word.ends_with('-')
                || word.bytes().any(|b| b.is_ascii_digit())
                || word.bytes().skip(1).any(|b| b.is_ascii_uppercase());
            let quoted = before.ends_with(['`', '"', '\'', '/', '@']) || behind.starts_with(['`', '/', '@', '=', '_']);
            form || quoted
                || INTRODUCTIONS.iter().any(|introduction| {
                    before.strip_suffix(introduction).is_some_and(|rest| rest.ends_with([' ', '\n']) || rest.is_empty())
                })
        })
        .map(|(_, word)| word)
}

/// Words before a name.
#[rustfmt::skip]
const INTRODUCTIONS: [&str; 20] = [
    "named ", "called ", "table ", "column ", "role ", "user ", "branch ", "label ", "bucket ", "queue ", "topic ", "folder ", "directory ",
    "database ", "index ", "repository ", "tag ", "network ", "volume ", "schema ",
];

/// The names in verify and cleanup, in positions that hold names.
fn suspects(view: &TaskView<'_>) -> Vec<Suspect> {
    let mut found = Vec::new();
    for followed in &view.effects.scripts {
        let (script, phase) = (followed.view, followed.view.phase);
        if phase == PhaseKind::Setup {
            continue;
        }
        let content = &*script.content;
        let mut push = |text: &str, span: Span, field: Option<&str>| {
            if is_name(text) {
                found.push(Suspect { text: text.to_owned(), span, phase, field: field.map(str::to_owned) });
            }
        };
        if phase == PhaseKind::Verify || content.text.contains("select(") {
            in_text(&content.text, &mut |text, range, field| push(text, content.span(range), field));
        }
        for test in followed.trace.tests.iter().filter(|_| phase == PhaseKind::Verify) {
            for word in test.words.iter().map(crate::effects::value::Value::shown) {
                let span = || test.content.span(test.statement.range.clone());
                folders(&word).into_iter().for_each(|name| push(name, span(), None));
            }
        }
        for run in &followed.trace.runs {
            let words: Vec<&str> = run.words.iter().map(|word| word.literal().unwrap_or_default()).collect();
            let span = || run.content.span(run.statement.range.clone());
            let tool = run.statement.tool();
            if tool == "git" {
                revisions(&words).for_each(|name| push(name, span(), None));
            }
            if OPTIONED.contains(&tool) {
                options(&words).for_each(|name| push(name, span(), None));
            }
            if phase == PhaseKind::Cleanup && OPTIONED.contains(&tool) {
                deleted(&words).into_iter().for_each(|name| push(name, span(), None));
            }
            for word in run.words.iter().skip(1).filter(|_| phase == PhaseKind::Verify && tool != "kubectl") {
                let text = word.shown();
                folders(&text).into_iter().for_each(|name| push(name, span(), None));
            }
        }
    }
    if found.is_empty() || view.task.verify.steps.iter().any(|step| step.expect.is_some()) {
        in_steps(view, &mut found);
    }
    for fact in facts::asked(view) {
        let is_key = matches!(fact.parent.as_deref(), Some("labels" | "annotations" | "matchLabels" | "data"));
        if is_key && is_name(&fact.key) {
            found.push(Suspect { text: fact.key.clone(), span: fact.span, phase: PhaseKind::Verify, field: None });
        }
    }
    found
}

/// The folders in the paths of `file` steps.
fn in_steps(view: &TaskView<'_>, found: &mut Vec<Suspect>) {
    view.task.verify.steps.iter().for_each(|step| {
        step.walk(&mut |step| {
            if matches!(step.op.kind, OperationKind::Builtin("file"))
                && let Some(arg) = step.arg("path")
                && let ArgKind::Text(template) = &arg.kind
            {
                let path = texts::written(template);
                for name in path.split('/').rev().skip(1).filter(|name| is_name(name)) {
                    found.push(Suspect {
                        text: name.to_owned(),
                        span: template.span,
                        phase: PhaseKind::Verify,
                        field: None,
                    });
                }
            }
        });
    });
}

/// Whether a text may be a name.
fn is_name(text: &str) -> bool {
    text.len() >= SHORTEST
        && text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'))
}

/// Literals of SQL and of comparisons in a script: the text, its range, and the column.
fn in_text(text: &str, visit: &mut dyn FnMut(&str, std::ops::Range<usize>, Option<&str>)) {
    let has_sql = ["psql", "sqlite3", "mysql", "SELECT", "select "].iter().any(|word| text.contains(word));
    if has_sql {
        for found in SQL.captures_iter(text) {
            if let Some(name) = found.get(2) {
                let field = found.get(1).map(|field| field.as_str());
                visit(name.as_str(), name.range(), field.filter(|field| !field.is_empty()));
            }
        }
        for found in ARGUMENT.captures_iter(text).filter_map(|found| found.get(1)) {
            visit(found.as_str(), found.range(), None);
        }
    }
    for found in PICKED.captures_iter(text).filter_map(|found| found.get(1)) {
        // Not a word: `CheckoutErrors`, `eval-web`.
        let name = found.as_str();
        if name.contains(['-', '_']) || name.bytes().skip(1).any(|b| b.is_ascii_uppercase()) {
            visit(name, found.range(), None);
        }
    }
    if text.contains("name") {
        for found in NAMED.captures_iter(text).filter_map(|found| found.get(1)) {
            visit(found.as_str(), found.range(), None);
        }
    }
}

/// `column = 'name'`.
static SQL: Ascii = ascii(r"\b([a-z_]+)\s*=\s*'([A-Za-z][\w-]+)'");
/// An argument of a function about privileges or about objects: `has_table_privilege('role', 'table', …`.
static ARGUMENT: Ascii =
    ascii(r"\b(?:has_\w+_privilege|to_regclass|to_regrole|pg_has_role|obj_description)\('([A-Za-z][\w-]+)'");
/// `.name == "web"`, `@.name=="web"` in filters.
static NAMED: Ascii = ascii(r#"\bname\s*==\s*\\?["']([A-Za-z][\w-]+)\\?["']"#);
/// `select(.alert == "CheckoutErrors")`.
static PICKED: Ascii = ascii(r#"\bselect\(\s*\.\w+\s*==\s*\\?["']([A-Za-z][\w-]+)\\?["']\s*\)"#);
/// A word to which a field is set.
static VALUE: Ascii = ascii(r#"\b(?:to|as|is|be)\s+[`"']?([A-Za-z][\w-]+)"#);
/// Names of files.
static FILE: Ascii = ascii(r"[\w./-]*\w\.(?:py|ya?ml|json|sql|sh|js|ts|go|toml|txt|tf|conf|md|csv)\b");

/// Programs whose options name things.
const OPTIONED: [&str; 12] =
    ["gh", "docker", "podman", "aws", "gcloud", "az", "psql", "createdb", "dropdb", "dropuser", "mysql", "glab"];

/// The values of options that name things.
fn options<'w>(words: &'w [&'w str]) -> impl Iterator<Item = &'w str> {
    words.iter().enumerate().skip(1).filter_map(|(at, word)| {
        let option = word.strip_prefix("--")?;
        let (name, value) = match option.split_once('=') {
            Some((name, value)) => (name, value),
            None => (option, *words.get(at + 1)?),
        };
        let names = name.ends_with("name")
            || matches!(
                name,
                "label" | "branch" | "base" | "head" | "bucket" | "topic" | "queue" | "database" | "milestone"
            );
        (names && !name.contains("hostname") && name != "username-file").then_some(value)
    })
}

/// The revisions that a git command names.
fn revisions<'w>(words: &'w [&'w str]) -> impl Iterator<Item = &'w str> {
    let asks = words.iter().position(|word| {
        matches!(
            *word,
            "show" | "log" | "rev-list" | "rev-parse" | "ls-tree" | "cat-file" | "diff" | "merge-base" | "branch"
        )
    });
    let operands = words.iter().skip(asks.map_or(words.len(), |asks| asks + 1)).filter(|word| !word.starts_with('-'));
    let revisions =
        operands.flat_map(|word| word.split("..")).filter_map(|word| word.split([':', '~', '^', '@']).next());
    // The last part of `fix/rate`.
    revisions.filter_map(|revision| revision.rsplit('/').next())
}

/// What a command deletes: the operand after the word for it.
fn deleted<'w>(words: &'w [&'w str]) -> Option<&'w str> {
    let at = words.iter().position(|word| matches!(*word, "delete" | "rm" | "remove"))?;
    words.get(at + 1).copied().filter(|word| !word.starts_with('-'))
}

/// The last folder in a path in a command.
fn folders(text: &str) -> Option<&str> {
    let is_path = (text.starts_with('/') || text.starts_with('{')) && !text.contains([' ', '\n', '\'', ':']);
    is_path.then(|| text.rsplit('/').nth(1)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_another_ending_or_letter_are_near() {
        for (a, b) in [("rates", "rate"), ("triage", "triaged"), ("s03_reports", "s03_report"), ("teir", "tier")] {
            assert!(is_near(a, b) && is_near(b, a), "{a} {b}");
        }
        for (a, b) in [("web-1", "web-2"), ("WARN", "warn"), ("order", "ordering"), ("abc", "abcs"), ("text", "test")] {
            assert!(!is_near(a, b) && !is_near(b, a), "{a} {b}");
        }
    }
}
