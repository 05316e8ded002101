//! The files of a world: read, restored for the next run, compared.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::shim::TASK;

pub type Files = Vec<(PathBuf, Vec<u8>, u32)>;

/// What `random.id` is in every world.
pub const RANDOM_ID: &str = "r4nd0m1d";

/// All plain files below a folder that are not too large, with their modes.
pub fn tree(root: &Path) -> Files {
    use std::os::unix::fs::PermissionsExt;
    let mut found = Vec::new();
    let mut open = vec![root.to_owned()];
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            let Ok(meta) = entry.metadata() else { continue };
            let name = entry.file_name();
            if meta.is_dir() && !matches!(name.to_str(), Some(".git" | "node_modules" | "target" | ".gevals")) {
                open.push(entry.path());
            } else if meta.is_file() && meta.len() < 1 << 20 && found.len() < 5000 {
                let path = entry.path().strip_prefix(root).map(Path::to_path_buf).unwrap_or_default();
                found.push((path, fs::read(entry.path()).unwrap_or_default(), meta.permissions().mode()));
            }
        }
    }
    found.sort();
    found
}

/// Puts the task's folder as it was.
pub fn restore(files: &Files) -> Result<(), String> {
    use std::os::unix::fs::PermissionsExt;
    let fault = |e: std::io::Error| format!("the jail's folder cannot be written: {e}");
    for dir in [TASK, "/tmp"] {
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            let path = entry.path();
            let _ = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        }
    }
    for (path, bytes, mode) in files {
        let path = Path::new(TASK).join(path);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(fault)?;
        }
        fs::write(&path, bytes).map_err(fault)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(*mode)).map_err(fault)?;
    }
    Ok(())
}

/// Whether a run left the folders as they were.
pub fn untouched(files: &Files) -> bool {
    fs::read_dir("/tmp").is_ok_and(|mut d| d.next().is_none()) && {
        let now = tree(Path::new(TASK));
        let mut then: Vec<_> = files.clone();
        then.sort();
        now.len() == then.len() && now.iter().zip(&then).all(|(a, b)| a.0 == b.0 && a.1 == b.1)
    }
}

/// What a run has written, without what is private to one of its steps.
pub fn written() -> Files {
    let mut files = tree(Path::new(TASK));
    let private = |p: &Path| {
        let first = p.components().next().map(|c| c.as_os_str().to_string_lossy().into_owned()).unwrap_or_default();
        first.starts_with("gevals-") || first.starts_with("tmp.") || first == RANDOM_ID
    };
    files.extend(
        tree(Path::new("/tmp"))
            .into_iter()
            .filter(|(p, ..)| !private(p))
            .map(|(p, b, m)| (Path::new("/tmp").join(p), b, m)),
    );
    files
}
