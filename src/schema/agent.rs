//! Agent files.

use schemars::JsonSchema;
use serde_json::Value;

use super::{
    eval::Isolated,
    word::{AnyVersion, Name},
};

/// An agent: a command line, a program that speaks ACP, or a built-in agent.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct Agent {
    /// The kind of file.
    #[schemars(extend("const" = "Agent"))]
    pub kind: String,
    /// The version of the file format.
    pub api_version: Option<AnyVersion>,
    pub metadata: Option<AgentMetadata>,
    pub builtin: Option<BuiltinAgent>,
    pub acp: Option<AcpAgent>,
    pub commands: Option<Commands>,
    /// The isolation that the agent requests; the eval grants it.
    pub isolation: Option<Isolated>,
    pub skills: Option<AgentSkills>,
}

/// The name and version of an agent.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentMetadata {
    /// The agent's name in results.
    pub name: Option<String>,
    /// The agent's version; appears in results.
    pub version: Option<String>,
    /// Preserved, but not interpreted.
    pub description: Option<Value>,
    /// Preserved, but not interpreted.
    pub annotations: Option<Value>,
    /// Preserved, but not interpreted.
    pub category: Option<Value>,
}

/// A built-in agent.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct BuiltinAgent {
    /// `llm-agent` or `claude-code`; `openai-agent` and `openai-acp` are old names of `llm-agent`.
    #[schemars(rename = "type")]
    pub kind: Option<Name>,
    /// `PROVIDER:MODEL`; the provider is `openai`, `anthropic`, `gemini` or `google`.
    pub model: Option<Name>,
    /// Base URL of the model's API, unless the provider's own variable sets one. Only the key from `apiKey` is sent to it.
    pub base_url: Option<Name>,
    /// The environment variable that contains the key for `baseUrl`; without `baseUrl`, the key for the provider, used if the
    /// provider's own variable is not set.
    pub api_key: Option<Name>,
}

/// A program that speaks the Agent Client Protocol.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct AcpAgent {
    /// A program on the `PATH`, or a path relative to this file.
    pub cmd: Name,
    /// Arguments of the program.
    pub args: Option<Vec<String>>,
}

/// A command line that runs once per prompt.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct Commands {
    /// The command, a template with `{{ .Prompt }}` and other variables.
    pub run_prompt: Option<String>,
    /// Template of the argument that each server adds to the command.
    pub arg_template_mcp_server: Option<String>,
    /// Template of the argument that each allowed tool adds to the command.
    pub arg_template_allowed_tools: Option<String>,
    /// Separator between the arguments of allowed tools.
    pub allowed_tools_join_separator: Option<String>,
    /// A command that prints the agent's version; gevals does not run it.
    pub get_version: Option<String>,
    /// Has no effect: gevals does not create a virtual home.
    pub use_virtual_home: Option<bool>,
}

/// How the agent loads skills.
#[derive(JsonSchema, Debug)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentSkills {
    /// Where the agent looks for skills.
    pub mount_path: Name,
    /// The tool with which the agent loads a skill.
    pub tool_name: Name,
}
