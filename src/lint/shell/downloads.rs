//! Downloads of scripts that are not compared with the content at the time when the task was written.

use crate::{
    bash::{
        Word,
        program::{Kind, Statement},
        tools,
    },
    diagnostic::{Diagnostic, Diagnostics},
    lint::{TaskView, script::ScriptView},
    rule,
};

rule! {
    pub static DOWNLOAD_WITHOUT_DIGEST = "download-without-digest", Warning;
}

/// How a download is used.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    /// It is saved to a file.
    Saved,
    /// A shell, an interpreter or an unpacker reads it.
    Run,
    /// It is applied to the cluster.
    Applied,
    /// It is a copy of a repository at the current state of its branch.
    Cloned,
}

pub fn check(view: &TaskView<'_>, out: &mut Diagnostics) {
    let mut found = Vec::new();
    for script in view.scripts.iter().filter(|s| s.content.text.contains("://")) {
        let program = &script.content.program;
        program.walk(&mut |s| look(s, &script.content.text, &mut |word, used| found.push((script, word, used))));
    }
    if found.is_empty() {
        return;
    }
    let compares = view.scripts.iter().any(|s| s.content.program.commands().into_iter().any(compares));
    let names_commit = view.scripts.iter().any(|s| {
        let commits = |c: &&Statement| c.name() == "git" && c.words().iter().any(|w| has_hash(&w.text));
        s.content.program.commands().iter().any(commits)
    });
    for (script, word, used) in found {
        let known = match used {
            Use::Saved | Use::Run => compares,
            Use::Applied => false,
            Use::Cloned => names_commit,
        };
        if !known && !has_hash(&word.text) {
            out.push(finding(script, word, used));
        }
    }
}

fn finding(script: &ScriptView<'_>, word: &Word, used: Use) -> Diagnostic {
    let help = match used {
        Use::Saved => "store the file beside the task, or check its digest: `echo \"DIGEST  FILE\" | sha256sum -c -`",
        Use::Run => {
            "store the file beside the task, or save it first and check its digest: `echo \"DIGEST  FILE\" | sha256sum -c -`"
        }
        Use::Applied => "store the manifest beside the task, or use a URL with a commit instead of a branch or tag",
        Use::Cloned => "check out a commit by its full hash: `git checkout COMMIT`",
    };
    let message = format!("the content of `{}` may change", url(&word.text));
    Diagnostic::new(&DOWNLOAD_WITHOUT_DIGEST, script.content.span(word.range.clone()), message)
        .here(match used {
            Use::Cloned => "no commit is specified",
            _ => "its digest is not checked",
        })
        .help(help)
}

/// Reports what one statement itself downloads, and how it is used.
fn look<'s>(statement: &'s Statement, text: &str, report: &mut dyn FnMut(&'s Word, Use)) {
    match &statement.kind {
        // curl … | bash
        Kind::Pipeline(parts) => {
            for (at, part) in parts.iter().enumerate() {
                let Some(url) = fetched(part).filter(|_| !saves(part, text)) else { continue };
                if let Some(used) = parts[at + 1..].iter().find_map(takes) {
                    report(url, used);
                }
            }
        }
        Kind::Command(words) => {
            if let Some(url) = fetched(statement).filter(|_| saves(statement, text)) {
                report(url, Use::Saved);
            }
            // bash <(curl …), sh -c "$(curl …)"
            if takes(statement) == Some(Use::Run) || matches!(statement.name(), "source" | "." | "eval") {
                statement.nested.iter().filter_map(fetched).for_each(|url| report(url, Use::Run));
            }
            let verb = |verbs: &[&str]| words.iter().take(4).any(|w| verbs.contains(&w.text.as_str()));
            match statement.tool() {
                "kubectl" if verb(&["apply", "create", "replace"]) && !tools::is_dry(words) => {
                    words.iter().filter(|w| remote(&w.text)).for_each(|w| report(w, Use::Applied));
                }
                "git" if verb(&["clone"]) => {
                    words.iter().filter(|w| remote(&w.text)).for_each(|w| report(w, Use::Cloned));
                }
                _ => {}
            }
        }
        _ => {}
    }
}

/// Returns the address that `curl` or `wget` downloads.
fn fetched(statement: &Statement) -> Option<&Word> {
    let fetches = matches!(statement.name(), "curl" | "wget");
    let sends = |w: &Word| matches!(w.text.as_str(), "-d" | "--data" | "-X" | "--request" | "-T" | "--upload-file");
    let words = statement.words();
    fetches.then(|| words.iter().find(|w| remote(&w.text)).filter(|_| !words.iter().any(sends)))?
}

/// Returns a word without the flag before it: `--filename=URL`.
fn url(word: &str) -> &str {
    word.split_once('=').filter(|_| word.starts_with('-')).map_or(word, |(_, url)| url)
}

/// Whether a word is an external address: neither on this machine nor in the cluster.
fn remote(word: &str) -> bool {
    let Some(rest) = ["https://", "http://", "ftp://"].iter().find_map(|scheme| url(word).strip_prefix(scheme)) else {
        return false;
    };
    let host = rest.split(['/', ':', '?']).next().unwrap_or_default();
    let plain = host.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-'));
    let numbers = host.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let inside = ["svc", "local", "localhost", "internal", "test", "invalid"];
    plain && !numbers && host.contains('.') && !host.rsplit('.').next().is_some_and(|end| inside.contains(&end))
}

/// Whether a download is saved to a file.
fn saves(statement: &Statement, text: &str) -> bool {
    let words = statement.words();
    // Of combined flags (`-fsSLo`), the last may take the next word.
    let short = |word: &str, flag: char| {
        word.strip_prefix('-').is_some_and(|f| f.ends_with(flag) && f.bytes().all(|b| b.is_ascii_alphabetic()))
    };
    let value = |flag: char, long: &str| {
        words.iter().enumerate().find_map(|(at, word)| match word.text.strip_prefix(long) {
            Some(rest) if rest.starts_with('=') => Some(rest[1..].to_owned()),
            Some("") => Some(words.get(at + 1)?.text.clone()),
            _ if short(&word.text, flag) => Some(words.get(at + 1)?.text.clone()),
            // `-O-`, `-qO-`
            _ if word.text.strip_suffix('-').is_some_and(|w| short(w, flag)) => Some("-".to_owned()),
            _ => None,
        })
    };
    match statement.name() {
        "curl" => {
            let named = words.iter().any(|w| short(&w.text, 'O') || w.text == "--remote-name");
            let file = value('o', "--output");
            named || file.map_or_else(|| redirected(statement, text), |file| !nowhere(&file))
        }
        _ => match value('O', "--output-document") {
            Some(file) if file == "-" => redirected(statement, text),
            Some(file) => !nowhere(&file),
            None => !words.iter().any(|w| w.text == "--spider"),
        },
    }
}

/// Whether standard output is redirected to a file that persists. Redirections are the text
/// between the words of a statement.
fn redirected(statement: &Statement, text: &str) -> bool {
    let starts = statement.words().iter().map(|w| w.range.start).skip(1).chain([statement.range.end]);
    let gaps = statement.words().iter().zip(starts).filter_map(|(word, end)| text.get(word.range.end..end));
    gaps.filter_map(|gap| gap.split_once('>')).any(|(before, target)| {
        let target = target.trim_start_matches('>').trim();
        !before.ends_with('2') && !target.starts_with('&') && !nowhere(target)
    })
}

fn nowhere(file: &str) -> bool {
    file == "-" || file.starts_with("/dev/")
}

/// Returns how a command uses its input.
fn takes(statement: &Statement) -> Option<Use> {
    let words = statement.words();
    let words = match statement.name() {
        "sudo" | "env" => &words[1..],
        _ => words,
    };
    let name = words.iter().find(|w| !w.text.starts_with('-') && !w.text.contains('='))?;
    match tools::canonical(name.text.rsplit('/').next()?) {
        shell if tools::SHELLS.contains(&shell) => Some(Use::Run),
        "python" | "python3" | "node" | "perl" | "ruby" => Some(Use::Run),
        "tar" | "gunzip" | "bsdtar" | "psql" | "mysql" | "sqlite3" | "tee" => Some(Use::Run),
        "kubectl" if !tools::is_dry(words) => {
            words.iter().any(|w| matches!(w.text.as_str(), "apply" | "create" | "replace")).then_some(Use::Run)
        }
        _ => None,
    }
}

/// Whether a command compares a digest or a signature.
fn compares(statement: &Statement) -> bool {
    let second = statement.words().get(1).map_or("", |w| w.text.as_str());
    match statement.name() {
        "sha1sum" | "sha224sum" | "sha256sum" | "sha384sum" | "sha512sum" | "shasum" | "b2sum" | "b3sum" => true,
        "gpg" | "gpgv" | "cosign" | "minisign" | "slsa-verifier" => true,
        "openssl" => matches!(second, "dgst" | "sha256" | "sha512"),
        "gh" => second == "attestation",
        _ => false,
    }
}

/// Whether a word contains a hexadecimal number as long as that of a commit or a digest.
fn has_hash(text: &str) -> bool {
    text.split(|c: char| !c.is_ascii_hexdigit()).any(|part| matches!(part.len(), 40 | 64))
}
