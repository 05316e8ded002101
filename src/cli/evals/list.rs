//! `gevals evals list`: lists the evals that a server ships.

use serde_json::json;

use super::{Fault, Global, Reach, level, notices, with_server};
use crate::{
    builtin::count,
    cli::{print, status, warn},
    diagnostic::visible,
    evals::{ListError, Listed, Server, list},
    primitive::{self, Level},
    source::Sources,
};

const EXAMPLES: &str = "\
Examples:
  gevals evals list -- my-server                     start a server
  gevals evals list https://example.org/mcp          connect to a server over HTTP
  gevals evals list --mcp-config mcp.json notes      a server of a config
  gevals evals list --format json -- my-server       every eval, as sent by the server

Exit status: 0 listed, 2 usage error, or the server ships none, 3 the server does not start or does
not list them";

/// List the evals that a server ships.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// A URL, or a name in the MCP config.
    server: Option<String>,
    /// Only list evals of this level: invocation, execution or scenario.
    #[arg(long, value_name = "LEVEL", value_parser = level)]
    level: Option<Level>,
    /// Output format.
    #[arg(long, default_value = "table", value_parser = ["table", "json"])]
    format: String,
    #[command(flatten)]
    reach: Reach,
}

pub fn main(args: &Args, _: Global) -> u8 {
    let reached = match super::reached(&args.reach, args.server.as_deref()) {
        Ok(reached) => reached,
        Err(code) => return code,
    };
    with_server(reached, async |server| {
        let sources = Sources::default();
        let listed = list(server, args.level, &sources).await.map_err(fault)?;
        notices(&listed.notices);
        let unread = listed.raw.len() - listed.evals().count();
        if unread > 0 {
            let evals = count(unread, "eval is invalid", "evals are invalid");
            warn(&format!("{evals}: `gevals evals check` shows why"));
        }
        print(&match args.format.as_str() {
            "json" => document(server, &listed),
            _ => table(server, &listed),
        });
        Ok(status::OK)
    })
}

/// The exit status and the message if there is no list.
pub fn fault(error: ListError) -> Fault {
    match error {
        ListError::NotOffered { .. } => {
            (status::USAGE, format!("{error}; `gevals evals serve` adds evals to any server"))
        }
        ListError::Failed { .. } => (status::BROKEN, error.to_string()),
    }
}

fn document(server: &Server, listed: &Listed) -> String {
    let evals: Vec<_> = listed.evals().cloned().collect();
    let document = json!({
        "server": {"name": server.name, "version": server.version},
        "digest": primitive::digest(&evals),
        "evals": listed.raw,
    });
    format!("{document:#}\n")
}

fn table(server: &Server, listed: &Listed) -> String {
    const HEAD: [&str; 4] = ["ID", "LEVEL", "GRADING", "NAME"];
    let line = |text: &str| visible(&text.replace('\n', " ")).into_owned();
    let rows: Vec<[String; 4]> = listed
        .evals()
        .map(|eval| {
            [line(&eval.id.value), eval.level().to_string(), eval.grading.value.to_string(), line(&eval.name.value)]
        })
        .collect();
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([HEAD[column].len()]).max().unwrap_or(0).min(60)
    };
    let [id, level, grading] = [width(0), width(1), width(2)];
    let mut text = String::new();
    if !rows.is_empty() {
        text += &format!("{:id$}  {:level$}  {:grading$}  {}\n", HEAD[0], HEAD[1], HEAD[2], HEAD[3]);
    }
    for [own, of, by, name] in &rows {
        text += &format!("{own:id$}  {of:level$}  {by:grading$}  {name}\n");
    }
    let version = if server.version.is_empty() { String::new() } else { format!(" {}", server.version) };
    text + &format!("{} of {}\n", count(rows.len(), "eval", "evals"), line(&format!("{}{version}", server.name)))
}
