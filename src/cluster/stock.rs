//! Records all objects of a throwaway cluster, and restores that state: objects created since are deleted.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    time::Duration,
};

use futures_util::future::join_all;
use kube::{
    api::{DeleteParams, ListParams},
    config::Kubeconfig,
};
use tokio::time::{Instant, sleep};

use super::api::{Cluster, Error, Kind, Settings};

/// How long deleted objects may take to disappear: what runs in a namespace gets time to end.
const GONE: Duration = Duration::from_secs(120);
/// How often this is checked.
const PAUSE: Duration = Duration::from_millis(100);

/// Kinds whose objects a cluster creates itself.
const OWN_KINDS: [&str; 13] = [
    "APIService",
    "CSINode",
    "CSIStorageCapacity",
    "CertificateSigningRequest",
    "Endpoints",
    "EndpointSlice",
    "Event",
    "FlowSchema",
    "IPAddress",
    "Lease",
    "PriorityLevelConfiguration",
    "ServiceCIDR",
    "VolumeAttachment",
];

/// A kubeconfig that contains only one context, which is its current one.
///
/// # Errors
/// There is no kubeconfig, or no such context; the error lists the existing ones.
pub fn only(context: &str) -> Result<String, String> {
    let mut config = Settings::default().kubeconfig().map_err(text)?;
    let Some(found) = config.contexts.iter().find(|named| named.name == context).cloned() else {
        let names: Vec<_> = config.contexts.iter().map(|named| format!("`{}`", named.name)).collect();
        let there = if names.is_empty() { "it has none".to_owned() } else { format!("it has {}", names.join(", ")) };
        return Err(format!("the kubeconfig has no context `{context}`: {there}"));
    };
    let of = found.context.clone().unwrap_or_default();
    config.contexts = vec![found];
    config.clusters.retain(|cluster| cluster.name == of.cluster);
    config.auth_infos.retain(|user| of.user.as_ref() == Some(&user.name));
    config.current_context = Some(context.to_owned());
    written(&config)
}

fn written(config: &Kubeconfig) -> Result<String, String> {
    let value = serde_json::to_value(config).map_err(|e| e.to_string())?;
    crate::yaml::write(&value)
}

fn text(error: Error) -> String {
    match error {
        Error::Failed(why) | Error::Broken(why) | Error::NoKind { why, .. } => why,
    }
}

/// The kind, the namespace and the name of an object.
type Place = (String, Option<String>, String);

/// The recorded properties of an object.
struct Object {
    kind: Kind,
    uid: String,
    labels: BTreeMap<String, String>,
    generation: Option<i64>,
}

/// The objects that a cluster contained.
pub struct Stock {
    kubeconfig: PathBuf,
    objects: BTreeMap<Place, Object>,
}

impl Stock {
    /// Records the objects in the cluster of a kubeconfig. Objects that are owned by another one, that are in a
    /// `kube-…` namespace, or that a cluster creates itself are left out.
    ///
    /// # Errors
    /// The cluster does not answer.
    pub async fn take(kubeconfig: &Path) -> Result<Self, String> {
        let kubeconfig = kubeconfig.to_owned();
        let objects = objects(&kubeconfig).await?;
        Ok(Self { kubeconfig, objects })
    }

    /// Deletes the objects that were created since, and waits until they are gone. Nodes are kept. Returns what was
    /// created, changed or deleted, as text.
    ///
    /// # Errors
    /// The cluster does not answer, or an object cannot be deleted.
    pub async fn restore(&self) -> Result<Vec<String>, String> {
        let now = objects(&self.kubeconfig).await?;
        let cluster = cluster(&self.kubeconfig);
        let mut said = Vec::new();
        let new: Vec<(&Place, &Object)> = now
            .iter()
            .filter(|(place, object)| self.objects.get(place).is_none_or(|was| was.uid != object.uid))
            .collect();
        let spaces: BTreeSet<&String> = new
            .iter()
            .filter(|((kind, space, _), _)| kind == "Namespace" && space.is_none())
            .map(|((.., name), _)| name)
            .collect();
        let mut targets = Vec::new();
        for (place, object) in new {
            let (_, space, name) = place;
            // It is deleted with its namespace.
            if space.as_ref().is_some_and(|space| spaces.contains(space)) {
                continue;
            }
            said.push(shown(place));
            if object.kind.resource.kind != "Node" {
                targets.push(cluster.target(object.kind.clone(), space.as_deref(), name).await.map_err(text)?);
            }
        }
        for (place, was) in &self.objects {
            match now.get(place) {
                None => said.push(format!("{} is gone", shown(place))),
                Some(object) if object.labels != was.labels || object.generation != was.generation => {
                    said.push(format!("{} is changed", shown(place)));
                }
                Some(_) => {}
            }
        }
        for target in &targets {
            match target.api.delete(&target.name, &DeleteParams::default()).await {
                Ok(_) => {}
                Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
                Err(error) => return Err(text(super::api::explain(&error, &target.label()))),
            }
        }
        let deadline = Instant::now() + GONE;
        for target in &targets {
            while target.get().await.map_err(text)?.is_some() {
                if Instant::now() > deadline {
                    return Err(format!("{} is still there {} s after it was deleted", target.label(), GONE.as_secs()));
                }
                sleep(PAUSE).await;
            }
        }
        Ok(said)
    }
}

fn shown((kind, space, name): &Place) -> String {
    let space = space.as_ref().map(|space| format!(" in `{space}`")).unwrap_or_default();
    format!("{} `{name}`{space}", kind.to_lowercase())
}

fn cluster(kubeconfig: &Path) -> Cluster {
    Cluster::new(Settings { kubeconfig: Some(kubeconfig.display().to_string()), context: None })
}

async fn objects(kubeconfig: &Path) -> Result<BTreeMap<Place, Object>, String> {
    // A new connection without cached kinds: tasks may define kinds.
    let cluster = cluster(kubeconfig);
    let kinds = cluster.kept().await.map_err(text)?;
    let kinds = kinds.into_iter().filter(|kind| !OWN_KINDS.contains(&kind.resource.kind.as_str()));
    let lists = kinds.map(async |kind| -> Result<_, String> {
        let api = cluster.api(&kind, None).await.map_err(text)?;
        match api.list_metadata(&ListParams::default()).await {
            Ok(list) => Ok((kind, list.items)),
            // The kind is being removed.
            Err(kube::Error::Api(status)) if status.code == 404 => Ok((kind, Vec::new())),
            Err(error) => Err(text(super::api::explain(&error, &kind.resource.plural))),
        }
    });
    let mut found = BTreeMap::new();
    for list in join_all(lists).await {
        let (kind, items) = list?;
        for item in items {
            let meta = item.metadata;
            let (Some(name), space) = (meta.name, meta.namespace) else { continue };
            let inside = space.as_deref().or((kind.resource.kind == "Namespace").then_some(name.as_str()));
            let is_own = name.starts_with("system:")
                || inside.is_some_and(|space| space.starts_with("kube-"))
                || matches!(
                    (kind.resource.kind.as_str(), name.as_str()),
                    ("ServiceAccount", "default") | ("ConfigMap", "kube-root-ca.crt") | ("Service", "kubernetes")
                )
                || meta.annotations.is_some_and(|notes| notes.contains_key("kubernetes.io/service-account.name"))
                || meta.owner_references.is_some_and(|owners| !owners.is_empty());
            if is_own {
                continue;
            }
            let object = Object {
                kind: kind.clone(),
                uid: meta.uid.unwrap_or_default(),
                labels: meta.labels.unwrap_or_default(),
                generation: meta.generation,
            };
            found.insert((kind.resource.kind.clone(), space, name), object);
        }
    }
    Ok(found)
}
