//! Evals made from other sources, and what is made from evals: suites drafted from the tools of a server, and portable
//! tasks, in both directions.
#![cfg(all(feature = "run", target_os = "linux"))]

use std::path::Path;

use gevals::{
    compile,
    diagnostic::Diagnostics,
    primitive::{
        self, Document, Level,
        bridge::{Agents, Imported, Portable, export, import, suite, text as file_text},
    },
    source::{MemoryFiles, Sources},
    yaml,
};
use proptest::{collection::vec, prelude::*};
use serde_json::{Map, Value, json};

use crate::support::{
    model::{self, Model, call, text},
    world::{World, gevals},
};

/// A server whose tools answer in every way, and log that they were called.
const SERVER: &str = r#"#!/usr/bin/env python3
import json, os, sys, time
count = 0
READS = {"readOnlyHint": True}
def tool(name, annotations=READS, **schema):
    return {"name": name, "inputSchema": {"type": "object", **schema}, "annotations": annotations}
LEVEL = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer", "minimum": 2}}}
TOOLS = [
    tool("same", required=["word", "unit", "at"], properties={
        "word": {"type": "string"}, "unit": {"enum": ["km", "mi"]}, "at": LEVEL, "more": {"type": "string"}}),
    tool("counts"), tool("clock"), tool("env"), tool("leaks"), tool("fails"), tool("refuses"), tool("silent"), tool("long"), tool("token"), tool("structured"),
    tool("picky", required=["id"], properties={"id": {"type": "string", "pattern": "^[A-Z]{9}$"}}),
    tool("writes", annotations={"destructiveHint": True}), tool("unsaid", annotations={}),
]
def call(name, args):
    global count
    with open("calls", "a") as log: print(name, json.dumps(args), file=log)
    text = lambda t: {"content": [{"type": "text", "text": t}]}
    if name == "same": return text(json.dumps(args, sort_keys=True))
    if name == "counts":
        count += 1
        return text(str(count))
    if name == "env": return text(json.dumps(dict(os.environ)))
    if name == "leaks": return text("the key is " + os.environ.get("LEAKED_TOKEN", ""))
    if name == "clock": return text(time.strftime("%H:%M:%S"))
    if name == "fails": return {**text("no such thing"), "isError": True}
    if name == "silent": return {"content": []}
    if name == "long": return text("x" * 20000)
    if name == "token": return text("ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8")
    if name == "structured": return {"content": [], "structuredContent": {"a": 1}}
    return text("done")
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message: continue
    method, params, out = message["method"], message.get("params", {}), {}
    if method == "initialize":
        out["result"] = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": {"name": "odd", "version": "1"}}
    elif method == "tools/list": out["result"] = {"tools": TOOLS}
    elif method == "tools/call" and params["name"] != "refuses": out["result"] = call(params["name"], params["arguments"])
    else: out["error"] = {"code": -32601, "message": "unknown method"}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **out}), flush=True)
"#;

/// Returns each loss in a report: its location, the part, its effect, and what is lost.
fn losses(told: &Value, of: impl Fn(&Value) -> String) -> Vec<String> {
    let text = |l: &Value, key: &str| l[key].as_str().unwrap().to_owned();
    let line =
        |l: &Value| format!("{}:{} {}{}: {}", text(l, "path"), l["line"], of(l), text(l, "effect"), text(l, "message"));
    told["losses"].as_array().unwrap().iter().map(line).collect()
}

#[test]
fn a_draft_contains_reproducible_answers_and_lists_what_it_omits() {
    let world = World::new(&[]);
    world.program("odd", SERVER);
    let server = world.path("bin/odd").to_str().unwrap().to_owned();
    let gevals = |args: &[&str]| {
        let mut command = world.command(args);
        command.env("LEAKED_TOKEN", "correct-horse-battery");
        world.start(command).end()
    };
    let ran = gevals(&["evals", "draft", "-o", "evals.yaml", "--", &server]).expect(0, &["wrote evals.yaml: 2 evals"]);
    for why in [
        "skipped: `counts`: its answer is different each time",
        "skipped: `clock`: its answer is different each time",
        "skipped: `env`: its answer contains a secret",
        "skipped: `leaks`: its answer contains a secret",
        "skipped: `fails`: called with {}, it reports an error: no such thing",
        "skipped: `refuses`: unknown method (-32601)",
        "skipped: `silent`: its answer is empty",
        "skipped: `long`: its answer has 20027 bytes",
        "skipped: `token`: its answer contains a secret",
        "skipped: `picky`: no arguments were found that match its schema",
        "skipped: `writes`: it is not declared as read-only (`readOnlyHint`)",
        "skipped: `unsaid`: it is not declared as read-only (`readOnlyHint`)",
    ] {
        assert!(ran.err.contains(why), "{why}\n{}", ran.err);
    }
    assert_eq!(ran.err.matches("skipped: ").count(), 12, "{}", ran.err);
    let calls = world.read("calls");
    assert!(!calls.contains("writes") && !calls.contains("unsaid") && !calls.contains("picky"), "{calls}");
    assert_eq!(calls.matches(r#"same {"word": "example", "unit": "km", "at": {"n": 2}}"#).count(), 2, "{calls}");
    assert_eq!(calls.matches("fails").count(), 1, "{calls}");
    let text = world.read("evals.yaml");
    assert!(text.contains("id: same-answers") && text.contains("structuredContent:"), "{text}");
    world.run(&["evals", "check", "evals.yaml", "--", &server]).expect(0, &["no findings in 1 file"]);
    world.run(&["evals", "draft", "-o", "evals.yaml", "--", &server]).expect(2, &["already exists"]);

    // All tools, if the user allows it.
    let all = gevals(&["evals", "draft", "--allow-execution", "--", &server]).expect(0, &["id: writes-answers"]);
    // Even without a secret, the environment is specific to one machine.
    let plain = world.run(&["evals", "draft", "--", &server]);
    assert!(plain.err.contains("skipped: `env`: its answer contains environment variables"), "{}", plain.err);
    assert!(all.out.contains("unsaid-answers") && world.read("calls").contains("writes {}"), "{}", all.out);
}

#[test]
fn the_draft_for_the_demo_server_can_be_served() {
    let world = World::new(&[]);
    let own = gevals().into_string().unwrap();
    let demo = ["--", own.as_str(), "demo-server", "--dir", "notes"];
    let drafted = world.run(&[&["evals", "draft"][..], &demo].concat()).expect(0, &["id: notes_list-answers"]);
    assert!(drafted.err.contains("skipped: `notes_delete`"), "{}", drafted.err);
    world.write("evals.yaml", &drafted.out);
    world.run(&[&["evals", "check", "evals.yaml"][..], &demo].concat()).expect(0, &["no findings in 1 file"]);
    let shim = [&["evals", "conformance", "--", own.as_str(), "evals", "serve", "evals.yaml"][..], &demo].concat();
    world.run(&shim).expect(0, &["all tested requirements are met"]);
    world.run(&["evals", "draft", "--", "true"]).expect(3, &["exited with status 0"]);
}

/// The evals of a file.
fn document(evals: &[Value]) -> Document {
    let text = json!({"kind": primitive::KIND, "evals": evals}).to_string();
    let mut found = Diagnostics::default();
    let tree = yaml::parse(Sources::default().add("evals", text.as_str()), text, &mut found).unwrap();
    let document = primitive::file(tree, &mut found);
    primitive::check(std::slice::from_ref(&document), None, &mut found);
    assert!(!found.iter().any(|d| d.strength.is_error()), "{evals:#?}: {found:?}");
    document
}

/// The files of a directory with these tasks, as `gevals evals import` writes them.
fn folder(tasks: &[Imported]) -> MemoryFiles {
    let mut files = MemoryFiles::default();
    let mut add = |path: &str, value: &Value| files.add(format!("suite/{path}"), file_text(value), false);
    add(
        "mcp.yaml",
        &json!({"mcpServers": {"notes": {"command": "gevals", "args": ["demo-server"], "enableAllTools": true}}}),
    );
    let agents = Agents { model: Some("openai:m-1"), judge: Some("openai:j-1") };
    for level in Level::ALL {
        let own: Vec<(String, &Imported)> = tasks
            .iter()
            .enumerate()
            .filter(|(_, task)| task.level == level)
            .map(|(nth, task)| (format!("tasks/{nth}.yaml"), task))
            .collect();
        if !own.is_empty() {
            add(&format!("{level}.yaml"), &suite(level.name(), level, agents, &own));
        }
        own.iter().for_each(|(path, task)| add(path, &task.task));
    }
    files
}

/// Exports the tasks of a directory as evals, in the order of their files; `gevals check` finds no error in it.
fn exported(files: &MemoryFiles) -> Vec<Value> {
    let sources = Sources::default();
    let compiled = compile(&["suite".into()], &sources, files);
    if let Some(found) = compiled.diagnostics.iter().find(|d| d.strength.is_error()) {
        let source = sources.get(found.span.file);
        panic!("{}: {}\n{}", source.path().display(), found.message, source.text());
    }
    let evals = (0..compiled.project.tasks.len()).map(|nth| {
        let unit = compiled.project.tasks.iter().position(|t| t.path == Path::new(&format!("suite/tasks/{nth}.yaml")));
        let index = unit.unwrap();
        let unit = &compiled.project.tasks[index];
        let (eval, selected) = compiled
            .project
            .evals
            .iter()
            .find_map(|eval| Some((eval, eval.selected.iter().find(|s| s.task == index)?)))
            .unwrap();
        let eval = eval.eval.as_ref().unwrap();
        let assertions: Vec<_> = selected.sets.iter().filter_map(|&i| eval.task_sets[i].assertions.as_ref()).collect();
        let idle = eval.agent.as_ref().unwrap().kind.value == "builtin.noop";
        let task = unit.task.as_ref().unwrap();
        let portable =
            Portable { task, tree: &unit.tree, prompt: None, idle, assertions: &assertions, server: Some("notes") };
        let exported = export(&portable).unwrap_or_else(|loss| panic!("{}", loss.message));
        assert!(exported.losses.is_empty() && exported.server.as_deref() == Some("notes"), "{exported:#?}");
        exported.eval
    });
    evals.collect()
}

/// Texts that a template, YAML or a lint may misinterpret.
fn said() -> impl Strategy<Value = String> {
    let odd = prop::sample::select(vec![
        "{random.id}",
        "\\{steps.a.outputs.b}",
        "\\\\{env.X}",
        "{{ x }}",
        "${HOME}",
        "null",
        "yes",
        "2024-01-01",
        "- a",
        "a: b # c",
        " ",
        "'\"",
        "\n",
        "\r\n",
        "\t",
        "*",
        "&a",
        "!x",
        "%",
        "@",
        "é",
        "\u{2028}",
        "\u{1f980}",
        "buy milk",
        "{",
        "}",
        "1e3",
        "0x1f",
        ".*",
        "",
    ]);
    (vec(odd, 0..5), "[a-z]{1,6}").prop_map(|(odd, end)| odd.concat() + &end)
}

fn value() -> impl Strategy<Value = Value> {
    let number = prop_oneof![
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_filter("JSON has none", |x| x.is_finite()).prop_map(Value::from),
        prop::sample::select(vec!["1.0", "1e400", "-0.0", "123456789012345678901234567890", "0.1000"])
            .prop_map(|text| serde_json::from_str(text).unwrap()),
    ];
    let leaf =
        prop_oneof![Just(Value::Null), any::<bool>().prop_map(Value::from), number, said().prop_map(Value::from)];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![vec(inner.clone(), 0..4).prop_map(Value::from), object(inner).prop_map(Value::from)]
    })
}

/// Keys, some of which have a meaning in an expectation.
fn object(inner: impl Strategy<Value = Value>) -> impl Strategy<Value = Map<String, Value>> {
    let words = [
        "path", "equals", "matches", "contains", "exists", "type", "status", "json", "text", "isError", "args", "<<",
        "on",
    ];
    let key = prop_oneof![said(), prop::sample::select(words.map(str::to_owned).to_vec())];
    vec((key, inner), 0..4).prop_map(|pairs| pairs.into_iter().collect())
}

/// What an execution may expect, in the form that an export writes.
fn content() -> impl Strategy<Value = Value> {
    let block = prop_oneof![
        said().prop_map(|text| json!({"type": "text", "text": text})),
        Just(json!({"type": "image", "data": "aGk=", "mimeType": "image/png"})),
    ];
    let blocks = vec(block.clone(), 0..3).prop_map(Value::from);
    let part = prop_oneof![said().prop_map(Value::from), blocks, block, value()];
    let bare = part.clone().prop_filter("it is a whole result, or nothing", |content| {
        let keys = ["content", "structuredContent", "isError"];
        let whole =
            content.as_object().is_some_and(|map| !map.is_empty() && map.keys().all(|k| keys.contains(&k.as_str())));
        !whole && !content.is_null()
    });
    let solid = |value: &Value| !value.is_null();
    let named = (
        prop::option::of(part.prop_filter("nothing", solid)),
        prop::option::of(value().prop_filter("nothing", solid)),
        prop::option::of(any::<bool>()),
    );
    let named = named.prop_filter_map("a bare one says the same", |(content, structured, error)| {
        let mut map = Map::new();
        let bare = structured.is_none() && error.is_none();
        map.extend(content.map(|content| ("content".to_owned(), content)));
        map.extend(structured.map(|value| ("structuredContent".to_owned(), value)));
        map.extend(error.map(|error| ("isError".to_owned(), error.into())));
        (!bare).then_some(Value::from(map))
    });
    prop_oneof![bare, named]
}

/// An eval without its ID that can be expressed as a task.
fn eval() -> impl Strategy<Value = Value> {
    let message = || said().prop_map(|text| json!([{"role": "user", "content": {"type": "text", "text": text}}]));
    let tool = || "[a-zA-Z0-9_/-]{1,12}(\\.[a-z]{1,5})?";
    let execution = (tool(), object(value()), content()).prop_map(|(tool, arguments, content)| {
        (
            json!({"type": "execution", "toolName": tool, "arguments": arguments}),
            json!({"type": "exact-match", "content": content}),
        )
    });
    let invocation = (message(), prop::option::of(tool()), object(value())).prop_filter_map(
        "it expects nothing",
        |(messages, tool, arguments)| {
            let mut expected = Map::from_iter([("type".to_owned(), json!("exact-match"))]);
            let nothing = tool.is_none() && arguments.is_empty();
            expected.extend(tool.map(|tool| ("toolName".to_owned(), tool.into())));
            if !arguments.is_empty() {
                expected.insert("arguments".to_owned(), arguments.into());
            }
            (!nothing).then(|| (json!({"type": "invocation", "messages": messages}), Value::from(expected)))
        },
    );
    let scenario = (message(), prop::option::of(1u32..), said()).prop_map(|(messages, turns, rubric)| {
        let mut input = json!({"type": "scenario", "messages": messages});
        if let Some(turns) = turns {
            input["maxTurns"] = turns.into();
        }
        (input, json!({"type": "llm-as-judge", "rubric": rubric}))
    });
    let parts = prop_oneof![execution, invocation, scenario];
    (parts, said(), prop::option::of(said())).prop_map(|((input, expected), name, description)| {
        let mut eval = json!({"id": "", "name": name});
        if let Some(description) = description {
            eval["description"] = description.into();
        }
        eval["gradingType"] = expected["type"].clone();
        (eval["input"], eval["expected"]) = (input, expected);
        eval
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn round_trips_lose_nothing_that_both_support(evals in vec((eval(), "[a-zA-Z0-9](/| |\\{env\\.A\\}|é|:)?"), 1..6)) {
        let numbered = evals.into_iter().enumerate().map(|(nth, (mut eval, id))| {
            eval["id"] = format!("{id}{nth}").into();
            eval
        });
        let evals: Vec<Value> = numbered.collect();
        let there = |evals: &[Value]| -> Vec<Imported> {
            document(evals).evals.iter().map(|eval| import(eval, "notes").unwrap_or_else(|loss| panic!("{}", loss.message))).collect()
        };
        let tasks = there(&evals);
        let back = exported(&folder(&tasks));
        prop_assert_eq!(&back, &evals);
        let again = there(&back);
        for (one, other) in tasks.iter().zip(&again) {
            prop_assert_eq!((&one.task, &one.assertions, one.level), (&other.task, &other.assertions, other.level));
        }
    }
}

const SHIPPED: &str = r#"kind: McpEvals
server: notes
evals:
  - id: read-plan
    name: Gives the text of a note
    description: As it was written.
    gradingType: exact-match
    input: {type: execution, toolName: notes_read, arguments: {title: plan}}
    expected: {type: exact-match, content: [{type: text, text: "buy {random.id} milk"}]}
  - id: no such note
    name: no such note
    gradingType: exact-match
    input: {type: execution, toolName: notes_read, arguments: {title: none}}
    expected: {type: exact-match, content: {isError: true}}
  - id: read-invocation
    name: Reads the note
    gradingType: exact-match
    input: {type: invocation, messages: [{role: user, content: {type: text, text: What does plan say?}}]}
    expected: {type: exact-match, toolName: notes_read, arguments: {title: plan}}
  - id: tell
    name: Tells what the plan is
    gradingType: llm-as-judge
    input: {type: scenario, messages: [{role: user, content: {type: text, text: What is my plan?}}], maxTurns: 4}
    expected: {type: llm-as-judge, rubric: It says that I must buy milk.}
"#;

/// A world with a note, a server that ships these evals, and its config.
fn shipping(evals: &str) -> World {
    let world = World::new(&[("evals.yaml", evals)]);
    let own = gevals().into_string().unwrap();
    let demo = json!({"command": "gevals", "args": ["demo-server", "--dir", world.path("notes")]});
    let shim = json!({"command": own, "args": ["evals", "serve", world.path("evals.yaml"), "--", own, "demo-server", "--dir", world.path("notes")]});
    world.write("mcp.json", &json!({"mcpServers": {"plain": demo, "notes": shim}}).to_string());
    world.write("notes/plan.md", "buy {random.id} milk");
    world
}

#[test]
fn evals_of_a_server_run_as_tasks_and_are_exported_again() {
    let world = shipping(SHIPPED);
    let models = ["--model", "openai:m-1", "--judge", "openai:j-1"];
    let server = ["--mcp-config", "mcp.json", "notes"];
    let import = |args: &[&str]| world.run(&[&["evals", "import", "-o", "suite"], args, &server[..]].concat());
    import(&[]).expect(2, &["nothing is written: `read-invocation`, `tell` need a model", "--model provider:model"]);
    assert!(!world.path("suite").exists());
    let ran = import(&models).expect(0, &["wrote suite: 4 tasks of 4 evals; 2 losses change the result"]);
    for loss in [
        "evals/list of gevals-notes:44:13: differs: `read-invocation`: the agent's call is executed, and all its calls count",
        "differs: `tell`: a task cannot limit an agent to 4 answers",
    ] {
        assert!(ran.out.contains(loss), "{loss}\n{}", ran.out);
    }
    import(&models).expect(2, &["`suite` already exists and is not empty: use --force"]);
    world.write("suite/mine.txt", "stays");
    import(&[&models[..], &["--force"]].concat()).expect(0, &["wrote suite"]);
    assert_eq!(world.read("suite/mine.txt"), "stays");
    let left: Vec<_> = std::fs::read_dir(world.path("suite")).unwrap().flatten().map(|e| e.file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().starts_with('.')), "{left:?}");

    let checked = world.run(&["check", "suite"]).expect(0, &[]);
    assert!(!checked.out.contains("error"), "{}", checked.out);

    // What passes as an eval passes as a task, and what fails as an eval fails as a task.
    let ran = world.run(&["run", "suite/execution.yaml", "--require-server-use"]).expect(0, &["2 of 2 tasks passed"]);
    assert!(!ran.out.contains("without testing anything"), "the steps have called the server: {}", ran.out);
    let answers = |replies: Vec<model::Reply>, file: &str, code: i32| {
        let model = Model::new(replies);
        let mut command = world.command(&["run", file]);
        command.env("OPENAI_BASE_URL", &model.url).env("OPENAI_API_KEY", "key-of-the-model");
        let out = command.output().unwrap();
        let told = String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(code), "{told}");
        (told, model.asked().iter().map(|asked| asked.body.to_string()).collect::<Vec<_>>())
    };
    let read = || call("notes_read", json!({"title": "plan", "more": false}));
    answers(vec![call("notes_read", json!({"title": "plan"})), text("Milk.")], "suite/invocation.yaml", 0);
    let (told, _) = answers(vec![read(), read(), text("Milk.")], "suite/invocation.yaml", 1);
    assert!(told.contains("maxToolCalls"), "{told}");
    let (told, _) = answers(vec![text("I would rather not.")], "suite/invocation.yaml", 1);
    assert!(told.contains("`notes.notes_read` with {\"title\":\"plan\"}"), "{told}");
    let verdict = |passed: bool| {
        let category = if passed { "n/a" } else { "semantic_mismatch" };
        call("submit_judgement", json!({"passed": passed, "reason": "as it is", "failureCategory": category}))
    };
    let work =
        |passed| vec![call("notes_read", json!({"title": "plan"})), text("To buy it."), verdict(passed), text("done")];
    let (_, asked) = answers(work(true), "suite/scenario.yaml", 0);
    for part in ["RUBRIC", "It says that I must buy milk.", "notes_read", "buy {random.id} milk", "To buy it."] {
        assert!(asked[2].contains(part), "{part}\n{}", asked[2]);
    }
    answers(work(false), "suite/scenario.yaml", 1);

    // The same evals again, and the same tasks from these.
    world.run(&["evals", "export", "suite", "-o", "back.yaml"]).expect(0, &["wrote back.yaml: 4 evals of 4 tasks\n"]);
    let list = |file: &str| {
        let text = world.read(file);
        let mut evals = document_of(&text);
        evals.sort_by_key(|eval| eval["id"].to_string());
        evals
    };
    assert_eq!(list("back.yaml"), list("evals.yaml"));
    world.run(&["evals", "check", "back.yaml"]).expect(0, &["no findings"]);

    // A wrong expectation fails.
    let right = world.read("suite/tasks/read-plan.yaml");
    assert!(right.contains("\\{random.id}"), "{right}");
    world.write("suite/tasks/read-plan.yaml", &right.replace("milk", "bread"));
    world.run(&["run", "suite/execution.yaml"]).expect(1, &["content[0].text", "1 of 2 tasks passed, 1 failed"]);
}

fn document_of(text: &str) -> Vec<Value> {
    let value: Value = serde_yaml::from_str(text).unwrap();
    value["evals"].as_array().unwrap().clone()
}

#[test]
fn evals_that_tasks_cannot_express_are_omitted_and_reported() {
    let eval = |id: &str, input: &str, expected: &str| {
        let grading = if expected.contains("rubric") { "llm-as-judge" } else { "exact-match" };
        let kind = format!("type: {grading}");
        format!(
            "  - {{id: {id}, name: {id}, gradingType: {grading}, input: {{{input}}}, expected: {{{kind}, {expected}}}}}\n"
        )
    };
    let user = |messages: &str| format!("type: scenario, messages: [{messages}]");
    let said = |text: &str| format!("{{role: user, content: {{type: text, text: {text}}}}}");
    let evals = [
        eval("good", "type: execution, toolName: notes_read, arguments: {title: none}", "content: {isError: true}"),
        eval("judged", "type: execution, toolName: notes_list, arguments: {}", "rubric: It lists."),
        eval("chosen", &user(&said("x")).replace("scenario", "invocation"), "rubric: It chooses."),
        eval("talk", &user(&format!("{}, {}", said("a"), said("b"))), "rubric: r"),
        eval("picture", &user("{role: user, content: [{type: image, data: aGk=, mimeType: image/png}]}"), "rubric: r"),
        eval(
            "two",
            &user("{role: user, content: [{type: text, text: a}, {type: text, text: b, _meta: {c: 1}}]}"),
            "rubric: r",
        ),
        eval("unknown-tool", "type: execution, toolName: notes_rea, arguments: {title: x}", "content: x"),
        eval("broken", "type: execution, toolNam: notes_read, arguments: {}", "content: x"),
        eval("good", "type: execution, toolName: notes_list, arguments: {}", "content: x"),
        eval("odd-error", "type: execution, toolName: notes_list, arguments: {}", "content: {isError: maybe}"),
    ];
    let world = shipping(&format!("kind: McpEvals\nevals:\n{}", evals.concat()));
    let args = ["--model", "openai:m-1", "--judge", "openai:j-1", "--mcp-config", "mcp.json", "plain"];
    let import =
        |more: &[&str]| world.run(&[&["evals", "import", "evals.yaml", "-o", "suite"], more, &args[..]].concat());
    let ran = import(&["--report", "json"]);
    assert_eq!(ran.code, Some(1), "{}{}", ran.out, ran.err);
    let told: Value = serde_json::from_str(&ran.out).unwrap();
    let ids: Vec<_> = told["written"].as_array().unwrap().iter().map(|w| w["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["good", "two"]);
    let losses = losses(&told, |l| format!("{} ", l["of"].as_str().unwrap()));
    for loss in [
        "evals.yaml:4 judged left out: the judge of a task evaluates the work of an agent, not the result of a tool",
        "evals.yaml:5 chosen left out: the judge of a task evaluates the work of an agent, not a single answer of a model",
        "evals.yaml:6 talk left out: a prompt must be a single message, but there are 2",
        "evals.yaml:7 picture left out: a prompt must be text, but this message contains `image`",
        "evals.yaml:8 two differs: its 2 texts are joined to one prompt, each on separate lines",
        "evals.yaml:8 two dropped: only the text is used for the prompt",
        "evals.yaml:9 unknown-tool left out: the server `gevals-notes` has no tool `notes_rea`",
        "evals.yaml:10 broken left out: unknown key `toolNam` in the input of an execution",
        "evals.yaml:11 good left out: duplicate id `good`",
        "evals.yaml:12 odd-error left out: as a task, it has an error: `isError` must be a boolean, not a string",
    ] {
        assert!(losses.contains(&loss.to_owned()), "{loss}\n{losses:#?}");
    }
    assert_eq!(losses.len(), 10, "{losses:#?}");
    world.run(&["check", "suite"]).expect(0, &[]);
    // An import that fails leaves nothing behind.
    std::fs::remove_dir_all(world.path("suite")).unwrap();
    std::fs::create_dir_all(world.path("suite/mcp.yaml")).unwrap();
    import(&["--force"]).expect(3, &["cannot write `suite/mcp.yaml`: it is a directory"]);
    assert_eq!(std::fs::read_dir(world.path("suite")).unwrap().count(), 1);
    world
        .run(&["evals", "import", "evals.yaml", "-o", "other"])
        .expect(2, &["`evals.yaml` is a file of evals; also specify its server"]);
    world.run(&["evals", "import", "-o", "other", "--mcp-config", "mcp.json", "plain"]).expect(2, &["ships no evals"]);
}

#[test]
fn a_written_config_lists_external_inputs_of_the_server() {
    let world = shipping(SHIPPED);
    let own = gevals().into_string().unwrap();
    let server = ["--", own.as_str(), "demo-server", "--dir", "notes"];
    let args = ["evals", "import", "evals.yaml", "-o", "deep/suite", "--level", "execution", "--name", "my-notes"];
    let ran = world.run(&[&args[..], &server].concat()).expect(0, &["wrote deep/suite: 2 tasks of 2 evals"]);
    assert!(
        ran.err.contains("note: the server is started in another directory, so `notes` is written as"),
        "{}",
        ran.err
    );
    assert!(world.read("deep/suite/tasks/read-plan.yaml").contains("my-notes.notes_read"));
    world.run(&["run", "deep/suite/execution.yaml"]).expect(0, &["2 of 2 tasks passed"]);
    // A secret on the command line is not written to any file.
    let demo = world.command(&["proxy", "--http", "127.0.0.1:0", "--", own.as_str(), "demo-server", "--dir", "notes"]);
    let running = world.start(demo);
    let url = (0..200).find_map(|_| {
        std::thread::sleep(std::time::Duration::from_millis(20));
        let said = world.read("stderr");
        said.split_whitespace().find(|word| word.starts_with("http://")).map(str::to_owned)
    });
    let url = url.unwrap();
    let header = ["--header", "Authorization: Bearer of-nobody-else", "--header", "Accept-Language: de"];
    let mut import = world.command(&["evals", "import", "evals.yaml", "-o", "http", "--level", "execution", &url]);
    let out = import.args(header).output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr).into_owned() + &String::from_utf8_lossy(&out.stdout);
    assert_eq!(out.status.code(), Some(0), "{said}");
    assert!(
        said.contains("the value of the header `Authorization` is not written: set it in `AUTHORIZATION`"),
        "{said}"
    );
    let config = world.read("http/mcp.yaml");
    assert!(config.contains("Authorization: ${AUTHORIZATION}") && config.contains("Accept-Language: de"), "{config}");
    running.signal(rustix::process::Signal::TERM);
    running.end();
}

#[test]
fn tasks_that_evals_cannot_express_are_reported_with_a_location() {
    let task = |name: &str, spec: &str| {
        format!(
            "kind: Task\napiVersion: mcp-eval/v1\nmetadata:\n  name: {name}\n  difficulty: easy\nspec:\n  requires:\n    - {{mcpServer: notes, as: n}}\n{spec}"
        )
    };
    let idle = |name: &str, steps: &str| task(name, &format!("  prompt: Nothing.\n  verify:\n{steps}"));
    let read = "    - n.notes_read: {args: {title: plan}, expect: EXPECT}\n";
    let tasks = [
        ("idle/equal", idle("equal", &read.replace("EXPECT", "{content: {equals: x, contains: x}}"))),
        ("idle/part", idle("part", &read.replace("EXPECT", "{content: {contains: x}}"))),
        ("idle/refused", idle("refused", &read.replace("EXPECT", "{isError: true, content: {contains: no}}"))),
        ("idle/answers", idle("answers", "    - n.notes_list: {id: a, timeout: 5s}\n")),
        ("idle/object", idle("object", &read.replace("EXPECT", "{content: {json: {path: $, equals: {a: 1}}}}"))),
        ("idle/twice", idle("twice", "    - n.notes_list: {}\n    - n.notes_list: {}\n")),
        ("idle/more", idle("more", "    - n.notes_list: {expect: {content: {equals: x}}}\n    - command: {run: test -f x}\n")),
        ("idle/hole", idle("hole", "    - n.notes_read: {args: {title: \"a {random.id}\"}, expect: {content: {equals: x}}}\n")),
        ("idle/none", idle("none", "    - command: {run: test -f x}\n")),
        ("idle/set-up", task("set-up", "  setup:\n    - n.notes_list: {}\n  prompt: x\n  verify:\n    - n.notes_list: {}\n")),
        ("model/call", task("call", "  prompt: Read it.\n  verify: []\n")),
        ("model/calls", task("calls", "  prompt: Read it.\n  verify: []\n")),
        ("model/uncalled", task("uncalled", "  prompt: Read it.\n  verify: []\n")),
        ("model/says", task("says", "  prompt: {file: says.txt}\n  verify:\n    - llm: {contains: milk}\n    - command: {run: test -f x}\n  cleanup:\n    - command: {run: rm -f x}\n")),
        ("model/world", task("world", "  prompt: Write it.\n  verify:\n    - n.notes_read: {args: {title: x}}\n")),
        ("model/steps", "kind: Task\napiVersion: mcpchecker/v1alpha2\nmetadata: {name: steps, difficulty: easy}\nspec:\n  prompt: {inline: x}\n  verify:\n    - script: {inline: test -f x}\n".to_owned()),
        ("model/wrong", task("wrong", "  prompt: \"{random.idd}\"\n  verify: []\n")),
    ];
    let world = World::new(&[
        ("mcp.yaml", "mcpServers: {notes: {command: gevals, args: [demo-server], enableAllTools: true}}\n"),
        (
            "idle.yaml",
            "kind: Eval\nmetadata: {name: idle}\nconfig:\n  agent: {type: builtin.noop}\n  mcpConfigFile: mcp.yaml\n  taskSets: [{glob: \"idle/*.yaml\"}]\n",
        ),
        ("model/says.txt", "What is it?"),
        (
            "model.yaml",
            r#"kind: Eval
metadata: {name: model}
config:
  agent: {type: builtin.llm-agent, model: "openai:m-1"}
  llmJudge: {ref: {type: builtin.llm-agent, model: "openai:j-1"}}
  mcpConfigFile: mcp.yaml
  taskSets:
    - path: model/call.yaml
      assertions:
        toolsUsed: [{server: notes, tool: notes_read, argumentsMatch: {title: plan}, status: ok}]
        toolsNotUsed: [{server: notes, tool: notes_delete}]
    - path: model/calls.yaml
      assertions:
        toolsUsed: [{server: notes, tool: notes_read}, {server: notes, tool: notes_list}]
        maxToolCalls: 2
    - path: model/says.yaml
      assertions: {minToolCalls: 1}
    - {path: model/world.yaml}
    - {path: model/steps.yaml}
    - {path: model/wrong.yaml}
    - {path: model/uncalled.yaml}
"#,
        ),
    ]);
    tasks.iter().for_each(|(path, text)| world.write(&format!("{path}.yaml"), text));
    let export = ["evals", "export", "idle.yaml", "model.yaml", "-o", "out.json"];
    let ran = world.run(&[&export[..], &["--report", "json"]].concat());
    assert_eq!(ran.code, Some(1), "{}{}", ran.out, ran.err);
    let told: Value = serde_json::from_str(&ran.out).unwrap();
    let mut losses = losses(&told, |_| String::new());
    losses.retain(|loss| !loss.ends_with("an eval does not support `difficulty`"));
    for loss in [
        "idle/equal.yaml:11 weaker: an exact match compares the whole content, but `contains` only a part of it",
        "idle/part.yaml:11 left out: an exact match compares the whole content, but `contains` only a part of it",
        "idle/refused.yaml:11 weaker: an exact match compares the whole content, but `contains` only a part of it",
        "idle/answers.yaml:11 dropped: an eval does not support these keys of a step: `id`, `timeout`",
        "idle/object.yaml:11 differs: it is compared with the text of the result, not with its structured content",
        "idle/twice.yaml:12 left out: an eval calls one tool, but this is a second call",
        "idle/more.yaml:12 weaker: an eval does not support steps of type `command`: it is not checked",
        "idle/hole.yaml:11 left out: an eval is the same in each run, but `{random.id}` is filled when the task runs",
        "idle/none.yaml:10 left out: an eval calls a tool of a server, but no step of this task does",
        "idle/set-up.yaml:10 left out: an eval cannot prepare an environment, as `setup` does",
        "model.yaml:10 weaker: an invocation does not execute the call, so `status` is not checked",
        "model.yaml:11 weaker: an invocation expects one call and cannot check `toolsNotUsed`",
        "model.yaml:14 left out: an invocation expects one call, but `toolsUsed` has several",
        "model/says.yaml:11 differs: an eval only has a rubric, which describes `contains` in words",
        "model/says.yaml:12 weaker: an eval does not support steps of type `command`: it is not checked",
        "model/says.yaml:13 differs: an eval has no cleanup: its changes remain",
        "model.yaml:17 weaker: a scenario cannot check calls: `minToolCalls` is not checked",
        "model/steps.yaml:3 left out: it is not in the portable dialect: convert it with `gevals convert`",
    ] {
        assert!(losses.contains(&loss.to_owned()), "{loss}\n{losses:#?}");
    }
    for (place, part) in [
        ("model.yaml:10 differs", "may make other calls before"),
        ("model/world.yaml:11 left out", "the task checks the effect of the agent's work"),
        ("model/wrong.yaml:9 left out", "idd"),
        ("model/uncalled.yaml:10 left out", "nothing is expected"),
    ] {
        assert!(losses.iter().any(|l| l.starts_with(place) && l.contains(part)), "{place} {part}\n{losses:#?}");
    }
    let evals = document_of(&world.read("out.json"));
    let of = |id: &str, key: &str| evals.iter().find(|eval| eval["id"] == id).map(|eval| eval["expected"][key].clone());
    assert_eq!(of("refused", "content"), Some(json!({"isError": true})));
    assert_eq!(of("answers", "content"), Some(json!({"isError": false})));
    assert_eq!(of("object", "content"), Some(json!({"a": 1})));
    assert_eq!(of("says", "rubric"), Some(json!("The last answer states all of this, in meaning: milk")));
    let ids: Vec<_> = evals.iter().map(|eval| eval["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["answers", "equal", "more", "object", "refused", "call", "says"]);
    world.run(&["evals", "check", "out.json"]).expect(0, &[]);
    world.run(&export).expect(2, &["`out.json` already exists"]);
    let text = world.run(&[&export[..], &["--force"]].concat()).expect(1, &["wrote out.json: 7 evals of 17 tasks"]);
    assert!(
        text.out.contains("dropped: `answers`: an eval does not support `difficulty`; the same for `equal`"),
        "{}",
        text.out
    );
}

#[test]
fn evals_and_their_tasks_pass_for_the_same_calls() {
    let same = |at: Value| json!({"at": {"n": at}, "unit": "km", "word": "x"});
    let block = |text: &str| json!({"type": "text", "text": text});
    let cases = [
        (
            "unsaid",
            vec![
                json!("done"),
                json!("don"),
                json!(""),
                json!([block("done")]),
                json!([block("done"), block("done")]),
                json!([]),
                block("done"),
                json!({"isError": false}),
                json!({"isError": true}),
                json!({"content": "done", "isError": false}),
                json!({"content": "done"}),
                json!({"content": "don", "isError": false}),
                json!(3),
                json!({"a": 1}),
            ],
        ),
        (
            "same",
            vec![
                same(json!(2)),
                same(json!(2.0)),
                same(json!(3)),
                json!("{\"word\": \"x\", \"unit\": \"km\", \"at\": {\"n\": 2}}"),
                json!([block("{\"word\":\"x\",\"unit\":\"km\",\"at\":{\"n\":2}}")]),
                json!("{\"word\": \"x\"}"),
                json!({"content": same(json!(2)), "isError": false}),
            ],
        ),
        (
            "fails",
            vec![
                json!("no such thing"),
                json!({"isError": true}),
                json!({"isError": true, "content": "no such thing"}),
                json!({"isError": true, "content": "nothing"}),
                json!({"isError": false, "content": "no such thing"}),
            ],
        ),
        ("silent", vec![json!([]), json!(""), json!({"content": [], "isError": false}), json!([block("x")])]),
        (
            "structured",
            vec![
                json!({"structuredContent": {"a": 1}}),
                json!({"structuredContent": {"a": 1.0}}),
                json!({"structuredContent": {"a": 2}}),
                json!({"structuredContent": {"a": 1, "b": null}}),
                json!({"structuredContent": [1]}),
                json!([]),
                json!({"structuredContent": {"a": 1}, "content": "x"}),
                json!({"structuredContent": {"a": 1}, "content": []}),
            ],
        ),
    ];
    let evals = cases.into_iter().flat_map(|(tool, contents)| {
        contents.into_iter().enumerate().map(move |(nth, content)| {
            let arguments = if tool == "same" { json!({"word": "x", "unit": "km", "at": {"n": 2}}) } else { json!({}) };
            json!({
                "id": format!("{tool}-{nth}"), "name": "n", "gradingType": "exact-match",
                "input": {"type": "execution", "toolName": tool, "arguments": arguments},
                "expected": {"type": "exact-match", "content": content},
            })
        })
    });
    let evals: Vec<Value> = evals.collect();
    let world = World::new(&[("evals.yaml", &json!({"evals": evals}).to_string())]);
    world.program("odd", SERVER);
    let odd = world.path("bin/odd").to_str().unwrap().to_owned();
    let own = gevals().into_string().unwrap();
    let shim = ["--", own.as_str(), "evals", "serve", "evals.yaml", "--", odd.as_str()];
    let asked = world.run(&[&["evals", "run", "--allow-execution", "--format", "json"][..], &shim].concat());
    let asked: Value = serde_json::from_str(&asked.out).unwrap_or_else(|_| panic!("{}{}", asked.out, asked.err));
    let asked = asked["results"].as_array().unwrap().iter().map(|r| (r["evalId"].clone(), r["passed"].clone()));
    let mut asked: Vec<_> = asked.collect();
    world.run(&[&["evals", "import", "-o", "suite"][..], &shim].concat()).expect(0, &["38 tasks of 38 evals"]);
    world.run(&["run", "suite/execution.yaml"]).expect(1, &["of 38 tasks passed"]);
    let results = world.results("odd-execution");
    let done = results["results"].as_array().unwrap().iter().map(|r| (r["taskName"].clone(), r["taskPassed"].clone()));
    let mut done: Vec<_> = done.collect();
    for list in [&mut asked, &mut done] {
        list.sort_by_key(|(id, _)| id.to_string());
    }
    assert_eq!(asked, done);
    let passed = asked.iter().filter(|(_, passed)| *passed == true).count();
    assert_eq!(passed, 19, "{asked:#?}");
}
