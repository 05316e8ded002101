//! `gevals result export parquet`: results as a table for notebooks.

use std::path::PathBuf;

use super::Fault;
use crate::cli::status;

const EXAMPLES: &str = "\
Examples:
  gevals result export parquet gevals-e-out.json -o runs.parquet
  gevals result export parquet out s3://evals/nightly results.zip -o runs.parquet
  python3 -c 'import pandas; print(pandas.read_parquet(\"runs.parquet\").describe())'
  duckdb -c \"select task, avg(seconds) from 'runs.parquet' group by task\"

Each row is one run of a task as in the results files: nothing is merged, and a run that is in two
files appears twice. The columns are described in docs/scale.md. Only one row group is in memory at
a time. This needs a build with the feature `parquet`.";

/// A Parquet table, one row per run of a task, for pandas, Polars, DuckDB and similar tools.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Results files; a directory, an archive or a URL stands for all results files in it.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Write the table to this file.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
}

#[cfg(not(feature = "parquet"))]
pub fn main(args: &Args) -> Result<u8, Fault> {
    let Args { files: _, output } = args;
    let why = format!(
        "cannot write `{}`: this gevals was built without the feature `parquet`; `cargo install --locked gevals -F parquet` builds one with it",
        output.display()
    );
    Err((status::USAGE, why))
}

#[cfg(feature = "parquet")]
pub fn main(args: &Args) -> Result<u8, Fault> {
    use std::{fs::File, io::BufReader, path::Path};

    use super::inputs::{self, Input};
    use crate::{
        cli::print,
        results::{parquet::Table, stream},
    };

    let inputs = inputs::of(&args.files)?;
    let unwritten = |why: String| (status::BROKEN, format!("cannot write `{}`: {why}", args.output.display()));
    if args.output.metadata().is_ok_and(|there| !there.is_file()) {
        return Err(unwritten("it is not a file".to_owned()));
    }
    // The file appears at its path only when it is complete.
    let folder = args.output.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let temporary = tempfile::Builder::new().permissions(permissions()).tempfile_in(folder);
    let temporary = temporary.map_err(|error| unwritten(error.to_string()))?;
    let mut table = Table::new(temporary).map_err(unwritten)?;
    for Input { shown, path } in &inputs.files {
        let unread = |why: String| (status::USAGE, format!("cannot read the results in `{shown}`: {why}"));
        let open = || File::open(path).map(without_mark).map_err(|error| unread(error.to_string()));
        let summary = stream::summary(BufReader::new(open()?)).map_err(unread)?;
        let mut failed = None;
        let read = stream::each(BufReader::new(open()?), &mut |result| {
            table.add(shown, &summary, &result).inspect_err(|why| failed = Some(why.clone()))
        });
        match failed {
            Some(why) => return Err(unwritten(why)),
            None => read.map_err(unread)?,
        }
    }
    let (temporary, rows) = table.done().map_err(unwritten)?;
    temporary.persist(&args.output).map_err(|error| unwritten(error.error.to_string()))?;
    let files = inputs.files.len();
    print(&format!("{rows} rows of {files} files in {}\n", args.output.display()));
    Ok(status::OK)
}

/// The permissions of other files; the system applies the user's umask.
#[cfg(feature = "parquet")]
fn permissions() -> std::fs::Permissions {
    std::os::unix::fs::PermissionsExt::from_mode(0o666)
}

/// Skips the byte order mark that some tools of Windows write.
#[cfg(feature = "parquet")]
fn without_mark(mut file: std::fs::File) -> std::fs::File {
    use std::io::{Read, Seek};
    let mut first = [0; 3];
    if file.read_exact(&mut first).is_err() || first != [0xef, 0xbb, 0xbf] {
        let _ = file.rewind();
    }
    file
}
