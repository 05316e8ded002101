//! The legacy dialect: bash tasks without `apiVersion`, or `mcpchecker/v1alpha1` (§1.2 of the upstream behaviour).

use super::{DialectInfo, TaskFile, open, prompt};
use crate::{
    decode::{self, Fields, Leniency, Reader, VACUOUS_EXPECTATION},
    diagnostic::Diagnostic,
    hir::{Arg, Dialect, Name, Phase, Step, Task},
    rule,
    source::{Span, Spanned},
    template::Path,
    yaml::{Data, Entry, Node},
};

rule! {
    pub static LEGACY_PHASE = "legacy-phase", Hard;
    pub static IGNORED_JUDGE = "ignored-judge", Verdict;
    pub static EMPTY_PHASE = "empty-phase", Warning;
}

/// How the legacy dialect is recognized and read.
pub const DIALECT: DialectInfo = DialectInfo {
    dialect: Dialect::Legacy,
    versions: &["mcpchecker/v1alpha1"],
    aliases: &["gevals/v1alpha1"],
    leniency: Leniency::Task,
    decode,
};

fn decode(reader: &mut Reader<'_>, root: Node<'_>, file: &TaskFile<'_>) -> Option<Task<Path>> {
    let help = "add `metadata: {name: …}`; other tools never select a task without a name";
    let (mut fields, head, mut task) = open(reader, root, file, Dialect::Legacy, "a legacy task", help)?;
    let help = "put the phases under `steps`, or add `apiVersion: mcp-eval/v1` and put them under `spec`";
    let steps = match outside(reader, &mut fields) {
        Some((keys, place)) => {
            let help = format!("put {keys} under `steps`, or add `apiVersion: mcp-eval/v1` and put them under `spec`");
            fields.require_entry(reader, "steps", place, Some(&help))
        }
        None => fields.require_entry(reader, "steps", head, Some(help)),
    };
    fields.finish(reader);
    let steps = steps?;
    let mut fields = reader.fields(steps.value, "the steps of a legacy task")?;
    if let Some(node) = fields.require(reader, "prompt", steps.key.span()) {
        task.prompt = prompt(reader, node, file, super::steps::unexpanded, false);
    }
    for (key, phase) in [("setup", &mut task.setup), ("cleanup", &mut task.cleanup)] {
        if let Some(entry) = fields.take_entry(reader, key) {
            *phase = script_phase(reader, entry, None);
        }
    }
    if let Some(entry) = fields.take_entry(reader, "verify") {
        task.verify = verify(reader, entry);
    }
    fields.finish(reader);
    Some(task)
}

/// The phases next to where `steps` should be, if there is no `steps`. That they are misplaced is reported as one
/// fault.
fn outside(reader: &mut Reader<'_>, fields: &mut Fields<'_>) -> Option<(String, Span)> {
    if fields.remaining().iter().any(|e| e.name == "steps") {
        return None;
    }
    let phases = ["setup", "prompt", "verify", "cleanup"];
    let found: Vec<_> = phases.into_iter().filter_map(|key| fields.take_entry(reader, key)).collect();
    let keys: Vec<_> = found.iter().map(|e| format!("`{}`", e.name)).collect();
    found.iter().map(|e| e.key.span()).min_by_key(|span| span.start).map(|first| (keys.join(", "), first))
}

/// Reads `{inline, file}`: one script, or none.
fn script_phase(reader: &mut Reader<'_>, entry: Entry<'_>, judge: Option<(&Name, &str)>) -> Phase<Path> {
    let mut phase = Phase { key: Some(entry.key.span()), steps: Vec::new() };
    if matches!(entry.value.data(), Data::Seq) {
        reader.error(
            Diagnostic::new(&LEGACY_PHASE, entry.key.span(), format!("`{}` of a legacy task is a single script, not a list", entry.name))
                .help("write `{inline: …}` or `{file: …}`; lists of steps require `apiVersion: mcpchecker/v1alpha2` or `mcp-eval/v1`, and belong under `spec`"),
        );
        return phase;
    }
    let Some(mut fields) = reader.fields(entry.value, "a script of a legacy task") else { return phase };
    let inline = fields.take_entry(reader, "inline");
    let file = fields.take_entry(reader, "file");
    if entry.name == "verify" {
        fields.take(reader, "contains");
        fields.take(reader, "exact");
        blank_judge(reader, &mut fields);
    }
    // Whether another finding explains why there is no script.
    let is_text = |e: &Entry<'_>| e.value.as_str().is_some();
    let said = fields.has_blanks() || !fields.remaining().is_empty() || !inline.iter().chain(&file).all(is_text);
    fields.finish(reader);
    let text = |reader: &mut Reader<'_>, e: Option<Entry<'_>>, key: &'static str| {
        let e = e?;
        let name = reader.string(e.value, &format!("`{key}`"))?;
        (!name.value.is_empty())
            .then_some((Spanned::new(key.to_owned(), e.key.span()), Arg::text(name.value, name.span)))
    };
    let args = [text(reader, inline, "inline"), text(reader, file, "file")].into_iter().flatten();
    let mut args: Vec<_> = args.collect();
    args.shrink_to_fit();
    if let [(first, _), (second, _)] = args.as_slice() {
        reader.error(
            Diagnostic::new(
                &LEGACY_PHASE,
                second.span,
                format!("`{}` must have either `inline` or `file`, not both", entry.name),
            )
            .label(first.span, "also specified here")
            .help("keep one of them"),
        );
        args.truncate(1);
    }
    if args.is_empty() {
        // The rest of `verify` depends on the assertions of the eval.
        if !said && entry.name != "verify" {
            reader.out.push(empty_phase(entry.name, entry.key.span()));
        }
        return phase;
    }
    if let Some((name, key)) = judge {
        reader.out.push(
            Diagnostic::new(&IGNORED_JUDGE, name.span, format!("`{key}` is ignored because `verify` has a script"))
                .help("a legacy task verifies either by a script or by the judge; the steps dialect supports both"),
        );
    }
    phase.steps = vec![step("script", entry, args)];
    phase
}

/// The finding for a phase that is present but runs nothing.
pub fn empty_phase(name: &str, key: Span) -> Diagnostic {
    Diagnostic::new(&EMPTY_PHASE, key, format!("`{name}` has no script: nothing runs"))
        .help("add `inline: …` or `file: …`, or remove the key")
}

fn verify(reader: &mut Reader<'_>, entry: Entry<'_>) -> Phase<Path> {
    let get = |keys: [&'static str; 2]| {
        let written =
            |k: &str| entry.value.entries().find(|e| e.name.eq_ignore_ascii_case(k) && !decode::is_blank(e.value));
        keys.into_iter().find_map(|k| written(k).map(|e| (k, e)))
    };
    let script = get(["inline", "file"]);
    let judge = get(["contains", "exact"]);
    match (script, judge) {
        (None, Some(_)) => {
            let mut phase = Phase { key: Some(entry.key.span()), steps: Vec::new() };
            let Some(mut fields) = reader.fields(entry.value, "the verify of a legacy task") else { return phase };
            let mut args = Vec::new();
            for key in ["contains", "exact"] {
                if let Some(e) = fields.take_entry(reader, key)
                    && let Some(name) = reader.string(e.value, &format!("`{key}`"))
                {
                    args.push((Spanned::new(key.to_owned(), e.key.span()), Arg::text(name.value, name.span)));
                }
            }
            fields.take(reader, "inline");
            fields.take(reader, "file");
            blank_judge(reader, &mut fields);
            fields.finish(reader);
            phase.steps = vec![step("llmJudge", entry, args)];
            phase
        }
        (_, judge) => {
            let judge = judge.map(|(k, e)| (decode::key(e), k));
            script_phase(reader, entry, judge.as_ref().map(|(n, k)| (n, *k)))
        }
    }
}

/// Reports blank `contains` and `exact`: what a judge looks for is an expectation, and must not be blank
/// (`decisions.md` §13).
fn blank_judge(reader: &mut Reader<'_>, fields: &mut Fields<'_>) {
    while let Some(blank) = fields.take_blank(&["contains", "exact"]) {
        let message = format!("`{}` has no value: the judge is not used", blank.name);
        reader.out.push(
            Diagnostic::new(&VACUOUS_EXPECTATION, blank.key.span(), message)
                .help("add what the answer must say, or remove the key"),
        );
    }
}

fn step(op: &str, entry: Entry<'_>, args: Vec<(Name, Arg<Path>)>) -> Step<Path> {
    Step {
        id: None,
        op: Spanned::new(op.to_owned(), entry.key.span()),
        key: entry.key.span(),
        span: entry.key.span().to(entry.value.span()),
        args,
        blocks: Vec::new(),
        timeout: None,
        continue_on_error: None,
        outputs: None,
        expect: None,
        var: None,
    }
}
