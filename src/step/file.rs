//! `file`: creates, removes or inspects a file.

use std::path::Path;

use futures_util::future::BoxFuture;
use serde_json::Map;

use super::{
    Context, Done, Stop,
    compare::{self, Compared},
};
use crate::{
    builtin::file::{Expect, File},
    event::Outcome,
    host::Entry,
    source::ReadError,
};

pub fn run(cx: Context<'_>) -> BoxFuture<'_, Done> {
    Box::pin(async move { Done::from(file(&cx)) })
}

fn file(cx: &Context<'_>) -> Result<Done, Stop> {
    let File { path: name, content, mode, absent } = cx.decode()?;
    if name.is_empty() {
        return Err("the path is empty".to_owned().into());
    }
    let path = cx.dir.join(&name);
    if let Some(content) = content {
        make(cx, &path, &content, octal(&mode)?).map_err(|e| format!("`{name}` could not be written: {e}"))?;
    } else if absent {
        // Never remove a whole directory because of a mistake in the path.
        if entry(cx, &path, &name)? == Some(Entry::Dir) {
            return Err(format!("`{name}` is a folder; `absent` removes files only").into());
        }
        cx.host.remove(&path).map_err(|e| format!("`{name}` could not be removed: {e}"))?;
    } else {
        let expect = cx.expected::<Expect>(&Map::new())?;
        let expect = expect.ok_or_else(|| "neither `content` nor `absent` nor `expect` is given".to_owned())?;
        return Ok(Done::new(Outcome::Passed, "").judged(look(cx, &path, &name, &expect)));
    }
    Ok(Done::new(Outcome::Passed, ""))
}

fn make(cx: &Context<'_>, path: &Path, content: &str, mode: u32) -> std::io::Result<()> {
    if let Some(parent) = path.parent() {
        cx.host.create_dir_all(parent)?;
    }
    cx.host.write(path, content.as_bytes(), Some(mode))
}

fn look(cx: &Context<'_>, path: &Path, name: &str, expect: &Expect) -> Result<Compared, String> {
    let mut found = Compared::default();
    let entry = entry(cx, path, name)?;
    let actual = match entry {
        None => "it does not exist".to_owned(),
        Some(Entry::File | Entry::Dir | Entry::LinkToDir) => "it exists".to_owned(),
        Some(Entry::BrokenLink) => "it is a link that leads nowhere".to_owned(),
        Some(Entry::Special(kind)) => format!("it exists, and is {kind}"),
    };
    let (expected, differs) = match expect.exists {
        true => ("it exists", matches!(entry, None | Some(Entry::BrokenLink))),
        false => ("it does not exist", entry.is_some()),
    };
    found.add(differs.then(|| compare::difference(name, expected, &actual)));
    if differs || entry.is_none() {
        return Ok(found);
    }
    let demands = expect.demands();
    if demands.is_some() {
        match cx.host.files().read(path) {
            Ok(bytes) => {
                let text = String::from_utf8_lossy(&bytes);
                found.extend(compare::part(name, &demands, &text)?);
            }
            Err(ReadError::IsDir) => found.add(Some(compare::difference(name, "a file", "a folder"))),
            Err(e) => return Err(format!("`{name}` could not be read: {e}")),
        }
    }
    if let Some(expected) = &expect.mode {
        let actual = cx.host.mode(path).map_err(|e| format!("the mode of `{name}` could not be read: {e}"))?;
        let differs = octal(expected)? != actual;
        let difference = || compare::difference(&format!("mode of {name}"), expected, &format!("{actual:04o}"));
        found.add(differs.then(difference));
    }
    Ok(found)
}

fn entry(cx: &Context<'_>, path: &Path, name: &str) -> Result<Option<Entry>, String> {
    cx.host.entry(path).map_err(|e| format!("`{name}` could not be examined: {e}"))
}

fn octal(mode: &str) -> Result<u32, String> {
    let digits = mode.strip_prefix("0o").unwrap_or(mode);
    let bits = u32::from_str_radix(digits, 8).ok().filter(|bits| *bits <= 0o7777 && !digits.starts_with('+'));
    bits.ok_or_else(|| format!("`{mode}` is not an octal mode such as `0644`"))
}
