//! Operations of extensions, in both forms: this version runs none, and says so.

use futures_util::future::BoxFuture;

use super::{Context, Done};
use crate::{event::Outcome, hir::OperationKind};

pub fn run(cx: Context<'_>) -> BoxFuture<'_, Done> {
    let package = match &cx.step.op.kind {
        OperationKind::Extension { package, .. } => package.clone(),
        _ => cx.args.get("package").and_then(|p| p.as_str()).unwrap_or_default().to_owned(),
    };
    let message = format!("this version of gevals cannot run extensions, so nothing of `{package}` was done");
    Box::pin(async { Done::new(Outcome::Broken, message) })
}
