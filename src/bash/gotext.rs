//! Go's `text/template`, the template language of agent files (`upstream-behaviour.md` §3.4). Templates are parsed and checked
//! here, and evaluated by the crate gotmpl. No IO.

use std::{collections::BTreeMap, ops::Range, sync::Arc};

use gotmpl::{
    FuncMap, MissingKey, Template, TemplateError, Value,
    parse::{BranchNode, Expr, ListNode, Node, Parser, PipeNode},
};

/// The reason why a template cannot be parsed or evaluated, and its place.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{message}")]
pub struct Fault {
    /// Byte range in the template.
    pub range: Range<usize>,
    pub message: String,
}

/// `.Name` or `$.Name` in a template.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Field {
    pub name: String,
    /// Starts at the `.` or `$`.
    pub range: Range<usize>,
}

/// The functions available in every template.
const FUNCTIONS: [&str; 19] = [
    "and", "call", "eq", "ge", "gt", "html", "index", "js", "le", "len", "lt", "ne", "not", "or", "print", "printf",
    "println", "slice", "urlquery",
];

/// Every field that a template uses, in the order of the text.
///
/// # Errors
/// If the template cannot be parsed, or contains a name that is neither in `fields` nor a function.
pub fn fields(template: &str, fields: &[&str]) -> Result<Vec<Field>, Fault> {
    let (found, faults) = read(template, fields)?;
    faults.into_iter().next().map_or(Ok(found), Err)
}

/// All errors in a template for which only `fields` are known.
pub fn faults(template: &str, fields: &[&str]) -> Vec<Fault> {
    let faults = match read(template, fields) {
        Ok((_, faults)) => faults,
        Err(fault) => return vec![fault],
    };
    if !faults.is_empty() {
        return faults;
    }
    // Errors in the arguments of a function appear only when it is called, and a branch may or may not be taken.
    let probes = ["x", ""].map(|value| fields.iter().map(|name| (*name, value)).collect::<Vec<_>>());
    let error = probes.iter().find_map(|values| execute(template, values, FuncMap::new()).err().filter(is_certain));
    error.iter().map(|error| fault(template, error)).collect()
}

/// Fills a template.
///
/// # Errors
/// Same as [`fields`], and the errors that functions report for their arguments.
pub fn render(template: &str, values: &[(&str, &str)]) -> Result<String, Fault> {
    let known: Vec<&str> = values.iter().map(|(name, _)| *name).collect();
    fields(template, &known)?;
    evaluate(template, values, FuncMap::new())
}

/// Whether an error does not depend on the length of a value.
fn is_certain(error: &TemplateError) -> bool {
    !matches!(error, TemplateError::IndexOutOfRange { .. })
}

/// Evaluates a template that [`fields`] has read, with some of the usual functions replaced.
///
/// # Errors
/// The errors that functions report for their arguments.
pub(super) fn evaluate(template: &str, values: &[(&str, &str)], functions: FuncMap) -> Result<String, Fault> {
    execute(template, values, functions).map_err(|error| fault(template, &error))
}

fn execute(template: &str, values: &[(&str, &str)], functions: FuncMap) -> Result<String, TemplateError> {
    let data: BTreeMap<Arc<str>, Value> =
        values.iter().map(|(name, value)| (Arc::from(*name), Value::String(Arc::from(*value)))).collect();
    Template::new("template")
        .missing_key(MissingKey::Error)
        .max_range_iters(10_000)
        .funcs(functions)
        .parse(template)
        .and_then(|template| template.execute_to_string(&Value::Map(Arc::new(data))))
}

fn read(template: &str, known: &[&str]) -> Result<(Vec<Field>, Vec<Fault>), Fault> {
    let parsed = Parser::new(template, "{{", "}}").and_then(Parser::parse);
    let (body, defines) = parsed.map_err(|error| fault(template, &error))?;
    balanced(template)?;
    let mut walk = Walk { template, known, fields: Vec::new(), faults: Vec::new() };
    walk.list(&body, true);
    // In a definition, the dot is the argument of the `template` action.
    defines.iter().for_each(|define| walk.list(&define.body, false));
    walk.fields.sort_by_key(|field| field.range.start);
    Ok((walk.fields, walk.faults))
}

/// Converts an error of gotmpl into a fault at the action where it occurred.
fn fault(template: &str, error: &TemplateError) -> Fault {
    let (at, message) = match error {
        TemplateError::Parse { line, col, message, .. } | TemplateError::Lex { line, col, message, .. } => {
            (offset(template, *line, *col), format!("the template cannot be parsed: {message}"))
        }
        TemplateError::Exec(message) => (None, format!("the template cannot be evaluated: {message}")),
        other => (None, format!("the template cannot be evaluated: {other}")),
    };
    Fault { range: at.map_or(0..template.len(), |at| action(template, at)), message }
}

/// The byte offset of a line and a column, both starting at 1. Columns count characters.
fn offset(text: &str, line: usize, column: usize) -> Option<usize> {
    let from = match line.checked_sub(1)? {
        0 => 0,
        nth => text.match_indices('\n').nth(nth - 1)?.0 + 1,
    };
    let within = text[from..].char_indices().map(|(at, _)| at).nth(column.checked_sub(1)?);
    Some(from + within.unwrap_or(text.len() - from))
}

/// The range of the `{{ … }}` around a byte.
fn action(template: &str, at: usize) -> Range<usize> {
    let start = template[..at].rfind("{{").unwrap_or(if at < template.len() { at } else { 0 });
    let end = template[at..].find("}}").map_or(template.len(), |end| at + end + 2);
    start..end.max(start)
}

/// Rejects a block without an end and an end without a block. gotmpl 0.6 accepts both, Go does not.
fn balanced(template: &str) -> Result<(), Fault> {
    let mut open: Vec<(&str, Range<usize>)> = Vec::new();
    for (keyword, range) in actions(template) {
        let inner = open.last().map(|(keyword, _)| *keyword);
        match (keyword, inner) {
            ("if" | "range" | "with" | "block" | "define", _) => open.push((keyword, range)),
            ("end", Some(_)) => drop(open.pop()),
            ("else", Some("if" | "range" | "with")) => {}
            ("break" | "continue", _) if open.iter().any(|(keyword, _)| *keyword == "range") => {}
            ("end" | "else" | "break" | "continue", _) => {
                return Err(Fault { range, message: format!("unexpected `{keyword}`") });
            }
            _ => {}
        }
    }
    match open.pop() {
        Some((keyword, range)) => Err(Fault { range, message: format!("this `{keyword}` has no `{{{{ end }}}}`") }),
        None => Ok(()),
    }
}

/// The first word of every action of a parsed template, and the range of the action.
fn actions(template: &str) -> impl Iterator<Item = (&str, Range<usize>)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at + template[at..].find("{{")?;
        let inside = template[start + 2..].strip_prefix('-').unwrap_or(&template[start + 2..]).trim_start();
        let word = &inside[..inside.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(inside.len())];
        let mut end = template.len() - inside.len();
        if inside.starts_with("/*") {
            end += inside.find("*/")? + 2;
        }
        // `}}` in a quoted text does not close the action.
        loop {
            let rest = &template[end..];
            let next = rest.find(['}', '"', '`', '\''])?;
            end += next + 1;
            match rest.as_bytes()[next] {
                b'}' if template[end..].starts_with('}') => break,
                b'`' => end += template[end..].find('`')? + 1,
                quote @ (b'"' | b'\'') => {
                    let mut escaped = false;
                    end += 1 + template.as_bytes()[end..].iter().position(|b| {
                        let closes = *b == quote && !escaped;
                        escaped = *b == b'\\' && !escaped;
                        closes
                    })?;
                }
                _ => {}
            }
        }
        at = end + 1;
        Some((word, start..at))
    })
}

/// Checks every name in a template.
struct Walk<'t> {
    template: &'t str,
    known: &'t [&'t str],
    fields: Vec<Field>,
    faults: Vec<Fault>,
}

impl Walk<'_> {
    /// `root` is true where `.` is the data that the template is filled from.
    fn list(&mut self, list: &ListNode, root: bool) {
        for node in &list.nodes {
            match node {
                Node::List(list) => self.list(list, root),
                Node::Action(action) => self.pipe(&action.pipe, root),
                Node::If(branch) => self.branch(branch, root, root),
                Node::Range(branch) | Node::With(branch) => self.branch(branch, root, false),
                Node::Template(call) => call.pipe.iter().for_each(|pipe| self.pipe(pipe, root)),
                Node::Text(_) | Node::Define(_) | Node::Break(_) | Node::Continue(_) => {}
            }
        }
    }

    fn branch(&mut self, branch: &BranchNode, root: bool, inner: bool) {
        self.pipe(&branch.pipe, root);
        self.list(&branch.body, inner);
        branch.else_body.iter().for_each(|list| self.list(list, root));
    }

    fn pipe(&mut self, pipe: &PipeNode, root: bool) {
        for expression in pipe.commands.iter().flat_map(|command| &command.args) {
            self.expression(expression, root);
        }
    }

    fn expression(&mut self, expression: &Expr, root: bool) {
        match expression {
            Expr::Field(at, names) if root => self.field(at.offset, ".", names),
            Expr::Variable(at, variable, names) if variable == "$" && !names.is_empty() => {
                self.field(at.offset, "$.", names);
            }
            Expr::Identifier(at, name) if !FUNCTIONS.contains(&name.as_str()) => {
                let known = FUNCTIONS.join("`, `");
                let message = format!("unknown function `{name}`; available: `{known}`");
                self.faults.push(Fault { range: at.offset..at.offset + name.len(), message });
            }
            Expr::Pipe(_, pipe) => self.pipe(pipe, root),
            Expr::Chain(_, inner, _) => self.expression(inner, root),
            _ => {}
        }
    }

    fn field<S: AsRef<str>>(&mut self, at: usize, sigil: &str, names: &[S]) {
        let Some(name) = names.first().map(AsRef::as_ref) else { return };
        let range = at..(at + sigil.len() + name.len()).min(self.template.len());
        let known = || self.known.iter().map(|f| format!("`{{{{ .{f} }}}}`")).collect::<Vec<_>>().join(", ");
        if !self.known.contains(&name) {
            let message = format!("unknown field `{name}`; available: {}", known());
            self.faults.push(Fault { range, message });
        } else if let Some(inner) = names.get(1) {
            let message = format!("`.{name}` is a string and has no field `{}`", inner.as_ref());
            self.faults.push(Fault { range, message });
        } else {
            self.fields.push(Field { name: name.to_owned(), range });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_are_evaluated_as_in_go() {
        let values = [("A", "1"), ("B", "{{ .A }}"), ("E", "")];
        let out = |template: &str| render(template, &values);
        for (template, expected) in [
            ("x {{ .A }}{{.B}} y", "x 1{{ .A }} y"),
            ("x {{- .A -}} \n y{{/* no */}}", "x1y"),
            (r#"{{ printf "%q-%5s" .B .A }}"#, r#""{{ .A }}"-    1"#),
            ("{{ if .E }}e{{ else if eq .A \"1\" }}one{{ end }}", "one"),
            ("{{ with .A }}<{{ . }}{{ $.E }}>{{ else }}none{{ end }}", "<1>"),
            ("{{ $x := .A | print \"n\" }}{{ $x }}{{ len $x }}", "n12"),
            ("{{ range $i := 3 }}{{ $i }},{{ end }}", "0,1,2,"),
            (r#"{{ define "d" }}[{{ . }}]{{ end }}{{ template "d" .A }}"#, "[1]"),
            ("{{ \"}}\" }}{{ `{{` }}", "}}{{"),
            ("{{ and .A .E }}|{{ or .E .A }}|{{ not .E }}|{{ html \"<\" }}|{{ urlquery \"a b\" }}", "|1|true|&lt;|a+b"),
        ] {
            assert_eq!(out(template).as_deref(), Ok(expected), "{template}");
        }
    }

    #[test]
    fn faults_have_their_location() {
        let range = |template: &str| {
            faults(template, &["A"]).into_iter().map(|f| (f.range.start, f.range.end)).collect::<Vec<_>>()
        };
        assert_eq!(range("a {{ .C }} {{ if .A }}{{ $.D }}{{ end }}"), [(5, 7), (25, 28)]);
        assert_eq!(range("a {{ frob .A }}"), [(5, 9)]);
        assert_eq!(range("{{ .A.b }}"), [(3, 5)]);
        assert_eq!(range("ok {{ if .A }} no end"), [(3, 14)]);
        assert_eq!(
            range("{{ if eq .A \"{{ end }}\" }}{{/* {{ end }} */}}x{{- else -}}y{{ end }}{{ end }}"),
            [(68, 77)]
        );
        assert_eq!(range("ok {{ .A | }}"), [(3, 13)]);
        for broken in ["{{ .A", "{{-}}", "{{}}", "{{ $x }}", "{{ slice .A \"b\" }}", "{{ template \"none\" }}"] {
            assert_eq!(range(broken).len(), 1, "{broken}");
        }
        assert!(range("{{ .A }} {{ with .A }}{{ . }}{{ end }}").is_empty());
    }
}
