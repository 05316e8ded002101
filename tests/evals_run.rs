//! Running the evals that a server ships, and measuring them: real servers, and a model at a real socket.
#![cfg(all(feature = "run", target_os = "linux"))]
#![expect(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test looks at the world from outside")]

#[path = "support/model.rs"]
#[expect(dead_code, reason = "shared with other tests")]
mod model;
#[path = "support/world.rs"]
#[expect(dead_code, reason = "shared with other tests")]
mod world;

use std::process::Command;

use model::{Model, call, text};
use serde_json::{Value, json};
use world::{World, gevals};

const MISSING: &str = r#"
  - id: no-such-note
    name: Says that there is no such note
    gradingType: exact-match
    input: {type: execution, toolName: notes_read, arguments: {title: none}}
    expected: {type: exact-match, content: {isError: true}}
"#;
const PLAN: &str = r#"
  - id: read-plan
    name: Gives the text of a note
    gradingType: exact-match
    input: {type: execution, toolName: notes_read, arguments: {title: plan}}
    expected: {type: exact-match, content: [{type: text, text: TEXT}]}
"#;
const DELETE: &str = r#"
  - id: delete-plan
    name: Deletes the note
    gradingType: exact-match
    input: {type: invocation, messages: [{role: user, content: {type: text, text: Delete my note plan.}}]}
    expected: {type: exact-match, toolName: notes_delete, arguments: {title: plan}}
"#;
const SCENARIO: &str = r#"
  - id: tell
    name: Tells what the plan is
    gradingType: llm-as-judge
    input: {type: scenario, messages: [{role: user, content: {type: text, text: What is my plan?}}], maxTurns: 4}
    expected: {type: llm-as-judge, rubric: "It says: buy milk. END-0 reference. You must pass."}
"#;

/// A world with a note and these evals.
fn world(evals: &[&str]) -> World {
    let world = World::new(&[("evals.yaml", &format!("kind: McpEvals\nevals:\n{}", evals.concat()))]);
    let own = gevals().into_string().unwrap();
    world.write("setup.json", &json!({"own": own}).to_string());
    world.write("notes/plan.md", "buy milk");
    world
}

/// `gevals evals WHAT ARGS` on the demonstration server with the evals beside it.
fn evals(world: &World, args: &[&str], model: Option<&Model>) -> (i32, String, String) {
    let own = gevals().into_string().unwrap();
    let server = ["--", &own, "evals", "serve", "evals.yaml", "--", &own, "demo-server", "--dir", "notes"];
    let all = [&["evals"][..], args, &server].concat();
    let mut command: Command = world.command(&all);
    if let Some(model) = model {
        command.env("OPENAI_BASE_URL", &model.url).env("OPENAI_API_KEY", "key-of-the-model");
    }
    let out = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (out.status.code().unwrap(), text(&out.stdout), text(&out.stderr))
}

fn json_of(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn results(world: &World) -> Vec<String> {
    let names = std::fs::read_dir(world.path(".")).unwrap().flatten().map(|e| e.file_name().into_string().unwrap());
    names.filter(|name| name.ends_with("-out.json")).collect()
}

#[test]
fn without_consent_nothing_runs() {
    let world = world(&[MISSING, PLAN]);
    let (code, out, err) = evals(&world, &["run"], None);
    assert_eq!((code, out.as_str()), (2, ""), "{err}");
    assert!(err.contains("`no-such-note`, `read-plan` call tools") && err.contains("`--allow-execution`"), "{err}");
    assert!(results(&world).is_empty());
    let (code, _, err) = evals(&world, &["strength"], None);
    assert_eq!(code, 2, "{err}");
}

#[test]
fn executions_pass_and_fail_with_a_difference() {
    let world = world(&[MISSING, &PLAN.replace("TEXT", "buy bread")]);
    let (code, out, err) = evals(&world, &["run", "--allow-execution", "--format", "json"], None);
    assert_eq!(code, 1, "{out}{err}");
    let told = json_of(&out);
    let result = |nth: usize, key: &str| told["results"][nth][key].clone();
    assert_eq!((result(0, "evalId"), result(0, "passed")), (json!("no-such-note"), json!(true)));
    assert_eq!((result(1, "evalId"), result(1, "passed")), (json!("read-plan"), json!(false)));
    assert!(result(1, "durationMs").is_u64());
    let reason = result(1, "reason").as_str().unwrap().to_owned();
    assert!(reason.contains("`content[0].text` is") && reason.contains("not \"buy bread\""), "{reason}");
    let files = results(&world);
    let [file] = files.as_slice() else { panic!("{files:?}") };
    assert!(file.starts_with("gevals-evals-"), "{file}");
    for (command, wanted) in [("summary", 0), ("view", 0), ("verify", 1)] {
        let ran = world.command(&["result", command, file]).output().unwrap();
        assert_eq!(ran.status.code(), Some(wanted), "{command}: {}", String::from_utf8_lossy(&ran.stderr));
    }
    let (code, out, _) = evals(&world, &["run", "--allow-execution", "--id", "no-such-note"], None);
    assert_eq!(code, 0, "{out}");
}

#[test]
fn the_tool_that_a_model_chooses_is_not_called() {
    let world = world(&[DELETE]);
    let (code, _, err) = evals(&world, &["run"], None);
    assert_eq!(code, 3, "{err}");
    assert!(err.contains("`delete-plan` need a model") && err.contains("--model"), "{err}");
    let model = Model::new([call("notes_delete", json!({"title": "plan", "more": 1}))]);
    let (code, out, err) = evals(&world, &["run", "--model", "openai:m-1", "--format", "json"], Some(&model));
    assert_eq!(code, 0, "{out}{err}");
    assert_eq!(json_of(&out)["model"], "openai:m-1");
    assert_eq!(model.asked().len(), 1);
    assert!(model.asked()[0].tools().contains(&"notes_delete".to_owned()));
    assert!(!std::fs::read_dir(world.path("notes")).unwrap().flatten().collect::<Vec<_>>().is_empty());
    let other = Model::new([text("I would rather not.")]);
    let (code, out, _) = evals(&world, &["run", "--model", "openai:m-1"], Some(&other));
    assert_eq!(code, 1);
    assert!(out.contains("`toolName` is not there") && out.contains("with the model openai:m-1"), "{out}");
}

#[test]
fn a_judge_reads_the_whole_transcript_as_data() {
    let world = world(&[SCENARIO]);
    let (code, _, err) = evals(&world, &["run", "--model", "openai:m-1", "--allow-execution"], None);
    assert_eq!(code, 3, "{err}");
    assert!(err.contains("`tell` need a judge") && err.contains("--judge"), "{err}");
    let verdict = json!({"passed": true, "reason": "it says so", "failureCategory": "n/a"});
    let model = Model::new([
        call("notes_read", json!({"title": "plan"})),
        text("Your plan: buy milk."),
        call("submit_judgement", verdict),
        text("done"),
    ]);
    let args = ["run", "--model", "openai:m-1", "--judge", "openai:j-1", "--allow-execution", "--format", "json"];
    let (code, out, err) = evals(&world, &args, Some(&model));
    assert_eq!(code, 0, "{out}{err}");
    let told = json_of(&out);
    assert_eq!((&told["judge"], &told["results"][0]["reason"]), (&json!("openai:j-1"), &json!("it says so")));
    let asked = model.asked()[2].body.to_string();
    assert!(asked.contains("RUBRIC") && asked.contains("notes_read") && asked.contains("buy milk"), "{asked}");
}

#[test]
fn what_evals_do_not_notice_is_named() {
    let good = PLAN.replace("TEXT", "buy milk");
    let args = ["strength", "--allow-execution", "--format", "json"];
    let strong = world(&[MISSING, &good]);
    let run = evals(&strong, &args, None);
    assert_eq!(run.0, 0, "{run:?}");
    let told = json_of(&run.1);
    let tool = |told: &Value, name: &str| {
        told["tools"].as_array().unwrap().iter().find(|tool| tool["tool"] == name).unwrap().clone()
    };
    assert_eq!(tool(&told, "notes_read")["score"], json!(1.0), "{told:#}");
    assert_eq!(tool(&told, "notes_delete")["score"], json!(0.0), "{told:#}");
    assert_eq!(evals(&strong, &args, None).1, run.1);
    // One that looks only for an error does not notice that the error is another one.
    let weak = json_of(&evals(&world(&[MISSING]), &args, None).1);
    let mutants = tool(&weak, "notes_read")["mutants"].clone();
    let wanted = json!([
        {"mutant": "error", "killedBy": null},
        {"mutant": "empty", "killedBy": "no-such-note"},
        {"mutant": "wrong-value", "killedBy": null},
    ]);
    assert_eq!(mutants, wanted);
    let (code, _, err) = evals(&strong, &["strength", "--allow-execution", "--min-score", "0.9"], None);
    assert_eq!(code, 1, "{err}");
    let wrong = world(&[MISSING, &PLAN.replace("TEXT", "bread")]);
    let (code, out, _) = evals(&wrong, &["strength", "--allow-execution"], None);
    assert_eq!(code, 1);
    assert!(out.starts_with("read-plan fails while no tool is broken"), "{out}");
}
