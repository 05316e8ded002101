//! Describes the state of an object, for messages.

use serde_json::Value;

/// A condition of an object's status; of several whose types differ only in case, the first (as kubectl does).
pub fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    let conditions = object.pointer("/status/conditions")?.as_array()?;
    conditions.iter().find(|c| c["type"].as_str().is_some_and(|t| t.eq_ignore_ascii_case(kind)))
}

/// The state of an object: a condition, its containers, its phase.
pub fn state(object: &Value, kind: Option<&str>) -> String {
    let mut parts = Vec::new();
    if let Some(kind) = kind {
        match condition(object, kind) {
            Some(found) => {
                let text = |key: &str| found[key].as_str().filter(|text| !text.is_empty());
                let status = text("status").unwrap_or("unknown");
                let why: Vec<_> = [text("reason"), text("message")].into_iter().flatten().collect();
                let why = if why.is_empty() { String::new() } else { format!(" ({})", why.join(": ")) };
                parts.push(format!("{kind} is {status}{why}"));
            }
            None => {
                let known: Vec<_> = object
                    .pointer("/status/conditions")
                    .and_then(Value::as_array)
                    .into_iter()
                    .flatten()
                    .filter_map(|c| c["type"].as_str())
                    .collect();
                parts.push(match known.is_empty() {
                    true => "it has no conditions".to_owned(),
                    false => format!("it has no condition {kind}, but {}", known.join(", ")),
                });
            }
        }
    }
    if let Some(phase) = object.pointer("/status/phase").and_then(Value::as_str) {
        parts.push(format!("its phase is {phase}"));
    }
    for list in ["/status/initContainerStatuses", "/status/containerStatuses"] {
        for container in object.pointer(list).and_then(Value::as_array).into_iter().flatten() {
            parts.extend(of_container(container));
        }
    }
    if let (Some(wanted), Some(status)) =
        (object.pointer("/spec/replicas").and_then(Value::as_u64), object.get("status"))
    {
        let ready = status["readyReplicas"].as_u64().unwrap_or(0);
        if ready != wanted {
            parts.push(format!("{ready} of {wanted} replicas are ready"));
        }
    }
    parts.join("; ")
}

fn of_container(container: &Value) -> Option<String> {
    let name = container["name"].as_str()?;
    let state = &container["state"];
    let text = |value: &Value, key: &str| value[key].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    let with = |reason: String, message: Option<String>| match message {
        Some(message) => format!("{reason} ({message})"),
        None => reason,
    };
    if let Some(waiting) = state.get("waiting") {
        let restarts = container["restartCount"].as_u64().filter(|n| *n > 0).map(|n| format!(", {n} restarts"));
        let reason = with(text(waiting, "reason").unwrap_or_else(|| "waiting".to_owned()), text(waiting, "message"));
        return Some(format!("container `{name}`: {reason}{}", restarts.unwrap_or_default()));
    }
    let ended = state.get("terminated")?;
    let reason = with(text(ended, "reason").unwrap_or_else(|| "terminated".to_owned()), text(ended, "message"));
    Some(format!("container `{name}`: {reason}, exit status {}", ended["exitCode"]))
}

/// What delays the deletion of an object.
pub fn finalizers(object: &Value) -> String {
    let names = |pointer: &str| -> Vec<_> {
        object.pointer(pointer).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
    };
    let waiting = [names("/metadata/finalizers"), names("/spec/finalizers")].concat();
    let deleting = object.pointer("/metadata/deletionTimestamp").is_some();
    match (deleting, waiting.is_empty()) {
        (false, _) => "nobody has deleted it".to_owned(),
        (true, true) => "it is being deleted".to_owned(),
        (true, false) => format!("it is being deleted, and its finalizers are not done: {}", waiting.join(", ")),
    }
}

/// Whether a workload is rolled out, by the rules of `kubectl rollout status`.
///
/// # Errors
/// Why it will never be rolled out.
pub fn rolled_out(object: &Value) -> Result<bool, String> {
    let spec = |key: &str| object["spec"][key].as_u64();
    let status = |key: &str| object["status"][key].as_u64().unwrap_or(0);
    if object["metadata"]["generation"].as_u64().unwrap_or(0) > status("observedGeneration") {
        return Ok(false);
    }
    Ok(match object["kind"].as_str() {
        Some("Deployment") => {
            let late =
                condition(object, "Progressing").filter(|c| c["reason"].as_str() == Some("ProgressDeadlineExceeded"));
            if let Some(late) = late {
                return Err(late["message"].as_str().unwrap_or("its progress deadline is over").to_owned());
            }
            let (wanted, updated) = (spec("replicas").unwrap_or(1), status("updatedReplicas"));
            updated >= wanted && status("replicas") <= updated && status("availableReplicas") >= updated
        }
        Some("StatefulSet") => {
            let (wanted, revision) = (spec("replicas").unwrap_or(1), |key: &str| object["status"][key].as_str());
            let current =
                revision("updateRevision") == revision("currentRevision") || status("updatedReplicas") >= wanted;
            status("readyReplicas") >= wanted && current
        }
        Some("DaemonSet") => {
            let wanted = status("desiredNumberScheduled");
            status("updatedNumberScheduled") >= wanted && status("numberAvailable") >= wanted
        }
        kind => return Err(format!("a {} is not rolled out", kind.unwrap_or("thing without a kind"))),
    })
}
