//! gevals as users run it: a process in its own directory, with a time limit and a mark on everything it starts.

use std::{
    ffi::{OsStr, OsString},
    fs::{self, File},
    io::Read,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::Value;
use tempfile::TempDir;

/// Far longer than anything here takes; whatever exceeds it hangs.
const LIMIT: Duration = Duration::from_secs(30);
const MARK: &str = "GEVALS_TEST_WORLD";

/// For agents in bash that use ACP: `reply REQUEST MEMBER` answers, and `handshake` runs until `$prompt` is read.
pub const ACP: &str = r#"
id() { echo "$1" | sed 's/.*"id":\("[^"]*"\|[0-9]*\).*/\1/'; }
reply() { echo "{\"jsonrpc\":\"2.0\",\"id\":$(id "$1"),$2}"; }
handshake() {
  read -r initialize
  reply "$initialize" '"result":{"protocolVersion":1,"agentCapabilities":{"mcpCapabilities":{"http":true}}}'
  read -r session
  reply "$session" '"result":{"sessionId":"s"}'
  read -r prompt
}
"#;

pub struct World {
    dir: TempDir,
}

pub struct Ran {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
    /// The peak memory of gevals itself, in KiB.
    pub peak: u64,
}

pub struct Running {
    child: Child,
    dir: PathBuf,
    peak: u64,
}

static RESULTS: std::sync::LazyLock<jsonschema::Validator> = std::sync::LazyLock::new(|| {
    let schema = serde_json::from_str(include_str!("../../schemas/results.json")).unwrap();
    jsonschema::draft7::new(&schema).unwrap()
});

impl World {
    /// Creates a directory with these files; `WORLD` in their texts is its path.
    pub fn new(files: &[(&str, &str)]) -> World {
        let world = World { dir: tempfile::tempdir().unwrap() };
        fs::create_dir(world.path("tmp")).unwrap();
        for (path, text) in files {
            world.write(path, text);
        }
        world
    }

    pub fn path(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    pub fn write(&self, path: &str, text: &str) {
        let target = self.path(path);
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        fs::write(target, text.replace("WORLD", self.dir.path().to_str().unwrap())).unwrap();
    }

    pub fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap_or_default()
    }

    /// Copies a directory of this repository.
    pub fn copy(&self, from: &str, to: &str) {
        for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(from)).unwrap().flatten() {
            let name = entry.file_name().into_string().unwrap();
            let (from, to) = (format!("{from}/{name}"), format!("{to}/{name}"));
            if entry.path().is_dir() {
                self.copy(&from, &to);
            } else {
                fs::create_dir_all(self.path(&to).parent().unwrap()).unwrap();
                fs::copy(entry.path(), self.path(&to)).unwrap();
            }
        }
    }

    /// Adds a program to this world, in `bin`.
    pub fn program(&self, name: &str, text: &str) {
        let path = format!("bin/{name}");
        self.write(&path, text);
        fs::set_permissions(self.path(&path), fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Makes a file executable.
    pub fn executable(&self, path: &str) {
        fs::set_permissions(self.path(path), fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// A `PATH` with these programs and those of the system, without what a developer has installed.
    pub fn programs(&self) -> String {
        format!("{}:/usr/bin:/bin", self.path("bin").display())
    }

    /// gevals in this directory, with a minimal environment.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = self.bare(&gevals());
        command.args(args);
        command
    }

    /// Runs a line that gevals printed, as a user would.
    pub fn shell(&self, line: &str) -> Ran {
        let mut shell = self.bare("sh".as_ref());
        shell.arg("-c").arg(format!("gevals() {{ \"$GEVALS\" \"$@\"; }}\n{line}"));
        self.start(shell).end()
    }

    /// A program in this directory, with a minimal environment.
    pub fn bare(&self, program: &OsStr) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.dir.path()).stdin(Stdio::null());
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command
            .env("GEVALS", gevals())
            .env("HOME", self.dir.path())
            .env("TMPDIR", self.path("tmp"))
            .env(MARK, self.dir.path());
        // For `.ci/mutants`: which mutant is active, and the file that lists the mutants reached.
        for name in ["GEVALS_MUTANT", "GEVALS_REACHED"] {
            command.envs(std::env::var_os(name).map(|value| (name, value)));
        }
        command
    }

    pub fn start(&self, mut command: Command) -> Running {
        for (name, set) in [("stdout", 1), ("stderr", 2)] {
            let file = File::create(self.path(name)).unwrap();
            if set == 1 {
                command.stdout(file)
            } else {
                command.stderr(file)
            };
        }
        Running { child: command.spawn().unwrap(), dir: self.dir.path().to_path_buf(), peak: 0 }
    }

    /// Starts a command whose streams the caller has set.
    pub fn start_with_own_streams(&self, mut command: Command) -> Running {
        Running { child: command.spawn().unwrap(), dir: self.dir.path().to_path_buf(), peak: 0 }
    }

    pub fn run(&self, args: &[&str]) -> Ran {
        self.start(self.command(args)).end()
    }

    /// Returns the results file of an eval, and checks it against `schemas/results.json`.
    pub fn results(&self, eval: &str) -> Value {
        let text = self.read(&format!("gevals-{eval}-out.json"));
        let results = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
        let faults: Vec<_> = RESULTS.iter_errors(&results).map(|e| format!("{}: {e}", e.instance_path())).collect();
        assert!(faults.is_empty(), "{}", faults.join("\n"));
        results
    }

    /// Returns processes of this world that are still running; some need a moment to exit.
    pub fn survivors(&self) -> Vec<String> {
        let started = Instant::now();
        loop {
            let found = self.living();
            if found.is_empty() || started.elapsed() > Duration::from_secs(3) {
                return found;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn living(&self) -> Vec<String> {
        let wanted = format!("{MARK}={}", self.dir.path().display());
        let processes = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
        let marked = processes.filter(|process| {
            let environment = fs::read(process.join("environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes())
        });
        let command = |process: PathBuf| fs::read_to_string(process.join("cmdline")).unwrap_or_default();
        marked.map(command).map(|line| line.replace('\0', " ")).filter(|line| !line.is_empty()).collect()
    }

    /// Waits for a file that a step creates.
    pub fn wait_for(&self, path: &str) {
        let started = Instant::now();
        while !self.path(path).exists() {
            assert!(started.elapsed() < LIMIT, "no `{path}`: {}{}", self.read("stdout"), self.read("stderr"));
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl World {
    /// Waits for a line in a file that contains this, and returns the first one.
    pub fn wait_for_line(&self, path: &str, part: &str) -> String {
        let started = Instant::now();
        loop {
            let text = self.read(path);
            let whole = text.rfind('\n').map_or("", |end| &text[..end]);
            if let Some(line) = whole.lines().find(|line| line.contains(part)) {
                return line.to_owned();
            }
            assert!(started.elapsed() < LIMIT, "`{path}` does not say `{part}`: {text}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Running {
    pub fn wait(mut self) {
        self.child.wait().unwrap();
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, signal: rustix::process::Signal) {
        let id = i32::try_from(self.child.id()).ok().and_then(rustix::process::Pid::from_raw);
        rustix::process::kill_process(id.unwrap(), signal).unwrap();
    }

    pub fn end(self) -> Ran {
        self.end_within(LIMIT)
    }

    pub fn end_within(mut self, limit: Duration) -> Ran {
        let started = Instant::now();
        let status = loop {
            self.peak = self.peak.max(peak_of(self.child.id()));
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            if started.elapsed() > limit {
                let _ = self.child.kill();
                panic!("gevals does not end: {}{}", self.text("stdout"), self.text("stderr"));
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        Ran { code: status.code(), out: self.text("stdout"), err: self.text("stderr"), peak: self.peak }
    }

    fn text(&self, name: &str) -> String {
        let mut bytes = Vec::new();
        File::open(self.dir.join(name)).unwrap().read_to_end(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Ran {
    /// Fails the test unless the command exited with this status and printed all of this.
    #[track_caller]
    pub fn expect(self, code: i32, said: &[&str]) -> Ran {
        let Ran { out, err, .. } = &self;
        assert_eq!(self.code, Some(code), "{out}{err}");
        for text in said {
            assert!(out.contains(text) || err.contains(text), "not said: `{text}`\n{out}{err}");
        }
        for crash in ["panicked", "RUST_BACKTRACE", "overflowed its stack"] {
            assert!(!err.contains(crash), "{err}");
        }
        self
    }
}

/// The program under test; `GEVALS_BIN` selects another build, for measurements.
pub fn gevals() -> OsString {
    std::env::var_os("GEVALS_BIN").unwrap_or_else(|| env!("CARGO_BIN_EXE_gevals").into())
}

/// Returns the result of this task.
pub fn result<'r>(results: &'r Value, task: &str) -> &'r Value {
    let found = results["results"].as_array().unwrap().iter().find(|result| result["taskName"] == task);
    found.unwrap_or_else(|| panic!("no {task}: {results}"))
}

fn peak_of(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or_default()
}
