//! A gate for processes whose journal is also kept elsewhere: nothing that would need cleanup is done before the journal entries about it
//! are kept there.
//!
//! A process that runs a unit for an engine may die together with its machine and its journal. Therefore the worker that started it reads
//! the journal as it grows, stores it in a safe place, and reports how far it has come. Once the worker is gone, no action with an effect
//! starts any more, because others may already be cleaning up.

use std::{
    path::{Path, PathBuf},
    sync::{Mutex, OnceLock, PoisonError},
};

use tokio::sync::watch;

/// The gate of this process.
static GATE: OnceLock<Gate> = OnceLock::new();

#[derive(Debug)]
struct Gate {
    kept: watch::Sender<Option<u64>>,
    /// The directories of the runs whose journals this process has open.
    runs: Mutex<Vec<PathBuf>>,
}

/// Marks this process as attended from now on.
pub fn attend() {
    GATE.get_or_init(|| Gate { kept: watch::Sender::new(Some(0)), runs: Mutex::default() });
}

/// Whether this process is attended: its journal may then come from another machine.
pub fn is_attended() -> bool {
    GATE.get().is_some()
}

/// Starts another run, of whose journal nothing is kept yet.
pub fn renew() {
    if let Some(gate) = GATE.get() {
        gate.runs.lock().unwrap_or_else(PoisonError::into_inner).clear();
        gate.kept.send_modify(|kept| *kept = kept.map(|_| 0));
    }
}

/// Records that this many bytes of the journal are kept elsewhere.
pub fn kept(bytes: u64) {
    if let Some(gate) = GATE.get() {
        gate.kept.send_if_modified(|kept| {
            let is_more = kept.is_some_and(|kept| kept < bytes);
            if is_more {
                *kept = Some(bytes);
            }
            is_more
        });
    }
}

/// Records that this process is no longer attended. Returns the directories of its runs.
pub fn abandoned() -> Vec<PathBuf> {
    let Some(gate) = GATE.get() else { return Vec::new() };
    gate.kept.send_replace(None);
    gate.runs.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Records that a journal is open in this directory.
pub(super) fn open(dir: &Path) {
    if let Some(gate) = GATE.get() {
        gate.runs.lock().unwrap_or_else(PoisonError::into_inner).push(dir.to_owned());
    }
}

/// Waits until `wanted` bytes are kept, if something is pending. Waits forever if the process is no longer attended.
pub(super) async fn pass(wanted: u64, is_pending: bool) {
    let Some(gate) = GATE.get() else { return };
    let mut kept = gate.kept.subscribe();
    let passed = kept.wait_for(|kept| kept.is_some_and(|kept| !is_pending || kept >= wanted)).await.is_ok();
    debug_assert!(passed, "the gate is never taken away");
}
