//! Plans as calm text: what happens in which order, what feeds what, what is read, how long it can take.

use std::fmt::Write;

use owo_colors::{OwoColorize, Style};

use super::{Done, PlanFormat, View, expected, facts, label, line, rounds, substituted, uses, worst_case};
use crate::{
    builtin::{count, excerpt},
    event::Outcome,
    hir::{Dialect, Expand, ExpandPart, Isolation, Sandbox, Transport},
    lock::Permissions,
    plan::{Action, ActionIx, ActionKind, EvalPlan, Plan, PlanPhase, reach, wire},
    signature::Control,
    ty::duration,
};

pub const FORMAT: PlanFormat = PlanFormat { name: "tree", summary: "human-readable text", render };

/// More tasks than this get one line each.
const WHOLE: usize = 5;
/// Labels are lined up to this many columns.
const WIDEST: usize = 28;

fn render(views: &[View<'_>]) -> String {
    views.iter().map(one).collect::<Vec<_>>().join("\n")
}

fn one(view: &View<'_>) -> String {
    let mut tree = Tree { view, values: Vec::new(), out: String::new() };
    if let Some(eval) = view.eval {
        tree.eval(eval);
    }
    if view.expand || view.plans.len() <= WHOLE {
        for (i, plan) in view.plans.iter().enumerate() {
            if i > 0 || view.eval.is_some() {
                tree.out.push('\n');
            }
            tree.task(plan);
        }
    } else {
        tree.lines();
    }
    tree.out
}

struct Tree<'a> {
    view: &'a View<'a>,
    /// Of the loops around, where they are unrolled.
    values: Vec<(String, String)>,
    out: String,
}

/// Writing into a string cannot fail.
macro_rules! put {
    ($tree:expr, $($format:tt)*) => { let _ = writeln!($tree.out, $($format)*); };
}

impl Tree<'_> {
    fn eval(&mut self, eval: &EvalPlan) {
        put!(self, "{}  {}", self.strong(&eval.name), self.dim(&eval.path.display().to_string()));
        let model = eval.agent.as_ref().and_then(|a| a.model.as_ref()).map(|m| format!(", {}", m.value));
        self.fact("agent", &format!("{}{}", eval.agent_name, model.unwrap_or_default()));
        let servers: Vec<_> = eval
            .servers
            .iter()
            .map(|server| match &server.transport {
                Transport::Stdio { command, args, .. } => {
                    let words = std::iter::once(command).chain(args).map(Expand::display).collect::<Vec<_>>().join(" ");
                    let own = command.parts == [ExpandPart::Text("gevals".to_owned())];
                    format!("{} (`{words}`{})", server.name.value, if own { ", this program" } else { "" })
                }
                Transport::Http { url, .. } => format!("{} ({})", server.name.value, url.display()),
            })
            .collect();
        if !servers.is_empty() {
            self.fact("servers", &servers.join(self.dot()));
        }
        self.isolation(eval);
        let used = wire::used_extensions(eval);
        let extensions: Vec<_> = used
            .iter()
            .map(|used| {
                let means = used.bundled.as_ref().filter(|means| **means != used.package);
                let mut means = means.map(|means| format!(", which means `{means}`")).unwrap_or_default();
                if let Some(release) = used.release.as_ref().filter(|r| !used.package.ends_with(&format!("@{}", r.tag)))
                {
                    means = format!(" ({})", release.tag);
                }
                let name = if used.name == used.package { String::new() } else { format!("{}: ", used.name) };
                format!("{name}{}{means}", used.package)
            })
            .collect();
        if !extensions.is_empty() {
            self.fact("uses", &extensions.join(self.dot()));
            for used in &used {
                let words = |of: &Option<Permissions>| of.clone().unwrap_or_default().words();
                if used.asks.is_some() || used.grants.is_some() {
                    let (asks, grants) = (words(&used.asks), words(&used.grants));
                    self.fact("permits", &format!("{} asks for {asks}; it is granted {grants}", used.name));
                }
            }
            if eval.extensions.sandbox != Sandbox::None {
                self.fact("sandbox", &format!("{}, for extensions", eval.extensions.sandbox.name()));
            }
        }
        if let Some(world) = eval.world {
            self.fact("world", &format!("a disposable Kubernetes {} for each run of a task", world.phrase()));
        }
        let permitted = reach::of_eval(eval).permitted;
        if !permitted.is_empty() {
            self.fact("permits", &permitted.into_iter().collect::<Vec<_>>().join(self.dot()));
        }
        if let Some(judge) = &eval.judge {
            let asked: usize = self.view.plans.iter().map(Plan::judgements).sum();
            let asked = match asked {
                0 => "requested by no step".to_owned(),
                n => format!("requested by {}", count(n, "step", "steps")),
            };
            self.fact("judge", &format!("{}{}{asked}", judge.title(), self.dot()));
        }
        let mut limits = eval.budget.bounds.words();
        limits.extend(eval.budget.time.map(duration::format));
        if !limits.is_empty() {
            self.fact("limits", &format!("all tasks together may use {}", limits.join(self.dot())));
        }
        let beside = self.view.plans.iter().filter(|p| p.task.parallel).count();
        let alone = self.view.plans.len() - beside;
        let order = match (alone, beside) {
            (0, 0 | 1) | (1, 0) => String::new(),
            (_, 0) => ", one by one".to_owned(),
            (0, _) => ", side by side".to_owned(),
            _ => format!(": {alone} one by one, then {beside} side by side"),
        };
        self.fact("tasks", &format!("{}{order}", self.view.plans.len()));
        if let Some(earlier) = self.view.earlier
            && let (took, known @ 1..) = earlier.of(self.view.plans)
        {
            let known = if known == self.view.plans.len() { String::new() } else { format!(" for {known} of them") };
            self.fact("expect", &format!("{}{known}, as in `{}`", earlier.words(took), earlier.from));
        }
    }

    /// One line a task, in the order in which they run.
    fn lines(&mut self) {
        let name = |plan: &Plan| line(&plan.task.name.value, self.view.unicode);
        let width = self.view.plans.iter().map(|p| columns(&name(p))).max().unwrap_or(0).min(2 * WIDEST);
        for (title, parallel) in [("one by one", false), ("side by side", true)] {
            let plans: Vec<_> = self.view.plans.iter().filter(|p| p.task.parallel == parallel).collect();
            if plans.is_empty() {
                continue;
            }
            put!(self, "\n  {}", self.phase_style(title));
            for plan in plans {
                let name = line(&plan.task.name.value, self.view.unicode);
                let pad = " ".repeat(width.saturating_sub(columns(&name)));
                let mark = self.mark(self.view.task_done(plan));
                put!(self, "  {mark}{name}{pad}  {}", self.dim(&summary(plan, self.dot())));
            }
        }
    }

    /// What all of a task touches is gathered while its steps are written: there may be many of them.
    fn task(&mut self, plan: &Plan) {
        let view = self.view;
        let (facts, ()) = rayon::join(|| facts(plan, view), || self.steps(plan));
        for (name, values) in facts {
            self.fact(name, &values.join(self.dot()));
        }
    }

    fn steps(&mut self, plan: &Plan) {
        let task = &plan.task;
        let mut facts = vec![task.dialect.name().to_owned()];
        facts.extend(task.difficulty.clone());
        if task.parallel {
            facts.push("parallel".to_owned());
        }
        match task.gate {
            Some((passes, of)) => facts.push(format!("{passes} of {of} runs must pass")),
            None if task.runs > 1 => facts.push(count(task.runs as usize, "run", "runs")),
            None => {}
        }
        facts.push(task.path.display().to_string());
        let mark = self.mark(self.view.task_done(plan));
        put!(self, "{mark}{}  {}", self.strong(&task.name.value), self.dim(&facts.join(self.dot())));
        if task.unchecked {
            put!(self, "  {}", self.warn("no verify step and no assertion: it cannot pass"));
        }
        if let Some(says) = self.view.proof(plan, "") {
            self.fact("proof", &says);
        }
        for (i, (name, template)) in plan.env.iter().enumerate() {
            self.fact(if i == 0 { "env" } else { "" }, &format!("{name} = {}", excerpt(&wire::shown(name, template))));
        }
        self.phase(plan, PlanPhase::Setup);
        let agent = plan.action(plan.agent);
        let mark = self.mark(self.view.done(plan, agent));
        let notes = self.notes(plan, plan.agent, agent);
        put!(self, "  {mark}{}  {}{notes}", self.phase_style("agent"), line(&agent.meaning, self.view.unicode));
        if let ActionKind::Agent(turn) = &agent.kind {
            let prompt = excerpt(&turn.prompt.display());
            put!(self, "  {} {}", self.dim(self.last()), line(&format!("“{prompt}”"), self.view.unicode));
        }
        for phase in [PlanPhase::Verify, PlanPhase::Assert, PlanPhase::Cleanup] {
            self.phase(plan, phase);
        }
    }

    fn phase(&mut self, plan: &Plan, phase: PlanPhase) {
        let actions: Vec<_> = plan.members(phase).collect();
        if actions.is_empty() {
            return;
        }
        let note = match phase {
            PlanPhase::Cleanup if actions.len() > 1 && plan.task.dialect == Dialect::Portable => {
                "always, last made first undone"
            }
            PlanPhase::Cleanup => "always",
            PlanPhase::Verify if plan.task.parallel_verify && actions.len() > 1 => "side by side",
            _ => "",
        };
        let note = if note.is_empty() { String::new() } else { format!("  {}", self.dim(note)) };
        put!(self, "  {}{note}", self.phase_style(phase.name()));
        self.actions(plan, &actions, phase.name(), "  ");
    }

    fn actions(&mut self, plan: &Plan, actions: &[ActionIx], above: &str, indent: &str) {
        let name = |ix: ActionIx| line(label(plan.action(ix), above), self.view.unicode);
        let width = actions.iter().map(|&ix| columns(&name(ix))).max().unwrap_or(0).min(WIDEST);
        for (i, &ix) in actions.iter().enumerate() {
            let last = i + 1 == actions.len();
            let action = plan.action(ix);
            let name = line(label(action, above), self.view.unicode);
            let pad = " ".repeat(width.saturating_sub(columns(&name)));
            let branch = self.dim(if last { self.last() } else { self.tee() });
            let mark = self.mark(self.view.done(plan, action));
            let meaning = line(&substituted(&action.meaning, &self.values), self.view.unicode);
            let notes = self.notes(plan, ix, action);
            put!(self, "{indent}{branch} {mark}{}{pad}  {meaning}{notes}", self.strong(&name));
            let inner: Vec<_> = plan.nested(ix).collect();
            if inner.is_empty() {
                continue;
            }
            let below = format!("{indent}{}", self.bars(last));
            let Some((var, values)) = rounds(self.view, action) else {
                self.actions(plan, &inner, &action.id, &below);
                continue;
            };
            let above = below;
            for (i, value) in values.iter().enumerate() {
                let last = i + 1 == values.len();
                let branch = self.dim(if last { self.last() } else { self.tee() });
                let round = line(&format!("{var} = {}", excerpt(value)), self.view.unicode);
                let below = format!("{above}{}", self.bars(last));
                put!(self, "{above}{branch} {}", self.phase_style(&round));
                self.values.push((var.clone(), value.clone()));
                self.actions(plan, &inner, &action.id, &below);
                self.values.pop();
            }
        }
    }

    /// What is unusual about an action, and what it uses.
    fn notes(&self, plan: &Plan, ix: ActionIx, action: &Action) -> String {
        let mut notes = Vec::new();
        let done = self.view.done(plan, action).filter(|done| done.outcome != Outcome::Skipped);
        if let Some(took) = done.and_then(|done| done.duration) {
            notes.push(format!("took {}", duration::format(took)));
        }
        if let Some(says) = self.view.proof(plan, &action.id) {
            // Which these are is on the page.
            notes.push(says.split(':').next().unwrap_or_default().to_owned());
        }
        notes.extend(expected(action));
        let uses = uses(plan, ix);
        if !uses.is_empty() {
            notes.push(format!("uses {}", uses.join(", ")));
        }
        if let ActionKind::Step(step) = &action.kind {
            let signature = &step.op.signature;
            if let Some(limit) = action.timeout
                && action.timeout != signature.timeout
                && signature.control != Control::Eventually
            {
                notes.push(format!("at most {}", duration::format(limit)));
            }
            if action.continue_on_error && action.phase != PlanPhase::Cleanup && !action.id.contains("/cleanup/") {
                notes.push("an error does not stop the phase".to_owned());
            }
        }
        match notes.is_empty() {
            true => String::new(),
            false => self.dim(&format!("{}{}", self.dot(), line(&notes.join(self.dot()), self.view.unicode))),
        }
    }

    /// What keeps the agent apart from the machine, where it is a process.
    fn isolation(&mut self, eval: &EvalPlan) {
        let is_process =
            |plan: &Plan| matches!(&plan.action(plan.agent).kind, ActionKind::Agent(a) if a.kind.is_process());
        if !self.view.plans.iter().any(is_process) {
            return;
        }
        let isolated = &eval.isolation;
        self.fact("jail", isolated.level.name());
        if let Some((level, asks)) = &isolated.asks {
            let asked = level.filter(|level| *level != isolated.level).map(Isolation::name);
            let asks = (!asks.is_empty()).then(|| asks.words());
            let asks: Vec<_> = asked.map(str::to_owned).into_iter().chain(asks).collect();
            if !asks.is_empty() {
                self.fact("", &format!("its file asks for {}", asks.join(", ")));
            }
        }
        if let Some(grants) = wire::grants(&isolated.granted) {
            self.fact("", &format!("the eval grants {}", grants.words()));
        }
    }

    fn fact(&mut self, name: &str, value: &str) {
        put!(self, "  {}  {}", self.dim(&format!("{name:<7}")), line(value, self.view.unicode));
    }

    fn mark(&self, done: Option<Done>) -> String {
        let Some(done) = done else { return String::new() };
        let outcome = done.outcome;
        let (unicode, ascii, style) = match outcome {
            Outcome::Passed => ("✓", "+", Style::new().green()),
            Outcome::Failed => ("✗", "x", Style::new().red()),
            Outcome::Broken => ("!", "!", Style::new().red().bold()),
            Outcome::Skipped => ("–", "-", Style::new().dimmed()),
            Outcome::Cancelled => ("~", "~", Style::new().yellow()),
        };
        format!("{} ", self.paint(if self.view.unicode { unicode } else { ascii }, style))
    }

    fn paint(&self, text: &str, style: Style) -> String {
        let text = line(text, self.view.unicode);
        if self.view.colour { text.style(style).to_string() } else { text }
    }

    fn strong(&self, text: &str) -> String {
        self.paint(text, Style::new().bold())
    }

    fn dim(&self, text: &str) -> String {
        self.paint(text, Style::new().dimmed())
    }

    fn warn(&self, text: &str) -> String {
        self.paint(text, Style::new().yellow())
    }

    fn phase_style(&self, text: &str) -> String {
        self.paint(text, Style::new().cyan())
    }

    fn dot(&self) -> &'static str {
        if self.view.unicode { " · " } else { ", " }
    }

    /// In front of what is below an action.
    fn bars(&self, last: bool) -> String {
        if last { "   ".to_owned() } else { format!("{}  ", self.dim(self.bar())) }
    }

    fn tee(&self) -> &'static str {
        if self.view.unicode { "├─" } else { "|-" }
    }

    fn last(&self) -> &'static str {
        if self.view.unicode { "╰─" } else { "`-" }
    }

    fn bar(&self) -> &'static str {
        if self.view.unicode { "│" } else { "|" }
    }
}

/// `2 setup · agent · 3 verify · at most 5m`.
fn summary(plan: &Plan, dot: &str) -> String {
    let part = |phase: PlanPhase| {
        let n = plan.members(phase).count();
        (n > 0).then(|| format!("{n} {}", phase.name()))
    };
    let parts = [
        part(PlanPhase::Setup),
        Some("agent".to_owned()),
        part(PlanPhase::Verify),
        part(PlanPhase::Assert),
        part(PlanPhase::Cleanup),
        (plan.task.runs > 1).then(|| count(plan.task.runs as usize, "run", "runs")),
        plan.task.unchecked.then(|| "unchecked".to_owned()),
        Some(format!("at most {}", duration::format(worst_case(plan)))),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(dot)
}

fn columns(text: &str) -> usize {
    text.chars().map(|c| if c >= '\u{1100}' { 2 } else { 1 }).sum()
}
