//! `gevals check`: every finding, located, and nothing else done.

use std::path::PathBuf;

use clap::ValueEnum;

use super::{Global, compile_paths, complain, print, status, unreadable};
use crate::{
    diagnostic::{self, fix},
    host::disk::write_atomic,
    source::Sources,
};

const EXAMPLES: &str = "\
Examples:
  gevals check                     check everything below this folder
  gevals check eval.yaml           an eval, and all it refers to
  gevals check --fix tasks/        mend what can be mended
  gevals check --format json .     for other programs

Exit status: 0 no errors, 1 errors were found, 2 a named path cannot be read, or nothing was found to check";

/// Check tasks, evals and what they refer to, without running anything.
///
/// Reads files only: no program is started, no network is used, and the same files get the same findings everywhere.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Files and folders; this folder by default.
    paths: Vec<PathBuf>,
    /// How findings are written.
    #[arg(long, value_enum, default_value_t = Format::Pretty)]
    format: Format,
    /// Apply the fixes that findings carry, then check again.
    #[arg(long)]
    fix: bool,
    /// Exit with 0 whatever was found.
    #[arg(long)]
    exit_zero: bool,
    /// List files that were left alone.
    #[arg(short, long)]
    verbose: bool,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum Format {
    /// With the source underlined.
    Pretty,
    /// One line a finding.
    Concise,
    /// One JSON document (`gevals schema diagnostic`).
    Json,
}

/// Fixes may uncover others; nobody needs more rounds than this.
const ROUNDS: usize = 20;

pub fn main(args: &Args, global: Global) -> u8 {
    let mut fixed = 0;
    if args.fix {
        for _ in 0..ROUNDS {
            match apply(args) {
                Ok(0) => break,
                Ok(files) => fixed += files,
                Err(message) => {
                    complain(&message);
                    return status::BROKEN;
                }
            }
        }
    }
    let sources = Sources::default();
    let compiled = compile_paths(&args.paths, &sources);
    let unreadable = unreadable(&compiled);
    let found = &compiled.diagnostics;
    let files = compiled.project.files();
    let out = std::io::stdout();
    let mut text = String::new();
    let written = match args.format {
        Format::Pretty => diagnostic::print(found, &sources, &global.pretty(&out), &mut text),
        Format::Concise => diagnostic::concise(found, &sources, &global.pretty(&out), &mut text),
        Format::Json => {
            let report = diagnostic::report(found, &sources, files);
            text = serde_json::to_string(&report).unwrap_or_default();
            text.push('\n');
            Ok(())
        }
    };
    debug_assert!(written.is_ok(), "a string takes all that is written");
    if args.format != Format::Json {
        if args.verbose {
            for path in &compiled.project.strangers {
                text += &format!("left alone: {}\n", path.display());
            }
        }
        if fixed > 0 {
            text += &format!("fixed {fixed} file{}\n", if fixed == 1 { "" } else { "s" });
        }
        text += &diagnostic::summary(found, files);
        text.push('\n');
    }
    let nothing = files == 0 && found.is_empty();
    // Where nothing was read, nothing was found is no news; a program still gets its document.
    if !nothing || args.verbose || args.format == Format::Json {
        print(&text);
    }
    if unreadable {
        return status::USAGE;
    }
    if nothing {
        complain("no task and no eval was found here; name a file or a folder that has some");
        return status::USAGE;
    }
    match found.iter().any(|d| d.strength.is_error()) && !args.exit_zero {
        true => status::NO,
        false => status::OK,
    }
}

/// One round of fixes: how many files it changed.
fn apply(args: &Args) -> Result<usize, String> {
    let sources = Sources::default();
    let compiled = compile_paths(&args.paths, &sources);
    let changed = fix::apply_all(&compiled.diagnostics, &sources);
    for (file, text) in &changed {
        let source = sources.get(*file);
        write_atomic(source.path(), text.as_bytes())
            .map_err(|e| format!("cannot write `{}`: {e}", source.path().display()))?;
    }
    Ok(changed.len())
}
