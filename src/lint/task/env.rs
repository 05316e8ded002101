//! Variables that are declared but not used, used but not declared, or that hide those of the system.

use indexmap::{IndexMap, IndexSet};

use crate::{
    bash::program::Statement,
    diagnostic::{Diagnostic, Diagnostics},
    hir::{Def, Dialect, Name, OperationKind, Part, Step, Target, Task, Template},
    lint::{
        EvalView, Selecting, TaskView, UnderView,
        analysis::{facts, texts},
        resources::odd_word::is_slip,
        script::{Form, ScriptView},
        task::secret,
    },
    project::TaskUnit,
    rule,
    secrets::is_secret_name,
    source::Span,
    template::{Path, SegmentKind},
};

rule! {
    pub static UNUSED_ENV = "unused-env", Warning;
    pub static UNDECLARED_PROCESS_VARIABLE = "undeclared-process-variable", Warning;
    pub static HIDES_SYSTEM_VARIABLE = "hides-system-variable", Warning;
}

/// Variables that every machine of a team has. Tasks may read them without a declaration.
const COMMON: [&str; 16] = [
    "HOME",
    "PATH",
    "TMPDIR",
    "TEMP",
    "TMP",
    "USER",
    "LOGNAME",
    "SHELL",
    "PWD",
    "LANG",
    "TERM",
    "TZ",
    "HOSTNAME",
    "CI",
    "KUBECONFIG",
    "XDG_RUNTIME_DIR",
];

/// Prefixes of variables that programs read by themselves.
const READ_BY_PROGRAMS: [&str; 30] = [
    "AWS_",
    "AZURE_",
    "GOOGLE_",
    "GCLOUD_",
    "CLOUDSDK_",
    "GITHUB_",
    "GH_",
    "GITLAB_",
    "GIT_",
    "DOCKER_",
    "KUBE",
    "HELM_",
    "ARGOCD_",
    "VAULT_",
    "TF_",
    "PG",
    "MYSQL_",
    "REDIS",
    "NODE_",
    "NPM_",
    "PYTHON",
    "PIP_",
    "SSH_",
    "SSL_",
    "LC_",
    "XDG_",
    "OPENAI_",
    "ANTHROPIC_",
    "CARGO_",
    "GO",
];

pub fn read_by_programs(name: &str) -> bool {
    COMMON.contains(&name)
        // Variables of PostgreSQL have no underscore after the prefix: `PGHOST`.
        || READ_BY_PROGRAMS.iter().any(|p| name.starts_with(p)) && !name.starts_with("PG_")
        || name.to_ascii_uppercase().ends_with("_PROXY")
        || matches!(
            name,
            "NO_COLOR"
                | "DEBUG"
                | "EDITOR"
                | "PAGER"
                | "CLICOLOR"
                | "COLUMNS"
                | "LINES"
                | "BASH_ENV"
                | "ENV"
                | "IFS"
                | "LD_LIBRARY_PATH"
                | "JAVA_HOME"
        )
}

/// Entries of `spec.env` that neither a hole nor a script uses.
pub fn unused(view: &UnderView<'_, '_>, out: &mut Diagnostics) {
    let task = view.task;
    if task.env.is_empty() {
        return;
    }
    let mut used: IndexSet<&str> = IndexSet::new();
    texts::holes(task, &mut |_, hole| {
        if let Target::TaskEnv(name) = &hole.reference.target {
            used.insert(name);
        }
    });
    let mut opaque = false;
    task.walk(&mut |_, step| {
        let file = view.script_of(step).filter(|s| matches!(s.form, Form::File { .. }));
        opaque |= is_opaque(step, file);
    });
    let oracle = view
        .eval
        .and_then(|e| e.unit.oracle.as_ref())
        .and_then(|o| o.tasks.iter().find(|t| t.task.value == task.name.value));
    // The content of an oracle that cannot be read is unknown.
    let scripted = |e: Selecting<'_>| e.eval.agent.as_ref().is_some_and(|a| a.kind.value == "builtin.script");
    opaque |= view.eval.is_some_and(|e| e.unit.oracle.is_none() && scripted(e));
    let mut said = Vec::new();
    if let Some(entry) = oracle {
        let mut say = |t: &Template<Path>| said.extend(t.holes().map(|h| h.text.clone()));
        entry.output.iter().for_each(&mut say);
        for call in &entry.calls {
            say(&call.name);
            call.args.iter().for_each(|(_, a)| a.templates(&mut |t| say(t)));
        }
    }
    if opaque {
        return;
    }
    for (name, _) in &task.env {
        let text = name.value.as_str();
        let named = used.contains(text)
            || facts::shell_words(view).contains(text)
            || said.iter().any(|s| texts::has_word(s, text));
        if !named && !read_by_programs(text) {
            out.push(
                Diagnostic::new(&UNUSED_ENV, name.span, format!("unused variable `{text}`"))
                    .help(format!("remove it, or use it: `{{env.{text}}}` in a value, `${text}` in a script")),
            );
        }
    }
}

/// Whether a step runs something that cannot be read, which may use any variable.
fn is_opaque(step: &Step<Def>, file: Option<&ScriptView<'_>>) -> bool {
    const RUNS_FILES: [&str; 9] = ["source", ".", "eval", "sh", "bash", "python", "python3", "node", "make"];
    match step.op.kind {
        OperationKind::Extension { .. } | OperationKind::Builtin("extension") => true,
        _ if step.op.name != "script" || step.arg("file").is_none() => false,
        _ => file.is_none_or(|file| {
            let program = &file.content.program;
            let runs = |c: &Statement| c.name().contains(['/', '$']) || RUNS_FILES.contains(&c.name());
            !program.sound || program.body.is_empty() || program.commands().into_iter().any(runs)
        }),
    }
}

/// `{env.NAME}` without an entry in `spec.env` is read from the environment in which gevals runs.
pub fn undeclared(view: &TaskView<'_>, out: &mut Diagnostics) {
    if view.task.dialect != Dialect::Portable {
        return;
    }
    let prompt = view.task.prompt.as_ref();
    let given = credentials(view.task);
    let mut read: Vec<(&str, Span)> = Vec::new();
    texts::holes(view.task, &mut |_, hole| {
        let Target::ProcessEnv(name) = &hole.reference.target else { return };
        read.push((name, hole.span));
        // A secret can only come from the environment and has no default. In a prompt, it is reported: by
        // `secret-in-clear` if the prompt must not contain it.
        let is_secret = is_secret_name(name) || given.contains(&hole.span);
        let is_told = || prompt.is_some_and(|prompt| prompt.text.holes().any(|told| told.span == hole.span));
        if hole.has_default()
            || COMMON.contains(&name.as_str())
            || is_secret && (!is_told() || secret::leaked(view, hole).is_some())
        {
            return;
        }
        out.push(not_declared(name, &view.task.env, hole.span));
    });
    misspelt(&read, out);
}

/// The maximum number of variables whose names are compared with each other.
const COMPARED: usize = 50;

/// `{env.GRAFANA_TOKN}`, where everything else reads `GRAFANA_TOKEN`.
fn misspelt(read: &[(&str, Span)], out: &mut Diagnostics) {
    let mut names: IndexMap<&str, Vec<Span>> = IndexMap::new();
    read.iter().for_each(|(name, span)| names.entry(name).or_default().push(*span));
    for (nth, (name, places)) in names.iter().enumerate().take(COMPARED) {
        let [place] = places.as_slice() else { continue };
        let other = names.keys().take(nth).find(|other| is_slip(name, other));
        if let Some(other) = other.filter(|_| !out.iter().any(|known| known.span == *place)) {
            out.push(
                Diagnostic::new(&UNDECLARED_PROCESS_VARIABLE, *place, format!("only this hole reads `{name}`"))
                    .here(format!("did you mean `{other}`?"))
                    .help("use the same name everywhere, or declare both under `spec.env`"),
            );
        }
    }
}

/// Returns the holes after the name of an authentication scheme: `Bearer {env.GRAFANA}`.
fn credentials(task: &Task<Def>) -> Vec<Span> {
    let mut found = Vec::new();
    let mut look = |template: &Template<Def>| {
        for pair in template.parts.windows(2) {
            if let [Part::Text(before), Part::Hole(hole)] = pair
                && ["Basic ", "Bearer ", "Token ", "token "].iter().any(|scheme| before.ends_with(scheme))
            {
                found.push(hole.span);
            }
        }
    };
    task.env.iter().for_each(|(_, template)| look(template));
    task.walk(&mut |_, step| step.templates(&mut look));
    found
}

/// The same for an oracle, with the variables of the task that it solves.
pub fn undeclared_by_oracle(view: &EvalView<'_>, out: &mut Diagnostics) {
    let portable = |unit: &&TaskUnit| unit.dialect == Dialect::Portable;
    for entry in view.unit.oracle.iter().flat_map(|oracle| &oracle.tasks) {
        let mut tasks = view.tasks.iter().copied().filter(portable).filter_map(|unit| unit.task.as_ref());
        let Some(task) = tasks.find(|task| task.name.value == entry.task.value) else { continue };
        let mut look = |template: &Template<Path>| {
            for hole in template.holes().filter(|hole| hole.reference.root.text == "env" && !hole.has_default()) {
                let Some(SegmentKind::Name(name)) = hole.reference.segments.first().map(|s| &s.kind) else { continue };
                if !COMMON.contains(&name.as_str()) && !task.env.iter().any(|(known, _)| known.value == *name) {
                    out.push(not_declared(name, &task.env, hole.span).label(entry.task.span, "the task"));
                }
            }
        };
        entry.output.iter().for_each(&mut look);
        for call in &entry.calls {
            look(&call.name);
            call.args.iter().for_each(|(_, arg)| arg.templates(&mut |template| look(template)));
        }
    }
}

fn not_declared<H>(name: &str, env: &[(Name, Template<H>)], hole: Span) -> Diagnostic {
    let message = format!("`{name}` is not declared in `spec.env`: its value comes from the environment of gevals");
    let mut diagnostic = Diagnostic::new(&UNDECLARED_PROCESS_VARIABLE, hole, message);
    if let Some(near) = crate::diagnostic::nearest(name, env.iter().map(|(known, _)| known.value.as_str())) {
        diagnostic = diagnostic.here(format!("did you mean `{near}`?"));
    }
    diagnostic.help(format!("declare it under `spec.env`, or add a default: `{{env.{name} | default('…')}}`"))
}

/// `spec.env` is part of the environment of every command.
pub fn hides(view: &TaskView<'_>, out: &mut Diagnostics) {
    for (name, _) in &view.task.env {
        if matches!(name.value.as_str(), "PATH" | "HOME") {
            out.push(
                Diagnostic::new(
                    &HIDES_SYSTEM_VARIABLE,
                    name.span,
                    format!("this overrides the system's `{}` for every command of the task", name.value),
                )
                .help("rename the variable, or set it in the `env` of the step that needs it"),
            );
        }
    }
}
