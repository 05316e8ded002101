//! The scripts that a script sources: `source x`, and `. "$(dirname "$0")/x"`.

use std::{path::PathBuf, sync::LazyLock};

use super::script::{Form, ScriptView};
use crate::{
    ascii::{Ascii, ascii},
    bash::{
        Word,
        program::{Kind, Statement},
    },
    source::resolve,
};

/// The argument of `source`, if it is a path relative to the directory in which the script runs.
pub fn sourced(statement: &Statement) -> Option<&Word> {
    let word = matches!(statement.name(), "source" | ".").then(|| statement.words().get(1))??;
    // A name without a slash is searched on PATH; absolute paths are specific to the machine.
    let relative = word.text.contains('/') && !word.text.starts_with(['/', '~']);
    (word.literal && relative).then_some(word)
}

/// The files that a script always sources, if their place is known.
pub fn read_by<'s>(script: &'s ScriptView<'_>) -> impl Iterator<Item = (&'s Word, PathBuf)> {
    placed(script).into_iter().filter_map(|(statement, dir)| match (sourced(statement), dir) {
        (Some(word), Some(dir)) => Some((word, resolve(&dir, &word.text))),
        _ => beside(statement, script),
    })
}

/// The statements that always run, each with the directory it runs in, up to one after which the directory is not known.
pub fn placed<'s>(script: &'s ScriptView<'_>) -> Vec<(&'s Statement, Option<PathBuf>)> {
    let (mut dir, mut found) = (script.dir.clone(), Vec::new());
    for statement in &script.content.program.body {
        // `cd … || exit 1` continues in the new directory as well.
        let first = match &statement.kind {
            Kind::Or(pair) => &pair[0],
            _ => statement,
        };
        match (first.name(), first.words()) {
            ("cd", [_, word]) => match own_folder(&word.text, script) {
                Some(own) => dir = Some(own),
                None => break,
            },
            ("cd" | "pushd", _) => break,
            _ => found.push((statement, dir.clone())),
        }
    }
    found
}

/// The path of a file next to the script's own file: `. "$(dirname "$0")/lib.sh"`, `source "$HERE/lib.sh"`.
pub fn beside<'s>(statement: &'s Statement, script: &ScriptView<'_>) -> Option<(&'s Word, PathBuf)> {
    let word = matches!(statement.name(), "source" | ".").then(|| statement.words().get(1))??;
    of_own_folder(word, script).map(|path| (word, path))
}

/// The file that a word names relative to the script's own directory.
pub fn of_own_folder(word: &Word, script: &ScriptView<'_>) -> Option<PathBuf> {
    let names_file = !word.literal && word.text.rsplit_once('/').is_some_and(|(_, name)| !name.contains(')'));
    names_file.then(|| own_folder(&word.text, script))?
}

/// The script's own directory, or a path below it, that a text names.
fn own_folder(text: &str, script: &ScriptView<'_>) -> Option<PathBuf> {
    let own = match &script.form {
        Form::File { path, .. } => path.parent()?,
        // Such a script has a file in the directory of its task.
        Form::Inline if script.content.text.trim_start().starts_with("#!") && script.step.arg("workdir").is_none() => {
            script.dir.as_deref()?
        }
        _ => return None,
    };
    let text = text.replace('"', "");
    let (head, rest) = match OWN_FOLDER.captures(&text) {
        Some(found) => (found.get(1).map_or("", |m| m.as_str()).to_owned(), text[found.get(0)?.end()..].to_owned()),
        None => {
            let found = VARIABLE.captures(&text)?;
            let rest = found.get(2).map_or("", |m| m.as_str());
            (assigned(&script.content.text, found.get(1)?.as_str())?, rest.to_owned())
        }
    };
    let plain = |part: &str| part.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '-' | '_'));
    ((rest.is_empty() || rest.starts_with('/')) && plain(&rest)).then(|| resolve(own, &format!(".{head}{rest}")))
}

/// The path that a variable adds to the script's own directory, if the variable is assigned this directory exactly
/// once.
fn assigned(text: &str, name: &str) -> Option<String> {
    let given = |line: &str| {
        let line = line.trim_start();
        let line =
            ["export ", "readonly ", "local ", "declare -r "].iter().find_map(|k| line.strip_prefix(k)).unwrap_or(line);
        Some(line.strip_prefix(name)?.strip_prefix('=')?.replace('"', ""))
    };
    let mut all = text.lines().filter_map(given);
    let value = all.next().filter(|_| all.next().is_none())?;
    let found = OWN_FOLDER.captures(&value)?;
    let rest = &value[found.get(0)?.end()..];
    let more = found.get(1).map_or("", |m| m.as_str());
    (rest.is_empty() || rest.starts_with('/') && !rest.contains(['$', ' ', ';'])).then(|| format!("{more}{rest}"))
}

/// An expression for the directory of the script's file, without quotes, and the path inside it.
static OWN_FOLDER: LazyLock<Ascii> = LazyLock::new(|| {
    let own = r"(?:\$0|\$\{0\}|\$BASH_SOURCE|\$\{BASH_SOURCE(?:\[0\])?\})";
    let dir = format!(r"(?:\$\(dirname (?:-- )?{own}\)|\$\{{(?:0|BASH_SOURCE(?:\[0\])?)%/\*\}})");
    let cd =
        format!(r"\$\(cd (?:-- |-P )?{dir}((?:/[\w.-]+)*) ?(?:&?>+ ?/dev/null(?: 2>&1)?)? ?(?:&&|;) ?pwd(?: -P)?\)");
    format!("^(?:{cd}|{dir})").into()
});

static VARIABLE: Ascii = ascii(r"^\$(?:\{)?(\w+)(?:\})?(/.+)?$");
