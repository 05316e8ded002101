//! `builtin:kubernetes` in a world of shims: each operation asks the world like the kubectl command that it corresponds to.

use std::io::{BufRead, Write};

use serde_json::{Map, Value, json};

use super::{
    kubectl::{consistent, said},
    shim,
    trace::record,
    world::{WORLD, World},
};
use crate::kubernetes::{ARGUMENT, manifest, operation};

/// Whether this process is to serve the extension in a jail.
pub fn is_asked() -> bool {
    std::env::args().nth(1).as_deref() == Some(ARGUMENT) && std::path::Path::new(WORLD).exists()
}

/// Serves the protocol of extensions until its input ends.
pub fn serve() -> u8 {
    let mut out = std::io::stdout();
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let Ok(request) = serde_json::from_str::<Value>(&line) else { continue };
        let result = match request["method"].as_str() {
            Some("initialize") => serde_json::to_value(manifest()).unwrap_or_default(),
            Some("execute") => {
                let name = request["params"]["operation"].as_str().unwrap_or_default();
                done(name, &request["params"]["args"])
            }
            _ => json!({}),
        };
        let answer = json!({"jsonrpc": "2.0", "id": request["id"], "result": result});
        let _ = writeln!(out, "{answer}").and_then(|()| out.flush());
        if request["method"] == "shutdown" {
            break;
        }
    }
    0
}

fn done(name: &str, args: &Value) -> Value {
    let refused = |why: String| json!({"success": false, "error": why});
    let Some(call) = said(name, args) else { return refused(format!("unknown operation `{name}`")) };
    let Some(world) = World::read() else { return refused("the world cannot be read".to_owned()) };
    let cwd = std::env::current_dir().unwrap_or_default();
    let Some(call) = shim::asked(&world, call, &cwd, None) else { return refused("the call has no input".to_owned()) };
    let answer = consistent(&call, world.answer(&call, record(&call)));
    let printed = answer.stdout.trim_end_matches('\n').to_owned();
    let passes = match name {
        "resource-absent" => answer.status == 1,
        "can-i" => (answer.status == 0) == args.get("allowed").and_then(Value::as_bool).unwrap_or(true),
        "exec" => true,
        "get" if args.get("jsonpath").is_some() => {
            let optional = args.get("optional").and_then(Value::as_bool) == Some(true);
            answer.status == 0 && (optional || !printed.is_empty())
        }
        _ => answer.status == 0,
    };
    if !passes {
        return refused(format!("status {}: {printed}{}", answer.status, answer.stderr));
    }
    let declared = operation::find(name).map_or(&[][..], |operation| operation.outputs);
    let outputs: Map<String, Value> = declared
        .iter()
        .map(|(output, kind, _)| {
            let value = match (*output, *kind) {
                ("text" | "value", _) => json!(printed),
                ("stdout", _) => json!(answer.stdout),
                ("stderr", _) => json!(answer.stderr),
                ("exitCode", _) => json!(answer.status),
                ("allowed", _) => json!(answer.status == 0),
                (_, "array") => json!([]),
                (_, "object") => json!({}),
                (_, "integer") => json!(0),
                _ => json!(""),
            };
            ((*output).to_owned(), value)
        })
        .collect();
    json!({"success": true, "message": "", "outputs": outputs})
}
