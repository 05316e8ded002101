//! What src/README.md states about the sources is true: its layers, its edge, and the files and names in its
//! walkthroughs. Also, links in documents lead to files, and the words are plain.
//!
//! The tests read tokens, not the syntax tree: comments, literals and `#[cfg(test)]` items are left out; names made by
//! macros are not seen.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    sync::LazyLock,
};

use regex::Regex;

/// Modules at the root of the crate that are not layers.
const ROOTS: [&str; 2] = ["lib", "main"];

#[test]
fn a_module_uses_only_earlier_layers() {
    let layers = layers();
    let mut faults = Vec::new();
    for (file, module) in sources() {
        let Some(own) = layers.get(&module) else {
            faults.push(format!("{}: `{module}` is in no layer of src/README.md", file.display()));
            continue;
        };
        for used in used(&file) {
            let earlier = layers.get(&used).is_none_or(|line| line < own);
            if used != module && !earlier {
                faults.push(format!("{}: `{module}` uses `{used}`, which is not on an earlier line", file.display()));
            }
        }
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn only_the_edge_uses_the_outside_world() {
    let edge: BTreeSet<_> = block("edge").split_whitespace().map(str::to_string).collect();
    let mut faults = Vec::new();
    for (file, _) in sources().into_iter().filter(|(_, module)| !edge.contains(module)) {
        let tokens = tokens(&fs::read_to_string(&file).unwrap());
        let named = paths(&tokens, "std");
        for name in named.iter().filter(|n| ["fs", "env", "net", "process"].contains(&n.as_str())) {
            faults.push(format!("{}: `std::{name}` in the core", file.display()));
        }
    }
    // The list in `.clippy.toml` applies to all of the core. In the edge, clippy reports an expectation that nothing fulfils.
    let core = sources().into_iter().filter(|(_, module)| !edge.contains(module)).map(|(file, _)| file);
    for file in core.chain([root().join("src/lib.rs")]) {
        let lints = paths(&tokens(&fs::read_to_string(&file).unwrap()), "clippy");
        if ["disallowed_methods", "style", "all"].iter().any(|lint| lints.contains(*lint)) {
            faults.push(format!("{}: clippy accepts IO in the core", file.display()));
        }
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn the_source_reader_finds_all_paths() {
    let text = r##"
        //! crate::comment
        use crate::{a::{x, y}, b, c::{self, d}};
        /* crate::comment /* nested */ */
        fn f<'a>(s: &'a str) -> crate::e::E { let _ = ("crate::literal", r#"crate::"raw" "#, 'x', '\'', b"\""); }
        use super::g;
        mod inner { use super::super::h; use super::not_it; }
        #[cfg(test)]
        mod tests { use crate::only_in_tests; fn f() { {} } }
        use crate::i;
        use std::{fmt, fs::File};
    "##;
    let tokens = tokens(text);
    let mut found = paths(&tokens, "crate");
    found.extend(supers(&tokens, 1));
    assert_eq!(found.into_iter().collect::<Vec<_>>(), ["a", "b", "c", "e", "g", "h", "i"]);
    assert_eq!(paths(&tokens, "std").into_iter().collect::<Vec<_>>(), ["fmt", "fs"]);
}

/// Files of one module may not depend on each other cyclically. A file may list, export and call the files in its own
/// directory (`lint.rs` and `lint/…`), and these may use its items: that is not a cycle. A name that a file re-exports
/// from a file below it belongs to the latter.
#[test]
fn files_do_not_depend_on_each_other_cyclically() {
    assert_eq!(circles(&texts()), Vec::<Vec<String>>::new(), "circles of files");
}

#[test]
fn a_cycle_of_files_is_detected() {
    let texts = |one: &str, two: &str, parent: &str| -> Vec<(Vec<String>, String)> {
        [("a", parent), ("a::one", one), ("a::two", two)]
            .map(|(path, text)| (path.split("::").map(str::to_string).collect(), text.to_string()))
            .into()
    };
    let circle = [["a::one".to_string(), "a::two".to_string()]];
    let parent = "mod one; mod two; pub use one::One; use two::{self, Two};";
    for (one, two) in [
        ("use super::two::f;", "use super::one::f;"),
        ("use super::{x, two::{f, g}};", "fn f() { crate::a::one::g() }"),
        ("use super::Two;", "use crate::a::{One as Other};"),
    ] {
        assert_eq!(circles(&texts(one, two, parent)), circle, "{one} {two}");
    }
    for (one, two) in [("use super::two::f;", "use super::f;"), ("use super::x;", "use super::One;"), ("", "")] {
        assert!(circles(&texts(one, two, parent)).is_empty(), "{one} {two}");
    }
}

/// Returns every source file, as the path of its module, with its text.
fn texts() -> Vec<(Vec<String>, String)> {
    sources().into_iter().map(|(file, _)| (module_path(&file), fs::read_to_string(file).unwrap())).collect()
}

/// Returns the cycles among files: for each one, the sorted paths of its modules.
fn circles(files: &[(Vec<String>, String)]) -> Vec<Vec<String>> {
    let names: Vec<BTreeSet<Vec<String>>> = files.iter().map(|(module, text)| named(&tokens(text), module)).collect();
    let places: BTreeMap<&[String], usize> =
        files.iter().enumerate().map(|(place, (module, _))| (module.as_slice(), place)).collect();
    let place = |path: &[String]| places.get(path).copied();
    // The file that a path refers to, resolving re-exports.
    let target = |path: &[String]| {
        let mut length = (1..=path.len()).rev().find(|&length| place(&path[..length]).is_some())?;
        let mut found = place(&path[..length])?;
        while let Some(name) = path.get(length) {
            let exported = names[found]
                .iter()
                .find(|p| p.len() > files[found].0.len() && p.starts_with(&files[found].0) && p.last() == Some(name));
            let Some(below) = exported.and_then(|p| place(&p[..p.len() - 1])) else { break };
            found = below;
            length += 1;
        }
        Some(found)
    };
    let mut graph = petgraph::graph::DiGraph::<usize, ()>::new();
    let nodes: Vec<_> = (0..files.len()).map(|i| graph.add_node(i)).collect();
    for (from, paths) in names.iter().enumerate() {
        for to in paths.iter().filter_map(|path| target(path)).collect::<BTreeSet<_>>() {
            if to != from && !files[to].0.starts_with(&files[from].0) {
                graph.update_edge(nodes[from], nodes[to], ());
            }
        }
    }
    let components = petgraph::algo::tarjan_scc(&graph).into_iter().filter(|files| files.len() > 1);
    let mut circles: Vec<Vec<String>> = components
        .map(|circle| {
            let mut circle: Vec<_> = circle.into_iter().map(|node| files[graph[node]].0.join("::")).collect();
            circle.sort();
            circle
        })
        .collect();
    circles.sort();
    circles
}

/// Returns the paths that a file names, from the root of the crate: through `crate::`, `self::`, `super::`, and through
/// the `use` of items below it.
fn named(tokens: &[String], module: &[String]) -> BTreeSet<Vec<String>> {
    let mut found = BTreeSet::new();
    let mut braces: Vec<bool> = Vec::new();
    for i in 0..tokens.len() {
        let begins = i == 0 || tokens[i - 1] != "::";
        match tokens[i].as_str() {
            "{" => braces.push(i >= 2 && tokens[i - 2] == "mod"),
            "}" => drop(braces.pop()),
            "crate" | "self" | "super" if begins && tokens.get(i + 1).is_some_and(|t| t == "::") => {
                let mut from = i;
                // Inline modules belong to the file.
                let mut ups = 0;
                while tokens[from] == "super" && tokens.get(from + 1).is_some_and(|t| t == "::") {
                    (ups, from) = (ups + 1, from + 2);
                }
                let inline = braces.iter().filter(|inline| **inline).count();
                let base = match tokens[i].as_str() {
                    "crate" => &[][..],
                    "self" => module,
                    _ => &module[..module.len().saturating_sub(usize::saturating_sub(ups, inline))],
                };
                let from = if ups == 0 { i + 2 } else { from };
                tree(tokens, from, base.to_vec(), &mut found);
            }
            "use"
                if tokens
                    .get(i + 1)
                    .is_some_and(|t| !matches!(t.as_str(), "crate" | "self" | "super" | "{" | "::")) =>
            {
                tree(tokens, i + 1, module.to_vec(), &mut found);
            }
            _ => {}
        }
    }
    found
}

/// Adds the paths of `a::b`, `a::{b, c::d}`; returns the position after them.
fn tree(tokens: &[String], mut at: usize, mut path: Vec<String>, found: &mut BTreeSet<Vec<String>>) -> usize {
    while let Some(token) = tokens.get(at) {
        if token == "{" {
            at += 1;
            while tokens.get(at).is_some_and(|t| t != "}") {
                at = tree(tokens, at, path.clone(), found);
                // Skips the rest of `name as other`, and the comma.
                while tokens.get(at).is_some_and(|t| t != "," && t != "}") {
                    at += 1;
                }
                at += usize::from(tokens.get(at).is_some_and(|t| t == ","));
            }
            return at + 1;
        }
        if token != "self" {
            path.push(token.clone());
        }
        at += 1;
        if tokens.get(at).is_none_or(|t| t != "::") {
            break;
        }
        at += 1;
    }
    found.insert(path);
    at
}

#[test]
fn every_name_in_the_readme_is_a_module() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let names: BTreeSet<_> = layers().into_keys().chain(block("edge").split_whitespace().map(str::to_string)).collect();
    let unknown: Vec<_> = names.iter().filter(|name| !src.join(format!("{name}.rs")).exists()).collect();
    assert!(unknown.is_empty(), "src/README.md speaks of {unknown:?}, which are no modules");
}

#[test]
fn links_in_documents_refer_to_existing_files() {
    let mut faults = Vec::new();
    for page in documents() {
        for link in links(&fs::read_to_string(&page).unwrap()) {
            if !page.with_file_name(&link).exists() {
                faults.push(format!("{}: no file `{link}`", page.display()));
            }
        }
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

/// In *A day in the life*, every Rust name appears in one of the files that its item links to.
#[test]
fn names_in_the_walkthroughs_exist_in_the_linked_files() {
    static NAME: LazyLock<Regex> =
        LazyLock::new(|| Regex::new("`(?:[A-Za-z]+::)?([a-z]+(?:_[a-z0-9]+)*|[A-Z][A-Za-z_]+)`").unwrap());
    let readme = fs::read_to_string(root().join("src/README.md")).unwrap();
    let (_, walks) = readme.split_once("\n## A day in the life\n").unwrap();
    let walks = walks.split_once("\n## ").map_or(walks, |(walks, _)| walks);
    let items = Regex::new(r"(?m)^\d+\. ").unwrap();
    let mut faults = Vec::new();
    let mut names = 0;
    for item in items.split(walks).skip(1) {
        let files = links(item).map(|link| fs::read_to_string(root().join("src").join(link)).unwrap_or_default());
        let known: BTreeSet<String> = files.flat_map(|text| tokens(&text)).collect();
        for name in NAME.captures_iter(item).map(|found| found[1].to_string()) {
            names += 1;
            if !known.contains(&name) && !["pdo", "make", "allow"].contains(&name.as_str()) {
                faults.push(format!(
                    "`{name}` is not in the files beside it: {}",
                    item.lines().next().unwrap_or_default()
                ));
            }
        }
    }
    assert!(faults.is_empty() && names > 20, "{names} names\n{}", faults.join("\n"));
}

/// Words that read as translated, with alternatives.
const WORDS: [(&str, &str); 11] = [
    ("owed|owes|owing", "pending"),
    ("paid|pays", "done"),
    ("whoever", "the caller, the user, any client …"),
    ("strangers?", "foreign"),
    ("told of|tells of", "reported, names, knows"),
    ("makes up for", "recovers, compensates"),
    ("as it stands", "as written, unchanged"),
    ("minds", "is affected by, refuses"),
    ("hitherto|thereof|therein", "so far, of it, in it"),
    ("stand for itself|speaks? for itself", "is clear"),
    ("to no avail", "without effect"),
];

#[test]
fn texts_contain_no_forbidden_words() {
    let words =
        WORDS.map(|(words, instead)| (Regex::new(&format!("(?i)(?:^|[^a-z])({words})(?:[^a-z]|$)")).unwrap(), instead));
    let folders = ["src", "docs", "lints", "tests/suite", "tests/flow", "tests/scenarios", "schemas", "grammar"];
    let mut files: Vec<PathBuf> = folders.iter().flat_map(|folder| files_below(&root().join(folder))).collect();
    files.extend(documents());
    files.extend(fs::read_dir(root().join("tests")).unwrap().map(|entry| entry.unwrap().path()));
    let is_text = |file: &PathBuf| file.extension().is_some_and(|e| e == "rs" || e == "md" || e == "json");
    // This file contains the list itself.
    files.retain(|file| is_text(file) && !file.ends_with(file!()));
    files.sort();
    files.dedup();
    let mut faults = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        for (number, line) in text.lines().enumerate() {
            for (word, instead) in &words {
                if let Some(found) = word.captures(line) {
                    let place = file.strip_prefix(root()).unwrap().display();
                    faults.push(format!("{place}:{}: `{}`; plainer: {instead}", number + 1, &found[1]));
                }
            }
        }
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

/// Returns all files in a directory and its subdirectories.
fn files_below(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files_below(&path) } else { vec![path] }).collect()
}

/// Returns the Markdown files for readers, without pages that are tests: their text is the output of gevals.
fn documents() -> Vec<PathBuf> {
    let folders =
        ["", "docs", "grammar", "lints", "src", "tests", "examples", "packaging"].map(|folder| root().join(folder));
    let files = folders.iter().flat_map(|folder| fs::read_dir(folder).unwrap()).map(|entry| entry.unwrap().path());
    files.filter(|file| file.extension().is_some_and(|e| e == "md")).collect()
}

/// Returns the files that a text links to, without anchors.
fn links(text: &str) -> impl Iterator<Item = String> {
    static LINK: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\]\(([^)\s#]+)[^)\s]*\)").unwrap());
    let links = LINK.captures_iter(text).map(|found| found[1].to_string());
    links.filter(|link| !link.contains("://") && !link.starts_with("mailto:"))
}

/// Returns the layer of each module, as its line number.
fn layers() -> BTreeMap<String, usize> {
    let mut layers = BTreeMap::new();
    for (line, text) in block("layers").lines().enumerate() {
        for word in text.split_whitespace() {
            assert!(layers.insert(word.to_string(), line).is_none(), "`{word}` is in two layers");
        }
    }
    layers
}

fn block(name: &str) -> String {
    let readme = fs::read_to_string(root().join("src/README.md")).unwrap();
    let start = format!("\n```{name}\n");
    let (_, rest) = readme.split_once(&start).unwrap_or_else(|| panic!("src/README.md has no block `{name}`"));
    rest.split_once("\n```").unwrap().0.to_string()
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns every source file with its top-level module.
fn sources() -> Vec<(PathBuf, String)> {
    let mut found = files_below(&root().join("src"));
    found.retain(|path| path.extension().is_some_and(|e| e == "rs"));
    found.sort();
    let modules = found.into_iter().map(|path| (module_path(&path).remove(0), path));
    modules.filter(|(module, _)| !ROOTS.contains(&module.as_str())).map(|(module, path)| (path, module)).collect()
}

fn module_path(file: &Path) -> Vec<String> {
    let inside = file.strip_prefix(root().join("src")).unwrap().with_extension("");
    inside.components().map(|c| c.as_os_str().to_str().unwrap().to_string()).collect()
}

/// Returns the top-level modules that a file names.
fn used(file: &Path) -> BTreeSet<String> {
    let tokens = tokens(&fs::read_to_string(file).unwrap());
    let mut used = paths(&tokens, "crate");
    used.extend(supers(&tokens, module_path(file).len()));
    used
}

/// Returns what follows `root::`: one name, or the first names in the braces.
fn paths(tokens: &[String], root: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (i, token) in tokens.iter().enumerate() {
        if token == root && tokens.get(i + 1).is_some_and(|t| t == "::") {
            found.extend(heads(&tokens[i + 2..]));
        }
    }
    found
}

/// Returns what follows a chain of `super::` that leads from a file at a depth of `depth` modules to the root of the
/// crate.
fn supers(tokens: &[String], depth: usize) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    // For each open brace, whether it belongs to an inline module.
    let mut braces: Vec<bool> = Vec::new();
    let mut i = 0;
    while i < tokens.len() {
        match tokens[i].as_str() {
            "{" => braces.push(i >= 2 && tokens[i - 2] == "mod"),
            "}" => drop(braces.pop()),
            "super" => {
                let mut ups = 0;
                while tokens.get(i).is_some_and(|t| t == "super") && tokens.get(i + 1).is_some_and(|t| t == "::") {
                    ups += 1;
                    i += 2;
                }
                if ups == depth + braces.iter().filter(|inline| **inline).count() {
                    found.extend(heads(&tokens[i..]));
                }
                // The token at this position is examined in the next iteration; a lone `super` (`pub(super)`) is
                // skipped.
                i += usize::from(ups == 0);
                continue;
            }
            _ => {}
        }
        i += 1;
    }
    found
}

/// `name …`, or the first name of each item of `{name …, name …}`.
fn heads(tokens: &[String]) -> Vec<String> {
    if tokens.first().is_none_or(|t| t != "{") {
        return tokens.first().into_iter().cloned().collect();
    }
    let (mut heads, mut depth) = (Vec::new(), 0);
    for (i, token) in tokens.iter().enumerate() {
        match token.as_str() {
            "{" => depth += 1,
            "}" => depth -= 1,
            name if depth == 1 && matches!(tokens[i - 1].as_str(), "{" | ",") => heads.push(name.to_string()),
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
    heads
}

/// Returns names, `::` and single characters, without comments, literals, and items under `#[cfg(test)]`.
fn tokens(text: &str) -> Vec<String> {
    static PIECES: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(
            r##"(?xs)
        //[^\n]* | /\*.*?\*/ (?: [^*/\n]* \*/ )?
        | \b[bc]?r\#"(?:.*?)"\# | \b[bc]?r"[^"]*" | \b[bc]?"(?:\\.|[^"\\])*" | "(?:\\.|[^"\\])*"
        | \bb?'(?:\\[^u]|\\u\{[^}]*\}|[^'\\])' | '(?:\\[^u]|\\u\{[^}]*\}|[^'\\])'
        | (?<token> [A-Za-z_][A-Za-z0-9_]* | :: | \S )"##,
        )
        .unwrap()
    });
    let all = PIECES.captures_iter(text).filter_map(|c| Some(c.name("token")?.as_str().to_string()));
    without_tests(&all.collect::<Vec<_>>())
}

fn without_tests(tokens: &[String]) -> Vec<String> {
    let attribute = ["#", "[", "cfg", "(", "test", ")", "]"];
    let mut kept = Vec::new();
    let mut i = 0;
    while i < tokens.len() {
        if tokens[i..].iter().map(String::as_str).take(attribute.len()).eq(attribute) {
            let mut depth = 0;
            while let Some(token) = tokens.get(i) {
                i += 1;
                depth += i32::from(token == "{") - i32::from(token == "}");
                if depth == 0 && (token == ";" || token == "}") {
                    break;
                }
            }
        } else {
            kept.push(tokens[i].clone());
            i += 1;
        }
    }
    kept
}
