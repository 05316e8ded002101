//! Verify that relies only on commands that succeed whatever they find.

use std::cell::LazyCell;

use crate::{
    bash::{
        Word, flow,
        program::{Kind, Program, Statement},
        tools,
    },
    diagnostic::{Diagnostic, Diagnostics},
    hir::{BlockRole, Def, PhaseKind, Step},
    lint::{TaskView, script::ScriptView, shell::exit_status, task::verify},
    rule,
    signature::Control,
};

rule! {
    pub static VERIFY_ONLY_LISTS = "verify-only-lists", Warning;
}

/// Every verify step either cannot fail or only lists, and no assertion applies.
pub fn check(view: &TaskView<'_>, out: &mut Diagnostics) {
    let steps = &view.task.verify.steps;
    if view.asserted || steps.is_empty() || exit_status::in_vain(view) {
        return;
    }
    let repository = Repository::new(Box::new(|| runs_git(view)));
    let mut first = None;
    if !steps.iter().all(|s| rests_on_lists(view, s, &repository, &mut first)) {
        return;
    }
    if let Some((script, listing)) = first {
        let content = &script.content;
        let words: Vec<&str> = listing.words().iter().take(3).map(|w| w.text.as_str()).collect();
        let (verb, help) = match listing.name() {
            "curl" => ("answers", "add `--fail`, and check the response: `| jq -e …`, `| grep -q …`"),
            "find" => ("finds", "check for the file (`test -f FILE`), or search the output: `| grep -q .`"),
            "git" => ("shows", "add `--exit-code`, or search the output: `| grep -q …`"),
            _ => ("lists", "name the expected resource (`kubectl get pod NAME`), or search the list: `| grep -q NAME`"),
        };
        out.push(
            Diagnostic::new(
                &VERIFY_ONLY_LISTS,
                content.span(listing.range.clone()),
                format!("`{}` succeeds whatever it {verb}, and nothing else is checked", words.join(" ")),
            )
            .help(help),
        );
    }
}

/// Whether a step passes whatever the agent did. Sets `first` to the first listing.
fn rests_on_lists<'v>(
    view: &'v TaskView<'_>,
    step: &Step<Def>,
    repository: &Repository<'_>,
    first: &mut Option<(&'v ScriptView<'v>, &'v Statement)>,
) -> bool {
    let script = view.script_of(step).filter(|s| s.phase == PhaseKind::Verify);
    if let Some(found) = script.and_then(|s| Some((s, only_lists(s, repository)?))) {
        first.get_or_insert(found);
        return true;
    }
    let holds = matches!(step.op.signature.control, Control::Scope | Control::Eventually | Control::Consistently);
    let inner = || step.blocks.iter().filter(|b| b.role == BlockRole::Steps).flat_map(|b| &b.steps);
    verify::cannot_fail(step, view)
        || holds && inner().next().is_some() && inner().all(|s| rests_on_lists(view, s, repository, first))
}

/// The first listing of a script that only lists.
fn only_lists<'s>(script: &'s ScriptView<'_>, repository: &Repository<'_>) -> Option<&'s Statement> {
    let program = &script.content.program;
    if !program.sound || !script.decides_by_status() {
        return None;
    }
    let mut first = None;
    program.body.iter().all(|s| says_nothing(program, s, repository, &mut first)).then_some(first)?
}

/// Whether the exit status of a statement is independent of what it finds. Sets `first` to the first listing.
fn says_nothing<'s>(
    program: &Program,
    statement: &'s Statement,
    repository: &Repository<'_>,
    first: &mut Option<&'s Statement>,
) -> bool {
    match &statement.kind {
        Kind::Command(words) if is_listing(statement.name(), words) || is_look(repository, statement) => {
            first.get_or_insert(statement);
            true
        }
        Kind::Command(_) => statement.name() == "exit" || !flow::status(program, statement).other,
        Kind::Assignment | Kind::Declaration => statement.nested.is_empty(),
        Kind::Pipeline(parts) => {
            let strict = program.sets('\0', "pipefail");
            let Some((last, rest)) = parts.split_last() else { return false };
            let blind = |s: &Statement| matches!(s.name(), "wc" | "cat" | "head" | "tail" | "sort" | "tee" | "uniq");
            rest.first().is_some_and(|s| says_nothing(program, s, repository, first))
                && blind(last)
                && (!strict || rest[1..].iter().all(blind))
        }
        Kind::And(pair) | Kind::Or(pair) => pair.iter().all(|s| says_nothing(program, s, repository, first)),
        _ => false,
    }
}

/// Whether setup probably created a repository. Computed only if a script of verify runs Git.
type Repository<'v> = LazyCell<bool, Box<dyn FnOnce() -> bool + 'v>>;

fn runs_git(view: &TaskView<'_>) -> bool {
    let mut scripts = view.scripts.iter().filter(|script| script.phase == PhaseKind::Setup);
    scripts.any(|script| script.content.program.commands().iter().any(|command| command.name() == "git"))
}

/// `git diff` in a repository that setup created, `find . -name FILE`: the result is only printed.
fn is_look(repository: &Repository<'_>, statement: &Statement) -> bool {
    let words: Vec<&str> = statement.words()[1..].iter().map(|w| w.text.as_str()).collect();
    match statement.name() {
        "git" => {
            let elsewhere = |w: &str| w == "-C" || w.starts_with("--git-dir") || w.starts_with("--work-tree");
            !words.iter().any(|w| elsewhere(w)) && flow::succeeds("git", statement) && **repository
        }
        "find" => {
            let runs = |w: &str| w.starts_with("-exec") || w.starts_with("-ok") || w.starts_with("-files0-from");
            let places = words.iter().take_while(|w| !w.starts_with(['-', '(', '!']));
            places.clone().all(|place| *place == ".") && words.len() > places.count() && !words.iter().any(|w| runs(w))
        }
        _ => false,
    }
}

fn is_listing(name: &str, words: &[Word]) -> bool {
    let literal: Vec<&str> = words[1..].iter().map(|w| w.text.as_str()).collect();
    match tools::canonical(name) {
        "kubectl" => lists_objects(&literal),
        "docker" => matches!(
            literal.as_slice(),
            ["ps" | "images", ..] | ["container" | "image" | "volume" | "network", "ls" | "list", ..]
        ),
        "helm" => matches!(literal.as_slice(), ["list" | "ls", ..]),
        "curl" => asks_other_machine(&literal),
        _ => false,
    }
}

/// `get KIND` without a name succeeds even if nothing is found. Only built-in kinds count, because the task may be to
/// install others. With a template, the command may fail if nothing is found.
fn lists_objects(words: &[&str]) -> bool {
    const KINDS: &str = "all cm configmap configmaps cronjob cronjobs daemonset daemonsets deploy deployment deployments \
        endpoints events ing ingress ingresses job jobs namespaces networkpolicies no nodes ns persistentvolumeclaims po pod \
        pods pvc replicasets rolebindings roles secret secrets service services svc";
    let templated = |w: &str| ["jsonpath", "template", "custom"].iter().any(|t| w.contains(t));
    let reads = |w: &str| w == "-f" || w.starts_with("--filename") || w == "-k" || w == "--raw";
    if words.iter().any(|w| reads(w) || templated(w)) {
        return false;
    }
    let names: Vec<&str> = tools::operands("kubectl", words).copied().collect();
    matches!(names.as_slice(), ["get", kinds] if kinds.split(',').all(|k| KINDS.split(' ').any(|known| known == k)))
}

/// Without `--fail`, every response is a success. A server that the agent starts may not respond at all, so only hosts
/// with a domain name count.
fn asks_other_machine(words: &[&str]) -> bool {
    let fails = |w: &str| w.starts_with("--fail") || w.starts_with('-') && !w.starts_with("--") && w.contains('f');
    let host = words.iter().find_map(|w| w.split_once("://")?.1.split(['/', ':', '?']).next());
    let named = |h: &str| {
        let end = h.rsplit('.').next().unwrap_or_default();
        h.contains('.')
            && !h.contains(['$', crate::lint::script::HOLE])
            && end.starts_with(|c: char| c.is_ascii_alphabetic())
            && !matches!(end, "local" | "localhost" | "svc" | "internal" | "test")
    };
    host.is_some_and(named) && !words.iter().any(|w| fails(w))
}
