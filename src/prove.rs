//! Proof that two tasks do the same: both run in a jail in which every command of the outside world is a shim, over many
//! made-up worlds. The proof compares what they called and how they ended.
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
mod pure;
mod seek;
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
use self::{side::Ran, world::World};
use crate::{
    bash,
    convert::{Converted, Label},
    hir::PhaseKind,
    plan,
    sandbox::Jail,
    source::normalize,
};

/// What the jail has to prove.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job {
    /// The original task, relative to the root.
    task: PathBuf,
    /// The text to compare it with.
    converted: String,
    /// The task with as much lifted as possible, if that is more than in `converted`: the proof reads from it what the scripts look for.
    guide: Option<String>,
    /// The world that shows most of the original, if an earlier proof found one.
    start: Option<Value>,
    /// Packages of extensions, by their names in the task's eval.
    packages: BTreeMap<String, String>,
    seeds: u64,
    allow: Allowance,
    /// Whether a second jail can run worlds.
    helped: bool,
}

/// What the program in a jail is asked to do. An order is a line of its standard input.
#[derive(Debug, Serialize, Deserialize)]
enum Order {
    Prove(Box<Job>),
    /// To prepare for running the worlds of a proof that another jail makes.
    Help(Box<Job>),
    /// To run both tasks in a world of that proof.
    Run(Box<World>),
    /// What the other jail has run; `None` if it could not.
    Done(Option<Box<(Ran, Ran)>>),
}

/// What the program in a jail says. Each reply is a line of its standard output.
#[derive(Debug, Serialize, Deserialize)]
enum Reply {
    Proof(Result<Box<Certificate>, String>),
    /// A world in which the other jail should run both tasks meanwhile. The answer is an [`Order::Done`].
    Aside(Box<World>),
    Ready(Result<(), String>),
    Ran(Option<Box<(Ran, Ran)>>),
}

/// How the converted task may differ from the original, according to its labels.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Allowance {
    setup: Slack,
    verify: Slack,
    /// It may report a failed cleanup.
    cleanup: bool,
    /// It may pass where the original failed.
    weaker: bool,
}

/// How a phase may be stronger than in the original.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Slack {
    /// It may fail where a command answers or fails in an unusual way and the original goes on.
    stronger: bool,
    /// It may fail in any world in which the original passes.
    lenient: bool,
    /// It may fail where something else than a plain decimal number is compared as a number.
    numbers: bool,
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
    /// Why the original does not pass even in a world where everything succeeds.
    pub hindered: Option<String>,
    /// Why the proof was stopped before it had a result.
    pub stopped: Option<String>,
    /// Commands of the conversion that no world reached: nothing is proved about them.
    pub unreached: Vec<String>,
    /// Conditions of the conversion that did not decide the verdict alone in any world.
    pub undecided: Vec<String>,
    /// The world that shows most of the original: the next proof of the same task may start from it.
    pub best: Option<Value>,
    /// Actions of the conversion that may be the reason why this is not a proof.
    pub suspects: Vec<String>,
    /// Worlds in which a command was given a text of its own as the answer: mostly one that fools a shell which captures it.
    pub hostile: u64,
    /// Conditions by which the conversion fails where the original passes: the action, and the world that shows it.
    pub stronger: Vec<(String, String)>,
}

impl Certificate {
    /// Whether original and conversion are proved to do the same.
    pub fn is_full(&self) -> bool {
        self.counter_example.is_none() && self.lacks().is_empty()
    }

    /// What is missing for a proof.
    pub fn lacks(&self) -> Vec<String> {
        if let Some(why) = &self.stopped {
            return vec![format!("the proof was stopped: {why}")];
        }
        let mut lacks = Vec::new();
        if self.passed == 0 {
            let why = self.hindered.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
            lacks.push(format!("no world in which both pass{why}"));
        }
        if self.failed == 0 {
            lacks.push("no world in which both fail".to_owned());
        }
        lacks.extend(self.unreached.iter().map(|command| format!("`{command}` was never reached")));
        // If no world passes, no condition can decide.
        let undecided = self.undecided.iter().filter(|_| self.passed > 0);
        lacks.extend(undecided.map(|demand| format!("no world in which the result depends only on {demand}")));
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
            lenient: says(phase, "every iteration"),
            numbers: says(phase, "plain decimal"),
        };
        Self {
            setup: slack(PhaseKind::Setup),
            verify: slack(PhaseKind::Verify),
            cleanup: says(PhaseKind::Cleanup, "failed cleanup") || says(PhaseKind::Cleanup, "every iteration"),
            weaker: new.tally.weaker > 0,
        }
    }
}

/// Programs that run in the jail, because they access nothing outside of it. (What `jq` prints is kept: [`pure`].)
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
/// Commands that are always replaced by shims.
const OUTSIDE: &[&str] = &[
    "kubectl", "oc", "helm", "curl", "sleep", "timeout", "docker", "podman", "wget", "ssh", "git", "virtctl", "nc",
    "date",
];

/// Runs the original and its conversion side by side.
///
/// # Errors
/// The jail cannot be built, or its program does not answer.
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

/// Compares a task with its conversions, one after the other. The jail remembers what the original did.
pub struct Prover<'a> {
    bwrap: &'a Path,
    exe: &'a Path,
    task: &'a Path,
    seeds: u64,
    jail: Option<Running>,
    /// Whether a second jail runs worlds side by side with the first.
    helped: bool,
}

/// A jail whose program waits for jobs.
struct Running {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    /// Reads its standard error.
    complaints: JoinHandle<String>,
    /// The directory that it sees as `/source`.
    root: PathBuf,
    commands: BTreeSet<String>,
    /// The jail that helps it, once it was needed.
    second: Option<Box<Running>>,
}

impl<'a> Prover<'a> {
    /// Creates a prover from the paths of bubblewrap and of this program. It builds no jail yet.
    pub fn new((bwrap, exe): (&'a Path, &'a Path), task: &'a Path, seeds: u64) -> Self {
        Self { bwrap, exe, task, seeds, jail: None, helped: false }
    }

    /// Runs worlds side by side in two jails, if there are processors for them.
    #[must_use]
    pub fn side_by_side(mut self) -> Self {
        self.helped = std::thread::available_parallelism().is_ok_and(|processors| processors.get() > 1);
        self
    }

    /// Runs the original and a conversion side by side. `guide` shows what the scripts look for that the conversion has kept; `start` is
    /// the best world of an earlier proof.
    ///
    /// # Errors
    /// The jail cannot be built, or its program does not answer.
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
        let job = Job { task, converted, guide, start, packages, seeds, allow, helped: self.helped };
        let fits = |jail: &Running| jail.root == root && jail.commands.is_superset(&commands);
        let jail = match self.jail.take().filter(fits) {
            Some(jail) => self.jail.insert(jail),
            None => self.jail.insert(Running::new(self.bwrap, self.exe, root, commands)?),
        };
        match (jail.prove(job, (self.bwrap, self.exe)), self.jail.take()) {
            (Ok(answer), jail) => {
                self.jail = jail;
                // If the jail cannot handle a task, its proof is incomplete.
                Ok(answer.unwrap_or_else(|why| Certificate { hindered: Some(why), ..Certificate::default() }))
            }
            // The task may have ended the jail. The next one gets another jail.
            (Err(_), Some(jail)) => Ok(Certificate { stopped: Some(jail.fault()), ..Certificate::default() }),
            (Err(why), None) => Err(why.to_string()),
        }
    }
}

impl Running {
    fn new(bwrap: &Path, exe: &Path, root: PathBuf, commands: BTreeSet<String>) -> Result<Self, String> {
        let mut readable =
            vec![(root.clone(), PathBuf::from("/source")), (exe.to_owned(), PathBuf::from("/usr/local/bin/gevals"))];
        let mut replaced = commands.clone();
        // What jq prints is kept: some versions take longer to start than everything else in a world.
        let jq = Path::new("/usr/bin/jq");
        if jq.is_file() {
            readable.push((jq.to_owned(), PathBuf::from(pure::JQ)));
            replaced.insert("jq".to_owned());
        }
        let jail = Jail {
            readable,
            writable: ["/task", "/world"].map(PathBuf::from).to_vec(),
            shim: Some(exe.to_owned()),
            commands: replaced,
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
            return Err("cannot open pipes to the sandbox".to_owned());
        };
        let complaints = std::thread::spawn(move || {
            let mut said = Vec::new();
            let _ = stderr.read_to_end(&mut said);
            String::from_utf8_lossy(&said).into_owned()
        });
        Ok(Self { child, stdin, stdout: BufReader::new(stdout), complaints, root, commands, second: None })
    }

    /// Returns a certificate, or why there is none; an error if the jail does not answer.
    fn prove(&mut self, job: Job, (bwrap, exe): (&Path, &Path)) -> Result<Result<Certificate, String>, std::io::Error> {
        self.order(&Order::Prove(Box::new(job.clone())))?;
        let (mut help, mut able) = (Some(Order::Help(Box::new(job))), true);
        loop {
            match self.reply()? {
                Reply::Proof(proof) => return Ok(proof.map(|certificate| *certificate)),
                Reply::Aside(world) => {
                    // The second jail starts when it is needed for the first time.
                    if self.second.is_none() && able {
                        let (root, commands) = (self.root.clone(), self.commands.clone());
                        self.second = Self::new(bwrap, exe, root, commands).ok().map(Box::new);
                    }
                    let done = self.second.as_mut().and_then(|second| second.run(help.take(), world));
                    if done.is_none()
                        && let Some(second) = self.second.take()
                    {
                        able = false;
                        second.end();
                    }
                    self.order(&Order::Done(done.flatten()))?;
                }
                Reply::Ready(_) | Reply::Ran(_) => return Err(std::io::ErrorKind::InvalidData.into()),
            }
        }
    }

    /// Runs both tasks in a world of a proof that another jail makes. `help`: the proof, if it is new to this jail. The inner `None`:
    /// the world could not be run; the outer: the jail does not answer.
    fn run(&mut self, help: Option<Order>, world: Box<World>) -> Option<Option<Box<(Ran, Ran)>>> {
        if let Some(help) = help {
            self.order(&help).ok()?;
            let Reply::Ready(Ok(())) = self.reply().ok()? else { return None };
        }
        self.order(&Order::Run(world)).ok()?;
        match self.reply().ok()? {
            Reply::Ran(ran) => Some(ran),
            _ => None,
        }
    }

    fn order(&mut self, order: &Order) -> Result<(), std::io::Error> {
        let text = serde_json::to_string(order)?;
        writeln!(self.stdin, "{text}").and_then(|()| self.stdin.flush())
    }

    fn reply(&mut self) -> Result<Reply, std::io::Error> {
        let mut line = String::new();
        self.stdout.read_line(&mut line)?;
        Ok(serde_json::from_str(&line)?)
    }

    /// Ends it: no more orders can arrive.
    fn end(self) {
        let Self { mut child, stdin, second, .. } = self;
        drop(stdin);
        let _ = child.wait();
        if let Some(second) = second {
            second.end();
        }
    }

    /// Why the jail does not answer.
    fn fault(self) -> String {
        let Self { mut child, stdin, stdout, complaints, second, .. } = self;
        drop((stdin, stdout));
        let _ = child.wait();
        if let Some(second) = second {
            second.end();
        }
        let said = complaints.join().unwrap_or_default();
        format!("the sandbox did not answer: {}", said.lines().last().unwrap_or("no output"))
    }
}

impl Drop for Prover<'_> {
    fn drop(&mut self) {
        if let Some(jail) = self.jail.take() {
            jail.end();
        }
    }
}

/// The directory that contains the task and everything it refers to, and the path of the task in it.
fn root(task: &Path, new: &Converted) -> (PathBuf, PathBuf) {
    let task = std::path::absolute(task).map_or_else(|_| task.to_owned(), |p| normalize(&p));
    let dir = task.parent().unwrap_or(Path::new("/")).to_owned();
    let mut root = dir.clone();
    let up = |root: &mut PathBuf, path: &Path| {
        while !path.starts_with(&root) && root.components().count() > 2 {
            root.pop();
        }
    };
    // Files outside of the task's directory that its scripts refer to.
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
        // Scripts refer to helpers in parent directories.
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

/// The commands that scripts call, except plain tools of the system and what a shell does itself.
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

/// The argument with which gevals starts itself in a jail.
const INSIDE: &str = "prove-inside";

/// Does the work of a process in a jail and returns its exit status: that of a command which scripts call, or of the inner half of
/// a proof. Returns `None` for any other process. This is not a command for users, so the command line does not know or offer it.
pub fn in_jail() -> Option<u8> {
    if extension::is_asked() {
        return Some(extension::serve());
    }
    shim::main().or_else(|| std::env::args().nth(1).filter(|arg| arg == INSIDE).map(|_| inside()))
}

/// An eval that contains only these tasks: each plan has an agent of its own.
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
