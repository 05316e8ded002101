//! Cleanup requests, by steps or curl, that delete what nothing creates, although setup uses a very similar URL.

use crate::{
    diagnostic::{Diagnostic, Diagnostics},
    effects::{self, Round, curl, environment, of_template, shell::Run, value::Value},
    hir::{Arg, ArgKind, Def, OperationKind, PhaseKind, Step},
    lint::{
        TaskView,
        analysis::{facts, texts},
        cleanup::foreign_deletions::DELETES_FOREIGN_RESOURCE,
        resources::cluster::whole,
        shell::misspelt::is_slip,
    },
    source::Span,
};

/// The maximum number of deletions to check: each is compared with all texts of the task.
const DELETIONS: usize = 32;

/// An HTTP request.
pub struct Request {
    pub phase: PhaseKind,
    pub method: String,
    /// The parts of the URL between slashes, without the query. Empty if the URL is not known.
    pub segments: Vec<Value>,
    /// The request body, as far as it is known.
    pub body: String,
    /// The values of the body's fields by which a server may address what the request creates.
    pub keys: Vec<String>,
    /// The text with which a hole for an output of its step starts: `{steps.ID.`, or in a loop `{steps.LOOP.outputs.rounds[0].ID.`.
    pub output: Option<String>,
    pub span: Span,
}

/// Fields of a request body by which a server may address what the request creates.
const KEYS: [&str; 14] = [
    "id",
    "name",
    "key",
    "slug",
    "uid",
    "uuid",
    "identifier",
    "username",
    "login",
    "code",
    "sku",
    "handle",
    "email",
    "external_id",
];

impl Request {
    fn of(phase: PhaseKind, method: String, url: &Value, body: String, span: Span) -> Self {
        let path = url.split('?').into_iter().next().unwrap_or_default();
        let mut segments = if path.is_known() { path.split('/') } else { Vec::new() };
        if segments.last().is_some_and(|last| *last == Value::default()) {
            segments.pop();
        }
        // `…/projects.json` is the same collection as `…/projects`.
        if segments.len() > 1
            && let Some(last) = segments.last_mut()
        {
            let stem = |text: &str| FORMATS.iter().find_map(|format| text.strip_suffix(format)).map(str::to_owned);
            *last = last.with_end(&stem);
        }
        let keys = keys(&body);
        Self { phase, method, segments, body, keys, output: None, span }
    }

    /// Whether its step runs once for each value of a list.
    pub fn is_in_loop(&self) -> bool {
        self.output.as_ref().is_some_and(|output| output.contains(".rounds["))
    }

    /// Whether setup creates something with this request.
    fn makes(&self) -> bool {
        self.phase == PhaseKind::Setup && matches!(self.method.as_str(), "POST" | "PUT")
    }
}

/// Requires that the URLs are known, that setup creates something at a URL that differs by a typo in one segment, and
/// that nothing else mentions the name or collection that cleanup uses.
pub fn check(view: &TaskView<'_>, out: &mut Diagnostics) {
    let by_script =
        view.scripts.iter().any(|script| script.phase == PhaseKind::Cleanup && script.content.text.contains("DELETE"));
    let steps = view.effects.in_phase(PhaseKind::Cleanup).any(|act| act.thing.system == "http");
    if !(by_script || steps) {
        return;
    }
    let all = requests(view);
    let deletes = all.iter().filter(|request| request.phase == PhaseKind::Cleanup && request.method == "DELETE");
    for gone in deletes.take(DELETIONS) {
        if let Some((word, near)) = name(view, gone, &all).or_else(|| collection(gone, &all)) {
            out.push(
                Diagnostic::new(
                    &DELETES_FOREIGN_RESOURCE,
                    gone.span,
                    format!("this request deletes `{word}`, which nothing in the task creates or mentions"),
                )
                .here(format!("did you mean `{near}`?"))
                .help("delete what setup creates, at the same URL"),
            );
        }
    }
}

/// `DELETE …/channels/eval-incident`, if setup creates `eval-incidents` there.
fn name(view: &TaskView<'_>, gone: &Request, all: &[Request]) -> Option<(String, String)> {
    let (last, parent) = gone.segments.split_last()?;
    let word = last.literal().filter(|word| is_name(word))?;
    let elsewhere = facts::elsewhere(view);
    let said = view.effects.prompt.shown();
    let before = |request: &&Request| request.phase != PhaseKind::Cleanup;
    let shown = |request: &Request| request.segments.iter().any(|segment| segment.shown() == word);
    let runs = view.effects.scripts.iter().filter(|script| script.view.phase != PhaseKind::Cleanup);
    let mut words = runs.flat_map(|script| &script.trace.runs).flat_map(|run| &run.words);
    let setup: Vec<&str> = view
        .scripts
        .iter()
        .filter(|script| script.phase == PhaseKind::Setup)
        .map(|script| script.content.text.as_str())
        .collect();
    let told = whole(&said, word)
        || whole(&elsewhere.verify, word)
        || setup.iter().any(|text| whole(text, word))
        || all.iter().filter(before).any(|request| shown(request) || whole(&request.body, word))
        || words.any(|known| whole(&known.shown(), word))
        || view.task.env.iter().any(|(_, value)| whole(&texts::written(value), word));
    if told {
        return None;
    }
    // Names that setup creates there, from URLs, request bodies and scripts.
    let mut near: Vec<String> = Vec::new();
    for request in all.iter().filter(|request| request.makes()) {
        let texts: Vec<&str> = if request.segments == parent {
            std::iter::once(request.body.as_str()).chain(setup.iter().copied()).collect()
        } else if request.segments.split_last().is_some_and(|(_, begin)| begin == parent) {
            request.segments.last().and_then(Value::literal).into_iter().collect()
        } else {
            continue;
        };
        let part = |c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'));
        near.extend(
            texts.iter().flat_map(|text| text.split(part)).filter(|other| is_near(word, other)).map(str::to_owned),
        );
    }
    // `…/jobs/nightly`, where setup uses `…/jobs/nightly-{random.id}`.
    near.extend(all.iter().filter(|request| request.makes()).filter_map(|request| {
        let (last, begin) = request.segments.split_last()?;
        let shown = last.shown();
        let rest = shown.strip_prefix(word)?.strip_prefix(['-', '_', '.'])?;
        (begin == parent && rest.starts_with("{random.")).then_some(shown)
    }));
    near.sort_unstable();
    near.dedup();
    match near.as_slice() {
        [near] => Some((word.to_owned(), near.clone())),
        _ => None,
    }
}

/// `DELETE …/folder/ops`, if setup creates `ops` at `…/folders`.
fn collection(gone: &Request, all: &[Request]) -> Option<(String, String)> {
    let (name, parent) = gone.segments.split_last()?;
    let (kind, begin) = parent.split_last()?;
    let word = kind.literal().filter(|word| word.len() > 3)?;
    // A request to this location shows that it exists.
    if all.iter().any(|other| other.phase != PhaseKind::Cleanup && other.segments.starts_with(parent)) {
        return None;
    }
    all.iter().filter(|request| request.makes()).find_map(|request| {
        let is_there = match request.segments.len() {
            length if length == parent.len() => whole(&request.body, &name.shown()),
            length if length == gone.segments.len() => request.segments.last() == Some(name),
            _ => false,
        };
        let other = request.segments.get(begin.len())?.literal()?;
        let slip = other != word && is_slip(word, other) && other.len().abs_diff(word.len()) < 3;
        (is_there && request.segments.starts_with(begin) && slip).then(|| {
            let shown: Vec<String> = gone.segments.iter().map(Value::shown).collect();
            (shown.join("/"), other.to_owned())
        })
    })
}

/// Whether a word may be a name: it contains a letter and is long enough that similarity is not a coincidence.
fn is_name(word: &str) -> bool {
    word.len() > 4 && word.bytes().any(|b| b.is_ascii_alphabetic())
}

/// Whether a name differs from another by a typo, rather than by its place in a series: `web-1`, `web-b`.
fn is_near(word: &str, other: &str) -> bool {
    let part = |c: char| !c.is_ascii_alphanumeric();
    let digits = |text: &str| text.chars().filter(char::is_ascii_digit).collect::<String>();
    let [own, others]: [Vec<&str>; 2] = [word, other].map(|text| text.split(part).collect());
    let limit = if word.len() < 8 { 1 } else { 2 };
    let differ = || own.iter().zip(&others).filter(|(a, b)| a != b);
    let mut slips = own.len() == others.len() && differ().count() == 1;
    slips &= differ().all(|(a, b)| a.len().min(b.len()) > 3);
    let glued = own.concat() == others.concat();
    word != other && digits(word) == digits(other) && (glued || slips && strsim::osa_distance(word, other) <= limit)
}

/// Endings of URLs that select the format of the response.
const FORMATS: [&str; 2] = [".json", ".xml"];

/// The values of [`KEYS`] in a record, and in the only record in it: `{project: {identifier: eval}}`.
fn keys_of(record: &Arg<Def>, text: &dyn Fn(&Arg<Def>) -> Option<Value>) -> Vec<String> {
    let own = |record: &Arg<Def>| -> Vec<String> {
        let values = KEYS.iter().filter_map(|key| Some(text(record.get(key)?)?.shown()));
        values.filter(|key| !key.is_empty()).collect()
    };
    let mut found = own(record);
    if found.is_empty()
        && let ArgKind::Record(fields) = &record.kind
    {
        let mut inner = fields.iter().filter(|(_, arg)| matches!(arg.kind, ArgKind::Record(_)));
        if let (Some((_, only)), None) = (inner.next(), inner.next()) {
            found = own(only);
        }
    }
    found
}

/// All requests of a task's steps and curl commands. A request in a loop over a literal list is one for each value.
pub fn requests(view: &TaskView<'_>) -> Vec<Request> {
    let environment = environment(view.task);
    let rounds = effects::rounds(view.task, &environment);
    let mut found = Vec::new();
    view.task.walk(&mut |phase, step| {
        if !matches!(step.op.kind, OperationKind::Builtin("http")) {
            return;
        }
        let outside = [Round { number: None, variables: environment.clone() }];
        let rounds = rounds.get(&step.key).map_or(outside.as_slice(), Vec::as_slice);
        found.extend(rounds.iter().filter_map(|round| of_step(phase, step, round)));
    });
    for script in &view.effects.scripts {
        let runs = script.trace.runs.iter().filter(|run| run.statement.name() == "curl");
        found.extend(runs.filter_map(|run| of_curl(script.view.phase, run)));
    }
    found
}

/// The request of a step in a round of its loop.
fn of_step(phase: PhaseKind, step: &Step<Def>, round: &Round) -> Option<Request> {
    let text = |arg: &Arg<Def>| match &arg.kind {
        ArgKind::Text(template) => Some(of_template(template, &round.variables)),
        _ => None,
    };
    let url = step.arg("url").and_then(text)?;
    let method = step.arg("method").map_or(Some("GET".to_owned()), |arg| Some(text(arg)?.literal()?.to_uppercase()))?;
    let mut body = String::new();
    if let Some(arg) = step.arg("body") {
        arg.templates(&mut |template| {
            body.push_str(&of_template(template, &round.variables).shown());
            body.push('\n');
        });
    }
    let span = step.arg("url").map_or(step.key, |url| url.span);
    let record = step.arg("body").map(|body| body.get("json").unwrap_or(body));
    let keys = record.map(|record| keys_of(record, &text)).unwrap_or_default();
    let output = step.id.as_ref().map(|id| match &round.number {
        Some((outer, nth)) => format!("{{steps.{outer}.outputs.rounds[{nth}].{}.", id.value),
        None => format!("{{steps.{}.", id.value),
    });
    Some(Request { keys, output, ..Request::of(phase, method, &url, body, span) })
}

/// The values of [`KEYS`] in a body that is a JSON object.
fn keys(body: &str) -> Vec<String> {
    let object: serde_json::Map<String, serde_json::Value> = match body.trim_start().starts_with('{') {
        true => serde_json::from_str(body).unwrap_or_default(),
        false => return Vec::new(),
    };
    KEYS.iter().filter_map(|key| Some(object.get(*key)?.as_str()?.to_owned())).collect()
}

/// The request of a curl command, if its words are known.
fn of_curl(phase: PhaseKind, run: &Run<'_>) -> Option<Request> {
    let sent = curl::sent(&run.words)?;
    let span = run.content.span(run.statement.range.start..first_line(run));
    Some(Request::of(phase, sent.method, &sent.url, sent.body, span))
}

fn first_line(run: &Run<'_>) -> usize {
    let range = &run.statement.range;
    let text = run.content.text.get(range.clone()).unwrap_or_default();
    range.start + text.find('\n').unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similar_names_are_detected() {
        for (word, other) in [
            ("eval-incident", "eval-incidents"),
            ("EVALS", "EVALQ"),
            ("eval_shop", "eval-shop"),
            ("evalshop", "eval-shop"),
        ] {
            assert!(is_near(word, other), "{word} {other}");
        }
        for (word, other) in [
            ("eval-1", "eval-2"),
            ("eval-shop-a", "eval-shop-b"),
            ("eval-old", "eval-new"),
            ("eval-shop", "eval-shop"),
            ("eval-orders", "eval-other"),
            ("eval-shop", "eval-shop-copy"),
        ] {
            assert!(!is_near(word, other), "{word} {other}");
        }
    }
}
