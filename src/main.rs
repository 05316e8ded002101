//! The command.

use std::process::ExitCode;

fn main() -> ExitCode {
    gevals::cli::main()
}
