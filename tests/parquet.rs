//! Results as a Parquet table, read back with the crate that wrote it; `tests/real/parquet` reads it with Arrow's own
//! reader.
#![cfg(all(feature = "parquet", target_os = "linux"))]

use std::{collections::BTreeMap, fmt::Write, fs::File};

use gevals::results::{
    self,
    parquet::{COLUMNS, markdown},
    stream,
};
use parquet::{
    basic::Compression,
    file::reader::{FileReader, SerializedFileReader},
};
use serde_json::{Value, json};

use crate::support::world::World;

type Row = BTreeMap<String, String>;

fn rows(world: &World, path: &str) -> (Vec<Row>, usize) {
    let reader = SerializedFileReader::new(File::open(world.path(path)).unwrap()).unwrap();
    let groups = reader.metadata().row_groups();
    for group in groups {
        for column in group.columns() {
            assert!(matches!(column.compression(), Compression::ZSTD(_)), "{:?}", column.compression());
        }
    }
    let row = |row: parquet::record::Row| {
        row.get_column_iter().map(|(name, value)| (name.clone(), value.to_string())).collect()
    };
    let count = groups.len();
    (reader.get_row_iter(None).unwrap().map(|found| row(found.unwrap())).collect(), count)
}

fn file(results: &[Value]) -> String {
    let summary = json!({
        "eval": "e", "runId": "r1", "startedAt": "2026-11-26T10:00:00.25Z", "planDigest": "sha256:e", "currency": "EUR",
        "agent": { "name": "an agent", "type": "builtin.llm-agent", "model": "openai:gpt-5" }, "judge": { "model": "m" },
        "unit": { "id": "a-1-0", "pack": "sha256:p" }, "gevalsVersion": "0.1.0", "complete": true,
    });
    // The summary is found at any position in the file.
    json!({ "results": results, "findings": [], "summary": summary }).to_string()
}

fn full() -> Value {
    let judged = |passed: bool| json!({ "report": { "judgement": { "judge": "j", "passed": passed } } });
    json!({
        "taskName": "größer", "taskPath": "tasks/a.yaml", "taskPassed": false, "allAssertionsPassed": true, "outcome": "failed",
        "taskError": "no pod\nmore", "difficulty": "easy", "tags": ["a", "b"], "runIndex": 1, "totalRuns": 3,
        "durationSeconds": 2.5, "cleanupFailed": false, "retries": ["lost"], "planDigest": "sha256:t", "timedOut": true,
        "assertionResults": { "x": { "passed": true }, "y": { "passed": false } }, "taskJudgeReason": "wrong",
        "tokenEstimate": { "totalTokens": 40, "source": "actual", "cost": 0.5, "mcpSchemaTokens": 7,
            "actual": { "inputTokens": 30, "outputTokens": 10 } },
        "judgeTokenUsage": { "inputTokens": 3, "outputTokens": 4 },
        "callHistory": { "ToolCalls": [{ "status": "ok" }, { "status": "toolError" }, { "success": false }],
            "ResourceReads": null, "PromptGets": [{}] },
        "verifyOutput": { "Steps": [{ "steps": [judged(true), judged(false)] }, judged(true)] },
    })
}

#[test]
fn a_row_contains_the_values_of_a_result() {
    let world = World::new(&[]);
    world.write(
        "out/gevals-e-out.json",
        &file(&[full(), json!({ "taskName": "bare", "taskPassed": true, "allAssertionsPassed": true })]),
    );
    world
        .run(&["result", "export", "parquet", "out", "-o", "x.parquet"])
        .expect(0, &["2 rows of 1 files in x.parquet"]);
    let (rows, _) = rows(&world, "x.parquet");
    let expected: &[(&str, &str)] = &[
        ("file", "\"out/gevals-e-out.json\""),
        ("eval", "\"e\""),
        ("run_id", "\"r1\""),
        ("started_at", "2026-11-26 10:00:00.250000 +00:00"),
        ("agent", "\"an agent\""),
        ("agent_type", "\"builtin.llm-agent\""),
        ("model", "\"openai:gpt-5\""),
        ("judge_model", "\"m\""),
        ("task", "\"größer\""),
        ("path", "\"tasks/a.yaml\""),
        ("difficulty", "\"easy\""),
        ("tags", "[\"a\", \"b\"]"),
        ("run", "2"),
        ("runs", "3"),
        ("outcome", "\"failed\""),
        ("passed", "false"),
        ("failure", "\"no pod\""),
        ("timed_out", "true"),
        ("cleanup_failed", "false"),
        ("retries", "1"),
        ("seconds", "2.5"),
        ("tokens", "40"),
        ("tokens_guessed", "false"),
        ("input_tokens", "30"),
        ("output_tokens", "10"),
        ("schema_tokens", "7"),
        ("judge_input_tokens", "3"),
        ("judge_output_tokens", "4"),
        ("cost", "0.5"),
        ("currency", "\"EUR\""),
        ("tool_calls", "3"),
        ("failed_tool_calls", "2"),
        ("resource_reads", "0"),
        ("prompt_gets", "1"),
        ("assertions", "2"),
        ("assertions_passed", "1"),
        ("judge_votes", "3"),
        ("judge_votes_passed", "2"),
        ("judge_reason", "\"wrong\""),
        ("plan_digest", "\"sha256:t\""),
        ("eval_digest", "\"sha256:e\""),
        ("unit", "\"a-1-0\""),
        ("pack", "\"sha256:p\""),
        ("gevals_version", "\"0.1.0\""),
    ];
    assert_eq!(expected.len(), COLUMNS.len());
    for (column, value) in expected {
        assert_eq!(rows[0].get(*column).map(String::as_str), Some(*value), "{column}");
    }
    // A value that is missing in a results file is null in the table.
    for column in ["seconds", "tokens", "cost", "tool_calls", "failure", "plan_digest", "cleanup_failed"] {
        assert_eq!(rows[1][column], "null", "{column}");
    }
    assert_eq!((&*rows[1]["outcome"], &*rows[1]["tags"], &*rows[1]["run"]), ("\"passed\"", "[]", "1"));
}

#[test]
fn no_file_is_written_after_an_error() {
    let world = World::new(&[("bad.json", "{\"results\": [{\"taskName\": \"a\"}, {}]}"), ("good.json", "[]")]);
    let export = |from: &str, to: &str| world.run(&["result", "export", "parquet", from, "-o", to]);
    export("bad.json", "x.parquet").expect(2, &["`bad.json`: its result 2 has no `taskName`"]);
    export("nosuch.json", "x.parquet").expect(2, &["`nosuch.json`"]);
    export("good.json", "no/such/x.parquet").expect(3, &["cannot write `no/such/x.parquet`"]);
    let mut found: Vec<_> = std::fs::read_dir(world.path("")).unwrap().flatten().map(|e| e.file_name()).collect();
    found.sort();
    assert_eq!(found, ["bad.json", "good.json", "stderr", "stdout", "tmp"]);
    export("good.json", "x.parquet").expect(0, &["0 rows of 1 files"]);
    assert_eq!(rows(&world, "x.parquet").0.len(), 0);
}

/// Memory does not grow with the size of the file.
#[test]
fn a_large_file_is_written_in_groups() {
    const MOST: u64 = 160 << 10;
    const ROWS: usize = 24_000;
    let world = World::new(&[]);
    let mut result = full();
    result["taskOutput"] = json!("x".repeat(1000));
    let all: Vec<Value> = std::iter::repeat_n(result, 100).collect();
    let (head, rest) = file(&all).split_once('[').map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
    let (list, tail) = rest.rsplit_once("],\"findings\"").unwrap();
    let mut text = head + "[";
    for nth in 0..ROWS / 100 {
        write!(text, "{}{list}", if nth == 0 { "" } else { "," }).unwrap();
    }
    write!(text, "],\"findings\"{tail}").unwrap();
    assert!(text.len() > 36 << 20, "{}", text.len());
    std::fs::write(world.path("large.json"), text).unwrap();
    let command = world.command(&["result", "export", "parquet", "large.json", "-o", "x.parquet"]);
    let ran =
        world.start(command).end_within(std::time::Duration::from_secs(120)).expect(0, &["24000 rows of 1 files"]);
    let (rows, groups) = rows(&world, "x.parquet");
    assert_eq!((rows.len(), groups), (ROWS, 2));
    assert!(ran.peak < MOST, "{} KiB", ran.peak);
}

/// Reading as a stream returns the same as reading everything at once.
#[test]
fn a_stream_reads_both_forms_and_refuses_others() {
    let names = |text: &str| -> Result<Vec<String>, String> {
        let mut names = Vec::new();
        stream::each(text.as_bytes(), &mut |result| {
            names.push(result.name().to_owned());
            Ok(())
        })?;
        Ok(names)
    };
    let one = r#"{"taskName": "a", "more": [1, {"x": 2.50}]}"#;
    for text in [
        format!("[{one}, {one}]"),
        format!(r#" {{"results": [{one}, {one}], "findings": [1], "summary": {{"eval": "e"}}}} "#),
    ] {
        assert_eq!(names(&text).unwrap(), ["a", "a"]);
        let mut all = Vec::new();
        stream::each(text.as_bytes(), &mut |result| {
            all.push(result);
            Ok(())
        })
        .unwrap();
        let whole = results::read(&text).unwrap();
        assert_eq!((stream::summary(text.as_bytes()).unwrap(), all), (whole.summary, whole.results));
    }
    assert_eq!(names(r#"{"results": null}"#).unwrap(), Vec::<String>::new());
    for bad in ["", " ", "{}", "5", "{", r#"{"results": 5}"#, "[5]", "[{}]", r#"[{"taskName": 5}]"#, "[] x"] {
        assert!(names(bad).is_err() && results::read(bad).is_err(), "{bad}");
    }
    assert!(names("[{}]").unwrap_err().starts_with("its result 1 has no `taskName`"));
    let newer = r#"{"summary": {"version": 2}, "results": []}"#;
    assert!(stream::summary(newer.as_bytes()).unwrap_err().contains("newer"));
}

/// The columns in `docs/scale.md` are up to date.
#[test]
fn the_columns_are_documented() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/scale.md")).unwrap();
    assert!(page.contains(&markdown()), "write into docs/scale.md:\n\n{}", markdown());
}
