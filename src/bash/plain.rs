//! Reads typical task scripts without the parser: commands, pipes, lists, conditions and loops. Rarer constructs, and
//! those that the grammar reads in a peculiar way, are left to the parser. The result is the same as the parser's.

use std::ops::Range;

use super::{
    KEYWORDS, Word,
    program::{Branch, Kind, Program, Repeat, Statement},
};

/// Returns what the parser would produce for a text, or `None` if the text may contain something this reader does not
/// know.
pub fn read(text: &str) -> Option<Program> {
    let mut reader = Reader { text, at: 0, depth: 0 };
    let body = reader.list()?;
    (reader.at == text.len()).then(|| Program::new(body, true))
}

/// The maximum nesting depth of statements.
const DEPTH: usize = 40;

/// Commands whose arguments the grammar does not read as plain words.
const DECLARING: [&str; 7] = ["declare", "typeset", "export", "readonly", "local", "unset", "unsetenv"];

struct Reader<'t> {
    text: &'t str,
    at: usize,
    depth: usize,
}

/// The range of a word, and whether it contains no expansion.
struct Piece {
    range: Range<usize>,
    literal: bool,
}

impl<'t> Reader<'t> {
    fn peek(&self) -> Option<u8> {
        self.ahead(0)
    }

    fn ahead(&self, by: usize) -> Option<u8> {
        self.text.as_bytes().get(self.at + by).copied()
    }

    fn take(&mut self, token: &str) -> Option<()> {
        self.text.as_bytes()[self.at..].starts_with(token.as_bytes()).then(|| self.at += token.len())
    }

    /// Skips blanks, and newlines escaped with a backslash if the command continues after them.
    fn blanks(&mut self) {
        let blank = |b: &&u8| matches!(b, b' ' | b'\t');
        let bytes = self.text.as_bytes();
        loop {
            self.at += bytes[self.at..].iter().take_while(blank).count();
            let Some(rest) = bytes[self.at..].strip_prefix(b"\\\n") else { return };
            if matches!(rest.iter().find(|b| !blank(b)), None | Some(b'\n' | b';' | b')' | b'#' | b'\\')) {
                return;
            }
            self.at += 2;
        }
    }

    /// Skips blanks, empty lines and comments.
    fn lines(&mut self) {
        loop {
            self.blanks();
            match self.peek() {
                Some(b'\n') => self.at += 1,
                Some(b'#') => self.at += self.text[self.at..].find('\n').unwrap_or(self.text.len() - self.at),
                _ => return,
            }
        }
    }

    /// The text up to the next blank or operator, which may be a reserved word.
    fn keyword(&self) -> &'t str {
        let rest = &self.text[self.at..];
        let end = rest
            .bytes()
            .position(|b| matches!(b, b' ' | b'\t' | b'\n' | b';' | b'&' | b'|' | b'(' | b')' | b'<' | b'>'));
        &rest[..end.unwrap_or(rest.len())]
    }

    /// Consumes a reserved word that is required here.
    fn reserved(&mut self, word: &str) -> Option<()> {
        (self.keyword() == word).then(|| self.at += word.len())
    }

    /// Reads statements up to the end of the text, a closing bracket or a reserved word that ends a part.
    fn list(&mut self) -> Option<Vec<Statement>> {
        self.depth += 1;
        let mut list = Vec::new();
        loop {
            self.lines();
            let ends = matches!(self.keyword(), "then" | "do" | "done" | "else" | "elif" | "fi" | "}");
            if ends || matches!(self.peek(), None | Some(b')')) {
                self.depth -= 1;
                return Some(list);
            }
            let mut statement = self.and_or()?;
            self.blanks();
            match self.peek() {
                Some(b';') if self.ahead(1) != Some(b';') => self.at += 1,
                Some(b'&') => {
                    self.at += 1;
                    statement.background = true;
                    statement.range.end = self.at;
                }
                None | Some(b'\n' | b'#' | b')') => {}
                _ => return None,
            }
            list.push(statement);
        }
    }

    /// Reads a list that must not be empty.
    fn some(&mut self) -> Option<Vec<Statement>> {
        self.list().filter(|list| !list.is_empty())
    }

    /// Reads pipelines joined with `&&` and `||`, which have the same precedence.
    fn and_or(&mut self) -> Option<Statement> {
        let mut left = self.pipeline()?;
        for _ in 0..super::DEPTH / 2 {
            self.blanks();
            let and = match (self.peek(), self.ahead(1)) {
                (Some(b'&'), Some(b'&')) => true,
                (Some(b'|'), Some(b'|')) => false,
                _ => return Some(left),
            };
            self.at += 2;
            self.lines();
            let right = self.pipeline()?;
            let range = left.range.start..right.range.end;
            let pair = Box::new([left, right]);
            left = statement(range, if and { Kind::And(pair) } else { Kind::Or(pair) });
        }
        None
    }

    /// Reads one command, or several joined with pipes.
    fn pipeline(&mut self) -> Option<Statement> {
        let mut parts = vec![self.part()?];
        loop {
            self.blanks();
            if self.peek() != Some(b'|') || matches!(self.ahead(1), Some(b'|' | b'&')) {
                break;
            }
            self.at += 1;
            self.lines();
            parts.push(Statement { fed: true, ..self.part()? });
        }
        super::program::pipeline(parts)
    }

    /// Reads a command with its redirections.
    fn part(&mut self) -> Option<Statement> {
        if self.depth > DEPTH {
            return None;
        }
        let start = self.at;
        let mut inner = match self.reserved("!") {
            Some(()) => {
                self.blanks();
                let inner = self.command()?;
                let plain = matches!(inner.kind, Kind::Command(_) | Kind::Test);
                plain.then(|| statement(start..inner.range.end, Kind::Not(Box::new(inner))))?
            }
            None => self.command()?,
        };
        self.redirections(&mut inner)?;
        Some(inner)
    }

    /// Reads one command, simple or compound.
    fn command(&mut self) -> Option<Statement> {
        let start = self.at;
        let kind = match self.keyword() {
            "if" => self.conditional()?,
            word @ ("while" | "until") => {
                self.at += word.len();
                let repeat = if word == "until" { Repeat::Until } else { Repeat::While };
                // The grammar does not accept `&` here.
                let condition = self.some().filter(|list| list.iter().all(|s| !s.background))?;
                Kind::Loop { repeat, condition, body: self.do_group()? }
            }
            "for" => {
                self.at += "for".len();
                self.blanks();
                self.name()?;
                self.blanks();
                self.reserved("in")?;
                let mut nested = Vec::new();
                loop {
                    self.blanks();
                    match self.peek()? {
                        b';' | b'\n' => break,
                        _ => self.word(&mut nested)?,
                    };
                }
                self.at += 1;
                self.lines();
                let kind = Kind::Loop { repeat: Repeat::For, condition: Vec::new(), body: self.do_group()? };
                return Some(Statement { nested, ..statement(start..self.at, kind) });
            }
            "{" => {
                self.at += 1;
                let list = self.some()?;
                self.reserved("}")?;
                Kind::Group(list)
            }
            "[" => return self.test("]"),
            "[[" => return self.test("]]"),
            word if KEYWORDS.contains(&word) => return None,
            "" if self.peek() == Some(b'(') && self.ahead(1) != Some(b'(') => {
                self.at += 1;
                let list = self.some()?;
                self.take(")")?;
                Kind::Subshell(list)
            }
            name if self.text[self.at + name.len()..].starts_with("()") => return self.function(name),
            _ => return self.simple(),
        };
        Some(statement(start..self.at, kind))
    }

    fn conditional(&mut self) -> Option<Kind> {
        let mut branches = Vec::new();
        while matches!(self.keyword(), "if" | "elif") {
            self.at += self.keyword().len();
            let condition = self.some()?;
            self.reserved("then")?;
            branches.push(Branch { condition, body: self.some()? });
        }
        let otherwise = match self.reserved("else") {
            Some(()) => Some(self.some()?),
            None => None,
        };
        self.reserved("fi")?;
        Some(Kind::If { branches, otherwise })
    }

    fn do_group(&mut self) -> Option<Vec<Statement>> {
        self.reserved("do")?;
        let body = self.some()?;
        self.reserved("done")?;
        Some(body)
    }

    fn function(&mut self, name: &str) -> Option<Statement> {
        let start = self.at;
        let named = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') && !DECLARING.contains(&name);
        self.at += name.len() + "()".len();
        self.blanks();
        let body = (named && self.keyword() == "{").then(|| self.command())??;
        Some(statement(start..self.at, Kind::Function { name: name.to_owned(), body: vec![body] }))
    }

    /// Reads `[ … ]` in the forms that the grammar reads as a shell does.
    fn test(&mut self, close: &str) -> Option<Statement> {
        let start = self.at;
        self.at += close.len();
        let mut nested = Vec::new();
        let mut words: Vec<&str> = Vec::new();
        loop {
            matches!(self.peek(), Some(b' ' | b'\t')).then(|| self.blanks())?;
            match self.keyword() {
                word if word == close => break,
                word @ ("=" | "==" | "!=" | "!") => {
                    self.at += word.len();
                    words.push(word);
                }
                _ => {
                    let piece = self.word(&mut nested)?;
                    words.push(&self.text[piece.range]);
                }
            }
        }
        self.at += close.len();
        // The grammar may read text that directly follows as part of the test.
        if !matches!(self.peek(), None | Some(b' ' | b'\t' | b'\n' | b';')) {
            return None;
        }
        let unary = |op: &str| matches!(op, "-z" | "-n" | "-f" | "-d" | "-e" | "-s" | "-x" | "-r" | "-w" | "-L");
        let binary = |op: &str| matches!(op, "=" | "==" | "!=" | "-eq" | "-ne" | "-lt" | "-le" | "-gt" | "-ge");
        let operand = |word: &str| {
            let quoted = word.len() > 1 && (word.starts_with('"') && word.ends_with('"'));
            let variable =
                word.strip_prefix('$').is_some_and(|name| name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_'));
            let plain = word.bytes().all(|b| b.is_ascii_alphanumeric() || b"_./".contains(&b));
            quoted || variable || plain
        };
        let known = match words[..] {
            [op, a] | ["!", op, a] if unary(op) => operand(a),
            [a, op, b] if binary(op) => operand(a) && operand(b),
            // `[ 1=2 ]`: a single word, which the grammar does not read as a test.
            [a] => a.contains('=') && a.bytes().all(|b| b.is_ascii_alphanumeric() || b"_./=".contains(&b)),
            _ => false,
        };
        known.then(|| Statement { nested, ..statement(start..self.at, Kind::Test) })
    }

    /// Reads assignments and the words of a command.
    fn simple(&mut self) -> Option<Statement> {
        let start = self.at;
        let mut end = start;
        let mut nested = Vec::new();
        let mut words: Vec<Word> = Vec::new();
        let mut assigned = false;
        let mut declares = false;
        loop {
            self.blanks();
            match self.peek() {
                None | Some(b';' | b'&' | b'|' | b'\n' | b')' | b'<' | b'>' | b'#') => break,
                _ => {}
            }
            if words.is_empty() || declares {
                let own = self.at;
                if self.peek() != Some(b'_') && self.name().is_some() && self.take("=").is_some() {
                    self.word(&mut nested)?;
                    (assigned, end) = (true, self.at);
                    continue;
                }
                self.at = own;
            }
            let piece = self.word(&mut nested)?;
            let own = &self.text[piece.range.clone()];
            // `2> file`
            if own.bytes().all(|b| b.is_ascii_digit()) && matches!(self.peek(), Some(b'<' | b'>')) {
                self.at = piece.range.start;
                break;
            }
            let named = || own.bytes().all(|b| b.is_ascii_alphanumeric() || b"_./-".contains(&b));
            if KEYWORDS.contains(&own) || own.starts_with('=') && own != "=" || words.is_empty() && !named() {
                return None;
            }
            if words.is_empty() && DECLARING.contains(&own) {
                if assigned || own == "unsetenv" {
                    return None;
                }
                declares = true;
            } else if declares {
                // A flag, or a name.
                own.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b)).then_some(())?;
            }
            end = piece.range.end;
            words.push(Word::new(own, piece.range, piece.literal));
        }
        self.at = end;
        let kind = match words.is_empty() || declares {
            true if declares && (assigned || words.len() > 1) => Kind::Declaration,
            true if assigned => Kind::Assignment,
            true => return None,
            false => Kind::Command(words),
        };
        Some(Statement { nested, ..statement(start..end, kind) })
    }

    /// Reads the name of a variable.
    fn name(&mut self) -> Option<()> {
        let rest = &self.text.as_bytes()[self.at..];
        let length = rest.iter().position(|b| !b.is_ascii_alphanumeric() && *b != b'_').unwrap_or(rest.len());
        (length > 0 && !rest[0].is_ascii_digit()).then(|| self.at += length)
    }

    /// Reads the redirections after a command.
    fn redirections(&mut self, inner: &mut Statement) -> Option<()> {
        loop {
            let before = self.at;
            self.blanks();
            let digits = self.text.as_bytes()[self.at..].iter().take_while(|b| b.is_ascii_digit()).count();
            self.at += digits;
            if digits == 0 && self.take("<<").is_some() {
                return self.here_document(inner);
            }
            let both = digits == 0 && self.take("&>").is_some();
            let operator = match (self.peek(), self.ahead(1)) {
                _ if both => ">",
                (Some(b'>'), Some(b'>')) => ">>",
                (Some(b'>'), Some(b'&')) => ">&",
                (Some(b'>'), Some(b'|' | b'(')) | (Some(b'<'), Some(b'<' | b'(' | b'&' | b'>')) => return None,
                (Some(b'>'), _) => ">",
                (Some(b'<'), _) if digits == 0 => "<",
                _ if digits > 0 => return None,
                _ => {
                    self.at = before;
                    return Some(());
                }
            };
            // Assignments and functions are not commands that can be redirected.
            if matches!(inner.kind, Kind::Assignment | Kind::Declaration | Kind::Function { .. }) {
                return None;
            }
            if !both {
                self.at += operator.len();
            }
            if operator == ">&" {
                matches!(self.peek(), Some(b'0'..=b'9')).then(|| self.at += 1)?;
            } else {
                self.blanks();
                let piece = self.word(&mut inner.nested)?;
                if self.text[piece.range].contains('>') {
                    return None;
                }
            }
            inner.fed |= operator == "<";
            inner.written |= operator != "<";
            inner.range.end = self.at;
            let ends = matches!(self.peek(), None | Some(b' ' | b'\t' | b'\n' | b';' | b'|' | b'&' | b')' | b'\\'));
            if !ends {
                return None;
            }
        }
    }

    /// Reads the lines after `<<EOF` if `<<EOF` is the end of the statement.
    fn here_document(&mut self, inner: &mut Statement) -> Option<()> {
        let (line, rest) = self.text[self.at..].split_once('\n')?;
        let quote = line.chars().next().filter(|c| matches!(c, '\'' | '"'));
        let end = quote.map_or(Some(line), |q| line.strip_prefix(q)?.strip_suffix(q))?;
        let named = !end.is_empty() && end.bytes().all(|b| b.is_ascii_alphabetic() || b == b'_');
        let mut length = 0;
        for line in rest.split_inclusive('\n').take_while(|line| line.trim_end_matches('\n') != end) {
            // The grammar would end the document here, the shell would not.
            if line.trim_start().starts_with(end) {
                return None;
            }
            length += line.len();
        }
        let named_alone = |part: &str| part.split_once('}').is_some_and(|(name, _)| super::ast::is_name(name));
        let expands = quote.is_none()
            && (rest[..length].contains(['`', '\\', '(']) || !rest[..length].split("${").skip(1).all(named_alone));
        let ends = rest[length..].starts_with(end) && length > 0;
        if !named || expands || !ends || !matches!(inner.kind, Kind::Command(_)) {
            return None;
        }
        self.at += line.len() + 1 + length + end.len();
        inner.fed = true;
        inner.range.end = self.at;
        Some(())
    }

    /// Reads one word. The statements in its substitutions are added to `nested`.
    fn word(&mut self, nested: &mut Vec<Statement>) -> Option<Piece> {
        let start = self.at;
        let mut literal = true;
        while let Some(byte) = self.peek() {
            match byte {
                b' ' | b'\t' | b'\n' | b';' | b'&' | b'|' | b')' | b'<' | b'>' => break,
                b'\\' if self.ahead(1) == Some(b'\n') => break,
                b'\'' => self.at += 2 + self.text[self.at + 1..].find('\'')?,
                b'"' => literal &= self.quoted(nested)?,
                b'$' => {
                    self.expansion(nested)?;
                    literal = false;
                }
                b'{' | b'}' if self.at == start => return None,
                b if b.is_ascii_alphanumeric() || b"_./:=@+,-%*?~^{}\x1a".contains(&b) => self.at += 1,
                _ => return None,
            }
        }
        (self.at > start).then_some(Piece { range: start..self.at, literal })
    }

    /// Reads `"…"`. Returns whether it contains no expansion.
    fn quoted(&mut self, nested: &mut Vec<Statement>) -> Option<bool> {
        let mut literal = true;
        self.at += 1;
        loop {
            match self.peek()? {
                b'"' => break,
                b'$' => {
                    self.expansion(nested)?;
                    literal = false;
                }
                b'\\' if matches!(self.ahead(1), Some(b'"' | b'\\' | b'$' | b'n' | b't')) => self.at += 2,
                b'\\' | b'`' => return None,
                _ => self.at += 1,
            }
        }
        self.at += 1;
        Some(literal)
    }

    /// Reads `$NAME`, `${NAME}` or `$(…)`.
    fn expansion(&mut self, nested: &mut Vec<Statement>) -> Option<()> {
        self.at += 1;
        match self.peek()? {
            b'(' if self.ahead(1) == Some(b'(') => self.arithmetic(),
            b'(' => {
                self.at += 1;
                let list = self.some()?;
                self.take(")")?;
                nested.extend(list);
                Some(())
            }
            b'{' => {
                self.at += 1;
                self.name()?;
                if self.take(":-").is_some() {
                    let default = |b: &u8| b.is_ascii_alphanumeric() || b"_./-".contains(b);
                    self.at += self.text.as_bytes()[self.at..].iter().take_while(|b| default(b)).count();
                }
                self.take("}")
            }
            b'0'..=b'9' | b'?' | b'#' | b'@' | b'!' | b'$' | b'*' => {
                self.at += 1;
                Some(())
            }
            _ => self.name(),
        }
    }

    /// Reads `$((A + 1))`: operands and operators, without brackets.
    fn arithmetic(&mut self) -> Option<()> {
        self.at += "((".len();
        loop {
            self.blanks();
            self.take("$");
            let digits = self.text.as_bytes()[self.at..].iter().take_while(|b| b.is_ascii_digit()).count();
            self.at += digits;
            if digits == 0 {
                self.name()?;
            }
            self.blanks();
            if !matches!(self.peek()?, b'+' | b'-' | b'*' | b'/' | b'%') {
                return self.take("))");
            }
            self.at += 1;
        }
    }
}

fn statement(range: Range<usize>, kind: Kind) -> Statement {
    Statement { range, kind, background: false, fed: false, written: false, nested: Vec::new() }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*, sample::select};

    use super::*;
    use crate::bash;

    #[test]
    fn typical_scripts_are_read_without_the_parser() {
        for text in [
            "kubectl create namespace \"$NAMESPACE\"",
            "#!/usr/bin/env bash\nset -euo pipefail\n\n# ready\nkubectl -n demo create deployment app --image=nginx:1.27\n",
            "curl -s 'http://localhost:80/a b' -o \"${HOME}/x\"",
            "for i in 1 2 3; do\n  if [ \"$(kubectl get pod web -o name)\" = pod/web ]; then\n    exit 0\n  fi\n  sleep 2\ndone\nexit 1",
            "ready=$(kubectl get deployment web)\ntest \"$ready\" = 3 || { echo no >&2; exit 1; }\nprintf '%s' \"$TEXT\" | grep -q web",
        ] {
            assert!(read(text).is_some(), "{text}");
        }
        for text in
            ["A=1 > b", "a >", "if a", "a 'b", "[ a", "cat <<EOF\nEOF", "case a in b) c;; esac", "a `b`", "a; then"]
        {
            assert!(read(text).is_none(), "{text}");
        }
    }

    fn texts(of: &[&'static str]) -> BoxedStrategy<String> {
        select(of.to_vec()).prop_map(str::to_owned).boxed()
    }

    /// Commands made of words, some of which are special to the shell.
    fn command() -> impl Strategy<Value = String> {
        let words = bash::BUILTINS.iter().chain(KEYWORDS).chain(&DECLARING).map(|w| (*w).to_owned());
        let piece = prop_oneof![
            4 => "[a-zA-Z0-9_./:=@%+,*?~^{}\x1a-]{1,5}",
            1 => "\"[a-z $'#{}()|;&<>*=é\n-]{0,6}\"",
            1 => "'[a-z $\"#{}()|;&<>*\\\\=é\n-]{0,6}'",
            1 => "\"(\\\\[\"$\\\\n]|[a-z $]){0,3}\"",
            1 => "\\$[a-zA-Z_0-9]{1,3}",
            1 => "\\$\\{[a-zA-Z_0-9]{1,3}\\}",
            1 => select(words.collect::<Vec<_>>()),
        ];
        let plain = texts(&["a", "kubectl", "-n", "\"$A\"", "b.c", "--x=y", "'a b'", "3", "get"]);
        let word = prop_oneof![4 => plain, 1 => vec(piece, 1..3).prop_map(|pieces| pieces.concat())];
        let blank = texts(&[" ", " ", " ", "  ", "\t", " \\\n ", ""]);
        let words = vec((word, blank), 1..5).prop_map(|w| w.into_iter().flat_map(|(w, b)| [w, b]).collect::<String>());
        let before = texts(&[
            "",
            "",
            "",
            "",
            "A=1 ",
            "B=\"x y\" ",
            "A=$B ",
            "A=1 B=2 ",
            "! ",
            "export ",
            "local A=",
            "export A=1 ",
        ]);
        let behind = texts(&[
            "",
            "",
            "",
            "",
            "",
            " >/dev/null",
            " > f",
            " 2>&1",
            " >f 2>&1",
            " &>/dev/null",
            " 2> \"$f\"",
            " < f",
            " >&2",
            " >> f",
            " <f >g",
            " 1>&2",
            " 0<f",
            " 3<f",
            ">f",
            " > f x",
            " # comment",
            " >f # c",
            " &>> f",
        ]);
        (before, words, behind).prop_map(|(a, b, c)| format!("{a}{b}{c}"))
    }

    /// Commands that are mostly accepted by the reader.
    fn sane() -> impl Strategy<Value = String> {
        let name = texts(&[
            "a",
            "kubectl",
            "echo",
            "! grep",
            "A=1 b",
            "A=1 B=$C d",
            "./x.sh",
            "test",
            "export",
            "local",
            "[ -f",
            "[ \"$A\" =",
            "[[",
        ]);
        let word = texts(&[
            "a",
            "-n",
            "\"$A\"",
            "$B",
            "'a b'",
            "3",
            "b.c",
            "--x=y",
            "\"a \\\"b\\\"\"",
            "\"$(c | d)\"",
            "$(c)",
            "=",
            "A=1",
            "jsonpath={.a}",
            "x-*",
            "~/a",
            "{a}.b",
            "$1",
            "\"$?\"",
            "$#",
            "\"$@\"",
            "${A:-b}",
            "\"${A:-/x/y.z}\"",
            "a?",
            "%s",
            "a{b,c}",
            "x={{.Name}}",
            "\"%s\\n\"",
            "c^d",
            "{}",
            "$!",
            "$$",
            "\"$*\"",
            "a%",
            "${A:-}",
            "\"${1}\"",
            "{1..3}",
            "*",
            "~",
            "?",
        ]);
        let blank = texts(&[" ", " ", " ", " \\\n  "]);
        let words =
            vec((blank, word), 0..4).prop_map(|w| w.into_iter().flat_map(|(b, w)| [b, w]).collect::<String>()).boxed();
        let behind = texts(&["", "", "", " >f", " >/dev/null 2>&1", " <f", " >&2", " &>f", " 2>/dev/null"]);
        let alone = texts(&[
            "A=$(b)",
            "A=\"$(b c)\"",
            "A=1",
            "[ -z \"$A\" ]",
            "[ $A -ge 3 ]",
            "[[ $A == b ]]",
            "local A=$(b)",
            "export A B=2",
            "unset A",
            "set -e",
        ]);
        let document = texts(&[
            "<<EOF\na $B\nEOF",
            "<<'EOF'\n$(a\n\nb\nEOF",
            "> f <<EOF\n${A}: {b}\n\nEOF",
            "- <<END\na: \"b\"\n#\nEND",
            "<<EOF\na\nEOF\n",
            "<<\"X\"\n  a\nX",
        ]);
        let document = (name.clone(), words.clone(), document).prop_map(|(a, b, c)| format!("{a}{b} {c}"));
        prop_oneof![1 => document, 9 => (name, words, behind).prop_map(|(a, b, c)| match a.as_str() {
            "[ -f" | "[ \"$A\" =" => format!("{a}{b} ]{c}"),
            "[[" => format!("[[ $A == x ]]{c}"),
            _ => format!("{a}{b}{c}"),
        }), 4 => alone]
    }

    /// `[ … ]` with words and operators.
    fn test() -> impl Strategy<Value = String> {
        let word = texts(&[
            "\"$A\"", "$A", "a", "3", "\"x y\"", "\"\"", "''", "-z", "-n", "-f", "!", "=", "==", "!=", "-eq", "-ge",
            "-lt", "a.b", "/a/b", "\"$(b)\"", "$(b c)", "${A}", "-1", "a-b", "x$A", "\"a\"b", "<", "&&", "-a", "=~",
            "a:b", "-",
        ]);
        let brackets = select(std::vec![("[", "]"), ("[[", "]]"), ("[", "]"), ("[ ", "x]")]);
        (brackets, vec(word, 0..5)).prop_map(|((open, close), words)| format!("{open} {} {close}", words.join(" ")))
    }

    /// Scripts with every supported construct, and some that are not supported.
    fn scripts() -> impl Strategy<Value = String> {
        let line = prop_oneof![1 => " {0,2}#[a-z \\\\'\"$(é]{0,8}", 1 => "[ \t]{0,2}"];
        let leaf = prop_oneof![12 => sane(), 2 => command(), 1 => test(), 1 => line];
        leaf.prop_recursive(4, 24, 4, |inner| {
            let separator = texts(&["\n", "; ", " && ", " || ", " | ", "|", " & ", " &\n", "&&\n  ", " |\n", "\n\n", ";", " ;\n", "\n# c\n", " || \\\n "]);
            let list = vec((inner.clone(), separator), 1..4).prop_map(|parts| {
                let last = parts.len() - 1;
                let text = parts.into_iter().enumerate().map(|(i, (s, by))| if i == last { s } else { s + &by });
                text.collect::<String>()
            });
            let end = texts(&["; ", "\n", "\n  ", " ;", " & ", " "]);
            let list = list.boxed();
            let three = (list.clone(), list.clone(), list.clone(), end);
            prop_oneof![
                4 => list.clone(),
                1 => three.clone().prop_map(|(a, b, _, end)| format!("if {a}{end}then {b}{end}fi")),
                1 => three.clone().prop_map(|(a, b, c, end)| format!("if {a}{end}then\n {b}\nelse {c}{end}fi")),
                1 => three.clone().prop_map(|(a, b, c, end)| format!("if {a}{end}then\n {b}\nelif {c}{end}then {a}{end}fi")),
                1 => three.clone().prop_map(|(a, b, _, end)| format!("while {a}{end}do {b}{end}done")),
                1 => three.clone().prop_map(|(a, b, _, end)| format!("until {a}{end}do\n{b}\ndone > f")),
                1 => (command(), three.clone()).prop_map(|(w, (_, b, _, end))| format!("for i in {w}; do {b}{end}done")),
                1 => (command(), three.clone()).prop_map(|(w, (_, b, _, end))| format!("for i in {w}\ndo {b}{end}done 2>/dev/null")),
                1 => three.clone().prop_map(|(a, _, _, end)| format!("{{ {a}{end}}}")),
                1 => three.clone().prop_map(|(a, _, _, _)| format!("({a})")),
                1 => three.clone().prop_map(|(a, _, _, _)| format!("( {a} ) > f")),
                1 => three.clone().prop_map(|(a, _, _, end)| format!("f() {{ {a}{end}}}")),
                1 => three.clone().prop_map(|(a, _, _, end)| format!("f_1() {{\n{a}{end}}}\n")),
                1 => list.clone().prop_map(|a| format!("A=$({a})")),
                1 => list.clone().prop_map(|a| format!("A=\"$({a})\"")),
                1 => list.clone().prop_map(|a| format!("export A=\"$({a})\"")),
                1 => list.clone().prop_map(|a| format!("echo \"x $({a}) $B\" $(c)")),
                1 => list.clone().prop_map(|a| format!("[ \"$({a})\" = 2 ]")),
                1 => list.clone().prop_map(|a| format!("[[ $({a}) == a ]]")),
                1 => list.prop_map(|a| format!("! {a}")),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn the_result_equals_that_of_the_parser(text in scripts()) {
            if let Some(plain) = read(&text) {
                let script = bash::parse(&text);
                let parsed = script.as_ref().map(bash::Script::program);
                // The grammar may silently misread a script; but a script that it rejects must not be accepted here.
                let astray = |parsed: &Program| !parsed.sound && script.as_ref().is_some_and(bash::Script::is_sound);
                let right = parsed.as_ref().is_some_and(|parsed| astray(parsed) || *parsed == plain);
                prop_assert!(right, "{:?}\n{:?}\n{:?}", text, plain, parsed);
            }
        }
    }
}
