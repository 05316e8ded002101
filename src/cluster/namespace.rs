//! Namespaces, including generated ones.

use std::collections::BTreeMap;

use kube::api::{DeleteParams, ListParams, PostParams};
use serde_json::json;

use super::{
    api::{Error, Result, Target, explain},
    call::{Call, Done},
    wait::{self, Until, Watched},
};
use crate::kubernetes::operation::{CreateNamespace, DeleteNamespace, GenerateNamespace, Nothing};
use crate::random;

/// The label of a generated namespace: the run of a task that it was created for.
const RUN: &str = "gevals/run";

async fn target(call: &Call, name: &str) -> Result<Target> {
    call.cluster.target(call.cluster.kind("v1", "Namespace").await?, None, name).await
}

async fn make(call: &Call, name: &str, labels: BTreeMap<String, String>) -> Result<()> {
    let target = target(call, name).await?;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}});
    let namespace = serde_json::from_value(namespace).map_err(|e| Error::Broken(e.to_string()))?;
    target.api.create(&PostParams::default(), &namespace).await.map_err(|e| explain(&e, &target.label()))?;
    Ok(())
}

/// `create-namespace`.
pub async fn create(call: &Call, args: CreateNamespace) -> Result<Done> {
    make(call, &args.name, args.labels).await?;
    Ok(Done::said(format!("created the namespace `{}`", args.name)).with("namespace", args.name))
}

/// `delete-namespace`.
pub async fn delete(call: &Call, args: DeleteNamespace) -> Result<Done> {
    let timeout = wait::duration(&args.timeout)?;
    let target = target(call, &args.name).await?;
    match target.api.delete(&args.name, &DeleteParams::default()).await {
        Ok(_) => {}
        // Repeating the request does not speed up a deletion in progress.
        Err(kube::Error::Api(status)) if status.code == 409 => {}
        Err(kube::Error::Api(status)) if status.code == 404 => {
            return Ok(Done::said(format!("there is no namespace `{}`", args.name)));
        }
        Err(e) => return Err(explain(&e, &target.label())),
    }
    if args.wait {
        wait::until(&Watched::one(&target), &Until::Deleted, timeout).await?;
    }
    Ok(Done::said(format!("deleted the namespace `{}`", args.name)))
}

/// `createNamespace`.
pub async fn generate(call: &Call, args: GenerateNamespace) -> Result<Done> {
    let name = format!("{}-{}", args.prefix, random::word());
    make(call, &name, BTreeMap::from([(RUN.to_owned(), call.run_id.to_string())])).await?;
    Ok(Done::said(format!("created the namespace `{name}`")).with("namespace", name))
}

/// `deleteGeneratedNamespaces`. They are found by their label in the cluster, because another process may have created
/// them.
pub async fn delete_generated(call: &Call, _: Nothing) -> Result<Done> {
    let api = call.cluster.api(&call.cluster.kind("v1", "Namespace").await?, None).await?;
    let of_this_run = ListParams::default().labels(&format!("{RUN}={}", call.run_id));
    let list = api.list_metadata(&of_this_run).await.map_err(|e| explain(&e, "the generated namespaces"))?;
    let list = list.items.into_iter().filter(|found| found.metadata.deletion_timestamp.is_none());
    let names: Vec<_> = list.filter_map(|found| found.metadata.name).collect();
    let mut faults = Vec::new();
    for name in &names {
        match api.delete(name, &DeleteParams::default()).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
            Err(e) => faults.push(explain(&e, &target(call, name).await?.label())),
        }
    }
    match faults.into_iter().next() {
        Some(fault) => Err(fault),
        None if names.is_empty() => Ok(Done::said("no namespace was generated")),
        None => Ok(Done::said(format!("deleted {}", names.join(", ")))),
    }
}
