//! Types of values, deliberately few: what a template may contain and what an operation returns.

use std::fmt;

use indexmap::IndexMap;

pub mod canonical;
pub mod duration;
pub mod endpoint;
pub mod number;
pub mod unique;

/// The names that a hole may start with anywhere.
pub const ROOTS: [&str; 5] = ["env", "random", "task", "steps", "agent"];

/// The names of a step's own values. Its own templates may use some of them.
pub const LOCALS: [&str; 9] =
    ["stdout", "stderr", "exitCode", "response", "content", "structuredContent", "isError", "result", "rounds"];

/// The type of a value (`decisions.md` §3).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Type {
    #[default]
    Any,
    Null,
    Bool,
    Number,
    String,
    List(Box<Type>),
    /// Known fields. An open record may have others, of type any.
    Record {
        fields: IndexMap<String, Type>,
        open: bool,
    },
}

impl Type {
    /// A list of items of one type.
    pub fn list(of: Type) -> Self {
        Self::List(Box::new(of))
    }

    /// A record about which nothing is known.
    pub fn map() -> Self {
        Self::Record { fields: IndexMap::new(), open: true }
    }

    /// A record with these fields and no others.
    pub fn record<const N: usize>(fields: [(&str, Type); N]) -> Self {
        let fields = fields.into_iter().map(|(k, t)| (k.to_owned(), t)).collect();
        Self::Record { fields, open: false }
    }

    /// Whether a value of this type can be used where `wanted` is expected. `any` fits everything in both directions:
    /// what is not known is not an error.
    pub fn fits(&self, wanted: &Type) -> bool {
        match (self, wanted) {
            (Self::Any, _) | (_, Self::Any) => true,
            (Self::List(a), Self::List(b)) => a.fits(b),
            (Self::Record { fields: a, open }, Self::Record { fields: b, .. }) => {
                b.iter().all(|(k, t)| a.get(k).map_or(*open, |u| u.fits(t)))
            }
            _ => self == wanted,
        }
    }

    /// Returns the most specific type that includes both.
    pub fn join(&self, other: &Type) -> Type {
        match (self, other) {
            (a, b) if a == b => a.clone(),
            (Self::List(a), Self::List(b)) => Type::list(a.join(b)),
            (Self::Record { fields: a, open: ao }, Self::Record { fields: b, open: bo }) => {
                let both = a.iter().filter_map(|(k, t)| Some((k.clone(), t.join(b.get(k)?))));
                let fields: IndexMap<_, _> = both.collect();
                let open = *ao || *bo || fields.len() < a.len() || fields.len() < b.len();
                Self::Record { fields, open }
            }
            _ => Self::Any,
        }
    }

    /// Returns the type of a given value.
    pub fn of(value: &serde_json::Value) -> Type {
        use serde_json::Value;
        match value {
            Value::Null => Self::Null,
            Value::Bool(_) => Self::Bool,
            Value::Number(_) => Self::Number,
            Value::String(_) => Self::String,
            Value::Array(items) => Type::list(items.iter().map(Type::of).reduce(|a, b| a.join(&b)).unwrap_or_default()),
            Value::Object(map) => {
                Self::Record { fields: map.iter().map(|(k, v)| (k.clone(), Type::of(v))).collect(), open: false }
            }
        }
    }
}

/// As in messages: `a list of strings`.
impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Any => "anything",
            Self::Null => "null",
            Self::Bool => "a boolean",
            Self::Number => "a number",
            Self::String => "a string",
            Self::List(of) => {
                return match **of {
                    Self::Any => f.write_str("a list"),
                    Self::Bool => f.write_str("a list of booleans"),
                    Self::Number => f.write_str("a list of numbers"),
                    Self::String => f.write_str("a list of strings"),
                    _ => f.write_str("a list of values"),
                };
            }
            Self::Record { .. } => "a mapping",
        })
    }
}
