//! Plans as one page that needs nothing else: boxes in frames, arrows drawn by a script, every step with its source.
//!
//! Whatever an author wrote is text: escaped in the document, escaped again in the data beside it, put in place by
//! `textContent`. The page's policy allows its own style and its own script, by their digests, and no request at all.

use std::{collections::HashMap, fmt::Write};

use serde::Serialize;

use super::{
    PlanFormat, View, facts, line,
    picture::{Frame, FrameKind, Item, LinkKind, Most, Node, picture},
    stand_ins, together,
};
use crate::{
    diagnostic::visible,
    page::{self, Page, escaped},
    plan::{ActionIx, ActionKind, Plan, wire},
    secrets::Secrets,
    ty::duration,
};

pub const FORMAT: PlanFormat =
    PlanFormat { name: "html", summary: "a self-contained page: zoom, search, sources, data flow", render };

const STYLE: &str = include_str!("html/page.css");
const SCRIPT: &str = include_str!("html/page.js");

/// More tasks than this begin folded.
const OPEN_TASKS: usize = 6;
/// Of an excerpt.
const MOST_LINES: usize = 60;
const MOST_CHARS: usize = 4_000;

/// What the script knows of the picture; boxes and frames are in the document.
#[derive(Serialize)]
struct Data {
    nodes: Vec<Details>,
    links: Vec<LinkData>,
    tasks: Vec<TaskData>,
}

#[derive(Serialize, Default)]
struct Details {
    id: String,
    task: String,
    phase: String,
    meaning: String,
    facts: Vec<(&'static str, String)>,
    #[serde(skip_serializing_if = "String::is_empty")]
    place: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    source: String,
}

#[derive(Serialize)]
struct LinkData {
    from: usize,
    to: usize,
    kind: &'static str,
    label: String,
}

#[derive(Serialize)]
struct TaskData {
    name: String,
    facts: Vec<(&'static str, String)>,
}

fn render(views: &[View<'_>]) -> String {
    let mut plans = Vec::new();
    let view = &together(views, &mut plans);
    let picture = picture(view, Most { nodes: 20_000, links: 100_000 });
    let mut body = String::new();
    let folded = view.plans.len() > OPEN_TASKS;
    let mut boxes = Vec::new();
    items(&picture.items, folded, &mut body, &mut boxes);
    boxes.sort_by_key(|node| node.key);
    let secrets = view.plans.iter().flat_map(wire::literal_secrets).collect::<Vec<_>>();
    let hidden = Hidden::new(secrets);
    let data = Data {
        nodes: boxes.iter().map(|node| details(view, node, &hidden)).collect(),
        links: picture
            .links
            .iter()
            .filter_map(|link| {
                let kind = match link.kind {
                    LinkKind::Data => "data",
                    LinkKind::Finally => "pending",
                    LinkKind::Order | LinkKind::Branch | LinkKind::Layout => return None,
                };
                Some(LinkData { from: link.from, to: link.to, kind, label: link.label.clone() })
            })
            .collect(),
        tasks: view.plans.iter().map(|plan| task_data(view, plan)).collect(),
    };
    let json = serde_json::to_string(&data).unwrap_or_default();
    let (title, about) = (escaped(&picture.title), escaped(&about(view)));
    let body = format!(
        "<header>\n<h1 dir=\"auto\">{title}</h1>\n<p class=\"about\">{about}</p>\n{CONTROLS}</header>\n\
         <main id=\"stage\" tabindex=\"0\" aria-label=\"plan\"><div id=\"canvas\">\n{body}</div></main>\n\
         <aside id=\"panel\" aria-live=\"polite\" aria-label=\"details\" hidden></aside>"
    );
    let title = format!("{} · plan", picture.title);
    let page = Page { title: &title, style: STYLE, body: &body, script: SCRIPT };
    page.text(json.len(), |out| page::data(out, "data", &json))
}

const CONTROLS: &str = "\
<div class=\"controls\" role=\"toolbar\" aria-label=\"view\">\
<input id=\"search\" type=\"search\" placeholder=\"Search (/)\" aria-label=\"search steps\">\
<span id=\"found\" role=\"status\"></span>\
<button id=\"fold\" title=\"fold or unfold all tasks (f)\">Fold all</button>\
<button id=\"out\" title=\"zoom out (-)\" aria-label=\"zoom out\">−</button>\
<button id=\"in\" title=\"zoom in (+)\" aria-label=\"zoom in\">+</button>\
<button id=\"fit\" title=\"show everything (0)\">Fit</button></div>\n";

fn about(view: &View<'_>) -> String {
    let tasks = crate::builtin::count(view.plans.len(), "task", "tasks");
    match view.eval {
        Some(eval) => {
            let servers: Vec<_> = eval.servers.iter().map(|s| s.name.value.as_str()).collect();
            let servers =
                if servers.is_empty() { String::new() } else { format!(" · servers {}", servers.join(", ")) };
            let stand_ins: String = stand_ins(eval).into_iter().map(|means| format!(" · {means}")).collect();
            line(&format!("{tasks} · agent {}{servers}{stand_ins}", eval.agent_name), true)
        }
        None => tasks,
    }
}

fn items<'a>(items: &'a [Item], folded: bool, out: &mut String, boxes: &mut Vec<&'a Node>) {
    for item in items {
        match item {
            Item::Node(node) => {
                boxes.push(node);
                let kind = node.kind.class();
                let outcome = node.outcome.map_or_else(String::new, |o| format!(" {}", o.name()));
                let _ = writeln!(
                    out,
                    "<button class=\"node {kind}{outcome}\" data-n=\"{}\"><b dir=\"auto\">{}</b><span dir=\"auto\">{}</span></button>",
                    node.key,
                    escaped(&node.title),
                    escaped(&node.text),
                );
            }
            Item::Frame(Frame { key, title, kind, outcome, items: inner }) => {
                let class = match kind {
                    FrameKind::Task => "task",
                    FrameKind::Phase => "phase",
                    FrameKind::Step => "nest",
                    FrameKind::Block => "block",
                    FrameKind::Branch => "branch",
                    FrameKind::Grid => "grid",
                };
                let outcome = outcome.map_or_else(String::new, |o| format!(" {}", o.name()));
                let open = !(folded && *kind == FrameKind::Task);
                let _ = writeln!(
                    out,
                    "<section class=\"frame {class}{outcome}{}\" data-f=\"{key}\"><button class=\"head\" aria-expanded=\"{open}\" dir=\"auto\">{}</button><div class=\"items\">",
                    if open { "" } else { " folded" },
                    escaped(title),
                );
                self::items(inner, folded, out, boxes);
                out.push_str("</div></section>\n");
            }
        }
    }
}

fn details(view: &View<'_>, node: &Node, hidden: &Hidden) -> Details {
    let Some((plan, ix)) = node.stands_for.and_then(|(at, ix)| Some((view.plans.get(at)?, ix))) else {
        return Details { meaning: node.text.clone(), id: node.title.clone(), ..Details::default() };
    };
    let task = line(&plan.task.name.value, true);
    match ix {
        Some(ix) => step(view, plan, ix, task, node, hidden),
        None => Details {
            id: node.title.clone(),
            meaning: node.text.clone(),
            place: line(&plan.task.path.display().to_string(), true),
            facts: all_facts(plan, view),
            task,
            ..Details::default()
        },
    }
}

fn step(view: &View<'_>, plan: &Plan, ix: ActionIx, task: String, node: &Node, hidden: &Hidden) -> Details {
    let action = plan.action(ix);
    let mut facts = Vec::new();
    if let Some(says) = view.proof(plan, &action.id) {
        facts.push(("proof", line(&says.chars().take(MOST_CHARS).collect::<String>(), true)));
    } else if let Some(done) = view.done(plan, action) {
        let took = done.duration.map_or_else(String::new, |d| format!(" in {}", duration::format(d)));
        facts.push(("outcome", format!("{}{took}", done.outcome.name())));
        if let Some(why) = view.reasons.and_then(|why| why(&plan.task.name.value, &action.id)) {
            let part = |text: &str| line(&text.chars().take(MOST_CHARS).collect::<String>(), true);
            facts.extend(why.iter().map(|(name, text)| (*name, part(text))));
        }
    }
    match &action.kind {
        ActionKind::Step(step) => {
            facts.push(("step", line(&step.op.name, true)));
            if let Some(limit) = action.timeout {
                facts.push(("at most", duration::format(limit)));
            }
            if action.continue_on_error {
                facts.push(("on error", "goes on".to_owned()));
            }
        }
        ActionKind::Assertion(_) => facts.push(("step", "assertion".to_owned())),
        ActionKind::Agent(_) => facts.push(("step", "the agent's turn".to_owned())),
    }
    let (mut place, mut source) = (String::new(), String::new());
    if let Some(sources) = view.sources {
        let text = sources.get(action.span.file);
        let start = text.position(action.span.start);
        place = line(&format!("{}:{}", text.path().display(), start.line), true);
        // From the beginning of its line, so that indentation is even.
        let indent = action.span.start - (start.column as u32 - 1).min(action.span.start);
        let lead = text.text().get(indent as usize..action.span.start as usize).unwrap_or_default();
        let lead = if lead.chars().all(|c| c == ' ' || c == '-') { lead.replace('-', " ") } else { String::new() };
        source = excerpt(&hidden.mask(&format!("{lead}{}", text.slice(action.span))));
    }
    if source.is_empty()
        && let ActionKind::Agent(turn) = &action.kind
    {
        source = excerpt(&hidden.mask(&turn.prompt.display()));
    }
    Details {
        id: line(&action.id, true),
        task,
        phase: action.phase.name().to_owned(),
        meaning: node.text.clone(),
        facts,
        place,
        source,
    }
}

/// A few lines, without the indentation they share, harmless to readers.
fn excerpt(text: &str) -> String {
    let head: String = text.chars().take(MOST_CHARS).collect();
    let lines: Vec<&str> = head.lines().take(MOST_LINES).collect();
    let indent = |l: &&str| l.len() - l.trim_start_matches(' ').len();
    let shared = lines.iter().filter(|l| !l.trim().is_empty()).map(indent).min().unwrap_or(0);
    let mut out = lines.iter().map(|l| visible(l.get(shared..).unwrap_or(""))).collect::<Vec<_>>().join("\n");
    if head.len() < text.len() || head.lines().count() > MOST_LINES {
        out.push_str("\n…");
    }
    out
}

fn task_data(view: &View<'_>, plan: &Plan) -> TaskData {
    TaskData { name: line(&plan.task.name.value, true), facts: all_facts(plan, view) }
}

/// What is known of a task, and what `gevals prove` says of it.
fn all_facts(plan: &Plan, view: &View<'_>) -> Vec<(&'static str, String)> {
    let proof = view.proof(plan, "").map(|says| ("proof", says.chars().take(MOST_CHARS).collect::<String>()));
    let known = facts(plan, view).into_iter().map(|(name, values)| (name, values.join(" · ")));
    proof.into_iter().chain(known).map(|(name, value)| (name, line(&value, true))).collect()
}

/// Literal secrets, to be kept out of excerpts.
struct Hidden {
    long: Secrets,
    /// Too short to be looked for anywhere but in whole words.
    short: HashMap<String, ()>,
}

impl Hidden {
    fn new(values: Vec<String>) -> Self {
        let short = values.iter().filter(|v| !v.is_empty()).map(|v| (v.clone(), ())).collect();
        Self { long: Secrets::new(values), short }
    }

    fn mask(&self, text: &str) -> String {
        let text = self.long.mask(text);
        if self.short.is_empty() {
            return text.into_owned();
        }
        let word = |c: char| !c.is_alphanumeric();
        text.split_inclusive(word)
            .map(|part| match self.short.contains_key(part.trim_end_matches(word)) {
                true => format!("{}{}", crate::secrets::MASK, &part[part.trim_end_matches(word).len()..]),
                false => part.to_owned(),
            })
            .collect()
    }
}
