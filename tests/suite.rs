//! Tests that are pages: each rule's page in `lints/`, and the language in `tests/suite/`. See `tests/README.md`.
//!
//! `BLESS=1 cargo test --test all suite::` updates the pages with the current output of gevals. Review what it writes.

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    fs,
    ops::Range,
    path::{Path, PathBuf},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use gevals::{
    Compiled, Memory, Options, Plans,
    affected::Changed,
    compile, compile_changed, compile_with,
    diagnostic::{Diagnostic, Pretty, Rule, Strength, concise, fix, print},
    lint,
    plan::wire,
    source::{Files, MemoryFiles, ReadError, Sources, Span, Stat, normalize},
};
use rayon::prelude::*;

use crate::support::page::{Block, Page, exhaustive, files, pages};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn blessing() -> bool {
    std::env::var_os("BLESS").is_some_and(|v| v == "1") && std::env::var_os("CI").is_none()
}

/// Faults of pages; with `BLESS=1`, the expected output is updated instead.
#[derive(Default)]
struct Faults(Vec<String>);

impl Faults {
    fn push(&mut self, page: &Page, line: usize, fault: impl AsRef<str>) {
        let path = page.path.strip_prefix(root()).unwrap_or(&page.path).display();
        self.0.push(format!("{path}:{line}: {}", fault.as_ref()));
    }

    /// Compares blocks with the current output, or updates them when blessing.
    fn expect(&mut self, page: &Page, bodies: Vec<(usize, Range<usize>, String)>) {
        let stale: Vec<_> = bodies.into_iter().filter(|(_, range, body)| page.text[range.clone()] != *body).collect();
        if stale.is_empty() {
            return;
        }
        if blessing() {
            let bodies: Vec<_> = stale.into_iter().map(|(_, range, body)| (range, body)).collect();
            fs::write(&page.path, page.with(&bodies)).unwrap();
            return;
        }
        for (line, range, body) in stale {
            self.push(page, line, format!("gevals says something else now\n{}", diff(&page.text[range], &body)));
        }
    }

    fn done(self) {
        let bless = "to write down what gevals says now: BLESS=1 cargo test --test all suite::";
        assert!(self.0.is_empty(), "\n{}\n\n{bless}", self.0.join("\n"));
    }
}

fn diff(old: &str, new: &str) -> String {
    similar::TextDiff::from_lines(old, new).unified_diff().context_radius(2).to_string()
}

/// A compiled project, with the properties that every project must have.
struct Case {
    compiled: Compiled,
    sources: Sources,
}

impl Case {
    fn new(blocks: &[&Block]) -> Result<Self, String> {
        let (files, roots) = files(blocks);
        Self::of(&files, &roots)
    }

    fn once(files: &MemoryFiles, roots: &[PathBuf]) -> Result<Self, String> {
        let everything = Options { workspace: true, ..Options::default() };
        let sources = Sources::default();
        let compiled = compile_with(roots, &everything, &sources, files);
        let case = Self { compiled, sources };
        case.spans_lie_in_their_files()?;
        case.plans_exist_if_and_only_if_nothing_is_hard(roots)?;
        Ok(case)
    }

    /// Like `once`; compiling twice must give the same result.
    fn of(files: &MemoryFiles, roots: &[PathBuf]) -> Result<Self, String> {
        let everything = Options { workspace: true, ..Options::default() };
        let case = Self::once(files, roots)?;
        let again = Sources::default();
        let twice = Self { compiled: compile_with(roots, &everything, &again, files), sources: again };
        match case.concise() == twice.concise() && case.plans() == twice.plans() {
            true => Ok(case),
            false => Err("compiling twice gives two answers".to_owned()),
        }
    }

    fn diagnostics(&self) -> &[Diagnostic] {
        &self.compiled.diagnostics
    }

    fn pretty(&self, diagnostics: &[Diagnostic]) -> String {
        let mut out = String::new();
        print(diagnostics, &self.sources, &Pretty { limit: None, ..Pretty::default() }, &mut out).unwrap();
        let lines: Vec<_> = out.trim_end().lines().map(str::trim_end).collect();
        lines.join("\n") + "\n"
    }

    fn concise(&self) -> String {
        let mut out = String::new();
        let style = Pretty { limit: None, ..Pretty::default() };
        concise(self.diagnostics(), &self.sources, &style, &mut out).unwrap();
        out
    }

    fn plans(&self) -> Vec<Option<String>> {
        let tasks = self.compiled.tasks.iter().map(|p| p.as_deref().map(wire::digest));
        let evals = self.compiled.evals.iter().map(|p| p.as_ref().map(wire::eval_digest));
        tasks.chain(evals).collect()
    }

    fn spans_lie_in_their_files(&self) -> Result<(), String> {
        for diagnostic in self.diagnostics() {
            let edits = diagnostic.fix.iter().flat_map(|f| &f.edits).map(|e| e.span);
            let labels = diagnostic.labels.iter().map(|l| l.span);
            for span in std::iter::once(diagnostic.span).chain(labels).chain(edits) {
                if span.start > span.end || self.sources.get(span.file).text().get(span.range()).is_none() {
                    return Err(format!("`{}` points outside its file: {span:?}", diagnostic.message));
                }
            }
        }
        Ok(())
    }

    /// `decisions.md` §1: there is a plan if and only if there is no hard error.
    fn plans_exist_if_and_only_if_nothing_is_hard(&self, roots: &[PathBuf]) -> Result<(), String> {
        let Compiled { project, evals, tasks, diagnostics, .. } = &self.compiled;
        let hard: Vec<&Diagnostic> = diagnostics.iter().filter(|d| d.strength == Strength::Hard).collect();
        if hard.is_empty() && (tasks.iter().any(Option::is_none) || evals.iter().any(Option::is_none)) {
            return Err("there is no hard error, and no plan either".to_owned());
        }
        for error in hard {
            let inside = |span: Span| {
                let task = project.tasks.iter().position(|t| t.file == span.file);
                let eval = project.evals.iter().position(|e| e.file == span.file);
                let selecting = |t: usize| {
                    project.evals.iter().zip(evals).any(|(e, p)| p.is_none() && e.selected.iter().any(|s| s.task == t))
                };
                match (task, eval) {
                    (Some(t), _) => tasks[t].is_none() || selecting(t),
                    (_, Some(e)) => evals[e].is_none(),
                    // A file named on the command line, or one that tasks or evals refer to.
                    _ => {
                        roots.contains(&self.sources.path(span))
                            || tasks.iter().any(Option::is_none)
                            || evals.iter().any(Option::is_none)
                    }
                }
            };
            if !inside(error.span) {
                return Err(format!("`{}` is a hard error, and there is a plan", error.message));
            }
        }
        Ok(())
    }
}

/// Semantic faults, each a single edit of a project without findings: `tests/ledger/`.
#[test]
fn faults_of_the_ledger_are_reported() {
    let mut faults = Faults::default();
    let (mut seen, mut all) = (0, 0);
    for page in pages(&root().join("tests/ledger")) {
        let is_file = |block: &&Block| !matches!(block.language(), "fault" | "seen");
        let base: Vec<&Block> = page.blocks.iter().filter(is_file).collect();
        match Case::new(&base).map(|case| case.concise()) {
            Ok(found) if found.is_empty() => {}
            Ok(found) => faults.push(&page, 1, format!("nothing is wrong with the project, and gevals says\n{found}")),
            Err(why) => faults.push(&page, 1, why),
        }
        let mut bodies = Vec::new();
        for pair in page.blocks.windows(2) {
            let [fault, block] = pair else { continue };
            if fault.language() != "fault" || block.language() != "seen" {
                continue;
            }
            all += 1;
            let edited: Vec<Block> = base.iter().map(|file| with_fault(file, fault)).collect();
            let (files, roots) = files(&edited.iter().collect::<Vec<_>>());
            match Case::once(&files, &roots) {
                Ok(case) => {
                    let rules: BTreeSet<&str> = case.diagnostics().iter().map(|finding| finding.rule.name).collect();
                    seen += usize::from(!rules.is_empty());
                    let text: String = rules.iter().map(|rule| format!("{rule}\n")).collect();
                    bodies.push((
                        block.line,
                        block.range.clone(),
                        if text.is_empty() { "nothing\n".to_owned() } else { text },
                    ));
                }
                Err(why) => faults.push(&page, fault.line, why),
            }
        }
        faults.expect(&page, bodies);
    }
    faults.done();
    assert!(all > 70 && seen * 4 >= all * 3, "{seen} of {all} faults are seen");
}

/// Returns the file with the fault applied, if the fault is in this file: lines with `-` are replaced by those with
/// `+`.
fn with_fault(file: &Block, fault: &Block) -> Block {
    if file.file() != fault.file() {
        return file.clone();
    }
    let lines = |sign: char| -> String {
        let lines = fault.body.lines().filter_map(|line| line.strip_prefix(sign));
        lines.map(|line| format!("{line}\n")).collect()
    };
    let (old, new) = (lines('-'), lines('+'));
    assert_eq!(file.body.matches(&old).count(), 1, "{}: {old}", fault.line);
    Block { body: file.body.replacen(&old, &new, 1), ..file.clone() }
}

#[test]
fn rules_match_their_pages() {
    let mut faults = Faults::default();
    let mut seen = BTreeSet::new();
    for page in pages(&root().join("lints")) {
        match lint::rule(page.name()) {
            Some(rule) => {
                seen.insert(rule.name);
                rule_page(&page, rule, &mut faults);
            }
            None => faults.push(&page, 1, "this page explains no rule of `lint::RULES`"),
        }
    }
    for lint in lint::RULES.iter().filter(|l| !seen.contains(l.rule.name)) {
        faults.0.push(format!("`{}` has no page in lints/", lint.rule.name));
    }
    faults.done();
}

fn rule_page(page: &Page, rule: &'static Rule, faults: &mut Faults) {
    let of = |word: &str| page.blocks.iter().filter(|b| b.has(word)).collect::<Vec<_>>();
    let (fail, pass) = (of("fail"), of("pass"));
    if rule.strength <= Strength::Verdict && !page.text.contains("\n**Why it is an error:** ") {
        faults.push(
            page,
            1,
            "a page of an error has a paragraph `**Why it is an error:** …`: why the file cannot be right",
        );
    }
    let texts: Vec<_> = page.blocks.iter().filter(|b| b.language() == "text").collect();
    let ([text], false, false) = (texts.as_slice(), fail.is_empty(), pass.is_empty()) else {
        return faults.push(page, 1, "a page has `fail` blocks, one `text` block and `pass` blocks");
    };
    let mended: Vec<&Block> = fail.iter().chain(&pass).copied().collect();
    let (broken, mended) = match (Case::new(&fail), Case::new(&mended)) {
        (Ok(broken), Ok(mended)) => (broken, mended),
        (Err(fault), _) => return faults.push(page, fail[0].line, fault),
        (_, Err(fault)) => return faults.push(page, pass[0].line, fault),
    };
    let found: Vec<Diagnostic> = broken.diagnostics().iter().filter(|d| d.rule.name == rule.name).cloned().collect();
    if !found.iter().any(|d| d.strength == rule.strength) {
        return faults.push(page, fail[0].line, format!("the rule does not fire\n{}", broken.concise()));
    }
    let others: Vec<Diagnostic> =
        broken.diagnostics().iter().filter(|d| d.rule.name != rule.name && d.strength.is_error()).cloned().collect();
    if !others.is_empty() {
        faults.push(page, fail[0].line, format!("other rules fire\n{}", broken.pretty(&others)));
    }
    if mended.diagnostics().iter().any(|d| d.strength.is_error() || d.rule.name == rule.name) {
        faults.push(page, pass[0].line, format!("`pass` does not pass\n{}", mended.concise()));
    }
    faults.expect(page, vec![(text.line, text.range.clone(), broken.pretty(&found))]);
    if found.iter().any(|d| d.fix.is_some()) {
        let fixed = fix::apply_all(&found, &broken.sources);
        for block in pass {
            let was = fail.iter().find(|b| b.file() == block.file()).map(|b| b.text()).unwrap_or_default();
            let now = fixed.iter().find(|(file, _)| broken.sources.get(*file).path() == Path::new(block.file()));
            let now = now.map_or(was, |(_, text)| text.clone());
            if now != block.text() {
                faults.push(page, block.line, format!("the fix does not give `pass`\n{}", diff(&block.text(), &now)));
            }
        }
    }
}

#[test]
fn the_index_of_rules_is_current() {
    let mut index = String::from(INDEX);
    for lint in lint::RULES {
        let Rule { name, strength, .. } = lint.rule;
        let strength = match strength {
            Strength::Hard => "hard error",
            Strength::Verdict => "verdict error",
            Strength::Warning => "warning",
            Strength::Note => "note",
        };
        writeln!(index, "| [{name}]({name}.md) | {strength} | {} |", lint.rule.summary().replace('|', "\\|")).unwrap();
    }
    let page = Page::read(&root().join("lints/README.md"));
    let mut faults = Faults::default();
    faults.expect(&page, vec![(1, 0..page.text.len(), index)]);
    faults.done();
}

const INDEX: &str = "\
# Rules

One page a rule: why it matters, the smallest example, what gevals prints, what to write instead. `gevals explain RULE`
prints it. Every page is a test, and this index is generated (`BLESS=1 cargo test --test all suite::`).

A *hard error* leaves a file without meaning: it has no plan. A *verdict error* leaves the meaning as it is and says that
it probably fools its author. *Warnings* and *notes* never block.

| rule | strength | summary |
|---|---|---|
";

#[test]
fn the_language_matches_its_pages() {
    let mut faults = Faults::default();
    for page in pages(&root().join("tests/suite")) {
        language_page(&page, &mut faults);
    }
    faults.done();
}

/// Files, followed by the findings of gevals. Files before the first second-level heading belong to every case.
fn language_page(page: &Page, faults: &mut Faults) {
    let mut shared: Vec<&Block> = Vec::new();
    let mut own: Vec<&Block> = Vec::new();
    let mut bodies = Vec::new();
    let mut heading = 0;
    for block in &page.blocks {
        if block.heading.0 != heading {
            if !own.is_empty() {
                faults.push(page, own[0].line, "nothing is expected of these files");
            }
            heading = block.heading.0;
            own.clear();
        }
        match block.language() {
            "diagnostics" => {
                let all: Vec<&Block> = shared.iter().chain(&own).copied().collect();
                match Case::new(&all) {
                    Ok(case) => bodies.push((block.line, block.range.clone(), case.concise())),
                    Err(fault) => faults.push(page, block.line, fault),
                }
                own.clear();
            }
            _ if heading <= 1 => shared.push(block),
            _ => own.push(block),
        }
    }
    if !own.is_empty() {
        faults.push(page, own[0].line, "nothing is expected of these files");
    }
    faults.expect(page, bodies);
}

/// Returns the findings for one file of hostile bytes, named on the command line.
fn hostile(path: &str, bytes: impl Into<Vec<u8>>) -> String {
    let mut files = MemoryFiles::default();
    files.add(path, bytes, false);
    Case::of(&files, &[PathBuf::from(path)]).unwrap().concise()
}

#[test]
fn hostile_files_have_one_clear_error() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let laughs = |levels: usize| {
        let mut text = String::from("a0: &a0 [ha, ha, ha, ha, ha, ha, ha, ha, ha, ha]\n");
        for level in 1..levels {
            let items = vec![format!("*a{}", level - 1); 10].join(", ");
            writeln!(text, "a{level}: &a{level} [{items}]").unwrap();
        }
        text
    };
    let cases: Vec<(&str, Vec<u8>, &str)> = vec![
        ("empty", Vec::new(), "unknown-kind"),
        ("blank", b"\n\n  \n".to_vec(), "unknown-kind"),
        ("comment", b"# nothing\n".to_vec(), "unknown-kind"),
        ("bom", b"\xef\xbb\xbf".to_vec(), "unknown-kind"),
        ("binary", (0..=255).cycle().take(4096).collect(), "syntax"),
        ("nul", b"kind: Task\0".to_vec(), "syntax"),
        (
            "utf-16",
            "kind: Task".encode_utf16().flat_map(u16::to_le_bytes).fold(vec![0xff, 0xfe], |mut v, b| {
                v.push(b);
                v
            }),
            "syntax",
        ),
        ("brackets", nested(100_000).into(), "nesting"),
        ("open", "[".repeat(100_000).into(), "nesting"),
        ("braces", "{a: ".repeat(100_000).into(), "nesting"),
        ("dashes", "- ".repeat(100_000).into(), "nesting"),
        ("laughs", laughs(30).into(), "alias-expansion"),
        ("long key", format!("{}: 1\n", "k".repeat(2000)).into(), ""),
        ("long line", format!("kind: {}\n", "k".repeat(10_000_000)).into(), "unknown-kind"),
    ];
    for (name, bytes, rule) in cases {
        let found = hostile("t.yaml", bytes);
        let first: String = found.lines().next().unwrap_or_default().chars().take(200).collect();
        assert!(found.lines().count() == 1 && found.len() < 1000 && found.contains(rule), "{name}: {first}");
    }
}

#[test]
fn large_files_are_read_completely() {
    let compiled = |text: &str| {
        let mut files = MemoryFiles::default();
        files.add("t.yaml", text, false);
        compile(&[PathBuf::from("t.yaml")], &Sources::default(), &files)
    };
    let head = "kind: Task\napiVersion: mcp-eval/v1\nmetadata: {name: big}\nspec:\n  prompt: |\n";
    let line =
        "    Create a pod {in} the {env.NAMESPACE}, and print {\"a\": 1}, in a long line of prose that goes on.\n";
    let count = 10_000_000 / line.len();
    let text = format!("{head}{}  verify:\n    - comand: {{run: \"true\"}}\n", line.repeat(count));
    let found = compiled(&text).diagnostics;
    assert_eq!(found.len(), count + 1);
    assert_eq!(found[count].rule.name, "unknown-operation");
    let steps = format!("{head}    Go.\n  verify:\n{}", "    - command: {run: \"true\"}\n".repeat(20_000));
    assert!(compiled(&steps).tasks[0].is_some());
}

#[test]
fn folders_without_evals_are_not_an_error() {
    let mut files = MemoryFiles::default();
    files.add("notes/readme.md", "# kind: Task", false);
    files.add("notes/values.yaml", "image: x", false);
    for root in ["notes", "."] {
        let case = Case::of(&files, &[PathBuf::from(root)]).unwrap();
        assert_eq!((case.concise().as_str(), case.compiled.project.files()), ("", 0));
        assert_eq!(case.compiled.project.unreadable, [""; 0].map(PathBuf::from));
    }
    let case = Case::of(&files, &[PathBuf::from("nowhere")]).unwrap();
    assert_eq!(case.compiled.project.unreadable, [PathBuf::from("nowhere")]);
}

#[test]
fn every_prefix_of_every_page_can_be_compiled() {
    for page in pages(&root().join("lints")).iter().chain(&pages(&root().join("tests/suite"))) {
        for block in page.blocks.iter().filter(|b| ["yaml", "json"].contains(&b.language())) {
            let text = block.text();
            let cuts = text.char_indices().map(|(at, _)| at).step_by(if exhaustive() { 97 } else { 389 });
            for cut in cuts {
                hostile(block.file(), &text.as_bytes()[..cut]);
            }
        }
    }
}

#[test]
fn fixes_keep_quotes() {
    let cases = [
        (
            r#"{"kind": "Task", "apiVersion": "mcp-eval/v1", "metadata": {"name": "t"}, "spec": {"promt": "a", "prompt": "Say {env}.", "verify": [{"comand": {"run": "true", "timeout": 5}}]}}"#,
            "t.json",
            true,
        ),
        ("kind: 'Taks'\n", "t.yaml", false),
    ];
    for (text, path, json) in cases {
        let mut files = MemoryFiles::default();
        files.add(path, text, false);
        let case = Case::of(&files, &[PathBuf::from(path)]).unwrap();
        let fixed = fix::apply_all(case.diagnostics(), &case.sources);
        assert_eq!(fixed.len(), 1, "{}", case.concise());
        let fixed = &fixed[0].1;
        match json {
            true => assert!(serde_json::from_str::<serde_json::Value>(fixed).is_ok(), "{fixed}"),
            false => assert_eq!(fixed, "kind: 'Task'\n"),
        }
    }
}

/// Each case: the faulty text, the line of the finding, and what to write instead.
#[test]
fn mistakes_are_reported_with_a_correction() {
    const HEAD: &str = "kind: Task\napiVersion: mcp-eval/v1\nmetadata: {name: t}\nspec:\n";
    const STEPS: &str =
        "kind: Task\napiVersion: mcpchecker/v1alpha2\nmetadata: {name: t}\nspec:\n  prompt: {inline: x}\n";
    let cases = [
        (HEAD, "  prompt: x\n  requires: [notes]\n  verify: []\n", 6, "write `mcpServer: notes` or `command: notes`"),
        (HEAD, "  prompt: x\n  verify:\n    - command: {run: [test, -e, a b]}\n", 7, "`\"test -e 'a b'\"`"),
        (
            HEAD,
            "  prompt: x\n  verify:\n    - command: {run: cat a, expect: {stdout: {contains: [a, b]}}}\n",
            7,
            "check each other text in a step of its own",
        ),
        (
            HEAD,
            "  prompt: x\n  verify:\n    - command: {run: cat a, expect: milk}\n",
            7,
            "`expect: {stdout: {contains: milk}}`",
        ),
        (
            HEAD,
            "  prompt: x\n  verify:\n    - command: {run: cat a, expect: 'a: b'}\n",
            7,
            "`expect: {stdout: {contains: \"a: b\"}}`",
        ),
        (HEAD, "  prompt: x\n  verify:\n    - command: {run: cat a, expect: 1}\n", 7, "`expect: {exitCode: 1}`"),
        (HEAD, "  prompt: x\n  verify:\n    - http: {url: http://a/, expect: 404}\n", 7, "`expect: {status: 404}`"),
        (
            HEAD,
            "  requires: [{mcpServer: n}]\n  prompt: x\n  verify:\n    - n.get: {expect: milk}\n",
            8,
            "`expect: {content: {contains: milk}}`",
        ),
        (
            HEAD,
            "  requires: [{mcpServer: n}]\n  prompt: x\n  verify:\n    - n.get: {title: a}\n",
            8,
            "`args: {title: …}`",
        ),
        (HEAD, "  prompt: a {random.id | uppercase}\n  verify: []\n", 5, "did you mean `upper`?"),
        (STEPS, "  verify: [{script: {inline: cat a, expect: {stdout: a}}}]\n", 6, "`… | grep -q WORD`"),
    ];
    for (head, text, line, cure) in cases {
        let mut files = MemoryFiles::default();
        files.add("task.yaml", format!("{head}{text}"), false);
        let case = Case::of(&files, &[PathBuf::from("task.yaml")]).unwrap();
        let errors: Vec<_> = case.diagnostics().iter().filter(|d| d.strength.is_error()).collect();
        let [error] = errors.as_slice() else { panic!("{text}{}", case.concise()) };
        let at = case.sources.get(error.span.file).position(error.span.start).line;
        let help = error.help.as_deref().unwrap_or_default();
        assert!(at == line && help.contains(cure), "{text}{at}: {}: {help}", error.message);
    }
}

/// Fixes of mistakes that require more than one word.
#[test]
fn fixes_of_several_words_are_correct() {
    const EVAL: &str = "kind: Eval\nmetadata: {name: e}\nconfig:\n  agent: {type: builtin.noop}\n";
    const TASK: &str = "kind: Task\napiVersion: mcp-eval/v1\nmetadata: {name: t}\nspec:\n  prompt: Do it.\n";
    let cases = [
        (
            "t.yaml",
            TASK,
            "  setup:\n    - script: |\n        set -e\n\n          touch x\n    - script: ./setup.sh\n  verify:\n    - command: 'test \"$X\"'\n",
            "  setup:\n    - script:\n        inline: |\n          set -e\n\n            touch x\n    - script: {file: \"./setup.sh\"}\n  verify:\n    - command: {run: \"test \\\"$X\\\"\"}\n",
        ),
        // A name that the script itself uses is one of Python; any other is one of the task.
        (
            "t.yaml",
            TASK,
            "  env: {SHOP: corner}\n  verify:\n    - script:\n        inline: |\n          #!/usr/bin/env python3\n          total = input()\n          assert total, f\"{total} of {SHOP}\"\n",
            "  env: {SHOP: corner}\n  verify:\n    - script:\n        inline: |\n          #!/usr/bin/env python3\n          total = input()\n          assert total, f\"\\{total} of {env.SHOP}\"\n",
        ),
        (
            "e.yaml",
            "kind: Eval\nmetadata: {name: e}\nconfig:\n",
            "  agent: agents/a.yaml\n  taskSets:\n    - t*.yaml\n    - tasks\n    - t.yaml\n",
            "  agent: {type: file, path: agents/a.yaml}\n  taskSets:\n    - {glob: t*.yaml}\n    - {glob: \"tasks/*.yaml\"}\n    - {path: t.yaml}\n",
        ),
        (
            "e.yaml",
            EVAL,
            "  llmJudge:\n    type: builtin.llm-agent # the judge\n    model: openai:gpt-5\n  taskSets: \"*.yml\"\n",
            "  llmJudge:\n    ref:\n      type: builtin.llm-agent # the judge\n      model: openai:gpt-5\n  taskSets: [{glob: \"*.yml\"}]\n",
        ),
        (
            "e.yaml",
            EVAL,
            "  llmJudge: {type: builtin.llm-agent, model: \"openai:gpt-5\"}\n  taskSets: [{path: t.yaml, assertions: {skillsLoaded: [a b]}}]\n",
            "  llmJudge: {ref: {type: builtin.llm-agent, model: \"openai:gpt-5\"}}\n  taskSets: [{path: t.yaml, assertions: {skillsLoaded: [{skill: \"a b\"}]}}]\n",
        ),
        (
            "mcp.yaml",
            "mcpServers:\n",
            "  a:\n    command: npx -y server\n    autoApprove: [x]\n  b: {command: 'uvx b --c'}\n  c: {url: localhost:1, headers: {A: Bearer $T, B: \"$U x\"}}\n  d: {cmd: d}\n  e: {command: e, args: a b}\n  f: {command: npx -y f, args: [g]}\n",
            "  a:\n    command: npx\n    args: [\"-y\", \"server\"]\n    alwaysAllow: [x]\n  b: {command: \"uvx\", args: [\"b\", \"--c\"]}\n  c: {url: http://localhost:1, headers: {A: \"Bearer ${T}\", B: \"${U} x\"}}\n  d: {command: d}\n  e: {command: e, args: [\"a\", \"b\"]}\n  f: {command: npx, args: [\"-y\", \"f\", g]}\n",
        ),
        (
            "mcp.json",
            "",
            "{\"mcpServers\": {\"a\": {\"command\": \"npx -y a\", \"enableAllTools\": \"true\"}}}",
            "{\"mcpServers\": {\"a\": {\"command\": \"npx\", \"args\": [\"-y\", \"a\"], \"enableAllTools\": true}}}",
        ),
    ];
    for (path, head, written, meant) in cases {
        let mut files = MemoryFiles::default();
        files.add("t.yaml", format!("{TASK}  verify: [command: {{run: \"true\"}}]\n"), false);
        files.add(path, format!("{head}{written}"), false);
        let case = Case::of(&files, &[PathBuf::from(path)]).unwrap();
        let fixed = fix::apply_all(case.diagnostics(), &case.sources);
        let fixed = fixed.iter().find(|(file, _)| case.sources.get(*file).path() == Path::new(path));
        assert_eq!(fixed.map(|(_, text)| text.as_str()), Some(&*format!("{head}{meant}")), "{}", case.concise());
    }
}

/// `grammar/vectors/scope.json`: which roots are in scope at which location.
#[test]
fn holes_can_use_the_roots_in_their_scope() {
    let vectors = fs::read_to_string(root().join("grammar/vectors/scope.json")).unwrap();
    let vectors: serde_json::Value = serde_json::from_str(&vectors).unwrap();
    let mut faults = Vec::new();
    for place in vectors["places"].as_array().unwrap() {
        let expected: BTreeSet<&str> = place["roots"].as_array().unwrap().iter().map(|r| r.as_str().unwrap()).collect();
        let mut found = BTreeSet::new();
        for (name, hole) in vectors["holes"].as_object().unwrap() {
            let text = place["task"].as_str().unwrap().replace("HOLE", hole.as_str().unwrap());
            let said = hostile("t.yaml", text);
            let unseen = said.contains("[unknown-name]") || said.contains("[out-of-scope]");
            if !unseen {
                found.insert(name.as_str());
            }
        }
        if found != expected {
            let place = &place["place"];
            faults.push(format!("{place}: not expected {:?}, missing {:?}", &found - &expected, &expected - &found));
        }
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

/// Files, with a record of every path that was read or queried.
struct Recorded<'a> {
    files: &'a MemoryFiles,
    asked: &'a Mutex<BTreeSet<PathBuf>>,
}

impl Recorded<'_> {
    fn note(&self, path: &Path) {
        self.asked.lock().unwrap().insert(path.to_owned());
    }
}

impl Files for Recorded<'_> {
    fn read(&self, path: &Path) -> Result<Vec<u8>, ReadError> {
        self.note(path);
        self.files.read(path)
    }

    fn stat(&self, path: &Path) -> Option<Stat> {
        self.note(path);
        self.files.stat(path)
    }

    fn refusal(&self, path: &Path) -> Option<ReadError> {
        self.note(path);
        self.files.refusal(path)
    }

    fn list(&self, dir: &Path) -> Vec<String> {
        self.note(dir);
        self.files.list(dir)
    }
}

/// A project that is compiled repeatedly, with the memory of the previous compilations.
#[derive(Default)]
struct Edited {
    memory: Memory,
    asked: Mutex<BTreeSet<PathBuf>>,
    files: MemoryFiles,
}

impl Edited {
    /// Replaces the files and recompiles; returns how the findings differ from those of a compilation from scratch.
    fn becomes(&mut self, files: &MemoryFiles, roots: &[PathBuf]) -> Result<(), String> {
        let old = std::mem::replace(&mut self.files, files.clone());
        let differs = |path: &&PathBuf| {
            let answers =
                |files: &MemoryFiles| (files.stat(path), files.refusal(path), files.list(path), files.read(path));
            answers(&old) != answers(files)
        };
        let changed = self.asked.lock().unwrap().iter().filter(differs).cloned().collect();
        let recorded = Recorded { files, asked: &self.asked };
        let options = Options { plans: Plans::None, workspace: true, ..Options::default() };
        let again = self.memory.compile(roots, &options, &recorded, &changed);
        let sources = Sources::default();
        let anew = compile_with(roots, &options, &sources, files);
        let shown = |found: &[Diagnostic], sources: &Sources| {
            let mut out = String::new();
            print(found, sources, &Pretty { limit: None, ..Pretty::default() }, &mut out).unwrap();
            out
        };
        let (anew, again) = (shown(&anew.diagnostics, &sources), shown(&again.diagnostics, self.memory.sources()));
        if anew == again { Ok(()) } else { Err(diff(&anew, &again)) }
    }
}

/// Each file of a project is removed, cut in half and restored with additional text: with every memory, the findings
/// equal those of a compilation from scratch.
#[test]
fn incremental_compilation_finds_the_same_as_a_full_one() {
    let again = |page: &Page| {
        let mut edited = Edited::default();
        in_every_state(page, |files, roots, _| edited.becomes(files, roots))
    };
    everywhere(again).done();
}

/// After each such change, what it affects is compiled, and the findings there equal those of a full compilation.
#[test]
fn findings_of_an_affected_part_equal_those_of_the_whole() {
    let (whole, part) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let changed = |page: &Page| {
        in_every_state(page, |files, roots, path| {
            let paths = path.into_iter().map(|path| normalize(Path::new(path))).collect();
            let changed = Changed { paths: &paths, key: &normalize };
            let options = Options { plans: Plans::None, ..Options::default() };
            let (some, all) = (Sources::default(), Sources::default());
            let part_of = compile_changed(roots, &options, changed, &some, files);
            let compiled = compile_with(roots, &options, &all, files);
            part.fetch_add(part_of.diagnostics.len(), Ordering::Relaxed);
            whole.fetch_add(compiled.diagnostics.len(), Ordering::Relaxed);
            let affected = part_of.affected.as_ref().ok_or("nobody asked what is affected")?;
            let shown = |found: &[Diagnostic], sources: &Sources| {
                let concerned = found.iter().filter(|one| affected.concerns(one, sources, &normalize));
                let concerned: Vec<Diagnostic> = concerned.cloned().collect();
                let mut out = String::new();
                print(&concerned, sources, &Pretty { limit: None, ..Pretty::default() }, &mut out).unwrap();
                out
            };
            let (all, some) = (shown(&compiled.diagnostics, &all), shown(&part_of.diagnostics, &some));
            if all == some { Ok(()) } else { Err(diff(&all, &some)) }
        })
    };
    everywhere(changed).done();
    let (whole, part) = (whole.into_inner(), part.into_inner());
    assert!(part < whole, "what no change concerns is compiled, too: {part} of {whole} findings");
}

/// Collects the faults in projects of pages: in all of them with `GEVALS_EXHAUSTIVE`, otherwise in one of four.
fn everywhere(faults: impl Fn(&Page) -> Faults + Sync + Send) -> Faults {
    let projects = ["lints", "tests/suite", "tests/ledger"].map(|dir| pages(&root().join(dir)));
    let pages: Vec<Page> = projects.into_iter().flatten().step_by(if exhaustive() { 1 } else { 4 }).collect();
    let found: Vec<Faults> = pages.par_iter().map(faults).collect();
    Faults(found.into_iter().flat_map(|faults| faults.0).collect())
}

/// Collects the faults in every state of a project: unchanged, and with each of its files changed; that file is passed
/// to `check`.
fn in_every_state(
    page: &Page,
    mut check: impl FnMut(&MemoryFiles, &[PathBuf], Option<&str>) -> Result<(), String>,
) -> Faults {
    let mut faults = Faults::default();
    let mut states: Vec<(usize, Vec<&Block>)> = Vec::new();
    let is_file = |block: &&Block| !["text", "diagnostics", "fault", "seen"].contains(&block.language());
    for block in page.blocks.iter().filter(is_file) {
        match states.last_mut() {
            Some((heading, state)) if *heading == block.heading.0 => state.push(block),
            _ => states.push((block.heading.0, vec![block])),
        }
    }
    // On pages of rules, the files to check are named; on others, everything in the directory is checked.
    let is_rule = lint::rule(page.name()).is_some();
    for (_, blocks) in &states {
        let (all, named) = files(blocks);
        let roots = if is_rule { named } else { vec![PathBuf::from(".")] };
        let mut check = |files: &MemoryFiles, path: Option<&str>, what: &str| {
            if let Err(why) = check(files, &roots, path) {
                faults.push(page, blocks[0].line, format!("{what}\n{why}"));
            }
        };
        check(&all, None, "as it is");
        for path in blocks.iter().map(|block| block.file()).collect::<BTreeSet<_>>() {
            let others: Vec<&Block> = blocks.iter().filter(|block| block.file() != path).copied().collect();
            check(&files(&others).0, Some(path), &format!("without `{path}`"));
            let mut half = all.clone();
            let text = String::from_utf8(all.read(Path::new(path)).unwrap()).unwrap();
            let lines = text.lines().count() / 2;
            half.add(path, text.split_inclusive('\n').take(lines).collect::<String>(), false);
            check(&half, Some(path), &format!("with one half of `{path}`"));
            half.add(path, format!("{text}\n# more\n"), true);
            check(&half, Some(path), &format!("with more in `{path}`"));
        }
    }
    faults
}
