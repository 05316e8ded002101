//! Checks arguments against shapes.

use std::fmt;

use super::{
    Checker,
    resolve::{EMPTY_DEFAULT, WRONG_HOLE_TYPE, template_type},
    scope::Scope,
};
use crate::{
    bash,
    decode::{
        self, INVALID_VALUE, MISSING_FIELD, UNKNOWN_FIELD, WRONG_TYPE, check_pattern, parse_duration, quote,
        unknown_field,
    },
    diagnostic::{Diagnostic, Strength, nearest},
    hir::{Arg, ArgKind, Def, Name, Template},
    outside, rule,
    signature::{Field, Format, Shape},
    source::{Span, Stat},
    template::Path,
    ty::{Type, number},
};

rule! {
    pub static EXACTLY_ONE = "exactly-one", Hard;
    pub static MISSING_FILE = "missing-file", Hard;
}

/// The subject of a message. It is formatted lazily, since most messages are never written.
#[derive(Clone, Copy)]
pub(super) enum What<'a> {
    /// The body of a step of this type, and the keys that are read there in addition to its arguments.
    Step(&'a str, &'a [&'static str]),
    /// The value of this key.
    Key(&'a str),
    /// The `expect` of a step of this type.
    Expect(&'a str),
    Item(&'a Self),
    Mapping(&'a Self),
    Words(&'a str),
}

impl fmt::Display for What<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            What::Step(name, _) | What::Key(name) => write!(f, "`{name}`"),
            What::Expect(step) => write!(f, "the `expect` of `{step}`"),
            What::Item(list) => write!(f, "an item of {list}"),
            What::Mapping(key @ What::Key(_)) => key.fmt(f),
            What::Mapping(other) => write!(f, "the mapping of {other}"),
            What::Words(words) => f.write_str(words),
        }
    }
}

impl Checker<'_> {
    /// Checks arguments against a record. Reports unknown, missing and invalid arguments.
    pub(super) fn record(
        &mut self,
        args: &[(Name, Arg<Path>)],
        shape: &Shape,
        what: What<'_>,
        parent: Span,
        scope: &Scope,
    ) -> Vec<(Name, Arg<Def>)> {
        let empty = indexmap::IndexMap::new();
        let (fields, rest) = match shape {
            Shape::Record { fields, rest } => (fields, rest.as_deref()),
            _ => (&empty, Some(&Shape::Any)),
        };
        let mut checked = Vec::new();
        for (key, arg) in args {
            match (fields.get(&key.value), rest) {
                (Some(Field { shape, .. }), _) => {
                    checked.push((key.clone(), self.arg(arg, shape, What::Key(&key.value), scope)));
                }
                (None, Some(rest)) => checked.push((key.clone(), self.arg(arg, rest, What::Key(&key.value), scope))),
                (None, None) => {
                    let mut known: Vec<&str> = fields.keys().map(String::as_str).collect();
                    if let What::Step(_, keys) = what {
                        known.extend(keys);
                    }
                    let beside = args.iter().map(|(key, _)| key.value.as_str());
                    let unknown = unknown_field(&key.value, key.span, &what.to_string(), known.iter().copied(), beside);
                    self.out.push(match what {
                        What::Step(name, _)
                            if unknown.fix.is_none() && name.contains('.') && known.contains(&"args") =>
                        {
                            let help =
                                format!("put the arguments of the tool under `args`: `args: {{{}: …}}`", key.value);
                            unknown.here("this key has no effect here").help(help)
                        }
                        _ => unknown,
                    });
                    // The value has no effect, but its holes must still resolve.
                    self.arg(arg, &Shape::Any, What::Words("an argument"), scope);
                }
            }
        }
        for (name, _) in fields.iter().filter(|(_, f)| f.required && f.default.is_none()) {
            if !args.iter().any(|(k, _)| k.value == *name) {
                // A misspelled key is reported once, as unknown.
                let unknown = args.iter().map(|(key, _)| key).filter(|key| !fields.contains_key(&key.value));
                let called = what.to_string();
                let known = || fields.keys().map(String::as_str);
                let mut meant = unknown.filter(|key| decode::meant(&key.value, &called, known()) == Some(name));
                if meant.clone().any(|key| self.harden(key.span)) {
                    continue;
                }
                // Other keys are allowed, but this one is required.
                if let Some(key) = meant.next() {
                    self.error(unknown_field(&key.value, key.span, &called, known(), []).strength(Strength::Hard));
                    continue;
                }
                let mut diagnostic = Diagnostic::new(&MISSING_FIELD, parent, format!("{what} has no `{name}`"));
                let doc = &fields[name].doc;
                if !doc.is_empty() {
                    diagnostic = diagnostic.help(format!("`{name}`: {}", in_a_sentence(doc)));
                }
                self.error(diagnostic);
            }
        }
        checked
    }

    /// Turns an `unknown-field` finding at a key into a hard error, because the key that it misspells is missing.
    /// Returns whether there was such a finding.
    pub(super) fn harden(&mut self, key: Span) -> bool {
        let is = |d: &Diagnostic| d.rule.name == UNKNOWN_FIELD.name && d.span == key;
        let Some(found) = self.out.iter().find(|d| is(d)).cloned() else { return false };
        self.out.retain(|d| !is(d));
        self.error(found.strength(Strength::Hard));
        true
    }

    /// Checks one value against a shape.
    pub(super) fn arg(&mut self, arg: &Arg<Path>, shape: &Shape, what: What<'_>, scope: &Scope) -> Arg<Def> {
        let kind = match &arg.kind {
            ArgKind::Null => ArgKind::Null,
            ArgKind::Bool(b) => ArgKind::Bool(*b),
            ArgKind::Int(n) => ArgKind::Int(*n),
            ArgKind::Float(x) => ArgKind::Float(x.clone()),
            ArgKind::Text(template) => ArgKind::Text(self.text(template, shape, what, scope)),
            ArgKind::List(items) => {
                let inner = select(shape, &arg.kind);
                let item = match inner {
                    Some(Shape::List { items: item, min }) => {
                        if items.len() < *min {
                            self.error(Diagnostic::new(
                                &INVALID_VALUE,
                                arg.span,
                                format!("{what} must have at least {min} value{}", if *min == 1 { "" } else { "s" }),
                            ));
                        }
                        item
                    }
                    _ => &Shape::Any,
                };
                ArgKind::List(items.iter().map(|i| self.arg(i, item, What::Item(&what), scope)).collect())
            }
            ArgKind::Record(fields) => match select(shape, &arg.kind) {
                Some(record @ Shape::Record { .. }) => {
                    ArgKind::Record(self.record(fields, record, What::Mapping(&what), arg.span, scope))
                }
                _ => ArgKind::Record(
                    fields
                        .iter()
                        .map(|(k, a)| (k.clone(), self.arg(a, &Shape::Any, What::Words("a value"), scope)))
                        .collect(),
                ),
            },
        };
        if !matches!(arg.kind, ArgKind::Text(_)) {
            self.literal(arg, shape, what);
        }
        Arg { kind, span: arg.span }
    }

    /// Checks the type of a value other than text.
    fn literal(&mut self, arg: &Arg<Path>, shape: &Shape, what: What<'_>) {
        let Some(inner) = select(shape, &arg.kind) else {
            let found = describe(&arg.kind);
            let mut diagnostic =
                Diagnostic::new(&WRONG_TYPE, arg.span, format!("{what} must be {}, not {found}", shape.describe()));
            diagnostic = diagnostic.help_opt(cure(&arg.kind, shape, what));
            let source = self.cx.sources.get(arg.span.file);
            let written = source.slice(arg.span);
            let duration = matches!(shape, Shape::String { format: Some(Format::Duration), .. });
            if let (true, ArgKind::Int(n)) = (duration, &arg.kind) {
                diagnostic = diagnostic.help(format!("write `{n}s` for {n} seconds")).fix(
                    "add the unit",
                    arg.span,
                    format!("{n}s"),
                );
            } else if admits_text(shape)
                && !written.is_empty()
                && matches!(arg.kind, ArgKind::Bool(_) | ArgKind::Int(_) | ArgKind::Float(_))
            {
                diagnostic = diagnostic.help(format!("quote it: `{}`", quote(written))).fix(
                    "quote the value",
                    arg.span,
                    quote(written),
                );
            }
            self.error(diagnostic);
            return;
        };
        if let (Shape::Integer { min, max }, ArgKind::Int(n)) = (inner, &arg.kind)
            && (min.is_some_and(|m| *n < m) || max.is_some_and(|m| *n > m))
        {
            let range = match (min, max) {
                (Some(a), Some(b)) => format!("between {a} and {b}"),
                (Some(a), None) => format!("at least {a}"),
                (_, Some(b)) => format!("at most {b}"),
                _ => String::new(),
            };
            self.error(Diagnostic::new(&INVALID_VALUE, arg.span, format!("{what} must be {range}, not {n}")));
        }
    }

    fn text(&mut self, template: &Template<Path>, shape: &Shape, what: What<'_>, scope: &Scope) -> Template<Def> {
        if let Some(text) = template.as_literal() {
            self.literal_text(text, template.span, shape, what);
            return self.template(template, scope);
        }
        let checked = self.template(template, scope);
        self.empty_defaults(template, shape, what);
        // A hole that did not resolve has been reported, and its type is unknown.
        if checked.parts.len() != template.parts.len() {
            return checked;
        }
        let ty = template_type(&checked);
        if !fits(&ty, shape, checked.single_hole().is_some()) {
            let span = template.single_hole().map_or(template.span, |h| h.span);
            let mut diagnostic = Diagnostic::new(
                &WRONG_HOLE_TYPE,
                span,
                format!("{what} must be {}, but this is {ty}", shape.describe()),
            );
            if admits_text(shape) && matches!(ty, Type::List(_) | Type::Record { .. }) {
                diagnostic =
                    diagnostic.help("add `| tojson` to convert the value to JSON, or `| join(', ')` for a list");
            } else if numeric(shape).is_some() && ty == Type::String {
                diagnostic = diagnostic.help("add `| int` to convert the string to a number");
                if let Some(hole) = template.single_hole() {
                    let before_brace = Span { start: hole.span.end - 1, end: hole.span.end - 1, ..hole.span };
                    diagnostic = diagnostic.fix("add `| int`", before_brace, " | int");
                }
            }
            self.error(diagnostic);
        }
        checked
    }

    /// `default('')` can turn `rm -rf {…}/*` into `rm -rf /*` (`decisions.md` §5).
    fn empty_defaults(&mut self, template: &Template<Path>, shape: &Shape, what: What<'_>) {
        let Shape::String { format: Some(Format::Script | Format::Path | Format::Url | Format::File), .. } = shape
        else {
            return;
        };
        for hole in template.holes() {
            for (filter, span) in hole.filters.iter().zip(&hole.filter_spans) {
                let empty = filter.args.first().is_some_and(|a| a.value.as_str().is_some_and(str::is_empty));
                if filter.name.text == "default" && empty {
                    self.error(
                        Diagnostic::new(
                            &EMPTY_DEFAULT,
                            *span,
                            format!(
                                "empty default in {what}: without the value, the rest may have a different meaning"
                            ),
                        )
                        .help(
                            "use a safe default, or none: without one, the step does not run if the value is missing",
                        ),
                    );
                }
            }
        }
    }

    fn literal_text(&mut self, text: &str, span: Span, shape: &Shape, what: What<'_>) {
        match shape {
            Shape::OneOf(shapes) => {
                let texts: Vec<_> = shapes.iter().filter(|s| matches!(s, Shape::String { .. } | Shape::Any)).collect();
                match (texts.as_slice(), numeric(shape)) {
                    ([], _) => self.no_text(text, span, shape, what),
                    // A quoted number where words like `any` are also allowed.
                    ([_], Some(number)) if text.parse::<f64>().is_ok() => self.no_text(text, span, number, what),
                    ([one], _) => self.literal_text(text, span, one, what),
                    (many, _) => {
                        let plain = many.iter().any(|s| {
                            matches!(s, Shape::Any | Shape::String { format: None, .. }) && matches!(s, Shape::Any)
                                || matches!(s, Shape::String { format: None, one_of } if one_of.is_empty())
                        });
                        let listed = many
                            .iter()
                            .any(|s| matches!(s, Shape::String { one_of, .. } if one_of.iter().any(|w| w == text)));
                        if !plain && !listed {
                            self.literal_text(text, span, many[0], what);
                        }
                    }
                }
            }
            Shape::String { one_of, .. } if !one_of.is_empty() => {
                if !one_of.iter().any(|w| w == text) {
                    let mut diagnostic = Diagnostic::new(&INVALID_VALUE, span, format!("{what} cannot be `{text}`"));
                    if let Some(near) = nearest(text, one_of.iter().map(String::as_str)) {
                        diagnostic = diagnostic.here(format!("did you mean `{near}`?")).fix(
                            format!("write `{near}`"),
                            span,
                            near,
                        );
                    }
                    let words: Vec<_> = one_of.iter().map(|w| format!("`{w}`")).collect();
                    self.error(diagnostic.help(format!("expected one of {}", words.join(", "))));
                }
            }
            Shape::String { format: Some(format), .. } => self.format(text, span, *format, what),
            Shape::String { .. } | Shape::Any => {}
            _ => self.no_text(text, span, shape, what),
        }
    }

    fn no_text(&mut self, text: &str, span: Span, shape: &Shape, what: What<'_>) {
        let mut diagnostic =
            Diagnostic::new(&WRONG_TYPE, span, format!("{what} must be {}, not a string", shape.describe()));
        let holds = |is: fn(&Shape) -> bool| match shape {
            Shape::OneOf(shapes) => shapes.iter().any(is),
            one => is(one),
        };
        let number =
            holds(|shape| matches!(shape, Shape::Integer { .. } | Shape::Number)) && text.parse::<f64>().is_ok();
        let word = holds(|shape| matches!(shape, Shape::Bool)) && matches!(text, "true" | "false");
        if number || word {
            diagnostic = diagnostic.help("remove the quotes").fix("remove the quotes", span, text);
        } else if matches!(shape, Shape::Bool) {
            diagnostic = diagnostic.help("write `true` or `false`");
        } else if matches!(shape, Shape::List { .. }) && !text.is_empty() {
            let words = if text.contains(',') { text.split(',').map(str::trim).collect() } else { vec![text] };
            diagnostic = diagnostic
                .help(format!("write `[{}]`", words.into_iter().map(yaml_word).collect::<Vec<_>>().join(", ")));
        } else {
            diagnostic = diagnostic.help_opt(record_for(yaml_word(text), &["stdout", "content", "body"], shape, what));
        }
        self.error(diagnostic);
    }

    fn format(&mut self, text: &str, span: Span, format: Format, what: What<'_>) {
        let fault = match format {
            Format::Duration => parse_duration(text, span, &what.to_string()).err(),
            Format::Regex => check_pattern(text, span).err(),
            Format::Number => number::compare(text, "0").is_none().then(|| {
                let fault = Diagnostic::new(&INVALID_VALUE, span, format!("`{text}` is not a number"));
                Box::new(fault.help("write a number, or a hole with a numeric value"))
            }),
            Format::JsonPath => serde_json_path::JsonPath::parse(text).err().map(|e| {
                let fault =
                    |why: &str| Diagnostic::new(&INVALID_VALUE, span, format!("`{text}` is not a JSONPath: {why}"));
                let rooted = format!("$.{}", text.trim_start_matches('.'));
                Box::new(match text.starts_with('$') {
                    true => fault(&e.to_string())
                        .help("use JSONPath according to RFC 9535: `$.items[0].name`, `$..name`, `$.items[?@.ready]`"),
                    false if serde_json_path::JsonPath::parse(&rooted).is_ok() => fault("it does not start with `$`")
                        .help(format!("write `{rooted}`"))
                        .fix(format!("write `{rooted}`"), span, rooted),
                    false => fault("it does not start with `$`"),
                })
            }),
            Format::Mode => {
                let octal = u32::from_str_radix(text, 8).is_ok_and(|m| m <= 0o7777) && text.len() >= 3;
                (!octal).then(|| {
                    Box::new(
                        Diagnostic::new(&INVALID_VALUE, span, format!("`{text}` is not a file mode"))
                            .help("write octal digits, for example \"0644\""),
                    )
                })
            }
            Format::StatusClass => crate::builtin::http::Status::parse(text).is_none().then(|| {
                let diagnostic = Diagnostic::new(&INVALID_VALUE, span, format!("`{text}` is not a valid status"));
                Box::new(match text.parse::<u16>() {
                    Ok(code) => diagnostic.help("remove the quotes").fix("remove the quotes", span, code.to_string()),
                    Err(_) => {
                        diagnostic.help("write a code such as `200`, a list of codes, a class such as `2xx`, or `any`")
                    }
                })
            }),
            Format::Url => {
                let fits = text.starts_with("http://") || text.starts_with("https://");
                (!fits).then(|| {
                    Box::new(
                        Diagnostic::new(&INVALID_VALUE, span, format!("`{text}` is not an HTTP URL"))
                            .help("it must start with `http://` or `https://`"),
                    )
                })
            }
            Format::Method => {
                self.method(text, span);
                None
            }
            Format::File => {
                self.referenced_file(text, span);
                None
            }
            Format::FieldPath | Format::Path | Format::Script => {
                text.is_empty().then(|| Box::new(Diagnostic::new(&INVALID_VALUE, span, format!("{what} is empty"))))
            }
        };
        // An empty field path refers to the root.
        if let Some(fault) = fault
            && !(format == Format::FieldPath)
        {
            self.error(*fault);
        }
    }

    /// Servers may support other methods, so only a near miss of a known method is reported.
    fn method(&mut self, text: &str, span: Span) {
        const KNOWN: [&str; 9] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"];
        if text.is_empty() || KNOWN.contains(&text) {
            return;
        }
        if let Some(near) = nearest(text, KNOWN) {
            self.out.push(
                Diagnostic::new(&INVALID_VALUE, span, format!("`{text}` is not a known HTTP method"))
                    .strength(Strength::Warning)
                    .here(format!("did you mean `{near}`?"))
                    .help("methods are case-sensitive and usually written in capitals")
                    .fix(format!("write `{near}`"), span, near),
            );
        }
    }

    /// Checks a file that a step needs. It must exist.
    fn referenced_file(&mut self, text: &str, span: Span) {
        let path = self.path(text);
        if let Some(why) = self.cx.files.refusal(&path) {
            return self.error(match why.is_outside() {
                true => outside::diagnostic(span, "file", text, &why),
                false => Diagnostic::new(&MISSING_FILE, span, format!("`{text}` cannot be used: {why}")),
            });
        }
        match self.cx.files.stat(&path) {
            Some(Stat::File { .. }) => {
                self.files.insert(path);
            }
            Some(Stat::Dir) => {
                self.error(Diagnostic::new(&MISSING_FILE, span, format!("`{text}` is a directory, not a file")))
            }
            None => {
                let siblings = path.parent().map(|dir| self.cx.files.list(dir)).unwrap_or_default();
                let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
                let mut diagnostic = Diagnostic::new(&MISSING_FILE, span, format!("the file `{text}` does not exist"))
                    .help("paths are relative to the task's directory");
                if let Some(near) = nearest(&name, siblings.iter().map(String::as_str)) {
                    let near = format!("{}{near}", text.strip_suffix(&name).unwrap_or_default());
                    diagnostic =
                        diagnostic.here(format!("did you mean `{near}`?")).fix(format!("write `{near}`"), span, near);
                }
                self.error(diagnostic);
            }
        }
    }
}

/// Returns the help for a value of the wrong type.
fn cure(kind: &ArgKind<Path>, shape: &Shape, what: What<'_>) -> Option<String> {
    match kind {
        ArgKind::List(_) if matches!(what, What::Key("contains" | "matches")) => {
            Some("write one text here, and check each other text in a step of its own".to_owned())
        }
        ArgKind::List(items) if admits_text(shape) => {
            let words: Option<Vec<_>> = items.iter().map(|item| item.as_literal().map(bash::quote)).collect();
            let line = words.filter(|words| !words.is_empty())?.join(" ");
            Some(format!("write the words as a single string: `{}`", yaml_word(&line)))
        }
        ArgKind::Int(number) => record_for(number.to_string(), &["exitCode", "status"], shape, what),
        ArgKind::List(_) => record_for("…".to_owned(), &[], shape, what).or_else(|| {
            matches!(shape, Shape::Record { .. }).then(|| "write `KEY: VALUE` on each line, without `- `".to_owned())
        }),
        _ => record_for("…".to_owned(), &[], shape, what),
    }
}

/// Returns the help that shows the mapping probably meant by a bare value: `expect: {stdout: {contains: milk}}`. `keys`
/// are those to which such a value most likely belongs.
fn record_for(value: String, keys: &[&str], shape: &Shape, what: What<'_>) -> Option<String> {
    let fields = shape.fields().filter(|fields| !fields.is_empty())?;
    let meant = keys.iter().find_map(|key| fields.get_key_value(*key));
    Some(match (what, meant) {
        (What::Expect(_), Some((key, field))) => match field.shape.holds("contains") {
            true => format!("write `expect: {{{key}: {{contains: {value}}}}}`"),
            false => format!("write `expect: {{{key}: {value}}}`"),
        },
        _ => {
            let known: Vec<_> = fields.keys().map(|key| format!("`{key}`")).collect();
            format!("write `KEY: VALUE`; valid keys are {}", known.join(", "))
        }
    })
}

/// Formats text as a YAML value, quoted where necessary.
fn yaml_word(text: &str) -> String {
    let plain = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/')
        && text.chars().all(|c| c.is_alphanumeric() || " ._/-=+$".contains(c))
        && !text.ends_with(' ')
        && !matches!(text, "true" | "false" | "null" | "yes" | "no" | "on" | "off");
    if plain { text.to_owned() } else { quote(text) }
}

/// Returns the part of a shape that applies to a value of this kind.
fn select<'s>(shape: &'s Shape, kind: &ArgKind<Path>) -> Option<&'s Shape> {
    let fits = |s: &Shape| match (s, kind) {
        (Shape::Any, _)
        | (Shape::Null, ArgKind::Null)
        | (Shape::Bool, ArgKind::Bool(_))
        | (Shape::Integer { .. }, ArgKind::Int(_)) => true,
        (Shape::Number, ArgKind::Int(_) | ArgKind::Float(_)) => true,
        (Shape::List { .. }, ArgKind::List(_))
        | (Shape::Record { .. }, ArgKind::Record(_))
        | (Shape::String { .. }, ArgKind::Text(_)) => true,
        (Shape::Integer { .. }, ArgKind::Float(x)) => x.as_f64().is_none_or(|x| x.fract() == 0.0),
        _ => false,
    };
    match shape {
        Shape::OneOf(shapes) => shapes.iter().find(|s| fits(s)),
        one => fits(one).then_some(one),
    }
}

fn is_words(shape: &Shape) -> bool {
    matches!(shape, Shape::String { one_of, .. } if !one_of.is_empty())
}

/// Returns the numeric part of a shape that accepts a number, or otherwise one of a set of words.
fn numeric(shape: &Shape) -> Option<&Shape> {
    let is_number = |s: &&Shape| matches!(s, Shape::Integer { .. } | Shape::Number);
    match shape {
        // In addition to words, there may be a mapping: `{not: 0}`.
        Shape::OneOf(shapes) => {
            let is_mapping = |s: &Shape| matches!(s, Shape::Record { .. });
            let all = shapes.iter().all(|s| is_number(&s) || is_words(s) || is_mapping(s));
            let fits = all && (shapes.iter().any(is_words) || !shapes.iter().any(is_mapping));
            shapes.iter().find(is_number).filter(|_| fits)
        }
        one => Some(one).filter(is_number),
    }
}

fn admits_text(shape: &Shape) -> bool {
    match shape {
        Shape::String { .. } => true,
        Shape::OneOf(shapes) => shapes.iter().any(admits_text),
        _ => false,
    }
}

/// Whether a hole of this type fits a shape. A string accepts scalars, which are rendered. A list accepts a string,
/// which must contain a JSON list.
fn fits(ty: &Type, shape: &Shape, whole: bool) -> bool {
    match shape {
        Shape::Any => true,
        // A word next to a number, such as `any`, must be written literally.
        Shape::OneOf(shapes) => shapes.iter().any(|s| !(numeric(shape).is_some() && is_words(s)) && fits(ty, s, whole)),
        Shape::String { .. } => matches!(ty, Type::String | Type::Number | Type::Bool | Type::Any),
        Shape::List { .. } => whole && matches!(ty, Type::List(_) | Type::Any | Type::String),
        _ => whole && ty.fits(&shape.ty()),
    }
}

fn describe(kind: &ArgKind<Path>) -> &'static str {
    match kind {
        ArgKind::Null => "null",
        ArgKind::Bool(_) => "a boolean",
        ArgKind::Int(_) | ArgKind::Float(_) => "a number",
        ArgKind::Text(_) => "a string",
        ArgKind::List(_) => "a list",
        ArgKind::Record(_) => "a mapping",
    }
}

/// Returns the first line of a description, for use within a sentence.
fn in_a_sentence(doc: &str) -> String {
    let line = doc.lines().next().unwrap_or_default().trim().trim_end_matches('.');
    let word = line.split(' ').next().unwrap_or_default();
    // A word with an uppercase letter after the first character is a name.
    if word.chars().skip(1).any(char::is_uppercase) {
        return line.to_owned();
    }
    let mut chars = line.chars();
    chars.next().map(|c| c.to_lowercase().chain(chars).collect()).unwrap_or_default()
}

/// Returns the type of a checked value.
pub(super) fn type_of(arg: &Arg<Def>) -> Type {
    match &arg.kind {
        ArgKind::Null => Type::Null,
        ArgKind::Bool(_) => Type::Bool,
        ArgKind::Int(_) | ArgKind::Float(_) => Type::Number,
        ArgKind::Text(t) => template_type(t),
        ArgKind::List(items) => Type::list(items.iter().map(type_of).reduce(|a, b| a.join(&b)).unwrap_or_default()),
        ArgKind::Record(fields) => {
            Type::Record { fields: fields.iter().map(|(k, a)| (k.value.clone(), type_of(a))).collect(), open: false }
        }
    }
}
