//! `gevals pack`: puts an eval and everything it refers to into one archive, and lists what cannot be packed.

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    path::{Path, PathBuf},
};

use super::{
    ready::{Ready, prepare, print_tolerated},
    unit::{REPLAY, run_args},
};
use crate::{
    builtin::count,
    cli::{Global, ROOT, combination::combinations, complain, print, project_files, shown, status},
    hir::Transport,
    host::{
        disk::{Disk, write_atomic},
        within::Within,
    },
    pack::{self, Combination, Contents, Manifest, Need, PackedTask, Settings},
    package::{Package, package},
    plan::{ActionKind, AgentKind, EvalPlan, reach, wire, worst_case},
    policy,
    project::AgentChoice,
    run::environment_secrets,
    secrets::{Secrets, looks_secret},
    source::{Files, Listed, Stat, is_written, mentions, normalize, resolve},
};

const EXAMPLES: &str = "\
Examples:
  gevals pack eval.yaml -o suite.gevals                  pack the eval, its tasks and their files
  gevals pack eval.yaml -o suite.gevals -n 5 --model openai:gpt-5 --model anthropic:claude-opus-4-5
                                                         five runs per task, with two models
  gevals pack eval.yaml -o suite.gevals --include data   also a directory that no file refers to
  gevals units suite.gevals                              list what there is to run
  gevals exec-unit suite.gevals --unit ID --out out/ID   run one task once
  gevals run suite.gevals                                run all of it, on this machine

The eval is checked first, as by `gevals run`. The pack contains the files that the compiler read,
the directories of skills, and what scripts, configs and agents refer to by a path in the project.
Hidden files are only packed if the compiler read them; otherwise they are listed. Environment
variables are included by name only: a file that contains the value of a secret one is refused. What
else the pack needs is listed. The same input always results in the same bytes.

Exit status: 0 written, 2 the eval cannot be packed, 3 the pack could not be written";

/// Pack an eval and all its files into one archive, to run elsewhere, as a whole or unit by unit.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// An eval file, or a directory that contains one.
    eval: PathBuf,
    /// Write the pack to this file.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Run each task N times, overriding the task's own setting.
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    runs: Option<u32>,
    /// Use this agent instead of the eval's, as for `gevals run`; repeat to pack several.
    #[arg(long, value_name = "AGENT")]
    agent: Vec<String>,
    /// Use this model for the agent; repeat to pack several, with each agent.
    #[arg(long, value_name = "MODEL")]
    model: Vec<String>,
    /// Use this MCP config of the project instead of the eval's.
    #[arg(long, value_name = "FILE")]
    mcp_config_file: Option<PathBuf>,
    /// Also pack this file or directory of the project; a file given here is packed even if its name suggests a secret.
    #[arg(long, value_name = "PATH")]
    include: Vec<PathBuf>,
    /// Refuse findings that may mislead the author in every dialect, not only in the portable one.
    #[arg(long)]
    strict: bool,
    /// Allow tasks to pass that have nothing to decide their verdict.
    #[arg(long)]
    allow_unchecked: bool,
}

type Fault = (u8, String);

pub fn main(args: &Args, global: Global) -> u8 {
    make(args, global).unwrap_or_else(|(exit, why)| {
        if !why.is_empty() {
            complain(&why);
        }
        exit
    })
}

fn usage(why: String) -> Fault {
    (status::USAGE, why)
}

fn make(args: &Args, global: Global) -> Result<u8, Fault> {
    let broken = |why: std::io::Error| (status::BROKEN, format!("`{}`: {why}", shown(&args.output)));
    let output = std::path::absolute(&args.output).map_err(broken)?;
    if output.is_dir() {
        return Err(usage(format!(
            "`{}` is a directory: specify a file, such as `-o suite.gevals`",
            shown(&args.output)
        )));
    }
    let there = Disk.read(&output).unwrap_or_default();
    if !there.is_empty() && !pack::looks_like(&there) {
        let why = "already exists and is not a pack: choose another file, or delete it";
        return Err(usage(format!("`{}` {why}", shown(&args.output))));
    }
    // The pack must not depend on the current directory: all paths are relative to the project.
    let project = project_files(std::slice::from_ref(&args.eval));
    let root = project.roots().next().map_or_else(|| PathBuf::from("."), Path::to_owned);
    let root = std::path::absolute(root).map_err(broken)?;
    let own = |path: &Path| own_path(&root, path);
    let mut eval = if args.eval.exists() { own(&args.eval)? } else { args.eval.clone() };
    let mcp_config = args.mcp_config_file.as_deref().map(own).transpose()?;
    let include = args.include.iter().map(|path| own(path)).collect::<Result<Vec<_>, _>>()?;
    let agents = args.agent.iter().map(|agent| match AgentChoice::parse(agent) {
        AgentChoice::File(path) if path.exists() => own(&path).map(|path| shown(&path)),
        AgentChoice::Builtin { kind, rest: Some(rest) } if kind == REPLAY => {
            own(Path::new(&rest)).map(|path| format!("{kind}:{}", shown(&path)))
        }
        _ => Ok(agent.clone()),
    });
    let agents = agents.collect::<Result<Vec<_>, _>>()?;
    std::env::set_current_dir(&root).map_err(broken)?;
    let _ = ROOT.set(root.clone());

    let settings = Settings {
        runs: args.runs,
        mcp_config: mcp_config.as_deref().map(shown),
        strict: args.strict,
        allow_unchecked: args.allow_unchecked,
    };
    if eval.is_dir() {
        // The only eval in it. Other files of the directory are not part of it.
        let agent = agents.first().map(String::as_str);
        let run = run_args(&eval, &settings, agent, args.model.first().map(String::as_str), Path::new("."));
        eval = prepare(&run.map_err(usage)?, global).map_err(|exit| (exit, String::new()))?.plan.path;
    }
    let mut ready: Vec<(Combination, Ready)> = Vec::new();
    for one in combinations(&agents, &args.model) {
        let run = run_args(&eval, &settings, one.agent(), one.model(), Path::new(".")).map_err(usage)?;
        let prepared = prepare(&run, global).map_err(|exit| (exit, String::new()))?;
        if ready.is_empty() {
            print_tolerated(&run, &prepared.tolerated, &prepared.sources, prepared.read, global);
        }
        let combination = Combination {
            agent: one.agent().map(str::to_owned),
            model: one.model().map(str::to_owned),
            plan_digest: wire::eval_digest(&prepared.plan),
        };
        if let Some((same, _)) = ready.iter().find(|(other, _)| other.plan_digest == combination.plan_digest) {
            return Err(usage(format!(
                "{} and {} are the same: their results would be indistinguishable",
                named(same),
                named(&combination)
            )));
        }
        ready.push((combination, prepared));
    }
    let Some((_, first)) = ready.first() else { return Err(usage("there is nothing to pack".to_owned())) };
    let project = Within::of(&[], Some(&root)).map_err(usage)?;
    let mut closure = Closure::new(&project, &root);
    closure.add_file(Path::new(policy::FILE_NAME));
    for (_, ready) in &ready {
        closure.of(ready);
    }
    for path in &include {
        if !closure.add(path) {
            return Err(usage(format!("`{}` does not exist and cannot be included", shown(path))));
        }
    }
    let (files, left_out) = closure.read(&include).map_err(usage)?;
    secrets(&ready, &files).map_err(usage)?;
    let plan = &first.plan;
    let manifest = Manifest {
        version: pack::VERSION,
        gevals: env!("CARGO_PKG_VERSION").to_owned(),
        digest: String::new(),
        eval: plain(&plan.path)?,
        name: plan.name.clone(),
        tasks: tasks(plan, &settings)?,
        needs: ready
            .iter()
            .flat_map(|(_, ready)| needs(&ready.plan, &project, &files))
            .chain(left_out)
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect(),
        files: pack::listed(&files),
        combinations: ready.iter().map(|(combination, _)| combination.clone()).collect(),
        settings,
    };
    let manifest = manifest.sealed();
    let bytes = pack::write(&manifest, &files).map_err(broken)?;
    // Nothing is written that cannot be read back.
    pack::read(&bytes).map_err(|why| usage(format!("the eval cannot be packed: {why}")))?;
    write_atomic(&output, &bytes).map_err(broken)?;
    print(&told(&manifest, &args.output, bytes.len()));
    Ok(status::OK)
}

fn told(manifest: &Manifest, output: &Path, bytes: usize) -> String {
    let units = manifest.units().len();
    let mut text = format!(
        "{}: {} of {}, {}, {} KiB\n{}\n",
        shown(output),
        count(units, "unit", "units"),
        count(manifest.tasks.len(), "task", "tasks"),
        count(manifest.files.len(), "file", "files"),
        bytes.div_ceil(1024),
        manifest.digest
    );
    if !manifest.needs.is_empty() {
        text.push_str("needed where it is run:\n");
        manifest.needs.iter().for_each(|need| text.push_str(&format!("  {:10} {}\n", need.kind, need.name)));
    }
    if manifest.needs.iter().any(|need| need.kind == FILE) {
        text.push_str("use `--include` to pack a file that it needs; take secrets from the environment\n");
    }
    text
}

fn named(combination: &Combination) -> String {
    match (&combination.agent, &combination.model) {
        (None, None) => "the eval's agent".to_owned(),
        (agent, model) => {
            let words: Vec<_> = [agent, model].into_iter().flatten().map(|word| format!("`{word}`")).collect();
            words.join(" with ")
        }
    }
}

/// A path of the command line, relative to the directory of the project.
fn own_path(root: &Path, path: &Path) -> Result<PathBuf, Fault> {
    let whole = std::path::absolute(path).map_or_else(|_| path.to_owned(), |path| normalize(&path));
    let real =
        || Some(std::fs::canonicalize(&whole).ok()?.strip_prefix(std::fs::canonicalize(root).ok()?).ok()?.to_owned());
    let inside = whole.strip_prefix(normalize(root)).map(Path::to_owned).ok().or_else(real);
    inside.map(|path| if path.as_os_str().is_empty() { PathBuf::from(".") } else { path }).ok_or_else(|| {
        usage(format!(
            "`{}` is outside the project `{}`, and a pack contains one project: move it there, or specify a larger one with `--root`",
            shown(path),
            shown(root)
        ))
    })
}

fn plain(path: &Path) -> Result<String, Fault> {
    let path = normalize(path);
    path.to_str().filter(|path| pack::is_plain(path)).map(str::to_owned).ok_or_else(|| {
        usage(format!("`{}` cannot be packed: its name is not portable between machines", path.display()))
    })
}

fn tasks(plan: &EvalPlan, settings: &Settings) -> Result<Vec<PackedTask>, Fault> {
    let task = |task: &crate::plan::Plan| {
        Ok(PackedTask {
            name: task.task.name.value.clone(),
            path: plain(&task.task.path)?,
            labels: task.task.labels.clone(),
            runs: settings.runs.unwrap_or(task.task.runs).max(1),
            at_most_seconds: worst_case(task).as_secs().saturating_add(1),
        })
    };
    plan.tasks.iter().map(task).collect()
}

/// What the units of a plan need that is not in the pack.
fn needs(plan: &EvalPlan, project: &dyn Files, files: &Contents) -> BTreeSet<Need> {
    let mut needs = BTreeSet::new();
    let mut need = |kind: &str, name: String| {
        needs.insert(Need { kind: kind.to_owned(), name });
    };
    let own = reach::of_eval(plan);
    let mut reach = reach::Reach::default();
    plan.tasks.iter().for_each(|task| reach.add(reach::of_task(task, Some(project))));
    for name in reach.env.iter().chain(&own.env) {
        need("variable", name.clone());
    }
    // A script is recognized by its name alone.
    let packed: BTreeSet<&str> = files.keys().filter_map(|path| path.rsplit('/').next()).collect();
    let elsewhere = |name: &&String| name.starts_with('/') || !name.contains('/') && !packed.contains(name.as_str());
    for name in reach.commands.iter().filter(elsewhere) {
        need("command", name.clone());
    }
    for path in reach.paths.iter().filter(|path| path.starts_with('/')) {
        need("path", path.clone());
    }
    for server in &plan.servers {
        let name = &server.name.value;
        match &server.transport {
            Transport::Stdio { command, .. } => {
                let command = command.display();
                let packed = normalize(&plan.dir.join(&command));
                // `gevals` is this program, wherever a unit is run.
                if command != "gevals" && !packed.to_str().is_some_and(|path| files.contains_key(path)) {
                    need("server", format!("{name}: the command `{command}`"));
                }
            }
            Transport::Http { url, .. } => need("server", format!("{name}: {}", url_only(&url.display()))),
        }
    }
    let agents = plan.tasks.first().and_then(|task| match &task.action(task.agent).kind {
        ActionKind::Agent(agent) => Some(&agent.kind),
        _ => None,
    });
    for kind in agents.into_iter().chain(plan.judge.as_ref().map(|judge| &judge.kind)) {
        match kind {
            AgentKind::Acp(agent) => need("agent", format!("the command `{}`", agent.command.value)),
            AgentKind::ClaudeCode { .. } => need("agent", "the command `claude`".to_owned()),
            AgentKind::Model(model) => {
                need("agent", format!("the model `{}:{}`", model.provider.name(), model.model));
                if let Some(key) = &model.api_key {
                    need("variable", key.value.clone());
                }
            }
            AgentKind::Shell(_) => need("agent", format!("what the shell of `{}` runs", plan.agent_name)),
            AgentKind::Noop | AgentKind::Script { .. } | AgentKind::Replay { .. } | AgentKind::Unspecified => {}
        }
    }
    if let Some(env) = plan.judge.as_ref().and_then(|judge| judge.env.as_ref()) {
        [&env.base_url, &env.api_key, &env.model_name]
            .into_iter()
            .flatten()
            .for_each(|name| need("variable", name.value.clone()));
    }
    let clusters = ["kubectl", "helm", "oc", "kustomize"];
    let mut cluster = clusters.iter().any(|command| reach.commands.contains(*command));
    for (name, reference) in reach::extensions(plan) {
        match package(&reference, plan.extensions.substitute) {
            Ok(Package::Bundled(_)) => cluster |= plan.world.is_none(),
            Ok(Package::Local(path)) => {
                let dir = plan.extensions.get(&name).map_or_else(|| plan.dir.clone(), |declared| declared.dir.clone());
                let path = resolve(&dir, &path);
                if !files.keys().any(|file| Path::new(file).starts_with(&path)) {
                    need("extension", reference);
                }
            }
            Ok(Package::Release { .. }) => need("extension", reference),
            Err(_) => {}
        }
    }
    match plan.world {
        Some(_) => need("cluster", "the programs of a control plane (`world: kube`)".to_owned()),
        None if cluster => need("cluster", "a kubeconfig".to_owned()),
        None => {}
    }
    needs
}

/// The URL without user, query and fragment.
fn url_only(url: &str) -> String {
    let url = url.split(['?', '#']).next().unwrap_or_default();
    match (url.split_once("://"), url.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, rest))) => format!("{scheme}://{rest}"),
        _ => url.to_owned(),
    }
}

/// Refuses files that contain a secret of the environment, a plain-text secret of a config, or anything in the format
/// of a token.
fn secrets(ready: &[(Combination, Ready)], files: &Contents) -> Result<(), String> {
    let literal = ready
        .iter()
        .flat_map(|(_, ready)| wire::eval_secrets(&ready.plan).into_iter().filter(|value| looks_secret(value)));
    let secrets = Secrets::new(environment_secrets().into_iter().chain(literal));
    for (path, (bytes, _)) in files {
        let text = String::from_utf8_lossy(bytes);
        for (nth, line) in text.lines().enumerate() {
            if matches!(secrets.mask(line), std::borrow::Cow::Owned(_)) {
                return Err(format!(
                    "`{path}`, line {}, contains a plain-text secret, but packs are shared: read it from the environment, \
                     `${{NAME}}` or `{{env.NAME}}`",
                    nth + 1
                ));
            }
        }
        if matches!(secrets.mask(&text), std::borrow::Cow::Owned(_)) {
            return Err(format!(
                "`{path}` contains a plain-text secret, but packs are shared: read it from the environment"
            ));
        }
    }
    Ok(())
}

/// The files of a pack.
struct Closure<'a> {
    project: &'a Within,
    root: &'a Path,
    found: BTreeSet<PathBuf>,
    /// Texts that have not been searched yet.
    open: VecDeque<PathBuf>,
    /// Paths that texts name but that are only packed with `--include`.
    left_out: BTreeSet<PathBuf>,
    listed: Listed<'a>,
    contents: HashMap<PathBuf, Vec<u8>>,
}

/// Larger files are data, not texts.
const LONGEST_TEXT: usize = 1 << 20;
const DEEPEST: usize = 32;
/// The kind of a need: a file or directory that is named but not packed.
const FILE: &str = "file";
/// Directories of git and gevals: what texts say about them does not concern the eval.
const OWN: [&str; 2] = [".git", ".gevals"];

impl<'a> Closure<'a> {
    fn new(project: &'a Within, root: &'a Path) -> Self {
        let (found, open, left_out) = (BTreeSet::new(), VecDeque::new(), BTreeSet::new());
        Self { project, root, found, open, left_out, listed: Listed::new(project), contents: HashMap::new() }
    }

    /// Adds what the compiler asked for, and what a run needs although a plan can be made without it.
    fn of(&mut self, ready: &Ready) {
        for path in &ready.asked {
            self.add_file(path);
        }
        let plan = &ready.plan;
        for server in &plan.servers {
            if let Transport::Stdio { command, args, .. } = &server.transport {
                for word in args.iter().chain([command]).filter(|word| !word.has_variables()) {
                    self.add_file(&resolve(&plan.dir, &word.display()));
                }
            }
        }
        for task in &plan.tasks {
            let ActionKind::Agent(agent) = &task.action(task.agent).kind else { continue };
            for path in agent.skills.iter().flat_map(|skills| &skills.sources).chain(&agent.recorded) {
                self.add(path);
            }
            match &agent.kind {
                AgentKind::Acp(acp) => {
                    for word in acp.args.iter().chain([&acp.command]) {
                        self.add_file(&resolve(&acp.dir, &word.value));
                    }
                }
                AgentKind::Replay { path } => {
                    self.add(path);
                }
                _ => {}
            }
        }
        for (name, reference) in reach::extensions(plan) {
            if let Ok(Package::Local(path)) = package(&reference, plan.extensions.substitute) {
                let dir = plan.extensions.get(&name).map_or_else(|| plan.dir.clone(), |declared| declared.dir.clone());
                self.add(&resolve(&dir, &path));
            }
        }
        while let Some(text) = self.open.pop_front() {
            self.look_into(&text);
        }
    }

    /// Adds a file, or everything in a directory that is not hidden, generated or installed. Returns whether it exists.
    fn add(&mut self, path: &Path) -> bool {
        match self.project.stat(path) {
            Some(Stat::Dir) => {
                self.add_folder(&normalize(path), 0);
                true
            }
            Some(Stat::File { .. }) => self.add_file(path),
            None => false,
        }
    }

    fn add_file(&mut self, path: &Path) -> bool {
        let path = normalize(path.strip_prefix(self.root).unwrap_or(path));
        if !matches!(self.project.stat(&path), Some(Stat::File { .. })) {
            return false;
        }
        if self.found.insert(path.clone()) {
            self.open.push_back(path);
        }
        true
    }

    fn add_folder(&mut self, dir: &Path, depth: usize) {
        if depth > DEEPEST {
            return;
        }
        for (name, is_dir) in self.project.entries(dir).iter() {
            let path = if dir == Path::new(".") { PathBuf::from(name) } else { dir.join(name) };
            match is_dir {
                _ if name.starts_with('.') || is_made(name) => {}
                true if !is_written(name) => {}
                true => self.add_folder(&path, depth + 1),
                false => {
                    self.add_file(&path);
                }
            }
        }
    }

    /// Adds what a text names. Hidden, generated and installed files are only listed; packs and results are ignored.
    fn look_into(&mut self, text: &Path) {
        let Ok(bytes) = self.project.read(text) else { return };
        let dir = text.parent().unwrap_or(Path::new(""));
        if let (Ok(content), true) = (str::from_utf8(&bytes), bytes.len() <= LONGEST_TEXT) {
            for (path, is_dir) in mentions(content, dir, &self.listed) {
                let written = |part: &Path| part.file_name().is_none_or(|name| is_written(&name.to_string_lossy()));
                // For generated or installed files, their directory.
                let hidden = path.ancestors().filter(|part| !written(part)).last().map(|part| {
                    if part.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.')) {
                        path.as_path()
                    } else {
                        part
                    }
                });
                if path.file_name().is_some_and(|name| is_made(&name.to_string_lossy())) {
                    continue;
                }
                if let Some(hidden) = hidden {
                    self.left_out.insert(hidden.to_owned());
                    continue;
                }
                match is_dir {
                    true => self.add_folder(&path, 0),
                    false => drop(self.add_file(&path)),
                }
            }
        }
        self.contents.insert(text.to_owned(), bytes);
    }

    /// The files with their contents. Files whose names suggest a secret are only accepted if they are `meant`.
    fn read(mut self, meant: &[PathBuf]) -> Result<(Contents, BTreeSet<Need>), String> {
        while let Some(text) = self.open.pop_front() {
            self.look_into(&text);
        }
        let mut files = Contents::new();
        for path in &self.found {
            let shown = plain(path).map_err(|(_, why)| why)?;
            if tells_a_secret(&shown) && !meant.contains(path) {
                return Err(format!(
                    "`{shown}` would be packed, but its name suggests a secret: if it contains none, add `--include {shown}`; \
                     otherwise, read the secret from the environment"
                ));
            }
            let executable = self.project.stat(path) == Some(Stat::File { executable: true });
            let bytes = match self.contents.remove(path) {
                Some(bytes) => bytes,
                None => self.project.read(path).map_err(|why| format!("cannot read `{shown}`: {why}"))?,
            };
            files.insert(shown, (bytes, executable));
        }
        let is_packed = |path: &Path| files.keys().any(|file| Path::new(file).starts_with(path));
        let absent = self.left_out.iter().filter(|path| !is_packed(path));
        let needs = absent.filter_map(|path| self.need(path)).collect();
        pack::too_much(&files).map_or(Ok((files, needs)), |why| Err(format!("the eval refers to {why}")))
    }

    /// A file or directory that must exist; for an `.env` file, with the names of its variables.
    fn need(&self, path: &Path) -> Option<Need> {
        let shown = plain(path).ok().filter(|path| !OWN.iter().any(|own| path.split('/').any(|part| part == *own)))?;
        let is_env = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(".env"));
        let text = if is_env { self.project.read(path).unwrap_or_default() } else { Vec::new() };
        let text = String::from_utf8_lossy(&text);
        // Nothing that may be part of a value is accepted as a name.
        let variable = |line: &str| {
            let name = line.trim_start().trim_start_matches("export ").split_once('=')?.0.trim().to_owned();
            let is_name = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
            (!name.is_empty() && name.len() <= 60 && name.chars().all(is_name)).then_some(name)
        };
        let lines = text.lines().take_while(|line| !line.contains("-----BEGIN"));
        let variables: Vec<String> = lines.filter_map(variable).collect();
        let sets = if variables.is_empty() { String::new() } else { format!(", with {}", variables.join(", ")) };
        Some(Need { kind: FILE.to_owned(), name: format!("{shown}{sets}") })
    }
}

/// Whether this is the name of a file that gevals writes: a pack or results.
fn is_made(name: &str) -> bool {
    name.ends_with(".gevals") || name.starts_with("gevals-") && name.contains("-out.")
}

/// Whether files with this name usually contain secrets.
fn tells_a_secret(path: &str) -> bool {
    const NAMES: [&str; 12] = [
        ".env",
        ".netrc",
        ".npmrc",
        ".pypirc",
        ".git-credentials",
        ".dockerconfigjson",
        "kubeconfig",
        "credentials",
        "credentials.json",
        "id_rsa",
        "id_ed25519",
        "id_ecdsa",
    ];
    const ENDINGS: [&str; 7] = [".pem", ".key", ".p12", ".pfx", ".kubeconfig", ".jks", ".keystore"];
    let name = path.rsplit('/').next().unwrap_or(path).to_ascii_lowercase();
    NAMES.contains(&name.as_str()) || name.starts_with(".env.") || ENDINGS.iter().any(|ending| name.ends_with(ending))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_that_indicate_a_secret() {
        for name in [".env", "a/.env.local", "tls/server.KEY", "x/kubeconfig", "id_rsa"] {
            assert!(tells_a_secret(name), "{name}");
        }
        for name in ["a/env.sh", "keys.yaml", "monkey", "id_rsa.pub", "kubeconfig.md"] {
            assert!(!tells_a_secret(name), "{name}");
        }
    }

    #[test]
    fn urls_are_printed_without_credentials() {
        assert_eq!(url_only("https://me:pw@host/mcp?key=1"), "https://host/mcp");
        assert_eq!(url_only("http://localhost:1/mcp"), "http://localhost:1/mcp");
    }
}
