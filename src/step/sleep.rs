//! `sleep`: waits.

use futures_util::future::BoxFuture;

use super::{Context, Done, Stop};
use crate::{builtin::sleep::Sleep, event::Outcome, ty::duration};

pub fn run(cx: Context<'_>) -> BoxFuture<'_, Done> {
    Box::pin(async move { Done::from(sleep(&cx).await) })
}

async fn sleep(cx: &Context<'_>) -> Result<Done, Stop> {
    let Sleep { duration: text } = cx.decode()?;
    let duration = duration::parse(&text).map_err(|fault| format!("`{text}` is not a duration: {fault}"))?;
    cx.within(cx.host.sleep(duration)).await?;
    Ok(Done::new(Outcome::Passed, ""))
}
