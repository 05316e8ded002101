//! Extensions at run time: programs that run operations of steps, in one of two protocols (`portable-format.md`, extensions; §7 of
//! the upstream behaviour).
//!
//! Each run of a task has its own processes, which start when the first step needs them and end after the last cleanup.

mod conformance;
mod jail;
mod oneshot;
mod session;

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use indexmap::IndexMap;
use serde_json::{Map, Value};
use tokio::sync::Mutex;

use crate::{
    fetch::{Cache, installed},
    hir::{KubeWorld, Sandbox},
    host::Host,
    kubernetes,
    lock::LockedExtension,
    package::{Package, bundled, package},
    plan,
    sandbox::docker::Container,
};
pub use conformance::conformance;
pub use jail::usable;
use jail::{Jail, Jailed};
use oneshot::OneShot;
use session::Session;

/// The timeout for the handshake of a program.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// The input of an operation.
#[derive(Clone, Debug)]
pub struct Call<'a> {
    /// The name in the manifest.
    pub operation: &'a str,
    /// An object.
    pub args: Value,
    /// `setup`, `verify` or `cleanup`.
    pub phase: &'static str,
    /// The id of the run of the task.
    pub run_id: &'a str,
    /// The directory of the task.
    pub workdir: &'a Path,
    /// `spec.env`.
    pub env: &'a [(String, String)],
    /// The prompt and the answer, after the agent has finished.
    pub agent: Option<(&'a str, &'a str)>,
    /// The timeout of this call.
    pub timeout: Duration,
}

/// The result of an operation.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// Whether the operation or the check succeeded.
    pub success: bool,
    /// The reason, or what was done.
    pub message: String,
    /// The outputs by name.
    pub outputs: Map<String, Value>,
    /// The lines logged during the call.
    pub log: Vec<String>,
}

/// The extensions of one run of a task.
pub struct Extensions<'a> {
    host: &'a dyn Host,
    planned: &'a plan::Extensions,
    /// The path of the gevals executable.
    executable: Option<PathBuf>,
    /// Called with the process group of each program that is started.
    started: Option<Started>,
    running: Mutex<IndexMap<String, Slot>>,
}

/// A callback that gets the id of a process group.
pub type Started = Arc<dyn Fn(u32) + Send + Sync>;

/// The program running under a name, if any.
type Slot = Arc<Mutex<Option<Arc<Program>>>>;

enum Program {
    /// The session, and what must live as long as it: its jail has a directory for its temporary files.
    Session(Session, #[expect(dead_code, reason = "it is dropped")] Option<(Jail, Option<Container>)>),
    OneShot(OneShot),
}

impl<'a> Extensions<'a> {
    /// Creates the extensions without starting any.
    pub fn new(host: &'a dyn Host, planned: &'a plan::Extensions, executable: Option<PathBuf>) -> Self {
        Self { host, planned, executable, started: None, running: Mutex::default() }
    }

    /// Sets the callback for started programs, so that a journal can end those that outlive gevals.
    pub fn heard_by(self, started: Option<Started>) -> Self {
        Self { started, ..self }
    }

    /// Runs an operation of an extension. `name` is the name that tasks use: an alias of the eval, or a package. A program that has
    /// died is started again, so that a crash does not prevent cleanup.
    ///
    /// # Errors
    /// The reason why the operation has no result.
    pub async fn execute(&self, name: &str, folder: &Path, call: &Call<'_>) -> Result<Answer, String> {
        let _outside = self.host.outside();
        let slot = Arc::clone(self.running.lock().await.entry(name.to_owned()).or_default());
        let program = {
            let mut slot = slot.lock().await;
            match &*slot {
                Some(program) if !program.is_dead() => Arc::clone(program),
                _ => Arc::clone(slot.insert(Arc::new(self.start(name, folder, call).await?))),
            }
        };
        match &*program {
            Program::Session(session, _) => session.execute(call).await,
            Program::OneShot(program) => program.execute(call, self.started.as_ref()).await,
        }
    }

    /// The manifest of an extension: from its `extension.yaml`, otherwise from the program's answer to `initialize`.
    ///
    /// # Errors
    /// The reason why it cannot be determined.
    #[expect(clippy::disallowed_methods, reason = "a manifest is read where its program is")]
    pub async fn describe(&self, name: &str, folder: &Path) -> Result<LockedExtension, String> {
        let reference = self.planned.reference(name);
        let said = |why: String| format!("`{reference}` {why}");
        if let Some(bundled) = bundled(reference, self.planned.substitute) {
            return Ok(bundled.clone());
        }
        let path = located(self.planned, name, folder).map_err(said)?;
        let manifest = manifest_path(&path);
        if let Ok(text) = std::fs::read_to_string(&manifest) {
            let locked = LockedExtension::from_manifest(&text);
            return locked.map_err(|e| format!("cannot read the manifest `{}`: {e}", manifest.display()));
        }
        let here = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        let workdir = std::path::absolute(here).unwrap_or_else(|_| here.to_owned());
        let call = Call {
            operation: "",
            args: Value::Null,
            phase: "setup",
            run_id: "",
            workdir: &workdir,
            env: &[],
            agent: None,
            timeout: HANDSHAKE,
        };
        match self.start(name, folder, &call).await? {
            Program::Session(session, _) => {
                session.close().await;
                let said = |e| format!("the manifest that `{reference}` answers to `initialize`: {e}");
                LockedExtension::from_protocol(&session.manifest).map_err(said)
            }
            Program::OneShot(_) => Err(format!("`{reference}` has no manifest")),
        }
    }

    async fn start(&self, name: &str, folder: &Path, call: &Call<'_>) -> Result<Program, String> {
        let declared = self.planned.get(name);
        let reference = self.planned.reference(name);
        let lookup = |name: &str| self.host.env(name);
        // Variables that the eval sets for the extension override those of the task (`decisions.md` §3).
        let mut env: IndexMap<String, String> = self.host.given().iter().chain(call.env).cloned().collect();
        for (key, value) in declared.into_iter().flat_map(|declared| &declared.env) {
            env.insert(key.clone(), expanded(value, &lookup).map_err(|why| format!("`{key}` of `{name}`: {why}"))?);
        }
        let config = declared.map_or(Ok(Value::Null), |declared| config(&declared.config, &lookup));
        let mut config = config.map_err(|why| format!("`config` of `{name}`: {why}"))?;
        // The cluster of the run (`world: kube`) overrides both.
        let cluster = self.host.given().iter().find(|(key, _)| key == KubeWorld::KUBECONFIG);
        env.extend(cluster.cloned());
        let found = program(self.planned, name, folder, self.executable.as_deref());
        let found = found.map_err(|why| format!("`{reference}` {why}"))?;
        let jail = match (self.planned.sandbox, &found) {
            (Sandbox::None, _) | (_, Found::Bundled { .. }) => None,
            (sandbox, Found::Session(program) | Found::OneShot(program)) => {
                let program = (program.as_path(), self.executable.as_deref());
                let jail = Jail::new(sandbox, program, declared, &lookup, &mut env);
                Some(jail.map_err(|why| format!("`{reference}` {why}"))?)
            }
        };
        let Jailed { program, args, container } = match found {
            Found::OneShot(program) => {
                return Ok(Program::OneShot(OneShot { name: name.to_owned(), program, env, config, jail }));
            }
            Found::Bundled { program, args } => {
                if let Some(config) = config.as_object_mut().filter(|_| cluster.is_some()) {
                    kubernetes::CLUSTER.iter().for_each(|key| drop(config.remove(*key)));
                }
                Jailed { program, args, container: None }
            }
            Found::Session(program) => match &jail {
                Some(jail) => jail.command(&program, call.workdir, None, &env),
                None => Jailed { program, args: Vec::new(), container: None },
            },
        };
        let inherited = jail.is_none();
        let start =
            Session::start(name, (program, args), (&env, inherited), call.workdir, config, self.started.as_ref());
        match tokio::time::timeout(HANDSHAKE, start).await {
            Ok(session) => session.map(|session| Program::Session(session, jail.map(|jail| (jail, container)))),
            Err(_) => Err(format!(
                "the extension `{name}` did not say who it is within {} s, and has no extension.yaml: it speaks neither protocol",
                HANDSHAKE.as_secs()
            )),
        }
    }

    /// Ends all running programs.
    pub async fn close(&self) {
        let all = std::mem::take(&mut *self.running.lock().await);
        for slot in all.into_values() {
            if let Some(Program::Session(session, _)) = slot.lock().await.take().as_deref() {
                session.close().await;
            }
        }
    }
}

impl Program {
    /// Whether it can no longer answer calls.
    fn is_dead(&self) -> bool {
        matches!(self, Self::Session(session, _) if session.is_dead())
    }
}

enum Found {
    /// A program bundled with gevals.
    Bundled {
        program: PathBuf,
        args: Vec<OsString>,
    },
    Session(PathBuf),
    OneShot(PathBuf),
}

/// The reason why an extension cannot be started on this machine, as far as that can be checked without starting it.
///
/// # Errors
/// The reason, as a predicate of the reference.
pub fn startable(
    extensions: &plan::Extensions,
    name: &str,
    folder: &Path,
    executable: Option<&Path>,
) -> Result<(), String> {
    program(extensions, name, folder, executable).map(drop)
}

#[expect(clippy::disallowed_methods, reason = "programs are looked for where they will be started")]
fn program(planned: &plan::Extensions, name: &str, folder: &Path, executable: Option<&Path>) -> Result<Found, String> {
    if let Package::Bundled(name) = package(planned.reference(name), planned.substitute)? {
        let argument = match name {
            kubernetes::NAME if cfg!(feature = "kubernetes") => kubernetes::ARGUMENT,
            _ => return Err(format!("means `builtin:{name}`, which this build does not have")),
        };
        let program = executable.ok_or("means a part of this program, which does not find itself")?;
        return Ok(Found::Bundled { program: program.to_owned(), args: vec![argument.into()] });
    }
    let path = located(planned, name, folder)?;
    let folder = path.is_dir();
    let manifest = std::fs::read_to_string(manifest_path(&path)).ok();
    let program = match (&manifest, folder) {
        (_, false) => path,
        (None, true) => return Err(format!("is a folder without an extension.yaml: {}", path.display())),
        (Some(text), true) => in_folder(&path, text)?,
    };
    is_executable(&program)?;
    // It is started in the task's directory, where a relative path would be wrong.
    let program = std::path::absolute(&program).map_err(|e| format!("has no path: {e}"))?;
    Ok(match manifest {
        Some(_) => Found::OneShot(program),
        None => Found::Session(program),
    })
}

/// The place of a package on this machine: its program, or the directory of the program.
#[expect(clippy::disallowed_methods, reason = "programs are looked for where they will be started")]
fn located(planned: &plan::Extensions, name: &str, folder: &Path) -> Result<PathBuf, String> {
    let reference = planned.reference(name);
    let base = planned.get(name).map_or(folder, |declared| &declared.dir);
    let path = match package(reference, planned.substitute)? {
        Package::Bundled(name) => return Err(format!("is a part of gevals, `builtin:{name}`")),
        Package::Release { owner, repo, .. } => {
            let pinned = planned.releases.get(reference).ok_or("is a release that no lock pins: `gevals lock EVAL`")?;
            installed(&Cache::new(planned.cache.as_deref())?, &owner, &repo, pinned)?
        }
        Package::Local(path) => match (path.strip_prefix("~/"), std::env::home_dir()) {
            (Some(rest), Some(home)) => home.join(rest),
            _ => base.join(path),
        },
    };
    std::fs::metadata(&path).map_err(|e| format!("is not there: {}: {e}", path.display()))?;
    Ok(path)
}

/// The path of the manifest for a program or a directory.
#[expect(clippy::disallowed_methods, reason = "programs are looked for where they will be started")]
fn manifest_path(path: &Path) -> PathBuf {
    let folder = if path.is_dir() { path } else { path.parent().unwrap_or(Path::new(".")) };
    folder.join("extension.yaml")
}

/// The program in a directory: `NAME-OS-ARCH`, as in releases, or `NAME`.
#[expect(clippy::disallowed_methods, reason = "programs are looked for where they will be started")]
fn in_folder(folder: &Path, manifest: &str) -> Result<PathBuf, String> {
    let manifest: Value =
        serde_yaml::from_str(manifest).map_err(|e| format!("has an extension.yaml that is none: {e}"))?;
    let Some(name) = manifest.get("name").and_then(Value::as_str) else {
        return Err("has an extension.yaml without a `name`".to_owned());
    };
    let arch = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    // The name used by Go and in the releases of extensions.
    let os = if cfg!(target_os = "macos") { "darwin" } else { std::env::consts::OS };
    let names = [format!("{name}-{os}-{arch}"), name.to_owned()];
    let found = names.iter().map(|name| folder.join(name)).find(|path| path.is_file());
    found.ok_or_else(|| format!("has no program: neither `{}` nor `{}` is in {}", names[0], names[1], folder.display()))
}

#[expect(clippy::disallowed_methods, reason = "programs are looked for where they will be started")]
fn is_executable(program: &Path) -> Result<(), String> {
    use std::os::unix::fs::PermissionsExt;
    let mode = std::fs::metadata(program).map_or(0, |meta| meta.permissions().mode());
    match mode & 0o111 {
        0 => Err(format!("is no program: {} is not executable (`chmod +x`)", program.display())),
        _ => Ok(()),
    }
}

/// A text with `${NAME}` and `{env.NAME}` filled in (§7.1 of the upstream behaviour).
fn expanded(text: &str, lookup: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['{', '}']) {
        let (before, hole) = rest.split_at(at);
        let name = hole.strip_prefix('{').and_then(|inner| inner.split_once('}')).map(|(name, _)| name);
        let Some(inner) = name else { return Err(format!("`{text}` has a brace that is no hole")) };
        rest = &hole[inner.len() + 2..];
        let name = match (before.strip_suffix('$'), inner.strip_prefix("env.")) {
            (Some(before), _) => {
                out += before;
                inner
            }
            (None, Some(name)) => {
                out += before;
                name
            }
            (None, None) => return Err(format!("`{{{inner}}}` is no hole here: write `${{{inner}}}`")),
        };
        out += &lookup(name).ok_or_else(|| format!("the environment variable `{name}` is not set"))?;
    }
    Ok(out + rest)
}

fn config(value: &Value, lookup: &dyn Fn(&str) -> Option<String>) -> Result<Value, String> {
    Ok(match value {
        Value::String(text) => Value::String(expanded(text, lookup)?),
        Value::Array(items) => items.iter().map(|item| config(item, lookup)).collect::<Result<_, _>>()?,
        Value::Object(fields) => {
            let filled = fields.iter().map(|(key, value)| Ok((key.clone(), config(value, lookup)?)));
            Value::Object(filled.collect::<Result<_, String>>()?)
        }
        other => other.clone(),
    })
}

/// Reads the result of an operation, in either protocol.
fn answer(name: &str, value: Value, log: Vec<String>) -> Result<Answer, String> {
    let Value::Object(mut fields) = value else {
        return Err(format!("`{name}` answered with {value}, which is no result"));
    };
    let Some(success) = fields.get("success").and_then(Value::as_bool) else {
        return Err(format!("`{name}` answered without a `success` that is true or false"));
    };
    let outputs = match fields.remove("outputs") {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(outputs)) => outputs,
        Some(other) => return Err(format!("`{name}` answered with `outputs: {other}`, which is no record")),
    };
    let text = |key: &str| fields.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    let message = if success { text("message") } else { text("error").or_else(|| text("message")) };
    Ok(Answer { success, message: message.unwrap_or_default().to_owned(), outputs, log })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_filled() {
        let lookup = |name: &str| (name == "HOME").then(|| "/home/me".to_owned());
        assert_eq!(expanded("${HOME}/a{env.HOME}$", &lookup).unwrap(), "/home/me/a/home/me$");
        for wrong in ["{HOME}", "${OTHER}", "a}", "{"] {
            assert!(expanded(wrong, &lookup).is_err(), "{wrong}");
        }
    }
}
