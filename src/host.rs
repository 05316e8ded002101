//! The only access to the world: clock, randomness, environment, files, processes, network.
//!
//! Code that runs uses a [`Host`] and nothing else, so a test can replace it with a [`fake::FakeHost`]. The compiler needs
//! only [`disk`], which is also available without the feature `run`.

pub mod cache;
#[cfg(feature = "run")]
mod capability;
#[cfg(all(feature = "run", target_os = "linux"))]
mod cgroup;
#[cfg(feature = "run")]
pub mod descriptors;
pub mod disk;
#[cfg(feature = "run")]
pub mod exec;
#[cfg(feature = "run")]
pub mod fake;
#[cfg(feature = "run")]
pub mod http;
#[cfg(feature = "run")]
pub mod listen;
#[cfg(feature = "run")]
mod real;
#[cfg(feature = "run")]
mod snapshot;
pub mod trail;
#[cfg(feature = "run")]
mod tree;
pub mod stamps;
#[cfg(feature = "run")]
mod with_env;
pub mod within;

#[cfg(feature = "run")]
pub use self::{
    capability::{Capability, is_same},
    door::{Entry, Host, Stamp},
    exec::{Captured, Exec, Exit, Finished, Handle, Leftover, Process, ROOM, StartFault, Stdin},
    fake::FakeHost,
    http::{HttpFault, HttpFaultKind, HttpRequest, HttpResponse},
    real::{Gathered, RealHost},
    snapshot::{INLINE, Original, Snapshot},
    tree::{MARK, place, started},
    with_env::WithEnv,
};

/// Why a program that [`Host::which`] does not find cannot be started.
#[cfg(feature = "run")]
pub fn absent(program: &str) -> &'static str {
    if program.contains('/') { "is not an executable program" } else { "is not on the PATH" }
}

#[cfg(feature = "run")]
mod door {
    use super::*;
    use crate::source::Files;
    use futures_util::future::BoxFuture;
    use std::{
        io,
        path::{Path, PathBuf},
        time::Duration,
    };
    use tokio_util::sync::CancellationToken;

    /// Which file it is, and when it was last changed: the system sets this time, programs cannot.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Stamp {
        pub file: (u64, u64),
        pub changed: (i64, i64),
    }

    /// What is at a path.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum Entry {
        File,
        Dir,
        LinkToDir,
        /// A link that leads nowhere, or in a circle.
        BrokenLink,
        /// Neither a file nor a directory: `a pipe`, `a socket`, `a device`.
        Special(&'static str),
    }

    /// The world as a run sees it.
    pub trait Host: Send + Sync {
        /// The current time.
        fn now(&self) -> jiff::Timestamp;
        /// The time since this host was created, from a clock that never goes back.
        fn elapsed(&self) -> Duration;
        /// Completes after this time, on the clock of [`Self::elapsed`].
        fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()>;
        /// Eight characters of `a–z` and `0–9`.
        fn random_id(&self) -> String;
        /// A TCP port of 127.0.0.1 on which nothing was listening a moment ago.
        fn free_port(&self) -> io::Result<u16>;
        /// An environment variable of gevals; `None` also if its value is not Unicode.
        fn env(&self, name: &str) -> Option<String>;
        /// The program that `command` names on the PATH, or at its path if it contains a slash; it must be executable.
        fn which(&self, command: &str) -> Option<PathBuf>;

        /// What can be read: contents, kinds of files, entries of directories.
        fn files(&self) -> &dyn Files;
        /// What is at a path; `None` if nothing is there.
        ///
        /// # Errors
        /// That cannot be determined: a directory on the way cannot be entered.
        fn entry(&self, path: &Path) -> io::Result<Option<Entry>> {
            let entry = |stat| if stat == crate::source::Stat::Dir { Entry::Dir } else { Entry::File };
            Ok(self.files().stat(path).map(entry))
        }
        /// Creates or replaces a file, completely or not at all. `mode` is the Unix mode; without it a file keeps its mode. What is
        /// neither a file nor a directory is not written to: a pipe without a reader blocks forever.
        fn write(&self, path: &Path, bytes: &[u8], mode: Option<u32>) -> io::Result<()>;
        /// Removes a file, or a directory with its contents. It is not an error if nothing exists.
        fn remove(&self, path: &Path) -> io::Result<()>;
        /// Creates a directory and its parents.
        fn create_dir_all(&self, path: &Path) -> io::Result<()>;
        /// The permission bits.
        fn mode(&self, path: &Path) -> io::Result<u32>;
        /// Sets the permissions of a file.
        fn set_mode(&self, path: &Path, mode: u32) -> io::Result<()>;
        /// Creates an empty directory that only this user can enter; the caller removes it.
        fn temp_dir(&self) -> io::Result<PathBuf>;

        /// Copies of files, from which scripts are run; `None` if nothing is run that could be changed.
        fn snapshot(&self, _originals: &[Original]) -> io::Result<Option<Snapshot>> {
            Ok(None)
        }
        /// Whether its processes are real, and can be isolated from the machine.
        fn confines(&self) -> bool {
            false
        }
        /// A stamp that changes when a file is written or replaced, even with the same content; `None` if that cannot be determined.
        fn stamp(&self, _path: &Path) -> Option<Stamp> {
            None
        }

        /// Runs a process until it ends, reaches its timeout or is canceled.
        fn exec(&self, exec: Exec, cancel: CancellationToken) -> BoxFuture<'_, Finished>;
        /// Starts a process to communicate with: a server, an agent.
        fn spawn(&self, exec: Exec) -> BoxFuture<'_, Result<Process, StartFault>>;
        /// The mark of every process that this host starts, which their children inherit: a later gevals finds them by it.
        fn mark(&self) -> &str;
        /// Stops what an exec left in the background, or lets it continue.
        fn hold<'a>(&'a self, leftover: &'a mut Leftover, still: bool) -> BoxFuture<'a, ()>;
        /// Ends what an exec left in the background, first with SIGTERM. Returns the number of processes.
        fn reap(&self, leftover: Leftover) -> BoxFuture<'_, usize>;
        /// Ends all processes of a host by its mark: of this one at the end of a run, of a dead one in `recover`.
        fn reap_marked(&self, mark: &str, grace: Duration) -> BoxFuture<'_, usize>;
        /// The control group of all processes of this host, if there is one.
        fn group(&self) -> Option<PathBuf> {
            None
        }
        /// Ends everything in the control group of the host with this mark, and removes the group.
        fn reap_gathered<'a>(&'a self, _group: &'a Path, _mark: &'a str, _grace: Duration) -> BoxFuture<'a, usize> {
            Box::pin(std::future::ready(0))
        }
        /// Ends the process groups with these leaders, by pid and start: what is left of a dead run and has no mark.
        fn reap_groups(&self, groups: Vec<(i32, u64)>, grace: Duration) -> BoxFuture<'_, usize>;

        /// Sends a request. An error status is an answer, not a fault.
        fn http(&self, request: HttpRequest) -> BoxFuture<'_, Result<HttpResponse, HttpFault>>;

        /// The variables that this host adds: a process that is not started through it must be given them.
        fn given(&self) -> &[(String, String)] {
            &[]
        }

        /// Announces work that does not go through this host; it ends when the guard is dropped.
        fn outside(&self) -> Box<dyn std::any::Any + Send> {
            Box::new(())
        }
    }
}
