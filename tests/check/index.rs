//! The index that `gevals check` keeps of each task: after edits, only what they affect is compiled, and the output is
//! the same as without the index.

use std::{fs, os::unix::fs::symlink, thread::sleep};

use fastrand::Rng;

use super::{
    EVAL, MCP,
    kept::{SETTLED, ask, kept, same, told},
    world::World,
};

/// Number of suites, and number of edits in each.
const SUITES: u64 = 6;
const EDITS: usize = 10;

const TASKS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

/// Edits of tasks: the first text is replaced by the second.
const IN_TASKS: [(&str, &str); 23] = [
    ("Do it", "Do it well"),
    ("spec:", "spec:\n  tiemout: 5s"),
    ("  tiemout: 5s\n", ""),
    ("  tiemout", "  # gevals: allow(unknown-field)\n  tiemout"),
    ("spec:", "# gevals: allow(unset-variable)\nspec:"),
    ("kind: Task", "kind: Task\n# a line more"),
    ("name: ", "name: other-"),
    ("name: other-", "name: "),
    ("name: e", "name: f"),
    ("# gevals: allow(same-resource-in-parallel-tasks)", ""),
    ("name: a", "name: b"),
    ("easy", "hard"),
    ("  difficulty: easy\n", ""),
    ("area: one", "area: two"),
    ("./verify.sh", "./verify.sh $UNSET"),
    ("./verify.sh", "bash ../../lib/common.sh; ./verify.sh"),
    ("./verify.sh", "./chekc.sh"),
    ("difficulty:", "parallel: true\n  difficulty:"),
    ("  parallel: true\n", ""),
    ("  verify:", "  setup:\n    - command: {run: kubectl create namespace shop}\n  verify:"),
    ("  requires:", "  requires:\n    - mcpServer: nowhere\n    - mcpServer: nowhere"),
    ("notes.list", "notes.add_note"),
    ("prompt: ", "prompt: '"),
];

/// Edits of scripts.
const IN_SCRIPTS: [(&str, &str); 10] = [
    ("test -d /", "test -d /nowhere"),
    ("set -e\n", ""),
    ("#!/usr/bin/env bash\n", "#!/usr/bin/env bash\nset -e\n"),
    ("test", "echo $UNSET\ntest"),
    ("test", "# gevals: allow(unset-variable)\ntest"),
    ("test", ". ../../lib/common.sh\ntest"),
    ("test", "./spare.sh\ntest"),
    ("./spare.sh\n", ""),
    ("test", "tset"),
    ("-d", "-z \"$(cat data.txt)\" -o -d"),
];

/// Half of the tasks pass a script file to their shell.
fn task(name: &str) -> String {
    if name > "c" {
        return super::task(name).replace("}\nsteps", ", difficulty: easy, labels: {area: one}}\nsteps");
    }
    format!(
        "kind: Task\napiVersion: mcp-eval/v1\nmetadata:\n  name: {name}\n  parallel: true\n  difficulty: easy\n  labels: {{area: one}}\nspec:\n  requires:\n    - mcpServer: notes\n  \
         prompt: Do it, {name}.\n  verify:\n    - notes.list: {{}}\n    - command: {{run: ./verify.sh}}\n"
    )
}

fn project() -> World {
    let second =
        EVAL.replace("{glob: tasks/*/task.yaml}", "{glob: 'tasks/{a,b,c}/*.yaml', labelSelector: {area: one}}");
    let world = World::new(&[
        ("suite/.git/HEAD", "ref: refs/heads/main\n"),
        ("suite/gevals.toml", "[rules]\nprompt-disagrees = \"error\"\n"),
        ("suite/evals/eval.yaml", EVAL),
        ("suite/evals/second.yaml", &second.replace("name: e", "name: second")),
        ("suite/evals/mcp.yaml", MCP),
        ("suite/evals/lib/common.sh", "echo $NOBODY_SETS_IT\n"),
        ("suite/evals/apart/verify.sh", "#!/usr/bin/env bash\ntest -d /\n"),
        ("suite/README.md", "# A suite\n"),
    ]);
    for name in TASKS {
        let folder = format!("suite/evals/tasks/{name}");
        world.write(&format!("{folder}/task.yaml"), &task(name));
        world.write(&format!("{folder}/data.txt"), "1\n");
        world.write(&format!("{folder}/spare.sh"), "#!/usr/bin/env bash\ntest -d /\n");
        world.write(&format!("{folder}/verify.sh"), "#!/usr/bin/env bash\nset -e\n./spare.sh\ntest -d /\n");
        world.executable(&format!("{folder}/verify.sh"));
    }
    // Two that create the same resource, which one of them allows.
    let made = "    - command: {run: kubectl create namespace market}\n";
    let allowed = format!("    # gevals: allow(same-resource-in-parallel-tasks)\n{made}");
    for (name, setup) in [("b", made), ("c", &allowed)] {
        let text = task(name).replace("  prompt:", &format!("  setup:\n{setup}  prompt:"));
        world.write(&format!("suite/evals/tasks/{name}/task.yaml"), &text);
    }
    // Two tasks with the same name.
    world.write("suite/evals/tasks/f/task.yaml", &task("e"));
    // Only another task refers to it.
    world.write("suite/evals/tasks/a/hidden.sh", "test -d /\n");
    world
        .write("suite/evals/tasks/d/verify.sh", "#!/usr/bin/env bash\nset -e\n./spare.sh\n../a/hidden.sh\ntest -d /\n");
    world.executable("suite/evals/tasks/d/verify.sh");
    // Two tasks that run the same script, one of them through a link.
    let link = world.path("suite/evals/tasks/e/verify.sh");
    fs::remove_file(&link).unwrap();
    symlink("../f/verify.sh", link).unwrap();
    symlink("tasks", world.path("suite/evals/linked")).unwrap();
    sleep(SETTLED);
    world
}

/// Edits a file of a task, and describes the edit.
fn edit(rng: &mut Rng, world: &World) -> String {
    let name = TASKS[rng.usize(..TASKS.len())];
    let (file, (old, new)) = match rng.usize(..8) {
        0..=4 => ("task.yaml", IN_TASKS[rng.usize(..IN_TASKS.len())]),
        5 => ("spare.sh", IN_SCRIPTS[rng.usize(..IN_SCRIPTS.len())]),
        _ => ("verify.sh", IN_SCRIPTS[rng.usize(..IN_SCRIPTS.len())]),
    };
    let path = world.path(&format!("suite/evals/tasks/{name}/{file}"));
    let text = fs::read_to_string(&path).unwrap_or_default();
    let text = text.replacen(old, new, 1);
    // As editors do it: in place, or by renaming another file to this name.
    match rng.bool() || path.is_symlink() {
        true => fs::write(&path, text).unwrap(),
        false => {
            let mode = fs::metadata(&path).unwrap().permissions();
            let temp = path.with_file_name(".edited");
            fs::write(&temp, text).unwrap();
            fs::set_permissions(&temp, mode).unwrap();
            fs::rename(temp, &path).unwrap();
        }
    }
    format!("{name}/{file}: {old:?} -> {new:?}")
}

#[test]
fn after_any_edits_a_check_with_an_index_equals_one_without() {
    let mut quick = 0;
    for seed in 0..SUITES {
        let mut rng = Rng::with_seed(seed);
        let world = project();
        same(&world, &["check"], "before");
        let mut edits = Vec::new();
        for _ in 0..EDITS {
            edits.push(edit(&mut rng, &world));
            sleep(SETTLED);
            let name = TASKS[rng.usize(..TASKS.len())];
            let file = ["task.yaml", "verify.sh", "spare.sh", "data.txt"][rng.usize(..4)];
            let one = format!("evals/tasks/{name}/{file}");
            let named = edits.last().and_then(|edit| edit.split_once(':')).unwrap().0;
            let edited = format!("evals/tasks/{named}");
            let question: &[&str] = match rng.usize(..6) {
                0 => &["check", "--format", "json"],
                1 => &["check", ".", "-W", "unset-variable", "--format", "concise"],
                2 => &["check", "--affected", &one],
                3 => &["check", "--affected", &edited, &one, "--format", "json"],
                _ => &["check", "--affected", &edited],
            };
            let answers = kept(&world);
            same(&world, question, &format!("seed {seed}, {edits:#?}"));
            quick += usize::from(answers == kept(&world));
        }
    }
    assert!(quick * 4 > SUITES as usize * EDITS, "{quick} times only what was edited was compiled");
}

/// A name, the edits, and the command to run after them.
type Case<'c> = (&'c str, &'c [(&'c str, &'c str, &'c str)], &'c [&'c str]);

#[test]
fn only_tasks_affected_by_an_edit_are_compiled() {
    let verify = "evals/tasks/d/verify.sh";
    let [a, b, c, f] = ["a", "b", "c", "f"].map(|name| format!("evals/tasks/{name}/task.yaml"));
    let (a, b, c, f) = (a.as_str(), b.as_str(), c.as_str(), f.as_str());
    let cases: [Case<'_>; 10] = [
        ("a task", &[(a, "Do it", "Do it well")], &["check"]),
        ("a task with a fault", &[(a, "spec:", "spec:\n  tiemout: 5s")], &["check", "--affected", a]),
        ("one whose name another has", &[(f, "Do it", "Do it well")], &["check"]),
        ("one that makes what another makes", &[(b, "Do it", "Do it well")], &["check"]),
        ("one that may", &[(c, "Do it", "Do it well")], &["check"]),
        ("one of those by itself", &[(f, "Do it", "Do it well")], &["check", "--affected", f]),
        ("a script", &[(verify, "test -d /", "test -d /nowhere")], &["check", "--affected", verify]),
        ("one that is not named", &[(verify, "test -d /", "test -d /nowhere")], &["check", "--affected", a]),
        ("two", &[(a, "Do it", "Do it now"), (verify, "test", "tset")], &["check", "--format", "json", "."]),
        ("a file that nothing reads", &[], &["check", "--affected", "README.md"]),
    ];
    for (what, edits, question) in cases {
        let world = project();
        same(&world, &["check"], what);
        let answers = kept(&world);
        for (path, old, new) in edits {
            let path = world.path(&format!("suite/{path}"));
            let text = fs::read_to_string(&path).unwrap();
            assert!(text.contains(old), "{what}");
            fs::write(&path, text.replacen(old, new, 1)).unwrap();
        }
        sleep(SETTLED);
        same(&world, question, what);
        assert_eq!(answers, kept(&world), "{what}");
    }
}

#[test]
fn findings_across_tasks_are_recomputed() {
    let a = "evals/tasks/a/task.yaml";
    let cases: [(&str, &str, &str, &str); 5] = [
        ("another has the name", a, "name: a", "name: b"),
        ("one of many has no difficulty", a, "  difficulty: easy\n", ""),
        ("a script is not spoken of any more", "evals/tasks/d/verify.sh", "./spare.sh\n", ""),
        ("what all run", "evals/lib/common.sh", "echo", "printf '%s'"),
        ("what is run by a link", "evals/tasks/f/verify.sh", "set -e\n", "test -d /nowhere\n"),
    ];
    for (what, path, old, new) in cases {
        let world = project();
        for name in TASKS {
            let text = "#!/usr/bin/env bash\nset -e\n./spare.sh\n. ../../lib/common.sh\ntest -d /\n";
            fs::write(world.path(&format!("suite/evals/tasks/{name}/verify.sh")), text).unwrap();
        }
        sleep(SETTLED);
        let before = same(&world, &["check"], what);
        let file = world.path(&format!("suite/{path}"));
        let text = fs::read_to_string(&file).unwrap();
        assert!(text.contains(old), "{what}");
        fs::write(&file, text.replacen(old, new, 1)).unwrap();
        sleep(SETTLED);
        let after = same(&world, &["check"], what);
        assert!(what == "what all run" || before != after, "{what}: {after:?}");
        same(&world, &["check", "--affected", path], what);
    }
}

#[test]
fn a_damaged_index_is_not_used() {
    let world = project();
    let cold = same(&world, &["check"], "cold");
    let folder = world.path("cache/checks");
    let index = || {
        let mut files = fs::read_dir(&folder).unwrap().flatten().map(|entry| entry.path());
        files.find(|path| path.extension().is_some_and(|end| end == "index")).unwrap()
    };
    let (path, mut rng) = (index(), Rng::with_seed(1));
    let whole = fs::read(&path).unwrap();
    for nth in 0..12 {
        let mut bytes = whole.clone();
        match nth % 3 {
            0 => bytes.truncate(rng.usize(..bytes.len())),
            1 => bytes.push(0),
            _ => {
                let (place, bit) = (rng.usize(..bytes.len()), rng.usize(..8));
                bytes[place] ^= 1 << bit;
            }
        }
        for entry in fs::read_dir(&folder).unwrap().flatten() {
            fs::remove_file(entry.path()).unwrap();
        }
        fs::write(&path, bytes).unwrap();
        assert_eq!(told(&ask(&world, &["check"]).output().unwrap()), cold, "{nth}");
        assert_eq!(fs::read(index()).unwrap().len(), whole.len(), "{nth}: it is kept anew");
    }
}
