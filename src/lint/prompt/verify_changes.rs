//! Verify that does the agent's work itself.

use crate::{
    ascii::{Ascii, ascii},
    bash::tools,
    diagnostic::{Diagnostic, Diagnostics},
    effects::{Act, Verb, asked::Demand, shell::Run, value::Value},
    hir::PhaseKind,
    lint::{
        TaskView,
        analysis::{
            checked_resource::{self, place, runs},
            orders, texts,
        },
    },
    rule,
};

rule! {
    pub static VERIFY_MAKES = "verify-makes", Warning;
}

/// `run it once, as a Job called sweep`.
static CALLED: Ascii =
    ascii(r"(?i)\b(?:run|create|make|start|deploy|install|add|set up|launch)\b[^.;]*\b(?:called|named)\s+[`\x22']?$");

/// Requires that the prompt asks to create a resource with this name, that setup does not create it, and that verify
/// creates it and then checks it.
pub fn check(view: &TaskView<'_>, out: &mut Diagnostics) {
    let Some(prompt) = &view.task.prompt else { return };
    let model = view.effects;
    let said = model.prompt.shown();
    let mut told: Vec<String> = Vec::new();
    let verify: Vec<&Act> = model.in_phase(PhaseKind::Verify).collect();
    for (at, made) in verify.iter().enumerate().filter(|(_, act)| act.verb == Verb::Creates) {
        let thing = &made.thing;
        let known = matches!(thing.system.as_str(), "kubernetes" | "helm" | "docker" | "postgres" | "mysql");
        let Some(name) = thing.name.as_ref().filter(|name| known && name.is_known()).map(Value::shown) else {
            continue;
        };
        let others = |phase: PhaseKind, verbs: &[Verb]| {
            model.in_phase(phase).any(|act| verbs.contains(&act.verb) && act.thing.may_be(thing))
        };
        let looks = verify[at + 1..]
            .iter()
            .any(|act| matches!(act.verb, Verb::Reads | Verb::Awaits) && act.thing.may_be(thing));
        let is_own = others(PhaseKind::Verify, &[Verb::Deletes]) || others(PhaseKind::Setup, &[Verb::Creates]);
        // `CREATE INDEX IF NOT EXISTS`: that it may exist already says that the agent is expected to create it.
        let ensures = made.again && matches!(thing.kind.as_str(), "index" | "table" | "view");
        if name.len() < 3 || told.contains(&name) || !looks && !ensures || is_own || !model.sees(PhaseKind::Setup) {
            continue;
        }
        let speaks = |before: &str| texts::speaks_of(view, before, &thing.kind);
        let called = said.match_indices(name.as_str()).any(|(at, _)| {
            let part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
            CALLED.is_match(&said[..at]) && !said[at + name.len()..].starts_with(part)
        });
        let is_asked =
            called || ensures && said.contains(&name) || orders::is_object(&said, &name, &orders::MAKES, &speaks);
        if !is_asked {
            continue;
        }
        out.push(
            Diagnostic::new(
                &VERIFY_MAKES,
                made.span,
                format!("verify itself creates the {} `{name}`, which the agent is asked to create", thing.kind),
            )
            .label(prompt.text.span, "the prompt asks for it here")
            .help("only check what the agent has created: what verify creates exists even if the agent does nothing"),
        );
        told.push(name);
    }
    sets(view, &said, out);
    deletes(view, &said, out);
}

/// `DELETE FROM customers …; SELECT … FROM customers`, where the prompt asks to remove rows.
fn deletes(view: &TaskView<'_>, said: &str, out: &mut Diagnostics) {
    let has_word = |text: &str| text.contains("DELETE ") || text.contains("delete ");
    for script in view.scripts.iter().filter(|script| script.phase == PhaseKind::Verify) {
        let text = &script.content.text;
        if !has_word(text) || !REMOVES.is_match(said) || REFUSES.is_match(said) {
            continue;
        }
        // In a transaction that is rolled back, or with a command that is expected to fail, it is a question.
        let asks =
            ["ROLLBACK", "rollback", "BEGIN", "begin", "if ! ", "|| ", "2>&1"].iter().any(|word| text.contains(word));
        let Some((whole, table)) = DELETE.captures(text).and_then(|found| Some((found.get(0)?, found.get(1)?))) else {
            continue;
        };
        let reads = |rest: &str| {
            READ.captures_iter(rest).any(|found| found.get(1).is_some_and(|m| m.as_str() == table.as_str()))
        };
        if asks || !reads(&text[whole.end()..]) {
            continue;
        }
        let message = format!("verify itself deletes rows of the table `{}`, and then reads the rest", table.as_str());
        out.push(
            Diagnostic::new(&VERIFY_MAKES, script.content.span(whole.range()), message)
                .help("only check what the agent has left: what verify deletes is gone even if the agent does nothing"),
        );
    }
}

static DELETE: Ascii = ascii(r#"(?i)\bdelete\s+from\s+"?(\w+)"#);
static READ: Ascii = ascii(r#"(?i)\bselect\b[^;]*?\bfrom\s+"?(\w+)"#);
static REMOVES: Ascii =
    ascii(r"(?i)\b(?:delet\w*|remov\w*|merg\w*|duplicat\w*|dedup\w*|purg\w*|clean\w*|archiv\w*|move)\b");
/// Verify then tries what the prompt asks to prevent.
static REFUSES: Ascii =
    ascii(r"(?i)\b(?:cascad\w*|trigger|constraint|foreign|prevent\w*|refus\w*|restrict\w*|log(?:ged|s)?|audit\w*)\b");

/// `redis-cli SET status warm`, also through `docker exec`, before verify compares what it reads under `status` with
/// `warm`: both words are in the prompt.
fn sets(view: &TaskView<'_>, said: &str, out: &mut Diagnostics) {
    let writers: Vec<&Run<'_>> = runs(view, PhaseKind::Verify).filter(|run| !run.maybe && writes(run)).collect();
    if writers.is_empty() {
        return;
    }
    for question in view.asked().iter().filter(|question| question.is_wanted().is_some()) {
        let Demand::Compared { operator, with } = &question.demand else { continue };
        let is_equal = matches!(operator.as_str(), "=" | "==" | "-eq");
        if question.is_wanted() != Some(is_equal) || with.len() < 2 || !texts::has_word(said, with) {
            continue;
        }
        let Some(read) = question.runs.first() else { continue };
        let before = writers.iter().find(|run| {
            let has = |word: &str| run.words.iter().any(|known| known.literal() == Some(word));
            let shared = |word: &str| word.len() > 2 && texts::has_word(said, word) && word != with && has(word);
            // The key is the last operand of the command that reads it.
            let key = read.words.iter().skip(1).rev().filter_map(Value::literal).find(|word| !word.starts_with('-'));
            let is_before = std::ptr::eq(run.content, read.content)
                && run.statement.range.end <= question.statement.range.start
                && run.statement.name() == read.statement.name();
            is_before && has(with) && key.is_some_and(shared)
        });
        let Some(before) = before else { continue };
        let span = place(before);
        if !crate::lint::resources::elsewhere::out_has(out, span) {
            out.push(
                Diagnostic::new(
                    &VERIFY_MAKES,
                    span,
                    format!("verify itself sets `{with}`, which it then compares with what it reads"),
                )
                .label(question.span, "compared here")
                .help("only read what the agent has set: what verify sets is there even if the agent does nothing"),
            );
        }
    }
}

/// Whether a command sets a value.
fn writes(run: &Run<'_>) -> bool {
    const WRITES: [&str; 9] = ["set", "put", "hset", "mset", "setex", "lpush", "rpush", "sadd", "write"];
    let words = run.words.iter().skip(1).filter_map(Value::literal);
    let mut words = words.map(str::to_ascii_lowercase);
    words.any(|word| WRITES.contains(&word.as_str())) && !tools::only_looks(&checked_resource::words(run))
}
