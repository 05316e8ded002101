//! `gevals check` and `gevals lock` as people and hooks use them: changes and what they affect, watching, secrets,
//! drift; and the script of the GitHub Action.
#![cfg(all(feature = "run", target_os = "linux"))]

mod index;
mod kept;

use std::{
    env, fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use crate::support::world::{self, World};

const EVAL: &str = "kind: Eval\nmetadata: {name: e}\nconfig:\n  agent: {type: builtin.noop}\n  mcpConfigFile: mcp.yaml\n  taskSets: [{glob: tasks/*/task.yaml}]\n";
const MCP: &str = "mcpServers:\n  notes: {command: gevals, args: [demo-server], enableAllTools: true}\n";

/// A task with a script that sources a helper.
fn task(name: &str) -> String {
    format!(
        "kind: Task\nmetadata: {{name: {name}}}\nsteps:\n  verify: {{file: verify.sh}}\n  prompt: {{inline: Do it.}}\n"
    )
}

/// A repository with an eval, two tasks and files of other programs.
fn suite() -> World {
    let world = World::new(&[
        ("evals/eval.yaml", EVAL),
        ("evals/mcp.yaml", MCP),
        ("evals/tasks/a/task.yaml", &task("a")),
        ("evals/tasks/b/task.yaml", &task("b")),
        ("evals/tasks/a/verify.sh", "#!/usr/bin/env bash\nset -e\n. ./lib/help.sh\ntest -d /\n"),
        ("evals/tasks/b/verify.sh", "#!/usr/bin/env bash\nset -e\ntest -d /\n"),
        ("evals/tasks/a/lib/help.sh", "true\n"),
        ("deploy/tekton.yaml", "apiVersion: tekton.dev/v1\nkind: Task\nmetadata: {name: x}\n"),
        ("deploy/build.sh", "true\n"),
    ]);
    for script in ["a", "b"] {
        fs::set_permissions(world.path(&format!("evals/tasks/{script}/verify.sh")), fs::Permissions::from_mode(0o755))
            .unwrap();
    }
    git(&world, &["init", "-q"]);
    git(&world, &["add", "evals", "deploy"]);
    git(&world, &["-c", "user.name=n", "-c", "user.email=e@e", "commit", "-qm", "all"]);
    world
}

fn git(world: &World, args: &[&str]) {
    assert!(Command::new("git").args(args).current_dir(world.path("")).status().unwrap().success());
}

/// Makes both tasks wrong: the findings show what was checked.
fn spoil(world: &World) {
    for name in ["a", "b"] {
        world.write(&format!("evals/tasks/{name}/task.yaml"), &format!("{}  tiemout: 5s\n", task(name)));
    }
}

/// An eval with a task that cannot be read does not run.
#[test]
fn tasks_that_an_eval_cannot_read_are_checked_with_it() {
    let world = suite();
    let by_label = "    - {glob: tasks/*/task.yaml, labelSelector: {team: x}}\n";
    let misspelt = task("b").replace("kind: Task", "kind: Taks");
    for (bad, rule) in [(misspelt, "unknown-kind"), (task("b") + "x: [\n", "syntax")] {
        for sets in [None, Some(by_label)] {
            world.write("evals/tasks/b/task.yaml", &bad);
            if let Some(set) = sets {
                let eval = world.read("evals/eval.yaml");
                let (before, _) = eval.split_once("  taskSets:").unwrap();
                world.write("evals/eval.yaml", &format!("{before}  taskSets:\n{set}"));
            }
            for named in ["evals/eval.yaml", "evals/tasks/b/task.yaml"] {
                let ran = world.run(&["check", "--affected", named]);
                ran.expect(1, &[rule, "tasks/b/task.yaml"]);
            }
            let other = world.run(&["check", "--affected", "evals/tasks/a/verify.sh"]);
            assert!(!format!("{}{}", other.out, other.err).contains("tasks/b/task.yaml"), "{}", other.out);
        }
    }
}

#[test]
fn files_that_refer_to_a_script_or_a_config_are_checked_with_it() {
    let world = suite();
    spoil(&world);
    let found = |args: &[&str]| {
        let ran = world.run(&[&["check", "--format", "concise"], args].concat());
        assert!(ran.code == Some(0) || ran.code == Some(1), "{}{}", ran.out, ran.err);
        (ran.out.contains("tasks/a/task.yaml:"), ran.out.contains("tasks/b/task.yaml:"))
    };
    assert_eq!(found(&["evals/tasks/a/verify.sh"]), (true, false));
    assert_eq!(found(&["evals/tasks/a/lib/help.sh"]), (true, false));
    assert_eq!(found(&["evals/mcp.yaml"]), (true, true));
    assert_eq!(found(&["evals/tasks/b/task.yaml"]), (false, true));
    assert_eq!(found(&["--affected", "evals/tasks/b/task.yaml", "deploy/tekton.yaml"]), (false, true));
    assert_eq!(found(&["--affected", "deploy/tekton.yaml", "deploy/build.sh"]), (false, false));
    let slip = world.run(&["check", "--affected", "nowhere.yaml"]).expect(0, &[]);
    assert!(slip.err.contains("`nowhere.yaml` does not exist, and nothing refers to it"), "{}", slip.err);
    world.run(&["check", "deploy/build.sh"]).expect(2, &["no task or eval refers to `deploy/build.sh`"]);
    world.run(&["check", "deploy/tekton.yaml"]).expect(1, &["unknown-kind"]);
    // A file that belongs to nothing does not hide findings in the others.
    let both = world.run(&["check", "--format", "concise", "deploy/build.sh", "evals/tasks/b/task.yaml"]);
    assert!(both.err.contains("no task or eval refers to `deploy/build.sh`"), "{}", both.err);
    assert!(both.code == Some(2) && both.out.contains("tasks/b/task.yaml:"), "{}{}", both.out, both.err);
    // A page that shows a task is not a task; even if a config that belongs to nothing is named, all named files are
    // checked.
    world.write("README.md", "# How to\n\nWrite this: it is short.\n\n```yaml\nkind: Task\n```\n");
    for others in [["evals/tasks/b/task.yaml"].as_slice(), &["evals/tasks/b/task.yaml", "deploy/tekton.yaml"]] {
        let ran = world.run(&[["check", "--format", "concise", "README.md"].as_slice(), others].concat());
        assert!(ran.err.contains("no task or eval refers to `README.md`"), "{}", ran.err);
        assert!(ran.out.contains("tasks/b/task.yaml:") && !ran.out.contains("README.md"), "{}", ran.out);
        assert_eq!(ran.code, Some(2));
    }
}

/// As written by an editor on Windows: no system finds an interpreter with a carriage return in its name.
#[test]
fn a_script_whose_first_line_ends_in_a_carriage_return_is_an_error() {
    let world = suite();
    let script = "#!/usr/bin/env bash\nset -e\ntest -d /\n";
    world.write("evals/tasks/a/verify.sh", script);
    world.run(&["check", "evals/tasks/a/task.yaml"]).expect(0, &[]);
    world.write("evals/tasks/a/verify.sh", &script.replace('\n', "\r\n"));
    world.run(&["check", "evals/tasks/a/task.yaml"]).expect(
        1,
        &[
            "error[script-without-shebang]: `verify.sh` cannot be run: its lines end with a carriage return",
            "`/usr/bin/env bash\\r`",
        ],
    );
}

/// The fix would write the key twice.
#[test]
fn a_misspelled_key_next_to_the_correct_one_has_no_fix() {
    let world = suite();
    let both = "kind: Task\napiVersion: mcp-eval/v1\nmetadata: {name: a}\nspec:\n  prompt: Go.\n  verify:\n    - command: {run: test -d /, expect: {exitCode: 0}, exepct: {exitCode: 1}}\n";
    world.write("evals/tasks/a/task.yaml", both);
    let ran = world.run(&["check", "evals/tasks/a/task.yaml"]);
    let ran = ran.expect(1, &["unknown key `exepct`", "valid keys: `run`"]);
    assert!(!ran.out.contains("fixable"), "{}", ran.out);
    // In other mappings, the message names both.
    world.write(
        "twice.yaml",
        &EVAL.replace("mcpConfigFile: mcp.yaml", "mcpConfigFile: evals/mcp.yaml\n  mcpConfgFile: mcp.yaml"),
    );
    world.run(&["check", "twice.yaml"]).expect(1, &["did you mean `mcpConfigFile`, which is also present?"]);
    world.write("evals/tasks/a/task.yaml", &both.replace("expect: {exitCode: 0}, ", ""));
    world.run(&["check", "evals/tasks/a/task.yaml"]).expect(1, &["did you mean `expect`?", "fix: write `expect`"]);
}

#[test]
fn files_that_differ_from_a_revision_are_checked() {
    let world = suite();
    let check = ["check", "--changed-since", "HEAD", "--format", "concise"];
    world.run(&check).expect(0, &["no findings in 0 files"]);
    world.write("evals/tasks/a/verify.sh", "#!/usr/bin/env bash\ntest -d /nowhere\ntest -d /\n");
    let ran = world.run(&check).expect(1, &["evals/tasks/a/verify.sh:2:1: error[last-command-decides]"]);
    assert!(!ran.out.contains("tasks/b"), "{}", ran.out);
    // A missing file is reported by those that refer to it.
    git(&world, &["checkout", "-q", "."]);
    fs::remove_file(world.path("evals/tasks/b/verify.sh")).unwrap();
    world.run(&check).expect(1, &["evals/tasks/b/task.yaml:4:"]);
    world.run(&["check", "--changed-since", "nowhere"]).expect(2, &["`nowhere` is not a revision"]);
}

#[test]
fn watching_checks_again_when_a_file_changes() {
    let world = suite();
    let out = fs::File::create(world.path("watched")).unwrap();
    let mut child = world.command(&["check", "--watch", "evals"]).stdout(out).stderr(Stdio::null()).spawn().unwrap();
    let wait = |text: &str| {
        let started = Instant::now();
        while !world.read("watched").contains(text) {
            assert!(started.elapsed() < Duration::from_secs(20), "no `{text}`: {}", world.read("watched"));
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    wait("watching");
    world.write("evals/tasks/a/verify.sh", "#!/usr/bin/env bash\ntest -d /nowhere\ntest -d /\n");
    wait("last-command-decides");
    // A new file is noticed as well, because its directory has changed.
    world.write("evals/tasks/c/task.yaml", "kind: Taks\nsteps: {prompt: {inline: a}}\nmetadata: {name: c}\n");
    wait("unknown-kind");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn no_format_shows_a_secret() {
    let world = suite();
    let secret = "8f14e45fceea167a5a36";
    world.write(
        "evals/mcp.yaml",
        &format!("mcpServers:\n  notes:\n    url: http://localhost\n    headers: {{Authorization: Bearer {secret}}}\n    enableAllTool: true\n"),
    );
    for format in ["pretty", "concise", "json", "sarif", "github", "junit"] {
        let ran = world.run(&["check", "evals/eval.yaml", "--format", format]).expect(1, &["secret-in-clear"]);
        assert!(!ran.out.contains(secret) && !ran.err.contains(secret), "{format}: {}", ran.out);
    }
    let ran = world.run(&["check", "evals/eval.yaml", "--fix", "--dry-run"]);
    assert!(ran.out.contains("+    enableAllTools: true") && !ran.out.contains(secret), "{}", ran.out);
}

#[test]
fn a_server_that_differs_from_its_lock_breaks_the_named_evals() {
    let world = suite();
    world.write(
        "evals/tasks/a/task.yaml",
        "kind: Task\napiVersion: mcp-eval/v1\nmetadata: {name: a}\nspec:\n  requires: [{mcpServer: notes}]\n  imports: [{package: ../../ext, as: ext}]\n  prompt: Do it.\n  verify:\n    - notes.notes_read: {args: {title: x}, expect: {content: {contains: y}}}\n    - ext.ready: {name: web}\n",
    );
    world.write(
        "evals/ext/extension.yaml",
        "name: ext\nversion: 1.0.0\nchecks:\n- name: ready\n  args: {name: {type: string, required: true}}\n",
    );
    world.run(&["check", "evals/eval.yaml"]).expect(0, &["note[not-locked]", "`notes_read`", "`ready`"]);
    world.run(&["lock", "evals/eval.yaml", "--check"]).expect(1, &["cannot read", "gevals lock"]);
    world
        .run(&["lock", "evals/eval.yaml"])
        .expect(0, &["of 1 server and 1 operation of 1 extension in evals/gevals.lock"]);
    let ran = world.run(&["check", "evals/eval.yaml"]).expect(0, &[]);
    assert!(!ran.out.contains("not-locked"), "{}", ran.out);
    world.run(&["lock", "evals/eval.yaml", "--check"]).expect(0, &["nothing differs from"]);

    // The operation is renamed, and the lock contains a tool that does not exist.
    world.write("evals/ext/extension.yaml", "name: ext\nversion: 1.1.0\nchecks:\n- {name: is-ready}\n");
    world.run(&["lock", "evals/eval.yaml", "--check"]).expect(
        1,
        &[
            "operation `../../ext.ready` was removed",
            "operation `../../ext.is-ready` was added",
            "the version of",
            "this breaks evals/eval.yaml:",
            "evals/tasks/a/task.yaml:10:",
            "has no operation `ready`",
        ],
    );
    let lock = world.read("evals/gevals.lock");
    world.write("evals/gevals.lock", &lock.replace("notes_read:", "notes_peek:"));
    world
        .run(&["lock", "evals/eval.yaml", "--check"])
        .expect(1, &["tool `notes.notes_peek` was removed", "tool `notes.notes_read` was added"]);
    // The lock also contains arguments.
    world.write("evals/gevals.lock", &lock);
    let task = world.read("evals/tasks/a/task.yaml");
    world.write("evals/tasks/a/task.yaml", &task.replace("{name: web}", "{nmae: web}"));
    world.run(&["check", "evals/eval.yaml"]).expect(1, &["nmae"]);
    world.write("evals/tasks/a/task.yaml", &task.replace("ready", "is-ready").replace("{name: web}", "{}"));

    // A damaged lock is reported with its name, the reason and a fix; nothing counts as locked.
    world.write("evals/gevals.lock", "version: 1\nservers: {notes: 5}\n");
    let told = [
        "the lock file `evals/gevals.lock` cannot be read: servers.notes: ",
        "expected a mapping",
        "`gevals lock EVAL`",
    ];
    world.run(&["check", "evals/eval.yaml"]).expect(1, &told);
    let cure = ["cannot read `evals/gevals.lock`: servers.notes", "recreate it with `gevals lock evals/eval.yaml`"];
    world.run(&["lock", "evals/eval.yaml", "--check"]).expect(1, &cure);
    world.run(&["lock", "evals/eval.yaml", "--fetch"]).expect(3, &cure);
    world.run(&["lock", "evals/eval.yaml"]).expect(0, &["locked "]);
    world.run(&["lock", "evals/eval.yaml", "--fetch"]).expect(0, &["available as locked"]);

    // A lock is committed: what a server says about itself may contain a secret of its environment.
    let mut command = world.command(&["lock", "evals/eval.yaml"]);
    command.env("NOTES_TOKEN", "notes_read").env("NOTES_NAME", "notes_read").env("OTHER_TOKEN", "         ");
    let warning = "warning: `gevals.lock` contains the value of `NOTES_TOKEN`: do not commit it if that is a secret";
    let ran = world.start(command).end().expect(0, &[warning, "locked "]);
    assert_eq!(ran.err.matches("do not commit it").count(), 1, "{}", ran.err);
}

#[test]
fn files_of_other_programs_are_ignored() {
    let foreign = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/foreign");
    let world = World::new(&[(
        "t.yaml",
        "kind: Task\nmetadata: {name: t}\nsteps:\n  verify: {inline: test -d /}\n  prompt: {inline: Do it.}\n",
    )]);
    let ran = world.run(&["check", foreign.to_str().unwrap(), "t.yaml", "-v"]).expect(0, &["no findings in 1 file"]);
    assert!(ran.out.matches("skipped: ").count() >= 12, "{}", ran.out);
}

/// A file that is found in a directory and also referred to by an eval is reported once.
#[test]
fn each_fault_in_a_folder_is_reported_once() {
    let agent = "kind: Agent\nmetadata: {nmae: a}\ncommands:\n  runPrompt: cli {{ .Promt }}\n";
    let eval = |agent: &str| {
        format!(
            "kind: Eval\nmetadata: {{name: e}}\nconfig:\n  agent: {{{agent}}}\n  taskSets: [{{glob: tasks/*.yaml}}]\n"
        )
    };
    let task = "kind: Task\napiVersion: mcp-eval/v1\nmetadata: {name: t}\nspec:\n  prompt: Say: hello\n  verify: []\n";
    let world = World::new(&[
        ("eval.yaml", &eval("type: file, path: agent.yaml")),
        ("other.yaml", &eval("type: builtin.script, path: oracle.yaml")),
        ("agent.yaml", agent),
        ("oracle.yaml", "kind: Oracle\ntasks:\n  t: {outptu: done}\n"),
        ("tasks/t.yaml", task),
    ]);
    for format in ["pretty", "concise", "json", "sarif", "github", "junit"] {
        for paths in [&["."][..], &["eval.yaml", "other.yaml", "tasks"], &["tasks", "agent.yaml", "oracle.yaml", "."]] {
            let ran = world.run(&[&["check", "--format", format], paths].concat());
            // SARIF quotes the pages of the rules before the results.
            let shown = ran.out.rsplit("\"results\":").next().unwrap();
            for fault in ["unknown key `nmae`", "unknown field `Promt`", "unknown key `outptu`", "contain `: `"] {
                // In a format on one line, the text occurs once; in others, a line may contain it twice.
                let count = match format {
                    "json" => shown.matches(fault).count(),
                    _ => shown.lines().filter(|line| line.contains(fault)).count(),
                };
                assert_eq!(count, 1, "{format} {paths:?}: {fault}\n{}{}", ran.out, ran.err);
            }
        }
    }
    world.run(&["check"]).expect(1, &["found 4 errors", "in 5 files"]);
}

#[test]
fn the_action_writes_annotations_a_count_and_a_summary() {
    let world = suite();
    spoil(&world);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging/action/run.sh");
    let act = |inputs: &[(&str, &str)]| {
        for file in ["output", "summary"] {
            world.write(file, "");
        }
        let mut command = Command::new(&script);
        command.current_dir(world.path("")).env("GEVALS", env!("CARGO_BIN_EXE_gevals"));
        command.env("GITHUB_OUTPUT", world.path("output")).env("GITHUB_STEP_SUMMARY", world.path("summary"));
        command.env("RUNNER_TEMP", world.path("tmp")).envs(inputs.iter().copied());
        let out = command.output().unwrap();
        (out.status.code(), String::from_utf8(out.stdout).unwrap(), world.read("output"), world.read("summary"))
    };
    let (code, out, output, summary) = act(&[("INPUT_PATHS", "evals"), ("INPUT_SARIF", "found.sarif")]);
    assert_eq!(code, Some(1), "{out}");
    assert!(out.contains("::error file=evals/tasks/a/task.yaml,line="), "{out}");
    assert!(
        output.contains("errors=2\n") && output.contains("sarif=found.sarif\n") && output.ends_with("status=1\n"),
        "{output}"
    );
    assert!(summary.contains("error[unknown-field]") && summary.contains("found 2 errors"), "{summary}");
    let sarif: serde_json::Value = serde_json::from_str(&world.read("found.sarif")).unwrap();
    assert_eq!(sarif["runs"][0]["results"].as_array().unwrap().iter().filter(|r| r["level"] == "error").count(), 2);

    world.copy("examples/quickstart", "q");
    let (code, out, output, summary) =
        act(&[("INPUT_COMMAND", "run"), ("INPUT_PATHS", "q/eval.yaml"), ("INPUT_ARGS", "--run ^write-note$")]);
    assert_eq!(code, Some(0), "{out}");
    assert!(output.ends_with("status=0\n"), "{output}");
    assert_eq!(summary.matches("write-note").count(), 1, "{summary}");
    assert!(summary.contains("1 of 1 passed"), "{summary}");
    let results = |output: &str| {
        let lines = output.lines().skip_while(|line| !line.starts_with("results<<")).skip(1);
        lines.take_while(|line| *line != "END-OF-RESULTS").map(str::to_owned).collect::<Vec<_>>()
    };
    let first = results(&output);
    assert!(first.len() == 1 && Path::new(&first[0]).exists(), "{output}");
    // A second run in the same job has its own directory, unless a flag sets one; several agents have separate results.
    let run = |args: &str| act(&[("INPUT_COMMAND", "run"), ("INPUT_PATHS", "q/eval.yaml"), ("INPUT_ARGS", args)]);
    let (code, out, output, _) = run("--run ^write-note$ --format json --color=never");
    assert!(code == Some(0) && results(&output).len() == 1 && results(&output) != first, "{out}{output}");
    let (code, out, output, _) = run("--run ^write-note$ --output-dir=out --agent builtin.noop --agent q/oracle.yaml");
    assert_eq!(code, Some(1), "{out}");
    assert!(results(&output).len() == 2 && results(&output).iter().all(|path| path.starts_with("out/")), "{output}");

    // If gevals cannot do its work, the reason is an annotation.
    let (code, out, ..) = run("--run ^nothing$");
    assert!(code == Some(2) && out.contains("::error title=gevals::no tasks selected"), "{out}");
    let (code, out, output, _) = act(&[("INPUT_PATHS", "no-such.yaml")]);
    assert!(code == Some(2) && out.contains("::error title=gevals::cannot read `no-such.yaml`"), "{out}");
    assert!(output.ends_with("status=2\n"), "{output}");
    let (code, out, output, _) = act(&[("INPUT_PATHS", "evals"), ("INPUT_ARGS", "--format concise")]);
    assert!(code == Some(1) && out.contains("error[unknown-field]") && output.contains("errors=2\n"), "{out}{output}");
    // `args` may change the exit status, but not the counts.
    let (code, out, output, summary) = act(&[("INPUT_PATHS", "evals"), ("INPUT_ARGS", "--exit-zero --color=always")]);
    assert!(code == Some(0) && out.contains("::error file=") && output.contains("errors=2\n"), "{out}{output}");
    assert!(summary.contains("\nevals/") && summary.contains("found 2 errors"), "{summary}");
    let (code, out, ..) = act(&[("INPUT_COMMAND", "destroy")]);
    assert!(code == Some(2) && out.contains("::error title=gevals::the action knows"), "{out}");
    let bin = world.path("bin");
    fs::create_dir(&bin).unwrap();
    for tool in ["bash", "mktemp", "rm"] {
        let path = env::var_os("PATH").unwrap();
        let mut folders = env::split_paths(&path).map(|folder| folder.join(tool));
        symlink(folders.find(|path| path.exists()).unwrap(), bin.join(tool)).unwrap();
    }
    let (code, out, ..) = act(&[("GEVALS", ""), ("PATH", bin.to_str().unwrap()), ("INPUT_PATHS", "q")]);
    assert!(code == Some(3) && out.contains("no cargo to build one"), "{out}");
}

#[test]
fn unsafe_fixes_are_applied_only_on_request() {
    let world = suite();
    let text = "kind: Task\napiVersion: mcp-eval/v1\nmetadata: {name: a}\nspec:\n  prompt: Do it with {forbidden}.\n  verify:\n    - script: {file: ./verify.sh}\n";
    world.write("evals/tasks/a/task.yaml", text);
    let shown = world.run(&["check", "evals/eval.yaml", "--fix"]).expect(1, &["unsafe fix: keep it as text"]);
    assert!(!shown.out.contains("fixed "), "{}", shown.out);
    assert_eq!(world.read("evals/tasks/a/task.yaml"), text);
    world.run(&["fix", "evals/eval.yaml", "--unsafe-fixes"]).expect(0, &["fixed 1 file"]);
    assert!(world.read("evals/tasks/a/task.yaml").contains("\\{forbidden}"));
}

/// The file has no `kind`; with one, its other keys would be unknown. The file is unchanged, and the user is told the
/// reason.
#[test]
fn a_fix_that_causes_an_error_is_rolled_back_and_reported() {
    let world = suite();
    let text = "name: a\ntype: x\ncommands: {runPrompt: claude}\n";
    world.write("evals/other.yaml", text);
    for fix in [&["--fix"][..], &["--fix", "--unsafe-fixes"], &["--fix", "--dry-run"]] {
        let ran = world.run(&[&["check", "evals/other.yaml"][..], fix].concat());
        assert!(
            ran.err.contains(
                "a fix was rolled back: evals/other.yaml:1: unknown-kind: it would introduce the error `unknown-field`"
            ),
            "{fix:?}: {}{}",
            ran.out,
            ran.err
        );
        assert!(!ran.out.contains("fixed "), "{}", ran.out);
        assert_eq!(world.read("evals/other.yaml"), text);
    }
}

/// A key in the wrong case is corrected even if its value is wrong; the fault of the value is reported afterwards.
#[test]
fn a_key_in_the_wrong_case_is_fixed_even_if_its_value_is_wrong() {
    let world = suite();
    world.write("evals/tasks/a/task.yaml", "Kind: Task\napiVersion: mcp-eval/v1\nmetadata: {name: a}\nSpec:\n  Prompt: Go.\n  Verify:\n    command: {run: test -d /}\n");
    let ran = world.run(&["check", "evals/tasks/a/task.yaml", "--fix"]);
    ran.expect(1, &["`verify` must be a list, not a mapping", "start each item with `- `"]);
    assert_eq!(
        world.read("evals/tasks/a/task.yaml"),
        "kind: Task\napiVersion: mcp-eval/v1\nmetadata: {name: a}\nspec:\n  prompt: Go.\n  verify:\n    command: {run: test -d /}\n"
    );
}

/// Names of keys in other tools.
#[test]
fn keys_of_other_tools_are_fixed() {
    let world = suite();
    let portable = |verify: &str| {
        format!(
            "kind: Task\napiVersion: mcp-eval/v1\nmetadata: {{name: a}}\nspec:\n  prompt: Go.\n  verify:\n    - {verify}\n"
        )
    };
    let steps = |rest: &str| {
        format!(
            "kind: Task\napiVersion: mcpchecker/v1alpha2\nmetadata: {{name: a}}\nspec:\n  prompt: {{inline: Go.}}\n{rest}\n"
        )
    };
    let legacy = |rest: &str| format!("kind: Task\nmetadata: {{name: a}}\nsteps:\n  prompt: {{inline: Go.}}\n{rest}\n");
    for (written, meant) in [
        (
            portable("command: {cmd: ls, cwd: a, expect: {code: 1, output: b}}"),
            portable("command: {run: ls, workdir: a, expect: {exitCode: 1, stdout: b}}"),
        ),
        (portable("script: {run: test -e a}"), portable("script: {inline: test -e a}")),
        (
            portable("foreach: {as: a, items: [b], steps: [{command: {run: \"test -e {a}\"}}]}"),
            portable("foreach: {var: a, in: [b], steps: [{command: {run: \"test -e {a}\"}}]}"),
        ),
        (
            steps("  verify:\n    - script: {path: verify.sh}\n  teardown: []"),
            steps("  verify:\n    - script: {file: verify.sh}\n  cleanup: []"),
        ),
        (steps("  verify:\n    - run: {inline: test -e a}"), steps("  verify:\n    - script: {inline: test -e a}")),
        (
            legacy("  verify: {run: test -e a}\n  teardown: {inline: rm a}"),
            legacy("  verify: {inline: test -e a}\n  cleanup: {inline: rm a}"),
        ),
    ] {
        world.write("evals/tasks/a/task.yaml", &written);
        let ran = world.run(&["check", "evals/tasks/a/task.yaml", "--fix"]);
        assert_eq!(world.read("evals/tasks/a/task.yaml"), meant, "{}", ran.out);
    }
    let eval = |rest: &str| {
        format!(
            "kind: Eval\nmetadata: {{name: e}}\nconfig:\n  agent: {{type: builtin.noop}}\n  taskSets:\n    - {rest}\n"
        )
    };
    for (written, meant) in [
        (
            "{file: evals/tasks/a/task.yaml, assertions: {maxCalls: 3}}",
            "{path: evals/tasks/a/task.yaml, assertions: {maxToolCalls: 3}}",
        ),
        (
            "{path: evals/tasks/a/task.yaml, assertions: {toolsUsed: [{server: demo, name: a, args: {b: c}}]}}",
            "{path: evals/tasks/a/task.yaml, assertions: {toolsUsed: [{server: demo, tool: a, argumentsMatch: {b: c}}]}}",
        ),
    ] {
        world.write("other.yaml", &eval(written));
        let ran = world.run(&["check", "other.yaml", "--fix"]);
        assert_eq!(world.read("other.yaml"), eval(meant), "{}", ran.out);
    }
}

/// If no key has this meaning here, the message explains what to write instead.
#[test]
fn a_message_says_what_to_write_instead() {
    let world = suite();
    let says = |file: &str, said: &str| {
        let ran = world.run(&["check", file]).expect(1, &[]);
        // Long lines are wrapped.
        let words = ran.out.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains(said), "{said}: {}", ran.out);
    };
    let head = "kind: Task\napiVersion: mcp-eval/v1\nmetadata: {name: a}\nspec:\n  prompt: Go.\n";
    let steps = "kind: Task\napiVersion: mcpchecker/v1alpha2\nmetadata: {name: a}\nspec:\n  prompt: {inline: Go.}\n";
    let legacy = "kind: Task\nmetadata: {name: a}\nsteps:\n  prompt: {inline: Go.}\n";
    for (text, said) in [
        (format!("{head}  verify:\n    - test -d /\n"), "write `command: {run: \"test -d /\"}`"),
        (format!("{head}  verify:\n    - command: {{run: ls, expect: {{contains: a}}}}\n"), "`stdout: {contains: …}`"),
        (
            format!("{head}  verify:\n    - command: {{run: ls, retries: 3}}\n"),
            "`eventually: {timeout: 1m, steps: […]}`",
        ),
        (
            format!("{head}  verify:\n    - command: {{run: ls, env: [A=b]}}\n"),
            "write `KEY: VALUE` on each line, without `- `",
        ),
        (format!("{head}  verify:\n    - file: {{path: a, exists: true}}\n"), "`expect: {exists: true}`"),
        (format!("{steps}  verify:\n    - test -d /\n"), "write `script: {inline: \"test -d /\"}`"),
        (
            format!("{steps}  timeout: 5m\n  verify:\n    - script: {{inline: test -d /}}\n"),
            "write `limits: {timeout: …}`",
        ),
        (format!("{steps}  verify:\n    - llmJudge: {{criteria: it is so}}\n"), "write `contains: …`"),
        (format!("{steps}  verify: test -d /\n"), "start each item with `- `, or write `[…, …]`"),
        (format!("{legacy}  verify: {{llmJudge: {{contains: a}}}}\n"), "use `contains` or `exact`"),
    ] {
        world.write("evals/tasks/a/task.yaml", &text);
        world.run(&["check", "evals/tasks/a/task.yaml"]).expect(1, &[said]);
    }
    let eval =
        |agent: &str, rest: &str| format!("kind: Eval\nmetadata: {{name: e}}\nconfig:\n  agent: {agent}\n{rest}\n");
    let (noop, sets) = ("{type: builtin.noop}", "  taskSets: [{path: evals/tasks/a/task.yaml}]");
    world.write("evals/tasks/a/task.yaml", &task("a"));
    for (text, said) in [
        (eval("{type: acp, cmd: a}", sets), "a file of kind `Agent` with `acp: {cmd: …}`"),
        (
            eval("{type: builtin.llm-agent, model: anthropic/claude-sonnet-4-5}", sets),
            "write `anthropic:claude-sonnet-4-5`",
        ),
        (eval(noop, "  taskSets: [{path: \"evals/tasks/*.yaml\"}]"), "write `glob: \"evals/tasks/*.yaml\"`"),
        (eval(noop, "  taskSets: [{glob: evals/tasks}]"), "write `evals/tasks/*.yaml`"),
        (eval(noop, &format!("{sets}\n  timeout: 5m")), "write `defaultTaskLimits: {timeout: …}`"),
        (eval(noop, &format!("{sets}\n  llmJudge: {{model: \"openai:gpt-5\"}}")), "`ref: {type: builtin.llm-agent"),
    ] {
        world.write("other.yaml", &text);
        says("other.yaml", said);
    }
}

#[test]
fn a_misspelled_kind_is_fixed() {
    let world = suite();
    let text = task("a");
    world.write("evals/tasks/a/task.yaml", &text.replace("kind:", "kidn:"));
    world.run(&["check", "evals/eval.yaml", "--fix"]).expect(0, &["fixed 1 file"]);
    assert_eq!(world.read("evals/tasks/a/task.yaml"), text);
}

#[test]
fn a_baseline_of_three_evals_does_not_hide_findings_of_the_fourth() {
    let world = suite();
    let asking = "kind: Task\napiVersion: mcp-eval/v1\nmetadata: {name: q}\nspec:\n  prompt: Ask.\n  verify:\n    - llm: {contains: pods}\n    - command: {run: test -e a}\n";
    world.write("q/task.yaml", asking);
    let eval = |name: &str| {
        format!(
            "kind: Eval\nmetadata: {{name: {name}}}\nconfig:\n  agent: {{type: builtin.claude-code}}\n  taskSets: [{{path: task.yaml}}]\n"
        )
    };
    for name in ["one", "two", "three"] {
        world.write(&format!("q/{name}.yaml"), &eval(name));
    }
    world.run(&["check", "q", "--format", "concise"]).expect(1, &["q/one.yaml:3:1", "found 3 errors in 4 files"]);
    world.run(&["check", "q", "--write-baseline", "known.json"]).expect(0, &["3 findings"]);
    world.run(&["check", "q", "--baseline", "known.json"]).expect(0, &["known and not shown: 3 findings"]);
    world.run(&["check", "q", "--write-baseline", "known.json"]).expect(0, &["3 findings"]);
    world.run(&["check", "q", "--write-baseline", "q/one.yaml"]).expect(2, &["`q/one.yaml` already exists"]);
    assert_eq!(world.read("q/one.yaml"), eval("one"));
    world.write("q/four.yaml", &eval("four"));
    let ran = world.run(&["check", "q", "--baseline", "known.json", "--format", "concise"]);
    ran.expect(1, &["q/four.yaml:3:1: error[no-judge]", "found 1 error in 5 files"]);
}

#[test]
fn the_same_finding_in_several_evals_is_reported_once_with_all_locations() {
    let task = "kind: Task\napiVersion: mcp-eval/v1\nmetadata: {name: q}\nspec: {prompt: Ask., verify: [{command: {run: test -e a}}]}\n";
    let eval = |name: &str| {
        format!(
            "kind: Eval\nmetadata: {{name: {name}}}\nconfig:\n  agent: {{type: builtin.llm-agent, model: \"openai:x\"}}\n  llmJudge:\n    ref: {{type: builtin.llm-agent, model: \"openai:x\"}}\n  taskSets: [{{path: task.yaml}}]\n"
        )
    };
    let world = World::new(&[("task.yaml", task)]);
    for n in 1..=8 {
        world.write(&format!("e{n}.yaml"), &eval(&format!("e{n}")));
    }
    let checked = |args: &[&str]| world.run(&[&["check", "."], args].concat()).out;
    let text = checked(&[]);
    assert_eq!(text.matches("warning[judge-is-agent]").count(), 1, "{text}");
    assert!(text.contains("also at e2.yaml:6:10, e3.yaml:6:10") && text.contains("and 2 more"), "{text}");
    assert!(text.ends_with("found 1 warning (at 8 places) in 9 files\n"), "{text}");
    let lines = checked(&["--format", "concise"]);
    assert!(
        lines.starts_with("e1.yaml:6:10: warning[judge-is-agent] ") && lines.contains("(also at e2.yaml:6:10"),
        "{lines}"
    );
    let json: serde_json::Value = serde_json::from_str(&checked(&["--format", "json"])).unwrap();
    let found = json["diagnostics"].as_array().unwrap();
    assert!(found.len() == 1 && found[0]["places"].as_array().unwrap().len() == 7, "{json}");
    assert_eq!(found[0]["places"][6]["path"], "e8.yaml");
    let sarif: serde_json::Value = serde_json::from_str(&checked(&["--format", "sarif"])).unwrap();
    let results = &sarif["runs"][0]["results"];
    let again = |l: &&serde_json::Value| l["message"]["text"] == "also here";
    assert_eq!(results.as_array().unwrap().len(), 1);
    assert_eq!(results[0]["relatedLocations"].as_array().unwrap().iter().filter(again).count(), 7);
    for format in ["github", "junit"] {
        let out = checked(&["--format", format]);
        let all = (2..=8).all(|n| out.contains(&format!("e{n}.yaml:6:10")));
        assert!(all && out.matches("judges its own answers").count() == 1, "{out}");
    }
    assert!(checked(&["--statistics"]).starts_with("     8  judge-is-agent\n"));
    // An allowed place does not count; a baseline contains each place separately; errors are not merged.
    world.write("e8.yaml", &eval("e8").replace("    ref:", "    # gevals: allow(judge-is-agent)\n    ref:"));
    assert!(checked(&["--write-baseline", "known.json"]).starts_with("1 finding (at 7 places) written"));
    assert!(
        checked(&["--baseline", "known.json"]).contains("known and not shown: 1 finding (at 7 places)\nno findings")
    );
    world.write("e9.yaml", &eval("e9"));
    let new = checked(&["--baseline", "known.json", "--format", "concise"]);
    assert!(
        new.starts_with("e9.yaml:6:10: warning[judge-is-agent]") && new.contains("found 1 warning in 10 files"),
        "{new}"
    );
    let denied = checked(&["-D", "judge-is-agent"]);
    assert!(denied.contains("found 8 errors in 10 files"), "{denied}");
}

#[test]
fn write_errors_are_reported() {
    let world = suite();
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let mut command = world.command(&["check", "evals/eval.yaml"]);
    command.stdout(full);
    let ran = command.output().unwrap();
    assert_eq!(ran.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&ran.stderr).contains("cannot write to standard output"));
}

#[test]
fn foreign_files_in_a_repository_are_ignored() {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/foreign.md")).unwrap();
    let kinds: Vec<(&str, String)> = page
        .split("\n```")
        .filter_map(|block| {
            let (fence, text) = block.split_once('\n')?;
            let (_, path) = fence.split_once(' ').filter(|(language, _)| ["yaml", "json"].contains(language))?;
            Some((path, format!("{text}\n")))
        })
        .collect();
    assert!(kinds.len() >= 30, "{}", kinds.len());
    let world = World::new(&[]);
    let mut written = 0;
    for n in 0..10 {
        for (path, text) in &kinds {
            // Realistic differences: line endings, a comment or a marker before the text.
            let text = text.replace('N', &format!("n{n}"));
            let text = match n % 5 {
                1 => text.replace('\n', "\r\n"),
                2 if path.ends_with("yaml") || path.ends_with("yml") => format!("---\n{text}"),
                3 if path.ends_with("yaml") || path.ends_with("yml") => format!("# kind: Task\n\n{text}"),
                4 => format!("\u{feff}{text}"),
                _ => text,
            };
            world.write(&path.replace('N', &format!("n{n}")), &text);
            written += 1;
        }
    }
    assert!(written >= 400, "{written}");
    // A glob matches the same files as a search of the directory.
    world.write("t.yaml", &task("t").replace("file: verify.sh", "inline: test -d /"));
    let glob = "kind: Eval\nmetadata: {name: e}\nconfig:\n  agent: {type: builtin.noop}\n  taskSets: [{glob: \"**/*.{yaml,yml,json}\"}]\n";
    world.write("eval.yaml", glob);
    let ran = world.run(&["check", ".", "-v"]).expect(0, &["no findings in 2 files"]);
    // Hidden directories are not searched.
    let shown = ran.out.matches("skipped: ").count();
    assert!(shown >= written, "{shown} of {written}\n{}", ran.out);
}

/// A package that is named only in the long form of an operation is locked like an imported one.
#[test]
fn packages_named_in_the_long_form_are_locked() {
    let task = "kind: Task\napiVersion: mcp-eval/v1\nmetadata: {name: t}\nspec:\n  prompt: Write a.txt.\n  verify:\n    - extension: {package: ./ext, action: read, args: {name: a.txt}}\n";
    let world = World::new(&[
        (
            "eval.yaml",
            "kind: Eval\nmetadata: {name: e}\nconfig:\n  agent: {type: builtin.noop}\n  taskSets: [{path: t.yaml}]\n",
        ),
        ("t.yaml", task),
        (
            "ext/extension.yaml",
            "name: files\nversion: 1.0.0\nchecks:\n- {name: read, args: {name: {type: string, required: true}}, outputs: {stdout: {type: string}}}\n",
        ),
    ]);
    world.run(&["check", "eval.yaml"]).expect(0, &["no lock file describes the extension `./ext`"]);
    world.run(&["lock", "eval.yaml"]).expect(0, &["locked 1 operation of 1 extension in gevals.lock"]);
    world.run(&["check", "eval.yaml"]).expect(0, &["no findings"]);
    world.write("t.yaml", &task.replace("{name: a.txt}", "{nmae: a.txt}"));
    world.run(&["check", "eval.yaml"]).expect(1, &["nmae"]);
}

#[test]
fn sarif_has_help_pages_fixes_and_stable_fingerprints() {
    let task = "kind: Task\napiVersion: mcp-eval/v1\nmetadata: {name: t}\nspec:\n  prompt: Do it.\n  verfy: []\n";
    let world = World::new(&[("a b.yaml", task)]);
    let results = || {
        let log: serde_json::Value =
            serde_json::from_str(&world.run(&["check", ".", "--format", "sarif"]).out).unwrap();
        let driver = &log["runs"][0]["tool"]["driver"];
        assert!(driver["informationUri"].as_str().unwrap().starts_with("https://"), "{driver}");
        for rule in driver["rules"].as_array().unwrap() {
            let page = format!("/lints/{}.md", rule["id"].as_str().unwrap());
            assert!(rule["helpUri"].as_str().unwrap().ends_with(&page), "{rule}");
        }
        log["runs"][0]["results"].as_array().unwrap().clone()
    };
    let of_rule =
        |results: &[serde_json::Value]| results.iter().find(|r| r["ruleId"] == "unknown-field").unwrap().clone();
    let print =
        |result: &serde_json::Value| result["partialFingerprints"]["gevalsFinding/v1"].as_str().unwrap().to_owned();
    let all = results();
    let first = of_rule(&all);
    let change = &first["fixes"][0]["artifactChanges"][0];
    assert_eq!(change["artifactLocation"]["uri"], "a%20b.yaml");
    let region = serde_json::json!({"startLine": 6, "startColumn": 3, "endLine": 6, "endColumn": 8});
    assert_eq!(
        change["replacements"][0],
        serde_json::json!({"deletedRegion": region, "insertedContent": {"text": "verify"}})
    );
    // If the line moves, the finding stays the same; another key is another finding.
    world.write("a b.yaml", &format!("# One.\n# Two.\n{task}"));
    let moved = of_rule(&results());
    assert_eq!(
        (print(&moved), &moved["locations"][0]["physicalLocation"]["region"]["startLine"]),
        (print(&first), &8.into())
    );
    world.write("a b.yaml", &task.replace("verfy", "verifi"));
    assert_ne!(print(&of_rule(&results())), print(&first));
    // A finding that occurs twice has two fingerprints.
    world.write(
        "a b.yaml",
        &task.replace(
            "  verfy: []\n",
            "  verify:\n    - command: {run: test -e x, rnu: a}\n    - command: {run: test -e x, rnu: a}\n",
        ),
    );
    let twice: std::collections::BTreeSet<_> = results().iter().map(print).collect();
    assert_eq!(twice.len(), results().len());
    assert!(twice.len() >= 2, "{twice:?}");
}
