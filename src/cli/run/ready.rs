//! Reads an eval before it is run: its plan, the tasks that are selected, and the findings that refuse it.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use super::args::{Args, bounds, overrides, selection};
use crate::{
    Compiled, Options, Plans, bash,
    cli::{
        Global, complain, in_ci, print_findings, project_files, several_evals, shown, status, tell, tolerated_findings,
        unreadable, warn,
    },
    compile_with,
    diagnostic::{self, Diagnostic, Diagnostics, Strength},
    hir::Dialect,
    host::Gathered,
    journal::{Snapshot, Watched},
    memo::Asked,
    package::{Package, package},
    plan::EvalPlan,
    prices::Prices,
    project::{AgentChoice, Project, TaskUnit, references},
    run::{self, Selection},
    source::{Files, Sources, Span},
};

/// An eval that can be run, and what is printed before that.
#[derive(Clone)]
pub struct Ready {
    pub plan: EvalPlan,
    pub selection: Selection,
    pub sources: Arc<Sources>,
    pub findings: Vec<serde_json::Value>,
    pub tolerated: Vec<Diagnostic>,
    pub files: Snapshot,
    /// Every path that the compiler asked for.
    pub asked: Vec<PathBuf>,
    pub read: usize,
    pub prices: Option<Arc<Prices>>,
    /// The control group for the processes that it starts, if it was created in advance.
    pub group: Option<Arc<Gathered>>,
}

impl Ready {
    /// The reasons why its cost limits cannot be enforced.
    pub fn unpriced(&self, args: &Args) -> Vec<String> {
        let selected = self.selection.of(&self.plan);
        run::unpriced(&self.plan, &selected, &bounds(args), self.prices.as_ref(), &|name| std::env::var(name).ok())
    }
}

/// Reads the eval, without running anything.
///
/// # Errors
/// The exit status; the reason has been printed.
pub fn prepare(args: &Args, global: Global) -> Result<Ready, u8> {
    // In mcpchecker, `-o` selects the output format.
    if let Some(format @ ("json" | "text")) = args.output_dir.to_str().filter(|_| !args.output_dir.exists()) {
        complain(&format!(
            "`-o {format}` would write the results to a folder `{format}`: write `--format {format}`, or `-o ./{format}`"
        ));
        return Err(status::USAGE);
    }
    let overrides = match overrides(args) {
        Ok(overrides) => overrides,
        Err(message) => {
            complain(&message);
            return Err(status::USAGE);
        }
    };
    // Files on the command line may be anywhere; the eval's own files must be below its root.
    let mut project = project_files(std::slice::from_ref(&args.eval));
    for path in args.prices.iter().chain(&overrides.mcp_config) {
        project = project.and(path);
    }
    if let Some(AgentChoice::File(path)) = &overrides.agent {
        project = project.and(path);
    }
    let watched = Watched::new(&project);
    let files = Asked::of(&watched);
    let Ok(prices) = args.prices.as_ref().map(|path| prices(path, &files, global)).transpose() else {
        return Err(status::USAGE);
    };
    let sources = Sources::default();
    let server = overrides.server.is_some() && args.mcp_config_file.is_none();
    let options = Options { overrides, plans: Plans::Evals, ..Options::default() };
    let mut compiled = compile_with(std::slice::from_ref(&args.eval), &options, &sources, &files);
    if unreadable(&compiled) {
        return Err(status::USAGE);
    }
    let plan = match the_eval(args, &mut compiled) {
        Ok(plan) => plan,
        Err(message) => {
            if !compiled.diagnostics.is_empty() {
                print_findings(&compiled.diagnostics, &sources, compiled.project.files(), global);
            }
            complain(&message);
            return Err(status::USAGE);
        }
    };
    let selection = selection(args);
    leave_out(&selection, plan.as_ref(), &mut compiled);
    let refused = refused(args, &compiled);
    if !refused.is_empty() {
        print_findings(&refused, &sources, compiled.project.files(), global);
        complain("the eval was not run because of these findings");
        return Err(status::USAGE);
    }
    let tolerated: Vec<Diagnostic> =
        compiled.diagnostics.iter().filter(|d| d.strength <= Strength::Warning).cloned().collect();
    let tolerated = diagnostic::gather(tolerated);
    let Some(plan) = plan else {
        complain("no tasks selected");
        return Err(status::USAGE);
    };
    if selection.all(&plan).is_empty() {
        // The findings may explain why the eval itself selects no tasks.
        if plan.tasks.is_empty() && !tolerated.is_empty() {
            print_findings(&tolerated, &sources, compiled.project.files(), global);
        }
        complain(&format!("no tasks selected: {}", selection.nothing(&plan)));
        return Err(status::USAGE);
    }
    if let Some(name) = unpinned(&compiled).filter(|_| in_ci()) {
        complain(&format!(
            "no lock pins the extension `{name}`, and in CI a run only starts pinned ones: commit what `gevals lock {}` writes, or add it to `extensions.allowedSources`",
            shown(&args.eval)
        ));
        return Err(status::USAGE);
    }
    if server && compiled.project.evals.iter().any(|unit| unit.eval.as_ref().is_some_and(|e| e.mcp_config.is_some())) {
        warn(
            "the server that the `MCP_*` variables describe is ignored: the eval has an MCP config; use `--mcp-config-file` \
             to replace it",
        );
    }
    let findings = tolerated_findings(&compiled, &sources);
    let (read, asked) = (compiled.project.files(), files.take());
    let files = watched.into_snapshot();
    let sources = Arc::new(sources);
    Ok(Ready { plan, selection, sources, findings, tolerated, files, asked, read, prices, group: None })
}

/// Returns a local extension that neither a lock pins nor the eval allows. A release without a lock does not get this
/// far, because it has no plan.
fn unpinned(compiled: &Compiled) -> Option<String> {
    let project = &compiled.project;
    project.evals.iter().find_map(|unit| {
        let eval = unit.eval.as_ref().filter(|eval| eval.extension_options.allowed_sources.is_none())?;
        let tasks = unit.selected.iter().map(|selected| &*project.tasks[selected.task]);
        let is_pinned = |name: &str| unit.lock.extensions.contains_key(name);
        let is_local = |name: &str| matches!(package(name, unit.lock.substitute), Ok(Package::Local(_)));
        let found = references(eval, tasks);
        let found = found.iter().find(|r| is_local(r.package) && !is_pinned(r.alias.unwrap_or(r.package)));
        found.map(|reference| reference.package.to_owned())
    })
}

/// The eval that the path names: its plan, if it has one.
fn the_eval(args: &Args, compiled: &mut Compiled) -> Result<Option<EvalPlan>, String> {
    let path = shown(&args.eval);
    match (compiled.project.evals.as_slice(), compiled.evals.as_mut_slice()) {
        ([_], [plan]) => Ok(plan.take()),
        ([], _) if compiled.diagnostics.iter().any(|d| d.strength == Strength::Hard) => {
            Err(format!("`{path}` cannot be run"))
        }
        ([], _) if compiled.project.tasks.is_empty() => Err(format!("there is no eval in `{path}`")),
        ([], _) => Err(format!("`{path}` is a task: a run needs an eval, which specifies the agent and the servers")),
        (evals, _) => Err(several_evals(&path, evals.iter().map(|eval| eval.path.as_path()))),
    }
}

/// Drops findings that concern only tasks that will not run, because they cannot mislead anybody in this run. Without a
/// plan, nothing is dropped.
fn leave_out(selection: &Selection, plan: Option<&EvalPlan>, compiled: &mut Compiled) {
    let Some(plan) = plan else { return };
    let wanted: Vec<_> = selection.all(plan).into_iter().map(|index| plan.tasks[index].task.name.span.file).collect();
    let Compiled { project, diagnostics, .. } = compiled;
    diagnostics.retain(|d| {
        let mut tasks = concerned(d, project).map(|unit| unit.file).peekable();
        tasks.peek().is_none() || tasks.any(|file| wanted.contains(&file))
    });
}

/// The tasks that a finding is about: the one that contains it, or those that its labels point to.
fn concerned<'a>(d: &'a Diagnostic, project: &'a Project) -> impl Iterator<Item = &'a TaskUnit> {
    let of = |span: Span| project.tasks.iter().find(move |unit| unit.file == span.file).map(|unit| &**unit);
    let own = of(d.span);
    let others = d.labels.iter().filter(move |_| own.is_none()).filter_map(move |label| of(label.span));
    own.into_iter().chain(others)
}

/// Hard errors, and verdict errors where they are refused (`decisions.md` §1).
fn refused(args: &Args, compiled: &Compiled) -> Vec<Diagnostic> {
    let all_portable = compiled.project.tasks.iter().all(|t| t.dialect == Dialect::Portable);
    let portable = |d: &Diagnostic| {
        let mut tasks = concerned(d, &compiled.project).peekable();
        match tasks.peek() {
            None => all_portable,
            Some(_) => tasks.any(|task| task.dialect == Dialect::Portable),
        }
    };
    let refuses = |d: &&Diagnostic| match d.strength {
        Strength::Hard => true,
        // The user has explicitly allowed what the finding warns of.
        Strength::Verdict if d.rule.name == "no-verdict" && args.allow_unchecked => false,
        Strength::Verdict if args.strict => true,
        Strength::Verdict => portable(d),
        _ => false,
    };
    compiled.diagnostics.iter().filter(refuses).cloned().collect()
}

/// Reads the file of prices, and prints its findings.
pub fn prices(path: &Path, files: &dyn Files, global: Global) -> Result<Arc<Prices>, ()> {
    let bytes = files.read(path).map_err(|e| e.to_string());
    let text = bytes.and_then(|bytes| String::from_utf8(bytes).map_err(|_| "it is not valid UTF-8".to_owned()));
    let text = text.map_err(|why| complain(&format!("cannot read `{}`: {why}", shown(path))))?;
    let (sources, mut found) = (Sources::default(), Diagnostics::default());
    let prices = Prices::decode(sources.add(path, text.as_str()), &text, &mut found);
    // `gevals check --fix` does not handle files of prices.
    let found: Vec<_> = found.into_iter().map(|fault| Diagnostic { fix: None, ..fault }).collect();
    if !found.is_empty() {
        print_findings(&found, &sources, 1, global);
    }
    prices.map(Arc::new).ok_or(())
}

/// Up to this many warnings are shown; more are only counted.
const WARNINGS: usize = 5;

/// Prints the findings that do not prevent a run. Those that may mislead the author are shown one by one
/// (`decisions.md` §1).
pub fn print_tolerated(args: &Args, found: &[Diagnostic], sources: &Sources, files: usize, global: Global) {
    let (errors, mild): (Vec<_>, Vec<_>) = found.iter().cloned().partition(|d| d.strength.is_error());
    let printed = if args.verbose || (mild.len() <= WARNINGS && !args.quiet) { found } else { &errors };
    if errors.len() > WARNINGS && !args.verbose {
        let err = std::io::stderr();
        let mut text = String::new();
        let _ = diagnostic::concise(printed, sources, &global.pretty(&err), &mut text);
        tell(&format!("{text}{}\n", diagnostic::summary(printed, files)));
    } else if !printed.is_empty() {
        print_findings(printed, sources, files, global);
    }
    if printed.len() < found.len() && !args.quiet {
        let eval = bash::quote(&shown(&args.eval));
        tell(&format!(
            "{} warnings and notes are not shown: use `gevals check {eval}` to show them\n\n",
            found.len() - printed.len()
        ));
    }
}
