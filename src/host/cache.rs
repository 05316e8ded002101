//! The user's directory for what can be created or downloaded again.
#![expect(
    clippy::disallowed_methods,
    reason = "this is the door to the cache; the user's folders are in the environment"
)]

use std::path::PathBuf;

/// The environment variable that names the directory; by default it is in the user's cache.
pub const VARIABLE: &str = "GEVALS_CACHE_DIR";

/// Returns GEVALS_CACHE_DIR, or otherwise a directory in the user's cache. It may not exist yet. `None` if there is no home directory.
pub fn folder() -> Option<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let home = || std::env::home_dir().filter(|home| home.is_absolute());
    let own = || match cfg!(target_os = "macos") {
        true => home().map(|home| home.join("Library/Caches/gevals")),
        false => variable("XDG_CACHE_HOME")
            .filter(|dir| dir.is_absolute())
            .or_else(|| home().map(|home| home.join(".cache")))
            .map(|dir| dir.join("gevals")),
    };
    variable(VARIABLE).or_else(own)
}

/// The directory in which the output of checks is kept; it may not exist.
pub fn checks() -> Option<PathBuf> {
    Some(std::path::absolute(folder()?).ok()?.join("checks"))
}

/// Removes the kept output of checks, which can be created again.
pub fn forget_checks() {
    if let Some(folder) = checks() {
        let _ = std::fs::remove_dir_all(folder);
    }
}
