//! A Tekton pipeline: a matrix of task runs for the units, and a final task that merges their results.

use super::{
    Engine, Order, Pods, Write, indented,
    pod::{MOUNT, Parts, container_security, pod_security},
};

pub const ENGINE: Engine = Engine {
    name: "tekton",
    summary: "a Tekton Pipeline with a matrix and a final task that merges, its Tasks and a PipelineRun",
    // The limit of one matrix, with the default `default-max-matrix-combinations-count`.
    most_jobs: 256,
    write: Write::Pods(emit),
};

/// Maximum duration of the final task, in seconds.
const MERGE: u64 = 1800;

fn emit(order: &Order<'_>, pods: &Pods<'_>) -> Result<String, String> {
    // Variables are expanded everywhere.
    if order.pack.contains("$(") {
        return Err("a path with `$(` cannot be written in a task".to_owned());
    }
    let parts = Parts::new(order, pods)?;
    let (name, image, jobs) = (&parts.name, parts.image(), order.jobs);
    let shards: Vec<String> = (1..=jobs).map(|nth| format!("\"{nth}\"")).collect();
    let shell = "#!/usr/bin/env bash\nset -euo pipefail\n";
    // For two attempts.
    let all = parts.all_seconds().saturating_mul(2);
    Ok(format!(
        r#"{head}# - if the namespace enforces the profile `restricted`, the feature flag `set-security-context` of Tekton, and if
#   pods run on several nodes, `coschedule: disabled`: otherwise a workspace with a claim keeps them on one
#
# With Tekton Pipelines 0.53 or later (a matrix needs the feature flag `enable-api-fields: beta`): `kubectl create -f FILE`.
# The PipelineRun succeeds if the verdict is good: a verdict does not fail the task runs of the units, and the last task merges
# all results and decides. All results are in {MOUNT}/{name}. What was killed or could not
# run is started once more, with the same directories: its units first clean up what the previous attempt left, and run
# again. Tekton does not retry by the exit status: a refused pack (2) is refused twice. All task runs of a matrix
# are started at once; a quota of the namespace limits them. A pod that is stopped has 30 seconds, for which Tekton has no
# field: a longer cleanup is interrupted, and left to the next attempt.
apiVersion: tekton.dev/v1
kind: Task
metadata:
  name: {name}-units
spec:
  params:
    - {{name: shard, type: string}}
  workspaces:
    - {{name: evals, mountPath: {MOUNT}}}
  steps:
    - name: units
      image: {image}
      # The units of a job have their own limits; this one is for anything that still hangs.
      timeout: {most}s
      workingDir: {MOUNT}
{env}      # computeResources: {{requests: {{cpu: "1", memory: 1Gi}}, limits: {{memory: 2Gi}}}}
{container}      script: |
{script}---
apiVersion: tekton.dev/v1
kind: Task
metadata:
  name: {name}-merge
spec:
  workspaces:
    - {{name: evals, mountPath: {MOUNT}}}
  steps:
    - name: merge
      image: {image}
      workingDir: {MOUNT}
{merging}{container}      script: |
{merge}---
apiVersion: tekton.dev/v1
kind: Pipeline
metadata:
  name: {name}
spec:
  workspaces:
    - name: evals
  tasks:
    - name: units
      taskRef: {{name: {name}-units}}
      retries: 1
      # As long as all of them take one after another: it also counts while a pod waits for a node.
      timeout: {each}s
      matrix:
        params:
          - name: shard
            value: [{shards}]
      workspaces:
        - {{name: evals, workspace: evals}}
  finally:
    - name: merge
      taskRef: {{name: {name}-merge}}
      workspaces:
        - {{name: evals, workspace: evals}}
---
apiVersion: tekton.dev/v1
kind: PipelineRun
metadata:
  name: {name}
spec:
  pipelineRef: {{name: {name}}}
  timeouts: {{pipeline: {whole}s, tasks: {all}s, finally: {MERGE}s}}
  taskRunTemplate:
    podTemplate:
      automountServiceAccountToken: false
{pod}  workspaces:
    - name: evals
      persistentVolumeClaim: {{claimName: {claim}}}
"#,
        head = parts.head(ENGINE.name),
        most = parts.at_most_seconds(),
        each = parts.all_seconds(),
        whole = all + MERGE,
        env = parts.units(Some(&format!("$(params.shard)/{jobs}")), 6),
        container = container_security(6),
        script = indented(&format!("{shell}{}", order.units()), 8),
        merging = parts.merging(6),
        merge = indented(shell, 8) + &parts.merge(8),
        shards = shards.join(", "),
        pod = pod_security(6),
        claim = super::scalar(pods.claim),
    ))
}
