//! The portable dialect, `mcp-eval/v1` (`portable-format.md`).

use super::{DialectInfo, NO_VERIFY, TaskFile, open, prompt, step};
use crate::{
    decode::{self, Leniency, Reader, key, portable as holes},
    diagnostic::Diagnostic,
    hir::{Dialect, Import, Requirement, RequirementKind, Task, Template},
    template::Path,
    yaml::{Data, Node},
};

/// How the portable dialect is recognized and read.
pub const DIALECT: DialectInfo = DialectInfo {
    dialect: Dialect::Portable,
    versions: &["mcp-eval/v1"],
    aliases: &[],
    leniency: Leniency::Strict,
    decode,
};

fn decode(reader: &mut Reader<'_>, root: Node<'_>, file: &TaskFile<'_>) -> Option<Task<Path>> {
    let help = "add `metadata: {name: …}`";
    let (mut fields, head, mut task) = open(reader, root, file, Dialect::Portable, "a task", help)?;
    let help = "the prompt and the steps belong under `spec`";
    let spec_entry = fields.require_entry(reader, "spec", head, Some(help));
    if spec_entry.is_none() && fields.remaining().iter().any(|e| e.name == "steps") {
        reader.out.push(
            Diagnostic::new(
                &decode::UNKNOWN_FIELD,
                fields.remaining().iter().find(|e| e.name == "steps").map_or(head, |e| e.key.span()),
                "`steps` belongs to the legacy dialect",
            )
            .help("remove `apiVersion` to use the legacy dialect, or put the phases under `spec`"),
        );
        fields.take(reader, "steps");
    }
    fields.finish(reader);
    let spec = spec_entry?;
    let mut fields = reader.fields(spec.value, "a task's spec")?;
    if let Some(node) = fields.take(reader, "imports") {
        task.imports = reader.items(node, "`imports`").into_iter().filter_map(|item| import(reader, item)).collect();
    }
    if let Some(node) = fields.take(reader, "requires") {
        task.requires = reader
            .items(node, "`requires`")
            .into_iter()
            .filter_map(|item| requirement(reader, item, Dialect::Portable))
            .collect();
    }
    if let Some(node) = fields.take(reader, "limits")
        && let Some(mut limits) = reader.fields(node, "the limits of a task")
    {
        task.meta.bounds = super::bounds(reader, &mut limits);
        limits.finish(reader);
    }
    if let Some(node) = fields.take(reader, "env") {
        task.env = env(reader, node);
    }
    if let Some(node) = fields.require(reader, "prompt", spec.key.span()) {
        task.prompt = prompt(reader, node, file, holes, true);
    }
    let style = step::Style { vocabulary: file.vocabulary, id_beside: false, scan: |_, _| holes };
    let setup = fields.take_entry(reader, "setup");
    task.setup = step::phase(reader, setup, style);
    let verify = fields.take_entry(reader, "verify");
    let cleanup = fields.take_entry(reader, "cleanup");
    if verify.is_none() {
        let blank = fields.take_blank(&["verify"]);
        if blank.is_some() || !fields.misspells(["verify"]) {
            let place = blank.map_or(spec.key.span(), |e| e.key.span());
            let message = if blank.is_some() { "`verify` has no value" } else { "a task has no `verify`" };
            reader.error(
                Diagnostic::new(&NO_VERIFY, place, message)
                    .help("list the steps that decide whether the task passes; write `verify: []` if only the eval's assertions decide"),
            );
        }
    }
    task.verify = step::phase(reader, verify, style);
    task.cleanup = step::phase(reader, cleanup, style);
    fields.finish(reader);
    Some(task)
}

fn import(reader: &mut Reader<'_>, node: Node<'_>) -> Option<Import> {
    let mut fields = reader.fields(node, "an import")?;
    let package = fields.require(reader, "package", node.span());
    let alias = fields.take(reader, "as");
    fields.finish(reader);
    Some(Import {
        package: reader.name(package?, "the package of an import")?,
        alias: alias.and_then(|a| alias_name(reader, a)),
    })
}

/// Reads one entry of `requires`. Which kinds exist depends on the dialect.
pub fn requirement(reader: &mut Reader<'_>, node: Node<'_>, dialect: Dialect) -> Option<Requirement> {
    if let Some(name) = node.as_str() {
        let kinds: &[&str] =
            if dialect == Dialect::Steps { &["mcpServer", "extension", "command"] } else { &["mcpServer", "command"] };
        let written: Vec<_> = kinds.iter().map(|kind| format!("`{kind}: {name}`")).collect();
        let help = format!("specify its type: write {}", written.join(" or "));
        reader.error(decode::mistyped(node, "a mapping", "a requirement").help(help));
        return None;
    }
    let mut fields = reader.fields(node, "a requirement")?;
    let server = fields.take(reader, "mcpServer");
    let alias = fields.take(reader, "as");
    let extension = if dialect == Dialect::Steps { fields.take(reader, "extension") } else { None };
    let command = fields.take(reader, "command");
    let judge = fields.take(reader, "judge");
    let none = [server, extension, command, judge].iter().all(Option::is_none);
    fields.misspells(["mcpServer", "command", "judge"]);
    // The remaining key is the fault.
    if none && !fields.remaining().is_empty() {
        fields.finish_hard(reader);
        return None;
    }
    fields.finish(reader);
    let mut kinds = Vec::new();
    if let Some(n) = server {
        kinds.push(RequirementKind::McpServer(reader.name(n, "the name of a server")?));
    }
    if let Some(n) = extension {
        kinds.push(RequirementKind::Extension(reader.name(n, "the name of an extension")?));
    }
    if let Some(n) = command {
        kinds.push(RequirementKind::Command(reader.name(n, "the name of a command")?));
    }
    if let Some(n) = judge
        && reader.bool(n, "`judge`")?.value
    {
        kinds.push(RequirementKind::Judge(n.span()));
    }
    let alias = alias.and_then(|a| alias_name(reader, a));
    match <[_; 1]>::try_from(kinds) {
        Ok([kind]) => Some(Requirement { kind, alias }),
        Err(kinds) => {
            let message =
                if kinds.is_empty() { "this requirement is empty" } else { "a requirement must have exactly one key" };
            let known = match dialect {
                Dialect::Steps => "`mcpServer`, `extension`, `command` or `judge`",
                _ => "`mcpServer`, `command` or `judge` (extensions are imported: `imports`)",
            };
            reader
                .error(Diagnostic::new(&step::STEP_SHAPE, node.span(), message).help(format!("write one of {known}")));
            None
        }
    }
}

fn alias_name(reader: &mut Reader<'_>, node: Node<'_>) -> Option<crate::hir::Name> {
    let name = reader.name(node, "an alias")?;
    if name.value.contains('.') {
        reader.error(
            Diagnostic::new(&step::INVALID_ID, name.span, format!("the alias `{}` contains a dot", name.value))
                .help("in a step, the dot separates the alias and the operation"),
        );
        return None;
    }
    Some(name)
}

fn env(reader: &mut Reader<'_>, node: Node<'_>) -> Vec<(crate::hir::Name, Template<Path>)> {
    if !matches!(node.data(), Data::Map) {
        reader.wrong_type(node, "a mapping", "`env`");
        return Vec::new();
    }
    let mut out = Vec::new();
    for entry in reader.present(node) {
        if entry.value.as_str().is_some() {
            out.push((key(entry), holes(entry.value)));
        } else {
            reader.wrong_type(entry.value, "a string", &format!("the variable `{}`", entry.name));
        }
    }
    out
}
