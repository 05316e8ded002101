//! Eval files (§2 of the upstream behaviour).

use indexmap::IndexMap;

use crate::{
    decode::{self, Fields, Leniency, Partial, Reader, key},
    diagnostic::{Diagnostic, Diagnostics},
    hir::{
        AgentRef, Assertion, AssertionKind, Assertions, Budget, CallKind, CallMatcher, CallStatus, Denied, DeniedWhat,
        Eval, ExtensionOptions, ExtensionRef, IsolationRef, JudgeEnv, JudgeRef, KubeWorld, Limits, Name, OrderedCall,
        Sandbox, SkillMatcher, Skills, SourceRef, Substitute, TaskSet,
    },
    rule,
    source::{FileId, Span, Spanned},
    yaml::{Data, Entry, Node, Style},
};

rule! {
    pub static TASK_SET_SHAPE = "task-set-shape", Hard;
    pub static INVALID_EVAL_NAME = "invalid-eval-name", Hard;
    pub static ALWAYS_TRUE_ASSERTION = "always-true-assertion", Verdict;
    pub static INVALID_ASSERTION = "invalid-assertion", Hard;
    pub static NO_AGENT = "no-agent", Hard;
}

/// Decodes an eval file.
pub fn decode(root: Node<'_>, file: FileId, dir: &std::path::Path, out: &mut Diagnostics) -> Partial<Eval> {
    let mut reader = Reader::new(out, Leniency::Config);
    match eval(&mut reader, root, file, dir) {
        Some(eval) => reader.finish(eval),
        None => Partial { value: None, reported: reader.finish(()).reported },
    }
}

fn eval(reader: &mut Reader<'_>, root: Node<'_>, file: FileId, dir: &std::path::Path) -> Option<Eval> {
    let mut fields = reader.fields(root, "an eval")?;
    let head = root.entries().next().map_or(root.span().head(), |e| e.key.span());
    super::envelope(&mut fields, reader);
    let mut name = Spanned::new(String::new(), head);
    let help = "add `metadata: {name: …}`: results are named after the eval";
    match fields.require_entry(reader, "metadata", head, Some(help)) {
        None => {}
        Some(entry) => {
            if let Some(mut meta) = reader.fields(entry.value, "an eval's metadata") {
                if let Some(node) = meta.require(reader, "name", entry.key.span())
                    && let Some(found) = reader.name(node, "the name of an eval")
                {
                    name = eval_name(reader, found);
                }
                for carried in ["description", "annotations", "category", "labels"] {
                    meta.take(reader, carried);
                }
                meta.finish(reader);
            }
        }
    }
    let help = "`agent`, servers and task sets belong under `config`";
    let config = fields.require_entry(reader, "config", head, Some(help));
    fields.finish(reader);
    let config = config?;
    let mut fields = reader.fields(config.value, "an eval's config")?;
    let mut eval = Eval {
        file,
        dir: dir.to_owned(),
        name,
        config: config.key.span(),
        agent: None,
        isolation: None,
        mcp_config: None,
        judge: None,
        extensions: Vec::new(),
        extension_options: ExtensionOptions::default(),
        sources: Vec::new(),
        skills: None,
        world: None,
        default_limits: Limits::default(),
        budget: Budget::default(),
        secrets: Vec::new(),
        task_sets: Vec::new(),
    };
    match fields.take(reader, "agent") {
        Some(node) => eval.agent = agent_ref(reader, node, Some(&mut eval.isolation)),
        None => {
            let old = fields.remaining().iter().any(|e| e.name == "agentFile");
            let old = if old { fields.take_entry(reader, "agentFile") } else { None };
            let none = match old {
                Some(old) => {
                    let key = old.key.span();
                    let diagnostic = Diagnostic::new(&NO_AGENT, key, "the eval has no agent: `agentFile` was removed")
                        .help("write `agent: {type: file, path: FILE}`");
                    match old.value.as_str() {
                        Some(path) if old.value.style() != Style::Block => {
                            let path = if old.value.is_plain() { path.to_owned() } else { decode::quote(path) };
                            let new = format!("agent: {{type: file, path: {path}}}");
                            diagnostic.fix("replace it with `agent`", key.to(old.value.span()), new)
                        }
                        _ => diagnostic,
                    }
                }
                None => Diagnostic::new(&NO_AGENT, config.key.span(), "the eval has no agent")
                    .help("write `agent: {type: file, path: …}` or `agent: {type: builtin.claude-code}`"),
            };
            if !fields.misspells(["agent"]) {
                reader.error(none);
            }
        }
    }
    if let Some(node) = fields.take(reader, "mcpConfigFile") {
        eval.mcp_config = reader.name(node, "`mcpConfigFile`");
    }
    if let Some(node) = fields.take(reader, "llmJudge") {
        eval.judge = judge(reader, node);
    }
    if let Some(node) = fields.take(reader, "extensions") {
        eval.extensions = extensions(reader, node, &mut eval.extension_options);
    }
    if let Some(node) = fields.take(reader, "sources") {
        eval.sources = sources(reader, node);
    }
    if let Some(node) = fields.take(reader, "skills") {
        eval.skills = skills(reader, node);
    }
    if let Some(node) = fields.take(reader, "world") {
        eval.world = world(reader, node);
    }
    if let Some(node) = fields.take(reader, "defaultTaskLimits")
        && let Some(mut limits) = reader.fields(node, "the default limits of an eval")
    {
        if let Some(node) = limits.take(reader, "timeout") {
            eval.default_limits.timeout = reader.duration(node, "the default timeout");
        }
        if let Some(node) = limits.take(reader, "cleanupTimeout") {
            eval.default_limits.cleanup_timeout = reader.duration(node, "the default cleanupTimeout");
        }
        eval.default_limits.bounds = super::bounds(reader, &mut limits);
        limits.finish(reader);
    }
    if let Some(node) = fields.take(reader, "limits")
        && let Some(mut limits) = reader.fields(node, "the limits of an eval")
    {
        if let Some(node) = limits.take(reader, "maxTime") {
            eval.budget.time = reader.duration(node, "`maxTime`").map(|time| time.value);
        }
        eval.budget.bounds = super::bounds(reader, &mut limits);
        limits.finish(reader);
    }
    if let Some(node) = fields.take(reader, "secrets") {
        eval.secrets = super::variables(reader, node, "`secrets`");
    }
    let help = "write `taskSets: [{glob: \"tasks/*.yaml\"}]`";
    match fields.require_entry(reader, "taskSets", config.key.span(), Some(help)) {
        None => {}
        Some(entry) => {
            let items = match entry.value.as_str() {
                Some(_) => {
                    reader.error(tasks_in_a_word(entry.value, "`taskSets`", "a list"));
                    Vec::new()
                }
                None => reader.items(entry.value, "`taskSets`"),
            };
            if items.is_empty() && matches!(entry.value.data(), Data::Seq) {
                reader.error(
                    Diagnostic::new(&TASK_SET_SHAPE, entry.key.span(), "the eval has no tasks")
                        .help("list at least one task set"),
                );
            }
            eval.task_sets = items.into_iter().filter_map(|item| task_set(reader, item)).collect();
        }
    }
    fields.finish(reader);
    Some(eval)
}

const LONGEST_NAME: usize = 200;

fn eval_name(reader: &mut Reader<'_>, name: Name) -> Name {
    if let Some(bad) = name.value.chars().find(|c| matches!(c, '/' | '\\') || c.is_control()) {
        reader.error(
            Diagnostic::new(
                &INVALID_EVAL_NAME,
                name.span,
                format!("the name of an eval cannot contain `{}`", bad.escape_default()),
            )
            .help("the results file is named after the eval"),
        );
    }
    // With the prefix and the suffix, the name must fit into the 255 bytes that file systems allow for a file name.
    if name.value.len() > LONGEST_NAME {
        let message =
            format!("the name of an eval has {} bytes, but at most {LONGEST_NAME} are allowed", name.value.len());
        reader.error(
            Diagnostic::new(&INVALID_EVAL_NAME, name.span, message).help("the results file is named after the eval"),
        );
    }
    name
}

/// The error for `tasks/*.yaml` where a task set, or a list of them, is expected.
fn tasks_in_a_word(node: Node<'_>, what: &str, wanted: &str) -> Diagnostic {
    let diagnostic = decode::mistyped(node, wanted, what);
    let text = node.as_str().unwrap_or_default();
    let is_file = [".yaml", ".yml", ".json"].iter().any(|end| text.ends_with(end));
    let (key, word) = match text.contains(['*', '?', '[', '{']) {
        true => ("glob", decode::flow_word(node)),
        false if is_file => ("path", decode::flow_word(node)),
        false => ("glob", decode::quote(&format!("{}/*.yaml", text.trim_end_matches('/')))),
    };
    let (open, close) = if wanted == "a list" { ("[", "]") } else { ("", "") };
    diagnostic.help(format!("write `- {key}: {word}`")).fix(
        format!("use `{key}`"),
        node.span(),
        format!("{open}{{{key}: {word}}}{close}"),
    )
}

/// The error for `builtin.claude-code` where a mapping with this type is expected.
fn agent_in_a_word(node: Node<'_>) -> Diagnostic {
    let diagnostic = decode::mistyped(node, "a mapping", "a reference to an agent");
    let text = node.as_str().unwrap_or_default();
    let bare = text.trim_start_matches("builtin.");
    let whole = match bare {
        "claude-code" | "noop" => Some(format!("{{type: builtin.{bare}}}")),
        _ if [".yaml", ".yml", ".json"].iter().any(|end| text.ends_with(end)) => {
            Some(format!("{{type: file, path: {}}}", decode::flow_word(node)))
        }
        _ => None,
    };
    if let Some(whole) = whole {
        return diagnostic.help(format!("write `{whole}`")).fix("write a mapping", node.span(), whole);
    }
    diagnostic.help(match bare {
        "script" | "replay" => format!("write `{{type: builtin.{bare}, path: FILE}}`"),
        "llm-agent" | "openai-agent" | "openai-acp" => {
            "write `{type: builtin.llm-agent, model: PROVIDER:MODEL}`".to_owned()
        }
        _ => "write `{type: file, path: FILE}`, or `{type: builtin.claude-code}`".to_owned(),
    })
}

/// Reads an agent, or a judge's agent, which has no isolation of its own.
fn agent_ref(
    reader: &mut Reader<'_>,
    node: Node<'_>,
    isolation: Option<&mut Option<IsolationRef>>,
) -> Option<AgentRef> {
    if node.as_str().is_some() {
        reader.error(agent_in_a_word(node));
        return None;
    }
    let mut fields = reader.fields(node, "a reference to an agent")?;
    let path = fields.take(reader, "path");
    let help = match path {
        Some(_) => {
            "write `type: file` for an agent file; other types are `builtin.llm-agent`, `builtin.claude-code` and `builtin.script`"
        }
        None => "write `type: builtin.llm-agent` and a `model`, or `type: file` and the `path` of an agent file",
    };
    let kind = fields.require_entry(reader, "type", node.span(), Some(help)).map(|entry| entry.value);
    let model = fields.take(reader, "model");
    if let Some(isolation) = isolation
        && let Some(node) = fields.take(reader, "isolation")
    {
        *isolation = super::isolation(reader, node);
    }
    fields.finish(reader);
    Some(AgentRef {
        kind: reader.name(kind?, "the type of an agent")?,
        path: path.and_then(|n| reader.name(n, "the path of an agent")),
        model: model.and_then(|n| reader.name(n, "the model of an agent")),
        span: node.span(),
    })
}

fn judge(reader: &mut Reader<'_>, node: Node<'_>) -> Option<JudgeRef> {
    let mut fields = reader.fields(node, "a judge")?;
    let agent = fields.take(reader, "ref");
    let env = fields.take(reader, "env");
    if agent.is_none() && env.is_none() && fields.remaining().iter().any(|e| e.name == "type") {
        reader.error(judge_without_ref(node));
        return None;
    }
    let misspelt = agent.is_none() && env.is_none() && fields.misspells(["ref", "env"]);
    fields.finish(reader);
    if misspelt {
        return None;
    }
    if agent.is_none() && env.is_none() {
        reader.error(
            Diagnostic::new(&decode::MISSING_FIELD, node.span(), "the judge has no agent")
                .help("write `llmJudge: {ref: {type: builtin.llm-agent, model: PROVIDER:MODEL}}`"),
        );
        return None;
    }
    let agent = agent.and_then(|n| agent_ref(reader, n, None));
    let env = env.and_then(|n| {
        let mut fields = reader.fields(n, "the environment of a judge")?;
        let mut take = |reader: &mut Reader<'_>, key| {
            let node = fields.require(reader, key, n.span())?;
            reader.name(node, "the name of a variable")
        };
        let env = JudgeEnv {
            base_url: take(reader, "baseUrlKey"),
            api_key: take(reader, "apiKeyKey"),
            model_name: take(reader, "modelNameKey"),
        };
        fields.finish(reader);
        Some(env)
    });
    Some(JudgeRef { span: node.span(), agent, env })
}

/// The error for `llmJudge: {type: …, model: …}`: the agent belongs one level deeper.
fn judge_without_ref(node: Node<'_>) -> Diagnostic {
    let written: Vec<_> = node.entries().map(|e| format!("{}: …", e.name)).collect();
    let diagnostic = Diagnostic::new(&decode::MISSING_FIELD, node.span(), "the agent of a judge belongs under `ref`")
        .help(format!("write `llmJudge: {{ref: {{{}}}}}`", written.join(", ")));
    let description = "move it under `ref`";
    let on_one_line = |e: crate::yaml::Entry<'_>| !e.value.written().contains('\n') && e.value.text().is_some();
    let entries = || node.entries();
    match node.style() {
        Style::Flow => diagnostic.fix(description, node.span(), format!("{{ref: {}}}", node.written())),
        _ if entries().all(on_one_line) => {
            let mut diagnostic = diagnostic;
            for (nth, entry) in entries().enumerate() {
                let deeper = match nth {
                    0 => format!("ref:\n{}", " ".repeat(entry.key.column() + 2)),
                    _ => "  ".to_owned(),
                };
                diagnostic = diagnostic.fix(description, entry.key.span().head(), deeper);
            }
            diagnostic
        }
        _ => diagnostic,
    }
}

/// Keys of `extensions:` that are options of the extension runner, and share the mapping with the aliases
/// (`decisions.md` §2).
pub const EXTENSION_OPTIONS: [&str; 6] = ["cacheDir", "timeout", "sandbox", "allowedSources", "deny", "substitute"];

fn extensions(reader: &mut Reader<'_>, node: Node<'_>, options: &mut ExtensionOptions) -> Vec<ExtensionRef> {
    if !matches!(node.data(), Data::Map) {
        reader.wrong_type(node, "a mapping from an alias to an extension", "`extensions`");
        return Vec::new();
    }
    let mut out = Vec::new();
    for entry in reader.present(node) {
        if EXTENSION_OPTIONS.contains(&entry.name) {
            extension_option(reader, entry, options);
            continue;
        }
        let Some(mut fields) = reader.fields(entry.value, "an extension") else { continue };
        let help = "write `package: github.com/OWNER/REPOSITORY@VERSION`, or the path of a program";
        let package = fields.require_entry(reader, "package", entry.key.span(), Some(help)).map(|e| e.value);
        let env = fields.take(reader, "env").map(|n| reader.strings(n, "the environment of an extension"));
        let config = fields.take(reader, "config");
        let permissions = fields.take(reader, "permissions").and_then(|n| super::permissions(reader, n));
        let permissions = permissions.unwrap_or_default();
        fields.finish(reader);
        out.push(ExtensionRef {
            alias: key(entry),
            package: package.and_then(|n| reader.name(n, "the package of an extension")),
            env: env.into_iter().flatten().map(|(k, v)| (Spanned::new(k, v.span), v.value)).collect(),
            config: config.map(Node::to_json).unwrap_or_default(),
            permissions,
            span: entry.key.span(),
        });
    }
    out
}

/// Reads `kube`, `{kube: namespace}` or `{kube: api}`.
fn world(reader: &mut Reader<'_>, node: Node<'_>) -> Option<KubeWorld> {
    if node.as_str().is_some() {
        return super::choice(reader, node, "world of an eval", &[("kube", KubeWorld::Namespace)]);
    }
    let mut fields = reader.fields(node, "the world of an eval")?;
    let kube = fields.require(reader, "kube", node.span());
    fields.finish(reader);
    let words = [KubeWorld::Namespace, KubeWorld::Api].map(|world| (world.name(), world));
    super::choice(reader, kube?, "share of a control plane", &words)
}

/// Reads an option for how extensions are fetched and run.
fn extension_option(reader: &mut Reader<'_>, entry: Entry<'_>, options: &mut ExtensionOptions) {
    const SANDBOXES: [Sandbox; 5] = [Sandbox::None, Sandbox::Auto, Sandbox::Landlock, Sandbox::Bwrap, Sandbox::Docker];
    match entry.name {
        "timeout" => options.timeout = reader.duration(entry.value, "the timeout of extensions"),
        "cacheDir" => options.cache_dir = reader.name(entry.value, "`cacheDir`"),
        "allowedSources" => {
            let patterns = reader.words(entry.value, "`allowedSources`");
            for pattern in &patterns {
                if let Err(diagnostic) = package_pattern(&pattern.value, pattern.span) {
                    reader.error(*diagnostic);
                }
            }
            options.allowed_sources = Some(patterns);
        }
        "deny" => {
            let items = reader.items(entry.value, "`deny`");
            options.denied = items.into_iter().filter_map(|item| denied(reader, item)).collect();
        }
        "substitute" => {
            let words = [("auto", Substitute::Auto), ("never", Substitute::Never)];
            options.substitute =
                super::choice(reader, entry.value, "value of `substitute`", &words).unwrap_or_default();
        }
        _ => {
            let words = SANDBOXES.map(|sandbox| (sandbox.name(), sandbox));
            options.sandbox = super::choice(reader, entry.value, "sandbox of extensions", &words).unwrap_or_default();
        }
    }
}

/// Compiles a glob pattern of packages.
fn package_pattern(text: &str, span: Span) -> Result<globset::GlobMatcher, Box<Diagnostic>> {
    globset::Glob::new(text).map(|glob| glob.compile_matcher()).map_err(|error| {
        let message = format!("`{text}` is not a valid pattern: {}", error.kind());
        let diagnostic = Diagnostic::new(&decode::INVALID_PATTERN, span, message);
        Box::new(diagnostic.help("write a package pattern, such as `github.com/OWNER/*`"))
    })
}

/// Reads an entry of `deny`: a package or a digest, and the reason.
fn denied(reader: &mut Reader<'_>, node: Node<'_>) -> Option<Denied> {
    let mut fields = reader.fields(node, "an entry of `deny`")?;
    let package = fields.take(reader, "package");
    let digest = fields.take(reader, "digest");
    let reason = fields.require(reader, "reason", node.span());
    fields.finish(reader);
    let reason = reason.and_then(|node| reader.name(node, "the reason of a denial"));
    let what = match (package, digest) {
        (Some(node), None) => {
            let package = reader.name(node, "the package of a denial")?;
            let (pattern, versions) = match package.value.split_once('@') {
                Some((pattern, versions)) => (pattern, Some(versions)),
                None => (package.value.as_str(), None),
            };
            let versions = versions.map(semver::VersionReq::parse).transpose().map_err(|error| {
                let message = format!("`{}` is not a valid version range: {error}", package.value);
                let help =
                    "write `PACKAGE@RANGE`, such as `github.com/OWNER/REPO@<1.4.0`; without `@`, all versions match";
                Box::new(Diagnostic::new(&decode::INVALID_PATTERN, package.span, message).help(help))
            });
            let parts = package_pattern(pattern, package.span).and_then(|pattern| Ok((pattern, versions?)));
            match parts {
                Ok((pattern, versions)) => DeniedWhat::Package(pattern, versions),
                Err(diagnostic) => {
                    reader.error(*diagnostic);
                    return None;
                }
            }
        }
        (None, Some(node)) => {
            let digest = reader.name(node, "the digest of a denial")?;
            let hex = digest.value.strip_prefix("sha256:").unwrap_or(&digest.value).to_ascii_lowercase();
            if hex.len() != 64 || !hex.bytes().all(|b| b.is_ascii_hexdigit()) {
                let message = format!("`{}` is not a SHA-256 digest", digest.value);
                reader.error(
                    Diagnostic::new(&decode::WRONG_TYPE, digest.span, message)
                        .help("write `sha256:` and 64 hex digits"),
                );
                return None;
            }
            DeniedWhat::Digest(hex)
        }
        _ => {
            let message = "an entry of `deny` must have either a `package` or a `digest`";
            reader.error(
                Diagnostic::new(&decode::MISSING_FIELD, node.span(), message)
                    .help("write `{package: PACKAGE@RANGE, reason: …}` or `{digest: sha256:…, reason: …}`"),
            );
            return None;
        }
    };
    Some(Denied { what, reason: reason?, span: node.span() })
}

fn sources(reader: &mut Reader<'_>, node: Node<'_>) -> Vec<SourceRef> {
    if !matches!(node.data(), Data::Map) {
        reader.wrong_type(node, "a mapping from a name to a source", "`sources`");
        return Vec::new();
    }
    let mut out = Vec::new();
    for entry in reader.present(node) {
        let Some(mut fields) = reader.fields(entry.value, "a source") else { continue };
        let repo = fields.require(reader, "repo", entry.key.span());
        let reference = fields.require(reader, "ref", entry.key.span());
        let mapping = fields.take(reader, "serverMapping");
        fields.finish(reader);
        out.push(SourceRef {
            name: key(entry),
            repo: repo.and_then(|n| reader.name(n, "the repository of a source")),
            reference: reference.and_then(|n| reader.name(n, "the ref of a source")),
            server_mapping: mapping.map(|n| reader.strings(n, "a mapping of servers")).unwrap_or_default(),
            span: entry.key.span(),
        });
    }
    out
}

fn skills(reader: &mut Reader<'_>, node: Node<'_>) -> Option<Skills> {
    let mut fields = reader.fields(node, "the skills of an eval")?;
    let mut sources = Vec::new();
    if let Some(list) = fields.take(reader, "sources") {
        for item in reader.items(list, "`sources`") {
            let Some(mut source) = reader.fields(item, "a source of skills") else { continue };
            let kind = source.require(reader, "type", item.span());
            let path = source.require(reader, "path", item.span());
            source.finish(reader);
            if let Some(kind) = kind.and_then(|n| reader.name(n, "the type of a source of skills"))
                && kind.value != "path"
            {
                reader.error(
                    Diagnostic::new(
                        &decode::WRONG_TYPE,
                        kind.span,
                        format!("unknown type of skill source `{}`", kind.value),
                    )
                    .help("expected `path`")
                    .fix("write `path`", kind.span, "path"),
                );
            }
            sources.extend(path.and_then(|n| reader.name(n, "the path of a source of skills")));
        }
    }
    fields.finish(reader);
    Some(Skills { span: node.span(), sources })
}

fn task_set(reader: &mut Reader<'_>, node: Node<'_>) -> Option<TaskSet> {
    if node.as_str().is_some() {
        reader.error(tasks_in_a_word(node, "a task set", "a mapping"));
        return None;
    }
    let mut fields = reader.fields(node, "a task set")?;
    let path = fields.take_entry(reader, "path");
    let glob = fields.take_entry(reader, "glob");
    let source = fields.take(reader, "source");
    let selector = fields.take(reader, "labelSelector");
    let asserted = fields.take_entry(reader, "assertions");
    let misspelt = path.is_none() && glob.is_none() && fields.misspells(["path", "glob"]);
    fields.finish(reader);
    match (path, glob) {
        (None, None) if misspelt => {}
        (Some(path), Some(glob)) => reader.error(
            Diagnostic::new(
                &TASK_SET_SHAPE,
                glob.key.span(),
                "a task set must have either a `path` or a `glob`, not both",
            )
            .label(path.key.span(), "also specified here")
            .help("write two task sets"),
        ),
        (None, None) => reader.error(
            Diagnostic::new(
                &TASK_SET_SHAPE,
                node.span(),
                "this task set selects nothing: it has neither `path` nor `glob`",
            )
            .help("write `path: FILE` or `glob: PATTERN`"),
        ),
        _ => {}
    }
    Some(TaskSet {
        path: path.and_then(|e| reader.name(e.value, "the path of a task set")),
        glob: glob.and_then(|e| reader.name(e.value, "the glob of a task set")),
        source: source.and_then(|n| reader.name(n, "the source of a task set")),
        selector: selector.map(|n| reader.strings(n, "a label selector")).unwrap_or_default(),
        assertions: asserted.and_then(|e| assertions(reader, e.value)),
    })
}

/// Reads the thirteen kinds of assertions (§5.5.2) and their arguments.
fn assertions(reader: &mut Reader<'_>, node: Node<'_>) -> Option<Assertions> {
    let mut fields = reader.fields(node, "assertions")?;
    let mut items = Vec::new();
    type Make = fn(CallKind, Vec<CallMatcher>) -> AssertionKind;
    let lists: [(&'static str, CallKind, Make); 7] = [
        ("toolsUsed", CallKind::Tool, AssertionKind::AllUsed),
        ("requireAny", CallKind::Tool, AssertionKind::AnyUsed),
        ("toolsNotUsed", CallKind::Tool, AssertionKind::NoneUsed),
        ("resourcesRead", CallKind::Resource, AssertionKind::AllUsed),
        ("resourcesNotRead", CallKind::Resource, AssertionKind::NoneUsed),
        ("promptsUsed", CallKind::Prompt, AssertionKind::AllUsed),
        ("promptsNotUsed", CallKind::Prompt, AssertionKind::NoneUsed),
    ];
    for (name, kind, make) in lists {
        let Some(entry) = fields.take_entry(reader, name) else { continue };
        let list = reader.items(entry.value, &format!("`{name}`"));
        let matchers: Vec<_> = list.into_iter().filter_map(|item| matcher(reader, item, kind)).collect();
        push_list(reader, &mut items, entry, matchers, |m| make(kind, m));
    }
    for (name, make) in [
        ("minToolCalls", AssertionKind::MinToolCalls as fn(u64) -> AssertionKind),
        ("maxToolCalls", AssertionKind::MaxToolCalls),
    ] {
        let Some(entry) = fields.take_entry(reader, name) else { continue };
        let Some(n) = reader.integer(entry.value, &format!("`{name}`")) else { continue };
        match u64::try_from(n.value) {
            Ok(count) => items.push(Assertion { key: key(entry), span: n.span, kind: make(count) }),
            Err(_) => reader.error(Diagnostic::new(&INVALID_ASSERTION, n.span, format!("`{name}` cannot be negative"))),
        }
    }
    if let Some(entry) = fields.take_entry(reader, "callOrder") {
        let list = reader.items(entry.value, "`callOrder`");
        let calls: Vec<_> = list.into_iter().filter_map(|item| ordered(reader, item)).collect();
        push_list(reader, &mut items, entry, calls, AssertionKind::CallOrder);
    }
    if let Some(entry) = fields.take_entry(reader, "noDuplicateCalls")
        && let Some(on) = reader.bool(entry.value, "`noDuplicateCalls`")
    {
        if !on.value {
            reader.out.push(
                Diagnostic::new(&ALWAYS_TRUE_ASSERTION, on.span, "`noDuplicateCalls: false` has no effect")
                    .strength(crate::diagnostic::Strength::Warning)
                    .help("remove it, or write `true`"),
            );
        }
        items.push(Assertion { key: key(entry), span: on.span, kind: AssertionKind::NoDuplicateCalls(on.value) });
    }
    for (name, make) in [
        ("skillsLoaded", AssertionKind::SkillsLoaded as fn(Vec<SkillMatcher>) -> AssertionKind),
        ("skillsNotLoaded", AssertionKind::SkillsNotLoaded),
    ] {
        let Some(entry) = fields.take_entry(reader, name) else { continue };
        let list = reader.items(entry.value, &format!("`{name}`"));
        let skills: Vec<_> = list.into_iter().filter_map(|item| skill(reader, item)).collect();
        push_list(reader, &mut items, entry, skills, make);
    }
    fields.finish(reader);
    items.sort_by_key(|i| i.key.span.start);
    Some(Assertions { items })
}

/// Adds an assertion. An empty list counts as not configured (§5.5.2), which is never what its author means.
fn push_list<T>(
    reader: &mut Reader<'_>,
    items: &mut Vec<Assertion>,
    entry: crate::yaml::Entry<'_>,
    list: Vec<T>,
    make: impl FnOnce(Vec<T>) -> AssertionKind,
) {
    if matches!(entry.value.data(), Data::Seq) && entry.value.items().next().is_none() {
        reader.out.push(
            Diagnostic::new(
                &ALWAYS_TRUE_ASSERTION,
                entry.key.span(),
                format!("`{}` is empty: it has no effect", entry.name),
            )
            .help("add items, or remove the key"),
        );
        return;
    }
    if !list.is_empty() {
        items.push(Assertion { key: key(entry), span: entry.key.span().to(entry.value.span()), kind: make(list) });
    }
}

/// The error for `toolsUsed: [pods_list]`: a tool belongs to a server.
fn call_in_a_word(node: Node<'_>, what: &str, more: &str) -> Diagnostic {
    let help = format!("write `{{server: SERVER, {more}: {}}}`", decode::flow_word(node));
    decode::mistyped(node, "a mapping", what).help(help)
}

/// Reads `server`. Must be called after all other keys are read, so that a misspelled one is found.
fn server(reader: &mut Reader<'_>, fields: &mut Fields<'_>, node: Node<'_>) -> Option<Name> {
    match fields.take(reader, "server") {
        Some(n) => reader.name(n, "the server of an assertion"),
        None if fields.misspells(["server"]) => None,
        None => {
            reader.error(
                Diagnostic::new(&INVALID_ASSERTION, node.span(), "`server` is missing, so this can never match a call")
                    .help("add `server:` with a name from the MCP config"),
            );
            None
        }
    }
}

fn matcher(reader: &mut Reader<'_>, node: Node<'_>, kind: CallKind) -> Option<CallMatcher> {
    let (name_key, pattern_key, what) = match kind {
        CallKind::Tool => ("tool", "toolPattern", "an assertion about tools"),
        CallKind::Resource => ("uri", "uriPattern", "an assertion about resources"),
        CallKind::Prompt => ("prompt", "promptPattern", "an assertion about prompts"),
    };
    if node.as_str().is_some() {
        reader.error(call_in_a_word(node, what, name_key));
        return None;
    }
    let mut fields = reader.fields(node, what)?;
    let name = fields.take(reader, name_key).and_then(|n| reader.name(n, &format!("`{name_key}`")));
    let pattern = fields.take(reader, pattern_key).and_then(|n| reader.name(n, &format!("`{pattern_key}`")));
    let arguments = if kind == CallKind::Resource { None } else { fields.take(reader, "argumentsMatch") };
    let status = fields.take(reader, "status");
    let max_duration = fields.take(reader, "maxDuration").and_then(|n| reader.duration(n, "`maxDuration`"));
    let server = server(reader, &mut fields, node);
    fields.finish(reader);
    let mut argument_places = Vec::new();
    let arguments = arguments.and_then(|n| match n.data() {
        Data::Map => {
            argument_places.extend(n.entries().map(|entry| (key(entry), entry.value.span())));
            let value = match kind {
                // Arguments of prompts are strings (MCP), so a number would never be equal.
                CallKind::Prompt => {
                    let present = reader.present(n);
                    let text = |entry: crate::yaml::Entry<'_>| {
                        let what = format!("the argument `{}` of a prompt", entry.name);
                        Some((entry.name.to_owned(), reader.string(entry.value, &what)?.value.into()))
                    };
                    serde_json::Value::Object(present.into_iter().map(text).collect::<Option<_>>()?)
                }
                _ => n.to_json(),
            };
            Some(Spanned::new(value, n.span()))
        }
        _ => {
            reader.wrong_type(n, "a mapping from an argument to a value", "`argumentsMatch`");
            None
        }
    });
    let status = status.and_then(|n| {
        let word = reader.string(n, "`status`")?;
        let status = match word.value.as_str() {
            "ok" => CallStatus::Ok,
            "toolError" => CallStatus::ToolError,
            "protocolError" => CallStatus::ProtocolError,
            other => {
                reader.error(
                    Diagnostic::new(&INVALID_ASSERTION, word.span, format!("unknown call status `{other}`"))
                        .help("expected `ok`, `toolError` or `protocolError`"),
                );
                return None;
            }
        };
        Some(Spanned::new(status, word.span))
    });
    if let Some(pattern) = &pattern {
        regex(reader, pattern);
    }
    Some(CallMatcher {
        span: node.span(),
        server: server?,
        name,
        pattern,
        arguments,
        argument_places,
        status,
        max_duration,
    })
}

/// Checks a pattern. A pattern that does not compile would silently never match (`tests/coverage.md` E3).
fn regex(reader: &mut Reader<'_>, pattern: &Name) {
    if let Err(diagnostic) = decode::check_pattern(&pattern.value, pattern.span) {
        reader.error(*diagnostic);
    }
}

fn ordered(reader: &mut Reader<'_>, node: Node<'_>) -> Option<OrderedCall> {
    if node.as_str().is_some() {
        reader.error(call_in_a_word(node, "an item of `callOrder`", "type: tool, name"));
        return None;
    }
    let mut fields = reader.fields(node, "an item of `callOrder`")?;
    let mut one = |key, help| fields.require_entry(reader, key, node.span(), Some(help)).map(|e| e.value);
    let kind = one("type", "add `type: tool`, `resource` or `prompt`");
    let name = one("name", "add `name:` with the name of the tool or prompt, or the URI of the resource");
    let server = server(reader, &mut fields, node);
    fields.finish(reader);
    let kind = reader.string(kind?, "the type of a call")?;
    let kind = match kind.value.as_str() {
        "tool" => CallKind::Tool,
        "resource" => CallKind::Resource,
        "prompt" => CallKind::Prompt,
        other => {
            let mut diagnostic = Diagnostic::new(
                &INVALID_ASSERTION,
                kind.span,
                format!("unknown call type `{other}`: it never matches"),
            )
            .help("expected `tool`, `resource` or `prompt`");
            if let Some(near) = crate::diagnostic::nearest(other, ["tool", "resource", "prompt"]) {
                diagnostic =
                    diagnostic.here(format!("did you mean `{near}`?")).fix(format!("write `{near}`"), kind.span, near);
            }
            reader.error(diagnostic);
            return None;
        }
    };
    Some(OrderedCall { span: node.span(), kind, server: server?, name: reader.name(name?, "the name of a call")? })
}

fn skill(reader: &mut Reader<'_>, node: Node<'_>) -> Option<SkillMatcher> {
    if node.as_str().is_some() {
        let whole = format!("{{skill: {}}}", decode::flow_word(node));
        let diagnostic = decode::mistyped(node, "a mapping", "an assertion about skills");
        reader.error(diagnostic.help(format!("write `{whole}`")).fix("write a mapping", node.span(), whole));
        return None;
    }
    let mut fields = reader.fields(node, "an assertion about skills")?;
    let skill = fields.take(reader, "skill").and_then(|n| reader.name(n, "`skill`"));
    let pattern = fields.take(reader, "skillPattern").and_then(|n| reader.name(n, "`skillPattern`"));
    fields.finish(reader);
    if skill.is_none() && pattern.is_none() {
        reader.error(
            Diagnostic::new(
                &INVALID_ASSERTION,
                node.span(),
                "`skill` or `skillPattern` is missing, so this can never match",
            )
            .help("add `skill:` with the name of a skill"),
        );
        return None;
    }
    if let Some(pattern) = &pattern {
        regex(reader, pattern);
    }
    Some(SkillMatcher { span: node.span(), skill, pattern })
}

/// Whether an eval's selector matches a task's labels: all pairs, exactly.
pub fn selects(selector: &IndexMap<String, Name>, labels: &IndexMap<String, Name>) -> bool {
    selector.iter().all(|(k, v)| labels.get(k).is_some_and(|l| l.value == v.value))
}
