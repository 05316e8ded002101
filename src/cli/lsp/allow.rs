//! The comment that allows a finding at its location.

use std::ops::Range;

use super::place;
use crate::policy::block_openers;

/// The start of a comment that allows rules.
const BEGIN: &str = "# gevals: allow(";

/// The edit that allows a finding of a rule at a byte: the range and its new text. `None` if a comment there would be
/// text.
pub fn edit(text: &str, at: usize, rule: &str) -> Option<(Range<usize>, String)> {
    let line = text.get(..at)?.matches('\n').count();
    let line = block_openers(text).get(line).map_or(line, |opener| opener - 1);
    let start: usize = text.split_inclusive('\n').take(line).map(str::len).sum();
    // An existing comment there applies only to the next line, so it can be extended.
    let above = text[..start].trim_end().rfind('\n').map_or(0, |end| end + 1);
    if text[above..start].trim_start().starts_with(BEGIN)
        && let Some(end) = text[above..start].find(')')
    {
        return Some((above + end..above + end, format!(", {rule}")));
    }
    let rest = text[start..].lines().next().unwrap_or_default();
    let indent = &rest[..rest.len() - rest.trim_start().len()];
    let end =
        if rest.len() < text[start..].len() && text[start + rest.len()..].starts_with("\r\n") { "\r\n" } else { "\n" };
    let new = format!("{indent}{BEGIN}{rule}){end}");
    let tree = place::tree(&format!("{}{new}{}", &text[..start], &text[start..]))?;
    let is_comment = tree.comments().iter().any(|comment| comment.span.range().start == start + indent.len());
    is_comment.then_some((start..start, new))
}
