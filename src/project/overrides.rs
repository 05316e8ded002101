//! Settings from the command line and the environment that override those of an eval.

use std::{path::PathBuf, time::Duration};

use serde_json::Value;

use crate::{
    hir::{AgentRef, Expand, ExpandPart, McpConfig, Server, Transport},
    source::{Sources, Span, Spanned},
};

/// The argument of a command-line option, with its place on the command line.
pub(super) fn typed(option: &str, value: &str, sources: &Sources) -> Spanned<String> {
    let start = option.len() + 1;
    let file = sources.give(format!("{option} {value}"));
    Spanned::new(value.to_owned(), Span::new(file, start..start + value.len()))
}

/// Settings from the command line and the environment that override those of the eval.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    pub agent: Option<AgentChoice>,
    /// The model of the agent, whichever agent it is.
    pub model: Option<String>,
    /// Relative to the current directory.
    pub mcp_config: Option<PathBuf>,
    /// For evals that name no MCP config.
    pub server: Option<EnvServer>,
    /// Whether the environment was checked for a server, so that no `server` means there is none.
    pub asked: bool,
    pub limits: LimitOverrides,
}

/// Limits for every task: the first two override the task's own, the others apply if the task has none (§1.8 of the
/// upstream behaviour).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LimitOverrides {
    pub timeout: Option<Duration>,
    pub cleanup_timeout: Option<Duration>,
    pub default_timeout: Option<Duration>,
    pub default_cleanup_timeout: Option<Duration>,
}

/// An agent given on the command line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AgentChoice {
    /// A file of kind Agent or Oracle, relative to the current directory.
    File(PathBuf),
    /// `builtin.NAME`, `builtin.NAME:MODEL`, or `builtin.NAME:PATH` if it takes a path.
    Builtin { kind: String, rest: Option<String> },
}

impl AgentChoice {
    /// Parses the argument of the command-line option.
    pub fn parse(text: &str) -> Self {
        match text.starts_with("builtin.") {
            false => Self::File(PathBuf::from(text)),
            true => {
                let (kind, rest) = text.split_once(':').map_or((text, None), |(kind, rest)| (kind, Some(rest)));
                Self::Builtin { kind: kind.to_owned(), rest: rest.map(str::to_owned) }
            }
        }
    }

    /// The reference as an eval would write it. `oracle`: whether the file is of that kind.
    pub fn reference(&self, oracle: bool, sources: &Sources) -> AgentRef {
        const OPTION: &str = "--agent ";
        let words = match self {
            Self::File(path) => path.to_string_lossy().into_owned(),
            Self::Builtin { kind, rest } => match rest {
                Some(rest) => format!("{kind}:{rest}"),
                None => kind.clone(),
            },
        };
        let file = sources.give(format!("{OPTION}{words}"));
        let span = Span::new(file, OPTION.len()..OPTION.len() + words.len());
        let name = |text: &str, span| Spanned::new(text.to_owned(), span);
        let (kind, path, model) = match self {
            Self::File(path) => {
                let kind = name(if oracle { "builtin.script" } else { "file" }, span);
                (kind, Some(name(&path.to_string_lossy(), span)), None)
            }
            Self::Builtin { kind, rest } => {
                let behind = span.start + 1 + kind.len() as u32;
                let rest = rest.as_deref().map(|rest| name(rest, Span { start: behind, ..span }));
                let (path, model) = match kind.as_str() {
                    "builtin.script" | "builtin.replay" => (rest, None),
                    _ => (None, rest),
                };
                (name(kind, Span { end: behind - 1, ..span }), path, model)
            }
        };
        AgentRef { kind, path, model, span }
    }
}

/// The server that `MCP_*` variables describe (§4.2 of the upstream behaviour).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EnvServer {
    pub name: String,
    pub enable_all_tools: bool,
    pub transport: EnvTransport,
}

/// The transport of the server that the variables describe.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum EnvTransport {
    Stdio { command: String, args: Vec<String>, env: Vec<(String, String)> },
    Http { url: String, headers: Vec<(String, String)> },
}

impl EnvServer {
    /// Reads the variables. Returns `None` if none of the variables that define a server is set.
    ///
    /// # Errors
    /// The variable that cannot be read, and the reason.
    pub fn read(lookup: &dyn Fn(&str) -> Option<String>) -> Result<Option<Self>, String> {
        let get = |name: &str| lookup(name).filter(|value| !value.is_empty());
        let (url, host, port) = (get("MCP_URL"), get("MCP_HOST"), get("MCP_PORT"));
        let transport = match (get("MCP_COMMAND"), &url, &host, &port) {
            (None, None, None, None) => return Ok(None),
            (Some(command), ..) => EnvTransport::Stdio {
                command,
                args: get("MCP_ARGS").map_or(Ok(Vec::new()), |text| args(&text))?,
                env: pairs("MCP_ENV", get("MCP_ENV"))?,
            },
            _ => {
                let built = || {
                    let port = port.as_ref().map(|p| format!(":{p}")).unwrap_or_default();
                    let path = get("MCP_PATH").unwrap_or_else(|| "/mcp".to_owned());
                    let slash = if path.starts_with('/') { "" } else { "/" };
                    format!("http://{}{port}{slash}{path}", host.as_deref().unwrap_or("localhost"))
                };
                EnvTransport::Http {
                    url: url.clone().unwrap_or_else(built),
                    headers: pairs("MCP_HEADERS", get("MCP_HEADERS"))?,
                }
            }
        };
        let off = |value: &str| value.eq_ignore_ascii_case("false") || value == "0";
        Ok(Some(Self {
            name: get("MCP_SERVER_NAME").unwrap_or_else(|| "default".to_owned()),
            enable_all_tools: !get("MCP_ENABLE_ALL_TOOLS").is_some_and(|value| off(&value)),
            transport,
        }))
    }

    /// A config with only this server. `span` is used as its place.
    pub(super) fn config(&self, span: Span) -> McpConfig {
        // The value of a variable is literal and not expanded again.
        let plain = |text: &str| Expand { span, parts: vec![ExpandPart::Text(text.to_owned())] };
        let name = |text: &str| Spanned::new(text.to_owned(), span);
        let named = |pairs: &[(String, String)]| pairs.iter().map(|(n, v)| (name(n), plain(v))).collect();
        let transport = match &self.transport {
            EnvTransport::Stdio { command, args, env } => Transport::Stdio {
                command: plain(command),
                args: args.iter().map(|arg| plain(arg)).collect(),
                env: named(env),
            },
            EnvTransport::Http { url, headers } => Transport::Http { url: plain(url), headers: named(headers) },
        };
        let server = Server {
            name: name(&self.name),
            transport,
            disabled: false,
            always_allow: Vec::new(),
            enable_all_tools: Some(Spanned::new(self.enable_all_tools, span)),
        };
        McpConfig { file: span.file, dir: PathBuf::new(), servers: vec![server] }
    }
}

/// Reads a JSON list, or words separated by commas.
fn args(text: &str) -> Result<Vec<String>, String> {
    if text.trim_start().starts_with('[') {
        return serde_json::from_str(text).map_err(|e| format!("`MCP_ARGS` is not a JSON list of strings: {e}"));
    }
    Ok(text.split(',').map(str::trim).filter(|arg| !arg.is_empty()).map(str::to_owned).collect())
}

fn pairs(name: &str, text: Option<String>) -> Result<Vec<(String, String)>, String> {
    let Some(text) = text else { return Ok(Vec::new()) };
    let value: Value = serde_json::from_str(&text).map_err(|e| format!("`{name}` is not JSON: {e}"))?;
    let Value::Object(map) = value else { return Err(format!("`{name}` is not a JSON object of strings")) };
    let pairs = map.into_iter().map(|(key, value)| match value {
        Value::String(value) => Ok((key, value)),
        other => Err(format!("`{name}` is not a JSON object of strings: `{key}` is `{other}`")),
    });
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Option<EnvServer>, String> {
        let find = |name: &str| variables.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned());
        EnvServer::read(&find)
    }

    fn url(variables: &[(&str, &str)]) -> String {
        match read(variables).unwrap().unwrap().transport {
            EnvTransport::Http { url, .. } => url,
            EnvTransport::Stdio { command, .. } => panic!("{command}"),
        }
    }

    #[test]
    fn variables_describe_a_server() {
        assert_eq!(read(&[]), Ok(None));
        assert_eq!(read(&[("MCP_ARGS", "a"), ("MCP_PATH", "/x"), ("MCP_URL", "")]), Ok(None));
        assert_eq!(url(&[("MCP_URL", "https://x/y"), ("MCP_PORT", "5")]), "https://x/y");
        assert_eq!(url(&[("MCP_HOST", "h"), ("MCP_PORT", "5")]), "http://h:5/mcp");
        assert_eq!(url(&[("MCP_PORT", "5"), ("MCP_PATH", "x")]), "http://localhost:5/x");
        assert_eq!(url(&[("MCP_HOST", "h")]), "http://h/mcp");
        let server = read(&[
            ("MCP_COMMAND", "c"),
            ("MCP_URL", "u"),
            ("MCP_ARGS", " a, ,b "),
            ("MCP_ENV", r#"{"A": "1"}"#),
            ("MCP_SERVER_NAME", "s"),
            ("MCP_ENABLE_ALL_TOOLS", "False"),
        ]);
        let server = server.unwrap().unwrap();
        assert_eq!((server.name.as_str(), server.enable_all_tools), ("s", false));
        let EnvTransport::Stdio { command, args, env } = server.transport else { panic!() };
        assert_eq!((command.as_str(), args, env), ("c", vec!["a".into(), "b".into()], vec![("A".into(), "1".into())]));
        let on =
            |value: &str| read(&[("MCP_URL", "u"), ("MCP_ENABLE_ALL_TOOLS", value)]).unwrap().unwrap().enable_all_tools;
        assert!(on("true") && on("") && on("no") && !on("0"));
    }

    #[test]
    fn invalid_variables_are_named() {
        for (name, value) in [("MCP_ARGS", "[1]"), ("MCP_ENV", "{"), ("MCP_ENV", r#"{"A": 1}"#), ("MCP_ENV", "[]")] {
            assert!(read(&[("MCP_COMMAND", "c"), (name, value)]).unwrap_err().contains(name), "{value}");
        }
        assert!(read(&[("MCP_URL", "u"), ("MCP_HEADERS", "x")]).unwrap_err().contains("MCP_HEADERS"));
    }

    #[test]
    fn an_agent_is_a_file_or_a_builtin() {
        assert_eq!(AgentChoice::parse("a/agent.yaml"), AgentChoice::File("a/agent.yaml".into()));
        let builtin = |kind: &str, rest: Option<&str>| AgentChoice::Builtin {
            kind: kind.to_owned(),
            rest: rest.map(str::to_owned),
        };
        assert_eq!(AgentChoice::parse("builtin.noop"), builtin("builtin.noop", None));
        assert_eq!(AgentChoice::parse("builtin.llm-agent:openai:x"), builtin("builtin.llm-agent", Some("openai:x")));
    }
}
