//! `gevals completion`: completion scripts for shells.

use clap::{Command, CommandFactory, builder::PossibleValuesParser};
use clap_complete::Shell;

#[cfg(feature = "run")]
use super::itself;
use super::{Cli, explain, log, status};
use crate::{lint::RULES, schema::SCHEMAS};

const EXAMPLES: &str = "\
Examples:
  source <(gevals completion bash)             for this shell only
  gevals completion bash > ~/.local/share/bash-completion/completions/gevals
  gevals completion zsh > ~/.zfunc/_gevals     with ~/.zfunc in $fpath
  gevals completion fish > ~/.config/fish/completions/gevals.fish

Exit status: 0 printed, 2 usage error";

/// Print a completion script for a shell.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

pub fn main(args: &Args) -> u8 {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command(), "gevals", &mut script);
    // A shell reads it, and it contains only our own text.
    let _ = log::put_own(log::Stream::Out, &String::from_utf8_lossy(&script));
    status::OK
}

/// The command line with the possible values of its arguments. They are only for completion: other words are handled by
/// the command, which can suggest what may be meant.
fn command() -> Command {
    let of = |command: Command, ids: &[&'static str], words: &[&'static str]| {
        let parser = PossibleValuesParser::new(words.iter().copied());
        ids.iter().fold(command, |command, id| command.mut_arg(*id, |arg| arg.value_parser(parser.clone())))
    };
    let rules: Vec<&str> = RULES.iter().map(|lint| lint.rule.name).collect();
    let schemas: Vec<&str> = SCHEMAS.iter().map(|schema| schema.name).collect();
    let levels = ["deny", "warn", "allow"];
    let command = Cli::command()
        .mut_subcommand("check", |check| of(check, &levels, &rules))
        .mut_subcommand("fix", |fix| of(fix, &levels, &rules))
        .mut_subcommand("explain", |command| of(command, &["rule"], &explain::words()))
        .mut_subcommand("schema", |schema| of(schema, &["name"], &schemas));
    #[cfg(feature = "run")]
    let command = command
        .mut_subcommand("self", |own| own.mut_subcommand("check", |check| of(check, &["names"], &itself::names())));
    command
}
