//! A host as one run of a task sees it: with a few more variables.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use super::{Entry, Exec, Finished, Host, HttpFault, HttpRequest, HttpResponse, Leftover, Process, StartFault};
use crate::source::Files;

/// Another host, whose processes and lookups have these variables.
pub struct WithEnv<'h> {
    host: Other<'h>,
    env: Vec<(String, String)>,
}

enum Other<'h> {
    Borrowed(&'h dyn Host),
    Shared(Arc<dyn Host>),
}

impl std::fmt::Debug for WithEnv<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WithEnv").field("env", &self.env).finish_non_exhaustive()
    }
}

impl<'h> WithEnv<'h> {
    /// The variables take precedence over those of the other host, but not over those that a process is given.
    pub fn new(host: &'h dyn Host, env: Vec<(String, String)>) -> Self {
        Self { host: Other::Borrowed(host), env }
    }

    /// The same, with shared ownership of the host.
    pub fn shared(host: Arc<dyn Host>, env: Vec<(String, String)>) -> Self {
        Self { host: Other::Shared(host), env }
    }

    fn host(&self) -> &dyn Host {
        match &self.host {
            Other::Borrowed(host) => *host,
            Other::Shared(host) => host.as_ref(),
        }
    }

    fn with(&self, mut exec: Exec) -> Exec {
        let own = self.env.iter().map(|(name, value)| (name.into(), value.into()));
        exec.env.splice(0..0, own);
        exec
    }
}

impl Host for WithEnv<'_> {
    fn now(&self) -> jiff::Timestamp {
        self.host().now()
    }

    fn elapsed(&self) -> Duration {
        self.host().elapsed()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        self.host().sleep(duration)
    }

    fn random_id(&self) -> String {
        self.host().random_id()
    }

    fn free_port(&self) -> io::Result<u16> {
        self.host().free_port()
    }

    fn env(&self, name: &str) -> Option<String> {
        let own = self.env.iter().find(|(own, _)| own == name).map(|(_, value)| value.clone());
        own.or_else(|| self.host().env(name))
    }

    fn which(&self, command: &str) -> Option<PathBuf> {
        self.host().which(command)
    }

    fn files(&self) -> &dyn Files {
        self.host().files()
    }

    fn entry(&self, path: &Path) -> io::Result<Option<Entry>> {
        self.host().entry(path)
    }

    fn write(&self, path: &Path, bytes: &[u8], mode: Option<u32>) -> io::Result<()> {
        self.host().write(path, bytes, mode)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.host().remove(path)
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.host().create_dir_all(path)
    }

    fn mode(&self, path: &Path) -> io::Result<u32> {
        self.host().mode(path)
    }

    fn set_mode(&self, path: &Path, mode: u32) -> io::Result<()> {
        self.host().set_mode(path, mode)
    }

    fn temp_dir(&self) -> io::Result<PathBuf> {
        self.host().temp_dir()
    }

    fn exec(&self, exec: Exec, cancel: CancellationToken) -> BoxFuture<'_, Finished> {
        self.host().exec(self.with(exec), cancel)
    }

    fn spawn(&self, exec: Exec) -> BoxFuture<'_, Result<Process, StartFault>> {
        self.host().spawn(self.with(exec))
    }

    fn mark(&self) -> &str {
        self.host().mark()
    }

    fn hold<'a>(&'a self, leftover: &'a mut Leftover, still: bool) -> BoxFuture<'a, ()> {
        self.host().hold(leftover, still)
    }

    fn reap(&self, leftover: Leftover) -> BoxFuture<'_, usize> {
        self.host().reap(leftover)
    }

    fn reap_marked(&self, mark: &str, grace: Duration) -> BoxFuture<'_, usize> {
        self.host().reap_marked(mark, grace)
    }

    fn reap_groups(&self, groups: Vec<(i32, u64)>, grace: Duration) -> BoxFuture<'_, usize> {
        self.host().reap_groups(groups, grace)
    }

    fn http(&self, request: HttpRequest) -> BoxFuture<'_, Result<HttpResponse, HttpFault>> {
        self.host().http(request)
    }

    fn given(&self) -> &[(String, String)] {
        &self.env
    }

    fn outside(&self) -> Box<dyn std::any::Any + Send> {
        self.host().outside()
    }
}
