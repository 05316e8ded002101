//! What filters of jq and paths of kubectl yield, by the types of what they read: fields that do not exist, and
//! comparisons that never hold.

use std::{ops::Range, rc::Rc};

use crate::{
    bash::{
        jq::{Kind, Node},
        tools::Tools,
        types::{self, Shape},
    },
    diagnostic::nearest,
    lint::analysis::texts,
    source::Span,
};

/// What is known of a value.
#[derive(Clone, PartialEq, Debug)]
pub enum Type {
    Unknown,
    /// No value at all.
    Never,
    Null,
    Number,
    Boolean,
    /// A text, with all its values, separated by `|`, if they are known.
    Text(Option<&'static str>),
    /// This text.
    Literal(String),
    /// Not an object, a list or a Boolean.
    Either,
    List(Rc<Self>),
    /// An object whose keys anybody chooses, and its path.
    Map(Rc<Self>, String),
    /// An object of Kubernetes, and its path.
    Table(types::Type, String),
    /// An object with fields in the table of a program: the program, the kind, and the path.
    Listed(&'static str, &'static str, String),
    /// A list of resources, and the word for their kind.
    Items(Rc<Self>, String),
    /// An object with these fields.
    Object(Rc<Vec<(String, Self)>>),
    /// An object with these fields, and perhaps others.
    Open(Rc<Vec<(String, Self)>>),
    /// An object whose keys setup chooses.
    Keys(Rc<Keys>),
}

/// Keys of an object that setup creates. It may get others.
#[derive(Clone, PartialEq, Debug)]
pub struct Keys {
    pub given: Vec<String>,
    /// Words of the prompt, which may be keys as well.
    pub said: String,
    /// `the configmap that setup creates`
    pub what: String,
    /// Whether names that only begin alike are probably meant for each other.
    pub is_loose: bool,
}

/// A fault, with its place in a file.
#[derive(Debug)]
pub struct Found {
    pub span: Span,
    pub fault: Fault,
    /// Whether the agent may change what it depends on.
    pub likely: bool,
}

/// What filters of a task are read with.
pub struct World<'w> {
    pub tools: &'w Tools,
    /// The keys of config maps and secrets.
    pub keys: &'w dyn Fn(&str) -> Rc<Keys>,
    /// The values of charts.
    pub values: &'w dyn Fn() -> Rc<Keys>,
}

/// What is wrong with a filter.
#[derive(Clone, PartialEq, Debug)]
pub struct Fault {
    pub range: Range<usize>,
    pub about: About,
    pub message: String,
    pub help: String,
}

/// The kinds of faults.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum About {
    /// A field that does not exist.
    Field,
    /// A key with dots that is read as a path.
    Key,
    /// Sides of a comparison that never have the same type, or an operation that fails.
    Types,
    /// A text that a field never has.
    Value,
}

/// Reads filters that start at one value.
pub struct Reader<'w> {
    world: &'w World<'w>,
    /// `a deployment`, for messages.
    subject: String,
    /// `the result is null`.
    effect: &'static str,
    variables: Vec<(String, Type)>,
    pub faults: Vec<Fault>,
    /// Whether errors are expected, as in `.a?`.
    tolerant: usize,
}

impl Type {
    /// The type for one of the table.
    pub fn of(kind: types::Type, path: &str) -> Self {
        match kind.shape() {
            Shape::Number => Self::Number,
            Shape::Boolean => Self::Boolean,
            Shape::Text(values) => Self::Text(values),
            Shape::Either => Self::Either,
            Shape::List(item) => Self::List(Rc::new(Self::of(item, path))),
            Shape::Map(value) => Self::Map(Rc::new(Self::of(value, path)), path.to_owned()),
            Shape::Object => Self::Table(kind, path.to_owned()),
            Shape::Unknown => Self::Unknown,
        }
    }

    /// The type for a value of JSON that may get more fields.
    pub fn of_json(json: &serde_json::Value) -> Self {
        use serde_json::Value as Json;
        match json {
            Json::Bool(_) => Self::Boolean,
            Json::Number(_) => Self::Number,
            Json::String(_) => Self::Text(None),
            Json::Array(items) => {
                Self::List(Rc::new(items.iter().fold(Self::Never, |all, item| all.or(Self::of_json(item)))))
            }
            Json::Object(fields) => {
                Self::Open(Rc::new(fields.iter().map(|(name, value)| (name.clone(), Self::of_json(value))).collect()))
            }
            Json::Null => Self::Unknown,
        }
    }

    /// What either of two values is.
    fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::Never, other) | (other, Self::Never) => other,
            (a, b) if a == b => a,
            (Self::Text(_) | Self::Literal(_), Self::Text(_) | Self::Literal(_)) => Self::Text(None),
            (Self::List(a), Self::List(b)) => Self::List(Rc::new(Rc::unwrap_or_clone(a).or(Rc::unwrap_or_clone(b)))),
            _ => Self::Unknown,
        }
    }

    pub fn is_text(&self) -> bool {
        matches!(self, Self::Text(_) | Self::Literal(_))
    }

    /// The word for its type, with an article.
    fn word(&self) -> Option<&'static str> {
        Some(match self {
            Self::Number => "a number",
            Self::Boolean => "true or false",
            Self::Text(_) | Self::Literal(_) => "a string",
            Self::List(_) => "an array",
            Self::Map(..)
            | Self::Table(..)
            | Self::Object(_)
            | Self::Open(_)
            | Self::Listed(..)
            | Self::Keys(..)
            | Self::Items(..) => "an object",
            Self::Unknown | Self::Never | Self::Null | Self::Either => return None,
        })
    }

    /// Whether two values are never equal because of their types.
    fn differs(&self, other: &Self) -> bool {
        match (self, other) {
            // A string in such a field is a name or a percentage.
            (Self::Either, Self::Literal(text)) | (Self::Literal(text), Self::Either) => {
                !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
            }
            (Self::Either, other) | (other, Self::Either) => {
                matches!(other.word(), Some("an array" | "an object" | "true or false"))
            }
            (Self::List(a), Self::List(b)) => a.differs(b),
            _ => matches!((self.word(), other.word()), (Some(a), Some(b)) if a != b),
        }
    }

    /// A text that a field never has, and the values that it has: of both sides of a comparison, or of their items.
    fn never(&self, other: &Self) -> Option<(String, &'static str)> {
        match (self, other) {
            (Self::List(a), Self::List(b)) => a.never(b),
            (Self::Text(Some(values)), Self::Literal(text)) | (Self::Literal(text), Self::Text(Some(values))) => {
                let is_open = text.is_empty() || text.contains('\u{1a}');
                (!is_open && values.split('|').all(|value| value != text)).then(|| (text.clone(), *values))
            }
            _ => None,
        }
    }

    /// Why a value of this type never equals another.
    pub fn unequal(&self, other: &Self, shown: &str, written: &str) -> Option<(About, String, String)> {
        // A name of a port has a letter, and a percentage has its sign.
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        match (self, other) {
            (Self::Either, Self::Literal(text)) if is_number(text) => Self::Number.unequal(other, shown, written),
            _ => self.unlike(other, shown, "never equal to", written),
        }
    }

    fn unlike(&self, other: &Self, shown: &str, result: &str, written: &str) -> Option<(About, String, String)> {
        if !self.differs(other) {
            let (value, values) = self.never(other)?;
            return Some((About::Value, format!("`{shown}` is never `{value}`"), meant(&value, values)));
        }
        let word = self.word().unwrap_or("a number or a word");
        let message = format!("`{shown}` is {word}, which is {result} `{written}`");
        let help = match (self, other) {
            (Self::List(a), Self::List(b)) => match (a.word(), b.word()) {
                (Some(a), Some(b)) => format!("compare with a list of the same items: each is {a}, not {b}"),
                _ => "compare items of the same type".to_owned(),
            },
            (Self::List(_), _) => {
                "compare with an array, `== [70]`, or take an item or the length of the array".to_owned()
            }
            (Self::Map(..) | Self::Table(..) | Self::Object(_), _) => {
                "compare with an object, `== {\"app\": \"web\"}`, or compare one of its fields".to_owned()
            }
            (Self::Number | Self::Boolean | Self::Either, Self::Literal(_)) => "remove the quotes".to_owned(),
            (Self::Text(_), Self::Number | Self::Boolean) => "put it in quotes".to_owned(),
            _ => other.word().map_or_else(String::new, |word| format!("the other side is {word}")),
        };
        Some((About::Types, message, help))
    }

    /// The items of a list, or the values of an object.
    pub fn item(&self) -> Self {
        match self {
            Self::List(item) => Rc::unwrap_or_clone(Rc::clone(item)),
            Self::Map(value, _) => Rc::unwrap_or_clone(Rc::clone(value)),
            Self::Never => Self::Never,
            _ => Self::Unknown,
        }
    }

    /// Whether a program prints this text for it.
    pub fn prints(&self, text: &str) -> Result<(), String> {
        // What is missing is printed as one of these.
        if matches!(text, "" | "null" | "<no value>" | "<none>") || text.contains('\u{1a}') {
            return Ok(());
        }
        match self {
            Self::Number if text.parse::<f64>().is_err() => Err("a number".to_owned()),
            Self::Boolean if !matches!(text, "true" | "false") => Err("`true` or `false`".to_owned()),
            Self::Text(Some(values)) if values.split('|').all(|value| value != text) => Err(listed(values)),
            _ => Ok(()),
        }
    }
}

/// `A`, `B` or `C`.
fn listed(values: &str) -> String {
    format!("one of `{}`", values.replace('|', "`, `"))
}

/// The value that was probably meant, or all of them.
fn meant(value: &str, values: &str) -> String {
    let same = values.split('|').find(|known| known.eq_ignore_ascii_case(value));
    same.map_or_else(|| format!("it is {}", listed(values)), |same| format!("did you mean `{same}`?"))
}

/// At most the beginning of a long text.
fn shortened(text: &str) -> String {
    match text.char_indices().nth(40) {
        Some((end, _)) => format!("{}…", text[..end].trim_end()),
        None => text.to_owned(),
    }
}

impl Keys {
    fn is_near(&self, key: &str, known: &str) -> bool {
        let begin = key.bytes().zip(known.bytes()).take_while(|(a, b)| a == b).count();
        is_near(key, known) || self.is_loose && begin >= 6
    }
}

/// Whether two keys are the same but for case and separators, or but for one letter.
fn is_near(key: &str, known: &str) -> bool {
    let plain = |text: &str| text.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_lowercase();
    let plural = || key.trim_end_matches('s') == known.trim_end_matches('s');
    let slip = || key.len() > 3 && known.len() > 4 && strsim::osa_distance(key, known) == 1 && !plural();
    let letters = key.bytes().all(|b| b.is_ascii_alphabetic());
    key != known && (key.len() > 2 && plain(key) == plain(known) || letters && slip())
}

impl<'w> Reader<'w> {
    /// `subject` is what the first value is: `a deployment`. `effect` says what comes of a field that is missing.
    pub fn new(world: &'w World<'w>, subject: &str, effect: &'static str, variables: Vec<(String, Type)>) -> Self {
        Self { world, subject: subject.to_owned(), effect, variables, faults: Vec::new(), tolerant: 0 }
    }

    fn fault(&mut self, about: About, range: &Range<usize>, message: String, help: String) {
        let fault = Fault { range: range.clone(), about, message, help };
        if !self.faults.contains(&fault) {
            self.faults.push(fault);
        }
    }

    /// What a filter yields. `text` is the whole filter.
    pub fn read(&mut self, text: &str, node: &Node, input: &Type) -> Type {
        match &node.kind {
            Kind::Identity => input.clone(),
            Kind::Field(of, name) => {
                let of = self.read(text, of, input);
                self.field(text, &of, name, node)
            }
            Kind::Index(of, at) => {
                let of = self.read(text, of, input);
                match (&of, self.read(text, at, input)) {
                    (_, Type::Literal(name)) => self.field(text, &of, &name, node),
                    (Type::List(_) | Type::Map(..), _) => of.item(),
                    _ => Type::Unknown,
                }
            }
            Kind::Slice(of) => {
                let of = self.read(text, of, input);
                if matches!(of, Type::List(_)) { of } else { Type::Unknown }
            }
            Kind::Each(of) => {
                let of = self.read(text, of, input);
                self.each(text, &of, node)
            }
            Kind::Pipe(left, right) => {
                let left = self.read(text, left, input);
                self.read(text, right, &left)
            }
            Kind::Comma(left, right) => self.read(text, left, input).or(self.read(text, right, input)),
            Kind::Alternative(left, right) => {
                let before = self.faults.len();
                let first = self.read(text, left, input);
                let middle = self.faults.len();
                let second = self.read(text, right, input);
                let is_constant =
                    matches!(right.kind, Kind::Text(_) | Kind::Number(_) | Kind::Call(..) | Kind::Array(None))
                        || matches!(&right.kind, Kind::Object(fields) if fields.is_empty());
                // Each path is for resources of another form.
                if !is_constant && (before == middle || middle == self.faults.len()) {
                    self.faults.truncate(before);
                }
                first.or(second)
            }
            Kind::Binary(sign, left, right) => {
                let before = self.faults.len();
                let first = self.read(text, left, input);
                let middle = self.faults.len();
                let both = (first, self.read(text, right, input));
                // `.port == 80 or .port == "80"`
                let is_either =
                    *sign == "or" && compared(text, left) == compared(text, right) && compared(text, left).is_some();
                if is_either && (before == middle || middle == self.faults.len()) {
                    self.faults.truncate(before);
                }
                self.binary(text, sign, (left, &both.0), (right, &both.1), node)
            }
            Kind::Assign(..) | Kind::Descendants => Type::Unknown,
            Kind::Negative(of) => {
                self.read(text, of, input);
                Type::Number
            }
            Kind::Text(text) => Type::Literal(text.clone()),
            Kind::Filled(holes) => {
                holes.iter().for_each(|hole| drop(self.read(text, hole, input)));
                Type::Text(None)
            }
            Kind::Number(_) => Type::Number,
            Kind::Array(None) => Type::List(Rc::new(Type::Never)),
            Kind::Array(Some(of)) => Type::List(Rc::new(self.read(text, of, input))),
            Kind::Object(fields) => self.object(text, fields, input),
            Kind::If(branches, otherwise) => {
                let mut all = Type::Never;
                // `if type == "array" then .[] else . end`
                let asks = branches.iter().any(|(condition, _)| {
                    text.get(condition.range.clone()).is_some_and(|condition| condition.contains("type"))
                });
                self.tolerant += usize::from(asks);
                for (condition, branch) in branches {
                    self.read(text, condition, input);
                    all = all.or(self.read(text, branch, input));
                }
                let otherwise = otherwise.as_ref().map_or_else(|| input.clone(), |node| self.read(text, node, input));
                self.tolerant -= usize::from(asks);
                all.or(otherwise)
            }
            Kind::Bind(of, name, body) => {
                let of = self.read(text, of, input);
                self.variables.push((name.clone(), of));
                let body = self.read(text, body, input);
                self.variables.pop();
                body
            }
            Kind::Variable(name) => {
                let known = self.variables.iter().rev().find(|(known, _)| known == name);
                known.map_or(Type::Unknown, |(_, kind)| kind.clone())
            }
            Kind::Format(_) => Type::Text(None),
            Kind::Try(of) => {
                self.tolerant += 1;
                let of = self.read(text, of, input);
                self.tolerant -= 1;
                of
            }
            Kind::Call(name, given) => self.call(text, name, given, input, node),
        }
    }

    fn object(&mut self, text: &str, fields: &[(Option<String>, Node)], input: &Type) -> Type {
        let found: Vec<_> = fields.iter().map(|(key, value)| (key.clone(), self.read(text, value, input))).collect();
        let all: Option<Vec<_>> = found.into_iter().map(|(key, value)| Some((key?, value))).collect();
        all.map_or(Type::Unknown, |all| Type::Object(Rc::new(all)))
    }

    fn field(&mut self, text: &str, of: &Type, name: &str, node: &Node) -> Type {
        if name.contains('\u{1a}') {
            return Type::Unknown;
        }
        match of {
            Type::Map(_, path) if path.ends_with("selector") && matches!(name, "matchLabels" | "matchExpressions") => {
                self.missing(path, name, &["the labels themselves"], None, node);
                Type::Unknown
            }
            Type::Map(value, path) => {
                self.quota(path, name, node);
                Rc::unwrap_or_clone(Rc::clone(value))
            }
            Type::Table(kind, path) => self.of_table(*kind, path, name, node),
            Type::Listed(program, kind, path) => {
                let under =
                    |path: &str| self.world.tools.tool(program).map(|tool| tool.under(kind, path)).unwrap_or_default();
                let (known, inner) = (under(path), join(path, name));
                let is_object = !under(&inner).is_empty();
                let known = if path.is_empty() { under("top") } else { known };
                if !known.is_empty() && !known.contains(&name) {
                    self.missing(path, name, &known, None, node);
                }
                if is_object { Type::Listed(program, kind, inner) } else { Type::Unknown }
            }
            Type::Items(item, word) => match name {
                "items" => Type::List(Rc::clone(item)),
                "apiVersion" | "kind" => Type::Text(None),
                "metadata" => Type::Table(types::Type::LIST, name.to_owned()),
                _ => {
                    let message = format!(
                        "without a name, this is a list of {word}, which has no field `.{name}`: {}",
                        self.effect
                    );
                    let help = format!("name the resource, or select an item: `.items[0].{name}`");
                    self.fault(About::Field, &node.range, message, help);
                    Type::Unknown
                }
            },
            Type::Object(fields) => match fields.iter().find(|(known, _)| known == name) {
                Some((_, kind)) => kind.clone(),
                None if fields.iter().any(|(known, _)| known.contains('\u{1a}')) => Type::Unknown,
                None => {
                    let known: Vec<&str> = fields.iter().map(|(known, _)| known.as_str()).collect();
                    let message = format!("the object has no field `{name}`: {}", self.effect);
                    let help = near(name, &known).unwrap_or_else(|| format!("its fields are {}", known.join(", ")));
                    self.fault(About::Field, &node.range, message, help);
                    Type::Unknown
                }
            },
            Type::Open(fields) => {
                fields.iter().find(|(known, _)| known == name).map_or(Type::Unknown, |(_, kind)| kind.clone())
            }
            Type::Keys(keys) => {
                let is_known = keys.given.iter().any(|known| known == name) || texts::has_word(&keys.said, name);
                if let Some(near) = keys.given.iter().find(|known| !is_known && keys.is_near(name, known)) {
                    let message = format!("{} has no key `{name}`: {}", keys.what, self.effect);
                    self.fault(About::Field, &node.range, message, format!("did you mean `{near}`?"));
                }
                if keys.is_loose { Type::Unknown } else { Type::Text(None) }
            }
            Type::List(item) => {
                if self.tolerant == 0 {
                    let path = of_node(text, node, name);
                    let message = match &**item {
                        Type::Table(_, path) if !path.is_empty() => {
                            format!("{} has no field `{}`: {}", self.subject, join(path, name), self.effect)
                        }
                        _ => format!("an array has no field `{name}`: {}", self.effect),
                    };
                    let help = match item.as_ref() {
                        Type::Table(_, path) if !path.is_empty() => {
                            format!("`{path}` is a list: select an item, `.{path}[0].{name}`")
                        }
                        _ => format!("select an item: `{path}[0].{name}`"),
                    };
                    self.fault(About::Field, &node.range, message, help);
                }
                Type::Unknown
            }
            Type::Text(_) | Type::Literal(_) | Type::Number | Type::Boolean => {
                if self.tolerant == 0 {
                    self.inside(text, of, name, node);
                }
                Type::Unknown
            }
            Type::Unknown | Type::Never | Type::Null | Type::Either => Type::Unknown,
        }
    }

    /// A field of something that is no object.
    fn inside(&mut self, text: &str, of: &Type, name: &str, node: &Node) {
        let Some(word) = of.word() else { return };
        let outer = of_node(text, node, name);
        const FLAT: [&str; 9] =
            ["hard", "used", "requests", "limits", "labels", "annotations", "matchLabels", "nodeSelector", "data"];
        let mut parts = outer.rsplit('.').map(|part| part.trim_end_matches('?'));
        let key = parts.next().filter(|key| !key.is_empty() && !key.contains([']', '"', ' ', '(']));
        let is_key = parts.next().is_some_and(|parent| FLAT.contains(&parent)) && matches!(of, Type::Text(_));
        match key.filter(|_| is_key) {
            Some(key) => {
                let help = format!("quote it: `[\"{key}.{name}\"]`");
                let message = format!("`{key}.{name}` is a single key, but this path splits it into fields");
                self.fault(About::Key, &node.range, message, help);
            }
            None => {
                let what = if outer.is_empty() { "this".to_owned() } else { format!("`{}`", shortened(outer)) };
                let message = format!("{what} is {word}, which has no field `{name}`: {}", self.effect);
                let help = if *of == Type::Text(None) {
                    "parse it with `fromjson`, if it is JSON"
                } else {
                    "remove the rest of the path"
                };
                self.fault(About::Field, &node.range, message, help.to_owned());
            }
        }
    }

    /// `.spec.hard["request.cpu"]`
    fn quota(&mut self, path: &str, name: &str, node: &Node) {
        if !matches!(path, "spec.hard" | "status.hard" | "status.used")
            || !name.contains('.')
            || types::quota().any(|key| key == name)
        {
            return;
        }
        if let Some(near) = types::quota().find(|known| strsim::osa_distance(name, known) <= 2) {
            let message = format!("`{name}` is not a known key of a quota");
            self.fault(About::Field, &node.range, message, format!("did you mean `{near}`?"));
        }
    }

    fn of_table(&mut self, kind: types::Type, path: &str, name: &str, node: &Node) -> Type {
        let word = self.subject.rsplit(' ').next().unwrap_or_default();
        if matches!(word, "configmap" | "secret") && path.is_empty() && matches!(name, "data" | "stringData") {
            return Type::Keys((self.world.keys)(word));
        }
        if let Some(inner) = kind.field(name) {
            return Type::of(inner, &join(path, name));
        }
        let place = if path.is_empty() { "top" } else { path };
        let is_own = self.world.tools.tool("kubectl").is_some_and(|tool| tool.under(word, place).contains(&name));
        if !kind.is_open() && !is_own {
            let known: Vec<&str> = kind.fields().map(|(name, _)| name).collect();
            self.missing(path, name, &known, Some(kind), node);
        }
        Type::Unknown
    }

    /// Reports a field that an object does not have.
    fn missing(&mut self, path: &str, name: &str, known: &[&str], kind: Option<types::Type>, node: &Node) {
        let field = join(path, name);
        let message = format!("{} has no field `{field}`: {}", self.subject, self.effect);
        let deeper =
            || kind.and_then(|kind| below(kind, name)).map(|found| format!("it is in `{}`", join(path, &found)));
        let help = near(name, known).or_else(deeper).unwrap_or_else(|| match path {
            "" => format!("its fields are {}", known.join(", ")),
            _ => format!("the fields of `{path}` are {}", known.join(", ")),
        });
        self.fault(About::Field, &node.range, message, help);
    }

    fn each(&mut self, text: &str, of: &Type, node: &Node) -> Type {
        if let (Type::Number | Type::Boolean | Type::Text(_), Some(word), 0) = (of, of.word(), self.tolerant) {
            let path = of_node(text, node, "[").trim_end_matches('.');
            let message = format!("`{}` is {word}, which has no items: {}", shortened(path), self.effect);
            self.fault(About::Types, &node.range, message, "remove the brackets".to_owned());
        }
        match of {
            Type::Object(fields) => fields.iter().fold(Type::Never, |all, (_, kind)| all.or(kind.clone())),
            _ => of.item(),
        }
    }

    fn binary(&mut self, text: &str, sign: &str, left: (&Node, &Type), right: (&Node, &Type), node: &Node) -> Type {
        match sign {
            "==" | "!=" | "<" | "<=" | ">" | ">=" => {
                self.compare(text, sign, left, right, node);
                Type::Boolean
            }
            "and" | "or" => Type::Boolean,
            "+" => match (left.1, right.1) {
                (Type::Number, Type::Number) => Type::Number,
                (Type::Text(_) | Type::Literal(_), Type::Text(_) | Type::Literal(_)) => Type::Text(None),
                (Type::List(_), Type::List(_)) => left.1.clone().or(right.1.clone()),
                _ => Type::Unknown,
            },
            "-" if matches!(left.1, Type::List(_)) => left.1.clone(),
            _ if *left.1 == Type::Number && *right.1 == Type::Number => Type::Number,
            _ => Type::Unknown,
        }
    }

    /// Reports a comparison that never, or always, holds.
    fn compare(&mut self, text: &str, sign: &str, left: (&Node, &Type), right: (&Node, &Type), node: &Node) {
        let written = |node: &Node| shortened(text.get(node.range.clone()).unwrap_or_default().trim());
        let is_constant =
            |kind: &Kind| matches!(kind, Kind::Text(_) | Kind::Number(_) | Kind::Call(..) | Kind::Array(None));
        // The constant comes last in messages.
        let (left, right) = if is_constant(&left.0.kind) { (right, left) } else { (left, right) };
        let result = match sign {
            "==" => "never equal to",
            "!=" => "always different from",
            _ => "compared by type, not by value, with",
        };
        let (shown, other) = (written(left.0), written(right.0));
        if let Some((about, message, help)) = left.1.unlike(right.1, &shown, result, &other)
            && (about == About::Types || matches!(sign, "==" | "!="))
        {
            self.fault(about, &node.range, message, help);
        }
    }

    fn unprinted(&mut self, field: &str, value: &str, values: &str, node: &Node) {
        self.fault(About::Value, &node.range, format!("`{field}` is never `{value}`"), meant(value, values));
    }

    fn call(&mut self, text: &str, name: &str, given: &[Node], input: &Type, node: &Node) -> Type {
        match (name, given) {
            ("true" | "false" | "not", []) => Type::Boolean,
            ("null", []) => Type::Null,
            ("empty", []) | ("error" | "halt_error", _) => Type::Never,
            ("select", [condition]) => {
                self.read(text, condition, input);
                input.clone()
            }
            ("recurse" | "walk" | "path" | "paths" | "del" | "to_number" | "env" | "input" | "inputs", _) => {
                Type::Unknown
            }
            ("map", [each]) => {
                let item = self.each(text, input, node);
                Type::List(Rc::new(self.read(text, each, &item)))
            }
            ("any" | "all", []) => Type::Boolean,
            ("any" | "all", [condition]) => {
                let item = self.each(text, input, node);
                self.read(text, condition, &item);
                Type::Boolean
            }
            ("any" | "all", [of, condition]) => {
                let of = self.read(text, of, input);
                self.read(text, condition, &of);
                Type::Boolean
            }
            ("first" | "last", [of]) | ("limit", [_, of]) => self.read(text, of, input),
            ("first" | "last" | "min" | "max", []) => input.item(),
            ("min_by" | "max_by", [by]) => {
                self.read(text, by, &input.item());
                input.item()
            }
            ("sort_by" | "unique_by" | "group_by", [by]) => {
                self.read(text, by, &input.item());
                if name == "group_by" { Type::List(Rc::new(input.clone())) } else { self.as_list(input) }
            }
            ("sort" | "unique" | "reverse", []) => self.as_list(input),
            (
                "values" | "nulls" | "strings" | "numbers" | "booleans" | "objects" | "arrays" | "scalars"
                | "iterables" | "debug",
                [],
            ) => input.clone(),
            ("length" | "utf8bytelength", []) => {
                if *input == Type::Boolean && self.tolerant == 0 {
                    let message = "`length` of true or false is an error: jq fails".to_owned();
                    self.fault(About::Types, &node.range, message, "compare the value itself".to_owned());
                }
                Type::Number
            }
            (
                "tonumber" | "floor" | "round" | "ceil" | "fabs" | "abs" | "now" | "fromdate" | "fromdateiso8601"
                | "mktime",
                [],
            ) => Type::Number,
            ("tostring" | "tojson" | "ascii_downcase" | "ascii_upcase" | "ascii" | "todate", [])
            | ("join" | "ltrimstr" | "rtrimstr", [_])
            | ("sub" | "gsub", _) => {
                if matches!(name, "sub" | "gsub" | "ascii_downcase" | "ascii_upcase") {
                    self.needs_text(name, input, node);
                }
                Type::Text(None)
            }
            ("type", []) => Type::Text(Some("null|boolean|number|string|array|object")),
            ("keys" | "keys_unsorted", []) => match input {
                Type::List(_) => Type::List(Rc::new(Type::Number)),
                _ => Type::List(Rc::new(Type::Text(None))),
            },
            ("to_entries", []) => {
                let value = if matches!(input, Type::Map(..)) { input.item() } else { Type::Unknown };
                let entry = vec![("key".to_owned(), Type::Text(None)), ("value".to_owned(), value)];
                Type::List(Rc::new(Type::Object(Rc::new(entry))))
            }
            ("split", _) => {
                self.needs_text(name, input, node);
                Type::List(Rc::new(Type::Text(None)))
            }
            ("test" | "startswith" | "endswith", [pattern, ..]) => {
                self.needs_text(name, input, node);
                self.read(text, pattern, input);
                Type::Boolean
            }
            ("has", [key]) => {
                if let Type::Literal(key) = self.read(text, key, input) {
                    let before = self.faults.len();
                    self.field(text, input, &key, node);
                    // `has` of what is no object fails, which is another matter.
                    if !matches!(input, Type::Table(..)) {
                        self.faults.truncate(before);
                    }
                }
                Type::Boolean
            }
            ("contains" | "inside", [other]) => {
                let other = self.read(text, other, input);
                self.contains(name, input, &other, node);
                Type::Boolean
            }
            ("index" | "rindex", [item]) => {
                let item = self.read(text, item, input);
                if let Some((value, values)) = input.item().never(&item).filter(|_| matches!(input, Type::List(_))) {
                    self.unprinted("an item", &value, values, node);
                }
                Type::Unknown
            }
            ("IN", [others]) => {
                let other = self.read(text, others, &Type::Unknown);
                if input.differs(&other) {
                    self.compare(text, "==", (node, input), (others, &other), node);
                }
                Type::Boolean
            }
            ("add", []) => match input.item() {
                item @ (Type::Number | Type::Text(_)) => item,
                _ => Type::Unknown,
            },
            _ => Type::Unknown,
        }
    }

    /// What sorts a list.
    fn as_list(&self, input: &Type) -> Type {
        if matches!(input, Type::List(_)) { input.clone() } else { Type::Unknown }
    }

    fn needs_text(&mut self, name: &str, input: &Type, node: &Node) {
        let word = input.word().filter(|word| *word != "a string" && self.tolerant == 0);
        if let Some(word) = word {
            let message = format!("`{name}` needs a string, and this is {word}: jq fails");
            let help = match input {
                Type::Number | Type::Boolean => "compare the value, or convert it with `tostring`",
                _ => "select a field or an item first",
            };
            self.fault(About::Types, &node.range, message, help.to_owned());
        }
    }

    fn contains(&mut self, name: &str, input: &Type, other: &Type, node: &Node) {
        if self.tolerant == 0
            && !matches!((input, other), (Type::List(_), Type::List(_)))
            && input.differs(other)
            && let (Some(a), Some(b)) = (input.word(), other.word())
        {
            let help = match (input, other) {
                (Type::List(_), Type::Text(_) | Type::Literal(_)) => {
                    "search for an item: `index(\"…\")`, or `contains([\"…\"])`".to_owned()
                }
                _ => "compare values of the same type".to_owned(),
            };
            self.fault(About::Types, &node.range, format!("`{name}` of {a} and {b} is an error: jq fails"), help);
        } else if let (Type::List(_), Type::List(_), Some((value, values))) = (input, other, input.never(other)) {
            // A part of a text is enough.
            if !values.split('|').any(|known| known.contains(&value)) {
                self.unprinted("an item", &value, values, node);
            }
        }
    }
}

/// What a comparison, or the last of several, compares.
fn compared<'t>(text: &'t str, node: &Node) -> Option<&'t str> {
    match &node.kind {
        Kind::Binary("or", _, last) => compared(text, last),
        Kind::Binary("==", left, _) => text.get(left.range.clone()).map(str::trim),
        _ => None,
    }
}

/// `a.b`
fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// What is before the last name of a path, as written.
fn of_node<'t>(text: &'t str, node: &Node, name: &str) -> &'t str {
    let whole = text.get(node.range.clone()).unwrap_or_default();
    let end = whole.rfind(name).unwrap_or(whole.len());
    whole[..end].trim_end_matches(['[', '"', '\'', '?']).trim_end_matches('.')
}

/// The name that was probably meant.
fn near(name: &str, known: &[&str]) -> Option<String> {
    nearest(name, known.iter().copied()).map(|near| format!("did you mean `{near}`?"))
}

/// The path to a field of this name in an object, if it is in one of its first levels.
fn below(kind: types::Type, name: &str) -> Option<String> {
    let mut level = vec![(kind, String::new())];
    for _ in 0..3 {
        let mut next = Vec::new();
        for (kind, path) in level {
            for (field, inner) in kind.fields() {
                let is_list = matches!(inner.shape(), Shape::List(_));
                let within = join(&path, field) + if is_list { "[]" } else { "" };
                if inner.item().field(name).is_some() {
                    return Some(join(&within, name));
                }
                next.push((inner.item(), within));
            }
        }
        level = next;
    }
    None
}
