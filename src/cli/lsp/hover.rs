//! Hover texts: a hole with its type and value, a filter, a step with its arguments and effects.

use std::ops::Range;

use super::{
    names::{self, Occurrence},
    paths::{Named, Paths},
    reading::{Reading, holes},
};
use crate::{
    effects::{self, Model, script},
    hir::{Def, Hole, OperationKind, Step, Target, Task},
    policy::Policy,
    secrets::{is_secret_name, looks_drawn, tokens},
    signature::{Effects, Schema},
    source::{Files, Span},
    template::{FILTERS, FilterInfo},
    ty::duration,
};

/// A range and its description in Markdown.
pub type Said = (Range<usize>, String);

/// The maximum number of lines in a list of acts or arguments.
const LINES: usize = 20;

/// Describes the hole at a byte.
pub fn hole(offset: usize, reading: &Reading) -> Option<Said> {
    let task = reading.checked.as_ref()?;
    let hole = holes(task).into_iter().find(|hole| hole.span.range().contains(&offset))?;
    let filter = hole.filter_spans.iter().zip(&hole.filters).find(|(span, _)| span.range().contains(&offset));
    if let Some((span, filter)) = filter
        && let Some(info) = FILTERS.iter().find(|info| info.name == filter.name.text)
    {
        return Some((span.range(), about_filter(info)));
    }
    Some((hole.span.range(), about_hole(hole, task, output(hole.span, reading))))
}

/// The output that a hole finally refers to: after `rounds[0]`, that of a step inside of the loop.
fn output(span: Span, reading: &Reading) -> Option<(String, String)> {
    let task = reading.task()?;
    let paths = Paths::new(task);
    let mut found = None;
    paths.templates(&mut |template, place| {
        found = found.or_else(|| template.holes().find(|hole| hole.span == span).map(|hole| (hole, place)));
    });
    let around = task.prompt.iter().flat_map(|prompt| prompt.text.holes()).find(|hole| hole.span == span);
    let (hole, place) = found.or(around.map(|hole| (hole, None)))?;
    names::used(hole, place, &paths).into_iter().rev().find_map(|one| match one.named {
        Named::Output { step, name } => Some((step, name)),
        _ => None,
    })
}

/// Describes a variable of the task that a script uses.
pub fn used(one: &Occurrence, reading: &Reading) -> Option<Said> {
    let (Named::Variable(name), Some(task)) = (&one.named, &reading.checked) else { return None };
    let known = !one.given && task.env.iter().any(|(known, _)| known.value == *name);
    known.then(|| (one.span.range(), format!("the variable `{name}` of the task{}", value(name, task))))
}

/// Describes a filter: its syntax, its input and its output.
pub fn about_filter(info: &FilterInfo) -> String {
    format!("`{}`\n\ntakes {}, returns {}", signature(info), info.takes, info.summary)
}

/// A filter with its arguments. Optional ones are in brackets.
pub fn signature(info: &FilterInfo) -> String {
    let args = info.args.iter().map(|arg| if arg.required { arg.name.to_owned() } else { format!("[{}]", arg.name) });
    let args: Vec<String> = args.collect();
    if args.is_empty() { info.name.to_owned() } else { format!("{}({})", info.name, args.join(", ")) }
}

fn about_hole(hole: &Hole<Def>, task: &Task<Def>, output: Option<(String, String)>) -> String {
    let of_step = |id: &str| {
        let mut found = None;
        task.walk(&mut |_, step| {
            if step.id.as_ref().is_some_and(|name| name.value == id) {
                found = Some(step);
            }
        });
        found
    };
    let what = match &hole.reference.target {
        Target::TaskEnv(name) => format!("the variable `{name}` of the task{}", value(name, task)),
        Target::ProcessEnv(name) => format!("the environment variable `{name}` of the process that runs gevals"),
        Target::RandomId => "letters and digits that are unique to this run of the task".to_owned(),
        Target::RandomPort => "a port that is free when the run starts".to_owned(),
        Target::TaskName => format!("the name of the task: `{}`", task.name.value),
        Target::AgentOutput => "the agent's last answer".to_owned(),
        Target::AgentPrompt => "the prompt that the agent receives".to_owned(),
        Target::Output { step, name } => {
            let (step, name) = output.unwrap_or_else(|| (step.clone(), name.clone()));
            about_output(&step, &name, of_step(&step))
        }
        Target::Loop(name) => format!("the value `{name}` of this iteration"),
        Target::Local(name) => format!("`{name}` of this step"),
        Target::Calls => "the answer of an earlier call".to_owned(),
    };
    format!("`{}` is {}\n\n{what}", hole.text, hole.reference.ty)
}

fn about_output(id: &str, name: &str, step: Option<&Step<Def>>) -> String {
    let Some(step) = step else { return format!("the output `{name}` of the step `{id}`") };
    let given = step.outputs.iter().flatten().find(|(output, _)| output.value == *name);
    let given = given.and_then(|(_, arg)| match &arg.kind {
        crate::hir::ArgKind::Text(template) => Some(format!(": `{}`", template.display())),
        _ => None,
    });
    format!("the output `{name}` of the step `{id}` ({}){}", step.op.name, given.unwrap_or_default())
}

/// Describes the value of a variable. A value that may be a secret is masked.
fn value(name: &str, task: &Task<Def>) -> String {
    let Some((_, template)) = task.env.iter().find(|(known, _)| known.value == name) else { return String::new() };
    let (written, known) = (template.display(), effects::of_template(template, &effects::environment(task)).shown());
    let secret = |text: &str| looks_drawn(text) || tokens(text).next().is_some();
    match () {
        () if is_secret_name(name) || secret(&written) || secret(&known) => ": `***`".to_owned(),
        () if written == known || known.contains('…') => format!(": `{written}`"),
        () => format!(": `{written}`, which is `{known}`"),
    }
}

/// Describes the step whose operation is at a byte.
pub fn step(offset: usize, reading: &Reading, files: &dyn Files) -> Option<Said> {
    let task = reading.checked.as_ref()?;
    let step = reading.steps().into_iter().find(|step| step.key.range().contains(&offset))?;
    let mut said = match &step.op.kind {
        OperationKind::Builtin(name) => super::super::explain::step(name).unwrap_or_default(),
        OperationKind::Tool { server, tool } => {
            let known = reading.lock.tools(server).and_then(|tools| tools.get(tool));
            let about = known
                .map_or("It is not in the lock file; run `gevals lock` to add it.", |tool| tool.description.as_str());
            let args = known.map(|tool| arguments(&tool.input_schema)).unwrap_or_default();
            format!("the tool `{tool}` of the server `{server}`\n\n{about}\n\n{args}")
        }
        OperationKind::Extension { package, operation } => {
            let args = step.op.signature.schema.as_ref().map(arguments).unwrap_or_default();
            format!("`{operation}` of the extension `{package}`\n\n{}\n\n{args}", step.op.signature.doc)
        }
    };
    let limit = match (&step.timeout, step.op.signature.timeout) {
        (Some(limit), _) => Some((duration::format(limit.value), "")),
        (None, Some(limit)) => Some((duration::format(limit), " (default)")),
        (None, None) => None,
    };
    if let Some((limit, whose)) = limit {
        said = format!("{}\n\nTime limit: {limit}{whose}.", said.trim_end());
    }
    said = format!("{}\n\n{}", said.trim_end(), acts(step, task, reading, files));
    Some((step.key.range(), said.trim_end().to_owned()))
}

/// The effects of a step according to the model of effects, or else as its operation declares them.
fn acts(step: &Step<Def>, task: &Task<Def>, reading: &Reading, files: &dyn Files) -> String {
    let Some(unit) = &reading.unit else { return String::new() };
    let sources = &reading.sources;
    let all = script::ScriptFiles::default();
    let scripts = script::views(unit, task, &all, sources, files);
    let sourced = effects::sourced(&scripts, &all, sources, files);
    let rules: Vec<_> = crate::lint::RULES.iter().map(|lint| lint.rule).collect();
    let policy = Policy::find(&unit.path, &rules, sources, files, &mut crate::diagnostic::Diagnostics::default());
    let model = Model::of(effects::Given { task, scripts: &scripts, sourced: &sourced, tools: &policy.tools, files });
    let own = model.acts.iter().filter(|act| step.span.contains(act.step));
    let mut lines: Vec<String> = own
        .map(|act| {
            let maybe = if act.maybe { " (possibly)" } else { "" };
            format!("- {} {}{maybe}\n", act.verb.name(), act.thing.shown())
        })
        .collect();
    lines.dedup();
    lines.truncate(LINES);
    match (lines.is_empty(), step.op.signature.effects) {
        (false, _) => format!("It\n\n{}", lines.concat()),
        (true, Effects::None) => "It changes nothing.".to_owned(),
        (true, Effects::Creates) => "It creates something.".to_owned(),
        (true, Effects::Deletes) => "It deletes something.".to_owned(),
        (true, Effects::Any) => "What it changes is not known.".to_owned(),
    }
}

/// The arguments of an operation, one per line.
pub fn arguments(schema: &Schema) -> String {
    let json = schema.json();
    let required = json["required"].as_array();
    let fields = json["properties"].as_object().into_iter().flatten().take(LINES);
    let lines = fields.map(|(name, field)| {
        let needed = required.is_some_and(|names| names.iter().any(|known| known == name));
        let ty = field["type"].as_str().unwrap_or("any");
        let about = field["description"].as_str().unwrap_or_default().lines().next().unwrap_or_default();
        format!("- `{name}` ({ty}{}) {about}\n", if needed { ", required" } else { "" })
    });
    lines.collect()
}
