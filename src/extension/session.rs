//! A session with an extension: one type, two forms on the wire.

use std::time::Duration;

use super::{Answer, Call, Fault, Place, Program, one_shot, rpc};
use crate::{
    diagnostic::nearest,
    host::{Exec, Host},
    lock::{Manifest, Protocol},
};

/// How long a program may take to answer `initialize`.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// A program that is ready to be called.
pub struct Session {
    name: String,
    manifest: Manifest,
    wire: Wire,
}

enum Wire {
    JsonRpc(rpc::Connection),
    OneShot(Program),
}

impl Session {
    /// Starts a program, in the protocol that its manifest names; where it names none, the one that it speaks.
    ///
    /// # Errors
    /// Why it is no extension, as a predicate of it.
    pub async fn start(host: &dyn Host, program: Program, place: &Place) -> Result<Self, String> {
        let name = program.name.clone();
        let protocol = program.manifest.as_ref().and_then(|manifest| manifest.protocol);
        let (wire, manifest) = match (protocol, program.manifest.clone()) {
            (Some(Protocol::OneShot), Some(manifest)) => (Wire::OneShot(program), manifest),
            (_, written) => {
                let started = rpc::Connection::start(host, exec(&program, place), &program.config, HANDSHAKE).await;
                match (started, written) {
                    (Ok((connection, said)), written) => {
                        let manifest = Manifest::of_initialize(&said);
                        let manifest = manifest.map_err(|why| format!("its manifest is none: {why}"));
                        match (manifest, written) {
                            (Ok(said), Some(written)) => (Wire::JsonRpc(connection), said.with(written)),
                            (Ok(said), None) => (Wire::JsonRpc(connection), said),
                            (Err(why), _) => {
                                connection.end().await;
                                return Err(why);
                            }
                        }
                    }
                    // Without a word in its manifest, what does not answer speaks the format's own protocol.
                    (Err(_), Some(manifest)) if protocol.is_none() => (Wire::OneShot(program), manifest),
                    (Err(why), None) => {
                        return Err(format!(
                            "{why}; and without an `{}` it has no other protocol",
                            Manifest::FILE_NAME
                        ));
                    }
                    (Err(why), Some(_)) => return Err(why),
                }
            }
        };
        Ok(Self { name, manifest, wire })
    }

    /// What it can do.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The protocol it speaks.
    pub fn protocol(&self) -> Protocol {
        match self.wire {
            Wire::JsonRpc(_) => Protocol::JsonRpc,
            Wire::OneShot(_) => Protocol::OneShot,
        }
    }

    /// Calls an operation.
    ///
    /// # Errors
    /// The operation or its arguments are not what the manifest says, the program is lost, or it breaks the protocol.
    pub async fn call(&self, host: &dyn Host, place: &Place, call: Call<'_>) -> Result<Answer, Fault> {
        let Some(operation) = self.manifest.operations.get(call.operation) else {
            let known = self.manifest.operations.keys().map(String::as_str);
            let near = match nearest(call.operation, known.clone()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("it has {}", known.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")),
            };
            let why = format!("not called: `{}` has no operation `{}`: {near}", self.name, call.operation);
            return Err(Fault::new(why));
        };
        let faults = operation.input_schema.faults(&call.args.clone().into(), &[]);
        if !faults.is_empty() {
            let faults: Vec<_> = faults.iter().take(3).map(ToString::to_string).collect();
            let why = format!("not called: the arguments do not fit `{}`: {}", call.operation, faults.join("; "));
            return Err(Fault::new(why));
        }
        match &self.wire {
            Wire::JsonRpc(connection) => connection.call(place, call).await,
            Wire::OneShot(program) => one_shot::call(host, program, operation, place, call).await,
        }
    }

    /// Whether it is of no more use: it was lost, or does not answer what it was asked.
    pub fn is_stale(&self) -> bool {
        matches!(&self.wire, Wire::JsonRpc(connection) if connection.is_stale())
    }

    /// Asks it to end, and sees to it.
    pub async fn close(&self) {
        if let Wire::JsonRpc(connection) = &self.wire {
            connection.close().await;
        }
    }

    /// Ends it at once.
    pub async fn end(&self) {
        if let Wire::JsonRpc(connection) = &self.wire {
            connection.end().await;
        }
    }
}

/// Its process: the task's variables, and over them its own.
pub(super) fn exec(program: &Program, place: &Place) -> Exec {
    let mut exec = Exec::new(&program.path, &place.dir).args(&program.args);
    let variables = place.env.iter().chain(&program.env);
    exec.env = variables.map(|(name, value)| (name.into(), value.into())).collect();
    exec
}
