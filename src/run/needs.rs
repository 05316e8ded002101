//! What a run needs of this machine and of this build, checked before anything is set up (`decisions.md` §13).

use std::{collections::BTreeMap, path::Path};

use indexmap::{IndexMap, IndexSet};

use super::Only;
use crate::{
    diagnostic::nearest,
    extension::startable,
    hir::OperationKind,
    host::{Host, absent},
    plan::{self, ActionKind, AgentKind, EvalPlan, Judge, Plan},
    step::no_such_tool,
};

/// What tasks lack, by the task's index in the plan; each item is a predicate: `needs the command `x`, which is not on the PATH`.
#[derive(Default)]
pub(super) struct Lacks(IndexMap<usize, Vec<String>>);

impl Lacks {
    pub fn add(&mut self, task: usize, whys: Vec<String>) {
        if !whys.is_empty() {
            self.0.entry(task).or_default().extend(whys);
        }
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Why a task cannot run.
    pub fn of(&self, task: usize) -> Option<String> {
        self.0.get(&task).map(|whys| format!("it {}", whys.join("; it ")))
    }

    /// Whether every one of these tasks lacks something.
    pub fn are_of_all(&self, tasks: &[usize]) -> bool {
        tasks.iter().all(|task| self.0.contains_key(task))
    }

    /// Returns one line per thing that is lacking.
    pub fn lines(&self, plan: &EvalPlan) -> Vec<String> {
        let mut tasks: IndexMap<&str, Vec<usize>> = IndexMap::new();
        for (task, whys) in &self.0 {
            whys.iter().for_each(|why| tasks.entry(why).or_default().push(*task));
        }
        let line = |(why, tasks): (&str, Vec<usize>)| {
            let name = tasks.first().map_or("", |&task| plan.tasks[task].task.name.value.as_str());
            match tasks.len() {
                0 | 1 => format!("task `{name}` {why}"),
                2 => format!("task `{name}`, and another one, {why}"),
                n => format!("task `{name}`, and {} others, {why}", n - 1),
            }
        };
        tasks.into_iter().map(line).collect()
    }
}

/// What a task lacks, as far as that can be determined on this machine without starting anything.
pub(super) fn of_task(
    plan: &Plan,
    host: &dyn Host,
    judge: &Asked,
    declared: &plan::Extensions,
    executable: Option<&Path>,
    only: Option<Only>,
) -> Vec<String> {
    let mut whys = Vec::new();
    for (name, variable) in &plan.process_env {
        if variable.required && host.env(name).is_none() {
            whys.push(format!("needs the environment variable `{name}`, which is not set"));
        }
    }
    for command in plan.commands.iter().filter(|c| host.which(&c.value).is_none()) {
        whys.push(format!("requires `{}`, which {}", command.value, absent(&command.value)));
    }
    for (package, operation) in extensions(plan) {
        if let Err(why) = startable(declared, &package, plan.task.folder(), executable) {
            let reference = declared.reference(&package);
            whys.push(format!("runs `{operation}`, and `{reference}` {why}"));
        }
    }
    if plan.judgements() > 0
        && only != Some(Only::Setup)
        && let Err(why) = judge
    {
        whys.push(why.clone());
    }
    whys
}

/// The extensions that a task uses, each with one of its operations.
pub fn extensions(plan: &Plan) -> BTreeMap<String, String> {
    let mut names = BTreeMap::new();
    plan.walk(&mut |_, _, action| {
        let ActionKind::Step(step) = &action.kind else { return };
        let package = match &step.op.kind {
            OperationKind::Extension { package, .. } => Some(package.as_str()),
            OperationKind::Builtin("extension") => {
                step.args.iter().find(|(key, _)| key.value == "package").and_then(|(_, value)| value.as_literal())
            }
            _ => None,
        };
        if let Some(package) = package {
            names.entry(package.to_owned()).or_insert_with(|| step.op.name.clone());
        }
    });
    names
}

/// The judge, or the predicate of a task that needs it.
pub(super) type Asked = Result<Judge, String>;

pub(super) fn judge(plan: &EvalPlan, host: &dyn Host) -> Asked {
    let Some(planned) = &plan.judge else {
        return Err("asks a judge, but the eval configures none".to_owned());
    };
    let cannot = |why: String| format!("asks the judge `{}`: {why}", planned.title());
    let judge = planned.resolved(&|name| host.env(name)).map_err(|unset| cannot(unset.join("; ")))?;
    judges(&judge, host).map_err(cannot)?;
    Ok(judge)
}

/// Describes what a judge runs on, if it is available.
///
/// # Errors
/// What is missing.
pub fn judges(judge: &Judge, host: &dyn Host) -> Result<String, String> {
    match &judge.kind {
        AgentKind::Noop | AgentKind::Replay { .. } | AgentKind::Unspecified => {
            Err("an agent without a model cannot judge".to_owned())
        }
        kind => agent(kind, host),
    }
}

/// Describes what an agent runs on, if it is available.
///
/// # Errors
/// What is missing.
pub fn agent(kind: &AgentKind, host: &dyn Host) -> Result<String, String> {
    match kind {
        AgentKind::Noop => Ok("it does nothing".to_owned()),
        AgentKind::Script { .. } | AgentKind::Replay { .. } => Ok("only its file is needed".to_owned()),
        AgentKind::Shell(_) => Ok("run by a shell".to_owned()),
        AgentKind::Model(model) => match crate::agent::endpoint(host, model) {
            Ok(url) => Ok(format!("{}:{} at {url}", model.provider.name(), model.model)),
            Err(why) => Err(why),
        },
        AgentKind::Acp(agent) => match host.which(&crate::agent::acp_program(agent).to_string_lossy()) {
            Some(path) => Ok(path.display().to_string()),
            None => Err(format!("`{}` {}", agent.command.value, absent(&agent.command.value))),
        },
        AgentKind::ClaudeCode { .. } => crate::agent::claude_code(host).map(|path| path.display().to_string()),
        AgentKind::Unspecified => Err("the eval specifies none".to_owned()),
    }
}

/// Returns, as predicates, the tools of a server that a task names and that the server does not list: those that steps call, and those in
/// assertions whose name is close to a listed one. Other tools in assertions may be listed to the agent only, because a server's list may
/// depend on the client's capabilities.
pub fn unlisted(plan: &Plan, server: &str, listed: &[String]) -> Vec<String> {
    let mut called = IndexSet::new();
    plan.walk(&mut |_, _, action| {
        if let ActionKind::Step(step) = &action.kind
            && let OperationKind::Tool { server: of, tool } = &step.op.kind
            && of == server
        {
            called.insert(tool.as_str());
        }
    });
    let asserted = plan.tools().into_iter().filter(|(of, _)| *of == server).map(|(_, tool)| tool);
    called.extend(asserted.filter(|tool| nearest(tool, listed.iter().map(String::as_str)).is_some()));
    let missing = called.into_iter().filter(|tool| !listed.iter().any(|listed| listed == tool));
    missing.map(|tool| format!("names {}", no_such_tool(server, tool, listed))).collect()
}
