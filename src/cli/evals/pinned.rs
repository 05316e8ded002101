//! `gevals.lock` for the commands about evals: the evals of a server when they were locked.

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
    /// The path of the lock.
    pub path: PathBuf,
    /// The server's name in an MCP config.
    configured: Option<String>,
}

impl Pinned {
    /// Uses this lock, or else the one next to the MCP config or in the current directory.
    pub fn of(lock: Option<&Path>, reach: &Reach, reached: &Reached) -> Self {
        let config = reach.mcp_config.as_deref();
        let beside = || config.and_then(Path::parent).unwrap_or(Path::new("")).join(lock::FILE_NAME);
        let configured = config.map(|_| reached.spec.name.clone());
        Self { path: lock.map_or_else(beside, Path::to_owned), configured }
    }

    /// The name of the server in the lock.
    pub fn name<'n>(&'n self, server: &'n Server) -> &'n str {
        self.configured.as_deref().unwrap_or(&server.name)
    }

    /// The lock; `None` if there is no file.
    ///
    /// # Errors
    /// The file cannot be read. Its content must not be lost.
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

    /// The locked evals of the server.
    ///
    /// # Errors
    /// They are not locked.
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

/// The changes, one per line and safe for a terminal.
pub fn told(changes: &EvalChanges) -> String {
    changes.lines().iter().map(|line| format!("{}\n", visible(&line.replace('\n', " ")))).collect()
}
