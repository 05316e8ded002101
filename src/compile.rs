//! The whole way, from paths to plans: read, check, lint, lower.

use std::{path::PathBuf, sync::Arc, time::Duration};

use indexmap::IndexMap;
use rayon::prelude::*;
use sha2::{Digest, Sha256};

use crate::{
    builtin,
    check::{self, Checked},
    diagnostic::{Diagnostic, Diagnostics},
    hir::{Assertions, Limits},
    lint::{
        self, EvalView, ProjectView, TaskView,
        script::{self, ScriptView},
    },
    lock::Lock,
    plan::{self, AgentKind, EvalPlan, Plan},
    policy::{Level, Policy},
    project::{self, EvalUnit, LimitOverrides, Overrides, Project, TaskUnit},
    source::{Files, Sources, Span, Spanned},
};

/// What came of compiling.
#[derive(Debug)]
pub struct Compiled {
    pub project: Project,
    /// A plan for every eval, in the project's order; `None` where a hard error keeps it from having one.
    pub evals: Vec<Option<EvalPlan>>,
    /// A plan for every task on its own, likewise.
    pub tasks: Vec<Option<Plan>>,
    /// Everything found, in the order of all outputs.
    pub diagnostics: Vec<Diagnostic>,
}

/// What a compilation may be told besides the paths.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Levels over those of `gevals.toml`.
    pub levels: Vec<(String, Level)>,
    /// Whether tasks that no eval selects are reported.
    pub workspace: bool,
    /// What replaces parts of evals.
    pub overrides: Overrides,
}

/// Compiles files and folders. There is a plan if and only if there is no hard error (`decisions.md` §1).
pub fn compile(paths: &[PathBuf], sources: &Sources, files: &dyn Files) -> Compiled {
    compile_with(paths, &Options::default(), sources, files)
}

/// The same, with options.
pub fn compile_with(paths: &[PathBuf], options: &Options, sources: &Sources, files: &dyn Files) -> Compiled {
    let vocabularies = builtin::vocabularies();
    let mut out = Diagnostics::default();
    let rules: Vec<_> = lint::RULES.iter().map(|l| l.rule).collect();
    let start = paths.first().map_or_else(PathBuf::new, Clone::clone);
    let mut policy = Policy::find(&start, &rules, sources, files, &mut out);
    for (rule, level) in &options.levels {
        policy.set(rule, *level);
    }
    // Without a policy nobody knows what was to be silent: nothing is planned.
    let planless = out.has_hard();
    let context = project::Context {
        sources,
        files,
        vocabularies: &vocabularies,
        exclude: &policy.exclude,
        overrides: &options.overrides,
    };
    let project = project::load(paths, context, &mut out);
    let bare = Lock::default();

    // A task is checked once for every lock it is seen under; nearly always that is one.
    let mut locks: Vec<Vec<&Lock>> = vec![Vec::new(); project.tasks.len()];
    for eval in &project.evals {
        for selected in &eval.selected {
            let seen = &mut locks[selected.task];
            if !seen.iter().any(|l| std::ptr::eq(*l, Arc::as_ptr(&eval.lock))) {
                seen.push(&eval.lock);
            }
        }
    }
    for seen in &mut locks {
        if seen.is_empty() {
            seen.push(&bare);
        }
    }
    let results: Vec<Vec<(&Lock, Option<Checked>, Diagnostics)>> = project
        .tasks
        .par_iter()
        .zip(&locks)
        .map(|(unit, locks)| {
            let check = |lock: &&'_ Lock| {
                let mut found = Diagnostics::default();
                let cx = check::Context { sources, files, vocabularies: &vocabularies, lock };
                let checked = check_task(unit, cx, &mut found);
                (checked, found)
            };
            locks
                .iter()
                .map(|lock| {
                    let (checked, found) = check(lock);
                    (*lock, checked, found)
                })
                .collect()
        })
        .collect();
    let shared =
        script::files(results.iter().flatten().filter_map(|(_, c, _)| Some(&c.as_ref()?.task)), sources, files);
    let scripts: Vec<Vec<Vec<ScriptView<'_>>>> = results
        .par_iter()
        .zip(&project.tasks)
        .map(|(results, unit)| {
            let tasks = results.iter().map(|(_, checked, _)| checked.as_ref().map(|c| &c.task));
            tasks.map(|task| task.map_or_else(Vec::new, |t| script::views(unit, t, &shared, sources))).collect()
        })
        .collect();
    let checked = |task: usize, lock: &Lock| {
        let index = results[task].iter().position(|(l, ..)| std::ptr::eq(*l, lock))?;
        Some((results[task][index].1.as_ref()?, scripts[task][index].as_slice()))
    };
    for (_, _, found) in results.iter().flatten() {
        out.extend(found.iter().cloned());
    }

    let selected: indexmap::IndexSet<usize> = project.evals.iter().flat_map(|e| &e.selected).map(|s| s.task).collect();
    let tasks: Vec<Option<Plan>> = results
        .par_iter()
        .zip(&project.tasks)
        .map(|(results, unit)| {
            let checked = results.first()?.1.as_ref()?;
            let context = plan::Context { files: hashes(checked, files), ..plan::Context::default() };
            Some(plan::lower(&checked.task, &unit.path, &context))
        })
        .collect();
    for (index, unit) in project.tasks.iter().enumerate() {
        if let (Some((_, Some(checked), _)), false) = (results[index].first(), selected.contains(&index)) {
            let scripts = scripts[index].first().map_or(&[][..], Vec::as_slice);
            lint::in_task(
                &TaskView { unit, task: &checked.task, scripts, eval: None, asserted: false, sources, files },
                &mut out,
            );
        }
    }
    lint::in_project(&ProjectView { project: &project, scripts: &shared, sources, files }, &mut out);

    let evals = project
        .evals
        .iter()
        .map(|unit| {
            let mut found = Diagnostics::default();
            let cx = check::Context { sources, files, vocabularies: &vocabularies, lock: &unit.lock };
            let plan = eval_plan(unit, &project, &checked, options.overrides.limits, cx, &mut found);
            let hard = found.has_hard();
            out.extend(found);
            plan.filter(|_| !hard)
        })
        .collect();
    if options.workspace {
        lint::orphans(&project, &selected, &mut out);
    }
    let (evals, tasks) = match planless {
        true => (vec![None; project.evals.len()], vec![None; project.tasks.len()]),
        false => (evals, tasks),
    };
    let out = policy.apply(out, &rules, sources);
    Compiled { project, evals, tasks, diagnostics: out.into_sorted(sources) }
}

fn check_task(unit: &TaskUnit, cx: check::Context<'_>, out: &mut Diagnostics) -> Option<Checked> {
    let task = unit.task.as_ref()?;
    check::duplicate_ids(task, out);
    let checked = check::task(task, cx, out).ok();
    checked.filter(|_| unit.reported.is_none() && !out.has_hard())
}

/// Lints an eval and plans it, if all of it means something.
fn eval_plan<'a>(
    unit: &EvalUnit,
    project: &Project,
    checked: &dyn Fn(usize, &Lock) -> Option<(&'a Checked, &'a [ScriptView<'a>])>,
    limits: LimitOverrides,
    cx: check::Context<'_>,
    out: &mut Diagnostics,
) -> Option<EvalPlan> {
    let eval = unit.eval.as_ref()?;
    let units: Vec<&TaskUnit> = unit.selected.iter().map(|s| &project.tasks[s.task]).collect();
    let view = EvalView { unit, eval, tasks: &units, sources: cx.sources };
    lint::in_eval(&view, out);
    let mut plans = Vec::new();
    let mut whole = unit.reported.is_none();
    for (selected, task_unit) in unit.selected.iter().zip(&units) {
        let Some((checked, scripts)) = checked(selected.task, &unit.lock) else {
            whole = false;
            continue;
        };
        let assertions: Vec<&Assertions> =
            selected.sets.iter().filter_map(|&i| eval.task_sets[i].assertions.as_ref()).collect();
        let asserted = assertions.iter().any(|a| !a.items.is_empty());
        lint::in_task(
            &TaskView {
                unit: task_unit,
                task: &checked.task,
                scripts,
                eval: Some(view),
                asserted,
                sources: cx.sources,
                files: cx.files,
            },
            out,
        );
        match agent_kind(unit, task_unit, checked, cx, out) {
            Some(agent) => {
                let context = plan::Context {
                    agent,
                    assertions,
                    defaults: defaults(&eval.default_limits, limits, eval.config),
                    files: hashes(checked, cx.files),
                };
                let mut plan = plan::lower(&checked.task, &task_unit.path, &context);
                plan.timeout = limits.timeout.unwrap_or(plan.timeout);
                plan.cleanup_timeout = limits.cleanup_timeout.unwrap_or(plan.cleanup_timeout);
                plans.push(plan);
            }
            None => whole = false,
        }
    }
    whole.then(|| EvalPlan {
        name: eval.name.value.clone(),
        path: unit.path.clone(),
        agent: eval.agent.clone(),
        agent_name: agent_name(unit),
        servers: unit.mcp.iter().flat_map(|m| &m.servers).filter(|s| !s.disabled).cloned().collect(),
        dir: eval.dir.clone(),
        judge: eval.judge.is_some(),
        secrets: eval.secrets.iter().map(|s| s.value.clone()).collect(),
        tasks: plans,
    })
}

/// The eval's defaults, or what replaces them.
fn defaults(eval: &Limits, over: LimitOverrides, place: Span) -> Limits {
    let or = |over: Option<Duration>, own: Option<_>| over.map(|d| Spanned::new(d, place)).or(own);
    Limits {
        timeout: or(over.default_timeout, eval.timeout),
        cleanup_timeout: or(over.default_cleanup_timeout, eval.cleanup_timeout),
    }
}

fn agent_name(unit: &EvalUnit) -> String {
    let named = unit.agent.as_ref().and_then(|a| a.name.as_ref()).map(|n| n.value.clone());
    let kind = || unit.eval.as_ref()?.agent.as_ref().map(|a| a.kind.value.clone());
    named.or_else(kind).unwrap_or_default()
}

/// The agent of an eval, as far as it concerns one task.
fn agent_kind(
    unit: &EvalUnit,
    task_unit: &TaskUnit,
    checked: &Checked,
    cx: check::Context<'_>,
    out: &mut Diagnostics,
) -> Option<AgentKind> {
    let agent = unit.eval.as_ref()?.agent.as_ref()?;
    Some(match agent.kind.value.as_str() {
        "builtin.noop" => AgentKind::Noop,
        "builtin.script" => {
            let entry = unit.oracle.as_ref()?.tasks.iter().find(|t| t.task.value == checked.task.name.value);
            let Some(entry) = entry else {
                return Some(AgentKind::Script { calls: Vec::new(), output: None, entry: false });
            };
            let task = task_unit.task.as_ref()?;
            let entry = check::oracle_task(entry, task, &checked.prompt_scope, cx, out).ok()?;
            AgentKind::Script { calls: entry.calls, output: entry.output, entry: true }
        }
        "file" => match unit.agent.as_ref()? {
            agent if agent.acp.is_some() => AgentKind::Unsupported("ACP agents".to_owned()),
            agent if agent.builtin.is_some() => AgentKind::Unsupported("built-in model agents".to_owned()),
            agent => AgentKind::Shell(agent.commands.clone()?),
        },
        other => AgentKind::Unsupported(format!("`{other}`")),
    })
}

/// SHA-256 of every file a task refers to.
fn hashes(checked: &Checked, files: &dyn Files) -> IndexMap<PathBuf, String> {
    let mut hashes: IndexMap<_, _> = checked
        .files
        .iter()
        .filter_map(|path| {
            let hash = Sha256::digest(files.read(path).ok()?);
            Some((path.clone(), hash.iter().map(|b| format!("{b:02x}")).collect::<String>()))
        })
        .collect();
    hashes.sort_keys();
    hashes
}
