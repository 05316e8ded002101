//! Values and text with holes.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::secret::is_secret_header;
use crate::{
    hir::{Arg, ArgKind, Def, Hole, Name, Part, Target, Template},
    secrets::{MASK, is_secret_name},
    signature::{Field, Shape},
    template::{Filter, SegmentKind, escape},
    ty::Type,
};

/// Text with holes. `text` contains the holes in their full form; `holes` describes each of them in order.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TemplateDocument {
    pub text: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub holes: Vec<HoleDocument>,
}

/// A hole in a template, and the source of its value.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HoleDocument {
    pub from: HoleSource,
    /// `string`, `list<number>`, …
    #[serde(rename = "type")]
    pub ty: String,
}

/// Where a value comes from.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum HoleSource {
    /// `spec.env`.
    TaskEnv,
    /// The environment of gevals.
    ProcessEnv,
    Random,
    Task,
    Agent,
    /// An output of a step.
    Step,
    /// The variable of a `foreach`.
    Loop,
    /// The step itself.
    Local,
    /// Earlier calls of the scripted agent.
    Calls,
}

/// A value: exactly one of the four keys.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Argument {
    /// JSON without holes.
    Literal(Value),
    Template(TemplateDocument),
    List(Vec<Argument>),
    Record(IndexMap<String, Argument>),
}

type Fields = IndexMap<String, Field>;

/// Returns a record with the defaults of its shape. `step`: these are the arguments of a step, whose variables and
/// headers may be secret.
pub(super) fn record(entries: &[(Name, Arg<Def>)], fields: Option<&Fields>, step: bool) -> IndexMap<String, Argument> {
    let mut record = IndexMap::new();
    for (name, arg) in entries {
        let value = match (name.value.as_str(), &arg.kind) {
            ("env", ArgKind::Record(inner)) if step => guarded(inner, is_secret_name),
            ("headers", ArgKind::Record(inner)) if step => guarded(inner, is_secret_header),
            _ => argument(arg, fields.and_then(|f| f.get(&name.value)).map(|f| &f.shape)),
        };
        record.insert(name.value.clone(), value);
    }
    for (name, field) in fields.into_iter().flatten() {
        if let Some(default) = field.default.as_ref().filter(|d| !d.is_null())
            && !record.contains_key(name)
        {
            record.insert(name.clone(), Argument::Literal(default.clone()));
        }
    }
    record
}

fn guarded(entries: &[(Name, Arg<Def>)], secret: fn(&str) -> bool) -> Argument {
    let value = |name: &Name, arg: &Arg<Def>| match (&arg.kind, secret(&name.value)) {
        (_, false) => argument(arg, None),
        (ArgKind::Text(template), true) if template.as_literal().is_none() => {
            Argument::Template(template_document(template, true))
        }
        (_, true) => Argument::Literal(MASK.into()),
    };
    Argument::Record(entries.iter().map(|(n, a)| (n.value.clone(), value(n, a))).collect())
}

pub(super) fn argument(arg: &Arg<Def>, shape: Option<&Shape>) -> Argument {
    match &arg.kind {
        ArgKind::Record(entries) => match shape.and_then(Shape::fields) {
            Some(fields) => Argument::Record(record(entries, Some(fields), false)),
            None => match arg.as_value() {
                Some(value) => Argument::Literal(value),
                None => Argument::Record(record(entries, None, false)),
            },
        },
        ArgKind::List(items) => match arg.as_value() {
            Some(value) => Argument::Literal(value),
            None => Argument::List(items.iter().map(|a| argument(a, None)).collect()),
        },
        ArgKind::Text(template) if template.as_literal().is_none() => {
            Argument::Template(template_document(template, false))
        }
        _ => Argument::Literal(arg.as_value().unwrap_or_default()),
    }
}

/// Returns the value of a variable of `spec.env` in the form in which it may be shown.
pub fn shown(name: &str, template: &Template<Def>) -> String {
    template_document(template, is_secret_name(name)).text
}

/// `masked`: literal text is a secret, holes are not.
pub(super) fn template_document(template: &Template<Def>, masked: bool) -> TemplateDocument {
    let mut text = String::new();
    let mut holes = Vec::new();
    for (i, part) in template.parts.iter().enumerate() {
        match part {
            Part::Text(_) if masked => text.push_str(MASK),
            Part::Text(literal) => {
                let escaped = escape(literal);
                text.push_str(&escaped);
                // Backslashes before a hole escape each other.
                if matches!(template.parts.get(i + 1), Some(Part::Hole(_))) {
                    let slashes = escaped.len() - escaped.trim_end_matches('\\').len();
                    text.extend(std::iter::repeat_n('\\', slashes));
                }
            }
            Part::Hole(hole) => {
                text.push_str(&written(hole));
                holes.push(HoleDocument {
                    from: hole_source(&hole.reference.target),
                    ty: type_name(&hole.reference.ty),
                });
            }
        }
    }
    TemplateDocument { text, holes }
}

/// Writes a hole in its canonical form.
fn written(hole: &Hole<Def>) -> String {
    let mut path = match &hole.reference.target {
        Target::TaskEnv(name) | Target::ProcessEnv(name) => format!("env.{name}"),
        Target::RandomId => "random.id".to_owned(),
        Target::RandomPort => "random.port".to_owned(),
        Target::TaskName => "task.name".to_owned(),
        Target::AgentOutput => "agent.output".to_owned(),
        Target::AgentPrompt => "agent.prompt".to_owned(),
        Target::Output { step, name } => format!("steps.{step}.outputs.{name}"),
        Target::Loop(name) | Target::Local(name) => name.clone(),
        Target::Calls => "calls".to_owned(),
    };
    for segment in &hole.reference.segments {
        path += &match segment {
            SegmentKind::Name(name) => format!(".{name}"),
            SegmentKind::Index(index) => format!("[{index}]"),
        };
    }
    let filters: String = hole.filters.iter().map(filter_text).collect();
    format!("{{{path}{filters}}}")
}

fn filter_text(filter: &Filter) -> String {
    let args: Vec<_> = filter.args.iter().map(|a| a.value.to_string()).collect();
    match args.is_empty() {
        true => format!(" | {}", filter.name.text),
        false => format!(" | {}({})", filter.name.text, args.join(", ")),
    }
}

fn hole_source(target: &Target) -> HoleSource {
    match target {
        Target::TaskEnv(_) => HoleSource::TaskEnv,
        Target::ProcessEnv(_) => HoleSource::ProcessEnv,
        Target::RandomId | Target::RandomPort => HoleSource::Random,
        Target::TaskName => HoleSource::Task,
        Target::AgentOutput | Target::AgentPrompt => HoleSource::Agent,
        Target::Output { .. } => HoleSource::Step,
        Target::Loop(_) => HoleSource::Loop,
        Target::Local(_) => HoleSource::Local,
        Target::Calls => HoleSource::Calls,
    }
}

fn type_name(ty: &Type) -> String {
    match ty {
        Type::Any => "any".to_owned(),
        Type::Null => "null".to_owned(),
        Type::Bool => "bool".to_owned(),
        Type::Number => "number".to_owned(),
        Type::String => "string".to_owned(),
        Type::List(of) => format!("list<{}>", type_name(of)),
        Type::Record { .. } => "record".to_owned(),
    }
}
