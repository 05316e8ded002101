//! The schemas: those in `schemas/` are the ones the code makes, they agree with the decoders, and what gevals writes
//! fits them.
#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests")]

use std::{
    fs,
    path::{Path, PathBuf},
};

use gevals::{
    compile,
    diagnostic::Diagnostics,
    dialect::{self, FileKind},
    hir::Dialect,
    schema::{SCHEMAS, files, text},
    source::{MemoryFiles, Sources},
    yaml,
};
use jsonschema::Validator;
use proptest::{collection::vec, prelude::*, sample::select, strategy::Union};
use serde_json::{Map, Value, json};

#[test]
fn the_files_are_those_the_code_makes() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("schemas");
    let bless = std::env::var_os("BLESS").is_some() && std::env::var_os("CI").is_none();
    let mut faults = Vec::new();
    let mut known = vec!["README.md".to_owned()];
    for (name, schema) in files() {
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
    assert!(faults.is_empty(), "\n{}\nwrite them anew: BLESS=1 cargo test --test schema", faults.join("\n"));
}

#[test]
fn every_schema_is_one() {
    for (name, schema) in files() {
        assert!(jsonschema::meta::is_valid(&schema), "{name}");
        jsonschema::draft7::new(&schema).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(schema["title"].is_string() && schema["$schema"].is_string(), "{name}");
    }
}

fn validator(name: &str, dialect: Option<Dialect>) -> Validator {
    let info = SCHEMAS.iter().find(|s| s.name == name).unwrap();
    jsonschema::draft7::new(&(info.make)(dialect)).unwrap()
}

/// The schema for a document, told as gevals tells a file.
fn validator_of(document: &Value) -> Option<(&'static str, Validator)> {
    let (sources, mut out) = (Sources::default(), Diagnostics::default());
    let text = document.to_string();
    let tree = yaml::parse(sources.add("x.yaml", text.as_str()), &text, &mut out).ok()?;
    let name = match dialect::identify(tree.root(), &mut out) {
        Ok(Some(FileKind::Task(_))) => "task",
        Ok(Some(FileKind::Eval)) => "eval",
        Ok(Some(FileKind::Agent)) => "agent",
        Ok(Some(FileKind::Oracle)) => "oracle",
        _ if tree.root().get("mcpServers").is_some() => "mcp-config",
        _ => return None,
    };
    Some((name, validator(name, None)))
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

// That editors say the same of them, yaml-language-server in particular, is tested in tests/real.
#[test]
fn the_examples_fit() {
    let mut found = Vec::new();
    yaml_files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("examples"), &mut found);
    let mut seen = 0;
    for path in found {
        let document = read(&path, &fs::read_to_string(&path).unwrap());
        let Some((name, validator)) = validator_of(&document) else { continue };
        seen += 1;
        let faults = faults(&validator, &document);
        assert!(faults.is_empty(), "{} is no {name}: {faults:#?}", path.display());
    }
    assert!(seen >= 6, "{seen} examples");
}

/// What the pages of the rules show as the cure.
#[test]
fn the_cures_fit() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("lints");
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let page = fs::read_to_string(&path).unwrap();
        for block in page.split("\n```yaml pass").skip(1) {
            let block = block.split_once('\n').unwrap().1;
            let text = block.split("\n```").next().unwrap();
            let document = read(&path, text);
            let Some((name, validator)) = validator_of(&document) else { continue };
            let faults = faults(&validator, &document);
            assert!(faults.is_empty(), "{}: this is no {name}: {faults:#?}\n{text}", path.display());
        }
    }
}

// Generated files.

type Strategy1 = BoxedStrategy<Value>;

fn one(values: &[Value]) -> Strategy1 {
    select(values.to_vec()).boxed()
}

fn list(of: Strategy1, min: usize) -> Strategy1 {
    vec(of, min..3).prop_map(Value::Array).boxed()
}

fn map(of: Strategy1) -> Strategy1 {
    let key = select(vec!["A", "b-c", "d.e"]).prop_map(str::to_owned);
    prop::collection::btree_map(key, of, 0..3).prop_map(|m| Value::Object(m.into_iter().collect())).boxed()
}

fn either(options: Vec<Strategy1>) -> Strategy1 {
    Union::new(options).boxed()
}

/// A record; a key with `!` is always there.
fn record(fields: Vec<(&str, Strategy1)>) -> Strategy1 {
    let mut made: BoxedStrategy<Map<String, Value>> = Just(Map::new()).boxed();
    for (key, value) in fields {
        let (key, needed) = key.strip_prefix('!').map_or((key, false), |k| (k, true));
        let key = key.to_owned();
        let there = if needed { Just(true).boxed() } else { any::<bool>().boxed() };
        made = (made, there, value)
            .prop_map(move |(mut made, there, value)| {
                if there {
                    made.insert(key.clone(), value);
                }
                made
            })
            .boxed();
    }
    made.prop_map(Value::Object).boxed()
}

fn string() -> Strategy1 {
    one(&[json!("a"), json!("two words"), json!("yes"), json!("1"), json!("\u{e4}\n")])
}

/// Text with a hole in it, perhaps.
fn holed() -> Strategy1 {
    either(vec![string(), one(&[json!("{random.id}"), json!("x-{task.name}"), json!("{env.A | default('a')}")])])
}

fn duration() -> Strategy1 {
    one(&[json!("30s"), json!("1h30m"), json!("1.5m"), json!("500ms"), json!("+2us"), json!("1.s")])
}

fn boolean() -> Strategy1 {
    one(&[json!(true), json!(false)])
}

fn anything() -> Strategy1 {
    one(&[json!(null), json!(3), json!([1, "a"]), json!({ "a": null }), json!("x"), json!(1.5)])
}

fn metadata(portable: bool) -> Strategy1 {
    let mut fields = vec![
        ("!name", string()),
        ("description", string()),
        ("difficulty", one(&[json!("easy"), json!("hard")])),
        ("labels", map(string())),
        ("parallel", boolean()),
        ("runs", one(&[json!(1), json!(7)])),
        ("annotations", anything()),
        ("category", anything()),
    ];
    if portable {
        fields.extend([("tags", list(string(), 0)), ("timeout", duration()), ("cleanupTimeout", duration())]);
    }
    record(fields)
}

fn prompt() -> Strategy1 {
    record(vec![("!inline", string())])
}

fn legacy() -> Strategy1 {
    let script =
        || either(vec![record(vec![("!inline", string())]), one(&[json!(null), json!({ "file": "s.sh" }), json!({})])]);
    let judge = one(&[json!({ "contains": "x" }), json!({ "exact": "x" })]);
    let steps = record(vec![
        ("!prompt", prompt()),
        ("setup", script()),
        ("verify", either(vec![script(), judge])),
        ("cleanup", script()),
    ]);
    record(vec![
        ("!kind", one(&[json!("Task")])),
        ("apiVersion", one(&[json!("mcpchecker/v1alpha1"), json!("gevals/v1alpha1"), json!("")])),
        ("!metadata", metadata(false)),
        ("!steps", steps),
    ])
}

fn json_expect() -> Strategy1 {
    let one_of = record(vec![
        ("!path", one(&[json!("$.a[0]"), json!("$")])),
        ("equals", anything()),
        ("matches", one(&[json!("^a"), json!("(?m)x$")])),
        ("type", one(&[json!("string"), json!("null")])),
        ("exists", boolean()),
    ]);
    either(vec![one_of.clone(), list(one_of, 1)])
}

fn text_expect() -> Strategy1 {
    either(vec![
        holed(),
        record(vec![
            ("equals", holed()),
            ("contains", holed()),
            ("matches", one(&[json!("^a$"), json!("{random.id}")])),
        ]),
    ])
}

/// A step without an id; ids come in `numbered`.
fn portable_step(verify: bool) -> Strategy1 {
    let common = || vec![("timeout", duration()), ("continueOnError", boolean())];
    let with = move |fields: Vec<(&'static str, Strategy1)>| record(common().into_iter().chain(fields).collect());
    let outputs = || record(vec![("o", holed()), ("p", anything())]);
    let op = |name: &'static str, body: Strategy1| record(vec![(name, body)]);
    let script = |source: (&'static str, Strategy1)| {
        with(vec![
            source,
            ("args", either(vec![list(holed(), 0), one(&[json!("{env.ARGS}")])])),
            ("env", map(holed())),
            ("workdir", one(&[json!("sub"), json!(null), json!("{env.D}")])),
            ("protocol", one(&[json!("json"), json!("none")])),
            ("outputs", outputs()),
        ])
    };
    let file = |act: (&'static str, Strategy1)| {
        with(vec![
            ("!path", one(&[json!("a/b"), json!("{env.F}")])),
            act,
            ("mode", one(&[json!("0644"), json!("700")])),
        ])
    };
    let status = one(&[json!(200), json!([200, 404]), json!("2xx"), json!("any"), json!("{random.port}")]);
    let mut leaves = vec![
        op(
            "!command",
            with(vec![
                ("!run", holed()),
                ("shell", one(&[json!("bash")])),
                ("env", map(holed())),
                ("outputs", outputs()),
                (
                    "expect",
                    record(vec![
                        ("exitCode", one(&[json!(0), json!(-1), json!("{random.port}")])),
                        ("stdout", text_expect()),
                        ("stderr", text_expect()),
                    ]),
                ),
            ]),
        ),
        op("!script", script(("!inline", holed()))),
        op("!script", script(("!file", one(&[json!("s.sh")])))),
        op(
            "!http",
            with(vec![
                ("!url", one(&[json!("http://x"), json!("{env.URL}/a")])),
                ("method", holed()),
                ("headers", map(holed())),
                ("body", either(vec![holed(), record(vec![("!json", anything())])])),
                (
                    "expect",
                    record(vec![
                        ("status", status),
                        ("body", record(vec![("contains", holed()), ("json", json_expect())])),
                    ]),
                ),
                ("outputs", outputs()),
            ]),
        ),
        op("!file", file(("!content", holed()))),
        op("!file", file(("!absent", one(&[json!(true)])))),
        op(
            "!file",
            file((
                "!expect",
                record(vec![("exists", boolean()), ("matches", holed()), ("mode", one(&[json!("0644")]))]),
            )),
        ),
        op("!sleep", either(vec![duration(), one(&[json!("{env.T}")]), with(vec![("!duration", duration())])])),
        op(
            "!extension",
            with(vec![
                ("!package", string()),
                ("!action", string()),
                ("args", map(anything())),
                ("outputs", outputs()),
            ]),
        ),
        op(
            "!n.tool",
            either(vec![
                one(&[json!({})]),
                with(vec![
                    ("args", map(anything())),
                    (
                        "expect",
                        record(vec![
                            ("isError", boolean()),
                            ("content", record(vec![("contains", holed()), ("json", json_expect())])),
                        ]),
                    ),
                    ("outputs", outputs()),
                ]),
            ]),
        ),
        op("!k8s.apply", with(vec![("inline", anything()), ("expect", anything())])),
    ];
    if verify {
        leaves.push(op("!llm", with(vec![("!contains", holed())])));
        leaves.push(op("!llm", with(vec![("!exact", holed())])));
    }
    let leaf = either(leaves);
    leaf.prop_recursive(2, 12, 3, move |inner| {
        let steps = || list(inner.clone().boxed(), 1);
        let free = || list(inner.clone().boxed(), 0);
        either(vec![
            op("!anyOf", either(vec![steps(), with(vec![("!steps", steps())])])),
            op("!group", with(vec![("!steps", steps()), ("setup", free()), ("cleanup", free())])),
            op("!eventually", with(vec![("!steps", steps()), ("interval", duration())])),
            op("!consistently", with(vec![("!steps", steps()), ("!duration", duration())])),
            op(
                "!foreach",
                with(vec![
                    ("!var", one(&[json!("VAR")])),
                    ("!in", either(vec![list(anything(), 1), one(&[json!("{env.LIST}")])])),
                    ("!steps", steps()),
                    ("parallel", one(&[json!(2), json!("{random.port}")])),
                    ("allowEmpty", boolean()),
                ]),
            ),
        ])
    })
    .boxed()
}

/// Gives loop variables names of their own, and ids to steps that may have one.
fn numbered(mut document: Value) -> Value {
    fn walk(value: &mut Value, next: &mut usize) {
        match value {
            Value::Object(map) => {
                if map.get("var") == Some(&json!("VAR")) {
                    *next += 1;
                    map.insert("var".to_owned(), json!(format!("v{next}")));
                    map.insert("id".to_owned(), json!(format!("s{next}")));
                }
                map.values_mut().for_each(|v| walk(v, next));
            }
            Value::Array(items) => items.iter_mut().for_each(|v| walk(v, next)),
            _ => {}
        }
    }
    walk(&mut document, &mut 0);
    document
}

fn portable() -> Strategy1 {
    let requirement = one(&[
        json!({ "command": "ls" }),
        json!({ "judge": true }),
        json!({ "mcpServer": "x", "as": "y", "judge": false }),
    ]);
    let spec = record(vec![
        (
            "!requires",
            list(requirement, 0)
                .prop_map(|v| {
                    let mut list = v.as_array().unwrap().clone();
                    list.dedup();
                    list.push(json!({ "mcpServer": "notes", "as": "n" }));
                    list.sort_by_key(Value::to_string);
                    list.dedup();
                    list.into()
                })
                .boxed(),
        ),
        ("!imports", one(&[json!([{ "package": "github.com/a/k8s@v1" }]), json!([{ "package": "./k", "as": "k8s" }])])),
        ("env", map(holed()).prop_map(|_| json!({ "X": "{random.id}" })).boxed()),
        ("!prompt", either(vec![holed(), prompt()])),
        ("setup", list(portable_step(false), 0)),
        ("!verify", list(portable_step(true), 0)),
        ("cleanup", list(portable_step(false), 0)),
    ]);
    record(vec![
        ("!kind", one(&[json!("Task")])),
        ("!apiVersion", one(&[json!("mcp-eval/v1")])),
        ("!metadata", metadata(true)),
        ("!spec", spec),
    ])
    .prop_map(numbered)
    .boxed()
}

fn steps_step(verify: bool) -> Strategy1 {
    let op = |name: &'static str, body: Strategy1| record(vec![("id", one(&[json!("i"), json!("a b")])), (name, body)]);
    let field = record(vec![
        ("!path", one(&[json!("a.b[0]"), json!("")])),
        ("equals", anything()),
        ("match", one(&[json!("^a")])),
        ("type", one(&[json!("bool")])),
        ("exists", boolean()),
    ]);
    let demands = move || record(vec![("match", one(&[json!("a.*")])), ("fields", list(field.clone(), 0))]);
    let http = |body: Strategy1| {
        record(vec![
            ("!url", one(&[json!("http://x"), json!("{env.URL}/a"), json!("${URL}")])),
            ("timeout", duration()),
            ("method", string()),
            ("headers", map(string())),
            ("body", body),
            ("expect", record(vec![("status", one(&[json!(200), json!(0)])), ("body", demands())])),
        ])
    };
    let mut ops = vec![
        op(
            "!script",
            record(vec![
                ("!inline", string()),
                ("timeout", duration()),
                ("env", map(string())),
                ("continueOnError", boolean()),
            ]),
        ),
        op("!script", record(vec![("!file", one(&[json!("s.sh")]))])),
        op("!http", http(record(vec![("!raw", string())]))),
        op("!http", http(record(vec![("!json", map(anything()))]))),
        op(
            "!notes.read",
            record(vec![
                ("args", map(anything())),
                ("timeout", duration()),
                ("expect", record(vec![("isError", boolean()), ("content", demands())])),
            ]),
        ),
        op("!k8s.wait", record(vec![("timeout", duration()), ("resource", anything()), ("expect", anything())])),
    ];
    if verify {
        ops.push(op("!llmJudge", record(vec![("!contains", string())])));
        ops.push(op("!llmJudge", record(vec![("!exact", string())])));
    }
    either(ops)
}

fn steps() -> Strategy1 {
    let spec = record(vec![
        (
            "!requires",
            one(&[
                json!([{ "mcpServer": "notes" }, { "extension": "kubernetes", "as": "k8s" }, { "judge": true }, { "command": "ls" }]),
            ]),
        ),
        ("limits", record(vec![("timeout", duration()), ("cleanupTimeout", duration())])),
        ("!prompt", prompt()),
        ("setup", list(steps_step(false), 0)),
        ("verify", list(steps_step(true), 0)),
        ("cleanup", list(steps_step(false), 0)),
    ]);
    record(vec![
        ("!kind", one(&[json!("Task")])),
        ("!apiVersion", one(&[json!("mcpchecker/v1alpha2"), json!("gevals/v1alpha2")])),
        ("!metadata", metadata(false)),
        ("!spec", spec),
    ])
}

fn eval() -> Strategy1 {
    let server = || one(&[json!("notes")]);
    let matcher = |name: &'static str, pattern: &'static str, arguments: bool| {
        let mut fields = vec![
            ("!server", server()),
            (name, string()),
            (pattern, one(&[json!("^a"), json!("(?i)b")])),
            ("status", one(&[json!("ok"), json!("toolError")])),
            ("maxDuration", duration()),
        ];
        if arguments {
            fields.push(("argumentsMatch", map(anything())));
        }
        list(record(fields), 1)
    };
    let order =
        record(vec![("!type", one(&[json!("tool"), json!("prompt")])), ("!server", server()), ("!name", string())]);
    let skill = || {
        list(
            either(vec![
                record(vec![("!skill", string())]),
                record(vec![("!skillPattern", string()), ("skill", string())]),
            ]),
            1,
        )
    };
    let assertions = record(vec![
        ("toolsUsed", matcher("tool", "toolPattern", true)),
        ("requireAny", matcher("tool", "toolPattern", true)),
        ("toolsNotUsed", matcher("tool", "toolPattern", true)),
        ("resourcesRead", matcher("uri", "uriPattern", false)),
        ("resourcesNotRead", matcher("uri", "uriPattern", false)),
        ("promptsUsed", matcher("prompt", "promptPattern", true)),
        ("minToolCalls", one(&[json!(0), json!(1)])),
        ("maxToolCalls", one(&[json!(9)])),
        ("callOrder", list(order, 1)),
        ("noDuplicateCalls", boolean()),
        ("skillsLoaded", skill()),
        ("skillsNotLoaded", skill()),
    ]);
    let set = record(vec![
        ("!glob", one(&[json!("t*.yaml")])),
        ("labelSelector", one(&[json!({}), json!({ "a": "b" })])),
        ("assertions", either(vec![assertions, one(&[json!(null), json!({})])])),
    ]);
    let agent = || {
        one(&[
            json!({ "type": "builtin.noop" }),
            json!({ "type": "file", "path": "agent.yaml" }),
            json!({ "type": "builtin.script", "path": "oracle.yaml" }),
            json!({ "type": "builtin.llm-agent", "model": "a:b" }),
        ])
    };
    let judge = either(vec![
        one(&[json!(null), json!({ "env": { "baseUrlKey": "A", "apiKeyKey": "B", "modelNameKey": "C" } })]),
        record(vec![("!ref", agent())]),
    ]);
    let config = record(vec![
        ("!agent", agent()),
        ("!mcpConfigFile", one(&[json!("mcp.json")])),
        ("llmJudge", judge),
        (
            "extensions",
            one(&[
                json!({ "k8s": { "package": "p@v1", "env": { "A": "b" }, "config": { "x": 1 } }, "timeout": "5m", "sandbox": "none" }),
            ]),
        ),
        ("sources", one(&[json!({ "s": { "repo": "r", "ref": "main", "serverMapping": { "a": "b" } } })])),
        ("skills", one(&[json!({ "sources": [{ "type": "path", "path": "s" }] }), json!({})])),
        ("defaultTaskLimits", record(vec![("timeout", duration()), ("cleanupTimeout", duration())])),
        ("secrets", list(string(), 0)),
        ("!taskSets", list(set, 1)),
    ]);
    record(vec![
        ("!kind", one(&[json!("Eval")])),
        ("apiVersion", one(&[json!("mcpchecker/v1alpha2"), json!("mcp-eval/v1"), json!("gevals/v1alpha1")])),
        (
            "!metadata",
            record(vec![
                ("!name", string().prop_map(|_| json!("my eval")).boxed()),
                ("description", anything()),
                ("labels", anything()),
            ]),
        ),
        ("!config", config),
    ])
}

fn agent() -> Strategy1 {
    let commands = record(vec![
        ("runPrompt", string()),
        ("getVersion", string()),
        ("argTemplateMcpServer", string()),
        ("useVirtualHome", boolean()),
    ]);
    record(vec![
        ("!kind", one(&[json!("Agent")])),
        ("metadata", record(vec![("name", string()), ("version", string()), ("annotations", anything())])),
        ("builtin", record(vec![("type", string()), ("model", string())])),
        ("acp", record(vec![("!cmd", string()), ("args", list(string(), 0))])),
        ("commands", commands),
        ("skills", record(vec![("!mountPath", string()), ("!toolName", string())])),
    ])
}

fn oracle() -> Strategy1 {
    let call = |what: &'static str, args: bool| {
        let mut fields = vec![("!server", string()), (what, holed())];
        if args {
            fields.push(("args", map(anything())));
        }
        record(fields)
    };
    let call = either(vec![call("!tool", true), call("!prompt", true), call("!resource", false)]);
    record(vec![
        ("!kind", one(&[json!("Oracle")])),
        ("metadata", record(vec![("name", anything())])),
        ("!tasks", map(record(vec![("calls", list(call, 0)), ("output", holed())]))),
    ])
}

fn mcp_config() -> Strategy1 {
    let common = || vec![("disabled", boolean()), ("alwaysAllow", list(string(), 0)), ("enableAllTools", boolean())];
    let stdio = vec![
        ("type", one(&[json!("stdio")])),
        ("!command", string()),
        ("args", list(string(), 0)),
        ("env", map(one(&[json!("${HOME}"), json!("a")]))),
    ];
    let http = vec![
        ("type", one(&[json!("http"), json!("streamable-http"), json!("streamableHttp")])),
        ("!url", string()),
        ("headers", map(one(&[json!("${A:-b}")]))),
    ];
    let server =
        either([stdio, http].into_iter().map(|fields| record(fields.into_iter().chain(common()).collect())).collect());
    record(vec![("!mcpServers", record(vec![("!notes", server.clone()), ("other", server)]))])
}

/// Errors that `gevals check FILE` reports, and whether a value was read as something else than it is.
fn errors(document: &Value) -> (Vec<String>, bool) {
    let (sources, mut files) = (Sources::default(), MemoryFiles::default());
    files.add("/w/x.yaml", document.to_string(), false);
    files.add("/w/s.sh", "#!/bin/sh\n", true);
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
    (errors.collect(), found().any(|d| d.rule.name == "coerced-scalar"))
}

/// Rules that speak of more than one file, or of meaning that no schema knows.
const BEYOND: [&str; 2] = ["ignored-judge", "unsupported-source"];

fn what_we_accept_the_schema_accepts(
    name: &str,
    document: &Value,
    spoilt: Option<&[String]>,
) -> Result<(), TestCaseError> {
    let (errors, coerced) = errors(document);
    let validator = validator(name, None);
    if spoilt.is_none() {
        let errors: Vec<_> = errors.iter().filter(|e| !BEYOND.iter().any(|b| e.starts_with(b))).collect();
        prop_assert!(errors.is_empty(), "the generator, or the decoder: {errors:#?}\n{document:#}");
        prop_assert!(validator.is_valid(document), "{:#?}\n{document:#}", faults(&validator, document));
    } else if errors.is_empty() && !coerced {
        prop_assert!(validator.is_valid(document), "accepted, but {:#?}\n{document:#}", faults(&validator, document));
    }
    // A misspelt key is found in an editor, too – but for what a tool takes: only the lock knows that.
    let opaque = spoilt.is_some_and(|places| places.iter().any(|p| p.contains("/n.tool") || p.contains("/notes.read")));
    if !opaque && errors.iter().any(|e| e.starts_with("unknown-field: unknown key")) {
        prop_assert!(!validator.is_valid(document), "{errors:#?}, but the schema takes it\n{document:#}");
    }
    Ok(())
}

/// One fault, somewhere.
#[derive(Clone, Debug)]
enum Fault {
    Value(Value),
    Remove,
    Rename,
    Extra,
}

fn fault() -> BoxedStrategy<(prop::sample::Index, Fault)> {
    let values = [
        json!(null),
        json!(5),
        json!(-1),
        json!(1.5),
        json!("x"),
        json!(""),
        json!(true),
        json!([]),
        json!({}),
        json!(["x"]),
        json!({ "x": 1 }),
        json!("{env.X}"),
        json!("${"),
    ];
    let fault = prop_oneof![
        4 => select(values.to_vec()).prop_map(Fault::Value),
        2 => Just(Fault::Remove),
        2 => Just(Fault::Rename),
        2 => Just(Fault::Extra),
    ];
    (any::<prop::sample::Index>(), fault).boxed()
}

fn pointers(value: &Value, at: &str, found: &mut Vec<String>) {
    found.push(at.to_owned());
    let escape = |key: &str| key.replace('~', "~0").replace('/', "~1");
    match value {
        Value::Object(map) => map.iter().for_each(|(k, v)| pointers(v, &format!("{at}/{}", escape(k)), found)),
        Value::Array(items) => items.iter().enumerate().for_each(|(i, v)| pointers(v, &format!("{at}/{i}"), found)),
        _ => {}
    }
}

/// Gives the place.
fn spoil(document: &mut Value, at: &prop::sample::Index, fault: Fault) -> String {
    let mut all = Vec::new();
    pointers(document, "", &mut all);
    let pointer = at.get(&all).clone();
    let (parent, key) = pointer.rsplit_once('/').unwrap_or(("", ""));
    let (parent, key) = (parent.to_owned(), key.replace("~1", "/").replace("~0", "~"));
    match fault {
        Fault::Value(value) => *document.pointer_mut(&pointer).unwrap() = value,
        Fault::Extra => {
            if let Some(Value::Object(map)) = document.pointer_mut(&pointer) {
                map.insert("nobodyReads".to_owned(), json!("this"));
            }
        }
        Fault::Remove | Fault::Rename => {
            if let Some(Value::Object(map)) = document.pointer_mut(&parent)
                && let Some(value) = map.shift_remove(&key)
                && matches!(fault, Fault::Rename)
            {
                let typo = if key.len() > 3 { key[..key.len() - 1].to_owned() } else { format!("{key}z") };
                map.insert(typo, value);
            }
        }
    }
    pointer
}

type Kind = (&'static str, fn() -> Strategy1);

const GENERATORS: [Kind; 7] = [
    ("task", legacy),
    ("task", steps),
    ("task", portable),
    ("eval", eval),
    ("agent", agent),
    ("oracle", oracle),
    ("mcp-config", mcp_config),
];

fn document() -> BoxedStrategy<(&'static str, Value)> {
    Union::new(GENERATORS.map(|(name, make)| make().prop_map(move |v| (name, v)).boxed())).boxed()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_right_fits((name, document) in document()) {
        what_we_accept_the_schema_accepts(name, &document, None)?;
    }

    #[test]
    fn what_does_not_fit_is_reported((name, mut document) in document(), spoilt in vec(fault(), 1..3)) {
        let places: Vec<_> = spoilt.into_iter().map(|(at, fault)| spoil(&mut document, &at, fault)).collect();
        what_we_accept_the_schema_accepts(name, &document, Some(&places))?;
    }
}
