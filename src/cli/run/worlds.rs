//! Kept environments: found for `--phase verify`, cleaned up by `--phase cleanup`, described to people.

use std::{collections::HashMap, path::Path, sync::Arc};

use super::{
    args::{Args, again},
    journals::{absolutely, note},
};
use crate::{
    bash,
    cli::{
        complain,
        recover::{What, name_of},
        shown, status,
    },
    journal::{self, Past, TaskPast},
    plan::EvalPlan,
    run::{KeptWorld, Selection},
};

/// The kept environments of the eval's tasks, the latest one of each task.
pub fn kept_worlds(args: &Args, plan: &EvalPlan) -> HashMap<String, Arc<TaskPast>> {
    let mut worlds = HashMap::new();
    for dir in journal::runs(&args.output_dir).iter().filter(|dir| !journal::is_closed(dir)) {
        let Ok((past, _)) = Past::read(dir) else { continue };
        if past.header.name == plan.name && !past.closed {
            let kept = past.tasks.into_iter().filter(|(_, of)| of.kept);
            worlds.extend(kept.map(|(task, of)| (task.name, Arc::new(of))));
        }
    }
    worlds
}

/// `--phase cleanup`: cleans up the kept environments of the selected tasks.
pub fn clean_up(args: &Args, plan: &EvalPlan, selection: &Selection) -> u8 {
    let names = names(plan, selection);
    let mut worst = None;
    for dir in journal::runs(&args.output_dir).iter().filter(|dir| !journal::is_closed(dir)) {
        let of_eval = Past::read(dir).is_ok_and(|(past, _)| {
            past.header.name == plan.name && past.tasks.iter().any(|(task, of)| of.kept && names.contains(&task.name))
        });
        if !of_eval {
            continue;
        }
        match absolutely(dir, &What { kept: true, only: Some(names.clone()) }) {
            Ok(exit) => worst = worst.max(exit),
            Err(refusal) => {
                complain(&format!("run `{}`: {refusal}", name_of(dir)));
                worst = worst.max(Some(status::BROKEN));
            }
        }
    }
    worst.unwrap_or_else(|| {
        complain("no environment of these tasks is kept");
        status::USAGE
    })
}

/// The names of the selected tasks.
pub fn names(plan: &EvalPlan, selection: &Selection) -> Vec<String> {
    selection.of(plan).into_iter().map(|index| plan.tasks[index].task.name.value.clone()).collect()
}

/// Prints how to enter, verify and clean up each kept environment.
pub fn tell_kept(args: &Args, plan: &EvalPlan, kept: &[KeptWorld], run: &str) {
    let (eval, flags) = again(args, plan);
    let eval = bash::quote(&eval);
    let flags: String = flags.iter().map(|flag| format!(" {}", bash::quote(flag))).collect();
    for world in kept {
        let name = &world.task.name;
        let task = bash::quote(&format!("^{}$", regex::escape(name)));
        let again = format!("gevals run {eval} --run {task}{flags}");
        note(&format!("the environment of `{name}` is kept:"));
        note(&format!("  enter    cd {}", bash::quote(&shown(&world.dir))));
        for (variable, value) in &world.env {
            note(&format!("           export {variable}={}", bash::quote(value)));
        }
        note(&format!("  verify   {again} --phase verify"));
        note(&format!("  clean up {again} --phase cleanup"));
    }
    if !kept.is_empty() {
        let dir = if args.output_dir == Path::new(".") { run.to_owned() } else { shown(&args.output_dir) };
        note(&format!("`gevals recover {}` cleans up everything of this run", bash::quote(&dir)));
    }
}
