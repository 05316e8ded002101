//! JSON-RPC messages as bytes: the few members that routing needs are located in place; the rest is not inspected.

use std::{fmt, ops::Range};

use serde::{
    Deserializer as _,
    de::{DeserializeSeed, IgnoredAny, MapAccess, Visitor},
};
use serde_json::{Map, Value, value::RawValue};
use tokio_util::bytes::Bytes;

/// What every request contains since 2026-07-28: the protocol version and the client's capabilities.
pub(super) const META_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
pub(super) const META_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
/// Since 2026-07-28, in a notification: the request that subscribed to it.
pub(super) const META_SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// One message, with the positions of its members.
#[derive(Debug, Clone)]
pub(super) struct Message {
    pub bytes: Bytes,
    id: Option<Range<usize>>,
    params: Option<Range<usize>>,
    result: Option<Range<usize>>,
    error: Option<Range<usize>>,
    pub method: Option<String>,
    /// A member that appears twice, or in another case.
    doubtful: Option<&'static str>,
    /// `_meta` of `params`, if `params` were inspected.
    meta: Option<Option<Range<usize>>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    Request,
    Notification,
    Response,
}

impl Message {
    /// Returns `None` if the bytes are not a JSON object with the shape of a JSON-RPC message.
    pub fn parse(bytes: Bytes) -> Option<Message> {
        let text = str::from_utf8(&bytes).ok()?;
        const NAMES: [&str; 6] = ["id", "method", "params", "result", "error", "jsonrpc"];
        let Found { parts: [id, method, params, result, error, _], doubtful } = found(text, NAMES)?;
        let doubtful = doubtful.map(|nth| NAMES[nth]);
        let at = |member: Option<&str>| member.map(|part| place(text, part));
        let method = match method {
            Some(raw) => Some(lossy_text(raw)?),
            None => None,
        };
        // `"id": null` is a valid id in an answer to something unreadable, but not in a request.
        let id = id.filter(|raw| *raw != "null" || method.is_none());
        // Next to a result, `"error": null` means that there is no error.
        let error = error.filter(|raw| *raw != "null" || result.is_none());
        let (id, params, result, error) = (at(id), at(params), at(result), at(error));
        if method.is_none() && (id.is_none() || (result.is_none() && error.is_none())) {
            return None;
        }
        Some(Message { bytes, id, params, result, error, method, doubtful, meta: None })
    }

    /// Returns a member (of a call, also of its `params`) that a server may read differently than gevals: it appears
    /// twice, and some decoders use the first, or it appears in another case, which some decoders ignore (for example
    /// Go's `encoding/json`).
    pub fn doubtful(&mut self, is_call: bool) -> Option<&'static str> {
        const NAMES: [&str; 4] = ["name", "uri", "arguments", "_meta"];
        if self.doubtful.is_none()
            && is_call
            && let Some(Found { parts: [.., meta], doubtful }) = self.params().and_then(|params| found(params, NAMES))
        {
            let meta = meta.map(|meta| self.place_of(meta));
            (self.doubtful, self.meta) = (doubtful.map(|nth| NAMES[nth]), Some(meta));
        }
        self.doubtful
    }

    pub fn shape(&self) -> Shape {
        match (&self.method, &self.id) {
            (Some(_), Some(_)) => Shape::Request,
            (Some(_), None) => Shape::Notification,
            (None, _) => Shape::Response,
        }
    }

    pub fn id(&self) -> Option<&str> {
        self.text(self.id.as_ref())
    }

    pub fn key(&self) -> Option<IdKey> {
        self.id().map(IdKey::of)
    }

    pub fn params(&self) -> Option<&str> {
        self.text(self.params.as_ref())
    }

    pub fn result(&self) -> Option<&str> {
        self.text(self.result.as_ref())
    }

    pub fn error(&self) -> Option<&str> {
        self.text(self.error.as_ref())
    }

    /// A member of `params`, such as `requestId`.
    pub fn param(&self, name: &str) -> Option<&str> {
        let [found] = members(self.params()?, [name])?;
        found
    }

    /// A member of `params._meta`, such as `progressToken`.
    pub fn meta(&self, name: &str) -> Option<&str> {
        let meta = match &self.meta {
            Some(meta) => self.text(meta.as_ref())?,
            None => self.param("_meta")?,
        };
        let [found] = members(meta, [name])?;
        found
    }

    /// The position in the bytes of a part that one of the functions above returned.
    pub fn place_of(&self, part: &str) -> Range<usize> {
        let start = part.as_ptr() as usize - self.bytes.as_ptr() as usize;
        start..start + part.len()
    }

    pub fn id_place(&self) -> Option<Range<usize>> {
        self.id.clone()
    }

    fn text(&self, range: Option<&Range<usize>>) -> Option<&str> {
        str::from_utf8(self.bytes.get(range?.clone())?).ok()
    }
}

/// The bytes with some ranges replaced; without edits nothing is copied.
pub(super) fn splice(bytes: &Bytes, mut edits: Vec<(Range<usize>, String)>) -> Bytes {
    if edits.is_empty() {
        return bytes.clone();
    }
    edits.sort_by_key(|(range, _)| range.start);
    let mut out = Vec::with_capacity(bytes.len() + 32);
    let mut end = 0;
    for (range, text) in edits {
        out.extend_from_slice(&bytes[end..range.start]);
        out.extend_from_slice(text.as_bytes());
        end = range.end;
    }
    out.extend_from_slice(&bytes[end..]);
    out.into()
}

/// The edits that insert `addition` into a JSON object, given as text; its other members are unchanged. Objects are
/// merged, any other value is replaced.
pub(super) fn merge(object: &str, addition: &Map<String, Value>) -> Vec<(Range<usize>, String)> {
    let Some(open) = object.find('{') else { return Vec::new() };
    let (mut edits, mut missing) = (Vec::new(), Vec::new());
    for (key, value) in addition {
        let found = members(object, [key.as_str()]).and_then(|[found]| found);
        match (found, value) {
            (None, _) => missing.push(format!("{}:{value}", Value::from(key.as_str()))),
            (Some(inner), Value::Object(addition)) if inner.starts_with('{') => {
                let at = place(object, inner).start;
                let below = merge(inner, addition).into_iter();
                edits.extend(below.map(|(range, text)| (range.start + at..range.end + at, text)));
            }
            (Some(other), _) => edits.push((place(object, other), value.to_string())),
        }
    }
    if !missing.is_empty() {
        let is_empty = object[open + 1..].trim_start().starts_with('}');
        let comma = if is_empty { "" } else { "," };
        edits.push((open + 1..open + 1, format!("{}{comma}", missing.join(","))));
    }
    edits
}

/// A JSON-RPC id or a progress token, compared by value: a server may write `1.0` for `1`, or escape a string
/// differently.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum IdKey {
    Number(i128),
    Float(u64),
    Text(String),
    Other(String),
}

impl IdKey {
    pub fn of(raw: &str) -> IdKey {
        if let Ok(text) = serde_json::from_str::<String>(raw) {
            return IdKey::Text(text);
        }
        if let Ok(number) = raw.parse::<i128>() {
            return IdKey::Number(number);
        }
        match raw.parse::<f64>() {
            #[expect(clippy::cast_possible_truncation, reason = "whole and below 2^53")]
            Ok(number) if number.fract() == 0.0 && number.abs() < 9e15 => IdKey::Number(number as i128),
            Ok(number) => IdKey::Float(number.to_bits()),
            Err(_) => IdKey::Other(raw.to_owned()),
        }
    }
}

/// `{"jsonrpc":"2.0","id":…,"result":…}`, both given as JSON text.
pub(super) fn answer(id: &str, result: &str) -> Bytes {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#).into()
}

/// An error answer; the id is given as JSON text.
pub(super) fn refusal(id: &str, code: i64, message: &str) -> Bytes {
    let message = Value::from(message);
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":{message}}}}}"#).into()
}

/// An error instead of an answer that will not come: the server has ended, or did not accept the request.
pub(super) fn lost(id: &str, why: &str) -> Bytes {
    let why = Value::from(why);
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32000,"message":{why},"data":{{"gevals":"lost"}}}}}}"#)
        .into()
}

/// Whether an error was created by [`lost`], and not by the server.
pub(super) fn is_lost(error: &Value) -> bool {
    error.pointer("/data/gevals").is_some_and(|lost| lost == "lost")
}

/// A notification that cancels a request; the id is given as JSON text.
pub(super) fn cancelled(id: &str, reason: &str) -> Bytes {
    let reason = Value::from(reason);
    format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id},"reason":{reason}}}}}"#)
        .into()
}

/// The elements of a JSON-RPC batch (part of protocol 2025-03-26), or the single message.
pub(super) fn unbatch(bytes: Bytes) -> Vec<Bytes> {
    if bytes.iter().find(|byte| !byte.is_ascii_whitespace()) != Some(&b'[') {
        return vec![bytes];
    }
    match serde_json::from_slice::<Vec<&RawValue>>(&bytes) {
        Ok(items) if !items.is_empty() => {
            items.into_iter().map(|item| bytes.slice_ref(item.get().as_bytes())).collect()
        }
        _ => vec![bytes],
    }
}

/// Extracts the shape and the id of a message that is too long to keep; fed in pieces.
#[derive(Debug, Default)]
pub(super) struct Skim {
    depth: usize,
    in_string: bool,
    escaped: bool,
    /// After the colon of a member of the message.
    in_value: bool,
    key: Vec<u8>,
    value: Vec<u8>,
    id: Option<String>,
    has_method: bool,
}

impl Skim {
    /// Returns `false` if this is not an object, and therefore not a message.
    pub fn feed(&mut self, piece: &[u8]) -> bool {
        for &byte in piece {
            if self.in_string {
                self.keep(byte);
                match byte {
                    _ if self.escaped => self.escaped = false,
                    b'\\' => self.escaped = true,
                    b'"' => self.in_string = false,
                    _ => {}
                }
                continue;
            }
            match byte {
                _ if byte.is_ascii_whitespace() => continue,
                b'{' if self.depth == 0 => {
                    self.depth = 1;
                    continue;
                }
                _ if self.depth == 0 => return false,
                b':' if self.depth == 1 => {
                    self.in_value = true;
                    continue;
                }
                b',' if self.depth == 1 => {
                    self.end_member();
                    continue;
                }
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => {
                    self.depth -= 1;
                    if self.depth == 0 {
                        self.end_member();
                        continue;
                    }
                }
                b'"' => self.in_string = true,
                _ => {}
            }
            self.keep(byte);
        }
        true
    }

    pub fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    pub fn shape(&self) -> Shape {
        match (self.has_method, &self.id) {
            (true, Some(_)) => Shape::Request,
            (true, None) => Shape::Notification,
            (false, _) => Shape::Response,
        }
    }

    /// Keys and ids are short; the rest of longer ones is discarded.
    fn keep(&mut self, byte: u8) {
        let part = if self.in_value { &mut self.value } else { &mut self.key };
        if part.len() < 1024 {
            part.push(byte);
        }
    }

    fn end_member(&mut self) {
        match self.key.as_slice() {
            br#""id""# => {
                self.id = serde_json::from_slice::<&RawValue>(&self.value).ok().map(|raw| raw.get().to_owned());
            }
            br#""method""# => self.has_method = true,
            _ => {}
        }
        self.key.clear();
        self.value.clear();
        self.in_value = false;
    }
}

/// The message on one line: outside of strings, line breaks in JSON are only white space.
pub(super) fn single_line(bytes: Bytes) -> Bytes {
    if bytes.iter().any(|byte| matches!(byte, b'\n' | b'\r')) {
        bytes.iter().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte }).collect::<Vec<_>>().into()
    } else {
        bytes
    }
}

/// The named members of a JSON object, as the text they were written in; of a repeated key, the last one is used.
pub(super) fn members<'a, const N: usize>(object: &'a str, names: [&str; N]) -> Option<[Option<&'a str>; N]> {
    found(object, names).map(|found| found.parts)
}

fn found<'a, const N: usize>(object: &'a str, names: [&str; N]) -> Option<Found<'a, N>> {
    let mut deserializer = serde_json::Deserializer::from_str(object);
    let found = deserializer.deserialize_map(Members { names }).ok()?;
    deserializer.end().ok()?;
    Some(found)
}

/// The text of a JSON string; an unpaired surrogate, as left by cutting a JavaScript string in the middle, becomes
/// replacement characters. Returns `None` if it is not a string.
pub(super) fn lossy_text(raw: &str) -> Option<String> {
    // serde_json rejects an unpaired surrogate when asked for text, but not when asked for bytes.
    let mut deserializer = serde_json::Deserializer::from_str(raw);
    let text = deserializer.deserialize_bytes(LossyText).ok()?;
    deserializer.end().ok()?;
    Some(text)
}

/// Decodes JSON. What serde_json cannot represent (numbers beyond its range, nesting beyond its limit) is kept as text,
/// and the values next to it are unaffected.
pub(super) fn decoded(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| decoded_by_parts(text, 0))
}

/// Nesting levels that are decoded part by part; serde_json itself has a limit of 128.
const DEPTH: usize = 64;

fn decoded_by_parts(text: &str, depth: usize) -> Value {
    let part = |part: &RawValue| decoded_by_parts(part.get(), depth + 1);
    let value = match text.trim_start().as_bytes().first() {
        Some(b'{') if depth < DEPTH => serde_json::Deserializer::from_str(text)
            .deserialize_map(Entries)
            .ok()
            .map(|entries| Value::Object(entries.into_iter().map(|(key, value)| (key, part(value))).collect())),
        Some(b'[') if depth < DEPTH => serde_json::from_str::<Vec<&RawValue>>(text)
            .ok()
            .map(|items| Value::Array(items.into_iter().map(part).collect())),
        Some(b'"') => lossy_text(text).map(Value::String),
        Some(b'{' | b'[') => None,
        _ => serde_json::from_str(text).ok(),
    };
    value.unwrap_or_else(|| Value::from(text))
}

struct LossyText;

impl Visitor<'_> for LossyText {
    type Value = String;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a string")
    }

    fn visit_bytes<E>(self, bytes: &[u8]) -> Result<String, E> {
        Ok(String::from_utf8_lossy(bytes).into_owned())
    }
}

impl<'de> DeserializeSeed<'de> for LossyText {
    type Value = String;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<String, D::Error> {
        deserializer.deserialize_bytes(self)
    }
}

struct Entries;

impl<'de> Visitor<'de> for Entries {
    type Value = Vec<(String, &'de RawValue)>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut entries = Vec::new();
        while let Some(key) = map.next_key_seed(LossyText)? {
            entries.push((key, map.next_value()?));
        }
        Ok(entries)
    }
}

fn place(whole: &str, part: &str) -> Range<usize> {
    let start = part.as_ptr() as usize - whole.as_ptr() as usize;
    start..start + part.len()
}

struct Members<'n, const N: usize> {
    names: [&'n str; N],
}

struct Found<'a, const N: usize> {
    parts: [Option<&'a str>; N],
    /// Which of them appears twice, or in another case.
    doubtful: Option<usize>,
}

impl<'de, const N: usize> Visitor<'de> for Members<'_, N> {
    type Value = Found<'de, N>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut parts, mut doubtful) = ([None; N], None);
        while let Some(key) = map.next_key_seed(Position { names: &self.names })? {
            match key {
                Key::Is(position) => {
                    let before = parts[position].replace(map.next_value::<&'de RawValue>()?.get());
                    doubtful = doubtful.or(before.map(|_| position));
                    continue;
                }
                Key::Like(position) => doubtful = doubtful.or(Some(position)),
                Key::Other => {}
            }
            map.next_value::<IgnoredAny>()?;
        }
        Ok(Found { parts, doubtful })
    }
}

struct Position<'n> {
    names: &'n [&'n str],
}

/// How a key relates to the names.
enum Key {
    Is(usize),
    /// A name in another case.
    Like(usize),
    Other,
}

/// Whether two names are equal to a decoder that folds case, as Go's does: `ſ` equals `s`, and the Kelvin sign equals
/// `k`.
fn folds_to(key: &[u8], name: &str) -> bool {
    match str::from_utf8(key) {
        Ok(key) if !key.is_ascii() => key.replace('\u{17f}', "s").replace('\u{212a}', "k").eq_ignore_ascii_case(name),
        _ => key.eq_ignore_ascii_case(name.as_bytes()),
    }
}

impl<'de> DeserializeSeed<'de> for Position<'_> {
    type Value = Key;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_bytes(self)
    }
}

impl Visitor<'_> for Position<'_> {
    type Value = Key;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a key")
    }

    fn visit_bytes<E>(self, key: &[u8]) -> Result<Self::Value, E> {
        if let Some(position) = self.names.iter().position(|name| name.as_bytes() == key) {
            return Ok(Key::Is(position));
        }
        Ok(self.names.iter().position(|name| folds_to(key, name)).map_or(Key::Other, Key::Like))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Option<Message> {
        Message::parse(Bytes::copy_from_slice(text.as_bytes()))
    }

    #[test]
    fn members_are_found_in_place() {
        let text =
            r#" { "params" : {"_meta":{"progressToken" : "\u0061" }} ,"x":{"id":9},"\u0069d": 1e2, "method":"a"}"#;
        let message = parse(text).unwrap();
        assert_eq!((message.shape(), message.id()), (Shape::Request, Some("1e2")));
        assert_eq!(message.key(), Some(IdKey::Number(100)));
        let token = message.meta("progressToken").unwrap();
        assert_eq!(IdKey::of(token), IdKey::Text("a".into()));
        let edits = vec![(message.id_place().unwrap(), "7".into()), (message.place_of(token), "8".into())];
        assert_eq!(splice(&message.bytes, edits), text.replace("1e2", "7").replace(r#""\u0061""#, "8"));
    }

    #[test]
    fn messages_that_servers_may_parse_differently_are_detected() {
        let doubtful = |text: &str| parse(text).unwrap().doubtful(text.contains("/call") || text.contains("/read"));
        for (message, wanted) in [
            (r#"{"id":1,"method":"ping","Method":"tools/call","params":{"name":"x"}}"#, Some("method")),
            (r#"{"id":1,"method":"ping","m\u0065thod":"tools/call"}"#, Some("method")),
            (r#"{"id":1,"ID":2,"method":"ping"}"#, Some("id")),
            (r#"{"id":1,"method":"tools/call","params":{"name":"a"},"param\u017f":{"name":"b"}}"#, Some("params")),
            (r#"{"id":1,"method":"tools/call","params":{"name":"a","Name":"b"}}"#, Some("name")),
            (r#"{"method":"tools/call","params":{"name":"a","name":"a"}}"#, Some("name")),
            (r#"{"id":1,"method":"tools/call","params":{"name":"a","argumentſ":{}}}"#, Some("arguments")),
            (r#"{"id":1,"method":"resources/read","params":{"uri":"a","URI":"b"}}"#, Some("uri")),
            (r#"{"id":1,"result":{},"Method":"tools/call"}"#, Some("method")),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{"Name":1,"NAME":1}}}"#,
                None,
            ),
            (r#"{"id":1,"method":"x/y","params":{"name":"a","Name":"b"},"names":1,"méthod":1}"#, None),
        ] {
            assert_eq!(doubtful(message), wanted, "{message}");
        }
        assert!(folds_to("to\u{212a}en".as_bytes(), "token") && !folds_to("tøken".as_bytes(), "token"));
    }

    #[test]
    fn merging_into_an_object_changes_nothing_else() {
        let merged = |object: &str, addition: Value| {
            let edits = merge(object, addition.as_object().unwrap());
            String::from_utf8(splice(&Bytes::copy_from_slice(object.as_bytes()), edits).to_vec()).unwrap()
        };
        let both = serde_json::json!({"c": {"evals": {"listChanged": true}, "x": {"y": {}}}});
        let added = r#""evals":{"listChanged":true},"x":{"y":{}}"#;
        for (object, wanted) in [
            ("{}", format!(r#"{{"c":{{{added}}}}}"#)),
            (r#"{ "n" : 1.0e1 }"#, format!(r#"{{"c":{{{added}}}, "n" : 1.0e1 }}"#)),
            (r#"{"c": { } }"#, format!(r#"{{"c": {{{added} }} }}"#)),
            (r#"{"c": null}"#, format!(r#"{{"c": {{{added}}}}}"#)),
            (
                r#"{"c": {"x": {"z":"{"}, "evals": {"listChanged":false} }, "d":"\u00e4"}"#,
                r#"{"c": {"x": {"y":{},"z":"{"}, "evals": {"listChanged":true} }, "d":"\u00e4"}"#.to_owned(),
            ),
        ] {
            assert_eq!(merged(object, both.clone()), wanted, "{object}");
        }
    }

    #[test]
    fn other_json_is_not_a_message() {
        for text in ["", "7", "[]", "{}", r#"{"level":"info"}"#, r#"{"id":1}"#, r#"{"method":1,"id":2}"#, "{", "{}x"] {
            assert!(parse(text).is_none(), "{text}");
        }
        assert_eq!(parse(r#"{"id":null,"error":{}}"#).unwrap().shape(), Shape::Response);
        assert_eq!(parse(r#"{"id":null,"method":"x"}"#).unwrap().shape(), Shape::Notification);
        let deep = format!(r#"{{"id":1,"result":{}{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
        assert!(parse(&deep).is_some());
    }

    #[test]
    fn values_that_serde_json_cannot_represent_do_not_hide_other_members() {
        let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
        let long = "7".repeat(400);
        for odd in [r#""a\ud83d""#, r#"{"\ud83d": 1}"#, "1e999", &long, &deep] {
            for text in [
                format!(r#"{{"odd":{odd},"name":"delete","isError":true}}"#),
                format!(r#"{{"name":"delete","isError":true,"arguments":{{"odd":[{odd}]}}}}"#),
            ] {
                let value = decoded(&text);
                assert_eq!((&value["name"], &value["isError"]), (&Value::from("delete"), &Value::from(true)), "{text}");
                assert!(members(&text, ["name"]).is_some(), "{text}");
            }
            let whole = format!(r#"{{{odd}:0,"id":1,"method":"tools/call","params":{odd}}}"#);
            let odd_key = if odd.starts_with('"') { whole } else { whole.replacen(odd, r#""k""#, 1) };
            assert_eq!(parse(&odd_key).unwrap().method.as_deref(), Some("tools/call"), "{odd_key}");
        }
        assert_eq!(decoded(r#"["a\ud83d"]"#)[0], "a\u{fffd}\u{fffd}\u{fffd}");
        assert_eq!(lossy_text("[97]"), None);
    }

    #[test]
    fn the_id_of_a_message_that_is_too_long_is_found() {
        let message = r#" {"result":{"id":9,"a":["\\\"id\":8,",{}]},"x":"\"}","id" : "a\"b" , "z":[1]}"#;
        for size in 1..message.len() {
            let mut skim = Skim::default();
            assert!(message.as_bytes().chunks(size).all(|piece| skim.feed(piece)));
            assert_eq!((skim.id(), skim.shape()), (Some(r#""a\"b""#), Shape::Response));
        }
        let shape = |text: &str| {
            let mut skim = Skim::default();
            skim.feed(text.as_bytes()).then(|| skim.shape())
        };
        assert_eq!(shape(r#"{"id":1,"method":"m"}"#), Some(Shape::Request));
        assert_eq!(shape(r#"{"method":"m","params":{"id":1}}"#), Some(Shape::Notification));
        assert_eq!((shape("xxx"), shape("[1]")), (None, None));
    }

    #[test]
    fn a_batch_is_split_into_its_messages() {
        let batch = Bytes::from_static(br#" [ {"id":1 , "method":"a"},{"method":"b"} ] "#);
        assert_eq!(unbatch(batch), [r#"{"id":1 , "method":"a"}"#, r#"{"method":"b"}"#]);
        assert_eq!(unbatch(Bytes::from_static(b"[1")), ["[1"]);
    }
}
