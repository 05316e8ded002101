//! Calls of a script's functions whose arguments are in the wrong order.

use rustc_hash::FxHashMap;

use crate::{
    ascii::{Ascii, ascii},
    bash::{ast::Word, program::Kind},
    diagnostic::{Diagnostic, Diagnostics},
    effects::{script::Content, value::Value},
    hir::PhaseKind,
    lint::{TaskView, resources::elsewhere::UNKNOWN_RESOURCE},
    source::Span,
};

/// `local name="$1"`, `timeout=${3:-30s}`.
static PARAMETER: Ascii = ascii(r#"(?:^|[\s;{])([A-Za-z_]\w*)="?\$\{?([1-9])(?:\}|:[-=?]|"|\s|;|$)"#);

/// `check_pod "$NAMESPACE" "$POD_NAME"`, where the function is `check_pod() { local pod_name=$1 namespace=$2; … }`. Requires that the
/// names of two arguments are those of each other's parameters.
pub fn check(view: &TaskView<'_>, out: &mut Diagnostics) {
    operands(view, out);
    for script in view.effects.scripts.iter().filter(|script| script.view.phase == PhaseKind::Verify) {
        let own: &Content = &script.view.content;
        let mut functions: FxHashMap<&str, Vec<(usize, &str)>> = FxHashMap::default();
        for content in script.trace.sources.iter().map(|source| &**source).chain([own]) {
            content.program.walk(&mut |s| {
                if let Kind::Function { name, .. } = &s.kind {
                    let text = content.text.get(s.range.clone()).unwrap_or_default();
                    let parameters = PARAMETER.captures_iter(text).filter_map(|found| {
                        Some((found.get(2)?.as_str().parse::<usize>().ok()?, text.get(found.get(1)?.range())?))
                    });
                    functions.insert(name, parameters.collect());
                }
            });
        }
        if functions.values().all(|parameters| parameters.len() < 2) {
            continue;
        }
        own.program.walk(&mut |s| {
            let Some(parameters) = functions.get(s.name()).filter(|parameters| parameters.len() > 1) else { return };
            let given: Vec<Option<String>> = s
                .words()
                .iter()
                .map(|word| {
                    let source = own.text.get(word.range.clone()).unwrap_or_default();
                    Word::read(source, word.range.start).variable().map(str::to_owned)
                })
                .collect();
            let given = |position: usize| given.get(position)?.as_deref();
            for (nth, (one, first)) in parameters.iter().enumerate() {
                let swapped = parameters[nth + 1..].iter().find_map(|(other, second)| {
                    let (a, b) = (given(*one)?, given(*other)?);
                    (is_for(a, second) && is_for(b, first) && !is_for(a, first) && !is_for(b, second)).then_some((other, second))
                });
                if let Some((other, second)) = swapped {
                    let message = format!(
                        "argument {one} of `{}` is its `{first}`, and argument {other} its `{second}`: they are swapped here",
                        s.name()
                    );
                    let finding = Diagnostic::new(&UNKNOWN_RESOURCE, own.span(s.range.clone()), message);
                    out.push(finding.help("swap the two arguments"));
                    return;
                }
            }
        });
    }
}

/// `grep -q /tmp/app.ini 'level = warning'`: the file comes last.
fn operands(view: &TaskView<'_>, out: &mut Diagnostics) {
    let mut told: Vec<Span> = Vec::new();
    for run in crate::lint::analysis::checked_resource::runs(view, PhaseKind::Verify)
        .filter(|run| run.statement.name() == "grep")
    {
        let place = crate::lint::analysis::checked_resource::place(run);
        let is_option = |word: &&Value| word.literal().is_some_and(|word| word.starts_with('-'));
        let has_pattern = run.words.iter().any(|word| matches!(word.literal(), Some("-e" | "-f")));
        let operands: Vec<&Value> = run.words[1..].iter().filter(|word| !is_option(word)).collect();
        let [pattern, file] = operands[..] else { continue };
        let (Some(path), Some(text)) = (pattern.literal(), file.literal()) else { continue };
        let is_path = path.starts_with('/') && path.matches('/').count() > 1 && !path.contains([' ', '*', '^', '$']);
        let is_text = text.contains(' ') && !text.contains('/');
        if is_path && is_text && !has_pattern && run.input.is_none() && !told.contains(&place) {
            told.push(place);
            let message = format!("`grep` searches the file `{text}` for `{path}`: the operands are swapped");
            let finding = Diagnostic::new(&UNKNOWN_RESOURCE, place, message);
            out.push(finding.help("write the pattern first, then the file"));
        }
    }
}

/// A name without case and underscores.
fn plain(name: &str) -> String {
    name.chars().filter(|c| *c != '_').map(|c| c.to_ascii_lowercase()).collect()
}

/// Whether a variable has the name of a parameter, or a longer or shorter form of it.
fn is_for(variable: &str, parameter: &str) -> bool {
    let long = |name: String| if name == "ns" { "namespace".to_owned() } else { name };
    let (variable, parameter) = (long(plain(variable)), long(plain(parameter)));
    variable == parameter
        || parameter.len() > 3 && variable.ends_with(&parameter)
        || variable.len() > 3 && parameter.ends_with(&variable)
}
