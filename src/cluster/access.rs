//! What users are allowed to do.

use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec, SubjectAccessReview,
    SubjectAccessReviewSpec, SubjectAccessReviewStatus,
};
use kube::{Api, api::PostParams};

use super::{
    api::{Error, Result, explain, failed},
    call::{Call, Done},
};
use crate::kubernetes::operation::{AuthCanI, CanI};

async fn review(call: &Call, user: Option<&str>, what: ResourceAttributes) -> Result<SubjectAccessReviewStatus> {
    let client = call.cluster.client().await?;
    let params = PostParams::default();
    let answer = match user {
        Some(user) => {
            let spec = SubjectAccessReviewSpec {
                user: Some(user.to_owned()),
                groups: Some(groups(user)),
                resource_attributes: Some(what),
                ..SubjectAccessReviewSpec::default()
            };
            let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
            Api::<SubjectAccessReview>::all(client).create(&params, &review).await.map(|review| review.status)
        }
        None => {
            let spec = SelfSubjectAccessReviewSpec {
                resource_attributes: Some(what),
                ..SelfSubjectAccessReviewSpec::default()
            };
            let review = SelfSubjectAccessReview { spec, ..SelfSubjectAccessReview::default() };
            Api::<SelfSubjectAccessReview>::all(client).create(&params, &review).await.map(|review| review.status)
        }
    };
    let status = answer.map_err(|e| explain(&e, "the review of access"))?;
    status.ok_or_else(|| Error::Broken("the review of access has no status".to_owned()))
}

/// The groups that the API server adds to a user with this name.
fn groups(user: &str) -> Vec<String> {
    let mut groups = vec!["system:authenticated".to_owned()];
    if let Some((namespace, _)) = user.strip_prefix("system:serviceaccount:").and_then(|rest| rest.split_once(':')) {
        groups.push("system:serviceaccounts".to_owned());
        groups.push(format!("system:serviceaccounts:{namespace}"));
    }
    groups
}

/// `can-i`.
pub async fn can_i(call: &Call, args: CanI) -> Result<Done> {
    let (resource, part) =
        args.resource.split_once('/').map_or((args.resource.as_str(), None), |(r, part)| (r, Some(part)));
    let kind = call.cluster.named(resource).await?.resource;
    let what = ResourceAttributes {
        verb: Some(args.verb.clone()),
        group: Some(kind.group),
        resource: Some(kind.plural),
        subresource: part.map(str::to_owned),
        namespace: args.namespace.clone(),
        name: args.name.clone(),
        ..ResourceAttributes::default()
    };
    let status = review(call, args.user.as_deref(), what).await?;
    let user = args.user.as_deref().map_or("this user".to_owned(), |user| format!("`{user}`"));
    let place = args.namespace.as_deref().map_or("all namespaces".to_owned(), |n| format!("`{n}`"));
    let name = args.name.as_deref().map(|name| format!(" `{name}`")).unwrap_or_default();
    let may = if status.allowed { "may" } else { "may not" };
    let reason = status.reason.clone().unwrap_or_default();
    let why = if reason.is_empty() { String::new() } else { format!(" ({reason})") };
    let said = format!("{user} {may} {} {}{name} in {place}{why}", args.verb, args.resource);
    if status.allowed != args.allowed {
        return failed(said);
    }
    Ok(Done::said(said).with("allowed", status.allowed).with("reason", reason))
}

/// `authCanI`, as in the existing extension.
pub async fn auth_can_i(call: &Call, args: AuthCanI) -> Result<Done> {
    let what = ResourceAttributes {
        verb: Some(args.verb.clone()),
        group: args.api_group.clone(),
        resource: Some(args.resource.clone()),
        namespace: args.namespace.clone(),
        name: args.resource_name.clone(),
        ..ResourceAttributes::default()
    };
    let status = review(call, Some(&args.user), what).await?;
    let may = if status.allowed { "may" } else { "may not" };
    let said = format!("`{}` {may} {} {}", args.user, args.verb, args.resource);
    match args.expect.and_then(|expect| expect.allowed) {
        Some(allowed) if allowed != status.allowed => failed(said),
        _ => Ok(Done::said(said)
            .with("allowed", status.allowed.to_string())
            .with("reason", status.reason.unwrap_or_default())),
    }
}
