//! Lists the contents of a cluster: its namespaces, and the objects of some kinds.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use kube::api::ListParams;
use serde_json::Value;

use super::api::{Cluster, Error, Settings, explain};

/// Maximum number of kinds that are queried.
const MOST_KINDS: usize = 20;
/// Maximum number of objects of one kind.
const MOST_OBJECTS: u32 = 2000;

/// The names of the objects, as `Pod web in shop`. Objects that are owned by another one, that are being deleted, or
/// whose namespace is being deleted are left out.
///
/// # Errors
/// The cluster cannot be reached, or does not answer in time.
pub async fn objects(config: &Value, kinds: &BTreeSet<String>, limit: Duration) -> Result<BTreeSet<String>, String> {
    let settings = match config {
        Value::Null => Settings::default(),
        config => serde_json::from_value(config.clone()).map_err(|e| format!("its `config`: {e}"))?,
    };
    match tokio::time::timeout(limit, listed(&Cluster::new(settings), kinds)).await {
        Ok(Ok(names)) => Ok(names),
        Ok(Err(Error::Failed(why) | Error::Broken(why) | Error::NoKind { why, .. })) => Err(why),
        Err(_) => Err(format!("no answer within {} s", limit.as_secs())),
    }
}

async fn listed(cluster: &Cluster, kinds: &BTreeSet<String>) -> super::api::Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    let mut spaces: BTreeMap<String, String> = BTreeMap::new();
    let asked =
        std::iter::once("namespace").chain(kinds.iter().map(String::as_str).filter(|kind| *kind != "namespace"));
    for text in asked.take(MOST_KINDS) {
        // A kind that this cluster does not have is a resource of another system.
        let kind = match cluster.named(text).await {
            Ok(kind) => kind,
            Err(Error::NoKind { .. }) => continue,
            Err(why) => return Err(why),
        };
        let api = cluster.api(&kind, None).await?;
        let list = api.list_metadata(&ListParams::default().limit(MOST_OBJECTS)).await;
        let list = list.map_err(|error| explain(&error, &kind.resource.plural))?;
        for object in list.items {
            let meta = object.metadata;
            let owned = meta.owner_references.is_some_and(|owners| !owners.is_empty());
            let (Some(name), None, false) = (meta.name, meta.deletion_timestamp, owned) else { continue };
            match meta.namespace {
                Some(space) => {
                    let shown = format!("{} {name} in {space}", kind.resource.kind);
                    spaces.insert(shown, space);
                }
                None => drop(names.insert(format!("{} {name}", kind.resource.kind))),
            }
        }
    }
    // Objects in a namespace that is being deleted are deleted with it.
    let stands = |space: &String| names.contains(&format!("Namespace {space}"));
    let inside: Vec<String> = spaces.iter().filter(|(_, space)| stands(space)).map(|(name, _)| name.clone()).collect();
    names.extend(inside);
    Ok(names)
}
