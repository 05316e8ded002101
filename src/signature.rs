//! Signatures: what the compiler knows of an operation, with its name, parameters, outputs, and the phases where it is
//! allowed.
//!
//! A built-in step, an operation of an extension and an MCP tool are the same to the front end. [`Shape`]s come from JSON
//! Schema: those of built-ins are derived from Rust structs, the others are provided. Constraints of a foreign schema
//! that a shape does not express are checked with the [`Schema`] itself.

mod sample;
mod schema;
mod shape;

pub use sample::{Sample, arguments, sample};
pub use schema::{Fault, FaultKind, Schema};
pub use shape::{Field, Format, Shape};

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use indexmap::IndexMap;

use crate::{
    place::{BlockRole, Dialect, PhaseKind},
    ty::Type,
};

/// Types of values by name. Shared, because thousands of steps of one type have the same.
pub type Values = Arc<IndexMap<String, Type>>;

/// Builds [`Values`] from a list.
pub fn values<const N: usize>(values: [(&str, Type); N]) -> Values {
    Arc::new(values.map(|(name, ty)| (name.to_owned(), ty)).into())
}

/// What `check` and `plan` know of an operation: its parameters, outputs and effects, and where it is allowed.
#[derive(Clone, Debug)]
pub struct Signature {
    pub name: String,
    /// A one-line description.
    pub doc: String,
    /// The parameters; always a record.
    pub params: Shape,
    /// A schema by its author, against which arguments are checked in addition.
    pub schema: Option<Schema>,
    /// The parameter that a body which is not a mapping is the value of (`sleep: 5s`, `anyOf: […]`).
    pub short: Option<&'static str>,
    /// The shape of `expect`, if it is allowed.
    pub expect: Option<Arc<Shape>>,
    /// Values of the step itself, in scope in its own `outputs` and `expect`. They are its outputs if it lists none.
    pub locals: Values,
    /// Whether `outputs` may be listed.
    pub lists_outputs: bool,
    pub phases: Vec<PhaseKind>,
    pub effects: Effects,
    /// The timeout of steps that set none.
    pub timeout: Option<Duration>,
    /// Whether `continueOnError` is supported in this dialect.
    pub continues: bool,
    pub control: Control,
    /// Whether it needs the eval's judge.
    pub judges: bool,
    /// Sets of parameters (and `expect`) of which exactly one must be given. `a.b` is the key `b` of the parameter `a`,
    /// if that is given.
    pub exactly_one: &'static [&'static [&'static str]],
    /// Adapts the signature to the literal arguments of a step (`protocol: json` changes the outputs of a script).
    pub refine: Option<Refine>,
}

/// Looks up literal arguments and changes the signature accordingly.
pub type Refine = fn(&dyn Fn(&str) -> Option<String>, &mut Signature);

/// What an operation does to the world.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Effects {
    None,
    Creates,
    Deletes,
    Any,
}

/// How an operation runs the steps inside it. Definite assignment is based on this, not on names.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Control {
    /// It contains no steps.
    Leaf,
    /// Once for each value of a list.
    Each,
    /// One branch after another until one passes.
    Any,
    /// Setup, steps, and a cleanup that always runs.
    Scope,
    /// Repeatedly, until a round passes.
    Eventually,
    /// Repeatedly for some time; every round must pass.
    Consistently,
}

impl Control {
    /// The keys of nested steps, with their roles, and whether each is required.
    pub fn blocks(self) -> &'static [(&'static str, BlockRole, bool)] {
        match self {
            Self::Leaf => &[],
            Self::Any => &[("steps", BlockRole::Branch, true)],
            Self::Scope => &[
                ("setup", BlockRole::Setup, false),
                ("steps", BlockRole::Steps, true),
                ("cleanup", BlockRole::Cleanup, false),
            ],
            Self::Each | Self::Eventually | Self::Consistently => &[("steps", BlockRole::Steps, true)],
        }
    }
}

impl Signature {
    /// An operation without nested steps that accepts `params`, is allowed everywhere and may do anything.
    pub fn leaf(name: &str, doc: &str, params: Shape) -> Self {
        Self {
            name: name.to_owned(),
            doc: doc.to_owned(),
            params,
            schema: None,
            short: None,
            expect: None,
            locals: Arc::default(),
            lists_outputs: false,
            phases: PhaseKind::ALL.to_vec(),
            effects: Effects::Any,
            timeout: None,
            continues: true,
            control: Control::Leaf,
            judges: false,
            exactly_one: &[],
            refine: None,
        }
    }

    /// The keys of a step's body that belong to the step itself and are not arguments.
    pub fn step_keys(&self, dialect: Dialect) -> Vec<&'static str> {
        let portable = dialect == Dialect::Portable;
        let keys = [
            ("id", portable),
            ("timeout", true),
            ("continueOnError", self.continues),
            ("outputs", portable && self.lists_outputs),
            ("expect", self.expect.is_some()),
        ];
        keys.into_iter().filter(|(_, read)| *read).map(|(key, _)| key).collect()
    }

    /// The outputs of a step that lists none: its own values, with the fields of `result` as separate outputs. The flag
    /// is true if there may be further outputs.
    pub fn implicit_outputs(&self) -> (Values, bool) {
        if !self.locals.contains_key("result") {
            return (Arc::clone(&self.locals), false);
        }
        let mut outputs = IndexMap::clone(&self.locals);
        match outputs.shift_remove("result") {
            Some(Type::Record { fields, open }) => {
                outputs.extend(fields);
                (Arc::new(outputs), open)
            }
            _ => (Arc::new(outputs), true),
        }
    }
}

/// The operations that a dialect has without any extension or server. Signatures are created on first use, because
/// creating all of them takes longer than checking a task.
#[derive(Debug, Default)]
pub struct Vocabulary(IndexMap<&'static str, Made>);

#[derive(Debug)]
struct Made {
    make: fn() -> Signature,
    signature: OnceLock<Arc<Signature>>,
}

impl Vocabulary {
    /// The operations of a dialect. Their signatures are created on first use.
    pub fn new(operations: impl IntoIterator<Item = (&'static str, fn() -> Signature)>) -> Self {
        let operations = operations.into_iter();
        Self(operations.map(|(name, make)| (name, Made { make, signature: OnceLock::new() })).collect())
    }

    /// Looks up an operation by name.
    pub fn get(&self, name: &str) -> Option<(&'static str, &Arc<Signature>)> {
        let (name, made) = self.0.get_key_value(name)?;
        Some((*name, made.signature.get_or_init(|| Arc::new((made.make)()))))
    }

    /// The names of all operations, in the order given.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.0.keys().copied()
    }
}

/// The vocabularies of all dialects. The legacy dialect uses that of the steps dialect.
#[derive(Debug, Default)]
pub struct Vocabularies {
    pub steps: Vocabulary,
    pub portable: Vocabulary,
}

impl Vocabularies {
    /// The operations of a dialect.
    pub fn of(&self, dialect: Dialect) -> &Vocabulary {
        match dialect {
            Dialect::Legacy | Dialect::Steps => &self.steps,
            Dialect::Portable => &self.portable,
        }
    }
}
