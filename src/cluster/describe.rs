//! Describes the state of an object, for messages.

use serde_json::Value;

/// A condition of an object's status; of several whose types differ only in case, the first (as kubectl does).
pub fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    let conditions = object.pointer("/status/conditions")?.as_array()?;
    conditions.iter().find(|c| c["type"].as_str().is_some_and(|t| t.eq_ignore_ascii_case(kind)))
}

/// Whether a condition is about the object as it is now, as far as its status says so (as kubectl reads it).
pub fn is_current(object: &Value, condition: &Value) -> bool {
    let observed = [&condition["observedGeneration"], &object["status"]["observedGeneration"]];
    let observed = observed.into_iter().find_map(Value::as_u64);
    let generation = object["metadata"]["generation"].as_u64();
    observed.zip(generation).is_none_or(|(observed, generation)| observed >= generation)
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
    if let Some(strategy) = object.pointer("/spec/updateStrategy/type").and_then(Value::as_str)
        && strategy != "RollingUpdate"
    {
        return Err(format!("it has no rollout, because its update strategy is {strategy}"));
    }
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
            let current = match object.pointer("/spec/updateStrategy/rollingUpdate/partition").and_then(Value::as_u64) {
                Some(partition) => status("updatedReplicas") >= wanted.saturating_sub(partition),
                None => revision("updateRevision") == revision("currentRevision"),
            };
            status("observedGeneration") > 0 && status("readyReplicas") >= wanted && current
        }
        Some("DaemonSet") => {
            let wanted = status("desiredNumberScheduled");
            status("updatedNumberScheduled") >= wanted && status("numberAvailable") >= wanted
        }
        kind => return Err(format!("a {} is not rolled out", kind.unwrap_or("thing without a kind"))),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn conditions_of_an_earlier_generation_do_not_count() {
        for (generation, observed, own, current) in [
            (json!(2), json!(2), json!(null), true),
            (json!(2), json!(1), json!(null), false),
            (json!(2), json!(1), json!(2), true),
            (json!(2), json!(2), json!(1), false),
            (json!(2), json!(null), json!(null), true),
            (json!(null), json!(1), json!(null), true),
        ] {
            let object = json!({"metadata": {"generation": generation}, "status": {"observedGeneration": observed}});
            assert_eq!(is_current(&object, &json!({"observedGeneration": own})), current, "{object} {own}");
        }
    }

    #[test]
    fn stateful_sets_are_rolled_out_down_to_their_partition() {
        let set = |updated: u64, rolling: &Value, revision: &str| {
            json!({"kind": "StatefulSet", "metadata": {"generation": 1},
                "spec": {"replicas": 3, "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": rolling}},
                "status": {"observedGeneration": 1, "readyReplicas": 3, "updatedReplicas": updated,
                    "currentRevision": "a", "updateRevision": revision}})
        };
        for (updated, rolling, revision, done) in [
            (3, json!({"partition": 0}), "a", true),
            (2, json!({"partition": 0}), "a", false),
            (2, json!({"partition": 1}), "b", true),
            (0, json!({"partition": 5}), "b", true),
            (0, json!(null), "a", true),
            (3, json!(null), "b", false),
        ] {
            assert_eq!(rolled_out(&set(updated, &rolling, revision)), Ok(done), "{updated} {rolling} {revision}");
        }
    }
}
