//! Whether a server conforms to the evals primitive: numbered requirements, each of which is tested. No tool is called.

use std::{collections::HashSet, time::Duration};

use indexmap::IndexMap;
use serde_json::{Map, Value, json};
use tokio::sync::broadcast::Receiver;

use super::Server;
use crate::{
    conformance::{
        Demand::{Must, Should},
        Kept, Requirement, Rule,
    },
    decode::SECRET_IN_CLEAR,
    diagnostic::Diagnostics,
    mcp::{CallError, Notification},
    primitive::{self, CAPABILITY, Grading, LIST_CHANGED, Level, METHOD},
    source::Sources,
    yaml,
};

/// Every requirement. A number is never reused.
pub const REQUIREMENTS: [Rule; 41] = [
    Rule { id: "E1", demand: Must, text: "the server declares `evals` at the top of its capabilities" },
    Rule { id: "E2", demand: Must, text: "the capability is an object, and `listChanged`, if present, is a boolean" },
    Rule { id: "E3", demand: Must, text: "`evals/list` is answered to a client that declares no capability" },
    Rule {
        id: "E4",
        demand: Must,
        text: "`evals/list` does not require params: it returns the same page without params and with empty params",
    },
    Rule { id: "E5", demand: Must, text: "the result has a list `evals`" },
    Rule { id: "E6", demand: Must, text: "`nextCursor`, if present, is a string" },
    Rule { id: "E7", demand: Must, text: "every cursor that is returned is accepted, and the pages come to an end" },
    Rule { id: "E8", demand: Must, text: "no eval is on two pages" },
    Rule { id: "E9", demand: Should, text: "an unknown cursor is rejected with -32602" },
    Rule { id: "E10", demand: Should, text: "a cursor is stable: using it again returns the same page" },
    Rule { id: "E11", demand: Must, text: "with `level`, only evals of that level are listed" },
    Rule { id: "E12", demand: Must, text: "with `level`, no eval of that level is left out" },
    Rule { id: "E13", demand: Must, text: "an unknown level is rejected with an error" },
    Rule { id: "E14", demand: Must, text: "each eval is an object, and its `id` is a non-empty string" },
    Rule { id: "E15", demand: Must, text: "ids are unique" },
    Rule {
        id: "E16",
        demand: Must,
        text: "ids are stable: they are the same when the list is read again, and for another client",
    },
    Rule { id: "E17", demand: Must, text: "`name` is a string" },
    Rule { id: "E18", demand: Must, text: "`description`, if present, is a string" },
    Rule { id: "E19", demand: Must, text: "`gradingType` is `exact-match` or `llm-as-judge`" },
    Rule { id: "E20", demand: Must, text: "`input.type` is `invocation`, `execution` or `scenario`" },
    Rule { id: "E21", demand: Must, text: "`expected` is an object, and its `type` equals `gradingType`" },
    Rule { id: "E22", demand: Must, text: "no scenario is graded by `exact-match`" },
    Rule {
        id: "E23",
        demand: Must,
        text: "the input of an invocation or a scenario has at least one message in `messages`",
    },
    Rule { id: "E24", demand: Must, text: "the `role` of a message is `user` or `assistant`" },
    Rule { id: "E25", demand: Must, text: "the `content` of a message is an MCP content block, or a list of them" },
    Rule { id: "E26", demand: Must, text: "the input of an execution has a `toolName`" },
    Rule { id: "E27", demand: Must, text: "the input of an execution has `arguments`, which is an object" },
    Rule { id: "E28", demand: Must, text: "`maxTurns`, if present, is a positive integer" },
    Rule {
        id: "E29",
        demand: Must,
        text: "in an exact match, `toolName`, if present, is a string, and `arguments`, if present, is an object",
    },
    Rule { id: "E30", demand: Must, text: "the expectation of a judged eval has a `rubric`" },
    Rule {
        id: "E31",
        demand: Must,
        text: "only a server that declares `listChanged` sends `notifications/evals/list_changed`",
    },
    Rule { id: "E32", demand: Must, text: "all concurrent requests for the list are answered" },
    Rule { id: "E33", demand: Should, text: "an eval has no field `level`: `input.type` is its level" },
    Rule { id: "E34", demand: Should, text: "an exact match has an expectation that its level compares" },
    Rule { id: "E35", demand: Should, text: "the tools that evals name are listed by `tools/list`" },
    Rule { id: "E36", demand: Should, text: "an execution of a tool that is declared destructive has a `description`" },
    Rule { id: "E37", demand: Should, text: "no eval contains anything that looks like a secret" },
    Rule { id: "E38", demand: Must, text: "`tools/list` is answered" },
    Rule { id: "E39", demand: Must, text: "an unknown method is rejected with -32601" },
    Rule {
        id: "E40",
        demand: Must,
        text: "a server that declares `evals` in `initialize` also declares it in `server/discover` (2026-07-28)",
    },
    Rule { id: "E41", demand: Must, text: "without a handshake (2026-07-28), `evals/list` returns the same evals" },
];

/// Maximum number of pages before a list is assumed to be endless.
const PAGES: usize = 10_000;
/// Timeout for answers of the other era: a server may not answer unknown requests.
const OTHER_ERA: Duration = Duration::from_secs(5);
/// How long to wait for a notification after a listing.
const AFTERWARDS: Duration = Duration::from_millis(200);
/// Number of concurrent requests.
const AT_ONCE: usize = 8;
const NOBODYS: &str = "gevals-conformance-no-such";

/// Tests all requirements. `again` is a second connection to the server; `None`: the server ships no evals, and does
/// not have to.
pub async fn conformance(server: &Server, again: &Server) -> Option<Vec<Requirement>> {
    let mut changes = server.client.notifications();
    let top = server.client.server().and_then(|said| said.pointer("/capabilities")?.get(CAPABILITY)).cloned();
    let first = server.client.request(METHOD, None).await;
    if let (None, None, Err(CallError::Protocol { code: -32601, .. })) = (&top, &server.capability, &first) {
        return None;
    }
    let mut out: IndexMap<&'static str, Kept> = IndexMap::new();
    out.insert(
        "E1",
        kept(top.is_some(), || match &server.capability {
            Some(_) => "it is only declared elsewhere".to_owned(),
            None => "it is not declared".to_owned(),
        }),
    );
    let capability = top.or(server.capability.clone());
    if let Some(capability) = &capability {
        let right = capability.is_object() && capability.get("listChanged").is_none_or(Value::is_boolean);
        out.insert("E2", kept(right, || format!("it is {capability}")));
    }
    let empty = server.client.request(METHOD, Some(json!({}))).await;
    // Whether params are needed is a separate requirement.
    out.insert(
        "E4",
        match (&first, &empty) {
            (Ok(first), Ok(empty)) => kept(ids_of(empty) == ids_of(first), || "the two pages differ".to_owned()),
            (Ok(_), Err(error)) => Kept::No(format!("with empty params: {}", server.lost(error))),
            (Err(error), Ok(_)) => Kept::No(format!("without params: {}", server.lost(error))),
            (Err(_), Err(_)) => Kept::Untried("there is no list".to_owned()),
        },
    );
    let listed = match first.or(empty) {
        Ok(first) => {
            out.insert("E3", Kept::Yes);
            read(server, again, &first, &mut out).await
        }
        Err(error) => {
            out.insert("E3", Kept::No(server.lost(&error)));
            None
        }
    };
    base(server, listed.as_deref(), &mut out).await;
    if let Some(listed) = &listed {
        without_handshake(again, listed, &mut out).await;
    }
    let may = capability.as_ref().and_then(|c| c.get("listChanged")) == Some(&Value::Bool(true));
    let notified = changed(&mut changes).await;
    out.insert("E31", kept(may || !notified, || "it was sent, but `listChanged` is not declared".to_owned()));
    // A list may change; then differences between listings are not violations. If ids are not stable, E16 reports it.
    let unlike = match out.get("E16") {
        _ if notified && may => {
            Some((&["E4", "E8", "E10", "E11", "E12", "E16", "E41"][..], "the list changed meanwhile"))
        }
        Some(Kept::No(_)) => Some((&["E4", "E10", "E12", "E41"][..], "the ids are not stable")),
        _ => None,
    };
    for id in unlike.iter().flat_map(|(ids, _)| *ids) {
        if let (Some(Kept::No(_)), Some((_, why))) = (out.get(id), unlike) {
            out.insert(id, Kept::Untried(why.to_owned()));
        }
    }
    let untried = |rule: &Rule| Kept::Untried(untried(rule.id, listed.as_deref()));
    let requirement =
        |rule: Rule| Requirement { kept: out.shift_remove(rule.id).unwrap_or_else(|| untried(&rule)), rule };
    Some(REQUIREMENTS.into_iter().map(requirement).collect())
}

fn kept(good: bool, why: impl FnOnce() -> String) -> Kept {
    if good { Kept::Yes } else { Kept::No(why()) }
}

/// Why a requirement was not tested.
fn untried(id: &str, listed: Option<&[Value]>) -> String {
    match (id, listed) {
        ("E2", _) => "no capability is declared",
        (_, None) => "there is no list",
        ("E40" | "E41", _) => "the server speaks the protocol with a handshake only",
        ("E10", _) => "there is only one page",
        ("E38" | "E35" | "E36", _) => "the server declares no tools",
        _ => "no eval is of that kind",
    }
    .to_owned()
}

async fn changed(changes: &mut Receiver<Notification>) -> bool {
    let coming = async {
        loop {
            match changes.recv().await {
                Ok(notification) if notification.method == LIST_CHANGED => return true,
                Err(tokio::sync::broadcast::error::RecvError::Closed) => return false,
                _ => {}
            }
        }
    };
    tokio::time::timeout(AFTERWARDS, coming).await.unwrap_or_default()
}

/// A list, and the cursors of its pages.
#[derive(Default)]
struct List {
    pages: Vec<Value>,
    cursors: Vec<String>,
}

impl List {
    fn evals(&self) -> Vec<Value> {
        self.pages.iter().flat_map(items).cloned().collect()
    }
}

fn items(page: &Value) -> impl Iterator<Item = &Value> {
    page.get("evals").and_then(Value::as_array).into_iter().flatten()
}

fn ids(evals: &[Value]) -> Vec<&str> {
    evals.iter().filter_map(|eval| eval.get("id")?.as_str()).collect()
}

/// Follows the cursors from a page to the end.
async fn follow(server: &Server, first: Value, level: Option<Level>, more: Option<&Value>) -> Result<List, String> {
    let mut list = List::default();
    let mut seen = HashSet::new();
    let mut page = first;
    loop {
        let next = page.get("nextCursor").and_then(Value::as_str).map(str::to_owned);
        list.pages.push(page);
        let Some(cursor) = next else { return Ok(list) };
        if !seen.insert(cursor.clone()) {
            return Err("a cursor was returned twice: the pages form a cycle".to_owned());
        }
        if list.pages.len() == PAGES {
            return Err(format!("there are more than {PAGES} pages"));
        }
        let mut params = with_level(level, more);
        params.insert("cursor".to_owned(), cursor.as_str().into());
        let answer = server.client.request(METHOD, Some(Value::Object(params))).await;
        page = answer.map_err(|error| format!("the cursor `{cursor}` is not accepted: {}", server.lost(&error)))?;
        list.cursors.push(cursor);
    }
}

fn with_level(level: Option<Level>, more: Option<&Value>) -> Map<String, Value> {
    let mut params = more.and_then(Value::as_object).cloned().unwrap_or_default();
    if let Some(level) = level {
        params.insert("level".to_owned(), level.name().into());
    }
    params
}

/// Tests the requirements on the list; returns the evals, if there is a list.
async fn read(
    server: &Server,
    again: &Server,
    first: &Value,
    out: &mut IndexMap<&'static str, Kept>,
) -> Option<Vec<Value>> {
    let is_list = first.get("evals").is_some_and(Value::is_array);
    out.insert("E5", kept(is_list, || "there is none".to_owned()));
    let cursor = |page: &Value| page.get("nextCursor").filter(|cursor| !cursor.is_string()).cloned();
    out.insert("E6", cursor(first).map_or(Kept::Yes, |cursor| Kept::No(format!("it is {cursor}"))));
    if !is_list {
        return None;
    }
    let list = match follow(server, first.clone(), None, None).await {
        Ok(list) => {
            out.insert("E7", Kept::Yes);
            list
        }
        Err(why) => {
            out.insert("E7", Kept::No(why));
            List { pages: vec![first.clone()], cursors: Vec::new() }
        }
    };
    for page in &list.pages {
        if !page.get("evals").is_some_and(Value::is_array) {
            out.insert("E5", Kept::No("a later page has none".to_owned()));
        }
        if let Some(cursor) = cursor(page) {
            out.insert("E6", Kept::No(format!("it is {cursor}")));
        }
    }
    twice(&list, out);
    let evals = list.evals();
    let unknown = server.client.request(METHOD, Some(json!({"cursor": NOBODYS}))).await;
    out.insert(
        "E9",
        match unknown {
            Err(CallError::Protocol { code: -32602, .. }) => Kept::Yes,
            Err(error) => Kept::No(server.lost(&error)),
            Ok(_) => Kept::No("it is answered with a page".to_owned()),
        },
    );
    if let (Some(cursor), Some(page)) = (list.cursors.first(), list.pages.get(1)) {
        let same = server.client.request(METHOD, Some(json!({"cursor": cursor}))).await;
        out.insert(
            "E10",
            match same {
                Ok(same) => kept(ids_of(&same) == ids_of(page), || "it returns a different page".to_owned()),
                Err(error) => Kept::No(server.lost(&error)),
            },
        );
    }
    levels(server, &evals, out).await;
    let mut stable = Kept::Yes;
    for (who, what) in [(server, "when the list is read again"), (again, "for another client")] {
        let found = match who.client.request(METHOD, Some(json!({}))).await {
            Ok(first) => follow(who, first, None, None).await,
            Err(error) => Err(who.lost(&error)),
        };
        let found = found.map(|list| list.evals());
        match found.as_deref().map(ids) {
            Ok(found) if as_set(&found) == as_set(&ids(&evals)) => {}
            Ok(_) => stable = Kept::No(format!("they differ {what}")),
            // If the pages do not end, E7 reports it.
            Err(_) if matches!(out.get("E7"), Some(Kept::No(_))) => {}
            Err(why) => stable = Kept::No(format!("{what}: {why}")),
        }
    }
    out.insert("E16", stable);
    shapes(&evals, out);
    let requests = (0..AT_ONCE).map(|_| server.client.request(METHOD, Some(json!({}))));
    let answers = futures_util::future::join_all(requests).await;
    let odd = answers.iter().find_map(|answer| match answer {
        Ok(page) => (ids_of(page).len() != ids_of(first).len()).then(|| "one answer differs".to_owned()),
        Err(error) => Some(server.lost(error)),
    });
    out.insert("E32", odd.map_or(Kept::Yes, Kept::No));
    Some(evals)
}

fn ids_of(page: &Value) -> Vec<Option<&Value>> {
    items(page).map(|eval| eval.get("id")).collect()
}

fn as_set<'a>(ids: &[&'a str]) -> HashSet<&'a str> {
    ids.iter().copied().collect()
}

/// The same eval on two pages, and an id that several evals have, are separate violations.
fn twice(list: &List, out: &mut IndexMap<&'static str, Kept>) {
    let mut known: IndexMap<&str, (usize, &Value)> = IndexMap::new();
    let (mut repeated, mut shared) = (Kept::Yes, Kept::Yes);
    for (number, page) in list.pages.iter().enumerate() {
        for eval in items(page) {
            let Some(id) = eval.get("id").and_then(Value::as_str) else { continue };
            match known.get(id) {
                Some((other, same)) if *other != number && *same == eval => {
                    repeated = Kept::No(format!("`{id}` is on the pages {} and {}", other + 1, number + 1));
                }
                Some(_) => shared = Kept::No(format!("`{id}` occurs twice in the list")),
                None => drop(known.insert(id, (number, eval))),
            }
        }
    }
    out.insert("E8", repeated);
    out.insert("E15", shared);
}

async fn levels(server: &Server, evals: &[Value], out: &mut IndexMap<&'static str, Kept>) {
    let (mut only, mut all) = (Kept::Yes, Kept::Yes);
    for level in Level::ALL {
        let of = |eval: &Value| eval.pointer("/input/type").and_then(Value::as_str) == Some(level.name());
        let found = match server.client.request(METHOD, Some(Value::Object(with_level(Some(level), None)))).await {
            Ok(first) => follow(server, first, Some(level), None).await,
            Err(error) => Err(server.lost(&error)),
        };
        let found = match found {
            Ok(list) => list.evals(),
            Err(why) => {
                // If the pages do not end, E7 reports it.
                if !matches!(out.get("E7"), Some(Kept::No(_))) {
                    all = Kept::No(format!("`{level}`: {why}"));
                }
                continue;
            }
        };
        if let Some(other) = found.iter().find(|eval| !of(eval) && known_level(eval)) {
            only = Kept::No(format!("with `{level}`, {} is listed", other["id"]));
        }
        let found = as_set(&ids(&found));
        let missing = evals.iter().filter(|eval| of(eval)).find_map(|eval| {
            let id = eval.get("id")?.as_str()?;
            (!found.contains(id)).then_some(id)
        });
        if let Some(id) = missing {
            all = Kept::No(format!("with `{level}`, `{id}` is not listed"));
        }
    }
    out.insert("E11", only);
    out.insert("E12", all);
    let unknown = server.client.request(METHOD, Some(json!({"level": NOBODYS}))).await;
    out.insert(
        "E13",
        match unknown {
            Err(CallError::Protocol { .. }) => Kept::Yes,
            Err(error) => Kept::No(server.lost(&error)),
            Ok(_) => Kept::No("it is answered with a list".to_owned()),
        },
    );
}

fn known_level(eval: &Value) -> bool {
    eval.pointer("/input/type").and_then(Value::as_str).and_then(Level::named).is_some()
}

/// Tests the requirements on single evals.
fn shapes(evals: &[Value], out: &mut IndexMap<&'static str, Kept>) {
    let level =
        |level: Level| evals.iter().any(|e| e.pointer("/input/type").and_then(Value::as_str) == Some(level.name()));
    let graded = |by: Grading| evals.iter().any(|e| e.get("gradingType").and_then(Value::as_str) == Some(by.name()));
    let asks = level(Level::Invocation) || level(Level::Scenario);
    let turns = evals.iter().any(|e| e.pointer("/input/maxTurns").is_some());
    let tried = [
        (!evals.is_empty(), &["E14", "E17", "E18", "E19", "E20", "E21", "E33", "E37"][..]),
        (level(Level::Scenario), &["E22"]),
        (asks, &["E23", "E24", "E25"]),
        (level(Level::Execution), &["E26", "E27"]),
        (turns, &["E28"]),
        (graded(Grading::ExactMatch), &["E29", "E34"]),
        (graded(Grading::LlmAsJudge), &["E30"]),
    ];
    for id in tried.into_iter().filter(|(tried, _)| *tried).flat_map(|(_, ids)| ids) {
        out.insert(id, Kept::Yes);
    }
    for (id, why) in evals.iter().flat_map(primitive::faults) {
        // Only the first violation is reported.
        if !matches!(out.get(id), Some(Kept::No(_))) {
            out.insert(id, Kept::No(why));
        }
    }
    let (text, sources, mut found) = (json!({"evals": evals}).to_string(), Sources::default(), Diagnostics::default());
    let file = sources.receive(METHOD, text.as_str());
    if let Ok(tree) = yaml::parse(file, text, &mut found) {
        let document = primitive::page(tree, &mut found);
        primitive::check(&[document], None, &mut found);
        if let Some(secret) = found.iter().find(|d| std::ptr::eq(d.rule, &raw const SECRET_IN_CLEAR)) {
            out.insert("E37", Kept::No(secret.message.clone()));
        }
    }
}

/// Tests the requirements on any server, and on the relation of evals to its tools.
async fn base(server: &Server, evals: Option<&[Value]>, out: &mut IndexMap<&'static str, Kept>) {
    if server.client.offers("tools") {
        match server.client.list_tools().await {
            Ok(tools) => {
                out.insert("E38", Kept::Yes);
                if let Some(evals) = evals {
                    against(&tools, evals, out);
                }
            }
            Err(error) => drop(out.insert("E38", Kept::No(server.lost(&error)))),
        }
    }
    let unknown = server.client.request(&format!("evals/{NOBODYS}"), None).await;
    out.insert(
        "E39",
        match unknown {
            Err(CallError::Protocol { code: -32601, .. }) => Kept::Yes,
            Err(error) => Kept::No(server.lost(&error)),
            Ok(result) => Kept::No(format!("it is answered with {result}")),
        },
    );
}

fn against(tools: &[Value], evals: &[Value], out: &mut IndexMap<&'static str, Kept>) {
    let tool = |name: &str| tools.iter().find(|tool| tool["name"] == name);
    let (mut known, mut documented) = (Kept::Yes, Kept::Yes);
    for eval in evals {
        let called = eval.pointer("/input/toolName").and_then(Value::as_str);
        let named = called.or_else(|| eval.pointer("/expected/toolName").and_then(Value::as_str));
        let Some(name) = named else { continue };
        let Some(tool) = tool(name) else {
            known = Kept::No(format!("{} names the tool `{name}`, which is not listed", eval["id"]));
            continue;
        };
        let destroys = tool.pointer("/annotations/destructiveHint") == Some(&Value::Bool(true));
        let described = eval.get("description").and_then(Value::as_str).is_some_and(|d| !d.trim().is_empty());
        if called.is_some() && destroys && !described {
            documented = Kept::No(format!("{} calls `{name}`, but has no description", eval["id"]));
        }
    }
    out.insert("E35", known);
    out.insert("E36", documented);
}

/// Tests the requirements without a handshake (2026-07-28), where every request identifies its sender.
async fn without_handshake(server: &Server, evals: &[Value], out: &mut IndexMap<&'static str, Kept>) {
    let meta = json!({"_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "gevals", "version": env!("CARGO_PKG_VERSION")},
        "io.modelcontextprotocol/clientCapabilities": {},
    }});
    let asked = server.client.request("server/discover", Some(meta.clone()));
    let Ok(Ok(said)) = tokio::time::timeout(OTHER_ERA, asked).await else { return };
    let declared = said.pointer("/capabilities").is_some_and(|capabilities| capabilities.get(CAPABILITY).is_some());
    let greeted = server.client.server().is_some_and(|said| said.pointer("/capabilities/evals").is_some());
    out.insert("E40", kept(declared || !greeted, || "`evals` is not declared there".to_owned()));
    let asked = async {
        let first = server.client.request(METHOD, Some(meta.clone())).await.map_err(|error| server.lost(&error))?;
        follow(server, first, None, Some(&meta)).await
    };
    out.insert(
        "E41",
        match asked.await {
            Ok(list) => {
                let found = list.evals();
                kept(as_set(&ids(&found)) == as_set(&ids(evals)), || "they differ".to_owned())
            }
            Err(_) if matches!(out.get("E7"), Some(Kept::No(_))) => {
                Kept::Untried("not all pages can be read".to_owned())
            }
            Err(why) => Kept::No(why),
        },
    );
}
