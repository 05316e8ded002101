//! Releases, through the `helm` command.

use std::process::Stdio;

use serde_json::Value;
use tokio::{io::AsyncWriteExt, process::Command};

use super::{
    api::{Error, Result, failed},
    call::{Call, Done},
};
use crate::kubernetes::operation::{HelmInstall, HelmList, HelmUninstall};

/// Runs `helm`; the inner error is what it printed.
async fn helm(call: &Call, args: &[&str], input: Option<&str>) -> Result<std::result::Result<String, String>> {
    let mut command = Command::new("helm");
    command.args(args).current_dir(if call.folder.as_os_str().is_empty() {
        ".".as_ref()
    } else {
        call.folder.as_path()
    });
    if let Some(path) = call.cluster.settings.path() {
        command.arg("--kubeconfig").arg(path);
    }
    if let Some(context) = &call.cluster.settings.context {
        command.args(["--kube-context", context]);
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let broken = |e: std::io::Error| match e.kind() {
        std::io::ErrorKind::NotFound => Error::Broken("`helm` is not on the PATH".to_owned()),
        _ => Error::Broken(format!("`helm`: {e}")),
    };
    let mut child = command.spawn().map_err(broken)?;
    if let Some(mut stdin) = child.stdin.take() {
        // If it does not read its input, it fails for another reason.
        let _ = stdin.write_all(input.unwrap_or_default().as_bytes()).await;
    }
    let output = child.wait_with_output().await.map_err(broken)?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    Ok(if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) })
}

fn json(text: &str) -> Result<Value> {
    serde_json::from_str(text).map_err(|e| Error::Broken(format!("`helm` did not answer with JSON: {e}")))
}

/// `helmInstall`.
pub async fn install(call: &Call, args: HelmInstall) -> Result<Done> {
    let values = serde_json::to_string(&args.values).map_err(|e| Error::Broken(e.to_string()))?;
    let mut words = vec!["install"];
    match &args.name {
        Some(name) => words.push(name),
        None => words.push("--generate-name"),
    }
    words.extend([args.chart.as_str(), "--namespace", &args.namespace, "--values", "-", "--output", "json"]);
    match helm(call, &words, Some(&values)).await? {
        Ok(text) => {
            let release = json(&text)?;
            let name = release["name"].as_str().unwrap_or_default().to_owned();
            Ok(Done::said(format!("installed `{name}`")).with("name", name).with("namespace", args.namespace))
        }
        Err(why) => failed(format!("`{}` was not installed: {why}", args.chart)),
    }
}

/// `helmList`.
pub async fn list(call: &Call, args: HelmList) -> Result<Done> {
    let place = if args.all_namespaces { vec!["--all-namespaces"] } else { vec!["--namespace", &args.namespace] };
    match helm(call, &[vec!["list", "--output", "json"], place].concat(), None).await? {
        Ok(text) => {
            let releases = json(&text)?;
            let count = releases.as_array().map_or(0, Vec::len);
            Ok(Done::said(format!("{count} releases")).with("releases", releases).with("count", count))
        }
        Err(why) => failed(why),
    }
}

/// `helmUninstall`.
pub async fn uninstall(call: &Call, args: HelmUninstall) -> Result<Done> {
    match helm(call, &["uninstall", &args.name, "--namespace", &args.namespace], None).await? {
        Ok(_) => Ok(Done::said(format!("uninstalled `{}`", args.name))),
        Err(why) if why.contains("not found") => Ok(Done::said(format!("there is no release `{}`", args.name))),
        Err(why) => failed(format!("`{}` was not uninstalled: {why}", args.name)),
    }
}
