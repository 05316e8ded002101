//! Files of evals that an MCP server ships.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value};

use super::word::{AnyVersion, Name};

/// The evals that an MCP server ships: what `gevals evals serve` takes.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct McpEvals {
    /// What the file is.
    #[schemars(extend("const" = "McpEvals"))]
    pub kind: String,
    /// The form it is written in.
    pub api_version: Option<AnyVersion>,
    /// Carried, never interpreted.
    pub metadata: Option<Value>,
    /// The server's name in `gevals.lock`: `check` knows its tools from there.
    pub server: Option<Name>,
    /// What the server ships.
    pub evals: Vec<ShippedEval>,
}

/// One evaluation.
#[derive(JsonSchema, Debug)]
#[schemars(
    rename_all = "camelCase",
    deny_unknown_fields,
    extend("anyOf" = [
        { "properties": {
            "gradingType": { "const": "exact-match" },
            "expected": { "properties": { "type": { "const": "exact-match" } } },
            "input": { "properties": { "type": { "enum": ["invocation", "execution"] } } },
        } },
        { "properties": {
            "gradingType": { "const": "llm-as-judge" },
            "expected": { "properties": { "type": { "const": "llm-as-judge" } } },
        } },
    ])
)]
pub struct ShippedEval {
    /// Stable, and unique in the list: what clients know the eval by.
    pub id: Identifier,
    /// For people.
    pub name: Filled,
    /// What it verifies.
    pub description: Option<String>,
    /// Who decides; the same as `expected.type`.
    pub grading_type: Grading,
    pub input: Input,
    pub expected: Expected,
    /// Carried, never interpreted.
    #[schemars(rename = "_meta")]
    pub meta: Option<Value>,
}

/// Who decides whether it passes.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "kebab-case")]
pub enum Grading {
    ExactMatch,
    LlmAsJudge,
}

/// What it begins with; `type` is the level.
#[derive(JsonSchema, Debug)]
#[schemars(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum Input {
    /// A model gets the messages and the server's tools: which tool does it call?
    Invocation { messages: Messages },
    /// The tool is called: what does it answer?
    Execution {
        /// The tool that is called.
        tool_name: Filled,
        /// What it is called with.
        arguments: Map<String, Value>,
    },
    /// A model works with the tools until it is done: is the goal reached?
    Scenario {
        messages: Messages,
        /// If left out, the client decides.
        max_turns: Option<Turns>,
    },
}

/// What is expected.
#[derive(JsonSchema, Debug)]
#[schemars(tag = "type", rename_all = "kebab-case", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum Expected {
    /// `toolName` and `arguments` of an invocation, `content` of an execution.
    ExactMatch {
        /// Of an invocation: the tool that the model must call.
        tool_name: Option<Filled>,
        /// Only these keys are compared.
        arguments: Option<Map<String, Value>>,
        /// What the tool answers: blocks, a text, a value as JSON, or a result with `structuredContent` and `isError`.
        content: Option<Value>,
    },
    LlmAsJudge {
        /// What the judge decides by.
        rubric: Filled,
    },
}

/// A message to the model, or from it.
#[derive(JsonSchema, Debug)]
#[schemars(deny_unknown_fields)]
pub struct Message {
    pub role: Role,
    pub content: Content,
    /// Carried, never interpreted.
    #[schemars(rename = "_meta")]
    pub meta: Option<Value>,
}

/// Who says it.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase")]
pub enum Role {
    User,
    Assistant,
}

/// A block of a message.
#[derive(JsonSchema, Debug)]
#[schemars(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum Block {
    Text {
        /// What is said.
        text: String,
    },
    Image {
        /// In base64.
        data: String,
        /// As `image/png`.
        mime_type: String,
    },
    Audio {
        /// In base64.
        data: String,
        /// As `audio/wav`.
        mime_type: String,
    },
    ToolUse {
        /// What its result names.
        id: String,
        /// The tool.
        name: String,
        /// Its arguments.
        input: Map<String, Value>,
    },
    ToolResult {
        /// The `id` of the call.
        tool_use_id: String,
        /// What the tool gave.
        content: Vec<Value>,
    },
}

macro_rules! described {
    ($($(#[$doc:meta])* $name:ident = |$generator:ident| $schema:expr;)+) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name;

        impl JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema($generator: &mut SchemaGenerator) -> Schema {
                $schema
            }
        }
    )+};
}

described! {
    /// A text that says something.
    Filled = |_generator| json_schema!({ "type": "string", "pattern": r"\S" });
    /// A text without space at its ends, and without controls.
    Identifier = |_generator| json_schema!({ "type": "string", "pattern": r"^[^\s\u0000-\u001f\u007f-\u009f]([^\u0000-\u001f\u007f-\u009f]*[^\s\u0000-\u001f\u007f-\u009f])?$" });
    /// More than none.
    Turns = |_generator| json_schema!({ "type": "integer", "minimum": 1, "maximum": 4_294_967_295_u32 });
    /// What a model is given: at least one message.
    Messages = |generator| json_schema!({ "type": "array", "minItems": 1, "items": generator.subschema_for::<Message>() });
    /// One block, or several.
    Content = |generator| {
        let block = generator.subschema_for::<Block>();
        json_schema!({ "anyOf": [block, { "type": "array", "minItems": 1, "items": block }] })
    };
}
