//! The names that an author gives – steps, outputs, variables of a task, anchors – and every place where one stands, also in the
//! prompt's file and in the oracles of evals.

use std::ops::Range;

use super::reading::Reading;
use crate::{
    diagnostic::Diagnostics,
    dialect,
    hir::{Dialect, Hole, Task, Template},
    source::Span,
    template::{Path, SegmentKind},
    yaml::{self, Node, Tree},
};

/// What a name is given to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Named {
    Step(String),
    Output { step: String, name: String },
    Variable(String),
    Anchor(String),
}

impl Named {
    /// The name itself.
    pub fn name(&self) -> &str {
        match self {
            Self::Step(name) | Self::Output { name, .. } | Self::Variable(name) | Self::Anchor(name) => name,
        }
    }
}

/// A place where a name stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Occurrence {
    pub named: Named,
    pub span: Span,
    /// Whether it is given here.
    pub given: bool,
}

/// All names of a text, where they are given and where they are used. `oracles` are files of the sources.
pub fn occurrences(text: &str, reading: &Reading, oracles: &[Span]) -> Vec<Occurrence> {
    let mut found = Vec::new();
    if let Some(tree) = reading.tree() {
        let file = reading.file().unwrap_or_else(|| tree.file());
        let at = |range: Range<usize>| Span::new(file, range);
        found.extend(anchors(text, tree).into_iter().map(|(name, range, given)| Occurrence {
            named: Named::Anchor(name),
            span: at(range),
            given,
        }));
    }
    let Some(task) = reading.task().filter(|task| task.dialect == Dialect::Portable) else { return found };
    found.extend(given(text, task));
    let mut templates: Vec<&Template<Path>> = task.env.iter().map(|(_, template)| template).collect();
    templates.extend(task.prompt.iter().map(|prompt| &prompt.text));
    task.walk(&mut |_, step| step.templates(&mut |template| templates.push(template)));
    let variables: Vec<&str> = task.env.iter().map(|(name, _)| name.value.as_str()).collect();
    for hole in templates.into_iter().flat_map(Template::holes) {
        found.extend(used(hole, &variables));
    }
    for oracle in oracles {
        let source = reading.sources.get(oracle.file);
        let Ok(tree) = yaml::parse(oracle.file, source.text(), &mut Diagnostics::default()) else { continue };
        let oracle = dialect::oracle::decode(tree.root(), oracle.file, &mut Diagnostics::default()).value;
        let entries = oracle.into_iter().flat_map(|oracle| oracle.tasks);
        for entry in entries.filter(|entry| entry.task.value == task.name.value) {
            let mut visit = |template: &Template<Path>| {
                template.holes().for_each(|hole| found.extend(used(hole, &variables)));
            };
            entry.output.iter().for_each(&mut visit);
            for call in &entry.calls {
                visit(&call.name);
                call.args.iter().for_each(|(_, arg)| arg.templates(&mut visit));
            }
        }
    }
    found
}

/// The names that a task gives.
fn given(text: &str, task: &Task<Path>) -> Vec<Occurrence> {
    let bare = |span: Span| match text.get(span.range()).map(str::as_bytes) {
        Some([b'"' | b'\'', .., b'"' | b'\'']) => Span { start: span.start + 1, end: span.end - 1, ..span },
        _ => span,
    };
    let mut found = Vec::new();
    let mut give = |named, span| found.push(Occurrence { named, span: bare(span), given: true });
    task.env.iter().for_each(|(name, _)| give(Named::Variable(name.value.clone()), name.span));
    task.walk(&mut |_, step| {
        let Some(id) = &step.id else { return };
        give(Named::Step(id.value.clone()), id.span);
        for (name, _) in step.outputs.iter().flatten() {
            give(Named::Output { step: id.value.clone(), name: name.value.clone() }, name.span);
        }
    });
    found
}

/// The names that a hole uses.
fn used(hole: &Hole<Path>, variables: &[&str]) -> Vec<Occurrence> {
    let names: Vec<&str> = hole
        .reference
        .segments
        .iter()
        .map_while(|segment| match &segment.kind {
            SegmentKind::Name(name) => Some(name.as_str()),
            SegmentKind::Index(_) => None,
        })
        .collect();
    let uses: Vec<(Named, usize)> = match (hole.reference.root.text.as_str(), names.as_slice()) {
        ("env", [name, ..]) if variables.contains(name) => vec![(Named::Variable((*name).to_owned()), 1)],
        ("steps", [step, rest @ ..]) => {
            let output = match rest {
                ["outputs", name, ..] => {
                    Some((Named::Output { step: (*step).to_owned(), name: (*name).to_owned() }, 3))
                }
                _ => None,
            };
            std::iter::once((Named::Step((*step).to_owned()), 1)).chain(output).collect()
        }
        _ => Vec::new(),
    };
    let at = |(named, nth): (Named, usize)| Some(Occurrence { named, span: *hole.spans.get(nth)?, given: false });
    uses.into_iter().filter_map(at).collect()
}

/// Anchors and aliases: the name, its bytes, and whether it is the anchor.
pub fn anchors(text: &str, tree: &Tree) -> Vec<(String, Range<usize>, bool)> {
    let (mut scalars, mut found) = (Vec::new(), Vec::new());
    aliases(tree.root(), &mut scalars, &mut |range| {
        found.push((text[range.start + 1..range.end].to_owned(), range.start + 1..range.end, false));
    });
    scalars.extend(tree.comments().iter().map(|comment| comment.span.range()));
    for (at, _) in text.match_indices('&') {
        let behind = &text[at + 1..];
        let length = behind.find(|letter: char| letter.is_whitespace() || "[]{},".contains(letter));
        let length = length.unwrap_or(behind.len());
        let begins =
            text[..at].chars().next_back().is_none_or(|letter| letter.is_whitespace() || "[{,".contains(letter));
        if length > 0 && begins && !scalars.iter().any(|range: &Range<usize>| range.contains(&at)) {
            found.push((behind[..length].to_owned(), at + 1..at + 1 + length, true));
        }
    }
    found
}

/// Notes where scalars are, and visits aliases, each once.
fn aliases(node: Node<'_>, scalars: &mut Vec<Range<usize>>, visit: &mut dyn FnMut(Range<usize>)) {
    if node.is_alias() {
        return visit(node.span().range());
    }
    for entry in node.entries() {
        scalars.push(entry.key.span().range());
        aliases(entry.value, scalars, visit);
    }
    node.items().for_each(|item| aliases(item, scalars, visit));
    if node.text().is_some() {
        scalars.push(node.span().range());
    }
}
