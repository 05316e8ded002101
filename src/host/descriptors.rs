//! How many files this process may have open at a time.
//!
//! The soft limit is often 1024, or less: it is there for programs that use `select`. gevals raises its own to the hard limit,
//! and gives what it starts the limit back that it was started with.

use std::sync::OnceLock;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// What gevals has open whatever runs: standard streams, the journal and the files beside it, the runtime's own.
const BASE: u64 = 40;
/// A server that runs, as a process or behind HTTP.
const SERVER: u64 = 8;
/// A task that runs: its pipes while a process is started and while it lives, and its agent's.
const TASK: u64 = 16;
/// What an agent has open to each server: the door that it is given, and its connections.
const DOOR: u64 = 4;

/// The limits that this process was started with.
static BEFORE: OnceLock<Rlimit> = OnceLock::new();

/// Raises the soft limit to the hard one, once.
pub fn raise() {
    BEFORE.get_or_init(|| {
        let before = getrlimit(Resource::Nofile);
        if before.current != before.maximum {
            let _ = setrlimit(Resource::Nofile, Rlimit { current: before.maximum, maximum: before.maximum });
        }
        before
    });
}

/// Gives a process that was just started the soft limit that this one was started with. It has it a moment after its start.
pub fn give_back(pid: u32) {
    #[cfg(target_os = "linux")]
    if let Some(before) = BEFORE.get().filter(|before| before.current != before.maximum)
        && let Some(pid) = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw)
    {
        let _ = rustix::process::prlimit(Some(pid), Resource::Nofile, *before);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = pid;
}

/// How many tasks can run side by side, and how many files may be open; none where the limit is no hindrance.
pub fn too_few(tasks: usize, servers: usize, isolated: bool) -> Option<(usize, u64)> {
    fits(getrlimit(Resource::Nofile).current?, tasks, servers, isolated)
}

fn fits(limit: u64, tasks: usize, servers: usize, isolated: bool) -> Option<(usize, u64)> {
    let (tasks, servers) = (tasks as u64, servers as u64);
    let (shared, own) = if isolated { (SERVER, SERVER) } else { (SERVER, 0) };
    let base = BASE + servers * shared;
    let each = TASK + servers * (DOOR + own);
    let most = (limit.saturating_sub(base) / each).max(1);
    (most < tasks).then_some((most as usize, limit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fewer_tasks_need_fewer_files() {
        assert_eq!(fits(64, 32, 0, false), Some((1, 64)));
        assert_eq!(fits(256, 32, 1, false), Some((10, 256)));
        assert_eq!(fits(256, 32, 1, true), Some((7, 256)));
        assert_eq!(fits(1024, 32, 1, false), None);
        assert_eq!(fits(8, 1, 3, false), None);
    }
}
