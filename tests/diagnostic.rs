//! Findings as text, as lines and as data, and fixes: properties that hold for any text and any span.

use std::path::Path;

use gevals::{
    diagnostic::{Diagnostic, Edit, Pretty, Rule, Strength, Texts, concise, fix, mend, print, report, summary},
    source::{FileId, Sources, Span},
};
use proptest::prelude::*;

static RULE: Rule = Rule { name: "test-rule", strength: Strength::Hard, page: "# Test rule\n" };
static WARNING: Rule = Rule { name: "test-warning", strength: Strength::Warning, page: "# Test warning\n" };

fn span(sources: &Sources, file: FileId, text: &str) -> Span {
    let start = sources.get(file).text().find(text).expect("the text stands in the file");
    Span::new(file, start..start + text.len())
}

fn pretty(diagnostics: &[Diagnostic], sources: &Sources, style: &Pretty) -> String {
    let mut out = String::new();
    print(diagnostics, sources, style, &mut out).unwrap();
    out
}

/// Returns the columns of the first underline, with the text above it, after the frame.
fn underlined(output: &str) -> String {
    let lines: Vec<_> = output.lines().collect();
    let row = lines.iter().position(|l| l.trim_start().starts_with('·')).expect("an underline");
    let inside = |line: &str| line.split_once(['│', '·']).map(|(_, rest)| rest.chars().skip(1).collect::<Vec<_>>());
    let (text, marks) = (inside(lines[row - 1]).unwrap(), inside(lines[row]).unwrap());
    let from = marks.iter().position(|c| *c != ' ').unwrap();
    text.get(from..marks.len().min(text.len())).unwrap_or(&[]).iter().collect()
}

#[test]
fn a_finding_shows_its_location_help_and_fix() {
    let sources = Sources::default();
    let a = sources.add("tasks/a.yaml", "kind: Task\nname: greet\nsteps:\n  promt: hello\n");
    let b = sources.add("tasks/b.yaml", "kind: Task\nname: greet\n");
    let key = span(&sources, a, "promt");
    let first = Diagnostic::new(&RULE, key, "unknown field `promt`")
        .here("did you mean `prompt`?")
        .help("fields of `steps` are `prompt`, `setup`, `verify` and `cleanup`")
        .fix("rename it to `prompt`", key, "prompt");
    let second = Diagnostic::new(&WARNING, span(&sources, b, "greet"), "two tasks are named `greet`")
        .label(span(&sources, a, "greet"), "first named here");
    let output = pretty(&[first, second], &sources, &Pretty { unicode: false, ..Pretty::default() });
    assert_eq!(
        output,
        "\
error[test-rule]: unknown field `promt`
   ,-[tasks/a.yaml:4:3]
 3 | steps:
 4 |   promt: hello
   :   ^^|^^
   :     `-- did you mean `prompt`?
   `----
  help: fields of `steps` are `prompt`, `setup`, `verify` and `cleanup`
  fix: rename it to `prompt` (`gevals check --fix`)
       - promt: hello
       + prompt: hello

warning[test-warning]: two tasks are named `greet`
   ,-[tasks/b.yaml:2:7]
 1 | kind: Task
 2 | name: greet
   :       ^^^^^
   `----
   ,-[tasks/a.yaml:2:7]
 1 | kind: Task
 2 | name: greet
   :       ^^|^^
   :         `-- first named here
 3 | steps:
   `----

"
    );
}

#[test]
fn underlines_are_aligned_with_their_text() {
    let cases = [
        ("a: here\n", "here"),
        ("\u{feff}here: 1\n", "here"),
        ("a: 1\r\nb: here\r\nc: 2\r\n", "here"),
        ("\tb: here", "here"),
        ("e\u{1b}[31m: here\n", "here"),
        ("a\u{0}\u{202e}\u{7f}: here\n", "here"),
    ];
    for (text, word) in cases {
        let sources = Sources::default();
        let file = sources.add("t.yaml", text);
        let finding = Diagnostic::new(&RULE, span(&sources, file, word), "message");
        let output = pretty(&[finding], &sources, &Pretty::default());
        assert_eq!(underlined(&output), word, "{text:?}\n{output}");
    }
    // Each wide character takes two columns on the screen.
    let sources = Sources::default();
    let file = sources.add("t.yaml", "日本: here\n");
    let finding = Diagnostic::new(&RULE, span(&sources, file, "here"), "message");
    let output = pretty(&[finding], &sources, &Pretty::default());
    assert!(output.contains("\n   ·       ────\n"), "{output}");
}

#[test]
fn long_lines_are_clipped_around_the_span() {
    let sources = Sources::default();
    let text = format!("{}here{}\nnext\n", "x".repeat(100_000), "y".repeat(100_000));
    let file = sources.add("t.yaml", text);
    let finding = Diagnostic::new(&RULE, span(&sources, file, "here"), "message");
    let output = pretty(&[finding], &sources, &Pretty::default());
    assert_eq!(underlined(&output), "here", "{output}");
    assert!(output.contains("t.yaml:1:100001"), "{output}");
    assert!(output.lines().all(|l| l.chars().count() <= 100), "{output}");
}

#[test]
fn findings_in_an_empty_file_have_a_location() {
    let sources = Sources::default();
    let file = sources.add("t.yaml", "");
    let finding = Diagnostic::new(&RULE, Span::new(file, 0..0), "the file is empty").here("write a task");
    let output = pretty(&[finding], &sources, &Pretty::default());
    assert!(output.contains("[t.yaml:1:1]") && output.contains("▲") && output.contains("write a task"), "{output}");
}

#[test]
fn long_spans_and_overlapping_labels_are_printed_compactly() {
    let sources = Sources::default();
    let file = sources.add("t.yaml", "key: value\n".repeat(5000));
    let finding = Diagnostic::new(&RULE, Span::new(file, 0..55_000), "message")
        .label(Span::new(file, 5..10), "inner")
        .label(Span::new(file, 5..10), "inner again")
        .label(Span::new(file, 11..18), "next");
    let output = pretty(&[finding], &sources, &Pretty::default());
    assert!(output.lines().count() < 15 && output.contains("inner again"), "{output}");
}

#[test]
fn only_the_first_findings_are_printed() {
    let sources = Sources::default();
    let file = sources.add("t\u{1b}.yaml", "a: 1\n");
    let findings = vec![Diagnostic::new(&WARNING, Span::new(file, 3..4), "one\ntwo \u{7}"); 60];
    let mut lines = String::new();
    concise(&findings, &sources, &Pretty::default(), &mut lines).unwrap();
    assert_eq!(lines.lines().count(), 51);
    assert_eq!(lines.lines().next(), Some("t\\u{1b}.yaml:1:4: warning[test-warning] one two \\u{7}"));
    assert_eq!(lines.lines().last(), Some("and 10 more"));
    assert!(pretty(&findings, &sources, &Pretty::default()).ends_with("\n\nand 10 more\n"));
    // Errors are never among the omitted findings.
    let errors = vec![Diagnostic::new(&RULE, Span::new(file, 3..4), "e"); 60];
    let all: Vec<_> = findings.into_iter().chain(errors).collect();
    lines.clear();
    concise(&all, &sources, &Pretty::default(), &mut lines).unwrap();
    assert_eq!(lines.lines().filter(|line| line.contains("error[test-rule]")).count(), 60);
    assert_eq!(lines.lines().last(), Some("and 60 more"));
}

/// Returns the result of `mend` for `text`, where `find` returns the findings in a text, each at the first occurrence
/// of some words in it.
fn mended(
    text: &str,
    find: impl Fn(&str) -> Vec<(&'static Rule, &'static str, Option<&'static str>)>,
) -> (String, Vec<String>) {
    let look = |texts: &Texts, sources: &Sources| {
        let now = texts.get(Path::new("t.yaml")).map_or(text, |bytes| std::str::from_utf8(bytes).unwrap());
        let file = sources.add("t.yaml", now);
        let found = find(now).into_iter().map(|(rule, words, fix)| {
            let place = span(sources, file, words);
            let d = Diagnostic::new(rule, place, format!("about {words}"));
            fix.into_iter().fold(d, |d, fix| d.fix("mend", place, fix))
        });
        Ok::<_, ()>(found.collect())
    };
    let mended = mend(false, look).unwrap();
    let text = mended.texts.values().next().map_or(text.to_owned(), |bytes| String::from_utf8(bytes.clone()).unwrap());
    (text, mended.refused.into_iter().collect())
}

#[test]
fn fixes_that_cause_errors_are_rolled_back() {
    let has = |text: &str, word: &'static str, rule, fix| text.contains(word).then_some((rule, word, fix));
    // A fix that adds an error anywhere.
    let (text, refused) = mended("a: 1\nb: 2\n", |t| match t.contains("a:") {
        true => vec![(&WARNING, "a", Some("c"))],
        false => vec![(&RULE, "b", None)],
    });
    assert_eq!(text, "a: 1\nb: 2\n");
    assert_eq!(refused, ["t.yaml:1: test-warning: it would introduce the error `test-rule`: about b"]);
    // A fix that does not remove its own finding.
    let (text, refused) = mended("a: 1\n", |t| has(t, "a", &WARNING, Some("aa")).into_iter().collect());
    assert_eq!(text, "a: 1\n");
    assert_eq!(refused, ["t.yaml:1: test-warning: it does not fix the finding"]);
    // A harmless fix beside it is kept.
    let (text, refused) = mended("a: 1\nb: 2\n", |t| {
        [has(t, "a", &WARNING, Some("aa")), has(t, "b", &WARNING, Some("c"))].into_iter().flatten().collect()
    });
    assert_eq!(text, "a: 1\nc: 2\n");
    assert_eq!(refused.len(), 1);
}

#[test]
fn a_fix_that_makes_a_file_readable_may_reveal_errors() {
    // A file that could not be read already had an error.
    let find = |t: &str| match t.contains('\t') {
        true => vec![(&RULE, "\t", Some("  "))],
        false => vec![(&RULE, "other", None)],
    };
    assert_eq!(mended("a:\n\tb: 1\nother: 2\n", find), ("a:\n  b: 1\nother: 2\n".to_owned(), Vec::new()));
    // This does not apply to errors in the text that the fix wrote, or in the value of its key.
    let find = |t: &str| match t.contains("kidn") {
        true => vec![(&RULE, "kidn", Some("kind"))],
        false => vec![(&RULE, "Tsk", None)],
    };
    let (text, refused) = mended("kidn: Tsk\n", find);
    assert!(text == "kidn: Tsk\n" && refused.len() == 1, "{text}{refused:?}");
}

#[test]
fn the_summary_counts_findings() {
    let sources = Sources::default();
    let file = sources.add("t.yaml", "a: 1\n");
    let error = Diagnostic::new(&RULE, Span::new(file, 0..1), "e");
    let fixable = error.clone().fix("drop it", error.span, "");
    let warning = Diagnostic::new(&WARNING, error.span, "w");
    assert_eq!(summary(&[], 1), "no findings in 1 file");
    assert_eq!(summary(std::slice::from_ref(&warning), 12), "found 1 warning in 12 files");
    assert_eq!(
        summary(&[error, fixable.clone(), fixable, warning], 12),
        "found 3 errors (2 fixable), 1 warning in 12 files"
    );
}

#[test]
fn the_report_matches_its_documented_format() {
    let sources = Sources::default();
    let file = sources.add("t.yaml", "\u{feff}é: promt\nb: 1\n");
    let place = span(&sources, file, "promt");
    let finding = Diagnostic::new(&RULE, place, "m").label(span(&sources, file, "b"), "l").fix("f", place, "prompt");
    let json = serde_json::to_value(report(&[finding], &sources, 3)).unwrap();
    assert_eq!(
        json,
        serde_json::json!({"version": 1, "diagnostics": [{
            "rule": "test-rule", "level": "error", "message": "m", "help": null,
            "path": "t.yaml", "line": 1, "column": 4, "endLine": 1, "endColumn": 9,
            "labels": [{"path": "t.yaml", "line": 2, "column": 1, "endLine": 2, "endColumn": 2, "message": "l"}],
            "places": [],
            "fix": {"description": "f", "applicability": "safe", "edits": [{"path": "t.yaml", "start": 7, "end": 12, "text": "prompt"}]},
        }], "files": 3})
    );
    let schema = schemars::generate::SchemaSettings::draft2020_12()
        .for_serialize()
        .into_generator()
        .into_root_schema_for::<gevals::diagnostic::DiagnosticReport>();
    assert!(jsonschema::is_valid(schema.as_value(), &json), "{schema:?}");
    assert!(!jsonschema::is_valid(
        schema.as_value(),
        &serde_json::json!({"version": 2, "diagnostics": [], "files": 0})
    ));
}

#[test]
fn conflicting_fixes_are_applied_in_the_next_round() {
    let sources = Sources::default();
    let a = sources.add("a.yaml", "one two three");
    let b = sources.add("b.yaml", "four");
    let at = |file, range| Span::new(file, range);
    let finding = Diagnostic::new(&RULE, at(a, 0..1), "m");
    let findings = [
        finding.clone().fix("f", at(a, 4..7), "2"),
        finding.clone().fix("overlaps, so its part in b waits too", at(b, 0..4), "4").fix("", at(a, 6..9), "-"),
        finding.clone().fix("merges", at(a, 4..7), "2").fix("", at(a, 13..13), "!"),
        finding.clone().fix("inserts where another does", at(a, 13..13), "?"),
        finding.clone().fix("is out of range", at(a, 13..14), ""),
        finding.fix("changes nothing", at(b, 0..4), "four"),
    ];
    assert_eq!(fix::apply_all(&findings, &sources), [(a, "one 2 three!?".to_owned())]);
}

fn texts() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        "[a-z: ]{0,12}",
        Just("\n".to_owned()),
        Just("\r\n".to_owned()),
        Just("\r".to_owned()),
        Just("\t".to_owned()),
        Just("\u{feff}".to_owned()),
        Just("\u{1b}[2J".to_owned()),
        Just("é日🦀e\u{301}\u{202e}\u{0}\u{9b}".to_owned()),
        Just("long ".repeat(60)),
    ];
    proptest::collection::vec(piece, 0..20).prop_map(|pieces| pieces.concat())
}

fn ranges() -> impl Strategy<Value = (bool, u32, u32)> {
    let offset = || prop_oneof![20 => 0..80_u32, 4 => 0..2000_u32, 1 => Just(u32::MAX)];
    (any::<bool>(), offset(), offset())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_span_of_any_text_can_be_printed(
        texts in (texts(), texts()),
        ranges in proptest::collection::vec(ranges(), 1..6),
        (colour, unicode, width) in (any::<bool>(), any::<bool>(), 0..130_usize),
    ) {
        let sources = Sources::default();
        let files = [sources.add("a\u{1b}.yaml", texts.0.as_str()), sources.add("b.yaml", texts.1.as_str())];
        let mut spans = ranges.iter().map(|(second, start, end)| {
            Span { file: files[usize::from(*second)], start: *start, end: *end }
        });
        let mut finding = Diagnostic::new(&RULE, spans.next().unwrap(), texts.0.as_str()).help(texts.1.as_str());
        for span in spans {
            finding = finding.label(span, texts.1.as_str()).fix(texts.0.as_str(), span, texts.1.as_str());
        }
        let findings = [finding];
        let style = Pretty { colour, unicode, width, limit: None };
        let mut output = pretty(&findings, &sources, &style);
        concise(&findings, &sources, &style, &mut output).unwrap();
        report(&findings, &sources, 1);
        fix::apply_all(&findings, &sources);
        let raw = |c: char| c.is_control() && !matches!(c, '\n' | '\t') && (!colour || c != '\u{1b}');
        prop_assert!(!output.contains(raw), "{output:?}");
        prop_assert!(!output.contains("\u{1b}[2J"), "{output:?}");
        prop_assert!(!output.contains("Failed to read"), "{output:?}");
    }

    #[test]
    fn reported_positions_match_the_span(text in texts(), at in any::<[prop::sample::Index; 2]>()) {
        let sources = Sources::default();
        let file = sources.add("t.yaml", text.as_str());
        let bounds: Vec<_> = (0..=text.len()).filter(|i| text.is_char_boundary(*i)).collect();
        let [a, b] = at.map(|i| *i.get(&bounds));
        let span = Span::new(file, a.min(b)..a.max(b));
        let found = &report(&[Diagnostic::new(&RULE, span, "m")], &sources, 1).diagnostics[0];

        // As another program would: lines separated by `\n`, columns in scalar values, and a byte order mark in none of
        // them.
        let bom = if text.starts_with('\u{feff}') { 3 } else { 0 };
        let offset = |line: usize, column: usize| {
            let start: usize = text.split_inclusive('\n').take(line - 1).map(str::len).sum();
            let start = if line == 1 { bom } else { start };
            start + text[start..].chars().take(column - 1).map(char::len_utf8).sum::<usize>()
        };
        let (start, end) = (offset(found.line, found.column), offset(found.end_line, found.end_column));
        prop_assert_eq!((start, end), (a.min(b).max(bom), a.max(b).max(bom)));
    }

    #[test]
    fn edits_are_applied_as_described(text in texts(), cuts in proptest::collection::vec((any::<prop::sample::Index>(), "[a-z\n]{0,3}"), 0..8)) {
        let sources = Sources::default();
        let file = sources.add("t.yaml", text.as_str());
        let bounds: Vec<_> = (0..=text.len()).filter(|i| text.is_char_boundary(*i)).collect();
        let mut places: Vec<_> = cuts.iter().map(|(i, t)| (*i.get(&bounds), t.clone())).collect();
        places.sort();
        places.dedup_by_key(|(i, _)| *i);
        let mut expected = String::new();
        let mut at = 0;
        let mut edits = Vec::new();
        for pair in places.chunks_exact(2) {
            expected.push_str(&text[at..pair[0].0]);
            expected.push_str(&pair[0].1);
            at = pair[1].0;
            edits.push(Edit { span: Span::new(file, pair[0].0..at), text: pair[0].1.clone() });
        }
        expected.push_str(&text[at..]);
        edits.reverse();
        prop_assert_eq!(fix::apply(&text, &edits), Ok(expected));
        if let Some(edit) = edits.first() {
            let other = Edit { text: "other".to_owned(), ..edit.clone() };
            prop_assert_eq!(fix::apply(&text, &[edit.clone(), other]), Err(fix::Conflict::Overlap));
        }
    }
}

#[test]
fn errors_are_printed_first_and_are_never_hidden_by_a_limit() {
    let sources = Sources::default();
    let file = sources.add("t.yaml", "a b c\n");
    let warning = Diagnostic::new(&WARNING, span(&sources, file, "a"), "w");
    let found = [warning.clone(), warning, Diagnostic::new(&RULE, span(&sources, file, "b"), "first")];
    let found = [&found[..], &[Diagnostic::new(&RULE, span(&sources, file, "c"), "second")]].concat();
    let mut out = String::new();
    concise(&found, &sources, &Pretty { limit: Some(1), ..Pretty::default() }, &mut out).unwrap();
    let lines: Vec<_> = out.lines().collect();
    assert!(lines.len() == 3 && lines[0].ends_with("first") && lines[1].ends_with("second"), "{out}");
    assert_eq!(lines[2], "and 2 more");
}
