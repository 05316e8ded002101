//! The command.

use std::process::ExitCode;

use mimalloc::MiMalloc;

/// `check` makes many small things on all cores at once: a fifth of its time with the system's allocator goes there.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    gevals::cli::main()
}
