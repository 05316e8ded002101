//! What the compiler knows of an operation: its name, what it takes, what it gives, where it may stand.
//!
//! A built-in step, an extension's operation and an MCP tool are the same thing to the front end. [`Shape`]s come from
//! JSON Schema: built-ins derive theirs from Rust structs, the others send theirs. What a shape does not say of a foreign
//! schema, the [`Schema`] itself does.

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

/// Values by name, shared: thousands of steps of one type give the same.
pub type Values = Arc<IndexMap<String, Type>>;

/// Values as a signature writes them.
pub fn values<const N: usize>(values: [(&str, Type); N]) -> Values {
    Arc::new(values.map(|(name, ty)| (name.to_owned(), ty)).into())
}

/// What `check` and `plan` know of an operation: what it takes, gives and does, and where it may stand.
#[derive(Clone, Debug)]
pub struct Signature {
    pub name: String,
    /// One line: what it does.
    pub doc: String,
    /// What it takes; always a record.
    pub params: Shape,
    /// What its arguments are held against besides, where its author wrote a schema.
    pub schema: Option<Schema>,
    /// The parameter a body that is no mapping stands for (`sleep: 5s`, `anyOf: […]`).
    pub short: Option<&'static str>,
    /// What `expect` takes, where it may stand.
    pub expect: Option<Arc<Shape>>,
    /// Values of the step itself, in scope in its own `outputs` and `expect`; offered as its outputs where it lists none.
    pub locals: Values,
    /// Whether `outputs` may be listed.
    pub lists_outputs: bool,
    pub phases: Vec<PhaseKind>,
    pub effects: Effects,
    /// The step's time limit where it sets none.
    pub timeout: Option<Duration>,
    /// Whether `continueOnError` means something in this dialect.
    pub continues: bool,
    pub control: Control,
    /// Needs the eval's judge.
    pub judges: bool,
    /// Sets of parameters (and `expect`) of which exactly one must be given; `a.b` is the key `b` of the parameter `a`,
    /// where that is given.
    pub exactly_one: &'static [&'static [&'static str]],
    /// Adapts the signature to the literal arguments of one step (`protocol: json` changes what a script gives).
    pub refine: Option<Refine>,
}

/// Looks a literal argument up and changes the signature by it.
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

/// How an operation runs the steps inside it; definite assignment follows this, not names.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Control {
    /// It has none.
    Leaf,
    /// Once a value of a list.
    Each,
    /// One branch after another until one passes.
    Any,
    /// Setup, steps, and a cleanup that always runs.
    Scope,
    /// Round after round until one passes.
    Eventually,
    /// Round after round for a while; every one must pass.
    Consistently,
}

impl Control {
    /// The keys under which nested steps stand, and whether each must be there.
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
    /// A leaf that takes `params`, may stand anywhere and may do anything.
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

    /// The keys of a step's body that are the step's own, and none of its arguments.
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

    /// The outputs a step offers where it lists none: its own values, those of `result` one by one. The flag says
    /// whether it may offer more than is known.
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

/// The operations a dialect has without any extension or server. A signature is made when it is asked for: that takes
/// longer than to check a task.
#[derive(Debug, Default)]
pub struct Vocabulary(IndexMap<&'static str, Made>);

#[derive(Debug)]
struct Made {
    make: fn() -> Signature,
    signature: OnceLock<Arc<Signature>>,
}

impl Vocabulary {
    /// The operations of one dialect; their signatures are made when first asked for.
    pub fn new(operations: impl IntoIterator<Item = (&'static str, fn() -> Signature)>) -> Self {
        let operations = operations.into_iter();
        Self(operations.map(|(name, make)| (name, Made { make, signature: OnceLock::new() })).collect())
    }

    /// An operation by its name.
    pub fn get(&self, name: &str) -> Option<(&'static str, &Arc<Signature>)> {
        let (name, made) = self.0.get_key_value(name)?;
        Some((*name, made.signature.get_or_init(|| Arc::new((made.make)()))))
    }

    /// The names of all operations, in the order given.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.0.keys().copied()
    }
}

/// The vocabularies of all dialects; the legacy dialect has that of the steps dialect.
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
