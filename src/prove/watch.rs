//! Stops processes of the jail that take too much real time. Whatever the jail's clock says, processes take real time, and one that only
//! waits for time to pass would take all of it.
#![expect(clippy::disallowed_methods, reason = "it reads what the jail knows of its processes")]

use std::{
    fs,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use tokio_util::sync::CancellationToken;

use super::trace::TRACE;
use crate::host::{Exec, Finished, Host, RealHost};

/// How long a process may do nothing that a proof can see: no command of the outside world, no sleep.
const QUIET: Duration = Duration::from_secs(20);
/// How long it may run in total.
const LONGEST: Duration = Duration::from_secs(120);
/// How often it is checked.
const LOOK: Duration = Duration::from_millis(500);
/// How many characters of a command are shown.
const SHOWN: usize = 80;

/// What did not end, in the words of a certificate.
#[derive(Default)]
pub struct Watch(Mutex<Option<String>>);

impl Watch {
    /// Runs a process, and stops it if it does not end by itself.
    pub async fn run(&self, host: &RealHost, exec: Exec, cancel: CancellationToken) -> Finished {
        let stop = cancel.child_token();
        // Its own limit is in the time of the jail, which the shims keep.
        let exec = exec.timeout(2 * LONGEST);
        let begun = Instant::now();
        let (mut since, mut told) = (begun, traced());
        let mut finished = std::pin::pin!(host.exec(exec, stop.clone()));
        loop {
            tokio::select! {
                finished = &mut finished => return finished,
                () = tokio::time::sleep(LOOK) => {}
            }
            let now = traced();
            if now != told {
                (since, told) = (Instant::now(), now);
            }
            if (since.elapsed() >= QUIET || begun.elapsed() >= LONGEST) && !stop.is_cancelled() {
                let command = waiting().unwrap_or_else(|| "a command".to_owned());
                let time = begun.elapsed().as_secs();
                *self.ended() = Some(format!(
                    "`{command}` had not finished after {time} s of real time: its effect cannot be tested"
                ));
                stop.cancel();
            }
        }
    }

    fn ended(&self) -> MutexGuard<'_, Option<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a process was stopped, so that nothing more is started.
    pub fn has_ended_one(&self) -> bool {
        self.ended().is_some()
    }

    /// Returns what was stopped, once.
    pub fn take(&self) -> Option<String> {
        self.ended().take()
    }
}

/// The size of the trace, in bytes.
fn traced() -> u64 {
    fs::metadata(TRACE).map_or(0, |meta| meta.len())
}

/// A process: its id, its parent's id and its group's id.
struct Process([i32; 3]);

/// The command line of the process that the jail waits for: of the processes without children in the youngest group, the oldest.
fn waiting() -> Option<String> {
    let numbers = fs::read_dir("/proc").ok()?.flatten().filter_map(|e| e.file_name().to_str()?.parse::<i32>().ok());
    let own = i32::try_from(std::process::id()).ok()?;
    let read = |number: i32| {
        let stat = fs::read_to_string(format!("/proc/{number}/stat")).ok()?;
        // The name may contain anything.
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
        let is_dead = fields.next()? == "Z";
        let mut number_of = || fields.next()?.parse().ok();
        let (parent, group) = (number_of()?, number_of()?);
        (!is_dead).then_some(Process([number, parent, group]))
    };
    let all: Vec<Process> = numbers.filter_map(read).collect();
    let is_leaf =
        |Process([number, ..]): &&Process| *number > own && !all.iter().any(|Process([_, parent, _])| parent == number);
    let leaves: Vec<&Process> = all.iter().filter(is_leaf).collect();
    let Process([.., group]) = leaves.iter().max_by_key(|Process([number, ..])| number)?;
    let mut of_group = leaves.iter().filter(|Process([.., other])| other == group).map(|Process([number, ..])| number);
    let bytes = fs::read(format!("/proc/{}/cmdline", of_group.by_ref().min()?)).ok()?;
    let text = String::from_utf8_lossy(&bytes).replace('\0', " ");
    let line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let cut = line.char_indices().nth(SHOWN).map(|(at, _)| format!("{}…", &line[..at]));
    Some(cut.unwrap_or(line)).filter(|line| !line.is_empty())
}
