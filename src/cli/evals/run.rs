//! `gevals evals run`: runs the evals that a server ships.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use super::{
    Fault, Global, Reach,
    agent::{self, Chosen},
    block,
    pinned::Pinned,
    ready::{self, Ready, named},
    with_server,
};
use crate::{
    builtin::count,
    cli::{complain, print, status, warn},
    diagnostic::visible,
    evals::{Doer, Done, Ended, Running, Server, run},
    hir::Isolation,
    host::{Host as _, RealHost, disk::write_atomic},
    plan::AgentKind,
    primitive::LIST_CHANGED,
    render::results::results_path,
    results,
    sandbox::agent::Jail,
    secrets::Secrets,
};

const EXAMPLES: &str = "\
Examples:
  gevals evals run --level execution --allow-execution -- my-server
  gevals evals run --level invocation --model anthropic:claude-sonnet-4-5 https://example.org/mcp
  gevals evals run --model openai:gpt-5 --judge openai:gpt-5 --allow-execution -- my-server
  gevals evals run --level scenario --agent builtin.claude-code --judge openai:gpt-5 -- my-server
  gevals evals run --locked --allow-execution -- my-server
      only evals that match the lock of `gevals evals lock`

--agent works on the scenarios and reaches the server through a recording proxy, so its calls are
known from there and not from its own answer. Executions and scenarios call tools of the server:
allow that with --allow-execution, or confirm it on a terminal. The results are written to
gevals-evals-SERVER-out.json, for `gevals result`; nothing is sent to the server.

Exit status: 0 all passed, 1 an eval did not pass, 2 usage error, no consent, or invalid evals, 3 no
server, model or judge";

/// Run the evals that a server ships.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// A URL, or a name in the MCP config.
    server: Option<String>,
    #[command(flatten)]
    ready: ready::Options,
    /// The agent for scenarios: a file of kind Agent, builtin.NAME or builtin.NAME:MODEL. It reaches the server through a recording
    /// proxy.
    #[arg(long, value_name = "AGENT")]
    agent: Option<String>,
    /// How the agent is isolated from the machine; with `none` it can see how it is judged.
    #[arg(long, value_name = "LEVEL", value_parser = isolation, requires = "agent")]
    isolation: Option<Isolation>,
    /// Run each eval N times; every run must pass.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// Run the evals again whenever the server reports that they have changed.
    #[arg(long)]
    watch: bool,
    /// Output format.
    #[arg(long, default_value = "text", value_parser = ["text", "json"])]
    format: String,
    /// Directory for the results file.
    #[arg(long, value_name = "DIR", default_value = ".")]
    output_dir: PathBuf,
    #[command(flatten)]
    reach: Reach,
}

fn isolation(text: &str) -> Result<Isolation, String> {
    let known = || Isolation::ALL.map(Isolation::name).join(", ");
    Isolation::ALL.into_iter().find(|level| level.name() == text).ok_or_else(|| format!("expected one of {}", known()))
}

/// The agent and its jail.
struct Agent {
    chosen: Chosen,
    jail: Option<Jail>,
}

pub fn main(args: &Args, _: Global) -> u8 {
    let host = RealHost::new();
    let wanted = args.reach.server(args.server.as_deref()).and_then(|reached| {
        let pinned = Pinned::of(args.ready.lock.as_deref(), &args.reach, &reached);
        let Some(agent) = &args.agent else { return Ok((reached, pinned, None)) };
        let chosen = agent::chosen(agent)?;
        let hidden = agent::hidden(&reached, &args.output_dir, &pinned.path);
        let jail = agent::jail(&chosen, args.isolation, &host, hidden)?;
        Ok((reached, pinned, Some(Agent { chosen, jail })))
    });
    let (reached, pinned, agent) = match wanted {
        Ok(wanted) => wanted,
        Err((code, why)) => {
            complain(&why);
            return code;
        }
    };
    let secrets = reached.options.secrets.clone();
    let kind = match reached.spec.transport {
        crate::mcp::Transport::Stdio { .. } => "stdio",
        crate::mcp::Transport::Http { .. } => "http",
    };
    let told = Told { args, agent: agent.as_ref(), pinned: &pinned, secrets: &secrets, kind };
    let code = with_server(reached, async |server| {
        let mut changes = server.client.notifications();
        loop {
            let code = match once(&told, server, &host).await {
                Err((_, why)) if args.watch => {
                    complain(&visible(&why));
                    status::NO
                }
                done => done?,
            };
            if !args.watch {
                return Ok(code);
            }
            loop {
                tokio::select! {
                    notification = changes.recv() => match notification {
                        Ok(notification) if notification.method == LIST_CHANGED => break,
                        Ok(_) | Err(tokio::sync::broadcast::error::RecvError::Lagged(_)) => {}
                        Err(_) => return Err((status::BROKEN, "the server has exited".to_owned())),
                    },
                    () = server.hub.ended() => return Err((status::BROKEN, "the server has exited".to_owned())),
                }
            }
            warn("the evals of the server have changed");
        }
    });
    if told.process().is_some() {
        // An interrupted agent leaves processes behind.
        block(async {
            host.reap_marked(host.mark(), GRACE).await;
            Ok(code)
        })
    } else {
        code
    }
}

/// How long processes of an interrupted agent may take to end.
const GRACE: Duration = Duration::from_secs(2);

/// What is run, and what results say about it.
struct Told<'a> {
    args: &'a Args,
    agent: Option<&'a Agent>,
    pinned: &'a Pinned,
    secrets: &'a Secrets,
    /// `stdio` or `http`.
    kind: &'a str,
}

impl Told<'_> {
    fn chosen(&self) -> Option<&Chosen> {
        self.agent.map(|agent| &agent.chosen)
    }

    /// The agent, if it is a process.
    fn process(&self) -> Option<&Chosen> {
        self.chosen().filter(|chosen| chosen.kind.is_process())
    }

    /// What a pass depends on.
    fn rests_on(&self) -> Vec<(&'static str, String)> {
        let agent = self.chosen().map(|chosen| ("agent", chosen.title.clone()));
        let models = [("model", &self.args.ready.model), ("judge", &self.args.ready.judge)];
        let models = models.into_iter().filter_map(|(what, model)| Some((what, named(model.as_ref()?))));
        agent.into_iter().chain(models).collect()
    }
}

async fn once(told: &Told<'_>, server: &Server, host: &RealHost) -> Result<u8, Fault> {
    let Told { args, agent, pinned, secrets, .. } = *told;
    let ready = ready::ready(&args.ready, server, pinned).await?;
    ready::models(&args.ready, told.chosen(), host, &ready.evals)?;
    ready::consent(&args.ready, &ready)?;
    let began = Instant::now();
    let cancel = CancellationToken::new();
    let running = ready::running(&args.ready, host, &cancel, args.runs);
    let doer = agent.map(|agent| Doer { kind: &agent.chosen.kind, jail: agent.jail.as_ref() });
    let own_model = match doer {
        Some(Doer { kind: AgentKind::Model(model), .. }) => Some(model),
        _ => None,
    };
    let running = Running { agent: doer, model: running.model.or(own_model), ..running };
    let done = run(&running, server, &ready.tools, &ready.evals.iter().collect::<Vec<_>>()).await;
    let code = match done.iter().all(|done| done.ended == Ended::Passed) {
        true => status::OK,
        false if done.iter().all(|done| done.ended == Ended::Broken) => status::BROKEN,
        false => status::NO,
    };
    let took = began.elapsed().as_secs_f64();
    let name = format!("evals-{}", plain(&server.name));
    let path = results_path(&args.output_dir, &name);
    let file = file(told, server, &ready, &done, &name, took, code);
    let text = secrets.mask(&results::text(&file)).into_owned();
    write_atomic(&path, text.as_bytes())
        .map_err(|error| (status::BROKEN, format!("cannot write `{}`: {error}", path.display())))?;
    let report = match args.format.as_str() {
        "json" => format!("{:#}\n", document(told, server, &ready, &done)),
        _ => table(told, &ready, &done) + &format!("results: {}\n", visible(&path.display().to_string())),
    };
    print(&secrets.mask(&report));
    Ok(code)
}

/// The name of a server as a part of a file name: a server cannot choose the directory.
fn plain(name: &str) -> String {
    let plain = |c: char| if c.is_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    name.chars().take(80).map(plain).collect()
}

/// The results as the proposal's `EvalResult`s.
fn document(told: &Told<'_>, server: &Server, ready: &Ready, done: &[Done]) -> Value {
    let result = |done: &Done| {
        let mut result = json!({
            "evalId": done.id,
            "passed": done.ended == Ended::Passed,
            "durationMs": u64::try_from(done.duration.as_millis()).unwrap_or(u64::MAX),
            "outcome": done.ended.name(),
        });
        if !done.reason.is_empty() {
            result["reason"] = done.reason.as_str().into();
        }
        if told.args.runs > 1 {
            result["run"] = (done.run + 1).into();
        }
        result
    };
    let mut document = json!({
        "server": {"name": server.name, "version": server.version},
        "digest": ready.digest,
        "results": done.iter().map(result).collect::<Vec<_>>(),
    });
    for (what, model) in told.rests_on() {
        document[what] = model.into();
    }
    document
}

fn table(told: &Told<'_>, ready: &Ready, done: &[Done]) -> String {
    let mut text = String::new();
    let width = ready.evals.iter().map(|eval| visible(&eval.id.value).chars().count()).max().unwrap_or(0).min(60);
    for done in done {
        let id = visible(&done.id.replace('\n', " ")).into_owned();
        let level = ready.evals.iter().find(|eval| eval.id.value == done.id).map(|eval| eval.level().name());
        let run = if told.args.runs > 1 { format!(" run {}", done.run + 1) } else { String::new() };
        let (ended, level, ms) = (done.ended.name(), level.unwrap_or_default(), done.duration.as_millis());
        text += &format!("{ended:6}  {id:width$}  {level:10} {ms:>6} ms{run}\n");
        for line in done.reason.lines() {
            text += &format!("        {}\n", visible(line));
        }
    }
    let passed = done.iter().filter(|done| done.ended == Ended::Passed).count();
    text += &format!("{passed} of {} passed", count(done.len(), "run", "runs"));
    let models: Vec<String> =
        told.rests_on().into_iter().map(|(what, model)| format!("{what} {}", visible(&model))).collect();
    if !models.is_empty() {
        text += &format!(", with the {}", models.join(" and the "));
    }
    text + "\n"
}

/// The results file.
fn file(told: &Told<'_>, server: &Server, ready: &Ready, done: &[Done], name: &str, took: f64, code: u8) -> Value {
    let Told { args, kind, .. } = *told;
    let result = |done: &Done| {
        let eval = ready.evals.iter().find(|eval| eval.id.value == done.id);
        let judged = eval.is_some_and(|eval| eval.grading.value == crate::primitive::Grading::LlmAsJudge);
        let passed = done.ended == Ended::Passed;
        let mut result = json!({
            "taskName": done.id,
            "taskPath": format!("evals/list of {}", server.name),
            "taskPassed": passed,
            "taskOutput": done.answer,
            "difficulty": "",
            "totalRuns": args.runs,
            "assertionResults": null,
            "allAssertionsPassed": true,
            "callHistory": null,
            "outcome": done.ended.name(),
            "reason": if passed { "" } else { done.reason.as_str() },
            "durationSeconds": done.duration.as_secs_f64(),
            "cleanupFailed": false,
            "planDigest": eval.map(crate::primitive::Eval::digest).unwrap_or_default(),
        });
        if !passed {
            result["taskError"] = done.reason.as_str().into();
        }
        if judged && done.ended != Ended::Broken {
            result["taskJudgeReason"] = done.reason.as_str().into();
        }
        if done.run > 0 {
            result["runIndex"] = done.run.into();
        }
        result
    };
    let agent = |model: &crate::hir::ModelAgent| json!({"type": "builtin.llm-agent", "model": named(model)});
    let doer = match (told.chosen(), &args.ready.model) {
        (Some(chosen), _) => chosen.told.clone(),
        (None, model) => model.as_ref().map_or_else(|| json!({}), agent),
    };
    let mut summary = Map::from_iter([
        ("agent".to_owned(), doer),
        ("mcpServers".to_owned(), json!([{"name": server.name, "type": kind}])),
        (
            "evals".to_owned(),
            json!({"names": ready.evals.iter().map(|eval| &eval.id.value).collect::<Vec<_>>(), "taskSets": []}),
        ),
        ("parallelWorkers".to_owned(), args.ready.parallel.into()),
        ("runs".to_owned(), args.runs.into()),
        ("version".to_owned(), results::VERSION.into()),
        ("eval".to_owned(), name.into()),
        ("gevalsVersion".to_owned(), env!("CARGO_PKG_VERSION").into()),
        ("planDigest".to_owned(), ready.digest.as_str().into()),
        ("complete".to_owned(), true.into()),
        ("durationSeconds".to_owned(), took.into()),
        ("exit".to_owned(), code.into()),
    ]);
    if let Some(judge) = &args.ready.judge {
        summary.insert("judge".to_owned(), agent(judge));
    }
    json!({"summary": summary, "results": done.iter().map(result).collect::<Vec<_>>(), "findings": []})
}
