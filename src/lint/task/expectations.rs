//! Expectations that always hold.

use crate::{
    ascii::{Ascii, ascii},
    decode::VACUOUS_EXPECTATION,
    diagnostic::{Diagnostic, Diagnostics, Strength},
    hir::{Arg, ArgKind, Def, Dialect, Name, Step},
    lint::{
        TaskView,
        analysis::pattern::{Texts, matches_all},
    },
};

/// `contains: ""`, `matches: .*`, `expect: {}`, a field with a path and nothing else (`tests/coverage.md` B30).
pub fn check(view: &TaskView<'_>, out: &mut Diagnostics) {
    let dialect = view.task.dialect;
    view.task.walk(&mut |_, step| {
        let whole = |expect: &Arg<Def>| !view.has_unread(expect.span);
        if let Some((key, expect)) = step.expect.as_ref().filter(|(_, expect)| whole(expect)) {
            match &expect.kind {
                // Reported as a wrong type.
                ArgKind::Null => {}
                ArgKind::Record(fields) if fields.is_empty() => empty(step, *key, dialect, out),
                _ => value(expect, dialect, out),
            }
            of_count(step, expect, out);
        }
        if step.op.signature.judges {
            for (name, arg) in &step.args {
                if is_blank(arg) {
                    out.push(blank(name));
                } else if arg.as_literal().is_some_and(|t| t.trim().is_empty()) {
                    out.push(nothing(name, "the text for the judge is empty"));
                }
            }
        }
    });
}

/// `atLeast: 0` for the output of a command that only counts: `SELECT count(*)`, `… | wc -l`.
fn of_count(step: &Step<Def>, expect: &Arg<Def>, out: &mut Diagnostics) {
    let Some(ArgKind::Record(fields)) = expect.get("stdout").map(|stdout| &stdout.kind) else { return };
    let [(name, bound)] = fields.as_slice() else { return };
    let is_zero = match name.value.as_str() {
        "atLeast" => matches!(bound.kind, ArgKind::Int(0)),
        "above" => matches!(bound.kind, ArgKind::Int(..0)),
        _ => false,
    };
    let run = step.arg("run").and_then(crate::lint::analysis::texts::script_text).filter(|_| is_zero);
    // Without groups, there is no row and no count.
    if run.is_some_and(|run| COUNTS.is_match(&run) && !run.to_lowercase().contains("group by")) {
        out.push(nothing(name, "this command prints a count, which is never less than 0"));
    }
}

/// A query of one count, or a pipe that ends with one.
static COUNTS: Ascii = ascii(
    r"(?i)\x22\s*select\s+count\((?:\*|distinct \w+|\w+)\)\s+from\b[^\x22;]*\x22\s*$|'\s*select\s+count\((?:\*|distinct \w+|\w+)\)\s+from\b[^';]*'\s*$|\|\s*(?:wc -l|jq length|jq 'length')\s*$",
);

/// An empty `expect` of `file` checks the file; on any other step it adds nothing.
fn empty(step: &Step<Def>, key: crate::source::Span, dialect: Dialect, out: &mut Diagnostics) {
    if step.op.name == "file" {
        return;
    }
    let diagnostic = Diagnostic::new(&VACUOUS_EXPECTATION, key, "this expectation is empty and checks nothing")
        .help("add what is expected, or remove the key");
    out.push(if dialect == Dialect::Portable { diagnostic.strength(Strength::Warning) } else { diagnostic });
}

fn value(arg: &Arg<Def>, dialect: Dialect, out: &mut Diagnostics) {
    match &arg.kind {
        ArgKind::List(items) => items.iter().for_each(|i| value(i, dialect, out)),
        ArgKind::Record(fields) if arg.get("path").is_some() => {
            // For a JSON value, null is a value to compare with (`decisions.md` §4).
            let blanks = fields.iter().filter(|(name, arg)| is_blank(arg) && name.value != "equals");
            blanks.for_each(|(name, _)| out.push(blank(name)));
            for (name, inner) in fields.iter().filter(|(name, _)| name.value == "length") {
                if matches!(&inner.kind, ArgKind::Record(fields) if fields.iter().all(admits_all)) {
                    out.push(nothing(name, "this accepts any number of elements"));
                }
            }
            if dialect != Dialect::Portable {
                field(fields, out);
            }
        }
        ArgKind::Record(fields) => {
            for (name, inner) in fields {
                match (name.value.as_str(), inner.as_literal(), &inner.kind) {
                    (_, _, ArgKind::Null) => out.push(blank(name)),
                    // Whole values, in which null and empty have their own meaning.
                    ("equals" | "structuredContent", _, ArgKind::Record(_) | ArgKind::List(_))
                        if dialect == Dialect::Portable => {}
                    ("status", _, ArgKind::Int(0)) => {
                        out.push(
                            nothing(name, "0 is not a status: any response is accepted")
                                .help("write the expected status, such as 200"),
                        );
                    }
                    // `not` is considered as a whole.
                    ("not", _, ArgKind::Record(fields)) if !fields.is_empty() => {}
                    ("lines" | "length", _, ArgKind::Record(fields)) if fields.iter().all(admits_all) => {
                        out.push(nothing(name, "this accepts any number of elements"));
                    }
                    ("contains", Some(""), _) => out.push(nothing(name, "every text contains the empty text")),
                    ("matches" | "match", Some(pattern), _) if matches_all(pattern, Texts::Lines) => {
                        out.push(nothing(name, "this pattern matches every text"));
                    }
                    (_, _, ArgKind::Record(fields)) if fields.is_empty() => {
                        out.push(nothing(name, "this expectation is empty and checks nothing"))
                    }
                    (_, _, ArgKind::List(items)) if items.is_empty() => {
                        out.push(nothing(name, "this list of expectations is empty and checks nothing"))
                    }
                    _ => value(inner, dialect, out),
                }
            }
        }
        _ => {}
    }
}

/// `atLeast: 0`, of a number of lines or elements.
fn admits_all((name, bound): &(Name, Arg<Def>)) -> bool {
    name.value == "atLeast" && matches!(bound.kind, ArgKind::Int(0))
}

/// In the steps dialect, a path alone checks nothing, and `equals: null` is not compared.
fn field(fields: &[(Name, Arg<Def>)], out: &mut Diagnostics) {
    let asks = |(name, arg): &&(Name, Arg<Def>)| name.value != "path" && !(name.value == "equals" && is_blank(arg));
    if fields.iter().any(|f| asks(&f)) {
        return;
    }
    let null = fields.iter().find(|(name, _)| name.value == "equals");
    let path = fields.iter().find(|(name, _)| name.value == "path");
    if let Some((name, _)) = null {
        out.push(
            nothing(name, "`equals: null` is not compared in this dialect")
                .help("write `type: null`, or `exists: false` if the field must not exist"),
        );
    } else if let Some((name, _)) = path {
        out.push(
            nothing(name, "a path alone checks nothing in this dialect")
                .help("add `equals`, `match` or `type`, or `exists: true`"),
        );
    }
}

fn is_blank(arg: &Arg<Def>) -> bool {
    matches!(arg.kind, ArgKind::Null)
}

fn blank(name: &Name) -> Diagnostic {
    nothing(name, &format!("`{}` has no value: nothing is compared", name.value))
        .help("add what is expected, or remove the key")
}

fn nothing(name: &Name, message: &str) -> Diagnostic {
    Diagnostic::new(&VACUOUS_EXPECTATION, name.span, message).help("this cannot fail: specify what is expected")
}
