//! This machine.
#![expect(clippy::disallowed_methods, reason = "this is the door to the world")]

use super::{
    Exec, Finished, Host, HttpFault, HttpRequest, HttpResponse, Leftover, Original, Process, Snapshot, Stamp,
    StartFault,
    disk::{self, Disk},
    exec, http,
    tree::{self, Tree},
};
use crate::source::Files;
use futures_util::future::BoxFuture;
use std::{
    fs, io,
    net::TcpListener,
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
}

impl RealHost {
    /// From here on, orphaned descendants of this process become its children: see `host::tree`.
    #[expect(clippy::new_without_default, reason = "making one changes this process")]
    pub fn new() -> Self {
        tree::adopt_orphans();
        Self {
            started: Instant::now(),
            mark: random_id(),
            on_start: exec::OnStart::default(),
            clients: http::Clients::default(),
        }
    }

    /// From here on `report` receives the pid of each new process group's leader.
    pub fn on_start(&self, report: impl Fn(u32) + Send + Sync + 'static) {
        let _ = self.on_start.0.set(Box::new(report));
    }

    fn exec_mark(&self) -> String {
        format!("{}.{}", self.mark, random_id())
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
        random_id()
    }

    fn free_port(&self) -> io::Result<u16> {
        Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
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

    fn write(&self, path: &Path, bytes: &[u8], mode: Option<u32>) -> io::Result<()> {
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
            let path = std::env::temp_dir().join(format!("gevals-{}", random_id()));
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
        let tree = Tree::of_host(mark.to_string(), mark == self.mark);
        Box::pin(async move { tree.end(grace).await.0.stragglers() })
    }

    fn reap_groups(&self, groups: Vec<(i32, u64)>, grace: Duration) -> BoxFuture<'_, usize> {
        let tree = Tree::of_groups(groups);
        Box::pin(async move { tree.end(grace).await.0.stragglers() })
    }

    fn http(&self, request: HttpRequest) -> BoxFuture<'_, Result<HttpResponse, HttpFault>> {
        Box::pin(self.clients.send(request))
    }
}

fn random_id() -> String {
    let letter = || char::from(b"abcdefghijklmnopqrstuvwxyz0123456789"[fastrand::usize(..36)]);
    std::iter::repeat_with(letter).take(8).collect()
}
