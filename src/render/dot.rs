//! Plans for Graphviz. Every label is a quoted string, which is escaped as a whole.

use std::fmt::Write;

use super::{
    PlanFormat, View, drawn,
    picture::{Frame, Item, LinkKind, Node, NodeKind, Picture},
};
use crate::event::Outcome;

pub const FORMAT: PlanFormat = PlanFormat { name: "dot", summary: "a graph for Graphviz", render };

fn render(views: &[View<'_>]) -> String {
    drawn(views, write)
}

fn write(picture: &Picture, out: &mut String) -> std::fmt::Result {
    writeln!(out, "digraph plan {{")?;
    writeln!(
        out,
        "  graph [label={}, labelloc=t, fontname=\"Helvetica\", bgcolor=\"white\", pad=0.3];",
        quoted(&picture.title)
    )?;
    writeln!(
        out,
        "  node [shape=box, style=\"rounded,filled\", fontname=\"Helvetica\", fontsize=11, color=\"#64748b\", fillcolor=\"#f8fafc\"];"
    )?;
    writeln!(out, "  edge [fontname=\"Helvetica\", fontsize=9, color=\"#64748b\", arrowsize=0.7];")?;
    items(&picture.items, 1, out)?;
    for link in &picture.links {
        let style = match link.kind {
            LinkKind::Order => "",
            LinkKind::Data => "color=\"#2563eb\", fontcolor=\"#2563eb\"",
            LinkKind::Finally => "style=dashed, color=\"#b45309\", fontcolor=\"#b45309\", constraint=false",
            LinkKind::Branch => "arrowtail=odiamond, dir=both",
            LinkKind::Layout => "style=invis",
        };
        let label = if link.label.is_empty() { String::new() } else { format!("label={}", quoted(&link.label)) };
        let attributes = [style, &label].into_iter().filter(|a| !a.is_empty()).collect::<Vec<_>>().join(", ");
        writeln!(out, "  n{} -> n{} [{attributes}];", link.from, link.to)?;
    }
    writeln!(out, "}}")
}

fn items(items: &[Item], depth: usize, out: &mut String) -> std::fmt::Result {
    let indent = "  ".repeat(depth);
    for item in items {
        match item {
            Item::Node(node) => writeln!(out, "{indent}n{} [{}];", node.key, attributes(node))?,
            Item::Frame(Frame { key, title, items: inner, .. }) => {
                writeln!(out, "{indent}subgraph cluster_{key} {{")?;
                writeln!(
                    out,
                    "{indent}  graph [label={}, style=rounded, color=\"#cbd5e1\", fontsize=11];",
                    quoted(title)
                )?;
                self::items(inner, depth + 1, out)?;
                writeln!(out, "{indent}}}")?;
            }
        }
    }
    Ok(())
}

fn attributes(node: &Node) -> String {
    let label = match node.text.is_empty() {
        true => escaped(&node.title),
        false => {
            std::iter::once(node.title.as_str()).chain(node.text.lines()).map(escaped).collect::<Vec<_>>().join("\\n")
        }
    };
    let shape = match node.kind {
        NodeKind::Step | NodeKind::Summary => "",
        NodeKind::Control => ", shape=hexagon, style=filled",
        NodeKind::Agent => ", shape=ellipse, style=filled, fillcolor=\"#ede9fe\"",
        NodeKind::Assertion => ", shape=note, style=filled",
        NodeKind::Cleanup => ", style=\"rounded,filled,dashed\"",
    };
    let fill = match node.outcome {
        None => "",
        Some(Outcome::Passed) => ", fillcolor=\"#dcfce7\"",
        Some(Outcome::Failed) => ", fillcolor=\"#fee2e2\"",
        Some(Outcome::Broken) => ", fillcolor=\"#fecaca\"",
        Some(Outcome::Skipped) => ", fillcolor=\"#e2e8f0\"",
        Some(Outcome::Cancelled) => ", fillcolor=\"#fef9c3\"",
    };
    // If a name occurs several times, its last attribute counts.
    format!("label=\"{label}\"{shape}{fill}")
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", escaped(text))
}

/// Escapes a text for a quoted string, in which Graphviz also reads escapes (`\n`, `\N`) and HTML
/// entities.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '&' => out.push_str("&amp;"),
            _ => out.push(c),
        }
    }
    out
}
