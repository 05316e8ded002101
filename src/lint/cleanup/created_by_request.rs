//! Objects that setup creates with POST requests or tools, whose address or ID only the response or the body contains.

use crate::{
    ascii::{Ascii, ascii},
    diagnostic::{Diagnostic, Diagnostics},
    effects::value::Value,
    hir::{Arg, ArgKind, Def, OperationKind, PhaseKind, Step},
    lint::{
        TaskView,
        analysis::{orders, texts},
        cleanup::{
            deleted_by_request::{self, Request},
            released::RESOURCE_NOT_RELEASED,
        },
    },
    signature::Control,
    source::Span,
};

/// Programs that neither start nor stop a server.
const HARMLESS: [&str; 12] =
    ["curl", "echo", "printf", "set", "true", ":", "sleep", "jq", "exit", "cat", "grep", "test"];

pub fn check(view: &TaskView<'_>, out: &mut Diagnostics) {
    let before = out.len();
    objects(view, out);
    if out.len() == before {
        siblings(view, out);
    }
}

/// `POST …/items` in setup, if the rest of the task uses `…/items/ID` and cleanup deletes no resource at this address. Requires
/// that setup and cleanup only send requests: the resource may end with its server.
fn objects(view: &TaskView<'_>, out: &mut Diagnostics) {
    if !only_requests(view) {
        return;
    }
    let all = deleted_by_request::requests(view);
    let posts: Vec<&Request> =
        all.iter().filter(|r| r.phase == PhaseKind::Setup && r.method == "POST" && !r.segments.is_empty()).collect();
    let cleanup = || all.iter().filter(|request| request.phase == PhaseKind::Cleanup);
    if posts.is_empty() || cleanup().any(|request| !matches!(request.method.as_str(), "GET" | "HEAD" | "DELETE")) {
        return;
    }
    let mut told: Vec<Span> = Vec::new();
    for post in posts.iter().take(POSTS) {
        if told.contains(&post.span) {
            continue;
        }
        let Some(key) = address(post, &all) else {
            if is_forgotten(post, &posts, &all) {
                told.push(post.span);
                out.push(
                    Diagnostic::new(
                        &RESOURCE_NOT_RELEASED,
                        post.span,
                        "cleanup deletes what other requests of setup create, but nothing of what this one does"
                            .to_owned(),
                    )
                    .help("send a `DELETE` request in cleanup for this as well"),
                );
            }
            continue;
        };
        let is_at = |request: &Request| {
            let (own, given) = (&post.segments, &request.segments);
            given.is_empty()
                || own.starts_with(given)
                || given.len() == own.len() + 1
                    && given.starts_with(own)
                    && is_address(post, &key, &given[own.len()], &posts)
                || !given.starts_with(own) && given.contains(&key)
        };
        let deletes = |request: &&Request| request.method == "DELETE" && request.phase != PhaseKind::Setup;
        if all.iter().filter(deletes).any(is_at) || is_gone(view, post, &key) || is_inside(view, post, &all) {
            continue;
        }
        let url: Vec<String> = post.segments.iter().chain([&key]).map(Value::shown).collect();
        let mut finding = Diagnostic::new(
            &RESOURCE_NOT_RELEASED,
            post.span,
            format!("the resource `{}`, which this request creates, is never deleted", brief(&url.join("/"))),
        )
        .help("send a `DELETE` request to this address in cleanup");
        let other = cleanup().filter(deletes).find(|request| request.segments.starts_with(&post.segments));
        let siblings = posts.iter().filter(|other| other.segments == post.segments);
        if let Some(other) = other.filter(|_| siblings.count() == 1 || post.is_in_loop()) {
            finding = finding.label(other.span, "this deletes another one");
        }
        told.push(post.span);
        out.push(finding);
    }
}

/// Whether a request creates something with a name for this run, nothing deletes anything in its collection, and something in a
/// collection beside it is deleted.
fn is_forgotten(post: &Request, posts: &[&Request], all: &[Request]) -> bool {
    let Some((_, parent)) = post.segments.split_last() else { return false };
    let is_own = post.keys.iter().any(|key| key.contains("{random.id}"));
    let deletes = |request: &&Request| request.method == "DELETE" && request.phase != PhaseKind::Setup;
    let deleted: Vec<&Request> = all.iter().filter(deletes).collect();
    let is_deleted = |collection: &[Value]| {
        deleted
            .iter()
            .any(|request| request.segments.len() > collection.len() && request.segments.starts_with(collection))
    };
    let is_inside = || deleted.iter().any(|request| post.segments.starts_with(&request.segments));
    let beside = |other: &&&Request| {
        other.segments != post.segments && other.segments.split_last().is_some_and(|(_, own)| own == parent)
    };
    is_own
        && !parent.is_empty()
        && !is_inside()
        && !is_deleted(&post.segments)
        && posts.iter().filter(beside).any(|other| is_deleted(&other.segments))
}

/// The maximum number of requests of setup to check.
const POSTS: usize = 64;

/// Whether a segment of a URL may be the address of what a request creates, as other requests use it: the same key, an output of the
/// request, or an ID that another step finds out.
fn is_address(post: &Request, key: &Value, segment: &Value, posts: &[&Request]) -> bool {
    let shown = segment.shown();
    let is_output = |of: &Request| of.output.as_ref().is_some_and(|output| shown.starts_with(output.as_str()));
    let is_found = shown.starts_with("{steps.") && !posts.iter().any(|other| is_output(other));
    segment == key || is_output(post) || is_found
}

/// The last segment of the address of what a request creates: the only ID from its body or its response by which other requests
/// of setup and verify use it.
fn address(post: &Request, all: &[Request]) -> Option<Value> {
    let at = post.segments.len();
    let others = all.iter().filter(|other| other.phase != PhaseKind::Cleanup && other.segments.len() > at);
    let mut found: Vec<&Value> = others
        .filter(|other| other.segments.starts_with(&post.segments))
        .map(|other| &other.segments[at])
        .filter(|key| {
            let shown = key.shown();
            post.keys.contains(&shown) || post.output.as_ref().is_some_and(|output| shown.starts_with(output.as_str()))
        })
        .collect();
    found.dedup();
    match found.as_slice() {
        [key] => Some((*key).clone()),
        [] => as_in_other_round(post, all),
        _ => None,
    }
}

/// The output of a round of a loop, if other requests use the same output of another round.
fn as_in_other_round(post: &Request, all: &[Request]) -> Option<Value> {
    let own = post.output.as_ref().filter(|_| post.is_in_loop())?;
    let (begin, rest) = own.split_once(".rounds[")?;
    let (_, step) = rest.split_once(']')?;
    let of_round = |key: &Value| {
        let shown = key.shown();
        let (_, behind) = shown.strip_prefix(begin)?.strip_prefix(".rounds[")?.split_once(']')?;
        Some(Value::name(format!("{own}{}", behind.strip_prefix(step)?)))
    };
    let under = all.iter().filter(|other| other.segments.len() > post.segments.len());
    under
        .filter(|other| other.segments.starts_with(&post.segments))
        .find_map(|other| of_round(other.segments.get(post.segments.len())?))
}

/// Things that are deleted together with what is in them.
const CONTAINERS: [&str; 26] = [
    "account",
    "album",
    "board",
    "calendar",
    "channel",
    "collection",
    "conversation",
    "database",
    "folder",
    "group",
    "list",
    "namespace",
    "notebook",
    "org",
    "organization",
    "parent",
    "playlist",
    "project",
    "repo",
    "repository",
    "room",
    "site",
    "space",
    "team",
    "tenant",
    "workspace",
];

/// `POST …/posts` with `channel_id: {steps.channel.outputs.id}`, if cleanup deletes `…/channels/{steps.channel.outputs.id}`.
fn is_inside(view: &TaskView<'_>, post: &Request, all: &[Request]) -> bool {
    let deleted = all.iter().filter(|request| request.phase == PhaseKind::Cleanup && request.method == "DELETE");
    let deleted: Vec<String> = deleted.flat_map(|request| request.segments.iter().map(Value::shown)).collect();
    let mut inside = false;
    view.task.walk(&mut |_, step| {
        if step.arg("url").is_some_and(|url| url.span == post.span) {
            inside |= step.arg("body").is_some_and(|body| names_container(body, &deleted));
        }
    });
    inside
}

/// Whether a field for a container has one of these values, which are filled in from outputs.
fn names_container(arg: &Arg<Def>, deleted: &[String]) -> bool {
    match &arg.kind {
        ArgKind::Record(fields) => fields.iter().any(|(key, arg)| {
            let key = key.value.to_ascii_lowercase();
            let key = key.strip_suffix("id").map_or(key.as_str(), |key| key.trim_end_matches('_'));
            let is_output = |text: String| text.starts_with("{steps.") && deleted.contains(&text);
            let own = CONTAINERS.contains(&key) && texts::script_text(arg).is_some_and(is_output);
            own || names_container(arg, deleted)
        }),
        ArgKind::List(items) => items.iter().any(|arg| names_container(arg, deleted)),
        _ => false,
    }
}

/// A URL without the defaults of its holes.
fn brief(url: &str) -> String {
    let mut parts = url.split(" | default(");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |url, part| url + part.find(")}").map_or("", |end| &part[end + 1..]))
}

/// Whether verify expects that the agent has deleted the object.
fn is_gone(view: &TaskView<'_>, post: &Request, key: &Value) -> bool {
    if orders::DELETES.is_match(&view.effects.prompt.shown()) {
        return true;
    }
    let mut gone = false;
    view.task.walk(&mut |phase, step| {
        let status = step.expect.as_ref().and_then(|(_, expect)| expect.get("status"));
        let missing = |status: &Arg<Def>| match &status.kind {
            ArgKind::Int(status) => matches!(status, 404 | 410),
            ArgKind::List(all) => all.iter().any(|one| matches!(one.kind, ArgKind::Int(404 | 410))),
            _ => true,
        };
        let here = || {
            let url = view.effects.acts.iter().find(|act| act.step == step.key).and_then(|act| act.thing.name.as_ref());
            url.is_some_and(|url| url.split('/').get(post.segments.len()) == Some(key))
        };
        gone |= phase == PhaseKind::Verify && status.is_some_and(missing) && here();
    });
    gone
}

/// Whether setup and cleanup consist of requests, as far as they have effects.
fn only_requests(view: &TaskView<'_>) -> bool {
    let model = view.effects;
    let sees = model.sees(PhaseKind::Setup) && model.sees(PhaseKind::Cleanup) && !model.sweeps();
    let scripts = || model.scripts.iter().filter(|script| script.view.phase != PhaseKind::Verify);
    let mut runs = scripts().flat_map(|script| &script.trace.runs);
    let mut steps = true;
    view.task.walk(&mut |phase, step| {
        let known = matches!(step.op.kind, OperationKind::Builtin("http" | "script" | "command"));
        steps &= phase == PhaseKind::Verify || known || step.op.signature.control != Control::Leaf;
    });
    sees && steps
        && runs.all(|run| HARMLESS.contains(&run.statement.name()))
        && !scripts().any(|script| script.view.content.text.contains("trap "))
}

/// `create_event` twice in setup, if cleanup deletes by ID only what one of them has created.
fn siblings(view: &TaskView<'_>, out: &mut Diagnostics) {
    let mut steps: Vec<(PhaseKind, &Step<Def>)> = Vec::new();
    view.task.walk(&mut |phase, step| {
        if step.op.signature.control == Control::Leaf {
            steps.push((phase, step));
        }
    });
    let of = |phase: PhaseKind| steps.iter().filter(move |(at, _)| *at == phase).map(|(_, step)| *step);
    let makes = |step: &&Step<Def>| CREATES.is_match(&step.op.name) && is_tool(step) && !may_fail(step);
    let made: Vec<&Step<Def>> = of(PhaseKind::Setup).filter(makes).collect();
    let deletes = |step: &Step<Def>| REMOVES.is_match(&step.op.name) && is_tool(step) && names(step, "");
    if made.len() < 2
        || of(PhaseKind::Cleanup).next().is_none()
        || !of(PhaseKind::Cleanup).all(deletes)
        || orders::DELETES.is_match(&view.effects.prompt.shown())
    {
        return;
    }
    let cleaned = |step: &Step<Def>| {
        let id = step.id.as_ref()?;
        of(PhaseKind::Cleanup).find(|gone| names(gone, &id.value))
    };
    for step in &made {
        let other = made.iter().find(|other| other.op.name == step.op.name && cleaned(other).is_some());
        let Some((other, gone)) = other.and_then(|other| Some((other, cleaned(other)?))) else { continue };
        let id = step.id.as_ref().map(|id| id.value.as_str());
        // What is inside another resource is deleted with it.
        let inside = made.iter().filter_map(|other| other.id.as_ref()).any(|other| names(step, &other.value));
        let used = id.is_some_and(|id| steps.iter().any(|(_, step)| deletes(step) && names(step, id)));
        if cleaned(step).is_none() && !inside && !used {
            let id = other.id.as_ref().map_or("", |id| &id.value);
            out.push(
                Diagnostic::new(
                    &RESOURCE_NOT_RELEASED,
                    step.key,
                    format!("what `{}` creates here is never deleted", step.op.name),
                )
                .label(gone.key, format!("this deletes only what `{id}` has created"))
                .help("delete it in cleanup by the ID that this step returns"),
            );
        }
    }
}

fn is_tool(step: &Step<Def>) -> bool {
    matches!(step.op.kind, OperationKind::Tool { .. } | OperationKind::Extension { .. })
}

/// Whether a step accepts or expects that its operation fails.
fn may_fail(step: &Step<Def>) -> bool {
    step.continue_on_error.is_some_and(|lenient| lenient.value)
        || step.expect.as_ref().is_some_and(|(_, expect)| expect.get("isError").is_some())
}

/// Whether an argument of a step contains an output of the step with this ID, or of any step if it is empty.
fn names(step: &Step<Def>, id: &str) -> bool {
    let begin = if id.is_empty() { "{steps.".to_owned() } else { format!("{{steps.{id}.") };
    let mut found = false;
    step.args.iter().for_each(|(_, arg)| {
        arg.templates(&mut |template| found |= template.holes().any(|hole| hole.text.starts_with(&begin)));
    });
    found
}

static CREATES: Ascii = ascii(r"(?i)(?:^|[._-])(?:create|add|new|insert|post|open|upload|book|schedule)(?:[._-]|$)");
static REMOVES: Ascii = ascii(r"(?i)(?:^|[._-])(?:delete|remove|cancel|destroy|drop|archive|trash)(?:[._-]|$)");
