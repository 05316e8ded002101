//! Commands and logs of containers.

use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api,
    api::{AttachParams, DynamicObject, LogParams},
};
use tokio::io::AsyncReadExt;

use super::{
    api::{Error, Result, chain, explain, failed},
    call::{Call, Done},
};
use crate::kubernetes::operation::{Exec, Logs};

/// `exec`. An exit status other than 0 is an output, not a failure: the step specifies what it expects.
pub async fn exec(call: &Call, args: Exec) -> Result<Done> {
    let target = call.cluster.target(call.cluster.kind("v1", "Pod").await?, Some(&args.namespace), &args.pod).await?;
    let pod = target.existing().await?;
    let pods: Api<Pod> = Api::namespaced(call.cluster.client().await?, &args.namespace);
    let mut params = AttachParams::default().stdin(false).stdout(true).stderr(true);
    params.container = args.container.clone().or_else(|| default_container(&pod));
    let broken = |why: String| Error::Broken(format!("{}: the command could not be run: {why}", target.label()));
    let mut process = pods.exec(&args.pod, &args.command, &params).await.map_err(|e| broken(chain(&e)))?;
    let (stdout, stderr, status) = (process.stdout(), process.stderr(), process.take_status());
    let all = async |stream: Option<_>| {
        let mut bytes = Vec::new();
        if let Some(mut stream) = stream {
            tokio::io::ReadHalf::read_to_end(&mut stream, &mut bytes).await?;
        }
        std::io::Result::Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    let (stdout, stderr) = tokio::try_join!(all(stdout), all(stderr)).map_err(|e| broken(e.to_string()))?;
    let status = match status {
        Some(status) => status.await,
        None => None,
    };
    let Some(status) = status else { return Err(broken("the connection ended before the command".to_owned())) };
    let code = match status.reason.as_deref() {
        Some("NonZeroExitCode") => status
            .details
            .iter()
            .flat_map(|details| details.causes.iter().flatten())
            .find(|cause| cause.reason.as_deref() == Some("ExitCode"))
            .and_then(|cause| cause.message.as_deref()?.parse::<i64>().ok()),
        Some("") | None => Some(0),
        Some(_) => None,
    };
    let Some(code) = code else { return Err(broken(status.message.unwrap_or_default())) };
    Ok(Done::said(format!("{}: exit status {code}", target.label()))
        .with("stdout", stdout)
        .with("stderr", stderr)
        .with("exitCode", code))
}

/// The container that kubectl takes if none is named: that of the annotation, or the first.
fn default_container(pod: &DynamicObject) -> Option<String> {
    let names: Vec<&str> =
        pod.data.pointer("/spec/containers")?.as_array()?.iter().filter_map(|c| c.get("name")?.as_str()).collect();
    let annotated =
        pod.metadata.annotations.as_ref().and_then(|all| all.get("kubectl.kubernetes.io/default-container"));
    let chosen = annotated.map(String::as_str).filter(|name| names.contains(name)).or(names.first().copied());
    chosen.map(str::to_owned)
}

/// `logs`.
pub async fn logs(call: &Call, args: Logs) -> Result<Done> {
    let target = call.cluster.target(call.cluster.kind("v1", "Pod").await?, Some(&args.namespace), &args.pod).await?;
    let pod = target.existing().await?;
    let pods: Api<Pod> = Api::namespaced(call.cluster.client().await?, &args.namespace);
    let params = LogParams {
        container: args.container.clone().or_else(|| default_container(&pod)),
        tail_lines: args.tail,
        previous: args.previous,
        ..LogParams::default()
    };
    match pods.logs(&args.pod, &params).await {
        Ok(text) => Ok(Done::said(format!("{}: {} lines", target.label(), text.lines().count())).with("stdout", text)),
        Err(kube::Error::Api(status)) if status.code == 400 => {
            failed(format!("{}: {}", target.label(), status.message))
        }
        Err(e) => Err(explain(&e, &target.label())),
    }
}
