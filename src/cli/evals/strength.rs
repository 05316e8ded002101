//! `gevals evals strength`: whether a server's evals detect that its tools are broken.

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{Fault, Global, Reach, pinned::Pinned, ready, with_server};
use crate::{
    builtin::count,
    cli::{print, status, warn},
    diagnostic::visible,
    evals::{Server, Strength, ToolStrength, Tried, VALUES, strength},
    host::RealHost,
};

const EXAMPLES: &str = "\
Examples:
  gevals evals strength --allow-execution -- my-server
  gevals evals strength --allow-execution --min-score 0.8 --format json https://example.org/mcp
      for CI

Every tool is broken in turn: its answer becomes an error, empty, or another tool's answer; and each
value in it (16 per tool at most) is changed on its own. Some eval must then fail. With --model,
invocations are measured as well: the tool is not listed, or has no description.

Exit status: 0 measured, 1 an eval fails while no tool is broken, or the score is below --min-score,
2 usage error, no consent, or invalid evals, 3 no server, model or judge";

/// Break each tool of a server, and report which faults its evals detect.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// A URL, or a name in the MCP config.
    server: Option<String>,
    #[command(flatten)]
    ready: ready::Options,
    /// The minimum share of broken tools that the evals must detect, from 0 to 1.
    #[arg(long, value_name = "SCORE", value_parser = score)]
    min_score: Option<f64>,
    /// Output format.
    #[arg(long, default_value = "text", value_parser = ["text", "json"])]
    format: String,
    #[command(flatten)]
    reach: Reach,
}

fn score(text: &str) -> Result<f64, String> {
    text.parse().ok().filter(|score| (0.0..=1.0).contains(score)).ok_or_else(|| "write a number from 0 to 1".to_owned())
}

pub fn main(args: &Args, _: Global) -> u8 {
    let reached = match super::reached(&args.reach, args.server.as_deref()) {
        Ok(reached) => reached,
        Err(code) => return code,
    };
    let secrets = reached.options.secrets.clone();
    let pinned = Pinned::of(args.ready.lock.as_deref(), &args.reach, &reached);
    with_server(reached, async |server| {
        let host = RealHost::new();
        let ready = ready::ready(&args.ready, server, &pinned).await?;
        ready::endpoints(&args.ready, &host)?;
        ready::consent(&args.ready, &ready)?;
        let cancel = CancellationToken::new();
        let running = ready::running(&args.ready, &host, &cancel, 1);
        let report = strength(&running, server, &ready.tools, &ready.evals.iter().collect::<Vec<_>>()).await;
        let text = match args.format.as_str() {
            "json" => format!("{:#}\n", document(server, &ready.digest, &report)),
            _ => table(server, &report),
        };
        print(&secrets.mask(&text));
        judge(args, &report)
    })
}

fn judge(args: &Args, report: &Strength) -> Result<u8, Fault> {
    let score = share(report.counts());
    if let Some(least) = args.min_score.filter(|least| score.unwrap_or_default() < *least) {
        warn(&format!("the score {:.2} is below {least}", score.unwrap_or_default()));
        return Ok(status::NO);
    }
    Ok(if report.failing.is_empty() { status::OK } else { status::NO })
}

fn share((killed, all): (usize, usize)) -> Option<f64> {
    let float = |n: usize| u32::try_from(n).map_or(f64::MAX, f64::from);
    (all > 0).then(|| float(killed) / float(all))
}

fn document(server: &Server, digest: &str, report: &Strength) -> Value {
    let tool = |tool: &ToolStrength| {
        let mutant = |tried: &Tried| {
            let mut mutant = json!({"mutant": tried.mutant.name(), "killedBy": tried.by});
            if let Some(at) = &tried.at {
                mutant["at"] = at.as_str().into();
            }
            mutant
        };
        let mutants: Vec<Value> = tool.mutants.iter().map(mutant).collect();
        let all = tool.mutants.len();
        json!({
            "tool": tool.tool, "score": share((tool.killed(), all)), "killed": tool.killed(), "evals": tool.evals,
            "mutants": mutants, "values": tool.values,
        })
    };
    let failing: Vec<Value> =
        report.failing.iter().map(|done| json!({"evalId": done.id, "reason": done.reason})).collect();
    let (killed, all) = report.counts();
    json!({
        "server": {"name": server.name, "version": server.version},
        "digest": digest,
        "score": share((killed, all)),
        "killed": killed,
        "mutants": all,
        "failing": failing,
        "unused": report.unused,
        "tools": report.tools.iter().map(tool).collect::<Vec<_>>(),
    })
}

fn table(server: &Server, report: &Strength) -> String {
    let line = |text: &str| visible(&text.replace('\n', " ")).into_owned();
    let mut text = String::new();
    for done in &report.failing {
        text +=
            &format!("{} fails while no tool is broken, and does not count: {}\n", line(&done.id), line(&done.reason));
    }
    let width = report.tools.iter().map(|tool| line(&tool.tool).chars().count()).max().unwrap_or(0).min(60);
    for tool in &report.tools {
        let survivors: Vec<String> =
            tool.mutants.iter().filter(|tried| tried.by.is_none()).map(|tried| line(&tried.title())).collect();
        let what = match (tool.evals.is_empty(), survivors.is_empty()) {
            (true, _) => "no eval covers it".to_owned(),
            (_, true) => String::new(),
            _ => format!("not detected: {}", survivors.join(", ")),
        };
        let row = format!("{:width$}  {}/{}  {what}", line(&tool.tool), tool.killed(), tool.mutants.len());
        text += &format!("{}\n", row.trim_end());
        if tool.values > VALUES {
            text += &format!("{:width$}  of {} values of its answers, {VALUES} were broken\n", "", tool.values);
        }
    }
    if !report.unused.is_empty() {
        let evals: Vec<String> = report.unused.iter().map(|id| line(id)).collect();
        let many = count(evals.len(), "eval", "evals");
        text += &format!(
            "not measured: {many} (scenarios, and evals that need --model or --judge): {}\n",
            evals.join(", ")
        );
    }
    let (killed, all) = report.counts();
    let score = share((killed, all)).map_or_else(|| "none".to_owned(), |score| format!("{score:.2}"));
    text + &format!("{}: score {score}, {killed} of {} detected\n", line(&server.name), count(all, "mutant", "mutants"))
}
