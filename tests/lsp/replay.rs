//! Replayed editing sessions: real suites are changed letter by letter by a seeded random generator. After every
//! change, the server answers every request, and its diagnostics equal the findings of a cold `gevals check` of the
//! same texts.

use std::{collections::BTreeSet, fs, path::Path, process::Command};

use fastrand::Rng;
use serde_json::{Value, json};

use super::{
    Editor,
    page::{Block, pages},
    world::{World, gevals},
};

/// Number of suites, number of changes of each, and maximum number of letters in one change.
const SUITES: usize = 24;
const BURSTS: usize = 5;
const LETTERS: usize = 40;

/// What is typed if the text is not copied from another place in the suite.
const PIECES: [&str; 16] = [
    "{env.X | lower}",
    "\n    - command:\n        run: ",
    "\n  cleanup:\n",
    "{steps.",
    "\"",
    "'",
    ": ",
    "  ",
    "\t",
    "&a ",
    "*a",
    "𝄞ä",
    "|\n",
    "# gevals: allow(",
    "[{",
    "kind: Eval",
];

/// A finding as both sides report it: file, line, rule.
type Found = BTreeSet<(String, u64, String)>;

#[test]
fn an_edit_session_shows_what_a_cold_check_finds() {
    for seed in 0..SUITES as u64 {
        session(seed);
    }
}

fn session(seed: u64) {
    let mut rng = Rng::with_seed(seed);
    let files = suite(&mut rng);
    let named: Vec<(String, &str)> =
        files.iter().map(|(path, text)| (format!("suite/{path}"), text.as_str())).collect();
    let world = World::new(&named.iter().map(|(path, text)| (path.as_str(), *text)).collect::<Vec<_>>());
    let mut texts: Vec<(String, String)> =
        named.iter().map(|(path, _)| (path["suite/".len()..].to_owned(), world.read(path))).collect();
    let mut editor = Editor::start(&world, &json!({}));
    for (path, text) in &texts {
        editor.open(path, text);
    }
    let mut version = 1;
    for burst in 0..BURSTS {
        let which = rng.usize(..texts.len());
        let pieces: Vec<String> =
            texts.iter().flat_map(|(_, text)| text.lines().map(|line| format!("{line}\n"))).collect();
        let (path, text) = &mut texts[which];
        change(&mut rng, &mut editor, path, text, &pieces, &mut version);
        ask(&mut rng, &mut editor, path, text, seed);
        let shown = shown(&editor);
        for (path, text) in &texts {
            fs::write(world.path(&format!("suite/{path}")), text).unwrap();
        }
        let cold = cold(&world.path("suite"));
        assert_eq!(shown, cold, "seed {seed}, burst {burst}: {texts:#?}");
    }
    assert!(editor.end().success());
}

/// The files of the example, or of one heading of `tests/suite`.
fn suite(rng: &mut Rng) -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    if rng.u8(..4) == 0 {
        let example = root.join("examples/quickstart");
        let paths =
            ["eval.yaml", "oracle.yaml", "mcp.yaml", "gevals.lock", "tasks/write-note.yaml", "tasks/tidy-up.yaml"];
        return paths.map(|path| (path.to_owned(), fs::read_to_string(example.join(path)).unwrap())).into();
    }
    let pages = pages(&root.join("tests/suite"));
    loop {
        let page = &pages[rng.usize(..pages.len())];
        let Some(block) = rng.choice(&page.blocks) else { continue };
        let is_file =
            |block: &&Block| block.language() != "text" && block.language() != "sh" && !block.language().is_empty();
        let blocks = page.blocks.iter().filter(|other| other.heading.0 == block.heading.0).filter(is_file);
        // If several blocks have the same name, the last one counts.
        let files: std::collections::BTreeMap<String, String> =
            blocks.map(|block| (block.file().to_owned(), block.text())).collect();
        let ours = |text: &String| text.lines().any(|line| line.starts_with("kind: "));
        let inside = files.keys().all(|path| !path.contains("..") && !path.starts_with('/'));
        if inside && files.values().any(ours) {
            return files.into_iter().filter(|(path, _)| !path.ends_with('/')).collect();
        }
    }
}

/// One change, one message per letter: text is inserted or deleted.
fn change(rng: &mut Rng, editor: &mut Editor, path: &str, text: &mut String, pieces: &[String], version: &mut u64) {
    let mut send = |editor: &mut Editor, text: &mut String, range: std::ops::Range<usize>, new: &str| {
        let place = json!({ "start": position(text, range.start), "end": position(text, range.end) });
        text.replace_range(range, new);
        *version += 1;
        editor.change(path, *version, json!([{ "range": place, "text": new }]));
    };
    let mut at = boundary(text, rng.usize(..=text.len()));
    if rng.bool() {
        let piece = match rng.bool() {
            true => PIECES[rng.usize(..PIECES.len())].to_owned(),
            false => rng.choice(pieces).cloned().unwrap_or_default(),
        };
        for letter in piece.chars().take(LETTERS) {
            send(editor, text, at..at, letter.encode_utf8(&mut [0; 4]));
            at += letter.len_utf8();
        }
    } else {
        for _ in 0..rng.usize(1..LETTERS) {
            let Some(letter) = text[at..].chars().next() else { return };
            send(editor, text, at..at + letter.len_utf8(), "");
        }
    }
}

/// Sends every kind of request for a random position; none may fail.
fn ask(rng: &mut Rng, editor: &mut Editor, path: &str, text: &str, seed: u64) {
    let uri = editor.uri(path);
    let at = position(text, boundary(text, rng.usize(..=text.len())));
    let whole = json!({ "start": { "line": 0, "character": 0 }, "end": position(text, text.len()) });
    for method in [
        "completion",
        "hover",
        "definition",
        "references",
        "prepareRename",
        "documentSymbol",
        "foldingRange",
        "semanticTokens/full",
        "codeLens",
        "inlayHint",
        "formatting",
        "codeAction",
    ] {
        let params = json!({
            "textDocument": { "uri": uri }, "position": at, "range": whole, "context": { "diagnostics": [], "only": ["quickfix"] },
            "options": { "tabSize": 2, "insertSpaces": true },
        });
        let answer = editor.ask(&format!("textDocument/{method}"), params);
        assert!(
            answer.get("code").is_none_or(|code| !code.is_number()),
            "seed {seed}, {method} at {at}: {answer}\n{text}"
        );
        if method == "formatting" {
            let formatted = super::edited(text, &answer);
            assert_eq!(bare(&formatted), bare(text), "seed {seed}: formatting touched more than blanks in holes");
        }
    }
}

/// Returns the text without blanks and empty parentheses, which is all that formatting changes in holes.
fn bare(text: &str) -> String {
    text.chars().filter(|letter| *letter != ' ').collect::<String>().replace("()", "")
}

fn shown(editor: &Editor) -> Found {
    let mut found = Found::new();
    for (uri, params) in &editor.shown {
        let path = uri[editor.root.len() + 1..].to_owned();
        for diagnostic in params["diagnostics"].as_array().unwrap() {
            let line = diagnostic["range"]["start"]["line"].as_u64().unwrap() + 1;
            found.insert((path.clone(), line, diagnostic["code"].as_str().unwrap().to_owned()));
        }
    }
    found
}

fn cold(folder: &Path) -> Found {
    let output = Command::new(gevals()).args(["check", "--format", "json"]).arg(folder).output().unwrap();
    // If no file of gevals is left, there is nothing to check.
    let report: Value = match serde_json::from_slice(&output.stdout) {
        Ok(report) => report,
        Err(_) => return Found::new(),
    };
    let mut found = Found::new();
    for finding in report["diagnostics"].as_array().unwrap() {
        for place in std::iter::once(finding).chain(finding["places"].as_array().unwrap()) {
            let path = Path::new(place["path"].as_str().unwrap());
            let Ok(path) = path.strip_prefix(folder) else { continue };
            let rule = finding["rule"].as_str().unwrap().to_owned();
            found.insert((path.to_str().unwrap().to_owned(), place["line"].as_u64().unwrap(), rule));
        }
    }
    found
}

fn boundary(text: &str, at: usize) -> usize {
    text.floor_char_boundary(at)
}

fn position(text: &str, at: usize) -> Value {
    let line = text[..at].matches('\n').count();
    let start = text[..at].rfind('\n').map_or(0, |at| at + 1);
    json!({ "line": line, "character": text[start..at].encode_utf16().count() })
}
