//! What decides the verdict of a conversion: each step that expects something, and the same plan without the expectation.

use std::path::{Path, PathBuf};

use crate::{
    bash,
    hir::{Arg, ArgKind, BlockRole, Def, OperationKind, Part, Template},
    plan::{ActionIx, ActionKind, Plan, PlanPhase, StepAction},
    source::Spanned,
};

/// A step on which the verdict depends.
#[derive(Clone, Debug)]
pub struct Condition {
    /// Id of the action.
    pub id: String,
    ix: ActionIx,
    /// Whether it belongs to the setup, where a step may be allowed to fail.
    soft: bool,
    /// A description for people.
    pub shown: String,
    /// The file that it only checks for existence, or the value that it only checks not to be empty. No world changes that alone: what
    /// checks more of the same subject fails too.
    subject: Option<String>,
}

/// The steps of a plan with an expectation on which the verdict depends.
pub fn conditions(plan: &Plan) -> Vec<Condition> {
    let mut found = Vec::new();
    for phase in [PlanPhase::Setup, PlanPhase::Verify] {
        for ix in plan.members(phase) {
            collect(plan, ix, phase == PlanPhase::Setup, &mut found);
        }
    }
    found
}

/// `soft`: skip a step that is allowed to fail.
fn collect(plan: &Plan, ix: ActionIx, soft: bool, found: &mut Vec<Condition>) {
    let action = plan.action(ix);
    let ActionKind::Step(step) = &action.kind else { return };
    if soft && action.continue_on_error {
        return;
    }
    let blocks: Vec<_> = plan.blocks(ix).filter(|block| block.role != BlockRole::Cleanup).collect();
    if blocks.is_empty() {
        let shown = demanded(step).map(|what| format!("{what} (`{}`)", action.id));
        let subject = subject(plan, step);
        found.extend(shown.map(|shown| Condition { id: action.id.clone(), ix, soft, shown, subject }));
        return;
    }
    // With an alternative that always passes, an `anyOf` decides nothing.
    let inner = || blocks.iter().flat_map(|block| plan.members(block.holder));
    if step.op.name == "anyOf" && inner().any(|ix| always_passes(plan, ix)) {
        return;
    }
    inner().for_each(|ix| collect(plan, ix, soft, found));
}

fn always_passes(plan: &Plan, ix: ActionIx) -> bool {
    matches!(&plan.action(ix).kind, ActionKind::Step(step) if command(step) == Some("true"))
}

/// The command line of a `command` step, if it is literal.
fn command(step: &StepAction) -> Option<&str> {
    (step.op.name == "command").then_some(())?;
    step.args.iter().find(|(name, _)| name.value == "run")?.1.as_literal()
}

/// What `test -f FILE` or `test -n VALUE` checks.
fn subject(plan: &Plan, step: &StepAction) -> Option<String> {
    let run = command(step)?;
    let rest =
        ["-f", "-e", "-s", "-d", "-r", "-n"].iter().find_map(|flag| run.strip_prefix(&format!("test {flag} ")))?;
    let word = bash::ast::Word::read(rest.trim(), 0);
    match (word.literal(), word.variable()) {
        (Some(path), _) => Some(path),
        (_, Some(name)) => given(plan, step, name),
        _ => None,
    }
    .filter(|subject| !subject.is_empty())
}

/// The value of a variable, as written.
fn given(plan: &Plan, step: &StepAction, name: &str) -> Option<String> {
    let own = step.args.iter().find(|(key, _)| key.value == "env").map(|(_, arg)| &arg.kind);
    let own = match own {
        Some(ArgKind::Record(fields)) => fields.iter().find(|(key, _)| key.value == name).map(|(_, arg)| written(arg)),
        _ => None,
    };
    own.or_else(|| plan.env.iter().find(|(key, _)| *key == name).map(|(_, value)| template(value)))
}

fn written(arg: &Arg<Def>) -> String {
    let mut text = String::new();
    arg.templates(&mut |inner| text += &template(inner));
    text
}

fn template(template: &Template<Def>) -> String {
    let part = |part: &Part<Def>| match part {
        Part::Text(text) => text.clone(),
        Part::Hole(hole) => hole.text.clone(),
    };
    template.parts.iter().map(part).collect()
}

/// Whether a command cannot fail in the jail, because it uses only what belongs to the jail.
fn is_sure(run: &str) -> bool {
    const NAMES: [&str; 13] =
        ["true", "rm", "mkdir", "touch", "chmod", "cp", "mv", "ln", "tee", "date", "mktemp", "printf", "echo"];
    // Without `pipefail`, the last command of a pipeline decides.
    const LAST: [&str; 7] = ["head", "tail", "sort", "uniq", "wc", "cut", "tr"];
    let first = |command: &str| command.split_whitespace().next().unwrap_or_default().to_owned();
    match run.rsplit_once(" | ") {
        Some((_, last)) => LAST.contains(&first(last).as_str()) && !run.contains("pipefail"),
        None => NAMES.contains(&first(run).as_str()),
    }
}

/// What a step expects. A script that was kept is not a condition.
fn demanded(step: &StepAction) -> Option<String> {
    let expected = |key: &str| step.expect.as_ref().and_then(|expect| expect.get(key));
    let any = |key: &str| expected(key).and_then(Arg::as_value).is_some_and(|value| value == "any");
    let demands = match step.op.name.as_str() {
        "command" => {
            expected("stdout").is_some()
                || expected("stderr").is_some()
                || !any("exitCode") && !command(step).is_some_and(is_sure)
        }
        "http" => !any("status") || expected("body").is_some(),
        _ => step.op.signature.judges || matches!(step.op.kind, OperationKind::Extension { .. }),
    };
    demands.then(|| command(step).map_or_else(|| format!("`{}`", step.op.name), |run| format!("`{run}`")))
}

impl Condition {
    /// Whether an action checks more of this condition's subject, or contains other failed actions (`holds_others`).
    pub fn is_within(&self, plan: &Plan, id: &str, holds_others: &dyn Fn(&str) -> bool) -> bool {
        let Some(subject) = &self.subject else { return false };
        // What counts the files of a directory notices one that is missing.
        let tree: PathBuf = Path::new(subject).components().take(3).collect();
        let tree = Some(tree.to_string_lossy()).filter(|_| tree.is_absolute() && tree.components().count() == 3);
        let lists = |text: &str| {
            ["find ", "ls ", "*"].iter().any(|word| text.contains(word))
                && tree.as_deref().is_some_and(|tree| text.contains(tree))
        };
        let mut found = holds_others(id);
        plan.walk(&mut |_, _, action| {
            let ActionKind::Step(step) = &action.kind else { return };
            if action.id != id {
                return;
            }
            let texts: Vec<String> = step.args.iter().map(|(_, arg)| written(arg)).collect();
            let names = texts.iter().flat_map(|text| bash::ast::names_in(text));
            let values = names.filter_map(|name| given(plan, step, &name));
            found |= texts.iter().cloned().chain(values).any(|text| text.contains(subject.as_str()) || lists(&text));
        });
        found
    }

    /// The plan without this expectation, or `None` if that cannot be expressed.
    pub fn relaxed(&self, plan: &Plan) -> Option<Plan> {
        let mut plan = plan.clone();
        let action = plan.action_mut(self.ix);
        let span = action.span;
        let ActionKind::Step(step) = &mut action.kind else { return None };
        let key = match step.op.name.as_str() {
            "command" => "exitCode",
            "http" => "status",
            // The operation still runs, but its result makes no difference.
            _ if self.soft => {
                action.continue_on_error = true;
                return Some(plan);
            }
            _ => return None,
        };
        let any = (Spanned::new(key.to_owned(), span), Arg::text("any", span));
        step.expect = Some(Arg::new(ArgKind::Record(vec![any]), span));
        Some(plan)
    }
}
