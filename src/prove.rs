//! Proof that two tasks do the same: both are run in a jail in which every command of the outside world is a shim, over many
//! made-up worlds, and what they called and how they ended is compared.
//!
//! The outer half ([`prove`]) builds the jail; the inner half (`inside`) is this same program, run in it.
#![expect(clippy::disallowed_methods, reason = "the inner half owns the world it runs in; the outer one starts it")]

#[cfg(feature = "kubernetes")]
pub mod api;
mod condition;
mod curl;
mod extension;
mod files;
mod hints;
mod host;
mod inside;
mod invert;
mod kubectl;
mod memory;
mod places;
mod shell;
mod shim;
mod side;
mod trace;
mod variables;
mod watch;
mod wishes;
mod world;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{BufRead, BufReader, Read, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    thread::JoinHandle,
};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use self::files::tree;
use self::inside::inside;
use crate::{
    bash,
    convert::{Converted, Label},
    hir::PhaseKind,
    plan,
    sandbox::Jail,
    source::normalize,
};

/// What the jail is given to do.
#[derive(Debug, Serialize, Deserialize)]
pub struct Job {
    /// The original, relative to the root.
    task: PathBuf,
    /// The text to compare it with.
    converted: String,
    /// The task with as much lifted as can be, where that is more: what its scripts look for is read from it.
    guide: Option<String>,
    /// The world that shows most of the original, where an earlier proof has found it.
    start: Option<Value>,
    /// The packages of extensions, by the name that the task's eval gives them.
    packages: BTreeMap<String, String>,
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
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Certificate {
    pub seeds: u64,
    pub agreed: u64,
    pub counter_example: Option<String>,
    /// Worlds in which both pass.
    pub passed: u64,
    /// Worlds in which both fail.
    pub failed: u64,
    /// Why the original passes not even where all is well.
    pub hindered: Option<String>,
    /// Why the proof was ended before it had come to anything.
    pub stopped: Option<String>,
    /// Commands of the conversion that none of the worlds came to: of them nothing is proved.
    pub unreached: Vec<String>,
    /// Demands of the conversion that alone decided the verdict in none of the worlds.
    pub undecided: Vec<String>,
    /// The world that shows most of the original: the next proof of the same task may start there.
    pub best: Option<Value>,
    /// Actions of the conversion that may be why this is no proof.
    pub suspects: Vec<String>,
    /// Answers meant to fool a shell that captured places were given.
    pub hostile: u64,
    /// Demands by which the conversion fails where the original passes: the action, and the world that shows it.
    pub stronger: Vec<(String, String)>,
}

impl Certificate {
    /// Whether original and conversion are proved to do the same.
    pub fn is_full(&self) -> bool {
        self.counter_example.is_none() && self.lacks().is_empty()
    }

    /// What is missing to a proof.
    pub fn lacks(&self) -> Vec<String> {
        if let Some(why) = &self.stopped {
            return vec![format!("the proof was stopped: {why}")];
        }
        let mut lacks = Vec::new();
        if self.passed == 0 {
            let why = self.hindered.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
            lacks.push(format!("both never pass{why}"));
        }
        if self.failed == 0 {
            lacks.push("both never fail".to_owned());
        }
        lacks.extend(self.unreached.iter().map(|command| format!("`{command}` was never reached")));
        // Where nothing passes nothing decides.
        let undecided = self.undecided.iter().filter(|_| self.passed > 0);
        lacks.extend(undecided.map(|demand| format!("in no world does the result depend only on {demand}")));
        lacks
    }
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
            lenient: says(phase, "plain decimal") || says(phase, "every iteration"),
        };
        Self {
            setup: slack(PhaseKind::Setup),
            verify: slack(PhaseKind::Verify),
            cleanup: says(PhaseKind::Cleanup, "failed cleanup") || says(PhaseKind::Cleanup, "every iteration"),
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
    "grep",
    "gunzip",
    "gzip",
    "head",
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
const OUTSIDE: &[&str] = &[
    "kubectl", "oc", "helm", "curl", "sleep", "timeout", "docker", "podman", "wget", "ssh", "git", "virtctl", "nc",
    "date",
];

/// Runs the original and its conversion side by side.
///
/// # Errors
/// Where the jail could not be built or its program did not answer.
pub fn prove(
    programs: (&Path, &Path),
    task: &Path,
    new: &Converted,
    guide: Option<String>,
    start: Option<Value>,
    seeds: u64,
) -> Result<Certificate, String> {
    Prover::new(programs, task, seeds).prove(new, guide, start)
}

/// Compares a task with its conversions, one after the other: what the original did is remembered.
pub struct Prover<'a> {
    bwrap: &'a Path,
    exe: &'a Path,
    task: &'a Path,
    seeds: u64,
    jail: Option<Running>,
}

/// A jail whose program waits for jobs.
struct Running {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    /// Hears what it complains of.
    complaints: JoinHandle<String>,
    /// The folder that it sees.
    root: PathBuf,
    commands: BTreeSet<String>,
}

impl<'a> Prover<'a> {
    /// With bubblewrap and this program; no jail is built yet.
    pub fn new((bwrap, exe): (&'a Path, &'a Path), task: &'a Path, seeds: u64) -> Self {
        Self { bwrap, exe, task, seeds, jail: None }
    }

    /// Runs the original and a conversion side by side. A `guide` says what scripts look for that the conversion has kept; `start` is
    /// the best world of an earlier proof.
    ///
    /// # Errors
    /// Where the jail could not be built or its program did not answer.
    pub fn prove(
        &mut self,
        new: &Converted,
        guide: Option<String>,
        start: Option<Value>,
    ) -> Result<Certificate, String> {
        let (root, task) = root(self.task, new);
        let commands = commands(&root, new);
        let (converted, seeds, allow) = (new.text.clone(), self.seeds, Allowance::of(new));
        let packages = new.packages.clone();
        let job = Job { task, converted, guide, start, packages, seeds, allow };
        let fits = |jail: &Running| jail.root == root && jail.commands.is_superset(&commands);
        let jail = match self.jail.take().filter(fits) {
            Some(jail) => self.jail.insert(jail),
            None => self.jail.insert(Running::new(self.bwrap, self.exe, root, commands)?),
        };
        match (jail.ask(&job), self.jail.take()) {
            (Ok(answer), jail) => {
                self.jail = jail;
                // What the jail cannot do with a task is missing to its proof.
                Ok(answer.unwrap_or_else(|why| Certificate { hindered: Some(why), ..Certificate::default() }))
            }
            (Err(_), Some(jail)) => Err(jail.fault()),
            (Err(why), None) => Err(why.to_string()),
        }
    }
}

impl Running {
    fn new(bwrap: &Path, exe: &Path, root: PathBuf, commands: BTreeSet<String>) -> Result<Self, String> {
        let jail = Jail {
            readable: vec![
                (root.clone(), PathBuf::from("/source")),
                (exe.to_owned(), PathBuf::from("/usr/local/bin/gevals")),
            ],
            writable: ["/task", "/world"].map(PathBuf::from).to_vec(),
            shim: Some(exe.to_owned()),
            commands: commands.clone(),
            env: vec![("BASH_ENV".to_owned(), shell::BASH_ENV.to_owned())],
        };
        let mut child = Command::new(bwrap)
            .args(jail.arguments())
            .args(["--chdir", "/task", "--", "/usr/local/bin/gevals", INSIDE])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|e| format!("`{}` cannot be started: {e}", bwrap.display()))?;
        let (Some(stdin), Some(stdout), Some(mut stderr)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err("the jail has no pipes".to_owned());
        };
        let complaints = std::thread::spawn(move || {
            let mut said = Vec::new();
            let _ = stderr.read_to_end(&mut said);
            String::from_utf8_lossy(&said).into_owned()
        });
        Ok(Self { child, stdin, stdout: BufReader::new(stdout), complaints, root, commands })
    }

    /// A certificate, or why there is none; an error where nobody answers.
    fn ask(&mut self, job: &Job) -> Result<Result<Certificate, String>, std::io::Error> {
        let text = serde_json::to_string(job)?;
        writeln!(self.stdin, "{text}").and_then(|()| self.stdin.flush())?;
        let mut answer = String::new();
        self.stdout.read_line(&mut answer)?;
        Ok(serde_json::from_str(&answer)?)
    }

    /// Why it does not answer.
    fn fault(self) -> String {
        let Self { mut child, stdin, stdout, complaints, .. } = self;
        drop((stdin, stdout));
        let _ = child.wait();
        let said = complaints.join().unwrap_or_default();
        format!("the jail did not answer: {}", said.lines().last().unwrap_or("it said nothing"))
    }
}

impl Drop for Prover<'_> {
    fn drop(&mut self) {
        if let Some(Running { mut child, stdin, .. }) = self.jail.take() {
            // It ends where no more jobs can come.
            drop(stdin);
            let _ = child.wait();
        }
    }
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
    // What a script that stands in the task reaches for.
    for text in &new.scripts {
        let words = text.split(|c: char| c.is_whitespace() || "\"'`;|()<>=".contains(c));
        for path in words.filter(|word| word.starts_with("../")).map(|word| normalize(&dir.join(word))) {
            if path.exists() {
                up(&mut root, &path);
            }
        }
    }
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

/// The word by which gevals starts itself in a jail.
const INSIDE: &str = "prove-inside";

/// What a process of a jail does: a command that scripts call, or the inner half of a proof. No command of the user, so the
/// command line does not know it and cannot offer it.
pub fn in_jail() -> Option<u8> {
    if extension::is_asked() {
        return Some(extension::serve());
    }
    shim::main().or_else(|| std::env::args().nth(1).filter(|arg| arg == INSIDE).map(|_| inside()))
}

/// An eval of these tasks with nothing of its own: their agent is a script in each plan.
fn eval_of(folder: &Path, judge: Option<plan::Judge>, tasks: Vec<plan::Plan>) -> plan::EvalPlan {
    plan::EvalPlan {
        name: "proof".to_owned(),
        path: folder.to_owned(),
        agent: None,
        agent_name: "none".to_owned(),
        isolation: plan::Isolated::default(),
        servers: Vec::new(),
        dir: folder.to_owned(),
        judge,
        extensions: plan::Extensions::default(),
        world: None,
        budget: crate::hir::Budget::default(),
        model: None,
        secrets: Vec::new(),
        written: Default::default(),
        tasks,
    }
}
