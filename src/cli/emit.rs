//! `gevals emit`: a file for an engine that starts the units of a pack.

use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser};

use super::{complain, packed, print, shown, status};
use crate::{
    emit::{ENGINES, Engine, Order},
    host::disk::write_atomic,
};

const EXAMPLES: &str = "\
Examples:
  gevals emit github-matrix evals/suite.gevals -o .github/workflows/evals.yml
  gevals emit slurm suite.gevals --at /shared/suite.gevals --jobs 50 -o evals.sbatch

Each job runs its share of the units with `gevals exec-unit`, passes signals on to it, and fails
where a unit could not run; a verdict does not fail it. The pack has to be where --at says, and be
the one that is given here: a job compares its digest.

Exit status: 0 it is written, 2 used wrongly, or it is no pack, 3 it could not be written";

/// Write the file with which an engine starts the units of a pack.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Which engine.
    #[arg(value_parser = PossibleValuesParser::new(ENGINES.iter().map(|engine| PossibleValue::new(engine.name).help(engine.summary))))]
    engine: String,
    /// What `gevals pack` has written.
    pack: PathBuf,
    /// Where the jobs find the pack; as it is named here, if nothing is said.
    #[arg(long, value_name = "PATH")]
    at: Option<String>,
    /// Among how many jobs the units are divided; as many as there are units, if the engine starts so many.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    jobs: Option<u32>,
    /// Where it is written, instead of standard output.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub fn main(args: &Args) -> u8 {
    emitted(args).unwrap_or_else(|(exit, why)| {
        complain(&why);
        exit
    })
}

fn emitted(args: &Args) -> Result<u8, (u8, String)> {
    let usage = |why: String| (status::USAGE, why);
    let engine = ENGINES.iter().find(|engine| engine.name == args.engine);
    let Engine { name, most_jobs, emit, .. } = engine.ok_or_else(|| usage(format!("no engine `{}`", args.engine)))?;
    let (manifest, _) = packed::read(&args.pack)?;
    let units = u32::try_from(manifest.units().len()).unwrap_or(u32::MAX);
    if units == 0 {
        return Err(usage("the pack has no units".to_owned()));
    }
    let jobs = match args.jobs {
        Some(jobs) if jobs > *most_jobs => {
            return Err(usage(format!("`{name}` starts at most {most_jobs} jobs of one file, not {jobs}")));
        }
        Some(jobs) if jobs > units => {
            return Err(usage(format!("there are {units} units, too few for {jobs} jobs")));
        }
        jobs => jobs.unwrap_or_else(|| units.min(*most_jobs)),
    };
    let given = shown(&args.pack);
    let pack = args.at.as_deref().unwrap_or(&given);
    if pack.is_empty() || pack.chars().any(char::is_control) {
        return Err(usage("`--at` is a path on one line".to_owned()));
    }
    let text = emit(&Order { manifest: &manifest, pack, jobs }).map_err(usage)?;
    match &args.output {
        None => print(&text),
        Some(path) => write_atomic(path, text.as_bytes())
            .map_err(|error| (status::BROKEN, format!("cannot write `{}`: {error}", shown(path))))?,
    }
    Ok(status::OK)
}
