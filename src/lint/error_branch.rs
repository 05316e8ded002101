//! A branch that says that something is wrong, and goes on.

use super::TaskView;
use crate::{
    bash::program::{Kind, Statement},
    diagnostic::{Diagnostic, Diagnostics},
    hir::PhaseKind,
    rule,
};

rule! {
    pub static ERROR_BRANCH_CONTINUES = "error-branch-continues", Warning;
}

/// In verify, `if …; then echo "FAIL: …"; fi` (author mistake 8).
pub fn check(view: &TaskView<'_>, out: &mut Diagnostics) {
    for script in view.scripts.iter().filter(|s| s.phase == PhaseKind::Verify) {
        script.content.program.walk(&mut |statement| {
            let Kind::If { branches, otherwise } = &statement.kind else { return };
            for body in branches.iter().map(|b| b.body.as_slice()).chain(otherwise.as_deref()) {
                if let Some(last) = body.last()
                    && body.iter().all(says)
                    && body.iter().any(says_failure)
                {
                    out.push(
                        Diagnostic::new(&ERROR_BRANCH_CONTINUES, script.content.span(last.range.clone()), "this says that something is wrong, and the script goes on")
                            .help("write `exit 1` behind it"),
                    );
                }
            }
        });
    }
}

fn says(statement: &Statement) -> bool {
    matches!(statement.name(), "echo" | "printf")
}

fn says_failure(statement: &Statement) -> bool {
    let text: Vec<String> = statement.words().iter().skip(1).map(|w| w.text.to_lowercase()).collect();
    let text = text.join(" ");
    ["fail", "error:", "❌", "✗"].iter().any(|w| text.contains(w)) && !text.contains("no error") && !text.contains("0 fail") && !text.contains("expected fail")
}
