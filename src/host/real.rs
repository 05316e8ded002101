//! This machine.
#![expect(clippy::disallowed_methods, reason = "this is the door to the world")]

use super::{
    Entry, Exec, Finished, Host, HttpFault, HttpRequest, HttpResponse, Leftover, Original, Process, Snapshot, Stamp,
    StartFault, descriptors,
    disk::{self, Disk},
    exec, http, listen,
    tree::{self, Tree},
};
use crate::{random, source::Files};
use futures_util::future::BoxFuture;
use std::{
    fs, io,
    os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};
use tokio_util::sync::CancellationToken;

/// The machine gevals runs on. Its processes need a tokio runtime with IO and time.
#[derive(Debug)]
pub struct RealHost {
    started: Instant,
    mark: String,
    on_start: exec::OnStart,
    clients: http::Clients,
    /// The directory of the control group of this process.
    group: Option<PathBuf>,
}

/// As long as it lives, this process and everything it starts are in a control group of their own, if the system allows one.
#[derive(Debug)]
pub struct Gathered {
    mark: String,
    #[cfg(target_os = "linux")]
    group: Option<super::cgroup::Group>,
}

impl Gathered {
    /// Enters a new control group. The system may need some hundredths of a second for that.
    pub fn enter() -> Self {
        let mark = random::word();
        Self {
            #[cfg(target_os = "linux")]
            group: super::cgroup::Group::enter(&mark),
            mark,
        }
    }

    #[cfg(target_os = "linux")]
    fn path(&self) -> Option<PathBuf> {
        self.group.as_ref().map(|group| group.path().to_owned())
    }

    #[cfg(not(target_os = "linux"))]
    fn path(&self) -> Option<PathBuf> {
        None
    }
}

impl RealHost {
    /// From here on, orphaned descendants of this process become its children: see `host::tree`. And it may have as many files
    /// open as the system permits: see `host::descriptors`.
    #[expect(clippy::new_without_default, reason = "making one changes this process")]
    pub fn new() -> Self {
        tree::adopt_orphans();
        descriptors::raise();
        Self {
            started: Instant::now(),
            mark: random::word(),
            on_start: exec::OnStart::default(),
            clients: http::Clients::default(),
            group: None,
        }
    }

    /// The same, for a process in this control group: what it starts is found there.
    pub fn within(group: &Gathered) -> Self {
        Self { mark: group.mark.clone(), group: group.path(), ..Self::new() }
    }

    /// From here on, `report` receives the pid of the leader of each new process group.
    pub fn on_start(&self, report: impl Fn(u32) + Send + Sync + 'static) {
        let _ = self.on_start.0.set(Box::new(report));
    }

    fn exec_mark(&self) -> String {
        format!("{}.{}", self.mark, random::word())
    }
}

impl Host for RealHost {
    fn now(&self) -> jiff::Timestamp {
        jiff::Timestamp::now()
    }

    fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration))
    }

    fn random_id(&self) -> String {
        random::word()
    }

    fn free_port(&self) -> io::Result<u16> {
        listen::free_port()
    }

    fn env(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }

    fn which(&self, command: &str) -> Option<PathBuf> {
        let found = exec::find(command.as_ref(), Path::new(""), std::env::var_os("PATH").as_deref())?;
        found.metadata().is_ok_and(|meta| meta.is_file() && disk::is_executable(&meta)).then_some(found)
    }

    fn files(&self) -> &dyn Files {
        &Disk
    }

    fn entry(&self, path: &Path) -> io::Result<Option<Entry>> {
        disk::entry(path)
    }

    fn write(&self, path: &Path, bytes: &[u8], mode: Option<u32>) -> io::Result<()> {
        if let Some(Entry::Special(kind)) = disk::entry(path)? {
            return Err(io::Error::other(format!("it is {kind}, not a file")));
        }
        disk::write_with(path, bytes, mode)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let removed = match fs::symlink_metadata(path) {
            Ok(meta) if meta.is_dir() => fs::remove_dir_all(path),
            Ok(_) => fs::remove_file(path),
            Err(e) => Err(e),
        };
        removed.or_else(|e| if e.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(e) })
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        fs::create_dir_all(path)
    }

    fn mode(&self, path: &Path) -> io::Result<u32> {
        Ok(fs::metadata(path)?.permissions().mode() & 0o7777)
    }

    fn set_mode(&self, path: &Path, mode: u32) -> io::Result<()> {
        disk::set_mode(path, mode)
    }

    fn temp_dir(&self) -> io::Result<PathBuf> {
        loop {
            let path = std::env::temp_dir().join(format!("gevals-{}", random::word()));
            match fs::DirBuilder::new().mode(0o700).create(&path) {
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                made => return made.map(|()| path),
            }
        }
    }

    fn snapshot(&self, originals: &[Original]) -> io::Result<Option<Snapshot>> {
        Snapshot::new(self.temp_dir()?, originals).map(Some)
    }

    fn confines(&self) -> bool {
        true
    }

    fn stamp(&self, path: &Path) -> Option<Stamp> {
        let meta = fs::metadata(path).ok()?;
        Some(Stamp { file: (meta.dev(), meta.ino()), changed: (meta.ctime(), meta.ctime_nsec()) })
    }

    fn exec(&self, exec: Exec, cancel: CancellationToken) -> BoxFuture<'_, Finished> {
        Box::pin(exec::run(exec, self.exec_mark(), cancel, &self.on_start))
    }

    fn spawn(&self, exec: Exec) -> BoxFuture<'_, Result<Process, StartFault>> {
        Box::pin(exec::spawn(exec, self.exec_mark(), &self.on_start))
    }

    fn mark(&self) -> &str {
        &self.mark
    }

    fn hold<'a>(&'a self, leftover: &'a mut Leftover, still: bool) -> BoxFuture<'a, ()> {
        Box::pin(leftover.hold(still))
    }

    fn reap(&self, leftover: Leftover) -> BoxFuture<'_, usize> {
        Box::pin(leftover.reap())
    }

    fn reap_marked(&self, mark: &str, grace: Duration) -> BoxFuture<'_, usize> {
        let own = mark == self.mark;
        let group = self.group().filter(|_| own);
        let tree = Tree::of_host(mark.to_string(), own).in_group(group);
        Box::pin(async move { tree.end(grace).await.0.stragglers() })
    }

    fn group(&self) -> Option<PathBuf> {
        self.group.clone()
    }

    #[cfg(target_os = "linux")]
    fn reap_gathered<'a>(&'a self, group: &'a Path, mark: &'a str, grace: Duration) -> BoxFuture<'a, usize> {
        Box::pin(async move {
            if !super::cgroup::is_of(group, mark) {
                return 0;
            }
            let tree = Tree::of_groups(Vec::new()).in_group(Some(group.to_owned()));
            let ended = tree.end(grace).await.0.stragglers();
            let _ = super::cgroup::remove(group);
            ended
        })
    }

    fn reap_groups(&self, groups: Vec<(i32, u64)>, grace: Duration) -> BoxFuture<'_, usize> {
        let tree = Tree::of_groups(groups);
        Box::pin(async move { tree.end(grace).await.0.stragglers() })
    }

    fn http(&self, request: HttpRequest) -> BoxFuture<'_, Result<HttpResponse, HttpFault>> {
        Box::pin(self.clients.send(request))
    }
}
