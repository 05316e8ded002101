//! `gevals result diff` (§8.8 of the upstream behaviour): which tasks became worse or better, are new, or were removed. All
//! runs of a task are compared together, by how many of them passed, and a test determines whether the difference may be
//! chance.

use std::fmt::Write;

use super::{ResultsFile, RunResult, Statistics, between, bounds, by_task, harmless, percent, rate};
use crate::statistics::{self, Counts};

/// How two results files differ.
#[derive(Debug)]
pub struct Diff<'a> {
    /// Fewer runs passed, and a test shows that this is not chance.
    pub regressions: Vec<Change<'a>>,
    pub improvements: Vec<Change<'a>>,
    /// Fewer runs passed, which may be chance.
    pub losses: Vec<Change<'a>>,
    pub gains: Vec<Change<'a>>,
    pub new: Vec<Change<'a>>,
    pub removed: Vec<Change<'a>>,
    pub pairs: Pairs,
    alpha: f64,
    /// Whether any task ran more than once.
    several: bool,
    base: Statistics,
    current: Statistics,
    base_coverage: (usize, usize),
    current_coverage: (usize, usize),
    /// What is missing from the current results.
    gaps: Vec<String>,
    /// What is missing from the base, and therefore cannot have become worse.
    base_gaps: Vec<String>,
    /// The agents of the two sides, if they are not the same. The plan of each task then differs.
    agents: Option<(String, String)>,
}

/// Corresponding runs on two sides: the first run of a task with its first run, and so on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Pairs {
    pub all: u32,
    /// Passed only on the first side.
    pub lost: u32,
    /// Passed only on the second side.
    pub won: u32,
}

impl Pairs {
    /// Pairs the runs of the tasks that are on both sides.
    pub fn of(base: &ResultsFile, current: &ResultsFile) -> Self {
        let (before, now) = (by_task(&base.results), by_task(&current.results));
        let mut pairs = Self::default();
        for (task, runs) in &before {
            for (one, other) in runs.iter().zip(now.get(task).into_iter().flatten()) {
                pairs.all += 1;
                pairs.lost += u32::from(one.passed() && !other.passed());
                pairs.won += u32::from(!one.passed() && other.passed());
            }
        }
        pairs
    }

    /// The probability of a split at least this uneven by chance.
    pub fn p(self) -> f64 {
        statistics::mcnemar(self.lost, self.won)
    }
}

/// When the exit status is 1, apart from removed tasks and incomplete results.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FailOn {
    /// A test shows that a task, or all tasks together, got worse.
    Regression,
    /// Fewer runs of a task passed, for any reason.
    AnyLoss,
}

/// One task on two sides.
#[derive(Debug)]
pub struct Change<'a> {
    pub task: &'a str,
    /// The p-value of the test.
    pub p: f64,
    base: Vec<&'a RunResult>,
    current: Vec<&'a RunResult>,
}

impl Change<'_> {
    /// Why a current run did not pass.
    fn why(&self) -> String {
        self.current.iter().find(|r| !r.passed()).map(|r| r.why()).unwrap_or_default()
    }

    /// Whether the two sides ran different plans.
    fn replanned(&self) -> bool {
        let digest = |runs: &[&RunResult]| runs.first().map(|r| r.plan_digest().to_owned()).unwrap_or_default();
        let (base, current) = (digest(&self.base), digest(&self.current));
        !base.is_empty() && !current.is_empty() && base != current
    }

    /// Formats `PASSED → FAILED`, with counts and the test if there are several runs.
    fn shown(&self) -> String {
        let side = |runs: &[&RunResult]| match runs {
            [] => None,
            [one] => Some(if one.passed() { "passed".to_owned() } else { "failed".to_owned() }),
            several => {
                let (passed, all) = (passed(several), several.len());
                let judged = several.iter().filter(|run| run.is_evidence()).count();
                Some(format!("{passed}/{all} passed{}", between(passed, judged, all)))
            }
        };
        let sides: Vec<_> = [side(&self.base), side(&self.current)].into_iter().flatten().collect();
        let tested = sides.len() == 2 && self.base.len().max(self.current.len()) > 1;
        let p = if tested { format!("  {}", probability(self.p)) } else { String::new() };
        sides.join(" → ") + &p
    }
}

/// Formats `p = 0.031` or `p < 0.001`.
pub fn probability(p: f64) -> String {
    if p < 0.001 { "p < 0.001".to_owned() } else { format!("p = {}", (p * 1e3).round() / 1e3) }
}

fn passed(runs: &[&RunResult]) -> usize {
    runs.iter().filter(|r| r.passed()).count()
}

/// Compares two files by task name; `alpha` is the probability of a false positive that the tests allow.
pub fn diff<'a>(base: &'a ResultsFile, current: &'a ResultsFile, alpha: f64) -> Diff<'a> {
    let (before, now) = (by_task(&base.results), by_task(&current.results));
    let counted = |file: &ResultsFile| {
        (file.results.iter().filter(|r| r.tokens().estimated.is_some()).count(), file.results.len())
    };
    let mut out = Diff {
        regressions: Vec::new(),
        improvements: Vec::new(),
        losses: Vec::new(),
        gains: Vec::new(),
        new: Vec::new(),
        removed: Vec::new(),
        pairs: Pairs::of(base, current),
        alpha,
        several: before.values().chain(now.values()).any(|runs| runs.len() > 1),
        base: Statistics::of(&base.results),
        current: Statistics::of(&current.results),
        base_coverage: counted(base),
        current_coverage: counted(current),
        gaps: current.gaps(),
        base_gaps: base.gaps(),
        agents: (base.agent() != current.agent()).then(|| base.agent().zip(current.agent())).flatten(),
    };
    let few = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let both: Vec<_> = now.iter().filter_map(|(task, runs)| Some((*task, before.get(task)?, runs))).collect();
    let counts = both.iter().map(|(_, old, new)| Counts {
        passed: few(passed(old)),
        runs: few(old.len()),
        other_passed: few(passed(new)),
        other_runs: few(new.len()),
    });
    let tests = statistics::differences(&counts.collect::<Vec<_>>(), alpha);
    for ((task, old, new), (p, shown)) in both.into_iter().zip(tests) {
        let change = Change { task, p, base: old.clone(), current: new.clone() };
        let (was, is) = (rate(passed(old), old.len()), rate(passed(new), new.len()));
        match (is < was, is > was, shown) {
            (true, _, true) => out.regressions.push(change),
            (true, _, false) => out.losses.push(change),
            (_, true, true) => out.improvements.push(change),
            (_, true, false) => out.gains.push(change),
            _ => {}
        }
    }
    for (task, runs) in now.iter().filter(|(task, _)| !before.contains_key(*task)) {
        out.new.push(Change { task, p: 1.0, base: Vec::new(), current: runs.clone() });
    }
    for (task, runs) in before.iter().filter(|(task, _)| !now.contains_key(*task)) {
        out.removed.push(Change { task, p: 1.0, base: runs.clone(), current: Vec::new() });
        // A removed task has not passed.
        out.current.tasks += runs.len();
    }
    out
}

impl Diff<'_> {
    /// Whether the comparison fails. By default any loss fails if every task ran only once, because no test can be conclusive
    /// about a single task then. Removed tasks and incomplete results always fail.
    pub fn fails(&self, on: Option<FailOn>) -> bool {
        let on = on.unwrap_or(if self.several { FailOn::Regression } else { FailOn::AnyLoss });
        let worse = match on {
            FailOn::Regression => !self.regressions.is_empty() || self.worse_together(),
            FailOn::AnyLoss => !self.regressions.is_empty() || !self.losses.is_empty(),
        };
        worse || !self.removed.is_empty() || !self.gaps.is_empty()
    }

    fn worse_together(&self) -> bool {
        self.pairs.lost > self.pairs.won && self.pairs.p() <= self.alpha
    }

    /// What the pairs show about all tasks together; empty if no pair differs.
    pub fn together(&self) -> String {
        let Pairs { all, lost, won } = self.pairs;
        if lost + won == 0 {
            return String::new();
        }
        let p = self.pairs.p();
        let said = match (p <= self.alpha, lost > won) {
            (true, true) => "all tasks together got worse",
            (true, false) => "all tasks together got better",
            (false, _) => "this may be chance",
        };
        format!(
            "Of {all} pairs of runs, {lost} passed only before and {won} only now: {said} (exact McNemar test, {}, alpha {})",
            probability(p),
            self.alpha
        )
    }

    /// The title, mark and changes of each non-empty list.
    fn lists(&self) -> impl Iterator<Item = (&'static str, char, &[Change<'_>])> {
        let lists = [
            ("Regressions", '✗', self.regressions.as_slice()),
            ("Losses", '↓', self.losses.as_slice()),
            ("Improvements", '✓', self.improvements.as_slice()),
            ("Gains", '↑', self.gains.as_slice()),
            ("New tasks", '+', self.new.as_slice()),
            ("Removed tasks", '-', self.removed.as_slice()),
        ];
        lists.into_iter().filter(|(_, _, changes)| !changes.is_empty())
    }

    /// The rows of the table: name, base, current, change.
    fn rows(&self) -> Vec<[String; 4]> {
        let share = |part: usize, all: usize, judged: usize| match all {
            0 => "0/0".to_owned(),
            _ => {
                let bounds = bounds(part, judged, all).map_or_else(String::new, |bounds| format!(", {bounds}"));
                format!("{part}/{all} ({}{bounds})", percent(rate(part, all)))
            }
        };
        let points = |base: f64, current: f64| format!("{:+.2} pp", (current - base) * 100.0);
        let (base, current) = (&self.base, &self.current);
        let mut rows = vec![
            [
                "Tasks".to_owned(),
                share(base.tasks_passed, base.tasks, base.judged),
                share(current.tasks_passed, current.tasks, current.judged),
                points(base.task_rate(), current.task_rate()),
            ],
            [
                "Assertions".to_owned(),
                share(base.assertions_passed, base.assertions, base.assertions),
                share(current.assertions_passed, current.assertions, current.assertions),
                points(base.assertion_rate(), current.assertion_rate()),
            ],
        ];
        let tokens = [
            ("Tokens (estimate)", base.tokens.estimated, current.tokens.estimated),
            ("MCP schema tokens", base.tokens.schema, current.tokens.schema),
            ("Agent input tokens", base.tokens.agent_input, current.tokens.agent_input),
            ("Agent output tokens", base.tokens.agent_output, current.tokens.agent_output),
            ("Judge input tokens", base.tokens.judge_input, current.tokens.judge_input),
            ("Judge output tokens", base.tokens.judge_output, current.tokens.judge_output),
        ];
        for (name, base, current) in tokens {
            let shown = |n: Option<u64>| n.map_or_else(|| "N/A".to_owned(), units);
            let change = match (base, current) {
                (None, None) => continue,
                (None, _) => "(no base data)".to_owned(),
                (_, None) => "(no head data)".to_owned(),
                (Some(base), Some(current)) if current >= base => format!("+{}", units(current - base)),
                (Some(base), Some(current)) => format!("-{}", units(base - current)),
            };
            rows.push([name.to_owned(), shown(base), shown(current), change]);
        }
        rows
    }

    /// Limitations of the comparison.
    fn warnings(&self) -> Vec<String> {
        let mut out: Vec<_> =
            self.gaps.iter().map(|gap| format!("the current results are incomplete: {gap}")).collect();
        if let Some((gap, more)) = self.base_gaps.split_first() {
            let more = if more.is_empty() { String::new() } else { format!(", and {} more", more.len()) };
            out.push(format!("the base is incomplete, and what it lacks cannot be compared: {gap}{more}"));
        }
        if let Some((base, current)) = &self.agents {
            out.push(format!("the agents differ: {base} in the base, {current} in the current results"));
        }
        for (side, all, (counted, results)) in
            [("base", &self.base, self.base_coverage), ("current", &self.current, self.current_coverage)]
        {
            if !all.tokens.error.is_empty() {
                out.push(format!("not all tokens of {side} were counted: {}", harmless(&all.tokens.error)));
            } else if counted > 0 && counted < results {
                out.push(format!("tokens of {side} are for {counted} of {results} results only"));
            }
        }
        out
    }

    /// The text that `gevals result diff` prints.
    pub fn text(&self) -> String {
        let mut out = String::from("=== Evaluation Diff ===\n");
        for (title, mark, changes) in self.lists() {
            writeln!(out, "\n{title} ({}):", changes.len()).ok();
            for change in changes {
                writeln!(out, "  {mark} {}  {}", harmless(change.task), change.shown()).ok();
                let why = change.why();
                if matches!(mark, '✗' | '↓') && !why.is_empty() {
                    writeln!(out, "      {}", harmless(&why)).ok();
                }
                if self.agents.is_none() && change.replanned() {
                    writeln!(out, "      the task is different: its plan changed").ok();
                }
            }
        }
        if self.lists().next().is_none() {
            out.push_str("\nNo task changed.\n");
        }
        if self.several && !(self.losses.is_empty() && self.gains.is_empty()) {
            let alpha = self.alpha;
            writeln!(
                out,
                "\nLosses and gains may be chance (Fisher's exact test, alpha {alpha}, Holm over the tasks)."
            )
            .ok();
        }
        if !self.together().is_empty() {
            writeln!(out, "\n{}", self.together()).ok();
        }
        let mut rows = self.rows();
        rows.insert(0, ["", "Base", "Current", "Change"].map(str::to_owned));
        let width = |i: usize| rows.iter().map(|row| row[i].chars().count()).max().unwrap_or(0);
        let widths = [0, 1, 2].map(width);
        out.push('\n');
        for [name, base, current, change] in &rows {
            let line = format!(
                "{name:<w0$}  {base:<w1$}  {current:<w2$}  {change}",
                w0 = widths[0],
                w1 = widths[1],
                w2 = widths[2]
            );
            writeln!(out, "{}", line.trim_end()).ok();
        }
        for warning in self.warnings() {
            writeln!(out, "\nwarning: {warning}").ok();
        }
        out
    }

    /// Markdown for comments and step summaries.
    pub fn markdown(&self) -> String {
        let mut out = String::from("## Evaluation Diff\n");
        for (title, mark, changes) in self.lists() {
            let mark = match mark {
                '✗' => "❌",
                '↓' => "🔻",
                '✓' => "✅",
                '↑' => "🔺",
                '+' => "🆕",
                _ => "🗑️",
            };
            writeln!(out, "\n### {mark} {title} ({})\n", changes.len()).ok();
            for change in changes {
                let why = change.why();
                let why = if matches!(mark, "❌" | "🔻") && !why.is_empty() {
                    format!(": {}", cell(&why))
                } else {
                    String::new()
                };
                let plan = if self.agents.is_none() && change.replanned() { " (its plan changed)" } else { "" };
                writeln!(out, "- **{}** {}{why}{plan}", cell(change.task), change.shown()).ok();
            }
        }
        if self.lists().next().is_none() {
            out.push_str("\nNo task changed.\n");
        }
        if !self.together().is_empty() {
            writeln!(out, "\n{}", self.together()).ok();
        }
        out.push_str("\n| | Base | Current | Change |\n|---|---|---|---|\n");
        for [name, base, current, change] in self.rows() {
            writeln!(out, "| {name} | {base} | {current} | {change} |").ok();
        }
        for warning in self.warnings() {
            writeln!(out, "\n> ⚠️ {}", cell(&warning)).ok();
        }
        out
    }
}

/// Escapes text for Markdown, including in tables.
pub(super) fn cell(text: &str) -> String {
    let mut out = String::new();
    for c in harmless(text).chars() {
        match c {
            '\n' => out.push(' '),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '|' | '*' | '_' | '`' | '[' | ']' | '\\' | '~' | '$' | '!' | '#' => {
                out.push('\\');
                out.push(c);
            }
            // Prevents mentions and links.
            '@' => out.push_str("@\u{200b}"),
            '/' if out.ends_with(':') => out.push_str("\\/"),
            '.' if out.len() >= 3 && out.as_bytes()[out.len() - 3..].eq_ignore_ascii_case(b"www") => {
                out.push_str("\\.")
            }
            c => out.push(c),
        }
    }
    out
}

/// Formats `999`, `1.5K`, `2.0M`.
fn units(n: u64) -> String {
    match n {
        0..1_000 => n.to_string(),
        1_000..1_000_000 => format!("{:.1}K", n as f64 / 1e3),
        _ => format!("{:.1}M", n as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::read;

    #[test]
    fn no_text_becomes_a_link() {
        for (text, cell_text) in [
            ("http://a.b/c", "http:\\//a.b/c"),
            ("a/b", "a/b"),
            ("www.a.b", "www\\.a.b"),
            ("x WWW.a", "x WWW\\.a"),
            ("a.b", "a.b"),
            ("ww.a", "ww.a"),
            (".", "."),
            ("abcd.e", "abcd.e"),
            ("wwwx.e", "wwwx.e"),
            ("xx.", "xx."),
        ] {
            assert_eq!(cell(text), cell_text, "{text}");
        }
    }

    fn file(runs: &[(&str, bool)]) -> ResultsFile {
        let runs = runs.iter().map(|(name, passed)| {
            serde_json::json!({"taskName": name, "taskPassed": passed, "allAssertionsPassed": true, "taskError": "x | <y>"})
        });
        read(&serde_json::Value::Array(runs.collect()).to_string()).unwrap()
    }

    fn names<'a>(changes: &[Change<'a>]) -> Vec<&'a str> {
        changes.iter().map(|c| c.task).collect()
    }

    #[test]
    fn tasks_are_compared_by_the_share_of_their_runs() {
        let base = file(&[
            ("worse", true),
            ("worse", true),
            ("same", true),
            ("same", false),
            ("better", false),
            ("gone", true),
        ]);
        let current = file(&[
            ("worse", true),
            ("worse", false),
            ("same", false),
            ("same", true),
            ("better", true),
            ("new", false),
        ]);
        let diff = diff(&base, &current, 0.05);
        assert_eq!(names(&diff.losses), ["worse"]);
        assert_eq!(names(&diff.gains), ["better"]);
        assert!(diff.regressions.is_empty() && diff.improvements.is_empty());
        assert_eq!(names(&diff.new), ["new"]);
        assert_eq!(names(&diff.removed), ["gone"]);
        // The reason is given only for what got worse.
        assert_eq!(diff.text().matches("x | <y>").count(), 1, "{}", diff.text());
        assert_eq!(diff.markdown().matches("&lt;y&gt;").count(), 1, "{}", diff.markdown());
        assert!(
            diff.text().contains("worse  2/2 passed (34–100 %) → 1/2 passed (9–91 %)  p = 1\n      x | <y>"),
            "{}",
            diff.text()
        );
        assert!(diff.markdown().contains("x \\| &lt;y&gt;"), "{}", diff.markdown());
    }

    fn often(name: &str, passed: usize, runs: usize) -> Vec<(&str, bool)> {
        (0..runs).map(|run| (name, run < passed)).collect()
    }

    /// p-values: SciPy 1.17.1, `fisher_exact` and `binomtest`.
    #[test]
    fn a_test_distinguishes_regressions_from_chance() {
        let base = file(&[often("same", 20, 20), often("worse", 20, 20), often("chance", 20, 20)].concat());
        let current = file(&[often("same", 20, 20), often("worse", 9, 20), often("chance", 19, 20)].concat());
        let found = diff(&base, &current, 0.05);
        assert_eq!((names(&found.regressions), names(&found.losses)), (vec!["worse"], vec!["chance"]));
        assert!(found.fails(None) && found.fails(Some(FailOn::AnyLoss)));
        assert!(
            found.text().contains("✗ worse  20/20 passed (83–100 %) → 9/20 passed (25–66 %)  p < 0.001\n"),
            "{}",
            found.text()
        );
        let better = diff(&current, &base, 0.05);
        assert_eq!((names(&better.improvements), names(&better.gains)), (vec!["worse"], vec!["chance"]));
        assert!(!better.fails(None) && !better.fails(Some(FailOn::AnyLoss)));
        // A single failure in twenty runs is not a regression.
        let (base, current) = (file(&often("t", 20, 20)), file(&often("t", 19, 20)));
        let found = diff(&base, &current, 0.05);
        assert!(!found.fails(None) && !found.fails(Some(FailOn::Regression)) && found.fails(Some(FailOn::AnyLoss)));
        assert!(found.text().contains("may be chance"), "{}", found.text());
    }

    #[test]
    fn tasks_that_ran_once_are_tested_together() {
        let names: Vec<String> = (0..20).map(|n| format!("t{n}")).collect();
        let of = |passed: &dyn Fn(usize) -> bool| {
            file(&names.iter().enumerate().map(|(n, name)| (name.as_str(), passed(n))).collect::<Vec<_>>())
        };
        let (base, lost) = (of(&|n| n > 0), of(&|n| n > 10 || n == 0));
        let found = diff(&base, &lost, 0.05);
        assert_eq!(found.pairs, Pairs { all: 20, lost: 10, won: 1 });
        assert!((found.pairs.p() - 0.01171875).abs() < 1e-9);
        assert!(found.fails(Some(FailOn::Regression)) && found.regressions.is_empty() && found.losses.len() == 10);
        assert!(
            found.text().contains("all tasks together got worse (exact McNemar test, p = 0.012"),
            "{}",
            found.text()
        );
        let fewer = of(&|n| n > 5);
        let found = diff(&base, &fewer, 0.05);
        assert!(!found.fails(Some(FailOn::Regression)) && found.fails(None), "{:?}", found.pairs);
        let gone = file(&[("t1", true)]);
        assert!(diff(&base, &gone, 0.05).fails(Some(FailOn::Regression)), "what is gone is a loss");
    }

    #[test]
    fn sides_may_be_empty() {
        let (none, one) = (file(&[]), file(&[("a", true)]));
        assert_eq!(names(&diff(&none, &one, 0.05).new), ["a"]);
        assert_eq!(names(&diff(&one, &none, 0.05).removed), ["a"]);
        let text = diff(&none, &none, 0.05).text();
        assert!(text.contains("0/0") && !text.contains(" %)"), "no rate of nothing: {text}");
    }

    #[test]
    fn big_numbers_have_units() {
        assert_eq!([units(999), units(1500), units(999_999), units(2_000_000)], ["999", "1.5K", "1000.0K", "2.0M"]);
    }

    #[test]
    fn a_regressed_task_without_a_reason_has_no_empty_line() {
        let file = |passed: bool, assertions: bool| {
            let result = serde_json::json!({"taskName": "t", "taskPassed": passed, "allAssertionsPassed": assertions, "outcome": if passed && assertions { "passed" } else { "failed" }});
            read(&serde_json::Value::Array(vec![result]).to_string()).unwrap()
        };
        let (base, current) = (file(true, true), file(true, false));
        let diff = diff(&base, &current, 0.05);
        assert!(diff.text().contains("t  passed → failed\n      assertions failed\n"), "{}", diff.text());
    }

    #[test]
    fn missing_token_counts_are_not_a_warning() {
        let of = |tokens: &[Option<u64>]| {
            let runs = tokens.iter().enumerate().map(|(i, tokens)| {
                let mut run =
                    serde_json::json!({"taskName": format!("t{i}"), "taskPassed": true, "allAssertionsPassed": true});
                if let Some(tokens) = tokens {
                    run["tokenEstimate"] = serde_json::json!({ "totalTokens": tokens });
                }
                run
            });
            read(&serde_json::Value::Array(runs.collect()).to_string()).unwrap()
        };
        let (none, some, all) = (of(&[None, None]), of(&[Some(5), None]), of(&[Some(9), Some(1)]));
        assert!(diff(&none, &all, 0.05).warnings().is_empty(), "{:?}", diff(&none, &all, 0.05).warnings());
        assert_eq!(diff(&all, &some, 0.05).warnings(), ["tokens of current are for 1 of 2 results only"]);
        let row = |base, current| {
            diff(base, current, 0.05).rows().into_iter().find(|row| row[0] == "Tokens (estimate)").unwrap()
        };
        assert_eq!(row(&all, &some)[3], "-5");
        assert_eq!(row(&some, &all)[3], "+5");
        assert_eq!(row(&none, &all)[3], "(no base data)");
    }
}
