//! Checks whether a shell can parse a script, and where it cannot, according to the POSIX grammar and the extensions of
//! bash. Tree-sitter accepts some scripts that a shell rejects, and rejects some that a shell accepts.
//!
//! No fault is reported for anything that depends on earlier commands of a script (`alias`, `shopt -s extglob`), that
//! follows an `exit`, or that versions of bash read differently.

use std::ops::Range;

use crate::hir::is_variable as is_name;

/// The shell grammar to check against.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Grammar {
    Bash,
    /// What any `sh` knows: extensions of bash are read as words or are not checked.
    Posix,
}

/// The first place where a shell reports a syntax error.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    pub at: Range<usize>,
    pub message: String,
    /// The innermost open construct, and what it waits for.
    pub open: Option<(Range<usize>, String)>,
}

/// What is wrong with a script.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// The error for which the shell rejects the script, if any.
    pub fault: Option<Fault>,
    /// A here-document that runs to the end of the script, with its delimiter. Shells print a warning at most.
    pub endless: Option<(Range<usize>, String)>,
    /// Whether something is nested deeper than [`DEPTH`], so that the script was not read to its end.
    pub deep: bool,
}

/// Reads a script as a shell does.
pub fn check(text: &str, grammar: Grammar) -> Report {
    // These change how the text after them is read.
    if ["alias", "extglob"].iter().any(|word| text.contains(word)) {
        return Report::default();
    }
    let mut parser = Parser {
        text,
        bytes: text.as_bytes(),
        at: 0,
        grammar,
        next: None,
        documents: Vec::new(),
        endless: None,
        open: Vec::new(),
        depth: 0,
        exited: false,
        deep: false,
    };
    let fault = match parser.script() {
        // The text after `exit` may not be a script. A closing word without its opening word is in a script
        // nevertheless.
        Err(Stop::Fault(fault)) if !parser.exited || CLOSERS.contains(&&text[fault.at.clone()]) => Some(*fault),
        Ok(()) | Err(_) => None,
    };
    Report { fault, endless: parser.endless, deep: parser.deep }
}

enum Stop {
    Fault(Box<Fault>),
    /// Parsing stops without a verdict.
    Unsure,
}

type Parsed<T = ()> = Result<T, Stop>;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    End,
    Newline,
    Operator,
    Redirect,
    Word,
}

#[derive(Clone, Copy, Debug)]
struct Token {
    kind: Kind,
    start: usize,
    end: usize,
}

/// A here-document that started on the current line.
struct Document {
    at: Range<usize>,
    delimiter: String,
    quoted: bool,
    tabs: bool,
}

struct Parser<'t> {
    text: &'t str,
    bytes: &'t [u8],
    at: usize,
    grammar: Grammar,
    /// The token that was peeked last.
    next: Option<Token>,
    documents: Vec<Document>,
    endless: Option<(Range<usize>, String)>,
    /// Open constructs: the place, the opening word, and the word that closes it.
    open: Vec<(Range<usize>, &'static str, &'static str)>,
    depth: usize,
    /// Whether a command at the top level has ended the script.
    exited: bool,
    deep: bool,
}

/// The nesting limit, which protects the stack. No script is nested this deep.
const DEPTH: usize = 120;

/// Longer operators come first.
const OPERATORS: [(&str, Kind); 23] = [
    ("&>>", Kind::Redirect),
    (";;&", Kind::Operator),
    ("<<-", Kind::Redirect),
    ("<<<", Kind::Redirect),
    ("&&", Kind::Operator),
    ("||", Kind::Operator),
    (";;", Kind::Operator),
    (";&", Kind::Operator),
    ("|&", Kind::Operator),
    ("&>", Kind::Redirect),
    ("<<", Kind::Redirect),
    (">>", Kind::Redirect),
    ("<&", Kind::Redirect),
    (">&", Kind::Redirect),
    ("<>", Kind::Redirect),
    (">|", Kind::Redirect),
    ("<", Kind::Redirect),
    (">", Kind::Redirect),
    (";", Kind::Operator),
    ("&", Kind::Operator),
    ("|", Kind::Operator),
    ("(", Kind::Operator),
    (")", Kind::Operator),
];

/// Operators that only bash has.
const OF_BASH: [&str; 6] = ["&>>", ";;&", "<<<", ";&", "|&", "&>"];

/// Builtins whose arguments may be arrays.
const DECLARES: [&str; 8] = ["alias", "declare", "eval", "export", "let", "local", "readonly", "typeset"];

/// Words that end a list, in command position.
const CLOSERS: [&str; 8] = ["then", "else", "elif", "fi", "do", "done", "esac", "}"];

impl<'t> Parser<'t> {
    fn script(&mut self) -> Parsed {
        loop {
            self.newlines()?;
            if self.peek(true)?.kind == Kind::End {
                return Ok(());
            }
            let start = self.peek(true)?;
            self.and_or()?;
            let end = self.peek(true)?;
            match (end.kind, self.slice(end)) {
                (Kind::End, _) => return Ok(()),
                (Kind::Newline, _) | (Kind::Operator, ";" | "&") => {
                    self.take(true)?;
                }
                _ => return Err(self.unexpected(end)),
            }
            let line = &self.text[start.start..end.start];
            match self.slice(start) {
                "exit" if !line.contains(['&', '|']) => self.exited = true,
                // The script continues after `exec >log`.
                "exec" if !line.contains(['&', '|', '<', '>']) => return Err(Stop::Unsure),
                _ => {}
            }
        }
    }

    // ---- commands

    /// Reads at least one command, up to a word or an operator that ends the list.
    fn list(&mut self, ends: &[&str]) -> Parsed {
        self.deeper(|parser| {
            parser.newlines()?;
            loop {
                parser.and_or()?;
                let end = parser.peek(true)?;
                match (end.kind, parser.slice(end)) {
                    (Kind::Newline, _) => parser.newlines()?,
                    (Kind::Operator, ";" | "&") => {
                        parser.take(true)?;
                        parser.newlines()?;
                    }
                    _ => return Ok(()),
                }
                if parser.is_end(ends)? {
                    return Ok(());
                }
            }
        })
    }

    fn is_end(&mut self, ends: &[&str]) -> Parsed<bool> {
        let next = self.peek(true)?;
        let word = self.slice(next);
        Ok(next.kind == Kind::End || ends.contains(&word) || CLOSERS.contains(&word))
    }

    fn and_or(&mut self) -> Parsed {
        loop {
            self.pipeline()?;
            if !self.operator(&["&&", "||"])? {
                return Ok(());
            }
            self.newlines()?;
        }
    }

    fn pipeline(&mut self) -> Parsed {
        let mut prefixed = false;
        loop {
            let next = self.peek(true)?;
            match self.slice(next) {
                "!" => {
                    self.take(true)?;
                    prefixed = true;
                }
                "time" if self.is_bash() => {
                    self.take(true)?;
                    let option = self.peek(true)?;
                    if ["-p", "--"].contains(&self.slice(option)) {
                        self.take(true)?;
                    }
                    prefixed = true;
                }
                _ => break,
            }
        }
        // `time` and `!` may also appear without a command.
        if prefixed {
            let next = self.peek(true)?;
            if matches!(next.kind, Kind::End | Kind::Newline) || self.slice(next) == ";" {
                return Ok(());
            }
            if next.kind == Kind::Operator && self.slice(next) != "(" {
                return Err(Stop::Unsure);
            }
        }
        loop {
            self.command()?;
            if !self.operator(&["|", "|&"])? {
                return Ok(());
            }
            self.newlines()?;
            let next = self.peek(true)?;
            if ["!", "time"].contains(&self.slice(next)) {
                return Err(Stop::Unsure);
            }
        }
    }

    fn command(&mut self) -> Parsed {
        let next = self.peek(true)?;
        let word = self.slice(next);
        match (next.kind, word) {
            (Kind::Redirect, _) => self.simple(),
            (Kind::Word, word) if CLOSERS.contains(&word) => Err(self.unexpected(next)),
            (Kind::Word, "in" | "]]") if self.is_bash() => Err(self.unexpected(next)),
            (Kind::Word, _) | (Kind::Operator, "(") => match self.compound()? {
                true => self.redirects(),
                false => self.simple(),
            },
            _ => Err(self.unexpected(next)),
        }
    }

    /// Reads a compound command or a function, if one starts here.
    fn compound(&mut self) -> Parsed<bool> {
        let next = self.peek(true)?;
        let bash = self.is_bash();
        match self.slice(next) {
            "if" => self.block("if", "fi", Self::conditional)?,
            "while" => self.block("while", "done", Self::looping)?,
            "until" => self.block("until", "done", Self::looping)?,
            "for" => self.block("for", "done", Self::each)?,
            "select" if bash => self.block("select", "done", Self::each)?,
            "case" => self.block("case", "esac", Self::case)?,
            "{" => self.block("{", "}", |parser| parser.list_to("}"))?,
            "(" => {
                let start = next.start;
                if bash && self.bytes.get(start + 1) == Some(&b'(') && self.arithmetic(start + 2)? {
                    return Ok(true);
                }
                self.block("(", ")", |parser| parser.list_to(")"))?;
            }
            "[[" if bash => self.block("[[", "]]", Self::condition)?,
            "function" if bash => {
                self.take(true)?;
                self.expect_word()?;
                if self.operator(&["("])? {
                    self.closing()?;
                }
                self.body()?;
            }
            "coproc" if bash => return Err(Stop::Unsure),
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn block(&mut self, name: &'static str, end: &'static str, inside: fn(&mut Self) -> Parsed) -> Parsed {
        let begin = self.take(true)?;
        self.open.push((begin.start..begin.end, name, end));
        self.deeper(inside)?;
        self.open.pop();
        Ok(())
    }

    fn list_to(&mut self, end: &'static str) -> Parsed {
        self.list(&[end])?;
        self.word(end)
    }

    fn conditional(&mut self) -> Parsed {
        self.list(&["then"])?;
        self.word("then")?;
        loop {
            self.list(&["elif", "else", "fi"])?;
            let next = self.take(true)?;
            match self.slice(next) {
                "fi" => return Ok(()),
                "else" => return self.list_to("fi"),
                "elif" => {
                    self.list(&["then"])?;
                    self.word("then")?;
                }
                _ => return Err(self.missing("fi", next)),
            }
        }
    }

    fn looping(&mut self) -> Parsed {
        self.list(&["do"])?;
        self.word("do")?;
        self.list_to("done")
    }

    fn each(&mut self) -> Parsed {
        let next = self.peek(false)?;
        if self.is_bash() && self.bytes[next.start..].starts_with(b"((") {
            if !self.arithmetic(next.start + 2)? {
                return Err(Stop::Unsure);
            }
            self.operator(&[";"])?;
            return self.do_group();
        }
        self.expect_word()?;
        let next = self.peek(true)?;
        if self.slice(next) == ";" {
            self.take(true)?;
            return self.do_group();
        }
        self.newlines()?;
        let next = self.peek(true)?;
        if self.slice(next) == "in" {
            self.take(false)?;
            while self.peek(false)?.kind == Kind::Word {
                self.take(false)?;
            }
            let end = self.take(false)?;
            if end.kind != Kind::Newline && self.slice(end) != ";" {
                return Err(self.unexpected(end));
            }
        }
        self.do_group()
    }

    fn do_group(&mut self) -> Parsed {
        self.newlines()?;
        let next = self.peek(true)?;
        if self.is_bash() && self.slice(next) == "{" {
            return self.block("{", "}", |parser| parser.list_to("}"));
        }
        self.word("do")?;
        self.list_to("done")
    }

    fn case(&mut self) -> Parsed {
        self.expect_word()?;
        self.newlines()?;
        self.word("in")?;
        loop {
            self.newlines()?;
            let next = self.peek(false)?;
            if self.slice(next) == "esac" {
                self.take(true)?;
                return Ok(());
            }
            self.operator(&["("])?;
            loop {
                self.expect_word()?;
                if !self.operator(&["|"])? {
                    break;
                }
            }
            self.closing()?;
            self.newlines()?;
            if !self.is_end(&[";;", ";&", ";;&", "esac"])? {
                self.list(&[";;", ";&", ";;&", "esac"])?;
            }
            if !self.operator(&[";;", ";&", ";;&"])? {
                return self.word("esac");
            }
        }
    }

    fn simple(&mut self) -> Parsed {
        let first = self.peek(true)?;
        let mut command = None;
        let mut count = 0;
        loop {
            let assigns = command.is_none_or(|word| DECLARES.contains(&word));
            let next = self.peek(assigns)?;
            match (next.kind, self.slice(next)) {
                (Kind::Word, word) => {
                    self.take(assigns)?;
                    if command.is_none() && !is_assignment(word) {
                        command = Some(word);
                    }
                }
                (Kind::Redirect, _) => self.redirect()?,
                (Kind::Operator, "(") if count == 1 && first.kind == Kind::Word && command.is_some() => {
                    self.take(true)?;
                    self.closing()?;
                    return self.body();
                }
                (Kind::Operator, "(") => {
                    // Forms that other shells, options and prefixes (`command declare`) allow.
                    let before = self.bytes[..next.start].last().copied();
                    let odd = matches!(before, Some(b'?' | b'*' | b'+' | b'@' | b'!'))
                        || before == Some(b'=') && command.is_some_and(|c| ["command", "builtin"].contains(&c));
                    return Err(if odd { Stop::Unsure } else { self.unexpected(next) });
                }
                _ => return Ok(()),
            }
            count += 1;
        }
    }

    /// Reads the body of a function.
    fn body(&mut self) -> Parsed {
        self.newlines()?;
        let next = self.peek(true)?;
        // Other shells accept any command as a body.
        if !self.is_bash() {
            return self.command();
        }
        match self.slice(next) {
            "function" | "time" | "!" | "coproc" => Err(Stop::Unsure),
            _ => match next.kind != Kind::Redirect && self.compound()? {
                true => self.redirects(),
                false => Err(self.unexpected(next)),
            },
        }
    }

    fn redirects(&mut self) -> Parsed {
        let mut redirected = false;
        loop {
            let next = self.peek(!redirected)?;
            match next.kind {
                Kind::Redirect => self.redirect()?,
                // `2` in `2>` and `{fd}` in `{fd}>` are part of the redirection.
                Kind::Word if !redirected && CLOSERS.contains(&self.slice(next)) => return Ok(()),
                Kind::Word
                    if self.slice(next) == "{" || self.bytes.get(next.end).is_some_and(|b| b"<>".contains(b)) =>
                {
                    return Err(Stop::Unsure);
                }
                Kind::Word => return Err(self.unexpected(next)),
                Kind::Operator if self.slice(next) == "(" => return Err(self.unexpected(next)),
                _ => return Ok(()),
            }
            redirected = true;
        }
    }

    fn redirect(&mut self) -> Parsed {
        let operator = self.take(false)?;
        let op = self.slice(operator).trim_start_matches(|c: char| c.is_ascii_digit());
        let mut target = self.peek(false)?;
        let digits = self.slice(target).bytes().take_while(u8::is_ascii_digit).count();
        if op.ends_with('&') && target.kind == Kind::Redirect && digits > 0 {
            // `2>&1>x`: a descriptor, followed by another redirection.
            target = Token { kind: Kind::Word, end: target.start + digits, ..target };
            (self.next, self.at) = (Some(target), target.end);
        }
        if target.kind != Kind::Word {
            return Err(self.unexpected(target));
        }
        // Must happen before reading on: the here-document starts on the next line.
        if let "<<" | "<<-" = op {
            let written = self.slice(target);
            let delimiter: String = written.chars().filter(|c| !['\'', '"', '\\'].contains(c)).collect();
            if written.contains(['$', '`', '\n']) {
                return Err(Stop::Unsure);
            }
            let quoted = delimiter.len() != written.len();
            let at = operator.start..target.end;
            self.documents.push(Document { at, delimiter, quoted, tabs: op == "<<-" });
        }
        self.take(false)?;
        Ok(())
    }

    /// Reads `[[ … ]]`, after its opening.
    fn condition(&mut self) -> Parsed {
        self.condition_or()?;
        self.newlines()?;
        self.word("]]")
    }

    fn condition_or(&mut self) -> Parsed {
        loop {
            self.deeper(Self::condition_term)?;
            self.newlines()?;
            if !self.operator(&["&&", "||"])? {
                return Ok(());
            }
        }
    }

    fn condition_term(&mut self) -> Parsed {
        self.newlines()?;
        let next = self.peek(false)?;
        match (next.kind, self.slice(next)) {
            (Kind::Word, "!") => {
                self.take(false)?;
                self.condition_term()
            }
            (Kind::Operator, "(") => {
                self.take(false)?;
                self.condition_or()?;
                self.closing()
            }
            (Kind::Word, "]]") => Err(self.unexpected(next)),
            (Kind::Word, word) => {
                self.take(false)?;
                let unary = word.len() == 2 && word.starts_with('-') && word.as_bytes()[1].is_ascii_alphabetic();
                let operator = self.peek(false)?;
                match (operator.kind, self.slice(operator)) {
                    (Kind::Operator, "&&" | "||" | ")") => Ok(()),
                    (Kind::Word, "]]") if unary => Err(self.unexpected(operator)),
                    (Kind::Word, "]]") => Ok(()),
                    (Kind::Word, "==" | "=" | "!=" | "=~") => {
                        self.take(false)?;
                        self.pattern()
                    }
                    (Kind::Word, "-eq" | "-ne" | "-lt" | "-le" | "-gt" | "-ge" | "-nt" | "-ot" | "-ef")
                    | (Kind::Redirect, "<" | ">") => {
                        self.take(false)?;
                        self.expect_word()
                    }
                    (Kind::Word, _) if unary => {
                        self.take(false)?;
                        Ok(())
                    }
                    _ => Err(self.unexpected(operator)),
                }
            }
            _ => Err(self.unexpected(next)),
        }
    }

    /// Reads the right-hand side of `==` and `=~`, of which parentheses are a part.
    fn pattern(&mut self) -> Parsed {
        self.blanks();
        if self.bytes[self.at..].starts_with(b"]] ") || self.text[self.at..].trim_end() == "]]" {
            let end = self.take(false)?;
            return Err(self.unexpected(end));
        }
        let (start, mut depth) = (self.at, 0);
        while let Some(&byte) = self.bytes.get(self.at) {
            match byte {
                b'(' => depth += 1,
                b')' if depth == 0 => break,
                b')' => depth -= 1,
                b' ' | b'\t' if depth == 0 => break,
                b'&' | b';' if depth == 0 => break,
                b'\n' => return Err(Stop::Unsure),
                b'|' if depth == 0 && self.bytes.get(self.at + 1) == Some(&b'|') => break,
                _ => {
                    self.piece()?;
                    continue;
                }
            }
            self.at += 1;
        }
        if self.at == start || depth > 0 {
            return Err(Stop::Unsure);
        }
        Ok(())
    }

    // ---- tokens

    fn is_bash(&self) -> bool {
        self.grammar == Grammar::Bash
    }

    fn slice(&self, token: Token) -> &'t str {
        &self.text[token.start..token.end]
    }

    fn deeper<T>(&mut self, inside: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth == DEPTH {
            self.deep = true;
            return Err(Stop::Unsure);
        }
        self.depth += 1;
        let found = inside(self);
        self.depth -= 1;
        found
    }

    /// `assigns`: whether an assignment, with an array or a subscript, is allowed here.
    fn peek(&mut self, assigns: bool) -> Parsed<Token> {
        match self.next {
            Some(token) => Ok(token),
            None => {
                let token = self.lex(assigns)?;
                self.next = Some(token);
                Ok(token)
            }
        }
    }

    fn take(&mut self, assigns: bool) -> Parsed<Token> {
        let token = self.peek(assigns)?;
        self.next = None;
        Ok(token)
    }

    fn newlines(&mut self) -> Parsed {
        while self.peek(true)?.kind == Kind::Newline {
            self.take(true)?;
        }
        Ok(())
    }

    /// Consumes one of these operators, if it is next.
    fn operator(&mut self, operators: &[&str]) -> Parsed<bool> {
        let next = self.peek(true)?;
        let found = next.kind == Kind::Operator && operators.contains(&self.slice(next));
        if found {
            self.next = None;
        }
        Ok(found)
    }

    fn closing(&mut self) -> Parsed {
        match self.operator(&[")"])? {
            true => Ok(()),
            false => {
                let next = self.peek(true)?;
                Err(self.missing(")", next))
            }
        }
    }

    /// Consumes this word or operator, or fails.
    fn word(&mut self, word: &str) -> Parsed {
        let next = self.take(true)?;
        if self.slice(next) == word { Ok(()) } else { Err(self.missing(word, next)) }
    }

    fn expect_word(&mut self) -> Parsed {
        let next = self.take(false)?;
        if next.kind == Kind::Word { Ok(()) } else { Err(self.unexpected(next)) }
    }

    fn unexpected(&self, token: Token) -> Stop {
        let open = self.open.last();
        if token.kind == Kind::End {
            return match open {
                Some((at, word, end)) => {
                    let message = format!("`{word}` is not closed: `{end}` is missing");
                    Stop::Fault(Box::new(Fault { at: at.clone(), message, open: None }))
                }
                None => fault(token.start..token.end, "unexpected end: a command is missing".to_owned(), None),
            };
        }
        let found = self.slice(token);
        let message = match (token.kind, open) {
            (Kind::Newline, _) => "unexpected end of line".to_owned(),
            (_, Some((_, _, "]]"))) if found == "]]" => "an operand is missing before `]]`".to_owned(),
            (_, Some((_, _, end))) if *end == found => format!("a command is missing before `{found}`"),
            (_, None) if CLOSERS.contains(&found) || found == ")" => format!("unexpected `{found}`"),
            _ => format!("unexpected `{found}`"),
        };
        fault(token.start..token.end, message, self.waiting())
    }

    /// The error for a word or an operator that is missing before a token.
    fn missing(&self, word: &str, token: Token) -> Stop {
        let found = match token.kind {
            Kind::End => return self.unexpected(token),
            Kind::Newline => "the end of the line".to_owned(),
            _ => format!("`{}`", self.slice(token)),
        };
        fault(token.start..token.end, format!("`{word}` is missing before {found}"), self.waiting())
    }

    /// The innermost open construct, and what it waits for.
    fn waiting(&self) -> Option<(Range<usize>, String)> {
        let (at, word, end) = self.open.last()?;
        Some((at.clone(), format!("`{word}` is opened here and requires `{end}`")))
    }

    fn blanks(&mut self) {
        loop {
            match self.bytes[self.at..] {
                [b' ' | b'\t', ..] => self.at += 1,
                [b'\\', b'\n', ..] => self.at += 2,
                _ => return,
            }
        }
    }

    fn lex(&mut self, assigns: bool) -> Parsed<Token> {
        self.blanks();
        let start = self.at;
        let token = |kind, end| Token { kind, start, end };
        match self.bytes.get(start) {
            None => {
                self.documents_end();
                return Ok(token(Kind::End, start));
            }
            Some(b'#') => {
                self.at = self.text[start..].find('\n').map_or(self.text.len(), |i| start + i);
                return self.lex(assigns);
            }
            Some(b'\n') => {
                self.at += 1;
                self.bodies();
                return Ok(token(Kind::Newline, start + 1));
            }
            _ => {}
        }
        let rest = &self.text[start..];
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let operator = OPERATORS.iter().find(|(op, kind)| {
            let at = if *kind == Kind::Redirect { &rest[digits..] } else { rest };
            at.starts_with(op) && (self.is_bash() || !OF_BASH.contains(op)) && (digits == 0 || !op.starts_with('&'))
        });
        let substitutes = self.is_bash() && matches!(rest.as_bytes(), [b'<' | b'>', b'(', ..]);
        match operator.filter(|_| !substitutes) {
            Some((op, kind)) => {
                let digits = if *kind == Kind::Redirect { digits } else { 0 };
                self.at += digits + op.len();
                Ok(token(*kind, self.at))
            }
            None => {
                self.whole_word(assigns)?;
                Ok(token(Kind::Word, self.at))
            }
        }
    }

    fn whole_word(&mut self, assigns: bool) -> Parsed {
        let start = self.at;
        while let Some(&byte) = self.bytes.get(self.at) {
            let written = &self.text[start..self.at];
            match byte {
                b'<' | b'>' if self.is_bash() && self.bytes.get(self.at + 1) == Some(&b'(') => {
                    self.substitution(self.at + 2, 2)?
                }
                b' ' | b'\t' | b'\n' | b';' | b'&' | b'|' | b'<' | b'>' | b')' => break,
                b'(' if assigns && self.is_bash() && is_assignment(written) && written.ends_with('=') => {
                    self.array()?
                }
                b'(' => break,
                b'[' if assigns && self.is_bash() && is_name(written) => self.subscript()?,
                _ => self.piece()?,
            }
        }
        Ok(())
    }

    /// Reads one character of a word, or one quoted or expanded part.
    fn piece(&mut self) -> Parsed {
        match self.bytes.get(self.at) {
            Some(b'\\') => {
                self.at += 1;
                self.character();
                Ok(())
            }
            Some(b'\'') => self.single(),
            Some(b'"') => self.double(),
            Some(b'`') => self.backticks(),
            Some(b'$') => self.dollar(false),
            _ => {
                self.character();
                Ok(())
            }
        }
    }

    fn character(&mut self) {
        self.at += self.text[self.at..].chars().next().map_or(0, char::len_utf8);
    }

    fn unclosed(&self, at: usize, len: usize, what: &str) -> Stop {
        fault(at..at + len, format!("{what} is not closed"), self.waiting())
    }

    fn single(&mut self) -> Parsed {
        let start = self.at;
        match self.text[start + 1..].find('\'') {
            Some(end) => self.at = start + 1 + end + 1,
            None => return Err(self.unclosed(start, 1, "this `'`")),
        }
        Ok(())
    }

    /// Reads `$'…'`, starting at its quote.
    fn ansi(&mut self) -> Parsed {
        let start = self.at;
        self.at += 1;
        loop {
            match self.bytes.get(self.at) {
                None => return Err(self.unclosed(start - 1, 2, "this `$'`")),
                Some(b'\'') => break,
                Some(b'\\') => self.at += 1,
                _ => {}
            }
            self.character();
        }
        self.at += 1;
        Ok(())
    }

    fn double(&mut self) -> Parsed {
        let start = self.at;
        self.at += 1;
        loop {
            match self.bytes.get(self.at) {
                None => return Err(self.unclosed(start, 1, "this `\"`")),
                Some(b'"') => break,
                Some(b'\\') => {
                    self.at += 1;
                    self.character();
                }
                Some(b'`') => self.backticks()?,
                Some(b'$') => self.dollar(true)?,
                _ => self.character(),
            }
        }
        self.at += 1;
        Ok(())
    }

    /// Skips backticks. Their content is parsed when they run.
    fn backticks(&mut self) -> Parsed {
        let start = self.at;
        self.at += 1;
        loop {
            match self.bytes.get(self.at) {
                None => return Err(self.unclosed(start, 1, "this `` ` ``")),
                Some(b'`') => break,
                Some(b'\\') => {
                    self.at += 1;
                    self.character();
                }
                _ => self.character(),
            }
        }
        self.at += 1;
        Ok(())
    }

    fn dollar(&mut self, quoted: bool) -> Parsed {
        let start = self.at;
        match self.bytes[start + 1..] {
            // Arithmetic, or a subshell that is parsed when it runs.
            [b'(', b'(', ..] => {
                self.at += 2;
                self.deeper(|parser| parser.enclosed(start, (b'(', b')'), "this `$((`"))
            }
            [b'(', ..] => self.substitution(start + 2, 2),
            [b'{', ..] => {
                self.at += 2;
                self.deeper(|parser| parser.braces(start, quoted))
            }
            [b'[', ..] if self.is_bash() => {
                self.at += 2;
                self.deeper(|parser| parser.enclosed(start, (b'[', b']'), "this `$[`"))
            }
            [b'\'', ..] if !quoted && self.is_bash() => {
                self.at += 1;
                self.ansi()
            }
            [b'\'' | b'"', ..] => {
                self.at += 1;
                Ok(())
            }
            // `$$(` is not a substitution.
            [b'$', ..] => {
                self.at += 2;
                Ok(())
            }
            _ => {
                self.at += 1;
                Ok(())
            }
        }
    }

    /// Reads `${…}`, after its opening.
    fn braces(&mut self, start: usize, quoted: bool) -> Parsed {
        self.open.push((start..self.at, "${", "}"));
        // `${#a}`, `${a#b}`, `${$}`: not a comment, not an expansion.
        if matches!(self.bytes[self.at..], [b'#' | b'$' | b'!' | b'?', ..]) {
            self.at += 1;
        }
        loop {
            match self.bytes.get(self.at) {
                None => {
                    let end = Token { kind: Kind::End, start: self.at, end: self.at };
                    return Err(self.unexpected(end));
                }
                Some(b'}') => break,
                // Inside double quotes, only bash treats it as a quote.
                Some(b'\'') if quoted && !self.is_bash() => self.at += 1,
                Some(b'$') => self.dollar(quoted)?,
                Some(b'{' | b'<' | b'>') => self.at += 1,
                _ => self.piece()?,
            }
        }
        self.open.pop();
        self.at += 1;
        Ok(())
    }

    /// Reads `$((…))` after its first parenthesis, and `$[…]`, up to the closing bracket.
    fn enclosed(&mut self, start: usize, (open, close): (u8, u8), name: &str) -> Parsed {
        let len = self.at - start + usize::from(open == b'(');
        let mut depth = 0;
        loop {
            match self.bytes.get(self.at) {
                None => return Err(self.unclosed(start, len, name)),
                Some(byte) if *byte == open => depth += 1,
                Some(byte) if *byte == close && depth == 0 => break,
                Some(byte) if *byte == close => depth -= 1,
                _ => {
                    self.piece()?;
                    continue;
                }
            }
            self.at += 1;
        }
        self.at += 1;
        Ok(())
    }

    /// Reads `((…))`, after its opening. Returns false, without consuming anything, if this is not arithmetic.
    fn arithmetic(&mut self, from: usize) -> Parsed<bool> {
        let back = (self.at, self.next.take());
        let open = self.open.len();
        self.at = from;
        let mut depth = 0;
        loop {
            match self.bytes.get(self.at) {
                // An unclosed construct is reported when the text is read as commands.
                None => break,
                Some(b'(') => depth += 1,
                Some(b')') if depth > 0 => depth -= 1,
                Some(b')') if self.bytes.get(self.at + 1) == Some(&b')') => {
                    self.at += 2;
                    return Ok(true);
                }
                Some(b')') => break,
                _ => {
                    if self.piece().is_err() {
                        break;
                    }
                    continue;
                }
            }
            self.at += 1;
        }
        self.open.truncate(open);
        (self.at, self.next) = back;
        Ok(false)
    }

    /// Reads `$(…)` and `<(…)`, after their opening of `len` bytes.
    fn substitution(&mut self, from: usize, len: usize) -> Parsed {
        self.deeper(|parser| parser.substituted(from, len))
    }

    fn substituted(&mut self, from: usize, len: usize) -> Parsed {
        let start = from - len;
        let outer = (self.next.take(), std::mem::take(&mut self.documents));
        self.at = from;
        let name = if self.bytes[start] == b'$' { "$(" } else { "<(" };
        self.open.push((start..from, name, ")"));
        self.newlines()?;
        if !self.is_end(&[")"])? {
            self.list(&[")"])?;
        }
        let end = self.take(true)?;
        if self.slice(end) != ")" || end.kind != Kind::Operator {
            return Err(self.missing(")", end));
        }
        if !self.documents.is_empty() {
            return Err(Stop::Unsure);
        }
        self.open.pop();
        self.at = end.end;
        (self.next, self.documents) = outer;
        Ok(())
    }

    /// Reads the `(…)` of an assignment.
    fn array(&mut self) -> Parsed {
        let start = self.at;
        self.at += 1;
        let outer = self.next.take();
        self.open.push((start..start + 1, "(", ")"));
        self.deeper(|parser| {
            loop {
                let next = parser.take(false)?;
                match (next.kind, parser.slice(next)) {
                    (Kind::Word | Kind::Newline, _) => {}
                    (_, ")") => return Ok(()),
                    _ => return Err(parser.unexpected(next)),
                }
            }
        })?;
        self.open.pop();
        self.next = outer;
        Ok(())
    }

    /// Reads the `[…]` of an assignment.
    fn subscript(&mut self) -> Parsed {
        self.at += 1;
        loop {
            match self.bytes.get(self.at) {
                None | Some(b'\n' | b'[') => return Err(Stop::Unsure),
                Some(b']') => break,
                _ => self.piece()?,
            }
        }
        self.at += 1;
        Ok(())
    }

    // ---- here-documents

    /// Reads the bodies of the here-documents that started on the previous line.
    fn bodies(&mut self) {
        for document in std::mem::take(&mut self.documents) {
            let mut joined = false;
            loop {
                if self.at >= self.text.len() {
                    self.endless.get_or_insert((document.at.clone(), document.delimiter.clone()));
                    break;
                }
                let rest = &self.text[self.at..];
                let (line, len) = rest.find('\n').map_or((rest, rest.len()), |i| (&rest[..i], i + 1));
                self.at += len;
                let own = if document.tabs { line.trim_start_matches('\t') } else { line };
                if !joined && own == document.delimiter {
                    break;
                }
                let slashes = line.bytes().rev().take_while(|b| *b == b'\\').count();
                joined = !document.quoted && slashes % 2 == 1;
            }
        }
    }

    fn documents_end(&mut self) {
        if let Some(document) = self.documents.drain(..).next() {
            self.endless.get_or_insert((document.at, document.delimiter));
        }
    }
}

fn fault(at: Range<usize>, message: String, open: Option<(Range<usize>, String)>) -> Stop {
    Stop::Fault(Box::new(Fault { at, message, open }))
}

/// Whether a word is an assignment: `a=…`, `a+=…`, `a[i]=…`.
fn is_assignment(word: &str) -> bool {
    let Some((name, _)) = word.split_once('=') else { return false };
    let name = name.strip_suffix('+').unwrap_or(name);
    is_name(name) || name.split_once('[').is_some_and(|(name, rest)| is_name(name) && rest.contains(']'))
}
