//! Oracle files: the actions of the scripted agent for each task (`decisions.md` §8).

use crate::{
    decode::{self, Leniency, Partial, Reader, arg, key, portable},
    diagnostic::{Diagnostic, Diagnostics},
    hir::{CallKind, Oracle, OracleCall, OracleTask},
    rule,
    source::FileId,
    template::Path,
    yaml::{Data, Entry, Node},
};

rule! {
    pub static ORACLE_CALL = "oracle-call", Hard;
}

/// Decodes an oracle file.
pub fn decode(root: Node<'_>, file: FileId, out: &mut Diagnostics) -> Partial<Oracle<Path>> {
    let mut reader = Reader::new(out, Leniency::Strict);
    let mut oracle = Oracle { file, tasks: Vec::new() };
    if let Some(mut fields) = reader.fields(root, "an oracle") {
        super::envelope(&mut fields, &mut reader);
        if let Some(node) = fields.take(&mut reader, "metadata")
            && let Some(mut meta) = reader.fields(node, "the metadata of an oracle")
        {
            for carried in ["name", "description", "annotations"] {
                meta.take(&mut reader, carried);
            }
            meta.finish(&mut reader);
        }
        let tasks = fields.require(&mut reader, "tasks", root.entries().next().map_or(root.span(), |e| e.key.span()));
        fields.finish(&mut reader);
        match tasks {
            Some(node) if matches!(node.data(), Data::Map) => {
                oracle.tasks = node.entries().filter_map(|e| task(&mut reader, e)).collect();
            }
            Some(node) => {
                reader.wrong_type(node, "a mapping from the name of a task to what the agent does", "`tasks`")
            }
            None => {}
        }
    }
    reader.finish(oracle)
}

fn task(reader: &mut Reader<'_>, entry: Entry<'_>) -> Option<OracleTask<Path>> {
    // The agent does nothing.
    if decode::is_blank(entry.value) {
        let span = entry.key.span();
        return Some(OracleTask { task: key(entry), span, calls: Vec::new(), output: None });
    }
    let mut fields = reader.fields(entry.value, "an oracle's task")?;
    let calls = fields.take(reader, "calls").map(|n| reader.items(n, "`calls`")).unwrap_or_default();
    let output = fields.take(reader, "output");
    fields.finish(reader);
    Some(OracleTask {
        task: key(entry),
        span: entry.key.span().to(entry.value.span()),
        calls: calls.into_iter().filter_map(|n| call(reader, n)).collect(),
        output: output.and_then(|n| reader.string(n, "the output of an agent").map(|_| portable(n))),
    })
}

fn call(reader: &mut Reader<'_>, node: Node<'_>) -> Option<OracleCall<Path>> {
    let mut fields = reader.fields(node, "a call of an oracle")?;
    let server = fields.require(reader, "server", node.span());
    let named: Vec<_> = [("tool", CallKind::Tool), ("resource", CallKind::Resource), ("prompt", CallKind::Prompt)]
        .into_iter()
        .filter_map(|(k, kind)| Some((kind, fields.take(reader, k)?)))
        .collect();
    let takes_args = !matches!(named.as_slice(), [(CallKind::Resource, _)]);
    let args = if takes_args { fields.take(reader, "args") } else { None };
    let misspelt = named.is_empty() && fields.misspells(["tool", "resource", "prompt"]);
    fields.finish(reader);
    if misspelt {
        return None;
    }
    let [(kind, name)] = named.as_slice() else {
        reader.error(
            Diagnostic::new(
                &ORACLE_CALL,
                node.span(),
                "a call must have exactly one of `tool`, `resource` and `prompt`",
            )
            .help("write `{server: NAME, tool: NAME, args: {…}}`"),
        );
        return None;
    };
    reader.name(*name, "the name of a call")?;
    let args = match args {
        None => Vec::new(),
        Some(n) if matches!(n.data(), Data::Map) => n.entries().map(|e| (key(e), arg(e.value, portable))).collect(),
        Some(n) => {
            reader.wrong_type(n, "a mapping from an argument to a value", "`args`");
            Vec::new()
        }
    };
    let server = reader.name(server?, "the server of a call")?;
    Some(OracleCall { span: node.span(), kind: *kind, server, name: portable(*name), args })
}
