//! A process that runs a unit, or a recovery, for somebody who attends to it: who tells on its standard input how far its journal is kept
//! elsewhere, and whose end is its end.
//!
//! Property: *once the other end of standard input is closed, nothing with an effect begins, and what was started is ended.* No cleanup is
//! run then: that is what the journal is kept elsewhere for.
#![expect(
    clippy::disallowed_methods,
    reason = "standard input is how it is attended, and its end is the end of the process"
)]

use std::io::BufRead;

use super::recover::end_processes;
use crate::{
    host::RealHost,
    journal::{Past, gate},
};

/// The first argument of such a process.
pub const ARGUMENT: &str = "__attended";
/// The exit status, which nobody is there to read.
const ABANDONED: i32 = 3;

/// Attends from now on.
pub fn begin() {
    gate::attend();
    std::thread::spawn(|| {
        let lines = std::io::stdin().lock().lines();
        for line in lines.map_while(Result::ok) {
            if let Ok(bytes) = line.trim().parse() {
                gate::kept(bytes);
            }
        }
        end();
    });
}

/// Ends what was started, and this process.
fn end() -> ! {
    let runs = gate::abandoned();
    if let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() {
        let host = RealHost::new();
        for run in runs {
            if let Ok((past, _)) = Past::read(&run) {
                runtime.block_on(end_processes(&past, &host));
            }
        }
    }
    std::process::exit(ABANDONED)
}
