//! Files of evals that an MCP server ships.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value};

use super::word::{AnyVersion, Name};

/// The evals that an MCP server ships: the input of `gevals evals serve`.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct McpEvals {
    /// The kind of file.
    #[schemars(extend("const" = "McpEvals"))]
    pub kind: String,
    /// The version of the file format.
    pub api_version: Option<AnyVersion>,
    /// Preserved, but not interpreted.
    pub metadata: Option<Value>,
    /// The server's name in `gevals.lock`, where `check` finds its tools.
    pub server: Option<Name>,
    /// The evals that the server ships.
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
    /// The stable ID by which clients know the eval; unique in the list.
    pub id: Identifier,
    /// A human-readable name.
    pub name: Filled,
    /// What the eval verifies.
    pub description: Option<String>,
    /// How the result is graded; the same as `expected.type`.
    pub grading_type: Grading,
    pub input: Input,
    pub expected: Expected,
    /// Preserved, but not interpreted.
    #[schemars(rename = "_meta")]
    pub meta: Option<Value>,
}

/// How the result is graded.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "kebab-case")]
pub enum Grading {
    ExactMatch,
    LlmAsJudge,
}

/// The input of the eval; `type` is the level.
#[derive(JsonSchema, Debug)]
#[schemars(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum Input {
    /// A model gets the messages and the server's tools: which tool does it call?
    Invocation { messages: Messages },
    /// The tool is called: what does it answer?
    Execution {
        /// The tool that is called.
        tool_name: Filled,
        /// The arguments of the call.
        arguments: Map<String, Value>,
    },
    /// A model works with the tools until it is done: is the goal reached?
    Scenario {
        messages: Messages,
        /// The maximum number of turns; if omitted, the client decides.
        max_turns: Option<Turns>,
    },
}

/// The expected result.
#[derive(JsonSchema, Debug)]
#[schemars(tag = "type", rename_all = "kebab-case", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum Expected {
    /// `toolName` and `arguments` of an invocation, `content` of an execution.
    ExactMatch {
        /// The tool that the model must call (for an invocation).
        tool_name: Option<Filled>,
        /// The expected arguments; only these keys are compared.
        arguments: Option<Map<String, Value>>,
        /// The expected answer of the tool: content blocks, a text, a JSON value, or a result with `structuredContent` and `isError`.
        content: Option<Value>,
    },
    LlmAsJudge {
        /// The criteria by which the judge decides.
        rubric: Filled,
    },
}

/// A message to or from the model.
#[derive(JsonSchema, Debug)]
#[schemars(deny_unknown_fields)]
pub struct Message {
    pub role: Role,
    pub content: Content,
    /// Preserved, but not interpreted.
    #[schemars(rename = "_meta")]
    pub meta: Option<Value>,
}

/// Who sent the message.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase")]
pub enum Role {
    User,
    Assistant,
}

/// A content block of a message.
#[derive(JsonSchema, Debug)]
#[schemars(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum Block {
    Text {
        /// The text.
        text: String,
    },
    Image {
        /// The data, in base64.
        data: String,
        /// The MIME type, for example `image/png`.
        mime_type: String,
    },
    Audio {
        /// The data, in base64.
        data: String,
        /// The MIME type, for example `audio/wav`.
        mime_type: String,
    },
    ToolUse {
        /// The ID of the call, which the result refers to.
        id: String,
        /// The tool's name.
        name: String,
        /// The arguments of the call.
        input: Map<String, Value>,
    },
    ToolResult {
        /// The `id` of the call.
        tool_use_id: String,
        /// The result of the tool.
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
