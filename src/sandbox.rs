//! Jails, in which a program sees nothing of the user's environment: bubblewrap with its own namespaces for users, processes,
//! network and files, `/usr` read-only, an empty environment, and other programs in place of some commands. For extensions also
//! `docker`, and if neither is available, what the kernel itself can do (`confine`).
#![expect(clippy::disallowed_methods, reason = "this builds and tries the jail")]

pub mod agent;
#[cfg(target_os = "linux")]
pub mod confine;
pub mod docker;
pub mod doors;

use std::{
    collections::BTreeSet,
    ffi::OsString,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// What a program in the jail can use.
#[derive(Clone, Debug, Default)]
pub struct Jail {
    /// Directories and files that can be read, and their paths in the jail.
    pub readable: Vec<(PathBuf, PathBuf)>,
    /// Empty directories in memory.
    pub writable: Vec<PathBuf>,
    /// The program that replaces commands.
    pub shim: Option<PathBuf>,
    /// The commands that it replaces, at every path in the system's directories, so that an absolute path does not bypass it.
    pub commands: BTreeSet<String>,
    pub env: Vec<(String, String)>,
}

/// Directories in which a system keeps its programs.
const PROGRAMS: [&str; 5] = ["/usr/bin", "/usr/sbin", "/usr/local/bin", "/bin", "/sbin"];

/// Finds bubblewrap, if it is installed and works on this machine.
///
/// # Errors
/// Why it cannot be used.
pub fn find() -> Result<PathBuf, String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|dir| dir.join("bwrap")).find(|p| p.is_file());
    let Some(bwrap) = found else {
        return Err("bubblewrap (`bwrap`) is not installed".to_owned());
    };
    let tried = Command::new(&bwrap)
        .args(Jail::default().arguments())
        .args(["--", "/usr/bin/env", "true"])
        .stdin(Stdio::null())
        .output()
        .map_err(|e| format!("cannot start `{}`: {e}", bwrap.display()))?;
    match tried.status.success() {
        true => Ok(bwrap),
        false => {
            let why = String::from_utf8_lossy(&tried.stderr);
            Err(format!(
                "bubblewrap does not work on this machine: {}",
                why.lines().next().unwrap_or("no error message")
            ))
        }
    }
}

/// Whether this bubblewrap can limit the size of directories in memory.
pub fn bounds(bwrap: &Path) -> bool {
    let help = Command::new(bwrap).arg("--help").stdin(Stdio::null()).output();
    help.is_ok_and(|help| String::from_utf8_lossy(&help.stdout).contains("--size"))
}

/// What an extension can use in its jail.
#[derive(Clone, Debug)]
pub struct Cell<'a> {
    /// The directory of its program.
    pub home: &'a Path,
    /// The directory of the task, in which it works.
    pub workdir: &'a Path,
    pub network: bool,
    pub read: Vec<PathBuf>,
    pub write: Vec<PathBuf>,
}

/// Limits for a program in a cell: bytes of memory of each process, open files, and processes (the last one applies to all users
/// except root).
const MEMORY: u64 = 4 << 30;
const FILES: u64 = 1024;
const PROCESSES: u64 = 512;
/// Bytes that `/tmp` and `/dev/shm` of a cell may contain, each.
const SCRATCH: u64 = 1 << 30;

/// The files that a program needs to reach hosts on the network.
const OF_NETWORK: [&str; 6] =
    ["/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf", "/etc/ssl", "/etc/ca-certificates", "/etc/pki"];

/// A shell command that sets limits, and then runs a program in a cell. The second form of the last limit is bash's.
fn limits() -> String {
    let (memory, processes) = (MEMORY / 1024, PROCESSES);
    format!(
        "ulimit -v {memory}; ulimit -n {FILES}; ulimit -p {processes} 2>/dev/null || ulimit -u {processes} 2>/dev/null; exec \"$0\" \"$@\""
    )
}

impl Cell<'_> {
    /// The arguments of bubblewrap, up to the program. The environment is that of bubblewrap itself, because other users can see arguments.
    /// `bounds`: whether this bubblewrap can limit the size of directories in memory.
    pub fn arguments(&self, bounds: bool) -> Vec<OsString> {
        let mut args: Vec<OsString> = Vec::new();
        let mut add = |words: &[&dyn AsRef<std::ffi::OsStr>]| args.extend(words.iter().map(|w| w.as_ref().to_owned()));
        add(&[&"--unshare-all", &"--unshare-user", &"--die-with-parent", &"--new-session"]);
        if self.network {
            add(&[&"--share-net"]);
        }
        system(&mut add);
        for path in ["/etc/alternatives", "/etc/ld.so.cache", "/etc/passwd", "/etc/group"] {
            add(&[&"--ro-bind-try", &path, &path]);
        }
        for path in OF_NETWORK.iter().filter(|_| self.network) {
            add(&[&"--ro-bind-try", path, path]);
        }
        add(&[&"--proc", &"/proc", &"--dev", &"/dev"]);
        for folder in ["/dev/shm", "/tmp"] {
            if bounds {
                add(&[&"--size", &SCRATCH.to_string()]);
            }
            add(&[&"--tmpfs", &folder]);
        }
        for path in [self.home, self.workdir].into_iter().chain(self.read.iter().map(PathBuf::as_path)) {
            add(&[&"--ro-bind", &path, &path]);
        }
        for path in &self.write {
            add(&[&"--bind", path, path]);
        }
        // These are in memory as well, and have no limit.
        add(&[&"--remount-ro", &"/dev", &"--remount-ro", &"/"]);
        add(&[&"--chdir", &self.workdir, &"--", &"/bin/sh", &"-c", &limits()]);
        args
    }
}

/// `/usr`, and the directories or links beside it, such as `/bin` and `/lib`.
fn system(add: &mut dyn FnMut(&[&dyn AsRef<std::ffi::OsStr>])) {
    add(&[&"--ro-bind", &"/usr", &"/usr"]);
    for name in ["/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"] {
        match std::fs::symlink_metadata(name) {
            Ok(meta) if meta.is_symlink() => {
                if let Ok(target) = std::fs::read_link(name) {
                    add(&[&"--symlink", &target, &name]);
                }
            }
            Ok(_) => add(&[&"--ro-bind", &name, &name]),
            Err(_) => {}
        }
    }
}

/// Directories that every system has, empty in a jail: scripts write there.
const FOLDERS: [&str; 9] = ["/root", "/home", "/opt", "/srv", "/mnt", "/etc", "/var/lib", "/var/log", "/var/tmp"];

impl Jail {
    /// bubblewrap's arguments, up to the program.
    pub fn arguments(&self) -> Vec<OsString> {
        let mut args: Vec<OsString> = Vec::new();
        let mut add = |words: &[&dyn AsRef<std::ffi::OsStr>]| args.extend(words.iter().map(|w| w.as_ref().to_owned()));
        add(&[&"--unshare-all", &"--unshare-user", &"--die-with-parent", &"--new-session", &"--clearenv"]);
        system(&mut add);
        // On Debian, a program with alternatives (`awk`) is a link into this directory.
        add(&[&"--ro-bind-try", &"/etc/alternatives", &"/etc/alternatives"]);
        // Programs that were installed by hand are not visible; only ours are there.
        add(&[&"--proc", &"/proc", &"--dev", &"/dev", &"--tmpfs", &"/tmp", &"--tmpfs", &"/usr/local"]);
        for path in FOLDERS {
            add(&[&"--dir", &path]);
        }
        for path in &self.writable {
            add(&[&"--tmpfs", path]);
        }
        if let Some(shim) = &self.shim {
            for command in &self.commands {
                let own = Path::new("/usr/local/bin").join(command);
                add(&[&"--ro-bind", shim, &own]);
                for dir in PROGRAMS {
                    let linked = std::fs::symlink_metadata(dir).is_ok_and(|m| m.is_symlink());
                    let there = Path::new(dir).join(command);
                    if linked || dir == "/usr/local/bin" || !there.exists() {
                        continue;
                    }
                    let target = std::fs::canonicalize(&there).unwrap_or(there);
                    // A command may be a link to a program that stays, such as busybox.
                    if target.file_name().is_some_and(|n| *n == **command) && target.starts_with("/usr") {
                        add(&[&"--ro-bind", shim, &target]);
                    }
                }
            }
        }
        for (from, to) in &self.readable {
            add(&[&"--ro-bind", from, to]);
        }
        add(&[&"--setenv", &"PATH", &"/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"]);
        add(&[&"--setenv", &"HOME", &"/tmp", &"--setenv", &"LANG", &"C.UTF-8"]);
        for (name, value) in &self.env {
            add(&[&"--setenv", name, value]);
        }
        args
    }
}
