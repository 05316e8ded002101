//! Writes what starts the units of a pack, for engines that people operate: a file per engine, which runs
//! `gevals exec-unit` for every unit and merges the results.
//!
//! To add an engine, add its file, a line in [`ENGINES`], and its tests in `tests/engines.rs`.

mod argo;
mod github;
mod kubernetes;
mod pod;
mod slurm;
mod tekton;

use serde_json::json;
use sha2::{Digest, Sha256};

use crate::{
    pack::{Manifest, Need},
    secrets::is_secret_name,
};

/// What to start.
#[derive(Debug)]
pub struct Order<'m> {
    pub manifest: &'m Manifest,
    /// The path at which the jobs find the pack.
    pub pack: &'m str,
    /// The number of jobs among which the units are divided; at least 1.
    pub jobs: u32,
    /// The URL of a store for the results, without a trailing slash.
    pub store: Option<&'m str>,
}

/// What pods need.
#[derive(Debug)]
pub struct Pods<'m> {
    /// An image with gevals and everything that the units need.
    pub image: &'m str,
    /// The PersistentVolumeClaim that contains the pack and receives the results.
    pub claim: &'m str,
}

/// Writes the file. The error says what cannot be represented in it.
#[derive(Debug)]
pub enum Write {
    /// The jobs run on existing machines.
    Jobs(fn(&Order<'_>) -> Result<String, String>),
    /// The jobs are pods.
    Pods(fn(&Order<'_>, &Pods<'_>) -> Result<String, String>),
}

/// A system that starts jobs.
#[derive(Debug)]
pub struct Engine {
    /// The argument of `gevals emit`.
    pub name: &'static str,
    pub summary: &'static str,
    /// The maximum number of jobs that it starts from one file.
    pub most_jobs: u32,
    pub write: Write,
}

/// All engines.
pub const ENGINES: &[Engine] = &[github::ENGINE, slurm::ENGINE, kubernetes::ENGINE, argo::ENGINE, tekton::ENGINE];

/// Variables that the script of a job uses itself.
const TAKEN: [&str; 10] = ["PACK", "DIGEST", "SHARD", "OUT", "RESULTS", "STORE", "ids", "id", "broken", "merged"];

/// Variables for access to a store, by the schemes of its URLs.
const STORES: [(&[&str], &[&str]); 4] = [
    (&["s3", "s3a"], &["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION", "AWS_ENDPOINT_URL"]),
    (&["gs"], &["GOOGLE_SERVICE_ACCOUNT_KEY"]),
    (&["az", "abfs", "abfss"], &["AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ACCOUNT_KEY"]),
    (&["file"], &[]),
];

/// What is wrong with the URL of a store, for people.
pub fn store_fault(url: &str) -> Option<&'static str> {
    let known = url.split_once("://").filter(|(scheme, _)| STORES.iter().any(|(schemes, _)| schemes.contains(scheme)));
    // None of these characters is special to a shell, to YAML, or to an engine.
    let fit = |c: char| c.is_ascii_alphanumeric() || "-._~/%@".contains(c);
    match known {
        None => Some("write it as s3://BUCKET/PATH, gs://BUCKET/PATH, az://CONTAINER/PATH or file:///PATH"),
        Some((_, rest)) if !rest.chars().all(fit) || rest.trim_matches('/').is_empty() => Some(
            "/%@`: write other characters as %XX~a bucket and a path contain letters, digits and `-._~/%@`: write other characters as %XX~/%@`: write other characters as %XX",
        ),
        Some(_) => None,
    }
}

impl Order<'_> {
    /// The maximum duration of the units of one job together, in seconds: that of the job with the longest ones.
    fn at_most_seconds(&self) -> u64 {
        let mut jobs = vec![0_u64; self.jobs.max(1) as usize];
        for (nth, unit) in self.manifest.units().iter().enumerate() {
            let job = nth % jobs.len();
            jobs[job] = jobs[job].saturating_add(unit.at_most_seconds);
        }
        jobs.into_iter().max().unwrap_or_default()
    }

    /// The name of the values that all packs of the eval share.
    fn values(&self) -> String {
        format!("gevals-{}", slug(&self.manifest.name))
    }

    /// A name that is unique to this pack, and valid for objects and directories.
    fn name(&self) -> String {
        let digest = self.manifest.digest.rsplit(':').next().unwrap_or_default();
        format!("{}-{}", self.values(), digest.get(..8).unwrap_or(digest))
    }

    /// The URL of the results of this pack in the store.
    fn stored(&self) -> Option<String> {
        Some(format!("{}/{}", self.store?, self.name()))
    }

    /// Variables for access to the store that the pack does not need itself: those with secrets, and others.
    fn of_store(&self) -> (Vec<&'static str>, Vec<&'static str>) {
        let scheme = self.store.and_then(|url| url.split("://").next()).unwrap_or_default();
        let found = STORES.iter().find(|(schemes, _)| schemes.contains(&scheme)).map_or(&[][..], |(_, names)| names);
        let own = |name: &&str| !self.variables().any(|other| other == *name);
        found.iter().copied().filter(own).partition(|name| is_secret_name(name))
    }

    /// The part of the bash script that every job runs, in its own directory. It uses `PACK`, `DIGEST`, `SHARD` (`1/3`)
    /// and `OUT`, and `STORE` if there is a store: the output of each unit is pushed there, regardless of its outcome.
    fn units(&self) -> String {
        const PUSH: &str =
            "  gevals result push \"$OUT/$id\" \"$STORE/units/$id\" --replace || ((broken)) || broken=3\n";
        match self.store {
            Some(_) => UNITS.replacen("\ndone\n", &format!("\n{PUSH}done\n"), 1),
            None => UNITS.to_owned(),
        }
    }

    /// A variable that the pack needs, but that a job uses for something else.
    pub fn taken(&self) -> Option<&str> {
        self.variables().find(|name| TAKEN.contains(name))
    }

    /// Where the results are merged to: this directory, with one file per agent and model, or a file in it. It is a
    /// bash word.
    fn results(&self, folder: &str) -> String {
        if self.manifest.combinations.len() > 1 { folder.to_owned() } else { format!("{folder}/results.json") }
    }

    /// The part of the bash script that merges the results and determines the verdict: of one results file, or of one
    /// per agent and model. It uses `PACK`, and `STORE` if there is a store: the results are read from there, and
    /// pushed there. The directories are bash words.
    fn merge(&self, out: &str, results: &str) -> String {
        let into = self.results(results);
        if self.store.is_some() {
            return format!(
                "mkdir -p {results}
merged=0
gevals result merge --pack \"$PACK\" \"$STORE/units\" -o {into} || merged=$?
gevals result push {results} \"$STORE/results\" --replace
((merged == 0)) || exit \"$merged\"
find {results} -name '*.json' -print0 | xargs -0 -n 1 gevals result verify
"
            );
        }
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

    /// The maximum duration of the longest unit, in seconds.
    fn longest_seconds(&self) -> u64 {
        self.manifest.tasks.iter().map(|task| task.at_most_seconds).max().unwrap_or_default()
    }

    /// Everything else that a machine needs, one per line, for a comment.
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

/// Whether some YAML parser treats the character as a line break, or rejects it.
fn is_odd(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
}

/// A text on a single line, for a comment.
fn line(text: &str) -> String {
    text.chars().map(|c| if is_odd(c) { ' ' } else { c }).collect()
}

/// A text as a YAML value or key: always a string.
fn scalar(text: &str) -> String {
    let escaped = |c: char| if is_odd(c) { format!("\\u{:04x}", c as u32) } else { c.to_string() };
    json!(text).to_string().chars().map(escaped).collect()
}

/// See [`Order::units`]. Each unit is a child process to which a signal for the job is forwarded, once, so that it
/// cleans up. A verdict does not fail the job, but a unit that could not run does: 2 means that another attempt cannot
/// help, 3 that it might.
const UNITS: &str = r#"trap '
  trap "" TERM INT
  [ -z "${!:-}" ] || { kill -TERM "$!" || :; wait "$!" || :; } 2>/dev/null
  exit 143
' TERM INT
gevals units "$PACK" | tail -n 1 | grep -qF "$DIGEST" || {
  echo "$PACK is not the pack that this file was made for: create the file again with gevals emit" >&2
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

/// Indents each line of `UNITS` or another script by this many spaces.
fn indented(text: &str, by: usize) -> String {
    let indent = " ".repeat(by);
    text.lines().map(|line| if line.is_empty() { "\n".to_owned() } else { format!("{indent}{line}\n") }).collect()
}

/// A part of the name of an object; if it differs from the original name, it ends with a digest of that.
fn slug(name: &str) -> String {
    const MOST: usize = 24;
    let mut slug = String::new();
    for c in name.chars().map(|c| c.to_ascii_lowercase()) {
        match c {
            c if c.is_ascii_alphanumeric() => slug.push(c),
            _ if !slug.is_empty() && !slug.ends_with('-') => slug.push('-'),
            _ => {}
        }
    }
    slug.truncate(MOST);
    let slug = slug.trim_end_matches('-');
    if slug == name {
        return slug.to_owned();
    }
    let digest = &hex::encode(Sha256::digest(name))[..6];
    if slug.is_empty() { digest.to_owned() } else { format!("{slug}-{digest}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slug_is_a_valid_name_and_unique_per_eval() {
        assert_eq!(slug("shop"), "shop");
        let names = [
            "A b",
            "a b",
            "a-b-",
            "a--b",
            "",
            "é",
            "---",
            "a\nb",
            &"x".repeat(25),
            &"x".repeat(300),
            "ends here at the dot.x",
        ];
        let mut slugs: Vec<String> = names.iter().map(|name| slug(name)).collect();
        for slug in &slugs {
            assert!(slug.len() <= 31 && !slug.starts_with('-') && !slug.ends_with('-'), "{slug}");
            assert!(slug.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'), "{slug}");
        }
        slugs.sort();
        slugs.dedup();
        assert_eq!(slugs.len(), names.len());
    }
}
