//! Comparisons in filters of jq whose sides are never of the same type.

use super::{TaskView, script::Content};
use crate::{
    bash::{fields, tools},
    hir::PhaseKind,
    source::Span,
};

/// Location, message, and help.
type Fault = (Span, String, &'static str);

/// Reports `[.items[] | .port] == 80`: a list that is compared with a number, a string, a boolean or null.
pub(super) fn lists(content: &Content, found: &mut Vec<Fault>) {
    if !content.text.contains("jq") {
        return;
    }
    content.program.walk(&mut |s| {
        // A filter may also be passed to a function that runs jq.
        for word in
            s.words().iter().skip(1).filter(|word| word.text.contains(['=', '<', '>']) && word.text.contains(']'))
        {
            let is_filter = s.name() == "jq" && tools::operands("jq", &s.words()[1..]).next() == Some(word);
            let is_passed = || is_function(content, s.name()) && word.text.starts_with(['.', '[']);
            if !(is_filter || is_passed()) {
                continue;
            }
            if let Some((list, operator, constant)) = list_with_constant(&word.text) {
                let truth = match operator {
                    "==" => "never",
                    "!=" => "always",
                    _ => continue,
                };
                let differs = if operator == "==" { "equal to" } else { "different from" };
                found.push((
                    content.span(word.range.clone()),
                    format!("`{}` is an array, which is {truth} {differs} `{constant}`", shortened(list)),
                    "compare with an array, `== [70]`, or take an item or the length of the array",
                ));
            }
        }
    });
}

/// Whether the script defines a function of this name that runs jq.
fn is_function(content: &Content, name: &str) -> bool {
    let mut found = false;
    content.program.walk(&mut |s| {
        if let crate::bash::program::Kind::Function { name: known, body } = &s.kind
            && known == name
        {
            body.iter().for_each(|s| s.walk(&mut |s| found |= s.name() == "jq"));
        }
    });
    found
}

/// At most the beginning of a long text.
fn shortened(text: &str) -> String {
    match text.char_indices().nth(40) {
        Some((end, _)) => format!("{}…", text[..end].trim_end()),
        None => text.to_owned(),
    }
}

/// Returns the first array constructor that is compared with a constant, the operator and the constant.
fn list_with_constant(filter: &str) -> Option<(&str, &str, &str)> {
    let bytes = filter.as_bytes();
    let (mut at, mut open) = (0, Vec::new());
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'"' => at = end_of_string(bytes, at)?,
            b'#' => return None,
            b'[' => open.push(at),
            b']' => {
                let start = open.pop()?;
                if is_constructor(&filter[..start])
                    && let Some((operator, constant)) = compared(&filter[at + 1..])
                {
                    return Some((&filter[start..=at], operator, constant));
                }
            }
            _ => {}
        }
        at += 1;
    }
    None
}

/// The position of the quote that ends a string. Returns `None` for a string with an interpolation.
fn end_of_string(bytes: &[u8], start: usize) -> Option<usize> {
    let mut at = start + 1;
    loop {
        match bytes.get(at)? {
            b'"' => return Some(at),
            b'\\' if bytes.get(at + 1) == Some(&b'(') => return None,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// Whether `[` after this text begins an array and not an index, and no operator combines the array with another value.
fn is_constructor(before: &str) -> bool {
    let before = before.trim_end();
    before.is_empty()
        || before.ends_with(['|', '(', ';', '{', ':'])
        || before == "if"
        || [" and", " or", " then", " else", " if", "(if", "|if"].iter().any(|word| before.ends_with(word))
}

/// The operator and the constant directly after an array: `== 70`.
fn compared(behind: &str) -> Option<(&str, &str)> {
    let behind = behind.trim_start();
    let operator = behind.get(..2).filter(|operator| matches!(*operator, "==" | "!="))?;
    let rest = behind.get(2..)?.trim_start();
    let end = match rest.as_bytes().first()? {
        b'"' => end_of_string(rest.as_bytes(), 0)? + 1,
        _ => rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '.' || c == '-')).unwrap_or(rest.len()),
    };
    let constant = rest.get(..end)?;
    let is_constant = constant.starts_with('"')
        || matches!(constant, "true" | "false" | "null")
        || constant.parse::<f64>().is_ok() && constant.starts_with(|c: char| c.is_ascii_digit() || c == '-');
    // In `== 3 + .a`, the constant is only a part.
    let ends = rest[end..].trim_start();
    let whole = ends.is_empty()
        || ends.starts_with(['|', ')', ']', '}', ',', ';'])
        || ["and ", "or ", "then", "else", "end"].iter().any(|word| ends.starts_with(word));
    (is_constant && whole).then_some((operator, constant))
}

/// Reports `.spec.selector.matchLabels == "app=db"`: an object that is compared with a text or a number.
pub(super) fn objects(view: &TaskView<'_>, found: &mut Vec<Fault>) {
    let mut scripts = view.scripts.iter().filter(|script| script.phase == PhaseKind::Verify);
    if !scripts.any(|script| script.content.text.contains("jq")) {
        return;
    }
    for fact in super::facts::asked(view) {
        let is_map = matches!(fact.key.as_str(), "matchLabels" | "nodeSelector" | "stringData" | "annotations");
        let is_scalar = fact.value.is_string() || fact.value.is_number() || fact.value.is_boolean();
        // `{` begins an object.
        let is_text = fact.text().starts_with(|c: char| c.is_ascii_alphanumeric());
        if fact.typed && is_text && is_scalar && is_map && fields::has_texts("kubectl", &fact.key) {
            found.push((
                fact.span,
                format!("`{}` is an object, so it never equals `{}`", fact.key, fact.text()),
                "compare with an object, `== {\"app\": \"web\"}`, or compare one of its fields",
            ));
        }
    }
}

/// Returns the text that jq prints over several lines instead of on one: `[1,3,5]` without `-c`.
pub(super) fn is_spread(words: &[crate::bash::Word], expected: &str) -> bool {
    let is_filled = match serde_json::from_str::<serde_json::Value>(expected) {
        Ok(serde_json::Value::Array(items)) => !items.is_empty(),
        Ok(serde_json::Value::Object(fields)) => !fields.is_empty(),
        _ => false,
    };
    if !is_filled || expected.contains('\n') {
        return false;
    }
    let options: Vec<&str> =
        words.iter().skip(1).map(|word| word.text.as_str()).filter(|word| word.starts_with('-')).collect();
    let compact = options.iter().any(|word| {
        matches!(*word, "--compact-output" | "--indent" | "--tab" | "--seq" | "--stream")
            || word.starts_with("--indent")
            || !word.starts_with("--") && word.contains('c')
    });
    let raw = options.iter().any(|word| {
        word.starts_with("--raw") || word.starts_with("--join") || !word.starts_with("--") && word.contains(['r', 'j'])
    });
    let Some(filter) = tools::operands("jq", words.get(1..).unwrap_or_default()).next() else { return false };
    let text = filter.text.trim();
    let texts = ["tojson", "tostring", "@json", "@text", "join", "\\(", "input", "$", "debug"]
        .iter()
        .any(|word| text.contains(word));
    // With `-r`, a text that looks like JSON is printed as it is.
    let builds = text.starts_with('[') && (text.ends_with(']') || text.ends_with("sort") || text.ends_with("unique"));
    !compact && !texts && (!raw || builds)
}
