//! `gevals.lock`, as the commands about evals read it: what the evals of a server were when they were locked.

use std::path::{Path, PathBuf};

use super::{Fault, Reach, Reached};
use crate::{
    cli::status,
    diagnostic::visible,
    evals::Server,
    host::disk::Disk,
    lock::{self, EvalChanges, Lock, LockedEvals},
    source::Files,
};

/// Where the evals of a server are locked.
pub struct Pinned {
    /// Of the lock.
    pub path: PathBuf,
    /// The server's name in an MCP config.
    configured: Option<String>,
}

impl Pinned {
    /// In this lock; without one, in that beside the MCP config or in the current folder.
    pub fn of(lock: Option<&Path>, reach: &Reach, reached: &Reached) -> Self {
        let config = reach.mcp_config.as_deref();
        let beside = || config.and_then(Path::parent).unwrap_or(Path::new("")).join(lock::FILE_NAME);
        let configured = config.map(|_| reached.spec.name.clone());
        Self { path: lock.map_or_else(beside, Path::to_owned), configured }
    }

    /// What the lock knows the server by.
    pub fn name<'n>(&'n self, server: &'n Server) -> &'n str {
        self.configured.as_deref().unwrap_or(&server.name)
    }

    /// The lock; `None` where there is no file.
    ///
    /// # Errors
    /// It cannot be read: what it holds must not be lost.
    pub fn read(&self) -> Result<Option<Lock>, Fault> {
        let fault = |why: String| {
            let help = "restore it, or delete it and recreate it with `gevals evals lock` and `gevals lock`";
            (status::USAGE, format!("cannot read `{}`: {why}; {help}", self.path.display()))
        };
        match Disk.stat(&self.path) {
            None => Ok(None),
            Some(_) => {
                let bytes = Disk.read(&self.path).map_err(|error| fault(error.to_string()))?;
                let text = String::from_utf8(bytes).map_err(|_| fault("it is not valid UTF-8".to_owned()))?;
                Lock::parse(&text).map(Some).map_err(fault)
            }
        }
    }

    /// The evals of the server, as they were locked.
    ///
    /// # Errors
    /// They are not.
    pub fn evals(&self, server: &Server) -> Result<LockedEvals, Fault> {
        let help = "`gevals evals lock` creates it";
        let usage = |why: String| Err((status::USAGE, format!("{why}; {help}")));
        let path = self.path.display();
        let Some(lock) = self.read()? else { return usage(format!("`{path}` does not exist")) };
        let name = self.name(server);
        match lock.evals.get(name) {
            Some(evals) => Ok(evals.clone()),
            None => usage(format!("`{path}` has no evals of the server `{name}`")),
        }
    }
}

/// Changes, one a line and harmless to a terminal.
pub fn told(changes: &EvalChanges) -> String {
    changes.lines().iter().map(|line| format!("{}\n", visible(&line.replace('\n', " ")))).collect()
}
