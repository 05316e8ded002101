//! `http` in the steps dialect (§6.1 of the upstream behaviour): any response passes unless a status is expected.

use futures_util::future::BoxFuture;

use super::{
    Context, Done, Stop,
    compare::{self, Compared},
    http::{send, whole_body},
};
use crate::{
    builtin::steps_http::{StepsExpect, StepsHttp},
    event::Outcome,
    host::HttpResponse,
};

pub fn run(cx: Context<'_>) -> BoxFuture<'_, Done> {
    Box::pin(async move { Done::from(http(&cx).await) })
}

async fn http(cx: &Context<'_>) -> Result<Done, Stop> {
    let StepsHttp { url, method, headers, body } = cx.decode()?;
    let method = if method.is_empty() { "GET".to_owned() } else { method };
    let (body, json) = match body.map(|b| (b.raw, b.json)) {
        None => (None, false),
        Some((Some(raw), None)) => (Some(raw.into_bytes()), false),
        Some((None, Some(json))) => (Some(serde_json::Value::Object(json).to_string().into_bytes()), true),
        Some(_) => return Err("the body needs exactly one of `raw` and `json`".to_owned().into()),
    };
    let answer = send(cx, method, url, &headers, body, json).await?;
    let done = Done::new(Outcome::Passed, "");
    let judged = cx.expected::<StepsExpect>(&done.locals).and_then(|expect| match expect {
        // The existence of a response counts as a comparison.
        None => Ok(Compared { made: 1, ..Compared::default() }),
        Some(expect) => judge(&expect, &answer),
    });
    let mut done = done.judged(judged);
    if done.outcome == Outcome::Passed {
        done.message = format!("the answer has status {}", answer.status);
    }
    Ok(done)
}

fn judge(expect: &StepsExpect, answer: &HttpResponse) -> Result<Compared, String> {
    let mut found = Compared::default();
    if expect.status != 0 {
        let differs = expect.status != answer.status;
        found.add(
            differs.then(|| compare::difference("status", &expect.status.to_string(), &answer.status.to_string())),
        );
    }
    if let Some(expect) = &expect.body {
        let body = whole_body(answer)?;
        found.extend(compare::part("body", &compare::TextDemands::pattern(expect.matches.as_deref()), &body)?);
        if !expect.fields.is_empty() {
            match serde_json::from_str(&body) {
                Ok(document) => found.extend(compare::fields("body", &expect.fields, &document)?),
                Err(_) => found.add(Some(compare::difference("body", "JSON", &body))),
            }
        }
    }
    if found.made == 0 { Err(compare::NOTHING.to_owned()) } else { Ok(found) }
}
