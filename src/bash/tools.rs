//! Facts about the programs that scripts call, shared by all modules that read scripts. There is one table per program, in
//! `tools/NAME.toml`. `docs/effects.md` describes the keys, and `build.rs` converts the tables to JSON, which is faster to read.
//! Facts that only one rule needs are in that rule.

use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock, OnceLock},
};

use rustc_hash::{FxHashMap, FxHashSet};
use schemars::JsonSchema;
use serde::Deserialize;

use super::types;

/// What gevals knows about a program, in terms of its command line.
#[derive(Clone, PartialEq, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Tool {
    /// The program's names, without a directory. Programs with the same command line share an entry; the first name represents all of them.
    #[serde(default)]
    pub names: Vec<String>,
    /// The system that its resources belong to; names in different systems are unrelated.
    #[serde(default)]
    pub system: String,
    /// Options that select a part of the system, such as a namespace.
    #[serde(default)]
    pub space: Vec<String>,
    /// Environment variables that the program reads.
    #[serde(default)]
    pub env: Vec<String>,
    /// Options whose value is SQL.
    #[serde(default)]
    pub sql: Vec<String>,
    /// Options that take a value: the next word, unless the value follows `=`. All other options take no value.
    #[serde(default)]
    pub values: Vec<String>,
    /// Those of `values` that take two words as their value.
    #[serde(default)]
    pub pairs: Vec<String>,
    /// By operation: options of `values` that take no value after this operation.
    #[serde(default)]
    pub alone: BTreeMap<String, Vec<String>>,
    /// Whether one-letter options can be combined after a single dash.
    #[serde(default)]
    pub short: bool,
    /// Whether the literal words of operations may be in capitals.
    #[serde(default)]
    pub any_case: bool,
    /// Read-only operations, by their leading operands.
    #[serde(default)]
    pub looks: Vec<String>,
    /// Commands that print what has been changed, and nothing if there are no changes.
    #[serde(default)]
    pub changes: Vec<String>,
    /// The operations of the program; the first that matches applies.
    #[serde(default)]
    pub commands: Vec<Command>,
    /// Kinds of resources that are not confined to one part of the system, with synonyms for each.
    #[serde(default)]
    pub wide: BTreeMap<String, Vec<String>>,
    /// Kinds of resources, with synonyms for each.
    #[serde(default)]
    pub kinds: BTreeMap<String, Vec<String>>,
    /// Conditions that can be awaited, by kind.
    #[serde(default)]
    pub conditions: BTreeMap<String, Vec<String>>,
    /// Fields that have a fixed set of values.
    #[serde(default)]
    pub fixed: BTreeMap<String, Vec<String>>,
    /// Words for the states of resources, in human-readable lists and in fields.
    #[serde(default)]
    pub states: Vec<String>,
    /// Keys that are allowed directly below a field of a kind: `{service = {spec = ["ports"]}}`.
    #[serde(default)]
    places: BTreeMap<String, BTreeMap<String, Vec<String>>>,
    /// Options with which the program writes to standard error, and the prefixes of those lines; an empty list means all output.
    #[serde(default)]
    pub errors: BTreeMap<String, Vec<String>>,
    /// Fields that every resource of a kind has, regardless of its configuration.
    #[serde(default)]
    pub always: BTreeMap<String, Vec<String>>,
    /// Fields that contain a time, printed in seconds: `600s`.
    #[serde(default)]
    pub seconds: Vec<String>,
    /// Options whose value is a duration with a unit: `--timeout 5m`.
    #[serde(default)]
    pub durations: Vec<String>,
    /// Names of resource fields, under `names`.
    #[serde(default)]
    fields: BTreeMap<String, Vec<String>>,
    /// `values` as a set, for lookups.
    #[serde(skip)]
    valued: FxHashSet<String>,
    /// Every word for a kind, with the canonical word, and whether it is in `wide`.
    #[serde(skip)]
    by_word: FxHashMap<String, (String, bool)>,
}

/// An operation of a program. The first operation that matches applies.
#[derive(Clone, PartialEq, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Command {
    /// Operands: literal words; `KIND` and `NAME` for one word, `NAMES` for one or more, `FILES` for files that an option names; any other
    /// word in capitals matches any word.
    pub usage: String,
    /// One of these options must be given.
    #[serde(default)]
    pub with: Vec<String>,
    /// None of these options may be given.
    #[serde(default)]
    pub without: Vec<String>,
    /// The option that names the resource.
    #[serde(default)]
    pub named: Vec<String>,
    /// Whether its input is a file, a here-document or another command.
    #[serde(default)]
    pub fed: bool,
    /// Whether it succeeds regardless of what it finds, as long as the system responds.
    #[serde(default)]
    pub succeeds: bool,
    /// Whether it also succeeds if the resource already exists.
    #[serde(default)]
    pub again: bool,
    /// The system of its resources, if it differs from that of the program.
    pub system: Option<String>,
    /// Whether SQL determines what it does, in an option or in its input.
    #[serde(default)]
    pub sql: bool,
    /// The kind of resource that it creates: a word, or `KIND` as given on the command line.
    pub creates: Option<String>,
    /// The kind that it reads; see `creates`.
    pub reads: Option<String>,
    /// The kind that it waits for; see `creates`.
    pub awaits: Option<String>,
    /// The kind that it changes; see `creates`.
    pub changes: Option<String>,
    /// The kind that it deletes; see `creates`.
    pub deletes: Option<String>,
    /// The words of `usage`.
    #[serde(skip)]
    words: Vec<Place>,
}

/// What is allowed at a position of a usage.
#[derive(Clone, PartialEq, Debug)]
enum Place {
    Word(String),
    Files,
    Names,
    /// `slashed`: whether `KIND NAME` may be one word.
    Kind {
        slashed: bool,
    },
    KindAndName,
    Any,
}

impl Place {
    fn all(usage: &str) -> Vec<Self> {
        let place = |word: &str| match word {
            "FILES" => Self::Files,
            "NAMES" => Self::Names,
            "KIND" => Self::Kind { slashed: usage.contains("KIND NAME") },
            "KIND/NAME" => Self::KindAndName,
            _ if word.bytes().all(|b| b.is_ascii_uppercase()) => Self::Any,
            _ => Self::Word(word.to_owned()),
        };
        usage.split_whitespace().map(place).collect()
    }
}

macro_rules! tables {
    ($($name:literal),*) => {
        &[$(include_str!(concat!(env!("OUT_DIR"), "/", $name, ".json"))),*]
    };
}

const TABLES: &[&str] = tables![
    "kubectl",
    "helm",
    "docker",
    "kind",
    "virtctl",
    "git",
    "mkdir",
    "touch",
    "rm",
    "cp",
    "redis",
    "jq",
    "filters",
    "sed",
    "tr",
    "grep",
    "createdb",
    "dropdb",
    "createuser",
    "dropuser",
    "psql",
    "mysql",
    "sqlite3",
    "aws",
    "gcloud",
    "terraform",
    "gh",
    "curl",
    "wget",
    "java",
    "nginx",
    "ssh"
];

/// The index of a program's table, by every name of the program. The names are the first list in a table.
static BY_NAME: LazyLock<FxHashMap<&'static str, usize>> = LazyLock::new(|| {
    let names = |text: &'static str| {
        let list = text.split_once(r#""names":["#).map_or("", |(_, rest)| rest.split(']').next().unwrap_or_default());
        list.split(',').map(|name| name.trim().trim_matches('"')).filter(|name| !name.is_empty())
    };
    TABLES.iter().enumerate().flat_map(|(table, text)| names(text).map(move |name| (name, table))).collect()
});

/// The tables that have been read so far: reading the Kubernetes table alone takes as long as reading a small suite.
static TOOLS: [OnceLock<Option<Tool>>; TABLES.len()] = [const { OnceLock::new() }; TABLES.len()];

impl Tool {
    fn read(text: &str) -> Option<Self> {
        serde_json::from_str::<Self>(text).ok().map(Self::indexed)
    }

    fn indexed(mut self) -> Self {
        self.valued = self.values.iter().cloned().collect();
        for command in &mut self.commands {
            command.words = Place::all(&command.usage);
        }
        for (kinds, wide) in [(&self.kinds, false), (&self.wide, true)] {
            for (kind, others) in kinds {
                for word in others.iter().chain([kind]) {
                    self.by_word.insert(word.clone(), (kind.clone(), wide));
                }
            }
        }
        self
    }

    /// Whether it has a field of this name.
    pub fn is_field(&self, name: &str) -> bool {
        self.fields.values().flatten().any(|known| known == name)
            || self.names.iter().any(|own| own == "kubectl") && types::is_name(name)
    }

    /// The fields allowed directly under a field of a kind; empty if they are not in the tables of programs.
    pub fn under(&self, kind: &str, field: &str) -> Vec<&str> {
        let own = self.places.get(kind).and_then(|fields| fields.get(field));
        own.into_iter().flatten().map(String::as_str).collect()
    }

    /// Adds a project's facts about a program: its commands come first, and its system takes precedence.
    fn extended(mut self, own: Self) -> Self {
        fn merge(all: &mut BTreeMap<String, Vec<String>>, own: BTreeMap<String, Vec<String>>) {
            own.into_iter().for_each(|(key, words)| all.entry(key).or_default().extend(words));
        }
        self.names.extend(own.names);
        self.commands.splice(0..0, own.commands);
        self.space.extend(own.space);
        self.env.extend(own.env);
        self.sql.extend(own.sql);
        self.values.extend(own.values);
        self.looks.extend(own.looks);
        self.changes.extend(own.changes);
        self.short |= own.short;
        self.any_case |= own.any_case;
        merge(&mut self.fixed, own.fixed);
        self.seconds.extend(own.seconds);
        self.durations.extend(own.durations);
        self.states.extend(own.states);
        merge(&mut self.always, own.always);
        merge(&mut self.errors, own.errors);
        own.places.into_iter().for_each(|(kind, fields)| merge(self.places.entry(kind).or_default(), fields));
        merge(&mut self.alone, own.alone);
        merge(&mut self.wide, own.wide);
        merge(&mut self.kinds, own.kinds);
        merge(&mut self.conditions, own.conditions);
        merge(&mut self.fields, own.fields);
        if !own.system.is_empty() {
            self.system = own.system;
        }
        self
    }
}

/// Facts about programs in a project: gevals' own tables, and the additions in `[effects]` of its `gevals.toml`.
#[derive(Clone, Debug, Default)]
pub struct Tools {
    own: FxHashMap<String, Arc<Tool>>,
}

impl Tools {
    /// The tables, with a project's facts about programs, by program name.
    pub fn of(own: impl IntoIterator<Item = (String, Tool)>) -> Self {
        let mut tools = Self::default();
        for (name, said) in own {
            let known = tool(&name).cloned().unwrap_or_default();
            let own_words = said.clone().indexed().by_word;
            let mut tool = known.extended(said).indexed();
            // If a project defines a word, its definition applies.
            tool.by_word.extend(own_words);
            if !tool.names.contains(&name) {
                tool.names.insert(0, name);
            }
            let tool = Arc::new(tool);
            tools.own.extend(tool.names.iter().map(|name| (name.clone(), Arc::clone(&tool))));
        }
        tools
    }

    /// Whether one of the project's own programs deletes resources of this kind.
    pub fn releases(&self, system: &str, kind: &str) -> bool {
        let deletes = |command: &Command| command.deletes.as_deref() == Some(kind);
        self.own.values().any(|tool| tool.system == system && tool.commands.iter().any(deletes))
    }

    /// The entry of a program. `name` must not include a directory.
    pub fn tool(&self, name: &str) -> Option<&Tool> {
        let own = if self.own.is_empty() { None } else { self.own.get(name).map(Arc::as_ref) };
        own.or_else(|| tool(name))
    }
}

/// Programs that never change anything.
#[rustfmt::skip]
const LOOKERS: &[&str] = &[
    "test", "[", "grep", "true", "cat", "ls", "head", "tail", "wc", "jq", "diff", "cmp", "command", "which", "stat", "file",
    "egrep", "fgrep", "sha256sum", "du", "printenv", "base64", "cut",
];

/// Shells that read Bourne shell syntax and use its quoting.
pub const SHELLS: [&str; 7] = ["sh", "bash", "dash", "zsh", "ksh", "mksh", "ash"];

/// The entry of a program. `name` must not include a directory.
pub fn tool(name: &str) -> Option<&'static Tool> {
    table(*BY_NAME.get(name)?)
}

fn table(at: usize) -> Option<&'static Tool> {
    TOOLS[at].get_or_init(|| Tool::read(TABLES[at])).as_ref()
}

/// Every entry that lists the words a field can contain, once each.
pub fn all() -> impl Iterator<Item = &'static Tool> {
    static SAYING: LazyLock<Vec<&'static Tool>> = LazyLock::new(|| {
        // The other tables are not read at all.
        let says = |(_, text): &(usize, &&str)| text.contains("fixed") || text.contains("seconds");
        let all = TABLES.iter().enumerate().filter(says).filter_map(|(at, _)| table(at));
        all.filter(|tool| !tool.fixed.is_empty() || !tool.seconds.is_empty()).collect()
    });
    SAYING.iter().copied()
}

/// Whether any of the programs reads an environment variable of this name.
pub fn reads_variable(name: &str) -> bool {
    static NAMES: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
        let with = TABLES.iter().enumerate().filter(|(_, text)| text.contains("\"env\""));
        with.filter_map(|(at, _)| table(at)).flat_map(|tool| &tool.env).map(String::as_str).collect()
    });
    NAMES.contains(&name)
}

/// The common name of all programs with the same command line: `kubectl` for `oc`.
pub fn canonical(name: &str) -> &str {
    match name {
        // Called for every command, and most commands are none of these.
        "oc" | "podman" | "nerdctl" => tool(name).and_then(|tool| tool.names.first()).map_or(name, String::as_str),
        _ => name,
    }
}

/// Whether a program has this option with a value. A program that accepts `--namespace` works in a namespace.
pub fn takes(name: &str, option: &str) -> bool {
    tool(name).is_some_and(|tool| tool.valued.contains(option))
}

/// The words after the name of a program that are neither options nor values of options.
pub fn operands<'w, W: AsRef<str>>(name: &str, words: &'w [W]) -> impl Iterator<Item = &'w W> {
    operands_of(tool(name), words)
}

fn operands_of<'w, W: AsRef<str>>(tool: Option<&'w Tool>, words: &'w [W]) -> impl Iterator<Item = &'w W> {
    let mut values = 0_usize;
    let mut only_operands = false;
    let mut alone: Option<&[String]> = None;
    words.iter().filter(move |word| {
        let word = word.as_ref();
        if only_operands {
            return true;
        }
        only_operands = word == "--";
        let is_value = values > 0;
        if is_value {
            values -= 1;
        }
        let takes = |tool: &Tool| {
            let among = tool.last_of(word);
            let option = among.as_deref().unwrap_or(word);
            tool.valued.contains(option) && !alone.is_some_and(|alone| alone.iter().any(|known| known == option))
        };
        if let Some(tool) = tool.filter(|tool| takes(tool)) {
            values = if tool.pairs.iter().any(|option| option == word) { 2 } else { 1 };
        }
        let is_operand = !is_value && !word.starts_with('-');
        if is_operand && alone.is_none() {
            alone = tool.map(|tool| tool.alone.get(word).map_or(&[][..], Vec::as_slice));
        }
        is_operand
    })
}

/// The pattern that a grep searches for, among the words after its name: the value of `-e`, otherwise the first operand. Returns `None` if
/// the pattern is not a separate word.
pub fn searched<W: AsRef<str>>(words: &[W]) -> Option<&W> {
    let grep = tool("grep")?;
    let is_pattern =
        |word: &str| matches!(word, "-e" | "--regexp") || grep.last_of(word).is_some_and(|option| option == "-e");
    let ends = words.iter().position(|word| word.as_ref() == "--").unwrap_or(words.len());
    match words[..ends].iter().position(|word| is_pattern(word.as_ref())) {
        Some(at) => words.get(at + 1),
        None if words[..ends].iter().any(|word| word.as_ref().starts_with("--regexp=")) => None,
        None => grep.operands(words).next(),
    }
}

/// Whether a command, given as words separated by spaces, changes nothing.
pub fn looks(run: &str) -> bool {
    let words: Vec<&str> = run.split_whitespace().collect();
    let Some((&name, rest)) = words.split_first() else { return false };
    if matches!(name, "awk" | "sed") {
        // Of the options, those that change nothing; of the programs, those that call nothing.
        let plain = |word: &&str| {
            !word.starts_with('-')
                || matches!(*word, "-n" | "-E" | "-r" | "-nE" | "-nr" | "-F" | "-v" | "-e")
                || word.starts_with("-F")
        };
        let calls = ["system", "getline", "w /", "w \"", "/w ", "/e"].iter().any(|word| run.contains(word));
        return !run.contains(['>', '|']) && rest.iter().all(plain) && !calls;
    }
    // Elsewhere, `--output` is a format.
    let writes = |word: &&str| word.starts_with("--output-directory") || name == "git" && word.starts_with("--output");
    if rest.iter().any(writes) {
        return false;
    }
    let operands: Vec<&str> = operands(name, rest).copied().collect();
    let begins = |operation: &String| {
        let mut words = operation.split(' ');
        let mut given = operands.iter();
        words.all(|word| given.next() == Some(&word))
    };
    LOOKERS.contains(&name) || tool(name).is_some_and(|tool| tool.looks.iter().any(begins))
}

/// Whether a text contains a command that prints what has been changed, and nothing if there are no changes.
pub fn lists_changes(text: &str) -> bool {
    let mut words = text.split(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '(' | ')' | '`' | '$'));
    let Some(tool) = words.by_ref().find_map(|word| tool(word).filter(|tool| !tool.changes.is_empty())) else {
        return false;
    };
    let words: Vec<&str> = words.collect();
    tool.changes.iter().any(|command| command.split(' ').all(|part| words.contains(&part)))
}

/// Whether a command changes nothing, including a command run by another program: `kubectl exec POD -- cat FILE`,
/// `timeout 5 curl URL`.
pub fn only_looks(run: &str) -> bool {
    let words: Vec<&str> = run.split_whitespace().collect();
    let plain = !run.contains(['|', ';', '&', '>', '`', '(', '\n']);
    let within = |at: usize| only_looks(&words.get(at..).unwrap_or_default().join(" "));
    let all = |known: &[&str], rest: &[&str]| rest.iter().all(|word| !word.starts_with('-') || known.contains(word));
    looks(run)
        || queries(&words)
        || plain
            && match words.split_first() {
                Some((name @ (&"kubectl" | &"oc"), rest)) if operands(name, rest).next() == Some(&"exec") => {
                    words.iter().position(|word| *word == "--").is_some_and(|at| within(at + 1))
                }
                Some((&"timeout", rest)) if rest.first().is_some_and(|limit| !limit.starts_with('-')) => within(2),
                Some((&"curl", rest)) => {
                    let flags = |word: &str| word[1..].chars().all(|flag| "sSfLm".contains(flag));
                    let valued = ["--max-time", "--connect-timeout", "-H", "--header"];
                    rest.iter().all(|word| !word.starts_with('-') || valued.contains(word) || flags(word))
                }
                Some((&"wget", rest)) => {
                    let prints = ["-qO-", "-O-", "--spider"];
                    rest.iter().any(|word| prints.contains(word))
                        && all(&["-qO-", "-O-", "--spider", "-q", "-T", "-T5", "--timeout", "-S"], rest)
                }
                Some((&"nc", rest)) => rest.iter().any(|word| word.starts_with("-z") || word.starts_with("-vz")),
                Some((&"nslookup" | &"dig" | &"getent" | &"id", rest)) => all(&[], rest),
                Some((&"hostname", rest)) => rest.is_empty(),
                Some((&"systemctl", rest)) => {
                    let verb = rest.iter().find(|word| !word.starts_with('-'));
                    const LOOKS: [&str; 9] = [
                        "status",
                        "is-active",
                        "is-enabled",
                        "is-failed",
                        "show",
                        "cat",
                        "list-units",
                        "list-unit-files",
                        "is-system-running",
                    ];
                    verb.is_some_and(|verb| LOOKS.contains(verb))
                }
                Some((&"journalctl", rest)) => !rest
                    .iter()
                    .any(|word| ["--vacuum", "--rotate", "--flush", "--sync"].iter().any(|w| word.starts_with(w))),
                _ => false,
            }
}

/// Whether a client of a database sends one statement that reads: `psql -Atc "SELECT count(*) FROM users"`. A function that is not known
/// may change something.
fn queries(words: &[&str]) -> bool {
    /// Functions that only compute, and words that parentheses follow.
    const READING: [&str; 26] = [
        "array_agg",
        "as",
        "avg",
        "bool_and",
        "bool_or",
        "by",
        "coalesce",
        "concat",
        "count",
        "current_setting",
        "exists",
        "from",
        "in",
        "json_agg",
        "length",
        "lower",
        "max",
        "min",
        "over",
        "row_to_json",
        "string_agg",
        "sum",
        "to_regclass",
        "trim",
        "upper",
        "where",
    ];
    let is_client = matches!(words.first(), Some(&("psql" | "mysql" | "mariadb" | "sqlite3")));
    let is_select = |word: &&str| word.trim_start_matches(['"', '\'']).eq_ignore_ascii_case("select");
    let Some(at) = words.iter().position(is_select).filter(|_| is_client) else { return false };
    let option = words[at - 1];
    // A second statement, an output file, another command of the client.
    let others = words.iter().enumerate().filter(|(nth, _)| *nth != at - 1).map(|(_, word)| *word);
    let quote = words[at].chars().next().filter(|sign| matches!(sign, '"' | '\'')).unwrap_or('"');
    let quotes: usize = words[at..].iter().map(|word| word.matches(quote).count()).sum();
    if others.into_iter().any(|word| matches!(word, "-o" | "-f" | "-L" | "-c" | "-e"))
        || words[0] == "sqlite3" && quotes > 2
    {
        return false;
    }
    let is_statement = option.starts_with('-') && option.ends_with(['c', 'e']) || words[0] == "sqlite3";
    let statement = words[at..].join(" ").to_ascii_lowercase();
    let statement = statement.trim_end_matches(['"', '\'', ';', ' ']);
    let called = statement.match_indices('(').map(|(at, _)| {
        let before = statement[..at].trim_end();
        &before[before.rfind(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).map_or(0, |at| at + 1)..]
    });
    let reads = |name: &str| {
        name.is_empty() || READING.contains(&name) || name.starts_with("has_") && name.ends_with("_privilege")
    };
    let changes = [" into ", " for update", " for share"].iter().any(|words| statement.contains(words));
    is_statement && !statement.contains(['|', ';', '>', '`', '$']) && !changes && called.into_iter().all(reads)
}

/// Whether a failing command always ends with status 1. False for commands that pass on the status of another program
/// (`kubectl exec`, `timeout`), and for unknown commands.
pub fn fails_with_one(run: &str) -> bool {
    const OF_CLUSTERS: [&str; 34] = [
        "adm",
        "annotate",
        "api-resources",
        "api-versions",
        "apply",
        "auth",
        "autoscale",
        "certificate",
        "cluster-info",
        "config",
        "cordon",
        "create",
        "delete",
        "describe",
        "drain",
        "edit",
        "explain",
        "expose",
        "get",
        "label",
        "logs",
        "new-project",
        "patch",
        "project",
        "replace",
        "rollout",
        "scale",
        "set",
        "taint",
        "top",
        "uncordon",
        "version",
        "wait",
        "whoami",
    ];
    let words: Vec<&str> = run.split_whitespace().collect();
    match words.split_first() {
        Some((&"test" | &"false" | &"[", _)) => true,
        Some((name @ (&"kubectl" | &"oc"), rest)) => {
            !run.contains(['|', ';', '&']) && operands(name, rest).next().is_some_and(|verb| OF_CLUSTERS.contains(verb))
        }
        _ => false,
    }
}

/// Whether a command has an option that makes it a dry run.
pub fn is_dry<W: AsRef<str>>(words: &[W]) -> bool {
    words.iter().any(|word| word.as_ref().starts_with("--dry-run"))
}

impl Tool {
    /// The words after its name that are neither options nor values of options.
    pub fn operands<'w, W: AsRef<str>>(&'w self, words: &'w [W]) -> impl Iterator<Item = &'w W> {
        operands_of(Some(self), words)
    }

    /// The command that a command line, without the program's name, invokes.
    pub fn command<W: AsRef<str>>(&self, words: &[W], fed: bool) -> Option<&Command> {
        let operands: Vec<&str> = self.operands(words).map(AsRef::as_ref).collect();
        self.commands.iter().find(|command| {
            (!command.fed || fed)
                && command.fits(&operands, self.any_case)
                && (command.with.is_empty() || command.with.iter().any(|option| self.has(words, option)))
                && (command.named.is_empty() || command.named.iter().any(|option| self.has(words, option)))
                && !command.without.iter().any(|option| self.has(words, option))
        })
    }

    /// The last of several one-letter options that share a dash, if none before it takes the rest of the word as its value:
    /// `-c` in `-tAc`.
    pub fn last_of(&self, word: &str) -> Option<String> {
        let letters = word.strip_prefix('-').filter(|letters| self.short && letters.len() > 1)?;
        let (last, before) = letters.as_bytes().split_last()?;
        let flags =
            before.iter().all(|b| b.is_ascii_alphabetic() && !self.valued.contains(&format!("-{}", char::from(*b))));
        (flags && last.is_ascii_alphabetic()).then(|| format!("-{}", char::from(*last)))
    }

    /// Whether an option is given: alone, with a value after `=`, or among one-letter options.
    pub fn has<W: AsRef<str>>(&self, words: &[W], option: &str) -> bool {
        let letter = option.strip_prefix('-').filter(|rest| self.short && rest.len() == 1);
        words.iter().map(AsRef::as_ref).take_while(|word| *word != "--").any(|word| {
            let whole = word.strip_prefix(option).is_some_and(|rest| rest.is_empty() || rest.starts_with('='));
            let among = letter.is_some_and(|letter| {
                let letters = word.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
                letters.is_some_and(|rest| rest.contains(letter) && rest.bytes().all(|b| b.is_ascii_alphabetic()))
            });
            whole || among
        })
    }

    /// The canonical word for a kind, and whether its resources are cluster-wide. Returns `None` if the kind is not known.
    pub fn kind(&self, word: &str) -> Option<(&str, bool)> {
        let lower = || word.bytes().any(|b| b.is_ascii_uppercase()).then(|| word.to_lowercase());
        let known = self.by_word.get(word).or_else(|| self.by_word.get(&lower()?));
        known.map(|(kind, wide)| (kind.as_str(), *wide))
    }

    /// The conditions that resources of a kind have, including kinds that the table does not list. Returns `None` if
    /// they are not known. The word may have an API group, as in `pipelinerun.tekton.dev`.
    pub fn conditions_of(&self, word: &str) -> Option<(&str, &[String])> {
        let word = word.split('/').next().unwrap_or(word).to_lowercase();
        let (word, group) = word.split_once('.').map_or((word.as_str(), None), |(word, group)| (word, Some(group)));
        let kind = self.kind(word).map_or(word, |(kind, _)| kind);
        let known =
            self.conditions.get_key_value(kind).or_else(|| self.conditions.get_key_value(kind.strip_suffix('s')?));
        // Another group may have a kind of the same name.
        let known = known.filter(|(kind, _)| group.is_none_or(|group| super::fields::is_in_group(kind, group)));
        known.map(|(kind, conditions)| (kind.as_str(), conditions.as_slice()))
    }

    /// Every word for every kind.
    pub fn kinds(&self) -> impl Iterator<Item = &str> {
        let all = self.wide.iter().chain(&self.kinds);
        all.flat_map(|(kind, others)| others.iter().chain([kind])).map(String::as_str)
    }
}

impl Command {
    fn fits(&self, operands: &[&str], any_case: bool) -> bool {
        let mut given = operands.iter();
        for place in &self.words {
            match place {
                Place::Files => return true,
                Place::Names => return given.next().is_some(),
                Place::Kind { slashed } => match given.next() {
                    Some(word) if word.contains('/') => return *slashed,
                    Some(_) => {}
                    None => return false,
                },
                Place::KindAndName => return given.next().is_some_and(|word| word.contains('/')),
                Place::Any => {
                    if given.next().is_none() {
                        return false;
                    }
                }
                Place::Word(word) => {
                    let is_word = |given: &&str| *given == word || any_case && given.eq_ignore_ascii_case(word);
                    if !given.next().is_some_and(is_word) {
                        return false;
                    }
                }
            }
        }
        // A program without operations accepts no more operands than are known.
        !self.fed || given.next().is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_is_read_and_a_program_has_one_entry() {
        let mut names = Vec::new();
        for text in TABLES {
            let tool: Tool = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
            let says = !tool.commands.is_empty() || !tool.errors.is_empty() || !tool.values.is_empty();
            assert!(says, "{:?}", tool.names);
            assert!(
                tool.names.iter().all(|name| super::tool(name).is_some_and(|t| t.names == tool.names)),
                "{:?}",
                tool.names
            );
            names.extend(tool.names);
        }
        let all = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), all);
        for name in &names {
            let first = &tool(name).unwrap().names[0];
            assert!(canonical(name) == first || canonical(name) == name, "{name}");
        }
    }

    #[test]
    fn values_of_options_are_not_operands() {
        let words = ["-n", "shop", "delete", "pod", "web", "--timeout=3s", "--grace-period", "0"];
        assert_eq!(operands("oc", &words).collect::<Vec<_>>(), [&"delete", &"pod", &"web"]);
        assert_eq!(operands("unknown", &words).count(), 5);
    }

    #[test]
    fn the_pattern_of_a_grep_is_found() {
        let of = |line: &str| {
            let words: Vec<&str> = line.split(' ').collect();
            searched(&words).map(|word| (*word).to_owned())
        };
        for (line, pattern) in [
            ("-q web", Some("web")),
            ("-A 3 -qm 1 web file", Some("web")),
            ("-qe web file", Some("web")),
            ("-q -- -e", Some("-e")),
            ("--regexp=web file", None),
            ("-c", None),
        ] {
            assert_eq!(of(line).as_deref(), pattern, "{line}");
        }
    }

    #[test]
    fn the_queries_of_a_command_line_are_found() {
        let asked = |line: &str, fed: bool| {
            let words: Vec<&str> = line.split(' ').collect();
            tool(words[0]).and_then(|tool| tool.command(&words[1..], fed)).map(|command| command.usage.as_str())
        };
        for (line, fed, usage) in [
            ("kubectl create namespace shop", false, Some("create KIND NAME")),
            ("oc -n shop get pod/web", false, Some("get KIND NAMES")),
            ("kubectl get pods -l app=web", false, Some("get KIND")),
            ("kubectl get pods -o name", false, Some("get KIND")),
            ("kubectl apply -f -", true, Some("apply FILES")),
            ("kubectl create configmap a --from-literal=x=1", false, Some("create KIND NAME")),
            ("kubectl", false, None),
            ("podman run -d --name db postgres", false, Some("run IMAGE")),
            ("jq .a", true, Some("FILTER")),
            ("jq -er .a", true, None),
            ("jq .a", false, None),
            ("jq .a file", true, None),
            ("wc -l", true, Some("")),
            ("wc -l file", true, None),
            ("rm -rf a", false, Some("NAMES")),
            ("docker rm -f -v db", false, Some("rm NAMES")),
            ("docker run -v a:b postgres", false, None),
            ("docker rm -fv db", false, Some("rm NAMES")),
            ("docker run -dv a:b --name db postgres", false, Some("run IMAGE")),
            ("psql -tAc select", false, Some("FILES")),
            ("kubectl get -ojson pod", false, Some("get KIND")),
        ] {
            assert_eq!(asked(line, fed), usage, "{line}");
        }
    }

    #[test]
    fn commands_that_pass_on_a_status_can_fail_with_any_status() {
        for run in ["kubectl get pod a", "kubectl -n shop get pod a", "oc delete project a", "test -f a"] {
            assert!(fails_with_one(run), "{run}");
        }
        for run in [
            "kubectl exec a -- curl b",
            "kubectl -n get exec a -- b",
            "oc exec a -- get",
            "timeout 5 kubectl get pod a",
        ] {
            assert!(!fails_with_one(run), "{run}");
        }
        for run in ["curl a", "docker exec a ls", "ssh a kubectl get b", "bash -c 'test a'", "command -v a", "own"] {
            assert!(!fails_with_one(run), "{run}");
        }
    }

    #[test]
    fn read_only_commands_change_nothing() {
        for run in
            ["kubectl -n shop get pods", "oc auth can-i get pods", "podman ps", "git -C x status", "test -e a", "awk 1"]
        {
            assert!(looks(run), "{run}");
        }
        for run in [
            "kubectl delete pod get",
            "kubectl auth reconcile",
            "helm install list",
            "./test",
            "sed -i x f",
            "rm a",
            "",
        ] {
            assert!(!looks(run), "{run}");
        }
        for run in [
            "kubectl get pods",
            "kubectl exec -n a pod/b -c c -- cat /etc/hosts",
            "oc exec a -- timeout 3 wget -qO- http://b",
            "timeout 5 curl -s http://a",
            "psql -d shop -Atc SELECT has_table_privilege('a', 'b', 'INSERT, UPDATE')",
            "mysql -N -e \"select count(*) from users;\"",
            "sqlite3 shop.db \"SELECT 1\"",
        ] {
            assert!(only_looks(run), "{run}");
        }
        for run in [
            "kubectl exec a -- rm b",
            "kubectl exec a -- sh -c ls",
            "kubectl exec a cat b",
            "kubectl exec a -- wget http://b",
            "kubectl exec a -- cat b > c",
            "curl -X POST http://a",
            "curl -so f http://a",
            "timeout -k 1 2 ls",
            "curl -s http://a\nrm b",
            "hostname b",
            "psql -c \"SELECT 1; DROP TABLE users\"",
            "psql -c \"SELECT nextval('ids')\"",
            "psql -c \"SELECT count(*) FROM archive('old')\"",
            "psql -c \"SELECT * INTO copy FROM users\"",
            "psql -c \"SELECT $(rm b)\"",
            "psql -c \"INSERT INTO a SELECT 1\"",
            "psql -f SELECT",
        ] {
            assert!(!only_looks(run), "{run}");
        }
    }
}
