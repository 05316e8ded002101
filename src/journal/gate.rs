//! Where somebody else keeps what is pending, too: nothing that would have to be cleaned up is done before that one has it.
//!
//! A process that runs a unit for an engine may die with its machine, and its journal with it. So the worker that started it reads the journal
//! as it grows, takes it to a safe place, and says how far it has come. Once the worker is gone, nothing with an effect begins any more:
//! others may be cleaning up already.

use std::{
    path::{Path, PathBuf},
    sync::{Mutex, OnceLock, PoisonError},
};

use tokio::sync::watch;

/// Of this process.
static GATE: OnceLock<Gate> = OnceLock::new();

#[derive(Debug)]
struct Gate {
    kept: watch::Sender<Option<u64>>,
    /// The folders of the runs that this process has journals of.
    runs: Mutex<Vec<PathBuf>>,
}

/// From now on this process is attended.
pub fn attend() {
    GATE.get_or_init(|| Gate { kept: watch::Sender::new(Some(0)), runs: Mutex::default() });
}

/// Whether somebody attends to this process: then its journal may be that of another machine.
pub fn is_attended() -> bool {
    GATE.get().is_some()
}

/// Another run begins, of whose journal nothing is kept yet.
pub fn renew() {
    if let Some(gate) = GATE.get() {
        gate.runs.lock().unwrap_or_else(PoisonError::into_inner).clear();
        gate.kept.send_modify(|kept| *kept = kept.map(|_| 0));
    }
}

/// So many bytes of the journal are kept elsewhere.
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

/// Nobody attends to this process any more. Gives back the folders of its runs.
pub fn abandoned() -> Vec<PathBuf> {
    let Some(gate) = GATE.get() else { return Vec::new() };
    gate.kept.send_replace(None);
    gate.runs.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// A journal is open in this folder.
pub(super) fn open(dir: &Path) {
    if let Some(gate) = GATE.get() {
        gate.runs.lock().unwrap_or_else(PoisonError::into_inner).push(dir.to_owned());
    }
}

/// Waits until so much is kept, where something is pending; for ever where nobody is there to keep it.
pub(super) async fn pass(wanted: u64, is_pending: bool) {
    let Some(gate) = GATE.get() else { return };
    let mut kept = gate.kept.subscribe();
    let passed = kept.wait_for(|kept| kept.is_some_and(|kept| !is_pending || kept >= wanted)).await.is_ok();
    debug_assert!(passed, "the gate is never taken away");
}
