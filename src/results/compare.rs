//! `gevals result compare`: several agents or models on the same tasks, and which of them beats which.

use std::fmt::Write;

use super::{ResultsFile, Statistics, diff::Pairs, diff::probability, harmless, percent, sure};
use crate::statistics;

/// The pass rates, and a matrix of pairs: how many runs only the agent in the row passed, and how many only the one in the column.
pub fn text(files: &[(String, &ResultsFile)], alpha: f64) -> String {
    let mut out = String::from("=== Comparison ===\n\n");
    let names: Vec<String> = files.iter().map(|(name, _)| harmless(name).replace('\n', " ")).collect();
    let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    for (nth, (name, (_, file))) in names.iter().zip(files).enumerate() {
        let all = Statistics::of(&file.results);
        let (passed, runs) = (all.passed, all.tasks);
        let rate = percent(super::rate(passed, runs));
        writeln!(
            out,
            "{} {name:<width$}  {passed}/{runs} passed ({rate}{})",
            letter(nth),
            sure(passed, all.judged, runs)
        )
        .ok();
    }
    let found = matrix(files, alpha);
    out.push_str("\nRuns of the same tasks that only one of two passed:\n\n  ");
    for column in 0..files.len() {
        write!(out, "  {:<9}", letter(column)).ok();
    }
    out.truncate(out.trim_end().len());
    for (row, cells) in found.iter().enumerate() {
        write!(out, "\n{} ", letter(row)).ok();
        for cell in cells {
            let cell = match cell {
                None => "–".to_owned(),
                Some((pairs, beats)) => format!("{}:{}{}", pairs.lost, pairs.won, if *beats { " *" } else { "" }),
            };
            write!(out, "  {cell:<9}").ok();
        }
        out.truncate(out.trim_end().len());
    }
    out.push('\n');
    let mut any = false;
    for (row, cells) in found.iter().enumerate() {
        for (column, cell) in cells.iter().enumerate() {
            if let Some((pairs, true)) = cell
                && pairs.lost > pairs.won
            {
                any = true;
                writeln!(out, "\n{} beats {}: {}", letter(row), letter(column), probability(pairs.p())).ok();
            }
        }
    }
    let none = if any { "" } else { "No difference is statistically significant. " };
    writeln!(out, "\n{none}* exact McNemar test, alpha {alpha}, Holm over the pairs").ok();
    out
}

pub(super) fn letter(nth: usize) -> String {
    let letter = char::from(b'A' + u8::try_from(nth % 26).unwrap_or(0));
    if nth < 26 { letter.to_string() } else { format!("{letter}{}", nth / 26) }
}

/// For each row and column, the pairs of the two, seen from the row (`lost` were passed by the row only), and whether a test
/// distinguishes them.
pub(super) fn matrix(files: &[(String, &ResultsFile)], alpha: f64) -> Vec<Vec<Option<(Pairs, bool)>>> {
    let mut tests: Vec<(usize, usize, Pairs)> = Vec::new();
    for one in 0..files.len() {
        for other in one + 1..files.len() {
            tests.push((one, other, Pairs::of(files[one].1, files[other].1)));
        }
    }
    let shown = statistics::holm(&tests.iter().map(|(.., pairs)| pairs.p()).collect::<Vec<_>>(), alpha);
    let mut out = vec![vec![None; files.len()]; files.len()];
    for ((one, other, pairs), shown) in tests.into_iter().zip(shown) {
        out[one][other] = Some((pairs, shown));
        out[other][one] = Some((Pairs { lost: pairs.won, won: pairs.lost, ..pairs }, shown));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::read;

    #[test]
    fn agents_are_ranked_by_a_statistical_test() {
        let file = |passed: std::ops::Range<usize>| {
            let results = (0..30).map(|n| {
                serde_json::json!({"taskName": format!("t{n}"), "taskPassed": passed.contains(&n), "allAssertionsPassed": true})
            });
            read(&serde_json::Value::Array(results.collect()).to_string()).unwrap()
        };
        let (good, same, bad) = (file(0..28), file(1..29), file(0..10));
        let files = [("good".to_owned(), &good), ("same\n".to_owned(), &same), ("bad".to_owned(), &bad)];
        let said = text(&files, 0.05);
        for line in [
            "A good   28/30 passed (93.33%, with 95 % confidence 78–99 %)\n",
            "\n    A          B          C\nA   –          1:1        18:0 *\nB   1:1        –          19:1 *\nC   0:18 *     1:19 *     –\n",
            "A beats C: p < 0.001",
            "B beats C: p < 0.001",
        ] {
            assert!(said.contains(line), "{line}\n{said}");
        }
        assert!(!said.contains("A beats B") && !said.contains("C beats"), "{said}");
        let said = text(&files[..2], 0.05);
        assert!(said.contains("No difference is statistically significant"), "{said}");
        assert!(text(&[], 0.05).contains("Comparison"));
    }
}
