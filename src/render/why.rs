//! Why a step runs when it does, as text and as JSON.

use std::fmt::Write;

use super::{cut, line};
use crate::plan::{
    why::{Answer, Link, Why},
    wire::EdgeKind,
};

/// One way to show it.
#[derive(Debug)]
pub struct WhyFormat {
    /// As after `--format`.
    pub name: &'static str,
    pub render: fn(&Answer) -> String,
}

/// All of them; the first is the default.
pub const WHY_FORMATS: &[WhyFormat] =
    &[WhyFormat { name: "tree", render: text }, WhyFormat { name: "json", render: json }];

/// Of an id, where meanings stand in a column.
const WIDEST: usize = 40;
/// Of a meaning.
const MEANING: usize = 80;

fn text(answer: &Answer) -> String {
    let tasks: Vec<_> = answer.steps.iter().map(one).collect();
    tasks.join("\n")
}

fn one(step: &Why) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "{}  in {}", line(&step.id, true), line(&step.task, true));
    let _ = writeln!(out, "  {}", cut(&step.meaning, MEANING));
    links(&mut out, "waits for", "nothing: the task starts with it", &step.waits_for);
    links(&mut out, "waited for by", "nothing", &step.waited_for_by);
    let hops = step.path.iter().map(|hop| match reasons(hop) {
        by if by.is_empty() => line(&hop.id, true),
        by => format!(" ─ {by} → {}", line(&hop.id, true)),
    });
    let _ = writeln!(out, "  shortest path\n    {}", hops.collect::<String>());
    out
}

fn links(out: &mut String, title: &str, none: &str, links: &[Link]) {
    let _ = writeln!(out, "  {title}");
    if links.is_empty() {
        let _ = writeln!(out, "    {none}");
    }
    let ids: Vec<_> = links.iter().map(|link| line(&link.id, true)).collect();
    let all: Vec<_> = links.iter().map(reasons).collect();
    let width = |texts: &[String]| texts.iter().map(|text| text.chars().count()).max().unwrap_or(0).min(WIDEST);
    let (wide, by) = (width(&ids), width(&all));
    for ((link, id), reasons) in links.iter().zip(&ids).zip(&all) {
        let _ = writeln!(out, "    {id:<wide$}  {reasons:<by$}  {}", cut(&link.meaning, MEANING));
    }
}

/// `order`, `data ns`, `finally`, `branch`.
fn reasons(link: &Link) -> String {
    let reason = |kind: EdgeKind, name: Option<&String>| match (kind, name) {
        (EdgeKind::Order, _) => "order".to_owned(),
        (EdgeKind::Data, Some(name)) => format!("data {}", line(name, true)),
        (EdgeKind::Data, None) => "data".to_owned(),
        (EdgeKind::Finally, _) => "finally".to_owned(),
        (EdgeKind::Branch, _) => "branch".to_owned(),
    };
    let words: Vec<_> = link.by.iter().map(|by| reason(by.kind, by.name.as_ref())).collect();
    words.join(", ")
}

fn json(answer: &Answer) -> String {
    serde_json::to_string_pretty(answer).unwrap_or_default() + "\n"
}
