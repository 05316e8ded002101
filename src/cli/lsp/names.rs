//! The names that an author defines – steps, outputs, variables of a task, anchors – and all their occurrences,
//! including those in the prompt's file, in scripts and in the oracles of evals.

use std::ops::Range;

use super::{
    paths::{Named, Paths},
    reading::Reading,
    scripts,
};
use crate::{
    diagnostic::Diagnostics,
    dialect,
    hir::{Dialect, Hole, Task, Template},
    source::{Files, Span},
    template::Path,
    yaml::{self, Node, Tree},
};

/// An occurrence of a name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Occurrence {
    pub named: Named,
    pub span: Span,
    /// Whether it is the definition.
    pub given: bool,
}

/// All names of a text, and what prevents changing one.
#[derive(Default)]
pub struct Names {
    /// Definitions and uses of names. Variables of the process have no definition.
    pub all: Vec<Occurrence>,
    /// For each script that uses variables of its environment: these, and those that the script or its step sets.
    pub scripts: Vec<(Vec<String>, Vec<String>)>,
    /// Variables of the task that may be used in a way that is not analyzed.
    pub doubts: Vec<(String, Span)>,
    /// Places that have another meaning for another step or another task.
    pub shared: Vec<Span>,
}

/// All names of a text, with their definitions and uses. `oracles` are files of the sources.
pub fn names(text: &str, reading: &Reading, oracles: &[Span], files: &dyn Files) -> Names {
    let mut found = Names::default();
    if let Some(tree) = reading.tree() {
        let file = reading.file().unwrap_or_else(|| tree.file());
        let at = |range: Range<usize>| Span::new(file, range);
        found.all.extend(anchors(text, tree).into_iter().map(|(name, range, given)| Occurrence {
            named: Named::Anchor(name),
            span: at(range),
            given,
        }));
    }
    let Some(task) = reading.task().filter(|task| task.dialect == Dialect::Portable) else { return found };
    found.all.extend(given(text, task));
    let paths = Paths::new(task);
    let around = task.env.iter().map(|(_, template)| template).chain(task.prompt.iter().map(|prompt| &prompt.text));
    around.flat_map(Template::holes).for_each(|hole| found.all.extend(used(hole, None, &paths)));
    paths.templates(&mut |template, place| {
        template.holes().for_each(|hole| found.all.extend(used(hole, place, &paths)));
    });
    in_scripts(task, reading, files, &mut found);
    for oracle in oracles {
        let source = reading.sources.get(oracle.file);
        let Ok(tree) = yaml::parse(oracle.file, source.text(), &mut Diagnostics::default()) else { continue };
        let oracle = dialect::oracle::decode(tree.root(), oracle.file, &mut Diagnostics::default()).value;
        for entry in oracle.into_iter().flat_map(|oracle| oracle.tasks) {
            let mut visit = |template: &Template<Path>| {
                let uses = template.holes().flat_map(|hole| used(hole, None, &paths));
                match entry.task.value == task.name.value {
                    true => found.all.extend(uses),
                    false => found.shared.extend(uses.map(|one| one.span)),
                }
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

/// Adds the variables that scripts use.
fn in_scripts(task: &Task<Path>, reading: &Reading, files: &dyn Files, found: &mut Names) {
    for script in scripts::all(reading, task, files) {
        let mut variables = script.variables();
        let env = script.env();
        variables.given.retain(|(name, range)| {
            let is_given = !env.contains(&name.as_str());
            if !is_given {
                found.shared.push(script.span(range.clone()));
            }
            is_given
        });
        let own: Vec<String> = variables.own.into_iter().chain(env.iter().map(|name| (*name).to_owned())).collect();
        let undoubted = |name: &str| own.iter().any(|own| own == name);
        for (name, _) in task.env.iter().filter(|(name, _)| !undoubted(&name.value)) {
            let doubt = script.doubt(&name.value, reading, files);
            found.doubts.extend(doubt.map(|at| (name.value.clone(), at)));
        }
        found.all.extend(variables.given.iter().map(|(name, range)| Occurrence {
            named: Named::Variable(name.clone()),
            span: script.span(range.clone()),
            given: false,
        }));
        found.scripts.push((variables.given.into_iter().map(|(name, _)| name).collect(), own));
    }
}

/// The names that a task defines.
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
pub fn used<'h>(hole: &'h Hole<Path>, place: Option<usize>, paths: &Paths<'h>) -> Vec<Occurrence> {
    let at = |(named, nth): (Named, usize)| Some(Occurrence { named, span: *hole.spans.get(nth)?, given: false });
    paths.names(hole, place).into_iter().filter_map(at).collect()
}

/// Anchors and aliases: the name, its range, and whether it is an anchor.
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

/// Collects the ranges of scalars, and visits each alias once.
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
