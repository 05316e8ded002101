//! Go's `text/template` as far as agent files use it: fields, comments and trim markers. No IO.

use std::ops::Range;

/// Why a template cannot be read, and where.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{message}")]
pub struct Fault {
    /// Bytes of the template.
    pub range: Range<usize>,
    pub message: String,
}

/// What a template is made of; texts that trim markers cut are shorter than what lies between the fields.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Piece<'t> {
    Text {
        text: &'t str,
        range: Range<usize>,
    },
    /// `{{ .Name }}`; the range has the braces in it.
    Field {
        name: &'t str,
        range: Range<usize>,
    },
}

/// Reads a template of which only `fields` are known.
///
/// # Errors
/// An unknown field, or an action that is not a field.
pub fn scan<'t>(template: &'t str, fields: &[&str]) -> Result<Vec<Piece<'t>>, Fault> {
    let mut faults = Vec::new();
    let pieces = read(template, fields, &mut faults);
    faults.into_iter().next().map_or(Ok(pieces), Err)
}

/// Everything that is wrong with a template.
pub fn faults(template: &str, fields: &[&str]) -> Vec<Fault> {
    let mut faults = Vec::new();
    read(template, fields, &mut faults);
    faults
}

fn read<'t>(template: &'t str, fields: &[&str], faults: &mut Vec<Fault>) -> Vec<Piece<'t>> {
    let mut pieces = Vec::new();
    let mut at = 0;
    let mut trim_next = false;
    loop {
        let open = template[at..].find("{{").map(|i| at + i);
        let mut text = at..open.unwrap_or(template.len());
        if trim_next {
            text.start = text.end - template[text.clone()].trim_start().len();
        }
        let Some(open) = open else {
            push_text(&mut pieces, template, text);
            return pieces;
        };
        let inside = open + 2;
        let Some(close) = template[inside..].find("}}").map(|i| inside + i) else {
            faults.push(Fault { range: open..template.len(), message: "`{{` is never closed".to_owned() });
            return pieces;
        };
        let range = open..close + 2;
        let mut action = &template[inside..close];
        if action.strip_prefix('-').is_some_and(|rest| rest.starts_with(char::is_whitespace)) {
            action = &action[1..];
            text.end = text.start + template[text.clone()].trim_end().len();
        }
        trim_next = action.strip_suffix('-').is_some_and(|rest| rest.ends_with(char::is_whitespace));
        if trim_next {
            action = &action[..action.len() - 1];
        }
        push_text(&mut pieces, template, text);
        at = range.end;
        let action = action.trim();
        if action.starts_with("/*") && action.ends_with("*/") {
            continue;
        }
        let name = action.strip_prefix('.').filter(|n| n.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'));
        let known = fields.iter().map(|f| format!("`{{{{ .{f} }}}}`")).collect::<Vec<_>>().join(", ");
        match name {
            Some(name) if fields.contains(&name) => pieces.push(Piece::Field { name, range }),
            Some(name) => {
                faults.push(Fault { range, message: format!("there is no field `{name}` here, only {known}") });
            }
            None => {
                let message = format!("`{{{{ {action} }}}}` is not a field; what can be filled is {known}");
                faults.push(Fault { range, message });
            }
        }
    }
}

fn push_text<'t>(pieces: &mut Vec<Piece<'t>>, template: &'t str, range: Range<usize>) {
    if !range.is_empty() {
        pieces.push(Piece::Text { text: &template[range.clone()], range });
    }
}

/// Fills a template.
///
/// # Errors
/// As [`scan`].
pub fn render(template: &str, values: &[(&str, &str)]) -> Result<String, Fault> {
    let fields: Vec<&str> = values.iter().map(|(name, _)| *name).collect();
    let value = |field| values.iter().find(|(name, _)| *name == field).map_or("", |(_, value)| value);
    let pieces = scan(template, &fields)?;
    let texts = pieces.iter().map(|piece| match piece {
        Piece::Text { text, .. } => text,
        Piece::Field { name, .. } => value(*name),
    });
    Ok(texts.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_and_trim_markers() {
        let values = [("A", "1"), ("B", "{{ .A }}")];
        assert_eq!(render("x {{ .A }}{{.B}} y", &values).as_deref(), Ok("x 1{{ .A }} y"));
        assert_eq!(render("x {{- .A -}} \n y{{/* no */}}", &values).as_deref(), Ok("x1y"));
        assert_eq!(scan("{{ .C }}", &["A"]).map_err(|f| f.range), Err(0..8));
        assert_eq!(scan("a {{ if .A }}", &["A"]).map_err(|f| f.range), Err(2..13));
        assert!(scan("{{ .A", &["A"]).is_err() && scan("{{-}}", &["A"]).is_err() && scan("{{}}", &["A"]).is_err());
    }
}
