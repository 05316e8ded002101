//! A pack: an eval with all its files in one archive. Any machine can run all of it or one unit of it.
//!
//! It is a tar archive, compressed with zstd: `manifest.json`, then the files of the project under `files/`, sorted. It
//! contains no times, no owners and no order that depends on the file system. Property: *the same input results in the
//! same bytes.*

use std::{
    collections::BTreeMap,
    io::{self, Read},
};

use indexmap::{IndexMap, IndexSet};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::{diagnostic::visible, ty::canonical};

/// Format version of packs; newer ones are refused.
pub const VERSION: u32 = 1;
/// File extension of packs.
pub const ENDING: &str = "gevals";
/// Maximum size of an unpacked pack, in bytes.
pub const MOST_BYTES: u64 = 512 << 20;
/// Maximum number of files in a pack.
pub const MOST_FILES: usize = 100_000;
/// Maximum size of the manifest, in bytes.
const MOST_MANIFEST: u64 = 128 << 20;
/// Maximum length of a path in bytes, and maximum number of units in a pack.
const MOST_PATH: usize = 1024;
const MOST_UNITS: usize = 1_000_000;
const MANIFEST: &str = "manifest.json";
const FOLDER: &str = "files/";
/// The first bytes of zstd data.
const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// The manifest of a pack.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Manifest {
    pub version: u32,
    /// The version of gevals that made the pack.
    pub gevals: String,
    /// SHA-256 of the canonical JSON of everything else in the manifest, including the digests of the files.
    pub digest: String,
    /// The path of the eval file, and the name of the eval.
    pub eval: String,
    pub name: String,
    pub settings: Settings,
    /// Each one is a run of the eval with its own results.
    pub combinations: Vec<Combination>,
    /// In the order of the plan.
    pub tasks: Vec<PackedTask>,
    /// What a unit requires that is not in the pack, and that must exist where the unit runs.
    pub needs: Vec<Need>,
    /// By path, relative to the directory of the project.
    pub files: IndexMap<String, PackedFile>,
}

/// Options of `gevals pack` that apply to all runs.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Settings {
    /// How often to run each task, instead of the number that the task specifies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runs: Option<u32>,
    /// The MCP config, instead of the one that the eval specifies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mcp_config: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub strict: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub allow_unchecked: bool,
}

/// An agent and a model.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Combination {
    /// As for `gevals run --agent` and `--model`; absent for those of the eval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Digest of the eval's plan with this agent and model.
    pub plan_digest: String,
}

/// A task of the plan.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PackedTask {
    pub name: String,
    pub path: String,
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub labels: IndexMap<String, String>,
    pub runs: u32,
    /// Maximum duration of a run, in seconds.
    pub at_most_seconds: u64,
}

/// A requirement that is not in the pack.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Need {
    /// `agent`, `cluster`, `command`, `extension`, `path`, `server` or `variable`.
    pub kind: String,
    pub name: String,
}

/// A file of the project.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PackedFile {
    pub sha256: String,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub executable: bool,
}

/// File contents by path, and whether each file is executable.
pub type Contents = BTreeMap<String, (Vec<u8>, bool)>;

/// One run of one task with one agent and one model.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Unit<'m> {
    /// Suitable for names of files, objects and jobs: lowercase letters, digits and hyphens, at most 50 characters.
    pub id: String,
    pub task: &'m str,
    pub path: &'m str,
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    pub labels: &'m IndexMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<&'m str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<&'m str>,
    /// From 1.
    pub run: u32,
    pub runs: u32,
    pub at_most_seconds: u64,
    /// The indexes of its combination and its task in the manifest.
    #[serde(skip)]
    pub at: (usize, usize),
}

impl Manifest {
    /// Returns all units in order: all tasks of a combination, then those of the next one.
    ///
    /// The ID of a unit depends only on the names of the eval, the task and its file, and on agent, model and run.
    pub fn units(&self) -> Vec<Unit<'_>> {
        let mut units = Vec::new();
        for (of, combination) in self.combinations.iter().enumerate() {
            for (place, task) in self.tasks.iter().enumerate() {
                units.extend((1..=task.runs).map(|run| Unit {
                    id: id(&self.name, task, combination, run),
                    task: &task.name,
                    path: &task.path,
                    labels: &task.labels,
                    agent: combination.agent.as_deref(),
                    model: combination.model.as_deref(),
                    run,
                    runs: task.runs,
                    at_most_seconds: task.at_most_seconds,
                    at: (of, place),
                }));
            }
        }
        units
    }

    /// Returns the manifest with its digest set.
    pub fn sealed(mut self) -> Self {
        self.digest = self.digested();
        self
    }

    fn digested(&self) -> String {
        canonical::digest(&Self { digest: String::new(), ..self.clone() })
    }

    /// Returns why this cannot be a manifest that `gevals pack` wrote, if so.
    fn fault(&self) -> Option<String> {
        let units: u64 =
            self.tasks.iter().map(|task| u64::from(task.runs)).sum::<u64>() * self.combinations.len() as u64;
        if self.digested() != self.digest {
            return Some("its digest does not match: it was damaged or changed".to_owned());
        }
        if semver::Version::parse(&self.gevals).is_err() {
            return Some(format!("it was packed by gevals `{}`, which is not a version", visible(&self.gevals)));
        }
        if units > MOST_UNITS as u64 {
            return Some(format!("it has {units} units, but the limit is {MOST_UNITS}"));
        }
        if !self.files.contains_key(&self.eval) {
            return Some(format!("its eval `{}` is not in it", visible(&self.eval)));
        }
        let ids: IndexSet<String> = self.units().into_iter().map(|unit| unit.id).collect();
        (ids.len() as u64 != units).then(|| "two of its units have the same id".to_owned())
    }
}

fn id(eval: &str, task: &PackedTask, of: &Combination, run: u32) -> String {
    const SLUG: usize = 30;
    let whole = canonical::canonical(&(eval, &task.name, &task.path, &of.agent, &of.model, run));
    let mut slug = String::new();
    for c in task.name.chars() {
        match c.to_ascii_lowercase() {
            c if c.is_ascii_alphanumeric() && slug.len() < SLUG => slug.push(c),
            _ if !slug.is_empty() && !slug.ends_with('-') && slug.len() < SLUG => slug.push('-'),
            _ => {}
        }
    }
    let slug = if slug.starts_with(|c: char| c.is_ascii_alphabetic()) { slug } else { format!("t-{slug}") };
    let hash = hex::encode(Sha256::digest(whole));
    format!("{}-{run}-{}", slug.trim_end_matches('-'), &hash[..10])
}

/// Returns the manifest's entries for these files.
pub fn listed(files: &Contents) -> IndexMap<String, PackedFile> {
    let file = |(path, (bytes, executable)): (&String, &(Vec<u8>, bool))| {
        (path.clone(), PackedFile { sha256: hex::encode(Sha256::digest(bytes)), executable: *executable })
    };
    files.iter().map(file).collect()
}

/// Returns why these files do not fit into a pack, if so.
pub fn too_much(files: &Contents) -> Option<String> {
    let bytes: u64 = files.values().map(|(bytes, _)| bytes.len() as u64).sum();
    let long = files.keys().find(|path| path.len() > MOST_PATH);
    match (bytes > MOST_BYTES, files.len() > MOST_FILES, long) {
        (true, ..) => Some(format!("{} MiB of files, but a pack may contain {} MiB", bytes >> 20, MOST_BYTES >> 20)),
        (_, true, _) => Some(format!("{} files, but a pack may contain {MOST_FILES}", files.len())),
        (.., Some(path)) => Some(format!("a path of {} bytes, but the limit in a pack is {MOST_PATH}", path.len())),
        _ => None,
    }
}

/// Writes the archive.
///
/// # Errors
/// A path cannot be stored in an archive.
pub fn write(manifest: &Manifest, files: &Contents) -> io::Result<Vec<u8>> {
    const LEVEL: i32 = 3;
    let mut tar = tar::Builder::new(zstd::Encoder::new(Vec::new(), LEVEL)?);
    let mut add = |path: &str, bytes: &[u8], executable: bool| {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(if executable { 0o755 } else { 0o644 });
        header.set_mtime(0);
        header.set_entry_type(tar::EntryType::Regular);
        tar.append_data(&mut header, path, bytes)
    };
    add(MANIFEST, &serde_json::to_vec_pretty(manifest)?, false)?;
    for (path, (bytes, executable)) in files {
        add(&format!("{FOLDER}{path}"), bytes, *executable)?;
    }
    tar.into_inner()?.finish()
}

/// Whether these first bytes may be those of a pack.
pub fn looks_like(first: &[u8]) -> bool {
    first.starts_with(&MAGIC)
}

/// Reads an archive of unknown origin. The result contains exactly what the manifest lists.
///
/// # Errors
/// A message for people: the archive is damaged, contains what no pack contains, or exceeds a limit.
pub fn read(bytes: &[u8]) -> Result<(Manifest, Contents), String> {
    if !looks_like(bytes) {
        return Err("it is not a pack: create one with `gevals pack EVAL -o SUITE.gevals`".to_owned());
    }
    let bad = |error: io::Error| format!("it is not a complete pack: {error}");
    // The tar reader reads the names of entries before they are requested, so the total size is limited here.
    let all = zstd::Decoder::with_buffer(bytes).map_err(bad)?.take(MOST_BYTES + MOST_MANIFEST * 2);
    let mut tar = tar::Archive::new(all);
    let mut manifest: Option<Manifest> = None;
    let mut files = Contents::new();
    let mut total = 0;
    for entry in tar.entries().map_err(bad)? {
        let mut entry = entry.map_err(bad)?;
        let path = String::from_utf8(entry.path_bytes().into_owned());
        let path = path.map_err(|_| "the name of a file in it is not valid UTF-8".to_owned())?;
        let shown = visible(&path).into_owned();
        if entry.header().entry_type() != tar::EntryType::Regular {
            return Err(format!(
                "`{shown}` in it is not a regular file: packs contain no links, directories or devices"
            ));
        }
        let size = entry.size();
        let mut content = |most: u64| {
            if size > most {
                return Err(format!("`{shown}` in it has {} MiB, which is more than a pack may contain", size >> 20));
            }
            let mut content = Vec::with_capacity(size.min(1 << 20) as usize);
            entry.read_to_end(&mut content).map_err(bad)?;
            if content.len() as u64 != size { Err(format!("`{shown}` in it is truncated")) } else { Ok(content) }
        };
        let Some(known) = &manifest else {
            if path != MANIFEST {
                return Err(format!("it does not start with `{MANIFEST}`"));
            }
            manifest = Some(understood(&content(MOST_MANIFEST)?)?);
            continue;
        };
        let Some(name) = path.strip_prefix(FOLDER).filter(|name| is_plain(name)) else {
            return Err(format!("`{shown}` in it leads outside the pack"));
        };
        if files.contains_key(name) {
            return Err(format!("it contains `{shown}` twice"));
        }
        let Some(listed) = known.files.get(name) else {
            return Err(format!("it contains `{shown}`, which its manifest does not list"));
        };
        total += size;
        if total > MOST_BYTES {
            return Err(format!("it contains more than {} MiB", MOST_BYTES >> 20));
        }
        let content = content(MOST_BYTES)?;
        if hex::encode(Sha256::digest(&content)) != listed.sha256 {
            return Err(format!("`{shown}` in it does not match its manifest: it was damaged or changed"));
        }
        files.insert(name.to_owned(), (content, listed.executable));
    }
    let manifest = manifest.ok_or("it is empty")?;
    match manifest.files.keys().find(|path| !files.contains_key(*path)) {
        Some(path) => Err(format!("it does not contain `{}`, which its manifest lists", visible(path))),
        None => Ok((manifest, files)),
    }
}

fn understood(text: &[u8]) -> Result<Manifest, String> {
    #[derive(Deserialize)]
    struct Version {
        version: u32,
    }
    let wrong = |error: serde_json::Error| format!("its `{MANIFEST}` cannot be read: {error}");
    let Version { version } = serde_json::from_slice(text).map_err(wrong)?;
    if version > VERSION {
        return Err(format!("it has version {version}, but this gevals supports up to {VERSION}: use a newer gevals"));
    }
    let manifest: Manifest = serde_json::from_slice(text).map_err(wrong)?;
    if manifest.files.len() > MOST_FILES {
        return Err(format!("it lists {} files, but a pack may contain {MOST_FILES}", manifest.files.len()));
    }
    manifest.fault().map_or(Ok(manifest), Err)
}

/// Whether a path stays below the directory where it is unpacked, and has only one spelling.
pub fn is_plain(path: &str) -> bool {
    path.len() <= MOST_PATH
        && !path.contains('\\')
        && !path.chars().any(char::is_control)
        && path.split('/').all(|part| !matches!(part, "" | "." | ".."))
}

#[cfg(test)]
pub mod tests {
    use super::*;

    fn files() -> Contents {
        let long = format!("{}/deep.sh", "d".repeat(150));
        [("eval.yaml".to_owned(), (b"kind: Eval\n".to_vec(), false)), (long, (b"#!/bin/sh\n".to_vec(), true))].into()
    }

    fn manifest(files: &Contents) -> Manifest {
        Manifest {
            version: VERSION,
            gevals: "0.1.0".to_owned(),
            digest: String::new(),
            eval: "eval.yaml".to_owned(),
            name: "e".to_owned(),
            settings: Settings::default(),
            combinations: vec![Combination { agent: None, model: None, plan_digest: "sha256:0".to_owned() }],
            tasks: vec![PackedTask {
                name: "Größer, 2 <&>".to_owned(),
                path: "t.yaml".to_owned(),
                labels: IndexMap::new(),
                runs: 2,
                at_most_seconds: 60,
            }],
            needs: Vec::new(),
            files: listed(files),
        }
        .sealed()
    }

    pub type Entries<'e> = &'e [(&'e str, &'e [u8], tar::EntryType)];

    /// Builds a tar archive of arbitrary entries.
    pub fn tar_of(entries: Entries<'_>) -> Vec<u8> {
        let mut tar = tar::Builder::new(Vec::new());
        for (path, bytes, kind) in entries {
            let mut header = tar::Header::new_gnu();
            let name = &mut header.as_gnu_mut().unwrap().name;
            name[..path.len()].copy_from_slice(path.as_bytes());
            header.set_size(bytes.len() as u64);
            header.set_mode(0o644);
            header.set_entry_type(*kind);
            if matches!(kind, tar::EntryType::Symlink | tar::EntryType::Link) {
                header.set_size(0);
                header.set_link_name("/etc/passwd").unwrap();
            }
            header.set_cksum();
            tar.append(&header, *bytes).unwrap();
        }
        tar.into_inner().unwrap()
    }

    fn archive(entries: Entries<'_>) -> Vec<u8> {
        zstd::encode_all(tar_of(entries).as_slice(), 1).unwrap()
    }

    #[test]
    fn packs_round_trip() {
        let files = files();
        let manifest = manifest(&files);
        let bytes = write(&manifest, &files).unwrap();
        assert_eq!(read(&bytes).unwrap(), (manifest.clone(), files.clone()));
        assert_eq!(write(&manifest, &files).unwrap(), bytes);
        let ids: Vec<_> = manifest.units().into_iter().map(|unit| unit.id).collect();
        assert!(ids[0].starts_with("gr-er-2-1-") && ids[1].starts_with("gr-er-2-2-"), "{ids:?}");
        assert!(ids.iter().all(|id| id.len() <= 50));
    }

    /// Every flipped byte and every truncation is detected, or has no effect.
    #[test]
    fn damage_is_detected() {
        let files = files();
        let bytes = write(&manifest(&files), &files).unwrap();
        let whole = read(&bytes).unwrap();
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x55;
            assert!(!read(&damaged).is_ok_and(|read| read != whole), "byte {at}");
            assert!(!read(&bytes[..at]).is_ok_and(|read| read != whole), "cut at {at}");
        }
    }

    #[test]
    fn hostile_archives_are_rejected() {
        use tar::EntryType::{Block, Directory, Link, Regular, Symlink};
        let files: Contents = [("eval.yaml".to_owned(), (b"kind: Eval\n".to_vec(), false))].into();
        let own = manifest(&files);
        let json = |manifest: &Manifest| serde_json::to_vec(manifest).unwrap();
        let first = json(&own);
        let eval: (&str, &[u8], _) = ("files/eval.yaml", b"kind: Eval\n", Regular);
        let head: (&str, &[u8], _) = ("manifest.json", &first, Regular);
        assert!(read(&archive(&[head, eval])).is_ok());
        let refused = |entries: &[(&str, &[u8], tar::EntryType)], why: &str| {
            let told = read(&archive(entries)).unwrap_err();
            assert!(told.contains(why), "`{told}` does not say `{why}`");
        };
        refused(&[], "it is empty");
        refused(&[eval, head], "does not start with `manifest.json`");
        refused(&[head], "it does not contain `eval.yaml`");
        refused(&[head, eval, eval], "it contains `files/eval.yaml` twice");
        refused(&[head, eval, ("files/more", b"", Regular)], "does not list");
        refused(&[head, ("files/eval.yaml", b"kind: Evil\n", Regular)], "does not match its manifest");
        for path in
            ["../x", "/etc/x", "files/../../x", "files//x", "files/./x", "files/a\\b", "files/\u{1b}[2J", "eval.yaml"]
        {
            refused(&[head, eval, (path, b"", Regular)], "leads outside the pack");
        }
        for kind in [Symlink, Link, Directory, Block] {
            refused(&[head, ("files/eval.yaml", b"", kind)], "is not a regular file");
        }
        // Listing an escaping path in the manifest does not make it acceptable.
        let outside: Contents = [("../x".to_owned(), (Vec::new(), false))].into_iter().chain(files.clone()).collect();
        let lists = json(&manifest(&outside));
        refused(&[("manifest.json", &lists, Regular), ("files/../x", b"", Regular)], "leads outside the pack");
        let changed = json(&Manifest { name: "other".to_owned(), ..own.clone() });
        refused(&[("manifest.json", &changed, Regular), eval], "digest does not match");
        let newer = json(&Manifest { version: VERSION + 1, ..own.clone() }.sealed());
        refused(&[("manifest.json", &newer, Regular), eval], "use a newer gevals");
        let mut many = own.clone();
        many.tasks[0].runs = u32::MAX;
        refused(&[("manifest.json", &json(&many.sealed()), Regular), eval], "units, but the limit is");
        refused(&[("manifest.json", b"{}", Regular)], "cannot be read");
        let told = read(b"PK\x03\x04").unwrap_err();
        assert!(told.contains("it is not a pack"), "{told}");
    }

    /// A gigabyte of zeros compresses to a few kilobytes.
    #[test]
    fn a_decompression_bomb_is_rejected_before_it_is_unpacked() {
        let files: Contents = [("eval.yaml".to_owned(), (b"kind: Eval\n".to_vec(), false))].into();
        let mut own = manifest(&files);
        own.files.insert("bomb".to_owned(), PackedFile { sha256: String::new(), executable: false });
        let mut tar = tar::Builder::new(zstd::Encoder::new(Vec::new(), 1).unwrap());
        let mut add = |path: &str, size: u64, bytes: &mut dyn Read| {
            let mut header = tar::Header::new_gnu();
            header.set_size(size);
            header.set_entry_type(tar::EntryType::Regular);
            tar.append_data(&mut header, path, bytes).unwrap();
        };
        let first = serde_json::to_vec(&own.sealed()).unwrap();
        add("manifest.json", first.len() as u64, &mut first.as_slice());
        let size = MOST_BYTES + 1;
        add("files/bomb", size, &mut io::repeat(0).take(size));
        let bytes = tar.into_inner().unwrap().finish().unwrap();
        assert!(bytes.len() < 1 << 20, "{}", bytes.len());
        assert_eq!(read(&bytes).unwrap_err(), format!("it contains more than {} MiB", MOST_BYTES >> 20));
    }
}
