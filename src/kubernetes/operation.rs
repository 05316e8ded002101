//! The operations and their arguments.

use std::collections::BTreeMap;

use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// The side effects of an operation (`portable-format.md`, extensions: `sideEffects`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It only reads.
    None,
    /// It creates objects.
    Creates,
    /// It deletes objects.
    Deletes,
    /// It changes objects.
    Any,
}

impl Effect {
    /// The name in manifests.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Creates => "creates",
            Self::Deletes => "deletes",
            Self::Any => "any",
        }
    }
}

/// An operation of the extension.
#[derive(Debug)]
pub struct Operation {
    /// The name that steps use after the alias.
    pub name: &'static str,
    /// One line.
    pub description: &'static str,
    /// Its side effects.
    pub effect: Effect,
    /// The JSON Schema of its arguments.
    pub params: fn() -> Value,
    /// Name, JSON type and description of each output.
    pub outputs: &'static [(&'static str, &'static str, &'static str)],
}

impl Operation {
    /// The phases in which it is allowed: operations that only read, and `exec`, in all phases; other operations not in
    /// verify.
    pub fn phases(&self) -> &'static [&'static str] {
        if self.effect == Effect::None || self.name == "exec" {
            &["setup", "verify", "cleanup"]
        } else {
            &["setup", "cleanup"]
        }
    }
}

/// Every operation, in the order in which help lists them.
pub const OPERATIONS: &[Operation] = &[
    // Objects.
    Operation {
        name: "apply",
        description: "applies manifests with server-side apply",
        effect: Effect::Creates,
        params: schema::<Apply>,
        outputs: &[("applied", "array", "the applied objects, as `KIND/NAME`"), NAMESPACE],
    },
    Operation {
        name: "create",
        description: "creates the object that the arguments specify; fails if it exists",
        effect: Effect::Creates,
        params: create,
        outputs: &[
            ("name", "string", "of the object"),
            NAMESPACE,
            ("uid", "string", "of the object"),
            ("resourceVersion", "string", "of the object"),
        ],
    },
    Operation {
        name: "delete",
        description: "deletes an object, or those that a selector matches, and waits until they no longer exist",
        effect: Effect::Deletes,
        params: schema::<Delete>,
        outputs: &[("deleted", "array", "the deleted objects, as `KIND/NAME`")],
    },
    Operation {
        name: "get",
        description: "reads an object, or those that a selector matches",
        effect: Effect::None,
        params: schema::<Get>,
        outputs: &[
            ("object", "object", "the object; with a selector, the list"),
            ("value", "any", "the value that `jsonpath` selects; a list if it selects several"),
            ("text", "string", "the same value as kubectl prints it: several values are separated by spaces"),
        ],
    },
    Operation {
        name: "patch",
        description: "patches an object",
        effect: Effect::Any,
        params: schema::<Patch>,
        outputs: &[OBJECT],
    },
    Operation {
        name: "scale",
        description: "sets the number of replicas",
        effect: Effect::Any,
        params: schema::<Scale>,
        outputs: &[("replicas", "integer", "the number before")],
    },
    Operation {
        name: "restart",
        description: "restarts the pods of a workload, as `kubectl rollout restart` does",
        effect: Effect::Any,
        params: schema::<Restart>,
        outputs: &[],
    },
    Operation {
        name: "annotate",
        description: "sets or removes annotations",
        effect: Effect::Any,
        params: schema::<Annotate>,
        outputs: &[OBJECT],
    },
    Operation {
        name: "label",
        description: "sets or removes labels",
        effect: Effect::Any,
        params: schema::<Label>,
        outputs: &[OBJECT],
    },
    // Checks.
    Operation {
        name: "resource-exists",
        description: "passes if the object exists",
        effect: Effect::None,
        params: schema::<Reference>,
        outputs: &[OBJECT],
    },
    Operation {
        name: "resource-absent",
        description: "passes if the object does not exist",
        effect: Effect::None,
        params: schema::<Reference>,
        outputs: &[],
    },
    Operation {
        name: "resource-matches",
        description: "passes if the object contains what a manifest specifies",
        effect: Effect::None,
        params: schema::<Matches>,
        outputs: &[OBJECT],
    },
    Operation {
        name: "field-equals",
        description: "passes if a field has a value",
        effect: Effect::None,
        params: schema::<FieldEquals>,
        outputs: &[("value", "any", "of the field")],
    },
    Operation {
        name: "count",
        description: "counts objects, and passes if their number is as expected",
        effect: Effect::None,
        params: schema::<Count>,
        outputs: &[("count", "integer", "how many there are")],
    },
    // Time.
    Operation {
        name: "wait",
        description: "waits for a condition, a field, creation or deletion",
        effect: Effect::None,
        params: schema::<Wait>,
        outputs: &[],
    },
    Operation {
        name: "condition",
        description: "passes as soon as a condition of the object has a status",
        effect: Effect::None,
        params: schema::<Condition>,
        outputs: &[],
    },
    Operation {
        name: "condition-stable",
        description: "passes if a condition becomes true and remains true for some time",
        effect: Effect::None,
        params: schema::<ConditionStable>,
        outputs: &[],
    },
    Operation {
        name: "rollout",
        description: "waits until a workload is rolled out, as `kubectl rollout status` does",
        effect: Effect::None,
        params: schema::<Rollout>,
        outputs: &[],
    },
    // Pods.
    Operation {
        name: "exec",
        description: "runs a command in a container",
        effect: Effect::Any,
        params: schema::<Exec>,
        outputs: &[
            ("stdout", "string", "of the command"),
            ("stderr", "string", "of the command"),
            ("exitCode", "integer", "of the command"),
        ],
    },
    Operation {
        name: "logs",
        description: "reads the log of a container",
        effect: Effect::None,
        params: schema::<Logs>,
        outputs: &[("stdout", "string", "the log")],
    },
    // Namespaces.
    Operation {
        name: "create-namespace",
        description: "creates a namespace; fails if it exists",
        effect: Effect::Creates,
        params: schema::<CreateNamespace>,
        outputs: &[NAMESPACE],
    },
    Operation {
        name: "delete-namespace",
        description: "deletes a namespace; succeeds if it does not exist",
        effect: Effect::Deletes,
        params: schema::<DeleteNamespace>,
        outputs: &[],
    },
    Operation {
        name: "createNamespace",
        description: "creates a namespace with a generated name",
        effect: Effect::Creates,
        params: schema::<GenerateNamespace>,
        outputs: &[NAMESPACE],
    },
    Operation {
        name: "deleteGeneratedNamespaces",
        description: "deletes the namespaces that `createNamespace` created for this task",
        effect: Effect::Deletes,
        params: schema::<Nothing>,
        outputs: &[],
    },
    // Access.
    Operation {
        name: "can-i",
        description: "passes if the user has a permission, or, with `allowed: false`, if not",
        effect: Effect::None,
        params: schema::<CanI>,
        outputs: &[
            ("allowed", "boolean", "whether the user has the permission"),
            ("reason", "string", "of the API server"),
        ],
    },
    Operation {
        name: "authCanI",
        description: "checks whether a user has a permission; a denial passes unless `expect` specifies otherwise",
        effect: Effect::None,
        params: schema::<AuthCanI>,
        outputs: &[("allowed", "string", "`true` or `false`"), ("reason", "string", "of the API server")],
    },
    // The kubeconfig.
    Operation {
        name: "listContexts",
        description: "lists the contexts of the kubeconfig; fails if there are none",
        effect: Effect::None,
        params: schema::<Nothing>,
        outputs: &[("current", "string", "the current context"), ("count", "string", "how many there are")],
    },
    Operation {
        name: "getCurrentContext",
        description: "returns the current context; fails if none is set",
        effect: Effect::None,
        params: schema::<Nothing>,
        outputs: &[("context", "string", "the current context")],
    },
    Operation {
        name: "viewConfig",
        description: "shows the kubeconfig, without its credentials",
        effect: Effect::None,
        params: schema::<ViewConfig>,
        outputs: &[("config", "string", "the kubeconfig as YAML")],
    },
    // Helm.
    Operation {
        name: "helmInstall",
        description: "installs a chart with the command `helm`",
        effect: Effect::Creates,
        params: schema::<HelmInstall>,
        outputs: &[("name", "string", "of the release"), NAMESPACE],
    },
    Operation {
        name: "helmList",
        description: "lists releases with the command `helm`",
        effect: Effect::None,
        params: schema::<HelmList>,
        outputs: &[("releases", "array", "as in `helm list -o json`"), ("count", "integer", "how many there are")],
    },
    Operation {
        name: "helmUninstall",
        description: "uninstalls a release with the command `helm`; succeeds if it does not exist",
        effect: Effect::Deletes,
        params: schema::<HelmUninstall>,
        outputs: &[],
    },
];

const NAMESPACE: (&str, &str, &str) = ("namespace", "string", "the namespace");
const OBJECT: (&str, &str, &str) = ("object", "object", "the object");

/// The operation with this name.
pub fn find(name: &str) -> Option<&'static Operation> {
    OPERATIONS.iter().find(|operation| operation.name == name)
}

fn schema<A: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = SchemaGenerator::new(settings).into_root_schema_for::<A>().to_value();
    if let Some(object) = schema.as_object_mut() {
        object.remove("title");
    }
    without_null(&mut schema);
    schema
}

/// Optional properties may be absent, but not null.
fn without_null(schema: &mut Value) {
    let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) else { return };
    for property in properties.values_mut() {
        if let Some(Value::Array(types)) = property.get_mut("type") {
            types.retain(|name| name != "null");
            if let [one] = types.as_slice() {
                property["type"] = one.clone();
            }
        }
        without_null(property);
    }
}

/// Any manifest: specifies only what every object has.
fn create() -> Value {
    json!({
        "description": "The object.",
        "type": "object",
        "required": ["apiVersion", "kind", "metadata"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string", "examples": OF_MANIFESTS},
            "metadata": {
                "type": "object",
                "required": ["name"],
                "properties": {"name": {"type": "string"}, "namespace": {"type": "string"}},
            },
            "spec": {"type": "object"},
        },
    })
}

fn default_namespace() -> String {
    "default".to_owned()
}

fn default_timeout() -> String {
    "60s".to_owned()
}

fn yes() -> bool {
    true
}

fn status_true() -> String {
    "True".to_owned()
}

/// The name and namespace of an object, as in its manifest.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Metadata {
    /// The name of the object.
    pub name: String,
    /// The namespace of the object; absent for a cluster-scoped object.
    pub namespace: Option<String>,
}

/// An object: `resource` with `namespace`, or `apiVersion`, `kind` and `metadata` as in the existing extension.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("oneOf" = one_object()))]
pub struct Reference {
    /// `KIND/NAME`; the kind may also be a plural, a short name, or include its group: `deployment.apps/web`.
    #[schemars(extend("examples" = resources()))]
    pub resource: Option<String>,
    /// The namespace of the object, if it is namespaced.
    #[serde(default = "default_namespace")]
    pub namespace: String,
    /// As in a manifest.
    pub api_version: Option<String>,
    /// As in a manifest.
    #[schemars(extend("examples" = OF_MANIFESTS))]
    pub kind: Option<String>,
    /// As in a manifest.
    pub metadata: Option<Metadata>,
}

fn one_object() -> Value {
    json!([{"required": ["resource"]}, {"required": ["apiVersion", "kind", "metadata"]}])
}

fn one_or_selected() -> Value {
    json!([{"required": ["resource"]}, {"required": ["kind", "selector"]}, {"required": ["apiVersion", "kind", "metadata"]}])
}

/// No arguments.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Nothing {}

/// What to apply.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("oneOf" = json!([{"required": ["file"]}, {"required": ["inline"]}])))]
pub struct Apply {
    /// A file of manifests, or a directory of such files, relative to the task.
    pub file: Option<String>,
    /// Manifests as text, a manifest, or a list of manifests.
    pub inline: Option<Value>,
    /// The namespace of objects that specify none; `default` by default.
    pub namespace: Option<String>,
}

/// What to delete.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("oneOf" = one_or_selected()))]
pub struct Delete {
    /// `KIND/NAME`.
    #[schemars(extend("examples" = resources()))]
    pub resource: Option<String>,
    /// The namespace of the object, if it is namespaced.
    #[serde(default = "default_namespace")]
    pub namespace: String,
    /// With `selector`: the kind. With `apiVersion`: as in a manifest.
    #[schemars(extend("examples" = kinds()))]
    pub kind: Option<String>,
    /// A label selector: `app=web,tier!=db`.
    pub selector: Option<String>,
    /// As in a manifest.
    pub api_version: Option<String>,
    /// As in a manifest.
    pub metadata: Option<Metadata>,
    /// Whether the step succeeds if the object does not exist.
    #[serde(default)]
    pub ignore_not_found: bool,
    /// Whether to wait until it is deleted.
    #[serde(default = "yes")]
    pub wait: bool,
    /// How long to wait.
    #[serde(default = "default_timeout")]
    #[schemars(extend("format" = "duration"))]
    pub timeout: String,
}

/// What to read.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("oneOf" = one_or_selected()))]
pub struct Get {
    /// `KIND/NAME`.
    #[schemars(extend("examples" = resources()))]
    pub resource: Option<String>,
    /// The namespace of the object, if it is namespaced.
    #[serde(default = "default_namespace")]
    pub namespace: String,
    /// With `selector`: the kind. With `apiVersion`: as in a manifest.
    #[schemars(extend("examples" = kinds()))]
    pub kind: Option<String>,
    /// A label selector.
    pub selector: Option<String>,
    /// As in a manifest.
    pub api_version: Option<String>,
    /// As in a manifest.
    pub metadata: Option<Metadata>,
    /// A path into the object that was read, in kubectl's syntax: `{.status.podIP}`.
    pub jsonpath: Option<String>,
    /// Whether the step succeeds if the path selects nothing: `value` is then null, and `text` is empty.
    #[serde(default)]
    pub optional: bool,
}

/// The type of a patch.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PatchKind {
    /// A strategic merge patch: lists are merged by their keys; not for custom resources.
    #[default]
    Strategic,
    /// A JSON merge patch (RFC 7396).
    Merge,
    /// A list of operations (RFC 6902).
    Json,
}

/// A patch.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Patch {
    /// `KIND/NAME`.
    #[schemars(extend("examples" = resources()))]
    pub resource: String,
    /// The namespace of the object, if it is namespaced.
    #[serde(default = "default_namespace")]
    pub namespace: String,
    /// The type of the patch.
    #[serde(default, rename = "type")]
    pub kind: PatchKind,
    /// An object; for the type `json`, a list of operations.
    pub patch: Value,
    /// A subresource: `status`, `scale`.
    pub subresource: Option<String>,
}

/// How many replicas.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Scale {
    /// `KIND/NAME`.
    #[schemars(extend("examples" = resources()))]
    pub resource: String,
    /// Of the object.
    #[serde(default = "default_namespace")]
    pub namespace: String,
    /// How many.
    pub replicas: u32,
}

/// What to restart.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Restart {
    /// `KIND/NAME` of a Deployment, StatefulSet or DaemonSet.
    #[schemars(extend("examples" = resources()))]
    pub resource: String,
    /// Of the object.
    #[serde(default = "default_namespace")]
    pub namespace: String,
}

/// Annotations.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Annotate {
    /// `KIND/NAME`.
    #[schemars(extend("examples" = resources()))]
    pub resource: String,
    /// The namespace of the object, if it is namespaced.
    #[serde(default = "default_namespace")]
    pub namespace: String,
    /// Names and values; `null` removes one.
    pub annotations: BTreeMap<String, Option<String>>,
}

/// Labels.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Label {
    /// `KIND/NAME`.
    #[schemars(extend("examples" = resources()))]
    pub resource: String,
    /// The namespace of the object, if it is namespaced.
    #[serde(default = "default_namespace")]
    pub namespace: String,
    /// Names and values; `null` removes one.
    pub labels: BTreeMap<String, Option<String>>,
}

/// The expected contents of an object.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Matches {
    /// `KIND/NAME`.
    #[schemars(extend("examples" = resources()))]
    pub resource: String,
    /// The namespace of the object, if it is namespaced.
    #[serde(default = "default_namespace")]
    pub namespace: String,
    /// A file with the manifest, or the manifest.
    pub expected: Value,
    /// Paths of fields that are not compared, in kubectl's syntax: `.metadata.labels`.
    #[serde(default)]
    pub ignore_paths: Vec<String>,
    /// Whether the order of lists is ignored.
    #[serde(default)]
    pub ignore_order: bool,
    /// Whether the object must contain nothing else, except what the API server adds: its `metadata`, `status`, and defaults.
    #[serde(default)]
    pub exact: bool,
}

/// A field and its expected value.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FieldEquals {
    /// `KIND/NAME`.
    #[schemars(extend("examples" = resources()))]
    pub resource: String,
    /// The namespace of the object, if it is namespaced.
    #[serde(default = "default_namespace")]
    pub namespace: String,
    /// The path, in kubectl's syntax: `{.spec.replicas}`.
    pub jsonpath: String,
    /// The expected value, with the same JSON type.
    pub value: Value,
}

/// Which objects, and how many.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Count {
    /// The kind; may also be a plural, a short name, or include its group.
    #[schemars(extend("examples" = kinds()))]
    pub kind: String,
    /// The namespace of the objects.
    #[serde(default = "default_namespace")]
    pub namespace: String,
    /// Whether to include all namespaces.
    #[serde(default)]
    pub all_namespaces: bool,
    /// A label selector.
    pub selector: Option<String>,
    /// A field selector: `status.phase=Running`.
    pub fields: Option<String>,
    /// The exact number.
    pub equals: Option<u64>,
    /// The minimum number.
    pub min: Option<u64>,
    /// The maximum number.
    pub max: Option<u64>,
}

/// What to wait for: `condition`, `jsonpath` with `value`, `created` or `deleted`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("oneOf" = one_or_selected(), "anyOf" = json!([
    {"required": ["condition"]}, {"required": ["jsonpath"]}, {"required": ["created"]}, {"required": ["deleted"]},
])))]
pub struct Wait {
    /// `KIND/NAME`.
    #[schemars(extend("examples" = resources()))]
    pub resource: Option<String>,
    /// The namespace of the object, if it is namespaced.
    #[serde(default = "default_namespace")]
    pub namespace: String,
    /// With `selector`: the kind. With `apiVersion`: as in a manifest.
    #[schemars(extend("examples" = kinds()))]
    pub kind: Option<String>,
    /// A label selector; waits for all objects that it matches, and at least one must match.
    pub selector: Option<String>,
    /// As in a manifest.
    pub api_version: Option<String>,
    /// As in a manifest.
    pub metadata: Option<Metadata>,
    /// The type of a condition in the object's status.
    #[schemars(extend("examples" = conditions()))]
    pub condition: Option<String>,
    /// The expected status of the condition.
    #[serde(default = "status_true")]
    pub status: String,
    /// A path, in kubectl's syntax: `{.status.phase}`.
    pub jsonpath: Option<String>,
    /// The value that the path must select; a string also matches any value that kubectl prints as this string. By default, any value.
    pub value: Option<Value>,
    /// Whether to fail immediately if the object does not exist, as kubectl does. With `selector`, only the objects count that match at the start.
    #[serde(default)]
    pub must_exist: bool,
    /// Whether to wait until the object exists.
    #[serde(default)]
    pub created: bool,
    /// Whether to wait until the object does not exist.
    #[serde(default)]
    pub deleted: bool,
    /// How long to wait.
    #[serde(default = "default_timeout")]
    #[schemars(extend("format" = "duration"))]
    pub timeout: String,
}

/// A condition of an object.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Condition {
    /// `KIND/NAME`.
    #[schemars(extend("examples" = resources()))]
    pub resource: String,
    /// The namespace of the object, if it is namespaced.
    #[serde(default = "default_namespace")]
    pub namespace: String,
    /// The type of the condition.
    #[serde(rename = "type")]
    #[schemars(extend("examples" = conditions()))]
    pub kind: String,
    /// The expected status of the condition.
    #[serde(default = "status_true")]
    pub status: String,
    /// How long to wait for it.
    #[serde(default = "default_timeout")]
    #[schemars(extend("format" = "duration"))]
    pub timeout: String,
}

/// A condition that must remain true.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ConditionStable {
    /// `KIND/NAME`.
    #[schemars(extend("examples" = resources()))]
    pub resource: String,
    /// The namespace of the object, if it is namespaced.
    #[serde(default = "default_namespace")]
    pub namespace: String,
    /// The type of the condition, whose status must be true.
    #[schemars(extend("examples" = conditions()))]
    pub condition: String,
    /// How long the condition must remain true.
    #[schemars(extend("format" = "duration"))]
    pub duration: String,
}

/// What to wait for.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Rollout {
    /// `KIND/NAME` of a Deployment, StatefulSet or DaemonSet.
    #[schemars(extend("examples" = resources()))]
    pub resource: String,
    /// Of the object.
    #[serde(default = "default_namespace")]
    pub namespace: String,
    /// Whether to fail immediately if the object does not exist, as kubectl does.
    #[serde(default)]
    pub must_exist: bool,
    /// How long to wait.
    #[serde(default = "default_timeout")]
    #[schemars(extend("format" = "duration"))]
    pub timeout: String,
}

/// A command in a container.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Exec {
    /// The name of the pod.
    pub pod: String,
    /// The namespace of the pod.
    #[serde(default = "default_namespace")]
    pub namespace: String,
    /// The container; by default the one that the pod's annotation names, or the first.
    pub container: Option<String>,
    /// The program and its arguments.
    #[schemars(length(min = 1))]
    pub command: Vec<String>,
}

/// A log.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Logs {
    /// The name of the pod.
    pub pod: String,
    /// The namespace of the pod.
    #[serde(default = "default_namespace")]
    pub namespace: String,
    /// The container; by default the one that the pod's annotation names, or the first.
    pub container: Option<String>,
    /// The number of lines to read, from the end.
    pub tail: Option<i64>,
    /// Whether to read the log of the previous instance of the container.
    #[serde(default)]
    pub previous: bool,
}

/// A namespace.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateNamespace {
    /// Its name.
    pub name: String,
    /// Its labels.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
}

/// A namespace.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeleteNamespace {
    /// Its name.
    pub name: String,
    /// Whether to wait until it is deleted.
    #[serde(default)]
    pub wait: bool,
    /// How long to wait.
    #[serde(default = "default_timeout")]
    #[schemars(extend("format" = "duration"))]
    pub timeout: String,
}

/// A namespace whose name is generated.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GenerateNamespace {
    /// The name is `PREFIX-` and eight characters.
    pub prefix: String,
}

/// A permission of a user.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CanI {
    /// `get`, `list`, `create` …
    pub verb: String,
    /// The kind, plural or short name, optionally with its group; `pods/log` for a subresource.
    pub resource: String,
    /// The namespace; by default all namespaces.
    pub namespace: Option<String>,
    /// The name of a single object.
    pub name: Option<String>,
    /// The user, for example `system:serviceaccount:NAMESPACE:NAME`; by default the user of the kubeconfig.
    #[serde(rename = "as")]
    pub user: Option<String>,
    /// The expected answer.
    #[serde(default = "yes")]
    pub allowed: bool,
}

/// A permission of a user.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AuthCanI {
    /// `get`, `list`, `create` …
    pub verb: String,
    /// The plural name.
    pub resource: String,
    /// The user.
    #[serde(rename = "as")]
    pub user: String,
    /// The namespace; by default all namespaces.
    pub namespace: Option<String>,
    /// The API group of the resource.
    pub api_group: Option<String>,
    /// The name of a single object.
    pub resource_name: Option<String>,
    /// The expected answer.
    pub expect: Option<Allowed>,
}

/// The expected answer.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Allowed {
    /// Whether the user has the permission.
    pub allowed: Option<bool>,
}

/// Which part of the kubeconfig to show.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ViewConfig {
    /// Whether to show only what the current context refers to.
    #[serde(default)]
    pub minify: bool,
}

/// A chart.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HelmInstall {
    /// A reference, a directory, an archive or a URL.
    pub chart: String,
    /// The name of the release; generated by default.
    pub name: Option<String>,
    /// The namespace of the release.
    #[serde(default = "default_namespace")]
    pub namespace: String,
    /// The chart's values.
    #[serde(default)]
    pub values: Map<String, Value>,
}

/// Which releases.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HelmList {
    /// The namespace of the releases.
    #[serde(default = "default_namespace")]
    pub namespace: String,
    /// Whether to include all namespaces.
    #[serde(default)]
    pub all_namespaces: bool,
}

/// A release.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HelmUninstall {
    /// Its name.
    pub name: String,
    /// Its namespace.
    #[serde(default = "default_namespace")]
    pub namespace: String,
}

/// Conditions of Kubernetes objects; a text that is similar to one of them is probably a typo.
fn conditions() -> &'static [&'static str] {
    &[
        "Available",
        "Complete",
        "ContainersReady",
        "DisruptionAllowed",
        "Established",
        "Failed",
        "Initialized",
        "MemoryPressure",
        "NamesAccepted",
        "PodScheduled",
        "Progressing",
        "Ready",
        "ReplicaFailure",
        "ScalingActive",
        "Suspended",
    ]
}

/// Kinds that every cluster has, in every form in which they are written; a kind that is similar to one of them is
/// probably a typo.
const KINDS: [&str; 84] = [
    "clusterrole",
    "clusterroles",
    "clusterrolebinding",
    "clusterrolebindings",
    "configmap",
    "configmaps",
    "cm",
    "cronjob",
    "cronjobs",
    "cj",
    "customresourcedefinition",
    "customresourcedefinitions",
    "crd",
    "crds",
    "daemonset",
    "daemonsets",
    "ds",
    "deployment",
    "deployments",
    "deploy",
    "endpoints",
    "ep",
    "endpointslice",
    "endpointslices",
    "event",
    "events",
    "ev",
    "horizontalpodautoscaler",
    "horizontalpodautoscalers",
    "hpa",
    "ingress",
    "ingresses",
    "ing",
    "ingressclass",
    "ingressclasses",
    "job",
    "jobs",
    "lease",
    "leases",
    "limitrange",
    "limitranges",
    "limits",
    "namespace",
    "namespaces",
    "ns",
    "networkpolicy",
    "networkpolicies",
    "netpol",
    "node",
    "nodes",
    "no",
    "persistentvolume",
    "persistentvolumes",
    "pv",
    "persistentvolumeclaim",
    "persistentvolumeclaims",
    "pvc",
    "pod",
    "pods",
    "po",
    "poddisruptionbudget",
    "poddisruptionbudgets",
    "pdb",
    "replicaset",
    "replicasets",
    "rs",
    "resourcequota",
    "resourcequotas",
    "quota",
    "role",
    "roles",
    "rolebinding",
    "rolebindings",
    "secret",
    "secrets",
    "service",
    "services",
    "svc",
    "serviceaccount",
    "serviceaccounts",
    "sa",
    "statefulset",
    "statefulsets",
    "sts",
];

/// The same kinds, as written in manifests.
const OF_MANIFESTS: [&str; 31] = [
    "ClusterRole",
    "ClusterRoleBinding",
    "ConfigMap",
    "CronJob",
    "CustomResourceDefinition",
    "DaemonSet",
    "Deployment",
    "Endpoints",
    "EndpointSlice",
    "Event",
    "HorizontalPodAutoscaler",
    "Ingress",
    "IngressClass",
    "Job",
    "Lease",
    "LimitRange",
    "Namespace",
    "NetworkPolicy",
    "Node",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "Pod",
    "PodDisruptionBudget",
    "ReplicaSet",
    "ResourceQuota",
    "Role",
    "RoleBinding",
    "Secret",
    "Service",
    "ServiceAccount",
    "StatefulSet",
];

/// The groups of these kinds whose names contain a dot.
const GROUPS: [&str; 6] = [
    "apiextensions.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
    "events.k8s.io",
    "networking.k8s.io",
    "rbac.authorization.k8s.io",
];

/// Whether every cluster has this kind. `word` names it as a command does: a kind, its plural or its short name.
pub fn is_served(word: &str) -> bool {
    KINDS.contains(&word)
}

/// Whether the kinds of a group, or of an `apiVersion`, are known: a custom resource may have any name.
pub fn is_known_group(text: &str) -> bool {
    let group = text.split('/').next().unwrap_or(text);
    !group.contains('.') || GROUPS.contains(&group)
}

fn resources() -> Vec<String> {
    KINDS.iter().map(|kind| format!("{kind}/NAME")).collect()
}

fn kinds() -> Vec<&'static str> {
    KINDS.iter().chain(&OF_MANIFESTS).copied().collect()
}
