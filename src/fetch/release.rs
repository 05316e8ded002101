//! Releases of extensions on GitHub, in both layouts: programs beside an `extension.yaml` (`portable-format.md`), and archives with
//! one program each (§7.2 of the upstream behavior).
#![expect(clippy::disallowed_methods, reason = "programs are kept in the cache, and looked for there")]

use std::{
    collections::HashSet,
    io::{Read, Write},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use indexmap::IndexMap;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::Cache;
use crate::{
    host::{Host, HttpRequest, HttpResponse, http::service_client},
    lock::LockedRelease,
};

/// The environment variable that names the server of the releases.
pub(super) const VARIABLE: &str = "GEVALS_GITHUB_URL";
pub(super) const GITHUB: &str = "https://github.com";
/// The largest size of one file, in bytes.
const LARGEST: usize = 512 << 20;
const PATIENCE: Duration = Duration::from_secs(300);
const MANIFEST: &str = "extension.yaml";
const CHECKSUMS: &str = "checksums.sha256";

/// What is known of the origin of a release's files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trust {
    /// The digests are those of the lock.
    Locked,
    /// The digests are those of `checksums.sha256` of the same release: trust on first use.
    Checksums,
    /// Only the server that sent the files vouches for them.
    Nothing,
}

impl Trust {
    /// A description for reports.
    pub fn words(self) -> &'static str {
        match self {
            Self::Locked => "its files match the lock",
            Self::Checksums => "its files match `checksums.sha256` of the same release: trust on first use",
            Self::Nothing => "it has no `checksums.sha256`: its files were not verified",
        }
    }
}

/// A release that is in the cache.
#[derive(Clone, Debug)]
pub struct Fetched {
    pub locked: LockedRelease,
    /// The directory with `extension.yaml` and its program, or the program of an archive.
    pub path: PathBuf,
    pub trust: Trust,
    /// Whether it has a signature, which is not verified.
    pub signed: bool,
}

/// This platform as part of file names, by the names that projects use for it.
fn platforms() -> Vec<String> {
    let arch = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let systems: &[&str] = match std::env::consts::OS {
        "macos" => &["darwin", "macos"],
        "windows" => &["windows"],
        other => &[other],
    };
    systems.iter().map(|system| format!("{system}-{arch}")).collect()
}

/// Whether a file name is that of a program for some platform.
fn is_program(file: &str, name: &str) -> bool {
    const SYSTEMS: [&str; 4] = ["linux", "darwin", "macos", "windows"];
    let rest = file.strip_prefix(name).and_then(|rest| rest.strip_prefix('-'));
    let platform = rest.map(|rest| rest.trim_end_matches(".zip").trim_end_matches(".exe"));
    let parts = platform.and_then(|platform| platform.split_once('-'));
    parts.is_some_and(|(system, arch)| {
        SYSTEMS.contains(&system) && !arch.is_empty() && arch.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    })
}

fn base(host: &dyn Host) -> String {
    let url = host.env(VARIABLE).filter(|url| !url.is_empty()).unwrap_or_else(|| GITHUB.to_owned());
    url.trim_end_matches('/').to_owned()
}

/// The tag of a version: for `latest` the server is asked, all other versions are tags.
///
/// # Errors
/// The server names no release.
pub async fn resolve(host: &dyn Host, owner: &str, repo: &str, version: &str) -> Result<String, String> {
    if version != "latest" {
        return Ok(version.to_owned());
    }
    let url = format!("{}/{owner}/{repo}/releases/latest", base(host));
    // The server redirects to the page of the newest release.
    let answer =
        service_client(&url).map_err(|fault| format!("{url}: {fault}"))?.get(&url).timeout(PATIENCE).send().await;
    let answer = answer.map_err(|e| format!("cannot query {url}: {}", e.without_url()))?;
    let location = answer.headers().get("location").and_then(|url| url.to_str().ok());
    let tag = location.and_then(|url| Some(url.split_once("/releases/tag/")?.1.to_owned()));
    tag.filter(|tag| !tag.is_empty()).ok_or_else(|| match answer.status().as_u16() {
        404 => format!("`{owner}/{repo}` has no release ({url} returns 404)"),
        status => format!("{url} returns {status} and names no release"),
    })
}

/// Downloads a release for this platform, unless it is in the cache, and checks each file: against the lock if it contains the file,
/// and against the checksums of the release if it has any.
///
/// # Errors
/// Why it is not available, or must not be used.
pub async fn fetch(
    host: &dyn Host,
    cache: &Cache,
    (owner, repo): (&str, &str),
    tag: &str,
    pinned: Option<&LockedRelease>,
) -> Result<Fetched, String> {
    let pinned = pinned.filter(|pinned| pinned.tag == tag);
    if let Some(pinned) = pinned
        && let Ok(path) = installed(cache, owner, repo, pinned)
    {
        return Ok(Fetched { locked: pinned.clone(), path, trust: Trust::Locked, signed: false });
    }
    let url = format!("{}/{owner}/{repo}/releases/download/{tag}", base(host));
    let get = async |file: &str| {
        let url = format!("{url}/{file}");
        let answer = host.http(request(&url)).await.map_err(|fault| format!("cannot download {url}: {fault}"))?;
        found(&url, answer)
    };
    let checksums = match get(CHECKSUMS).await? {
        Some(bytes) => Some(checksums(&String::from_utf8_lossy(&bytes))?),
        None => None,
    };
    let check = |file: &str, bytes: &[u8]| {
        let digest = hex::encode(Sha256::digest(bytes));
        if let Some(locked) = pinned.and_then(|pinned| pinned.files.get(file))
            && *locked != digest
        {
            return Err(format!(
                "`{file}` of {tag} differs from the lock: its digest is {digest}, but the lock has {locked}"
            ));
        }
        match &checksums {
            Some(known) => match known.get(file) {
                Some(listed) if *listed == digest => Ok(digest),
                Some(listed) => Err(format!(
                    "`{file}` of {tag} differs from its {CHECKSUMS}: its digest is {digest}, but {listed} is listed"
                )),
                None => Err(format!("`{file}` of {tag} is not listed in its {CHECKSUMS}")),
            },
            None => Ok(digest),
        }
    };
    let mut files: Vec<(String, Vec<u8>)> = Vec::new();
    let mut signed = false;
    let manifest = get(MANIFEST).await?;
    let name = match &manifest {
        Some(text) => name_of(text)?,
        None => repo.to_owned(),
    };
    let endings: &[&str] = if manifest.is_some() { &["", ".zip"] } else { &[".zip"] };
    let names: Vec<String> = platforms()
        .iter()
        .flat_map(|p| endings.iter().map(move |e| (p.clone(), *e)))
        .map(|(p, e)| format!("{name}-{p}{e}"))
        .collect();
    for file in &names {
        if let Some(bytes) = get(file).await? {
            signed = get(&format!("{file}.bundle")).await?.is_some();
            files.push((file.clone(), bytes));
            break;
        }
    }
    if files.is_empty() {
        let names = names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" or ");
        return Err(match manifest {
            Some(_) => format!("the release {tag} has no program for this machine: no {names}"),
            None => format!("there is no release {tag} with {MANIFEST} or {names} ({url})"),
        });
    }
    files.extend(manifest.map(|text| (MANIFEST.to_owned(), text)));
    let mut digests = IndexMap::new();
    for (file, bytes) in &files {
        digests.insert(file.clone(), check(file, bytes)?);
    }
    // One lock serves the machines of all its users.
    for (file, digest) in checksums.iter().flatten().filter(|(file, _)| is_program(file, &name)) {
        digests.entry(file.clone()).or_insert_with(|| digest.clone());
    }
    for (file, digest) in pinned.iter().flat_map(|pinned| &pinned.files) {
        digests.entry(file.clone()).or_insert_with(|| digest.clone());
    }
    digests.sort_keys();
    let trust = match (pinned, &checksums) {
        (Some(_), _) => Trust::Locked,
        (None, Some(_)) => Trust::Checksums,
        (None, None) => Trust::Nothing,
    };
    let locked = LockedRelease { tag: tag.to_owned(), files: digests, previous: None };
    let folder = cache.release(owner, repo, tag);
    let write = |folder: &Path| files.iter().try_for_each(|(file, bytes)| keep(folder, file, bytes));
    Cache::fill(&folder, write).map_err(|e| format!("cannot store it in {}: {e}", folder.display()))?;
    let path = installed(cache, owner, repo, &locked)?;
    Ok(Fetched { locked, path, trust, signed })
}

/// Writes a file of a release, and if it is an archive, its program.
fn keep(folder: &Path, file: &str, bytes: &[u8]) -> std::io::Result<()> {
    if let Some(program) = file.strip_suffix(".zip") {
        program_file(folder, program, &unpacked(bytes, program).map_err(std::io::Error::other)?)?;
    }
    match file {
        MANIFEST => std::fs::write(folder.join(file), bytes),
        _ => program_file(folder, file, bytes),
    }
}

fn program_file(folder: &Path, file: &str, bytes: &[u8]) -> std::io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, if file.ends_with(".zip") { 0o644 } else { 0o755 });
    options.open(folder.join(file))?.write_all(bytes)
}

/// The program in an archive.
fn unpacked(archive: &[u8], program: &str) -> Result<Vec<u8>, String> {
    let bad = |e: &dyn std::fmt::Display| format!("`{program}.zip` is not a readable archive: {e}");
    let mut archive = zip::ZipArchive::new(std::io::Cursor::new(archive)).map_err(|e| bad(&e))?;
    let names = [program.to_owned(), format!("{program}.exe")];
    let name = names.iter().find(|name| archive.index_for_name(name).is_some());
    let name = name.ok_or_else(|| format!("`{program}.zip` contains no `{program}`"))?;
    let entry = archive.by_name(name).map_err(|e| bad(&e))?;
    let mut bytes = Vec::new();
    entry.take(LARGEST as u64 + 1).read_to_end(&mut bytes).map_err(|e| bad(&e))?;
    match bytes.len() > LARGEST {
        true => Err(format!("`{program}` is larger than {} MiB", LARGEST >> 20)),
        false => Ok(bytes),
    }
}

/// The path of a pinned release in the cache, after checking that each of its files is as pinned.
///
/// # Errors
/// It does not exist, or is different. The message is a predicate whose subject is the release.
pub fn installed(cache: &Cache, owner: &str, repo: &str, pinned: &LockedRelease) -> Result<PathBuf, String> {
    static VERIFIED: Mutex<Option<HashSet<(PathBuf, String)>>> = Mutex::new(None);
    let folder = cache.release(owner, repo, &pinned.tag);
    let platforms = platforms();
    let of_machine = |file: &str| platforms.iter().any(|p| file.trim_end_matches(".zip").ends_with(&format!("-{p}")));
    let here = |file: &&String| of_machine(file) && folder.join(file.as_str()).is_file();
    let Some(asset) = pinned.files.keys().find(here) else {
        return Err(match pinned.files.keys().any(|file| of_machine(file)) {
            true => format!("is not in the cache ({})", folder.display()),
            false => format!("is not pinned for {}: `gevals lock` on such a machine adds it", platforms[0]),
        });
    };
    let program = folder.join(asset.trim_end_matches(".zip"));
    let manifest = pinned.files.contains_key(MANIFEST);
    let path = if manifest { folder.clone() } else { program.clone() };
    let digests = serde_json::to_string(&pinned.files).unwrap_or_default();
    let mark = (path.clone(), digests);
    if VERIFIED.lock().unwrap_or_else(PoisonError::into_inner).as_ref().is_some_and(|known| known.contains(&mark)) {
        return Ok(path);
    }
    let files = std::iter::once(asset.as_str()).chain(manifest.then_some(MANIFEST));
    for file in files {
        let path = folder.join(file);
        let bytes = std::fs::read(&path).map_err(|e| format!("is incomplete in the cache: {}: {e}", path.display()))?;
        let digest = hex::encode(Sha256::digest(&bytes));
        if let Some(locked) = pinned.files.get(file)
            && *locked != digest
        {
            return Err(format!(
                "was changed in the cache: the digest of {} is {digest}, but the lock has {locked}",
                path.display()
            ));
        }
        // The program of an archive is as trustworthy as the archive only if nobody has overwritten it.
        let intact = match file.strip_suffix(".zip") {
            Some(name) => unpacked(&bytes, name)? == std::fs::read(&program).unwrap_or_default(),
            None => true,
        };
        if !intact {
            return Err(format!("was changed in the cache: {} differs from its archive", program.display()));
        }
    }
    VERIFIED.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default().insert(mark);
    Ok(path)
}

fn request(url: &str) -> HttpRequest {
    HttpRequest {
        method: "GET".to_owned(),
        url: url.to_owned(),
        headers: Vec::new(),
        body: None,
        timeout: PATIENCE,
        max_body: LARGEST,
    }
}

/// The file, if it exists.
fn found(url: &str, answer: HttpResponse) -> Result<Option<Vec<u8>>, String> {
    match answer.status {
        200 if answer.truncated => Err(format!("{url} is larger than {} MiB", LARGEST >> 20)),
        200 => Ok(Some(answer.body)),
        404 | 410 => Ok(None),
        status => Err(format!("cannot download {url}: the server returns {status}")),
    }
}

/// Digests by file name, from lines of `DIGEST  NAME` as `sha256sum` writes them.
fn checksums(text: &str) -> Result<IndexMap<String, String>, String> {
    let line = |line: &str| {
        let (digest, name) = line.split_once(char::is_whitespace)?;
        let name = name.trim_start().trim_start_matches('*').trim_end().trim_start_matches("./");
        let digest = digest.to_ascii_lowercase();
        let is_digest = digest.len() == 64 && digest.bytes().all(|b| b.is_ascii_hexdigit());
        (is_digest && !name.is_empty()).then(|| (name.to_owned(), digest))
    };
    let lines = text.lines().filter(|l| !l.trim().is_empty());
    lines
        .map(|l| line(l).ok_or_else(|| format!("its {CHECKSUMS} has a line that is not a digest and a name: `{l}`")))
        .collect()
}

/// The name that a manifest gives its programs: one word, so that it cannot contain a path.
fn name_of(manifest: &[u8]) -> Result<String, String> {
    let manifest: Value =
        serde_yaml::from_slice(manifest).map_err(|e| format!("its {MANIFEST} is not valid YAML: {e}"))?;
    let name = manifest.get("name").and_then(Value::as_str).unwrap_or_default();
    let word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    match !name.is_empty() && !name.starts_with('.') && name.chars().all(word) {
        true => Ok(name.to_owned()),
        false => Err(format!("the `name` in its {MANIFEST} cannot be a file name: `{name}`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksum_files_are_parsed() {
        let digest = "ab".repeat(32);
        let text = format!("{digest}  files-linux-amd64\n{} *./extension.yaml\n\n", digest.to_uppercase());
        let known = checksums(&text).unwrap();
        assert_eq!(known.keys().collect::<Vec<_>>(), ["files-linux-amd64", "extension.yaml"]);
        assert!(known.values().all(|known| *known == digest));
        for wrong in ["abc  file", &digest, &format!("{digest} ")] {
            assert!(checksums(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn programs_are_recognized_by_their_platform_suffix() {
        for program in ["files-linux-amd64", "files-darwin-arm64.zip", "files-windows-x86_64.exe"] {
            assert!(is_program(program, "files"), "{program}");
        }
        for other in ["files-linux", "files-linux-amd64.bundle", "other-linux-amd64", "files.tar.gz", "files-notes-a"] {
            assert!(!is_program(other, "files"), "{other}");
        }
    }

    #[test]
    fn names_cannot_escape_the_folder() {
        for wrong in ["name: ../x", "name: a/b", "name: ''", "{}", "name: .x", "- a"] {
            assert!(name_of(wrong.as_bytes()).is_err(), "{wrong}");
        }
        assert_eq!(name_of(b"name: files").unwrap(), "files");
    }
}
