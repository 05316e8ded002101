//! The YAML front end: spans, types, the mapping from decoded text to source, and hostile input.

use gevals::{
    diagnostic::Diagnostics,
    source::{FileId, Sources},
    yaml::{self, Data, Node, Style, Tree},
};
use proptest::prelude::*;

fn file() -> FileId {
    Sources::default().add("task.yaml", "")
}

fn parse(text: &str) -> (Option<Tree>, Diagnostics) {
    let mut out = Diagnostics::default();
    let tree = yaml::parse(file(), text, &mut out);
    assert!(tree.is_ok() || out.has_error());
    (tree.ok(), out)
}

fn good(text: &str) -> Tree {
    let (tree, out) = parse(text);
    let found: Vec<_> = out.iter().map(|d| (d.rule.name, &d.message)).collect();
    assert!(found.is_empty(), "{text}\n{found:?}");
    tree.expect("a tree without faults")
}

/// Returns the rule and the marked text of every finding.
fn faults(text: &str) -> Vec<(&'static str, String)> {
    parse(text).1.into_iter().map(|d| (d.rule.name, text[d.span.range()].to_owned())).collect()
}

fn written<'a>(text: &'a str, node: Node<'_>) -> &'a str {
    &text[node.span().range()]
}

/// Returns the text with the fix of its only finding applied.
fn fixed(text: &str) -> String {
    let out = parse(text).1;
    let found: Vec<_> = out.iter().collect();
    assert_eq!(found.len(), 1, "{text} {found:?}");
    let mut result = text.to_owned();
    for edit in found[0].fix.as_ref().expect("a fix").edits.iter().rev() {
        result.replace_range(edit.span.range(), &edit.text);
    }
    result
}

#[test]
fn spans_cover_values_as_written() {
    let text = "a: 'it''s'\nb: | # not | the header\n\n  one\n  two \n\n\nc:   # null\nd: [1, {x: y}]\ne:\n  - >2-\n     f\n  -\n\
                f: &x !!str 1\ng: *x\n? h\ni : \n";
    let tree = good(text);
    let root = tree.root();
    let at = |key: &str| root.get(key).unwrap();
    assert_eq!(written(text, at("a")), "'it''s'");
    assert_eq!(written(text, at("b")), "| # not | the header\n\n  one\n  two ");
    assert_eq!(at("b").text(), Some("\none\ntwo \n"));
    assert!(text[..at("c").span().start as usize].ends_with("\nc:"));
    assert_eq!(written(text, at("d")), "[1, {x: y}]");
    assert_eq!(written(text, at("e")), "- >2-\n     f\n  -");
    let items: Vec<_> = at("e").items().collect();
    assert_eq!((items[0].text(), items[0].style()), (Some(" f"), Style::Folded));
    assert_eq!(written(text, items[0]), ">2-\n     f");
    assert!(items[1].is_implicit_null());
    assert!(text[..items[1].span().start as usize].ends_with("\n  -"));
    assert_eq!((written(text, at("f")), at("f").data()), ("1", Data::Str("1")));
    assert_eq!((written(text, at("g")), at("g").data()), ("*x", Data::Str("1")));
    assert!(text[..at("h").span().start as usize].ends_with("? h"));
    assert!(text[..at("i").span().start as usize].ends_with("i :"));
    assert_eq!(tree.comments().iter().map(|c| c.text.as_str()).collect::<Vec<_>>(), [" not | the header", " null"]);
}

#[test]
fn empty_block_scalars_have_the_span_of_their_header() {
    for (text, expected) in [
        ("a: |\nb: 1\n", "|"),
        ("a: |+ # | x\n\n\nb: 1\n", "|+"),
        ("a: >-", ">-"),
        ("a: |2+\n\n", "|2+"),
        ("a:\n  |\n", "|"),
    ] {
        let tree = good(text);
        let a = tree.root().get("a").unwrap();
        assert_eq!(written(text, a), expected, "{text:?} {:?}", a.text());
        assert_eq!(a.text().unwrap().trim(), "");
    }
}

#[test]
fn an_empty_file_is_null() {
    for text in ["", "\n\n", "# only a comment\n", "---\n", "\u{feff}"] {
        let tree = good(text);
        assert!(tree.root().is_implicit_null(), "{text:?}");
        assert!(tree.root().span().range().is_empty());
    }
}

#[test]
fn merge_keys_yield_to_explicit_keys() {
    let tree = good(
        "a: &a {x: 1, y: 1}\nb: &b {y: 2, z: 2}\nc:\n  z: 3\n  <<: [*a, *b]\n  w: 3\nd: {<<: *a, x: 4}\n\"<<\": text\n",
    );
    let json = serde_json::json!({
        "a": {"x": 1, "y": 1}, "b": {"y": 2, "z": 2}, "c": {"z": 3, "w": 3, "x": 1, "y": 1}, "d": {"x": 4, "y": 1},
    });
    let found = tree.root().to_json();
    for key in ["a", "b", "c", "d"] {
        assert_eq!(found[key], json[key]);
    }
    let names: Vec<_> = tree.root().get("c").unwrap().entries().map(|e| e.name).collect();
    assert_eq!(names, ["z", "w", "x", "y"]);
}

#[test]
fn faults_are_distinguished() {
    let one = |rule: &'static str, marked: &str| vec![(rule, marked.to_owned())];
    assert_eq!(faults("a: 1\nb: 2\na: 3\n"), one("duplicate-key", "a"));
    assert_eq!(faults("a: 1\n---\nb: 2\n"), one("second-document", "---"));
    assert_eq!(faults("1: a\n"), one("non-string-key", "1"));
    assert_eq!(faults("? [a]\n: b\n"), one("non-string-key", "[a]"));
    assert_eq!(faults(": b\n"), one("non-string-key", ""));
    assert_eq!(faults("a: &defaults 1\nb: *default\n"), one("unknown-anchor", "*default"));
    assert_eq!(faults("a: !Ref x\n"), one("unknown-tag", "!Ref"));
    assert_eq!(faults("a: !!int x\n"), one("unknown-tag", "!!int"));
    assert_eq!(faults("a: !!set {x}\n"), one("unknown-tag", "!!set"));
    assert_eq!(faults("a: &a [*a]\n"), one("alias-expansion", "*a"));
    assert_eq!(faults("a: &a 1\nb: {<<: *a}\n"), one("merge-key", "*a"));
    assert_eq!(faults("a: @x\n"), one("syntax", "@"));
    assert_eq!(faults("a:\n\tb: 1\n"), one("syntax", "\t"));
    assert_eq!(faults("a: \"\\d\"\n"), one("syntax", "\\d"));
    assert_eq!(faults("%a: 1\n"), one("syntax", "%"));
    assert_eq!(faults("a\0b: 1"), one("syntax", "\0"));
    assert_eq!(faults("a: {env.X}\n"), one("unquoted-hole", "{env.X}"));
    assert_eq!(faults("a: {name}\n"), []);
    assert_eq!(faults("a: {x.y}\n"), []);
    // Further documents are checked as well.
    let rules: Vec<_> = faults("a: [\n---\nb: 1\nb: 2\n---\nc: @\n").into_iter().map(|f| f.0).collect();
    assert_eq!(rules, ["syntax", "duplicate-key", "syntax", "second-document"]);
}

#[test]
fn templates_without_quotes_are_quoted() {
    for (bad, good) in [
        ("a: {env.X}\n", "a: \"{env.X}\"\n"),
        ("a: {env.X | default(\"a, b\")} # c\n", "a: '{env.X | default(\"a, b\")}' # c\n"),
        ("a: {env.X} foo # c\n", "a: \"{env.X} foo\" # c\n"),
        ("- - a: {x}/{y}\n    b: 1\n", "- - a: \"{x}/{y}\"\n    b: 1\n"),
        ("- {env.A}-{env.B}\n- b\n", "- \"{env.A}-{env.B}\"\n- b\n"),
        ("a: {steps.s.outputs.list[0]}\n", "a: \"{steps.s.outputs.list[0]}\"\n"),
        ("a: [{env.X}/a, b]\n", "a: [\"{env.X}/a\", b]\n"),
        ("a: {env.X} say \"it's\"\n", "a: '{env.X} say \"it''s\"'\n"),
    ] {
        assert_eq!(faults(bad)[0].0, "unquoted-hole", "{bad}");
        assert_eq!(fixed(bad), good);
        assert!(parse(good).1.is_empty());
    }
    let (tree, _) = parse("a: {env.X}\n");
    assert_eq!(tree.unwrap().root().get("a").unwrap().as_str(), Some("{env.X}"));
    let tree = good("a: {name}\nb: {a: 1}\nc: {a, b}\nd: {x.y | upper}\n");
    let holes: Vec<_> = tree.root().entries().map(|e| e.value.unquoted_hole().is_some()).collect();
    assert_eq!(holes, [true, false, false, true]);
}

#[test]
fn syntax_errors_offer_quotes_that_help() {
    for (bad, good) in [
        ("a: b: c\n", "a: \"b: c\"\n"),
        ("a: @x\nb: 1\n", "a: \"@x\"\nb: 1\n"),
        ("- `x`\n", "- \"`x`\"\n"),
        ("1: x\n", "\"1\": x\n"),
    ] {
        assert_eq!(fixed(bad), good);
        assert!(parse(good).1.is_empty());
    }
}

#[test]
fn yaml_1_1_words_are_reported() {
    let text = "on: yes\nmode: 010\nok: 'no'\nfine: !!str off\nnumber: 10\n";
    let tree = good(text);
    let mut out = Diagnostics::default();
    yaml::yaml11_words(&tree, &mut out);
    assert_eq!(out.iter().map(|d| &text[d.span.range()]).collect::<Vec<_>>(), ["on", "yes", "010"]);
    assert!(!out.has_error());
}

#[test]
fn hostile_input_is_rejected_quickly() {
    for opening in ["[", "{a: ", "- ", "? ", "{? ", "[["] {
        let text = opening.repeat(100_000);
        assert!(parse(&text).0.is_none(), "{opening}");
    }
    assert_eq!(faults(&"[".repeat(100_000)), [("nesting", "[".to_owned())]);
    assert_eq!(faults(&"- ".repeat(100_000))[0].0, "nesting");

    let stairs: String = (0..1000).map(|i| format!("{}a:\n", " ".repeat(i))).collect();
    assert_eq!(faults(&stairs)[0].0, "nesting");

    let mut laughs = "a0: &a0 [lol, lol]\n".to_owned();
    for i in 1..60 {
        laughs += &format!("a{i}: &a{i} [*a{0}, *a{0}, *a{0}]\n", i - 1);
    }
    assert_eq!(faults(&laughs).len(), 1);
    assert_eq!(faults(&laughs)[0].0, "alias-expansion");

    let mut chain = "a0: &a0 [x]\n".to_owned();
    for i in 1..1000 {
        chain += &format!("a{i}: &a{i} [*a{}]\n", i - 1);
    }
    assert_eq!(faults(&chain)[0].0, "nesting");

    let keys: Vec<_> = (0..5000).map(|i| format!("k{i}: 1")).collect();
    let mut merges = format!("a: &a {{{}}}\n", keys.join(", "));
    for i in 0..5000 {
        merges += &format!("m{i}: {{<<: *a}}\n");
    }
    assert_eq!(faults(&merges)[0].0, "alias-expansion");
    assert!(parse(&keys.join("\n")).0.is_some());
}

/// Checks that every character of the scalar under `v` maps to the source that stands for it.
fn check_map(text: &str) -> Result<(), TestCaseError> {
    let tree = good(text);
    let node = tree.root().get("v").expect("a value");
    let cooked = node.text().expect("a scalar");
    let map = node.source_map();
    let mut last = 0;
    for (i, c) in cooked.char_indices() {
        let span = map.span(i..i + c.len_utf8());
        let source = &text[span.range()];
        let context = format!("{text:?} {cooked:?} {i} {c:?} -> {source:?}");
        prop_assert!(span.start as usize >= last, "out of order: {}", context);
        last = span.end as usize;
        let means_it = match (node.style(), c) {
            (_, '\n') if source.is_empty() => span.start as usize == text.len(),
            (Style::DoubleQuoted, c) if source.starts_with('\\') => {
                // Without folding, a quoted string of only this source is this character.
                good(&format!("\"{source}\"")).root().text() == Some(c.encode_utf8(&mut [0; 4]))
            }
            (Style::SingleQuoted, '\'') => source == "''",
            (_, ' ' | '\n') if source.contains(['\n', '\r']) => source.trim().is_empty(),
            _ => source.chars().eq([c]),
        };
        prop_assert!(means_it, "{}", context);
    }
    let all = map.span(0..cooked.len());
    prop_assert!(cooked.is_empty() || (all.start >= node.span().start && all.end as usize <= text.len()));
    Ok(())
}

#[test]
fn cooked_text_maps_back_in_every_style() {
    for text in [
        "v: a b\n  c\n\n\n  d é\n",
        "v: 'it''s\n  \n\n  ''x'' '\n",
        "v: \"a\\tb\\u00e9\\ud83d\\ude00\\\n   c  \\\n\n  d \n e\\ \"\n",
        "\u{feff}v: \"é\\x41\"\r\nw: 1\r\n",
        "v: |\r\n  a\r\n\r\n  b\r\n",
        "v: |2-\n\n    a\n   b\n  c\n\n\nw: 1\n",
        "v: >+ # c\n\n  a\n  b\n\n\n   c\n   d\n  e\n  f\n\n\n",
        "v: >\n  \n\n   a\n   b\n\n   c",
        "v: >2\n    \n   a\n  b\n\n  c\n",
        "v: |",
        "v: |+\n\n\n",
        "v: |\n  x",
        "v:\n- 1\nw: 1\n",
    ] {
        if text.contains("- 1") {
            let tree = good(text);
            let list = tree.root().get("v").unwrap();
            assert_eq!(list.cooked(0..3), list.span());
        } else {
            check_map(text).unwrap_or_else(|e| panic!("{e}"));
        }
    }
    // A hole in the middle of a folded block, across a line break.
    let text = "v: >\n  see {env.\n  X} there\n";
    let tree = good(text);
    let node = tree.root().get("v").unwrap();
    let start = node.text().unwrap().find('{').unwrap();
    assert_eq!(&text[node.cooked(start..start + 8).range()], "{env.\n  X}");
    assert!(node.cooked(2..2).range().is_empty());
}

/// A piece of text for a scalar, which is difficult in some style.
fn awkward() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => "[a-z{}|.]{1,6}",
        2 => Just(" ".to_owned()),
        1 => Just("  ".to_owned()),
        2 => Just("\n".to_owned()),
        1 => Just("'".to_owned()),
        1 => Just("\"".to_owned()),
        1 => Just("\\".to_owned()),
        1 => Just("\t".to_owned()),
        1 => Just("é".to_owned()),
        1 => Just("😀".to_owned()),
        1 => Just(" # ".to_owned()),
    ];
    proptest::collection::vec(piece, 0..12).prop_map(|v| v.concat())
}

/// Writes `text` as a double-quoted scalar with escaped line breaks inserted.
fn double(text: &str, breaks: &[bool]) -> String {
    let mut out = "\"".to_owned();
    for (i, c) in text.chars().enumerate() {
        match c {
            '"' => out += "\\\"",
            '\\' => out += "\\\\",
            '\n' => out += "\\n",
            '\t' => out += "\\t",
            'é' => out += "\\xe9",
            c => out.push(c),
        }
        if breaks.get(i).copied().unwrap_or(false) {
            out += "\\\n    \\";
            out += if i % 2 == 0 { "\n   \\x20" } else { "x20" };
        }
    }
    out + "\""
}

fn yaml_value() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        (-1e6..1e6f64).prop_map(Into::into),
        awkward().prop_map(Into::into),
        prop::sample::select(vec!["null", "true", "1", "~", "", "-", "a: b", "yes", "{env.X}", "@x"])
            .prop_map(Into::into),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Into::into),
            proptest::collection::btree_map("[a-z]{1,3}|[0-9]|é| x", inner, 0..4)
                .prop_map(|m| serde_json::Value::Object(m.into_iter().collect())),
        ]
    })
}

/// Writes a value in block style, with the style of strings chosen by `pick`.
fn emit(value: &serde_json::Value, indent: usize, pick: &mut usize, out: &mut String) {
    use serde_json::Value;
    *pick = pick.wrapping_mul(31).wrapping_add(7);
    let pad = " ".repeat(indent);
    match value {
        Value::Array(items) if !items.is_empty() => {
            for item in items {
                *out += &format!("\n{pad}-");
                emit(item, indent + 2, pick, out);
            }
        }
        Value::Object(map) if !map.is_empty() => {
            for (key, item) in map {
                *out += &format!("\n{pad}\"{key}\":");
                emit(item, indent + 2, pick, out);
            }
        }
        Value::String(s) if pick.is_multiple_of(3) && s.starts_with(|c: char| c.is_alphabetic()) => {
            let chomp = if s.ends_with('\n') { "+" } else { "-" };
            *out += &format!(" |{chomp}");
            for line in s.strip_suffix('\n').unwrap_or(s).split('\n') {
                *out += &format!("\n{pad} {line}");
            }
        }
        Value::String(s) if *pick % 3 == 1 && !s.contains('\n') => *out += &format!(" '{}'", s.replace('\'', "''")),
        other => *out += &format!(" {other}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn generated_scalars_map_back(text in awkward(), breaks in proptest::collection::vec(any::<bool>(), 0..20), crlf in any::<bool>()) {
        let indented = |indicator: &str| {
            let lines: Vec<_> = text.split('\n').map(|l| if l.is_empty() { String::new() } else { format!("   {l}") }).collect();
            format!("v: {indicator}\n{}\nw: 1\n", lines.join("\n"))
        };
        let single = text.replace('\'', "''").replace('\n', "\n\n  ");
        let mut sources: Vec<_> = ["|3", ">3", "|3+", ">3+", "|3-", ">3-"].map(indented).to_vec();
        sources.push(format!("v: '{single}'\n"));
        sources.push(format!("v: {}\n", double(&text, &breaks)));
        // The parser skips a comment inside a plain scalar after a tab; such a scalar is mapped as a whole.
        sources.push(format!("v: {}\n", text.replace('\t', " ")));
        for source in sources {
            let source = if crlf { source.replace('\n', "\r\n") } else { source };
            let (tree, out) = parse(&source);
            let Some(node) = tree.as_ref().filter(|_| out.is_empty()).and_then(|t| t.root().get("v")) else { continue };
            if node.text().is_some() {
                check_map(&source)?;
            }
        }
    }

    #[test]
    fn values_equal_those_of_serde_yaml(value in yaml_value(), seed in any::<usize>()) {
        let mut block = String::new();
        emit(&value, 0, &mut { seed }, &mut block);
        for text in [format!("{block}\n"), value.to_string(), serde_json::to_string_pretty(&value).unwrap()] {
            let (tree, out) = parse(&text);
            prop_assert!(out.is_empty(), "{} {:?}", text, out);
            let ours = tree.unwrap().root().to_json();
            let theirs: serde_json::Value = serde_yaml::from_str(&text).unwrap();
            prop_assert_eq!(&ours, &theirs, "{}", text);
            prop_assert_eq!(&ours, &value, "{}", text);
        }
    }

    #[test]
    fn nothing_panics(pieces in proptest::collection::vec(prop_oneof![
        prop::sample::select(vec![
            "a", "b", ": ", "- ", "? ", "\n", "\r\n", "\r", " ", "  ", "\t", "{", "}", "[", "]", ", ", "'", "\"", "\\", "|", ">", "|2+", "&x ",
            "*x", "!t ", "!!str ", "!", "#", " # c", "%", "@", "`", "---\n", "...\n", "<<", "{env.X}", "~", "1", "é", "\u{feff}", "\0", "\u{85}",
        ]).prop_map(str::to_owned),
        any::<char>().prop_map(String::from),
    ], 0..40)) {
        let text = pieces.concat();
        let (tree, out) = parse(&text);
        for d in out.iter() {
            prop_assert!(text.get(d.span.range()).is_some(), "{:?} {:?}", text, d);
        }
        if let Some(tree) = tree {
            let mut out = Diagnostics::default();
            yaml::yaml11_words(&tree, &mut out);
            let _ = tree.root().to_json();
            walk(&tree, tree.root(), &text)?;
        }
    }

    #[test]
    fn bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        match yaml::decode_utf8(bytes) {
            Ok(text) => { parse(&text); }
            Err(e) => prop_assert!(e.text.get(e.diagnostic(file()).span.range()).is_some()),
        }
    }
}

fn walk(tree: &Tree, node: Node<'_>, text: &str) -> Result<(), TestCaseError> {
    prop_assert!(text.get(node.span().range()).is_some(), "{:?} {:?}", text, node.span());
    prop_assert_eq!(tree.node_at(node.span()).map(Node::span), Some(node.span()), "{:?}", text);
    let map = node.source_map();
    for (i, c) in node.text().unwrap_or("").char_indices() {
        prop_assert!(text.get(map.span(i..i + c.len_utf8()).range()).is_some());
    }
    for child in node.items().chain(node.entries().flat_map(|e| [e.key, e.value])) {
        prop_assert!(node.is_alias() || child.is_alias() || child.span().end <= text.len() as u32);
        walk(tree, child, text)?;
    }
    Ok(())
}
