//! Things that two tasks touch at the same time.

use std::{borrow::Cow, sync::LazyLock};

use indexmap::IndexMap;
use regex::Regex;

use super::EvalView;
use crate::{
    builtin,
    diagnostic::{Diagnostic, Diagnostics},
    hir::{Arg, ArgKind, Part, PhaseKind, Step, Task, Template},
    rule,
    source::{Files, Span, resolve},
    template,
};

rule! {
    pub static SAME_RESOURCE_IN_PARALLEL_TASKS = "same-resource-in-parallel-tasks", Warning;
}

/// Where a task touches a thing.
#[derive(Clone, Copy)]
struct Touch {
    task: usize,
    place: Span,
}

/// Who touches a thing first, and who is the first to make or delete it.
#[derive(Default)]
struct Touches {
    any: Option<Touch>,
    owner: Option<Touch>,
}

/// Parallel tasks of which one makes or deletes what the other touches, too.
pub fn check(view: &EvalView<'_>, out: &mut Diagnostics) {
    let mut known: IndexMap<String, Touches> = IndexMap::new();
    for (index, unit) in view.tasks.iter().enumerate() {
        let Some(task) = unit.task.as_ref().filter(|t| t.meta.parallel) else { continue };
        let mut told: Vec<String> = Vec::new();
        task.walk(&mut |phase, step| {
            for Thing { what, owned } in things(task, phase, step, view.files) {
                let here = Touch { task: index, place: step.key };
                let touches = known.entry(what.clone()).or_default();
                let other = if owned { touches.any } else { touches.owner }.filter(|t| t.task != index);
                if let Some(other) = other.filter(|_| !told.contains(&what)) {
                    out.push(
                        Diagnostic::new(
                            &SAME_RESOURCE_IN_PARALLEL_TASKS,
                            here.place,
                            format!("another task that may run at the same time uses {what}, too"),
                        )
                        .label(other.place, "there")
                        .help("put `{random.id}` into the name, or take `parallel: true` from one of the tasks"),
                    );
                    told.push(what);
                }
                touches.any.get_or_insert(here);
                if owned {
                    touches.owner.get_or_insert(here);
                }
            }
        });
    }
}

type Raw = Step<template::Path>;

/// Something that a step touches, in words; only what is written out whole.
struct Thing {
    what: String,
    /// Whether the step makes it, changes it or deletes it: then nobody else can use it meanwhile.
    owned: bool,
}

fn things(task: &Task<template::Path>, phase: PhaseKind, step: &Raw, files: &dyn Files) -> Vec<Thing> {
    let literal = |key: &str| step.arg(key).and_then(Arg::as_literal);
    let owned = |what: String| vec![Thing { what, owned: true }];
    match step.op.value.as_str() {
        "file" => match (literal("path"), step.arg("content")) {
            (Some(path), Some(_)) => owned(format!("the file `{}`", resolve(&task.dir, path).display())),
            _ => Vec::new(),
        },
        "http" => {
            let method = literal("method").unwrap_or("GET").to_uppercase();
            match literal("url") {
                Some(url) if matches!(method.as_str(), "PUT" | "PATCH" | "DELETE") => owned(format!("the URL `{url}`")),
                // What is made from one body twice has one name. A question may be asked twice.
                Some(url) if method == "POST" && phase == PhaseKind::Setup => {
                    match step.arg("body").and_then(Arg::as_value) {
                        Some(body) => {
                            owned(format!("the request `POST {url}` ({})", builtin::excerpt(&body.to_string())))
                        }
                        None => Vec::new(),
                    }
                }
                _ => Vec::new(),
            }
        }
        "command" | "script" => match step.arg("run").or_else(|| step.arg("inline")).map(|a| &a.kind) {
            Some(ArgKind::Text(text)) => in_script(&with_variables(&with_marks(text), task)),
            _ => {
                let text = literal("file").and_then(|file| files.read(&resolve(&task.dir, file)).ok());
                text.and_then(|t| String::from_utf8(t).ok())
                    .map_or_else(Vec::new, |text| in_script(&with_variables(&text, task)))
            }
        },
        name if name.contains('.') && phase == PhaseKind::Setup => {
            let makes = ["create", "apply", "add", "new", "put", "write", "insert", "deploy", "install"];
            let verb = name.to_lowercase();
            let args = ArgKind::Record(step.args.clone());
            match Arg::new(args, step.span).as_value() {
                Some(value) if !step.args.is_empty() && makes.iter().any(|m| verb.contains(m)) => {
                    owned(format!("the same by `{name}` ({})", builtin::excerpt(&value.to_string())))
                }
                _ => Vec::new(),
            }
        }
        _ => Vec::new(),
    }
}

/// The text, with a mark that is part of no name for each hole.
fn with_marks(text: &Template<template::Path>) -> String {
    let parts = text.parts.iter().map(|p| match p {
        Part::Text(text) => text.clone(),
        // A variable of the task is put in with those of the shell.
        Part::Hole(hole) => match hole.text.strip_prefix("{env.").and_then(|rest| rest.strip_suffix('}')) {
            Some(name) if name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') => format!("${{{name}}}"),
            _ => "{hole}".to_owned(),
        },
    });
    parts.collect()
}

/// The text with the literal variables of the task in it, as the shell will read it.
fn with_variables(text: &str, task: &Task<template::Path>) -> String {
    let mut text = text.to_owned();
    for (name, value) in &task.env {
        let Some(value) = value.as_literal().filter(|_| text.contains(&name.value)) else { continue };
        text = text.replace(&format!("${{{}}}", name.value), value);
        let mut out = String::new();
        let mut rest = text.as_str();
        let mark = format!("${}", name.value);
        while let Some((before, behind)) = rest.split_once(&mark) {
            out.push_str(before);
            let ends = !behind.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
            out.push_str(if ends { value } else { &mark });
            rest = behind;
        }
        out.push_str(rest);
        text = out;
    }
    text
}

fn in_script(text: &str) -> Vec<Thing> {
    // A line that ends in a backslash goes on.
    let text = &*match text.contains("\\\n") {
        true => Cow::Owned(text.replace("\\\n", " ")),
        false => Cow::Borrowed(text),
    };
    let found = |pattern: &'static Pattern| {
        let things = pattern.regex.captures_iter(text).map(move |c| (pattern, c[1].to_owned()));
        things.collect::<Vec<_>>()
    };
    let all = PATTERNS.iter().flat_map(found);
    // What every cluster has is nobody's.
    let shared = |kind: &str, name: &str| kind == "namespace" && (name == "default" || name.starts_with("kube-"));
    let things = all.filter(|(pattern, name)| !shared(pattern.kind, name));
    things.map(|(p, name)| Thing { what: format!("the {} `{name}`", p.kind), owned: p.owned }).collect()
}

struct Pattern {
    kind: &'static str,
    owned: bool,
    regex: Regex,
}

/// What scripts touch. A name ends where its word ends, so that none is half of one that is filled in.
static PATTERNS: LazyLock<Vec<Pattern>> = LazyLock::new(|| {
    const END: &str = r#"(?:["'\s;|&)]|$)"#;
    let patterns = [
        ("namespace", true, r#"\b(?:create|delete)\s+(?:namespace|ns|project)\s+["']?([a-z0-9][a-z0-9-]*)"#),
        ("namespace", false, r#"\b(?:kubectl|oc|helm)\b[^\n;|&]*?\s(?:-n|--namespace)[ =]["']?([a-z0-9][a-z0-9-]*)"#),
        ("folder", true, r#"\b(?:mkdir|rm\s+-[a-zA-Z]+|rm)\s+["']?(/[\w./-]+)"#),
        // `-p` takes a folder that is there.
        ("folder", false, r#"\bmkdir\s+-[a-z]*p[a-z]*\s+["']?(/[\w./-]+)"#),
        ("file", true, r#">\s*["']?(/(?:tmp|var)/[\w./-]+)"#),
        ("port", true, r#"\bport-forward\b[^\n;|&]*?\s["']?(\d{2,5}):\d{2,5}"#),
        (
            "port",
            true,
            r#"\b(?:docker|podman)\s+run\b[^\n;|&]*?\s(?:-p|--publish)[ =]["']?(?:[\d.]+:)?(\d{2,5}):\d{2,5}"#,
        ),
        ("container", true, r#"\b(?:docker|podman)\s+(?:run|create)\b[^\n;|&]*?\s--name[ =]["']?(\w[\w.-]*)"#),
        ("port", true, r#"\bhttp\.server\s+(\d{2,5})"#),
        ("port", true, r#"\b(?:nc|ncat|netcat)\s+(?:-[a-z]+\s+)*-[a-z]*l[a-z]*\s+(?:-p\s+)?(\d{2,5})"#),
        (
            "URL",
            true,
            r#"\bcurl\b[^\n;|&]*?\s(?:-X|--request)[ =]?["']?(?:PUT|PATCH|DELETE)\b[^\n;|&]*?\s["']?(https?://[^\s"'{}$&|;]+)"#,
        ),
    ];
    let whole =
        |(kind, owned, p): (_, _, &str)| Some(Pattern { kind, owned, regex: Regex::new(&format!("{p}{END}")).ok()? });
    patterns.into_iter().filter_map(whole).collect()
});

#[cfg(test)]
mod tests {
    use super::{PATTERNS, in_script};

    #[test]
    fn only_whole_names_count() {
        assert_eq!(PATTERNS.len(), 11, "every pattern compiles");
        let found = |text: &str| in_script(text).into_iter().map(|t| t.what).collect::<Vec<_>>().join(", ");
        for (text, what) in [
            ("kubectl create ns demo", "the namespace `demo`"),
            ("kubectl -n demo get pods", "the namespace `demo`"),
            ("mkdir -p /tmp/x\n", "the folder `/tmp/x`"),
            ("echo > /tmp/a", "the file `/tmp/a`"),
            ("kubectl port-forward svc/web 8080:80 &", "the port `8080`"),
            ("docker run -d -p 127.0.0.1:8080:80 nginx", "the port `8080`"),
            ("docker run -d \\\n  --name db \\\n  -p 5432:5432 postgres:16", "the port `5432`, the container `db`"),
            ("python3 -m http.server 8000", "the port `8000`"),
            ("nc -l -p 9000", "the port `9000`"),
            ("curl -s -X PUT https://x/a -d 1", "the URL `https://x/a`"),
            ("kubectl create ns demo-{hole}", ""),
            ("kubectl create ns $NS", ""),
            ("kubectl -n default get pods", ""),
            ("mkdir /tmp/{hole}", ""),
            ("x > /dev/null", ""),
            ("head -n 5; echo -n foo", ""),
            ("kubectl port-forward svc/web :80", ""),
            ("curl -s -X PUT https://x/$A", ""),
        ] {
            assert_eq!(found(text), what, "{text}");
        }
    }
}
