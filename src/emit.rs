//! What starts the units of a pack, for engines that people operate: a file for each, which runs `gevals exec-unit` for every unit and
//! puts the results together.
//!
//! An engine is three files: its own, a line in [`ENGINES`], and what `tests/engines.rs` says of it.

mod argo;
mod github;
mod kubernetes;
mod pod;
mod slurm;
mod tekton;

use serde_json::json;

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

/// What pods are made of.
#[derive(Debug)]
pub struct Pods<'m> {
    /// An image with gevals and what the units need.
    pub image: &'m str,
    /// The PersistentVolumeClaim that has the pack and takes the results.
    pub claim: &'m str,
}

/// Writes the file. The error says what cannot be written in it.
#[derive(Debug)]
pub enum Write {
    /// The jobs run on machines that are there.
    Jobs(fn(&Order<'_>) -> Result<String, String>),
    /// The jobs are pods.
    Pods(fn(&Order<'_>, &Pods<'_>) -> Result<String, String>),
}

/// Something that starts jobs.
#[derive(Debug)]
pub struct Engine {
    /// As after `gevals emit`.
    pub name: &'static str,
    pub summary: &'static str,
    /// How many jobs it starts of one file at most.
    pub most_jobs: u32,
    pub write: Write,
}

/// All of them.
pub const ENGINES: &[Engine] = &[github::ENGINE, slurm::ENGINE, kubernetes::ENGINE, argo::ENGINE, tekton::ENGINE];

/// Names that the script of a job uses itself.
const TAKEN: [&str; 8] = ["PACK", "DIGEST", "SHARD", "OUT", "RESULTS", "ids", "id", "broken"];

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

    /// A variable that the pack needs, and that a job has in another meaning.
    pub fn taken(&self) -> Option<&str> {
        self.variables().find(|name| TAKEN.contains(name))
    }

    /// Where the results are merged to: this folder, with one for each agent and model, or a file in it. It is a word of bash.
    fn results(&self, folder: &str) -> String {
        if self.manifest.combinations.len() > 1 { folder.to_owned() } else { format!("{folder}/results.json") }
    }

    /// The part of bash that puts the results together, and asks for the verdict: of one results file, or of one of each agent and
    /// model. It takes `PACK`; the folders are words of bash.
    fn merge(&self, out: &str, results: &str) -> String {
        let into = self.results(results);
        format!(
            "mkdir -p {results}
gevals result merge --pack \"$PACK\" {out} -o {into}
find {results} -name '*.json' -print0 | xargs -0 -n 1 gevals result verify
"
        )
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

    /// How long the longest unit may take, in seconds.
    fn longest_seconds(&self) -> u64 {
        self.manifest.tasks.iter().map(|task| task.at_most_seconds).max().unwrap_or_default()
    }

    /// What a machine has to have besides, a line each, for a comment.
    fn needs(&self) -> String {
        let others = |need: &&Need| need.kind != "variable";
        self.manifest
            .needs
            .iter()
            .filter(others)
            .map(|need| format!("#   {} {}\n", line(&need.kind), line(&need.name)))
            .collect()
    }
}

/// What ends a line for some reader of YAML, or is refused by it.
fn is_odd(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
}

/// A text on a line of its own, for a comment.
fn line(text: &str) -> String {
    text.chars().map(|c| if is_odd(c) { ' ' } else { c }).collect()
}

/// A text as a value or a key of YAML: a string, whatever it holds.
fn scalar(text: &str) -> String {
    let escaped = |c: char| if is_odd(c) { format!("\\u{:04x}", c as u32) } else { c.to_string() };
    json!(text).to_string().chars().map(escaped).collect()
}

/// The part of bash that every job runs, in a folder of its own. It takes `PACK`, `DIGEST`, `SHARD` (`1/3`) and `OUT`.
///
/// A unit is a child that a signal for the job is passed on to, once, so that it cleans up. A verdict does not fail the job. A unit
/// that could not run does: 2 says that it cannot in another attempt either, 3 that it might.
const UNITS: &str = r#"trap '
  trap "" TERM INT
  [ -z "${!:-}" ] || { kill -TERM "$!" || :; wait "$!" || :; } 2>/dev/null
  exit 143
' TERM INT
gevals units "$PACK" | tail -n 1 | grep -qF "$DIGEST" || {
  echo "$PACK is not the pack that this file was made of: make it anew with gevals emit" >&2
  exit 2
}
ids=$(gevals units "$PACK" --ids --shard "$SHARD")
broken=0
for id in $ids; do
  gevals exec-unit "$PACK" --unit "$id" --out "$OUT/$id" --exit-zero &
  wait "$!" || case $? in
    2) ((broken)) || broken=2 ;;
    *) broken=3 ;;
  esac
done
exit "$broken"
"#;

/// `UNITS` or another script, each line behind so many blanks.
fn indented(text: &str, by: usize) -> String {
    let indent = " ".repeat(by);
    text.lines().map(|line| if line.is_empty() { "\n".to_owned() } else { format!("{indent}{line}\n") }).collect()
}
