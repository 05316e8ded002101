//! Checks of the same value that require different constants.

use std::cell::LazyCell;

use rustc_hash::FxHashMap;

use crate::{
    ascii::{Ascii, ascii},
    bash::{
        flow,
        program::{Branch, Kind, Repeat, Statement},
        tools,
    },
    diagnostic::{Diagnostic, Diagnostics, Strength},
    effects::{
        Followed, Verb,
        asked::{self, Demand, Question},
        script::Content,
        shell::Run,
        value::Value,
    },
    hir::{Arg, ArgKind, BlockRole, Def, Dialect, OperationKind, PhaseKind, Step},
    lint::{TaskView, analysis::texts, task::unsatisfiable::UNSATISFIABLE_EXPECTATION},
    source::Span,
};

/// A value that a check requires, or excludes.
#[derive(Clone, PartialEq, Debug)]
enum Wanted {
    Is(String),
    IsNot(String),
    /// The text must contain this one.
    Has(String),
    /// The text must not contain this one.
    HasNot(String),
    /// The value must not exist.
    Absent,
    /// The value must be null.
    Null,
    /// The value must be an object or an array.
    Inner,
}

impl Wanted {
    fn excludes(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Is(a), Self::Is(b)) => !is_same(a, b),
            (Self::Is(a), Self::IsNot(b)) | (Self::IsNot(b), Self::Is(a)) => is_same(a, b),
            (Self::Has(text), Self::HasNot(part)) | (Self::HasNot(part), Self::Has(text)) => {
                text.contains(part.as_str())
            }
            (Self::Absent, Self::Is(_) | Self::Inner | Self::Null)
            | (Self::Is(_) | Self::Inner | Self::Null, Self::Absent) => true,
            (Self::Null, Self::Is(other)) | (Self::Is(other), Self::Null) => other != "null",
            (Self::Null, Self::Inner) | (Self::Inner, Self::Null) => true,
            _ => false,
        }
    }

    fn shown(&self) -> String {
        match self {
            Self::Is(text) => format!("`{text}`"),
            Self::IsNot(text) => format!("other than `{text}`"),
            Self::Has(text) => format!("a text with `{text}`"),
            Self::HasNot(text) => format!("a text without `{text}`"),
            Self::Absent => "absent".to_owned(),
            Self::Null => "null".to_owned(),
            Self::Inner => "an object or an array".to_owned(),
        }
    }
}

fn is_same(a: &str, b: &str) -> bool {
    a == b || matches!((a.parse::<f64>(), b.parse::<f64>()), (Ok(a), Ok(b)) if a == b)
}

/// A part of a subject and what one check requires of it.
struct Claim {
    /// What is read: a request, a command, a file.
    subject: String,
    /// The part of it: a path, `status`, `stdout`.
    part: String,
    wanted: Wanted,
    span: Span,
    /// The number of the step, or of the command in its script.
    at: usize,
    /// Whether the check certainly must succeed each time: it is not in a helper that is called as an alternative.
    is_strict: bool,
    /// Whether the script waits until the value is this one. Another value may precede it.
    awaits: bool,
}

/// Checks that require different values of the same thing, with nothing in between that changes it.
pub fn check(view: &TaskView<'_>, out: &mut Diagnostics) {
    in_steps(view, &view.task.verify.steps, out);
    absent(view, out);
    for script in view.effects.scripts.iter().filter(|script| script.view.phase == PhaseKind::Verify) {
        awaited_end(view, script, out);
        let claims = in_script(view, script);
        conflicts(
            &claims,
            Strength::Verdict,
            &|from, to| {
                script.trace.runs.get(from..=to).is_some_and(|runs| runs.iter().all(|run| only_reads(view, run)))
            },
            out,
        );
    }
}

/// A resource must be absent, and another step must read a field of it.
fn absent(view: &TaskView<'_>, out: &mut Diagnostics) {
    fn all<'s>(steps: &'s [Step<Def>], found: &mut Vec<(&'s Step<Def>, &'s str)>) {
        for step in steps {
            match &step.op.kind {
                OperationKind::Extension { operation, .. } => found.push((step, operation)),
                // Whether a branch of these applies is not known.
                OperationKind::Builtin("anyOf" | "not") => continue,
                _ => {}
            }
            let blocks = step.blocks.iter().filter(|block| matches!(block.role, BlockRole::Steps | BlockRole::Branch));
            blocks.for_each(|block| all(&block.steps, found));
        }
    }
    let mut steps = Vec::new();
    all(&view.task.verify.steps, &mut steps);
    // In a `foreach`, a step reads several.
    let acts = |step: &Step<Def>| {
        let of = view.effects.in_phase(PhaseKind::Verify).filter(|act| act.step == step.key).collect::<Vec<_>>();
        of.into_iter()
            .filter(|act| act.thing.system == "kubernetes" && act.thing.name.as_ref().is_some_and(Value::is_known))
    };
    for (gone, _) in steps.iter().filter(|(_, operation)| *operation == "resource-absent") {
        let there = ["field-equals", "resource-exists", "resource-matches"];
        let conflict = acts(gone).map(|act| &act.thing).find_map(|thing| {
            let mut others = steps.iter().filter(|(_, operation)| there.contains(operation));
            let is_it = |act: &crate::effects::Act| act.thing.is(thing) && act.thing.space == thing.space;
            others.find(|(step, _)| acts(step).any(is_it)).map(|(step, _)| (thing, *step))
        });
        if let Some((thing, there)) = conflict {
            let message =
                format!("the {} must be absent here, but another check requires that it exists", thing.shown());
            out.push(
                Diagnostic::new(&UNSATISFIABLE_EXPECTATION, gone.key, message)
                    .label(there.key, "required here")
                    .help("if the two checks are for different things, correct what one of them reads"),
            );
        }
    }
}

/// `kubectl wait --for=delete pod/a`, and another check of the script requires that the pod has a value.
fn awaited_end(view: &TaskView<'_>, script: &Followed<'_>, out: &mut Diagnostics) {
    let waits = script.trace.runs.iter().filter(|run| {
        let has = |text: &str| run.words.iter().any(|word| word.literal() == Some(text));
        !run.lenient && run.statement.tool() == "kubectl" && has("wait") && has("--for=delete")
    });
    for wait in waits {
        let Some(gone) = view.effects.read_by(wait).map(|act| &act.thing) else { continue };
        let there = view.asked().iter().find(|question| {
            let is_it = question.runs.first().and_then(|run| view.effects.read_by(run)).is_some_and(|act| {
                gone.name.as_ref().is_some_and(Value::is_known) && act.thing.is(gone) && act.thing.space == gone.space
            });
            is_it
                && matches!(question.form, asked::Form::Field(_))
                && matches!(compared(question, &script.view.content), Some(Wanted::Is(value)) if !value.is_empty())
        });
        if let Some(there) = there {
            let span = wait.content.span(wait.statement.range.clone());
            let message =
                format!("this waits until the {} is gone, but another check requires that it exists", gone.shown());
            out.push(
                Diagnostic::new(&UNSATISFIABLE_EXPECTATION, span, message)
                    .label(there.span, "required here")
                    .help("if the two checks are for different things, correct what one of them reads"),
            );
        }
    }
}

/// Reports each claim that excludes an earlier one of the same part, if `is_stable` holds for what is between them.
fn conflicts(claims: &[Claim], strength: Strength, is_stable: &dyn Fn(usize, usize) -> bool, out: &mut Diagnostics) {
    let mut known: FxHashMap<(&str, &str), Vec<&Claim>> = FxHashMap::default();
    for claim in claims {
        let same = known.entry((&claim.subject, &claim.part)).or_default();
        let other = same.iter().find(|other| {
            // The same statement, executed twice.
            let is_certain = other.span != claim.span || other.is_strict && claim.is_strict;
            is_certain && !claim.awaits && other.wanted.excludes(&claim.wanted)
        });
        let Some(other) = other.filter(|other| is_stable(other.at.min(claim.at), other.at.max(claim.at))) else {
            if same.len() < 8 {
                same.push(claim);
            }
            continue;
        };
        let what = if claim.part.is_empty() { "the output".to_owned() } else { format!("`{}`", claim.part) };
        let (one, two) = (claim.wanted.shown(), other.wanted.shown());
        let finding = Diagnostic::new(
            &UNSATISFIABLE_EXPECTATION,
            claim.span,
            format!("{what} must be {one} here, but another check requires that it is {two}: verify never passes"),
        );
        let finding = if claim.span == other.span { finding } else { finding.label(other.span, "required here") };
        out.push(
            finding
                .strength(strength)
                .help("if the two checks are for different things, correct what one of them reads"),
        );
    }
}

fn in_steps(view: &TaskView<'_>, steps: &[Step<Def>], out: &mut Diagnostics) {
    let mut claims: Vec<Claim> = Vec::new();
    let mut of_tools: Vec<Claim> = Vec::new();
    for (at, step) in steps.iter().enumerate() {
        for block in step.blocks.iter().filter(|block| matches!(block.role, BlockRole::Steps | BlockRole::Branch)) {
            in_steps(view, &block.steps, out);
        }
        // What is reported in a step explains more.
        let is_reported = out.iter().any(|known| {
            known.span.file == step.span.file && step.span.start <= known.span.start && known.span.end <= step.span.end
        });
        let is_optional = is_reported || step.continue_on_error.as_ref().is_some_and(|optional| optional.value);
        if is_optional {
            continue;
        }
        for (step, subject) in read_in(step) {
            if let Some((part, value)) = field_equals(step) {
                let wanted = value.as_literal().map(str::to_owned).or_else(|| Some(value.as_value()?.to_string()));
                let (part, span) = (part.to_owned(), value.span);
                let claim = |wanted| Claim { subject, part, wanted, span, at, is_strict: true, awaits: false };
                claims.extend(wanted.map(Wanted::Is).map(claim));
                continue;
            }
            let Some((_, expect)) = step.expect.as_ref().filter(|(_, expect)| !view.has_unread(expect.span)) else {
                continue;
            };
            let is_tool = matches!(step.op.kind, OperationKind::Tool { .. });
            let found = if is_tool { &mut of_tools } else { &mut claims };
            // The expectation of a file applies to its content.
            let part = if matches!(step.op.kind, OperationKind::Builtin("file")) { "content" } else { "" };
            required(expect, part, view.task.dialect, &mut |part, wanted, span| {
                found.push(Claim { subject: subject.clone(), part, wanted, span, at, is_strict: true, awaits: false });
            });
        }
    }
    let loud = LazyCell::new(|| (0..steps.len()).filter(|at| !is_quiet(view, &steps[*at])).collect::<Vec<_>>());
    let is_stable = |from: usize, to: usize| loud.get(loud.partition_point(|at| *at < from)).is_none_or(|at| *at > to);
    conflicts(&claims, Strength::Verdict, &is_stable, out);
    // A tool that only reads by its name may still return something else each time.
    conflicts(&of_tools, Strength::Warning, &is_stable, out);
}

/// The maximum number of rounds of a `foreach` that are followed.
const ROUNDS: usize = 32;

/// The steps that read something, and what each of them reads: a step itself, or those of a `foreach` over a literal
/// list, once for each round.
fn read_in(step: &Step<Def>) -> Vec<(&Step<Def>, String)> {
    if let Some(subject) = subject(step) {
        return vec![(step, subject)];
    }
    let items = match step.arg("in").map(|list| &list.kind) {
        Some(ArgKind::List(items)) if items.len() <= ROUNDS => items,
        _ => return Vec::new(),
    };
    let written = |item: &Arg<Def>| match &item.kind {
        ArgKind::Text(template) => Some(texts::written(template)),
        _ => item.as_literal().map(str::to_owned),
    };
    let (Some(var), Some(rounds)) = (&step.var, items.iter().map(written).collect::<Option<Vec<_>>>()) else {
        return Vec::new();
    };
    let hole = format!("{{{}}}", var.value);
    let steps = step.blocks.iter().filter(|block| block.role == BlockRole::Steps).flat_map(|block| &block.steps);
    let inner: Vec<_> = steps.filter_map(|step| Some((step, subject(step)?))).collect();
    let round = |item: &String| {
        let item = item.clone();
        let hole = &hole;
        inner.iter().map(move |(step, subject)| (*step, subject.replace(hole, &item))).collect::<Vec<_>>()
    };
    rounds.iter().flat_map(round).collect()
}

/// The path and the value of a `field-equals`, if the field only changes when somebody changes it.
fn field_equals(step: &Step<Def>) -> Option<(&str, &Arg<Def>)> {
    let OperationKind::Extension { operation, .. } = &step.op.kind else { return None };
    let path = step.arg("jsonpath").and_then(Arg::as_literal).filter(|_| operation == "field-equals")?;
    let is_stable =
        ["{.spec.", "{.data.", "{.metadata.name", "{.metadata.labels"].iter().any(|begin| path.starts_with(begin));
    Some((path, step.arg("value").filter(|_| is_stable)?))
}

/// What a step reads: its operation and all arguments that determine the answer.
fn subject(step: &Step<Def>) -> Option<String> {
    let mut text = match &step.op.kind {
        OperationKind::Builtin(name @ ("http" | "command")) => (*name).to_owned(),
        OperationKind::Builtin("file") if step.arg("content").is_none() && step.arg("absent").is_none() => {
            "file".to_owned()
        }
        OperationKind::Tool { server, tool } if is_reader(tool) => format!("{server}.{tool}"),
        OperationKind::Extension { .. } if field_equals(step).is_some() => step.op.name.clone(),
        _ => return None,
    };
    let is_demand = |key: &str| key == "timeout" || key == "value" && field_equals(step).is_some();
    let mut args: Vec<_> = step.args.iter().filter(|(key, _)| !is_demand(&key.value)).collect();
    args.sort_by(|(a, _), (b, _)| a.value.cmp(&b.value));
    for (key, arg) in args {
        // `GET` is the default.
        if !(key.value == "method" && arg.as_literal().is_some_and(|method| method.eq_ignore_ascii_case("get"))) {
            text.push_str(&format!("\n{}: ", key.value));
            spell(arg, &mut text);
            if key.value == "url" {
                without_selection(&mut text);
            }
        }
    }
    Some(text)
}

/// Removes a query that only selects the fields of the response: `?fields=status`.
fn without_selection(text: &mut String) {
    let Some((url, query)) = text.rsplit_once('?') else { return };
    let query = query.trim_end_matches('"');
    let selects = |part: &str| ["fields=", "expand=", "select=", "_fields="].iter().any(|name| part.starts_with(name));
    if !query.is_empty() && query.split('&').all(selects) {
        *text = format!("{url}\"");
    }
}

/// Appends an argument, with its holes as written.
fn spell(arg: &Arg<Def>, text: &mut String) {
    match &arg.kind {
        ArgKind::Text(template) => text.push_str(&format!("{:?}", texts::written(template))),
        ArgKind::List(items) => items.iter().for_each(|item| {
            text.push_str(" - ");
            spell(item, text);
        }),
        ArgKind::Record(fields) => fields.iter().for_each(|(key, item)| {
            text.push_str(&format!(" {}: ", key.value));
            spell(item, text);
        }),
        _ => text.push_str(&arg.as_value().unwrap_or_default().to_string()),
    }
}

/// Whether the name of a tool says that it only reads.
fn is_reader(tool: &str) -> bool {
    const READS: [&str; 10] = ["get", "read", "list", "show", "find", "query", "fetch", "describe", "search", "view"];
    crate::effects::words(tool).iter().any(|word| READS.contains(&word.as_str()))
}

/// Whether a step changes nothing and waits for nothing, so that the checks around it see the same state.
fn is_quiet(view: &TaskView<'_>, step: &Step<Def>) -> bool {
    match &step.op.kind {
        OperationKind::Builtin("http") => step.arg("method").is_none_or(|method| {
            method.as_literal().is_some_and(|m| ["get", "head"].contains(&m.to_lowercase().as_str()))
        }),
        OperationKind::Builtin("command" | "script") => view.script_of(step).is_some_and(|script| {
            let mut loops = false;
            script.content.program.walk(&mut |s| loops |= matches!(s.kind, Kind::Loop { .. }));
            let followed = view.followed(script);
            !loops
                && followed.is_some_and(|followed| {
                    !followed.trace.opaque && followed.trace.runs.iter().all(|run| only_reads(view, run))
                })
        }),
        OperationKind::Builtin("file") => step.arg("content").is_none() && step.arg("absent").is_none(),
        OperationKind::Builtin("llm" | "llmJudge") => true,
        OperationKind::Tool { tool, .. } => is_reader(tool),
        OperationKind::Extension { .. } => field_equals(step).is_some(),
        OperationKind::Builtin("foreach") => {
            step.blocks.iter().flat_map(|block| &block.steps).all(|step| is_quiet(view, step))
        }
        _ => false,
    }
}

/// Programs that change nothing.
#[rustfmt::skip]
const READERS: [&str; 40] = [
    "grep", "egrep", "fgrep", "jq", "yq", "cat", "head", "tail", "wc", "sort", "uniq", "tr", "cut", "awk", "echo", "printf", "test", "true",
    "false", "set", "basename", "dirname", "ls", "stat", "cmp", "diff", "base64", "read", ":", "exit", "return", "local", "export", "cd",
    "column", "rev", "xargs", "md5sum", "sha256sum", "shift",
];

/// Whether a command certainly changes nothing.
fn only_reads(view: &TaskView<'_>, run: &Run<'_>) -> bool {
    if run.output.as_ref().is_some_and(|file| file.literal() != Some("/dev/null")) {
        return false;
    }
    let word = |nth: usize| run.words.get(nth).and_then(Value::literal).unwrap_or_default();
    match run.statement.name() {
        "xargs" => run.words.len() == 1,
        name if READERS.contains(&name) => true,
        "sed" => !run.words.iter().any(|word| word.literal().is_none_or(|word| word.starts_with("-i"))),
        "git" => {
            let asks = run.words.iter().skip(1).filter_map(Value::literal).find(|word| {
                matches!(
                    *word,
                    "show" | "log" | "rev-parse" | "rev-list" | "cat-file" | "ls-tree" | "ls-files" | "status" | "diff"
                )
            });
            asks.is_some()
        }
        "docker" => matches!(word(1), "inspect" | "ps" | "logs" | "port"),
        "kubectl" if matches!(word(1), "auth" | "get" | "describe" | "explain" | "api-resources") => true,
        "gh" if matches!(word(2), "list" | "view" | "status") => true,
        _ => {
            let start = run.content.span(run.statement.range.clone());
            let mut acts =
                view.effects.acts.iter().filter(|act| act.span.file == start.file && act.span.start == start.start);
            let mut any = false;
            acts.all(|act| {
                any = true;
                act.verb == Verb::Reads
            }) && any
        }
    }
}

/// Passes on each constant that an expectation requires: the part, the value and its place.
fn required(arg: &Arg<Def>, part: &str, dialect: Dialect, visit: &mut dyn FnMut(String, Wanted, Span)) {
    match &arg.kind {
        ArgKind::List(items) => items.iter().for_each(|item| required(item, part, dialect, visit)),
        ArgKind::Record(fields) => {
            if let Some(path) = arg.get("path") {
                let Some(path) = path.as_literal().and_then(plain_path) else { return };
                let part = if part.is_empty() { path } else { format!("{part}.{path}") };
                if let Some((wanted, value)) = arg.get("equals").and_then(|value| Some((constant(value)?, value))) {
                    for (at, _) in part.match_indices(['.', '[']).filter(|(at, _)| *at > 0) {
                        visit(part[..at].to_owned(), Wanted::Inner, value.span);
                    }
                    visit(part, Wanted::Is(wanted), value.span);
                } else if let Some(null) = arg.get("type").filter(|kind| kind.as_literal() == Some("null")) {
                    visit(part, Wanted::Null, null.span);
                } else if let Some(exists) = arg.get("exists").filter(|a| matches!(a.kind, ArgKind::Bool(false))) {
                    visit(part, Wanted::Absent, exists.span);
                } else if let Some((other, value)) = arg.get("not").and_then(|value| Some((constant(value)?, value))) {
                    visit(part, Wanted::IsNot(other), value.span);
                }
                return;
            }
            for (key, inner) in fields {
                match key.value.as_str() {
                    "json" | "fields" => required(inner, part, dialect, visit),
                    "status" | "exitCode" if part.is_empty() => {
                        if let ArgKind::Int(status) = inner.kind {
                            visit(key.value.clone(), Wanted::Is(status.to_string()), inner.span);
                        }
                    }
                    "equals" => {
                        if let Some(text) = constant(inner).filter(|_| !part.is_empty()) {
                            visit(part.to_owned(), Wanted::Is(text.trim_end_matches('\n').to_owned()), inner.span);
                        }
                    }
                    "contains" if !part.is_empty() => {
                        if let Some(text) = inner.as_literal().filter(|text| !text.is_empty()) {
                            visit(part.to_owned(), Wanted::Has(text.to_owned()), inner.span);
                        }
                    }
                    "matches" if !part.is_empty() => {
                        if let Some(text) = inner.as_literal().and_then(plain_line) {
                            visit(part.to_owned(), Wanted::Has(text.to_owned()), inner.span);
                        }
                    }
                    "not" if !part.is_empty() => {
                        let contains = inner.get("contains").and_then(|text| Some((text.span, text.as_literal()?)));
                        if let Some((span, text)) = contains.filter(|(_, text)| !text.is_empty()) {
                            visit(part.to_owned(), Wanted::HasNot(text.to_owned()), span);
                        }
                    }
                    // A plain text is compared as a whole.
                    "stdout" | "stderr" if dialect == Dialect::Portable && inner.as_literal().is_some() => {
                        let text = inner.as_literal().unwrap_or_default().trim_end_matches('\n').to_owned();
                        visit(key.value.clone(), Wanted::Is(text), inner.span);
                    }
                    "body" | "content" | "stdout" | "stderr" | "text" => required(inner, &key.value, dialect, visit),
                    _ => {}
                }
            }
        }
        _ => {}
    }
}

/// The text that a pattern matches, if it matches no other: `(?m)^Status: done$`.
fn plain_line(pattern: &str) -> Option<&str> {
    let inner = pattern.strip_prefix("(?m)").unwrap_or(pattern);
    let inner = inner.strip_prefix('^').unwrap_or(inner);
    let inner = inner.strip_suffix('$').unwrap_or(inner);
    (!inner.is_empty() && !inner.contains(['.', '*', '+', '?', '(', '[', '{', '|', '\\', '^', '$'])).then_some(inner)
}

/// The text of a constant.
fn constant(arg: &Arg<Def>) -> Option<String> {
    match arg.as_value()? {
        serde_json::Value::String(text) => Some(text),
        serde_json::Value::Array(_) | serde_json::Value::Object(_) => None,
        value => Some(value.to_string()),
    }
}

/// A path to a single value, without `$.`.
fn plain_path(path: &str) -> Option<String> {
    let path = path.strip_prefix('$').unwrap_or(path);
    let path = path.strip_prefix('.').unwrap_or(path);
    (!path.contains(['*', '?', '(', ':']) && !path.contains("..") && !path.contains("[]")).then(|| path.to_owned())
}

/// The constants that the checks of a script require.
fn in_script(view: &TaskView<'_>, script: &Followed<'_>) -> Vec<Claim> {
    let mut found = Vec::new();
    let place = |run: &Run<'_>| script.trace.runs.iter().position(|known| std::ptr::eq(known, run));
    if script.trace.opaque || script.trace.runs.len() > 2000 {
        return found;
    }
    let own = &*script.view.content;
    let mut loops: Vec<std::ops::Range<usize>> = Vec::new();
    // The conditions of `until`, which hold when the loop ends, each with its loop. The body of a function may run anywhere.
    let mut awaited: Vec<(std::ops::Range<usize>, std::ops::Range<usize>)> = Vec::new();
    let mut functions: Vec<std::ops::Range<usize>> = Vec::new();
    own.program.walk(&mut |s| {
        if matches!(s.kind, Kind::Function { .. }) {
            functions.push(s.range.clone());
        }
        let Kind::Loop { repeat, body, condition } = &s.kind else { return };
        match (repeat, condition.as_slice()) {
            (Repeat::Until, [condition]) if !body.iter().any(ends_round) => {
                awaited.push((condition.range.clone(), s.range.clone()));
                loops.extend(body.iter().map(|s| s.range.clone()));
            }
            (Repeat::For, _) if !body.iter().any(waits) => {}
            _ => loops.push(s.range.clone()),
        }
    });
    // Each round of a loop may compare with another value. Those over a known list are followed one by one.
    let in_loop = |s: &Statement| loops.iter().any(|outer| outer.start <= s.range.start && s.range.end <= outer.end);
    for question in view.asked().iter().filter(|question| std::ptr::eq(question.content, own)) {
        let Some((subject, part)) = read_by(question).filter(|_| !in_loop(question.statement)) else { continue };
        let until = awaited.iter().find(|(condition, _)| *condition == question.statement.range);
        let until = until.filter(|_| question.is_alone());
        let awaits = until.is_some();
        let wanted = match awaits {
            true => demanded(&question.demand, true),
            false => compared(question, own),
        };
        let Some(wanted) = wanted else { continue };
        let Some(at) = question.runs.last().and_then(|run| place(run)) else { continue };
        // What the loop itself runs precedes the last time that its condition is tested.
        let at = until.map_or(at, |(_, whole)| {
            let lies_in = |run: &Run<'_>, outer: &std::ops::Range<usize>| {
                let range = &run.statement.range;
                std::ptr::eq(run.content, own) && outer.start <= range.start && range.end <= outer.end
            };
            let runs = script.trace.runs.iter().enumerate().skip(at);
            let own_runs = runs
                .take_while(|(_, run)| lies_in(run, whole) || functions.iter().any(|body| lies_in(run, body)))
                .filter(|(_, run)| lies_in(run, whole));
            own_runs.last().map_or(at, |(last, _)| last + 1)
        });
        let is_strict = loops.is_empty() && question.runs.iter().all(|run| !run.lenient);
        found.push(Claim { subject, part, wanted, span: question.span, at, is_strict, awaits });
    }
    // Only a script that uses jq can have these.
    let jq = script
        .trace
        .runs
        .iter()
        .filter(|run| run.statement.name() == "jq" && is_decisive(run) && !in_loop(run.statement));
    let mut jq = jq.peekable();
    if jq.peek().is_some() {
        let fed: Vec<_> = asked::filtered_by(script).collect();
        for run in jq {
            let piped = || fed.iter().find(|(_, known, _)| std::ptr::eq(*known, run)).map(|(first, ..)| vec![*first]);
            let given = run.input.as_ref().and_then(Value::printed).and_then(|chain| asked::chain(script, chain));
            let input = given.or_else(piped);
            let (Some(subject), Some(filter), Some(at)) =
                (source(run, input.as_deref()), asked::operand(run), place(run))
            else {
                continue;
            };
            let span = run.content.span(run.statement.range.clone());
            for (part, wanted) in conditions(&filter) {
                let is_strict = loops.is_empty() && !run.lenient;
                found.push(Claim { subject: subject.clone(), part, wanted, span, at, is_strict, awaits: false });
            }
        }
    }
    found.sort_by_key(|claim| claim.at);
    found
}

/// Whether the script fails unless this `jq -e` succeeds.
fn is_decisive(run: &Run<'_>) -> bool {
    let exits =
        asked::options(run).contains('e') || run.words.iter().any(|word| word.literal() == Some("--exit-status"));
    exits && !run.maybe && {
        let (succeeded, failed) = flow::outcomes(&run.content.program, &run.statement.range);
        succeeded.zero && !failed.zero
    }
}

/// Whether a round of a loop may wait, or end the loop. A loop that waits until a condition holds ends in no other way.
fn waits(statement: &Statement) -> bool {
    if let Kind::Loop { repeat: Repeat::Until, body, .. } = &statement.kind
        && !body.iter().any(ends_round)
    {
        return false;
    }
    let mut found = matches!(statement.name(), "break" | "continue" | "return" | "sleep");
    statement.lists(&mut |list| found |= list.iter().any(waits));
    found
}

/// Whether a statement may leave the loop that contains it other than by its condition or with a failure.
fn ends_round(statement: &Statement) -> bool {
    let mut found = false;
    statement.walk(&mut |s| {
        let ends = s.words().get(1).is_none_or(|word| word.text == "0");
        found |= matches!(s.name(), "break" | "return") || s.name() == "exit" && ends;
    });
    found
}

/// What a jq command reads: a file, or the output of other commands.
fn source(run: &Run<'_>, input: Option<&[&Run<'_>]>) -> Option<String> {
    let spelt: Vec<&str> = run.words.iter().skip(1).map(|word| word.literal().unwrap_or("\u{1a}")).collect();
    let operands: Vec<usize> = tools::operands("jq", &spelt)
        .filter_map(|word| spelt.iter().position(|known| std::ptr::eq(known, word)))
        .collect();
    match (operands.as_slice(), input) {
        ([_, file], None) => {
            let file = run.words.get(file + 1).filter(|file| file.is_known())?;
            Some(format!("file {}", file.shown()))
        }
        ([_], Some(runs)) => command(runs),
        _ => None,
    }
}

/// The words of a pipeline, if all are known and nothing else determines its output.
fn command(runs: &[&Run<'_>]) -> Option<String> {
    let mut text = String::new();
    for run in runs {
        // `wc -l < FILE` prints another number for each file.
        let reads_other = text.is_empty() && run.statement.fed && run.input.is_none();
        let is_known = !run.maybe && !reads_other && run.words.iter().all(Value::is_known);
        if !is_known || text.is_empty() && run.input.as_ref().is_some_and(|input| !input.is_known()) {
            return None;
        }
        text.push_str(if text.is_empty() { "command" } else { " |" });
        run.words.iter().for_each(|word| text.push_str(&format!(" {:?}", word.shown())));
        if let Some(input) = run.input.as_ref().filter(|input| input.is_known()) {
            text.push_str(&format!(" <<< {:?}", input.shown()));
        }
    }
    (!text.is_empty()).then_some(text)
}

/// What a question inspects, and the part of it.
fn read_by(question: &Question<'_>) -> Option<(String, String)> {
    let is_certain = question.runs.iter().all(|run| !run.maybe) && is_unconditional(question);
    match question.runs.as_slice() {
        _ if !is_certain => None,
        [run] | [_, run] if run.statement.name() == "jq" => {
            let filter = asked::operand(run)?;
            let path = filter.trim().strip_prefix('.').filter(|path| PATH.is_match(path))?;
            let input = (question.runs.len() == 2).then(|| &question.runs[..1]);
            Some((source(run, input)?, path.to_owned()))
        }
        [] => None,
        runs => Some((command(runs)?, String::new())),
    }
}

/// Whether the statement of a question always runs: it contains the command that it inspects, or it is not in a branch.
fn is_unconditional(question: &Question<'_>) -> bool {
    let range = &question.statement.range;
    let inside = |run: &&Run<'_>| {
        std::ptr::eq(run.content, question.content)
            && range.start <= run.statement.range.start
            && run.statement.range.end <= range.end
    };
    let always = |list: &[Statement]| list.iter().any(|statement| runs_always(statement, range.start, range.end));
    question.runs.first().is_some_and(inside) || always(&question.content.program.body)
}

/// Whether the statement at this place runs whenever `statement` does.
fn runs_always(statement: &Statement, start: usize, end: usize) -> bool {
    if statement.range.start == start && statement.range.end == end {
        return true;
    }
    if statement.range.start > start || statement.range.end < end {
        return false;
    }
    match &statement.kind {
        Kind::And(parts) | Kind::Or(parts) => runs_always(&parts[0], start, end),
        Kind::Not(inner) => runs_always(inner, start, end),
        Kind::If { branches, .. } => branches
            .first()
            .is_some_and(|branch| branch.condition.first().is_some_and(|first| runs_always(first, start, end))),
        Kind::Loop { repeat: Repeat::Until, condition, .. } => {
            condition.first().is_some_and(|first| runs_always(first, start, end))
        }
        Kind::Group(list) | Kind::Subshell(list) | Kind::Loop { repeat: Repeat::For, body: list, .. } => {
            list.iter().any(|inner| runs_always(inner, start, end))
        }
        _ => false,
    }
}

/// The value with which a question compares, if the script succeeds only with it.
fn compared(question: &Question<'_>, content: &Content) -> Option<Wanted> {
    let wanted = question.is_wanted().or_else(|| counted(question, content))?;
    demanded(&question.demand, wanted)
}

/// The constant of a comparison that must hold (`wanted`), or must not hold.
fn demanded(demand: &Demand, wanted: bool) -> Option<Wanted> {
    let Demand::Compared { operator, with } = demand else { return None };
    // `[[ … == v1.* ]]` compares with a pattern.
    if with.contains(['*', '?', '[']) {
        return None;
    }
    match (operator.as_str(), wanted) {
        ("=" | "==" | "-eq", true) | ("!=" | "-ne", false) => Some(Wanted::Is(with.clone())),
        ("=" | "==" | "-eq", false) | ("!=" | "-ne", true) => Some(Wanted::IsNot(with.clone())),
        _ => None,
    }
}

/// Whether a condition must be met (`true`) or not (`false`), because the script counts the faults and fails if there
/// are any: `if [ … ]; then errors=$((errors + 1)); fi`, and at the end `[ "$errors" -eq 0 ]`.
fn counted(question: &Question<'_>, content: &Content) -> Option<bool> {
    let is_it = |s: &Statement| s.range == question.statement.range;
    let mut found = None;
    if !question.is_alone() {
        return None;
    }
    content.program.walk(&mut |s| {
        let (wanted, body) = match &s.kind {
            Kind::Or(pair) if is_it(&pair[0]) => (true, &pair[1..]),
            Kind::And(pair) if is_it(&pair[0]) => (false, &pair[1..]),
            Kind::If { branches, otherwise: None } => match branches.as_slice() {
                [Branch { condition, body }] => match condition.as_slice() {
                    [Statement { kind: Kind::Not(inner), .. }] if is_it(inner) => (true, body.as_slice()),
                    [condition] if is_it(condition) => (false, body.as_slice()),
                    _ => return,
                },
                _ => return,
            },
            _ => return,
        };
        let mut counts = |s: &Statement| {
            let name = counter(content.text.get(s.range.clone()).unwrap_or_default());
            if name.is_some_and(|name| decides(content, name)) {
                found = Some(wanted);
            }
        };
        body.iter().for_each(|s| s.walk(&mut |s| counts(s)));
    });
    found
}

/// The variable that a statement increments: `errors=$((errors + 1))`, `((errors++))`, `let errors+=1`.
pub fn counter(text: &str) -> Option<&str> {
    INCREMENT
        .captures(text.trim())
        .and_then(|found| (1..6).find_map(|group| found.get(group)))
        .map(|name| name.as_str())
}

/// Whether the script ends with a failure if a counter is not 0.
fn decides(content: &Content, name: &str) -> bool {
    let text = |s: &Statement| content.text.get(s.range.clone()).unwrap_or_default();
    let Some(last) = content.program.body.last() else { return false };
    let reads = |text: &str| text.contains(&format!("${name}")) || text.contains(&format!("${{{name}}}"));
    match &last.kind {
        Kind::Test => reads(text(last)) && ["-eq 0", "= 0", "-lt 1"].iter().any(|zero| text(last).contains(zero)),
        Kind::Command(_) => matches!(last.name(), "exit" | "test") && reads(text(last)),
        Kind::If { .. } | Kind::And(_) | Kind::Or(_) => reads(text(last)) && text(last).contains("exit 1"),
        _ => false,
    }
}

static INCREMENT: Ascii = ascii(
    r"^(?:([A-Za-z_]\w*)=\$\(\(\s*\$?\{?\w+\}?\s*\+\s*1\s*\)\)|\(\(\s*(?:\+\+\s*([A-Za-z_]\w*)|([A-Za-z_]\w*)\s*(?:\+\+|\+=\s*1))\s*\)\)|let\s+[`\x22']?([A-Za-z_]\w*)(?:\+\+|\+=1)[`\x22']?|([A-Za-z_]\w*)\+=1)$",
);

/// The conditions of a jq filter that must all hold: `.port == 8443 and .tls == true`.
fn conditions(filter: &str) -> Vec<(String, Wanted)> {
    // What holds for one element of a list may not hold for another: `any(.ports[]; .name == "a" and .port == 80)`.
    const OTHERS: [&str; 11] = [" or ", "|", "//", "not", "if ", ";", "any(", "all(", "select(", "map(", "[]"];
    if OTHERS.iter().any(|word| filter.contains(word)) {
        return Vec::new();
    }
    let parts = filter.split(" and ").filter_map(|part| CONDITION.captures(part.trim()));
    let found = parts.filter_map(|part| {
        let value = part.get(3)?.as_str();
        let value = value.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(value).to_owned();
        let wanted = if part.get(2)?.as_str() == "==" { Wanted::Is(value) } else { Wanted::IsNot(value) };
        Some((part.get(1)?.as_str().to_owned(), wanted))
    });
    found.collect()
}

static CONDITION: Ascii = ascii(
    r#"^\(?\s*\.([A-Za-z_][\w-]*(?:\.[A-Za-z_][\w-]*|\[\d+\])*)\s*(==|!=)\s*("[^"\\]*"|-?\d+(?:\.\d+)?|true|false|null)\s*\)?$"#,
);

static PATH: Ascii = ascii(r"^[A-Za-z_][\w-]*(?:\.[A-Za-z_][\w-]*|\[\d+\])*$");
