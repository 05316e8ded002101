//! Waits for a state, on a watch, and no longer than needed.

use std::{collections::BTreeMap, pin::pin, time::Duration};

use futures_util::StreamExt;
use kube::{
    Api, ResourceExt,
    api::DynamicObject,
    runtime::{
        WatchStreamExt,
        watcher::{self, Config, Event, watcher},
    },
};
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use super::{
    api::{Error, Kind, Result, Target, chain, explain, failed},
    call::{Call, Done},
    chosen::{Chosen, value},
    describe,
    path::Path,
};
use crate::kubernetes::operation::{Condition, ConditionStable, Rollout, Wait};

/// What to wait for.
#[derive(Clone, Debug)]
pub enum Until {
    /// A condition in the status.
    Condition { kind: String, status: String },
    /// A value at a path; if `value` is set, that value.
    Path { text: String, path: Path, value: Option<Value> },
    /// The object exists.
    Created,
    /// The object does not exist.
    Deleted,
    /// A workload is rolled out.
    Rollout,
}

impl Until {
    /// Whether an object is in this state.
    ///
    /// # Errors
    /// Why it never will be.
    fn holds(&self, object: &Value) -> std::result::Result<bool, String> {
        Ok(match self {
            Self::Condition { kind, status } => describe::condition(object, kind)
                .is_some_and(|c| c["status"].as_str() == Some(status) && describe::is_current(object, c)),
            Self::Path { path, value, .. } => match (path.select(object), value) {
                (Some(found), Some(value)) => {
                    found == *value || value.as_str().is_some_and(|text| path.text(&found) == text)
                }
                (found, None) => found.is_some_and(|found| !found.is_null()),
                (None, Some(_)) => false,
            },
            Self::Created => true,
            Self::Deleted => false,
            Self::Rollout => return describe::rolled_out(object),
        })
    }

    /// The state that was not reached, as a predicate.
    fn wanted(&self) -> String {
        match self {
            Self::Condition { kind, status } => match status.as_str() {
                "True" => format!("is not {kind}"),
                status => format!("does not have the condition {kind}={status}"),
            },
            Self::Path { text, value: Some(value), .. } => format!("does not have {value} at `{text}`"),
            Self::Path { text, value: None, .. } => format!("has nothing at `{text}`"),
            Self::Created => "does not exist".to_owned(),
            Self::Deleted => "still exists".to_owned(),
            Self::Rollout => "is not rolled out".to_owned(),
        }
    }

    /// The actual state.
    fn instead(&self, object: &Value) -> String {
        match self {
            Self::Condition { kind, .. } => describe::state(object, Some(kind)),
            Self::Path { path, .. } => match path.select(object) {
                Some(found) => format!("it is {found}"),
                None => "there is nothing".to_owned(),
            },
            Self::Deleted => describe::finalizers(object),
            Self::Created | Self::Rollout => describe::state(object, None),
        }
    }
}

/// What to watch: an object, or those that match a selector.
#[derive(Debug)]
pub struct Watched {
    api: Api<DynamicObject>,
    config: Config,
    kind: Kind,
    label: String,
}

impl Watched {
    /// Watches one object.
    pub fn one(target: &Target) -> Self {
        let config = Config::default().fields(&format!("metadata.name={}", target.name));
        Self { api: target.api.clone(), config, kind: target.kind.clone(), label: target.label() }
    }

    fn selected(api: Api<DynamicObject>, kind: Kind, selector: &str) -> Self {
        let label = format!("{} with `{selector}`", kind.resource.plural);
        Self { api, config: Config::default().labels(selector), kind, label }
    }
}

/// Parses a duration, as written in steps.
pub fn duration(text: &str) -> Result<Duration> {
    crate::ty::duration::parse(text).map_err(|e| Error::Broken(format!("`{text}` is no duration: {e}")))
}

/// Waits until all watched objects, at least one, are in a state.
///
/// # Errors
/// The actual state at the timeout, or at once if the wanted one can never be reached.
pub async fn until(watched: &Watched, until: &Until, limit: Duration) -> Result<()> {
    let deadline = Instant::now() + limit;
    let mut trouble = None;
    let mut objects = Objects::default();
    let mut events = pin!(watcher(watched.api.clone(), watched.config.clone()).default_backoff());
    loop {
        match timeout_at(deadline, events.next()).await {
            Ok(Some(Ok(event))) => {
                trouble = None;
                if !objects.take(event, &watched.kind) {
                    continue;
                }
                let mut all = !objects.known.is_empty();
                for object in objects.known.values() {
                    match until.holds(object) {
                        Ok(holds) => all &= holds,
                        Err(never) => return failed(format!("{} {}: {never}", watched.label, until.wanted())),
                    }
                }
                if all || matches!(until, Until::Deleted) && objects.known.is_empty() {
                    return Ok(());
                }
            }
            Ok(Some(Err(e))) => match refused(&e, &watched.label) {
                Some(error) => return Err(error),
                None => trouble = Some(chain(&e)),
            },
            Ok(None) => return Err(Error::Broken(format!("{}: the watch ended", watched.label))),
            Err(_) => break,
        }
    }
    let within = crate::ty::duration::format(limit);
    if !objects.ready {
        let trouble = trouble.unwrap_or_else(|| "it did not answer".to_owned());
        return Err(Error::Broken(format!(
            "{}: the API server does not answer within {within}: {trouble}",
            watched.label
        )));
    }
    let open = objects.known.iter().find(|(_, object)| !until.holds(object).unwrap_or(false));
    failed(match open {
        None => format!("{} does not exist, after {within}", watched.label),
        Some((name, object)) => {
            let which = if watched.config.label_selector.is_some() { format!(": `{name}`") } else { String::new() };
            let instead = until.instead(object);
            let instead = if instead.is_empty() { String::new() } else { format!(": {instead}") };
            format!("{}{which} {} after {within}{instead}", watched.label, until.wanted())
        }
    })
}

/// The objects of a watch.
#[derive(Default)]
struct Objects {
    known: BTreeMap<String, Value>,
    listed: BTreeMap<String, Value>,
    ready: bool,
}

impl Objects {
    /// Processes an event; returns `false` until the first list is complete.
    fn take(&mut self, event: Event<DynamicObject>, kind: &Kind) -> bool {
        match event {
            Event::Init => self.listed.clear(),
            Event::InitApply(object) => drop(self.listed.insert(object.name_any(), value(&object, kind))),
            Event::InitDone => {
                self.known = std::mem::take(&mut self.listed);
                self.ready = true;
            }
            Event::Apply(object) => drop(self.known.insert(object.name_any(), value(&object, kind))),
            Event::Delete(object) => drop(self.known.remove(&object.name_any())),
        }
        self.ready
    }
}

/// The error, if it is one that retrying does not fix.
fn refused(error: &watcher::Error, label: &str) -> Option<Error> {
    let cause = match error {
        watcher::Error::InitialListFailed(cause)
        | watcher::Error::WatchStartFailed(cause)
        | watcher::Error::WatchFailed(cause) => cause,
        watcher::Error::WatchError(_) | watcher::Error::NoResourceVersion => return None,
    };
    match cause {
        kube::Error::Api(status) if matches!(status.code, 400..=405) => Some(explain(cause, label)),
        _ => None,
    }
}

async fn watched(call: &Call, chosen: &Chosen) -> Result<Watched> {
    Ok(match &chosen.selector {
        Some(selector) => {
            let kind = chosen.kind(call).await?;
            Watched::selected(call.cluster.api(&kind, Some(&chosen.namespace)).await?, kind, selector)
        }
        None => Watched::one(&chosen.target(call).await?),
    })
}

/// Waits for each of the objects that match a selector now, one after the other, as kubectl does. Later ones do not count.
async fn each(call: &Call, chosen: &Chosen, selector: &str, wanted: &Until, limit: Duration) -> Result<()> {
    let deadline = Instant::now() + limit;
    let kind = chosen.kind(call).await?;
    let listed = chosen.listed(call, selector).await?;
    if listed.is_empty() {
        return failed(format!("{} with `{selector}`: there is no such object", kind.resource.plural));
    }
    for object in &listed {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let target = call.cluster.target(kind.clone(), Some(&chosen.namespace), name).await?;
        until(&Watched::one(&target), wanted, deadline.saturating_duration_since(Instant::now())).await?;
    }
    Ok(())
}

/// `wait`.
pub async fn wait(call: &Call, args: Wait) -> Result<Done> {
    let limit = duration(&args.timeout)?;
    let mut wanted = Vec::new();
    if let Some(kind) = args.condition {
        wanted.push(Until::Condition { kind, status: args.status });
    }
    if let Some(text) = args.jsonpath {
        let path = Path::parse(&text).map_err(Error::Broken)?;
        wanted.push(Until::Path { text, path, value: args.value });
    }
    wanted.extend(args.created.then_some(Until::Created));
    wanted.extend(args.deleted.then_some(Until::Deleted));
    let [wanted] = wanted.as_slice() else {
        let what = "exactly one of `condition`, `jsonpath`, `created: true` and `deleted: true` is awaited";
        return Err(Error::Broken(what.to_owned()));
    };
    let chosen = Chosen {
        resource: args.resource,
        namespace: args.namespace,
        kind: args.kind,
        selector: args.selector,
        api_version: args.api_version,
        metadata: args.metadata,
    };
    let watched = match watched(call, &chosen).await {
        Err(Error::NoKind { why, is_near: false }) if args.deleted && !args.must_exist => return Ok(Done::said(why)),
        watched => watched?,
    };
    let started = Instant::now();
    match &chosen.selector {
        Some(selector) if args.must_exist => each(call, &chosen, selector, wanted, limit).await?,
        _ => {
            if args.must_exist {
                chosen.target(call).await?.existing().await?;
            }
            until(&watched, wanted, limit).await?;
        }
    }
    Ok(over(&watched.label, started))
}

/// `condition`.
pub async fn condition(call: &Call, args: Condition) -> Result<Done> {
    let target = call.cluster.resource(&args.resource, &args.namespace).await?;
    let started = Instant::now();
    let wanted = Until::Condition { kind: args.kind, status: args.status };
    until(&Watched::one(&target), &wanted, duration(&args.timeout)?).await?;
    Ok(over(&target.label(), started))
}

/// `condition-stable`.
pub async fn stable(call: &Call, args: ConditionStable) -> Result<Done> {
    let target = call.cluster.resource(&args.resource, &args.namespace).await?;
    let span = duration(&args.duration)?;
    let wanted = Until::Condition { kind: args.condition, status: "True".to_owned() };
    let watched = Watched::one(&target);
    let mut objects = Objects::default();
    let mut events = pin!(watcher(watched.api.clone(), watched.config.clone()).default_backoff());
    let started = Instant::now();
    while let Ok(event) = timeout_at(started + span, events.next()).await {
        match event {
            Some(Ok(event)) => {
                if !objects.take(event, &watched.kind) {
                    continue;
                }
                let after = crate::ty::duration::format(Duration::from_secs(started.elapsed().as_secs()));
                match objects.known.values().next() {
                    None => {
                        return failed(format!("{} does not exist, after {after} of {}", watched.label, args.duration));
                    }
                    Some(object) if !wanted.holds(object).unwrap_or(false) => {
                        let state = wanted.instead(object);
                        return failed(format!(
                            "{} {} after {after} of {}: {state}",
                            watched.label,
                            wanted.wanted(),
                            args.duration
                        ));
                    }
                    Some(_) => {}
                }
            }
            Some(Err(e)) => {
                if let Some(error) = refused(&e, &watched.label) {
                    return Err(error);
                }
                // Changes in the meantime may have been missed.
                return Err(Error::Broken(format!("{}: the watch was interrupted: {}", watched.label, chain(&e))));
            }
            None => return Err(Error::Broken(format!("{}: the watch ended", watched.label))),
        }
    }
    if !objects.ready {
        return Err(Error::Broken(format!(
            "{}: the API server does not answer within {}",
            watched.label, args.duration
        )));
    }
    Ok(Done::said(format!("{}: held for {}", target.label(), args.duration)))
}

/// `rollout`.
pub async fn rollout(call: &Call, args: Rollout) -> Result<Done> {
    let target = call.cluster.resource(&args.resource, &args.namespace).await?;
    workload(&target)?;
    if args.must_exist {
        target.existing().await?;
    }
    let started = Instant::now();
    until(&Watched::one(&target), &Until::Rollout, duration(&args.timeout)?).await?;
    Ok(over(&target.label(), started))
}

/// Checks that a target is of a kind that can be rolled out.
pub fn workload(target: &Target) -> Result<()> {
    match target.kind.resource.kind.as_str() {
        "Deployment" | "StatefulSet" | "DaemonSet" => Ok(()),
        kind => {
            Err(Error::Broken(format!("a {kind} is not rolled out: a Deployment, a StatefulSet or a DaemonSet is")))
        }
    }
}

fn over(label: &str, started: Instant) -> Done {
    Done::said(format!("{label}: after {:.1} s", started.elapsed().as_secs_f64()))
}
