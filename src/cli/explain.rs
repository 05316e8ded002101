//! `gevals explain`: what a rule is about.

use super::{complain, print, status};
use crate::{
    diagnostic::{Strength, nearest},
    lint::{RULES, rule},
};

/// What is no rule and can be explained all the same.
const TOPICS: [(&str, &str); 6] = [
    ("agents", include_str!("../../docs/agents.md")),
    ("running", include_str!("../../docs/running.md")),
    ("ci", include_str!("../../docs/ci.md")),
    ("convert", include_str!("../../docs/convert.md")),
    ("evals", include_str!("../../docs/evals.md")),
    ("extensions", include_str!("../../docs/extensions.md")),
];

/// Explain a rule: why it matters, an example, and its cure; or a topic: agents, running, ci, convert, evals, extensions.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The rule's name, as a finding shows it; without one, all rules and topics are listed.
    rule: Option<String>,
}

pub fn main(args: &Args) -> u8 {
    let Some(name) = &args.rule else {
        let topics = TOPICS.map(|(topic, _)| topic).join(", ");
        print(&format!("{}\nTopics: {topics}\n", list()));
        return status::OK;
    };
    if let Some((_, page)) = TOPICS.iter().find(|(topic, _)| topic == name) {
        print(&format!("{}\n", page.trim_end()));
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
