//! What verdict must come of which situation: the pages in `verdicts/`, grouped by invariant (issue *A verdict that cannot be
//! hollow*). A green that means nothing and a red that is none are faults of equal weight.
//!
//! A page has sections. A section has the files of an eval, of which `task.yaml` is one task for each row of its tables, with
//! the words of the header replaced by the cells and `NAME` by a name of its own. Where there are several tables, each row of
//! one goes with each row of the others, and the words are replaced table by table. The last column, `verdict`, is what `run` must say of the task (`passed`, `failed`,
//! `broken`, `unchecked`) and, behind a comma, the errors that `check` must report of it: these and no others. `refused` is a
//! task that `run` does not run for them. `HTTP/N` answers a request with its own body and the status N.
#![cfg(all(feature = "run", target_os = "linux"))]
#![expect(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test looks at the world from outside")]

#[path = "support/page.rs"]
#[expect(dead_code, reason = "shared with other tests")]
mod page;
#[path = "support/world.rs"]
#[expect(dead_code, reason = "shared with other tests")]
mod world;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::{LazyLock, Mutex},
};

use axum::{Router, extract::Path as Segment, http::StatusCode, routing::any};
use gevals::{host::disk::Disk, source::Sources};
use page::pages;
use world::World;

/// At least so many situations.
const SITUATIONS: usize = 400;

#[test]
fn situations_get_the_verdict_that_they_must() {
    let pages = pages(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/verdicts"));
    let sections: Vec<Section> = pages.iter().flat_map(|page| sections(&page.text)).collect();
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
    let faults = faults.into_inner().unwrap();
    let all: usize = sections.iter().map(|section| section.rows.len()).sum();
    eprintln!("{all} situations");
    assert!(faults.is_empty(), "{} of {all} situations\n\n{}", faults.len(), faults.join("\n"));
    assert!(all >= SITUATIONS, "only {all} situations");
}

/// Files, and the rows of the table, each by the words of the header.
struct Section {
    name: String,
    files: BTreeMap<String, String>,
    rows: Vec<Vec<(String, String)>>,
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

/// Each row of one table with each row of the others.
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

fn probe(section: &Section) -> Vec<String> {
    let world = World::new(&[]);
    for (path, text) in section.files.iter().filter(|(path, _)| *path != "task.yaml") {
        world.write(path, text);
    }
    let task = &section.files["task.yaml"];
    let mut expected = Vec::new();
    for (i, row) in section.rows.iter().enumerate() {
        let name = format!("r{i}");
        let (mut text, mut verdict) = (task.clone(), String::new());
        for (word, cell) in row {
            match word.as_str() {
                "verdict" => verdict.clone_from(cell),
                word => text = text.replace(word, cell),
            }
        }
        world.write(&format!("tasks/{name}.yaml"), &text.replace("NAME", &name).replace("HTTP", &HTTP));
        let mut words = verdict.split(',').map(|word| word.trim().to_owned());
        expected.push((name, words.next().unwrap(), words.collect::<BTreeSet<_>>()));
    }
    let eval = |names: &mut dyn Iterator<Item = &String>| {
        let sets: String = names.map(|name| format!("    - {{path: tasks/{name}.yaml}}\n")).collect();
        let head = section.files.get("eval.yaml").cloned().unwrap_or_else(|| EVAL.to_owned());
        world.write("eval.yaml", &format!("{head}  taskSets:\n{sets}"));
    };
    let told = |name: &str, what: String| {
        let row = &section.rows[name[1..].parse::<usize>().unwrap()];
        let cells: Vec<_> = row.iter().map(|(word, cell)| format!("{word} = {cell}")).collect();
        format!("{}: {}\n    {what}\n", section.name, cells.join("; "))
    };
    let mut faults = Vec::new();

    // What `check` says of each.
    eval(&mut expected.iter().map(|(name, ..)| name));
    let sources = Sources::default();
    let compiled = gevals::compile(&[world.path("eval.yaml")], &sources, &Disk);
    for (name, _, rules) in &expected {
        let path: PathBuf = world.path(&format!("tasks/{name}.yaml"));
        let errors = compiled.diagnostics.iter().filter(|d| d.strength.is_error());
        let of_it = errors.filter(|d| sources.get(d.span.file).path() == path);
        let found: BTreeSet<_> = of_it.map(|d| d.rule.name.to_owned()).collect();
        if found != *rules {
            faults.push(told(name, format!("check says {found:?}")));
        }
    }

    // What `run` makes of them.
    let runs: Vec<_> = expected.iter().filter(|(_, verdict, _)| verdict != "refused").collect();
    if runs.is_empty() {
        return faults;
    }
    eval(&mut runs.iter().map(|(name, ..)| name));
    let ran = world.run(&["run", "eval.yaml", "--keep-going", "-p", "4"]);
    if ran.code.is_none_or(|code| code > 1) {
        faults.push(format!("{}: exit {:?}\n{}{}", section.name, ran.code, ran.out, ran.err));
        return faults;
    }
    let results = world.results("e");
    for (name, verdict, _) in runs {
        let result = results["results"].as_array().unwrap().iter().find(|result| result["taskName"] == name.as_str());
        let came = result.map_or("nothing", |result| result["outcome"].as_str().unwrap());
        if came != verdict {
            faults.push(told(name, format!("{came}: {}", result.map_or(&serde_json::Value::Null, |r| &r["reason"]))));
        }
    }
    faults
}

const EVAL: &str = "kind: Eval\nmetadata: {name: e}\nconfig:\n  agent: {type: builtin.noop}\n";

/// What `http` steps talk to.
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
