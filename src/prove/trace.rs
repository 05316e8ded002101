//! The trace of a run in the jail: a line a call, in order.
#![expect(clippy::disallowed_methods, reason = "it is written by programs of their own")]

use std::{
    fs::{self, OpenOptions},
    io::Write,
};

use super::world::Call;

/// Where it lies.
pub const TRACE: &str = "/world/trace";
/// A line that says that time has passed.
pub const PAUSE: &str = "#pause\n";

/// Adds a line, which ends with a line feed.
pub fn append(line: &str) {
    if let Ok(mut file) = OpenOptions::new().create(true).append(true).open(TRACE) {
        let _ = file.write_all(line.as_bytes());
    }
}

/// Adds a call. Gives how many like it were there before.
pub fn record(call: &Call) -> usize {
    let line = serde_json::to_string(call).unwrap_or_default();
    let before = fs::read_to_string(TRACE).unwrap_or_default();
    append(&format!("{line}\n"));
    // Phases are counted by themselves.
    let phase = before.rsplit("#phase").next().unwrap_or_default();
    let same: String = call.key();
    phase.lines().filter_map(|l| serde_json::from_str::<Call>(l).ok()).filter(|c| c.key() == same).count()
}
