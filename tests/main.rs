//! All tests of the public interface, in one program: it is linked once, and tests that wait run beside tests that compute.
//!
//! `cargo test --test all suite::` runs those of one file. See `tests/README.md`.
#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests look at the world from outside, and may panic"
)]

/// The allocator of the program: compiling many documents takes less time with it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

mod agent;
mod agents;
mod attacks;
mod bash;
mod check;
mod cli;
mod clusters;
mod convert;
mod coverage;
mod diagnostic;
mod engines;
mod evals;
mod evals_bridge;
mod evals_conformance;
mod evals_lock;
mod evals_run;
mod extension;
mod faults;
mod flow;
mod host;
mod hostile;
mod it;
mod journal;
mod judge;
mod kubernetes;
mod layers;
mod limits;
mod lsp;
mod mcp;
mod mcp_server;
mod misbehaving;
mod mutants;
mod otlp;
mod pack;
mod packages;
mod parity;
mod parquet;
mod plan;
mod proving;
mod reference;
mod releases;
mod result;
mod run;
mod scenarios;
mod schema;
mod settings;
mod step;
mod store;
mod suite;
mod template;
mod temporal;
mod verdicts;
mod yaml;

/// What several files use.
mod support {
    pub mod documents;
    #[cfg(feature = "kubernetes")]
    pub mod kubelet;
    #[cfg(feature = "run")]
    pub mod mcp;
    #[cfg(feature = "run")]
    pub mod model;
    #[cfg(all(feature = "run", target_os = "linux"))]
    pub mod packed;
    pub mod page;
    #[cfg(all(feature = "run", target_os = "linux"))]
    pub mod probe;
    #[cfg(all(feature = "run", target_os = "linux"))]
    pub mod world;
}
