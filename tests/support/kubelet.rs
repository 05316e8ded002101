//! Plays the kubelet for a control plane without nodes: moves pods by what their annotation says, in the namespaces of tests.

use futures_util::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
    runtime::{WatchStreamExt, watcher},
};
use serde_json::{Value, json};

/// `ready` (also without it), `pending`, `failed`, `crash-loop`, `no-image`.
const STATE: &str = "test/state";
/// How the names of their namespaces begin: the cluster may be anybody's.
const OURS: &str = "gevals-";

/// Runs until it is dropped.
pub async fn run(client: Client) {
    let pods: Api<Pod> = Api::all(client.clone());
    let mut pods = std::pin::pin!(watcher(pods, watcher::Config::default()).default_backoff().applied_objects());
    while let Some(pod) = pods.next().await {
        let Ok(pod) = pod else { continue };
        let meta = &pod.metadata;
        let (Some(name), Some(namespace)) = (&meta.name, &meta.namespace) else { continue };
        let started = pod.status.as_ref().is_some_and(|status| status.conditions.is_some());
        if started || !namespace.starts_with(OURS) || meta.deletion_timestamp.is_some() {
            continue;
        }
        let state =
            meta.annotations.iter().flatten().find(|(key, _)| *key == STATE).map_or("ready", |(_, value)| value);
        let names = pod.spec.iter().flat_map(|spec| &spec.containers).map(|container| container.name.as_str());
        let status = status(state, names);
        let api: Api<Pod> = Api::namespaced(client.clone(), namespace);
        let patch = Patch::Merge(json!({"status": status}));
        // A pod that is gone meanwhile needs no status.
        let _ = api.patch_status(name, &PatchParams::default(), &patch).await;
    }
}

fn status<'a>(state: &str, names: impl Iterator<Item = &'a str>) -> Value {
    let (phase, ready, container) = match state {
        "ready" => ("Running", "True", json!({"running": {}})),
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
