#![doc = include_str!("README.md")]

pub mod source;
pub mod secrets;
pub mod diagnostic;
pub mod ty;
pub mod yaml;
pub mod template;
pub mod hir;
pub mod signature;
pub mod decode;
pub mod dialect;
pub mod lock;
pub mod policy;
pub mod builtin;
pub mod bash;
pub mod project;
pub mod check;
pub mod lint;
pub mod plan;
mod compile;
pub mod affected;
pub mod event;
pub mod render;
pub mod convert;
pub mod results;
pub mod host;
#[cfg(feature = "run")]
pub mod sandbox;
#[cfg(feature = "run")]
pub mod mcp;
#[cfg(feature = "run")]
pub mod agent;
#[cfg(feature = "run")]
pub mod step;
#[cfg(feature = "run")]
pub mod journal;
#[cfg(feature = "run")]
pub mod run;
#[cfg(feature = "run")]
pub mod prove;
#[cfg(feature = "run")]
pub mod report;
pub mod schema;
pub mod cli;

pub use compile::{Compiled, Options, compile, compile_with};
