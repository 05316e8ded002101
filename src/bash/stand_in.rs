//! Placeholder words for texts during the evaluation of a template, so that the places of the texts in the result are known. Template
//! functions that inspect a text get the text itself, and their result gets a placeholder of its own. No IO.

use std::{
    ops::Range,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use gotmpl::{FuncMap, Result, Template, TemplateError, Value};
use regex::{Captures, Regex};

/// A text with a placeholder.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Text {
    pub value: String,
    /// The value of the text where it appears unquoted in a shell, if that differs from the text: `printf "%q"` adds quotes that a
    /// shell removes.
    pub bare: Option<String>,
    /// The range in the template that it comes from.
    pub origin: Range<usize>,
}

/// The placeholders of one template, with their texts.
#[derive(Clone, Debug)]
pub struct StandIns {
    /// The start of each placeholder, followed by a number and `/`: a plain word in any position, and not part of a
    /// name.
    prefix: Arc<str>,
    word: Arc<Regex>,
    texts: Arc<Mutex<Vec<Text>>>,
}

impl StandIns {
    /// Creates placeholders that do not occur in `template`.
    ///
    /// # Errors
    /// Never: the pattern is always valid.
    pub fn new(template: &str) -> std::result::Result<Self, regex::Error> {
        let mut prefix = "/prompt".to_owned();
        while template.contains(&prefix) {
            prefix.push('-');
        }
        let word = Arc::new(Regex::new(&format!("{prefix}([0-9]+)/"))?);
        Ok(Self { prefix: prefix.into(), word, texts: Arc::default() })
    }

    /// Adds a text and returns its placeholder.
    pub fn add(&self, text: Text) -> String {
        let mut texts = self.texts();
        texts.push(text);
        format!("{}{}/", self.prefix, texts.len() - 1)
    }

    /// The places of all placeholders in a text, with their texts.
    pub fn places(&self, text: &str) -> Vec<(Range<usize>, Text)> {
        let texts = self.texts();
        let found = self.word.captures_iter(text).filter_map(|found| {
            let nth: usize = found.get(1)?.as_str().parse().ok()?;
            Some((found.get(0)?.range(), texts.get(nth)?.clone()))
        });
        found.collect()
    }

    /// Template functions that see the texts behind the placeholders.
    pub fn functions(&self) -> FuncMap {
        // The other functions only test whether their arguments are empty, or pass them on.
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

    /// A text with all placeholders replaced, and the origin of the first one. Returns `None` if it contains no
    /// placeholder.
    fn seen(&self, value: &Value) -> Option<(String, Range<usize>)> {
        let text = value.as_str()?;
        let origin = self.places(text).into_iter().next()?.1.origin;
        let texts = self.texts();
        let whole = self.word.replace_all(text, |found: &Captures<'_>| {
            found[1].parse().ok().and_then(|nth: usize| texts.get(nth)).map_or(String::new(), |text| text.value.clone())
        });
        Some((whole.into_owned(), origin))
    }

    /// Calls a function with the actual texts. If the result is a text, it gets a placeholder of its own.
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

    /// `%s` and `%v` pass a placeholder on; any other verb is applied to its text.
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

/// Calls the standard function of this name.
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
