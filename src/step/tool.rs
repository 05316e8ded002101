//! `ALIAS.TOOL`: an MCP tool as a step, in both dialects.

use futures_util::future::BoxFuture;
use serde_json::{Value, json};

use super::{
    Context, Contract, Done, Stop, ToolAnswer, ToolFault, Tools,
    compare::{self, Compared, TextDemands},
};
use crate::{
    builtin::tool::{Expect, StepsExpect, Tool},
    diagnostic::nearest,
    event::{Difference, Outcome},
    hir::{ArgKind, Dialect, OperationKind},
    primitive::{self, Mismatch},
    signature::Schema,
};

pub fn run(cx: Context<'_>) -> BoxFuture<'_, Done> {
    Box::pin(async move { Done::from(tool(&cx).await) })
}

async fn tool(cx: &Context<'_>) -> Result<Done, Stop> {
    let Tool { args } = cx.decode()?;
    let OperationKind::Tool { server, tool } = &cx.step.op.kind else {
        return Err(format!("`{}` is not a tool", cx.step.op.name).into());
    };
    let args = Value::Object(args);
    let broken = |fault: &ToolFault| match fault {
        ToolFault::Lost(why) => format!("the server `{server}` did not answer: {why}"),
        ToolFault::Protocol { code, message } => {
            format!("the server `{server}` does not list its tools: {message} ({code})")
        }
        ToolFault::Unlisted(listed) => {
            format!("not called: {}", no_such_tool(server, tool, listed))
        }
    };
    // The contract is requested first: a server answers a call of an unknown tool with an error, which would not show
    // what went wrong.
    let contract = cx.within(cx.tools.contract(server, tool)).await?.map_err(|fault| broken(&fault))?;
    // If an error is expected, the server itself decides whether the arguments are invalid.
    if !expects_error(cx)
        && let Some(faults) = cx
            .within(faults(cx.tools, (server, tool), &contract, &args, |c| Some(&c.input)))
            .await?
            .map_err(|fault| broken(&fault))?
    {
        return Err(format!("the arguments do not fit the schema of `{tool}`, so it was not called: {faults}").into());
    }
    let called = cx.within(cx.tools.call(server, tool, args)).await?;
    let (answer, refusal) = match called {
        Ok(answer) => (answer, None),
        Err(fault @ (ToolFault::Lost(_) | ToolFault::Unlisted(_))) => return Err(broken(&fault).into()),
        // A refusal also counts as an error if an error is expected.
        Err(ToolFault::Protocol { code, message }) => {
            let refusal = format!("the server `{server}` refused the call: {message} ({code})");
            let content = json!([{ "type": "text", "text": message }]);
            (ToolAnswer { content, structured_content: None, is_error: true }, Some(refusal))
        }
    };
    if let Some(structured) = answer.structured_content.as_ref().filter(|_| !answer.is_error)
        && let Some(faults) = cx
            .within(faults(cx.tools, (server, tool), &contract, structured, |c| c.output.as_ref()))
            .await?
            .map_err(|fault| broken(&fault))?
    {
        let fault = format!(
            "the server `{server}` breaks its own `outputSchema` of `{tool}`: in `structuredContent`, {faults}"
        );
        return Err(fault.into());
    }
    Ok(match cx.dialect {
        Dialect::Portable => portable(cx, &answer, refusal),
        _ => steps(cx, &answer, refusal),
    })
}

/// Describes a tool that its server does not list, with similar ones.
pub fn no_such_tool(server: &str, tool: &str, listed: &[String]) -> String {
    let listed = || listed.iter().map(String::as_str);
    let others = match nearest(tool, listed()) {
        Some(near) => format!("did you mean `{near}`?"),
        None if listed().len() == 0 => "it lists none".to_owned(),
        None => {
            let names: Vec<_> = listed().take(12).map(|name| format!("`{name}`")).collect();
            let more = if listed().len() > names.len() { ", …" } else { "" };
            format!("it lists {}{more}", names.join(", "))
        }
    };
    format!("the tool `{tool}`, which the server `{server}` does not list: {others}")
}

/// Whether `isError: true` is expected; this needs no filled values.
fn expects_error(cx: &Context<'_>) -> bool {
    let Some(ArgKind::Record(expect)) = cx.step.expect.as_ref().map(|expect| &expect.kind) else { return false };
    expect.iter().any(|(key, value)| key.value == "isError" && matches!(value.kind, ArgKind::Bool(true)))
}

/// How many faults are listed.
const SHOWN: usize = 3;

/// Describes in one line how a value violates a schema of the tool. The server may have changed its tools since it
/// listed them, so it is asked again first.
async fn faults(
    tools: &dyn Tools,
    (server, tool): (&str, &str),
    known: &Contract,
    value: &Value,
    schema: fn(&Contract) -> Option<&Schema>,
) -> Result<Option<String>, ToolFault> {
    let faults = |contract: &Contract| schema(contract).map(|schema| schema.faults(value, &[])).unwrap_or_default();
    if faults(known).is_empty() {
        return Ok(None);
    }
    let found = faults(&tools.contract_anew(server, tool).await?);
    if found.is_empty() {
        return Ok(None);
    }
    let mut words: Vec<_> = found.iter().take(SHOWN).map(ToString::to_string).collect();
    if found.len() > SHOWN {
        words.push(format!("{} more", found.len() - SHOWN));
    }
    Ok(Some(words.join("; ")))
}

fn portable(cx: &Context<'_>, answer: &ToolAnswer, refusal: Option<String>) -> Done {
    let mut done = Done::new(Outcome::Passed, "");
    done.locals.insert("content".to_owned(), answer.content.clone());
    done.locals.insert("isError".to_owned(), answer.is_error.into());
    if let Some(structured) = &answer.structured_content {
        done.locals.insert("structuredContent".to_owned(), structured.clone());
    }
    let expect: Expect = match cx.expected(&done.locals) {
        Ok(expect) => expect.unwrap_or_default(),
        Err(message) => return done.judged(Err(message)),
    };
    match refusal {
        Some(refusal) if !expect.is_error => done.judged(Err(refusal)),
        _ => with_error_text(done.judged(judge(&expect, answer)), answer),
    }
}

fn judge(expect: &Expect, answer: &ToolAnswer) -> Result<Compared, String> {
    let mut found = Compared::default();
    found.add(is_error(expect.is_error, answer.is_error));
    if let Some(structured) = &expect.structured_content {
        found.extend(equal(primitive::same("structuredContent", structured, answer.structured_content.as_ref())));
    }
    if let Some(content) = &expect.content {
        if let Some(equals) = &content.equals {
            found.extend(equal(primitive::content(equals, &answer.content)));
        }
        let text = text_of(&answer.content);
        let demands = content.demands();
        found.extend(compare::part("content", &TextDemands { json: None, ..demands }, &text)?);
        if let Some(json) = demands.json {
            match answer.structured_content.clone().or_else(|| serde_json::from_str(&text).ok()) {
                Some(document) => found.extend(compare::json("content.json", json, &document)?),
                None => found.add(Some(compare::difference("content", "JSON", &text))),
            }
        }
    }
    Ok(found)
}

/// A single comparison of whole values, with the differences.
fn equal(mismatches: Vec<Mismatch>) -> Compared {
    let shown = |value: Option<&Value>| value.map_or_else(|| "nothing".to_owned(), Value::to_string);
    let differs = |m: &Mismatch| compare::unequal(&m.at, &shown(m.expected.as_ref()), &shown(m.found.as_ref()));
    Compared { made: 1, differences: mismatches.iter().map(differs).collect() }
}

/// §6.6 of the upstream behaviour: `isError: true` accepts an error but does not require one, and the expectation is
/// evaluated on the JSON text of the content as Go writes it.
fn steps(cx: &Context<'_>, answer: &ToolAnswer, refusal: Option<String>) -> Done {
    let mut done = Done::new(Outcome::Passed, "");
    let text = go_json(&answer.content);
    if refusal.is_none() {
        done.locals.insert("content".to_owned(), text.clone().into());
    }
    let expect: StepsExpect = match cx.expected(&done.locals) {
        Ok(expect) => expect.unwrap_or_default(),
        Err(message) => return done.judged(Err(message)),
    };
    match refusal {
        Some(_) if expect.is_error => return done,
        Some(refusal) => return done.judged(Err(refusal)),
        None => {}
    }
    let judge = || {
        let mut found = Compared::default();
        if !expect.is_error {
            found.add(is_error(false, answer.is_error));
        }
        if let Some(expect) = &expect.content {
            found.extend(compare::part("content", &TextDemands::pattern(expect.matches.as_deref()), &text)?);
            found.extend(compare::fields("content", &expect.fields, &answer.content)?);
        }
        Ok(found)
    };
    with_error_text(done.judged(judge()), answer)
}

fn is_error(expected: bool, actual: bool) -> Option<Difference> {
    let differs = expected != actual;
    differs.then(|| compare::difference("isError", &expected.to_string(), &actual.to_string()))
}

/// Uses the tool's error text as the reason.
fn with_error_text(mut done: Done, answer: &ToolAnswer) -> Done {
    if done.differences.first().is_some_and(|d| d.subject == "isError") {
        done.message = match answer.is_error {
            true => format!("the tool reports an error: {}", compare::excerpt(&text_of(&answer.content))),
            false => "the tool reports no error, and one is expected".to_owned(),
        };
    }
    done
}

/// The text blocks of a result, joined by newlines.
fn text_of(content: &Value) -> String {
    let blocks = content.as_array().into_iter().flatten();
    blocks.filter_map(|block| block.get("text")?.as_str()).collect::<Vec<_>>().join("\n")
}

/// JSON as written by Go's encoder, with HTML characters escaped.
fn go_json(value: &Value) -> String {
    let mut out = String::new();
    for c in value.to_string().chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => out += &format!("\\u{:04x}", c as u32),
            _ => out.push(c),
        }
    }
    out
}
