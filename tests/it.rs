//! The invariants of the compiler, over generated files: there is a plan if and only if there is no hard error; what
//! checks, decodes; a plan depends on the content of a file, not on its spelling. (*Executed ⊆ planned* is in
//! tests/run.rs.)

use std::path::PathBuf;

use gevals::{
    Compiled, compile,
    diagnostic::Strength,
    plan::{Plan, wire},
    render::{FORMATS, View},
    source::{MemoryFiles, Sources},
};
use proptest::{collection::vec, prelude::*, sample::Index};
use serde_json::{Value, json};

use crate::support::documents::{document, fault, portable, spoil, steps};

/// Compiles a file in a directory that contains what it may refer to.
fn compiled(text: &str) -> (Compiled, Sources) {
    let (sources, mut files) = (Sources::default(), MemoryFiles::default());
    files.add("/w/x.yaml", text, false);
    files.add("/w/s.sh", "#!/bin/sh\n", true);
    files.add("/w/s/a/SKILL.md", "a", false);
    files.add("/w/agent.yaml", "kind: Agent\ncommands: {runPrompt: x}\n", false);
    files.add("/w/oracle.yaml", "kind: Oracle\ntasks: {t: {output: \"{random.id}\"}}\n", false);
    files.add("/w/mcp.json", "mcpServers: {notes: {command: x}}", false);
    files.add(
        "/w/t.yaml",
        "kind: Task\nmetadata: {name: t, labels: {a: b}}\nsteps: {prompt: {inline: x}, verify: {inline: x}}\n",
        false,
    );
    (compile(&[PathBuf::from("/w/x.yaml")], &sources, &files), sources)
}

/// Returns the plan, if the file is one task without hard errors.
fn plan(text: &str) -> Option<Plan> {
    compiled(text).0.tasks.into_iter().next().flatten().map(|plan| *plan)
}

fn a_plan_iff_no_hard_error(text: &str) -> Result<(), TestCaseError> {
    let (compiled, _) = compiled(text);
    let hard = compiled.diagnostics.iter().find(|d| d.strength == Strength::Hard);
    let mut plans = compiled.tasks.iter().map(Option::is_some).chain(compiled.evals.iter().map(Option::is_some));
    let found: Vec<_> = compiled.diagnostics.iter().map(|d| format!("{}: {}", d.rule.name, d.message)).collect();
    match hard {
        None => prop_assert!(plans.all(|p| p), "no plan, and no hard error, but {found:#?}\n{text}"),
        // With a hard error in an eval, its tasks still have plans.
        Some(_) => {
            prop_assert!(plans.clone().next().is_none() || plans.any(|p| !p), "a plan in spite of {found:#?}\n{text}")
        }
    }
    Ok(())
}

/// Gives every step of the portable dialect an ID, if its body is a mapping.
fn with_ids(mut document: Value) -> Value {
    fn walk(value: &mut Value, next: &mut usize) {
        match value {
            Value::Object(map) => {
                for (key, inner) in map.iter_mut() {
                    let list = ["setup", "verify", "cleanup", "steps", "anyOf"].contains(&key.as_str());
                    for step in inner.as_array_mut().filter(|_| list).into_iter().flatten() {
                        let Some(body) = step.as_object_mut().and_then(|s| s.values_mut().next()?.as_object_mut())
                        else {
                            continue;
                        };
                        *next += 1;
                        body.insert("id".to_owned(), json!(format!("s{next}")));
                    }
                    walk(inner, next);
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|v| walk(v, next)),
            _ => {}
        }
    }
    if document["apiVersion"] == "mcp-eval/v1" {
        walk(&mut document, &mut 0);
    }
    document
}

/// Valid and invalid holes; which ones are valid depends on where they are inserted.
const HOLES: [&str; 26] = [
    "{random.id}",
    "{random.port}",
    "{task.name}",
    "{env.HOME}",
    "{env.X}",
    "{env.N | int}",
    "{env.N | default(3)}",
    "{agent.output}",
    "{stdout}",
    "{exitCode}",
    "{response.json.a[0]}",
    "{response.headers.X-A}",
    "{content[0].text}",
    "{structuredContent}",
    "{isError}",
    "{result.a}",
    "{v1}",
    "{v2.a}",
    "{steps.s1.outputs.o}",
    "{steps.s1.outputs.stdout}",
    "{steps.s2.outputs.o}",
    "{steps.s2.outputs.rounds[0].s3.o}",
    "{steps.s3.outputs.p | tojson}",
    "{steps.s4.outputs.result}",
    "{nope}",
    "{env.X + 1}",
];

/// Replaces a value with a hole, or inserts one into a text.
fn dig(document: &mut Value, at: &Index, hole: &str, whole: bool) {
    fn walk<'v>(value: &'v mut Value, found: &mut Vec<&'v mut Value>) {
        match value {
            Value::Object(map) => map.values_mut().for_each(|v| walk(v, found)),
            Value::Array(items) => items.iter_mut().for_each(|v| walk(v, found)),
            _ => found.push(value),
        }
    }
    let mut found = Vec::new();
    if let Some(spec) = document.get_mut("spec") {
        walk(spec, &mut found);
    }
    if found.is_empty() {
        return;
    }
    let place = at.index(found.len());
    *found[place] = if whole { json!(hole) } else { json!(format!("a {hole} b")) };
}

fn task() -> BoxedStrategy<Value> {
    let hole = (any::<Index>(), prop::sample::select(HOLES.to_vec()), any::<bool>());
    (prop_oneof![4 => portable(), 1 => steps()], vec(hole, 0..4))
        .prop_map(|(document, holes)| {
            let mut document = with_ids(document);
            for (at, hole, whole) in holes {
                dig(&mut document, &at, hole, whole);
            }
            document
        })
        .boxed()
}

fn config() -> ProptestConfig {
    ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_plan_exists_iff_there_is_no_hard_error((_, mut document) in document(), spoilt in vec(fault(), 0..3)) {
        for (at, fault) in spoilt {
            spoil(&mut document, &at, fault);
        }
        a_plan_iff_no_hard_error(&document.to_string())?;
    }

    #[test]
    fn a_plan_exists_iff_all_holes_resolve(document in task()) {
        a_plan_iff_no_hard_error(&document.to_string())?;
    }

    #[test]
    fn broken_texts_are_hard_errors(document in task(), cut in any::<Index>(), put in "[\\]}{:,\"'&*#\\- \na\u{e4}]{0,3}") {
        let mut text = gevals::yaml::write(&document).unwrap();
        let at = cut.index(text.len());
        if text.is_char_boundary(at) {
            text.insert_str(at, &put);
        }
        a_plan_iff_no_hard_error(&text)?;
    }

    #[test]
    fn a_plan_does_not_depend_on_formatting(document in task()) {
        let texts = [
            document.to_string(),
            format!("# a comment\n{document:#}\n"),
            format!("---\n{}\n# the end\n", gevals::yaml::write(&document).unwrap()),
        ];
        let plans = texts.iter().map(|text| plan(text)).collect::<Vec<_>>();
        let Some(first) = &plans[0] else {
            prop_assert!(plans.iter().all(Option::is_none), "{document:#}");
            return Ok(());
        };
        for (plan, text) in plans.iter().zip(&texts) {
            let Some(plan) = plan else { panic!("no plan of\n{text}") };
            prop_assert_eq!(wire::digest(plan), wire::digest(first), "{}", text);
            // The JSON form contains positions, the others do not.
            for format in FORMATS.iter().filter(|f| f.name != "json") {
                let drawn = |plan: &Plan| (format.render)(&[View::new(std::slice::from_ref(plan))]);
                prop_assert_eq!(drawn(plan), drawn(first), "{}\n{}", format.name, text);
            }
        }
    }
}

/// What checks, decodes: with values of the right types in the holes, every step's arguments are accepted by its
/// implementation.
#[cfg(feature = "run")]
mod decoding {
    use gevals::{
        builtin::{self, BUILTINS},
        hir::{Arg, ArgKind, Def, Dialect, OperationKind, Template},
        plan::ActionKind,
        signature::{Format, Shape},
        step::fit,
        ty::Type,
    };
    use serde::de::DeserializeOwned;
    use serde_json::Map;

    use super::*;

    type Decode = fn(Value) -> Result<(), String>;

    fn decode<T: DeserializeOwned>(value: Value) -> Result<(), String> {
        serde_json::from_value::<T>(value).map(drop).map_err(|e| e.to_string())
    }

    /// Returns the decoders for the arguments and the `expect` of a built-in step.
    fn decoders(name: &str, dialect: Dialect) -> Option<(Decode, Decode)> {
        let nothing: Decode = |value| if value.is_null() { Ok(()) } else { Err("no `expect` here".to_owned()) };
        Some(match (name, dialect) {
            ("command", _) => (decode::<builtin::command::Command>, decode::<builtin::command::Expect>),
            ("script", Dialect::Portable) => (decode::<builtin::script::Script>, nothing),
            ("script", _) => (decode::<builtin::steps_script::StepsScript>, nothing),
            ("http", Dialect::Portable) => (decode::<builtin::http::Http>, decode::<builtin::http::Expect>),
            ("http", _) => (decode::<builtin::steps_http::StepsHttp>, decode::<builtin::steps_http::StepsExpect>),
            ("file", _) => (decode::<builtin::file::File>, decode::<builtin::file::Expect>),
            ("llm" | "llmJudge", _) => (decode::<builtin::llm::Judge>, nothing),
            ("foreach", _) => (decode::<builtin::foreach::Foreach>, nothing),
            ("anyOf", _) => (decode::<builtin::any_of::AnyOf>, nothing),
            ("group", _) => (decode::<builtin::group::Group>, nothing),
            ("eventually", _) => (decode::<builtin::eventually::Eventually>, nothing),
            ("consistently", _) => (decode::<builtin::consistently::Consistently>, nothing),
            ("sleep", _) => (decode::<builtin::sleep::Sleep>, nothing),
            ("extension", _) => (decode::<builtin::extension::Extension>, nothing),
            _ => return None,
        })
    }

    #[test]
    fn every_built_in_has_a_decoder_in_this_test() {
        for known in BUILTINS {
            assert!(decoders(known.name, known.dialect).is_some(), "add `{}` to this test", known.name);
        }
    }

    /// Returns a value of the type that fits the shape.
    fn sample(shape: &Shape, ty: &Type) -> Value {
        match (shape, ty) {
            (Shape::OneOf(shapes), _) => {
                let fits = |s: &&Shape| match (s, ty) {
                    (Shape::List { .. }, Type::List(_)) => true,
                    (Shape::List { .. }, _) => false,
                    (s, ty) => ty.fits(&s.ty()),
                };
                let texts = |s: &&Shape| matches!(s, Shape::String { .. });
                let lists = |s: &&Shape| matches!(s, Shape::List { .. });
                let one = shapes
                    .iter()
                    .find(fits)
                    .or_else(|| shapes.iter().find(texts))
                    .or_else(|| shapes.iter().find(lists));
                sample(one.unwrap_or(&Shape::Any), ty)
            }
            (Shape::String { one_of, .. }, _) if !one_of.is_empty() => json!(one_of[0]),
            (Shape::String { format: Some(Format::StatusClass), .. }, _) => json!("2xx"),
            (Shape::String { .. }, Type::Any) => json!("text"),
            (Shape::List { items, .. }, Type::String) => {
                json!(Value::Array(vec![sample(items, &Type::Any)]).to_string())
            }
            (Shape::List { items, .. }, Type::List(ty)) => json!([sample(items, ty)]),
            (Shape::List { items, .. }, _) => json!([sample(items, &Type::Any)]),
            (Shape::Integer { min, .. }, _) => json!(min.unwrap_or(7)),
            (Shape::Number, _) => json!(0.5),
            (Shape::Bool, _) => json!(true),
            (Shape::Null, _) => Value::Null,
            (Shape::Record { fields, .. }, _) => {
                let needed = fields.iter().filter(|(_, f)| f.required);
                needed.map(|(name, f)| (name.clone(), sample(&f.shape, &Type::Any))).collect::<Map<_, _>>().into()
            }
            (Shape::Any | Shape::String { .. }, Type::Number) => json!(1),
            (Shape::Any | Shape::String { .. }, Type::Bool) => json!(false),
            (Shape::Any, Type::List(_)) => json!([]),
            (Shape::Any, Type::Record { .. }) => json!({}),
            (Shape::Any, Type::Null) => Value::Null,
            (Shape::Any | Shape::String { .. }, _) => json!("text"),
        }
    }

    fn fill(arg: &Arg<Def>, shape: &Shape) -> Value {
        let inner = |is: fn(&Shape) -> bool| match shape {
            Shape::OneOf(shapes) => shapes.iter().find(|s| is(s)).unwrap_or(&Shape::Any),
            one => one,
        };
        match &arg.kind {
            ArgKind::Text(text) => fill_text(text, shape),
            ArgKind::List(items) => {
                let of = match inner(|s| matches!(s, Shape::List { .. })) {
                    Shape::List { items, .. } => items,
                    _ => &Shape::Any,
                };
                items.iter().map(|item| fill(item, of)).collect()
            }
            ArgKind::Record(fields) => {
                let record = inner(|s| matches!(s, Shape::Record { .. }));
                fields
                    .iter()
                    .map(|(key, value)| (key.value.clone(), fill(value, field(record, &key.value))))
                    .collect::<Map<_, _>>()
                    .into()
            }
            _ => arg.as_value().unwrap(),
        }
    }

    fn fill_text(text: &Template<Def>, shape: &Shape) -> Value {
        match (text.as_literal(), text.single_hole()) {
            (Some(literal), _) => json!(literal),
            (None, Some(hole)) => sample(shape, &hole.reference.ty),
            (None, None) => sample(shape, &Type::String),
        }
    }

    fn field<'s>(record: &'s Shape, name: &str) -> &'s Shape {
        match record {
            Shape::Record { fields, rest } => {
                fields.get(name).map(|f| &f.shape).or(rest.as_deref()).unwrap_or(&Shape::Any)
            }
            _ => &Shape::Any,
        }
    }

    fn what_checks_decodes(text: &str) -> Result<(), TestCaseError> {
        let Some(plan) = plan(text) else { return Ok(()) };
        let mut faults = Vec::new();
        plan.walk(&mut |_, _, action| {
            let ActionKind::Step(step) = &action.kind else { return };
            let signature = &step.op.signature;
            let (args, expect): (Decode, Decode) = match &step.op.kind {
                OperationKind::Builtin(name) => decoders(name, plan.task.dialect).unwrap(),
                OperationKind::Tool { .. } if plan.task.dialect == Dialect::Portable => {
                    (decode::<builtin::tool::Tool>, decode::<builtin::tool::Expect>)
                }
                OperationKind::Tool { .. } => (decode::<builtin::tool::Tool>, decode::<builtin::tool::StepsExpect>),
                OperationKind::Extension { .. } => return,
            };
            // Unknown keys were reported, and are not passed on.
            let known = step.args.iter().map(|(k, v)| (k.value.clone(), fill(v, field(&signature.params, &k.value))));
            let filled = fit(&signature.params, known.collect::<Map<_, _>>().into());
            if let Err(e) = args(filled.clone()) {
                faults.push(format!("{}: {e}: {filled}", action.id));
            }
            if let (Some(demand), Some(shape)) = (&step.expect, &signature.expect) {
                let filled = fit(shape, fill(demand, shape));
                if let Err(e) = expect(filled.clone()) {
                    faults.push(format!("{}: expect: {e}: {filled}", action.id));
                }
            }
        });
        prop_assert!(faults.is_empty(), "{faults:#?}\n{text}");
        Ok(())
    }

    proptest! {
        #![proptest_config(config())]

        #[test]
        fn checked_steps_decode_despite_faults(mut document in task(), spoilt in vec(fault(), 0..3)) {
            for (at, fault) in spoilt {
                spoil(&mut document, &at, fault);
            }
            super::decoding::what_checks_decodes(&document.to_string())?;
        }
    }
}
