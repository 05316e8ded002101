//! What the pods of all engines have in common: the locations of the pack and the results, variables, and restrictions.

use std::fmt::Write as _;

use super::{Order, Pods, indented, line, scalar};
use crate::secrets::is_secret_name;

/// Where the claim is mounted.
pub const MOUNT: &str = "/evals";
/// How many pods of one file run at the same time, unless the file is changed.
pub const AT_ONCE: u32 = 10;
/// The command of a container; its argument is a script.
pub const BASH: &str = "[bash, -euo, pipefail, -c]";
/// Seconds that a pod may take to get its image and its volume.
const START: u64 = 600;
/// Maximum number of seconds in a Kubernetes field.
const MOST_SECONDS: u64 = i32::MAX as u64;
/// Bounds for the time that a cleanup has before a pod is killed, in seconds.
const GRACE: (u64, u64) = (30, 600);
/// The security context of a container.
const CONTAINER: &str = "\
securityContext:
  allowPrivilegeEscalation: false
  capabilities: {drop: [ALL]}
";
/// The security context of a pod. The profile `restricted` accepts both.
const POD: &str = "\
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
";

/// The names and the contents of the objects of an order.
#[derive(Debug)]
pub struct Parts<'m> {
    order: &'m Order<'m>,
    pods: &'m Pods<'m>,
    /// The name of the objects, which is unique to this pack.
    pub name: String,
    /// The name of the Secret and the ConfigMap, which all packs of the eval share.
    values: String,
    /// The path of the pack.
    pack: String,
}

impl<'m> Parts<'m> {
    /// # Errors
    /// The path of the pack is not inside the claim.
    pub fn new(order: &'m Order<'m>, pods: &'m Pods<'m>) -> Result<Self, String> {
        let pack = match order.pack.strip_prefix('/') {
            None => format!("{MOUNT}/{}", order.pack),
            Some(_) if order.pack.starts_with(&format!("{MOUNT}/")) => order.pack.to_owned(),
            Some(_) => {
                return Err(format!(
                    "the claim is mounted at `{MOUNT}`: `--at` must be a path in it, not `{}`",
                    order.pack
                ));
            }
        };
        Ok(Self { order, pods, name: order.name(), values: order.values(), pack })
    }

    /// The directory of the units of this pack, or that of their results.
    fn folder(&self, of: &str) -> String {
        format!("{MOUNT}/{}/{of}", self.name)
    }

    /// How long a pod may exist, in seconds.
    pub fn at_most_seconds(&self) -> u64 {
        (self.order.at_most_seconds().saturating_add(START + self.grace())).min(MOST_SECONDS)
    }

    /// The same for all pods one after another.
    pub fn all_seconds(&self) -> u64 {
        self.at_most_seconds().saturating_mul(u64::from(self.order.jobs)).min(MOST_SECONDS)
    }

    /// How long a pod may take to terminate, in seconds: no cleanup takes longer than its unit.
    pub fn grace(&self) -> u64 {
        self.order.longest_seconds().clamp(GRACE.0, GRACE.1)
    }

    pub fn at_once(&self) -> u32 {
        self.order.jobs.min(AT_ONCE)
    }

    pub fn image(&self) -> String {
        scalar(self.pods.image)
    }

    /// The variables of the script that runs the units, and those of the units.
    pub fn units(&self, shard: Option<&str>, indent: usize) -> String {
        let mut own = vec![("DIGEST", self.order.manifest.digest.clone()), ("OUT", self.folder("units"))];
        own.extend(shard.map(|shard| ("SHARD", shard.to_owned())));
        let mut text = self.env(&own);
        for name in self.order.variables() {
            let from = if is_secret_name(name) { "secretKeyRef" } else { "configMapKeyRef" };
            let (name, values) = (scalar(name), &self.values);
            let _ = writeln!(text, "  - name: {name}\n    valueFrom: {{{from}: {{name: {values}, key: {name}}}}}");
        }
        indented(&text, indent)
    }

    /// The variables of the script that merges.
    pub fn merging(&self, indent: usize) -> String {
        indented(&self.env(&[("OUT", self.folder("units")), ("RESULTS", self.folder("results"))]), indent)
    }

    fn env(&self, own: &[(&str, String)]) -> String {
        let mut text = String::new();
        if self.order.store.is_some() {
            let _ = writeln!(text, "envFrom:\n  - secretRef: {{name: {}-store, optional: true}}", self.values);
        }
        text.push_str("env:\n  - {name: HOME, value: /tmp}\n");
        if let Some(store) = self.order.stored() {
            let _ = writeln!(text, "  - {{name: STORE, value: {}}}", scalar(&store));
        }
        // In a value, `$(NAME)` is a variable, and `$$` is a dollar sign.
        let _ = writeln!(text, "  - {{name: PACK, value: {}}}", scalar(&self.pack.replace('$', "$$")));
        for (name, value) in own {
            let _ = writeln!(text, "  - {{name: {name}, value: {}}}", scalar(value));
        }
        text
    }

    /// The script that merges.
    pub fn merge(&self, indent: usize) -> String {
        indented(&self.order.merge("\"$OUT\"", "\"$RESULTS\""), indent)
    }

    pub fn volumes(&self, indent: usize) -> String {
        let claim = scalar(self.pods.claim);
        indented(&format!("volumes:\n  - name: evals\n    persistentVolumeClaim: {{claimName: {claim}}}\n"), indent)
    }

    pub fn mounts(&self, indent: usize) -> String {
        indented(&format!("volumeMounts:\n  - {{name: evals, mountPath: {MOUNT}}}\n"), indent)
    }

    /// The head of a file: what it contains, and what it requires.
    pub fn head(&self, engine: &str) -> String {
        let (order, manifest) = (self.order, self.order.manifest);
        let (units, jobs, values) = (manifest.units().len(), order.jobs, &self.values);
        let (eval, claim, pack) = (line(&manifest.name), self.pods.claim, line(&self.pack));
        let mut text = format!(
            "# {units} units of `{eval}` in {jobs} jobs, written by `gevals emit {engine}`. Required in the namespace:
#
# - the claim `{claim}` (for several nodes, with the access mode ReadWriteMany); it contains the pack, which a pod sees as
#   `{pack}`
"
        );
        let (secret, plain): (Vec<&str>, Vec<&str>) = order.variables().partition(|name| is_secret_name(name));
        for (kind, command, names) in [("Secret", "secret generic", secret), ("ConfigMap", "configmap", plain)] {
            if !names.is_empty() {
                let literals: String = names.iter().map(|name| format!(" --from-literal={name}=\"${name}\"")).collect();
                let _ = writeln!(text, "# - the {kind} `{values}`: kubectl create {command} {values}{literals}");
            }
        }
        if let Some(store) = order.stored() {
            let (secret, plain) = order.of_store();
            let literals = secret.iter().chain(&plain).map(|name| format!(" --from-literal={name}=\"${name}\""));
            let literals: String = literals.collect();
            let _ = writeln!(
                text,
                "# - the store `{store}`, for the results of units and the merge, and a gevals with the feature `store`.
#   If the pods are not allowed to write to it already: kubectl create secret generic {values}-store{literals}"
            );
        }
        let needs = order.needs();
        let besides = if needs.is_empty() { "" } else { ", and also:" };
        let _ = write!(text, "# - in the image gevals {} and bash{besides}\n{needs}", manifest.gevals);
        text
    }
}

/// The security context of a container, indented.
pub fn container_security(indent: usize) -> String {
    indented(CONTAINER, indent)
}

/// The security context of a pod, indented.
pub fn pod_security(indent: usize) -> String {
    indented(POD, indent)
}
