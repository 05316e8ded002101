//! Whether the files that a plan refers to are still what was planned.
//!
//! The agent under test can write where its task lies: without this it could pass by overwriting the script that judges it. A
//! task whose scripts or prompt files changed is *broken* (`decisions.md` §13, *Snapshot*).

use sha2::{Digest, Sha256};

use crate::{host::Host, plan::Plan};

/// The first file whose bytes are not those that the plan was made of, in words.
pub(super) fn changed(host: &dyn Host, plan: &Plan) -> Option<String> {
    plan.files.iter().find_map(|(path, digest)| {
        let fault = match host.files().read(path) {
            Ok(bytes) if hex::encode(Sha256::digest(&bytes)) == *digest => return None,
            Ok(_) => "was changed",
            Err(_) => "was removed or cannot be read",
        };
        Some(format!(
            "`{}` {fault} since the task was planned: what it decides is not what was asked for",
            path.display()
        ))
    })
}
