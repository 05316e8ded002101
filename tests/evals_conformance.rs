//! `gevals evals conformance` with a correct server, the shim, and servers that each violate one requirement.
#![cfg(all(feature = "run", target_os = "linux"))]

use std::{
    io::{BufRead, BufReader},
    process::Stdio,
};

use serde_json::Value;

use crate::support::world::{Ran, World, gevals};

/// Each fault of the server, and the requirement that it violates.
const WRONG: [(&str, &str); 44] = [
    ("none-on-top", "E1"),
    ("capability-true", "E2"),
    ("list-changed-word", "E2"),
    ("list-refused", "E3"),
    ("needs-params", "E4"),
    ("items", "E5"),
    ("bare-list", "E5"),
    ("cursor-null", "E6"),
    ("cursor-circle", "E7"),
    ("cursor-refused", "E7"),
    ("page-overlap", "E8"),
    ("any-cursor", "E9"),
    ("cursor-other-code", "E9"),
    ("cursor-once", "E10"),
    ("level-ignored", "E11"),
    ("level-lacks", "E12"),
    ("any-level", "E13"),
    ("id-empty", "E14"),
    ("id-number", "E14"),
    ("id-twice", "E15"),
    ("ids-drawn", "E16"),
    ("ids-new", "E16"),
    ("no-name", "E17"),
    ("description-list", "E18"),
    ("grading-unknown", "E19"),
    ("level-unknown", "E20"),
    ("types-differ", "E21"),
    ("scenario-exact", "E22"),
    ("no-messages", "E23"),
    ("messages-empty", "E23"),
    ("role-system", "E24"),
    ("content-text", "E25"),
    ("block-half", "E25"),
    ("no-tool", "E26"),
    ("no-arguments", "E27"),
    ("turns-zero", "E28"),
    ("turns-half", "E28"),
    ("expected-arguments-list", "E29"),
    ("no-rubric", "E30"),
    ("notifies-undeclared", "E31"),
    ("tools-gone", "E38"),
    ("any-method", "E39"),
    ("method-other-code", "E39"),
    ("discover-silent", "E40"),
];

/// Faults that violate a recommendation, and one of the other protocol era.
const MORE: [(&str, &str); 6] = [
    ("own-level", "E33"),
    ("expects-nothing", "E34"),
    ("tool-unknown", "E35"),
    ("destroys-unsaid", "E36"),
    ("secret", "E37"),
    ("late-empty", "E41"),
];

fn server() -> String {
    concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/evals/server.py").to_owned()
}

fn tried(world: &World, args: &[&str], wrong: &str) -> Ran {
    let server = server();
    world.run(&[&["evals", "conformance"], args, &["--", "python3", &server, wrong]].concat())
}

fn failed(ran: &Ran) -> Vec<(String, String)> {
    let list: Vec<Value> = serde_json::from_str(&ran.out).unwrap_or_else(|e| panic!("{e}: {}{}", ran.out, ran.err));
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    list.iter().filter(|r| r["outcome"] == "failed").map(|r| (text(&r["id"]), text(&r["demand"]))).collect()
}

#[test]
fn each_faulty_server_violates_exactly_one_requirement() {
    let world = World::new(&[]);
    let cases: Vec<_> = WRONG.iter().chain(&MORE).collect();
    let faults: Vec<String> = std::thread::scope(|scope| {
        let halves = cases.chunks(cases.len().div_ceil(4)).map(|cases| {
            scope.spawn(|| {
                // The output goes through files in the world.
                let world = World::new(&[]);
                let found = cases.iter().filter_map(|(wrong, id)| {
                    let ran = tried(&world, &["--format", "json", "--strict"], wrong);
                    let ids: Vec<String> = failed(&ran).into_iter().map(|(id, _)| id).collect();
                    (ids != [*id] || ran.code != Some(1))
                        .then(|| format!("{wrong}: {ids:?} and status {:?}, not {id}\n{}", ran.code, ran.out))
                });
                found.collect::<Vec<_>>()
            })
        });
        halves.collect::<Vec<_>>().into_iter().flat_map(|half| half.join().unwrap()).collect()
    });
    assert_eq!(faults, Vec::<String>::new(), "{}", faults.join("\n"));
    // Without --strict, a recommendation is not a requirement.
    for (wrong, id) in &MORE[..5] {
        tried(&world, &[], wrong).expect(0, &[&format!("warn {id}"), "1 recommendation is not followed"]);
    }
    // Every requirement but one is violated by one of these servers; that one cannot be violated by a server that
    // answers line by line.
    let listed = world.run(&["evals", "conformance", "--list"]).expect(0, &["E1   MUST   the server declares `evals`"]);
    let ids: Vec<&str> = listed.out.lines().map(|line| line.split_whitespace().next().unwrap()).collect();
    let broken = |id: &&str| cases.iter().any(|(_, of)| of == id);
    assert_eq!(ids.iter().filter(|id| !broken(id)).copied().collect::<Vec<_>>(), ["E32"]);
}

#[test]
fn a_correct_server_meets_all_requirements() {
    let world = World::new(&[]);
    let ran = tried(&world, &["--strict"], "").expect(0, &["ok   E1 ", "ok   E41", "all tested requirements are met"]);
    assert_eq!(ran.out.matches("ok   E").count(), 41, "{}", ran.out);
    tried(&world, &[], "one-page").expect(
        0,
        &["-    E10  a cursor is stable: using it again returns the same page (not tested: there is only one page)"],
    );
    tried(&world, &[], "one-era").expect(0, &["-    E41 ", "with a handshake only"]);
    tried(&world, &[], "no-evals").expect(2, &["the server `fixture` ships no evals"]);
    world.run(&["evals", "conformance", "--", "true"]).expect(3, &["exited with status 0"]);
    assert_eq!(world.survivors(), Vec::<String>::new());
}

#[test]
fn expected_failures_are_accepted_and_stale_ones_are_reported() {
    let world = World::new(&[("known.txt", "E17 # issue 3\n"), ("bad.txt", "E99\n"), ("soft.txt", "E33\n")]);
    let known = ["--expected-failures", "known.txt"];
    tried(&world, &known, "no-name").expect(0, &["xno  E17", "are met, except those expected to fail"]);
    tried(&world, &known, "").expect(1, &["no   E17", "remove it from the expected failures"]);
    tried(&world, &known, "no-rubric")
        .expect(1, &["no   E17", "no   E30", "1 requirement is not met; 1 requirement is met unexpectedly"]);
    tried(&world, &["--expected-failures", "soft.txt", "--strict"], "own-level").expect(0, &["xno  E33"]);
    tried(&world, &["--expected-failures", "bad.txt"], "")
        .expect(2, &["`bad.txt`, line 1: `E99` is not a requirement"]);
    tried(&world, &["--expected-failures", "none.txt"], "").expect(2, &["cannot read `none.txt`"]);
    let ran = tried(&world, &["--format", "junit"], "no-name").expect(1, &["<failure", "E17 `name` is a string"]);
    let report = quick_junit::Report::deserialize_from_str(&ran.out).unwrap();
    assert_eq!((report.test_suites[0].tests, report.test_suites[0].failures), (41, 1));
    assert_eq!(report.test_suites[0].name.as_str(), "fixture");
}

#[test]
fn the_shim_meets_all_requirements_over_stdio_and_http() {
    let evals = include_str!("../docs/evals.md").split("```yaml\n").nth(1).unwrap().split("```").next().unwrap();
    assert!(evals.starts_with("kind: McpEvals"));
    let world = World::new(&[("evals.yaml", evals)]);
    let own = gevals().into_string().unwrap();
    let shim = ["evals", "serve", "evals.yaml", "--page-size", "1"];
    let behind = ["--", own.as_str(), "demo-server", "--dir", "notes"];
    let words = [&["evals", "conformance", "--strict", "--", own.as_str()], &shim[..], &behind].concat();
    let ran = world.run(&words).expect(0, &["all tested requirements are met\n", "ok   E10", "ok   E32"]);
    println!("{}", ran.out);
    let served = [&shim[..], &["--http", "127.0.0.1:0"], &behind].concat();
    let mut process = world.command(&served).stderr(Stdio::piped()).stdin(Stdio::null()).spawn().unwrap();
    let mut said = BufReader::new(process.stderr.take().unwrap()).lines();
    let url = said.next().unwrap().unwrap().split_once(" is listening on ").unwrap().1.to_owned();
    let ran = world.run(&["evals", "conformance", "--strict", &url]);
    process.kill().unwrap();
    process.wait().unwrap();
    let ran = ran.expect(0, &["all tested requirements are met\n", "ok   E10", "ok   E32"]);
    println!("{}", ran.out);
}
