//! The hole language of the portable dialect: `{root.path | filter}` in text. `grammar/README.md` is its page,
//! `grammar/template.pest` its executable grammar, `grammar/vectors/` its test vectors.
//!
//! This module knows the language and nothing of scopes: [`scan`] says what stands in a text, the checker what it means.

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

/// What stands in a text. The pieces are in order, no two texts are neighbours and none is empty; what lies between the
/// ranges of two holes is the text between them, as written.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Scan {
    pub pieces: Vec<Piece>,
    /// In the order of their starts.
    pub suspects: Vec<Suspect>,
}

/// A part of a scanned text.
#[derive(Clone, PartialEq, Debug)]
pub enum Piece {
    /// Unescaped.
    Text(String),
    Hole(Hole),
}

/// `{path | filter …}`. Every range in it counts bytes of the scanned text.
#[derive(Clone, PartialEq, Debug)]
pub struct Hole {
    /// Braces inclusive, the backslashes before them not.
    pub range: Range<usize>,
    pub path: Path,
    pub filters: Vec<Filter>,
}

/// `root.name[0]`; written so by `Display`.
#[derive(Clone, PartialEq, Debug)]
pub struct Path {
    pub root: Ident,
    pub segments: Vec<Segment>,
}

/// A name, and where it stands in the text.
#[derive(Clone, PartialEq, Debug)]
pub struct Ident {
    pub text: String,
    pub range: Range<usize>,
}

/// What follows the root of a path: `.name` or `[0]`.
#[derive(Clone, PartialEq, Debug)]
pub struct Segment {
    pub kind: SegmentKind,
    /// Of the name without its dot, or of the index with its brackets.
    pub range: Range<usize>,
}

/// A key of a record, or a place in a list, counted from 0.
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
    /// Quotes inclusive.
    pub range: Range<usize>,
}

/// A place that looks like a hole and is none. All are text; whether one deserves a finding depends on the scope.
#[derive(Clone, PartialEq, Debug)]
pub struct Suspect {
    pub kind: SuspectKind,
    /// The root that the place seems to name; empty where it names none (only `DollarBrace`).
    pub root: String,
    pub range: Range<usize>,
    /// What is wrong, for `Malformed`; else empty.
    pub detail: String,
}

/// What a suspect place looks like.
#[derive(Clone, PartialEq, Debug)]
pub enum SuspectKind {
    /// `{` and a root, then something that is no hole: `{env.X + 1}`. An error where the root is in scope. The range ends
    /// behind the first character that does not fit.
    Malformed,
    /// `{{ env.X }}`, or `{env.X}` between double braces: passes through untouched.
    DoubleBrace(Path),
    /// `${{ … }}`, as in GitHub Actions: passes through untouched.
    DollarBrace,
    /// `${NAME}`: the shell's, not ours. `${env.X}`: nobody's.
    ShellVariable(Path),
}

impl Scan {
    /// The hole, where the text is exactly one: such a template keeps its value's type.
    pub fn single_hole(&self) -> Option<&Hole> {
        match self.pieces.as_slice() {
            [Piece::Hole(hole)] => Some(hole),
            _ => None,
        }
    }

    /// The holes, in order.
    pub fn holes(&self) -> impl Iterator<Item = &Hole> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Hole(hole) => Some(hole),
            Piece::Text(_) => None,
        })
    }
}

impl Hole {}

impl Path {
    /// Where the path is written, from its root to its last segment, in bytes of the scanned text.
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

/// With its dot or brackets.
impl fmt::Display for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            SegmentKind::Name(name) => write!(f, ".{name}"),
            SegmentKind::Index(index) => write!(f, "[{index}]"),
        }
    }
}
