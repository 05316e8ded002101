//! No line that gevals prints in CI is a command injected by others, whatever tools, agents, servers and tasks print.

use std::process::Command;

use serde_json::{Value, json};

use crate::support::world::World;

/// Commands of all runners, in the forms that each one recognizes; all of them contain `evil`.
const HOSTILE: [&str; 12] = [
    "::error file=evil.yaml::evil",
    "  ::set-env name=PATH::evil",
    "\t::add-mask::evil",
    "\u{a0}\u{feff}::stop-commands::evil",
    "##[error]evil",
    "text ##[command]evil",
    "##vso[task.setvariable variable=evil]x",
    "text ##vso[task.complete result=Succeeded]evil",
    "##teamcity[buildStatus text='evil']",
    "section_start:1560896352:evil\r\u{1b}[0Kevil",
    "progress\r::error::evil",
    "###[group]evil",
];

/// Returns the commands in a log by the rules of the four runners: GitHub's `ActionCommand.cs` (a line that starts with
/// `::` after white space, `##[` anywhere), Azure's `##vso[`, TeamCity's `##teamcity[`, GitLab's `section_start:`.
fn commands(log: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in log.split(['\n', '\r']) {
        let trimmed = line.trim_matches(|c: char| c.is_whitespace() || c == '\u{feff}');
        let v2 = trimmed.starts_with("::") && trimmed[2..].contains("::");
        let marks = ["##[", "##vso[", "##teamcity[", "section_start:", "section_end:"];
        if v2 || marks.iter().any(|mark| line.contains(mark)) {
            found.push(line.to_owned());
        }
    }
    found
}

/// Returns the name of a task: control characters are an error there.
fn name_of(nth: usize, line: &str) -> String {
    format!("{line} {nth}").replace(char::is_control, " ")
}

/// A suite in which every source of text is hostile: names of tasks, the agent on both streams, steps, tools, servers.
fn suite() -> World {
    let hostile = HOSTILE.join("\n");
    let world = World::new(&[]);
    world.write("hostile.txt", &format!("{hostile}\n"));
    let quoted = |text: &str| Value::from(text).to_string();
    let mut tasks = Vec::new();
    for (nth, line) in HOSTILE.iter().enumerate() {
        let task = json!({
            "kind": "Task",
            "apiVersion": "mcp-eval/v1",
            "metadata": { "name": name_of(nth, line), "difficulty": "easy", "description": hostile },
            "spec": {
                "prompt": format!("{hostile}\n{nth}"),
                "verify": [
                    { "command": { "id": "fine", "run": "cat hostile.txt; cat hostile.txt >&2" } },
                    { "command": { "run": "cat ../hostile.txt; cat ../hostile.txt >&2; exit 1" } },
                    { "command": { "run": "cat ../hostile.txt", "expect": { "stdout": { "contains": format!("{line} nowhere") } } } },
                ],
                "cleanup": [{ "command": { "run": "cat ../hostile.txt >&2; exit 1" } }],
            },
        });
        let name = format!("tasks/{nth}.yaml");
        world.write(&name, &task.to_string());
        tasks.push(json!({ "path": name }));
    }
    // A file whose name is a command, with a fault.
    world.write(
        "::error::evil ##[group].yaml",
        "kind: Task\napiVersion: mcp-eval/v1\nmetadata: {name: x}\nspec: {promt: '::error::evil'}\n",
    );
    let notes =
        json!({ "command": "gevals", "args": ["demo-server", "--dir", world.path("notes")], "enableAllTools": true });
    let broken = json!({ "command": "sh", "args": ["-c", format!("cat {} >&2; exit 3", world.path("hostile.txt").display())], "enableAllTools": true });
    world.write("mcp.json", &json!({ "mcpServers": { "notes": notes } }).to_string());
    world.write("broken.json", &json!({ "mcpServers": { "::error::evil": broken } }).to_string());
    let call = |tool: &str, args: Value| json!({ "server": "notes", "tool": tool, "args": args });
    let calls = json!([
        call("notes_create", json!({ "title": "a", "body": hostile })),
        call("notes_read", json!({ "title": "a" })),
        call("notes_read", json!({ "title": hostile })),
        call("notes_delete", json!({ "title": "a" })),
    ]);
    let entries: serde_json::Map<String, Value> = HOSTILE
        .iter()
        .enumerate()
        .map(|(nth, line)| (name_of(nth, line), json!({ "calls": calls, "output": hostile })))
        .collect();
    world.write("script.yaml", &json!({ "kind": "Oracle", "tasks": entries }).to_string());
    let agent = format!("cat {0}; cat {0} >&2; true {{{{ .Prompt }}}}; exit 1", world.path("hostile.txt").display());
    world.write(
        "agent.yaml",
        &format!(
            "kind: Agent\nmetadata: {{name: {}}}\ncommands: {{runPrompt: {}}}\n",
            quoted(HOSTILE[0]),
            quoted(&agent)
        ),
    );
    for (name, agent, mcp) in [
        ("oracle", json!({ "type": "builtin.script", "path": "script.yaml" }), "mcp.json"),
        ("shell", json!({ "type": "file", "path": "agent.yaml" }), "mcp.json"),
        ("broken", json!({ "type": "builtin.noop" }), "broken.json"),
    ] {
        let eval = json!({
            "kind": "Eval",
            "metadata": { "name": name },
            "config": { "agent": agent, "mcpConfigFile": mcp, "taskSets": tasks },
        });
        world.write(&format!("{name}.yaml"), &eval.to_string());
    }
    world
}

/// Returns what the runner receives from a command: both streams, through pipes.
fn log(mut command: Command, runner: (&str, &str)) -> (String, String) {
    command.env(runner.0, runner.1).env("GITHUB_STEP_SUMMARY", "page.md");
    let ran = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&ran.stdout), text(&ran.stderr))
}

const RUNNERS: [(&str, &str); 4] =
    [("GITHUB_ACTIONS", "true"), ("GITLAB_CI", "true"), ("TF_BUILD", "True"), ("TEAMCITY_VERSION", "2025.1")];

#[track_caller]
fn holds_no_command(what: &str, log: &(String, String)) {
    for text in [&log.0, &log.1] {
        let own = |line: &String| {
            ["::error file=", "::warning file=", "::notice file="].iter().any(|own| line.starts_with(own))
        };
        let (own, others): (Vec<_>, Vec<_>) = commands(text).into_iter().partition(own);
        assert!(others.is_empty(), "{what}: {others:#?}");
        // Our own commands name files that exist.
        let evil: Vec<_> = own.iter().filter(|line| line.contains(" file=evil.yaml,")).collect();
        assert!(evil.is_empty(), "{what}: {evil:#?}");
        assert!(what.contains("github") || what.contains("GITHUB") || own.is_empty(), "{what}: {own:#?}");
    }
}

#[test]
fn untrusted_text_in_a_ci_log_is_never_a_command() {
    assert_eq!(HOSTILE.iter().filter(|line| !commands(line).is_empty()).count(), HOSTILE.len());
    let world = suite();
    let mut said = 0;
    for runner in RUNNERS {
        for eval in ["oracle.yaml", "shell.yaml", "broken.yaml"] {
            for args in [
                &["run", eval, "--verbose"][..],
                &["run", eval, "--format", "github"],
                &["run", eval, "--format", "json"],
            ] {
                // One runner is tested with all formats, the others with the default one.
                if runner.0 != "GITHUB_ACTIONS" && args.len() > 3 {
                    continue;
                }
                // The cleanups fail, and every run would retry those of all earlier runs.
                let _ = std::fs::remove_dir_all(world.path(".gevals/runs"));
                let log = log(world.command(args), runner);
                holds_no_command(&format!("{} {}", runner.0, args.join(" ")), &log);
                said += format!("{}{}", log.0, log.1).matches("evil").count();
            }
        }
        for args in [
            &["check"][..],
            &["check", "--format", "concise"],
            &["check", "--format", "json"],
            &["check", "--format", "sarif"],
            &["check", "--format", "github"],
            &["check", "--format", "junit"],
            &["check", "--fix", "--dry-run"],
            &["plan", "oracle.yaml"],
            &["plan", "oracle.yaml", "--format", "json"],
            &["plan", "oracle.yaml", "--format", "markdown"],
            &["plan", "oracle.yaml", "--format", "mermaid"],
            &["plan", "oracle.yaml", "--format", "svg"],
            &["plan", "oracle.yaml", "--format", "html"],
            &["plan", "::error::evil ##[group].yaml"],
            &["result", "view", "gevals-oracle-out.json"],
            &["result", "summary", "gevals-oracle-out.json"],
            &["result", "summary", "gevals-oracle-out.json", "-o", "json"],
            &["result", "verify", "gevals-oracle-out.json"],
            &["result", "diff", "gevals-oracle-out.json", "gevals-shell-out.json"],
            &["result", "diff", "gevals-oracle-out.json", "gevals-shell-out.json", "-o", "markdown"],
            &["result", "convert", "junit", "gevals-oracle-out.json"],
            &["result", "merge", "gevals-oracle-out.json"],
            &["convert", "tasks/0.yaml", "--to", "portable"],
            &["convert", "tasks/0.yaml", "--report", "json"],
            &["recover"],
        ] {
            let log = log(world.command(args), runner);
            holds_no_command(&format!("{} {}", runner.0, args.join(" ")), &log);
            said += format!("{}{}", log.0, log.1).matches("evil").count();
        }
    }
    // Everything ran, and the hostile texts were printed.
    for eval in ["oracle", "shell"] {
        let path = format!("gevals-{eval}-out.json");
        assert!(world.path(&path).exists(), "{:?}", log(world.command(&["run", &format!("{eval}.yaml")]), RUNNERS[0]));
    }
    assert!(said > 1000, "{said}");
    // Output for programs has the same meaning as without a runner.
    for args in [
        ["result", "summary", "gevals-oracle-out.json", "-o", "json"],
        ["result", "summary", "gevals-shell-out.json", "-o", "json"],
    ] {
        let value = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        let (in_ci, plain) = (log(world.command(&args), RUNNERS[0]).0, log(world.command(&args), ("NO_CI", "")).0);
        assert_ne!(in_ci, plain);
        assert_eq!(value(&in_ci), value(&plain));
    }
}

#[test]
fn the_job_summary_contains_no_untrusted_markup() {
    let evil = "<img src=x onerror=y> </td>|| [a](https://evil.example) ![b](//evil.example/b.png) @evil $$x$$ `c` https://evil.example www.evil.example\n# evil\n- evil";
    let world = World::new(&[]);
    let task = json!({
        "kind": "Task", "apiVersion": "mcp-eval/v1",
        "metadata": { "name": evil.replace('\n', " ") },
        "spec": { "prompt": "x", "verify": [{ "command": { "run": format!("cat <<'E'\n{evil}\nE\ntest -e nowhere") } }] },
    });
    world.write("task.yaml", &task.to_string());
    world.write("eval.yaml", "kind: Eval\nmetadata: {name: '<b>evil @evil'}\nconfig: {agent: {type: builtin.noop}, taskSets: [{path: task.yaml}]}\n");
    world.write("page.md", "");
    let log = log(world.command(&["run", "eval.yaml"]), RUNNERS[0]);
    let page = world.read("page.md");
    assert!(page.contains("evil"), "{page}{log:?}");
    // A character after a backslash is plain text.
    let mut chars = page.chars();
    let mut bare = String::new();
    while let Some(c) = chars.next() {
        match c {
            '\\' => drop(chars.next()),
            c => bare.push(c),
        }
    }
    for markup in ["<img", "<b>", "</td>", "](", "![", "@evil", "://", " www.", "$$", "||"] {
        assert!(!bare.contains(markup), "`{markup}` in\n{page}");
    }
    // One line per row: no text of others starts a line.
    assert!(page.lines().all(|line| !line.starts_with("# ") && !line.starts_with("- evil")), "{page}");
}
