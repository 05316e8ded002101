//! The prompt and verify name different paths.

use std::{cell::LazyCell, collections::BTreeSet};

use crate::{
    ascii::{Ascii, ascii},
    diagnostic::Diagnostics,
    effects::{Verb, value::Value},
    hir::PhaseKind,
    lint::{
        TaskView,
        analysis::{expected::read_paths, facts},
        prompt::disagrees::disagrees,
    },
    source::Span,
};

/// Each question is a function.
pub fn check(view: &TaskView<'_>, out: &mut Diagnostics) {
    let Some((said, prompt)) = facts::prompt(view) else { return };
    paths(view, prompt, out);
    files(view, prompt, out);
    path_words(view, said, prompt, out);
}

/// Verify reads a file that nothing creates or mentions, and the prompt names one that nothing else mentions.
fn paths(view: &TaskView<'_>, prompt: Span, out: &mut Diagnostics) {
    let model = view.effects;
    let said = model.prompt.shown();
    let is_path = |path: &str| path.starts_with('/') && path.len() > 4;
    let touched: Vec<String> = model
        .acts
        .iter()
        .filter(|act| act.thing.system == "file")
        .filter_map(|act| act.thing.name.as_ref())
        .map(Value::shown)
        .collect();
    let asked: Vec<&str> = PATH.find_iter(&said).map(|m| m.as_str().trim_end_matches(['.', ','])).collect();
    let read = read_paths(view);
    let free: Vec<&str> = asked
        .iter()
        .copied()
        .filter(|path| !read.iter().any(|(_, r)| r.starts_with(path)))
        .filter(|path| {
            is_path(path) && !touched.iter().any(|t| t.starts_with(path) || path.starts_with(t.trim_end_matches('*')))
        })
        .filter(|path| !view.scripts.iter().any(|script| script.content.text.contains(path)))
        .collect();
    let [free] = free.as_slice() else { return };
    for (span, name) in &read {
        let made = model.acts.iter().any(|made| {
            made.verb == Verb::Creates
                && made.thing.system == "file"
                && made.thing.name.as_ref().is_some_and(|m| name.starts_with(&m.shown()))
        });
        let kind =
            |path: &str| path.rsplit('/').next().and_then(|file| file.rsplit_once('.')).map(|(_, end)| end.to_owned());
        if is_path(name) && !made && !said.contains(name.as_str()) && kind(name) == kind(free) {
            out.push(disagrees(*span, name, free, prompt));
            return;
        }
    }
}

/// `out/orders.json` in verify, where the prompt says `orders.json` in the directory above; `getting-started.md`, where the prompt says
/// `getting_started.md`.
fn files(view: &TaskView<'_>, prompt: Span, out: &mut Diagnostics) {
    let read = read_paths(view);
    let said = view.effects.prompt.shown();
    if read.is_empty() || !said.contains('.') {
        return;
    }
    let named: Vec<&str> = FILE.find_iter(&said).map(|file| file.as_str().trim_end_matches('.')).collect();
    let rest = LazyCell::new(|| facts::known(view));
    let mut told: Vec<&str> = Vec::new();
    for (span, path) in &read {
        let Some((folder, file)) = path.rsplit_once('/').filter(|(_, file)| file.contains('.')) else { continue };
        let made = || {
            view.effects.acts.iter().any(|act| {
                act.verb == Verb::Creates && act.thing.name.as_ref().is_some_and(|name| name.shown() == *path)
            })
        };
        let other = named.iter().find(|named| {
            let (other_folder, other) = named.rsplit_once('/').unwrap_or(("", named));
            let below = folder.find(other_folder).map(|at| &folder[at + other_folder.len()..]);
            let moved = other == file && other_folder.len() > 6 && below.is_some_and(|rest| rest.starts_with('/'));
            let spelt = |file: &str| file.to_lowercase().replace(['-', '_'], "");
            let respelt = other != file && spelt(other) == spelt(file) && !said.contains(file);
            (moved && !said.contains(path.as_str()) || respelt)
                && !read
                    .iter()
                    .any(|(_, path)| path.ends_with(&format!("/{other}")) && !(moved && path.ends_with(file)))
        });
        if let Some(other) = other.filter(|_| !told.contains(&file) && !made() && !rest.others.contains(file)) {
            out.push(disagrees(*span, path, other, prompt));
            told.push(file);
        }
    }
}

static FILE: Ascii = ascii(r"[\w./{}-]+\.[a-z]{2,5}\b");

/// `requests for /assets`, but verify looks for `/static`.
fn path_words(view: &TaskView<'_>, said: &str, prompt: Span, out: &mut Diagnostics) {
    let plain = |word: &&str| {
        word.len() > 3
            && word.starts_with('/')
            && word.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'/' | b'-' | b'_' | b'.'))
            && !["/tmp", "/dev", "/usr", "/bin", "/etc", "/proc", "/var", "/home", "/opt", "/root"]
                .iter()
                .any(|own| word.starts_with(own))
    };
    let quoted: BTreeSet<&str> = said.split('`').skip(1).step_by(2).filter(plain).collect();
    let free: Vec<&str> = quoted
        .into_iter()
        .filter(|word| !facts::known(view).verified.contains(word) && !facts::known(view).others.contains(word))
        .collect();
    let [free] = free.as_slice() else { return };
    let mut strange: Vec<(Span, &str)> = Vec::new();
    for script in view.scripts.iter().filter(|script| script.phase == PhaseKind::Verify) {
        let text = script.content.text.as_str();
        for (at, word) in text.match_indices('/').map(|(at, _)| {
            let end = text[at..].find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '/' | '-' | '_' | '.')));
            (at, &text[at..end.map_or(text.len(), |end| at + end)])
        }) {
            let begins = text[..at].ends_with([' ', '"', '\'', '=', '(', '[', ',']);
            if begins
                && plain(&word)
                && !said.contains(word)
                && !facts::known(view).others.contains(word)
                && strange.iter().all(|(_, known)| *known != word)
            {
                strange.push((script.content.span(at..at + word.len()), word));
            }
        }
    }
    if let [(span, word)] = strange.as_slice() {
        out.push(disagrees(*span, word, free, prompt));
    }
}

static PATH: Ascii = ascii(r"/(?:tmp|var|srv|opt|home|work|data)(?:/[\w.{}-]+)+");
