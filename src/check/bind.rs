//! Binds the key of a step to an operation.

use std::{cell::Cell, sync::Arc};

use indexmap::IndexMap;

use super::{Checker, scope::Scope, shape::What};
use crate::{
    builtin,
    decode::{UNKNOWN_TOOL, WRONG_TYPE},
    diagnostic::{Diagnostic, Strength, nearest},
    hir::{Arg, ArgKind, Dialect, Name, Operation, OperationKind, PhaseKind, RequirementKind, Step},
    lock::{LockedExtension, LockedOperation},
    package, rule,
    signature::{Field, Shape, Signature},
    source::Span,
    template::Path,
    ty::{Type, duration},
};

rule! {
    pub static UNKNOWN_OPERATION = "unknown-operation", Hard;
    pub static WRONG_PHASE = "wrong-phase", Hard;
    pub static DUPLICATE_ALIAS = "duplicate-alias", Hard;
    pub static UNUSED_REQUIREMENT = "unused-requirement", Warning;
}

/// The meanings of the prefixes of step types.
#[derive(Debug, Default)]
pub(super) struct Aliases(IndexMap<String, Alias>);

#[derive(Debug)]
struct Alias {
    what: Prefix,
    span: Span,
    /// Whether the name was given with `as`.
    given: bool,
    used: Cell<bool>,
}

#[derive(Clone, Debug)]
enum Prefix {
    Server(String),
    /// By the eval's alias (steps dialect) or by package (portable dialect).
    Extension(String),
}

type Args = Vec<(Name, Arg<Path>)>;

impl Checker<'_> {
    pub(super) fn read_aliases(&mut self) -> Aliases {
        let mut aliases: IndexMap<String, Alias> = IndexMap::new();
        let required = self.task.requires.iter().filter_map(|r| {
            let (what, name) = match &r.kind {
                RequirementKind::McpServer(name) => (Prefix::Server(name.value.clone()), name),
                RequirementKind::Extension(name) => (Prefix::Extension(name.value.clone()), name),
                RequirementKind::Command(_) | RequirementKind::Judge(_) => return None,
            };
            let given = r.alias.is_some();
            let name = r.alias.as_ref().unwrap_or(name);
            Some((name.value.clone(), Alias { what, span: name.span, given, used: Cell::new(false) }))
        });
        let imported = self.task.imports.iter().map(|i| {
            let what = Prefix::Extension(i.package.value.clone());
            match &i.alias {
                Some(alias) => {
                    (alias.value.clone(), Alias { what, span: alias.span, given: true, used: Cell::new(false) })
                }
                None => (
                    package_name(&i.package.value).to_owned(),
                    Alias { what, span: i.package.span, given: false, used: Cell::new(false) },
                ),
            }
        });
        let mut doubles = Vec::new();
        let mut declared: Vec<_> = required.chain(imported).collect();
        declared.sort_by_key(|(_, alias)| alias.span.start);
        for (name, alias) in declared {
            match aliases.get(&name) {
                Some(first) => doubles.push((name, alias.span, first.span)),
                None => {
                    aliases.insert(name, alias);
                }
            }
        }
        for (name, span, first) in doubles {
            self.error(
                Diagnostic::new(&DUPLICATE_ALIAS, span, format!("the alias `{name}` is already used"))
                    .label(first, "first used here")
                    .help("rename one of them with `as`"),
            );
        }
        Aliases(aliases)
    }

    /// Reports requirements that no step uses. A server without `as` may be there for the agent. A name given with `as`
    /// is never shown to an agent, so only steps can use it.
    pub(super) fn aliases_used(&mut self) {
        for (name, alias) in self.aliases.0.iter().filter(|(_, a)| !a.used.get()) {
            self.out.push(match (&alias.what, alias.given) {
                (Prefix::Server(_), false) => continue,
                (Prefix::Server(server), true) => {
                    Diagnostic::new(&UNUSED_REQUIREMENT, alias.span, format!("no step uses `{name}`"))
                        .strength(Strength::Note)
                        .help(format!("agents see the server as `{server}`: the name in `as` is only for steps"))
                }
                (Prefix::Extension(_), _) => {
                    Diagnostic::new(&UNUSED_REQUIREMENT, alias.span, format!("no step uses `{name}`"))
                        .help("remove the requirement: the task cannot run where it is not available")
                }
            });
        }
    }

    /// Returns the operation of a step, and its arguments.
    pub(super) fn bind(&mut self, step: &Step<Path>, phase: PhaseKind, scope: &Scope) -> Option<(Operation, Args)> {
        let name = &step.op.value;
        let vocabulary = self.cx.vocabularies.of(self.task.dialect);
        let mut args = step.args.clone();
        let (kind, mut signature) = if name == builtin::extension::BUILTIN.name && vocabulary.get(name).is_some() {
            let (kind, signature, inner) = self.long_form(step, scope)?;
            args = inner;
            (kind, signature)
        } else if let Some((known, signature)) = vocabulary.get(name) {
            (OperationKind::Builtin(known), Arc::clone(signature))
        } else if let Some((prefix, operation)) = name.split_once('.') {
            self.prefixed(step, prefix, operation)?
        } else {
            self.unknown_operation(step);
            return None;
        };
        // A parameter that the operation declares takes precedence over the step's key of the
        // same name (`decisions.md` §4).
        if let (OperationKind::Extension { .. }, Some(schema)) = (&kind, &signature.schema) {
            let declares = |name: &str| schema.json().pointer(&format!("/properties/{name}")).is_some();
            if let Some(timeout) = step.timeout.filter(|_| declares("timeout")) {
                let text = Arg::text(duration::format(timeout.value), timeout.span);
                args.push((Name::new("timeout".to_owned(), timeout.span), text));
            }
            if let Some((at, expect)) = step.expect.as_ref().filter(|_| declares("expect")) {
                args.push((Name::new("expect".to_owned(), *at), expect.clone()));
                Arc::make_mut(&mut signature).expect = None;
            }
        }
        if let Some(refine) = signature.refine {
            let literal = |key: &str| args.iter().find(|(k, _)| k.value == key)?.1.as_literal().map(str::to_owned);
            refine(&literal, Arc::make_mut(&mut signature));
        }
        self.phase_of(step, phase, &kind, &signature);
        Some((Operation { name: name.clone(), kind, signature }, args))
    }

    fn phase_of(&mut self, step: &Step<Path>, phase: PhaseKind, kind: &OperationKind, signature: &Signature) {
        if signature.phases.contains(&phase) {
            return;
        }
        if self.in_section && matches!(kind, OperationKind::Extension { .. }) {
            return;
        }
        // The proposal of the format verifies with an operation that its manifest lists only under actions.
        if matches!(kind, OperationKind::Extension { .. }) && phase == PhaseKind::Verify {
            let message =
                format!("`{}` is an action: in verify it only checks that the action succeeds", step.op.value);
            self.out.push(
                Diagnostic::new(&WRONG_PHASE, step.key, message)
                    .strength(Strength::Warning)
                    .help("to use an operation in verify, list it under `checks` in its manifest as well"),
            );
            return;
        }
        let allowed: Vec<_> = signature.phases.iter().map(|p| format!("`{}`", p.name())).collect();
        self.error(
            Diagnostic::new(&WRONG_PHASE, step.key, format!("`{}` is not allowed in {}", step.op.value, phase.name()))
                .help(format!("use it in {}", allowed.join(" or "))),
        );
    }

    fn prefixed(
        &mut self,
        step: &Step<Path>,
        prefix: &str,
        operation: &str,
    ) -> Option<(OperationKind, Arc<Signature>)> {
        let dialect = self.task.dialect;
        let Some(alias) = self.aliases.0.get(prefix) else {
            self.unknown_prefix(step, prefix);
            return None;
        };
        alias.used.set(true);
        match alias.what.clone() {
            Prefix::Server(server) => {
                let tools = self.cx.lock.tools(&server);
                if let Some(tools) = tools
                    && !tools.contains_key(operation)
                {
                    let span = Span { start: step.key.end - operation.len() as u32, ..step.key };
                    self.error(unknown_tool(&server, operation, span, tools.keys().map(String::as_str)));
                    return None;
                }
                let schema = tools.and_then(|t| t.get(operation)).map(|t| &t.input_schema);
                let signature = builtin::tool::signature(dialect, &step.op.value, schema);
                Some((OperationKind::Tool { server, tool: operation.to_owned() }, Arc::new(signature)))
            }
            Prefix::Extension(package) => {
                let span = Span { start: step.key.end - operation.len() as u32, ..step.key };
                self.operation(&step.op.value, package, operation, span)
            }
        }
    }

    /// Looks up an operation of a package. The step calls it `name`; `operation` is written at `span`.
    fn operation(
        &mut self,
        name: &str,
        package: String,
        operation: &str,
        span: Span,
    ) -> Option<(OperationKind, Arc<Signature>)> {
        let locked = self.extension(&package).map(|e| &e.operations);
        if let Some(operations) = locked
            && !operations.contains_key(operation)
        {
            self.error(missing_operation(&package, operation, span, operations));
            return None;
        }
        let signature = extension_signature(name, self.task.dialect, locked.and_then(|o| o.get(operation)));
        Some((OperationKind::Extension { package, operation: operation.to_owned() }, Arc::new(signature)))
    }

    /// `extension: {package, action, args}`: returns the operation that it names, and that operation's arguments.
    fn long_form(&mut self, step: &Step<Path>, scope: &Scope) -> Option<(OperationKind, Arc<Signature>, Args)> {
        let name = &step.op.value;
        let params = Shape::of::<builtin::extension::Extension>();
        // The arguments are checked against the operation's own schema.
        let keys: Vec<_> = step.args.iter().filter(|(key, _)| key.value != "args").cloned().collect();
        self.record(&keys, &params, What::Step(name, &["args"]), step.key, scope);
        let value = |key: &str| step.args.iter().find(|(k, _)| k.value == key).map(|(_, arg)| arg);
        let (package, action) = (value("package")?, value("action")?);
        for arg in [package, action] {
            if let ArgKind::Text(template) = &arg.kind
                && let Some(hole) = template.holes().next()
            {
                let message = "the operation must be known before the run";
                self.error(
                    Diagnostic::new(&UNKNOWN_OPERATION, hole.span, message)
                        .help("write the package and the action without a hole"),
                );
            }
        }
        let (package, operation) = (package.as_literal()?.to_owned(), action.as_literal()?);
        for alias in self.aliases.0.values() {
            if matches!(&alias.what, Prefix::Extension(known) if *known == package) {
                alias.used.set(true);
            }
        }
        let args = match value("args") {
            None => Vec::new(),
            Some(Arg { kind: ArgKind::Null, .. }) => Vec::new(),
            Some(Arg { kind: ArgKind::Record(fields), .. }) => fields.clone(),
            Some(arg) => {
                self.error(
                    Diagnostic::new(&WRONG_TYPE, arg.span, "`args` must be a mapping from an argument to a value")
                        .help("write `args: {NAME: VALUE}`; a value may be a hole"),
                );
                return None;
            }
        };
        let (kind, signature) = self.operation(name, package, operation, action.span)?;
        Some((kind, signature, args))
    }

    /// Returns the operations of an extension that is locked or bundled.
    fn extension(&self, package: &str) -> Option<&LockedExtension> {
        package::known(self.cx.lock, package)
    }

    /// Whether the lock file contains `ALIAS.OPERATION`.
    pub(super) fn is_locked(&self, operation: &str) -> bool {
        let Some((alias, operation)) = operation.split_once('.') else { return false };
        match self.aliases.0.get(alias).map(|alias| &alias.what) {
            Some(Prefix::Server(server)) => self.cx.lock.tools(server).is_some_and(|t| t.contains_key(operation)),
            Some(Prefix::Extension(package)) => {
                self.extension(package).is_some_and(|e| e.operations.contains_key(operation))
            }
            None => false,
        }
    }

    fn unknown_prefix(&mut self, step: &Step<Path>, prefix: &str) {
        let span = Span { end: step.key.start + prefix.len() as u32, ..step.key };
        let mut diagnostic =
            Diagnostic::new(&UNKNOWN_OPERATION, span, format!("no requirement has the alias `{prefix}`"));
        let known: Vec<_> = self.aliases.0.keys().map(String::as_str).collect();
        if let Some(near) = nearest(prefix, known.iter().copied()) {
            let alias = &self.aliases.0[near];
            let locked = |name| self.cx.lock.tools(name).is_some() || self.extension(name).is_some();
            diagnostic = if !alias.given && locked(prefix) && !locked(near) {
                diagnostic.label(alias.span, format!("did you mean `{prefix}`?")).fix(
                    format!("write `{prefix}`"),
                    alias.span,
                    prefix,
                )
            } else {
                let operation = &step.op.value[prefix.len()..];
                let sure = self.is_locked(&format!("{near}{operation}"));
                let diagnostic = diagnostic.here(format!("did you mean `{near}`?")).label(alias.span, "declared here");
                match sure {
                    true => diagnostic.fix(format!("write `{near}`"), span, near),
                    // It is unknown whether this alias has such an operation.
                    false => diagnostic.unsafe_fix(format!("write `{near}`"), span, near),
                }
            };
        }
        let help = match self.task.dialect {
            Dialect::Portable => format!(
                "declare it under `spec`: `requires: [{{mcpServer: NAME, as: {prefix}}}]` for a server, `imports: [{{package: …, as: {prefix}}}]` for an extension"
            ),
            _ => format!(
                "declare it under `spec`: `requires: [{{mcpServer: NAME, as: {prefix}}}]` or `requires: [{{extension: NAME, as: {prefix}}}]`"
            ),
        };
        self.error(diagnostic.help(help));
    }

    fn unknown_operation(&mut self, step: &Step<Path>) {
        let name = &step.op.value;
        let (near, known) = crate::dialect::unknown_operation_help(name, self.cx.vocabularies.of(self.task.dialect));
        let mut diagnostic =
            Diagnostic::new(&UNKNOWN_OPERATION, step.key, format!("unknown step `{name}`")).help(known);
        if let Some((_, right)) = SYNONYMS
            .iter()
            .find(|(wrong, right)| wrong == name && self.cx.vocabularies.of(self.task.dialect).get(right).is_some())
        {
            diagnostic =
                diagnostic.here(format!("use `{right}` instead")).fix(format!("write `{right}`"), step.key, *right);
        } else if let Some(near) = near {
            diagnostic =
                diagnostic.here(format!("did you mean `{near}`?")).fix(format!("write `{near}`"), step.key, near);
        } else if self.task.dialect != Dialect::Portable && self.cx.vocabularies.portable.get(name).is_some() {
            diagnostic =
                diagnostic.help(format!("`{name}` is a step of the portable dialect, `apiVersion: mcp-eval/v1`"));
        }
        self.error(diagnostic);
    }
}

/// Names that other tools use for steps.
const SYNONYMS: &[(&str, &str)] = &[
    ("llmJudge", "llm"),
    ("llm", "llmJudge"),
    ("judge", "llm"),
    ("llm_judge", "llm"),
    ("llm_judge", "llmJudge"),
    ("shell", "command"),
    ("run", "command"),
    ("run", "script"),
    ("exec", "command"),
    ("cmd", "command"),
    ("bash", "script"),
    ("request", "http"),
    ("wait", "eventually"),
    ("for", "foreach"),
    ("forEach", "foreach"),
    ("any", "anyOf"),
];

/// Returns the finding for a tool that the locked server does not have.
pub fn unknown_tool<'a>(
    server: &str,
    tool: &str,
    span: Span,
    known: impl Iterator<Item = &'a str> + Clone,
) -> Diagnostic {
    let diagnostic = Diagnostic::new(&UNKNOWN_TOOL, span, format!("the server `{server}` has no tool `{tool}`"));
    match nearest(tool, known.clone()) {
        Some(near) => diagnostic.here(format!("did you mean `{near}`?")).fix(format!("write `{near}`"), span, near),
        None => {
            let known: Vec<_> = known.take(12).map(|k| format!("`{k}`")).collect();
            diagnostic.help(format!("tools in `gevals.lock`: {}", known.join(", ")))
        }
    }
}

/// Returns the finding for an operation that the locked extension does not have.
fn missing_operation(
    package: &str,
    operation: &str,
    span: Span,
    known: &IndexMap<String, LockedOperation>,
) -> Diagnostic {
    let message = format!("the extension `{package}` has no operation `{operation}`");
    let diagnostic = Diagnostic::new(&UNKNOWN_OPERATION, span, message);
    match nearest(operation, known.keys().map(String::as_str)) {
        Some(near) => diagnostic.here(format!("did you mean `{near}`?")).fix(format!("write `{near}`"), span, near),
        None => {
            let known: Vec<_> = known.keys().take(12).map(|k| format!("`{k}`")).collect();
            diagnostic.help(format!("its operations are {}", known.join(", ")))
        }
    }
}

/// Returns the signature of an extension's operation. If the manifest is not locked, everything is accepted.
pub fn extension_signature(name: &str, dialect: Dialect, locked: Option<&LockedOperation>) -> Signature {
    let open = Shape::Record { fields: IndexMap::new(), rest: Some(Box::default()) };
    let params = locked.map_or(open, |operation| Shape::from_schema(operation.input_schema.json()));
    let outputs = locked.and_then(|operation| operation.outputs.as_ref()).map(|outputs| Type::Record {
        fields: outputs.iter().map(|(name, schema)| (name.clone(), Shape::from_schema(schema).ty())).collect(),
        open: false,
    });
    let described = locked.map_or("", |operation| operation.description.as_str());
    let doc = if described.is_empty() { "calls an operation of an extension" } else { described };
    let phases = locked.map_or_else(
        || PhaseKind::ALL.to_vec(),
        |o| {
            let verb = |phase| if phase == PhaseKind::Verify { o.check } else { o.action };
            PhaseKind::ALL.into_iter().filter(|phase| verb(*phase)).collect()
        },
    );
    Signature {
        phases,
        locals: builtin::extension::locals(outputs),
        schema: locked.map(|operation| operation.input_schema.clone()),
        lists_outputs: dialect == Dialect::Portable,
        expect: Some(expected(locked)),
        timeout: Some(std::time::Duration::from_secs(300)),
        continues: dialect == Dialect::Portable,
        ..Signature::leaf(name, doc, params)
    }
}

/// Returns the shape of `expect`: any of the outputs, if the manifest lists them; otherwise any output.
/// An operation that runs a command has an `exitCode`.
fn expected(locked: Option<&LockedOperation>) -> Arc<Shape> {
    let Some(outputs) = locked.and_then(|operation| operation.outputs.as_ref()) else {
        return Arc::clone(&builtin::extension::ANY_OUTPUT);
    };
    let field = |name: &String| (name.clone(), Field { shape: Shape::Any, ..Field::default() });
    Arc::new(Shape::Record { fields: outputs.keys().map(field).collect(), rest: None })
}

/// Returns the shape of `expect`, with the shape of matchers for each output that this step compares
/// using matchers instead of a value.
pub(super) fn expected_here(shape: &Arc<Shape>, expect: &Arg<Path>) -> Arc<Shape> {
    let (Shape::Record { fields, rest }, ArgKind::Record(outputs)) = (&**shape, &expect.kind) else {
        return Arc::clone(shape);
    };
    let mut fields = fields.clone();
    for (name, demand) in outputs {
        if let ArgKind::Record(keys) = &demand.kind
            && (rest.is_some() || fields.contains_key(&name.value))
            && builtin::extension::are_matchers(keys.iter().map(|(key, _)| key.value.as_str()))
        {
            let shape = builtin::extension::MATCHERS.clone();
            fields.insert(name.value.clone(), Field { shape, ..Field::default() });
        }
    }
    Arc::new(Shape::Record { fields, rest: rest.clone() })
}

/// Returns the type under which a step of the steps dialect has outputs, the outputs, and whether there may be others
/// (§1.6). Scripts, requests and judges have no outputs.
pub(super) fn steps_outputs(op: &Operation) -> Option<(String, IndexMap<String, Type>, bool)> {
    match &op.kind {
        OperationKind::Builtin(_) => None,
        OperationKind::Tool { server, tool } => {
            Some((format!("{server}.{tool}"), [("content".to_owned(), Type::String)].into(), false))
        }
        OperationKind::Extension { package, operation } => {
            Some((format!("{package}.{operation}"), IndexMap::new(), true))
        }
    }
}

/// Returns the name of a package without `as`: `ext-kubernetes` for `github.com/OWNER/ext-kubernetes@v1`.
pub fn package_name(package: &str) -> &str {
    let name = package.rsplit('/').next().unwrap_or(package);
    name.split('@').next().unwrap_or(name)
}

impl Checker<'_> {
    /// Checks sets of parameters of which exactly one must be given, and that `continueOnError` has an effect.
    pub(super) fn exactly_one(&mut self, step: &Step<Path>, args: &Args, signature: &Signature) {
        for set in signature.exactly_one {
            // `body.raw` is a key of the parameter `body`; it is checked only if `body` is given.
            let (within, at, whose) = match set.first().and_then(|word| word.split_once('.')) {
                None => (args.as_slice(), step.key, &step.op.value),
                Some((outer, _)) => match args.iter().find(|(k, _)| k.value == outer) {
                    Some((outer, Arg { kind: crate::hir::ArgKind::Record(fields), .. })) => {
                        (fields.as_slice(), outer.span, &outer.value)
                    }
                    _ => continue,
                },
            };
            let set: Vec<_> = set.iter().map(|word| word.rsplit('.').next().unwrap_or(word)).collect();
            let mut given: Vec<(Span, &str)> = within
                .iter()
                .filter(|(k, _)| set.contains(&k.value.as_str()))
                .map(|(k, _)| (k.span, k.value.as_str()))
                .collect();
            if set.contains(&"expect")
                && let Some((span, _)) = &step.expect
            {
                given.push((*span, "expect"));
            }
            let words: Vec<_> = set.iter().map(|w| format!("`{w}`")).collect();
            let words = |joint: &str| match words.split_last() {
                Some((last, rest)) if !rest.is_empty() => format!("{} {joint} {last}", rest.join(", ")),
                _ => words.concat(),
            };
            let mut meant = within.iter().filter(|(key, _)| nearest(&key.value, set.iter().copied()).is_some());
            match given.as_slice() {
                [_] => {}
                // A misspelled parameter is reported once, as unknown.
                [] if meant.any(|(key, _)| self.harden(key.span)) => {}
                [] => self.error(
                    Diagnostic::new(&super::EXACTLY_ONE, at, format!("`{whose}` requires {}", words("or")))
                        .help("specify exactly one of them"),
                ),
                [(first, _), rest @ ..] => {
                    for (span, name) in rest {
                        self.error(
                            Diagnostic::new(
                                &super::EXACTLY_ONE,
                                *span,
                                format!("`{whose}` allows only one of {}", words("and")),
                            )
                            .label(*first, "first specified here")
                            .here(format!("`{name}` is specified as well"))
                            .help(match at == step.key {
                                true => "keep one of them, and use a second step for the other",
                                false => "keep one of them",
                            }),
                        );
                    }
                }
            }
        }
        if !signature.continues
            && let Some(flag) = &step.continue_on_error
        {
            self.out.push(
                Diagnostic::new(
                    &crate::decode::UNKNOWN_FIELD,
                    flag.span,
                    format!("`continueOnError` has no effect on `{}`", step.op.value),
                )
                .strength(Strength::Verdict),
            );
        }
    }
}
