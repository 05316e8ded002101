//! What `gh api` requests and `gh repo delete` create and delete. The table of `gh` defines its other commands.

use super::{Thing, Verb, value::Value};

/// The effects of a command, given as its words without `gh`.
pub(super) fn acts(words: &[Value]) -> Vec<(Verb, Thing)> {
    let all = |verb| vec![(verb, thing("all", None, None))];
    match words.iter().map(|word| word.literal()).collect::<Vec<_>>().as_slice() {
        // Everything in the repository is deleted with it.
        [Some("repo"), Some("delete"), ..] => all(Verb::Deletes),
        [Some("api"), Some("graphql"), ..] => all(Verb::Deletes),
        [Some("api"), ..] => request(&words[1..]).into_iter().collect(),
        _ => Vec::new(),
    }
}

fn thing(kind: &str, space: Option<Value>, name: Option<Value>) -> Thing {
    Thing { system: "github".to_owned(), kind: kind.to_owned(), space, name }
}

/// The branch, tag or label that a request creates or deletes. A deletion of anything else may delete everything.
fn request(words: &[Value]) -> Option<(Verb, Thing)> {
    let (mut method, mut path, mut fields) = (None, None, Vec::new());
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.shown().as_str() {
            "-X" | "--method" => method = words.next().map(|word| word.shown().to_uppercase()),
            "-f" | "-F" | "--field" | "--raw-field" => fields.extend(words.next()),
            "-H" | "--header" | "-q" | "--jq" | "-t" | "--template" | "--input" | "--hostname" | "--cache" | "-p"
            | "--preview" => {
                words.next();
            }
            option if option.starts_with("-X") => method = Some(option[2..].to_uppercase()),
            option if option.starts_with("--method=") => method = option.split('=').nth(1).map(str::to_uppercase),
            option if option.starts_with('-') => {}
            _ => path = path.or(Some(word)),
        }
    }
    let usual = if fields.is_empty() { "GET" } else { "POST" };
    let method = method.unwrap_or_else(|| usual.to_owned());
    let verb = match method.as_str() {
        "DELETE" => Verb::Deletes,
        "POST" => Verb::Creates,
        _ => return None,
    };
    let field = |name: &str| {
        fields.iter().find_map(|field| {
            let (key, _) = field.shown().split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()))?;
            (key == name).then(|| super::without(field, key.len() + 1))
        })
    };
    let segments = path?.split('/');
    // `repos/OWNER/NAME/…`, where one variable may contain owner and name.
    let at = |word: &str| segments.iter().position(|segment| segment.literal() == Some(word));
    let all = || Some((verb, thing("all", None, None))).filter(|_| verb == Verb::Deletes);
    let behind = |at: usize| joined(segments.get(at..).unwrap_or_default());
    if let Some(at) = at("refs").filter(|at| segments.get(at - 1).and_then(Value::literal) == Some("git")) {
        let whole = match verb {
            Verb::Deletes => behind(at + 1),
            _ => super::without(&field("ref")?, "refs/".len()),
        };
        let kind = if whole.shown().starts_with("tags/") { "tag" } else { "branch" };
        let begin = if kind == "tag" { "tags/" } else { "heads/" };
        return match whole.shown().starts_with(begin) {
            true => Some((verb, thing(kind, None, Some(super::without(&whole, begin.len()))))),
            false => all(),
        };
    }
    match at("labels")
        .filter(|at| *at + 2 >= segments.len() && at.checked_sub(2).is_none_or(|at| !is(&segments, at, "issues")))
    {
        Some(at) if verb == Verb::Deletes => Some((verb, thing("label", None, Some(behind(at + 1))))),
        Some(_) => Some((verb, thing("label", None, Some(field("name")?)))),
        None if at("issues").is_some() => None,
        None => all(),
    }
}

fn is(segments: &[Value], at: usize, word: &str) -> bool {
    segments.get(at).and_then(Value::literal) == Some(word)
}

fn joined(segments: &[Value]) -> Value {
    let mut whole = Value::default();
    for (nth, segment) in segments.iter().enumerate() {
        if nth > 0 {
            whole.append(&Value::text("/"));
        }
        whole.append(segment);
    }
    whole
}
