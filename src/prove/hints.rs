//! What scripts expect: the answers and files that their tests look for, and the requests that they make.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use serde_json::{Value, json};

use super::{
    OUTSIDE, REAL, invert, kubectl,
    places::places,
    shim::{TASK, in_task},
    side::traced,
    world::{Call, Half, Web, fits},
};
use crate::{
    bash::{
        self,
        ast::{self, Kind, Stmt},
    },
    hir::{Arg, ArgKind, Def, OperationKind, Part, Substitute, Template},
    package::bundled,
    plan::{ActionKind, Plan, StepAction},
};

/// What the steps of a plan expect. It serves to create worlds in which something passes; a proof never relies on it.
#[derive(Clone)]
pub struct Hints {
    /// Expected answers, by command.
    pub answers: Answers,
    /// Expected responses, by URL.
    pub web: BTreeMap<String, Web>,
    /// Commands that should fail, by the keys of worlds.
    pub denied: BTreeSet<String>,
    /// Commands whose output is compared or passed on.
    pub captured: BTreeSet<String>,
    /// What commands must not print, by command.
    pub refused: BTreeMap<String, Vec<String>>,
    /// Commands that a wait repeats.
    pub waited: BTreeSet<String>,
    /// All commands that are called.
    pub asked: BTreeSet<String>,
    /// Which action calls which command.
    pub callers: Vec<(String, String)>,
    /// What files that the agent creates should contain.
    pub texts: Vec<String>,
}

/// Expected answers, by command, before and after the agent's work.
#[derive(Clone, Default)]
pub struct Answers(BTreeMap<(String, Half), Vec<String>>);

impl Answers {
    /// Adds texts that are not known yet.
    pub fn add(&mut self, key: String, half: Half, texts: Vec<String>) {
        let known = self.0.entry((key, half)).or_default();
        for text in texts {
            if !known.contains(&text) {
                known.push(text);
            }
        }
    }

    /// Answers by the keys of worlds: with the half, if the same command has expected answers in both.
    pub fn by_key(&self) -> BTreeMap<String, Vec<String>> {
        let key = |(key, half): &(String, Half)| {
            let other = if *half == Half::Before { Half::After } else { Half::Before };
            if self.0.contains_key(&(key.clone(), other)) { half.key(key) } else { key.clone() }
        };
        self.0.iter().map(|(place, texts)| (key(place), texts.clone())).collect()
    }
}

/// Reads the hints from a plan.
pub fn hints(plan: &Plan, words: &[String], operations: bool) -> Hints {
    let mut web: BTreeMap<String, Web> = BTreeMap::new();
    let mut denied: BTreeSet<(String, Half)> = BTreeSet::new();
    let mut callers: Vec<(String, String)> = Vec::new();
    let mut refused: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let env: BTreeMap<String, String> =
        plan.env.iter().map(|(name, value)| (name.clone(), filled(value, &BTreeMap::new()))).collect();
    // Commands with their expected outputs; `ids` finds those whose output is read, and `files` the files that contain it.
    let mut commands: Vec<(Vec<String>, Vec<String>)> = Vec::new();
    // When each of these commands is called.
    let mut halves: Vec<Half> = Vec::new();
    let mut compared: BTreeSet<usize> = BTreeSet::new();
    let mut read_ids: BTreeSet<String> = BTreeSet::new();
    let mut waits: Vec<String> = Vec::new();
    let mut waiting: BTreeSet<usize> = BTreeSet::new();
    // Commands with an expected exit code, which may be another one than 0.
    let mut free = BTreeSet::new();
    // In a pipeline, each command reads the output of the previous one.
    let mut piped: BTreeMap<usize, usize> = BTreeMap::new();
    let mut ids: BTreeMap<String, usize> = BTreeMap::new();
    let mut files: BTreeMap<String, String> = BTreeMap::new();
    plan.walk(&mut |_, _, action| {
        let ActionKind::Step(StepAction { op, args, expect, .. }) = &action.kind else { return };
        let half = Half::of_phase(&action.id);
        if op.name == "eventually" {
            waits.push(format!("{}/", action.id));
        }
        if waits.iter().any(|wait| action.id.starts_with(wait)) {
            waiting.insert(commands.len());
        }
        for arg in args.iter().map(|(_, arg)| arg).chain(expect) {
            arg.templates(&mut |template| {
                let holes = template.parts.iter().filter_map(|part| match part {
                    Part::Hole(hole) => output_of(&hole.text),
                    Part::Text(_) => None,
                });
                read_ids.extend(holes.map(str::to_owned));
            });
        }
        if let OperationKind::Extension { operation, .. } = &op.kind {
            let given = args.iter().map(|(name, arg)| (name.value.clone(), json(arg, &env))).collect();
            let given = Value::Object(given);
            let Some(argv) = kubectl::said(operation, &given).map(|call| kubectl::normal(call).argv) else { return };
            if operation == "resource-absent"
                || given.get("allowed").is_some_and(|allowed| *allowed == false)
                || expect.as_ref().is_some_and(wants_failure)
            {
                denied.insert((argv.join("\u{1f}"), half));
            }
            let printed = expect.as_ref().and_then(|e| e.get("text").or_else(|| e.get("stdout")));
            let wanted = printed.map_or_else(Vec::new, |e| answers(e, words, &env));
            if printed.is_some() {
                compared.insert(commands.len());
            }
            refused
                .entry(traced(&argv))
                .or_default()
                .extend(printed.map_or_else(Vec::new, |e| denials(e, words, &env)));
            ids.insert(action.id.rsplit('/').next().unwrap_or_default().to_owned(), commands.len());
            callers.push((action.id.clone(), traced(&argv)));
            commands.push((argv, wanted));
            halves.push(half);
            return;
        }
        let text = |name: &str| match args.iter().find(|(n, _)| n.value == name).map(|(_, a)| &a.kind) {
            Some(ArgKind::Text(t)) => Some(filled(t, &env)),
            _ => None,
        };
        if let (Some(path), Some(content)) = (text("path"), text("content"))
            && let Some(id) = output_of(content.trim())
        {
            files.insert(path, id.to_owned());
        }
        if let (Some(url), Some(expect)) = (text("url"), expect.as_ref()) {
            let web = web.entry(url).or_default();
            let number = |arg: &Arg<Def>| arg.as_value().and_then(|v| v.as_u64()).and_then(|n| u16::try_from(n).ok());
            match expect.get("status").map(|s| (&s.kind, s)) {
                Some((ArgKind::List(codes), _)) => web.statuses.extend(codes.iter().filter_map(number)),
                Some((_, code)) => web.statuses.extend(number(code)),
                None => {}
            }
            web.bodies.extend(expect.get("body").map_or_else(Vec::new, |body| answers(body, words, &env)));
        }
        let Some(run) = text("run") else { return };
        let own = match args.iter().find(|(n, _)| n.value == "env").map(|(_, a)| &a.kind) {
            Some(ArgKind::Record(fields)) => fields.as_slice(),
            _ => &[],
        };
        let variable = |name: &str| match own.iter().find(|(n, _)| n.value == name).map(|(_, a)| &a.kind) {
            Some(ArgKind::Text(t)) => Some(filled(t, &env)),
            _ => env.get(name).cloned(),
        };
        // `test "$USER" = admin`, where `USER` is `{steps.user.outputs.stdout}`
        for (operator, other) in [(" = ", None), (" != ", Some("anything-else-than-that"))] {
            let sides = run.strip_prefix("test ").and_then(|r| r.split_once(operator));
            if let Some((output, word)) = sides
                && let Some(output) = filled_in(&bash::ast::Word::read(output, 0), &variable)
                && let Some(index) = output_of(&output).and_then(|id| ids.get(id))
            {
                let word =
                    filled_in(&bash::ast::Word::read(word.trim(), 0), &variable).unwrap_or_else(|| word.to_owned());
                commands[*index].1.push(other.map_or(word, str::to_owned));
            }
        }
        let mut line = split(&run, &variable).unwrap_or_default();
        let cwd = Path::new(TASK).join(text("workdir").unwrap_or_default());
        let normalized = |mut argv: Vec<String>| {
            for word in argv.iter_mut().skip(1) {
                *word = in_task(word, &cwd).unwrap_or_else(|| word.clone());
            }
            match operations {
                true => kubectl::normal(Call { argv, stdin: None }).argv,
                false => argv,
            }
        };
        let Some(argv) = line.pop() else { return };
        for argv in line.into_iter().map(normalized) {
            if !piped.contains_key(&commands.len()) {
                compared.insert(commands.len());
            }
            callers.push((action.id.clone(), traced(&argv)));
            commands.push((argv, Vec::new()));
            halves.push(half);
            piped.insert(commands.len(), commands.len() - 1);
        }
        let argv = normalized(argv);
        let expect = expect.as_ref();
        if expect.is_some_and(wants_failure) {
            denied.insert((argv.join("\u{1f}"), half));
        }
        if expect.is_some_and(|e| e.get("exitCode").is_some()) {
            free.insert(commands.len());
        }
        let mut wanted = expect.and_then(|e| e.get("stdout")).map_or_else(Vec::new, |e| answers(e, words, &env));
        // `stdout: "{steps.user.outputs.stdout}"`: some text, the same for both commands.
        for text in &mut wanted {
            if let Some(source) = output_of(text).and_then(|id| ids.get(id)) {
                "same".clone_into(text);
                commands[*source].1.push(text.clone());
            }
        }
        if let Some(printed) = expect.and_then(|e| e.get("stdout")) {
            compared.insert(commands.len());
            refused.entry(traced(&argv)).or_default().extend(denials(printed, words, &env));
        }
        ids.insert(action.id.rsplit('/').next().unwrap_or_default().to_owned(), commands.len());
        callers.push((action.id.clone(), traced(&argv)));
        commands.push((argv, wanted));
        halves.push(half);
    });
    // In reverse order: the command before a filter must have printed something from which the filter can print what is expected.
    let mut read: BTreeMap<usize, Vec<Vec<String>>> = BTreeMap::new();
    // What filters must not find, by the command whose output they read.
    let mut unwanted: BTreeMap<usize, Vec<Vec<String>>> = BTreeMap::new();
    for index in (0..commands.len()).rev() {
        // One of them finds something, and all that the others want is there.
        for found in unwanted.remove(&index).unwrap_or_default() {
            let inputs: Vec<Vec<String>> = read.get(&index).into_iter().flatten().cloned().chain([found]).collect();
            let texts = invert::combined(&inputs, &[]).into_iter().filter(|text| text.starts_with(['{', '[']));
            refused.entry(traced(&commands[index].0)).or_default().extend(texts.take(2));
        }
        if let Some(inputs) = read.remove(&index) {
            commands[index].1 = invert::combined(&inputs, &commands[index].1);
        }
        let (argv, wanted) = &commands[index];
        let source = argv.last().and_then(|path| files.get(path)).and_then(|id| ids.get(id)).or(piped.get(&index));
        let source = source.copied();
        let open = wanted.is_empty() && free.contains(&index);
        let is_refused = open && argv[0] == "jq" && denied.iter().any(|(key, _)| *key == argv.join("\u{1f}"));
        if let Some(source) = source.filter(|s| *s < index && is_refused) {
            unwanted.entry(source).or_default().push(invert::inputs(argv, wanted));
        }
        if let Some(source) = source.filter(|s| *s < index && !open) {
            read.entry(source).or_default().push(invert::inputs(argv, wanted));
        }
    }
    compared.extend(read_ids.iter().filter_map(|id| ids.get(id)));
    let of = |index: &usize| commands.get(*index).map(|(argv, _)| traced(argv));
    let waited = waiting.iter().filter_map(of).collect();
    let captured = compared.iter().map(|index| traced(&commands[*index].0)).collect();
    let asked = commands.iter().map(|(argv, _)| traced(argv)).collect();
    let mut made: BTreeMap<&String, Vec<Vec<String>>> = BTreeMap::new();
    for (argv, wanted) in &commands {
        if let [name, .., path] = argv.as_slice()
            && matches!(name.as_str(), "jq" | "grep" | "cat")
            && !files.contains_key(path)
        {
            made.entry(path).or_default().push(invert::inputs(argv, wanted));
        }
    }
    let texts = made.values().flat_map(|inputs| invert::combined(inputs, &[])).collect();
    for (argv, wanted) in commands.iter().filter(|(argv, _)| argv.first().is_some_and(|name| name == "curl")) {
        let Some(url) = argv.iter().find(|a| a.contains("://")) else { continue };
        let codes: Vec<u16> = wanted.iter().filter_map(|w| w.parse().ok()).collect();
        let web = web.entry(url.clone()).or_default();
        match codes.is_empty() {
            true => web.bodies.extend(wanted.iter().cloned()),
            false => web.statuses.extend(codes),
        }
    }
    // A command that should fail in one half, and is called in the other half as well, fails only there.
    let called: BTreeSet<(String, Half)> =
        commands.iter().zip(&halves).map(|((argv, _), half)| (argv.join("\u{1f}"), *half)).collect();
    let is_both = |key: &String| {
        let is = |half| called.contains(&(key.clone(), half)) && !denied.contains(&(key.clone(), half));
        is(Half::Before) || is(Half::After)
    };
    let denied = denied.iter().map(|(key, half)| if is_both(key) { half.key(key) } else { key.clone() }).collect();
    let mut found = Answers::default();
    for ((argv, wanted), half) in commands.into_iter().zip(halves).filter(|((_, wanted), _)| !wanted.is_empty()) {
        found.add(argv.join("\u{1f}"), half, wanted);
    }
    Hints { answers: found, web, denied, captured, refused, waited, asked, callers, texts }
}

/// Whether a command is expected to fail.
fn wants_failure(expect: &Arg<Def>) -> bool {
    let status = expect.get("exitCode").and_then(Arg::as_value);
    status.is_some_and(|status| status == 1 || status.get("not").is_some_and(|other| *other == 0 || *other == "0"))
}

/// Files and directories that a script names: in its own directory, in `/tmp`, and those it reads in places where users keep files.
pub fn paths(text: &str, named: &mut BTreeSet<String>) {
    named.extend(places(text));
    const PLACES: [&str; 7] = ["/tmp/", "/root/", "/home/", "/opt/", "/srv/", "/mnt/", "/var/"];
    const LOOKS: [&str; 8] = ["-f", "-s", "-e", "-r", "cat", "grep", "jq", "head"];
    for line in text.lines().filter(|line| !line.contains(" exec ")) {
        let words: Vec<&str> = line.split(|c: char| c.is_whitespace() || "\"'`;|()[]<>=".contains(c)).collect();
        if words.iter().any(|word| LOOKS.contains(word)) || is_constant(line) {
            let is_file = |word: &&&str| {
                PLACES.iter().any(|place| word.starts_with(place) && word.len() > place.len())
                    && word.chars().all(|c| c.is_ascii_alphanumeric() || "-_./".contains(c))
                    && !word.ends_with('/')
            };
            named.extend(words.iter().filter(is_file).map(|word| (*word).to_owned()));
        }
    }
    const ENDINGS: [&str; 10] = ["txt", "json", "log", "pid", "csv", "yaml", "yml", "md", "out", "html"];
    for word in text.split(|c: char| c.is_whitespace() || "\"'`;|()<>,=:".contains(c)) {
        let (dir, name) = word.rsplit_once('/').unwrap_or(("", word));
        let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'));
        let known = name.rsplit_once('.').is_some_and(|(stem, end)| !stem.is_empty() && ENDINGS.contains(&end));
        if plain && known && matches!(dir, "" | "/tmp") {
            named.insert(word.to_owned());
        }
    }
}

/// Whether all sleeps for less than a second are in loops that nothing but their condition ends: no counter, and no deadline.
pub fn is_endless(scripts: &[String]) -> bool {
    fn is_short(stmt: &Stmt) -> Option<bool> {
        let Kind::Simple(simple) = &stmt.kind else { return None };
        let ("sleep", [_, time]) = (simple.words.first()?.source.as_str(), simple.words.as_slice()) else {
            return None;
        };
        Some(time.literal().and_then(|time| time.parse::<f64>().ok()).is_none_or(|time| time < 1.0))
    }
    // Counts the sleeps; `None` if a short one is elsewhere.
    fn sleeps(list: &[Stmt], endless: bool) -> Option<usize> {
        let mut found = 0;
        for stmt in list {
            found += match (&stmt.kind, is_short(stmt)) {
                (_, Some(short)) => (endless || !short).then_some(1)?,
                (Kind::While { condition, body, .. }, _) => {
                    let plain = |stmt: &Stmt| match &stmt.kind {
                        Kind::Simple(simple) => {
                            let name = simple.words.first().map_or("", |word| word.source.as_str());
                            matches!(
                                name,
                                "sleep" | "echo" | "curl" | "wget" | "nc" | "kubectl" | "docker" | "pg_isready"
                            )
                        }
                        _ => false,
                    };
                    let is_plain = condition.iter().chain(body).all(plain);
                    sleeps(condition, false)? + sleeps(body, is_plain)?
                }
                _ => stmt.lists().into_iter().map(|list| sleeps(list, false)).sum::<Option<usize>>()?,
            };
        }
        Some(found)
    }
    scripts.iter().all(|text| {
        let list = bash::parse(text).and_then(|script| ast::read(&script));
        // A sleep in a substitution or in a quoted script is not seen.
        list.and_then(|list| sleeps(&list, false)) == Some(text.matches("sleep").count())
    })
}

/// `NAME=…`
fn is_constant(line: &str) -> bool {
    line.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty() && name.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
    })
}

/// Words that a script compares with.
pub fn mined(text: &str, words: &mut BTreeSet<String>) {
    const SIGNS: [&str; 6] = ["[", "grep", "case", ";;", "==", "||"];
    // A later line may compare with a constant.
    for line in text
        .lines()
        .map(str::trim_start)
        .filter(|line| is_constant(line) || SIGNS.iter().any(|sign| line.contains(sign)))
    {
        let line = if is_constant(line) { line.split_once('=').unwrap_or_default().1 } else { line };
        for word in line.split([' ', '"', '\'', '*', ';', '|', ')', '(']) {
            let word = word.strip_prefix('^').unwrap_or(word);
            let fits = !word.is_empty()
                && word.len() < 40
                && !word.starts_with(['$', '-', '[', ']', '{', '#', '>', '&', '!', '='])
                && word.chars().all(|c| c.is_ascii_alphanumeric() || "-_./:,@".contains(c));
            let is_command = bash::is_own(word) || REAL.contains(&word) || OUTSIDE.contains(&word);
            // `true` and `false` are answers as well.
            if fits && (!is_command || matches!(word, "true" | "false")) {
                words.insert(word.to_owned());
            }
        }
    }
}

/// Whether a call matches a pattern. A `curl` is recorded as its request.
pub fn asks(pattern: &str, call: &Call) -> bool {
    let request = pattern.starts_with("curl\u{1f}") && call.argv[0] == "http";
    request
        && pattern
            .split('\u{1f}')
            .any(|word| word.contains("://") && call.argv.get(2).is_some_and(|url| fits(word, url)))
        || fits(pattern, &call.key())
}

/// The id in `{steps.ID.outputs.stdout}`, or in `{steps.ID.outputs.text}` for an operation.
pub fn output_of(text: &str) -> Option<&str> {
    let inner = text.strip_prefix("{steps.")?;
    inner.strip_suffix(".outputs.stdout}").or_else(|| inner.strip_suffix(".outputs.text}"))
}

/// Whether a plan has operations that correspond to kubectl commands.
pub fn has_operations(plan: &Plan) -> bool {
    let mut found = false;
    plan.walk(&mut |_, _, action| {
        let ActionKind::Step(StepAction { op, .. }) = &action.kind else { return };
        found |= matches!(&op.kind, OperationKind::Extension { package, .. } if bundled(package, Substitute::Auto).is_some());
    });
    found
}

/// An argument as JSON. Holes of known variables are filled, others stay as written.
fn json(arg: &Arg<Def>, env: &BTreeMap<String, String>) -> Value {
    match &arg.kind {
        ArgKind::Null => Value::Null,
        ArgKind::Bool(is) => json!(is),
        ArgKind::Int(number) => json!(number),
        ArgKind::Float(number) => json!(number),
        ArgKind::Text(text) => json!(filled(text, env)),
        ArgKind::List(items) => items.iter().map(|item| json(item, env)).collect(),
        ArgKind::Record(fields) => {
            Value::Object(fields.iter().map(|(name, arg)| (name.value.clone(), json(arg, env))).collect())
        }
    }
}

/// Texts that satisfy an expectation.
pub fn answers(expect: &Arg<Def>, words: &[String], env: &BTreeMap<String, String>) -> Vec<String> {
    let text = |arg: Option<&Arg<Def>>| match arg.map(|a| &a.kind) {
        Some(ArgKind::Text(t)) => Some(filled(t, env)),
        _ => None,
    };
    let mut wanted: Vec<String> = text(Some(expect)).or_else(|| text(expect.get("equals"))).into_iter().collect();
    if let Some(part) = text(expect.get("contains")) {
        wanted.extend([part.clone(), format!("some {part} more")]);
    }
    if let Some(pattern) = text(expect.get("matches")).and_then(|p| regex::Regex::new(&p).ok()) {
        let lines = (0..6).map(|n| (0..n).map(|i| format!("thing-{i}\n")).collect::<String>());
        let numbers = (0..30).map(|n| n.to_string());
        let literal = pattern.as_str().trim_start_matches("(?m)").trim_start_matches("(?s)").trim_start_matches("(?i)");
        let plain = literal.replace(['^', '$', '\\'], "").replace("(?:", "(").replace(".*", "-");
        let choices = plain.trim_matches(['(', ')']).split('|').map(str::to_owned).collect::<Vec<_>>();
        let candidates = words.iter().cloned().chain(numbers).chain(lines).chain([plain.clone()]).chain(choices);
        wanted.extend(candidates.filter(|c| pattern.is_match(c.trim_end_matches('\n'))).take(12));
    }
    let list = |key: &str| match expect.get(key).map(|list| &list.kind) {
        Some(ArgKind::List(items)) => items.as_slice(),
        _ => &[],
    };
    wanted.extend(list("oneOf").iter().filter_map(|one| text(Some(one))));
    if let Some(lines) = expect.get("lines") {
        let number = |arg: &Arg<Def>| arg.as_value().and_then(|value| value.as_u64());
        let count = number(lines).or_else(|| lines.get("atLeast").and_then(number));
        wanted.extend(count.map(|n| (0..n).map(|i| format!("thing-{i}\n")).collect()));
    }
    let (least, most) = range(expect);
    if least.is_some() || most.is_some() {
        let (least, most) = (least.unwrap_or(0), most.unwrap_or(u64::MAX));
        let given = words.iter().filter_map(|word| word.parse::<u64>().ok());
        let near = [least, least.saturating_add(1), most, most.saturating_sub(1), least.saturating_add(7)];
        let numbers: Vec<u64> = near.into_iter().chain(given).filter(|n| (least..=most).contains(n)).collect();
        wanted.extend(numbers.iter().filter(|n| **n < u64::MAX - 1).map(u64::to_string));
    }
    let refused = expect.get("not").map_or_else(Vec::new, |not| answers(not, words, env));
    if (expect.get("empty").is_some() || !refused.is_empty()) && wanted.is_empty() {
        // Also long enough for a script that checks the length.
        let others = ["something-quite-different".to_owned()].into_iter().chain(words.iter().cloned());
        wanted.extend(others.filter(|word| !refused.contains(word)).take(4));
    }
    wanted
}

pub fn filled(template: &Template<Def>, env: &BTreeMap<String, String>) -> String {
    let parts = template.parts.iter().map(|part| match part {
        Part::Text(text) => text.clone(),
        Part::Hole(hole) => {
            let text = hole.text.trim_matches(['{', '}']).trim_start_matches("env.");
            let name = text.split('|').next().unwrap_or_default();
            let first = hole.filters.first().filter(|_| hole.has_default());
            let default = || first?.args.first()?.value.as_str().map(str::to_owned);
            env.get(name.trim()).cloned().or_else(default).unwrap_or_else(|| hole.text.clone())
        }
    });
    parts.collect()
}

/// A word with its variables replaced by their values.
fn filled_in(word: &bash::ast::Word, variable: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    let part = |part: &bash::ast::Part| match part {
        bash::ast::Part::Text { text, .. } => Some(text.clone()),
        bash::ast::Part::Var { name, default: None, .. } => variable(name),
        _ => None,
    };
    word.parts.iter().map(part).collect()
}

/// Texts that an output must not be, and one that is a pattern.
fn denials(expect: &Arg<Def>, words: &[String], env: &BTreeMap<String, String>) -> Vec<String> {
    let mut denied: Vec<String> = expect.get("not").map_or_else(Vec::new, |not| answers(not, words, env));
    denied.truncate(3);
    let (least, most) = range(expect);
    let outside =
        least.and_then(|least| least.checked_sub(1)).into_iter().chain(most.and_then(|most| most.checked_add(1)));
    denied.extend(outside.map(|n| n.to_string()));
    // As a pattern, this matches what it is compared with: `[[ text == $V ]]`.
    denied.push("*".to_owned());
    denied
}

/// The least and the greatest whole number that an expectation allows.
fn range(expect: &Arg<Def>) -> (Option<u64>, Option<u64>) {
    let number = |key: &str| expect.get(key).and_then(Arg::as_value).and_then(|value| value.as_u64());
    let least = number("atLeast").or_else(|| number("above").map(|n| n.saturating_add(1)));
    let most = number("atMost").or_else(|| number("below").map(|n| n.saturating_sub(1)));
    (least, most)
}

/// The words of one simple command, or of each command of a pipeline, with their variables replaced. A filter reads the file `-`.
fn split(run: &str, variable: &dyn Fn(&str) -> Option<String>) -> Option<Vec<Vec<String>>> {
    let script = bash::parse(run)?;
    let list = bash::ast::read(&script)?;
    // After `set -o pipefail`, and before `|| echo 0`.
    let line = match list.as_slice() {
        [Stmt { kind: Kind::Simple(set), .. }, line] if set.words.first().is_some_and(|w| w.source == "set") => line,
        [line] => line,
        _ => return None,
    };
    let line = match &line.kind {
        Kind::Or(pair) => &pair[0],
        _ => line,
    };
    let words = |stmt: &Stmt| match &stmt.kind {
        Kind::Simple(simple) => simple.words.iter().map(|word| filled_in(word, variable)).collect(),
        _ => None,
    };
    match &line.kind {
        Kind::Pipeline(list) => {
            let mut line = list.iter().map(words).collect::<Option<Vec<Vec<String>>>>()?;
            let filters = line.iter_mut().skip(1).filter(|argv| !argv.iter().any(|word| word == "-"));
            filters.for_each(|argv| argv.push("-".to_owned()));
            Some(line)
        }
        _ => Some(vec![words(line)?]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loops_that_count_nothing_are_endless() {
        for (script, expected) in [
            ("until curl -fs x > /dev/null 2>&1; do sleep 0.2; done", true),
            ("python3 server.py &\nuntil curl x; do echo waiting; sleep 0.2; done\nsleep 3", true),
            ("sleep 3", true),
            // A counter, a deadline, a sleep outside of a loop, and those that are not seen.
            ("for i in $(seq 1 200); do curl x && break; sleep 0.1; done", false),
            ("until curl x; do n=$((n + 1)); sleep 0.2; done", false),
            ("while [ $SECONDS -lt 60 ]; do sleep 0.5; done", false),
            ("until curl x; do sleep $PAUSE; [ -f stop ] && exit 1; done", false),
            ("sleep 0.5", false),
            ("bash -c 'for i in 1 2; do sleep 0.5; done'", false),
        ] {
            assert_eq!(is_endless(&[script.to_owned()]), expected, "{script}");
        }
    }
}
