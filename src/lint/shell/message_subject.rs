//! Checks whose message speaks of another resource than the one that they read.

use crate::{
    ascii::{Ascii, ascii},
    bash::program::{Kind, Statement},
    diagnostic::{Diagnostic, Diagnostics},
    effects::{Act, Verb, asked::Question, script::Content, value::Value},
    hir::PhaseKind,
    lint::{TaskView, analysis::texts, shell::repeated_check::REPEATED_CHECK},
};

/// `status=$(kubectl get vm db …)`, and `legacy-web is $status` as its failure: the command was copied and not changed. Requires that the
/// message names no resource that the check reads, and that nothing in verify reads the one that it names.
pub fn check(view: &TaskView<'_>, out: &mut Diagnostics) {
    labels(view, out);
    let name_of = |act: &Act| act.thing.name.as_ref().and_then(Value::literal).map(str::to_owned);
    for question in view.asked() {
        let Some(act) = question.runs.first().and_then(|run| view.effects.read_by(run)) else { continue };
        let Some(read) = name_of(act).filter(|_| act.thing.system == "kubernetes") else { continue };
        let Some(message) = failure(question) else { continue };
        if texts::has_word(&message, &read) {
            continue;
        }
        let setup = view.effects.in_phase(PhaseKind::Setup);
        let mut others = setup.filter(|other| other.verb == Verb::Creates && other.thing.kind == act.thing.kind);
        let other = others.find_map(|other| {
            let name =
                name_of(other).filter(|name| name.len() > 3 && *name != read && texts::has_word(&message, name))?;
            let is_read = view.effects.in_phase(PhaseKind::Verify).any(|act| {
                act.thing.kind == other.thing.kind
                    && act.thing.name.as_ref().is_none_or(|known| known.literal().is_none_or(|known| known == name))
            });
            (!is_read).then_some(name)
        });
        if let Some(other) = other {
            let message = format!("this check is about `{other}`, as its message says, but the command reads `{read}`");
            let run = question.runs[0];
            out.push(
                Diagnostic::new(&REPEATED_CHECK, question.span, message)
                    .label(run.content.span(run.statement.range.clone()), "read here")
                    .help(format!("read `{other}`: nothing in verify does")),
            );
        }
    }
}

/// `check "lets in only app=api" '….app == "db"'`: the message has another value of the field.
fn labels(view: &TaskView<'_>, out: &mut Diagnostics) {
    for script in view.scripts.iter().filter(|script| script.phase == PhaseKind::Verify) {
        let content = &script.content;
        if !content.text.contains(" == ") {
            continue;
        }
        for call in content.program.commands().into_iter().filter(|call| call.words().len() == 3) {
            let [_, message, filter] = call.words() else { continue };
            let is_message = message.literal && message.text.contains(' ') && !message.text.contains("==");
            let mut pairs = PAIR.captures_iter(&message.text).filter(|_| is_message && filter.literal);
            let (Some(pair), None) = (pairs.next(), pairs.next()) else { continue };
            let (key, value) = (&pair[1], &pair[2]);
            let mut compared = COMPARED.captures_iter(&filter.text).filter(|found| &found[1] == key).peekable();
            let other = compared.peek().map(|found| found[2].to_owned());
            if let Some(other) = other.filter(|_| compared.all(|found| &found[2] != value)) {
                let text = format!("the message of this check says `{key}={value}`, but it compares with `{other}`");
                out.push(
                    Diagnostic::new(&REPEATED_CHECK, content.span(filter.range.clone()), text)
                        .label(content.span(message.range.clone()), "the message")
                        .help("correct one of them"),
                );
            }
        }
    }
}

/// `app=api` in a message.
static PAIR: Ascii = ascii(r"\b([A-Za-z][\w-]*)=([A-Za-z][\w.-]*)");

/// `.app == "api"` in a filter of jq.
static COMPARED: Ascii = ascii(r#"\.([A-Za-z]\w*)\s*==\s*"([^"]+)""#);

/// What is printed if the condition is not met: in the branch of an `if` that fails, or after `||`.
fn failure(question: &Question<'_>) -> Option<String> {
    let wanted = question.is_wanted()?;
    let inside = |list: &[Statement]| {
        list.iter()
            .any(|s| s.range.start <= question.statement.range.start && question.statement.range.end <= s.range.end)
    };
    let mut found = None;
    question.content.program.walk(&mut |statement| match &statement.kind {
        Kind::If { branches, otherwise } => {
            if let [branch] = branches.as_slice()
                && inside(&branch.condition)
            {
                let negated = branch.condition.iter().any(|s| matches!(s.kind, Kind::Not(_)));
                let body = if wanted == negated { Some(branch.body.as_slice()) } else { otherwise.as_deref() };
                found = body.map(|body| said(question.content, body));
            }
        }
        Kind::Or(pair) if inside(&pair[..1]) => found = Some(said(question.content, &pair[1..])),
        _ => {}
    });
    found.filter(|text| !text.is_empty())
}

/// The messages in a list of statements.
fn said(content: &Content, body: &[Statement]) -> String {
    let mut text = String::new();
    body.iter().for_each(|statement| {
        statement.walk(&mut |s| {
            if matches!(s.name(), "echo" | "printf" | "fail" | "die") {
                text.push_str(content.text.get(s.range.clone()).unwrap_or_default());
                text.push('\n');
            }
        });
    });
    text
}
