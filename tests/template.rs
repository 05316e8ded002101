//! The hole language: the scanner against its grammar, the test vectors, the table of filters and its page.

use std::{convert::Infallible, fs, ops::Range, path::PathBuf, sync::LazyLock};

use gevals::{
    template::{
        FILTERS, Filter, Hole, Ident, Literal, Param, ParamKind, Path, Piece, Scan, Segment, SegmentKind, SuspectKind,
        apply_filters, escape, fill, filter, hole_type, scan, walk_type, walk_value,
    },
    ty::Type,
};
use pest_meta::{optimizer, parser};
use pest_vm::Vm;
use proptest::prelude::*;
use serde_json::{Value, json};

fn grammar(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("grammar").join(name);
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn vectors(name: &str) -> Vec<Value> {
    serde_json::from_str(&grammar(&format!("vectors/{name}.json"))).unwrap()
}

// --- the grammar, executed ---

static VM: LazyLock<Vm> = LazyLock::new(|| {
    let source = grammar("template.pest");
    let pairs = parser::parse(parser::Rule::grammar_rules, &source).unwrap_or_else(|e| panic!("template.pest: {e}"));
    let rules = parser::consume_rules(pairs).unwrap_or_else(|e| panic!("template.pest: {e:?}"));
    Vm::new(optimizer::optimize(rules))
});

/// A match of a rule, with the matches nested in it.
struct Match<'a> {
    rule: String,
    text: &'a str,
    range: Range<usize>,
    inner: Vec<Match<'a>>,
}

/// Returns the matches in `text`, as a tree. (`pest` itself is not a dependency, so its types cannot be named here.)
fn matches(text: &str) -> Match<'_> {
    fn close(open: &mut Vec<Match<'_>>) {
        let done = open.pop().unwrap();
        open.last_mut().unwrap().inner.push(done);
    }
    let mut open: Vec<Match<'_>> = Vec::new();
    for pair in VM.parse("template", text).unwrap().flatten().filter(|pair| pair.as_rule() != "EOI") {
        let range = pair.as_span().start()..pair.as_span().end();
        while open.len() > 1 && open.last().unwrap().range.end < range.end.max(range.start + 1) {
            close(&mut open);
        }
        open.push(Match { rule: pair.as_rule().to_owned(), text: &text[range.clone()], range, inner: Vec::new() });
    }
    while open.len() > 1 {
        close(&mut open);
    }
    open.pop().unwrap()
}

/// Returns the pieces of `text` according to the grammar.
fn by_grammar(text: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut literal = String::new();
    let mut at = 0;
    for outer in matches(text).inner {
        literal += &text[at..outer.range.start];
        at = outer.range.end;
        let kept = outer.rule == "kept";
        for part in if outer.rule == "hole" { vec![outer] } else { outer.inner } {
            match &*part.rule {
                "pair" => literal.push('\\'),
                "hole" if kept => literal += part.text,
                "hole" => {
                    pieces.extend(Some(std::mem::take(&mut literal)).filter(|t| !t.is_empty()).map(Piece::Text));
                    pieces.push(Piece::Hole(hole(&part)));
                }
                rule => panic!("unexpected {rule}"),
            }
        }
    }
    literal += &text[at..];
    pieces.extend(Some(literal).filter(|t| !t.is_empty()).map(Piece::Text));
    pieces
}

fn hole(hole: &Match<'_>) -> Hole {
    let ident = |m: &Match<'_>| Ident { text: m.text.to_owned(), range: m.range.clone() };
    let [path, filters @ ..] = &*hole.inner else { panic!("a hole without path") };
    let segment = |m: &Match<'_>| Segment {
        kind: match &*m.rule {
            "name" => SegmentKind::Name(m.text.to_owned()),
            _ => SegmentKind::Index(m.text.trim_matches(['[', ']']).parse().unwrap()),
        },
        range: m.range.clone(),
    };
    let argument = |m: &Match<'_>| Literal { value: literal(m), range: m.range.clone() };
    let filter = |m: &Match<'_>| Filter {
        name: ident(&m.inner[0]),
        args: m.inner[1..].iter().map(argument).collect(),
        range: m.range.clone(),
    };
    Hole {
        range: hole.range.clone(),
        path: Path { root: ident(&path.inner[0]), segments: path.inner[1..].iter().map(segment).collect() },
        filters: filters.iter().map(filter).collect(),
    }
}

fn literal(found: &Match<'_>) -> Value {
    let text = found.text;
    match (&*found.rule, text) {
        ("string", _) => {
            let mut out = String::new();
            let mut chars = text[1..text.len() - 1].chars();
            while let Some(c) = chars.next() {
                out.push(match c {
                    '\\' => match chars.next().unwrap() {
                        'n' => '\n',
                        'r' => '\r',
                        't' => '\t',
                        c => c,
                    },
                    c => c,
                });
            }
            Value::String(out)
        }
        (_, "none") => Value::Null,
        _ => serde_json::from_str(text).unwrap(),
    }
}

/// Texts composed of what is significant in the language.
fn texts() -> impl Strategy<Value = String> {
    let bit = prop_oneof![
        6 => proptest::sample::select(vec!["{", "}", "{{", "}}", "\\", "$", "${", "'", "\"", "|", ".", "[", "]", "(", ")", ",", " ", "\n", "\r", "-"]),
        4 => proptest::sample::select(vec!["a", "env", "_x-1", "0", "17", "01", "1.5", "-2", "true", "none", "é", "日", "\u{301}", "default", "\\n", "\t"]),
        3 => proptest::sample::select(vec!["{a}", "{ env.X }", "{a[0].b", "{a | f", "{a|f('", "{a | f(\"x\", 1)}", "{a|f('}')}", "\\{a}", "{{ a }}", "${a}", "[0]", ".b", " | f(", "')}"]),
    ];
    let soup = proptest::collection::vec(bit, 0..14).prop_map(|bits| bits.concat());
    prop_oneof![4 => soup, 1 => ".{0,20}", 1 => well_formed()]
}

/// A valid hole, possibly with one additional character.
fn well_formed() -> impl Strategy<Value = String> {
    let path = r"[a-z_][a-z0-9_-]{0,3}(\.[a-zA-Z0-9_-]{1,3}|\[(0|[1-9][0-9]{0,2})\]){0,3}";
    let literal = r#"'([a-z{}é"]|\\[\\'"nrt]){0,4}'|"([a-z{}']|\\[\\'"nrt]){0,4}"|-?(0|[1-9][0-9]{0,3})(\.[0-9]{1,3})?|true|false|null|none"#;
    let filter = format!(r"\| ?[a-z]{{1,4}}(\(({literal})(, ?({literal})){{0,2}}\))? ?");
    let hole = format!(r"\\{{0,4}}\{{ {{0,2}}{path} ?({filter}){{0,2}}\}}");
    let junk = proptest::option::weighted(0.2, (any::<proptest::sample::Index>(), "[ .|(){}'\\\\x0]"));
    (proptest::string::string_regex(&hole).unwrap(), junk).prop_map(|(mut text, junk)| {
        if let Some((at, junk)) = junk {
            let places: Vec<usize> = text.char_indices().map(|(i, _)| i).collect();
            text.insert_str(places[at.index(places.len())], &junk);
        }
        text
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4096, ..ProptestConfig::default() })]

    #[test]
    fn scanner_and_grammar_agree(text in texts()) {
        prop_assert_eq!(scan(&text).pieces, by_grammar(&text));
    }

    #[test]
    fn pieces_cover_the_text_without_gaps(text in texts()) {
        let scan = scan(&text);
        let mut at = 0;
        let mut after_text = false;
        for piece in &scan.pieces {
            match piece {
                Piece::Hole(hole) => {
                    prop_assert!(at <= hole.range.start && (after_text || at == hole.range.start), "{:?}", scan);
                    at = hole.range.end;
                    let hole = &text[hole.range.clone()];
                    let braced = hole.starts_with('{') && hole.ends_with('}');
                    prop_assert!(braced);
                    after_text = false;
                }
                Piece::Text(piece) => {
                    prop_assert!(!after_text && !piece.is_empty());
                    after_text = true;
                }
            }
        }
        prop_assert!(after_text || at == text.len());
        for hole in scan.holes() {
            prop_assert_eq!(hole.path.to_string(), &text[hole.path.range()]);
        }
        for pair in scan.suspects.windows(2) {
            prop_assert!(pair[0].range.start <= pair[1].range.start);
        }
        for suspect in &scan.suspects {
            prop_assert!(text.get(suspect.range.clone()).is_some_and(|t| t.contains(&suspect.root)), "{:?}", suspect);
            prop_assert_eq!(suspect.detail.is_empty(), suspect.kind != SuspectKind::Malformed);
        }
    }

    #[test]
    fn escaped_text_scans_as_itself(text in texts()) {
        let escaped = escape(&text);
        let value = fill(&scan(&escaped), |hole| -> Result<Value, Infallible> { panic!("{hole:?} in {escaped}") });
        prop_assert_eq!(value.unwrap(), text);
    }
}

#[test]
fn long_texts_scan_in_one_pass() {
    let megabyte = 1 << 20;
    for unit in [
        "{",
        "{a",
        "{{ ",
        "\\",
        "$",
        "{a|b('",
        "{a|b(\"'\",'",
        "\\{a|b('",
        "{a | default('x')}",
        "${a|b(\"",
        "{{a}} ",
        "{                ",
    ] {
        let text = unit.repeat(megabyte / unit.len()) + "{a}";
        assert!(!scan(&text).pieces.is_empty());
    }
}

// --- vectors ---

fn pieces(case: &Value) -> Vec<Value> {
    let scan = scan(case["text"].as_str().unwrap());
    let piece = |piece: &Piece| match piece {
        Piece::Text(text) => json!(text),
        Piece::Hole(hole) if hole.filters.is_empty() => json!({"path": hole.path.to_string()}),
        Piece::Hole(hole) => {
            let filters = hole.filters.iter().map(|f| {
                let args = f.args.iter().map(|a| a.value.clone());
                std::iter::once(json!(f.name.text)).chain(args).collect::<Vec<_>>()
            });
            json!({"path": hole.path.to_string(), "filters": filters.collect::<Vec<_>>()})
        }
    };
    scan.pieces.iter().map(piece).collect()
}

fn kind(kind: &SuspectKind) -> &'static str {
    match kind {
        SuspectKind::Malformed => "malformed",
        SuspectKind::DoubleBrace(_) => "double-brace",
        SuspectKind::DollarBrace => "dollar-brace",
        SuspectKind::ShellVariable(_) => "shell-variable",
    }
}

#[test]
fn parse_vectors() {
    for case in vectors("parse") {
        let text = case["text"].as_str().unwrap();
        assert_eq!(json!(pieces(&case)), case["pieces"], "{text}");
        assert_eq!(scan(text).pieces, by_grammar(text), "{text}");
        let suspects = scan(text).suspects;
        let wanted = case["suspects"].as_array().cloned().unwrap_or_default();
        assert_eq!(suspects.len(), wanted.len(), "{text}: {suspects:?}");
        for (suspect, wanted) in suspects.iter().zip(&wanted) {
            assert_eq!(
                (kind(&suspect.kind), &*suspect.root),
                (wanted[0].as_str().unwrap(), wanted[1].as_str().unwrap()),
                "{text}"
            );
            let detail = wanted[2].as_str().unwrap_or("");
            assert!(suspect.detail.contains(detail), "{text}: {}", suspect.detail);
            if let SuspectKind::DoubleBrace(path) = &suspect.kind {
                assert_eq!(path.root.text, suspect.root);
            }
        }
    }
}

#[test]
fn span_vectors() {
    for case in vectors("span") {
        let text = case["text"].as_str().unwrap();
        let scan = scan(text);
        let mut spans = Vec::new();
        let mut span = |what: &str, range: &Range<usize>| {
            spans.push(json!([what, range.start, range.end, &text[range.clone()]]));
        };
        for hole in scan.holes() {
            span("hole", &hole.range);
            span("root", &hole.path.root.range);
            for segment in &hole.path.segments {
                span(if matches!(segment.kind, SegmentKind::Name(_)) { "name" } else { "index" }, &segment.range);
            }
            for filter in &hole.filters {
                span("filter", &filter.range);
                span("called", &filter.name.range);
                filter.args.iter().for_each(|arg| span("literal", &arg.range));
            }
        }
        scan.suspects.iter().for_each(|s| span(kind(&s.kind), &s.range));
        assert_eq!(json!(spans), case["spans"], "{text}");
    }
}

fn a_type(notation: &Value) -> Type {
    match notation {
        Value::String(name) => match &**name {
            "any" => Type::Any,
            "null" => Type::Null,
            "bool" => Type::Bool,
            "number" => Type::Number,
            "string" => Type::String,
            other => panic!("no type {other}"),
        },
        _ => match notation.get("list") {
            Some(of) => Type::list(a_type(of)),
            None => Type::Record {
                fields: notation["record"].as_object().unwrap().iter().map(|(k, t)| (k.clone(), a_type(t))).collect(),
                open: notation["open"] == true,
            },
        },
    }
}

#[test]
fn type_vectors() {
    for case in vectors("type") {
        let text = case["hole"].as_str().unwrap();
        let scan = scan(text);
        let hole = scan.single_hole().unwrap_or_else(|| panic!("{text} is no hole"));
        let found = walk_type(&a_type(&case["base"]), &hole.path.segments)
            .map_err(|(i, why)| (Some(hole.path.segments[i].range.clone()), why))
            .and_then(|ty| {
                hole_type(&ty, case["missing"] == true, &hole.filters).map_err(|fault| (fault.range, fault.message))
            });
        match found {
            Ok(ty) => assert_eq!(ty, a_type(&case["type"]), "{case}"),
            Err((range, message)) => {
                assert!(
                    message.contains(case["error"].as_str().unwrap_or_else(|| panic!("{case}: {message}"))),
                    "{case}: {message}"
                );
                assert_eq!(range.map(|r| &text[r]), case["at"].as_str(), "{case}");
            }
        }
    }
}

fn evaluate(scan: &Scan, x: &Value) -> Result<Value, String> {
    fill(scan, |hole| {
        assert_eq!(hole.path.root.text, "x");
        apply_filters(walk_value(x, &hole.path.segments).cloned(), &hole.filters).map_err(|e| e.to_string())
    })
}

#[test]
fn eval_vectors() {
    for case in vectors("eval") {
        match evaluate(&scan(case["text"].as_str().unwrap()), &case["x"]) {
            Ok(value) => assert_eq!(Some(&value), case.get("value"), "{case}"),
            Err(message) => {
                assert!(
                    message.contains(case["error"].as_str().unwrap_or_else(|| panic!("{case}: {message}"))),
                    "{case}: {message}"
                );
            }
        }
    }
}

/// Every documented filter is tested: a case in eval.json uses it and has a value.
#[test]
fn every_filter_has_an_eval_vector() {
    let cases = vectors("eval");
    for info in FILTERS {
        let uses = |case: &&Value| {
            case.get("value").is_some()
                && scan(case["text"].as_str().unwrap())
                    .holes()
                    .any(|h| h.filters.iter().any(|f| f.name.text == info.name))
        };
        assert!(cases.iter().any(|case| uses(&case)), "no vector shows `{}`", info.name);
    }
}

#[test]
fn the_readme_lists_the_filters() {
    let readme = grammar("README.md");
    let (_, section) = readme.split_once("## Filters").expect("a section `Filters`");
    let section = section.split("\n## ").next().unwrap();
    let rows: Vec<_> = section.lines().filter(|l| l.starts_with("| `")).collect();
    let wanted: Vec<_> =
        FILTERS.iter().map(|f| format!("| `{}` | {} | {} |", f.signature(), f.takes, f.summary)).collect();
    assert_eq!(rows.join("\n"), wanted.join("\n"), "the table should read:\n{}\n", wanted.join("\n"));
    let first = |line: &&str| line.split('`').nth(1).map(|s| s.split('(').next().unwrap().to_owned());
    assert!(rows.iter().filter_map(first).all(|name| filter(&name).is_some()));
}

// --- filters and their types ---

fn values() -> impl Strategy<Value = Value> {
    let number = prop_oneof![
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (-9i64..9).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        (-40i8..40).prop_map(|n| json!(f64::from(n) / 4.0)),
    ];
    let string = prop_oneof![
        "[a-cA-C ,\n<é\"']{0,6}".boxed(),
        proptest::sample::select(vec![
            "42",
            "-1.5",
            "nan",
            "inf",
            "1e999",
            "0x10",
            "+5",
            "170141183460469231731687303715884105728"
        ])
        .prop_map(str::to_owned)
        .boxed(),
    ]
    .prop_map(Value::from);
    let scalar = prop_oneof![Just(Value::Null), any::<bool>().prop_map(Value::from), number.clone(), string.clone()];
    let lists = |of: BoxedStrategy<Value>| proptest::collection::vec(of, 0..4).prop_map(Value::from);
    let nested = scalar.prop_recursive(2, 8, 3, move |inner| {
        prop_oneof![
            lists(inner.clone()),
            proptest::collection::hash_map("[ab]", inner, 0..3).prop_map(|m| Value::Object(m.into_iter().collect())),
        ]
    });
    prop_oneof![3 => nested, 2 => string.clone(), 1 => number.clone(), 2 => lists(string.boxed()), 1 => lists(number.boxed())]
}

/// A filter as scanned, mostly with arguments of the right kinds.
fn filters() -> impl Strategy<Value = Vec<Filter>> {
    fn arg(param: &Param) -> BoxedStrategy<Value> {
        let right = match param.kind {
            ParamKind::Any => values().boxed(),
            ParamKind::Bool => any::<bool>().prop_map(Value::from).boxed(),
            ParamKind::Integer => {
                prop_oneof![-3i64..12, any::<i64>(), Just(1075), Just(-309)].prop_map(Value::from).boxed()
            }
            ParamKind::String => "[a-c, ]{0,2}".prop_map(Value::from).boxed(),
        };
        prop_oneof![20 => right, 1 => values()].boxed()
    }
    let one = proptest::sample::select(FILTERS.iter().collect::<Vec<_>>()).prop_flat_map(|info| {
        let required = info.args.iter().filter(|p| p.required).count();
        (required..=info.args.len()).prop_flat_map(move |count| {
            let args = info.args[..count].iter().map(arg).collect::<Vec<_>>();
            args.prop_map(|args| Filter {
                name: Ident { text: info.name.to_owned(), range: 0..1 },
                args: args.into_iter().map(|value| Literal { value, range: 2..3 }).collect(),
                range: 0..4,
            })
        })
    });
    proptest::collection::vec(one, 1..4)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4096, ..ProptestConfig::default() })]

    /// Every value has a type and conforms to it, whether the type is known exactly or not at all.
    #[test]
    fn values_have_the_inferred_type(value in proptest::option::weighted(0.9, values()), filters in filters()) {
        let known = value.as_ref().map_or(Type::Any, Type::of);
        let missing = value.is_none();
        if let Ok(result) = apply_filters(value, &filters) {
            for base in [known, Type::Any] {
                match hole_type(&base, missing, &filters) {
                    Ok(ty) => prop_assert!(Type::of(&result).fits(&ty), "{} is no {:?}", result, ty),
                    Err(fault) => prop_assert!(false, "gives {} and yet: {}", result, fault.message),
                }
            }
        }
    }
}

/// The figures in `grammar/README.md#what-minijinja-does`.
#[test]
#[ignore = "measures"]
fn performance_of_holes_and_minijinja_expressions() {
    const HOLES: u32 = 100_000;
    let x = json!({ "name": "web", "ports": [80, 443] });
    let context = minijinja::Value::from(minijinja::value::Serde(&json!({ "x": x })));
    let environment = minijinja::Environment::new();
    for expression in ["x.name", "x.ports[1]", "x.name | upper", "x.ports | join(', ')"] {
        let text = format!("{{{expression}}}");
        let begun = std::time::Instant::now();
        for _ in 0..HOLES {
            let found = scan(&text);
            let filled =
                fill(&found, |hole| apply_filters(walk_value(&x, &hole.path.segments).cloned(), &hole.filters));
            std::hint::black_box(filled.unwrap());
        }
        let own = begun.elapsed();
        let begun = std::time::Instant::now();
        for _ in 0..HOLES {
            let value = environment.compile_expression(expression).unwrap().eval(&context).unwrap();
            std::hint::black_box(serde_json::to_value(value).unwrap());
        }
        println!("{expression}: {own:?} beside {:?}", begun.elapsed());
    }
}
