//! `gevals evals export`: converts portable tasks, as far as possible, to evals that a server ships.

use std::path::PathBuf;

use indexmap::IndexSet;
use serde_json::{Value, json};

use super::{
    Fault, Global,
    loss::{self, Lost},
    visible_lines,
};
use crate::{
    Compiled,
    builtin::count,
    cli::{complain, print, project_files, status, tell, unreadable, warn},
    compile::{Options, Plans, compile_with},
    decode::SECRET_IN_CLEAR,
    diagnostic::{Diagnostics, Strength},
    hir::Assertions,
    host::disk::{Disk, write_atomic},
    primitive::{
        self, KIND,
        bridge::{Effect, Exported, Loss, Portable, export, text},
    },
    project::{EvalUnit, TaskUnit},
    source::{Files, Sources},
    yaml,
};

const EXAMPLES: &str = "\
Examples:
  gevals evals export eval.yaml -o evals.yaml
      the tasks of an eval file, with its assertions and its agent
  gevals evals export tasks/ > evals.yaml
      tasks alone: those that a judge decides
  gevals evals export --report json eval.yaml -o evals.yaml

An eval is one tool call (a task with `builtin.noop` and one step `SERVER.TOOL`), one call that a
model must make (no verify steps, `toolsUsed`), or the work of a model for a judge (steps `llm`).
Everything else in a task is reported with its place: `left out`, the task is not exported;
`weaker`, less is checked; `differs`, it is decided in another way; `dropped`, it decides nothing.

Exit status: 0 every task is exported, 1 some could not be exported, the others are written, 2 usage
error, unreadable, or tasks of several servers";

/// Export portable tasks as a file of evals for `gevals evals serve`.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Task and eval files, or directories.
    #[arg(required = true, value_name = "TASKS")]
    paths: Vec<PathBuf>,
    /// Write to this file instead of standard output; as JSON if its name ends with `.json`.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Overwrite the file.
    #[arg(long, requires = "output")]
    force: bool,
    /// The server of the evals, if the tasks use several.
    #[arg(long, value_name = "NAME")]
    server: Option<String>,
    /// How losses are reported: on standard error, or on standard output if the evals are written to a file.
    #[arg(long, value_name = "FORMAT", default_value = "text", value_parser = ["text", "json"])]
    report: String,
}

pub fn main(args: &Args, _: Global) -> u8 {
    work(args).unwrap_or_else(|(code, why)| {
        complain(&visible_lines(&why));
        code
    })
}

/// An exported task.
struct Written<'a> {
    unit: &'a TaskUnit,
    exported: Exported,
}

impl Written<'_> {
    /// The loss if the task is left out after all.
    fn left_out(&self, message: &str, sources: &Sources) -> Lost {
        let task = self.unit.task.as_ref().map(|task| &task.name);
        let span = task.map_or_else(|| self.unit.tree.root().span().head(), |name| name.span);
        let name = task.map_or("", |name| name.value.as_str());
        Lost::at(name, span, Effect::LeftOut, message, sources)
    }
}

fn work(args: &Args) -> Result<u8, Fault> {
    if let Some(path) = args.output.as_deref().filter(|path| !args.force && Disk.stat(path).is_some()) {
        let message = format!("`{}` already exists: use --force to overwrite it", path.display());
        return Err((status::USAGE, message));
    }
    let sources = Sources::default();
    let files = project_files(&args.paths);
    let options = Options { soft: false, plans: Plans::None, ..Options::default() };
    let compiled = compile_with(&args.paths, &options, &sources, &files);
    if unreadable(&compiled) {
        return Ok(status::USAGE);
    }
    if compiled.project.tasks.is_empty() {
        return Err((status::USAGE, "no tasks found".to_owned()));
    }
    let (mut written, mut lost) = (Vec::new(), Vec::new());
    for (index, unit) in compiled.project.tasks.iter().enumerate() {
        let name = unit.task.as_ref().map_or_else(|| unit.path.display().to_string(), |task| task.name.value.clone());
        match exported(unit, index, &compiled, &files) {
            Ok(exported) => {
                lost.extend(exported.losses.iter().map(|loss| Lost::new(&name, loss, &sources)));
                written.push(Written { unit, exported });
            }
            Err(loss) => lost.push(Lost::new(&name, &loss, &sources)),
        }
    }
    let server = server(args, &mut written, &mut lost, &sources)?;
    unique(&mut written, &mut lost, &sources);
    let text = (!written.is_empty()).then(|| file(args, server.as_deref(), &written)).transpose()?;
    let rows: Vec<Value> = written
        .iter()
        .map(|w| json!({"id": w.exported.eval["id"], "level": w.exported.eval["input"]["type"], "path": w.unit.path}))
        .collect();
    let said = match args.report.as_str() {
        "json" => loss::document(&rows, &lost),
        _ => loss::text(&lost),
    };
    match (&args.output, &text) {
        (Some(path), Some(text)) => {
            let fault = |e: std::io::Error| (status::BROKEN, format!("cannot write `{}`: {e}", path.display()));
            write_atomic(path, text.as_bytes()).map_err(fault)?;
            print(&said);
            if args.report == "text" {
                let all = count(compiled.project.tasks.len(), "task", "tasks");
                let evals = count(written.len(), "eval", "evals");
                print(&format!("wrote {}: {evals} of {all}{}\n", path.display(), loss::summary(&lost)));
            }
        }
        (None, Some(text)) => {
            print(text);
            tell(&said);
        }
        (_, None) => {
            tell(&said);
            complain("nothing is written: no eval can express these tasks");
        }
    }
    Ok(if lost.iter().any(|lost| lost.effect == Effect::LeftOut) { status::NO } else { status::OK })
}

/// Exports a task by itself, or as in the first eval file with which that is possible.
fn exported(unit: &TaskUnit, index: usize, compiled: &Compiled, files: &dyn Files) -> Result<Exported, Loss> {
    let left_out = |span, message: &str| Loss { span, effect: Effect::LeftOut, message: message.to_owned() };
    let hard = compiled.diagnostics.iter().find(|d| d.strength == Strength::Hard && d.span.file == unit.file);
    if let Some(error) = hard {
        return Err(left_out(error.span, &error.message));
    }
    let Some(task) = &unit.task else {
        return Err(left_out(unit.tree.root().span().head(), "the task is invalid"));
    };
    let prompt = match task.prompt.as_ref().and_then(|prompt| prompt.file.as_ref()) {
        None => None,
        Some(file) => {
            let text = files.read(&file.value).ok().and_then(|bytes| yaml::decode_utf8(bytes).ok());
            Some(text.ok_or_else(|| left_out(file.span, "the prompt file cannot be read"))?)
        }
    };
    let portable =
        Portable { task, tree: &unit.tree, prompt: prompt.as_deref(), idle: false, assertions: &[], server: None };
    let selecting = compiled.project.evals.iter().filter_map(|eval| {
        let selected = eval.selected.iter().find(|selected| selected.task == index)?;
        let sets = &eval.eval.as_ref()?.task_sets;
        let assertions: Vec<&Assertions> = selected.sets.iter().filter_map(|&i| sets[i].assertions.as_ref()).collect();
        Some((eval, assertions))
    });
    let mut refused = None;
    for (eval, assertions) in selecting {
        let server = eval.mcp.as_ref().and_then(|mcp| match mcp.servers.as_slice() {
            [one] => Some(one.name.value.as_str()),
            _ => None,
        });
        match export(&Portable { idle: idle(eval), assertions: &assertions, server, ..portable }) {
            Ok(exported) => return Ok(exported),
            Err(loss) => refused = refused.or(Some(loss)),
        }
    }
    match refused {
        Some(loss) => Err(loss),
        None => export(&portable),
    }
}

/// Whether the agent of an eval file does nothing.
fn idle(unit: &EvalUnit) -> bool {
    let agent = unit.eval.as_ref().and_then(|eval| eval.agent.as_ref());
    agent.is_some_and(|agent| agent.kind.value == "builtin.noop")
}

/// The server of the file. If it is specified, evals of other servers are left out.
fn server(
    args: &Args,
    written: &mut Vec<Written<'_>>,
    lost: &mut Vec<Lost>,
    sources: &Sources,
) -> Result<Option<String>, Fault> {
    let servers: IndexSet<String> = written.iter().filter_map(|w| w.exported.server.clone()).collect();
    let Some(wanted) = &args.server else {
        return match servers.len() {
            0 | 1 => Ok(servers.into_iter().next()),
            _ => {
                let names: Vec<_> = servers.iter().map(|name| format!("`{name}`")).collect();
                let message =
                    format!("the tasks use {}: choose the one for the evals with `--server`", names.join(", "));
                Err((status::USAGE, message))
            }
        };
    };
    let others = written.extract_if(.., |w| w.exported.server.as_ref().is_some_and(|server| server != wanted));
    for other in others {
        let of = other.exported.server.as_deref().unwrap_or_default();
        let message = format!("it uses the server `{of}`, not `{wanted}`");
        lost.push(other.left_out(&message, sources));
    }
    Ok(Some(wanted.clone()))
}

/// Leaves out tasks with a name that another task has.
fn unique(written: &mut Vec<Written<'_>>, lost: &mut Vec<Lost>, sources: &Sources) {
    let mut names: IndexSet<String> = IndexSet::new();
    for other in written.extract_if(.., |w| !names.insert(w.exported.eval["id"].to_string())) {
        lost.push(other.left_out("another task has this name, but ids must be unique", sources));
    }
}

/// The text of the file, which `gevals evals check` accepts.
fn file(args: &Args, server: Option<&str>, written: &[Written<'_>]) -> Result<String, Fault> {
    let mut file = json!({ "kind": KIND });
    if let Some(server) = server {
        file["server"] = server.into();
    }
    file["evals"] = written.iter().map(|w| w.exported.eval.clone()).collect();
    let json = args.output.as_ref().and_then(|path| path.extension()).is_some_and(|end| end == "json");
    let text = if json { format!("{file:#}\n") } else { text(&file) };
    let (sources, mut found) = (Sources::default(), Diagnostics::default());
    if let Ok(tree) = yaml::parse(sources.add("evals", text.as_str()), text.clone(), &mut found) {
        let document = primitive::file(tree, &mut found);
        primitive::check(&[document], None, &mut found);
    }
    for diagnostic in found.iter() {
        if std::ptr::eq(diagnostic.rule, &raw const SECRET_IN_CLEAR) {
            warn(&format!("{}; it is sent to every client of the server", diagnostic.message));
        }
    }
    match found.iter().find(|d| d.strength.is_error()) {
        Some(error) => {
            Err((status::BROKEN, format!("an eval that was made from a task is invalid: {}", error.message)))
        }
        None => Ok(text),
    }
}
