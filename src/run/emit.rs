//! Numbers events, masks secrets in them, and sends them.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, PoisonError},
};

use indexmap::{IndexMap, IndexSet};
use serde_json::{Map, Value};
use tokio::sync::mpsc::UnboundedSender;
use tokio_util::sync::CancellationToken;

use crate::{
    event::{ActionReport, Event, EventKind, ExitReport, Outcome, TaskRun},
    host::{Capability, Host},
    journal::{Entry, Journal},
    plan::{ActionIx, Plan, PlanPhase, planned_id, wire::is_secret_header},
    secrets::Secrets,
    secrets::{MASK, is_secret_name},
};

/// The only place where events get their numbers.
pub(super) struct Emitter<'a> {
    host: &'a dyn Host,
    sink: UnboundedSender<Event>,
    next: Mutex<u64>,
    noticed: Mutex<HashSet<(String, String)>>,
    pub vault: Vault,
    journal: Option<Arc<Journal>>,
    /// Cancelled when the journal cannot be written: nothing that belongs in it may be done any more.
    unwritable: CancellationToken,
}

impl<'a> Emitter<'a> {
    pub fn new(host: &'a dyn Host, sink: UnboundedSender<Event>, secrets: impl IntoIterator<Item = String>) -> Self {
        let vault = Vault::default();
        vault.learn(secrets);
        let (next, noticed) = (Mutex::default(), Mutex::default());
        Self { host, sink, next, noticed, vault, journal: None, unwritable: CancellationToken::new() }
    }

    /// Adds a journal that every event is written to; `next` is the number of the first event.
    pub fn with_journal(self, journal: Option<Arc<Journal>>, next: u64, unwritable: CancellationToken) -> Self {
        Self { journal, next: Mutex::new(next), unwritable, ..self }
    }

    pub fn journal(&self) -> Option<&Arc<Journal>> {
        self.journal.as_ref()
    }

    pub fn note(&self, entry: &Entry) {
        if let Some(journal) = &self.journal {
            journal.append(entry);
            self.look_at(journal);
        }
    }

    /// Waits until everything emitted so far is on disk.
    pub async fn durable(&self) {
        if let Some(journal) = &self.journal {
            journal.sync().await;
            self.look_at(journal);
        }
    }

    fn look_at(&self, journal: &Journal) {
        if journal.failure().is_some() {
            self.unwritable.cancel();
        }
    }

    pub fn emit(&self, task: Option<&TaskRun>, mut kind: EventKind) {
        mask(&mut kind, &self.vault.secrets());
        // Sent under the lock, so that the order of the numbers is the order of arrival.
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let event = Event { seq: *next, at: self.host.now(), task: task.cloned(), kind };
        *next += 1;
        if let Some(journal) = &self.journal {
            journal.event(&event);
            self.look_at(journal);
        }
        // A missing listener must not stop a run.
        let _ = self.sink.send(event);
    }

    /// Emits a notice about a server, once.
    pub fn notice(&self, task: Option<&TaskRun>, server: &str, message: &str) {
        let mut noticed = self.noticed.lock().unwrap_or_else(PoisonError::into_inner);
        if noticed.insert((server.to_owned(), message.to_owned())) {
            self.emit(task, EventKind::ServerNotice { server: server.to_owned(), message: message.to_owned() });
        }
    }
}

/// The events of one run of a task.
pub(super) struct TaskEvents<'a> {
    pub emitter: &'a Emitter<'a>,
    pub run: TaskRun,
    /// The planned actions that have ended, in any round or attempt.
    ended: Mutex<HashSet<String>>,
    /// The capabilities given to agents and judges of this run; they must not appear in its events.
    capabilities: Mutex<Vec<String>>,
}

impl Drop for TaskEvents<'_> {
    /// The capabilities are no longer valid.
    fn drop(&mut self) {
        let capabilities = self.capabilities.get_mut().unwrap_or_else(PoisonError::into_inner);
        self.emitter.vault.forget(capabilities);
    }
}

impl<'a> TaskEvents<'a> {
    pub fn new(emitter: &'a Emitter<'a>, run: TaskRun) -> Self {
        Self { emitter, run, ended: Mutex::default(), capabilities: Mutex::default() }
    }

    /// Masks the capability in everything that is written from now on.
    pub fn keep_secret(&self, capability: &Capability) {
        let secret = capability.as_str().to_owned();
        self.capabilities.lock().unwrap_or_else(PoisonError::into_inner).push(secret.clone());
        self.emitter.vault.learn([secret]);
    }

    pub fn emit(&self, kind: EventKind) {
        if let EventKind::ActionFinished { action, .. } = &kind {
            self.ended.lock().unwrap_or_else(PoisonError::into_inner).insert(planned_id(action));
        }
        self.emitter.emit(Some(&self.run), kind);
    }

    /// Skips what has not started of an action and of everything in it: every planned action ends, executed or skipped.
    pub fn skip(&self, plan: &Plan, ix: ActionIx, why: &str) {
        let action = plan.action(ix);
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner).contains(&action.id);
        self.skip_inside(plan, ix, why);
        if !ended {
            let report = ActionReport::new(Outcome::Skipped, why);
            self.emit(EventKind::ActionFinished { action: action.id.clone(), report });
        }
    }

    /// Skips everything inside an action.
    pub fn skip_inside(&self, plan: &Plan, ix: ActionIx, why: &str) {
        plan.nested(ix).for_each(|ix| self.skip(plan, ix, why));
    }

    /// Skips everything in whole phases.
    pub fn skip_phases(&self, plan: &Plan, phases: &[PlanPhase], why: &str) {
        phases.iter().flat_map(|phase| plan.members(*phase)).for_each(|ix| self.skip(plan, ix, why));
    }

    /// Records the variables of the loops around a group in the journal.
    pub fn note_vars(&self, action: &str, vars: &IndexMap<String, Value>) {
        if self.emitter.journal.is_none() {
            return;
        }
        let mut vars: Value =
            vars.iter().map(|(name, value)| (name.clone(), value.clone())).collect::<Map<_, _>>().into();
        self.emitter.vault.secrets().mask_json(&mut vars);
        if let Value::Object(vars) = vars {
            self.emitter.note(&Entry::Vars { task: self.run.clone(), action: action.to_owned(), vars });
        }
    }

    /// Learns the secrets among the arguments of a step: variables whose names indicate a secret, and headers that
    /// authorize.
    pub fn learn_secrets(&self, args: &Value) {
        let of = |key: &str| args.get(key).and_then(Value::as_object).into_iter().flatten();
        let values = of("env").filter(|(name, _)| is_secret_name(name));
        let headers = of("headers").filter(|(name, _)| is_secret_header(name));
        let headers = headers.filter_map(|(_, value)| value.as_str()).flat_map(header_secrets);
        self.emitter.vault.learn(values.filter_map(|(_, value)| value.as_str().map(str::to_owned)).chain(headers));
    }
}

/// Returns a header's value, and the part after the scheme in `Bearer …`.
pub(super) fn header_secrets(value: &str) -> impl Iterator<Item = String> {
    let parts = [Some(value), value.split_once(' ').map(|(_, credentials)| credentials)];
    parts.into_iter().flatten().map(str::to_owned).collect::<Vec<_>>().into_iter()
}

/// The secret values known so far. Clones share it.
#[derive(Clone, Default)]
pub(super) struct Vault(Arc<Mutex<(IndexSet<String>, Arc<Secrets>)>>);

impl Vault {
    pub fn learn(&self, values: impl IntoIterator<Item = String>) {
        let mut vault = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = vault.0.len();
        vault.0.extend(values);
        if vault.0.len() > before {
            vault.1 = Arc::new(Secrets::new(vault.0.iter().cloned()));
        }
    }

    pub fn forget(&self, values: &[String]) {
        let mut vault = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !values.is_empty() {
            vault.0.retain(|known| !values.contains(known));
            vault.1 = Arc::new(Secrets::new(vault.0.iter().cloned()));
        }
    }

    pub fn secrets(&self) -> Arc<Secrets> {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner).1)
    }
}

/// How many characters of a prompt and of an answer events contain.
pub const PROMPT: usize = 100_000;
pub const ANSWER: usize = 4_000;
/// How many characters of the value of a hole or a variable.
pub const FILLED: usize = 200;
/// How many characters beyond a cut are masked as well, so that no part of a secret remains at the cut.
const BEYOND: usize = 4_096;

/// The part of a text that must be masked before it is cut.
pub fn head(text: &str, most: usize) -> &str {
    text.char_indices().nth(most + BEYOND).map_or(text, |(end, _)| &text[..end])
}

/// Cuts a masked text.
fn cut(text: &mut String, most: usize) {
    if let Some((end, _)) = text.char_indices().nth(most) {
        text.truncate(end);
        text.push('…');
    }
}

fn mask(kind: &mut EventKind, secrets: &Secrets) {
    let text = |text: &mut String| {
        if let std::borrow::Cow::Owned(masked) = secrets.mask(text) {
            *text = masked;
        }
    };
    match kind {
        EventKind::ServerNotice { message, .. } => text(message),
        EventKind::ServerStarted { tools, .. } => {
            for tool in tools {
                text(&mut tool.name);
                text(&mut tool.description);
                if let Some(schema) = &mut tool.input_schema {
                    secrets.mask_json(schema);
                }
            }
        }
        EventKind::ActionFinished { report, .. } => mask_report(report, secrets, &text),
        EventKind::AgentSpoke { text: spoken } => text(spoken),
        EventKind::AgentPrompted { text: prompt } => {
            text(prompt);
            cut(prompt, PROMPT);
        }
        EventKind::AgentWorked { steps } => {
            for step in steps {
                step.content.iter_mut().for_each(text);
                let Some(call) = &mut step.tool_call else { continue };
                text(&mut call.title);
                for value in call.raw_input.iter_mut().chain(&mut call.raw_output) {
                    secrets.mask_json(value);
                }
            }
        }
        EventKind::CallRecorded { call } => {
            text(&mut call.name);
            secrets.mask_json(&mut call.params);
            call.error.iter_mut().for_each(text);
            if let Some(result) = &mut call.result {
                secrets.mask_json(result);
            }
            call.headers.values_mut().flatten().for_each(text);
        }
        EventKind::TaskFinished { reason, .. } | EventKind::Cancelled { reason } => text(reason),
        EventKind::Remarked { remark } => text(&mut remark.message),
        EventKind::TaskRetried { reason, .. } => text(reason),
        EventKind::RunStarted { .. }
        | EventKind::AgentIsolated { .. }
        | EventKind::TaskStarted { .. }
        | EventKind::TokensCounted { .. }
        | EventKind::PhaseStarted { .. }
        | EventKind::CleanupPending { .. }
        | EventKind::CleanupDone { .. }
        | EventKind::ActionStarted { .. }
        | EventKind::GateDecided { .. }
        | EventKind::RunFinished { .. } => {}
    }
}

fn mask_report(report: &mut ActionReport, secrets: &Secrets, text: &impl Fn(&mut String)) {
    text(&mut report.message);
    text(&mut report.stdout);
    text(&mut report.stderr);
    text(&mut report.answer);
    cut(&mut report.answer, ANSWER);
    for (name, value) in &mut report.filled {
        let Value::String(value) = value else { continue };
        text(value);
        cut(value, FILLED);
        if is_secret_name(name.trim_start_matches('$')) {
            MASK.clone_into(value);
        }
    }
    if let Some(judgement) = &mut report.judgement {
        text(&mut judgement.reason);
    }
    for difference in &mut report.differences {
        text(&mut difference.subject);
        text(&mut difference.expected);
        text(&mut difference.actual);
    }
    if let Some(ExitReport::NotStarted { reason }) = &mut report.exit {
        text(reason);
    }
    let mut outputs = Value::Object(std::mem::take(&mut report.outputs));
    secrets.mask_json(&mut outputs);
    report.outputs = match outputs {
        Value::Object(outputs) => outputs,
        _ => Map::new(),
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::ServerTool;

    #[test]
    fn a_server_may_describe_its_tools_with_a_secret() {
        let secrets = Secrets::new(["s3cr3t-value"]);
        let about = "queries postgres://app:s3cr3t-value@db/prod".to_owned();
        let schema = serde_json::json!({ "properties": { "url": { "default": about } } });
        let tool = ServerTool { name: "query".to_owned(), description: about, input_schema: Some(schema) };
        let mut kind = EventKind::ServerStarted { server: "db".to_owned(), tools: vec![tool] };
        mask(&mut kind, &secrets);
        let text = serde_json::to_string(&kind).unwrap();
        assert!(!text.contains("s3cr3t") && text.matches(MASK).count() == 2, "{text}");
    }

    #[test]
    fn truncated_texts_contain_no_part_of_a_secret() {
        let secret = "s3cr3t-value-that-is-long";
        let secrets = Secrets::new([secret.to_owned()]);
        for before in [PROMPT - 40, PROMPT - 5, PROMPT, PROMPT + 40] {
            let prompt = "x".repeat(before) + secret + &"y".repeat(10_000);
            let mut kind = EventKind::AgentPrompted { text: head(&prompt, PROMPT).to_owned() };
            mask(&mut kind, &secrets);
            let EventKind::AgentPrompted { text } = kind else { panic!() };
            assert!(!text.contains("s3"), "{before}");
            assert_eq!(text.chars().count(), PROMPT + 1, "{before}");
        }
        let mut report = ActionReport::new(Outcome::Passed, "");
        report.answer = "short".to_owned();
        mask_report(&mut report, &secrets, &|_| ());
        assert_eq!(report.answer, "short");
    }
}
