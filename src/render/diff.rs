//! Renders what changed between two plans: as text, as Markdown for pull requests, and as JSON.

use std::{fmt::Write, time::Duration};

use serde_json::Value;

use super::{cut, line};
use crate::{
    plan::diff::{Change, Diff, FactChange, ReachChange, TaskDiff},
    ty::duration,
};

/// One way to show changes.
#[derive(Debug)]
pub struct DiffFormat {
    /// The value of `--format`.
    pub name: &'static str,
    pub render: fn(&Diff) -> String,
}

/// All formats; the first is the default.
pub const DIFF_FORMATS: &[DiffFormat] = &[
    DiffFormat { name: "tree", render: text },
    DiffFormat { name: "markdown", render: markdown },
    DiffFormat { name: "json", render: json },
];

/// The maximum length of a value before and after.
const VALUE: usize = 80;
const NOTHING: &str = "no difference\n";

fn text(diff: &Diff) -> String {
    let mut out = String::new();
    if diff.is_empty() {
        return NOTHING.to_owned();
    }
    if !diff.reach.is_empty() {
        out += if diff.grows() { "reach grows\n" } else { "reach shrinks\n" };
        reach(&diff.reach, "  ", &mut out);
    }
    if !diff.eval.is_empty() {
        out += "eval changed\n";
        facts(&diff.eval, "  ", &mut out);
    }
    for task in &diff.tasks {
        let _ = writeln!(out, "{}  {}", line(&task.name, true), word(task.change));
        facts(&task.facts, "  ", &mut out);
        let width = task.steps.iter().map(|s| s.id.chars().count()).max().unwrap_or(0).min(40);
        for step in &task.steps {
            let (sign, id) = (sign(step.change), line(&step.id, true));
            let _ = writeln!(out, "  {sign} {id:<width$}  {}", line(&step.meaning, true));
            facts(&step.facts, "      ", &mut out);
        }
        for (sign, words) in flow(task) {
            let _ = writeln!(out, "  {sign} {words}");
        }
        reach(&task.reach, "  ", &mut out);
        if let Some(times) = worst(task) {
            let _ = writeln!(out, "  ~ {times}");
        }
    }
    out
}

fn reach(changes: &[ReachChange], indent: &str, out: &mut String) {
    for change in changes {
        for (sign, items) in [('+', &change.added), ('-', &change.removed)] {
            if !items.is_empty() {
                let items: Vec<_> = items.iter().map(|item| cut(item, VALUE)).collect();
                let _ = writeln!(out, "{indent}{sign} {}: {}", change.of, items.join(", "));
            }
        }
    }
}

fn facts(changes: &[FactChange], indent: &str, out: &mut String) {
    for FactChange { name, before, after } in changes {
        let name = line(name, true);
        let _ = match (before, after) {
            (Some(before), Some(after)) => {
                let (before, after) = two(before, after);
                writeln!(out, "{indent}~ {name}: {before} → {after}")
            }
            (None, Some(after)) => writeln!(out, "{indent}+ {name}: {}", cut(&value(after), VALUE)),
            (Some(before), None) => writeln!(out, "{indent}- {name}: {}", cut(&value(before), VALUE)),
            (None, None) => Ok(()),
        };
    }
}

fn markdown(diff: &Diff) -> String {
    let mut out = String::from("### Plan\n\n");
    if diff.is_empty() {
        return out + "No difference.\n";
    }
    if !diff.reach.is_empty() {
        out += if diff.grows() { "**The reach grows.**\n\n" } else { "The reach shrinks.\n\n" };
        out += "| | added | removed |\n|---|---|---|\n";
        for change in &diff.reach {
            let cell = |items: &[String]| {
                items.iter().map(|i| code(&cut(i, VALUE)).replace('|', "\\|")).collect::<Vec<_>>().join("<br>")
            };
            let _ = writeln!(out, "| {} | {} | {} |", change.of, cell(&change.added), cell(&change.removed));
        }
        out.push('\n');
    }
    if !diff.eval.is_empty() {
        out += "#### The eval\n\n";
        bullets(&diff.eval, "", &mut out);
        out.push('\n');
    }
    for task in &diff.tasks {
        let _ = writeln!(out, "#### {} {}\n", code(&cut(&task.name, VALUE)), word(task.change));
        bullets(&task.facts, "", &mut out);
        for step in &task.steps {
            let (id, meaning) = (code(&line(&step.id, true)), code(&line(&step.meaning, true)));
            let _ = writeln!(out, "- {} step {id}: {meaning}", word(step.change));
            bullets(&step.facts, "  ", &mut out);
        }
        for (sign, words) in flow(task) {
            let _ = writeln!(out, "- {} value {}", if sign == '+' { "new" } else { "removed" }, code(&words));
        }
        for change in &task.reach {
            for (what, items) in [("reaches", &change.added), ("no longer reaches", &change.removed)] {
                if !items.is_empty() {
                    let items: Vec<_> = items.iter().map(|item| code(&cut(item, VALUE))).collect();
                    let _ = writeln!(out, "- {what} {}: {}", change.of, items.join(", "));
                }
            }
        }
        if let Some(times) = worst(task) {
            let _ = writeln!(out, "- {times}");
        }
        out.push('\n');
    }
    out.truncate(out.trim_end().len());
    out + "\n"
}

fn bullets(changes: &[FactChange], indent: &str, out: &mut String) {
    for FactChange { name, before, after } in changes {
        let shown = |text: &str| code(&cut(text, VALUE));
        let name = code(&line(name, true));
        let _ = match (before, after) {
            (Some(before), Some(after)) => {
                let (before, after) = two(before, after);
                writeln!(out, "{indent}- {name}: {} → {}", code(&before), code(&after))
            }
            (None, Some(after)) => writeln!(out, "{indent}- {name} added: {}", shown(&value(after))),
            (Some(before), None) => writeln!(out, "{indent}- {name} removed: {}", shown(&value(before))),
            (None, None) => Ok(()),
        };
    }
}

fn json(diff: &Diff) -> String {
    serde_json::to_string_pretty(diff).unwrap_or_default() + "\n"
}

fn flow(task: &TaskDiff) -> impl Iterator<Item = (char, String)> {
    task.flow.iter().map(|f| {
        let sign = if f.added { '+' } else { '-' };
        (sign, line(&format!("{}.{} → {}", f.from, f.name, f.to), true))
    })
}

fn worst(task: &TaskDiff) -> Option<String> {
    let change = task.worst_case?;
    let shown = |seconds: f64| Duration::try_from_secs_f64(seconds).map(duration::format).unwrap_or_default();
    Some(format!("worst case {} → {}", shown(change.before), shown(change.after)))
}

fn word(change: Change) -> &'static str {
    match change {
        Change::Added => "added",
        Change::Removed => "removed",
        Change::Changed => "changed",
        Change::Moved => "moved",
    }
}

fn sign(change: Change) -> char {
    match change {
        Change::Added => '+',
        Change::Removed => '-',
        Change::Changed => '~',
        Change::Moved => '↕',
    }
}

fn value(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Returns two values, starting shortly before the first difference.
fn two(before: &Value, after: &Value) -> (String, String) {
    let (before, after) = (value(before), value(after));
    let same = before.chars().zip(after.chars()).take_while(|(a, b)| a == b).count();
    let skip = if same > VALUE / 2 { same - VALUE / 4 } else { 0 };
    let part = |text: &str| {
        let rest: String = text.chars().skip(skip).collect();
        format!("{}{}", if skip > 0 { "…" } else { "" }, cut(&rest, VALUE))
    };
    (part(&before), part(&after))
}

/// Formats inline code for Markdown, with a fence longer than any in the text.
fn code(text: &str) -> String {
    if text.is_empty() {
        return "(empty)".to_owned();
    }
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    let space = if text.starts_with('`') || text.ends_with('`') { " " } else { "" };
    format!("{fence}{space}{text}{space}{fence}")
}
