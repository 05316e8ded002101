//! What verify checks for and setup has already made: values, lines, rows, resources.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::{
    ascii::{Ascii, ascii},
    bash::fields,
    effects::{Verb, asked::Demand, value::Value},
    hir::{ArgKind, OperationKind, PhaseKind},
    lint::{
        TaskView,
        analysis::{
            checked_resource::{self, Owned},
            facts::{self, alike},
            orders::{
                ADDS, CHANGES, CREATES, DELETES, KEEPS, MAKES, NEGATES, QUOTED, WRITES, is_asked, is_object,
                is_ordered, is_told, is_wanted, sentence,
            },
            quantity::Quantity,
            texts,
        },
    },
    source::Span,
};

/// `set the mode to live`, where setup gives the field this value and no other.
pub fn values(view: &TaskView<'_>, said: &str, found: &mut Vec<(Span, Span, String)>) {
    let asked = facts::asked(view);
    if asked.is_empty() {
        return;
    }
    let (given, urls) = (facts::given(view), urls(view));
    for question in asked {
        let value = question.text();
        // `suspend the cron job`: the name of a boolean field is the verb.
        // `{name: X, value: Y}` is handled by its name.
        if question.key == "value" && checked_resource::selected(view, question).is_some()
            || is_one_of_several(view, question.span)
            || facts::is_of_selector(view, question)
        {
            continue;
        }
        let is_verb = matches!(value.as_str(), "true" | "false")
            && ((value == "true" || !COPIES.is_match(said)) && is_told(said, &question.key)
                || fields::verbs(&value, &question.key).iter().any(|verb| is_ordered(said, verb)))
            || is_brought_about(said, &value)
            || is_consequence(said, &question.key)
            || is_purpose(said, &value);
        if value.is_empty() || !(is_verb || is_asked(said, &value) || is_wanted(said, question, &value)) {
            continue;
        }
        // `Turn the checkout flag to on` does not refer to the flag `search`.
        let of_another = || {
            let named = |key: &str, sentence: &str| key.len() > 3 && texts::has_word(sentence, key);
            let places = said.match_indices(value.as_str()).map(|(at, _)| &said[sentence(said, at)]);
            let places: Vec<&str> = places.filter(|sentence| texts::has_word(sentence, &value)).collect();
            let others = |sentence: &&str| {
                // `Assign it to lena` refers to the assignee.
                let stem = question.key.get(..5).unwrap_or(&question.key).to_lowercase();
                !sentence.to_lowercase().contains(&stem)
                    && asked.iter().any(|other| other.key != question.key && named(&other.key, sentence))
            };
            !places.is_empty() && places.iter().all(others)
        };
        let url = url_of(&urls, question.span);
        let beside = |fact: &facts::Fact| match (&fact.parent, &question.parent) {
            // A fact about one URL says nothing about another.
            _ if url.zip(url_of(&urls, fact.span)).is_some_and(|(a, b)| !is_one_url(a, b)) => false,
            _ if url.is_some_and(|url| is_of_other_step(view, url, fact.span)) => false,
            // The label of a node is no node selector of a pod.
            (a, Some(b)) if b == "nodeSelector" => a.as_ref() == Some(b),
            // `Name` by itself is ambiguous.
            (Some(a), Some(b)) if question.key.eq_ignore_ascii_case("name") => a == b,
            _ => true,
        };
        let owned = match checked_resource::owned(view, question) {
            Owned::Missing => continue,
            Owned::By(facts) => facts,
            Owned::Unknown => Vec::new(),
        };
        let own = !owned.is_empty();
        let all = if own { &*owned } else { given };
        let mut same = all.iter().filter(|fact| alike(&fact.key, &question.key) && (own || beside(fact))).peekable();
        let Some(first) = same.peek().map(|fact| fact.span) else { continue };
        let amount = Quantity::of_value(&value);
        let equal = |text: &str| {
            let memory = || amount.as_ref().filter(|amount| amount.amount > 1024.0).zip(Quantity::of_memory(text));
            text == value || memory().is_some_and(|(amount, memory)| memory.is(amount))
        };
        if same.all(|fact| equal(&fact.text())) && !of_another() {
            found.push((question.span, first, format!("`{}: {value}`", question.key)));
        }
    }
}

/// Whether a value is one of several that one element of a list must have: `any(.ports[]; .port == 80 and .name == "http")`; or that of a
/// probe, where setup has the same port for another purpose.
fn is_one_of_several(view: &TaskView<'_>, place: Span) -> bool {
    let source = view.sources.get(place.file);
    let text = source.text();
    let start = text[..place.start as usize].rfind('\n').map_or(0, |at| at + 1);
    let line = text[start..].lines().next().unwrap_or_default();
    let is_probe = || line.contains("Probe") && !facts::elsewhere(view).rest.contains("Probe");
    line.contains("any(") && line.contains(" and ") || is_probe()
}

/// Returns the steps that send requests in order, each with its URL if known.
fn urls(view: &TaskView<'_>) -> Vec<(Span, Option<String>)> {
    let acts = view.effects.acts.iter().filter(|act| act.thing.system == "http");
    let known: FxHashMap<Span, &Value> = acts.filter_map(|act| Some((act.step, act.thing.name.as_ref()?))).collect();
    let mut found = Vec::new();
    view.task.walk(&mut |_, step| {
        if let Some(url) = known.get(&step.key) {
            let whole = Span { start: step.key.start, ..step.span };
            found.push((whole, url.is_known().then(|| url.shown())));
        }
    });
    found.sort_by_key(|(step, _)| step.start);
    found
}

/// Returns the URL of the request that contains a span.
fn url_of(urls: &[(Span, Option<String>)], place: Span) -> Option<&str> {
    let at = urls.partition_point(|(step, _)| step.start <= place.start).checked_sub(1)?;
    let (step, url) = &urls[at];
    url.as_deref().filter(|_| step.file == place.file && place.end <= step.end)
}

/// Whether two URLs refer to the same resource: they are equal, or one is below the other.
fn is_one_url(a: &str, b: &str) -> bool {
    let [a, b] = [a, b].map(|url| url.trim_end_matches('/'));
    let lies_in = |inner: &str, outer: &str| inner.strip_prefix(outer).is_some_and(|rest| rest.starts_with('/'));
    a == b || lies_in(a, b) || lies_in(b, a)
}

/// Whether a URL contains the output of a step of setup, and `made` is in another step that has an ID as well.
fn is_of_other_step(view: &TaskView<'_>, url: &str, made: Span) -> bool {
    let Some(id) = url.split_once("{steps.").and_then(|(_, rest)| rest.split_once('.')).map(|(id, _)| id) else {
        return false;
    };
    let mut other = false;
    view.task.walk(&mut |phase, step| {
        let contains = step.span.file == made.file && step.key.start <= made.start && made.end <= step.span.end;
        if phase == PhaseKind::Setup && contains && matches!(step.op.kind, OperationKind::Builtin("http")) {
            other |= step.id.as_ref().is_some_and(|own| own.value != id);
        }
    });
    other
}

/// Whether a prompt asks for a state with the verb that brings it about: `close the issue` for `closed`.
fn is_brought_about(said: &str, value: &str) -> bool {
    texts::verbs_for(value).iter().any(|verb| is_ordered(said, verb))
}

/// Whether a state is what an order is for: `start it, so that it runs always`, where the value is `Always`.
fn is_purpose(said: &str, value: &str) -> bool {
    let is_word = value.len() > 3 && value.bytes().all(|b| b.is_ascii_alphabetic());
    is_word
        && said.match_indices("so that").any(|(at, found)| {
            let rest = said[at + found.len()..sentence(said, at).end].to_lowercase();
            let clause = rest.split([',', ';', ':']).next().unwrap_or_default();
            texts::has_word(clause, &value.to_lowercase()) && !KEEPS.is_match(clause) && !NEGATES.is_match(clause)
        })
}

/// Whether the prompt names a field as what must be right in the end: `…, so that the stock is right again`.
fn is_consequence(said: &str, key: &str) -> bool {
    if key.len() < 4 || !said.contains("so that") {
        return false;
    }
    said.match_indices("so that").any(|(at, found)| {
        let rest = &said[at + found.len()..sentence(said, at).end];
        let clause = rest.split([',', ';', ':']).next().unwrap_or_default();
        let words: Vec<&str> = clause.split_whitespace().map(|word| word.trim_matches('`')).take(3).collect();
        matches!(words.as_slice(), ["the" | "its" | "their", field, "is" | "are"] if *field == key)
            && !KEEPS.is_match(clause)
            && !NEGATES.is_match(clause)
    })
}

/// `append the line "2. Elections"`, where a file written by setup already contains it.
pub fn lines(view: &TaskView<'_>, said: &str, found: &mut Vec<(Span, Span, String)>) {
    let mut written: Vec<(Span, String)> = Vec::new();
    view.task.setup.steps.iter().for_each(|step| {
        step.walk(&mut |step| {
            if matches!(step.op.kind, OperationKind::Tool { .. } | OperationKind::Builtin("file")) {
                step.args
                    .iter()
                    .for_each(|(_, arg)| arg.templates(&mut |text| written.push((step.key, texts::written(text)))));
            }
        });
    });
    for script in view.effects.scripts.iter().filter(|script| script.view.phase == PhaseKind::Setup) {
        for run in script.trace.runs.iter().filter(|run| run.output.is_some()) {
            let span = run.content.span(run.statement.range.clone());
            match run.statement.name() {
                "echo" | "printf" => written.extend(run.words.iter().skip(1).map(|word| (span, word.shown()))),
                _ => written.extend(run.input.iter().map(|text| (span, text.shown()))),
            }
        }
    }
    if written.is_empty() {
        return;
    }
    cut(view, said, &written, found);
    let mut told = FxHashSet::default();
    for quoted in QUOTED.captures_iter(said) {
        let (Some(whole), Some(text)) = (quoted.get(0), quoted.get(1).or_else(|| quoted.get(2))) else { continue };
        let (text, sentence) = (text.as_str(), sentence(said, whole.start()));
        let head = &said[sentence.start..whole.start()];
        // A single word is usually a key, or refers to something else.
        let is_line = text.contains([' ', ':', '=', '#', '.']);
        let object = !AWAY.is_match(&head[ADDS.find_iter(head).last().map_or(0, |verb| verb.end())..]);
        if text.len() < 4
            || !is_line
            || !object
            || !ADDS.is_match(head)
            || KEEPS.is_match(&said[sentence.clone()])
            || told.contains(text)
            || head.contains(" from ")
        {
            continue;
        }
        told.insert(text);
        let Some((made, _)) = written.iter().find(|(_, known)| known.contains(text)) else { continue };
        // Another sentence may say `… is there already`.
        let stays = || said.match_indices(text).any(|(at, _)| KEEPS.is_match(&said[self::sentence(said, at)]));
        if let Some(span) = looks_for(view, text).filter(|_| !stays()) {
            found.push((span, *made, format!("`{text}`")));
        }
    }
}

/// `contains: "debug ="`, where setup writes `debug = true` and the prompt asks for `debug = false`: both contain it.
fn cut(view: &TaskView<'_>, said: &str, written: &[(Span, String)], found: &mut Vec<(Span, Span, String)>) {
    let mut asked: Vec<(Span, String)> = Vec::new();
    view.task.verify.steps.iter().for_each(|step| {
        step.walk(&mut |step| {
            let contains = step.expect.as_ref().and_then(|(_, expect)| expect.get("contains"));
            let of_file = matches!(step.op.kind, OperationKind::Builtin("file"));
            asked.extend(contains.filter(|_| of_file).and_then(|arg| Some((arg.span, arg.as_literal()?.to_owned()))));
        });
    });
    for question in view.asked() {
        if let (true, Demand::Matches { pattern, options }) = (question.runs.is_empty(), &question.demand)
            && !options.contains(['v', 'x', 'w', 'c'])
        {
            asked.push((question.span, pattern.trim_start_matches('^').to_owned()));
        }
    }
    for (span, text) in asked {
        let bare = text.trim_end();
        if bare.len() < 3 || !bare.ends_with(['=', ':']) {
            continue;
        }
        let behind = |whole: &str| -> Option<String> {
            let rest = whole[whole.find(bare)? + bare.len()..].trim_start_matches(' ');
            let value = rest
                .split(|c: char| c.is_whitespace() || matches!(c, ')' | ',' | '`' | '"'))
                .next()?
                .trim_end_matches('.');
            (!value.is_empty()).then(|| value.to_owned())
        };
        let Some(wanted) = behind(said) else { continue };
        if let Some((made, _)) = written.iter().find(|(_, known)| behind(known).is_some_and(|value| value != wanted)) {
            found.push((span, *made, format!("`{text}` (without its value)")));
        }
    }
}

/// Returns the location at which verify looks for a text.
pub fn looks_for(view: &TaskView<'_>, text: &str) -> Option<Span> {
    let mut found = None;
    let escaped = [text.to_owned(), regex::escape(text), text.replace('.', "\\.")];
    view.task.verify.steps.iter().for_each(|step| {
        step.walk(&mut |step| {
            let mut has = false;
            let mut look = |arg: &crate::hir::Arg<crate::hir::Def>| {
                arg.templates(&mut |t| has |= escaped.iter().any(|text| texts::written(t).contains(text)));
                has |= matches!(&arg.kind, ArgKind::Text(t) if escaped.iter().any(|text| texts::written(t).contains(text)));
            };
            step.expect.iter().for_each(|(_, expect)| look(expect));
            step.arg("run").or_else(|| step.arg("inline")).into_iter().for_each(look);
            if has {
                found.get_or_insert(step.key);
            }
        });
    });
    for script in view.scripts.iter().filter(|script| script.phase == PhaseKind::Verify) {
        let content = &script.content;
        if let Some(at) = escaped.iter().find_map(|text| content.text.find(text.as_str())) {
            found.get_or_insert(content.span(at..at + text.len()));
        }
    }
    found
}

/// `create a role binding web`, where setup creates it and verify checks it.
pub fn things(view: &TaskView<'_>, said: &str, found: &mut Vec<(Span, Span, String)>) {
    let model = view.effects;
    if !MAKES.is_match(said) {
        return;
    }
    for made in model.in_phase(PhaseKind::Setup).filter(|act| act.verb == Verb::Creates) {
        let Some(name) = made.thing.name.as_ref().filter(|name| name.is_known()).map(Value::shown) else {
            continue;
        };
        // `make the file readable` does not create a file.
        // `Add the label triaged to the issue` does not create one.
        let verbs = match made.thing.system.as_str() {
            "file" => &WRITES,
            "github" => &CREATES,
            _ => &MAKES,
        };
        let speaks = |before: &str| crate::lint::analysis::texts::speaks_of(view, before, &made.thing.kind);
        if name.len() < 3 || !is_object(said, &name, verbs, &speaks) {
            continue;
        }
        // `add an index on customers(email)`
        if made.thing.kind == "table" && !said.to_ascii_lowercase().contains("table") {
            continue;
        }
        let behind = model.acts.iter().skip_while(|act| !std::ptr::eq(*act, made)).skip(1);
        let gone = behind
            .filter(|act| act.phase == PhaseKind::Setup && act.verb == Verb::Deletes)
            .any(|act| act.thing.may_be(&made.thing));
        let looked = model.in_phase(PhaseKind::Verify).find(|act| act.thing.is(&made.thing)).map(|act| act.span);
        let by_name = matches!(made.thing.system.as_str(), "git" | "github") || made.thing.kind == "constraint";
        let looked = looked.or_else(|| looks_for(view, &name).filter(|_| by_name));
        if let Some(span) = looked.filter(|_| !gone) {
            found.push((span, made.span, format!("the {} `{name}`", made.thing.kind)));
        }
    }
}

/// `delete the customers that …`, where verify expects exactly the rows that setup inserted.
pub fn no_rows(view: &TaskView<'_>, said: &str, found: &mut Vec<(Span, Span, String)>) {
    if !DELETES.is_match(said) || INSERTS.is_match(said) {
        return;
    }
    let mut tables: Vec<(String, Span, Vec<Vec<String>>)> = Vec::new();
    for script in view.effects.scripts.iter().filter(|script| script.view.phase == PhaseKind::Setup) {
        for run in script.trace.runs.iter().filter(|run| matches!(run.statement.name(), "sqlite3" | "psql" | "mysql")) {
            let span = run.content.span(run.statement.range.clone());
            let texts = run.input.iter().chain(&run.words).map(Value::shown).filter(|text| text.len() > 20);
            for (table, rows) in texts.flat_map(|text| inserted(&text)) {
                match tables.iter_mut().find(|(known, ..)| *known == table) {
                    Some((_, _, known)) => known.extend(rows),
                    None => tables.push((table, span, rows)),
                }
            }
        }
    }
    tables.retain(|(table, ..)| {
        said.match_indices(table.as_str()).any(|(at, _)| {
            let sentence = &said[sentence(said, at)];
            DELETES.is_match(sentence) && !NEGATES.is_match(sentence)
        })
    });
    if tables.is_empty() {
        return;
    }
    // Text that is compared with a list as a whole.
    let mut asked: Vec<(Span, String)> = Vec::new();
    for script in view.scripts.iter().filter(|script| script.phase == PhaseKind::Verify) {
        let content = &script.content;
        content.program.walk(&mut |s| {
            if matches!(s.kind, crate::bash::program::Kind::Test) {
                let words = crate::bash::ast::split(&content.text[s.range.clone()], 0);
                for triple in words.windows(3).filter(|triple| matches!(triple[1].source.as_str(), "=" | "==" | "!=")) {
                    asked.extend(triple[2].literal().map(|text| (content.span(s.range.clone()), text)));
                }
            }
        });
    }
    view.task.verify.steps.iter().for_each(|step| {
        step.walk(&mut |step| {
            let stdout = step.expect.as_ref().and_then(|(_, expect)| expect.get("stdout"));
            let stdout = stdout.map(|out| out.get("equals").unwrap_or(out));
            asked.extend(stdout.and_then(|out| Some((out.span, out.as_literal()?.to_owned()))));
        });
    });
    for (table, made, rows) in &tables {
        let columns = rows.iter().map(Vec::len).min().unwrap_or(0);
        for (span, text) in &asked {
            let mut items: Vec<&str> =
                text.split([',', '\n', ' ', ';']).map(str::trim).filter(|item| !item.is_empty()).collect();
            items.sort_unstable();
            let is_column = |column: usize| {
                let mut values: Vec<&str> = rows.iter().filter_map(|row| row.get(column)).map(String::as_str).collect();
                values.sort_unstable();
                values == items
            };
            if !items.is_empty() && (0..columns).any(is_column) {
                found.push((*span, *made, format!("the table `{table}` with no rows except `{}`", items.join(", "))));
            }
        }
    }
}

/// `set the status to sold-out`, where verify checks whether a `status` exists, and setup has set one.
pub fn any_value(view: &TaskView<'_>, said: &str, found: &mut Vec<(Span, Span, String)>) {
    let url = |step: &crate::hir::Step<crate::hir::Def>| {
        let url = step.arg("url").filter(|_| matches!(step.op.kind, OperationKind::Builtin("http")))?;
        let text = texts::script_text(url)?;
        Some(text.split('?').next().unwrap_or_default().trim_end_matches('/').to_owned())
    };
    let mut given: Vec<(String, Span, String)> = Vec::new();
    view.task.setup.steps.iter().for_each(|step| {
        step.walk(&mut |step| {
            if let (Some(url), Some(body)) = (url(step), step.arg("body")) {
                let mut text = String::new();
                body.templates(&mut |template| text.push_str(&texts::written(template)));
                keys_of(body, &mut text);
                // `…/_bulk` is an action, and not part of the resource's name.
                let own = url.rsplit_once('/').filter(|(_, last)| last.starts_with('_'));
                given.push((own.map_or(url.clone(), |(own, _)| own.to_owned()), step.key, text));
            }
        });
    });
    if given.is_empty() {
        return;
    }
    view.task.verify.steps.iter().for_each(|step| {
        step.walk(&mut |step| {
            let Some((here, (_, expect))) = url(step).zip(step.expect.as_ref()) else { return };
            let mut asked = Vec::new();
            exists(expect, &mut asked);
            for (span, key) in asked {
                let has = |text: &str| text.contains(&format!("\"{key}\""));
                let made =
                    given.iter().find(|(url, _, text)| url.len() > 10 && here.starts_with(url.as_str()) && has(text));
                if let Some((_, made, _)) = made.filter(|_| key.len() > 2 && texts::has_word(said, &key)) {
                    found.push((span, *made, format!("a field `{key}`")));
                }
            }
        });
    });
}

/// Collects the names of fields in a body, in quotes.
fn keys_of(arg: &crate::hir::Arg<crate::hir::Def>, text: &mut String) {
    match &arg.kind {
        ArgKind::Record(fields) => fields.iter().for_each(|(key, arg)| {
            text.push_str(&format!(" \"{}\"", key.value));
            keys_of(arg, text);
        }),
        ArgKind::List(items) => items.iter().for_each(|arg| keys_of(arg, text)),
        _ => {}
    }
}

/// Finds `{path: $.a.status, exists: true}` without any other condition.
pub fn exists(arg: &crate::hir::Arg<crate::hir::Def>, found: &mut Vec<(Span, String)>) {
    match &arg.kind {
        ArgKind::Record(fields) => {
            let path = arg.get("path").and_then(|path| path.as_literal()).and_then(facts::last_name);
            let only = fields.len() == 2
                && arg.get("exists").and_then(crate::hir::Arg::as_value) == Some(serde_json::Value::Bool(true));
            found.extend(path.filter(|_| only).map(|key| (arg.span, key)));
            fields.iter().for_each(|(_, arg)| exists(arg, found));
        }
        ArgKind::List(items) => items.iter().for_each(|arg| exists(arg, found)),
        _ => {}
    }
}

/// Returns the rows that `INSERT INTO table VALUES (…), (…)` inserts.
fn inserted(text: &str) -> Vec<(String, Vec<Vec<String>>)> {
    let mut found = Vec::new();
    let lower = text.to_ascii_lowercase();
    for (at, head) in lower.match_indices("insert into ") {
        let rest = &text[at + head.len()..];
        let name =
            rest.split(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '.'))).next().unwrap_or_default();
        let end = rest.find(';').unwrap_or(rest.len());
        let Some(values) = rest[..end].to_ascii_lowercase().find("values") else { continue };
        let (mut rows, mut row, mut item) = (Vec::new(), Vec::new(), String::new());
        let (mut quoted, mut depth) = (false, 0_usize);
        for c in rest[values + "values".len()..end].chars() {
            match c {
                '\'' => quoted = !quoted,
                '(' if !quoted => depth += 1,
                ',' if !quoted && depth == 1 => row.push(std::mem::take(&mut item).trim().to_owned()),
                ')' if !quoted && depth == 1 => {
                    row.push(std::mem::take(&mut item).trim().to_owned());
                    rows.push(std::mem::take(&mut row));
                    depth = 0;
                }
                ')' if !quoted => depth = depth.saturating_sub(1),
                c if depth > 0 => item.push(c),
                _ => {}
            }
        }
        if !name.is_empty() && !rows.is_empty() {
            found.push((name.to_owned(), rows));
        }
    }
    found
}

/// `add a line to notes.md`, where verify only checks that the file exists, and setup has created it.
pub fn only_there(view: &TaskView<'_>, said: &str, found: &mut Vec<(Span, Span, String)>) {
    let model = view.effects;
    let mut asked: Vec<Span> = Vec::new();
    let mut texts = String::new();
    view.task.verify.steps.iter().for_each(|step| {
        step.walk(&mut |step| {
            let exists = match &step.op.kind {
                OperationKind::Builtin("file") => {
                    let expect = step.expect.as_ref().and_then(|(_, expect)| expect.as_value());
                    step.arg("content").is_none() && expect == Some(serde_json::json!({"exists": true}))
                }
                OperationKind::Extension { operation, .. } => operation.contains("exists") && step.expect.is_none(),
                _ => false,
            };
            if exists {
                asked.push(step.key);
            } else {
                step.templates(&mut |template| texts.push_str(&texts::written(template)));
            }
        });
    });
    if asked.is_empty() {
        return;
    }
    view.scripts.iter().filter(|s| s.phase == PhaseKind::Verify).for_each(|s| texts.push_str(&s.content.text));
    for act in model.in_phase(PhaseKind::Verify).filter(|act| asked.contains(&act.step)) {
        let Some(name) = act.thing.name.as_ref().filter(|name| name.is_known()).map(Value::shown) else { continue };
        let name = name.rsplit('/').next().unwrap_or_default();
        let Some(made) = model
            .in_phase(PhaseKind::Setup)
            .find(|made| made.verb == Verb::Creates && !made.maybe && made.thing.is(&act.thing))
        else {
            continue;
        };
        // If verify names the file elsewhere, it checks more than its existence.
        if name.len() < 3 || texts.contains(name) {
            continue;
        }
        let is_changed = said.match_indices(name).any(|(at, _)| {
            let whole = sentence(said, at);
            let head = &said[whole.start..at];
            (ADDS.is_match(head) || CHANGES.is_match(head))
                && !KEEPS.is_match(&said[whole.clone()])
                && !MAKES_NEW.is_match(head)
        });
        if is_changed {
            found.push((act.span, made.span, format!("`{name}`")));
        }
    }
}

/// `listen on 8443 instead of 8080`, where verify looks for the value from setup.
pub fn given_up(view: &TaskView<'_>, said: &str, found: &mut Vec<(Span, Span, String)>) {
    let old: Vec<&str> =
        OLD.captures_iter(said).filter_map(|old| old.get(1)).map(|m| m.as_str().trim_end_matches('.')).collect();
    let old: Vec<&str> = old
        .into_iter()
        .filter(|word| {
            word.len() > 1
                && said.matches(word).count()
                    == OLD.captures_iter(said).filter(|o| o[1].trim_end_matches('.') == *word).count()
        })
        .collect();
    if old.is_empty() {
        return;
    }
    let given = facts::given(view);
    let mut written: Vec<(Span, String)> = given.iter().map(|fact| (fact.span, fact.text())).collect();
    view.task.setup.steps.iter().for_each(|step| {
        step.walk(&mut |step| {
            if let Some(text) = step.arg("content").and_then(|content| content.as_literal()) {
                written.push((step.key, text.to_owned()));
            }
        });
    });
    let mut asked: Vec<(Span, String)> = facts::asked(view).iter().map(|fact| (fact.span, fact.text())).collect();
    view.task.verify.steps.iter().for_each(|step| {
        step.walk(&mut |step| {
            let Some((_, expect)) = &step.expect else { return };
            let texts = ["content", "stdout", "body"].iter().filter_map(|key| expect.get(key));
            for contains in texts.chain([expect]).filter_map(|arg| arg.get("contains")) {
                asked.extend(contains.as_literal().map(|text| (contains.span, text.to_owned())));
            }
        });
    });
    for (span, text) in asked {
        let made = written.iter().find(|(_, known)| known.contains(&text));
        if let Some((made, _)) = made.filter(|_| text.len() > 1 && old.iter().any(|word| texts::has_word(&text, word)))
        {
            found.push((span, *made, format!("`{text}`")));
        }
    }
}

/// Verify waits for the same value for which setup has waited.
pub fn waits(view: &TaskView<'_>, found: &mut Vec<(Span, Span, String)>) {
    let asked = |phase: PhaseKind| {
        let mut all: Vec<(Span, [Option<String>; 4])> = Vec::new();
        view.task.phase(phase).steps.iter().for_each(|step| {
            step.walk(&mut |step| {
                let text = |key: &str| {
                    step.arg(key).map(|arg| {
                        arg.as_value().map_or_else(|| texts::script_text(arg).unwrap_or_default(), |v| v.to_string())
                    })
                };
                let parts = ["resource", "namespace", "jsonpath", "value"].map(text);
                if matches!(step.op.kind, OperationKind::Extension { .. })
                    && parts[0].is_some()
                    && parts[2].is_some()
                    && parts[3].is_some()
                {
                    all.push((step.key, parts));
                }
            });
        });
        all
    };
    let verified = asked(PhaseKind::Verify);
    if verified.is_empty() {
        return;
    }
    let kind = |parts: &[Option<String>; 4]| {
        let resource = parts[0].clone().unwrap_or_default().replace('"', "");
        let (kind, name) =
            resource.split_once('/').map_or((resource.clone(), String::new()), |(a, b)| (a.to_owned(), b.to_owned()));
        let kind = view
            .tools
            .tool("kubectl")
            .and_then(|tool| tool.kind(&kind))
            .map_or(kind.clone(), |(kind, _)| kind.to_owned());
        let kind = match kind.as_str() {
            "vm" | "virtualmachines" => "virtualmachine".to_owned(),
            _ => kind,
        };
        (kind, name, parts[1].clone(), parts[2].clone(), parts[3].clone())
    };
    for (made, known) in asked(PhaseKind::Setup) {
        if let Some((span, parts)) = verified.iter().find(|(_, parts)| kind(parts) == kind(&known)) {
            // Verify may wait again until what the agent has changed is ready.
            let is_number = parts[3].as_ref().is_some_and(|value| value.parse::<u64>().is_ok());
            let waits_again = is_number && parts[2].as_ref().is_some_and(|path| path.contains(".status."));
            if waits_again && verified.len() > 1 {
                continue;
            }
            let value = parts[3].clone().unwrap_or_default().replace('"', "");
            found.push((*span, made, format!("`{value}`")));
        }
    }
}

static OLD: Ascii = ascii(
    r#"(?i)\b(?:instead of|rather than|in place of|no longer(?:\s+(?:on|in|at|to|with|for|by))?)\s+[`"']?([\w.:/-]+)"#,
);

/// The old value may be in a copy.
static COPIES: Ascii = ascii(r"(?i)\b(?:copy|copies|backup|back up|as it was)\b");

static AWAY: Ascii = ascii(r"(?i)\b(?:in|into|from|of|on|for|above|below|before|after|behind|under)\s");

static INSERTS: Ascii = ascii(r"(?i)\b(?:insert|add)\b");

static MAKES_NEW: Ascii = ascii(r"(?i)\b(?:create|copy|like|from|new)\b");
