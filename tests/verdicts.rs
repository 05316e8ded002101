//! The verdict that each situation must have: the pages in `verdicts/`, grouped by invariant (issue *A verdict that
//! cannot be hollow*). A pass that means nothing and a failure that is none are equally bad.
//!
//! `support/probe.rs` explains the format of the pages.
#![cfg(all(feature = "run", target_os = "linux"))]

use std::path::Path;

use crate::support::{page::pages, probe};

/// The minimum number of situations.
const SITUATIONS: usize = 400;

#[test]
fn situations_have_the_documented_verdict() {
    let pages = pages(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/verdicts"));
    let (all, faults) = probe::probe_all(&probe::all_sections(&pages));
    eprintln!("{all} situations");
    assert!(faults.is_empty(), "{} of {all} situations\n\n{}", faults.len(), faults.join("\n"));
    assert!(all >= SITUATIONS, "only {all} situations");
}
