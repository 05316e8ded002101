//! Plans as JSON, in the wire format. Always one document, with one line for every action and every
//! edge.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};

use super::{PlanFormat, View};
use crate::plan::wire;

pub const FORMAT: PlanFormat = PlanFormat { name: "json", summary: "the versioned form, schemas/plan.json", render };

/// The depth of the actions of a task without an eval, and of a task in an eval.
const ALONE: usize = 5;
const INSIDE: usize = 7;

fn render(views: &[View<'_>]) -> String {
    let document = wire::document(views.iter().map(|view| (view.eval, view.plans)));
    let deepest = if document.evals.is_empty() { ALONE } else { INSIDE };
    let mut text = Vec::with_capacity(4096);
    let mut to = Serializer::with_formatter(&mut text, Lines { depth: 0, deepest, filled: false });
    // Neither writing into memory nor serializing string keys can fail.
    let _ = document.serialize(&mut to);
    text.push(b'\n');
    String::from_utf8(text).unwrap_or_default()
}

/// Indents down to a certain depth, and writes one line below it.
struct Lines {
    depth: usize,
    deepest: usize,
    /// Whether the open collection contains something.
    filled: bool,
}

impl Lines {
    fn open<W: ?Sized + Write>(&mut self, to: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.depth += 1;
        self.filled = false;
        to.write_all(bracket)
    }

    fn close<W: ?Sized + Write>(&mut self, to: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.depth -= 1;
        if self.filled && self.depth < self.deepest {
            self.line(to)?;
        }
        self.filled = true;
        to.write_all(bracket)
    }

    fn next<W: ?Sized + Write>(&mut self, to: &mut W, first: bool) -> io::Result<()> {
        match (first, self.depth <= self.deepest) {
            (true, true) => self.line(to),
            (true, false) => Ok(()),
            (false, true) => to.write_all(b",").and_then(|()| self.line(to)),
            (false, false) => to.write_all(b", "),
        }
    }

    fn line<W: ?Sized + Write>(&self, to: &mut W) -> io::Result<()> {
        to.write_all(b"\n")?;
        (0..self.depth).try_for_each(|_| to.write_all(b"  "))
    }
}

impl Formatter for Lines {
    fn begin_array<W: ?Sized + Write>(&mut self, to: &mut W) -> io::Result<()> {
        self.open(to, b"[")
    }

    fn end_array<W: ?Sized + Write>(&mut self, to: &mut W) -> io::Result<()> {
        self.close(to, b"]")
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, to: &mut W, first: bool) -> io::Result<()> {
        self.next(to, first)
    }

    fn end_array_value<W: ?Sized + Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.filled = true;
        Ok(())
    }

    fn begin_object<W: ?Sized + Write>(&mut self, to: &mut W) -> io::Result<()> {
        self.open(to, b"{")
    }

    fn end_object<W: ?Sized + Write>(&mut self, to: &mut W) -> io::Result<()> {
        self.close(to, b"}")
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, to: &mut W, first: bool) -> io::Result<()> {
        self.next(to, first)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, to: &mut W) -> io::Result<()> {
        to.write_all(b": ")
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.filled = true;
        Ok(())
    }
}
