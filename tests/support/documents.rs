//! Files of every kind: valid ones generated from the grammar of their fields, and faults to insert into them.
#![allow(dead_code, clippy::allow_attributes, reason = "every test that includes this uses a part of it")]

use proptest::{collection::vec, prelude::*, sample::select, strategy::Union};
use serde_json::{Map, Value, json};

pub type Strategy1 = BoxedStrategy<Value>;

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

/// A record; a key with `!` is always present.
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

/// Text that may contain a hole.
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
        ("!name", one(&[json!("a"), json!("two words"), json!("yes"), json!("1"), json!("\u{e4}")])),
        ("description", string()),
        ("difficulty", one(&[json!("easy"), json!("hard")])),
        ("labels", map(string())),
        ("parallel", boolean()),
        ("runs", one(&[json!(7)])),
        ("gate", record(vec![("!passes", one(&[json!(1), json!(7)])), ("!of", one(&[json!(7)]))])),
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

pub fn legacy() -> Strategy1 {
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

/// A step without an ID; `numbered` adds IDs.
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
        op("!k8s.apply", with(vec![("inline", anything()), ("expect", map(anything()))])),
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

/// Gives loop variables unique names, and IDs to steps that may have one.
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

pub fn portable() -> Strategy1 {
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
        op("!k8s.wait", record(vec![("timeout", duration()), ("resource", anything()), ("expect", map(anything()))])),
    ];
    if verify {
        ops.push(op("!llmJudge", record(vec![("!contains", string())])));
        ops.push(op("!llmJudge", record(vec![("!exact", string())])));
    }
    either(ops)
}

pub fn steps() -> Strategy1 {
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

pub fn eval() -> Strategy1 {
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
            fields.push(("argumentsMatch", map(if name == "prompt" { string() } else { anything() })));
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
        ("secrets", list(one(&[json!("TOKEN"), json!("_a1")]), 0)),
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

pub fn agent() -> Strategy1 {
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

pub fn oracle() -> Strategy1 {
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

pub fn evals() -> Strategy1 {
    let text = || record(vec![("!type", one(&[json!("text")])), ("!text", string())]);
    let block = || {
        let image = record(vec![
            ("!type", one(&[json!("image"), json!("audio")])),
            ("!data", one(&[json!("aGk="), json!("")])),
            ("!mimeType", string()),
        ]);
        let used = one(&[
            json!({ "type": "tool_use", "id": "1", "name": "a", "input": {} }),
            json!({ "type": "tool_result", "toolUseId": "1", "content": [] }),
        ]);
        either(vec![text(), image, used])
    };
    let message = || {
        record(vec![
            ("!role", one(&[json!("user"), json!("assistant")])),
            ("!content", either(vec![block(), list(block(), 1)])),
            ("_meta", anything()),
        ])
    };
    let input = |level: &str| match level {
        "execution" => {
            record(vec![("!type", one(&[json!(level)])), ("!toolName", string()), ("!arguments", map(anything()))])
        }
        "scenario" => record(vec![
            ("!type", one(&[json!(level)])),
            ("!messages", list(message(), 1)),
            ("maxTurns", one(&[json!(1), json!(8)])),
        ]),
        _ => record(vec![("!type", one(&[json!(level)])), ("!messages", list(message(), 1))]),
    };
    let of = |level: &str, grading: &str| {
        let kind = ("!type", one(&[json!(grading)]));
        let expected = match (grading, level) {
            ("llm-as-judge", _) => record(vec![kind, ("!rubric", string())]),
            (_, "invocation") => {
                record(vec![kind, ("!toolName", string()), ("arguments", one(&[json!({ "a": null })]))])
            }
            _ => record(vec![kind, ("!content", one(&[json!(3), json!([]), json!("x"), json!({ "isError": true })]))]),
        };
        record(vec![
            ("!id", one(&[json!("a"), json!("b c"), json!("\u{e4}/1")])),
            ("!name", string()),
            ("description", string()),
            ("!gradingType", one(&[json!(grading)])),
            ("!input", input(level)),
            ("!expected", expected),
        ])
    };
    let one_of = either(vec![
        of("invocation", "exact-match"),
        of("invocation", "llm-as-judge"),
        of("execution", "exact-match"),
        of("execution", "llm-as-judge"),
        of("scenario", "llm-as-judge"),
    ]);
    record(vec![
        ("!kind", one(&[json!("McpEvals")])),
        ("apiVersion", one(&[json!("mcp-eval/v1")])),
        ("metadata", anything()),
        ("server", string()),
        // Two of them could have the same ID, so there is at most one.
        ("!evals", either(vec![one(&[json!([])]), one_of.prop_map(|eval| json!([eval])).boxed()])),
    ])
}

pub fn mcp_config() -> Strategy1 {
    let common = || vec![("disabled", boolean()), ("alwaysAllow", list(string(), 0)), ("enableAllTools", boolean())];
    let stdio = vec![
        ("type", one(&[json!("stdio")])),
        ("!command", string()),
        ("args", list(string(), 0)),
        ("env", map(one(&[json!("${HOME}"), json!("a")]))),
    ];
    let http = vec![
        ("type", one(&[json!("http"), json!("streamable-http"), json!("streamableHttp")])),
        ("!url", one(&[json!("http://x"), json!("HTTPS://x/${PATH}"), json!("${URL}/mcp")])),
        ("headers", map(one(&[json!("${A:-b}")]))),
    ];
    let server =
        either([stdio, http].into_iter().map(|fields| record(fields.into_iter().chain(common()).collect())).collect());
    record(vec![("!mcpServers", record(vec![("!notes", server.clone()), ("other", server)]))])
}

/// One fault at a random location.
#[derive(Clone, Debug)]
pub enum Fault {
    Value(Value),
    Remove,
    Rename,
    Extra,
}

pub fn fault() -> BoxedStrategy<(prop::sample::Index, Fault)> {
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

/// Inserts a fault, and returns its location.
pub fn spoil(document: &mut Value, at: &prop::sample::Index, fault: Fault) -> String {
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

pub type Kind = (&'static str, fn() -> Strategy1);

pub const GENERATORS: [Kind; 8] = [
    ("task", legacy),
    ("task", steps),
    ("task", portable),
    ("eval", eval),
    ("agent", agent),
    ("oracle", oracle),
    ("evals", evals),
    ("mcp-config", mcp_config),
];

pub fn document() -> BoxedStrategy<(&'static str, Value)> {
    Union::new(GENERATORS.map(|(name, make)| make().prop_map(move |v| (name, v)).boxed())).boxed()
}
