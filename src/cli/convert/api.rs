//! `--prove-on`: runs originals and conversions on a real Kubernetes API.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use super::{Fault, Outcome, refuted};
use crate::{
    Compiled,
    builtin::count,
    cli::{note, overlay::Edited, status, warn},
    compile,
    prove::{
        Allowance,
        api::{self, Pair, Place},
    },
    source::{Files, Sources, Stat, normalize},
};

/// How many scripts that belong to no task are named.
const SHOWN: usize = 3;

/// Runs what the sandbox has not refuted, and records the results.
pub fn prove(
    outcomes: &mut [Outcome],
    place: &str,
    solutions: Option<&Path>,
    compiled: &Compiled,
    files: &dyn Files,
) -> Result<(), Fault> {
    let scripts = solutions.map_or(Ok(BTreeMap::new()), |dir| scripts(dir, files))?;
    let texts: BTreeMap<PathBuf, Vec<u8>> = outcomes
        .iter()
        .filter_map(|o| Some((normalize(&o.path), o.result.as_ref().ok()?.text.clone().into_bytes())))
        .collect();
    let paths: Vec<PathBuf> = texts.keys().cloned().collect();
    let again = compile(&paths, &Sources::default(), &Edited { under: files, texts: &texts });
    let plan = |compiled: &Compiled, path: &Path| {
        let at = compiled.project.tasks.iter().position(|unit| normalize(&unit.path) == normalize(path))?;
        compiled.tasks.get(at)?.as_deref().cloned()
    };
    let mut pairs = Vec::new();
    let mut of = Vec::new();
    for (index, outcome) in outcomes.iter().enumerate() {
        let Ok(new) = &outcome.result else { continue };
        if refuted(outcome) {
            continue;
        }
        let (Some(old), Some(converted)) = (plan(compiled, &outcome.path), plan(&again, &outcome.path)) else {
            continue;
        };
        let solution = scripts.get(&outcome.name).cloned();
        of.push(index);
        pairs.push(Pair { old, new: converted, solution, allow: Allowance::of(new) });
    }
    let names: BTreeSet<&String> = outcomes.iter().map(|outcome| &outcome.name).collect();
    let others: Vec<String> =
        scripts.keys().filter(|name| !names.contains(name)).map(|name| format!("`{name}`")).collect();
    if let Some(dir) = solutions.filter(|_| !others.is_empty()) {
        let (what, more) = (count(others.len(), "script is", "scripts are"), others.len().saturating_sub(SHOWN));
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let shown = others.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
        warn(&format!("in `{}`, {what} not named after any task here: {shown}{more}", dir.display()));
    }
    if pairs.is_empty() {
        return Ok(());
    }
    let broken = |why: String| (status::BROKEN, why);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| broken(format!("cannot start: {error}")))?;
    let proof = runtime.block_on(api::on_api(&Place::of(place), &pairs, &note)).map_err(|fault| match fault {
        api::Fault::Usage(why) => (status::USAGE, why),
        api::Fault::Broken(why) => broken(why),
        api::Fault::Interrupted(signal) => (
            signal.exit(),
            format!("{}: deleting what the tasks created on the API; nothing is written", signal.name()),
        ),
    })?;
    for (index, on_api) in of.into_iter().zip(proof.tasks) {
        outcomes[index].on_api = Some(on_api);
    }
    for what in proof.left {
        note(&format!("left behind on the real API: {what}"));
    }
    Ok(())
}

/// The scripts of a directory, by their names without `.sh`.
fn scripts(dir: &Path, files: &dyn Files) -> Result<BTreeMap<String, PathBuf>, Fault> {
    if files.stat(dir) != Some(Stat::Dir) {
        return Err((status::USAGE, format!("`{}` is not a directory of solutions", dir.display())));
    }
    let dir = std::path::absolute(dir).map_or_else(|_| dir.to_owned(), |dir| normalize(&dir));
    if dir.display().to_string().contains("{{") {
        return Err((
            status::USAGE,
            format!("`{}` contains `{{{{`, which is not possible in the command of an agent", dir.display()),
        ));
    }
    let names = files.entries(&dir);
    let scripts = names.iter().filter(|(_, is_dir)| !is_dir);
    Ok(scripts.filter_map(|(name, _)| Some((name.strip_suffix(".sh")?.to_owned(), dir.join(name)))).collect())
}
