//! The extensions of an eval for `lock`, `ext` and `run`: they are downloaded, asked for their operations, and pinned.

use std::path::Path;

use indexmap::{IndexMap, IndexSet};

use super::note;
use crate::{
    Compiled, compile,
    extension::Extensions,
    fetch::{self, Cache, Fetched, Trust, git, installed},
    host::{RealHost, disk::Disk},
    lock::{Lock, LockedExtension, LockedRelease, LockedSource},
    package::{Package, package},
    plan::EvalPlan,
    project::{EvalUnit, TaskUnit, references, repository},
    source::{Files, resolve},
    yaml,
};

/// The tasks of an eval.
pub(super) fn of_tasks<'a>(compiled: &'a Compiled, unit: &EvalUnit) -> Vec<&'a TaskUnit> {
    unit.selected.iter().map(|s| &*compiled.project.tasks[s.task]).collect()
}

/// The lock at a path. It is empty if the file is missing or cannot be read, because it will be rewritten.
pub(super) fn read(path: &Path) -> Lock {
    let text = Disk.read(path).ok();
    text.and_then(|bytes| Lock::parse(&String::from_utf8_lossy(&bytes)).ok()).unwrap_or_default()
}

/// The lock with what was found. Entries of other evals are kept.
pub(super) fn merged(old: &Lock, found: Extended) -> Lock {
    let mut lock = Lock { version: 1, ..old.clone() };
    lock.extensions.extend(found.extensions);
    for (name, release) in found.releases {
        let previous = match old.releases.get(&name) {
            Some(old) if old.tag != release.tag || old.files != release.files => {
                Some(Box::new(LockedRelease { previous: None, ..old.clone() }))
            }
            Some(old) => old.previous.clone(),
            None => None,
        };
        lock.releases.insert(name, LockedRelease { previous, ..release });
    }
    lock
}

/// The lock as text.
pub(super) fn text(lock: &Lock) -> Result<String, String> {
    yaml::write(lock).map_err(|e| e.to_string())
}

/// What was found out about the extensions of an eval.
#[derive(Default)]
pub(super) struct Extended {
    pub extensions: IndexMap<String, LockedExtension>,
    pub releases: IndexMap<String, LockedRelease>,
    /// Remarks for the user.
    pub remarks: Vec<String>,
}

/// Fetches the repositories of an eval's task sets. A repository that the lock pins stays at its commit unless `update`
/// is set.
pub(super) fn find_sources(
    unit: &EvalUnit,
    old: &Lock,
    dir: &Path,
    update: bool,
) -> Result<IndexMap<String, LockedSource>, Vec<String>> {
    let mut found = IndexMap::new();
    let Some(eval) = unit.eval.as_ref().filter(|eval| !eval.sources.is_empty()) else { return Ok(found) };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| vec![format!("cannot start: {error}")])?;
    let host = RealHost::new();
    let mut faults = Vec::new();
    for source in &eval.sources {
        let (Some(key), Some(repo), Some(reference)) =
            (repository::reference(source), source.repo.as_ref(), source.reference.as_ref())
        else {
            continue;
        };
        let pinned = old.sources.get(&key).filter(|_| !update);
        let got = runtime.block_on(async {
            let url = git::repository(&host, &repo.value, &eval.dir)?;
            let commit = match pinned {
                Some(pinned) => pinned.commit.clone(),
                None => git::commit(&url, &reference.value).await?,
            };
            let folder = dir.join(repository::folder(&key, &commit));
            let digest = |folder: &Path| repository::digest(folder, &Disk);
            let whole = Disk.stat(&folder).is_some()
                && pinned.is_some_and(|pinned| digest(&folder).is_ok_and(|now| now == pinned.sha256));
            if !whole {
                note(&format!("fetching {key}"));
                git::checkout(&url, &reference.value, &commit, &folder).await?;
            }
            let sha256 = digest(&folder)?;
            match pinned {
                Some(pinned) if pinned.sha256 != sha256 => Err(format!(
                    "the commit {commit} differs from the lock: its digest is {sha256}, but the lock has {}",
                    pinned.sha256
                )),
                _ => Ok(LockedSource { commit, sha256 }),
            }
        });
        match got {
            Ok(locked) => drop(found.insert(key, locked)),
            Err(why) => faults.push(format!("the source `{}`: {why}", source.name.value)),
        }
    }
    if faults.is_empty() { Ok(found) } else { Err(faults) }
}

/// Asks the extensions of an eval for their operations, and downloads those that are releases. A release that the lock
/// pins stays the same unless `update` says otherwise.
pub(super) fn find(
    unit: &EvalUnit,
    tasks: &[&TaskUnit],
    old: &Lock,
    update: &dyn Fn(&str) -> bool,
) -> Result<Extended, Vec<String>> {
    let Some(eval) = &unit.eval else { return Ok(Extended::default()) };
    let mut found = Extended::default();
    let mut faults = Vec::new();
    let substitute = eval.extension_options.substitute;
    let references = references(eval, tasks.iter().copied());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| vec![format!("cannot start: {error}")])?;
    let host = RealHost::new();
    let cache = eval.extension_options.cache_dir.as_ref().map(|dir| resolve(&eval.dir, &dir.value));
    for name in references.iter().map(|reference| reference.package).collect::<IndexSet<_>>() {
        let release = match package(name, substitute) {
            Ok(Package::Release { owner, repo, version }) => (owner, repo, version),
            Ok(_) => continue,
            Err(why) => {
                faults.push(format!("`{name}` {why}"));
                continue;
            }
        };
        let pinned = old.releases.get(name).filter(|_| !update(name));
        match runtime.block_on(download(&host, cache.as_deref(), name, &release, pinned)) {
            Ok(fetched) => {
                let signed = if fetched.signed { "; its signature was not verified" } else { "" };
                if fetched.trust != Trust::Locked {
                    found.remarks.push(format!("{name} is {}: {}{signed}", fetched.locked.tag, fetched.trust.words()));
                }
                found.releases.insert(name.to_owned(), fetched.locked);
            }
            Err(why) => faults.push(format!("`{name}`: {why}")),
        }
    }
    if !faults.is_empty() {
        return Err(faults);
    }
    let lock = Lock { releases: found.releases.clone(), ..Lock::default() };
    let planned = compile::extensions(eval, &lock);
    let extensions = Extensions::new(&host, &planned, std::env::current_exe().ok());
    for reference in &references {
        let name = reference.alias.unwrap_or(reference.package);
        let bundled = matches!(package(reference.package, substitute), Ok(Package::Bundled(_)));
        if bundled || found.extensions.contains_key(name) {
            continue;
        }
        match runtime.block_on(extensions.describe(name, reference.dir)) {
            Ok(locked) => drop(found.extensions.insert(name.to_owned(), locked)),
            Err(why) => faults.push(why),
        }
    }
    if faults.is_empty() { Ok(found) } else { Err(faults) }
}

/// Downloads a release into the cache if it is missing.
pub(super) async fn download(
    host: &RealHost,
    cache: Option<&Path>,
    name: &str,
    (owner, repo, version): &(String, String, String),
    pinned: Option<&LockedRelease>,
) -> Result<Fetched, String> {
    let cache = Cache::new(cache)?;
    let tag = match pinned {
        Some(pinned) => pinned.tag.clone(),
        None => fetch::resolve(host, owner, repo, version).await?,
    };
    if pinned.is_none_or(|pinned| installed(&cache, owner, repo, pinned).is_err()) {
        note(&format!("downloading {name}"));
    }
    fetch::fetch(host, &cache, (owner, repo), &tag, pinned).await
}

/// Downloads what the lock pins for the tasks of an eval and the cache does not have.
///
/// # Errors
/// What cannot be downloaded, or differs from the lock.
pub(super) async fn ensure(plan: &EvalPlan, host: &RealHost) -> Result<(), Vec<String>> {
    let mut faults = Vec::new();
    for name in crate::plan::reach::extensions(plan).into_values().collect::<IndexSet<_>>() {
        let planned = &plan.extensions;
        let Ok(Package::Release { owner, repo, .. }) = package(&name, planned.substitute) else { continue };
        let Some(pinned) = planned.releases.get(&name) else { continue };
        let got = async {
            let cache = Cache::new(planned.cache.as_deref())?;
            if installed(&cache, &owner, &repo, pinned).is_err() {
                note(&format!("downloading {name}"));
                fetch::fetch(host, &cache, (&owner, &repo), &pinned.tag, Some(pinned)).await?;
            }
            Ok::<(), String>(())
        };
        if let Err(why) = got.await {
            faults.push(format!("the extension `{name}`: {why}"));
        }
    }
    if faults.is_empty() { Ok(()) } else { Err(faults) }
}
