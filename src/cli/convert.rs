//! `gevals convert`: converts tasks to another dialect.

#[cfg(feature = "kubernetes")]
mod api;
pub(super) mod tree;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use clap::ValueEnum;
use serde_json::json;

use super::{
    Global, complain,
    log::{Stream, guarded, put_source},
    overlay::Edited,
    print, project_files, status, tell, unreadable, warn,
};
use crate::{
    Compiled,
    builtin::count,
    compile,
    convert::{self, Context, Converted, Kept, Label, Tally, Target},
    diagnostic::{Diagnostic, Strength},
    hir::Dialect,
    host::disk::write_atomic,
    project::TaskUnit,
    source::{Files, Sources, mentions, normalize},
};

const EXAMPLES: &str = "\
Examples:
  gevals convert tasks/create-pod.yaml
      print the task in the portable dialect
  gevals convert tasks/ --target builtin --diff
      show what converting its scripts into steps would change
  gevals convert tasks/ --target builtin --write
      write NAME.portable.yaml beside each task, if the conversion is proved
  gevals convert eval.yaml --target builtin --out new/
      write a new tree: the tasks, the files they refer to, and the eval
  gevals convert tasks/ --in-place --no-verify
      replace the files, and keep each original as NAME.yaml.orig
  gevals convert tasks/ --target builtin --report json
      report the outcome for every statement
  gevals convert tasks/ --target kubernetes --diff
      the same, with operations instead of kubectl commands
  gevals convert tasks/ --target kubernetes --prove-on kind-scratch --solutions solutions/
      also run both for real, in the cluster of this context

Exit status: 0 converted, 1 a task could not be converted, its proof failed or is incomplete, or
it has errors of the original, 2 a given path cannot be read, or there is no such context, 3 there
is no sandbox for the proof (bubblewrap; use `--no-verify` without it), or the API does not
answer; 129, 130 or 143 by a signal";

/// Convert tasks to another dialect: bash tasks become portable ones, with `--target` statement by statement.
///
/// Without `--target`, every script stays one, in a step of its own; with it, what cannot be converted does. The original and the
/// converted task are run side by side in a sandbox. Nothing is written without --write, --out or --in-place, and then only
/// conversions that are proved to behave the same.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Task and eval files, or directories.
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// The dialect to convert to.
    #[arg(long, value_enum, default_value_t = To::Portable)]
    to: To,
    /// Convert scripts into steps of this kind; without it they stay scripts.
    #[arg(long, value_enum)]
    target: Option<TargetName>,
    /// Write each task beside the original, as NAME.portable.yaml or NAME.steps.yaml.
    #[arg(long, conflicts_with_all = ["diff", "out", "in_place"])]
    write: bool,
    /// Show what would change, without writing anything.
    #[arg(long, conflicts_with_all = ["out", "in_place"])]
    diff: bool,
    /// Write a new tree, including all files that the tasks refer to.
    #[arg(long, value_name = "DIR", conflicts_with = "in_place")]
    out: Option<PathBuf>,
    /// Replace the files; each original is kept as FILE.orig.
    #[arg(long)]
    in_place: bool,
    /// Overwrite existing files that have other contents.
    #[arg(long, conflicts_with_all = ["diff", "in_place"])]
    force: bool,
    /// Report the outcome for every statement.
    #[arg(long, value_enum, value_name = "FORMAT", num_args = 0..=1, default_missing_value = "text")]
    report: Option<Format>,
    /// Keep steps that pass where the script would have failed.
    #[arg(long)]
    allow_weaker: bool,
    /// Fail if there is no sandbox for the proof, even when nothing is written.
    #[arg(long, conflicts_with = "no_verify")]
    verify: bool,
    /// Skip the proof; the report says so.
    #[arg(long)]
    no_verify: bool,
    /// Also write tasks whose proof is incomplete; the report lists what is missing.
    #[arg(long)]
    allow_unproved: bool,
    /// Number of randomly generated environments in which the proof runs both versions, in addition to purpose-built ones.
    #[arg(long, default_value_t = 12, value_name = "N")]
    seeds: u64,
    /// Also run originals and conversions on a real Kubernetes API: of this context, or one started for it (`disposable`).
    ///
    /// All scripts of all tasks run for real, on this machine and with a kubeconfig that contains this context alone: setup, verify and
    /// cleanup of the original and of its conversion, without an agent and with the task's solution. After each of these four runs,
    /// everything in the cluster that did not exist before is DELETED, including what others created: use a throwaway cluster. Nodes and
    /// everything in namespaces `kube-…` are kept.
    #[cfg(feature = "kubernetes")]
    #[arg(long, value_name = "CONTEXT")]
    prove_on: Option<String>,
    /// A directory with a script NAME.sh for each task, which does what the agent is asked to do.
    #[cfg(feature = "kubernetes")]
    #[arg(long, value_name = "DIR", requires = "prove_on")]
    solutions: Option<PathBuf>,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum To {
    /// `mcp-eval/v1`.
    Portable,
    /// `mcpchecker/v1alpha2`.
    Steps,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum TargetName {
    /// The built-in steps.
    Builtin,
    /// The built-in steps, and operations of `builtin:kubernetes` for kubectl commands.
    #[value(alias = "k8s")]
    Kubernetes,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum Format {
    Text,
    Json,
    Markdown,
}

/// A task and the result of its conversion.
struct Outcome {
    path: PathBuf,
    name: String,
    result: Result<Converted, String>,
    inherited: Vec<String>,
    proof: Proof,
    /// What both did on a real API, if that was requested.
    on_api: Option<OnApi>,
}

#[derive(Clone, Debug)]
enum Proof {
    /// Not requested.
    None,
    #[cfg_attr(not(feature = "run"), expect(dead_code, reason = "without runs there are no proofs"))]
    Certificate(Box<Certificate>),
}

#[cfg(feature = "run")]
use crate::prove::Certificate;
#[cfg(feature = "kubernetes")]
use crate::prove::api::OnApi;

/// Without Kubernetes, nothing runs on an API.
#[cfg(not(feature = "kubernetes"))]
enum OnApi {}

#[cfg(not(feature = "kubernetes"))]
impl OnApi {
    fn differs(&self) -> Option<String> {
        None
    }

    fn lacks(&self) -> Vec<String> {
        Vec::new()
    }

    fn shown(&self) -> String {
        String::new()
    }

    fn json(&self) -> serde_json::Value {
        serde_json::Value::Null
    }
}

/// Without runs, there are no proofs.
#[cfg(not(feature = "run"))]
#[derive(Clone, Debug)]
struct Certificate {
    seeds: u64,
    agreed: u64,
    counter_example: Option<String>,
    passed: u64,
    failed: u64,
    hostile: u64,
    unreached: Vec<String>,
    undecided: Vec<String>,
    stronger: Vec<(String, String)>,
}

#[cfg(not(feature = "run"))]
impl Certificate {
    fn lacks(&self) -> Vec<String> {
        Vec::new()
    }
}

pub fn main(args: &Args, _: Global) -> u8 {
    match run(args) {
        Ok(code) => code,
        Err((code, message)) => {
            complain(&message);
            code
        }
    }
}

type Fault = (u8, String);

fn run(args: &Args) -> Result<u8, Fault> {
    if args.to == To::Steps && args.target.is_some() {
        return Err((
            status::USAGE,
            "`--target` converts scripts for the portable dialect; `--to steps` only wraps them".to_owned(),
        ));
    }
    if args.force && !args.write && args.out.is_none() {
        return Err((
            status::USAGE,
            "`--force` requires `--write` or `--out`: nothing is written otherwise".to_owned(),
        ));
    }
    let sources = Sources::default();
    let files = project_files(&args.paths);
    let compiled = compile(&args.paths, &sources, &files);
    if unreadable(&compiled) {
        return Ok(status::USAGE);
    }
    if compiled.project.tasks.is_empty() {
        let hard = compiled.diagnostics.iter().find(|d| d.strength == Strength::Hard);
        let why = hard.map(|d| format!(": {}", d.message)).unwrap_or_default();
        return Err((status::USAGE, format!("no tasks found{why}")));
    }
    let mut outcomes: Vec<Outcome> = {
        use rayon::prelude::*;
        let context = context(args, &compiled, &sources, &files);
        compiled.project.tasks.par_iter().map(|unit| outcome(unit, &compiled, context)).collect()
    };
    let lifted = |outcome: &Outcome| -> Vec<Kept> { outcome.result.iter().flat_map(Converted::lifted).collect() };
    let lifted: Vec<Vec<Kept>> = outcomes.iter().map(lifted).collect();
    inherited(&mut outcomes, &compiled, &sources, &files);
    let writes = args.write || args.out.is_some() || args.in_place;
    let mut unproven = args.no_verify.then(|| "`--no-verify`".to_owned());
    let again = |path: &Path, target: Option<Target>, kept: &[Kept]| {
        let unit = compiled.project.tasks.iter().find(|unit| unit.path == path)?;
        let mut cx = Context { kept, ..context(args, &compiled, &sources, &files) };
        cx.target = target.unwrap_or(cx.target);
        let mut outcome = outcome(unit, &compiled, cx);
        inherited(std::slice::from_mut(&mut outcome), &compiled, &sources, &files);
        Some(outcome)
    };
    // A conversion with an error is not used: the statement that causes it stays in its script, or all statements do.
    for (outcome, lifted) in outcomes.iter_mut().zip(lifted) {
        let Err(why) = &outcome.result else { continue };
        // The verdict is made at the end of a script.
        let each = lifted.iter().rev().map(std::slice::from_ref);
        let tries = each.chain(Some(lifted.as_slice()).filter(|all| !all.is_empty()));
        let found = tries.filter_map(|kept| again(&outcome.path, None, kept)).find(|other| other.result.is_ok());
        let Some(mut other) = found else { continue };
        if let Ok(new) = &mut other.result {
            new.notes.push(format!("the full conversion was refused: {why}"));
        }
        *outcome = other;
    }
    if !args.no_verify
        && let Err((code, why)) = prove(&mut outcomes, args, &again)
    {
        if writes || args.verify {
            return Err((code, why));
        }
        unproven = Some(why);
    }
    #[cfg(feature = "kubernetes")]
    if let Some(place) = &args.prove_on {
        api::prove(&mut outcomes, place, args.solutions.as_deref(), &compiled, &files)?;
    }
    for outcome in &outcomes {
        if let Err(why) = &outcome.result {
            complain(why);
        }
        if let Proof::Certificate(certificate) = &outcome.proof
            && let Some(example) = &certificate.counter_example
        {
            complain(&format!(
                "{}: the original and its conversion behave differently: {example}",
                outcome.path.display()
            ));
        }
        if let Some(differs) = outcome.on_api.as_ref().and_then(OnApi::differs) {
            let path = outcome.path.display();
            complain(&format!(
                "{path}: on the real API, the original and its conversion behave differently: {differs}"
            ));
        }
        if !outcome.inherited.is_empty() {
            let mut rules = outcome.inherited.clone();
            rules.dedup();
            warn(&format!(
                "`{}` has errors of the original, so `gevals run` refuses it until they are fixed: {}",
                outcome.path.display(),
                rules.join(", ")
            ));
        }
        if let Some(lacks) = unproved(outcome) {
            let path = outcome.path.display();
            let what = lacks.iter().map(|lack| format!("\n  {lack}")).collect::<String>();
            warn(&format!(
                "`{path}` is not proved{}{what}",
                if writes && !args.allow_unproved { " and is not written" } else { "" }
            ));
        }
    }
    if let Some(why) = &unproven
        && !writes
        && args.report.is_none()
    {
        warn(&format!("unproved: {why}"));
    }
    let right = |o: &&Outcome| o.result.is_ok() && !refuted(o);
    let good = |o: &&Outcome| right(o) && (args.allow_unproved || unproved(o).is_none());
    let all = outcomes.iter().all(|o| good(&o) && o.inherited.is_empty());
    // Output that is only printed needs no proof.
    let kept: Vec<&Outcome> = outcomes.iter().filter(|o| if writes { good(o) } else { right(o) }).collect();
    let notes = match (args.write || args.in_place, &args.out) {
        (_, Some(dir)) => tree::write(
            dir,
            args.force,
            &kept.iter().filter_map(|o| written(o)).collect::<Vec<_>>(),
            &compiled,
            &files,
        )?,
        (true, None) => beside(&kept, args)?,
        (false, None) => {
            for (i, outcome) in kept.iter().enumerate() {
                // Separates several documents.
                if kept.len() > 1 && !args.diff && args.report.is_none() {
                    let rule = if i > 0 { "---\n" } else { "" };
                    print(&format!("{rule}# {}\n", outcome.path.display()));
                }
                show(outcome, args, &sources, &compiled);
            }
            Vec::new()
        }
    };
    // Written files are reported; printed output needs no report.
    if let Some(format) = args.report.or(writes.then_some(Format::Text)) {
        print(&report(&outcomes, format));
    }
    for note in notes {
        tell(&format!("note: {note}\n"));
    }
    Ok(if all { status::OK } else { status::NO })
}

/// The report on each task, without a proof, with its new text: for `gevals mcp`.
#[cfg(feature = "run")]
pub(super) fn unproved_texts(
    compiled: &Compiled,
    sources: &Sources,
    files: &dyn Files,
    to: Dialect,
    target: Target,
) -> Vec<serde_json::Value> {
    let context = Context { sources, files, project: &compiled.project, to, target, allow_weaker: false, kept: &[] };
    let mut outcomes: Vec<_> = compiled.project.tasks.iter().map(|unit| outcome(unit, compiled, context)).collect();
    inherited(&mut outcomes, compiled, sources, files);
    let told = |outcome: &Outcome| {
        let mut value = task_json(outcome);
        if let Ok(new) = &outcome.result {
            value["text"] = json!(new.text);
        }
        value
    };
    outcomes.iter().map(told).collect()
}

/// Whether the original and the conversion were seen to differ.
fn refuted(outcome: &Outcome) -> bool {
    matches!(&outcome.proof, Proof::Certificate(c) if c.counter_example.is_some())
        || outcome.on_api.as_ref().is_some_and(|on_api| on_api.differs().is_some())
}

/// What the proof of a task lacks, unless the conversion is refuted.
fn unproved(outcome: &Outcome) -> Option<Vec<String>> {
    if refuted(outcome) {
        return None;
    }
    let mut lacks = match &outcome.proof {
        Proof::Certificate(c) => c.lacks(),
        Proof::None => Vec::new(),
    };
    let on_api = outcome.on_api.iter().flat_map(OnApi::lacks);
    lacks.extend(on_api.map(|lack| format!("on the real API: {lack}")));
    Some(lacks).filter(|lacks| !lacks.is_empty())
}

fn written(outcome: &Outcome) -> Option<(PathBuf, &Converted)> {
    Some((outcome.path.clone(), outcome.result.as_ref().ok()?))
}

/// Prints the task, or its changes.
fn show(outcome: &Outcome, args: &Args, sources: &Sources, compiled: &Compiled) {
    let Ok(new) = &outcome.result else { return };
    if args.diff {
        let Some(unit) = compiled.project.tasks.iter().find(|t| t.path == outcome.path) else { return };
        let old = sources.get(unit.file);
        let path = outcome.path.display().to_string();
        print(
            &similar::TextDiff::from_lines(old.text(), new.text.as_str())
                .unified_diff()
                .header(&path, &path)
                .to_string(),
        );
    } else if args.report.is_none() {
        let _ = put_source(Stream::Out, &new.text);
        if matches!(guarded(Stream::Out, &new.text), std::borrow::Cow::Owned(_)) {
            warn(&format!(
                "the CI log would interpret a line of `{}` as a command, so it is printed in another form: write it to a file",
                outcome.path.display()
            ));
        }
    }
}

/// Writes the new files next to the old ones, or replaces these.
fn beside(outcomes: &[&Outcome], args: &Args) -> Result<Vec<String>, Fault> {
    let suffix = if args.to == To::Steps { "steps" } else { "portable" };
    let target = |(path, new): (PathBuf, _)| {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let target = if args.in_place { path } else { path.with_file_name(format!("{stem}.{suffix}.yaml")) };
        (target, new)
    };
    let new: Vec<(PathBuf, &Converted)> = outcomes.iter().filter_map(|o| written(o)).map(target).collect();
    // A replaced file is kept as a backup.
    let is_lost = |(target, new): &&(PathBuf, &Converted)| {
        !args.force && !args.in_place && tree::differs(target, new.text.as_bytes())
    };
    tree::refuse_others(new.iter().filter(is_lost).map(|(target, _)| target.as_path()))?;
    for (target, new) in new {
        let written = match args.in_place {
            true => tree::replace(&target, &new.text),
            false => write_atomic(&target, new.text.as_bytes()),
        };
        written.map_err(|e| (status::BROKEN, format!("cannot write `{}`: {e}", target.display())))?;
    }
    Ok(Vec::new())
}

/// Converts a task differently: to another target, or with statements that stay in their scripts.
type Again<'a> = dyn Fn(&Path, Option<Target>, &[Kept]) -> Option<Outcome> + Sync + 'a;

/// Runs originals and conversions side by side. If a conversion is not proved, `again` converts less: statements stay
/// in their scripts.
#[cfg(all(feature = "run", target_os = "linux"))]
fn prove(outcomes: &mut [Outcome], args: &Args, again: &Again<'_>) -> Result<(), Fault> {
    use rayon::prelude::*;
    let unproved =
        |why: String| (status::BROKEN, format!("{why}; install bubblewrap, or skip the proof with `--no-verify`"));
    let bwrap = crate::sandbox::find().map_err(unproved)?;
    let exe =
        std::env::current_exe().map_err(|e| (status::BROKEN, format!("gevals cannot find its own executable: {e}")))?;
    let alone = outcomes.len() == 1;
    let settle = |outcome: &mut Outcome| -> Result<(), String> {
        let path = outcome.path.clone();
        let prover = crate::prove::Prover::new((&bwrap, &exe), &path, args.seeds);
        let mut prover = if alone { prover.side_by_side() } else { prover };
        let mut prove = |outcome: &mut Outcome,
                         keeps: bool,
                         start: Option<serde_json::Value>|
         -> Result<Option<Certificate>, String> {
            let Ok(new) = &mut outcome.result else { return Ok(None) };
            let lifted =
                if keeps && args.to == To::Portable { again(&outcome.path, Some(Target::Builtin), &[]) } else { None };
            let guide = lifted.and_then(|lifted| Some(lifted.result.ok()?.text));
            let certificate = prover.prove(new, guide, start)?;
            new.relabel(&certificate.stronger);
            outcome.proof = Proof::Certificate(Box::new(certificate.clone()));
            Ok(Some(certificate))
        };
        let Some(first) = prove(outcome, args.target.is_none(), None)? else { return Ok(()) };
        let shown = first.counter_example.as_ref().and_then(|example| example.lines().next());
        let refutation = shown.map(|example| format!("the full conversion was refuted: {example}"));
        let lacks = first.lacks();
        let why = refutation.or_else(|| Some(format!("the full conversion was not proved: {}", lacks.first()?)));
        let mut refuted = first.counter_example.is_some();
        let mut tries = less(outcome, &first).into_iter();
        let mut worlds = first.seeds;
        let (mut kept, mut suspects) = (Vec::new(), suspects(outcome, &first));
        // If the original passes in no environment that was found, no other conversion can be proved.
        if first.stopped.is_some() || first.passed == 0 && !refuted && first.hindered.is_some() {
            return Ok(());
        }
        loop {
            // All statements that the proofs suspect stay in their scripts. When there are no more suspects, other
            // statements are tried.
            suspects.retain(|suspect| !kept.contains(suspect));
            let more = !suspects.is_empty();
            let next = if more {
                kept.append(&mut suspects);
                kept.clone()
            } else if let Some(next) = if worlds > WORLDS { tries.by_ref().last() } else { tries.next() } {
                next
            } else {
                break;
            };
            let Some(mut other) = again(&outcome.path, None, &next) else { continue };
            let Some(certificate) = prove(&mut other, true, first.best.clone())? else { continue };
            worlds += certificate.seeds;
            if more {
                suspects = self::suspects(&other, &certificate);
            }
            // A conversion that is not refuted is better than one that is, and a proof is better than none.
            if certificate.is_full() || refuted && certificate.counter_example.is_none() {
                refuted = false;
                if let (Some(why), Ok(new)) = (&why, &mut other.result) {
                    new.notes.push(why.clone());
                }
                *outcome = other;
            }
            if certificate.is_full() {
                break;
            }
        }
        Ok(())
    };
    let faults: Vec<Fault> = outcomes
        .par_iter_mut()
        .filter_map(|outcome| {
            let why = settle(outcome).err()?;
            Some((status::BROKEN, format!("{}: {why}", outcome.path.display())))
        })
        .collect();
    faults.into_iter().next().map_or(Ok(()), Err)
}

/// How many statements are tried in their scripts one by one.
#[cfg(all(feature = "run", target_os = "linux"))]
const TRIES: usize = 6;

/// After this many environments, statements are no longer tried one by one.
#[cfg(all(feature = "run", target_os = "linux"))]
const WORLDS: u64 = 600;

/// The statements that may prevent a proof.
#[cfg(all(feature = "run", target_os = "linux"))]
fn suspects(outcome: &Outcome, certificate: &Certificate) -> Vec<Kept> {
    let origin = |id: &String| outcome.result.as_ref().ok().and_then(|new| new.origin(id));
    let mut found: Vec<Kept> = Vec::new();
    for kept in certificate.suspects.iter().filter_map(origin) {
        if !found.contains(&kept) {
            found.push(kept);
        }
    }
    found
}

/// What else may stay in scripts so that the rest can be proved: each statement by itself, all of a phase, all.
#[cfg(all(feature = "run", target_os = "linux"))]
fn less(outcome: &Outcome, certificate: &Certificate) -> Vec<Vec<Kept>> {
    let Ok(new) = &outcome.result else { return Vec::new() };
    let all: Vec<Kept> = new.lifted().collect();
    let mut tries = Vec::new();
    if certificate.counter_example.is_some() {
        use crate::hir::PhaseKind::{Cleanup, Setup, Verify};
        let phases = [Verify, Setup, Cleanup];
        let of = |phase| all.iter().filter(move |kept| kept.phase == phase).cloned();
        // The verdict is made at the end of a script.
        tries.extend(phases.into_iter().flat_map(|phase| of(phase).rev()).map(|kept| vec![kept]).take(TRIES));
        tries.extend(phases.into_iter().map(|phase| of(phase).collect()));
        tries.push(all.clone());
    }
    let mut seen: Vec<Vec<Kept>> = vec![Vec::new()];
    tries.retain(|kept| {
        let new = !seen.contains(kept);
        seen.push(kept.clone());
        new
    });
    tries
}

#[cfg(not(all(feature = "run", target_os = "linux")))]
fn prove(_: &mut [Outcome], _: &Args, _: &Again<'_>) -> Result<(), Fault> {
    Err((
        status::BROKEN,
        "the proof needs bubblewrap, which is only available on Linux; skip the proof with `--no-verify`".to_owned(),
    ))
}

fn context<'a>(args: &Args, compiled: &'a Compiled, sources: &'a Sources, files: &'a dyn Files) -> Context<'a> {
    Context {
        sources,
        files,
        project: &compiled.project,
        to: if args.to == To::Steps { Dialect::Steps } else { Dialect::Portable },
        target: match args.target {
            None => Target::Wrap,
            Some(TargetName::Builtin) => Target::Builtin,
            Some(TargetName::Kubernetes) => Target::Kubernetes,
        },
        allow_weaker: args.allow_weaker,
        kept: &[],
    }
}

fn outcome(unit: &TaskUnit, compiled: &Compiled, context: Context<'_>) -> Outcome {
    let hard = compiled.diagnostics.iter().find(|d| d.strength == Strength::Hard && d.span.file == unit.file);
    let located = |span: crate::source::Span, message: &str| {
        let source = context.sources.get(span.file);
        let at = source.position(span.start);
        format!("{}:{}:{}: {message}", source.path().display(), at.line, at.column)
    };
    let result = match hard {
        Some(d) => Err(located(d.span, &d.message)),
        None => convert::task(unit, context).map_err(|r| located(r.span, &r.message)),
    };
    let name = unit.task.as_ref().map_or_else(String::new, |t| t.name.value.clone());
    Outcome { path: unit.path.clone(), name, result, inherited: Vec::new(), proof: Proof::None, on_api: None }
}

/// Marks errors that the original also has. New errors are faults of the conversion, which is then refused.
fn inherited(outcomes: &mut [Outcome], compiled: &Compiled, old: &Sources, files: &dyn Files) {
    let texts: BTreeMap<PathBuf, Vec<u8>> = outcomes
        .iter()
        .filter_map(|o| Some((normalize(&o.path), o.result.as_ref().ok()?.text.clone().into_bytes())))
        .collect();
    let paths: Vec<PathBuf> = texts.keys().cloned().collect();
    let overlay = Edited { under: files, texts: &texts };
    let sources = Sources::default();
    let again = compile(&paths, &sources, &overlay);
    for outcome in outcomes {
        let Ok(new) = &mut outcome.result else { continue };
        let path = normalize(&outcome.path);
        let of = |found: &[Diagnostic], sources: &Sources, files: &BTreeSet<PathBuf>| -> Vec<Diagnostic> {
            let is_own = |d: &&Diagnostic| d.strength.is_error() && files.contains(&normalize(&sources.path(d.span)));
            found.iter().filter(is_own).cloned().collect()
        };
        let mut marks: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
        let unit = again.project.tasks.iter().find(|t| normalize(&t.path) == path);
        let own = BTreeSet::from([path.clone()]);
        let after = of(&again.diagnostics, &sources, &own);
        let hard = after.iter().find(|d| d.strength == Strength::Hard);
        let added = |files: &BTreeSet<PathBuf>| {
            let before = of(&compiled.diagnostics, old, files);
            after.iter().find(|d| before.iter().all(|known| known.rule.name != d.rule.name))
        };
        // What is now in the task may have been in its scripts.
        let added = added(&own).and_then(|_| added(&scripts(&path, files)));
        if let Some(d) = hard.or(added) {
            let at = sources.get(d.span.file).position(d.span.start);
            outcome.result = Err(format!(
                "{}: its conversion would have an error that the original does not have: {} (line {} of the result: {})",
                outcome.path.display(),
                d.rule.name,
                at.line,
                d.message
            ));
            continue;
        }
        for d in &after {
            let line = sources.get(d.span.file).position(d.span.start).line;
            marks.entry(line).or_default().push(d.rule.name);
            outcome.inherited.push(d.rule.name.to_owned());
        }
        if let Some(unit) = unit {
            new.steps_after = 0;
            if let Some(task) = &unit.task {
                task.walk(&mut |_, _| new.steps_after += 1);
            }
        }
        new.text = marked(&new.text, &marks);
    }
}

/// A task and the files that it names, with those that they name.
fn scripts(task: &Path, files: &dyn Files) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::from([task.to_owned()]);
    let mut open = vec![task.to_owned()];
    while let Some(file) = open.pop() {
        let Some(text) = files.read(&file).ok().and_then(|bytes| String::from_utf8(bytes).ok()) else { continue };
        let dir = file.parent().unwrap_or(Path::new(""));
        for (named, is_folder) in mentions(&text, dir, files) {
            let named = normalize(&named);
            if !is_folder && found.insert(named.clone()) {
                open.push(named);
            }
        }
    }
    found
}

/// Adds a comment above each line that has an error of the original.
fn marked(text: &str, marks: &BTreeMap<usize, Vec<&str>>) -> String {
    let mut out = String::new();
    let openers = crate::policy::block_openers(text);
    let mut at: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
    for (line, rules) in marks {
        at.entry(openers.get(line - 1).copied().unwrap_or(*line)).or_default().extend(rules);
    }
    for (index, line) in text.lines().enumerate() {
        if let Some(rules) = at.get(&(index + 1)) {
            let mut rules = rules.clone();
            rules.dedup();
            let indent = &line[..line.len() - line.trim_start().len()];
            for rule in rules {
                out += &format!("{indent}# gevals: inherited({rule})\n");
            }
        }
        out += line;
        out.push('\n');
    }
    out
}

fn report(outcomes: &[Outcome], format: Format) -> String {
    let mut totals = Tally::default();
    let mut kubectl = (0, 0);
    for new in outcomes.iter().filter_map(|outcome| outcome.result.as_ref().ok()) {
        totals.merge(new.tally);
        kubectl = (kubectl.0 + new.kubectl.0, kubectl.1 + new.kubectl.1);
    }
    match format {
        Format::Json => {
            let tasks: Vec<_> = outcomes.iter().map(task_json).collect();
            let totals = with_kubectl(counts(&totals), kubectl);
            let text = serde_json::to_string_pretty(&json!({ "version": 1, "tasks": tasks, "totals": totals }));
            text.unwrap_or_default() + "\n"
        }
        Format::Text => text_report(outcomes, &totals, kubectl),
        Format::Markdown => markdown_report(outcomes, &totals),
    }
}

fn counts(tally: &Tally) -> serde_json::Value {
    json!({
        "effective": tally.effective,
        "exact": tally.exact,
        "stronger": tally.stronger,
        "weaker": tally.weaker,
        "residual": tally.residual,
    })
}

/// Adds how many commands of kubectl became operations, if there are any.
fn with_kubectl(mut counts: serde_json::Value, (operations, commands): (usize, usize)) -> serde_json::Value {
    if operations + commands > 0 {
        counts["kubectl"] = json!({ "operations": operations, "commands": commands });
    }
    counts
}

/// The same as text.
fn operations((operations, commands): (usize, usize)) -> String {
    match operations + commands {
        0 => String::new(),
        all => {
            format!(
                "; {operations} of {} converted to operations",
                count(all, "command of kubectl", "commands of kubectl")
            )
        }
    }
}

fn task_json(outcome: &Outcome) -> serde_json::Value {
    let proof = match &outcome.proof {
        Proof::None => serde_json::Value::Null,
        Proof::Certificate(c) => json!({
            "proved": c.counter_example.is_none() && c.lacks().is_empty(),
            "seeds": c.seeds, "agreed": c.agreed, "counterExample": c.counter_example, "passed": c.passed, "failed": c.failed,
            "hostile": c.hostile, "unreached": c.unreached, "undecided": c.undecided, "stronger": c.stronger, "lacks": c.lacks(),
        }),
    };
    match &outcome.result {
        Ok(new) => json!({
            "path": outcome.path.display().to_string(),
            "converted": true,
            "statements": with_kubectl(counts(&new.tally), new.kubectl),
            "proof": proof,
            "onApi": outcome.on_api.as_ref().map(OnApi::json),
            "steps": { "before": new.steps_before, "after": new.steps_after },
            "lines": { "before": new.lines_before, "after": new.lines_after },
            "inherited": outcome.inherited,
            "notes": new.notes,
            "pieces": new.pieces.iter().map(|p| json!({
                "phase": p.phase.name(),
                "file": p.file.as_ref().map(|f| f.display().to_string()),
                "line": p.line,
                "text": p.text,
                "label": p.label.name(),
                "statements": p.statements,
                "why": p.why,
            })).collect::<Vec<_>>(),
        }),
        Err(why) => json!({
            "path": outcome.path.display().to_string(),
            "converted": false,
            "statements": counts(&Tally::default()),
            "proof": proof,
            "onApi": null,
            "reason": why,
        }),
    }
}

fn share(tally: &Tally) -> String {
    match tally.effective {
        0 => "nothing to lift".to_owned(),
        all => format!("{} of {all} statements lifted ({} %)", tally.lifted(), tally.lifted() * 100 / all),
    }
}

fn text_report(outcomes: &[Outcome], totals: &Tally, kubectl: (usize, usize)) -> String {
    let mut out = String::new();
    for outcome in outcomes {
        let Ok(new) = &outcome.result else { continue };
        out += &format!(
            "{}: {}; exact {}, stronger {}, weaker {}, residual {}; steps {} -> {}, lines {} -> {}{}\n",
            outcome.path.display(),
            share(&new.tally),
            new.tally.exact,
            new.tally.stronger,
            new.tally.weaker,
            new.tally.residual,
            new.steps_before,
            new.steps_after,
            new.lines_before,
            new.lines_after,
            operations(new.kubectl)
        );
        out += &match &outcome.proof {
            Proof::None => "  unproved\n".to_owned(),
            Proof::Certificate(c) => format!(
                "  {}: {} of {} worlds agree; both pass in {} and fail in {}, {} have hostile values\n",
                match (&c.counter_example, c.lacks().is_empty()) {
                    (Some(_), _) => "refuted",
                    (None, true) => "proved",
                    (None, false) => "unproved",
                },
                c.agreed,
                c.seeds,
                c.passed,
                c.failed,
                c.hostile
            ),
        };
        if let Some(on_api) = &outcome.on_api {
            out += &format!("  on the real API: {}\n", on_api.shown());
        }
        for lack in unproved(outcome).into_iter().flatten() {
            out += &format!("  missing  {lack}\n");
        }
        for piece in new.pieces.iter().filter(|p| p.label != Label::Exact) {
            let file = piece.file.as_ref().map_or_else(|| piece.phase.name().to_owned(), |f| f.display().to_string());
            let several = (piece.statements > 1).then(|| format!("{} statements", piece.statements));
            let why = several.into_iter().chain(piece.why.clone()).collect::<Vec<_>>().join("; ");
            let why = if why.is_empty() { why } else { format!(" ({why})") };
            let line = if piece.line == 0 { String::new() } else { format!(":{}", piece.line) };
            out += &format!("  {:9}{file}{line}: {}{why}\n", piece.label.name(), piece.text);
        }
        for rule in &outcome.inherited {
            out += &format!("  inherited {rule}\n");
        }
        for note in &new.notes {
            out += &format!("  note     {note}\n");
        }
    }
    if outcomes.len() > 1 {
        out += &format!("{} tasks: {}{}\n", outcomes.len(), share(totals), operations(kubectl));
    }
    out
}

fn markdown_report(outcomes: &[Outcome], totals: &Tally) -> String {
    let mut out = String::from(
        "| task | lifted | exact | stronger | weaker | residual | steps | lines | proof |\n|---|---|---|---|---|---|---|---|---|\n",
    );
    for outcome in outcomes {
        let proof = match &outcome.proof {
            Proof::None => "unproved".to_owned(),
            Proof::Certificate(c) => match unproved(outcome) {
                None => format!("{}/{}", c.agreed, c.seeds),
                Some(lacks) => format!("unproved, lacks {}", lacks.len()),
            },
        };
        match &outcome.result {
            Ok(n) => {
                let t = &n.tally;
                out += &format!(
                    "| {} | {}/{} | {} | {} | {} | {} | {} → {} | {} → {} | {proof} |\n",
                    outcome.name,
                    t.lifted(),
                    t.effective,
                    t.exact,
                    t.stronger,
                    t.weaker,
                    t.residual,
                    n.steps_before,
                    n.steps_after,
                    n.lines_before,
                    n.lines_after
                );
            }
            Err(why) => {
                out += &format!("| {} | not converted: {} | | | | | | | |\n", outcome.name, why.replace('|', "\\|"))
            }
        }
    }
    out += &format!("\n{}\n", share(totals));
    out
}
