//! Where extensions come from: what the eval allows, what it denies, and what no lock pins (`portable-format.md`, extensions).

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use globset::Glob;
use semver::Version;
use sha2::{Digest, Sha256};

use super::EvalView;
use crate::{
    diagnostic::{Diagnostic, Diagnostics},
    hir::{Denied, DeniedWhat},
    package::{Package, package},
    project::references,
    rule,
    source::{Span, Stat, resolve},
};

rule! {
    pub static SOURCE_NOT_ALLOWED = "source-not-allowed", Hard;
    pub static DENIED_EXTENSION = "denied-extension", Hard;
    pub static RELEASE_NOT_LOCKED = "release-not-locked", Hard;
}

/// Packages and repositories of tasks that match none of the patterns. What is a part of gevals needs no leave.
pub fn allowed(view: &EvalView<'_>, out: &mut Diagnostics) {
    let Some(patterns) = &view.eval.extension_options.allowed_sources else { return };
    let globs: Vec<_> = patterns.iter().filter_map(|p| Some(Glob::new(&p.value).ok()?.compile_matcher())).collect();
    let allowed = |name: &str| {
        let bundled = matches!(package(name, view.unit.lock.substitute), Ok(Package::Bundled(_)));
        bundled || globs.iter().any(|glob| glob.is_match(name) || glob.is_match(bare(name)))
    };
    let repositories = view.eval.sources.iter().filter_map(|source| source.repo.as_ref());
    let named = packages(view).into_iter().chain(repositories.map(|repo| (repo.value.as_str(), repo.span)));
    for (name, span) in named.filter(|(name, _)| !allowed(name)) {
        let mut diagnostic =
            Diagnostic::new(&SOURCE_NOT_ALLOWED, span, format!("`{name}` matches no `allowedSources`"));
        if let Some(first) = patterns.first() {
            diagnostic = diagnostic.label(first.span, "these are allowed");
        }
        out.push(diagnostic.help("add a pattern for it under `extensions.allowedSources`, or use another"));
    }
}

/// Packages, versions and files that the eval refuses.
pub fn denied(view: &EvalView<'_>, out: &mut Diagnostics) {
    let named = references(view.eval, view.tasks.iter().filter_map(|unit| unit.task.as_ref()));
    for (name, span, dir) in named.iter().map(|reference| (reference.package, reference.span, reference.dir)) {
        let matching = |denied: &&Denied| matches(view, &denied.what, name, dir);
        if let Some((denied, why)) =
            view.eval.extension_options.denied.iter().find_map(|denied| Some((denied, matching(&denied)?)))
        {
            let message = format!("`{name}` is denied: {}", denied.reason.value);
            out.push(
                Diagnostic::new(&DENIED_EXTENSION, span, message)
                    .label(denied.span, why)
                    .help("use another version or another extension"),
            );
        }
    }
}

/// How a denial is about a package.
fn matches(view: &EvalView<'_>, what: &DeniedWhat, name: &str, dir: &Path) -> Option<String> {
    let lock = &view.unit.lock;
    match what {
        DeniedWhat::Package(pattern, range) => {
            let (path, version) = match package(name, lock.substitute) {
                Ok(Package::Release { owner, repo, version }) => {
                    let version = lock.releases.get(name).map_or(version, |release| release.tag.clone());
                    (format!("github.com/{owner}/{repo}"), version)
                }
                Ok(Package::Bundled(bundled)) => (format!("builtin:{bundled}"), env!("CARGO_PKG_VERSION").to_owned()),
                _ => {
                    let manifest = lock.extensions.get(name);
                    (bare(name).to_owned(), manifest.map_or_else(String::new, |m| m.version.clone()))
                }
            };
            let Some(range) = range else {
                return pattern.is_match(&path).then(|| "all of its versions are".to_owned());
            };
            let known = Version::parse(version.trim_start_matches('v'));
            let told = match known {
                Ok(known) if range.matches(&known) => format!("`{version}` is in this range"),
                Ok(_) => return None,
                // What cannot be compared may be one of those that are meant.
                Err(_) => format!("`{version}` is no version that could be outside of this range"),
            };
            pattern.is_match(&path).then_some(told)
        }
        DeniedWhat::Digest(digest) => {
            let files = lock.releases.get(name).into_iter().flat_map(|release| &release.files);
            let file = files.into_iter().find(|(_, sha256)| *sha256 == digest).map(|(file, _)| file.clone());
            let manifest =
                || lock.extensions.get(name).filter(|e| e.sha256 == *digest).map(|_| "extension.yaml".to_owned());
            let file = file.or_else(manifest).or_else(|| local(view, name, dir, digest));
            file.map(|file| format!("this is the digest of `{file}`"))
        }
    }
}

/// The file of a package on this machine that has a digest: the program, or one in its folder.
fn local(view: &EvalView<'_>, name: &str, dir: &Path, digest: &str) -> Option<String> {
    let Ok(Package::Local(path)) = package(name, view.unit.lock.substitute) else { return None };
    let path = resolve(dir, &path);
    let files = match view.files.stat(&path)? {
        Stat::Dir => view.files.list(&path).into_iter().map(|file| path.join(file)).collect(),
        _ => vec![path],
    };
    let denied = |file: &PathBuf| view.files.read(file).is_ok_and(|bytes| hex::encode(Sha256::digest(bytes)) == digest);
    files.into_iter().find(denied).map(|file| file.file_name().unwrap_or_default().to_string_lossy().into_owned())
}

/// Releases that no lock pins: a run downloads only what is pinned.
pub fn locked(view: &EvalView<'_>, out: &mut Diagnostics) {
    let mut seen = BTreeSet::new();
    for (name, span) in packages(view) {
        let lock = &view.unit.lock;
        let release = matches!(package(name, lock.substitute), Ok(Package::Release { .. }));
        if release && !lock.releases.contains_key(name) && seen.insert(name) {
            out.push(
                Diagnostic::new(&RELEASE_NOT_LOCKED, span, format!("no lock pins the release `{name}`"))
                    .here("its version and digest are not known")
                    .help(format!("download and pin it: `gevals lock {}`", view.unit.path.display())),
            );
        }
    }
}

/// Each package that is named, and where.
fn packages<'a>(view: &EvalView<'a>) -> Vec<(&'a str, Span)> {
    let found = references(view.eval, view.tasks.iter().filter_map(|unit| unit.task.as_ref()));
    found.iter().map(|reference| (reference.package, reference.span)).collect()
}

fn bare(package: &str) -> &str {
    package.split_once("://").map_or(package, |(_, rest)| rest)
}
