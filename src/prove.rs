//! Proof that two tasks do the same: both are run in a jail in which every command of the outside world is a shim, over many
//! made-up worlds, and what they called and how they ended is compared.
//!
//! The outer half ([`prove`]) builds the jail; the inner half ([`inside`]) is this same program, run in it.
#![expect(clippy::disallowed_methods, reason = "the inner half owns the world it runs in; the outer one starts it")]

mod curl;
mod host;
mod invert;
mod shim;
mod trace;
mod world;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Arc, Mutex},
};

use serde::{Deserialize, Serialize};

use self::{
    host::{Clock, ProofHost},
    shim::{TASK, WORLD},
    trace::{PAUSE, TRACE},
    world::{Call, Dice, Mood, Web, World, fits},
};
use crate::{
    bash, compile,
    convert::{Converted, Label, looks},
    event::{EventKind, Outcome, Verdict},
    hir::{Arg, ArgKind, Def, Part, PhaseKind, Template},
    host::{RealHost, disk::Disk},
    plan::{ActionKind, AgentAction, AgentKind, EvalPlan, Plan, StepAction},
    run::{RunOptions, run_eval},
    sandbox::Jail,
    source::{Sources, normalize},
};

/// What the jail is given to do.
#[derive(Debug, Serialize, Deserialize)]
pub struct Job {
    /// The original, relative to the root.
    task: PathBuf,
    /// The text to compare it with.
    converted: String,
    seeds: u64,
    allow: Allowance,
}

/// In what the converted task may differ, as its labels say.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Allowance {
    setup: Slack,
    verify: Slack,
    /// Report a cleanup that failed.
    cleanup: bool,
    /// Pass where the original failed.
    weaker: bool,
}

/// In what a phase may be stronger.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Slack {
    /// Fail where a command failed in an odd way and the original went on.
    stronger: bool,
    /// Fail in any world where the original passed.
    lenient: bool,
}

/// What the proof found.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Certificate {
    pub seeds: u64,
    pub agreed: u64,
    pub counter_example: Option<String>,
    /// Worlds in which the original passes.
    pub passed: u64,
    /// Why it passes not even where all is well.
    pub hindered: Option<String>,
    /// Commands of the conversion that none of the worlds came to: of them nothing is proved.
    pub unreached: Vec<String>,
}

impl Allowance {
    /// What the labels of a conversion allow.
    pub fn of(new: &Converted) -> Self {
        let pieces = || new.pieces.iter().filter(|p| p.label == Label::Stronger);
        let says = |phase: PhaseKind, part: &str| {
            pieces().any(|p| p.phase == phase && p.why.as_deref().is_some_and(|w| w.contains(part)))
        };
        let slack = |phase| Slack {
            stronger: pieces().any(|p| p.phase == phase),
            lenient: says(phase, "plain decimal") || says(phase, "every round"),
        };
        Self {
            setup: slack(PhaseKind::Setup),
            verify: slack(PhaseKind::Verify),
            cleanup: says(PhaseKind::Cleanup, "failed cleanup") || says(PhaseKind::Cleanup, "every round"),
            weaker: new.tally.weaker > 0,
        }
    }
}

/// Programs that stay what they are: they look at nothing outside of the jail.
const REAL: &[&str] = &[
    "awk",
    "base64",
    "basename",
    "bash",
    "cat",
    "chmod",
    "cmp",
    "comm",
    "cp",
    "cut",
    "dd",
    "diff",
    "dirname",
    "du",
    "egrep",
    "env",
    "expr",
    "false",
    "fgrep",
    "file",
    "find",
    "fold",
    "gawk",
    "getent",
    "grep",
    "gunzip",
    "gzip",
    "head",
    "id",
    "join",
    "jq",
    "ln",
    "ls",
    "mawk",
    "md5sum",
    "mkdir",
    "mkfifo",
    "mktemp",
    "mv",
    "nl",
    "nproc",
    "od",
    "paste",
    "perl",
    "printenv",
    "printf",
    "pwd",
    "python",
    "python3",
    "readlink",
    "realpath",
    "rev",
    "rm",
    "rmdir",
    "sed",
    "seq",
    "sh",
    "sha1sum",
    "sha256sum",
    "shuf",
    "sort",
    "split",
    "stat",
    "sum",
    "tac",
    "tail",
    "tar",
    "tee",
    "test",
    "timeout",
    "touch",
    "tr",
    "true",
    "tsort",
    "uname",
    "uniq",
    "wc",
    "which",
    "who",
    "whoami",
    "xargs",
    "xxd",
    "yes",
    "zcat",
    "[",
    "dash",
];
/// Always in the place of the real thing.
const OUTSIDE: &[&str] =
    &["kubectl", "oc", "helm", "curl", "sleep", "docker", "podman", "wget", "ssh", "git", "virtctl", "nc", "date"];

/// Runs the original and its conversion side by side.
///
/// # Errors
/// Where the jail could not be built or its program did not answer.
pub fn prove(bwrap: &Path, exe: &Path, task: &Path, new: &Converted, seeds: u64) -> Result<Certificate, String> {
    let (root, inside) = root(task, new);
    let job = Job { task: inside, converted: new.text.clone(), seeds, allow: Allowance::of(new) };
    let jail = Jail {
        readable: vec![
            (root.clone(), PathBuf::from("/source")),
            (exe.to_owned(), PathBuf::from("/usr/local/bin/gevals")),
        ],
        writable: ["/task", "/world"].map(PathBuf::from).to_vec(),
        shim: Some(exe.to_owned()),
        commands: commands(&root, new),
        env: Vec::new(),
    };
    let mut child = Command::new(bwrap)
        .args(jail.arguments())
        .args(["--chdir", "/task", "--", "/usr/local/bin/gevals", INSIDE])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| format!("`{}` cannot be started: {e}", bwrap.display()))?;
    let text = serde_json::to_vec(&job).map_err(|e| e.to_string())?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(&text).map_err(|e| format!("the jail does not listen: {e}"))?;
    }
    let output = child.wait_with_output().map_err(|e| e.to_string())?;
    serde_json::from_slice(&output.stdout).map_err(|_| {
        let said = String::from_utf8_lossy(&output.stderr);
        format!("the jail did not answer: {}", said.lines().last().unwrap_or("it said nothing"))
    })
}

/// The folder that holds the task and all it refers to, and the task in it.
fn root(task: &Path, new: &Converted) -> (PathBuf, PathBuf) {
    let task = std::path::absolute(task).map_or_else(|_| task.to_owned(), |p| normalize(&p));
    let dir = task.parent().unwrap_or(Path::new("/")).to_owned();
    let mut root = dir.clone();
    let up = |root: &mut PathBuf, path: &Path| {
        while !path.starts_with(&root) && root.components().count() > 2 {
            root.pop();
        }
    };
    for file in &new.files {
        let path = normalize(&dir.join(file));
        up(&mut root, &path);
        // Scripts reach for their helpers.
        let text = fs::read_to_string(&path).unwrap_or_default();
        let depth = text.match_indices("../").fold((0, 0), |(best, run), (at, _)| {
            let run = if at >= 3 && text[..at].ends_with("../") { run + 1 } else { 1 };
            (best.max(run), run)
        });
        let mut folder = path.parent().unwrap_or(&dir).to_owned();
        for _ in 0..depth.0.min(3) {
            if folder.components().count() > 2 {
                folder.pop();
            }
        }
        if root.starts_with(&folder) {
            root = folder;
        }
    }
    let inside = task.strip_prefix(&root).unwrap_or(&task).to_owned();
    (root, inside)
}

/// The commands of all scripts, as far as they are none of the system's plain tools.
fn commands(root: &Path, new: &Converted) -> BTreeSet<String> {
    let mut found: BTreeSet<String> = OUTSIDE.iter().map(|c| (*c).to_owned()).collect();
    let mut texts = new.scripts.clone();
    for (path, bytes, _) in tree(root) {
        if path.extension().is_some_and(|e| e == "sh" || e == "bash") {
            texts.push(String::from_utf8_lossy(&bytes).into_owned());
        }
    }
    for text in texts {
        let Some(program) = bash::program(&text) else { continue };
        for command in program.commands() {
            let mut words =
                command.words().iter().skip_while(|w| matches!(w.text.as_str(), "command" | "which" | "-v" | "type"));
            let Some(word) = words.next().filter(|w| w.literal) else { continue };
            let name = word.text.rsplit('/').next().unwrap_or_default();
            let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'));
            let relative = word.text.contains('/') && !word.text.starts_with('/');
            if plain
                && !name.is_empty()
                && !relative
                && !REAL.contains(&name)
                && !bash::is_own(name)
                && name != "gevals"
                && !name.ends_with(".sh")
            {
                found.insert(name.to_owned());
            }
        }
    }
    found
}

type Files = Vec<(PathBuf, Vec<u8>, u32)>;

/// All plain files below a folder that are not too large, with their modes.
fn tree(root: &Path) -> Files {
    use std::os::unix::fs::PermissionsExt;
    let mut found = Vec::new();
    let mut open = vec![root.to_owned()];
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            let Ok(meta) = entry.metadata() else { continue };
            let name = entry.file_name();
            if meta.is_dir() && !matches!(name.to_str(), Some(".git" | "node_modules" | "target" | ".gevals")) {
                open.push(entry.path());
            } else if meta.is_file() && meta.len() < 1 << 20 && found.len() < 5000 {
                let path = entry.path().strip_prefix(root).map(Path::to_path_buf).unwrap_or_default();
                found.push((path, fs::read(entry.path()).unwrap_or_default(), meta.permissions().mode()));
            }
        }
    }
    found.sort();
    found
}

/// The word by which gevals starts itself in a jail.
const INSIDE: &str = "prove-inside";

/// What a process of a jail does: a command that scripts call, or the inner half of a proof. No command of the user, so the
/// command line does not know it and cannot offer it.
pub fn in_jail() -> Option<u8> {
    shim::main().or_else(|| std::env::args().nth(1).filter(|arg| arg == INSIDE).map(|_| inside()))
}

/// The inner half: reads the job from standard input, and writes the certificate.
fn inside() -> u8 {
    let answer = (|| -> Result<Certificate, String> {
        let job: Job = serde_json::from_reader(std::io::stdin().lock()).map_err(|e| e.to_string())?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|e| e.to_string())?;
        runtime.block_on(compared(&job))
    })();
    match answer {
        Ok(certificate) => {
            let _ = std::io::stdout().write_all(serde_json::to_string(&certificate).unwrap_or_default().as_bytes());
            0
        }
        Err(why) => {
            let _ = writeln!(std::io::stderr(), "{why}");
            1
        }
    }
}

async fn compared(job: &Job) -> Result<Certificate, String> {
    let source = tree(Path::new("/source"));
    let stem = job.task.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let converted = job.task.with_file_name(format!("{stem}.converted.yaml"));
    let mut files = source;
    files.push((converted.clone(), job.converted.clone().into_bytes(), 0o644));
    restore(&files)?;
    let (old, words, named) = planned(&job.task)?;
    let (new, ..) = planned(&converted)?;
    let (hints, web, denied, asked) = hints(&new, &words);
    let real = Arc::new(RealHost::new());
    let world = |seed, mood| {
        let mut dice = Dice::new(seed, "files");
        // An agent that does its work leaves files, and another does not.
        let files = named.iter().filter(|_| dice.below(3) > 0).cloned().collect::<Vec<_>>();
        let text = |dice: &mut Dice| match dice.below(3) {
            0 => String::new(),
            1 => words.join("\n") + "\n",
            _ => words.get(dice.below(words.len().max(1))).cloned().unwrap_or_default() + "\n",
        };
        let files = files.into_iter().map(|f| (f, text(&mut dice))).collect();
        let (hints, web, denied, words) = (hints.clone(), web.clone(), denied.clone(), words.clone());
        let (failing, mute) = (BTreeSet::new(), BTreeSet::new());
        World { seed, mood, failing, mute, hints, web, denied, words, files, loud: false }
    };
    // The world that shows most of the original: the others differ from it in one thing after the other.
    let mut best: Option<(World, Ran)> = None;
    for seed in 0..8 {
        let world = world(seed, Mood::Good);
        let ran = ran(&old, &world, &real, &files).await?;
        if best.as_ref().is_none_or(|(_, most)| ran.shown() > most.shown()) {
            best = Some((world, ran));
        }
        if best.as_ref().is_some_and(|(_, ran)| ran.passed) {
            break;
        }
    }
    if let Some((world, most)) = &mut best {
        explore(world, most, &old, &real, &files).await?;
    }
    let mut near: VecDeque<World> = best.into_iter().map(|(world, _)| world).collect();
    let mut seen = BTreeSet::new();
    let mut certificate =
        Certificate { seeds: 0, agreed: 0, counter_example: None, passed: 0, hindered: None, unreached: Vec::new() };
    let mut unreached = asked.clone();
    let mut called: Vec<Call> = Vec::new();
    let mut both_passed = false;
    for seed in 0..job.seeds {
        let one_more = if seed > 3 && (seed % 4 > 0) || seed == 0 { near.pop_front() } else { None };
        let world = match (seed, one_more) {
            (_, Some(world)) => world,
            (1, _) => world(1, Mood::Bad),
            (2, _) => world(2, Mood::Silent),
            (3, _) => world(3, Mood::Late),
            _ => {
                let mut dice = Dice::new(seed, "mood");
                let moods = [Mood::Good, Mood::Mixed, Mood::Mixed, Mood::Mixed, Mood::Odd, Mood::Late];
                World { loud: dice.below(10) == 0, ..world(seed, moods[dice.below(moods.len())]) }
            }
        };
        let (a, b) = (ran(&old, &world, &real, &files).await?, ran(&new, &world, &real, &files).await?);
        certificate.seeds += 1;
        for call in b.phases.values().flatten() {
            unreached.retain(|pattern| !asks(pattern, call));
        }
        match disagreement(&a, &b, &world, job.allow, &asked) {
            None => certificate.agreed += 1,
            Some(why) => {
                certificate.counter_example = Some(side_by_side(&why, &a, &b, &world));
                break;
            }
        }
        certificate.passed += u64::from(a.passed);
        both_passed |= a.passed && b.passed;
        if seed == 0 && !a.passed {
            certificate.hindered = a.why.lines().next().map(str::to_owned);
        }
        for call in a.phases.values().flatten() {
            if !called.contains(call) {
                called.push(call.clone());
            }
        }
        // What is called for the first time fails in one more world, says nothing in another, and in a third one all that
        // the scripts look for.
        if matches!(world.mood, Mood::Good) && !world.loud {
            for key in a.phases.values().flatten().map(Call::key) {
                if seen.insert(key.clone()) {
                    let (mut failing, mut mute, mut full) = (world.clone(), world.clone(), world.clone());
                    failing.failing.insert(key.clone());
                    mute.mute.insert(key.clone());
                    full.hints.insert(key, vec![words.join("\n")]);
                    near.extend([failing, mute, full]);
                }
            }
        }
    }
    // A stronger conversion may fail where the original passes, but not wherever it does.
    if certificate.passed > 0 && !both_passed && certificate.counter_example.is_none() {
        certificate.counter_example = Some(format!(
            "the conversion never passes, and the original does in {} of {} worlds\n",
            certificate.passed, certificate.seeds
        ));
        certificate.agreed -= certificate.passed;
    }
    // All that the original does was seen: what only the conversion does is no more than a guess at it.
    let foreign = asked.iter().find(|p| !unreached.contains(*p) && !called.iter().any(|call| asks(p, call)));
    if let Some(command) = foreign
        && certificate.passed > 0
        && near.is_empty()
        && certificate.counter_example.is_none()
    {
        let command = command.replace('\u{1f}', " ");
        certificate.counter_example = Some(format!("only the conversion ever calls `{command}`\n"));
        certificate.agreed = 0;
    }
    // What is the jail's own leaves no trace.
    let shown = |pattern: &String| !pattern.split('\u{1f}').next().is_some_and(|name| REAL.contains(&name));
    certificate.unreached = unreached.into_iter().filter(shown).map(|p| p.replace('\u{1f}', " ")).collect();
    Ok(certificate)
}

/// Runs that look for the answers which a script waits for.
const TRIES: usize = 60;

/// Gives commands, those that were asked last before others, each word that the scripts know as the answer, as long as
/// that brings the original further.
async fn explore(
    world: &mut World,
    most: &mut Ran,
    old: &Plan,
    real: &Arc<RealHost>,
    files: &Files,
) -> Result<(), String> {
    let words = world.words.clone();
    let mut tried = BTreeSet::new();
    while !most.passed && tried.len() < TRIES {
        let keys: Vec<String> = most.before_cleanup().map(Call::key).collect();
        let answers = || words.iter().map(Some).chain([None]);
        let next = keys
            .iter()
            .rev()
            .find_map(|key| answers().map(|word| (key.clone(), word.cloned())).find(|answer| !tried.contains(answer)));
        let Some((key, word)) = next else { return Ok(()) };
        tried.insert((key.clone(), word.clone()));
        let mut other = world.clone();
        match word {
            Some(word) => drop(other.hints.insert(key, vec![word])),
            None => drop(other.mute.insert(key)),
        }
        let ran = ran(old, &other, real, files).await?;
        if ran.shown() > most.shown() {
            (*world, *most) = (other, ran);
        }
    }
    Ok(())
}

/// Puts the task's folder as it was.
fn restore(files: &Files) -> Result<(), String> {
    use std::os::unix::fs::PermissionsExt;
    let fault = |e: std::io::Error| format!("the jail's folder cannot be written: {e}");
    for dir in [TASK, "/tmp"] {
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            let path = entry.path();
            let _ = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        }
    }
    for (path, bytes, mode) in files {
        let path = Path::new(TASK).join(path);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(fault)?;
        }
        fs::write(&path, bytes).map_err(fault)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(*mode)).map_err(fault)?;
    }
    Ok(())
}

/// Whether a run left the folders as they were.
fn untouched(files: &Files) -> bool {
    fs::read_dir("/tmp").is_ok_and(|mut d| d.next().is_none()) && {
        let now = tree(Path::new(TASK));
        let mut then: Vec<_> = files.clone();
        then.sort();
        now.len() == then.len() && now.iter().zip(&then).all(|(a, b)| a.0 == b.0 && a.1 == b.1)
    }
}

/// The plan of a task with an agent that does nothing, and the words its scripts compare with.
fn planned(task: &Path) -> Result<(Plan, Vec<String>, Vec<String>), String> {
    let sources = Sources::default();
    let path = Path::new(TASK).join(task);
    let compiled = compile(&[path], &sources, &Disk);
    let plan = compiled.tasks.into_iter().next().flatten();
    let mut plan = plan.ok_or_else(|| {
        let first = compiled.diagnostics.first().map_or("", |d| d.message.as_str());
        format!("`{}` has no plan: {first}", task.display())
    })?;
    let agent = plan.agent;
    if let ActionKind::Agent(AgentAction { kind, .. }) = &mut plan.action_mut(agent).kind {
        *kind = AgentKind::Noop;
    }
    let mut words = BTreeSet::new();
    let mut named = BTreeSet::new();
    for source in sources.all() {
        mined(source.text(), &mut words);
        paths(source.text(), &mut named);
    }
    for unit in &compiled.project.tasks {
        let Some(task) = &unit.task else { continue };
        task.walk(&mut |_, step| {
            if let Some(file) = step.arg("file").and_then(Arg::as_literal) {
                let text = fs::read_to_string(task.dir.join(file)).unwrap_or_default();
                mined(&text, &mut words);
                paths(&text, &mut named);
            }
        });
    }
    // What is there already is nothing an agent makes.
    named.retain(|n| !Path::new(TASK).join(n).exists());
    Ok((*plan, words.into_iter().take(60).collect(), named.into_iter().take(12).collect()))
}

/// Files that a script names: in its own folder, or in `/tmp`.
fn paths(text: &str, named: &mut BTreeSet<String>) {
    const ENDINGS: [&str; 10] = ["txt", "json", "log", "pid", "csv", "yaml", "yml", "md", "out", "html"];
    for word in text.split(|c: char| c.is_whitespace() || "\"'`;|()<>,=:".contains(c)) {
        let (dir, name) = word.rsplit_once('/').unwrap_or(("", word));
        let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'));
        let known = name.rsplit_once('.').is_some_and(|(stem, end)| !stem.is_empty() && ENDINGS.contains(&end));
        if plain && known && matches!(dir, "" | "/tmp") {
            named.insert(word.to_owned());
        }
    }
}

/// Words that a script compares with.
fn mined(text: &str, words: &mut BTreeSet<String>) {
    for line in text.lines().filter(|l| l.contains('[') || l.contains("grep") || l.contains("case")) {
        for word in line.split([' ', '"', '\'', '*', ';', '|', ')', '(']) {
            let fits = !word.is_empty()
                && word.len() < 40
                && !word.starts_with(['$', '-', '[', ']', '{', '#', '>', '&', '!', '='])
                && word.chars().all(|c| c.is_ascii_alphanumeric() || "-_./:,@".contains(c));
            if fits && !bash::is_own(word) && !REAL.contains(&word) && !OUTSIDE.contains(&word) {
                words.insert(word.to_owned());
            }
        }
    }
}

type Hints = BTreeMap<String, Vec<String>>;

/// Answers that the steps of a plan wait for. They make worlds in which something passes; what they say is never believed.
/// With the commands that it wants to fail, and all that it calls.
fn hints(plan: &Plan, words: &[String]) -> (Hints, BTreeMap<String, Web>, BTreeSet<String>, BTreeSet<String>) {
    let mut web: BTreeMap<String, Web> = BTreeMap::new();
    let mut denied = BTreeSet::new();
    let env: BTreeMap<String, String> = plan
        .env
        .iter()
        .map(|(name, value)| {
            let text = filled(value, &BTreeMap::new());
            let default = text.split("default('").nth(1).and_then(|t| t.split("')").next()).map(str::to_owned);
            (name.clone(), default.unwrap_or(text))
        })
        .collect();
    // Commands with what is waited for; those that others read, by their ids; and the files they are read from.
    let mut commands: Vec<(Vec<String>, Vec<String>)> = Vec::new();
    // Those whose status is not that of success.
    let mut free = BTreeSet::new();
    let mut ids: BTreeMap<String, usize> = BTreeMap::new();
    let mut files: BTreeMap<String, String> = BTreeMap::new();
    plan.walk(&mut |_, _, action| {
        let ActionKind::Step(StepAction { args, expect, .. }) = &action.kind else { return };
        let text = |name: &str| match args.iter().find(|(n, _)| n.value == name).map(|(_, a)| &a.kind) {
            Some(ArgKind::Text(t)) => Some(filled(t, &env)),
            _ => None,
        };
        if let (Some(path), Some(content)) = (text("path"), text("content"))
            && let Some(id) = output_of(content.trim())
        {
            files.insert(path, id.to_owned());
        }
        if let (Some(url), Some(expect)) = (text("url"), expect.as_ref()) {
            let web = web.entry(url).or_default();
            let number = |arg: &Arg<Def>| arg.as_value().and_then(|v| v.as_u64()).and_then(|n| u16::try_from(n).ok());
            match expect.get("status").map(|s| (&s.kind, s)) {
                Some((ArgKind::List(codes), _)) => web.statuses.extend(codes.iter().filter_map(number)),
                Some((_, code)) => web.statuses.extend(number(code)),
                None => {}
            }
            web.bodies.extend(expect.get("body").map_or_else(Vec::new, |body| answers(body, words, &env)));
        }
        let Some(run) = text("run") else { return };
        let own = match args.iter().find(|(n, _)| n.value == "env").map(|(_, a)| &a.kind) {
            Some(ArgKind::Record(fields)) => fields.as_slice(),
            _ => &[],
        };
        let variable = |name: &str| match own.iter().find(|(n, _)| n.value == name).map(|(_, a)| &a.kind) {
            Some(ArgKind::Text(t)) => Some(filled(t, &env)),
            _ => None,
        };
        let Some(argv) = split(&run, &variable) else { return };
        // `test "$USER" = admin`, which is `{steps.user.outputs.stdout}`
        if let [test, output, operator, word] = argv.as_slice()
            && test == "test"
            && let Some(index) = output_of(output).and_then(|id| ids.get(id))
        {
            match operator.as_str() {
                "=" => commands[*index].1.push(word.clone()),
                "!=" => commands[*index].1.push("anything-else-than-that".to_owned()),
                _ => {}
            }
        }
        let expect = expect.as_ref();
        if expect.and_then(|e| e.get("exitCode")).and_then(Arg::as_value).is_some_and(|v| v == 1) {
            denied.insert(argv.join("\u{1f}"));
        }
        if expect.is_some_and(|e| e.get("exitCode").is_some()) {
            free.insert(commands.len());
        }
        let wanted = expect.and_then(|e| e.get("stdout")).map_or_else(Vec::new, |e| answers(e, words, &env));
        ids.insert(action.id.rsplit('/').next().unwrap_or_default().to_owned(), commands.len());
        commands.push((argv, wanted));
    });
    // From the end: what a filter is to print, the command before it must have printed something for.
    let mut read: BTreeMap<usize, Vec<Vec<String>>> = BTreeMap::new();
    for index in (0..commands.len()).rev() {
        if let Some(inputs) = read.remove(&index) {
            commands[index].1 = invert::combined(&inputs, &commands[index].1);
        }
        let (argv, wanted) = &commands[index];
        let source = argv.last().and_then(|path| files.get(path)).and_then(|id| ids.get(id)).copied();
        let open = wanted.is_empty() && free.contains(&index);
        if let Some(source) = source.filter(|s| *s < index && !open) {
            read.entry(source).or_default().push(invert::inputs(argv, wanted));
        }
    }
    let asked = commands.iter().map(|(argv, _)| traced(argv)).collect();
    let mut found = Hints::new();
    for (argv, wanted) in commands.iter().filter(|(argv, _)| argv.first().is_some_and(|name| name == "curl")) {
        let Some(url) = argv.iter().find(|a| a.contains("://")) else { continue };
        let codes: Vec<u16> = wanted.iter().filter_map(|w| w.parse().ok()).collect();
        let web = web.entry(url.clone()).or_default();
        match codes.is_empty() {
            true => web.bodies.extend(wanted.iter().cloned()),
            false => web.statuses.extend(codes),
        }
    }
    for (argv, wanted) in commands.into_iter().filter(|(_, w)| !w.is_empty()) {
        found.entry(argv.join("\u{1f}")).or_default().extend(wanted);
    }
    (found, web, denied, asked)
}

/// Whether a call is one of these; a `curl` is written down as its request.
fn asks(pattern: &str, call: &Call) -> bool {
    let request = pattern.starts_with("curl\u{1f}") && call.argv[0] == "http";
    request
        && pattern
            .split('\u{1f}')
            .any(|word| word.contains("://") && call.argv.get(2).is_some_and(|url| fits(word, url)))
        || fits(pattern, &call.key())
}

/// A command as the shims write it down.
fn traced(argv: &[String]) -> String {
    let cluster = matches!(argv.first().map(String::as_str), Some("kubectl" | "oc"));
    let handed =
        |i: &usize| cluster && i.checked_sub(1).is_some_and(|i| matches!(argv[i].as_str(), "-f" | "--filename"));
    let words: Vec<&str> = (0..argv.len()).map(|i| if handed(&i) { "-" } else { argv[i].as_str() }).collect();
    words.join("\u{1f}")
}

/// The id in `{steps.ID.outputs.stdout}`.
fn output_of(text: &str) -> Option<&str> {
    text.strip_prefix("{steps.")?.strip_suffix(".outputs.stdout}")
}

/// Texts that an expectation takes.
fn answers(expect: &Arg<Def>, words: &[String], env: &BTreeMap<String, String>) -> Vec<String> {
    let text = |arg: Option<&Arg<Def>>| match arg.map(|a| &a.kind) {
        Some(ArgKind::Text(t)) => Some(filled(t, env)),
        _ => None,
    };
    let mut wanted: Vec<String> = text(Some(expect)).or_else(|| text(expect.get("equals"))).into_iter().collect();
    if let Some(part) = text(expect.get("contains")) {
        wanted.extend([part.clone(), format!("some {part} more")]);
    }
    if let Some(pattern) = text(expect.get("matches")).and_then(|p| regex::Regex::new(&p).ok()) {
        let lines = (0..6).map(|n| (0..n).map(|i| format!("thing-{i}\n")).collect::<String>());
        let numbers = (0..30).map(|n| n.to_string());
        let literal = pattern.as_str().trim_start_matches("(?m)").trim_start_matches("(?s)").trim_start_matches("(?i)");
        let plain = literal.replace(['^', '$', '\\'], "").replace("(?:", "(").replace(".*", "-");
        let choices = plain.trim_matches(['(', ')']).split('|').map(str::to_owned).collect::<Vec<_>>();
        let candidates = words.iter().cloned().chain(numbers).chain(lines).chain([plain.clone()]).chain(choices);
        wanted.extend(candidates.filter(|c| pattern.is_match(c.trim_end_matches('\n'))).take(12));
    }
    wanted
}

fn filled(template: &Template<Def>, env: &BTreeMap<String, String>) -> String {
    let parts = template.parts.iter().map(|part| match part {
        Part::Text(text) => text.clone(),
        Part::Hole(hole) => {
            let name = hole.text.trim_matches(['{', '}']).trim_start_matches("env.");
            env.get(name).cloned().unwrap_or_else(|| hole.text.clone())
        }
    });
    parts.collect()
}

/// The words of one simple command, with what is in its variables.
fn split(run: &str, variable: &dyn Fn(&str) -> Option<String>) -> Option<Vec<String>> {
    let script = bash::parse(run)?;
    let list = bash::ast::read(&script)?;
    let part = |part: &bash::ast::Part| match part {
        bash::ast::Part::Text { text, .. } => Some(text.clone()),
        bash::ast::Part::Var { name, default: None, .. } => variable(name),
        _ => None,
    };
    match list.as_slice() {
        [bash::ast::Stmt { kind: bash::ast::Kind::Simple(simple), .. }] => {
            simple.words.iter().map(|word| word.parts.iter().map(part).collect()).collect()
        }
        _ => None,
    }
}

/// What a run came to.
struct Ran {
    phases: BTreeMap<String, Vec<Call>>,
    /// Of each call, whether time passed since the one before it.
    late: BTreeMap<String, Vec<bool>>,
    passed: bool,
    agent: bool,
    cleanup_failed: bool,
    why: String,
    /// Files as they were when verification began.
    made: Option<Files>,
    /// Files as they were at the end.
    left: Files,
}

impl Ran {
    /// Whether it passed, or else how far it went: to ask the same again leads nowhere.
    fn shown(&self) -> (bool, usize) {
        (self.passed, self.before_cleanup().map(Call::key).collect::<BTreeSet<_>>().len())
    }

    fn before_cleanup(&self) -> impl DoubleEndedIterator<Item = &Call> {
        let calls = |phase: &str| self.phases.get(phase).map_or(&[][..], Vec::as_slice).iter();
        calls("setup").chain(calls("agent")).chain(calls("verify"))
    }
}

/// What a run has written, without what is private to one of its steps.
fn written() -> Files {
    let mut files = tree(Path::new(TASK));
    let private = |p: &Path| {
        let first = p.components().next().map(|c| c.as_os_str().to_string_lossy().into_owned()).unwrap_or_default();
        first.starts_with("gevals-") || first.starts_with("tmp.") || first == host::RANDOM_ID
    };
    files.extend(
        tree(Path::new("/tmp"))
            .into_iter()
            .filter(|(p, ..)| !private(p))
            .map(|(p, b, m)| (Path::new("/tmp").join(p), b, m)),
    );
    files
}

async fn ran(plan: &Plan, world: &World, real: &Arc<RealHost>, files: &Files) -> Result<Ran, String> {
    if !untouched(files) {
        restore(files)?;
    }
    let _ = fs::remove_file(TRACE);
    fs::write(WORLD, serde_json::to_vec(world).map_err(|e| e.to_string())?).map_err(|e| e.to_string())?;
    let (sink, events) = tokio::sync::mpsc::unbounded_channel();
    let (_signals, interrupts) = tokio::sync::mpsc::unbounded_channel();
    let clock = Arc::new(Clock::default());
    let ticking = tokio::spawn(Arc::clone(&clock).tick());
    let host = Arc::new(ProofHost {
        real: Arc::clone(real),
        clock,
        world: world.clone(),
        events: Mutex::new(events),
        told: Mutex::default(),
        made: Mutex::default(),
    });
    let eval = EvalPlan {
        name: "proof".to_owned(),
        path: PathBuf::from(TASK),
        agent: None,
        agent_name: "none".to_owned(),
        servers: Vec::new(),
        dir: PathBuf::from(TASK),
        judge: None,
        budget: crate::hir::Budget::default(),
        model: None,
        secrets: Vec::new(),
        tasks: vec![plan.clone()],
    };
    let options = RunOptions { runs: Some(1), ..RunOptions::default() };
    let summary = run_eval(&eval, &options, Arc::<ProofHost>::clone(&host), interrupts, sink).await;
    ticking.abort();
    host.listen();
    let end = summary.tasks.first().ok_or_else(|| summary.faults.join("; "))?;
    let mut phases: BTreeMap<String, Vec<Call>> = BTreeMap::new();
    let mut late: BTreeMap<String, Vec<bool>> = BTreeMap::new();
    let mut phase = String::new();
    let mut paused = false;
    for line in fs::read_to_string(TRACE).unwrap_or_default().lines() {
        if let Some(name) = line.strip_prefix("#phase ") {
            phase = name.to_owned();
        } else if line == PAUSE.trim_end() {
            paused = true;
        } else if let Ok(call) = serde_json::from_str::<Call>(line) {
            phases.entry(phase.clone()).or_default().push(call);
            late.entry(phase.clone()).or_default().push(std::mem::take(&mut paused));
        }
    }
    let told = host.told.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let agent = told.iter().any(|e| matches!(&e.kind, EventKind::PhaseStarted { phase } if phase == "agent"));
    let mut why = end.reason.clone();
    for event in told.iter() {
        if let EventKind::ActionFinished { action, report } = &event.kind
            && report.outcome != Outcome::Passed
        {
            why += &format!("\n{action}: {:?} {}", report.outcome, report.message);
        }
    }
    let made = host.made.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
    Ok(Ran {
        made,
        left: written(),
        phases,
        late,
        passed: end.verdict == Verdict::Passed,
        agent,
        cleanup_failed: end.cleanup_failed,
        why,
    })
}

/// In what two runs differ that no label allows.
fn disagreement(a: &Ran, b: &Ran, world: &World, allow: Allowance, asked: &BTreeSet<String>) -> Option<String> {
    let odd = world.loud || world.mood == Mood::Odd;
    let may = |slack: Slack| slack.lenient || slack.stronger && odd;
    let stopped = a.agent && !b.agent;
    let failed = a.passed && !b.passed;
    // What stops in setup has failed, too.
    let may_fail = may(allow.setup) || may(allow.verify);
    if stopped && !may(allow.setup) || failed && !(stopped || may(allow.verify)) {
        return Some("the original goes on, the conversion fails".to_owned());
    }
    if (!a.agent && b.agent || !a.passed && b.passed) && !allow.weaker {
        return Some("the original fails, the conversion goes on".to_owned());
    }
    // What runs in the background is called whenever it is.
    let aside = |c: &Call| c.argv.iter().any(|a| a == "port-forward" || a == "proxy");
    let of = |ran: &Ran, phase: &str| -> (Vec<Call>, Vec<bool>) {
        let late = ran.late.get(phase).into_iter().flatten().copied();
        ran.phases.get(phase).into_iter().flatten().cloned().zip(late).filter(|(c, _)| !aside(c)).unzip()
    };
    for phase in ["setup", "verify", "cleanup"] {
        let ((x, late_x), (y, late_y)) = (of(a, phase), of(b, phase));
        let common = x.iter().zip(&y).take_while(|(x, y)| x == y).count();
        // What an author prints for people when something has failed.
        let diagnoses = |calls: &[Call]| {
            let tells = |a: &String| matches!(a.as_str(), "describe" | "logs" | "events" | "get" | "top" | "status");
            calls
                .iter()
                .all(|c| c.argv.iter().any(tells) && !c.argv.iter().any(|a| a.contains("jsonpath") || a == "json"))
        };
        let only_look = |calls: &[Call]| {
            calls.iter().all(|c| looks(&c.argv.join(" ")) || c.argv[0] == "http" && c.argv[1] == "GET")
        };
        // What a round or a group has left out after it failed, the conversion asks too.
        let planned = |c: &Call| asked.iter().any(|pattern| fits(pattern, &c.key()));
        let free = match phase {
            "setup" => !a.agent || !b.agent,
            "verify" => !b.passed || !a.passed,
            // More is cleaned up, not less.
            _ => allow.cleanup && common == x.len() && b.cleanup_failed,
        };
        // To look further is one thing, to wait longer another: that asks the same again when some time has passed.
        let again = |calls: &[Call], late: &[bool]| {
            common > 0 && late.get(common) == Some(&true) && calls[common] == calls[common - 1]
        };
        let free = free && !again(&x, &late_x) && !again(&y, &late_y);
        let fits = common == x.len() && common == y.len()
            || free && phase == "cleanup"
            || free
                && only_look(&x[common..])
                && only_look(&y[common..])
                && (common == x.len()
                    || common == y.len()
                    || common > 0 && diagnoses(&x[common..])
                    || x[common..].iter().all(planned))
            || free && may_fail && common == y.len()
            // What fails stops the one and not the other.
            || phase == "verify" && !a.agent && !b.agent;
        if !fits {
            return Some(format!("they call different commands in {phase}"));
        }
    }
    if let (Some(x), Some(y)) = (&a.made, &b.made)
        && x != y
        && a.agent == b.agent
    {
        let differs = x.iter().chain(y).find(|f| x.contains(f) != y.contains(f)).map(|(p, ..)| p.display().to_string());
        return Some(format!("they leave different files: `{}`", differs.unwrap_or_default()));
    }
    if a.agent == b.agent && a.passed == b.passed && a.left != b.left {
        return Some("they leave different files behind".to_owned());
    }
    let cleanups_agree = a.cleanup_failed == b.cleanup_failed || b.cleanup_failed && (allow.cleanup || may_fail);
    (!cleanups_agree).then(|| "a cleanup fails in one of them only".to_owned())
}

/// Two traces, for people.
fn side_by_side(why: &str, a: &Ran, b: &Ran, world: &World) -> String {
    let lines = |ran: &Ran| -> Vec<String> {
        let mut lines = Vec::new();
        for phase in ["setup", "verify", "cleanup"] {
            lines.push(format!("-- {phase}"));
            lines.extend(ran.phases.get(phase).into_iter().flatten().map(Call::shown));
        }
        lines.push(format!("=> {}", if ran.passed { "passed" } else { "not passed" }));
        lines
    };
    let (left, right) = (lines(a), lines(b));
    let cut = |text: &str| -> String { text.chars().take(70).collect() };
    let but = |commands: &BTreeSet<String>, what: &str| -> String {
        commands.iter().map(|c| format!(", `{}` {what}", c.replace('\u{1f}', " "))).collect()
    };
    let but = but(&world.failing, "fails") + &but(&world.mute, "says nothing");
    let mut out = format!("{why} (world {}, {:?}{but})\n{:70} | {}\n", world.seed, world.mood, "original", "converted");
    for i in 0..left.len().max(right.len()) {
        let (l, r) =
            (left.get(i).map(|t| cut(t)).unwrap_or_default(), right.get(i).map(|t| cut(t)).unwrap_or_default());
        out += &format!("{l:70} {} {r}\n", if l == r { '|' } else { '≠' });
    }
    out += &format!("original: {}\nconverted: {}\n", a.why, b.why);
    out
}
