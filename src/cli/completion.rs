//! `gevals completion`: what a shell needs to complete our command lines.

use clap::CommandFactory;
use clap_complete::Shell;

use super::{Cli, log, status};

const EXAMPLES: &str = "\
Examples:
  source <(gevals completion bash)             in this shell
  gevals completion bash > ~/.local/share/bash-completion/completions/gevals
  gevals completion zsh > ~/.zfunc/_gevals     with ~/.zfunc in $fpath
  gevals completion fish > ~/.config/fish/completions/gevals.fish

Exit status: 0 printed, 2 used wrongly";

/// Print a script that completes commands and options in a shell.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

pub fn main(args: &Args) -> u8 {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "gevals", &mut script);
    // A shell reads it; all of it is ours.
    let _ = log::put_own(log::Stream::Out, &String::from_utf8_lossy(&script));
    status::OK
}
