//! `gevals schema`: the JSON Schemas of everything gevals reads and writes.

use clap::ValueEnum;

use super::{complain, print, status};
use crate::{
    diagnostic::nearest,
    hir::Dialect,
    schema::{SCHEMAS, text},
};

const EXAMPLES: &str = "\
Examples:
  gevals schema                            list all names
  gevals schema eval > eval.schema.json    for an editor
  gevals schema task --dialect portable    for one dialect only

Exit status: 0 printed, 2 no such schema";

/// Print a JSON Schema, for example of task and eval files, plans, events, recordings, results and findings.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The name of the schema; without a name, all are listed.
    name: Option<String>,
    /// The dialect of tasks; by default, the schema chooses by `apiVersion`.
    #[arg(long, value_enum)]
    dialect: Option<Which>,
}

#[derive(ValueEnum, Clone, Copy, Debug)]
enum Which {
    Legacy,
    Steps,
    Portable,
}

pub fn main(args: &Args) -> u8 {
    let Some(name) = &args.name else {
        let width = SCHEMAS.iter().map(|s| s.name.len()).max().unwrap_or(0);
        print(&SCHEMAS.iter().map(|s| format!("{:width$}  {}\n", s.name, s.summary)).collect::<String>());
        return status::OK;
    };
    let Some(info) = SCHEMAS.iter().find(|s| s.name == name) else {
        let near = nearest(name, SCHEMAS.iter().map(|s| s.name));
        let hint = near.map_or_else(|| "`gevals schema` lists them all".to_owned(), |n| format!("did you mean `{n}`?"));
        complain(&format!("no schema named `{name}`; {hint}"));
        return status::USAGE;
    };
    if args.dialect.is_some() && info.dialects.is_empty() {
        complain(&format!("`{name}` has no dialects; `--dialect` is for `task`"));
        return status::USAGE;
    }
    let dialect = args.dialect.map(|which| match which {
        Which::Legacy => Dialect::Legacy,
        Which::Steps => Dialect::Steps,
        Which::Portable => Dialect::Portable,
    });
    print(&text(&info.schema(dialect)));
    status::OK
}
