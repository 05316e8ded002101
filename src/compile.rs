//! The whole compilation, from paths to plans: read, check, lint, lower.

mod facts;

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use indexmap::{IndexMap, IndexSet};
use rayon::prelude::*;
use rustc_hash::{FxHashMap, FxHashSet};
use sha2::{Digest, Sha256};

use crate::{
    affected::{Affected, Changed},
    bash::tools::Tools,
    builtin,
    check::{self, Checked},
    decode,
    diagnostic::{Diagnostic, Diagnostics},
    effects::{
        self, Model,
        script::{self, ScriptFiles, ScriptView},
    },
    hir::{
        AgentRef, Assertion, AssertionKind, Assertions, Eval, Isolation, IsolationRef, JudgeRef, KubeWorld, Limits,
        Name, Permissions, TaskSet,
    },
    lint::{self, EvalView, ProjectView, Selecting, TaskView, UnderView, unresolved_source},
    lock::{self, Lock},
    memo::{Asked, Memo},
    parallel,
    plan::{self, AgentKind, EvalPlan, Granted, Isolated, Judge, Plan, SkillMount, Written, WrittenSet},
    policy::{Level, Policy},
    project::{self, EvalUnit, LimitOverrides, Only, Overrides, Project, Selected, TaskUnit},
    source::{FileId, Files, Listed, Sources, Span, Spanned, resolve},
};

pub use facts::{Facts, TaskFacts};

/// The result of a compilation.
#[derive(Debug)]
pub struct Compiled {
    pub project: Project,
    /// A plan for each eval, in the order of the project; `None` if a hard error prevents it.
    pub evals: Vec<Option<EvalPlan>>,
    /// A plan for each task by itself, in the order of the project; `None` if a hard error prevents it or none was
    /// requested.
    pub tasks: Vec<Option<Box<Plan>>>,
    /// The scripts and prompts that each task refers to; empty if the task has no meaning.
    pub refers: Vec<Arc<[PathBuf]>>,
    /// What a change affects, if requested.
    pub affected: Option<Affected>,
    /// All findings, in the order of all outputs.
    pub diagnostics: Vec<Diagnostic>,
}

/// Options of a compilation.
#[derive(Clone, Debug)]
pub struct Options {
    /// Levels that override those of `gevals.toml`.
    pub levels: Vec<(String, Level)>,
    /// Whether tasks that no eval selects are reported.
    pub workspace: bool,
    /// Overrides for parts of evals.
    pub overrides: Overrides,
    /// Which plans to make. Without plans, the findings are the same and available sooner.
    pub plans: Plans,
    /// Whether to report what has a meaning, but probably not the intended one. Without these findings, the plans are
    /// the same and available sooner.
    pub soft: bool,
}

/// Which plans to make.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Plans {
    None,
    /// Plans of the evals: all that a run needs, in half the memory.
    Evals,
    /// Plans of the evals, and of each task by itself.
    All,
}

impl Default for Options {
    fn default() -> Self {
        Self { levels: Vec::new(), workspace: false, overrides: Overrides::default(), plans: Plans::All, soft: true }
    }
}

/// Compiles files and folders. There is a plan if and only if there is no hard error (`decisions.md` §1).
pub fn compile(paths: &[PathBuf], sources: &Sources, files: &dyn Files) -> Compiled {
    compile_with(paths, &Options::default(), sources, files)
}

/// Like [`compile`], with options.
pub fn compile_with(paths: &[PathBuf], options: &Options, sources: &Sources, files: &dyn Files) -> Compiled {
    all(paths, options, sources, files, Scope::default())
}

/// Like [`compile_with`], but compiles only what a change affects, with what influences it. The findings there are
/// those of [`compile_with`]; findings elsewhere are incomplete.
pub fn compile_changed(
    paths: &[PathBuf],
    options: &Options,
    changed: Changed<'_>,
    sources: &Sources,
    files: &dyn Files,
) -> Compiled {
    all(paths, options, sources, files, Scope { changed: Some(changed), ..Scope::default() })
}

/// What a compilation keeps for later ones.
#[derive(Debug, Default)]
pub struct Memory {
    sources: Sources,
    project: project::Memory,
    /// By path, as spelled: to hash and compare paths component by component takes longer.
    tasks: Memo<OsString, KnownTask>,
    /// By the start path of the search and the options.
    policy: Memo<(PathBuf, String), ()>,
    broad: Mutex<Broad>,
}

/// What concerns no single task.
#[derive(Debug, Default)]
struct Broad {
    /// The paths that were read or queried.
    asked: Vec<PathBuf>,
    /// Findings of the rules that inspect several tasks, before the policy is applied.
    found: Vec<Diagnostic>,
}

/// How much to compile.
#[derive(Clone, Copy, Default)]
struct Scope<'a> {
    memory: Option<&'a Memory>,
    /// The change, if only what it affects is to be compiled.
    changed: Option<Changed<'a>>,
    only: Option<&'a Only>,
    /// If only a part of a project is compiled: findings in it of the rules that inspect several tasks.
    known: &'a [Diagnostic],
}

impl Memory {
    /// The sources of the last compilation.
    pub fn sources(&self) -> &Sources {
        &self.sources
    }

    /// Compiles without plans; the result equals that of [`compile_with`]. `changed` must contain every path, spelled
    /// as it was requested, for which any query of the files in the last compilation would now be answered differently.
    pub fn compile(
        &self,
        paths: &[PathBuf],
        options: &Options,
        files: &dyn Files,
        changed: &FxHashSet<PathBuf>,
    ) -> Compiled {
        self.sources.begin();
        rayon::join(|| self.project.forget(changed), || self.tasks.forget(changed));
        self.policy.forget(changed);
        let options = Options { plans: Plans::None, ..options.clone() };
        all(paths, &options, &self.sources, files, Scope { memory: Some(self), ..Scope::default() })
    }

    /// Compiles a part of a project for the first time with this memory. `known`: findings in it of the rules that
    /// inspect several tasks. `changed`: the change, if only what it affects is to be compiled.
    pub fn compile_part(
        &self,
        paths: &[PathBuf],
        options: &Options,
        files: &dyn Files,
        only: &Only,
        known: &[Diagnostic],
        changed: Option<Changed<'_>>,
    ) -> Compiled {
        let options = Options { plans: Plans::None, ..options.clone() };
        let scope = Scope { memory: Some(self), changed, only: Some(only), known };
        all(paths, &options, &self.sources, files, scope)
    }
}

/// The cached result of a task, with the inputs it was made from.
#[derive(Clone, Debug)]
struct KnownTask {
    unit: Arc<TaskUnit>,
    under: Vec<SeenUnder>,
    result: TaskResult,
}

/// An eval that selects the task, as far as the result depends on it: the number of its reading, whether reading it
/// reported an error, and the task sets that select the task.
type SeenUnder = (u64, bool, Vec<usize>);

/// Reads, checks and lints everything. With a memory, only what has changed and what that affects; with `changed`, only
/// what the change affects.
fn all(
    paths: &[PathBuf],
    options: &Options,
    sources: &Sources,
    files: &dyn Files,
    Scope { memory, changed, only, known }: Scope<'_>,
) -> Compiled {
    let files = &Listed::new(files);
    let heard = memory.map(|_| Asked::of(files));
    let broad: &dyn Files = heard.as_ref().map_or(files, |heard| heard);
    let mut out = Diagnostics::default();
    let rules: Vec<_> = lint::RULES.iter().map(|l| l.rule).collect();
    let start = paths.first().map_or_else(PathBuf::new, Clone::clone);
    let asked = Asked::of(broad);
    let mut policy = Policy::find(&start, &rules, sources, &asked, &mut out);
    if let Some(memory) = memory {
        let key = (start, format!("{options:?}"));
        if memory.policy.get(&key, sources, |()| true).is_none() {
            memory.tasks.clear();
        }
        memory.policy.put(key, (), asked.take(), sources);
    }
    for (rule, level) in &options.levels {
        policy.set(rule, *level);
    }
    // Without a valid policy, it is unknown which findings to silence, so nothing is planned.
    let planless = out.has_hard();
    let context = project::Context {
        sources,
        files: broad,
        apart: files,
        vocabularies: builtin::vocabularies(),
        exclude: &policy.exclude,
        overrides: &options.overrides,
        memory: memory.map(|memory| &memory.project),
        only,
    };
    let project = project::load(paths, context, &mut out);
    let bare = Lock::default();

    // A task is checked once per lock under which it is seen; nearly always that is one.
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
    let units: Vec<Vec<&TaskUnit>> =
        project.evals.iter().map(|e| e.selected.iter().map(|s| &*project.tasks[s.task]).collect()).collect();
    let mut selecting: Vec<Vec<(usize, &Selected)>> = vec![Vec::new(); project.tasks.len()];
    for (index, eval) in project.evals.iter().enumerate() {
        eval.selected.iter().for_each(|s| selecting[s.task].push((index, s)));
    }
    let scripts = ScriptFiles::default();
    let mut unread: FxHashMap<FileId, Vec<Span>> = FxHashMap::default();
    for key in unread_keys(&out) {
        unread.entry(key.file).or_default().push(key);
    }
    let shared = Shared {
        unread: &unread,
        options,
        project: &project,
        scripts: &scripts,
        tools: &policy.tools,
        sources,
        files,
        memory,
    };
    let chosen = changed.map(|changed| {
        let seen = (0..project.tasks.len()).into_par_iter();
        let seen: Vec<Glance> = seen.map(|task| shared.glance(task, &locks[task], &selecting[task], changed)).collect();
        let refers: Vec<_> = seen.iter().map(|glance| Arc::clone(&glance.refers)).collect();
        let touched: Vec<bool> = seen.iter().map(|glance| glance.is_touched).collect();
        let affected = Affected::of(changed, &project, &refers, &touched, files);
        let wanted = match only {
            Some(_) => vec![true; refers.len()],
            None => affected.wanted(changed, &project, &refers, sources),
        };
        (affected, wanted, seen)
    });
    // Everything made for a task is dropped once its findings exist, so that memory does not grow with the size of the
    // suite.
    let tasks = || -> Vec<TaskResult> {
        let compiled = |task: usize| match &chosen {
            Some((_, wanted, seen)) if !wanted[task] => TaskResult::of_other(&seen[task]),
            _ => shared.known(task, &locks[task], &selecting[task]),
        };
        let tasks: Vec<usize> = (0..project.tasks.len()).collect();
        parallel::map(&tasks, 2, |task| compiled(*task))
    };
    let evals = || -> Vec<Diagnostics> {
        let evals: Vec<_> = project.evals.iter().zip(&units).collect();
        let found = |(unit, tasks): &(&EvalUnit, &Vec<&TaskUnit>)| match only {
            Some(_) => Diagnostics::default(),
            None => in_eval(unit, tasks, sources, broad),
        };
        parallel::map(&evals, 2, found)
    };
    let (mut results, linted) = match project.evals.is_empty() {
        true => (tasks(), evals()),
        false => rayon::join(tasks, evals),
    };
    for result in &mut results {
        out.extend(std::mem::take(&mut result.found));
    }
    let mut among = Diagnostics::default();
    among.extend(known.iter().cloned());
    if options.soft && only.is_none() {
        let scripts = results.iter().flat_map(|result| &*result.scripts).map(|path| path.as_os_str()).collect();
        let view = ProjectView { project: &project, scripts: &scripts, sources, files: broad };
        lint::in_project(&view, &mut among);
        for unit in &project.evals {
            let touches: Vec<&[lint::Touch]> = unit.selected.iter().map(|s| &*results[s.task].touches).collect();
            lint::between(&touches, &mut among);
        }
    }
    if options.workspace {
        let selected = project.evals.iter().flat_map(|e| &e.selected).map(|s| s.task).collect();
        lint::orphans(&project, &selected, &mut among);
    }
    if let (Some(memory), Some(heard)) = (memory, &heard) {
        let found = among.iter().chain(linted.iter().flat_map(Diagnostics::iter)).cloned();
        let broad = Broad { asked: heard.take(), found: found.collect() };
        *memory.broad.lock().unwrap_or_else(PoisonError::into_inner) = broad;
    }
    out.extend(among);
    let mut evals = Vec::new();
    for (index, (unit, found)) in project.evals.iter().zip(linted).enumerate() {
        let under: Vec<Option<Under>> = unit
            .selected
            .iter()
            .map(|s| {
                let under = &mut results[s.task].under;
                Some(under.swap_remove(under.iter().position(|u| u.eval == index)?))
            })
            .collect();
        let hard = found.has_hard() || under.iter().flatten().any(|u| u.hard);
        out.extend(found);
        evals.push(eval_plan(unit, under, options.overrides.limits).filter(|_| options.plans != Plans::None && !hard));
    }
    let mut refers = Vec::new();
    let mut tasks = Vec::new();
    for result in results {
        refers.push(result.refers);
        tasks.push(result.alone);
    }
    let (evals, tasks) = match planless {
        true => (vec![None; project.evals.len()], vec![None; project.tasks.len()]),
        false => (evals, tasks),
    };
    let out = policy.apply(out, &rules, sources);
    let affected = chosen.map(|(affected, ..)| affected);
    Compiled { project, evals, tasks, refers, affected, diagnostics: out.into_sorted(sources) }
}

/// Returns what each task under the paths does according to the model of effects; `None` for a task with an error.
pub fn effects(paths: &[PathBuf], sources: &Sources, files: &dyn Files) -> Vec<(String, PathBuf, Option<String>)> {
    let options = Options { plans: Plans::None, soft: false, ..Options::default() };
    let project = compile_with(paths, &options, sources, files).project;
    let rules: Vec<_> = lint::RULES.iter().map(|l| l.rule).collect();
    let start = paths.first().map_or_else(PathBuf::new, Clone::clone);
    let tools = &Policy::find(&start, &rules, sources, files, &mut Diagnostics::default()).tools;
    let bare = Lock::default();
    let files = &Listed::new(files);
    let of = |unit: &Arc<TaskUnit>| {
        let lock =
            project.evals.iter().find(|eval| eval.selected.iter().any(|s| Arc::ptr_eq(&project.tasks[s.task], unit)));
        let lock = lock.map_or(&bare, |eval| &*eval.lock);
        let cx = check::Context { sources, files, vocabularies: builtin::vocabularies(), lock };
        let checked = check_task(unit, cx, &mut Diagnostics::default());
        let name = unit.task.as_ref().map_or_else(String::new, |task| task.name.value.clone());
        let text = checked.map(|checked| {
            let all = ScriptFiles::default();
            let scripts = script::views(unit, &checked.task, &all, sources, files);
            let sourced = effects::sourced(&scripts, &all, sources, files);
            Model::of(effects::Given { task: &checked.task, scripts: &scripts, sourced: &sourced, tools, files })
                .shown(sources)
        });
        (name, unit.path.clone(), text)
    };
    project.tasks.iter().map(of).collect()
}

/// Applies the policy of the current directory to findings; returns them in the order of all outputs.
#[cfg(feature = "run")]
pub fn policed(mut found: Diagnostics, sources: &Sources, files: &dyn Files) -> Vec<Diagnostic> {
    let rules: Vec<_> = lint::RULES.iter().map(|l| l.rule).collect();
    let policy = Policy::find(&PathBuf::new(), &rules, sources, files, &mut found);
    policy.apply(found, &rules, sources).into_sorted(sources)
}

fn unread_keys(found: &Diagnostics) -> impl Iterator<Item = Span> {
    found.iter().filter(|d| std::ptr::eq(d.rule, &raw const decode::UNKNOWN_FIELD)).map(|d| d.span)
}

/// Returns the findings of rules for an eval as a whole.
fn in_eval(unit: &EvalUnit, tasks: &[&TaskUnit], sources: &Sources, files: &dyn Files) -> Diagnostics {
    let mut found = Diagnostics::default();
    if let Some(eval) = &unit.eval {
        lint::in_eval(&EvalView { unit, eval, tasks, sources, files }, &mut found);
    }
    found
}

/// Inputs that all tasks are compiled with.
#[derive(Clone, Copy)]
struct Shared<'a> {
    options: &'a Options,
    project: &'a Project,
    /// Keys that are never read, as far as reading the files shows.
    unread: &'a FxHashMap<FileId, Vec<Span>>,
    scripts: &'a ScriptFiles,
    tools: &'a Tools,
    sources: &'a Sources,
    files: &'a dyn Files,
    memory: Option<&'a Memory>,
}

/// The result of compiling one task.
#[derive(Clone, Debug)]
struct TaskResult {
    found: Diagnostics,
    refers: Arc<[PathBuf]>,
    /// The script files that it runs, and the files that these source.
    scripts: Arc<[PathBuf]>,
    /// Its plan if no eval selects it.
    alone: Option<Box<Plan>>,
    under: Vec<Under>,
    /// The resources it touches, if it may run in parallel with others.
    touches: Arc<[lint::Touch]>,
}

/// What is known of a task without an analysis of what it does.
struct Glance {
    refers: Arc<[PathBuf]>,
    /// Whether a change affects it.
    is_touched: bool,
    /// Findings about what the task needs and an eval lacks.
    found: Diagnostics,
}

impl TaskResult {
    /// The result of a task that is not to be compiled.
    fn of_other(seen: &Glance) -> Self {
        Self {
            found: seen.found.clone(),
            refers: Arc::clone(&seen.refers),
            scripts: Arc::new([]),
            alone: None,
            under: Vec::new(),
            touches: Arc::new([]),
        }
    }
}

/// The result of a task under one eval that selects it.
#[derive(Clone, Debug)]
struct Under {
    eval: usize,
    /// Index among the evals that select the task.
    nth: usize,
    plan: Option<Box<Plan>>,
    hard: bool,
}

impl Shared<'_> {
    /// Checks whether a change affects a task: whether its file or a file that it refers to changed, or mentions a
    /// changed file.
    fn glance(&self, index: usize, locks: &[&Lock], selecting: &[(usize, &Selected)], changed: Changed<'_>) -> Glance {
        let Self { project, sources, files, .. } = *self;
        let unit = &project.tasks[index];
        let (mut refers, mut found) = (IndexSet::new(), Diagnostics::default());
        for lock in locks {
            let cx = check::Context { sources, files, vocabularies: builtin::vocabularies(), lock };
            let mut own = Diagnostics::default();
            let Some(checked) = check_task(unit, cx, &mut own) else { continue };
            let known = self.unread.get(&unit.file).into_iter().flatten().copied();
            let unread: Vec<Span> = known.chain(unread_keys(&own)).collect();
            let (effects, facts) = (Model::default(), lint::Facts::default());
            let view = TaskView {
                unit,
                task: &checked.task,
                scripts: &[],
                effects: &effects,
                tools: self.tools,
                facts: &facts,
                selected: true,
                asserted: false,
                unread: &unread,
                soft: self.options.soft,
                sources,
                files,
            };
            for (index, selected) in selecting {
                let unit = &project.evals[*index];
                let Some(eval) = unit.eval.as_ref().filter(|_| std::ptr::eq(*lock, &*unit.lock)) else { continue };
                let selecting = Selecting { unit, eval, sets: &selected.sets };
                let under = UnderView::new(&view, Some(selecting), is_asserted(unit, selected));
                lint::under_eval(&under, &mut found);
            }
            refers.extend(checked.files);
        }
        // Findings in the task file itself would require more analysis.
        found.retain(|one| one.span.file != unit.file);
        let dir = unit.path.parent().unwrap_or(Path::new(""));
        let speaks = |path: &PathBuf| {
            let bytes = files.read(path).unwrap_or_default();
            changed.are_in(&String::from_utf8_lossy(&bytes), dir)
        };
        let is_touched = changed.touches(&unit.path)
            || changed.are_in(sources.get(unit.file).text(), dir)
            || refers.iter().any(|path| changed.touches(path) || speaks(path));
        Glance { refers: refers.into_iter().collect(), is_touched, found }
    }

    /// Returns the cached result of a task if none of its inputs changed; otherwise compiles it.
    fn known(&self, index: usize, locks: &[&Lock], selecting: &[(usize, &Selected)]) -> TaskResult {
        let Some(memory) = self.memory else { return self.task(index, locks, selecting) };
        let unit = &self.project.tasks[index];
        let seen = |(eval, selected): &(usize, &Selected)| {
            let unit = &self.project.evals[*eval];
            (unit.reading, unit.reported.is_some(), selected.sets.clone())
        };
        let under: Vec<SeenUnder> = selecting.iter().map(seen).collect();
        let fits = |known: &KnownTask| Arc::ptr_eq(&known.unit, unit) && known.under == under;
        let make = |files: &dyn Files| {
            let result = Shared { files, ..*self }.task(index, locks, selecting);
            KnownTask { unit: Arc::clone(unit), under: under.clone(), result }
        };
        let known = memory.tasks.get_or_make(unit.path.as_os_str().to_owned(), self.sources, self.files, fits, make);
        let mut result = known.result;
        result.under.iter_mut().for_each(|under| under.eval = selecting[under.nth].0);
        result
    }

    fn task(&self, index: usize, locks: &[&Lock], selecting: &[(usize, &Selected)]) -> TaskResult {
        let Self { project, sources, files, .. } = *self;
        let unit = &project.tasks[index];
        let planned = self.options.plans != Plans::None;
        let (mut refers, mut script_files) = (IndexSet::new(), IndexSet::new());
        let (mut all, mut alone, mut under_evals, mut touches) = (Diagnostics::default(), None, Vec::new(), Vec::new());
        for (round, lock) in locks.iter().enumerate() {
            let cx = check::Context { sources, files, vocabularies: builtin::vocabularies(), lock };
            let mut found = Diagnostics::default();
            let checked = check_task(unit, cx, &mut found);
            let known = self.unread.get(&unit.file).into_iter().flatten().copied();
            let unread: Vec<Span> = known.chain(unread_keys(&found)).collect();
            all.extend(found);
            let Some(checked) = checked else { continue };
            let task = &checked.task;
            let scripts = match self.options.soft || planned {
                true => script::views(unit, task, self.scripts, sources, files),
                false => Vec::new(),
            };
            let too_large = if self.options.soft { lint::too_large(task, &scripts) } else { None };
            let soft = self.options.soft && too_large.is_none();
            all.extend(too_large);
            let sourced = effects::sourced(&scripts, self.scripts, sources, files);
            script_files.extend(scripts.iter().filter_map(ScriptView::path).map(Path::to_owned));
            script_files.extend(sourced.iter().map(|(path, _)| path.clone()));
            // A run requests only plans.
            let effects = match soft || self.options.plans == Plans::All {
                true => {
                    Model::of(effects::Given { task, scripts: &scripts, sourced: &sourced, tools: self.tools, files })
                }
                false => Model::default(),
            };
            let under = selecting.iter().enumerate();
            let under: Vec<_> = under.filter(|(_, (e, _))| std::ptr::eq(*lock, &*project.evals[*e].lock)).collect();
            let facts = lint::Facts::default();
            let view = TaskView {
                unit,
                task,
                scripts: if soft { &scripts } else { &[] },
                effects: &effects,
                tools: self.tools,
                facts: &facts,
                selected: !under.is_empty(),
                asserted: !under.is_empty() && under.iter().all(|(_, (eval, s))| is_asserted(&project.evals[*eval], s)),
                unread: &unread,
                soft,
                sources,
                files,
            };
            if soft && task.meta.parallel && round == 0 {
                touches = lint::touches(&view);
            }
            let mut found = Diagnostics::default();
            lint::in_task(&view, &mut found);
            if selecting.is_empty() {
                lint::under_eval(&UnderView::new(&view, None, false), &mut found);
            }
            let hard = found.has_hard();
            all.extend(found);
            let context = match planned {
                true => plan::Context {
                    files: hashes(&checked, &scripts, files),
                    changes: effects.changes(task, self.tools),
                    inherited: effects.inherited(task, self.tools),
                    ..plan::Context::default()
                },
                false => plan::Context::default(),
            };
            for (nth, (eval, selected)) in &under {
                let mut found = Diagnostics::default();
                let plan = self.under(&view, &checked, *eval, selected, &context, cx, &mut found);
                under_evals.push(Under { eval: *eval, nth: *nth, plan, hard: hard || found.has_hard() });
                all.extend(found);
            }
            if round == 0 && self.options.plans == Plans::All {
                alone = Some(Box::new(plan::lower(task, &unit.path, &context)));
            }
            refers.extend(checked.files);
        }
        TaskResult {
            found: all,
            refers: refers.into_iter().collect(),
            scripts: script_files.into_iter().collect(),
            alone,
            under: under_evals,
            touches: touches.into(),
        }
    }

    /// Lints a task under an eval, and plans it if there is no hard error.
    fn under(
        &self,
        view: &TaskView<'_>,
        checked: &Checked,
        index: usize,
        selected: &Selected,
        of_task: &plan::Context<'_>,
        cx: check::Context<'_>,
        out: &mut Diagnostics,
    ) -> Option<Box<Plan>> {
        let unit = &self.project.evals[index];
        let eval = unit.eval.as_ref()?;
        let limits = self.options.overrides.limits;
        let assertions = assertions(eval, selected).collect();
        let selecting = Selecting { unit, eval, sets: &selected.sets };
        let under = UnderView::new(view, Some(selecting), is_asserted(unit, selected));
        lint::under_eval(&under, out);
        let agent = agent_kind(unit, view.unit, checked, cx, out)?;
        if self.options.plans == Plans::None {
            return None;
        }
        let context = plan::Context {
            agent,
            skills: skill_mount(unit),
            assertions,
            defaults: defaults(&eval.default_limits, limits, eval.config),
            extension_timeout: eval.extension_options.timeout.map(|timeout| timeout.value),
            ..of_task.clone()
        };
        let mut plan = plan::lower(view.task, &view.unit.path, &context);
        plan.timeout = limits.timeout.unwrap_or(plan.timeout);
        plan.cleanup_timeout = limits.cleanup_timeout.unwrap_or(plan.cleanup_timeout);
        if eval.world.is_some() {
            plan.process_env.retain(|name, _| !KubeWorld::VARIABLES.contains(&name.as_str()));
        }
        Some(Box::new(plan))
    }
}

/// Returns the assertions of an eval that apply to a task.
fn assertions<'e>(eval: &'e Eval, selected: &Selected) -> impl Iterator<Item = &'e Assertions> {
    selected.sets.iter().filter_map(|&i| eval.task_sets[i].assertions.as_ref())
}

/// Whether at least one of the assertions can fail.
fn is_asserted(unit: &EvalUnit, selected: &Selected) -> bool {
    let decides = |i: &Assertion| !matches!(i.kind, AssertionKind::NoDuplicateCalls(false));
    unit.eval.as_ref().is_some_and(|eval| assertions(eval, selected).flat_map(|a| &a.items).any(decides))
}

fn check_task(unit: &TaskUnit, cx: check::Context<'_>, out: &mut Diagnostics) -> Option<Checked> {
    let task = unit.task.as_ref()?;
    check::duplicate_ids(task, out);
    let checked = check::task(task, cx, out).ok();
    checked.filter(|_| unit.reported.is_none() && !out.has_hard())
}

/// Returns the plan of an eval, if there is no hard error.
fn eval_plan(unit: &EvalUnit, under: Vec<Option<Under>>, limits: LimitOverrides) -> Option<EvalPlan> {
    let eval = unit.eval.as_ref()?;
    let tasks: Option<Vec<Plan>> = under.into_iter().map(|u| Some(*u?.plan?)).collect();
    if unit.reported.is_some() {
        return None;
    }
    Some(EvalPlan {
        name: eval.name.value.clone(),
        path: unit.path.clone(),
        agent: eval.agent.clone(),
        agent_name: agent_name(unit),
        isolation: isolated(unit),
        servers: unit.mcp.iter().flat_map(|m| &m.servers).filter(|s| !s.disabled).cloned().collect(),
        dir: eval.dir.clone(),
        judge: judge(unit),
        extensions: extensions(eval, &unit.lock),
        world: eval.world,
        budget: eval.budget,
        model: model(unit),
        secrets: eval.secrets.iter().chain(key_variables(unit)).map(|s| s.value.clone()).collect(),
        written: written(eval, limits),
        tasks: tasks?,
    })
}

/// Returns the isolation that the eval specifies for its agent, and what the agent file requests. An agent file may
/// request stricter isolation without a grant, and weaker isolation only with one.
fn isolated(unit: &EvalUnit) -> Isolated {
    let eval = unit.eval.as_ref().and_then(|eval| eval.isolation.clone()).unwrap_or_default();
    let asked = unit.agent.as_ref().and_then(|agent| agent.isolation.as_ref());
    let own = asked.and_then(|asked| asked.level).filter(|level| *level >= Isolation::Auto);
    let words = |names: &[Name]| names.iter().map(|name| name.value.clone()).collect();
    Isolated {
        level: eval.level.or(own).unwrap_or_default(),
        meant: eval.level.or(own).is_some(),
        asks: asked.map(|IsolationRef { level, permissions: Permissions { network, read, write, env } }| {
            let permissions =
                lock::Permissions { network: *network, read: words(read), write: words(write), env: words(env) };
            (*level, permissions)
        }),
        granted: granted(&eval.permissions),
    }
}

fn granted(permissions: &Permissions) -> Granted {
    let paths = |names: &[Name]| names.iter().map(|name| PathBuf::from(&name.value)).collect();
    Granted {
        network: permissions.network,
        read: paths(&permissions.read),
        write: paths(&permissions.write),
        env: permissions.env.iter().map(|name| name.value.clone()).collect(),
    }
}

fn written(eval: &Eval, limits: LimitOverrides) -> Written {
    let text = |name: &Option<Name>| name.as_ref().map(|name| name.value.clone());
    let set = |set: &TaskSet| WrittenSet {
        path: text(&set.path),
        glob: text(&set.glob),
        labels: set.selector.iter().map(|(key, value)| (key.clone(), value.value.clone())).collect(),
    };
    let default = defaults(&eval.default_limits, limits, eval.config);
    Written {
        task_sets: eval.task_sets.iter().map(set).collect(),
        skills: eval.skills.iter().flat_map(|skills| &skills.sources).map(|source| source.value.clone()).collect(),
        timeouts: [
            default.timeout.map(|timeout| timeout.value),
            limits.timeout,
            default.cleanup_timeout.map(|timeout| timeout.value),
            limits.cleanup_timeout,
        ],
    }
}

/// Returns the extensions of an eval in the form that its plan uses.
pub(crate) fn extensions(eval: &Eval, lock: &Lock) -> plan::Extensions {
    let configured = eval.extensions.iter().filter_map(|extension| {
        Some(plan::Extension {
            alias: extension.alias.value.clone(),
            package: extension.package.as_ref()?.value.clone(),
            dir: eval.dir.clone(),
            env: extension.env.iter().map(|(name, value)| (name.value.clone(), value.clone())).collect(),
            config: extension.config.clone(),
            granted: granted(&extension.permissions),
        })
    });
    let options = &eval.extension_options;
    let asked = lock.extensions.iter().filter(|(_, locked)| !locked.permissions.is_empty());
    plan::Extensions {
        declared: configured.collect(),
        releases: lock.releases.clone(),
        asked: asked.map(|(name, locked)| (name.clone(), locked.permissions.clone())).collect(),
        substitute: options.substitute,
        sandbox: options.sandbox,
        cache: options.cache_dir.as_ref().map(|dir| resolve(&eval.dir, &dir.value)),
    }
}

/// Returns the skills that the eval gives its agent, if the agent specifies how it reads skills.
fn skill_mount(unit: &EvalUnit) -> Option<SkillMount> {
    let eval = unit.eval.as_ref()?;
    let skills = eval.skills.as_ref()?;
    let (path, tool) = unit.skills()?;
    let sources = skills.sources.iter().map(|source| project::folder(&eval.dir, &source.value)).collect();
    Some(SkillMount { sources, path: path.to_owned(), tool: tool.to_owned() })
}

/// Returns the variables from which agent and judge read their keys.
fn key_variables(unit: &EvalUnit) -> impl Iterator<Item = &Name> {
    let files = [&unit.agent, &unit.judge].into_iter().flatten();
    let keys = files.filter_map(|file| file.builtin.as_ref()?.api_key.as_ref());
    keys.chain(unit.eval.as_ref().and_then(|e| e.judge.as_ref()?.env.as_ref()?.api_key.as_ref()))
}

/// Returns the eval's default limits, with overrides applied.
fn defaults(eval: &Limits, over: LimitOverrides, place: Span) -> Limits {
    let or = |over: Option<Duration>, own: Option<_>| over.map(|d| Spanned::new(d, place)).or(own);
    Limits {
        timeout: or(over.default_timeout, eval.timeout),
        cleanup_timeout: or(over.default_cleanup_timeout, eval.cleanup_timeout),
        bounds: eval.bounds,
    }
}

fn agent_name(unit: &EvalUnit) -> String {
    let named = unit.agent.as_ref().and_then(|a| a.name.as_ref()).map(|n| n.value.clone());
    let kind = || unit.eval.as_ref()?.agent.as_ref().map(|a| a.kind.value.clone());
    named.or_else(kind).unwrap_or_default()
}

/// Returns the agent of an eval, as far as it concerns one task.
fn agent_kind(
    unit: &EvalUnit,
    task_unit: &TaskUnit,
    checked: &Checked,
    cx: check::Context<'_>,
    out: &mut Diagnostics,
) -> Option<AgentKind> {
    let agent = unit.eval.as_ref()?.agent.as_ref()?;
    match agent.kind.value.as_str() {
        "builtin.script" => {}
        "builtin.replay" => return Some(AgentKind::Replay { path: unit.recording.as_ref()?.path.clone() }),
        _ => return AgentKind::of(agent, unit.agent.as_ref()),
    }
    let entry = unit.oracle.as_ref()?.tasks.iter().find(|t| t.task.value == checked.task.name.value);
    let Some(entry) = entry else {
        return Some(AgentKind::Script { calls: Vec::new(), output: None, entry: false });
    };
    let task = task_unit.task.as_ref()?;
    let entry = check::oracle_task(entry, task, &checked.prompt_scope, cx, out).ok()?;
    Some(AgentKind::Script { calls: entry.calls, output: entry.output, entry: true })
}

/// Returns the model of the agent, from the reference or from the agent file.
fn model(unit: &EvalUnit) -> Option<String> {
    let own = unit.eval.as_ref()?.agent.as_ref()?.model.as_ref();
    let file = unit.agent.as_ref().and_then(|a| a.builtin.as_ref()?.model.as_ref());
    own.or(file).map(|m| m.value.clone())
}

/// Returns the judge of an eval. For the deprecated form, which names variables, they are resolved later.
fn judge(unit: &EvalUnit) -> Option<Judge> {
    let JudgeRef { agent, env, span } = unit.eval.as_ref()?.judge.as_ref()?;
    let name = |agent: &AgentRef| {
        let named = unit.judge.as_ref().and_then(|a| a.name.as_ref()).map(|n| n.value.clone());
        named.unwrap_or_else(|| agent.kind.value.clone())
    };
    if let Some(agent) = agent {
        let kind = match agent.kind.value.as_str() {
            // These agents have no model, so they cannot judge either.
            "builtin.script" | "builtin.replay" => AgentKind::Noop,
            _ => AgentKind::of(agent, unit.judge.as_ref())?,
        };
        let file = || unit.judge.as_ref()?.builtin.as_ref()?.model.clone();
        let reference = AgentRef { model: agent.model.clone().or_else(file), ..agent.clone() };
        return Some(Judge { name: name(agent), agent: reference, kind, env: None });
    }
    let env = env.clone()?;
    let agent =
        AgentRef { kind: Name::new("builtin.llm-agent".to_owned(), *span), path: None, model: None, span: *span };
    Some(Judge { name: name(&agent), agent, kind: AgentKind::Unspecified, env: Some(env) })
}

/// Returns the SHA-256 of every file that a task refers to, and of the files that its scripts read.
fn hashes(checked: &Checked, scripts: &[ScriptView<'_>], files: &dyn Files) -> IndexMap<PathBuf, String> {
    let helpers = unresolved_source::helpers(scripts, files);
    let mut hashes: IndexMap<_, _> = checked
        .files
        .iter()
        .chain(&helpers)
        .filter_map(|path| {
            let hash = Sha256::digest(files.read(path).ok()?);
            Some((path.clone(), hex::encode(hash)))
        })
        .collect();
    hashes.sort_keys();
    hashes
}
