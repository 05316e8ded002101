//! Verify checks something other than what the task is about: another name, namespace, label or address.

use std::{borrow::Cow, cell::LazyCell, collections::HashSet};

use crate::{
    ascii::{Ascii, ascii},
    diagnostic::{Diagnostic, Diagnostics, nearest},
    effects::{
        Act, Thing, Verb, asked,
        shell::Run,
        value::{Piece, Value},
    },
    hir::PhaseKind,
    lint::TaskView,
    rule,
    source::Span,
};

rule! {
    pub static UNKNOWN_RESOURCE = "unknown-resource", Warning;
}

/// Requires a known name that the prompt does not contain and that nothing in the task creates. In addition, there must
/// be a similar name, or all effects of setup must be known.
pub fn check(view: &TaskView<'_>, out: &mut Diagnostics) {
    names(view, out);
    filled(view, out);
    called_otherwise(view, out);
    places(view, out);
    containers(view, out);
    scattered(view, out);
    ports(view, out);
    urls(view, out);
    accounts(view, out);
    files(view, out);
    schemas(view, out);
    repositories(view, out);
    checkouts(view, out);
}

/// `git rev-parse main` without a directory, where setup creates its repository at a path.
fn checkouts(view: &TaskView<'_>, out: &mut Diagnostics) {
    let moves = |text: &str| ["cd ", "pushd", "GIT_DIR", "GIT_WORK_TREE"].iter().any(|word| text.contains(word));
    let of = |phase: PhaseKind| view.effects.scripts.iter().filter(move |script| script.view.phase == phase);
    let mut made = None;
    for run in of(PhaseKind::Setup).flat_map(|script| &script.trace.runs).filter(|run| run.statement.name() == "git") {
        let is = |word: &str| run.words.iter().any(|other| other.literal() == Some(word));
        let path = run.words.last().filter(|last| {
            let begin = last.pieces().first();
            last.is_known() && matches!(begin, Some(Piece::Text(text)) if text.starts_with('/'))
        });
        match path {
            Some(path) if is("init") || is("clone") => made = made.or(Some((run, path.shown()))),
            // A repository in the task's working directory.
            None if is("init") || is("clone") => return,
            _ => {}
        }
    }
    let Some((made, path)) = made.filter(|_| view.effects.sees(PhaseKind::Setup)) else { return };
    for script in of(PhaseKind::Verify) {
        if moves(&script.view.content.text)
            || script.view.step.arg("workdir").is_some()
            || !script.trace.sources.is_empty()
        {
            continue;
        }
        let lost = script.trace.runs.iter().find(|run| {
            let is =
                |word: &str| run.words.iter().any(|other| other.literal().is_some_and(|other| other.starts_with(word)));
            run.statement.name() == "git"
                && !["-C", "--git-dir", "--work-tree", "clone", "init", "ls-remote", "config", "--version"]
                    .iter()
                    .any(|word| is(word))
        });
        if let Some(run) = lost {
            out.push(
                Diagnostic::new(
                    &UNKNOWN_RESOURCE,
                    run.content.span(run.statement.range.clone()),
                    format!("this uses the repository that contains the task, but setup creates one in `{path}`"),
                )
                .label(made.content.span(made.statement.range.clone()), "created here")
                .help("change to that directory: `git -C DIR …`"),
            );
        }
    }
}

/// `table_schema = 'public'`, where setup creates a schema for the task and nothing names another.
fn schemas(view: &TaskView<'_>, out: &mut Diagnostics) {
    let model = view.effects;
    let made = model.in_phase(PhaseKind::Setup).find(|act| act.verb == Verb::Creates && act.thing.kind == "schema");
    let Some(made) = made.filter(|_| view.task.prompt.is_some()) else { return };
    let said = model.prompt.shown();
    let mut told = false;
    for script in view.scripts.iter().filter(|script| script.phase == PhaseKind::Verify) {
        for schema in SCHEMA.captures_iter(&script.content.text).filter_map(|found| found.get(1)) {
            let name = schema.as_str();
            let known = has_word(&said, name) || has_word(&crate::lint::analysis::facts::elsewhere(view).rest, name);
            if !known && !std::mem::replace(&mut told, true) {
                out.push(
                    Diagnostic::new(
                        &UNKNOWN_RESOURCE,
                        script.content.span(schema.range()),
                        format!("neither the prompt nor setup mentions the schema `{name}`"),
                    )
                    .label(made.span, "setup creates this schema")
                    .help("check the schema that the prompt mentions"),
                );
            }
        }
    }
}

static SCHEMA: Ascii = ascii(r"(?i)\b(?:table_schema|schemaname|schema_name|nspname)\s*=\s*'(\w+)'");

/// `gh issue view --repo acme/other`, where everything else is in `acme/shop`.
fn repositories(view: &TaskView<'_>, out: &mut Diagnostics) {
    if view.task.prompt.is_none() {
        return;
    }
    let said = view.effects.prompt.shown();
    let rest = &crate::lint::analysis::facts::elsewhere(view).rest;
    for script in view.effects.scripts.iter().filter(|script| script.view.phase == PhaseKind::Verify) {
        for run in script.trace.runs.iter().filter(|run| run.statement.name() == "gh") {
            let words: Vec<&str> = run.words.iter().map(|word| word.literal().unwrap_or_default()).collect();
            let behind = words.windows(2).find(|pair| matches!(pair[0], "-R" | "--repo")).map(|pair| pair[1]);
            let Some(name) = behind.or_else(|| words.iter().find_map(|word| word.strip_prefix("--repo="))) else {
                continue;
            };
            let Some((owner, _)) = name.split_once('/').filter(|(owner, _)| owner.len() > 1) else { continue };
            let other = format!("{owner}/");
            if !said.contains(name) && !rest.contains(name) && said.contains(&other) {
                out.push(
                    Diagnostic::new(
                        &UNKNOWN_RESOURCE,
                        run.content.span(run.statement.range.clone()),
                        format!("neither the prompt nor the task mentions the repository `{name}`"),
                    )
                    .help("check what setup creates, or what the prompt asks for"),
                );
            }
        }
    }
}

/// `system:serviceaccount:ACCOUNT:NAMESPACE`: the two parts are swapped.
fn accounts(view: &TaskView<'_>, out: &mut Diagnostics) {
    let made = |kind: &str, name: &Value| {
        view.effects.acts.iter().any(|act| {
            act.verb == Verb::Creates
                && act.thing.kind == kind
                && act.thing.name.as_ref().is_some_and(|made| made.is(name))
        })
    };
    for script in view.effects.scripts.iter().filter(|script| script.view.phase == PhaseKind::Verify) {
        let swapped = script.trace.runs.iter().find(|run| {
            let is_account = |word: &&Value| {
                word.pieces().iter().any(|piece| matches!(piece, Piece::Text(text) if text.contains("serviceaccount")))
            };
            run.words.iter().filter(is_account).any(|word| {
                let parts = word.split(':');
                match parts.as_slice() {
                    [.., kind, first, second] if kind.literal() == Some("serviceaccount") => {
                        made("namespace", second) && !made("namespace", first)
                    }
                    _ => false,
                }
            })
        });
        let lost = script.trace.runs.iter().filter(|run| run.statement.tool() == "kubectl").find_map(|run| {
            run.words.iter().filter(|word| spelt(word).contains("serviceaccount:")).find_map(|word| {
                let parts = word.split(':');
                let [.., _, space, name] = parts.as_slice() else { return None };
                let mut accounts = view.effects.acts.iter().filter(|act| {
                    act.verb == Verb::Creates
                        && act.thing.kind == "serviceaccount"
                        && act.thing.name.as_ref().is_none_or(|made| made.may_be(name))
                });
                let Some(first) = accounts.clone().next() else {
                    let all = || {
                        view.effects
                            .acts
                            .iter()
                            .filter(|act| act.verb == Verb::Creates && act.thing.kind == "serviceaccount")
                    };
                    let said = spelt(&view.effects.prompt);
                    let is_told = has_word(&said, &spelt(name))
                        && (crate::lint::analysis::orders::MAKES.is_match(&said)
                            || is_called(view, &said, &spelt(name), "serviceaccount"));
                    let nobody = name.is_known() && spelt(name) != "default" && !is_told;
                    let sees = view.task.prompt.is_some() && view.effects.sees(PhaseKind::Setup);
                    return all()
                        .next()
                        .filter(|_| nobody && sees)
                        .map(|first| (run, first, name.shown(), space.shown()));
                };
                let apart = accounts.all(|act| {
                    act.thing
                        .space
                        .as_ref()
                        .is_some_and(|made| made.is_known() && space.is_known() && !made.may_be(space))
                });
                apart.then(|| (run, first, name.shown(), space.shown()))
            })
        });
        if let (Some((run, made, name, space)), None) = (lost, swapped) {
            out.push(
                Diagnostic::new(
                    &UNKNOWN_RESOURCE,
                    run.content.span(run.statement.range.clone()),
                    format!("the service account `{name}` does not exist in the namespace `{space}`"),
                )
                .label(made.span, "this one is created")
                .help("an account that does not exist has no permissions: use the name and namespace of the one that is created"),
            );
        }
        if let Some(run) = swapped {
            out.push(
                Diagnostic::new(
                    &UNKNOWN_RESOURCE,
                    run.content.span(run.statement.range.clone()),
                    "the user name of a service account is `system:serviceaccount:NAMESPACE:NAME`: the namespace and the name are swapped here",
                )
                .help("write the namespace first"),
            );
        }
    }
}

/// Verify reads a file in a directory of the task. Neither setup creates it nor the prompt names it, but the prompt
/// names other files in this directory.
fn files(view: &TaskView<'_>, out: &mut Diagnostics) {
    let model = view.effects;
    if view.task.prompt.is_none() || !model.sees(PhaseKind::Setup) {
        return;
    }
    let read = crate::lint::analysis::expected::read_paths(view);
    if read.is_empty() {
        return;
    }
    let said = model.prompt.shown();
    let made: Vec<String> = model
        .acts
        .iter()
        .filter(|act| act.verb == Verb::Creates && act.thing.system == "file")
        .filter_map(|act| act.thing.name.as_ref().map(Value::shown))
        .collect();
    // `a file NAME.json for each`: the agent chooses the names.
    let lower = said.to_lowercase();
    let each = ["each", "every", "per "].iter().any(|word| lower.contains(word));
    let mut told: Vec<String> = Vec::new();
    let written = LazyCell::new(|| written(view));
    for (span, path) in read {
        let Some((folder, file)) = path.rsplit_once('/') else { continue };
        let whole = file.contains('.') && !file.contains(['*', '$', '…', '{']) && folder.len() > 4;
        let siblings = said.contains(&format!("{folder}/"));
        // A file that the agent moves or copies keeps its name.
        let is_moved = |made: &String| {
            made.rsplit_once('/').is_some_and(|(_, name)| name == file)
                && has_word(&said, folder.rsplit('/').next().unwrap_or(folder))
        };
        let known = made.iter().any(|made| *made == path || made.starts_with(&format!("{path}/")) || is_moved(made))
            || said.contains(file)
            || written.contains(&path);
        // A file that a command of setup creates under another name is mentioned in its text.
        let in_text = || {
            view.scripts.iter().any(|s| s.phase != PhaseKind::Verify && s.content.text.contains(file))
                || crate::lint::analysis::facts::data(view).contains(file)
        };
        // `access.log.gz` is derived from `access.log`.
        let packed = file.rsplit_once('.').is_some_and(|(stem, _)| stem.contains('.') && said.contains(stem));
        if whole && siblings && !each && !packed && !known && !told.contains(&path) && !in_text() {
            out.push(
                Diagnostic::new(
                    &UNKNOWN_RESOURCE,
                    span,
                    format!("neither the prompt nor the task mentions the file `{path}`"),
                )
                .help("check what setup creates, or what the prompt asks for"),
            );
            told.push(path);
        }
    }
}

/// Whether the prompt, or the task outside of verify, contains a word.
pub fn is_known(view: &TaskView<'_>, said: &str, word: &str) -> bool {
    said.contains(word) || crate::lint::analysis::facts::elsewhere(view).rest.contains(word)
}

/// Whether the prompt and setup mention all parts of a key such as `user:42`, each by itself.
pub fn is_told_apart(view: &TaskView<'_>, said: &str, key: &str) -> bool {
    let mut parts = key.split([':', '/', '.']).filter(|part| !part.is_empty()).peekable();
    parts.peek().is_some() && parts.all(|part| is_known(view, said, part))
}

/// The words of the commands of verify that may create files, a line each.
pub fn written(view: &TaskView<'_>) -> String {
    let mut found = String::new();
    for script in view.effects.scripts.iter().filter(|script| script.view.phase == PhaseKind::Verify) {
        for run in &script.trace.runs {
            let looks = crate::bash::tools::looks(run.statement.name())
                || matches!(run.statement.name(), "sqlite3" | "echo" | "awk");
            let words = run.words.iter().filter(|_| !looks);
            words.for_each(|word| found.push_str(&format!("{}\n", word.shown())));
        }
    }
    found
}

/// Setup creates `shop-{random.id}`, verify checks it, and the prompt says `shop`: the agent does not know the name.
fn filled(view: &TaskView<'_>, out: &mut Diagnostics) {
    let model = view.effects;
    let Some(prompt) = &view.task.prompt else { return };
    let said = spelt(&model.prompt);
    let mut told: Vec<String> = Vec::new();
    for made in model.in_phase(PhaseKind::Setup).filter(|act| act.verb == Verb::Creates) {
        let Some(name) = made.thing.name.as_ref().filter(|name| name.is_known()) else { continue };
        let [Piece::Text(begin), Piece::Name(_)] = name.pieces() else { continue };
        let bare = begin.trim_end_matches(['-', '_', '.']);
        let bare = bare.rsplit('/').next().unwrap_or(bare);
        let looked = || {
            model
                .in_phase(PhaseKind::Verify)
                .any(|act| act.thing.is(&made.thing) || act.thing.space.as_ref().is_some_and(|space| space.is(name)))
        };
        let is_other = || model.acts.iter().any(|act| act.thing.name.as_ref().and_then(Value::literal) == Some(bare));
        let named = said.contains(&*spelt(name));
        if bare.len() > 3
            && bare.contains('-')
            && !named
            && has_word(&said, bare)
            && looked()
            && !is_other()
            && !told.contains(&name.shown())
        {
            out.push(
                Diagnostic::new(
                    &UNKNOWN_RESOURCE,
                    prompt.text.span,
                    format!("the prompt uses `{bare}`, but setup creates the {} `{}`", made.thing.kind, name.shown()),
                )
                .label(made.span, "created here")
                .help(
                    "give the agent the full name: `{env.NAME}` in the prompt is replaced by the value of the variable",
                ),
            );
            told.push(name.shown());
        }
    }
}

/// The prompt says `the deployment \`front\``, and setup creates a deployment `web`, which verify checks. Requires that
/// nothing else in the task has the name from the prompt, and that the prompt does not contain the name from setup.
fn called_otherwise(view: &TaskView<'_>, out: &mut Diagnostics) {
    let model = view.effects;
    let Some(prompt) = &view.task.prompt else { return };
    let said = spelt(&model.prompt);
    let other = crate::lint::analysis::facts::elsewhere(view);
    for made in
        model.in_phase(PhaseKind::Setup).filter(|act| act.verb == Verb::Creates && act.thing.system == "kubernetes")
    {
        let Some(name) = made.thing.name.as_ref().and_then(Value::literal).filter(|name| name.len() > 1) else {
            continue;
        };
        let looked = || model.in_phase(PhaseKind::Verify).any(|act| act.thing.is(&made.thing));
        if made.thing.kind == "namespace" || said.contains(name) && has_word(&said, name) || !looked() {
            continue;
        }
        let quoted =
            said.match_indices('`').step_by(2).filter_map(|(at, _)| Some((at, said[at + 1..].split('`').next()?)));
        let mut others = quoted.filter(|(at, word)| {
            word.len() > 2
                && !word.contains([' ', '.', '/', ':', '='])
                && is_called(view, &said[..*at + 1 + word.len()], word, &made.thing.kind)
                && !has_word(&other.verify, word)
                && !has_word(&other.rest, word)
                && !model.acts.iter().any(|act| act.thing.name.as_ref().and_then(Value::literal) == Some(word))
                && !crate::lint::analysis::orders::is_object(
                    &said,
                    word,
                    &crate::lint::analysis::orders::MAKES,
                    &|_| true,
                )
        });
        if let Some((_, word)) = others.next() {
            out.push(
                Diagnostic::new(
                    &UNKNOWN_RESOURCE,
                    prompt.text.span,
                    format!(
                        "the prompt uses `{word}`, but the {} that setup creates is named `{name}`",
                        made.thing.kind
                    ),
                )
                .label(made.span, "created here")
                .help("use the actual name in the prompt"),
            );
            return;
        }
    }
}

fn names(view: &TaskView<'_>, out: &mut Diagnostics) {
    let model = view.effects;
    let Some(prompt) = &view.task.prompt else { return };
    let said = spelt(&view.effects.prompt);
    let makes: Vec<&Act> = model.acts.iter().filter(|act| act.verb == Verb::Creates).collect();
    // Charts and controllers derive names from one in the prompt.
    let derives_names = LazyCell::new(|| {
        let lower = said.to_lowercase();
        ["helm", "chart", "operator"]
            .iter()
            .any(|word| lower.contains(word) || view.scripts.iter().any(|s| s.content.text.contains(word)))
    });
    // Things with names that occur outside of verify.
    let known = LazyCell::new(|| {
        let text = crate::lint::analysis::facts::elsewhere(view);
        let mut known: Vec<(&str, &str)> = model
            .acts
            .iter()
            .filter_map(|act| Some((act.thing.kind.as_str(), act.thing.name.as_ref()?.literal()?)))
            .filter(|(_, name)| has_word(&said, name) || text.rest.contains(name))
            .collect();
        known.dedup();
        known
    });
    let candidates = LazyCell::new(|| words(&said).collect::<Vec<_>>());
    let mut told: Vec<String> = Vec::new();
    let mut examined: HashSet<(&Thing, Verb, bool)> = HashSet::new();
    for act in &model.acts {
        let looks = act.phase == PhaseKind::Verify
            && act.verb != Verb::Creates
            && examined.insert((&act.thing, act.verb, act.span == act.step));
        let Some(name) = act.thing.name.as_ref().filter(|name| name.is_known() && looks) else { continue };
        let behind_tool = act.span == act.step && act.thing.system != "kubernetes";
        let plain = spelt(name).chars().all(|c| !matches!(c, ',' | '=' | '*' | ' ') || behind_tool);
        if !plain || act.thing.system == "file" || act.thing.system == "http" || is_given(act) || spelt(name).is_empty()
        {
            continue;
        }
        // A service has endpoints of the same name.
        let kind = match act.thing.kind.as_str() {
            "endpoints" | "endpointslice" => "service",
            kind => kind,
        };
        let makers: Vec<&&Act> = makes
            .iter()
            .filter(|made| {
                made.thing.system == act.thing.system
                    && (made.thing.kind == kind || !has_own_names(&act.thing.system))
                    && !is_schedule(made, act)
                    && made.thing.name.as_ref().is_none_or(|made| {
                        made.may_be(name) || derives(made, name) && (may_derive(&act.thing) || made.literal().is_none())
                    })
            })
            .collect();
        let in_files = || {
            named_in_files(view, name)
                && !(has_own_names(&act.thing.system) && model.sees(PhaseKind::Setup))
                && !makes.iter().any(|made| is_schedule(made, act))
        };
        if makers.is_empty() && !is_named(view, &said, &spelt(name), kind) && !in_files() {
            let literals: Vec<String> = makes
                .iter()
                .filter(|made| made.thing.system == act.thing.system)
                .filter_map(|made| made.thing.name.as_ref()?.literal().map(str::to_owned))
                .chain(candidates.iter().cloned())
                .chain(called(&said, &act.thing.kind))
                .collect();
            let near = name
                .literal()
                .filter(|name| name.len() > 2)
                .and_then(|name| nearest(name, literals.iter().map(String::as_str).filter(|known| *known != name)));
            // A similar name of the same kind is used elsewhere, and this name occurs only here.
            let kin = || {
                let own = name.literal()?;
                let text = crate::lint::analysis::facts::elsewhere(view);
                let scripts = view.scripts.iter().filter(|script| script.phase == PhaseKind::Verify);
                let count: usize = scripts.map(|script| script.content.text.matches(own).count()).sum();
                if count != 1 || text.rest.contains(own) {
                    return None;
                }
                let is_other = |(kind, other): &&(&str, &str)| {
                    *kind == act.thing.kind && *other != own && crate::lint::prompt::disagrees::is_kin(own, other)
                };
                known.iter().find(is_other).map(|(_, other)| *other)
            };
            let near = near.or_else(kin);
            let sees = model.sees(PhaseKind::Setup)
                && prompt.text.holes().all(|hole| hole.text.starts_with("{env.") || hole.text.starts_with("{random."));
            // A prompt that contains no names leaves naming to other parts of the task.
            let names = ["named", "called", "`", "\"", "'", "{"].iter().any(|word| said.contains(word))
                || said.split_whitespace().any(is_compound)
                || makes.iter().any(|made| is_schedule(made, act))
                || makes.iter().any(|made| {
                    let name = made.thing.name.as_ref().and_then(Value::literal);
                    made.thing.kind == act.thing.kind && name.is_some_and(|name| has_word(&said, name))
                });
            let may_derive = may_derive(&act.thing) || *derives_names;
            let derived =
                may_derive && spelt(name).match_indices('-').any(|(at, _)| has_word(&said, &spelt(name)[..at]));
            // `and a cluster role binding of the same name`
            let is_shared = said.match_indices("same name").any(|(at, word)| !said[at + word.len()..].starts_with('s'))
                && model.acts.iter().any(|other| {
                    other.thing.kind != act.thing.kind && other.thing.name.as_ref().is_some_and(|other| other.is(name))
                });
            // `data-redis-0`: the claims of a stateful set are named after the template, the set and a number.
            let is_numbered = act.thing.kind == "persistentvolumeclaim"
                && model.acts.iter().filter(|made| made.thing.kind == "statefulset").any(|set| {
                    let set = set.thing.name.as_ref().and_then(Value::literal).unwrap_or_default();
                    let stem = spelt(name).trim_end_matches(|c: char| c.is_ascii_digit() || c == '*').to_owned();
                    !set.is_empty() && stem.ends_with(&format!("-{set}-"))
                });
            let is_told_apart = || act.thing.kind == "key" && is_told_apart(view, &said, &spelt(name));
            if derived
                || is_shared
                || is_numbered
                || is_told_apart()
                || near.is_none() && (!sees || !names || !is_specific(act) || name.shown().contains('$'))
            {
                continue;
            }
            // A chart names what it creates after its release.
            let of_release = model.acts.iter().any(|made| {
                made.thing.system == "helm"
                    && made.verb == Verb::Creates
                    && made.thing.name.as_ref().is_some_and(|n| n.is(name))
            });
            if of_release && near.is_none() {
                continue;
            }
            let shown = format!("{} `{}`", act.thing.kind, name.shown());
            // `already-true`: the resource must be absent.
            let is_here = |span: Span| (span.file, span.start) == (act.span.file, act.span.start);
            if told.contains(&shown) || out.iter().any(|known| known.rule.name == "already-true" && is_here(known.span))
            {
                continue;
            }
            let mut finding = Diagnostic::new(
                &UNKNOWN_RESOURCE,
                act.span,
                format!("neither the prompt nor the task mentions the {}", shown.trim()),
            );
            if let Some(near) = near {
                finding = finding.here(format!("did you mean `{near}`?"));
            }
            told.push(shown);
            out.push(finding.help("check what setup creates, or what the prompt asks for"));
            continue;
        }
        // Only a resource that the task creates has a known namespace.
        let certain: Vec<&&&Act> = makers
            .iter()
            .filter(|made| {
                made.thing.kind == act.thing.kind && made.thing.name.as_ref().is_some_and(|made| made.is(name))
            })
            .collect();
        let elsewhere = |made: &Act| match (&made.thing.space, &act.thing.space) {
            (Some(made), Some(here)) => made.is_known() && here.is_known() && !made.may_be(here),
            (Some(made), None) => made.is_known() && made.literal() != Some("default"),
            (None, Some(here)) => here.is_known() && here.literal() != Some("default") && !act_is_step(act),
            _ => false,
        };
        let wide = view.tools.tool("kubectl").and_then(|tool| tool.kind(&act.thing.kind)).is_some_and(|(_, wide)| wide);
        if let (Some(first), true, false) = (certain.first(), certain.iter().all(|made| elsewhere(made)), wide)
            && (act.thing.system == "kubernetes" || act.thing.system == "helm" && act.thing.space.is_none())
            && !changes_namespace(view)
            && !act.thing.space.as_ref().is_some_and(|space| has_word(&said, &spelt(space)))
        {
            let shown = format!("{} `{}`", act.thing.kind, name.shown());
            let place = |space: &Option<Value>| {
                space
                    .as_ref()
                    .map_or_else(|| "the current namespace".to_owned(), |space| format!("`{}`", space.shown()))
            };
            if !told.contains(&shown) {
                out.push(
                    Diagnostic::new(
                        &UNKNOWN_RESOURCE,
                        act.span,
                        format!(
                            "the {shown} is read from {}, but created in {}",
                            place(&act.thing.space),
                            place(&first.thing.space)
                        ),
                    )
                    .label(first.span, "created here")
                    .help("read it from the namespace where it is created"),
                );
                told.push(shown);
            }
        }
    }
}

/// Returns the ports of this machine that a text uses, with their positions.
fn local_ports(text: &str) -> impl Iterator<Item = (usize, &str)> {
    ["localhost:", "127.0.0.1:"].into_iter().flat_map(move |host| {
        text.match_indices(host).filter_map(move |(at, _)| {
            let start = at + host.len();
            let end = text[start..].find(|c: char| !c.is_ascii_digit()).map_or(text.len(), |end| start + end);
            (end - start > 1).then(|| (start, &text[start..end]))
        })
    })
}

/// `curl localhost:8081` only in verify, where setup or the prompt uses a similar port of this machine. A port that is
/// not similar may belong to another service.
fn ports(view: &TaskView<'_>, out: &mut Diagnostics) {
    let Some(_) = &view.task.prompt else { return };
    let mut scripts = view.scripts.iter().filter(|script| script.phase == PhaseKind::Verify);
    if !scripts.any(|script| local_ports(&script.content.text).next().is_some()) {
        return;
    }
    let elsewhere = crate::lint::analysis::facts::elsewhere(view);
    let said = spelt(&view.effects.prompt);
    let others: Vec<&str> = local_ports(&elsewhere.rest).chain(local_ports(&said)).map(|(_, port)| port).collect();
    for script in view.scripts.iter().filter(|script| script.phase == PhaseKind::Verify) {
        let text = &script.content.text;
        for (at, port) in local_ports(text) {
            let scripts = view.scripts.iter().filter(|script| script.phase == PhaseKind::Verify);
            let count: usize = scripts.map(|script| script.content.text.matches(port).count()).sum();
            let named = has_word(&said, port) || has_word(&elsewhere.rest, port) || count > 1;
            let next = |other: &str| {
                let (other, port) = (other.parse::<u32>(), port.parse::<u32>());
                other.is_ok_and(|other| port.is_ok_and(|port| other.abs_diff(port) == 1))
            };
            let other = others.iter().copied().find(|other| next(other) || strsim::osa_distance(other, port) == 1);
            if let Some(other) = other.filter(|_| !named) {
                out.push(
                    Diagnostic::new(
                        &UNKNOWN_RESOURCE,
                        script.content.span(at..at + port.len()),
                        format!("nothing else in the task uses the local port {port}"),
                    )
                    .here(format!("did you mean {other}?"))
                    .help("use the port that setup and the prompt use"),
                );
            }
        }
    }
}

/// Kinds of workloads. A resource is of only one of them.
const WORKLOADS: [&str; 7] =
    ["deployment", "statefulset", "daemonset", "replicaset", "cronjob", "job", "deploymentconfig"];

/// Reports a resource that is looked up or deleted in two namespaces, if nothing else is in one of them, or as another
/// kind of workload than in the rest of the task.
fn scattered(view: &TaskView<'_>, out: &mut Diagnostics) {
    let model = view.effects;
    if view.task.prompt.is_none() {
        return;
    }
    let said = spelt(&model.prompt);
    let acts: Vec<&Act> = model
        .acts
        .iter()
        .filter(|act| matches!(act.thing.system.as_str(), "kubernetes" | "helm"))
        .filter(|act| act.thing.name.as_ref().is_some_and(|name| name.is_known() && !name.pieces().is_empty()))
        .collect();
    let same_name = |a: &Act, b: &Act| a.thing.name.as_ref().zip(b.thing.name.as_ref()).is_some_and(|(a, b)| a.is(b));
    for act in &acts {
        let looks = act.phase == PhaseKind::Verify && act.verb != Verb::Creates
            || act.phase == PhaseKind::Cleanup && act.verb == Verb::Deletes;
        let Some(space) = act.thing.space.as_ref().filter(|space| looks && space.is_known()) else { continue };
        let others = || acts.iter().filter(|other| other.span != act.span);
        let elsewhere = others().find(|other| {
            other.thing.kind == act.thing.kind
                && same_name(other, act)
                && other.thing.space.as_ref().is_some_and(|other| other.is_known() && !other.may_be(space))
        });
        let alone = || {
            let inside = |other: &Act| {
                other.span != act.span
                    && (other.thing.space.as_ref().is_some_and(|other| other.may_be(space))
                        || other.thing.kind == "namespace"
                            && other.thing.name.as_ref().is_none_or(|name| name.may_be(space)))
            };
            !model.acts.iter().any(inside) && !has_word(&said, &spelt(space)) && model.sees(act.phase)
        };
        let known = |place: Span| out_has(out, place);
        // A literal namespace that nothing else names is reported by `cluster::namespace`.
        let by_name = || {
            let mut found = Diagnostics::default();
            crate::lint::resources::cluster::namespace(view, &mut found);
            out_has(&found, act.span)
        };
        if let Some(other) = elsewhere.filter(|_| !known(act.span) && alone() && !by_name()) {
            let (name, place) = (act.thing.name.as_ref().map(Value::shown).unwrap_or_default(), space.shown());
            let own = other.thing.space.as_ref().map(Value::shown).unwrap_or_default();
            out.push(
                Diagnostic::new(
                    &UNKNOWN_RESOURCE,
                    act.span,
                    format!(
                        "elsewhere, the {} `{name}` is in the namespace `{own}`, and nothing else is in `{place}`",
                        act.thing.kind
                    ),
                )
                .label(other.span, "as here")
                .help("use the namespace that contains it"),
            );
            continue;
        }
        let is_workload = |kind: &str| WORKLOADS.contains(&kind);
        let another = others().find(|other| {
            is_workload(&other.thing.kind)
                && other.thing.kind != act.thing.kind
                && same_name(other, act)
                && other.thing.space.as_ref().is_none_or(|other| other.may_be(space))
        });
        let kind = act.thing.kind.as_str();
        let lower = said.to_lowercase();
        let spoken = || {
            // `cron job` does not refer to a job.
            let bare = lower.replace("cron job", "cronjob").replace("cron-job", "cronjob");
            let apart = ["stateful set", "daemon set", "replica set"]
                .iter()
                .any(|word| word.replace(' ', "") == kind && bare.contains(word));
            apart || has_word(&bare, kind) || has_word(&bare, &format!("{kind}s"))
        };
        let again = || others().any(|other| other.thing.kind == kind && same_name(other, act));
        if let Some(other) = another.filter(|_| is_workload(kind) && !known(act.span) && !again() && !spoken()) {
            let name = act.thing.name.as_ref().map(Value::shown).unwrap_or_default();
            out.push(
                Diagnostic::new(
                    &UNKNOWN_RESOURCE,
                    act.span,
                    format!("elsewhere, `{name}` is a {}, and nothing else is a {kind}", other.thing.kind),
                )
                .label(other.span, "as here")
                .help("use its actual kind"),
            );
        }
    }
}

/// Whether there is a finding that overlaps a span.
pub fn out_has(out: &Diagnostics, place: Span) -> bool {
    out.iter()
        .any(|known| known.span.file == place.file && known.span.start < place.end && place.start < known.span.end)
}

/// Verify looks in a namespace that nothing names, or in none although everything else is in one;
/// or for a label that nothing has.
fn places(view: &TaskView<'_>, out: &mut Diagnostics) {
    let model = view.effects;
    if view.task.prompt.is_none() {
        return;
    }
    let said = spelt(&view.effects.prompt);
    let kubernetes = || model.acts.iter().filter(|act| matches!(act.thing.system.as_str(), "kubernetes" | "helm"));
    let made: Vec<&Act> = kubernetes()
        .filter(|act| act.verb == Verb::Creates && act.thing.kind == "namespace" && act.phase == PhaseKind::Setup)
        .collect();
    let wide = |kind: &str| view.tools.tool("kubectl").and_then(|tool| tool.kind(kind)).is_some_and(|(_, wide)| wide);
    let changes = !made.is_empty() && changes_namespace(view);
    let literals = LazyCell::new(|| {
        let mut found = Diagnostics::default();
        crate::lint::resources::cluster::namespace(view, &mut found);
        found
    });
    let mut told: Vec<String> = Vec::new();
    for act in
        kubernetes().filter(|act| act.phase == PhaseKind::Verify && act.verb != Verb::Creates && !wide(&act.thing.kind))
    {
        if is_given(act) || made.is_empty() || changes {
            continue;
        }
        match &act.thing.space {
            // A literal namespace in a command is reported by `cluster::namespace`.
            Some(space) if space.is_known() => {
                let known = kubernetes().any(|other| {
                    other.phase == PhaseKind::Setup
                        && (other.thing.space.as_ref().is_some_and(|other| other.may_be(space))
                            || other.thing.kind == "namespace"
                                && other.thing.name.as_ref().is_none_or(|name| name.may_be(space)))
                });
                let literal = literals.iter().any(|other| {
                    other.span.file == act.span.file
                        && act.span.start <= other.span.start
                        && other.span.start <= act.span.end
                });
                let shown = space.shown();
                if !known
                    && !literal
                    && !is_named(view, &said, &spelt(space), "namespace")
                    && model.sees(PhaseKind::Setup)
                    && !told.contains(&shown)
                    && shown != "default"
                {
                    out.push(
                        Diagnostic::new(
                            &crate::lint::resources::cluster::UNKNOWN_NAMESPACE,
                            act.span,
                            format!("neither setup nor the prompt mentions the namespace `{shown}`"),
                        )
                        .help(format!(
                            "setup creates {}",
                            made.iter()
                                .filter_map(|act| act.thing.name.as_ref())
                                .map(|name| format!("`{}`", name.shown()))
                                .collect::<Vec<_>>()
                                .join(", ")
                        )),
                    );
                    told.push(shown);
                }
            }
            None => {
                // What cleanup deletes is evidence only for a resource of the same name.
                let others = kubernetes().filter(|other| {
                    let same = other.thing.kind == act.thing.kind && other.thing.name == act.thing.name;
                    (other.phase != PhaseKind::Cleanup || same && other.thing.space.is_some())
                        && !std::ptr::eq(*other, act)
                        && !wide(&other.thing.kind)
                });
                let (with, without): (Vec<&Act>, Vec<&Act>) = others.partition(|other| other.thing.space.is_some());
                let alone = !with.is_empty()
                    && without.iter().all(|other| {
                        other.span == act.span
                            || other.phase == PhaseKind::Verify && without.len() * 3 <= with.len() + 2
                    });
                let shown = act.thing.shown();
                let by_name = model.acts.iter().any(|other| other.verb == Verb::Creates && other.thing.is(&act.thing));
                // `kubectl get pods -l app=web` without `--all-namespaces`.
                let listed = || {
                    let source = view.sources.get(act.span.file);
                    let text = source.text();
                    let text = text.get(act.span.start as usize..act.span.end as usize).unwrap_or_default();
                    !act_is_step(act)
                        && (text.contains(" -l ") || text.contains("--selector"))
                        && !(text.contains(" -A") || text.contains("--all-namespaces"))
                };
                if alone && !by_name && (act.thing.name.is_some() || listed()) && !told.contains(&shown) {
                    out.push(
                        Diagnostic::new(
                            &UNKNOWN_RESOURCE,
                            act.span,
                            format!(
                                "the {shown} is read from the current namespace, but everything else is in another one"
                            ),
                        )
                        .label(with[0].span, "as here")
                        .help("specify the namespace"),
                    );
                    told.push(shown);
                }
            }
            _ => {}
        }
    }
    selectors(view, &said, out);
}

/// `kubectl exec web -c app`, where the prompt names other containers.
fn containers(view: &TaskView<'_>, out: &mut Diagnostics) {
    let said = spelt(&view.effects.prompt);
    if !said.to_lowercase().contains("container") {
        return;
    }
    let runs = || {
        let scripts = view.effects.scripts.iter().filter(|script| script.view.phase == PhaseKind::Verify);
        scripts.flat_map(|script| &script.trace.runs).filter(|run| {
            let mut words = run.words.iter().skip(1).filter_map(Value::literal);
            run.statement.tool() == "kubectl" && words.any(|word| matches!(word, "exec" | "logs" | "cp" | "attach"))
        })
    };
    let container = |run: &Run<'_>| {
        let words: Vec<&str> = run.words.iter().map(|word| word.literal().unwrap_or_default()).collect();
        let own = words.iter().position(|word| *word == "--").map_or(words.as_slice(), |end| &words[..end]);
        asked::value_of(own, "-c", "--container").map(str::to_owned)
    };
    for run in runs() {
        let Some(name) = container(run).filter(|name| name.len() > 1) else { continue };
        let text = crate::lint::analysis::facts::elsewhere(view);
        let others: Vec<String> =
            runs().filter_map(container).filter(|other| *other != name && has_word(&said, other)).collect();
        let part = |c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
        let asked = text.verify.split(part).filter(|word| **word == name).count();
        // The names of the other containers may be in the prompt only.
        let is_listed = quoted_after(&said, "container");
        if has_word(&said, &name) || has_word(&text.rest, &name) || asked > 1 || others.is_empty() && !is_listed {
            continue;
        }
        let mut finding = Diagnostic::new(
            &UNKNOWN_RESOURCE,
            run.content.span(run.statement.range.clone()),
            format!("neither the prompt nor the task mentions the container `{name}`"),
        );
        if let Some(other) = others.first() {
            finding = finding.here(format!("another command uses `{other}`"));
        }
        out.push(finding.help("use the name of a container that setup creates, or that the prompt asks for"));
    }
}

/// Whether a text has a name in quotes soon after a word.
fn quoted_after(text: &str, word: &str) -> bool {
    text.to_lowercase().match_indices(word).any(|(at, _)| {
        let rest: String = text.get(at..).unwrap_or_default().chars().take(60).collect();
        rest.matches(['"', '`', '\'']).count() > 1
    })
}

/// Verify requests a resource other than the one that setup creates, at an address that differs in one part.
fn urls(view: &TaskView<'_>, out: &mut Diagnostics) {
    if view.task.prompt.is_none() {
        return;
    }
    let said = spelt(&view.effects.prompt);
    let rest = &crate::lint::analysis::facts::elsewhere(view).rest;
    let urls = |phase: PhaseKind| view.effects.in_phase(phase).filter(|act| act.thing.system == "http");
    // A task that creates more resources at addresses of its own has been generated.
    const MADE: usize = 64;
    let mut made: Vec<(&Act, Vec<Value>, Cow<'_, str>)> = Vec::new();
    for act in urls(PhaseKind::Setup).filter(|act| matches!(act.verb, Verb::Creates | Verb::Changes)) {
        let Some(url) = act.thing.name.as_ref().filter(|url| url.is_known() && made.len() < MADE) else { continue };
        let text = spelt(url);
        if made.iter().all(|(.., known)| *known != text) {
            made.push((act, url.split('/'), text));
        }
    }
    for act in urls(PhaseKind::Verify).filter(|act| act.verb == Verb::Reads) {
        let Some(url) = act.thing.name.as_ref().filter(|url| url.is_known()) else { continue };
        let parts = url.split('/');
        // A random value cannot be guessed. `report-{random.id}.html` is known if its beginning is mentioned.
        let drawn = parts.iter().skip(3).find_map(|part| {
            let pieces = part.pieces();
            let last = pieces.iter().rposition(|piece| matches!(piece, Piece::Name(name) if name == "{random.id}"))?;
            let mut begin = Value::default();
            pieces[..=last].iter().for_each(|piece| begin.push(piece.clone()));
            let is_told = has_word(&said, &spelt(&begin)) || rest.contains(&begin.shown());
            (!is_told && urls(PhaseKind::Verify).all(|other| other.verb == Verb::Reads)).then(|| begin.shown())
        });
        if let Some(part) = drawn {
            out.push(
                Diagnostic::new(
                    &UNKNOWN_RESOURCE,
                    act.span,
                    format!("neither the prompt nor the task mentions `{part}`"),
                )
                .help(format!("the agent cannot guess a random value: put `{part}` in the prompt")),
            );
            continue;
        }
        let differs = |others: &[Value]| {
            let mut differing = parts.iter().zip(others).filter(|(a, b)| a != b).map(|(a, _)| a);
            let alike = others.len() == parts.len() && parts.len() > 4;
            differing.next().filter(|_| alike && differing.next().is_none()).cloned()
        };
        let text = spelt(url);
        let same = made.iter().any(|(.., made)| text.starts_with(&**made));
        if let Some((other, part)) = made.iter().find_map(|(made, others, _)| Some((made, differs(others)?)))
            && !same
            && part.literal().is_none()
            && !has_word(&said, &spelt(&part))
        {
            out.push(
                Diagnostic::new(
                    &UNKNOWN_RESOURCE,
                    act.span,
                    format!("setup creates a different resource: nothing mentions `{}`", part.shown()),
                )
                .label(other.span, "created here")
                .help("check what setup creates, or what the prompt asks for"),
            );
        }
    }
}

/// `-l app=web` in verify or cleanup, where setup only creates resources with `app: api`.
fn selectors(view: &TaskView<'_>, said: &str, out: &mut Diagnostics) {
    let mut asked: Vec<(crate::source::Span, String)> = Vec::new();
    let asks = |phase: PhaseKind| matches!(phase, PhaseKind::Verify | PhaseKind::Cleanup);
    for script in view.effects.scripts.iter().filter(|script| asks(script.view.phase)) {
        for run in script.trace.runs.iter().filter(|run| run.statement.tool() == "kubectl") {
            let words: Vec<&str> = run.words.iter().map(|word| word.literal().unwrap_or_default()).collect();
            let after = words.windows(2).find(|pair| matches!(pair[0], "-l" | "--selector")).map(|pair| pair[1]);
            let joined =
                words.iter().find_map(|word| word.strip_prefix("--selector=").or_else(|| word.strip_prefix("-l=")));
            asked.extend(after.or(joined).map(|text| (run.content.span(run.statement.range.clone()), text.to_owned())));
        }
    }
    for step in view.task.verify.steps.iter().chain(&view.task.cleanup.steps) {
        step.walk(&mut |step| {
            asked.extend(step.arg("selector").and_then(|arg| Some((arg.span, arg.as_literal()?.to_owned()))))
        });
    }
    if asked.is_empty() {
        return;
    }
    let labels = crate::lint::analysis::facts::labels(view);
    let mut texts = said.to_owned();
    for script in view.scripts.iter().filter(|script| script.phase == PhaseKind::Setup) {
        texts.push_str(&script.content.text);
    }
    view.task.walk(&mut |phase, step| {
        if phase == PhaseKind::Setup {
            step.templates(&mut |template| texts.push_str(&crate::lint::analysis::texts::written(template)));
        }
    });
    for (span, text) in asked {
        for (key, value) in text.split(',').filter_map(|part| part.split_once('=')) {
            let value = value.trim_start_matches('=');
            if key.ends_with('!') || value.is_empty() || value.contains(['$', '(', '{']) {
                continue;
            }
            let quoted: Vec<String> = words(said).collect();
            let plain: Vec<&str> =
                said.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-')).filter(|word| word.len() > 3).collect();
            let near = nearest(value, quoted.iter().map(String::as_str).chain(plain.iter().copied()))
                .filter(|near| *near != value && value.len() > 3 && !has_word(&texts, value));
            let written = format!("{key}={value}");
            // A value with a variable or a hole may be anything.
            let open = |text: &str| text.contains(['$', '{', '\u{2026}']);
            let is_own =
                ["kubernetes.io", "job-name", "pod-template", "controller-"].iter().any(|word| key.contains(word));
            // `label its pods tier=web`, `the label tier with the value web`.
            let beside = |at: usize| said.get(at..at + key.len() + 40).unwrap_or(&said[at..]);
            let told = said.contains(&written)
                || has_word(said, key) && said.match_indices(key).any(|(at, _)| has_word(beside(at), value));
            let known_labels = labels.as_deref().unwrap_or_default();
            let of_key: Vec<&(String, String)> = known_labels.iter().filter(|(known, _)| known == key).collect();
            let has = of_key.iter().any(|(_, known)| known == value || open(known));
            let moved = of_key.is_empty().then(|| known_labels.iter().find(|(_, known)| known == value)).flatten();
            let known = match (of_key.first(), moved) {
                _ if labels.is_none() || told || is_own || has => None,
                (Some((_, known)), _)
                    if !has_word(said, value) || !crate::lint::analysis::orders::MAKES.is_match(said) =>
                {
                    Some(format!("{key}={known}"))
                }
                (None, Some((other, value))) => Some(format!("{other}={value}")),
                _ => None,
            };
            let other = known.is_some();
            if other || near.is_some() {
                let known = known.unwrap_or_else(|| format!("{key}={}", near.unwrap_or_default()));
                out.push(
                    Diagnostic::new(
                        &UNKNOWN_RESOURCE,
                        span,
                        format!("setup creates nothing with the label `{key}={value}`"),
                    )
                    .here(format!("did you mean `{known}`?"))
                    .help("a search that finds nothing does not fail"),
                );
            }
        }
    }
}

/// Whether every cluster has this resource.
fn is_given(act: &Act) -> bool {
    let name = act.thing.name.as_ref().and_then(Value::literal).unwrap_or_default();
    let is_system = |name: &str| {
        name == "default" || name.starts_with("kube-") || name.starts_with("openshift") || name.starts_with("system:")
    };
    is_system(name)
        || act.thing.space.as_ref().and_then(Value::literal).is_some_and(|space| space != "default" && is_system(space))
        || matches!(
            act.thing.kind.as_str(),
            "node"
                | "storageclass"
                | "customresourcedefinition"
                | "event"
                | "clusterrole"
                | "ingressclass"
                | "priorityclass"
                | "namespace"
        )
        || act.thing.kind == "service" && name == "kubernetes"
}

/// Whether names of this kind are given by authors: replica sets and their pods are named by controllers.
fn is_specific(act: &Act) -> bool {
    // Every namespace has this one, and those of OpenShift have two more.
    let is_usual = act.thing.kind == "serviceaccount"
        && act
            .thing
            .name
            .as_ref()
            .and_then(Value::literal)
            .is_some_and(|name| matches!(name, "default" | "builder" | "deployer"));
    !is_usual
        && !matches!(
            act.thing.kind.as_str(),
            "replicaset" | "controllerrevision" | "endpointslice" | "secret" | "lease" | "persistentvolume" | ""
        )
        && !matches!(
            act.thing.system.as_str(),
            "file" | "http" | "git" | "postgres" | "mysql" | "sqlite" | "kind" | "docker"
        )
}

/// Whether a word is a name with hyphens, such as `create-simple-rbac`.
fn is_compound(word: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let name = word.trim_matches(|c: char| !plain(c));
    name.contains('-') && name.split('-').all(|part| !part.is_empty() && part.chars().all(plain))
}

/// Whether resources of a kind are named after those that created them.
fn may_derive(thing: &crate::effects::Thing) -> bool {
    thing.system != "kubernetes" && !has_own_names(&thing.system)
        || matches!(
            thing.kind.as_str(),
            "pod" | "replicaset" | "job" | "persistentvolumeclaim" | "persistentvolume" | "endpointslice" | "secret"
        )
}

/// Systems in which resources of one kind do not determine the names of other kinds.
fn has_own_names(system: &str) -> bool {
    matches!(system, "aws" | "gcloud")
}

fn act_is_step(act: &Act) -> bool {
    act.span == act.step
}

/// Whether a name is derived from another: `web-0` of a stateful set `web`, a job of a cron job.
fn derives(made: &Value, name: &Value) -> bool {
    spelt(name).starts_with(&format!("{}-", spelt(made)))
}

fn named_in_files(view: &TaskView<'_>, name: &Value) -> bool {
    let name = &name.shown();
    let other = |script: &crate::lint::script::ScriptView<'_>| {
        script.phase != PhaseKind::Verify && has_word(&script.content.text, name)
    };
    let mut named = view.scripts.iter().any(other);
    view.task.walk(&mut |phase, step| {
        let shell = step.arg("run").or_else(|| step.arg("inline")).map(|arg| arg.span);
        for (_, arg) in step.args.iter().filter(|(_, arg)| phase != PhaseKind::Verify && Some(arg.span) != shell) {
            arg.templates(&mut |template| named |= has_word(&crate::lint::analysis::texts::written(template), name));
        }
    });
    named
}

/// Returns the text of a value, with each hole in a form that no author writes.
fn spelt(value: &Value) -> Cow<'_, str> {
    let piece = |piece: &Piece| match piece {
        Piece::Text(text) => text.clone(),
        Piece::Name(name) => format!("\u{1}{name}\u{1}"),
        Piece::Printed(_) | Piece::Unknown => "\u{2}".to_owned(),
    };
    match value.literal() {
        Some(text) => Cow::Borrowed(text),
        None => Cow::Owned(value.pieces().iter().map(piece).collect()),
    }
}

/// Whether a name occurs in a text without letters, digits or hyphens next to it.
fn has_word(text: &str, name: &str) -> bool {
    crate::lint::resources::cluster::whole(text, name)
}

/// Whether a text uses this name for a resource of this kind: `a route \`site\`` does not name a release.
fn is_named(view: &TaskView<'_>, text: &str, name: &str, kind: &str) -> bool {
    let part = |c: char| c.is_ascii_alphanumeric() || c == '-';
    text.match_indices(name).any(|(at, _)| {
        let (before, behind) = (&text[..at], &text[at + name.len()..]);
        if before.chars().next_back().is_some_and(part) || behind.chars().next().is_some_and(part) {
            return false;
        }
        kind.is_empty() || crate::lint::analysis::texts::speaks_of(view, before, kind)
    })
}

/// Whether a text explicitly gives this name to a resource of this kind: `the cluster role viewer`.
pub fn is_called(view: &TaskView<'_>, text: &str, name: &str, kind: &str) -> bool {
    let part = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let tool = view.tools.tool("kubectl");
    text.match_indices(name).any(|(at, _)| {
        let before = text[..at].trim_end_matches(['`', '"', '\'', ' ', '/', ':']);
        let word = before.rsplit(|c: char| !part(c)).next().unwrap_or_default().to_lowercase();
        let cron = kind == "job" && crate::lint::analysis::texts::CRON.is_match(before);
        crate::lint::analysis::texts::written_apart(before, kind)
            || !cron && tool.and_then(|tool| tool.kind(&word)).is_some_and(|(known, _)| known == kind)
    })
}

/// Whether one is a cron job and the other a job of the same name: the jobs of a cron job have longer names.
fn is_schedule(made: &Act, act: &Act) -> bool {
    made.thing.kind == "cronjob"
        && act.thing.kind == "job"
        && made.thing.name.as_ref().zip(act.thing.name.as_ref()).is_some_and(|(a, b)| a.is(b))
}

/// Returns the names that a text gives to resources of this kind: `fines` for `a table fines`.
fn called<'t>(text: &'t str, kind: &'t str) -> impl Iterator<Item = String> + 't {
    let part = |c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_'));
    let behind = text.match_indices(kind).filter(move |_| kind.len() > 3).map(|(at, _)| &text[at + kind.len()..]);
    let word = move |rest: &str| {
        let rest = rest.strip_prefix(' ')?;
        let rest = rest.strip_prefix("called ").or_else(|| rest.strip_prefix("named ")).unwrap_or(rest);
        rest.split(part).next().map(|word| word.trim_matches('.').to_owned())
    };
    behind.filter_map(word).filter(|word| word.len() > 3)
}

fn words(text: &str) -> impl Iterator<Item = String> {
    let part = |c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_'));
    // The name of a resource is usually not a natural word: it has a hyphen or a digit, or is in quotes.
    let quoted = text
        .split(['`', '"', '\''])
        .skip(1)
        .step_by(2)
        .filter(|word| !word.contains(char::is_whitespace))
        .map(str::to_owned);
    let odd = text
        .split(part)
        .filter(|word| word.len() > 2 && word.contains(['-', '_']) || word.contains(|c: char| c.is_ascii_digit()))
        .map(str::to_owned);
    quoted.chain(odd).map(|word| word.trim_matches('.').to_owned()).collect::<Vec<_>>().into_iter()
}

/// `kubectl config set-context --namespace`, `oc project`: the default namespace is then unknown.
fn changes_namespace(view: &TaskView<'_>) -> bool {
    view.scripts.iter().any(|script| {
        ["set-context", "oc project", "kubens", "new-project"].iter().any(|word| script.content.text.contains(word))
    })
}
