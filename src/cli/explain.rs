//! `gevals explain`: explains rules and other words.

use std::path::{Path, PathBuf};

use super::{complain, print, project_files, status};
use crate::{
    compile,
    diagnostic::{Strength, nearest},
    lint::{RULES, rule},
    source::Sources,
};

/// What can be explained besides rules.
const TOPICS: [(&str, &str); 22] = [
    ("agents", include_str!("../../docs/agents.md")),
    ("running", include_str!("../../docs/running.md")),
    ("ci", include_str!("../../docs/ci.md")),
    ("convert", include_str!("../../docs/convert.md")),
    ("evals", include_str!("../../docs/evals.md")),
    ("extensions", include_str!("../../docs/extensions.md")),
    ("effects", include_str!("../../docs/effects.md")),
    ("editors", include_str!("../../docs/editors.md")),
    ("install", include_str!("../../docs/install.md")),
    ("mcp", include_str!("../../docs/mcp.md")),
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
/// Words for sections with other headings.
const SECTIONS: [(&str, &str, &str); 13] = [
    ("prove", "running", "Whether a suite can fail"),
    ("coverage", "running", "Coverage of a server's tools"),
    ("gate", "running", "What a pass is worth"),
    ("otlp", "running", "Traces"),
    ("recover", "running", "Cleanup survives everything"),
    ("env", "config", "Environment"),
    ("exit", "config", "Exit statuses"),
    ("filters", "holes", "Filters"),
    ("Agent", "files", "Agent files"),
    ("Oracle", "files", "Oracle files"),
    ("McpEvals", "files", "Evals of a server"),
    ("mcp-config", "files", "MCP-config files"),
    ("prices", "files", "Price files"),
];

/// The pages whose tables describe keys, matchers, filters and variables.
const KEYS: [&str; 10] =
    ["expect", "task", "steps", "dialects", "holes", "script", "eval", "assertions", "files", "config"];

/// The page of the steps of portable tasks, whose sections are listed.
const STEPS: &str = include_str!("../../docs/reference/steps.md");

/// A section of a page: its heading, and its text with all subsections.
struct Section {
    topic: &'static str,
    heading: &'static str,
    text: &'static str,
}

/// All sections of all pages, those of the reference first.
fn sections() -> impl Iterator<Item = Section> {
    TOPICS.iter().flat_map(|(topic, page)| {
        headings(page).map(move |(start, level, heading)| {
            let end = headings(page).find(|(at, other, _)| *at > start && *other <= level).map_or(page.len(), |h| h.0);
            Section { topic, heading, text: page.get(start..end).unwrap_or_default() }
        })
    })
}

/// The headings with their positions and levels. Code blocks are skipped.
fn headings(page: &'static str) -> impl Iterator<Item = (usize, usize, &'static str)> {
    let (mut at, mut code) = (0, false);
    page.split_inclusive('\n').filter_map(move |line| {
        let start = at;
        at += line.len();
        code ^= line.starts_with("```");
        let level = line.bytes().take_while(|byte| *byte == b'#').count();
        (!code && level > 0).then(|| (start, level, line[level..].trim()))
    })
}

/// The section of a step of portable tasks, as Markdown.
pub(super) fn step(name: &str) -> Option<String> {
    let section = sections().find(|section| section.topic == "steps" && section.heading == name)?;
    Some(shown(section.text))
}

/// A page for a terminal, without the comments that only a generator reads.
fn shown(page: &str) -> String {
    let lines = page.lines().filter(|line| !(line.starts_with("<!-- ") && line.ends_with(" -->")));
    lines.map(|line| format!("{line}\n")).collect::<String>().trim_end().to_owned() + "\n"
}

/// Whether the first cell of a table row is about a word: `` | `word: TEXT` | ``.
fn is_about(row: &str, word: &str) -> bool {
    let cell = row.strip_prefix("| ").and_then(|rest| rest.split(" | ").next()).unwrap_or_default();
    cell.split('`').skip(1).step_by(2).any(|code| {
        let code = code.trim_start_matches(['{', '$']);
        let rest = code.strip_prefix(word);
        rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '/')))
    })
}

/// The rows of all tables that are about a word, under the headings of their sections.
fn rows(word: &str) -> String {
    let mut out = String::new();
    for (topic, page) in TOPICS.iter().filter(|(topic, _)| KEYS.contains(topic)) {
        let (mut heading, mut head, mut told) = ("", "", "");
        for line in page.lines() {
            if line.starts_with('#') {
                heading = line.trim_start_matches('#').trim();
            }
            if !line.starts_with('|') {
                head = "";
            } else if head.is_empty() {
                head = line;
            } else if is_about(line, word) {
                if told != heading {
                    let columns = head.matches('|').count().saturating_sub(1);
                    out +=
                        &format!("\n## {heading} (`gevals explain {topic}`)\n\n{head}\n|{}\n", "---|".repeat(columns));
                    told = heading;
                }
                out += &format!("{line}\n");
            }
        }
    }
    out.trim_start().to_owned()
}

/// The sections for a word: by heading, or as listed in [`SECTIONS`].
fn named(word: &str) -> Vec<Section> {
    let also = SECTIONS.iter().find(|(known, ..)| known.eq_ignore_ascii_case(word));
    let is_meant = |section: &Section| {
        let heading = section.heading.trim_matches('`');
        let is = also.is_some_and(|(_, topic, heading)| section.topic == *topic && section.heading == *heading);
        is || also.is_none() && heading.eq_ignore_ascii_case(word)
    };
    sections().filter(is_meant).collect()
}

/// The page of a topic, as it is in the sources.
pub(super) fn page(topic: &str) -> Option<&'static str> {
    TOPICS.iter().find(|(name, _)| *name == topic).map(|(_, page)| *page)
}

/// Everything that is known about a word: a topic, a step or another section of a page, a rule, a key of a table, a
/// command.
pub fn explained(word: &str) -> Option<String> {
    if word.trim().is_empty() {
        return None;
    }
    if let Some((topic, page)) = TOPICS.iter().find(|(topic, _)| topic.eq_ignore_ascii_case(word)) {
        // The step `script` has its own page in addition to its section.
        let own = named(word).into_iter().filter(|section| section.topic == "steps" && *topic != "steps");
        let sections: String = own.map(|section| format!("{}\n", shown(section.text))).collect();
        return Some(format!("{sections}{}", shown(page)));
    }
    let command = super::commands().find_subcommand(word).map(clap::Command::get_name).map(str::to_owned);
    let options =
        command.as_ref().map_or_else(String::new, |name| format!("\n`gevals help {name}` has the options.\n"));
    let sections: Vec<String> = named(word)
        .iter()
        .map(|section| match section.topic {
            "dialects" => format!("Of `mcpchecker/v1alpha2`:\n\n{}", shown(section.text)),
            _ => shown(section.text),
        })
        .collect();
    if !sections.is_empty() {
        return Some(sections.join("\n") + &options);
    }
    if let Some(rule) = rule(word) {
        return Some(format!("{}\n", rule.page.trim_end()));
    }
    let Some(name) = command else { return Some(rows(word)).filter(|rows| !rows.is_empty()) };
    let mut commands = super::commands().term_width(100);
    commands.build();
    commands
        .find_subcommand_mut(&name)
        .map(|command| format!("{}\n", command.render_long_help().to_string().trim_end()))
}

/// Explain a rule (why it matters, an example, how to fix it), a topic, a step, a matcher, a filter, a key or a command.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// A rule as shown in a finding, a topic, a step, or another word of the language; without one, all rules and topics are listed.
    rule: Option<String>,
    /// Show what a task does to its environment, as gevals understands its scripts and steps.
    #[arg(long, value_name = "FILE", conflicts_with = "rule")]
    effects: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  gevals explain                         list all rules and topics
  gevals explain resource-not-released   a rule: why it matters, an example, how to fix it
  gevals explain http                    a step: its fields, expectations and outputs
  gevals explain holes                   a topic
  gevals explain oneOf                   a matcher, filter, assertion, or key of a file
  gevals explain GEVALS_CACHE_DIR        an environment variable
  gevals explain --effects task.yaml     what its scripts create, read, await, change and delete

Exit status: 0 explained, 1 the file has errors, 2 no such rule or topic";

pub fn main(args: &Args) -> u8 {
    if let Some(path) = &args.effects {
        return acts(path);
    }
    let Some(name) = &args.rule else {
        print(&overview());
        return status::OK;
    };
    match explained(name) {
        Some(text) => {
            print(&text);
            status::OK
        }
        None => {
            complain(&unknown(name));
            status::USAGE
        }
    }
}

/// All rules, topics and steps.
pub(super) fn overview() -> String {
    let topics = TOPICS.iter().map(|(topic, _)| *topic).chain(SECTIONS.iter().map(|(word, ..)| *word));
    let topics: Vec<&str> = topics.collect();
    let steps: Vec<&str> = headings(STEPS).filter(|(_, level, _)| *level == 2).map(|(.., heading)| heading).collect();
    format!(
        "{}\nTopics: {}\nSteps: {}\nAlso every matcher, filter, assertion, key of a file, variable and command.\n",
        list(),
        topics.join(", "),
        steps.join(", ")
    )
}

/// Prints what the tasks of a file or a directory do.
fn acts(path: &Path) -> u8 {
    let sources = Sources::default();
    let paths = [path.to_owned()];
    let tasks = compile::effects(&paths, &sources, &project_files(&paths));
    if tasks.is_empty() {
        complain(&format!("no tasks in `{}`", path.display()));
        return status::USAGE;
    }
    let mut worst = status::OK;
    for (name, path, acts) in tasks {
        match acts {
            Some(acts) => print(&format!("{name}  {}\n{acts}", path.display())),
            None => {
                complain(&format!("`{}` has errors: see `gevals check`", path.display()));
                worst = status::NO;
            }
        }
    }
    worst
}

/// Rules, topics, and the steps of portable tasks.
pub(super) fn words() -> Vec<&'static str> {
    let steps = headings(STEPS).map(|(.., heading)| heading).filter(|heading| !heading.contains(' '));
    let topics = TOPICS.iter().map(|(topic, _)| *topic).chain(SECTIONS.iter().map(|(word, ..)| *word)).chain(steps);
    RULES.iter().map(|lint| lint.rule.name).chain(topics).collect()
}

/// The message for an unknown word, with a suggestion.
pub fn unknown(name: &str) -> String {
    let commands = super::commands();
    let near = nearest(name, words().into_iter().chain(commands.get_subcommands().map(clap::Command::get_name)));
    let hint = near.map_or_else(|| "`gevals explain` lists them all".to_owned(), |n| format!("did you mean `{n}`?"));
    format!("no rule, topic or word named `{name}`; {hint}")
}

/// All rules, one per line.
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
