//! `gevals convert` on our own legacy tasks: the guarantees of every conversion, and the proof of each.
//!
//! The proof runs in bubblewrap, which `cargo test` does not require: `cargo test --test all convert:: -- --ignored` runs it.
//! If bubblewrap does not work, the proof fails with a message, because a skipped proof proves nothing. `GEVALS_SEEDS`
//! sets the number of random worlds per task in addition to those with a purpose (6), `GEVALS_MUTANTS` the number of
//! mistaken conversions (40), `GEVALS_BIN` the program that proves: a release binary is faster. `GEVALS_PART=0/2` proves every
//! second task only.
#![cfg(all(feature = "kubernetes", target_os = "linux"))]

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use gevals::{
    Compiled, compile,
    convert::{self, Context, Converted, Tally, Target, classify},
    diagnostic::Diagnostic,
    hir::Dialect,
    host::disk::Disk,
    plan::wire,
    project::TaskUnit,
    prove,
    source::{Files, MemoryFiles, Sources},
};

use crate::support::{
    kubelet, page,
    world::{self, World},
};

/// Legacy tasks: a corpus for which the converter was written, and three sets written to test it on others. The tasks of the second of
/// these were not proved at first; those of the third are written like those of public suites.
const FOLDERS: [&str; 4] = ["corpus", "unseen", "unseen-2", "suites"];

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/convert").join(name)
}

fn tasks() -> Vec<PathBuf> {
    let mut paths: Vec<_> = FOLDERS
        .iter()
        .flat_map(|f| fs::read_dir(folder(f)).unwrap())
        .map(|e| e.unwrap().path())
        .filter(|p| p.extension().is_some_and(|e| e == "yaml"))
        .collect();
    paths.sort();
    paths
}

fn context<'a>(
    sources: &'a Sources,
    files: &'a dyn Files,
    compiled: &'a Compiled,
    to: Dialect,
    target: Target,
) -> Context<'a> {
    Context { sources, files, project: &compiled.project, to, target, allow_weaker: false, kept: &[] }
}

struct Suite {
    sources: Sources,
    compiled: Compiled,
}

impl Suite {
    fn new() -> Self {
        let sources = Sources::default();
        let compiled = compile(&tasks(), &sources, &Disk);
        Self { sources, compiled }
    }

    fn context(&self, to: Dialect, target: Target) -> Context<'_> {
        context(&self.sources, &Disk, &self.compiled, to, target)
    }

    fn units(&self) -> &[Arc<TaskUnit>] {
        &self.compiled.project.tasks
    }

    fn lifted(&self, unit: &TaskUnit) -> Converted {
        self.lifted_to(unit, Target::Builtin)
    }

    fn lifted_to(&self, unit: &TaskUnit, target: Target) -> Converted {
        convert::task(unit, self.context(Dialect::Portable, target))
            .unwrap_or_else(|r| panic!("{}: {}", unit.path.display(), r.message))
    }
}

fn errors(found: &[Diagnostic]) -> Vec<&str> {
    found.iter().filter(|d| d.strength.is_error()).map(|d| d.rule.name).collect()
}

/// Compiles a text in place of a task of the corpus, with the files around it.
fn compiled(path: &Path, text: &str, sources: &Sources) -> Compiled {
    compile(&[path.to_owned()], sources, &Instead(path, text))
}

struct Instead<'a>(&'a Path, &'a str);

impl Files for Instead<'_> {
    fn read(&self, path: &Path) -> Result<Vec<u8>, gevals::source::ReadError> {
        if path == self.0 { Ok(self.1.as_bytes().to_vec()) } else { Disk.read(path) }
    }

    fn stat(&self, path: &Path) -> Option<gevals::source::Stat> {
        Disk.stat(path)
    }

    fn refusal(&self, path: &Path) -> Option<gevals::source::ReadError> {
        Disk.refusal(path)
    }

    fn list(&self, dir: &Path) -> Vec<String> {
        Disk.list(dir)
    }
}

#[test]
fn every_task_converts_without_new_errors() {
    let suite = Suite::new();
    assert!(suite.units().len() >= 40, "{} tasks", suite.units().len());
    let mut longest = 0;
    for unit in suite.units() {
        let before: Vec<_> =
            suite.compiled.diagnostics.iter().filter(|d| suite.sources.path(d.span) == unit.path).cloned().collect();
        for (to, target) in [
            (Dialect::Portable, Target::Builtin),
            (Dialect::Portable, Target::Kubernetes),
            (Dialect::Portable, Target::Wrap),
            (Dialect::Steps, Target::Wrap),
        ] {
            let new = convert::task(unit, suite.context(to, target));
            let new = new.unwrap_or_else(|r| panic!("{}: {}", unit.path.display(), r.message));
            let sources = Sources::default();
            let after = compiled(&unit.path, &new.text, &sources);
            let new_errors: Vec<_> =
                errors(&after.diagnostics).into_iter().filter(|e| !errors(&before).contains(e)).collect();
            assert!(new_errors.is_empty(), "{}: {new_errors:?}\n{}", unit.path.display(), new.text);
            // The same task, formatted differently.
            let json = after.project.tasks[0].tree.root().to_json().to_string();
            let digest = |text: &str| {
                let sources = Sources::default();
                compiled(&unit.path, text, &sources).tasks[0].as_deref().map(wire::digest)
            };
            assert_eq!(digest(&new.text), digest(&json));
            // Converting twice has the same result.
            let again = convert::task(&after.project.tasks[0], context(&sources, &Disk, &after, to, target)).unwrap();
            assert_eq!(again.text, new.text);
            longest = longest.max(new.lines_before);
        }
    }
    assert!(longest > 200, "the longest has {longest} lines");
}

#[test]
fn converting_through_the_steps_dialect_gives_the_same_result() {
    let suite = Suite::new();
    for unit in suite.units() {
        let direct = suite.lifted(unit);
        let Ok(steps) = convert::task(unit, suite.context(Dialect::Steps, Target::Wrap)) else { continue };
        let sources = Sources::default();
        let compiled_steps = compiled(&unit.path, &steps.text, &sources);
        let cx = context(&sources, &Disk, &compiled_steps, Dialect::Portable, Target::Builtin);
        let other = convert::task(&compiled_steps.project.tasks[0], cx).unwrap();
        let digest = |text: &str| {
            let sources = Sources::default();
            compiled(&unit.path, text, &sources).tasks[0].as_deref().map(wire::digest)
        };
        assert_eq!(
            digest(&direct.text),
            digest(&other.text),
            "{}\n{}\n{}",
            unit.path.display(),
            direct.text,
            other.text
        );
    }
}

/// The text that a shell runs is the author's, and nothing is ever filled into it.
#[test]
fn no_hole_is_in_the_text_of_a_shell_script() {
    let suite = Suite::new();
    let mut seen = 0;
    for unit in suite.units() {
        for target in [Target::Wrap, Target::Builtin, Target::Kubernetes] {
            let new = suite.lifted_to(unit, target);
            let sources = Sources::default();
            let after = compiled(&unit.path, &new.text, &sources);
            after.project.tasks[0].task.as_ref().unwrap().walk(&mut |_, step| {
                for arg in [step.arg("run"), step.arg("inline")].into_iter().flatten() {
                    if matches!(step.op.value.as_str(), "command" | "script") {
                        seen += 1;
                        assert!(arg.as_literal().is_some(), "{}: {}\n{}", unit.path.display(), step.op.value, new.text);
                    }
                }
            });
        }
    }
    assert!(seen > 500, "{seen} texts");
}

/// Compares the statistics of the converter with an independent count that only uses the scripts and the result.
#[test]
fn the_statistics_of_the_converter_are_correct() {
    let suite = Suite::new();
    let mut totals = FOLDERS.map(|_| Tally::default());
    for unit in suite.units() {
        let dir = unit.path.parent().unwrap();
        let new = suite.lifted(unit);
        let sources = Sources::default();
        let after = compiled(&unit.path, &new.text, &sources);
        let task = after.project.tasks[0].task.as_ref().unwrap();
        let file = |name: &str| fs::read_to_string(dir.join(name)).ok();
        let counted = classify::recount(&new.scripts, task, &file);
        assert_eq!(
            (counted.effective, counted.residual),
            (new.tally.effective, new.tally.residual),
            "{}: {:#?}\n{}",
            unit.path.display(),
            new.pieces,
            new.text
        );
        let folder = FOLDERS.iter().position(|f| dir.ends_with(f)).unwrap();
        totals[folder].merge(new.tally);
    }
    for ((tally, folder), least) in totals.iter().zip(FOLDERS).zip([75, 60, 50, 85]) {
        let share = tally.lifted() * 100 / tally.effective;
        println!("{folder}: {share} % of {} statements are lifted", tally.effective);
        assert!(share >= least, "{folder}: {share} % of {} statements are lifted", tally.effective);
        assert_eq!(tally.weaker, 0);
    }
}

/// Statements of the first two sets that became steps, without those whose kubectl command remained a command.
#[test]
fn most_statements_become_operations() {
    let suite = Suite::new();
    let (mut all, mut operations) = (0, 0);
    for unit in suite.units().iter().filter(|unit| !unit.path.parent().is_some_and(|dir| dir.ends_with(FOLDERS[2]))) {
        let new = suite.lifted_to(unit, Target::Kubernetes);
        let (made, left) = new.kubectl;
        assert!(new.text.matches("k8s.").count() >= made, "{}\n{}", unit.path.display(), new.text);
        all += new.tally.effective;
        operations += new.tally.lifted().saturating_sub(left);
    }
    let share = operations * 100 / all;
    println!("{share} % of {all} statements");
    assert!(share >= 70, "{share} % of {all} statements");
}

fn number(name: &str, default: usize) -> usize {
    std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default)
}

fn bwrap() -> PathBuf {
    gevals::sandbox::find().unwrap_or_else(|why| panic!("the proof needs bubblewrap: {why}"))
}

fn exe() -> PathBuf {
    std::env::var_os("GEVALS_BIN").unwrap_or_else(|| env!("CARGO_BIN_EXE_gevals").into()).into()
}

/// Processes every item, on two cores.
fn side_by_side<T: Sync>(items: &[T], work: impl Fn(&T) + Sync) {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
                    work(item);
                }
            });
        }
    });
}

#[test]
#[ignore = "needs bubblewrap and jq; .ci/run has them"]
fn original_and_conversion_do_the_same() {
    do_the_same(Target::Builtin);
}

#[test]
#[ignore = "needs bubblewrap and jq; .ci/run has them"]
fn operations_do_what_commands_of_kubectl_did() {
    do_the_same(Target::Kubernetes);
}

fn do_the_same(target: Target) {
    let suite = Suite::new();
    let (bwrap, exe, seeds) = (bwrap(), exe(), number("GEVALS_SEEDS", 6) as u64);
    let faults = Mutex::new(Vec::new());
    let (blind, open, took) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    let part = std::env::var("GEVALS_PART").ok();
    let part = part.as_deref().and_then(|text| text.split_once('/'));
    let part: Option<(usize, usize)> = part.map(|(nth, of)| (nth.parse().unwrap(), of.parse().unwrap()));
    let units: Vec<_> = suite
        .units()
        .iter()
        .enumerate()
        .filter(|(nth, _)| part.is_none_or(|(part, of)| nth % of == part))
        .map(|(_, unit)| Arc::clone(unit))
        .collect();
    side_by_side(&units, |unit| {
        let new = suite.lifted_to(unit, target);
        // `original_and_conversion_do_the_same` proves these.
        if target == Target::Kubernetes && new.text == suite.lifted(unit).text {
            return;
        }
        let start = std::time::Instant::now();
        let proof = prove::prove((&bwrap, &exe), &unit.path, &new, None, None, seeds);
        took.lock().unwrap().push((start.elapsed().as_secs(), unit.path.display().to_string()));
        match proof {
            Ok(c) if c.counter_example.is_none() => {
                if !c.is_full() {
                    open.lock().unwrap().push(format!("{}: {}", unit.path.display(), c.lacks().join("; ")));
                }
                if c.passed == 0 {
                    blind.lock().unwrap().push(format!("{}: {}", unit.path.display(), c.lacks().join("; ")));
                }
            }
            Ok(c) => faults.lock().unwrap().push(format!(
                "{}: {}",
                unit.path.display(),
                c.counter_example.unwrap_or_default()
            )),
            Err(why) => faults.lock().unwrap().push(format!("{}: {why}", unit.path.display())),
        }
    });
    let mut took = took.into_inner().unwrap();
    took.sort();
    let worst: Vec<_> = took.iter().rev().take(6).collect();
    println!("seconds: {} in the median, at worst {worst:?}", took[took.len() / 2].0);
    let faults = faults.into_inner().unwrap();
    assert!(faults.is_empty(), "{} disagreements\n{}", faults.len(), faults.join("\n"));
    // That both fail in every world proves little.
    let blind = blind.into_inner().unwrap();
    assert!(blind.is_empty(), "{} tasks pass in no world\n{}", blind.len(), blind.join("\n"));
    // Statements that are not proved when everything is lifted are left in their script by `convert`.
    let (open, all) = (open.into_inner().unwrap(), took.len());
    println!("{} of {all} are proved when all is lifted", all - open.len());
    assert!(open.len() <= all * 15 / 100, "{} tasks are not proved\n{}", open.len(), open.join("\n"));
}

#[test]
#[ignore = "needs bubblewrap and jq; .ci/run has them"]
fn wrong_conversions_are_detected() {
    let suite = Suite::new();
    let (bwrap, exe) = (bwrap(), exe());
    let wanted = number("GEVALS_MUTANTS", 40);
    let context = suite.context(Dialect::Portable, Target::Builtin);
    let mut mutants: Vec<(PathBuf, usize, String, Converted, Converted)> = Vec::new();
    for unit in suite.units() {
        let right = suite.lifted(unit);
        for place in 0..right.places {
            let Ok(wrong) = convert::mistaken(unit, context, place) else { continue };
            let sources = Sources::default();
            let plan = |text: &str| compiled(&unit.path, text, &sources).tasks[0].as_deref().map(wire::digest);
            // A statement that stays in a script is not a wrong lift.
            let lifts = wrong.text != right.text && wrong.tally.residual == right.tally.residual;
            if lifts && plan(&wrong.text).is_some() {
                // Only what the labels of the right conversion allow is allowed.
                mutants.push((
                    unit.path.clone(),
                    place,
                    similar::TextDiff::from_lines(&right.text, &wrong.text).unified_diff().to_string(),
                    Converted { pieces: right.pieces.clone(), tally: right.tally, ..wrong },
                    right.clone(),
                ));
            }
        }
    }
    assert!(mutants.len() >= wanted, "only {} mutants", mutants.len());
    // Some mutants of every task.
    let step = (mutants.len() / wanted).max(1);
    let chosen: Vec<_> = mutants.into_iter().step_by(step).collect();
    let missed = Mutex::new(Vec::new());
    let unseen = AtomicUsize::new(0);
    side_by_side(&chosen, |(path, place, fault, wrong, right)| {
        let found = prove::prove((&bwrap, &exe), path, wrong, None, None, 60);
        let agrees = found.as_ref().is_ok_and(|c| c.counter_example.is_none());
        // `mkdir`, and `rm -f` for a file that the task itself has created, are run by the jail, and never fail there.
        let lacks = |line: &str| fault.lines().any(|l| l.starts_with('-') && l[1..].trim() == line);
        let sure = fault.contains("run: mkdir") && lacks("continueOnError: true")
            || fault.contains("run: rm -f \"$") && fault.contains(": \"{steps.") && lacks("exitCode: any");
        // The certificate itself reports that no world reached the changed command.
        let admitted = found.as_ref().is_ok_and(|c| c.unreached.iter().any(|command| concerns(fault, command)));
        // The requirement that is missing decides nothing in the right conversion either: other checks imply it, and the
        // certificates of both say so, so neither is proved.
        let implied = || {
            let right = prove::prove((&bwrap, &exe), path, right, None, None, 60);
            [&found, &right].iter().all(|proof| {
                let undecided = proof.as_ref().map(|c| c.undecided.as_slice()).unwrap_or_default();
                undecided.iter().any(|demand| concerns(fault, demand.trim_start_matches('`')))
            })
        };
        if agrees && (sure || admitted || implied()) {
            unseen.fetch_add(1, Ordering::Relaxed);
        } else if !found.as_ref().is_ok_and(|c| c.counter_example.is_some()) {
            missed.lock().unwrap().push(format!("{} place {place}: {found:?}\n{fault}", path.display()));
        }
    });
    let missed = missed.into_inner().unwrap();
    assert!(missed.is_empty(), "{} of {} were missed\n{}", missed.len(), chosen.len(), missed.join("\n"));
    let unseen = unseen.into_inner();
    println!("{} mutants, of which {unseen} change what no world comes to", chosen.len());
    assert!(unseen * 8 <= chosen.len(), "{unseen} of {} mutants change what no world comes to", chosen.len());
}

/// Whether a command is the one that a diff changes, or the one directly above the change: compares its program and the
/// next word.
fn concerns(fault: &str, command: &str) -> bool {
    let hunk: Vec<_> = fault.lines().skip_while(|line| !line.starts_with("@@")).skip(1).collect();
    let changed = hunk.iter().position(|line| line.starts_with(['+', '-'])).unwrap_or_default();
    let changes = hunk.iter().skip(changed).take_while(|line| line.starts_with(['+', '-']));
    let mut commands = changes.filter(|line| line.contains("run: ")).peekable();
    let above = hunk[..changed].iter().rfind(|line| line.contains("run: ")).filter(|_| commands.peek().is_none());
    let words: Vec<_> = command.split(' ').take(2).collect();
    commands.chain(above).any(|line| words.iter().all(|word| line.contains(word)))
}

#[test]
fn five_hundred_tasks_take_a_second() {
    let sources = Sources::default();
    let mut files = MemoryFiles::default();
    let texts: Vec<String> =
        tasks().iter().map(|p| fs::read_to_string(p).unwrap()).filter(|t| !t.contains("file:")).collect();
    let paths: Vec<PathBuf> = (0..500).map(|i| PathBuf::from(format!("tasks/{i}.yaml"))).collect();
    for (i, path) in paths.iter().enumerate() {
        files.add(path, texts[i % texts.len()].clone(), false);
    }
    let compiled = compile(&paths, &sources, &files);
    let start = std::time::Instant::now();
    for unit in &compiled.project.tasks {
        let cx = context(&sources, &files, &compiled, Dialect::Portable, Target::Builtin);
        assert!(convert::task(unit, cx).is_ok());
    }
    // Without optimization, it may take longer.
    let limit = if cfg!(debug_assertions) { 20.0 } else { 1.0 };
    let took = start.elapsed().as_secs_f64();
    println!("500 tasks in {took:.2} s");
    assert!(took < limit, "{took} s");
}

mod on_api;

const NOTES: &str = "#!/usr/bin/env bash\nsource \"$(dirname \"$0\")/../lib/ns.sh\"\nhas_ns \"$NAME\" || exit 1\nkubectl get ns | md5sum > sum\n";

/// Two tasks that source one helper, an eval, and a file outside.
fn suite_of_two() -> World {
    let task = |name: &str| {
        format!(
            "kind: Task\nmetadata:\n  name: {name}\n  difficulty: easy\nsteps:\n  verify:\n    file: scripts/{name}.sh\n  prompt:\n    inline: Do {name}.\n"
        )
    };
    let world = World::new(&[
        (
            "suite/eval.yaml",
            "kind: Eval\nmetadata:\n  name: two\nconfig:\n  agent:\n    type: builtin.noop\n  mcpConfigFile: mcp.json\n  taskSets:\n    - glob: tasks/*.yaml\n",
        ),
        ("suite/mcp.json", "{\"mcpServers\": {\"demo\": {\"command\": \"gevals\"}}}"),
        ("suite/tasks/lib/ns.sh", "has_ns() { kubectl get ns \"$1\"; }\nrest() { kubectl get \"$@\" | md5sum; }\n"),
        ("suite/tasks/one.yaml", &task("one")),
        ("suite/tasks/two.yaml", &task("two")),
    ]);
    for name in ["one", "two"] {
        let script = format!("suite/tasks/scripts/{name}.sh");
        world.write(&script, &NOTES.replace("$NAME", name).replace("md5sum > sum", "rest pods"));
        make_executable(&world.path(&script));
    }
    world
}

fn make_executable(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(path).unwrap().permissions().mode() & 0o111 != 0
}

/// Returns every file in a directory and its subdirectories, with its contents.
fn contents(dir: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut open = vec![dir.to_owned()];
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(dir).unwrap().flatten() {
            match entry.path().is_dir() {
                true => open.push(entry.path()),
                false => {
                    found.push((entry.path(), String::from_utf8_lossy(&fs::read(entry.path()).unwrap()).into_owned()))
                }
            }
        }
    }
    found.sort();
    found
}

#[test]
fn files_are_written_only_to_the_requested_location() {
    let world = suite_of_two();
    let before = contents(&world.path("suite"));
    let shown = world
        .run(&["convert", "suite/tasks", "--target", "builtin", "--no-verify"])
        .expect(0, &["apiVersion: mcp-eval/v1", "---\n# suite/tasks/two.yaml"]);
    assert!(shown.err.contains("unproved"), "{}", shown.err);
    world.run(&["convert", "suite/tasks", "--diff", "--no-verify"]).expect(0, &["-steps:", "+spec:"]);
    for (format, said) in [("text", "statements lifted"), ("markdown", "| one | "), ("json", "\"version\": 1")] {
        world.run(&["convert", "suite/tasks", "--no-verify", "--report", format]).expect(0, &[said]);
    }
    assert_eq!(contents(&world.path("suite")), before, "nothing was asked for");

    world.run(&["convert", "suite/tasks/one.yaml", "--write", "--no-verify"]).expect(0, &["unproved"]);
    assert!(world.read("suite/tasks/one.portable.yaml").contains("apiVersion: mcp-eval/v1"));
    // The same output is written again without objection; a different file is overwritten only if requested.
    world.run(&["convert", "suite/tasks/one.yaml", "--write", "--no-verify"]).expect(0, &[]);
    world.write("suite/tasks/one.portable.yaml", "mine\n");
    world
        .run(&["convert", "suite/tasks", "--write", "--no-verify"])
        .expect(2, &["one.portable.yaml` would be overwritten; nothing was written", "--force"]);
    assert_eq!(world.read("suite/tasks/one.portable.yaml"), "mine\n");
    assert!(!world.path("suite/tasks/two.portable.yaml").exists());
    world.run(&["convert", "suite/tasks/one.yaml", "--write", "--no-verify", "--force"]).expect(0, &[]);
    assert!(world.read("suite/tasks/one.portable.yaml").contains("apiVersion: mcp-eval/v1"));
    world.run(&["convert", "suite/tasks/one.yaml", "--force"]).expect(2, &["`--force` requires `--write` or `--out`"]);
    fs::remove_file(world.path("suite/tasks/one.portable.yaml")).unwrap();
    assert_eq!(contents(&world.path("suite")), before, "`--write` leaves the old files alone");

    world.run(&["convert", "suite/tasks", "--in-place", "--no-verify"]).expect(0, &[]);
    let old = before.iter().find(|(p, _)| p.ends_with("one.yaml")).unwrap();
    assert_eq!(world.read("suite/tasks/one.yaml.orig"), old.1);
    let after = contents(&world.path("suite"));
    world.run(&["convert", "suite/tasks", "--in-place", "--no-verify"]).expect(0, &[]);
    assert_eq!(contents(&world.path("suite")), after, "twice is once");

    world.run(&["convert", "suite/tasks", "--target", "k9s"]).expect(2, &["possible values", "kubernetes"]);
    world.run(&["convert", "suite/tasks", "--to", "steps", "--target", "builtin"]).expect(2, &["only wraps them"]);
    world.run(&["convert", "nowhere"]).expect(2, &["nowhere"]);
}

/// Programs may read a directory under any path, so the name of a directory in a script is enough.
#[test]
fn the_output_tree_contains_directories_that_scripts_name() {
    let world = World::new(&[]);
    let task = |name: &str| {
        format!(
            "kind: Task\nmetadata: {{name: {name}, difficulty: easy}}\nsteps:\n  verify: {{file: {name}.sh}}\n  prompt: {{inline: x}}\n"
        )
    };
    let scripts = [
        ("variable", "M=manifests\nkubectl apply -f \"$M/a.yaml\" || exit 1\n"),
        ("pattern", "for f in manifests/*.yaml; do kubectl apply -f $f || exit 1; done\n"),
        ("option", "kubectl create configmap m --from-file=manifests || exit 1\n"),
        ("copied", "cp -r manifests /tmp/m && kubectl apply -k /tmp/m\n"),
    ];
    for (name, script) in scripts {
        world.write(&format!("{name}/task.yaml"), &task(name));
        world.write(&format!("{name}/{name}.sh"), &format!("#!/usr/bin/env bash\n{script}"));
        world.write(&format!("{name}/manifests/a.yaml"), "kind: Pod\n");
        world.write(&format!("{name}/others/b.yaml"), "kind: Pod\n");
        let out = format!("new-{name}");
        world.run(&["convert", name, "--target", "builtin", "--out", &out, "--no-verify"]).expect(0, &[]);
        let files: Vec<_> = contents(&world.path(&out)).into_iter().map(|(path, _)| path).collect();
        let has = |file: &str| files.contains(&world.path(&format!("{out}/{file}")));
        assert!(has("manifests/a.yaml") && !has("others/b.yaml"), "{name}: {files:?}");
    }
}

/// An error of the original is marked in the result, also if it was in a file of the task.
#[test]
fn errors_in_script_files_do_not_prevent_a_conversion() {
    let world = World::new(&[]);
    let head = "kind: Task\nmetadata: {name: t, difficulty: easy}\nsteps:\n  prompt: {inline: Change the password.}\n";
    world.write("t.yaml", &format!("{head}  verify: {{file: verify.sh}}\n"));
    let check = "[ \"$(kubectl get secret db -n x -o jsonpath='{.data.password}')\" = s3cret ] || exit 1\n";
    world.write("verify.sh", &format!("#!/usr/bin/env bash\n{check}"));
    make_executable(&world.path("verify.sh"));
    world.run(&["check", "t.yaml"]).expect(1, &["impossible-value"]);
    let ran = world.run(&["convert", "t.yaml", "--target", "builtin", "--no-verify"]);
    assert!(ran.out.contains("# gevals: inherited(impossible-value)"), "{:?} {} {}", ran.code, ran.out, ran.err);
    assert!(ran.out.contains("run: kubectl get secret db"), "{}", ran.out);
}

#[test]
fn a_task_whose_script_needs_a_file_outside_of_the_tree_is_not_written() {
    let world = World::new(&[]);
    let script = "#!/usr/bin/env bash\n. ../helpers/lib.sh\nq=$(date +%s)\ncheck \"$q\"\n";
    world.write("suite/helpers/lib.sh", "check() { test -s \"$1\"; }\n");
    world.write("suite/one/verify.sh", script);
    make_executable(&world.path("suite/one/verify.sh"));
    world.write(
        "suite/one/task.yaml",
        "kind: Task\nmetadata: {name: one, difficulty: easy}\nsteps:\n  verify: {file: verify.sh}\n  prompt: {inline: x}\n",
    );
    let task = world.path("suite/one/task.yaml");
    fs::create_dir(world.path("elsewhere")).unwrap();
    let gevals = env!("CARGO_BIN_EXE_gevals");
    let convert = format!("{gevals} convert {} --target builtin --no-verify --out", task.display());
    let ran = world.shell(&format!("cd elsewhere && {convert} new"));
    assert!(ran.code == Some(2) && ran.err.contains("lib.sh`, which is outside of the converted tree"), "{}", ran.err);
    assert!(!world.path("elsewhere/new").exists());
    // The same from a directory that contains both.
    let ran = world.shell(&format!("cd suite && {convert} ../new"));
    assert!(ran.code == Some(0) && world.path("new/helpers/lib.sh").exists(), "{}", ran.err);
}

#[test]
fn the_output_tree_contains_each_referenced_file_once() {
    let world = suite_of_two();
    world.run(&["convert", "suite/eval.yaml", "--target", "builtin", "--out", "new", "--no-verify"]).expect(0, &[]);
    let names: Vec<_> = contents(&world.path("new"))
        .into_iter()
        .map(|(p, _)| p.strip_prefix(world.path("new")).unwrap().to_string_lossy().into_owned())
        .collect();
    // The scripts became steps that run in their directory; the helper is a single file, sourced by the remaining scripts.
    let wanted = [
        "eval.yaml",
        "mcp.json",
        "tasks/lib/ns.sh",
        "tasks/one.yaml",
        "tasks/scripts/one.sh",
        "tasks/scripts/two.sh",
        "tasks/two.yaml",
    ];
    assert_eq!(names, wanted);
    for name in ["one", "two"] {
        let text = world.read(&format!("new/tasks/{name}.yaml"));
        assert!(text.contains(&format!("run: kubectl get ns {name}")), "{text}");
        assert_eq!(text.matches("source ../lib/ns.sh").count(), 1, "{text}");
    }
    // Nothing is overwritten, neither edited files nor the originals.
    let out = ["convert", "suite/eval.yaml", "--target", "builtin", "--no-verify", "--out"];
    world.run(&[&out[..], &["new"]].concat()).expect(0, &[]);
    world.write("new/tasks/lib/ns.sh", "mine\n");
    let now = || [contents(&world.path("suite")), contents(&world.path("new"))];
    let before = now();
    world.run(&[&out[..], &["new"]].concat()).expect(2, &["ns.sh` would be overwritten; nothing was written"]);
    world
        .run(&[&out[..], &["suite", "--force"]].concat())
        .expect(2, &["is the directory of the originals", "--in-place"]);
    assert_eq!(now(), before);
    world.run(&[&out[..], &["new", "--force"]].concat()).expect(0, &[]);
    assert_ne!(world.read("new/tasks/lib/ns.sh"), "mine\n");
    // The same files are found as for a pack: patterns, names with blanks, directories that a script changes to.
    let script = "#!/bin/sh\n. ../lib/ns.sh\ncat parts/*.json \"my list.txt\"\ncd far && cat away.txt\n";
    world.write("names/scripts/one.sh", script);
    make_executable(&world.path("names/scripts/one.sh"));
    for name in
        ["lib/ns.sh", "scripts/parts/a.json", "scripts/parts/b.txt", "scripts/my list.txt", "scripts/far/away.txt"]
    {
        world.write(&format!("names/{name}"), "true\n");
    }
    let head = "kind: Task\nmetadata: {name: t, difficulty: easy}\n";
    world
        .write("names/t.yaml", &format!("{head}steps:\n  verify: {{file: scripts/one.sh}}\n  prompt: {{inline: x}}\n"));
    world.run(&["convert", "names/t.yaml", "--out", "named", "--no-verify"]).expect(0, &[]);
    let named: Vec<_> = contents(&world.path("named")).into_iter().map(|(path, _)| path).collect();
    let wanted = [
        "lib/ns.sh",
        "scripts/far/away.txt",
        "scripts/my list.txt",
        "scripts/one.sh",
        "scripts/parts/a.json",
        "t.yaml",
    ];
    assert_eq!(named, wanted.map(|name| world.path("named").join(name)));
    // A step that runs in a directory finds it, although all scripts in it became steps.
    world.write("bare/scripts/one.sh", "#!/bin/sh\ngit status --short\n");
    make_executable(&world.path("bare/scripts/one.sh"));
    world.write("bare/t.yaml", &format!("{head}steps:\n  verify: {{file: scripts/one.sh}}\n  prompt: {{inline: x}}\n"));
    world.run(&["convert", "bare/t.yaml", "--target", "builtin", "--out", "bared", "--no-verify"]).expect(0, &[]);
    assert!(world.read("bared/t.yaml").contains("workdir: scripts") && world.path("bared/scripts").is_dir());
    // Only commands that read no files run in any directory.
    let script =
        "#!/bin/sh\nkubectl create ns a\nkubectl get pods -n a\nkubectl create secret tls x --cert=x.crt --key=x.key\n";
    world.write("placed/scripts/one.sh", &format!("{script}kubectl get pods --kubeconfig k.conf\n"));
    make_executable(&world.path("placed/scripts/one.sh"));
    world.write(
        "placed/t.yaml",
        &format!(
            "{head}steps:\n  setup: {{file: scripts/one.sh}}\n  verify: {{inline: \"true\"}}\n  prompt: {{inline: x}}\n"
        ),
    );
    world.run(&["convert", "placed/t.yaml", "--target", "builtin", "--out", "place", "--no-verify"]).expect(0, &[]);
    let text = world.read("place/t.yaml");
    let placed: Vec<&str> = text.split("- command:").filter(|step| step.contains("workdir: scripts")).collect();
    assert!(placed.len() == 2 && placed[0].contains("--cert") && placed[1].contains("--kubeconfig"), "{text}");
    // Scripts that stay keep their modes, and files outside are reported.
    world.run(&["convert", "suite/eval.yaml", "--out", "wrapped", "--no-verify"]).expect(0, &[]);
    assert!(is_executable(&world.path("wrapped/tasks/scripts/one.sh")));
    world.write("gevals.toml", "");
    world.write("far/x.sh", "#!/bin/sh\ntest -s out.txt\n");
    make_executable(&world.path("far/x.sh"));
    world.write("near/deep/t.yaml", "kind: Task\nmetadata: {name: t, difficulty: easy}\nsteps:\n  verify: {file: ../../far/x.sh}\n  prompt: {inline: x}\n");
    let mut command =
        world.command(&["convert", "t.yaml", "--out", world.path("out").to_str().unwrap(), "--no-verify"]);
    command.current_dir(world.path("near/deep"));
    world.start(command).end().expect(0, &["is outside the tree"]);
    assert!(world.read("out/t.yaml").contains("file: ../far/x.sh"));
    world.run(&["check", "out/t.yaml"]).expect(0, &[]);
}

#[test]
fn what_cannot_be_lifted_is_wrapped_or_rejected_with_a_location() {
    let task = |name: &str, verify: &str| {
        format!(
            "kind: Task\nmetadata:\n  name: {name}\n  difficulty: easy\nsteps:\n  verify:\n{verify}\n  prompt:\n    inline: Go.\n"
        )
    };
    let world = World::new(&[
        ("a/broken.yaml", &task("broken", "    inline: |\n      if [ x; then\n      kubectl get pods")),
        ("a/python.yaml", &task("python", "    inline: |\n      #!/usr/bin/env python3\n      print('{env.HOME}')")),
        ("a/node.yaml", &task("node", "    inline: |\n      #!/usr/bin/env node\n      process.exit(0)")),
        ("a/windows.yaml", &task("windows", "    file: windows.sh").replace('\n', "\r\n")),
        ("a/windows.sh", "#!/bin/bash\r\nkubectl get pods\r\n"),
        ("a/binary.yaml", &task("binary", "    file: binary")),
        ("b/missing.yaml", &task("missing", "    file: nosuch.sh")),
        ("b/judge.yaml", &task("judge", "    contains: \"{braces}\"")),
    ]);
    fs::write(world.path("a/binary"), [0x7f, b'E', 0xff, 0x00]).unwrap();
    for path in ["a/binary", "a/windows.sh"] {
        make_executable(&world.path(path));
    }
    let before = contents(&world.path(""));
    for target in [&["--target", "builtin"][..], &["--to", "steps"], &[]] {
        let ran = world
            .run(&[&["convert", "a", "--no-verify"], target].concat())
            .expect(1, &["if [ x; then", "#!/usr/bin/env python3"]);
        for (name, rule) in [("broken", "script-syntax"), ("windows", "script-without-shebang")] {
            let refused = format!(
                "`a/{name}.yaml` has errors of the original, so `gevals run` refuses it until they are fixed: {rule}"
            );
            assert!(ran.err.contains(&refused), "{}", ran.err);
        }
        assert_eq!(ran.out.matches("script:").count(), 5, "{}", ran.out);
    }
    world
        .run(&["convert", "a", "--no-verify", "--target", "builtin", "--report"])
        .expect(1, &["not a script", "0 of 5 statements"]);
    world.run(&["convert", "b/missing.yaml"]).expect(1, &["b/missing.yaml:7:11: the file `nosuch.sh` does not exist"]);
    world
        .run(&["convert", "b/judge.yaml", "--to", "steps"])
        .expect(1, &["b/judge.yaml:7:15: the judge of the steps dialect interprets braces"]);
    // Braces that the steps dialect does not interpret are kept, and no rule reports them.
    world.run(&["convert", "a/python.yaml", "--to", "steps", "--out", "s", "--no-verify"]).expect(0, &[]);
    assert!(world.read("s/python.yaml").contains("print('{env.HOME}')"));
    let checked = world.run(&["check", "s/python.yaml"]);
    assert!(!checked.out.contains("unexpanded-hole") && !checked.out.contains("unused-allow"), "{}", checked.out);
    let now: Vec<_> = contents(&world.path(""))
        .into_iter()
        .filter(|(p, _)| before.iter().any(|(b, _)| b == p && !p.ends_with("stdout") && !p.ends_with("stderr")))
        .collect();
    assert!(now.iter().all(|f| before.contains(f)), "originals stay");
}

#[test]
fn examples_have_the_same_verdicts_in_the_portable_dialect() {
    let world = World::new(&[]);
    world.copy("examples/quickstart", "q");
    let verdicts = |world: &World| -> Vec<(String, String)> {
        world.run(&["run", "q/eval.yaml", "--exit-zero"]).expect(0, &[]);
        let results = world.results("quickstart");
        results["results"]
            .as_array()
            .unwrap()
            .iter()
            .map(|t| (t["taskName"].to_string(), t["taskPassed"].to_string()))
            .collect()
    };
    let before = verdicts(&world);
    world.run(&["convert", "q/eval.yaml", "--in-place", "--no-verify", "--target", "builtin"]).expect(0, &[]);
    assert!(world.read("q/tasks/weekly-review.yaml").contains("mcp-eval/v1"));
    assert!(!before.is_empty());
    assert_eq!(verdicts(&world), before);
}

/// Returns the smallest task with a script of a page.
fn task_of(phase: &str, script: &str) -> String {
    let indented = |text: &str| text.lines().map(|l| format!("      {l}\n")).collect::<String>();
    let verify = if phase == "verify" { "" } else { "  verify:\n    contains: done\n" };
    format!(
        "kind: Task\nmetadata:\n  name: page\n  difficulty: easy\nsteps:\n  prompt:\n    inline: Do it.\n{verify}  {phase}:\n    inline: |\n{}",
        indented(&format!("#!/usr/bin/env bash\n{script}"))
    )
}

/// Output of a command that could fool a shell that interprets it as code.
const HOSTILE: [&str; 22] = [
    "a",
    "",
    "a b",
    "a\n",
    "line\nmore\n\n\n",
    "x; touch PWNED",
    "$(touch PWNED)",
    "`touch PWNED`",
    "q' = 'q' -o 'z",
    "'; touch PWNED; '",
    "\"; touch PWNED; \"",
    "\\n\\",
    "-n",
    "-e",
    "*",
    "!",
    "(",
    "~",
    "{env.HOME}",
    "3",
    "03",
    "9223372036854775808",
];

/// Verdicts, the arguments that commands receive, and files are the same for original and conversion, whatever `say`
/// prints.
#[test]
fn values_are_passed_as_data() {
    // `GIVEN` is an environment variable that contains the value.
    const SCRIPTS: [&str; 20] = [
        "NS=\"${GIVEN:-shop}\"\n[ \"$NS\" != shop ] || exit 1\ngot --ns=\"$NS\" \"$NS\"",
        "NS=\"${GIVEN:-a}\"\ngot -n $NS ${NS}x",
        "NS=${GIVEN:-a}\n[ \"$v\" = \"$NS\" ]",
        "NS=${GIVEN:-a}\ngot x | grep -q \"$NS\"\ncat value | grep -q \"$NS\"",
        "READY=${GIVEN:-true}\nif [ \"$READY\" = a ]; then exit 0; fi\ngot no\nexit 1",
        "NS=\"${GIVEN:-a}\"\nif got \"$NS\"; then got yes; else got no; fi\ngot {NS} '{env.NS}' '{random.id}'",
        "[ \"$v\" = a ]",
        "[ \"$v\" != a ]\ngot \"$v\"",
        "[ -z $v ]",
        "[ -n \"$v\" ] && got \"$v\"",
        "[[ $v = \"a b\" ]]",
        "[ \"$v\" -eq 3 ]",
        "w=$(say)\n[ \"$v\" = \"$w\" ]",
        "if [ \"$v\" = 3 ]; then exit 1; fi\ngot \"$v\" end",
        "got $v end",
        "got \"pre/$v\" \"${v}post\" x$v'y z'",
        "got '{steps.v.outputs.stdout}' \"{v} $v\"",
        "echo $v | grep -q a",
        "echo \"$v\" | grep -q n",
        "for w in 'a b' \"it's\"; do got \"$w\" \"$v\"; done",
    ];
    let world = World::new(&[]);
    world.program("say", "#!/bin/sh\ncat value\n");
    world.program("got", "#!/bin/sh\nprintf '<%s>' \"$@\" >> got\n");
    let mut files = Vec::new();
    for (i, script) in SCRIPTS.iter().enumerate() {
        for (j, value) in HOSTILE.iter().enumerate() {
            let name = format!("s{i}v{j}");
            let task = task_of("verify", &format!("v=$(say)\n{script}").replace("GIVEN", &format!("GIVEN_{j}")))
                .replace("name: page", &format!("name: {name}"));
            for side in ["old", "new"] {
                world.write(&format!("{side}/{name}/task.yaml"), &task);
                world.write(&format!("{side}/{name}/value"), value);
            }
            files.push(name);
        }
    }
    for side in ["old", "new"] {
        let eval = format!(
            "kind: Eval\nmetadata:\n  name: {side}\nconfig:\n  agent:\n    type: builtin.noop\n  taskSets:\n    - glob: {side}/*/task.yaml\n"
        );
        world.write(&format!("{side}.yaml"), &eval);
    }
    world.run(&["convert", "new", "--in-place", "--no-verify", "--target", "builtin"]).expect(0, &[]);
    for name in &files {
        // A shell would find it for `*`.
        fs::remove_file(world.path(&format!("new/{name}/task.yaml.orig"))).unwrap();
    }
    let ran = |side: &str| {
        let mut command = world.command(&["run", &format!("{side}.yaml"), "--exit-zero"]);
        command.env("PATH", world.programs());
        command.envs(HOSTILE.iter().enumerate().map(|(j, value)| (format!("GIVEN_{j}"), value)));
        world.start(command).end_within(std::time::Duration::from_secs(300)).expect(0, &[]);
        let results = world.results(side);
        let verdicts: std::collections::BTreeMap<String, bool> = results["results"]
            .as_array()
            .unwrap()
            .iter()
            .map(|t| (t["taskName"].as_str().unwrap().to_owned(), t["taskPassed"] == true))
            .collect();
        files
            .iter()
            .map(|name| {
                let beside = |file: &str| world.read(&format!("{side}/{name}/{file}"));
                let pwned = world.path(&format!("{side}/{name}/PWNED")).exists();
                (verdicts.get(name).copied(), beside("got"), pwned)
            })
            .collect::<Vec<_>>()
    };
    let mut faults = String::new();
    let mut passed = [0; SCRIPTS.len()];
    for (i, (old, new)) in ran("old").into_iter().zip(ran("new")).enumerate() {
        let (script, value) = (i / HOSTILE.len(), HOSTILE[i % HOSTILE.len()]);
        passed[script] += usize::from(new.0 == Some(true));
        // Unusual spellings of numbers: the report mentions the difference.
        let stronger = SCRIPTS[script].contains("-eq") && value == "03";
        if old != new && !stronger || new.2 {
            let text = world.read(&format!("new/{}/task.yaml", files[i]));
            faults += &format!("{}\nof {value:?}: {old:?} and {new:?}\n{text}\n", SCRIPTS[script]);
        }
    }
    assert!(faults.is_empty(), "{faults}");
    assert!(passed.iter().all(|&n| n > 0), "each passes with some value: {passed:?}");
}

/// Forms whose verdict a careless lift would change: original and conversion have the same verdict, whatever commands
/// answer.
#[test]
fn lifting_preserves_verdicts() {
    // The digits of the value are the exit statuses of `a` and `b`, and the rest is their output.
    const SCRIPTS: [&str; 16] = [
        "diff <(a) <(echo x)",
        "if ! diff -q <(a) <(echo x) >/dev/null; then exit 1; fi\nb",
        "if a; then\n  if b; then\n    echo ok\n    exit 0\n  fi\n  echo bad\nfi\nexit 1",
        "if a; then\n  if b; then\n    exit 0\n  fi\n  exit 1\nfi\nexit 1",
        "if a; then\n  if b; then\n    exit 0\n  fi\nfi\na",
        "if a; then\n  if [ \"$(b)\" = x ]; then exit 0; fi\nfi\nexit 1",
        "if a; then\n  if b; then exit 0; fi\n  b\nfi\na",
        "a\nrc=$?\necho asked\nb\nif [ $rc -ne 0 ]; then exit 1; fi\nexit 0",
        "a\nrc=$?\nb\nexit $rc",
        "a\nrc=$?\nif [ $rc -eq 0 ]; then echo fine; else exit 1; fi",
        "b\nif [ $? -eq 0 ]; then a; fi",
        "n=$(a | wc -l)\n[ \"$n\" -eq 1 ]",
        "last=$(a | tail -n 1)\n[ \"$last\" = x ]",
        "n=$(a)\nif [ -z $n ]; then exit 1; fi",
        "v=$(a)\nif [ \"$v\" = x ] && b; then exit 0; fi\nexit 1",
        "set -u\nn=$(a)\n(( n >= 3 ))",
    ];
    const ANSWERS: [&str; 12] = [
        "0 0 x",
        "0 1 x",
        "1 0 x",
        "1 1 x",
        "0 0 ",
        "0 0  ",
        "0 0 3",
        "0 0 010",
        "0 0 x\\n",
        "0 0 x\\ny",
        "0 0 a -o b",
        "1 0 ",
    ];
    let world = World::new(&[]);
    for (name, field) in [("a", 1), ("b", 2)] {
        let text =
            format!("#!/bin/sh\nread -r s1 s2 rest < answer\nprintf \"$(cut -d' ' -f3- answer)\"\nexit $s{field}\n");
        world.program(name, &text);
    }
    let mut names = Vec::new();
    for (i, script) in SCRIPTS.iter().enumerate() {
        for (j, answer) in ANSWERS.iter().enumerate() {
            let name = format!("s{i}a{j}");
            let task = task_of("verify", script).replace("name: page", &format!("name: {name}"));
            for side in ["old", "new"] {
                world.write(&format!("{side}/{name}/task.yaml"), &task);
                world.write(&format!("{side}/{name}/answer"), answer);
            }
            names.push(name);
        }
    }
    for side in ["old", "new"] {
        let eval = format!(
            "kind: Eval\nmetadata:\n  name: {side}\nconfig:\n  agent:\n    type: builtin.noop\n  taskSets:\n    - glob: {side}/*/task.yaml\n"
        );
        world.write(&format!("{side}.yaml"), &eval);
    }
    world.run(&["convert", "new", "--in-place", "--no-verify", "--target", "builtin"]).expect(0, &[]);
    let ran = |side: &str| {
        let mut command = world.command(&["run", &format!("{side}.yaml"), "--exit-zero"]);
        command.env("PATH", world.programs());
        world.start(command).end().expect(0, &[]);
        let results = world.results(side);
        let verdict = |t: &serde_json::Value| (t["taskName"].as_str().unwrap().to_owned(), t["taskPassed"] == true);
        results["results"].as_array().unwrap().iter().map(verdict).collect::<std::collections::BTreeMap<_, _>>()
    };
    let (old, new) = (ran("old"), ran("new"));
    let mut faults = String::new();
    let mut seen = [[false; 2]; SCRIPTS.len()];
    for (at, name) in names.iter().enumerate() {
        let (script, answer) = (at / ANSWERS.len(), ANSWERS[at % ANSWERS.len()]);
        seen[script][usize::from(old[name])] = true;
        // Unusual spellings of numbers: the report mentions the difference.
        let stronger = SCRIPTS[script].contains(">= 3") && answer.contains('0');
        if old[name] != new[name] && !(stronger && old[name]) {
            let text = world.read(&format!("new/{name}/task.yaml"));
            faults += &format!("{}\nof {answer:?}: {} and {}\n{text}\n", SCRIPTS[script], old[name], new[name]);
        }
    }
    assert!(faults.is_empty(), "{faults}");
    assert!(seen.iter().all(|seen| *seen == [true, true]), "each passes and fails with some answer: {seen:?}");
}

/// An unproved conversion is not written, and the report lists what is missing.
#[test]
#[ignore = "needs bubblewrap and jq; .ci/run has them"]
fn unproved_conversions_are_not_written() {
    bwrap();
    let task = |verify: &str| task_of("verify", verify);
    let world = World::new(&[
        ("proved.yaml", &task("set -e\nV=$(kubectl get pod a -o jsonpath='{.status.phase}')\n[ \"$V\" = Running ]")),
        // Nothing ever prints what the script searches for.
        ("open.yaml", &task("set -e\nkubectl get pod a\nexpr 1 + 1 | grep -q 3")),
        (
            "judge.yaml",
            "kind: Task\nmetadata: {name: judge, difficulty: easy}\nsteps:\n  prompt: {inline: Say it.}\n  verify: {contains: it}\n",
        ),
    ]);
    let ran =
        world.run(&["convert", "proved.yaml", "--target", "builtin", "--write", "--report", "json"]).expect(0, &[]);
    let report: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    let proof = &report["tasks"][0]["proof"];
    assert_eq!(proof["proved"], true, "{proof}");
    assert!(proof["passed"].as_u64() > Some(0) && proof["failed"].as_u64() > Some(0), "{proof}");
    assert!(proof["hostile"].as_u64() > Some(10), "{proof}");
    assert!(world.read("proved.portable.yaml").contains("mcp-eval/v1"));

    let ran = world
        .run(&["convert", "open.yaml", "--target", "builtin", "--write", "--report", "json"])
        .expect(1, &["and is not written"]);
    let report: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(report["tasks"][0]["proof"]["proved"], false);
    assert!(
        report["tasks"][0]["proof"]["lacks"][0].as_str().unwrap().contains("no world in which both pass"),
        "{report}"
    );
    assert!(!world.path("open.portable.yaml").exists());
    // It is printed nevertheless, with a warning.
    world
        .run(&["convert", "open.yaml", "--target", "builtin"])
        .expect(1, &["mcp-eval/v1", "`open.yaml` is not proved"]);
    world
        .run(&["convert", "open.yaml", "--target", "builtin", "--write", "--allow-unproved"])
        .expect(0, &["unproved", "missing"]);
    assert!(world.path("open.portable.yaml").exists());

    // A judge answers both ways.
    world.run(&["convert", "judge.yaml", "--write"]).expect(0, &["proved"]);
}

/// A step that could not fail is not a valid step: the statement before it stays in the script with it, and everything
/// else is lifted.
#[test]
fn a_lift_that_causes_an_error_is_not_made() {
    let text = task_of(
        "verify",
        "set -e\nkubectl get ns shop\nkubectl get pod web\nwhile read -r line; do echo \"$line\"; done < /etc/hosts",
    );
    let world = World::new(&[("last.yaml", &text)]);
    let args = ["convert", "last.yaml", "--target", "builtin", "--no-verify", "--report", "json"];
    let report: serde_json::Value = serde_json::from_str(&world.run(&args).expect(0, &[]).out).unwrap();
    let task = &report["tasks"][0];
    assert_eq!(task["converted"], true, "{task}");
    assert!(
        task["notes"]
            .to_string()
            .contains("the full conversion was refused: last.yaml: its conversion would have an error"),
        "{task}"
    );
    let lifted = world.run(&["convert", "last.yaml", "--target", "builtin", "--no-verify"]).expect(0, &[]).out;
    assert!(lifted.contains("run: kubectl get ns shop\n"), "{lifted}");
    let (_, script) = lifted.split_once("inline: |").unwrap();
    assert!(script.contains("kubectl get pod web") && script.contains("while read -r line"), "{lifted}");
    // The fallback has no error that the original does not have.
    world.run(&["convert", "last.yaml", "--target", "builtin", "--no-verify", "--write"]).expect(0, &[]);
    world.run(&["check", "last.portable.yaml"]).expect(0, &[]);
}

/// A check whose result is the same in every world is never decisive, so it stays in its script; the rest is lifted and
/// written.
#[test]
#[ignore = "needs bubblewrap and jq; .ci/run has them"]
fn checks_that_are_never_decisive_stay_in_their_script() {
    bwrap();
    let text = task_of("verify", "set -e\nkubectl get pod a\ntest -d /usr/bin");
    let world = World::new(&[("twice.yaml", &text)]);
    let ran =
        world.run(&["convert", "twice.yaml", "--target", "builtin", "--write", "--report", "json"]).expect(0, &[]);
    let report: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    let task = &report["tasks"][0];
    assert_eq!(task["proof"]["proved"], true, "{task}");
    assert!(task["statements"]["residual"].as_u64() >= Some(1), "{task}");
    let why = task["pieces"].as_array().unwrap().iter().filter_map(|piece| piece["why"].as_str()).collect::<String>();
    assert!(why.contains("not proved to be equivalent"), "{task}");
    let written = world.read("twice.portable.yaml");
    assert!(written.contains("run: kubectl get pod a") && written.contains("- script:"), "{written}");
    // Only the check that is implied by the next one stays.
    let text =
        task_of("verify", "set -e\nFILE=/tmp/sum.json\njq empty \"$FILE\"\njq -e '.total == 1' \"$FILE\" > /dev/null");
    let world = World::new(&[("implied.yaml", &text)]);
    world.run(&["convert", "implied.yaml", "--target", "builtin", "--write"]).expect(0, &[]);
    let written = world.read("implied.portable.yaml");
    assert!(written.contains("- script:") && written.contains("run: jq -e '.total == 1' \"$FILE\""), "{written}");
}

/// If several checks ask the same, each one is decisive where its answer differs from the others; a conversion without
/// one of them is refuted.
#[test]
#[ignore = "needs bubblewrap and jq; .ci/run has them"]
fn repeated_checks_are_each_decisive() {
    let open = "        expect:\n          exitCode: any\n";
    let script = "set -e\nkubectl get ns shop\nkubectl get pod a\nkubectl get ns shop";
    let step = |text: &str| format!("run: kubectl get {text}\n");
    let dropped = |text: &str| format!("{}{open}", step(text));
    let first = (format!("{}    - command:\n        {}", step("ns shop"), step("pod a")), String::new());
    let first = (first.0.as_str(), &*format!("{}    - command:\n        {}", dropped("ns shop"), step("pod a")));
    let last = format!("{}    - command:\n        {}", step("pod a"), step("ns shop"));
    let without = format!("{}    - command:\n        {}", step("pod a"), dropped("ns shop"));
    let proof = proof_of(script, &[first, (&last, &without), (&step("pod a"), &dropped("pod a"))]);
    assert!(proof.is_full(), "{proof:?}");
    // Two checks of one answer.
    let script = "A=$(kubectl get pod a -o json | jq -r .a)\n[ \"$A\" = x ] || exit 1\nB=$(kubectl get pod a -o json | jq -r .b)\n[ \"$B\" = up ] || exit 1";
    let proof = proof_of(script, &[("stdout: x", "stdout: {not: other}"), ("stdout: up", "stdout: {not: other}")]);
    assert!(proof.is_full(), "{proof:?}");
    // A request whose answer breaks off prints what the next check wants, and fails.
    let script = "B=$(curl -sf http://shop/a)\nif [ $? -ne 0 ]; then exit 1; fi\n[ \"$(echo \"$B\" | jq -r .b)\" = up ] || exit 1";
    let proof = proof_of(
        script,
        &[("run: curl -sf http://shop/a\n", "run: curl -sf http://shop/a\n        expect: {exitCode: any}\n")],
    );
    assert!(proof.is_full(), "{proof:?}");
}

/// A legacy task with two bash scripts, which end at the first failure.
fn legacy_task(setup: &str, verify: &str) -> String {
    let phase = |name: &str, script: &str| {
        format!("  {name}: {{inline: {:?}}}\n", format!("#!/usr/bin/env bash\nset -e\n{script}"))
    };
    let (setup, verify) = (phase("setup", setup), phase("verify", verify));
    format!(
        "kind: Task\nmetadata: {{name: a, difficulty: easy}}\nsteps:\n  prompt: {{inline: Do it.}}\n{setup}{verify}"
    )
}

/// An agent can also remove what the setup created: a directory that is used as working directory, a database, a file
/// that must not exist.
#[test]
#[ignore = "needs bubblewrap and jq; .ci/run has them"]
fn agents_in_worlds_can_remove_what_setup_created() {
    let right: [(String, &[(&str, &str)]); 3] = [
        (
            legacy_task(
                "git init -q -b main /tmp/lab/repo\ncd /tmp/lab/repo\ngit config user.name a",
                "cd /tmp/lab/repo\ngit log -1 | grep -q fix",
            ),
            &[("contains: fix", "contains: fit")],
        ),
        (
            legacy_task(
                "sqlite3 /tmp/a.db 'CREATE TABLE a (b int)'",
                "[ -f /tmp/a.db ]\n[ \"$(sqlite3 /tmp/a.db 'SELECT count(*) FROM a')\" = 3 ]",
            ),
            &[("test -f /tmp/a.db", "test -n a"), ("stdout: \"3\"", "exitCode: any")],
        ),
        (
            legacy_task(
                "mkdir -p /tmp/lab/in /tmp/lab/done\necho kept > /tmp/lab/in/a.txt",
                "if [ -f /tmp/lab/in/a.txt ]; then exit 1; fi\n[ -f /tmp/lab/done/a.txt ] || exit 1\nif [ -s /tmp/lab/done/b.txt ]; then exit 1; fi\ngrep -q kept /tmp/lab/done/a.txt",
            ),
            &[
                ("test -f /tmp/lab/in/a.txt", "test -z a"),
                ("grep -q kept", "grep -q ''"),
                ("test -s /tmp/lab/done/b.txt", "test -z a"),
            ],
        ),
    ];
    for (task, faults) in &right {
        let proof = proof_in(&[("task.yaml", task)], faults);
        assert!(proof.is_full(), "{task}\n{proof:?}");
    }
}

/// The proof finds answers for scripts that search in lists, in several words of one answer, and in the length of a
/// text.
#[test]
#[ignore = "needs bubblewrap and jq; .ci/run has them"]
fn the_proof_finds_answers_for_scripts_that_search_lists() {
    let scripts: [(&str, &[(&str, &str)]); 4] = [
        (
            "V=$(kubectl get role a -o jsonpath='{.rules[*].verbs[*]}')\nfor verb in get list create; do\n  if ! echo \"$V\" | grep -qw \"$verb\"; then exit 1; fi\ndone",
            &[("- list", "- lists")],
        ),
        (
            "P=$(kubectl get networkpolicy a -o json)\nT=$(echo \"$P\" | jq -r '.spec.policyTypes | sort | join(\",\")')\nif [ \"$T\" != Egress,Ingress ]; then exit 1; fi\nN=$(echo \"$P\" | jq -r '.spec.ingress[0].from | length')\n[ \"$N\" -eq 1 ] || exit 1",
            &[("stdout: Egress,Ingress", "stdout: Egress")],
        ),
        (
            "OUT=/tmp/report/out.json\nR=$(jq -r '.regions | map(.name) | join(\" \")' \"$OUT\")\n[ \"$R\" = 'north south' ] || exit 1\nA=$(jq -r '.regions[] | select(.name == \"north\") | .amount' \"$OUT\")\n[ \"$A\" = 15 ] || exit 1\njq -e 'all(.regions[]; .amount > 0)' \"$OUT\" >/dev/null || exit 1",
            &[
                ("stdout: north south", "stdout: north"),
                ("stdout: \"15\"", "stdout: {not: other}"),
                ("amount > 0", "amount > 5"),
            ],
        ),
        (
            "kubectl get pod a || exit 1\nT=$(kubectl get cm a -o jsonpath='{.data.title}')\nif [ \"${#T}\" -lt 5 ]; then echo short; exit 1; fi",
            &[("-lt 5", "-gt 5")],
        ),
    ];
    for (script, faults) in scripts {
        let proof = proof_of(script, faults);
        assert!(proof.is_full(), "{script}\n{proof:?}");
    }
}

/// A command that reads forever ends the proof soon, and is named; statements beside it do not count as proved.
#[test]
#[ignore = "needs bubblewrap and jq; .ci/run has them"]
fn a_command_that_never_ends_is_named_and_ends_the_proof() {
    let start = std::time::Instant::now();
    let proof = proof_of("set -e\nkubectl get pod web\ntail -f /opt/web/app.log | grep -m1 -q ready", &[]);
    assert!(start.elapsed().as_secs() < 100, "{:?}", start.elapsed());
    assert!(!proof.is_full() && proof.counter_example.is_none(), "{proof:?}");
    assert!(proof.lacks().concat().contains("`tail -f /opt/web/app.log` had not finished after"), "{proof:?}");
    // Shims do not wait.
    let proof = proof_of("set -e\nkubectl get pod web\nkubectl logs -f web | grep -m1 -q ready", &[]);
    assert!(proof.is_full(), "{proof:?}");
}

/// A single variable of a program is limited to 128 KiB; a variable of a shell is not. The output of a step reaches a
/// remaining script through a file, and a conversion that passes it in a variable is refuted.
#[test]
#[ignore = "needs bubblewrap and jq; .ci/run has them"]
fn large_values_reach_scripts_through_files() {
    let script = "V=$(kubectl get cm app -o jsonpath='{.data.text}')\n[ -n \"$V\" ] || exit 1\nwhile read -r line; do kubectl get pod \"${line%% *}\" || exit 1; done <<< \"$V\"";
    let by_variable = ("V_FILE: /tmp/{random.id}/v.txt", "V: \"{steps.v.outputs.stdout}\"");
    let proof = proof_of(script, &[]);
    assert!(proof.is_full(), "{proof:?}");
    let task = task_of("verify", script);
    let proof = proof_in_all(&[("task.yaml", &task)], &[&[by_variable, ("V=$(cat \"$V_FILE\")", ":")]]);
    assert!(proof.is_full(), "{proof:?}");
}

/// A script names a file by the path of its own directory, a step by a relative path: the proof knows that both are the same.
#[test]
#[ignore = "needs bubblewrap and jq; .ci/run has them"]
fn files_next_to_scripts_are_the_same_in_both() {
    let task = "kind: Task\nmetadata: {name: t, difficulty: easy}\nsteps:\n  setup: {file: sql/setup.sh}\n  verify: {inline: psql -c 'SELECT 1'}\n  prompt: {inline: Do it.}\n";
    let setup = "#!/usr/bin/env bash\nset -e\npsql -d shop -f \"$(dirname \"$0\")/schema.sql\"\ncurl -fsS -d @\"$(dirname \"$0\")/body.json\" http://shop/items\n";
    let files = [
        ("task.yaml", task),
        ("sql/setup.sh", setup),
        ("sql/schema.sql", "SELECT 1;\n"),
        ("sql/other.sql", "SELECT 1;\n"),
        ("sql/body.json", "{}\n"),
    ];
    let proof = proof_in(&files, &[("schema.sql", "other.sql"), ("body.json", "other.sql")]);
    assert!(proof.is_full(), "{proof:?}");
}

/// A script that checks whether its programs are installed is tested with each of them missing, and so is its
/// conversion.
#[test]
#[ignore = "needs bubblewrap and jq; .ci/run has them"]
fn scripts_are_tested_with_missing_programs() {
    let script =
        "set -e\nfor tool in kubectl jq; do\n  command -v \"$tool\" >/dev/null 2>&1 || exit 2\ndone\nkubectl get pod a";
    let look = "run: command -v \"$TOOL\"";
    let proof = proof_of(script, &[("- jq\n", "- kubectl\n"), (look, "run: command -v sh"), ("- jq\n", "- helm\n")]);
    assert!(proof.is_full(), "{proof:?}");
}

/// A command that passes on the status of another program may fail with any status: a conversion that requires a
/// particular one is refuted.
#[test]
#[ignore = "needs bubblewrap and jq; .ci/run has them"]
fn a_passed_on_failure_may_have_any_status() {
    let script = "set -e\nif kubectl exec web -- curl -s --max-time 5 http://db; then exit 1; fi\n! docker exec web ls /data || exit 1";
    let (not, one) = ("exitCode:\n                  not: 0", "exitCode: 1");
    let proof = proof_of(script, &[(not, one)]);
    assert!(proof.is_full(), "{proof:?}");
    // Except that a command which is not installed has not failed, but is broken.
    let is_missing = |(_, world): &(String, String)| world.ends_with("is missing");
    assert!(!proof.stronger.is_empty() && proof.stronger.iter().all(is_missing), "{proof:?}");
    // A command with only one failure status may require it.
    let proof =
        proof_of("set -e\nif kubectl get pod web; then exit 1; fi\nkubectl get pod db", &[(one, "exitCode: any")]);
    assert!(proof.is_full(), "{proof:?}");
}

/// Lines of shell, and comparisons of two values, are proved, and conversions that are nearly the same are refuted.
#[test]
#[ignore = "needs bubblewrap and jq; .ci/run has them"]
fn conversions_that_are_almost_equivalent_are_refuted() {
    let right: &[(&str, &[(&str, &str)])] = &[
        (
            "A=$(kubectl get deploy web -o jsonpath='{.spec.replicas}')\nB=$(kubectl get pods --no-headers | wc -l)\nif [ \"$B\" -ne \"$A\" ]; then exit 1; fi",
            &[
                (" | wc -l", " | grep -c a"),
                ("-eq \"$A\"", "-ge \"$A\""),
                ("--no-headers | wc -l", "--no-headers -A | wc -l"),
            ],
        ),
        // The command must also succeed, not only print the right number of lines.
        (
            "set -euo pipefail\nA=$(kubectl get nodes --no-headers | wc -l)\nB=$(kubectl get ds a -o jsonpath='{.n}')\n[[ \"$B\" == \"$A\" ]]",
            &[("set -o pipefail; ", "")],
        ),
        (
            "A=$(kubectl get pod a -o jsonpath='{.a}')\nB=$(kubectl get pod a -o jsonpath='{.b}')\n[[ \"$A\" == *one* || \"$B\" == *two* ]]",
            &[
                ("contains: one", "contains: none"),
                ("contains: two", "matches: two$"),
                ("run: printenv B", "run: printenv A"),
            ],
        ),
        (
            "cd /root/app || exit 1\ngit log -1 | grep -q fix || exit 1",
            &[("test -d /root/app", "test -d /root/other"), ("workdir: /root/app", "workdir: /root")],
        ),
        // A file that exists, is not empty, and has the right contents.
        (
            "F=/opt/answers/a.txt\n[ -f \"$F\" ] || exit 1\n[ -s \"$F\" ] || exit 1\ngrep -q web \"$F\" || exit 1",
            &[("grep -q web", "grep -q we"), ("test -f", "test -d"), ("test -s", "test ! -s")],
        ),
        (
            "n=0\nuntil kubectl get pod web; do\n  n=$((n+1))\n  if [ $n -ge 5 ]; then exit 1; fi\n  sleep 3\ndone",
            &[("timeout: 15s", "timeout: 6s"), ("interval: 3s", "interval: 9s")],
        ),
        (
            "OUT=$(kubectl get cronjob a -o jsonpath='{.spec.schedule}')\n[[ \"$OUT\" =~ ^\\*/[0-9]+\\ \\* ]]",
            &[("[0-9]+", "[0-9]+[0-9]")],
        ),
        // A check of a number of files, and what it compares with.
        (
            "test -f /tmp/moved/out/a.txt || exit 1\nwant_out=1\nfor d in out; do\n  n=$(find /tmp/moved/$d -type f | wc -l)\n  w=want_$d\n  if [ \"$n\" -ne \"${!w}\" ]; then exit 1; fi\ndone\nkubectl get svc web",
            &[("want_out=1\n", "")],
        ),
        // Several matches on one line.
        (
            "[ \"$(kubectl get pods -o jsonpath='{.items[*].status.phase}' | grep -o Running | wc -l)\" -eq 1 ] || exit 1",
            &[("grep -o Running", "grep Running")],
        ),
        // A body that ends with a line feed.
        (
            "N=$(curl -sfL http://web/count)\nif [ \"$N\" -lt 3 ]; then exit 1; fi",
            &[
                ("atLeast: 3", "matches: '^([3-9]|[1-9][0-9]{1,17})$'"),
                ("atLeast: 3", "atLeast: 4"),
                ("atLeast: 3", "atLeast: 2"),
            ],
        ),
        // A range, the limits of which are both part of it.
        (
            "T=$(redis-cli TTL session)\nif [ \"$T\" -le 0 ] || [ \"$T\" -gt 1800 ]; then exit 1; fi",
            &[
                ("atLeast: 1", "atLeast: 0"),
                ("atLeast: 1", "atLeast: 2"),
                ("atMost: 1800", "atMost: 1799"),
                ("atMost: 1800", "atMost: 1801"),
            ],
        ),
        // A limit that the environment may set.
        (
            "MAX=\"${MAX:-3}\"\nfor i in $(seq 1 \"$MAX\"); do\n  kubectl get deploy web && exit 0\n  sleep 1\ndone\nexit 1",
            &[("MAX=\"${MAX:-3}\"", "MAX=3")],
        ),
        // The value of an unquoted variable on the right side is a pattern.
        (
            "MODE=$(kubectl get cm a -o jsonpath='{.data.mode}')\nif [[ \"public\" == $MODE ]]; then exit 1; fi",
            &[("\"public\" == $MODE", "\"public\" == \"$MODE\"")],
        ),
        // A variable that may be unset or empty.
        (
            ": \"${REPO:?no repository}\"\ngh issue view 3 -R \"$REPO\" | grep -q CLOSED",
            &[(": \"${REPO:?no repository}\"", ": \"${REPO?no repository}\"")],
        ),
    ];
    for (script, faults) in right {
        let proof = proof_of(script, faults);
        assert!(proof.is_full(), "{script}\n{proof:?}");
    }
}

/// Returns the proof of the conversion of a verify script.
fn proof_of(script: &str, faults: &[(&str, &str)]) -> prove::Certificate {
    let task = task_of("verify", script);
    proof_in(&[("task.yaml", &task), ("made/a.yaml", "kind: A\n"), ("made/b.yaml", "kind: B\n")], faults)
}

/// Returns the proof of the conversion of `task.yaml` among these files, the first of which is compiled. With each
/// fault inserted into the conversion, the proof must find a counterexample.
fn proof_in(files: &[(&str, &str)], faults: &[(&str, &str)]) -> prove::Certificate {
    let faults: Vec<_> = faults.iter().map(std::slice::from_ref).collect();
    proof_in_all(files, &faults)
}

/// Like [`proof_in`], with faults that consist of several parts.
fn proof_in_all(files: &[(&str, &str)], faults: &[&[(&str, &str)]]) -> prove::Certificate {
    let (bwrap, exe) = (bwrap(), exe());
    let world = World::new(files);
    let path = world.path("task.yaml");
    let sources = Sources::default();
    let compiled = compile(&[world.path(files[0].0)], &sources, &Disk);
    let cx = context(&sources, &Disk, &compiled, Dialect::Portable, Target::Builtin);
    let right = convert::task(&compiled.project.tasks[0], cx).unwrap();
    let mut prover = prove::Prover::new((&bwrap, &exe), &path, 6);
    let proof = prover.prove(&right, None, None).unwrap();
    for fault in faults {
        let mut text = right.text.clone();
        for (from, to) in *fault {
            assert!(text.contains(from), "{from}: {text}");
            text = text.replace(from, to);
        }
        let wrong = Converted { text, ..right.clone() };
        let found = prover.prove(&wrong, None, None).unwrap();
        assert!(found.counter_example.is_some(), "{fault:?}: {found:?}\n{}", wrong.text);
    }
    proof
}

/// The proof finds worlds that contain what scripts compare with, and that set the variables that may be set.
#[test]
#[ignore = "needs bubblewrap and jq; .ci/run has them"]
fn the_proof_finds_worlds_in_which_scripts_pass() {
    let right: &[(&str, &[(&str, &str)])] = &[
        // A variable that may be overridden is overridden in some world.
        (
            "set -e\nNS=\"${SHOP_NS:-shop}\"\nV=$(kubectl get pod a -n \"$NS\" -o jsonpath='{.status.phase}')\n[[ \"$V\" == Running ]]",
            &[("{env.SHOP_NS | default('shop', true)}", "shop")],
        ),
        (
            "set -e\nWANT=\"${WANT:-hello}\"\nV=$(kubectl get pod a -o jsonpath='{.metadata.labels.app}')\n[[ \"$V\" == \"$WANT\" ]]",
            &[],
        ),
        // Sums, columns, and an answer that must differ from another.
        ("A=2\nB=3\nSUM=$((A + B))\nV=$(kubectl get endpoints a -o jsonpath='{.n}')\n[[ \"$V\" -eq \"$SUM\" ]]", &[]),
        (
            "IMAGE=nginx:1.27\nLINES=$(kubectl get pods -o jsonpath='{range .items[*]}{.metadata.name}{\" \"}{.spec.image}{\"\\n\"}{end}')\nbad=0\nwhile read -r name image; do\n  if [[ \"$image\" != \"$IMAGE\" ]]; then bad=1; fi\ndone <<< \"$LINES\"\nexit $bad",
            &[],
        ),
        (
            "A=$(kubectl get route a -o jsonpath='{.metadata.annotations.host}')\nB=$(kubectl get route a -o jsonpath='{.spec.host}')\nif [[ -z \"$A\" ]]; then exit 1; fi\n[[ \"$A\" == \"$B\" ]]",
            &[],
        ),
        // A directory stands for the manifests in it.
        ("set -e\nkubectl apply -f made/", &[("made/", "made/a.yaml")]),
        // Several requirements on one text, and two files that must be equal.
        (
            "set -e\n[ \"$(wc -l < out/names)\" -eq 3 ]\ngrep -qx ann out/names\ntail -n 1 out/names | grep -q '^eve$'",
            &[("-qx ann", "-q ann")],
        ),
        ("set -e\n[ \"$(cat out/a)\" = up ]\ndiff -q out/a out/b", &[("diff -q out/a", "diff -q out/c")]),
        (
            "J=$(kubectl get cm app -o json)\n[ \"$(echo \"$J\" | jq -r .data.a)\" = x ] || exit 1\necho \"$J\" | grep -q '\"b\"' || exit 1",
            &[],
        ),
        // A list in which nothing may meet a condition.
        (
            "N=$(kubectl get pods -o json | jq '[.items[] | select(.status.phase != \"Running\")] | length')\n[ \"$N\" -eq 0 ]",
            &[],
        ),
        // Files that a program lists, runs, follows or compares.
        (
            "set -e\nmkdir -p out\n[ \"$(find out -name '*.jpg' | wc -l)\" -eq 3 ]\n[ \"$(find out -name '*.JPG' | wc -l)\" -eq 0 ]",
            &[("'*.jpg'", "'*.png'")],
        ),
        ("OUT=$(python3 out/calc.py 2>&1)\n[ \"$OUT\" = 5 ]", &[("calc.py", "calk.py")]),
        ("[ \"$(readlink out/current)\" = /srv/v2 ]", &[("current", "newest")]),
        ("diff -q <(sort out/answer.txt) <(printf 'a.py\\nb.py\\n')", &[("answer.txt", "answers.txt")]),
        (
            "W=$(tail -n +2 out/summary.md | wc -w)\nif (( W < 5 || W > 10 )); then exit 1; fi\nhead -n 1 out/summary.md | grep -q '^# Summary$'",
            &[],
        ),
        // What runs in the background may do so at any time, but it must be the same.
        (
            "nohup srv --port 1 > /dev/null 2>&1 &\n[ \"$(kubectl get cm a -o name)\" = x ]",
            &[("srv --port 1", "srv --port 2")],
        ),
        // What jq prints is kept, but not what it reads from a pipe.
        ("V=$(jq -r .status.phase <(kubectl get pod a -o json))\n[ \"$V\" = Running ]", &[]),
    ];
    for (script, faults) in right {
        let proof = proof_of(script, faults);
        assert!(proof.counter_example.is_none() && proof.passed > 0 && proof.failed > 0, "{script}\n{proof:?}");
    }
    // The agent of no world replaces a script of the task itself, which would only break the run.
    let task = task_of("verify", "OUT=$(python3 check.py)\n[ \"$OUT\" = 5 ]");
    let proof = proof_in(&[("task.yaml", &task), ("check.py", "print(4)\n")], &[]);
    assert!(proof.passed == 0 && proof.lacks()[0].ends_with("run `python3 check.py`"), "{proof:?}");
    // What differs from run to run is not a fault of the conversion.
    let proof = proof_of("set -e\nkubectl label pod a run=$RANDOM", &[]);
    assert_eq!(
        proof.lacks()[0],
        "no world in which both pass: the original does not behave the same way in every run: they call different commands in verify"
    );
    assert_eq!(proof.counter_example, None);
}

/// The first run of the original fails, and no later one: a file that is not restored between runs simulates a race.
/// The proof continues with what is repeatable.
#[test]
#[ignore = "needs bubblewrap and jq; .ci/run has them"]
fn a_single_unrepeatable_run_does_not_refute_a_conversion() {
    // Only in worlds that are compared. Written as patterns, because worlds are made from the words and paths of a
    // script.
    let odd = "D=$(echo /wor?d)\nif grep -qs 'hasty.[^.]false' \"$D\"/*.json && ! test -e \"$D/odd\"; then touch \"$D/odd\"; exit 1; fi";
    let world = World::new(&[("task.yaml", &task_of("verify", &format!("{odd}\nkubectl get pod a")))]);
    let plain = World::new(&[("task.yaml", &task_of("verify", "kubectl get pod a"))]);
    let converted = |world: &World| {
        let sources = Sources::default();
        let compiled = compile(&[world.path("task.yaml")], &sources, &Disk);
        let cx = context(&sources, &Disk, &compiled, Dialect::Portable, Target::Builtin);
        convert::task(&compiled.project.tasks[0], cx).unwrap()
    };
    let (new, right) = (converted(&world), converted(&plain));
    let text = right.text.replace("kubectl get pod a", "kubectl get pod b");
    for (text, is_refuted) in [(right.text, false), (text, true)] {
        let (bwrap, exe, path) = (bwrap(), exe(), world.path("task.yaml"));
        let new = Converted { text, ..new.clone() };
        let proof = prove::prove((&bwrap, &exe), &path, &new, None, None, 6).unwrap();
        assert_eq!((proof.counter_example.is_some(), proof.hindered.is_some()), (is_refuted, false), "{proof:#?}");
    }
}

/// What one world cannot have, another one has: different answers before and after the agent, a judge that rejects one
/// question of several, a variable that must be set, and files in the usual places.
#[test]
#[ignore = "needs bubblewrap and jq; .ci/run has them"]
fn worlds_contain_what_tasks_depend_on() {
    let steps = |phases: &str| {
        format!(
            "kind: Task\nmetadata: {{name: a, difficulty: easy}}\nsteps:\n  prompt: {{inline: Mend the pod.}}\n{phases}"
        )
    };
    let phase =
        |name: &str, script: &str| format!("  {name}: {{inline: {:?}}}\n", format!("#!/usr/bin/env bash\n{script}"));
    let is = |state: &str| format!("set -e\n[ \"$(kubectl get pod web -o jsonpath={{.status.phase}})\" = {state} ]");
    let judges = "kind: Task\napiVersion: mcpchecker/v1alpha2\nmetadata: {name: a, difficulty: easy}\nspec:\n  prompt: {inline: Which pods?}\n  verify:\n    - llmJudge: {contains: web}\n    - llmJudge: {contains: db}\n";
    let right: [(String, &[(&str, &str)]); 7] = [
        (
            steps(&(phase("setup", &is("Failed")) + &phase("verify", &is("Running")))),
            &[("stdout: Failed", "stdout: Pending"), ("stdout: Running", "stdout: Ready")],
        ),
        (judges.to_owned(), &[("contains: db", "contains: web"), ("    - llm:\n        contains: db\n", "")]),
        (
            steps(&phase("verify", "set -eu\nshopctl --host \"${SHOP_HOST:?is not set}\" list | grep -q web")),
            &[("grep -q web", "grep -q db")],
        ),
        (steps(&phase("verify", "[ \"$(cat /opt/course/token)\" = abc ]")), &[("stdout: abc", "stdout: abd")]),
        (
            steps(&(phase("setup", "set -e\ntouch /root/.begun") + &phase("verify", "kubectl get pod web"))),
            &[("get pod web", "get pod db")],
        ),
        // A command of the shell leaves no trace.
        (
            steps(&(phase("setup", "mkdir -p /tmp/p && echo x > /tmp/p/f") + &phase("verify", "grep -q y /tmp/p/f"))),
            &[("grep -q y", "grep -q z")],
        ),
        // Two outputs that must be equal.
        (
            steps(&phase("verify", "set -e\n[ \"$(kubectl get cm a -o jsonpath={.data.x})\" = \"$(shopctl token)\" ]")),
            &[("shopctl token", "shopctl tokens"), ("{steps.expected.outputs.stdout}", "same")],
        ),
    ];
    for (task, faults) in &right {
        let proof = proof_in(&[("task.yaml", task)], faults);
        assert!(proof.is_full(), "{task}\n{proof:?}");
    }
    // A command that reads a file beside its script does not do the same elsewhere.
    let script = "#!/usr/bin/env bash\nset -e\nkubectl create secret tls x --cert=x.crt --key=x.key\n";
    let task = steps("  setup: {file: scripts/setup.sh}\n  verify: {inline: kubectl get pod web}\n");
    let files = [
        ("task.yaml", task.as_str()),
        ("scripts/setup.sh", script),
        ("scripts/x.crt", "c\n"),
        ("scripts/x.key", "k\n"),
    ];
    let proof = proof_in(&files, &[("        workdir: scripts\n", "")]);
    assert!(proof.is_full(), "{proof:?}");
}

/// Scripts whose answers can only be found by what bash compares, and files that must be executable.
#[test]
#[ignore = "needs bubblewrap and jq; .ci/run has them"]
fn worlds_are_found_by_what_bash_compares() {
    let numbered: Vec<String> = (1..=10)
        .map(|n| format!("[ \"$(kubectl get pod web-{n} -o jsonpath={{.status.phase}})\" = Up{n} ] || exit 1"))
        .collect();
    let scripts: [(String, &[(&str, &str)]); 6] = [
        ("test -x /tmp/p/run.sh".to_owned(), &[("test -x", "test -f")]),
        (
            "row=$(psql -Atc 'SELECT a, b FROM t')\nIFS='|' read -r a b <<< \"$row\"\nok=true\n[[ \"$a\" -eq 200 ]] || ok=false\n[[ -n \"$b\" && \"$b\" -ge 32768 ]] || ok=false\n$ok".to_owned(),
            &[("-eq 200", "-ge 200"), ("-ge 32768", "-gt 32768")],
        ),
        (
            "set -e\nimage=$(docker compose config --images | grep '^postgres:' | head -n 1)\ntag=${image##*:}\nmajor=${tag%%.*}\nif (( major < 16 )); then exit 1; fi".to_owned(),
            &[("major < 16", "major < 17")],
        ),
        (
            "set -e\nOUT=/tmp/sales/report.txt\nNORTH=$(grep '^north' \"$OUT\" | awk '{print $2}')\nSOUTH=$(grep '^south' \"$OUT\" | awk '{print $2}')\n[ \"$NORTH\" = 150 ] || exit 1\n[ \"$SOUTH\" = 250 ] || exit 1".to_owned(),
            &[("150", "15"), ("250", "25")],
        ),
        (
            "WANTED=(www.example.com example.com)\nhosts=$(kubectl get ingress web -o jsonpath='{.spec.rules[*].host}')\nfor h in \"${WANTED[@]}\"; do\n  found=no\n  for x in $hosts; do if [ \"$x\" = \"$h\" ]; then found=yes; fi; done\n  [ \"$found\" = yes ] || exit 1\ndone".to_owned(),
            &[("(www.example.com example.com)", "(www.example.com)")],
        ),
        // Commands that differ only in their numbers are all examined.
        (numbered.join("\n"), &[("stdout: Up9", "exitCode: 0"), ("stdout: Up10", "stdout: {contains: Up}")]),
    ];
    for (script, faults) in scripts {
        let proof = proof_of(&script, faults);
        assert!(proof.is_full(), "{script}\n{proof:?}");
    }
}

/// What external commands leave for later ones exists: a repository to change to, a database to query.
#[test]
#[ignore = "needs bubblewrap and jq; .ci/run has them"]
fn results_of_external_commands_exist_in_worlds() {
    let right: [(String, &[(&str, &str)]); 2] = [
        (
            legacy_task(
                "cd /tmp\ngit clone -q https://git.example.com/a/shop.git\ngit -C /tmp/shop config user.name a",
                "cd /tmp/shop\ngit status --porcelain",
            ),
            &[("test -d /tmp/shop", "test -d /tmp/shops")],
        ),
        (
            legacy_task(
                "sqlite3 /tmp/a.db 'CREATE TABLE a (b int)'",
                "[ -f /tmp/a.db ]\n[ \"$(sqlite3 /tmp/a.db 'SELECT count(*) FROM a')\" = 3 ]",
            ),
            &[("test -f", "test ! -f")],
        ),
    ];
    for (task, faults) in &right {
        let proof = proof_in(&[("task.yaml", task)], faults);
        assert!(proof.counter_example.is_none() && proof.passed > 0 && proof.failed > 0, "{task}\n{proof:?}");
    }
}

/// In the proof's worlds, the agent answers with what the scripts search for, with something else, and with text that
/// fools a shell.
#[test]
#[ignore = "needs bubblewrap and jq; .ci/run has them"]
fn agents_answer_questions_in_worlds() {
    let task = "kind: Task\napiVersion: mcpchecker/v1alpha2\nmetadata: {name: a, difficulty: easy}\nspec:\n  prompt: {inline: What is the answer?}\n  verify:\n    - script:\n        env: {ANSWER: \"{agent.output}\"}\n        inline: |\n          #!/usr/bin/env bash\n          printf '%s' \"$ANSWER\" | grep -q 42\n";
    let faults = [("grep -q 42", "grep -q 43"), ("grep -q 42", "grep -qx 42"), ("grep -q 42", "grep -q ''")];
    let proof = proof_in(&[("task.yaml", task)], &faults);
    assert!(proof.counter_example.is_none() && proof.passed > 0 && proof.failed > 0, "{proof:?}");
}

/// The alias of an extension in an eval refers to the package that the conversion imports, also for the original in its
/// proof.
#[test]
#[ignore = "needs bubblewrap and jq; .ci/run has them"]
fn the_proof_uses_the_extensions_of_an_eval() {
    let eval = "kind: Eval\nmetadata: {name: e}\nconfig:\n  agent: {type: builtin.noop}\n  extensions: {theirs: {package: \"builtin:kubernetes\"}}\n  taskSets: [{path: task.yaml}]\n";
    let task = "kind: Task\napiVersion: mcpchecker/v1alpha2\nmetadata: {name: a, difficulty: easy}\nspec:\n  requires: [{extension: theirs, as: k}]\n  prompt: {inline: Start the pod.}\n  verify:\n    - k.wait: {resource: pod/web, condition: Ready}\n";
    let faults = [("condition: Ready", "condition: Initialized"), ("pod/web", "pod/other")];
    let proof = proof_in(&[("eval.yaml", eval), ("task.yaml", task)], &faults);
    assert!(proof.counter_example.is_none() && proof.passed > 0 && proof.failed > 0, "{proof:?}");
}

/// A script with a time limit is lifted like one without, and no step may take longer than the whole script was allowed
/// to.
#[test]
fn lifted_steps_respect_the_time_limit_of_their_script() {
    let script = "set -e\nkubectl get pod a\nfor i in {1..30}; do\n  if kubectl get pod web; then exit 0; fi\n  sleep 2\ndone\nexit 1";
    let lifted = |limit: &str| {
        let indented = script.lines().map(|line| format!("          {line}\n")).collect::<String>();
        let text = format!(
            "kind: Task\napiVersion: mcpchecker/v1alpha2\nmetadata: {{name: a, difficulty: easy}}\nspec:\n  prompt: {{inline: Do it.}}\n  verify:\n    - script:\n{limit}        inline: |\n          #!/usr/bin/env bash\n{indented}"
        );
        let mut files = MemoryFiles::default();
        files.add("task.yaml", text, false);
        let sources = Sources::default();
        let compiled = compile(&[PathBuf::from("task.yaml")], &sources, &files);
        let cx = context(&sources, &files, &compiled, Dialect::Portable, Target::Builtin);
        let text = convert::task(&compiled.project.tasks[0], cx).unwrap().text;
        assert!(text.contains("run: kubectl get pod a") && text.contains("eventually:"), "{text}");
        text.lines().filter_map(|line| line.trim().strip_prefix("timeout: ")).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(lifted(""), ["1m"], "what the rounds take");
    // Each of them, and the group.
    assert_eq!(lifted("        timeout: 20s\n"), ["20s"; 4]);
    // A command has a default limit of one minute.
    assert_eq!(lifted("        timeout: 2m\n"), ["2m", "1m"]);
}

/// Time is simulated, and the results of processes are cached; nevertheless, a conversion that waits for a different
/// time than the script is detected, even after one that does not.
#[test]
#[ignore = "needs bubblewrap and jq; .ci/run has them"]
fn a_conversion_with_a_different_waiting_time_is_detected() {
    let (bwrap, exe) = (bwrap(), exe());
    let lifted = "for i in {1..30}; do\n  if kubectl get pod web; then exit 0; fi\n  sleep 2\ndone\nexit 1";
    // It stays in its script, for seventy seconds at most.
    let kept = "n=0\nuntil kubectl get pod web | grep -q \"$(kubectl get pod db | rev)\"; do\n  sleep 7; n=$((n+1))\n  [ \"$((n * 7))\" -lt 70 ] || exit 1\ndone";
    // The limit also applies to the simulated time of the jail.
    let limited = "timeout 60 bash -c 'until kubectl get pod web; do sleep 2; done' || exit 1\nkubectl get pod db";
    // The shell's own clock is simulated as well.
    let timed = "deadline=$((SECONDS + 60))\nwhile (( SECONDS < deadline )); do\n  if kubectl get pod web; then exit 0; fi\n  sleep 2\ndone\nexit 1";
    // A wait that succeeds late. In a variable, its limit is known as well.
    let slow = "T=180s\nkubectl wait --for=condition=Ready pod/web --timeout=$T || exit 1\nkubectl get pod db";
    let faults: [(&str, &[(&str, &str)]); 5] = [
        (slow, &[("timeout: 3m10s", "timeout: 90s"), ("        timeout: 3m10s\n", "")]),
        (timed, &[("timeout: 1m", "timeout: 40s"), ("timeout: 1m", "timeout: 2m"), ("interval: 2s", "interval: 6s")]),
        (limited, &[("timeout 60", "timeout 30"), ("timeout 60", "timeout 90"), ("sleep 2", "sleep 5")]),
        (
            lifted,
            &[
                ("timeout: 1m", "timeout: 40s"),
                ("timeout: 1m", "timeout: 2m"),
                ("interval: 2s", "interval: 6s"),
                ("interval: 2s", "interval: 1s"),
                // A round takes longer.
                ("kubectl get pod web", "sleep 3; kubectl get pod web"),
            ],
        ),
        (kept, &[("- script:\n", "- script:\n        timeout: 20s\n"), ("sleep 7", "sleep 70"), ("-lt 70", "-lt 700")]),
    ];
    for (script, faults) in faults {
        let world = World::new(&[("wait.yaml", &task_of("verify", script))]);
        let path = world.path("wait.yaml");
        let sources = Sources::default();
        let compiled = compile(std::slice::from_ref(&path), &sources, &Disk);
        let cx = context(&sources, &Disk, &compiled, Dialect::Portable, Target::Builtin);
        let right = convert::task(&compiled.project.tasks[0], cx).unwrap();
        let mut prover = prove::Prover::new((&bwrap, &exe), &path, 6);
        let first = prover.prove(&right, None, None).unwrap();
        assert!(first.counter_example.is_none() && first.passed > 0, "{first:?}\n{}", right.text);
        for (from, to) in faults {
            assert!(right.text.contains(from), "{from}: {}", right.text);
            let wrong = Converted { text: right.text.replace(from, to), ..right.clone() };
            let found = prover.prove(&wrong, None, None).unwrap();
            assert!(found.counter_example.is_some(), "{from} as {to}: {found:?}\n{}", wrong.text);
        }
        assert_eq!(prover.prove(&right, None, None).unwrap(), first);
        assert_eq!(prove::prove((&bwrap, &exe), &path, &right, None, None, 6).unwrap(), first);
        // With a second jail as well.
        let mut prover = prove::Prover::new((&bwrap, &exe), &path, 6).side_by_side();
        assert_eq!(prover.prove(&right, None, None).unwrap(), first);
        let (from, to) = faults[0];
        let wrong = Converted { text: right.text.replace(from, to), ..right.clone() };
        assert!(prover.prove(&wrong, None, None).unwrap().counter_example.is_some());
        assert_eq!(prover.prove(&right, None, None).unwrap(), first);
    }
}

#[test]
fn conversions_match_the_documented_pages() {
    let mut faults = Vec::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let pages =
        [root.join("tests/convert"), root.join("docs")].iter().flat_map(|dir| page::pages(dir)).collect::<Vec<_>>();
    for page in pages {
        let mut bodies = Vec::new();
        let mut now: Option<(String, Converted)> = None;
        let mut files = MemoryFiles::default();
        for block in &page.blocks {
            let said = match (block.language(), &now) {
                // A file that the next script sources.
                ("sh", _) if block.info.len() == 2 => {
                    files.add(block.file(), block.text(), false);
                    continue;
                }
                ("bash", _) => {
                    let phase = ["setup", "verify", "cleanup"].into_iter().find(|p| block.has(p)).unwrap();
                    let mut files = std::mem::take(&mut files);
                    files.add("task.yaml", task_of(phase, &block.text()), false);
                    let sources = Sources::default();
                    let compiled = compile(&[PathBuf::from("task.yaml")], &sources, &files);
                    let target = if block.has("kubernetes") { Target::Kubernetes } else { Target::Builtin };
                    let cx = context(&sources, &files, &compiled, Dialect::Portable, target);
                    now = Some((phase.to_owned(), convert::task(&compiled.project.tasks[0], cx).unwrap()));
                    continue;
                }
                ("yaml", Some((phase, new))) => {
                    let lines: Vec<_> = new.text.lines().collect();
                    let start = lines.iter().position(|l| *l == format!("  {phase}:")).unwrap();
                    let end = lines[start + 1..].iter().position(|l| l.starts_with("  ") && !l.starts_with("   "));
                    let end = end.map_or(lines.len(), |e| start + 1 + e);
                    lines[start..end]
                        .iter()
                        .map(|l| format!("{}\n", l.strip_prefix("  ").unwrap_or(l)))
                        .collect::<String>()
                }
                ("labels", Some((phase, new))) => new
                    .pieces
                    .iter()
                    .filter(|p| p.phase.name() == phase && p.statements > 0)
                    .map(|p| {
                        let why = p.why.as_ref().map(|w| format!(": {w}")).unwrap_or_default();
                        format!("{} {} in line {}{why}\n", p.label.name(), p.statements, p.line)
                    })
                    .collect(),
                _ => continue,
            };
            if said != page.text[block.range.clone()] {
                faults.push(format!("{}:{}: now\n{said}", page.path.display(), block.line));
                bodies.push((block.range.clone(), said));
            }
        }
        if !bodies.is_empty() && std::env::var_os("BLESS").is_some() && std::env::var_os("CI").is_none() {
            fs::write(&page.path, page.with(&bodies)).unwrap();
            faults.clear();
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
