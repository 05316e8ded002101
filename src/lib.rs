#![doc = include_str!("README.md")]

#[cfg(feature = "run")]
pub mod agent;
pub mod bash;
pub mod builtin;
pub mod check;
pub mod cli;
pub mod decode;
pub mod diagnostic;
pub mod dialect;
pub mod event;
pub mod hir;
pub mod host;
pub mod lint;
pub mod lock;
#[cfg(feature = "run")]
pub mod mcp;
pub mod plan;
pub mod policy;
pub mod project;
pub mod render;
#[cfg(feature = "run")]
pub mod report;
#[cfg(feature = "run")]
pub mod run;
pub mod secrets;
pub mod signature;
pub mod source;
#[cfg(feature = "run")]
pub mod step;
pub mod template;
pub mod ty;
pub mod yaml;

mod compile;

pub use compile::{Compiled, Options, compile, compile_with};
