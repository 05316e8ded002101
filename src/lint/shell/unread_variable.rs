//! Shell variables in texts that no shell expands: paths, URLs and environment variables.

use crate::{
    ascii::{Ascii, ascii},
    diagnostic::{Diagnostic, Diagnostics},
    hir::{Arg, ArgKind, Def, Dialect, Part, Template},
    lint::TaskView,
    rule,
};

rule! {
    pub static UNEXPANDED_VARIABLE = "unexpanded-variable", Warning;
}

/// `path: ~/notes.md`, `env: {CONFIG: $HOME/config}`, `url: http://$HOST/`. Legacy tasks have no such values.
pub fn check(view: &TaskView<'_>, out: &mut Diagnostics) {
    let dialect = view.task.dialect;
    view.task.env.iter().for_each(|(_, value)| literal(value, dialect, false, out));
    view.task.walk(&mut |_, step| {
        let values = |arg: &Arg<Def>, anywhere: bool, out: &mut Diagnostics| match &arg.kind {
            ArgKind::Text(text) => literal(text, dialect, anywhere, out),
            ArgKind::Record(fields) => fields.iter().for_each(|(_, arg)| {
                if let ArgKind::Text(text) = &arg.kind {
                    literal(text, dialect, anywhere, out);
                }
            }),
            _ => {}
        };
        if !matches!(step.op.name.as_str(), "file" | "command" | "script" | "http") {
            return;
        }
        for key in ["path", "workdir", "env"] {
            step.arg(key).into_iter().for_each(|arg| values(arg, false, out));
        }
        for key in ["url", "headers"] {
            step.arg(key).into_iter().for_each(|arg| values(arg, true, out));
        }
    });
}

fn literal(text: &Template<Def>, dialect: Dialect, anywhere: bool, out: &mut Diagnostics) {
    let Some(Part::Text(first)) = text.parts.first() else { return };
    let home = first.starts_with("~/");
    let variable = (if anywhere { &ANYWHERE } else { &AT_FIRST }).captures(first).and_then(|found| found.get(1));
    let name = if home { Some("HOME") } else { variable.map(|name| name.as_str()) };
    let Some(name) = name else { return };
    let written = if home { "~".to_owned() } else { format!("${name}") };
    let help = match dialect {
        Dialect::Portable => format!("write `{{env.{name}}}`"),
        _ => format!("write `${{{name}}}`"),
    };
    out.push(
        Diagnostic::new(&UNEXPANDED_VARIABLE, text.span, format!("`{written}` is not expanded: no shell reads this"))
            .help(help),
    );
}

static AT_FIRST: Ascii = ascii(r"^\$([A-Z_][A-Z0-9_]+)(?:[/:]|$)");
static ANYWHERE: Ascii = ascii(r"(?:^|[/:@ .=])\$([A-Z_][A-Z0-9_]+)(?:[/: ?&.]|$)");
