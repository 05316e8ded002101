//! How jq prints arrays and objects.

use crate::bash::tools;

/// Returns the text that jq prints over several lines instead of on one: `[1,3,5]` without `-c`.
pub fn is_spread(words: &[crate::bash::Word], expected: &str) -> bool {
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
