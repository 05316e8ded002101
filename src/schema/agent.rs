//! Agent files.

use schemars::JsonSchema;
use serde_json::Value;

use super::{
    eval::Isolated,
    word::{AnyVersion, Name},
};

/// An agent: a command line, a program that speaks ACP, or one that is built in.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct Agent {
    /// What the file is.
    #[schemars(extend("const" = "Agent"))]
    pub kind: String,
    /// The form it is written in.
    pub api_version: Option<AnyVersion>,
    pub metadata: Option<AgentMetadata>,
    pub builtin: Option<BuiltinAgent>,
    pub acp: Option<AcpAgent>,
    pub commands: Option<Commands>,
    /// What the agent asks for; the eval grants it.
    pub isolation: Option<Isolated>,
    pub skills: Option<AgentSkills>,
}

/// The name and version of an agent.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentMetadata {
    /// What results call it.
    pub name: Option<String>,
    /// Stands in the results.
    pub version: Option<String>,
    /// Carried, never interpreted.
    pub description: Option<Value>,
    /// Carried, never interpreted.
    pub annotations: Option<Value>,
    /// Carried, never interpreted.
    pub category: Option<Value>,
}

/// An agent of gevals' own.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct BuiltinAgent {
    /// `llm-agent` or `claude-code`; `openai-agent` and `openai-acp` are old names of the first.
    #[schemars(rename = "type")]
    pub kind: Option<Name>,
    /// `PROVIDER:MODEL`, where the provider is `openai`, `anthropic`, `gemini` or `google`.
    pub model: Option<Name>,
    /// Where it is spoken to, unless the provider's own variable says so. It gets no key but that of `apiKey`.
    pub base_url: Option<Name>,
    /// The variable that holds the key of `baseUrl`; without one, of the provider, unless the provider's own variable does.
    pub api_key: Option<Name>,
}

/// A program that speaks the Agent Client Protocol.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct AcpAgent {
    /// A program on the PATH, or a path from this file.
    pub cmd: Name,
    /// What it is started with.
    pub args: Option<Vec<String>>,
}

/// A command line for each prompt.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct Commands {
    /// The command, with `{{ .Prompt }}` and the like.
    pub run_prompt: Option<String>,
    /// What each server adds to it.
    pub arg_template_mcp_server: Option<String>,
    /// What each tool that may be called adds to it.
    pub arg_template_allowed_tools: Option<String>,
    /// What stands between them.
    pub allowed_tools_join_separator: Option<String>,
    /// Would print the agent's version; gevals does not run it.
    pub get_version: Option<String>,
    /// Has no effect: nothing makes such a home.
    pub use_virtual_home: Option<bool>,
}

/// How the agent takes skills.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentSkills {
    /// Where it looks for them.
    pub mount_path: Name,
    /// The tool it loads them with.
    pub tool_name: Name,
}
