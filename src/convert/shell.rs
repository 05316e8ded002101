//! What is known about a shell's variables while a script is read, and words with their variables filled
//! in.

use std::{
    collections::{HashMap, HashSet},
    path::{Path, PathBuf},
};

use crate::{
    bash::{
        ast::{List, Part, Word},
        inline::Functions,
        is_safe,
    },
    source::normalize,
    template,
};

/// A text with parts that are filled in when the task runs.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Text(pub Vec<Piece>);

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Piece {
    Literal(String),
    Hole {
        text: String,
        /// Its value, if that is known.
        constant: Option<String>,
        /// Whether it is one word for a shell even without quotes, whatever the environment contains.
        safe: bool,
        /// Whether it was quoted.
        quoted: bool,
    },
}

impl Text {
    pub fn literal(text: impl Into<String>) -> Self {
        Self(vec![Piece::Literal(text.into())])
    }

    /// `open`: the value may be different when the task runs.
    pub fn hole(text: impl Into<String>, constant: Option<String>, open: bool) -> Self {
        let safe = !open && constant.as_deref().is_some_and(is_safe);
        Self(vec![Piece::Hole { text: text.into(), constant, safe, quoted: false }])
    }

    /// Returns the value, if it is known, assuming that the environment does not override it.
    pub fn constant(&self) -> Option<String> {
        self.0
            .iter()
            .map(|p| match p {
                Piece::Literal(text) => Some(text.as_str()),
                Piece::Hole { constant, .. } => constant.as_deref(),
            })
            .collect()
    }

    /// Returns the text as a template of the portable dialect.
    pub fn template(&self) -> String {
        self.0
            .iter()
            .map(|p| match p {
                Piece::Literal(text) => template::escape(text),
                Piece::Hole { text, .. } => text.clone(),
            })
            .collect()
    }

    pub fn has_open_hole(&self) -> bool {
        self.0.iter().any(|p| matches!(p, Piece::Hole { safe: false, .. }))
    }

    fn push(&mut self, piece: Piece) {
        match (self.0.last_mut(), piece) {
            (Some(Piece::Literal(text)), Piece::Literal(more)) => text.push_str(&more),
            (_, piece) => self.0.push(piece),
        }
    }
}

/// The variables and functions of a script at one place.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    vars: HashMap<String, Option<Text>>,
    pub functions: HashMap<String, List>,
    /// Functions of sourced files that can be inlined in substitutions.
    pub sourced: Functions,
    /// The names of functions that the script itself defines.
    pub own: HashSet<String>,
    /// Files that contain the values of variables.
    pub files: HashMap<String, String>,
    /// Arrays of words.
    pub arrays: HashMap<String, Vec<Text>>,
    /// The directory of the script, as a path from the directory in which its commands run. `None` if that is not known: `$0` of an
    /// inline script without `#!` is the shell.
    pub dir: Option<PathBuf>,
    /// Variables whose value is a path from that directory.
    pub beside: HashSet<String>,
    /// Variables that the script only initializes with a number and increments.
    pub counters: std::collections::HashSet<String>,
    /// Variables that some statement of the script sets in a way that cannot be tracked.
    pub wild: std::collections::HashSet<String>,
}

impl Scope {
    pub fn set(&mut self, name: &str, value: Option<Text>) {
        self.files.remove(name);
        self.beside.remove(name);
        self.vars.insert(name.to_owned(), value);
    }

    pub fn get(&self, name: &str) -> Option<&Text> {
        self.vars.get(name)?.as_ref()
    }

    /// Returns the variables that are outputs of steps, as holes.
    pub fn outputs(&self) -> HashMap<String, String> {
        let outputs = self.vars.iter().filter_map(|(name, value)| match value.as_ref()?.0.as_slice() {
            [Piece::Hole { text, .. }] if text.starts_with("{steps.") => Some((name.clone(), text.clone())),
            _ => None,
        });
        outputs.collect()
    }

    pub fn knows(&self, name: &str) -> bool {
        self.vars.contains_key(name)
    }

    /// Expands a word as the shell would; `None` if that is not known, or if the result would be several
    /// words.
    pub fn word(&self, word: &Word) -> Option<Text> {
        self.parts(&word.parts, false)
    }

    /// Expands the parts of a word. `whole`: the result is not split, as in an assignment or a
    /// here-document.
    pub fn parts(&self, parts: &[Part], whole: bool) -> Option<Text> {
        let mut out = Text::default();
        for part in parts {
            match part {
                Part::Text { text, .. } => out.push(Piece::Literal(text.clone())),
                Part::Var { name, default, quoted } => {
                    for piece in self.variable(name, default.as_deref())?.0 {
                        let split = !quoted && !whole;
                        match piece {
                            Piece::Literal(text) if split && !is_safe(&text) => return None,
                            Piece::Hole { text, constant, safe, .. } => {
                                out.push(Piece::Hole { text, constant, safe, quoted: !split });
                            }
                            literal => out.push(literal),
                        }
                    }
                }
                // `"$(dirname "$0")/x.yaml"`: a file next to the script.
                Part::Command { text, quoted } => {
                    let dir = self.beside(script_dir(&format!("$({text})"))?)?;
                    if !quoted && !whole && !is_safe(&dir) {
                        return None;
                    }
                    out.push(Piece::Literal(dir));
                }
                Part::Other => return None,
            }
        }
        Some(out)
    }

    /// A path below the directory of the script.
    pub fn beside(&self, below: &str) -> Option<String> {
        Some(join(&self.dir.as_ref()?.to_string_lossy(), below))
    }

    /// Whether the value of a word is a path from the directory of the script.
    pub fn is_beside(&self, parts: &[Part]) -> bool {
        parts.iter().any(|part| match part {
            Part::Command { .. } => true,
            Part::Var { name, .. } => self.beside.contains(name),
            _ => false,
        })
    }

    /// The commands run in another directory now.
    pub fn moved(&mut self) {
        self.dir = None;
        for name in std::mem::take(&mut self.beside) {
            self.set(&name, None);
        }
    }

    fn variable(&self, name: &str, default: Option<&[Part]>) -> Option<Text> {
        if self.wild.contains(name) {
            return None;
        }
        match (self.vars.get(name), default) {
            (Some(None), _) => None,
            (Some(Some(value)), None) => Some(value.clone()),
            (Some(Some(value)), Some(default)) => match value.constant() {
                Some(text) if text.is_empty() => self.parts(default, true),
                Some(_) => Some(value.clone()),
                None => None,
            },
            (None, None) => None,
            // The value in the environment, if it is set there.
            (None, Some(default)) => {
                let text = self.parts(default, true)?.constant()?;
                let plain = |c: char| !c.is_control() && c != '\'' && c != '\\';
                if text.is_empty() || !text.chars().all(plain) {
                    return None;
                }
                let hole = format!("{{env.{name} | default('{text}', true)}}");
                Some(Text(vec![Piece::Hole { safe: false, text: hole, constant: Some(text), quoted: false }]))
            }
        }
    }
}

/// `"$(cd "$(dirname "${BASH_SOURCE[0]}")/x" && pwd)"`, `$(dirname "$0")`: returns the directory relative to that of the script.
pub fn script_dir(source: &str) -> Option<&'static str> {
    let text: String = source.chars().filter(|c| !matches!(c, '"' | ' ' | '{' | '}')).collect();
    let text =
        text.replace("BASH_SOURCE[0]", "0").replace("BASH_SOURCE", "0").replace("--", "").replace(">/dev/null2>&1", "");
    match text.as_str() {
        "$(cd$(dirname$0)&&pwd)"
        | "$(dirname$0)"
        | "$(cd$(dirname$0);pwd)"
        | "$(dirname$(realpath$0))"
        | "$(dirname$(readlink-f$0))"
        | "$(cd$(dirname$0)&&pwd-P)" => Some(""),
        "$(cd$(dirname$0)/..&&pwd)" => Some(".."),
        "$(cd$(dirname$0)/../..&&pwd)" => Some("../.."),
        _ => None,
    }
}

/// `"$(dirname "$0")/helpers.sh"`: returns the path after the directory.
pub fn script_dir_prefix(source: &str) -> Option<&str> {
    let text = source.trim_matches('"');
    for prefix in [
        "$(dirname \"$0\")/",
        "${0%/*}/",
        "$(dirname \"${BASH_SOURCE[0]}\")/",
        "$(dirname \"$BASH_SOURCE\")/",
        "$(dirname $0)/",
    ] {
        if let Some(rest) = text.strip_prefix(prefix) {
            return (!rest.contains('$')).then_some(rest);
        }
    }
    None
}

/// Joins two paths and normalizes the result.
pub fn join(base: &str, below: &str) -> String {
    let path = normalize(&Path::new(base).join(below));
    let text = path.to_string_lossy().into_owned();
    if text.is_empty() { ".".to_owned() } else { text }
}
