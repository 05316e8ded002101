//! JSON paths and jq filters, as far as they are simple. In an *open* value, which its system may have extended, a field that is absent
//! is not known to be missing.

use serde_json::{Value as Json, json};

/// Fields whose content is not filled in by the system.
const CLOSED: [&str; 6] = ["data", "stringData", "labels", "annotations", "matchLabels", "selector"];

/// Whether only the author sets a field. Controllers use prefixed names for their own fields.
fn is_closed(name: &str, parent: Option<&str>) -> bool {
    parent.is_some_and(|parent| CLOSED.contains(&parent)) && !name.contains("kubernetes.io") && !name.contains("k8s.io")
}

/// The value of a field. Returns `None` if it is not known.
fn field(value: &Json, name: &str, open: bool, parent: Option<&str>) -> Option<Json> {
    match value {
        Json::Object(fields) => match fields.get(name) {
            Some(value) => Some(value.clone()),
            None => (!open || is_closed(name, parent)).then_some(Json::Null),
        },
        Json::Null if !open => Some(Json::Null),
        // An object without labels may have been given some.
        Json::Null => None,
        _ => None,
    }
}

/// The output of a `-o jsonpath=` template for an object. Returns `None` if it is not known.
pub fn by_template(template: &str, value: &Json) -> Option<String> {
    let mut out = String::new();
    let mut rest = template;
    while let Some(at) = rest.find('{') {
        out.push_str(&rest[..at]);
        let end = at + rest[at..].find('}')?;
        out.push_str(&by_path(&rest[at + 1..end], value)?);
        rest = &rest[end + 1..];
    }
    out.push_str(rest);
    Some(out)
}

fn by_path(path: &str, value: &Json) -> Option<String> {
    if let Some(text) = path.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        return Some(text.replace("\\n", "\n"));
    }
    let steps = steps(path.trim().trim_start_matches('$'))?;
    let mut values = vec![(value.clone(), None::<String>)];
    for step in &steps {
        let mut next = Vec::new();
        for (value, parent) in &values {
            match step {
                Step::Field(name) => {
                    next.push((field(value, name, true, parent.as_deref())?, Some(name.clone())));
                }
                Step::At(at) => next.push((value.get(*at)?.clone(), None)),
                Step::Each => next.extend(value.as_array()?.iter().map(|item| (item.clone(), None))),
                Step::Where(name, wanted) => {
                    for item in value.as_array()? {
                        if item.get(name)?.as_str()? == wanted {
                            next.push((item.clone(), None));
                        }
                    }
                }
            }
        }
        values = next;
    }
    let texts: Option<Vec<String>> = values.iter().map(|(value, _)| printed(value)).collect();
    Some(texts?.join(" "))
}

/// The value on one line, without quotes. Returns `None` for lists and objects, which have another format.
fn printed(value: &Json) -> Option<String> {
    match value {
        Json::Null => Some(String::new()),
        Json::String(text) => Some(text.clone()),
        Json::Bool(_) | Json::Number(_) => Some(value.to_string()),
        _ => None,
    }
}

enum Step {
    Field(String),
    At(usize),
    Each,
    Where(String, String),
}

fn steps(path: &str) -> Option<Vec<Step>> {
    let mut found = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        if let Some(behind) = rest.strip_prefix('.') {
            if behind.starts_with('.') {
                return None;
            }
            if behind.starts_with('[') {
                rest = behind;
                continue;
            }
            let mut name = String::new();
            let mut chars = behind.char_indices().peekable();
            let mut end = behind.len();
            while let Some((at, c)) = chars.next() {
                match c {
                    '\\' => name.extend(chars.next().map(|(_, c)| c)),
                    '.' | '[' => {
                        end = at;
                        break;
                    }
                    c => name.push(c),
                }
            }
            if name.is_empty() || name.contains(['*', '(', ' ', '|']) {
                return None;
            }
            found.push(Step::Field(name));
            rest = &behind[end..];
        } else {
            let inner = rest.strip_prefix('[')?;
            let end = inner.find(']')?;
            let (inner, behind) = (&inner[..end], &inner[end + 1..]);
            rest = behind;
            if inner == "*" {
                found.push(Step::Each);
            } else if let Ok(at) = inner.parse() {
                found.push(Step::At(at));
            } else if let Some(test) = inner.strip_prefix("?(@.").and_then(|test| test.strip_suffix(')')) {
                let (name, wanted) = test.split_once("==")?;
                let wanted = wanted.trim().trim_matches(['"', '\'']);
                found.push(Step::Where(name.trim().to_owned(), wanted.to_owned()));
            } else {
                let name = inner.strip_prefix(['"', '\''])?.strip_suffix(['"', '\''])?;
                found.push(Step::Field(name.to_owned()));
            }
        }
    }
    Some(found)
}

/// The results of a jq filter for a value. Returns `None` if they are not known.
pub fn by_filter(filter: &str, value: &Json, open: bool, given: &[(String, Json)]) -> Option<Vec<Json>> {
    let tokens = tokens(filter).filter(|tokens| tokens.len() <= TOKENS)?;
    let mut parser = Parser { tokens: &tokens, at: 0, depth: 0 };
    let filter = parser.pipe()?;
    if parser.at < tokens.len() {
        return None;
    }
    let mut runner = Runner { open, given, steps: 20_000 };
    Some(
        runner.run(&filter, &Item { value: value.clone(), parent: None })?.into_iter().map(|item| item.value).collect(),
    )
}

/// The maximum number of tokens in a filter.
const TOKENS: usize = 200;

#[derive(Clone, PartialEq, Debug)]
enum Token {
    Name(String),
    /// `.name`
    Field(String),
    Variable(String),
    Text(String),
    Number(serde_json::Number),
    Sign(&'static str),
}

fn tokens(text: &str) -> Option<Vec<Token>> {
    const SIGNS: [&str; 20] =
        ["==", "!=", "<=", ">=", "//", "|", ",", "(", ")", "[", "]", "<", ">", "?", ":", "+", "-", "{", "}", "."];
    let part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let word = |text: &str| text.find(|c: char| !part(c)).unwrap_or(text.len());
    let mut found = Vec::new();
    let mut rest = text.trim_start();
    while let Some(c) = rest.chars().next() {
        let len = if c == '.' && rest[1..].starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
            let end = 1 + word(&rest[1..]);
            found.push(Token::Field(rest[1..end].to_owned()));
            end
        } else if c == '$' {
            let end = 1 + word(&rest[1..]);
            found.push(Token::Variable(rest[1..end].to_owned()));
            end
        } else if c == '"' || c == '.' && rest[1..].starts_with('"') {
            let start = usize::from(c == '.');
            let end = start + 1 + rest[start + 1..].find('"')?;
            let inner = &rest[start + 1..end];
            if inner.contains('\\') {
                return None;
            }
            found.push(if c == '.' { Token::Field(inner.to_owned()) } else { Token::Text(inner.to_owned()) });
            end + 1
        } else if c.is_ascii_digit() {
            let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(rest.len());
            found.push(Token::Number(rest[..end].parse().ok()?));
            end
        } else if c.is_ascii_alphabetic() || c == '_' {
            let end = word(rest);
            found.push(Token::Name(rest[..end].to_owned()));
            end
        } else {
            let sign = SIGNS.into_iter().find(|sign| rest.starts_with(sign))?;
            found.push(Token::Sign(sign));
            sign.len()
        };
        rest = rest[len..].trim_start();
    }
    Some(found)
}

enum Filter {
    Whole,
    Literal(Json),
    Variable(String),
    Field(Box<Filter>, String),
    At(Box<Filter>, Box<Filter>),
    Each(Box<Filter>),
    Optional(Box<Filter>),
    Pipe(Box<[Filter; 2]>),
    Comma(Box<[Filter; 2]>),
    Operator(&'static str, Box<[Filter; 2]>),
    And(Box<[Filter; 2]>),
    Or(Box<[Filter; 2]>),
    Else(Box<[Filter; 2]>),
    List(Option<Box<Filter>>),
    Call(String, Option<Box<Filter>>),
}

struct Parser<'t> {
    tokens: &'t [Token],
    at: usize,
    depth: usize,
}

impl Parser<'_> {
    fn sign(&mut self, sign: &str) -> bool {
        let is = matches!(self.tokens.get(self.at), Some(Token::Sign(known)) if *known == sign);
        self.at += usize::from(is);
        is
    }

    fn name(&mut self, name: &str) -> bool {
        let is = matches!(self.tokens.get(self.at), Some(Token::Name(known)) if known == name);
        self.at += usize::from(is);
        is
    }

    fn pipe(&mut self) -> Option<Filter> {
        self.depth += 1;
        if self.depth > 40 {
            return None;
        }
        let mut left = self.comma()?;
        while self.sign("|") {
            left = Filter::Pipe(Box::new([left, self.comma()?]));
        }
        self.depth -= 1;
        Some(left)
    }

    fn comma(&mut self) -> Option<Filter> {
        let mut left = self.or_else()?;
        while self.sign(",") {
            left = Filter::Comma(Box::new([left, self.or_else()?]));
        }
        Some(left)
    }

    fn or_else(&mut self) -> Option<Filter> {
        let left = self.or()?;
        Some(if self.sign("//") { Filter::Else(Box::new([left, self.or_else()?])) } else { left })
    }

    fn or(&mut self) -> Option<Filter> {
        let mut left = self.and()?;
        while self.name("or") {
            left = Filter::Or(Box::new([left, self.and()?]));
        }
        Some(left)
    }

    fn and(&mut self) -> Option<Filter> {
        let mut left = self.compared()?;
        while self.name("and") {
            left = Filter::And(Box::new([left, self.compared()?]));
        }
        Some(left)
    }

    fn compared(&mut self) -> Option<Filter> {
        let left = self.postfix()?;
        let sign = ["==", "!=", "<=", ">=", "<", ">"].into_iter().find(|sign| self.sign(sign));
        Some(match sign {
            Some(sign) => Filter::Operator(sign, Box::new([left, self.postfix()?])),
            None => left,
        })
    }

    fn postfix(&mut self) -> Option<Filter> {
        let mut inner = self.term()?;
        loop {
            if let Some(Token::Field(name)) = self.tokens.get(self.at) {
                self.at += 1;
                inner = Filter::Field(Box::new(inner), name.clone());
            } else if self.sign("?") {
                inner = Filter::Optional(Box::new(inner));
            } else if self.sign("[") || {
                let dotted =
                    matches!(self.tokens.get(self.at..self.at + 2), Some([Token::Sign("."), Token::Sign("[")]));
                self.at += 2 * usize::from(dotted);
                dotted
            } {
                if self.sign("]") {
                    inner = Filter::Each(Box::new(inner));
                } else {
                    let place = self.pipe()?;
                    self.sign("]").then_some(())?;
                    inner = Filter::At(Box::new(inner), Box::new(place));
                }
            } else {
                return Some(inner);
            }
        }
    }

    fn term(&mut self) -> Option<Filter> {
        let token = self.tokens.get(self.at)?.clone();
        self.at += 1;
        Some(match token {
            Token::Sign(".") => Filter::Whole,
            Token::Field(name) => Filter::Field(Box::new(Filter::Whole), name),
            Token::Variable(name) => Filter::Variable(name),
            Token::Text(text) => Filter::Literal(Json::String(text)),
            Token::Number(number) => Filter::Literal(Json::Number(number)),
            Token::Sign("(") => {
                let inner = self.pipe()?;
                self.sign(")").then_some(inner)?
            }
            Token::Sign("[") => {
                if self.sign("]") {
                    return Some(Filter::List(None));
                }
                let inner = self.pipe()?;
                self.sign("]").then_some(Filter::List(Some(Box::new(inner))))?
            }
            Token::Name(name) => match name.as_str() {
                "true" => Filter::Literal(json!(true)),
                "false" => Filter::Literal(json!(false)),
                "null" => Filter::Literal(Json::Null),
                "and" | "or" | "if" | "then" | "else" | "end" | "as" | "reduce" | "foreach" | "def" | "try" => {
                    return None;
                }
                _ => {
                    let given = self.sign("(");
                    let inner = if given { Some(Box::new(self.pipe()?)) } else { None };
                    if given {
                        self.sign(")").then_some(())?;
                    }
                    Filter::Call(name, inner)
                }
            },
            Token::Sign(_) => return None,
        })
    }
}

/// A value, and the name of the field that contains it.
#[derive(Clone)]
struct Item {
    value: Json,
    parent: Option<String>,
}

struct Runner<'g> {
    open: bool,
    given: &'g [(String, Json)],
    steps: usize,
}

fn is_true(value: &Json) -> bool {
    !matches!(value, Json::Null | Json::Bool(false))
}

impl Runner<'_> {
    /// Returns `None` if the result is not known, or if the filter fails.
    fn run(&mut self, filter: &Filter, on: &Item) -> Option<Vec<Item>> {
        self.steps = self.steps.checked_sub(1)?;
        let plain = |value: Json| Some(vec![Item { value, parent: None }]);
        match filter {
            Filter::Whole => Some(vec![on.clone()]),
            Filter::Literal(value) => plain(value.clone()),
            Filter::Variable(name) => {
                plain(self.given.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())?)
            }
            Filter::Field(inner, name) => {
                let inner = self.run(inner, on)?;
                let open = self.open;
                let field = |item: Item| {
                    let value = field(&item.value, name, open, item.parent.as_deref())?;
                    Some(Item { value, parent: Some(name.clone()) })
                };
                inner.into_iter().map(field).collect()
            }
            Filter::At(inner, place) => {
                let (inner, place) = (self.run(inner, on)?, self.one(place, on)?);
                let open = self.open;
                let at = |item: Item| match (&item.value, &place) {
                    (Json::Array(items), Json::Number(n)) => {
                        let at = usize::try_from(n.as_u64()?).ok()?;
                        let found = items.get(at).cloned();
                        Some(Item { value: found.or((!open).then_some(Json::Null))?, parent: None })
                    }
                    (_, Json::String(name)) => {
                        let value = field(&item.value, name, open, item.parent.as_deref())?;
                        Some(Item { value, parent: Some(name.clone()) })
                    }
                    _ => None,
                };
                inner.into_iter().map(at).collect()
            }
            Filter::Each(inner) => {
                let mut all = Vec::new();
                for item in self.run(inner, on)? {
                    match item.value {
                        Json::Array(items) => all.extend(items.into_iter().map(|value| Item { value, parent: None })),
                        Json::Object(fields) if !self.open => {
                            all.extend(fields.into_iter().map(|(_, value)| Item { value, parent: None }));
                        }
                        _ => return None,
                    }
                }
                Some(all)
            }
            Filter::Optional(inner) => self.run(inner, on),
            Filter::Pipe(pair) => {
                let mut all = Vec::new();
                for item in self.run(&pair[0], on)? {
                    all.extend(self.run(&pair[1], &item)?);
                }
                Some(all)
            }
            Filter::Comma(pair) => {
                let mut all = self.run(&pair[0], on)?;
                all.extend(self.run(&pair[1], on)?);
                Some(all)
            }
            Filter::Else(pair) => {
                let found: Vec<Item> =
                    self.run(&pair[0], on)?.into_iter().filter(|item| is_true(&item.value)).collect();
                if found.is_empty() { self.run(&pair[1], on) } else { Some(found) }
            }
            Filter::And(pair) => plain(json!(self.is(&pair[0], on)? && self.is(&pair[1], on)?)),
            Filter::Or(pair) => plain(json!(self.is(&pair[0], on)? || self.is(&pair[1], on)?)),
            Filter::Operator(sign, pair) => {
                let (a, b) = (self.one(&pair[0], on)?, self.one(&pair[1], on)?);
                let number = |value: &Json| value.as_f64();
                let order = match (&a, &b) {
                    (Json::Number(_), Json::Number(_)) => number(&a)?.partial_cmp(&number(&b)?),
                    (Json::String(a), Json::String(b)) => Some(a.cmp(b)),
                    _ => None,
                };
                let same = order.map_or(a == b, std::cmp::Ordering::is_eq);
                plain(json!(match *sign {
                    "==" => same,
                    "!=" => !same,
                    "<=" => order?.is_le(),
                    ">=" => order?.is_ge(),
                    "<" => order?.is_lt(),
                    _ => order?.is_gt(),
                }))
            }
            Filter::List(inner) => {
                let items = match inner {
                    Some(inner) => self.run(inner, on)?,
                    None => Vec::new(),
                };
                plain(Json::Array(items.into_iter().map(|item| item.value).collect()))
            }
            Filter::Call(name, inner) => self.call(name, inner.as_deref(), on),
        }
    }

    fn one(&mut self, filter: &Filter, on: &Item) -> Option<Json> {
        match self.run(filter, on)?.as_slice() {
            [only] => Some(only.value.clone()),
            _ => None,
        }
    }

    fn is(&mut self, filter: &Filter, on: &Item) -> Option<bool> {
        self.one(filter, on).map(|value| is_true(&value))
    }

    fn call(&mut self, name: &str, inner: Option<&Filter>, on: &Item) -> Option<Vec<Item>> {
        let plain = |value: Json| Some(vec![Item { value, parent: None }]);
        let items = || on.value.as_array().cloned();
        let of = |value: Json| Item { value, parent: None };
        match (name, inner) {
            ("length", None) => plain(json!(match &on.value {
                Json::Array(items) => items.len(),
                Json::String(text) => text.chars().count(),
                Json::Object(fields) if !self.open => fields.len(),
                Json::Null => 0,
                _ => return None,
            })),
            ("not", None) => plain(json!(!is_true(&on.value))),
            ("tostring", None) => plain(json!(printed(&on.value)?)),
            ("tonumber", None) => plain(match &on.value {
                Json::Number(_) => on.value.clone(),
                Json::String(text) => Json::Number(text.parse().ok()?),
                _ => return None,
            }),
            ("keys", None) if !self.open => {
                let mut names: Vec<String> = on.value.as_object()?.keys().cloned().collect();
                names.sort();
                plain(json!(names))
            }
            ("add", None) => {
                let numbers: Option<Vec<f64>> = items()?.iter().map(Json::as_f64).collect();
                let sum: f64 = numbers?.into_iter().sum();
                (sum.fract() == 0.0).then(|| plain(json!(sum as i64)))?
            }
            ("sort", None) => {
                let mut names: Vec<String> =
                    items()?.iter().map(|item| item.as_str().map(str::to_owned)).collect::<Option<_>>()?;
                names.sort();
                plain(json!(names))
            }
            ("any" | "all", inner) => {
                let mut results = Vec::new();
                for item in items()? {
                    results.push(match inner {
                        Some(inner) => self.is(inner, &of(item))?,
                        None => is_true(&item),
                    });
                }
                plain(json!(if name == "any" { results.contains(&true) } else { !results.contains(&false) }))
            }
            ("select", Some(inner)) => Some(if self.is(inner, on)? { vec![on.clone()] } else { Vec::new() }),
            ("map", Some(inner)) => {
                let mut all = Vec::new();
                for item in items()? {
                    all.extend(self.run(inner, &of(item))?.into_iter().map(|item| item.value));
                }
                plain(Json::Array(all))
            }
            ("has", Some(inner)) => {
                let key = self.one(inner, on)?;
                let has = on.value.as_object()?.contains_key(key.as_str()?);
                (has || !self.open).then(|| plain(json!(has)))?
            }
            ("startswith" | "endswith" | "contains" | "test", Some(inner)) => {
                let wanted = self.one(inner, on)?;
                let (text, wanted) = (on.value.as_str()?, wanted.as_str()?.to_owned());
                plain(json!(match name {
                    "startswith" => text.starts_with(&wanted),
                    "endswith" => text.ends_with(&wanted),
                    "contains" => text.contains(&wanted),
                    _ => regex::Regex::new(&wanted).ok()?.is_match(text),
                }))
            }
            ("index", Some(inner)) => {
                let wanted = self.one(inner, on)?;
                let at = items()?.iter().position(|item| *item == wanted);
                plain(at.map_or(Json::Null, |at| json!(at)))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_of_jq() {
        let value = json!({"a": [{"n": "x", "v": 2}, {"n": "y"}], "data": {"k": "1"}, "t": "web-1"});
        let ask = |filter: &str, open: bool| {
            let found = by_filter(filter, &value, open, &[("w".to_owned(), json!("x"))])?;
            Some(found.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "))
        };
        for (filter, wanted) in [
            (".a | length", "2"),
            ("[.a[].n] | index(\"y\") != null", "true"),
            (".a[0].v == 2 and (.a | any(.n == $w))", "true"),
            (".a[] | select(.n == \"y\") | .n", "\"y\""),
            (".data[\"k\"], .t", "\"1\" \"web-1\""),
            ("[.a[]? | .n] | sort", "[\"x\",\"y\"]"),
            (".t | test(\"^web\")", "true"),
            (".none // 7", "7"),
            (".data.none", "null"),
        ] {
            assert_eq!(ask(filter, false).as_deref(), Some(wanted), "{filter}");
        }
        assert_eq!(ask(".none", true), None);
        assert_eq!(ask(".data.none", true).as_deref(), Some("null"));
        assert_eq!(ask("if . then 1 else 2 end", false), None);
    }

    #[test]
    fn templates_of_jsonpath() {
        let value = json!({"spec": {"replicas": 3, "c": [{"name": "a", "image": "i"}]}, "data": {"a.b": "x"}});
        let ask = |template: &str| by_template(template, &value);
        assert_eq!(ask("{.spec.replicas} {.data.a\\.b}").as_deref(), Some("3 x"));
        assert_eq!(ask("{.spec.c[?(@.name==\"a\")].image}{\"\\n\"}").as_deref(), Some("i\n"));
        assert_eq!(ask("{.spec.c[*].name}{.data['a.b']}").as_deref(), Some("ax"));
        assert_eq!(ask("{.data.none}").as_deref(), Some(""));
        for unknown in ["{.status.x}", "{..name}", "{.spec}", "{range .items[*]}{.a}{end}"] {
            assert_eq!(ask(unknown), None, "{unknown}");
        }
    }
}
