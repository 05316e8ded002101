//! The built-in steps: what each takes and gives. No IO: what they do stands in `step`.
//!
//! A built-in is a record that serde reads and schemars describes, and a signature around it. Property: *what checks,
//! decodes.*

pub mod any_of;
pub mod command;
pub mod consistently;
pub mod eventually;
pub mod expect;
pub mod extension;
pub mod file;
pub mod foreach;
pub mod group;
pub mod http;
pub mod llm;
pub mod script;
pub mod sleep;
pub mod steps_http;
pub mod steps_judge;
pub mod steps_script;
pub mod tool;

use crate::{
    hir::Dialect,
    signature::{Signature, Vocabularies, Vocabulary},
};

/// One built-in step.
#[derive(Debug)]
pub struct Builtin {
    /// The key in a task.
    pub name: &'static str,
    pub dialect: Dialect,
    pub signature: fn() -> Signature,
}

/// All of them. The legacy dialect has no steps of its own: its scripts are the steps dialect's.
pub const BUILTINS: &[Builtin] = &[
    command::BUILTIN,
    script::BUILTIN,
    http::BUILTIN,
    file::BUILTIN,
    llm::BUILTIN,
    foreach::BUILTIN,
    any_of::BUILTIN,
    group::BUILTIN,
    eventually::BUILTIN,
    consistently::BUILTIN,
    sleep::BUILTIN,
    extension::BUILTIN,
    steps_http::BUILTIN,
    steps_script::BUILTIN,
    steps_judge::BUILTIN,
];

/// The operations of every dialect.
pub fn vocabularies() -> Vocabularies {
    let of = |dialect| {
        let known = BUILTINS.iter().filter(|b| b.dialect == dialect);
        Vocabulary::new(known.map(|b| (b.name, (b.signature)())))
    };
    Vocabularies { legacy: of(Dialect::Steps), steps: of(Dialect::Steps), portable: of(Dialect::Portable) }
}
