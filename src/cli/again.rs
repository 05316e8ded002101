//! Compiling again and again, as files and texts change: `check --watch`, and the language server.

use std::{cell::RefCell, collections::BTreeMap, path::PathBuf};

use super::overlay::Overlay;
use crate::{
    Compiled, Memory, Options,
    host::stamps::{Stamped, Stamps},
    source::Sources,
};

/// What is known from the last time.
#[derive(Debug, Default)]
pub struct Again {
    memory: Memory,
    stamps: Stamps,
    /// The folders of the projects, and the texts in the place of files.
    roots: String,
    texts: RefCell<BTreeMap<PathBuf, Vec<u8>>>,
}

impl Again {
    /// What is compiled next is seen through these files.
    pub fn with(&mut self, files: &Overlay) {
        // Where another project begins or ends, other files may be read.
        let roots = files.reach();
        if roots != self.roots {
            *self = Self { roots, ..Self::default() };
        }
    }

    /// Compiles what has changed, and what that concerns. The files must have been announced by [`with`](Self::with).
    pub fn compile(&self, paths: &[PathBuf], options: &Options, files: &Overlay) -> Compiled {
        let mut changed = self.stamps.changed();
        let mut known = self.texts.borrow_mut();
        let texts = files.texts();
        let both = known.keys().chain(texts.keys());
        for path in both.filter(|path| known.get(*path) != texts.get(*path)) {
            changed.extend(self.stamps.spelt(path));
        }
        known.clone_from(texts);
        self.memory.compile(paths, options, &Stamped { files, stamps: &self.stamps }, &changed)
    }

    /// The texts of the last compilation.
    pub fn sources(&self) -> &Sources {
        self.memory.sources()
    }

    /// What was asked of the disk.
    pub fn stamps(&self) -> &Stamps {
        &self.stamps
    }
}
