//! What outlives a task although it has no namespace to be deleted with: Compose projects, changes to nodes, databases and their roles.

use crate::{
    ascii::{Ascii, ascii},
    bash::tools,
    diagnostic::{Diagnostic, Diagnostics, nearest},
    effects::{Verb, asked, environment, of_template, shell::Run, value::Value},
    hir::PhaseKind,
    lint::{
        TaskView,
        analysis::{facts, orders, texts::has_word},
        cleanup::{foreign_deletions::DELETES_FOREIGN_RESOURCE, released::RESOURCE_NOT_RELEASED},
    },
    source::Span,
};

pub fn check(view: &TaskView<'_>, out: &mut Diagnostics) {
    if view.scripts.is_empty() || !view.effects.sees(PhaseKind::Cleanup) || !view.effects.sees(PhaseKind::Setup) {
        return;
    }
    projects(view, out);
    nodes(view, out);
    labels(view, out);
    open_databases(view, out);
    roles(view, out);
}

fn runs<'v>(view: &'v TaskView<'_>, phase: PhaseKind) -> impl Iterator<Item = &'v Run<'v>> {
    let model: &'v crate::effects::Model<'v> = view.effects;
    model.scripts.iter().filter(move |script| script.view.phase == phase).flat_map(|script| &script.trace.runs)
}

fn mentions(view: &TaskView<'_>, phase: PhaseKind, words: &[&str]) -> bool {
    let mut scripts = view.scripts.iter().filter(|script| script.phase == phase);
    scripts.any(|script| words.iter().any(|word| script.content.text.contains(word)))
}

fn place(run: &Run<'_>) -> Span {
    let text = run.content.text.get(run.statement.range.clone()).unwrap_or_default();
    let start = run.statement.range.start;
    run.content.span(start..start + text.find('\n').unwrap_or(text.len()))
}

/// A command of Docker Compose.
struct Compose<'r> {
    run: &'r Run<'r>,
    verb: &'r str,
    /// The project, if it is known.
    project: Option<Value>,
}

/// `docker compose up` in setup without `docker compose down`, or with one of another project.
fn projects(view: &TaskView<'_>, out: &mut Diagnostics) {
    if !mentions(view, PhaseKind::Setup, &["compose"]) {
        return;
    }
    let of = |phase: PhaseKind| runs(view, phase).filter_map(|run| composed(view, run)).collect::<Vec<_>>();
    let (ups, ends) = (of(PhaseKind::Setup), of(PhaseKind::Cleanup));
    let ups: Vec<&Compose<'_>> = ups.iter().filter(|up| matches!(up.verb, "up" | "create" | "start")).collect();
    let Some(up) = ups.first() else { return };
    const OTHERS: [&str; 12] = [
        "compose",
        "docker",
        "podman",
        "nerdctl",
        "make",
        "xargs",
        "eval",
        "kind",
        "vagrant",
        "ssh",
        "systemctl",
        "kill",
    ];
    let stops =
        [PhaseKind::Setup, PhaseKind::Verify].into_iter().any(|phase| mentions(view, phase, &["trap ", " down"]));
    if ends.is_empty() && !stops && !mentions(view, PhaseKind::Cleanup, &OTHERS) {
        let project = up.project.as_ref().and_then(Value::literal);
        let option = project.map_or_else(String::new, |project| format!(" -p {project}"));
        out.push(
            Diagnostic::new(&RESOURCE_NOT_RELEASED, place(up.run), "this Compose project is never removed")
                .help(format!("add to cleanup: `docker compose{option} down --volumes`")),
        );
    }
    let known = |all: &[&Compose<'_>]| all.iter().all(|one| one.project.as_ref().is_some_and(Value::is_known));
    let downs: Vec<&Compose<'_>> = ends.iter().filter(|end| matches!(end.verb, "down" | "rm" | "kill")).collect();
    if downs.is_empty() || !known(&downs) || !known(&ups) {
        return;
    }
    for up in ups {
        let same =
            |down: &&Compose<'_>| up.project.as_ref().zip(down.project.as_ref()).is_some_and(|(a, b)| a.may_be(b));
        if let (false, Some(started)) = (downs.iter().any(same), &up.project) {
            let other = downs[0].project.as_ref().map(Value::shown).unwrap_or_default();
            out.push(
                Diagnostic::new(
                    &RESOURCE_NOT_RELEASED,
                    place(downs[0].run),
                    format!("this removes the Compose project `{other}`, but setup starts `{}`", started.shown()),
                )
                .label(place(up.run), "started here")
                .help("use the same project in setup and cleanup"),
            );
            return;
        }
    }
}

fn composed<'r>(view: &TaskView<'_>, run: &'r Run<'r>) -> Option<Compose<'r>> {
    let name = run.words.first()?.literal()?;
    let words = match tools::canonical(name) {
        "docker" if run.words.get(1)?.literal() == Some("compose") => &run.words[2..],
        "docker-compose" | "podman-compose" => &run.words[1..],
        _ => return None,
    };
    let (mut project, mut files, mut moved) = (None, Vec::new(), false);
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        let shown = word.shown();
        let after = |option: &str| word.literal().and_then(|word| word.strip_prefix(option)).map(Value::text);
        match shown.as_str() {
            "-p" | "--project-name" => project = rest.next().cloned(),
            "-f" | "--file" => files.extend(rest.next().cloned()),
            "--project-directory" | "--env-file" => {
                rest.next();
                moved = true;
            }
            "--profile" | "--progress" | "--ansi" | "--parallel" => {
                rest.next();
            }
            _ if shown.starts_with("--project-name=") => {
                project = after("--project-name=").or_else(|| Some(Value::unknown()))
            }
            _ if shown.starts_with("--file=") => files.extend(after("--file=")),
            _ if shown.starts_with('-') => moved |= shown.contains('='),
            _ => {
                let verb = word.literal()?;
                let project = project.or_else(|| if moved { None } else { usual(view, &files) });
                return Some(Compose { run, verb, project });
            }
        }
    }
    None
}

/// The project of a command without `-p`: `COMPOSE_PROJECT_NAME`, the name in the file, or that of its directory.
fn usual(view: &TaskView<'_>, files: &[Value]) -> Option<Value> {
    const VARIABLE: &str = "COMPOSE_PROJECT_NAME";
    if let Some((_, template)) = view.task.env.iter().find(|(name, _)| name.value == VARIABLE) {
        return Some(of_template(template, &environment(view.task)));
    }
    if view.scripts.iter().any(|script| script.content.text.contains(VARIABLE)) {
        return None;
    }
    let [file] = files else { return None };
    let path = file.literal().filter(|path| path.starts_with('/'))?;
    let written = runs(view, PhaseKind::Setup).find(|run| run.output.as_ref().is_some_and(|output| output.is(file)))?;
    let text = written.input.as_ref()?;
    let named = text.split('\n').into_iter().find_map(|line| {
        let rest = line.literal()?.strip_prefix("name:")?.trim();
        Some(rest.trim_matches(['"', '\'']).to_owned())
    });
    let folder = path.rsplit('/').nth(1)?.to_lowercase();
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_');
    let folder: String = folder.chars().filter(|c| allowed(*c)).collect();
    let name = named.unwrap_or(folder);
    (!name.is_empty() && !name.contains('$')).then(|| Value::text(name))
}

/// Branches and tags of a remote repository that cleanup deletes and nothing else in the task names.
pub fn refs(view: &TaskView<'_>, out: &mut Diagnostics) {
    if view.task.prompt.is_none() || !mentions(view, PhaseKind::Cleanup, &["refs/", "push"]) {
        return;
    }
    let acts = view.effects.in_phase(PhaseKind::Cleanup).filter(|act| {
        act.verb == Verb::Deletes && act.thing.system == "github" && matches!(act.thing.kind.as_str(), "branch" | "tag")
    });
    let mut gone: Vec<(String, Span)> =
        acts.filter_map(|act| Some((act.thing.name.as_ref()?.literal()?.to_owned(), act.span))).collect();
    for run in runs(view, PhaseKind::Cleanup) {
        gone.extend(pushed_away(run).into_iter().map(|name| (name, place(run))));
    }
    if gone.is_empty() {
        return;
    }
    let texts = {
        let scripts = view.scripts.iter().filter(|script| script.phase != PhaseKind::Cleanup);
        let mut all: Vec<String> = scripts.map(|script| script.content.text.clone()).collect();
        all.extend([view.effects.prompt.shown(), facts::elsewhere(view).verify.clone()]);
        all.extend(view.task.env.iter().map(|(_, value)| crate::lint::analysis::texts::written(value)));
        all.join("\n")
    };
    for (name, span) in &gone {
        if matches!(name.as_str(), "main" | "master") {
            let message = format!("this deletes the default branch `{name}`");
            out.push(
                Diagnostic::new(&DELETES_FOREIGN_RESOURCE, *span, message)
                    .help("delete only what setup creates or the prompt asks for"),
            );
        }
    }
    for (name, span) in gone.into_iter().filter(|(name, _)| name.len() > 2 && !names_ref(&texts, name)) {
        let part = |c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/'));
        let words = || texts.split(part).map(|word| word.trim_end_matches('.'));
        let inner = format!("/{name}");
        let near = words().find(|word| word.ends_with(&inner)).or_else(|| nearest(&name, words()));
        let mut finding = Diagnostic::new(
            &DELETES_FOREIGN_RESOURCE,
            span,
            format!("nothing in the task creates or mentions `{name}`"),
        )
        .help("delete only what setup creates or the prompt asks for");
        if let Some(near) = near {
            finding = finding.here(format!("did you mean `{near}`?"));
        }
        out.push(finding);
    }
}

/// The branches and tags that `git push REMOTE --delete NAME` and `git push REMOTE :NAME` delete.
fn pushed_away(run: &Run<'_>) -> Vec<String> {
    let words: Vec<&str> = run.words.iter().map(|word| word.literal().unwrap_or_default()).collect();
    if words.first() != Some(&"git") || !words.contains(&"push") {
        return Vec::new();
    }
    let deletes = words.iter().any(|word| matches!(*word, "--delete" | "-d"));
    let given: Vec<&str> = tools::operands("git", &words[1..]).copied().collect();
    let Some(at) = given.iter().position(|word| *word == "push") else { return Vec::new() };
    let names = given.iter().skip(at + 2).filter_map(|word| if deletes { Some(*word) } else { word.strip_prefix(':') });
    let short = |name: &str| {
        let name = name.strip_prefix("refs/").unwrap_or(name);
        let name = name.strip_prefix("heads/").or_else(|| name.strip_prefix("tags/")).unwrap_or(name);
        name.to_owned()
    };
    names.filter(|name| !name.is_empty()).map(short).collect()
}

/// Whether a text contains the name of a branch or tag as a whole, rather than as the end of another name.
fn names_ref(text: &str, name: &str) -> bool {
    let part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    text.match_indices(name).any(|(at, _)| {
        let (before, behind) = (&text[..at], &text[at + name.len()..]);
        let starts = !before.ends_with(|c: char| part(c) || matches!(c, '.' | '/'))
            || ["heads/", "tags/", "origin/", "upstream/"].iter().any(|begin| before.ends_with(begin));
        starts && !behind.starts_with(|c: char| part(c) || c == '/')
    })
}

/// A change to a node, which outlives the namespace of a task: the operation, what undoes it, and the field that shows it.
const CHANGES: [(&str, &[&str], &str, &str); 3] = [
    ("cordon", &["uncordon"], "unschedulable", "cordoned"),
    ("drain", &["uncordon"], "unschedulable", "cordoned"),
    ("taint", &["taint"], "taints", "tainted"),
];

/// Programs that create a cluster of the task's own.
const OWN: [&str; 6] = ["kind ", "k3d", "minikube", "kwokctl", "vcluster", "talosctl"];

/// `kubectl cordon NODE` in setup, or as the task of the agent, without `kubectl uncordon` in cleanup.
fn nodes(view: &TaskView<'_>, out: &mut Diagnostics) {
    let said = view.effects.prompt.shown();
    let lower = said.to_lowercase();
    // Commands that may restore the node.
    const RESTORES: [&str; 9] =
        ["patch", "delete node", "replace", "apply", "edit", "oc adm", "make ", "reboot", "delete nodes"];
    if view.task.cleanup.steps.is_empty()
        || !mentions_nodes(view, &lower)
        || mentions(view, PhaseKind::Setup, &OWN)
        || mentions(view, PhaseKind::Cleanup, &OWN)
        || mentions(view, PhaseKind::Cleanup, &RESTORES)
        || !view
            .task
            .cleanup
            .steps
            .iter()
            .all(|step| step.arg("inline").or(step.arg("file")).or(step.arg("run")).is_some())
    {
        return;
    }
    let undone = |words: &[&str]| mentions(view, PhaseKind::Cleanup, words);
    for (verb, undo, field, state) in CHANGES {
        if undone(undo) || lower.contains("uncordon") || lower.contains("schedulable again") {
            continue;
        }
        let made = runs(view, PhaseKind::Setup).find_map(|run| {
            let name = tools::canonical(run.words.first()?.literal()?);
            let words: Vec<&str> = run.words[1..].iter().map(|word| word.literal().unwrap_or("?")).collect();
            let given: Vec<&str> = tools::operands("kubectl", &words).copied().collect();
            let named = match given.as_slice() {
                ["taint", "node" | "nodes", node, what, ..] if verb == "taint" && !what.ends_with('-') => node,
                [operation @ ("cordon" | "drain"), node, ..] if *operation == verb => node,
                _ => return None,
            };
            (name == "kubectl").then(|| (place(run), (*named).to_owned()))
        });
        let asked = || {
            let verbs = if verb == "taint" { &TAINTS } else { &CORDONS };
            let reads = mentions(view, PhaseKind::Verify, &[field]);
            let node = view
                .effects
                .in_phase(PhaseKind::Verify)
                .find(|act| act.thing.system == "kubernetes" && act.thing.kind == "node" && act.thing.name.is_some())?;
            let name = node.thing.name.as_ref()?.shown();
            (verb != "drain" && reads && verbs.is_match(&said) && !orders::KEEPS.is_match(&said))
                .then_some((node.span, name))
        };
        // Verify then checks that the agent has undone it.
        let undoes = REMOVES.is_match(&said);
        let (at, name, by_agent) = match (made.filter(|_| !undoes), asked().filter(|_| !undoes)) {
            (Some((at, name)), _) => (at, name, false),
            (None, Some((at, name))) => (at, name, true),
            (None, None) => continue,
        };
        let name = if name == "?" { "the node".to_owned() } else { format!("the node `{name}`") };
        let help = match state {
            "cordoned" => "add to cleanup: `kubectl uncordon NODE`",
            _ => "add to cleanup: `kubectl taint nodes NODE KEY-`",
        };
        let (span, message) = match by_agent {
            true => (view.task.cleanup.steps[0].key, format!("{name}, which the agent has {state}, stays {state}")),
            false => (at, format!("{name} stays {state} after the task")),
        };
        let mut finding = Diagnostic::new(&RESOURCE_NOT_RELEASED, span, message).help(help);
        if by_agent {
            finding = finding.label(at, "verify checks it here");
        }
        out.push(finding);
        return;
    }
}

fn mentions_nodes(view: &TaskView<'_>, said: &str) -> bool {
    const WORDS: [&str; 3] = ["cordon", "drain", "taint"];
    WORDS.iter().any(|word| said.contains(word)) || mentions(view, PhaseKind::Setup, &WORDS)
}

/// `kubectl label node NODE eval=1` in setup, and nothing that removes the label.
fn labels(view: &TaskView<'_>, out: &mut Diagnostics) {
    let labelled = |run: &&Run<'_>| {
        run.statement.tool() == "kubectl"
            && run.words.iter().any(|word| matches!(word.literal(), Some("label" | "annotate")))
    };
    if !runs(view, PhaseKind::Setup).any(|run| labelled(&run)) {
        return;
    }
    let scripts = view.scripts.iter().filter(|script| script.phase == PhaseKind::Cleanup);
    let cleanup = scripts.map(|script| script.content.text.as_str()).collect::<Vec<_>>().join("\n");
    if cleanup.is_empty() || mentions(view, PhaseKind::Setup, &OWN) || mentions(view, PhaseKind::Cleanup, &OWN) {
        return;
    }
    for run in runs(view, PhaseKind::Setup).filter(labelled) {
        let words = run.words.iter().map(|word| word.literal().unwrap_or_default()).collect::<Vec<_>>();
        let at = words.iter().position(|word| matches!(*word, "label" | "annotate"));
        let is_node =
            at.is_some_and(|at| words.get(at + 1).is_some_and(|kind| matches!(*kind, "node" | "nodes" | "no")));
        let Some(label) = words.iter().find(|word| is_node && !word.starts_with('-') && word.contains('=')) else {
            continue;
        };
        let key = label.split('=').next().unwrap_or_default();
        if key.is_empty() || cleanup.contains(key) {
            continue;
        }
        let what = if words.contains(&"label") { "label" } else { "annotation" };
        let message = format!("the {what} `{key}` of the node stays after the task");
        let finding = Diagnostic::new(&RESOURCE_NOT_RELEASED, place(run), message);
        let verb = if what == "label" { "label" } else { "annotate" };
        out.push(finding.help(format!("add to cleanup: `kubectl {verb} nodes NODE {key}-`")));
        return;
    }
}

/// `psql -d shop -c 'DROP DATABASE shop'` in cleanup, which PostgreSQL refuses.
fn open_databases(view: &TaskView<'_>, out: &mut Diagnostics) {
    for run in runs(view, PhaseKind::Cleanup).filter(|run| run.statement.name() == "psql") {
        let words: Vec<String> = run.words.iter().map(Value::shown).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let Some(database) = asked::value_of(&words, "-d", "--dbname") else { continue };
        let drops = words.iter().any(|word| {
            let mut parts = word.split_whitespace();
            let names = parts.by_ref().skip_while(|part| !part.eq_ignore_ascii_case("database")).skip(1);
            let mut names =
                names.skip_while(|part| part.eq_ignore_ascii_case("if") || part.eq_ignore_ascii_case("exists"));
            word.to_ascii_lowercase().trim_start().starts_with("drop database")
                && names.next().is_some_and(|name| name.trim_matches(['"', ';']) == database)
        });
        if drops {
            let message = format!("PostgreSQL refuses to drop `{database}`, because this command is connected to it");
            let finding = Diagnostic::new(&RESOURCE_NOT_RELEASED, place(run), message);
            out.push(finding.help("connect to another database: `-d postgres`, or use `dropdb`"));
        }
    }
}

/// The role that the prompt asks for: roles belong to no database, so they outlive the one that cleanup drops.
fn roles(view: &TaskView<'_>, out: &mut Diagnostics) {
    let model = view.effects;
    let created = |system: &str| model.acts.iter().any(|act| act.verb == Verb::Creates && act.thing.system == system);
    if view.task.cleanup.steps.is_empty() || created("docker") || created("kubernetes") || created("kind") {
        return;
    }
    let statements = || model.sql.iter().filter(|sql| sql.phase == PhaseKind::Verify);
    if statements().next().is_none() || mentions(view, PhaseKind::Setup, &["compose", "initdb", "pg_ctl"]) {
        return;
    }
    let said = model.prompt.shown();
    let rest = &facts::elsewhere(view).rest;
    let mut told: Vec<String> = Vec::new();
    for sql in statements() {
        let text = sql.text.shown();
        for name in ROLES.captures_iter(&text).filter_map(|found| found.get(1).or(found.get(2))) {
            let name = name.as_str();
            if name.len() > 2
                && !told.iter().any(|known| known == name)
                && !has_word(rest, name)
                && asks_for_role(&said, name)
            {
                out.push(
                    Diagnostic::new(
                        &RESOURCE_NOT_RELEASED,
                        view.task.cleanup.steps[0].key,
                        format!("the role `{name}`, which the agent creates, is never dropped"),
                    )
                    .label(sql.span, "verify checks it here")
                    .help(format!(
                        "a role is not dropped with a database: add to cleanup: `DROP ROLE IF EXISTS {name}`"
                    )),
                );
                told.push(name.to_owned());
            }
        }
    }
}

/// Whether a prompt asks to create the role of this name.
fn asks_for_role(said: &str, name: &str) -> bool {
    let part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    said.match_indices(name).any(|(at, _)| !said[at + name.len()..].starts_with(part) && MAKES.is_match(&said[..at]))
}

static ROLES: Ascii = ascii(
    r"(?i)\b(?:rolname|usename)\s*=\s*'([a-z_]\w*)'|\bhas_(?:table|schema|database|any_column|sequence|function)_privilege\(\s*'([a-z_]\w*)'\s*,[^)]*,",
);
static MAKES: Ascii = ascii(
    r#"(?i)(?:^|[^t])\s*\b(?:create|add|make|set up|define)\s+(?:a|an|the)?\s*(?:[\w-]+\s+){0,4}(?:role|user|login|account)(?:\s+(?:called|named))?\s+[`"']?$"#,
);
static CORDONS: Ascii =
    ascii(r"(?i)(?:^|[:,;.]|\band|\bthen|\bplease)\s*(?:please\s+)?(?:cordon|drain)\b|\bmark\b[^.]*\bunschedulable\b");
static TAINTS: Ascii = ascii(r"(?i)(?:^|[:,;.]|\band|\bthen|\bplease)\s*(?:please\s+)?taint\b|\badd\b[^.]*\btaint\b");
static REMOVES: Ascii = ascii(r"(?i)\b(?:uncordon|remove|untaint|schedulable|fix|repair|back)\b");
