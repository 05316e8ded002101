//! `gevals result diff` (§8.8 of the upstream behaviour): what became worse, better, new, or is gone. Runs of one task
//! are compared together, by how many of them passed.

use std::fmt::Write;

use indexmap::IndexMap;

use super::{ResultsFile, RunResult, Statistics, harmless, percent, rate};

/// How two results files differ.
#[derive(Debug)]
pub struct Diff<'a> {
    pub regressions: Vec<Change<'a>>,
    pub improvements: Vec<Change<'a>>,
    pub new: Vec<Change<'a>>,
    pub removed: Vec<Change<'a>>,
    base: Statistics,
    current: Statistics,
    base_coverage: (usize, usize),
    current_coverage: (usize, usize),
    /// Why the current results are incomplete.
    gaps: Vec<String>,
}

/// One task on both sides; the runs of a side are none where it does not have the task.
#[derive(Debug)]
pub struct Change<'a> {
    pub task: &'a str,
    base: Vec<&'a RunResult>,
    current: Vec<&'a RunResult>,
}

impl Change<'_> {
    /// Why a run of now did not pass.
    fn why(&self) -> String {
        self.current.iter().find(|r| !r.passed()).map(|r| r.why()).unwrap_or_default()
    }

    /// Whether the two sides did not run the same thing.
    fn replanned(&self) -> bool {
        let digest = |runs: &[&RunResult]| runs.first().map(|r| r.plan_digest().to_owned()).unwrap_or_default();
        let (base, current) = (digest(&self.base), digest(&self.current));
        !base.is_empty() && !current.is_empty() && base != current
    }

    /// `PASSED → FAILED`, with counts where there are several runs.
    fn shown(&self) -> String {
        let side = |runs: &[&RunResult]| match runs {
            [] => None,
            [one] => Some(if one.passed() { "passed".to_owned() } else { "failed".to_owned() }),
            several => Some(format!("{}/{} passed", passed(several), several.len())),
        };
        let sides: Vec<_> = [side(&self.base), side(&self.current)].into_iter().flatten().collect();
        sides.join(" → ")
    }
}

fn passed(runs: &[&RunResult]) -> usize {
    runs.iter().filter(|r| r.passed()).count()
}

fn by_task(file: &ResultsFile) -> IndexMap<&str, Vec<&RunResult>> {
    let mut tasks: IndexMap<&str, Vec<&RunResult>> = IndexMap::new();
    for result in &file.results {
        tasks.entry(result.name()).or_default().push(result);
    }
    tasks
}

/// Compares two files by the names of their tasks.
pub fn diff<'a>(base: &'a ResultsFile, current: &'a ResultsFile) -> Diff<'a> {
    let (before, now) = (by_task(base), by_task(current));
    let counted = |file: &ResultsFile| {
        (file.results.iter().filter(|r| r.tokens().estimated.is_some()).count(), file.results.len())
    };
    let mut out = Diff {
        regressions: Vec::new(),
        improvements: Vec::new(),
        new: Vec::new(),
        removed: Vec::new(),
        base: Statistics::of(&base.results),
        current: Statistics::of(&current.results),
        base_coverage: counted(base),
        current_coverage: counted(current),
        gaps: current.gaps(),
    };
    for (task, runs) in &now {
        let change = Change { task, base: before.get(task).cloned().unwrap_or_default(), current: runs.clone() };
        let (old, new) = (rate(passed(&change.base), change.base.len()), rate(passed(runs), runs.len()));
        if change.base.is_empty() {
            out.new.push(change);
        } else if new < old {
            out.regressions.push(change);
        } else if new > old {
            out.improvements.push(change);
        }
    }
    for (task, runs) in before.iter().filter(|(task, _)| !now.contains_key(*task)) {
        out.removed.push(Change { task, base: runs.clone(), current: Vec::new() });
        // What is gone has not passed.
        out.current.tasks += runs.len();
    }
    out
}

impl Diff<'_> {
    /// Whether a task got worse or is gone, or the current results are incomplete.
    pub fn is_loss(&self) -> bool {
        !(self.regressions.is_empty() && self.removed.is_empty() && self.gaps.is_empty())
    }

    /// A title and a mark for each list that is not empty.
    fn lists(&self) -> impl Iterator<Item = (&'static str, char, &[Change<'_>])> {
        let lists = [
            ("Regressions", '✗', self.regressions.as_slice()),
            ("Improvements", '✓', self.improvements.as_slice()),
            ("New tasks", '+', self.new.as_slice()),
            ("Removed tasks", '-', self.removed.as_slice()),
        ];
        lists.into_iter().filter(|(_, _, changes)| !changes.is_empty())
    }

    /// Name, base, current, change.
    fn rows(&self) -> Vec<[String; 4]> {
        let share = |part: usize, all: usize| format!("{part}/{all} ({})", percent(rate(part, all)));
        let points = |base: f64, current: f64| format!("{:+.2} pp", (current - base) * 100.0);
        let (base, current) = (&self.base, &self.current);
        let mut rows = vec![
            [
                "Tasks".to_owned(),
                share(base.tasks_passed, base.tasks),
                share(current.tasks_passed, current.tasks),
                points(base.task_rate(), current.task_rate()),
            ],
            [
                "Assertions".to_owned(),
                share(base.assertions_passed, base.assertions),
                share(current.assertions_passed, current.assertions),
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

    /// What makes the comparison worth less.
    fn warnings(&self) -> Vec<String> {
        let mut out: Vec<_> =
            self.gaps.iter().map(|gap| format!("the current results are incomplete: {gap}")).collect();
        for (side, all, (counted, results)) in
            [("base", &self.base, self.base_coverage), ("current", &self.current, self.current_coverage)]
        {
            if !all.tokens.error.is_empty() {
                out.push(format!("tokens of {side} were not all counted: {}", harmless(&all.tokens.error)));
            } else if counted > 0 && counted < results {
                out.push(format!("tokens of {side} are those of {counted} of {results} results"));
            }
        }
        out
    }

    /// As `gevals result diff` prints it.
    pub fn text(&self) -> String {
        let mut out = String::from("=== Evaluation Diff ===\n");
        for (title, mark, changes) in self.lists() {
            writeln!(out, "\n{title} ({}):", changes.len()).ok();
            for change in changes {
                writeln!(out, "  {mark} {}  {}", harmless(change.task), change.shown()).ok();
                let why = change.why();
                if mark == '✗' && !why.is_empty() {
                    writeln!(out, "      {}", harmless(&why)).ok();
                }
                if change.replanned() {
                    writeln!(out, "      the task is not the same: its plan changed").ok();
                }
            }
        }
        if self.lists().next().is_none() {
            out.push_str("\nNo task changed.\n");
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

    /// For comments and step summaries.
    pub fn markdown(&self) -> String {
        let mut out = String::from("## Evaluation Diff\n");
        for (title, mark, changes) in self.lists() {
            let mark = match mark {
                '✗' => "❌",
                '✓' => "✅",
                '+' => "🆕",
                _ => "🗑️",
            };
            writeln!(out, "\n### {mark} {title} ({})\n", changes.len()).ok();
            for change in changes {
                let why = change.why();
                let why = if mark == "❌" && !why.is_empty() { format!(": {}", cell(&why)) } else { String::new() };
                let plan = if change.replanned() { " (its plan changed)" } else { "" };
                writeln!(out, "- **{}** {}{why}{plan}", cell(change.task), change.shown()).ok();
            }
        }
        if self.lists().next().is_none() {
            out.push_str("\nNo task changed.\n");
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

/// Text that Markdown takes for text, in a table too.
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
            // Nobody is called, and nothing becomes a link.
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

/// `999`, `1.5K`, `2.0M`.
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
        let diff = diff(&base, &current);
        assert_eq!(names(&diff.regressions), ["worse"]);
        assert_eq!(names(&diff.improvements), ["better"]);
        assert_eq!(names(&diff.new), ["new"]);
        assert_eq!(names(&diff.removed), ["gone"]);
        // Why is said of what got worse.
        assert_eq!(diff.text().matches("x | <y>").count(), 1, "{}", diff.text());
        assert_eq!(diff.markdown().matches("&lt;y&gt;").count(), 1, "{}", diff.markdown());
        assert!(diff.text().contains("worse  2/2 passed → 1/2 passed\n      x | <y>"), "{}", diff.text());
        assert!(diff.markdown().contains("x \\| &lt;y&gt;"), "{}", diff.markdown());
    }

    #[test]
    fn sides_may_be_empty() {
        let (none, one) = (file(&[]), file(&[("a", true)]));
        assert_eq!(names(&diff(&none, &one).new), ["a"]);
        assert_eq!(names(&diff(&one, &none).removed), ["a"]);
        assert!(diff(&none, &none).text().contains("0/0 (0.00%)"));
    }

    #[test]
    fn big_numbers_have_units() {
        assert_eq!([units(999), units(1500), units(999_999), units(2_000_000)], ["999", "1.5K", "1000.0K", "2.0M"]);
    }

    #[test]
    fn a_task_that_got_worse_and_says_nothing_has_no_empty_line() {
        let file = |passed: bool, assertions: bool| {
            let result = serde_json::json!({"taskName": "t", "taskPassed": passed, "allAssertionsPassed": assertions, "outcome": if passed && assertions { "passed" } else { "failed" }});
            read(&serde_json::Value::Array(vec![result]).to_string()).unwrap()
        };
        let (base, current) = (file(true, true), file(true, false));
        let diff = diff(&base, &current);
        assert!(diff.text().contains("t  passed → failed\n      assertions failed\n"), "{}", diff.text());
    }

    #[test]
    fn tokens_that_no_result_has_are_no_warning() {
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
        assert!(diff(&none, &all).warnings().is_empty(), "{:?}", diff(&none, &all).warnings());
        assert_eq!(diff(&all, &some).warnings(), ["tokens of current are those of 1 of 2 results"]);
        let row =
            |base, current| diff(base, current).rows().into_iter().find(|row| row[0] == "Tokens (estimate)").unwrap();
        assert_eq!(row(&all, &some)[3], "-5");
        assert_eq!(row(&some, &all)[3], "+5");
        assert_eq!(row(&none, &all)[3], "(no base data)");
    }
}
