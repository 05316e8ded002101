//! The steps of a task in a rehearsal.

use rustc_hash::FxHashMap;
use serde_json::Value as Json;

use super::{
    Done, STEPS, Shell, Stop, Text, World,
    disk::{Node, absolute},
    is_shell, text_of,
};
use crate::{
    bash::tools::Tools,
    effects::{environment, of_template, script::ScriptView, shell::Variables},
    hir::{Arg, ArgKind, Def, OperationKind, Step, Task, Template},
    signature::Control,
    source::Files,
};

/// Runs setup in a simulated world, and then verify. Returns whether each step of verify certainly succeeds.
pub fn passes_at_once<'s>(
    task: &Task<Def>,
    script_of: &dyn Fn(&Step<Def>) -> Option<&'s ScriptView<'s>>,
    tools: &Tools,
    files: &dyn Files,
) -> bool {
    let leaf = |step: &Step<Def>| step.op.signature.control == Control::Leaf;
    if task.verify.steps.is_empty() || !task.setup.steps.iter().chain(&task.verify.steps).all(leaf) {
        return false;
    }
    // Most tasks check something that is not known here.
    for step in &task.verify.steps {
        let told = match &step.op.kind {
            OperationKind::Builtin("command" | "script") => script_of(step).is_some_and(|script| {
                is_shell(script.reader) && script.is_judged() && script.content.program.sound && asks_known(script)
            }),
            OperationKind::Builtin("file") => true,
            OperationKind::Extension { operation, .. } => {
                matches!(operation.as_str(), "resource-exists" | "resource-absent" | "field-equals")
            }
            _ => false,
        };
        if !told {
            return false;
        }
    }
    let mut stage =
        Stage { world: World::new(tools, files, &task.dir), task, environment: environment(task), steps: STEPS };
    task.setup.steps.iter().all(|step| stage.set_up(step, script_of(step)).is_some())
        && task.verify.steps.iter().all(|step| stage.check(step, script_of(step)) == Some(true))
}

/// Whether a script only runs programs that a rehearsal supports.
fn asks_known(script: &ScriptView<'_>) -> bool {
    let is_known = |name: &str| {
        matches!(
            name,
            "[" | "test"
                | "echo"
                | "printf"
                | "exit"
                | "return"
                | "true"
                | "false"
                | ":"
                | "set"
                | "cd"
                | "break"
                | "continue"
                | "cat"
                | "grep"
                | "egrep"
                | "fgrep"
                | "wc"
                | "head"
                | "tail"
                | "sort"
                | "uniq"
                | "tr"
                | "cut"
                | "sed"
                | "awk"
                | "jq"
                | "xargs"
                | "base64"
                | "seq"
                | "sleep"
                | "ls"
                | "find"
                | "basename"
                | "dirname"
                | "kubectl"
                | "oc"
                | "git"
                | "docker"
                | "podman"
                | "sqlite3"
                | "psql"
                | "timeout"
                | "command"
                | "export"
                | "local"
                | "pwd"
                | "mktemp"
                | "rm"
                | "tee"
                | "date"
                | "read"
        )
    };
    let functions = || {
        let mut names = Vec::new();
        script.content.program.walk(&mut |s| names.extend(s.function()));
        names
    };
    let mut own: Option<Vec<&str>> = None;
    script
        .content
        .program
        .commands()
        .iter()
        .all(|command| is_known(command.name()) || own.get_or_insert_with(functions).contains(&command.name()))
}

struct Stage<'a, 't> {
    world: World<'a>,
    task: &'t Task<Def>,
    environment: Variables,
    /// The number of statements that may still be run.
    steps: usize,
}

impl Stage<'_, '_> {
    fn text(&self, arg: &Arg<Def>) -> Text {
        match &arg.kind {
            ArgKind::Text(template) => self.filled(template),
            _ => Some(arg.as_value()?.to_string()),
        }
    }

    fn filled(&self, template: &Template<Def>) -> Text {
        text_of(&of_template(template, &self.environment))
    }

    fn json(&self, arg: &Arg<Def>) -> Option<Json> {
        Some(match &arg.kind {
            ArgKind::Text(template) => Json::String(self.filled(template)?),
            ArgKind::List(items) => Json::Array(items.iter().map(|item| self.json(item)).collect::<Option<_>>()?),
            ArgKind::Record(fields) => {
                let field = |(name, arg): &(crate::hir::Name, Arg<Def>)| Some((name.value.clone(), self.json(arg)?));
                Json::Object(fields.iter().map(field).collect::<Option<_>>()?)
            }
            _ => arg.as_value()?,
        })
    }

    /// Runs a step of setup. Returns `None` if its effects are not known.
    fn set_up(&mut self, step: &Step<Def>, script: Option<&ScriptView<'_>>) -> Option<()> {
        match &step.op.kind {
            OperationKind::Builtin("command" | "script") => {
                match self.run(script.filter(|script| is_shell(script.reader))?, true) {
                    (Err(Stop::Lost) | Ok(Some(false)), _) => None,
                    _ => Some(()),
                }
            }
            OperationKind::Builtin("file") => {
                let path = self.text(step.arg("path")?).and_then(|path| self.path(&path))?;
                match (step.arg("content"), step.arg("absent").and_then(Arg::as_value)) {
                    (Some(content), _) => {
                        let text = self.text(content);
                        self.world.disk.write(&path, text);
                    }
                    (None, Some(Json::Bool(true))) => self.world.disk.remove(&path),
                    _ => {}
                }
                Some(())
            }
            // The state of a server is not simulated.
            OperationKind::Builtin("http" | "sleep") => Some(()),
            OperationKind::Extension { operation, .. } => {
                if self.on_cluster(operation, step).is_none() {
                    const LOOKS: [&str; 9] = [
                        "wait",
                        "condition",
                        "condition-stable",
                        "rollout",
                        "get",
                        "resource-exists",
                        "can-i",
                        "logs",
                        "resource-absent",
                    ];
                    let known = self.world.tools.tool("kubectl").is_some() && is_kubernetes(step);
                    if !known {
                        return None;
                    }
                    if !LOOKS.contains(&operation.as_str()) {
                        self.world.cluster.forget();
                    }
                }
                Some(())
            }
            _ => None,
        }
    }

    fn path(&self, path: &str) -> Text {
        absolute(Some(&self.task.dir.to_string_lossy()), path)
    }

    /// Applies an operation to the objects of a cluster.
    fn on_cluster(&mut self, operation: &str, step: &Step<Def>) -> Option<()> {
        if !is_kubernetes(step) {
            return None;
        }
        match operation {
            "create" | "apply" => {
                let manifest = ["inline", "manifest", "object"].iter().find_map(|key| step.arg(key));
                let space = step.arg("namespace").and_then(|space| self.text(space)).unwrap_or_default();
                match manifest {
                    Some(manifest) => match self.json(manifest)? {
                        Json::String(text) => {
                            let done = self.world.cluster.run(
                                &["apply", "-n", &space, "-f", "-"],
                                Some(&text),
                                &|_| None,
                                true,
                            );
                            done.status.map(|_| ())
                        }
                        Json::Array(all) => all.iter().try_for_each(|one| self.world.cluster.apply(one, &space, false)),
                        manifest => self.world.cluster.apply(&manifest, &space, operation == "create"),
                    },
                    None => {
                        step.arg("kind")?;
                        let fields = step.args.iter().map(|(name, arg)| Some((name.value.clone(), self.json(arg)?)));
                        let manifest = Json::Object(fields.collect::<Option<_>>()?);
                        self.world.cluster.apply(&manifest, &space, operation == "create")
                    }
                }
            }
            "delete" => {
                let (kind, space, name) = self.object(step)?;
                self.world.cluster.delete(&kind, &space, &name);
                Some(())
            }
            "create-namespace" => {
                let name = self.text(step.arg("name")?)?;
                let done = self.world.cluster.run(&["create", "namespace", &name], None, &|_| None, true);
                done.status.map(|_| ())
            }
            "delete-namespace" => {
                let name = self.text(step.arg("name")?)?;
                self.world.cluster.delete("namespace", "", &name);
                Some(())
            }
            _ => None,
        }
    }

    /// Kind, namespace and name of the object that a step refers to.
    fn object(&self, step: &Step<Def>) -> Option<(String, String, String)> {
        let text = |key: &str| step.arg(key).and_then(|arg| self.text(arg));
        let inner =
            |key: &str| step.arg("metadata").and_then(|metadata| metadata.get(key)).and_then(|arg| self.text(arg));
        let space = text("namespace").or_else(|| inner("namespace"));
        if step.arg("namespace").is_some() && space.is_none() {
            return None;
        }
        let (kind, name) = match text("resource") {
            Some(resource) => {
                let (kind, name) = resource.split_once('/')?;
                (kind.to_owned(), name.to_owned())
            }
            None => (text("kind")?, text("name").or_else(|| inner("name"))?),
        };
        Some((kind, space.unwrap_or_default(), name))
    }

    /// Whether a step of verify succeeds. Returns `None` if that is not known.
    fn check(&mut self, step: &Step<Def>, script: Option<&ScriptView<'_>>) -> Option<bool> {
        match &step.op.kind {
            OperationKind::Builtin("command" | "script") => {
                let (flow, out) = self.run(script?, false);
                let status = match flow {
                    Ok(status) => status?,
                    Err(_) => return None,
                };
                let Some((_, expect)) = &step.expect else { return Some(status) };
                let Json::Object(expect) = self.json(expect)? else { return None };
                let mut holds = true;
                for (key, wanted) in &expect {
                    holds &= match key.as_str() {
                        "exitCode" => match wanted.as_i64()? {
                            0 => status,
                            _ => return None,
                        },
                        "stdout" => meets(out.as_deref().filter(|out| !out.contains(super::OPEN))?, wanted)?,
                        _ => return None,
                    };
                }
                Some(holds && (status || expect.contains_key("exitCode")))
            }
            OperationKind::Builtin("file") => {
                let path = self.text(step.arg("path")?).and_then(|path| self.path(&path))?;
                let Json::Object(expect) = self.json(&step.expect.as_ref()?.1)? else { return None };
                let node = self.world.disk.at(&path)?;
                let mut rest = expect.clone();
                let wanted = rest.remove("exists").and_then(|exists| exists.as_bool()).unwrap_or(true);
                if node.is_some() != wanted || rest.is_empty() {
                    return Some(node.is_some() == wanted);
                }
                match node {
                    Some(Node::File(text)) => meets(&text?, &Json::Object(rest)),
                    _ => None,
                }
            }
            OperationKind::Extension { operation, .. } if is_kubernetes(step) => {
                let (kind, space, name) = self.object(step)?;
                let mut get = |more: &str| -> Done {
                    self.world.cluster.run(&["get", &kind, &name, "-n", &space, more], None, &|_| None, true)
                };
                match operation.as_str() {
                    "resource-exists" if step.expect.is_none() => get("--ignore-not-found=false").status,
                    "resource-absent" => get("--ignore-not-found=false").status.map(|there| !there),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    fn run(&mut self, view: &ScriptView<'_>, hopes: bool) -> (super::Flow, Text) {
        let mut variables: FxHashMap<String, Text> = FxHashMap::default();
        for (name, value) in &self.environment {
            variables.insert(name.clone(), text_of(value));
        }
        if let Some(ArgKind::Record(fields)) = view.step.arg("env").map(|arg| &arg.kind) {
            for (name, arg) in fields {
                variables.insert(name.value.clone(), self.text(arg));
            }
        }
        if let Some(ArgKind::List(args)) = view.step.arg("args").map(|arg| &arg.kind) {
            for (nth, arg) in args.iter().enumerate() {
                variables.insert((nth + 1).to_string(), self.text(arg));
            }
            variables.insert("#".to_owned(), Some(args.len().to_string()));
        }
        let hole =
            |hole: &crate::hir::Hole<Def>| -> Text { text_of(&crate::effects::of_hole(hole, &self.environment)) };
        let holes = match &view.value.kind {
            ArgKind::Text(template) if !view.content.holes.is_empty() => template.holes().map(hole).collect(),
            _ => Vec::new(),
        };
        let mut shell = Shell {
            world: &mut self.world,
            content: &view.content,
            holes,
            variables,
            functions: FxHashMap::default(),
            folder: view.dir.as_ref().map(|dir| dir.to_string_lossy().into_owned()),
            out: Some(String::new()),
            last: Some(true),
            errexit: false,
            pipefail: false,
            hopes,
            steps: self.steps,
            depth: 0,
        };
        let flow = shell.script();
        let (out, steps) = (shell.out, shell.steps);
        self.steps = steps;
        (flow, out)
    }
}

fn is_kubernetes(step: &Step<Def>) -> bool {
    matches!(&step.op.kind, OperationKind::Extension { package, .. } if package.contains("kubernetes"))
}

/// Whether a text meets the expectation of a step.
fn meets(text: &str, expect: &Json) -> Option<bool> {
    let trimmed = text.trim_end_matches('\n');
    match expect {
        Json::String(wanted) => Some(trimmed == wanted.trim_end_matches('\n')),
        Json::Object(fields) => {
            let mut holds = true;
            for (key, wanted) in fields {
                holds &= match (key.as_str(), wanted) {
                    ("contains", Json::String(part)) => text.contains(part.as_str()),
                    ("equals", Json::String(wanted)) => trimmed == wanted.trim_end_matches('\n'),
                    ("matches", Json::String(pattern)) => regex::Regex::new(pattern).ok()?.is_match(text),
                    ("empty", Json::Bool(wanted)) => trimmed.is_empty() == *wanted,
                    ("not", Json::Object(_)) => !meets(text, wanted)?,
                    ("lines", Json::Number(count)) => trimmed.lines().count() as u64 == count.as_u64()?,
                    _ => return None,
                };
            }
            Some(holds)
        }
        _ => None,
    }
}
