//! What comes from elsewhere and is kept: releases of extensions (`portable-format.md`, extensions; §7.2 of the upstream behaviour), and
//! repositories of tasks (§2.6).

mod cache;
pub mod git;
mod release;

pub use cache::Cache;
pub use release::{Fetched, Trust, fetch, installed, resolve};
