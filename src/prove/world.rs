//! Made-up worlds: what every command answers, derived from a seed. The same question gets the same answer, whichever script asks.
#![expect(clippy::disallowed_methods, reason = "the world of a jail is a file of its own")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    time::Duration,
};

use serde::{Deserialize, Serialize};

use crate::ty::duration;

/// The file in which a jail keeps its world.
pub const WORLD: &str = "/world/world.json";

/// One world.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct World {
    pub seed: u64,
    pub mood: Mood,
    /// What commands answer whatever the mood, by their words in the trace. Here and in the following fields, a key may be that of one
    /// [`Half`] of the task.
    pub given: BTreeMap<String, Given>,
    /// Answers that some step expects, by command.
    pub hints: BTreeMap<String, Vec<String>>,
    /// Answers to requests that some step expects, by URL.
    pub web: BTreeMap<String, Web>,
    /// Commands that some step expects to fail.
    pub denied: BTreeSet<String>,
    /// Words the scripts compare with.
    pub words: Vec<String>,
    /// Environment variables: those that scripts require, and other values for those that have a default.
    pub env: BTreeMap<String, String>,
    /// The agent's answer, if the task reads it.
    pub agent: Option<String>,
    /// The number of the question whose answer the judge rejects, whatever the mood.
    pub refuses: Option<usize>,
    /// Files that the agent leaves behind: path and text.
    pub files: Vec<(String, String)>,
    /// Those of the files that can be executed.
    #[serde(default)]
    pub programs: BTreeSet<String>,
    /// Symbolic links that it leaves, with their targets.
    #[serde(default)]
    pub links: BTreeMap<String, String>,
    /// Files and directories, created by the setup, that the agent removes.
    #[serde(default)]
    pub gone: Vec<String>,
    /// Whether the files that it leaves come from other directories, where the setup created files with their names.
    #[serde(default)]
    pub moves: bool,
    /// What a command, by the key of its half, answers when it was asked so many times before in its phase.
    #[serde(default)]
    pub once: Option<(String, usize, Given)>,
    /// Whether a failing command may print something first, and exits with various statuses.
    pub loud: bool,
    /// Whether operations correspond to kubectl commands, which are then compared in a normal form.
    pub operations: bool,
    /// Whether a script that waits for long is stopped early: for worlds that only show whether it can pass.
    pub hasty: bool,
    /// Whether all short sleeps of the scripts are in loops without an end of their own.
    #[serde(default)]
    pub endless: bool,
    /// Whether shells record what they run.
    #[serde(default)]
    pub watched: bool,
}

/// Whether something is asked before or after the agent's work: the answers may differ.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Half {
    Before,
    After,
}

impl Half {
    /// The half of a phase, which is named as in plans and traces.
    pub fn of_phase(name: &str) -> Self {
        if name.starts_with("verify") || name.starts_with("cleanup") { Self::After } else { Self::Before }
    }

    /// The key of an answer that applies only to this half.
    pub fn key(self, key: &str) -> String {
        let half = if self == Self::After { LATER } else { EARLIER };
        format!("{half}\u{1f}{key}")
    }
}

/// Prefixes of keys that apply to one half.
const EARLIER: &str = "at first";
const LATER: &str = "later";

/// When something is asked.
#[derive(Clone, Copy, Debug)]
pub struct Time {
    pub half: Half,
    /// How often the same was asked before in this phase.
    pub nth: usize,
}

/// What is expected of a URL.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Web {
    pub statuses: Vec<u16>,
    pub bodies: Vec<String>,
}

/// A fixed answer of a world to one command.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum Given {
    /// It fails and prints no answer.
    Fails,
    /// It prints what is expected, and fails.
    FailsSaying,
    /// A request gets the expected answer, but the connection breaks before the end, so that `curl` prints the answer and fails.
    BreaksOff,
    /// It fails with this status and prints no answer, like a command that passes on the status of another program.
    FailsWith(u8),
    /// It succeeds and prints nothing.
    Silent,
    /// It succeeds and prints this text, with or without a line feed at its end.
    Says(String),
    /// The command does not exist.
    Missing,
    /// It never ends.
    Hangs,
    /// It answers as usual, but only after most of the time for which it would wait.
    Slow,
}

impl Given {
    /// A description for people.
    pub fn shown(&self) -> String {
        match self {
            Self::Fails => "fails".to_owned(),
            Self::FailsSaying => "prints the expected text and fails".to_owned(),
            Self::BreaksOff => "prints the expected text and loses its connection".to_owned(),
            Self::FailsWith(status) => format!("fails with status {status}"),
            Self::Silent => "prints nothing".to_owned(),
            Self::Says(text) if text.len() > LARGEST => format!("prints {:?}… ({} bytes)", cut(text), text.len()),
            Self::Says(text) => format!("prints {text:?}"),
            Self::Missing => "is missing".to_owned(),
            Self::Hangs => "hangs".to_owned(),
            Self::Slow => "takes most of the time for which it waits".to_owned(),
        }
    }

    /// Whether this is an answer that authors of scripts do not think of.
    pub fn is_odd(&self) -> bool {
        match self {
            Self::Fails | Self::FailsWith(_) | Self::Silent | Self::Slow => false,
            Self::Says(text) => !is_plain_number(text),
            Self::FailsSaying | Self::BreaksOff | Self::Missing | Self::Hangs => true,
        }
    }
}

/// Whether a text is a number that every comparison of numbers reads in the same way.
pub fn is_plain_number(text: &str) -> bool {
    let digits = text.trim_end_matches('\n');
    (1..19).contains(&digits.len())
        && digits.bytes().all(|b| b.is_ascii_digit())
        && (digits == "0" || !digits.starts_with('0'))
}

/// The exit status of a command that never ends: its script is killed.
pub const HANGS: i32 = 137;

/// The exit status of a `curl` whose connection breaks before the end of the answer.
pub const BREAKS_OFF: i32 = 18;

/// Answers that fool a shell or a comparison which takes a value for more than data. `VALUE` is the expected text.
pub const HOSTILE: [&str; 16] = [
    "VALUE",
    "VALUE\n\n\n",
    " VALUE \n",
    "0VALUE\n",
    "VALUE\nand more\n",
    "\u{a0}VALUE\n",
    "q' = 'q' -o 'z\n",
    "\"; touch PWNED; \"\n",
    "$(touch PWNED)`touch PWNED`; touch PWNED\n",
    "a b  *\n",
    "*\n",
    "\\\u{fc}\u{4e2d}\n",
    "9223372036854775808\n",
    "-n\n",
    "{env.HOME}\n",
    "!\n",
];

/// What a world is like.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Mood {
    /// Everything succeeds, with the expected answers.
    Good,
    /// Everything fails.
    Bad,
    /// Everything succeeds and prints nothing.
    Silent,
    /// Some of each.
    Mixed,
    /// Everything succeeds, mostly with unexpected answers.
    Odd,
    /// Commands that wait time out.
    Late,
}

impl Mood {
    /// A description for people.
    fn shown(self) -> &'static str {
        match self {
            Self::Good => "everything succeeds",
            Self::Bad => "everything fails",
            Self::Silent => "nothing is printed",
            Self::Mixed => "some calls fail",
            Self::Odd => "the answers are unusual",
            Self::Late => "all waits time out",
        }
    }
}

/// An answer.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Answer {
    pub status: i32,
    pub stdout: String,
    pub stderr: String,
}

/// A question: a command and its input.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Call {
    pub argv: Vec<String>,
    pub stdin: Option<String>,
}

impl Call {
    /// Whether it runs in the background of its script, so that its place among the other calls is not known.
    pub fn is_aside(&self) -> bool {
        let (Some(program), verb) = (self.argv.first(), self.argv.get(1)) else { return false };
        match program.as_str() {
            "nohup" | "setsid" => true,
            "kubectl" | "oc" => {
                self.argv.iter().any(|word| word == "port-forward") || verb.is_some_and(|verb| verb == "proxy")
            }
            _ => false,
        }
    }

    /// One line for people.
    pub fn shown(&self) -> String {
        let words: Vec<_> = self
            .argv
            .iter()
            .map(|w| {
                if w.is_empty() || w.contains([' ', '\'', '"', '\n', '{', '$']) { format!("'{w}'") } else { w.clone() }
            })
            .collect();
        match &self.stdin {
            Some(text) => format!("{} <<< {:?}", words.join(" "), text),
            None => words.join(" "),
        }
    }

    /// Whether it asks if a program exists: `command -v jq`.
    pub fn is_lookup(&self) -> bool {
        matches!(self.argv.as_slice(), [command, flag, _] if command == "command" && flag == "-v")
    }

    pub fn key(&self) -> String {
        self.argv.join("\u{1f}")
    }

    /// The call of a key, which may be that of one half.
    pub fn of_key(key: &str) -> Self {
        let words = key.split('\u{1f}').skip_while(|word| matches!(*word, EARLIER | LATER));
        Self { argv: words.map(str::to_owned).collect(), stdin: None }
    }

    /// The key together with the standard input.
    pub fn whole(&self) -> String {
        format!("{}\u{1e}{}", self.key(), self.stdin.as_deref().unwrap_or_default())
    }
}

/// How many characters of an answer are shown.
const SHOWN: usize = 40;

fn cut(text: &str) -> String {
    text.chars().take(SHOWN).collect()
}

/// The most bytes that Linux gives a program in one argument or variable, with the NUL at its end (`MAX_ARG_STRLEN`).
pub const LARGEST: usize = 128 << 10;

/// The expected text, followed by more blanks than a program can be given.
pub fn long(text: &str) -> String {
    format!("{text}{}\n", " ".repeat(LARGEST))
}

impl World {
    /// A description for people.
    pub fn shown(&self) -> String {
        let words = |key: &str| key.replace('\u{1f}', " ").replace('\u{1e}', " <<< ");
        let when = |key: &str| match key.split('\u{1f}').next() {
            Some(half @ (EARLIER | LATER)) => format!("{half} "),
            _ => String::new(),
        };
        let given = self.given.iter().map(|(key, given)| {
            let call = words(&Call::of_key(key).key());
            format!(", {}`{call}` {}", when(key), given.shown())
        });
        let env = self.env.iter().map(|(name, value)| format!(", {name} is {value:?}")).collect::<String>();
        let agent = self.agent.as_ref().map_or_else(String::new, |text| {
            let cut = cut(text);
            format!(", the agent answers {cut:?}{}", if cut.len() < text.len() { "…" } else { "" })
        });
        let gone = self.gone.iter().map(|path| format!(", the agent removes `{path}`")).collect::<String>();
        let gone = gone + if self.moves { ", the agent moves files" } else { "" };
        let once = self.once.as_ref().map_or_else(String::new, |(key, nth, given)| {
            format!(", {}`{}` {} in call {}", when(key), words(&Call::of_key(key).key()), given.shown(), nth + 1)
        });
        let judge = self.refuses.map(|n| format!(", the judge rejects question {}", n + 1)).unwrap_or_default();
        let given = given.collect::<String>();
        format!("world {}: {}{given}{once}{gone}{env}{agent}{judge}", self.seed, self.mood.shown())
    }

    /// Reads the world of this jail.
    pub fn read() -> Option<Self> {
        serde_json::from_slice(&fs::read(WORLD).ok()?).ok()
    }

    /// The key under which this world has its answers to a call.
    pub fn key(&self, call: &Call, half: Half) -> String {
        let own = half.key(&call.key());
        let is_own = self.given.contains_key(&own) || self.hints.contains_key(&own) || self.denied.contains(&own);
        if is_own { own } else { call.key() }
    }

    /// The fixed answer to a call, whatever the mood.
    pub fn gives(&self, call: &Call, time: Time) -> Option<&Given> {
        let Time { half, nth } = time;
        let is_it = |(key, own, _): &&(String, usize, Given)| *own == nth && *key == half.key(&call.key());
        self.once.as_ref().filter(is_it).map(|(.., given)| given).or_else(|| self.always(call, half))
    }

    /// The fixed answer to a call that does not depend on how often it was made before.
    pub fn always(&self, call: &Call, half: Half) -> Option<&Given> {
        let of_text = || self.given.get(&call.whole()).filter(|_| call.stdin.is_some());
        self.given.get(&self.key(call, half)).or_else(of_text)
    }

    /// What a call prints where all is well.
    pub fn said(&self, call: &Call, time: Time) -> String {
        let mut dice = Dice::new(self.seed, &format!("{}\u{1e}{}", call.key(), time.nth));
        // Skip the number that `success` draws before it chooses the text.
        dice.below(100);
        self.wanted(call, time.half, &mut dice)
    }

    /// The calls that take most of the time for which they wait.
    pub fn slow(&self) -> impl Iterator<Item = &str> {
        self.given.iter().filter(|(_, given)| **given == Given::Slow).map(|(key, _)| key.as_str())
    }

    /// The answer to a call.
    pub fn answer(&self, call: &Call, time: Time) -> Answer {
        let Time { half, nth } = time;
        // A program exists or not; it is the shell that prints its path.
        if call.is_lookup() {
            let missing =
                self.gives(call, time).map_or_else(|| self.is_denied(call, half), |given| *given == Given::Fails);
            return Answer { status: i32::from(missing), ..Answer::default() };
        }
        let mut dice = Dice::new(self.seed, &format!("{}\u{1e}{nth}", call.key()));
        match self.gives(call, time) {
            Some(Given::Fails) => return self.failure(call, half, &mut dice),
            Some(Given::FailsWith(status)) => {
                let stderr = "Error: it did not work\n".to_owned();
                return Answer { status: i32::from(*status), stdout: String::new(), stderr };
            }
            Some(Given::Silent) => return Answer::default(),
            Some(Given::Says(text)) => return Answer { stdout: text.clone(), ..Answer::default() },
            Some(Given::FailsSaying) => {
                let stdout = self.said(call, time);
                return Answer { status: 1, stdout, stderr: "Error: it did not work\n".to_owned() };
            }
            Some(Given::BreaksOff) => {
                return Answer { status: BREAKS_OFF, stdout: self.said(call, time), ..Answer::default() };
            }
            Some(Given::Missing) => {
                return Answer { status: 127, stderr: "not found\n".to_owned(), ..Answer::default() };
            }
            Some(Given::Hangs) => return Answer { status: HANGS, ..Answer::default() },
            Some(Given::Slow) | None => {}
        }
        match self.mood {
            Mood::Bad => self.failure(call, half, &mut dice),
            Mood::Silent => Answer::default(),
            Mood::Good => self.success(call, half, &mut dice, 100),
            Mood::Odd => {
                let stdout =
                    if dice.below(3) == 0 { self.wanted(call, half, &mut dice) } else { self.strange(call, &mut dice) };
                Answer { stdout, ..Answer::default() }
            }
            Mood::Late if waits(call) => Answer {
                status: 1,
                stderr: "error: timed out waiting for the condition\n".to_owned(),
                ..Answer::default()
            },
            Mood::Late => self.success(call, half, &mut dice, 90),
            Mood::Mixed => {
                // A wait asks again, and gets other answers.
                if dice.below(100) < 18 {
                    self.failure(call, half, &mut dice)
                } else {
                    self.success(call, half, &mut dice, 72)
                }
            }
        }
    }

    fn failure(&self, call: &Call, half: Half, dice: &mut Dice) -> Answer {
        let status = if self.loud { [1, 1, 2, 3, 124, 127][dice.below(6)] } else { 1 };
        let stdout = if self.loud && dice.below(2) == 0 { self.wanted(call, half, dice) } else { String::new() };
        Answer { status, stdout, stderr: "Error: it did not work\n".to_owned() }
    }

    fn success(&self, call: &Call, half: Half, dice: &mut Dice, wanted: usize) -> Answer {
        if self.is_denied(call, half) && dice.below(100) < wanted {
            return Answer { status: 1, stderr: "Error: no\n".to_owned(), ..Answer::default() };
        }
        let stdout = if dice.below(100) < wanted { self.wanted(call, half, dice) } else { self.near(call, half, dice) };
        Answer { stdout, ..Answer::default() }
    }

    /// What is expected.
    fn wanted(&self, call: &Call, half: Half, dice: &mut Dice) -> String {
        match self.hints(call, half) {
            Some(hints) if !hints.is_empty() => self.ended(call, hints[dice.below(hints.len())].clone()),
            _ => self.plain(call, dice),
        }
    }

    /// The expected answers. A hole in a step's words matches any text; in an answer it is replaced by the text that it has in the call.
    pub fn hints(&self, call: &Call, half: Half) -> Option<Vec<String>> {
        let key = self.key(call, half);
        if let Some(hints) = self.hints.get(&key) {
            return Some(hints.clone());
        }
        let find = |key: String| {
            let found = self.hints.iter().find(|(pattern, _)| pattern.contains('{') && fits(pattern, &key));
            found.map(|found| (key, found))
        };
        let (key, (pattern, hints)) = find(half.key(&call.key())).or_else(|| find(call.key()))?;
        let words = || pattern.split('\u{1f}').zip(key.split('\u{1f}')).filter_map(|(p, w)| hole(p, w));
        Some(
            hints
                .iter()
                .map(|hint| words().fold(hint.clone(), |hint, (hole, word)| hint.replace(hole, word)))
                .collect(),
        )
    }

    /// What is expected of a URL.
    pub fn web(&self, url: &str) -> Option<&Web> {
        self.web.get(url).or_else(|| self.web.iter().find(|(pattern, _)| fits(pattern, url)).map(|(_, web)| web))
    }

    fn is_denied(&self, call: &Call, half: Half) -> bool {
        let is =
            |key: &String| self.denied.contains(key) || self.denied.iter().any(|d| d.contains('{') && fits(d, key));
        [half.key(&call.key()), call.key()].iter().any(is)
    }

    /// Nearly what is expected.
    fn near(&self, call: &Call, half: Half, dice: &mut Dice) -> String {
        let base = self.wanted(call, half, dice);
        let numeric = self.numeric(call, half);
        let base = base.trim_end_matches('\n');
        let text = match dice.below(7) {
            0 => String::new(),
            1 => format!("{base}0"),
            2 => base.chars().take(base.chars().count().saturating_sub(1)).collect(),
            3 if numeric => format!("1{base}"),
            3 => base.to_uppercase(),
            4 if !numeric => format!("not-{base}"),
            5 if base.parse::<u64>().is_ok() => (base.parse::<u64>().unwrap_or(0).saturating_sub(1)).to_string(),
            _ if numeric => dice.below(12).to_string(),
            _ if !self.words.is_empty() => self.words[dice.below(self.words.len())].clone(),
            _ => "other".to_owned(),
        };
        self.ended(call, text)
    }

    /// Whether a number is expected.
    fn numeric(&self, call: &Call, half: Half) -> bool {
        self.hints(call, half).is_some_and(|h| h.iter().any(|t| t.parse::<u64>().is_ok()))
    }

    fn plain(&self, call: &Call, dice: &mut Dice) -> String {
        let text = |t: &str| self.ended(call, t.to_owned());
        if call.argv.iter().any(|a| a == "json" || a == "-ojson" || a == "--output=json") {
            let word = self.words.get(dice.below(self.words.len().max(1))).cloned().unwrap_or_default();
            let documents = [
                serde_json::json!({"items": [], "metadata": {"name": "a"}, "spec": {}, "status": {}}),
                serde_json::json!({"items": [{"metadata": {"name": word}}], "metadata": {"name": word, "labels": {"app": word}},
                    "spec": {"replicas": 3, "type": word}, "status": {"phase": word, "readyReplicas": 3}}),
            ];
            return documents[dice.below(2)].to_string() + "\n";
        }
        match dice.below(4) {
            0 if !self.words.is_empty() => text(&self.words[dice.below(self.words.len())]),
            1 => text("created"),
            2 => text(&dice.below(6).to_string()),
            _ if by_line(call) => (0..dice.below(4)).map(|i| format!("thing-{i}\n")).collect(),
            _ => text("ok"),
        }
    }

    fn strange(&self, call: &Call, dice: &mut Dice) -> String {
        let text =
            [" ", "\u{fc}\u{4e2d}", "a b  c", "line\nline two", "-1", "007", "<none>", "null", "{}", "true", "*"];
        let text = text[dice.below(text.len())].to_owned();
        // A row of a table must not be blank: `wc -l` would count it, but it is invisible at the end of an output.
        if by_line(call) { self.ended(call, text.trim().to_owned()) } else { self.ended(call, text) }
    }

    /// Adds a line feed: most commands end their output with one, a JSONPath does not.
    fn ended(&self, call: &Call, text: String) -> String {
        let bare = text.is_empty()
            || text.ends_with('\n')
            || call.argv.iter().any(|a| a.contains("jsonpath") || a == "-w" || a == "-s");
        if bare { text } else { text + "\n" }
    }
}

/// The file by which a jail knows that something in it never ends.
const HUNG: &str = "/world/hung";

/// Records that something never ends.
pub fn hangs() {
    let _ = fs::write(HUNG, "");
}

/// Kills a command that never ends, with its whole script: the clock of the jail then advances to the end of the script's limit, or
/// of the limit of `timeout`.
pub fn hang() -> u8 {
    hangs();
    let _ = std::process::Command::new("/bin/sh").args(["-c", "kill -9 0"]).status();
    0
}

/// Whether something never ended since the last call.
pub fn has_hung() -> bool {
    fs::remove_file(HUNG).is_ok()
}

/// Whether words match a pattern, in which `{…}` matches anything.
pub fn fits(pattern: &str, key: &str) -> bool {
    let (pattern, key): (Vec<&str>, Vec<&str>) = (pattern.split('\u{1f}').collect(), key.split('\u{1f}').collect());
    pattern.len() == key.len() && pattern.iter().zip(&key).all(|(p, w)| p == w || hole(p, w).is_some())
}

/// The `{…}` of a pattern's word, and the text in its place.
fn hole<'t>(pattern: &'t str, word: &'t str) -> Option<(&'t str, &'t str)> {
    let (open, close) = (pattern.find('{')?, pattern.rfind('}')? + 1);
    let (before, behind) = (pattern.get(..open)?, pattern.get(close..)?);
    if pattern.contains("jsonpath") || word.len() < before.len() + behind.len() {
        return None;
    }
    Some((pattern.get(open..close)?, word.strip_prefix(before)?.strip_suffix(behind)?))
}

/// The text as a command prints it: a table ends each of its lines, and has no blank lines.
pub fn lines_of(call: &Call, text: String) -> String {
    if !by_line(call) {
        return text;
    }
    text.lines().filter(|line| !line.trim().is_empty()).map(|line| format!("{line}\n")).collect()
}

fn by_line(call: &Call) -> bool {
    call.argv.iter().any(|a| a == "--no-headers" || a == "name" || a == "-oname")
}

/// A slow command takes at most this long: a script has to fit in its limit together with what else it does.
const SLOWEST: Duration = Duration::from_secs(120);

/// For how long a command takes if it answers shortly before it would give up. `None` if it does not wait for long.
pub fn patience(call: &Call) -> Option<Duration> {
    const SHORT: Duration = Duration::from_secs(45);
    let words = || call.argv.iter().take_while(|word| *word != "--");
    if !matches!(call.argv[0].as_str(), "kubectl" | "oc" | "helm") {
        return None;
    }
    let own = words().position(|word| word == "--timeout").and_then(|at| call.argv.get(at + 1));
    let limit = words().find_map(|word| word.strip_prefix("--timeout=")).or(own.map(String::as_str))?;
    let limit = limit.parse().map(Duration::from_secs).ok().or_else(|| duration::parse(limit).ok())?;
    Some(limit.saturating_sub(Duration::from_secs(1)).min(SLOWEST)).filter(|time| *time >= SHORT)
}

fn waits(call: &Call) -> bool {
    call.argv.iter().any(|a| a == "wait" || a == "rollout" || a.starts_with("--timeout") || a == "--wait")
}

/// Numbers derived from a seed and a text.
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64, text: &str) -> Self {
        let start = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0xcbf2_9ce4_8422_2325;
        Self(text.bytes().fold(start, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)))
    }

    pub fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % n.max(1) as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_world_shows_the_answer_of_the_agent() {
        let shown = |agent: Option<&str>| {
            let world = serde_json::from_value::<World>(json!({
                "seed": 3, "mood": "Good", "given": {}, "hints": {}, "web": {}, "denied": [], "words": [], "env": {}, "agent": agent,
                "refuses": null, "files": [], "loud": false, "operations": false, "hasty": false,
            }));
            world.unwrap().shown()
        };
        assert_eq!(shown(None), "world 3: everything succeeds");
        assert_eq!(shown(Some("4\n2")), "world 3: everything succeeds, the agent answers \"4\\n2\"");
        let long = shown(Some(&"ü".repeat(41)));
        assert!(long.ends_with(&format!("{}\"…", "ü".repeat(40))), "{long}");
    }
}
