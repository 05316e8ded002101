//! A sandbox that needs only the kernel, for machines without bubblewrap: this binary, started with [`ARGUMENT`], gives up what is not
//! granted, by Landlock (files, TCP, signals) and seccomp (all other sockets, other sessions and process groups), and then executes
//! the program.
#![expect(clippy::disallowed_methods, reason = "a process confines itself before it becomes another")]

use std::{
    collections::BTreeMap,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::Command,
};

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, NetPort, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetError, Scope,
};
use rustix::process::{Resource, Rlimit, setrlimit};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};
use serde::{Deserialize, Serialize};

use super::Cell;

/// The first argument of a gevals that confines itself; the second is a [`Confinement`] as JSON, the rest a command.
pub const ARGUMENT: &str = "confined";

/// Linux 6.12: the first version that can prevent programs from signaling others.
const KERNEL: ABI = ABI::V6;

/// What is granted.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Confinement {
    read: Vec<PathBuf>,
    write: Vec<PathBuf>,
    network: bool,
    /// Only for an agent, to which no other limits apply: the ports that it may connect to if it has no network.
    #[serde(default)]
    ports: Option<Vec<u16>>,
    /// If set, the whole machine can be read except these directories and files; grants inside them still apply.
    #[serde(default)]
    hidden: Option<Vec<PathBuf>>,
}

impl Confinement {
    /// What an agent is granted.
    pub fn of_agent(read: Vec<PathBuf>, write: Vec<PathBuf>, network: bool, ports: &[u16]) -> Self {
        Self { read, write, network, ports: Some(ports.to_vec()), hidden: None }
    }

    /// What an agent is granted that may read the machine and use its network.
    pub fn of_agent_that_reads_all_but(hidden: Vec<PathBuf>, read: Vec<PathBuf>, write: Vec<PathBuf>) -> Self {
        Self { hidden: Some(hidden), ..Self::of_agent(read, write, true, &[]) }
    }

    /// What a cell grants, with a directory for temporary files.
    pub fn of(cell: &Cell<'_>, temporary: &Path) -> Self {
        let own = [cell.home, cell.workdir].into_iter().map(Path::to_owned);
        let write = cell.write.iter().cloned().chain([temporary.to_owned()]);
        let read = own.chain(cell.read.iter().cloned()).collect();
        Self { read, write: write.collect(), network: cell.network, ports: None, hidden: None }
    }
}

/// Whether the kernel supports this sandbox.
///
/// # Errors
/// Why it does not.
pub fn usable() -> Result<(), String> {
    let made = ruleset(false).and_then(landlock::Ruleset::create);
    made.map(drop).map_err(|_| "the kernel has no Landlock of version 6 (Linux 6.12 or newer)".to_owned())
}

/// The main function of a gevals that confines itself. Returns only if that fails, before the program runs.
pub fn run() -> u8 {
    let mut args = std::env::args_os().skip(2);
    let spec = args.next().and_then(|spec| serde_json::from_str::<Confinement>(spec.to_str()?).ok());
    let (Some(spec), Some(program)) = (spec, args.next()) else {
        eprintln!("gevals: `{ARGUMENT}` is started by gevals alone");
        return 2;
    };
    if let Err(why) = confine(&spec) {
        eprintln!("gevals: the sandbox cannot be made: {why}");
        return 3;
    }
    let error = Command::new(&program).args(args).exec();
    eprintln!("gevals: {} cannot be started: {error}", program.display());
    3
}

/// What a program needs to start, and to find out which machine it is on.
const SYSTEM: [&str; 19] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/etc/alternatives",
    "/etc/ld.so.cache",
    "/etc/passwd",
    "/etc/group",
    "/etc/localtime",
    "/proc/self",
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/sys/vm/overcommit_memory",
    "/dev/urandom",
    "/dev/random",
];
const DEVICES: [&str; 4] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/tty"];

fn ruleset(network: bool) -> Result<Ruleset, RulesetError> {
    let ruleset = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    let ruleset =
        ruleset.handle_access(AccessFs::from_all(KERNEL))?.scope(Scope::AbstractUnixSocket | Scope::Signal)?;
    if network { Ok(ruleset) } else { ruleset.handle_access(AccessNet::from_all(KERNEL)) }
}

fn confine(spec: &Confinement) -> Result<(), String> {
    let limit = |resource, most| setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) });
    if spec.ports.is_none() {
        let limits = limit(Resource::As, super::MEMORY)
            .and_then(|()| limit(Resource::Nofile, super::FILES))
            .and_then(|()| limit(Resource::Nproc, super::PROCESSES));
        limits.map_err(|error| format!("its limits: {error}"))?;
    }
    files(spec).map_err(|error| error.to_string())?;
    let filter = calls(spec).map_err(|error| error.to_string())?;
    seccompiler::apply_filter(&filter).map_err(|error| error.to_string())
}

fn files(spec: &Confinement) -> Result<(), RulesetError> {
    let mut rules = ruleset(spec.network)?.create()?;
    let read = AccessFs::from_read(KERNEL);
    let all = AccessFs::from_all(KERNEL);
    let devices = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::IoctlDev;
    let system = SYSTEM.iter().map(|path| (Path::new(path), read));
    let devices = DEVICES.iter().map(|path| (Path::new(path), devices));
    let is_connected = spec.network || spec.ports.is_some();
    let network = super::OF_NETWORK.iter().filter(|_| is_connected).map(|path| (Path::new(path), read));
    let mut machine = Vec::new();
    if let Some(hidden) = &spec.hidden {
        all_but(hidden, Path::new("/"), &mut machine);
    }
    let own = machine.iter().chain(&spec.read).map(|path| (path.as_path(), read));
    let writable = spec.write.iter().map(|path| (path.as_path(), all));
    for (path, access) in system.chain(devices).chain(network).chain(own).chain(writable) {
        // What does not exist need not be granted.
        let Ok(opened) = PathFd::new(path) else { continue };
        let access = if path.is_dir() { access } else { access & AccessFs::from_file(KERNEL) };
        rules = rules.add_rule(PathBeneath::new(opened, access))?;
    }
    for &port in spec.ports.iter().flatten().filter(|_| !spec.network) {
        rules = rules.add_rule(NetPort::new(port, AccessNet::ConnectTcp))?;
    }
    rules.restrict_self().map(drop)
}

/// The largest directories, and the files, that contain nothing hidden. Links are left out: a rule for a link would be a rule for its
/// target.
fn all_but(hidden: &[PathBuf], folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_symlink() || hidden.contains(&path) {
            continue;
        }
        match kind.is_dir() && hidden.iter().any(|secret| secret.starts_with(&path)) {
            true => all_but(hidden, &path, found),
            false => found.push(path),
        }
    }
}

/// The system calls that are denied. Without a network there are no sockets, and nothing may outlive the process group. Unix sockets
/// are connections to programs outside of the jail (docker's, a session bus), and Landlock does not control those that are files: a
/// program may only use pairs of its own.
///
/// An agent may start sessions, as shells do, and connect by TCP: without a network, Landlock limits the ports.
fn calls(spec: &Confinement) -> Result<BpfProgram, seccompiler::BackendError> {
    let number = |value: i32| u64::from(u32::try_from(value).unwrap_or_default());
    let condition = |argument, op, value| SeccompCondition::new(argument, SeccompCmpArgLen::Dword, op, number(value));
    let is_other = |domain| condition(0, SeccompCmpOp::Ne, domain);
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    rules.insert(libc::SYS_io_uring_setup, Vec::new());
    if spec.ports.is_none() {
        rules.insert(libc::SYS_setsid, Vec::new());
        rules.insert(libc::SYS_setpgid, Vec::new());
    }
    match (spec.network, &spec.ports) {
        (true, _) => {
            let is_file = condition(0, SeccompCmpOp::Eq, libc::AF_UNIX)?;
            rules.insert(libc::SYS_socket, vec![SeccompRule::new(vec![is_file])?]);
        }
        (false, None) => drop(rules.insert(libc::SYS_socket, Vec::new())),
        (false, Some(_)) => {
            let domains = [libc::AF_INET, libc::AF_INET6].map(is_other).into_iter();
            let mut denied = vec![SeccompRule::new(domains.collect::<Result<_, _>>()?)?];
            // Socket types are numbers up to 15; the bits above them are flags.
            for kind in (0..16).filter(|kind| *kind != libc::SOCK_STREAM) {
                let kind = condition(1, SeccompCmpOp::MaskedEq(15), kind)?;
                denied.push(SeccompRule::new(vec![kind])?);
            }
            // Streams other than TCP, which Landlock does not control.
            let protocol = |protocol| condition(2, SeccompCmpOp::Ne, protocol);
            denied.push(SeccompRule::new(vec![protocol(0)?, protocol(libc::IPPROTO_TCP)?])?);
            rules.insert(libc::SYS_socket, denied);
        }
    }
    let denied = SeccompAction::Errno(u32::from(u16::try_from(libc::EPERM).unwrap_or_default()));
    SeccompFilter::new(rules, SeccompAction::Allow, denied, std::env::consts::ARCH.try_into()?)?.try_into()
}
