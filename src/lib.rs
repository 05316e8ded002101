#![doc = include_str!("README.md")]

pub mod source;
pub mod diagnostic;
pub mod ty;
pub mod yaml;
pub mod secrets;
pub mod template;
pub mod hir;
pub mod signature;
pub mod decode;
pub mod dialect;
pub mod lock;
pub mod builtin;
pub mod project;
pub mod check;
pub mod lint;
pub mod plan;
pub mod event;
pub mod render;
pub mod host;
#[cfg(feature = "run")]
pub mod mcp;
#[cfg(feature = "run")]
pub mod step;
#[cfg(feature = "run")]
pub mod run;
#[cfg(feature = "run")]
pub mod report;
pub mod schema;
pub mod cli;

mod compile;

pub use compile::{Compiled, compile};
