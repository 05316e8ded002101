//! Scenarios: each file in `scenarios/` contains evals, tasks and agents, and the expected result of running them. They
//! include what upstream's own suite covers, in our words (§12 of the upstream behavior).
//!
//! A scenario file is Markdown. Its fenced blocks with a path are files; `args` is the command line (`run eval.yaml` by
//! default); `expect` contains one expectation per line. The part before the first `##` applies to all sections. A
//! section with a table is run once per row: the header of each column is a word in the files, and the cell replaces
//! it; the last column is `expect`, with `;` between expectations. `HTTP` is the address of a small HTTP server,
//! `WORLD` the directory of the scenario.
#![cfg(all(feature = "run", target_os = "linux"))]

use std::{collections::BTreeSet, path::Path, sync::LazyLock, time::Duration};

use axum::{
    Json, Router,
    http::{HeaderMap, Method, StatusCode},
    routing::{any, get},
};
use serde_json::{Value, json};

use crate::support::world::{self, World};

macro_rules! scenarios {
    ($($name:ident)*) => {
        $(#[test] fn $name() { run_file(stringify!($name)); })*

        #[test]
        fn every_file_is_run() {
            let here: BTreeSet<_> = [$(concat!(stringify!($name), ".md")),*].into();
            let entries = std::fs::read_dir(folder()).unwrap().flatten();
            let there: BTreeSet<_> = entries.map(|e| e.file_name().into_string().unwrap()).collect();
            assert!(here.into_iter().eq(there.iter().map(String::as_str)), "{there:?}");
        }
    };
}

scenarios! { assertions dialects extensions functional http_steps limits results selection servers shell_agents steps unsupported }

fn folder() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/scenarios"))
}

/// One run: the files, the command line, and the expected result.
#[derive(Clone, Default)]
struct Scenario {
    name: String,
    files: Vec<(String, String)>,
    args: Option<String>,
    expect: Vec<String>,
}

fn run_file(name: &str) {
    let text = std::fs::read_to_string(folder().join(name).with_extension("md")).unwrap();
    let scenarios = read(&text);
    assert!(!scenarios.is_empty());
    let faults: Vec<String> = scenarios.iter().filter_map(|scenario| run(scenario).err()).collect();
    assert!(faults.is_empty(), "{} of {} scenarios\n\n{}", faults.len(), scenarios.len(), faults.join("\n\n"));
}

fn read(text: &str) -> Vec<Scenario> {
    let mut scenarios = Vec::new();
    let (mut common, mut section): (Scenario, Option<Scenario>) = Default::default();
    let mut table: Vec<Vec<String>> = Vec::new();
    let mut lines = text.lines();
    loop {
        let line = lines.next();
        if line.is_none_or(|line| line.starts_with("## "))
            && let Some(done) = section.take()
        {
            scenarios.extend(rows(&done, &std::mem::take(&mut table)));
        }
        let Some(line) = line else { break };
        if let Some(name) = line.strip_prefix("## ") {
            section = Some(Scenario { name: name.to_owned(), ..common.clone() });
        } else if let Some(info) = line.strip_prefix("```") {
            let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
            let target = section.as_mut().unwrap_or(&mut common);
            match info.split_once(' ').map_or(info, |(_, path)| path) {
                "args" => target.args = Some(block.join(" ")),
                "expect" => target.expect.extend(block.into_iter().map(str::to_owned)),
                path => {
                    target.files.retain(|(other, _)| other != path);
                    target.files.push((path.to_owned(), block.join("\n") + "\n"));
                }
            }
        } else if line.starts_with('|') {
            let cells = line.replace("\\|", "\u{1}");
            let cells = cells.trim_matches('|').split('|');
            table.push(cells.map(|cell| cell.trim().trim_matches('`').replace('\u{1}', "|")).collect());
        }
    }
    scenarios
}

/// Returns a section once per row of its table.
fn rows(section: &Scenario, table: &[Vec<String>]) -> Vec<Scenario> {
    let [head, _, rows @ ..] = table else { return vec![section.clone()] };
    let row = |cells: &Vec<String>| {
        assert_eq!(cells.len(), head.len(), "{cells:?}");
        let mut scenario = section.clone();
        for (word, cell) in head.iter().zip(cells) {
            if word == "expect" {
                scenario.expect.extend(cell.split(';').map(|e| e.trim().to_owned()));
                continue;
            }
            for (_, text) in &mut scenario.files {
                *text = text.replace(word, cell);
            }
            scenario.args = scenario.args.map(|args| args.replace(word, cell));
        }
        scenario.name += &format!(": {}", cells.join(" | "));
        scenario
    };
    rows.iter().map(row).collect()
}

const MCP: &str =
    "mcpServers:\n  notes: {command: gevals, args: [demo-server, --dir, WORLD/notes], enableAllTools: true}\n";

fn run(scenario: &Scenario) -> Result<(), String> {
    let world = World::new(&[("mcp.yaml", MCP)]);
    for (path, text) in &scenario.files {
        world.write(path, &text.replace("HTTP", &HTTP));
        if text.starts_with("#!") {
            use std::os::unix::fs::PermissionsExt;
            std::fs::set_permissions(world.path(path), std::fs::Permissions::from_mode(0o755)).unwrap();
        }
    }
    let args = scenario.args.as_deref().unwrap_or("run eval.yaml");
    let ran = world.run(&args.split_whitespace().collect::<Vec<_>>());
    let fault = |what: &str| format!("## {}\n{what}\n{}{}", scenario.name, ran.out, ran.err);
    let results: Value = serde_json::from_str(&world.read("gevals-e-out.json")).unwrap_or_default();
    if scenario.expect.is_empty() {
        return Err(fault("nothing is expected"));
    }
    for line in scenario.expect.iter().filter(|line| !line.is_empty()) {
        let met =
            expectation(line, &world, &ran, &results).ok_or_else(|| fault(&format!("what does `{line}` mean?")))?;
        if !met {
            return Err(fault(&format!("not so: {line}")));
        }
    }
    let survivors = world.survivors();
    if survivors.is_empty() { Ok(()) } else { Err(fault(&format!("still running: {survivors:?}"))) }
}

/// Returns whether an expectation is met; `None` if it is not understood.
fn expectation(line: &str, world: &World, ran: &world::Ran, results: &Value) -> Option<bool> {
    let (verb, rest) = line.split_once(' ')?;
    let (first, then) = rest.split_once(' ').unwrap_or((rest, ""));
    let runs = results["results"].as_array().map(Vec::as_slice).unwrap_or_default();
    let said = |text: &str| ran.out.contains(text) || ran.err.contains(text);
    Some(match verb {
        "exit" => ran.code == Some(rest.parse().ok()?),
        "says" => said(rest),
        "hides" => !said(rest),
        // In this order, with one entry per run.
        "tasks" => runs.iter().map(|run| run["taskName"].as_str().unwrap_or_default()).eq(rest.split(", ")),
        // In any order.
        "among" => {
            let mut there: Vec<_> = runs.iter().map(|run| run["taskName"].as_str().unwrap_or_default()).collect();
            let mut wanted: Vec<_> = rest.split(", ").collect();
            there.sort_unstable();
            wanted.sort_unstable();
            there == wanted
        }
        "passed" | "failed" | "broken" | "unchecked" => rest.split(", ").all(|task| {
            let of: Vec<_> = runs.iter().filter(|run| run["taskName"] == task).collect();
            !of.is_empty() && of.iter().all(|run| run["outcome"] == verb)
        }),
        "reason" => runs
            .iter()
            .filter(|run| run["taskName"] == first)
            .any(|run| run["reason"].as_str().is_some_and(|reason| reason.contains(then))),
        // An assertion of any task, as in the results.
        "met" => runs.iter().any(|run| run["assertionResults"][rest]["passed"] == true),
        "missed" => runs.iter().any(|run| run["assertionResults"][rest]["passed"] == false),
        "calls" => {
            let calls = runs.iter().filter_map(|run| run["callHistory"]["ToolCalls"].as_array()).flatten();
            calls.filter(|call| call["name"] == first).count() == then.parse::<usize>().ok()?
        }
        "step" => {
            let (id, outcome) = (first, then);
            let phases = ["setupOutput", "verifyOutput", "cleanupOutput"]
                .map(|phase| runs.iter().map(move |run| &run[phase]["Steps"]));
            phases
                .into_iter()
                .flatten()
                .filter_map(Value::as_array)
                .flatten()
                .any(|s| s["id"] == id && s["report"]["outcome"] == outcome)
        }
        "file" => match then.strip_prefix("holds ") {
            Some(text) => world.read(first).contains(text),
            None => world.path(first).exists(),
        },
        "no" => !world.path(then).exists(),
        "json" => results.pointer(first) == serde_json::from_str(then).ok().as_ref(),
        _ => return None,
    })
}

/// The server for `http` steps.
static HTTP: LazyLock<String> = LazyLock::new(|| {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            axum::serve(listener, router()).await.unwrap();
        });
    });
    format!("http://{address}")
});

fn router() -> Router {
    let document = json!({
        "name": "web", "count": 7500, "price": 7500.0, "ready": true, "none": null, "5": "five", "text": "5",
        "user": {"name": "Ann"}, "items": [{"name": "a"}, {"name": "b"}], "matrix": [[1, 2], [3, 4]],
    });
    let echo = |method: Method, headers: HeaderMap, body: String| async move {
        let headers: serde_json::Map<String, Value> =
            headers.iter().map(|(name, value)| (name.to_string(), json!(value.to_str().unwrap_or_default()))).collect();
        Json(json!({"method": method.as_str(), "headers": headers, "body": body}))
    };
    Router::new()
        .route("/json", get(move || async move { Json(document) }))
        .route("/list", get(|| async { Json(json!([[1, 2], {"name": "second"}])) }))
        .route("/text", get(|| async { "hello world" }))
        .route("/empty", get(|| async { "" }))
        .route("/created", any(|| async { (StatusCode::CREATED, [("x-request", "r-1")], "made") }))
        .route("/missing", get(|| async { (StatusCode::NOT_FOUND, "not here") }))
        .route("/broken", get(|| async { (StatusCode::INTERNAL_SERVER_ERROR, "oops") }))
        .route("/slow", get(|| async { tokio::time::sleep(Duration::from_secs(60)).await }))
        .route("/echo", any(echo))
}
