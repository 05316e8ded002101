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
use sha2::{Digest, Sha256};

use crate::{
    pack::{Manifest, Need},
    secrets::is_secret_name,
};

/// What is to be started.
#[derive(Debug)]
pub struct Order<'m> {
    pub manifest: &'m Manifest,
    /// Where the jobs find the pack.
    pub pack: &'m str,
    /// Among how many jobs the units are divided; at least 1.
    pub jobs: u32,
    /// The URL of a store that takes the results, without a slash at its end.
    pub store: Option<&'m str>,
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
const TAKEN: [&str; 10] = ["PACK", "DIGEST", "SHARD", "OUT", "RESULTS", "STORE", "ids", "id", "broken", "merged"];

/// Variables with which a store is reached, by the schemes of its URLs.
const STORES: [(&[&str], &[&str]); 4] = [
    (&["s3", "s3a"], &["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION", "AWS_ENDPOINT_URL"]),
    (&["gs"], &["GOOGLE_SERVICE_ACCOUNT_KEY"]),
    (&["az", "abfs", "abfss"], &["AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ACCOUNT_KEY"]),
    (&["file"], &[]),
];

/// What is wrong with the URL of a store, for people.
pub fn store_fault(url: &str) -> Option<&'static str> {
    let known = url.split_once("://").filter(|(scheme, _)| STORES.iter().any(|(schemes, _)| schemes.contains(scheme)));
    // No shell, no YAML and no engine takes any of these for its own.
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
    /// How long the units of one job may take at most together, in seconds: those of the job with the longest ones.
    fn at_most_seconds(&self) -> u64 {
        let mut jobs = vec![0_u64; self.jobs.max(1) as usize];
        for (nth, unit) in self.manifest.units().iter().enumerate() {
            let job = nth % jobs.len();
            jobs[job] = jobs[job].saturating_add(unit.at_most_seconds);
        }
        jobs.into_iter().max().unwrap_or_default()
    }

    /// Of the values that all packs of the eval take.
    fn values(&self) -> String {
        format!("gevals-{}", slug(&self.manifest.name))
    }

    /// Of this pack, and of no other; fit for names of objects and folders.
    fn name(&self) -> String {
        let digest = self.manifest.digest.rsplit(':').next().unwrap_or_default();
        format!("{}-{}", self.values(), digest.get(..8).unwrap_or(digest))
    }

    /// Where a store has the results of this pack.
    fn stored(&self) -> Option<String> {
        Some(format!("{}/{}", self.store?, self.name()))
    }

    /// Variables with which the store is reached, that the pack does not need itself: those with secrets, and others.
    fn of_store(&self) -> (Vec<&'static str>, Vec<&'static str>) {
        let scheme = self.store.and_then(|url| url.split("://").next()).unwrap_or_default();
        let found = STORES.iter().find(|(schemes, _)| schemes.contains(&scheme)).map_or(&[][..], |(_, names)| names);
        let own = |name: &&str| !self.variables().any(|other| other == *name);
        found.iter().copied().filter(own).partition(|name| is_secret_name(name))
    }

    /// The part of bash that every job runs, in a folder of its own. It takes `PACK`, `DIGEST`, `SHARD` (`1/3`) and `OUT`, and `STORE`
    /// where there is a store: what a unit has left is put there, whatever came of it.
    fn units(&self) -> String {
        const PUSH: &str =
            "  gevals result push \"$OUT/$id\" \"$STORE/units/$id\" --replace || ((broken)) || broken=3\n";
        match self.store {
            Some(_) => UNITS.replacen("\ndone\n", &format!("\n{PUSH}done\n"), 1),
            None => UNITS.to_owned(),
        }
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
    /// model. It takes `PACK`, and `STORE` where there is a store: the results come from there, and go there. The folders are words
    /// of bash.
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

/// See [`Order::units`]. A unit is a child that a signal for the job is passed on to, once, so that it cleans up. A verdict does not fail the job. A unit
/// that could not run does: 2 says that it cannot in another attempt either, 3 that it might.
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

/// `UNITS` or another script, each line behind so many blanks.
fn indented(text: &str, by: usize) -> String {
    let indent = " ".repeat(by);
    text.lines().map(|line| if line.is_empty() { "\n".to_owned() } else { format!("{indent}{line}\n") }).collect()
}

/// A part of the name of an object; what it leaves out of a name is in its end, as a digest.
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
    fn a_slug_is_fit_for_names_and_tells_evals_apart() {
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
