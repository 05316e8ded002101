//! What scripts compare the answers of commands with: texts by which they may get further. A guess, which worlds try. And the variables that
//! they leave to the environment.

use std::collections::{BTreeMap, BTreeSet};

use super::{invert, side::traced};
use crate::{
    bash::{
        self,
        ast::{self, Kind, Part, Redirect, Simple, Stmt, Word},
    },
    convert::test_words,
};

/// Texts wanted of commands, by the command as worlds know it; a word that only a run knows is `{…}`.
pub fn wishes(scripts: &[String]) -> BTreeMap<String, Vec<String>> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for text in scripts {
        let read = |text: &str| bash::parse(text).and_then(|script| ast::read(&script));
        let Some(list) = read(text).or_else(|| read(&ungrouped(text))) else { continue };
        let list = bash::inline::inlined(&list, text);
        let mut script = Script::default();
        list.iter().for_each(|stmt| script.constants(stmt));
        list.iter().for_each(|stmt| script.sources(stmt));
        list.iter().for_each(|stmt| script.tests(stmt));
        script.arguments();
        for (argv, texts) in script.solved() {
            let known = found.entry(traced(&argv)).or_default();
            for text in texts {
                if !known.contains(&text) {
                    known.push(text);
                }
            }
        }
    }
    found
}

/// A script without the groups in its tests, which the parser does not always know.
fn ungrouped(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once("[[ ")
        && let Some((inner, behind)) = behind.split_once(" ]]")
    {
        out += &format!("{before}[[ {} ]]", without_groups(inner));
        rest = behind;
    }
    out + rest
}

/// A test without its groups; parentheses of patterns and substitutions stay.
fn without_groups(test: &str) -> String {
    let has_others = test.contains("=~") || test.contains("$(");
    if has_others { test.to_owned() } else { test.replace(['(', ')'], " ") }
}

/// Variables that scripts have a default for and set nowhere else, with the default: `${NS:-shop}`.
pub fn overridable(scripts: &[String]) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for text in scripts {
        let mut variables = Variables::default();
        variables.script(text);
        let Variables { given, set } = variables;
        found.extend(given.into_iter().filter(|(name, _)| !set.contains(name) && !OWN.contains(&name.as_str())));
    }
    found
}

/// Variables of the environment without which scripts end, each with some value: `${NS:?}`, and under `set -u` any that no line sets.
pub fn required(scripts: &[String]) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for text in scripts {
        let mut variables = Variables::default();
        variables.script(text);
        let Variables { given, set } = variables;
        let is_asked = |name: &str| [":?", "?"].iter().any(|sign| text.contains(&format!("${{{name}{sign}")));
        let strict = bash::program(text).is_some_and(|program| program.sets('u', "nounset"));
        let is_global = |name: &String| {
            name.len() > 1 && name.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
        };
        for name in ast::names_in(text).into_iter().filter(is_global) {
            let is_open = !given.contains_key(&name) && !set.contains(&name) && !text.contains(&format!("{name}="));
            if is_asked(&name) || strict && is_open && !OWN.contains(&name.as_str()) {
                let value = some(&name);
                found.insert(name, value);
            }
        }
    }
    found
}

/// Variables that each shell has.
const OWN: [&str; 12] = [
    "PATH",
    "HOME",
    "USER",
    "SHELL",
    "PWD",
    "TMPDIR",
    "KUBECONFIG",
    "RANDOM",
    "SECONDS",
    "BASH_SOURCE",
    "OSTYPE",
    "LINENO",
];

/// The variables of a script: those with a default, and those that it sets.
#[derive(Default)]
struct Variables {
    given: BTreeMap<String, String>,
    set: BTreeSet<String>,
}

impl Variables {
    fn script(&mut self, text: &str) {
        let list = bash::parse(text).and_then(|script| ast::read(&script)).unwrap_or_default();
        list.iter().for_each(|stmt| walk(stmt, &mut |stmt| self.statement(stmt)));
    }

    fn statement(&mut self, stmt: &Stmt) {
        match &stmt.kind {
            Kind::Simple(simple) => {
                if let [name, names @ ..] = simple.words.as_slice()
                    && name.source == "read"
                {
                    self.set.extend(names.iter().map(|word| word.source.clone()));
                }
                let values = simple.env.iter().filter_map(|assign| assign.value.as_ref());
                values.chain(&simple.words).for_each(|word| self.parts(&word.parts));
                for redirect in &simple.redirects {
                    match redirect {
                        Redirect::Write(word) | Redirect::Herestring(word) => self.parts(&word.parts),
                        Redirect::Heredoc(parts) => self.parts(parts),
                        _ => {}
                    }
                }
            }
            Kind::Assign(assigns) => {
                for assign in assigns {
                    let words = assign.value.iter().chain(assign.array.iter().flatten());
                    words.for_each(|word| self.parts(&word.parts));
                    // `NS="${NS:-shop}"` leaves it to the environment, too.
                    let is_own = assign.value.as_ref().is_some_and(|word| {
                        matches!(word.parts.as_slice(), [Part::Var { name, default: Some(_), .. }] if *name == assign.name)
                    });
                    if !is_own {
                        self.set.insert(assign.name.clone());
                    }
                }
            }
            Kind::Test(inner, _) => {
                test_words(inner).unwrap_or_default().iter().for_each(|word| self.parts(&word.parts));
            }
            Kind::For { var, values, .. } => {
                self.set.insert(var.clone());
                values.iter().for_each(|word| self.parts(&word.parts));
            }
            Kind::Count { var, .. } | Kind::Step(var) => drop(self.set.insert(var.clone())),
            _ => {}
        }
    }

    fn parts(&mut self, parts: &[Part]) {
        for part in parts {
            match part {
                Part::Var { name, default: Some(default), .. } => match ast::literal(default) {
                    Some(text) if ast::is_name(name) => drop(self.given.insert(name.clone(), text)),
                    _ => self.parts(default),
                },
                Part::Command { text, .. } => self.script(text),
                _ => {}
            }
        }
    }
}

/// Where a variable's value comes from.
#[derive(Clone, Debug)]
enum Source {
    Command(Vec<String>),
    Variable(String),
}

#[derive(Default)]
struct Script {
    /// Variables that are one text; `None`: they are more.
    constants: BTreeMap<String, Option<String>>,
    /// What a variable is read from, through which filters.
    sources: BTreeMap<String, (Source, Vec<Vec<String>>)>,
    /// What a variable, or what a command prints, is compared with: the whole text, or a part.
    whole: Vec<(Source, Vec<Vec<String>>, String)>,
    parts: Vec<(Source, Vec<Vec<String>>, String)>,
}

impl Script {
    fn constants(&mut self, stmt: &Stmt) {
        walk(stmt, &mut |stmt| {
            let Kind::Assign(assigns) = &stmt.kind else { return };
            for assign in assigns {
                let text = assign.value.as_ref().filter(|_| !assign.odd).and_then(|word| self.text(word));
                let known = self.constants.get(&assign.name).cloned();
                let text = if known.is_some() { None } else { text };
                self.constants.insert(assign.name.clone(), text);
            }
        });
    }

    fn sources(&mut self, stmt: &Stmt) {
        walk(stmt, &mut |stmt| {
            let Kind::Assign(assigns) = &stmt.kind else { return };
            for assign in assigns {
                let Some(Word { parts, .. }) = &assign.value else { continue };
                let [Part::Command { text, .. }] = parts.as_slice() else { continue };
                if let Some(source) = self.read(text) {
                    self.sources.entry(assign.name.clone()).or_insert(source);
                }
            }
        });
    }

    fn tests(&mut self, stmt: &Stmt) {
        walk(stmt, &mut |stmt| match &stmt.kind {
            Kind::Test(inner, _) => {
                let apart = without_groups(inner);
                for comparison in test_words(&apart).unwrap_or_default().windows(3) {
                    let [a, operator, b] = comparison else { continue };
                    self.compared(a, &operator.source, b);
                    self.compared(b, &operator.source, a);
                }
            }
            Kind::Pipeline(list) => {
                let Some(([.., Stmt { kind: Kind::Simple(last), .. }], (source, mut filters))) =
                    Some(list.as_slice()).zip(self.pipeline(list))
                else {
                    return;
                };
                filters.pop();
                self.searched(last, source, filters);
            }
            Kind::Simple(simple) => {
                let fed = simple.redirects.iter().find_map(|r| match r {
                    Redirect::Herestring(word) => variable(word),
                    _ => None,
                });
                if let Some(name) = fed {
                    self.searched(simple, Source::Variable(name), Vec::new());
                }
            }
            _ => {}
        });
    }

    /// What one filter is given that another one prints (`jq --arg name "$NAME"`): some value, the same for both.
    fn arguments(&mut self) {
        let mut wanted = Vec::new();
        let given = |filters: &mut Vec<Vec<String>>, wanted: &mut Vec<String>| {
            for word in filters.iter_mut().filter(|filter| filter[0] == "jq").flatten() {
                if let Some(name) = word.strip_prefix('{').and_then(|word| word.strip_suffix('}'))
                    && self.sources.contains_key(name)
                {
                    wanted.push(name.to_owned());
                    *word = some(name);
                }
            }
        };
        let (mut whole, mut parts) = (self.whole.clone(), self.parts.clone());
        whole.iter_mut().chain(&mut parts).for_each(|(_, filters, _)| given(filters, &mut wanted));
        // What prints it may be given something itself.
        let mut sources = self.sources.clone();
        sources.values_mut().for_each(|(_, filters)| given(filters, &mut wanted));
        wanted.sort();
        wanted.dedup();
        whole.extend(wanted.into_iter().map(|name| (Source::Variable(name.clone()), Vec::new(), some(&name))));
        (self.whole, self.parts, self.sources) = (whole, parts, sources);
    }

    fn compared(&mut self, word: &Word, operator: &str, other: &Word) {
        let from = match word.parts.as_slice() {
            [Part::Command { text, .. }] => self.read(text),
            _ => variable(word).map(|name| (Source::Variable(name), Vec::new())),
        };
        let Some((source, filters)) = from else { return };
        let is_glob = other.parts.iter().any(|part| match part {
            Part::Text { text, quoted } => !quoted && text.contains('*'),
            part => matches!(part, Part::Other),
        });
        let number = || self.text(other)?.parse::<i64>().ok();
        let text = match operator {
            "=" | "==" | "!=" | "=~" if is_glob || operator == "=~" => {
                let text = self.text(other).unwrap_or_else(|| other.source.replace(['"', '\''], ""));
                let fragment = text.replace(['*', '^', '$', '\\'], "").replace(".+", "-");
                self.parts.push((source, filters, fragment));
                return;
            }
            "=" | "==" | "!=" => self.text(other),
            "-eq" | "-ge" | "-le" => number().map(|n| n.to_string()),
            "-gt" | "-ne" => number().map(|n| n.saturating_add(1).to_string()),
            "-lt" => number().map(|n| n.saturating_sub(1).to_string()),
            _ => None,
        };
        if let Some(text) = text {
            self.whole.push((source, filters, text));
        }
    }

    /// `… | grep -q PATTERN`
    fn searched(&mut self, simple: &Simple, source: Source, filters: Vec<Vec<String>>) {
        let words: Vec<String> = simple.words.iter().filter_map(|word| self.text(word)).collect();
        let ([name, rest @ ..], true) = (words.as_slice(), words.len() == simple.words.len()) else { return };
        if !matches!(name.as_str(), "grep" | "egrep" | "fgrep") {
            return;
        }
        let behind = rest.iter().position(|word| word == "--" || word == "-e").and_then(|at| rest.get(at + 1));
        if let Some(pattern) = behind.or_else(|| rest.iter().find(|word| !word.starts_with('-'))) {
            let fragment = pattern.replace(".*", "-").replace(['^', '$', '\\'], "");
            let fragment = fragment.split('|').next().unwrap_or_default().to_owned();
            self.parts.push((source, filters, fragment));
        }
    }

    /// What a command substitution reads, and through which filters.
    fn read(&self, text: &str) -> Option<(Source, Vec<Vec<String>>)> {
        let list = ast::read(&bash::parse(text)?)?;
        match list.as_slice() {
            [stmt] => self.printed(stmt),
            _ => None,
        }
    }

    fn printed(&self, stmt: &Stmt) -> Option<(Source, Vec<Vec<String>>)> {
        match &stmt.kind {
            Kind::Simple(simple) => Some((self.command(simple)?, Vec::new())),
            Kind::Pipeline(list) => self.pipeline(list),
            // `|| echo ""`
            Kind::Or(pair) => self.printed(&pair[0]),
            // `… && echo yes`: it succeeds, whatever it prints.
            Kind::And(pair) => {
                let (source, filters) = self.printed(&pair[0])?;
                Some((source, [filters, vec![vec!["&&".to_owned()]]].concat()))
            }
            _ => None,
        }
    }

    fn pipeline(&self, list: &[Stmt]) -> Option<(Source, Vec<Vec<String>>)> {
        let (first, rest) = list.split_first()?;
        let Kind::Simple(first) = &first.kind else { return None };
        let filters = rest.iter().map(|stmt| match &stmt.kind {
            // Behind the program of a filter its file is expected.
            Kind::Simple(simple) => Some([self.argv(simple)?, vec!["-".to_owned()]].concat()),
            _ => None,
        });
        Some((self.command(first)?, filters.collect::<Option<_>>()?))
    }

    /// A command, or the variable that `echo` prints.
    fn command(&self, simple: &Simple) -> Option<Source> {
        let name = simple.words.first()?.source.as_str();
        match (name, simple.words.last()) {
            ("echo" | "printf", Some(word)) => variable(word).map(Source::Variable),
            _ => self.argv(simple).map(Source::Command),
        }
    }

    fn argv(&self, simple: &Simple) -> Option<Vec<String>> {
        let words = simple.words.iter().map(|word| {
            let parts = word.parts.iter().map(|part| match part {
                Part::Text { text, .. } => text.clone(),
                part @ Part::Var { name, .. } => {
                    self.joined(std::slice::from_ref(part)).unwrap_or_else(|| format!("{{{name}}}"))
                }
                Part::Command { .. } => "{}".to_owned(),
                Part::Other => word.source.clone(),
            });
            parts.collect::<String>()
        });
        let argv: Vec<String> = words.collect();
        (!argv.is_empty()).then_some(argv)
    }

    fn text(&self, word: &Word) -> Option<String> {
        match word.parts.as_slice() {
            [Part::Other] => self.sum(&word.source).map(|sum| sum.to_string()),
            parts => self.joined(parts),
        }
    }

    fn joined(&self, parts: &[Part]) -> Option<String> {
        let part = |part: &Part| match part {
            Part::Text { text, .. } => Some(text.clone()),
            Part::Var { name, default, .. } => match (self.constants.get(name), default) {
                (Some(Some(text)), _) => Some(text.clone()),
                // What nothing in the script sets is its default in most worlds.
                (_, Some(default)) => self.joined(default),
                _ => None,
            },
            _ => None,
        };
        parts.iter().map(part).collect()
    }

    /// `$((A + B - 1))`, where all is known.
    fn sum(&self, source: &str) -> Option<i64> {
        let inner = source.trim_matches('"').strip_prefix("$((")?.strip_suffix("))")?;
        let spaced =
            ["+", "-", "*"].iter().fold(inner.to_owned(), |text, sign| text.replace(sign, &format!(" {sign} ")));
        let number = |word: &str| match word.parse() {
            Ok(number) => Some(number),
            Err(_) => self.constants.get(word.trim_start_matches('$'))?.as_ref()?.parse::<i64>().ok(),
        };
        let mut words = spaced.split_whitespace();
        let mut sum = number(words.next()?)?;
        while let Some(sign) = words.next() {
            let other = number(words.next()?)?;
            sum = match sign {
                "+" => sum.checked_add(other)?,
                "-" => sum.checked_sub(other)?,
                "*" if !inner.contains(['+', '-']) => sum.checked_mul(other)?,
                _ => return None,
            };
        }
        Some(sum)
    }

    /// Commands, and what they may say.
    fn solved(&self) -> Vec<(Vec<String>, Vec<String>)> {
        // By the command: for each way in which it is read, what is wanted there.
        let mut wanted: Vec<(Vec<String>, Vec<(Vec<Vec<String>>, Vec<String>)>)> = Vec::new();
        let mut add = |source: &Source, filters: &[Vec<String>], text: &str, is_part: bool| {
            let Some((argv, filters)) = self.origin(source, filters) else { return };
            let at = wanted.iter().position(|(known, _)| *known == argv).unwrap_or(wanted.len());
            if at == wanted.len() {
                wanted.push((argv, Vec::new()));
            }
            let ways = &mut wanted[at].1;
            match ways.iter_mut().find(|(known, _)| *known == filters) {
                // Several parts stand in one text.
                Some((_, texts)) if is_part && !texts.is_empty() => {
                    let all = format!("{} {text}", texts[0]);
                    texts.push(format!("{}\n{text}", texts[0]));
                    texts.insert(0, all);
                    texts.push(text.to_owned());
                }
                Some((_, texts)) => texts.push(text.to_owned()),
                None => ways.push((filters, vec![text.to_owned()])),
            }
        };
        self.parts.iter().for_each(|(source, filters, text)| add(source, filters, text, true));
        self.whole.iter().for_each(|(source, filters, text)| add(source, filters, text, false));
        let solve = |(argv, ways): (Vec<String>, Vec<(Vec<Vec<String>>, Vec<String>)>)| {
            let plain = ways.iter().filter(|(filters, _)| filters.is_empty()).flat_map(|(_, texts)| texts.clone());
            let plain: Vec<String> = plain.collect();
            let through = |(filters, texts): &(Vec<Vec<String>>, Vec<String>)| {
                filters.iter().rev().fold(texts.clone(), |texts, filter| invert::inputs(filter, &texts))
            };
            let filtered: Vec<Vec<String>> =
                ways.iter().filter(|(filters, _)| !filters.is_empty()).map(through).collect();
            let mut texts = if filtered.is_empty() { Vec::new() } else { invert::combined(&filtered, &[]) };
            texts.extend(plain);
            texts.truncate(MANY);
            (argv, texts)
        };
        wanted.into_iter().map(solve).filter(|(_, texts)| !texts.is_empty()).collect()
    }

    /// The command behind variables, with all filters on the way.
    fn origin(&self, source: &Source, filters: &[Vec<String>]) -> Option<(Vec<String>, Vec<Vec<String>>)> {
        let mut filters = filters.to_vec();
        let mut source = source.clone();
        // A variable may be made of itself.
        for _ in 0..8 {
            match source {
                Source::Command(argv) => return Some((argv, filters)),
                Source::Variable(name) => {
                    let (next, before) = self.sources.get(&name)?;
                    filters.splice(0..0, before.iter().cloned());
                    source = next.clone();
                }
            }
        }
        None
    }
}

/// Some value of a variable.
fn some(name: &str) -> String {
    format!("some-{}", name.to_ascii_lowercase())
}

/// So many texts are tried of one command at most.
const MANY: usize = 12;

/// `"$NAME"`, and nothing else.
fn variable(word: &Word) -> Option<String> {
    match word.parts.as_slice() {
        [Part::Var { name, .. }] => Some(name.clone()),
        _ => None,
    }
}

/// A statement and all inside it.
fn walk(stmt: &Stmt, visit: &mut dyn FnMut(&Stmt)) {
    visit(stmt);
    stmt.lists().into_iter().flatten().for_each(|inner| walk(inner, visit));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first text that is wanted of each command.
    fn first(script: &str) -> Vec<String> {
        wishes(&[script.to_owned()]).into_values().map(|texts| texts[0].clone()).collect()
    }

    #[test]
    fn what_a_script_asks_for_is_found() {
        let cases: [(&str, &[&str]); 6] = [
            ("A=$(kubectl get x)\n[ \"$A\" = up ] || exit 1", &["up"]),
            (
                "A=$(kubectl get x)\nB=$(kubectl get y)\nif [[ (\"$A\" == *\"a\"* && \"$A\" == *\"b c\"*) || (\"$B\" == *d*) ]]; then\n  exit 0\nfi\nexit 1",
                &["a b c", "d"],
            ),
            (
                "A=$(kubectl get x -o json | jq -e '.a == 1' >/dev/null && echo yes || echo no)\n[ $A = yes ]",
                &[r#"{"a":1}"#],
            ),
            (
                "J=$(kubectl get x -o json)\nN=$(echo \"$J\" | jq -r '.a')\nV=$(echo \"$J\" | jq -r --arg n \"$N\" '.b[] | select(.n == $n) | .v')\n[ \"$V\" = up ]",
                &[r#"{"b":[{"n":"some-n","v":"up"}],"a":"some-n"}"#],
            ),
            ("kubectl get x | grep -q -- --port", &["--port"]),
            ("[ \"$(kubectl get x | wc -l)\" -ge 2 ] || exit 1", &["thing-0\nthing-1\n"]),
        ];
        for (script, wanted) in cases {
            assert_eq!(first(script), wanted, "{script}");
        }
    }

    #[test]
    fn what_a_script_leaves_to_the_environment() {
        let open = |script: &str| overridable(&[script.to_owned()]).into_iter().collect::<Vec<_>>();
        let is = |name: &str, value: &str| vec![(name.to_owned(), value.to_owned())];
        for script in [
            "kubectl get pods -n \"${NS:-shop}\"",
            "NS=\"${NS:-shop}\"\nkubectl get pods -n \"$NS\"",
            "kubectl get pods -n ${NS:-'shop'}",
            "# for NS=x\nn=$(kubectl get pods -n \"${NS:-\"shop\"}\" | wc -l)",
            "cat <<EOF | kubectl apply -f -\nnamespace: ${NS:-shop}\nEOF",
            "if [[ \"${NS:-shop}\" == shop ]]; then echo yes; fi",
        ] {
            assert_eq!(open(script), is("NS", "shop"), "{script}");
        }
        for script in [
            "NS=shop\necho \"${NS:-x}\"",
            "for NS in a b; do echo \"${NS:-x}\"; done",
            "read -r NS\necho \"${NS:-x}\"",
            "echo '${NS:-x}'",
            "cat <<'EOF'\n${NS:-x}\nEOF",
            "echo \"${NS:-$OTHER}\" \"${1:-x}\" \"${HOME:-/root}\"",
        ] {
            assert_eq!(open(script), [], "{script}");
        }
        let asked = |script: &str| required(&[script.to_owned()]).into_keys().collect::<Vec<_>>();
        assert_eq!(asked(": \"${HOST:?is not set}\""), ["HOST"]);
        assert_eq!(asked("set -euo pipefail\nN=1\necho \"$N $HOST ${A:-} $HOME\""), ["HOST"]);
        assert_eq!(asked("echo \"$HOST\""), [""; 0]);
    }
}
