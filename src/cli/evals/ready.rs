//! What has to be there before evals of a server are run: evals that mean something, models, and consent.

use std::{
    io::{IsTerminal as _, Write as _},
    time::Duration,
};

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::{Fault, limit, list, notices};
use crate::{
    agent,
    builtin::count,
    cli::status,
    diagnostic::{Diagnostics, Pretty, Strength, concise, nearest, visible},
    evals::{Running, Server, list as list_evals},
    hir::{ModelAgent, Provider},
    host::RealHost,
    primitive::{self, Eval, Grading, Input, Level, Tools},
    source::Sources,
};

/// The options of running evals.
#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    /// Only evals of this level: invocation, execution or scenario.
    #[arg(long, value_name = "LEVEL", value_parser = super::level)]
    pub level: Option<Level>,
    /// Only the eval with this id; repeat it for several.
    #[arg(long, value_name = "ID")]
    pub id: Vec<String>,
    /// The model of invocations and scenarios, as `provider:model`.
    #[arg(long, value_name = "MODEL", value_parser = model)]
    pub model: Option<ModelAgent>,
    /// The model that judges what an LLM grades, as `provider:model`.
    #[arg(long, value_name = "MODEL", value_parser = model)]
    pub judge: Option<ModelAgent>,
    /// How long a conversation with a model may take.
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = limit)]
    pub model_timeout: Duration,
    /// Evals at the same time.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub parallel: u16,
    /// Allow evals to call tools of the server.
    #[arg(long)]
    pub allow_execution: bool,
}

pub fn model(text: &str) -> Result<ModelAgent, String> {
    let known = || Provider::NAMES.join(", ");
    let (provider, model) = text.split_once(':').filter(|(_, model)| !model.is_empty()).unwrap_or(("", ""));
    let provider = Provider::of(provider)
        .ok_or_else(|| format!("write it as `provider:model`, where the provider is one of {}", known()))?;
    Ok(ModelAgent { provider, model: model.to_owned(), base_url: None, api_key: None, meant: false })
}

/// As people and results name a model.
pub fn named(model: &ModelAgent) -> String {
    format!("{}:{}", model.provider.name(), model.model)
}

/// What is run.
pub struct Ready {
    pub evals: Vec<Eval>,
    /// The items of `tools/list`.
    pub tools: Vec<Value>,
    /// Of all evals that the server ships, at the levels that were asked for.
    pub digest: String,
}

/// Evals and tools of the server. Nothing has been run yet.
pub async fn ready(args: &Options, server: &Server) -> Result<Ready, Fault> {
    let sources = Sources::default();
    let mut listed = list_evals(server, args.level, &sources).await.map_err(list::fault)?;
    notices(&listed.notices);
    let tools = server
        .client
        .list_tools()
        .await
        .map_err(|error| (status::BROKEN, format!("`tools/list` of `{}`: {}", server.name, server.lost(&error))))?;
    let mut out = Diagnostics::default();
    out.extend(std::mem::take(&mut listed.findings));
    primitive::check(&listed.documents, Some(&Tools::listed(&server.name, &tools)), &mut out);
    if out.has_hard() {
        let hard = out.into_sorted(&sources).into_iter().filter(|d| d.strength == Strength::Hard).collect::<Vec<_>>();
        let mut text = String::new();
        let _ = concise(&hard, &sources, &Pretty::default(), &mut text);
        let why = "evals of the server mean nothing, so none is run; `gevals evals check` tells more";
        return Err((status::USAGE, format!("{why}:\n{}", text.trim_end())));
    }
    let all: Vec<Eval> = listed.evals().cloned().collect();
    let digest = primitive::digest(&all);
    let ids: Vec<&str> = all.iter().map(|eval| eval.id.value.as_str()).collect();
    if let Some(id) = args.id.iter().find(|id| !ids.contains(&id.as_str())) {
        let hint =
            nearest(id, ids.iter().copied()).map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
        return Err((status::USAGE, format!("the server ships no eval `{id}`{hint}")));
    }
    let evals: Vec<Eval> =
        all.iter().filter(|eval| args.id.is_empty() || args.id.contains(&eval.id.value)).cloned().collect();
    if evals.is_empty() {
        return Err((status::USAGE, "no eval is selected: there is nothing to run".to_owned()));
    }
    Ok(Ready { evals, tools, digest })
}

/// Whether everything is there that these evals are run with.
///
/// # Errors
/// What is missing, and what gives it.
pub fn models(args: &Options, host: &RealHost, evals: &[Eval]) -> Result<(), Fault> {
    let asked: Vec<&Eval> = evals.iter().filter(|eval| eval.level() != Level::Execution).collect();
    let judged: Vec<&Eval> = evals.iter().filter(|eval| eval.grading.value == Grading::LlmAsJudge).collect();
    let needs = [
        (asked, &args.model, "need a model", "`--model provider:model` names it"),
        (judged, &args.judge, "need a judge", "`--judge provider:model` names it"),
    ];
    for (evals, model, what, help) in needs {
        if !evals.is_empty() && model.is_none() {
            let evals = ids(&evals);
            return Err((status::BROKEN, format!("nothing is run: {evals} {what}; {help}")));
        }
    }
    endpoints(args, host)
}

/// Whether the models that are named can be asked.
pub fn endpoints(args: &Options, host: &RealHost) -> Result<(), Fault> {
    for (model, what) in [(&args.model, "model"), (&args.judge, "judge")] {
        if let Some(model) = model {
            agent::endpoint(host, model)
                .map_err(|why| (status::BROKEN, format!("nothing is run: the {what} `{}`: {why}", named(model))))?;
        }
    }
    Ok(())
}

/// The ids of evals, for a message.
pub fn ids(evals: &[&Eval]) -> String {
    const SHOWN: usize = 20;
    let mut shown: Vec<String> = evals.iter().take(SHOWN).map(|eval| format!("`{}`", eval.id.value)).collect();
    if evals.len() > SHOWN {
        shown.push(format!("{} more", evals.len() - SHOWN));
    }
    shown.join(", ")
}

/// Asks whether tools may be called, where that was not said and there is somebody to ask.
///
/// # Errors
/// Nobody said yes.
pub fn consent(args: &Options, ready: &Ready) -> Result<(), Fault> {
    let calling: Vec<&Eval> = ready.evals.iter().filter(|eval| eval.calls_tools()).collect();
    if args.allow_execution || calling.is_empty() {
        return Ok(());
    }
    let refused = || {
        let evals = ids(&calling);
        let help = "`--allow-execution` allows it, and `--level invocation` leaves them out";
        (status::USAGE, format!("nothing is run: {evals} call tools of the server; {help}"))
    };
    let ci = std::env::var_os("CI").is_some_and(|ci| !ci.is_empty() && ci != "false" && ci != "0");
    if ci || !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return Err(refused());
    }
    let mut err = std::io::stderr().lock();
    let _ = write!(err, "{}call them? [y/N] ", question(&calling, &ready.tools));
    let _ = err.flush();
    let mut line = String::new();
    let _ = std::io::stdin().read_line(&mut line);
    if matches!(line.trim(), "y" | "Y" | "yes") { Ok(()) } else { Err(refused()) }
}

/// The tools that evals call, the dangerous ones first. A scenario may call any.
fn question(calling: &[&Eval], tools: &[Value]) -> String {
    let named = |tool: &Value| tool.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
    let free = calling.iter().any(|eval| eval.level() == Level::Scenario);
    let called = |name: &str| {
        free || calling.iter().any(|eval| matches!(&eval.input, Input::Execution { tool, .. } if tool.value == name))
    };
    let hint = |tool: &Value, key: &str| tool.pointer(&format!("/annotations/{key}")).and_then(Value::as_bool);
    // A tool that says nothing may do anything: so MCP has it.
    let rank = |tool: &Value| match (hint(tool, "readOnlyHint"), hint(tool, "destructiveHint")) {
        (Some(true), _) => 2,
        (_, Some(false)) => 1,
        _ => 0,
    };
    let mut rows: Vec<(i32, String)> = tools.iter().map(|tool| (rank(tool), named(tool))).collect();
    rows.retain(|(_, name)| called(name));
    rows.sort();
    let mut text = format!("{} call tools of the server:\n", count(calling.len(), "eval may", "evals may"));
    for (rank, name) in rows {
        let what = ["may destroy", "changes", "reads"][usize::try_from(rank).unwrap_or_default()];
        text += &format!("  {what:11}  {}\n", visible(&name.replace('\n', " ")));
    }
    text + "(what they do is what the server says of them)\n"
}

/// What evals are run with.
pub fn running<'a>(args: &'a Options, host: &'a RealHost, cancel: &'a CancellationToken, runs: u32) -> Running<'a> {
    Running {
        host,
        model: args.model.as_ref(),
        judge: args.judge.as_ref(),
        runs,
        parallel: usize::from(args.parallel),
        timeout: args.model_timeout,
        cancel,
    }
}
