//! Nothing outside the project is read or quoted, and only regular files of a reasonable size are read.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use crate::support::world::{Ran, World};

/// Occurs in every file outside the repository, as a name as well.
const SECRET: &str = "Zq7-beyond-the-root";

const TASK: &str = "kind: Task\napiVersion: mcp-eval/v1\nmetadata: {name: web}\nspec:\n  prompt: Do it.\n  verify:\n    - command: {run: test -e web}\n";

/// A repository `repo` with a complete project, and beside it `beyond` with files that could replace each of its files.
fn repository() -> World {
    let world = World::new(&[]);
    fs::create_dir_all(world.path("repo/.git")).unwrap();
    world.write("repo/tasks/web.yaml", TASK);
    world.write("repo/prompt.md", "Do it.\n");
    world.write("repo/eval.yaml", &eval("agent: {type: builtin.noop}\n"));
    let task = format!(
        "kind: Task\napiVersion: mcp-eval/v1\nmetadata: {{name: {SECRET}}}\nspec:\n  prompt: {SECRET}\n  verify:\n    - command: {{run: echo {SECRET}}}\n"
    );
    let agent =
        format!("kind: Agent\nmetadata: {{name: {SECRET}}}\nbuiltin: {{type: llm-agent, model: 'openai:{SECRET}'}}\n");
    let server = format!("{{\"mcpServers\": {{\"{SECRET}\": {{\"command\": \"{SECRET}\"}}}}}}");
    let recording = format!(
        "{{\"type\":\"recording\",\"version\":1,\"run\":\"{SECRET}\",\"eval\":\"e\",\"planDigest\":\"\",\"at\":\"2026-01-01T00:00:00Z\"}}\n"
    );
    for (name, text) in [
        ("secret.txt", format!("{SECRET}: {SECRET}\n")),
        ("run.sh", format!("#!/bin/sh\necho {SECRET}\n")),
        ("tasks/task.yaml", task),
        ("agent.yaml", agent),
        ("oracle.yaml", format!("kind: Oracle\ntasks: {{web: {{output: {SECRET}}}}}\n")),
        ("mcp.json", server),
        ("recording.jsonl", recording),
        ("skills/a/SKILL.md", format!("---\nname: {SECRET}\n---\n{SECRET}\n")),
        ("gevals.toml", format!("exclude = ['{SECRET}']\n[rules]\n\"{SECRET}\" = 'off'\n")),
        ("gevals.lock", format!("{SECRET}: [\n")),
        (&format!("secret.txt.{SECRET}"), String::new()),
    ] {
        world.write(&format!("beyond/{name}"), &text);
    }
    world
}

fn eval(config: &str) -> String {
    let config: String = config.lines().map(|line| format!("  {line}\n")).collect();
    let sets = if config.contains("taskSets") { "" } else { "  taskSets: [{path: tasks/web.yaml}]\n" };
    format!("kind: Eval\nmetadata: {{name: web}}\nconfig:\n{config}{sets}")
}

fn portable(verify: &str, prompt: &str) -> String {
    format!(
        "kind: Task\napiVersion: mcp-eval/v1\nmetadata: {{name: web}}\nspec:\n  prompt: {prompt}\n  verify:\n    - {verify}\n"
    )
}

fn at(world: &World, dir: &str, args: &[&str]) -> Ran {
    let mut command = world.command(args);
    command.current_dir(world.path(dir));
    world.start(command).end()
}

#[track_caller]
fn keeps_quiet(ran: &Ran, what: &str) {
    let said = format!("{}{}", ran.out, ran.err);
    assert!(!said.contains(SECRET), "{what} quotes what lies beyond:\n{said}");
}

/// For each reader: what it reads from `beyond`, and the files of the repository that refer to it as PATH.
fn readers() -> Vec<(&'static str, &'static str, Vec<(&'static str, String)>)> {
    let skilled = "agent: {type: builtin.claude-code}\nskills: {sources: [{type: path, path: 'PATH'}]}\n";
    vec![
        ("prompt", "secret.txt", vec![("tasks/web.yaml", portable("command: {run: 'true'}", "{file: 'PATH'}"))]),
        ("script", "run.sh", vec![("tasks/web.yaml", portable("script: {file: 'PATH'}", "Do it."))]),
        (
            "legacy script",
            "run.sh",
            vec![(
                "tasks/web.yaml",
                "kind: Task\nmetadata: {name: web}\nsteps:\n  verify: {file: 'PATH'}\n  prompt: {inline: x}\n"
                    .to_owned(),
            )],
        ),
        (
            "task",
            "tasks/task.yaml",
            vec![("eval.yaml", eval("agent: {type: builtin.noop}\ntaskSets: [{path: 'PATH'}]\n"))],
        ),
        (
            "tasks",
            "tasks",
            vec![("eval.yaml", eval("agent: {type: builtin.noop}\ntaskSets: [{glob: 'PATH/*.yaml'}]\n"))],
        ),
        ("agent", "agent.yaml", vec![("eval.yaml", eval("agent: {type: file, path: 'PATH'}\n"))]),
        ("oracle", "oracle.yaml", vec![("eval.yaml", eval("agent: {type: builtin.script, path: 'PATH'}\n"))]),
        ("recording", "recording.jsonl", vec![("eval.yaml", eval("agent: {type: builtin.replay, path: 'PATH'}\n"))]),
        (
            "judge",
            "agent.yaml",
            vec![("eval.yaml", eval("agent: {type: builtin.noop}\nllmJudge: {ref: {type: file, path: 'PATH'}}\n"))],
        ),
        ("servers", "mcp.json", vec![("eval.yaml", eval("agent: {type: builtin.noop}\nmcpConfigFile: 'PATH'\n"))]),
        ("skills", "skills", vec![("eval.yaml", eval(skilled))]),
    ]
}

#[test]
fn no_file_outside_of_the_root_is_quoted() {
    for (what, target, files) in readers() {
        let beyond = |world: &World| world.path("beyond").join(target);
        for way in ["absolute", "climbing", "a link", "a linked folder"] {
            let world = repository();
            let from = files[0].0.rsplit_once('/').map_or("", |_| "../");
            let path = match way {
                "absolute" => beyond(&world).display().to_string(),
                "climbing" => format!("{from}../beyond/{target}"),
                "a link" => {
                    symlink(beyond(&world), world.path("repo/innocent")).unwrap();
                    format!("{from}innocent")
                }
                _ => {
                    symlink(world.path("beyond"), world.path("repo/folder")).unwrap();
                    format!("{from}folder/{target}")
                }
            };
            for (file, text) in &files {
                world.write(&format!("repo/{file}"), &text.replace("PATH", &path));
            }
            let file = files[0].0;
            for args in [
                &["check", file][..],
                &["check", "--format", "json", "."],
                &["check", "--fix", "--unsafe-fixes", "--dry-run", file],
                &["plan", file],
                &["plan", file, "--format", "json"],
                &["plan", file, "--format", "html"],
                &["convert", file],
                &["run", "eval.yaml"],
                &["lock", "eval.yaml"],
            ] {
                let ran = at(&world, "repo", args);
                let what = format!("{what} by {way}: gevals {}", args.join(" "));
                keeps_quiet(&ran, &what);
                let said = format!("{}{}", ran.out, ran.err);
                if args.contains(&"--dry-run") {
                    // There is nothing to fix.
                    assert_eq!(said, "", "{what}");
                } else if !matches!(args[0], "convert" | "lock") {
                    assert!(said.contains("outside-project"), "{what}:\n{said}");
                    let expected = if args[0] == "check" { 1 } else { 2 };
                    assert_eq!(ran.code, Some(expected), "{what}:\n{said}");
                }
            }
            // The same with the whole disk as the project: so the check of the location refuses the file, not a mistake
            // in the files.
            if way != "a linked folder" {
                let ran = at(&world, "repo", &["check", file, "--root", "/"]);
                assert!(!format!("{}{}", ran.out, ran.err).contains("outside-project"), "{what} by {way}: {}", ran.out);
            }
        }
    }
}

#[test]
fn errors_do_not_reveal_whether_a_file_outside_of_the_root_exists() {
    let world = repository();
    let said = |path: &str| {
        world.write("repo/tasks/web.yaml", &portable("command: {run: 'true'}", &format!("{{file: '{path}'}}")));
        let ran = at(&world, "repo", &["check", "tasks/web.yaml"]);
        keeps_quiet(&ran, path);
        ran.out
            .replace(path.trim_start_matches("../"), "PATH")
            .lines()
            .filter(|line| !line.contains("web.yaml") && !line.contains('─'))
            .collect::<Vec<_>>()
            .join("\n")
    };
    // An existing file, a missing one, a directory, a similar name: the message is the same.
    let there = said("../../beyond/secret.txt");
    assert!(there.contains("outside-project"), "{there}");
    for path in ["../../beyond/secret.tx", "../../nowhere/secret.txt", "../../beyond", "../../beyond/secret.txt/x"] {
        assert_eq!(said(path), there, "{path}");
    }
}

#[test]
fn links_in_a_searched_folder_are_not_followed_out_of_the_root() {
    for (what, target, link) in [
        ("a task", "beyond/tasks/task.yaml", "tasks/other.yaml"),
        ("an agent", "beyond/agent.yaml", "agent.yaml"),
        ("levels", "beyond/gevals.toml", "gevals.toml"),
        ("a lock", "beyond/gevals.lock", "gevals.lock"),
        ("a text", "beyond/secret.txt", "tasks/secret.yaml"),
    ] {
        let world = repository();
        symlink(world.path(target), world.path("repo").join(link)).unwrap();
        for args in [&["check"][..], &["check", "--format", "sarif"], &["plan", "."], &["run", "eval.yaml"]] {
            let ran = at(&world, "repo", args);
            keeps_quiet(&ran, what);
            let said = format!("{}{}", ran.out, ran.err);
            let reads = args[0] != "run" || matches!(what, "levels" | "a lock");
            assert_eq!(said.contains("outside-project"), reads, "{what}: {args:?}\n{said}");
        }
    }
    // A linked directory is skipped, and reported.
    let world = repository();
    symlink(world.path("beyond"), world.path("repo/beyond")).unwrap();
    let ran = at(&world, "repo", &["check", "--verbose"]).expect(0, &["skipped: beyond\n"]);
    keeps_quiet(&ran, "check");
    world.write("repo/eval.yaml", &eval("agent: {type: builtin.noop}\ntaskSets: [{glob: '**/*.yaml'}]\n"));
    let ran = at(&world, "repo", &["check", "eval.yaml"]).expect(1, &["outside-project", "the folder `beyond`"]);
    keeps_quiet(&ran, "check");
}

#[test]
fn files_named_in_results_are_not_shown_if_outside_of_the_root() {
    let world = repository();
    let task = world.path("beyond/tasks/task.yaml").display().to_string();
    let inside = world.path("repo/tasks/web.yaml").display().to_string();
    for (path, shown) in [(task, false), (inside, true)] {
        world.write("repo/out.json", &format!(r#"[{{"taskName": "a", "taskPath": "{path}", "taskPassed": true}}]"#));
        let ran = at(&world, "repo", &["result", "view", "out.json"]).expect(0, &[]);
        keeps_quiet(&ran, "result view");
        assert_eq!(ran.out.contains("Do it."), shown, "{}", ran.out);
    }
}

#[test]
fn conversion_copies_no_file_from_outside_of_the_root() {
    let world = repository();
    symlink(world.path("beyond/secret.txt"), world.path("repo/tasks/data.txt")).unwrap();
    symlink(world.path("beyond"), world.path("repo/tasks/data")).unwrap();
    world.write("repo/tasks/web.yaml", &portable("command: {run: 'cat data.txt data/secret.txt'}", "Do it."));
    let ran = at(&world, "repo", &["convert", "tasks/web.yaml", "--out", "new", "--no-verify"]);
    keeps_quiet(&ran, "convert");
    assert!(ran.err.contains("was not copied"), "{}{}", ran.out, ran.err);
    let copied = walk(&world.path("repo/new"));
    assert!(copied.iter().any(|path| path.ends_with("web.yaml")), "{copied:?}");
    for path in copied {
        assert!(!String::from_utf8_lossy(&fs::read(&path).unwrap()).contains(SECRET), "{}", path.display());
    }
}

fn walk(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
}

#[test]
fn files_anywhere_in_the_project_are_read() {
    let world = repository();
    let agent = "kind: Agent\nmetadata: {name: shared}\ncommands: {runPrompt: 'touch web; echo {{ .Prompt }}'}\n";
    world.write("repo/shared/agent.yaml", agent);
    world.write(
        "repo/suites/one/eval.yaml",
        &eval("agent: {type: file, path: ../../shared/agent.yaml}\ntaskSets: [{glob: ../../tasks/*.yaml}]\n"),
    );
    // One eval for two suites through a link, each with its own agent file beside it.
    fs::create_dir_all(world.path("repo/suites/two")).unwrap();
    symlink("../three/eval.yaml", world.path("repo/suites/two/eval.yaml")).unwrap();
    world.write(
        "repo/suites/three/eval.yaml",
        &eval("agent: {type: file, path: agent.yaml}\ntaskSets: [{glob: ../../tasks/*.yaml}]\n"),
    );
    for suite in ["two", "three"] {
        world.write(&format!("repo/suites/{suite}/agent.yaml"), &agent.replace("shared", suite));
    }
    symlink("../tasks", world.path("repo/suites/tasks")).unwrap();
    for suite in ["one", "two", "three"] {
        let path = format!("suites/{suite}/eval.yaml");
        at(&world, "repo", &["plan", &path]).expect(0, &["web"]);
        // From the suite's own directory, and from anywhere with its full path.
        at(&world, &format!("repo/suites/{suite}"), &["plan", "eval.yaml"]).expect(0, &["web"]);
        let whole = world.path(&format!("repo/{path}")).display().to_string();
        at(&world, "tmp", &["plan", &whole]).expect(0, &["web"]);
    }
    at(&world, "repo", &["check", "."]);
    at(&world, "repo", &["plan", "suites/tasks"]).expect(0, &["web"]);
    // A task file at an arbitrary location.
    let task = world.path("beyond/tasks/task.yaml").display().to_string();
    at(&world, "repo", &["plan", &task]).expect(0, &[SECRET]);
    // Files that the command line itself names.
    let beyond = |name: &str| world.path(&format!("beyond/{name}")).display().to_string();
    world.write("beyond/fine.yaml", &agent.replace("shared", "from elsewhere"));
    let ran = at(
        &world,
        "repo",
        &["run", "eval.yaml", "--agent", &beyond("fine.yaml"), "--mcp-config-file", &beyond("mcp.json")],
    );
    assert!(!format!("{}{}", ran.out, ran.err).contains("outside-project"), "{}{}", ran.out, ran.err);
}

#[test]
fn a_project_without_a_repository_has_a_root() {
    let world = World::new(&[("suite/eval.yaml", ""), ("shared/tasks/web.yaml", TASK)]);
    let text = eval("agent: {type: builtin.noop}\ntaskSets: [{glob: ../shared/tasks/*.yaml}]\n");
    world.write("suite/eval.yaml", &text);
    // The root is the current directory, if it contains what is named.
    at(&world, ".", &["plan", "suite/eval.yaml"]).expect(0, &["web"]);
    // From within the suite, it is the suite's directory; the help explains what to do.
    at(&world, "suite", &["plan", "eval.yaml"]).expect(2, &["outside-project", "--root DIR"]);
    at(&world, "suite", &["plan", "eval.yaml", "--root", ".."]).expect(0, &["web"]);
    at(&world, "suite", &["plan", "eval.yaml", "--root", "nowhere"]).expect(2, &["the root `nowhere`"]);
    // A directory with `gevals.toml` is the root.
    world.write("gevals.toml", "");
    at(&world, "suite", &["plan", "eval.yaml"]).expect(0, &["web"]);
}

#[test]
fn fixes_are_never_written_through_links() {
    let world = repository();
    let crooked = TASK.replace("prompt:", "promt:");
    for (from, link, linked) in [
        ("repo/elsewhere/task.yaml", "repo/tasks/linked.yaml", "tasks/linked.yaml"),
        ("repo/elsewhere", "repo/tasks/folder", "tasks/folder/task.yaml"),
    ] {
        world.write("repo/elsewhere/task.yaml", &crooked);
        symlink(world.path(from), world.path(link)).unwrap();
        let ran = at(&world, "repo", &["check", "--fix", linked]);
        assert_eq!(world.read("repo/elsewhere/task.yaml"), crooked, "{}{}", ran.out, ran.err);
        assert!(world.path(link).is_symlink());
        assert!(ran.err.contains("is a symbolic link"), "{}{}", ran.out, ran.err);
        assert_eq!(ran.code, Some(1));
        let ran = at(&world, "repo", &["convert", "--in-place", "--no-verify", linked]);
        assert_ne!(ran.code, Some(0), "{}{}", ran.out, ran.err);
        assert_eq!(world.read("repo/elsewhere/task.yaml"), crooked);
    }
    // With its real path, it is fixed.
    at(&world, "repo", &["check", "--fix", "elsewhere/task.yaml"]);
    assert!(world.read("repo/elsewhere/task.yaml").contains("  prompt:"));
}

/// Creates something that is not a regular file of reasonable size at a path.
fn odd(kind: &str, path: &Path) {
    match kind {
        "a pipe" => assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success()),
        "a socket" => drop(std::os::unix::net::UnixListener::bind(path).unwrap()),
        "a device" => symlink("/dev/zero", path).unwrap(),
        _ => fs::File::create(path).unwrap().set_len(300 << 20).unwrap(),
    }
}

#[test]
fn every_reader_rejects_special_and_oversized_files() {
    for kind in ["a pipe", "a socket", "a device", "larger than 256 MiB"] {
        // Files that the project refers to.
        for (what, _, files) in readers() {
            let world = repository();
            match what {
                "tasks" | "skills" => {
                    fs::create_dir(world.path("repo/odd")).unwrap();
                    odd(kind, &world.path(if what == "tasks" { "repo/odd/x.yaml" } else { "repo/odd/SKILL.md" }));
                }
                _ => odd(kind, &world.path("repo/odd")),
            }
            let from = files[0].0.rsplit_once('/').map_or("", |_| "../");
            for (file, text) in &files {
                world.write(&format!("repo/{file}"), &text.replace("PATH", &format!("{from}odd")));
            }
            // A device belongs to the system, and is outside the root.
            for root in if kind == "a device" { &[".", "/"][..] } else { &["."] } {
                let ran = at(&world, "repo", &["check", "eval.yaml", "--root", root]);
                let said = format!("{}{}", ran.out, ran.err);
                assert_eq!(ran.code, Some(1), "{what}, {kind}: {said}");
                let told = if *root == "." && kind == "a device" { "outside-project" } else { kind };
                assert!(said.contains(told), "{what}, {kind}: {said}");
            }
        }
        // Files that are found by searching, and those that the command line names.
        let world = repository();
        for name in ["odd.yaml", "gevals.toml", "gevals.lock"] {
            let path = world.path("repo").join(name);
            odd(kind, &path);
            let ran = at(&world, "repo", &["check", "--root", "/"]);
            let said = format!("{}{}", ran.out, ran.err);
            assert!(matches!(ran.code, Some(1 | 2)) && said.contains(kind), "{name}, {kind}: {said}");
            fs::remove_file(path).unwrap();
        }
        odd(kind, &world.path("repo/odd"));
        for args in [
            &["check", "odd"][..],
            &["check", "--baseline", "odd"],
            &["plan", "odd"],
            &["plan", "eval.yaml", "--results", "odd"],
            &["convert", "odd"],
            &["run", "odd"],
            &["run", "eval.yaml", "--agent", "odd"],
            &["run", "eval.yaml", "--mcp-config-file", "odd"],
            &["run", "eval.yaml", "--prices", "odd"],
            &["lock", "odd"],
            &["result", "view", "odd"],
            &["result", "summary", "odd"],
            &["result", "verify", "odd"],
            &["result", "diff", "odd", "odd"],
            &["result", "convert", "junit", "odd"],
            &["result", "merge", "odd"],
            &["new", "eval", "other", "--from-server", "true", "--from-recording", "odd"],
        ] {
            let ran = at(&world, "repo", args);
            let said = format!("{}{}", ran.out, ran.err);
            assert!(matches!(ran.code, Some(1 | 2)), "{args:?}, {kind}: {said}");
            assert!(
                said.contains(kind) || kind == "a device" && said.contains("path outside the project"),
                "{args:?}, {kind}: {said}"
            );
            assert!(ran.peak < 200 << 10, "{args:?}, {kind}: {} KiB", ran.peak);
        }
    }
}

#[test]
fn cyclic_links_terminate() {
    let world = repository();
    for (target, link) in
        [(".", "self"), ("..", "tasks/up"), ("tasks", "a"), ("../b", "tasks/b"), ("a", "b"), ("/", "disk")]
    {
        symlink(target, world.path("repo").join(link)).unwrap();
    }
    // Directories that each contain two links to the next one: 2^24 paths without a limit.
    for nth in 0..24 {
        let dir = world.path(&format!("repo/deep/{nth}"));
        fs::create_dir_all(&dir).unwrap();
        for link in ["x", "y"] {
            symlink(format!("../{}", nth + 1), dir.join(link)).unwrap();
        }
    }
    world.write("repo/deep/24/task.yaml", &TASK.replace("web", "deep"));
    let ran = at(&world, "repo", &["check", "--format", "json"]);
    assert!(matches!(ran.code, Some(0 | 1)), "{}{}", ran.out, ran.err);
    let ran = at(&world, "repo", &["check", "--verbose"]);
    assert!(ran.out.contains("skipped: self\n") && ran.out.contains("skipped: disk\n"), "{}", ran.out);
    // Cycles contain nothing new; paths that are too long are reported.
    world.write("repo/eval.yaml", &eval("agent: {type: builtin.noop}\ntaskSets: [{glob: 'tasks/**/*.yaml'}]\n"));
    at(&world, "repo", &["plan", "eval.yaml"]).expect(0, &["web"]);
    world.write("repo/eval.yaml", &eval("agent: {type: builtin.noop}\ntaskSets: [{glob: 'deep/**/*.yaml'}]\n"));
    at(&world, "repo", &["plan", "eval.yaml"]).expect(2, &["it lies behind more"]);
}
