//! The list of evals as a server returns it: in pages, by level, while it may change.
//!
//! A cursor identifies the list that it was made for, by its digest. A list that was replaced is kept for a while, so
//! that a client in the middle of it gets the rest of that list: no eval twice, none omitted, regardless of changes in
//! between. `notifications/evals/list_changed` informs it that there is a new list. A cursor is refused if its list is
//! no longer kept, if it was made for another level, or if it is malformed.

use std::{collections::VecDeque, fmt::Write, sync::Arc};

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use serde_json::Value;

use super::{Eval, Level, digest};

/// The method that lists evals.
pub const METHOD: &str = "evals/list";
/// The notification that the list has changed.
pub const LIST_CHANGED: &str = "notifications/evals/list_changed";
/// Default number of evals per page.
pub const PAGE: usize = 100;

/// Maximum size of a page in bytes, unless it has only one eval.
const PAGE_SIZE: usize = 1 << 20;
/// How many replaced lists are kept for clients in the middle of them.
const KEPT: usize = 4;
/// Number of digits of the digest in a cursor.
const DIGITS: usize = 16;

/// The lists that a server returns: the current one, and some earlier ones.
#[derive(Debug)]
pub struct Pages {
    size: usize,
    /// The current list is the first.
    lists: VecDeque<Arc<List>>,
}

#[derive(Debug)]
struct List {
    name: String,
    evals: Vec<(Level, String)>,
}

impl List {
    fn of(evals: &[Eval]) -> Arc<Self> {
        // The order matters to a cursor.
        let order = evals.iter().fold(digest(evals), |mut text, eval| {
            let _ = write!(text, "\n{}", eval.id.value);
            text
        });
        let name = crate::ty::canonical::digest(&order).trim_start_matches("sha256:")[..DIGITS].to_owned();
        let evals = evals.iter().map(|eval| (eval.level(), eval.json.to_string())).collect();
        Arc::new(List { name, evals })
    }
}

impl Pages {
    /// Creates the pages of a list, with at most `size` evals per page.
    pub fn new(evals: &[Eval], size: usize) -> Self {
        Self { size: size.max(1), lists: VecDeque::from([List::of(evals)]) }
    }

    /// The number of evals.
    pub fn len(&self) -> usize {
        self.lists.front().map_or(0, |list| list.evals.len())
    }

    /// Whether there are no evals.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Replaces the current list; returns `false` if it is unchanged.
    pub fn replace(&mut self, evals: &[Eval]) -> bool {
        let list = List::of(evals);
        if self.lists.front().is_some_and(|present| present.name == list.name) {
            return false;
        }
        self.lists.retain(|old| old.name != list.name);
        self.lists.push_front(list);
        self.lists.truncate(KEPT + 1);
        true
    }

    /// The result of `evals/list` with these params, as JSON text. `complete`: the client's MCP revision requires
    /// results to be marked as complete (2026-07-28).
    ///
    /// # Errors
    /// What is wrong with the params: a client gets it with the code -32602.
    pub fn list(&self, params: Option<&Value>, complete: bool) -> Result<String, String> {
        let of = |key: &str| params.and_then(|params| params.get(key)).filter(|value| !value.is_null());
        if let Some(params) = params.filter(|params| !params.is_object() && !params.is_null()) {
            return Err(format!("`params` of `{METHOD}` must be an object, not {params}"));
        }
        let level = match of("level") {
            None => None,
            Some(level) => Some(level.as_str().and_then(Level::named).ok_or_else(|| {
                let known = Level::ALL.map(|level| format!("`{level}`")).join(", ");
                format!("unknown level {}; valid levels are {known}", shortened(level))
            })?),
        };
        let (list, begin) = match of("cursor") {
            None => (self.lists.front(), 0),
            Some(cursor) => {
                let malformed = || format!("{} is not a cursor of `{METHOD}`", shortened(cursor));
                let Cursor { list, level: of, at } = cursor.as_str().and_then(Cursor::parse).ok_or_else(malformed)?;
                if of != level {
                    return Err("the cursor belongs to a list with another `level`: start without a cursor".to_owned());
                }
                let found = self.lists.iter().find(|known| known.name == list);
                let gone = "the list has changed since the cursor was created: start without a cursor";
                (Some(found.ok_or(gone)?), at)
            }
        };
        let mut result = String::from("{\"evals\":[");
        let mut next = None;
        if let Some(list) = list {
            if begin > list.evals.len() {
                return Err("the cursor is beyond the end of the list".to_owned());
            }
            let wanted = |(_, (of, _)): &(usize, &(Level, String))| level.is_none_or(|level| level == *of);
            let rest = list.evals.iter().enumerate().skip(begin).filter(wanted);
            for (on_page, (at, (_, eval))) in rest.enumerate() {
                if on_page == self.size || on_page > 0 && result.len() + eval.len() > PAGE_SIZE {
                    next = Some(Cursor { list: list.name.clone(), level, at }.text());
                    break;
                }
                result += if on_page > 0 { "," } else { "" };
                result += eval;
            }
        }
        result.push(']');
        if let Some(next) = next {
            let _ = write!(result, ",\"nextCursor\":\"{next}\"");
        }
        if complete {
            result += ",\"resultType\":\"complete\",\"ttlMs\":0,\"cacheScope\":\"private\"";
        }
        result.push('}');
        Ok(result)
    }
}

/// What a client sent, shortened for a message.
fn shortened(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("`{}…`", &text[..end]),
        None => format!("`{text}`"),
    }
}

/// Where to continue.
#[derive(PartialEq, Eq, Debug)]
struct Cursor {
    /// The start of the digest of the list.
    list: String,
    level: Option<Level>,
    at: usize,
}

impl Cursor {
    fn text(&self) -> String {
        let level = self.level.map_or("", Level::name);
        BASE64_URL_SAFE_NO_PAD.encode(format!("{}/{level}/{}", self.list, self.at))
    }

    fn parse(text: &str) -> Option<Self> {
        let text = String::from_utf8(BASE64_URL_SAFE_NO_PAD.decode(text).ok()?).ok()?;
        let mut parts = text.split('/');
        let (list, level, at) = (parts.next()?, parts.next()?, parts.next()?);
        if parts.next().is_some() || list.len() != DIGITS || at.starts_with(['+', '-']) {
            return None;
        }
        let level = match level {
            "" => None,
            name => Some(Level::named(name)?),
        };
        Some(Cursor { list: list.to_owned(), level, at: at.parse().ok()? })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::{diagnostic::Diagnostics, source::Sources, yaml};

    fn evals(ids: impl IntoIterator<Item = usize>) -> Vec<Eval> {
        let evals: Vec<_> = ids
            .into_iter()
            .map(|n| {
                let input = match n % 2 {
                    0 => json!({"type": "execution", "toolName": "t", "arguments": {}}),
                    _ => json!({"type": "invocation", "messages": [
                        {"role": "user", "content": {"type": "text", "text": format!("do {n}")}}]}),
                };
                json!({"id": format!("e{n}"), "name": "n", "gradingType": "llm-as-judge", "input": input,
                    "expected": {"type": "llm-as-judge", "rubric": "r"}})
            })
            .collect();
        let (text, mut out) = (json!({"evals": evals}).to_string(), Diagnostics::default());
        let tree = yaml::parse(Sources::default().add("x", text.as_str()), text, &mut out).unwrap();
        let document = super::super::file(tree, &mut out);
        assert!(out.is_empty(), "{out:?}");
        document.evals
    }

    fn ids(result: &str) -> (Vec<String>, Option<String>) {
        let result: Value = serde_json::from_str(result).unwrap();
        let ids = result["evals"].as_array().unwrap().iter().map(|e| e["id"].as_str().unwrap().to_owned());
        (ids.collect(), result["nextCursor"].as_str().map(str::to_owned))
    }

    #[test]
    fn a_changing_list_can_be_read_to_its_end() {
        let mut pages = Pages::new(&evals(0..7), 3);
        let (first, cursor) = ids(&pages.list(None, false).unwrap());
        assert_eq!(first, ["e0", "e1", "e2"]);
        assert!(pages.replace(&evals(5..9)) && !pages.replace(&evals(5..9)));
        let (second, cursor) = ids(&pages.list(Some(&json!({"cursor": cursor})), false).unwrap());
        assert_eq!(second, ["e3", "e4", "e5"]);
        let (third, end) = ids(&pages.list(Some(&json!({"cursor": cursor})), false).unwrap());
        assert_eq!((third, end), (vec!["e6".to_owned()], None));
        assert_eq!(ids(&pages.list(Some(&json!({"cursor": null})), false).unwrap()).0, ["e5", "e6", "e7"]);
        // The order of evals is part of the list.
        assert!(pages.replace(&evals([6, 5, 7, 8])));
        for n in 10..10 + KEPT {
            pages.replace(&evals(0..n));
        }
        let gone = pages.list(Some(&json!({"cursor": cursor})), false).unwrap_err();
        assert_eq!(gone, "the list has changed since the cursor was created: start without a cursor");
        // A list that returns is recognized again, also by a restarted process.
        assert_eq!(ids(&Pages::new(&evals(0..7), 2).list(Some(&json!({"cursor": cursor})), false).unwrap()).0, ["e6"]);
    }

    #[test]
    fn levels_have_their_own_cursors() {
        let pages = Pages::new(&evals(0..9), 2);
        let mut params = json!({"level": "execution"});
        let mut found = Vec::new();
        loop {
            let (ids, next) = ids(&pages.list(Some(&params), false).unwrap());
            found.extend(ids);
            let Some(next) = next else { break };
            params["cursor"] = next.into();
        }
        assert_eq!(found, ["e0", "e2", "e4", "e6", "e8"]);
        params["level"] = "scenario".into();
        assert!(pages.list(Some(&params), false).unwrap_err().contains("another `level`"));
        let none = pages.list(Some(&json!({"level": "scenario"})), true).unwrap();
        assert_eq!(none, r#"{"evals":[],"resultType":"complete","ttlMs":0,"cacheScope":"private"}"#);
    }

    #[test]
    fn a_page_of_large_evals_is_short() {
        let mut large = evals(0..4);
        for eval in &mut large {
            eval.json["expected"]["rubric"] = "x".repeat(PAGE_SIZE - 2000).into();
        }
        let mut pages = Pages::new(&large, 100);
        assert_eq!(ids(&pages.list(None, false).unwrap()).0, ["e0"]);
        large.truncate(1);
        large[0].json["expected"]["rubric"] = "x".repeat(3 * PAGE_SIZE).into();
        pages.replace(&large);
        assert_eq!(ids(&pages.list(None, false).unwrap()), (vec!["e0".to_owned()], None));
    }

    #[test]
    fn invalid_params_are_rejected() {
        let pages = Pages::new(&evals(0..3), 1);
        let wrong = |params: Value| pages.list(Some(&params), false).unwrap_err();
        assert_eq!(
            wrong(json!({"level": "unit"})),
            "unknown level `\"unit\"`; valid levels are `invocation`, `execution`, `scenario`"
        );
        assert_eq!(wrong(json!({"cursor": 3})), "`3` is not a cursor of `evals/list`");
        assert_eq!(wrong(json!([1])), "`params` of `evals/list` must be an object, not [1]");
        let (_, next) = ids(&pages.list(None, false).unwrap());
        let Cursor { list, .. } = Cursor::parse(&next.unwrap()).unwrap();
        for (cursor, why) in [
            (format!("{list}//4"), "beyond the end"),
            (format!("{list}//-1"), "is not a cursor"),
            (format!("{list}//1/"), "is not a cursor"),
            (format!("{list}/unit/1"), "is not a cursor"),
            ("0123456789abcdef//1".to_owned(), "the list has changed"),
        ] {
            assert!(wrong(json!({"cursor": BASE64_URL_SAFE_NO_PAD.encode(&cursor)})).contains(why), "{cursor}");
        }
        let (last, end) = ids(&pages
            .list(Some(&json!({"cursor": BASE64_URL_SAFE_NO_PAD.encode(format!("{list}//3"))})), false)
            .unwrap());
        assert_eq!((last.len(), end), (0, None));
    }

    proptest! {
        #[test]
        fn the_list_handles_any_cursor(cursor in "\\PC{0,40}", bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let pages = Pages::new(&evals(0..3), 1);
            for cursor in [cursor, BASE64_URL_SAFE_NO_PAD.encode(bytes)] {
                let refused = pages.list(Some(&json!({"cursor": cursor})), false).is_err();
                prop_assert!(refused);
            }
        }
    }
}
