//! Runs the program `git`.

use std::process::Command;

/// The message for a revision that does not exist.
pub(super) fn no_revision(rev: &str, root: &str) -> String {
    let remote = if rev.contains('/') {
        "; a branch must be fetched first: `actions/checkout` does so with `fetch-depth: 0`"
    } else {
        ""
    };
    format!("`{rev}` is not a revision of the git repository `{root}`{remote}")
}

/// Returns the output of git, or an error with its message.
pub(super) fn git(args: &[&str]) -> Result<Vec<u8>, String> {
    let out = Command::new("git").args(args).output().map_err(|e| format!("cannot run `git`: {e}"))?;
    match out.status.success() {
        true => Ok(out.stdout),
        false => {
            let complaint = String::from_utf8_lossy(&out.stderr);
            let verb = args.iter().find(|a| !a.starts_with(['-', '/'])).unwrap_or(&"");
            Err(format!("`git {verb}` failed: {}", complaint.trim()))
        }
    }
}
