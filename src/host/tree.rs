//! Which processes belong to an exec, and how all of them are ended.
//!
//! A process belongs if it is in the leader's group, if it has the exec's mark in its environment, or if its parent
//! belongs. The mark is inherited, so it finds what has left the group (`setsid`, a double fork). It is a list, so that
//! a gevals which runs inside a step of another one does not hide its processes.
//!
//! A daemon that left the group, lost its parent and overwrote its environment (nginx and postgres do so to set a title) cannot
//! be distinguished from one of another exec. But as an orphan it became our child, and is found when the whole host is ended; and
//! if the host has a control group ([`super::cgroup`]), a later gevals finds it as well.
//!
//! The leader is not reaped as long as its tree is in use, so its pid, which names the group, cannot be given to
//! another process meanwhile. Outside of Linux there is no `/proc`, and only the group is known.

#![cfg_attr(target_os = "linux", expect(clippy::disallowed_methods, reason = "/proc is read here"))]

use rustc_hash::FxHashSet;
use rustix::process::{Pid, Signal, kill_process_group};
use std::{
    collections::HashSet,
    path::PathBuf,
    sync::{LazyLock, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// The environment variable with the mark.
pub const MARK: &str = "GEVALS_EXEC";

/// The leaders of all trees of this process that it has not reaped. None of them belongs to the tree of another one, so
/// that their environments need not be read.
static LEADERS: LazyLock<Mutex<FxHashSet<Pid>>> = LazyLock::new(Mutex::default);

fn leaders() -> MutexGuard<'static, FxHashSet<Pid>> {
    LEADERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Marks a process as a leader until this is dropped, which must happen before the process is reaped.
#[derive(Debug)]
pub struct Leads(Pid);

impl Leads {
    pub fn its_tree(leader: Pid) -> Self {
        leaders().insert(leader);
        Self(leader)
    }
}

impl Drop for Leads {
    fn drop(&mut self) {
        leaders().remove(&self.0);
    }
}

/// The processes of one exec, or of one host if there is no leader. Dropping it kills them.
#[derive(Debug)]
pub struct Tree {
    mark: String,
    leader: Option<Pid>,
    /// Whether orphans that became our children, come from another session and have no mark belong as well.
    strays: bool,
    /// Leaders of groups that belong entirely, by pid and start.
    groups: Vec<(i32, u64)>,
    /// A control group whose processes all belong.
    gathered: Option<PathBuf>,
    /// Everything that ever belonged, by pid and start time: if it dies as our adopted child, it is ours to reap.
    known: HashSet<(i32, u64)>,
    /// Of these, the ones other than the leader that had left its group or outlived it when they were ended.
    stragglers: HashSet<(i32, u64)>,
    armed: bool,
}

impl Tree {
    pub fn of_exec(mark: String, leader: Option<Pid>) -> Self {
        Self {
            mark,
            leader,
            strays: false,
            groups: Vec::new(),
            gathered: None,
            known: HashSet::new(),
            stragglers: HashSet::new(),
            armed: true,
        }
    }

    /// All processes of a host. Only the host of this process can have strays.
    pub fn of_host(mark: String, strays: bool) -> Self {
        let mut tree = Self::of_exec(mark, None);
        tree.strays = strays;
        tree
    }

    /// Groups of a dead gevals, with all processes in them.
    pub fn of_groups(groups: Vec<(i32, u64)>) -> Self {
        // A mark that no process has.
        let mut tree = Self::of_exec("-".to_owned(), None);
        tree.groups = groups;
        tree
    }

    /// Adds everything in a control group.
    pub fn in_group(mut self, group: Option<PathBuf>) -> Self {
        self.gathered = group;
        self
    }

    pub fn stragglers(&self) -> usize {
        self.stragglers.len()
    }

    /// Lets its processes live on.
    pub fn release(mut self) {
        self.armed = false;
    }

    /// Returns whether anything except a dead leader is left; if not, the tree is done.
    pub async fn check(mut self) -> (Self, bool) {
        if self.is_alone() {
            self.armed = false;
            return (self, false);
        }
        let work = self.blocking(|tree| {
            tree.armed = !tree.sweep().is_empty();
            tree.armed
        });
        work.await
    }

    /// Sends SIGTERM, and SIGKILL to what is still alive after `grace`. Returns true if the leader had to be killed.
    pub async fn end(mut self, grace: Duration) -> (Self, bool) {
        if self.is_empty() {
            self.armed = false;
            return (self, false);
        }
        self = self.signal_and_note(Signal::TERM).await;
        let mut killed = false;
        let asked = tokio::time::Instant::now();
        loop {
            let alive;
            (self, alive) = self.blocking(Self::sweep).await;
            if alive.is_empty() {
                break;
            }
            if asked.elapsed() >= grace {
                killed = alive.iter().any(|p| Some(p.pid) == self.leader);
                break;
            }
            tokio::time::sleep(Duration::from_millis(15)).await;
        }
        // A process can fork between the sweep and the signal, so killing continues until a sweep finds nothing.
        self = self.signal_and_note(Signal::KILL).await;
        for _ in 0..200 {
            let left;
            (self, left) = self.blocking(|tree| tree.signal(Signal::KILL)).await;
            if left.is_empty() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        self.armed = false;
        (self, killed)
    }

    /// Stops everything that belongs, or lets it continue.
    pub async fn hold(mut self, still: bool) -> Self {
        // A process can fork between the sweep and the signal, so this continues until a sweep finds nothing else.
        for _ in 0..200 {
            let moving;
            (self, moving) = self
                .blocking(move |tree| {
                    let alive = tree.sweep();
                    let signal = if still { Signal::STOP } else { Signal::CONT };
                    if let Some(group) = tree.leader {
                        let _ = kill_process_group(group, signal);
                    }
                    alive.iter().for_each(|p| p.signal(signal));
                    alive.iter().any(|p| p.stopped.is_some_and(|stopped| stopped != still))
                })
                .await;
            if !moving {
                break;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        self
    }

    async fn blocking<T: Send + 'static>(mut self, f: impl FnOnce(&mut Self) -> T + Send + 'static) -> (Self, T) {
        let work = tokio::task::spawn_blocking(move || {
            let value = f(&mut self);
            (self, value)
        });
        match work.await {
            Ok(done) => done,
            Err(e) => match e.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // The runtime is shutting down, and the tree was dropped with its task.
                Err(_) => std::future::pending().await,
            },
        }
    }

    async fn signal_and_note(self, signal: Signal) -> Self {
        let work = self.blocking(move |tree| {
            let alive = tree.signal(signal);
            let leader_lives = alive.iter().any(|p| Some(p.pid) == tree.leader);
            let strays = alive.iter().filter(|p| Some(p.group) != tree.leader || !leader_lives);
            tree.stragglers.extend(strays.map(|p| (p.pid.as_raw_pid(), p.start)));
        });
        work.await.0
    }

    /// Sends the signal to everything that belongs, and returns these processes.
    fn signal(&mut self, signal: Signal) -> Vec<Proc> {
        let alive = self.sweep();
        if let Some(group) = self.leader {
            // The whole group at once, so that no process in it can escape by a fork; a stopped process must continue in order to die.
            let _ = kill_process_group(group, signal);
            let _ = kill_process_group(group, Signal::CONT);
        }
        for p in alive.iter().filter(|p| Some(p.group) != self.leader) {
            p.signal(signal);
            p.signal(Signal::CONT);
        }
        alive
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        if self.armed {
            for _ in 0..20 {
                if self.signal(Signal::KILL).is_empty() {
                    break;
                }
            }
        }
    }
}

/// One process, as it was a moment ago.
#[derive(Clone, Debug)]
struct Proc {
    pid: Pid,
    parent: Option<Pid>,
    group: Pid,
    session: Option<Pid>,
    start: u64,
    zombie: bool,
    /// `None` if the system does not report it.
    stopped: Option<bool>,
}

#[cfg(target_os = "linux")]
mod platform {
    use super::{super::cgroup::members, MARK, Proc, Tree, leaders};
    use rustix::{
        io::Errno,
        process::{self, Pid, PidfdFlags, Signal, WaitOptions},
    };
    use std::{fs::File, io::Read, path::Path};

    /// Orphans of our children become our children, so that they can be found by descent and reaped.
    pub fn adopt_orphans() {
        let _ = process::set_child_subreaper(Some(process::getpid()));
    }

    impl Tree {
        /// The living processes that belong. Also reaps the dead ones that became our children.
        pub(super) fn sweep(&mut self) -> Vec<Proc> {
            let own = process::getpid();
            let (mut dead, mut rest): (Vec<_>, Vec<_>) = processes().partition(|p| p.zombie);
            let mut alive: Vec<Proc> = Vec::new();
            // A pid is reused when the group is empty; a new leader has another start.
            let groups: Vec<_> = self
                .groups
                .iter()
                .filter(|(pid, start)| {
                    let leader = rest.iter().chain(&dead).find(|p| p.pid.as_raw_pid() == *pid);
                    leader.is_none_or(|leader| leader.start == *start)
                })
                .collect();
            let gathered = self.gathered.as_deref().map(members).unwrap_or_default();
            let in_group = |p: &Proc| {
                gathered.contains(&p.pid.as_raw_pid())
                    || groups.iter().any(|(pid, start)| p.group.as_raw_pid() == *pid && p.start >= *start)
            };
            loop {
                let belongs = |p: &Proc| {
                    p.pid != own
                        && (Some(p.group) == self.leader
                            || self.known.contains(&(p.pid.as_raw_pid(), p.start))
                            || alive.iter().any(|a| Some(a.pid) == p.parent)
                            || alive.is_empty() && (in_group(p) || self.is_marked(p, own)))
                };
                let (found, others): (Vec<_>, Vec<_>) = rest.into_iter().partition(belongs);
                rest = others;
                if found.is_empty() {
                    break;
                }
                alive.extend(found);
            }
            self.known.extend(alive.iter().map(|p| (p.pid.as_raw_pid(), p.start)));
            dead.retain(|p| p.parent == Some(own) && Some(p.pid) != self.leader);
            for p in dead {
                if Some(p.group) == self.leader || self.known.contains(&(p.pid.as_raw_pid(), p.start)) {
                    let _ = process::waitpid(Some(p.pid), WaitOptions::NOHANG);
                }
            }
            alive
        }

        /// Whether nothing outlived the leader, as far as that can be known without reading every process: what it left behind
        /// has become our child, or descends from one that has.
        pub(super) fn is_alone(&self) -> bool {
            let own = process::getpid();
            let Some(children) = children() else { return false };
            let others: Vec<Pid> = {
                let leaders = leaders();
                children.into_iter().filter(|child| Some(*child) != self.leader && !leaders.contains(child)).collect()
            };
            let others = others.into_iter().filter_map(stat);
            others.fold(true, |alone, p| {
                let in_group = Some(p.group) == self.leader;
                if p.zombie && in_group {
                    let _ = process::waitpid(Some(p.pid), WaitOptions::NOHANG);
                }
                alone && (p.zombie || !in_group && !self.is_marked(&p, own))
            })
        }

        /// Whether this tree is certainly everything that this process has started, and nothing of it lives: it would be a child or descend
        /// from one, because orphans become children of this process; or it would be in the control group.
        pub(super) fn is_empty(&self) -> bool {
            let own = process::getpid().as_raw_pid();
            self.strays
                && self.gathered.as_deref().map(members).unwrap_or_default().iter().all(|member| *member == own)
                && children().is_some_and(|children| children.into_iter().filter_map(stat).all(|p| p.zombie))
        }

        fn is_marked(&self, p: &Proc, own: Pid) -> bool {
            let marks = marks(p.pid);
            // `HOST` matches `HOST.EXEC`.
            let is_ours = |m: &Vec<u8>| {
                m.strip_prefix(self.mark.as_bytes()).is_some_and(|rest| rest.is_empty() || rest[0] == b'.')
            };
            // What this process starts stays in its session; a child in another session can only be an orphan.
            let is_stray = || marks.is_empty() && p.parent == Some(own) && p.session != session(own);
            marks.iter().any(is_ours) || self.strays && is_stray()
        }
    }

    impl Proc {
        pub(super) fn signal(&self, signal: Signal) {
            match process::pidfd_open(self.pid, PidfdFlags::empty()) {
                // The descriptor is bound to one process; only when it is open is it certain that the pid still means the same one.
                Ok(fd) if stat(self.pid).is_some_and(|p| p.start == self.start) => {
                    let _ = process::pidfd_send_signal(fd, signal);
                }
                Err(Errno::NOSYS | Errno::PERM) => {
                    let _ = process::kill_process(self.pid, signal);
                }
                _ => {}
            }
        }
    }

    /// The scope in which pids are valid: this boot, and this container.
    pub fn place() -> String {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let container = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
        format!("{} {}", boot.trim(), container.display())
    }

    /// When the process started, in ticks since the boot.
    pub fn started(pid: u32) -> Option<u64> {
        stat(Pid::from_raw(pid.try_into().ok()?)?).map(|p| p.start)
    }

    /// The children of this process; `None` if the kernel does not report them.
    fn children() -> Option<Vec<Pid>> {
        let mut children = Vec::new();
        for thread in std::fs::read_dir("/proc/self/task").ok()?.flatten() {
            // If there is no such file, the thread has just ended, and its children belong to another one; or the kernel
            // reports no children at all.
            let list = String::from_utf8(read(thread.path().join("children"))?).ok()?;
            children.extend(list.split_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)));
        }
        Some(children)
    }

    /// Reads a file of `/proc`, whose size the system does not report, in as few calls as possible.
    fn read(path: impl AsRef<Path>) -> Option<Vec<u8>> {
        let mut text = Vec::with_capacity(4096);
        // `take` keeps the library from asking for the size.
        File::open(path).ok()?.take(u64::MAX).read_to_end(&mut text).ok()?;
        Some(text)
    }

    fn processes() -> impl Iterator<Item = Proc> {
        let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        entries.filter_map(|e| stat(Pid::from_raw(e.file_name().to_str()?.parse().ok()?)?))
    }

    fn stat(pid: Pid) -> Option<Proc> {
        let text = read(format!("/proc/{pid}/stat"))?;
        // The name of the program, in parentheses, may contain anything; the fields follow the last parenthesis.
        let fields = String::from_utf8_lossy(&text[text.iter().rposition(|&b| b == b')')? + 1..]).into_owned();
        let mut fields = fields.split_ascii_whitespace();
        let state = fields.next()?;
        Some(Proc {
            pid,
            parent: known(fields.next()?),
            group: known(fields.next()?)?,
            session: known(fields.next()?),
            start: fields.nth(15)?.parse().ok()?,
            zombie: matches!(state, "Z" | "X"),
            stopped: Some(matches!(state, "T" | "t")),
        })
    }

    /// `getsid` has no answer in a container whose session started outside of it: the kernel writes 0, which is no process.
    fn session(pid: Pid) -> Option<Pid> {
        stat(pid)?.session
    }

    /// A process that is going away has no group or session any more: the kernel writes -1.
    fn known(field: &str) -> Option<Pid> {
        field.parse().ok().filter(|raw| *raw > 0).and_then(Pid::from_raw)
    }

    /// The marks in the environment with which the process was started.
    fn marks(pid: Pid) -> Vec<Vec<u8>> {
        let environ = read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let lists = environ.split(|&b| b == 0).filter_map(|v| v.strip_prefix(MARK.as_bytes())?.strip_prefix(b"="));
        lists.flat_map(|list| list.split(|&b| b == b',')).map(<[u8]>::to_vec).collect()
    }
}

#[cfg(not(target_os = "linux"))]
mod platform {
    use super::{Proc, Tree};
    use rustix::process::{Signal, WaitId, WaitIdOptions, test_kill_process_group, waitid};

    pub fn adopt_orphans() {}

    pub fn place() -> String {
        String::new()
    }

    /// Not known outside of Linux.
    pub fn started(_: u32) -> Option<u64> {
        None
    }

    impl Tree {
        pub(super) fn is_alone(&self) -> bool {
            false
        }

        pub(super) fn is_empty(&self) -> bool {
            false
        }

        /// While the leader lives, it represents its group; afterwards the group is checked itself.
        pub(super) fn sweep(&mut self) -> Vec<Proc> {
            let Some(leader) = self.leader else { return Vec::new() };
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
            let alive = match waitid(WaitId::Pid(leader), options) {
                Ok(status) => status.is_none(),
                Err(_) => test_kill_process_group(leader).is_ok(),
            };
            let group = Proc {
                pid: leader,
                parent: None,
                group: leader,
                session: None,
                start: 0,
                zombie: false,
                stopped: None,
            };
            if alive { vec![group] } else { Vec::new() }
        }
    }

    impl Proc {
        pub(super) fn signal(&self, _: Signal) {}
    }
}

pub use platform::{adopt_orphans, place, started};
