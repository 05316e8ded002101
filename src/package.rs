//! Where an extension comes from: what the `package` of an extension means.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use crate::source::resolve;

/// What a package is (§7.2 of the upstream behaviour, `portable-format.md`).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Source {
    /// A program, or a folder with `extension.yaml`. One that begins with `~/` is in the user's folder.
    Path(PathBuf),
    /// A part of gevals: `builtin:NAME`.
    Builtin(String),
    /// Assets of a release on GitHub.
    Release { owner: String, repo: String, version: String },
}

/// What forms there are, for messages.
pub const FORMS: &str = "a package is a path such as `./ext`, `github.com/OWNER/REPO@VERSION`, or `builtin:NAME`";

impl Source {
    /// Reads a package; a relative path is one from `dir`.
    ///
    /// # Errors
    /// What is wrong with it, as a predicate of the package.
    pub fn parse(package: &str, dir: &Path) -> Result<Self, String> {
        if let Some(name) = package.strip_prefix("builtin:") {
            return match name.is_empty() {
                true => Err("names no builtin".to_owned()),
                false => Ok(Self::Builtin(name.to_owned())),
            };
        }
        let path = package.strip_prefix("file://").unwrap_or(package);
        if path.starts_with("~/") {
            return Ok(Self::Path(PathBuf::from(path)));
        }
        if package.starts_with("file://") || is_path(package) {
            return Ok(Self::Path(resolve(dir, path)));
        }
        match package.split_once("github.com/") {
            Some((_, rest)) => release(rest),
            None => Err("is of no form that is known".to_owned()),
        }
    }
}

/// Whether a package is written as a path.
pub fn is_path(package: &str) -> bool {
    ["./", "../", "/", "~/", "file://"].iter().any(|start| package.starts_with(start)) || matches!(package, "." | "..")
}

fn release(rest: &str) -> Result<Source, String> {
    let (name, version) = match rest.split_once('@') {
        Some((_, "")) => return Err("has an empty version behind the `@`".to_owned()),
        Some((name, version)) => (name, version),
        None => (rest, "latest"),
    };
    match name.split('/').collect::<Vec<_>>().as_slice() {
        [owner, repo] if !owner.is_empty() && !repo.is_empty() && !version.contains('/') => {
            Ok(Source::Release { owner: (*owner).to_owned(), repo: (*repo).to_owned(), version: version.to_owned() })
        }
        _ => Err("is not `github.com/OWNER/REPO@VERSION`".to_owned()),
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => write!(f, "{}", path.display()),
            Self::Builtin(name) => write!(f, "builtin:{name}"),
            Self::Release { owner, repo, version } => write!(f, "github.com/{owner}/{repo}@{version}"),
        }
    }
}

/// A piece of a text that an extension is given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Piece<'a> {
    Text(&'a str),
    /// Of the environment of gevals.
    Variable(&'a str),
}

/// Takes the `env` and `config` of an extension apart: `${NAME}` and `{env.NAME}` are variables, and any other brace is an
/// error (§7.1 of the upstream behaviour).
///
/// # Errors
/// What is wrong with a brace.
pub fn pieces(text: &str) -> Result<Vec<Piece<'_>>, String> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(['{', '}']) {
        let (before, behind) = rest.split_at(at);
        let end = behind.find('}').filter(|_| behind.starts_with('{'));
        let Some(end) = end else { return Err(stray(text)) };
        let (inside, is_dollar) = (&behind[1..end], before.ends_with('$'));
        let name = if is_dollar { Some(inside) } else { inside.strip_prefix("env.") };
        let is_name = |name: &&str| {
            name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
                && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        };
        let Some(name) = name.filter(is_name) else { return Err(stray(text)) };
        pieces.push(Piece::Text(if is_dollar { &before[..before.len() - 1] } else { before }));
        pieces.push(Piece::Variable(name));
        rest = &behind[end + 1..];
    }
    pieces.push(Piece::Text(rest));
    Ok(pieces)
}

fn stray(text: &str) -> String {
    format!("a brace in `{text}` is neither `${{NAME}}` nor `{{env.NAME}}`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_is_a_path_a_release_or_a_builtin() {
        let of = |text: &str| Source::parse(text, Path::new("evals")).map(|source| source.to_string());
        for (text, meant) in [
            ("./ext", "evals/ext"),
            ("../ext", "ext"),
            ("file://ext", "evals/ext"),
            ("/opt/ext", "/opt/ext"),
            ("~/ext", "~/ext"),
            ("builtin:kubernetes", "builtin:kubernetes"),
            ("github.com/o/r@v1", "github.com/o/r@v1"),
            ("https://github.com/o/r", "github.com/o/r@latest"),
        ] {
            assert_eq!(of(text).as_deref(), Ok(meant), "{text}");
        }
        for text in ["ext", "builtin:", "github.com/o", "github.com/o/r@", "github.com/o/r/s@v1", "npm:ext", ""] {
            assert!(of(text).is_err(), "{text}");
        }
    }

    #[test]
    fn variables_are_the_only_braces() {
        let of = |text: &str| {
            let pieces = pieces(text)?;
            let shown = pieces.iter().map(|piece| match piece {
                Piece::Text(text) => (*text).to_owned(),
                Piece::Variable(name) => format!("<{name}>"),
            });
            Ok::<_, String>(shown.collect::<String>())
        };
        assert_eq!(of("a${B}c{env.D}$e").as_deref(), Ok("a<B>c<D>$e"));
        for text in ["{", "a}b", "${}", "{env.}", "{steps.a}", "${A-b}", "{\"a\": 1}"] {
            assert!(of(text).is_err(), "{text}");
        }
    }
}
