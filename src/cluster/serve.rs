//! The program: JSON-RPC on standard input and output, with concurrent calls.

use std::{
    collections::HashSet,
    io,
    path::PathBuf,
    sync::{Arc, LazyLock, OnceLock},
};

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    sync::mpsc,
};

use super::{
    access,
    api::{Cluster, Error, Result, Settings, nearest, usual_namespace},
    call::{Call, Done},
    compare, config, helm, namespace, object, pod, wait,
};
use crate::kubernetes::{PROTOCOL, manifest, operation};

const INVALID_REQUEST: i32 = -32600;
const PARSE_ERROR: i32 = -32700;
const NO_METHOD: i32 = -32601;
const BAD_PARAMS: i32 = -32602;
const BROKEN: i32 = -32603;

/// Serves until its input ends or it is asked to shut down. Returns the exit status.
pub fn run() -> u8 {
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(e) => {
            eprintln!("no threads: {e}");
            return 1;
        }
    };
    let status = runtime.block_on(serve());
    runtime.shutdown_background();
    match status {
        Ok(()) => 0,
        Err(e) => {
            eprintln!("{e}");
            1
        }
    }
}

#[derive(Deserialize)]
struct Request {
    #[serde(default)]
    id: Option<Value>,
    #[serde(default)]
    method: Option<String>,
    #[serde(default)]
    params: Value,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Initialize {
    protocol_version: String,
    #[serde(default)]
    config: Option<Settings>,
}

#[derive(Deserialize)]
struct Execute {
    operation: String,
    #[serde(default)]
    args: Value,
    #[serde(default)]
    context: Context,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Context {
    #[serde(default)]
    workdir: PathBuf,
    /// Other runners omit it.
    #[serde(default)]
    run_id: Option<Arc<str>>,
}

async fn serve() -> io::Result<()> {
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    let (answers, mut written) = mpsc::unbounded_channel::<Value>();
    let writer = tokio::spawn(async move {
        let mut out = tokio::io::stdout();
        while let Some(answer) = written.recv().await {
            out.write_all(format!("{answer}\n").as_bytes()).await?;
            out.flush().await?;
        }
        io::Result::Ok(())
    });
    let cluster: OnceLock<Arc<Cluster>> = OnceLock::new();
    // If the run has no name, what is generated belongs to this process.
    let own: Arc<str> = format!("{:016x}", crate::random::number()).into();
    while let Some(line) = lines.next_line().await? {
        if line.trim().is_empty() {
            continue;
        }
        let send = |answer: Value| drop(answers.send(answer));
        let request: Request = match serde_json::from_str(&line) {
            Ok(request) => request,
            Err(e) => {
                send(refusal(&Value::Null, PARSE_ERROR, &e.to_string()));
                continue;
            }
        };
        let Some(id) = request.id else { continue };
        match request.method.as_deref() {
            None => send(refusal(&id, INVALID_REQUEST, "no method")),
            Some("initialize") => send(match initialize(request.params) {
                Ok(settings) => {
                    let _ = cluster.set(Arc::new(Cluster::new(settings)));
                    json!({"jsonrpc": "2.0", "id": id, "result": manifest()})
                }
                Err(why) => refusal(&id, BAD_PARAMS, &why),
            }),
            Some("execute") => {
                let execute: Execute = match serde_json::from_value(request.params) {
                    Ok(execute) => execute,
                    Err(e) => {
                        send(refusal(&id, BAD_PARAMS, &e.to_string()));
                        continue;
                    }
                };
                let cluster = cluster.get_or_init(|| Arc::new(Cluster::new(Settings::default())));
                let call = Call {
                    cluster: Arc::clone(cluster),
                    folder: execute.context.workdir,
                    run_id: execute.context.run_id.filter(|id| !id.is_empty()).unwrap_or_else(|| Arc::clone(&own)),
                };
                let answers = answers.clone();
                tokio::spawn(async move {
                    let result = operate(&call, &execute.operation, execute.args).await;
                    // A failed send means that nothing waits for the answer any more.
                    let _ = answers.send(answer(&id, result));
                });
            }
            Some("shutdown") => {
                send(json!({"jsonrpc": "2.0", "id": id, "result": {}}));
                break;
            }
            Some(other) => send(refusal(&id, NO_METHOD, &format!("no method `{other}`"))),
        }
    }
    drop(answers);
    // Running calls keep the channel open; they end with the process.
    match tokio::time::timeout(std::time::Duration::from_millis(200), writer).await {
        Ok(written) => written.map_err(io::Error::other)?,
        Err(_) => Ok(()),
    }
}

fn initialize(params: Value) -> std::result::Result<Settings, String> {
    let params: Initialize = serde_json::from_value(params).map_err(|e| e.to_string())?;
    if params.protocol_version != PROTOCOL {
        return Err(format!("protocol `{}` is not spoken here, but {PROTOCOL}", params.protocol_version));
    }
    Ok(params.config.unwrap_or_default())
}

fn refusal(id: &Value, code: i32, message: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
}

fn answer(id: &Value, result: Result<Done>) -> Value {
    let result = match result {
        Ok(done) => json!({"success": true, "message": done.message, "outputs": done.outputs}),
        Err(Error::Failed(why) | Error::NoKind { why, .. }) => json!({"success": false, "error": why}),
        Err(Error::Broken(why)) => return refusal(id, BROKEN, &why),
    };
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

fn read<A: DeserializeOwned>(args: Value) -> Result<A> {
    let args = if args.is_null() { json!({}) } else { args };
    serde_json::from_value(args).map_err(|e| Error::Broken(format!("bad arguments: {e}")))
}

/// Whether an operation works in one namespace, which may be omitted.
fn has_usual_namespace(name: &str) -> bool {
    static NAMES: LazyLock<HashSet<&str>> = LazyLock::new(|| {
        let usual = |o: &&operation::Operation| (o.params)().pointer("/properties/namespace/default").is_some();
        operation::OPERATIONS.iter().filter(usual).map(|o| o.name).collect()
    });
    NAMES.contains(name)
}

async fn operate(call: &Call, name: &str, args: Value) -> Result<Done> {
    let mut args = args;
    if let Some(args) = args.as_object_mut().filter(|args| !args.contains_key("namespace"))
        && has_usual_namespace(name)
    {
        args.insert("namespace".to_owned(), usual_namespace().into());
    }
    match name {
        "apply" => object::apply(call, read(args)?).await,
        "create" => object::create(call, args).await,
        "delete" => object::delete(call, read(args)?).await,
        "get" => object::get(call, read(args)?).await,
        "patch" => object::patch(call, read(args)?).await,
        "scale" => object::scale(call, read(args)?).await,
        "restart" => object::restart(call, read(args)?).await,
        "annotate" => object::annotate(call, read(args)?).await,
        "label" => object::label(call, read(args)?).await,
        "resource-exists" => object::exists(call, read(args)?).await,
        "resource-absent" => object::absent(call, read(args)?).await,
        "resource-matches" => compare::matches(call, read(args)?).await,
        "field-equals" => compare::field_equals(call, read(args)?).await,
        "count" => compare::count(call, read(args)?).await,
        "wait" => wait::wait(call, read(args)?).await,
        "condition" => wait::condition(call, read(args)?).await,
        "condition-stable" => wait::stable(call, read(args)?).await,
        "rollout" => wait::rollout(call, read(args)?).await,
        "exec" => pod::exec(call, read(args)?).await,
        "logs" => pod::logs(call, read(args)?).await,
        "create-namespace" => namespace::create(call, read(args)?).await,
        "delete-namespace" => namespace::delete(call, read(args)?).await,
        "createNamespace" => namespace::generate(call, read(args)?).await,
        "deleteGeneratedNamespaces" => namespace::delete_generated(call, read(args)?).await,
        "can-i" => access::can_i(call, read(args)?).await,
        "authCanI" => access::auth_can_i(call, read(args)?).await,
        "listContexts" => config::contexts(call, read(args)?),
        "getCurrentContext" => config::current(call, read(args)?),
        "viewConfig" => config::view(call, read(args)?),
        "helmInstall" => helm::install(call, read(args)?).await,
        "helmList" => helm::list(call, read(args)?).await,
        "helmUninstall" => helm::uninstall(call, read(args)?).await,
        other => {
            let near = nearest(other, operation::OPERATIONS.iter().map(|o| o.name));
            let near = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
            Err(Error::Failed(format!("no operation `{other}`{near}")))
        }
    }
}
