//! One place leaves out, or renames, what the rest of the task has: a database, a namespace, a default, a parameter.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    ascii::{Ascii, ascii},
    bash::{program::Kind, tools},
    diagnostic::{Diagnostic, Diagnostics, Rule, Strength},
    effects::{Verb, shell::Run},
    hir::{ArgKind, Hole, PhaseKind, Target},
    lint::{
        TaskView,
        analysis::{checked_resource, texts},
        cleanup::foreign_deletions::DELETES_FOREIGN_RESOURCE,
        resources::elsewhere::UNKNOWN_RESOURCE,
        shell::unset::{UNSET_VARIABLE, is_parameter},
    },
    source::Span,
};

/// The most commands that are compared with each other.
const MANY: usize = 200;

fn rule(phase: PhaseKind) -> &'static Rule {
    if phase == PhaseKind::Cleanup { &DELETES_FOREIGN_RESOURCE } else { &UNKNOWN_RESOURCE }
}

/// `redis-cli DEL a` in cleanup, where all other commands have `-n 9`. `kubectl delete deployment web`, where setup creates it with `-n demo`.
pub fn places(view: &TaskView<'_>, phase: PhaseKind, out: &mut Diagnostics) {
    databases(view, phase, out);
    namespaces(view, phase, out);
    addresses(view, phase, out);
    collections(view, phase, out);
}

fn databases(view: &TaskView<'_>, phase: PhaseKind, out: &mut Diagnostics) {
    let is_client = |run: &&Run<'_>| run.statement.tool() == "redis-cli";
    let number = |run: &Run<'_>| {
        let pair = run.words.windows(2).find(|pair| pair[0].literal() == Some("-n"))?;
        Some(pair[1].shown())
    };
    let all: Vec<&Run<'_>> =
        PhaseKind::ALL.into_iter().flat_map(|at| checked_resource::runs(view, at)).filter(is_client).collect();
    let without: Vec<&Run<'_>> =
        checked_resource::runs(view, phase).filter(is_client).filter(|run| number(run).is_none()).collect();
    let [run] = without[..] else { return };
    let numbers: Vec<String> = all.iter().filter_map(|run| number(run)).collect();
    let Some(usual) = numbers.first().filter(|usual| *usual != "0" && numbers.iter().all(|other| other == *usual))
    else {
        return;
    };
    // `-u redis://…/5` has the number in it, and `select 5` changes it.
    let elsewhere = run.words.iter().any(|word| {
        let word = word.shown();
        matches!(word.as_str(), "-u" | "--pipe")
            || word.eq_ignore_ascii_case("select")
            || word.eq_ignore_ascii_case("ping")
    });
    let is_told = numbers.len() > 1
        || crate::lint::analysis::texts::has_word(&view.effects.prompt.shown(), &format!("database {usual}"));
    if is_told && numbers.len() + 1 == all.len() && !elsewhere && run.input.is_none() {
        out.push(
            Diagnostic::new(
                rule(phase),
                checked_resource::place(run),
                format!("this uses the database 0: all other commands have `-n {usual}`"),
            )
            .help(format!("add `-n {usual}`")),
        );
    }
}

/// `URI: "{env.SERVER}"` for a command, where all others have `URI: "{env.SERVER}/{env.DB}"`.
fn addresses(view: &TaskView<'_>, phase: PhaseKind, out: &mut Diagnostics) {
    let mut all: Vec<(&str, String, PhaseKind, Span)> = Vec::new();
    view.task.walk(&mut |at, step| {
        let Some(ArgKind::Record(env)) = step.arg("env").map(|env| &env.kind) else { return };
        for (name, value) in env {
            if let ArgKind::Text(template) = &value.kind {
                all.push((name.value.as_str(), texts::written(template), at, value.span));
            }
        }
    });
    if all.len() > MANY {
        return;
    }
    for (name, value, at, span) in &all {
        let others: Vec<&String> = all.iter().filter(|(other, ..)| other == name).map(|(_, value, ..)| value).collect();
        let Some(usual) = others.iter().find(|other| **other != value).filter(|_| *at == phase && others.len() > 2)
        else {
            continue;
        };
        let is_alone = others.iter().filter(|other| **other == value).count() == 1;
        let agree = others.iter().all(|other| other == usual || *other == value);
        if is_alone
            && agree
            && value.contains('{')
            && usual.strip_prefix(value.as_str()).is_some_and(|rest| rest.starts_with('/'))
        {
            out.push(
                Diagnostic::new(
                    rule(phase),
                    *span,
                    format!("`{name}` is `{value}` only here: everywhere else, it is `{usual}`"),
                )
                .help("use the same value for all commands"),
            );
        }
    }
}

/// `db.user.countDocuments(…)` in verify, where the rest of the task uses `db.users`.
fn collections(view: &TaskView<'_>, phase: PhaseKind, out: &mut Diagnostics) {
    let mut all: Vec<(String, PhaseKind, Span)> = Vec::new();
    for script in view.scripts.iter().filter(|script| script.content.text.contains("mongosh")) {
        for found in COLLECTION.captures_iter(&script.content.text) {
            if let Some(name) = found.get(1) {
                all.push((name.as_str().to_owned(), script.phase, script.content.span(name.range())));
            }
        }
    }
    if all.len() > MANY {
        return;
    }
    let said = view.effects.prompt.shown();
    let count = |name: &str| all.iter().filter(|(other, ..)| other == name).count();
    for (name, _, span) in all.iter().filter(|(_, at, _)| *at == phase) {
        let near = [format!("{name}s"), name.trim_end_matches('s').to_owned()];
        let usual = near.iter().find(|near| *near != name && count(near) > 1);
        if let Some(usual) = usual.filter(|_| count(name) == 1 && !texts::has_word(&said, name)) {
            out.push(
                Diagnostic::new(rule(phase), *span, format!("nothing else uses the collection `{name}`"))
                    .here(format!("did you mean `{usual}`?"))
                    .help("a collection that does not exist is empty"),
            );
        }
    }
}

static COLLECTION: Ascii = ascii(r"\bdb\.([a-z]\w+)\.[a-z]");

fn namespaces(view: &TaskView<'_>, phase: PhaseKind, out: &mut Diagnostics) {
    let acts = || view.effects.acts.iter().filter(|act| act.thing.system == "kubernetes");
    if view.effects.acts.len() > MANY {
        return;
    }
    let is_wide = |kind: &str| tools::tool("kubectl").and_then(|tool| tool.kind(kind)).is_none_or(|(_, wide)| wide);
    for act in acts().filter(|act| act.phase == phase && act.thing.space.is_none() && !is_wide(&act.thing.kind)) {
        let Some(name) = act.thing.name.as_ref().filter(|name| name.is_known()) else { continue };
        // A change of the context would apply to all of them.
        let same: Vec<_> = acts()
            .filter(|other| other.thing.kind == act.thing.kind && other.span != act.span)
            .filter(|other| other.thing.name.as_ref().is_some_and(|other| other.is(name)))
            .collect();
        let space = same.iter().find_map(|other| other.thing.space.as_ref());
        let Some(space) =
            space.filter(|space| space.literal().is_some_and(|name| name != "default" && !name.contains('{')))
        else {
            continue;
        };
        let agree = same.iter().all(|other| other.thing.space.as_ref().is_some_and(|other| other.is(space)));
        let is_script = view.scripts.iter().any(|script| script.step.key == act.step);
        let moves = view.scripts.iter().any(|script| MOVES.is_match(&script.content.text));
        let made =
            same.iter().any(|other| matches!(other.verb, Verb::Creates | Verb::Changes | Verb::Reads | Verb::Awaits));
        if agree && made && is_script && !moves && !crate::lint::resources::elsewhere::out_has(out, act.span) {
            out.push(
                Diagnostic::new(
                    rule(phase),
                    act.span,
                    format!(
                        "this uses the namespace of the current context: elsewhere, the {} `{}` is in `{}`",
                        act.thing.kind,
                        name.shown(),
                        space.shown()
                    ),
                )
                .help(format!("add `-n {}`", space.shown())),
            );
            return;
        }
    }
}

/// Programs and options that change the namespace of commands without one.
static MOVES: Ascii =
    ascii(r"(?m)\b(?:set-context|use-context|kubens|oc project|oc new-project|KUBECONFIG)\b|--namespace[ =]\S+\s*\\?$");

/// `{env.BACKUP_DIR | default('/var/tmp')}`, where the rest of the task has the default `/tmp`; `${API_BASE:-http://localhost}` in verify,
/// where setup has `${API_URL:-http://localhost}`.
pub fn defaults(view: &TaskView<'_>, out: &mut Diagnostics) {
    of_holes(view, out);
    renamed(view, out);
}

fn of_holes(view: &TaskView<'_>, out: &mut Diagnostics) {
    let mut found: BTreeMap<&str, Vec<(&str, Span)>> = BTreeMap::new();
    texts::holes(view.task, &mut |_, hole: &Hole<crate::hir::Def>| {
        if let (Target::ProcessEnv(name), true) = (&hole.reference.target, hole.has_default()) {
            let default = hole.text.split_once("default(").map_or("", |(_, rest)| rest.trim_end_matches('}').trim());
            let default = default.strip_suffix(')').unwrap_or(default).trim_matches(['\'', '"']);
            found.entry(name.as_str()).or_default().push((default, hole.span));
        }
    });
    for (name, all) in found {
        let mut values: Vec<&str> = all.iter().map(|(value, _)| *value).collect();
        values.sort_unstable();
        values.dedup();
        let count = |value: &str| all.iter().filter(|(other, _)| *other == value).count();
        let [one, other] = values[..] else { continue };
        let (usual, odd) = if count(one) > count(other) { (one, other) } else { (other, one) };
        let place = |value: &str| all.iter().find(|(other, _)| *other == value).map(|(_, span)| *span);
        if let (true, Some(span), Some(first)) = (count(odd) == 1 && count(usual) > 1, place(odd), place(usual)) {
            out.push(
                Diagnostic::new(
                    &UNSET_VARIABLE,
                    span,
                    format!("if `{name}` is not set, this is `{odd}`, but elsewhere `{usual}`"),
                )
                .strength(Strength::Warning)
                .label(first, "another default")
                .help("use the same default everywhere, or declare the variable once under `env`"),
            );
        }
    }
}

fn renamed(view: &TaskView<'_>, out: &mut Diagnostics) {
    let mut found: BTreeMap<&str, Vec<(&str, PhaseKind, Span)>> = BTreeMap::new();
    for script in view.scripts.iter().filter(|script| script.content.text.contains(":-")) {
        for default in DEFAULT.captures_iter(&script.content.text) {
            let (Some(name), Some(value)) = (default.get(1), default.get(2)) else { continue };
            let span = script.content.span(name.range());
            found.entry(value.as_str()).or_default().push((name.as_str(), script.phase, span));
        }
    }
    for (value, all) in found {
        let names: BTreeSet<&str> = all.iter().map(|(name, ..)| *name).collect();
        if names.len() != 2 {
            continue;
        }
        let phases = |name: &str| -> BTreeSet<PhaseKind> {
            all.iter().filter(|(other, ..)| *other == name).map(|(_, phase, _)| *phase).collect()
        };
        let Some(&(odd, phase, span)) =
            all.iter().find(|(name, ..)| phases(name).len() == 1 && phases(name).contains(&PhaseKind::Verify))
        else {
            continue;
        };
        let Some(&(usual, _, first)) =
            all.iter().find(|(name, ..)| *name != odd && phases(name).contains(&PhaseKind::Setup))
        else {
            continue;
        };
        let declared = view.task.env.iter().any(|(name, _)| name.value == odd);
        if phase == PhaseKind::Verify && !phases(usual).contains(&PhaseKind::Verify) && !declared {
            out.push(
                Diagnostic::new(
                    &UNSET_VARIABLE,
                    span,
                    format!("this uses `{value}` unless `{odd}` is set, but setup uses it unless `{usual}` is set"),
                )
                .strength(Strength::Warning)
                .label(first, "another variable")
                .help("use the same variable in all scripts"),
            );
        }
    }
}

/// `${API_URL:-http://localhost:5232}`: only addresses and paths, because short words have several meanings.
static DEFAULT: Ascii = ascii(r#"\$\{([A-Z][A-Z0-9_]+):-"?([a-z]+://[\w./:@-]+|/[\w./@-]{3,})"?\}"#);

/// `"$1/access.log"` in a script that the task runs without arguments.
pub fn parameters(view: &TaskView<'_>, out: &mut Diagnostics) {
    for script in &view.effects.scripts {
        let content = &script.view.content;
        let sets = || ["set --", "$#", "shift", "getopts", "BASH_ARGV"].iter().any(|word| content.text.contains(word));
        let found = script
            .trace
            .unset
            .iter()
            .find(|read| is_parameter(&read.name) && !read.provided && std::ptr::eq(read.content, &**content));
        let Some(read) = found.filter(|_| script.view.step.arg("args").is_none() && !sets()) else { continue };
        let mut in_function = false;
        content.program.walk(&mut |statement| {
            in_function |=
                matches!(statement.kind, Kind::Function { .. }) && statement.range.contains(&read.range.start);
        });
        if !in_function {
            out.push(
                Diagnostic::new(
                    &UNSET_VARIABLE,
                    content.span(read.range.clone()),
                    format!("`${}` is never set: this script is run without arguments", read.name),
                )
                .help("use a variable that the script or the task sets"),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_and_defaults_are_found_in_texts() {
        assert!(is_parameter("1") && !is_parameter("0") && !is_parameter("10"));
        assert!(DEFAULT.is_match("${A_B:-http://localhost:1/x}") && !DEFAULT.is_match("${A_B:-x}"));
    }
}
