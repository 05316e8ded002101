//! Types of JSON fields by name: a table, like those of [`super::tools`].

use std::{collections::BTreeMap, sync::LazyLock};

use rustc_hash::FxHashSet;
use serde::Deserialize;

/// Field names, grouped by the program that prints them.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Fields {
    verbs: BTreeMap<String, BTreeMap<String, Vec<String>>>,
    numbers: BTreeMap<String, FxHashSet<String>>,
    booleans: BTreeMap<String, FxHashSet<String>>,
    texts: BTreeMap<String, FxHashSet<String>>,
    options: BTreeMap<String, BTreeMap<String, String>>,
    objects: BTreeMap<String, FxHashSet<String>>,
    shapes: BTreeMap<String, BTreeMap<String, (String, String)>>,
    groups: BTreeMap<String, String>,
    omitted: BTreeMap<String, Vec<String>>,
}

static FIELDS: LazyLock<Fields> =
    LazyLock::new(|| serde_json::from_str(include_str!(concat!(env!("OUT_DIR"), "/fields.json"))).unwrap_or_default());

/// The name of the table that a program uses.
fn system(program: &str) -> &str {
    if matches!(program, "kubectl" | "helm") { "kubernetes" } else { program }
}

/// Whether a field printed by a program is a number.
pub fn is_number(program: &str, field: &str) -> bool {
    FIELDS.numbers.get(system(program)).is_some_and(|known| known.contains(field))
}

/// Whether a field printed by a program is a boolean.
pub fn is_boolean(program: &str, field: &str) -> bool {
    FIELDS.booleans.get(system(program)).is_some_and(|known| known.contains(field))
}

/// The verbs that ask for a value, `true` or `false`, of a Boolean field.
pub fn verbs(value: &str, field: &str) -> &'static [String] {
    FIELDS.verbs.get(value).and_then(|fields| fields.get(field)).map_or(&[], Vec::as_slice)
}

/// Whether all fields of the field `parent` are strings.
pub fn has_texts(program: &str, parent: &str) -> bool {
    FIELDS.texts.get(system(program)).is_some_and(|known| known.contains(parent))
}

/// Whether a kind of Kubernetes belongs to this API group, which may have a version before it: `apps`, `v1.apps`.
pub fn is_in_group(kind: &str, group: &str) -> bool {
    FIELDS.groups.get(kind).is_some_and(|known| {
        let version = group.strip_suffix(known.as_str()).and_then(|version| version.strip_suffix('.'));
        group == known || version.is_some_and(|version| version.starts_with('v') && !version.contains('.'))
    })
}

/// The field that an option sets, if its name differs from the option's.
pub fn of_option(program: &str, option: &str) -> Option<&'static str> {
    FIELDS.options.get(system(program))?.get(option).map(String::as_str)
}

/// Whether a field printed by a program is a list of objects.
pub fn has_objects(program: &str, field: &str) -> bool {
    FIELDS.objects.get(system(program)).is_some_and(|known| known.contains(field))
}

/// Whether a field of this kind of Kubernetes is omitted if it is 0.
pub fn is_omitted(kind: &str, path: &str) -> bool {
    FIELDS.omitted.get(kind).is_some_and(|paths| paths.iter().any(|known| known == path))
}

/// The pattern of all values of a field that an operation of a program prints (`helm status`), and a description.
pub fn shape(operation: &str, field: &str) -> Option<(&'static str, &'static str)> {
    FIELDS.shapes.get(operation)?.get(field).map(|(pattern, what)| (pattern.as_str(), what.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_read() {
        assert!(is_number("kubectl", "replicas") && is_number("docker", "Memory") && !is_number("docker", "replicas"));
        assert!(is_boolean("kubectl", "suspend") && !is_boolean("docker", "suspend"));
        assert!(verbs("false", "suspend").contains(&"resume".to_owned()) && verbs("false", "replicas").is_empty());
        assert!(has_texts("kubectl", "hard") && !has_texts("docker", "hard"));
        assert_eq!(of_option("kubectl", "max"), Some("maxReplicas"));
        assert!(has_objects("gh", "labels") && !has_objects("docker", "labels"));
        assert!(shape("stat", "%a").is_some_and(|(pattern, _)| pattern.starts_with("0|")));
    }
}
