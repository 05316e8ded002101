//! An Argo workflow: a pod for each share of the units, and one that merges their results regardless of the outcome.

use super::{
    Engine, Order, Pods, Write, indented,
    pod::{BASH, MOUNT, Parts, container_security, pod_security},
};

pub const ENGINE: Engine = Engine {
    name: "argo",
    summary: "an Argo Workflow, with an exit handler that merges",
    // The state of all pods is in one object.
    most_jobs: 1000,
    write: Write::Pods(emit),
};

fn emit(order: &Order<'_>, pods: &Pods<'_>) -> Result<String, String> {
    // Expressions are expanded everywhere.
    if order.pack.contains("{{") {
        return Err("a path with `{{` cannot be written in a workflow".to_owned());
    }
    let parts = Parts::new(order, pods)?;
    let (name, image, jobs, at_once) = (&parts.name, parts.image(), order.jobs, parts.at_once());
    let shard = format!("{{{{inputs.parameters.shard}}}}/{jobs}");
    Ok(format!(
        r#"{head}# - a service account that Argo's executor works with, and where the namespace enforces the profile `restricted`, an
#   `executor.securityContext` in the controller's settings: the containers that Argo adds are the controller's
#
# With Argo Workflows 3.2 or later: `argo submit --watch FILE`, or `kubectl create -f FILE`. The workflow succeeds if the
# verdict is good: a verdict does not fail the pods of the units, and the exit handler merges all results and decides.
# All results are in {MOUNT}/{name}. What was killed or could not run is started once more, with the same
# directories: its units first clean up what the previous attempt left, and run again. `argo stop` lets units clean up and
# merges the available results, `argo terminate` merges nothing.
apiVersion: argoproj.io/v1alpha1
kind: Workflow
metadata:
  name: {name}
spec:
  entrypoint: all
  onExit: merge
  # How many at once: limited by the nodes, and by the servers and models behind them.
  parallelism: {at_once}
{pod}{volumes}  templates:
    - name: all
      dag:
        failFast: false
        tasks:
          - name: units
            template: units
            arguments:
              parameters:
                - {{name: shard, value: "{{{{item}}}}"}}
            withSequence: {{start: "1", end: "{jobs}"}}
    - name: units
      inputs:
        parameters:
          - name: shard
      retryStrategy:
        limit: "1"
        retryPolicy: Always
        # 2 would occur again: the pack is another one, or another gevals packed it.
        expression: "asInt(lastRetry.exitCode) != 2"
      # The units of a job have their own limits; this one is for anything that still hangs.
      activeDeadlineSeconds: {most}
      # The time for a stopped unit to clean up.
      podSpecPatch: '{{"terminationGracePeriodSeconds": {grace}}}'
      container:
        image: {image}
        command: {BASH}
        args:
          - |
{script}        workingDir: {MOUNT}
{env}{mounts}        # resources: {{requests: {{cpu: "1", memory: 1Gi}}, limits: {{memory: 2Gi}}}}
{container}    - name: merge
      activeDeadlineSeconds: 1800
      container:
        image: {image}
        command: {BASH}
        args:
          - |
{merge}        workingDir: {MOUNT}
{merging}{mounts}{container}"#,
        head = parts.head(ENGINE.name),
        most = parts.at_most_seconds(),
        grace = parts.grace(),
        pod = pod_security(2),
        volumes = parts.volumes(2),
        script = indented(&order.units(), 12),
        env = parts.units(Some(&shard), 8),
        mounts = parts.mounts(8),
        container = container_security(8),
        merge = parts.merge(12),
        merging = parts.merging(8),
    ))
}
