//! Single-fault mutants of valid tasks: every fault must be detected and reported at its location.
//!
//! Each task is mutated in every possible way, one at a time, in a few places spread over the file; with `GEVALS_EXHAUSTIVE=1`,
//! in every possible place. A fault is *seen* if an error or a warning
//! appears that the valid task does not have; it is *placed* if one of these is on the mutated line (for a missing key:
//! on the line of the parent's key).

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs,
    ops::Range,
    path::{Path, PathBuf},
};

use rayon::prelude::*;

use crate::support::page::exhaustive;
use gevals::{
    compile,
    diagnostic::{Diagnostics, Strength, Texts, mend},
    source::{MemoryFiles, Sources},
    yaml::{self, Data, Entry, Node},
};

#[test]
fn single_faults_in_tasks_are_reported_at_their_location() {
    hold(&corpus("kind: Task", 20), 14, 1000);
}

#[test]
fn single_faults_in_evals_are_reported_at_their_location() {
    hold(&corpus("kind: Eval", 20), 12, 500);
}

/// If one letter of one key or of one name in a hole is wrong, the safe fixes restore the original text, or change
/// nothing.
#[test]
fn safe_fixes_restore_the_original_or_change_nothing() {
    let corpus: Vec<Valid> = ["kind: Task", "kind: Eval"].into_iter().flat_map(|kind| corpus(kind, 20)).collect();
    let looked: Vec<(usize, usize, Vec<String>)> = corpus
        .par_iter()
        .map(|valid| {
            let (mut restored, mut left, mut third) = (0, 0, Vec::new());
            // If the valid text already has fixes, they do not come from the mutation.
            if valid.mended(&valid.text) != valid.text {
                return (0, 0, third);
            }
            let misspellings = misspellings(&valid.text);
            let step = if exhaustive() { 1 } else { misspellings.len().div_ceil(12).max(1) };
            for (range, with) in misspellings.into_iter().step_by(step) {
                let mutant = format!("{}{with}{}", &valid.text[..range.start], &valid.text[range.end..]);
                match valid.mended(&mutant) {
                    fixed if fixed == valid.text => restored += 1,
                    fixed if fixed == mutant => left += 1,
                    fixed => third.push(format!(
                        "{}: `{}` as `{with}`:\n{}",
                        valid.name,
                        &valid.text[range.clone()],
                        similar::TextDiff::from_lines(&valid.text, &fixed).unified_diff().context_radius(1)
                    )),
                }
            }
            (restored, left, third)
        })
        .collect();
    let restored: usize = looked.iter().map(|(n, ..)| n).sum();
    let left: usize = looked.iter().map(|(_, n, _)| n).sum();
    let third: Vec<_> = looked.into_iter().flat_map(|(.., third)| third).collect();
    println!("{restored} restored, {left} left, {} made into something else", third.len());
    assert!(third.is_empty(), "{}", third.join("\n"));
    assert!(restored > 1000 && restored > left, "{restored} restored, {left} left");
}

/// Every key and every name in a hole with a letter dropped, doubled, swapped with the next one, or replaced.
fn misspellings(text: &str) -> Vec<(Range<usize>, String)> {
    let sources = Sources::default();
    let file = sources.add("task.yaml", text);
    let tree = yaml::parse(file, text, &mut Diagnostics::default()).unwrap();
    let mut names = Vec::new();
    keys(tree.root(), &mut names);
    let hole = regex::Regex::new(r"[^{$\\]\{((?:env|steps|random|agent|task)\.[\w.-]+)").unwrap();
    for inner in hole.captures_iter(text).filter_map(|found| found.get(1)) {
        let mut at = inner.start();
        for name in inner.as_str().split('.').take(4) {
            names.push(at..at + name.len());
            at += name.len() + 1;
        }
    }
    let mut made: Vec<(Range<usize>, String)> = Vec::new();
    for (nth, range) in names.into_iter().enumerate() {
        let name = &text[range.clone()];
        let letters: Vec<char> = name.chars().collect();
        if letters.len() < 2 || !name.is_ascii() {
            continue;
        }
        // The position of the changed letter varies from name to name, so that every position is covered.
        let at = nth % letters.len();
        let edited = |edit: &dyn Fn(&mut Vec<char>)| {
            let mut letters = letters.clone();
            edit(&mut letters);
            letters.into_iter().collect::<String>()
        };
        let swapped = at.min(letters.len() - 2);
        let ways = [
            edited(&|l| {
                l.remove(at);
            }),
            edited(&|l| l.insert(at, l[at])),
            edited(&|l| l.swap(swapped, swapped + 1)),
            edited(&|l| l[at] = 'q'),
        ];
        // One mutation per name; the kind varies, so that every kind is covered.
        made.extend(ways.into_iter().nth(nth % 4).filter(|way| way != name).map(|way| (range.clone(), way)));
    }
    made
}

/// Collects the ranges of keys that belong to the format.
fn keys(node: Node<'_>, out: &mut Vec<Range<usize>>) {
    if node.data() == Data::Seq {
        node.items().for_each(|item| keys(item, out));
    }
    if node.data() != Data::Map {
        return;
    }
    for entry in node.entries() {
        let range = entry.key.span().range();
        if range.len() == entry.name.len() {
            out.push(range);
        }
        if !OWN_NAMES.contains(&entry.name) {
            keys(entry.value, out);
        }
    }
}

/// Creates all mutants, and checks that enough of them are seen and placed.
fn hold(corpus: &[Valid], kinds: usize, least: usize) {
    let looked: Vec<_> = corpus.par_iter().map(look).collect();
    let mut table: BTreeMap<&str, [usize; 3]> = BTreeMap::new();
    let mut missed = String::new();
    for (counts, unplaced) in looked {
        for (kind, seen, placed) in counts {
            let count = table.entry(kind).or_default();
            count[0] += 1;
            count[1] += usize::from(seen);
            count[2] += usize::from(placed);
        }
        missed += &unplaced;
    }
    let mut all = [0; 3];
    println!("{:16} {:>8} {:>8} {:>8}", "fault", "mutants", "seen", "placed");
    for (kind, count) in &table {
        println!("{kind:16} {:>8} {:>7.1}% {:>7.1}%", count[0], share(count[1], count[0]), share(count[2], count[0]));
        count.iter().zip(&mut all).for_each(|(n, sum)| *sum += n);
    }
    println!("{:16} {:>8} {:>7.1}% {:>7.1}%\n{missed}", "all", all[0], share(all[1], all[0]), share(all[2], all[0]));
    assert!(table.len() == kinds && all[0] > least, "the generator makes too little: {all:?} of {} kinds", table.len());
    assert!(share(all[1], all[0]) >= 99.0 && share(all[2], all[0]) >= 97.0, "{all:?}");
}

/// Tests each mutant of a file. Returns its kind and whether it is seen and placed, and a description of those that are
/// not placed.
fn look(valid: &Valid) -> (Vec<(&'static str, bool, bool)>, String) {
    let before: BTreeSet<_> = valid.findings(&valid.text).unwrap().into_iter().map(|f| (f.rule, f.message)).collect();
    let (mut counts, mut missed) = (Vec::new(), String::new());
    for mutant in spread(mutants(&valid.text)) {
        let text = mutant.text(&valid.text);
        let found = valid.findings(&text).unwrap_or_default();
        let new: Vec<_> = found.into_iter().filter(|f| !before.contains(&(f.rule, f.message.clone()))).collect();
        let placed = new.iter().any(|f| f.line == mutant.line);
        counts.push((mutant.kind, !new.is_empty(), placed));
        if !placed {
            let shown = text.lines().nth(mutant.line - 1).unwrap_or_default();
            writeln!(missed, "{}: {} line {}: {shown}", valid.name, mutant.kind, mutant.line).unwrap();
            new.iter().for_each(|f| writeln!(missed, "    line {}: {}: {}", f.line, f.rule, f.message).unwrap());
        }
    }
    (counts, missed)
}

/// Returns at most three mutants of each kind, spread over the file; with `GEVALS_EXHAUSTIVE`, all.
fn spread(mutants: Vec<Mutant>) -> Vec<Mutant> {
    if exhaustive() {
        return mutants;
    }
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    mutants.iter().for_each(|mutant| *counts.entry(mutant.kind).or_default() += 1);
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    mutants
        .into_iter()
        .filter(|mutant| {
            let nth = seen.entry(mutant.kind).or_default();
            *nth += 1;
            (*nth - 1).is_multiple_of(counts[mutant.kind].div_ceil(3))
        })
        .collect()
}

#[expect(clippy::cast_precision_loss, reason = "small counts")]
fn share(part: usize, whole: usize) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}

struct Valid {
    name: String,
    path: PathBuf,
    text: String,
    files: MemoryFiles,
}

struct Found {
    rule: &'static str,
    message: String,
    line: usize,
}

impl Valid {
    /// Returns errors and warnings in `text`.
    fn findings(&self, text: &str) -> Option<Vec<Found>> {
        let mut files = self.files.clone();
        files.add(&self.path, text, false);
        let sources = Sources::default();
        let compiled = compile(std::slice::from_ref(&self.path), &sources, &files);
        let heavy = compiled.diagnostics.iter().filter(|d| d.strength <= Strength::Warning);
        let found = heavy.map(|d| Found {
            rule: d.rule.name,
            message: d.message.clone(),
            line: sources.get(d.span.file).position(d.span.start).line,
        });
        Some(found.collect())
    }

    /// Returns the text after all safe fixes.
    fn mended(&self, text: &str) -> String {
        let look = |texts: &Texts, sources: &Sources| {
            let mut files = self.files.clone();
            files.add(&self.path, text, false);
            texts.iter().for_each(|(path, text)| files.add(path, text.clone(), false));
            Ok::<_, ()>(compile(std::slice::from_ref(&self.path), sources, &files).diagnostics)
        };
        let mended = mend(false, look).unwrap();
        mended.texts.get(&self.path).map_or_else(|| text.to_owned(), |text| String::from_utf8(text.clone()).unwrap())
    }

    fn is_valid(&self) -> bool {
        let mut files = self.files.clone();
        files.add(&self.path, self.text.as_str(), false);
        let sources = Sources::default();
        let compiled = compile(std::slice::from_ref(&self.path), &sources, &files);
        let (tasks, evals) = (compiled.project.tasks.len(), compiled.project.evals.len());
        (evals == 1 || tasks == 1) && !compiled.diagnostics.iter().any(|d| d.strength.is_error())
    }
}

/// The files of a kind in `examples/` and in the fixtures, and the valid ones in the pages of rules.
fn corpus(kind: &str, least: usize) -> Vec<Valid> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut corpus = Vec::new();
    for dir in [root.join("examples"), root.join("tests/fixtures/mutants")] {
        let mut files = MemoryFiles::default();
        let mut paths = Vec::new();
        read(&dir, &dir, &mut files, &mut paths);
        for path in paths {
            let text = fs::read_to_string(dir.join(&path)).unwrap();
            corpus.push(Valid { name: path.display().to_string(), path, text, files: files.clone() });
        }
    }
    for entry in fs::read_dir(root.join("lints")).unwrap() {
        let entry_path = entry.unwrap().path();
        let page = fs::read_to_string(&entry_path).unwrap();
        let blocks = page.split("\n```").filter_map(|b| Some((b.lines().next()?, b.split_once('\n')?.1)));
        let mut files = MemoryFiles::default();
        let mut right = Vec::new();
        for (fence, body) in blocks {
            let words: Vec<_> = fence.split_whitespace().collect();
            let (["yaml", "fail" | "pass", ..] | ["sh", ..]) = words.as_slice() else { continue };
            let named = words.iter().find(|w| w.contains('.')).map(|w| (*w).to_owned());
            let kind = body.lines().find_map(|l| l.strip_prefix("kind: ")).unwrap_or("task").to_lowercase();
            let path = named.unwrap_or_else(|| format!("{kind}.yaml"));
            let text = format!("{body}\n");
            files.add(path.as_str(), text.as_str(), words.contains(&"exec"));
            right.push((path, text));
        }
        for (path, text) in right {
            // If several blocks have the same name, `files` contains the last one.
            let name = format!("{}: {path}", path_name(&entry_path));
            corpus.push(Valid { name, path: path.into(), text, files: files.clone() });
        }
    }
    // Thousands of compilations of ten thousand steps would take many minutes.
    corpus.retain(|v| !v.name.starts_with("too-large.md"));
    corpus.retain(|v| v.text.lines().any(|l| l == kind) && v.is_valid());
    corpus.sort_by(|a, b| a.name.cmp(&b.name));
    corpus.dedup_by(|a, b| a.text == b.text);
    assert!(corpus.len() > least, "only {} are valid", corpus.len());
    corpus
}

fn path_name(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().into_owned()
}

fn read(base: &Path, dir: &Path, files: &mut MemoryFiles, yaml: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            read(base, &path, files, yaml);
            continue;
        }
        let short = path.strip_prefix(base).unwrap().to_owned();
        files.add(&short, fs::read(&path).unwrap(), path.extension().is_some_and(|e| e == "sh"));
        if path.extension().is_some_and(|e| e == "yaml") {
            yaml.push(short);
        }
    }
}

/// One edit, and the line on which it must be reported.
struct Mutant {
    kind: &'static str,
    range: Range<usize>,
    with: String,
    line: usize,
}

impl Mutant {
    fn text(&self, valid: &str) -> String {
        format!("{}{}{}", &valid[..self.range.start], self.with, &valid[self.range.end..])
    }
}

fn mutants(text: &str) -> Vec<Mutant> {
    let sources = Sources::default();
    let file = sources.add("task.yaml", text);
    let tree = yaml::parse(file, text, &mut Diagnostics::default()).unwrap();
    let mut maker = Maker {
        text,
        portable: text.contains("mcp-eval/v1"),
        eval: text.lines().any(|l| l == "kind: Eval"),
        extensions: Vec::new(),
        made: Vec::new(),
    };
    for requirement in tree.root().get("spec").and_then(|s| s.get("requires")).into_iter().flat_map(Node::items) {
        if let Some(name) = requirement.get("extension") {
            maker.extensions.extend(requirement.get("as").or(Some(name)).and_then(Node::as_str).map(str::to_owned));
        }
    }
    maker.map(tree.root(), &[], None);
    maker.holes();
    maker.made
}

struct Maker<'a> {
    text: &'a str,
    portable: bool,
    eval: bool,
    extensions: Vec<String>,
    made: Vec<Mutant>,
}

/// Keys whose nested names are chosen by the author.
const OWN_NAMES: [&str; 9] =
    ["labelSelector", "argumentsMatch", "env", "labels", "annotations", "outputs", "args", "headers", "json"];
/// Keys whose values can be anything.
const ANYTHING: [&str; 4] = ["equals", "annotations", "category", "json"];
const DURATIONS: [&str; 4] = ["timeout", "cleanupTimeout", "interval", "duration"];
/// A required key, and its parent key.
const REQUIRED: [(&str, &str); 20] = [
    ("config", ""),
    ("agent", "config"),
    ("taskSets", "config"),
    ("type", "agent"),
    ("server", "toolsUsed"),
    ("server", "callOrder"),
    ("metadata", ""),
    ("spec", ""),
    ("steps", ""),
    ("name", "metadata"),
    ("prompt", "spec"),
    ("prompt", "steps"),
    ("run", "command"),
    ("url", "http"),
    ("path", "file"),
    ("var", "foreach"),
    ("in", "foreach"),
    ("steps", "foreach"),
    ("steps", "eventually"),
    ("duration", "consistently"),
];

impl Maker<'_> {
    /// An additional letter in every name of every hole. The values of a step itself may have any field.
    fn holes(&mut self) {
        let text = if self.portable { self.text } else { "" };
        let hole = regex::Regex::new(r"[^{$\\]\{((?:env|steps|random|agent|task)\.[\w.-]+)").unwrap();
        for found in hole.captures_iter(text) {
            let inner = found.get(1).unwrap();
            let mut at = inner.start();
            for name in inner.as_str().split('.').take(4) {
                self.add("hole", at..at + name.len(), format!("{name}x"), at);
                at += name.len() + 1;
            }
        }
    }

    fn line(&self, at: usize) -> usize {
        self.text[..at].matches('\n').count() + 1
    }

    fn add(&mut self, kind: &'static str, range: Range<usize>, with: impl Into<String>, at: usize) {
        let line = self.line(at);
        self.made.push(Mutant { kind, range, with: with.into(), line });
    }

    /// `above`: the parent entry of the mapping.
    fn map(&mut self, map: Node<'_>, path: &[&str], above: Option<Entry<'_>>) {
        let parent = path.last().copied().unwrap_or_default();
        if OWN_NAMES.contains(&parent) {
            return;
        }
        let entries: Vec<_> = map.entries().collect();
        for (index, entry) in entries.iter().enumerate() {
            self.key(*entry, path);
            self.value(*entry, path);
            self.doubled(map, *entry);
            if REQUIRED.contains(&(entry.name, parent)) || (self.portable && (entry.name, parent) == ("verify", "spec"))
            {
                self.missing(map, &entries, index, above);
            }
            let mut below: Vec<&str> = path.to_vec();
            below.push(entry.name);
            self.inside(entry.value, &below, Some(*entry));
        }
    }

    fn inside(&mut self, node: Node<'_>, path: &[&str], above: Option<Entry<'_>>) {
        let name = path.last().copied().unwrap_or_default();
        if name.split_once('.').is_some_and(|(prefix, _)| self.extensions.iter().any(|e| e == prefix)) {
            return;
        }
        match node.data() {
            Data::Map => self.map(node, path, above),
            Data::Seq => {
                let steps = ["setup", "verify", "cleanup", "steps", "anyOf"].contains(&name);
                for item in node.items().filter(|i| matches!(i.data(), Data::Map)) {
                    if steps {
                        self.step(item);
                    }
                    self.map(item, path, above);
                }
            }
            _ => {}
        }
    }

    /// Typos and the wrong case in a key.
    fn key(&mut self, entry: Entry<'_>, path: &[&str]) {
        let at = entry.key.span().range();
        let name = entry.name;
        let parent = path.last().copied().unwrap_or_default();
        let is_step =
            ["setup", "verify", "cleanup", "steps", "anyOf"].contains(&parent) && name != "id" && path.len() > 1;
        if let Some((prefix, _)) = name.split_once('.') {
            let range = at.start..at.start + prefix.len();
            self.add("alias", range, format!("{prefix}x"), at.start);
            return;
        }
        let kind = if is_step && !(parent == "steps" && path.len() == 1) { "step type" } else { "key typo" };
        let mut doubled = name.to_owned();
        doubled.insert(1, name.as_bytes()[0] as char);
        let mut cut = name.to_owned();
        cut.pop();
        for typo in [doubled, cut].into_iter().filter(|t| t.len() > 1) {
            self.add(kind, at.clone(), typo, at.start);
        }
        let mut case = name.to_owned();
        case[..1].make_ascii_uppercase();
        self.add("key case", at.clone(), case, at.start);
    }

    fn value(&mut self, entry: Entry<'_>, path: &[&str]) {
        let value = entry.value;
        let at = value.span().range();
        let parent = path.last().copied().unwrap_or_default();
        let simple = !matches!(value.data(), Data::Map | Data::Seq) && !self.text[at.clone()].starts_with(['|', '>']);
        let name = entry.name;
        if ANYTHING.contains(&name) || name.contains('.') || at.is_empty() {
            return;
        }
        let wrong = if matches!(value.data(), Data::Map | Data::Seq) { "12" } else { "[[x]]" };
        if (name, parent) != ("kind", "") && (name, parent) != ("apiVersion", "") {
            self.add("wrong type", at.clone(), wrong, at.start);
        }
        if !simple {
            return;
        }
        let mut words: Vec<(&'static str, String)> = Vec::new();
        match name {
            _ if DURATIONS.contains(&name) || name == "sleep" => {
                words.extend(["30", "0s", "-5s", "5 min", "1d"].map(|w| ("duration", w.to_owned())));
            }
            "difficulty" => words.extend(["medum", "Easy"].map(|w| ("enum", w.to_owned()))),
            "kind" if self.eval => words.extend(["eval", "Evl", "Evals"].map(|w| ("kind", w.to_owned()))),
            "type" if parent == "agent" || parent == "callOrder" => words.push(("enum", "bulitin.nop".to_owned())),
            "path" | "glob" | "mcpConfigFile" if self.eval => words.push(("missing file", "nowhere.yaml".to_owned())),
            "toolPattern" | "uriPattern" => words.push(("pattern", "\"[\"".to_owned())),
            "server" if self.eval => words.push(("server", "clutser".to_owned())),
            "minToolCalls" | "maxToolCalls" => words.extend(["-1", "many"].map(|w| ("number", w.to_owned()))),
            "protocol" | "type" => words.extend(["jsn", "String"].map(|w| ("enum", w.to_owned()))),
            "status" => words.extend(["20x", "\"200\"", "2000"].map(|w| ("enum", w.to_owned()))),
            "kind" => words.extend(["task", "Taks", "Tasks"].map(|w| ("kind", w.to_owned()))),
            "apiVersion" => {
                words.extend(["mcp-eval/v2", "mcpchecker/v1", "gevals/v1alpha2"].map(|w| ("version", w.to_owned())))
            }
            "file" => words.push(("missing file", "nowhere.sh".to_owned())),
            _ => {}
        }
        for (kind, word) in words {
            self.add(kind, at.clone(), word, at.start);
        }
    }

    fn is_flow(&self, map: Node<'_>) -> bool {
        self.text[map.span().range()].starts_with('{')
    }

    /// The same key again, after this one.
    fn doubled(&mut self, map: Node<'_>, entry: Entry<'_>) {
        let (start, end) = (entry.key.span().range().start, entry.value.span().range().end);
        let written = &self.text[start..end];
        if written.contains('\n') || end <= start {
            return;
        }
        if self.is_flow(map) {
            self.add("duplicate key", end..end, format!(", {written}"), end);
        } else {
            let with = format!("\n{}{written}", " ".repeat(self.column(start)));
            let line = self.line(end) + 1;
            self.made.push(Mutant { kind: "duplicate key", range: end..end, with, line });
        }
    }

    fn column(&self, at: usize) -> usize {
        at - self.text[..at].rfind('\n').map_or(0, |i| i + 1)
    }

    fn missing(&mut self, map: Node<'_>, entries: &[Entry<'_>], index: usize, above: Option<Entry<'_>>) {
        let entry = entries[index];
        let (start, end) = (entry.key.span().range().start, entry.value.span().range().end);
        let place = above.map_or(0, |a| a.key.span().range().start);
        let line_start = self.text[..start].rfind('\n').map_or(0, |i| i + 1);
        let range = match (self.is_flow(map), entries.get(index + 1), index.checked_sub(1)) {
            (true, Some(next), _) => start..next.key.span().range().start,
            (true, None, Some(before)) => entries[before].value.span().range().end..end,
            (true, None, None) => start..end,
            _ if !self.text[line_start..start].trim().is_empty() => return,
            _ => line_start..self.text[end..].find('\n').map_or(self.text.len(), |i| end + i + 1),
        };
        let line = match above {
            // The first remaining key, after comments.
            None => self.line(self.text.find("kind:").unwrap_or(place)),
            Some(_) => self.line(place),
        };
        self.made.push(Mutant { kind: "missing key", range, with: String::new(), line });
    }

    /// A second operation in one step.
    fn step(&mut self, step: Node<'_>) {
        let Some(operation) = step.entries().find(|e| e.name != "id") else { return };
        let second = match operation.name {
            "script" => "http: {url: \"http://localhost/\", expect: {status: 200}}",
            _ => "script: {inline: kubectl get pod web}",
        };
        let (start, end) = (operation.key.span().range().start, operation.value.span().range().end);
        if self.is_flow(step) {
            self.add("two types", end..end, format!(", {second}"), start);
        } else {
            let with = format!("\n{}{second}", " ".repeat(self.column(start)));
            let line = self.line(end) + 1;
            self.made.push(Mutant { kind: "two types", range: end..end, with, line });
        }
    }
}
