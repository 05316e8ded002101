//! `gevals coverage`: which tools, parameters, values and errors of the servers no task of an eval touches.

use std::{fmt::Write, path::PathBuf};

use serde_json::json;

use super::{Global, compile_paths, complain, print, print_findings, status};
use crate::{
    coverage::{ServerCoverage, Share, Totals, of_eval, totals},
    diagnostic::{Strength, visible},
    host::disk::Disk,
    results::recording,
    source::{Files, Sources},
};

const EXAMPLES: &str = "\
Examples:
  gevals coverage eval.yaml
      report what steps, scripted agents and assertions use
  gevals coverage eval.yaml --recording run.jsonl
      also count what agents called in a run (.gevals/runs/RUN/recording.jsonl)
  gevals coverage eval.yaml --min 0.8
      exit with 1 if fewer than 80 % of the tools are used
  gevals coverage eval.yaml --format json
      write JSON, for other programs

The tools are those recorded by `gevals lock`; without a lock there are none. An assertion counts
for the tool that it names; a pattern counts if it matches exactly one tool.

Exit status: 0 success, 1 fewer tools are used than --min demands, 2 usage error, or nothing is
locked";

/// Report which tools, parameters, values and errors of the locked servers no task uses.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Eval files and directories [default: the current directory].
    paths: Vec<PathBuf>,
    /// A recording of a run; calls by its agents count as well.
    #[arg(long, value_name = "FILE")]
    recording: Vec<PathBuf>,
    /// The minimum share of tools that must be used, from 0 to 1.
    #[arg(long, value_name = "SHARE", value_parser = super::result::share)]
    min: Option<f64>,
    /// Output format.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum Format {
    Text,
    Json,
}

pub fn main(args: &Args, global: Global) -> u8 {
    let sources = Sources::default();
    let compiled = compile_paths(&args.paths, &sources);
    if super::unreadable(&compiled) {
        return status::USAGE;
    }
    let hard: Vec<_> = compiled.diagnostics.iter().filter(|d| d.strength == Strength::Hard).cloned().collect();
    if !hard.is_empty() {
        print_findings(&hard, &sources, compiled.project.files(), global);
        return status::USAGE;
    }
    let mut recordings = Vec::new();
    for path in &args.recording {
        let text = Disk
            .read(path)
            .map_err(|e| e.to_string())
            .and_then(|b| String::from_utf8(b).map_err(|_| "it is not text".to_owned()));
        match text.and_then(|text| recording::runs(&text)) {
            Ok(runs) => recordings.extend(runs),
            Err(why) => {
                complain(&format!("cannot read the recording `{}`: {why}", path.display()));
                return status::USAGE;
            }
        }
    }
    let evals =
        compiled.project.evals.iter().zip(&compiled.evals).filter_map(|(unit, plan)| Some((unit, plan.as_ref()?)));
    let mut found: Vec<(String, Vec<ServerCoverage>)> = Vec::new();
    for (unit, plan) in evals {
        let servers = of_eval(plan, &unit.lock, &recordings);
        let unlocked: Vec<&str> = plan
            .servers
            .iter()
            .map(|server| server.name.value.as_str())
            .filter(|name| servers.iter().all(|known| known.server != *name))
            .collect();
        if !unlocked.is_empty() {
            complain(&format!(
                "no lock describes {} of the eval `{}`: run `gevals lock`",
                visible(&unlocked.join(", ")),
                visible(&plan.name)
            ));
        }
        if !servers.is_empty() {
            found.push((plan.name.clone(), servers));
        }
    }
    if found.is_empty() {
        complain("no server has locked tools");
        return status::USAGE;
    }
    let too_few = |servers: &[ServerCoverage]| args.min.is_some_and(|min| totals(servers).tools.rate() < min);
    match args.format {
        Format::Text => found.iter().for_each(|(eval, servers)| print(&text(eval, servers))),
        Format::Json => {
            let evals: Vec<_> = found
                .iter()
                .map(|(eval, servers)| json!({"eval": eval, "totals": totals(servers), "servers": servers}))
                .collect();
            print(&format!(
                "{}\n",
                serde_json::to_string_pretty(&json!({"version": 1, "evals": evals})).unwrap_or_default()
            ));
        }
    }
    let mut code = status::OK;
    for (eval, servers) in found.iter().filter(|(_, servers)| too_few(servers)) {
        let Share { touched, all } = totals(servers).tools;
        let min = args.min.unwrap_or_default() * 100.0;
        complain(&format!("the tasks of `{}` use {touched} of {all} tools, but {min} % are required", visible(eval)));
        code = status::NO;
    }
    code
}

/// One line per server about what is touched, and what is not.
fn text(eval: &str, servers: &[ServerCoverage]) -> String {
    let mut out = format!("{}\n", visible(eval));
    let of = |share: Share, what: &str| format!("{} of {} {what}", share.touched, share.all);
    for server in servers {
        let Totals { tools, parameters, values, errors, tool_errors, protocol_errors } =
            totals(std::slice::from_ref(server));
        let mut parts = vec![of(tools, "tools"), of(parameters, "parameters")];
        if values.all > 0 {
            parts.push(of(values, "listed values"));
        }
        let which = format!("{} of the tool, {} of the protocol", tool_errors.touched, protocol_errors.touched);
        let which = if errors.touched == 0 { String::new() } else { format!(" ({which})") };
        parts.push(format!("{} with an error{which}", of(errors, "tools")));
        let _ = writeln!(out, "  {}  {}", visible(&server.server), parts.join(", "));
        let untouched: Vec<_> =
            server.tools.iter().filter(|tool| tool.tasks.is_empty()).map(|tool| visible(&tool.tool)).collect();
        if !untouched.is_empty() {
            let _ = writeln!(out, "    never called: {}", untouched.join(", "));
        }
        let well: Vec<_> = server
            .tools
            .iter()
            .filter(|tool| !tool.tasks.is_empty() && !tool.fails)
            .map(|tool| visible(&tool.tool))
            .collect();
        if !well.is_empty() {
            let _ = writeln!(out, "    never called with an error: {}", well.join(", "));
        }
        for tool in server.tools.iter().filter(|tool| !tool.tasks.is_empty()) {
            let never: Vec<_> = tool.parameters.iter().filter(|p| !p.given).map(|p| visible(&p.parameter)).collect();
            let values: Vec<String> = tool
                .parameters
                .iter()
                .filter(|parameter| parameter.given)
                .flat_map(|p| {
                    p.values
                        .iter()
                        .filter(|(_, given)| !**given)
                        .map(|(value, _)| format!("{}: {}", visible(&p.parameter), visible(value)))
                })
                .collect();
            let mut missing = Vec::new();
            if !never.is_empty() {
                missing.push(format!("never given {}", never.join(", ")));
            }
            if !values.is_empty() {
                missing.push(format!("never {}", values.join(", ")));
            }
            if !missing.is_empty() {
                let _ = writeln!(out, "    {}  {}", visible(&tool.tool), missing.join("; "));
            }
        }
    }
    out
}
