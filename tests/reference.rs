//! The reference in `docs/reference/`: its tables say what signatures and schemas say, and its examples are checked.
//!
//! Between `<!-- WHAT -->` and `<!-- end -->` stands what is generated: `step NAME`, `table FILE#/POINTER`, `filters`, `exits`.
//! `BLESS=1 cargo test --test reference` writes it anew.
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test may panic, and reads and blesses its pages"
)]

#[path = "support/page.rs"]
#[expect(dead_code, reason = "shared with other tests")]
mod page;

use std::{fs, path::Path};

use gevals::{
    builtin::vocabularies,
    compile,
    diagnostic::Strength,
    hir::{Dialect, PhaseKind},
    signature::{Field, Shape, Signature},
    source::Sources,
    template::FILTERS,
    ty::duration,
};
use page::{files, pages};
use serde_json::Value;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn tables_are_fresh() {
    let mut stale = Vec::new();
    for page in pages(&root().join("docs/reference")) {
        let fresh = generated(&page.text);
        if fresh != page.text {
            if std::env::var_os("BLESS").is_some() && std::env::var_os("CI").is_none() {
                fs::write(&page.path, fresh).unwrap();
            } else {
                stale.push(page.path.display().to_string());
            }
        }
    }
    assert!(stale.is_empty(), "BLESS=1 cargo test --test reference writes {} anew", stale.join(", "));
}

/// Every example of a file is one: what `check` says of it stands in no page.
#[test]
fn examples_have_no_findings() {
    let mut faults = Vec::new();
    let mut examples = 0;
    for page in pages(&root().join("docs/reference")) {
        for (heading, _) in page.blocks.iter().map(|block| &block.heading).collect::<std::collections::BTreeSet<_>>() {
            let of = |block: &&page::Block| block.heading.0 == *heading && block.has("example");
            let blocks: Vec<_> = page.blocks.iter().filter(of).collect();
            if blocks.is_empty() {
                continue;
            }
            examples += 1;
            let (files, named) = files(&blocks);
            let sources = Sources::default();
            let found = compile(&named, &sources, &files);
            // That a judge is needed is no fault of a task.
            for d in found.diagnostics.iter().filter(|d| d.strength != Strength::Note) {
                let at = sources.get(d.span.file).position(d.span.start);
                faults.push(format!(
                    "{}:{}: {} {} (line {})",
                    page.path.display(),
                    blocks[0].line,
                    d.rule.name,
                    d.message,
                    at.line
                ));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(examples >= 15, "only {examples} examples");
}

/// Each operation of each dialect has a section.
#[test]
fn every_step_is_described() {
    let all: String = pages(&root().join("docs/reference")).into_iter().map(|page| page.text).collect();
    for (dialect, mark) in [(Dialect::Portable, "step"), (Dialect::Steps, "old-step")] {
        for name in vocabularies().of(dialect).names() {
            assert!(all.contains(&format!("<!-- {mark} {name} -->")), "{name} of {dialect:?} has no section");
        }
    }
}

fn generated(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("<!-- ") {
        let (what, body) = after.split_once(" -->\n").unwrap();
        out += before;
        out += &format!("<!-- {what} -->\n");
        let (_, behind) = body.split_once("<!-- end -->").unwrap_or_else(|| panic!("`{what}` has no end"));
        out += &format!("{}<!-- end -->", section(what));
        rest = behind;
    }
    out + rest
}

fn section(what: &str) -> String {
    let (kind, of) = what.split_once(' ').unwrap_or((what, ""));
    match kind {
        "step" => step(vocabularies().of(Dialect::Portable).get(of).unwrap().1, Dialect::Portable),
        "old-step" => step(vocabularies().of(Dialect::Steps).get(of).unwrap().1, Dialect::Steps),
        "table" => {
            let (file, pointer) = of.split_once('#').unwrap();
            let document: Value = serde_json::from_str(&fs::read_to_string(root().join(file)).unwrap()).unwrap();
            table(&document, document.pointer(pointer).unwrap_or_else(|| panic!("{of}")))
        }
        "filters" => {
            let rows = FILTERS.iter().map(|filter| {
                let args: Vec<String> = filter
                    .args
                    .iter()
                    .map(|arg| if arg.required { arg.name.to_owned() } else { format!("[{}]", arg.name) })
                    .collect();
                let args = if args.is_empty() { String::new() } else { format!("({})", args.join(", ")) };
                format!("| `{}{args}` | {} | {} |\n", filter.name, filter.takes, filter.summary)
            });
            format!("| filter | takes | gives |\n|---|---|---|\n{}", rows.collect::<String>())
        }
        other => panic!("what is `{other}`?"),
    }
}

/// What it takes, expects and leaves.
fn step(signature: &Signature, dialect: Dialect) -> String {
    let mut out = String::new();
    let phases: Vec<&str> = PhaseKind::ALL.iter().filter(|p| signature.phases.contains(p)).map(|p| p.name()).collect();
    if phases.len() < PhaseKind::ALL.len() {
        out += &format!("Stands in {}. ", phases.join(" and "));
    }
    if let Some(limit) = signature.timeout {
        out += &format!("May take {} where it sets no `timeout`. ", duration::format(limit));
    }
    if let Some(short) = signature.short {
        out += &format!("The short form gives `{short}`. ");
    }
    for set in signature.exactly_one {
        let keys: Vec<String> = set.iter().map(|key| format!("`{key}`")).collect();
        out += &format!("Exactly one of {} is needed. ", keys.join(", "));
    }
    if !out.is_empty() {
        out = format!("{}\n\n", out.trim_end());
    }
    let own = signature.step_keys(dialect).into_iter().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", ");
    let fields: Vec<(&String, &Field)> = signature.params.fields().into_iter().flatten().collect();
    let blocks: Vec<_> =
        signature.control.blocks().iter().filter(|(key, ..)| !fields.iter().any(|(k, _)| k == key)).collect();
    if !fields.is_empty() || !blocks.is_empty() {
        out += "| key | type | |\n|---|---|---|\n";
        fields.iter().for_each(|(key, field)| out += &row(key, field));
        for (key, _, required) in blocks {
            out += &format!("| `{key}` | steps | {} |\n", if *required { "Required." } else { "" });
        }
        out.push('\n');
    }
    out += &format!("Beside them: {own}.\n");
    if let Some(Shape::Record { fields, .. }) = signature.expect.as_deref() {
        out += "\n`expect`:\n\n| key | type | |\n|---|---|---|\n";
        fields.iter().for_each(|(key, field)| out += &row(key, field));
    }
    if !signature.locals.is_empty() {
        let values: Vec<String> = signature.locals.iter().map(|(name, ty)| format!("`{name}` ({ty})")).collect();
        out += &format!("\nIt leaves {}.\n", values.join(", "));
    }
    out
}

fn row(key: &str, field: &Field) -> String {
    let mut doc = field.doc.clone();
    if !doc.is_empty() && !doc.ends_with('.') {
        doc.push('.');
    }
    if field.required {
        doc = format!("Required. {doc}");
    }
    if let Some(default) = field
        .default
        .as_ref()
        .filter(|value| !value.is_null() && !value.as_object().is_some_and(serde_json::Map::is_empty))
    {
        doc += &format!(" Default: `{}`.", default.as_str().map_or_else(|| default.to_string(), str::to_owned));
    }
    format!("| `{key}` | {} | {} |\n", kind(&field.shape), doc.trim().replace('|', "\\|"))
}

/// A type, with a link where it is the matchers.
fn kind(shape: &Shape) -> String {
    match shape {
        shape if shape.holds("oneOf") => match shape {
            Shape::OneOf(shapes) if shapes.iter().any(|s| matches!(s, Shape::String { .. })) => {
                "string or [matchers](../expect.md)".to_owned()
            }
            _ => "[matchers](../expect.md)".to_owned(),
        },
        Shape::OneOf(shapes) => {
            let words: Vec<String> = shapes.iter().filter(|s| **s != Shape::Null).map(kind).collect();
            words.join(" or ")
        }
        Shape::String { one_of, .. } if !one_of.is_empty() => {
            one_of.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(" or ")
        }
        Shape::Any => "any value".to_owned(),
        other => {
            let words = other.describe();
            let plain = words.strip_prefix("a ").or(words.strip_prefix("an ")).unwrap_or(&words);
            plain.to_owned()
        }
    }
}

/// The keys of an object of a schema.
fn table(document: &Value, object: &Value) -> String {
    let mut out = String::from("| key | type | |\n|---|---|---|\n");
    let required: Vec<&str> = object["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    for (key, value) in object["properties"].as_object().unwrap() {
        let described = value["description"].as_str().or_else(|| {
            let target = value["$ref"].as_str()?.strip_prefix('#')?;
            document.pointer(target)?["description"].as_str()
        });
        let must = if required.contains(&key.as_str()) { "Required. " } else { "" };
        let doc = format!("{must}{}", described.unwrap_or_default());
        out += &format!(
            "| `{key}` | {} | {} |\n",
            written(document, value),
            doc.trim().replace('|', "\\|").replace('\n', " ")
        );
    }
    out
}

/// The type of a value of a schema.
fn written(document: &Value, schema: &Value) -> String {
    if let Some(target) = schema["$ref"].as_str() {
        let target = document.pointer(target.trim_start_matches('#')).unwrap();
        return written(document, target);
    }
    for key in ["anyOf", "oneOf", "allOf"] {
        if let Some(options) = schema[key].as_array().filter(|_| schema.get("properties").is_none()) {
            let mut words: Vec<String> =
                options.iter().map(|option| written(document, option)).filter(|w| w != "null").collect();
            words.dedup();
            let mut seen = Vec::new();
            words.retain(|word| {
                !seen.contains(word) && {
                    seen.push(word.clone());
                    true
                }
            });
            return words.join(" or ");
        }
    }
    if let Some(values) = schema["enum"].as_array() {
        return values
            .iter()
            .filter(|v| !v.is_null())
            .map(|v| format!("`{}`", v.as_str().unwrap_or(&v.to_string())))
            .collect::<Vec<_>>()
            .join(" or ");
    }
    if let Some(value) = schema.get("const") {
        return format!("`{}`", value.as_str().unwrap_or(&value.to_string()));
    }
    let types: Vec<&str> = match &schema["type"] {
        Value::String(one) => vec![one.as_str()],
        Value::Array(many) => many.iter().filter_map(Value::as_str).filter(|t| *t != "null").collect(),
        _ => return "any value".to_owned(),
    };
    let word = |name: &str| match name {
        "string" if schema["pattern"].as_str().is_some_and(|p| p.contains("µs")) => "duration".to_owned(),
        "array" => format!("list of {}", written(document, &schema["items"])),
        "object" => match schema.get("additionalProperties").filter(|v| v.is_object()) {
            Some(inner) if schema.get("properties").is_none() => format!("map of {}", written(document, inner)),
            _ => "mapping".to_owned(),
        },
        "null" => "null".to_owned(),
        other => other.to_owned(),
    };
    types.into_iter().map(word).collect::<Vec<_>>().join(" or ")
}
