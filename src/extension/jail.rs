//! Extensions in a sandbox, where only granted resources are available (`decisions.md` §9; `portable-format.md`,
//! extensions).
#![expect(clippy::disallowed_methods, reason = "the jail is made of paths of this machine")]

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use indexmap::IndexMap;

use crate::{
    hir::Sandbox,
    plan::{self, Granted},
    sandbox::{
        self, Cell,
        docker::{Container, Docker},
    },
};

/// The jail of one extension.
pub(super) struct Jail {
    walls: Walls,
    /// The program, or its directory if it contains a manifest.
    home: PathBuf,
    granted: Granted,
}

/// The mechanism of a jail.
enum Walls {
    /// bubblewrap, and whether it can limit the size of directories in memory.
    Bwrap(PathBuf, bool),
    Docker(Docker),
    /// gevals, which confines itself, and a directory for temporary files.
    #[cfg(target_os = "linux")]
    Landlock(PathBuf, tempfile::TempDir),
}

/// A command line that runs a program in its jail.
pub(super) struct Jailed {
    pub program: PathBuf,
    pub args: Vec<OsString>,
    /// Must live as long as the program.
    pub container: Option<Container>,
}

/// The sandbox that a setting selects on this machine. For `auto`, the strongest one that needs no additional service.
///
/// # Errors
/// The reason why none is available.
pub fn usable(sandbox: Sandbox, lookup: &dyn Fn(&str) -> Option<String>) -> Result<Sandbox, String> {
    match sandbox {
        Sandbox::None => Ok(sandbox),
        Sandbox::Bwrap => sandbox::find().map(|_| sandbox),
        Sandbox::Docker => Docker::find(lookup).map(|_| sandbox),
        Sandbox::Landlock => landlock().map(|()| sandbox),
        Sandbox::Auto => match (sandbox::find(), landlock()) {
            (Ok(_), _) => Ok(Sandbox::Bwrap),
            (_, Ok(())) => Ok(Sandbox::Landlock),
            (Err(bwrap), Err(landlock)) => Err(format!("{bwrap}; {landlock}")),
        },
    }
}

#[cfg(target_os = "linux")]
fn landlock() -> Result<(), String> {
    sandbox::confine::usable()
}

#[cfg(not(target_os = "linux"))]
fn landlock() -> Result<(), String> {
    Err("only Linux has Landlock".to_owned())
}

impl Walls {
    /// Finds the mechanism, and sets the directory for temporary files in `env`.
    fn new(
        sandbox: Sandbox,
        lookup: &dyn Fn(&str) -> Option<String>,
        executable: Option<&Path>,
        env: &mut IndexMap<String, String>,
    ) -> Result<Self, String> {
        match usable(sandbox, lookup)? {
            Sandbox::Docker => Docker::find(lookup).map(Self::Docker),
            #[cfg(target_os = "linux")]
            Sandbox::Landlock => {
                let gevals = executable.ok_or("this program does not find itself")?;
                let folder = tempfile::tempdir().map_err(|e| format!("there is no folder for its files: {e}"))?;
                for name in ["TMPDIR", "HOME"] {
                    env.entry(name.to_owned()).or_insert_with(|| folder.path().display().to_string());
                }
                Ok(Self::Landlock(gevals.to_owned(), folder))
            }
            _ => sandbox::find().map(|bwrap| {
                let bounds = sandbox::bounds(&bwrap);
                Self::Bwrap(bwrap, bounds)
            }),
        }
    }
}

impl Jail {
    /// Finds the sandbox, and reduces the environment of the extension to the granted variables.
    pub fn new(
        sandbox: Sandbox,
        (program, executable): (&Path, Option<&Path>),
        declared: Option<&plan::Extension>,
        lookup: &dyn Fn(&str) -> Option<String>,
        env: &mut IndexMap<String, String>,
    ) -> Result<Self, String> {
        let granted = declared.map(|declared| resolved(&declared.granted, &declared.dir)).unwrap_or_default();
        for name in &granted.env {
            if let (Some(value), false) = (lookup(name), env.contains_key(name)) {
                env.insert(name.clone(), value);
            }
        }
        let walls = Walls::new(sandbox, lookup, executable, env);
        let walls = walls.map_err(|why| format!("cannot be run in a sandbox: {why}"))?;
        let own = [("PATH", "/usr/local/bin:/usr/bin:/bin"), ("HOME", "/tmp"), ("TMPDIR", "/tmp"), ("LANG", "C.UTF-8")];
        for (name, value) in own {
            env.entry(name.to_owned()).or_insert_with(|| value.to_owned());
        }
        let folder = program.parent().unwrap_or(program);
        let home = if folder.join("extension.yaml").is_file() { folder } else { program };
        Ok(Self { walls, home: home.to_owned(), granted })
    }

    /// The command line that runs a program in the jail. The program may also read `input`. `env` is its environment.
    pub fn command(
        &self,
        program: &Path,
        workdir: &Path,
        input: Option<&Path>,
        env: &IndexMap<String, String>,
    ) -> Jailed {
        let read = self.granted.read.iter().map(PathBuf::as_path).chain(input);
        let cell = Cell {
            home: &self.home,
            workdir,
            network: self.granted.network,
            read: read.map(Path::to_owned).collect(),
            write: self.granted.write.clone(),
        };
        match &self.walls {
            Walls::Bwrap(bwrap, bounds) => {
                let mut args = cell.arguments(*bounds);
                args.push(program.into());
                Jailed { program: bwrap.clone(), args, container: None }
            }
            Walls::Docker(docker) => {
                let (client, args, container) = docker.arguments(&cell, env.keys().map(String::as_str), program);
                Jailed { program: client, args, container: Some(container) }
            }
            #[cfg(target_os = "linux")]
            Walls::Landlock(gevals, temporary) => {
                let spec = sandbox::confine::Confinement::of(&cell, temporary.path());
                let spec = serde_json::to_string(&spec).unwrap_or_default();
                let args = vec![sandbox::confine::ARGUMENT.into(), spec.into(), program.into()];
                Jailed { program: gevals.clone(), args, container: None }
            }
        }
    }
}

/// Resolves paths relative to the eval's directory.
fn resolved(granted: &Granted, dir: &Path) -> Granted {
    let absolute = |paths: &[PathBuf]| {
        let paths = paths.iter().map(|path| dir.join(path));
        paths.map(|path| std::path::absolute(&path).unwrap_or(path)).collect()
    };
    Granted { read: absolute(&granted.read), write: absolute(&granted.write), ..granted.clone() }
}
