//! Filters of jq as trees. Definitions, reductions and destructuring are not read: such a filter has no tree.

use std::ops::Range;

/// A filter, or a part of one, with its place in the text.
#[derive(Clone, PartialEq, Debug)]
pub struct Node {
    pub kind: Kind,
    pub range: Range<usize>,
}

/// The kinds of filters.
#[derive(Clone, PartialEq, Debug)]
pub enum Kind {
    /// `.`
    Identity,
    /// `.name`, `.["name"]`
    Field(Box<Node>, String),
    /// `.[0]`, `.[$at]`
    Index(Box<Node>, Box<Node>),
    /// `.[1:3]`
    Slice(Box<Node>),
    /// `.[]`
    Each(Box<Node>),
    /// `A | B`
    Pipe(Box<Node>, Box<Node>),
    /// `A, B`
    Comma(Box<Node>, Box<Node>),
    /// `A // B`
    Alternative(Box<Node>, Box<Node>),
    /// `A == B`, `A + B`, `A and B`
    Binary(&'static str, Box<Node>, Box<Node>),
    /// `A = B`, `A |= B`
    Assign(Box<Node>, Box<Node>),
    /// `-A`
    Negative(Box<Node>),
    /// A text without holes.
    Text(String),
    /// A text with filters in it.
    Filled(Vec<Node>),
    Number(String),
    /// `[A]`, `[]`
    Array(Option<Box<Node>>),
    /// `{a: A, "b": B, (C): D}`: the keys that are known, and the values.
    Object(Vec<(Option<String>, Node)>),
    /// The conditions, each with its filter, and the filter of `else`.
    If(Vec<(Node, Node)>, Option<Box<Node>>),
    /// `A as $name | B`
    Bind(Box<Node>, String, Box<Node>),
    /// `$name`
    Variable(String),
    /// `name(A; B)`
    Call(String, Vec<Node>),
    /// `@base64d`
    Format(String),
    /// `A?`, `try A`
    Try(Box<Node>),
    /// `..`
    Descendants,
}

/// The most nested brackets, and the most parts, of a filter that is read.
const DEPTH: usize = 40;
const PARTS: usize = 400;

/// Stands for a value in a filter that is not known.
pub const HOLE: &str = "\u{1a}";

/// The tree of a filter. `None` if it is not valid, or not of the part of the language that is read here.
pub fn parse(text: &str) -> Option<Node> {
    let mut parser = Parser { text, at: 0, depth: 0, parts: 0 };
    let node = parser.pipe()?;
    parser.space();
    (parser.at == text.len()).then_some(node)
}

/// Makes nodes; also of the paths of kubectl.
pub(super) const fn node(kind: Kind, range: Range<usize>) -> Node {
    Node { kind, range }
}

struct Parser<'t> {
    text: &'t str,
    at: usize,
    depth: usize,
    parts: usize,
}

/// Operators by precedence, from the loosest to the tightest.
const LEVELS: [&[&str]; 5] = [&["or"], &["and"], &["==", "!=", "<=", ">=", "<", ">"], &["+", "-"], &["*", "/", "%"]];

impl Parser<'_> {
    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn space(&mut self) {
        loop {
            let rest = self.rest();
            let trimmed = rest.trim_start();
            let comment = if trimmed.starts_with('#') { trimmed.find('\n').unwrap_or(trimmed.len()) } else { 0 };
            self.at += rest.len() - trimmed.len() + comment;
            if comment == 0 {
                return;
            }
        }
    }

    fn peek(&mut self) -> Option<u8> {
        self.space();
        self.rest().bytes().next()
    }

    /// Takes a sign or a whole word.
    fn take(&mut self, sign: &str) -> bool {
        self.space();
        let Some(behind) = self.rest().strip_prefix(sign) else { return false };
        let is_word = sign.ends_with(|c: char| c.is_ascii_alphanumeric());
        if is_word && behind.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':') {
            return false;
        }
        self.at += sign.len();
        true
    }

    fn need(&mut self, sign: &str) -> Option<()> {
        self.take(sign).then_some(())
    }

    fn name(&mut self) -> Option<String> {
        let rest = self.rest();
        let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
        let name = rest.get(..end).filter(|name| name.starts_with(|c: char| !c.is_ascii_digit()))?.to_owned();
        self.at += end;
        (!name.is_empty()).then_some(name)
    }

    /// A part from a place to here.
    fn made(&mut self, kind: Kind, start: usize) -> Option<Node> {
        self.parts += 1;
        (self.parts < PARTS).then(|| node(kind, start..self.at))
    }

    /// Reads what is nested in something else.
    fn nested(&mut self, read: impl FnOnce(&mut Self) -> Option<Node>) -> Option<Node> {
        self.depth += 1;
        let found = if self.depth < DEPTH { read(self) } else { None };
        self.depth -= 1;
        found
    }

    fn pipe(&mut self) -> Option<Node> {
        self.nested(Self::piped)
    }

    fn piped(&mut self) -> Option<Node> {
        self.space();
        let start = self.at;
        let left = self.comma()?;
        if self.take("as") {
            self.need("$")?;
            let name = self.name()?;
            self.need("|")?;
            let body = self.pipe()?;
            return self.made(Kind::Bind(Box::new(left), name, Box::new(body)), start);
        }
        if self.peek() == Some(b'|') && !self.rest().starts_with("|=") {
            self.at += 1;
            let right = self.pipe()?;
            return self.made(Kind::Pipe(Box::new(left), Box::new(right)), start);
        }
        Some(left)
    }

    fn comma(&mut self) -> Option<Node> {
        self.space();
        let start = self.at;
        let mut left = self.alternative()?;
        while self.take(",") {
            let right = self.alternative()?;
            left = self.made(Kind::Comma(Box::new(left), Box::new(right)), start)?;
        }
        Some(left)
    }

    fn alternative(&mut self) -> Option<Node> {
        self.space();
        let start = self.at;
        let left = self.assignment()?;
        self.space();
        if self.rest().starts_with("//") && !self.rest().starts_with("//=") {
            self.at += 2;
            let right = self.nested(Self::alternative)?;
            return self.made(Kind::Alternative(Box::new(left), Box::new(right)), start);
        }
        Some(left)
    }

    fn assignment(&mut self) -> Option<Node> {
        self.space();
        let start = self.at;
        let left = self.operation(0)?;
        self.space();
        let signs = ["|=", "+=", "-=", "*=", "/=", "%=", "//=", "="];
        match signs.iter().find(|sign| self.rest().starts_with(**sign)) {
            Some(sign) => {
                self.at += sign.len();
                let right = self.operation(0)?;
                self.made(Kind::Assign(Box::new(left), Box::new(right)), start)
            }
            None => Some(left),
        }
    }

    fn operation(&mut self, level: usize) -> Option<Node> {
        let Some(signs) = LEVELS.get(level) else { return self.postfix() };
        self.space();
        let start = self.at;
        let mut left = self.operation(level + 1)?;
        while let Some(sign) = signs.iter().find(|sign| self.is_operator(sign)) {
            self.at += sign.len();
            let right = self.operation(level + 1)?;
            left = self.made(Kind::Binary(sign, Box::new(left), Box::new(right)), start)?;
        }
        Some(left)
    }

    fn is_operator(&mut self, sign: &str) -> bool {
        self.space();
        let Some(behind) = self.rest().strip_prefix(sign) else { return false };
        match sign {
            "or" | "and" => !behind.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':'),
            // `+=` and `//` are other operators.
            "+" | "-" | "*" | "/" | "%" => !(behind.starts_with('=') || sign == "/" && behind.starts_with('/')),
            _ => true,
        }
    }

    fn postfix(&mut self) -> Option<Node> {
        self.space();
        let start = self.at;
        if self.take("-") {
            let inner = self.nested(Self::postfix)?;
            return self.made(Kind::Negative(Box::new(inner)), start);
        }
        if self.take("try") {
            let inner = self.nested(Self::postfix)?;
            if self.take("catch") {
                self.nested(Self::postfix)?;
            }
            return self.made(Kind::Try(Box::new(inner)), start);
        }
        let mut of = self.term()?;
        loop {
            let rest = self.rest();
            of = if rest.starts_with('?') && !rest.starts_with("?//") {
                self.at += 1;
                self.made(Kind::Try(Box::new(of)), start)?
            } else if rest.starts_with('[') {
                self.brackets(of, start)?
            } else if rest.starts_with(".[") {
                self.at += 1;
                self.brackets(of, start)?
            } else if rest.starts_with('.') && !rest.starts_with("..") {
                self.field(of, start)?
            } else {
                return Some(of);
            };
        }
    }

    /// `.name`, `."name"`
    fn field(&mut self, of: Node, start: usize) -> Option<Node> {
        self.need(".")?;
        let name = if self.rest().starts_with('"') {
            match self.string()?.kind {
                Kind::Text(name) => name,
                _ => return None,
            }
        } else {
            self.name()?
        };
        self.made(Kind::Field(Box::new(of), name), start)
    }

    fn brackets(&mut self, of: Node, start: usize) -> Option<Node> {
        self.need("[")?;
        let of = Box::new(of);
        if self.take("]") {
            return self.made(Kind::Each(of), start);
        }
        if self.take(":") {
            self.pipe()?;
            self.need("]")?;
            return self.made(Kind::Slice(of), start);
        }
        let at = self.pipe()?;
        if self.take(":") {
            if !self.take("]") {
                self.pipe()?;
                self.need("]")?;
            }
            return self.made(Kind::Slice(of), start);
        }
        self.need("]")?;
        match at.kind {
            Kind::Text(name) => self.made(Kind::Field(of, name), start),
            _ => self.made(Kind::Index(of, Box::new(at)), start),
        }
    }

    fn term(&mut self) -> Option<Node> {
        let start = self.at;
        match self.peek()? {
            b'.' => self.path(start),
            b'"' => self.string(),
            b'(' => {
                self.at += 1;
                let inner = self.pipe()?;
                self.need(")")?;
                Some(node(inner.kind, start..self.at))
            }
            b'[' => {
                self.at += 1;
                if self.take("]") {
                    return self.made(Kind::Array(None), start);
                }
                let inner = self.pipe()?;
                self.need("]")?;
                self.made(Kind::Array(Some(Box::new(inner))), start)
            }
            b'{' => self.object(start),
            b'$' => {
                self.at += 1;
                let name = self.name()?;
                self.made(Kind::Variable(name), start)
            }
            b'@' => {
                self.at += 1;
                let name = self.name()?;
                if self.peek() == Some(b'"') {
                    return self.string();
                }
                self.made(Kind::Format(name), start)
            }
            b'0'..=b'9' => {
                let rest = self.rest();
                let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '.')).unwrap_or(rest.len());
                let number = rest[..end].to_owned();
                self.at += end;
                number.parse::<f64>().ok()?;
                self.made(Kind::Number(number), start)
            }
            _ => self.word(start),
        }
    }

    fn path(&mut self, start: usize) -> Option<Node> {
        let rest = self.rest();
        if rest.starts_with("..") {
            self.at += 2;
            return self.made(Kind::Descendants, start);
        }
        let identity = node(Kind::Identity, self.at..self.at + 1);
        let second = rest.as_bytes().get(1).copied().unwrap_or_default();
        if second.is_ascii_alphabetic() || matches!(second, b'_' | b'"') {
            return self.field(identity, start);
        }
        self.at += 1;
        Some(identity)
    }

    fn word(&mut self, start: usize) -> Option<Node> {
        if self.take("if") {
            return self.choice(start);
        }
        // Something that the shell fills in.
        if self.take(HOLE) {
            return self.made(Kind::Call(HOLE.to_owned(), Vec::new()), start);
        }
        let name = self.name()?;
        if matches!(
            name.as_str(),
            "def"
                | "reduce"
                | "foreach"
                | "label"
                | "import"
                | "include"
                | "then"
                | "else"
                | "elif"
                | "end"
                | "and"
                | "or"
                | "as"
        ) {
            return None;
        }
        let mut given = Vec::new();
        if self.rest().starts_with('(') {
            self.at += 1;
            loop {
                given.push(self.pipe()?);
                if self.take(")") {
                    break;
                }
                self.need(";")?;
            }
        }
        self.made(Kind::Call(name, given), start)
    }

    fn choice(&mut self, start: usize) -> Option<Node> {
        let mut branches = Vec::new();
        loop {
            let condition = self.pipe()?;
            self.need("then")?;
            branches.push((condition, self.pipe()?));
            if !self.take("elif") {
                break;
            }
        }
        let otherwise = if self.take("else") { Some(Box::new(self.pipe()?)) } else { None };
        self.need("end")?;
        self.made(Kind::If(branches, otherwise), start)
    }

    fn object(&mut self, start: usize) -> Option<Node> {
        self.need("{")?;
        let mut fields = Vec::new();
        while !self.take("}") {
            let begin = self.at;
            let (key, own) = match self.peek()? {
                b'(' => {
                    self.at += 1;
                    self.pipe()?;
                    self.need(")")?;
                    (None, None)
                }
                b'"' => match self.string()?.kind {
                    Kind::Text(name) => (Some(name), None),
                    _ => (None, None),
                },
                b'$' => {
                    self.at += 1;
                    let name = self.name()?;
                    (Some(name.clone()), Some(Kind::Variable(name)))
                }
                b'@' => return None,
                _ => (Some(self.name()?), None),
            };
            let value = if self.take(":") {
                self.nested(Self::alternative)?
            } else {
                let identity = Box::new(node(Kind::Identity, begin..begin));
                let kind = own.or_else(|| Some(Kind::Field(identity, key.clone()?)))?;
                self.made(kind, begin)?
            };
            fields.push((key, value));
            if !self.take(",") && self.peek() != Some(b'}') {
                return None;
            }
        }
        self.made(Kind::Object(fields), start)
    }

    fn string(&mut self) -> Option<Node> {
        self.space();
        let start = self.at;
        self.need("\"")?;
        let (mut text, mut holes) = (String::new(), Vec::new());
        loop {
            let next = self.rest().chars().next()?;
            self.at += next.len_utf8();
            match next {
                '"' => break,
                '\\' => {
                    let escaped = self.rest().chars().next()?;
                    self.at += escaped.len_utf8();
                    match escaped {
                        '(' => {
                            holes.push(self.pipe()?);
                            self.need(")")?;
                        }
                        'n' => text.push('\n'),
                        't' => text.push('\t'),
                        'u' => text.push('\u{fffd}'),
                        other => text.push(other),
                    }
                }
                other => text.push(other),
            }
        }
        self.made(if holes.is_empty() { Kind::Text(text) } else { Kind::Filled(holes) }, start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tree in a form with all brackets.
    fn shown(node: &Node) -> String {
        let all = |nodes: &[Node]| nodes.iter().map(shown).collect::<Vec<_>>().join(";");
        match &node.kind {
            Kind::Identity => ".".to_owned(),
            Kind::Field(of, name) => format!("{}.{name}", shown(of)),
            Kind::Index(of, at) => format!("{}[{}]", shown(of), shown(at)),
            Kind::Slice(of) => format!("{}[:]", shown(of)),
            Kind::Each(of) => format!("{}[]", shown(of)),
            Kind::Pipe(a, b) => format!("({}|{})", shown(a), shown(b)),
            Kind::Comma(a, b) => format!("({},{})", shown(a), shown(b)),
            Kind::Alternative(a, b) => format!("({}//{})", shown(a), shown(b)),
            Kind::Binary(sign, a, b) => format!("({}{sign}{})", shown(a), shown(b)),
            Kind::Assign(a, b) => format!("({}={})", shown(a), shown(b)),
            Kind::Negative(a) => format!("-{}", shown(a)),
            Kind::Text(text) => format!("'{text}'"),
            Kind::Filled(holes) => format!("fill({})", all(holes)),
            Kind::Number(number) => number.clone(),
            Kind::Array(inner) => format!("[{}]", inner.as_ref().map(|inner| shown(inner)).unwrap_or_default()),
            Kind::Object(fields) => {
                let field =
                    |(key, value): &(Option<String>, Node)| format!("{key:?}:{}", shown(value)).replace("Some", "");
                format!("{{{}}}", fields.iter().map(field).collect::<Vec<_>>().join(";"))
            }
            Kind::If(branches, otherwise) => {
                let branch = |(a, b): &(Node, Node)| format!("{}?{}", shown(a), shown(b));
                let otherwise = otherwise.as_ref().map(|node| shown(node)).unwrap_or_default();
                format!("if({}:{otherwise})", branches.iter().map(branch).collect::<Vec<_>>().join(";"))
            }
            Kind::Bind(a, name, b) => format!("({} as ${name}|{})", shown(a), shown(b)),
            Kind::Variable(name) => format!("${name}"),
            Kind::Call(name, given) if given.is_empty() => name.clone(),
            Kind::Call(name, given) => format!("{name}({})", all(given)),
            Kind::Format(name) => format!("@{name}"),
            Kind::Try(of) => format!("{}?", shown(of)),
            Kind::Descendants => "..".to_owned(),
        }
    }

    #[test]
    fn filters_are_read() {
        for (text, tree) in [
            (".", "."),
            (".spec.replicas == 3", "(.spec.replicas==3)".replace(".spec", "..spec").as_str()),
            (
                ".items[] | select(.a == \"x\" and (.b | not)) | .c",
                "(..items[]|(select(((..a=='x')and(..b|not)))|..c))",
            ),
            (".data[\"a.b\"] // empty", "(..data.a.b//empty)"),
            (".a.\"b.c\"[0][1:][-1]?", "..a.b.c[0][:][-1]?"),
            ("[.[] | .x] | length >= 1", "([(.[]|..x)]|(length>=1))"),
            ("{a, \"b\": .c, $d, (.e): 1}", "{(\"a\"):..a;(\"b\"):..c;(\"d\"):$d;None:1}"),
            ("if .a then 1 elif .b then 2 else 3 end", "if(..a?1;..b?2:3)"),
            (".a as $x | .b - $x * 2", "(..a as $x|(..b-($x*2)))"),
            ("\"a\\(.b + 1)c\" | @base64d", "(fill((..b+1))|@base64d)"),
            ("any(.[]; .n <= 0) or false", "(any(.[];(..n<=0))orfalse)"),
            ("..|.a?", "(..|..a?)"),
            (".a |= 1", "(..a=1)"),
            (".a # the first\n | .b", "(..a|..b)"),
            ("try .a catch .b", "..a?"),
            (".a, .b | .c // .d // 1", "((..a,..b)|(..c//(..d//1)))"),
            ("-1 + .a", "(-1+..a)"),
            (". as $all | $all.a[$i]", "(. as $all|$all.a[$i])"),
        ] {
            assert_eq!(parse(text).as_ref().map(shown).as_deref(), Some(tree), "{text}");
        }
        for text in
            ["", ".a |", "def f: 1; f", "reduce .[] as $x (0; . + $x)", ".a ==", "{", "\"", ".a b", "[", "\"\\("]
        {
            assert_eq!(parse(text), None, "{text}");
        }
        let node = parse(" .a | .b.c == 1").unwrap();
        let Kind::Pipe(_, right) = node.kind else { panic!() };
        let Kind::Binary(_, left, _) = right.kind else { panic!() };
        assert_eq!(left.range, 6..10);
    }

    #[test]
    fn long_and_deep_filters_have_no_tree() {
        for part in ["(", "[", ".a.", "\"\\(", "-", "1+", ".[0]|", "if ", "{a:", ".a//", "try "] {
            assert_eq!(parse(&part.repeat(20_000)), None);
        }
        assert_eq!(parse(&".a".repeat(5_000)), None);
    }
}
