//! Temporal as the engine of a pack: what its workflow decides, and the calls to its server. What is run stands in `cli`.
//!
//! A pack is a workflow, a run of a unit, or of several short ones, is an activity of it, and so is the cleanup after one that was lost. Properties: *a unit with a
//! verdict is not run again; no unit is run again before what its lost attempt left pending was looked after.*

pub mod service;
pub mod wire;
pub mod workflow;

/// The queue of a pack among all that use one name: a worker with another pack, or of a version that speaks otherwise, never sees its units.
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

/// The beginning of a digest.
fn short(digest: &str) -> String {
    digest.trim_start_matches("sha256:").chars().take(12).collect()
}
