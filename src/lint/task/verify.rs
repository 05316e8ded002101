//! Verify steps that cannot fail, whose answer is in the prompt, or that rely on a judge alone.

use std::cell::LazyCell;

use crate::{
    ascii::{Ascii, ascii},
    diagnostic::{Diagnostic, Diagnostics, Strength},
    hir::{ArgKind, BlockRole, Def, Dialect, OperationKind, Step, Task},
    lint::{TaskView, analysis::texts, shell::exit_status},
    rule,
    signature::Control,
    source::resolve,
};

rule! {
    pub static UNFALSIFIABLE_VERIFY = "unfalsifiable-verify", Verdict;
    pub static ABSENCE_ALONE = "absence-alone", Verdict;
    pub static PROMPT_CONTAINS_ANSWER = "prompt-contains-answer", Warning;
    pub static EXACT_WORDS_OF_ANSWER = "exact-words-of-answer", Warning;
    pub static JUDGE_DECIDES_ALONE = "judge-decides-alone", Note;
}

/// No verify step can fail, and no assertion applies. Only a warning if no eval selects the task, which may still get
/// assertions, or if a step may fail because the agent broke something.
pub fn unfalsifiable(view: &TaskView<'_>, out: &mut Diagnostics) {
    let task = view.task;
    let steps = &task.verify.steps;
    let (Some(first), false) = (steps.first(), view.asserted) else { return };
    // An unrecognized key may contain the check.
    if steps.iter().any(|step| view.has_unread(step.span)) {
        return;
    }
    // Another rule, `script-cannot-fail`, reports scripts that check something but cannot fail.
    if !steps.iter().all(|s| cannot_fail(s, view)) || exit_status::in_vain(view) {
        return;
    }
    let what = if steps.len() == 1 { "the only verify step cannot fail" } else { "no verify step can fail" };
    let certain = view.selected && steps.iter().all(|s| is_certain(s, view));
    let finding = Diagnostic::new(
        &UNFALSIFIABLE_VERIFY,
        first.key,
        format!("{what}: `{}` passes whatever the agent does", task.name.value),
    )
    .help(match steps.iter().all(|s| view.script_of(s).is_some()) {
        true => "check what the agent must do, and exit with a failure if it is missing",
        false => "check what the agent must do, and specify what is expected (`expect`)",
    });
    out.push(if certain { finding } else { finding.strength(Strength::Warning) });
}

/// Whether a step that cannot fail is independent of what the agent may break.
fn is_certain(step: &Step<Def>, view: &TaskView<'_>) -> bool {
    let mut inner = step.blocks.iter().flat_map(|b| &b.steps);
    match step.op.signature.control {
        Control::Any => inner.any(|s| cannot_fail(s, view) && is_certain(s, view)),
        Control::Each if is_empty(step) => true,
        Control::Each | Control::Scope | Control::Eventually | Control::Consistently => {
            inner.all(|s| is_certain(s, view))
        }
        Control::Leaf => leaf_is_certain(step),
    }
}

fn leaf_is_certain(step: &Step<Def>) -> bool {
    match &step.op.kind {
        OperationKind::Builtin("http") | OperationKind::Extension { .. } => false,
        OperationKind::Builtin("file") => step.expect.is_none(),
        // `notes_list` of a directory that the agent must create fails if it is missing.
        OperationKind::Tool { .. } => {
            step.arg("args").is_none_or(|a| matches!(&a.kind, ArgKind::Record(fields) if fields.is_empty()))
        }
        _ => true,
    }
}

/// Whether a step passes whatever the agent does, if nothing is broken.
pub fn cannot_fail(step: &Step<Def>, view: &TaskView<'_>) -> bool {
    let inner = |role| step.blocks.iter().filter(move |b| b.role == role).flat_map(|b| &b.steps);
    match step.op.signature.control {
        Control::Any => inner(BlockRole::Branch).any(|s| cannot_fail(s, view)),
        Control::Each if is_empty(step) => true,
        Control::Each | Control::Scope | Control::Eventually | Control::Consistently => {
            inner(BlockRole::Setup).chain(inner(BlockRole::Steps)).all(|s| cannot_fail(s, view))
        }
        Control::Leaf => leaf_cannot_fail(step, view),
    }
}

/// Whether a loop has an empty list.
fn is_empty(step: &Step<Def>) -> bool {
    step.arg("in").is_some_and(|list| matches!(&list.kind, ArgKind::List(items) if items.is_empty()))
}

/// Verify only checks that files are absent, and setup creates none: a run in which nothing happens passes.
pub fn absence_alone(view: &TaskView<'_>, out: &mut Diagnostics) {
    let steps = &view.task.verify.steps;
    let path = |step: &Step<Def>| Some(resolve(&view.task.dir, step.arg("path")?.as_literal()?));
    let mut first = None;
    let mut alone = !view.asserted;
    let mut paths = Vec::new();
    steps.iter().for_each(|step| {
        step.walk(&mut |step| {
            if step.op.signature.control != Control::Leaf {
                return;
            }
            let exists = step.expect.as_ref().and_then(|(_, expect)| expect.get("exists"));
            alone &= exists.is_some_and(|exists| matches!(exists.kind, ArgKind::Bool(false)));
            paths.push(path(step));
            first.get_or_insert(step);
        });
    });
    let mut made = paths.iter().flatten().any(|path| view.files.stat(path).is_some());
    view.task.setup.steps.iter().for_each(|step| {
        step.walk(&mut |step| {
            made |= match &step.op.kind {
                OperationKind::Builtin("sleep") => false,
                OperationKind::Builtin("file") => {
                    let path = path(step);
                    step.arg("content").is_some() && paths.iter().any(|p| p.is_none() || path.is_none() || *p == path)
                }
                _ => step.op.signature.control == Control::Leaf,
            };
        });
    });
    if let (Some(first), true, false) = (first, alone, made) {
        let message =
            "verify only checks that a file is absent, and setup creates none: a run in which nothing happens passes";
        let finding = Diagnostic::new(&ABSENCE_ALONE, first.key, message)
            .help("create the file in `setup`, or check for something that the agent must do");
        out.push(if view.selected { finding } else { finding.strength(Strength::Warning) });
    }
}

fn leaf_cannot_fail(step: &Step<Def>, view: &TaskView<'_>) -> bool {
    let task = view.task;
    let expect = step.expect.as_ref().map(|(_, e)| e);
    match &step.op.kind {
        OperationKind::Builtin("sleep") => true,
        OperationKind::Builtin("command" | "script") => {
            let expect = expect.map(crate::hir::Arg::as_value);
            let is = |value| expect.as_ref().is_some_and(|e| e.as_ref() == Some(&value));
            let usual = expect.is_none() || is(serde_json::json!({})) || is(serde_json::json!({"exitCode": 0}));
            let plain = step.arg("protocol").is_none();
            let script = view.script_of(step);
            is(serde_json::json!({"exitCode": "any"}))
                || usual && plain && script.is_some_and(|s| exit_status::is_idle(&s.content))
        }
        OperationKind::Builtin("http") if task.dialect == Dialect::Portable => expect
            .is_some_and(|e| e.get("body").is_none() && e.get("status").and_then(|s| s.as_literal()) == Some("any")),
        OperationKind::Builtin("file") => made_by_setup(step, task),
        // `min: 0` is always met.
        OperationKind::Extension { operation, .. } if operation == "count" && step.arg("min").is_some() => {
            let is_zero = step.arg("min").and_then(crate::hir::Arg::as_value).is_some_and(|min| min == 0);
            is_zero && step.arg("max").is_none() && step.arg("equals").is_none()
        }
        OperationKind::Tool { tool: name, .. } | OperationKind::Extension { operation: name, .. } => {
            expect.is_none() && lists(name)
        }
        _ => false,
    }
}

/// Whether an operation lists: `pods_list`, `helmList`, `listPods`. An empty list is also a success.
fn lists(operation: &str) -> bool {
    operation.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| {
        ["list", "search", "find", "query"].iter().any(|verb| word.eq_ignore_ascii_case(verb))
            || word.ends_with("List")
            || ["list", "search", "find", "query"].iter().any(|verb| {
                word.strip_prefix(verb).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_uppercase()))
            })
    })
}

/// Whether a `file` step has no expectation, or only checks that a file exists that setup wrote.
fn made_by_setup(step: &Step<Def>, task: &Task<Def>) -> bool {
    let Some((_, expect)) = &step.expect else { return true };
    let only_exists =
        expect.as_value().is_some_and(|v| v == serde_json::json!({}) || v == serde_json::json!({"exists": true}));
    let Some(path) = step.arg("path").and_then(|p| p.as_literal()).filter(|_| only_exists) else { return false };
    task.setup.steps.iter().any(|s| {
        s.op.name == "file" && s.arg("content").is_some() && s.arg("path").and_then(|p| p.as_literal()) == Some(path)
    })
}

/// The prompt contains what the judge or a `grep` looks for in the answer: an agent that repeats the prompt passes.
pub fn prompt_answers(view: &TaskView<'_>, out: &mut Diagnostics) {
    let Some(prompt) = &view.task.prompt else { return };
    let text = LazyCell::new(|| {
        let text = texts::written(&prompt.text);
        // If the prompt is about letter case, words in another case are not the answer.
        let fold = if CASE.is_match(&text) { exactly } else { fold };
        (fold(&text), fold)
    });
    let contains = |word: &str| text.0.contains(&text.1(word));
    // The prompt contains every significant word of the answer, with several names or numbers among them.
    let says_all = |answer: &str| {
        let part = |c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
        let words = || answer.split(part).filter(|word| word.len() > 3 || word.bytes().any(|b| b.is_ascii_digit()));
        let is_name = |word: &&str| word.contains(['-', '_']) || word.bytes().any(|b| b.is_ascii_digit());
        // `tell me which file it was`, and the prompt names the file.
        let is_file =
            |word: &&str| word.contains('/') && word.rsplit('/').next().is_some_and(|name| name.contains('.'));
        let files =
            || answer.split_whitespace().map(|word| word.trim_matches(['`', '"', '\'', ',', '.'])).filter(is_file);
        let is_asked = || files().next().is_some() && WHICH_FILE.is_match(&text.0) && files().all(&contains);
        words().count() > 3
            && (words().filter(is_name).count() > 1 || is_asked())
            && words().all(|word| texts::has_word(&text.0, &text.1(word)))
    };
    for step in &view.task.verify.steps {
        step.walk(&mut |step| {
            if step.op.signature.judges {
                for (_, arg) in &step.args {
                    if let Some(word) = arg.as_literal()
                        && !word.trim().is_empty()
                        && (contains(word) || says_all(word))
                    {
                        out.push(answered(
                            arg.span,
                            "the judge checks for words that the prompt contains",
                            prompt.text.span,
                        ));
                    }
                }
            }
            if texts::sees_answer(step)
                && let Some(script) = texts::script(step)
            {
                let greps = GREP.captures_iter(&script).filter_map(|c| (1..4).find_map(|i| c.get(i)));
                let patterns = PATTERN.captures_iter(&script).filter_map(|c| c.get(1));
                let words: Vec<&str> = greps.chain(patterns).map(|m| m.as_str()).collect();
                let given: Vec<_> = words.iter().filter(|w| w.len() > 2 && contains(w)).collect();
                // `tell me how many of the 4 messages are left`, and a search for `4|four`.
                let is_count = |word: &str| {
                    word.len() < 4 && word.bytes().all(|b| b.is_ascii_digit()) && texts::has_word(&text.0, word)
                };
                let asks = text.0.contains("how many");
                let mut counts = words.iter().flat_map(|word| word.split('|')).collect::<Vec<_>>();
                counts.retain(|word| asks && is_count(word));
                if let (Some(count), false) = (counts.first(), script.contains("grep -v")) {
                    out.push(answered(
                        step.key,
                        &format!("the script searches the answer for the number `{count}`, which the prompt contains"),
                        prompt.text.span,
                    ));
                    return;
                }
                if let (Some(word), true) = (given.first(), given.len() == words.len() && !script.contains("grep -v")) {
                    out.push(answered(
                        step.key,
                        &format!("the script searches the answer for `{word}`, which the prompt contains"),
                        prompt.text.span,
                    ));
                }
            }
        });
    }
}

static GREP: Ascii = ascii(r#"\bgrep(?:\s+-{1,2}[\w-]+)*\s+(?:--\s+)?(?:"([^"$`]+)"|'([^']+)'|([\w./-]+))"#);

/// `[[ "$ANSWER" == *word* ]]` as a check of its own: in an `if`, the word may be forbidden.
static PATTERN: Ascii =
    ascii(r#"(?m)^\s*\[\[\s+[^\]!&|]*\s==?\s*\*["']?([^"'*$\s\[\]?]+)["']?\*\s*\]\]\s*(?:\|\|[^&]*)?$"#);

static WHICH_FILE: Ascii = ascii(r"(?i)\b(?:which|what) (?:file|path|script|module|one it was)\b");

static CASE: Ascii = ascii(
    r"(?i)\b(?:upper|lower|title|camel|snake|kebab|pascal)[ _-]?cased?\b|\b(?:letter|sentence) case\b|\bcapital(?:s|i[sz]ed?|i[sz]ation| letters?)\b|\bcase[- ]sensitive",
);

fn answered(span: crate::source::Span, message: &str, prompt: crate::source::Span) -> Diagnostic {
    Diagnostic::new(&PROMPT_CONTAINS_ANSWER, span, message)
        .label(prompt, "in this prompt")
        .help("an agent that only repeats the prompt would pass: check for what it must find out or do")
}

/// The text in lowercase, with each run of white space replaced by one space.
fn fold(text: &str) -> String {
    exactly(&text.to_lowercase())
}

/// The text with each run of white space replaced by one space.
fn exactly(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A phrase of at least four words that the agent must use exactly (author mistake 14).
pub fn exact_words(view: &TaskView<'_>, out: &mut Diagnostics) {
    for step in &view.task.verify.steps {
        step.walk(&mut |step| {
            let Some(script) = texts::script(step).filter(|_| texts::sees_answer(step)) else { return };
            let phrases = GREP.captures_iter(&script).filter_map(|c| (1..3).find_map(|i| c.get(i)));
            let plain = |p: &str| p.split_whitespace().count() >= 4 && !p.contains(['|', '*', '[', '(']);
            if let Some(phrase) = phrases.map(|m| m.as_str()).find(|p| plain(p)) {
                out.push(
                    Diagnostic::new(
                        &EXACT_WORDS_OF_ANSWER,
                        step.key,
                        format!("the agent must say exactly “{}”", crate::builtin::excerpt(phrase)),
                    )
                    .help("search for the important word, use the judge, or check the effect itself"),
                );
            }
        });
    }
}

/// Only a judge decides.
pub fn judge_alone(view: &TaskView<'_>, out: &mut Diagnostics) {
    let steps = &view.task.verify.steps;
    if let Some(first) = steps.first()
        && !view.asserted
        && steps.iter().all(|s| s.op.signature.judges)
    {
        out.push(Diagnostic::new(&JUDGE_DECIDES_ALONE, first.key, "this task is decided only by a judge").help(
            "a judge reads what the agent says, not what it did: add a step that checks the effect, or an assertion",
        ));
    }
}
