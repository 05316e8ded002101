//! Extensions from sources that the eval does not allow (`portable-format.md`, extensions: `allowedSources`).

use globset::Glob;

use super::EvalView;
use crate::{
    diagnostic::{Diagnostic, Diagnostics},
    hir::Name,
    package, rule,
};

rule! {
    pub static SOURCE_NOT_ALLOWED = "source-not-allowed", Hard;
}

/// Packages that match none of the patterns. What is a part of gevals needs no leave.
pub fn check(view: &EvalView<'_>, out: &mut Diagnostics) {
    let Some(patterns) = &view.eval.extension_options.allowed_sources else { return };
    let globs: Vec<_> = patterns.iter().filter_map(|p| Some(Glob::new(&p.value).ok()?.compile_matcher())).collect();
    let allowed = |package: &str| {
        let bare = package.split_once("://").map_or(package, |(_, rest)| rest);
        package::bundled(package).is_some() || globs.iter().any(|glob| glob.is_match(package) || glob.is_match(bare))
    };
    let declared = view.eval.extensions.iter().filter_map(|extension| extension.package.as_ref());
    let imported = view.tasks.iter().filter_map(|unit| unit.task.as_ref()).flat_map(|task| &task.imports);
    let named: Vec<&Name> = declared.chain(imported.map(|import| &import.package)).collect();
    for name in named.into_iter().filter(|name| !allowed(&name.value)) {
        let mut diagnostic =
            Diagnostic::new(&SOURCE_NOT_ALLOWED, name.span, format!("`{}` matches no `allowedSources`", name.value));
        if let Some(first) = patterns.first() {
            diagnostic = diagnostic.label(first.span, "these are allowed");
        }
        out.push(diagnostic.help("add a pattern for it under `extensions.allowedSources`, or use another extension"));
    }
}
