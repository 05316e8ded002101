//! An indexed Kubernetes Job: a pod for each share of the units, and a second Job that merges their results.

use super::{
    Engine, Order, Pods, Write, indented,
    pod::{BASH, MOUNT, Parts, container_security, pod_security},
};

pub const ENGINE: Engine = Engine {
    name: "kubernetes-job",
    summary: "an indexed Kubernetes Job, and a Job that merges",
    // Each job is a pod that exists as long as the Job.
    most_jobs: 1000,
    write: Write::Pods(emit),
};

fn emit(order: &Order<'_>, pods: &Pods<'_>) -> Result<String, String> {
    let parts = Parts::new(order, pods)?;
    let (name, image, jobs, at_once) = (&parts.name, parts.image(), order.jobs, parts.at_once());
    let script = indented(&format!("SHARD=$((JOB_COMPLETION_INDEX + 1))/{jobs}\n{}", order.units()), 14);
    Ok(format!(
        r#"{head}#
# With Kubernetes 1.29 or later:
#
#   kubectl create -f FILE
#   ended() {{ kubectl get job {name} -o 'jsonpath={{.status.conditions[*].type}}' | grep -qwE 'Complete|Failed'; }}
#   until ended; do sleep 10; done
#   kubectl patch job {name}-merge --type=merge -p '{{"spec": {{"suspend": false}}}}'
#
# The second Job then merges, and is Complete if the verdict is good, otherwise Failed: `kubectl logs job/{name}-merge`.
# All results are in {MOUNT}/{name}. A verdict does not fail the pods of the first Job. What was killed or could not run
# is started once more, with the same directories: its units first clean up what the previous attempt left, and run again.
apiVersion: batch/v1
kind: Job
metadata:
  name: {name}
spec:
  completionMode: Indexed
  completions: {jobs}
  # How many at once: limited by the nodes, and by the servers and models behind them.
  parallelism: {at_once}
  backoffLimitPerIndex: 1
  # Two attempts in one directory would conflict.
  podReplacementPolicy: Failed
  podFailurePolicy:
    rules:
      # It would fail again: the pack is another one, or another gevals packed it.
      - action: FailIndex
        onExitCodes: {{containerName: units, operator: In, values: [2]}}
      # A drained or lost node does not count as an attempt.
      - action: Ignore
        onPodConditions:
          - {{type: DisruptionTarget, status: "True"}}
  template:
    spec:
      restartPolicy: Never
      # The units of a job have their own limits; this one is for anything that still hangs.
      activeDeadlineSeconds: {most}
      # The time for a stopped unit to clean up.
      terminationGracePeriodSeconds: {grace}
      automountServiceAccountToken: false
{pod}      containers:
        - name: units
          image: {image}
          command: {BASH}
          args:
            - |
{script}          workingDir: {MOUNT}
{env}{mounts}          # resources: {{requests: {{cpu: "1", memory: 1Gi}}, limits: {{memory: 2Gi}}}}
{container}{volumes}---
apiVersion: batch/v1
kind: Job
metadata:
  name: {name}-merge
spec:
  # Suspended until the first Job has ended.
  suspend: true
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      activeDeadlineSeconds: 1800
      automountServiceAccountToken: false
{pod}      containers:
        - name: merge
          image: {image}
          command: {BASH}
          args:
            - |
{merge}          workingDir: {MOUNT}
{merging}{mounts}{container}{volumes}"#,
        head = parts.head(ENGINE.name),
        most = parts.at_most_seconds(),
        grace = parts.grace(),
        pod = pod_security(6),
        env = parts.units(None, 10),
        mounts = parts.mounts(10),
        container = container_security(10),
        volumes = parts.volumes(6),
        merge = parts.merge(14),
        merging = parts.merging(10),
    ))
}
