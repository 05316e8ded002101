//! Commands whose output is examined as text, where their exit status interferes or is needed.

use crate::{
    bash::{
        program::{Kind, Statement},
        tools,
    },
    diagnostic::{Diagnostic, Diagnostics, Strength},
    hir::{ArgKind, PhaseKind},
    lint::TaskView,
    rule,
};

rule! {
    pub static GREP_ENDS_SCRIPT = "grep-ends-script", Warning;
    pub static WRONG_STREAM = "wrong-stream", Warning;
    pub static CURL_WITHOUT_FAIL = "curl-without-fail", Warning;
}

/// `n=$(… | grep -c x)` with `set -e`: if grep finds nothing, the script ends before `$n` is examined.
pub fn grep(view: &TaskView<'_>, out: &mut Diagnostics) {
    for script in view.scripts.iter().filter(|script| script.phase == PhaseKind::Verify) {
        let (content, program) = (&script.content, &script.content.program);
        if !program.sound || !program.stops_at_errors() {
            continue;
        }
        let pipefail = program.sets('\0', "pipefail");
        program.walk(&mut |statement| {
            let (Kind::Assignment, [inner]) = (&statement.kind, statement.nested.as_slice()) else { return };
            let ends = |s: &Statement| {
                matches!(s.name(), "grep" | "egrep" | "fgrep" | "pgrep")
                    || s.name() == "git"
                        && tools::operands("git", &s.words()[1..]).next().is_some_and(|w| w.text == "grep")
            };
            let found = match &inner.kind {
                Kind::Command(_) if ends(inner) => Some(inner),
                Kind::Pipeline(parts) => parts
                    .iter()
                    .enumerate()
                    .find(|(at, part)| ends(part) && (pipefail || at + 1 == parts.len()))
                    .map(|(_, part)| part),
                _ => None,
            };
            if found.is_none() {
                return;
            }
            let text = content.text.get(statement.range.clone()).unwrap_or_default();
            let name = text.split('=').next().unwrap_or_default().trim();
            // Whether finding nothing is an expected outcome.
            let none = [
                format!("\"${name}\" -eq 0"),
                format!("${name} -eq 0"),
                format!("\"${name}\" = 0"),
                format!("-z \"${name}\""),
                format!("\"${name}\" -gt 0"),
                format!("\"${name}\" -ne 0"),
                format!("\"${name}\" = \"0\""),
                format!("\"${name}\" == \"0\""),
                format!("\"${name}\" != \"0\""),
                format!("-n \"${name}\""),
                format!("${{{name}}}\" -eq 0"),
                format!("${{{name}}}\" -gt 0"),
                format!("${name} -gt 0"),
                format!("{name} == 0"),
                format!("{name} > 0"),
                format!("\"${name}\" -lt "),
                format!("\"${name}\" -eq "),
                format!("${{{name}}}\" -eq "),
            ];
            if let Some(grep) = found.filter(|_| none.iter().any(|test| content.text.contains(test))) {
                let range = grep.range.clone();
                out.push(
                    Diagnostic::new(
                        &GREP_ENDS_SCRIPT,
                        content.span(range),
                        "if grep finds nothing, `set -e` ends the script here",
                    )
                    .label(content.span(statement.range.clone()), "this check is then never reached")
                    .help("append `|| true` to the grep, or count with `wc -l` the output of `grep … || true`"),
                );
            }
        });
    }
}

/// `kubectl apply … | grep -q forbidden`: errors are written to standard error, but a pipe only reads standard output.
pub fn stream(view: &TaskView<'_>, out: &mut Diagnostics) {
    for script in view.scripts.iter().filter(|script| script.phase == PhaseKind::Verify) {
        let content = &script.content;
        let text = |s: &Statement| content.text.get(s.range.clone()).unwrap_or_default();
        if !content.program.sound || !content.text.contains("grep") && !content.text.contains('*') {
            continue;
        }
        let mut found: Vec<&Statement> = Vec::new();
        let mut captures: Vec<(String, &Statement)> = Vec::new();
        content.program.walk(&mut |s| match &s.kind {
            Kind::Pipeline(parts) => {
                for pair in parts.windows(2) {
                    let looks = matches!(pair[1].name(), "grep" | "egrep" | "fgrep");
                    let between = content.text.get(pair[0].range.end..pair[1].range.start).unwrap_or_default();
                    let merged = between.contains("|&") || between.contains("2>&1") || text(&pair[0]).contains("2>&1");
                    if looks
                        && !merged
                        && (says_errors(&pair[0], text(&pair[1])) || is_silenced(&pair[0], text(&pair[0]), between))
                    {
                        found.push(&pair[0]);
                    }
                }
            }
            Kind::Assignment | Kind::Declaration => {
                if let ([inner], Some((name, _))) = (s.nested.as_slice(), text(s).split_once('='))
                    && !text(s).contains("2>&1")
                {
                    captures.push((name.rsplit(' ').next().unwrap_or(name).to_owned(), inner));
                }
            }
            _ => {}
        });
        for (name, inner) in captures {
            let asks = [format!("\"${name}\""), format!("${name} "), format!("\"${{{name}}}\"")];
            let line = content.text.lines().find(|line| {
                let rest = asks.iter().find_map(|form| Some(&line[line.find(form.as_str())? + form.len()..]));
                rest.is_some_and(|rest| (line.contains("grep") || line.contains("[[")) && says_errors(inner, rest))
            });
            if line.is_some() {
                found.push(inner);
            }
        }
        for statement in found {
            out.push(
                Diagnostic::new(
                    &WRONG_STREAM,
                    content.span(statement.range.clone()),
                    "this text is written to standard error, but only standard output is captured",
                )
                .help("append `2>&1` to the command"),
            );
        }
    }
}

/// `exitCode: {not: 0}` with a text on standard output: programs of this kind print only errors if they fail.
pub fn on_failure(view: &TaskView<'_>, out: &mut Diagnostics) {
    for script in view.scripts.iter().filter(|script| script.phase == PhaseKind::Verify) {
        let Some((_, expect)) = &script.step.expect else { continue };
        let fails = expect.get("exitCode").is_some_and(|status| match &status.kind {
            ArgKind::Int(status) => *status != 0,
            _ => status.get("not").is_some_and(|not| matches!(not.kind, ArgKind::Int(0))),
        });
        let Some(stdout) = expect.get("stdout").filter(|_| fails) else { continue };
        let wanted = stdout.get("contains").or_else(|| stdout.get("matches")).or_else(|| stdout.get("equals"));
        let wanted = wanted.unwrap_or(stdout);
        let content = &script.content;
        let [statement] = content.program.body.as_slice() else { continue };
        let words: Vec<&str> = statement.words().iter().skip(1).map(|word| word.text.as_str()).collect();
        let verb = tools::operands(statement.tool(), &words).next().copied().unwrap_or_default();
        let quiet = match statement.tool() {
            "aws" | "gcloud" | "cat" | "stat" => true,
            "kubectl" => {
                matches!(verb, "get" | "describe" | "create" | "apply" | "patch" | "scale" | "label" | "annotate")
            }
            "helm" => matches!(verb, "status" | "get" | "history"),
            "gh" => words.len() > 1 && words[1] == "view",
            "git" => matches!(verb, "show" | "cat-file"),
            _ => false,
        };
        let merged = content.text.contains(">&") || content.text.contains("&>") || content.text.contains("|&");
        if quiet && !merged && wanted.as_literal().is_some_and(|text| !text.is_empty()) {
            out.push(
                Diagnostic::new(
                    &WRONG_STREAM,
                    wanted.span,
                    format!("if it fails, `{}` prints this on standard error", statement.name()),
                )
                .help("expect it in `stderr`"),
            );
        }
    }
}

/// Whether the pattern searches for a command's errors.
fn says_errors(command: &Statement, wanted: &str) -> bool {
    let wanted = wanted.to_lowercase();
    let pattern = wanted.split(['\'', '"']).nth(1).unwrap_or_default().trim_start_matches('^');
    let begins = |line: &String| pattern.starts_with(&line.to_lowercase());
    if speaks(command, |lines| lines.is_empty() || lines.iter().any(begins)) {
        return true;
    }
    let has = |words: &[&str]| words.iter().any(|word| wanted.contains(word));
    let refused = has(&["forbidden", "not found", "notfound", "refused", "unauthorized", "denied"]);
    let verb = command.words().iter().skip(1).find(|word| !word.text.starts_with('-')).map(|word| word.text.as_str());
    match (command.tool(), verb) {
        ("kubectl", Some("logs" | "describe" | "exec" | "auth" | "events")) => false,
        ("kubectl", Some("get")) => {
            refused
                && !command
                    .words()
                    .iter()
                    .any(|w| w.text.starts_with("-o") || w.text.starts_with("--output") || w.text.starts_with("event"))
        }
        ("kubectl", _) => refused || has(&["error", "invalid", "already exists", "conflict"]),
        ("helm", Some("status" | "get" | "list")) => false,
        ("helm" | "git", _) => {
            has(&["error", "fatal", "not found", "rejected", "denied"])
                && !matches!(verb, Some("log" | "show" | "diff" | "grep"))
        }
        _ => false,
    }
}

/// Whether a program, or one that it runs, writes to standard error: the lines with the prefixes that `asked` accepts.
fn speaks(command: &Statement, asked: impl Fn(&[String]) -> bool) -> bool {
    let words: Vec<&str> = command.words().iter().map(|word| word.text.as_str()).collect();
    !words.contains(&"--stderr")
        && words.iter().enumerate().any(|(at, name)| {
            let errors =
                tools::tool(name).into_iter().flat_map(|tool| tool.errors.iter().map(move |error| (tool, error)));
            errors.into_iter().any(|(tool, (option, lines))| tool.has(&words[at + 1..], option) && asked(lines))
        })
}

/// Whether the standard error of a program that writes there is discarded.
fn is_silenced(command: &Statement, text: &str, between: &str) -> bool {
    let thrown = text.contains("2>/dev/null")
        || text.contains("2> /dev/null")
        || between.contains("2>/dev/null")
        || between.contains("2> /dev/null");
    let words: Vec<&str> = command.words().iter().map(|word| word.text.as_str()).collect();
    let reports = words.windows(2).any(|pair| {
        matches!(
            pair,
            ["docker" | "podman", "logs"] | ["javac", "-version"] | ["git", "push" | "switch" | "checkout" | "clone"]
        )
    });
    thrown && (reports || speaks(command, |_| true))
}

/// Returns the position of curl in a command: first, or after a program that runs it.
fn in_front(command: &Statement) -> Option<usize> {
    let runs = matches!(command.tool(), "curl" | "kubectl" | "docker" | "timeout" | "env" | "ssh");
    command.words().iter().position(|word| word.text == "curl").filter(|at| runs || *at == 0)
}

/// Verify requests a resource and discards the answer, so a response with status 404 is accepted.
fn unread_answer(view: &TaskView<'_>, out: &mut Diagnostics) {
    for script in view.scripts.iter().filter(|script| script.phase == PhaseKind::Verify && script.decides_by_status()) {
        let content = &script.content;
        if !content.program.sound {
            continue;
        }
        let mut waits: Vec<&Statement> = Vec::new();
        content.program.walk(&mut |s| {
            // Output inside of a pipeline is read there.
            if let Kind::Pipeline(parts) = &s.kind {
                parts.iter().for_each(|part| part.walk(&mut |s| waits.push(s)));
            }
            if let Kind::Loop { condition, .. } = &s.kind {
                condition.iter().for_each(|s| s.walk(&mut |s| waits.push(s)));
            }
        });
        for command in content.program.commands() {
            let Some((before, words)) = in_front(command).map(|at| command.words().split_at(at)) else { continue };
            let has = |options: &[&str]| words.iter().any(|w| options.contains(&w.text.as_str()));
            let short = |letter: char| {
                words
                    .iter()
                    .skip(1)
                    .any(|w| w.text.starts_with('-') && !w.text.starts_with("--") && w.text.contains(letter))
            };
            let text = content.text.get(command.range.clone()).unwrap_or_default();
            let thrown = text.contains("/dev/null")
                && (short('o') || has(&["--output"]) || command.written || text.contains("&>"));
            // From inside a pod, with a timeout, the check is only whether there is a connection at all.
            let names = |known: &[&str]| before.iter().any(|word| known.contains(&word.text.as_str()));
            let long = |option: &str| words.iter().any(|word| word.text.starts_with(option));
            let limited = names(&["timeout"]) || short('m') || long("--max-time") || long("--connect-timeout");
            let reaches = limited && names(&["kubectl", "oc", "docker", "podman", "ssh"]);
            let fails = reaches || short('f') || words.iter().any(|word| word.text.starts_with("--fail"));
            let shown = short('w') || has(&["--write-out"]) || short('I') && !text.contains("> /dev/null");
            if thrown && !fails && !shown && !waits.iter().any(|s| std::ptr::eq(*s, command)) {
                let range = words[0].range.clone();
                out.push(
                    Diagnostic::new(
                        &CURL_WITHOUT_FAIL,
                        content.span(range.clone()),
                        "curl treats a 404 or 500 response as success, and the response is not checked",
                    )
                    .help("add `--fail`")
                    .fix("add `--fail`", content.span(range.end..range.end), " --fail"),
                );
            }
        }
    }
}

/// Setup sends a request with curl and ignores the answer, so an error counts as success.
pub fn curl(view: &TaskView<'_>, out: &mut Diagnostics) {
    unread_answer(view, out);
    for script in view.scripts.iter().filter(|script| script.phase == PhaseKind::Setup && script.decides_by_status()) {
        let (content, program) = (&script.content, &script.content.program);
        if !program.sound {
            continue;
        }
        let mut seen: Vec<&Statement> = Vec::new();
        program.walk(&mut |statement| {
            seen.extend(&statement.nested);
            match &statement.kind {
                Kind::Pipeline(parts) => seen.extend(parts),
                Kind::Or(pair) | Kind::And(pair) => seen.extend(pair.iter()),
                Kind::If { branches, .. } => branches.iter().for_each(|branch| seen.extend(&branch.condition)),
                Kind::Loop { condition, .. } => seen.extend(condition),
                Kind::Not(inner) => seen.push(inner),
                _ => {}
            }
        });
        for command in program.commands() {
            let words = command.words();
            let short = |letter: char| {
                words
                    .iter()
                    .skip(1)
                    .any(|w| w.text.starts_with('-') && !w.text.starts_with("--") && w.text.contains(letter))
            };
            let method = words
                .windows(2)
                .find(|pair| matches!(pair[0].text.as_str(), "-X" | "--request"))
                .map(|pair| pair[1].text.to_uppercase());
            let joined = words.iter().any(|word| matches!(word.text.as_str(), "-XPOST" | "-XPUT" | "-XPATCH"));
            let makes = joined || method.is_some_and(|method| matches!(method.as_str(), "POST" | "PUT" | "PATCH"));
            let fails = short('f') || words.iter().any(|word| word.text.starts_with("--fail"));
            let looked = seen.iter().any(|s| std::ptr::eq(*s, command))
                || words.iter().any(|w| matches!(w.text.as_str(), "-w" | "--write-out" | "-o" | "--output"));
            if command.name() == "curl" && makes && !fails && !looked {
                let range = words[0].range.clone();
                out.push(
                    Diagnostic::new(
                        &CURL_WITHOUT_FAIL,
                        content.span(range.clone()),
                        "curl treats a 404 or 500 response as success, so setup may be incomplete when the agent starts",
                    )
                    .strength(Strength::Warning)
                    .help("add `--fail`")
                    .fix("add `--fail`", content.span(range.end..range.end), " --fail"),
                );
            }
        }
    }
}
