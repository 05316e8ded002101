//! kubectl commands in a normal form, so that the order of options, and names written in two words, make no difference; and the
//! command that an operation of `builtin:kubernetes` corresponds to.
//!
//! This is written independently of `convert::kubernetes`, which also reads such commands: each of the two reveals errors of the other.

use serde_json::{Value, json};

use super::world::{Answer, Call};
use crate::{ty::duration, yaml};

/// Options with a value, with their short names.
const VALUED: &[(&str, &str)] = &[
    ("--namespace", "-n"),
    ("--selector", "-l"),
    ("--output", "-o"),
    ("--filename", "-f"),
    ("--patch", "-p"),
    ("--container", "-c"),
    ("--timeout", ""),
    ("--for", ""),
    ("--type", ""),
    ("--replicas", ""),
    ("--as", ""),
    ("--subresource", ""),
    ("--tail", ""),
    ("--field-selector", ""),
];
/// Switches, with their short names and their default values.
const SWITCHES: &[(&str, &str, bool)] = &[
    ("--ignore-not-found", "", false),
    ("--wait", "", true),
    ("--all-namespaces", "-A", false),
    ("--overwrite", "", false),
    ("--previous", "", false),
    ("--quiet", "-q", false),
    ("--no-headers", "", false),
];

/// A kubectl command in the form in which it is compared; a command that is not understood stays as it is.
pub fn normal(call: Call) -> Call {
    if call.argv.first().is_none_or(|name| name != "kubectl") {
        return call;
    }
    match read(&call.argv[1..]) {
        Some(argv) => {
            let stdin = call.stdin.map(|text| documents(&text, &argv));
            let injected = argv[1] == "create" && stdin.is_some();
            let argv = if injected { without(&argv, "--namespace") } else { argv };
            Call { argv, stdin }
        }
        None => call,
    }
}

/// A JSONPath of one expression without its braces, which are optional; in a path of several expressions they separate these.
fn plain(text: &str) -> String {
    if text.matches('{').count() == 1 { text.replace(['{', '}'], "") } else { text.to_owned() }
}

fn without(argv: &[String], option: &str) -> Vec<String> {
    match argv.iter().position(|word| word == option) {
        Some(at) => [&argv[..at], &argv[at + 2..]].concat(),
        None => argv.to_vec(),
    }
}

fn read(args: &[String]) -> Option<Vec<String>> {
    let (mut words, mut options, mut command) = (Vec::new(), Vec::new(), Vec::new());
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        if arg == "--" {
            command = std::iter::once(arg).chain(args.by_ref()).cloned().collect();
        } else if let Some(switch) = SWITCHES.iter().find(|(long, short, _)| {
            arg == long
                || arg == short && !short.is_empty()
                || arg.split_once('=').is_some_and(|(name, _)| name == *long)
        }) {
            let is = !arg.ends_with("=false");
            if is != switch.2 {
                options.push((switch.0, (!is).then(|| "false".to_owned())));
            }
        } else if arg.starts_with('-') && arg.len() > 1 {
            let known = VALUED.iter().find_map(|(long, short)| {
                let rest = arg.strip_prefix(long).or_else(|| arg.strip_prefix(short).filter(|_| !short.is_empty()))?;
                (rest.is_empty() || rest.starts_with('=') || !arg.starts_with("--")).then_some((*long, rest))
            });
            let (long, rest) = known?;
            let value = if rest.is_empty() { args.next()?.clone() } else { rest.trim_start_matches('=').to_owned() };
            options.push((long, Some(value)));
        } else {
            words.push(arg.clone());
        }
    }
    let verb = words.first()?.clone();
    let part = usize::from(matches!(verb.as_str(), "rollout" | "auth"));
    let named = words.split_off(1 + part.min(words.len() - 1));
    words.extend(match (verb.as_str(), named.as_slice()) {
        ("create" | "auth" | "exec", _) => named,
        (_, [kind, name, rest @ ..])
            if !kind.contains(['/', ',']) && (rest.is_empty() || matches!(verb.as_str(), "annotate" | "label")) =>
        {
            std::iter::once(format!("{kind}/{name}")).chain(rest.iter().cloned()).collect()
        }
        _ => named,
    });
    for word in &mut words {
        let kind = ["ns/", "namespaces/"].into_iter().find_map(|kind| word.strip_prefix(kind));
        *word = match (verb.as_str(), kind) {
            (_, Some(name)) => format!("namespace/{name}"),
            ("create", None) if word == "ns" => "namespace".to_owned(),
            ("exec" | "logs", None) => word.trim_start_matches("pod/").to_owned(),
            _ => continue,
        };
    }
    let waits = match verb.as_str() {
        "wait" => Some("30s"),
        "delete" if !options.iter().any(|(name, _)| *name == "--wait") => Some("5m"),
        "rollout" if words.get(1).is_some_and(|word| word == "status") => Some("5m"),
        _ => None,
    };
    if let Some(limit) = waits
        && !options.iter().any(|(name, _)| *name == "--timeout")
    {
        options.push(("--timeout", Some(limit.to_owned())));
    }
    // A deletion by a selector that finds nothing succeeds in any case.
    let selects = verb == "delete" && options.iter().any(|(name, _)| *name == "--selector");
    options.retain_mut(|(name, value)| match (*name, value.as_deref()) {
        ("--ignore-not-found", _) if selects => false,
        ("--namespace", Some("default")) | ("--type", Some("strategic")) | ("--quiet", _) => false,
        ("--timeout", Some(text)) => {
            let text = if text.bytes().all(|b| b.is_ascii_digit()) { format!("{text}s") } else { text.to_owned() };
            let text = if text == "0s" { "5m".to_owned() } else { text };
            *value = Some(duration::parse(&text).map_or(text, duration::format));
            true
        }
        ("--for", Some(text)) => {
            let text = text.strip_suffix("=True").or_else(|| text.strip_suffix("=true")).unwrap_or(text);
            *value = Some(plain(text));
            true
        }
        ("--output", Some(text)) if text.starts_with("jsonpath=") => {
            *value = Some(plain(text));
            true
        }
        ("--patch", Some(text)) => {
            *value = yaml::manifests(text).ok().and_then(|mut all| all.pop()).map(|patch| sorted(patch).to_string());
            true
        }
        _ => true,
    });
    options.sort();
    let options = options.into_iter().flat_map(|(name, value)| std::iter::once(name.to_owned()).chain(value));
    let words = std::iter::once("kubectl".to_owned()).chain(words);
    Some(words.chain(options).chain(command).collect())
}

/// Manifests as JSON, one per line; for `create`, each in the namespace that the command names.
fn documents(text: &str, argv: &[String]) -> String {
    let namespace = argv.iter().position(|word| word == "--namespace").and_then(|at| argv.get(at + 1));
    let Ok(read) = yaml::manifests(text) else { return text.to_owned() };
    let lines = read.into_iter().filter(|document| !document.is_null()).map(|mut document| {
        if let (Some(namespace), true) = (namespace, argv[1] == "create")
            && let Some(metadata) = document.get_mut("metadata").and_then(Value::as_object_mut)
        {
            metadata.entry("namespace").or_insert_with(|| json!(namespace));
        }
        format!("{}\n", sorted(document))
    });
    lines.collect()
}

fn sorted(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut fields: Vec<_> = map.into_iter().collect();
            fields.sort_by(|a, b| a.0.cmp(&b.0));
            Value::Object(fields.into_iter().map(|(key, value)| (key, sorted(value))).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(sorted).collect()),
        other => other,
    }
}

/// The command that an operation corresponds to.
pub fn said(operation: &str, args: &Value) -> Option<Call> {
    let text = |name: &str| args.get(name).and_then(Value::as_str).map(str::to_owned);
    let is = |name: &str| args.get(name).and_then(Value::as_bool);
    let of_object =
        |name: &str| args.get("metadata").and_then(|of| of.get(name)).and_then(Value::as_str).map(str::to_owned);
    let resource = || match (text("resource"), text("kind"), text("selector")) {
        (Some(resource), ..) => Some(vec![resource]),
        (None, Some(kind), None) => Some(vec![format!("{}/{}", kind.to_lowercase(), of_object("name")?)]),
        (None, Some(kind), Some(selector)) => Some(vec![kind, "-l".to_owned(), selector]),
        _ => None,
    };
    let mut stdin = None;
    let mut words: Vec<String> = vec!["kubectl".to_owned()];
    let mut add = |list: &[&str]| words.extend(list.iter().map(|word| (*word).to_owned()));
    match operation {
        "apply" => {
            add(&["apply", "-f"]);
            match args.get("inline") {
                Some(inline) => {
                    stdin = Some(inline.as_str().map_or_else(|| inline.to_string(), str::to_owned));
                    add(&["-"]);
                }
                None => add(&[&text("file")?]),
            }
        }
        "create" => {
            add(&["create", "-f", "-"]);
            stdin = Some(args.to_string());
        }
        "create-namespace" => add(&["create", "namespace", &text("name")?]),
        "delete-namespace" => {
            add(&["delete", &format!("namespace/{}", text("name")?), "--ignore-not-found"]);
            if is("wait") != Some(true) {
                add(&["--wait=false"]);
            }
        }
        "delete" => {
            add(&["delete"]);
            words.extend(resource()?);
            if is("ignoreNotFound") == Some(true) {
                words.push("--ignore-not-found".to_owned());
            }
            if is("wait") == Some(false) {
                words.push("--wait=false".to_owned());
            }
        }
        "get" | "resource-exists" | "resource-absent" => {
            add(&["get"]);
            words.extend(resource()?);
            if let Some(path) = text("jsonpath") {
                words.extend(["-o".to_owned(), format!("jsonpath={path}")]);
            }
        }
        "wait" => {
            add(&["wait"]);
            words.extend(resource()?);
            let wanted = match (text("condition"), text("jsonpath"), is("created"), is("deleted")) {
                (Some(condition), ..) => {
                    format!("condition={condition}={}", text("status").unwrap_or("True".to_owned()))
                }
                (None, Some(path), ..) => match args.get("value") {
                    Some(value) => {
                        format!("jsonpath={path}={}", value.as_str().map_or_else(|| value.to_string(), str::to_owned))
                    }
                    None => format!("jsonpath={path}"),
                },
                (.., Some(true), _) => "create".to_owned(),
                (.., Some(true)) => "delete".to_owned(),
                _ => return None,
            };
            words.push(format!("--for={wanted}"));
        }
        "rollout" => add(&["rollout", "status", &text("resource")?]),
        "restart" => add(&["rollout", "restart", &text("resource")?]),
        "scale" => add(&["scale", &text("resource")?, &format!("--replicas={}", args.get("replicas")?)]),
        "patch" => {
            add(&["patch", &text("resource")?, "-p", &args.get("patch")?.to_string()]);
            for option in ["type", "subresource"] {
                if let Some(value) = text(option) {
                    words.push(format!("--{option}={value}"));
                }
            }
        }
        "annotate" | "label" => {
            add(&[operation, &text("resource")?]);
            let marks = args.get("annotations").or_else(|| args.get("labels")).and_then(Value::as_object)?;
            let mut sets = false;
            for (name, value) in marks {
                sets |= !value.is_null();
                words.push(value.as_str().map_or_else(|| format!("{name}-"), |value| format!("{name}={value}")));
            }
            if sets {
                words.push("--overwrite".to_owned());
            }
        }
        "can-i" => {
            add(&["auth", "can-i", &text("verb")?, &text("resource")?]);
            if text("namespace").is_none() {
                words.push("-A".to_owned());
            }
            if let Some(user) = text("as") {
                words.push(format!("--as={user}"));
            }
        }
        "exec" | "logs" => {
            add(&[operation, &text("pod")?]);
            if let Some(container) = text("container") {
                words.push(format!("--container={container}"));
            }
            if let Some(lines) = args.get("tail") {
                words.push(format!("--tail={lines}"));
            }
            if is("previous") == Some(true) {
                words.push("--previous".to_owned());
            }
        }
        _ => return None,
    }
    let of_object = of_object("namespace").filter(|_| operation != "create");
    if let Some(namespace) = text("namespace").or(of_object) {
        words.extend(["-n".to_owned(), namespace]);
    }
    if let (Some(limit), true) = (text("timeout"), operation != "exec") {
        words.push(format!("--timeout={limit}"));
    }
    if let (Some(Value::Array(command)), "exec") = (args.get("command"), operation) {
        words.push("--".to_owned());
        words.extend(command.iter().filter_map(Value::as_str).map(str::to_owned));
    }
    Some(Call { argv: words, stdin })
}

/// The answer as kubectl gives it: `auth can-i` prints what its exit status says, and `get` prints nothing of an object that it could
/// not read.
pub fn consistent(call: &Call, answer: Answer) -> Answer {
    let words: Vec<&str> = call.argv.iter().take(3).map(String::as_str).collect();
    match (words.as_slice(), answer.status) {
        (["kubectl", "auth", "can-i"], 0) => Answer { stdout: "yes\n".to_owned(), ..answer },
        (["kubectl", "auth", "can-i"], 1) => Answer { stdout: "no\n".to_owned(), ..answer },
        (["kubectl", "get", ..], 1..) => Answer { stdout: String::new(), ..answer },
        _ => answer,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_of_a_jsonpath_are_separated_by_braces() {
        let output = |path: &str| {
            let argv = ["kubectl", "get", "pod", "a", "-o", &format!("jsonpath={path}")].map(str::to_owned).to_vec();
            normal(Call { argv, stdin: None }).key()
        };
        assert_eq!(output("{.a.b}"), output(".a.b"));
        assert_ne!(output("{.a}{.b}"), output("{.a.b}"));
    }
}
