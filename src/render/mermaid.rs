//! Plans for Mermaid, in the form that GitHub draws.
//!
//! In labels, every character that Mermaid might interpret (quotes, entities, directives (`%%{`), Markdown,
//! links) is written as an entity. Letters, digits and a few punctuation characters stay.

use std::fmt::Write;

use super::{
    PlanFormat, View, drawn,
    picture::{Frame, Item, LinkKind, Node, NodeKind, Picture},
};

pub const FORMAT: PlanFormat = PlanFormat { name: "mermaid", summary: "a graph that GitHub renders", render };

fn render(views: &[View<'_>]) -> String {
    drawn(views, write)
}

fn write(picture: &Picture, out: &mut String) -> std::fmt::Result {
    writeln!(out, "flowchart TD")?;
    items(&picture.items, 1, out)?;
    for link in &picture.links {
        let arrow = match link.kind {
            LinkKind::Order => "-->",
            LinkKind::Data => "==>",
            LinkKind::Finally => "-.->",
            LinkKind::Branch => "--o",
            LinkKind::Layout => "~~~",
        };
        let label = if link.label.is_empty() { String::new() } else { format!("|\"{}\"|", escaped(&link.label)) };
        writeln!(out, "  n{} {arrow}{label} n{}", link.from, link.to)?;
    }
    for (class, style) in CLASSES {
        writeln!(out, "  classDef {class} {style}")?;
    }
    Ok(())
}

/// Light fills with dark text are readable on a white page and on a dark one.
const CLASSES: &[(&str, &str)] = &[
    ("step", "fill:#f8fafc,stroke:#64748b,color:#0f172a"),
    ("agent", "fill:#ede9fe,stroke:#7c3aed,color:#0f172a"),
    ("cleanup", "fill:#f8fafc,stroke:#b45309,color:#0f172a,stroke-dasharray:4"),
    ("passed", "fill:#dcfce7,stroke:#15803d,color:#0f172a"),
    ("failed", "fill:#fee2e2,stroke:#b91c1c,color:#0f172a"),
    ("broken", "fill:#fecaca,stroke:#7f1d1d,color:#0f172a"),
    ("skipped", "fill:#e2e8f0,stroke:#94a3b8,color:#334155"),
    ("cancelled", "fill:#fef9c3,stroke:#a16207,color:#0f172a"),
];

fn items(items: &[Item], depth: usize, out: &mut String) -> std::fmt::Result {
    let indent = "  ".repeat(depth);
    for item in items {
        match item {
            Item::Node(node) => writeln!(out, "{indent}{}", written(node))?,
            Item::Frame(Frame { key, title, items: inner, .. }) => {
                writeln!(out, "{indent}subgraph f{key}[\"{}\"]", escaped(title))?;
                writeln!(out, "{indent}  direction TB")?;
                self::items(inner, depth + 1, out)?;
                writeln!(out, "{indent}end")?;
            }
        }
    }
    Ok(())
}

fn written(node: &Node) -> String {
    let label = match node.text.is_empty() {
        true => escaped(&node.title),
        false => {
            std::iter::once(node.title.as_str()).chain(node.text.lines()).map(escaped).collect::<Vec<_>>().join("<br/>")
        }
    };
    let (open, close) = match node.kind {
        NodeKind::Step | NodeKind::Summary | NodeKind::Cleanup => ("[", "]"),
        NodeKind::Control => ("{{", "}}"),
        NodeKind::Agent => ("([", "])"),
        NodeKind::Assertion => ("[/", "/]"),
    };
    let class = match (node.outcome, node.kind) {
        (Some(outcome), _) => outcome.name(),
        (None, NodeKind::Agent) => "agent",
        (None, NodeKind::Cleanup) => "cleanup",
        (None, _) => "step",
    };
    format!("n{}{open}\"{label}\"{close}:::{class}", node.key)
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut word = false;
    for c in text.chars() {
        // A dot or a hyphen at the beginning could start a Markdown list.
        let plain =
            c.is_alphanumeric() || !c.is_ascii() || matches!(c, ' ' | ',' | '/' | '(' | ')') || (word && c == '-');
        match plain {
            true => out.push(c),
            false => {
                let _ = write!(out, "#{};", u32::from(c));
            }
        }
        word = c.is_alphabetic();
    }
    out
}
