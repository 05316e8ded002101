//! The jail of an agent under test: the agent must not see what it is judged by, nor the processes that judge it.
//!
//! With `auto` the agent can read the machine and write to its home, because the programs that people use every day need both. Hidden
//! are the directories of tasks and evals, journals and results. Processes are its own; scratch directories are its own and limited.
//! With `strict` it has only its own directory, the system's programs and what is granted. Without bubblewrap, Landlock does both;
//! `auto` only if nothing that must be hidden is in the home directory, because a grant for a directory covers everything in it.
#![expect(clippy::disallowed_methods, reason = "the jail is made of paths of this machine")]

use std::{
    ffi::{OsStr, OsString},
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

#[cfg(target_os = "linux")]
use super::confine::{self, Confinement};
use super::doors::{self, Doors};
use crate::{
    hir::Isolation,
    host::{Exec, Exit},
};

/// How many bytes a scratch directory may contain.
const SCRATCH: u64 = 2 << 30;

/// The environment variables that every program may have.
const USUAL: [&str; 9] = ["PATH", "LANG", "LANGUAGE", "TERM", "COLORTERM", "TZ", "USER", "LOGNAME", "SHELL"];

/// Shell commands around bubblewrap, and in the jail around the program. bubblewrap keeps running, and would keep the program's streams
/// open after the program has closed them. It closes all descriptors that are not standard streams, so the streams are passed as 3 and 4.
const OUTER: &str = "exec 3<&0 4>&1 </dev/null >/dev/null; exec \"$@\"";
const INNER: &str = "exec \"$@\" <&3 >&4 3<&- 4>&-";
/// The same with the doors: it waits until they report that they are open.
const INNER_WITH_DOORS: &str = "mkfifo /tmp/.doors && { \"$1\" \"$2\" \"$3\" </dev/null >/tmp/.doors 2>/dev/null 3<&- 4>&- & } \
     && read -r ready </tmp/.doors; rm -f /tmp/.doors; shift 3; exec \"$@\" <&3 >&4 3<&- 4>&-";

/// What matters about the machine for the jail of an agent.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    pub home: Option<PathBuf>,
    /// The directory for temporary files.
    pub temporary: PathBuf,
    /// Where programs are searched.
    pub programs: Vec<PathBuf>,
    /// Hidden directories.
    pub folders: Vec<PathBuf>,
    /// Hidden files, even if their directory cannot be hidden.
    pub files: Vec<PathBuf>,
    /// What is granted.
    pub read: Vec<PathBuf>,
    pub write: Vec<PathBuf>,
    pub network: bool,
    pub env: Vec<String>,
    /// The path of this program.
    pub gevals: Option<PathBuf>,
}

/// The jail of one eval's agent.
#[derive(Clone, Debug)]
pub struct Jail {
    level: Isolation,
    walls: Walls,
    around: Surroundings,
}

/// What a jail is built with.
#[derive(Clone, Debug)]
enum Walls {
    /// bubblewrap, and whether it can limit the size of directories in memory.
    Bwrap(PathBuf, bool),
    /// gevals, which confines itself.
    #[cfg(target_os = "linux")]
    Landlock(PathBuf),
}

/// What an agent uses in its jail.
pub struct Inside<'a> {
    /// Directories of its own, which it may write to.
    pub own: &'a [&'a Path],
    /// Files that its own command line names.
    pub named: &'a [PathBuf],
    /// The ports of its servers.
    pub ports: &'a [u16],
}

impl Jail {
    /// Creates a jail, if this machine can provide one.
    ///
    /// # Errors
    /// Why it cannot.
    pub fn new(level: Isolation, around: Surroundings) -> Result<Self, String> {
        let around = around.resolved();
        let bwrap = match Self::bwrap(level, &around) {
            Ok(jail) => return Ok(jail),
            Err(why) => why,
        };
        let walls = landlock(level, &around).map_err(|landlock| format!("{bwrap}; {landlock}"))?;
        Ok(Self { level, walls, around })
    }

    fn bwrap(level: Isolation, around: &Surroundings) -> Result<Self, String> {
        let bwrap = super::find()?;
        let bounds = super::bounds(&bwrap);
        let jail = Self { level, walls: Walls::Bwrap(bwrap.clone(), bounds), around: around.clone() };
        if level == Isolation::Strict && !around.network && around.gevals.is_none() {
            return Err("this program does not find itself".to_owned());
        }
        let nothing = Inside { own: &[], named: &[], ports: &[] };
        let tried = Command::new(&bwrap)
            .args(jail.arguments(&nothing, Path::new("/"), None, bounds))
            .args(["--", "/usr/bin/env", "true"])
            .stdin(Stdio::null())
            .output()
            .map_err(|e| format!("`{}` cannot be started: {e}", bwrap.display()))?;
        let why = String::from_utf8_lossy(&tried.stderr);
        match tried.status.success() {
            true => Ok(jail),
            false => {
                Err(format!("bubblewrap does not work on this machine: {}", why.lines().next().unwrap_or_default()))
            }
        }
    }

    /// The name of what it is built with.
    pub fn by(&self) -> &'static str {
        match self.walls {
            Walls::Bwrap(..) => "bubblewrap",
            #[cfg(target_os = "linux")]
            Walls::Landlock(_) => "landlock",
        }
    }

    /// How the program ended in the jail: bubblewrap reports a signal like a shell does.
    pub fn ended(&self, exit: Exit) -> Exit {
        match exit {
            Exit::Exited(code @ 129..=159) => Exit::Signalled(code - 128),
            other => other,
        }
    }

    /// Puts the process into the jail. The doors must be kept for as long as it lives.
    ///
    /// # Errors
    /// The connections to its servers cannot be set up.
    pub fn confine(&self, exec: Exec, inside: &Inside<'_>) -> Result<(Exec, Option<Doors>), String> {
        let mut args = Vec::new();
        let mut doors = None;
        let program = match &self.walls {
            Walls::Bwrap(bwrap, bounds) => {
                let is_apart = self.level == Isolation::Strict && !self.around.network;
                if is_apart && !inside.ports.is_empty() {
                    let open = Doors::open(inside.ports).map_err(|e| format!("its servers cannot be reached: {e}"))?;
                    doors = Some(open);
                }
                args.extend(["-c", OUTER, "sh"].map(OsString::from));
                args.push(bwrap.into());
                args.append(&mut self.arguments(inside, &exec.cwd, doors.as_ref(), *bounds));
                args.extend(["--", "/bin/sh", "-c"].map(OsString::from));
                if doors.is_some() {
                    let ports: Vec<String> = inside.ports.iter().map(u16::to_string).collect();
                    args.extend([INNER_WITH_DOORS, "sh", doors::PROGRAM, doors::ARGUMENT].map(OsString::from));
                    args.push(ports.join(",").into());
                } else {
                    args.extend([INNER, "sh"].map(OsString::from));
                }
                PathBuf::from("/bin/sh")
            }
            #[cfg(target_os = "linux")]
            Walls::Landlock(gevals) => {
                let read = self.named(inside).map(|(path, _)| path).chain(self.around.read.iter().cloned()).collect();
                let write =
                    inside.own.iter().map(|own| resolve(own)).chain(self.around.write.iter().cloned()).collect();
                let spec = match self.level {
                    Isolation::Strict => Confinement::of_agent(read, write, self.around.network, inside.ports),
                    _ => self.without_hidden(read, write),
                };
                let spec = serde_json::to_string(&spec).map_err(|e| e.to_string())?;
                args.extend([confine::ARGUMENT.into(), spec.into()]);
                gevals.clone()
            }
        };
        args.push(exec.program);
        args.extend(exec.args);
        let mut env = exec.env;
        if self.level == Isolation::Strict {
            let mut own = self.environment(inside);
            own.append(&mut env);
            env = own;
        }
        // This jail has no scratch directory of its own.
        #[cfg(target_os = "linux")]
        if let (Walls::Landlock(_), Some(own)) = (&self.walls, inside.own.first()) {
            env.push(("TMPDIR".into(), own.into()));
        }
        let bare = self.level == Isolation::Strict;
        Ok((Exec { program: program.into(), args, env, bare, ..exec }, doors))
    }

    /// The environment of an agent that gets only what it needs.
    fn environment(&self, inside: &Inside<'_>) -> Vec<(OsString, OsString)> {
        let is_given = |name: &OsStr| {
            let name = name.to_string_lossy();
            USUAL.contains(&&*name) || name.starts_with("LC_") || self.around.env.iter().any(|granted| *granted == name)
        };
        let mut env: Vec<_> = std::env::vars_os().filter(|(name, _)| is_given(name)).collect();
        if let Some(own) = inside.own.first().filter(|_| !self.around.env.iter().any(|name| name == "HOME")) {
            env.push(("HOME".into(), own.into()));
        }
        env
    }

    /// `auto` with Landlock.
    #[cfg(target_os = "linux")]
    fn without_hidden(&self, mut read: Vec<PathBuf>, mut write: Vec<PathBuf>) -> Confinement {
        let hidden = self.around.hidden_by_landlock();
        // Programs may be in a hidden directory: `node_modules/.bin` on the PATH beside an eval.
        let is_within = |path: &Path| hidden.iter().any(|folder| path != folder.as_path() && path.starts_with(folder));
        read.extend(
            self.around.programs.iter().filter(|path| is_within(path) && !self.around.holds_secret(path)).cloned(),
        );
        write.extend(self.around.home.clone());
        Confinement::of_agent_that_reads_all_but(hidden, read, write)
    }

    fn arguments(&self, inside: &Inside<'_>, cwd: &Path, doors: Option<&Doors>, bounds: bool) -> Vec<OsString> {
        let mut args = Args { words: Vec::new(), bounds };
        // The agent is in a session of its own, apart from the terminal, and has no capabilities.
        args.add(&[&"--unshare-user", &"--unshare-pid", &"--unshare-ipc", &"--new-session", &"--cap-drop", &"ALL"]);
        let own: Vec<PathBuf> = inside.own.iter().map(|own| resolve(own)).collect();
        match self.level {
            Isolation::Strict => self.strict(inside, doors, &mut args),
            _ => self.auto(inside, &own, &mut args),
        }
        for path in &self.around.read {
            args.add(&[&"--ro-bind-try", path, path]);
        }
        for path in self.around.write.iter().chain(&own) {
            args.add(&[&"--bind-try", path, path]);
        }
        args.add(&[&"--chdir", &resolve(cwd)]);
        args.words
    }

    fn strict(&self, inside: &Inside<'_>, doors: Option<&Doors>, args: &mut Args) {
        args.add(&[&"--unshare-uts"]);
        if !self.around.network {
            args.add(&[&"--unshare-net"]);
        }
        super::system(&mut |words| args.add(words));
        for path in ["/etc/alternatives", "/etc/ld.so.cache", "/etc/passwd", "/etc/group", "/etc/localtime"] {
            args.add(&[&"--ro-bind-try", &path, &path]);
        }
        for path in super::OF_NETWORK {
            args.add(&[&"--ro-bind-try", &path, &path]);
        }
        args.add(&[&"--proc", &"/proc", &"--dev", &"/dev"]);
        args.scratch(Path::new("/tmp"));
        for (path, name) in self.named(inside) {
            args.add(&[&"--ro-bind-try", &path, &name]);
        }
        if let (Some(doors), Some(gevals)) = (doors, &self.around.gevals) {
            args.add(&[&"--ro-bind", gevals, &doors::PROGRAM, &"--ro-bind", &doors.folder(), &doors::FOLDER]);
        }
    }

    fn auto(&self, inside: &Inside<'_>, own: &[PathBuf], args: &mut Args) {
        let Surroundings { home, temporary, folders, files, programs, .. } = &self.around;
        args.add(&[&"--ro-bind", &"/", &"/", &"--dev", &"/dev", &"--proc", &"/proc"]);
        // Sockets in this directory lead to programs that are not in the jail.
        args.add(&[&"--tmpfs", &"/run"]);
        let names = fs::canonicalize("/etc/resolv.conf").ok().and_then(|file| file.parent().map(Path::to_owned));
        for path in names.iter().filter(|dir| dir.starts_with("/run")) {
            args.add(&[&"--ro-bind-try", path, path]);
        }
        args.add(&[&"--ro-bind-try", &"/run/current-system", &"/run/current-system"]);
        let in_home = |path: &Path| home.as_ref().is_some_and(|home| path.starts_with(home));
        let mut scratch: Vec<PathBuf> = ["/tmp", "/var/tmp"].iter().map(|path| resolve(Path::new(path))).collect();
        if !scratch.contains(temporary) && home.as_ref() != Some(temporary) {
            scratch.push(temporary.clone());
        }
        scratch.retain(|path| path.is_dir() && path.parent().is_some());
        // A scratch directory at home is hidden below: the agent must not see the temporary files of gevals.
        scratch.iter().filter(|path| !in_home(path)).for_each(|path| args.scratch(path));
        if let Some(home) = home {
            args.add(&[&"--bind", home, home]);
        }
        let is_scratch =
            |path: &Path| scratch.iter().any(|root| path.starts_with(root) && (in_home(root) || !in_home(path)));
        // A directory that contains the home directory stays visible; the files in it are hidden one by one.
        let mut hidden: Vec<&PathBuf> = Vec::new();
        for folder in folders.iter().filter(|folder| self.around.can_hide(folder) && !is_scratch(folder)) {
            if !hidden.iter().any(|outer| folder.starts_with(outer)) {
                hidden.push(folder);
            }
        }
        let is_hidden = |path: &Path| is_scratch(path) || hidden.iter().any(|folder| path.starts_with(folder));
        let mut single: Vec<PathBuf> = files.iter().filter(|file| !is_hidden(file) && file.exists()).cloned().collect();
        for folder in folders.iter().filter(|folder| folder.is_dir() && !is_hidden(folder)) {
            let named: Vec<PathBuf> = self.named(inside).map(|(path, _)| path).collect();
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
                let path = entry.path();
                if is_file && !entry.file_name().to_string_lossy().starts_with('.') && !named.contains(&path) {
                    single.push(path);
                }
            }
        }
        single.sort();
        single.dedup();
        // A mount point cannot be renamed, so nothing else can be put at the paths of what is hidden.
        let above = |path: &Path| path.ancestors().skip(1).map(Path::to_owned).collect::<Vec<_>>();
        let mut pinned: Vec<PathBuf> = hidden.iter().copied().chain(&single).flat_map(|path| above(path)).collect();
        pinned.retain(|path| in_home(path) && Some(path) != home.as_ref());
        pinned.sort();
        pinned.dedup();
        for path in &pinned {
            args.add(&[&"--bind", path, path]);
        }
        scratch.iter().filter(|path| in_home(path)).for_each(|path| args.scratch(path));
        for folder in &hidden {
            args.add(&[&"--tmpfs", folder]);
        }
        for file in &single {
            args.add(&[&"--ro-bind", &"/dev/null", file]);
        }
        // Programs may be in the same directory as an eval: `node_modules/.bin` on the PATH, the agent's own file.
        let is_below = |path: &Path, folder: &PathBuf| path != folder.as_path() && path.starts_with(folder);
        let inner = |path: &Path| {
            hidden.iter().any(|folder| is_below(path, folder))
                || is_scratch(path) && scratch.iter().any(|folder| is_below(path, folder))
        };
        let shown = |path: &Path| {
            let around = path.parent().filter(|folder| inner(folder) && !self.around.holds_secret(folder));
            around.or(Some(path).filter(|path| inner(path) && !self.around.holds_secret(path))).map(Path::to_owned)
        };
        for path in
            programs.iter().cloned().chain(self.named(inside).map(|(path, _)| path)).filter_map(|path| shown(&path))
        {
            args.add(&[&"--ro-bind-try", &path, &path]);
        }
        // The agent's own directories in there are mounted later, onto paths that must exist.
        for path in own.iter().chain(&self.around.read).chain(&self.around.write).filter(|path| inner(path)) {
            match path.is_dir() {
                true => args.add(&[&"--dir", path]),
                false => args.add(&[&"--ro-bind-try", path, path]),
            }
        }
        for folder in &hidden {
            args.add(&[&"--remount-ro", folder]);
        }
    }

    /// The files that the agent's command line names and that it may see, with the paths as written.
    fn named<'i>(&self, inside: &Inside<'i>) -> impl Iterator<Item = (PathBuf, &'i Path)> {
        let files = inside.named.iter().filter(|path| path.is_file()).map(|path| (resolve(path), path.as_path()));
        files.filter(|(path, _)| !self.around.holds_secret(path))
    }
}

impl Surroundings {
    /// Whether a directory can be replaced by an empty one: it contains no other directory that is needed.
    fn can_hide(&self, folder: &Path) -> bool {
        let needed = ["/usr", "/etc", "/dev", "/proc", "/sys", "/run", "/tmp", "/var", "/bin", "/lib"].map(Path::new);
        let mut needed = needed.into_iter().chain(self.home.as_deref());
        folder.is_dir() && !needed.any(|needed| needed.starts_with(folder))
    }

    /// Whether a path is hidden, or contains something hidden.
    fn holds_secret(&self, path: &Path) -> bool {
        self.folders.iter().chain(&self.files).any(|secret| secret.starts_with(path))
    }

    /// What Landlock hides, including the scratch directories: the agent has one of its own.
    #[cfg(target_os = "linux")]
    fn hidden_by_landlock(&self) -> Vec<PathBuf> {
        let scratch = ["/tmp", "/var/tmp", "/run", "/dev/shm"].iter().map(|path| resolve(Path::new(path)));
        let scratch = scratch.chain([self.temporary.clone()]).filter(|path| Some(path) != self.home.as_ref());
        let folders = self.folders.iter().filter(|folder| self.can_hide(folder));
        let secret = folders.chain(self.files.iter().filter(|file| file.exists())).cloned();
        scratch.filter(|path| path.is_dir() && path.parent().is_some()).chain(secret).collect()
    }

    /// The same with paths without links, outer directories before those inside them.
    fn resolved(self) -> Self {
        let all = |paths: Vec<PathBuf>| paths.iter().map(|path| resolve(path)).collect::<Vec<_>>();
        let mut folders = all(self.folders);
        folders.sort();
        folders.dedup();
        let (mut files, read, write, programs) = (all(self.files), all(self.read), all(self.write), all(self.programs));
        files.sort();
        files.dedup();
        // A home directory that is the root of the file system does not count.
        let home = self.home.map(|home| resolve(&home)).filter(|home| home.is_dir() && home.parent().is_some());
        Self { home, temporary: resolve(&self.temporary), folders, files, read, write, programs, ..self }
    }
}

/// A path without links, as mounts need it.
fn resolve(path: &Path) -> PathBuf {
    fs::canonicalize(path).or_else(|_| std::path::absolute(path)).unwrap_or_else(|_| path.to_owned())
}

/// Arguments of bubblewrap.
struct Args {
    words: Vec<OsString>,
    /// Whether bubblewrap can limit the size of directories in memory.
    bounds: bool,
}

impl Args {
    fn add(&mut self, words: &[&dyn AsRef<OsStr>]) {
        self.words.extend(words.iter().map(|word| word.as_ref().to_owned()));
    }

    /// Adds an empty directory in memory.
    fn scratch(&mut self, path: &Path) {
        if self.bounds {
            self.add(&[&"--size", &SCRATCH.to_string()]);
        }
        self.add(&[&"--perms", &"1777", &"--tmpfs", &path]);
    }
}

#[cfg(target_os = "linux")]
fn landlock(level: Isolation, around: &Surroundings) -> Result<Walls, String> {
    confine::usable()?;
    if let (Isolation::Auto, Some(home)) = (level, &around.home) {
        let mut hidden = around.folders.iter().chain(&around.files);
        if let Some(inner) = hidden.find(|path| path.exists() && path.starts_with(home)) {
            return Err(format!("Landlock cannot hide {}, which lies in the home folder", inner.display()));
        }
        // A granted directory must not contain anything hidden.
        if let Some(outer) = around.read.iter().chain(&around.write).find(|path| around.holds_secret(path)) {
            return Err(format!("Landlock cannot hide what lies in {}, which is granted", outer.display()));
        }
    }
    around.gevals.clone().map(Walls::Landlock).ok_or_else(|| "this program does not find itself".to_owned())
}

#[cfg(not(target_os = "linux"))]
fn landlock(_: Isolation, _: &Surroundings) -> Result<Walls, String> {
    Err("only Linux has Landlock".to_owned())
}
