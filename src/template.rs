//! The hole language of the portable dialect: `{root.path | filter}` in text. `grammar/README.md` documents it,
//! `grammar/template.pest` is its executable grammar, and `grammar/vectors/` contains its test vectors.
//!
//! This module knows the language but not scopes: [`scan`] finds what a text contains, and the checker determines what it
//! means.

use std::{fmt, ops::Range};

use serde_json::Value;

mod filter;
mod scan;
mod value;

pub use filter::{
    EvalError, FILTERS, FilterInfo, Param, ParamKind, TypeFault, apply_filters, filter, hole_type, meant,
};
pub use scan::{escape, scan};
pub use value::{fill, meant_field, render, walk_type, walk_value};

/// The parts of a text. The pieces are in order, no two texts are adjacent and none is empty. The part of the source
/// between the ranges of two holes is the text between them, as written.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Scan {
    pub pieces: Vec<Piece>,
    /// Ordered by start.
    pub suspects: Vec<Suspect>,
}

/// A part of a scanned text.
#[derive(Clone, PartialEq, Debug)]
pub enum Piece {
    /// Unescaped.
    Text(String),
    Hole(Hole),
}

/// `{path | filter …}`. All its ranges count bytes of the scanned text.
#[derive(Clone, PartialEq, Debug)]
pub struct Hole {
    /// Includes the braces, but not the backslashes before them.
    pub range: Range<usize>,
    pub path: Path,
    pub filters: Vec<Filter>,
}

/// `root.name[0]`, as `Display` writes it.
#[derive(Clone, PartialEq, Debug)]
pub struct Path {
    pub root: Ident,
    pub segments: Vec<Segment>,
}

/// A name and its place in the text.
#[derive(Clone, PartialEq, Debug)]
pub struct Ident {
    pub text: String,
    pub range: Range<usize>,
}

/// A part of a path after the root: `.name` or `[0]`.
#[derive(Clone, PartialEq, Debug)]
pub struct Segment {
    pub kind: SegmentKind,
    /// The range of the name without its dot, or of the index with its brackets.
    pub range: Range<usize>,
}

/// A key of a record, or an index in a list, counted from 0.
#[derive(Clone, PartialEq, Debug)]
pub enum SegmentKind {
    Name(String),
    /// Never negative: the grammar has no minus sign here.
    Index(i64),
}

/// `| name(arguments)`.
#[derive(Clone, PartialEq, Debug)]
pub struct Filter {
    pub name: Ident,
    pub args: Vec<Literal>,
    /// From the name to the closing parenthesis.
    pub range: Range<usize>,
}

/// An argument of a filter.
#[derive(Clone, PartialEq, Debug)]
pub struct Literal {
    pub value: Value,
    /// Includes the quotes.
    pub range: Range<usize>,
}

/// A place that looks like a hole but is not one. All of them are text; the scope determines whether one gets a finding.
#[derive(Clone, PartialEq, Debug)]
pub struct Suspect {
    pub kind: SuspectKind,
    /// The root that the place seems to name. Empty if it names none (only `DollarBrace`).
    pub root: String,
    pub range: Range<usize>,
    /// What is wrong, for `Malformed`; otherwise empty.
    pub detail: String,
}

/// The kind of a suspect place.
#[derive(Clone, PartialEq, Debug)]
pub enum SuspectKind {
    /// `{` and a root, followed by something that is not a hole: `{env.X + 1}`. An error if the root is in scope. The
    /// range ends after the first character that does not fit.
    Malformed,
    /// `{{ env.X }}`, or `{env.X}` between double braces. Kept unchanged.
    DoubleBrace(Path),
    /// `${{ … }}`, as in GitHub Actions. Kept unchanged.
    DollarBrace,
    /// `${NAME}` belongs to the shell; `${env.X}` means nothing to either.
    ShellVariable(Path),
}

impl Scan {
    /// Returns the hole if the text is exactly one hole. Such a template keeps the type of its value.
    pub fn single_hole(&self) -> Option<&Hole> {
        match self.pieces.as_slice() {
            [Piece::Hole(hole)] => Some(hole),
            _ => None,
        }
    }

    /// Returns the holes, in order.
    pub fn holes(&self) -> impl Iterator<Item = &Hole> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Hole(hole) => Some(hole),
            Piece::Text(_) => None,
        })
    }
}

impl Hole {}

impl Path {
    /// Returns the range of the path, from its root to its last segment, in bytes of the scanned text.
    pub fn range(&self) -> Range<usize> {
        self.root.range.start..self.segments.last().map_or(self.root.range.end, |s| s.range.end)
    }
}

impl Filter {
    fn is_default(&self) -> bool {
        self.name.text == "default"
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.root.text)?;
        self.segments.iter().try_for_each(|segment| write!(f, "{segment}"))
    }
}

/// Includes the dot or the brackets.
impl fmt::Display for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            SegmentKind::Name(name) => write!(f, ".{name}"),
            SegmentKind::Index(index) => write!(f, "[{index}]"),
        }
    }
}
