//! A Slurm array job: each of its tasks runs its share of the units.

use super::{Engine, Order, Write, line};
use crate::bash::quote;

pub const ENGINE: Engine = Engine {
    name: "slurm",
    summary: "a script for `sbatch`: an array job, and how to merge its results",
    // The limit with the default `MaxArraySize`.
    most_jobs: 1000,
    write: Write::Jobs(emit),
};

/// Seconds that the cleanup of a unit has before a job is killed.
const GRACE: u64 = 120;

fn emit(order: &Order<'_>) -> Result<String, String> {
    let manifest = order.manifest;
    let (units, jobs) = (manifest.units().len(), order.jobs);
    let minutes = (order.at_most_seconds() + GRACE).div_ceil(60) + 1;
    let needs = order.needs();
    let needs =
        if needs.is_empty() { String::new() } else { format!("# A node needs, besides gevals and bash:\n{needs}") };
    let variables: Vec<&str> = order.variables().collect();
    let variables = if variables.is_empty() {
        String::new()
    } else {
        format!("# These environment variables of `sbatch` are passed on: {}\n", variables.join(", "))
    };
    let stored = order.stored();
    let variables = match order.of_store() {
        _ if stored.is_none() => variables,
        (secret, plain) if secret.is_empty() && plain.is_empty() => variables,
        (secret, plain) => {
            let names: Vec<&str> = secret.into_iter().chain(plain).collect();
            format!("{variables}# The store uses those of these that it needs: {}\n", names.join(", "))
        }
    };
    let name: String = manifest.name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    Ok(format!(
        r#"#!/bin/bash
# {units} units of `{eval}` in {jobs} jobs, written by `gevals emit slurm`. Start it in a directory that all nodes share:
#
#   job=$(sbatch --parsable FILE)
#   sbatch --dependency="afterany:$job" --wrap {merge}
#
# A job that was killed is started again in the same directory: its units first clean up what the killed attempt left.
{needs}{variables}#SBATCH --job-name=gevals-{name}
#SBATCH --array=1-{jobs}
#SBATCH --time={minutes}
#SBATCH --signal=B:TERM@{GRACE}
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=gevals-{name}-%a.log
set -euo pipefail
PACK={pack}
DIGEST={digest}
SHARD="$SLURM_ARRAY_TASK_ID/{jobs}"
OUT=${{OUT:-out}}
{store}{script}"#,
        eval = line(&manifest.name),
        merge = quote(&format!(
            "mkdir -p results && gevals result merge --pack {} {} -o {}",
            quote(order.pack),
            stored.as_ref().map_or_else(|| "out".to_owned(), |store| quote(&format!("{store}/units"))),
            order.results("results")
        )),
        pack = quote(order.pack),
        digest = quote(&manifest.digest),
        store = stored.as_ref().map(|store| format!("STORE={}\n", quote(store))).unwrap_or_default(),
        script = order.units(),
    ))
}
