//! The evals primitive of MCP against a real server: connecting, listing, running, and shipping evals beside any
//! server.
#![expect(clippy::disallowed_methods, reason = "evals are listed by servers, and read again when their file changes")]

mod agent;
mod conformance;
mod connect;
mod draft;
mod list;
mod run;
mod ship;
mod strength;

pub use agent::Doer;
pub use conformance::{REQUIREMENTS, conformance};
pub use connect::{ConnectOptions, Server, connect};
pub use draft::{Drafted, draft};
pub use list::{ListError, Listed, list};
pub use run::{Done, Ended, Running, run};
pub use ship::{Fault, Shipped, watch};
pub use strength::{Mutant, Strength, ToolStrength, Tried, VALUES, strength};
