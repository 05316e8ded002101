//! Names of resources that setup does not create: a namespace, an autoscaler, a claim in a manifest, a key in cleanup.

use rustc_hash::FxHashMap;

use crate::{
    ascii::{Ascii, ascii},
    diagnostic::{Diagnostic, Diagnostics, Strength},
    effects::{Act, Verb, value::Value},
    hir::{OperationKind, PhaseKind},
    lint::{
        TaskView,
        analysis::{checked_resource, facts, orders},
        resources::{
            cluster::{UNKNOWN_NAMESPACE, whole},
            elsewhere::UNKNOWN_RESOURCE,
        },
    },
};

/// Runs the checks of `unknown-resource` and of `resource-not-released`.
pub fn check(view: &TaskView<'_>, out: &mut Diagnostics) {
    let model = view.effects;
    if view.task.prompt.is_none() || !model.sees(PhaseKind::Setup) {
        return;
    }
    let said = model.prompt.shown();
    let made: Vec<&Act> = model.in_phase(PhaseKind::Setup).filter(|act| act.verb == Verb::Creates).collect();
    longer_name(view, &said, &made, out);
    claims(view, &said, &made, out);
    marks(view, &said, out);
    references(view, &said, out);
}

/// Runs the check of `unknown-namespace`.
pub fn namespace(view: &TaskView<'_>, out: &mut Diagnostics) {
    let model = view.effects;
    if view.task.prompt.is_none() || !model.sees(PhaseKind::Setup) {
        return;
    }
    let made: Vec<&Act> = model.in_phase(PhaseKind::Setup).filter(|act| act.verb == Verb::Creates).collect();
    space(view, &model.prompt.shown(), &made, out);
}

fn name(act: &Act) -> Option<&str> {
    act.thing.name.as_ref().and_then(Value::literal)
}

/// Verify looks into the namespace `checkout`; setup creates `checkout-prod`, and `checkout` is the name of a deployment.
fn space(view: &TaskView<'_>, said: &str, made: &[&Act], out: &mut Diagnostics) {
    let spaces: Vec<&&Act> = made.iter().filter(|act| act.thing.kind == "namespace").collect();
    let [only] = spaces.as_slice() else { return };
    let Some(own) = name(only) else { return };
    let asked = view.effects.in_phase(PhaseKind::Verify).find(|act| {
        let space = act.thing.space.as_ref().and_then(Value::literal);
        act.thing.system == "kubernetes"
            && space.is_some_and(|space| {
                space.len() > 2 && space != own && (own.starts_with(space) || space.starts_with(own))
            })
    });
    let Some((act, space)) = asked.and_then(|act| Some((act, act.thing.space.as_ref()?.literal()?))) else { return };
    let is_told = [
        format!("namespace {space}"),
        format!("namespace `{space}`"),
        format!("{space} namespace"),
        format!("`{space}` namespace"),
    ]
    .iter()
    .any(|form| said.match_indices(form.as_str()).any(|(at, _)| !said[at + form.len()..].starts_with('-')));
    let is_used = view.effects.acts.iter().any(|other| {
        other.phase != PhaseKind::Verify && other.thing.space.as_ref().is_some_and(|own| own.shown() == space)
    });
    let is_reported = out.iter().any(|known| known.rule.name == UNKNOWN_NAMESPACE.name);
    // A longer name in the prompt is another namespace.
    let is_other = whole(said, space) && !own.starts_with(space);
    if !is_told && !is_other && !is_used && !is_reported && whole(said, own) {
        out.push(
            Diagnostic::new(
                &UNKNOWN_NAMESPACE,
                act.span,
                format!("nothing creates the namespace `{space}`, in which verify looks"),
            )
            .label(only.span, format!("setup creates `{own}`"))
            .help(format!("did you mean `{own}`?")),
        );
    }
}

/// Setup creates the autoscaler `search-hpa`; verify reads `search`, which nothing creates.
fn longer_name(view: &TaskView<'_>, said: &str, made: &[&Act], out: &mut Diagnostics) {
    // The agent may be asked to create one.
    if orders::MAKES.is_match(said) || RENAMES.is_match(said) {
        return;
    }
    // The only one of its kind.
    let mut kinds: FxHashMap<&str, Option<&Act>> = FxHashMap::default();
    for act in made {
        kinds.entry(&act.thing.kind).and_modify(|only| *only = None).or_insert(Some(act));
    }
    for act in view.effects.in_phase(PhaseKind::Verify).filter(|act| matches!(act.verb, Verb::Reads | Verb::Awaits)) {
        let is_named = act.thing.system == "kubernetes" && !POD.contains(&act.thing.kind.as_str());
        let Some(asked) = name(act).filter(|_| is_named) else { continue };
        let Some(Some(only)) = kinds.get(act.thing.kind.as_str()) else { continue };
        let Some(own) = name(only) else { continue };
        let is_longer = own.strip_prefix(asked).is_some_and(|rest| rest.starts_with('-'))
            || own.strip_suffix(asked).is_some_and(|rest| rest.ends_with('-'));
        if !is_longer || whole(said, own) || !whole(said, asked) {
            continue;
        }
        let is_made = view.effects.acts.iter().any(|other| {
            matches!(other.verb, Verb::Creates | Verb::Changes)
                && other.thing.kind == act.thing.kind
                && name(other) == Some(asked)
        });
        if !is_made {
            out.push(
                Diagnostic::new(
                    &UNKNOWN_RESOURCE,
                    act.span,
                    format!("nothing creates the {} `{asked}`", act.thing.kind),
                )
                .label(only.span, format!("setup creates `{own}`"))
                .help("use the same name in setup, prompt and verify"),
            );
        }
        return;
    }
}

/// Kinds whose objects are named by controllers.
const POD: [&str; 4] = ["pod", "replicaset", "event", "job"];
static RENAMES: Ascii = ascii(r"(?i)\b(?:rename|replace|recreate|clone|second|another|new)\b");

/// A pod mounts the claim `scratch`, but the prompt asks for `scratch-space`, and verify looks at that.
fn claims(view: &TaskView<'_>, said: &str, made: &[&Act], out: &mut Diagnostics) {
    let named =
        [("claimName", "persistentvolumeclaim"), ("secretName", "secret"), ("serviceAccountName", "serviceaccount")];
    for fact in facts::given(view).iter().filter(|fact| named.iter().any(|(key, _)| *key == fact.key)).take(MANY) {
        let Some((_, kind)) = named.iter().find(|(key, _)| *key == fact.key) else { continue };
        let used = fact.text();
        let exists = made.iter().any(|act| {
            act.thing.kind == *kind
                && act.thing.name.as_ref().is_none_or(|own| own.literal().is_none_or(|own| own == used))
        });
        if exists || used.is_empty() || used.contains(['$', '{']) || used == "default" || whole(said, &used) {
            continue;
        }
        let asked = view.effects.in_phase(PhaseKind::Verify).find(|act| act.thing.kind == *kind && name(act).is_some());
        let Some((act, own)) = asked.and_then(|act| Some((act, name(act)?))) else { continue };
        // If setup creates that one, the wrong reference may be what the agent must repair.
        if made.iter().any(|act| act.thing.kind == *kind && name(act) == Some(own)) {
            continue;
        }
        let is_kin = own.starts_with(used.as_str())
            || used.starts_with(own)
            || crate::lint::prompt::disagrees::is_kin(own, &used);
        if own != used && is_kin && whole(said, own) && !facts::elsewhere(view).verify.contains(&format!("/{used}")) {
            out.push(
                Diagnostic::new(
                    &UNKNOWN_RESOURCE,
                    fact.span,
                    format!("setup refers to the {kind} `{used}`, which nothing creates"),
                )
                .label(act.span, format!("verify looks at `{own}`"))
                .help("use the same name in setup, prompt and verify"),
            );
            return;
        }
    }
}

/// The most references that are compared with what setup creates.
const MANY: usize = 50;

/// `kubectl taint nodes --all gpu-` in cleanup, but the taint has the key `dedicated`.
fn marks(view: &TaskView<'_>, said: &str, out: &mut Diagnostics) {
    let elsewhere = facts::elsewhere(view);
    for run in checked_resource::runs(view, PhaseKind::Cleanup).filter(|run| run.statement.tool() == "kubectl") {
        let words: Vec<&str> = run.words.iter().map(|word| word.literal().unwrap_or_default()).collect();
        let Some(verb) = words.iter().find(|word| matches!(**word, "taint" | "label" | "annotate")) else { continue };
        let removed =
            words.iter().find_map(|word| word.strip_suffix('-').filter(|key| !key.is_empty() && !key.starts_with('-')));
        let Some(key) = removed.map(|key| key.split(':').next().unwrap_or(key)) else { continue };
        // As a key: `dedicated=gpu`, `.key == "dedicated"`, `dedicated-`.
        let is_key = |text: &str| {
            text.match_indices(key).any(|(at, _)| {
                let (before, behind) = (&text[..at], &text[at + key.len()..]);
                let starts =
                    !before.ends_with(|c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '=' | '.' | '/'));
                let marked = behind.starts_with(['=', ':', '-', '!']) || before.ends_with(['"', '\'', '`', '!']);
                starts && marked && !before.trim_end_matches(['"', '\'']).ends_with(['=', ' '])
                    || starts && behind.starts_with(['=', '-'])
            })
        };
        let other =
            said.split(|c: char| c.is_whitespace()).filter_map(|word| word.split_once('=')).find(|(other, rest)| {
                *other != key && rest.split(':').next().unwrap_or_default().trim_matches(['`', '"', '.', ',']) == key
            });
        if let Some((other, _)) = other
            && !is_key(said)
            && !is_key(&setup_text(view))
            && !elsewhere.verify.contains(&format!("\"{key}\"]"))
        {
            out.push(
                Diagnostic::new(
                    &crate::lint::cleanup::released::RESOURCE_NOT_RELEASED,
                    checked_resource::place(run),
                    format!("cleanup removes the {verb} `{key}`, but `{key}` is a value: the key is `{other}`"),
                )
                .help(format!("write `{other}-`"))
                .strength(Strength::Warning),
            );
        }
    }
}

/// The reference of a judge names a memory limit of `128Mi`, and setup sets `64Mi`.
fn references(view: &TaskView<'_>, said: &str, out: &mut Diagnostics) {
    view.task.verify.steps.iter().for_each(|step| {
        step.walk(&mut |step| {
            if !matches!(step.op.kind, OperationKind::Builtin("llm" | "llmJudge")) {
                return;
            }
            for (_, arg) in &step.args {
                let Some(text) = arg.as_literal() else { continue };
                let amounts: Vec<&str> = AMOUNT.find_iter(text).map(|found| found.as_str()).collect();
                let [amount] = amounts.as_slice() else { continue };
                let elsewhere = facts::elsewhere(view);
                let all = [elsewhere.rest.as_str(), facts::data(view), said];
                let unit = amount.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
                let others: Vec<&str> = all
                    .iter()
                    .flat_map(|text| AMOUNT.find_iter(text))
                    .map(|found| found.as_str())
                    .filter(|other| other.ends_with(unit))
                    .collect();
                let Some(other) = others.first().filter(|_| !others.contains(amount)) else { continue };
                out.push(
                    Diagnostic::new(
                        &UNKNOWN_RESOURCE,
                        arg.span,
                        format!("the reference of the judge says `{amount}`, but nothing in the task does"),
                    )
                    .help(format!("setup and prompt say `{other}`: a correct answer does, too")),
                );
            }
        });
    });
}

static AMOUNT: Ascii = ascii(r"\b\d+(?:\.\d+)?(?:Ki|Mi|Gi|Ti|MB|GB|ms)\b");

fn setup_text(view: &TaskView<'_>) -> String {
    let scripts = view.scripts.iter().filter(|script| script.phase == PhaseKind::Setup);
    scripts.map(|script| script.content.text.as_str()).collect::<Vec<_>>().join("\n")
}
