//! Words that stand in for texts while a template is evaluated, so that it is known where in the result the texts are. Functions of the
//! template that look into a text get the text itself; what they make of it gets a word of its own. No IO.

use std::{
    ops::Range,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use gotmpl::{FuncMap, Result, Template, TemplateError, Value};
use regex::{Captures, Regex};

/// A text that a word stands in for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Text {
    pub value: String,
    /// What a shell makes of the text where it stands bare, if that is not the text: `printf "%q"` adds the quotes that a shell takes
    /// away.
    pub bare: Option<String>,
    /// Where in the template it comes from.
    pub origin: Range<usize>,
}

/// The words of one template, with their texts.
#[derive(Clone, Debug)]
pub struct StandIns {
    /// A plain word wherever it stands, and part of no name; a number and `/` follow.
    prefix: Arc<str>,
    word: Arc<Regex>,
    texts: Arc<Mutex<Vec<Text>>>,
}

impl StandIns {
    /// Words that do not occur in `template`.
    ///
    /// # Errors
    /// Never: the pattern is one of ours.
    pub fn new(template: &str) -> std::result::Result<Self, regex::Error> {
        let mut prefix = "/prompt".to_owned();
        while template.contains(&prefix) {
            prefix.push('-');
        }
        let word = Arc::new(Regex::new(&format!("{prefix}([0-9]+)/"))?);
        Ok(Self { prefix: prefix.into(), word, texts: Arc::default() })
    }

    /// A new word.
    pub fn add(&self, text: Text) -> String {
        let mut texts = self.texts();
        texts.push(text);
        format!("{}{}/", self.prefix, texts.len() - 1)
    }

    /// The places of all words in a text, with what they stand for.
    pub fn places(&self, text: &str) -> Vec<(Range<usize>, Text)> {
        let texts = self.texts();
        let found = self.word.captures_iter(text).filter_map(|found| {
            let nth: usize = found.get(1)?.as_str().parse().ok()?;
            Some((found.get(0)?.range(), texts.get(nth)?.clone()))
        });
        found.collect()
    }

    /// Functions that see through the words.
    pub fn functions(&self) -> FuncMap {
        // What the others are given they only compare with nothing, or hand on.
        let names = ["eq", "ne", "lt", "le", "gt", "ge", "len", "index", "slice", "html", "js", "urlquery", "printf"];
        let function = |name: &'static str| {
            let own = self.clone();
            let call = move |args: &[Value]| match name {
                "printf" => own.printf(args),
                name => own.look(name, args),
            };
            (name.to_owned(), Arc::new(call) as gotmpl::ValueFunc)
        };
        names.into_iter().map(function).collect()
    }

    fn texts(&self) -> MutexGuard<'_, Vec<Text>> {
        self.texts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A text with all words replaced, and where the first came from; `None` where there is none.
    fn seen(&self, value: &Value) -> Option<(String, Range<usize>)> {
        let text = value.as_str()?;
        let origin = self.places(text).into_iter().next()?.1.origin;
        let texts = self.texts();
        let whole = self.word.replace_all(text, |found: &Captures<'_>| {
            found[1].parse().ok().and_then(|nth: usize| texts.get(nth)).map_or(String::new(), |text| text.value.clone())
        });
        Some((whole.into_owned(), origin))
    }

    /// A function of the texts; its result, where that is a text, has a word of its own.
    fn look(&self, name: &str, args: &[Value]) -> Result<Value> {
        let seen: Vec<_> = args.iter().map(|arg| self.seen(arg)).collect();
        let Some(origin) = seen.iter().flatten().map(|(_, origin)| origin.clone()).next() else {
            return usual(name, args);
        };
        let real = args.iter().zip(&seen).map(|(arg, seen)| match seen {
            Some((text, _)) => Value::String(text.as_str().into()),
            None => arg.clone(),
        });
        match usual(name, &real.collect::<Vec<_>>())? {
            Value::String(text) => Ok(self.word(text.to_string(), None, origin)),
            other => Ok(other),
        }
    }

    fn word(&self, value: String, bare: Option<String>, origin: Range<usize>) -> Value {
        Value::String(self.add(Text { value, bare, origin }).into())
    }

    /// `%s` and `%v` hand a word on; any other verb is a function of its text.
    fn printf(&self, args: &[Value]) -> Result<Value> {
        let Some(format) = args.first().and_then(Value::as_str).filter(|f| !f.contains(['*', '['])) else {
            return self.look("printf", args);
        };
        let mut args = args.to_vec();
        let mut plain = String::new();
        let mut nth = 0;
        let mut rest = format;
        while let Some(at) = rest.find('%') {
            plain += &rest[..at];
            let flags = rest[at + 1..].find(|c: char| !"+-# 0123456789.".contains(c)).unwrap_or(rest.len() - at - 1);
            let end = at + 1 + flags;
            let end = end + rest[end..].chars().next().map_or(0, char::len_utf8);
            let verb = &rest[at..end];
            rest = &rest[end..];
            if verb == "%%" {
                plain += verb;
                continue;
            }
            nth += 1;
            match args.get(nth).and_then(|arg| self.seen(arg)).filter(|_| !matches!(verb, "%s" | "%v")) {
                Some((text, origin)) => {
                    let made = usual("printf", &[Value::String(verb.into()), Value::String(text.as_str().into())])?;
                    let bare = (verb == "%q").then_some(text);
                    args[nth] = self.word(made.to_string(), bare, origin);
                    plain += "%s";
                }
                None => plain += verb,
            }
        }
        plain += rest;
        args[0] = Value::String(plain.into());
        usual("printf", &args)
    }
}

/// A function as every template has it.
fn usual(name: &str, args: &[Value]) -> Result<Value> {
    let values: String = (0..args.len()).map(|nth| format!(" (index . {nth})")).collect();
    let template = Template::new(name).parse(&format!("{{{{ {name}{values} }}}}"))?;
    let out = template.execute_to_string(&Value::List(args.into()))?;
    let number = || out.parse().map_err(|_| TemplateError::Exec(format!("`{name}` did not return a number")));
    Ok(match name {
        "eq" | "ne" | "lt" | "le" | "gt" | "ge" => Value::Bool(out == "true"),
        "len" | "index" => Value::Int(number()?),
        _ => Value::String(out.into()),
    })
}
