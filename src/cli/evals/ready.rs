//! What must be available before evals of a server run: valid evals, models, and consent.

use std::{
    io::{IsTerminal as _, Write as _},
    path::PathBuf,
    time::Duration,
};

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::{Fault, agent::Chosen, limit, list, notices, pinned::Pinned};
use crate::{
    agent,
    builtin::count,
    cli::{in_ci, status, warn},
    diagnostic::{Diagnostics, Pretty, Strength, concise, nearest, visible},
    evals::{Running, Server, list as list_evals},
    hir::{ModelAgent, Provider},
    host::RealHost,
    lock::LockedEvals,
    plan::AgentKind,
    primitive::{self, Eval, Grading, Input, Level, Tools},
    run,
    source::Sources,
};

/// The options of running evals.
#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    /// Only run evals of this level: invocation, execution or scenario.
    #[arg(long, value_name = "LEVEL", value_parser = super::level)]
    pub level: Option<Level>,
    /// Only run the eval with this id; repeat it for several.
    #[arg(long, value_name = "ID")]
    pub id: Vec<String>,
    /// The model for invocations, and for scenarios without an agent, as `provider:model`.
    #[arg(long, value_name = "MODEL", value_parser = model)]
    pub model: Option<ModelAgent>,
    /// The model that judges evals graded by an LLM, as `provider:model`.
    #[arg(long, value_name = "MODEL", value_parser = model)]
    pub judge: Option<ModelAgent>,
    /// Timeout of a conversation with a model.
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = limit)]
    pub model_timeout: Duration,
    /// Run up to N evals in parallel.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub parallel: u16,
    /// Allow evals to call tools of the server.
    #[arg(long)]
    pub allow_execution: bool,
    /// Run nothing unless the evals match the lock.
    #[arg(long)]
    pub locked: bool,
    /// The lock [default: gevals.lock beside the MCP config, or in the current directory].
    #[arg(long, value_name = "FILE")]
    pub lock: Option<PathBuf>,
}

pub fn model(text: &str) -> Result<ModelAgent, String> {
    let known = || Provider::NAMES.join(", ");
    let (provider, model) = text.split_once(':').filter(|(_, model)| !model.is_empty()).unwrap_or(("", ""));
    let provider = Provider::of(provider)
        .ok_or_else(|| format!("write it as `provider:model`, where the provider is one of {}", known()))?;
    Ok(ModelAgent { provider, model: model.to_owned(), base_url: None, api_key: None, meant: false })
}

/// The name of a model for people and in results.
pub fn named(model: &ModelAgent) -> String {
    format!("{}:{}", model.provider.name(), model.model)
}

/// What is run.
pub struct Ready {
    pub evals: Vec<Eval>,
    /// The items of `tools/list`.
    pub tools: Vec<Value>,
    /// The digest of all evals that the server ships at the requested levels.
    pub digest: String,
}

/// The evals and the tools of a server.
pub struct Sound {
    pub evals: Vec<Eval>,
    /// The items of `tools/list`.
    pub tools: Vec<Value>,
}

/// All evals of a server, or those of one level, if all of them are valid.
///
/// # Errors
/// An eval is invalid, or the server does not list them.
pub async fn sound(server: &Server, level: Option<Level>) -> Result<Sound, Fault> {
    let sources = Sources::default();
    let mut listed = list_evals(server, level, &sources).await.map_err(list::fault)?;
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
        let why = "some evals of the server are invalid; `gevals evals check` shows which";
        return Err((status::USAGE, format!("{why}:\n{}", text.trim_end())));
    }
    Ok(Sound { evals: listed.evals().cloned().collect(), tools })
}

/// The evals and tools of the server. Nothing has been run yet.
pub async fn ready(args: &Options, server: &Server, pinned: &Pinned) -> Result<Ready, Fault> {
    let Sound { evals: all, tools } = sound(server, args.level).await?;
    as_locked(args, server, pinned, &all)?;
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
        return Err((status::USAGE, "no evals selected: there is nothing to run".to_owned()));
    }
    Ok(Ready { evals, tools, digest })
}

/// Checks that everything is available that these evals need.
///
/// # Errors
/// What is missing, and how to provide it.
pub fn models(args: &Options, agent: Option<&Chosen>, host: &RealHost, evals: &[Eval]) -> Result<(), Fault> {
    let is_done = |eval: &Eval| match agent {
        // An agent that is a model called directly also gives first answers.
        Some(Chosen { kind: AgentKind::Model(_), .. }) => true,
        Some(_) => eval.level() == Level::Scenario,
        None => false,
    };
    let asked: Vec<&Eval> = evals.iter().filter(|eval| eval.level() != Level::Execution && !is_done(eval)).collect();
    let judged: Vec<&Eval> = evals.iter().filter(|eval| eval.grading.value == Grading::LlmAsJudge).collect();
    let needs = [
        (asked, &args.model, "need a model", "specify it with `--model provider:model`"),
        (judged, &args.judge, "need a judge", "specify it with `--judge provider:model`"),
    ];
    for (evals, model, what, help) in needs {
        if !evals.is_empty() && model.is_none() {
            let evals = ids(&evals);
            return Err((status::BROKEN, format!("nothing is run: {evals} {what}; {help}")));
        }
    }
    if let Some(agent) = agent {
        run::needs::agent(&agent.kind, host)
            .map_err(|why| (status::BROKEN, format!("nothing is run: the agent `{}`: {why}", agent.title)))?;
    }
    endpoints(args, host)
}

/// Checks that the specified models can be called.
pub fn endpoints(args: &Options, host: &RealHost) -> Result<(), Fault> {
    for (model, what) in [(&args.model, "model"), (&args.judge, "judge")] {
        if let Some(model) = model {
            agent::endpoint(host, model)
                .map_err(|why| (status::BROKEN, format!("nothing is run: the {what} `{}`: {why}", named(model))))?;
        }
    }
    Ok(())
}

/// Checks that the evals are those that were locked. Nothing is reported if there is no lock.
///
/// # Errors
/// With `--locked`, they differ or are not locked.
fn as_locked(args: &Options, server: &Server, pinned: &Pinned, evals: &[Eval]) -> Result<(), Fault> {
    let locked = match pinned.evals(server) {
        Ok(locked) => locked,
        Err((code, why)) if args.locked => return Err((code, format!("nothing is run: {why}"))),
        Err(_) => {
            // An unreadable lock must not be treated like one without evals.
            if let Err((_, why)) = pinned.read() {
                warn(&visible(&why));
            }
            return Ok(());
        }
    };
    let changes = locked.at(args.level).changes(&LockedEvals::of(&server.version, evals));
    if changes.is_empty() {
        return Ok(());
    }
    const SHOWN: usize = 5;
    let mut lines = changes.lines();
    if lines.len() > SHOWN {
        lines.splice(SHOWN.., [format!("and {} more", lines.len() - SHOWN)]);
    }
    let path = pinned.path.display();
    let what = format!(
        "the evals of `{}` differ from `{path}` ({}); `gevals evals diff` shows more",
        pinned.name(server),
        lines.join("; ")
    );
    if args.locked {
        return Err((status::USAGE, format!("nothing is run: {what}")));
    }
    warn(&visible(&what.replace('\n', " ")));
    Ok(())
}

/// The IDs of evals, for a message.
pub fn ids(evals: &[&Eval]) -> String {
    const SHOWN: usize = 20;
    let mut shown: Vec<String> = evals.iter().take(SHOWN).map(|eval| format!("`{}`", eval.id.value)).collect();
    if evals.len() > SHOWN {
        shown.push(format!("{} more", evals.len() - SHOWN));
    }
    shown.join(", ")
}

/// Asks whether tools may be called, unless that was specified or there is no terminal.
///
/// # Errors
/// It was not allowed.
pub fn consent(args: &Options, ready: &Ready) -> Result<(), Fault> {
    let calling: Vec<&Eval> = ready.evals.iter().filter(|eval| eval.calls_tools()).collect();
    if args.allow_execution || calling.is_empty() {
        return Ok(());
    }
    let refused = || {
        let evals = ids(&calling);
        let help = "allow it with `--allow-execution`, or skip them with `--level invocation`";
        (status::USAGE, format!("nothing is run: {evals} call tools of the server; {help}"))
    };
    if in_ci() || !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return Err(refused());
    }
    let mut err = std::io::stderr().lock();
    let _ = write!(err, "{}call them? [y/N] ", question(&calling, &ready.tools));
    let _ = err.flush();
    let mut line = String::new();
    let _ = std::io::stdin().read_line(&mut line);
    if matches!(line.trim(), "y" | "Y" | "yes") { Ok(()) } else { Err(refused()) }
}

/// The tools that evals call, the most dangerous ones first. A scenario may call any tool.
fn question(calling: &[&Eval], tools: &[Value]) -> String {
    let named = |tool: &Value| tool.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
    let free = calling.iter().any(|eval| eval.level() == Level::Scenario);
    let called = |name: &str| {
        free || calling.iter().any(|eval| matches!(&eval.input, Input::Execution { tool, .. } if tool.value == name))
    };
    let hint = |tool: &Value, key: &str| tool.pointer(&format!("/annotations/{key}")).and_then(Value::as_bool);
    // According to MCP, a tool without hints may do anything.
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
    text + "(as declared by the server)\n"
}

/// The settings with which evals are run.
pub fn running<'a>(args: &'a Options, host: &'a RealHost, cancel: &'a CancellationToken, runs: u32) -> Running<'a> {
    Running {
        host,
        model: args.model.as_ref(),
        agent: None,
        judge: args.judge.as_ref(),
        runs,
        parallel: usize::from(args.parallel),
        timeout: args.model_timeout,
        cancel,
    }
}
