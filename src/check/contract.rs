//! Checks the known parts of arguments against the schema that a server or an extension provides.

use serde_json::{Map, Value};

use super::{Checker, shape::What};
use crate::{
    decode::{INVALID_VALUE, MISSING_FIELD, UNKNOWN_FIELD, WRONG_TYPE},
    diagnostic::{Diagnostic, Strength},
    hir::{Arg, ArgKind, Name, Operation, OperationKind},
    package,
    signature::{FaultKind, Schema},
    source::Span,
    template::Path,
};

/// The source of a locked schema, as named in help texts.
pub(super) const LOCKED: &str = "according to its schema in `gevals.lock`";

impl Checker<'_> {
    /// Checks the arguments of a step. Those of a tool are under `args`.
    pub(super) fn step_conforms(&mut self, op: &Operation, args: &[(Name, Arg<Path>)], schema: &Schema, key: Span) {
        match &op.kind {
            OperationKind::Tool { .. } => {
                let what = What::Key("args");
                match args.iter().find(|(name, _)| name.value == "args").map(|(_, arg)| arg) {
                    None => self.conforms(&[], schema, what, key, LOCKED),
                    Some(Arg { kind: ArgKind::Record(args), span }) => self.conforms(args, schema, what, *span, LOCKED),
                    Some(_) => {}
                }
            }
            OperationKind::Extension { package, .. }
                if package::bundled(package, self.cx.lock.substitute).is_some() =>
            {
                self.conforms(
                    args,
                    schema,
                    What::Step(&op.name, &[]),
                    key,
                    "according to the manifest of the bundled extension",
                );
            }
            _ => self.conforms(args, schema, What::Step(&op.name, &[]), key, LOCKED),
        }
    }

    /// Reports violations of the schema that shapes cannot express. What the shapes found has already been reported.
    pub(super) fn conforms(
        &mut self,
        args: &[(Name, Arg<Path>)],
        schema: &Schema,
        what: What<'_>,
        parent: Span,
        says: &'static str,
    ) {
        let mut unknown = Vec::new();
        let value = record(args, "", &mut unknown);
        // An earlier finding here, or inside this value, has the same cause.
        let known: Vec<Span> = self.out.iter().filter(|d| d.strength <= Strength::Verdict).map(|d| d.span).collect();
        let mut found: Vec<Span> = Vec::new();
        for fault in schema.faults(&value, &unknown) {
            let path: Vec<String> =
                fault.at.split('/').skip(1).map(|token| token.replace("~1", "/").replace("~0", "~")).collect();
            let (place, name) = find(args, &path);
            let within = match place {
                Place::Arguments(args) => args,
                Place::Value(Arg { kind: ArgKind::Record(fields), .. }) => fields,
                Place::Value(_) => &[][..],
            };
            let span = match place {
                Place::Arguments(_) => parent,
                Place::Value(arg) => arg.span,
            };
            let subject = match name {
                Some(name) => format!("`{name}`"),
                None => what.to_string(),
            };
            let diagnostic = match &fault.kind {
                FaultKind::Missing(key) => Diagnostic::new(&MISSING_FIELD, span, format!("{subject} has no `{key}`")),
                FaultKind::Unknown(key) => {
                    let Some((name, _)) = within.iter().find(|(name, _)| name.value == *key) else { continue };
                    Diagnostic::new(&UNKNOWN_FIELD, name.span, format!("unknown key `{key}` in {subject}"))
                }
                FaultKind::Type(demand) => Diagnostic::new(&WRONG_TYPE, span, format!("{subject} {demand}")),
                FaultKind::Value(demand) => Diagnostic::new(&INVALID_VALUE, span, format!("{subject} {demand}")),
            };
            let at = diagnostic.span;
            let within = |other: &Span| other.file == at.file && at.start <= other.start && other.end <= at.end;
            // For the arguments as a whole: a key that was reported may be the misspelled form of the missing one.
            let of_an_argument = |other: &Span| {
                let whole = args.iter().any(|(name, arg)| {
                    name.span == *other
                        || arg.span.file == other.file && arg.span.start <= other.start && other.end <= arg.span.end
                });
                matches!(place, Place::Arguments(_)) && whole
            };
            if !known.iter().any(|other| within(other) || of_an_argument(other)) && !found.contains(&at) {
                found.push(at);
                self.error(diagnostic.help(says));
            }
        }
    }
}

#[derive(Clone, Copy)]
enum Place<'a> {
    Arguments(&'a [(Name, Arg<Path>)]),
    Value(&'a Arg<Path>),
}

/// Returns the value at a path, and the name of the argument or key that contains it. If the path continues inside a
/// hole, returns the value with the hole.
fn find<'a>(args: &'a [(Name, Arg<Path>)], path: &[String]) -> (Place<'a>, Option<String>) {
    let (mut place, mut name) = (Place::Arguments(args), None);
    for token in path {
        let fields = match place {
            Place::Arguments(fields) => fields,
            Place::Value(Arg { kind: ArgKind::Record(fields), .. }) => fields,
            Place::Value(Arg { kind: ArgKind::List(items), .. }) => {
                let Some(item) = token.parse().ok().and_then(|index: usize| items.get(index)) else { break };
                place = Place::Value(item);
                name = name.map(|name| format!("{name}[{token}]"));
                continue;
            }
            Place::Value(_) => break,
        };
        let Some((key, arg)) = fields.iter().find(|(key, _)| key.value == *token) else { break };
        place = Place::Value(arg);
        name = Some(key.value.clone());
    }
    (place, name)
}

/// Returns a value as far as it is known, and collects the pointers of its unknown parts.
fn value(arg: &Arg<Path>, at: &str, unknown: &mut Vec<String>) -> Value {
    let known = match &arg.kind {
        ArgKind::Null => Some(Value::Null),
        ArgKind::Bool(b) => Some((*b).into()),
        ArgKind::Int(n) => Some((*n).into()),
        ArgKind::Float(x) => Some(Value::Number(x.clone())),
        ArgKind::Text(template) => template.as_literal().map(Into::into),
        ArgKind::List(items) => {
            let items = items.iter().enumerate().map(|(i, item)| value(item, &format!("{at}/{i}"), unknown));
            Some(items.collect())
        }
        ArgKind::Record(fields) => Some(record(fields, at, unknown)),
    };
    known.unwrap_or_else(|| {
        unknown.push(at.to_owned());
        Value::Null
    })
}

fn record(fields: &[(Name, Arg<Path>)], at: &str, unknown: &mut Vec<String>) -> Value {
    let fields = fields.iter().map(|(name, arg)| {
        let token = name.value.replace('~', "~0").replace('/', "~1");
        (name.value.clone(), value(arg, &format!("{at}/{token}"), unknown))
    });
    Value::Object(fields.collect::<Map<_, _>>())
}
