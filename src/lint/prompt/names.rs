//! The prompt and verify name different things: objects, namespaces, labels, addresses.

use std::collections::BTreeSet;

use crate::{
    ascii::{Ascii, ascii},
    diagnostic::{Diagnostics, nearest},
    effects::{Verb, asked::Demand, script::Content, value::Value},
    hir::{ArgKind, Def, OperationKind, PhaseKind, Step},
    lint::{
        TaskView,
        analysis::{
            expected::{expected, looked_for},
            facts::{self, Elsewhere},
            texts::{self, FILLERS, QUOTED},
        },
        prompt::disagrees::{disagrees, is_kin},
    },
    source::Span,
};

/// Each question is a function.
pub fn check(view: &TaskView<'_>, out: &mut Diagnostics) {
    let Some((said, prompt)) = facts::prompt(view) else { return };
    names(view, said, prompt, out);
    near(view, said, prompt, out);
    rearranged(view, said, prompt, out);
    other_digits(view, said, prompt, out);
    crossed(view, said, prompt, out);
    prefixes(view, said, prompt, out);
    phrases(view, said, prompt, out);
    addresses(view, said, prompt, out);
    nouns(view, said, prompt, out);
    cases(view, said, prompt, out);
    namespaces(view, said, prompt, out);
}

/// Verify looks for a name that appears nowhere else, and the prompt has one that appears nowhere else and shares most
/// of its parts.
fn names(view: &TaskView<'_>, said: &str, prompt: Span, out: &mut Diagnostics) {
    let Elsewhere { verify: verified, rest: others } = facts::elsewhere(view);
    // A message may have the name that the check misses.
    let verified = MESSAGE.replace_all(verified, |_| " ".to_owned());
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let is_checked = |name: &str| {
        verified
            .match_indices(name)
            .any(|(at, _)| !verified[..at].ends_with(is_part) && !verified[at + name.len()..].starts_with(is_part))
    };
    let free: Vec<&str> = NAME.find_iter(said).map(|m| m.as_str()).filter(|name| !is_checked(name)).collect();
    // What setup mentions is not only in the prompt.
    let is_free = |name: &&str| !is_checked(name) && !others.contains(name);
    let dotted: Vec<&str> = DOTTED.find_iter(said).map(|m| m.as_str()).filter(is_free).collect();
    if free.is_empty() && dotted.is_empty() || !view.effects.sees(PhaseKind::Setup) {
        return;
    }
    let mut told = BTreeSet::new();
    for (span, text) in looked_for(view) {
        for name in NAME.find_iter(&text).map(|m| m.as_str()) {
            let is_combined = |(at, sign): (usize, &str)| {
                [&name[..at], &name[at + sign.len()..]].iter().all(|part| said.contains(part) || others.contains(part))
            };
            // The pods and claims of a StatefulSet are numbered.
            let ordinal = name.rsplit_once('-').filter(|(_, end)| end.bytes().all(|b| b.is_ascii_digit()));
            let is_numbered = ordinal.is_some_and(|(stem, _)| stem.split('-').all(|part| texts::has_word(said, part)));
            // A chart names its objects after the release and itself.
            if is_numbered
                || said.contains(name)
                || others.contains(name)
                || others.contains("helm") && name.match_indices(['-', '_']).any(is_combined)
                || !told.insert(name.to_owned())
            {
                continue;
            }
            let near: Vec<&str> = free.iter().copied().filter(|other| is_kin(name, other)).collect();
            if let [near] = near.as_slice() {
                out.push(disagrees(span, name, near, prompt));
            }
        }
        // `u1.small`, if the prompt says `u1.medium`.
        for name in DOTTED.find_iter(&text).map(|m| m.as_str()) {
            let parts = |name: &str| name.split('.').map(str::to_owned).collect::<Vec<_>>();
            let is_near = |other: &&str| {
                let (a, b) = (parts(name), parts(other));
                a.len() == b.len() && a.iter().zip(&b).filter(|(a, b)| a != b).count() == 1
            };
            if said.contains(name) || others.contains(name) || !told.insert(name.to_owned()) {
                continue;
            }
            if let [near] = dotted.iter().copied().filter(is_near).collect::<Vec<_>>()[..] {
                out.push(disagrees(span, name, near, prompt));
            }
        }
    }
}

/// Verify compares with a word that appears nowhere else and is similar to a quoted word of the prompt.
fn near(view: &TaskView<'_>, said: &str, prompt: Span, out: &mut Diagnostics) {
    let quoted: Vec<&str> = QUOTED
        .captures_iter(said)
        .filter_map(|quoted| quoted.get(1).or_else(|| quoted.get(2)))
        .map(|m| m.as_str())
        .filter(|word| word.len() > 3 && !word.contains(char::is_whitespace))
        .collect();
    if quoted.is_empty() {
        return;
    }
    let mut asked: Vec<(Span, String)> = facts::asked(view).iter().map(|fact| (fact.span, fact.text())).collect();
    for question in view.asked() {
        if let Demand::Matches { pattern, options } = &question.demand
            && options.contains('x')
        {
            asked.push((question.span, pattern.clone()));
        }
    }
    // Options that select a database, user or branch.
    for script in view.effects.scripts.iter().filter(|script| script.view.phase == PhaseKind::Verify) {
        for run in &script.trace.runs {
            let words: Vec<&str> = run.words.iter().map(|word| word.literal().unwrap_or_default()).collect();
            let span = run.content.span(run.statement.range.clone());
            for pair in words.windows(2) {
                if matches!(pair[0], "-d" | "--dbname" | "-D" | "--database" | "-U" | "--username" | "-b" | "--branch")
                {
                    asked.push((span, pair[1].to_owned()));
                }
            }
            if words.first() == Some(&"git") {
                let revisions = words[1..].iter().flat_map(|word| word.split("..")).flat_map(|word| word.split(':'));
                asked.extend(revisions.filter(|word| !word.starts_with('-')).map(|word| (span, word.to_owned())));
            }
        }
    }
    let Elsewhere { verify, rest: others } = facts::elsewhere(view);
    // The value of a variable is another form of the quoted word: `warning` for `"warn"`.
    view.task.verify.steps.iter().for_each(|step| {
        step.walk(&mut |step| {
            let Some(ArgKind::Record(env)) = step.arg("env").map(|arg| &arg.kind) else { return };
            for (span, value) in env.iter().filter_map(|(_, arg)| Some((arg.span, arg.as_literal()?))) {
                let is_form = |word: &str| {
                    let (short, long) = if word.len() < value.len() { (word, value) } else { (value, word) };
                    short.len() > 3 && long.starts_with(short) && long.len() <= short.len() + 4
                };
                let is_free = |word: &str| !texts::has_word(verify, word) && !texts::has_word(others, word);
                let is_word = value.bytes().all(|b| b.is_ascii_alphanumeric()) && !texts::has_word(said, value);
                let near = quoted.iter().find(|word| **word != value && is_form(word) && is_free(word));
                if let Some(near) = near.filter(|_| is_word && !texts::has_word(others, value)) {
                    out.push(disagrees(span, value, near, prompt));
                }
            }
        });
    });
    let same = |a: &str, b: &str| {
        let letters = |text: &str| text.chars().filter(char::is_ascii_alphanumeric).collect::<String>();
        letters(a) == letters(b)
    };
    let mut told = BTreeSet::new();
    for (span, word) in asked {
        let plain =
            word.len() > 3 && word.chars().any(|c| c.is_ascii_alphabetic()) && !word.contains(char::is_whitespace);
        if !plain || said.contains(&word) || others.contains(&word) || !told.insert(word.clone()) {
            continue;
        }
        // A value and its opposite also share letters, so only one or two may differ.
        let other = quoted.iter().copied().find(|known| same(known, &word));
        if let Some(other) = other.or_else(|| {
            nearest(&word, quoted.iter().copied()).filter(|known| {
                !known.eq_ignore_ascii_case(&word)
                    && !known.contains(word.as_str())
                    && !word.contains(known)
                    && crate::lint::shell::misspelt::is_slip(&word, known)
            })
        }) {
            out.push(disagrees(span, &word, other, prompt));
        }
    }
}

/// `typo-fix`, which appears nowhere else, if the prompt says `fix-typo`; `= 'idx_orders'`, if it says
/// `idx_orders_total`.
fn rearranged(view: &TaskView<'_>, said: &str, prompt: Span, out: &mut Diagnostics) {
    let asked: BTreeSet<&str> = NAME.find_iter(said).map(|m| m.as_str()).collect();
    if asked.is_empty() {
        return;
    }
    let sorted = |name: &str| {
        let mut parts: Vec<String> = name.split(['-', '_']).map(str::to_owned).collect();
        parts.sort_unstable();
        parts
    };
    let others = &facts::elsewhere(view).rest;
    let mut told = BTreeSet::new();
    for content in view.scripts.iter().filter(|script| script.phase == PhaseKind::Verify).map(|s| &s.content) {
        for found in NAME.find_iter(&content.text) {
            let (name, before) = (found.as_str(), &content.text[..found.start()]);
            // Options, fields and variables are not names of resources.
            let is_own = before.ends_with(['-', '.', '$', '{']) || content.text[found.end()..].starts_with(['=', '(']);
            if is_own || asked.contains(name) || others.contains(name) || told.contains(name) {
                continue;
            }
            let compared = ["= '", "= \"", "=='", "==\""].iter().any(|sign| before.ends_with(sign))
                && !["!= ", "!== "].iter().any(|sign| before.trim_end_matches(['\'', '"']).ends_with(sign))
                && content.text[found.end()..].starts_with(['\'', '"']);
            let begins =
                |other: &str| compared && other.strip_prefix(name).is_some_and(|end| end.starts_with(['-', '_']));
            let is_same = |other: &&&str| begins(other) || sorted(other) == sorted(name);
            if let [other] = asked.iter().filter(is_same).collect::<Vec<_>>()[..] {
                told.insert(name);
                out.push(disagrees(content.span(found.range()), name, other, prompt));
            }
        }
    }
}

/// `--prefix archive/2024/`, which appears nowhere else, if the prompt says `archive/2023/` and verify does not use that.
fn other_digits(view: &TaskView<'_>, said: &str, prompt: Span, out: &mut Diagnostics) {
    let part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '-' | '_' | '.' | ':');
    let is_name = |word: &str| {
        word.len() > 4
            && word.bytes().any(|b| b.is_ascii_digit())
            && word.bytes().any(|b| matches!(b, b'/' | b'-'))
            && word.bytes().filter(u8::is_ascii_alphabetic).count() > 2
            && !word.contains("://")
    };
    let masked = |word: &str| word.replace(|c: char| c.is_ascii_digit(), "0");
    let texts = facts::elsewhere(view);
    if !said.bytes().any(|b| b.is_ascii_digit()) {
        return;
    }
    let words =
        said.split_whitespace().map(|word| word.trim_matches(|c: char| !(c.is_ascii_alphanumeric() || c == '/')));
    let mut asked: BTreeSet<&str> =
        words.filter(|word| is_name(word) && word.chars().all(part) && !texts.verify.contains(word)).collect();
    if asked.is_empty() {
        return;
    }
    // `"$log.gz"` in a loop is each of several names.
    for run in view.effects.scripts.iter().filter(|s| s.view.phase == PhaseKind::Verify).flat_map(|s| &s.trace.runs) {
        run.words.iter().skip(1).filter_map(Value::literal).for_each(|word| {
            asked.remove(word);
        });
    }
    let mut told = BTreeSet::new();
    for script in view.effects.scripts.iter().filter(|script| script.view.phase == PhaseKind::Verify) {
        for run in &script.trace.runs {
            for word in run.words.iter().skip(1).filter_map(Value::literal) {
                let word = word.rsplit('=').next().unwrap_or(word);
                let is_own = word.starts_with('-') || !is_name(word) || !word.chars().all(part);
                if is_own || said.contains(word) || texts.rest.contains(word) || !told.insert(word.to_owned()) {
                    continue;
                }
                let same: Vec<&&str> = asked.iter().filter(|asked| masked(asked) == masked(word)).collect();
                if let [other] = same.as_slice() {
                    out.push(disagrees(run.content.span(run.statement.range.clone()), word, other, prompt));
                }
            }
        }
    }
}

/// `close it with the resolution "fixed"`, but verify requires `status` fixed and `resolution` closed.
fn crossed(view: &TaskView<'_>, said: &str, prompt: Span, out: &mut Diagnostics) {
    let facts = facts::asked(view);
    if !(2..=64).contains(&facts.len()) {
        return;
    }
    let lower = said.to_ascii_lowercase();
    let named = |fact: &facts::Fact| {
        let words = crate::effects::words(&fact.key);
        (words.last().is_some_and(|word| word.len() > 3)).then(|| words.join(" "))
    };
    // `the resolution "fixed"`, `port 80`
    let told = |key: &str, longer: &str, value: &str| {
        let value = value.to_ascii_lowercase();
        lower.match_indices(&value).any(|(at, _)| {
            let ends = !lower[at + value.len()..].starts_with(|c: char| c.is_ascii_alphanumeric());
            let before = lower[..at].trim_end_matches(['"', '`', '\'']);
            let before = before.strip_suffix(' ').unwrap_or_default();
            let is_key =
                before.strip_suffix(key).is_some_and(|rest| !rest.ends_with(|c: char| c.is_ascii_alphanumeric()));
            ends && is_key && !before.ends_with(longer)
        })
    };
    for a in facts.iter().filter(|fact| fact.exact) {
        let (Some(key), value) = (named(a), a.text()) else { continue };
        let part = |c: char| c.is_ascii_alphanumeric();
        if value.len() < 2 || texts::words(said, part).filter(|(_, word)| *word == value).count() != 1 {
            continue;
        }
        let other = facts.iter().filter(|b| b.exact && b.key != a.key && b.parent == a.parent).find(|b| {
            let (other, its) = (b.text(), named(b));
            its.is_some_and(|its| {
                let longer = if key.len() > its.len() { key.as_str() } else { "\n" };
                its != key && other != value && told(&its, longer, &value) && !told(&its, longer, &other)
            })
        });
        let is_right = |fact: &facts::Fact| facts.iter().any(|other| other.key == fact.key && other.text() == value);
        if let Some(other) = other.filter(|other| !is_right(other)) {
            let what = format!("{} {value} and {} {}", a.key, other.key, other.text());
            out.push(disagrees(a.span, &what, &format!("{} {value}", other.key), prompt));
            return;
        }
    }
}

/// `the prefix "tmp/"`, but verify requires `.Prefix == "tmp"`.
fn prefixes(view: &TaskView<'_>, said: &str, prompt: Span, out: &mut Diagnostics) {
    for fact in facts::asked(view).iter().filter(|fact| fact.exact && fact.key.to_lowercase().ends_with("prefix")) {
        let value = fact.text();
        let mut places = said.match_indices(&value).filter(|(at, _)| !said[..*at].ends_with(char::is_alphanumeric));
        let is_folder = |(at, word): (usize, &str)| {
            let behind = said[at + word.len()..].strip_prefix('/');
            behind.is_some_and(|behind| !behind.starts_with(char::is_alphanumeric))
        };
        if value.len() > 1 && said.contains(&value) && places.all(is_folder) {
            out.push(disagrees(fact.span, &value, &format!("{value}/"), prompt));
            return;
        }
    }
}

/// `the message "hello from helm"`, but verify compares with `hello helm`.
fn phrases(view: &TaskView<'_>, said: &str, prompt: Span, out: &mut Diagnostics) {
    let words = |text: &str| -> BTreeSet<String> {
        let words = text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
        words.map(str::to_ascii_lowercase).collect()
    };
    let quoted: Vec<&str> = QUOTED
        .captures_iter(said)
        .filter_map(|quoted| Some(quoted.get(1)?.as_str()))
        .filter(|text| text.trim().contains(' ') && text.len() < 200 && !facts::known(view).verified.contains(*text))
        .collect();
    if quoted.is_empty() {
        return;
    }
    let flat = said.split_whitespace().collect::<Vec<_>>().join(" ");
    for (span, text) in looked_for(view) {
        let own = words(&text);
        let plain =
            text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b' ' | b'-' | b'.' | b',' | b'!' | b'?'));
        if own.len() < 2
            || !plain
            || !text.contains(' ')
            || flat.contains(text.trim())
            || facts::known(view).others.contains(&text)
        {
            continue;
        }
        let near = quoted.iter().filter(|known| {
            let other = words(known);
            let common = own.intersection(&other).count();
            // A part of the text may be enough for a search.
            common * 4 > own.len().max(other.len()) * 2 && !known.to_lowercase().contains(&text.to_lowercase())
        });
        if let [near] = near.collect::<Vec<_>>()[..]
            && !out.iter().any(|known| known.span == span)
        {
            out.push(disagrees(span, &text, near, prompt));
            return;
        }
    }
}

/// `support@shop.example`, but verify expects `support@shop.example.org`.
fn addresses(view: &TaskView<'_>, said: &str, prompt: Span, out: &mut Diagnostics) {
    let told: BTreeSet<&str> = ADDRESS.find_iter(said).map(|m| m.as_str()).collect();
    if told.is_empty() {
        return;
    }
    let is_checked = |address: &str| ADDRESS.find_iter(&facts::known(view).verified).any(|m| m.as_str() == address);
    for (span, text) in looked_for(view) {
        let Some((user, _)) =
            text.split_once('@').filter(|_| ADDRESS.find_iter(&text).next().is_some_and(|m| m.as_str() == text))
        else {
            continue;
        };
        let is_free = !told.contains(text.as_str()) && !facts::known(view).others.contains(&text);
        let near = told.iter().filter(|other| other.split_once('@').is_some_and(|(name, _)| name == user));
        if let [near] = near.collect::<Vec<_>>()[..]
            && is_free
            && !is_checked(near)
        {
            out.push(disagrees(span, &text, near, prompt));
            return;
        }
    }
}

/// An e-mail address.
static ADDRESS: Ascii = ascii(r"\b[\w+-]+(?:\.[\w+-]+)*@[\w-]+(?:\.[\w-]+)+");

/// `a column status`, but verify looks for `column_name = 'state'`; `the label stale`, but it lists those with
/// `--label outdated`.
fn nouns(view: &TaskView<'_>, said: &str, prompt: Span, out: &mut Diagnostics) {
    for script in view.scripts.iter().filter(|script| script.phase == PhaseKind::Verify) {
        let text = &script.content.text;
        let columns = CATALOG.captures_iter(text).filter_map(|found| Some((found.get(1)?.as_str(), found.get(2)?)));
        let options = OPTION.captures_iter(text).filter_map(|found| Some((found.get(1)?.as_str(), found.get(2)?)));
        for (key, value) in columns.chain(options) {
            let noun = NOUNS.iter().find(|(known, _)| *known == key).map_or(key, |(_, noun)| noun);
            let name = value.as_str();
            // Names that the database gives to indexes.
            let is_generated = ["_pkey", "_key", "_fkey", "_idx"].iter().any(|end| name.ends_with(end));
            if is_generated || texts::has_word(said, name) || texts::has_word(&facts::known(view).others, name) {
                continue;
            }
            let told: BTreeSet<&str> = said
                .match_indices(noun)
                .filter(|(at, _)| said[..*at].ends_with([' ', '\n']))
                .filter_map(|(at, noun)| Some(NAMED.captures(&said[at + noun.len()..])?.get(1)?.as_str()))
                .filter(|told| !FILLERS.contains(told))
                .collect();
            let new: Vec<&&str> =
                told.iter().filter(|told| !texts::has_word(&facts::known(view).others, told)).collect();
            let all: Vec<&&str> = told.iter().collect();
            if let ([told], _) | (_, [told]) = (new.as_slice(), all.as_slice()) {
                out.push(disagrees(script.content.span(value.range()), name, told, prompt));
                return;
            }
        }
    }
}

/// Columns of the catalogs of databases, and the words for what they name.
const NOUNS: [(&str, &str); 9] = [
    ("column_name", "column"),
    ("attname", "column"),
    ("table_name", "table"),
    ("tablename", "table"),
    ("indexname", "index"),
    ("index_name", "index"),
    ("rolname", "role"),
    ("usename", "user"),
    ("datname", "database"),
];

static CATALOG: Ascii = ascii(
    r"\b(column_name|attname|table_name|tablename|indexname|index_name|rolname|usename|datname)\s*=\s*'([A-Za-z][\w-]+)'",
);

/// Options of clients that select by a name.
static OPTION: Ascii = ascii(r#"\s--(label|branch|milestone|bucket|queue|topic)[= ]["']?([A-Za-z][\w.-]+)"#);

/// The name after the word for what it names.
static NAMED: Ascii = ascii(
    r#"^\s+(?:named\s+|called\s+)?[`"']?([A-Za-z][\w-]+)[`"']?(?:[.,;)]|\s*$|\s+(?:of|to|in|on|and|from|with|for|as|must|must not|should)\b)"#,
);

/// `that says "back soon"`, but verify looks for `Back soon`.
fn cases(view: &TaskView<'_>, said: &str, prompt: Span, out: &mut Diagnostics) {
    let quoted = || QUOTED.captures_iter(said).filter_map(|quoted| Some(quoted.get(1)?.as_str()));
    // `grep -qi`, `--ignore-case`, `${x,,}`, `ascii_downcase`.
    let either = |text: &str| {
        let mut options = text.split_whitespace().filter(|word| word.starts_with('-') && !word.starts_with("--"));
        options.any(|word| word.contains('i'))
            || ["tr ", ",,}", "^^}", "case", "lower", "upper"].iter().any(|word| text.contains(word))
    };
    // The prompt is about letter case.
    if ["capital", "case", "caps"].iter().any(|word| said.contains(word)) {
        return;
    }
    let others = &facts::elsewhere(view).rest;
    for (span, text) in expected(view).map(|(span, text)| (span, text.to_owned())).chain(in_statements(view)) {
        if out.iter().any(|known| known.span == span)
            || text.len() < 4
            || said.contains(&text)
            || others.contains(&text)
        {
            continue;
        }
        let lower = text.to_lowercase();
        // `Ingress` is not another spelling of a part of `db-ingress`.
        let is_joined = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_');
        let has = |known: &&str| {
            let known = known.to_lowercase();
            known
                .match_indices(&lower)
                .any(|(at, _)| !known[..at].ends_with(is_joined) && !known[at + lower.len()..].starts_with(is_joined))
        };
        let Some(known) = quoted().find(has) else { continue };
        let holds = |content: &&Content| {
            let whole = content.span(0..content.text.len());
            whole.file == span.file && whole.start <= span.start && span.end <= whole.end
        };
        let content = view.scripts.iter().map(|script| &*script.content).find(holds);
        if content.is_none_or(|content| !either(&content.text)) {
            out.push(disagrees(span, &text, known, prompt));
            return;
        }
    }
}

/// The texts with which SQL in the arguments of verify compares a column.
fn in_statements(view: &TaskView<'_>) -> Vec<(Span, String)> {
    let mut found = Vec::new();
    let mut add = |step: &Step<Def>| {
        for (_, arg) in &step.args {
            arg.templates(&mut |template| {
                let text = texts::written(template);
                let quoted = SQL_TEXT.captures_iter(&text).filter_map(|text| Some(text.get(1)?.as_str().to_owned()));
                found.extend(quoted.map(|text| (arg.span, text)));
            });
        }
    };
    view.task.verify.steps.iter().for_each(|step| {
        step.walk(&mut |step| {
            if matches!(step.op.kind, OperationKind::Tool { .. } | OperationKind::Extension { .. }) {
                add(step);
            }
        });
    });
    found
}

/// `WHERE status = 'open'`, if no function changes the letter case.
static SQL_TEXT: Ascii = ascii(r"\b(?:WHERE|AND|where|and)\s+[\w.]+\s*=\s*'([^'\n]+)'");

/// `create a pod web-server in the default namespace`, but verify looks for it in another.
fn namespaces(view: &TaskView<'_>, said: &str, prompt: Span, out: &mut Diagnostics) {
    if !said.contains("namespace") {
        return;
    }
    let plain =
        |word: &str| word.len() > 1 && word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
    let quotes = ['"', '\'', '`', '.', ','];
    let told: BTreeSet<&str> = said
        .match_indices("namespace")
        .filter(|(at, word)| !said[at + word.len()..].starts_with(char::is_alphanumeric))
        .filter_map(|(at, word)| {
            // `in the default namespace`, `the namespace default`.
            let before: Vec<&str> = said[..at].split(' ').rev().skip(1).take(3).collect();
            let name = before.first().map(|name| name.trim_matches(quotes)).filter(|_| said[..at].ends_with(' '));
            let leads = before[1.min(before.len())..].iter().any(|word| matches!(*word, "in" | "to" | "from" | "of"));
            let behind = said[at + word.len()..].strip_prefix(' ').and_then(|rest| rest.split([' ', '\n']).next());
            let is_name = |name: &&str| plain(name) && !COMMON.contains(name);
            name.filter(|_| leads)
                .filter(is_name)
                .or_else(|| behind.map(|name| name.trim_matches(quotes)).filter(is_name))
        })
        .collect();
    let [told] = told.into_iter().collect::<Vec<_>>()[..] else { return };
    let part = |c: char| c.is_ascii_alphanumeric() || c == '-';
    // `unknown-namespace` reports others.
    let in_setup = |space: &str| texts::words(&facts::elsewhere(view).rest, part).any(|(_, word)| word == space);
    for act in view.effects.in_phase(PhaseKind::Verify).filter(|act| act.thing.system == "kubernetes") {
        let literal = |value: &Option<Value>| value.as_ref().and_then(Value::literal).map(str::to_owned);
        let (Some(name), Some(space)) = (literal(&act.thing.name), literal(&act.thing.space)) else { continue };
        if matches!(act.verb, Verb::Reads | Verb::Awaits)
            && name.len() > 2
            && texts::has_word(said, &name)
            && !texts::words(said, part).any(|(_, word)| word == space)
            && (!said.contains(&space) || in_setup(&space))
            && space != told
        {
            out.push(disagrees(act.span, &space, told, prompt));
            return;
        }
    }
}

/// Words next to `namespace` that are not names.
const COMMON: [&str; 22] = [
    "the", "this", "that", "a", "an", "its", "same", "and", "in", "is", "with", "of", "new", "own", "my", "called",
    "named", "each", "every", "for", "to", "has",
];

/// Typical names of resources: several parts, separated by hyphens or underscores.
static NAME: Ascii = ascii(r"\b[a-z][a-z0-9]*(?:[-_][a-z0-9]+)+\b");

/// Names whose parts are separated by dots: hosts, types, files.
static DOTTED: Ascii = ascii(r"\b[a-z][a-z0-9-]*(?:\.[a-z0-9-]*[a-z][a-z0-9-]*)+\b");

/// A message of a script.
static MESSAGE: Ascii = ascii(r#"\b(?:echo|printf|fail|die)\s+(?:"[^"\n$]*"|'[^'\n]*')"#);
