//! Checks the contents of objects.

use kube::api::{ListParams, PostParams};
use serde_json::{Map, Value};

use super::{
    api::{Error, Result, Target, explain, failed},
    call::{Call, Done},
    chosen::value,
    object::documents,
    path::Path,
};
use crate::kubernetes::operation::{Count, FieldEquals, Matches};

/// Fields that the API server writes into every object.
const SERVERS_OWN: [&str; 6] = [
    ".metadata.uid",
    ".metadata.resourceVersion",
    ".metadata.generation",
    ".metadata.creationTimestamp",
    ".metadata.selfLink",
    ".status",
];

/// Annotations that kubectl and the deployment controller write.
const SERVERS_ANNOTATIONS: [&str; 2] = [
    r".metadata.annotations.kubectl\.kubernetes\.io/last-applied-configuration",
    r".metadata.annotations.deployment\.kubernetes\.io/revision",
];

/// Maximum number of differences shown.
const SHOWN: usize = 20;

/// `resource-matches`.
pub async fn matches(call: &Call, args: Matches) -> Result<Done> {
    let target = call.cluster.resource(&args.resource, &args.namespace).await?;
    let mut expected = match args.expected {
        Value::String(file) => {
            let path = call.folder.join(&file);
            let text = std::fs::read_to_string(&path).map_err(|e| Error::Broken(format!("{}: {e}", path.display())))?;
            let mut documents = documents(&text, &file)?;
            documents.retain(|document| !document.is_null());
            match documents.len() {
                1 => documents.remove(0),
                n => return Err(Error::Broken(format!("{file} holds {n} documents: one is compared"))),
            }
        }
        inline => inline,
    };
    if expected.as_object().is_none_or(Map::is_empty) {
        return Err(Error::Broken("`expected` holds nothing to compare".to_owned()));
    }
    let object = target.existing().await?;
    let mut actual = value(&object, &target.kind);
    let mut ignored = args.ignore_paths.clone();
    if args.exact {
        ignored.extend(SERVERS_OWN.map(str::to_owned));
        ignored.extend(SERVERS_ANNOTATIONS.map(str::to_owned));
    }
    for path in &ignored {
        let path = Path::parse(path).map_err(Error::Broken)?;
        path.remove(&mut expected);
        path.remove(&mut actual);
    }
    let defaults = if args.exact { defaulted(&target, &expected).await } else { Value::Null };
    let mut differences = Vec::new();
    let rules = Rules { exact: args.exact, any_order: args.ignore_order };
    rules.compare("", &expected, &actual, &defaults, &mut differences);
    if differences.is_empty() {
        return Ok(Done::said(format!("{} matches", target.label())).with("object", value(&object, &target.kind)));
    }
    let more = differences.len().saturating_sub(SHOWN);
    differences.truncate(SHOWN);
    if more > 0 {
        differences.push(format!("and {more} more"));
    }
    failed(format!("{} differs:\n{}", target.label(), differences.join("\n")))
}

/// The manifest as the API server would create it, with defaults for the fields that it omits. `Null` if the API server
/// would reject it.
async fn defaulted(target: &Target, expected: &Value) -> Value {
    let mut manifest = expected.clone();
    let Some(metadata) = manifest.get_mut("metadata").and_then(Value::as_object_mut) else { return Value::Null };
    // The name is already used, by the object to compare with.
    metadata.remove("name");
    metadata.insert("generateName".to_owned(), "gevals-".into());
    if let Some(namespace) = &target.namespace {
        metadata.insert("namespace".to_owned(), namespace.as_str().into());
    }
    let Ok(object) = serde_json::from_value(manifest) else { return Value::Null };
    let params = PostParams { dry_run: true, ..PostParams::default() };
    let made = target.api.create(&params, &object).await;
    made.map_or(Value::Null, |made| value(&made, &target.kind))
}

struct Rules {
    exact: bool,
    any_order: bool,
}

impl Rules {
    /// `defaults` is the expected manifest with the API server's defaults.
    fn compare(&self, at: &str, expected: &Value, actual: &Value, defaults: &Value, out: &mut Vec<String>) {
        match (expected, actual) {
            (Value::Object(wanted), Value::Object(found)) => {
                for (key, wanted) in wanted {
                    let at = member(at, key);
                    match found.get(key) {
                        Some(found) => self.compare(&at, wanted, found, &defaults[key], out),
                        None if wanted.is_null() => {}
                        None => out.push(format!("- {at}: {wanted}")),
                    }
                }
                if self.exact {
                    let is_empty = |value: &Value| value.as_object().is_some_and(Map::is_empty);
                    let more = found.iter().filter(|(key, value)| {
                        !wanted.contains_key(*key) && defaults.get(*key) != Some(value) && !is_empty(value)
                    });
                    out.extend(more.map(|(key, value)| format!("+ {}: {value}", member(at, key))));
                }
            }
            (Value::Array(wanted), Value::Array(found)) if self.any_order => {
                let mut left: Vec<&Value> = found.iter().collect();
                for (index, wanted) in wanted.iter().enumerate() {
                    match left.iter().position(|found| self.equal(wanted, found, &defaults[index])) {
                        Some(place) => drop(left.remove(place)),
                        None => out.push(format!("- {at}[{index}]: {wanted}")),
                    }
                }
                out.extend(left.iter().map(|found| format!("+ {at}[]: {found}")));
            }
            (Value::Array(wanted), Value::Array(found)) => {
                for (index, wanted) in wanted.iter().enumerate() {
                    let at = format!("{at}[{index}]");
                    match found.get(index) {
                        Some(found) => self.compare(&at, wanted, found, &defaults[index], out),
                        None => out.push(format!("- {at}: {wanted}")),
                    }
                }
                for (index, found) in found.iter().enumerate().skip(wanted.len()) {
                    out.push(format!("+ {at}[{index}]: {found}"));
                }
            }
            (wanted, found) if wanted == found => {}
            (wanted, found) => out.push(format!("- {at}: {wanted}\n+ {at}: {found}")),
        }
    }

    fn equal(&self, wanted: &Value, found: &Value, defaults: &Value) -> bool {
        let mut differences = Vec::new();
        self.compare("", wanted, found, defaults, &mut differences);
        differences.is_empty()
    }
}

fn member(at: &str, key: &str) -> String {
    let plain = key.chars().all(|c| c.is_alphanumeric() || c == '-' || c == '_');
    match (at, plain) {
        ("", true) => key.to_owned(),
        (at, true) => format!("{at}.{key}"),
        (at, false) => format!("{at}['{key}']"),
    }
}

/// `field-equals`.
pub async fn field_equals(call: &Call, args: FieldEquals) -> Result<Done> {
    let path = Path::parse(&args.jsonpath).map_err(Error::Broken)?;
    let target = call.cluster.resource(&args.resource, &args.namespace).await?;
    let object = value(&target.existing().await?, &target.kind);
    let Some(found) = path.select(&object) else {
        return failed(format!(
            "{}: nothing stands at `{}`, and {} is expected",
            target.label(),
            args.jsonpath,
            args.value
        ));
    };
    if found == args.value {
        return Ok(Done::said(format!("{}: `{}` is {found}", target.label(), args.jsonpath)).with("value", found));
    }
    let hint = match (&found, &args.value) {
        (Value::String(_), Value::String(_)) => "",
        (Value::String(text), value) | (value, Value::String(text))
            if serde_json::from_str(text).ok().as_ref() == Some(value) =>
        {
            "; one is a text, the other is not"
        }
        _ => "",
    };
    failed(format!("{}: `{}` is {found}, and {} is expected{hint}", target.label(), args.jsonpath, args.value))
}

/// `count`.
pub async fn count(call: &Call, args: Count) -> Result<Done> {
    let kind = call.cluster.named(&args.kind).await?;
    let namespace = (!args.all_namespaces).then_some(args.namespace.as_str());
    let api = call.cluster.api(&kind, namespace).await?;
    let params = ListParams {
        label_selector: args.selector.clone(),
        field_selector: args.fields.clone(),
        ..ListParams::default()
    };
    let list = api.list(&params).await.map_err(|e| explain(&e, &kind.resource.plural))?;
    let found = list.items.len() as u64;
    let filters: Vec<_> = [&args.selector, &args.fields].into_iter().flatten().map(|f| format!("`{f}`")).collect();
    let filters = if filters.is_empty() { String::new() } else { format!(" with {}", filters.join(" and ")) };
    let place = match namespace {
        Some(namespace) if kind.namespaced => format!(" in `{namespace}`"),
        _ => String::new(),
    };
    let what = format!("{found} {}{filters}{place}", kind.resource.plural);
    let wanted = [
        ("exactly", args.equals, u64::eq as fn(&u64, &u64) -> bool),
        ("at least", args.min, u64::ge),
        ("at most", args.max, u64::le),
    ];
    for (word, bound, holds) in wanted {
        if let Some(bound) = bound.filter(|bound| !holds(&found, bound)) {
            return failed(format!("{what}, and {word} {bound} are expected"));
        }
    }
    Ok(Done::said(what).with("count", found))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn differences(rules: &Rules, expected: &Value, actual: &Value) -> Vec<String> {
        let mut out = Vec::new();
        let defaults = json!({"spec": {"more": true, "rest": [{"a": 1}]}});
        rules.compare("", expected, actual, &defaults, &mut out);
        out
    }

    #[test]
    fn differences_are_reported_with_their_paths() {
        let subset = Rules { exact: false, any_order: false };
        let actual = json!({"spec": {"replicas": 2, "list": [1, 2], "more": true}, "kind": "X"});
        assert_eq!(differences(&subset, &json!({"spec": {"replicas": 2}}), &actual), [""; 0]);
        assert_eq!(
            differences(&subset, &json!({"spec": {"replicas": 3}}), &actual),
            ["- spec.replicas: 3\n+ spec.replicas: 2"]
        );
        assert_eq!(differences(&subset, &json!({"spec": {"list": [1]}}), &actual), ["+ spec.list[1]: 2"]);
        assert_eq!(differences(&subset, &json!({"spec": {"list": [2, 1]}}), &actual).len(), 2);
        assert_eq!(differences(&subset, &json!({"a.b": 1}), &actual), ["- ['a.b']: 1"]);
        let any_order = Rules { exact: false, any_order: true };
        assert_eq!(differences(&any_order, &json!({"spec": {"list": [2, 1]}}), &actual), [""; 0]);
        assert_eq!(
            differences(&any_order, &json!({"spec": {"list": [2, 2]}}), &actual),
            ["- spec.list[1]: 2", "+ spec.list[]: 1"]
        );
        let exact = Rules { exact: true, any_order: false };
        assert_eq!(
            differences(&exact, &json!({"spec": {"replicas": 2, "list": [1, 2]}}), &actual),
            ["+ kind: \"X\""],
            "what the server fills in is no difference"
        );
        let other = json!({"spec": {"replicas": 2, "more": false, "none": {}}});
        assert_eq!(differences(&exact, &json!({"spec": {"replicas": 2}}), &other), ["+ spec.more: false"]);
    }
}
