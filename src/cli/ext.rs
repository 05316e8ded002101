//! `gevals ext`: extensions, from creating one to the release that a lock pins.

mod init;
mod pin;

use std::path::{Path, PathBuf};

use clap::Subcommand;
use serde_json::{Value, json};

use super::{Global, compile_paths, complain, packages, print, shown, status, unreadable};
use crate::{
    Compiled,
    builtin::count,
    compile,
    conformance::{Judgement, write},
    extension::{Extensions, conformance},
    fetch::{Cache, installed},
    host::RealHost,
    lock::{Lock, LockedExtension, LockedRelease},
    package::{Package, package},
    plan,
    project::{EvalUnit, references},
    source::{Sources, resolve},
};

const EXAMPLES: &str = "\
Examples:
  gevals ext list                                list the extensions used by evals in this directory
  gevals ext add eval.yaml github.com/acme/files@v1.2.0
                                                 download and pin it, and add it to the eval
  gevals ext update eval.yaml                    update extensions at `latest` to newer releases
  gevals ext update eval.yaml files --to v1.3.0  change to another version
  gevals ext rollback eval.yaml files            go back to the previous pin
  gevals ext verify eval.yaml                    compare the cache with the lock
  gevals ext describe builtin:kubernetes         show its operations, arguments and outputs
  gevals ext init files --language python        create a new extension, with tests
  gevals ext conformance ./files                 test whether a program conforms to the protocol

Releases are downloaded from GitHub, or from the server that GEVALS_GITHUB_URL names. Downloads are
kept in GEVALS_CACHE_DIR, or in the user's cache by default.

Exit status: 0 success; 1 the answer is no; 2 usage error; 3 something could not be downloaded or
started";

/// Use, pin and write extensions.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// List the extensions that evals use, with their state.
    List {
        /// Evals, or directories to search for them.
        paths: Vec<PathBuf>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Add an extension to an eval, download it, and pin it.
    Add(pin::Add),
    /// Update pins: `latest` to the newest release, others to the version given by `--to`.
    Update(pin::Update),
    /// Restore the pins from before the last update.
    Rollback(pin::Rollback),
    /// Compare the cache, and the manifests of extensions given by path, with the lock.
    Verify {
        /// An eval.
        eval: PathBuf,
    },
    /// Describe what an extension can do.
    Describe {
        /// A package: a path, `builtin:NAME`, or a release; with `--eval`, also an alias.
        package: String,
        /// The eval that defines the alias or pins the package.
        #[arg(long)]
        eval: Option<PathBuf>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    Init(init::Args),
    /// Test whether a program conforms to the extension protocol, without performing any of its operations.
    Conformance {
        /// The program, or the directory with its extension.yaml.
        program: PathBuf,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

pub fn main(args: &Args, global: Global) -> u8 {
    match &args.command {
        Command::List { paths, json } => list(paths, *json),
        Command::Add(args) => pin::add(args, global),
        Command::Update(args) => pin::update(args, global),
        Command::Rollback(args) => pin::rollback(args, global),
        Command::Verify { eval } => verify(eval),
        Command::Describe { package, eval, json } => describe(package, eval.as_deref(), *json),
        Command::Init(args) => init::main(args),
        Command::Conformance { program, json } => conform(program, *json),
    }
}

/// An eval, and everything that was compiled with it.
struct One {
    compiled: Compiled,
}

impl One {
    fn read(path: &Path) -> Result<Self, u8> {
        let compiled = compile_paths(&[path.to_owned()], &Sources::default());
        if unreadable(&compiled) {
            return Err(status::USAGE);
        }
        match compiled.project.evals.as_slice() {
            [unit] if unit.eval.is_some() => Ok(Self { compiled }),
            [_] => {
                complain(&format!("`{0}` cannot be read: `gevals check {0}` shows why", shown(path)));
                Err(status::USAGE)
            }
            _ => {
                complain(&format!("`{}` is not a single eval", shown(path)));
                Err(status::USAGE)
            }
        }
    }

    fn unit(&self) -> &EvalUnit {
        &self.compiled.project.evals[0]
    }
}

fn cache_of(unit: &EvalUnit) -> Result<Cache, String> {
    let eval = unit.eval.as_ref();
    let named = eval.and_then(|e| Some(resolve(&e.dir, &e.extension_options.cache_dir.as_ref()?.value)));
    Cache::new(named.as_deref())
}

/// An extension of an eval, for `list` and `verify`.
struct Entry<'a> {
    name: &'a str,
    package: &'a str,
    dir: &'a Path,
    means: Result<Package, String>,
    release: Option<&'a LockedRelease>,
    locked: Option<&'a LockedExtension>,
}

fn entries<'a>(compiled: &'a Compiled, unit: &'a EvalUnit) -> Vec<Entry<'a>> {
    let Some(eval) = &unit.eval else { return Vec::new() };
    let mut found: Vec<Entry<'a>> = Vec::new();
    for reference in references(eval, packages::of_tasks(compiled, unit).into_iter()) {
        let name = reference.alias.unwrap_or(reference.package);
        // A task may also name the package of an alias.
        if found.iter().any(|entry| entry.name == name || entry.package == reference.package) {
            continue;
        }
        found.push(Entry {
            name,
            package: reference.package,
            dir: reference.dir,
            means: package(reference.package, unit.lock.substitute),
            release: unit.lock.releases.get(reference.package),
            locked: crate::package::known(&unit.lock, name),
        });
    }
    found
}

/// The state of an extension, in a few words.
fn state(entry: &Entry<'_>, cache: Option<&Cache>) -> String {
    match (&entry.means, entry.release) {
        (Err(why), _) => why.clone(),
        (Ok(Package::Bundled(name)), _) if entry.package.starts_with("builtin:") => {
            format!("built into gevals ({name})")
        }
        (Ok(Package::Bundled(name)), _) => format!("means `builtin:{name}`"),
        (Ok(Package::Local(_)), _) if entry.locked.is_none() => "a path, not locked".to_owned(),
        (Ok(Package::Local(_)), _) => "a path, locked".to_owned(),
        (Ok(Package::Release { .. }), None) => "not locked".to_owned(),
        (Ok(Package::Release { owner, repo, .. }), Some(pin)) => {
            let found = cache.map_or(Err("has no cache".to_owned()), |cache| installed(cache, owner, repo, pin));
            match found {
                Ok(_) => format!("locked, {}", pin.tag),
                Err(why) => format!("locked, {}; it {why}", pin.tag),
            }
        }
    }
}

fn list(paths: &[PathBuf], as_json: bool) -> u8 {
    let compiled = compile_paths(paths, &Sources::default());
    if unreadable(&compiled) {
        return status::USAGE;
    }
    let mut rows = Vec::new();
    let mut documents = Vec::new();
    for unit in &compiled.project.evals {
        let cache = cache_of(unit).ok();
        for entry in entries(&compiled, unit) {
            let state = state(&entry, cache.as_ref());
            let operations = entry.locked.map(|locked| locked.operations.len());
            documents.push(json!({
                "eval": unit.path,
                "name": entry.name,
                "package": entry.package,
                "state": state,
                "tag": entry.release.map(|release| &release.tag),
                "operations": operations,
            }));
            let alias = if entry.name == entry.package { String::new() } else { format!("{}: ", entry.name) };
            let known = operations.map(|n| format!(", {}", count(n, "operation", "operations"))).unwrap_or_default();
            rows.push((shown(&unit.path), format!("{alias}{}", entry.package), format!("{state}{known}")));
        }
    }
    if as_json {
        print(&format!("{:#}\n", Value::Array(documents)));
        return status::OK;
    }
    if rows.is_empty() {
        let evals = count(compiled.project.evals.len(), "eval", "evals");
        print(&format!("no extensions are used by {evals}\n"));
        return status::OK;
    }
    let mut text = String::new();
    let mut of = "";
    let width = rows.iter().map(|(_, what, _)| what.len()).max().unwrap_or(0);
    for (eval, what, state) in &rows {
        if eval != of {
            text += &format!("{eval}\n");
            of = eval;
        }
        text += &format!("  {what:width$}  {state}\n");
    }
    print(&text);
    status::OK
}

fn verify(path: &Path) -> u8 {
    let one = match One::read(path) {
        Ok(one) => one,
        Err(code) => return code,
    };
    let unit = one.unit();
    let Some(eval) = &unit.eval else { return status::USAGE };
    let cache = match cache_of(unit) {
        Ok(cache) => cache,
        Err(why) => {
            complain(&why);
            return status::BROKEN;
        }
    };
    let Ok(runtime) = tokio::runtime::Builder::new_multi_thread().enable_all().build() else { return status::BROKEN };
    let host = RealHost::new();
    let planned = compile::extensions(eval, &unit.lock);
    let extensions = Extensions::new(&host, &planned, std::env::current_exe().ok());
    let mut code = status::OK;
    let entries = entries(&one.compiled, unit);
    for entry in &entries {
        let verdict = match (&entry.means, entry.release) {
            (Err(why), _) => Err(format!("it {why}")),
            (Ok(Package::Bundled(_)), _) => Ok("it is built into gevals".to_owned()),
            (Ok(Package::Release { .. }), None) => Err("it is not locked".to_owned()),
            (Ok(Package::Release { owner, repo, .. }), Some(pin)) => installed(&cache, owner, repo, pin)
                .map(|_| format!("{} is in the cache, and its files match the lock", pin.tag))
                .map_err(|why| format!("it {why}")),
            (Ok(Package::Local(_)), _) => {
                match (runtime.block_on(extensions.describe(entry.name, entry.dir)), entry.locked) {
                    (Err(why), _) => Err(why),
                    (Ok(_), None) => Err("it is not locked".to_owned()),
                    (Ok(now), Some(locked)) if now.sha256 != locked.sha256 => Err(format!(
                        "its manifest differs from the locked one: its digest is {}, but the lock has {}",
                        now.sha256, locked.sha256
                    )),
                    (Ok(_), Some(_)) => Ok("its manifest matches the lock".to_owned()),
                }
            }
        };
        match verdict {
            Ok(words) => print(&format!("ok   {}: {words}\n", entry.package)),
            Err(why) => {
                code = status::NO;
                print(&format!("no   {}: {why}\n", entry.package));
            }
        }
    }
    if entries.is_empty() {
        print("the eval uses no extensions\n");
    }
    code
}

fn describe(name: &str, eval: Option<&Path>, as_json: bool) -> u8 {
    let one = match eval.map(One::read).transpose() {
        Ok(one) => one,
        Err(code) => return code,
    };
    let unit = one.as_ref().map(One::unit);
    let Ok(runtime) = tokio::runtime::Builder::new_multi_thread().enable_all().build() else { return status::BROKEN };
    let host = RealHost::new();
    let lock = unit.map(|unit| Lock::clone(&unit.lock)).unwrap_or_default();
    let mut planned = match unit.and_then(|unit| unit.eval.as_ref()) {
        Some(eval) => compile::extensions(eval, &lock),
        None => plan::Extensions::default(),
    };
    let reference = planned.reference(name).to_owned();
    let means = match package(&reference, planned.substitute) {
        Ok(means) => means,
        Err(why) => {
            complain(&format!("`{reference}` {why}"));
            return status::USAGE;
        }
    };
    let described = runtime.block_on(async {
        if let Package::Release { owner, repo, version } = &means {
            let pinned = planned.releases.get(&reference).cloned();
            let named = planned.cache.clone();
            let release = (owner.clone(), repo.clone(), version.clone());
            let fetched = packages::download(&host, named.as_deref(), &reference, &release, pinned.as_ref()).await?;
            planned.releases.insert(reference.clone(), fetched.locked);
        }
        let dir = unit.and_then(|u| u.eval.as_ref()).map_or(PathBuf::from("."), |eval| eval.dir.clone());
        Extensions::new(&host, &planned, std::env::current_exe().ok()).describe(name, &dir).await
    });
    match described {
        Ok(locked) if as_json => {
            print(&format!("{:#}\n", json!({"package": reference, "extension": locked})));
            status::OK
        }
        Ok(locked) => {
            print(&description(&reference, &locked));
            status::OK
        }
        Err(why) => {
            complain(&why);
            status::BROKEN
        }
    }
}

/// Describes a manifest for people.
fn description(reference: &str, locked: &LockedExtension) -> String {
    let version = if locked.version.is_empty() { String::new() } else { format!(" {}", locked.version) };
    let mut text = format!("{reference}{version}: {}\n", count(locked.operations.len(), "operation", "operations"));
    if !locked.permissions.is_empty() {
        text += &format!("requests {}\n", locked.permissions.words());
    }
    for (name, operation) in &locked.operations {
        let phases = match (operation.action, operation.check) {
            (true, true) => "setup, verify, cleanup",
            (true, false) => "setup, cleanup",
            _ => "verify",
        };
        text += &format!("\n{name}  ({phases})\n");
        if !operation.description.is_empty() {
            text += &format!("  {}\n", operation.description);
        }
        let schema = operation.input_schema.json();
        let required: Vec<&str> =
            schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        for (argument, of) in schema["properties"].as_object().into_iter().flatten() {
            let kind = of.get("type").map_or("any".to_owned(), |kind| match kind {
                Value::String(kind) => kind.clone(),
                other => other.to_string(),
            });
            let must = if required.contains(&argument.as_str()) { ", required" } else { "" };
            let default = of.get("default").map(|d| format!(", default {d}")).unwrap_or_default();
            let about = of.get("description").and_then(Value::as_str).map(|d| format!("  {d}")).unwrap_or_default();
            text += &format!("  - {argument}: {kind}{must}{default}{about}\n");
        }
        for (output, of) in operation.outputs.iter().flatten() {
            let kind = of.get("type").and_then(Value::as_str).unwrap_or("any");
            text += &format!("  → {output}: {kind}\n");
        }
    }
    text
}

fn conform(program: &Path, as_json: bool) -> u8 {
    let Ok(runtime) = tokio::runtime::Builder::new_multi_thread().enable_all().build() else { return status::BROKEN };
    let requirements = match runtime.block_on(conformance(program)) {
        Ok(requirements) => requirements,
        Err(why) => {
            complain(&format!("`{}` {why}", shown(program)));
            return status::USAGE;
        }
    };
    let judgement = Judgement::default();
    print(&write(if as_json { "json" } else { "text" }, &shown(program), &requirements, &judgement));
    if judgement.is_met(&requirements) { status::OK } else { status::NO }
}
