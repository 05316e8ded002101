//! The folder of this user for what can be made, or fetched, again.
#![expect(
    clippy::disallowed_methods,
    reason = "this is the door to the cache; the user's folders are in the environment"
)]

use std::path::PathBuf;

/// Names the folder; the user's own cache where it is not set.
pub const VARIABLE: &str = "GEVALS_CACHE_DIR";

/// GEVALS_CACHE_DIR, else a folder in the user's cache. It need not be there yet, and where nothing names a home there is none.
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

/// What checks have printed is kept here; it need not be there.
pub fn checks() -> Option<PathBuf> {
    Some(std::path::absolute(folder()?).ok()?.join("checks"))
}

/// Removes what checks have printed: it can be printed again.
pub fn forget_checks() {
    if let Some(folder) = checks() {
        let _ = std::fs::remove_dir_all(folder);
    }
}
