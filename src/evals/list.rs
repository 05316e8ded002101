//! Lists the evals of a server: every page, even if the list changes in between.

use std::collections::HashSet;

use serde_json::{Map, Value};
use thiserror::Error;

use super::Server;
use crate::{
    diagnostic::Diagnostics,
    mcp::CallError,
    primitive::{self, Document, Eval, LIST_CHANGED, Level, METHOD},
    source::Sources,
    yaml,
};

/// Maximum number of pages before a list is assumed to be endless.
const PAGES: usize = 10_000;
/// Maximum size of a list, in bytes.
const SIZE: usize = 256 << 20;
/// How often a list is read from the start because it changed in the meantime.
const ATTEMPTS: usize = 3;

/// Why there is no list.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum ListError {
    #[error("the server `{server}` ships no evals: it does not declare the capability `evals`")]
    NotOffered { server: String },
    /// It refused the request, did not answer, or answered something other than a list; the text says which.
    #[error("`evals/list` of `{server}`: {why}")]
    Failed { server: String, why: String },
}

/// The evals of a server.
#[derive(Debug)]
pub struct Listed {
    /// Its pages, as texts in the `Sources` that they were added to.
    pub documents: Vec<Document>,
    /// What is wrong with the evals.
    pub findings: Diagnostics,
    /// Unusual behavior of the server while listing.
    pub notices: Vec<String>,
    /// Every item as the server sent it, without those of levels that were not requested.
    pub raw: Vec<Value>,
}

impl Listed {
    /// The valid evals, in order.
    pub fn evals(&self) -> impl Iterator<Item = &Eval> {
        self.documents.iter().flat_map(|document| &document.evals)
    }
}

/// Lists all evals, or those of one level, from every page. The texts of the pages are added to `sources`, under a path
/// that does not exist: `evals/list of SERVER`.
///
/// # Errors
/// The server ships no evals, or does not list them correctly.
pub async fn list(server: &Server, level: Option<Level>, sources: &Sources) -> Result<Listed, ListError> {
    if server.capability.is_none() {
        return Err(ListError::NotOffered { server: server.name.clone() });
    }
    let mut notices = Vec::new();
    let mut changes = server.client.notifications();
    let mut attempt = 1;
    let mut pages = loop {
        let read = pages(server, level).await;
        let mut changed = false;
        while let Ok(notification) = changes.try_recv() {
            changed |= notification.method == LIST_CHANGED;
        }
        match read {
            Ok(pages) if !changed => break pages,
            Ok(pages) if attempt == ATTEMPTS => {
                notices.push("the list keeps changing while it is read: it may be incomplete".to_owned());
                break pages;
            }
            // The cursor belongs to a list that no longer exists.
            Err(Stop::Outdated(_)) if attempt < ATTEMPTS => {}
            Ok(_) => {}
            Err(Stop::Outdated(why) | Stop::Failed(why)) => {
                return Err(ListError::Failed { server: server.name.clone(), why });
            }
        }
        attempt += 1;
    };

    let others = level.map_or(0, |level| pages.iter_mut().map(|page| leave_out(page, level)).sum());
    if let Some(level) = level.filter(|_| others > 0) {
        let evals =
            if others == 1 { "1 eval of another level is" } else { &format!("{others} evals of other levels are") };
        notices.push(format!("the server ignores `level: {level}`: {evals} left out here"));
    }
    let mut listed = Listed { documents: Vec::new(), findings: Diagnostics::default(), notices, raw: Vec::new() };
    let several = pages.len() > 1;
    for (nth, page) in pages.into_iter().enumerate() {
        let text = serde_json::to_string_pretty(&page).unwrap_or_default();
        let number = if several { format!(", page {}", nth + 1) } else { String::new() };
        let file = sources.receive(format!("{METHOD} of {}{number}", server.name), text.as_str());
        if let Ok(tree) = yaml::parse(file, text, &mut listed.findings) {
            listed.documents.push(primitive::page(tree, &mut listed.findings));
        }
        if let Some(Value::Array(items)) = page.get("evals") {
            listed.raw.extend(items.iter().cloned());
        }
    }
    Ok(listed)
}

enum Stop {
    /// The server refuses a cursor that it issued.
    Outdated(String),
    Failed(String),
}

/// The results of `evals/list`, page by page.
async fn pages(server: &Server, level: Option<Level>) -> Result<Vec<Value>, Stop> {
    let failed = |why: &str| Stop::Failed(why.to_owned());
    let mut params = Map::new();
    if let Some(level) = level {
        params.insert("level".to_owned(), level.name().into());
    }
    let (mut pages, mut cursors, mut size) = (Vec::new(), HashSet::new(), 0);
    loop {
        let sent = (!params.is_empty()).then(|| Value::Object(params.clone()));
        let page = server.client.request(METHOD, sent).await.map_err(|error| match error {
            CallError::Protocol { code: -32602, .. } if params.contains_key("cursor") => {
                Stop::Outdated(format!("it refuses its own cursor: {error}"))
            }
            error => Stop::Failed(server.lost(&error)),
        })?;
        if !page.get("evals").is_some_and(Value::is_array) {
            return Err(failed("the result has no list `evals`"));
        }
        let next = match page.get("nextCursor") {
            None | Some(Value::Null) => None,
            Some(Value::String(cursor)) => Some(cursor.clone()),
            Some(_) => return Err(failed("`nextCursor` is not a string")),
        };
        size += page.to_string().len();
        pages.push(page);
        let Some(cursor) = next else { return Ok(pages) };
        if size > SIZE {
            return Err(Stop::Failed(format!("the list has more than {} MiB", SIZE >> 20)));
        }
        if pages.len() == PAGES {
            return Err(Stop::Failed(format!("the list has more than {PAGES} pages")));
        }
        if !cursors.insert(cursor.clone()) {
            return Err(failed("its pages are circular: a cursor was returned twice"));
        }
        params.insert("cursor".to_owned(), cursor.into());
    }
}

/// Removes evals of other levels from a page; returns how many.
fn leave_out(page: &mut Value, level: Level) -> usize {
    let Some(Value::Array(items)) = page.get_mut("evals") else { return 0 };
    let before = items.len();
    // An eval without a level is reported in the findings.
    let other = |item: &Value| item.pointer("/input/type").and_then(Value::as_str).is_some_and(|of| of != level.name());
    items.retain(|item| !other(item));
    before - items.len()
}
