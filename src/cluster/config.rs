//! The kubeconfig.

use serde_json::Value;

use super::{
    api::{Error, Result, failed},
    call::{Call, Done},
};
use crate::{
    kubernetes::operation::{Nothing, ViewConfig},
    secrets::is_secret_name,
};

/// Keys of a kubeconfig that contain credentials.
const SECRET: [&str; 4] = ["token", "password", "client-key-data", "auth-provider"];

/// `listContexts`.
pub fn contexts(call: &Call, _: Nothing) -> Result<Done> {
    let config = call.cluster.settings.kubeconfig()?;
    if config.contexts.is_empty() {
        return failed("the kubeconfig has no contexts");
    }
    let names: Vec<_> = config.contexts.iter().map(|context| context.name.as_str()).collect();
    Ok(Done::said(names.join("\n"))
        .with("current", config.current_context.unwrap_or_default())
        .with("count", names.len().to_string()))
}

/// `getCurrentContext`.
pub fn current(call: &Call, _: Nothing) -> Result<Done> {
    match call.cluster.settings.kubeconfig()?.current_context.filter(|name| !name.is_empty()) {
        Some(name) => Ok(Done::said(name.clone()).with("context", name)),
        None => failed("the kubeconfig has no current context"),
    }
}

/// `viewConfig`.
pub fn view(call: &Call, args: ViewConfig) -> Result<Done> {
    let mut config = call.cluster.settings.kubeconfig()?;
    if args.minify {
        let Some(current) = config.current_context.clone() else {
            return failed("the kubeconfig has no current context");
        };
        config.contexts.retain(|context| context.name == current);
        let Some(context) = config.contexts.first().and_then(|context| context.context.clone()) else {
            return failed(format!("the kubeconfig has no context `{current}`"));
        };
        config.clusters.retain(|cluster| cluster.name == context.cluster);
        if config.clusters.is_empty() {
            return failed(format!("the kubeconfig has no cluster `{}`", context.cluster));
        }
        config.auth_infos.retain(|user| context.user.as_ref() == Some(&user.name));
    }
    let mut shown = serde_json::to_value(&config).map_err(|e| Error::Broken(e.to_string()))?;
    redact(&mut shown);
    let text = crate::yaml::write(&shown).map_err(Error::Broken)?;
    Ok(Done::said("the kubeconfig").with("config", text))
}

fn redact(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, value| !value.is_null());
            for (key, value) in map {
                if SECRET.contains(&key.as_str()) {
                    *value = Value::from("REDACTED");
                } else if key == "exec" {
                    plugin(value);
                } else if key.ends_with("-data") {
                    *value = Value::from("DATA+OMITTED");
                } else {
                    redact(value);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(redact),
        _ => {}
    }
}

/// Redacts a credential plugin: the values of its variables, and of options whose names suggest a secret.
fn plugin(exec: &mut Value) {
    if let Value::Object(fields) = exec {
        fields.retain(|_, value| !value.is_null());
    }
    for variable in exec.get_mut("env").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(value) = variable.get_mut("value") {
            *value = Value::from("REDACTED");
        }
    }
    let mut is_next = false;
    for arg in exec.get_mut("args").and_then(Value::as_array_mut).into_iter().flatten() {
        let text = arg.as_str().unwrap_or_default().to_owned();
        let is_secret = |option: &str| option.starts_with('-') && is_secret_name(option.trim_start_matches('-'));
        match text.split_once('=') {
            _ if std::mem::take(&mut is_next) => *arg = Value::from("REDACTED"),
            Some((option, _)) if is_secret(option) => *arg = Value::from(format!("{option}=REDACTED")),
            None => is_next = is_secret(&text),
            Some(_) => {}
        }
    }
}
