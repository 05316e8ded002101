//! Evals that are made of something else: drafted from the tools of a server.
#![cfg(all(feature = "run", target_os = "linux"))]
#![expect(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test looks at the world from outside")]

#[path = "support/world.rs"]
#[expect(dead_code, reason = "shared with other tests")]
mod world;

use world::{World, gevals};

/// A server whose tools answer in every way, and write down that they were called.
const SERVER: &str = r#"#!/usr/bin/env python3
import json, sys, time
count = 0
READS = {"readOnlyHint": True}
def tool(name, annotations=READS, **schema):
    return {"name": name, "inputSchema": {"type": "object", **schema}, "annotations": annotations}
LEVEL = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer", "minimum": 2}}}
TOOLS = [
    tool("same", required=["word", "unit", "at"], properties={
        "word": {"type": "string"}, "unit": {"enum": ["km", "mi"]}, "at": LEVEL, "more": {"type": "string"}}),
    tool("counts"), tool("clock"), tool("fails"), tool("refuses"), tool("silent"), tool("long"), tool("token"), tool("structured"),
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

#[test]
fn a_first_suite_holds_what_came_out_alike_and_says_what_it_leaves_out() {
    let world = World::new(&[]);
    world.program("odd", SERVER);
    let server = world.path("bin/odd").to_str().unwrap().to_owned();
    let ran =
        world.run(&["evals", "draft", "-o", "evals.yaml", "--", &server]).expect(0, &["wrote evals.yaml: 2 evals"]);
    for why in [
        "left out: `counts`: it answers something else each time",
        "left out: `clock`: it answers something else each time",
        "left out: `fails`: called with {}, it reports an error: no such thing",
        "left out: `refuses`: unknown method (-32601)",
        "left out: `silent`: it answers nothing",
        "left out: `long`: its answer has 20027 bytes",
        "left out: `token`: of its answer, this has the format of a secret",
        "left out: `picky`: no arguments were found that fit its schema",
        "left out: `writes`: it is not declared to read only (`readOnlyHint`)",
        "left out: `unsaid`: it is not declared to read only (`readOnlyHint`)",
    ] {
        assert!(ran.err.contains(why), "{why}\n{}", ran.err);
    }
    assert_eq!(ran.err.matches("left out").count(), 10, "{}", ran.err);
    let calls = world.read("calls");
    assert!(!calls.contains("writes") && !calls.contains("unsaid") && !calls.contains("picky"), "{calls}");
    assert_eq!(calls.matches(r#"same {"word": "example", "unit": "km", "at": {"n": 2}}"#).count(), 2, "{calls}");
    assert_eq!(calls.matches("fails").count(), 1, "{calls}");
    let text = world.read("evals.yaml");
    assert!(text.contains("id: same-answers") && text.contains("structuredContent:"), "{text}");
    world.run(&["evals", "check", "evals.yaml", "--", &server]).expect(0, &["no findings in 1 file"]);
    world.run(&["evals", "draft", "-o", "evals.yaml", "--", &server]).expect(2, &["is there already"]);

    // All tools, if the user says so.
    let all = world.run(&["evals", "draft", "--allow-execution", "--", &server]).expect(0, &["id: writes-answers"]);
    assert!(all.out.contains("unsaid-answers") && world.read("calls").contains("writes {}"), "{}", all.out);
}

#[test]
fn the_demonstration_server_has_a_first_suite_that_its_shim_serves() {
    let world = World::new(&[]);
    let own = gevals().into_string().unwrap();
    let demo = ["--", own.as_str(), "demo-server", "--dir", "notes"];
    let drafted = world.run(&[&["evals", "draft"][..], &demo].concat()).expect(0, &["id: notes_list-answers"]);
    assert!(drafted.err.contains("left out: `notes_delete`"), "{}", drafted.err);
    world.write("evals.yaml", &drafted.out);
    world.run(&[&["evals", "check", "evals.yaml"][..], &demo].concat()).expect(0, &["no findings in 1 file"]);
    let shim = [&["evals", "conformance", "--", own.as_str(), "evals", "serve", "evals.yaml"][..], &demo].concat();
    world.run(&shim).expect(0, &["all requirements that were tried are met"]);
    world.run(&["evals", "draft", "--", "true"]).expect(3, &["exited with status 0"]);
}
