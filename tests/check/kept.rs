//! The cache of `gevals check`: whatever changes in between, the output is the same as without the cache.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::{Command, Output},
    thread::sleep,
    time::{Duration, SystemTime},
};

use fastrand::Rng;
use sha2::{Digest, Sha256};

use super::{EVAL, MCP, task, world::World};

/// Number of suites, and number of changes in each.
const SUITES: u64 = 20;
const EDITS: usize = 9;
/// After this time, another change of a file has a different timestamp.
pub(super) const SETTLED: Duration = Duration::from_millis(40);
/// The first bytes of a cached output, and the length of the digest of everything after it.
const FORM: &[u8] = b"gevals check 1\n";
const DIGEST: usize = 32;

/// Commands that are run repeatedly.
const QUESTIONS: [&[&str]; 8] = [
    &["check"],
    &["check", "--format", "json", "."],
    &["check", "--affected", "evals/tasks/a/task.yaml", "evals/tasks/b/verify.sh"],
    &["check", "--affected", "evals/mcp.yaml", "--format", "concise"],
    &["check", "evals/tasks/a/verify.sh", "--verbose"],
    &["check", "evals", "--workspace", "-D", "unused-allow", "--statistics"],
    &["check", "../suite/evals/eval.yaml", "evals/linked/task.yaml"],
    &["check", ".", "--baseline", "known.json"],
];

/// Texts that are written into files.
const PIECES: [&str; 10] = [
    "tiemout: 5s\n",
    "# gevals: allow(unknown-field)\n",
    "kinds: 1\n",
    "  labels: {a: b}\n",
    "test -d /nowhere\n",
    ". ./lib/help.sh\n",
    "exit 0\n",
    "\t",
    "[rules]\nunknown-field = \"warning\"\n",
    "exclude = [\"evals/tasks/b/**\"]\n",
];

fn project() -> World {
    let world = World::new(&[
        ("suite/.git/HEAD", "ref: refs/heads/main\n"),
        ("suite/gevals.toml", "[rules]\nprompt-disagrees = \"error\"\n"),
        ("suite/known.json", "[]\n"),
        ("suite/evals/eval.yaml", EVAL),
        ("suite/evals/mcp.yaml", MCP),
        ("suite/evals/tasks/a/task.yaml", &task("a")),
        ("suite/evals/tasks/b/task.yaml", &task("b")),
        ("suite/evals/tasks/a/verify.sh", "#!/usr/bin/env bash\nset -e\n. ./lib/help.sh\ntest -d /\n"),
        ("suite/evals/tasks/b/verify.sh", "#!/usr/bin/env bash\nset -e\ntest -d /\n"),
        ("suite/evals/tasks/a/lib/help.sh", "true\n"),
        ("suite/evals/other/task.yaml", &task("other")),
        ("suite/evals/other/verify.sh", "#!/usr/bin/env bash\ntest -d /\n"),
        ("suite/notes/list.yaml", "- a\n- b\n"),
        ("outside/task.yaml", &task("outside")),
        ("outside/verify.sh", "#!/usr/bin/env bash\ntest -d /\n"),
    ]);
    for script in ["a", "b"] {
        world.executable(&format!("suite/evals/tasks/{script}/verify.sh"));
    }
    symlink("other", world.path("suite/evals/linked")).unwrap();
    // Lets the timestamps become as old as those of an existing project.
    sleep(SETTLED);
    world
}

pub(super) fn ask(world: &World, args: &[&str]) -> Command {
    let mut command = world.command(args);
    command.current_dir(world.path("suite")).env("GEVALS_CACHE_DIR", world.path("cache"));
    command
}

pub(super) fn told(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// Returns the output with the cache, which must equal the output without it.
#[track_caller]
pub(super) fn same(world: &World, question: &[&str], context: &str) -> (Option<i32>, String, String) {
    let with = told(&ask(world, question).output().unwrap());
    let without = told(&ask(world, question).arg("--no-cache").output().unwrap());
    assert_eq!(with, without, "{context}: {question:?}");
    with
}

/// Returns the cached outputs; one that is stored again has a different inode.
pub(super) fn kept(world: &World) -> BTreeMap<PathBuf, u64> {
    let entries = fs::read_dir(world.path("cache/checks")).into_iter().flatten().flatten();
    let answers = entries.filter(|entry| entry.path().extension().is_none());
    answers.map(|entry| (entry.path(), entry.metadata().unwrap().ino())).collect()
}

/// Returns the only cached output.
fn only(world: &World) -> PathBuf {
    let kept: Vec<_> = kept(world).into_keys().collect();
    assert_eq!(kept.len(), 1, "{kept:?}");
    kept[0].clone()
}

#[test]
fn after_any_change_a_check_with_the_cache_equals_one_without() {
    let mut known = 0;
    for seed in 0..SUITES {
        let mut rng = Rng::with_seed(seed);
        let world = project();
        let mut edits = Vec::new();
        for _ in 0..EDITS {
            let question = QUESTIONS[rng.usize(..QUESTIONS.len())];
            if rng.bool() {
                sleep(SETTLED);
            }
            let before = same(&world, question, &format!("seed {seed}, before, {edits:#?}"));
            let answers = kept(&world);
            assert_eq!(told(&ask(&world, question).output().unwrap()), before, "seed {seed}, again, {edits:#?}");
            known += usize::from(before.0 != Some(2) && answers == kept(&world));
            edits.push(change(&mut rng, &world));
            same(&world, question, &format!("seed {seed}, {edits:#?}"));
        }
    }
    assert!(known > EDITS, "{known} times what was kept was of use");
}

/// A name, additional files, the command, and the change after it.
type Case<'c> = (&'c str, fn(&World), &'c [&'c str], fn(&World));

#[test]
fn every_single_input_of_a_check_invalidates_the_cache() {
    fn link(world: &World, target: &str, path: &str) {
        drop(fs::remove_file(world.path(path)));
        symlink(target, world.path(path)).unwrap();
    }
    fn moved(world: &World, from: &str, to: &str) {
        fs::rename(world.path(from), world.path(to)).unwrap();
    }
    let affected: &[&str] = &["check", "--affected", "target/alias.sh"];
    let cases: [Case<'_>; 8] = [
        (
            "what a link leads to",
            |world| link(world, "../b/verify.sh", "suite/evals/tasks/a/verify.sh"),
            &["check", "evals/tasks/a/task.yaml"],
            |world| world.write("suite/evals/tasks/b/verify.sh", "#!/usr/bin/env bash\ntest -d /\ntrue\n"),
        ),
        (
            "where a link in the way leads: out of the project, to the same files",
            |world| {
                world.write("suite/evals/other/deep/task.yaml", &task("deep"));
                world.write("suite/evals/other/deep/verify.sh", "#!/usr/bin/env bash\ntest -d /\n");
            },
            &["check", "evals/linked/deep/task.yaml"],
            |world| {
                moved(world, "suite/evals/other", "outside/other");
                link(world, "../../outside/other", "suite/evals/linked");
            },
        ),
        (
            "where the link behind that leads",
            |world| {
                link(world, "hop", "suite/evals/linked");
                link(world, "other", "suite/evals/hop");
            },
            &["check", "evals/linked/task.yaml"],
            |world| {
                moved(world, "suite/evals/other", "outside/other");
                link(world, "../../outside/other", "suite/evals/hop");
            },
        ),
        (
            "whether a link in a folder leads to a folder",
            |world| {
                world.write("suite/evals/target/thing", "");
                link(world, "../target/thing", "suite/evals/tasks/extra");
            },
            &["check", "evals/eval.yaml"],
            |world| {
                fs::remove_file(world.path("suite/evals/target/thing")).unwrap();
                world.write("suite/evals/target/thing/task.yaml", &task("extra"));
            },
        ),
        (
            "where the project begins",
            |world| link(world, "../../../outside", "suite/evals/tasks/out"),
            &["check", "evals/eval.yaml"],
            |world| moved(world, "suite/.git", ".git"),
        ),
        (
            "which file is named",
            |world| {
                world.write("suite/target/other", "");
                link(world, "../evals/tasks/a/verify.sh", "suite/target/alias.sh");
            },
            affected,
            |world| link(world, "other", "suite/target/alias.sh"),
        ),
        (
            "what is known already",
            |world| world.write("suite/evals/tasks/a/task.yaml", &format!("{}  tiemout: 5s\n", task("a"))),
            &["check", "evals/eval.yaml", "--baseline", "../known.json"],
            |world| {
                let found = ask(world, &["check", "evals/eval.yaml", "--write-baseline", "../known.json"]).output();
                assert!(found.unwrap().status.success());
            },
        ),
        (
            "whether a script can be run",
            |_| (),
            &["check", "evals/eval.yaml"],
            |world| {
                let script = world.path("suite/evals/tasks/a/verify.sh");
                fs::set_permissions(script, fs::Permissions::from_mode(0o644)).unwrap();
            },
        ),
    ];
    for (what, prepare, question, change) in cases {
        let world = project();
        world.write("known.json", "[]\n");
        prepare(&world);
        sleep(SETTLED);
        let before = same(&world, question, what);
        only(&world);
        change(&world);
        assert_ne!(same(&world, question, what), before, "{what}");
    }
}

/// Changes something in the project, and describes the change.
fn change(rng: &mut Rng, world: &World) -> String {
    let root = world.path("suite");
    let mut files = Vec::new();
    collect(&root, &mut files);
    files.sort();
    let at = |rng: &mut Rng| files[rng.usize(..files.len())].clone();
    let (one, other) = (at(rng), at(rng));
    let piece = PIECES[rng.usize(..PIECES.len())];
    let text = fs::read_to_string(&one).unwrap_or_default();
    let kind = rng.usize(..16);
    match kind {
        0..=2 => {
            let lines: Vec<&str> = text.split_inclusive('\n').collect();
            let place: usize = lines[..rng.usize(..=lines.len())].iter().map(|line| line.len()).sum();
            drop(fs::write(&one, format!("{}{piece}{}", &text[..place], &text[place..])));
        }
        // The same number of bytes, with the original timestamp.
        3 | 4 => {
            let time = fs::metadata(&one).and_then(|meta| meta.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
            let text = match kind {
                3 => text.replace("true", "fals").replace("test", "tset").replace("kind", "knid"),
                _ => text.replace("fals", "true").replace("tset", "test").replace("knid", "kind"),
            };
            drop(fs::write(&one, text));
            drop(File::options().write(true).open(&one).and_then(|file| file.set_modified(time)));
        }
        5 => drop(fs::remove_file(&one)),
        6 => {
            let name = ["d", "e"][rng.usize(..2)];
            world.write(&format!("suite/evals/tasks/{name}/task.yaml"), &task(name));
            world.write(&format!("suite/evals/tasks/{name}/verify.sh"), "test -d /\n");
        }
        // Another eval selects the tasks.
        7 => world.write("suite/evals/second.yaml", &EVAL.replace("tasks/*", ["*", "tasks/[ab]"][rng.usize(..2)])),
        // Two files or directories swap their names: no inode and no content changes.
        8 => {
            let (one, other) = match rng.bool() {
                true => (root.join("evals/tasks/a"), root.join("evals/tasks/b")),
                false => (one.clone(), other.clone()),
            };
            let between = root.join("evals/between");
            drop(fs::rename(&one, &between).and_then(|()| fs::rename(&other, &one)));
            drop(fs::rename(&between, &other));
        }
        9 => {
            let link = ["evals/linked", "evals/tasks/c", "evals/tasks/a/verify.sh"][rng.usize(..3)];
            let target = ["other", "tasks/b", "../../outside", "../other", "nowhere", "linked", "../b/verify.sh"];
            let target = target[rng.usize(..target.len())];
            drop(fs::remove_file(root.join(link)));
            drop(symlink(target, root.join(link)));
            return format!("{link} leads to {target}");
        }
        // The target of a link moves elsewhere.
        10 => {
            let (from, to) = match root.join("evals/other").exists() {
                true => (root.join("evals/other"), world.path("outside/other")),
                false => (world.path("outside/other"), root.join("evals/other")),
            };
            drop(fs::rename(&from, &to));
            drop(symlink(&to, &from));
        }
        11 => {
            let mode = [0o644, 0o755, 0o600, 0o000][rng.usize(..4)];
            drop(fs::set_permissions(&one, fs::Permissions::from_mode(mode)));
        }
        12 => {
            let lock = "version: 1\nservers:\n  notes:\n    tools: {}\n";
            drop(fs::write(root.join(["gevals.lock", "evals/gevals.lock"][rng.usize(..2)]), lock));
        }
        13 => {
            let ignore = ["a/\n", "*.yaml\n", "!task.yaml\n"][rng.usize(..3)];
            drop(fs::write(root.join(["evals/.gitignore", "evals/tasks/.ignore"][rng.usize(..2)]), ignore));
        }
        // The root of the project changes.
        14 => {
            let (here, there) = (root.join(".git"), world.path(".git"));
            drop(if here.exists() { fs::rename(&here, &there) } else { fs::rename(&there, &here) });
        }
        _ => {
            drop(File::options().write(true).open(&one).and_then(|file| file.set_modified(SystemTime::now())));
        }
    }
    format!("{kind}: {} {}: {piece:?}", one.display(), other.display())
}

fn collect(dir: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        match entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            true => collect(&entry.path(), files),
            false => files.push(entry.path()),
        }
    }
}

/// Returns a cached output with other words in it, as a forger who knows the format would write it.
fn forged(path: &Path, old: &str, new: &str) -> Vec<u8> {
    assert_eq!(old.len(), new.len());
    let mut bytes = fs::read(path).unwrap();
    let place = bytes.windows(old.len()).position(|part| part == old.as_bytes()).unwrap();
    bytes[place..place + new.len()].copy_from_slice(new.as_bytes());
    let digest = Sha256::digest(&bytes[FORM.len() + DIGEST..]);
    bytes[FORM.len()..FORM.len() + DIGEST].copy_from_slice(&digest);
    bytes
}

#[test]
fn cached_output_is_reused_until_a_file_changes() {
    let world = project();
    let question: &[&str] = &["check"];
    let cold = same(&world, question, "cold");
    let answer = only(&world);
    assert_eq!(fs::metadata(&answer).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::metadata(world.path("cache/checks")).unwrap().permissions().mode() & 0o777, 0o700);
    // Only whether something has changed is verified, not the output itself.
    let forgery = forged(&answer, " in ", " IN ");
    fs::write(&answer, &forgery).unwrap();
    let again = told(&ask(&world, question).output().unwrap());
    assert_eq!(again, (cold.0, cold.1.replacen(" in ", " IN ", 1), String::new()));
    // A directory that others can write to is ignored.
    fs::set_permissions(world.path("cache/checks"), fs::Permissions::from_mode(0o777)).unwrap();
    assert_eq!(told(&ask(&world, question).output().unwrap()), cold);
    fs::set_permissions(world.path("cache/checks"), fs::Permissions::from_mode(0o700)).unwrap();
    // Another command is executed without the cached output: from another directory, with another root, in another
    // format.
    for other in [&["check", "."] as &[&str], &["check", "--color", "always"], &["check", "--root", ".."]] {
        assert!(!same(&world, other, "another question").1.contains(" IN "));
    }
    assert_eq!(fs::read(&answer).unwrap(), forgery, "it is still there");
    world.write("suite/evals/tasks/b/verify.sh", "#!/usr/bin/env bash\nset -e\ntest -e /\n");
    assert!(!same(&world, question, "a script has changed").1.contains(" IN "));
}

#[test]
fn a_damaged_cache_is_not_used() {
    let world = project();
    let question: &[&str] = &["check", "evals/eval.yaml", "--format", "concise"];
    let cold = same(&world, question, "cold");
    let (answer, mut rng) = (only(&world), Rng::with_seed(1));
    let whole = fs::read(&answer).unwrap();
    let mut damages: Vec<(String, Vec<u8>)> = vec![
        ("empty".to_owned(), Vec::new()),
        ("other words".to_owned(), b"no findings in 3 files\n".repeat(20)),
        ("another form".to_owned(), [b"gevals check 2\n", &whole[FORM.len()..]].concat()),
        ("more".to_owned(), [whole.as_slice(), b"\0"].concat()),
    ];
    for _ in 0..12 {
        let length = rng.usize(..whole.len());
        damages.push((format!("the first {length} bytes"), whole[..length].to_vec()));
        let mut bytes = whole.clone();
        let (place, bit) = (rng.usize(..bytes.len()), rng.usize(..8));
        bytes[place] ^= 1 << bit;
        damages.push((format!("bit {bit} of byte {place}"), bytes));
    }
    // The digest is right, but the contents are invalid.
    for length in [0, 1, 4, 5, 40] {
        let rest = vec![255; length];
        damages.push((format!("{length} bytes"), [FORM, Sha256::digest(&rest).as_slice(), &rest].concat()));
    }
    for (what, bytes) in damages {
        fs::write(&answer, bytes).unwrap();
        assert_eq!(told(&ask(&world, question).output().unwrap()), cold, "{what}");
        assert_eq!(fs::read(&answer).unwrap().len(), whole.len(), "{what}: it is kept anew");
    }
    // Something else in place of the file, or of the directory.
    let folder = world.path("cache/checks");
    fs::remove_file(&answer).unwrap();
    fs::create_dir(&answer).unwrap();
    assert_eq!(told(&ask(&world, question).output().unwrap()), cold, "a folder");
    fs::remove_dir(&answer).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, &answer, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    assert_eq!(told(&ask(&world, question).output().unwrap()), cold, "a pipe");
    fs::remove_dir_all(&folder).unwrap();
    symlink(world.path("tmp"), &folder).unwrap();
    assert_eq!(told(&ask(&world, question).output().unwrap()), cold, "a link in the place of the folder");
    assert_eq!(fs::read_dir(world.path("tmp")).unwrap().count(), 0, "nothing is written elsewhere");
    fs::remove_file(&folder).unwrap();
    fs::write(&folder, "").unwrap();
    assert_eq!(told(&ask(&world, question).output().unwrap()), cold, "a file in the place of the folder");
    // No usable directory at all, as in CI.
    for cache in ["/proc/nowhere", "/dev/null"] {
        assert_eq!(told(&ask(&world, question).env("GEVALS_CACHE_DIR", cache).output().unwrap()), cold, "{cache}");
    }
    let homeless = ask(&world, question).env_remove("GEVALS_CACHE_DIR").env("HOME", "").output().unwrap();
    assert_eq!(told(&homeless), cold);
}

#[test]
fn the_cache_is_small_contains_no_secrets_and_can_be_disabled() {
    let world = project();
    let secret = "8f14e45fceea167a5a36";
    world.write(
        "suite/evals/mcp.yaml",
        &format!("mcpServers:\n  notes:\n    url: http://localhost\n    headers: {{Authorization: Bearer {secret}}}\n"),
    );
    sleep(SETTLED);
    let plain: [&[&str]; 4] = [
        &["check", "--no-cache"],
        &["fix", "--dry-run"],
        &["check", "--stdin", "--stdin-filename", "evals/eval.yaml"],
        &["check", "--write-baseline", "../tmp/known.json"],
    ];
    for question in plain {
        ask(&world, question).output().unwrap();
        assert!(kept(&world).is_empty(), "{question:?}");
    }
    // A cached output, and the index of the tasks.
    ask(&world, &["check", "evals"]).output().unwrap();
    let files = || fs::read_dir(world.path("cache/checks")).unwrap().flatten().map(|entry| entry.path());
    let first: Vec<PathBuf> = files().collect();
    assert_eq!(first.len(), 2, "{first:?}");
    for most in 0..70 {
        let most = most.to_string();
        ask(&world, &["check", "evals/eval.yaml", "evals/mcp.yaml", "--max-findings", &most]).output().unwrap();
    }
    assert_eq!(files().count(), 64);
    for answer in first.into_iter().filter(|path| path.exists()).chain(files()) {
        let text = fs::read(&answer).unwrap();
        let holds = |words: &str| text.windows(words.len()).any(|part| part == words.as_bytes());
        assert!(holds("secret-in-clear") && !holds(secret), "{}", answer.display());
    }
}
