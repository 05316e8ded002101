//! Messages of the sessions, on their way to the server.

use std::{collections::VecDeque, sync::Arc};

use serde_json::Value;
use tokio_util::bytes::Bytes;

use super::{Direction, Envelope, Handshake, Pending, Relay, SessionKind, State, Token, send};
use crate::mcp::{
    ServerError,
    message::{self, IdKey, Message, Shape, Skim},
    record::{CallKind, CallOutcome, OpenCall},
};

impl Relay {
    /// Processes what a session sends. Waits if the server is slow to read. The envelope belongs to the first message.
    pub async fn from_session(self: &Arc<Self>, session: u64, bytes: Bytes, mut envelope: Envelope) {
        for bytes in message::unbatch(bytes) {
            if bytes.trim_ascii().is_empty() {
                continue;
            }
            let mut envelope = std::mem::take(&mut envelope);
            envelope.permit = self.permits.clone().acquire_owned().await.ok();
            if let Some((twin, there, bytes, envelope)) = self.message(session, bytes, envelope) {
                Box::pin(twin.from_session(there, bytes, envelope)).await;
            }
        }
    }

    /// Processes a message; if it belongs to another relay, returns it with that relay and the session there.
    fn message(
        self: &Arc<Self>,
        session: u64,
        bytes: Bytes,
        envelope: Envelope,
    ) -> Option<(Arc<Relay>, u64, Bytes, Envelope)> {
        let mut guard = self.lock();
        let state = &mut *guard;
        let member = state.sessions.get_mut(&session)?;
        state.counter += 1;
        member.last_active = state.counter;
        self.tap(session, &member.kind, Direction::ToServer, &bytes);
        let Some(mut message) = Message::parse(bytes) else {
            self.remark(state, Some(session), "a client sent something that is no JSON-RPC message");
            self.deliver(state, session, message::refusal("null", -32700, "not a JSON-RPC message"));
            return None;
        };
        if let SessionKind::Agent(recorder) = &member.kind
            && let Some(key) = message.doubtful(message.method.as_deref().and_then(CallKind::of_method).is_some())
        {
            recorder.doubtful();
            let why = format!("it has `{key}` twice, or in another case, and servers differ in what they make of that");
            self.remark(state, Some(session), &format!("a message of a client was refused: {why}"));
            if message.shape() == Shape::Request {
                self.deliver(state, session, message::refusal(message.id().unwrap_or("null"), -32600, &why));
            }
            return None;
        }
        if !state.dead
            && let Some(answer) = self.own_answer(&message)
        {
            self.deliver(state, session, answer);
            return None;
        }
        if let Some((twin, there)) = self.elsewhere(state, session, &message) {
            return Some((twin, there, message.bytes, envelope));
        }
        match message.shape() {
            Shape::Request => self.request(state, session, message, envelope),
            Shape::Notification => self.notification(state, session, &message, envelope),
            Shape::Response => self.response(state, session, message, envelope),
        }
        None
    }

    /// The answer to a request that the hub answers itself.
    fn own_answer(&self, message: &Message) -> Option<Bytes> {
        let (added, method, id) = (self.options.added.as_ref()?, message.method.as_deref()?, message.id()?);
        Some(match (added.answer)(method, message.params())? {
            Ok(result) => message::answer(id, &result),
            Err((code, why)) => message::refusal(id, code, &why),
        })
    }

    /// Whether a request subscribes to what this hub announces.
    fn subscribes(&self, message: &Message) -> bool {
        let Some(added) = self.options.added.as_ref() else { return false };
        message.method.as_deref() == Some("subscriptions/listen")
            && message.param("notifications").is_some_and(|raw| message::decoded(raw)[added.subscription] == true)
    }

    /// Handles a message of a session that exceeds the limit: it is not passed on, and the session continues.
    pub fn too_long_from_session(&self, session: u64, skim: &Skim) {
        let mut guard = self.lock();
        let state = &mut *guard;
        let text = format!("a client sent a message of more than {} bytes", self.options.max_message);
        self.remark(state, Some(session), &text);
        if skim.shape() == Shape::Request {
            self.deliver(state, session, message::refusal(skim.id().unwrap_or("null"), -32600, &text));
        }
    }

    pub(super) fn request(self: &Arc<Self>, state: &mut State, session: u64, message: Message, envelope: Envelope) {
        let space = self.space(session);
        let (Some(key), Some(id), Some(id_place)) = (message.key(), message.id(), message.id_place()) else { return };
        let id = id.to_owned();
        let initialize = message.method.as_deref() == Some("initialize");
        let Some(member) = state.sessions.get_mut(&session) else { return };
        member.ready |= !initialize;
        let call = match (&member.kind, message.method.as_deref().and_then(CallKind::of_method)) {
            (SessionKind::Agent(recorder), Some(kind)) => {
                Some(recorder.open(&self.name, kind, message.params(), envelope.said.as_deref()))
            }
            _ => None,
        };
        if state.dead {
            if let Some(call) = call {
                call.ended(CallOutcome::Lost);
            }
            let text = state.failure.as_ref().map_or_else(String::new, ServerError::brief);
            self.deliver(state, session, message::lost(&id, &text));
            return;
        }
        if let Some(refusal) = call.as_ref().and_then(OpenCall::refusal) {
            if let Some(call) = call {
                call.refused(&refusal);
            }
            let answer = match refusal {
                Ok(result) => message::answer(&id, &result),
                Err((code, why)) => message::refusal(&id, code, why),
            };
            self.deliver(state, session, answer);
            return;
        }
        if initialize && space == 0 {
            let capabilities = message.param("capabilities").unwrap_or("{}").to_owned();
            match &mut state.handshake {
                Handshake::New => state.handshake = Handshake::Running { capabilities, waiting: VecDeque::new() },
                Handshake::Running { waiting, .. } => return waiting.push_back((session, message)),
                Handshake::Done { .. } => return self.greet(state, session, &message),
            }
        }
        let mut edits = Vec::new();
        let mut place = (space, key);
        let mut replaced = None;
        if state.pending.contains_key(&place) || !state.used.insert(&place) {
            let free =
                |key: IdKey| !state.pending.contains_key(&(space, key.clone())) && state.used.insert(&(space, key));
            let other = unused(&mut state.counter, &id, free);
            place.1 = IdKey::of(&other);
            edits.push((id_place, other.clone()));
            replaced = Some(other);
        }
        let mut token_key = None;
        if let Some(token) = message.meta("progressToken") {
            let mut token_place = (space, IdKey::of(token));
            let mut original = None;
            if state.tokens.contains_key(&token_place) {
                let other = unused(&mut state.counter, token, |key| !state.tokens.contains_key(&(space, key)));
                token_place.1 = IdKey::of(&other);
                edits.push((message.place_of(token), other));
                original = Some(token.to_owned());
            }
            token_key = Some(token_place.1.clone());
            state.tokens.insert(token_place, Token { session, original });
        }
        let bytes = message::splice(&message.bytes, edits);
        if initialize {
            let (relay, place) = (self.clone(), place.clone());
            tokio::spawn(async move {
                tokio::select! {
                    () = relay.over.cancelled() => {}
                    () = tokio::time::sleep(relay.options.initialize_timeout) => relay.too_late(&place),
                }
            });
        }
        let declares = initialize || message.method.as_deref() == Some("server/discover");
        let subscribes = self.subscribes(&message);
        let pending = Pending {
            session,
            id,
            replaced,
            token: token_key,
            call,
            initialize,
            declares,
            subscribes,
            given_up: false,
        };
        state.pending.insert(place, pending);
        send(state, space, bytes, envelope);
    }

    /// Answers `initialize` on behalf of a server that has already answered it once.
    fn greet(&self, state: &mut State, session: u64, message: &Message) {
        let Handshake::Done { capabilities, result } = &state.handshake else { return };
        let answer = message::answer(message.id().unwrap_or("null"), result);
        let wanted = message.param("capabilities").unwrap_or("{}");
        if let (Ok(wanted), Ok(first)) = (serde_json::from_str(wanted), serde_json::from_str(capabilities))
            && exceeds(&wanted, &first)
        {
            let text = format!(
                "a client with the capabilities {wanted} shares a server that got {first} from the client before it"
            );
            self.remark(state, Some(session), &text);
        }
        if let Some(member) = state.sessions.get_mut(&session) {
            (member.ready, member.greeted) = (true, true);
        }
        self.deliver(state, session, answer);
    }

    fn notification(&self, state: &mut State, session: u64, message: &Message, envelope: Envelope) {
        let space = self.space(session);
        if let Some(kind) = message.method.as_deref().and_then(CallKind::of_method)
            && let Some(SessionKind::Agent(recorder)) = state.sessions.get(&session).map(|member| &member.kind)
        {
            let call = recorder.open(&self.name, kind, message.params(), envelope.said.as_deref());
            if let Some(refusal) = call.refusal() {
                return call.refused(&refusal);
            }
            call.unanswerable();
        }
        let mut edits = Vec::new();
        match message.method.as_deref() {
            Some("notifications/initialized") if space == 0 => {
                if state.greeted {
                    return;
                }
                state.greeted = true;
            }
            Some("notifications/cancelled") => {
                let Some(raw) = message.param("requestId") else { return };
                let key = IdKey::of(raw);
                let own = state
                    .pending
                    .values_mut()
                    .find(|pending| pending.session == session && IdKey::of(&pending.id) == key);
                if let Some(pending) = own {
                    pending.given_up = true;
                    if let Some(call) = pending.call.take() {
                        call.ended(CallOutcome::Cancelled);
                    }
                    if let Some(other) = &pending.replaced {
                        edits.push((message.place_of(raw), other.clone()));
                    }
                } else if state.pending.contains_key(&(space, key)) {
                    // The request has been answered, and another session uses its id now.
                    return;
                }
            }
            _ => {}
        }
        send(state, space, message::splice(&message.bytes, edits), envelope);
    }

    fn response(&self, state: &mut State, session: u64, message: Message, envelope: Envelope) {
        let space = self.space(session);
        if let Some(key) = message.key() {
            let place = (space, key);
            match state.asked.get(&place) {
                Some(asked) if asked.session != session => return,
                _ => {
                    state.asked.remove(&place);
                }
            }
        }
        send(state, space, message.bytes, envelope);
    }
}

/// Returns an unused id of the same kind as the given one.
fn unused(counter: &mut u64, like: &str, mut free: impl FnMut(IdKey) -> bool) -> String {
    loop {
        *counter += 1;
        let candidate = if like.starts_with('"') {
            format!("\"gevals-{counter}\"")
        } else {
            format!("{}", 1_000_000_000 + *counter)
        };
        if free(IdKey::of(&candidate)) {
            return candidate;
        }
    }
}

/// Whether the first contains anything that the second does not.
fn exceeds(later: &Value, first: &Value) -> bool {
    match (later, first) {
        (Value::Object(later), Value::Object(first)) => {
            later.iter().any(|(key, value)| first.get(key).is_none_or(|other| exceeds(value, other)))
        }
        _ => later != first,
    }
}
