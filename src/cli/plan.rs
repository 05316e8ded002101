//! `gevals plan`: shows what would happen.

mod rev;

use std::path::{Path, PathBuf};

use clap::builder::{PossibleValue, PossibleValuesParser};
use regex::Regex;

use super::{Global, compile_paths, complain, print, print_findings, project_files, status, unreadable};
use crate::{
    Compiled, compile,
    diagnostic::Strength,
    host::disk::Disk,
    plan::{
        EvalPlan, Plan,
        diff::{self, Side},
        why, wire,
    },
    render::{
        Done, FORMATS, View,
        diff::DIFF_FORMATS,
        gate,
        proof::{self, Proved},
        results::{self, Earlier, Painted},
        why::WHY_FORMATS,
    },
    secrets::Secrets,
    source::{Files, Sources},
    statistics::Rate,
};

const EXAMPLES: &str = "\
Examples:
  gevals plan eval.yaml                                show what an eval would do
  gevals plan tasks/create-pod.yaml                    show what one task would do
  gevals plan eval.yaml --format mermaid               draw a diagram for a pull request
  gevals plan eval.yaml --format html --open           open an interactive page
  gevals plan eval.yaml --results gevals-web-out.json  show the outcomes of a run
  gevals plan eval.yaml --proof proof.json --open      show which check detected which mutant
  gevals plan eval.yaml --why verify/ready             show the dependencies of a step
  gevals plan eval.yaml --gate 0.9@95%                 show how many runs this gate takes
  gevals plan eval.yaml --diff-rev origin/main         show what changed since a revision
  gevals plan eval.yaml --diff-rev origin/main --format markdown --deny-growth

Exit status: 0 there is a plan, 1 the plan can reach more and --deny-growth is given, 2 there is no
plan, or no such step";

/// Show what a task or an eval would do, without running anything.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Task and eval files, or directories.
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// Output format.
    #[arg(long, default_value = "tree", value_parser = formats())]
    format: String,
    /// Show every task in full, however many there are, and every iteration of a loop over a literal list.
    #[arg(long)]
    expand: bool,
    /// Only show tasks whose names match REGEX.
    #[arg(long, visible_alias = "run", value_name = "REGEX")]
    task: Option<Regex>,
    /// Write the plan to a temporary file and open it; as html, unless the format is svg.
    #[arg(long, conflicts_with_all = ["diff", "diff_rev"])]
    open: bool,
    /// Show the outcomes and durations of a results file in the plan; with --gate, estimate time, tokens and cost from it.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["diff", "diff_rev"])]
    results: Option<PathBuf>,
    /// Show on each check the mutants that it detected, from the output of `gevals prove --format json`.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["diff", "diff_rev", "results", "why", "gate", "deny_growth"])]
    proof: Option<PathBuf>,
    /// Show what a step waits for, what waits for it, and the shortest path to it; STEP is its id in the plan or its own id.
    #[arg(long, value_name = "STEP", conflicts_with_all = ["diff", "diff_rev", "results", "open", "deny_growth"])]
    why: Option<String>,
    /// Show how many runs of each task are needed to show this pass rate with this confidence, with an estimate from an earlier run.
    #[arg(long, value_name = "RATE@CONFIDENCE", conflicts_with_all = ["diff", "diff_rev", "open", "deny_growth", "why"])]
    gate: Option<Rate>,
    /// Show what changed since this older task or eval file.
    #[arg(long, value_name = "OTHER", conflicts_with = "diff_rev")]
    diff: Option<PathBuf>,
    /// Show what changed since this revision of the git repository.
    #[arg(long, value_name = "REV")]
    diff_rev: Option<String>,
    /// With a diff: exit with 1 if the plan can touch anything it could not touch before.
    #[arg(long)]
    deny_growth: bool,
}

fn formats() -> PossibleValuesParser {
    PossibleValuesParser::new(FORMATS.iter().map(|f| PossibleValue::new(f.name).help(f.summary)))
}

pub fn main(args: &Args, global: Global) -> u8 {
    let sources = Sources::default();
    let Some(planned) = planned(compile_paths(&args.paths, &sources), &sources, args, global) else {
        return status::USAGE;
    };
    if args.diff.is_some() || args.diff_rev.is_some() {
        return changes(&planned, args, global);
    }
    if let Some(step) = &args.why {
        return reasons(&planned, step, &args.format);
    }
    if args.deny_growth {
        complain("--deny-growth requires --diff or --diff-rev");
        return status::USAGE;
    }
    if let Some(rate) = args.gate {
        let given = match args.results.as_deref().map(taken).transpose() {
            Ok(given) => given,
            Err(reason) => {
                complain(&reason);
                return status::USAGE;
            }
        };
        for eval in &planned.evals {
            let earlier = if given.is_some() { None } else { earlier(&eval.name) };
            print(&gate::gate(rate, Some(eval), &eval.tasks, given.as_ref().or(earlier.as_ref())));
        }
        if !planned.loose.is_empty() {
            print(&gate::gate(rate, None, &planned.loose, given.as_ref()));
        }
        return status::OK;
    }
    let name = if args.open && args.format == "tree" { "html" } else { &args.format };
    let Some(format) = FORMATS.iter().find(|f| f.name == name) else { return status::USAGE };
    let painted = match args.results.as_deref().map(painted).transpose() {
        Ok(painted) => painted,
        Err(reason) => {
            complain(&reason);
            return status::USAGE;
        }
    };
    let proved = match args.proof.as_deref().map(|path| proved(path, &planned)).transpose() {
        Ok(proved) => proved,
        Err(reason) => {
            complain(&reason);
            return status::USAGE;
        }
    };
    let outcome = |task: &str, action: &str| -> Option<Done> {
        match &proved {
            Some(proved) => proved.get(task, action),
            None => painted.as_ref()?.get(task, action),
        }
    };
    let says = |task: &str, action: &str| -> Option<String> { proved.as_ref()?.says(task, action) };
    let why = |task: &str, action: &str| painted.as_ref()?.why(task, action).cloned();
    let colour = global.colour(&std::io::stdout());
    let files = project_files(&args.paths);
    let view = View {
        colour,
        // A task that was selected by name is shown completely.
        expand: args.expand || args.task.is_some(),
        outcomes: (painted.is_some() || proved.is_some()).then_some(&outcome),
        reasons: painted.is_some().then_some(&why),
        proof: proved.is_some().then_some(&says),
        sources: Some(&sources),
        files: Some(&files),
        ..View::new(&[])
    };
    let earlier: Vec<_> = planned.evals.iter().map(|eval| earlier(&eval.name)).collect();
    let evals = planned.evals.iter().zip(&earlier);
    let evals = evals.map(|(eval, e)| View { eval: Some(eval), plans: &eval.tasks, earlier: e.as_ref(), ..view });
    let loose = (!planned.loose.is_empty()).then_some(View { plans: &planned.loose, ..view });
    let views: Vec<_> = evals.chain(loose).collect();
    let text = planned.secrets().mask(&(format.render)(&views)).into_owned();
    if args.open {
        return open(format.name, &text);
    }
    print(&text);
    drop(views);
    // The program ends here: to free a large plan takes longer than to draw it.
    std::mem::forget((planned, text));
    status::OK
}

/// The plan of what was compiled without a hard error, in one of [`FORMATS`]: of all tasks, or of those whose names
/// match.
#[cfg(feature = "run")]
pub(super) fn drawn(
    compiled: Compiled,
    sources: &Sources,
    files: &dyn Files,
    task: Option<&Regex>,
    format: &str,
) -> Result<String, String> {
    let planned = select(compiled, task);
    if planned.evals.is_empty() && planned.loose.is_empty() {
        let why = task.map(|name| format!(": no task name matches `{name}`")).unwrap_or_default();
        return Err(format!("no tasks selected{why}"));
    }
    let format = FORMATS.iter().find(|f| f.name == format).ok_or_else(|| format!("unknown plan format `{format}`"))?;
    let view = View { expand: task.is_some(), sources: Some(sources), files: Some(files), ..View::new(&[]) };
    let evals = planned.evals.iter().map(|eval| View { eval: Some(eval), plans: &eval.tasks, ..view });
    let loose = (!planned.loose.is_empty()).then_some(View { plans: &planned.loose, ..view });
    Ok(planned.secrets().mask(&(format.render)(&evals.chain(loose).collect::<Vec<_>>())).into_owned())
}

/// Prints why a step runs when it does, for each task that has it.
fn reasons(planned: &Planned, step: &str, format: &str) -> u8 {
    let Some(format) = WHY_FORMATS.iter().find(|f| f.name == format) else {
        let names: Vec<_> = WHY_FORMATS.iter().map(|f| f.name).collect();
        complain(&format!("--why supports the formats {}, not `{format}`", names.join(" or ")));
        return status::USAGE;
    };
    let plans = || planned.evals.iter().flat_map(|eval| &eval.tasks).chain(&planned.loose);
    let mut steps = Vec::new();
    for plan in plans() {
        match why::find(plan, step)[..] {
            [] => {}
            [one] => steps.push(why::why(plan, one)),
            ref several => {
                let ids: Vec<_> = several.iter().map(|&ix| format!("`{}`", plan.action(ix).id)).collect();
                complain(&format!("`{step}` is ambiguous in `{}`: {}", plan.task.name.value, ids.join(", ")));
                return status::USAGE;
            }
        }
    }
    if steps.is_empty() {
        let actions = plans().flat_map(Plan::actions);
        let names: Vec<_> = actions.flat_map(|a| [Some(a.id.as_str()), why::step_id(&a.kind)]).flatten().collect();
        let near = why::near(step, &names);
        let hint = match near.is_empty() {
            true => String::from("; `gevals plan --format json` lists all ids"),
            false => format!("; did you mean {}?", near.join(", ")),
        };
        complain(&format!("no step named `{step}`{hint}"));
        return status::USAGE;
    }
    print(&planned.secrets().mask(&(format.render)(&why::Answer { version: why::VERSION, steps })));
    status::OK
}

/// What is shown.
struct Planned {
    evals: Vec<EvalPlan>,
    /// Tasks that no eval selects.
    loose: Vec<Plan>,
}

impl Planned {
    /// The plain-text secrets in what is shown.
    fn secrets(&self) -> Secrets {
        let loose = self.loose.iter().flat_map(wire::literal_secrets);
        Secrets::new(self.evals.iter().flat_map(wire::eval_secrets).chain(loose))
    }
}

fn planned(compiled: Compiled, sources: &Sources, args: &Args, global: Global) -> Option<Planned> {
    if unreadable(&compiled) {
        return None;
    }
    if compiled.diagnostics.iter().any(|d| d.strength == Strength::Hard) {
        let hard: Vec<_> = compiled.diagnostics.iter().filter(|d| d.strength == Strength::Hard).cloned().collect();
        print_findings(&hard, sources, compiled.project.files(), global);
        complain("there is no plan because of these errors");
        return None;
    }
    let planned = select(compiled, args.task.as_ref());
    if planned.evals.is_empty() && planned.loose.is_empty() {
        let why = args.task.as_ref().map(|name| format!(": no task name matches `{name}`")).unwrap_or_default();
        complain(&format!("no tasks selected{why}"));
        return None;
    }
    Some(planned)
}

fn select(compiled: Compiled, task: Option<&Regex>) -> Planned {
    let wanted = |plan: &Plan| task.is_none_or(|r| r.is_match(&plan.task.name.value));
    let selected: std::collections::HashSet<usize> =
        compiled.project.evals.iter().flat_map(|e| &e.selected).map(|s| s.task).collect();
    let mut evals: Vec<EvalPlan> = compiled.evals.into_iter().flatten().collect();
    for eval in &mut evals {
        eval.tasks.retain(wanted);
    }
    evals.retain(|eval| !eval.tasks.is_empty());
    std::mem::forget((compiled.project, compiled.diagnostics));
    let loose = compiled.tasks.into_iter().enumerate().filter(|(i, _)| !selected.contains(i)).filter_map(|(_, p)| p);
    Planned { evals, loose: loose.map(|plan| *plan).filter(wanted).collect() }
}

/// What `gevals prove` found out about these plans.
fn proved(path: &Path, planned: &Planned) -> Result<Proved, String> {
    let shown = path.display();
    let proved = proof::read(&json(path)?)
        .ok_or_else(|| format!("`{shown}` is not a proof: `gevals prove EVAL --format json` prints one"))?;
    let plans = || planned.evals.iter().flat_map(|eval| &eval.tasks).chain(&planned.loose);
    if !proved.is_of(plans()) {
        return Err(format!("`{shown}` is a proof of other tasks"));
    }
    match proved.unknown(plans()).first() {
        Some(check) => Err(format!(
            "`{shown}` is of an older version of a task: it has no check `{check}`; run `gevals prove` again"
        )),
        None => Ok(proved),
    }
}

fn painted(path: &Path) -> Result<Painted, String> {
    results::read(&json(path)?).ok_or_else(|| format!("`{}` is not a results file", path.display()))
}

/// The durations of an earlier run, from the given results file.
fn taken(path: &Path) -> Result<Earlier, String> {
    let shown = path.display();
    Earlier::read(&json(path)?, shown.to_string()).ok_or_else(|| format!("`{shown}` is not a results file"))
}

fn json(path: &Path) -> Result<serde_json::Value, String> {
    let shown = path.display();
    let bytes = Disk.read(path).map_err(|e| format!("cannot read `{shown}`: {e}"))?;
    serde_json::from_slice(&bytes).map_err(|e| format!("`{shown}` is not valid JSON: {e}"))
}

/// The durations of the eval's last run, if it left its results here.
fn earlier(eval: &str) -> Option<Earlier> {
    let path = results::results_path(Path::new(""), eval);
    let value = serde_json::from_slice(&Disk.read(&path).ok()?).ok()?;
    Earlier::read(&value, path.display().to_string())
}

/// Writes the picture to a temporary file, and opens that in the system's viewer.
fn open(name: &str, text: &str) -> u8 {
    if !matches!(name, "html" | "svg") {
        complain("--open only supports html and svg");
        return status::USAGE;
    }
    let folder = std::env::temp_dir().join(format!("gevals-{:016x}", crate::random::number()));
    let path = folder.join(format!("plan.{name}"));
    let mut private = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut private, 0o700);
    let written = private.create(&folder).and_then(|()| crate::host::disk::write_atomic(&path, text.as_bytes()));
    if let Err(error) = written {
        complain(&format!("cannot write `{}`: {error}", path.display()));
        return status::USAGE;
    }
    print(&format!("{}\n", path.display()));
    let (program, first): (&str, &[&str]) = match std::env::consts::OS {
        "macos" => ("open", &[]),
        "windows" => ("cmd", &["/c", "start", ""]),
        _ => ("xdg-open", &[]),
    };
    match std::process::Command::new(program).args(first).arg(&path).status() {
        Ok(status) if status.success() => status::OK,
        Ok(_) | Err(_) => {
            complain(&format!("`{program}` could not open the file"));
            status::USAGE
        }
    }
}

/// Prints what has changed since an older plan.
fn changes(new: &Planned, args: &Args, global: Global) -> u8 {
    let Some(format) = DIFF_FORMATS.iter().find(|f| f.name == args.format) else {
        let names: Vec<_> = DIFF_FORMATS.iter().map(|f| f.name).collect();
        complain(&format!("a diff supports the formats {}, not `{}`", names.join(", "), args.format));
        return status::USAGE;
    };
    let sources = Sources::default();
    let past;
    let others = project_files(args.diff.as_slice());
    let now = project_files(&args.paths);
    let (files, compiled): (&dyn Files, Compiled) = match (&args.diff, &args.diff_rev) {
        (Some(other), _) => (&others, compile_paths(std::slice::from_ref(other), &sources)),
        (None, Some(rev)) => match rev::Revision::open(rev) {
            Ok(revision) => {
                past = revision;
                // New files do not exist in the revision.
                let paths: Vec<_> = args.paths.iter().filter(|path| past.stat(path).is_some()).cloned().collect();
                (&past, compile(&paths, &sources, &past))
            }
            Err(reason) => {
                complain(&reason);
                return status::USAGE;
            }
        },
        (None, None) => return status::USAGE,
    };
    let nothing = compiled.project.tasks.is_empty() && compiled.project.evals.is_empty();
    let old = match nothing && args.diff_rev.is_some() {
        true => Planned { evals: Vec::new(), loose: Vec::new() },
        false => match old_plan(compiled, &sources, args, global) {
            Some(old) => old,
            None => return status::USAGE,
        },
    };
    let (old_tasks, new_tasks) = (all(&old), all(new));
    let diff = diff::diff(
        Side { evals: &old.evals, plans: &old_tasks, files: Some(files) },
        Side { evals: &new.evals, plans: &new_tasks, files: Some(&now) },
    );
    print(&old.secrets().mask(&new.secrets().mask(&(format.render)(&diff))));
    if args.deny_growth && diff.grows() { status::NO } else { status::OK }
}

/// The older plan, which may lack selected tasks.
fn old_plan(compiled: Compiled, sources: &Sources, args: &Args, global: Global) -> Option<Planned> {
    let hard = compiled.diagnostics.iter().any(|d| d.strength == Strength::Hard);
    match hard || !compiled.project.unreadable.is_empty() {
        true => {
            complain("the older plan has errors:");
            planned(compiled, sources, args, global)
        }
        false => Some(select(compiled, args.task.as_ref())),
    }
}

fn all(planned: &Planned) -> Vec<Plan> {
    planned.evals.iter().flat_map(|eval| &eval.tasks).chain(&planned.loose).cloned().collect()
}
