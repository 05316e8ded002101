//! `script` of the steps and legacy dialects (§1.10 of the upstream behaviour), with two faults of upstream's left out:
//! no file of the author's is ever made executable (its first line names what reads it), and blank lines before `#!` in
//! an inline text do not count.

use std::path::Path;

use futures_util::future::BoxFuture;

use super::{Context, Done, Stop, process};
use crate::{builtin::steps_script::StepsScript, event::Outcome, host::Exec};

pub fn run(cx: Context<'_>) -> BoxFuture<'_, Done> {
    Box::pin(async move { Done::from(script(&cx).await) })
}

async fn script(cx: &Context<'_>) -> Result<Done, Stop> {
    let script: StepsScript = cx.decode()?;
    // Upstream knows an empty text as none.
    let given = |text: &Option<String>| text.clone().filter(|t| !t.is_empty());
    let private;
    let exec = match (given(&script.file), given(&script.inline)) {
        (Some(file), None) => {
            let path = process::absolute(&cx.dir.join(&file));
            // A file runs in its own folder.
            process::script_file(cx, &file, &path, path.parent().unwrap_or(cx.dir), &script.env)?
        }
        (None, Some(text)) if text.trim_start().starts_with("#!") => {
            private = process::Private::new(cx.host)?;
            let file = private.file("script", text.trim_start(), 0o700)?;
            process::exec(cx, file, cx.dir, &script.env)
        }
        (None, Some(text)) => process::exec(cx, shell(cx), cx.dir, &script.env).stdin(text),
        _ => return Err("exactly one of `file` and `inline` is needed".to_owned().into()),
    };
    let exec = Exec { merge_stderr: true, ..exec };
    let (mut done, status) = process::ended(cx, cx.host.exec(exec, cx.cancel.clone()).await);
    // Its output is its message; there are no values for later steps.
    done.locals.clear();
    done.comparisons = u32::from(status.is_some());
    match status {
        None => {}
        Some(0) => done.message = done.stdout.clone(),
        Some(status) => (done.outcome, done.message) = (Outcome::Failed, process::exited(status)),
    }
    Ok(done)
}

/// `$SHELL`, else bash.
fn shell(cx: &Context<'_>) -> String {
    let own = cx.host.env("SHELL").filter(|shell| !shell.is_empty());
    own.unwrap_or_else(|| {
        let usual = "/usr/bin/bash";
        if cx.host.files().stat(Path::new(usual)).is_some() { usual.to_owned() } else { "bash".to_owned() }
    })
}
