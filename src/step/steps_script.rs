//! `script` in the steps and legacy dialects (§1.10 of the upstream behaviour), without two faults of upstream: a file
//! of the author is never made executable (its first line names its interpreter), and blank lines before `#!` in an
//! inline script are ignored.

use std::path::Path;

use futures_util::future::BoxFuture;

use super::{Context, Done, Stop, process};
use crate::{builtin::steps_script::StepsScript, event::Outcome, host::Exec};

pub fn run(cx: Context<'_>) -> BoxFuture<'_, Done> {
    Box::pin(async move { Done::from(script(&cx).await) })
}

async fn script(cx: &Context<'_>) -> Result<Done, Stop> {
    let script: StepsScript = cx.decode()?;
    // Upstream treats an empty text as missing.
    let given = |text: &Option<String>| text.clone().filter(|t| !t.is_empty());
    let mut private = None;
    let exec = match (given(&script.file), given(&script.inline)) {
        (Some(file), None) => {
            let path = process::absolute(&cx.dir.join(&file));
            // A file runs in its own directory.
            process::script_file(cx, &file, &path, path.parent().unwrap_or(cx.dir), &script.env)?
        }
        (None, Some(text)) if text.trim_start().starts_with("#!") => {
            process::exec(cx, process::inline_script(cx, &text, &mut private)?, cx.dir, &script.env)
        }
        (None, Some(text)) => process::exec(cx, shell(cx), cx.dir, &script.env).stdin(text),
        _ => return Err("exactly one of `file` and `inline` is needed".to_owned().into()),
    };
    let exec = Exec { merge_stderr: true, ..exec };
    let (mut done, status) = process::ended(cx, cx.host.exec(exec, cx.cancel.clone()).await);
    // The output is the message; there are no values for later steps.
    done.locals.clear();
    done.comparisons = u32::from(status.is_some());
    match status {
        None => {}
        Some(0) => done.message = done.stdout.clone(),
        Some(status) => (done.outcome, done.message) = (Outcome::Failed, process::exited(status)),
    }
    Ok(done)
}

/// Returns `$SHELL`, or bash if it is not set.
fn shell(cx: &Context<'_>) -> String {
    let own = cx.host.env("SHELL").filter(|shell| !shell.is_empty());
    own.unwrap_or_else(|| {
        let usual = "/usr/bin/bash";
        if cx.host.files().stat(Path::new(usual)).is_some() { usual.to_owned() } else { "bash".to_owned() }
    })
}
