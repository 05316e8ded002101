//! Hardcoded secrets: a token in a file is also in the repository, and in everything that quotes the file.
//!
//! The value is never shown. Under a secret name, any value that looks like a secret is reported; in other texts, only
//! passwords in URLs and strings in the format of a token.

use crate::{
    ascii::{Ascii, ascii},
    decode::SECRET_IN_CLEAR,
    diagnostic::{Diagnostic, Diagnostics},
    hir::{Arg, ArgKind, Def, Expand, Hole, Name, Part, Target, Task, Template, Transport},
    lint::{
        EvalView, TaskView,
        analysis::texts::{self, sentence},
        script::Form,
    },
    secrets::{is_secret_name, looks_drawn, looks_secret, password, tokens},
    source::Span,
    template::{Path, SegmentKind},
};

const FROM_ENVIRONMENT: &str = "read it from the environment";

/// Checks the MCP config, the eval and its agent files, and the prompts for the secrets that the eval lists.
pub fn in_eval(view: &EvalView<'_>, out: &mut Diagnostics) {
    listed(view, out);
    for server in view.unit.mcp.iter().flat_map(|m| &m.servers) {
        let pairs = match &server.transport {
            Transport::Stdio { args, env, .. } => {
                arguments(args, out);
                env
            }
            Transport::Http { url, headers } => {
                address(url, out);
                headers
            }
        };
        pairs.iter().for_each(|(name, value)| configured(name, value, out));
    }
    for (name, value) in view.eval.extensions.iter().flat_map(|e| &e.env) {
        let filled = value.contains("${") || value.contains("{env.");
        if is_secret_name(&name.value) && !filled && looks_secret(value) {
            out.push(named(name.span, &name.value).help(FROM_ENVIRONMENT));
        }
    }
    for agent in view.unit.agent_files() {
        let key = agent.builtin.as_ref().and_then(|b| b.api_key.as_ref());
        if let Some(key) = key.filter(|key| !key.value.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')) {
            out.push(
                named(key.span.head(), "apiKey")
                    .help("`apiKey` is the name of the variable that contains the key, not the key"),
            );
        }
        let command = agent.commands.as_ref().and_then(|c| c.run_prompt.as_ref());
        if let Some(command) = command.filter(|c| tokens(&c.value).next().is_some()) {
            out.push(token(command.span.head()));
        }
    }
}

/// Checks the prompt, the variables, arguments and scripts of a task.
pub fn in_task(view: &TaskView<'_>, out: &mut Diagnostics) {
    in_prompt(view, out);
    view.task.env.iter().for_each(|(name, value)| given(name, value, out));
    view.task.walk(&mut |_, step| {
        for (key, arg) in &step.args {
            match &arg.kind {
                ArgKind::Record(pairs) if matches!(key.value.as_str(), "env" | "headers") => {
                    for (name, value) in pairs {
                        if let ArgKind::Text(value) = &value.kind {
                            given(name, value, out);
                        }
                    }
                }
                // Scripts are checked below.
                _ if matches!(key.value.as_str(), "run" | "inline") => {}
                _ if has_token(arg) => out.push(token(key.span)),
                _ => {}
            }
        }
    });
    for script in view.scripts {
        for range in tokens(&script.content.text) {
            let line = script.content.text[range.clone()].find('\n').map_or(range.end, |end| range.start + end);
            let finding = token(script.content.span(range.start..line));
            out.push(match script.form {
                Form::File { .. } => finding,
                _ => finding.help("read it from the environment: `$NAME`, and `{env.NAME}` under `env`"),
            });
        }
    }
}

/// A prompt with the value of a secret variable: the agent, the provider of its model and its transcript receive it.
fn in_prompt(view: &TaskView<'_>, out: &mut Diagnostics) {
    for hole in view.task.prompt.iter().flat_map(|prompt| prompt.text.holes()) {
        if let Some(name) = leaked(view, hole) {
            out.push(shown(hole.span, name));
        }
    }
}

/// The secret variable whose value a hole of the prompt contains, unless the agent is to log in with it.
pub fn leaked<'t>(view: &TaskView<'t>, hole: &'t Hole<Def>) -> Option<&'t str> {
    let prompt = view.task.prompt.as_ref().filter(|_| !hole.has_default())?;
    let name = read(view.task, &hole.reference.target)?;
    let is_secret = is_credential(name) || is_secret_name(name) && is_sent(view.task, name);
    let said = texts::written(&prompt.text);
    let logs_in = || said.match_indices(&hole.text).any(|(at, _)| LOGS_IN.is_match(&said[sentence(&said, at)]));
    (is_secret && !logs_in()).then_some(name)
}

/// Names of variables that `secrets` of the eval lists, in the prompts of its tasks.
fn listed(view: &EvalView<'_>, out: &mut Diagnostics) {
    if view.eval.secrets.is_empty() {
        return;
    }
    let name_of = |hole: &Hole<Path>| match hole.reference.segments.first().map(|segment| &segment.kind) {
        Some(SegmentKind::Name(name)) if hole.reference.root.text == "env" && !hole.has_default() => Some(name.clone()),
        _ => None,
    };
    for task in view.tasks.iter().filter_map(|unit| unit.task.as_ref()) {
        for hole in task.prompt.iter().flat_map(|prompt| prompt.text.holes()) {
            let Some(name) = name_of(hole) else { continue };
            let own = task.env.iter().find(|(known, _)| known.value == name);
            let name = own.map_or(Some(name), |(_, value)| value.holes().find_map(name_of));
            let secret = name.and_then(|name| view.eval.secrets.iter().find(|secret| secret.value == name));
            if let Some(secret) = secret.filter(|secret| !is_credential(&secret.value)) {
                out.push(shown(hole.span, &secret.value).label(secret.span, "it is declared as a secret here"));
            }
        }
    }
}

fn shown(span: Span, name: &str) -> Diagnostic {
    Diagnostic::new(&SECRET_IN_CLEAR, span, format!("the prompt contains the secret `{name}`"))
        .here("the agent and the provider of its model receive its value")
        .help("configure it in the MCP config, under `env` or `headers` of the server that needs it")
}

/// The variable of gevals' environment that a hole reads, directly or through `spec.env`.
fn read<'t>(task: &'t Task<Def>, target: &'t Target) -> Option<&'t str> {
    match target {
        Target::ProcessEnv(name) => Some(name),
        Target::TaskEnv(name) => {
            let (_, value) = task.env.iter().find(|(known, _)| known.value == *name)?;
            value.holes().filter(|hole| !hole.has_default()).find_map(|hole| match &hole.reference.target {
                Target::ProcessEnv(name) => Some(name.as_str()),
                _ => None,
            })
        }
        _ => None,
    }
}

/// Whether a name is that of a credential, and not of a key as in `PROJECT_KEY` or of something made for a test.
pub fn is_credential(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    let parts: Vec<&str> = upper.split('_').collect();
    let before = parts.len().checked_sub(2).map_or("", |at| parts[at]);
    let is_one = match parts.last() {
        Some(&"KEY") => matches!(before, "API" | "ACCESS" | "SECRET" | "PRIVATE" | "AUTH" | "SIGNING" | "ENCRYPTION"),
        Some(last) => CREDENTIALS.iter().any(|end| last.ends_with(end)),
        None => false,
    };
    is_one && is_secret_name(name) && !parts.iter().any(|part| FOR_TESTS.contains(part))
}

const CREDENTIALS: [&str; 7] = ["TOKEN", "PASSWORD", "PASSWD", "SECRET", "PASSPHRASE", "APIKEY", "CREDENTIALS"];
const FOR_TESTS: [&str; 10] =
    ["TEST", "DEMO", "DUMMY", "FAKE", "EXAMPLE", "SAMPLE", "EVAL", "FIXTURE", "PUBLIC", "PAGE"];
static LOGS_IN: Ascii = ascii(r"(?i)(?-u:\b)(?:log|logs|logged|sign|signs|signed)[ -]?(?:in|on)(?-u:\b)|(?-u:\b)login");

/// Whether a request of the task sends a variable in a secret header, so that it is a credential.
fn is_sent(task: &Task<Def>, name: &str) -> bool {
    let mut sent = false;
    task.walk(&mut |_, step| {
        let Some(ArgKind::Record(headers)) = step.arg("headers").map(|arg| &arg.kind) else { return };
        for (_, value) in headers.iter().filter(|(header, _)| is_secret_name(&header.value)) {
            value.templates(&mut |template| {
                sent |= template.holes().any(|hole| read(task, &hole.reference.target) == Some(name));
            });
        }
    });
    sent
}

fn named(span: Span, name: &str) -> Diagnostic {
    Diagnostic::new(&SECRET_IN_CLEAR, span, format!("the value of `{name}` looks like a hardcoded secret"))
}

fn token(span: Span) -> Diagnostic {
    Diagnostic::new(&SECRET_IN_CLEAR, span, "this looks like a hardcoded secret").help(FROM_ENVIRONMENT)
}

fn variable(name: &str) -> String {
    let upper = name.trim_start_matches('-').to_ascii_uppercase();
    upper.replace(|c: char| !c.is_ascii_alphanumeric(), "_")
}

/// Checks a variable or a header of a server.
fn configured(name: &Name, value: &Expand, out: &mut Diagnostics) {
    let text = value.display();
    if value.has_variables() {
        return;
    }
    if is_secret_name(&name.value) && looks_secret(&text) || tokens(&text).next().is_some() {
        let variable = format!("${{{}}}", variable(&name.value));
        let mut finding = named(name.span, &name.value).help(format!("read it from the environment: `{variable}`"));
        // The text before a header's value is its scheme.
        let scheme = text.trim().rsplit_once(' ').map_or("", |(scheme, _)| scheme);
        if !text.contains(['\n', '=']) && scheme.bytes().all(|b| b.is_ascii_alphabetic()) {
            let written = [scheme, &variable].join(if scheme.is_empty() { "" } else { " " });
            finding = finding.unsafe_fix(format!("write `{variable}`"), value.span, format!("\"{written}\""));
        }
        out.push(finding);
    } else if password(&text).is_some() {
        out.push(named(name.span, &name.value).help("read the password from the environment: `${PASSWORD}`"));
    }
}

/// Checks arguments: `--token VALUE`, `--token=VALUE`, and anything in the format of a token.
fn arguments(args: &[Expand], out: &mut Diagnostics) {
    let mut flag: Option<String> = None;
    for arg in args {
        let text = arg.display();
        let before = flag.take();
        if arg.has_variables() {
            continue;
        }
        let (name, value) = match text.split_once('=') {
            Some((name, value)) if name.starts_with('-') => (Some(name.to_owned()), value),
            _ => (before, text.as_str()),
        };
        let telling = name.filter(|name| is_flag(name)).filter(|_| looks_given(value));
        if let Some(name) = telling {
            let help = format!("read it from the environment: `${{{}}}`", variable(&name));
            out.push(named(arg.span, name.trim_start_matches('-')).help(help));
        } else if tokens(&text).next().is_some() {
            out.push(token(arg.span));
        } else if password(&text).is_some() {
            out.push(named(arg.span, "password").help("read the password from the environment: `${PASSWORD}`"));
        }
        if text.starts_with('-') && !text.contains('=') {
            flag = Some(text);
        }
    }
}

/// Whether the value of an option is a secret. `--token-file` takes the name of a file.
fn is_flag(name: &str) -> bool {
    let last = name.trim_start_matches('-').rsplit(['-', '_', '.']).next().unwrap_or_default();
    name.starts_with('-') && is_secret_name(last) && !matches!(last, "auth" | "key") || name.ends_with("api-key")
}

/// Whether a value looks generated: at least 12 characters, with letters and digits.
fn looks_given(value: &str) -> bool {
    value.len() >= 12
        && value.bytes().any(|b| b.is_ascii_digit())
        && value.bytes().any(|b| b.is_ascii_alphabetic())
        && !value.contains(['/', ':', ','])
        && looks_secret(value)
}

/// Checks a URL for a password or a parameter with a secret name.
fn address(url: &Expand, out: &mut Diagnostics) {
    let text = url.display();
    if password(&text).is_some() {
        out.push(named(url.span, "url").help("read the password from the environment: `${PASSWORD}`"));
        return;
    }
    let query = text.split_once('?').map_or("", |(_, query)| query);
    let pairs = query.split(['&', '#']).filter_map(|pair| pair.split_once('='));
    for (name, value) in pairs.filter(|(_, value)| !value.contains("${")) {
        if is_secret_name(name) && looks_given(value) || tokens(value).next().is_some() {
            let help = format!("read it from the environment: `${{{}}}`", variable(name));
            out.push(named(url.span, name).help(help));
            return;
        }
    }
}

/// Checks a variable or a header that a task passes to a step.
fn given(name: &Name, value: &Template<Def>, out: &mut Diagnostics) {
    let Some(text) = value.as_literal() else {
        if template_has_token(value) {
            out.push(named(name.span, &name.value).help(FROM_ENVIRONMENT));
        }
        return;
    };
    // Credentials for a server that the task itself starts are not secret.
    let drawn = is_secret_name(&name.value) && !text.starts_with("Basic ") && looks_drawn(text);
    if drawn || tokens(text).next().is_some() || password(text).is_some() {
        let help = format!("read it from the environment: `{{env.{}}}`", variable(&name.value));
        out.push(named(name.span, &name.value).help(help));
    }
}

fn has_token(arg: &Arg<Def>) -> bool {
    let mut found = false;
    arg.templates(&mut |t| found |= template_has_token(t));
    found
}

fn template_has_token(template: &Template<Def>) -> bool {
    template.parts.iter().any(|p| matches!(p, Part::Text(text) if tokens(text).next().is_some()))
}
