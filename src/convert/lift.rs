//! Takes scripts apart, statement by statement.
//!
//! A list of statements becomes a sequence of steps. Running them one after another, and stopping at the first that does not
//! pass, does what the shell would have done. Every function here returns `None` for what it does not understand; the
//! statement then stays in a script.

mod capture;
mod command;
mod flow;
mod outcome;
mod script;
mod statement;

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, HashSet},
    path::{Path, PathBuf},
};

use super::{
    Kept, Label, Tally,
    classify::PIPEFAIL,
    shell::{Scope, join},
    step::Step,
};
use crate::{
    bash::{self, tools::only_looks},
    hir::PhaseKind,
    source::Files,
};

pub use command::of_body;
pub use script::{Source, constants, lift, whole};
pub use statement::{is_special, split as test_words};

/// What all scripts of a task share.
pub struct Shared<'a> {
    pub files: &'a dyn Files,
    /// The task's directory.
    pub dir: PathBuf,
    pub allow_weaker: bool,
    pub kept: &'a [Kept],
    /// Variables that may appear in `spec.env`, with their values as templates.
    pub env: BTreeMap<String, (String, Option<String>)>,
    pub env_used: RefCell<HashSet<String>>,
    pub ids: RefCell<HashSet<String>>,
    /// Files that steps write for commands to read.
    pub temporary: RefCell<Vec<String>>,
    pub notes: RefCell<Vec<String>>,
    pub mistake: Option<usize>,
    pub places: Cell<usize>,
}

impl Shared<'_> {
    fn note(&self, note: impl Into<String>) {
        let note = note.into();
        let mut notes = self.notes.borrow_mut();
        if !notes.contains(&note) {
            notes.push(note);
        }
    }

    /// Returns an id based on `wish` that no step has yet.
    fn id(&self, wish: &str) -> String {
        let mut base: String = wish
            .to_ascii_lowercase()
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
            .collect::<String>()
            .trim_matches('-')
            .to_owned();
        if !base.starts_with(|c: char| c.is_ascii_alphabetic()) {
            base = format!("s{base}");
        }
        let mut ids = self.ids.borrow_mut();
        let mut id = base.clone();
        let mut n = 2;
        while !ids.insert(id.clone()) {
            id = format!("{base}-{n}");
            n += 1;
        }
        id
    }

    /// Returns the path of a file for one step to write and others to read.
    fn file(&self, wish: &str, ending: &str) -> String {
        let mut temporary = self.temporary.borrow_mut();
        let mut path = format!("{TEMPORARY}{wish}.{ending}");
        let mut n = 2;
        while temporary.contains(&path) {
            path = format!("{TEMPORARY}{wish}-{n}.{ending}");
            n += 1;
        }
        temporary.push(path.clone());
        path
    }

    /// Makes an attempt. If it fails, what it has reserved is free again.
    fn attempt<T>(&self, attempt: impl FnOnce() -> Option<T>) -> Option<T> {
        let before = (self.ids.borrow().clone(), self.temporary.borrow().clone(), self.env_used.borrow().clone());
        let result = attempt();
        if result.is_none() {
            self.ids.replace(before.0);
            self.temporary.replace(before.1);
            self.env_used.replace(before.2);
        }
        result
    }

    /// Whether the mistake must be made here.
    fn err(&self) -> bool {
        let place = self.places.get();
        self.places.set(place + 1);
        self.mistake == Some(place)
    }
}

/// Why a cleanup is stronger. The proof recognizes this text.
pub const REPORTED: &str = "a failure is reported as a failed cleanup";
/// Why a step of a cleanup is stronger than its statement under `set -e`.
const BEHIND: &str = "it also runs after a failed cleanup step";

/// Why a statement that could be lifted stays.
const NOT_PROVED: &str = "its conversion is not proved to be equivalent";

/// Where the files of a run are that only its own steps read.
pub const TEMPORARY: &str = "/tmp/{random.id}/";

/// The state in effect at one place of a script.
#[derive(Clone)]
struct State {
    scope: Scope,
    errexit: bool,
    pipefail: bool,
    nounset: bool,
    /// Where commands run, relative to the task's directory.
    workdir: Option<String>,
    /// Directories that the script itself has created.
    folders: Vec<String>,
    /// Exported to commands.
    exported: Vec<(String, String)>,
    /// Whether the status of the last statement is the status of the whole.
    tail: bool,
    /// Inside a loop that is retried, under `set -e`: a failure there would have ended the script.
    fragile: bool,
    /// Inside a function: `return` ends it.
    function: bool,
    /// Inside the body of a loop that waits.
    waiting: bool,
    /// The output of a command counts, whatever its exit status.
    by_output: bool,
    /// Inside a loop whose rounds are converted one by one.
    unrolled: bool,
    /// If several commands make the value of a variable, they become one line of shell, so that the value is an output.
    as_line: bool,
    depth: usize,
}

impl State {
    /// Resolves a path against the working directory; the result is relative to the task's directory, or absolute.
    fn at(&self, path: &str) -> String {
        join(self.workdir.as_deref().unwrap_or_default(), path)
    }

    /// What follows runs in that directory. Paths relative to the old one now lead elsewhere.
    fn enter(&mut self, folder: &str) {
        self.workdir = Some(self.at(folder));
        self.scope.moved();
    }

    /// Whether the script has created a directory.
    fn has_made(&self, folder: &str) -> bool {
        self.folders.iter().any(|made| Path::new(made).starts_with(self.at(folder)))
    }
}

/// Steps, and how well they preserve what the statements did.
#[derive(Clone, Debug)]
struct Out {
    steps: Vec<Step>,
    label: Label,
    why: Vec<String>,
}

impl Out {
    /// Returns the step that counts, which is the last: the steps before it write files for it.
    fn last(&mut self) -> Option<&mut Step> {
        self.steps.last_mut()
    }

    fn none() -> Self {
        Self { steps: Vec::new(), label: Label::Exact, why: Vec::new() }
    }

    fn step(step: Step) -> Self {
        Self { steps: vec![step], label: Label::Exact, why: Vec::new() }
    }

    fn but(mut self, label: Label, why: &str) -> Self {
        if label > Label::Exact {
            self.label = self.label.max(label);
            if !self.why.iter().any(|w| w == why) {
                self.why.push(why.to_owned());
            }
        }
        self
    }

    fn then(mut self, other: Self) -> Self {
        self.steps.extend(other.steps);
        self.label = self.label.max(other.label);
        for why in other.why {
            if !self.why.contains(&why) {
                self.why.push(why);
            }
        }
        self
    }

    /// Adds comments above the first step.
    fn told(mut self, comments: &[String]) -> Self {
        if let Some(first) = self.steps.first_mut() {
            let new: Vec<_> = comments.iter().filter(|c| !first.comments.contains(c)).cloned().collect();
            first.comments.splice(0..0, new);
        }
        self
    }

    fn grouped(mut self) -> Step {
        let comments = match self.steps.len() {
            0 | 1 => Vec::new(),
            _ => std::mem::take(&mut self.steps[0].comments),
        };
        let mut step = Step::group(self.steps);
        step.comments.splice(0..0, comments);
        step
    }
}

/// How a list of statements ends.
#[derive(Clone, Debug)]
enum Flow {
    /// At its end.
    Falls(Out),
    /// With `exit 0`, `return 0`, or `break`.
    Passes(Out, Ending),
    /// With another status, whatever ran before. Contains what was printed.
    Fails(Vec<String>),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ending {
    Exit,
    Break,
}

/// What it means to reach the end of a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    Falls,
    /// Another round: this one did not succeed.
    Fails,
}

/// The conversion of the first statements of a list.
enum Next {
    /// Steps, and how many statements they replace.
    Steps(Out, usize),
    /// No steps. Contains what the statement printed.
    Idle(Option<String>),
    /// The conversion of the whole rest of the list.
    End(Flow),
}

/// Turns what the author printed into comments.
fn messages(texts: &[String]) -> Vec<String> {
    let clean = |text: &String| -> String {
        text.chars().filter(|c| !c.is_control() && !('\u{2190}'..='\u{2bff}').contains(c) && *c < '\u{1f000}').collect()
    };
    texts
        .iter()
        .map(clean)
        .map(|t| t.trim().to_owned())
        .filter(|t| t.len() > 2 && t.contains(char::is_alphanumeric))
        .collect()
}

/// Whether steps only read.
pub fn read_only(steps: &[Step]) -> bool {
    let mut all = true;
    for step in steps {
        step.walk(&mut |s| {
            all &= match &s.kind {
                super::step::Kind::Command { run, .. } => changes_nothing(run),
                super::step::Kind::Http { method, .. } => method == "GET" || method == "HEAD",
                super::step::Kind::File { path, .. } => path.starts_with(TEMPORARY),
                super::step::Kind::Script { .. } => false,
                super::step::Kind::Kept { operation, .. } => operation == "llm",
                _ => true,
            }
        });
    }
    all
}

/// Whether a text runs commands, none of which changes anything.
fn changes_nothing(text: &str) -> bool {
    if !is_line(text) && !text.contains(['\n', ';', '&', '>']) {
        return only_looks(text);
    }
    let Some(program) = bash::program(text) else { return false };
    let commands = program.commands();
    !commands.is_empty()
        && commands.iter().all(|command| {
            let words: Vec<&str> = command.words().iter().map(|word| word.text.as_str()).collect();
            command.name() == "set" || !command.written && only_looks(&words.join(" "))
        })
}

/// Whether a command reads existing data, and may fail after it has printed what is looked for.
fn filters(run: &str) -> bool {
    const NAMES: [&str; 18] = [
        "awk", "base64", "cut", "du", "egrep", "fgrep", "find", "grep", "head", "jq", "ls", "sed", "sort", "stat",
        "tail", "uniq", "wc", "yq",
    ];
    is_line(run) || run.split_whitespace().next().is_some_and(|name| NAMES.contains(&name)) || answers(run)
}

/// Whether a command also reports by its exit status what it prints: `kubectl auth can-i` prints `no` and exits with 1.
fn answers(run: &str) -> bool {
    let words: Vec<&str> = run.split_whitespace().collect();
    let has = |wanted: &[&str]| words.iter().any(|word| wanted.contains(word));
    match words.first().copied() {
        Some("kubectl" | "oc") => has(&["can-i", "diff"]),
        Some("systemctl") => has(&["is-active", "is-enabled", "is-failed", "is-system-running", "status"]),
        // It prints a status even if it got no response: 000.
        Some("curl") => run.contains("http_code") || run.contains("response_code"),
        Some("diff" | "cmp" | "pgrep" | "pg_isready") => true,
        Some("git") => has(&["diff", "grep"]),
        _ => false,
    }
}

/// Whether the text of a command contains more than one command.
fn is_line(run: &str) -> bool {
    run.starts_with(PIPEFAIL) || run.contains(" | ") || run.contains(" || ")
}

/// The lifter of one script.
struct Lifter<'a> {
    shared: &'a Shared<'a>,
    phase: PhaseKind,
    /// Variables that only count failures, which the end of the script checks.
    tallies: HashSet<String>,
}

/// Whether the label of lifted statements is allowed.
fn allowed(shared: &Shared<'_>, out: &Out) -> bool {
    out.label < Label::Weaker || shared.allow_weaker && out.label == Label::Weaker
}

/// The counts and pieces of one script.
#[derive(Clone, Debug, Default)]
pub struct Books {
    pub tally: Tally,
    pub pieces: Vec<super::Piece>,
}
