//! The `gevals` program.

use std::process::ExitCode;

use mimalloc::MiMalloc;

/// `check` makes many small allocations on all cores: the system's allocator would take a fifth of its time.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    gevals::cli::main()
}
