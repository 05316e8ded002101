//! `gevals result push`: uploads results to an object store.

use std::path::PathBuf;

use super::{Fault, inputs};
#[cfg(feature = "store")]
use crate::{
    cli::{complain, print, shown, status},
    host::disk::Disk,
    source::{Files, Stat},
    store::{Pushed, Store},
};

const EXAMPLES: &str = "\
Examples:
  gevals result push out s3://evals/nightly               all results files below `out`
  gevals result push gevals-e-out.json gs://evals/nightly
  gevals result push out az://evals/nightly --recordings --replace

Each file is uploaded to its path relative to the directory, below the URL. A file that already
exists with the same content is skipped, so you can repeat a push. A file that exists with other
content is kept, and the exit status is 1, unless --replace is given. If the store supports it, a
file that somebody else has written in the meantime is never replaced. This needs a build with the
feature `store`; credentials are read from the environment: see docs/reference/config.md.";

/// Upload results to an object store: S3, Google Cloud Storage, Azure.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// A results file, or a directory with results files.
    from: PathBuf,
    /// The destination: s3://BUCKET/PATH, gs://, az://CONTAINER/PATH or file:///PATH
    url: String,
    /// Also upload the recordings of the runs.
    #[arg(long)]
    recordings: bool,
    /// Replace existing files that have other content.
    #[arg(long)]
    replace: bool,
}

#[cfg(not(feature = "store"))]
pub fn main(args: &Args) -> Result<u8, Fault> {
    // Names all fields, so that none counts as unused.
    let Args { from: _, url, recordings: _, replace: _ } = args;
    Err((crate::cli::status::USAGE, inputs::without_store(url)))
}

#[cfg(feature = "store")]
pub fn main(args: &Args) -> Result<u8, Fault> {
    let store = Store::open(&args.url).map_err(inputs::told)?;
    let files = files(args)?;
    let pushed = store.push(&files, args.replace).map_err(inputs::told)?;
    let count = |of: Pushed| pushed.iter().filter(|pushed| **pushed == of).count();
    let (new, replaced, same) = (count(Pushed::New), count(Pushed::Replaced), count(Pushed::Same));
    let url = args.url.trim_end_matches('/');
    print(&format!("{new} uploaded, {replaced} replaced, {same} unchanged: {url}\n"));
    let others: Vec<_> = files.iter().zip(&pushed).filter(|(_, pushed)| **pushed == Pushed::Other).collect();
    for ((name, _), _) in &others {
        complain(&format!("`{url}/{name}` already exists with other content: `--replace` replaces it"));
    }
    Ok(if others.is_empty() { status::OK } else { status::NO })
}

/// The files to upload, each with its path below the URL.
#[cfg(feature = "store")]
fn files(args: &Args) -> Result<Vec<(String, PathBuf)>, Fault> {
    let usage = |why: String| (status::USAGE, why);
    if inputs::url(&args.from).is_some() {
        return Err(usage(format!("`{}` is a URL: specify a file or a directory on this machine", shown(&args.from))));
    }
    match Disk.stat(&args.from) {
        None => Err(usage(format!("cannot read `{}`: no such file or folder", shown(&args.from)))),
        Some(Stat::File { .. }) => {
            let name = args.from.file_name().unwrap_or_default().to_string_lossy().into_owned();
            Ok(vec![(name, args.from.clone())])
        }
        Some(Stat::Dir) => {
            let found = inputs::in_folder(&args.from, args.recordings);
            if found.is_empty() {
                return Err(usage(format!("there are no results files in `{}`", shown(&args.from))));
            }
            let name = |path: &PathBuf| {
                let parts = path.strip_prefix(&args.from).unwrap_or(path).components();
                parts.map(|part| part.as_os_str().to_string_lossy().into_owned()).collect::<Vec<_>>().join("/")
            };
            Ok(found.into_iter().map(|path| (name(&path), path)).collect())
        }
    }
}
