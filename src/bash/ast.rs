//! The detailed form of a script, word by word, as needed by the converter. Statements that are not understood become
//! [`Kind::Other`], and callers leave such statements unchanged.

use std::ops::Range;

use tree_sitter::Node;

use super::Script;

/// Statements in the order written.
pub type List = Vec<Stmt>;

/// A statement of a script.
#[derive(Clone, PartialEq, Debug)]
pub struct Stmt {
    /// Range in the script's text, without the comments before the statement.
    pub range: Range<usize>,
    pub kind: Kind,
    /// Comment lines directly before it, without `#`.
    pub comments: Vec<String>,
    /// Ends in `&`.
    pub background: bool,
}

impl Stmt {
    /// The statement lists inside a statement.
    pub fn lists(&self) -> Vec<&[Stmt]> {
        match &self.kind {
            Kind::Pipeline(list) | Kind::Group(list) | Kind::Subshell(list) => vec![list],
            Kind::And(pair) | Kind::Or(pair) => vec![pair.as_slice()],
            Kind::Not(inner) => vec![std::slice::from_ref(&**inner)],
            Kind::If { branches, otherwise } => {
                branches.iter().flat_map(|(c, b)| [c.as_slice(), b.as_slice()]).chain(otherwise.as_deref()).collect()
            }
            Kind::For { body, .. }
            | Kind::Count { body, .. }
            | Kind::Function { body, .. }
            | Kind::Logged { body, .. } => vec![body],
            Kind::While { condition, body, .. } => vec![condition, body],
            _ => Vec::new(),
        }
    }
}

/// What a statement is.
#[derive(Clone, PartialEq, Debug)]
pub enum Kind {
    Simple(Simple),
    /// `NAME=value …`, with or without `export`, `local`, `readonly`.
    Assign(Vec<Assign>),
    /// `[ … ]`, `[[ … ]]`: the text between the brackets, and whether the brackets are double.
    Test(String, bool),
    Pipeline(List),
    And(Box<[Stmt; 2]>),
    Or(Box<[Stmt; 2]>),
    Not(Box<Stmt>),
    If {
        branches: Vec<(List, List)>,
        otherwise: Option<List>,
    },
    For {
        var: String,
        values: Vec<Word>,
        body: List,
    },
    /// `for ((i = A; i < B; i++))`: the number of rounds, if it is evident.
    Count {
        var: String,
        rounds: Option<u32>,
        body: List,
    },
    While {
        until: bool,
        condition: List,
        body: List,
    },
    Group(List),
    /// `{ …; } > FILE`, with `>` or `>>`, with or without standard error: a group whose output is written to a file.
    Logged {
        body: List,
        file: Word,
        append: bool,
    },
    Subshell(List),
    Function {
        name: String,
        body: List,
    },
    /// `((NAME++))` and similar: changes one variable; the exit status depends on its previous value.
    Step(String),
    /// A statement that is not understood, unchanged.
    Other(String),
}

/// A command with its redirections.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Simple {
    /// `NAME=value` before the command.
    pub env: Vec<Assign>,
    pub words: Vec<Word>,
    pub redirects: Vec<Redirect>,
}

/// An assignment to a variable.
#[derive(Clone, PartialEq, Debug)]
pub struct Assign {
    pub name: String,
    /// `None` if the variable is declared without a value, or is an array.
    pub value: Option<Word>,
    pub export: bool,
    /// Declared with `local`, in a function.
    pub local: bool,
    /// Whether the assignment is not fully understood: `declare -A`, `a[1]=`, `+=`.
    pub odd: bool,
    /// `NAME=(…)`: an array.
    pub array: Option<Vec<Word>>,
}

/// Where a command reads from or writes to.
#[derive(Clone, PartialEq, Debug)]
pub enum Redirect {
    /// Output to `/dev/null`: 1, 2, or 3 for both.
    Discard(u8),
    /// `2>&1`.
    Merge,
    /// `>&2`.
    ToStderr,
    /// `> FILE`.
    Write(Word),
    /// `>> FILE`.
    Append(Word),
    /// `< FILE`.
    Read(Word),
    /// `<<EOF`: the content of the here-document.
    Heredoc(Vec<Part>),
    /// `<<< WORD`.
    Herestring(Word),
    Other,
}

/// One word, before expansion.
#[derive(Clone, PartialEq, Debug)]
pub struct Word {
    pub range: Range<usize>,
    pub source: String,
    pub parts: Vec<Part>,
}

/// A part of a word.
#[derive(Clone, PartialEq, Debug)]
pub enum Part {
    Text {
        text: String,
        quoted: bool,
    },
    /// `$NAME`, `${NAME}`, `${NAME:-default}`.
    Var {
        name: String,
        default: Option<Vec<Part>>,
        quoted: bool,
    },
    /// `$(…)`: the text inside it.
    Command {
        text: String,
        quoted: bool,
    },
    /// A pattern, a brace expansion, arithmetic, `~`, and anything else.
    Other,
}

impl Word {
    /// The text of the word, if it contains no expansion.
    pub fn literal(&self) -> Option<String> {
        literal(&self.parts)
    }

    /// Reads a word from its text.
    pub fn read(source: &str, start: usize) -> Self {
        let inner = source.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        // Most words are this simple.
        let parts = match inner {
            _ if super::is_safe(source) => vec![Part::Text { text: source.to_owned(), quoted: false }],
            Some(inner) if super::is_safe(inner) => vec![Part::Text { text: inner.to_owned(), quoted: true }],
            _ => parts(source, Mode::Word),
        };
        Self { range: start..start + source.len(), source: source.to_owned(), parts }
    }

    /// The variable, if the word consists of exactly one variable, quoted or not.
    pub fn variable(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [Part::Var { name, default: None, .. }] => Some(name),
            _ => None,
        }
    }

    /// The variables in the word, including those in substitutions.
    pub fn variables(&self, found: &mut Vec<String>) {
        variables(&self.parts, found);
    }
}

/// The text of the parts, if they contain no expansion.
pub fn literal(parts: &[Part]) -> Option<String> {
    parts.iter().map(|p| if let Part::Text { text, .. } = p { Some(text.as_str()) } else { None }).collect()
}

fn variables(parts: &[Part], found: &mut Vec<String>) {
    for part in parts {
        match part {
            Part::Var { name, default, .. } => {
                found.push(name.clone());
                variables(default.as_deref().unwrap_or_default(), found);
            }
            Part::Command { text, .. } => found.extend(names_in(text)),
            _ => {}
        }
    }
}

/// Every `$NAME` and `${NAME` in a text, and every bare name inside `$((…))`. May return too many names, but never too
/// few.
pub fn names_in(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let bytes = text.as_bytes();
    let (mut at, mut end) = (0, 0);
    while let Some(i) = text[at..].find('$') {
        at += i + 1;
        // A nested `$((` ends at the same place, and its names are already collected.
        if text[at..].starts_with("((") && at >= end {
            end = text[at..].find("))").map_or(text.len(), |e| at + e);
            let inner = &text[at..end];
            found.extend(
                inner
                    .split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
                    .filter(|w| is_name(w))
                    .map(str::to_owned),
            );
        }
        let start = at + bytes[at..].iter().take_while(|b| matches!(b, b'{' | b'#' | b'!')).count();
        let len = bytes[start..].iter().take_while(|b| b.is_ascii_alphanumeric() || **b == b'_').count();
        if len > 0 {
            found.push(text[start..start + len].to_owned());
        }
    }
    found
}

pub use crate::hir::is_variable as is_name;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Word,
    /// Inside `"…"`.
    Quoted,
    Heredoc,
}

/// Splits a text into parts as the shell does, up to its end.
fn parts(text: &str, mode: Mode) -> Vec<Part> {
    let mut out: Vec<Part> = Vec::new();
    let quoted = mode != Mode::Word;
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        let rest = &text[at..];
        let mut step = c.len_utf8();
        match c {
            '\\' => {
                let next = rest[1..].chars().next();
                let escapes = match (mode, next) {
                    (_, None) => false,
                    (Mode::Word, Some(_)) => true,
                    (Mode::Quoted, Some(n)) => matches!(n, '$' | '`' | '"' | '\\' | '\n'),
                    (Mode::Heredoc, Some(n)) => matches!(n, '$' | '`' | '\\' | '\n'),
                };
                match next {
                    Some(n) if escapes => {
                        step = 1 + n.len_utf8();
                        if n != '\n' {
                            push(&mut out, n, true);
                        }
                    }
                    _ => push(&mut out, c, quoted),
                }
            }
            '\'' if mode == Mode::Word => match rest[1..].find('\'') {
                Some(end) => {
                    push_text(&mut out, &rest[1..=end], true);
                    step = end + 2;
                }
                None => return vec![Part::Other],
            },
            '"' if mode == Mode::Word => match closing_quote(rest) {
                Some(end) => {
                    let inner = parts(&rest[1..end], Mode::Quoted);
                    if inner.is_empty() {
                        push_text(&mut out, "", true);
                    }
                    for part in inner {
                        match part {
                            Part::Text { text, .. } => push_text(&mut out, &text, true),
                            other => out.push(other),
                        }
                    }
                    step = end + 1;
                }
                None => return vec![Part::Other],
            },
            // A quote inside a quoted default: `"${NAME:-"a b"}"`.
            '"' if mode == Mode::Quoted => {}
            '`' => out.push(Part::Other),
            '$' if mode == Mode::Word && rest[1..].starts_with('\'') && ansi(&rest[2..]).is_some() => {
                if let Some((text, len)) = ansi(&rest[2..]) {
                    push_text(&mut out, &text, true);
                    step = len + 2;
                }
            }
            '$' => {
                let (part, len) = dollar(rest, quoted);
                match part {
                    Some(part) => out.push(part),
                    None => push(&mut out, '$', quoted),
                }
                step = len;
            }
            '*' | '?' | '[' if mode == Mode::Word => out.push(Part::Other),
            // `<(command)`
            '<' | '>' if mode == Mode::Word && rest[1..].starts_with('(') => out.push(Part::Other),
            '{' if mode == Mode::Word
                && rest.find('}').is_some_and(|e| rest[..e].contains(',') || rest[..e].contains("..")) =>
            {
                out.push(Part::Other);
            }
            '~' if mode == Mode::Word && at == 0 => out.push(Part::Other),
            _ => push(&mut out, c, quoted),
        }
        at += step;
    }
    out
}

/// The text of `$'…'` behind its first quote, and its length with the last quote. `None` for escapes with digits.
fn ansi(rest: &str) -> Option<(String, usize)> {
    let mut text = String::new();
    let mut chars = rest.char_indices();
    while let Some((at, c)) = chars.next() {
        text.push(match c {
            '\'' => return Some((text, at + 1)),
            '\\' => match chars.next()?.1 {
                't' => '\t',
                'n' => '\n',
                c @ ('\\' | '\'' | '"') => c,
                _ => return None,
            },
            c => c,
        });
    }
    None
}

fn push(out: &mut Vec<Part>, c: char, quoted: bool) {
    push_text(out, c.encode_utf8(&mut [0; 4]), quoted);
}

fn push_text(out: &mut Vec<Part>, more: &str, is_quoted: bool) {
    if let Some(Part::Text { text, quoted }) = out.last_mut() {
        text.push_str(more);
        *quoted |= is_quoted;
    } else {
        out.push(Part::Text { text: more.to_owned(), quoted: is_quoted });
    }
}

/// The patterns of `A | "b c"*`. `None` if one is empty, or contains blanks outside of quotes.
fn alternatives(text: &str) -> Option<Vec<&str>> {
    let mut patterns = Vec::new();
    let (mut from, mut at) = (0, 0);
    while let Some(c) = text[at..].chars().next() {
        at += match c {
            '\\' => 1 + text[at + 1..].chars().next().map_or(0, char::len_utf8),
            '\'' => 2 + text[at + 1..].find('\'')?,
            '"' => 1 + closing_quote(&text[at..])?,
            '$' | '(' => return None,
            '|' => {
                patterns.push(text[from..at].trim());
                from = at + 1;
                1
            }
            c => c.len_utf8(),
        };
    }
    patterns.push(text[from..].trim());
    let is_plain = |pattern: &&str| {
        let mut bare = pattern.to_string();
        for quote in ['"', '\''] {
            while let Some((before, rest)) = bare.split_once(quote).map(|(a, b)| (a.to_owned(), b.to_owned())) {
                bare = before + rest.split_once(quote).map_or("", |(_, behind)| behind);
            }
        }
        !pattern.is_empty() && !bare.contains(char::is_whitespace)
    };
    patterns.iter().all(is_plain).then_some(patterns)
}

/// The offset of the quote that closes `"…"`, skipping substitutions.
pub(super) fn closing_quote(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return Some(at),
            b'$' if bytes.get(at + 1) == Some(&b'(') => at += closing(&text[at + 1..], b'(', b')')? + 2,
            b'$' if bytes.get(at + 1) == Some(&b'{') => at += closing(&text[at + 1..], b'{', b'}')? + 2,
            _ => at += 1,
        }
    }
    None
}

/// The offset of the bracket that closes the one at the start of the text, skipping quotes.
pub fn closing(text: &str, open: u8, close: u8) -> Option<usize> {
    let bytes = text.as_bytes();
    let (mut depth, mut at) = (0usize, 0);
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 1,
            b'\'' if open == b'(' => at += 1 + text[at + 1..].find('\'')?,
            b'"' => at += closing_quote(&text[at..])?,
            b if b == open => depth += 1,
            b if b == close => {
                depth -= 1;
                if depth == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
        at += 1;
    }
    None
}

/// The part that starts at a `$`, and its length.
fn dollar(text: &str, quoted: bool) -> (Option<Part>, usize) {
    let rest = &text[1..];
    if rest.starts_with("((") {
        return (Some(Part::Other), closing(rest, b'(', b')').map_or(text.len(), |e| e + 2));
    }
    if rest.starts_with('(') {
        return match closing(rest, b'(', b')') {
            Some(end) => (Some(Part::Command { text: rest[1..end].to_owned(), quoted }), end + 2),
            None => (Some(Part::Other), text.len()),
        };
    }
    if let Some(inner) = rest.strip_prefix("{#").and_then(|r| r.split_once('}')).map(|(inner, _)| inner) {
        // A length: `${#NAME}`, `${#NAME[@]}`.
        let name = inner.strip_suffix("[@]").or_else(|| inner.strip_suffix("[*]")).unwrap_or(inner);
        let part = match is_name(name) {
            true => Part::Var { name: format!("#{name}"), default: None, quoted },
            false => Part::Other,
        };
        return (Some(part), inner.len() + 4);
    }
    if rest.starts_with('{') {
        let Some(end) = closing(rest, b'{', b'}') else { return (Some(Part::Other), text.len()) };
        let inner = &rest[1..end];
        let len = inner.bytes().take_while(|b| b.is_ascii_alphanumeric() || *b == b'_').count();
        let (name, op) = inner.split_at(len);
        let part = match op.strip_prefix(":-") {
            _ if name.is_empty() => Part::Other,
            _ if op.is_empty() => Part::Var { name: name.to_owned(), default: None, quoted },
            Some(default) => {
                let mode = if quoted { Mode::Quoted } else { Mode::Word };
                Part::Var { name: name.to_owned(), default: Some(parts(default, mode)), quoted }
            }
            None => Part::Other,
        };
        return (Some(part), end + 2);
    }
    let len = rest.bytes().take_while(|b| b.is_ascii_alphanumeric() || *b == b'_').count();
    match rest.bytes().next() {
        Some(b) if b.is_ascii_digit() => (Some(Part::Var { name: rest[..1].to_owned(), default: None, quoted }), 2),
        Some(b'?' | b'@' | b'*' | b'#' | b'!' | b'$' | b'-') => (Some(Part::Other), 2),
        Some(b'\'' | b'"') if !quoted => (Some(Part::Other), text.len()),
        _ if len > 0 => (Some(Part::Var { name: rest[..len].to_owned(), default: None, quoted }), len + 1),
        _ => (None, 1),
    }
}

/// The maximum nesting depth of statements. Deeper statements are not understood.
const DEPTH: usize = 60;

/// The script's statements. Returns `None` if the parser found something it does not know.
pub fn read(script: &Script) -> Option<List> {
    if script.is_sound() {
        return Some(Reader { script }.list(script.root(), DEPTH));
    }
    // The grammar does not know every form of `[[ … ]]`; here the contents of tests are plain texts.
    let Script { tree, .. } = super::parse(&without_tests(&script.text)?).filter(Script::is_sound)?;
    let script = Script { text: script.text.clone(), tree };
    Some(Reader { script: &script }.list(script.root(), DEPTH))
}

/// A script in which each `[[ … ]]` is replaced with a simple test of the same length. Returns `None` if there is no such
/// test, or if one is not closed.
fn without_tests(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let mut out = text.to_owned();
    let (mut at, mut begins) = (0, true);
    while at < bytes.len() {
        let rest = &text[at..];
        if begins && rest.starts_with("[[") && bytes.get(at + 2).is_some_and(u8::is_ascii_whitespace) {
            let end = end_of_test(text, at + 2)?;
            let inner = at + 3..end;
            if inner.len() > 4 {
                out.replace_range(inner.clone(), &format!("-n {} ", "x".repeat(inner.len() - 4)));
            }
            at = end;
        }
        let rest = &text[at..];
        let len = match bytes[at] {
            b'\\' => 1 + rest[1..].chars().next().map_or(0, char::len_utf8),
            b'#' if begins => rest.find('\n').unwrap_or(rest.len()),
            b'\'' => rest[1..].find('\'').map_or(rest.len(), |end| end + 2),
            b'"' => closing_quote(rest).map_or(rest.len(), |end| end + 1),
            _ => rest.chars().next().map_or(1, char::len_utf8),
        };
        begins = matches!(bytes[at], b' ' | b'\t' | b'\n' | b';' | b'(' | b'!');
        at += len;
    }
    (out != text).then_some(out)
}

/// The offset of the `]]` that closes a test.
fn end_of_test(text: &str, from: usize) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = from;
    while at < bytes.len() {
        let rest = &text[at..];
        if rest.starts_with("]]") && bytes[at - 1].is_ascii_whitespace() {
            return Some(at);
        }
        at += match bytes[at] {
            b'\\' => 1 + rest[1..].chars().next().map_or(0, char::len_utf8),
            b'\'' => rest[1..].find('\'')? + 2,
            b'"' => closing_quote(rest)? + 1,
            b'$' if rest.starts_with("$(") => closing(&rest[1..], b'(', b')')? + 2,
            _ => rest.chars().next().map_or(1, char::len_utf8),
        };
    }
    None
}

struct Reader<'s> {
    script: &'s Script,
}

impl<'s> Reader<'s> {
    fn list(&self, node: Node<'s>, depth: usize) -> List {
        self.of(children(node), depth)
    }

    fn of(&self, nodes: Vec<Node<'s>>, depth: usize) -> List {
        let mut list: List = Vec::new();
        let mut comments = Vec::new();
        let mut last_line = None;
        for child in nodes {
            match child.kind() {
                "comment" => {
                    let text = self.text(child);
                    let own_line = last_line != Some(child.start_position().row);
                    if own_line && !text.starts_with("#!") {
                        comments.push(text.trim_start_matches('#').trim().to_owned());
                    }
                }
                "&" => {
                    if let Some(last) = list.last_mut() {
                        last.background = true;
                        last.range.end = child.end_byte();
                    }
                }
                kind if child.is_named() && kind != "heredoc_body" && kind != "heredoc_end" => {
                    let mut stmt = self.stmt(child, depth);
                    stmt.comments = std::mem::take(&mut comments);
                    last_line = Some(child.end_position().row);
                    list.push(stmt);
                }
                _ => {}
            }
        }
        list
    }

    fn text(&self, node: Node<'s>) -> &'s str {
        self.script.text(node)
    }

    fn stmt(&self, node: Node<'s>, depth: usize) -> Stmt {
        let kind = depth.checked_sub(1).and_then(|depth| self.kind(node, depth));
        let kind = kind.unwrap_or_else(|| Kind::Other(self.text(node).to_owned()));
        Stmt { range: node.byte_range(), kind, comments: Vec::new(), background: false }
    }

    fn kind(&self, node: Node<'s>, depth: usize) -> Option<Kind> {
        Some(match node.kind() {
            "command" => {
                let simple = self.command(node)?;
                match simple.words.as_slice() {
                    // `test a = b` is `[ a = b ]`.
                    [name, first, .., last] if name.source == "test" && simple.env.is_empty() => {
                        let inner = self.script.text.get(first.range.start..last.range.end)?;
                        let mut kind = Kind::Test(inner.to_owned(), false);
                        attach(&mut kind, simple.redirects, Vec::new())?;
                        kind
                    }
                    // `let n++` is `((n++))`.
                    [name, word] if name.source == "let" && simple.env.is_empty() && simple.redirects.is_empty() => {
                        let changed = word.literal().and_then(|text| arithmetic(&format!("(({text}))")));
                        changed.unwrap_or(Kind::Simple(simple))
                    }
                    _ => Kind::Simple(simple),
                }
            }
            "redirected_statement" => return self.redirected(node, depth),
            "variable_assignment" => Kind::Assign(vec![self.assign(node)]),
            "variable_assignments" => Kind::Assign(
                children(node)
                    .into_iter()
                    .filter(|c| c.kind() == "variable_assignment")
                    .map(|c| self.assign(c))
                    .collect(),
            ),
            "declaration_command" => self.declaration(node),
            "test_command" => {
                let text = self.text(node);
                match text.strip_prefix("[[").and_then(|t| t.strip_suffix("]]")) {
                    Some(inner) => Kind::Test(joined(inner.trim()), true),
                    None => Kind::Test(joined(text.strip_prefix('[')?.strip_suffix(']')?.trim()), false),
                }
            }
            "pipeline" => {
                if has_token(node, "|&") {
                    return None;
                }
                let mut list = self.list(node, depth);
                // `! a | b` negates the whole pipeline; in the grammar, it negates only the first command.
                match list.first_mut().map(|s| (&mut s.kind, s.range.clone())) {
                    Some((Kind::Not(inner), range)) => {
                        let first = std::mem::replace(&mut **inner, plain(range.clone(), Kind::Pipeline(Vec::new())));
                        list[0] = first;
                        Kind::Not(Box::new(plain(node.byte_range(), Kind::Pipeline(list))))
                    }
                    _ => piped(list),
                }
            }
            "list" => {
                let pair: [Stmt; 2] = self.list(node, depth).try_into().ok()?;
                if has_token(node, "&&") { Kind::And(Box::new(pair)) } else { Kind::Or(Box::new(pair)) }
            }
            "negated_command" => Kind::Not(Box::new(self.list(node, depth).pop()?)),
            "if_statement" => self.conditional(node, depth)?,
            "while_statement" => Kind::While {
                until: has_token(node, "until"),
                condition: self.of(fields(node, "condition"), depth),
                body: self.body(node, depth)?,
            },
            "for_statement" => {
                if has_token(node, "select") {
                    return None;
                }
                let values = fields(node, "value").into_iter().map(|n| self.word(n)).collect();
                let var = self.text(node.child_by_field_name("variable")?).to_owned();
                Kind::For { var, values, body: self.body(node, depth)? }
            }
            "c_style_for_statement" => {
                let part = |name| node.child_by_field_name(name).map(|n| self.text(n).replace(' ', ""));
                let init = part("initializer")?;
                let (var, first) = init.split_once('=')?;
                let condition = part("condition")?;
                let update = part("update")?;
                let limit = condition.strip_prefix(var)?;
                let (inclusive, limit) = match limit.strip_prefix("<=") {
                    Some(limit) => (1, limit),
                    None => (0, limit.strip_prefix('<')?),
                };
                let counts =
                    update == format!("{var}++") || update == format!("++{var}") || update == format!("{var}+=1");
                let rounds = limit.parse::<u32>().ok().zip(first.parse::<u32>().ok());
                let rounds = rounds.filter(|_| counts).and_then(|(l, f)| (l + inclusive).checked_sub(f));
                Kind::Count { var: var.to_owned(), rounds, body: self.body(node, depth)? }
            }
            "case_statement" => self.case(node, depth)?,
            "compound_statement" if has_token(node, "((") => arithmetic(self.text(node))?,
            "compound_statement" => Kind::Group(self.list(node, depth)),
            "subshell" => Kind::Subshell(self.list(node, depth)),
            "function_definition" => {
                let body = self.stmt(node.child_by_field_name("body")?, depth);
                let Kind::Group(body) = body.kind else { return None };
                Kind::Function { name: self.text(node.child_by_field_name("name")?).to_owned(), body }
            }
            _ => return None,
        })
    }

    /// Rewrites a `case` as a chain of `if`: the first pattern that matches decides.
    fn case(&self, node: Node<'s>, depth: usize) -> Option<Kind> {
        let subject = self.text(node.child_by_field_name("value")?);
        let mut branches = Vec::new();
        let mut otherwise = None;
        for item in children(node).into_iter().filter(|c| c.kind() == "case_item") {
            if has_token(item, ";&") || has_token(item, ";;&") || otherwise.is_some() {
                return None;
            }
            let end = children(item).into_iter().find(|c| c.kind() == ")")?.end_byte();
            let body = children(item).into_iter().filter(|c| c.start_byte() >= end).collect();
            let body = self.of(body, depth);
            // The grammar splits patterns such as `*"a b"*`.
            let written = self.script.text.get(item.start_byte()..end - 1)?.trim();
            let patterns = alternatives(written.strip_prefix('(').unwrap_or(written))?;
            if patterns.contains(&"*") {
                otherwise = Some(body);
                continue;
            }
            let tests: Vec<_> = patterns.iter().map(|pattern| format!("{subject} == {pattern}")).collect();
            let test = Kind::Test(tests.join(" || "), true);
            let range = item.start_byte()..end;
            branches.push((vec![plain(range, test)], body));
        }
        (!branches.is_empty()).then_some(Kind::If { branches, otherwise })
    }

    fn body(&self, node: Node<'s>, depth: usize) -> Option<List> {
        Some(self.list(node.child_by_field_name("body")?, depth))
    }

    fn word(&self, node: Node<'s>) -> Word {
        Word::read(self.text(node), node.start_byte())
    }

    fn command(&self, node: Node<'s>) -> Option<Simple> {
        let mut simple = Simple::default();
        let mut end = node.start_byte();
        for child in children(node) {
            // Text that the grammar leaves out is not understood.
            if self.script.text[end..child.start_byte()].chars().any(|c| !c.is_whitespace() && c != '\\') {
                return None;
            }
            end = child.end_byte();
            match child.kind() {
                "variable_assignment" => simple.env.push(self.assign(child)),
                "comment" => {}
                kind if kind.ends_with("_redirect") => simple.redirects.extend(self.redirect(child)),
                _ => simple.words.push(self.word(child)),
            }
        }
        Some(simple)
    }

    fn assign(&self, node: Node<'s>) -> Assign {
        let name = node.child_by_field_name("name").map(|n| self.text(n)).unwrap_or_default();
        let value = node.child_by_field_name("value");
        let array = value.filter(|v| v.kind() == "array");
        let items = array.map(|v| children(v).into_iter().filter(Node::is_named).map(|c| self.word(c)).collect());
        let odd = array.is_some() || !is_name(name) || has_token(node, "+=");
        let value = match value {
            _ if array.is_some() => None,
            Some(v) => Some(self.word(v)),
            None if odd => None,
            None => Some(Word::read("", node.end_byte())),
        };
        Assign {
            name: name.split('[').next().unwrap_or_default().to_owned(),
            value,
            export: false,
            local: false,
            odd,
            array: items,
        }
    }

    fn declaration(&self, node: Node<'s>) -> Kind {
        let parts = children(node);
        let word = parts.first().map_or("", |n| self.text(*n));
        let mut assigns = Vec::new();
        let mut flags = false;
        // A name for another variable.
        if parts[1..]
            .iter()
            .any(|part| part.kind() == "word" && self.text(*part).starts_with('-') && self.text(*part).contains('n'))
        {
            return Kind::Other(self.text(node).to_owned());
        }
        for child in &parts[1..] {
            match child.kind() {
                "variable_assignment" => assigns.push(self.assign(*child)),
                "variable_name" => assigns.push(Assign {
                    name: self.text(*child).to_owned(),
                    value: None,
                    export: false,
                    local: false,
                    odd: word != "export" && word != "local",
                    array: None,
                }),
                _ => flags |= !matches!(self.text(*child), "-r"),
            }
        }
        for assign in &mut assigns {
            assign.export = word == "export";
            assign.local = word == "local";
            assign.odd |= flags;
        }
        Kind::Assign(assigns)
    }

    fn conditional(&self, node: Node<'s>, depth: usize) -> Option<Kind> {
        let mut branches = vec![self.branch(node, depth)?];
        let mut otherwise = None;
        for child in children(node) {
            match child.kind() {
                "elif_clause" => branches.push(self.branch(child, depth)?),
                "else_clause" => otherwise = Some(self.list(child, depth)),
                _ => {}
            }
        }
        Some(Kind::If { branches, otherwise })
    }

    fn branch(&self, node: Node<'s>, depth: usize) -> Option<(List, List)> {
        let all = children(node);
        let then = all.iter().position(|c| c.kind() == "then")?;
        let mine = |c: &Node<'s>| !matches!(c.kind(), "elif_clause" | "else_clause");
        let condition = all[..then].iter().copied().filter(mine).collect();
        let body = all[then + 1..].iter().copied().filter(mine).collect();
        Some((self.of(condition, depth), self.of(body, depth)))
    }

    fn redirected(&self, node: Node<'s>, depth: usize) -> Option<Kind> {
        let body = node.child_by_field_name("body")?;
        let mut inner = self.stmt(body, depth).kind;
        if let Kind::Group(body) = inner {
            return self.logged(node, body);
        }
        let mut redirects = Vec::new();
        let mut arguments = Vec::new();
        let lost = self.script.lost_words(node)?;
        let lost = lost.into_iter().map(|range| Word::read("-", range.start));
        let mut wrap: Option<Node<'s>> = None;
        let mut right: Option<(bool, Stmt)> = None;
        for redirect in children(node).into_iter().filter(|c| c.kind().ends_with("_redirect")) {
            redirects.extend(self.redirect(redirect));
            if redirect.kind() == "heredoc_redirect" {
                // In the grammar, the text after `<<EOF` on the same line is part of the here-document.
                for child in children(redirect) {
                    match child.kind() {
                        "pipeline" => wrap = Some(child),
                        kind if kind.ends_with("_redirect") => redirects.extend(self.redirect(child)),
                        _ => {}
                    }
                }
                arguments.extend(fields(redirect, "argument"));
                if let (Some(op), Some(stmt)) =
                    (redirect.child_by_field_name("operator"), redirect.child_by_field_name("right"))
                {
                    right = Some((self.text(op) == "&&", self.stmt(stmt, depth)));
                }
            }
        }
        let arguments: Vec<_> = lost.chain(arguments.into_iter().map(|a| self.word(a))).collect();
        attach(&mut inner, redirects, arguments)?;
        if let Some(pipe) = wrap {
            let mut parts = vec![plain(node.byte_range(), inner)];
            let mut rest = self.list(pipe, depth);
            // `cat <<EOF | kubectl apply -f - && echo`: in the tree, the rest of the line is below the pipe.
            if let [Stmt { kind: Kind::And(_) | Kind::Or(_), .. }] = rest.as_slice() {
                let Stmt { kind, .. } = rest.remove(0);
                let (and, pair) = match kind {
                    Kind::And(pair) => (true, pair),
                    Kind::Or(pair) => (false, pair),
                    _ => return None,
                };
                let [first, second] = *pair;
                parts.push(first);
                let joined = plain(node.byte_range(), Kind::Pipeline(parts));
                let pair = Box::new([joined, second]);
                inner = if and { Kind::And(pair) } else { Kind::Or(pair) };
            } else {
                parts.append(&mut rest);
                inner = Kind::Pipeline(parts);
            }
        }
        if let Some((and, stmt)) = right {
            let first = plain(node.byte_range(), inner);
            let pair = Box::new([first, stmt]);
            inner = if and { Kind::And(pair) } else { Kind::Or(pair) };
        }
        Some(inner)
    }

    /// A group with redirections, if they redirect only its output.
    fn logged(&self, node: Node<'s>, body: List) -> Option<Kind> {
        let redirects: Vec<_> = children(node).into_iter().filter(|c| c.kind().ends_with("_redirect")).collect();
        let mut log = None;
        for redirect in &redirects {
            match self.redirect(*redirect)? {
                Redirect::ToStderr if redirects.len() == 1 => return Some(Kind::Group(body)),
                Redirect::Merge => {}
                Redirect::Write(_) | Redirect::Append(_) | Redirect::Other
                    if log.is_none() && redirect.kind() == "file_redirect" =>
                {
                    let file = redirect.child_by_field_name("destination")?;
                    let sign = self.script.text.get(redirect.start_byte()..file.start_byte())?.trim();
                    let append = matches!(sign, ">>" | "1>>" | "&>>");
                    (append || matches!(sign, ">" | "1>" | "&>")).then_some(())?;
                    log = Some((self.word(file), append));
                }
                _ => return None,
            }
        }
        let (file, append) = log?;
        Some(Kind::Logged { body, file, append })
    }

    /// Whether the name of a file goes on after the node that should contain it.
    fn is_cut(&self, node: Node<'s>) -> bool {
        let end = node.child_by_field_name("destination").map_or(node.end_byte(), |file| file.end_byte());
        let ends = |c: char| c.is_whitespace() || ";&|)<>`".contains(c);
        self.script.text[end..].starts_with(|c: char| !ends(c))
    }

    fn redirect(&self, node: Node<'s>) -> Option<Redirect> {
        let text = self.text(node);
        Some(match node.kind() {
            "herestring_redirect" => {
                Redirect::Herestring(children(node).into_iter().find(Node::is_named).map(|c| self.word(c))?)
            }
            "heredoc_redirect" => {
                let start = children(node).into_iter().find(|c| c.kind() == "heredoc_start")?;
                let marker = self.text(start);
                let body = children(node).into_iter().find(|c| c.kind() == "heredoc_body");
                let mut body = body.map_or(String::new(), |b| self.text(b).to_owned());
                if text.trim_start_matches(|c: char| c.is_ascii_digit()).starts_with("<<-") {
                    body = body.split_inclusive('\n').map(|l| l.trim_start_matches('\t')).collect();
                }
                match marker.contains(['\'', '"', '\\']) {
                    true => Redirect::Heredoc(vec![Part::Text { text: body, quoted: true }]),
                    false => Redirect::Heredoc(parts(&body, Mode::Heredoc)),
                }
            }
            _ => match text.replace(' ', "").as_str() {
                ">/dev/null" | "1>/dev/null" => Redirect::Discard(1),
                "2>/dev/null" => Redirect::Discard(2),
                "&>/dev/null" | ">&/dev/null" => Redirect::Discard(3),
                "2>&1" => Redirect::Merge,
                ">&2" | "1>&2" => Redirect::ToStderr,
                "</dev/null" => return None,
                // In the grammar, a name such as `a-$n.log` may end at its last `$`.
                _ if self.is_cut(node) => Redirect::Other,
                _ => {
                    let digits = text.trim_start_matches('1');
                    if let (Some(rest), Some(from)) = (text.strip_prefix('<'), node.child_by_field_name("destination"))
                        && !rest.starts_with(['>', '&', '('])
                    {
                        return Some(Redirect::Read(self.word(from)));
                    }
                    match (digits.strip_prefix('>'), node.child_by_field_name("destination")) {
                        (Some(rest), Some(to)) if rest.starts_with('>') => Redirect::Append(self.word(to)),
                        (Some(rest), Some(to)) if !rest.starts_with(['&', '|']) => Redirect::Write(self.word(to)),
                        _ => Redirect::Other,
                    }
                }
            },
        })
    }
}

fn plain(range: Range<usize>, kind: Kind) -> Stmt {
    Stmt { range, kind, comments: Vec::new(), background: false }
}

/// A pipeline. In the grammar, what follows `a | b | c && d` may be below the last pipe.
fn piped(mut list: List) -> Kind {
    let behind = |list: List, pair: Box<[Stmt; 2]>, range: Range<usize>| {
        let [last, other] = *pair;
        let begin = list.first().map_or(range.start, |first| first.range.start);
        let end = last.range.end;
        let last = match last {
            Stmt { kind: Kind::Pipeline(inner), background: false, .. } => inner,
            last => vec![last],
        };
        Box::new([plain(begin..end, piped([list, last].concat())), other])
    };
    match list.pop() {
        Some(Stmt { kind: Kind::And(pair), range, background: false, .. }) => Kind::And(behind(list, pair, range)),
        Some(Stmt { kind: Kind::Or(pair), range, background: false, .. }) => Kind::Or(behind(list, pair, range)),
        last => {
            list.extend(last);
            Kind::Pipeline(list)
        }
    }
}

/// `((a < 3))` as a test, and `((a++))` as a step. An unset variable counts as 0.
fn arithmetic(text: &str) -> Option<Kind> {
    let inner = text.strip_prefix("((")?.strip_suffix("))")?.trim();
    for change in ["++", "--"] {
        if let Some(name) = inner.strip_suffix(change).or_else(|| inner.strip_prefix(change))
            && is_name(name.trim())
        {
            return Some(Kind::Step(name.trim().to_owned()));
        }
    }
    if let Some((name, by)) = inner.split_once("+=")
        && is_name(name.trim())
        && by.trim().bytes().all(|b| b.is_ascii_digit())
    {
        let name = name.trim();
        if by.trim() == "1" {
            return Some(Kind::Step(name.to_owned()));
        }
        let value = Some(Word::read(&format!("$(({name}+{}))", by.trim()), 0));
        let (name, array) = (name.to_owned(), None);
        return Some(Kind::Assign(vec![Assign { name, value, export: false, local: false, odd: false, array }]));
    }
    let operators = [("==", "-eq"), ("!=", "-ne"), ("<=", "-le"), (">=", "-ge"), ("<", "-lt"), (">", "-gt")];
    let compared =
        operators.into_iter().find_map(|(sign, word)| inner.split_once(sign).map(|(a, b)| (a.trim(), b.trim(), word)));
    // `((n))` is true if the number is not 0.
    let (a, b, operator) = compared.unwrap_or((inner, "0", "-ne"));
    let operand = |text: &str| -> Option<String> {
        let name = text.trim_start_matches('$').trim_start_matches('{').trim_end_matches('}');
        let count = text.strip_prefix("${#").and_then(|text| text.strip_suffix("[@]}"));
        if count.is_some_and(is_name) {
            return Some(format!("\"{text}\""));
        }
        match (is_name(name), text.parse::<u64>()) {
            (true, _) => Some(format!("\"${{{name}:-0}}\"")),
            (_, Ok(number)) => Some(number.to_string()),
            _ => None,
        }
    };
    Some(Kind::Test(format!("{} {operator} {}", operand(a)?, operand(b)?), false))
}

/// The test on a single line: a `\\` at the end of a line, outside of quotes, and the newline are replaced with two
/// blanks.
fn joined(inner: &str) -> String {
    let mut out = String::new();
    let mut rest = inner;
    while let Some(c) = rest.chars().next() {
        let len = match c {
            '\\' if rest[1..].starts_with('\n') => {
                out.push_str("  ");
                rest = &rest[2..];
                continue;
            }
            '\\' => 1 + rest[1..].chars().next().map_or(0, char::len_utf8),
            '\'' => rest[1..].find('\'').map_or(rest.len(), |end| end + 2),
            '"' => closing_quote(rest).map_or(rest.len(), |end| end + 1),
            '$' if rest[1..].starts_with('(') => closing(&rest[1..], b'(', b')').map_or(rest.len(), |end| end + 2),
            _ => c.len_utf8(),
        };
        out.push_str(&rest[..len]);
        rest = &rest[len..];
    }
    out
}

/// Attaches redirections and further arguments to the statement that they belong to.
fn attach(kind: &mut Kind, redirects: Vec<Redirect>, arguments: Vec<Word>) -> Option<()> {
    if redirects.is_empty() && arguments.is_empty() {
        return Some(());
    }
    match kind {
        Kind::Simple(simple) => {
            simple.words.extend(arguments);
            simple.redirects.extend(redirects);
            Some(())
        }
        Kind::Test(..) => redirects.iter().all(|r| matches!(r, Redirect::Discard(_) | Redirect::Merge)).then_some(()),
        // In the grammar, a redirection at the end of `a | b` or `a && b` belongs to the whole; in the shell, it belongs
        // to the last command.
        Kind::Pipeline(list) => attach(&mut list.last_mut()?.kind, redirects, arguments),
        Kind::And(pair) | Kind::Or(pair) => attach(&mut pair[1].kind, redirects, arguments),
        Kind::Not(inner) => attach(&mut inner.kind, redirects, arguments),
        _ => None,
    }
}

fn children<'s>(node: Node<'s>) -> Vec<Node<'s>> {
    let mut cursor = node.walk();
    node.children(&mut cursor).collect()
}

fn fields<'s>(node: Node<'s>, name: &str) -> Vec<Node<'s>> {
    let mut cursor = node.walk();
    node.children_by_field_name(name, &mut cursor).filter(Node::is_named).collect()
}

fn has_token(node: Node<'_>, token: &str) -> bool {
    children(node).iter().any(|c| c.kind() == token)
}

/// The words of a piece of a script, up to a `;` or its end. Quotes and expansions are kept together. `start` is the offset of the
/// piece.
pub fn split(text: &str, start: usize) -> Vec<Word> {
    words(text, start).collect()
}

/// Like [`split`], but lazy: a caller that needs only the first word of a long text does not read the rest.
pub fn words(text: &str, start: usize) -> impl Iterator<Item = Word> {
    let bytes = text.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        while at < bytes.len() && bytes[at] != b';' {
            if matches!(bytes[at], b' ' | b'\t' | b'\n') {
                at += 1;
                continue;
            }
            if text[at..].starts_with("\\\n") {
                at += 2;
                continue;
            }
            let from = at;
            while at < bytes.len() && !matches!(bytes[at], b' ' | b'\t' | b'\n' | b';') {
                let rest = &text[at..];
                at += match bytes[at] {
                    b'\\' => 1 + rest[1..].chars().next().map_or(0, char::len_utf8),
                    b'\'' => rest[1..].find('\'').map_or(rest.len(), |end| end + 2),
                    b'"' => closing_quote(rest).map_or(rest.len(), |end| end + 1),
                    b'`' => rest[1..].find('`').map_or(rest.len(), |end| end + 2),
                    b'$' if rest.starts_with("$(") => closing(&rest[1..], b'(', b')').map_or(rest.len(), |end| end + 2),
                    b'$' if rest.starts_with("${") => closing(&rest[1..], b'{', b'}').map_or(rest.len(), |end| end + 2),
                    _ => rest.chars().next().map_or(1, char::len_utf8),
                };
            }
            return Some(Word::read(&text[from..at], start + from));
        }
        None
    })
}

/// The parts of a text inside `"…"` or in a here-document.
pub fn quoted(text: &str, in_document: bool) -> Vec<Part> {
    parts(text, if in_document { Mode::Heredoc } else { Mode::Quoted })
}
