//! Seeks a world in which the original passes. Bash records each command that it runs, with the values of its words. So it is known
//! what the last comparisons were made with: the answers and files that contained the value on one side get the other side instead.
//! These are guesses, which are tried; a change that helps is kept.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{
    curl,
    host::Stage,
    invert,
    shell::BASH_ENV,
    side::{Ran, ran},
    trace::{PHASE, RECORD},
    world::{Half, Time, Web, World},
};
use crate::plan::Plan;

/// How many worlds are tried at first, and how many if nothing else has helped.
pub const FEW: usize = 60;
pub const MANY: usize = 160;
/// How many of the last comparisons are considered.
const LAST: usize = 6;
/// The largest number for which an answer gets more lines.
const MOST: usize = 50;

/// A command as a shell ran it.
struct Command {
    line: String,
    words: Vec<String>,
}

/// The commands of a record, up to the cleanup.
fn commands(record: &str) -> Vec<Command> {
    let mut found = Vec::new();
    for entry in record.split(RECORD).filter(|entry| !entry.is_empty()) {
        if let Some(phase) = entry.strip_prefix(PHASE) {
            if phase.trim() == "cleanup" {
                break;
            }
            continue;
        }
        let mut fields = entry.splitn(3, '|');
        let (Some(source), Some(line), Some(text)) = (fields.next(), fields.next(), fields.next()) else { continue };
        if source != BASH_ENV && !text.starts_with("__gevals") {
            let text = text.trim_end_matches('\n');
            found.push(Command { line: format!("{source}|{line}"), words: words(text) });
        }
    }
    found
}

/// The words of a command in a record. In `[[ … ]]`, words are printed without quotes, and quoted characters of patterns with a backslash.
fn words(text: &str) -> Vec<String> {
    if let Some(test) = text.strip_prefix("[[ ").and_then(|rest| rest.strip_suffix(" ]]")) {
        let operator = OPERATORS.iter().filter_map(|operator| {
            let spaced = format!(" {operator} ");
            Some((test.find(&spaced)?, *operator, spaced.len()))
        });
        return match operator.min() {
            Some((at, operator, width)) => {
                ["[[", &test[..at], operator, &test[at + width..]].map(str::to_owned).to_vec()
            }
            None => {
                let (operator, word) = test.split_once(' ').unwrap_or((test, ""));
                ["[[", operator, word].map(str::to_owned).to_vec()
            }
        };
    }
    let (mut found, mut word, mut open) = (Vec::new(), String::new(), false);
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            ' ' => {
                if std::mem::take(&mut open) {
                    found.push(std::mem::take(&mut word));
                }
                continue;
            }
            '\'' => word.extend(chars.by_ref().take_while(|c| *c != '\'')),
            '\\' => word.extend(chars.next()),
            c => word.push(c),
        }
        open = true;
    }
    found.extend(open.then_some(word));
    found
}

/// Operators with two sides.
const OPERATORS: [&str; 12] = ["==", "!=", "=~", "=", "-eq", "-ne", "-ge", "-le", "-gt", "-lt", "<", ">"];

/// What a comparison may want.
enum Goal {
    /// A text in place of another one; of a text that is not known, if it is empty.
    Text { actual: String, wanted: String },
    /// A file, which may have to be executable.
    File { path: String, runs: bool },
    /// A file should not exist.
    NoFile(String),
}

/// What a test wants, starting with the likeliest.
fn goals(command: &Command, variables: &BTreeMap<String, String>) -> Vec<Goal> {
    let text = |actual: &str, wanted: &str| Goal::Text { actual: actual.to_owned(), wanted: wanted.to_owned() };
    let words: Vec<&str> = command.words.iter().map(String::as_str).filter(|word| *word != "!").collect();
    let words = match words.as_slice() {
        ["[", inner @ .., "]"] | ["[[" | "test", inner @ ..] => inner,
        ["((", inner @ .., "))"] => {
            let values =
                inner.iter().map(|word| variables.get(word.trim_start_matches('$')).map_or(*word, String::as_str));
            let values: Vec<&str> = values.collect();
            let comparisons = values.split(|word| matches!(*word, "||" | "&&"));
            let is_sign = |sign: &str| ["<", ">", "<=", ">=", "==", "!="].contains(&sign);
            let wanted = comparisons.flat_map(|words| match words {
                [a, sign, b] if is_sign(sign) => numbers(a, b),
                _ => Vec::new(),
            });
            return wanted.collect();
        }
        ["grep" | "egrep" | "fgrep", options @ ..] => {
            let pattern =
                options.iter().position(|word| matches!(*word, "--" | "-e")).and_then(|at| options.get(at + 1));
            let Some(pattern) = pattern.or_else(|| options.iter().find(|word| !word.starts_with('-'))) else {
                return Vec::new();
            };
            let flag =
                |letter| options.iter().any(|w| w.starts_with('-') && !w.starts_with("--") && w.contains(letter));
            let is_fixed = flag('F') || command.words[0] == "fgrep";
            let line = match is_fixed {
                true => (*pattern).to_owned(),
                false => invert::sample(pattern, flag('E') || command.words[0] == "egrep"),
            };
            return vec![text("", &line)];
        }
        _ => return Vec::new(),
    };
    match words {
        [a, "-eq" | "-ne" | "-ge" | "-le" | "-gt" | "-lt", b] => numbers(a, b),
        [a, "=~", pattern] => vec![text(a, &invert::sample_of_shell(pattern))],
        [a, "=" | "==" | "!=", b] if command.words[0] == "[[" && b.contains(['*', '?', '\\']) => {
            vec![text(a, &plain(b))]
        }
        [a, "=" | "==" | "!=", b] => vec![text(a, b), text(b, a), text(a, "other")],
        ["-z", a] | ["-n", a] | [a] => vec![text(a, if a.is_empty() { "some" } else { "" })],
        ["-x", path] => vec![Goal::File { path: (*path).to_owned(), runs: true }],
        ["-f" | "-e" | "-s" | "-r" | "-d", path] => {
            let folder = if words[0] == "-d" { "/" } else { "" };
            vec![Goal::File { path: format!("{path}{folder}"), runs: false }, Goal::NoFile((*path).to_owned())]
        }
        _ => Vec::new(),
    }
}

/// The text of a pattern without its signs.
fn plain(pattern: &str) -> String {
    let mut found = String::new();
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => found.extend(chars.next()),
            '*' => {}
            '?' => found.push('a'),
            c => found.push(c),
        }
    }
    found
}

/// What a comparison of numbers may want: the same number, or one beside it.
fn numbers(a: &str, b: &str) -> Vec<Goal> {
    let mut found = Vec::new();
    for (actual, limit) in [(a, b), (b, a)] {
        let Ok(limit) = limit.trim().parse::<i64>() else { continue };
        for wanted in [limit, limit.saturating_add(1), limit.saturating_sub(1)] {
            if actual.trim() != wanted.to_string() {
                found.push(Goal::Text { actual: actual.trim().to_owned(), wanted: wanted.to_string() });
            }
        }
    }
    found
}

/// Where a text comes from.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Call(String),
    /// A call that asks for the page of a URL.
    Page(String, String),
    File(String),
    Agent,
}

/// The texts that scripts could read, the last one first. Those that only the setup reads are marked with 1.
fn sources(world: &World, ran: &Ran) -> Vec<(Place, usize, String)> {
    let mut found: Vec<(Place, usize, String)> = Vec::new();
    let asked: BTreeSet<String> =
        ran.before_cleanup().filter(|(_, half)| *half == Half::Before).map(|(call, _)| call.key()).collect();
    for (call, half) in ran.before_cleanup().collect::<Vec<_>>().into_iter().rev() {
        let place = match call.argv.as_slice() {
            _ if call.is_lookup() => continue,
            [name, _, url, ..] if name == curl::REQUEST => Place::Page(world.key(call, half), url.clone()),
            // A call that is made in both halves may be answered differently in each.
            _ if half == Half::After && asked.contains(&call.key()) => Place::Call(half.key(&call.key())),
            _ => Place::Call(world.key(call, half)),
        };
        if found.iter().any(|(known, ..)| *known == place) {
            continue;
        }
        let said = match &place {
            Place::Page(_, url) => world.web(url).and_then(|web| web.bodies.first().cloned()),
            _ => None,
        };
        let said = said.unwrap_or_else(|| world.said(call, Time { half, nth: 0 }));
        found.push((place, usize::from(half == Half::Before), said));
    }
    let files = world.files.iter().rev().filter(|(path, _)| !path.ends_with('/'));
    found.extend(files.map(|(path, text)| (Place::File(path.clone()), 0, text.clone())));
    found.extend(world.agent.clone().map(|answer| (Place::Agent, 0, answer)));
    found
}

/// The world in which this place has this text.
fn with(world: &World, place: &Place, text: &str) -> World {
    let mut other = world.clone();
    match place {
        Place::Call(key) => {
            other.given.remove(key);
            other.denied.remove(key);
            other.hints.insert(key.clone(), vec![text.to_owned()]);
        }
        Place::Page(key, url) => {
            other.given.remove(key);
            other.denied.remove(key);
            let web = world.web(url).cloned().unwrap_or_else(|| Web { statuses: vec![200], bodies: Vec::new() });
            other.web.insert(url.clone(), Web { bodies: vec![text.to_owned()], ..web });
        }
        Place::File(path) => {
            for (own, content) in &mut other.files {
                if own == path {
                    text.clone_into(content);
                }
            }
        }
        Place::Agent => other.agent = Some(text.to_owned()),
    }
    other
}

/// What a text may become so that a script finds the wanted text in it, each with its rank: the likeliest have the lowest.
fn texts(before: &str, actual: &str, wanted: &str, filters: &[String]) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let bare = before.trim_end_matches('\n');
    let has = !actual.is_empty() && before.contains(actual);
    if has {
        found.push((0, before.replace(actual, wanted)));
        found.push((1, before.replacen(actual, wanted, 1)));
    }
    for text in filters {
        let both = invert::combined(&[vec![text.clone()], vec![bare.to_owned()]], &[]);
        let is_document = text.starts_with(['{', '[']);
        found.extend(both.into_iter().take(1).filter(|_| is_document).map(|text| (0, text)));
        found.push((1, format!("{bare}\n{text}\n")));
        found.push((1, text.clone()));
    }
    found.push((usize::from(bare != actual), wanted.to_owned()));
    // One value of several.
    if !wanted.is_empty() && !bare.is_empty() {
        let is_value = actual.is_empty() || has;
        found.extend(BETWEEN.iter().map(|between| (if is_value { 2 } else { 4 }, format!("{bare}{between}{wanted}"))));
    }
    found.extend(rows(before, wanted).map(|text| (3, text)));
    // Or one row of several.
    if let Some((rest, _)) = bare.rsplit_once('\n') {
        found.push((3, format!("{rest}\n{wanted}\n")));
    }
    found
}

/// A document without one of its fields each.
fn reduced(text: &str) -> impl Iterator<Item = String> {
    let document = serde_json::from_str(text).ok();
    let fields = if let Some(serde_json::Value::Object(fields)) = document { fields } else { serde_json::Map::new() };
    let keys: Vec<String> = fields.keys().take(MOST).cloned().collect();
    keys.into_iter().map(move |key| {
        let mut rest = fields.clone();
        rest.shift_remove(&key);
        serde_json::Value::Object(rest).to_string()
    })
}

/// As many rows as a number says, beginning with those of a text.
fn rows(before: &str, wanted: &str) -> Option<String> {
    let count = wanted.parse().ok().filter(|count| (1..=MOST).contains(count))?;
    let rows = before.lines().map(str::to_owned).chain((0..).map(|nth| format!("thing-{nth}")));
    Some(rows.take(count).map(|row| row + "\n").collect())
}

/// What may separate values in a text.
const BETWEEN: [&str; 9] = ["\n", " ", "", "|", ",", ":", "\t", "=", "/"];

/// Programs that change what they read.
const FILTERS: [&str; 13] =
    ["jq", "grep", "egrep", "cut", "awk", "sed", "head", "tail", "sort", "wc", "tr", "base64", "uniq"];

/// Texts for which filters print what is wanted: those on the line of the last command, and those whose output was assigned to a variable
/// with the value.
fn filtered(before: &[Command], line: &str, actual: &str, wanted: &str) -> Vec<String> {
    let of_line = |line: &str, end: usize| {
        let own = before[..end].iter().rev().take_while(|command| command.line == line);
        own.filter(|command| command.words.first().is_some_and(|name| FILTERS.contains(&name.as_str())))
            .take(4)
            .collect()
    };
    let assigned = before.iter().enumerate().rev().filter(|(_, command)| {
        command.words.first().and_then(|word| word.split_once('=')).is_some_and(|(_, value)| value == actual)
    });
    let of_value: Vec<(usize, &Command)> = assigned.take(CHAINS).collect();
    let mut chains: Vec<Vec<&Command>> = vec![of_line(line, before.len())];
    chains.extend(of_value.iter().map(|(at, command)| of_line(&command.line, *at)));
    if chains.iter().all(Vec::is_empty) {
        let last =
            before.iter().rposition(|command| FILTERS.contains(&command.words.first().map_or("", String::as_str)));
        chains.extend(last.map(|at| of_line(&before[at].line, at + 1)));
    }
    let mut found = Vec::new();
    for mut chain in chains.into_iter().filter(|chain| !chain.is_empty()) {
        // Of two filters that ran side by side, either may be the first.
        for _ in 0..2 {
            let of_field = match chain.as_slice() {
                [selects, only] => invert::in_field(&only.words, &read(selects), wanted),
                _ => None,
            };
            found.extend(of_field);
            let mut texts = vec![wanted.to_owned()];
            texts.extend(rows("", wanted));
            for command in &chain {
                texts = invert::inputs(&read(command), &texts);
                texts.truncate(3);
            }
            found.extend(texts.into_iter().filter(|text| text != wanted));
            chain.reverse();
        }
    }
    // What a filter reads may have been printed by an earlier one.
    let own: BTreeSet<&str> =
        std::iter::once(line).chain(of_value.iter().map(|(_, command)| command.line.as_str())).collect();
    let is_earlier = |command: &&Command| {
        command.words.first().is_some_and(|name| name == "jq") && !own.contains(command.line.as_str())
    };
    let earlier: Vec<&Command> = before.iter().rev().filter(is_earlier).take(CHAINS).collect();
    let documents: Vec<String> = found.iter().filter(|text| text.starts_with('{')).take(1).cloned().collect();
    for command in earlier {
        found.extend(invert::inputs(&read(command), &documents).into_iter().take(1));
    }
    found.dedup();
    found
}

/// The commands on a line, and on those that have assigned a value to a variable.
fn readers<'c>(before: &'c [Command], line: &str, actual: &str) -> Vec<&'c Command> {
    let assigns = |command: &&Command| {
        command.words.first().and_then(|word| word.split_once('=')).is_some_and(|(_, value)| value == actual)
    };
    let lines = before.iter().rev().filter(assigns).take(CHAINS).map(|command| command.line.as_str());
    let lines: BTreeSet<&str> = lines.chain([line]).collect();
    before.iter().rev().filter(|command| lines.contains(command.line.as_str())).take(2 * CHAINS).collect()
}

/// Worlds in which a program that reads more than texts prints what is wanted: scripts that it runs, files that it lists, links that it
/// follows.
fn with_files(world: &World, most: &Ran, stage: &Stage, command: &Command, wanted: &str) -> Vec<World> {
    let words: Vec<&str> = command.words.iter().map(String::as_str).collect();
    let mut other = world.clone();
    match words.as_slice() {
        // The agent does not write the task's own files.
        [name, .., path] if *name != "find" && stage.starts_with(path) => return Vec::new(),
        ["python" | "python3" | "node" | "sh" | "bash", path] if !path.starts_with('-') => {
            let text = serde_json::Value::from(wanted).to_string();
            let program = match words[0] {
                "node" => format!("console.log({text})\n"),
                "sh" | "bash" => format!("printf '%s\\n' '{}'\n", wanted.replace('\'', "'\\''")),
                _ => format!("print({text})\n"),
            };
            other.files.retain(|(known, _)| known != path);
            other.files.push(((*path).to_owned(), program));
        }
        ["readlink" | "realpath", .., path] if wanted.starts_with('/') => {
            other.files.retain(|(known, _)| known != path);
            other.links.insert((*path).to_owned(), wanted.to_owned());
        }
        ["sha256sum" | "sha1sum" | "md5sum" | "cksum", .., path] => {
            // The same contents as another file.
            let made = most.made.iter().flatten().map(|(made, ..)| made.display().to_string());
            other.files.retain(|(known, _)| known != path);
            let copy = |of: String| {
                let mut other = other.clone();
                other.links.insert((*path).to_owned(), of);
                other
            };
            let others = made.filter(|made| made != path && made.starts_with('/') && !other.links.contains_key(made));
            return others.take(CHAINS).map(copy).collect();
        }
        ["find", root, tests @ ..] => {
            let name = tests.iter().position(|test| matches!(*test, "-name" | "-iname"));
            let pattern = name.and_then(|at| tests.get(at + 1)).unwrap_or(&"*");
            let (Ok(glob), Some(count)) =
                (globset::Glob::new(pattern), wanted.parse().ok().filter(|count| *count <= MOST))
            else {
                return Vec::new();
            };
            let glob = glob.compile_matcher();
            let own = world.files.iter().map(|(path, _)| path.trim_end_matches('/').to_owned());
            let made = most.made.iter().flatten().map(|(path, ..)| path.display().to_string());
            let is_listed = |path: &String| {
                let inside = path.strip_prefix(root.trim_end_matches('/')).and_then(|path| path.strip_prefix('/'));
                inside.is_some_and(|path| glob.is_match(path.rsplit('/').next().unwrap_or(path)))
            };
            let listed: BTreeSet<String> = made.chain(own).filter(is_listed).collect();
            let gone: Vec<String> = listed.iter().skip(count).cloned().collect();
            other.files.retain(|(path, _)| !gone.contains(path));
            other.gone.extend(gone);
            let kind = if tests.windows(2).any(|test| test == ["-type", "d"]) { "/" } else { "" };
            let named = |nth: usize| {
                let name = pattern.replace('*', &format!("thing-{nth}")).replace('?', "a");
                (format!("{}/{name}{kind}", root.trim_end_matches('/')), "some\n".to_owned())
            };
            other.files.extend((listed.len()..count).map(named));
        }
        _ => return Vec::new(),
    }
    vec![other]
}

/// What `printf '%s\n' a b` or `echo a` prints on a line: the other side of `diff <(printf '%s\n' a b) <(…)`.
fn printed(commands: &[Command], line: &str) -> Option<String> {
    commands.iter().filter(|command| command.line == line).find_map(|command| match command.words.as_slice() {
        [name, format, words @ ..] if name == "printf" && format == "%s\\n" => Some(words.join("\n") + "\n"),
        [name, text] if name == "printf" && !text.contains('%') => Some(text.replace("\\n", "\n")),
        [name, words @ ..] if name == "echo" && words.first().is_some_and(|word| !word.starts_with('-')) => {
            Some(words.join(" ") + "\n")
        }
        _ => None,
    })
}

/// How many values of variables are followed to their filters.
const CHAINS: usize = 3;

/// A filter with `-` in place of the file that it reads.
fn read(command: &Command) -> Vec<String> {
    let mut words = command.words.clone();
    let is_path = |word: &String| word.contains('/') && !word.contains([' ', '|', '"']) && !word.ends_with("/p");
    if words.len() > 2 && words.last().is_some_and(is_path) {
        words.pop();
    }
    words.push("-".to_owned());
    words
}

/// Worlds in which one of the last comparisons may come out differently, the likeliest first.
fn attempts(world: &World, most: &Ran, stage: &Stage) -> Vec<World> {
    let commands = commands(&most.watched);
    let mut variables: BTreeMap<String, String> = BTreeMap::new();
    for command in &commands {
        if let [assignment] = command.words.as_slice()
            && let Some((name, value)) = assignment.split_once('=')
        {
            variables.insert(name.to_owned(), value.to_owned());
        }
    }
    let sources = sources(world, most);
    let mut found: Vec<(usize, World)> = Vec::new();
    let mut last = 0;
    for (at, command) in commands.iter().enumerate().rev() {
        let mut goals = goals(command, &variables);
        if is_condition(command) {
            goals.push(Goal::Text { actual: String::new(), wanted: "true".to_owned() });
        }
        if command.words.first().is_some_and(|name| name == "diff") {
            let wanted = printed(&commands, &command.line);
            goals.extend(wanted.map(|wanted| Goal::Text { actual: String::new(), wanted }));
        }
        if goals.is_empty() {
            continue;
        }
        last += 1;
        if last > LAST {
            break;
        }
        for (nth, goal) in goals.into_iter().enumerate() {
            match goal {
                Goal::Text { actual, wanted } => {
                    // The number may be a sum: `$((STABLE + CANARY))`.
                    let number = |text: &str| text.trim().parse::<i64>().ok();
                    if let (Some(sum), Some(limit)) = (number(&actual), number(&wanted)) {
                        let is_other = |text: &String| text.trim() != actual;
                        for (place, own, text) in sources.iter().filter(|(.., text)| is_other(text)) {
                            let part = number(text).and_then(|part| part.checked_add(limit.checked_sub(sum)?));
                            let changed = part.map(|part| with(world, place, &part.to_string()));
                            found.extend(changed.map(|world| (nth.min(2) + own * 3 + last / 3, world)));
                        }
                    }
                    let before = if is_condition(command) { &commands[..=at] } else { &commands[..at] };
                    let readers = readers(before, &command.line, &actual);
                    found.extend(readers.into_iter().flat_map(|reader| {
                        let worlds = with_files(world, most, stage, reader, &wanted);
                        worlds.into_iter().map(move |world| (nth.min(2) + last / 3, world))
                    }));
                    let filters = filtered(before, &command.line, &actual, &wanted);
                    for (place, own, text) in &sources {
                        let mut all = texts(text, &actual, &wanted, &filters);
                        if is_condition(command) {
                            all.extend(reduced(text).map(|text| (1, text)));
                        }
                        // A later wish of a test is less likely, and so is a change of what the setup reads.
                        let rank = |rank: usize| rank + nth.min(2) + own * 3 + last / 3;
                        found.extend(all.into_iter().map(|(own, text)| (rank(own), with(world, place, &text))));
                        let status = wanted.parse::<u16>().ok().filter(|status| (100..600).contains(status));
                        if let (Place::Page(_, url), Some(status)) = (place, status) {
                            let mut other = with(world, place, text);
                            other.web.entry(url.clone()).or_default().statuses = vec![status];
                            found.push((rank(0), other));
                        }
                    }
                }
                Goal::File { path, runs } => {
                    let mut other = world.clone();
                    other.gone.retain(|gone| gone.trim_end_matches('/') != path.trim_end_matches('/'));
                    if !other.files.iter().any(|(known, _)| *known == path) {
                        other.files.push((path.clone(), "some\n".to_owned()));
                    }
                    if runs {
                        other.programs.insert(path);
                    }
                    found.push((last / 3, other));
                }
                Goal::NoFile(path) => {
                    let mut other = world.clone();
                    other.files.retain(|(known, _)| known.trim_end_matches('/') != path);
                    other.gone.push(path);
                    found.push((1 + last / 3, other));
                }
            }
        }
    }
    // The agent may have to remove all files that a pattern names.
    for glob in commands.iter().flat_map(|command| &command.words).flat_map(|word| globs(word)) {
        let made = most.made.iter().flatten().filter_map(|(path, ..)| path.to_str());
        let paths: Vec<String> = made.filter(|path| glob.is_match(path)).map(str::to_owned).collect();
        if !paths.is_empty() {
            let mut other = world.clone();
            other.files.retain(|(path, _)| !paths.contains(path));
            other.gone.extend(paths);
            found.push((2, other));
        }
    }
    found.sort_by_key(|(rank, _)| *rank);
    found.into_iter().map(|(_, world)| world).collect()
}

/// The patterns of file names in a word: `NAME=(/tmp/a/*.txt)`.
fn globs(word: &str) -> Vec<globset::GlobMatcher> {
    let is_path = |part: &&str| part.starts_with('/') && part.contains('*');
    let parts = word.split(['(', ')', ' ', '=']).filter(is_path);
    let glob = |part: &str| globset::GlobBuilder::new(part).literal_separator(true).build().ok();
    parts.filter_map(glob).map(|glob| glob.compile_matcher()).collect()
}

/// Whether the exit status of a command reports whether a filter prints something true.
fn is_condition(command: &Command) -> bool {
    let reports = |word: &String| matches!(word.as_str(), "-e" | "-er" | "-re" | "--exit-status");
    command.words.first().is_some_and(|name| name == "jq") && command.words.iter().any(reports)
}

/// How far a run went: like [`Ran::shown`], and how many tests it made. Of two that went equally far, the one with more equal sides is
/// better: a script may note what failed and report it at its end.
fn reached(ran: &Ran) -> impl Ord + use<> {
    let (passed, calls, failed, complaints) = ran.shown();
    let commands = commands(&ran.watched);
    let is_test = |command: &&Command| is_condition(command) || !goals(command, &BTreeMap::new()).is_empty();
    let tests: Vec<&Command> = commands.iter().filter(is_test).collect();
    // The value that is compared comes from the world; the rest shows which test it is.
    let key = |command: &&Command| {
        let is_compared = matches!(command.words[0].as_str(), "[" | "[[" | "test" | "((");
        (command.line.clone(), command.words[if is_compared { command.words.len().min(2) } else { 0 }..].join(" "))
    };
    let made: BTreeSet<(String, String)> = tests.iter().map(key).collect();
    let equal = |command: &&&Command| {
        let operator = command.words.get(2).map_or("", String::as_str);
        matches!(operator, "=" | "==" | "!=" | "-eq" | "-ne") && command.words.get(1) == command.words.get(3)
    };
    let equal: BTreeSet<(String, String)> = tests.iter().filter(equal).map(key).collect();
    (passed, calls, failed, made.len(), complaints, equal.len())
}

/// Changes the world so that the original gets further, until it passes.
///
/// # Errors
/// As for [`ran`].
pub async fn seek(
    world: &mut World,
    most: &mut Ran,
    old: &Plan,
    stage: &Arc<Stage>,
    tries: usize,
) -> Result<(), String> {
    let looked = |world: &World| World { hasty: true, watched: true, ..world.clone() };
    *most = ran(old, &looked(world), stage).await?;
    let mut tried = BTreeSet::new();
    'better: while !most.passed {
        for other in attempts(world, most, stage) {
            if tried.len() >= tries {
                return Ok(());
            }
            let Ok(key) = serde_json::to_string(&other) else { continue };
            if !tried.insert(key) {
                continue;
            }
            let ran_other = ran(old, &looked(&other), stage).await?;
            if reached(&ran_other) > reached(most) {
                (*world, *most) = (other, ran_other);
                continue 'better;
            }
        }
        return Ok(());
    }
    Ok(())
}
