//! The only door to the world: clock, randomness, environment, files, processes, network.
//!
//! What runs asks a [`Host`] and nothing else, so a test can put a [`fake::FakeHost`] in its place. The compiler needs
//! only [`disk`], which is there without the feature `run` as well.

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
    door::{Host, Stamp},
    exec::{Captured, Exec, Exit, Finished, Handle, Leftover, Process, ROOM, StartFault, Stdin},
    fake::FakeHost,
    http::{HttpFault, HttpFaultKind, HttpRequest, HttpResponse},
    real::{Gathered, RealHost},
    snapshot::{Original, Snapshot},
    tree::{MARK, place, started},
    with_env::WithEnv,
};

/// Why a program cannot be started that [`Host::which`] does not find.
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

    /// Which file it is, and when it was changed last: nobody but the system's clock decides that.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Stamp {
        pub file: (u64, u64),
        pub changed: (i64, i64),
    }

    /// The world as a run sees it.
    pub trait Host: Send + Sync {
        /// The time of day.
        fn now(&self) -> jiff::Timestamp;
        /// Time since this host was made, from a clock that never goes back.
        fn elapsed(&self) -> Duration;
        /// Ends when the time is over, on the clock of [`Self::elapsed`].
        fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()>;
        /// Eight characters of `a–z` and `0–9`.
        fn random_id(&self) -> String;
        /// A TCP port of 127.0.0.1 that nobody listened on a moment ago.
        fn free_port(&self) -> io::Result<u16>;
        /// A variable of the environment of gevals; `None` also where it is no Unicode.
        fn env(&self, name: &str) -> Option<String>;
        /// The program that `command` names on the PATH, or at its path if it has a slash; it must be executable.
        fn which(&self, command: &str) -> Option<PathBuf>;

        /// What can be read: contents, kind of file, entries of folders.
        fn files(&self) -> &dyn Files;
        /// Replaces or makes a file, whole or not at all. `mode` is the Unix one; without it a file keeps what it had.
        fn write(&self, path: &Path, bytes: &[u8], mode: Option<u32>) -> io::Result<()>;
        /// Removes a file, or a folder with all that is in it. Nothing there is no error.
        fn remove(&self, path: &Path) -> io::Result<()>;
        /// Makes a folder and those above it.
        fn create_dir_all(&self, path: &Path) -> io::Result<()>;
        /// The permission bits.
        fn mode(&self, path: &Path) -> io::Result<u32>;
        /// Sets the permissions of a file.
        fn set_mode(&self, path: &Path, mode: u32) -> io::Result<()>;
        /// A new, empty folder that only this user can enter; the caller removes it.
        fn temp_dir(&self) -> io::Result<PathBuf>;

        /// Copies of files, to run scripts from; `None` where nothing is run that could be changed.
        fn snapshot(&self, _originals: &[Original]) -> io::Result<Option<Snapshot>> {
            Ok(None)
        }
        /// Whether its processes are real, and can be kept apart from the machine.
        fn confines(&self) -> bool {
            false
        }
        /// What is another when a file was written or replaced, even if it holds the same again; `None` where nobody can tell.
        fn stamp(&self, _path: &Path) -> Option<Stamp> {
            None
        }

        /// Runs a process to its end, its limit or its cancellation.
        fn exec(&self, exec: Exec, cancel: CancellationToken) -> BoxFuture<'_, Finished>;
        /// Starts a process to talk to: a server, an agent.
        fn spawn(&self, exec: Exec) -> BoxFuture<'_, Result<Process, StartFault>>;
        /// What every process this host starts carries, and their children inherit: with it, a later gevals finds them.
        fn mark(&self) -> &str;
        /// Makes what an exec left in the background stand still, or go on.
        fn hold<'a>(&'a self, leftover: &'a mut Leftover, still: bool) -> BoxFuture<'a, ()>;
        /// Ends what an exec left in the background, politely at first. Returns how many processes that were.
        fn reap(&self, leftover: Leftover) -> BoxFuture<'_, usize>;
        /// Ends all processes of a host by its mark: of this one at the end of a run, of a dead one in `recover`.
        fn reap_marked(&self, mark: &str, grace: Duration) -> BoxFuture<'_, usize>;
        /// The control group that all of this host's processes are in, where there is one.
        fn group(&self) -> Option<PathBuf> {
            None
        }
        /// Ends all that is in the control group of the host with this mark, and removes it.
        fn reap_gathered<'a>(&'a self, _group: &'a Path, _mark: &'a str, _grace: Duration) -> BoxFuture<'a, usize> {
            Box::pin(std::future::ready(0))
        }
        /// Ends the process groups with these leaders, by pid and start: what is left of a dead run and shows no mark.
        fn reap_groups(&self, groups: Vec<(i32, u64)>, grace: Duration) -> BoxFuture<'_, usize>;

        /// Sends a request; a status of failure is an answer, no fault.
        fn http(&self, request: HttpRequest) -> BoxFuture<'_, Result<HttpResponse, HttpFault>>;

        /// Variables of its own: a process that is not started through it must be given them.
        fn given(&self) -> &[(String, String)] {
            &[]
        }

        /// Work begins that does not go through this host; it ends when the guard is dropped.
        fn outside(&self) -> Box<dyn std::any::Any + Send> {
            Box::new(())
        }
    }
}
