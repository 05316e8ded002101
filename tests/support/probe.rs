//! Tables of situations: for each row, a task, the findings of `check`, and the verdict of `run`. Used by `verdicts.rs`
//! and `parity.rs`.
//!
//! A page has sections. A section contains the files of an eval, of which `task.yaml` is one task per row of its
//! tables, with the words of the header replaced by the cells, and `NAME` by a unique name. If there are several
//! tables, each row of one is combined with each row of the others, and the words are replaced table by table. The
//! column `verdict` is the verdict of `run` (`passed`, `failed`, `broken`, `unchecked`), followed, after a comma, by
//! exactly the errors that `check` must report. `refused` is a task that `check` refuses, and that never passes.
//! `HTTP/N` answers a request with its own body and the status N.
//!
//! `set.yaml` is added to the task set, and `oracle.yaml` to the tasks of an oracle, also once per row. A row whose
//! words occur in `eval.yaml`, or whose section has `alone`, has its own eval, in a directory `NAME` with all files.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::{LazyLock, Mutex},
};

use axum::{Router, extract::Path as Segment, http::StatusCode, routing::any};
use gevals::{diagnostic::Strength, host::disk::Disk, source::Sources};

use crate::support::{page::Page, world::World};

/// Tests all sections of some pages, two at a time. Returns the number of rows, and the deviations.
pub fn probe_all(sections: &[Section]) -> (usize, Vec<String>) {
    let (next, faults) = (Mutex::new(sections.iter()), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let Some(section) = next.lock().unwrap().next() else { return };
                    let found = probe(section);
                    faults.lock().unwrap().extend(found);
                }
            });
        }
    });
    (sections.iter().map(|section| section.rows.len()).sum(), faults.into_inner().unwrap())
}

/// Returns the sections of some pages.
pub fn all_sections(pages: &[Page]) -> Vec<Section> {
    pages.iter().flat_map(|page| sections(&page.text)).collect()
}

/// Files, and the rows of the table, each with the words of the header.
pub struct Section {
    pub name: String,
    pub files: BTreeMap<String, String>,
    pub rows: Vec<Vec<(String, String)>>,
}

fn sections(text: &str) -> Vec<Section> {
    let mut common: BTreeMap<String, String> = BTreeMap::new();
    let mut found: Vec<Section> = Vec::new();
    let mut tables: Vec<Vec<Vec<String>>> = Vec::new();
    let mut lines = text.lines().peekable();
    let mut in_table = false;
    let close = |found: &mut Vec<Section>, tables: &mut Vec<Vec<Vec<String>>>| {
        if let Some(section) = found.last_mut() {
            section.rows = product(&std::mem::take(tables));
            assert!(!section.rows.is_empty(), "{} has no table", section.name);
        }
    };
    while let Some(line) = lines.next() {
        if let Some(name) = line.strip_prefix("## ") {
            close(&mut found, &mut tables);
            found.push(Section { name: name.to_owned(), files: common.clone(), rows: Vec::new() });
        } else if let Some(info) = line.strip_prefix("```") {
            let body: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
            let path = info.split_once(' ').map_or("task.yaml", |(_, path)| path).to_owned();
            found.last_mut().map_or(&mut common, |s| &mut s.files).insert(path, body.join("\n") + "\n");
        } else if line.starts_with('|') {
            let cells = line.replace("\\|", "\u{1}");
            let cells = cells.trim().trim_matches('|').split('|');
            let cells = cells.map(|cell| cell.trim().trim_matches('`').replace('\u{1}', "|")).collect();
            match tables.last_mut().filter(|_| in_table) {
                Some(table) => table.push(cells),
                None => tables.push(vec![cells]),
            }
            in_table = true;
            continue;
        }
        in_table = false;
    }
    close(&mut found, &mut tables);
    found
}

/// Combines each row of one table with each row of the others.
fn product(tables: &[Vec<Vec<String>>]) -> Vec<Vec<(String, String)>> {
    let mut all: Vec<Vec<(String, String)>> = vec![Vec::new()];
    for table in tables {
        let [head, _, rows @ ..] = table.as_slice() else { panic!("{table:?} is no table") };
        let mut next = Vec::new();
        for before in &all {
            for row in rows {
                assert_eq!(row.len(), head.len(), "{row:?}");
                next.push(before.iter().cloned().chain(head.iter().cloned().zip(row.iter().cloned())).collect());
            }
        }
        all = next;
    }
    all.retain(|row| !row.is_empty());
    all
}

/// A row with its words filled in.
struct Case {
    name: String,
    verdict: String,
    rules: BTreeSet<String>,
    /// Whether it has its own eval.
    alone: bool,
    /// Whether all its errors are verdict errors, which do not prevent a plan.
    fooling: bool,
}

impl Case {
    fn folder(&self) -> String {
        if self.alone { format!("{}/", self.name) } else { String::new() }
    }
}

/// Columns that specify the expected result, and are not words in the files.
const ABOUT: [&str; 3] = ["verdict", "upstream", "why"];

fn probe(section: &Section) -> Vec<String> {
    let world = World::new(&[]);
    let filled = |text: &str, row: &[(String, String)], name: &str| {
        let mut text = text.to_owned();
        for (word, cell) in row.iter().filter(|(word, _)| !ABOUT.contains(&word.as_str())) {
            text = text.replace(word, cell);
        }
        text.replace("NAME", name).replace("HTTP", &HTTP)
    };
    let of_rows = ["task.yaml", "set.yaml", "oracle.yaml"];
    let head = section.files.get("eval.yaml").map_or(EVAL, String::as_str);
    let words = section.rows.iter().flatten().map(|(word, _)| word).filter(|word| !ABOUT.contains(&word.as_str()));
    let words: BTreeSet<&String> = words.collect();
    let others = section.files.iter().filter(|(path, _)| !of_rows.contains(&path.as_str()));
    let alone = section.name.ends_with("(alone)")
        || others.clone().any(|(_, text)| words.iter().any(|word| text.contains(word.as_str())));
    for (path, text) in others.clone().filter(|(path, _)| !alone && *path != "eval.yaml") {
        world.write(path, &text.replace("HTTP", &HTTP));
    }
    let mut cases = Vec::new();
    let mut sets: BTreeMap<String, String> = BTreeMap::new();
    let mut oracle = String::new();
    for (i, row) in section.rows.iter().enumerate() {
        let name = format!("r{i}");
        let of = |word: &str| row.iter().find(|(w, _)| w == word).map_or("", |(_, cell)| cell.as_str());
        let mut words = of("verdict").split(',').map(|word| word.trim().to_owned());
        let (verdict, rules) = (words.next().unwrap(), words.collect::<BTreeSet<_>>());
        // Errors of an eval are distinguished by its file.
        let alone = alone || section.files.contains_key("set.yaml") && !rules.is_empty();
        let case = Case { name: name.clone(), verdict, rules, alone, fooling: false };
        let folder = case.folder();
        world.write(&format!("{folder}tasks/{name}.yaml"), &filled(&section.files["task.yaml"], row, &name));
        let more = section.files.get("set.yaml").map_or(String::new(), |text| filled(text, row, &name));
        let more: String = more.lines().map(|line| format!("      {line}\n")).collect();
        let set = format!("    - path: tasks/{name}.yaml\n{more}");
        let entry = section.files.get("oracle.yaml").map_or(String::new(), |text| filled(text, row, &name));
        let entry: String = entry.lines().map(|line| format!("  {line}\n")).collect();
        if case.alone {
            for (path, text) in others.clone() {
                world.write(&format!("{folder}{path}"), &filled(text, row, &name));
            }
            let head = filled(head, row, &name).replace("metadata: {name: e}", &format!("metadata: {{name: {name}}}"));
            let sets = if head.contains("taskSets") { String::new() } else { format!("  taskSets:\n{set}") };
            world.write(&format!("{folder}eval.yaml"), &(head + &sets));
            world.write(&format!("{folder}oracle.yaml"), &format!("kind: Oracle\ntasks:\n{entry}"));
        } else {
            oracle += &entry;
            sets.insert(name, set);
        }
        cases.push(case);
    }
    if section.files.contains_key("oracle.yaml") {
        world.write("oracle.yaml", &format!("kind: Oracle\ntasks:\n{oracle}"));
    }
    let eval = |names: &mut dyn Iterator<Item = &String>| {
        let sets: String = names.filter_map(|name| sets.get(name)).cloned().collect();
        world.write("eval.yaml", &format!("{head}  taskSets:\n{sets}"));
    };
    let told = |name: &str, what: String| {
        let row = &section.rows[name[1..].parse::<usize>().unwrap()];
        let cells: Vec<_> = row.iter().map(|(word, cell)| format!("{word} = {cell}")).collect();
        format!("{}: {}\n    {what}\n", section.name, cells.join("; "))
    };
    let mut faults = Vec::new();

    // The findings of `check` for each row.
    let joint: Vec<usize> = (0..cases.len()).filter(|at| !cases[*at].alone).collect();
    if !joint.is_empty() {
        eval(&mut joint.iter().map(|at| &cases[*at].name));
        let sources = Sources::default();
        let compiled = gevals::compile(&[world.path("eval.yaml")], &sources, &Disk);
        let errors: Vec<_> = compiled.diagnostics.iter().filter(|d| d.strength.is_error()).collect();
        for at in joint {
            let path: PathBuf = world.path(&format!("tasks/{}.yaml", cases[at].name));
            let of_it = || errors.iter().filter(|d| sources.get(d.span.file).path() == path);
            let found: BTreeSet<_> = of_it().map(|d| d.rule.name.to_owned()).collect();
            cases[at].fooling = of_it().all(|d| d.strength == Strength::Verdict);
            if found != cases[at].rules {
                faults.push(told(&cases[at].name, format!("check says {found:?}")));
            }
        }
        for other in errors.iter().filter(|d| !sources.get(d.span.file).path().starts_with(world.path("tasks"))) {
            faults.push(format!("{}: {}", section.name, other.message));
        }
    }
    for case in cases.iter_mut().filter(|case| case.alone) {
        let sources = Sources::default();
        let compiled = gevals::compile(&[world.path(&format!("{}/eval.yaml", case.name))], &sources, &Disk);
        let errors = || compiled.diagnostics.iter().filter(|d| d.strength.is_error());
        let found: BTreeSet<_> = errors().map(|d| d.rule.name.to_owned()).collect();
        case.fooling = errors().all(|d| d.strength == Strength::Verdict);
        if found != case.rules {
            faults.push(told(&case.name, format!("check says {found:?}")));
        }
    }

    // The verdicts of `run`. Without a plan, there is no run.
    let (refused, runs): (Vec<_>, Vec<_>) = cases.iter().partition(|case| case.verdict == "refused");
    for case in refused.iter().filter(|case| case.alone && case.fooling) {
        let ran = world.run(&["run", &format!("{}/eval.yaml", case.name)]);
        if ran.code == Some(0) {
            faults.push(told(&case.name, format!("refused, and green: {}", ran.out)));
        }
    }
    for (cases, refused) in [(runs, false), (refused, true)] {
        let joint: Vec<_> = cases.iter().filter(|case| !case.alone && (!refused || case.fooling)).collect();
        if !joint.is_empty() {
            eval(&mut joint.iter().map(|case| &case.name));
            let _ = std::fs::remove_file(world.path("gevals-e-out.json"));
            let ran = world.run(&["run", "eval.yaml", "--keep-going", "-p", "4"]);
            let there = world.path("gevals-e-out.json").exists();
            if !refused && (!there || ran.code.is_none_or(|code| code > 1)) {
                faults.push(format!("{}: exit {:?}\n{}{}", section.name, ran.code, ran.out, ran.err));
                continue;
            }
            let results = if there { world.results("e") } else { serde_json::Value::Null };
            for case in joint {
                let result = results["results"].as_array().into_iter().flatten();
                let result = result.into_iter().find(|result| result["taskName"] == case.name.as_str());
                let came = result.map_or("nothing", |result| result["outcome"].as_str().unwrap());
                let as_it_must = if refused { came != "passed" } else { came == case.verdict };
                if !as_it_must {
                    let why = result.map_or(&serde_json::Value::Null, |r| &r["reason"]);
                    faults.push(told(&case.name, format!("{came}: {why}")));
                }
            }
        }
        for case in cases.iter().filter(|case| case.alone && !refused) {
            let ran = world.run(&["run", &format!("{}/eval.yaml", case.name)]);
            let results = world.path(&format!("gevals-{}-out.json", case.name)).exists();
            let results = if results { world.results(&case.name) } else { serde_json::Value::Null };
            let of_it = |result: &&serde_json::Value| result["taskName"] == case.name.as_str();
            let result = results["results"].as_array().and_then(|results| results.iter().find(of_it));
            let came = result.map_or("nothing", |result| result["outcome"].as_str().unwrap());
            if came != case.verdict {
                let why = result.map_or(format!("{}{}", ran.out, ran.err), |r| r["reason"].to_string());
                faults.push(told(&case.name, format!("{came}, exit {:?}: {why}", ran.code)));
            }
        }
    }
    faults
}

const EVAL: &str = "kind: Eval\nmetadata: {name: e}\nconfig:\n  agent: {type: builtin.noop}\n";

/// The server for `http` steps.
static HTTP: LazyLock<String> = LazyLock::new(|| {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let echo = |Segment(status): Segment<u16>, body: String| async move {
                (StatusCode::from_u16(status).unwrap(), body)
            };
            let router = Router::new().route("/{status}", any(echo));
            axum::serve(tokio::net::TcpListener::from_std(listener).unwrap(), router).await.unwrap();
        });
    });
    format!("http://{address}")
});
