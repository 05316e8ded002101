//! A process serves clients of one era on one connection: those that start with `initialize`, or those that send their
//! version with every request (2026-07-28). The first client decides which era; for clients of the other era the
//! program is started a second time.

use std::sync::{Arc, OnceLock};

use super::{Relay, State};
use crate::mcp::{
    ServerError,
    message::{self, Message},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Era {
    Handshake,
    Stateless,
}

impl Era {
    /// The era that a message shows, if any.
    pub(super) fn of(message: &Message) -> Option<Era> {
        let says = message.meta(message::META_VERSION).is_some();
        match message.method.as_deref() {
            _ if says => Some(Era::Stateless),
            Some("initialize") => Some(Era::Handshake),
            _ => None,
        }
    }
}

/// How to start the program a second time, and the relay to that process.
pub(in crate::mcp) struct Twin {
    start: Box<dyn Fn() -> Result<Arc<Relay>, ServerError> + Send + Sync>,
    relay: OnceLock<Arc<Relay>>,
}

impl Twin {
    pub fn new(start: impl Fn() -> Result<Arc<Relay>, ServerError> + Send + Sync + 'static) -> Self {
        Twin { start: Box::new(start), relay: OnceLock::new() }
    }
}

impl Relay {
    /// The relay to the process for the other era, if it was started.
    pub fn twin(&self) -> Option<&Arc<Relay>> {
        self.twin.as_ref()?.relay.get()
    }

    /// Where a message of a session belongs, if it is of the other era: the twin, and the session there.
    pub(super) fn elsewhere(
        self: &Arc<Self>,
        state: &mut State,
        session: u64,
        message: &Message,
    ) -> Option<(Arc<Relay>, u64)> {
        let twin = self.twin.as_ref()?;
        let era = Era::of(message);
        let member = state.sessions.get_mut(&session)?;
        member.away = match era {
            Some(era) => *state.era.get_or_insert(era) != era,
            None => member.away,
        };
        if !member.away {
            return None;
        }
        let relay = match twin.relay.get() {
            Some(relay) => relay.clone(),
            None => match (twin.start)() {
                Ok(relay) => twin.relay.get_or_init(|| relay).clone(),
                Err(error) => {
                    self.remark(state, Some(session), &error.brief());
                    return None;
                }
            },
        };
        let member = state.sessions.get_mut(&session)?;
        let there = match member.there {
            Some(there) => there,
            None => {
                let mut port = relay.open(member.kind.clone());
                let (there, here, ended) = (port.id, self.clone(), member.ended.clone());
                member.there = Some(there);
                tokio::spawn(async move {
                    let pump = async {
                        while let Some(bytes) = port.next().await {
                            here.deliver(&mut here.lock(), session, bytes);
                        }
                    };
                    tokio::select! {
                        () = pump => {}
                        () = ended.cancelled() => {}
                    }
                });
                there
            }
        };
        if message.method.as_deref() != Some("server/discover") && !std::mem::replace(&mut state.doubled, true) {
            let text = "clients with a handshake and clients without one share the server, which runs once for each kind: \
                        what it keeps in memory is not shared";
            self.remark(state, Some(session), text);
        }
        Some((relay, there))
    }

    /// The first answer shows whether the server supports the era at all.
    pub(super) fn settle(state: &mut State, answer: &Message) {
        match answer.error() {
            Some(_) if !state.settled => state.era = None,
            Some(_) => {}
            None => state.settled = true,
        }
    }
}
