//! Checks that the files a plan refers to are still as planned, and makes copies of them to run.
//!
//! The agent under test may be able to write to the directory of its task: without this check it could pass by overwriting the
//! script that verifies it. Scripts run from copies made before the agent started. A task whose files changed is *broken*
//! (`decisions.md` §13, *Snapshot*), and so is one whose files were changed and restored while an agent could do that.

use std::path::PathBuf;

use sha2::{Digest, Sha256};

use crate::{
    hir::{ArgKind, Part},
    host::{Host, INLINE, Original, Snapshot, Stamp},
    plan::{ActionKind, Plan},
    step::process::{absolute, looks_beside},
};

/// Describes the first file whose content differs from what the plan was made from.
pub(super) fn changed(host: &dyn Host, plan: &Plan) -> Option<String> {
    plan.files.keys().find_map(|path| planned(host, plan, path).err())
}

/// Reads a file and ensures that its content is what the plan was made from.
fn planned(host: &dyn Host, plan: &Plan, path: &PathBuf) -> Result<Vec<u8>, String> {
    let fault = match host.files().read(path) {
        Ok(bytes) if plan.files.get(path).is_some_and(|digest| hex::encode(Sha256::digest(&bytes)) == *digest) => {
            return Ok(bytes);
        }
        Ok(_) => "was changed",
        Err(_) => "was removed or cannot be read",
    };
    Err(format!("`{}` {fault} since the task was planned: what it decides is not what was planned", path.display()))
}

/// Copies the planned files if a step runs one of them, or runs an inline script that may look for files beside itself.
///
/// # Errors
/// A file is not as planned, or cannot be copied.
pub(super) fn snapshot(host: &dyn Host, plan: &Plan) -> Result<Option<Snapshot>, String> {
    let (mut runs_file, mut looks) = (false, false);
    plan.walk(&mut |_, _, action| {
        if let ActionKind::Step(step) = &action.kind
            && step.op.name == "script"
        {
            let arg = |key: &str| step.args.iter().find(|(name, _)| name.value == key).map(|(_, arg)| &arg.kind);
            runs_file |= arg("file").is_some_and(|file| !matches!(file, ArgKind::Null));
            if let Some(ArgKind::Text(inline)) = arg("inline") {
                let texts = inline.parts.iter().filter_map(|part| match part {
                    Part::Text(text) => Some(text.as_str()),
                    Part::Hole(_) => None,
                });
                looks |= looks_beside(&texts.collect::<String>());
            }
        }
    });
    if !runs_file && !looks {
        return Ok(None);
    }
    let original = |path: &PathBuf| {
        let bytes = planned(host, plan, path)?;
        let mode = host.mode(path).map_err(|e| format!("cannot read `{}`: {e}", path.display()))?;
        Ok(Original { path: path.clone(), bytes, mode })
    };
    let mut originals = plan.files.keys().map(original).collect::<Result<Vec<_>, String>>()?;
    if looks {
        originals.push(Original { path: absolute(&plan.task.dir.join(INLINE)), bytes: Vec::new(), mode: 0o600 });
    }
    host.snapshot(&originals).map_err(|e| format!("cannot copy its scripts to the directory where they run: {e}"))
}

/// The state of a plan's files when the agent started.
pub(super) struct Stamps(Vec<(PathBuf, Option<Stamp>)>);

impl Stamps {
    pub fn new(host: &dyn Host, plan: &Plan) -> Self {
        Self(plan.files.keys().map(|path| (path.clone(), host.stamp(path))).collect())
    }

    /// Describes the first file that has been written or replaced since.
    pub fn changed(&self, host: &dyn Host) -> Option<String> {
        let (path, _) = self.0.iter().find(|(path, stamp)| host.stamp(path) != *stamp)?;
        Some(format!(
            "`{}` was written, replaced or given other permissions since the agent started: the checks may differ from the planned ones",
            path.display()
        ))
    }
}
