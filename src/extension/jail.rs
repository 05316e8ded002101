//! Extensions in a sandbox: what is not granted is not there (`decisions.md` §9; `portable-format.md`, extensions).
#![expect(clippy::disallowed_methods, reason = "the jail is made of paths of this machine")]

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use indexmap::IndexMap;

use crate::{
    hir::Sandbox,
    plan::{self, Granted},
    sandbox::{self, Cell},
};

/// The jail of one extension.
pub(super) struct Jail {
    bwrap: PathBuf,
    /// The program, or its folder where that has a manifest.
    home: PathBuf,
    granted: Granted,
}

/// Whether this machine has a sandbox.
///
/// # Errors
/// Why it does not.
pub fn usable(sandbox: Sandbox) -> Result<(), String> {
    match sandbox {
        Sandbox::None => Ok(()),
        Sandbox::Bwrap => sandbox::find().map(drop),
        Sandbox::Docker => Err("this version of gevals has no sandbox `docker`: write `bwrap`".to_owned()),
    }
}

impl Jail {
    /// Finds the sandbox, and reduces the environment of the extension to what it is given.
    pub fn new(
        sandbox: Sandbox,
        program: &Path,
        declared: Option<&plan::Extension>,
        lookup: &dyn Fn(&str) -> Option<String>,
        env: &mut IndexMap<String, String>,
    ) -> Result<Self, String> {
        usable(sandbox).map_err(|why| format!("cannot be run in a sandbox: {why}"))?;
        let bwrap = sandbox::find().map_err(|why| format!("cannot be run in a sandbox: {why}"))?;
        let granted = declared.map(|declared| resolved(&declared.granted, &declared.dir)).unwrap_or_default();
        for name in &granted.env {
            if let (Some(value), false) = (lookup(name), env.contains_key(name)) {
                env.insert(name.clone(), value);
            }
        }
        let own = [("PATH", "/usr/local/bin:/usr/bin:/bin"), ("HOME", "/tmp"), ("TMPDIR", "/tmp"), ("LANG", "C.UTF-8")];
        for (name, value) in own {
            env.entry(name.to_owned()).or_insert_with(|| value.to_owned());
        }
        let folder = program.parent().unwrap_or(program);
        let home = if folder.join("extension.yaml").is_file() { folder } else { program };
        Ok(Self { bwrap, home: home.to_owned(), granted })
    }

    /// The command line that runs a program in the jail, which may also read `input`.
    pub fn command(&self, program: &Path, workdir: &Path, input: Option<&Path>) -> (PathBuf, Vec<OsString>) {
        let read = self.granted.read.iter().map(PathBuf::as_path).chain(input);
        let cell = Cell {
            home: &self.home,
            workdir,
            network: self.granted.network,
            read: read.map(Path::to_owned).collect(),
            write: self.granted.write.clone(),
        };
        let mut args = cell.arguments();
        args.push(program.into());
        (self.bwrap.clone(), args)
    }
}

/// The same with paths from the eval's folder.
fn resolved(granted: &Granted, dir: &Path) -> Granted {
    let absolute = |paths: &[PathBuf]| {
        let paths = paths.iter().map(|path| dir.join(path));
        paths.map(|path| std::path::absolute(&path).unwrap_or(path)).collect()
    };
    Granted { read: absolute(&granted.read), write: absolute(&granted.write), ..granted.clone() }
}
