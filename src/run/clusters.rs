//! The Kubernetes control planes that an eval requests with `world: kube`. Their files are in the run's directory, and they end with
//! the run. After a run that was killed, its recovery starts them again for the pending cleanups, and then ends them.
#![expect(clippy::disallowed_methods, reason = "the folders of control planes are made, listed and removed here")]

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use super::{
    RunOptions,
    servers::{self, Specs},
};
#[cfg(feature = "kubernetes")]
use crate::cluster::plane;
use crate::{
    event::TaskRun,
    hir::KubeWorld,
    host::{Host, WithEnv},
    journal::TaskPast,
    plan::EvalPlan,
};

/// The subdirectory of the run's directory.
const FOLDER: &str = "kube";

/// Stands in for builds without Kubernetes.
#[cfg(not(feature = "kubernetes"))]
mod plane {
    use std::path::{Path, PathBuf};

    const ABSENT: &str = "this build has no `builtin:kubernetes`";

    pub fn startable() -> Result<(), String> {
        Err(ABSENT.to_owned())
    }

    pub fn up(_: &Path) -> Result<PathBuf, String> {
        Err(ABSENT.to_owned())
    }

    pub fn is_up(_: &Path) -> bool {
        false
    }

    pub fn down(_: &Path) -> Result<Vec<&'static str>, String> {
        Ok(Vec::new())
    }

    pub async fn add_namespace(_: &Path, _: &str) -> Result<PathBuf, String> {
        Err(ABSENT.to_owned())
    }

    pub async fn drop_namespace(_: &Path, _: &str) -> Result<(), String> {
        Ok(())
    }
}

/// The control planes of a run.
pub(super) struct Clusters<'a> {
    plan: &'a EvalPlan,
    share: KubeWorld,
    executable: Option<&'a PathBuf>,
    /// Contains one directory per control plane.
    folder: PathBuf,
    /// Whether a task has taken the first control plane, which is started before any task so that servers can be queried.
    taken: AtomicBool,
    /// The directories of control planes whose worlds are kept.
    kept: Mutex<Vec<PathBuf>>,
}

/// The share of one run of a task.
pub(super) struct Share {
    /// The directory of its control plane.
    folder: PathBuf,
    namespace: Option<String>,
    env: Vec<(String, String)>,
}

fn variables(kubeconfig: &Path, namespace: &str) -> Vec<(String, String)> {
    let values = [kubeconfig.display().to_string(), namespace.to_owned()];
    KubeWorld::VARIABLES.into_iter().map(str::to_owned).zip(values).collect()
}

impl<'a> Clusters<'a> {
    /// The control planes that the eval requests, if any; starts nothing.
    pub fn of(plan: &'a EvalPlan, options: &'a RunOptions) -> Option<Self> {
        let share = plan.world?;
        let run = options.journal.as_ref().map(|journal| journal.dir().join(FOLDER));
        let folder = run.unwrap_or_else(|| std::env::temp_dir().join(format!("gevals-{}", crate::random::number())));
        let folder = std::path::absolute(&folder).unwrap_or(folder);
        let (taken, kept, executable) = (AtomicBool::new(false), Mutex::default(), options.executable.as_ref());
        Some(Self { plan, share, executable, folder, taken, kept })
    }

    fn first(&self) -> PathBuf {
        self.folder.join("first")
    }

    /// The host for what happens before any task.
    pub fn host<'h>(&self, host: &'h dyn Host) -> WithEnv<'h> {
        WithEnv::new(host, variables(&self.first().join("kubeconfig"), "default"))
    }

    /// The eval's servers, resolved with the environment of a host.
    pub fn servers(&self, host: &dyn Host) -> Result<Specs, String> {
        let found = servers::specs(&self.plan.servers, &self.plan.dir, host, self.executable);
        found.map(|(specs, _)| specs).map_err(|unset| unset.join("; "))
    }

    /// Starts the first control plane.
    pub async fn begin(&self) -> Result<(), String> {
        // An interrupted run is cleaned up before it is resumed, so leftovers can be removed.
        dispose_in(&self.folder);
        up(self.first()).await
    }

    /// Creates the share for a run of a task.
    pub async fn enter(&self, task: &TaskRun) -> Result<Share, String> {
        let name = name(task);
        let share = match self.share {
            KubeWorld::Namespace => {
                let folder = self.first();
                let kubeconfig = plane::add_namespace(&folder, &name).await?;
                Share { folder, env: variables(&kubeconfig, &name), namespace: Some(name) }
            }
            KubeWorld::Api => {
                let is_first = !self.taken.swap(true, Ordering::Relaxed);
                let folder = if is_first { self.first() } else { self.folder.join(name) };
                if !is_first {
                    up(folder.clone()).await?;
                }
                Share { env: variables(&folder.join("kubeconfig"), "default"), folder, namespace: None }
            }
        };
        Ok(share)
    }

    /// Restores the share of a run of a task from its journal.
    pub fn restored(&self, past: &TaskPast) -> Option<Share> {
        Share::restored(self.plan, past)
    }

    /// Releases a share. A kept share stays until the run is recovered.
    pub async fn leave(&self, share: Share, keep: bool) {
        match (&share.namespace, keep) {
            (_, true) => self.kept.lock().unwrap_or_else(PoisonError::into_inner).push(share.folder),
            // Errors are ignored because the control plane ends soon.
            (Some(namespace), false) => drop(plane::drop_namespace(&share.folder, namespace).await),
            (None, false) => {
                let _ = tokio::task::spawn_blocking(move || dispose_of(&share.folder)).await;
            }
        }
    }

    /// Ends all control planes that are not kept.
    pub async fn end(&self) {
        let kept = std::mem::take(&mut *self.kept.lock().unwrap_or_else(PoisonError::into_inner));
        let folder = self.folder.clone();
        let end = move || {
            folders(&folder).iter().filter(|folder| !kept.contains(folder)).for_each(|folder| dispose_of(folder));
            // Succeeds only if no control plane is left.
            let _ = fs::remove_dir(&folder);
        };
        let _ = tokio::task::spawn_blocking(end).await;
    }
}

impl Share {
    /// Restores a share from a journal, if the eval still requests one.
    pub fn restored(plan: &EvalPlan, past: &TaskPast) -> Option<Self> {
        plan.world?;
        let process = &past.values.as_ref()?.process;
        let env =
            KubeWorld::VARIABLES.into_iter().filter_map(|name| Some((name.to_owned(), process.get(name)?.clone())));
        let env: Vec<_> = env.collect();
        (!env.is_empty()).then(|| Self { folder: PathBuf::new(), namespace: None, env })
    }

    /// The host for the run of the task.
    pub fn host<'h>(&self, host: &'h dyn Host) -> WithEnv<'h> {
        WithEnv::new(host, self.env.clone())
    }
}

/// A readable name that no other run of a task has.
fn name(task: &TaskRun) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let word: String = task.name.chars().take(40).map(plain).collect();
    let word = word.trim_matches('-');
    format!("task-{word}{}{}", if word.is_empty() { "" } else { "-" }, crate::random::word())
}

async fn up(folder: PathBuf) -> Result<(), String> {
    let start = move || plane::up(&folder).map(drop).map_err(|why| format!("no control plane: {why}"));
    tokio::task::spawn_blocking(start).await.unwrap_or_else(|e| Err(e.to_string()))
}

fn folders(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}

fn dispose_of(folder: &Path) {
    // If the control plane does not end, its directory stays so that it can be found.
    if plane::down(folder).is_ok() {
        let _ = fs::remove_dir_all(folder);
    }
}

fn dispose_in(folder: &Path) {
    folders(folder).iter().for_each(|folder| dispose_of(folder));
    let _ = fs::remove_dir(folder);
}

/// Whether control planes can be started.
///
/// # Errors
/// What is missing.
pub fn startable() -> Result<(), String> {
    plane::startable()
}

/// Starts those control planes of a dead run that are no longer running.
///
/// # Errors
/// The control planes that did not start.
pub fn revive(run: &Path) -> Result<(), String> {
    let stopped = folders(&run.join(FOLDER)).into_iter().filter(|folder| !plane::is_up(folder));
    let started = stopped.map(|folder| plane::down(&folder).and_then(|_| plane::up(&folder)));
    let faults: Vec<_> = started.filter_map(Result::err).collect();
    if faults.is_empty() { Ok(()) } else { Err(faults.join("; ")) }
}

/// Stops the control planes of a run; their data stays for another recovery.
pub fn stop(run: &Path) {
    for folder in folders(&run.join(FOLDER)) {
        let _ = plane::down(&folder);
    }
}

/// Ends the control planes of a run and removes their data.
pub fn dispose(run: &Path) {
    dispose_in(&run.join(FOLDER));
}
