//! What starts the units of a pack, for engines that people operate: a file for each, which runs `gevals exec-unit` for every unit and
//! puts the results together.
//!
//! An engine is three files: its own, a line in [`ENGINES`], and what `tests/pack.rs` says of it.

mod github;
mod slurm;

use crate::pack::{Manifest, Need};

/// What is to be started.
#[derive(Debug)]
pub struct Order<'m> {
    pub manifest: &'m Manifest,
    /// Where the jobs find the pack.
    pub pack: &'m str,
    /// Among how many jobs the units are divided; at least 1.
    pub jobs: u32,
}

/// Something that starts jobs.
#[derive(Debug)]
pub struct Engine {
    /// As after `gevals emit`.
    pub name: &'static str,
    pub summary: &'static str,
    /// How many jobs it starts of one file at most.
    pub most_jobs: u32,
    /// The file.
    ///
    /// # Errors
    /// What cannot be written in it.
    pub emit: fn(&Order<'_>) -> Result<String, String>,
}

/// All of them.
pub const ENGINES: &[Engine] = &[github::ENGINE, slurm::ENGINE];

impl Order<'_> {
    /// How long the units of one job may take at most together, in seconds: those of the job with the longest ones.
    fn at_most_seconds(&self) -> u64 {
        let mut jobs = vec![0_u64; self.jobs.max(1) as usize];
        for (nth, unit) in self.manifest.units().iter().enumerate() {
            let job = nth % jobs.len();
            jobs[job] = jobs[job].saturating_add(unit.at_most_seconds);
        }
        jobs.into_iter().max().unwrap_or_default()
    }

    /// Where the results are merged to: a folder with one for each agent and model, or a file in it.
    fn results(&self) -> &'static str {
        if self.manifest.combinations.len() > 1 { "results" } else { "results/results.json" }
    }

    /// Names of variables that a unit needs, without those that every machine has.
    fn variables(&self) -> impl Iterator<Item = &str> {
        const OWN: [&str; 9] = ["HOME", "LANG", "LOGNAME", "PATH", "PWD", "SHELL", "TERM", "TMPDIR", "USER"];
        let plain = |name: &str| {
            name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
                && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        };
        let needs = self.manifest.needs.iter().filter(|need| need.kind == "variable").map(|need| need.name.as_str());
        needs.filter(move |name| !OWN.contains(name) && plain(name))
    }

    /// What a machine has to have besides, a line each, for a comment.
    fn needs(&self) -> String {
        let others = |need: &&Need| need.kind != "variable";
        self.manifest
            .needs
            .iter()
            .filter(others)
            .map(|need| format!("#   {} {}\n", need.kind, line(&need.name)))
            .collect()
    }
}

/// A text on a line of its own.
fn line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// The part of bash that every job runs, in a folder of its own. It takes `PACK`, `DIGEST`, `SHARD` (`1/3`) and `OUT`.
///
/// A unit is a child that a signal for the job is passed on to, so that it cleans up. A verdict does not fail the job, a unit that
/// could not run does.
const UNITS: &str = r#"gevals units "$PACK" | tail -n 1 | grep -qF "$DIGEST" || {
  echo "$PACK is not the pack that this file was made of: make it anew with gevals emit" >&2
  exit 2
}
ids=$(gevals units "$PACK" --ids --shard "$SHARD")
broken=0
for id in $ids; do
  gevals exec-unit "$PACK" --unit "$id" --out "$OUT/$id" --exit-zero &
  unit=$!
  trap 'kill -TERM "$unit"; wait "$unit"; exit 143' TERM INT
  wait "$unit" || broken=1
  trap - TERM INT
done
exit "$broken"
"#;

/// `UNITS` or another script, each line behind so many blanks.
fn indented(text: &str, by: usize) -> String {
    let indent = " ".repeat(by);
    text.lines().map(|line| if line.is_empty() { "\n".to_owned() } else { format!("{indent}{line}\n") }).collect()
}
