//! Steps as written in the two newer dialects: a mapping from an operation to its body.

use crate::{
    decode::{self, Reader, Scan, arg, key, unknown_field},
    diagnostic::{Diagnostic, Strength, nearest},
    hir::{Block, BlockRole, Name, Phase, Step},
    rule,
    signature::{Control, Format, Shape, Signature, Vocabulary},
    source::{Span, Spanned},
    template::Path,
    yaml::{self, Data, Entry, Node},
};

rule! {
    pub static STEP_SHAPE = "step-shape", Hard;
    pub static INVALID_ID = "invalid-id", Hard;
}

/// How a dialect writes steps.
#[derive(Clone, Copy, Debug)]
pub struct Style<'a> {
    pub vocabulary: &'a Vocabulary,
    /// Whether the id is next to the operation (steps dialect) or inside its body (portable dialect).
    pub id_beside: bool,
    /// Which arguments of an operation may contain holes.
    pub scan: fn(operation: &str, argument: &str) -> Scan,
}

/// Reads the steps of a phase.
pub fn phase(reader: &mut Reader<'_>, entry: Option<Entry<'_>>, style: Style<'_>) -> Phase<Path> {
    let Some(entry) = entry else { return Phase::default() };
    Phase { key: Some(entry.key.span()), steps: list(reader, entry.value, entry.name, style) }
}

fn list(reader: &mut Reader<'_>, node: Node<'_>, what: &str, style: Style<'_>) -> Vec<Step<Path>> {
    let items = reader.items(node, &format!("`{what}`"));
    let mut steps: Vec<_> = items.into_iter().filter_map(|item| step(reader, item, style)).collect();
    // A suite has thousands of lists with a single step.
    steps.shrink_to_fit();
    steps
}

fn step(reader: &mut Reader<'_>, node: Node<'_>, style: Style<'_>) -> Option<Step<Path>> {
    let entries: Vec<_> = match node.data() {
        Data::Map => node.entries().collect(),
        Data::Null => {
            reader.error(
                Diagnostic::new(&STEP_SHAPE, node.span(), "this step is empty")
                    .help("add an operation and its body, or remove the item"),
            );
            return None;
        }
        _ => {
            let mut finding = decode::mistyped(node, "a mapping from an operation to its body", "a step");
            if let Some(text) = node.as_str() {
                let step = match style.vocabulary.get("command") {
                    Some(_) => format!("command: {{run: {}}}", decode::quote(text)),
                    None => format!("script: {{inline: {}}}", decode::quote(text)),
                };
                finding = finding.help(format!("to run it in a shell, write `{step}`"));
            }
            reader.error(finding);
            return None;
        }
    };
    let is_operation = |e: &&Entry<'_>| style.vocabulary.get(e.name).is_some() || e.name.contains('.');
    let id = style.id_beside.then(|| entries.iter().find(|e| e.name == "id")).flatten().copied();
    let candidates: Vec<_> = entries.iter().filter(|e| id.is_none_or(|i| i.key.span() != e.key.span())).collect();
    let operations: Vec<_> = candidates.iter().copied().filter(is_operation).copied().collect();
    let operation = match (operations.as_slice(), candidates.as_slice()) {
        ([one], _) => *one,
        ([], _)
            if let Some(typed) = candidates
                .iter()
                .find(|e| matches!(e.name, "type" | "kind" | "action" | "uses") && e.value.as_str().is_some()) =>
        {
            reader.error(typed_step(**typed, style));
            return None;
        }
        ([], [one]) => **one,
        ([], []) => {
            reader.error(
                Diagnostic::new(&STEP_SHAPE, node.span(), "this step has no operation")
                    .help(format!("add one of {}", words(style.vocabulary.names()))),
            );
            return None;
        }
        ([], [first, ..]) => **first,
        ([first, second, ..], _) => {
            reader.error(
                Diagnostic::new(
                    &STEP_SHAPE,
                    second.key.span(),
                    format!("a step must have one operation, but this one has `{}` and `{}`", first.name, second.name),
                )
                .label(first.key.span(), "the first operation")
                .help("use a second step, with its own `- `"),
            );
            *first
        }
    };
    for other in candidates {
        if other.key.span() != operation.key.span() && !operations.iter().any(|o| o.key.span() == other.key.span()) {
            let known = ["id"].into_iter().take(usize::from(style.id_beside));
            let unknown = unknown_field(
                other.name,
                other.key.span(),
                "a step, beside its operation",
                known,
                entries.iter().map(|entry| entry.name),
            );
            reader.error(unknown.strength(Strength::Hard));
        }
    }
    let mut step = body(reader, operation, style)?;
    match id {
        Some(id) if decode::is_blank(id.value) => reader.out.push(decode::empty_value(node, id)),
        Some(id) => step.id = self::id(reader, id.value),
        None => {}
    }
    Some(step)
}

/// The error for `type: llm_judge`, the form of steps in other tools: here, the operation is the key.
fn typed_step(entry: Entry<'_>, style: Style<'_>) -> Diagnostic {
    let word = entry.value.as_str().unwrap_or_default();
    let bare = |text: &str| text.replace(['_', '-'], "").to_lowercase();
    let known =
        style.vocabulary.names().find(|n| bare(n) == bare(word)).or_else(|| nearest(word, style.vocabulary.names()));
    Diagnostic::new(
        &STEP_SHAPE,
        entry.key.span(),
        format!("a step must start with its operation, not with `{}`", entry.name),
    )
    .help(format!("write `- {}: {{…}}`, with all other keys inside", known.unwrap_or("OPERATION")))
}

fn words<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.map(|n| format!("`{n}`")).collect::<Vec<_>>().join(", ")
}

/// Reads the id of a step, which holes refer to.
fn id(reader: &mut Reader<'_>, node: Node<'_>) -> Option<Name> {
    let name = reader.name(node, "the id of a step")?;
    let mut chars = name.value.chars();
    let well_formed = chars.next().is_some_and(|c| c.is_ascii_alphabetic())
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    if !well_formed && reader.leniency == decode::Leniency::Strict {
        reader.error(
            Diagnostic::new(&INVALID_ID, name.span, format!("`{}` is not a valid step id", name.value))
                .help("an id starts with a letter, followed by letters, digits, `_` and `-`"),
        );
    }
    Some(name)
}

/// Reads the body of an operation: the keys that every step has, nested steps, and the operation's own arguments.
fn body(reader: &mut Reader<'_>, operation: Entry<'_>, style: Style<'_>) -> Option<Step<Path>> {
    let signature = style.vocabulary.get(operation.name).map(|(_, s)| s.as_ref());
    let control = signature.map_or(Control::Leaf, |s| s.control);
    let node = operation.value;
    let mut step = Step {
        id: None,
        op: key(operation),
        key: operation.key.span(),
        span: operation.key.span().to(node.span()),
        args: Vec::new(),
        blocks: Vec::new(),
        timeout: None,
        continue_on_error: None,
        outputs: None,
        expect: None,
        var: None,
    };
    let entries = match node.data() {
        Data::Map => node.entries().collect(),
        Data::Null => Vec::new(),
        _ => match signature.and_then(|s| s.short) {
            Some("steps") => {
                blocks(reader, node, BlockRole::Branch, "steps", style, &mut step);
                if let Some(signature) = signature {
                    required_blocks(reader, &step, signature);
                }
                return Some(step);
            }
            Some(short) => {
                let scan = (style.scan)(operation.name, short);
                step.args = vec![(Spanned::new(short.to_owned(), node.span()), arg(node, scan))];
                return Some(step);
            }
            // Unknown operations are reported by name when `check` binds them.
            None if signature.is_none() && !operation.name.contains('.') => return Some(step),
            None => {
                reader.error(bare_body(operation, signature));
                return None;
            }
        },
    };
    step.args.reserve_exact(entries.len());
    for entry in entries {
        let value = entry.value;
        if decode::is_blank(value) && absent(entry.name, signature, operation.name) {
            reader.out.push(decode::empty_value(node, entry));
            continue;
        }
        match entry.name {
            "id" if !style.id_beside => step.id = id(reader, value),
            "timeout" => step.timeout = reader.duration(value, "the timeout of a step"),
            "continueOnError" if signature.is_none_or(|s| s.continues) => {
                step.continue_on_error = reader.bool(value, "`continueOnError`");
            }
            "outputs" if !style.id_beside && signature.is_none_or(|s| s.lists_outputs) => {
                step.outputs = outputs(reader, value);
            }
            "expect" if signature.is_none_or(|s| s.expect.is_some()) => {
                step.expect = Some((entry.key.span(), arg(value, (style.scan)(operation.name, "expect"))));
            }
            name => match control.blocks().iter().find(|(key, ..)| *key == name) {
                // Its absence is reported below.
                Some(_) if decode::is_blank(value) => {}
                Some((key, role, _)) => blocks(reader, value, *role, key, style, &mut step),
                None => {
                    if control == Control::Each && name == "var" {
                        step.var = variable(reader, value);
                    }
                    step.args.push((key(entry), arg(value, (style.scan)(operation.name, name))));
                }
            },
        }
    }
    if let Some(signature) = signature {
        required_blocks(reader, &step, signature);
    }
    Some(step)
}

/// Whether a key of a body without a value counts as absent. Arguments of extensions and tools may be null. A blank
/// expectation is reported as a separate fault, and so is a missing required key.
fn absent(key: &str, signature: Option<&Signature>, operation: &str) -> bool {
    let Some(signature) = signature else {
        let of_the_step = ["id", "timeout", "continueOnError", "outputs", "args"];
        return operation.contains('.') && of_the_step.contains(&key);
    };
    // What a judge looks for is an expectation.
    if signature.judges && matches!(key, "contains" | "exact" | "rubric") {
        return false;
    }
    let field = signature.params.fields().and_then(|fields| fields.get(key)).map(|field| !field.required);
    let block = || signature.control.blocks().iter().find(|(block, ..)| *block == key).map(|(.., needed)| !needed);
    field.or_else(block).unwrap_or(matches!(key, "id" | "timeout" | "continueOnError" | "outputs" | "var"))
}

/// The error for `command: test -f x`: a text instead of a body, probably meant as the value of its most important key.
fn bare_body(operation: Entry<'_>, signature: Option<&Signature>) -> Diagnostic {
    let node = operation.value;
    let diagnostic = decode::mistyped(node, "a mapping", &format!("the body of `{}`", operation.name));
    let Some(Shape::Record { fields, .. }) = signature.map(|s| &s.params) else { return diagnostic };
    let has = |wanted: Format| {
        let is = |shape: &Shape| {
            matches!(shape, Shape::String { format: Some(format), .. } if *format == wanted)
                || matches!(shape, Shape::OneOf(shapes) if shapes.iter().any(|s| matches!(s, Shape::String { format: Some(format), .. } if *format == wanted)))
        };
        fields.iter().find(|(_, field)| is(&field.shape)).map(|(name, _)| name.as_str())
    };
    let Some(text) = node.as_str() else { return diagnostic };
    let is_file = !text.contains(char::is_whitespace) && (text.contains('/') || text.ends_with(".sh"));
    let file = has(Format::File).filter(|_| is_file);
    let Some(key) = file.or(has(Format::Script)).or(has(Format::Url)) else { return diagnostic };
    let description = format!("move it under `{key}`");
    if !matches!(node.style(), yaml::Style::Literal | yaml::Style::Folded) {
        let whole = format!("{{{key}: {}}}", decode::quote(text));
        return diagnostic.help(format!("write `{}: {whole}`", operation.name)).fix(description, node.span(), whole);
    }
    let diagnostic = diagnostic.help(format!("write `{key}: {}` below `{}:`", &node.written()[..1], operation.name));
    // There may be a tag or an anchor between the key and the text.
    let key_end = operation.key.span().end;
    if node.span().start != key_end + 2 {
        return diagnostic;
    }
    let indent = " ".repeat(operation.key.column() + 2);
    let deeper = |line: &str| if line.trim().is_empty() { line.to_owned() } else { format!("  {line}") };
    let mut lines = node.written().lines();
    let head = lines.next().unwrap_or_default();
    let body: String = lines.map(|line| format!("\n{}", deeper(line))).collect();
    let place = Span { start: key_end, ..node.span() };
    diagnostic.fix(description, place, format!(":\n{indent}{key}: {head}{body}"))
}

fn blocks(
    reader: &mut Reader<'_>,
    node: Node<'_>,
    role: BlockRole,
    key: &str,
    style: Style<'_>,
    step: &mut Step<Path>,
) {
    let steps = list(reader, node, key, style);
    match role {
        BlockRole::Branch => {
            let branches = steps.into_iter().map(|s| Block { role, span: s.span, steps: vec![s] });
            step.blocks.extend(branches);
        }
        _ => {
            step.blocks.reserve_exact(1);
            step.blocks.push(Block { role, span: node.span(), steps });
        }
    }
}

fn required_blocks(reader: &mut Reader<'_>, step: &Step<Path>, signature: &Signature) {
    for (key, role, required) in signature.control.blocks() {
        if *required && !step.blocks.iter().any(|b| b.role == *role && !b.steps.is_empty()) {
            reader.error(
                Diagnostic::new(&STEP_SHAPE, step.key, format!("`{}` has no steps", signature.name))
                    .help(format!("list at least one step under `{key}`")),
            );
        }
    }
}

/// Reads the name that a `foreach` gives to its value.
fn variable(reader: &mut Reader<'_>, node: Node<'_>) -> Option<Name> {
    let name = reader.name(node, "the variable of a `foreach`")?;
    let mut chars = name.value.chars();
    let well_formed = chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    if !well_formed {
        reader.error(
            Diagnostic::new(&INVALID_ID, name.span, format!("`{}` is not a valid variable name", name.value))
                .help("a variable starts with a letter or `_`, followed by letters, digits, `_` and `-`; write it without braces"),
        );
        return None;
    }
    Some(name)
}

fn outputs(reader: &mut Reader<'_>, node: Node<'_>) -> Option<Vec<(Name, crate::hir::Arg<Path>)>> {
    if !matches!(node.data(), Data::Map) {
        reader.wrong_type(node, "a mapping from a name to a value", "`outputs`");
        return None;
    }
    Some(reader.present(node).into_iter().map(|e| (key(e), arg(e.value, decode::portable))).collect())
}

/// Help for an unknown operation: the nearest known one, and the list of all.
pub fn unknown_operation_help(name: &str, vocabulary: &Vocabulary) -> (Option<&'static str>, String) {
    let near = nearest(name, vocabulary.names());
    (near, format!("valid steps: {}", words(vocabulary.names())))
}
