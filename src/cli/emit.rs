//! `gevals emit`: a file for an engine that starts the units of a pack.

use std::path::{Path, PathBuf};

use clap::builder::{PossibleValue, PossibleValuesParser};

use super::{complain, packed, print, shown, status};
use crate::{
    diagnostic::visible,
    emit::{ENGINES, Engine, Order, Pods, Write, store_fault},
    host::disk::write_atomic,
};

const EXAMPLES: &str = "\
Examples:
  gevals emit github-matrix evals/suite.gevals -o .github/workflows/evals.yml
  gevals emit slurm suite.gevals --at /shared/suite.gevals --jobs 50 -o evals.sbatch
  gevals emit kubernetes-job suite.gevals --image registry.example/gevals:1 -o evals.yaml
  gevals emit argo suite.gevals --image registry.example/gevals:1 --store s3://evals/nightly

Each job runs its share of the units with `gevals exec-unit`, passes signals on to it, and fails
where a unit could not run; a verdict does not fail it. The pack has to be where --at says, and be
the one that is given here: a job compares its digest.

kubernetes-job, argo and tekton start pods. Their image has gevals, bash and what the units need. A
PersistentVolumeClaim is mounted at /evals: the pack is in it, and each attempt finds there what the
one before has left.

With --store each job puts what its units have left into an object store, below a folder that is
named after the pack, and the last one merges from there and puts the merged results beside. It
needs a gevals with the feature `store`, and credentials in the environment.

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
    /// Where the jobs find the pack; as it is named here, or in pods by the name of its file, if nothing is said.
    #[arg(long, value_name = "PATH")]
    at: Option<String>,
    /// The image of pods, with gevals and what the units need.
    #[arg(long, value_name = "IMAGE")]
    image: Option<String>,
    /// The PersistentVolumeClaim of pods, with the pack and for the results; `gevals`, if nothing is said.
    #[arg(long, value_name = "NAME")]
    claim: Option<String>,
    /// Among how many jobs the units are divided; as many as there are units, if the engine starts so many.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    jobs: Option<u32>,
    /// An object store that takes the results of each unit, and from which they are merged: s3://BUCKET/PATH, gs://,
    /// az://CONTAINER/PATH or file:///PATH
    #[arg(long, value_name = "URL")]
    store: Option<String>,
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
    let Engine { name, most_jobs, write, .. } = engine.ok_or_else(|| usage(format!("no engine `{}`", args.engine)))?;
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
    let given = match write {
        Write::Jobs(_) => shown(&args.pack),
        Write::Pods(_) => shown(Path::new(args.pack.file_name().unwrap_or_default())),
    };
    let pack = args.at.as_deref().unwrap_or(&given);
    if pack.is_empty() || pack.chars().any(char::is_control) {
        return Err(usage("`--at` is a path on one line".to_owned()));
    }
    let store = args.store.as_deref().map(|url| url.trim_end_matches('/'));
    if let Some((url, why)) = args.store.as_deref().and_then(|url| Some((url, store_fault(url)?))) {
        return Err(usage(format!("`--store {}` is no store: {why}", visible(url))));
    }
    let order = Order { manifest: &manifest, pack, jobs, store };
    if let Some(variable) = order.taken() {
        return Err(usage(format!("the pack needs a variable `{variable}`, which the jobs use in another meaning")));
    }
    let text = match write {
        Write::Jobs(write) => {
            let odd =
                [("--image", &args.image), ("--claim", &args.claim)].into_iter().find(|(_, value)| value.is_some());
            if let Some((option, _)) = odd {
                return Err(usage(format!("`{name}` starts no pods: leave `{option}` out")));
            }
            write(&order)
        }
        Write::Pods(write) => write(&order, &pods(args, name).map_err(usage)?),
    };
    let text = text.map_err(usage)?;
    match &args.output {
        None => print(&text),
        Some(path) if path.canonicalize().is_ok_and(|path| args.pack.canonicalize().is_ok_and(|pack| pack == path)) => {
            return Err(usage(format!("`{}` is the pack and would be written over: name another file", shown(path))));
        }
        Some(path) => write_atomic(path, text.as_bytes())
            .map_err(|error| (status::BROKEN, format!("cannot write `{}`: {error}", shown(path))))?,
    }
    Ok(status::OK)
}

/// What the options say of pods.
fn pods<'a>(args: &'a Args, engine: &str) -> Result<Pods<'a>, String> {
    let Some(image) = &args.image else {
        return Err(format!(
            "`{engine}` starts pods: say with `--image` of which image, with gevals and what the units need"
        ));
    };
    let fit = |c: char| c.is_ascii_alphanumeric() || "._-/:@".contains(c);
    if !image.starts_with(|c: char| c.is_ascii_alphanumeric()) || !image.chars().all(fit) {
        return Err(format!("`{}` is no image: write it as in `registry.example/gevals:1`", visible(image)));
    }
    let claim = args.claim.as_deref().unwrap_or("gevals");
    let part = |part: &str| {
        let fit = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        !part.is_empty() && !part.starts_with('-') && !part.ends_with('-') && part.bytes().all(fit)
    };
    if claim.len() > 253 || !claim.split('.').all(part) {
        let claim = visible(claim);
        return Err(format!("`{claim}` is no name of a claim: it has small letters, digits, `-` and `.`, at most 253"));
    }
    Ok(Pods { image, claim })
}
