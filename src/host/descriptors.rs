//! The limit of open files of this process.
//!
//! The soft limit is often 1024, or less, for the sake of programs that use `select`. gevals raises its own to the hard limit, and
//! gives the processes that it starts the limit with which it was started itself.

use std::sync::OnceLock;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Files that gevals always has open: standard streams, the journal and the files beside it, the runtime's own.
const BASE: u64 = 40;
/// Files for each running server, as a process or over HTTP.
const SERVER: u64 = 8;
/// Files for each running task: the pipes of its processes while they are started and while they run, and those of its agent.
const TASK: u64 = 16;
/// Files of an agent for each server: the front that it is given, and its connections.
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

/// Gives a process that was just started the soft limit with which this one was started. It takes effect a moment after the start.
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

/// How many tasks can run in parallel, and how many files may be open; `None` if the limit suffices.
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
    fn the_number_of_tasks_is_limited_by_open_files() {
        assert_eq!(fits(64, 32, 0, false), Some((1, 64)));
        assert_eq!(fits(256, 32, 1, false), Some((10, 256)));
        assert_eq!(fits(256, 32, 1, true), Some((7, 256)));
        assert_eq!(fits(1024, 32, 1, false), None);
        assert_eq!(fits(8, 1, 3, false), None);
    }
}
