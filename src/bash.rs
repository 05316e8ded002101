//! Bash scripts, parsed with tree-sitter. No IO.

pub mod ast;
pub mod fields;
pub mod flow;
pub mod gotext;
pub mod inline;
pub mod jq;
pub mod jsonpath;
mod plain;
pub mod program;
pub mod prompt;
mod stand_in;
pub mod syntax;
pub mod tools;
pub mod types;
pub mod unroll;

use std::{borrow::Cow, cell::RefCell, ops::Range};

use tree_sitter::{Node, Parser, Tree, TreeCursor};

pub use self::plain::read as plain;
use self::program::Program;

/// A parsed script. Parts that the parser did not understand are error nodes in the tree.
#[derive(Debug)]
pub struct Script {
    text: String,
    tree: Tree,
}

/// The reserved words of bash.
pub const KEYWORDS: &[&str] = &[
    "if", "then", "else", "elif", "fi", "for", "while", "until", "do", "done", "case", "esac", "function", "select",
    "{", "}", "!", "[[", "]]", "coproc", "in", "time",
];

/// The builtins of bash (*Shell Builtin Commands* in its manual).
#[rustfmt::skip]
pub const BUILTINS: &[&str] = &[
    ".", ":", "[", "alias", "bg", "bind", "break", "builtin", "caller", "cd", "command", "compgen", "complete",
    "compopt", "continue", "declare", "dirs", "disown", "echo", "enable", "eval", "exec", "exit", "export", "false",
    "fc", "fg", "getopts", "hash", "help", "history", "jobs", "kill", "let", "local", "logout", "mapfile", "popd",
    "printf", "pushd", "pwd", "read", "readarray", "readonly", "return", "set", "shift", "shopt", "source", "suspend",
    "test", "times", "trap", "true", "type", "typeset", "ulimit", "umask", "unalias", "unset", "wait",
];

/// Whether a word in command position is a keyword or a builtin, so that it does not have to be the name of a program.
pub fn is_own(word: &str) -> bool {
    KEYWORDS.contains(&word) || BUILTINS.contains(&word)
}

/// Whether a text consists only of characters that no shell treats specially.
pub fn is_safe(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with('~')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c))
}

/// Quotes a text if a shell requires it.
pub fn quote(text: &str) -> String {
    if is_safe(text) { text.to_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

/// A text as it is written inside of double quotes.
pub fn escaped(text: &str) -> String {
    text.chars().fold(String::new(), |mut out, c| {
        out.extend(matches!(c, '"' | '\\' | '$' | '`').then_some('\\'));
        out.push(c);
        out
    })
}

/// The nesting limit: nodes of the grammar inside each other, and twice the number of links in a chain of `&&` and `||`. Real scripts stay
/// far below it, and every recursive walk over a script has enough stack for it.
pub const DEPTH: usize = 500;

/// The length, in bytes, up to which a script is parsed even if something in it is not closed. The parser recovers from
/// errors in a time that grows with the square of the number of open constructs.
const BROKEN: usize = 8_192;

/// Parses a script. Returns `None` if it is nested deeper than [`DEPTH`], or if it is longer than [`BROKEN`] and bash
/// would report a syntax error.
pub fn parse(text: &str) -> Option<Script> {
    if text.len() > BROKEN {
        let report = syntax::check(text, syntax::Grammar::Bash);
        if report.deep || report.fault.is_some() || report.endless.is_some() {
            return None;
        }
    }
    thread_local! {
        // Creating a parser costs more than parsing a short script.
        static PARSER: RefCell<Option<Parser>> = RefCell::new({
            let mut parser = Parser::new();
            parser.set_language(&tree_sitter_bash::LANGUAGE.into()).is_ok().then_some(parser)
        });
    }
    let ended = with_ends(text);
    let tree = PARSER.with_borrow_mut(|parser| parser.as_mut()?.parse(ended.as_bytes(), None))?;
    // A text this short cannot be nested deeper.
    let flat = text.len() < DEPTH / 2 || !is_deep(&tree);
    flat.then(|| Script { text: text.to_owned(), tree })
}

/// The text with a `;` in place of the end of each line that consists of several assignments. The grammar does not see this end, and
/// takes the command on the next line for one that gets these variables.
fn with_ends(text: &str) -> Cow<'_, str> {
    let mut ends = Vec::new();
    let mut start = 0;
    while let Some(len) = text[start..].find('\n') {
        let line = &text[start..start + len];
        if line.trim_start().starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
            ends.extend(assignments(line).filter(|(count, _)| *count > 1).map(|(_, end)| start + end));
        }
        start += len + 1;
    }
    if ends.is_empty() {
        return Cow::Borrowed(text);
    }
    let mut text = text.to_owned();
    ends.into_iter().for_each(|end| text.replace_range(end..=end, ";"));
    Cow::Owned(text)
}

/// The number of assignments of which a line consists, and its first byte behind them that is a blank or the end. `None` if it contains
/// anything else than a comment.
fn assignments(line: &str) -> Option<(usize, usize)> {
    let (mut count, mut rest) = (0, line.trim_start());
    loop {
        let name = rest.bytes().take_while(|b| b.is_ascii_alphanumeric() || *b == b'_').count();
        let mut at = name + 1;
        (name > 0 && rest.as_bytes().get(name) == Some(&b'=')).then_some(())?;
        while let Some(c) = rest[at..].chars().next().filter(|c| !c.is_whitespace()) {
            at += match c {
                '\'' => 2 + rest[at + 1..].find('\'')?,
                '"' => 1 + ast::closing_quote(&rest[at..])?,
                '$' if rest[at..].starts_with("$(") => 2 + ast::closing(&rest[at + 1..], b'(', b')')?,
                '(' | '\\' | '`' | ';' | '&' | '|' | '<' | '>' => return None,
                c => c.len_utf8(),
            };
        }
        count += 1;
        let end = line.len() - rest.len() + at;
        rest = rest[at..].trim_start();
        if rest.is_empty() || rest.starts_with('#') {
            return Some((count, end));
        }
    }
}

fn is_deep(tree: &Tree) -> bool {
    let mut cursor = tree.walk();
    loop {
        if cursor.depth() as usize > DEPTH {
            return true;
        }
        if cursor.goto_first_child() {
            continue;
        }
        while !cursor.goto_next_sibling() {
            if !cursor.goto_parent() {
                return false;
            }
        }
    }
}

/// Reads a script as statements. Returns `None` in the same cases as [`parse`].
pub fn program(text: &str) -> Option<Program> {
    plain(text).or_else(|| Some(parse(text)?.program()))
}

impl Script {
    /// The root node of the script.
    pub fn root(&self) -> Node<'_> {
        self.tree.root_node()
    }

    /// The text of a node.
    pub fn text(&self, node: Node<'_>) -> &str {
        &self.text[node.byte_range()]
    }

    /// The script as statements.
    pub fn program(&self) -> Program {
        program::read(self)
    }

    /// Whether the parser understood the whole script.
    pub fn is_sound(&self) -> bool {
        !self.root().has_error()
    }

    /// Every node, parents before their children.
    pub fn nodes(&self) -> impl Iterator<Item = Node<'_>> {
        nodes(self.tree.walk())
    }

    /// Every node of the given kind.
    pub fn of_kind(&self, kind: &str) -> Vec<Node<'_>> {
        self.nodes().filter(|node| node.kind() == kind).collect()
    }

    /// The `-` before a redirection (`kubectl apply -f - <<EOF`), which the grammar leaves out of a redirected statement.
    /// Returns `None` if the grammar leaves out more than that.
    pub fn lost_words(&self, redirected: Node<'_>) -> Option<Vec<Range<usize>>> {
        let body = redirected.child_by_field_name("body")?;
        let mut cursor = redirected.walk();
        let mut lost = Vec::new();
        let mut end = body.end_byte();
        for child in redirected.children(&mut cursor).filter(|c| c.start_byte() >= body.end_byte()) {
            let between = &self.text[end..child.start_byte()];
            match between.trim() {
                "" | "\\" => {}
                "-" => {
                    let at = end + between.find('-')?;
                    lost.push(at..at + 1);
                }
                _ => return None,
            }
            end = child.end_byte();
        }
        Some(lost)
    }

    /// The words of a simple command, starting with its name. Words that are quoted as a whole are returned without
    /// their quotes.
    pub fn words(&self, command: Node<'_>) -> Vec<Word> {
        let children: Vec<_> = command.children(&mut command.walk()).collect();
        self.words_of(&children)
    }

    /// Like [`Self::words`], for a command whose children are already collected.
    fn words_of(&self, children: &[Node<'_>]) -> Vec<Word> {
        let is_word = |node: &&Node<'_>| {
            let kind = node.kind();
            node.is_named() && kind != "variable_assignment" && kind != "comment" && !kind.ends_with("_redirect")
        };
        children.iter().filter(is_word).map(|node| self.word(*node)).collect()
    }

    fn word(&self, node: Node<'_>) -> Word {
        const FILLED: [&str; 5] =
            ["expansion", "simple_expansion", "command_substitution", "process_substitution", "arithmetic_expansion"];
        let text = self.text(node);
        // Most words contain none of the characters that start an expansion.
        let literal = !text.contains(['$', '`', '(']) || nodes(node.walk()).all(|n| !FILLED.contains(&n.kind()));
        Word::new(text, node.byte_range(), literal)
    }
}

/// The node at the cursor and every node below it, parents before their children.
fn nodes<'t>(mut cursor: TreeCursor<'t>) -> impl Iterator<Item = Node<'t>> {
    let mut next = Some(cursor.node());
    std::iter::from_fn(move || {
        let node = next?;
        let mut moved = cursor.goto_first_child();
        while !moved {
            moved = cursor.goto_next_sibling();
            if !moved && !cursor.goto_parent() {
                break;
            }
        }
        next = moved.then(|| cursor.node());
        Some(node)
    })
}

/// One word of a command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Word {
    pub text: String,
    pub range: Range<usize>,
    /// Whether the word contains no expansion: no variable, no substitution.
    pub literal: bool,
}

impl AsRef<str> for Word {
    fn as_ref(&self) -> &str {
        &self.text
    }
}

impl Word {
    /// A word as written. If it is quoted as a whole, the quotes are removed.
    fn new(text: &str, range: Range<usize>, literal: bool) -> Self {
        let bare = ['"', '\''].iter().find_map(|q| text.strip_prefix(*q)?.strip_suffix(*q));
        Self { text: bare.unwrap_or(text).to_owned(), range, literal }
    }
}

/// Whether a variable is set by bash itself, or by gevals or mcpchecker for scripts.
pub fn sets_by_itself(name: &str) -> bool {
    name.starts_with("BASH")
        || name.starts_with("COMP_")
        || name.starts_with("GEVALS_")
        || name.starts_with("MCPCHECKER_")
        || name.starts_with("MCP_")
        || matches!(
            name,
            "RANDOM"
                | "SRANDOM"
                | "SECONDS"
                | "LINENO"
                | "UID"
                | "EUID"
                | "GROUPS"
                | "OSTYPE"
                | "HOSTTYPE"
                | "MACHTYPE"
                | "PPID"
                | "FUNCNAME"
                | "OPTARG"
                | "OPTIND"
                | "OPTERR"
                | "REPLY"
                | "PIPESTATUS"
                | "PS1"
                | "PS4"
                | "OLDPWD"
                | "DIRSTACK"
                | "EPOCHSECONDS"
                | "EPOCHREALTIME"
                | "SHLVL"
                | "SHELLOPTS"
                | "MAPFILE"
                | "HISTFILE"
                | "TIMEFORMAT"
                | "COPROC"
                | "_"
        )
}
