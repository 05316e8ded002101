//! What comes from elsewhere and is kept: releases of extensions (`portable-format.md`, extensions; §7.2 of the upstream behaviour).

mod cache;
mod release;

pub use cache::Cache;
pub use release::{Fetched, Trust, fetch, installed, resolve};
