//! `--agent`: the agent that performs the scenarios of a server, instead of a model that is called directly.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{Fault, Reached};
use crate::{
    cli::{status, warn},
    diagnostic::{Diagnostics, Pretty, concise, visible},
    dialect::{self, FileKind},
    hir::{Agent, Isolation},
    host::{RealHost, disk::Disk},
    mcp::Transport,
    plan::AgentKind,
    project::AgentChoice,
    run::{machine, results_in},
    sandbox::agent::{Jail, Surroundings},
    source::{Files, Sources},
    yaml,
};

/// The agent of `--agent`.
pub struct Chosen {
    /// Its name in reports.
    pub title: String,
    /// Its description in results.
    pub told: Value,
    pub kind: AgentKind,
    /// The isolation that its file requests.
    isolation: Option<Isolation>,
}

/// Reads the value of `--agent`, as `gevals run` does: a file of kind Agent, `builtin.NAME` or `builtin.NAME:MODEL`.
pub fn chosen(text: &str) -> Result<Chosen, Fault> {
    let usage = |why: String| (status::USAGE, why);
    let choice = AgentChoice::parse(text);
    let sources = Sources::default();
    let file = match &choice {
        AgentChoice::File(path) => Some(read(path, &sources)?),
        AgentChoice::Builtin { .. } => None,
    };
    let reference = choice.reference(false, &sources);
    let kind = AgentKind::of(&reference, file.as_ref()).ok_or_else(|| {
        usage(match reference.kind.value.as_str() {
            kind @ ("builtin.script" | "builtin.replay") => {
                format!("`--agent {kind}` does tasks by their names, but an eval of a server is not a task")
            }
            "builtin.llm-agent" => format!("`--agent {text}` has no model: write `builtin.llm-agent:PROVIDER:MODEL`"),
            "file" => format!("`--agent {text}`: the file contains no agent; `gevals check {text}` shows more"),
            kind => format!("`--agent {kind}`: unknown agent; `gevals explain agents` lists them"),
        })
    })?;
    let name = file.as_ref().and_then(|file| file.name.as_ref()).map(|name| name.value.clone());
    let mut told = json!({"type": reference.kind.value});
    if let Some(name) = &name {
        told["name"] = name.as_str().into();
    }
    if let Some(path) = &reference.path {
        told["path"] = path.value.as_str().into();
    }
    if let Some(model) = &reference.model {
        told["model"] = model.value.as_str().into();
    }
    let isolation = file.and_then(|file| file.isolation?.level);
    Ok(Chosen { title: name.unwrap_or_else(|| text.to_owned()), told, kind, isolation })
}

fn read(path: &Path, sources: &Sources) -> Result<Agent, Fault> {
    let usage = |why: String| (status::USAGE, why);
    let shown = path.display();
    let bytes = Disk.read(path).map_err(|error| usage(format!("cannot read `{shown}`: {error}")))?;
    let text = yaml::decode_utf8(bytes).map_err(|_| usage(format!("`{shown}` is not valid UTF-8")))?;
    let file = sources.add(path, text.as_str());
    let mut out = Diagnostics::default();
    let mut agent = None;
    if let Ok(tree) = yaml::parse(file, text, &mut out)
        && let Ok(kind) = dialect::identify(tree.root(), true, &mut out)
    {
        match kind {
            Some(FileKind::Agent) => {
                let dir = path.parent().unwrap_or(Path::new(""));
                agent = dialect::agent::decode(tree.root(), file, dir, &mut out).value;
            }
            _ => return Err(usage(format!("`{shown}` is not an agent: its `kind` is not `Agent`"))),
        }
    }
    let wrong: Vec<_> = out.into_sorted(sources).into_iter().filter(|d| d.strength.is_error()).collect();
    match agent.filter(|_| wrong.is_empty()) {
        Some(agent) => Ok(agent),
        None => {
            let mut text = String::new();
            let _ = concise(&wrong, sources, &Pretty::default(), &mut text);
            Err(usage(text.trim_end().to_owned()))
        }
    }
}

/// The directories and files that an agent must not see: where the evals that judge it may be, and their results.
pub fn hidden(reached: &Reached, output_dir: &Path, lock: &Path) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let mut files = vec![lock.to_owned()];
    if let Transport::Stdio { args, .. } = &reached.spec.transport {
        files.extend(args.iter().map(PathBuf::from).filter(|path| Disk.stat(path).is_some()));
    }
    files.extend(results_in(output_dir, &Disk));
    (vec![PathBuf::from("."), output_dir.to_owned()], files)
}

/// The jail of an agent that is a process.
///
/// # Errors
/// A jail was requested that this machine does not support.
pub fn jail(
    chosen: &Chosen,
    asked: Option<Isolation>,
    host: &RealHost,
    (folders, files): (Vec<PathBuf>, Vec<PathBuf>),
) -> Result<Option<Jail>, Fault> {
    let level = asked.or(chosen.isolation).unwrap_or_default();
    if !chosen.kind.is_process() || level == Isolation::None {
        return Ok(None);
    }
    let around = Surroundings { folders, files, ..machine(host, std::env::current_exe().ok()) };
    match Jail::new(level, around) {
        Ok(jail) => Ok(Some(jail)),
        Err(why) if asked.or(chosen.isolation).is_some() => {
            Err((status::BROKEN, format!("the agent cannot be isolated (`{}`): {why}", level.name())))
        }
        Err(why) => {
            warn(&visible(&format!("the agent is not isolated and may read how it is judged: {why}")));
            Ok(None)
        }
    }
}
