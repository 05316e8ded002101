//! Packs on the command line, and the results that are expected for them.

use std::{
    fs,
    io::Read,
    path::{Path, PathBuf},
};

use super::{combination::Combination, shown, status};
use crate::{
    host::disk::Disk,
    pack::{self, Contents, Manifest},
    report::results_path,
    results::merge::{Expected, ExpectedUnit},
    source::Files,
};

/// Whether a path names a pack, valid or not.
pub fn is_pack(path: &Path) -> bool {
    if path.extension().is_some_and(|ending| ending == pack::ENDING) {
        return path.is_file();
    }
    let mut first = [0; 4];
    let read = path.is_file() && fs::File::open(path).and_then(|mut file| file.read_exact(&mut first)).is_ok();
    read && pack::looks_like(&first)
}

/// Reads a pack.
///
/// # Errors
/// It is not a pack, or it must not be used.
pub fn read(path: &Path) -> Result<(Manifest, Contents), (u8, String)> {
    let fault = |why: String| (status::USAGE, format!("cannot use the pack `{}`: {why}", shown(path)));
    let bytes = Disk.read(path).map_err(|why| fault(why.to_string()))?;
    pack::read(&bytes).map_err(fault)
}

/// The results that are expected for a pack, by combination.
pub fn expected(manifest: &Manifest) -> Vec<Expected> {
    let mut all: Vec<_> = manifest
        .combinations
        .iter()
        .map(|one| Expected { pack: manifest.digest.clone(), plan: one.plan_digest.clone(), units: Vec::new() })
        .collect();
    for unit in manifest.units() {
        all[unit.at.0].units.push(ExpectedUnit {
            id: unit.id,
            task: unit.task.to_owned(),
            path: unit.path.to_owned(),
            run: u64::from(unit.run),
        });
    }
    all
}

/// The path of the results of a combination in a directory, as `gevals run` writes them.
pub fn results_of(manifest: &Manifest, nth: usize, folder: &Path) -> PathBuf {
    let all: Vec<_> =
        manifest.combinations.iter().map(|one| Combination::new(one.agent.clone(), one.model.clone())).collect();
    let folder = all.get(nth).map_or_else(|| folder.to_owned(), |one| one.folder(nth, &all, folder));
    results_path(&folder, &manifest.name)
}
