//! The values of holes while a task runs, and how templates and arguments become values.

use std::{
    borrow::Cow,
    io,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use indexmap::IndexMap;
use serde_json::{Map, Value};

use super::emit;
use crate::{
    event::Outcome,
    hir::{Arg, ArgKind, Def, Hole, KubeWorld, Part, Target, Template},
    host::Host,
    journal::Values,
    plan::{Plan, StepAction},
    secrets::{Secrets, is_secret_name},
    template::{self, SegmentKind},
};

/// Why a template has no value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fault {
    /// It uses an output of a step that did not pass: the step that uses it is skipped.
    NotPassed { step: String, outcome: Outcome },
    /// Anything else: the step that uses it is broken.
    Broken(String),
}

impl Fault {
    /// For people: why the step is skipped or broken.
    pub fn message(&self) -> String {
        match self {
            Self::NotPassed { step, outcome } => format!("uses an output of `{step}`, which {}", how(*outcome)),
            Self::Broken(message) => message.clone(),
        }
    }
}

pub(super) fn how(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Passed => "passed",
        Outcome::Failed => "failed",
        Outcome::Broken => "was broken",
        Outcome::Skipped => "was skipped",
        Outcome::Cancelled => "was cancelled",
    }
}

/// The result of a step that holes may refer to.
#[derive(Clone, Debug)]
pub enum Entry {
    Passed(Arc<Map<String, Value>>),
    NotPassed(Outcome),
}

/// What the holes of one place refer to. A clone is a separate frame: what a loop round or a branch binds stays in its clone until
/// the interpreter adopts it.
#[derive(Clone)]
pub struct Scope<'a> {
    task: &'a TaskValues<'a>,
    /// By step id; by step type in the steps dialect.
    outputs: IndexMap<String, Entry>,
    vars: IndexMap<String, Value>,
    agent_output: Option<Arc<str>>,
    prompt: Option<Arc<str>>,
}

/// Values that stay the same throughout one run of a task.
pub struct TaskValues<'a> {
    host: &'a dyn Host,
    name: &'a str,
    /// The part of `spec.env` that is evaluated so far.
    env: Mutex<IndexMap<String, String>>,
    id: OnceLock<String>,
    port: Mutex<Option<u16>>,
    run_id: String,
    /// The values restored from a journal; they take precedence over current ones.
    kept: Values,
}

impl<'a> TaskValues<'a> {
    /// The values of a task with this name, before its setup.
    pub fn new(host: &'a dyn Host, name: &'a str) -> Self {
        let (env, port, kept) = (Mutex::default(), Mutex::default(), Values::default());
        // No hole shows it, so it need not be the same when calls are replayed: another run may replay them at the same time.
        let run_id = format!("{:016x}", crate::random::number());
        Self { host, name, env, id: OnceLock::new(), port, run_id, kept }
    }

    /// Restores the values from a journal.
    pub fn restored(host: &'a dyn Host, name: &'a str, kept: Values) -> Self {
        let mut values = Self { port: Mutex::new(kept.port), ..Self::new(host, name) };
        if !kept.run_id.is_empty() {
            values.run_id.clone_from(&kept.run_id);
        }
        if !kept.id.is_empty() {
            let _ = values.id.set(kept.id.clone());
        }
        Self { kept, ..values }
    }

    /// The random values of this run of the task.
    pub fn drawn(&self) -> (String, Option<u16>) {
        (self.id.get_or_init(|| self.host.random_id()).clone(), self.port().ok())
    }

    /// The id of this run of the task, which is unique. A later recovery uses the same id.
    pub fn run_id(&self) -> &str {
        &self.run_id
    }

    /// The values for the journal, without secrets, which are looked up again on recovery.
    pub fn values(&self, plan: &Plan, secrets: &Secrets) -> Values {
        let open = |name: &str, value: &str| {
            value.is_empty() || !is_secret_name(name) && matches!(secrets.mask(value), Cow::Borrowed(_))
        };
        let env = self.env.lock().unwrap_or_else(PoisonError::into_inner);
        let (id, port) = self.drawn();
        let mut withheld = Vec::new();
        let mut of_process = |names: &mut dyn Iterator<Item = &String>| -> IndexMap<String, String> {
            let set = names.filter_map(|name| Some((name.clone(), self.host.env(name)?)));
            let (kept, left): (Vec<_>, Vec<_>) = set.partition(|(name, value)| open(name, value));
            withheld.extend(left.into_iter().map(|(name, _)| name));
            kept.into_iter().collect()
        };
        let given = self.host.given().iter().map(|(name, _)| name);
        let process = of_process(&mut plan.process_env.keys().chain(given));
        let is_given = |name: &&String| self.host.given().iter().any(|(given, _)| given == *name);
        let programs = of_process(&mut plan.programs_env.iter().filter(|name| !is_given(name)));
        Values {
            id,
            port,
            run_id: self.run_id.clone(),
            env: env.iter().filter(|(name, v)| open(name, v)).map(|(n, v)| (n.clone(), v.clone())).collect(),
            process,
            programs,
            withheld,
        }
    }

    /// Returns the environment of the task's processes: the inherited variables, as far as a journal has kept them, and `spec.env`.
    /// `elsewhere`: whether this is a different machine from the one the task started on, where programs have their own
    /// configuration.
    ///
    /// # Errors
    /// A template has no value, or a variable that was set when the task started was not kept and is not set now.
    pub fn environment(&self, plan: &Plan, elsewhere: bool) -> Result<Vec<(String, String)>, String> {
        let counts = |name: &String| !(elsewhere && plan.programs_env.contains(name));
        let missing = self.kept.withheld.iter().filter(|name| counts(name)).find(|name| self.host.env(name).is_none());
        if let Some(name) = missing {
            return Err(format!(
                "the environment variable `{name}`, which the task reads, was set when it started, but is not set now"
            ));
        }
        let is_given = |name: &String| self.host.given().iter().any(|(given, _)| given == name);
        let kept = self.kept.process.iter().chain(&self.kept.programs);
        let inherited = kept.filter(|(name, _)| counts(name) && !is_given(name));
        let inherited: Vec<_> = inherited.map(|(name, value)| (name.clone(), value.clone())).collect();
        Ok([inherited, self.set_env(&plan.env)?].concat())
    }

    /// Evaluates `spec.env`, whose entries are in dependency order.
    fn set_env(&self, entries: &[(String, Template<Def>)]) -> Result<Vec<(String, String)>, String> {
        let scope = Scope::new(self);
        for (name, value) in entries {
            let cluster = self.host.given().iter().find(|(given, _)| given == name && name == KubeWorld::KUBECONFIG);
            let value = match self.kept.env.get(name).or(cluster.map(|(_, value)| value)) {
                Some(known) => known.clone(),
                None => scope.text(value).map_err(|f| format!("`spec.env.{name}`: {}", f.message()))?,
            };
            self.env.lock().unwrap_or_else(PoisonError::into_inner).insert(name.clone(), value);
        }
        let env = self.env.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(env.iter().map(|(name, value)| (name.clone(), value.clone())).collect())
    }

    fn port(&self) -> io::Result<u16> {
        let mut port = self.port.lock().unwrap_or_else(PoisonError::into_inner);
        match *port {
            Some(port) => Ok(port),
            None => Ok(*port.insert(self.host.free_port()?)),
        }
    }
}

impl<'a> Scope<'a> {
    /// The scope of a task in which no step has run.
    pub fn new(task: &'a TaskValues<'a>) -> Self {
        Self { task, outputs: IndexMap::new(), vars: IndexMap::new(), agent_output: None, prompt: None }
    }

    /// Sets what `agent` holes see; an output of `None` is a missing value.
    pub fn set_agent(&mut self, prompt: &str, output: Option<&str>) {
        self.prompt = Some(prompt.into());
        self.agent_output = output.map(Into::into);
    }

    /// The variables of the loops around the step.
    pub fn vars(&self) -> &IndexMap<String, Value> {
        &self.vars
    }

    /// Sets the variable of a loop.
    pub fn set_var(&mut self, name: &str, value: Value) {
        self.vars.insert(name.to_owned(), value);
    }

    /// Makes the outputs of a step visible to later steps.
    pub fn set_passed(&mut self, id: &str, outputs: Map<String, Value>) {
        self.outputs.insert(id.to_owned(), Entry::Passed(Arc::new(outputs)));
    }

    /// Whether the step has a result.
    pub fn knows(&self, id: &str) -> bool {
        self.outputs.contains_key(id)
    }

    /// Sets a result other than passed. If a step with this id passed before, its outputs stay.
    pub fn set_not_passed(&mut self, id: &str, outcome: Outcome) {
        if !matches!(self.outputs.get(id), Some(Entry::Passed(_))) {
            self.outputs.insert(id.to_owned(), Entry::NotPassed(outcome));
        }
    }

    /// Adopts the outputs that a nested sequence has bound, without its loop variables.
    pub fn adopt(&mut self, inner: Scope<'a>) {
        self.outputs = inner.outputs;
    }

    /// Adopts the results of steps that have none in this scope.
    pub fn adopt_new(&mut self, other: &Scope<'a>) {
        for (id, entry) in &other.outputs {
            if !self.outputs.contains_key(id) {
                self.outputs.insert(id.clone(), entry.clone());
            }
        }
    }

    /// Forgets all outputs of steps (steps dialect: verification does not see those of the setup).
    pub fn forget_outputs(&mut self) {
        self.outputs.clear();
    }

    /// Returns `{ID: {NAME: value}}` of the steps that passed here and not in `other`.
    pub fn outputs_beyond(&self, other: &Scope<'_>) -> Map<String, Value> {
        let new = self.outputs.iter().filter(|(id, _)| !matches!(other.outputs.get(*id), Some(Entry::Passed(_))));
        let passed = new.filter_map(|(id, entry)| match entry {
            Entry::Passed(outputs) => Some((id.clone(), Value::Object(Map::clone(outputs)))),
            Entry::NotPassed(_) => None,
        });
        passed.collect()
    }

    /// Returns `{ID: {outputs: {NAME: value}}}` of every step that passed.
    pub fn steps(&self) -> Value {
        let passed = self.outputs.iter().filter_map(|(id, entry)| match entry {
            Entry::Passed(outputs) => Some((id.clone(), serde_json::json!({ "outputs": **outputs }))),
            Entry::NotPassed(_) => None,
        });
        Value::Object(passed.collect())
    }

    /// Returns a fault for the first step that did not pass and whose outputs are used without `default`.
    pub fn missing_step(&self, step: &StepAction) -> Option<Fault> {
        let mut missing = None;
        let mut visit = |template: &Template<Def>| {
            for hole in template.holes().filter(|h| !h.has_default()) {
                if let Target::Output { step, .. } = &hole.reference.target
                    && let Some(Entry::NotPassed(outcome)) = self.outputs.get(step)
                    && missing.is_none()
                {
                    missing = Some(Fault::NotPassed { step: step.clone(), outcome: *outcome });
                }
            }
        };
        step.args.iter().for_each(|(_, arg)| arg.templates(&mut visit));
        step.expect.iter().for_each(|arg| arg.templates(&mut visit));
        step.outputs.iter().flatten().for_each(|(_, arg)| arg.templates(&mut visit));
        missing
    }

    /// Fills a template, as text.
    pub fn text(&self, template: &Template<Def>) -> Result<String, Fault> {
        self.with_locals(&Map::new()).text(template)
    }

    /// Fills an argument and keeps its types; a step converts to text what it needs as text.
    pub fn fill(&self, arg: &Arg<Def>) -> Result<Value, Fault> {
        self.with_locals(&Map::new()).fill(arg)
    }

    /// The values of the holes of a step and of the variables that its scripts name, for people; those without a value are left out.
    pub fn filled(
        &self,
        step: &StepAction,
        env: &[(String, String)],
        locals: &Map<String, Value>,
    ) -> Map<String, Value> {
        let mut found = Map::new();
        let mut put = |name: String, value: &str| {
            if found.len() < SHOWN && !found.contains_key(&name) {
                found.insert(name, Value::from(emit::head(value, emit::FILLED)));
            }
        };
        let own = step.args.iter().find(|(name, _)| name.value == "env").map(|(_, arg)| &arg.kind);
        let own = match own {
            Some(ArgKind::Record(fields)) => fields.as_slice(),
            _ => &[],
        };
        let of_step =
            own.iter().filter_map(|(name, arg)| Some((name.value.clone(), template::render(&self.fill(arg).ok()?))));
        let of_step: Vec<_> = of_step.collect();
        let mut texts = String::new();
        step.args.iter().for_each(|(_, arg)| arg.templates(&mut |template| texts.push_str(&template.display())));
        for (name, value) in
            of_step.iter().chain(env.iter().filter(|(name, _)| of_step.iter().all(|(own, _)| own != name)))
        {
            if names_variable(&texts, name) {
                put(format!("${name}"), value);
            }
        }
        let filler = self.with_locals(locals);
        let mut holes = |template: &Template<Def>| {
            for hole in template.holes() {
                // The step's own results are shown separately.
                if matches!(hole.reference.target, Target::Local(_) | Target::Calls) {
                    continue;
                }
                if let Ok(value) = filler.hole(hole) {
                    put(hole.text.trim_matches(['{', '}']).to_owned(), &template::render(&value));
                }
            }
        };
        for (name, arg) in &step.args {
            match &arg.kind {
                // These are shown as variables.
                ArgKind::Record(fields) if name.value == "env" => {
                    let unseen = fields.iter().filter(|(name, _)| !names_variable(&texts, &name.value));
                    unseen.for_each(|(_, arg)| arg.templates(&mut holes));
                }
                _ => arg.templates(&mut holes),
            }
        }
        step.expect.iter().for_each(|arg| arg.templates(&mut holes));
        found
    }

    /// The scope of a step's own `expect` and `outputs`, or of the next call of a scripted agent.
    pub fn with_locals<'s>(&'s self, locals: &'s Map<String, Value>) -> Filler<'s> {
        Filler { scope: self, locals }
    }
}

/// A scope together with the local values of one step.
pub struct Filler<'s> {
    scope: &'s Scope<'s>,
    locals: &'s Map<String, Value>,
}

impl Filler<'_> {
    /// Fills a template, as text.
    pub fn text(&self, template: &Template<Def>) -> Result<String, Fault> {
        self.template(template).map(|value| template::render(&value))
    }

    /// Fills an argument; a template that is exactly one hole keeps its value's type.
    pub fn fill(&self, arg: &Arg<Def>) -> Result<Value, Fault> {
        Ok(match &arg.kind {
            ArgKind::Null => Value::Null,
            ArgKind::Bool(b) => Value::Bool(*b),
            ArgKind::Int(i) => Value::from(*i),
            ArgKind::Float(x) => Value::Number(x.clone()),
            ArgKind::Text(template) => self.template(template)?,
            ArgKind::List(items) => Value::Array(items.iter().map(|item| self.fill(item)).collect::<Result<_, _>>()?),
            ArgKind::Record(fields) => {
                let fields = fields.iter().map(|(name, value)| Ok((name.value.clone(), self.fill(value)?)));
                Value::Object(fields.collect::<Result<_, Fault>>()?)
            }
        })
    }

    /// A single hole keeps its value's type; everything else is text.
    pub(super) fn template(&self, template: &Template<Def>) -> Result<Value, Fault> {
        if let Some(hole) = template.single_hole() {
            return self.hole(hole);
        }
        let mut out = String::new();
        for part in &template.parts {
            match part {
                Part::Text(text) => out.push_str(text),
                Part::Hole(hole) => out.push_str(&template::render(&self.hole(hole)?)),
            }
        }
        Ok(Value::String(out))
    }

    pub(super) fn hole(&self, hole: &Hole<Def>) -> Result<Value, Fault> {
        let base = match self.base(&hole.reference.target) {
            Ok(base) => base.and_then(|base| walk(&hole.reference, &base)),
            Err(fault) if hole.has_default() => match fault {
                Fault::NotPassed { .. } => None,
                Fault::Broken(_) => return Err(fault),
            },
            Err(fault) => return Err(fault),
        };
        if base.is_none() && !hole.has_default() {
            return Err(Fault::Broken(format!("`{}` has no value{}", hole.text, self.there(&hole.reference))));
        }
        template::apply_filters(base, &hole.filters).map_err(|e| Fault::Broken(format!("`{}`: {e}", hole.text)))
    }

    /// Describes for people what exists in place of what a hole names.
    fn there(&self, def: &Def) -> String {
        let names = |names: &mut dyn Iterator<Item = &String>| {
            let mut shown: Vec<_> = names.take(NAMES + 1).map(|name| format!("`{name}`")).collect();
            if shown.len() > NAMES {
                shown[NAMES] = "…".to_owned();
            }
            if shown.is_empty() { "; there is none".to_owned() } else { format!("; there are {}", shown.join(", ")) }
        };
        let base = match (&def.target, self.base(&def.target)) {
            (_, Ok(Some(base))) => base,
            (Target::Local(_), _) => return names(&mut self.locals.keys()),
            _ => return String::new(),
        };
        let mut value = &base;
        for segment in &def.segments {
            value = match (segment, value) {
                (SegmentKind::Name(name), Value::Object(map)) if map.contains_key(name) => &map[name],
                (SegmentKind::Index(index), Value::Array(items)) => {
                    match usize::try_from(*index).ok().and_then(|index| items.get(index)) {
                        Some(item) => item,
                        None => break,
                    }
                }
                _ => break,
            };
        }
        match value {
            Value::Object(map) => names(&mut map.keys()),
            Value::Array(items) if items.len() == 1 => "; there is 1 item".to_owned(),
            Value::Array(items) => format!("; there are {} items", items.len()),
            Value::Null => "; there is null".to_owned(),
            Value::String(_) => "; there is a string".to_owned(),
            Value::Number(_) => "; there is a number".to_owned(),
            Value::Bool(_) => "; there is a boolean".to_owned(),
        }
    }

    /// The value before its segments are walked; `None` if it is missing.
    fn base(&self, target: &Target) -> Result<Option<Value>, Fault> {
        let Scope { task, outputs, vars, agent_output, prompt } = self.scope;
        let text = |text: Option<&Arc<str>>| text.map(|t| Value::from(&**t));
        Ok(match target {
            Target::TaskEnv(name) => {
                task.env.lock().unwrap_or_else(PoisonError::into_inner).get(name).map(|v| Value::from(v.as_str()))
            }
            Target::ProcessEnv(name) => {
                task.kept.process.get(name).cloned().or_else(|| task.host.env(name)).map(Value::from)
            }
            Target::RandomId => Some(Value::from(task.id.get_or_init(|| task.host.random_id()).as_str())),
            Target::RandomPort => {
                Some(Value::from(task.port().map_err(|e| Fault::Broken(format!("there is no free port: {e}")))?))
            }
            Target::TaskName => Some(Value::from(task.name)),
            Target::AgentOutput => text(agent_output.as_ref()),
            Target::AgentPrompt => text(prompt.as_ref()),
            Target::Output { step, name } => match outputs.get(step) {
                Some(Entry::Passed(values)) => values.get(name).cloned(),
                Some(Entry::NotPassed(outcome)) => {
                    return Err(Fault::NotPassed { step: step.clone(), outcome: *outcome });
                }
                None => None,
            },
            Target::Loop(name) => vars.get(name).cloned(),
            Target::Local(name) => self.locals.get(name).cloned(),
            Target::Calls => self.locals.get("calls").cloned(),
        })
    }
}

/// How many of the existing names a message lists.
const NAMES: usize = 8;
/// How many of the values given to a step are shown.
const SHOWN: usize = 20;

/// Whether a script contains `$NAME` or `${NAME`.
fn names_variable(script: &str, name: &str) -> bool {
    let mut rest = script;
    while let Some(at) = rest.find('$') {
        rest = &rest[at + 1..];
        let word = rest.strip_prefix('{').unwrap_or(rest);
        let end = |c: char| !c.is_ascii_alphanumeric() && c != '_';
        if word.strip_prefix(name).is_some_and(|after| after.is_empty() || after.starts_with(end)) {
            return true;
        }
    }
    false
}

/// Walks the segments of a hole. Names of HTTP headers are case-insensitive.
fn walk(def: &Def, base: &Value) -> Option<Value> {
    let is_response = match &def.target {
        Target::Local(name) => name == "response",
        Target::Output { name, .. } => name == "response",
        _ => false,
    };
    let mut value = base;
    for (i, segment) in def.segments.iter().enumerate() {
        let header = i == 1 && is_response && def.segments[0] == SegmentKind::Name("headers".to_owned());
        value = match (segment, value) {
            (SegmentKind::Name(name), Value::Object(map)) if header => {
                map.iter().find(|(key, _)| key.eq_ignore_ascii_case(name))?.1
            }
            (SegmentKind::Name(name), Value::Object(map)) => map.get(name)?,
            (SegmentKind::Index(index), Value::Array(items)) => items.get(usize::try_from(*index).ok()?)?,
            _ => return None,
        };
    }
    Some(value.clone())
}
