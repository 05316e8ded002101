//! The evals primitive of MCP: evaluations that a server ships with its tools, and lists under `evals/list`
//! (`decisions.md` §9).
//!
//! `read` parses [`Eval`]s from a text, `check` checks a list of them, `compare` grades an answer by exact match,
//! `bridge` converts evals to tasks and tasks to evals, `pages` is the list that a server returns, and `shape` lists
//! each requirement that an eval violates. Nothing here does IO.

pub mod bridge;
mod check;
mod compare;
mod pages;
mod read;
mod shape;

use std::fmt;

use indexmap::IndexMap;
use serde_json::{Map, Value};

use crate::{
    hir::Name,
    rule,
    signature::Schema,
    source::{Span, Spanned},
    ty::canonical,
    yaml::{Node, Tree},
};

pub use check::check;
pub use compare::{Call, Mismatch, content, execution, invocation, same};
pub use pages::{LIST_CHANGED, METHOD, PAGE, Pages};
pub use read::{KIND, file, page};
pub use shape::faults;

rule! {
    pub static EVAL_ID = "eval-id", Hard;
    pub static EVAL_GRADING = "eval-grading", Hard;
    pub static SAMPLING_MESSAGE = "sampling-message", Hard;
    pub static UNUSED_EXPECTATION = "unused-expectation", Verdict;
    pub static SAME_EVAL_TWICE = "same-eval-twice", Warning;
}

/// The keys under which a server declares the primitive: `evals` at the top of its capabilities; for clients that drop
/// unknown keys, `experimental.evals` and `extensions["gevals/evals"]` as well.
pub const CAPABILITY: &str = "evals";
/// See [`CAPABILITY`].
pub const EXTENSION: &str = "gevals/evals";

/// What an eval tests; `type` of its input.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Level {
    /// A model reads messages and the server's tools: which tool does it call?
    Invocation,
    /// A tool is called: what does it answer?
    Execution,
    /// A model works with the tools until it is done: did it reach the goal?
    Scenario,
}

impl Level {
    pub const ALL: [Self; 3] = [Self::Invocation, Self::Execution, Self::Scenario];

    /// The word on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::Invocation => "invocation",
            Self::Execution => "execution",
            Self::Scenario => "scenario",
        }
    }

    /// The level of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.name() == name)
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// How it is decided whether an eval passes: `gradingType`, and `type` of the expectation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Grading {
    ExactMatch,
    LlmAsJudge,
}

impl Grading {
    pub const ALL: [Self; 2] = [Self::ExactMatch, Self::LlmAsJudge];

    /// The word on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::ExactMatch => "exact-match",
            Self::LlmAsJudge => "llm-as-judge",
        }
    }
}

impl fmt::Display for Grading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// One evaluation that a server ships. Its combination of level and grading is one of the five valid ones.
#[derive(Clone, Debug)]
pub struct Eval {
    /// The span of the whole eval.
    pub span: Span,
    /// Stable, and unique in the list.
    pub id: Name,
    /// The name for people.
    pub name: Name,
    pub description: Option<Name>,
    pub grading: Spanned<Grading>,
    pub input: Input,
    pub expected: Expected,
    /// As written on the wire; from a received list, including unknown keys.
    pub json: Value,
}

impl Eval {
    /// The level, by its input.
    pub fn level(&self) -> Level {
        match self.input {
            Input::Invocation { .. } => Level::Invocation,
            Input::Execution { .. } => Level::Execution,
            Input::Scenario { .. } => Level::Scenario,
        }
    }

    /// The tool that it calls, or expects to be called.
    pub fn tool(&self) -> Option<&str> {
        match (&self.input, &self.expected) {
            (Input::Execution { tool, .. }, _) => Some(&tool.value),
            (Input::Invocation { .. }, Expected::ExactMatch(expected)) => Some(&expected.tool.as_ref()?.value),
            _ => None,
        }
    }

    /// Whether running it calls tools of the server: this requires consent first.
    pub fn calls_tools(&self) -> bool {
        self.level() != Level::Invocation
    }

    /// `sha256:` and the digest of its canonical JSON (RFC 8785). Equal digests mean equal evals.
    pub fn digest(&self) -> String {
        canonical::digest(&self.json)
    }
}

/// The digest of a list of evals, independent of their order.
pub fn digest(evals: &[Eval]) -> String {
    let mut sorted: Vec<&Eval> = evals.iter().collect();
    sorted.sort_by(|a, b| a.id.value.cmp(&b.id.value));
    canonical::digest(&sorted.iter().map(|eval| &eval.json).collect::<Vec<_>>())
}

/// The input of an eval, by its level.
#[derive(Clone, Debug)]
pub enum Input {
    Invocation { messages: Vec<Message> },
    Execution { tool: Name, arguments: Spanned<Map<String, Value>> },
    Scenario { messages: Vec<Message>, max_turns: Option<Spanned<u32>> },
}

impl Input {
    /// The messages that a model gets; none for a tool call.
    pub fn messages(&self) -> &[Message] {
        match self {
            Self::Invocation { messages } | Self::Scenario { messages, .. } => messages,
            Self::Execution { .. } => &[],
        }
    }
}

/// The author of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    User,
    Assistant,
}

impl Role {
    pub const ALL: [Self; 2] = [Self::User, Self::Assistant];

    /// The word on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }
}

/// A `SamplingMessage` of MCP.
#[derive(Clone, Debug)]
pub struct Message {
    pub span: Span,
    pub role: Role,
    /// Its blocks as on the wire; a single block becomes a list of one.
    pub content: Vec<Value>,
}

impl Message {
    /// Its texts, joined with line feeds.
    pub fn text(&self) -> String {
        let texts: Vec<&str> = self.content.iter().filter_map(|block| block.get("text")?.as_str()).collect();
        texts.join("\n")
    }
}

/// What an eval expects.
#[derive(Clone, Debug)]
pub enum Expected {
    ExactMatch(ExactMatch),
    /// A rubric for the judge.
    LlmAsJudge {
        rubric: Name,
    },
}

impl Expected {
    /// The grading of this expectation.
    pub fn grading(&self) -> Grading {
        match self {
            Self::ExactMatch(_) => Grading::ExactMatch,
            Self::LlmAsJudge { .. } => Grading::LlmAsJudge,
        }
    }
}

/// What an exact match expects: `toolName` and `arguments` of an invocation, `content` of an execution. Keys of the
/// other level have no meaning, and are reported.
#[derive(Clone, Debug, Default)]
pub struct ExactMatch {
    pub tool: Option<Name>,
    /// Only these keys are compared.
    pub arguments: Option<Spanned<Map<String, Value>>>,
    /// See [`execution`] for how it is compared.
    pub content: Option<Spanned<Value>>,
}

/// A text with evals, and what was parsed from it: a file, or a page of `evals/list`.
#[derive(Debug)]
pub struct Document {
    pub tree: Tree,
    /// The valid evals, in order.
    pub evals: Vec<Eval>,
    /// How many evals are listed, including invalid ones.
    pub listed: usize,
    /// In a file: the server whose tools are in `gevals.lock`.
    pub server: Option<Name>,
}

impl Document {
    fn node(&self, span: Span) -> Option<Node<'_>> {
        self.tree.node_at(span)
    }
}

/// The tools of a server, against which evals are checked.
#[derive(Clone, Debug)]
pub struct Tools {
    /// The server's name, for messages.
    pub server: String,
    /// Where the schemas are from, for messages: `so says …`.
    pub says: String,
    pub schemas: IndexMap<String, Schema>,
}

impl Tools {
    /// From the items of `tools/list`. A tool without a schema accepts anything.
    pub fn listed(server: &str, tools: &[Value]) -> Self {
        let schema = |tool: &Value| {
            let schema = tool.get("inputSchema").filter(|schema| schema.is_object());
            Schema::new(schema.cloned().unwrap_or(Value::Bool(true)))
        };
        let named = tools.iter().filter_map(|tool| Some((tool.get("name")?.as_str()?.to_owned(), schema(tool))));
        let says = "according to its schema in `tools/list`".to_owned();
        Self { server: server.to_owned(), says, schemas: named.collect() }
    }
}
