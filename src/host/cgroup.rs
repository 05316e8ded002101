//! A control group for everything that a run starts, if the system lets gevals create one.
//!
//! A process stays in its control group unless it is moved explicitly. So a daemon that has left its session, its parent and its
//! environment is still found in it, even after a `kill -9` of gevals. gevals itself enters the group, so that everything it starts
//! is in it from the first moment, and leaves it at the end. This needs version 2 of control groups, and the right to create
//! directories there: root has it, in a container only if they are not mounted read-only.
#![expect(clippy::disallowed_methods, reason = "control groups are folders")]

use std::{
    collections::HashSet,
    fs, io,
    path::{Component, Path, PathBuf},
};

/// The prefix of the names of our groups.
const PREFIX: &str = "gevals-";
const MEMBERS: &str = "cgroup.procs";

/// Keeps this process in a group of its own until it is dropped.
#[derive(Debug)]
pub struct Group {
    path: PathBuf,
    outer: PathBuf,
}

impl Group {
    /// Enters a new group; `None` if the system does not allow it.
    pub(super) fn enter(mark: &str) -> Option<Self> {
        let outer = own()?;
        let path = outer.join(format!("{PREFIX}{mark}"));
        fs::create_dir(&path).ok()?;
        let group = Self { path, outer };
        fs::write(group.path.join(MEMBERS), std::process::id().to_string()).ok()?;
        Some(group)
    }

    /// Its directory.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Group {
    /// Leaves the group, and removes it if nothing lives in it.
    fn drop(&mut self) {
        let _ = fs::write(self.outer.join(MEMBERS), std::process::id().to_string());
        let _ = remove(&self.path);
    }
}

/// Whether this is the directory of a group of the gevals with this mark.
pub(super) fn is_of(path: &Path, mark: &str) -> bool {
    path.is_absolute() && path.file_name().is_some_and(|name| *name == *format!("{PREFIX}{mark}"))
}

/// The processes in a group, and in the groups that were created in it.
pub(super) fn members(path: &Path) -> HashSet<i32> {
    let text = fs::read_to_string(path.join(MEMBERS)).unwrap_or_default();
    let mut members: HashSet<i32> = text.lines().filter_map(|pid| pid.parse().ok()).collect();
    for group in within(path) {
        members.extend(self::members(&group));
    }
    members
}

/// Removes a group and those in it, in which no process may be left.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    for group in within(path) {
        remove(&group)?;
    }
    fs::remove_dir(path)
}

fn within(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path()).collect()
}

/// The directory of the group of this process.
fn own() -> Option<PathBuf> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let own = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    folder(&fs::read_to_string("/proc/self/mountinfo").ok()?, own)
}

/// The directory of a group, according to what is mounted.
fn folder(mounts: &str, group: &str) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let (mount, kind) = line.split_once(" - ")?;
        if kind.split(' ').next() != Some("cgroup2") {
            return None;
        }
        let mut fields = mount.split(' ').skip(3);
        let (root, at) = (fields.next()?, fields.next()?);
        let rest = Path::new(group).strip_prefix(root).ok()?;
        rest.components().all(|part| matches!(part, Component::Normal(_))).then(|| Path::new(at).join(rest))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mount_point_of_a_group_is_found() {
        let mounts = "29 22 0:25 / /sys/fs/cgroup ro,nosuid - tmpfs tmpfs ro\n30 29 0:26 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        assert_eq!(folder(mounts, "/user.slice/a"), Some("/sys/fs/cgroup/unified/user.slice/a".into()));
        assert_eq!(folder(mounts, "/"), Some("/sys/fs/cgroup/unified/".into()));
        let mounts = "30 29 0:26 /docker/1 /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        assert_eq!(folder(mounts, "/docker/1/x"), Some("/sys/fs/cgroup/x".into()));
        assert_eq!(folder(mounts, "/docker/2"), None);
        assert_eq!(folder(mounts, "/docker/1/../2"), None);
    }

    #[test]
    fn only_groups_created_by_gevals_are_ended() {
        assert!(is_of(Path::new("/sys/fs/cgroup/gevals-abc"), "abc"));
        for other in ["/sys/fs/cgroup/system.slice", "gevals-abc", "/sys/fs/cgroup/gevals-abd", "/"] {
            assert!(!is_of(Path::new(other), "abc"), "{other}");
        }
    }
}
