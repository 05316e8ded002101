//! Simulates the kubelet for a control plane without nodes: it updates pods in the namespaces of the tests according to
//! their annotation or to what they run.

use futures_util::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
    runtime::{WatchStreamExt, watcher},
};
use serde_json::{Value, json};

/// `ready`, `pending`, `failed`, `crash-loop`, `no-image`, `done`; without it, what the pod runs decides.
const STATE: &str = "test/state";

/// Runs until it is dropped. `ours` is the prefix of the tests' namespaces: the cluster may also be used by others.
pub async fn run(client: Client, ours: &str) {
    let pods: Api<Pod> = Api::all(client.clone());
    let mut pods = std::pin::pin!(watcher(pods, watcher::Config::default()).default_backoff().applied_objects());
    while let Some(pod) = pods.next().await {
        let Ok(pod) = pod else { continue };
        let meta = &pod.metadata;
        let (Some(name), Some(namespace)) = (&meta.name, &meta.namespace) else { continue };
        let started = pod.status.as_ref().is_some_and(|status| status.conditions.is_some());
        if started || !namespace.starts_with(ours) || meta.deletion_timestamp.is_some() {
            continue;
        }
        let told = meta.annotations.iter().flatten().find(|(key, _)| *key == STATE);
        let state = told.map_or_else(|| looked(&pod), |(_, value)| value);
        let names = pod.spec.iter().flat_map(|spec| &spec.containers).map(|container| container.name.as_str());
        let status = status(state, names);
        let api: Api<Pod> = Api::namespaced(client.clone(), namespace);
        let patch = Patch::Merge(json!({"status": status}));
        // A pod that was deleted in the meantime needs no status.
        let _ = api.patch_status(name, &PatchParams::default(), &patch).await;
    }
}

/// Returns the state of a pod without an annotation, from the tags of its images, its commands, and its owner.
fn looked(pod: &Pod) -> &'static str {
    let containers = || pod.spec.iter().flat_map(|spec| &spec.containers);
    let images = || containers().filter_map(|container| container.image.as_deref());
    let words = || containers().flat_map(|container| container.command.iter().chain(&container.args).flatten());
    let owners = || pod.metadata.owner_references.iter().flatten();
    if images().any(|image| ["nonexistent", "no-such"].iter().any(|word| image.contains(word))) {
        "no-image"
    } else if words().any(|word| word.contains("exit 1")) {
        "crash-loop"
    } else if owners().any(|owner| owner.kind == "Job") {
        "done"
    } else {
        "ready"
    }
}

fn status<'a>(state: &str, names: impl Iterator<Item = &'a str>) -> Value {
    let (phase, ready, container) = match state {
        "ready" => ("Running", "True", json!({"running": {}})),
        "done" => ("Succeeded", "False", json!({"terminated": {"exitCode": 0, "reason": "Completed"}})),
        "failed" => ("Failed", "False", json!({"terminated": {"exitCode": 3, "reason": "Error"}})),
        "crash-loop" => (
            "Running",
            "False",
            json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s restarting failed container"}}),
        ),
        "no-image" => {
            ("Pending", "False", json!({"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}))
        }
        "pending" => return json!({"phase": "Pending"}),
        other => panic!("{STATE}: no state `{other}`"),
    };
    let restarts = if state == "crash-loop" { 3 } else { 0 };
    let containers: Vec<_> = names
        .map(|name| json!({"name": name, "ready": ready == "True", "restartCount": restarts, "image": "x", "imageID": "x", "state": container}))
        .collect();
    let condition = |kind: &str| json!({"type": kind, "status": ready});
    json!({
        "phase": phase,
        "podIP": "10.0.0.1",
        "conditions": [condition("Ready"), condition("ContainersReady"), {"type": "PodScheduled", "status": "True"}],
        "containerStatuses": containers,
    })
}
