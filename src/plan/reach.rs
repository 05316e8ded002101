//! What a plan can touch, as far as its text shows it: programs, hosts, paths, namespaces, tools, variables, the
//! judge.
//!
//! Shell code is parsed, not run: a program in a variable is not found, and one in a branch that is never taken is.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    path::Path,
    sync::LazyLock,
};

use regex::Regex;

use super::{Action, ActionKind, AgentKind, EvalPlan, Plan, StepAction};
use crate::{
    bash::{self, Word, tools},
    hir::{Arg, ArgKind, Def, Expand, ExpandPart, OperationKind, Part, Target, Template, Transport},
    secrets::{MASK, is_secret_name},
    source::{Files, resolve},
};

/// Everything that a plan can touch, by kind, sorted.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Reach {
    /// Programs that run.
    pub commands: BTreeSet<String>,
    pub hosts: BTreeSet<String>,
    pub paths: BTreeSet<String>,
    /// Kubernetes namespaces.
    pub namespaces: BTreeSet<String>,
    /// Tools and operations that steps or a scripted agent call, with their server or extension.
    pub tools: BTreeSet<String>,
    /// What the agent may call.
    pub permitted: BTreeSet<String>,
    pub servers: BTreeSet<String>,
    /// Environment variables that are read.
    pub env: BTreeSet<String>,
    /// What scripts and steps create, delete, and leave behind.
    pub creates: BTreeSet<String>,
    pub deletes: BTreeSet<String>,
    pub leaves: BTreeSet<String>,
    /// How many steps ask the judge.
    pub judged: usize,
}

impl Reach {
    /// Returns the parts with their names.
    pub fn parts(&self) -> [(&'static str, &BTreeSet<String>); 11] {
        [
            ("commands", &self.commands),
            ("hosts", &self.hosts),
            ("paths", &self.paths),
            ("namespaces", &self.namespaces),
            ("servers", &self.servers),
            ("tools", &self.tools),
            ("permitted", &self.permitted),
            ("env", &self.env),
            ("creates", &self.creates),
            ("deletes", &self.deletes),
            ("leaves", &self.leaves),
        ]
    }

    fn parts_mut(&mut self) -> [&mut BTreeSet<String>; 11] {
        [
            &mut self.commands,
            &mut self.hosts,
            &mut self.paths,
            &mut self.namespaces,
            &mut self.servers,
            &mut self.tools,
            &mut self.permitted,
            &mut self.env,
            &mut self.creates,
            &mut self.deletes,
            &mut self.leaves,
        ]
    }

    /// Adds what another part of the plan reaches.
    pub fn add(&mut self, other: Self) {
        let judged = self.judged + other.judged;
        let mut other = other;
        for (mine, theirs) in self.parts_mut().into_iter().zip(other.parts_mut()) {
            mine.append(theirs);
        }
        self.judged = judged;
    }
}

/// Returns what one task can touch. `files` provides the scripts that it refers to.
pub fn of_task(plan: &Plan, files: Option<&dyn Files>) -> Reach {
    let mut search = Search { plan, files, reach: Reach::default(), seen: HashSet::new() };
    search.reach.env.extend(plan.process_env.keys().cloned());
    search.reach.commands.extend(plan.commands.iter().map(|c| c.value.clone()));
    search.reach.servers.extend(plan.step_servers.iter().cloned());
    search.reach.creates.extend(plan.changes.creates.iter().cloned());
    search.reach.deletes.extend(plan.changes.deletes.iter().cloned());
    search.reach.leaves.extend(plan.changes.leaves.iter().cloned());
    plan.walk(&mut |_, _, action| search.action(action));
    search.reach
}

/// Returns the extensions that the tasks of an eval use: their references, by the name that tasks use.
pub fn extensions(eval: &EvalPlan) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for plan in &eval.tasks {
        plan.walk(&mut |_, _, action| {
            let ActionKind::Step(step) = &action.kind else { return };
            let OperationKind::Extension { package, .. } = &step.op.kind else { return };
            found.insert(package.clone(), eval.extensions.reference(package).to_owned());
        });
    }
    found
}

/// Returns what the servers of an eval touch, and what its agent may call.
pub fn of_eval(eval: &EvalPlan) -> Reach {
    let mut reach = Reach::default();
    for server in &eval.servers {
        let name = &server.name.value;
        reach.servers.insert(name.clone());
        if server.enable_all_tools.is_some_and(|e| e.value) {
            reach.permitted.insert(format!("{name}.*"));
        }
        reach.permitted.extend(server.always_allow.iter().map(|tool| format!("{name}.{}", tool.value)));
        let mut variables = |value: &Expand| {
            for part in &value.parts {
                if let ExpandPart::Var { name, .. } = part {
                    reach.env.insert(name.clone());
                }
            }
        };
        match &server.transport {
            Transport::Stdio { command, args, env } => {
                args.iter().chain([command]).chain(env.iter().map(|(_, v)| v)).for_each(&mut variables);
                reach.commands.insert(command.display());
            }
            Transport::Http { url, headers } => {
                headers.iter().map(|(_, v)| v).chain([url]).for_each(&mut variables);
                reach.hosts.extend(host(&url.display()));
            }
        }
    }
    reach
}

struct Search<'a> {
    plan: &'a Plan,
    files: Option<&'a dyn Files>,
    reach: Reach,
    /// Scripts that were already inspected.
    seen: HashSet<String>,
}

impl Search<'_> {
    fn action(&mut self, action: &Action) {
        match &action.kind {
            ActionKind::Step(step) => self.step(step),
            ActionKind::Agent(agent) => {
                if let AgentKind::Script { calls, .. } = &agent.kind {
                    let calls = calls.iter().map(|c| format!("{}.{}", c.server.value, c.name.display()));
                    self.reach.tools.extend(calls);
                }
            }
            ActionKind::Assertion(_) => {}
        }
    }

    fn step(&mut self, step: &StepAction) {
        self.reach.judged += usize::from(step.op.signature.judges);
        let text = |key: &str| match step.args.iter().find(|(name, _)| name.value == key).map(|(_, arg)| &arg.kind) {
            Some(ArgKind::Text(template)) => Some(resolved(self.plan, template, 0)),
            _ => None,
        };
        let (file, path, workdir, url) = (text("file"), text("path"), text("workdir"), text("url"));
        let shells: Vec<_> = ["run", "inline"].into_iter().filter_map(text).collect();
        let (namespace, name) = (text("namespace"), text("name"));
        match &step.op.kind {
            OperationKind::Builtin("command" | "script") => {
                shells.iter().for_each(|shell| self.shell(shell));
                if let Some(file) = file {
                    self.script(&file);
                }
                self.reach.paths.extend(workdir);
            }
            OperationKind::Builtin("file") => self.reach.paths.extend(path),
            OperationKind::Builtin("http") => {
                self.reach.hosts.extend(url.as_deref().and_then(host));
            }
            OperationKind::Builtin(_) => {}
            OperationKind::Tool { server, tool } => {
                self.reach.tools.insert(format!("{server}.{tool}"));
                let args = step.args.iter().find(|(name, _)| name.value == "args").map(|(_, arg)| arg);
                if let Some(ArgKind::Text(template)) = args.and_then(|a: &Arg<Def>| a.get("namespace")).map(|a| &a.kind)
                {
                    self.reach.namespaces.insert(resolved(self.plan, template, 0));
                }
            }
            OperationKind::Extension { package, operation } => {
                self.reach.tools.insert(format!("{package}.{operation}"));
                self.reach.namespaces.extend(namespace);
                if operation.ends_with("-namespace") {
                    self.reach.namespaces.extend(name);
                }
            }
        }
    }

    /// Inspects a script in a file of its own.
    fn script(&mut self, file: &str) {
        self.reach.commands.insert(file.to_owned());
        let path = resolve(&self.plan.task.dir, file);
        let Some(text) = self.files.and_then(|files| files.read(Path::new(&path)).ok()) else { return };
        let text = String::from_utf8_lossy(&text);
        let first = text.lines().next().unwrap_or_default();
        let shell = !first.starts_with("#!") || tools::SHELLS.iter().any(|s| first.ends_with(s));
        if shell {
            self.shell(&text);
        } else {
            self.reach.hosts.extend(hosts(&text));
        }
    }

    fn shell(&mut self, text: &str) {
        self.reach.hosts.extend(hosts(text));
        // Only the parser determines where redirections go.
        if let Some(program) = (!text.contains(['<', '>'])).then(|| bash::plain(text)).flatten() {
            let mut own = HashSet::new();
            program.walk(&mut |s| own.extend(s.function()));
            let commands = program.commands().into_iter().filter(|c| !own.contains(c.words()[0].text.as_str()));
            commands.for_each(|command| self.command(&texts(command.words())));
            return;
        }
        if !self.seen.insert(text.to_owned()) {
            return;
        }
        let Some(script) = bash::parse(text) else { return };
        let own: HashSet<String> = script
            .of_kind("function_definition")
            .into_iter()
            .filter_map(|f| f.child_by_field_name("name"))
            .map(|name| script.text(name).to_owned())
            .collect();
        for node in script.of_kind("command") {
            let found = script.words(node);
            if found.first().is_some_and(|name| !own.contains(&name.text)) {
                self.command(&texts(&found));
            }
        }
        for redirect in script.of_kind("file_redirect") {
            if let Some(to) = redirect.child_by_field_name("destination") {
                let word = script.text(to).trim_matches(['"', '\'']);
                if is_literal(word) && !word.starts_with("/dev/") && word.parse::<u32>().is_err() {
                    self.reach.paths.insert(word.to_owned());
                }
            }
        }
    }

    fn command(&mut self, words: &[&str]) {
        let mut command = words;
        while let Some((&name, rest)) = command.split_first() {
            if !self.reach.commands.contains(name) && is_literal(name) && !bash::is_own(name) && !name.starts_with('-')
            {
                self.reach.commands.insert(name.to_owned());
            }
            if name.rsplit('/').next().is_some_and(|name| tools::takes(name, "--namespace")) {
                self.reach.namespaces.extend(namespaces(rest).map(str::to_owned));
            }
            if !matches!(name, "command" | "exec" | "env" | "time" | "nohup" | "sudo" | "xargs") {
                break;
            }
            let inner = rest.iter().position(|w| !w.starts_with('-') && !w.contains('='));
            command = inner.map_or(&[], |at| &rest[at..]);
        }
        for &word in words.iter().skip(1) {
            if is_literal(word) && ["/", "~/", "../"].iter().any(|p| word.starts_with(p)) && !word.starts_with("/dev/")
            {
                self.reach.paths.insert(word.to_owned());
            }
        }
    }
}

/// Returns the namespaces that kubectl and similar programs use.
fn namespaces<'a>(words: &'a [&'a str]) -> impl Iterator<Item = &'a str> {
    let made = match words {
        ["create" | "delete" | "get", "ns" | "namespace" | "namespaces", name, ..] => Some(*name),
        _ => None,
    };
    let flags = words.iter().enumerate().filter_map(|(i, word)| match *word {
        "-n" | "--namespace" => words.get(i + 1).copied(),
        _ => word.strip_prefix("--namespace="),
    });
    made.into_iter().chain(flags).filter(|name| is_literal(name) && !name.starts_with('-'))
}

fn texts(words: &[Word]) -> Vec<&str> {
    words.iter().map(|w| w.text.as_str()).collect()
}

/// Whether a word is neither empty nor expanded by the shell.
fn is_literal(word: &str) -> bool {
    !word.is_empty() && !word.contains(['$', '`', '(', ')', '"', '\'', '\n', ' ', '*', '<', '>'])
}

static URL: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r#"(?:https?|wss?)://[^\s/?#"'`)>|;&,]+"#).ok());

fn hosts(text: &str) -> Vec<String> {
    if !text.contains("://") {
        return Vec::new();
    }
    let urls = URL.iter().flat_map(|url| url.find_iter(text));
    urls.filter_map(|url| host(url.as_str())).collect()
}

/// Returns the host of a URL with its port, or whatever is in its place.
fn host(url: &str) -> Option<String> {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next()?;
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    (!host.is_empty()).then(|| host.to_owned())
}

/// Renders a template with the values of the task's variables; other holes are rendered as their path.
fn resolved(plan: &Plan, template: &Template<Def>, depth: usize) -> String {
    let part = |part: &Part<Def>| match part {
        Part::Text(text) => text.clone(),
        Part::Hole(hole) => match &hole.reference.target {
            Target::TaskEnv(name) if is_secret_name(name) => MASK.to_owned(),
            Target::TaskEnv(name) if depth < 8 => match plan.env.iter().find(|(n, _)| n == name) {
                Some((_, value)) => resolved(plan, value, depth + 1),
                None => hole.text.clone(),
            },
            _ => match hole.text.split_once('|') {
                Some((path, _)) => format!("{}}}", path.trim_end()),
                None => hole.text.clone(),
            },
        },
    };
    template.parts.iter().map(part).collect()
}
