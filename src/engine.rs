//! Temporal as the engine of a pack: the decisions of its workflow, and the calls to its server. The code that runs
//! units is in `cli`.
//!
//! A pack is a workflow. A run of a unit, or of several short ones, is an activity of it, and so is the cleanup after a
//! lost activity. Properties: *a unit with a verdict is not run again; no unit is run again before the cleanups that
//! its lost attempt left pending have been handled.*

pub mod service;
pub mod wire;
pub mod workflow;

/// The queue of a pack: workers with another pack, or of an incompatible version, have another queue under the same
/// name, and never get its units.
pub fn queue(name: &str, pack: &str) -> String {
    format!("{name}@{}.{}", short(pack), wire::VERSION)
}

/// The id of the workflow that runs a pack.
pub fn workflow_id(eval: &str, pack: &str, name: Option<&str>) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    let eval: String = eval.chars().map(plain).take(60).collect();
    let name = name.map(|name| format!("-{name}")).unwrap_or_default();
    format!("gevals-{eval}-{}{name}", short(pack))
}

/// The start of a digest.
fn short(digest: &str) -> String {
    digest.trim_start_matches("sha256:").chars().take(12).collect()
}
