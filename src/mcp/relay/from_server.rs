//! Messages of the server, on their way to the sessions.

use std::{ops::Range, sync::Arc};

use serde_json::{Map, Value, json};
use tokio_util::bytes::Bytes;

use super::{Asked, Envelope, Handshake, Relay, SessionKind, State, send};
use crate::mcp::{
    ServerError,
    message::{self, IdKey, Message, Shape, Skim},
    record::OpenCall,
};

/// The key in a tool's schema for an argument that HTTP clients repeat in a header (2026-07-28).
const HEADER: &str = "x-mcp-header";

impl Relay {
    /// The arguments of a tool that HTTP clients repeat in headers, as far as the server has listed them: the suffix of
    /// the header's name, and a JSON pointer.
    pub fn repeated(&self, tool: &str) -> Vec<(String, String)> {
        let known = self.lock().repeated.get(tool).cloned();
        known.or_else(|| Some(self.twin()?.repeated(tool))).unwrap_or_default()
    }

    /// Processes what the server sends in a space; returns `false` if it is not a message.
    pub fn from_server(self: &Arc<Self>, space: u64, bytes: Bytes) -> bool {
        let mut understood = true;
        for bytes in message::unbatch(bytes) {
            let Some(message) = Message::parse(bytes) else {
                understood = false;
                continue;
            };
            let mut guard = self.lock();
            let state = &mut *guard;
            match message.shape() {
                Shape::Request => self.server_request(state, space, message),
                Shape::Notification => self.server_notification(state, space, &message),
                Shape::Response => self.server_response(state, space, &message),
            }
        }
        understood
    }

    /// Handles a message of the server that exceeds the limit: only the request it answers is affected.
    pub fn too_long_from_server(&self, space: u64, skim: &Skim) {
        let error = ServerError::TooLong { server: self.name.clone(), limit: self.options.max_message };
        self.notice(None, &error.to_string());
        match (skim.shape(), skim.id()) {
            (Shape::Response, Some(id)) => self.lost(space, &IdKey::of(id), error),
            (Shape::Request, Some(id)) => {
                let refusal = message::refusal(id, -32600, &error.brief());
                send(&mut self.lock(), space, refusal, Envelope::default());
            }
            _ => {}
        }
    }

    fn server_response(self: &Arc<Self>, state: &mut State, space: u64, message: &Message) {
        let found = message.key().and_then(|key| state.pending.remove(&(space, key)));
        let Some(pending) = found else {
            if message.key().is_some_and(|key| state.used.contains(&(space, key))) {
                let agents = state.sessions.iter().filter(|(_, member)| matches!(member.kind, SessionKind::Agent(_)));
                let agents: Vec<u64> = agents.map(|(session, _)| *session).collect();
                let text = "the server answered a request once more: the later answer is not passed on";
                return self.remark(state, agents, text);
            }
            let mut sessions = state.sessions.keys().filter(|id| space == 0 || **id == space);
            match (sessions.next().copied(), sessions.next()) {
                (Some(only), None) => self.deliver(state, only, message.bytes.clone()),
                _ => self.remark(state, None, "the server answered a request that nobody is waiting for"),
            }
            return;
        };
        Self::settle(state, message);
        if space == 0 && message.result().is_some_and(|result| result.contains(HEADER)) {
            repeated(state, message);
        }
        if let Some(token) = pending.token {
            state.tokens.remove(&(space, token));
        }
        let instead = pending.call.as_ref().and_then(OpenCall::replaced).filter(|_| message.result().is_some());
        if let Some(call) = pending.call {
            call.answered(instead.as_deref().or(message.result()), message.error());
        }
        if let Some(result) = instead {
            self.deliver(state, pending.session, message::answer(&pending.id, &result));
            return;
        }
        let mut edits = match (pending.replaced, message.id_place()) {
            (Some(_), Some(place)) => vec![(place, pending.id)],
            _ => Vec::new(),
        };
        if pending.declares {
            edits.extend(self.declared(message));
        }
        if let Some(member) = state.sessions.get_mut(&pending.session) {
            member.ready = true;
            member.greeted |= pending.initialize && message.result().is_some();
        }
        let bytes = message::splice(&message.bytes, edits);
        self.deliver(state, pending.session, bytes.clone());
        if !pending.initialize {
            return;
        }
        // Later sessions get the same result.
        let Some(message) = Message::parse(bytes) else { return };
        if let Some(result) = message.result() {
            state.server = Some(result.to_owned());
            if !state.dead {
                state.failure = None;
            }
        }
        if space == 0
            && let Handshake::Running { capabilities, waiting } = std::mem::take(&mut state.handshake)
        {
            if let Some(result) = message.result() {
                state.handshake = Handshake::Done { capabilities, result: result.to_owned() };
            }
            for (session, message) in waiting {
                self.request(state, session, message, Envelope::default());
            }
        }
    }

    /// The edits that add to the capabilities in an answer.
    fn declared(&self, message: &Message) -> Vec<(Range<usize>, String)> {
        let (Some(added), Some(result)) = (&self.options.added, message.result()) else { return Vec::new() };
        let addition = Map::from_iter([("capabilities".to_owned(), Value::Object(added.capabilities.clone()))]);
        let at = message.place_of(result).start;
        let edits = message::merge(result, &addition).into_iter();
        edits.map(|(range, text)| (range.start + at..range.end + at, text)).collect()
    }

    fn server_notification(&self, state: &mut State, space: u64, message: &Message) {
        let mut edits = Vec::new();
        let subscribed = message.meta(message::META_SUBSCRIPTION).and_then(|raw| {
            let pending = state.pending.get(&(space, IdKey::of(raw)))?;
            edits.extend(pending.replaced.as_ref().map(|_| (message.place_of(raw), pending.id.clone())));
            if pending.subscribes && message.method.as_deref() == Some("notifications/subscriptions/acknowledged") {
                edits.extend(self.acknowledged(message));
            }
            Some(pending.session)
        });
        let owner = match message.method.as_deref() {
            _ if subscribed.is_some() => subscribed,
            Some("notifications/progress") => message.param("progressToken").and_then(|raw| {
                let token = state.tokens.get(&(space, IdKey::of(raw)))?;
                edits.extend(token.original.clone().map(|original| (message.place_of(raw), original)));
                Some(token.session)
            }),
            Some("notifications/cancelled") => message
                .param("requestId")
                .and_then(|raw| state.asked.remove(&(space, IdKey::of(raw))))
                .map(|asked| asked.session),
            _ => None,
        };
        let bytes = message::splice(&message.bytes, edits);
        let listeners: Vec<u64> = match owner {
            Some(owner) => vec![owner],
            None if space != 0 => vec![space],
            None if state.sessions.len() == 1 => state.sessions.keys().copied().collect(),
            None => state.sessions.iter().filter(|(_, member)| member.ready).map(|(id, _)| *id).collect(),
        };
        for session in listeners {
            self.deliver(state, session, bytes.clone());
        }
    }

    /// The edits that acknowledge a subscription to this hub's own notifications, of which the server knows nothing.
    fn acknowledged(&self, message: &Message) -> Vec<(Range<usize>, String)> {
        let (Some(added), Some(params)) = (&self.options.added, message.params()) else { return Vec::new() };
        let granted = json!({added.subscription: true});
        let at = message.place_of(params).start;
        let edits = message::merge(params, &Map::from_iter([("notifications".to_owned(), granted)])).into_iter();
        edits.map(|(range, text)| (range.start + at..range.end + at, text)).collect()
    }

    fn server_request(&self, state: &mut State, space: u64, message: Message) {
        let (Some(key), Some(id)) = (message.key(), message.id()) else { return };
        let agent = |id: &u64| state.sessions.get(id).is_some_and(|member| !matches!(member.kind, SessionKind::Own));
        let target = if space != 0 {
            Some(space)
        } else {
            state
                .sessions
                .iter()
                .filter(|(id, _)| agent(id))
                .max_by_key(|(id, member)| {
                    (
                        state.pending.values().any(|pending| pending.session == **id && !pending.given_up),
                        member.last_active,
                    )
                })
                .map(|(id, _)| *id)
        };
        match target {
            Some(session) => {
                state.asked.insert((space, key), Asked { session, id: id.to_owned() });
                self.deliver(state, session, message.bytes);
            }
            None if message.method.as_deref() == Some("ping") => {
                send(state, space, message::answer(id, "{}"), Envelope::default());
            }
            None => send(state, space, message::refusal(id, -32601, "no agent is connected"), Envelope::default()),
        }
    }
}

/// Remembers which headers the schemas of listed tools specify.
fn repeated(state: &mut State, message: &Message) {
    let listed = message::decoded(message.result().unwrap_or_default());
    for tool in listed.get("tools").and_then(Value::as_array).into_iter().flatten() {
        let Some(name) = tool.get("name").and_then(Value::as_str) else { continue };
        let mut found = Vec::new();
        headers(tool.get("inputSchema"), "", &mut found);
        state.repeated.insert(name.to_owned(), found);
    }
}

fn headers(schema: Option<&Value>, path: &str, found: &mut Vec<(String, String)>) {
    for (name, property) in schema.and_then(|schema| schema.get("properties")?.as_object()).into_iter().flatten() {
        let path = format!("{path}/{}", name.replace('~', "~0").replace('/', "~1"));
        if let Some(header) = property.get(HEADER).and_then(Value::as_str) {
            found.push((header.to_owned(), path.clone()));
        }
        headers(Some(property), &path, found);
    }
}
