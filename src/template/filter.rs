//! The filters that gevals guarantees: what each accepts, what it returns, and their evaluation by minijinja, whose
//! built-in filters they are.
//!
//! minijinja converts freely: it lowers `true` to `True` and joins null as `None`. The `accepts` of the table is
//! stricter, and it applies twice: to types when a file is checked, and to values when it runs.

use std::{ops::Range, sync::LazyLock};

use minijinja::{Environment, UndefinedBehavior, value::Serde};
use serde::{Serialize, Serializer};
use serde_json::{Number, Value};

use super::{Filter, Literal};
use crate::{
    diagnostic::nearest,
    ty::{Type, number::as_float},
};

/// A filter that may be used in holes.
#[derive(Debug)]
pub struct FilterInfo {
    pub name: &'static str,
    pub summary: &'static str,
    /// What `accepts` accepts, in words: `a string`.
    pub takes: &'static str,
    pub args: &'static [Param],
    pub accepts: fn(&Type) -> bool,
    /// Returns the type of the result, from the type it is applied to and its arguments.
    pub result: fn(&Type, &[Literal]) -> Type,
}

/// An argument of a filter. Required ones come first.
#[derive(Debug)]
pub struct Param {
    pub name: &'static str,
    pub kind: ParamKind,
    pub required: bool,
}

/// What an argument of a filter may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ParamKind {
    Any,
    Bool,
    Integer,
    String,
}

/// The reason why a hole has no type.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TypeFault {
    /// In the scanned text; `None` if the value before all filters is the cause.
    pub range: Option<Range<usize>>,
    pub message: String,
    pub help: Option<String>,
}

/// The reason why a hole has no value.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{message}")]
pub struct EvalError {
    /// In the scanned text; `None` if the value before all filters is the cause.
    pub range: Option<Range<usize>>,
    pub message: String,
}

/// From a string to a string. This and the following constants are what several filters share.
const TEXT: FilterInfo =
    FilterInfo { name: "", summary: "", takes: "a string", args: &[], accepts: is_string, result: |_, _| Type::String };
/// From a string to its parts.
const PARTS: FilterInfo = FilterInfo { result: |_, _| Type::list(Type::String), ..TEXT };
/// A list in another order, or without some of its items.
const ORDER: FilterInfo = FilterInfo {
    takes: "a list of strings and numbers",
    accepts: is_list_of_scalars,
    result: |base, _| base.clone(),
    ..TEXT
};
/// One item of several.
const ITEM: FilterInfo = FilterInfo { takes: "a string or a list", accepts: is_sequence, result: item, ..TEXT };
/// To a number.
const NUMBER: FilterInfo = FilterInfo {
    takes: "a string, a number or a boolean",
    args: &[optional("default", ParamKind::Any)],
    accepts: is_convertible,
    result: number,
    ..TEXT
};
/// From a number to a number.
const ARITHMETIC: FilterInfo =
    FilterInfo { takes: "a number", accepts: is_number, result: |_, _| Type::Number, ..TEXT };

/// The filters that gevals guarantees, in the order of `grammar/README.md`. Other filters of minijinja are left out if
/// they surprise (`bool` makes `'false'` true) or do more than a hole should.
pub static FILTERS: &[FilterInfo] = &[
    FilterInfo {
        name: "default",
        summary: "the value, or the argument if it is missing; with `true` as the second argument, also if it is empty, zero, false or null",
        takes: "anything, even a missing value",
        args: &[required("value", ParamKind::Any), optional("falsy", ParamKind::Bool)],
        accepts: |_| true,
        result: |base, args| args.first().map_or(Type::Any, |value| base.join(&Type::of(&value.value))),
    },
    FilterInfo { name: "lower", summary: "the string in lowercase", ..TEXT },
    FilterInfo { name: "upper", summary: "the string in uppercase", ..TEXT },
    FilterInfo {
        name: "trim",
        summary: "the string without whitespace, or the given characters, at both ends",
        args: &[optional("characters", ParamKind::String)],
        ..TEXT
    },
    FilterInfo {
        name: "replace",
        summary: "the string with every `from` replaced by `to`",
        args: &[required("from", ParamKind::String), required("to", ParamKind::String)],
        ..TEXT
    },
    FilterInfo {
        name: "split",
        summary: "its parts, split at each separator (default: runs of whitespace), at most `limit` times",
        args: &[optional("separator", ParamKind::String), optional("limit", ParamKind::Integer)],
        ..PARTS
    },
    FilterInfo { name: "lines", summary: "its lines, without line endings", ..PARTS },
    FilterInfo {
        name: "join",
        summary: "the items as one string, with the separator (default: none) between them",
        takes: "a list of strings and numbers",
        args: &[optional("separator", ParamKind::String)],
        accepts: is_list_of_scalars,
        result: |_, _| Type::String,
    },
    FilterInfo { name: "sort", summary: "the list in ascending order, ignoring case", ..ORDER },
    FilterInfo {
        name: "unique",
        summary: "the list without duplicates, ignoring case; the first occurrence is kept",
        ..ORDER
    },
    FilterInfo {
        name: "reverse",
        summary: "the string or list in reverse order",
        takes: "a string or a list",
        args: &[],
        accepts: is_sequence,
        result: |base, _| base.clone(),
    },
    FilterInfo { name: "first", summary: "the first item or character; missing if there is none", ..ITEM },
    FilterInfo { name: "last", summary: "the last item or character; missing if there is none", ..ITEM },
    FilterInfo {
        name: "length",
        summary: "the number of items, fields or characters",
        takes: "a string, a list or a mapping",
        args: &[],
        accepts: |ty| is_sequence(ty) || matches!(ty, Type::Record { .. }),
        result: |_, _| Type::Number,
    },
    FilterInfo {
        name: "int",
        summary: "the value truncated to an integer, or the argument if it is not a number",
        ..NUMBER
    },
    FilterInfo {
        name: "float",
        summary: "the value as a floating-point number, or the argument if it is not a number",
        ..NUMBER
    },
    FilterInfo { name: "abs", summary: "its absolute value", ..ARITHMETIC },
    FilterInfo {
        name: "round",
        summary: "the number rounded to this many decimal places (default: 0), halves to even",
        args: &[optional("digits", ParamKind::Integer)],
        ..ARITHMETIC
    },
    FilterInfo {
        name: "string",
        summary: "the value as a string",
        takes: "a string or a number",
        args: &[],
        accepts: |ty| is_string(ty) || is_number(ty),
        result: |_, _| Type::String,
    },
    FilterInfo {
        name: "tojson",
        summary: "the value as JSON that is also safe in HTML; with `true`, on several lines",
        takes: "anything",
        args: &[optional("pretty", ParamKind::Bool)],
        accepts: |_| true,
        result: |_, _| Type::String,
    },
];

/// Returns the filter of this name.
pub fn filter(name: &str) -> Option<&'static FilterInfo> {
    FILTERS.iter().find(|info| info.name == name)
}

/// Returns the type of a hole whose path leads to a value of type `base`. A value that may be missing is an error,
/// unless the first filter is `default`.
///
/// # Errors
/// A filter does not accept its input; with the place of the filter, if it is the cause.
pub fn hole_type(base: &Type, base_may_be_missing: bool, filters: &[Filter]) -> Result<Type, TypeFault> {
    if base_may_be_missing && !filters.first().is_some_and(Filter::is_default) {
        let help = Some("add a default value: `| default('…')`".to_owned());
        return Err(TypeFault { range: None, message: "the value may be missing".to_owned(), help });
    }
    filters.iter().try_fold(base.clone(), |ty, filter| {
        let info = known(filter)?;
        if !(info.accepts)(&ty) {
            return Err(TypeFault::new(&filter.name.range, refusal(info, &ty), conversion(info, &ty)));
        }
        Ok((info.result)(&ty, &filter.args))
    })
}

/// Returns the value of a hole whose path leads to `base`. `None` is a missing value, which only `default` accepts.
///
/// # Errors
/// The value is missing and there is no `default`, or a filter does not accept it.
pub fn apply_filters(base: Option<Value>, filters: &[Filter]) -> Result<Value, EvalError> {
    let mut blame = None;
    let value = filters.iter().try_fold(base, |value, filter| {
        let value = apply(value.as_ref(), filter, blame.as_ref());
        blame = Some(filter.range.clone());
        value
    })?;
    value.ok_or_else(|| missing(blame.as_ref()))
}

/// A missing value is `None`, as input and as result. `blame` is the place that the input came from.
fn apply(value: Option<&Value>, filter: &Filter, blame: Option<&Range<usize>>) -> Result<Option<Value>, EvalError> {
    static ENVIRONMENT: LazyLock<Environment<'static>> = LazyLock::new(|| {
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        environment
    });
    let fault = |message| EvalError { range: Some(filter.range.clone()), message };
    let info = known(filter).map_err(|f| EvalError { range: f.range, message: f.message })?;
    let input = match value {
        Some(value) if !accepts_value(info, value) => return Err(fault(refusal(info, &Type::of(value)))),
        // minijinja would sort the keys of a mapping.
        Some(value) if filter.is_default() && filter.args.len() == 1 => return Ok(Some(value.clone())),
        Some(value) => {
            if let Some(number) = (!reckons(info)).then(|| unheld(value)).flatten() {
                return Err(fault(format!("`{}` would lose digits of the number {number}", info.name)));
            }
            minijinja::Value::from(Serde(Held(value)))
        }
        None if filter.is_default() => minijinja::Value::UNDEFINED,
        None => return Err(missing(blame)),
    };
    let args = filter.args.iter().map(|arg| minijinja::Value::from(Serde(Held(&arg.value))));
    let args: Vec<_> = std::iter::once(input).chain(args).collect();
    let output = ENVIRONMENT.empty_state().apply_filter(info.name, &args).map_err(|error| {
        let detail = error.detail().map_or_else(|| error.kind().to_string(), str::to_owned);
        fault(format!("`{}`: {detail}", info.name))
    })?;
    if output.is_undefined() {
        return Ok(None);
    }
    match serde_json::to_value(&output) {
        // Values that JSON cannot represent (NaN, infinity) would silently become null.
        Ok(Value::Null) if !output.is_none() => {
            Err(fault(format!("the result of `{}` is {output}, which is not a number", info.name)))
        }
        // Floats of this size are not precise to the unit.
        Ok(Value::Number(n)) if info.name == "int" && n.as_i64().is_none() && !value.is_some_and(is_whole) => {
            Err(fault("`int`: number out of range".to_owned()))
        }
        Ok(value) => Ok(Some(value)),
        Err(error) => Err(fault(format!("`{}`: {error}", info.name))),
    }
}

/// Whether a filter calculates, which uses binary64. The other filters preserve all digits.
fn reckons(info: &FilterInfo) -> bool {
    matches!(info.name, "int" | "float" | "abs" | "round")
}

fn is_whole(value: &Value) -> bool {
    matches!(value, Value::Number(number) if number.as_i128().is_some())
}

/// Returns a number within a value that minijinja cannot represent exactly.
fn unheld(value: &Value) -> Option<&Number> {
    match value {
        Value::Number(number) => (number.as_i128().is_none() && as_float(number).is_none()).then_some(number),
        Value::Array(items) => items.iter().find_map(unheld),
        Value::Object(map) => map.values().find_map(unheld),
        _ => None,
    }
}

/// A value whose numbers are machine numbers, as minijinja requires.
struct Held<'v>(&'v Value);

impl Serialize for Held<'_> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Number(number) => match (number.as_i128(), number.as_f64()) {
                (Some(whole), _) => s.serialize_i128(whole),
                (None, Some(float)) => s.serialize_f64(float),
                // Out of the range of binary64.
                (None, None) => {
                    s.serialize_f64(if number.to_string().starts_with('-') { f64::NEG_INFINITY } else { f64::INFINITY })
                }
            },
            Value::Array(items) => s.collect_seq(items.iter().map(Held)),
            Value::Object(map) => s.collect_map(map.iter().map(|(key, value)| (key, Held(value)))),
            other => other.serialize(s),
        }
    }
}

/// Returns the filter that an unknown name probably means.
pub fn meant(name: &str) -> Option<&'static str> {
    /// The names in other languages.
    const SYNONYMS: [(&str, &str); 14] = [
        ("uppercase", "upper"),
        ("upcase", "upper"),
        ("lowercase", "lower"),
        ("downcase", "lower"),
        ("strip", "trim"),
        ("json", "tojson"),
        ("to_json", "tojson"),
        ("len", "length"),
        ("size", "length"),
        ("count", "length"),
        ("uniq", "unique"),
        ("number", "float"),
        ("integer", "int"),
        ("str", "string"),
    ];
    let synonym = SYNONYMS.iter().find(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, filter)| *filter);
    synonym.or_else(|| nearest(name, FILTERS.iter().map(|info| info.name)))
}

/// Returns the filter's entry, if the filter exists and its arguments are right.
fn known(used: &Filter) -> Result<&'static FilterInfo, TypeFault> {
    let name = &used.name.text;
    let Some(info) = filter(name) else {
        let help = match meant(name) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("the filters are {}", FILTERS.iter().map(|info| info.name).collect::<Vec<_>>().join(", ")),
        };
        return Err(TypeFault::new(&used.name.range, format!("unknown filter `{name}`"), Some(help)));
    };
    if let Some(surplus) = used.args.get(info.args.len()) {
        let message = match info.args.len() {
            0 => format!("`{name}` does not take arguments"),
            n => format!("`{name}` takes at most {n} argument{}", if n == 1 { "" } else { "s" }),
        };
        return Err(TypeFault::new(&surplus.range, message, Some(info.usage())));
    }
    if let Some(lacking) = info.args.get(used.args.len()).filter(|param| param.required) {
        let message = format!("`{name}` requires the argument `{}`", lacking.name);
        return Err(TypeFault::new(&used.range, message, Some(info.usage())));
    }
    match info.args.iter().zip(&used.args).find(|(param, arg)| !param.kind.accepts(&arg.value)) {
        Some((param, arg)) => {
            let message =
                format!("`{}` of `{name}` is {}, not {}", param.name, param.kind.words(), Type::of(&arg.value));
            Err(TypeFault::new(&arg.range, message, Some(info.usage())))
        }
        None => Ok(info),
    }
}

impl FilterInfo {
    /// Returns how it is written: `replace(from, to)`. Arguments in brackets are optional.
    pub fn signature(&self) -> String {
        let mut out = self.name.to_owned();
        for (i, param) in self.args.iter().enumerate() {
            out.push_str(if i == 0 { "(" } else { ", " });
            out.push_str(&if param.required { param.name.to_owned() } else { format!("[{}]", param.name) });
        }
        out.push_str(if self.args.is_empty() { "" } else { ")" });
        out
    }

    fn usage(&self) -> String {
        format!("use `{}`", self.signature())
    }
}

impl ParamKind {
    fn accepts(self, value: &Value) -> bool {
        match self {
            Self::Any => true,
            Self::Bool => value.is_boolean(),
            Self::Integer => value.is_i64(),
            Self::String => value.is_string(),
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Any => "anything",
            Self::Bool => "`true` or `false`",
            Self::Integer => "an integer",
            Self::String => "a string",
        }
    }
}

impl TypeFault {
    fn new(range: &Range<usize>, message: String, help: Option<String>) -> Self {
        Self { range: Some(range.clone()), message, help }
    }
}

fn missing(range: Option<&Range<usize>>) -> EvalError {
    EvalError { range: range.cloned(), message: "the value is missing".to_owned() }
}

fn refusal(info: &FilterInfo, ty: &Type) -> String {
    format!("`{}` takes {}, not {ty}", info.name, info.takes)
}

/// Describes how to convert `ty` to something that the filter accepts.
fn conversion(info: &FilterInfo, ty: &Type) -> Option<String> {
    let texts = (info.accepts)(&Type::String);
    match ty {
        Type::Number if texts => Some("`| string` converts a number to a string".to_owned()),
        Type::String if (info.accepts)(&Type::Number) => {
            Some("`| int` and `| float` convert a string to a number".to_owned())
        }
        Type::String if (info.accepts)(&Type::list(Type::String)) => {
            Some("`| lines` and `| split(',')` convert a string to a list".to_owned())
        }
        Type::List(_) if texts => Some("`| join(',')` converts a list to a string, `| tojson` to JSON".to_owned()),
        Type::Bool | Type::Null | Type::Record { .. } if texts => {
            Some("`| tojson` converts it to JSON text".to_owned())
        }
        _ => None,
    }
}

/// Accepts a list if it accepts a list of each of its items: no type describes what a mixed list contains.
fn accepts_value(info: &FilterInfo, value: &Value) -> bool {
    let outline = |value: &Value| match value {
        Value::Array(_) => Type::list(Type::Any),
        Value::Object(_) => Type::map(),
        _ => Type::of(value),
    };
    match value {
        Value::Array(items) if !items.is_empty() => items.iter().all(|item| (info.accepts)(&Type::list(outline(item)))),
        _ => (info.accepts)(&outline(value)),
    }
}

const fn required(name: &'static str, kind: ParamKind) -> Param {
    Param { name, kind, required: true }
}

const fn optional(name: &'static str, kind: ParamKind) -> Param {
    Param { name, kind, required: false }
}

fn is_string(ty: &Type) -> bool {
    matches!(ty, Type::Any | Type::String)
}

fn is_number(ty: &Type) -> bool {
    matches!(ty, Type::Any | Type::Number)
}

fn is_convertible(ty: &Type) -> bool {
    matches!(ty, Type::Any | Type::String | Type::Number | Type::Bool)
}

fn is_sequence(ty: &Type) -> bool {
    matches!(ty, Type::Any | Type::String | Type::List(_))
}

fn is_list_of_scalars(ty: &Type) -> bool {
    match ty {
        Type::Any => true,
        Type::List(of) => matches!(**of, Type::Any | Type::String | Type::Number),
        _ => false,
    }
}

fn item(base: &Type, _: &[Literal]) -> Type {
    match base {
        Type::List(of) => (**of).clone(),
        other => other.clone(),
    }
}

/// A number, or the type of the argument.
fn number(_: &Type, args: &[Literal]) -> Type {
    args.first().map_or(Type::Number, |other| Type::Number.join(&Type::of(&other.value)))
}
