//! Converts tasks from one dialect to another: bash tasks become tasks that are pleasant to maintain. Input and output are
//! text; nothing here touches a disk.
//!
//! What a script does is kept statement by statement (`lift`), and what is not understood stays a script. Property: *what
//! is lifted means the same or is labeled accordingly; what is not understood is never guessed.*

pub mod classify;
pub mod emit;
mod kubernetes;
mod lift;
mod pattern;
mod shell;
mod step;
mod wrap;

use std::{collections::BTreeMap, path::PathBuf};

pub use self::lift::test_words;
pub use crate::bash::tools::{looks, only_looks};
use crate::{
    hir::{Dialect, PhaseKind},
    project::{Project, TaskUnit},
    source::{Files, Sources, Span},
};

/// What statements become.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    /// Scripts stay scripts.
    Wrap,
    /// Statements become built-in steps, as far as they are understood.
    Builtin,
    /// The same, and commands of kubectl become operations of `builtin:kubernetes`.
    Kubernetes,
}

/// How well a statement's meaning was preserved. The worse label is the greater one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Label {
    /// The step passes if and only if the statement did.
    Exact,
    /// The step fails in some cases in which the script continued.
    Stronger,
    /// The step passes in some cases in which the script failed.
    Weaker,
    /// The statement stays in a script.
    Residual,
}

impl Label {
    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Stronger => "stronger",
            Self::Weaker => "weaker",
            Self::Residual => "residual",
        }
    }
}

/// How many statements have each label.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// Commands that do something: no comments, no progress messages, no assignments of literals.
    pub effective: usize,
    pub exact: usize,
    pub stronger: usize,
    pub weaker: usize,
    pub residual: usize,
}

impl Tally {
    /// Counts statements with a label.
    pub fn add(&mut self, label: Label, count: usize) {
        self.effective += count;
        match label {
            Label::Exact => self.exact += count,
            Label::Stronger => self.stronger += count,
            Label::Weaker => self.weaker += count,
            Label::Residual => self.residual += count,
        }
    }

    /// Adds the counts of another script.
    pub fn merge(&mut self, other: Self) {
        self.effective += other.effective;
        self.exact += other.exact;
        self.stronger += other.stronger;
        self.weaker += other.weaker;
        self.residual += other.residual;
    }

    /// Returns how many statements became steps.
    pub fn lifted(&self) -> usize {
        self.exact + self.stronger + self.weaker
    }
}

/// The result of converting consecutive statements.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Piece {
    pub phase: PhaseKind,
    /// The file that contains it, if that is not the task.
    pub file: Option<PathBuf>,
    /// In the script, counted from 1.
    pub line: usize,
    /// Its first line.
    pub text: String,
    pub label: Label,
    pub statements: usize,
    /// The reason, where it is not obvious.
    pub why: Option<String>,
}

impl Piece {
    fn kept(&self) -> Kept {
        Kept { phase: self.phase, file: self.file.clone(), line: self.line }
    }
}

/// A statement that must stay in its script: the first of a [`Piece`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Kept {
    pub phase: PhaseKind,
    pub file: Option<PathBuf>,
    pub line: usize,
}

/// How a task is to be converted.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    pub sources: &'a Sources,
    pub files: &'a dyn Files,
    /// For what tasks do not specify themselves: the packages of extensions.
    pub project: &'a Project,
    pub to: Dialect,
    pub target: Target,
    pub allow_weaker: bool,
    /// Statements that stay in their script although they could be lifted, because their proof failed.
    pub kept: &'a [Kept],
}

/// A task in another dialect.
#[derive(Clone, Debug)]
pub struct Converted {
    pub text: String,
    pub tally: Tally,
    pub pieces: Vec<Piece>,
    /// The steps that replace them: ids of actions, and indexes in `pieces`.
    pub origins: Vec<(String, usize)>,
    /// What a person should review.
    pub notes: Vec<String>,
    pub steps_before: usize,
    pub steps_after: usize,
    pub lines_before: usize,
    pub lines_after: usize,
    /// Files that the new or the old text refers to.
    pub files: Vec<PathBuf>,
    /// The packages of extensions, by the name that the task's eval uses for them.
    pub packages: BTreeMap<String, String>,
    /// kubectl commands in steps: how many became operations, and how many did not.
    pub kubectl: (usize, usize),
    /// The scripts of the original.
    pub scripts: Vec<String>,
    /// For tests of the proof, which make a mistake on purpose: in how many places one could be made.
    pub places: usize,
}

impl Converted {
    /// Returns the lifted statements, as the entries that would keep them in their script.
    pub fn lifted(&self) -> impl Iterator<Item = Kept> {
        let lifted = self.pieces.iter().filter(|piece| piece.label != Label::Residual && piece.line > 0);
        lifted.map(Piece::kept)
    }

    /// Returns the same for the statement that an action replaces.
    pub fn origin(&self, action: &str) -> Option<Kept> {
        let (_, piece) = self.origins.iter().find(|(id, _)| id == action)?;
        self.pieces.get(*piece).filter(|piece| piece.label != Label::Residual).map(Piece::kept)
    }

    /// Adjusts labels to what worlds have shown: `stronger` lists the actions by which the conversion fails where the
    /// original passes, with the world.
    pub fn relabel(&mut self, stronger: &[(String, String)]) {
        let mut shown = BTreeMap::new();
        for (action, world) in stronger {
            let piece = self.origins.iter().find(|(id, _)| id == action).map(|(_, piece)| *piece);
            piece.map(|piece| shown.entry(piece).or_insert(world));
        }
        for (index, piece) in self.pieces.iter_mut().enumerate() {
            let more = match (piece.label, shown.get(&index)) {
                (Label::Exact | Label::Stronger, Some(world)) => format!("seen in {world}"),
                (Label::Stronger, None) => "seen in no world".to_owned(),
                _ => continue,
            };
            if piece.label == Label::Exact {
                piece.label = Label::Stronger;
                self.tally.exact = self.tally.exact.saturating_sub(piece.statements);
                self.tally.stronger += piece.statements;
            }
            piece.why = Some(piece.why.take().map_or_else(|| more.clone(), |why| format!("{why}; {more}")));
        }
    }
}

/// Why a task is not converted.
#[derive(Clone, Debug)]
pub struct Refusal {
    pub span: Span,
    pub message: String,
}

/// Rewrites a task. A task that is already in the dialect is returned unchanged.
///
/// # Errors
/// Fails if the target dialect cannot express something in the task.
pub fn task(unit: &TaskUnit, cx: Context<'_>) -> Result<Converted, Refusal> {
    wrap::task(unit, cx, None)
}

/// Converts a task with a mistake on purpose at the `n`th place where one can be made. The proof must find it.
///
/// # Errors
/// As [`task`].
pub fn mistaken(unit: &TaskUnit, cx: Context<'_>, n: usize) -> Result<Converted, Refusal> {
    wrap::task(unit, cx, Some(n))
}
