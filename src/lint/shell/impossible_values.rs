//! Values that a field or a program never has: words outside a closed list, times in another format, keys with dots
//! that are read as paths.

use crate::{
    ascii::{Ascii, ascii},
    bash::{
        ast::{self, Part},
        fields,
        program::{Kind, Statement},
        tools,
    },
    diagnostic::{Diagnostic, Diagnostics, nearest},
    effects::{
        asked::{Demand, Form},
        shell::Run,
        value::Value,
    },
    hir::{Arg, ArgKind, Def, OperationKind, PhaseKind},
    lint::{
        TaskView,
        analysis::{facts, texts},
        script::Content,
    },
    rule,
    source::{Span, resolve},
};

rule! {
    pub static IMPOSSIBLE_VALUE = "impossible-value", Verdict;
    pub static DOTTED_KEY = "dotted-key", Verdict;
}

/// A field, a value that it is set to or compared with, and the location.
struct Compared {
    field: String,
    value: String,
    span: Span,
    /// Whether the field is set to the value: the accepted formats may differ from the printed one.
    given: bool,
}

/// `pathType: prefix`, `.actions == ["add"]`, `{{.State.Status}}` compared with `healthy`: not one of the field's known
/// values. Requires a table of the program that lists them.
pub fn check(view: &TaskView<'_>, out: &mut Diagnostics) {
    let mut found: Vec<Compared> = Vec::new();
    let of_fact = |given| {
        move |fact: &facts::Fact| Compared { field: fact.key.clone(), value: fact.text(), span: fact.span, given }
    };
    found.extend(facts::asked(view).iter().map(of_fact(false)));
    found.extend(facts::given(view).iter().map(of_fact(true)));
    for script in view.scripts.iter().filter(|script| script.phase == PhaseKind::Verify) {
        in_text(&script.content, &mut found);
        items(&script.content, &mut found);
        in_tests(&script.content, &mut found);
    }
    view.task.verify.steps.iter().for_each(|step| {
        step.walk(&mut |step| {
            if let Some(file) = step.arg("expected").filter(|_| matches!(step.op.kind, OperationKind::Extension { .. }))
            {
                match (&file.kind, file.as_literal()) {
                    (ArgKind::Record(_), _) => leaves("", file, &mut found),
                    (_, Some(path)) => {
                        let text = view.files.read(&resolve(&view.task.dir, path)).ok();
                        let text = text.and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default();
                        found.extend(facts::lines(&text, file.span).map(|fact| of_fact(false)(&fact)));
                    }
                    _ => {}
                }
            }
            // The whole output of a command, compared with a value.
            let run = step.arg("run").and_then(crate::lint::analysis::texts::script_text).unwrap_or_default();
            let stdout = step.expect.as_ref().and_then(|(_, expect)| expect.get("stdout"));
            let wanted = stdout.map(|out| out.get("equals").unwrap_or(out));
            if let Some((arg, text)) = wanted.and_then(|arg| Some((arg, arg.as_literal()?))) {
                found.extend(printed(&run).map(|field| Compared {
                    field,
                    value: text.to_owned(),
                    span: arg.span,
                    given: false,
                }));
            }
        });
    });
    statuses(view, out);
    booleans(view, out);
    let mut told: Vec<Span> = Vec::new();
    for Compared { field, value, span, given } in found {
        if let Some((message, help)) = fault(view, &field, &value, given).filter(|_| !told.contains(&span)) {
            out.push(Diagnostic::new(&IMPOSSIBLE_VALUE, span, message).help(help));
            told.push(span);
        }
    }
}

/// `%{http_code}` compared with `200 OK`: curl prints three digits.
fn statuses(view: &TaskView<'_>, out: &mut Diagnostics) {
    for question in view.asked().iter().filter(|question| question.form == Form::Status) {
        let (value, whole) = match &question.demand {
            // As a number, the `000` for no response is 0.
            Demand::Compared { operator, with }
                if matches!(operator.as_str(), "=" | "==" | "!=")
                    || matches!(operator.as_str(), "-eq" | "-ne") && !with.trim_start_matches('0').is_empty() =>
            {
                (with.as_str(), true)
            }
            Demand::Matches { pattern, options } if !options.contains('v') => (pattern.as_str(), false),
            _ => continue,
        };
        let digits = value.bytes().all(|b| b.is_ascii_digit());
        let first = question.runs.first().filter(|run| whole && digits && value >= "400" && ends_on_error(run));
        if let Some(run) = first {
            out.push(
                Diagnostic::new(
                    &IMPOSSIBLE_VALUE,
                    question.span,
                    format!("with `--fail`, curl fails at status {value}, and the script ends before this comparison"),
                )
                .label(run.content.span(run.statement.range.clone()), "`set -e` ends the script here")
                .help("remove `-f` or `--fail` from this request"),
            );
            continue;
        }
        let never = match whole {
            true => !(value.is_empty() || digits && value.len() == 3),
            // A pattern that contains a letter or a space and is literal.
            false => {
                value.bytes().any(|b| b.is_ascii_alphabetic() || b == b' ')
                    && !value.contains(['\\', '[', '|', '?', '*'])
            }
        };
        if never {
            out.push(
                Diagnostic::new(
                    &IMPOSSIBLE_VALUE,
                    question.span,
                    format!("the response status is printed as three digits, never as `{value}`"),
                )
                .help("compare only the number: `200`"),
            );
        }
    }
}

/// Whether this is `code=$(curl -f …)` in a script that ends when a command fails.
fn ends_on_error(run: &Run<'_>) -> bool {
    let fails = run
        .words
        .iter()
        .filter_map(Value::literal)
        .any(|word| word == "--fail" || word.starts_with('-') && !word.starts_with("--") && word.contains('f'));
    let text = &run.content.text;
    let head = &text[run.content.line_start(run.statement.range.start)..run.statement.range.start];
    let name = head
        .trim_start()
        .strip_suffix("$(")
        .map(|head| head.trim_end_matches('"'))
        .and_then(|head| head.strip_suffix('='));
    let is_name = |name: &str| name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    fails && !run.lenient && name.is_some_and(is_name) && run.content.program.sets('e', "errexit")
}

/// `{.spec.suspend}` compared with `yes`, `[ "$running" = Once ]`: the field is true or false.
fn booleans(view: &TaskView<'_>, out: &mut Diagnostics) {
    for question in view.asked() {
        let (Form::Field(path), Demand::Compared { operator, with }) = (&question.form, &question.demand) else {
            continue;
        };
        let field = path.rsplit('.').next().unwrap_or(path);
        let program = question.runs.first().map_or("", |run| run.statement.tool());
        if matches!(operator.as_str(), "=" | "==" | "!=")
            // The author chooses the names in these fields.
            && !path.starts_with("data.")
            && !path.contains("labels.")
            && !path.contains("annotations.")
            && fields::is_boolean(program, field)
            && !matches!(with.as_str(), "true" | "false" | "" | "null" | "<no value>")
        {
            out.push(
                Diagnostic::new(
                    &IMPOSSIBLE_VALUE,
                    question.span,
                    format!("`{field}` is true or false, never `{with}`"),
                )
                .help("compare with `true` or `false`, or check the field that contains this word"),
            );
        }
    }
}

/// The message and the help for an impossible value.
fn fault(view: &TaskView<'_>, field: &str, value: &str, given: bool) -> Option<(String, String)> {
    let is_word = !value.is_empty() && value.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'));
    if !is_word {
        return None;
    }
    let used = |tool: &tools::Tool| {
        // Some field names are common words, so the task must use the program.
        tool.names[0] == "kubectl"
            || field.starts_with('.')
            || view
                .scripts
                .iter()
                .any(|script| tool.names.iter().any(|name| script.content.text.contains(name.as_str())))
    };
    for tool in tools::all() {
        if let Some(known) =
            tool.fixed.get(field).filter(|known| !known.iter().any(|known| known == value) && used(tool))
        {
            let mut help = format!("it is one of {}", known.join(", "));
            if let Some(near) = nearest(value, known.iter().map(String::as_str)) {
                help = format!("did you mean `{near}`? {help}");
            }
            return Some((format!("`{field}` is never `{value}`"), help));
        }
        let other = !given
            && value.len() > 1
            && value.starts_with(|c: char| c.is_ascii_digit())
            && !(value.ends_with('s') && value[..value.len() - 1].bytes().all(|b| b.is_ascii_digit()))
            && value.trim_start_matches(|c: char| c.is_ascii_digit()).len() == 1;
        if tool.seconds.iter().any(|known| known == field) && other && used(tool) {
            let seconds = crate::ty::duration::parse(value).map(|time| time.as_secs()).ok().or_else(|| {
                value
                    .strip_suffix('d')
                    .and_then(|days| days.parse::<u64>().ok())
                    .and_then(|days| days.checked_mul(86400))
            });
            let written = seconds.map_or_else(|| "600s".to_owned(), |seconds| format!("{seconds}s"));
            return Some((
                format!("`{field}` is printed in seconds, never as `{value}`"),
                format!("compare with the printed format, such as `{written}`"),
            ));
        }
    }
    None
}

fn leaves(field: &str, arg: &Arg<Def>, found: &mut Vec<Compared>) {
    match &arg.kind {
        ArgKind::Record(fields) => fields.iter().for_each(|(name, arg)| leaves(&name.value, arg, found)),
        ArgKind::List(items) => items.iter().for_each(|arg| leaves(field, arg, found)),
        _ => {
            if let Some(text) = arg.as_literal() {
                found.push(Compared { field: field.to_owned(), value: text.to_owned(), span: arg.span, given: false });
            }
        }
    }
}

/// `.actions == ["add"]`, `found.get("ttl") != "7d"`: a name and a quoted text on the two sides of an operator, in a jq
/// filter or an embedded program.
fn in_text(content: &Content, found: &mut Vec<Compared>) {
    let text = content.text.as_str();
    for (at, _) in text.match_indices("=") {
        let (Some(before), Some(behind)) = (text[..at].strip_suffix(['=', '!']), text.get(at + 1..)) else { continue };
        let left = before.trim_end_matches([' ', '=', ')', ']', '}', '"', '\'', '\\', '?', '[']);
        let start = left
            .rfind(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
            .map_or(0, |at| left.ceil_char_boundary(at + 1));
        let field = &left[start..];
        let right = behind.trim_start_matches([' ', '[', '\\']);
        let Some(quote) = right.chars().next().filter(|c| matches!(c, '"' | '\'')) else { continue };
        let Some(end) = right[1..].find([quote, '\\', '\n']) else { continue };
        let begin = text.len() - right.len() + 1;
        if field.len() > 2 {
            let is_outer = text[..start].strip_suffix('.').is_some_and(|before| {
                !before.ends_with(|c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ')' | ']' | '"'))
            });
            let asked = if is_outer && is_asked_for(text, field) { format!(".{field}") } else { field.to_owned() };
            found.push(Compared {
                field: asked,
                value: right[1..=end].to_owned(),
                span: content.span(begin..begin + end),
                given: false,
            });
        }
    }
}

/// Whether `gh` is asked to print a field: `gh issue view 7 --json title,state`.
fn is_asked_for(text: &str, field: &str) -> bool {
    let behind = |(at, word): (usize, &'_ str)| at + word.len();
    text.match_indices("--json").map(behind).any(|at| {
        let list = text[at..].trim_start_matches([' ', '=', '"', '\'']).split([' ', '"', '\'', '\n']).next();
        list.is_some_and(|list| list.split(',').any(|name| name == field))
    }) && texts::has_word(text, "gh")
        && !text.contains("downcase")
}

/// `.policyTypes | index("ingress")`, `.accessModes | contains(["RWO"])`: an item of the field, in a jq filter.
fn items(content: &Content, found: &mut Vec<Compared>) {
    if !content.text.contains('|') {
        return;
    }
    for item in ITEM.captures_iter(&content.text) {
        if let (Some(field), Some(value)) = (item.get(1), item.get(2)) {
            found.push(Compared {
                field: field.as_str().to_owned(),
                value: value.as_str().to_owned(),
                span: content.span(value.range()),
                given: false,
            });
        }
    }
}

static ITEM: Ascii = ascii(r#"\.(\w+)(?:\[\])?\s*\|\s*(?:index|contains|any)\(\s*\[?(?:\.\s*==\s*)?\\?"([\w-]+)\\?""#);

/// The path of the field that a command prints, through a jq filter or a format.
fn printed(command: &str) -> Option<String> {
    by_filter(command).or_else(|| by_format(command))
}

/// The path that jq selects from a program's JSON output: `.info.status` of `helm status web -o json | jq -r
/// .info.status`.
fn by_filter(command: &str) -> Option<String> {
    let (before, rest) = command.split_once("jq ")?;
    let tool = tools::all()
        .find(|tool| before.split(['(', ' ', '"', '`', '\n']).any(|word| tool.names.iter().any(|name| name == word)))?;
    let path = rest.split_whitespace().find(|word| !word.starts_with('-'))?.trim_matches(['\'', '"', ')']);
    tool.fixed.contains_key(path).then(|| path.to_owned())
}

/// The path that a format of docker prints: `.State.Status` of `{{.State.Status}}`.
fn by_format(command: &str) -> Option<String> {
    let (_, rest) = command.split_once("{{")?;
    let path = rest.split_once("}}")?.0.trim().trim_matches('"');
    let alone = !rest.split_once("}}")?.1.contains("{{");
    let plain = path.starts_with('.') && path.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'.');
    (plain && alone).then(|| path.to_owned())
}

/// `[ "$state" = healthy ]`, if `state` was printed by a format or a jq filter; `… | grep -q healthy`.
fn in_tests(content: &Content, found: &mut Vec<Compared>) {
    if !content.text.contains("{{") && !content.text.contains("jq ") {
        return;
    }
    let mut captures: Vec<(String, Option<String>)> = Vec::new();
    content.program.walk(&mut |s| {
        if matches!(s.kind, Kind::Assignment | Kind::Declaration) {
            let text = content.text.get(s.range.clone()).unwrap_or_default();
            for word in ast::split(text, 0) {
                let Some((name, value)) = word.source.split_once('=') else { continue };
                if value.contains("$(") {
                    captures.push((name.to_owned(), printed(value)));
                }
            }
        }
    });
    let field = |word: &ast::Word| match word.parts.as_slice() {
        [Part::Command { text, .. }] => printed(text),
        _ => {
            let name = word.variable()?;
            let mut fields = captures.iter().filter(|(known, _)| known == name).map(|(_, field)| field.clone());
            let first = fields.next()??;
            fields.all(|other| other.as_ref() == Some(&first)).then_some(first)
        }
    };
    content.program.walk(&mut |s| {
        let text = content.text.get(s.range.clone()).unwrap_or_default();
        if let Kind::Pipeline(parts) = &s.kind
            && let [first, last] = parts.as_slice()
            && last.name() == "grep"
            && let Some(field) = content.text.get(first.range.clone()).and_then(printed)
        {
            found.extend(looked_for(last, content).map(|(value, span)| Compared { field, value, span, given: false }));
        }
        if !(matches!(s.kind, Kind::Test) || s.name() == "test") || text.starts_with("((") {
            return;
        }
        for triple in ast::split(text, s.range.start).windows(3) {
            let [left, operator, right] = triple else { continue };
            if matches!(operator.source.as_str(), "=" | "==" | "!=")
                && let Some(value) = right.literal()
                && let Some(field) = field(left)
            {
                found.push(Compared { field, value, span: content.span(right.range.clone()), given: false });
            }
        }
    });
}

/// The word that `grep` looks for, if it is probably the whole value.
fn looked_for(grep: &Statement, content: &Content) -> Option<(String, Span)> {
    let words = grep.words().get(1..)?;
    let whole = words.iter().any(|word| word.text.starts_with('-') && word.text.contains(['x', 'w']));
    let inverted = words.iter().any(|word| word.text.starts_with('-') && word.text.contains('v'));
    let word = tools::searched(words)?;
    let text = word.text.trim_matches(['"', '\'']);
    let bare = text.trim_start_matches('^').trim_end_matches('$');
    (!inverted && (whole || bare.len() + 2 == text.len() || bare.len() > 5))
        .then(|| (bare.to_owned(), content.span(word.range.clone())))
}

/// Fields whose keys are chosen by authors and whose values have no fields.
const FLAT: [&str; 7] = ["labels", "annotations", "matchLabels", "nodeSelector", "hard", "used", "data"];

/// `{.spec.hard.requests.cpu}`, `{.data.tls.crt}`: the dot is part of the key, but without a backslash it separates
/// fields.
pub fn keys(view: &TaskView<'_>, out: &mut Diagnostics) {
    let mut found: Vec<(Span, String)> = Vec::new();
    let Some(tool) = tools::tool("kubectl") else { return };
    for script in &view.effects.scripts {
        for run in script.trace.runs.iter().filter(|run| run.statement.tool() == "kubectl") {
            let words = || run.words.iter().filter_map(Value::literal);
            let flat = || {
                words().any(|word| {
                    let kind = word.split(['/', '.']).next().unwrap_or(word);
                    tool.kind(kind).is_some_and(|(kind, _)| matches!(kind, "configmap" | "secret"))
                })
            };
            for path in words().filter(|word| word.contains("{.")) {
                let span = || {
                    let word = run.statement.words().iter().find(|word| word.text.contains("jsonpath"));
                    run.content.span(word.map_or_else(|| run.statement.range.clone(), |word| word.range.clone()))
                };
                found.extend(dotted(path, &flat).map(|key| (span(), key)));
            }
        }
    }
    view.task.walk(&mut |_, step| {
        let Some(path) = step.arg("jsonpath").filter(|_| matches!(step.op.kind, OperationKind::Extension { .. }))
        else {
            return;
        };
        let resource =
            step.arg("resource").or_else(|| step.arg("kind")).and_then(|arg| arg.as_literal()).unwrap_or_default();
        let kind = resource.split('/').next().unwrap_or(resource);
        let flat = tool.kind(kind).is_some_and(|(kind, _)| matches!(kind, "configmap" | "secret"));
        found.extend(path.as_literal().and_then(|text| dotted(text, &|| flat)).map(|key| (path.span, key)));
    });
    let mut told: Vec<(Span, String)> = Vec::new();
    for (span, key) in found {
        if told.contains(&(span, key.clone())) {
            continue;
        }
        let escaped = key.replace('.', "\\.");
        out.push(
            Diagnostic::new(&DOTTED_KEY, span, format!("`{key}` is a single key, but this path splits it into fields"))
                .help(format!("escape a dot in a key with a backslash: `{escaped}`")),
        );
        told.push((span, key));
    }
}

/// A key in a path that contains a dot without a backslash.
fn dotted(path: &str, flat: &dyn Fn() -> bool) -> Option<String> {
    let braced = path.split('{').skip(1).filter_map(|part| part.split_once('}')).map(|(inside, _)| inside);
    for inside in braced {
        for (at, _) in inside.match_indices('.') {
            let rest = &inside[at + 1..];
            let Some(parent) =
                FLAT.iter().find(|parent| rest.strip_prefix(**parent).is_some_and(|rest| rest.starts_with('.')))
            else {
                continue;
            };
            // `data` is flat only for some kinds.
            if *parent == "data" && !(at == 0 && flat()) {
                continue;
            }
            let key = &rest[parent.len() + 1..];
            let end = key
                .find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '/' | '\\')))
                .unwrap_or(key.len());
            let key = &key[..end];
            let bare = key.contains('.') && !key.contains('\\') && !key.ends_with('.');
            if bare {
                return Some(key.to_owned());
            }
        }
    }
    None
}

/// The condition that a path or a filter selects: `conditions[?(@.type=="Complete")]`.
pub fn asked_condition(word: &Value) -> Option<String> {
    let text = word.literal()?;
    // A cheap test first, because this runs for every word.
    let (_, rest) = text.contains('@').then(|| text.split_once("conditions[?(@.type"))??;
    let rest = rest.trim_start_matches([' ', '=']);
    let quote = rest.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    rest[1..].split_once(quote).map(|(condition, _)| condition.to_owned())
}
