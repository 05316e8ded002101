//! Plans: the result of lowering, its wire format and digest, and its pictures.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use gevals::{
    builtin,
    check::{self, Checked},
    diagnostic::Diagnostics,
    dialect::{self, FileKind, TaskFile},
    event::Outcome,
    hir::{
        AgentRef, Assertion, AssertionKind, Assertions, CallKind, CallMatcher, Expand, ExpandPart, Server, Transport,
    },
    lock::Lock,
    plan::{
        ActionKind, AgentKind, Context, Edge, EvalPlan, Node, Plan, PlanPhase, UNSET_TIMEOUT,
        diff::{Diff, Side, diff},
        lower, why, wire,
    },
    render::{Done, FORMATS, View, diff::DIFF_FORMATS, gate::gate, results, why::WHY_FORMATS, worst_case},
    source::{MemoryFiles, Sources, Span, Spanned},
    yaml,
};
use petgraph::{Direction, algo::toposort};
use proptest::prelude::*;
use sha2::Digest;

fn checked(path: &str, text: &str) -> (Checked, Sources) {
    let (sources, mut files, vocabularies) = (Sources::default(), MemoryFiles::default(), builtin::vocabularies());
    files.add(path, text, false);
    let mut out = Diagnostics::default();
    let file = sources.add(path, text);
    let tree = yaml::parse(file, text, &mut out).unwrap();
    let Ok(Some(FileKind::Task(dialect))) = dialect::identify(tree.root(), true, &mut out) else {
        panic!("no task: {text}")
    };
    let dir = Path::new(path).parent().unwrap().to_owned();
    let task =
        dialect::task(tree.root(), dialect, &TaskFile { file, dir, vocabulary: vocabularies.of(dialect) }, &mut out);
    let found =
        |out: Diagnostics| out.into_iter().map(|d| format!("{}: {}", d.rule.name, d.message)).collect::<Vec<_>>();
    let (Some(task), true) = (task.value, task.reported.is_none()) else { panic!("{:?}\n{text}", found(out)) };
    let lock = Lock::default();
    let cx = check::Context { sources: &sources, files: &files, vocabularies, lock: &lock };
    match check::task(&task, cx, &mut out) {
        Ok(checked) => (checked, sources),
        Err(_) => panic!("{:?}\n{text}", found(out)),
    }
}

fn plan_at(path: &str, text: &str) -> Plan {
    lower(&checked(path, text).0.task, Path::new(path), &Context::default())
}

fn plan(text: &str) -> Plan {
    plan_at("suite/task.yaml", text)
}

fn ids(plan: &Plan) -> Vec<&str> {
    let mut ids = Vec::new();
    plan.walk(&mut |_, _, action| ids.push(action.id.as_str()));
    ids
}

/// Lists `FROM -NAME-> TO` for data, `FROM ..> TO` for pending cleanups, `FROM --o TO` for branches.
fn flow(plan: &Plan) -> Vec<String> {
    let id = |ix| &plan.action(ix).id;
    let flow = plan.links().filter_map(|(from, to, edge)| match edge {
        Edge::Order | Edge::Holds => None,
        Edge::Data(name) => Some(format!("{} -{name}-> {}", id(from), id(to))),
        Edge::Finally => Some(format!("{} ..> {}", id(from), id(to))),
        Edge::Branch => Some(format!("{} --o {}", id(from), id(to))),
    });
    flow.collect()
}

const RICH: &str = r#"
apiVersion: mcp-eval/v1
kind: Task
metadata: {name: rich, difficulty: easy, timeout: 2m}
spec:
  requires: [{command: kubectl}, {mcpServer: notes, as: n}]
  env:
    URL: "http://localhost:{env.PORT}"
    PORT: "{random.port}"
    API_TOKEN: hunter2-hunter2
    HOME_DIR: "{env.HOME | default('/root')}"
  setup:
    - command: {id: create, run: "kubectl create ns {random.id}\nkubectl get ns", outputs: {ns: "{stdout}"}}
    - n.notes_create: {id: note, args: {title: "{steps.create.outputs.ns}"}}
  prompt: "Look at {steps.create.outputs.ns} for {env.USER}"
  verify:
    - anyOf:
        id: either
        steps:
          - http: {id: got, url: "{env.URL}/a", outputs: {body: "{response.body}"}}
          - group:
              setup: [{sleep: 1s}]
              steps: [{http: {id: got, url: "{env.URL}/b", outputs: {body: "{response.body}"}}}]
              cleanup: [{command: {run: "true"}}, {command: {id: last, run: "true"}}]
    - command: {run: "echo {steps.got.outputs.body}"}
    - foreach:
        id: loop
        var: x
        in: [1, 2, 3]
        steps:
          - command: {id: inner, run: "echo {x}", outputs: {o: "{stdout}"}}
          - command: {run: "echo {steps.inner.outputs.o} {agent.output}"}
    - eventually: {timeout: 30s, steps: [{command: {run: "test -e {steps.create.outputs.ns}"}}]}
  cleanup:
    - command: {run: "kubectl delete ns {steps.create.outputs.ns}"}
    - n.notes_delete: {id: gone, args: {}}
"#;

#[test]
fn ids_follow_the_structure() {
    assert_eq!(
        ids(&plan(RICH)),
        [
            "setup/create",
            "setup/note",
            "agent",
            "verify/either",
            "verify/either/0/got",
            "verify/either/1/0",
            "verify/either/1/0/setup/0",
            "verify/either/1/0/steps/got",
            "verify/either/1/0/cleanup/last",
            "verify/either/1/0/cleanup/0",
            "verify/1",
            "verify/loop",
            "verify/loop/inner",
            "verify/loop/1",
            "verify/3",
            "verify/3/0",
            "cleanup/gone",
            "cleanup/0",
        ]
    );
}

#[test]
fn edges_follow_the_data_flow() {
    let mut flow = flow(&plan(RICH));
    flow.sort();
    assert_eq!(
        flow,
        [
            "agent -agent.output-> verify/loop/1",
            "setup/create -ns-> agent",
            "setup/create -ns-> cleanup/0",
            "setup/create -ns-> setup/note",
            "setup/create -ns-> verify/3/0",
            "setup/create ..> cleanup/gone",
            "verify/either --o verify/either/0/got",
            "verify/either --o verify/either/1/0",
            "verify/either/0/got -body-> verify/1",
            "verify/either/1/0/setup/0 ..> verify/either/1/0/cleanup/last",
            "verify/either/1/0/steps/got -body-> verify/1",
            "verify/loop/inner -o-> verify/loop/1",
        ]
    );
}

#[test]
fn a_plan_lists_its_requirements() {
    let plan = plan(RICH);
    let env: Vec<_> = plan.env.iter().map(|(n, _)| n.as_str()).collect();
    assert_eq!(env, ["PORT", "URL", "API_TOKEN", "HOME_DIR"]);
    let variables: Vec<_> = plan.process_env.iter().map(|(n, v)| (n.as_str(), v.required)).collect();
    assert_eq!(variables, [("HOME", false), ("USER", true)]);
    assert_eq!(plan.commands[0].value, "kubectl");
    assert_eq!(plan.step_servers, ["notes"]);
    assert_eq!((plan.timeout.as_secs(), plan.cleanup_timeout.as_secs()), (120, 300));
    assert!(!plan.task.unchecked);
    assert_eq!(worst_case(&plan).as_secs(), 120 + 120);
}

#[test]
fn the_steps_dialect_finds_outputs_by_type() {
    let plan = plan(
        r#"
apiVersion: mcpchecker/v1alpha2
kind: Task
metadata: {name: steps}
spec:
  requires: [{mcpServer: real, as: alias}]
  setup:
    - alias.make: {args: {}}
    - alias.make: {args: {}}
    - http: {url: "http://x/{steps.real.make.content}"}
  prompt: {inline: "Use {steps.real.make.content}"}
  verify:
    - alias.look: {args: {}}
    - llmJudge: {contains: "{steps.real.look.content} {agent.prompt}"}
  cleanup:
    - alias.drop: {args: {}}
    - http: {url: "http://x/{steps.real.make.content}/{steps.real.drop.content}"}
"#,
    );
    let mut flow = flow(&plan);
    flow.sort();
    assert_eq!(
        flow,
        [
            "agent -agent.prompt-> verify/1",
            "cleanup/0 -content-> cleanup/1",
            "setup/0 ..> cleanup/0",
            "setup/1 -content-> agent",
            "setup/1 -content-> cleanup/1",
            "setup/1 -content-> setup/2",
            "verify/0 -content-> verify/1",
        ]
    );
    assert_eq!(plan.timeout, UNSET_TIMEOUT);
}

#[test]
fn assertions_are_actions_and_make_a_task_checked() {
    let (checked, _) = checked("t.yaml", &minimal("verify: []"));
    let span = checked.task.name.span;
    let name = |text: &str| Spanned::new(text.to_owned(), span);
    let matcher = CallMatcher {
        span,
        server: name("notes"),
        name: Some(name("create")),
        pattern: None,
        arguments: None,
        argument_places: Vec::new(),
        status: None,
        max_duration: None,
    };
    let item = |key: &str, kind| Assertion { key: name(key), span, kind };
    let one = Assertions {
        items: vec![
            item("toolsUsed", AssertionKind::AllUsed(CallKind::Tool, vec![matcher])),
            item("maxToolCalls", AssertionKind::MaxToolCalls(3)),
        ],
    };
    let lowered = |sets: Vec<&Assertions>| {
        lower(
            &checked.task,
            Path::new("t.yaml"),
            &Context { assertions: sets, agent: AgentKind::Noop, ..Context::default() },
        )
    };
    assert!(lowered(vec![]).task.unchecked);
    let plan = lowered(vec![&one]);
    assert!(!plan.task.unchecked);
    assert_eq!(ids(&plan), ["agent", "assert/toolsUsed", "assert/maxToolCalls"]);
    assert_eq!(plan.action(plan.members(PlanPhase::Assert).next().unwrap()).meaning, "the agent calls notes.create");
    assert_eq!(
        ids(&lowered(vec![&one, &one])),
        ["agent", "assert/0/toolsUsed", "assert/0/maxToolCalls", "assert/1/toolsUsed", "assert/1/maxToolCalls"]
    );
}

fn minimal(rest: &str) -> String {
    format!("apiVersion: mcp-eval/v1\nkind: Task\nmetadata: {{name: t}}\nspec:\n  prompt: do it\n  {rest}\n")
}

#[test]
fn the_digest_ignores_only_location_and_formatting() {
    let digest = |path: &str, text: &str| wire::digest(&plan_at(path, text));
    let text = minimal("verify: [{http: {url: 'http://x/{env.A}', method: GET}}]");
    let first = digest("a/t.yaml", &text);
    assert!(first.starts_with("sha256:") && first.len() == 71);
    let same = [
        minimal("verify:\n    # a comment\n    - http: {method: GET, url: \"http://x/{ env.A }\"}"),
        minimal("verify: [{http: {url: 'http://x/{env.A}'}}]"),
        text.replace("name: t", "name: t, runs: 3, parallel: true, labels: {a: b}"),
    ];
    for same in &same {
        assert_eq!(digest("elsewhere/deep/other.yaml", same), first, "{same}");
    }
    let other = [
        text.replace("env.A", "env.B"),
        text.replace("GET", "PUT"),
        text.replace("do it", "do that"),
        text.replace("name: t", "name: t, timeout: 1m"),
        text.replace("'http://x/{env.A}'", "'http://x/\\{env.A}'"),
        text.replace("{http: {", "{http: {continueOnError: true, "),
        text.replace("{http: {", "{http: {id: got, "),
    ];
    for other in &other {
        assert_ne!(digest("a/t.yaml", other), first, "{other}");
    }
    let (checked, _) = checked("a/t.yaml", &text);
    let with = |dir: &str, sha: &str| {
        let mut task = checked.task.clone();
        task.dir = dir.into();
        let files = [(PathBuf::from(dir).join("../lib/x.sh"), sha.to_owned())].into();
        wire::digest(&lower(&task, Path::new("t"), &Context { files, ..Context::default() }))
    };
    assert_eq!(with("a/b", "1"), with("/c/d/e", "1"));
    assert_ne!(with("a/b", "1"), with("a/b", "2"));
}

#[test]
fn templates_on_the_wire_are_unambiguous() {
    let text = |run: &str| {
        let plan = plan(&minimal(&format!("env: {{A: x}}\n  verify: [{{command: {{run: '{run}'}}}}]")));
        serde_json::to_value(wire::document([(None, &[plan][..])])).unwrap()["tasks"][0]["plan"]["actions"][1]["step"]["args"]["run"].clone()
    };
    assert_eq!(text("a {env.A}")["template"]["text"], "a {env.A}");
    assert_eq!(text("a {env.A}")["template"]["holes"][0]["from"], "taskEnv");
    assert_eq!(text(r"a \{env.A}")["literal"], "a {env.A}");
    assert_eq!(text(r"\{env.A} {env.A}")["template"]["text"], r"\{env.A} {env.A}");
    assert_eq!(text(r"\\{env.A}")["template"]["text"], r"\\{env.A}");
    assert_eq!(text("{ env.A|default( \"b\" ) }")["template"]["text"], "{env.A | default(\"b\")}");
}

#[test]
fn secrets_are_masked() {
    let text = minimal(
        "env: {API_TOKEN: hunter2, MY_KEY: 'hunter2{random.id}', NAME: visible}\n  verify:\n    - http: {url: 'http://x', headers: {X-Own: hunter2, Accept: text/plain}}\n    - command: {run: 'true', env: {DB_PASSWORD: 'hunter2{env.NAME}', MODE: fast}}",
    );
    let plans = [plan(&text)];
    for format in FORMATS {
        let shown = (format.render)(&[View::new(&plans)]);
        assert!(!shown.contains("hunter2"), "{}: {shown}", format.name);
    }
    let json = serde_json::to_string(&wire::document([(None, &plans[..])])).unwrap();
    assert!(json.contains("text/plain") && json.contains("fast") && json.contains("***{env.NAME}"));
}

#[test]
fn servers_are_shown_without_their_secrets() {
    let span = checked("t.yaml", &minimal("verify: []")).0.task.name.span;
    let name = |text: &str| Spanned::new(text.to_owned(), span);
    let expand = |parts: Vec<ExpandPart>| Expand { span, parts };
    let text = |text: &str| ExpandPart::Text(text.to_owned());
    let var = |default: Option<&str>| ExpandPart::Var { name: "VAR".to_owned(), default: default.map(str::to_owned) };
    let server = |id: &str, transport| Server {
        name: name(id),
        transport,
        disabled: false,
        always_allow: vec![name("look")],
        enable_all_tools: None,
    };
    let headers = vec![
        (name("Authorization"), expand(vec![text("Bearer hunter2"), var(Some("hunter2"))])),
        (name("Accept"), expand(vec![text("text/plain")])),
    ];
    let env = vec![(name("DB_PASSWORD"), expand(vec![text("hunter2")])), (name("MODE"), expand(vec![var(None)]))];
    let eval = EvalPlan {
        name: "suite".to_owned(),
        path: "eval.yaml".into(),
        agent: None,
        agent_name: "builtin.noop".to_owned(),
        isolation: Default::default(),
        servers: vec![
            server("web", Transport::Http { url: expand(vec![text("http://x")]), headers }),
            server("own", Transport::Stdio { command: expand(vec![text("gevals")]), args: vec![], env }),
        ],
        dir: PathBuf::new(),
        judge: None,
        extensions: gevals::plan::Extensions::default(),
        world: None,
        budget: gevals::hir::Budget::default(),
        model: None,
        written: Default::default(),
        secrets: Vec::new(),
        tasks: Vec::new(),
    };
    for format in FORMATS {
        let shown = (format.render)(&[View { eval: Some(&eval), ..View::new(&[]) }]);
        assert!(!shown.contains("hunter2"), "{shown}");
    }
    let json = serde_json::to_value(wire::document([(Some(&eval), &[][..])])).unwrap();
    let servers = &json["evals"][0]["plan"]["servers"];
    assert_eq!(servers[0]["headers"], serde_json::json!({ "Authorization": "***${VAR:-***}", "Accept": "text/plain" }));
    assert_eq!(servers[1]["env"], serde_json::json!({ "DB_PASSWORD": "***", "MODE": "${VAR}" }));
}

#[test]
fn a_table_has_one_row_per_task() {
    let format = FORMATS.iter().find(|f| f.name == "markdown").unwrap();
    let plans = [plan(RICH), plan(&minimal("verify: []").replacen("name: t", "name: 'a | `b`'", 1))];
    let shown = (format.render)(&[View::new(&plans)]);
    let rows: Vec<_> = shown.lines().skip(2).collect();
    assert_eq!(rows.len(), plans.len(), "{shown}");
    assert!(
        rows[0].starts_with(&format!(
            "| rich | portable | easy | {} steps | ",
            plans[0].members(PlanPhase::Verify).count()
        )),
        "{shown}"
    );
    assert!(rows[1].starts_with(r"| a \| \`b\` | portable |  | nothing | "), "{shown}");
}

#[test]
fn the_tree_has_the_expected_text() {
    let shown = (FORMATS[0].render)(&[View::new(&[plan(RICH)])]);
    let expected = "\
rich  portable · easy · suite/task.yaml
  env      PORT = {random.port}
           URL = http://localhost:{env.PORT}
           API_TOKEN = ***
           HOME_DIR = {env.HOME | default(\"/root\")}
  setup
  ├─ create  run `kubectl create ns {random.id} …`
  ╰─ note    call notes.notes_create {title: {steps.create.outputs.ns}} · uses create.ns
  agent  any agent works on the prompt · uses create.ns
  ╰─ “Look at {steps.create.outputs.ns} for {env.USER}”
  verify
  ├─ either  any of 2 branches
  │  ├─ 0/got  GET {env.URL}/a
  │  ╰─ 1/0    1 step, with its own setup and cleanup
  │     ├─ setup/0       wait 1s
  │     ├─ steps/got     GET {env.URL}/b
  │     ├─ cleanup/last  run `true`
  │     ╰─ cleanup/0     run `true`
  ├─ 1       run `echo {steps.got.outputs.body}` · uses got.body
  ├─ loop    for each x of 3 values
  │  ├─ inner  run `echo {x}`
  │  ╰─ 1      run `echo {steps.inner.outputs.o} {agent.output}` · uses inner.o, agent.output
  ╰─ 3       until all pass, every 1s, for at most 30s
     ╰─ 0  run `test -e {steps.create.outputs.ns}` · uses create.ns
  cleanup  always, in reverse order
  ├─ gone  call notes.notes_delete
  ╰─ 0     run `kubectl delete ns {steps.create.outputs.ns}` · uses create.ns
  reads    $HOME (if set) · $USER
  needs    kubectl on PATH · the server notes
  runs     kubectl
  calls    notes.notes_create · notes.notes_delete
  hosts    localhost:{random.port}
  ns       {random.id} · {steps.create.outputs.ns}
  time     at most 2m, then 5m for cleanup; worst case 4m
";
    assert_eq!(shown, expected);
    let plans = [plan(RICH)];
    let ascii = (FORMATS[0].render)(&[View { unicode: false, ..View::new(&plans) }]);
    assert!(ascii.is_ascii(), "{ascii}");
    let coloured = (FORMATS[0].render)(&[View { colour: true, ..View::new(&plans) }]);
    assert!(coloured.contains("\u{1b}[1mrich"));
}

#[test]
fn the_json_form_matches_its_schema() {
    let schema = serde_json::to_value(schemars::schema_for!(wire::PlanDocument)).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let document = |plans: &[Plan]| serde_json::to_value(wire::document([(None, plans)])).unwrap();
    for document in [document(&[plan(RICH)]), document(&[plan(&minimal("verify: []"))]), document(&[])] {
        let faults: Vec<_> = validator.iter_errors(&document).map(|e| format!("{}: {e}", e.instance_path())).collect();
        assert!(faults.is_empty(), "{faults:#?}");
    }
    let mut wrong = document(&[plan(RICH)]);
    wrong["tasks"][0]["plan"]["actions"][0]["id"] = 5.into();
    assert!(!validator.is_valid(&wrong));
}

#[test]
fn outcomes_are_shown_in_every_picture() {
    let plans = [plan(RICH)];
    let outcome = |task: &str, action: &str| {
        assert_eq!(task, "rich");
        let outcome = if action == "verify/1" { Outcome::Failed } else { Outcome::Passed };
        Some(Done { outcome, duration: Some(Duration::from_millis(1500)) })
    };
    let view = View { outcomes: Some(&outcome), ..View::new(&plans) };
    let shown = |name: &str| (FORMATS.iter().find(|f| f.name == name).unwrap().render)(&[view]);
    assert!(shown("tree").contains("├─ ✗ 1"));
    assert_eq!(shown("mermaid").matches(":::failed").count(), 1);
    assert_eq!(shown("dot").matches("#fee2e2").count(), 1);
}

/// Texts that try to escape from their context.
const HOSTILE: &[&str] = &[
    "\"]; evil [label=\"x",
    "</script><script>alert(1)</script>",
    "%%{init: {'theme': 'x'}}%%",
    "end\nsubgraph x",
    "click n0 href \"javascript:alert(1)\"",
    "\u{202e}right to left\u{202c} \u{1f600} שלום",
    "back\\slash \\N \\",
    "a & b &lt; #quot; #35; `md` **x** 1. x",
    "\u{0}\u{1b}[31mred",
];

#[test]
fn hostile_text_cannot_break_out_of_a_picture() {
    let long = "x".repeat(10_000);
    for hostile in HOSTILE.iter().copied().chain([long.as_str()]) {
        let (mut checked, _) = checked("t.yaml", &minimal("verify: [{command: {run: 'true'}}]"));
        checked.task.name.value = hostile.to_owned();
        let mut plan = lower(&checked.task, Path::new("t.yaml"), &Context::default());
        let first = plan.members(PlanPhase::Verify).next().unwrap();
        plan.action_mut(first).meaning = hostile.to_owned();
        let plans = [plan];
        for format in FORMATS {
            let shown = (format.render)(&[View::new(&plans)]);
            let calm = |c: char| (c.is_control() && c != '\n') || ('\u{202a}'..='\u{202e}').contains(&c);
            if format.name != "json" {
                let found = shown.chars().find(|c| calm(*c));
                assert!(found.is_none(), "{}: {found:?}", format.name);
            }
            match format.name {
                "dot" => assert_dot(&shown),
                "mermaid" => assert_mermaid(&shown),
                "json" => drop(serde_json::from_str::<serde_json::Value>(&shown).unwrap()),
                _ => {}
            }
            if matches!(format.name, "svg" | "html") {
                assert!(!shown.contains("<script>alert") && !shown.contains("</script><s"), "{shown}");
                assert_eq!(shown.matches("</script>").count(), if format.name == "html" { 2 } else { 0 });
                assert_eq!(shown.matches("</svg>").count(), if format.name == "html" { 0 } else { 1 });
            }
            if matches!(format.name, "dot" | "mermaid") {
                assert!(shown.lines().all(|l| l.chars().count() < 1200), "{}", format.name);
            }
        }
    }
}

/// Checks that there is only our own syntax outside quoted strings, and no unescaped quote inside.
fn assert_dot(text: &str) {
    for line in text.lines() {
        let (mut outside, mut quoted, mut escaped) = (String::new(), false, false);
        for c in line.chars() {
            match (quoted, escaped, c) {
                (true, true, _) => escaped = false,
                (true, false, '\\') => escaped = true,
                (_, _, '"') => quoted = !quoted,
                (true, ..) => {}
                (false, ..) => outside.push(c),
            }
        }
        assert!(!quoted, "an open string: {line}");
        assert!(!outside.contains("evil") && !outside.contains("script") && outside.is_ascii(), "{line}");
    }
}

fn assert_mermaid(text: &str) {
    for line in text.lines().filter(|l| l.contains('"')) {
        assert!(matches!(line.matches('"').count(), 2), "{line}");
        let label = line.split('"').nth(1).unwrap().replace("<br/>", "");
        assert!(!label.contains(['<', '>', '%', '`', '*', '\\', ':', '[', ']', '{', '}', '&']), "{line}");
        // Every `#` starts an entity, and every `;` ends one.
        let mut rest = label.as_str();
        while let Some(at) = rest.find('#') {
            let entity = &rest[at + 1..];
            let end = entity.find(';').unwrap();
            assert!(entity[..end].chars().all(|c| c.is_ascii_digit()), "{line}");
            rest = &entity[end + 1..];
        }
    }
}

#[test]
fn many_tasks_and_many_steps_stay_readable() {
    let one = plan(&minimal("verify: [{command: {run: 'true'}}]"));
    let plans: Vec<_> = (0..200)
        .map(|i| {
            let mut plan = one.clone();
            plan.task.name.value = format!("task-{i}");
            plan.task.parallel = i % 2 == 0;
            plan
        })
        .collect();
    let eval = EvalPlan {
        name: "suite".to_owned(),
        path: "eval.yaml".into(),
        agent: None::<AgentRef>,
        agent_name: "builtin.noop".to_owned(),
        isolation: Default::default(),
        servers: Vec::new(),
        dir: PathBuf::new(),
        judge: None,
        extensions: gevals::plan::Extensions::default(),
        world: None,
        budget: gevals::hir::Budget::default(),
        model: None,
        written: Default::default(),
        secrets: Vec::new(),
        tasks: plans.clone(),
    };
    let view = View { eval: Some(&eval), ..View::new(&plans) };
    let shown = |name: &str| (FORMATS.iter().find(|f| f.name == name).unwrap().render)(&[view]);
    assert!(shown("tree").lines().count() < 220);
    assert!(shown("tree").contains("200: 100 one at a time, then 100 in parallel"));
    assert!(shown("mermaid").matches("-->").count() < 500 && shown("mermaid").matches("task").count() == 200);
    assert_eq!(wire::eval_digest(&eval), wire::document([(Some(&eval), &plans[..])]).evals[0].digest);
}

#[test]
fn expectations_are_shown_without_secrets() {
    let secret = "ghp_16C7e42F292c6912E7710c838347Ae178B4a";
    let check = |text: &str| {
        minimal(&format!("verify: [{{command: {{run: 'cat out', expect: {{stdout: {{contains: {text}}}}}}}}}]"))
    };
    let (open, hidden) = ([plan(&check("Bread"))], [plan(&check(secret))]);
    for name in ["tree", "svg", "mermaid", "dot"] {
        let render = FORMATS.iter().find(|f| f.name == name).unwrap().render;
        let (open, hidden) = (render(&[View::new(&open)]), render(&[View::new(&hidden)]));
        assert!(open.contains("expects") && open.contains("Bread"), "{name}: {open}");
        assert!(hidden.contains("expects") && !hidden.contains(secret), "{name}: {hidden}");
    }
}

#[test]
fn a_plan_of_sixty_steps_fits_on_a_screen() {
    let steps = |count: usize, step: &dyn Fn(usize) -> String| -> String {
        (0..count).map(|i| format!("\n    - {}", step(i))).collect()
    };
    let setup = steps(29, &|i| format!("command: {{run: 'make part-{i}'}}"));
    let checks = steps(30, &|i| match i {
        3 => "command: {id: count, run: 'wc -l all', outputs: {lines: \"{stdout}\"}}".to_owned(),
        29 => "command: {run: 'test {steps.count.outputs.lines} = 7', expect: {exitCode: 0}}".to_owned(),
        i => format!("command: {{run: 'test -e part-{i}', expect: {{stdout: {{equals: \"\"}}}}}}"),
    });
    let plans = [plan(&minimal(&format!("setup:{setup}\n  verify:{checks}")))];
    for name in ["mermaid", "dot"] {
        let shown = (FORMATS.iter().find(|f| f.name == name).unwrap().render)(&[View::new(&plans)]);
        assert!(shown.lines().count() < 40, "{name}: {shown}");
        // A collapsed group shows its size; actions that are connected to values are shown by themselves.
        assert!(shown.contains("29 steps") && shown.contains("25 steps") && shown.contains("and 21 more"), "{shown}");
        assert!(shown.contains("count") && shown.contains("expects"), "{shown}");
        assert!(!shown.contains("part-20") && !shown.contains("part#45;20"), "{shown}");
    }
}

#[test]
fn a_plan_of_many_steps_is_lowered_in_one_pass() {
    let steps: String = (0..20_000)
        .map(|i| match i {
            0 => "    - command: {id: s0, run: 'true', outputs: {o: \"{stdout}\"}}\n".to_owned(),
            _ => format!(
                "    - command: {{id: s{i}, run: 'echo {{steps.s{}.outputs.o}}', outputs: {{o: \"{{stdout}}\"}}}}\n",
                i - 1
            ),
        })
        .collect();
    let plan = plan(&minimal(&format!("verify:\n{steps}")));
    assert_eq!(plan.actions().count(), 20_001);
    assert_eq!(plan.links().count(), 20_000 + 19_999);
    let plans = [plan];
    for format in FORMATS {
        assert!(!(format.render)(&[View::new(&plans)]).is_empty());
    }
}

/// Lists `FROM -> TO` for the order of actions, starting at the agent.
fn order(plan: &Plan) -> Vec<String> {
    let id = |ix| &plan.action(ix).id;
    let order = plan.links().filter(|(_, _, edge)| **edge == Edge::Order);
    let mut order: Vec<_> = order.map(|(from, to, _)| format!("{} -> {}", id(from), id(to))).collect();
    order.sort();
    order
}

const CHECKS: &str = r#"
spec:
  prompt: Do it.
  verify:
    - sleep: {id: a, duration: 3s}
    - command: {id: b, run: "true", timeout: 2s, outputs: {o: "{stdout}"}}
    - group: {id: g, steps: [{command: {id: c, run: "echo {steps.b.outputs.o}", timeout: 5s, outputs: {o: "{stdout}"}}}]}
    - command: {id: d, run: "echo {steps.c.outputs.o}{steps.b.outputs.o}", timeout: 1s}
    - sleep: {id: e, duration: 4s}
  cleanup:
    - command: {id: z, run: "true", timeout: 1s}
"#;

fn checks(key: &str) -> Plan {
    let mut plan = plan(&format!("apiVersion: mcp-eval/v1\nkind: Task\nmetadata: {{name: t{key}}}{CHECKS}"));
    let agent = plan.agent;
    if let ActionKind::Agent(agent) = &mut plan.action_mut(agent).kind {
        agent.kind = AgentKind::Noop;
    }
    plan
}

#[test]
fn parallel_checks_wait_only_for_their_inputs() {
    let (one_by_one, beside) = (checks(""), checks(", parallelVerify: true"));
    let chain = ["agent -> verify/a", "verify/a -> verify/b", "verify/b -> verify/g", "verify/d -> verify/e"];
    assert!(chain.iter().all(|edge| order(&one_by_one).contains(&(*edge).to_owned())));
    assert_eq!(
        order(&beside),
        [
            "agent -> verify/a",
            "agent -> verify/b",
            "agent -> verify/e",
            "verify/a -> cleanup/z",
            "verify/b -> verify/d",
            "verify/b -> verify/g",
            "verify/d -> cleanup/z",
            "verify/e -> cleanup/z",
            "verify/g -> verify/d",
            "verify/g -> verify/g/steps/c",
        ]
    );
    assert!(toposort(&beside.graph, None).is_ok());
    let digests = [&one_by_one, &beside, &checks(", parallelVerify: false")].map(wire::digest);
    assert!(digests[0] != digests[1] && digests[0] == digests[2]);
    // In sequence: 3 + 2 + 5 + 1 + 4, and cleanup; in parallel: 2 + 5 + 1.
    assert_eq!([worst_case(&one_by_one), worst_case(&beside)], [16, 9].map(Duration::from_secs));
    let side = |plan| Side { evals: &[], plans: std::slice::from_ref(plan), files: None };
    let changed = diff(side(&one_by_one), side(&beside));
    assert_eq!(changed.tasks[0].facts[0].name, "parallelVerify", "{changed:?}");
    let mut agenda = beside.agenda(PlanPhase::Verify);
    let mut ready = || std::iter::from_fn(|| agenda.pop()).map(|ix| beside.action(ix).id.clone()).collect::<Vec<_>>();
    assert_eq!(ready(), ["verify/a", "verify/b", "verify/e"]);
    assert!(ready().is_empty(), "nothing more before one has ended");
}

#[test]
fn reports_are_in_written_order() {
    let mut reports = ["agent", "verify/e", "verify/g/steps/c", "verify/g", "verify/a", "cleanup/z", "verify/b"]
        .map(|id| (id.to_owned(), ()));
    let ids = |reports: &[(String, ())]| reports.iter().map(|(id, ())| id.clone()).collect::<Vec<_>>();
    let ended = ids(&reports);
    checks("").in_written_order(&mut reports);
    assert_eq!(ids(&reports), ended);
    checks(", parallelVerify: true").in_written_order(&mut reports);
    let written = ["agent", "verify/a", "verify/b", "verify/g/steps/c", "verify/g", "verify/e", "cleanup/z"];
    assert_eq!(ids(&reports), written);
}

#[test]
fn a_plan_explains_why_a_step_waits() {
    let plan = plan(RICH);
    let ask = |name: &str| {
        let [ix] = why::find(&plan, name)[..] else { panic!("{name}: {:?}", why::find(&plan, name)) };
        why::why(&plan, ix)
    };
    let shown = |links: &[why::Link]| {
        let by = |link: &why::Link| {
            let reasons = link.by.iter().map(|r| format!("{:?} {}", r.kind, r.name.as_deref().unwrap_or_default()));
            reasons.map(|r| r.trim().to_owned()).collect::<Vec<_>>().join(", ")
        };
        links.iter().map(|link| format!("{}: {}", link.id, by(link))).collect::<Vec<_>>()
    };
    let note = ask("note");
    assert_eq!((note.id.as_str(), note.task.as_str()), ("setup/note", "rich"));
    assert_eq!(shown(&note.waits_for), ["setup/create: Order, Data ns"]);
    assert_eq!(shown(&note.waited_for_by)[0], "agent: Order");
    assert_eq!(shown(&note.path), ["setup/create: ", "setup/note: Order, Data ns"]);
    // A branch, and the cleanup of a group; the ID of an executed action refers to the planned one.
    let got = ask("verify/either/0/got");
    assert_eq!(shown(&got.waits_for), ["verify/either: Branch"]);
    assert_eq!(ask("verify/either#2/0/got"), got);
    let last = ask("last");
    assert!(shown(&last.waits_for).iter().any(|link| link.ends_with("Finally") || link.ends_with("Order, Finally")));
    assert_eq!(last.path.first().unwrap().id, "setup/create");
    assert!(last.path.windows(2).all(|hop| !hop[1].by.is_empty()));
    assert_eq!(why::find(&plan, "got").len(), 2, "an id in two branches");
    assert!(why::find(&plan, "nothing").is_empty());
    let names = ids(&plan);
    assert_eq!(why::near("verify/eithr", &names), ["`verify/either`"]);
    for format in WHY_FORMATS {
        let text = (format.render)(&why::Answer { version: why::VERSION, steps: vec![note.clone(), last.clone()] });
        assert!(text.contains("setup/create") && text.contains("ns"), "{text}");
    }
}

/// Nested steps of the portable dialect, some of which use values in scope.
fn steps(depth: u32) -> BoxedStrategy<Vec<Shape>> {
    let leaf = (any::<bool>(), any::<bool>()).prop_map(|(id, uses)| Shape::Leaf { id, uses });
    let shape = leaf.prop_recursive(depth, 40, 4, |inner| {
        let list = prop::collection::vec(inner, 1..4);
        prop_oneof![
            list.clone().prop_map(Shape::Any),
            (list.clone(), list.clone()).prop_map(|(a, b)| Shape::Group(a, b)),
            list.clone().prop_map(Shape::Each),
            list.prop_map(Shape::Until),
        ]
    });
    prop::collection::vec(shape, 1..5).boxed()
}

#[derive(Clone, Debug)]
enum Shape {
    Leaf { id: bool, uses: bool },
    Any(Vec<Shape>),
    Group(Vec<Shape>, Vec<Shape>),
    Each(Vec<Shape>),
    Until(Vec<Shape>),
}

/// JSON is YAML; `next` numbers IDs, `last` is an output in scope.
fn write(shapes: &[Shape], next: &mut usize, last: &mut Option<String>) -> serde_json::Value {
    use serde_json::json;
    let mut list = Vec::new();
    for shape in shapes {
        *next += 1;
        let n = *next;
        list.push(match shape {
            Shape::Leaf { id, uses } => {
                let run = match (uses, &*last) {
                    (true, Some(id)) => format!("echo {{steps.{id}.outputs.o}}"),
                    _ => "true".to_owned(),
                };
                let mut body = json!({ "run": run, "outputs": { "o": "{stdout}" } });
                if *id {
                    body["id"] = json!(format!("s{n}"));
                    *last = Some(format!("s{n}"));
                }
                json!({ "command": body })
            }
            Shape::Any(inner) => {
                let before = last.clone();
                let branches = inner.iter().map(|s| {
                    *last = before.clone();
                    write(std::slice::from_ref(s), next, last)[0].clone()
                });
                let steps: Vec<_> = branches.collect();
                *last = before;
                json!({ "anyOf": { "steps": steps } })
            }
            Shape::Group(steps, cleanup) => {
                let steps = write(steps, next, last);
                let before = last.clone();
                // Cleanup runs in reverse order, so its steps do not use each other's outputs here.
                let cleanup: Vec<_> = cleanup
                    .iter()
                    .map(|s| {
                        *last = before.clone();
                        write(std::slice::from_ref(s), next, last)[0].clone()
                    })
                    .collect();
                *last = before;
                json!({ "group": { "steps": steps, "cleanup": cleanup } })
            }
            Shape::Each(inner) => {
                let before = last.clone();
                let steps = write(inner, next, last);
                *last = before;
                json!({ "foreach": { "var": format!("v{n}"), "in": [1, 2], "steps": steps } })
            }
            Shape::Until(inner) => json!({ "eventually": { "steps": write(inner, next, last) } }),
        });
    }
    list.into()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn plans_are_acyclic_connected_and_uniquely_named(setup in steps(3), verify in steps(3), cleanup in steps(2)) {
        let (mut next, mut last) = (0, None);
        let setup = write(&setup, &mut next, &mut last);
        let after_setup = last.clone();
        let verify = write(&verify, &mut next, &mut last);
        let cleanup: Vec<_> = cleanup.iter().map(|s| {
            last = after_setup.clone();
            write(std::slice::from_ref(s), &mut next, &mut last)[0].clone()
        }).collect();
        let task = serde_json::json!({
            "apiVersion": "mcp-eval/v1", "kind": "Task", "metadata": { "name": "t" },
            "spec": { "setup": setup, "prompt": "do it", "verify": verify, "cleanup": cleanup },
        });
        let text = task.to_string();
        let plan = plan(&text);
        prop_assert!(toposort(&plan.graph, None).is_ok());
        let ids = ids(&plan);
        prop_assert_eq!(ids.len(), plan.actions().count());
        let unique: std::collections::HashSet<_> = ids.iter().collect();
        prop_assert_eq!(unique.len(), ids.len());
        let mut actions = Vec::new();
        plan.walk(&mut |_, ix, _| actions.push(ix));
        let roots = actions.iter().filter(|&&ix| plan.links_of(ix, Direction::Incoming).next().is_none()).count();
        prop_assert_eq!(roots, 1, "every action hangs on the first one");
        prop_assert!(plan.graph.raw_edges().iter().all(|e| e.source() < e.target()), "written order is topological");
        for ix in plan.graph.node_indices() {
            let holders = plan.graph.edges_directed(ix, Direction::Incoming).filter(|e| *e.weight() == Edge::Holds);
            let is_phase = matches!(plan.graph[ix], Node::Phase(_));
            prop_assert_eq!(holders.count(), usize::from(!is_phase), "everything except phases is held once");
        }
        for phase in PlanPhase::ALL {
            let mut agenda = plan.agenda(phase);
            for ix in plan.members(phase) {
                prop_assert_eq!(agenda.pop(), Some(ix));
                prop_assert_eq!(agenda.pop(), None, "one after another");
                agenda.done(ix);
            }
            prop_assert_eq!(agenda.pop(), None);
        }
        let uses = text.matches("{steps.").count();
        let data = plan.links().filter(|(_, _, e)| matches!(e, Edge::Data(_))).count();
        prop_assert_eq!(uses, data);
        let again = self::plan(&text);
        for format in FORMATS {
            let render = |plan| (format.render)(&[View::new(std::slice::from_ref(plan))]);
            prop_assert_eq!(render(&plan), render(&again));
        }
    }

    #[test]
    fn hostile_ids_stay_unique(ids in prop::collection::vec("[a0-9/][a0-9/]{0,2}", 1..8)) {
        let steps: String = ids.iter().map(|id| format!("    - id: \"{id}\"\n      http: {{url: 'http://x'}}\n")).collect();
        let text = format!("apiVersion: mcpchecker/v1alpha2\nkind: Task\nmetadata: {{name: t}}\nspec:\n  prompt: {{inline: do it}}\n  verify:\n{steps}");
        let plan = plan(&text);
        let unique: std::collections::HashSet<_> = plan.actions().map(|a| &a.id).collect();
        prop_assert_eq!(unique.len(), ids.len() + 1);
    }
}

/// Spans of a plan are within its file; the text of a whole action can be cut out with them.
#[test]
fn spans_point_at_the_steps() {
    let plan = plan(RICH);
    let Span { start, end, .. } = plan.action(plan.members(PlanPhase::Verify).nth(1).unwrap()).span;
    assert_eq!(&RICH[start as usize..end as usize], "command: {run: \"echo {steps.got.outputs.body}\"}");
}

/// Returns the boxes of a picture: x, y, width, height, in its own coordinates.
fn boxes(svg: &str) -> Vec<(f64, f64, f64, f64)> {
    let group = regex::Regex::new(r"translate\(([-0-9.]+) ([-0-9.]+)\)").unwrap();
    let rect = regex::Regex::new(r#"class="box" x="([-0-9.]+)" y="([-0-9.]+)" width="([-0-9.]+)" height="([-0-9.]+)""#)
        .unwrap();
    let number = |c: &regex::Captures<'_>, i: usize| c[i].parse::<f64>().unwrap();
    let mut found = Vec::new();
    let mut at = (0.0, 0.0);
    for line in svg.lines() {
        if let Some(c) = group.captures(line) {
            at = (number(&c, 1), number(&c, 2));
        }
        found.extend(
            rect.captures(line).map(|c| (at.0 + number(&c, 1), at.1 + number(&c, 2), number(&c, 3), number(&c, 4))),
        );
    }
    found
}

fn assert_apart(svg: &str) {
    let boxes = boxes(svg);
    for (i, a) in boxes.iter().enumerate() {
        for b in &boxes[i + 1..] {
            let apart = a.0 + a.2 <= b.0 || b.0 + b.2 <= a.0 || a.1 + a.3 <= b.1 || b.1 + b.3 <= a.1;
            assert!(apart, "{a:?} and {b:?} overlap");
        }
    }
}

fn shown(format: &str, view: &View<'_>) -> String {
    (FORMATS.iter().find(|f| f.name == format).unwrap().render)(&[*view])
}

#[test]
fn boxes_of_an_svg_do_not_overlap() {
    let rich = plan(RICH);
    let count = rich.actions().count();
    let svg = shown("svg", &View::new(std::slice::from_ref(&rich)));
    assert_eq!(boxes(&svg).len(), count);
    assert_apart(&svg);
    // Two more rounds of a loop with two steps.
    let svg = shown("svg", &View { expand: true, ..View::new(std::slice::from_ref(&rich)) });
    assert_eq!(boxes(&svg).len(), count + 4);
    assert!(svg.contains(">x = 2<") && svg.contains("run `echo 3`"), "{svg}");
    assert_apart(&svg);
    let plans: Vec<_> = (0..11).map(|_| rich.clone()).collect();
    let svg = shown("svg", &View::new(&plans));
    assert_eq!(boxes(&svg).len(), 11 * count);
    assert_apart(&svg);
    let plans: Vec<_> = (0..200).map(|_| rich.clone()).collect();
    let svg = shown("svg", &View::new(&plans));
    assert_eq!(boxes(&svg).len(), 200);
    assert_apart(&svg);
}

#[test]
fn a_page_is_self_contained_and_hides_secrets() {
    let (checked, sources) = checked(
        "suite/task.yaml",
        &RICH.replace("url: \"{env.URL}/a\"", "url: \"{env.URL}/a\", headers: {Authorization: hunter3}"),
    );
    let plan = lower(&checked.task, Path::new("suite/task.yaml"), &Context::default());
    let plans = [plan];
    let page = shown("html", &View { sources: Some(&sources), ..View::new(&plans) });
    assert!(page.contains("default-src 'none'") && !page.contains("unsafe-inline"));
    assert!(
        !page.contains(" src=") && !page.contains("href=") && !page.contains("@import") && !page.contains(" style=")
    );
    // The excerpt of a step is shown, but not the secret in it.
    assert!(page.contains("Authorization: ***") && !page.contains("hunter"), "{page}");
    assert!(page.contains("suite/task.yaml:14"));
    let count = plans[0].actions().count();
    assert_eq!(page.matches("data-n=").count(), count);
}

fn diffed(old: &Plan, new: &Plan) -> Diff {
    let side = |plan| Side { evals: &[], plans: std::slice::from_ref(plan), files: None };
    diff(side(old), side(new))
}

fn told(format: &str, diff: &Diff) -> String {
    (DIFF_FORMATS.iter().find(|f| f.name == format).unwrap().render)(diff)
}

#[test]
fn a_diff_shows_changes_and_whether_effects_grow() {
    let old = plan(RICH);
    let same = diffed(&old, &plan(&RICH.replace("difficulty: easy", "difficulty: hard")));
    assert!(same.is_empty() && !same.grows(), "{same:?}");
    assert_eq!(told("tree", &same), "no difference\n");

    let changed = RICH
        .replace("timeout: 2m", "timeout: 4m")
        .replace("  verify:\n", "  verify:\n    - command: {run: \"curl https://example.com/x > /tmp/out\"}\n")
        .replace("run: \"echo {x}\"", "run: \"echo {x} {steps.create.outputs.ns}\"")
        .replace("    - n.notes_delete: {id: gone, args: {}}\n", "");
    let diff = diffed(&old, &plan(&changed));
    assert!(diff.grows());
    let expected = "\
reach grows
  + commands: curl
  + hosts: example.com
  + paths: /tmp/out
  - tools: notes.notes_delete
rich  changed
  ~ timeouts.task: 120.0 → 240.0
  + verify/0           run `curl https://example.com/x > /tmp/out`
  ~ verify/loop/inner  run `echo {x} {steps.create.outputs.ns}`
      ~ args.run: echo {x} → echo {x} {steps.create.outputs.ns}
  - cleanup/gone       call notes.notes_delete
  + setup/create.ns → verify/loop/inner
  + commands: curl
  + hosts: example.com
  + paths: /tmp/out
  - tools: notes.notes_delete
  ~ worst case 4m → 5m
";
    assert_eq!(told("tree", &diff), expected);
    let back = diffed(&plan(&changed), &old);
    assert!(back.grows(), "the tool is new again");
    let markdown = told("markdown", &diff);
    assert!(
        markdown.contains("| hosts | `example.com` |  |") && markdown.contains("- added step `verify/0`: `` run `curl"),
        "{markdown}"
    );
    assert_eq!(serde_json::from_str::<serde_json::Value>(&told("json", &diff)).unwrap()["version"], 1);
    let only_less = diffed(&old, &plan(&RICH.replace("    - n.notes_delete: {id: gone, args: {}}\n", "")));
    assert!(!only_less.grows() && !only_less.is_empty());
}

#[test]
fn the_digest_is_that_of_the_canonical_form() {
    let document = wire::document([(None, &[plan(RICH)][..])]);
    let bytes = serde_json_canonicalizer::to_vec(&document.tasks[0].plan).unwrap();
    let hash = sha2::Sha256::digest(&bytes);
    let hex: String = hash.iter().map(|b| format!("{b:02x}")).collect();
    assert_eq!(document.tasks[0].digest, format!("sha256:{hex}"));
    assert_eq!(wire::digest(&plan(RICH)), document.tasks[0].digest);
}

#[test]
fn results_are_read_back() {
    let file = serde_json::json!({ "results": [
        { "taskName": "rich", "outcome": "failed", "durationSeconds": 3.5, "verifyOutput": { "Steps": [
            { "id": "verify/loop", "report": { "outcome": "failed", "duration": 2.0 }, "steps": [
                { "id": "verify/loop[0]/inner#1", "report": { "outcome": "failed", "duration": 0.5 } },
                { "id": "verify/loop[0]/inner#2", "report": { "outcome": "passed", "duration": 0.25 } },
                { "id": "verify/loop[1]/inner", "report": { "outcome": "passed", "duration": 1.0 } } ] } ] } },
        { "taskName": "rich", "outcome": "passed", "durationSeconds": 9.0 },
        { "taskName": "theirs", "taskPassed": true, "allAssertionsPassed": true },
        7
    ] });
    let painted = results::read(&file).unwrap();
    let done = |outcome, millis| Some(Done { outcome, duration: Some(Duration::from_millis(millis)) });
    assert_eq!(painted.get("rich", ""), done(Outcome::Failed, 9000));
    assert_eq!(painted.get("rich", "verify/loop/inner"), done(Outcome::Passed, 1750));
    assert_eq!(painted.get("theirs", ""), Some(Done { outcome: Outcome::Passed, duration: None }));
    assert_eq!(painted.get("rich", "verify/1"), None);
    assert!(results::read(&serde_json::json!({})).is_none());
}

/// Two runs of one task, one of which counted tokens, and one run of another; the plan has five runs of the first.
#[test]
fn estimates_are_the_mean_of_earlier_runs_times_the_planned_ones() {
    let file = serde_json::json!({ "results": [
        { "taskName": "t", "durationSeconds": 1.0, "tokenEstimate": { "totalTokens": 100, "cost": 0.25 } },
        { "taskName": "t", "durationSeconds": 2.0, "tokenEstimate": { "totalTokens": 200, "cost": 0.75 } },
        { "taskName": "other", "durationSeconds": 50.0 },
        { "taskName": "never", "tokenEstimate": { "totalTokens": 7 } },
    ], "summary": { "currency": "EUR" } });
    let earlier = results::Earlier::read(&file, "then.json".to_owned()).unwrap();
    let task = |name: &str, runs: u32| {
        let text = "kind: Task\napiVersion: mcp-eval/v1\nmetadata: {name: NAME, runs: RUNS}\nspec: {prompt: p, verify: [{command: {run: a}}]}\n";
        plan(&text.replace("NAME", name).replace("RUNS", &runs.to_string()))
    };
    let plans = [task("t", 5), task("unknown", 1)];
    let took = results::Took { time: Duration::from_millis(7500), tokens: Some(750), cost: Some(2.5) };
    assert_eq!(earlier.of(&plans), (took, 1));
    assert_eq!(earlier.words(took), "7.5s, 750 tokens, 2.5000 EUR");
    // 29 runs of the known task.
    let shown = gate("0.9@95%".parse().unwrap(), None, &plans, Some(&earlier));
    assert!(shown.contains("  43s, 4350 tokens, 14.5000 EUR (1 of 2 tasks)\n"), "{shown}");
}
