//! The packages of gevals: documents and manifests agree with `Cargo.toml`, and the action uses the release that its
//! reference names. The packages themselves are built by `packaging/build` and tested by `packaging/try`, in `.ci/run`.
#![cfg(unix)]

use std::{
    env, fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::Command,
};

use regex::Regex;
use toml::{Table, Value};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn manifest(path: &str) -> Table {
    read(path).parse().unwrap()
}

fn string<'a>(table: &'a Table, path: &[&str]) -> &'a str {
    let (last, tables) = path.split_last().unwrap();
    let table = tables.iter().fold(table, |table, key| table[*key].as_table().unwrap());
    table[*last].as_str().unwrap()
}

/// All files in the repository that may contain its name: documents, manifests, workflows, scripts.
fn files() -> Vec<PathBuf> {
    let listed = Command::new("git").args(["ls-files", "-z"]).current_dir(root()).output().unwrap();
    assert!(listed.status.success(), "{listed:?}");
    let names = String::from_utf8(listed.stdout).unwrap();
    let ends = |name: &str| [".md", ".toml", ".yml", ".yaml", ".json", ".in"].iter().any(|end| name.ends_with(end));
    names.split('\0').filter(|name| ends(name) && !name.starts_with("tests/")).map(|name| root().join(name)).collect()
}

/// `repository` in `Cargo.toml` specifies the location of the sources. If it changes, this test lists the other places
/// to change.
#[test]
fn the_repository_has_one_address() {
    let cargo = manifest("Cargo.toml");
    let repository = string(&cargo, &["package", "repository"]);
    let version = string(&cargo, &["package", "version"]);
    let (_, slug) = repository.split_once("://github.com/").unwrap();
    let owner = slug.strip_suffix("/gevals").unwrap();
    // On GitHub, in its container registry, in a Homebrew tap, as an action.
    let owners =
        Regex::new(r"(?:(?:github\.com|ghcr\.io)[/:]|brew install |--repo |uses: )([\w.-]+)/gevals\b").unwrap();
    let versions = Regex::new(r"(?:gevals@v|gevals==|rev: v)([\w.-]+)|`([\w.]+)-(?:check|run)`").unwrap();
    let (mut named, mut wrong) = (0, Vec::new());
    for path in files() {
        let Ok(text) = fs::read_to_string(&path) else { continue };
        for (number, line) in text.lines().enumerate() {
            for (pattern, expected) in [(&owners, owner), (&versions, version)] {
                for found in pattern.captures_iter(line) {
                    named += 1;
                    if found.iter().skip(1).flatten().any(|part| part.as_str() != expected) {
                        wrong.push(format!("{}:{}: {line}", path.display(), number + 1));
                    }
                }
            }
        }
    }
    assert!(named > 10, "only {named} places name the repository");
    assert!(wrong.is_empty(), "Cargo.toml says {repository} {version}; not so\n{}", wrong.join("\n"));
}

/// Values of `Cargo.toml` that other manifests must repeat.
#[test]
fn manifests_agree() {
    let cargo = manifest("Cargo.toml");
    let python = manifest("pyproject.toml");
    for key in ["description", "license", "readme"] {
        assert_eq!(string(&cargo, &["package", key]), string(&python, &["project", key]), "{key}");
    }
    assert_eq!(string(&cargo, &["package", "repository"]), string(&python, &["project", "urls", "repository"]));
    assert_eq!(cargo["package"]["keywords"], python["project"]["keywords"]);
    let hook = manifest("packaging/pre-commit/Cargo.toml");
    let version = string(&cargo, &["package", "version"]);
    assert_eq!(version, string(&hook, &["package", "version"]));
    assert_eq!(format!("={version}"), string(&hook, &["dependencies", "gevals", "version"]));
    let Value::Table(ours) = &cargo["dependencies"] else { panic!() };
    assert_eq!(ours["mimalloc"], hook["dependencies"]["mimalloc"]);
}

/// Every target with a release is known to everything that selects one.
#[test]
fn all_lists_of_targets_agree() {
    let found = |text: &str, pattern: &str| {
        let mut all: Vec<String> = Regex::new(pattern).unwrap().captures_iter(text).map(|c| c[1].to_owned()).collect();
        all.sort();
        all.dedup();
        all
    };
    let released = found(&read(".github/workflows/release.yml"), r"target: ([a-z0-9_]+-[a-z0-9_-]+)");
    assert_eq!(released.len(), 4, "{released:?}");
    assert_eq!(found(&read("packaging/homebrew/gevals.rb.in"), r"gevals-([a-z0-9_-]+)\.tar"), released);
    assert_eq!(found(&read("packaging/action/run.sh"), r"echo ([a-z0-9_]+-[a-z]+-[a-z-]+) ;;"), released);
    let npm = found(&read("packaging/npm/pack"), r#""((?:linux|darwin)-\w+)""#);
    let as_npm = released.iter().map(|target| {
        let parts: Vec<&str> = target.split('-').collect();
        format!("{}-{}", parts[2], parts[0].replace("x86_64", "x64").replace("aarch64", "arm64"))
    });
    let mut as_npm: Vec<String> = as_npm.collect();
    as_npm.sort();
    assert_eq!(npm, as_npm);
}

/// A directory in place of GitHub: `curl` and `git` read it in the same way.
struct Hub {
    folder: tempfile::TempDir,
    target: String,
}

impl Hub {
    /// With a release of this version.
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let machine = Command::new("uname").arg("-sm").output().unwrap();
        let target = match String::from_utf8(machine.stdout).unwrap().trim() {
            "Linux x86_64" => "x86_64-unknown-linux-musl",
            "Linux aarch64" => "aarch64-unknown-linux-musl",
            "Darwin x86_64" => "x86_64-apple-darwin",
            "Darwin arm64" => "aarch64-apple-darwin",
            other => panic!("there is no release for {other}"),
        };
        let hub = Self { folder, target: target.to_owned() };
        let release = hub.release();
        let inside = release.join(format!("gevals-{target}"));
        fs::create_dir_all(&inside).unwrap();
        // A script that starts the real program is packed faster.
        let program = concat!("#!/bin/sh\nexec '", env!("CARGO_BIN_EXE_gevals"), "' \"$@\"\n");
        fs::write(inside.join("gevals"), program).unwrap();
        fs::set_permissions(inside.join("gevals"), fs::Permissions::from_mode(0o755)).unwrap();
        hub.sh(&release, &format!("tar -czf gevals-{target}.tar.gz gevals-{target} && rm -r gevals-{target}"));
        hub.sh(&release, "sha256sum * >checksums.sha256");
        hub
    }

    fn release(&self) -> PathBuf {
        self.folder.path().join("acme/gevals/releases/download").join(concat!("v", env!("CARGO_PKG_VERSION")))
    }

    fn sh(&self, folder: &Path, script: &str) -> String {
        let out = Command::new("sh").args(["-euc", script]).current_dir(folder).output().unwrap();
        assert!(out.status.success(), "{script}: {out:?}");
        String::from_utf8(out.stdout).unwrap().trim().to_owned()
    }

    /// Runs the action on an empty project, with no gevals and no cargo on `PATH`; returns its status and its output.
    fn act(&self, repository: &str, named: &str) -> (Option<i32>, String) {
        let bin = self.folder.path().join("bin");
        let job = tempfile::tempdir_in(self.folder.path()).unwrap();
        let _ = fs::create_dir(&bin);
        for tool in [
            "bash",
            "mktemp",
            "rm",
            "sed",
            "head",
            "cut",
            "uname",
            "git",
            "grep",
            "mkdir",
            "curl",
            "sha256sum",
            "tar",
            "gzip",
            "cat",
            "wc",
        ] {
            let path = env::var_os("PATH").unwrap();
            let mut folders = env::split_paths(&path).map(|folder| folder.join(tool));
            let _ = symlink(folders.find(|path| path.exists()).unwrap_or_else(|| panic!("no {tool}")), bin.join(tool));
        }
        let script = "kind: Task\napiVersion: mcp-eval/v1\nmetadata: {name: a}\nspec:\n  prompts: a\n";
        fs::write(job.path().join("task.yaml"), script).unwrap();
        let out = Command::new(root().join("packaging/action/run.sh"))
            .current_dir(job.path())
            .env_remove("GEVALS")
            .envs([("PATH", bin.as_path()), ("RUNNER_TEMP", job.path())])
            .env("GITHUB_SERVER_URL", format!("file://{}", self.folder.path().display()))
            .envs([("ACTION_REPOSITORY", repository), ("ACTION_REF", named), ("INPUT_PATHS", "task.yaml")])
            .output()
            .unwrap();
        (out.status.code(), String::from_utf8(out.stdout).unwrap() + &String::from_utf8(out.stderr).unwrap())
    }
}

#[test]
fn the_action_uses_the_release_of_its_tag() {
    let hub = Hub::new();
    let tag = concat!("v", env!("CARGO_PKG_VERSION"));
    let found = |(status, said): (Option<i32>, String), why: &str| {
        assert!(status == Some(1) && said.contains("::error file=task.yaml,line=5"), "{why}: {status:?} {said}");
    };
    let none = |(status, said): (Option<i32>, String), why: &str| {
        assert!(
            status == Some(3) && said.contains("no release for this version and machine"),
            "{why}: {status:?} {said}"
        );
    };
    found(hub.act("acme/gevals", tag), "the tag");
    // A commit is equivalent to the tag on it; a branch, another tag or another commit may contain other sources.
    none(hub.act("acme/gevals", "main"), "a branch");
    none(hub.act("acme/gevals", "v0.0.1"), "another tag");
    none(hub.act("", ""), "no name");
    none(hub.act("acme/elsewhere", tag), "no such repository");
    let repository = hub.folder.path().join("acme/gevals");
    let commit = hub.sh(
        &repository,
        &format!(
            "git init --quiet . && git config user.name a && git config user.email a@example.com
             git commit --quiet --allow-empty -m a && git tag -a -m a {tag} && git commit --quiet --allow-empty -m b
             git rev-parse HEAD~1"
        ),
    );
    found(hub.act("acme/gevals", &commit), "the commit of the tag");
    none(hub.act("acme/gevals", &commit[..12]), "no commit in full");
    none(hub.act("acme/gevals", &hub.sh(&repository, "git rev-parse HEAD")), "another commit");

    // An archive that does not match the release is never run, and nothing is built in its place.
    let archive = hub.release().join(format!("gevals-{}.tar.gz", hub.target));
    hub.sh(&hub.release(), &format!("printf x >>{}", archive.display()));
    let (status, said) = hub.act("acme/gevals", tag);
    assert!(status == Some(3) && said.contains("does not match checksums.sha256 of this release"), "{status:?} {said}");
    fs::write(hub.release().join("checksums.sha256"), "").unwrap();
    let (status, said) = hub.act("acme/gevals", tag);
    assert!(status == Some(3) && said.contains("does not match checksums.sha256 of this release"), "{status:?} {said}");
}

/// Scripts that a shell runs are executable, and start with an interpreter line.
#[test]
fn packaging_scripts_are_executable() {
    for path in ["build", "try", "version", "npm/pack", "npm/gevals/bin/gevals.js", "homebrew/formula", "action/run.sh"]
    {
        let path = root().join("packaging").join(path);
        assert!(fs::metadata(&path).unwrap().permissions().mode() & 0o111 != 0, "{}", path.display());
        assert!(fs::read_to_string(&path).unwrap().starts_with("#!/usr/bin/env "), "{}", path.display());
    }
}

/// A formula contains the checksum of each archive, or is not written.
#[test]
fn a_formula_contains_all_checksums() {
    let folder = tempfile::tempdir().unwrap();
    let sums = folder.path().join("sums");
    let formula = || Command::new(root().join("packaging/homebrew/formula")).arg(&sums).output().unwrap();
    let targets =
        ["x86_64-unknown-linux-musl", "aarch64-unknown-linux-musl", "x86_64-apple-darwin", "aarch64-apple-darwin"];
    let line = |target: &&str| format!("{:064x}  gevals-{target}.tar.gz\n", target.len());
    fs::write(&sums, targets[1..].iter().map(line).collect::<String>()).unwrap();
    let out = formula();
    assert!(!out.status.success() && out.stdout.is_empty(), "{out:?}");
    assert!(String::from_utf8(out.stderr).unwrap().contains("no checksum for @x86_64-unknown-linux-musl@"));
    fs::write(&sums, targets.iter().map(line).collect::<String>()).unwrap();
    let out = formula();
    let text = String::from_utf8(out.stdout).unwrap();
    assert!(out.status.success() && !text.contains('@') && text.matches("sha256 \"").count() == 4, "{text}");
    assert!(text.contains(concat!(
        "/releases/download/v",
        env!("CARGO_PKG_VERSION"),
        "/gevals-aarch64-apple-darwin.tar.gz"
    )));
}
