//! The evals primitive of MCP: evaluations that a server ships beside its tools, and lists under `evals/list`
//! (`decisions.md` §9).
//!
//! `read` makes [`Eval`]s of a text, `check` says what is wrong with a list of them, `compare` grades an answer by
//! exact match, `bridge` makes tasks of evals and evals of tasks, `pages` is the list that a server gives out, and `shape` names each requirement on an eval that it does not keep. Nothing here does IO.

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
/// what they do not know, `experimental.evals` and `extensions["gevals/evals"]` as well.
pub const CAPABILITY: &str = "evals";
/// See [`CAPABILITY`].
pub const EXTENSION: &str = "gevals/evals";

/// What an eval looks at; `type` of its input.
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

/// Who decides whether an eval passes: `gradingType`, and `type` of what is expected.
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

/// One evaluation that a server ships. Its combination of level and grading is one of the five legal ones.
#[derive(Clone, Debug)]
pub struct Eval {
    /// The whole eval.
    pub span: Span,
    /// Stable, and unique in the list.
    pub id: Name,
    /// For people.
    pub name: Name,
    pub description: Option<Name>,
    pub grading: Spanned<Grading>,
    pub input: Input,
    pub expected: Expected,
    /// As written on the wire. Of a list that was received, with keys that nobody knows.
    pub json: Value,
}

impl Eval {
    /// What it looks at.
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

    /// Whether running it calls tools of the server: consent is needed first.
    pub fn calls_tools(&self) -> bool {
        self.level() != Level::Invocation
    }

    /// `sha256:` and the digest of its canonical JSON (RFC 8785): the same digest, the same eval.
    pub fn digest(&self) -> String {
        canonical::digest(&self.json)
    }
}

/// The digest of a list of evals, whatever their order.
pub fn digest(evals: &[Eval]) -> String {
    let mut sorted: Vec<&Eval> = evals.iter().collect();
    sorted.sort_by(|a, b| a.id.value.cmp(&b.id.value));
    canonical::digest(&sorted.iter().map(|eval| &eval.json).collect::<Vec<_>>())
}

/// What an eval begins with, by its level.
#[derive(Clone, Debug)]
pub enum Input {
    Invocation { messages: Vec<Message> },
    Execution { tool: Name, arguments: Spanned<Map<String, Value>> },
    Scenario { messages: Vec<Message>, max_turns: Option<Spanned<u32>> },
}

impl Input {
    /// The messages that a model is given; none for a call of a tool.
    pub fn messages(&self) -> &[Message] {
        match self {
            Self::Invocation { messages } | Self::Scenario { messages, .. } => messages,
            Self::Execution { .. } => &[],
        }
    }
}

/// Who says a message.
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
    /// Its blocks as on the wire; one that is no list is a list of one.
    pub content: Vec<Value>,
}

impl Message {
    /// Its texts, each on lines of its own.
    pub fn text(&self) -> String {
        let texts: Vec<&str> = self.content.iter().filter_map(|block| block.get("text")?.as_str()).collect();
        texts.join("\n")
    }
}

/// What an eval demands.
#[derive(Clone, Debug)]
pub enum Expected {
    ExactMatch(ExactMatch),
    /// A rubric for the judge.
    LlmAsJudge {
        rubric: Name,
    },
}

impl Expected {
    /// Who decides.
    pub fn grading(&self) -> Grading {
        match self {
            Self::ExactMatch(_) => Grading::ExactMatch,
            Self::LlmAsJudge { .. } => Grading::LlmAsJudge,
        }
    }
}

/// What an exact match demands: `toolName` and `arguments` of an invocation, `content` of an execution. The others mean
/// nothing, and are reported.
#[derive(Clone, Debug, Default)]
pub struct ExactMatch {
    pub tool: Option<Name>,
    /// Only these keys are compared.
    pub arguments: Option<Spanned<Map<String, Value>>>,
    /// See [`execution`] for what it is compared with.
    pub content: Option<Spanned<Value>>,
}

/// A text with evals, and what was understood of it: a file, or a page of `evals/list`.
#[derive(Debug)]
pub struct Document {
    pub tree: Tree,
    /// Those that mean something, in order.
    pub evals: Vec<Eval>,
    /// How many are listed, with those that mean nothing.
    pub listed: usize,
    /// Of a file: the server whose tools `gevals.lock` knows.
    pub server: Option<Name>,
}

impl Document {
    fn node(&self, span: Span) -> Option<Node<'_>> {
        self.tree.node_at(span)
    }
}

/// The tools of a server that evals are held against.
#[derive(Clone, Debug)]
pub struct Tools {
    /// The server's name, for messages.
    pub server: String,
    /// Where the schemas stand, for messages: `so says …`.
    pub says: String,
    pub schemas: IndexMap<String, Schema>,
}

impl Tools {
    /// Of the items of `tools/list`. A tool without a schema takes anything.
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
