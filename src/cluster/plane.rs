//! A disposable control plane on loopback: etcd, the API server and, if installed, the controller manager.
//!
//! There are no nodes: pods are created but never run, unless something plays the kubelet. One directory contains the
//! whole control plane, so that a stopped one starts again unchanged, at the same address and with the same
//! credentials.

use std::{
    fs,
    io::{self, Write},
    net::TcpListener,
    os::unix::{
        fs::{DirBuilderExt, OpenOptionsExt},
        process::CommandExt,
    },
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use base64::{Engine, prelude::BASE64_STANDARD};
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api,
    api::{DeleteParams, PostParams},
};
use ring::{rand::SystemRandom, signature};

use crate::host::listen::free_port;

/// The programs, in the order in which they start.
pub const PROGRAMS: [&str; 3] = ["etcd", "kube-apiserver", "kube-controller-manager"];

/// How long the API server, and then the controller manager, may take to become ready.
const READY: Duration = Duration::from_secs(60);

/// How often a control plane is started if its programs exit.
const ATTEMPTS: u32 = 3;

/// The path of a program: in `KUBEBUILDER_ASSETS`, as for envtest; otherwise on the PATH.
pub fn program(name: &str) -> Option<PathBuf> {
    let assets = std::env::var_os("KUBEBUILDER_ASSETS").map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    assets.into_iter().chain(std::env::split_paths(&path)).map(|folder| folder.join(name)).find(|path| path.is_file())
}

/// The programs that are missing to start a control plane.
pub fn missing() -> Vec<&'static str> {
    PROGRAMS[..2].iter().copied().filter(|name| program(name).is_none()).collect()
}

/// Checks that a control plane can be started.
///
/// # Errors
/// Which programs are missing, and how to get them.
pub fn startable() -> Result<(), String> {
    let missing = missing();
    let (names, verb) = (missing.join("` and `"), if missing.len() == 1 { "is" } else { "are" });
    match missing.is_empty() {
        true => Ok(()),
        false => Err(format!(
            "`{names}` {verb} neither in KUBEBUILDER_ASSETS nor on the PATH: `setup-envtest use -p path` downloads them and prints the directory"
        )),
    }
}

/// Starts a control plane in a directory. Returns the path of its kubeconfig.
///
/// # Errors
/// What is missing, or what did not start; in that case nothing is left running.
pub fn up(folder: &Path) -> Result<PathBuf, String> {
    startable()?;
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .map_err(|e| format!("{}: {e}", folder.display()))?;
    let folder = fs::canonicalize(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    if let Some(name) = PROGRAMS.iter().find(|name| running(&folder, name).is_some()) {
        return Err(format!("`{name}` is already running in {}: `gevals kube down` stops it", folder.display()));
    }
    let mut left = ATTEMPTS;
    loop {
        left -= 1;
        let why = match start(&folder) {
            Ok(kubeconfig) => return Ok(kubeconfig),
            Err(why) => why,
        };
        let _ = down(&folder);
        match why {
            // Another process may have taken a port in the meantime.
            NotUp::Ended(_) if left > 0 => {}
            NotUp::Ended(why) | NotUp::Other(why) => return Err(why),
        }
    }
}

/// Why a control plane did not start.
enum NotUp {
    /// A program exited. Another attempt may succeed.
    Ended(String),
    Other(String),
}

impl From<String> for NotUp {
    fn from(why: String) -> Self {
        Self::Other(why)
    }
}

fn start(folder: &Path) -> Result<PathBuf, NotUp> {
    let at = |name: &str| folder.join(name).display().to_string();
    let io = |e: io::Error| format!("{}: {e}", folder.display());
    let (client, peer) = (free_port().map_err(io)?, free_port().map_err(io)?);
    let (api, token) = match earlier(folder) {
        Some((port, token)) if TcpListener::bind(("127.0.0.1", port)).is_ok() => (port, token),
        Some((_, token)) => (free_port().map_err(io)?, token),
        None => (free_port().map_err(io)?, token()?),
    };
    if !folder.join("sa.pub").exists() {
        key(folder)?;
    }
    write(folder, "tokens.csv", &format!("{token},admin,1,\"system:masters\"\n")).map_err(io)?;
    spawn(
        folder,
        "etcd",
        &[
            format!("--data-dir={}", at("etcd")),
            format!("--listen-client-urls=http://127.0.0.1:{client}"),
            format!("--advertise-client-urls=http://127.0.0.1:{client}"),
            format!("--listen-peer-urls=http://127.0.0.1:{peer}"),
            format!("--initial-advertise-peer-urls=http://127.0.0.1:{peer}"),
            format!("--initial-cluster=default=http://127.0.0.1:{peer}"),
            "--unsafe-no-fsync".to_owned(),
        ],
    )?;
    spawn(
        folder,
        "kube-apiserver",
        &[
            format!("--etcd-servers=http://127.0.0.1:{client}"),
            "--bind-address=127.0.0.1".to_owned(),
            "--advertise-address=127.0.0.1".to_owned(),
            format!("--secure-port={api}"),
            format!("--cert-dir={}", at("certs")),
            "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
            format!("--service-account-key-file={}", at("sa.pub")),
            format!("--service-account-signing-key-file={}", at("sa.key")),
            format!("--token-auth-file={}", at("tokens.csv")),
            "--authorization-mode=RBAC".to_owned(),
            "--service-cluster-ip-range=10.96.0.0/16".to_owned(),
            "--disable-admission-plugins=ServiceAccount".to_owned(),
            "--endpoint-reconciler-type=none".to_owned(),
            "--allow-privileged=true".to_owned(),
        ],
    )?;
    let kubeconfig = folder.join("kubeconfig");
    let text = format!(
        "apiVersion: v1\nkind: Config\n\
         clusters: [{{name: gevals, cluster: {{server: \"https://127.0.0.1:{api}\", insecure-skip-tls-verify: true}}}}]\n\
         users: [{{name: admin, user: {{token: {token}}}}}]\n\
         contexts: [{{name: gevals, context: {{cluster: gevals, user: admin, namespace: default}}}}]\n\
         current-context: gevals\n"
    );
    write(folder, "kubeconfig", &text).map_err(io)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|e| e.to_string())?;
    let config = runtime.block_on(config(&kubeconfig))?;
    runtime.block_on(answers(folder, config.clone(), "/readyz", &PROGRAMS[..2]))?;
    if let Some(path) = program(PROGRAMS[2]) {
        let manager = free_port().map_err(io)?;
        let mut words = vec![
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--authentication-kubeconfig={}", kubeconfig.display()),
            format!("--authorization-kubeconfig={}", kubeconfig.display()),
            format!("--service-account-private-key-file={}", at("sa.key")),
            "--use-service-account-credentials=false".to_owned(),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--secure-port={manager}"),
            format!("--cert-dir={}", at("manager-certs")),
            "--leader-elect=false".to_owned(),
        ];
        // Before 1.24 it also listens on a fixed port without TLS.
        words.extend(is_before_24(&path).then(|| "--port=0".to_owned()));
        spawn(folder, PROGRAMS[2], &words)?;
        // Without the controller manager, namespaces never terminate and deployments get no pods, without any error.
        let url = format!("https://127.0.0.1:{manager}").parse();
        let mut config = config;
        config.cluster_url = url.map_err(|e| format!("{e}"))?;
        runtime.block_on(answers(folder, config, "/healthz", &PROGRAMS))?;
    }
    Ok(kubeconfig)
}

/// Stops what [`up`] started in a directory. Returns the programs that were running.
///
/// # Errors
/// What is still running.
pub fn down(folder: &Path) -> Result<Vec<&'static str>, String> {
    let mut stopped = Vec::new();
    for name in PROGRAMS.into_iter().rev() {
        let Some(pid) = running(folder, name) else { continue };
        stopped.push(name);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let begun = Instant::now();
        while running(folder, name).is_some() {
            match begun.elapsed().as_secs() {
                0..5 => {}
                5..10 => drop(rustix::process::kill_process(pid, rustix::process::Signal::KILL)),
                _ => return Err(format!("`{name}` (process {}) does not exit", pid.as_raw_nonzero())),
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        // It may be a child of this process.
        let _ = rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::NOHANG);
    }
    for name in PROGRAMS {
        let _ = fs::remove_file(folder.join(format!("{name}.pid")));
    }
    Ok(stopped)
}

/// Whether the control plane in a directory is running, with all programs that were started.
pub fn is_up(folder: &Path) -> bool {
    let runs = |name: &&str| running(folder, name).is_some();
    let [etcd, api, manager] = PROGRAMS;
    [etcd, api].iter().all(runs) && (runs(&manager) || !folder.join(format!("{manager}.pid")).exists())
}

/// The process of a program, if it is still that program.
fn running(folder: &Path, name: &str) -> Option<rustix::process::Pid> {
    let text = fs::read_to_string(folder.join(format!("{name}.pid"))).ok()?;
    let pid = rustix::process::Pid::from_raw(text.trim().parse().ok()?)?;
    // A process that has exited and was not waited for has no executable.
    let exe = fs::read_link(format!("/proc/{}/exe", pid.as_raw_nonzero())).ok()?;
    exe.file_name().is_some_and(|file| file.to_string_lossy().starts_with(name)).then_some(pid)
}

fn spawn(folder: &Path, name: &'static str, words: &[String]) -> Result<(), String> {
    let fault = |e: io::Error| format!("`{name}`: {e}");
    let path = program(name).ok_or_else(|| format!("`{name}` is not available"))?;
    let log = private(folder, &format!("{name}.log")).map_err(fault)?;
    // The process writes its id before it executes the program, so that `down` finds it no matter when gevals is
    // killed.
    let pid = format!("{name}.pid");
    drop(private(folder, &pid).map_err(fault)?);
    let child = Command::new("/bin/sh")
        .args(["-c", "echo $$ >\"$0\"; exec \"$@\""])
        .arg(folder.join(&pid))
        .arg(path)
        .args(words)
        .stdin(Stdio::null())
        .stdout(log.try_clone().map_err(fault)?)
        .stderr(log)
        .process_group(0)
        .spawn()
        .map_err(fault)?;
    let id = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap_or_default());
    let begun = Instant::now();
    // Until it is executing the program, or has exited.
    while running(folder, name).is_none() && begun.elapsed() < Duration::from_secs(5) {
        let ended = rustix::process::waitpid(id, rustix::process::WaitOptions::NOHANG);
        if !matches!(ended, Ok(None)) {
            break;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

async fn config(kubeconfig: &Path) -> Result<kube::Config, String> {
    let config = kube::config::Kubeconfig::read_from(kubeconfig).map_err(|e| e.to_string())?;
    let options = kube::config::KubeConfigOptions::default();
    kube::Config::from_custom_kubeconfig(config, &options).await.map_err(|e| e.to_string())
}

async fn client(kubeconfig: &Path) -> Result<kube::Client, String> {
    kube::Client::try_from(config(kubeconfig).await?).map_err(|e| e.to_string())
}

/// The port and the token of the control plane that was in a directory before.
fn earlier(folder: &Path) -> Option<(u16, String)> {
    let config: serde_json::Value = serde_yaml::from_str(&fs::read_to_string(folder.join("kubeconfig")).ok()?).ok()?;
    let text = |at: &str| config.pointer(at).and_then(serde_json::Value::as_str);
    let port = text("/clusters/0/cluster/server")?.rsplit_once(':')?.1.parse().ok()?;
    Some((port, text("/users/0/user/token")?.to_owned()))
}

/// Creates a namespace in a running control plane, and a kubeconfig next to the plane's own whose context uses the
/// namespace. Returns the path of that kubeconfig.
///
/// # Errors
/// The API server does not answer, or the namespace already exists.
pub async fn add_namespace(folder: &Path, name: &str) -> Result<PathBuf, String> {
    let own = folder.join("kubeconfig");
    let namespaces: Api<Namespace> = Api::all(client(&own).await?);
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some(name.to_owned());
    let made = namespaces.create(&PostParams::default(), &namespace).await;
    made.map_err(|e| format!("the namespace `{name}`: {e}"))?;
    let fault = |e: io::Error| format!("{}: {e}", folder.display());
    let text = fs::read_to_string(&own).map_err(fault)?;
    let text = text.replace("namespace: default", &format!("namespace: {name}"));
    write(folder, &format!("{name}.kubeconfig"), &text).map_err(fault)?;
    Ok(folder.join(format!("{name}.kubeconfig")))
}

/// Deletes a namespace without waiting for it.
///
/// # Errors
/// The API server does not answer.
pub async fn drop_namespace(folder: &Path, name: &str) -> Result<(), String> {
    let namespaces: Api<Namespace> = Api::all(client(&folder.join("kubeconfig")).await?);
    let _ = fs::remove_file(folder.join(format!("{name}.kubeconfig")));
    namespaces.delete(name, &DeleteParams::background()).await.map(drop).map_err(|e| e.to_string())
}

/// Waits until the last of these programs answers `ok` at a path. Fails as soon as one of them has exited.
async fn answers(folder: &Path, config: kube::Config, path: &str, programs: &[&str]) -> Result<(), NotUp> {
    let client = kube::Client::try_from(config).map_err(|e| e.to_string())?;
    let begun = Instant::now();
    while begun.elapsed() < READY {
        let request = axum::http::Request::get(path).body(Vec::new()).map_err(|e| e.to_string())?;
        let is_ready = client.request_text(request).await.is_ok_and(|text| text.starts_with("ok"));
        if let Some(name) = programs.iter().find(|name| running(folder, name).is_none()) {
            return Err(NotUp::Ended(format!("`{name}` has exited: {}", cause(folder, name))));
        }
        if is_ready {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let name = programs.last().copied().unwrap_or_default();
    Err(NotUp::Other(format!("`{name}` is not ready after {} s: {}", READY.as_secs(), cause(folder, name))))
}

/// Why a program exited: the line that klog marks as fatal (traces of all goroutines follow it), otherwise the last
/// line of its log.
fn cause(folder: &Path, name: &str) -> String {
    let path = folder.join(format!("{name}.log"));
    let text = fs::read_to_string(&path).unwrap_or_default();
    let is_fatal = |line: &&str| line.starts_with('F') && line[1..].starts_with(|c: char| c.is_ascii_digit());
    let line = text.lines().find(is_fatal).or(text.lines().last()).unwrap_or_default();
    format!("{line} (see {})", path.display())
}

fn is_before_24(manager: &Path) -> bool {
    let output = Command::new(manager).arg("--version").output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let minor = text.split('.').nth(1).and_then(|minor| minor.parse::<u32>().ok());
    minor.is_some_and(|minor| minor < 24)
}

/// Creates the keys that sign and verify service account tokens.
fn key(folder: &Path) -> Result<(), String> {
    let random = SystemRandom::new();
    let algorithm = &signature::ECDSA_P256_SHA256_ASN1_SIGNING;
    let document = signature::EcdsaKeyPair::generate_pkcs8(algorithm, &random).map_err(|e| e.to_string())?;
    let pair = signature::EcdsaKeyPair::from_pkcs8(algorithm, document.as_ref(), &random).map_err(|e| e.to_string())?;
    // SubjectPublicKeyInfo of a P-256 key (RFC 5480): everything but the point is constant.
    const HEAD: [u8; 26] = [
        0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48,
        0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
    ];
    let public = [&HEAD, signature::KeyPair::public_key(&pair).as_ref()].concat();
    let io = |e: io::Error| format!("{}: {e}", folder.display());
    write(folder, "sa.key", &pem("PRIVATE KEY", document.as_ref())).map_err(io)?;
    write(folder, "sa.pub", &pem("PUBLIC KEY", &public)).map_err(io)
}

fn pem(label: &str, bytes: &[u8]) -> String {
    let text = BASE64_STANDARD.encode(bytes);
    let lines: Vec<_> = text.as_bytes().chunks(64).map(String::from_utf8_lossy).collect();
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
}

fn token() -> Result<String, String> {
    let bytes: [u8; 16] = ring::rand::generate(&SystemRandom::new()).map_err(|e| e.to_string())?.expose();
    Ok(hex::encode(bytes))
}

fn private(folder: &Path, name: &str) -> io::Result<fs::File> {
    fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(folder.join(name))
}

fn write(folder: &Path, name: &str, text: &str) -> io::Result<()> {
    private(folder, name)?.write_all(text.as_bytes())
}
