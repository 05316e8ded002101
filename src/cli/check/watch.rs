//! Waiting for a file to change. The questions of the compiler have shown which files matter; the system says when their folders
//! change. Where it cannot (too many folders, a file system of another machine), times of files are compared every now and then.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::mpsc,
    thread::sleep,
    time::{Duration, Instant},
};

use notify::{RecursiveMode, Watcher, recommended_watcher};

use crate::host::stamps::{SETTLED, Stamps};

/// How often to look, at most, where the system says nothing.
const INTERVAL: Duration = Duration::from_millis(150);
/// How often to look although the system would say.
const DOUBT: Duration = Duration::from_secs(5);

/// Returns when something that was asked for is not as it was when it was asked for. An editor may write several files, or one in several
/// steps: what is there then has settled.
pub fn wait(stamps: &Stamps) {
    let (sender, changes) = mpsc::channel();
    // It watches for as long as it lives.
    let watcher = watcher(&stamps.paths(), move || sender.send(()).is_ok());
    loop {
        let begun = Instant::now();
        if stamps.differ() {
            return sleep(SETTLED);
        }
        // However many files there are, looking at them takes a small part of a processor.
        let pause = begun.elapsed() * 20;
        match &watcher {
            Some(_) => {
                // Something else has changed in their folders: the next such change can wait.
                sleep(pause.min(INTERVAL));
                let _ = changes.recv_timeout(DOUBT);
                while changes.try_recv().is_ok() {}
            }
            None => sleep(INTERVAL.max(pause)),
        }
    }
}

/// Calls for every change in the folders of these files, and in those that are folders themselves; `None` where the system does not
/// say.
fn watcher(paths: &[PathBuf], call: impl Fn() -> bool + Send + 'static) -> Option<notify::RecommendedWatcher> {
    let told = move |event: notify::Result<notify::Event>| {
        // That a file is read is no change.
        if event.is_ok_and(|event| !event.kind.is_access()) {
            let _ = call();
        }
    };
    let mut watcher = recommended_watcher(told).ok()?;
    let mut folders = BTreeSet::new();
    for path in paths {
        // A folder that is not there appears in the nearest one that is.
        let mut folder = if path.is_dir() { Some(path.as_path()) } else { path.parent() };
        while let Some(path) = folder.filter(|path| !path.as_os_str().is_empty() && !path.is_dir()) {
            folder = path.parent();
        }
        folders.insert(folder.filter(|path| !path.as_os_str().is_empty()).unwrap_or(Path::new(".")).to_owned());
    }
    folders.iter().try_for_each(|folder| watcher.watch(folder, RecursiveMode::NonRecursive)).ok()?;
    Some(watcher)
}
