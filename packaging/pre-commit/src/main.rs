//! The compiler alone, as a hook for pre-commit.

use std::process::ExitCode;

fn main() -> ExitCode {
    gevals::cli::main()
}
