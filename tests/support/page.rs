//! Markdown pages whose fenced blocks are tests: finds the blocks, and writes expected output back.

use std::{
    collections::BTreeMap,
    fs,
    ops::Range,
    path::{Path, PathBuf},
};

use gevals::source::MemoryFiles;

/// A page, as read from disk.
#[derive(Debug)]
pub struct Page {
    pub path: PathBuf,
    pub text: String,
    pub blocks: Vec<Block>,
}

/// One fenced block.
#[derive(Clone, Debug)]
pub struct Block {
    /// The words after the fence: `yaml fail tasks/a.yaml`.
    pub info: Vec<String>,
    pub body: String,
    /// The byte range of the body in the page.
    pub range: Range<usize>,
    pub line: usize,
    /// The heading of its section: its number in the page, and its text.
    pub heading: (usize, String),
}

impl Page {
    pub fn read(path: &Path) -> Self {
        let text = fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let blocks = blocks(&text);
        Self { path: path.to_owned(), text, blocks }
    }

    /// Returns the page with other bodies for some of its blocks.
    pub fn with(&self, bodies: &[(Range<usize>, String)]) -> String {
        let mut bodies: Vec<_> = bodies.iter().collect();
        bodies.sort_by_key(|(range, _)| range.start);
        let mut text = String::new();
        let mut at = 0;
        for (range, body) in bodies {
            text += &self.text[at..range.start];
            text += body;
            at = range.end;
        }
        text + &self.text[at..]
    }

    pub fn name(&self) -> &str {
        self.path.file_stem().and_then(|s| s.to_str()).unwrap_or_default()
    }
}

impl Block {
    pub fn language(&self) -> &str {
        self.info.first().map_or("", String::as_str)
    }

    pub fn has(&self, word: &str) -> bool {
        self.info.iter().skip(1).any(|w| w == word)
    }

    /// Returns the word that is a path, or the default name of a file of this kind.
    pub fn file(&self) -> &str {
        const WORDS: [&str; 7] = ["fail", "pass", "root", "exec", "crlf", "bom", "example"];
        let named = self.info.iter().skip(1).map(String::as_str).find(|w| !WORDS.contains(w));
        let holds = |text: &str| self.body.lines().any(|l| l.starts_with(text));
        named.unwrap_or_else(|| match () {
            () if holds("kind: Eval") => "eval.yaml",
            () if holds("kind: Agent") => "agent.yaml",
            () if holds("kind: Oracle") => "oracle.yaml",
            () if holds("mcpServers:") => "mcp.yaml",
            () => "task.yaml",
        })
    }

    /// Returns the body as it is in the file: `crlf` and `bom` specify what Markdown cannot show.
    pub fn text(&self) -> String {
        let body = if self.has("crlf") { self.body.replace('\n', "\r\n") } else { self.body.clone() };
        if self.has("bom") { format!("\u{feff}{body}") } else { body }
    }
}

/// Returns files in memory, and those among them that are named on the command line.
pub fn files(blocks: &[&Block]) -> (MemoryFiles, Vec<PathBuf>) {
    let mut files = MemoryFiles::default();
    for block in blocks {
        files.add(block.file(), block.text(), block.has("exec"));
    }
    // If several blocks have the same name, the last one counts.
    let last: BTreeMap<&str, &&Block> = blocks.iter().map(|b| (b.file(), b)).collect();
    let chosen = |choose: &dyn Fn(&Block) -> bool| -> Vec<PathBuf> {
        last.values().filter(|b| choose(b)).map(|b| PathBuf::from(b.file())).collect()
    };
    let is_eval = |b: &Block| b.body.lines().any(|l| l.starts_with("kind: Eval"));
    let is_ours = |b: &Block| ["yaml", "json"].contains(&b.language()) && b.file() != "gevals.lock";
    let roots = [chosen(&|b| b.has("root")), chosen(&is_eval), chosen(&is_ours)].into_iter().find(|r| !r.is_empty());
    (files, roots.unwrap_or_default())
}

/// Returns every page in a directory and its subdirectories, sorted; README pages are skipped.
pub fn pages(dir: &Path) -> Vec<Page> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display())) {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(pages(&path));
        } else if path.extension().is_some_and(|e| e == "md") && path.file_stem().is_some_and(|s| s != "README") {
            found.push(Page::read(&path));
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

fn blocks(text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<(usize, Block)> = None;
    let mut heading = (0, String::new());
    let mut at = 0;
    for (index, line) in text.split_inclusive('\n').enumerate() {
        let start = at;
        at += line.len();
        let ticks = line.len() - line.trim_start_matches('`').len();
        match &mut open {
            Some((fence, block)) if ticks >= *fence && line[ticks..].trim().is_empty() => {
                block.range.end = start;
                block.body = text[block.range.clone()].to_owned();
                blocks.extend(open.take().map(|(_, block)| block));
            }
            Some(_) => {}
            None if ticks >= 3 => {
                let info = line[ticks..].split_whitespace().map(str::to_owned).collect();
                let block =
                    Block { info, body: String::new(), range: at..at, line: index + 1, heading: heading.clone() };
                open = Some((ticks, block));
            }
            None if line.starts_with('#') => heading = (heading.0 + 1, line.trim_start_matches('#').trim().to_owned()),
            None => {}
        }
    }
    assert!(open.is_none(), "a block is never closed");
    blocks
}

/// Whether the tests that try something in many places try it in all of them, which takes several minutes:
/// `GEVALS_EXHAUSTIVE=1`.
pub fn exhaustive() -> bool {
    std::env::var_os("GEVALS_EXHAUSTIVE").is_some()
}
