//! Paths outside the project: a path that leaves its root is refused, and nothing outside is quoted.

use crate::{
    diagnostic::Diagnostic,
    rule,
    source::{ReadError, Span},
};

rule! {
    pub static OUTSIDE_PROJECT = "outside-project", Hard;
}

/// Returns the finding for a file or directory that is not read because of its location; `what` is the expected kind of
/// file, `written` the path as written.
pub fn diagnostic(span: Span, what: &str, written: &str, why: &ReadError) -> Diagnostic {
    let (how, root) = match why {
        ReadError::LeadsOut(root) => ("is a link to a path outside the project", root.as_str()),
        ReadError::Outside(root) => ("is outside the project", root.as_str()),
        _ => ("cannot be read", ""),
    };
    Diagnostic::new(&OUTSIDE_PROJECT, span, format!("the {what} `{written}` {how}")).help(format!(
        "the project root is `{root}`: move the file there, or specify a common parent directory with `--root DIR`"
    ))
}
