//! Selects the objects of an operation.

use kube::api::{DynamicObject, ListParams, TypeMeta};
use serde_json::Value;

use super::{
    api::{Error, Kind, Result, Target, explain},
    call::Call,
};
use crate::kubernetes::operation::{Metadata, Reference};

/// An object as JSON, without managed fields. Lists omit the kind; it is added here.
pub fn value(object: &DynamicObject, kind: &Kind) -> Value {
    let mut object = object.clone();
    object.metadata.managed_fields = None;
    object.types.get_or_insert_with(|| TypeMeta {
        api_version: kind.resource.api_version.clone(),
        kind: kind.resource.kind.clone(),
    });
    serde_json::to_value(object).unwrap_or_default()
}

/// Selects one object by name, or several by a selector.
#[derive(Debug)]
pub struct Chosen {
    /// `KIND/NAME`.
    pub resource: Option<String>,
    /// The namespace of the objects.
    pub namespace: String,
    /// Used with a selector or an `apiVersion`.
    pub kind: Option<String>,
    /// A label selector.
    pub selector: Option<String>,
    /// As in a manifest.
    pub api_version: Option<String>,
    /// As in a manifest.
    pub metadata: Option<Metadata>,
}

impl Chosen {
    /// The single object.
    pub async fn target(&self, call: &Call) -> Result<Target> {
        let reference = Reference {
            resource: self.resource.clone(),
            namespace: self.namespace.clone(),
            api_version: self.api_version.clone(),
            kind: self.kind.clone(),
            metadata: self.metadata.clone(),
        };
        call.cluster.reference(&reference).await
    }

    /// The kind that the selector applies to.
    pub async fn kind(&self, call: &Call) -> Result<Kind> {
        match &self.kind {
            Some(kind) => call.cluster.named(kind).await,
            None => Err(Error::Broken("`selector` needs a `kind`".to_owned())),
        }
    }

    /// The objects that match a selector, as JSON.
    pub async fn listed(&self, call: &Call, selector: &str) -> Result<Vec<Value>> {
        let kind = self.kind(call).await?;
        let api = call.cluster.api(&kind, Some(&self.namespace)).await?;
        let list = api.list(&ListParams::default().labels(selector)).await;
        let list = list.map_err(|e| explain(&e, &format!("{} with `{selector}`", kind.resource.plural)))?;
        Ok(list.items.iter().map(|object| value(object, &kind)).collect())
    }

    /// The selected objects, one or several.
    pub async fn targets(&self, call: &Call) -> Result<Vec<Target>> {
        let Some(selector) = &self.selector else { return Ok(vec![self.target(call).await?]) };
        let kind = self.kind(call).await?;
        let mut targets = Vec::new();
        for object in self.listed(call, selector).await? {
            let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
            targets.push(call.cluster.target(kind.clone(), Some(&self.namespace), name).await?);
        }
        Ok(targets)
    }
}
