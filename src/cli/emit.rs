//! `gevals emit`: writes a file with which an engine starts the units of a pack.

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

Each job runs its share of the units with `gevals exec-unit`, passes signals on to it, and fails if
a unit could not run; a verdict does not make it fail. The pack must be available at the path given
by --at and must be the same one as here: each job compares its digest.

kubernetes-job, argo and tekton start pods. Their image needs gevals, bash and whatever the units
use. A PersistentVolumeClaim is mounted at /evals: it contains the pack, and each attempt finds
there what the previous one left.

With --store, each job uploads the results of its units to an object store, below a path named after
the pack; the last job merges them and uploads the merged results as well. This needs a gevals with
the feature `store`, and credentials in the environment.

Exit status: 0 written, 2 usage error, or not a pack, 3 it could not be written";

/// Write the file with which an engine runs the units of a pack.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The engine.
    #[arg(value_parser = PossibleValuesParser::new(ENGINES.iter().map(|engine| PossibleValue::new(engine.name).help(engine.summary))))]
    engine: String,
    /// A pack, as written by `gevals pack`.
    pack: PathBuf,
    /// The path where the jobs find the pack [default: the path given here; in pods, its file name].
    #[arg(long, value_name = "PATH")]
    at: Option<String>,
    /// The image of the pods, with gevals and what the units need.
    #[arg(long, value_name = "IMAGE")]
    image: Option<String>,
    /// The PersistentVolumeClaim of the pods, for the pack and the results [default: gevals].
    #[arg(long, value_name = "NAME")]
    claim: Option<String>,
    /// Number of jobs to divide the units among [default: one per unit, if the engine can start that many].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    jobs: Option<u32>,
    /// An object store to which the results of each unit are uploaded and from which they are merged: s3://BUCKET/PATH, gs://,
    /// az://CONTAINER/PATH or file:///PATH
    #[arg(long, value_name = "URL")]
    store: Option<String>,
    /// Write to this file instead of standard output.
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
            return Err(usage(format!("{units} units are too few for {jobs} jobs")));
        }
        jobs => jobs.unwrap_or_else(|| units.min(*most_jobs)),
    };
    let given = match write {
        Write::Jobs(_) => shown(&args.pack),
        Write::Pods(_) => shown(Path::new(args.pack.file_name().unwrap_or_default())),
    };
    let pack = args.at.as_deref().unwrap_or(&given);
    if pack.is_empty() || pack.chars().any(char::is_control) {
        return Err(usage("`--at` must be a path on a single line".to_owned()));
    }
    let store = args.store.as_deref().map(|url| url.trim_end_matches('/'));
    if let Some((url, why)) = args.store.as_deref().and_then(|url| Some((url, store_fault(url)?))) {
        return Err(usage(format!("`--store {}` is not a store: {why}", visible(url))));
    }
    let order = Order { manifest: &manifest, pack, jobs, store };
    if let Some(variable) = order.taken() {
        return Err(usage(format!("the pack needs a variable `{variable}`, which the jobs use for something else")));
    }
    let text = match write {
        Write::Jobs(write) => {
            let odd =
                [("--image", &args.image), ("--claim", &args.claim)].into_iter().find(|(_, value)| value.is_some());
            if let Some((option, _)) = odd {
                return Err(usage(format!("`{name}` starts no pods: omit `{option}`")));
            }
            write(&order)
        }
        Write::Pods(write) => write(&order, &pods(args, name).map_err(usage)?),
    };
    let text = text.map_err(usage)?;
    match &args.output {
        None => print(&text),
        Some(path) if path.canonicalize().is_ok_and(|path| args.pack.canonicalize().is_ok_and(|pack| pack == path)) => {
            return Err(usage(format!("`{}` is the pack and would be overwritten: choose another file", shown(path))));
        }
        Some(path) => write_atomic(path, text.as_bytes())
            .map_err(|error| (status::BROKEN, format!("cannot write `{}`: {error}", shown(path))))?,
    }
    Ok(status::OK)
}

/// The options for pods.
fn pods<'a>(args: &'a Args, engine: &str) -> Result<Pods<'a>, String> {
    let Some(image) = &args.image else {
        return Err(format!(
            "`{engine}` starts pods: specify their image with `--image`; it needs gevals and what the units use"
        ));
    };
    let fit = |c: char| c.is_ascii_alphanumeric() || "._-/:@".contains(c);
    if !image.starts_with(|c: char| c.is_ascii_alphanumeric()) || !image.chars().all(fit) {
        return Err(format!("`{}` is not an image: write it like `registry.example/gevals:1`", visible(image)));
    }
    let claim = args.claim.as_deref().unwrap_or("gevals");
    let part = |part: &str| {
        let fit = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        !part.is_empty() && !part.starts_with('-') && !part.ends_with('-') && part.bytes().all(fit)
    };
    if claim.len() > 253 || !claim.split('.').all(part) {
        let claim = visible(claim);
        return Err(format!(
            "`{claim}` is not a valid name of a claim: use at most 253 lowercase letters, digits, `-` and `.`"
        ));
    }
    Ok(Pods { image, claim })
}
