//! `gevals run --preflight`: checks that everything a run needs is available, and runs no task.

use std::{collections::BTreeSet, time::Duration};

use super::{complain, print, status};
use crate::{
    builtin::count,
    extension::startable,
    host::{Host, RealHost, absent},
    mcp::{ClientOptions, Hub, HubOptions, SessionKind},
    plan::{ActionKind, AgentKind, EvalPlan, Plan},
    run::{self, RunOptions, needs},
};

/// The result of a check. An error says what is wrong.
struct Look {
    what: String,
    found: Result<String, String>,
}

pub fn main(plan: &EvalPlan, selected: &[usize], options: &RunOptions) -> u8 {
    let tasks: Vec<_> = selected.iter().map(|index| &plan.tasks[*index]).collect();
    let tasks = tasks.as_slice();
    let host = RealHost::new();
    let mut looks = Vec::new();
    commands(tasks, &host, &mut looks);
    variables(tasks, &host, &mut looks);
    agent(plan, tasks, &host, &mut looks);
    if let Some(found) = run::foreseen(plan, options, selected, &host).transpose() {
        looks.push(Look { what: "isolation of the agent".to_owned(), found });
    }
    judge(plan, tasks, &host, &mut looks);
    extensions(plan, tasks, &mut looks);
    if plan.world.is_some() {
        let found = run::clusters::startable().map(|()| "its programs are installed".to_owned());
        looks.push(Look { what: "a Kubernetes control plane".to_owned(), found });
    }
    if let Err(error) = servers(plan, tasks, &host, options.server_timeout, &mut looks) {
        complain(&error);
        return status::BROKEN;
    }
    let width = looks.iter().map(|look| look.what.chars().count()).max().unwrap_or(0);
    for look in &looks {
        let (sign, text) = match &look.found {
            Ok(text) => ("ok     ", text),
            Err(text) => ("missing", text),
        };
        print(&format!("{sign} {:width$}  {}\n", look.what, text.trim_end().replace('\n', "\n        ")));
    }
    let unset = unset(tasks, &host);
    if !unset.is_empty() {
        print(&format!("not set, but possibly optional for scripts and holes: {}\n", unset.join(", ")));
    }
    let missing = looks.iter().filter(|look| look.found.is_err()).count();
    if missing == 0 {
        print(&format!("everything is available for {}\n", count(tasks.len(), "task", "tasks")));
        status::OK
    } else {
        print(&format!("{} missing\n", count(missing, "item is", "items are")));
        status::BROKEN
    }
}

fn commands(tasks: &[&Plan], host: &RealHost, looks: &mut Vec<Look>) {
    let mut names: Vec<_> = tasks.iter().flat_map(|t| &t.commands).map(|name| name.value.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    for name in names {
        let found = host.which(name).map(|path| path.display().to_string());
        let found = found.ok_or_else(|| format!("it {}", absent(name)));
        looks.push(Look { what: format!("command `{name}`"), found });
    }
}

fn variables(tasks: &[&Plan], host: &RealHost, looks: &mut Vec<Look>) {
    let mut names: Vec<_> =
        tasks.iter().flat_map(|t| &t.process_env).filter(|(_, v)| v.required).map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    for name in names {
        let found = host.env(name).map(|_| "it is set".to_owned()).ok_or_else(|| "it is not set".to_owned());
        looks.push(Look { what: format!("variable `{name}`"), found });
    }
}

/// Optional variables that are not set.
fn unset<'p>(tasks: &[&'p Plan], host: &RealHost) -> Vec<&'p str> {
    let read = tasks.iter().flat_map(|task| &task.process_env);
    let mut names: Vec<_> = read.filter(|(_, v)| !v.required).map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    names.retain(|name| host.env(name).is_none());
    names
}

fn agent(plan: &EvalPlan, tasks: &[&Plan], host: &RealHost, looks: &mut Vec<Look>) {
    let Some(task) = tasks.first() else { return };
    let ActionKind::Agent(action) = &task.action(task.agent).kind else { return };
    looks.push(Look { what: format!("agent `{}`", plan.agent_name), found: there(&action.kind, host) });
}

/// Checks the judge, if any task uses it.
fn judge(plan: &EvalPlan, tasks: &[&Plan], host: &RealHost, looks: &mut Vec<Look>) {
    let Some(judge) = plan.judge.as_ref().filter(|_| tasks.iter().any(|task| task.judgements() > 0)) else { return };
    let found = match judge.resolved(&|name| host.env(name)) {
        Ok(judge) => match &judge.kind {
            kind @ AgentKind::Shell(_) => there(kind, host),
            _ => needs::judges(&judge, host),
        },
        Err(unset) => Err(unset.join("; ")),
    };
    looks.push(Look { what: format!("judge `{}`", judge.title()), found });
}

/// Checks what an agent needs. For a shell's command line, that is its first word.
fn there(kind: &AgentKind, host: &RealHost) -> Result<String, String> {
    if let AgentKind::Shell(agent) = kind
        && let Some(line) = &agent.run_prompt
        && let Some(word) = program(&line.value)
        && word.chars().all(|c| c.is_alphanumeric() || "_-./+".contains(c))
    {
        return match host.which(&word) {
            Some(path) => Ok(path.display().to_string()),
            None => Err(format!("`{word}`, the first word of its command line, {}", absent(&word))),
        };
    }
    needs::agent(kind, host)
}

/// The first word of a command line that is not an assignment; `None` for words of the shell itself.
fn program(line: &str) -> Option<String> {
    const OWN: [&str; 12] =
        ["if", "for", "while", "case", "cd", "set", "export", "exec", "echo", "printf", "test", "eval"];
    let line = line.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'))?;
    let word = line.split_whitespace().find(|word| !word.contains('='))?;
    (!OWN.contains(&word)).then(|| word.to_owned())
}

fn extensions(plan: &EvalPlan, tasks: &[&Plan], looks: &mut Vec<Look>) {
    let executable = std::env::current_exe().ok();
    let mut seen = BTreeSet::new();
    for task in tasks {
        for package in needs::extensions(task).into_keys().filter(|package| seen.insert(package.clone())) {
            let found = startable(&plan.extensions, &package, task.task.folder(), executable.as_deref());
            let reference = plan.extensions.reference(&package);
            let found = found.map(|()| reference.to_owned()).map_err(|why| format!("`{reference}` {why}"));
            looks.push(Look { what: format!("extension `{package}`"), found });
        }
    }
}

fn servers(
    plan: &EvalPlan,
    tasks: &[&Plan],
    host: &RealHost,
    timeout: Duration,
    looks: &mut Vec<Look>,
) -> Result<(), String> {
    let executable = std::env::current_exe().ok();
    if plan.world.is_some() {
        let found = || Ok("not started: it needs the control plane of a run".to_owned());
        let names = plan.servers.iter().map(|server| format!("server `{}`", server.name.value));
        looks.extend(names.map(|what| Look { what, found: found() }));
        return Ok(());
    }
    let (specs, _) = match run::specs(&plan.servers, &plan.dir, host, executable.as_ref()) {
        Ok(specs) => specs,
        Err(faults) => {
            looks.extend(faults.into_iter().map(|why| Look { what: "servers".to_owned(), found: Err(why) }));
            return Ok(());
        }
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("cannot start: {error}"))?;
    for (name, (spec, _)) in specs {
        let found = runtime.block_on(async {
            let options = HubOptions { initialize_timeout: timeout, ..HubOptions::default() };
            let hub = Hub::start(spec, options).await.map_err(|e| e.to_string())?;
            let options = ClientOptions { timeout: Some(timeout), ..ClientOptions::default() };
            let client = hub.client(SessionKind::Own, options).await.map_err(|e| e.to_string())?;
            let tools = client.list_tools().await.map_err(|e| e.to_string())?;
            let version = client.server().and_then(|s| s.pointer("/serverInfo/version")?.as_str().map(str::to_owned));
            drop(client);
            hub.close().await;
            let version = version.map_or_else(String::new, |version| format!("version {version}, "));
            let listed =
                tools.iter().filter_map(|tool| Some(tool.get("name")?.as_str()?.to_owned())).collect::<Vec<_>>();
            Ok((format!("{version}{}", count(tools.len(), "tool", "tools")), listed))
        });
        let listed = found.as_ref().map(|(_, listed)| listed.clone()).unwrap_or_default();
        let there = found.is_ok();
        looks.push(Look { what: format!("server `{name}`"), found: found.map(|(text, _)| text) });
        for task in tasks.iter().filter(|_| there) {
            let missing = needs::unlisted(task, &name, &listed);
            let look = |why| Look { what: format!("task `{}`", task.task.name.value), found: Err(format!("it {why}")) };
            looks.extend(missing.into_iter().map(look));
        }
    }
    runtime.shutdown_timeout(Duration::from_millis(200));
    Ok(())
}
