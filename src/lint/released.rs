//! What setup makes and cleanup leaves behind (author mistake 3).

use std::{ops::Range, sync::LazyLock};

use regex::Regex;

use super::{
    TaskView,
    cluster::{Call, in_phase, is_namespace, is_plain},
    script::Reader,
    texts,
};
use crate::{
    bash::{
        Word,
        program::{Kind, Program, Statement},
        tools,
    },
    diagnostic::{Diagnostic, Diagnostics},
    hir::PhaseKind,
    rule,
};

rule! {
    pub static RESOURCE_NOT_RELEASED = "resource-not-released", Warning;
}

/// Something that stays until somebody deletes it.
struct Made {
    what: &'static str,
    name: String,
    /// Something whose deletion deletes this, too.
    within: Option<String>,
    range: Range<usize>,
    /// What deletes it.
    command: String,
}

pub fn check(view: &TaskView<'_>, out: &mut Diagnostics) {
    let setup = || in_phase(view, PhaseKind::Setup);
    let made: Vec<_> =
        setup().map(|s| (s, made(&s.content.text, &s.content.program))).filter(|(_, m)| !m.is_empty()).collect();
    if made.is_empty() || opaque(view) {
        return;
    }
    let cleanup: Vec<&Word> = in_phase(view, PhaseKind::Cleanup).flat_map(|s| said(&s.content.program)).collect();
    let named = |name: &str| cleanup.iter().any(|w| texts::has_word(&w.text, name));
    for (script, all) in made {
        for Made { what, name, within, range, command } in all {
            if !named(&name) && !within.is_some_and(|w| named(&w)) {
                let message = format!("nothing deletes the {what} `{name}`");
                out.push(
                    Diagnostic::new(&RESOURCE_NOT_RELEASED, script.content.span(range), message)
                        .help(format!("add to cleanup: `{command}`")),
                );
            }
        }
    }
}

/// Whether anything may be deleted by a step that is no script, by a label, or by a name that is filled in.
fn opaque(view: &TaskView<'_>) -> bool {
    let mut other = false;
    view.task.cleanup.steps.iter().for_each(|s| s.walk(&mut |s| other |= !is_plain(s)));
    other
        || in_phase(view, PhaseKind::Cleanup).any(|s| {
            s.reader == Reader::Foreign
                || !s.content.program.sound
                || s.content.program.commands().into_iter().any(vague)
        })
}

fn vague(command: &Statement) -> bool {
    let filled = || command.words().iter().any(|w| !w.literal);
    match command.tool() {
        "kubectl" => Call::of(command, "delete")
            .is_some_and(|d| d.has(&["-l", "--selector", "--all", "-f", "--filename", "-k"]) || filled()),
        "docker" | "helm" | "kind" => {
            let sweeping = |w: &Word| matches!(w.text.as_str(), "prune" | "compose" | "clusters" | "--all");
            filled() || command.words().iter().any(sweeping)
        }
        "docker-compose" | "make" | "xargs" | "eval" | "source" | "." => true,
        _ => false,
    }
}

/// The words of the commands that do something: what is printed for people deletes nothing.
fn said(program: &Program) -> Vec<&Word> {
    fn visit<'p>(list: &'p [Statement], piped: bool, found: &mut Vec<&'p Word>) {
        for (at, statement) in list.iter().enumerate() {
            let printed = matches!(statement.name(), "echo" | "printf") && !(piped && at + 1 < list.len());
            if !printed {
                found.extend(statement.words());
            }
            let piped = matches!(statement.kind, Kind::Pipeline(_));
            statement.lists(&mut |l| visit(l, piped, found));
        }
    }
    let mut found = Vec::new();
    visit(&program.body, false, &mut found);
    found
}

fn made(text: &str, program: &Program) -> Vec<Made> {
    let mut found = Vec::new();
    let mut applies = false;
    for command in program.commands() {
        let words = command.words();
        let made = match command.tool() {
            "kubectl" => {
                let fed = |c: Call<'_>| c.words.windows(2).any(|w| w[0].text == "-f" && w[1].text == "-");
                applies |= ["apply", "create"].iter().any(|verb| Call::of(command, verb).is_some_and(fed));
                namespace(command)
            }
            "docker" => container(words),
            "kind" => kind(words),
            "helm" => release(words),
            _ => None,
        };
        found.extend(made.map(|made| Made { range: command.range.clone(), ..made }));
    }
    if applies && text.contains("Namespace") {
        for name in NAMESPACE.captures_iter(text).filter_map(|c| c.get(1)) {
            found.push(Made { range: name.range(), ..deletable_namespace(name.as_str()) });
        }
    }
    found
}

fn new(what: &'static str, name: &str, command: String) -> Made {
    Made { what, name: name.to_owned(), within: None, range: 0..0, command }
}

fn deletable_namespace(name: &str) -> Made {
    new("namespace", name, format!("kubectl delete namespace {name} --ignore-not-found"))
}

fn namespace(command: &Statement) -> Option<Made> {
    let call = Call::of(command, "create")?;
    let [kind, name, ..] = call.named()[..] else { return None };
    (is_namespace(&kind.text) && name.literal).then(|| deletable_namespace(&name.text))
}

/// The value of an option.
fn option<'w>(words: &'w [Word], names: &[&str]) -> Option<(&'w str, bool)> {
    words.iter().enumerate().find_map(|(at, word)| {
        if names.contains(&word.text.as_str()) {
            return words.get(at + 1).map(|w| (w.text.as_str(), w.literal));
        }
        let (name, value) = word.text.split_once('=')?;
        names.contains(&name).then_some((value, word.literal))
    })
}

/// `docker run -d --name NAME`.
fn container(words: &[Word]) -> Option<Made> {
    let tool = &words[0].text;
    let runs = words.get(1).is_some_and(|w| w.text == "run");
    let detached = words.iter().any(|w| w.text == "--detach" || is_short(&w.text, 'd'));
    let removed = words.iter().any(|w| w.text == "--rm" || w.text == "--rm=true");
    let (name, true) = option(words, &["--name"])? else { return None };
    (runs && detached && !removed).then(|| new("container", name, format!("{tool} rm -f {name}")))
}

fn is_short(flag: &str, letter: char) -> bool {
    flag.strip_prefix('-').is_some_and(|f| f.contains(letter) && f.chars().all(|c| c.is_ascii_lowercase()))
}

/// `kind create cluster --name NAME`.
fn kind(words: &[Word]) -> Option<Made> {
    let creates = words.windows(2).any(|w| w[0].text == "create" && w[1].text == "cluster");
    let (name, true) = option(words, &["--name", "-n"]).unwrap_or(("kind", true)) else { return None };
    creates.then(|| new("cluster", name, format!("kind delete cluster --name {name}")))
}

/// `helm install NAME CHART`, `helm upgrade --install NAME CHART`.
fn release(words: &[Word]) -> Option<Made> {
    let verb = words.get(1)?.text.as_str();
    let installs =
        verb == "install" || verb == "upgrade" && words.iter().any(|w| matches!(w.text.as_str(), "--install" | "-i"));
    let named = words.iter().skip(2).find(|w| !matches!(w.text.as_str(), "--install" | "-i"))?;
    if !installs || tools::is_dry(words) || !named.literal || named.text.starts_with('-') {
        return None;
    }
    let namespace = option(words, &["-n", "--namespace"]);
    // What lives in a namespace of a name that is filled in goes with it.
    if namespace.is_some_and(|(_, literal)| !literal) {
        return None;
    }
    let within = namespace.map(|(name, _)| name.to_owned());
    let place = within.as_ref().map_or_else(String::new, |n| format!(" --namespace {n}"));
    Some(Made {
        within,
        ..new("release", &named.text, format!("helm uninstall {}{place} --ignore-not-found", named.text))
    })
}

/// In a manifest.
#[expect(clippy::unwrap_used, reason = "a constant")]
static NAMESPACE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#"(?m)^\s*kind:\s*Namespace\s*\n\s*metadata:\s*\n\s*name:\s*["']?([a-z0-9][a-z0-9-]*)["']?\s*$"#)
        .unwrap()
});
