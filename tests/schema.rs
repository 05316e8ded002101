//! The schemas: the files in `schemas/` are up to date, they agree with the decoders, and what gevals writes conforms
//! to them.

use std::{
    collections::{BTreeMap, HashMap},
    fs,
    path::{Path, PathBuf},
    sync::LazyLock,
};

use gevals::{
    compile,
    diagnostic::Diagnostics,
    dialect::{self, FileKind},
    lint::{Found, RULES},
    schema::{CATALOG, SCHEMAS, catalog, files, text},
    source::{MemoryFiles, Sources},
    yaml,
};
use jsonschema::Validator;
use proptest::{collection::vec, prelude::*, strategy::ValueTree};
use serde_json::{Value, json};

use crate::support::{
    documents::{document, fault, spoil},
    page,
};

#[test]
fn the_schema_files_are_up_to_date() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("schemas");
    let bless = std::env::var_os("BLESS").is_some() && std::env::var_os("CI").is_none();
    let mut faults = Vec::new();
    let mut known = vec!["README.md".to_owned()];
    for (name, schema) in files().chain([(CATALOG.to_owned(), catalog())]) {
        let wanted = text(&schema);
        if bless {
            fs::write(dir.join(&name), &wanted).unwrap();
        } else if fs::read_to_string(dir.join(&name)).ok().as_ref() != Some(&wanted) {
            faults.push(format!("schemas/{name} is out of date"));
        }
        known.push(name);
    }
    for entry in fs::read_dir(&dir).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if !known.contains(&name) {
            faults.push(format!("schemas/{name} is no schema of gevals"));
        }
    }
    assert!(faults.is_empty(), "\n{}\nwrite them anew: BLESS=1 cargo test --test all schema::", faults.join("\n"));
}

#[test]
fn every_schema_is_valid() {
    for (name, schema) in files() {
        assert!(jsonschema::meta::is_valid(&schema), "{name}");
        jsonschema::draft7::new(&schema).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(schema["title"].is_string() && schema["$schema"].is_string(), "{name}");
        // The ID is the URL of the file.
        assert_eq!(schema["$id"], format!("{}/raw/main/schemas/{name}", env!("CARGO_PKG_REPOSITORY")));
    }
    let known: Vec<Value> = files().map(|(_, schema)| schema["$id"].clone()).collect();
    for entry in catalog()["schemas"].as_array().unwrap() {
        assert!(known.contains(&entry["url"]), "{entry}");
    }
}

fn validator(name: &str) -> &'static Validator {
    // Creating a validator takes longer than using it.
    static MADE: LazyLock<HashMap<&str, Validator>> =
        LazyLock::new(|| SCHEMAS.iter().map(|s| (s.name, jsonschema::draft7::new(&(s.make)(None)).unwrap())).collect());
    &MADE[name]
}

/// Returns the schema for a document, recognized as gevals recognizes a file.
fn validator_of(document: &Value) -> Option<(&'static str, &'static Validator)> {
    let (sources, mut out) = (Sources::default(), Diagnostics::default());
    let text = document.to_string();
    let tree = yaml::parse(sources.add("x.yaml", text.as_str()), text, &mut out).ok()?;
    let name = match dialect::identify(tree.root(), true, &mut out) {
        Ok(Some(FileKind::Task(_))) => "task",
        Ok(Some(FileKind::Eval)) => "eval",
        Ok(Some(FileKind::Agent)) => "agent",
        Ok(Some(FileKind::Oracle)) => "oracle",
        Ok(Some(FileKind::McpEvals)) => "evals",
        _ if tree.root().get("mcpServers").is_some() => "mcp-config",
        _ => return None,
    };
    Some((name, validator(name)))
}

fn faults(validator: &Validator, document: &Value) -> Vec<String> {
    validator.iter_errors(document).map(|e| format!("{}: {e}", e.instance_path())).collect()
}

fn read(path: &Path, text: &str) -> Value {
    let (sources, mut out) = (Sources::default(), Diagnostics::default());
    let tree = yaml::parse(sources.add(path, text), text, &mut out).unwrap_or_else(|_| panic!("{}", path.display()));
    tree.root().to_json()
}

fn yaml_files(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            yaml_files(&path, found);
        } else if path.extension().is_some_and(|e| e == "yaml" || e == "yml") {
            found.push(path);
        }
    }
}

// tests/real verifies that editors agree, yaml-language-server in particular.
#[test]
fn the_examples_match_their_schemas() {
    let mut found = Vec::new();
    yaml_files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("examples"), &mut found);
    let mut seen = 0;
    for path in found {
        let document = read(&path, &fs::read_to_string(&path).unwrap());
        let Some((name, validator)) = validator_of(&document) else { continue };
        seen += 1;
        let faults = faults(validator, &document);
        assert!(faults.is_empty(), "{} is no {name}: {faults:#?}", path.display());
    }
    assert!(seen >= 6, "{seen} examples");
}

/// The fixed examples on the pages of the rules.
#[test]
fn the_fixed_examples_match_their_schemas() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("lints");
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let page = fs::read_to_string(&path).unwrap();
        for block in page.split("\n```yaml pass").skip(1) {
            let block = block.split_once('\n').unwrap().1;
            let text = block.split("\n```").next().unwrap();
            let document = read(&path, text);
            let Some((name, validator)) = validator_of(&document) else { continue };
            let faults = faults(validator, &document);
            assert!(faults.is_empty(), "{}: this is no {name}: {faults:#?}\n{text}", path.display());
        }
    }
}

/// The files on the pages of tests, if `check` finds no error in them.
#[test]
fn the_files_on_pages_match_their_schemas() {
    let mut seen = 0;
    let mut faults = Vec::new();
    for folder in ["tests/suite", "tests/flow", "docs/reference"] {
        for page in page::pages(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)) {
            let headings: std::collections::BTreeSet<usize> = page.blocks.iter().map(|b| b.heading.0).collect();
            // The part before the first case belongs to all of them.
            let first = usize::from(folder != "docs/reference");
            for heading in headings {
                let of = |block: &&page::Block| block.heading.0 == heading || block.heading.0 == first;
                let blocks: Vec<_> = page
                    .blocks
                    .iter()
                    .filter(of)
                    .filter(|b| ["yaml", "json", "sh", "text", "toml", "md"].contains(&b.language()))
                    .collect();
                let (files, roots) = page::files(&blocks);
                let sources = Sources::default();
                let compiled = compile(&roots, &sources, &files);
                let bad = |rule: &gevals::diagnostic::Diagnostic| {
                    rule.strength.is_error() || ["coerced-scalar", "empty-value"].contains(&rule.rule.name)
                };
                let wrong: Vec<PathBuf> = compiled
                    .diagnostics
                    .iter()
                    .filter(|d| bad(d))
                    .map(|d| sources.get(d.span.file).path().to_owned())
                    .collect();
                for block in blocks.iter().filter(|b| b.language() == "yaml" && b.heading.0 == heading) {
                    // If several blocks have the same name, the last one was read.
                    let read = blocks.iter().rfind(|other| other.file() == block.file());
                    if read.is_none_or(|read| read.line != block.line)
                        || wrong.iter().any(|path| path == Path::new(block.file()))
                    {
                        continue;
                    }
                    let (sources, mut out) = (Sources::default(), Diagnostics::default());
                    let text = block.text();
                    let Ok(tree) = yaml::parse(sources.add(&page.path, text.as_str()), text.as_str(), &mut out) else {
                        continue;
                    };
                    let document = tree.root().to_json();
                    let Some((name, validator)) = validator_of(&document) else { continue };
                    seen += 1;
                    let found = self::faults(validator, &document);
                    if !found.is_empty() {
                        faults.push(format!("{}:{}: this is no {name}: {found:#?}", page.path.display(), block.line));
                    }
                }
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(seen >= 200, "{seen} files");
}

/// Files with one fault, next to the same file without it: an editor shows the fault.
#[test]
fn the_schema_rejects_faulty_files() {
    let task = |step: Value| {
        json!({
            "kind": "Task", "apiVersion": "mcp-eval/v1", "metadata": { "name": "t" },
            "spec": {
                "requires": [{ "mcpServer": "notes" }],
                "imports": [{ "package": "./k", "as": "k8s" }],
                "prompt": "x", "verify": [step],
            },
        })
    };
    let old = |step: Value| {
        json!({
            "kind": "Task", "apiVersion": "mcpchecker/v1alpha2", "metadata": { "name": "t" },
            "spec": { "requires": [{ "mcpServer": "notes" }], "prompt": { "inline": "x" }, "verify": [step] },
        })
    };
    let tool = |expect: Value| task(json!({ "notes.read": { "expect": expect } }));
    let short = |expect: Value| task(json!({ "k8s.apply": { "expect": expect } }));
    let long = |expect: Value| task(json!({ "extension": { "package": "./k", "action": "a", "expect": expect } }));
    let outputs = |outputs: Value| task(json!({ "notes.read": { "outputs": outputs } }));
    let old_tool = |expect: Value| old(json!({ "notes.read": { "expect": expect } }));
    let pairs = [
        (tool(json!({ "content": { "contains": "a" } })), tool(json!({ "content": { "contans": "a" } }))),
        (tool(json!({ "content": { "contains": "a" } })), tool(json!({ "content": { "contains": 5 } }))),
        (tool(json!({ "content": { "lines": 3 } })), tool(json!({ "content": { "lines": "many" } }))),
        (
            tool(json!({ "content": { "json": { "path": "$.a" } } })),
            tool(json!({ "content": { "json": { "path": "a" } } })),
        ),
        (
            tool(json!({ "content": { "json": [{ "path": "$.a", "type": "number" }] } })),
            tool(json!({ "content": { "json": [{ "path": "$.a", "type": "integer" }] } })),
        ),
        (tool(json!({ "isError": true })), tool(json!({ "isError": "yes" }))),
        (tool(json!({ "structuredContent": 5 })), tool(json!("text"))),
        (short(json!({ "rows": { "contains": "a" } })), short(json!({ "rows": { "contains": ["a"] } }))),
        (long(json!({ "rows": { "atLeast": 1 } })), long(json!({ "rows": { "atLeast": [1] } }))),
        (long(json!({ "rows": { "of": "it" } })), long(json!(["rows"]))),
        (long(json!({ "rows": 3 })), long(json!({ "rows": { "matches": 3 } }))),
        (outputs(json!({ "a": "{content[0].text}" })), outputs(json!(["a"]))),
        (outputs(json!({ "a": ["{isError}", 3] })), outputs(json!("{content}"))),
        (old_tool(json!({ "content": { "match": "a" } })), old_tool(json!({ "content": { "matches": "a" } }))),
        (
            old_tool(json!({ "content": { "fields": [{ "path": "a", "equals": 1 }] } })),
            old_tool(json!({ "content": { "fields": [{ "equals": 1 }] } })),
        ),
        (old_tool(json!({ "isError": true })), old_tool(json!({ "isError": 1 }))),
    ];
    for (right, wrong) in pairs {
        let found = faults(validator("task"), &right);
        assert!(found.is_empty(), "{right:#}\n{found:#?}");
        assert!(errors(&right).0.iter().all(|e| beyond(e)), "{right:#}\n{:#?}", errors(&right).0);
        assert!(!validator("task").is_valid(&wrong), "the schema takes {wrong:#}");
        assert!(!errors(&wrong).0.iter().all(|e| beyond(e)), "check takes {wrong:#}");
    }
}

/// Every key of every kind of file without a value: editors show an error exactly if `check` does.
#[test]
fn empty_keys_are_valid_exactly_if_check_accepts_them() {
    let mut looked = BTreeMap::<(String, bool), usize>::new();
    let mut faults = Vec::new();
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    for _ in 0..if page::exhaustive() { 300 } else { 120 } {
        let (name, document) = document().new_tree(&mut runner).unwrap().current();
        let mut places = Vec::new();
        keys(&document, String::new(), &mut places);
        for place in places {
            let mut empty = document.clone();
            *empty.pointer_mut(&place).unwrap() = Value::Null;
            let key = place.rsplit('/').next().unwrap_or_default().to_owned();
            // An empty expectation is a semantic error, which an editor may show as well.
            let of_it = format!("vacuous-expectation: `{key}` has no value");
            let found = errors(&empty).0.into_iter();
            let blank: Vec<_> = found.filter(|e| !beyond(e) || e.starts_with(&of_it)).collect();
            let fits = validator(name).is_valid(&empty);
            *looked.entry((key.clone(), blank.is_empty())).or_default() += 1;
            if blank.is_empty() && !fits {
                faults.push(format!("{name}{place}: check takes it, and the schema does not"));
            }
            // What requires a lock, and relations between keys across the document, are known only to `check`.
            let relates = |e: &String| RELATIONS.iter().any(|rule| e.starts_with(rule));
            let opaque = place.contains(".read/expect") || place.contains(".tool/expect");
            if !blank.iter().any(|e| relates(e) || e.starts_with(&of_it)) && !blank.is_empty() && fits && !opaque {
                faults.push(format!("{name}{place}: the schema takes it, and check does not: {blank:?}"));
            }
        }
    }
    faults.sort_by_key(|fault| fault.replace(|c: char| c.is_ascii_digit(), ""));
    faults.dedup_by_key(|fault| fault.replace(|c: char| c.is_ascii_digit(), ""));
    assert!(looked.len() > 60, "{} keys", looked.len());
    assert!(faults.is_empty(), "{} of {}\n{}", faults.len(), looked.values().sum::<usize>(), faults.join("\n"));
}

/// The keys of the format, as JSON pointers.
fn keys(value: &Value, at: String, out: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for (key, inner) in map {
                let below = format!("{at}/{}", key.replace('~', "~0").replace('/', "~1"));
                out.push(below.clone());
                keys(inner, below, out);
            }
        }
        Value::Array(items) => {
            for (nth, item) in items.iter().enumerate() {
                keys(item, format!("{at}/{nth}"), out);
            }
        }
        _ => {}
    }
}

/// Whether an error is semantic, which a schema cannot express.
fn beyond(error: &str) -> bool {
    let lints = RULES.iter().filter(|l| !matches!(l.found, Found::OnTheWay)).map(|l| l.rule.name);
    lints.chain(BEYOND).any(|rule| error.starts_with(rule))
}

/// Returns the errors that `gevals check FILE` reports, and whether a value was converted to another type or was empty.
fn errors(document: &Value) -> (Vec<String>, bool) {
    let (sources, mut files) = (Sources::default(), MemoryFiles::default());
    files.add("/w/x.yaml", document.to_string(), false);
    files.add("/w/s.sh", "#!/bin/sh\n", true);
    files.add("/w/s/a/SKILL.md", "a", false);
    files.add("/w/agent.yaml", "kind: Agent\ncommands: {runPrompt: x}\n", false);
    files.add("/w/oracle.yaml", "kind: Oracle\ntasks: {t: {}}\n", false);
    files.add("/w/mcp.json", "mcpServers: {notes: {command: x}}", false);
    files.add(
        "/w/t.yaml",
        "kind: Task\nmetadata: {name: t, labels: {a: b}}\nsteps: {prompt: {inline: x}, verify: {inline: x}}\n",
        false,
    );
    let compiled = compile(&["/w/x.yaml".into()], &sources, &files);
    let found = || compiled.diagnostics.iter();
    let errors = found().filter(|d| d.strength.is_error()).map(|d| format!("{}: {}", d.rule.name, d.message));
    (errors.collect(), found().any(|d| ["coerced-scalar", "empty-value"].contains(&d.rule.name)))
}

/// Rules about keys that depend on each other.
const RELATIONS: [&str; 7] = [
    "missing-field",
    "task-set-shape",
    "invalid-server",
    "invalid-assertion",
    "oracle-call",
    "unknown-operation",
    "step-shape: this requirement",
];

/// Rules about more than one file, or about semantics that a schema cannot express.
const BEYOND: [&str; 2] = ["ignored-judge", "source-not-locked"];

fn what_we_accept_the_schema_accepts(
    name: &str,
    document: &Value,
    spoilt: Option<&[String]>,
) -> Result<(), TestCaseError> {
    let (errors, coerced) = errors(document);
    let validator = validator(name);
    if spoilt.is_none() {
        // Lints are about semantics, which a schema cannot express.
        let lints = RULES.iter().filter(|l| !matches!(l.found, Found::OnTheWay)).map(|l| l.rule.name);
        let beyond: Vec<_> = lints.chain(BEYOND).collect();
        let errors: Vec<_> = errors.iter().filter(|e| !beyond.iter().any(|b| e.starts_with(b))).collect();
        prop_assert!(errors.is_empty(), "the generator, or the decoder: {errors:#?}\n{document:#}");
        prop_assert!(validator.is_valid(document), "{:#?}\n{document:#}", faults(validator, document));
    } else if errors.is_empty() && !coerced {
        prop_assert!(validator.is_valid(document), "accepted, but {:#?}\n{document:#}", faults(validator, document));
    }
    // An editor also shows a misspelled key, except in the arguments of a tool, which only the lock knows.
    let opaque = spoilt.is_some_and(|places| places.iter().any(|p| p.contains("/n.tool") || p.contains("/notes.read")));
    if !opaque && errors.iter().any(|e| e.starts_with("unknown-field: unknown key")) {
        prop_assert!(!validator.is_valid(document), "{errors:#?}, but the schema takes it\n{document:#}");
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn valid_documents_match_the_schema((name, document) in document()) {
        what_we_accept_the_schema_accepts(name, &document, None)?;
    }

    #[test]
    fn the_schema_accepts_what_check_accepts((name, mut document) in document(), spoilt in vec(fault(), 1..3)) {
        let places: Vec<_> = spoilt.into_iter().map(|(at, fault)| spoil(&mut document, &at, fault)).collect();
        what_we_accept_the_schema_accepts(name, &document, Some(&places))?;
    }
}
