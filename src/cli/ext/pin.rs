//! `gevals ext add`, `update` and `rollback`: change the pins of a lock.

use std::path::{Path, PathBuf};

use indexmap::{IndexMap, IndexSet};

use super::{
    super::{Global, complain, note, overlay::Overlay, packages, print, print_findings, shown, status},
    One,
};
use crate::{
    Options, compile_with,
    diagnostic::Strength,
    dialect::eval::EXTENSION_OPTIONS,
    host::disk::{Disk, write_atomic},
    lock::{FILE_NAME, Lock, LockedRelease},
    package::{Package, package},
    project::references,
    source::{Files, Sources},
    yaml::{Style, Tree, parse, quoted},
};

#[derive(clap::Args, Debug)]
pub struct Add {
    /// The eval that will use it.
    eval: PathBuf,
    /// A package: `github.com/OWNER/REPO@VERSION`, a path relative to the eval's directory, or `builtin:NAME`.
    package: String,
    /// The alias that tasks use [default: the last word of the package].
    #[arg(long = "as", value_name = "ALIAS")]
    alias: Option<String>,
}

#[derive(clap::Args, Debug)]
pub struct Update {
    /// An eval.
    eval: PathBuf,
    /// Extensions to update, by alias or package [default: all].
    names: Vec<String>,
    /// The version to pin, for a single extension; the package in the eval is changed accordingly.
    #[arg(long, value_name = "VERSION")]
    to: Option<String>,
}

#[derive(clap::Args, Debug)]
pub struct Rollback {
    /// An eval.
    eval: PathBuf,
    /// Extensions to restore, by alias or package [default: all].
    names: Vec<String>,
}

fn lock_path(eval: &Path) -> PathBuf {
    eval.parent().unwrap_or(Path::new("")).join(FILE_NAME)
}

fn write(path: &Path, text: &str) -> Result<(), u8> {
    write_atomic(path, text.as_bytes()).map_err(|error| {
        complain(&format!("cannot write `{}`: {error}", shown(path)));
        status::BROKEN
    })
}

/// New contents of files that will be written.
type Changed = IndexMap<PathBuf, String>;

/// Returns `base` with everything about the extensions of an eval, as if `changed` had been written.
fn relocked(
    eval: &Path,
    changed: &Changed,
    base: &Lock,
    update: &dyn Fn(&str) -> bool,
    global: Global,
) -> Result<Lock, u8> {
    let sources = Sources::default();
    let over = Overlay::over(changed.iter().map(|(path, text)| (path.as_path(), text.clone().into_bytes())));
    let compiled = compile_with(&[eval.to_owned()], &Options { soft: false, ..Options::default() }, &sources, &over);
    let Some(unit) = compiled.project.evals.first().filter(|unit| unit.eval.is_some()) else {
        let hard: Vec<_> = compiled.diagnostics.iter().filter(|d| d.strength == Strength::Hard).cloned().collect();
        print_findings(&hard, &sources, compiled.project.files(), global);
        return Err(status::USAGE);
    };
    match packages::find(unit, &packages::of_tasks(&compiled, unit), base, update) {
        Ok(found) => {
            found.remarks.iter().for_each(|remark| note(remark));
            Ok(packages::merged(base, found))
        }
        Err(faults) => {
            faults.iter().for_each(|fault| complain(fault));
            Err(status::BROKEN)
        }
    }
}

/// Writes a lock, and then the files that need it: a package without its pin is an error.
fn commit(eval: &Path, lock: &Lock, changed: &Changed) -> Result<(), u8> {
    let path = lock_path(eval);
    let text = packages::text(lock).map_err(|error| {
        complain(&format!("cannot write `{}`: {error}", shown(&path)));
        status::BROKEN
    })?;
    write(&path, &text)?;
    changed.iter().try_for_each(|(path, text)| write(path, text))
}

pub fn add(args: &Add, global: Global) -> u8 {
    added(args, global).err().unwrap_or(status::OK)
}

fn added(args: &Add, global: Global) -> Result<(), u8> {
    let usage = |message: String| {
        complain(&message);
        status::USAGE
    };
    let one = One::read(&args.eval)?;
    let Some(eval) = &one.unit().eval else { return Err(status::USAGE) };
    package(&args.package, eval.extension_options.substitute)
        .map_err(|why| usage(format!("`{}` {why}", args.package)))?;
    let last = args.package.trim_end_matches('/').rsplit(['/', ':']).next().unwrap_or_default();
    let alias = args.alias.as_deref().unwrap_or_else(|| last.split('@').next().unwrap_or_default());
    if alias.is_empty() || !alias.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_')) {
        return Err(usage(format!("`{alias}` cannot be used as an alias: choose one with `--as`")));
    }
    if EXTENSION_OPTIONS.contains(&alias) {
        return Err(usage(format!(
            "`{alias}` is an option of `extensions:` and cannot be an alias: choose one with `--as`"
        )));
    }
    if let Some(taken) = eval.extensions.iter().find(|e| e.alias.value == alias) {
        let package = taken.package.as_ref().map_or("nothing", |p| p.value.as_str());
        let help = "for another alias: `--as ALIAS`; for another version: `gevals ext update EVAL ALIAS --to VERSION`";
        return Err(usage(format!("the eval already has an extension `{alias}`: `{package}` ({help})")));
    }
    let bytes = Disk.read(&args.eval).map_err(|e| usage(format!("cannot read `{}`: {e}", shown(&args.eval))))?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let entry = format!("{alias}: {{package: {}}}", word(&args.package));
    let changed = with_extension(&text, &entry).ok_or_else(|| {
        usage(format!(
            "`{}` is written in a form that cannot be edited automatically: add `{entry}` under `config.extensions`",
            shown(&args.eval)
        ))
    })?;
    let changed = Changed::from([(args.eval.clone(), changed)]);
    let lock = relocked(&args.eval, &changed, &packages::read(&lock_path(&args.eval)), &|_| false, global)?;
    commit(&args.eval, &lock, &changed)?;
    let operations = lock.extensions.get(alias).map(|e| e.operations.keys().cloned().collect::<Vec<_>>().join(", "));
    let operations = operations.map(|names| format!(": {names}")).unwrap_or_default();
    print(&format!("added `{alias}` to {}{operations}\n", shown(&args.eval)));
    print(&format!(
        "in a task: `requires: [{{extension: {alias}}}]`, or in a portable one `imports: [{{package: {}, as: {alias}}}]`\n",
        word(&args.package)
    ));
    Ok(())
}

/// A package as a YAML scalar.
fn word(package: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "./@_-+:~".contains(c);
    let first = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '/';
    match package.starts_with(first) && package.chars().all(plain) && !package.ends_with(':') {
        true => package.to_owned(),
        false => quoted(package),
    }
}

/// The text of an eval with one more extension.
fn with_extension(text: &str, entry: &str) -> Option<String> {
    let sources = Sources::default();
    let tree: Tree = parse(sources.add(Path::new("eval.yaml"), text), text, &mut Default::default()).ok()?;
    let config = tree.root().get("config")?;
    let mut changed = text.to_owned();
    match config.get("extensions") {
        Some(extensions) if !extensions.is_empty() => {
            let first = extensions.entries().next()?.key;
            let at = first.span().start as usize;
            match extensions.style() {
                Style::Flow => changed.insert_str(at, &format!("{entry}, ")),
                _ => changed.insert_str(at, &format!("{entry}\n{}", " ".repeat(first.column()))),
            }
        }
        Some(_) => {
            let old = config.entry("extensions")?;
            let value = old.value.span();
            match (old.value.is_implicit_null(), old.value.style()) {
                // A comment may follow the colon.
                (true, _) => {
                    let end = text[old.key.span().end as usize..]
                        .find('\n')
                        .map_or(text.len(), |n| old.key.span().end as usize + n);
                    changed.insert_str(end, &format!("\n{}{entry}", " ".repeat(old.key.column() + 2)));
                }
                _ => changed.replace_range(value.start as usize..value.end as usize, &format!("{{{entry}}}")),
            }
        }
        None => {
            let first = config.entries().next()?.key;
            let at = first.span().start as usize;
            let indent = " ".repeat(first.column());
            match config.style() {
                Style::Flow => changed.insert_str(at, &format!("extensions: {{{entry}}}, ")),
                _ => changed.insert_str(at, &format!("extensions:\n{indent}  {entry}\n{indent}")),
            }
        }
    }
    Some(changed)
}

/// The releases that names of an eval refer to; without names, all releases.
fn chosen(one: &One, names: &[String]) -> Result<IndexSet<String>, u8> {
    let unit = one.unit();
    let Some(eval) = &unit.eval else { return Err(status::USAGE) };
    let all = references(eval, packages::of_tasks(&one.compiled, unit).into_iter());
    let is_release =
        |name: &str| matches!(package(name, eval.extension_options.substitute), Ok(Package::Release { .. }));
    if names.is_empty() {
        return Ok(all.iter().map(|r| r.package).filter(|p| is_release(p)).map(str::to_owned).collect());
    }
    let mut found = IndexSet::new();
    for name in names {
        match all.iter().find(|r| r.alias == Some(name) || r.package == name) {
            Some(reference) if is_release(reference.package) => drop(found.insert(reference.package.to_owned())),
            Some(reference) => {
                complain(&format!("`{}` is not a release: only its manifest pins it", reference.package));
                return Err(status::USAGE);
            }
            None => {
                complain(&format!("the eval has no extension `{name}`"));
                return Err(status::USAGE);
            }
        }
    }
    Ok(found)
}

pub fn update(args: &Update, global: Global) -> u8 {
    updated(args, global).err().unwrap_or(status::OK)
}

fn updated(args: &Update, global: Global) -> Result<(), u8> {
    let one = One::read(&args.eval)?;
    let chosen = chosen(&one, &args.names)?;
    if let Some(version) = &args.to {
        let ([_], Some(old)) = (args.names.as_slice(), chosen.first()) else {
            complain("`--to` requires the name of a single extension");
            return Err(status::USAGE);
        };
        let moves = IndexMap::from([(old.clone(), at(old, version))]);
        let lock = packages::read(&lock_path(&args.eval));
        return moved(&one, &moves, &lock, &lock, global);
    }
    let old = packages::read(&lock_path(&args.eval));
    let new = relocked(&args.eval, &Changed::new(), &old, &|name| chosen.contains(name), global)?;
    commit(&args.eval, &new, &Changed::new())?;
    for name in &chosen {
        report(name, &old, &new, name);
    }
    if chosen.is_empty() {
        print("none of the eval's extensions is a release\n");
    }
    Ok(())
}

/// The package of a reference, with another version.
fn at(reference: &str, version: &str) -> String {
    format!("{}@{version}", reference.split('@').next().unwrap_or(reference))
}

/// Replaces packages: in the eval and in the tasks that name them, and in the lock, which starts as `base`.
fn moved(one: &One, moves: &IndexMap<String, String>, old: &Lock, base: &Lock, global: Global) -> Result<(), u8> {
    let unit = one.unit();
    let tasks = one.compiled.project.tasks.iter().map(|task| task.path.clone());
    let mut changed = Changed::new();
    for path in std::iter::once(unit.path.clone()).chain(tasks) {
        let text = Disk.read(&path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
        let new = moves.iter().fold(text.clone(), |text, (from, to)| renamed(&text, from, to));
        if new != text {
            changed.insert(path, new);
        }
    }
    let mut lock = relocked(&unit.path, &changed, base, &|_| false, global)?;
    for (from, to) in moves.iter().filter(|(from, to)| from != to) {
        let previous = old.releases.get(from).map(without_previous);
        if let Some(release) = lock.releases.get_mut(to) {
            release.previous = release.previous.take().or(previous);
        }
    }
    commit(&unit.path, &lock, &changed)?;
    for (from, to) in moves {
        report(from, old, &lock, to);
    }
    for path in changed.keys() {
        print(&format!("changed {}\n", shown(path)));
    }
    Ok(())
}

fn without_previous(release: &LockedRelease) -> Box<LockedRelease> {
    Box::new(LockedRelease { previous: None, ..release.clone() })
}

/// Replaces a reference in a text, unless it is part of a longer word.
fn renamed(text: &str, old: &str, new: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(old) {
        let behind = &rest[at + old.len()..];
        let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        out += &rest[..at];
        let longer = out.ends_with(is_part) || behind.starts_with(|c| is_part(c) || matches!(c, '+' | '/' | '@'));
        out += if longer { old } else { new };
        rest = behind;
    }
    out + rest
}

/// Prints what happened to a pin.
fn report(name: &str, old: &Lock, new: &Lock, now: &str) {
    let (Some(is), was) = (new.releases.get(now), old.releases.get(name)) else { return };
    print(&match was {
        Some(was) if was.tag == is.tag && was.files == is.files => format!("{now} is {} as before\n", is.tag),
        Some(was) if was.tag == is.tag => format!("{now} is {}: its files have changed\n", is.tag),
        Some(was) => format!("{now} is {}; it was {}\n", is.tag, was.tag),
        None => format!("{now} is {}\n", is.tag),
    });
}

pub fn rollback(args: &Rollback, global: Global) -> u8 {
    rolled_back(args, global).err().unwrap_or(status::OK)
}

fn rolled_back(args: &Rollback, global: Global) -> Result<(), u8> {
    let one = One::read(&args.eval)?;
    let chosen = chosen(&one, &args.names)?;
    let old = packages::read(&lock_path(&args.eval));
    let mut base = old.clone();
    let mut moves = IndexMap::new();
    for name in &chosen {
        let Some(now) = old.releases.get(name) else { continue };
        let Some(previous) = &now.previous else { continue };
        let version = name.split_once('@').map_or("latest", |(_, version)| version);
        let to = if version == "latest" { name.clone() } else { at(name, &previous.tag) };
        let back = LockedRelease { previous: Some(without_previous(now)), ..LockedRelease::clone(previous) };
        base.releases.insert(to.clone(), back);
        moves.insert(name.clone(), to);
    }
    if moves.is_empty() {
        complain("there is nothing to restore: no pin of the eval was updated");
        return Err(status::NO);
    }
    // The manifests are those of the versions that are pinned now.
    moved(&one, &moves, &old, &base, global)
}
