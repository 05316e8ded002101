//! Sources of extensions: those that the eval allows or denies, and those that no lock file pins
//! (`portable-format.md`, extensions).

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use globset::Glob;
use semver::Version;
use sha2::{Digest, Sha256};

use crate::{
    diagnostic::{Diagnostic, Diagnostics},
    hir::{Denied, DeniedWhat, Substitute},
    lint::EvalView,
    package::{Package, package},
    project::references,
    rule,
    source::{Span, Stat, resolve},
};

rule! {
    pub static SOURCE_NOT_ALLOWED = "source-not-allowed", Hard;
    pub static DENIED_EXTENSION = "denied-extension", Hard;
    pub static RELEASE_NOT_LOCKED = "release-not-locked", Hard;
    pub static EXTENSION_NOT_AS_LOCKED = "extension-not-as-locked", Hard;
}

/// Reports packages and repositories of tasks that match none of the patterns. Packages that are
/// part of gevals are always allowed.
pub fn allowed(view: &EvalView<'_>, out: &mut Diagnostics) {
    let Some(patterns) = &view.eval.extension_options.allowed_sources else { return };
    let dir = &view.eval.dir;
    let globs: Vec<_> = patterns.iter().filter_map(|p| Some((&p.value, Glob::new(&p.value).ok()?))).collect();
    let allowed = |name: &str, base: &Path| {
        let Some(place) = Place::of(name, base) else { return false };
        let matches = |(pattern, glob): &(&String, Glob)| match (&place, Place::of(pattern, dir)) {
            // A pattern that matches everything.
            _ if pattern.chars().all(|c| c == '*') => true,
            (Place::Path(path), Some(Place::Path(pattern))) => {
                Glob::new(&pattern).is_ok_and(|glob| glob.compile_matcher().is_match(path))
            }
            (Place::Host(name), Some(Place::Host(_))) => glob.compile_matcher().is_match(name),
            _ => false,
        };
        globs.iter().any(matches)
    };
    let is_bundled = |name: &str| matches!(package(name, view.unit.lock.substitute), Ok(Package::Bundled(_)));
    let packages = references(view.eval, view.tasks.iter().copied());
    let packages = packages.iter().filter(|reference| !is_bundled(reference.package));
    let named = packages.map(|reference| (reference.package, reference.span, reference.dir)).chain(repositories(view));
    for (name, span, _) in named.filter(|(name, _, base)| !allowed(name, base)) {
        let mut diagnostic = Diagnostic::new(
            &SOURCE_NOT_ALLOWED,
            span,
            format!("`{name}` does not match any pattern in `allowedSources`"),
        );
        if let Some(first) = patterns.first() {
            diagnostic = diagnostic.label(first.span, "allowed sources");
        }
        out.push(diagnostic.help("add a pattern for it under `extensions.allowedSources`, or use another extension"));
    }
}

/// Returns the repositories of tasks.
fn repositories<'a>(view: &EvalView<'a>) -> impl Iterator<Item = (&'a str, Span, &'a Path)> {
    let eval = view.eval;
    let named = eval.sources.iter().filter_map(|source| source.repo.as_ref());
    named.map(|repo| (repo.value.as_str(), repo.span, eval.dir.as_path()))
}

/// The location that a package, a repository or a pattern refers to, in a normalized spelling.
enum Place {
    /// A path on this machine, without `.` and `..`.
    Path(String),
    /// A location on another host, without its scheme.
    Host(String),
}

impl Place {
    /// Returns `None` if another spelling could hide the location.
    fn of(text: &str, base: &Path) -> Option<Self> {
        let has_parent = |text: &str| text.split('/').any(|part| part == "..");
        let path = text.strip_prefix("file://");
        if let Some(path) = path.or_else(|| text.starts_with(['.', '/', '~']).then_some(text)) {
            return match path.starts_with('~') {
                true if has_parent(path) => None,
                true => Some(Self::Path(path.to_owned())),
                false => Some(Self::Path(resolve(base, path).to_string_lossy().into_owned())),
            };
        }
        (!has_parent(text)).then(|| Self::Host(bare(text).to_owned()))
    }
}

/// Reports packages, versions and files that the eval denies.
pub fn denied(view: &EvalView<'_>, out: &mut Diagnostics) {
    let packages = references(view.eval, view.tasks.iter().copied());
    let packages = packages.iter().map(|reference| (reference.package, reference.span, reference.dir));
    for (name, span, dir) in packages.chain(repositories(view)) {
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

/// Returns why a denial applies to a package.
fn matches(view: &EvalView<'_>, what: &DeniedWhat, name: &str, dir: &Path) -> Option<String> {
    let lock = &view.unit.lock;
    match what {
        DeniedWhat::Package(pattern, range) => {
            let written = |version: String| match Place::of(name, dir) {
                Some(Place::Path(path)) => {
                    let from_eval = Path::new(&path).strip_prefix(&view.eval.dir).unwrap_or(Path::new(&path));
                    let from_eval = format!("./{}", from_eval.display());
                    vec![(bare(name).to_owned(), version.clone()), (path, version.clone()), (from_eval, version)]
                }
                _ => vec![(bare(name).to_owned(), version)],
            };
            // A package that a bundled extension replaces is also denied by its own name.
            let named = match package(name, Substitute::Never) {
                Ok(Package::Release { owner, repo, version }) => {
                    let version = lock.releases.get(name).map_or(version, |release| release.tag.clone());
                    vec![(format!("github.com/{owner}/{repo}"), version)]
                }
                _ => written(lock.extensions.get(name).map_or_else(String::new, |m| m.version.clone())),
            };
            let bundled = match package(name, lock.substitute) {
                Ok(Package::Bundled(name)) => Some((format!("builtin:{name}"), env!("CARGO_PKG_VERSION").to_owned())),
                _ => None,
            };
            named.into_iter().chain(bundled).filter(|(path, _)| pattern.is_match(path)).find_map(|(_, version)| {
                let Some(range) = range else { return Some("all versions are denied".to_owned()) };
                match Version::parse(version.trim_start_matches('v')) {
                    Ok(known) if range.matches(&known) => Some(format!("`{version}` is in this range")),
                    Ok(_) => None,
                    // A version that cannot be compared may be in the denied range.
                    Err(_) => Some(format!("`{version}` is not a version number, so it cannot be outside this range")),
                }
            })
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

/// Returns the file of a local package that has a digest: the program, or a file in its directory.
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

/// Reports releases that no lock file pins. A run downloads only what is pinned.
pub fn locked(view: &EvalView<'_>, out: &mut Diagnostics) {
    let mut seen = BTreeSet::new();
    for (name, span) in packages(view) {
        let lock = &view.unit.lock;
        let release = matches!(package(name, lock.substitute), Ok(Package::Release { .. }));
        if release && !lock.releases.contains_key(name) && seen.insert(name) {
            out.push(
                Diagnostic::new(
                    &RELEASE_NOT_LOCKED,
                    span,
                    format!("the release `{name}` is not pinned by a lock file"),
                )
                .here("its version and digest are unknown")
                .help(format!("to download and pin it, run `gevals lock {}`", view.unit.path.display())),
            );
        }
    }
}

/// Reports local manifests that differ from those in the lock file: steps were checked against a different manifest.
pub fn as_locked(view: &EvalView<'_>, out: &mut Diagnostics) {
    let lock = &view.unit.lock;
    let mut seen = BTreeSet::new();
    for reference in references(view.eval, view.tasks.iter().copied()) {
        let Ok(Package::Local(path)) = package(reference.package, lock.substitute) else { continue };
        let Some(locked) = lock.extensions.get(reference.alias.unwrap_or(reference.package)) else { continue };
        let path = resolve(reference.dir, &path);
        let folder = match view.files.stat(&path) {
            Some(Stat::Dir) => path.as_path(),
            _ => path.parent().unwrap_or(Path::new("")),
        };
        // A program that outputs its own manifest is not started here.
        let Ok(manifest) = view.files.read(&folder.join("extension.yaml")) else { continue };
        let found = hex::encode(Sha256::digest(manifest));
        if found != locked.sha256 && seen.insert(reference.span) {
            let message = format!("`{}` does not match the lock file", reference.package);
            let label = format!("the digest of its manifest is {found}, but the lock file has {}", locked.sha256);
            out.push(
                Diagnostic::new(&EXTENSION_NOT_AS_LOCKED, reference.span, message)
                    .here(label)
                    .help(format!("if the change is intended, run `gevals lock {}`", view.unit.path.display())),
            );
        }
    }
}

/// Returns all referenced packages, with their locations.
fn packages<'a>(view: &EvalView<'a>) -> Vec<(&'a str, Span)> {
    let found = references(view.eval, view.tasks.iter().copied());
    found.iter().map(|reference| (reference.package, reference.span)).collect()
}

fn bare(package: &str) -> &str {
    package.split_once("://").map_or(package, |(_, rest)| rest)
}
