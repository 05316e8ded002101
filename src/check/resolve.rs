//! Resolves holes: the target of a name at the place where it is written, and the type of its value.

use super::{
    Checker,
    scope::{Place, Scope},
};
use crate::{
    diagnostic::{Diagnostic, Strength, nearest},
    hir::{CallKind, Def, Dialect, Hole, Part, PhaseKind, Suspect, Target, Template},
    rule,
    source::Span,
    template::{self, Path, SegmentKind, SuspectKind},
    ty::{LOCALS, ROOTS, Type},
};

rule! {
    pub static UNKNOWN_NAME = "unknown-name", Hard;
    pub static UNKNOWN_STEP = "unknown-step", Hard;
    pub static UNKNOWN_OUTPUT = "unknown-output", Hard;
    pub static OUT_OF_SCOPE = "out-of-scope", Hard;
    pub static MAYBE_UNASSIGNED = "maybe-unassigned", Hard;
    pub static WRONG_HOLE_TYPE = "wrong-hole-type", Hard;
    pub static MALFORMED_HOLE = "malformed-hole", Hard;
    pub static UNKNOWN_FILTER = "unknown-filter", Hard;
    pub static EMPTY_DEFAULT = "empty-default", Hard;
    pub static UNEXPANDED_HOLE = "unexpanded-hole", Verdict;
    pub static DOUBLE_BRACE = "double-brace", Warning;
    pub static DOLLAR_BRACE = "dollar-brace", Warning;
}

/// Help for a hole in a legacy task.
pub const UNFILLED_LEGACY: &str = "legacy tasks do not support holes: write the value itself; in the portable dialect, holes are filled everywhere (`gevals convert`)";

/// The result of resolving a path: the target, the number of segments that name it, and the type of its value.
struct Found {
    target: Target,
    /// Number of segments that belong to the name of the target.
    taken: usize,
    ty: Type,
    /// Whether the value may be missing.
    missing: Missing,
}

enum Missing {
    No,
    /// Reported unless the hole has a default. The span is that of the step that may have failed.
    Doubt(Span),
    /// In cleanup, or an environment variable of the process: handled at run time.
    AtRunTime,
}

impl Checker<'_> {
    pub(super) fn template(&mut self, template: &Template<Path>, scope: &Scope) -> Template<Def> {
        self.suspects(template, scope);
        let parts = template.parts.iter().filter_map(|part| match part {
            Part::Text(text) => Some(Part::Text(text.clone())),
            Part::Hole(hole) => self.hole(hole, template, scope).map(|hole| Part::Hole(Box::new(hole))),
        });
        Template { parts: parts.collect(), span: template.span, suspects: Vec::new() }
    }

    fn hole(&mut self, hole: &Hole<Path>, template: &Template<Path>, scope: &Scope) -> Option<Hole<Def>> {
        let found = match scope.dialect {
            Dialect::Portable => self.resolve(hole, template, scope)?,
            _ => self.resolve_steps(hole, scope)?,
        };
        let path = &hole.reference;
        let rest = &path.segments[found.taken..];
        let mut ty = match template::walk_type(&found.ty, rest) {
            Ok(ty) => ty,
            Err((index, message)) => {
                let span = hole.spans.get(1 + found.taken + index).copied().unwrap_or(hole.span);
                let ty = template::walk_type(&found.ty, &rest[..index]).unwrap_or_default();
                let whole = written(path, found.taken + index);
                let mut diagnostic = Diagnostic::new(&UNKNOWN_OUTPUT, span, message).help(format!("`{whole}` is {ty}"));
                if let Some(near) = template::meant_field(&ty, &rest[index]) {
                    diagnostic = diagnostic.fix(format!("write `{near}`"), span, near);
                }
                self.error(diagnostic);
                return None;
            }
        };
        if let Missing::Doubt(at) = found.missing
            && !hole.has_default()
        {
            self.error(
                Diagnostic::new(&MAYBE_UNASSIGNED, hole.span, format!("`{path}` may have no value here"))
                    .label(at, "this step may fail, and the task then continues (`continueOnError`)")
                    .help("add a default value: `| default('…')`"),
            );
        }
        if !hole.filters.is_empty() {
            // A missing value was handled above, or is detected at run time.
            match template::hole_type(&ty, false, &hole.filters) {
                Ok(filtered) => ty = filtered,
                Err(fault) => {
                    let index = fault.range.as_ref().and_then(|r| {
                        hole.filters.iter().position(|f| f.range.start <= r.start && r.end <= f.range.end)
                    });
                    let span = index.and_then(|i| hole.filter_spans.get(i)).copied().unwrap_or(hole.span);
                    let mut diagnostic = Diagnostic::new(&UNKNOWN_FILTER, span, fault.message).help_opt(fault.help);
                    if let Some(used) = index.and_then(|i| hole.filters.get(i)).map(|f| f.name.text.as_str())
                        && template::filter(used).is_none()
                        && let Some(near) = template::meant(used)
                    {
                        let name = Span { end: span.start + used.len() as u32, ..span };
                        diagnostic = diagnostic.fix(format!("write `{near}`"), name, near);
                    }
                    self.error(diagnostic);
                    return None;
                }
            }
        }
        Some(Hole {
            reference: Def { target: found.target, segments: rest.iter().map(|s| s.kind.clone()).collect(), ty },
            filters: hole.filters.clone(),
            text: hole.text.clone(),
            span: hole.span,
            spans: hole.spans.clone(),
            filter_spans: hole.filter_spans.clone(),
        })
    }

    /// Resolves a hole of the portable dialect (`decisions.md` §3, "Roots").
    fn resolve(&mut self, hole: &Hole<Path>, template: &Template<Path>, scope: &Scope) -> Option<Found> {
        let path = &hole.reference;
        let root = path.root.text.as_str();
        let name = |i: usize| match path.segments.get(i).map(|s| &s.kind) {
            Some(SegmentKind::Name(name)) => Some(name.as_str()),
            _ => None,
        };
        if let Some((_, ty)) = scope.loops.iter().rev().find(|(var, _)| var == root) {
            return Some(Found {
                target: Target::Loop(root.to_owned()),
                taken: 0,
                ty: ty.clone(),
                missing: Missing::No,
            });
        }
        if let Some((locals, open)) = &scope.locals
            && (locals.contains_key(root) || (*open && LOCALS.contains(&root)))
        {
            let ty = locals.get(root).cloned().unwrap_or_default();
            return Some(Found { target: Target::Local(root.to_owned()), taken: 0, ty, missing: Missing::AtRunTime });
        }
        match root {
            "env" => {
                let Some(variable) = name(0) else {
                    self.incomplete(hole, "add the name of a variable: `{env.NAME}`");
                    return None;
                };
                let known = self.variables.contains(variable);
                let target = match known {
                    true => Target::TaskEnv(variable.to_owned()),
                    false => Target::ProcessEnv(variable.to_owned()),
                };
                let missing = if known { Missing::No } else { Missing::AtRunTime };
                Some(Found { target, taken: 1, ty: Type::String, missing })
            }
            "random" => match name(0) {
                Some("id") => {
                    Some(Found { target: Target::RandomId, taken: 1, ty: Type::String, missing: Missing::No })
                }
                Some("port") => {
                    Some(Found { target: Target::RandomPort, taken: 1, ty: Type::Number, missing: Missing::No })
                }
                other => {
                    self.no_field(hole, "random", other, &["id", "port"]);
                    None
                }
            },
            "task" => match name(0) {
                Some("name") => {
                    Some(Found { target: Target::TaskName, taken: 1, ty: Type::String, missing: Missing::No })
                }
                other => {
                    self.no_field(hole, "task", other, &["name"]);
                    None
                }
            },
            "agent" => self.agent(hole, name(0), scope),
            "steps" => self.output(hole, scope),
            "calls" if scope.calls.is_some() => self.earlier_call(hole, scope.calls.as_deref().unwrap_or_default()),
            _ => {
                self.unknown_root(hole, template, scope);
                None
            }
        }
    }

    /// Resolves `calls[N]`. The type of the answer depends on the kind of the call.
    fn earlier_call(&mut self, hole: &Hole<Path>, made: &[CallKind]) -> Option<Found> {
        let Some(SegmentKind::Index(n)) = hole.reference.segments.first().map(|s| &s.kind) else {
            self.incomplete(hole, "add the index of an earlier call, starting at 0: `{calls[N].…}`");
            return None;
        };
        let Some(kind) = usize::try_from(*n).ok().and_then(|n| made.get(n)) else {
            self.error(
                Diagnostic::new(&OUT_OF_SCOPE, hole.span, format!("call {n} is not available here"))
                    .help(format!("number of earlier calls: {}; indexes start at 0", made.len())),
            );
            return None;
        };
        let answer = match kind {
            CallKind::Tool => Type::record([
                ("content", Type::list(Type::map())),
                ("structuredContent", Type::Any),
                ("isError", Type::Bool),
            ]),
            CallKind::Resource => Type::record([("contents", Type::list(Type::map()))]),
            CallKind::Prompt => Type::record([("messages", Type::list(Type::map()))]),
        };
        Some(Found { target: Target::Calls, taken: 0, ty: Type::list(answer), missing: Missing::No })
    }

    fn agent(&mut self, hole: &Hole<Path>, field: Option<&str>, scope: &Scope) -> Option<Found> {
        let missing = match scope.place {
            Place::Phase(PhaseKind::Verify) => Missing::No,
            Place::Phase(PhaseKind::Cleanup) => Missing::AtRunTime,
            place => {
                self.error(
                    Diagnostic::new(
                        &OUT_OF_SCOPE,
                        hole.span,
                        format!("the agent's answer is not available {}", place.describe()),
                    )
                    .help("`{agent.output}` is available in verify and in cleanup"),
                );
                return None;
            }
        };
        match field {
            Some("output") => Some(Found { target: Target::AgentOutput, taken: 1, ty: Type::String, missing }),
            other => {
                self.no_field(hole, "agent", other, &["output"]);
                None
            }
        }
    }

    /// Resolves `steps.ID.outputs.NAME`.
    fn output(&mut self, hole: &Hole<Path>, scope: &Scope) -> Option<Found> {
        let segments = &hole.reference.segments;
        let name = |i: usize| match segments.get(i).map(|s| &s.kind) {
            Some(SegmentKind::Name(name)) => Some(name.as_str()),
            _ => None,
        };
        let Some(id) = name(0) else {
            self.incomplete(hole, "write `{steps.ID.outputs.NAME}`");
            return None;
        };
        let id_span = hole.spans.get(1).copied().unwrap_or(hole.span);
        let Some(binding) = scope.get(id) else {
            self.no_step(id, id_span, scope);
            return None;
        };
        let binding = binding.clone();
        if name(1) != Some("outputs") {
            let known = list(binding.outputs.keys().map(String::as_str));
            let mut diagnostic = Diagnostic::new(
                &UNKNOWN_OUTPUT,
                hole.span,
                format!("the outputs of a step are available under `outputs`: `steps.{id}.outputs.NAME`"),
            );
            if let Some(given) = name(1)
                && (binding.outputs.contains_key(given) || binding.open)
            {
                let span = hole.spans.get(2).copied().unwrap_or(hole.span);
                diagnostic = diagnostic.fix(format!("write `outputs.{given}`"), span, format!("outputs.{given}"));
            } else if !known.is_empty() {
                diagnostic = diagnostic.help(format!("its outputs are {known}"));
            }
            self.error(diagnostic.label(binding.span, "the step"));
            return None;
        }
        let Some(output) = name(2) else {
            let known = list(binding.outputs.keys().map(String::as_str));
            self.incomplete(hole, &format!("add the name of an output: {known}"));
            return None;
        };
        let ty = match binding.outputs.get(output) {
            Some(ty) => ty.clone(),
            None if binding.open => Type::Any,
            None => {
                let span = hole.spans.get(3).copied().unwrap_or(hole.span);
                let mut diagnostic =
                    Diagnostic::new(&UNKNOWN_OUTPUT, span, format!("step `{id}` has no output `{output}`"))
                        .label(binding.span, "the step");
                if let Some(near) = nearest(output, binding.outputs.keys().map(String::as_str)) {
                    diagnostic =
                        diagnostic.here(format!("did you mean `{near}`?")).fix(format!("write `{near}`"), span, near);
                } else if binding.outputs.is_empty() {
                    diagnostic = diagnostic.help("this step has no outputs");
                } else {
                    diagnostic = diagnostic
                        .help(format!("its outputs are {}", list(binding.outputs.keys().map(String::as_str))));
                }
                self.error(diagnostic);
                return None;
            }
        };
        let missing = match binding.doubt {
            Some(at) if !scope.in_cleanup() => Missing::Doubt(at),
            _ if scope.in_cleanup() || scope.place == Place::Phase(PhaseKind::Verify) => Missing::AtRunTime,
            _ => Missing::No,
        };
        Some(Found { target: Target::Output { step: id.to_owned(), name: output.to_owned() }, taken: 3, ty, missing })
    }

    fn no_step(&mut self, id: &str, span: Span, scope: &Scope) {
        if let Some((at, place)) = self.ids.get(id).copied() {
            let why = match (place, scope.place) {
                (Place::Phase(a), Place::Phase(b)) if a == b => {
                    "runs later, or is inside a loop or branch that ends earlier"
                }
                (Place::Phase(PhaseKind::Setup), Place::Phase(_) | Place::Prompt | Place::Oracle) => {
                    "is inside a loop, or in only one branch of an `anyOf`"
                }
                (Place::Phase(PhaseKind::Verify), _) => "is in verify: its outputs are only available there",
                (Place::Phase(PhaseKind::Cleanup), _) => "is in cleanup, which runs last",
                _ => "is not in scope",
            };
            let when = if place == scope.place { " at this point" } else { "" };
            self.error(
                Diagnostic::new(&OUT_OF_SCOPE, span, format!("the outputs of step `{id}` cannot be used {}{when}", scope.place.describe()))
                    .label(at, format!("this step {why}"))
                    .help("an output is available to later steps in the same sequence; outputs of setup are also available in the prompt, in verify and in cleanup"),
            );
            return;
        }
        let mut diagnostic = Diagnostic::new(&UNKNOWN_STEP, span, format!("no step has the id `{id}`"));
        let all: Vec<_> = self.ids.keys().map(String::as_str).chain(scope.ids()).collect();
        if let Some(near) = nearest(id, all.iter().copied()) {
            diagnostic = diagnostic.here(format!("did you mean `{near}`?")).fix(format!("write `{near}`"), span, near);
        } else if all.is_empty() {
            diagnostic = diagnostic.help("no step of this task has an id; add `id: …` to the step's body");
        } else {
            diagnostic = diagnostic.help(format!("steps with an id: {}", list(self.ids.keys().map(String::as_str))));
        }
        self.error(diagnostic);
    }

    fn no_field(&mut self, hole: &Hole<Path>, root: &str, field: Option<&str>, known: &[&str]) {
        let words: Vec<_> = known.iter().map(|k| format!("`{{{root}.{k}}}`")).collect();
        let span = hole.spans.get(1).copied().unwrap_or(hole.span);
        let message = match field {
            Some(field) => format!("`{root}` has no `{field}`"),
            None => format!("`{root}` is not a value by itself"),
        };
        let mut diagnostic =
            Diagnostic::new(&UNKNOWN_NAME, span, message).help(format!("available: {}", words.join(" and ")));
        if let Some(near) = field.and_then(|f| nearest(f, known.iter().copied())) {
            diagnostic = diagnostic.fix(format!("write `{near}`"), span, near);
        }
        self.error(diagnostic);
    }

    fn incomplete(&mut self, hole: &Hole<Path>, help: &str) {
        self.error(
            Diagnostic::new(&UNKNOWN_NAME, hole.span, format!("`{}` is not a value by itself", hole.reference))
                .help(help),
        );
    }

    fn unknown_root(&mut self, hole: &Hole<Path>, template: &Template<Path>, scope: &Scope) {
        let root = &hole.reference.root.text;
        let span = hole.spans.first().copied().unwrap_or(hole.span);
        let diagnostic =
            Diagnostic::new(&UNKNOWN_NAME, span, format!("unknown name `{root}` {}", scope.place.describe()));
        let roots = roots(scope);
        let source = self.cx.sources.get(template.span.file);
        let escape = match source.slice(template.span).starts_with('"') {
            true => "\\\\",
            false => "\\",
        };
        let diagnostic = if is_formatted(source.text(), template.span, hole) {
            let help = format!("to use a Python value in this f-string, write `\\{}`", hole.text);
            diagnostic.help(help).fix("keep it as text", hole.span.head(), escape)
        } else if LOCALS.contains(&root.as_str()) {
            diagnostic.here("a value of the step itself").help(format!(
                "`{{{root}}}` is only available in the `outputs` and `expect` of its own step; elsewhere, use `{{steps.ID.outputs.{root}}}`"
            ))
        } else if let Some((variable, _)) =
            self.task.env.iter().find(|(n, _)| n.value == *root && hole.reference.segments.is_empty())
        {
            let written = format!("env.{}", variable.value);
            diagnostic.here(format!("did you mean `{written}`?")).fix(format!("write `{written}`"), span, written)
        } else if self.ids.contains_key(root) {
            let written = match hole.reference.segments.first().map(|s| &s.kind) {
                Some(SegmentKind::Name(n)) if n == "outputs" => format!("steps.{root}"),
                _ => format!("steps.{root}.outputs"),
            };
            diagnostic.here(format!("did you mean `{written}`?")).fix(format!("write `{written}`"), span, written)
        } else if let Some(help) = of_a_program(source.text(), hole) {
            diagnostic.help(help).fix("keep it as text", hole.span.head(), escape)
        } else if let Some(near) = nearest(root, roots.iter().map(String::as_str)) {
            diagnostic.here(format!("did you mean `{near}`?")).fix(format!("write `{near}`"), span, near)
        } else {
            let help = format!("to keep it as text, write `\\{}`", hole.text);
            diagnostic.help(help).unsafe_fix("keep it as text", hole.span.head(), escape)
        };
        let diagnostic = match diagnostic.help {
            None => diagnostic.help(format!(
                "available here: {}; to keep it as text, write `\\{}`",
                list(roots.iter().map(String::as_str)),
                hole.text
            )),
            Some(_) => diagnostic,
        };
        self.error(diagnostic);
    }

    /// Reports text that looks like a hole but is not one.
    fn suspects(&mut self, template: &Template<Path>, scope: &Scope) {
        for suspect in &template.suspects {
            match scope.dialect {
                Dialect::Portable => self.suspect(suspect, scope),
                dialect => self.suspect_steps(suspect, dialect),
            }
        }
    }

    fn suspect(&mut self, suspect: &Suspect, scope: &Scope) {
        let roots = roots(scope);
        let in_scope = roots.contains(&suspect.root);
        match &suspect.kind {
            SuspectKind::Malformed if in_scope => {
                let detail =
                    if suspect.detail.is_empty() { "invalid syntax".to_owned() } else { suspect.detail.clone() };
                self.error(
                    Diagnostic::new(
                        &MALFORMED_HOLE,
                        suspect.span,
                        format!("this looks like a hole but is not one: {detail}"),
                    )
                    .help("a hole has the form `{root.name | filter}`; for a literal brace, write `\\{`"),
                );
            }
            SuspectKind::DoubleBrace(path) if in_scope => self.out.push(
                Diagnostic::new(
                    &DOUBLE_BRACE,
                    suspect.span,
                    format!("double braces are not filled: `{{{{ {path} }}}}` is kept literally"),
                )
                .help(format!("if you mean a hole, write `{{{path}}}`")),
            ),
            SuspectKind::ShellVariable(path) if in_scope && !path.segments.is_empty() => self.out.push(
                Diagnostic::new(
                    &DOLLAR_BRACE,
                    suspect.span,
                    format!("`${{{path}}}` is neither a hole nor a shell variable: it is kept literally"),
                )
                .help(format!("if you mean a hole, write `{{{path}}}`"))
                .fix("remove the `$`", Span { end: suspect.span.start + 1, ..suspect.span }, ""),
            ),
            SuspectKind::DollarBrace => self.out.push(
                Diagnostic::new(&DOLLAR_BRACE, suspect.span, "`${{ }}` is GitHub Actions syntax: it is kept literally")
                    .help("if you mean a hole, write `{root.name}`"),
            ),
            _ => {}
        }
    }

    fn suspect_steps(&mut self, suspect: &Suspect, dialect: Dialect) {
        if suspect.root.is_empty() {
            self.error(
                Diagnostic::new(
                    &MALFORMED_HOLE,
                    suspect.span,
                    format!("this text cannot be parsed: {}", suspect.detail),
                )
                .help("in the steps dialect, every brace here starts or ends a hole: `${NAME}` or `{source.field}`"),
            );
            return;
        }
        const FILLED: &str = "in the steps dialect, holes are only filled in a script's `env`, a request's `url`, `method` and `headers`, and in `contains` and `exact`; the portable dialect fills them everywhere";
        let source = self.cx.sources.get(suspect.span.file);
        let message = format!("`{}` {}", source.slice(suspect.span), suspect.detail);
        let finding = Diagnostic::new(&UNEXPANDED_HOLE, suspect.span, message).here("this is used literally");
        match dialect {
            // Legacy tasks have no holes, so the braces may be literal.
            Dialect::Legacy => self.out.push(finding.strength(Strength::Warning).help(UNFILLED_LEGACY)),
            _ => self.error(finding.help(FILLED)),
        }
    }

    /// Resolves a hole of the steps dialect (§0.5, §1.6): sources depend on the place, outputs are found by type.
    fn resolve_steps(&mut self, hole: &Hole<Path>, scope: &Scope) -> Option<Found> {
        let path = &hole.reference;
        let name = |i: usize| match path.segments.get(i).map(|s| &s.kind) {
            Some(SegmentKind::Name(name)) => Some(name.as_str()),
            _ => None,
        };
        let found = |target, taken, ty, missing| Some(Found { target, taken, ty, missing });
        match (path.root.text.as_str(), name(0)) {
            ("env", Some(variable)) => {
                found(Target::ProcessEnv(variable.to_owned()), 1, Type::String, Missing::AtRunTime)
            }
            ("random", Some("id")) => found(Target::RandomId, 1, Type::String, Missing::No),
            ("random", Some("port")) => found(Target::RandomPort, 1, Type::Number, Missing::No),
            ("random", other) => {
                self.no_field(hole, "random", other, &["id", "port"]);
                None
            }
            ("agent", Some(field @ ("output" | "prompt"))) => {
                match scope.place {
                    Place::Phase(PhaseKind::Verify) if field == "output" => {
                        found(Target::AgentOutput, 1, Type::String, Missing::No)
                    }
                    Place::Phase(PhaseKind::Verify) => found(Target::AgentPrompt, 1, Type::String, Missing::No),
                    place => {
                        self.error(
                        Diagnostic::new(&OUT_OF_SCOPE, hole.span, format!("`agent` is not available {}", place.describe()))
                            .help(
                                "in the steps dialect, `{agent.output}` and `{agent.prompt}` are only available in verify",
                            ),
                    );
                        None
                    }
                }
            }
            ("agent", other) => {
                self.no_field(hole, "agent", other, &["output", "prompt"]);
                None
            }
            ("steps", Some(ty)) => self.output_by_type(hole, ty, name(1), scope),
            (root, _) => {
                let mut diagnostic = Diagnostic::new(&UNKNOWN_NAME, hole.span, format!("unknown source `{root}`"))
                    .help(
                        "sources are `env`, `random`, `steps` and `agent`; braces cannot be escaped in the steps dialect",
                    );
                if let Some(near) = nearest(root, ["env", "random", "steps", "agent"]) {
                    diagnostic = diagnostic.here(format!("did you mean `{near}`?"));
                }
                self.error(diagnostic);
                None
            }
        }
    }

    fn output_by_type(&mut self, hole: &Hole<Path>, ty: &str, key: Option<&str>, scope: &Scope) -> Option<Found> {
        let Some(key) = key else {
            self.incomplete(hole, "use the type of an earlier step and the name of an output: `{steps.TYPE.KEY}`");
            return None;
        };
        let span = hole.spans.get(1).copied().unwrap_or(hole.span);
        if let Some(binding) = scope.get(ty) {
            let value = match binding.outputs.get(key) {
                Some(value) => value.clone(),
                None if binding.open => Type::String,
                None => {
                    let span = hole.spans.get(2).copied().unwrap_or(hole.span);
                    let known = list(binding.outputs.keys().map(String::as_str));
                    let at = binding.span;
                    self.error(
                        Diagnostic::new(&UNKNOWN_OUTPUT, span, format!("a step `{ty}` has no output `{key}`"))
                            .label(at, "the step")
                            .help(format!("its outputs are {known}")),
                    );
                    return None;
                }
            };
            let target = Target::Output { step: ty.to_owned(), name: key.to_owned() };
            return Some(Found { target, taken: 2, ty: value, missing: Missing::AtRunTime });
        }
        let mut diagnostic = Diagnostic::new(
            &UNKNOWN_STEP,
            span,
            format!("no earlier step of type `{ty}` has outputs {}", scope.place.describe()),
        );
        let known: Vec<_> = scope.ids().collect();
        if ["script", "http", "llmJudge"].contains(&ty) {
            diagnostic =
                diagnostic.help(format!("a step `{ty}` has no outputs in this dialect, only in the portable dialect"));
        } else if self.ids.contains_key(ty) {
            diagnostic = diagnostic.help("in this dialect, refer to outputs by the type of their step, not by its id");
        } else if let Some(near) = nearest(ty, known.iter().copied()) {
            diagnostic = diagnostic.here(format!("did you mean `{near}`?"));
            diagnostic = match self.is_locked(near) {
                true => diagnostic.fix(format!("write `{near}`"), span, near),
                // The misspelled name may be that of the step.
                false => diagnostic.unsafe_fix(format!("write `{near}`"), span, near),
            };
        } else if scope.place == Place::Phase(PhaseKind::Verify) {
            diagnostic = diagnostic.help(
                "in this dialect, outputs of setup are not available in verify; the portable dialect supports this",
            );
        } else if !known.is_empty() {
            diagnostic = diagnostic
                .help(format!("refer to outputs by the name of the server or extension: {}", list(known.into_iter())));
        }
        self.error(diagnostic);
        None
    }
}

/// Returns all roots that are in scope.
fn roots(scope: &Scope) -> Vec<String> {
    let mut roots: Vec<String> = ROOTS.map(str::to_owned).into();
    roots.extend(scope.loops.iter().map(|(var, _)| var.clone()));
    if let Some((locals, _)) = &scope.locals {
        roots.extend(locals.keys().cloned());
    }
    if scope.calls.is_some() {
        roots.push("calls".to_owned());
    }
    roots
}

fn list<'a>(words: impl Iterator<Item = &'a str>) -> String {
    words.map(|w| format!("`{w}`")).collect::<Vec<_>>().join(", ")
}

/// Returns the first segments of a path, as written.
fn written(path: &Path, segments: usize) -> String {
    let cut = Path { root: path.root.clone(), segments: path.segments[..segments.min(path.segments.len())].to_vec() };
    cut.to_string()
}

/// Returns the type of a template's value.
pub(super) fn template_type(template: &Template<Def>) -> Type {
    match template.single_hole() {
        Some(hole) => hole.reference.ty.clone(),
        None => Type::String,
    }
}

/// Whether a hole is a replacement field of a Python f-string that starts on its line. The script must use the same
/// name elsewhere, outside of braces: a name that it uses nowhere else more likely belongs to the task.
fn is_formatted(text: &str, script: Span, hole: &Hole<Path>) -> bool {
    let name = hole.reference.root.text.as_str();
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let script = text.get(script.start as usize..script.end as usize).unwrap_or_default();
    // `{name}` elsewhere may be another replacement field or another hole.
    let is_used = script.match_indices(name).any(|(at, _)| {
        let before = script[..at].chars().next_back();
        !before.is_some_and(|c| is_word(c) || c == '{') && !script[at + name.len()..].starts_with(is_word)
    });
    if !is_used {
        return false;
    }
    let before = text.get(..hole.span.start as usize).unwrap_or_default();
    let line = before.rsplit('\n').next().unwrap_or_default();
    ["f\"", "f'", "F\"", "F'"].iter().any(|opening| {
        let Some((before, inside)) = line.rsplit_once(opening) else { return false };
        let is_raw = before.ends_with(['r', 'R']);
        let last = before.trim_end_matches(['r', 'R']).chars().next_back();
        let begins = last.is_none_or(|c| c.is_whitespace() || "([{,=+:".contains(c));
        begins && (is_raw || !before.ends_with(char::is_alphanumeric)) && !inside.contains(&opening[1..])
    })
}

/// Returns the help for a program whose own syntax has braces: `%{http_code}` of curl's `-w`, `v1^{commit}` and
/// `main@{upstream}` of git. A hole is never written there, so the fix is safe.
fn of_a_program(text: &str, hole: &Hole<Path>) -> Option<String> {
    let plain = hole.reference.segments.is_empty() && hole.text.ends_with('}') && !hole.text.contains('|');
    let before = text.get(..hole.span.start as usize).filter(|_| plain)?;
    let root = hole.reference.root.text.as_str();
    match before.chars().next_back()? {
        '%' => Some(format!("to use a variable of curl's `-w`, write `%\\{}`", hole.text)),
        '^' if matches!(root, "commit" | "tree" | "blob" | "tag" | "object") => {
            Some(format!("for git's revision syntax, write `^\\{}`", hole.text))
        }
        '@' if matches!(root, "u" | "upstream" | "push" | "now" | "yesterday") => {
            Some(format!("for git's branch syntax, write `@\\{}`", hole.text))
        }
        _ => None,
    }
}
