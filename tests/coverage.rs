//! `tests/coverage.md`: every known mistake is reported by the rule that the table names, or is outside the scope of
//! `check`.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use gevals::{
    compile, lint,
    source::{MemoryFiles, Sources},
};

struct Row {
    id: String,
    rule: Option<String>,
    fixture: Option<String>,
    remark: String,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn rows() -> Vec<Row> {
    let text = fs::read_to_string(root().join("tests/coverage.md")).unwrap();
    let lines = text.lines().filter(|l| l.starts_with("| ") && !l.starts_with("| |"));
    let code = |cell: &str| cell.strip_prefix('`').and_then(|c| c.strip_suffix('`')).map(str::to_owned);
    lines
        .map(|line| {
            let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
            let [id, _, rule, fixture, remark @ ..] = cells.as_slice() else { panic!("{line}") };
            Row { id: (*id).to_owned(), rule: code(rule), fixture: code(fixture), remark: remark.join(" ") }
        })
        .collect()
}

/// Returns the files of a fixture, and what is named on the command line: the directory, or the file.
fn load(path: &Path) -> (MemoryFiles, PathBuf) {
    fn add(files: &mut MemoryFiles, base: &Path, path: &Path) {
        if path.is_dir() {
            for entry in fs::read_dir(path).unwrap() {
                add(files, base, &entry.unwrap().path());
            }
            return;
        }
        let executable = fs::metadata(path).unwrap().permissions().mode() & 0o111 != 0;
        files.add(path.strip_prefix(base).unwrap(), fs::read(path).unwrap(), executable);
    }
    let mut files = MemoryFiles::default();
    let base = if path.is_dir() { path } else { path.parent().unwrap() };
    add(&mut files, base, path);
    let named = match path.is_dir() {
        true => PathBuf::from("."),
        false => path.strip_prefix(base).unwrap().to_owned(),
    };
    (files, named)
}

#[test]
fn every_known_mistake_is_reported() {
    let mut faults = Vec::new();
    let mut used = BTreeSet::new();
    for row in rows() {
        let (Some(rule), Some(fixture)) = (&row.rule, &row.fixture) else {
            if row.rule.is_some() || row.fixture.is_some() || row.remark.len() < 20 {
                faults.push(format!("{}: neither a rule with a fixture nor a reason", row.id));
            }
            continue;
        };
        used.insert(fixture.trim_end_matches('/').to_owned());
        if lint::rule(rule).is_none() {
            faults.push(format!("{}: there is no rule `{rule}`", row.id));
            continue;
        }
        let (files, named) = load(&root().join("tests/fixtures/coverage").join(fixture));
        let compiled = compile(&[named], &Sources::default(), &files);
        if !compiled.diagnostics.iter().any(|d| d.rule.name == rule) {
            let found: Vec<_> =
                compiled.diagnostics.iter().map(|d| format!("{}: {}", d.rule.name, d.message)).collect();
            faults.push(format!("{}: `{rule}` does not fire; found: {found:#?}", row.id));
        }
    }
    let there = fs::read_dir(root().join("tests/fixtures/coverage")).unwrap();
    let there = there.map(|e| e.unwrap().file_name().to_string_lossy().into_owned());
    faults.extend(there.filter(|f| !used.contains(f)).map(|f| format!("no row names the fixture {f}")));
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn the_list_of_mistakes_is_complete() {
    let ids: BTreeSet<String> = rows().into_iter().map(|r| r.id).collect();
    let lists = [("A", 21), ("B", 35), ("C", 11), ("D", 14), ("E", 11), ("M", 39)];
    let missing: Vec<_> = lists
        .into_iter()
        .flat_map(|(letter, count)| (1..=count).map(move |n| format!("{letter}{n}")))
        .filter(|id| !ids.contains(id))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}
