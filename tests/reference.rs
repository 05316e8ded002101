//! The reference in `docs/reference/`: its tables match the signatures, the schemas and the command line, its examples
//! are checked and run, and it is complete.
//!
//! The text between `<!-- WHAT -->` and `<!-- end -->` is generated: `step NAME`, `old-step NAME`, `table
//! FILE#/POINTER`, `filters`, `exits`. `BLESS=1 cargo test --test all reference::` rewrites it.
//!
//! Blocks with the word `example` form one example, up to a line that specifies how it is tested. With `<!-- passes
//! with: SCRIPT -->`, or `calls: [CALL, …]`, it passes with an agent that does this, and fails with one that does
//! nothing. With `<!-- runs -->`, it is an eval that passes. With `<!-- needs: WHAT -->` or `<!-- checked -->`, it is
//! only checked.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use gevals::{
    builtin::{extension, vocabularies},
    cli, compile,
    diagnostic::Strength,
    dialect::KINDS,
    hir::{Dialect, PhaseKind},
    schema,
    signature::{Field, Shape, Signature},
    source::{MemoryFiles, Sources},
    template::{self, FILTERS},
    ty::{LOCALS, ROOTS, duration},
};
use regex::Regex;
use serde_json::{Value, json};

use crate::support::page::{Block, Page, pages};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The pages of the reference, including that of the matchers.
fn reference() -> Vec<Page> {
    let mut all = pages(&root().join("docs/reference"));
    all.push(Page::read(&root().join("docs/expect.md")));
    all
}

fn page_of(name: &str) -> String {
    fs::read_to_string(root().join("docs/reference").join(name)).unwrap()
}

#[test]
fn tables_are_up_to_date() {
    let mut stale = Vec::new();
    for page in reference() {
        let fresh = generated(&page.text);
        if fresh != page.text {
            if std::env::var_os("BLESS").is_some() && std::env::var_os("CI").is_none() {
                fs::write(&page.path, fresh).unwrap();
            } else {
                stale.push(page.path.display().to_string());
            }
        }
    }
    assert!(stale.is_empty(), "BLESS=1 cargo test --test all reference:: writes {} anew", stale.join(", "));
}

/// Files that examples refer to, if they do not contain their own.
const USUAL: [(&str, &str); 3] = [
    ("mcp.yaml", "mcpServers: {notes: {command: gevals, args: [demo-server, --dir, notes], enableAllTools: true}}\n"),
    (
        "oracle.yaml",
        "kind: Oracle\ntasks: {note: {calls: [{server: notes, tool: notes_create, args: {title: a, body: milk}}]}}\n",
    ),
    (
        "tasks/note.yaml",
        "kind: Task\napiVersion: mcp-eval/v1\nmetadata: {name: note, difficulty: easy}\nspec:\n  requires: [{mcpServer: notes}]\n  \
         prompt: Write a note called a that says milk.\n  verify: [{notes.notes_read: {args: {title: a}, expect: {content: {contains: \
         milk}}}}]\n  cleanup: [{notes.notes_delete: {args: {title: a}}}]\n",
    ),
];

struct Example {
    at: String,
    blocks: Vec<Block>,
    /// The line after the blocks, which specifies how the example is tested.
    fate: String,
}

impl Example {
    /// Returns its files; if there is an eval, also the usual ones.
    fn files(&self) -> BTreeMap<String, String> {
        let own = self.blocks.iter().map(|block| (block.file().to_owned(), block.text()));
        let mut files: BTreeMap<String, String> = own.collect();
        if files.contains_key("eval.yaml") {
            for (name, text) in USUAL {
                if name != "tasks/note.yaml" || !files.keys().any(|name| name.starts_with("tasks/")) {
                    files.entry(name.to_owned()).or_insert_with(|| text.to_owned());
                }
            }
        }
        files
    }

    /// Returns the name of its task, and the start of the prompt.
    fn task(&self) -> (String, String) {
        let text = self.blocks[0].text();
        let name = Regex::new(r"metadata: *\{name: ([a-z-]+)|\n  name: ([a-z-]+)").unwrap();
        let prompt = Regex::new(r"prompt: *(?:\{inline: *)?([^{}\n]+)").unwrap();
        let name = name.captures(&text).unwrap_or_else(|| panic!("{}: no name", self.at));
        let name = name.get(1).or(name.get(2)).unwrap().as_str().to_owned();
        (name, prompt.captures(&text).unwrap_or_else(|| panic!("{}: no prompt", self.at))[1].trim_end().to_owned())
    }
}

fn examples() -> Vec<Example> {
    let mark = Regex::new(r"<!-- ((?:passes with|needs): .*|runs|checked) -->\n").unwrap();
    let mut all = Vec::new();
    for page in reference() {
        let mut open: Vec<Block> = Vec::new();
        let blocks: Vec<&Block> = page.blocks.iter().filter(|block| block.has("example")).collect();
        for (nth, block) in blocks.iter().enumerate() {
            open.push((*block).clone());
            let next = blocks.get(nth + 1).map_or(page.text.len(), |next| next.range.start);
            if let Some(found) = mark.captures(&page.text[block.range.end..next]) {
                let at = format!("{}:{}", page.path.display(), open[0].line);
                all.push(Example { at, blocks: std::mem::take(&mut open), fate: found[1].to_owned() });
            }
        }
        let left: Vec<usize> = open.iter().map(|block| block.line).collect();
        assert!(left.is_empty(), "{}: nothing says what becomes of the example in lines {left:?}", page.path.display());
    }
    all
}

/// `check` has no findings in examples: none appears on a page.
#[test]
fn examples_have_no_findings() {
    let mut faults = Vec::new();
    let all = examples();
    for example in &all {
        let mut files = MemoryFiles::default();
        let mine = example.files();
        mine.iter().for_each(|(name, text)| files.add(name, text.clone(), false));
        let named: Vec<PathBuf> = match mine.contains_key("eval.yaml") {
            true => vec!["eval.yaml".into()],
            false => mine.keys().filter(|name| name.ends_with(".yaml")).map(PathBuf::from).collect(),
        };
        // Settings are tested by checking a task next to them.
        let named = if named.is_empty() {
            files.add("task.yaml", USUAL[2].1, false);
            vec![PathBuf::from("task.yaml")]
        } else {
            named
        };
        let sources = Sources::default();
        let found = compile(&named, &sources, &files);
        // A note that a judge is required is not a fault of a task.
        for d in found.diagnostics.iter().filter(|d| d.strength != Strength::Note) {
            let source = sources.get(d.span.file);
            let at = source.position(d.span.start);
            faults.push(format!(
                "{}: {}:{} {} {}",
                example.at,
                source.path().display(),
                at.line,
                d.rule.name,
                d.message
            ));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(all.len() >= 30, "only {} examples", all.len());
    let run = all.iter().filter(|e| e.fate == "runs" || e.fate.starts_with("passes")).count();
    assert!(run >= 22, "only {run} examples are run");
}

/// Every block in one of our languages is part of an example.
#[test]
fn every_block_is_an_example() {
    let prices = jsonschema::draft7::new(&schema_of("prices.json")).unwrap();
    let config = jsonschema::draft7::new(&schema_of("config.json")).unwrap();
    for page in reference() {
        for block in page.blocks.iter().filter(|block| ["yaml", "toml", "json"].contains(&block.language())) {
            if block.file() == "prices.yaml" {
                let value: Value = serde_yaml::from_str(&block.body).unwrap();
                assert!(prices.is_valid(&value), "{}:{}", page.path.display(), block.line);
            } else if block.file() == "gevals.toml" {
                let value: Value = toml::from_str(&block.body).unwrap();
                assert!(config.is_valid(&value), "{}:{}", page.path.display(), block.line);
                assert!(
                    !config.is_valid(&json!({ "rulse": {} })) && !config.is_valid(&json!({ "rules": { "a": "loud" } }))
                );
            } else {
                assert!(block.has("example"), "{}:{} is no `example`", page.path.display(), block.line);
            }
        }
    }
}

fn schema_of(name: &str) -> Value {
    schema::files().find(|(file, _)| file == name).unwrap_or_else(|| panic!("{name}")).1
}

/// Creates an empty directory for this test.
fn folder(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("reference").join(name);
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir_all(&dir).unwrap();
    dir
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Runs an eval, and returns the outcome of each task.
fn outcomes(dir: &Path) -> BTreeMap<String, String> {
    let done = Command::new(env!("CARGO_BIN_EXE_gevals"))
        .args(["run", "eval.yaml", "-o", "out", "--root", "."])
        .current_dir(dir)
        .env_remove("CI")
        .output()
        .unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    let results = fs::read_dir(dir.join("out")).unwrap_or_else(|_| panic!("{}: {said}", dir.display()));
    let results = results.map(|entry| entry.unwrap().path()).find(|path| path.to_string_lossy().ends_with("-out.json"));
    let results: Value = serde_json::from_str(&fs::read_to_string(results.expect(&said)).unwrap()).unwrap();
    let results = results["results"].as_array().unwrap().iter();
    let outcome = |task: &Value| {
        let outcome = task["outcome"].as_str().unwrap();
        let cleanup = if task["cleanupFailed"] == true { " and left something behind" } else { "" };
        (task["taskName"].as_str().unwrap().to_owned(), format!("{outcome}{cleanup}"))
    };
    results.map(outcome).collect()
}

/// Runs an eval of some examples with one agent.
fn eval(dir: &Path, examples: &[&Example], agent: &str) -> BTreeMap<String, String> {
    let mut sets = String::new();
    for (nth, example) in examples.iter().enumerate() {
        for (name, text) in example.files() {
            write(&dir.join(format!("{nth}/{name}")), &text);
        }
        sets += &format!("    - path: {nth}/{}\n", example.blocks[0].file());
    }
    write(&dir.join("mcp.yaml"), USUAL[0].1);
    let head = "kind: Eval\nmetadata: {name: e}\nconfig:\n  mcpConfigFile: mcp.yaml\n";
    write(&dir.join("eval.yaml"), &format!("{head}  agent: {agent}\n  taskSets:\n{sets}"));
    outcomes(dir)
}

#[test]
fn solutions_pass_examples_and_others_fail() {
    let all = examples();
    let solved: Vec<(&Example, &str)> =
        all.iter().filter_map(|example| Some((example, example.fate.strip_prefix("passes with: ")?))).collect();
    let names: BTreeSet<String> = solved.iter().map(|(example, _)| example.task().0).collect();
    assert_eq!(names.len(), solved.len(), "two examples have one name");
    let (calls, scripts): (Vec<_>, Vec<_>) = solved.iter().partition(|(_, how)| how.starts_with("calls: "));
    let of = |some: &[(&'_ Example, &str)]| -> Vec<usize> {
        some.iter().map(|(example, _)| all.iter().position(|other| other.at == example.at).unwrap()).collect()
    };
    let pick = |some: &[(&Example, &str)]| of(some).into_iter().map(|nth| &all[nth]).collect::<Vec<&Example>>();
    let (nothing, by_script, by_calls) = std::thread::scope(|scope| {
        let nothing = scope.spawn(|| eval(&folder("nothing"), &pick(&solved), "{type: builtin.noop}"));
        let by_script = scope.spawn(|| {
            let dir = folder("scripts");
            let mut script = String::from("case \"$1\" in\n");
            for (nth, (example, how)) in scripts.iter().enumerate() {
                script += &format!("'{}'*) cd '{}/{nth}' && {{ {how}\n}} ;;\n", example.task().1, dir.display());
            }
            write(&dir.join("solve.sh"), &format!("{script}*) exit 1 ;;\nesac\n"));
            let run = format!("sh '{}/solve.sh' \"{{{{ .Prompt }}}}\"", dir.display());
            write(&dir.join("agent.yaml"), &format!("kind: Agent\ncommands:\n  runPrompt: |\n    {run}\n"));
            eval(&dir, &pick(&scripts), "{type: file, path: agent.yaml, isolation: none}")
        });
        let by_calls = scope.spawn(|| {
            let dir = folder("calls");
            let mut oracle = String::from("kind: Oracle\ntasks:\n");
            for (example, how) in &calls {
                oracle += &format!("  {}: {{{how}}}\n", example.task().0);
            }
            write(&dir.join("oracle.yaml"), &oracle);
            eval(&dir, &pick(&calls), "{type: builtin.script, path: oracle.yaml}")
        });
        (nothing.join().unwrap(), by_script.join().unwrap(), by_calls.join().unwrap())
    });
    let mut faults = Vec::new();
    for (example, _) in &solved {
        let (name, _) = example.task();
        let without = nothing.get(&name).map_or("not run", String::as_str);
        // An agent that does nothing creates nothing that cleanup could delete, so only the start of the outcome is
        // compared.
        if !without.starts_with("failed") {
            faults.push(format!("{}: with an agent that does nothing `{name}` {without}", example.at));
        }
        let with = by_script.get(&name).or(by_calls.get(&name)).map_or("not run", String::as_str);
        if with != "passed" {
            faults.push(format!("{}: with an agent that does it `{name}` {with}", example.at));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn evals_of_examples_pass() {
    let all = examples();
    let faults: Vec<String> = std::thread::scope(|scope| {
        let evals = all.iter().filter(|example| example.fate == "runs").enumerate();
        let runs: Vec<_> = evals
            .map(|(nth, example)| {
                scope.spawn(move || {
                    let dir = folder(&format!("eval-{nth}"));
                    example.files().iter().for_each(|(name, text)| write(&dir.join(name), text));
                    let ended = outcomes(&dir);
                    let bad = ended.is_empty() || ended.values().any(|outcome| outcome != "passed");
                    bad.then(|| format!("{}: {ended:?}", example.at))
                })
            })
            .collect();
        runs.into_iter().filter_map(|run| run.join().unwrap()).collect()
    });
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Every object in every kind of file has a table, and every key in it has a description.
#[test]
fn every_object_has_a_table() {
    let text: String = reference().into_iter().map(|page| page.text).collect();
    let marks = Regex::new("<!-- table schemas/([^ ]+) -->").unwrap();
    let mut described: Vec<Value> = Vec::new();
    for mark in marks.captures_iter(&text) {
        let (file, pointer) = mark[1].split_once('#').unwrap();
        described.push(schema_of(file).pointer(pointer).unwrap_or_else(|| panic!("{}", &mark[1])).clone());
    }
    let mut missing = Vec::new();
    for name in [
        "task.portable",
        "task.steps",
        "task.legacy",
        "eval",
        "agent",
        "oracle",
        "mcp-config",
        "prices",
        "evals",
        "config",
    ] {
        let document = schema_of(&format!("{name}.json"));
        objects(&document, "", &mut |pointer, object| {
            let is = |known: &Value| {
                // For a task of one dialect, only the root object also contains definitions.
                known["properties"] == object["properties"] && known["description"] == object["description"]
            };
            if !described.iter().any(is) {
                missing.push(format!("schemas/{name}.json#{pointer} has no table"));
            }
            for (key, value) in object["properties"].as_object().unwrap() {
                if value["description"].is_null()
                    && value.get("$ref").is_none()
                    && value.get("const").is_none()
                    && !value.to_string().contains("$ref")
                {
                    missing.push(format!("schemas/{name}.json#{pointer}: nothing says what `{key}` is"));
                }
            }
        });
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

/// Visits the objects of a schema that have keys of their own, except those of steps, which have sections.
fn objects(schema: &Value, pointer: &str, found: &mut impl FnMut(&str, &Value)) {
    match schema {
        Value::Object(map) => {
            if map.get("type").is_some_and(|ty| ty == "object")
                && map.get("properties").is_some_and(|p| p.as_object().is_some_and(|p| !p.is_empty()))
            {
                found(pointer, schema);
            }
            for (key, inner) in map.iter().filter(|(key, _)| !schema::step::NAMES.contains(&key.as_str())) {
                objects(inner, &format!("{pointer}/{key}"), found);
            }
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(nth, inner)| objects(inner, &format!("{pointer}/{nth}"), found));
        }
        _ => {}
    }
}

/// Every option on a page is an option of a gevals command, or of another program.
#[test]
fn every_documented_option_exists() {
    /// Options of cargo, npm, gh, kubectl, curl, docker, and of programs in examples.
    const OTHERS: [&str; 18] = [
        "--acp",
        "--api-key",
        "--arg",
        "--bind",
        "--cap-drop",
        "--for",
        "--ignore-not-found",
        "--input",
        "--kubeconfig",
        "--network",
        "--no-headers",
        "--path",
        "--read-only",
        "--repo",
        "--rm",
        "--save-dev",
        "--security-opt",
        "--user",
    ];
    let mut options = BTreeSet::from(["--help".to_owned(), "--version".to_owned()]);
    walk(&cli::commands(), &mut Vec::new(), &mut |_, command| {
        options.extend(command.get_arguments().filter_map(|arg| arg.get_long()).map(|long| format!("--{long}")));
    });
    let named = Regex::new(r"(?:^|[\s`(\[])(--[a-z][a-z0-9-]*)").unwrap();
    let mut faults = Vec::new();
    let mut seen = 0;
    let mut foreign = BTreeSet::new();
    let mut all = vec![root().join("README.md")];
    markdown(&root().join("docs"), &mut all);
    for path in all {
        for (nth, line) in fs::read_to_string(&path).unwrap().lines().enumerate() {
            for found in named.captures_iter(line) {
                seen += 1;
                foreign.insert(found[1].to_owned());
                if !options.contains(&found[1]) && !OTHERS.contains(&&found[1]) {
                    faults.push(format!("{}:{}: no command has `{}`", path.display(), nth + 1, &found[1]));
                }
            }
        }
    }
    assert!(seen > 100, "{seen} options");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    for other in OTHERS {
        assert!(!options.contains(other), "`{other}` is an option of gevals now");
        assert!(foreign.contains(other), "no page names `{other}` any more");
    }
}

/// An option that a page writes after `gevals COMMAND` is an option of this command.
#[test]
fn options_belong_to_their_commands() {
    let mut faults = Vec::new();
    let mut all = vec![root().join("README.md")];
    markdown(&root().join("docs"), &mut all);
    let line = Regex::new(r"gevals ((?:[a-z][a-z-]* ?)+)([^`\n|#]*)").unwrap();
    let option = Regex::new(r"(?:^|[\s\[])(--[a-z][a-z0-9-]*)").unwrap();
    let commands = cli::commands();
    let mut seen = 0;
    for path in all {
        let text = fs::read_to_string(&path).unwrap();
        for found in line.captures_iter(&text) {
            let mut command = &commands;
            for word in found[1].split_whitespace() {
                match command.find_subcommand(word) {
                    Some(inner) => command = inner,
                    None => break,
                }
            }
            if command.get_name() == "gevals" {
                continue;
            }
            let globals = commands.get_arguments();
            let known: Vec<String> = command
                .get_arguments()
                .chain(globals)
                .filter_map(|arg| arg.get_long())
                .map(|l| format!("--{l}"))
                .collect();
            // After ` -- ` comes another command.
            let own = found[2].split(" -- ").next().unwrap();
            for named in option.captures_iter(own) {
                seen += 1;
                if !known.contains(&named[1].to_owned()) && &named[1] != "--help" {
                    faults.push(format!("{}: `gevals {}` has no `{}`", path.display(), command.get_name(), &named[1]));
                }
            }
        }
    }
    assert!(seen > 45, "{seen} options");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

fn markdown(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            markdown(&path, found);
        } else if path.extension().is_some_and(|e| e == "md") {
            found.push(path);
        }
    }
}

fn walk(command: &clap::Command, above: &mut Vec<String>, visit: &mut impl FnMut(&str, &clap::Command)) {
    above.push(command.get_name().to_owned());
    visit(&above.join(" "), command);
    command.get_subcommands().for_each(|inner| walk(inner, above, visit));
    above.pop();
}

/// The text after the options of a command is printed unchanged: the terminal would wrap a longer line once more.
#[test]
fn help_epilogues_fit_the_width() {
    let mut faults = Vec::new();
    walk(&cli::commands(), &mut Vec::new(), &mut |name, command| {
        let text =
            command.get_after_help().or(command.get_after_long_help()).map(ToString::to_string).unwrap_or_default();
        for line in text.lines().filter(|line| line.chars().count() > 100) {
            faults.push(format!("{name}: {line}"));
        }
    });
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Returns the exit statuses in the help of a command.
fn exits(command: &clap::Command) -> Option<String> {
    let text = command.get_after_help()?.to_string();
    let own = text[text.find("Exit status:")?..].trim_start_matches("Exit status:");
    Some(own.split("\n\n").next()?.split_whitespace().collect::<Vec<_>>().join(" "))
}

#[test]
fn every_command_documents_its_exit_statuses() {
    let commands = cli::commands();
    for command in commands.get_subcommands() {
        let inner: Vec<&clap::Command> = command.get_subcommands().collect();
        let said = exits(command).is_some() || !inner.is_empty() && inner.iter().all(|inner| exits(inner).is_some());
        // Printing a version cannot fail.
        assert!(said || command.get_name() == "version", "`gevals {}` has no `Exit status:`", command.get_name());
    }
}

/// Every variable in the sources is listed on the page, or belongs to another program.
#[test]
fn every_variable_is_listed() {
    const OTHERS: [&str; 13] = [
        // Variables of bash, builds and git, and words in texts.
        "BASH_ENV",
        "CARGO_MANIFEST_DIR",
        "CARGO_PKG_REPOSITORY",
        "CARGO_PKG_VERSION",
        "GEVALS_END",
        "GIT_DIR",
        "GIT_INDEX_FILE",
        "GIT_LFS_SKIP_SMUDGE",
        "BASH_SOURCE",
        "GIT_TERMINAL_PROMPT",
        "GIT_WORK_TREE",
        "OUT_DIR",
        "README",
    ];
    let page = page_of("config.md");
    let name =
        Regex::new(r#""([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+|CI|TERM|HOME|PATH|SHELL|KUBECONFIG|CLICOLOR|TRACEPARENT)""#)
            .unwrap();
    let mut files = Vec::new();
    rust(&root().join("src"), &mut files);
    let mut missing = BTreeSet::new();
    let mut seen = BTreeSet::new();
    for path in files {
        // These contain variables of task scripts, and examples of names.
        let inside = path.strip_prefix(root().join("src")).unwrap().to_owned();
        if ["lint", "convert", "effects"].iter().any(|dir| inside.starts_with(dir)) || inside == Path::new("secrets.rs")
        {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let code = text.split("#[cfg(test)]").next().unwrap();
        for line in code.lines().filter(|line| !line.trim_start().starts_with("//")) {
            for found in name.captures_iter(line) {
                seen.insert(found[1].to_owned());
                if !OTHERS.contains(&&found[1])
                    && !page.contains(&format!("`{}`", &found[1]))
                    && !page.contains(&format!("`{}=", &found[1]))
                {
                    missing.insert(format!("{} ({})", &found[1], inside.display()));
                }
            }
        }
    }
    assert!(seen.len() > 30, "{seen:?}");
    assert!(missing.is_empty(), "docs/reference/config.md does not name {missing:?}");
    // And the page lists no variable that is not read.
    let rows = Regex::new(r"(?m)^\| (`[A-Z][^|]*) \|").unwrap();
    let word = Regex::new("`([A-Z][A-Z0-9_]+)").unwrap();
    for row in rows.captures_iter(&page) {
        for named in word.captures_iter(&row[1]) {
            assert!(seen.contains(&named[1]) || named[1].starts_with("MCPCHECKER_"), "nothing reads `{}`", &named[1]);
        }
    }
}

fn rust(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            rust(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

/// Every root of holes is in the table of holes.
#[test]
fn every_root_of_holes_is_listed() {
    let page = page_of("holes.md");
    let table = page.split("## Roots").nth(1).unwrap().split("```").next().unwrap();
    for name in ROOTS.iter().chain(&LOCALS).chain(&["calls"]) {
        let is = [format!("`{{{name}"), format!(".{name}}}")].iter().any(|text| table.contains(text));
        assert!(is, "`{name}` is not in the table of roots");
    }
    let named = Regex::new(r"`\{([a-z][A-Za-z]*)").unwrap();
    for found in named.captures_iter(table) {
        let name = &found[1];
        let known = ROOTS.contains(&name) || LOCALS.contains(&name) || name == "calls";
        assert!(known, "`{name}` is no root");
    }
}

/// Each filter has an example, and its result is the one on the page.
#[test]
fn filters_return_the_documented_results() {
    let scope = json!({
        "env": { "NAME": "Ann Lee" },
        "response": { "json": { "tags": ["b", "a", "b"], "price": -2.56, "count": "7" } },
    });
    let page = page_of("holes.md");
    let row = Regex::new(r"(?m)^\| `(\{[^`]*\\\|[^`]*\})` \| `([^`]*)` \|$").unwrap();
    let mut used = BTreeSet::new();
    for found in row.captures_iter(&page) {
        let text = found[1].replace("\\|", "|");
        let scan = template::scan(&text);
        let hole = scan.single_hole().unwrap_or_else(|| panic!("{text}"));
        let base = scope.get(&hole.path.root.text).and_then(|v| template::walk_value(v, &hole.path.segments)).cloned();
        let value = template::apply_filters(base, &hole.filters).unwrap_or_else(|e| panic!("{text}: {e}"));
        used.extend(hole.filters.iter().map(|filter| filter.name.text.clone()));
        assert_eq!(template::render(&value), found[2], "{text}");
    }
    for filter in FILTERS {
        assert!(used.contains(filter.name), "`{}` has no example", filter.name);
    }
}

/// Each matcher is in the tables of the page, and in an example.
#[test]
fn every_matcher_has_an_example() {
    let page = Page::read(&root().join("docs/expect.md"));
    let examples: String =
        page.blocks.iter().filter(|block| block.has("example")).map(|block| block.body.clone()).collect();
    for (name, shape) in matchers() {
        let written = [format!("{name}: "), format!("{name}:\n")].iter().any(|text| examples.contains(text));
        assert!(written, "`{name}` {shape} has no example");
        assert!(page.text.contains(&format!("| `{name}")) || page.text.contains(&format!("`{name}`")), "`{name}`");
    }
}

/// Matchers of texts and of JSON values.
fn matchers() -> Vec<(String, &'static str)> {
    let of = extension::MATCHERS.fields().unwrap();
    let mut all: Vec<(String, &str)> = of.keys().map(|key| (key.clone(), "of a text")).collect();
    let json = of["json"].shape.alternatives().iter().find_map(Shape::fields).unwrap();
    all.extend(json.keys().map(|key| (key.clone(), "of a JSON value")));
    all
}

/// The JSON protocol on the page is what a script receives, and what is read from its answer.
#[test]
fn the_protocol_of_scripts_is_as_described() {
    let page = page_of("script.md");
    let source = fs::read_to_string(root().join("src/step/script.rs")).unwrap();
    let table = |heading: &str| -> BTreeSet<String> {
        let rows = page
            .split(heading)
            .nth(1)
            .unwrap()
            .lines()
            .skip_while(|line| !line.starts_with('|'))
            .take_while(|line| line.starts_with('|'));
        rows.filter_map(|row| Some(row.strip_prefix("| `")?.split(['`', '.']).next()?.to_owned())).collect()
    };
    let part = |from: &str, to: &str| source.split(from).nth(1).unwrap().split(to).next().unwrap().to_owned();
    let keys = |text: &str, pattern: &str| -> BTreeSet<String> {
        Regex::new(pattern).unwrap().captures_iter(text).map(|found| found[1].to_owned()).collect()
    };
    let given = keys(&part("fn story(", "\n}\n"), r#"(?m)^        "([a-zA-Z]+)":"#);
    assert_eq!(table("writes one JSON object"), given);
    let answered = keys(&part("struct Answer {", "}"), r"(?m)^    ([a-z]+):");
    assert_eq!(table("It answers with one JSON object"), answered);
    let checks = keys(&part("struct Check {", "}"), r"(?m)^    ([a-z]+):");
    assert!(checks.iter().all(|key| page.contains(key.as_str())), "{checks:?}");
}

/// Everything that can be written or called can be explained.
#[test]
fn everything_can_be_explained() {
    let mut words: BTreeSet<String> =
        ["prove", "coverage", "gate", "env", "llmJudge", "exit", "gevals.toml", "filters"].map(str::to_owned).into();
    words.extend(KINDS.map(str::to_owned));
    for dialect in [Dialect::Portable, Dialect::Steps] {
        words.extend(vocabularies().of(dialect).names().map(str::to_owned));
    }
    words.extend(matchers().into_iter().map(|(name, _)| name));
    words.extend(FILTERS.iter().map(|filter| filter.name.to_owned()));
    words.extend(ROOTS.map(str::to_owned));
    let assertions = &schema_of("eval.json")["definitions"]["Assertions"]["properties"];
    words.extend(assertions.as_object().unwrap().keys().cloned());
    words.extend(cli::commands().get_subcommands().map(|command| command.get_name().to_owned()));
    words.extend(schema::SCHEMAS.iter().take(7).map(|schema| schema.name.to_owned()));
    assert!(words.len() > 80, "{words:?}");
    let unknown: Vec<&String> = words.iter().filter(|word| cli::explained(word).is_none()).collect();
    assert!(unknown.is_empty(), "`gevals explain` does not know {unknown:?}");
    for word in &words {
        let text = cli::explained(word).unwrap();
        assert!(
            text.to_lowercase().contains(&word.to_lowercase()),
            "what is said of `{word}` does not name it:\n{text}"
        );
        assert!(!text.contains("<!-- "), "{word}");
    }
    assert_eq!(cli::explained("nonsense"), None);
}

/// Each operation of each dialect has a section.
#[test]
fn every_step_is_described() {
    let all: String = reference().into_iter().map(|page| page.text).collect();
    for (dialect, mark) in [(Dialect::Portable, "step"), (Dialect::Steps, "old-step")] {
        for name in vocabularies().of(dialect).names() {
            assert!(all.contains(&format!("<!-- {mark} {name} -->")), "{name} of {dialect:?} has no section");
        }
    }
}

fn generated(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("<!-- ") {
        let (what, body) = after.split_once(" -->\n").unwrap();
        out += before;
        if ["passes with: ", "needs: ", "runs", "checked"].iter().any(|fate| what.starts_with(fate)) {
            out += &format!("<!-- {what} -->\n");
            rest = body;
            continue;
        }
        out += &format!("<!-- {what} -->\n");
        let (_, behind) = body.split_once("<!-- end -->").unwrap_or_else(|| panic!("`{what}` has no end"));
        out += &format!("{}<!-- end -->", section(what));
        rest = behind;
    }
    out + rest
}

fn section(what: &str) -> String {
    let (kind, of) = what.split_once(' ').unwrap_or((what, ""));
    match kind {
        "step" => step(vocabularies().of(Dialect::Portable).get(of).unwrap().1, Dialect::Portable),
        "old-step" => step(vocabularies().of(Dialect::Steps).get(of).unwrap().1, Dialect::Steps),
        "table" => {
            let (file, pointer) = of.split_once('#').unwrap();
            let document = schema_of(file.strip_prefix("schemas/").unwrap());
            table(&document, document.pointer(pointer).unwrap_or_else(|| panic!("{of}")))
        }
        "filters" => {
            let rows = FILTERS.iter().map(|filter| {
                let args: Vec<String> = filter
                    .args
                    .iter()
                    .map(|arg| if arg.required { arg.name.to_owned() } else { format!("[{}]", arg.name) })
                    .collect();
                let args = if args.is_empty() { String::new() } else { format!("({})", args.join(", ")) };
                format!("| `{}{args}` | {} | {} |\n", filter.name, filter.takes, filter.summary)
            });
            format!("| filter | takes | gives |\n|---|---|---|\n{}", rows.collect::<String>())
        }
        "exits" => {
            let mut rows = String::from("| command | exit status |\n|---|---|\n");
            walk(&cli::commands(), &mut Vec::new(), &mut |name, command| {
                if let Some(said) = exits(command).filter(|_| name != "gevals") {
                    rows += &format!("| `{name}` | {} |\n", said.replace('|', "\\|"));
                }
            });
            rows
        }
        other => panic!("what is `{other}`?"),
    }
}

/// Describes the arguments, expectations and outputs of a step.
fn step(signature: &Signature, dialect: Dialect) -> String {
    let mut out = String::new();
    let phases: Vec<&str> = PhaseKind::ALL.iter().filter(|p| signature.phases.contains(p)).map(|p| p.name()).collect();
    if phases.len() < PhaseKind::ALL.len() {
        out += &format!("Allowed only in {}. ", phases.join(" and "));
    }
    if let Some(limit) = signature.timeout {
        out += &format!("Default `timeout`: {}. ", duration::format(limit));
    }
    if let Some(short) = signature.short {
        out += &format!("The short form sets `{short}`. ");
    }
    for set in signature.exactly_one {
        let keys: Vec<String> = set.iter().map(|key| format!("`{key}`")).collect();
        out += &format!("Exactly one of {} is required. ", keys.join(", "));
    }
    if !out.is_empty() {
        out = format!("{}\n\n", out.trim_end());
    }
    let own = signature.step_keys(dialect).into_iter().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", ");
    let fields: Vec<(&String, &Field)> = signature.params.fields().into_iter().flatten().collect();
    let blocks: Vec<_> =
        signature.control.blocks().iter().filter(|(key, ..)| !fields.iter().any(|(k, _)| k == key)).collect();
    if !fields.is_empty() || !blocks.is_empty() {
        out += "| key | type | |\n|---|---|---|\n";
        fields.iter().for_each(|(key, field)| out += &row(key, field));
        for (key, _, required) in blocks {
            out += &format!("| `{key}` | steps | {} |\n", if *required { "Required." } else { "" });
        }
        out.push('\n');
    }
    out += &format!("Common keys: {own}.\n");
    if let Some(Shape::Record { fields, .. }) = signature.expect.as_deref() {
        out += "\n`expect`:\n\n| key | type | |\n|---|---|---|\n";
        fields.iter().for_each(|(key, field)| out += &row(key, field));
    }
    if !signature.locals.is_empty() {
        let values: Vec<String> = signature.locals.iter().map(|(name, ty)| format!("`{name}` ({ty})")).collect();
        out += &format!("\nIt provides {}.\n", values.join(", "));
    }
    out
}

fn row(key: &str, field: &Field) -> String {
    let mut doc = field.doc.clone();
    if !doc.is_empty() && !doc.ends_with('.') {
        doc.push('.');
    }
    if field.required {
        doc = format!("Required. {doc}");
    }
    if let Some(default) = field.default.as_ref().filter(|value| {
        !value.is_null() && value.as_str() != Some("") && !value.as_object().is_some_and(serde_json::Map::is_empty)
    }) {
        doc += &format!(" Default: `{}`.", default.as_str().map_or_else(|| default.to_string(), str::to_owned));
    }
    format!("| `{key}` | {} | {} |\n", kind(&field.shape), doc.trim().replace('|', "\\|"))
}

/// Describes a type, with a link if it is a matcher.
fn kind(shape: &Shape) -> String {
    match shape {
        shape if shape.holds("oneOf") => match shape {
            Shape::OneOf(shapes) if shapes.iter().any(|s| matches!(s, Shape::String { .. })) => {
                "string or [matchers](../expect.md)".to_owned()
            }
            _ => "[matchers](../expect.md)".to_owned(),
        },
        Shape::OneOf(shapes) => {
            let words: Vec<String> = shapes.iter().filter(|s| **s != Shape::Null).map(kind).collect();
            words.join(" or ")
        }
        Shape::String { one_of, .. } if !one_of.is_empty() => {
            one_of.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(" or ")
        }
        Shape::Any => "any value".to_owned(),
        other => {
            let words = other.describe();
            let plain = words.strip_prefix("a ").or(words.strip_prefix("an ")).unwrap_or(&words);
            plain.to_owned()
        }
    }
}

/// Writes the table of the keys of an object in a schema.
fn table(document: &Value, object: &Value) -> String {
    let mut out = String::from("| key | type | |\n|---|---|---|\n");
    let required: Vec<&str> = object["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    for (key, value) in object["properties"].as_object().unwrap() {
        let described = value["description"].as_str().or_else(|| {
            let target = value["$ref"].as_str()?.strip_prefix('#')?;
            document.pointer(target)?["description"].as_str()
        });
        let must = if required.contains(&key.as_str()) { "Required. " } else { "" };
        let doc = format!("{must}{}", described.unwrap_or_default());
        out += &format!(
            "| `{key}` | {} | {} |\n",
            written(document, value),
            doc.trim().replace('|', "\\|").replace('\n', " ")
        );
    }
    out
}

/// Describes the type of a value in a schema.
fn written(document: &Value, schema: &Value) -> String {
    if let Some(target) = schema["$ref"].as_str() {
        let target = document.pointer(target.trim_start_matches('#')).unwrap();
        return written(document, target);
    }
    for key in ["anyOf", "oneOf", "allOf"] {
        if let Some(options) = schema[key].as_array().filter(|_| schema.get("properties").is_none()) {
            let mut words: Vec<String> =
                options.iter().map(|option| written(document, option)).filter(|w| w != "null").collect();
            words.dedup();
            let mut seen = Vec::new();
            words.retain(|word| {
                !seen.contains(word) && {
                    seen.push(word.clone());
                    true
                }
            });
            return words.join(" or ");
        }
    }
    if let Some(values) = schema["enum"].as_array() {
        return values
            .iter()
            .filter(|v| !v.is_null() && *v != "")
            .map(|v| format!("`{}`", v.as_str().unwrap_or(&v.to_string())))
            .collect::<Vec<_>>()
            .join(" or ");
    }
    if let Some(value) = schema.get("const") {
        return format!("`{}`", value.as_str().unwrap_or(&value.to_string()));
    }
    let types: Vec<&str> = match &schema["type"] {
        Value::String(one) => vec![one.as_str()],
        Value::Array(many) => many.iter().filter_map(Value::as_str).filter(|t| *t != "null").collect(),
        _ => return "any value".to_owned(),
    };
    let word = |name: &str| match name {
        "string" if schema["pattern"].as_str().is_some_and(|p| p.contains("µs")) => "duration".to_owned(),
        "array" => format!("list of {}", written(document, &schema["items"])),
        "object" => match schema.get("additionalProperties").filter(|v| v.is_object()) {
            Some(inner) if schema.get("properties").is_none() => format!("map of {}", written(document, inner)),
            _ => "mapping".to_owned(),
        },
        "null" => "null".to_owned(),
        other => other.to_owned(),
    };
    types.into_iter().map(word).collect::<Vec<_>>().join(" or ")
}
