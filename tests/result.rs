//! `gevals result` and `gevals new`, from end to end: real files, ours and those of earlier tools.
#![cfg(all(feature = "run", target_os = "linux"))]

use serde_json::{Value, json};

use crate::support::world::{Ran, World};

/// Upstream's results in its newer format, `new.json`, and those of an earlier day in its older format, `old.json`.
fn upstream() -> World {
    let world = World::new(&[]);
    for (from, to) in [("upstream.json", "new.json"), ("upstream-list.json", "old.json")] {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/results/").to_owned() + from;
        world.write(to, &std::fs::read_to_string(path).unwrap());
    }
    world
}

#[track_caller]
fn says(ran: &Ran, not: &[&str]) {
    for text in not {
        assert!(!ran.out.contains(text), "said: `{text}`\n{}", ran.out);
    }
}

#[test]
fn results_of_upstream_are_summarized() {
    let world = upstream();
    world.run(&["result", "summary", "new.json"]).expect(
        0,
        &[
            "✓ create-pod  assertions 2/2",
            "~ scale-deployment  assertions 1/2",
            "- toolsUsed: Required tool not called: server=kube, tool=deployments_scale",
            "✗ fix-service\n      verification failed: step 0: script failed: exit status 1\n",
            "2/3 passed (66.67%, with 95 % confidence 20–94 %)",
            "3/4 passed (75.00%, with 95 % confidence 30–96 %)",
            "~123 estimated (+3600 of MCP schemas)",
            "5000 in, 800 out",
        ],
    );
    let older = world.run(&["result", "summary", "old.json", "--task", "POD"]);
    let older =
        older.expect(0, &["✗ create-pod  ", "✗ create-pod-again\n      agent execution failed\n", "0/2 passed"]);
    says(&older, &["fix-service", "trace", "Tokens"]);
    let none = ["result", "summary", "old.json", "--task", "no-such"];
    world.run(&none).expect(2, &["no task in `old.json` has `no-such` in its name"]);
    let json = world.run(&["result", "summary", "new.json", "-o", "json"]).expect(0, &[]);
    let json: Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(json["resultsFile"], "new.json");
    assert_eq!((&json["tasksTotal"], &json["tasksPassed"]), (&3.into(), &2.into()));
    assert_eq!((&json["assertionsTotal"], &json["assertionsPassed"]), (&4.into(), &3.into()));
    assert_eq!(json["assertionPassRate"], 0.75);
    assert_eq!(json["tasks"][1]["failedAssertions"][0].as_str().unwrap().split(':').next(), Some("toolsUsed"));
    assert_eq!(json["tasks"][2]["tokenError"], "tokenizer: no such encoding");
    assert_eq!(json["agentTotalInputTokens"], 5000);
    let github = world.run(&["result", "summary", "new.json", "--github-output", "-o", "json"]).expect(0, &[]);
    let lines: Vec<_> = github.out.lines().collect();
    assert_eq!(lines.len(), 13);
    assert_eq!(lines[..4], ["results-file=new.json", "tasks-total=3", "tasks-passed=2", "task-pass-rate=0.6667"]);
    world.write("none.json", r#"{"results": []}"#);
    world.run(&["result", "summary", "none.json"]).expect(0, &["0/0 passed (0.00%)"]);
}

#[test]
fn results_of_upstream_are_shown_in_full() {
    let world = upstream();
    world.write("tasks/fix.yaml", "kind: Task\nsteps:\n  prompt:\n    file: prompt.md\n");
    world.write("tasks/prompt.md", "Mend the service.\n");
    let text = world.read("new.json").replace("/home/me/evals/", "");
    world.write("new.json", &text);
    let ran = world.run(&["result", "view", "new.json"]).expect(
        0,
        &[
            "Status:     PASSED\n",
            "Status:     FAILED (assertions)",
            "Status:     FAILED\n",
            "Prompt:\n      Mend the service.\n",
            "Calls:      tools: 3 (kube:1 ok, kube:1 fail, helm:0 ok, helm:1 fail) | resources: 1 (kube:1 ok)",
            "✓ kube.pods_run {\"name\":\"web\"}\n      pod/web created\n",
            "✗ helm.list {}\n      connection closed\n",
            "- thinking:\n      A pod is wanted.\n",
            "- command:\n      kubectl get pods\n",
            "Tokens:     ~43 estimated (prompt 10, message 20, toolInput 4, toolOutput 9)",
        ],
    );
    says(&ran, &["create-pod-again"]);
    let short =
        world.run(&["result", "view", "new.json", "--task", "create", "--max-events", "1", "--max-line-length", "5"]);
    says(&short.expect(0, &["… 2 more", "      A pod…"]), &["The pod runs."]);
    says(&world.run(&["result", "view", "new.json", "--timeline=false"]).expect(0, &[]), &["Timeline"]);
    let old = ["result", "view", "old.json", "--task", "again"];
    world.run(&old).expect(0, &["FAILED (agent error)", "trace"]);
    world.run(&["result", "view", "new.json", "--task", "nobody"]).expect(2, &["no task", "nobody"]);
}

#[test]
fn thresholds_determine_the_exit_status() {
    let world = upstream();
    for (args, code, said) in [
        (vec!["--task", "0.66"], 0, "PASSED"),
        (vec!["--task", "0.67"], 1, "FAILED"),
        (vec!["--assertion", "0.75"], 0, "66.67% (2/3, with 95 % confidence 20–94 %)"),
        (vec!["--assertion", "0.8"], 1, "FAILED"),
        (vec![], 1, "`fix-service` did not pass"),
        (vec!["--task", "80"], 2, "from 0 to 1"),
        (vec!["--task", "NaN"], 2, "from 0 to 1"),
    ] {
        world.run(&[&["result", "verify", "new.json"][..], &args].concat()).expect(code, &[said]);
    }
    world.write("none.json", "[]");
    world.run(&["result", "verify", "none.json", "--task", "0.1"]).expect(1, &["0.00% (0/0)", "no assertions"]);
    world.write("shard.json", r#"{"summary": {"evals": {"names": []}, "complete": true}, "results": []}"#);
    world.run(&["result", "verify", "shard.json"]).expect(1, &["✗ 0 of 0 passed", "no task was run", "FAILED"]);
    world.run(&["result", "verify", "none.json", "--assertion", "1"]).expect(1, &["Incomplete: it has no results"]);
}

/// Every command that reads results uses the outcome of each task, and whether the file is complete.
#[test]
fn every_command_uses_outcomes_and_completeness() {
    let world = World::new(&[]);
    let result = |name: &str, more: &str| {
        format!(
            r#"{{"taskName": "{name}", "taskPassed": true, "allAssertionsPassed": true, "outcome": "passed"{more}}}"#
        )
    };
    let file = |summary: &str, results: &[String]| {
        format!(r#"{{"summary": {{"evals": {{"names": ["a", "b"]}}{summary}}}, "results": [{}]}}"#, results.join(","))
    };
    let (a, b) = (result("a", ""), result("b", ""));
    let complete = r#", "complete": true"#;
    world.write("good.json", &file(complete, &[a.clone(), b.clone()]));
    world.run(&["result", "verify", "good.json"]).expect(0, &["2 of 2 passed", "PASSED"]);
    world.run(&["result", "diff", "good.json", "good.json"]).expect(0, &[]);
    let failed =
        result("b", "").replace(r#""outcome": "passed""#, r#""outcome": "failed", "reason": "no server was used""#);
    for (name, text, why) in [
        ("an outcome that contradicts taskPassed", file(complete, &[a.clone(), failed]), "`b`"),
        ("an outcome of another type", file(complete, &[a.clone(), b.replace(r#""passed"}"#, "5}")]), "`b`"),
        ("a task without a result", file(complete, std::slice::from_ref(&a)), "`b` has no result"),
        ("a missing run", file(complete, &[a.clone(), result("b", r#", "totalRuns": 2"#)]), "no run 2 of 2"),
        ("a run that is not over", file(r#", "complete": false"#, &[a.clone(), b.clone()]), "marked as incomplete"),
        ("a run cut short", file(r#", "cancelled": "SIGINT""#, &[a.clone(), b.clone()]), "was interrupted: SIGINT"),
        ("nothing", file("", &[]), "`a` has no result"),
    ] {
        world.write("bad.json", &text);
        for args in
            [&["verify", "bad.json"][..], &["verify", "bad.json", "--task", "1.0"], &["diff", "good.json", "bad.json"]]
        {
            let ran = world.run(&[&["result"], args].concat());
            assert_eq!(ran.code, Some(1), "{name}: {args:?}: {}", ran.out);
        }
        world.run(&["result", "verify", "bad.json"]).expect(1, &[why, "FAILED"]);
        let junit = world.run(&["result", "convert", "junit", "bad.json"]);
        assert!(!junit.out.contains(r#"failures="0" errors="0""#) || junit.code == Some(2), "{name}: {}", junit.out);
    }
    // A missing task counts as not passed.
    world.write("bad.json", &file(complete, std::slice::from_ref(&a)));
    world
        .run(&["result", "diff", "good.json", "bad.json"])
        .expect(1, &["1/2 (50.00%, 20–100 % of 1 judged)", "-50.00 pp"]);
    let lacking = "the base is incomplete, and what it lacks cannot be compared: `b` has no result";
    let ran = world.run(&["result", "diff", "bad.json", "good.json"]).expect(0, &["New tasks (1)"]);
    assert!([ran.out, ran.err].concat().contains(lacking));
    // One of two shards is missing: the merged file does not verify.
    world.write(
        "one.json",
        &file(&format!(r#"{complete}, "shard": {{"index": 1, "of": 2}}"#), std::slice::from_ref(&a)),
    );
    world.run(&["result", "verify", "one.json"]).expect(0, &["1 of 1 passed"]);
    world.run(&["result", "merge", "one.json", "-o", "merged.json"]).expect(1, &["shard 2/2 is missing"]);
    world.run(&["result", "verify", "merged.json", "--task", "1.0"]).expect(1, &["Incomplete"]);
    // A gate specifies how many runs must pass.
    let gate = r#", "totalRuns": 2, "gate": {"passes": 1, "of": 2}"#;
    let lost = result("b", gate).replace(r#""passed""#, r#""failed""#);
    let second = result("b", &format!(r#"{gate}, "runIndex": 1"#));
    world.write("gated.json", &file(complete, &[a, lost, second]));
    world.run(&["result", "verify", "gated.json"]).expect(0, &["2 of 3 passed"]);
}

#[test]
fn a_regression_determines_the_exit_status() {
    let world = upstream();
    let said = [
        "Losses (1):\n  ↓ fix-service  passed → failed\n      verification failed",
        "Gains (1):\n  ↑ create-pod  failed → passed",
        "Removed tasks (1):\n  - create-pod-again  failed",
        "2/4 (50.00%, 15–85 %)",
        "+0.00 pp",
        "(no base data)",
        "not all tokens of current were counted",
    ];
    let ran = world.run(&["result", "diff", "--base", "old.json", "--current", "new.json"]);
    ran.expect(1, &said);
    world.run(&["result", "diff", "old.json", "new.json", "--exit-zero"]).expect(0, &said[..1]);
    world.run(&["result", "diff", "new.json", "new.json"]).expect(0, &["No task changed.", "+0.00 pp"]);
    let markdown = world.run(&["result", "diff", "old.json", "new.json", "-o", "markdown"]);
    let said = ["### 🔻 Losses (1)", "- **fix-service** passed → failed: verification failed", "| Tasks |"];
    markdown.expect(1, &said);
    world.run(&["result", "diff", "old.json"]).expect(2, &[]);
    world.run(&["result", "diff", "--base", "old.json"]).expect(2, &["--current"]);
    world.run(&["result", "diff", "old.json", "none.json"]).expect(2, &["none.json"]);
}

#[test]
fn junit_goes_to_a_file_or_to_the_terminal() {
    let world = upstream();
    let ran = world.run(&["result", "convert", "junit", "old.json"]).expect(
        0,
        &[
            r#"tests="4" skipped="0" failures="1" errors="2""#,
            r#"type="Timeout""#,
            r#"type="AgentExecutionError""#,
            r#"type="AssertionFailure""#,
            r#"name="create-pod" classname="create-pod""#,
        ],
    );
    let args = ["result", "convert", "junit", "old.json", "--output-file", "j.xml"];
    assert!(world.run(&args).expect(0, &[]).out.is_empty());
    assert_eq!(world.read("j.xml"), ran.out);
    let old = world.read("old.json");
    for args in [
        ["convert", "junit", "old.json", "--output-file", "./old.json"].as_slice(),
        &["html", "new.json", "old.json", "-o", "old.json"],
        &["merge", "new.json", "old.json", "-o", "old.json"],
    ] {
        world.run(&[&["result"], args].concat()).expect(2, &["old.json` would be overwritten"]);
        assert_eq!(world.read("old.json"), old);
    }
    world
        .run(&["result", "convert", "junit", "new.json"])
        .expect(0, &[r#"type="VerificationFailure""#, "&lt;none&gt; &amp;"]);
    world.run(&["result", "convert", "junit", "old.json", "--task", "no such"]).expect(2, &["no such"]);
}

#[test]
fn files_that_are_not_results_are_rejected() {
    let world = World::new(&[("empty.json", ""), ("other.json", "{}"), ("broken.json", "[{"), ("bin.json", "[]")]);
    std::fs::write(world.path("bin.json"), [0xff, 0xfe]).unwrap();
    for (file, said) in [
        ("empty.json", "the file is empty"),
        ("other.json", "no `results`"),
        ("broken.json", "it is not JSON"),
        ("bin.json", "it is not text"),
        ("missing.json", "missing.json"),
        (".", "cannot read results: there are no results files in `.`"),
    ] {
        for command in [&["summary"][..], &["view"], &["verify"], &["convert", "junit"], &["merge"]] {
            world.run(&[&["result"], command, &[file]].concat()).expect(2, &[said]);
        }
    }
}

fn quickstart() -> World {
    let world = World::new(&[]);
    world.copy("examples/quickstart", "q");
    world
}

#[test]
fn shards_together_are_the_whole_run() {
    let world = quickstart();
    world.run(&["run", "q", "-o", "whole"]).expect(0, &[]);
    for shard in ["1", "2", "3"] {
        world.run(&["run", "q", "--shard", &format!("{shard}/3"), "-o", shard]).expect(0, &["this was shard"]);
    }
    let file = |shard: &str| format!("{shard}/gevals-quickstart-out.json");
    let (one, two, three) = (file("1"), file("2"), file("3"));
    world.run(&["result", "merge", &three, &one, &two, "-o", "m.json"]).expect(0, &["4 results of 3 files"]);
    let read = |path: &str| -> Value { serde_json::from_str(&world.read(path)).unwrap() };
    let names = |file: &Value| -> Vec<String> {
        file["results"].as_array().unwrap().iter().map(|r| r["taskName"].as_str().unwrap().to_owned()).collect()
    };
    let (whole, merged) = (read(&file("whole")), read("m.json"));
    assert_eq!(names(&merged), names(&whole));
    assert_eq!(merged["summary"]["planDigest"], whole["summary"]["planDigest"]);
    world.run(&["result", "diff", &file("whole"), "m.json"]).expect(0, &["No task changed."]);
    world
        .run(&["result", "merge", &one, &three])
        .expect(1, &["shard 2/3 is missing", "`tidy-up` is in none of the files"]);
    world.run(&["result", "merge", &one, &three, "--allow-missing"]).expect(0, &["shard 2/3 is missing"]);
    world
        .run(&["result", "merge", &one, &one])
        .expect(1, &["shard 1/3 appears twice", "`write-note` appears twice in"]);
    // The worst exit status of the parts is that of the whole, an interrupt before all others.
    for exit in [1, 129, 130, 143] {
        let mut part = read(&one);
        part["summary"]["exit"] = json!(exit);
        world.write("part.json", &part.to_string());
        world.run(&["result", "merge", "part.json", &two, &three, "-o", "m.json"]).expect(0, &[]);
        assert_eq!(read("m.json")["summary"]["exit"], json!(exit));
    }
    world.write("other.json", &world.read(&one).replace("quickstart", "another"));
    world.run(&["result", "merge", &one, "other.json"]).expect(2, &["are from different runs", "another"]);
    // The file of another shard is not overwritten, that of the same shard is; an empty shard also writes results.
    world.run(&["run", "q", "--shard", "2/3", "-o", "1"]).expect(2, &["contains shard 1/3", "--output-dir"]);
    world.run(&["run", "q", "--shard", "1/3", "-o", "1"]).expect(0, &[]);
    world.run(&["run", "q", "--shard", "9/9", "-o", "9"]).expect(0, &["shard 9/9 has no task"]);
    assert_eq!(read(&file("9"))["results"], Value::Array(Vec::new()));
}

/// Returns the files in a directory of the world, by path, with their contents.
fn contents(world: &World, folder: &str) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(world.path(folder)).unwrap().flatten() {
        let path = format!("{folder}/{}", entry.file_name().to_str().unwrap());
        if entry.path().is_dir() {
            found.extend(contents(world, &path));
        } else {
            found.push((path, std::fs::read(entry.path()).unwrap()));
        }
    }
    found.sort();
    found
}

/// Creates archives of a directory in all formats.
fn archives(world: &World, folder: &str) -> [String; 4] {
    use std::io::Write;
    let (mut tar, mut zip) = (tar::Builder::new(Vec::new()), zip::ZipWriter::new(std::io::Cursor::new(Vec::new())));
    for (path, bytes) in contents(world, folder) {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        tar.append_data(&mut header, &path, bytes.as_slice()).unwrap();
        zip.start_file(&path, zip::write::SimpleFileOptions::default()).unwrap();
        zip.write_all(&bytes).unwrap();
    }
    let tar = tar.into_inner().unwrap();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&tar).unwrap();
    let forms = [
        ("zip", zip.finish().unwrap().into_inner()),
        ("tar.gz", gzip.finish().unwrap()),
        ("tar.zst", zstd::encode_all(tar.as_slice(), 1).unwrap()),
        ("tar", tar),
    ];
    forms.map(|(ending, bytes)| {
        let name = format!("{folder}.{ending}");
        std::fs::write(world.path(&name), bytes).unwrap();
        name
    })
}

/// Every subcommand accepts a directory, an archive, and the URL of either. Parts of a run are merged.
#[test]
fn folders_archives_and_urls_are_read_as_the_results_in_them() {
    let world = quickstart();
    world.run(&["run", "q", "-o", "whole"]).expect(0, &[]);
    for shard in ["1", "2"] {
        world.run(&["run", "q", "--shard", &format!("{shard}/2"), "-o", &format!("out/{shard}")]).expect(0, &[]);
    }
    world.run(&["result", "merge", "out", "-o", "merged.json"]).expect(0, &["4 results of 2 files"]);
    let merged = world.read("merged.json");
    let mut forms = archives(&world, "out").to_vec();
    forms.extend(["out".to_owned(), format!("file://{}", world.path("out.zip").display())]);
    for form in &forms {
        world.run(&["result", "summary", form]).expect(0, &["4/4 passed"]);
        world.run(&["result", "verify", form]).expect(0, &[]);
        world.run(&["result", "view", form, "--task", "tidy-up"]).expect(0, &["tidy-up", "PASSED"]);
        world.run(&["result", "diff", "whole", form]).expect(0, &["No task changed."]);
        world.run(&["result", "compare", form, "whole"]).expect(0, &["4/4 passed", form]);
        world.run(&["result", "html", form, "-o", "page.html"]).expect(0, &[]);
        world.run(&["result", "export", "junit", form]).expect(0, &["tests=\"4\""]);
        world.run(&["result", "merge", form, "-o", "again.json"]).expect(0, &["4 results of 2 files"]);
        assert_eq!(world.read("again.json"), merged, "{form}");
    }
    // Missing parts are reported, and determine the exit status.
    world.run(&["result", "merge", "out/1"]).expect(1, &["shard 2/2 is missing"]);
    std::fs::copy(world.path("out/1/gevals-quickstart-out.json"), world.path("out/2/gevals-quickstart-out.json"))
        .unwrap();
    world.run(&["result", "merge", "out"]).expect(1, &["shard 2/2 is missing", "shard 1/2 appears twice"]);
    world.run(&["result", "verify", "out"]).expect(2, &["contains parts of several runs", "shard 1/2 appears twice"]);
    // Two whole runs of one eval are not combined, even if they are alike.
    let whole = world.read("whole/gevals-quickstart-out.json");
    world.write("twice/a/gevals-q-out.json", &whole);
    world.write("twice/b/gevals-q-out.json", &whole);
    world.run(&["result", "summary", "twice"]).expect(2, &["`twice` contains the results of 2 runs"]);
    world.run(&["result", "compare", "twice"]).expect(0, &["twice/a/gevals-q-out.json", "twice/b/gevals-q-out.json"]);
    // Results of several agents are separate runs.
    world.write("both/a/gevals-q-out.json", &world.read("whole/gevals-quickstart-out.json"));
    let other = merged.replacen("\"name\": \"", "\"name\": \"other-", 1);
    assert_ne!(other, merged);
    world.write("both/b/gevals-q-out.json", &other);
    let told = ["`both` contains the results of 2 runs", "`both/a/gevals-q-out.json`, `both/b/gevals-q-out.json`"];
    world.run(&["result", "summary", "both"]).expect(2, &told);
    world.run(&["result", "compare", "both"]).expect(0, &["both/a/gevals-q-out.json", "both/b/gevals-q-out.json"]);
    world.run(&["result", "compare", "whole"]).expect(2, &["only one run"]);
    // The merged file of the scripts of `emit` is used if there is nothing else.
    world.write("put/results.json", &merged);
    world.run(&["result", "summary", "put"]).expect(0, &["4/4 passed"]);
    world.write("put/x/gevals-quickstart-out.json", &world.read("out/1/gevals-quickstart-out.json"));
    world.run(&["result", "summary", "put"]).expect(0, &["2/2 passed"]);
    assert_eq!(std::fs::read_dir(world.path("tmp")).unwrap().count(), 0);
}

#[test]
fn inputs_without_results_are_rejected() {
    let world = upstream();
    std::fs::create_dir(world.path("empty")).unwrap();
    world.write("other/notes.txt", "");
    let refused = |arg: &str, said: &str| {
        world.run(&["result", "summary", arg]).expect(2, &[said]);
        world.run(&["result", "merge", arg]).expect(2, &[said]);
    };
    refused("empty", "there are no results files in `empty`");
    for archive in archives(&world, "other") {
        refused(&archive, &format!("there are no results files in `{archive}`"));
    }
    refused("nosuch.zip", "`nosuch.zip`: no such file");
    // Links are not followed.
    let mut tar = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(tar::EntryType::Symlink);
    header.set_size(0);
    tar.append_link(&mut header, "out/gevals-e-out.json", world.path("new.json")).unwrap();
    std::fs::write(world.path("link.tar"), tar.into_inner().unwrap()).unwrap();
    refused("link.tar", "`out/gevals-e-out.json` in it is a link or a device");
    world.write("bad/gevals-e-out.json", "{");
    let [zip, ..] = archives(&world, "bad");
    refused(&zip, "cannot read the results in `bad.zip/bad/gevals-e-out.json`: it is not JSON");
    let zip = std::fs::read(world.path("bad.zip")).unwrap();
    std::fs::write(world.path("cut.zip"), &zip[..zip.len() / 2]).unwrap();
    refused("cut.zip", "it is not a readable archive");
    for (url, said) in [
        ("file://new.json", "write it as file:///directory/file"),
        #[cfg(feature = "store")]
        ("https://example.org/x", "not in a supported store"),
        #[cfg(not(feature = "store"))]
        ("s3://evals/x", "built without the feature `store`"),
    ] {
        refused(url, said);
    }
    #[cfg(not(feature = "store"))]
    world.run(&["result", "push", "new.json", "s3://evals/x"]).expect(2, &["built without the feature `store`"]);
    #[cfg(not(feature = "parquet"))]
    world
        .run(&["result", "export", "parquet", "new.json", "-o", "x.parquet"])
        .expect(2, &["built without the feature `parquet`"]);
    assert_eq!(std::fs::read_dir(world.path("tmp")).unwrap().count(), 0);
}

#[test]
fn tasks_are_selected_and_invalid_selections_are_rejected() {
    let world = quickstart();
    for (args, code, said) in [
        (vec!["--run", "^arch"], 0, "1 of 1 task passed"),
        (vec!["--run", "no such"], 2, "no task name matches `no such`"),
        (vec!["--run", "("], 2, "not a valid regular expression"),
        (vec!["-l", "suite=legacy"], 0, "1 of 1 task passed"),
        (vec!["-l", "suite=legacy,suite=other", "--label-selector", "suite=third"], 0, "1 of 1 task passed"),
        (vec!["-l", "suite=other"], 2, "no task has the label `suite=other`"),
        (
            vec!["-l", "suite=other,difficulty=easy", "--tag", "slow"],
            2,
            "no task has the labels `suite=other`, `difficulty=easy` and the tag `slow`",
        ),
        (vec!["-l", "suite"], 2, "`suite` is not `key=value`"),
        (vec!["-l", "suite=legacy", "--run", "write"], 2, "has the label `suite=legacy`"),
        (vec!["--shard", "0/3"], 2, "numbered from 1"),
        (vec!["--shard", "1/0"], 2, "must not be 0"),
        (vec!["--shard", "x"], 2, "I/N"),
        (vec!["--shard", "9/9", "--run", "no such"], 2, "no such"),
        (vec!["--seed", "5"], 2, "--shuffle"),
        (vec!["--runs", "0"], 2, "--runs"),
        (vec!["-p", "0"], 2, "--parallel"),
        (vec!["--task-timeout", "5"], 2, "such as `30s`"),
        (vec!["--task-timeout", "0s"], 2, "longer"),
        (vec!["--mcp-config-file", "none.yaml"], 2, "cannot read `none.yaml`"),
        (vec!["--agent", "none.yaml"], 2, "cannot read `none.yaml`"),
        (vec!["--format", "xml"], 2, "xml"),
        (vec!["-q", "-v"], 2, "--verbose"),
        (vec!["-o", "json"], 2, "write `--format json`"),
    ] {
        world.run(&[&["run", "q"][..], &args].concat()).expect(code, &[said]);
    }
}

#[test]
fn a_random_order_can_be_repeated() {
    let world = quickstart();
    let order = |seed: &str| {
        let ran = world.run(&["run", "q", "--shuffle", "--seed", seed]).expect(0, &[&format!("--seed {seed}")]);
        let names =
            ran.out.lines().filter_map(|l| l.strip_prefix("PASS")?.split_whitespace().next().map(str::to_owned));
        names.collect::<Vec<_>>()
    };
    let orders: Vec<_> = ["1", "2", "3", "4"].map(order).into();
    assert_eq!(order("1"), orders[0]);
    assert!(orders.iter().any(|o| *o != orders[0]), "{orders:?}");
    assert_eq!(world.results("quickstart")["summary"]["seed"], 1);
}

#[test]
fn fail_fast_stops_after_the_first_failure() {
    let world = quickstart();
    let task = world.read("q/tasks/tidy-up.yaml");
    world.write("q/tasks/tidy-up.yaml", &task.replace("Reviewed: yes$", "Reviewed: no$"));
    world.run(&["run", "q", "--fail-fast"]).expect(
        1,
        &[
            "1 of 4 tasks passed, 1 failed, 2 cancelled",
            "not started: `tidy-up` failed",
            "--run '^(weekly-review|archive)$'",
        ],
    );
    world.run(&["run", "q"]).expect(1, &["3 of 4 tasks passed, 1 failed in"]);
}

#[test]
fn a_gate_lets_some_runs_fail() {
    let world = World::new(&[
        (
            "eval.yaml",
            "kind: Eval\nmetadata: {name: e}\nconfig:\n  agent: {type: builtin.noop}\n  taskSets: [{path: task.yaml}]\n",
        ),
        (
            "task.yaml",
            "kind: Task\napiVersion: mcp-eval/v1\nmetadata: {name: t}\nspec:\n  prompt: Do it.\n  verify: [{command: {run: 'echo x >> WORLD/log; test $(wc -l < WORLD/log) != 2'}}]\n",
        ),
    ]);
    world
        .run(&["run", "eval.yaml", "--gate", "2/3"])
        .expect(0, &["2 of 3 runs passed, 1 failed", "the gate is 2 passes of 3 runs: met", "t: 2 of 3 runs passed"]);
    assert_eq!(world.results("e")["summary"]["gate"]["passes"], 2);
    world.write("log", "");
    world.run(&["run", "eval.yaml", "--gate", "3/3"]).expect(1, &["missed by t"]);
    world.run(&["run", "eval.yaml", "--gate", "4/3"]).expect(2, &["more passes than runs"]);
    world.run(&["run", "eval.yaml", "--gate", "1/2", "-n", "3"]).expect(2, &["--runs"]);
}

/// A task that fails in its second run, and one that never does.
fn one_flaky() -> World {
    let task = |name: &str, run: &str| {
        format!(
            "kind: Task\napiVersion: mcp-eval/v1\nmetadata: {{name: {name}}}\nspec:\n  prompt: Do it.\n  verify: [{{command: {{run: '{run}'}}}}]\n"
        )
    };
    World::new(&[
        (
            "eval.yaml",
            "kind: Eval\nmetadata: {name: e}\nconfig:\n  agent: {type: builtin.noop}\n  taskSets: [{path: flaky.yaml}, {path: steady.yaml}]\n",
        ),
        ("flaky.yaml", &task("flaky", "echo x >> WORLD/log; test $(wc -l < WORLD/log) != 2")),
        ("steady.yaml", &task("steady", "test -d WORLD")),
    ])
}

#[test]
fn a_gate_may_be_a_pass_rate_with_confidence() {
    let world = one_flaky();
    let gate = |args: &[&str]| world.run(&[&["run", "eval.yaml", "--gate"], args].concat());
    gate(&["0.5@95%"]).expect(1, &["the gate is `0.5@95%`, which is 5 passes of 5 runs: missed by flaky (4 of 5)"]);
    let summary = &world.results("e")["summary"];
    assert_eq!(summary["gate"], json!({ "passes": 5, "of": 5, "rate": 0.5, "confidence": 0.95 }));
    world.write("log", "");
    gate(&["0.5@95%", "-n", "8"]).expect(0, &["which is 7 passes of 8 runs: met"]);
    gate(&["0.9@95%", "-n", "20"]).expect(2, &["20 runs cannot show the gate `0.9@95%`", "at least 29 are needed"]);
    gate(&["0.5@95%", "--until-decided"]).expect(2, &["--max-runs"]);
    gate(&["0.5@95%", "--max-runs", "20"]).expect(2, &["--until-decided"]);
    gate(&["0.9@95%", "--until-decided", "--max-runs", "20"]).expect(2, &["at least 29 are needed"]);
}

/// No more runs than necessary; the results are complete, and every command treats them so.
#[test]
fn tasks_run_until_their_gate_is_decided() {
    let world = one_flaky();
    let args = ["run", "eval.yaml", "--gate", "0.3@90%", "--until-decided", "--max-runs", "12"];
    world.run(&args).expect(0, &["checked after each of at most 12 runs: met", "flaky: "]);
    let results = world.results("e");
    let decided = &results["summary"]["decided"];
    let runs = |task: &str| results["results"].as_array().unwrap().iter().filter(|r| r["taskName"] == task).count();
    assert_eq!(decided["steady"]["runs"], runs("steady"));
    assert_eq!(decided["flaky"]["runs"], runs("flaky"));
    assert!(runs("steady") < runs("flaky") && runs("flaky") < 12, "{decided}");
    assert_eq!(results["summary"]["complete"], true);
    world.run(&["result", "verify", "gevals-e-out.json"]).expect(0, &["PASSED"]);
    world.run(&["result", "merge", "gevals-e-out.json", "-o", "m.json"]).expect(0, &[]);
    world.run(&["result", "verify", "m.json"]).expect(0, &["PASSED"]);
    // Three of three: the second run, which fails, decides it.
    world.write("log", "");
    world.run(&["run", "eval.yaml", "--gate", "3/3", "--until-decided"]).expect(1, &["missed by flaky (1 of 2)"]);
    assert_eq!(world.results("e")["summary"]["decided"]["flaky"], json!({ "met": false, "passes": 1, "runs": 2 }));
    world.run(&["result", "verify", "gevals-e-out.json"]).expect(1, &["`flaky` did not pass"]);
}

#[test]
fn runs_are_reported_with_their_confidence() {
    let world = one_flaky();
    let once = "a pass is 1 of 1: with 95 % confidence the task passes at least 20 % of the time";
    world.run(&["run", "eval.yaml"]).expect(0, &[once]);
    world.write("log", "");
    world.run(&["run", "eval.yaml", "-n", "5"]).expect(
        1,
        &[
            "flaky: 4 of 5 runs passed; its pass rate is 37–97 %\n",
            "a pass is 5 of 5: with 95 % confidence",
            "at least 56 %",
        ],
    );
    world.run(&["result", "summary", "gevals-e-out.json"]).expect(
        0,
        &[
            "  flaky: 4/5 passed (37–97 %)\n",
            "Of k runs one passes:  pass@1 90.00%, pass@2 100.00%, pass@3 100.00%, pass@5 100.00%\n",
            "Of k runs all pass:    pass^1 90.00%, pass^2 80.00%, pass^3 70.00%, pass^5 50.00%\n",
        ],
    );
    world.run(&["plan", "eval.yaml", "--gate", "0.9@95%"]).expect(
        0,
        &[
            "e: showing `0.9@95%` takes at least 29 runs, all of which pass",
            "            99 %      92.2 %      46      45",
            "as in gevals-e-out.json",
        ],
    );
    // Or by another file.
    world.write(
        "other.json",
        &world.read("gevals-e-out.json").replace("\"durationSeconds\": 0", "\"durationSeconds\": 100"),
    );
    let other = ["plan", "eval.yaml", "--gate", "0.9@95%", "--results"];
    world.run(&[&other[..], &["other.json"]].concat()).expect(0, &["as in other.json", "h"]);
    world.run(&[&other[..], &["none.json"]].concat()).expect(2, &["cannot read `none.json`"]);
    world.run(&[&other[..], &["eval.yaml"]].concat()).expect(2, &["`eval.yaml` is not valid JSON"]);
    world.run(&["plan", "eval.yaml", "--gate", "2"]).expect(2, &["such as `0.9@95%`"]);
    world
        .run(&["plan", "flaky.yaml", "--gate", "0.5"])
        .expect(0, &["1 task: showing `0.5@95%`", "once there are results"]);
}

/// `tests/render/report.cjs` tests the page of results in a browser.
#[test]
fn results_are_rendered_as_a_self_contained_page() {
    let world = quickstart();
    let task = world.read("q/tasks/write-note.yaml");
    world.write("q/tasks/write-note.yaml", &task.replace("contains: Bread\n", "contains: </script>Cake\n"));
    let ran = world.run(&["run", "q", "--report", "html"]).expect(1, &[]);
    assert!(ran.err.contains("report: gevals-quickstart-out.html"), "{}", ran.err);
    let page = world.read("gevals-quickstart-out.html");
    for text in [
        "default-src 'none'; style-src 'sha256-",
        "contains `\\u003c/script\\u003eCake`",
        r#""place":"q/tasks/write-note.yaml:24""#,
        r#""answer":"Bread, milk, and "#,
        r#""prompt":"Write a note called \"Shopping "#,
    ] {
        assert!(page.contains(text), "{text}");
    }
    assert_eq!(page.matches("</script>").count(), 4, "three blocks of data and a script");
    for beyond in ["http:", "https:", "@import", "url("] {
        let plain = page.replace("http://www.w3.org/2000/svg", "");
        assert!(!plain.contains(beyond), "{beyond}");
    }
    let html = |args: &[&str]| world.run(&[&["result", "html", "gevals-quickstart-out.json"], args].concat());
    html(&["-o", "r.html", "--source-url", "https://example.org/"]).expect(0, &["r.html"]);
    assert!(world.read("r.html").contains(r#""link":"https://example.org/""#));
    html(&["--source-url", "javascript:alert(1)"]).expect(2, &["starts with `https://`"]);
    html(&["none.json"]).expect(2, &["none.json"]);
    let two = html(&["gevals-quickstart-out.json"]).expect(0, &["<!doctype html>"]);
    assert!(two.out.contains(r#""name":"write-note""#));
    // The same text appears everywhere.
    let told = ["verify/read: `content` is not as expected", "q/tasks/write-note.yaml:24", "Cake`", "Bread, milk, and"];
    world.run(&["result", "view", "gevals-quickstart-out.json", "--task", "write"]).expect(0, &told);
    let junit = [
        "verify/read (q/tasks/write-note.yaml:19): `content`",
        "content (q/tasks/write-note.yaml:24)",
        "Bread, milk, and",
    ];
    world.run(&["result", "convert", "junit", "gevals-quickstart-out.json"]).expect(0, &junit);
}

/// A task that fails in ways that need more than expected and actual values to be understood.
fn failing(verify: &str) -> World {
    let task = format!(
        "kind: Task\napiVersion: mcp-eval/v1\nmetadata: {{name: t, difficulty: easy, tags: [slow, quick]}}\nspec:\n  requires: [{{mcpServer: notes}}]\n  env: {{TITLE: \"List {{random.id}}\", API_TOKEN: hunter2-and-more}}\n  prompt: Write it.\n  verify:\n{verify}"
    );
    World::new(&[
        (
            "eval.yaml",
            "kind: Eval\nmetadata: {name: e}\nconfig:\n  agent: {type: builtin.noop}\n  mcpConfigFile: mcp.yaml\n  taskSets:\n    - path: t.yaml\n      assertions: {toolsUsed: [{server: notes, tool: notes_create}]}\n",
        ),
        (
            "mcp.yaml",
            "mcpServers:\n  notes: {command: gevals, args: [demo-server, --dir, WORLD/n], enableAllTools: true}\n",
        ),
        ("t.yaml", &task),
        (
            "a.yaml",
            "kind: Oracle\ntasks: {t: {calls: [{server: notes, tool: notes_create, args: {title: \"{env.TITLE}\", body: x}}]}}\n",
        ),
        ("b.yaml", "kind: Oracle\ntasks: {t: {calls: []}}\n"),
    ])
}

/// The report of a failure contains the values of variables and holes, and no secret.
#[test]
fn a_failure_shows_the_values_it_used() {
    let world = failing(
        "    - foreach:\n        var: v\n        in: [a, b]\n        steps:\n          - command: {run: 'test -n \"$API_TOKEN\" && test \"$V\" = a', env: {V: \"{v}\"}}\n    - command: {run: 'test \"$T\" = x', env: {T: \"{env.TITLE}\"}}\n",
    );
    let ran = world
        .run(&["run", "eval.yaml", "-n", "3", "--report", "html"])
        .expect(1, &["with $V = b, $API_TOKEN = ***", "with $T = List ", "0 of 3 runs passed, 3 failed in "]);
    // Random values do not turn one failure into three.
    assert!(ran.out.contains("runs 1, 2, 3 of 3"), "{}", ran.out);
    let results = world.results("e");
    let steps = &results["results"][0]["verifyOutput"]["Steps"];
    assert_eq!(steps[0]["steps"][1]["report"]["filled"], json!({ "$V": "b", "$API_TOKEN": "***" }));
    assert_eq!(steps[0]["steps"][0]["report"].get("filled"), None, "what passed needs no explanation");
    let expected =
        ["with      $V = b, $API_TOKEN = ***", "with      $T = List ", "expected  a call of `notes.notes_create`"];
    world.run(&["result", "view", "gevals-e-out.json"]).expect(0, &expected);
    world
        .run(&["result", "convert", "junit", "gevals-e-out.json"])
        .expect(0, &["with: $V = b", "a call of `notes.notes_create`"]);
    let page = world.read("gevals-e-out.html");
    for text in [r#""filled":{"$V":"b","#, r#""sources">{"#, r#""t.yaml:13":{"from":11,"at":13"#, "in: [a, b]"] {
        assert!(page.contains(text), "{text}\n{page}");
    }
    let said = ran.out + &ran.err + &page + &results.to_string();
    assert!(!said.contains("hunter2"), "{said}");
    // The panel of a plan shows the same.
    let plan =
        world.run(&["plan", "eval.yaml", "--results", "gevals-e-out.json", "--format", "html"]).expect(0, &[]).out;
    for text in [r#"["expected","exitCode: 0"]"#, r#"["actual","1"]"#, r#"["with","$V = b"#] {
        assert!(plan.contains(text), "{text}");
    }
}

/// A step that waits reports how long and how often it tried.
#[test]
fn a_failed_wait_reports_its_duration() {
    let world = failing(
        "    - eventually:\n        timeout: 1s\n        interval: 300ms\n        steps:\n          - command: {run: \"echo not yet; test -e WORLD/none\"}\n",
    );
    world
        .run(&["run", "eval.yaml", "--agent", "a.yaml"])
        .expect(1, &["    not within 1s, ", " rounds\n", "stdout    not yet"]);
    world.run(&["result", "view", "gevals-e-out.json"]).expect(0, &["waited    not within 1s, "]);
    world.run(&["result", "html", "gevals-e-out.json"]).expect(0, &[": not within 1s, "]);
}

/// The first round of a wait that passes later is not a reason for the failure of another step.
#[test]
fn failed_rounds_of_a_passed_wait_are_not_reported() {
    let world = failing(
        "    - eventually:\n        timeout: 10s\n        interval: 50ms\n        steps:\n          - command: {run: \"echo x >> WORLD/rounds; test $(wc -l < WORLD/rounds) = 2\"}\n    - command: {run: \"test -e WORLD/none\"}\n",
    );
    let ran = world.run(&["run", "eval.yaml", "--agent", "a.yaml"]).expect(1, &["verify/1 failed"]);
    assert!(!ran.err.contains("verify/0") && !ran.out.contains("verify/0"), "{}{}", ran.out, ran.err);
    assert_eq!(world.read("rounds").lines().count(), 2);
}

/// Agent files that are in the directory of the results; one page for all agents, and one for each.
#[test]
fn several_agents_share_one_page() {
    let world = failing("    - notes.notes_read: {args: {title: \"{env.TITLE}\"}}\n");
    let args = ["run", "eval.yaml", "--agent", "./a.yaml", "--agent", "b.yaml", "--report", "html"];
    let ran = world.run(&args).expect(1, &[]);
    for said in ["./a.yaml  exit 0  1 of 1 passed", "b.yaml    exit 1  0 of 1 passed", "report: gevals-e-out.html"] {
        assert!(ran.err.contains(said), "{said}\n{}", ran.err);
    }
    for folder in ["a.yaml-results", "b.yaml-results"] {
        assert!(!world.read(&format!("{folder}/gevals-e-out.html")).is_empty(), "{folder}");
    }
    let page = world.read("gevals-e-out.html");
    for text in [
        r#""compared":false"#,
        r#""duels":[[null,{"alone":1,"other":0,"pairs":1,"p":"p = 1","beats":false}]"#,
        r#"{"kind":"difficulty","name":"easy","rates":[{"passed":1,"runs":1,"interval":"20–100 %"},{"passed":0,"runs":1,"interval":"0–80 %"}]}"#,
        r#""kind":"tag","name":"slow""#,
    ] {
        assert!(page.contains(text), "{text}\n{page}");
    }
    // Again, now that the directories exist.
    world.run(&args).expect(1, &[]);
    let files = ["a.yaml-results/gevals-e-out.json", "b.yaml-results/gevals-e-out.json"];
    let html = |more: &[&str]| world.run(&[&["result", "html"], &files[..], more].concat()).expect(0, &[]).out;
    assert!(html(&[]).contains(r#""compared":true"#));
    assert!(html(&["--side-by-side"]).contains(r#""compared":false"#));
}

/// A hole without a value is reported with the values that exist.
#[test]
fn a_hole_without_a_value_lists_available_values() {
    let world = quickstart();
    let task = world.read("q/tasks/write-note.yaml");
    for (hole, said) in [
        ("{content[0].txt}", "`{content[0].txt}` has no value; there are `type`, `text`"),
        ("{content[7].text}", "`{content[7].text}` has no value; there is 1 item"),
        ("{structuredContent.rels}", "`{structuredContent.rels}` has no value; there are `"),
    ] {
        world.write("q/tasks/write-note.yaml", &task.replace("{content[0].text}", hole));
        world.run(&["run", "q", "--run", "write-note"]).expect(1, &[said]);
    }
}

/// Tasks that detect mutants, and one that detects nothing.
#[test]
fn prove_detects_tasks_that_cannot_fail() {
    let world = quickstart();
    let ran =
        world.run(&["prove", "q", "--run", "write-note", "--badge", "badge.json", "--format", "json"]).expect(0, &[]);
    let told: Value = serde_json::from_str(&ran.out).unwrap();
    let task = &told["tasks"][0];
    assert_eq!((&task["script"]["verdict"], &task["nothing"]["verdict"]), (&json!("passed"), &json!("failed")));
    assert_eq!((&task["again"]["verdict"], &task["faults"]), (&json!("passed"), &json!([])));
    let of = |mutant: &str| {
        let tried = task["tried"].as_array().unwrap().iter().find(|t| t["mutant"] == mutant);
        tried.map(|t| (t["noticed"] == true, t["by"].as_str().unwrap_or_default().to_owned()))
    };
    let create = "call 1 (notes.notes_create)";
    assert_eq!(of(&format!("{create} is not made")), Some((true, "verify/read".to_owned())), "{told:#}");
    assert_eq!(of(&format!("{create} has a different `body`")), Some((true, "verify/read".to_owned())), "{told:#}");
    assert_eq!(of(&format!("{create} has a different `tags[0]`")), Some((false, String::new())), "{told:#}");
    assert_eq!(of(&format!("{create} fails")), Some((true, "verify/read".to_owned())), "{told:#}");
    assert_eq!(of("the answer is empty"), Some((false, String::new())), "{told:#}");
    assert_eq!((&told["noticed"], &told["mutants"]), (&json!(4), &json!(6)), "{told:#}");
    assert_eq!(serde_json::from_str::<Value>(&world.read("badge.json")).unwrap()["message"], "66 %");
    let said = [
        "4 of 6 mutants detected (66 %)",
        "✗ call 1 (notes.notes_create) has a different `tags[0]`: not detected; add a verify step",
    ];
    world.run(&["prove", "q", "--run", "write-note", "--min-score", "0.5"]).expect(0, &said);
    world.run(&["prove", "q", "--run", "write-note", "--min-score", "0.7"]).expect(1, &said);
    // A task that always passes, one that does not pass, and one whose cleanup leaves something behind.
    let task = world.read("q/tasks/write-note.yaml");
    world.write(
        "q/tasks/write-note.yaml",
        &(task.split("  verify:").next().unwrap().to_owned() + "  verify: [{command: {run: test -d .}}]\n"),
    );
    world.write("q/eval.yaml", world.read("q/eval.yaml").split("      assertions:").next().unwrap());
    world.run(&["prove", "q", "--run", "write-note"]).expect(1, &["✗ it passes although nothing was done"]);
    world.write("q/tasks/write-note.yaml", &task.replace("contains: Bread", "contains: Cake"));
    world.run(&["prove", "q", "--run", "write-note"]).expect(1, &["✗ with its script it is failed"]);
    // Only the first run passes, because cleanup leaves something behind.
    let once = "  verify:\n    - command: {run: 'test ! -e WORLD/left'}\n    - command: {run: 'touch WORLD/left'}\n";
    world.write("q/tasks/write-note.yaml", &task.replace("  verify:\n", once));
    world.run(&["prove", "q", "--run", "write-note"]).expect(
        1,
        &["/left` (files in", "what was left behind may be the reason", "6 mutants were not tried", "not proved"],
    );
    world.run(&["prove", "q", "--run", "write-note", "--agent", "none.yaml"]).expect(2, &["cannot read `none.yaml`"]);
    world.write(
        "noop.yaml",
        "kind: Eval\nmetadata: {name: e}\nconfig:\n  agent: {type: builtin.noop}\n  taskSets: [{path: t.yaml}]\n",
    );
    world.write("t.yaml", "kind: Task\napiVersion: mcp-eval/v1\nmetadata: {name: t}\nspec:\n  prompt: Do it.\n  verify: [{command: {run: test -d .}}]\n");
    world.run(&["prove", "noop.yaml"]).expect(2, &["no task has a script to follow"]);
}

/// Without cleanup, the next trial finds the task's own note: that is reported, and no mutant counts.
#[test]
fn leftovers_of_a_task_are_reported_and_invalidate_the_proof() {
    let world = quickstart();
    let dir = world.path("left/notes");
    world.write(
        "l/mcp.yaml",
        &format!(
            "mcpServers:\n  notes: {{command: gevals, args: [demo-server, --dir, {}], enableAllTools: true}}\n",
            dir.display()
        ),
    );
    world.write("l/eval.yaml", "kind: Eval\nmetadata: {name: l}\nconfig:\n  agent: {type: builtin.script, path: oracle.yaml}\n  mcpConfigFile: mcp.yaml\n  taskSets: [{path: t.yaml}]\n");
    world.write("l/oracle.yaml", "kind: Oracle\ntasks:\n  t:\n    calls: [{server: notes, tool: notes_create, args: {title: Fixed, body: 'hello {random.id}'}}]\n    output: Done.\n");
    let task = |contains: &str, cleanup: &str| {
        let _ = std::fs::remove_dir_all(&dir);
        world.write("l/t.yaml", &format!(
            "kind: Task\napiVersion: mcp-eval/v1\nmetadata: {{name: t}}\nspec:\n  requires: [{{mcpServer: notes, as: n}}]\n  prompt: Create it.\n  \
             verify:\n    - n.notes_read: {{args: {{title: Fixed}}, expect: {{content: {{contains: '{contains}'}}}}}}\n{cleanup}"
        ));
    };
    let left = "left behind: `Fixed` (notes.notes_list), `fixed` (resources of notes), `fixed.md` (files in";
    task("{random.id}", "");
    let second = "it passed, but the second time it is failed: `verify/0` failed";
    let ran = world
        .run(&["prove", "l", "--badge", "b.json"])
        .expect(1, &["0 of 5 mutants detected (0 %)", second, left, "5 mutants were not tried"]);
    assert!(!ran.out.contains("although nothing was done") && !ran.out.contains("detected by"), "{}", ran.out);
    assert!(world.read("b.json").contains("0 %, 1 of 1 tasks not proved"));
    // What is left behind also makes the second run pass.
    task("hello", "");
    let ran = world.run(&["prove", "l", "--min-score", "0.1", "--format", "json"]).expect(1, &[]);
    let told: Value = serde_json::from_str(&ran.out).unwrap();
    let task_told = &told["tasks"][0];
    assert_eq!(
        (&task_told["control"]["verdict"], &task_told["nothing"]["verdict"]),
        (&json!("passed"), &json!("failed"))
    );
    assert_eq!((&task_told["proved"], &task_told["score"], &told["noticed"]), (&json!(false), &json!(0.0), &json!(0)));
    assert_eq!(task_told["left"][0]["name"], "Fixed");
    assert_eq!(task_told["tried"][0]["verdict"], Value::Null);
    // With cleanup, everything works; what a mutant creates under another name is cleaned up under that name.
    let cleanup = "  cleanup:\n    - n.notes_delete: {args: {title: Fixed}}\n";
    task("hello", cleanup);
    let ran = world
        .run(&["prove", "l"])
        .expect(0, &["4 of 5 mutants detected (80 %)", "✓ call 1 (notes.notes_create) has a different `title`"]);
    assert!(!ran.out.contains("left behind"), "{}", ran.out);
    assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 0);
    world.run(&["prove", "l", "--min-task-score", "0.9"]).expect(1, &["4 of 5"]);
    world.run(&["prove", "l", "--min-task-score", "0.8"]).expect(0, &["4 of 5"]);
    // A cleanup that does not know the name: what the mutant left behind is reported, and still exists.
    task("hello", &format!("  cleanup:\n    - command: {{run: 'rm -f {}/fixed.md'}}\n", dir.display()));
    let ran = world.run(&["prove", "l"]).expect(0, &["left behind by its mutants, for you to remove: `another value "]);
    assert!(!ran.out.contains("`Fixed`"), "{}", ran.out);
    assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 1);
    // A failed cleanup did not clean up, whatever is visible; it is allowed only for an agent that did nothing.
    task("hello", &format!("{cleanup}    - command: {{run: 'exit 3'}}\n"));
    let fails = "✗ its cleanup fails: `cleanup/1`: it exited with status 3";
    let ran = world.run(&["prove", "l"]).expect(1, &["0 of 5 mutants detected", fails, "5 mutants were not tried"]);
    assert!(!ran.out.contains("`cleanup/0`"), "{}", ran.out);
    assert_eq!(std::fs::read_dir(world.path(".gevals/runs")).unwrap().count(), 0, "nothing is kept of these runs");
}

/// If a proof is killed during a trial, the next run and `gevals recover` clean up what the trial has set up.
#[test]
fn a_killed_proof_is_recovered() {
    let world = quickstart();
    let made = world.path("made-by-setup");
    world.write("k/eval.yaml", "kind: Eval\nmetadata: {name: k}\nconfig:\n  agent: {type: builtin.script, path: oracle.yaml}\n  mcpConfigFile: ../q/mcp.yaml\n  taskSets: [{path: t.yaml}]\n");
    world.write("k/oracle.yaml", "kind: Oracle\ntasks:\n  t:\n    calls: [{server: notes, tool: notes_list}]\n");
    world.write("k/t.yaml", &format!(
        "kind: Task\napiVersion: mcp-eval/v1\nmetadata: {{name: t}}\nspec:\n  prompt: Look.\n  setup: [{{command: {{run: 'touch {0}'}}}}]\n  \
         verify: [{{command: {{run: 'sleep 600 && test -e {0}', timeout: 10m}}}}]\n  cleanup: [{{command: {{run: 'rm {0}'}}}}]\n",
        made.display()
    ));
    let killed = || {
        let proving = world.start(world.command(&["prove", "k"]));
        world.wait_for("made-by-setup");
        proving.signal(rustix::process::Signal::KILL);
        proving.end();
        assert!(made.exists());
    };
    killed();
    world.run(&["recover"]).expect(0, &["interrupted", "cleanup/0 is done"]);
    assert!(!made.exists());
    world.run(&["run", "k", "--resume"]).expect(2, &["no run of `k` has a journal"]);
    killed();
    world.write("k/t.yaml", &world.read("k/t.yaml").replace("sleep 600 && ", ""));
    world.run(&["prove", "k"]).expect(1, &["interrupted", "cleanup/0 is done", "it passes although nothing was done"]);
    assert!(!made.exists());
}

/// If calls are left out or swapped, the references of the other calls stay correct.
#[test]
fn references_in_mutants_stay_correct() {
    let world = quickstart();
    world.write(
        "q/oracle.yaml",
        "kind: Oracle\ntasks:\n  tidy-up:\n    calls:\n      - {server: notes, tool: notes_list, args: {tag: '{env.TAG}'}}\n      \
         - {server: notes, tool: notes_read, args: {title: 'Plan {random.id}'}}\n      \
         - {server: notes, tool: notes_append, args: {title: '{calls[1].structuredContent.title}', text: 'Reviewed: yes'}}\n    \
         output: 'The list. {calls[1].structuredContent.title}'\n",
    );
    let ran = world.run(&["prove", "q", "--run", "tidy-up", "--format", "json"]).expect(0, &[]);
    let told: Value = serde_json::from_str(&ran.out).unwrap();
    let tried = told["tasks"][0]["tried"].as_array().unwrap();
    let of = |mutant: &str| {
        let found = tried.iter().find(|t| t["mutant"].as_str().unwrap().ends_with(mutant));
        found.unwrap_or_else(|| panic!("no `{mutant}`: {told:#}"))["verdict"].as_str().unwrap().to_owned()
    };
    // The second call is now the first: its reader still refers to it, and only the assertion about the order of calls
    // fails.
    assert_eq!(of("call 1 (notes.notes_list) is not made"), "failed");
    let by = tried.iter().find(|t| t["mutant"] == "call 1 (notes.notes_list) is not made").unwrap();
    assert_eq!(by["by"], "assert/callOrder", "{by:#}");
    // A call that needs the answer of an omitted call is omitted as well.
    assert_eq!(of("call 2 (notes.notes_read) is not made, nor is call 3, which needs its answer"), "failed");
    assert_eq!(of("call 1 (notes.notes_list) is made after call 2 (notes.notes_read)"), "passed");
    let swapped = |t: &Value| t["mutant"].as_str().unwrap().contains("(notes.notes_read) is made after");
    assert!(!tried.iter().any(swapped), "it cannot be made after the call that needs it");
    // Only the call that provides the title can break the call that uses it.
    let broken = tried.iter().filter(|t| t["verdict"] == "broken").map(|t| t["mutant"].as_str().unwrap());
    let broken: Vec<_> = broken.filter(|mutant| !mutant.starts_with("call 2 (notes.notes_read) ")).collect();
    assert!(broken.is_empty(), "{broken:?}");
    assert!(
        !tried.iter().any(|t| t["verdict"] == "broken" && t["mutant"].as_str().unwrap().contains(" made")),
        "{told:#}"
    );
}

/// The page and the tree of a plan show which check detected which mutant.
#[test]
fn a_plan_shows_which_mutants_its_checks_detected() {
    let world = quickstart();
    let proof = world.run(&["prove", "q", "--format", "json"]).expect(0, &[]);
    world.write("proof.json", &proof.out);
    let shown = [
        "proof    4 of 6 mutants detected; not detected: call 1 (notes.notes_create) has a different `tags[0]`; the answer is empty",
        "detected 4 mutants",
        "detected no mutant",
    ];
    world.run(&["plan", "q", "--task", "write-note", "--proof", "proof.json"]).expect(0, &shown);
    let page = world.run(&["plan", "q", "--task", "write-note", "--proof", "proof.json", "--format", "html"]);
    page.expect(0, &["detected 4 mutants: call 1 (notes.notes_create) is not made; call 1"]);
    world.run(&["plan", "q", "--proof", "q/eval.yaml"]).expect(2, &["`q/eval.yaml` is not valid JSON"]);
    world.write("other.json", "{\"results\": []}");
    world.run(&["plan", "q", "--proof", "other.json"]).expect(2, &["`other.json` is not a proof"]);
    world.write("old.json", &proof.out.replace("verify/read", "verify/gone"));
    world
        .run(&["plan", "q", "--proof", "old.json"])
        .expect(2, &["is of an older version of a task: it has no check `write-note: verify/gone`"]);
}

/// The recording of a passed run can be used as a script: random values are the same, and its tasks detect the same
/// mutants.
#[test]
fn a_recording_can_be_replayed_and_mutated() {
    let world = quickstart();
    world.run(&["run", "q", "-o", "."]).expect(0, &[]);
    let run = std::fs::read_dir(world.path(".gevals/runs")).unwrap().flatten().next().unwrap().file_name();
    let recorded = format!("builtin.replay:.gevals/runs/{}/recording.jsonl", run.to_str().unwrap());
    let told = |args: &[&str]| -> Value {
        serde_json::from_str(&world.run(&[&["prove", "q", "--format", "json"], args].concat()).expect(0, &[]).out)
            .unwrap()
    };
    let noticed = |told: &Value| -> Vec<(Value, Value)> {
        let tried = told["tasks"].as_array().unwrap().iter().flat_map(|task| task["tried"].as_array().unwrap());
        tried.filter(|t| t["noticed"] == true).map(|t| (t["mutant"].clone(), t["by"].clone())).collect()
    };
    let (script, replay) = (noticed(&told(&[])), noticed(&told(&["--agent", &recorded])));
    assert!(script.len() > 15, "{script:?}");
    assert_eq!(script, replay);
    // A task that it does not contain is reported before anything runs.
    let none = world.read("q/tasks/write-note.yaml").replace("name: write-note", "name: unheard");
    world.write("q/tasks/write-note.yaml", &none);
    world.run(&["prove", "q", "--agent", &recorded]).expect(2, &["does not contain the task `unheard`"]);
}

/// A wrong answer of a tool is detected by what uses the answer, and its failure by an assertion about its status.
#[test]
fn wrong_answers_of_tools_are_mutants() {
    let world = quickstart();
    // The script uses only the answer of its last call.
    world.write(
        "q/oracle.yaml",
        "kind: Oracle\ntasks:\n  tidy-up:\n    calls:\n      - {server: notes, tool: notes_list, args: {tag: '{env.TAG}'}}\n      \
         - {server: notes, tool: notes_append, args: {title: 'Plan {random.id}', text: 'Reviewed: yes'}}\n      \
         - {server: notes, tool: notes_read, args: {title: 'Plan {random.id}'}}\n    \
         output: 'The list. The plan: {calls[2].content | tojson}'\n",
    );
    let ran = world.run(&["prove", "q", "--run", "tidy-up", "--format", "json"]).expect(0, &[]);
    let tried = |told: &str, mutant: &str| {
        let told: Value = serde_json::from_str(told).unwrap();
        let tried = told["tasks"][0]["tried"].as_array().unwrap().iter().find(|t| t["mutant"] == mutant).cloned();
        let tried = tried.unwrap_or_else(|| panic!("no mutant `{mutant}`: {told:#}"));
        (tried["noticed"] == true, tried["by"].as_str().unwrap_or_default().to_owned(), tried["cure"].to_string())
    };
    let (list, read) = ("call 1 (notes.notes_list)", "call 3 (notes.notes_read)");
    let (noticed, _, cure) = tried(&ran.out, &format!("{list} fails"));
    assert!(!noticed && cure.contains("`status: ok` in the assertion `toolsUsed`"), "{cure}");
    for wrong in ["fails", "gets an empty answer", "gets the answer of the call before it"] {
        assert!(!tried(&ran.out, &format!("{read} {wrong}")).0, "{wrong}");
    }
    assert!(!ran.out.contains(&format!("{list} is answered")), "nobody reads that answer");
    // Checks that detect the failure and the wrong answers.
    let task = world.read("q/tasks/tidy-up.yaml");
    let look = "  verify:\n    - command:\n        run: printf '%s' \"$ANSWER\" | grep -q 'Nothing yet'\n        env: {ANSWER: '{agent.output}'}\n";
    world.write("q/tasks/tidy-up.yaml", &task.replacen("  verify:\n", look, 1));
    let ran = world.run(&["prove", "q", "--run", "tidy-up", "--format", "json"]).expect(0, &[]);
    for wrong in ["fails", "gets an empty answer", "gets the answer of the call before it"] {
        assert_eq!(tried(&ran.out, &format!("{read} {wrong}")).1, "verify/0", "{wrong}");
    }
    // The suggested fix for the list: an assertion about its status.
    let eval = world.read("q/eval.yaml");
    let asks = eval.replacen(
        "        callOrder:\n",
        "        toolsUsed: [{server: notes, tool: notes_list, status: ok}]\n        callOrder:\n",
        1,
    );
    assert_ne!(asks, eval);
    world.write("q/eval.yaml", &asks);
    let ran = world.run(&["prove", "q", "--run", "tidy-up", "--format", "json"]).expect(0, &[]);
    assert!(tried(&ran.out, &format!("{list} fails")).1.starts_with("assert/"), "{}", ran.out);
    // A failed alternative in a step that passes is not a reason.
    let told: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(told["tasks"][0]["script"], json!({"verdict": "passed", "reason": "", "by": null}));
}

/// A failure is reported once when it happens, and again in the summary.
#[test]
fn a_failure_is_reported_when_it_happens() {
    let world = quickstart();
    let task = world.read("q/tasks/write-note.yaml");
    world.write("q/tasks/write-note.yaml", &task.replace("contains: Bread\n", "contains: Cake\n"));
    let ran = world.run(&["run", "q"]).expect(1, &[]);
    let (told, next) = (ran.out.find("expected  contains `Cake`").unwrap(), ran.out.find("PASS    tidy-up").unwrap());
    assert!(told < next, "{}", ran.out);
    assert_eq!(ran.out.matches("expected  contains `Cake`").count(), 2, "{}", ran.out);
    let quiet = world.run(&["run", "q", "--quiet"]).expect(1, &[]);
    assert_eq!(quiet.out.matches("expected  contains `Cake`").count(), 1, "{}", quiet.out);
    let alone = world.run(&["run", "q", "--run", "write-note"]).expect(1, &[]);
    assert_eq!(alone.out.matches("expected  contains `Cake`").count(), 1, "{}", alone.out);
}

/// A thousand tasks with five runs each result in at most 20 MB, however long their texts are.
#[test]
fn a_page_of_many_results_stays_small() {
    let world = World::new(&[]);
    let long = "x".repeat(10_000);
    let results = (0..5_000).map(|n| {
        let passed = n % 3 != 0;
        json!({
            "taskName": format!("t{}", n / 5), "taskPassed": passed, "allAssertionsPassed": true, "runIndex": n % 5, "totalRuns": 5,
            "taskOutput": &long, "taskError": if passed { "" } else { "it failed" },
        })
    });
    let results = json!({ "summary": { "eval": "many" }, "results": results.collect::<Vec<_>>() });
    std::fs::write(world.path("many.json"), results.to_string()).unwrap();
    world.run(&["result", "html", "many.json", "-o", "many.html"]).expect(0, &[]);
    let size = std::fs::metadata(world.path("many.html")).unwrap().len();
    assert!(size < 20_000_000, "{size}");
    assert!(world.read("many.html").contains("more characters)"));
}

#[test]
fn the_failure_condition_of_a_comparison_can_be_chosen() {
    let world = World::new(&[]);
    let file = |passed: usize| {
        let results = (0..20).map(|run| {
            json!({ "taskName": "t", "taskPassed": run < passed, "allAssertionsPassed": true, "runIndex": run, "totalRuns": 20 })
        });
        json!({ "results": results.collect::<Vec<_>>() }).to_string()
    };
    for (name, passed) in [("all.json", 20), ("most.json", 19), ("few.json", 9)] {
        world.write(name, &file(passed));
    }
    let diff = |to: &str, args: &[&str]| world.run(&[&["result", "diff", "all.json", to], args].concat());
    diff("most.json", &[])
        .expect(0, &["Losses (1)", "20/20 passed (83–100 %) → 19/20 passed (76–100 %)  p = 1\n", "may be chance"]);
    diff("most.json", &["--fail-on", "any-loss"]).expect(1, &[]);
    diff("few.json", &[]).expect(1, &["Regressions (1)", "p < 0.001"]);
    diff("few.json", &["--fail-on", "regression", "--alpha", "0.00001"]).expect(0, &["Losses (1)"]);
    diff("few.json", &["--alpha", "2"]).expect(2, &["from 0 to 1"]);
    world.run(&["result", "compare", "all.json", "most.json", "few.json"]).expect(
        0,
        &["A all.json", "20/20 passed (100.00%, with 95 % confidence 83–100 %)", "A beats C: p < 0.001", "11:0 *"],
    );
}

#[test]
fn another_agent_and_other_servers_can_be_selected() {
    let world = quickstart();
    world.run(&["run", "q", "--agent", "builtin.noop"]).expect(1, &["--run '^write-note$' --agent builtin.noop"]);
    world.write("own.yaml", "kind: Oracle\ntasks: {write-note: {output: No.}}\n");
    let ran = world.run(&["run", "q", "--agent", "own.yaml", "--run", "write"]);
    ran.expect(1, &["a call of `notes.notes_create`"]);
    assert_eq!(world.results("quickstart")["summary"]["agent"]["path"], "own.yaml");
    world.write("shell.yaml", "kind: Agent\nmetadata: {name: sh}\ncommands:\n  runPrompt: echo {{ .Prompt }}\n");
    world.run(&["run", "q", "--agent", "shell.yaml", "--run", "write"]).expect(1, &["FAIL"]);
    world.write("servers/mcp.yaml", "mcpServers:\n  notes: {command: sh, args: [-c, exit 5], enableAllTools: true}\n");
    world.run(&["run", "q", "--mcp-config-file", "servers/mcp.yaml"]).expect(3, &["exited with status 5"]);
    world.write("servers/mcp.yaml", "mcpServers: 5\n");
    world.run(&["run", "q", "--mcp-config-file", "servers/mcp.yaml"]).expect(2, &["servers/mcp.yaml"]);
}

#[test]
fn variables_can_define_a_server() {
    let world = quickstart();
    let eval = world.read("q/eval.yaml").replace("  mcpConfigFile: mcp.yaml\n", "");
    world.write("q/eval.yaml", &eval);
    world.run(&["run", "q"]).expect(2, &["unknown-server"]);
    let run = |env: &[(&str, &str)]| {
        let mut command = world.command(&["run", "q", "--run", "archive"]);
        command.envs(env.iter().copied());
        world.start(command).end()
    };
    let server = [("MCP_COMMAND", "gevals"), ("MCP_SERVER_NAME", "notes")];
    let args = format!("demo-server, --dir, {}", world.path(".cache/gevals-quickstart").display());
    run(&[server[0], server[1], ("MCP_ARGS", &args)]).expect(0, &["1 of 1 task passed"]);
    assert_eq!(world.results("quickstart")["summary"]["mcpServers"][0]["name"], "notes");
    run(&[server[0], server[1], ("MCP_ARGS", "[5]")]).expect(2, &["`MCP_ARGS`"]);
    run(&[server[0]]).expect(2, &["unknown server `notes`"]);
}

/// §1.8 of the upstream behavior: command line, task, command-line default, eval default.
#[test]
fn timeouts_have_an_order_of_precedence() {
    let eval = |limits: &str| {
        format!(
            "kind: Eval\nmetadata: {{name: e}}\nconfig:\n  agent: {{type: builtin.noop}}\n{limits}  taskSets: [{{path: task.yaml}}]\n"
        )
    };
    let task = |limits: &str| {
        format!(
            "kind: Task\napiVersion: mcpchecker/v1alpha2\nmetadata: {{name: t}}\nspec:\n{limits}  prompt: {{inline: Do it.}}\n  verify: [{{script: {{inline: 'sleep 20; test -d /', timeout: 30s}}}}]\n"
        )
    };
    let (own, default) = ("  limits: {timeout: 300ms}\n", "  defaultTaskLimits: {timeout: 400ms}\n");
    for (in_eval, in_task, args, limit) in [
        ("", "", &["--task-timeout", "100ms"][..], "100ms"),
        (default, own, &["--task-timeout", "100ms", "--default-task-timeout", "200ms"], "100ms"),
        (default, own, &["--default-task-timeout", "200ms"], "300ms"),
        (default, "", &["--default-task-timeout", "200ms"], "200ms"),
        (default, "", &[], "400ms"),
    ] {
        let world = World::new(&[("eval.yaml", &eval(in_eval)), ("task.yaml", &task(in_task))]);
        let said = format!("task exceeded timeout of {limit}");
        world.run(&[&["run", "eval.yaml"], args].concat()).expect(1, &[&said]);
    }
    let cleanup = "kind: Task\napiVersion: mcp-eval/v1\nmetadata: {name: t, cleanupTimeout: 1m}\nspec:\n  prompt: Do it.\n  verify: [{command: {run: test -d /}}]\n  cleanup: [{command: {run: sleep 20}}]\n";
    let world = World::new(&[("eval.yaml", &eval("")), ("task.yaml", cleanup)]);
    world.run(&["run", "eval.yaml", "--cleanup-timeout", "100ms"]).expect(4, &["cleanup failed"]);
}

#[test]
fn actions_get_annotations_and_a_summary() {
    let world = quickstart();
    let task = world.read("q/tasks/write-note.yaml");
    world.write("q/tasks/write-note.yaml", &task.replace("contains: Bread", "contains: Cake"));
    let line = task.lines().position(|l| l.contains("contains: Bread")).unwrap() + 1;
    world.write("page.md", "before\n");
    let mut command = world.command(&["run", "q"]);
    command.env("GITHUB_ACTIONS", "true").env("GITHUB_STEP_SUMMARY", world.path("page.md"));
    let annotation = format!("::error file=q/tasks/write-note.yaml,line={line},title=write-note verify/read::failed");
    world.start(command).end().expect(1, &[&annotation, "3 of 4 tasks passed"]);
    let page = world.read("page.md");
    assert!(page.starts_with("before\n## ❌ quickstart: 3 of 4 passed"), "{page}");
    assert!(page.contains("| ✅ | archive | PASSED | 1/1 |") && page.contains("- **write-note** "), "{page}");
    let plain = world.run(&["run", "q"]).expect(1, &[]);
    says(&plain, &["::error"]);
    world.run(&["run", "q", "--format", "github"]).expect(1, &[&annotation]);
}

#[test]
fn the_verbosity_can_be_chosen() {
    let world = quickstart();
    let quiet = world.run(&["run", "q", "--quiet"]).expect(0, &["4 of 4 tasks passed"]);
    says(&quiet, &["PASS "]);
    let verbose = ["write-note verify/read passed", "calls notes.notes_create {\"title\":", "server notes started"];
    world.run(&["run", "q", "-v"]).expect(0, &verbose);
    // If there are many warnings, only those that may mislead the author are shown; the others are counted.
    let step = "    - command: {run: \"sleep 0; test -d /\", env: {PATH: /bin}, continueOnError: true}\n";
    let task = format!(
        "kind: Task\napiVersion: mcp-eval/v1\nmetadata: {{name: t}}\nspec:\n  env: {{PATH: /bin:/usr/bin, HOME: /, A: a, B: b, C: c, D: d}}\n  prompt: Do it.\n  verify:\n{}",
        step.repeat(6)
    );
    world.write("task.yaml", &task);
    world.write(
        "eval.yaml",
        "kind: Eval\nmetadata: {name: e}\nconfig:\n  agent: {type: builtin.noop}\n  taskSets: [{path: task.yaml}]\n",
    );
    let ran = world.run(&["run", "eval.yaml"]).expect(0, &["are not shown: use `gevals check eval.yaml` to show them"]);
    assert!(ran.err.lines().count() < 10, "{}", ran.err);
    assert!(world.results("e")["findings"].as_array().unwrap().len() > 5);
    assert!(world.run(&["run", "eval.yaml", "-v"]).expect(0, &[]).err.lines().count() > 20);
}

#[test]
fn new_files_pass_check_and_run() {
    let world = World::new(&[]);
    for dialect in ["portable", "steps", "legacy"] {
        let file = format!("{dialect}.yaml");
        world.run(&["new", "task", dialect, "--dialect", dialect]).expect(0, &["wrote", &file]);
        let checked = world.run(&["check", &file]).expect(0, &[]);
        assert!(checked.out.contains("no findings"), "{}", checked.out);
        let before = world.read(&file);
        world.run(&["new", "task", &file]).expect(2, &["already exists"]);
        assert_eq!(world.read(&file), before);
    }
    world.run(&["new", "eval", "e/eval.yaml"]).expect(0, &["e/tasks/first.yaml", "gevals run e/eval.yaml"]);
    let checked = world.run(&["check", "e", "--workspace"]).expect(0, &[]);
    assert!(checked.out.contains("no findings"), "{}", checked.out);
    world.run(&["run", "e"]).expect(0, &["1 of 1 task passed"]);
    // A new task does not change the eval until the advice is followed.
    let more = ["new", "task", "e/tasks/more", "--from-server", "gevals demo-server", "--server-name", "notes"];
    let gevals = env!("CARGO_BIN_EXE_gevals");
    let more = more.map(|word| word.replace("gevals demo", &format!("{gevals} demo")));
    let more: Vec<_> = more.iter().map(String::as_str).collect();
    world.run(&more).expect(
        0,
        &["add `- path: e/tasks/more.yaml`, relative to the eval, to the `taskSets`", "needs an entry `more`"],
    );
    world.run(&["check"]).expect(0, &[]);
    world.run(&["run", "e"]).expect(0, &["1 of 1 task passed"]);
    world.write("e/eval.yaml", &(world.read("e/eval.yaml") + "    - path: tasks/more.yaml\n"));
    world.write("e/oracle.yaml", &(world.read("e/oracle.yaml") + "  more: {output: Done.}\n"));
    world.run(&["run", "e"]).expect(0, &["2 of 2 tasks passed"]);
    // The name of a directory may be a number or look like a boolean.
    for folder in ["n", "2024"] {
        world.run(&["new", "eval", &format!("{folder}/eval.yaml")]).expect(0, &[]);
        world.run(&["run", folder, "-o", folder]).expect(0, &["1 of 1 task passed"]);
        let checked = world.run(&["check", folder]).expect(0, &[]);
        assert!(checked.out.contains("no findings"), "{}", checked.out);
    }
    std::fs::remove_file(world.path("e/eval.yaml")).unwrap();
    world.run(&["new", "eval", "e"]).expect(2, &["e/mcp.yaml", "already exist"]);
    assert!(world.read("e/eval.yaml").is_empty(), "nothing is written");
    let server = format!("{} demo-server --dir 'my notes'", env!("CARGO_BIN_EXE_gevals"));
    let args = ["new", "eval", "s/suite.yaml", "--from-server", &server, "--server-name", "n"];
    world.run(&args).expect(0, &["s/gevals.lock"]);
    world.run(&["check", "s"]).expect(0, &[]);
    world.run(&["run", "s"]).expect(0, &["1 of 1 task passed"]);
    world.run(&["new", "task", "tasks/more", "--from-server", &server]).expect(0, &["tasks/more.yaml"]);
    assert!(world.read("tasks/more.yaml").contains("notes_create(title, body)"), "{}", world.read("tasks/more.yaml"));
    world.run(&["check", "tasks/more.yaml"]).expect(0, &[]);
    world.run(&["new", "task", "x", "--from-server", "sh -c 'exit 3'"]).expect(3, &["exited with status 3"]);
    // A path in the command refers to the same place from the new directory.
    world.write("kept/note.md", "hello");
    let args = ["new", "eval", "deep/er/eval.yaml", "--from-server", "gevals demo-server --dir ./kept"];
    world.run(&args).expect(0, &["wrote deep/er/eval.yaml"]);
    let config = world.read("deep/er/mcp.yaml");
    assert!(config.contains("- ../../kept\n"), "{config}");
    assert!(world.read("x.yaml").is_empty());
    for no_name in ["a b", ".", "..", "tasks/", ".hidden"] {
        world.run(&["new", "task", no_name]).expect(2, &["cannot derive a name"]);
    }
    world.run(&["new", "eval", "folder/"]).expect(0, &["wrote folder/eval.yaml"]);
    world.run(&["new", "eval", "none/.yaml"]).expect(2, &["cannot derive a name"]);
}

/// Whatever the outcome of a run, its results conform to `schemas/results.json`.
#[test]
fn results_match_their_schema() {
    let schema: Value = serde_json::from_str(include_str!("../schemas/results.json")).unwrap();
    let schema = jsonschema::draft7::new(&schema).unwrap();
    let world = quickstart();
    let eval = |agent: &str, more: &str| {
        format!(
            "kind: Eval\nmetadata: {{name: e<&>}}\nconfig:\n  agent: {{{agent}}}\n{more}  taskSets: [{{glob: \"t*.yaml\"}}]\n"
        )
    };
    let task = |name: &str, body: &str| {
        format!(
            "kind: Task\napiVersion: mcp-eval/v1\nmetadata: {{name: {name}, difficulty: hard, timeout: 1s}}\nspec:\n  prompt: Do it.\n{body}\n"
        )
    };
    world.write("t1.yaml", &task("a", "  setup: [{command: {run: exit 1}}]\n  verify: [{command: {run: test -d /}}]"));
    world.write("t2.yaml", &task("b", "  verify: [{command: {id: x, run: 'echo 1; exit 1', expect: {stdout: '2'}}}, {command: {run: 'test {steps.x.outputs.stdout}'}}, {command: {run: sleep 9}}]\n  cleanup: [{command: {run: exit 1}}]"));
    world.write("t3.yaml", &task("c", "  verify:\n  - foreach: {var: x, in: [1, 2], steps: [{anyOf: [{command: {run: exit 1}}, {command: {run: 'test {x}', outputs: {n: '{exitCode}'}}}]}]}"));
    world.write(
        "agent.yaml",
        "kind: Agent\nmetadata: {name: a}\ncommands:\n  runPrompt: |\n    echo {{ .Prompt }}\n    exit 3\n",
    );
    world.write("noop.yaml", &eval("type: builtin.noop", ""));
    world.write("shell.yaml", &eval("type: file, path: agent.yaml", ""));
    let file = |name: &str| format!("gevals-{name}-out.json");
    for (args, code, name) in [
        (&["q"][..], 0, "quickstart"),
        (&["q", "-n", "2", "-p", "2", "--shuffle"], 0, "quickstart"),
        (&["q", "--shard", "9/9"], 0, "quickstart"),
        (&["q", "--agent", "builtin.noop", "--fail-fast"], 1, "quickstart"),
        (&["noop.yaml"], 1, "e<&>"),
        (&["shell.yaml", "--default-cleanup-timeout", "1s"], 1, "e<&>"),
    ] {
        std::fs::remove_file(world.path(&file(name))).ok();
        world.run(&[&["run"], args].concat()).expect(code, &[]);
        let results: Value = serde_json::from_str(&world.read(&file(name))).unwrap();
        let faults: Vec<_> = schema.iter_errors(&results).map(|e| format!("{}: {e}", e.instance_path())).collect();
        assert!(faults.is_empty(), "{args:?}: {faults:#?}");
        assert_eq!(
            (&results["summary"]["version"], &results["summary"]["complete"]),
            (&json!(1), &json!(args != ["q", "--agent", "builtin.noop", "--fail-fast"]))
        );
    }
    let merged = world.run(&["result", "merge", &file("e<&>")]).expect(0, &[]);
    let merged: Value = serde_json::from_str(&merged.out).unwrap();
    assert!(schema.is_valid(&merged));
}

/// The complete text of a comparison: lists, marks, changed plans, figures, and what reduces their value.
#[test]
fn the_complete_text_of_a_comparison() {
    let one = |task: &str, passed: bool, digest: &str, tokens: Value| {
        let mut result = json!({ "taskName": task, "taskPassed": passed, "allAssertionsPassed": passed, "outcome": if passed { "passed" } else { "failed" } });
        if !passed {
            result["reason"] = json!(format!("{task} is wrong"));
        }
        if !digest.is_empty() {
            result["planDigest"] = json!(digest);
        }
        if !tokens.is_null() {
            result["tokenEstimate"] = tokens;
        }
        result
    };
    let tokens = |total: u64, schema: u64, actual: Option<(u64, u64)>| {
        let mut tokens = json!({ "inputTokens": total - 10, "outputTokens": 10, "totalTokens": total, "mcpSchemaTokens": schema, "source": "estimated" });
        if let Some((input, output)) = actual {
            tokens["actual"] = json!({ "inputTokens": input, "outputTokens": output, "totalTokens": input + output });
        }
        tokens
    };
    let none = || Value::Null;
    let file = |results: Vec<Value>| json!({ "summary": { "complete": true }, "results": results }).to_string();
    let world = World::new(&[]);
    world.write(
        "old.json",
        &file(vec![
            one("same", true, "p", tokens(1000, 300, Some((700, 90)))),
            one("worse", true, "p1", tokens(500, 300, None)),
            one("unknown", true, "", none()),
            one("better", false, "p", none()),
            one("gone", true, "p", none()),
        ]),
    );
    world.write(
        "new.json",
        &file(vec![
            one("same", true, "p", tokens(1000, 200, Some((900, 90)))),
            one("worse", false, "p2", tokens(700, 300, None)),
            one("unknown", false, "p", tokens(100, 0, None)),
            one("better", true, "p", tokens(100, 0, None)),
            one("new", true, "p", tokens(100, 0, None)),
        ]),
    );
    let ran = world.run(&["result", "diff", "old.json", "new.json"]);
    let text = "\
=== Evaluation Diff ===

Losses (2):
  ↓ worse  passed → failed
      the task failed
      the task is different: its plan changed
  ↓ unknown  passed → failed
      the task failed

Gains (1):
  ↑ better  failed → passed

New tasks (1):
  + new  passed

Removed tasks (1):
  - gone  passed

Of 4 pairs of runs, 2 passed only before and 1 only now: this may be chance (exact McNemar test, p = 1, alpha 0.05)

                     Base                   Current                            Change
Tasks                4/5 (80.00%, 37–97 %)  3/6 (50.00%, 23–89 % of 5 judged)  -30.00 pp
Assertions           0/0                    0/0                                +0.00 pp
Tokens (estimate)    1.5K                   2.0K                               +500
MCP schema tokens    600                    500                                -100
Agent input tokens   700                    900                                +200
Agent output tokens  90                     90                                 +0

warning: tokens of base are for 2 of 5 results only
";
    assert_eq!(ran.out, text);
    // The plan of a task contains the agent: with another agent, a different plan says nothing about the task.
    for (name, model) in [("old.json", "small"), ("new.json", "large")] {
        let with = world.read(name).replace(
            r#""complete":true"#,
            &format!(r#""complete":true,"agent":{{"name":"claude","model":"{model}"}}"#),
        );
        world.write(&format!("{model}-{name}"), &with);
    }
    let ran = world.run(&["result", "diff", "small-old.json", "large-new.json"]);
    let warning = "warning: the agents differ: `claude` (small) in the base, `claude` (large) in the current results\n";
    let others = text.replace("      the task is different: its plan changed\n", "");
    assert_eq!(ran.out, others.replace("warning: tokens", &format!("{warning}\nwarning: tokens")));
    let ran = world.run(&["result", "diff", "old.json", "new.json", "-o", "markdown"]);
    let markdown = "\
## Evaluation Diff

### 🔻 Losses (2)

- **worse** passed → failed: the task failed (its plan changed)
- **unknown** passed → failed: the task failed

### 🔺 Gains (1)

- **better** failed → passed

### 🆕 New tasks (1)

- **new** passed

### 🗑\u{fe0f} Removed tasks (1)

- **gone** passed

Of 4 pairs of runs, 2 passed only before and 1 only now: this may be chance (exact McNemar test, p = 1, alpha 0.05)

| | Base | Current | Change |
|---|---|---|---|
| Tasks | 4/5 (80.00%, 37–97 %) | 3/6 (50.00%, 23–89 % of 5 judged) | -30.00 pp |
| Assertions | 0/0 | 0/0 | +0.00 pp |
| Tokens (estimate) | 1.5K | 2.0K | +500 |
| MCP schema tokens | 600 | 500 | -100 |
| Agent input tokens | 700 | 900 | +200 |
| Agent output tokens | 90 | 90 | +0 |

> ⚠\u{fe0f} tokens of base are for 2 of 5 results only
";
    assert_eq!(ran.out, markdown);
}

/// One line for each outcome and each figure that is present; zeros are not shown.
#[test]
fn the_complete_text_of_a_summary() {
    let one = |task: &str, outcome: &str, more: Value| {
        let mut result = json!({ "taskName": task, "outcome": outcome, "taskPassed": outcome == "passed", "allAssertionsPassed": true });
        more.as_object().unwrap().iter().for_each(|(key, value)| result[key] = value.clone());
        result
    };
    let asserted = |passed: bool| json!({ "toolsUsed": { "passed": passed }, "minToolCalls": { "passed": true } });
    let results = vec![
        one("good", "passed", json!({ "assertionResults": asserted(true) })),
        one(
            "half",
            "failed",
            // Other tools report only a part of the usage.
            json!({
                "taskPassed": true,
                "allAssertionsPassed": false,
                "assertionResults": asserted(false),
                "tokenEstimate": { "totalTokens": 7, "source": "actual", "actual": { "inputTokens": 5 } },
                "judgeTokenUsage": { "outputTokens": 3 },
            }),
        ),
        one(
            "bad",
            "failed",
            json!({ "taskError": "one or more verification steps failed: no such pod", "reason": "no such pod" }),
        ),
        one(
            "both",
            "failed",
            json!({ "allAssertionsPassed": false, "assertionResults": asserted(false), "reason": "no such pod" }),
        ),
        one(
            "agent",
            "broken",
            json!({ "agentExecutionError": true, "taskError": "a transcript", "cleanupFailed": true }),
        ),
        one("hollow", "unchecked", json!({ "reason": "nothing decides" })),
        one("stopped", "cancelled", json!({ "reason": "interrupted" })),
    ];
    let world = World::new(&[]);
    world.write("r.json", &json!({ "summary": { "complete": true }, "results": results }).to_string());
    let ran = world.run(&["result", "summary", "r.json"]);
    let text = "\
=== Evaluation Summary ===

  ✓ good  assertions 2/2
  ~ half  assertions 1/2
      - toolsUsed
  ✗ bad
      one or more verification steps failed: no such pod
  ✗ both  assertions 1/2
      the task failed
      - toolsUsed
  ✗ agent  broken
      agent execution failed
      cleanup failed
  ✗ hollow  unchecked
      the task failed
  ✗ stopped  cancelled
      the task failed

Tasks:      1/7 passed (14.29%; of the 4 that were judged, with 95 % confidence 4–70 %)
            a pass is 1 of 1: with 95 % confidence the task passes at least 20 % of the time; `-n` runs tasks more often
Assertions: 4/6 passed (66.67%, with 95 % confidence 29–91 %)
Cleanups:   1 failed
Incomplete: `stopped` was cancelled
Tokens:     7
Agent used: 5 in, 0 out
Judge used: 0 in, 3 out
";
    assert_eq!(ran.out, text);
    let shown: Value = serde_json::from_str(&world.run(&["result", "summary", "r.json", "-o", "json"]).out).unwrap();
    let errors = shown["tasks"].as_array().unwrap().iter().map(|task| task.get("taskError").and_then(Value::as_str));
    let errors: Vec<_> = errors.collect();
    let failed = Some("the task failed");
    let bad = Some("one or more verification steps failed: no such pod");
    assert_eq!(errors, [None, None, bad, failed, Some("agent execution failed"), failed, failed]);
    // Upstream's figures that are zero are left out.
    assert!(shown["tasks"][0].get("tokensEstimated").is_none() && shown["tasks"][0].get("mcpSchemaTokens").is_none());
}
