//! Deletions of everything that a search finds, by a label, a pattern or a list: possibly resources of another task.

use regex::Regex;

use crate::{
    bash::{
        program::{Kind, Statement},
        tools,
    },
    effects::{
        self,
        script::Content,
        value::{Piece, Value},
    },
    hir::PhaseKind,
    lint::TaskView,
    source::Span,
};

/// A deletion of everything that a search finds, not limited to a namespace.
#[derive(Clone, Debug)]
pub struct Sweep {
    system: &'static str,
    kind: String,
    only: Only,
    pub place: Span,
}

/// The condition of the search.
#[derive(Clone, Debug)]
enum Only {
    Everything,
    /// Resources with all of these labels.
    Labels(Vec<(String, String)>),
    /// Resources whose names match.
    Names(Regex),
    /// Resources at a host whose descriptions contain all of these words.
    Words(String, Vec<String>),
}

/// What the sweep of another task may delete.
#[derive(Clone, Debug, Default)]
pub struct Takeable {
    /// System, kind and name of each resource.
    things: Vec<(String, String, String)>,
    labels: Vec<(String, String)>,
    /// The prompt and the scripts, if the task uses HTTP resources.
    text: String,
}

impl Sweep {
    /// A description of the other task's resource that this sweep deletes.
    pub fn takes(&self, other: &Takeable) -> Option<String> {
        let (shown, matched) = match &self.only {
            Only::Words(host, words) => {
                let there = other
                    .things
                    .iter()
                    .find(|(system, _, name)| system == "http" && name.starts_with(host.as_str()))?;
                let said = words.iter().all(|word| crate::lint::resources::cluster::whole(&other.text, word));
                (format!("what is at `{}`", there.2), said)
            }
            only => {
                let (_, kind, name) = other.things.iter().find(|(system, kind, name)| {
                    system == self.system
                        && *kind == self.kind
                        && match only {
                            Only::Names(pattern) => pattern.is_match(name),
                            _ => true,
                        }
                })?;
                let labelled = match only {
                    Only::Labels(labels) => labels.iter().all(|label| other.labels.contains(label)),
                    _ => true,
                };
                (format!("the {kind} `{name}`"), labelled)
            }
        };
        matched.then_some(shown)
    }
}

/// The resources of this task that sweeps of other tasks may delete.
pub fn takeable(view: &TaskView<'_>) -> Takeable {
    let mut found = Takeable::default();
    for act in &view.effects.acts {
        let thing = &act.thing;
        if let Some(name) = thing.name.as_ref().filter(|name| {
            name.is_known()
                && matches!(
                    thing.system.as_str(),
                    "kubernetes" | "docker" | "helm" | "kind" | "aws" | "gcloud" | "http"
                )
        }) {
            let piece = |piece: &Piece| match piece {
                Piece::Text(text) => text.clone(),
                _ => "0".to_owned(),
            };
            let name: String = name.pieces().iter().map(piece).collect();
            found.things.push((thing.system.clone(), thing.kind.clone(), name));
        }
    }
    for run in view.effects.scripts.iter().flat_map(|script| &script.trace.runs) {
        let words: Vec<&str> = run.words.iter().map(|word| word.literal().unwrap_or_default()).collect();
        match words.as_slice() {
            ["kubectl" | "oc", rest @ ..] if rest.contains(&"label") => {
                found.labels.extend(rest.iter().filter(|word| !word.starts_with('-')).filter_map(|word| pair(word)));
            }
            ["curl", ..] => {
                found.things.extend(
                    words
                        .iter()
                        .filter(|word| word.starts_with("http"))
                        .map(|url| ("http".to_owned(), String::new(), (*url).to_owned())),
                );
            }
            _ => {}
        }
        let after = words.windows(2).filter(|pair| matches!(pair[0], "--label" | "--labels")).map(|pair| pair[1]);
        let joined =
            words.iter().filter_map(|word| word.strip_prefix("--labels=").or_else(|| word.strip_prefix("--label=")));
        found.labels.extend(after.chain(joined).flat_map(|pairs| pairs.split(',')).filter_map(pair));
    }
    if found.things.iter().any(|(system, ..)| system == "http") {
        found.text = view.effects.prompt.shown();
        for script in view.scripts {
            found.text.push('\n');
            found.text.push_str(&script.content.text);
        }
    }
    found
}

fn pair(text: &str) -> Option<(String, String)> {
    text.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()))
}

/// The sweeps of setup and cleanup whose search is known.
pub fn sweeps(view: &TaskView<'_>) -> Vec<Sweep> {
    let mut found = Vec::new();
    for script in view.effects.scripts.iter().filter(|script| script.view.phase != PhaseKind::Verify) {
        let step = script.view.step.key;
        for run in &script.trace.runs {
            let words: Vec<&str> = run.words.iter().map(|word| word.literal().unwrap_or("\u{1a}")).collect();
            found.extend(by_selector(&words, step));
        }
        by_address(&script.trace.runs, step, &mut found);
        let content = &script.view.content;
        if content.text.contains("delete") || content.text.contains(" rm") || content.text.contains("uninstall") {
            content.program.walk(&mut |s| in_statement(s, content, step, &mut found));
        }
    }
    found
}

/// Deletions of all resources of a kind that a search without a condition finds: `docker rm -f $(docker ps -aq)`.
pub fn everything(view: &TaskView<'_>) -> Vec<(String, Span)> {
    let mut found: Vec<(String, Span)> = Vec::new();
    for script in view.scripts.iter().filter(|script| script.phase != PhaseKind::Verify) {
        let content = &script.content;
        if !(content.text.contains("delete") || content.text.contains("rm") || content.text.contains("uninstall")) {
            continue;
        }
        content.program.walk(&mut |s| {
            let text = content.text.get(s.range.clone()).unwrap_or_default();
            let end = s.range.start + text.find('\n').unwrap_or(text.len());
            let mut all = Vec::new();
            in_statement(s, content, content.span(s.range.start..end), &mut all);
            let all = all.into_iter().filter(|sweep| matches!(sweep.only, Only::Everything));
            found.extend(all.map(|sweep| (sweep.kind, sweep.place)));
        });
    }
    let inside = |a: &Span, b: &Span| a != b && a.file == b.file && b.start <= a.start && a.end <= b.end;
    let spans: Vec<Span> = found.iter().map(|(_, span)| *span).collect();
    found.retain(|(_, span)| !spans.iter().any(|other| inside(span, other)));
    found
}

/// `kubectl delete namespace -l suite=shop`, `kubectl delete pods --all -A`.
fn by_selector(words: &[&str], place: Span) -> Option<Sweep> {
    let (name, rest) = words.split_first()?;
    let tool = tools::tool(name).filter(|tool| tool.system == "kubernetes")?;
    let operands: Vec<&str> = tools::operands(name, rest).copied().collect();
    let ["delete", kind] = operands.as_slice() else { return None };
    let (kind, wide) = tool.kind(kind)?;
    let everywhere = wide || rest.iter().any(|word| matches!(*word, "-A" | "--all-namespaces"));
    let labels = selector(rest);
    let only = match labels {
        Some(labels) => Only::Labels(labels?),
        None if rest.contains(&"--all") => Only::Everything,
        None => return None,
    };
    everywhere.then(|| Sweep { system: "kubernetes", kind: kind.to_owned(), only, place })
}

/// The labels of `-l`. `Some(None)` if the selection is unknown.
fn selector(words: &[&str]) -> Option<Option<Vec<(String, String)>>> {
    let after = words.windows(2).find(|pair| matches!(pair[0], "-l" | "--selector")).map(|pair| pair[1]);
    let text = after.or_else(|| {
        words.iter().find_map(|word| word.strip_prefix("--selector=").or_else(|| word.strip_prefix("-l=")))
    })?;
    let one =
        |part: &str| pair(part).filter(|(key, value)| !key.ends_with('!') && !value.contains(['\u{1a}', '$', '(']));
    Some(text.split(',').map(one).collect())
}

/// `curl …?tag=eval`, followed by a `DELETE` of each result.
fn by_address(runs: &[effects::shell::Run<'_>], place: Span, found: &mut Vec<Sweep>) {
    const SEARCHES: [&str; 14] = [
        "tag", "tags", "label", "labels", "q", "query", "search", "name", "prefix", "filter", "project", "folder",
        "owner", "topic",
    ];
    let curls = || runs.iter().filter(|run| run.words.first().and_then(Value::literal) == Some("curl"));
    for run in curls() {
        let Some(url) =
            run.words.iter().filter_map(Value::literal).find(|word| word.starts_with("http") && word.contains('?'))
        else {
            continue;
        };
        let Some((path, query)) = url.split_once('?') else { continue };
        let host: String = path.splitn(4, '/').take(3).collect::<Vec<_>>().join("/");
        let words: Vec<String> = query
            .split('&')
            .filter_map(|part| part.split_once('='))
            .filter(|(key, value)| SEARCHES.contains(key) && value.len() > 2)
            .map(|(_, value)| value.to_owned())
            .collect();
        let deletes = curls().any(|other| {
            let literal = |text: &str| other.words.iter().any(|word| word.literal() == Some(text));
            let open = other.words.iter().any(|word| !word.is_known() && word.shown().starts_with(&host));
            (literal("DELETE") || literal("-XDELETE")) && open
        });
        if deletes && !words.is_empty() {
            found.push(Sweep { system: "http", kind: String::new(), only: Only::Words(host, words), place });
        }
    }
}

/// A search whose results are deleted: through a pipe, as arguments, or in a loop.
fn in_statement(s: &Statement, content: &Content, place: Span, found: &mut Vec<Sweep>) {
    let deletes = |s: &Statement| {
        let mut deletes = false;
        s.walk(&mut |s| {
            let has = |word: &str| s.words().iter().any(|w| w.text == word);
            deletes |= s
                .words()
                .iter()
                .any(|w| tools::tool(&w.text).is_some_and(|tool| !tool.system.is_empty() && tool.system != "file"))
                && (has("delete") || has("rm") || has("uninstall") || has("rb"));
        });
        deletes
    };
    let text = content.text.as_str();
    match &s.kind {
        Kind::Pipeline(parts) => {
            if let Some((last, before)) = parts.split_last()
                && deletes(last)
            {
                found.extend(searched(before, text, place));
            }
        }
        Kind::Command(_) if !s.nested.is_empty() && deletes(s) => {
            found.extend(s.nested.iter().filter_map(|inner| searched(parts(inner), text, place)));
        }
        Kind::Loop { body, .. } if body.iter().any(deletes) => {
            found.extend(s.nested.iter().filter_map(|inner| searched(parts(inner), text, place)));
        }
        _ => {}
    }
}

fn parts(s: &Statement) -> &[Statement] {
    match &s.kind {
        Kind::Pipeline(parts) => parts,
        _ => std::slice::from_ref(s),
    }
}

/// The sweep of a pipeline, if all its parts are known.
fn searched(parts: &[Statement], text: &str, place: Span) -> Option<Sweep> {
    let (first, filters) = parts.split_first()?;
    let words: Vec<&str> = first.words().iter().map(|word| word.text.as_str()).collect();
    let (name, rest) = words.split_first()?;
    let tool = tools::tool(name)?;
    let operands: Vec<&str> = tools::operands(name, rest).copied().collect();
    let (system, kind) = match (tool.system.as_str(), operands.as_slice()) {
        ("kubernetes", ["get", kind]) => {
            let (kind, wide) = tool.kind(kind)?;
            let everywhere = wide || rest.iter().any(|word| matches!(*word, "-A" | "--all-namespaces"));
            ("kubernetes", everywhere.then(|| kind.to_owned())?)
        }
        ("docker", ["ps"] | ["container", "ls" | "list"]) => ("docker", "container".to_owned()),
        ("docker", [kind @ ("volume" | "network"), "ls" | "list"]) => ("docker", (*kind).to_owned()),
        ("helm", ["list" | "ls"]) if rest.iter().any(|word| matches!(*word, "-A" | "--all-namespaces")) => {
            ("helm", "release".to_owned())
        }
        ("kind", ["get", "clusters"]) => ("kind", "cluster".to_owned()),
        ("aws", ["s3", "ls"] | ["s3api", "list-buckets"]) => ("aws", "bucket".to_owned()),
        _ => return None,
    };
    if rest.iter().any(|word| word.contains(['$', crate::lint::script::HOLE, '`'])) {
        return None;
    }
    let mut only = Only::Everything;
    if let Some(labels) = selector(rest) {
        only = Only::Labels(labels?);
    }
    for (nth, word) in rest.iter().enumerate() {
        let filter = match *word {
            "--filter" | "-f" => rest.get(nth + 1).copied(),
            "--field-selector" => return None,
            word => word.strip_prefix("--filter="),
        };
        match filter.map(|filter| filter.trim_matches(['"', '\'']).split_once('=').unwrap_or((filter, ""))) {
            None => {}
            Some(("name", name)) => only = Only::Names(Regex::new(name).ok()?),
            Some(("label", label)) => only = Only::Labels(vec![pair(label)?]),
            Some((pattern, "")) if system == "helm" => only = Only::Names(Regex::new(pattern).ok()?),
            Some(_) => return None,
        }
    }
    for part in filters {
        let words = part.words();
        match part.name() {
            "cut" | "tr" | "sort" | "uniq" | "tail" | "sed" | "tac" => {}
            "awk" if words.len() == 2 => {
                let program = words[1].text.as_str();
                let program = program.trim_matches(['\'', '"']).trim();
                if let Some((pattern, _)) = program.strip_prefix('/').and_then(|rest| rest.split_once('/')) {
                    only = Only::Names(Regex::new(pattern).ok()?);
                } else if !program.starts_with('{') && !program.starts_with("NR") {
                    return None;
                }
            }
            "grep" | "egrep" => {
                let options: Vec<&str> = words[1..]
                    .iter()
                    .map(|word| word.text.as_str())
                    .filter(|text| text.starts_with('-') && *text != "--")
                    .collect();
                let pattern = tools::searched(&words[1..])?;
                let options: Vec<&str> = options.into_iter().filter(|option| *option != pattern.text).collect();
                if options.iter().any(|option| !matches!(*option, "-E" | "-e" | "-w" | "-i" | "-o" | "--"))
                    || !pattern.literal
                {
                    return None;
                }
                let text = text.get(pattern.range.clone())?.trim_matches(['\'', '"']);
                // The kind precedes the name.
                let text = text.rsplit_once('/').map_or_else(|| text.to_owned(), |(_, name)| format!("^{name}"));
                only = Only::Names(Regex::new(&text).ok()?);
            }
            _ => return None,
        }
    }
    Some(Sweep { system, kind, only, place })
}
