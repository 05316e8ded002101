//! The one form of a task and of an eval, for every dialect.
//!
//! Validity is a type: a dialect returns a `Task<Path>`, in which a hole names something; only [`check`](crate::check)
//! makes a `Task<Def>`, in which every hole is resolved and every step has a signature. Lowering to a plan accepts only
//! the latter and cannot fail.

mod eval;

pub use eval::*;

use std::{fmt::Debug, path::PathBuf, sync::Arc, time::Duration};

use indexmap::IndexMap;
use serde_json::Value;

use crate::{
    signature::Signature,
    source::{FileId, Span, Spanned},
    template::{Filter, Path, SegmentKind},
    ty::Type,
};

pub use crate::place::{BlockRole, Dialect, PhaseKind};

/// A name as the author wrote it.
pub type Name = Spanned<String>;

/// Whether a text can be the name of a variable, in a shell and in an environment.
pub fn is_variable(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// How far names are resolved: `Path` (as written) or [`Def`] (what they refer to).
pub trait Stage: Clone + Debug {
    /// How a step refers to its operation.
    type Op: Clone + Debug;
}

impl Stage for Path {
    type Op = Name;
}

impl Stage for Def {
    type Op = Operation;
}

/// A task of any dialect: names are unresolved at stage `Path`, resolved at stage `Def`.
#[derive(Clone, Debug)]
pub struct Task<H: Stage> {
    pub dialect: Dialect,
    pub file: FileId,
    /// The directory that relative paths start from: that of the task file, as given.
    pub dir: PathBuf,
    pub name: Name,
    pub meta: Meta,
    pub requires: Vec<Requirement>,
    pub imports: Vec<Import>,
    /// `spec.env`, in the order written.
    pub env: Vec<(Name, Template<H>)>,
    pub prompt: Option<Prompt<H>>,
    pub setup: Phase<H>,
    pub verify: Phase<H>,
    pub cleanup: Phase<H>,
}

/// Everything in a task except its steps. Annotations and category are known keys that nothing interprets, so they are
/// not kept.
#[derive(Clone, Debug, Default)]
pub struct Meta {
    pub description: Option<Name>,
    pub difficulty: Option<Name>,
    pub labels: IndexMap<String, Name>,
    pub tags: Vec<Name>,
    pub parallel: bool,
    /// Whether verify steps that do not depend on each other run in parallel.
    pub parallel_verify: bool,
    pub runs: Option<Spanned<u32>>,
    /// Limits setup, agent and verify together.
    pub timeout: Option<Spanned<Duration>>,
    pub cleanup_timeout: Option<Spanned<Duration>>,
    /// How much the agent may use.
    pub bounds: Bounds,
    /// How many runs must pass, and of how many, if not all.
    pub gate: Option<Spanned<(u32, u32)>>,
}

/// One entry of `requires`.
#[derive(Clone, Debug)]
pub struct Requirement {
    pub kind: RequirementKind,
    pub alias: Option<Name>,
}

/// What a task requires before it runs (`decisions.md` §4).
#[derive(Clone, Debug)]
pub enum RequirementKind {
    /// A program on `PATH`.
    Command(Name),
    /// A server configured in the eval's MCP config; its tools become steps.
    McpServer(Name),
    /// An extension declared in the eval (steps dialect).
    Extension(Name),
    Judge(Span),
}

/// One entry of `imports` (portable dialect).
#[derive(Clone, Debug)]
pub struct Import {
    pub package: Name,
    pub alias: Option<Name>,
}

/// The prompt for the agent.
#[derive(Clone, Debug)]
pub struct Prompt<H: Stage> {
    pub text: Template<H>,
    /// The prompt file, if the prompt is not inline.
    pub file: Option<Spanned<PathBuf>>,
}

/// `setup`, `verify` or `cleanup`.
#[derive(Clone, Debug)]
pub struct Phase<H: Stage> {
    /// The key as written; `None` if the phase is omitted.
    pub key: Option<Span>,
    pub steps: Vec<Step<H>>,
}

impl<H: Stage> Default for Phase<H> {
    fn default() -> Self {
        Self { key: None, steps: Vec::new() }
    }
}

/// One step of any kind: an operation and its arguments.
#[derive(Clone, Debug)]
pub struct Step<H: Stage> {
    pub id: Option<Name>,
    pub op: H::Op,
    /// The operation's key as written.
    pub key: Span,
    /// Key and body.
    pub span: Span,
    pub args: Vec<(Name, Arg<H>)>,
    /// Nested steps, by their key (`steps`, `setup`, `cleanup`); the branches of an `anyOf` are blocks of one step
    /// each.
    pub blocks: Vec<Block<H>>,
    pub timeout: Option<Spanned<Duration>>,
    pub continue_on_error: Option<Spanned<bool>>,
    /// `None` if the step lists no outputs: it then has the outputs of its operation.
    pub outputs: Option<Vec<(Name, Arg<H>)>>,
    pub expect: Option<(Span, Arg<H>)>,
    /// The loop variable that a `foreach` binds.
    pub var: Option<Name>,
}

/// Steps that run as one sequence inside another step.
#[derive(Clone, Debug)]
pub struct Block<H: Stage> {
    pub role: BlockRole,
    pub span: Span,
    pub steps: Vec<Step<H>>,
}

/// A value that may contain holes.
#[derive(Clone, Debug)]
pub struct Arg<H> {
    pub kind: ArgKind<H>,
    pub span: Span,
}

/// The value of an argument, by its YAML type.
#[derive(Clone, Debug)]
pub enum ArgKind<H> {
    Null,
    Bool(bool),
    Int(i64),
    /// A number that does not fit an `i64`, exactly as written.
    Float(serde_json::Number),
    Text(Template<H>),
    List(Vec<Arg<H>>),
    Record(Vec<(Name, Arg<H>)>),
}

/// Text with holes.
#[derive(Clone, Debug)]
pub struct Template<H> {
    pub parts: Vec<Part<H>>,
    pub span: Span,
    /// Text that looks like a hole but is not one; `check` decides about it, using the scope.
    pub suspects: Vec<Suspect>,
}

/// See [`SuspectKind`](crate::template::SuspectKind).
#[derive(Clone, Debug)]
pub struct Suspect {
    pub kind: crate::template::SuspectKind,
    pub root: String,
    pub span: Span,
    pub detail: String,
}

/// A piece of a template.
#[derive(Clone, Debug)]
pub enum Part<H> {
    Text(String),
    /// Boxed, because most parts are text.
    Hole(Box<Hole<H>>),
}

/// A hole: filled when its step runs.
#[derive(Clone, Debug)]
pub struct Hole<H> {
    pub reference: H,
    pub filters: Vec<Filter>,
    /// As written, for messages and plans: `{env.NAME | lower}`.
    pub text: String,
    /// Including the braces.
    pub span: Span,
    /// The span of the root, then one for each segment.
    pub spans: Vec<Span>,
    pub filter_spans: Vec<Span>,
}

impl<H> Hole<H> {
    /// Whether the hole has a default for a missing value.
    pub fn has_default(&self) -> bool {
        self.filters.first().is_some_and(|f| f.name.text == "default")
    }
}

impl<H> Template<H> {
    /// Creates a template without holes.
    pub fn literal(text: impl Into<String>, span: Span) -> Self {
        Self { parts: vec![Part::Text(text.into())], span, suspects: Vec::new() }
    }

    /// Returns the text, if the template has no holes.
    pub fn as_literal(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [] => Some(""),
            [Part::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// Returns the hole, if the template consists of nothing else: its value then keeps its type.
    pub fn single_hole(&self) -> Option<&Hole<H>> {
        match self.parts.as_slice() {
            [Part::Hole(hole)] => Some(hole),
            _ => None,
        }
    }

    /// Returns the holes, in order.
    pub fn holes(&self) -> impl Iterator<Item = &Hole<H>> {
        self.parts.iter().filter_map(|p| match p {
            Part::Hole(hole) => Some(&**hole),
            Part::Text(_) => None,
        })
    }

    /// Formats the template as the author would write it in the portable dialect.
    pub fn display(&self) -> String {
        let parts = self.parts.iter().map(|p| match p {
            Part::Text(text) => crate::template::escape(text),
            Part::Hole(hole) => hole.text.clone(),
        });
        parts.collect()
    }
}

impl<H> Arg<H> {
    /// Creates an argument with its span.
    pub fn new(kind: ArgKind<H>, span: Span) -> Self {
        Self { kind, span }
    }

    /// Creates a text argument without holes.
    pub fn text(text: impl Into<String>, span: Span) -> Self {
        Self { kind: ArgKind::Text(Template::literal(text, span)), span }
    }

    /// Returns the text, if it has no holes.
    pub fn as_literal(&self) -> Option<&str> {
        match &self.kind {
            ArgKind::Text(t) => t.as_literal(),
            _ => None,
        }
    }

    /// Creates an argument from a value, without holes.
    pub fn of_value(value: &Value, span: Span) -> Self {
        let kind = match value {
            Value::Null => ArgKind::Null,
            Value::Bool(value) => ArgKind::Bool(*value),
            Value::Number(n) => n.as_i64().map_or_else(|| ArgKind::Float(n.clone()), ArgKind::Int),
            Value::String(text) => ArgKind::Text(Template::literal(text, span)),
            Value::Array(items) => ArgKind::List(items.iter().map(|item| Self::of_value(item, span)).collect()),
            Value::Object(fields) => ArgKind::Record(
                fields
                    .iter()
                    .map(|(key, value)| (Spanned::new(key.clone(), span), Self::of_value(value, span)))
                    .collect(),
            ),
        };
        Self { kind, span }
    }

    /// Returns the value, if it has no holes.
    pub fn as_value(&self) -> Option<Value> {
        Some(match &self.kind {
            ArgKind::Null => Value::Null,
            ArgKind::Bool(b) => Value::Bool(*b),
            ArgKind::Int(i) => Value::from(*i),
            ArgKind::Float(x) => Value::Number(x.clone()),
            ArgKind::Text(t) => Value::String(t.as_literal()?.to_owned()),
            ArgKind::List(items) => Value::Array(items.iter().map(Arg::as_value).collect::<Option<_>>()?),
            ArgKind::Record(fields) => Value::Object(
                fields.iter().map(|(k, v)| Some((k.value.clone(), v.as_value()?))).collect::<Option<_>>()?,
            ),
        })
    }

    /// Returns the value of a key, if the argument is a mapping.
    pub fn get(&self, key: &str) -> Option<&Arg<H>> {
        match &self.kind {
            ArgKind::Record(fields) => fields.iter().find(|(k, _)| k.value == key).map(|(_, v)| v),
            _ => None,
        }
    }

    /// Visits every template in the argument, depth first.
    pub fn templates<'a>(&'a self, visit: &mut dyn FnMut(&'a Template<H>)) {
        match &self.kind {
            ArgKind::Text(t) => visit(t),
            ArgKind::List(items) => items.iter().for_each(|a| a.templates(visit)),
            ArgKind::Record(fields) => fields.iter().for_each(|(_, a)| a.templates(visit)),
            _ => {}
        }
    }
}

impl<H: Stage> Step<H> {
    /// Whether the step has this key, which is not one of its arguments.
    pub fn has(&self, key: &str) -> bool {
        match key {
            "id" => self.id.is_some(),
            "timeout" => self.timeout.is_some(),
            "continueOnError" => self.continue_on_error.is_some(),
            "outputs" => self.outputs.is_some(),
            "expect" => self.expect.is_some(),
            _ => false,
        }
    }

    /// Returns the argument of this name.
    pub fn arg(&self, key: &str) -> Option<&Arg<H>> {
        self.args.iter().find(|(k, _)| k.value == key).map(|(_, v)| v)
    }

    /// Visits every template of the step itself, without nested steps: arguments, expectations, outputs.
    pub fn templates<'a>(&'a self, visit: &mut dyn FnMut(&'a Template<H>)) {
        self.args.iter().for_each(|(_, a)| a.templates(visit));
        if let Some((_, expect)) = &self.expect {
            expect.templates(visit);
        }
        self.outputs.iter().flatten().for_each(|(_, a)| a.templates(visit));
    }

    /// Visits this step and every step nested in it, in the order written.
    pub fn walk<'a>(&'a self, visit: &mut dyn FnMut(&'a Step<H>)) {
        visit(self);
        self.blocks.iter().flat_map(|b| &b.steps).for_each(|s| s.walk(visit));
    }
}

impl<H: Stage> Task<H> {
    /// Returns the steps of a phase.
    pub fn phase(&self, kind: PhaseKind) -> &Phase<H> {
        match kind {
            PhaseKind::Setup => &self.setup,
            PhaseKind::Verify => &self.verify,
            PhaseKind::Cleanup => &self.cleanup,
        }
    }

    /// Visits every step with its phase; nested steps come after the step that contains them.
    pub fn walk<'a>(&'a self, visit: &mut dyn FnMut(PhaseKind, &'a Step<H>)) {
        for kind in PhaseKind::ALL {
            for step in &self.phase(kind).steps {
                step.walk(&mut |s| visit(kind, s));
            }
        }
    }
}

/// What a name refers to.
#[derive(Clone, PartialEq, Debug)]
pub struct Def {
    pub target: Target,
    /// The remaining segments to resolve in the value.
    pub segments: Vec<SegmentKind>,
    /// The type of the hole's value, after its filters.
    pub ty: Type,
}

/// What the path of a hole refers to (`decisions.md` §3).
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Target {
    /// An entry of `spec.env`.
    TaskEnv(String),
    /// A variable of gevals' own environment.
    ProcessEnv(String),
    RandomId,
    RandomPort,
    TaskName,
    AgentOutput,
    /// The prompt as sent (steps dialect).
    AgentPrompt,
    /// An output of a step, by the step's ID (portable) or its type (steps dialect).
    Output {
        step: String,
        name: String,
    },
    /// A variable of an enclosing `foreach`.
    Loop(String),
    /// A value of the step itself: `stdout`, `response`, `content`, …
    Local(String),
    /// An earlier call of a scripted agent.
    Calls,
}

/// What a step does, after resolution.
#[derive(Clone, Debug)]
pub struct Operation {
    /// As written: `command`, `k8s.apply`.
    pub name: String,
    pub kind: OperationKind,
    pub signature: Arc<Signature>,
}

/// Who executes a step.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum OperationKind {
    /// One of `builtin::BUILTINS`.
    Builtin(&'static str),
    /// A tool of an MCP server of the eval, called directly.
    Tool { server: String, tool: String },
    /// An operation of an extension.
    Extension { package: String, operation: String },
}
