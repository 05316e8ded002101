//! A GitHub Actions workflow: a matrix of jobs that run the units, and a job that merges their results.

use super::{Engine, Order, Write, indented, scalar};
use crate::secrets::is_secret_name;

pub const ENGINE: Engine = Engine {
    name: "github-matrix",
    summary: "a GitHub Actions workflow, with a matrix of jobs and a job that merges",
    // The limit of one matrix.
    most_jobs: 256,
    write: Write::Jobs(emit),
};

/// Maximum duration of a job on a hosted runner, in minutes.
const MOST_MINUTES: u64 = 360;

fn emit(order: &Order<'_>) -> Result<String, String> {
    // Expressions are expanded everywhere.
    if order.pack.contains("${{") {
        return Err("a path with `${{` cannot be written in a workflow".to_owned());
    }
    let manifest = order.manifest;
    let name = if manifest.name.contains("${{") { "an eval" } else { manifest.name.as_str() };
    let units = manifest.units().len();
    let minutes = (order.at_most_seconds().div_ceil(60) + 5).min(MOST_MINUTES);
    let shards: Vec<String> = (1..=order.jobs).map(|nth| nth.to_string()).collect();
    let variables: String = order
        .variables()
        // Only the runner may set these.
        .filter(|name| !name.starts_with("GITHUB_") && !name.starts_with("RUNNER_"))
        .map(|name| {
            let of = if is_secret_name(name) { "secrets" } else { "vars" };
            format!("      {}: ${{{{ {of}.{name} }}}}\n", scalar(name))
        })
        .collect();
    let (secret, plain) = order.of_store();
    let of_store = |of: &str, names: &[&str]| -> String {
        names.iter().map(|name| format!("      {name}: ${{{{ {of}.{name} }}}}\n")).collect()
    };
    let credentials = of_store("secrets", &secret) + &of_store("vars", &plain);
    let (own, merging) = match order.stored() {
        None => (String::new(), String::new()),
        Some(store) => {
            let own = format!("      STORE: {}\n{credentials}", scalar(&store));
            (own.clone(), format!("    env:\n{own}"))
        }
    };
    let needs = order.needs();
    let needs = if needs.is_empty() { String::new() } else { format!("# The runner needs:\n{needs}") };
    let (title, pack, digest) = (scalar(&format!("gevals: {name}")), scalar(order.pack), scalar(&manifest.digest));
    let install = match order.store {
        None => format!("pip install {}", scalar(&format!("gevals=={}", manifest.gevals))),
        // The packages in other registries are built without this feature.
        Some(_) => format!("cargo install --locked {} -F store", scalar(&format!("gevals@{}", manifest.gevals))),
    };
    let (jobs, script, shards) = (order.jobs, indented(&order.units(), 10), shards.join(", "));
    Ok(format!(
        r#"# {units} units in {jobs} jobs, written by `gevals emit github-matrix`. A verdict does not fail a job of the matrix; the last job decides.
{needs}name: {title}
on:
  workflow_dispatch:
permissions:
  contents: read
env:
  PACK: {pack}
  DIGEST: {digest}
jobs:
  units:
    runs-on: ubuntu-24.04
    timeout-minutes: {minutes}
    strategy:
      fail-fast: false
      matrix:
        shard: [{shards}]
    env:
      OUT: out
      SHARD: ${{{{ matrix.shard }}}}/{jobs}
{own}{variables}    steps:
      - uses: actions/checkout@08c6903cd8c0fde910a37f88322edcfb5dd907a8 # v5.0.0
        with:
          persist-credentials: false
      - run: {install}
      - id: units
        shell: bash
        run: |
{script}      # Including journals: they contain pending cleanups.
      - if: always()
        uses: actions/upload-artifact@330a01c490aca151604b8cf639adc76d48f6c5d4 # v5.0.0
        with:
          name: units-${{{{ matrix.shard }}}}
          path: out
          include-hidden-files: true
  results:
    needs: units
    if: ${{{{ !cancelled() }}}}
    runs-on: ubuntu-24.04
    timeout-minutes: 30
{merging}    steps:
      - uses: actions/checkout@08c6903cd8c0fde910a37f88322edcfb5dd907a8 # v5.0.0
        with:
          persist-credentials: false
      - run: {install}
      - uses: actions/download-artifact@018cc2cf5baa6db3ef3c5f8a56943fffe632ef53 # v6.0.0
        with:
          pattern: units-*
          path: out
          merge-multiple: true
      - id: merge
        shell: bash
        run: |
{merge}      - if: always()
        uses: actions/upload-artifact@330a01c490aca151604b8cf639adc76d48f6c5d4 # v5.0.0
        with:
          name: results
          path: results
"#,
        merge = indented(&order.merge("out", "results"), 10),
    ))
}
