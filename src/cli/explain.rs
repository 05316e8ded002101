//! `gevals explain`: what a rule is about.

use std::path::{Path, PathBuf};

use super::{complain, print, project_files, status};
use crate::{
    compile,
    diagnostic::{Strength, nearest},
    lint::{RULES, rule},
    source::Sources,
};

/// What is no rule and can be explained all the same.
const TOPICS: [(&str, &str); 19] = [
    ("agents", include_str!("../../docs/agents.md")),
    ("running", include_str!("../../docs/running.md")),
    ("ci", include_str!("../../docs/ci.md")),
    ("convert", include_str!("../../docs/convert.md")),
    ("evals", include_str!("../../docs/evals.md")),
    ("extensions", include_str!("../../docs/extensions.md")),
    ("effects", include_str!("../../docs/effects.md")),
    ("expect", include_str!("../../docs/expect.md")),
    ("compatibility", include_str!("../../docs/compatibility.md")),
    ("task", include_str!("../../docs/reference/task.md")),
    ("steps", include_str!("../../docs/reference/steps.md")),
    ("dialects", include_str!("../../docs/reference/steps-dialect.md")),
    ("holes", include_str!("../../docs/reference/holes.md")),
    ("script", include_str!("../../docs/reference/script.md")),
    ("eval", include_str!("../../docs/reference/eval.md")),
    ("assertions", include_str!("../../docs/reference/assertions.md")),
    ("files", include_str!("../../docs/reference/files.md")),
    ("config", include_str!("../../docs/reference/config.md")),
    ("differences", include_str!("../../docs/reference/differences.md")),
];
/// The page whose sections are topics, too: `gevals explain http`.
const STEPS: &str = include_str!("../../docs/reference/steps.md");

/// The section of a step, with all below its heading.
pub(super) fn step(name: &str) -> Option<&'static str> {
    let start = STEPS.find(&format!("\n## {name}\n"))? + 1;
    let length = STEPS[start + 3..].find("\n## ").map_or(STEPS.len() - start, |end| end + 4);
    STEPS.get(start..start + length)
}

/// A page for a terminal: without what only a generator reads.
fn shown(page: &str) -> String {
    let lines = page.lines().filter(|line| !(line.starts_with("<!-- ") && line.ends_with(" -->")));
    lines.map(|line| format!("{line}\n")).collect::<String>().trim_end().to_owned() + "\n"
}

/// Explain a rule: why it matters, an example, and its cure; or a topic or a step: task, steps, http, expect, holes, eval, assertions, config, …
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// A rule, as a finding shows it, a topic, or a step; without one, all are listed.
    rule: Option<String>,
    /// What a task does to the world, as gevals understands its scripts and steps.
    #[arg(long, value_name = "FILE", conflicts_with = "rule")]
    effects: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  gevals explain                         all rules and topics
  gevals explain resource-not-released   why it matters, an example, and its cure
  gevals explain http                    a step: what it takes, expects and leaves
  gevals explain holes                   a topic
  gevals explain --effects task.yaml     what its scripts create, read, await, change and delete";

pub fn main(args: &Args) -> u8 {
    if let Some(path) = &args.effects {
        return acts(path);
    }
    let Some(name) = &args.rule else {
        let topics = TOPICS.map(|(topic, _)| topic).join(", ");
        let steps: Vec<&str> = STEPS.lines().filter_map(|line| line.strip_prefix("## ")).collect();
        print(&format!("{}\nTopics: {topics}\nSteps: {}\n", list(), steps.join(", ")));
        return status::OK;
    };
    if let Some((_, page)) = TOPICS.iter().find(|(topic, _)| topic == name) {
        // A script has a page of its own beside its section.
        let section = step(name).map(|section| format!("{}\n", shown(section))).unwrap_or_default();
        print(&format!("{section}{}", shown(page)));
        return status::OK;
    }
    if let Some(section) = step(name) {
        print(&shown(section));
        return status::OK;
    }
    match rule(name) {
        Some(rule) => {
            print(&format!("{}\n", rule.page.trim_end()));
            status::OK
        }
        None => {
            complain(&unknown(name));
            status::USAGE
        }
    }
}

/// Prints what the tasks of a file or a folder do.
fn acts(path: &Path) -> u8 {
    let sources = Sources::default();
    let paths = [path.to_owned()];
    let tasks = compile::effects(&paths, &sources, &project_files(&paths));
    if tasks.is_empty() {
        complain(&format!("no task in `{}`", path.display()));
        return status::USAGE;
    }
    let mut worst = status::OK;
    for (name, path, acts) in tasks {
        match acts {
            Some(acts) => print(&format!("{name}  {}\n{acts}", path.display())),
            None => {
                complain(&format!("`{}` has errors: `gevals check` shows them", path.display()));
                worst = status::NO;
            }
        }
    }
    worst
}

/// That there is no such rule, and which one may be meant.
pub fn unknown(name: &str) -> String {
    let topics = TOPICS.iter().map(|(topic, _)| *topic);
    let near = nearest(name, RULES.iter().map(|l| l.rule.name).chain(topics));
    let hint = near.map_or_else(|| "`gevals explain` lists them all".to_owned(), |n| format!("did you mean `{n}`?"));
    format!("no rule is called `{name}`; {hint}")
}

/// All rules, a line each.
pub fn list() -> String {
    let width = RULES.iter().map(|l| l.rule.name.len()).max().unwrap_or(0);
    let lines = RULES.iter().map(|l| {
        let strength = match l.rule.strength {
            Strength::Hard => "error",
            Strength::Verdict => "verdict",
            Strength::Warning => "warning",
            Strength::Note => "note",
        };
        format!("{:width$}  {strength:7}  {}\n", l.rule.name, l.rule.summary())
    });
    lines.collect()
}
