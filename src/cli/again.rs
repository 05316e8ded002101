//! Compiles repeatedly as files and texts change, for `check --watch` and the language server.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    path::{Path, PathBuf},
    thread::sleep,
    time::{Duration, Instant},
};

use super::{overlay::Overlay, watch::Watch};
use crate::{
    Compiled, Memory, Options,
    host::stamps::{SETTLED, Stamped, Stamps},
    source::Sources,
};

/// The minimum time between two checks of files if the system does not report changes.
const INTERVAL: Duration = Duration::from_millis(150);
/// How many files are checked in addition to those that the system has reported, in a compilation and while idle.
const PART: usize = 250;
const IDLE_PART: usize = 2000;

/// What is known from the last time.
#[derive(Debug, Default)]
pub struct Again {
    memory: Memory,
    stamps: Stamps,
    /// What decides which files may be read, and the texts that replace files.
    roots: String,
    texts: RefCell<BTreeMap<PathBuf, Vec<u8>>>,
    watch: RefCell<Watch>,
}

impl Again {
    /// Sets the files for the next compilations.
    pub fn with(&mut self, files: &Overlay) {
        // If another project begins or ends, other files may be read.
        let roots = files.reach();
        if roots != self.roots {
            *self = Self { roots, ..Self::default() };
        }
    }

    /// Compiles what has changed, and what that affects. [`with`](Self::with) must have been called with the files.
    pub fn compile(&self, paths: &[PathBuf], options: &Options, files: &Overlay) -> Compiled {
        let mut changed = {
            let mut watch = self.watch.borrow_mut();
            let named = watch.named_and_some(&self.stamps, PART);
            let everything = named.is_none();
            let changed = named.map_or_else(|| self.stamps.changed(), |named| self.stamps.changed_of(named));
            watch.looked(everything);
            changed
        };
        let mut known = self.texts.borrow_mut();
        let texts = files.texts();
        let both = known.keys().chain(texts.keys());
        for path in both.filter(|path| known.get(*path) != texts.get(*path)) {
            changed.extend(self.stamps.spelt(path));
        }
        known.clone_from(texts);
        self.memory.compile(paths, options, &Stamped { files, stamps: &self.stamps }, &changed)
    }

    /// Makes the system watch what was asked for, in the background.
    pub fn follow(&self) {
        self.watch.borrow_mut().follow_beside(&self.stamps);
    }

    /// Returns when something that was asked for has changed since then. An editor may write several files, or one in
    /// several steps: by then, the changes have settled.
    pub fn wait(&self) {
        let mut watch = self.watch.borrow_mut();
        let mut has_settled = false;
        loop {
            watch.follow(&self.stamps);
            let begun = Instant::now();
            let named = watch.named(&self.stamps);
            let everything = named.is_none();
            if named.map_or_else(|| self.stamps.differ(), |named| self.stamps.differ_of(named)) {
                if everything {
                    watch.doubt();
                }
                if !has_settled {
                    sleep(SETTLED);
                }
                return;
            }
            // Checking all files uses a small part of a processor, however many there are.
            let pause = begun.elapsed() * 20;
            if everything {
                watch.looked(true);
            }
            match watch.is_told() {
                true => {
                    if self.stamps.has_links() {
                        sleep(pause.min(INTERVAL));
                    }
                    watch.wait();
                    sleep(SETTLED);
                }
                false => sleep(INTERVAL.max(pause)),
            }
            has_settled = watch.is_told();
        }
    }

    /// Whether a file has changed: one that the system has reported, or one of the next that are checked anyway.
    pub fn is_told(&self) -> bool {
        let mut watch = self.watch.borrow_mut();
        if !watch.has_heard() {
            return watch.differs_in_round(&self.stamps, IDLE_PART);
        }
        let named = watch.named_and_some(&self.stamps, 0);
        named.map_or_else(|| self.stamps.differ(), |named| self.stamps.differ_of(named))
    }

    /// Records a file that a client says was created, changed or removed.
    pub fn note(&self, path: &Path) {
        self.watch.borrow_mut().note(path);
    }

    /// The texts of the last compilation.
    pub fn sources(&self) -> &Sources {
        self.memory.sources()
    }
}
