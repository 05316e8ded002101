//! The layers that src/README.md draws are the ones the sources keep, and only the edge names the world.
//!
//! Textual, on tokens: comments, literals and `#[cfg(test)]` items are left out; a name that a macro makes is not seen.
#![expect(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test reads the sources")]

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
            let earlier = layers.get(&used).is_none_or(|layer| layer.line < own.line || layer.group == own.group);
            if used != module && !earlier {
                faults.push(format!("{}: `{module}` uses `{used}`, which is not on an earlier line", file.display()));
            }
        }
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn only_the_edge_names_the_world() {
    let edge: BTreeSet<_> = block("edge").split_whitespace().map(str::to_string).collect();
    let mut faults = Vec::new();
    for (file, _) in sources().into_iter().filter(|(_, module)| !edge.contains(module)) {
        let named = paths(&tokens(&fs::read_to_string(&file).unwrap()), "std");
        for name in named.iter().filter(|n| ["fs", "env", "net", "process"].contains(&n.as_str())) {
            faults.push(format!("{}: `std::{name}` in the core", file.display()));
        }
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn the_reader_of_sources_sees_what_it_should() {
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

struct Layer {
    line: usize,
    /// Equal for names that are joined.
    group: usize,
}

#[test]
fn every_name_is_a_module() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let names: BTreeSet<_> = layers().into_keys().chain(block("edge").split_whitespace().map(str::to_string)).collect();
    let strangers: Vec<_> = names.iter().filter(|name| !src.join(format!("{name}.rs")).exists()).collect();
    assert!(strangers.is_empty(), "src/README.md speaks of {strangers:?}, which are no modules");
}

fn layers() -> BTreeMap<String, Layer> {
    let mut layers = BTreeMap::new();
    let mut group = 0;
    for (line, text) in block("layers").lines().enumerate() {
        let mut joined = false;
        for word in text.split_whitespace() {
            if word == "+" {
                joined = true;
                continue;
            }
            group += usize::from(!joined);
            joined = false;
            assert!(layers.insert(word.to_string(), Layer { line, group }).is_none(), "`{word}` is in two layers");
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

/// Every source file with the module of the first level it belongs to.
fn sources() -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut dirs = vec![root().join("src")];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                dirs.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                let module = module_path(&path).remove(0);
                if !ROOTS.contains(&module.as_str()) {
                    found.push((path, module));
                }
            }
        }
    }
    found.sort();
    found
}

fn module_path(file: &Path) -> Vec<String> {
    let inside = file.strip_prefix(root().join("src")).unwrap().with_extension("");
    inside.components().map(|c| c.as_os_str().to_str().unwrap().to_string()).collect()
}

/// The modules of the first level that a file names.
fn used(file: &Path) -> BTreeSet<String> {
    let tokens = tokens(&fs::read_to_string(file).unwrap());
    let mut used = paths(&tokens, "crate");
    used.extend(supers(&tokens, module_path(file).len()));
    used
}

/// What follows `root::`: one name, or the first names in the braces.
fn paths(tokens: &[String], root: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (i, token) in tokens.iter().enumerate() {
        if token == root && tokens.get(i + 1).is_some_and(|t| t == "::") {
            found.extend(heads(&tokens[i + 2..]));
        }
    }
    found
}

/// What follows a chain of `super::` that leads out of a file `depth` modules deep, to the root of the crate.
fn supers(tokens: &[String], depth: usize) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    // For each open brace, whether it is an inline module's.
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
                // What stands here is looked at in its turn; a lone `super` (`pub(super)`) is passed.
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

/// Names, `::` and single characters; neither comments nor literals, nor items under `#[cfg(test)]`.
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
