//! Isolates the agent from the machine during a run, as far as the machine supports it.

use std::path::{Path, PathBuf};

use super::RunOptions;
use crate::{
    event::EventKind,
    fetch::Cache,
    hir::Isolation,
    host::{Host, cache},
    plan::{ActionKind, EvalPlan},
    sandbox::agent::{Jail, Surroundings},
    source::Files,
};

/// Returns the jail of a run's agent and the event that reports it; nothing if the agent is not a process.
///
/// # Errors
/// The machine cannot provide the requested isolation.
pub(super) fn isolation(
    plan: &EvalPlan,
    options: &RunOptions,
    selected: &[usize],
    host: &dyn Host,
) -> Result<(Option<Jail>, Option<EventKind>), String> {
    let is_process = |&&index: &&usize| {
        let task = &plan.tasks[index];
        matches!(&task.action(task.agent).kind, ActionKind::Agent(agent) if agent.kind.is_process())
    };
    if options.only.is_some() || !host.confines() || selected.iter().find(is_process).is_none() {
        return Ok((None, None));
    }
    let level = options.isolation.unwrap_or(plan.isolation.level);
    let told = |level, by: Option<&str>, reason| EventKind::AgentIsolated {
        level,
        by: by.map(str::to_owned),
        reason,
        instead_of: options.isolation.map(|_| plan.isolation.level),
    };
    if level == Isolation::None {
        return Ok((None, Some(told(level, None, None))));
    }
    let jail = || Jail::new(level, surroundings(plan, options, host));
    // The cached output of checks may be in a place that cannot be hidden: drop it and try again.
    let jail = jail().or_else(|_| {
        cache::forget_checks();
        jail()
    });
    match jail {
        Ok(jail) => {
            let by = jail.by();
            Ok((Some(jail), Some(told(level, Some(by), None))))
        }
        Err(why) if options.isolation.is_some() || plan.isolation.meant => {
            Err(format!("the agent cannot be isolated (`{}`): {why}", level.name()))
        }
        Err(why) => Ok((None, Some(told(Isolation::None, None, Some(why))))),
    }
}

/// Describes how the agent would be isolated, for display before a run; returns `None` if the agent is not a process.
///
/// # Errors
/// The machine cannot provide the requested isolation.
pub fn foreseen(
    plan: &EvalPlan,
    options: &RunOptions,
    selected: &[usize],
    host: &dyn Host,
) -> Result<Option<String>, String> {
    Ok(match isolation(plan, options, selected, host)?.1 {
        Some(EventKind::AgentIsolated { level, by, reason, .. }) => {
            let by = by.map(|by| format!(" by {by}")).unwrap_or_default();
            let reason = reason.map(|why| format!(" ({why})")).unwrap_or_default();
            Some(format!("{}{by}{reason}", level.name()))
        }
        _ => None,
    })
}

fn surroundings(plan: &EvalPlan, options: &RunOptions, host: &dyn Host) -> Surroundings {
    let granted = &plan.isolation.granted;
    let from_eval = |paths: &[PathBuf]| paths.iter().map(|path| plan.dir.join(path)).collect();
    let above =
        |path: &Path| path.parent().map(|dir| if dir.as_os_str().is_empty() { Path::new(".") } else { dir }.to_owned());
    let mut folders: Vec<PathBuf> = plan.tasks.iter().map(|task| task.task.folder().to_owned()).collect();
    folders.extend(above(&plan.path));
    // Extensions' programs run outside of the jail.
    folders.extend(Cache::new(plan.extensions.cache.as_deref()).ok().map(|cache| cache.programs()));
    // The cache of checks quotes project files.
    folders.extend(cache::checks());
    folders.push(options.output_dir.join(".gevals"));
    folders.extend(options.journal.iter().map(|journal| journal.dir().to_owned()));
    let mut files = vec![plan.path.clone()];
    files.extend(plan.tasks.iter().flat_map(|task| task.files.keys().cloned().chain([task.task.path.clone()])));
    files.extend(results_in(&options.output_dir, host.files()));
    Surroundings {
        folders,
        files,
        read: from_eval(&granted.read),
        write: from_eval(&granted.write),
        network: granted.network,
        env: granted.env.clone(),
        ..machine(host, options.executable.clone())
    }
}

/// The results files in a directory: an agent could read in them what is expected of it.
pub fn results_in(dir: &Path, files: &dyn Files) -> impl Iterator<Item = PathBuf> {
    let is_result = |name: &String| name.starts_with("gevals-") && name.ends_with("-out.json");
    files.list(dir).into_iter().filter(is_result).map(|name| dir.join(name))
}

/// The surroundings common to all jails: where programs and temporary directories are. Nothing is hidden or granted yet.
pub fn machine(host: &dyn Host, gevals: Option<PathBuf>) -> Surroundings {
    let variable = |name: &str| host.env(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let path = host.env("PATH").unwrap_or_default();
    Surroundings {
        home: variable("HOME"),
        temporary: variable("TMPDIR").unwrap_or_else(|| PathBuf::from("/tmp")),
        programs: path.split(':').filter(|dir| !dir.is_empty()).map(PathBuf::from).collect(),
        gevals,
        ..Surroundings::default()
    }
}
