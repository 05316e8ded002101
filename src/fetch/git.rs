//! Repositories of tasks, fetched with the command `git` (§2.6 of the upstream behavior).
#![expect(clippy::disallowed_methods, reason = "git is a program, and what it fetches are files")]

use std::{
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use tokio::process::Command;

use super::{
    cache::Cache,
    release::{GITHUB, VARIABLE},
};
use crate::host::Host;

/// The time limit of each call of git.
const PATIENCE: Duration = Duration::from_secs(600);

/// The URL of a repository as an eval names it: `OWNER/REPO` and `github.com/OWNER/REPO` are on GitHub, a relative path starts at the
/// eval's directory.
///
/// # Errors
/// It has none of these forms.
pub fn repository(host: &dyn Host, repo: &str, dir: &Path) -> Result<String, String> {
    let has_scheme = ["https://", "http://", "ssh://", "file://", "git@"].iter().any(|scheme| repo.starts_with(scheme));
    if has_scheme || repo.starts_with('/') {
        return Ok(repo.to_owned());
    }
    if repo.starts_with("./") || repo.starts_with("../") {
        let path = std::path::absolute(dir.join(repo)).map_err(|e| format!("`{repo}` is not a path: {e}"))?;
        return Ok(crate::source::normalize(&path).to_string_lossy().into_owned());
    }
    let bare = repo.strip_prefix("github.com/").unwrap_or(repo).trim_end_matches(".git");
    let word = |part: &str| !part.is_empty() && !part.starts_with('-') && !part.contains(char::is_whitespace);
    match bare.split_once('/') {
        Some((owner, name)) if word(owner) && word(name) && !name.contains('/') && !owner.contains([':', '.']) => {
            let base = host.env(VARIABLE).filter(|url| !url.is_empty()).unwrap_or_else(|| GITHUB.to_owned());
            Ok(format!("{}/{owner}/{name}.git", base.trim_end_matches('/')))
        }
        _ => Err(format!("`{repo}` is not a repository: write a URL, a path, or `github.com/OWNER/REPO`")),
    }
}

/// The commit that a ref points to.
///
/// # Errors
/// The ref does not exist, or git cannot find out.
pub async fn commit(url: &str, reference: &str) -> Result<String, String> {
    if is_commit(reference) {
        return Ok(reference.to_owned());
    }
    if reference.starts_with('-') {
        return Err(format!("`{reference}` is not a valid ref"));
    }
    let peeled = format!("{reference}^{{}}");
    let listed = git(None, &["ls-remote", "--", url, reference, &peeled]).await?;
    let lines: Vec<(&str, &str)> = listed.lines().filter_map(|line| line.split_once('\t')).collect();
    let found = lines.iter().find(|(_, name)| name.ends_with("^{}")).or(lines.first());
    match found {
        Some((commit, _)) if is_commit(commit) => Ok((*commit).to_owned()),
        _ => Err(format!("{url} has no `{reference}`")),
    }
}

fn is_commit(text: &str) -> bool {
    text.len() == 40 && text.bytes().all(|b| b.is_ascii_hexdigit() && !b.is_ascii_uppercase())
}

/// Puts the files of a commit into a directory, completely or not at all.
///
/// # Errors
/// Why they are not available.
pub async fn checkout(url: &str, reference: &str, commit: &str, folder: &Path) -> Result<(), String> {
    let parent = folder.parent().unwrap_or(folder);
    let fault = |e: std::io::Error| format!("cannot write {}: {e}", folder.display());
    std::fs::create_dir_all(parent).map_err(fault)?;
    let work = tempfile::tempdir_in(parent).map_err(fault)?;
    let at = Some(work.path());
    git(at, &["init", "--quiet"]).await?;
    // Not every server provides a commit that is not the tip of a branch.
    if git(at, &["fetch", "--quiet", "--depth=1", "--no-tags", "--", url, commit]).await.is_err() {
        git(at, &["fetch", "--quiet", "--no-tags", "--", url, reference]).await?;
    }
    git(at, &["checkout", "--quiet", "--detach", commit]).await?;
    std::fs::remove_dir_all(work.path().join(".git")).map_err(fault)?;
    if let Some(link) = leaving(work.path(), work.path()) {
        let link = link.strip_prefix(work.path()).unwrap_or(&link).display().to_string();
        return Err(format!("{url} contains a symbolic link that leads outside it: {link}"));
    }
    Cache::fill_with(folder, work.keep()).map_err(fault)
}

/// A symbolic link below a directory that leads out of it, or nowhere.
fn leaving(dir: &Path, root: &Path) -> Option<PathBuf> {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_symlink() => {
                let root = std::fs::canonicalize(root).unwrap_or_else(|_| root.to_owned());
                if !std::fs::canonicalize(&path).is_ok_and(|to| to.starts_with(root)) {
                    return Some(path);
                }
            }
            Ok(kind) if kind.is_dir() => {
                if let Some(found) = leaving(&path, root) {
                    return Some(found);
                }
            }
            _ => {}
        }
    }
    None
}

async fn git(dir: Option<&Path>, args: &[&str]) -> Result<String, String> {
    let mut command = Command::new("git");
    if let Some(dir) = dir {
        command.arg("-C").arg(dir);
    }
    // Nothing from the repository is run, and nobody is asked for a password.
    command.args([
        "-c",
        "core.hooksPath=/dev/null",
        "-c",
        "protocol.ext.allow=never",
        "-c",
        "advice.detachedHead=false",
    ]);
    command.args(args).env("GIT_TERMINAL_PROMPT", "0").env("GIT_LFS_SKIP_SMUDGE", "1");
    for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"] {
        command.env_remove(name);
    }
    command.stdin(Stdio::null()).kill_on_drop(true);
    let ran = tokio::time::timeout(PATIENCE, command.output()).await;
    let ran = ran.map_err(|_| format!("git {} timed out", args[0]))?;
    let ran = ran.map_err(|e| format!("cannot run git: {e}"))?;
    if ran.status.success() {
        return Ok(String::from_utf8_lossy(&ran.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&ran.stderr);
    let line = said.lines().rev().find(|line| line.starts_with("fatal:") || line.starts_with("error:"));
    Err(format!("git {}: {}", args[0], line.unwrap_or_else(|| said.lines().next().unwrap_or("it failed"))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::FakeHost;

    #[test]
    fn repositories_are_resolved_to_urls() {
        let host = FakeHost::new();
        for (repo, url) in [
            ("acme/tasks", "https://github.com/acme/tasks.git"),
            ("github.com/acme/tasks", "https://github.com/acme/tasks.git"),
            ("git@example.org:acme/tasks.git", "git@example.org:acme/tasks.git"),
            ("file:///srv/tasks", "file:///srv/tasks"),
            ("/srv/tasks", "/srv/tasks"),
        ] {
            assert_eq!(repository(&host, repo, Path::new("x")).as_deref(), Ok(url));
        }
        for wrong in ["tasks", "", "a/b/c", "ext::sh -c x", "-a/b", "example.org/x", "a/ b"] {
            assert!(repository(&host, wrong, Path::new("x")).is_err(), "{wrong}");
        }
    }
}
