//! The cluster: how to reach it, which kinds it has, and how to interpret its errors.

use std::{collections::HashMap, path::PathBuf, sync::Arc, time::Duration};

use futures_util::future::join_all;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{APIResource, APIResourceList};
use kube::{
    Api, Client, Config,
    api::{ApiResource, DynamicObject, ListParams},
    config::{KubeConfigOptions, Kubeconfig, KubeconfigError},
    core::gvk::GroupVersion,
};
use serde::Deserialize;
use tokio::{
    sync::{Mutex, OnceCell},
    time::{Instant, sleep},
};

use crate::{
    hir::KubeWorld,
    kubernetes::operation::{Metadata, Reference},
};

/// Why an operation did not succeed.
#[derive(Debug)]
pub enum Error {
    /// The cluster is not in the expected state: a verdict.
    Failed(String),
    /// The cluster has no such kind, and so no object of it: also a verdict, unless absence is expected.
    NoKind {
        /// The reason, as text.
        why: String,
        /// Whether it has a kind with a similar name.
        is_near: bool,
    },
    /// The state is unknown: the cluster cannot be reached, or the arguments are invalid.
    Broken(String),
}

/// What an operation returns.
pub type Result<T> = std::result::Result<T, Error>;

/// A verdict.
pub fn failed<T>(message: impl Into<String>) -> Result<T> {
    Err(Error::Failed(message.into()))
}

/// The configuration of the extension: `config` of its entry in an eval.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// A path; `~` is the home directory. If absent, it is found as by kubectl (`KUBECONFIG`, `~/.kube/config`, in the
    /// cluster).
    pub kubeconfig: Option<String>,
    /// A context of the kubeconfig. If absent, the current one.
    pub context: Option<String>,
}

impl Settings {
    /// The path of the configured kubeconfig.
    pub fn path(&self) -> Option<PathBuf> {
        let text = self.kubeconfig.as_deref()?;
        match (text.strip_prefix("~/"), std::env::home_dir()) {
            (Some(rest), Some(home)) => Some(home.join(rest)),
            _ => Some(PathBuf::from(text)),
        }
    }

    /// The kubeconfig, merged from several files if `KUBECONFIG` lists several.
    pub fn kubeconfig(&self) -> Result<Kubeconfig> {
        self.read()?.ok_or_else(|| Error::Broken(format!("no kubeconfig: {}", no_file())))
    }

    /// As with kubectl, a configured file must exist, but the files in `KUBECONFIG` need not.
    fn read(&self) -> Result<Option<Kubeconfig>> {
        let unreadable = |e: KubeconfigError| Error::Broken(format!("no kubeconfig: {}", chain(&e)));
        if let Some(path) = self.path() {
            return Kubeconfig::read_from(path).map(Some).map_err(unreadable);
        }
        let listed = std::env::var_os("KUBECONFIG").unwrap_or_default();
        let mut paths: Vec<_> = std::env::split_paths(&listed).filter(|path| !path.as_os_str().is_empty()).collect();
        if paths.is_empty() {
            paths.extend(std::env::home_dir().map(|home| home.join(".kube/config")));
        }
        paths.retain(|path| !matches!(path.try_exists(), Ok(false)));
        let mut merged: Option<Kubeconfig> = None;
        for path in paths {
            let next = Kubeconfig::read_from(path).map_err(unreadable)?;
            merged = Some(match merged {
                Some(earlier) => earlier.merge(next).map_err(unreadable)?,
                None => next,
            });
        }
        Ok(merged)
    }

    async fn config(&self) -> Result<Config> {
        let options = KubeConfigOptions { context: self.context.clone(), ..KubeConfigOptions::default() };
        // An empty kubeconfig counts as missing, unless it was requested.
        let is_named = self.kubeconfig.is_some() || self.context.is_some();
        match self.read()?.filter(|config| is_named || !config.clusters.is_empty() || !config.contexts.is_empty()) {
            Some(config) => {
                Config::from_custom_kubeconfig(config, &options).await.map_err(|e| Error::Broken(chain(&e)))
            }
            None if self.context.is_some() => Err(Error::Broken(format!("no kubeconfig: {}", no_file()))),
            None => Config::incluster().map_err(|e| match std::env::var_os("KUBERNETES_SERVICE_HOST") {
                Some(_) => Error::Broken(format!("no cluster: this is a pod of one, but {}", chain(&e))),
                None => {
                    let what = "name a kubeconfig by KUBECONFIG, or by the extension's config `kubeconfig`";
                    Error::Broken(format!("no cluster: {}; {what}", no_file()))
                }
            }),
        }
    }
}

/// The reason why there is no kubeconfig.
fn no_file() -> String {
    match std::env::var("KUBECONFIG") {
        Ok(paths) if !paths.is_empty() => format!("nothing is at `{paths}`, where KUBECONFIG points"),
        _ => "KUBECONFIG is not set, and there is no `~/.kube/config`".to_owned(),
    }
}

/// The namespace for objects that do not specify one: that of the world, if the eval requests one (`world: kube`).
pub fn usual_namespace() -> String {
    let of_world = std::env::var(KubeWorld::VARIABLES[1]).ok().filter(|name| !name.is_empty());
    of_world.unwrap_or_else(|| "default".to_owned())
}

/// A kind that the API server supports.
#[derive(Clone, Debug)]
pub struct Kind {
    /// Group, version, kind and plural.
    pub resource: ApiResource,
    /// Whether its objects are in namespaces.
    pub namespaced: bool,
}

/// An object, or the place where it would be.
#[derive(Clone, Debug)]
pub struct Target {
    /// The kind of the object.
    pub kind: Kind,
    /// `None` for a cluster-scoped object.
    pub namespace: Option<String>,
    /// The name of the object.
    pub name: String,
    /// The API for objects of its kind and namespace.
    pub api: Api<DynamicObject>,
}

impl Target {
    /// ``pod `web` in `shop` ``.
    pub fn label(&self) -> String {
        label(&self.kind.resource.kind, self.namespace.as_deref(), &self.name)
    }

    /// Gets the object.
    pub async fn get(&self) -> Result<Option<DynamicObject>> {
        self.api.get_opt(&self.name).await.map_err(|e| explain(&e, &self.label()))
    }

    /// Gets the object; fails if it does not exist.
    pub async fn existing(&self) -> Result<DynamicObject> {
        match self.get().await? {
            Some(object) => Ok(object),
            None => failed(self.missing().await),
        }
    }

    /// A message that the object does not exist, and which ones do.
    pub async fn missing(&self) -> String {
        let label = self.label();
        let Ok(list) = self.api.list_metadata(&ListParams::default().limit(200)).await else {
            return format!("there is no {label}");
        };
        let mut names: Vec<_> = list.items.into_iter().filter_map(|item| item.metadata.name).collect();
        if let Some(near) = nearest(&self.name, names.iter().map(String::as_str)) {
            return format!("there is no {label}; did you mean `{near}`?");
        }
        let shown = names.len().min(5);
        let rest = names.split_off(shown).len();
        let more = if rest == 0 { String::new() } else { format!(" and {rest} more") };
        match shown {
            0 => format!("there is no {label}; there are none of its kind"),
            _ => format!("there is no {label}; there are {}{more}", names.join(", ")),
        }
    }
}

fn label(kind: &str, namespace: Option<&str>, name: &str) -> String {
    let namespace = namespace.map(|n| format!(" in `{n}`")).unwrap_or_default();
    format!("{kind} `{name}`{namespace}")
}

/// The most similar name, if it is similar enough.
pub fn nearest<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let most = (name.len() / 3).clamp(1, 3);
    names
        .map(|other| (strsim::damerau_levenshtein(&name.to_lowercase(), &other.to_lowercase()), other))
        .filter(|(distance, _)| *distance <= most)
        .min()
        .map(|(_, other)| other)
}

/// A connection to a cluster, opened when it is first needed.
pub struct Cluster {
    /// The configuration.
    pub settings: Settings,
    client: OnceCell<(Client, String)>,
    /// The kinds of each group and version requested so far.
    known: Mutex<HashMap<String, Arc<Vec<APIResource>>>>,
}

impl Cluster {
    /// Creates a cluster without connecting to it.
    pub fn new(settings: Settings) -> Self {
        Self { settings, client: OnceCell::new(), known: Mutex::default() }
    }

    /// The client.
    pub async fn client(&self) -> Result<Client> {
        let connect = async || {
            let config = self.settings.config().await?;
            let address = config.cluster_url.to_string();
            let client = Client::try_from(config).map_err(|e| Error::Broken(chain(&e)))?;
            Ok((client, address))
        };
        self.client.get_or_try_init(connect).await.map(|(client, _)| client.clone())
    }

    fn address(&self) -> &str {
        self.client.get().map_or("", |(_, address)| address)
    }

    /// The error for a failed request that concerns the cluster as a whole.
    pub fn unreachable(&self, error: &kube::Error) -> Error {
        match explain(error, "the API") {
            Error::Broken(why) => Error::Broken(format!("the API server at {} does not answer: {why}", self.address())),
            verdict => verdict,
        }
    }

    async fn listed(&self, version: &str) -> Result<Arc<Vec<APIResource>>> {
        if let Some(known) = self.known.lock().await.get(version) {
            return Ok(known.clone());
        }
        let client = self.client().await?;
        let list: std::result::Result<APIResourceList, _> = match version.contains('/') {
            true => client.list_api_group_resources(version).await,
            false => client.list_core_api_resources(version).await,
        };
        let list = match list {
            Ok(list) => list.resources,
            Err(kube::Error::Api(status)) if status.code == 404 => Vec::new(),
            Err(e) => return Err(self.unreachable(&e)),
        };
        let list = Arc::new(list);
        if !list.is_empty() {
            self.known.lock().await.insert(version.to_owned(), list.clone());
        }
        Ok(list)
    }

    /// The versions of all groups: the core group's first, then the preferred version of each group, then the others,
    /// because a kind may exist only in one of these.
    async fn versions(&self) -> Result<Vec<String>> {
        let groups = self.client().await?.list_api_groups().await.map_err(|e| self.unreachable(&e))?;
        let (mut preferred, mut others) = (vec!["v1".to_owned()], Vec::new());
        for group in groups.groups {
            let first = group.preferred_version.or_else(|| group.versions.first().cloned());
            let first = first.map(|version| version.group_version);
            let all = group.versions.into_iter().map(|version| version.group_version);
            others.extend(all.filter(|version| Some(version) != first.as_ref()));
            preferred.extend(first);
        }
        Ok([preferred, others].concat())
    }

    /// The kind with this `apiVersion` and `kind`.
    pub async fn kind(&self, version: &str, kind: &str) -> Result<Kind> {
        let list = self.listed(version).await?;
        if let Some(found) = list.iter().find(|resource| resource.kind == kind && !resource.name.contains('/')) {
            return to_kind(version, found);
        }
        let kinds = || list.iter().map(|resource| resource.kind.as_str());
        let near = nearest(kind, kinds());
        let why = match (list.is_empty(), near) {
            (true, _) => format!("the cluster has no API `{version}` (for the kind `{kind}`)"),
            (false, Some(near)) => format!("`{version}` has no kind `{kind}`; did you mean `{near}`?"),
            (false, None) => format!("`{version}` has no kind `{kind}`"),
        };
        Err(Error::NoKind { why, is_near: near.is_some() })
    }

    /// Waits until the cluster lists a kind that was just defined: its lists lag behind the condition `Established`.
    pub async fn defined(&self, version: &str, kind: &str, limit: Duration) -> Result<()> {
        let deadline = Instant::now() + limit;
        loop {
            self.known.lock().await.remove(version);
            match self.kind(version, kind).await {
                Err(Error::NoKind { .. }) if Instant::now() < deadline => sleep(Duration::from_millis(50)).await,
                found => return found.map(drop),
            }
        }
    }

    /// Finds the kind that a text names: a kind, plural, singular or short name, optionally with its group
    /// (`deployments.apps`) or its version and group (`deployments.v1.apps`).
    pub async fn named(&self, text: &str) -> Result<Kind> {
        let (short, rest) = text.split_once('.').map_or((text, None), |(name, rest)| (name, Some(rest)));
        let name = short.to_lowercase();
        // `deployments.apps`, or `deployments.v1.apps`; the core group has no name.
        let (exact, group) = match rest.and_then(|rest| rest.split_once('.')) {
            Some((version, group)) if is_version(version) => (Some(version), Some(group)),
            _ => match rest.filter(|rest| is_version(rest)) {
                Some(version) => (Some(version), None),
                None => (None, rest),
            },
        };
        // `deployments.` and `deployments.v1.` name no group.
        let group = group.filter(|group| !group.is_empty());
        let is = |resource: &&APIResource| {
            !resource.name.contains('/')
                && (resource.name == name
                    || resource.singular_name == name
                    || resource.kind.to_lowercase() == name
                    // As for kubectl, the case of a short name matters.
                    || resource.short_names.as_ref().is_some_and(|all| all.iter().any(|known| known == short)))
        };
        if group.is_none()
            && exact.is_none_or(|version| version == "v1")
            && let Some(found) = self.listed("v1").await?.iter().find(is)
        {
            return to_kind("v1", found);
        }
        let versions = self.versions().await?;
        // As for kubectl, the beginning of the name of a group is enough if no group has this name.
        let is_group = versions.iter().any(|listed| group == Some(parts(listed).0));
        let fits = |of: &str| match group {
            None => true,
            Some(group) if is_group || exact.is_some() => of == group,
            Some(group) => of.starts_with(group),
        };
        let wanted: Vec<_> = versions
            .iter()
            .filter(|listed| {
                let (of, version) = parts(listed);
                fits(of) && exact.is_none_or(|exact| version == exact)
            })
            .collect();
        let lists = join_all(wanted.iter().map(|version| self.listed(version))).await;
        let mut names = Vec::new();
        let mut unanswered = None;
        for (version, list) in wanted.iter().zip(lists) {
            // An API whose server is down (for example metrics) must not hide the others.
            let list = match list {
                Ok(list) => list,
                Err(why) => {
                    unanswered = Some(why);
                    continue;
                }
            };
            if let Some(found) = list.iter().find(is) {
                return to_kind(version, found);
            }
            names.extend(
                list.iter().filter(|r| !r.name.contains('/')).flat_map(|r| [r.name.clone(), r.singular_name.clone()]),
            );
        }
        let near = nearest(&name, names.iter().map(String::as_str).filter(|n| !n.is_empty()));
        let why = match near {
            Some(near) => format!("the cluster has no kind `{text}`; did you mean `{near}`?"),
            None => format!("the cluster has no kind `{text}`"),
        };
        Err(match (unanswered, near) {
            // The kind may be in an API that did not answer.
            (Some(unanswered), None) => unanswered,
            (Some(_), Some(_)) => Error::Failed(why),
            (None, near) => Error::NoKind { why, is_near: near.is_some() },
        })
    }

    /// All kinds whose objects are persistent: they can be listed and deleted. Groups whose server does not answer are
    /// left out.
    pub async fn kept(&self) -> Result<Vec<Kind>> {
        let versions = self.versions().await?;
        let lists = join_all(versions.iter().map(|version| self.listed(version))).await;
        let mut kinds: Vec<Kind> = Vec::new();
        for (version, list) in versions.iter().zip(lists) {
            let Ok(list) = list else { continue };
            let group = version.split_once('/').map_or("", |(group, _)| group);
            let can = |resource: &&APIResource| {
                let verb = |verb: &str| resource.verbs.iter().any(|known| known == verb);
                !resource.name.contains('/') && verb("list") && verb("delete")
            };
            for resource in list.iter().filter(can) {
                let known = |kind: &Kind| kind.resource.group == group && kind.resource.kind == resource.kind;
                if !kinds.iter().any(known) {
                    kinds.push(to_kind(version, resource)?);
                }
            }
        }
        Ok(kinds)
    }

    /// The API for objects of a kind, in a namespace if the kind is namespaced.
    pub async fn api(&self, kind: &Kind, namespace: Option<&str>) -> Result<Api<DynamicObject>> {
        let client = self.client().await?;
        Ok(match namespace {
            Some(namespace) if kind.namespaced => Api::namespaced_with(client, namespace, &kind.resource),
            _ => Api::all_with(client, &kind.resource),
        })
    }

    /// The object with this kind and name.
    pub async fn target(&self, kind: Kind, namespace: Option<&str>, name: &str) -> Result<Target> {
        let namespace =
            kind.namespaced.then(|| namespace.filter(|n| !n.is_empty()).map_or_else(usual_namespace, str::to_owned));
        let api = self.api(&kind, namespace.as_deref()).await?;
        Ok(Target { kind, namespace, name: name.to_owned(), api })
    }

    /// The object that `KIND/NAME` names.
    pub async fn resource(&self, text: &str, namespace: &str) -> Result<Target> {
        let Some((kind, name)) =
            text.split_once('/').filter(|(kind, name)| !kind.is_empty() && !name.is_empty() && !name.contains('/'))
        else {
            return Err(Error::Broken(format!("`{text}` is no resource: write `KIND/NAME`, as in `pod/web`")));
        };
        self.target(self.named(kind).await?, Some(namespace), name).await
    }

    /// The object that a reference names, in either of its forms.
    pub async fn reference(&self, reference: &Reference) -> Result<Target> {
        match reference {
            Reference { resource: Some(resource), namespace, .. } => self.resource(resource, namespace).await,
            Reference {
                api_version: Some(version),
                kind: Some(kind),
                metadata: Some(Metadata { name, namespace }),
                ..
            } => self.target(self.kind(version, kind).await?, namespace.as_deref(), name).await,
            _ => Err(Error::Broken("no object is named: write `resource: KIND/NAME`".to_owned())),
        }
    }
}

/// Group and version; the core group has no name.
fn parts(listed: &str) -> (&str, &str) {
    listed.split_once('/').unwrap_or(("", listed))
}

/// Whether a part of the name of a kind is a version: `v1`, `v2beta1`.
fn is_version(text: &str) -> bool {
    let number = text.strip_prefix('v').unwrap_or_default();
    number.starts_with(|c: char| c.is_ascii_digit()) && number.bytes().all(|b| b.is_ascii_alphanumeric())
}

fn to_kind(version: &str, resource: &APIResource) -> Result<Kind> {
    let version: GroupVersion = version.parse().map_err(|e| Error::Broken(format!("{e}")))?;
    Ok(Kind {
        resource: ApiResource::from_gvk_with_plural(&version.with_kind(&resource.kind), &resource.name),
        namespaced: resource.namespaced,
    })
}

/// The error for a failed request that concerns an object.
pub fn explain(error: &kube::Error, what: &str) -> Error {
    match error {
        kube::Error::Api(status) => {
            let causes: Vec<_> = status
                .details
                .iter()
                .flat_map(|details| &details.causes)
                .map(|cause| match cause.field.as_str() {
                    "" => cause.message.clone(),
                    field => format!("{field}: {}", cause.message),
                })
                .collect();
            let causes = if causes.len() < 2 { String::new() } else { format!(" ({})", causes.join("; ")) };
            match status.code {
                401 => Error::Broken(format!("the API server does not know this user: {}", status.message)),
                // From server-side apply, before 1.24: a field that the kind does not have.
                500 if status.message.contains("typed patch object") => {
                    Error::Failed(format!("{what}: {}", status.message))
                }
                500.. => Error::Broken(format!("{what}: the API server failed: {}", status.message)),
                _ => Error::Failed(format!("{what}: {}{causes}", status.message)),
            }
        }
        other => Error::Broken(chain(other)),
    }
}

/// An error and its causes, in one line.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}
