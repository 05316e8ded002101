//! Parts of a task that should agree with each other: members of a series, lists of loops, defaults, ports, namespaces.

use std::collections::BTreeMap;

use crate::{
    ascii::{Ascii, ascii},
    bash::tools,
    diagnostic::{Diagnostic, Diagnostics, Strength},
    effects::{Verb, shell::Run, value::Value},
    hir::{ArgKind, PhaseKind},
    lint::{
        TaskView,
        analysis::{
            facts, orders,
            texts::{self, has_word},
        },
        cleanup::deleted_by_request,
        resources::{
            cluster::{UNKNOWN_NAMESPACE, whole},
            elsewhere::UNKNOWN_RESOURCE,
        },
    },
    source::Span,
};

/// Runs the checks of `unknown-resource`.
pub fn check(view: &TaskView<'_>, out: &mut Diagnostics) {
    if view.task.prompt.is_none() {
        return;
    }
    members(view, out);
    loops(view, out);
    hosts(view, out);
    impersonated(view, out);
    other_space(view, out);
}

fn runs<'v>(view: &'v TaskView<'_>, phase: PhaseKind) -> impl Iterator<Item = &'v Run<'v>> {
    let model: &'v crate::effects::Model<'v> = view.effects;
    model.scripts.iter().filter(move |script| script.view.phase == phase).flat_map(|script| &script.trace.runs)
}

fn line(run: &Run<'_>) -> Span {
    let text = run.content.text.get(run.statement.range.clone()).unwrap_or_default();
    let start = run.statement.range.start;
    run.content.span(start..start + text.find('\n').unwrap_or(text.len()))
}

/// A name as the name of a series and a number.
fn numbered(name: &str) -> Option<(&str, usize)> {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let number = &name[stem.len()..];
    (stem.len() > 2 && stem.ends_with(['-', '_']) && number.len() < 4).then(|| Some((stem, number.parse().ok()?)))?
}

/// `worker-3` beside `worker-1` in verify, where setup creates only `worker-1` and `worker-2`.
fn members(view: &TaskView<'_>, out: &mut Diagnostics) {
    let model = view.effects;
    if !model.sees(PhaseKind::Setup) {
        return;
    }
    let mut series: BTreeMap<(&str, &str), Vec<usize>> = BTreeMap::new();
    for act in model.in_phase(PhaseKind::Setup).filter(|act| act.verb == Verb::Creates) {
        let name = act.thing.name.as_ref().and_then(Value::literal);
        if let Some((stem, number)) = name.and_then(numbered) {
            series.entry((&act.thing.kind, stem)).or_default().push(number);
        }
    }
    series.retain(|_, numbers| numbers.len() > 1);
    if series.is_empty() {
        return;
    }
    let said = model.prompt.shown();
    if orders::MAKES.is_match(&said) {
        return;
    }
    let rest = &facts::elsewhere(view).rest;
    for ((kind, stem), numbers) in series {
        for script in view.scripts.iter().filter(|script| script.phase == PhaseKind::Verify) {
            let text = &script.content.text;
            let found = text.match_indices(stem).find_map(|(at, _)| {
                let behind = &text[at + stem.len()..];
                let end = behind.find(|c: char| !c.is_ascii_digit()).unwrap_or(behind.len());
                let name = &text[at..at + stem.len() + end];
                let number: usize = behind[..end].parse().ok()?;
                let starts = !text[..at].ends_with(|c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
                let from = script.content.line_start(at);
                let line = text[from..].lines().next().unwrap_or_default();
                // Another member on the same line shows that both should exist.
                let beside = numbers.iter().any(|known| whole(line, &format!("{stem}{known}")));
                let known = numbers.contains(&number) || whole(&said, name) || whole(rest, name);
                (starts && beside && !known && whole(line, name)).then(|| (at..at + name.len(), name.to_owned()))
            });
            let Some((range, name)) = found else { continue };
            let made: Vec<String> = numbers.iter().map(|number| format!("`{stem}{number}`")).collect();
            out.push(
                Diagnostic::new(
                    &UNKNOWN_RESOURCE,
                    script.content.span(range),
                    format!("nothing creates the {kind} `{name}`"),
                )
                .help(format!("setup creates only {}", made.join(", "))),
            );
            break;
        }
    }
}

/// A loop over a literal list.
pub struct Loop {
    pub var: String,
    pub items: Vec<String>,
    pub span: Span,
}

/// `for q in q1 q2 q3` in setup and `foreach: {var: q, in: [q1, q2, q4]}` in verify.
fn loops(view: &TaskView<'_>, out: &mut Diagnostics) {
    let (made, asked) = (listed(view, PhaseKind::Setup), listed(view, PhaseKind::Verify));
    if made.is_empty() || asked.is_empty() {
        return;
    }
    let said = view.effects.prompt.shown();
    for own in &asked {
        let same = |other: &&Loop| other.var.eq_ignore_ascii_case(&own.var);
        let others: Vec<&Loop> = made.iter().filter(same).collect();
        let [other] = others.as_slice() else { continue };
        let minus = |a: &Loop, b: &Loop| -> Vec<String> {
            a.items.iter().filter(|item| !b.items.contains(item)).cloned().collect()
        };
        let (more, fewer) = (minus(own, other), minus(other, own));
        let ([extra], [missing]) = (more.as_slice(), fewer.as_slice()) else { continue };
        let named = [extra, missing].into_iter().any(|item| has_word(&said, item));
        // The item of setup is then checked on its own.
        let checked = has_word(&facts::elsewhere(view).verify, missing);
        if own.items.len() == other.items.len() && own.items.len() > 2 && !named && !checked {
            out.push(
                Diagnostic::new(
                    &UNKNOWN_RESOURCE,
                    own.span,
                    format!("this list contains `{extra}`, but setup's contains `{missing}` in its place"),
                )
                .label(other.span, "setup's list")
                .help("check what setup creates, or what the prompt asks for"),
            );
        }
    }
}

pub fn listed(view: &TaskView<'_>, phase: PhaseKind) -> Vec<Loop> {
    let mut found = Vec::new();
    for script in view.scripts.iter().filter(|script| script.phase == phase && script.content.text.contains("for ")) {
        for list in LISTS.captures_iter(&script.content.text) {
            let (Some(var), Some(items)) = (list.get(1), list.get(2)) else { continue };
            let words = items.as_str().split_whitespace();
            let items_of = words.map(|word| word.trim_matches(['"', '\'']).to_owned()).collect();
            let span = script.content.span(items.range());
            found.push(Loop { var: var.as_str().to_owned(), items: items_of, span });
        }
    }
    view.task.walk(&mut |at, step| {
        let list = step.arg("in").filter(|_| at == phase);
        if let (Some(var), Some(list), Some(ArgKind::List(items))) = (&step.var, list, list.map(|list| &list.kind)) {
            let items: Option<Vec<String>> = items.iter().map(|item| item.as_literal().map(str::to_owned)).collect();
            found.extend(items.map(|items| Loop { var: var.value.clone(), items, span: list.span }));
        }
    });
    found
}

static LISTS: Ascii = ascii(r#"\bfor\s+([A-Za-z_]\w*)\s+in\s+([\w."' /:-]+?)\s*(?:;|\n)\s*do\b"#);

/// A request of verify to another port than all other requests with the same host and path.
fn hosts(view: &TaskView<'_>, out: &mut Diagnostics) {
    let all = deleted_by_request::requests(view);
    let place = |request: &deleted_by_request::Request| -> Option<(String, String, String)> {
        let [_, _, host, begin @ ..] = request.segments.as_slice() else { return None };
        let (name, port) = host.literal()?.split_once(':')?;
        let [first, second, ..] = begin else { return None };
        Some((format!("{name} {}/{}", first.literal()?, second.literal()?), name.to_owned(), port.to_owned()))
    };
    let placed: Vec<_> = all.iter().filter_map(|request| Some((request, place(request)?))).collect();
    let said = view.effects.prompt.shown();
    for (request, (path, name, port)) in &placed {
        let alike = || placed.iter().filter(|(_, (other, ..))| other == path);
        let mut others =
            alike().filter(|(other, _)| !std::ptr::eq(*other, *request)).map(|(other, (.., port))| (other, port));
        let Some((first, usual)) = others.next() else { continue };
        let rest: Vec<_> = others.collect();
        let phases = |phase| first.phase == phase || rest.iter().any(|(other, _)| other.phase == phase);
        let (_, begin) = path.split_once(' ').unwrap_or_default();
        let told =
            said.contains(&format!("{name}:{port}/{begin}")) || facts::elsewhere(view).rest.contains(port.as_str());
        if request.phase == PhaseKind::Verify
            && usual != port
            && !rest.is_empty()
            && rest.iter().all(|(_, other)| *other == usual)
            && phases(PhaseKind::Setup)
            && !told
        {
            out.push(
                Diagnostic::new(
                    &UNKNOWN_RESOURCE,
                    request.span,
                    format!("all other requests to `/{begin}` go to port {usual}, but this one to port {port}"),
                )
                .label(first.span, format!("port {usual}"))
                .help("check what setup creates, or what the prompt asks for"),
            );
        }
    }
}

/// `as: system:serviceaccount:NAMESPACE:NAME` with a namespace that nothing creates.
fn other_space(view: &TaskView<'_>, out: &mut Diagnostics) {
    let setup = || view.effects.in_phase(PhaseKind::Setup).filter(|act| act.verb == Verb::Creates);
    let spaces = || setup().filter(|act| act.thing.kind == "namespace");
    let are_known = || spaces().all(|act| act.thing.name.as_ref().is_some_and(Value::is_known));
    if spaces().next().is_none() || !view.effects.sees(PhaseKind::Setup) || !are_known() {
        return;
    }
    let said = view.effects.prompt.shown();
    let filled = |text: String| {
        let name = text.strip_prefix("{env.").and_then(|rest| rest.strip_suffix('}'));
        let own = name.and_then(|name| view.task.env.iter().find(|(known, _)| known.value == name));
        own.map_or(text.clone(), |(_, template)| texts::written(template))
    };
    let mut told: Vec<String> = Vec::new();
    view.task.verify.steps.iter().for_each(|step| {
        step.walk(&mut |step| {
            let Some((span, user)) = step.arg("as").and_then(|arg| Some((arg.span, filled(texts::script_text(arg)?))))
            else {
                return;
            };
            let account = user.strip_prefix("system:serviceaccount:").and_then(|rest| rest.split_once(':'));
            let Some((space, name)) = account.filter(|(space, name)| !space.is_empty() && !name.contains(':')) else {
                return;
            };
            let accounts = || setup().filter(|act| act.thing.kind == "serviceaccount");
            let is_named = |act: &&crate::effects::Act| {
                act.thing.name.as_ref().is_none_or(|own| !own.is_known() || own.shown() == name)
            };
            let own = accounts().next().filter(|_| !accounts().any(|act| is_named(&act)));
            if let Some(own) = own.filter(|_| !texts::has_word(&said, name) && !name.contains(['{', '$'])) {
                let message = format!("neither setup nor the prompt mentions the service account `{name}`");
                out.push(
                    Diagnostic::new(&UNKNOWN_RESOURCE, span, message)
                        .label(own.span, "setup creates this service account")
                        .help("the user of a service account is `system:serviceaccount:NAMESPACE:NAME`"),
                );
                told.push(space.to_owned());
                return;
            }
            let is_hidden = space.contains(['|', '$']) || space.contains("{env.") || space.contains("{steps.");
            let is_elsewhere = |act: &crate::effects::Act| {
                act.thing.space.as_ref().is_some_and(|own| own.is_known() && own.shown() != space)
            };
            let in_default = space == "default" && !accounts().filter(is_named).all(is_elsewhere);
            let exists = in_default || space.starts_with("kube-") || said.contains(space);
            let is_made = || setup().any(|act| act.thing.name.iter().any(|name| name.shown() == space));
            if is_hidden || exists || is_made() || told.iter().any(|known| known == space) {
                return;
            }
            // Only if the account itself is made in another namespace.
            let other = setup().find(|act| {
                act.thing.kind == "serviceaccount" && act.thing.name.as_ref().is_some_and(|own| own.shown() == name)
            });
            let Some(other) = other else { return };
            let message = match space {
                "default" => format!("the service account `{name}` is not in the namespace `default`"),
                _ => format!("neither setup nor the prompt mentions the namespace `{space}`"),
            };
            out.push(
                Diagnostic::new(&UNKNOWN_NAMESPACE, span, message)
                    .label(other.span, format!("setup creates the service account `{name}` here"))
                    .help("the user of a service account is `system:serviceaccount:NAMESPACE:NAME`"),
            );
            told.push(space.to_owned());
        });
    });
}

/// `kubectl auth can-i … --as=NAME` with the name of a service account: a user of this name does not exist.
fn impersonated(view: &TaskView<'_>, out: &mut Diagnostics) {
    let said = view.effects.prompt.shown();
    for run in runs(view, PhaseKind::Verify).filter(|run| run.statement.tool() == "kubectl") {
        let words: Vec<&str> = run.words.iter().map(|word| word.literal().unwrap_or_default()).collect();
        let after = words.windows(2).find(|pair| pair[0] == "--as").map(|pair| pair[1]);
        let Some(name) = after.or_else(|| words.iter().find_map(|word| word.strip_prefix("--as="))) else { continue };
        if name.is_empty() || name.contains(':') {
            continue;
        }
        let made = view.effects.acts.iter().any(|act| {
            act.thing.kind == "serviceaccount" && act.thing.name.as_ref().and_then(Value::literal) == Some(name)
        });
        let called = || {
            said.match_indices(name).any(|(at, _)| {
                ACCOUNT.is_match(&said[..at])
                    && !said[at + name.len()..].starts_with(|c: char| c.is_ascii_alphanumeric() || c == '-')
            })
        };
        // A user may have the same name.
        let user = [&said, &facts::elsewhere(view).rest, &facts::elsewhere(view).verify].iter().any(|text| {
            [
                format!("user {name}"),
                format!("user `{name}"),
                format!("--user={name}"),
                format!("user=\"{name}"),
                "kind: User".to_owned(),
            ]
            .iter()
            .any(|form| text.contains(form.as_str()))
        });
        if (made || called()) && !user {
            let space = words
                .windows(2)
                .find(|pair| matches!(pair[0], "-n" | "--namespace"))
                .map_or("NAMESPACE", |pair| pair[1]);
            let space = if space.is_empty() { "NAMESPACE" } else { space };
            out.push(
                Diagnostic::new(
                    &UNKNOWN_RESOURCE,
                    line(run),
                    format!("`--as={name}` is the user `{name}`, not the service account"),
                )
                .help(format!("write `--as=system:serviceaccount:{space}:{name}`")),
            );
        }
    }
}

static ACCOUNT: Ascii = ascii(r#"(?i)\bservice\s?accounts?(?:\s+(?:called|named))?\s+[`"']?$"#);

/// `helm list` without a namespace, where every other command of Helm has one.
pub fn namespace(view: &TaskView<'_>, out: &mut Diagnostics) {
    crate::lint::resources::cluster::namespace(view, out);
    crate::lint::resources::missing_resources::namespace(view, out);
    let all = || {
        view.effects.scripts.iter().flat_map(|script| &script.trace.runs).filter(|run| run.statement.name() == "helm")
    };
    if all().count() < 3 {
        return;
    }
    const ELSEWHERE: [&str; 6] = ["HELM_NAMESPACE", "set-context", "kubens", "KUBECONFIG", "use-context", "oc project"];
    let texts = facts::elsewhere(view);
    if ELSEWHERE.iter().any(|word| texts.verify.contains(word) || texts.rest.contains(word)) {
        return;
    }
    // The other operations name a release: `scattered` compares their namespaces.
    const LISTS: [&str; 2] = ["list", "ls"];
    let words = |run: &Run<'_>| -> Vec<String> { run.words[1..].iter().map(Value::shown).collect() };
    let scoped = |words: &[String]| {
        let at = words.iter().position(|word| matches!(word.as_str(), "-n" | "--namespace"));
        let joined = words.iter().find_map(|word| word.strip_prefix("--namespace=").map(str::to_owned));
        at.and_then(|at| words.get(at + 1).cloned()).or(joined)
    };
    let mut spaces: Vec<String> = Vec::new();
    let mut lost: Vec<(&Run<'_>, PhaseKind)> = Vec::new();
    for script in &view.effects.scripts {
        for run in script.trace.runs.iter().filter(|run| run.statement.name() == "helm") {
            let words = words(run);
            let verb = tools::operands("helm", &words).next().map(String::as_str).unwrap_or_default();
            let wide = words.iter().any(|word| matches!(word.as_str(), "-A" | "--all-namespaces" | "--help"));
            match scoped(&words) {
                Some(space) => spaces.push(space),
                None if wide || !LISTS.contains(&verb) => {}
                None => lost.push((run, script.view.phase)),
            }
        }
    }
    spaces.sort_unstable();
    let enough = spaces.len() > 1;
    spaces.dedup();
    if let ([(run, PhaseKind::Verify)], [space], true) = (lost.as_slice(), spaces.as_slice(), enough) {
        out.push(
            Diagnostic::new(
                &UNKNOWN_NAMESPACE,
                line(run),
                format!("this looks in the default namespace, but every other `helm` command in `{space}`"),
            )
            .help("use the same namespace: `-n`"),
        );
    }
}

/// `${NS:-a}` in setup and `${NS:-b}` in verify: if the variable is not set, they use different values.
pub fn defaults(view: &TaskView<'_>, out: &mut Diagnostics) {
    let mut found: BTreeMap<String, Vec<(PhaseKind, String, Span)>> = BTreeMap::new();
    for script in view
        .scripts
        .iter()
        .filter(|script| script.content.text.contains("${") || script.content.text.contains("environ"))
    {
        let python = PYTHON.captures_iter(&script.content.text);
        for default in DEFAULTS.captures_iter(&script.content.text).chain(python) {
            let (Some(name), Some(value)) = (default.get(1), default.get(2)) else { continue };
            let span = script.content.span(value.range());
            found.entry(name.as_str().to_owned()).or_default().push((script.phase, value.as_str().to_owned(), span));
        }
    }
    found.retain(|name, _| PLACES.is_match(name) && !view.task.env.iter().any(|(known, _)| known.value == *name));
    let said = view.effects.prompt.shown();
    for (name, all) in found {
        let Some((_, usual, first)) = all.iter().find(|(phase, ..)| *phase == PhaseKind::Setup) else { continue };
        let agrees = |phase: PhaseKind| all.iter().filter(move |(at, ..)| *at == phase).map(|(_, value, _)| value);
        // Within a phase, the defaults may differ on purpose.
        let alike = PhaseKind::ALL.into_iter().all(|phase| {
            let mut values = agrees(phase);
            values.next().is_none_or(|first| values.all(|value| value == first))
        });
        let is_name = |value: &str| {
            value.len() > 1
                && value.bytes().any(|b| b.is_ascii_alphabetic())
                && !matches!(value, "true" | "false" | "yes" | "no")
        };
        let span_of_time = |value: &str| value.trim_end_matches(['s', 'm', 'h']).bytes().all(|b| b.is_ascii_digit());
        let other = all.iter().find(|(_, value, _)| {
            // A prompt with the usual value may contain a part of it, too.
            let is_told = whole(&said, value) && !whole(&said, usual);
            value != usual && is_name(value) && !is_told && !span_of_time(value)
        });
        if let (true, true, Some((_, value, span))) = (alike, is_name(usual), other) {
            out.push(
                Diagnostic::new(
                    &crate::lint::shell::unset::UNSET_VARIABLE,
                    *span,
                    format!("if `${name}` is not set, this uses `{value}`, but setup uses `{usual}`"),
                )
                .strength(Strength::Warning)
                .label(*first, "the default in setup")
                .help("use the same default in all scripts, or declare the variable under `env`"),
            );
        }
    }
}

/// Variables that say where or what something is. The default of a version or an image may differ on purpose.
static PLACES: Ascii = ascii(
    r"(?:^|_)(?:NS|NAMESPACE|NAME|DIR|DIRECTORY|FILE|PATH|REPO|REPOSITORY|DB|DATABASE|BUCKET|CLUSTER|CONTEXT|HOST|URL|PROJECT|RELEASE|USER|ROLE|TABLE|QUEUE|TOPIC|ORG|CONTAINER|POD|DEPLOYMENT|BASE|ROOT)$",
);
static PYTHON: Ascii = ascii(r#"\benviron\.get\(["']([A-Z][A-Z0-9_]+)["'],\s*["']([\w./:@-]+)["']\)"#);
static DEFAULTS: Ascii = ascii(r#"\$\{([A-Z][A-Z0-9_]+):?[-=]"?([\w./:@-]+)"?\}"#);
