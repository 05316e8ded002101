//! The one place where names get their meaning: `Task<Path>` goes in, `Task<Def>` comes out, or errors do.
//!
//! Operations are bound to signatures, arguments are held against shapes, holes against scopes. What is in scope where
//! follows `decisions.md` §5, "Definite assignment": an output is there after its step in the same sequence, after `anyOf`
//! if every branch has it, after `group`, `eventually` and `consistently`, and from inside a `foreach` not at all.

mod bind;
mod contract;
mod resolve;
mod scope;
mod shape;

use std::{path::PathBuf, sync::Arc};

use indexmap::{IndexMap, IndexSet};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::{
    diagnostic::{Diagnostic, Diagnostics, Reported},
    hir::{
        ArgKind, Block, BlockRole, Def, Dialect, Name, OperationKind, OracleCall, OracleTask, Phase, PhaseKind, Prompt,
        Step, Task, Template,
    },
    lock::Lock,
    rule,
    signature::{Control, Schema, Shape, Values, Vocabularies},
    source::{Files, Sources, Span},
    template::Path,
    ty::{LOCALS, ROOTS, Type},
};
use bind::Aliases;
use scope::{Binding, Place, Scope};
use shape::What;

pub use bind::{
    DUPLICATE_ALIAS, UNKNOWN_OPERATION, UNUSED_REQUIREMENT, WRONG_PHASE, extension_signature, package_name,
    unknown_tool,
};
pub use resolve::{
    DOLLAR_BRACE, DOUBLE_BRACE, EMPTY_DEFAULT, MALFORMED_HOLE, MAYBE_UNASSIGNED, OUT_OF_SCOPE, UNEXPANDED_HOLE,
    UNFILLED_LEGACY, UNKNOWN_FILTER, UNKNOWN_NAME, UNKNOWN_OUTPUT, UNKNOWN_STEP, WRONG_HOLE_TYPE,
};
pub use shape::{EXACTLY_ONE, MISSING_FILE};

rule! {
    pub static DUPLICATE_ID = "duplicate-id", Hard;
    pub static ENV_CYCLE = "env-cycle", Hard;
    pub static SHADOWED_NAME = "shadowed-name", Hard;
    pub static EMPTY_LOOP = "empty-loop", Warning;
    pub static EMPTY_PROMPT = "empty-prompt", Hard;
}

/// What checking needs besides the task.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    pub sources: &'a Sources,
    pub files: &'a dyn Files,
    pub vocabularies: &'a Vocabularies,
    pub lock: &'a Lock,
}

/// A task that means something, and the files it refers to.
#[derive(Clone, Debug)]
pub struct Checked {
    pub task: Task<Def>,
    /// Scripts and prompt files, as resolved.
    pub files: IndexSet<PathBuf>,
    /// What a scripted agent's calls may use: the prompt's scope, to check them against.
    pub prompt_scope: PromptScope,
}

/// The names in scope in a prompt.
#[derive(Clone, Debug)]
pub struct PromptScope(Scope);

/// Checks a task.
///
/// # Errors
/// When something in it has no meaning; everything found is in `out`.
pub fn task(task: &Task<Path>, cx: Context<'_>, out: &mut Diagnostics) -> Result<Checked, Reported> {
    let mut checker = Checker::new(task, cx, out);
    let env = checker.env();
    let mut scope = Scope::new(task);
    let setup = checker.phase(PhaseKind::Setup, &task.setup, &mut scope);
    let prompt_scope = scope.clone();
    let prompt = checker.prompt(&scope);
    scope.enter(PhaseKind::Verify, task.dialect);
    let mark = scope.mark();
    let verify = checker.phase(PhaseKind::Verify, &task.verify, &mut scope);
    scope.truncate(mark);
    let mut scope = prompt_scope.clone();
    scope.enter(PhaseKind::Cleanup, task.dialect);
    let cleanup = checker.phase(PhaseKind::Cleanup, &task.cleanup, &mut scope);
    checker.aliases_used();
    let checked = Task {
        dialect: task.dialect,
        file: task.file,
        dir: task.dir.clone(),
        name: task.name.clone(),
        meta: task.meta.clone(),
        requires: task.requires.clone(),
        imports: task.imports.clone(),
        env,
        prompt,
        setup,
        verify,
        cleanup,
    };
    match checker.failed {
        Some(reported) => Err(reported),
        None => Ok(Checked { task: checked, files: checker.files, prompt_scope: PromptScope(prompt_scope) }),
    }
}

/// Checks what a scripted agent does in a task, in the scope of the task's prompt.
///
/// # Errors
/// As [`task`].
pub fn oracle_task(
    entry: &OracleTask<Path>,
    task: &Task<Path>,
    scope: &PromptScope,
    cx: Context<'_>,
    out: &mut Diagnostics,
) -> Result<OracleTask<Def>, Reported> {
    let mut checker = Checker::new(task, cx, out);
    let mut scope = scope.0.clone();
    // An oracle is a file of gevals' own: its holes are the portable dialect's, whatever the task's are.
    scope.dialect = Dialect::Portable;
    scope.place = Place::Oracle;
    let mut calls = Vec::new();
    for (index, call) in entry.calls.iter().enumerate() {
        scope.calls = Some(entry.calls[..index].iter().map(|c| c.kind).collect());
        let server = &call.server;
        let tool = match call.kind {
            crate::hir::CallKind::Tool => call.name.as_literal().map(str::to_owned),
            _ => None,
        };
        let schema = tool.and_then(|tool| checker.locked_tool(server, &tool, call.name.span));
        let args = match schema {
            Some(schema) => {
                let what = format!("the call of `{}`", call.name.display());
                let shape = Shape::from_foreign(schema.json());
                let args = checker.record(&call.args, &shape, What::Words(&what), call.span, &scope);
                checker.conforms(&call.args, &schema, What::Words(&what), call.span, contract::LOCKED);
                args
            }
            None => call
                .args
                .iter()
                .map(|(k, a)| (k.clone(), checker.arg(a, &Shape::Any, What::Words("an argument"), &scope)))
                .collect(),
        };
        let name = checker.template(&call.name, &scope);
        calls.push(OracleCall { span: call.span, kind: call.kind, server: call.server.clone(), name, args });
    }
    scope.calls = Some(entry.calls.iter().map(|c| c.kind).collect());
    let output = entry.output.as_ref().map(|t| checker.template(t, &scope));
    match checker.failed {
        Some(reported) => Err(reported),
        None => Ok(OracleTask { task: entry.task.clone(), span: entry.span, calls, output }),
    }
}

struct Checker<'a> {
    task: &'a Task<Path>,
    cx: Context<'a>,
    out: &'a mut Diagnostics,
    failed: Option<Reported>,
    aliases: Aliases,
    /// Every step id of the task and where it stands, to tell a typo from a forward reference.
    ids: IndexMap<String, (Span, Place)>,
    /// The names of its variables.
    variables: FxHashSet<&'a str>,
    files: IndexSet<PathBuf>,
    /// Within the setup or cleanup of a `group`, where actions are at home in every phase.
    in_section: bool,
}

impl<'a> Checker<'a> {
    fn new(task: &'a Task<Path>, cx: Context<'a>, out: &'a mut Diagnostics) -> Self {
        let mut ids = IndexMap::new();
        collect_ids(task, &mut ids);
        let mut checker = Self {
            task,
            cx,
            out,
            failed: None,
            aliases: Aliases::default(),
            variables: task.env.iter().map(|(name, _)| name.value.as_str()).collect(),
            ids,
            files: IndexSet::new(),
            in_section: false,
        };
        checker.aliases = checker.read_aliases();
        checker
    }

    fn error(&mut self, diagnostic: Diagnostic) {
        if diagnostic.strength == crate::diagnostic::Strength::Hard {
            self.failed = Some(self.out.error(diagnostic));
        } else {
            self.out.push(diagnostic);
        }
    }

    /// `spec.env`: entries may use each other, if there is no cycle.
    fn env(&mut self) -> Vec<(Name, Template<Def>)> {
        let mut scope = Scope::new(self.task);
        scope.place = Place::Env;
        // Of several of one name the last counts.
        let last: FxHashMap<&str, usize> =
            self.task.env.iter().enumerate().map(|(nth, (name, _))| (name.value.as_str(), nth)).collect();
        let mut checked = Vec::new();
        for (nth, (name, template)) in self.task.env.iter().enumerate() {
            let template = self.template(template, &scope);
            if last.get(name.value.as_str()) == Some(&nth) {
                checked.push((name.clone(), template));
            }
        }
        self.env_cycles(&checked);
        checked
    }

    fn env_cycles(&mut self, env: &[(Name, Template<Def>)]) {
        let places: FxHashMap<&str, usize> =
            env.iter().enumerate().map(|(nth, (name, _))| (name.value.as_str(), nth)).collect();
        let uses = |i: usize| {
            let holes = env[i].1.holes();
            holes.filter_map(|h| match &h.reference.target {
                crate::hir::Target::TaskEnv(name) => places.get(name.as_str()).map(|j| (*j, h.span)),
                _ => None,
            })
        };
        // 0: not seen, 1: on the path, 2: done
        let mut state = vec![0u8; env.len()];
        for start in 0..env.len() {
            let mut path: Vec<(usize, Vec<(usize, Span)>)> = Vec::new();
            if state[start] == 0 {
                state[start] = 1;
                path.push((start, uses(start).collect()));
            }
            while let Some((at, next)) = path.last_mut() {
                let Some((to, span)) = next.pop() else {
                    state[*at] = 2;
                    path.pop();
                    continue;
                };
                match state[to] {
                    0 => {
                        state[to] = 1;
                        path.push((to, uses(to).collect()));
                    }
                    1 => {
                        let names: Vec<_> = path
                            .iter()
                            .skip_while(|(i, _)| *i != to)
                            .map(|(i, _)| format!("`{}`", env[*i].0.value))
                            .collect();
                        let message = match names.split_last() {
                            Some((last, first)) if !first.is_empty() => {
                                format!("{} and {last} refer to each other", first.join(", "))
                            }
                            _ => format!("{} refers to itself", names.concat()),
                        };
                        let help = match names.as_slice() {
                            // The author means the variable of the environment.
                            [_] => format!(
                                "rename the variable, or remove it and use `{{env.{} | default('…')}}` instead",
                                env[to].0.value
                            ),
                            _ => "give one of them a value that does not refer to the others".to_owned(),
                        };
                        self.error(
                            Diagnostic::new(&ENV_CYCLE, span, message)
                                .label(env[to].0.span, "the value of this variable depends on itself")
                                .help(help),
                        );
                    }
                    _ => {}
                }
            }
        }
    }

    fn prompt(&mut self, scope: &Scope) -> Option<Prompt<Def>> {
        let prompt = self.task.prompt.as_ref()?;
        let mut scope = scope.clone();
        scope.place = Place::Prompt;
        if let Some(file) = &prompt.file {
            self.files.insert(file.value.clone());
        }
        // What could not be read stands in the file of the task still, and has been reported.
        let was_read = prompt.file.as_ref().is_none_or(|f| f.span != prompt.text.span);
        if was_read && prompt.text.as_literal().is_some_and(|t| t.trim().is_empty()) {
            self.error(
                Diagnostic::new(&EMPTY_PROMPT, prompt.text.span, "the prompt is empty")
                    .help("describe the task for the agent"),
            );
        }
        Some(Prompt { text: self.template(&prompt.text, &scope), file: prompt.file.clone() })
    }

    fn phase(&mut self, kind: PhaseKind, phase: &Phase<Path>, scope: &mut Scope) -> Phase<Def> {
        scope.place = Place::Phase(kind);
        let steps = self.sequence(kind, &phase.steps, scope, kind == PhaseKind::Cleanup);
        Phase { key: phase.key, steps }
    }

    /// Steps one after another. Cleanup runs backwards in the portable dialect, and its scope follows.
    fn sequence(&mut self, kind: PhaseKind, steps: &[Step<Path>], scope: &mut Scope, cleanup: bool) -> Vec<Step<Def>> {
        if cleanup && self.task.dialect == Dialect::Portable {
            let mut checked: Vec<_> = steps.iter().rev().filter_map(|s| self.step(kind, s, scope)).collect();
            checked.reverse();
            return checked;
        }
        steps.iter().filter_map(|s| self.step(kind, s, scope)).collect()
    }

    fn step(&mut self, kind: PhaseKind, step: &Step<Path>, scope: &mut Scope) -> Option<Step<Def>> {
        let Some((op, args)) = self.bind(step, kind, scope) else {
            // What cannot be bound still has names in it, and later steps may refer to it.
            step.templates(&mut |t| {
                let mut open = scope.clone();
                open.locals = Some((Arc::default(), true));
                self.template(t, &open);
            });
            if let Some(id) = &step.id {
                scope.define(id.value.clone(), Binding::unknown(id.span));
            }
            return None;
        };
        let signature = op.signature.clone();
        let name = op.name.clone();
        let mut keys = signature.step_keys(self.task.dialect);
        // What is there is not what an unknown key was to be.
        keys.retain(|key| !step.has(key));
        let mut checked = Step {
            id: step.id.clone(),
            op,
            key: step.key,
            span: step.span,
            args: self.record(&args, &signature.params, What::Step(&name, &keys), step.key, scope),
            blocks: Vec::new(),
            timeout: step.timeout,
            continue_on_error: step.continue_on_error,
            outputs: None,
            expect: None,
            var: step.var.clone(),
        };
        if let Some(schema) = &signature.schema {
            self.step_conforms(&checked.op, &args, schema, step.key);
        }
        self.exactly_one(step, &args, &signature);
        let mark = scope.mark();
        let mut rounds = Type::map();
        match signature.control {
            Control::Leaf => {}
            Control::Each => {
                let item = self.loop_item(&checked, step);
                if let Some(var) = &step.var {
                    self.loop_variable(var, scope);
                    scope.loops.push((var.value.clone(), item));
                }
                checked.blocks = self.blocks(kind, &step.blocks, scope);
                rounds = scope.record_since(mark);
                scope.truncate(mark);
                if step.var.is_some() {
                    scope.loops.pop();
                }
            }
            Control::Any => {
                let mut branches = Vec::new();
                for block in &step.blocks {
                    checked.blocks.extend(self.blocks(kind, std::slice::from_ref(block), scope));
                    branches.push(scope.take_since(mark));
                }
                for (id, binding) in scope::join(branches) {
                    scope.define(id, binding);
                }
            }
            Control::Scope | Control::Eventually | Control::Consistently => {
                checked.blocks = self.blocks(kind, &step.blocks, scope);
            }
        }
        if step.continue_on_error.is_some_and(|c| c.value) && kind == PhaseKind::Setup {
            scope.doubt_since(mark, step.key);
        }
        let mut locals = Arc::clone(&signature.locals);
        if signature.control == Control::Each {
            Arc::make_mut(&mut locals).insert("rounds".to_owned(), Type::list(rounds));
        }
        scope.locals = Some((Arc::clone(&locals), false));
        if let (Some((at, expect)), Some(shape)) = (&step.expect, &signature.expect) {
            let shape = match checked.op.kind {
                OperationKind::Extension { .. } => bind::expected_here(shape, expect),
                _ => Arc::clone(shape),
            };
            checked.expect = Some((*at, self.arg(expect, &shape, What::Expect(&name), scope)));
        }
        let mut named: Option<IndexMap<String, Type>> = None;
        if let Some(outputs) = &step.outputs {
            let list: Vec<_> = outputs
                .iter()
                .map(|(n, a)| (n.clone(), self.arg(a, &Shape::Any, What::Words("an output"), scope)))
                .collect();
            named = Some(list.iter().map(|(n, a)| (n.value.clone(), shape::type_of(a))).collect());
            checked.outputs = Some(list);
        }
        scope.locals = None;
        self.define(kind, step, &checked, named, locals, scope);
        Some(checked)
    }

    /// Puts the step's outputs into scope, under its id (portable) or its type (steps dialect).
    fn define(
        &mut self,
        kind: PhaseKind,
        step: &Step<Path>,
        checked: &Step<Def>,
        named: Option<IndexMap<String, Type>>,
        locals: Values,
        scope: &mut Scope,
    ) {
        let signature = &checked.op.signature;
        let (outputs, open) = match named {
            Some(named) => (Arc::new(named), false),
            None if signature.control == Control::Each => (locals, false),
            None => signature.implicit_outputs(),
        };
        let doubt = (step.continue_on_error.is_some_and(|c| c.value) && kind == PhaseKind::Setup).then_some(step.key);
        match self.task.dialect {
            Dialect::Portable => {
                if let Some(id) = &step.id {
                    scope.define(id.value.clone(), Binding { outputs, open, doubt, span: id.span });
                }
            }
            _ => {
                if let Some((key, outputs, open)) = bind::steps_outputs(&checked.op) {
                    scope.define(key, Binding { outputs: outputs.into(), open, doubt: None, span: step.key });
                }
            }
        }
    }

    fn blocks(&mut self, kind: PhaseKind, blocks: &[Block<Path>], scope: &mut Scope) -> Vec<Block<Def>> {
        let mut checked = Vec::new();
        // Written in any order, they run setup first and cleanup last.
        let mut order: Vec<_> = blocks.iter().collect();
        order.sort_by_key(|b| match b.role {
            BlockRole::Setup => 0,
            BlockRole::Steps | BlockRole::Branch => 1,
            BlockRole::Cleanup => 2,
        });
        for block in order {
            let cleanup = block.role == BlockRole::Cleanup;
            let mark = scope.mark();
            let around = self.in_section;
            self.in_section |= cleanup || block.role == BlockRole::Setup;
            let steps = self.sequence(kind, &block.steps, scope, cleanup);
            self.in_section = around;
            if cleanup {
                scope.truncate(mark);
            }
            checked.push(Block { role: block.role, span: block.span, steps });
        }
        checked
    }

    fn loop_variable(&mut self, var: &Name, scope: &Scope) {
        if ROOTS.iter().chain(&LOCALS).any(|name| *name == var.value) {
            self.error(
                Diagnostic::new(
                    &SHADOWED_NAME,
                    var.span,
                    format!("the variable `{}` hides a built-in name", var.value),
                )
                .help("rename the variable"),
            );
        } else if scope.loops.iter().any(|(name, _)| *name == var.value) {
            self.error(
                Diagnostic::new(
                    &SHADOWED_NAME,
                    var.span,
                    format!("the variable `{}` hides the variable of an enclosing `foreach`", var.value),
                )
                .help("rename the variable"),
            );
        }
    }

    /// The type of one value of the list a `foreach` goes through.
    fn loop_item(&mut self, checked: &Step<Def>, step: &Step<Path>) -> Type {
        let Some((name, list)) = checked.args.iter().find(|(k, _)| k.value == "in") else { return Type::Any };
        if let ArgKind::List(items) = &list.kind {
            let allowed = step.arg("allowEmpty").is_some_and(|a| matches!(a.kind, ArgKind::Bool(true)));
            if items.is_empty() && !allowed {
                self.out.push(
                    Diagnostic::new(
                        &EMPTY_LOOP,
                        name.span,
                        "the list is empty: the loop never runs, and nothing is checked",
                    )
                    .help("add values, or set `allowEmpty: true`"),
                );
            }
            return items.iter().map(shape::type_of).reduce(|a, b| a.join(&b)).unwrap_or_default();
        }
        match shape::type_of(list) {
            Type::List(item) => *item,
            _ => Type::Any,
        }
    }

    fn path(&self, text: &str) -> PathBuf {
        crate::source::resolve(&self.task.dir, text)
    }
}

/// Notes every id and, in the portable dialect, reports those that stand twice: the branches of one `anyOf` may share one.
fn collect_ids(task: &Task<Path>, ids: &mut IndexMap<String, (Span, Place)>) {
    task.walk(&mut |kind, step| {
        if let Some(id) = &step.id {
            ids.entry(id.value.clone()).or_insert((id.span, Place::Phase(kind)));
        }
    });
}

/// Reports ids that stand twice.
pub fn duplicate_ids(task: &Task<Path>, out: &mut Diagnostics) {
    fn walk<'t>(
        steps: impl Iterator<Item = &'t Step<Path>>,
        seen: &mut IndexMap<&'t str, Span>,
        out: &mut Diagnostics,
    ) {
        for step in steps {
            if let Some(id) = &step.id {
                match seen.get(id.value.as_str()) {
                    Some(first) => out.push(
                        Diagnostic::new(&DUPLICATE_ID, id.span, format!("duplicate id `{}`", id.value))
                            .label(*first, "first used here")
                            .help("ids must be unique within a task, so that holes can refer to steps"),
                    ),
                    None => {
                        seen.insert(&id.value, id.span);
                    }
                }
            }
            let is_any = step.blocks.iter().any(|b| b.role == BlockRole::Branch);
            if is_any {
                let before = seen.clone();
                let mut all = before.clone();
                for block in &step.blocks {
                    let mut branch = before.clone();
                    walk(block.steps.iter(), &mut branch, out);
                    all.extend(branch);
                }
                *seen = all;
            } else {
                for block in &step.blocks {
                    walk(block.steps.iter(), seen, out);
                }
            }
        }
    }
    let mut seen = IndexMap::new();
    let mut found = Diagnostics::default();
    for kind in PhaseKind::ALL {
        walk(task.phase(kind).steps.iter(), &mut seen, &mut found);
    }
    // The steps dialect has no use for ids, but their author thinks so (`tests/coverage.md` B35).
    let portable = task.dialect == Dialect::Portable;
    out.extend(found.into_iter().map(|d| {
        match portable {
            true => d,
            false => d
                .strength(crate::diagnostic::Strength::Warning)
                .help("in the steps dialect, ids have no effect; in the portable dialect, holes refer to outputs by the step's id"),
        }
    }));
}

impl Checker<'_> {
    /// The locked schema of a tool's arguments; reports a tool that the locked server does not have.
    fn locked_tool(&mut self, server: &Name, tool: &str, span: Span) -> Option<Schema> {
        let tools = self.cx.lock.tools(&server.value)?;
        match tools.get(tool) {
            Some(info) => Some(info.input_schema.clone()),
            None => {
                let diagnostic = bind::unknown_tool(&server.value, tool, span, tools.keys().map(String::as_str));
                self.error(diagnostic);
                None
            }
        }
    }
}
