//! Writes values as YAML text.

use serde::Serialize;
use serde_json::Value;

/// Serializes a value as block YAML. Numbers keep their digits if a YAML reader would preserve them; others
/// become text.
///
/// # Errors
/// The value cannot be serialized.
pub fn write(value: &impl Serialize) -> Result<String, String> {
    let value = serde_json::to_value(value).map_err(|e| e.to_string())?;
    serde_yaml::to_string(&plain(value)).map_err(|e| e.to_string())
}

/// Converts to the writer's own value, because it does not know `serde_json::Number`.
fn plain(value: Value) -> serde_yaml::Value {
    match value {
        Value::Null => serde_yaml::Value::Null,
        Value::Bool(b) => b.into(),
        Value::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64().filter(|x| x.is_finite())) {
            (Some(n), ..) => n.into(),
            (_, Some(n), _) => n.into(),
            (.., Some(x)) if number.to_string().contains(['.', 'e', 'E']) => x.into(),
            _ => number.to_string().into(),
        },
        Value::String(text) => text.into(),
        Value::Array(items) => items.into_iter().map(plain).collect(),
        Value::Object(fields) => {
            serde_yaml::Value::Mapping(fields.into_iter().map(|(key, value)| (key.into(), plain(value))).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::write;

    #[test]
    fn numbers_are_written_as_numbers() {
        let value: serde_json::Value = serde_json::from_str(
            r#"{"a": [1, -2, 1.5, 18446744073709551615], "b": 18446744073709551616, "c": {"d": "1"}}"#,
        )
        .unwrap();
        let text = write(&value).unwrap();
        assert_eq!(text, "a:\n- 1\n- -2\n- 1.5\n- 18446744073709551615\nb: '18446744073709551616'\nc:\n  d: '1'\n");
        assert_eq!(write(&json!({})).unwrap(), "{}\n");
    }
}
