//! Git, asked as a program.

use std::process::Command;

/// What git prints; its complaint where it fails.
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
