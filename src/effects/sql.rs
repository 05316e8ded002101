//! What SQL statements create, drop and read, according to their first words.

use super::{Verb, value::Value};
use crate::ascii::{Ascii, ascii};

/// The effects of the statements: the verb, the kind of resource, its name, and whether the statement succeeds if there is
/// nothing to do.
pub(super) fn statements(text: &Value) -> Vec<(Verb, String, Value, bool)> {
    let text = text.shown();
    let mut found = Vec::new();
    for statement in MAKES.captures_iter(&text) {
        let word = |group: usize| statement.get(group).map_or("", |m| m.as_str());
        let verb = if word(1).eq_ignore_ascii_case("create") { Verb::Creates } else { Verb::Deletes };
        let kind = word(2).to_lowercase();
        for name in word(4).split(',').map(|name| name.trim().trim_matches('"')).filter(|name| !name.is_empty()) {
            // A variable of psql: `:"schema"`.
            let name = if name.starts_with(':') { Value::unknown() } else { Value::text(name) };
            found.push((verb, kind.clone(), name, !word(3).is_empty()));
        }
    }
    for constraint in CONSTRAINT.captures_iter(&text).filter_map(|found| found.get(1)) {
        found.push((Verb::Creates, "constraint".to_owned(), Value::text(constraint.as_str().trim_matches('"')), false));
    }
    for statement in READS.captures_iter(&text) {
        let word = |group: usize| statement.get(group).map_or("", |m| m.as_str());
        let verb = if word(1).eq_ignore_ascii_case("from") { Verb::Reads } else { Verb::Changes };
        let name = word(2).trim_matches('"');
        // Tables of the database system itself.
        if !["pg_", "information_schema", "sqlite_", "pragma_"].iter().any(|own| name.starts_with(own)) {
            found.push((verb, "table".to_owned(), Value::text(name), false));
        }
    }
    found
}

static MAKES: Ascii = ascii(
    r#"(?i)\b(create|drop)\s+(?:or\s+replace\s+|unique\s+|materialized\s+)*(table|database|schema|role|user|index|view)\s+(?:concurrently\s+)?(if\s+(?:not\s+)?exists\s+)?([:\w."'${}-]+(?:\s*,\s*[:\w."'${}-]+)*)"#,
);

static CONSTRAINT: Ascii =
    ascii(r#"(?i)[,(\s](?:add\s+)?constraint\s+([a-z_"][\w"]*)\s+(?:unique|check|primary|foreign|not|references)\b"#);

static READS: Ascii =
    ascii(r#"(?i)\b(from|insert\s+into|update|alter\s+table)\s+(?:if\s+exists\s+|only\s+)?([a-z_"][\w."]*)"#);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn created_dropped_and_read_tables_are_found() {
        let told = |text: &str| -> Vec<String> {
            let found = statements(&Value::text(text));
            found.into_iter().map(|(verb, kind, name, _)| format!("{} {kind} {}", verb.name(), name.shown())).collect()
        };
        assert_eq!(told("DROP TABLE IF EXISTS a, b CASCADE;"), ["deletes table a", "deletes table b"]);
        assert_eq!(told("create unique index a_i on a (x)"), ["creates index a_i"]);
        assert_eq!(told("CREATE TABLE IF NOT EXISTS \"a\" (id int)"), ["creates table a"]);
        assert_eq!(told("INSERT INTO a SELECT * FROM b"), ["changes table a", "reads table b"]);
        assert_eq!(told("SELECT 1 FROM pg_indexes"), Vec::<String>::new());
    }
}
