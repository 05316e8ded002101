//! Comparison with the existing tool: its result for a situation, as recorded in the specification of its behavior, and
//! the verdict of gevals. The pages in `parity/` have a column `upstream` (`passed`, `failed`: task and assertions
//! together; `error`: it does not run the task; `crash`), and, if the verdicts differ, a column `why` with the reason.
//! `support/probe.rs` explains the format of the pages.
#![cfg(all(feature = "run", target_os = "linux"))]

use std::path::Path;

use crate::support::{page::pages, probe};

/// The minimum number of cases.
const CASES: usize = 300;

#[test]
fn verdicts_equal_those_of_upstream_or_differ_for_a_documented_reason() {
    let pages = pages(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/parity"));
    let sections = probe::all_sections(&pages);
    let (mut equal, mut differ) = (0, 0);
    for section in &sections {
        for row in &section.rows {
            let of = |word: &str| row.iter().find(|(w, _)| w == word).map(|(_, cell)| cell.trim());
            let upstream =
                of("upstream").unwrap_or_else(|| panic!("{}: {row:?} has no verdict of upstream's", section.name));
            assert!(["passed", "failed", "error", "crash"].contains(&upstream), "{}: {row:?}", section.name);
            let ours = of("verdict").unwrap().split(',').next().unwrap();
            // A task that upstream refuses to run is not green there, just as one that is refused or broken is not
            // green here.
            let green = |verdict: &str| verdict == "passed";
            let reason = of("why").is_some_and(|why| !why.is_empty());
            let same = green(upstream) == green(ours) && upstream != "crash";
            assert!(same || reason, "{}: no reason for {row:?}", section.name);
            if same { equal += 1 } else { differ += 1 }
        }
    }
    let (all, faults) = probe::probe_all(&sections);
    eprintln!("{all} cases: {equal} equal, {differ} differ for a reason");
    assert!(faults.is_empty(), "{} of {all} cases\n\n{}", faults.len(), faults.join("\n"));
    assert!(all >= CASES, "only {all} cases");
}
