//! `gevals evals diff`: shows what has changed in the evals of a server.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{Fault, Global, Reach, Reached, pinned, pinned::Pinned, ready, with_server};
use crate::{
    builtin::count,
    cli::{complain, note, print, status},
    diagnostic::{Diagnostics, Pretty, Strength, concise, visible},
    evals::Server,
    host::disk::Disk,
    lock::{EvalChanges, LockedEvals},
    primitive,
    source::{Files, Sources},
    yaml,
};

const EXAMPLES: &str = "\
Examples:
  gevals evals diff -- my-server           since `gevals evals lock`
  gevals evals diff old.json -- my-server  since `gevals evals list --format json` wrote this file
  gevals evals diff old.yaml new.yaml      between two files of evals
  gevals evals diff --format json --mcp-config mcp.json notes

For changed evals, the changed parts are shown: `input`, `expected`, `gradingType`; `name` stands
for everything that decides nothing. An eval counts as renamed if it asks and expects the same as
another one did. Tools that have lost their last eval are listed.

Exit status: 0 no differences, 1 differences, 2 usage error, unreadable, or not locked, 3 the server
does not start or does not list its evals";

/// Show how the evals of a server differ from the locked ones, or from a file.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The old evals: a file of evals, or the output of `gevals evals list --format json`. Then the new ones: another file, or a server:
    /// a URL, or a name in the MCP config.
    #[arg(value_name = "OLD|NEW|SERVER", num_args = 0..=2)]
    words: Vec<String>,
    /// The lock [default: gevals.lock beside the MCP config, or in the current directory].
    #[arg(long, value_name = "FILE")]
    lock: Option<PathBuf>,
    /// Output format.
    #[arg(long, default_value = "text", value_parser = ["text", "json"])]
    format: String,
    #[command(flatten)]
    reach: Reach,
}

/// What is compared.
enum Wanted<'a> {
    Files(&'a str, &'a str),
    /// It is compared with a file, or else with the lock.
    Server(Box<Reached>, Option<&'a str>),
}

pub fn main(args: &Args, _: Global) -> u8 {
    let done = wanted(args).and_then(|wanted| match wanted {
        Wanted::Files(old, new) => {
            let (then, now) = (read(Path::new(old))?, read(Path::new(new))?);
            Ok(show(args, old, new, &then, &now))
        }
        Wanted::Server(reached, file) => {
            let then = file.map(|path| read(Path::new(path))).transpose()?;
            let pinned = Pinned::of(args.lock.as_deref(), &args.reach, &reached);
            Ok(with_server(*reached, async |server| {
                let then = match then {
                    Some(then) => then,
                    None => pinned.evals(server)?,
                };
                let now = shipped(server).await?;
                let lock = pinned.path.display().to_string();
                Ok(show(args, file.unwrap_or(&lock), pinned.name(server), &then, &now))
            }))
        }
    });
    done.unwrap_or_else(|(code, why)| {
        complain(&visible(&why));
        code
    })
}

fn wanted(args: &Args) -> Result<Wanted<'_>, Fault> {
    let words: Vec<&str> = args.words.iter().map(String::as_str).collect();
    let is_url = |word: &str| word.starts_with("http://") || word.starts_with("https://");
    let is_server = |word: &str| is_url(word) || args.reach.mcp_config.is_some();
    let (file, server) = match words.as_slice() {
        [old, new] if !is_server(new) && !args.reach.names_one() => return Ok(Wanted::Files(old, new)),
        [] => (None, None),
        [file] if args.reach.names_one() => (Some(*file), None),
        [server] if is_server(server) => (None, Some(*server)),
        [file, server] if is_server(server) => (Some(*file), Some(*server)),
        [file] => {
            return Err((status::USAGE, format!("nothing to compare `{file}` with: specify another file or a server")));
        }
        _ => return Err((status::USAGE, "specify two files, or a file and a server".to_owned())),
    };
    Ok(Wanted::Server(Box::new(args.reach.server(server)?), file))
}

/// Reads the evals of a file, or of a saved list.
fn read(path: &Path) -> Result<LockedEvals, Fault> {
    let usage = |why: String| (status::USAGE, why);
    let bytes = Disk.read(path).map_err(|error| usage(format!("cannot read `{}`: {error}", path.display())))?;
    let (sources, mut out) = (Sources::default(), Diagnostics::default());
    let text = yaml::decode_utf8(bytes).map_err(|_| usage(format!("`{}` is not valid UTF-8", path.display())))?;
    let file = sources.add(path, text.as_str());
    let document = yaml::parse(file, text, &mut out).ok().map(|tree| match tree.root().get("kind") {
        Some(_) => primitive::file(tree, &mut out),
        None => primitive::page(tree, &mut out),
    });
    if let Some(document) = &document {
        primitive::check(std::slice::from_ref(document), None, &mut out);
    }
    match document.filter(|_| !out.has_hard()) {
        Some(document) => Ok(LockedEvals::of("", &document.evals)),
        None => {
            let hard: Vec<_> = out.into_sorted(&sources).into_iter().filter(|d| d.strength == Strength::Hard).collect();
            let mut text = String::new();
            let _ = concise(&hard, &sources, &Pretty::default(), &mut text);
            Err(usage(text.trim_end().to_owned()))
        }
    }
}

/// What the server ships now: nothing if it does not declare the capability.
async fn shipped(server: &Server) -> Result<LockedEvals, Fault> {
    if server.capability.is_none() {
        note(&format!("the server `{}` does not declare the capability `evals`", visible(&server.name)));
        return Ok(LockedEvals { version: server.version.clone(), ..LockedEvals::default() });
    }
    let shipped = ready::sound(server, None).await?;
    Ok(LockedEvals::of(&server.version, &shipped.evals))
}

fn show(args: &Args, old: &str, new: &str, then: &LockedEvals, now: &LockedEvals) -> u8 {
    let changes = then.changes(now);
    print(&match args.format.as_str() {
        "json" => format!("{:#}\n", document(&changes, then, now)),
        _ => text(old, new, &changes, then, now),
    });
    if changes.is_empty() { status::OK } else { status::NO }
}

fn document(changes: &EvalChanges, then: &LockedEvals, now: &LockedEvals) -> Value {
    let mut document = serde_json::to_value(changes).unwrap_or_default();
    document["same"] = changes.is_empty().into();
    document["evals"] = json!({"from": then.evals.len(), "to": now.evals.len()});
    document["version"] = json!({"from": then.version, "to": now.version});
    document
}

fn text(old: &str, new: &str, changes: &EvalChanges, then: &LockedEvals, now: &LockedEvals) -> String {
    let mut text = pinned::told(changes);
    if !then.version.is_empty() && then.version != now.version {
        text += &visible(&format!("the version of the server is `{}`; it was `{}`", now.version, then.version));
        text.push('\n');
    }
    let (old, new) = (visible(old), visible(new));
    text + &match changes.is_empty() {
        true => format!("{} of {new} are the same as in {old}\n", count(now.evals.len(), "eval", "evals")),
        false => format!("{} between {old} and {new}\n", count(changes.len(), "difference", "differences")),
    }
}
