//! Templates of `kubectl -o jsonpath`, as trees of jq.

use std::ops::Range;

use super::jq::{self, Kind, Node, node};

/// What a template prints.
#[derive(Clone, PartialEq, Debug)]
pub struct Template {
    /// Its expressions. One in a `range` starts at its items.
    pub parts: Vec<Node>,
    /// Whether it prints only one expression, and no text.
    pub is_single: bool,
}

/// The most expressions that are read.
const PARTS: usize = 100;

/// Reads a template: `{.a.b}`, `{range .items[*]}{.c}{"\n"}{end}`. `None` if it is not valid, or contains something else.
pub fn parse(text: &str) -> Option<Template> {
    let (mut parts, mut ranges): (Vec<Node>, Vec<Node>) = Default::default();
    let (mut at, mut others) = (0, 0);
    while let Some(open) = text[at..].find('{').map(|found| at + found) {
        others += usize::from(open > at);
        let end = open + 1 + closing(&text[open + 1..])?;
        let inner = text[open + 1..end].trim();
        let start = open + 1 + text[open + 1..].find(inner)?;
        at = end + 1;
        let whole = start..start + inner.len();
        if inner == "end" {
            ranges.pop()?;
        } else if inner.starts_with(['"', '\'']) {
            others += 1;
        } else if let Some(list) = inner.strip_prefix("range").filter(|list| list.starts_with([' ', '.', '$'])) {
            let list = path(text, whole.end - list.trim_start().len()..whole.end)?;
            // Each pass starts at an item.
            ranges.push(list);
            others += 1;
        } else {
            let found = path(text, whole.clone())?;
            parts.push(
                ranges.iter().rev().fold(found, |inner, list| {
                    node(Kind::Pipe(Box::new(list.clone()), Box::new(inner)), whole.clone())
                }),
            );
        }
        if parts.len() + ranges.len() > PARTS || ranges.len() > 4 {
            return None;
        }
    }
    (at > 0).then_some(Template { is_single: parts.len() == 1 && others == 0 && at == text.len(), parts })
}

/// Reads a path without braces: `.a.b[0].c`.
pub fn path(text: &str, range: Range<usize>) -> Option<Node> {
    let mut reader = Reader { text: text.get(..range.end)?, at: range.start, parts: 0 };
    reader.path()
}

/// The position of the brace that closes an expression; those in strings do not count.
fn closing(text: &str) -> Option<usize> {
    let mut quote = None;
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (None, '}') => return Some(at),
            (None, '"' | '\'') => quote = Some(c),
            (Some(open), c) if open == c => quote = None,
            _ => {}
        }
    }
    None
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
    parts: usize,
}

impl Reader<'_> {
    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn path(&mut self) -> Option<Node> {
        let start = self.at;
        if self.rest().starts_with(['$', '@']) {
            self.at += 1;
        }
        let mut of = node(Kind::Identity, start..self.at);
        loop {
            self.parts += 1;
            let rest = self.rest();
            if rest.is_empty() {
                return Some(of);
            }
            if self.parts > PARTS || rest.starts_with("..") {
                return None;
            }
            of = if rest.starts_with('[') {
                self.brackets(of, start)?
            } else if rest.starts_with('.') || self.at == start {
                self.at += usize::from(rest.starts_with('.'));
                if self.rest().starts_with('[') || self.rest().is_empty() {
                    continue;
                }
                self.field(of, start)?
            } else {
                return None;
            };
        }
    }

    fn field(&mut self, of: Node, start: usize) -> Option<Node> {
        let mut name = String::new();
        let rest = self.rest();
        let mut end = rest.len();
        let mut chars = rest.char_indices();
        while let Some((at, c)) = chars.next() {
            match c {
                '\\' => name.push(chars.next()?.1),
                c if c.is_alphanumeric() || matches!(c, '-' | '_' | '/' | '*') => name.push(c),
                _ => {
                    end = at;
                    break;
                }
            }
        }
        self.at += end;
        let range = start..self.at;
        match name.as_str() {
            "" => None,
            "*" => Some(node(Kind::Each(Box::new(of)), range)),
            _ => Some(node(Kind::Field(Box::new(of), name), range)),
        }
    }

    fn brackets(&mut self, of: Node, start: usize) -> Option<Node> {
        let from = self.at + 1;
        let mut quote = None;
        let mut depth = 0;
        let mut end = None;
        for (at, c) in self.rest().char_indices().skip(1) {
            match (quote, c) {
                (None, ']') if depth == 0 => {
                    end = Some(self.at + at);
                    break;
                }
                (None, ']') => depth -= 1,
                (None, '[') => depth += 1,
                (None, '"' | '\'') => quote = Some(c),
                (Some(open), c) if open == c => quote = None,
                _ => {}
            }
        }
        let end = end?;
        let inner = self.text.get(from..end)?;
        self.at = end + 1;
        let range = start..self.at;
        let of = Box::new(of);
        if let Some(condition) = inner.strip_prefix("?(").and_then(|rest| rest.strip_suffix(')')) {
            let condition = condition_of(self.text, from + 2, condition)?;
            let item = node(Kind::Each(of), range.clone());
            let select = node(Kind::Call("select".to_owned(), vec![condition]), range.clone());
            return Some(node(Kind::Pipe(Box::new(item), Box::new(select)), range));
        }
        let unquoted = ['"', '\''].iter().find_map(|quote| inner.strip_prefix(*quote)?.strip_suffix(*quote));
        let is_number = |text: &str| text.strip_prefix('-').unwrap_or(text).bytes().all(|b| b.is_ascii_digit());
        Some(match unquoted {
            Some(name) if !name.contains(['"', '\'', '\\']) => node(Kind::Field(of, name.to_owned()), range),
            Some(_) => return None,
            None if inner == "*" => node(Kind::Each(of), range),
            None if inner.contains(':') => node(Kind::Each(of), range),
            None if is_number(inner) => {
                let number = node(Kind::Number(inner.to_owned()), from..end);
                node(Kind::Index(of, Box::new(number)), range)
            }
            None => return None,
        })
    }
}

/// `@.type=="Ready"`, `@.a`
fn condition_of(text: &str, start: usize, condition: &str) -> Option<Node> {
    const SIGNS: [&str; 6] = ["==", "!=", "<=", ">=", "<", ">"];
    let found = SIGNS.iter().filter_map(|sign| Some((condition.find(sign)?, *sign))).min_by_key(|(at, _)| *at);
    let within = |part: &str, from: usize| {
        let begin = from + (part.len() - part.trim_start().len());
        begin..begin + part.trim().len()
    };
    let Some((at, sign)) = found else { return path(text, within(condition, start)).filter(|_| starts(condition)) };
    let (left, right) = (&condition[..at], &condition[at + sign.len()..]);
    let places = (within(left, start), within(right, start + at + sign.len()));
    let side = |side: &str, place: Range<usize>| {
        if starts(side) {
            return path(text, place);
        }
        let unquoted = side.trim().strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
        match unquoted {
            Some(text) => Some(node(Kind::Text(text.to_owned()), place)),
            None => jq::parse(side).map(|found| node(found.kind, place)),
        }
    };
    let both = (side(left, places.0)?, side(right, places.1)?);
    Some(node(Kind::Binary(sign, Box::new(both.0), Box::new(both.1)), start..start + condition.len()))
}

fn starts(path: &str) -> bool {
    path.trim_start().starts_with(['@', '$'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_are_trees_of_jq() {
        for (template, filter) in [
            ("{.a.b[0].c}", ".a.b[0].c"),
            ("{.items[*].x}", ".items[].x"),
            ("{.a['b.c']}", ".a[\"b.c\"]"),
            ("{.a.b\\.c/d}", ".a[\"b.c/d\"]"),
            ("{$.a}", ".a"),
            ("{ .a[-1:].b }", ".a[].b"),
        ] {
            let found = parse(template).unwrap();
            assert!(found.is_single, "{template}");
            assert_eq!(bare(&found.parts[0]), bare(&jq::parse(filter).unwrap()), "{template}");
        }
        let ready = parse(r#"{.status.conditions[?(@.type=="Ready")].status}"#).unwrap();
        assert_eq!(
            bare(&ready.parts[0]),
            "Field(Pipe(Each(Field(Field(., status), conditions)), select(==(Field(., type), Ready))), status)"
        );
        let range = parse("{range .items[*]}{.a}{\"\\n\"}{.b}{end}{.c}").unwrap();
        assert_eq!(range.parts.len(), 3);
        assert!(
            !range.is_single
                && matches!(range.parts[1].kind, Kind::Pipe(..))
                && matches!(range.parts[2].kind, Kind::Field(..))
        );
        assert!(!parse("{.a} {.b}").unwrap().is_single && !parse("x{.a}").unwrap().is_single);
        for text in ["", "{", ".a", "{..a}", "{.a[?(", "{.a[0,1]}", "{end}", "{.a[?(@.b=~\"c\")]}"] {
            assert_eq!(parse(text), None, "{text}");
        }
        assert_eq!(parse(&format!("{{{}}}", ".a".repeat(5_000))), None);
        assert_eq!(parse(&"{.a}".repeat(5_000)), None);
    }

    /// The form of a tree without its places.
    fn bare(node: &Node) -> String {
        match &node.kind {
            Kind::Identity => ".".to_owned(),
            Kind::Field(of, name) => format!("Field({}, {name})", bare(of)),
            Kind::Each(of) => format!("Each({})", bare(of)),
            Kind::Index(of, at) => format!("Index({}, {})", bare(of), bare(at)),
            Kind::Pipe(a, b) => format!("Pipe({}, {})", bare(a), bare(b)),
            Kind::Binary(sign, a, b) => format!("{sign}({}, {})", bare(a), bare(b)),
            Kind::Call(name, given) => format!("{name}({})", given.iter().map(bare).collect::<String>()),
            Kind::Text(text) | Kind::Number(text) => text.clone(),
            other => format!("{other:?}"),
        }
    }
}
