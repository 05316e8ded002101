//! What the agent cannot do: call tools that its server lacks, access directories outside its roots, use tools that it
//! needs but must not call.

use std::{collections::BTreeMap, sync::LazyLock};

use serde::Deserialize;

use crate::{
    ascii::{Ascii, ascii},
    diagnostic::{Diagnostic, Diagnostics, nearest},
    effects::{Thing, Verb, value::Value},
    hir::{Arg, ArgKind, AssertionKind, CallKind, CallMatcher, Name, OperationKind, PhaseKind, Server, Transport},
    lint::{EvalView, Selecting, UnderView, analysis::texts, eval::unpinned_server::package},
    lock::LockedTool,
    rule,
};

rule! {
    pub static UNLISTED_TOOL = "unlisted-tool", Warning;
    pub static OUT_OF_REACH = "out-of-reach", Warning;
    pub static NEEDED_TOOL_FORBIDDEN = "needed-tool-forbidden", Warning;
}

#[derive(Debug, Deserialize)]
struct Table {
    server: Vec<Known>,
}

/// A widely used server.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Known {
    packages: Vec<String>,
    /// Words in tool names: every tool with such a word is listed.
    families: Vec<String>,
    tools: Vec<String>,
    /// The only tools that create or change Kubernetes resources other than pods.
    #[serde(default)]
    writers: Vec<String>,
    /// Whether its arguments are the directories that it may access.
    #[serde(default)]
    roots: bool,
    /// The arguments of each tool.
    #[serde(default)]
    arguments: BTreeMap<String, Vec<String>>,
}

static KNOWN: LazyLock<Vec<Known>> = LazyLock::new(|| {
    toml::from_str::<Table>(include_str!("known_servers.toml")).map(|table| table.server).unwrap_or_default()
});

/// The name of a package without its version.
fn bare(package: &str) -> &str {
    let version = package.rfind(['@', '=', '>', '<', '~']).filter(|at| *at > 0);
    let name = version.map_or(package, |at| &package[..at]);
    name.trim_end_matches(['=', '>', '<', '~', '!']).split('[').next().unwrap_or(name)
}

fn known(server: &Server) -> Option<&'static Known> {
    let package = package(server)?.display();
    KNOWN.iter().find(|known| known.packages.iter().any(|name| name == bare(&package)))
}

/// A step that calls a tool that its server is not known to have, or passes an argument that the tool is not known to
/// accept.
pub fn steps(view: &UnderView<'_, '_>, out: &mut Diagnostics) {
    let Some(eval) = view.eval else { return };
    view.task.walk(&mut |_, step| {
        let OperationKind::Tool { server, tool } = &step.op.kind else { return };
        if let Some(tools) = eval.unit.lock.tools(server) {
            if let (Some(locked), Some(Arg { kind: ArgKind::Record(args), .. })) = (tools.get(tool), step.arg("args")) {
                unlisted_arguments(tool, locked, args.iter().map(|(name, _)| name), out);
            }
            return;
        }
        let mut servers = eval.unit.mcp.iter().flat_map(|mcp| &mcp.servers);
        let Some(known) = servers.find(|s| s.name.value == *server).and_then(known) else { return };
        if !known.tools.contains(tool) {
            unknown(known, &Name { value: tool.clone(), span: step.key }, out);
        }
        let (Some(takes), Some(args)) = (known.arguments.get(tool), step.arg("args")) else { return };
        let ArgKind::Record(args) = &args.kind else { return };
        for (name, _) in args.iter().filter(|(name, _)| !takes.contains(&name.value)) {
            let finding = Diagnostic::new(
                &UNLISTED_TOOL,
                name.span,
                format!("`{tool}` of `{}` has no known argument `{}`", known.packages[0], name.value),
            );
            let all: Vec<String> = takes.iter().map(|name| format!("`{name}`")).collect();
            let finding = match nearest(&name.value, takes.iter().map(String::as_str)) {
                Some(near) => finding.here(format!("did you mean `{near}`?")),
                None => finding,
            };
            out.push(finding.help(match all.is_empty() {
                true => "it has no arguments; `gevals lock` records the arguments of your version".to_owned(),
                false => format!("its arguments are {}; `gevals lock` records those of your version", all.join(", ")),
            }));
        }
    });
}

/// Arguments that the locked schema of a tool does not list. Most schemas do not forbid others, but most servers ignore
/// them: the step then does something else than it says.
fn unlisted_arguments<'n>(
    tool: &str,
    locked: &LockedTool,
    args: impl Iterator<Item = &'n Name>,
    out: &mut Diagnostics,
) {
    /// Keywords by which a schema can describe arguments outside of its own `properties`.
    const ELSEWHERE: [&str; 9] = [
        "additionalProperties",
        "unevaluatedProperties",
        "patternProperties",
        "$ref",
        "allOf",
        "anyOf",
        "oneOf",
        "if",
        "dependentSchemas",
    ];
    let Some(schema) = locked.input_schema.json().as_object() else { return };
    let Some(properties) = schema.get("properties").and_then(|properties| properties.as_object()) else { return };
    if properties.is_empty() || ELSEWHERE.iter().any(|key| schema.contains_key(*key)) {
        return;
    }
    let args: Vec<&Name> = args.collect();
    // A required argument that is missing is an error, and this one may be its misspelt form.
    let required = schema.get("required").and_then(|required| required.as_array()).into_iter().flatten();
    if required.filter_map(|name| name.as_str()).any(|name| !args.iter().any(|arg| arg.value == name)) {
        return;
    }
    for name in args.into_iter().filter(|name| !properties.contains_key(&name.value)) {
        let message = format!("the schema of `{tool}` in `gevals.lock` has no argument `{}`", name.value);
        let finding = Diagnostic::new(&UNLISTED_TOOL, name.span, message);
        let all: Vec<String> = properties.keys().map(|name| format!("`{name}`")).collect();
        let finding = match nearest(&name.value, properties.keys().map(String::as_str)) {
            Some(near) => finding.here(format!("did you mean `{near}`?")),
            None => finding,
        };
        out.push(finding.help(format!("its arguments are {}; servers usually ignore others", all.join(", "))));
    }
}

/// A tool in an assertion or in `alwaysAllow` that its server, which is not in the lock, is not known to have.
pub fn tools(view: &EvalView<'_>, out: &mut Diagnostics) {
    let sets = view.eval.task_sets.iter().filter_map(|set| set.assertions.as_ref());
    for item in sets.flat_map(|set| &set.items) {
        match &item.kind {
            AssertionKind::AllUsed(CallKind::Tool, list)
            | AssertionKind::AnyUsed(CallKind::Tool, list)
            | AssertionKind::NoneUsed(CallKind::Tool, list) => {
                for CallMatcher { server, name, .. } in list {
                    name.iter().for_each(|name| listed(view, server, name, out));
                }
            }
            AssertionKind::CallOrder(calls) => {
                let tools = calls.iter().filter(|call| call.kind == CallKind::Tool);
                tools.for_each(|call| listed(view, &call.server, &call.name, out));
            }
            _ => {}
        }
    }
    for server in view.unit.mcp.iter().flat_map(|mcp| &mcp.servers) {
        server.always_allow.iter().for_each(|tool| listed(view, &server.name, tool, out));
    }
    // The calls of the scripted agent.
    let calls = view.unit.oracle.iter().flat_map(|oracle| &oracle.tasks).flat_map(|task| &task.calls);
    for call in calls.filter(|call| call.kind == CallKind::Tool) {
        let tools = view.unit.lock.tools(&call.server.value);
        if let Some(tool) = call.name.as_literal()
            && let Some(locked) = tools.and_then(|tools| tools.get(tool))
        {
            unlisted_arguments(tool, locked, call.args.iter().map(|(name, _)| name), out);
        }
    }
}

fn listed(view: &EvalView<'_>, server: &Name, name: &Name, out: &mut Diagnostics) {
    if view.unit.lock.tools(&server.value).is_some() {
        return;
    }
    let mut servers = view.unit.mcp.iter().flat_map(|mcp| &mcp.servers);
    let Some(known) = servers.find(|s| s.name.value == server.value).and_then(known) else { return };
    unknown(known, name, out);
}

/// Reports a tool that a server is not known to have, if the tool belongs to a family whose list is complete.
fn unknown(known: &Known, name: &Name, out: &mut Diagnostics) {
    let text = name.value.as_str();
    let words: Vec<&str> = text.split('_').collect();
    let family = known.families.iter().any(|family| words.contains(&family.as_str()));
    if !family || known.tools.iter().any(|tool| tool == text) {
        return;
    }
    // Tools of the same family.
    let related: Vec<&str> = known
        .tools
        .iter()
        .map(String::as_str)
        .filter(|tool| {
            words.iter().any(|word| known.families.iter().any(|f| f == word) && tool.split('_').any(|own| own == *word))
        })
        .collect();
    let begins = related.iter().copied().find(|tool| tool.starts_with(text));
    let near = begins
        .or_else(|| nearest(text, related.iter().copied()))
        .or(related.first().copied().filter(|_| related.len() == 1))
        .or_else(|| nearest(text, known.tools.iter().map(String::as_str)));
    let mut finding =
        Diagnostic::new(&UNLISTED_TOOL, name.span, format!("`{}` has no known tool `{text}`", known.packages[0]));
    if let Some(near) = near {
        finding = finding.here(format!("did you mean `{near}`?"));
    }
    let all: Vec<String> = related.iter().take(8).map(|tool| format!("`{tool}`")).collect();
    out.push(finding.help(match all.is_empty() {
        true => "`gevals lock` records the tools of your version".to_owned(),
        false => format!("its tools include {}; `gevals lock` records those of your version", all.join(", ")),
    }));
}

/// A file that the task uses and the prompt names, in a directory that the file server cannot access.
pub fn roots(view: &UnderView<'_, '_>, out: &mut Diagnostics) {
    read_only(view, out);
    let (Some(eval), Some(prompt)) = (view.eval, &view.task.prompt) else { return };
    let Some(mcp) = &eval.unit.mcp else { return };
    let mut roots: Vec<String> = Vec::new();
    let mut server_name = None;
    for server in mcp.servers.iter().filter(|server| !server.disabled) {
        // Another server may have other access to files.
        if !known(server).is_some_and(|known| known.roots) {
            return;
        }
        let (Transport::Stdio { args, .. }, Some(package)) = (&server.transport, package(server)) else { return };
        let behind = args.iter().skip_while(|arg| arg.span != package.span).skip(1);
        for arg in behind {
            let text = arg.display();
            if arg.has_variables() || !text.starts_with('/') {
                return;
            }
            roots.push(text.trim_end_matches('/').to_owned());
        }
        server_name = Some(&server.name);
    }
    let Some(name) = server_name.filter(|_| !roots.is_empty()) else { return };
    let said = view.effects.prompt.shown();
    let outside = view.effects.acts.iter().find_map(|act| {
        let path = act.thing.name.as_ref().filter(|_| act.thing.system == "file")?.shown();
        let inside = |root: &String| path == *root || path.starts_with(&format!("{root}/"));
        (path.starts_with('/') && path.len() > 4 && said.contains(&path) && !roots.iter().any(inside)).then_some(path)
    });
    if let Some(path) = outside {
        let all: Vec<String> = roots.iter().map(|root| format!("`{root}`")).collect();
        out.push(
            Diagnostic::new(
                &OUT_OF_REACH,
                prompt.text.span,
                format!("the server `{}` cannot access `{path}`: it is limited to {}", name.value, all.join(" and ")),
            )
            .label(name.span, "its directories are its arguments")
            .help("put the files of the task into such a directory, or configure another one for the server"),
        );
    }
}

/// A prompt that asks for a change, if the eval's only server is read-only.
fn read_only(view: &UnderView<'_, '_>, out: &mut Diagnostics) {
    const CHANGES: [&str; 20] = [
        "create", "delete", "scale", "update", "install", "upgrade", "rename", "write", "add", "remove", "patch",
        "deploy", "restart", "label", "move", "insert", "make", "set", "merge", "change",
    ];
    let (Some(eval), Some(prompt)) = (view.eval, &view.task.prompt) else { return };
    let Some(mcp) = &eval.unit.mcp else { return };
    let mut servers = mcp.servers.iter().filter(|server| !server.disabled);
    let (Some(server), None) = (servers.next(), servers.next()) else { return };
    let Transport::Stdio { args, env, .. } = &server.transport else { return };
    let is_option = |text: &str| {
        let text = text.to_ascii_lowercase();
        matches!(text.as_str(), "--read-only" | "--readonly" | "--read-only=true" | "--readonly=true")
    };
    let option = args.iter().find(|arg| is_option(&arg.display())).map(|arg| arg.span);
    let variable = env.iter().find(|(name, value)| {
        let name = name.value.to_uppercase();
        (name.ends_with("READ_ONLY") || name.ends_with("READONLY")) && matches!(value.display().as_str(), "true" | "1")
    });
    let Some(place) = option.or_else(|| variable.map(|(name, _)| name.span)) else { return };
    let said = view.effects.prompt.shown().to_lowercase();
    // An instruction begins with its verb.
    let asks = said.split(['.', '\n', ';', ',']).find_map(|sentence| {
        let first = sentence.trim().trim_start_matches("then ").trim_start_matches("and ").split_whitespace().next()?;
        CHANGES.iter().find(|verb| **verb == first)
    });
    if let Some(verb) = asks {
        out.push(
            Diagnostic::new(
                &OUT_OF_REACH,
                prompt.text.span,
                format!("the prompt asks to {verb}, but the server `{}` is read-only", server.name.value),
            )
            .label(place, "read-only is set here")
            .help("remove the option, or give the agent another server"),
        );
    }
}

/// `toolsNotUsed: helm_rollback`, although the prompt asks to roll back.
pub fn forbidden(view: &UnderView<'_, '_>, out: &mut Diagnostics) {
    let (Some(eval), Some(prompt)) = (view.eval, &view.task.prompt) else { return };
    if !view.asserted {
        return;
    }
    let said = view.effects.prompt.shown().to_lowercase();
    let items = eval
        .sets
        .iter()
        .filter_map(|&set| eval.eval.task_sets.get(set)?.assertions.as_ref())
        .flat_map(|set| &set.items);
    for item in items {
        let AssertionKind::NoneUsed(CallKind::Tool, list) = &item.kind else { continue };
        for matcher in list.iter().filter(|m| m.arguments.is_none() && succeeds(m) && m.max_duration.is_none()) {
            let names = matcher.name.iter().chain(&matcher.pattern);
            for name in names {
                if let Some(thing) = only_writer(view, eval, matcher, &name.value) {
                    out.push(
                        Diagnostic::new(
                            &NEEDED_TOOL_FORBIDDEN,
                            name.span,
                            format!("verify expects {thing}, but the server has no other tool that creates it"),
                        )
                        .label(prompt.text.span, "the prompt asks for it here")
                        .help("forbid only what the agent must not do, and allow the tool that it needs"),
                    );
                    continue;
                }
                if let Some(verb) = needed(&name.value, &matcher.server.value, &said) {
                    out.push(
                        Diagnostic::new(
                            &NEEDED_TOOL_FORBIDDEN,
                            name.span,
                            format!(
                                "the prompt asks to {verb}, but using the server's tool for it violates this assertion"
                            ),
                        )
                        .label(prompt.text.span, "the prompt asks for it here")
                        .help("forbid only what the agent must not do, and allow the tool that it needs"),
                    );
                }
            }
        }
    }
}

/// Whether a matcher includes all calls that succeed.
fn succeeds(matcher: &CallMatcher) -> bool {
    matcher.status.as_ref().is_none_or(|status| status.value == crate::hir::CallStatus::Ok)
}

/// `toolsUsed: resources_delete`, although the prompt asks to delete nothing.
pub fn unasked(view: &UnderView<'_, '_>, out: &mut Diagnostics) {
    let (Some(eval), Some(prompt), true) = (view.eval, &view.task.prompt, view.asserted) else { return };
    let said = view.effects.prompt.shown();
    let sets = eval.sets.iter().filter_map(|&set| eval.eval.task_sets.get(set)?.assertions.as_ref());
    for item in sets.flat_map(|set| &set.items) {
        let AssertionKind::AllUsed(CallKind::Tool, list) = &item.kind else { continue };
        for name in list.iter().filter_map(|matcher| matcher.name.as_ref()) {
            let deletes = name
                .value
                .split(['_', '-', '.'])
                .any(|word| matches!(word, "delete" | "remove" | "drop" | "uninstall"));
            let restarts = name.value.contains("pod") && said.to_lowercase().contains("restart");
            if deletes && !restarts && !crate::lint::analysis::orders::DELETES.is_match(&said) && !ENDS.is_match(&said)
            {
                out.push(
                    Diagnostic::new(
                        &crate::lint::prompt::disagrees::PROMPT_DISAGREES,
                        name.span,
                        format!("this assertion requires `{}`, but the prompt asks to delete nothing", name.value),
                    )
                    .label(prompt.text.span, "the prompt")
                    .help("if the agent must not delete anything, list the tool under `toolsNotUsed`"),
                );
            }
        }
    }
}

/// Other words for what deletes something.
static ENDS: Ascii = ascii(
    r"(?i)\b(?:clean|clear|purge|prune|replace|move|rename|rid|stop|evict|free|reset|kill|close|cancel|undo|revoke|no longer)\b",
);

/// `toolsUsed: write_file`, although `alwaysAllow` of the server does not list it: the agent is refused the call that
/// the assertion requires.
pub fn refused(view: &EvalView<'_>, out: &mut Diagnostics) {
    if !asks_permission(view) {
        return;
    }
    let permits = |server: &Name, is_it: &dyn Fn(&str) -> bool| {
        let mut servers = view.unit.mcp.iter().flat_map(|mcp| &mcp.servers);
        let Some(server) = servers.find(|known| known.name.value == server.value) else { return true };
        let all = server.disabled || server.always_allow.is_empty() || server.enable_all_tools.is_some_and(|e| e.value);
        // A pattern, or a name with the prefix of a client, is reported by itself.
        let unclear = |name: &str| name.contains('*') || name.contains("__");
        all || server.always_allow.iter().any(|tool| unclear(&tool.value) || is_it(&tool.value))
    };
    let named = |server: &Name, name: &Name| permits(server, &|tool| tool == name.value);
    let matched = |matcher: &CallMatcher| match (&matcher.name, &matcher.pattern) {
        (Some(name), _) => named(&matcher.server, name),
        (None, Some(pattern)) => regex::Regex::new(&pattern.value)
            .map_or(true, |pattern| permits(&matcher.server, &|tool| pattern.is_match(tool))),
        (None, None) => true,
    };
    let mut told: Vec<(&str, &str)> = Vec::new();
    let mut tell = |server: &'_ Name, tool: &'_ Name| {
        let servers = view.unit.mcp.iter().flat_map(|mcp| &mcp.servers);
        let list = servers.filter(|known| known.name.value == server.value).flat_map(|known| &known.always_allow);
        let list: Vec<&Name> = list.collect();
        let (Some(first), Some(last)) = (list.first(), list.last()) else { return };
        let message = format!("this assertion requires `{}`, which the agent is not permitted to call", tool.value);
        out.push(
            Diagnostic::new(&NEEDED_TOOL_FORBIDDEN, tool.span, message)
                .label(first.span.to(last.span), format!("the permitted tools of `{}`", server.value))
                .help("add the tool to `alwaysAllow`, or change the assertion"),
        );
    };
    let sets = view.eval.task_sets.iter().filter_map(|set| set.assertions.as_ref());
    for item in sets.flat_map(|set| &set.items) {
        let lacking: Vec<(&Name, &Name)> = match &item.kind {
            AssertionKind::AllUsed(CallKind::Tool, list) => {
                let lacking = list.iter().filter(|matcher| !matched(matcher));
                lacking.filter_map(|m| Some((&m.server, m.name.as_ref().or(m.pattern.as_ref())?))).collect()
            }
            // One of them is enough.
            AssertionKind::AnyUsed(CallKind::Tool, list) if !list.iter().any(matched) => {
                list.iter().take(1).filter_map(|m| Some((&m.server, m.name.as_ref().or(m.pattern.as_ref())?))).collect()
            }
            AssertionKind::CallOrder(calls) => {
                let tools = calls.iter().filter(|call| call.kind == CallKind::Tool);
                tools.filter(|call| !named(&call.server, &call.name)).map(|call| (&call.server, &call.name)).collect()
            }
            _ => continue,
        };
        for (server, tool) in lacking {
            let pair = (server.value.as_str(), tool.value.as_str());
            if !told.contains(&pair) {
                told.push(pair);
                tell(server, tool);
            }
        }
    }
}

/// Whether the agent of an eval calls only the tools that the MCP config permits.
fn asks_permission(view: &EvalView<'_>) -> bool {
    let model = |kind: &str| kind.ends_with("claude-code") || kind.ends_with("llm-agent") || kind.contains("openai-");
    let Some(agent) = &view.eval.agent else { return false };
    if agent.kind.value != "file" {
        return model(&agent.kind.value);
    }
    let Some(file) = &view.unit.agent else { return false };
    let line = file.commands.as_ref().and_then(|commands| commands.run_prompt.as_ref());
    file.acp.is_some()
        || file.builtin.as_ref().and_then(|own| own.kind.as_ref()).is_some_and(|kind| model(&kind.value))
        || line.is_some_and(|line| line.value.contains(".AllowedToolArgs"))
}

/// What verify expects and setup does not create, if the only server can create it only with forbidden tools. `tool` is
/// a name or a pattern.
fn only_writer(view: &UnderView<'_, '_>, eval: Selecting<'_>, matcher: &CallMatcher, tool: &str) -> Option<String> {
    let mut servers = eval.unit.mcp.as_ref()?.servers.iter().filter(|server| !server.disabled);
    let (server, None) = (servers.next()?, servers.next()) else { return None };
    let known = known(server).filter(|_| server.name.value == matcher.server.value)?;
    let pattern = matcher.pattern.as_ref().and_then(|pattern| regex::Regex::new(&pattern.value).ok());
    let forbids = |writer: &String| match &pattern {
        Some(pattern) => pattern.is_match(writer),
        None => writer == tool,
    };
    if known.writers.is_empty() || !known.writers.iter().all(forbids) || !view.effects.sees(PhaseKind::Setup) {
        return None;
    }
    let made = |thing: &Thing| {
        view.effects.in_phase(PhaseKind::Setup).any(|act| act.verb == Verb::Creates && act.thing.may_be(thing))
    };
    let wanted = view.effects.in_phase(PhaseKind::Verify).find(|act| {
        let thing = &act.thing;
        matches!(act.verb, Verb::Reads | Verb::Awaits)
            && thing.system == "kubernetes"
            && !matches!(
                thing.kind.as_str(),
                "" | "pod" | "namespace" | "event" | "node" | "replicaset" | "endpoints" | "secret"
            )
            && thing.name.as_ref().is_some_and(Value::is_known)
            && !act.maybe
            && !made(thing)
            && thing.name.as_ref().is_some_and(|name| view.effects.prompt.shown().contains(&name.shown()))
    })?;
    Some(format!("the {}", wanted.thing.shown()))
}

/// Verbs in tool names, the forms in which prompts use them, and the particle of a separable form (`roll … back`).
const VERBS: [(&str, &[&str], &str); 14] = [
    ("rollback", &["roll back", "rolled back", "rollback"], "back"),
    ("rename", &["rename"], ""),
    ("scale", &["scale"], ""),
    ("upgrade", &["upgrade"], ""),
    ("install", &["install"], ""),
    ("uninstall", &["uninstall"], ""),
    ("move", &["move"], ""),
    ("restart", &["restart"], ""),
    ("merge", &["merge"], ""),
    ("delete", &["delete", "remove"], ""),
    ("remove", &["delete", "remove"], ""),
    ("create", &["create"], ""),
    ("edit", &["edit"], ""),
    ("close", &["close"], ""),
];

/// The verb of a tool, if the prompt asks for its action on the tool's object. `tool` may be a pattern: each
/// alternative is a name.
fn needed(tool: &str, server: &str, said: &str) -> Option<&'static str> {
    let group = tool.split_once('(').and_then(|(before, rest)| {
        let (inside, behind) = rest.split_once(')')?;
        Some(inside.trim_start_matches("?:").split('|').map(|one| format!("{before}{one}{behind}")).collect())
    });
    let names: Vec<String> = group.unwrap_or_else(|| tool.split('|').map(str::to_owned).collect());
    names.iter().find_map(|name| needed_one(name, server, said))
}

fn needed_one(tool: &str, server: &str, said: &str) -> Option<&'static str> {
    let words: Vec<&str> = tool.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let nouns: Vec<&str> =
        words.iter().copied().filter(|word| *word != server && !VERBS.iter().any(|(verb, ..)| verb == word)).collect();
    let sentences = || said.split(['.', ';', '!', '?', ':']).flat_map(|part| part.split(", and "));
    for (verb, forms, behind) in VERBS.iter().filter(|(verb, ..)| words.contains(verb)) {
        for sentence in sentences() {
            let says = forms.iter().any(|form| texts::has_word(sentence, form))
                || !behind.is_empty() && texts::has_word(sentence, "roll") && texts::has_word(sentence, behind);
            let about = nouns.iter().all(|noun| {
                let one = noun.strip_suffix('s').unwrap_or(noun);
                texts::has_word(sentence, one) || texts::has_word(sentence, &format!("{one}s"))
            });
            if says && about && !NEGATES.is_match(sentence) {
                return Some(if *verb == "rollback" { "roll back" } else { verb });
            }
        }
    }
    None
}

static NEGATES: Ascii = ascii(r"(?-u:\b)(?:not|never|no|without|avoid|instead|rather)(?-u:\b)|n't");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_and_tools_are_known() {
        assert!(!KNOWN.is_empty());
        assert_eq!(
            bare("@modelcontextprotocol/server-filesystem@2026.8.31"),
            "@modelcontextprotocol/server-filesystem"
        );
        assert_eq!(bare("mcp-grafana==0.7.6"), "mcp-grafana");
        assert_eq!(bare("kubernetes-mcp-server"), "kubernetes-mcp-server");
        assert_eq!(needed("^helm_(uninstall|rollback)$", "helm", "roll the\nrelease back to 2"), Some("roll back"));
        assert_eq!(needed("^helm_(uninstall|install)$", "helm", "roll it back. do not install it anew."), None);
        assert_eq!(needed("pods_delete", "kubernetes", "delete the deployment web"), None);
        assert_eq!(needed("pods_delete", "kubernetes", "delete the pod web"), Some("delete"));
        assert_eq!(needed("^(remove|push)_image$", "docker", "delete the image old"), Some("remove"));
    }
}
