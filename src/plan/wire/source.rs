//! Where things are written, for presentation.

use std::path::{Component, Path};

use schemars::JsonSchema;
use serde::Serialize;

use crate::source::normalize;

/// Where something is written in the sources; for display only.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Source {
    pub path: String,
}

/// A path as seen from the task's folder, so that a plan is the same wherever the suite lies.
pub(super) fn relative(dir: &Path, path: &Path) -> String {
    let (dir, path) = (normalize(dir), normalize(path));
    let common = dir.components().zip(path.components()).take_while(|(a, b)| a == b).count();
    let up = dir.components().skip(common);
    if dir.has_root() != path.has_root() || up.clone().any(|c| c == Component::ParentDir) {
        return slashes(&path);
    }
    let parts = up.map(|_| "..".to_owned());
    let down = path.components().skip(common).map(|c| c.as_os_str().to_string_lossy().into_owned());
    parts.chain(down).collect::<Vec<_>>().join("/")
}

pub(super) fn slashes(path: &Path) -> String {
    path.to_string_lossy().replace('\\', "/")
}
