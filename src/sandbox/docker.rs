//! `docker run`: a container without capabilities, whose file system is read-only, with network and writable mounts only if granted.

use std::{
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use super::Cell;

/// The environment variable that names the image in which programs run.
const IMAGE: &str = "GEVALS_DOCKER_IMAGE";
const USUAL_IMAGE: &str = "debian:stable-slim";

/// The `docker` command, as configured on this machine.
#[derive(Clone, Debug)]
pub struct Docker {
    program: PathBuf,
    /// What the client needs from the environment, as options: its own environment is that of the program.
    options: Vec<OsString>,
    image: String,
    user: String,
}

/// A container, which is removed when this is dropped: a client that is killed leaves its container running.
#[derive(Debug)]
pub struct Container {
    docker: Docker,
    name: String,
}

impl Docker {
    /// Finds the command, and checks that its daemon answers.
    ///
    /// # Errors
    /// Why docker cannot be used.
    #[expect(clippy::disallowed_methods, reason = "this looks for a sandbox on the machine")]
    pub fn find(lookup: &dyn Fn(&str) -> Option<String>) -> Result<Self, String> {
        let set = |name: &str| lookup(name).filter(|value| !value.is_empty());
        let path = set("PATH").unwrap_or_default();
        let found = std::env::split_paths(&path).map(|dir| dir.join("docker")).find(|path| path.is_file());
        let program = found.ok_or("`docker` is not installed")?;
        let config = set("DOCKER_CONFIG").or_else(|| set("HOME").map(|home| format!("{home}/.docker")));
        let options = [("--config", config), ("--context", set("DOCKER_CONTEXT")), ("--host", set("DOCKER_HOST"))];
        let options = options.into_iter().filter_map(|(option, value)| Some([option.into(), value?.into()])).flatten();
        let (user, group) = (rustix::process::getuid(), rustix::process::getgid());
        let docker = Self {
            program,
            options: options.collect(),
            image: set(IMAGE).unwrap_or_else(|| USUAL_IMAGE.to_owned()),
            user: format!("{}:{}", user.as_raw(), group.as_raw()),
        };
        let asked = docker.command(["version", "--format", "{{.Server.Version}}"]).output();
        let asked = asked.map_err(|e| format!("`{}` cannot be started: {e}", docker.program.display()))?;
        match asked.status.success() {
            true => Ok(docker),
            false => {
                let why = String::from_utf8_lossy(&asked.stderr);
                Err(format!("docker does not answer: {}", why.lines().next().unwrap_or("it says nothing")))
            }
        }
    }

    fn command<const N: usize>(&self, args: [&str; N]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.options).args(args).stdin(Stdio::null());
        command
    }

    /// The command line that runs a program in a cell. `env` names the variables that it gets from the environment of the client.
    pub fn arguments<'a>(
        &self,
        cell: &Cell<'_>,
        env: impl Iterator<Item = &'a str>,
        program: &Path,
    ) -> (PathBuf, Vec<OsString>, Container) {
        let container = Container { docker: self.clone(), name: format!("gevals-{:016x}", crate::random::number()) };
        let mut args = self.options.clone();
        let mut add = |words: &[&dyn AsRef<OsStr>]| args.extend(words.iter().map(|w| w.as_ref().to_owned()));
        add(&[&"run", &"--rm", &"--interactive", &"--init", &"--name", &container.name]);
        add(&[&"--read-only", &"--tmpfs", &"/tmp", &"--cap-drop", &"ALL", &"--security-opt", &"no-new-privileges"]);
        add(&[&"--pids-limit", &super::PROCESSES.to_string(), &"--memory", &super::MEMORY.to_string()]);
        add(&[&"--ulimit", &format!("nofile={0}:{0}", super::FILES), &"--user", &self.user]);
        add(&[&"--network", &if cell.network { "bridge" } else { "none" }]);
        for name in env {
            add(&[&"--env", &name]);
        }
        for path in [cell.home, cell.workdir].into_iter().chain(cell.read.iter().map(PathBuf::as_path)) {
            add(&[&"--mount", &mount(path, ",readonly")]);
        }
        for path in &cell.write {
            add(&[&"--mount", &mount(path, "")]);
        }
        add(&[&"--workdir", &cell.workdir, &"--entrypoint", &program, &self.image]);
        (self.program.clone(), args, container)
    }
}

/// A mount at the same path, as docker reads it: fields of CSV.
fn mount(path: &Path, more: &str) -> String {
    let field = |name: &str| format!("\"{name}={}\"", path.display().to_string().replace('"', "\"\""));
    format!("type=bind,{},{}{more}", field("source"), field("target"))
}

impl Drop for Container {
    fn drop(&mut self) {
        // A container that has ended is already removed.
        let _ = self.docker.command(["rm", "--force", &self.name]).output();
    }
}
