//! The objects that a Kubernetes manifest describes, as far as they can be identified. Only the identifying fields are read: kind,
//! name and namespace of each document, also in a `List`.

use super::value::{Piece, Value};

/// An object of a manifest.
#[derive(Clone, PartialEq, Debug)]
pub struct Object {
    pub kind: String,
    pub name: Value,
    pub namespace: Option<Value>,
}

/// All objects in a text. Returns `None` if the text may contain others that cannot be read here.
pub fn objects(text: &Value) -> Option<Vec<Object>> {
    let lines = text.split('\n');
    let mut found = Vec::new();
    let mut document: Vec<&Value> = Vec::new();
    for line in &lines {
        if line.literal().is_some_and(|line| line.trim_end() == "---") {
            found.extend(object(&document)?);
            document.clear();
        } else {
            document.push(line);
        }
    }
    found.extend(object(&document)?);
    Some(found)
}

/// The object in one document; `Some(None)` if the document is empty.
fn object(lines: &[&Value]) -> Option<Option<Object>> {
    let (mut kind, mut name, mut namespace) = (None, None, None);
    let mut inside = false;
    let mut inner = None;
    let mut is_empty = true;
    for line in lines {
        let Some(Piece::Text(begin)) = line.pieces().first() else {
            // A line that starts with a hole may be anything.
            if line.pieces().is_empty() {
                continue;
            }
            return None;
        };
        let content = begin.trim_start();
        if content.is_empty() && line.pieces().len() == 1 || content.starts_with('#') {
            continue;
        }
        is_empty = false;
        let indent = begin.len() - content.len();
        if indent == 0 {
            // JSON on several lines is not read.
            if content.starts_with(['{', '[']) {
                let others = lines.iter().filter(|line| !line.shown().trim().is_empty()).count();
                return if others == 1 { Some(Some(on_one_line(line)?)) } else { None };
            }
            inside = content.starts_with("metadata:");
            inner = None;
            if content.starts_with("items:") {
                return None;
            }
            if let Some(fields) = content.starts_with("metadata: {").then(|| value(line, "metadata:")).flatten() {
                (name, namespace) = identity(&fields)?;
                inside = false;
            }
            if let Some(value) = value(line, "kind:") {
                kind = Some(value);
            }
        } else if inside {
            let depth = *inner.get_or_insert(indent);
            if indent == depth {
                name = value(line, "name:").or(name);
                namespace = value(line, "namespace:").or(namespace);
                if content.starts_with("generateName:") {
                    name = Some(Value::unknown());
                }
            }
        }
    }
    if is_empty {
        return Some(None);
    }
    let kind = kind?.literal()?.to_lowercase();
    Some(Some(Object { kind, name: name?, namespace }))
}

/// The object of a document in one line: `{apiVersion: v1, kind: ConfigMap, metadata: {name: web}}`.
fn on_one_line(line: &Value) -> Option<Object> {
    let fields = entries(line)?;
    let (name, namespace) = identity(&field(&fields, "metadata")?)?;
    Some(Object { kind: field(&fields, "kind")?.literal()?.to_lowercase(), name: name?, namespace })
}

/// Name and namespace in `{name: web, namespace: shop}`.
fn identity(metadata: &Value) -> Option<(Option<Value>, Option<Value>)> {
    let fields = entries(metadata)?;
    let generated = field(&fields, "generateName").map(|_| Value::unknown());
    Some((field(&fields, "name").or(generated), field(&fields, "namespace")))
}

/// The value of a key, with or without quotes, among the entries of a mapping.
fn field(entries: &[Value], name: &str) -> Option<Value> {
    let keys = [format!("{name}:"), format!("\"{name}\":")];
    entries.iter().find_map(|entry| keys.iter().find_map(|key| value(entry, key)))
}

/// The entries of a mapping in braces, on one line.
fn entries(mapping: &Value) -> Option<Vec<Value>> {
    let (mut found, mut entry) = (Vec::new(), Value::default());
    let (mut depth, mut quote, mut ended) = (0_usize, None, false);
    for piece in mapping.pieces() {
        let Piece::Text(text) = piece else {
            entry.push(piece.clone());
            continue;
        };
        let mut part = String::new();
        for c in text.chars() {
            match c {
                _ if quote == Some(c) => quote = None,
                _ if quote.is_some() => {}
                '"' | '\'' => quote = Some(c),
                '{' | '[' => {
                    depth += 1;
                    if depth == 1 {
                        continue;
                    }
                }
                '}' | ']' => {
                    depth = depth.checked_sub(1)?;
                    if depth == 0 {
                        ended = true;
                        continue;
                    }
                }
                ',' if depth == 1 => {
                    entry.push(Piece::Text(std::mem::take(&mut part).trim_end().to_owned()));
                    found.push(std::mem::take(&mut entry));
                    continue;
                }
                _ => {}
            }
            part.push(c);
        }
        entry.push(Piece::Text(part));
    }
    found.push(entry);
    (ended && depth == 0 && quote.is_none()).then_some(found)
}

/// The value of a key on its line, without quotes.
fn value(line: &Value, key: &str) -> Option<Value> {
    let mut pieces = line.pieces().iter();
    let Some(Piece::Text(first)) = pieces.next() else { return None };
    let rest = first.trim_start().strip_prefix(key)?;
    let mut value = Value::text(rest.trim_start());
    pieces.for_each(|piece| value.push(piece.clone()));
    let mut all: Vec<Piece> = value.pieces().to_vec();
    if let Some(Piece::Text(last)) = all.last_mut() {
        let end = last.find(" #").unwrap_or(last.len());
        *last = last[..end].trim_end().to_owned();
    }
    let quote = match all.first() {
        Some(Piece::Text(text)) => text.chars().next().filter(|c| matches!(c, '"' | '\'')),
        _ => None,
    };
    if let Some(quote) = quote {
        if let Some(Piece::Text(text)) = all.first_mut() {
            text.remove(0);
        }
        if let Some(Piece::Text(text)) = all.last_mut() {
            *text = text.strip_suffix(quote)?.to_owned();
        }
    }
    let mut value = Value::default();
    all.into_iter().for_each(|piece| value.push(piece));
    (!value.pieces().is_empty()).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Option<Vec<(String, String)>> {
        Some(objects(&Value::text(text))?.into_iter().map(|o| (o.kind, o.name.shown())).collect())
    }

    #[test]
    fn the_kind_and_name_of_each_document_are_found() {
        let text = "apiVersion: v1\nkind: Pod\nmetadata:\n  labels:\n    name: no\n  name: \"web\" # it\nspec:\n  name: no\n---\n\n---\nkind: Service\nmetadata:\n    name: shop\n    namespace: a\n";
        let pairs = |all: &[(&str, &str)]| Some(all.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect());
        assert_eq!(names(text), pairs(&[("pod", "web"), ("service", "shop")]));
        assert_eq!(names("\n# nothing\n"), pairs(&[]));
        let line = "{\"apiVersion\": \"v1\", \"kind\": \"Pod\", \"metadata\": {\"name\": \"a\", \"labels\": {\"name\": \"no\"}}}";
        assert_eq!(names(line), pairs(&[("pod", "a")]));
        assert_eq!(
            names("kind: Pod\nmetadata: {labels: {name: no}, name: b, namespace: 'c'} # it\n"),
            pairs(&[("pod", "b")])
        );
        for unread in [
            "{\"kind\": \"Pod\"}",
            "{\n  \"kind\": \"Pod\"}",
            "kind: Pod\nmetadata: {\n  name: a}",
            "kind: Pod\n",
            "kind: List\nitems:\n- kind: Pod\n",
            "a: b",
        ] {
            assert_eq!(names(unread), None, "{unread}");
        }
    }
}
