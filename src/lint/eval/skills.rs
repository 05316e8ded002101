//! Skills that no agent receives, and assertions about skills whose result is the same in every run.

use std::{collections::BTreeSet, path::Path};

use regex::Regex;
use serde_json::json;

use crate::{
    diagnostic::{Diagnostic, Diagnostics, Strength, nearest},
    hir::{Agent, Assertion, AssertionKind, Eval, SkillMatcher},
    lint::{EvalView, ProjectView},
    project::{EvalUnit, folder},
    rule,
    source::Files,
};

rule! {
    pub static SKILLS_WITHOUT_SOURCES = "skills-without-sources", Verdict;
    pub static SKILLS_NOT_TAKEN = "skills-not-taken", Warning;
    pub static SKILLS_NOT_SEEN = "skills-not-seen", Verdict;
    pub static UNKNOWN_SKILL = "unknown-skill", Verdict;
}

/// The maximum depth of the search for skills in a directory.
const DEPTH: usize = 8;

fn has_sources(eval: &Eval) -> bool {
    eval.skills.as_ref().is_some_and(|skills| !skills.sources.is_empty())
}

fn assertions(eval: &Eval) -> impl Iterator<Item = (&Assertion, &[SkillMatcher])> {
    let items = eval.task_sets.iter().filter_map(|set| set.assertions.as_ref()).flat_map(|a| &a.items);
    items.filter_map(|item| match &item.kind {
        AssertionKind::SkillsLoaded(skills) | AssertionKind::SkillsNotLoaded(skills) => Some((item, skills.as_slice())),
        _ => None,
    })
}

/// Without skill sources, no skill is ever loaded (`tests/coverage.md` E7).
pub fn without(view: &EvalView<'_>, out: &mut Diagnostics) {
    if has_sources(view.eval) {
        return;
    }
    for (item, _) in assertions(view.eval) {
        out.push(
            Diagnostic::new(
                &SKILLS_WITHOUT_SOURCES,
                item.key.span,
                format!("`{}` has no effect: no skills are configured", item.key.value),
            )
            .label(
                view.eval.skills.as_ref().map_or(view.eval.config, |s| s.span),
                "no skill sources are configured here",
            )
            .help("add `skills: {sources: [{type: path, path: FOLDER}]}` to the eval's config"),
        );
    }
}

/// An agent that does not declare how it receives skills gets none.
pub fn taken(view: &EvalView<'_>, out: &mut Diagnostics) {
    let (Some(skills), Some(agent)) = (&view.eval.skills, &view.eval.agent) else { return };
    if skills.sources.is_empty() || view.unit.skills().is_some() {
        return;
    }
    let help = match agent.kind.value.as_str() {
        "file" => "add `skills: {mountPath: …, toolName: …}` to the agent file, or use `builtin.claude-code`",
        _ => "only agent files with `skills` and `builtin.claude-code` support skills",
    };
    let name = name(view.unit);
    let message = format!("the agent `{name}` does not support skills, so it receives none");
    let mut diagnostic =
        Diagnostic::new(&SKILLS_NOT_TAKEN, skills.span, message).label(agent.span, "this agent").help(help);
    if let Some((item, _)) = assertions(view.eval).next() {
        diagnostic =
            diagnostic.label(item.key.span, "this assertion is broken in every run").strength(Strength::Verdict);
    }
    out.push(diagnostic);
}

/// A command-line agent does not report which skills it loads.
pub fn seen(view: &EvalView<'_>, out: &mut Diagnostics) {
    let Some(Agent { builtin: None, acp: None, commands: Some(_), .. }) = &view.unit.agent else { return };
    if !has_sources(view.eval) || view.unit.skills().is_none() {
        return;
    }
    for (item, _) in assertions(view.eval) {
        let message = format!(
            "`{}` is broken in every run: the agent `{}` is a command line, which does not report the skills it loads",
            item.key.value,
            name(view.unit)
        );
        let mut diagnostic = Diagnostic::new(&SKILLS_NOT_SEEN, item.key.span, message);
        if let Some(agent) = &view.eval.agent {
            diagnostic = diagnostic.label(agent.span, "this agent");
        }
        out.push(diagnostic.help("use this assertion with an ACP agent or `builtin.claude-code`, or remove it"));
    }
}

/// The name in the agent file, or else the reference to the agent.
fn name(unit: &EvalUnit) -> String {
    let own = unit.agent.as_ref().and_then(|agent| agent.name.as_ref());
    let reference = unit.eval.as_ref().and_then(|eval| eval.agent.as_ref());
    let referred = reference.map(|r| r.path.as_ref().unwrap_or(&r.kind));
    own.or(referred).map_or_else(String::new, |name| name.value.clone())
}

/// A skill that does not exist in any source.
pub fn known(view: &ProjectView<'_>, out: &mut Diagnostics) {
    for unit in &view.project.evals {
        let Some(eval) = unit.eval.as_ref().filter(|eval| has_sources(eval)) else { continue };
        let Some((mount, _)) = unit.skills() else { continue };
        if assertions(eval).next().is_none() {
            continue;
        }
        let mut names = BTreeSet::new();
        for source in eval.skills.iter().flat_map(|skills| &skills.sources) {
            collect(view.files, &folder(&eval.dir, &source.value), 0, &mut names);
        }
        for item in assertions(eval).flat_map(|(_, items)| items) {
            out.extend(unknown(item, mount, &names));
        }
    }
}

fn unknown(item: &SkillMatcher, mount: &str, names: &BTreeSet<String>) -> Option<Diagnostic> {
    let listed = match names.len() {
        0 => "the eval's sources contain no skill: a skill is a directory with a `SKILL.md`".to_owned(),
        _ => {
            format!(
                "skills in the eval's sources: {}",
                names.iter().map(|n| format!("`{n}`")).collect::<Vec<_>>().join(", ")
            )
        }
    };
    if let Some(skill) = &item.skill {
        // Agents prefix a plugin's skill with the plugin's name.
        let own = skill.value.rsplit([':', '/']).next().unwrap_or_default();
        if names.contains(own) {
            return None;
        }
        let message = format!("the skill `{}` does not exist in any source", skill.value);
        let diagnostic = Diagnostic::new(&UNKNOWN_SKILL, skill.span, message).help(listed);
        return Some(match nearest(&skill.value, names.iter().map(String::as_str)) {
            Some(near) => {
                diagnostic.here(format!("did you mean `{near}`?")).fix(format!("write `{near}`"), skill.span, near)
            }
            None => diagnostic,
        });
    }
    let pattern = item.pattern.as_ref()?;
    // A pattern for the format of the agent's calls can mean anything.
    if pattern.value.contains(['"', '{', ':', '\\', '/']) {
        return None;
    }
    let regex = Regex::new(&pattern.value).ok()?;
    let matches = names.iter().any(|name| {
        let file = format!("{mount}/{name}/SKILL.md");
        [json!({ "skill": name }), json!({ "command": name }), json!({ "path": file })]
            .iter()
            .any(|input| regex.is_match(&input.to_string()))
    });
    let message = format!("the pattern `{}` does not match any call that loads a skill of the sources", pattern.value);
    let help =
        format!("it is matched against the JSON arguments of the call, such as `{{\"skill\": \"NAME\"}}`; {listed}");
    (!matches).then(|| Diagnostic::new(&UNKNOWN_SKILL, pattern.span, message).help(help))
}

/// Collects the names of directories with a `SKILL.md`, and the names in these files.
fn collect(files: &dyn Files, dir: &Path, depth: usize, names: &mut BTreeSet<String>) {
    if depth > DEPTH {
        return;
    }
    for (name, is_dir) in files.entries(dir).iter() {
        let path = dir.join(name);
        if *is_dir {
            collect(files, &path, depth + 1, names);
        } else if name.eq_ignore_ascii_case("SKILL.md") {
            names.extend(dir.file_name().map(|name| name.to_string_lossy().into_owned()));
            let text = files.read(&path).unwrap_or_default();
            let text = String::from_utf8_lossy(&text);
            let head = text.strip_prefix("---").and_then(|rest| Some(rest.split_once("\n---")?.0));
            let own = head.into_iter().flat_map(str::lines).find_map(|line| line.strip_prefix("name:"));
            names.extend(own.map(|name| name.trim().trim_matches(['"', '\'']).to_owned()));
        }
    }
}
