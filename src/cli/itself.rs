//! `gevals self`: gevals and the machine that it runs on.

use std::path::Path;

use clap::{Subcommand, ValueEnum};
use serde_json::json;

use super::{complain, print, status};
use crate::{
    diagnostic::nearest,
    host::{Host, RealHost},
    run, sandbox,
};

const EXAMPLES: &str = "\
Examples:
  gevals self check                      list what is available and what is missing
  gevals self check bubblewrap node      exit with 1 unless these are available
  gevals self check --format json        write JSON, for other programs

What an eval needs depends on the eval: run `gevals run --preflight EVAL` to check that. A browser
is never needed: reports and pictures are files. Secrets are never shown: for a key, only whether
it is set.

Exit status: 0 everything that was named is available, or without names, what every run needs; 1
something of it is missing; 2 unknown name";

/// Inspect gevals itself and this machine.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

/// The names of everything that can be checked.
pub(super) fn names() -> Vec<&'static str> {
    NEEDS.iter().map(|need| need.name).collect()
}

#[derive(Subcommand, Debug)]
enum What {
    Check(Check),
}

/// Report what this machine lacks, what each item is needed for, and how to install it.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
struct Check {
    /// Items that must be available.
    names: Vec<String>,
    /// Output format.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum Format {
    Text,
    Json,
}

/// Something that may be available on a machine.
struct Need {
    name: &'static str,
    look: Look,
    /// What it is needed for.
    reason: &'static str,
    /// How to get it.
    cure: &'static str,
    /// Whether every run needs it.
    always: bool,
}

/// How it is detected.
#[derive(Clone, Copy)]
enum Look {
    /// One of these programs is on the PATH.
    Program(&'static [&'static str]),
    /// One of these variables is set.
    Variable(&'static [&'static str]),
    /// By a function. An error says what is wrong.
    By(fn(&RealHost) -> Result<String, String>),
}

const fn program(
    name: &'static str,
    programs: &'static [&'static str],
    reason: &'static str,
    cure: &'static str,
) -> Need {
    Need { name, look: Look::Program(programs), reason, cure, always: false }
}

const fn key(name: &'static str, variables: &'static [&'static str], reason: &'static str, cure: &'static str) -> Need {
    Need { name, look: Look::Variable(variables), reason, cure, always: false }
}

const fn by(
    name: &'static str,
    look: fn(&RealHost) -> Result<String, String>,
    reason: &'static str,
    cure: &'static str,
) -> Need {
    Need { name, look: Look::By(look), reason, cure, always: false }
}

static NEEDS: [Need; 25] = [
    Need { always: true, ..program("sh", &["sh"], "scripts of tasks", "every system has one: check PATH") },
    Need {
        always: true,
        ..by(
            "temporary-folder",
            temporary,
            "scripts, and files for agents",
            "make the directory writable, or set TMPDIR to one that is",
        )
    },
    program(
        "bash",
        &["bash"],
        "scripts of legacy tasks that start with `#!/bin/bash`",
        "apt install bash, brew install bash",
    ),
    program(
        "git",
        &["git"],
        "`check --changed-since`, `plan --diff-rev`, tasks from a repository",
        "apt install git, brew install git",
    ),
    by(
        "bubblewrap",
        bubblewrap,
        "the proofs of `convert`, and the isolation of agents and extensions",
        "apt install bubblewrap; in Docker see the entry user-namespaces",
    ),
    by(
        "user-namespaces",
        namespaces,
        "bubblewrap",
        "sysctl kernel.unprivileged_userns_clone=1, kernel.apparmor_restrict_unprivileged_userns=0; in Docker --security-opt seccomp=unconfined",
    ),
    by(
        "landlock",
        landlock,
        "the isolation of agents without bubblewrap",
        "Linux 6.12 or newer, with Landlock enabled",
    ),
    by("docker", docker, "extensions with `sandbox: docker`", "install Docker and start its daemon"),
    program(
        "node",
        &["node"],
        "MCP servers and agents from npm packages",
        "https://nodejs.org, apt install nodejs, brew install node",
    ),
    program(
        "npx",
        &["npx"],
        "servers that a config starts with `npx`",
        "part of npm: apt install npm, brew install node",
    ),
    program(
        "python",
        &["python3", "python"],
        "MCP servers from PyPI packages",
        "apt install python3, brew install python",
    ),
    program("uvx", &["uvx"], "servers that a config starts with `uvx`", "pip install uv"),
    program(
        "kubectl",
        &["kubectl"],
        "tasks whose scripts call it; `builtin:kubernetes` does not need it",
        "https://kubernetes.io/docs/tasks/tools",
    ),
    by(
        "kubernetes",
        cluster,
        "`builtin:kubernetes`: the cluster of KUBECONFIG",
        "set KUBECONFIG, or start a control plane: gevals kube up FOLDER",
    ),
    by(
        "kube-apiserver",
        control_plane,
        "`world: kube` and `gevals kube`: disposable control planes",
        "setup-envtest use -p path; set KUBEBUILDER_ASSETS to the directory it prints",
    ),
    program("helm", &["helm"], "the operations of Helm in `builtin:kubernetes`", "https://helm.sh/docs/intro/install"),
    program("claude", &["claude"], "the agent `builtin.claude-code`", "npm install -g @anthropic-ai/claude-code"),
    program("codex", &["codex"], "agent files that call it", "npm install -g @openai/codex"),
    program("gemini", &["gemini"], "agent files that call it", "npm install -g @google/gemini-cli"),
    program("opencode", &["opencode"], "agent files that call it", "npm install -g opencode-ai"),
    key("openai-key", &["OPENAI_API_KEY", "MODEL_KEY"], "models and judges with `openai:`", "set OPENAI_API_KEY"),
    key("anthropic-key", &["ANTHROPIC_API_KEY"], "models and judges with `anthropic:`", "set ANTHROPIC_API_KEY"),
    key("gemini-key", &["GEMINI_API_KEY", "GOOGLE_API_KEY"], "models and judges with `gemini:`", "set GEMINI_API_KEY"),
    by(
        "downloads",
        downloads,
        "the cache of sources and extension releases",
        "set GEVALS_CACHE_DIR to a writable directory",
    ),
    Need {
        always: true,
        ..by(
            "processes",
            processes,
            "gevals starts itself for sandboxes, Kubernetes and the demo server",
            "its executable was moved or deleted while it ran: restart it",
        )
    },
];

pub fn main(args: &Args) -> u8 {
    let What::Check(args) = &args.what;
    let mut chosen: Vec<&Need> = NEEDS.iter().collect();
    if !args.names.is_empty() {
        let named = args.names.iter().map(|name| NEEDS.iter().find(|need| need.name == name).ok_or(name));
        chosen = match named.collect() {
            Ok(chosen) => chosen,
            Err(name) => {
                let near = nearest(name, NEEDS.iter().map(|need| need.name));
                let hint = near.map_or_else(
                    || "`gevals self check` lists all names".to_owned(),
                    |near| format!("did you mean `{near}`?"),
                );
                complain(&format!("unknown name `{name}`; {hint}"));
                return status::USAGE;
            }
        };
    }
    let host = RealHost::new();
    let looks: Vec<(&Need, Result<String, String>)> =
        chosen.into_iter().map(|need| (need, found(need, &host))).collect();
    print(&match args.format {
        Format::Text => as_text(&looks),
        Format::Json => as_json(&looks),
    });
    let decides = |need: &Need| need.always || !args.names.is_empty();
    match looks.iter().any(|(need, found)| found.is_err() && decides(need)) {
        true => status::NO,
        false => status::OK,
    }
}

/// Returns where it is. An error says what is wrong.
fn found(need: &Need, host: &RealHost) -> Result<String, String> {
    match need.look {
        Look::Program(names) => {
            let path = names.iter().find_map(|name| host.which(name));
            path.map(|path| path.display().to_string())
                .ok_or_else(|| format!("`{}` is not on the PATH", names.join("` or `")))
        }
        Look::Variable(names) => {
            let set = names.iter().find(|name| host.env(name).is_some_and(|value| !value.is_empty()));
            set.map(|name| format!("{name} is set")).ok_or_else(|| format!("{} is not set", names.join(" or ")))
        }
        Look::By(look) => look(host),
    }
}

fn as_text(looks: &[(&Need, Result<String, String>)]) -> String {
    let width = looks.iter().map(|(need, _)| need.name.len()).max().unwrap_or(0);
    let mut out = String::new();
    for (need, found) in looks {
        match found {
            Ok(found) => out += &format!("ok       {:width$}  {found}\n", need.name),
            Err(why) => {
                out += &format!("missing  {:width$}  {}\n", need.name, why.trim_end().replace('\n', "; "));
                out += &format!("         {:width$}  for: {}\n", "", need.reason);
                out += &format!("         {:width$}  get: {}\n", "", need.cure);
            }
        }
    }
    let missing = looks.iter().filter(|(_, found)| found.is_err()).count();
    let always = looks.iter().filter(|(need, found)| found.is_err() && need.always).count();
    out + &match (missing, always) {
        (0, _) => "everything is available\n".to_owned(),
        (n, 0) => format!("{}; everything that every run needs is available\n", things(n)),
        (n, _) => format!("{}, including something that every run needs\n", things(n)),
    }
}

fn things(missing: usize) -> String {
    match missing {
        1 => "1 item is missing".to_owned(),
        n => format!("{n} items are missing"),
    }
}

fn as_json(looks: &[(&Need, Result<String, String>)]) -> String {
    let one = |(need, found): &(&Need, Result<String, String>)| {
        json!({
            "name": need.name,
            "here": found.is_ok(),
            "found": found.as_ref().ok(),
            "missing": found.as_ref().err(),
            "reason": need.reason,
            "cure": need.cure,
            "always": need.always,
        })
    };
    format!("{:#}\n", json!({ "version": 1, "things": looks.iter().map(one).collect::<Vec<_>>() }))
}

fn temporary(_: &RealHost) -> Result<String, String> {
    let folder = std::env::temp_dir();
    writable(&folder).map(|()| folder.display().to_string())
}

/// Checks that a file can be created in a directory. The file is removed.
fn writable(folder: &Path) -> Result<(), String> {
    let made = tempfile::NamedTempFile::new_in(folder);
    made.map(drop).map_err(|error| format!("`{}` is not writable: {error}", folder.display()))
}

fn downloads(_: &RealHost) -> Result<String, String> {
    let folder = crate::fetch::Cache::new(None)?.path().to_owned();
    // It is created when it is needed.
    let there = folder.ancestors().find(|folder| folder.is_dir()).unwrap_or(&folder);
    writable(there).map(|()| folder.display().to_string())
}

fn processes(_: &RealHost) -> Result<String, String> {
    let own = std::env::current_exe().map_err(|error| format!("its executable was not found: {error}"))?;
    match own.is_file() {
        true => Ok(own.display().to_string()),
        false => Err(format!("`{}` no longer exists", own.display())),
    }
}

fn bubblewrap(_: &RealHost) -> Result<String, String> {
    sandbox::find().map(|path| path.display().to_string())
}

#[cfg(target_os = "linux")]
fn landlock(_: &RealHost) -> Result<String, String> {
    sandbox::confine::usable().map(|()| "supported by the kernel".to_owned())
}

#[cfg(not(target_os = "linux"))]
fn landlock(_: &RealHost) -> Result<String, String> {
    Err("only available on Linux".to_owned())
}

/// What the kernel says about user namespaces. Whether a jail works is checked for bubblewrap.
fn namespaces(_: &RealHost) -> Result<String, String> {
    let says = |path: &str| std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
    if !Path::new("/proc/self/ns/user").exists() {
        return Err("not supported by the kernel".to_owned());
    }
    if says("/proc/sys/user/max_user_namespaces").as_deref() == Some("0") {
        return Err("user.max_user_namespaces is 0".to_owned());
    }
    if says("/proc/sys/kernel/unprivileged_userns_clone").as_deref() == Some("0") {
        return Err("kernel.unprivileged_userns_clone is 0".to_owned());
    }
    if says("/proc/sys/kernel/apparmor_restrict_unprivileged_userns").as_deref() == Some("1") {
        return Err("kernel.apparmor_restrict_unprivileged_userns is 1".to_owned());
    }
    Ok("allowed by the kernel".to_owned())
}

fn docker(host: &RealHost) -> Result<String, String> {
    sandbox::docker::Docker::find(&|name| host.env(name)).map(|_| "its daemon responds".to_owned())
}

/// Whether a cluster is configured. It is not contacted.
fn cluster(host: &RealHost) -> Result<String, String> {
    if let Some(list) = host.env("KUBECONFIG").filter(|list| !list.is_empty()) {
        let mut paths = std::env::split_paths(&list);
        return match paths.any(|path| path.is_file()) {
            true => Ok("KUBECONFIG names an existing file".to_owned()),
            false => Err(format!("KUBECONFIG names no existing file: `{list}`")),
        };
    }
    let own = std::env::home_dir().map(|home| home.join(".kube/config")).filter(|path| path.is_file());
    if let Some(path) = own {
        return Ok(path.display().to_string());
    }
    match host.env("KUBERNETES_SERVICE_HOST") {
        Some(_) => Ok("running in a pod".to_owned()),
        None => Err("no cluster is configured".to_owned()),
    }
}

fn control_plane(_: &RealHost) -> Result<String, String> {
    run::clusters::startable().map(|()| "its programs are installed".to_owned())
}
