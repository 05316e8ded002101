//! What is downloaded and kept: releases of extensions (`portable-format.md`, extensions; §7.2 of the upstream behavior), and
//! repositories of tasks (§2.6).

mod cache;
pub mod git;
mod release;

pub use cache::Cache;
pub use release::{Fetched, Trust, fetch, installed, resolve};
