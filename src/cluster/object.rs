//! Operations on objects: create, change, read, delete.

use std::{path::Path as FilePath, time::Duration};

use kube::{
    ResourceExt,
    api::{DeleteParams, DynamicObject, Patch as KubePatch, PatchParams, PostParams, Request},
};
use serde_json::{Value, json};

use super::{
    api::{Error, Result, Target, explain, failed},
    call::{Call, Done},
    chosen::{Chosen, value},
    path::Path,
    wait::{self, Until, Watched},
};
use crate::kubernetes::operation::{Annotate, Apply, Delete, Get, Label, Patch, PatchKind, Reference, Restart, Scale};

/// The field manager of changes.
const MANAGER: &str = "gevals";
/// The field manager of `apply`: that of `kubectl apply --server-side`, so that an agent may apply the same objects in this way.
const APPLIER: &str = "kubectl";

/// How long it may take until a new kind is served.
const DEFINED: Duration = Duration::from_secs(10);

/// `apply`.
pub async fn apply(call: &Call, args: Apply) -> Result<Done> {
    let manifests = match (&args.file, args.inline) {
        (Some(file), None) => files(&call.folder.join(file))?,
        (None, Some(Value::String(text))) => documents(&text, "the manifest")?,
        (None, Some(Value::Array(items))) => items,
        (None, Some(value)) => vec![value],
        _ => return Err(Error::Broken("one of `file` and `inline` is needed".to_owned())),
    };
    let (mut applied, mut refused) = (Vec::new(), Vec::new());
    // As for kubectl, a refused object does not keep the others from being applied.
    for manifest in flat(manifests) {
        match apply_one(call, manifest, args.namespace.as_deref()).await {
            Ok(name) => applied.push(name),
            Err(error) => {
                let stops = is_invalid(&error);
                refused.push(error);
                if stops {
                    break;
                }
            }
        }
    }
    if let Some(error) = all_of(refused) {
        return Err(error);
    }
    if applied.is_empty() {
        return Err(Error::Broken("there is nothing to apply: no manifest holds an object".to_owned()));
    }
    Ok(Done::said(format!("applied {}", applied.join(", "))).with("applied", applied).with("namespace", args.namespace))
}

/// Whether an API server before 1.25 refused a manifest because of its form. For such a server kubectl checks the form
/// itself, before it sends anything, and does not apply what follows. A number in place of a text is not an error of this kind.
fn is_invalid(error: &Error) -> bool {
    matches!(error, Error::Failed(why) if why.contains("typed patch object: ") && !why.contains("expected string"))
}

/// Applies an object; returns `KIND/NAME`.
async fn apply_one(call: &Call, mut manifest: Value, namespace: Option<&str>) -> Result<String> {
    if let Some(path) = emptied(&mut manifest, &mut String::new()) {
        return failed(format!("{}: `{path}` has no value", titled(&manifest)));
    }
    let (target, mut object) = placed(call, manifest, namespace).await?;
    let params = PatchParams::apply(APPLIER).force().validation_strict();
    let mut patched = target.api.patch(&target.name, &params, &KubePatch::Apply(&object)).await;
    for (fault, mend) in MENDS {
        if let Err(kube::Error::Api(status)) = &patched
            && status.message.contains(fault)
            && matches!(target.kind.resource.group.as_str(), "" | "apps" | "batch")
        {
            mend(&mut object.data);
            patched = target.api.patch(&target.name, &params, &KubePatch::Apply(&object)).await;
        }
    }
    patched.map_err(|e| explain(&e, &target.label()))?;
    if target.kind.resource.kind == "CustomResourceDefinition" {
        // The next manifest may be an object of this kind.
        let until = Until::Condition { kind: "Established".to_owned(), status: "True".to_owned() };
        wait::until(&Watched::one(&target), &until, DEFINED).await?;
        for version in served(&object.data) {
            call.cluster
                .defined(&version, object.data["spec"]["names"]["kind"].as_str().unwrap_or_default(), DEFINED)
                .await?;
        }
    }
    Ok(format!("{}/{}", target.kind.resource.kind.to_lowercase(), target.name))
}

/// One error for several: the state is unknown if it is for one of them.
fn all_of(mut errors: Vec<Error>) -> Option<Error> {
    let last = errors.pop()?;
    if errors.is_empty() {
        return Some(last);
    }
    errors.push(last);
    let is_broken = errors.iter().any(|error| matches!(error, Error::Broken(_)));
    let why = |error: Error| match error {
        Error::Failed(why) | Error::Broken(why) | Error::NoKind { why, .. } => why,
    };
    let why = errors.into_iter().map(why).collect::<Vec<_>>().join("; ");
    Some(if is_broken { Error::Broken(why) } else { Error::Failed(why) })
}

/// Kind and name of a manifest.
fn titled(manifest: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or("?").to_owned();
    format!("{} `{}`", text(&manifest["kind"]), text(&manifest["metadata"]["name"]))
}

/// Removes fields without a value, as kubectl does. Returns the path of an entry of a list, or of a map of texts, without one:
/// kubectl refuses these.
fn emptied(value: &mut Value, path: &mut String) -> Option<String> {
    const TEXTS: [&str; 9] = [
        "data",
        "stringData",
        "binaryData",
        "labels",
        "annotations",
        "matchLabels",
        "nodeSelector",
        "limits",
        "requests",
    ];
    let length = path.len();
    match value {
        Value::Object(fields) => {
            let is_map = TEXTS.iter().any(|name| path.ends_with(&format!(".{name}")));
            if let Some((key, _)) = fields.iter().find(|(_, value)| is_map && value.is_null()) {
                return Some(format!("{path}.{key}"));
            }
            fields.retain(|_, value| !value.is_null());
            for (key, value) in fields.iter_mut() {
                path.push('.');
                path.push_str(key);
                if let Some(found) = emptied(value, path) {
                    return Some(found);
                }
                path.truncate(length);
            }
        }
        Value::Array(items) => {
            for (at, item) in items.iter_mut().enumerate() {
                path.push_str(&format!("[{at}]"));
                if item.is_null() {
                    return Some(path.clone());
                }
                if let Some(found) = emptied(item, path) {
                    return Some(found);
                }
                path.truncate(length);
            }
        }
        _ => {}
    }
    None
}

/// What an API server before 1.21 refuses to merge, and how to write it so that it does not: it knows no default for the protocol
/// of a port, and no quantities that are numbers.
const MENDS: [(&str, fn(&mut Value)); 2] = [
    ("expected string, got &value.valueUnstructured", with_quantities),
    ("omits key field \"protocol\"", with_protocols),
];

/// Writes quantities that are numbers as texts.
fn with_quantities(value: &mut Value) {
    const MAPS: [&str; 9] =
        ["limits", "requests", "hard", "capacity", "default", "defaultRequest", "max", "min", "maxLimitRequestRatio"];
    let text = |value: &mut Value| {
        if value.is_number() {
            *value = Value::from(value.to_string());
        }
    };
    match value {
        Value::Array(items) => items.iter_mut().for_each(with_quantities),
        Value::Object(fields) => {
            for (key, value) in fields {
                match value {
                    Value::Object(amounts) if MAPS.contains(&key.as_str()) => amounts.values_mut().for_each(text),
                    value if key == "sizeLimit" => text(value),
                    value => with_quantities(value),
                }
            }
        }
        _ => {}
    }
}

/// Sets the protocol of ports of services and containers to TCP if it is missing.
fn with_protocols(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(with_protocols),
        Value::Object(fields) => {
            for port in fields.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
                if let Value::Object(port) = port
                    && (port.contains_key("port") || port.contains_key("containerPort"))
                {
                    port.entry("protocol").or_insert_with(|| Value::from("TCP"));
                }
            }
            fields.values_mut().for_each(with_protocols);
        }
        _ => {}
    }
}

/// `create`.
pub async fn create(call: &Call, manifest: Value) -> Result<Done> {
    let (target, object) = placed(call, manifest, None).await?;
    let made = post(call, &target, &object).await?;
    Ok(Done::said(format!("created {}", target.label()))
        .with("name", made.name_any())
        .with("namespace", made.namespace())
        .with("uid", made.uid())
        .with("resourceVersion", made.resource_version()))
}

/// Creates an object. As for kubectl, the server refuses fields that the kind does not have (since 1.25).
async fn post(call: &Call, target: &Target, object: &DynamicObject) -> Result<DynamicObject> {
    let invalid = |e: &dyn std::error::Error| Error::Broken(format!("{}: {e}", target.label()));
    let params = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
    let body = serde_json::to_vec(object).map_err(|e| invalid(&e))?;
    let mut request = Request::new(target.api.resource_url()).create(&params, body).map_err(|e| invalid(&e))?;
    *request.uri_mut() = format!("{}&fieldValidation=Strict", request.uri())
        .parse()
        .map_err(|_| Error::Broken(format!("{}: its address is invalid", target.label())))?;
    call.cluster.client().await?.request(request).await.map_err(|e| explain(&e, &target.label()))
}

/// `delete`.
pub async fn delete(call: &Call, args: Delete) -> Result<Done> {
    let timeout = wait::duration(&args.timeout)?;
    let chosen = Chosen {
        resource: args.resource,
        namespace: args.namespace,
        kind: args.kind,
        selector: args.selector,
        api_version: args.api_version,
        metadata: args.metadata,
    };
    let targets = match chosen.targets(call).await {
        // Also if the kind may be a typo, which `check` finds: a cleanup that fails stays pending.
        Err(Error::NoKind { why, .. }) if args.ignore_not_found => {
            return Ok(Done::said(format!("there was nothing to delete: {why}")).with("deleted", Vec::<String>::new()));
        }
        targets => targets?,
    };
    let mut deleted = Vec::new();
    for target in &targets {
        match target.api.delete(&target.name, &DeleteParams::foreground()).await {
            Ok(_) => deleted.push(target),
            Err(kube::Error::Api(status)) if status.code == 404 => {
                if !args.ignore_not_found && chosen.selector.is_none() {
                    return failed(target.missing().await);
                }
            }
            Err(e) => return Err(explain(&e, &target.label())),
        }
    }
    if args.wait {
        let ends =
            deleted.iter().map(async |target| wait::until(&Watched::one(target), &Until::Deleted, timeout).await);
        for end in futures_util::future::join_all(ends).await {
            end?;
        }
    }
    let names: Vec<_> = deleted.iter().map(|t| format!("{}/{}", t.kind.resource.kind.to_lowercase(), t.name)).collect();
    let message = if names.is_empty() {
        "there was nothing to delete".to_owned()
    } else {
        format!("deleted {}", names.join(", "))
    };
    Ok(Done::said(message).with("deleted", names))
}

/// `get`.
pub async fn get(call: &Call, args: Get) -> Result<Done> {
    let chosen = Chosen {
        resource: args.resource,
        namespace: args.namespace,
        kind: args.kind,
        selector: args.selector,
        api_version: args.api_version,
        metadata: args.metadata,
    };
    let path = args.jsonpath.as_deref().map(Path::parse).transpose().map_err(Error::Broken)?;
    let (what, object) = match &chosen.selector {
        Some(selector) => {
            let targets = chosen.listed(call, selector).await?;
            (format!("{} objects", targets.len()), json!({"kind": "List", "items": targets}))
        }
        None => {
            let target = chosen.target(call).await?;
            (target.label(), value(&target.existing().await?, &target.kind))
        }
    };
    let mut done = Done::said(format!("read {what}"));
    if let Some(path) = path {
        let selected = path.select(&object);
        if selected.is_none() && !args.optional {
            return failed(format!("{what}: nothing stands at `{}`", args.jsonpath.unwrap_or_default()));
        }
        let text = selected.as_ref().map(|selected| path.text(selected)).unwrap_or_default();
        done = done.with("text", text).with("value", selected.unwrap_or_default());
    }
    Ok(done.with("object", object))
}

/// `patch`.
pub async fn patch(call: &Call, args: Patch) -> Result<Done> {
    let target = call.cluster.resource(&args.resource, &args.namespace).await?;
    let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
    let patch: KubePatch<Value> = match args.kind {
        PatchKind::Strategic => KubePatch::Strategic(args.patch),
        PatchKind::Merge => KubePatch::Merge(args.patch),
        PatchKind::Json => {
            let operations = serde_json::from_value(args.patch);
            KubePatch::Json(operations.map_err(|e| Error::Broken(format!("`patch` is no JSON patch: {e}")))?)
        }
    };
    let patched = match &args.subresource {
        Some(part) => target.api.patch_subresource(part, &target.name, &params, &patch).await,
        None => target.api.patch(&target.name, &params, &patch).await,
    };
    changed(&target, "patched", patched).await
}

/// `scale`.
pub async fn scale(call: &Call, args: Scale) -> Result<Done> {
    let target = call.cluster.resource(&args.resource, &args.namespace).await?;
    let explained = async |e: kube::Error| match &e {
        kube::Error::Api(status) if status.code == 404 => Error::Failed(target.missing().await),
        e => explain(e, &target.label()),
    };
    let before = match target.api.get_scale(&target.name).await {
        Ok(scale) => scale.spec.and_then(|spec| spec.replicas).unwrap_or(0),
        Err(e) => return Err(explained(e).await),
    };
    let patch = KubePatch::Merge(json!({"spec": {"replicas": args.replicas}}));
    if let Err(e) = target.api.patch_scale(&target.name, &PatchParams::default(), &patch).await {
        return Err(explained(e).await);
    }
    Ok(Done::said(format!("scaled {} from {before} to {}", target.label(), args.replicas)).with("replicas", before))
}

/// `restart`.
pub async fn restart(call: &Call, args: Restart) -> Result<Done> {
    let target = call.cluster.resource(&args.resource, &args.namespace).await?;
    wait::workload(&target)?;
    if target.existing().await?.data["spec"]["paused"] == true {
        return failed(format!("{} is paused: it does not restart", target.label()));
    }
    let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let annotations = json!({"kubectl.kubernetes.io/restartedAt": now});
    let patch = json!({"spec": {"template": {"metadata": {"annotations": annotations}}}});
    let patched = target.api.patch(&target.name, &PatchParams::default(), &KubePatch::Merge(patch)).await;
    changed(&target, "restarted", patched).await.map(|done| Done::said(done.message))
}

/// `annotate`.
pub async fn annotate(call: &Call, args: Annotate) -> Result<Done> {
    let target = call.cluster.resource(&args.resource, &args.namespace).await?;
    let patch = json!({"metadata": {"annotations": args.annotations}});
    let patched = target.api.patch(&target.name, &PatchParams::default(), &KubePatch::Merge(patch)).await;
    changed(&target, "annotated", patched).await
}

/// `label`.
pub async fn label(call: &Call, args: Label) -> Result<Done> {
    let target = call.cluster.resource(&args.resource, &args.namespace).await?;
    let patch = json!({"metadata": {"labels": args.labels}});
    let patched = target.api.patch(&target.name, &PatchParams::default(), &KubePatch::Merge(patch)).await;
    changed(&target, "labelled", patched).await
}

/// `resource-exists`.
pub async fn exists(call: &Call, args: Reference) -> Result<Done> {
    let target = call.cluster.reference(&args).await?;
    let object = target.existing().await?;
    Ok(Done::said(format!("{} exists", target.label())).with("object", value(&object, &target.kind)))
}

/// `resource-absent`.
pub async fn absent(call: &Call, args: Reference) -> Result<Done> {
    let target = match call.cluster.reference(&args).await {
        Err(Error::NoKind { why, is_near: false }) => return Ok(Done::said(why)),
        target => target?,
    };
    match target.get().await? {
        None => Ok(Done::said(format!("there is no {}", target.label()))),
        Some(object) if object.metadata.deletion_timestamp.is_some() => {
            let finalizers = object.finalizers().join(", ");
            let why = if finalizers.is_empty() {
                String::new()
            } else {
                format!(", and its finalizers are not done: {finalizers}")
            };
            failed(format!("{} is being deleted, and still there{why}", target.label()))
        }
        Some(_) => failed(format!("{} exists", target.label())),
    }
}

async fn changed(target: &Target, verb: &str, result: kube::Result<DynamicObject>) -> Result<Done> {
    match result {
        Ok(object) => Ok(Done::said(format!("{verb} {}", target.label())).with("object", value(&object, &target.kind))),
        Err(kube::Error::Api(status)) if status.code == 404 => failed(target.missing().await),
        Err(e) => Err(explain(&e, &target.label())),
    }
}

/// The target of a manifest's object.
async fn placed(call: &Call, mut manifest: Value, namespace: Option<&str>) -> Result<(Target, DynamicObject)> {
    let text = |pointer: &str| manifest.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    let (Some(version), Some(kind), Some(name)) = (text("/apiVersion"), text("/kind"), text("/metadata/name")) else {
        return Err(Error::Broken("a manifest needs `apiVersion`, `kind` and `metadata.name`".to_owned()));
    };
    let own = text("/metadata/namespace").filter(|own| !own.is_empty());
    let target =
        call.cluster.target(call.cluster.kind(&version, &kind).await?, own.as_deref().or(namespace), &name).await?;
    match &target.namespace {
        Some(namespace) => manifest["metadata"]["namespace"] = json!(namespace),
        // kubectl ignores it.
        None => drop(manifest["metadata"].as_object_mut().and_then(|metadata| metadata.shift_remove("namespace"))),
    }
    let object = serde_json::from_value(manifest).map_err(|e| Error::Broken(format!("{}: {e}", target.label())))?;
    Ok((target, object))
}

/// The versions in which a CustomResourceDefinition serves its kind, in the form of `apiVersion`.
fn served(definition: &Value) -> Vec<String> {
    let spec = &definition["spec"];
    let versions = spec["versions"].as_array().into_iter().flatten().filter(|version| version["served"] == true);
    let names =
        versions.filter_map(|version| Some(format!("{}/{}", spec["group"].as_str()?, version["name"].as_str()?)));
    names.collect()
}

/// The objects of manifests, with lists flattened.
fn flat(manifests: Vec<Value>) -> Vec<Value> {
    let mut objects = Vec::new();
    for mut manifest in manifests.into_iter().filter(|manifest| !manifest.is_null()) {
        let is_list = manifest["kind"].as_str().is_some_and(|kind| kind.ends_with("List"));
        match manifest.get_mut("items") {
            Some(Value::Array(items)) if is_list => objects.extend(flat(std::mem::take(items))),
            _ => objects.push(manifest),
        }
    }
    objects
}

fn files(path: &FilePath) -> Result<Vec<Value>> {
    let unreadable = |path: &FilePath, e: std::io::Error| Error::Broken(format!("{}: {e}", path.display()));
    if !path.is_dir() {
        let text = std::fs::read_to_string(path).map_err(|e| unreadable(path, e))?;
        return documents(&text, &path.display().to_string());
    }
    let entries = std::fs::read_dir(path).map_err(|e| unreadable(path, e))?;
    let mut paths: Vec<_> = entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect();
    paths.retain(|path| path.extension().is_some_and(|e| e == "yaml" || e == "yml" || e == "json"));
    paths.sort();
    let mut all = Vec::new();
    for path in paths {
        let text = std::fs::read_to_string(&path).map_err(|e| unreadable(&path, e))?;
        all.extend(documents(&text, &path.display().to_string())?);
    }
    Ok(all)
}

/// Parses the documents of a manifest.
pub fn documents(text: &str, what: &str) -> Result<Vec<Value>> {
    crate::yaml::manifests(text).map_err(|why| Error::Broken(format!("{what}: {why}")))
}
