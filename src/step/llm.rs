//! `llm`: no judge can run in this version, and a check that was not made is never passed.

use futures_util::future::BoxFuture;

use super::{Context, Done};
use crate::event::Outcome;

pub fn run(_: Context<'_>) -> BoxFuture<'_, Done> {
    Box::pin(async { Done::new(Outcome::Broken, "this version of gevals cannot run a judge, so nothing was judged") })
}
