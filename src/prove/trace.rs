//! The trace of a run in the jail: one line per call, in order.
#![expect(clippy::disallowed_methods, reason = "it is written by programs of their own")]

use std::{
    fs::{self, OpenOptions},
    io::Write,
};

use super::world::{Call, Half, Time};

/// The file of the trace.
pub const TRACE: &str = "/world/trace";
/// A line that records that time has passed.
pub const PAUSE: &str = "#pause\n";
/// The prefix of a line that names a phase.
pub const PHASE: &str = "#phase ";

/// Appends lines, each of which ends with a line feed.
pub fn append(lines: &str) {
    if let Ok(mut file) = OpenOptions::new().create(true).append(true).open(TRACE) {
        let _ = file.write_all(lines.as_bytes());
    }
}

/// The part of the trace that belongs to the current phase.
pub fn of_phase() -> String {
    let all = fs::read_to_string(TRACE).unwrap_or_default();
    let start = all.rfind(&format!("\n{PHASE}")).map_or(0, |at| at + 1);
    all.get(start..).unwrap_or_default().to_owned()
}

/// A call as a line.
pub fn line(call: &Call) -> String {
    format!("{}\n", serde_json::to_string(call).unwrap_or_default())
}

/// How many calls have the same words as this one.
fn count(lines: &str, call: &Call) -> usize {
    let words = Call { argv: call.argv.clone(), stdin: None };
    // The input follows the words.
    let whole = line(&words);
    let start = whole.trim_end().trim_end_matches("null}");
    lines.lines().filter(|line| line.starts_with(start)).count()
}

/// The time of a call that is made after these lines of its phase.
pub fn time(lines: &str, call: &Call) -> Time {
    let phase = lines.strip_prefix(PHASE).unwrap_or_default();
    Time { half: Half::of_phase(phase), nth: count(lines, call) }
}

/// Appends a call and returns when it was made. Calls are counted in each phase separately.
pub fn record(call: &Call) -> Time {
    let before = of_phase();
    append(&line(call));
    time(&before, call)
}

/// The file in which bash records each command that it runs, with the values of its words: `seek`. It exists only in runs that
/// are watched.
pub const WATCHED: &str = "/world/watched";

/// What precedes each record in [`WATCHED`], once for each level of subshells.
pub const RECORD: char = '\u{1e}';

/// The longest record that is read, in bytes.
const LONGEST: usize = 1 << 20;

/// Records that a phase begins.
pub fn begin(phase: &str) {
    if let Ok(mut file) = OpenOptions::new().create(true).append(true).open(WATCHED) {
        let _ = writeln!(file, "{RECORD}{PHASE}{phase}");
    }
}

/// What shells have recorded since the run began.
pub fn recorded() -> String {
    let mut bytes = fs::read(WATCHED).unwrap_or_default();
    bytes.truncate(LONGEST);
    String::from_utf8_lossy(&bytes).into_owned()
}
