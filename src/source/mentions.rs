//! The files and directories that a text names, by paths relative to its directory and to those that it works in.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    path::{Path, PathBuf},
    sync::LazyLock,
};

use globset::GlobBuilder;
use regex::Regex;

use super::{Files, Stat, normalize, resolve};

/// The maximum depth of nested texts: quoted ones, and command substitutions.
const DEEPEST: usize = 4;
/// The maximum number of directories that one text works in.
const MOST_FOLDERS: usize = 32;
/// The maximum number of directories that `**` matches.
const MOST_BELOW: usize = 10_000;
/// Directories with generated or installed files.
const MADE: [&str; 5] = ["node_modules", "target", "__pycache__", "venv", "dist"];

/// Files that a program reads in the current directory without being given their names.
const READ_BY: [(&str, &[&str]); 6] = [
    ("make", &["Makefile", "makefile", "GNUmakefile"]),
    ("npm", &["package.json", "package-lock.json"]),
    ("docker", &["Dockerfile", "compose.yaml", "compose.yml", "docker-compose.yaml", "docker-compose.yml"]),
    ("go", &["go.mod", "go.sum"]),
    ("cargo", &["Cargo.toml", "Cargo.lock"]),
    ("pytest", &["pyproject.toml", "pytest.ini", "conftest.py"]),
];

/// Whether a file or directory with this name is written by people: it is not hidden, and does not contain generated or installed
/// files.
pub fn is_written(name: &str) -> bool {
    !name.starts_with('.') && !MADE.contains(&name)
}

/// The files and directories that a text in this directory names, each with whether it is a directory. A directory counts if it is written
/// with a `/`, such as `data/`, or if a script changes to it (`cd data`, `make -C data`). Names relative to such a directory, or to a
/// `workdir: data`, are found as well. Patterns (`data/*.json`), names with blanks in quotes or after a `\`, and paths after a variable
/// (`$DIR/web.yaml`) are supported, as is what some programs read by default (`make`). Names that a program computes are not found.
pub fn mentions(text: &str, dir: &Path, files: &dyn Files) -> BTreeMap<PathBuf, bool> {
    let mut lists = Vec::new();
    words(text, DEEPEST, &mut lists);
    let folders = folders(&lists, dir, files);
    // It is not known which files a program reads in a directory that a script changes to.
    let gone_to = folders.iter().filter(|(_, is_whole)| *is_whole);
    let mut found: BTreeMap<PathBuf, bool> = gone_to.map(|(folder, _)| (folder.clone(), true)).collect();
    // `curl -d @order.json`
    let mut names: BTreeSet<&str> = plain(text).flat_map(|name| [name, name.trim_start_matches('@')]).collect();
    for word in lists.iter().flatten().map(|word| behind_variable(word)) {
        names.insert(word);
        names.insert(word.trim_start_matches('[').trim_end_matches([']', ':', ',']));
    }
    for (program, read) in READ_BY {
        if names.contains(program) {
            names.extend(read);
        }
    }
    for name in names.iter().filter(|name| !name.starts_with('/') && !name.contains('\n')) {
        for (folder, _) in &folders {
            if is_pattern(name) {
                matching(folder, name, files, &mut found);
            } else if let Some((path, is_dir)) = named(folder, name, files) {
                found.insert(path, is_dir);
            }
        }
    }
    found.retain(|path, _| !dir.starts_with(path));
    found
}

/// The directory itself, and those that the text works in from there, each with whether a script changes to it.
fn folders(lists: &[Vec<String>], dir: &Path, files: &dyn Files) -> Vec<(PathBuf, bool)> {
    let works = lists.iter().flat_map(|list| list.windows(2)).filter_map(|pair| {
        let [before, to] = pair else { return None };
        let goes = match before.as_str() {
            "cd" | "pushd" | "-C" => true,
            "workdir:" => false,
            _ => return None,
        };
        Some((behind_variable(to), goes)).filter(|(to, _)| !to.is_empty() && !to.starts_with('/'))
    });
    let works: BTreeSet<(&str, bool)> = works.collect();
    let mut folders = vec![(normalize(dir), false)];
    // From each of them to each, regardless of the order in the text.
    let mut known = 0;
    while known < folders.len() {
        for (to, goes) in &works {
            let folder = (resolve(&folders[known].0, to), *goes);
            if folders.len() < MOST_FOLDERS && !folders.contains(&folder) && files.stat(&folder.0) == Some(Stat::Dir) {
                folders.push(folder);
            }
        }
        known += 1;
    }
    folders
}

/// Runs of the characters that most paths consist of, regardless of the language of the text.
fn plain(text: &str) -> impl Iterator<Item = &str> {
    static PATHS: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"[\w./@+-]+").ok());
    PATHS.iter().flat_map(|paths| paths.find_iter(text)).filter_map(|found| {
        let word = found.as_str();
        // The start of a pattern.
        if text[found.end()..].starts_with(['*', '?', '[']) {
            return None;
        }
        let mut before = text[..found.start()].chars().rev();
        match (before.next(), before.next()) {
            (Some('$'), _) => word.split_once('/').map(|(_, rest)| rest),
            // `$(dirname "$0")/lib.sh`, `"$DIR"/lib.sh`
            (Some(')' | '}' | '`'), _) => Some(word.trim_start_matches('/')),
            (Some('"'), Some(last)) if last == ')' || last == '}' || last == '_' || last.is_alphanumeric() => {
                Some(word.trim_start_matches('/'))
            }
            _ => Some(word),
        }
    })
}

/// A word without the variable or the command that it starts with.
fn behind_variable(word: &str) -> &str {
    word.strip_prefix('$')
        .map_or(word, |rest| rest.split_once('/').map_or("", |(_, rest)| rest.trim_start_matches('/')))
}

/// The words of a text as a shell would split them, without their quotes; `$(…)` and `${…}` become `$`. Quoted parts and such
/// commands may be texts themselves, whose words follow in separate lists.
fn words(text: &str, depth: usize, out: &mut Vec<Vec<String>>) {
    let (mut list, mut word, mut inner) = (Vec::new(), String::new(), Vec::new());
    let (parentheses, braces) = (closings(text, '(', ')'), closings(text, '{', '}'));
    let mut quoted_from = None;
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        let next = at + c.len_utf8();
        let rest = &text[next..];
        let until = |end: char| rest.find(end).map(|length| &rest[..length]);
        at = next;
        match c {
            '"' if quoted_from.is_some() => inner.extend(quoted_from.take().map(|from| &text[from..next - 1])),
            '"' if rest.contains('"') => quoted_from = Some(next),
            '$' if rest.starts_with(['(', '{']) => {
                word.push('$');
                let closings = if rest.starts_with('(') { &parentheses } else { &braces };
                if let Some(&end) = closings.get(&next) {
                    inner.push(&text[next + 1..end]);
                    at = end + 1;
                }
            }
            '`' if until('`').is_some() => {
                let command = until('`').unwrap_or_default();
                word.push('$');
                inner.push(command);
                at += command.len() + 1;
            }
            '\'' if quoted_from.is_none() && until('\'').is_some() => {
                let quoted = until('\'').unwrap_or_default();
                word.push_str(quoted);
                inner.push(quoted);
                at += quoted.len() + 1;
            }
            '\\' => match rest.chars().next() {
                Some(escaped) if escaped != '\n' => {
                    word.push(escaped);
                    at += escaped.len_utf8();
                }
                _ => {}
            },
            _ if quoted_from.is_none() && (c.is_whitespace() || "'\"`;|&()<>,={}".contains(c)) => {
                list.extend(Some(std::mem::take(&mut word)).filter(|word| !word.is_empty()));
            }
            _ => word.push(c),
        }
    }
    list.extend(Some(word).filter(|word| !word.is_empty()));
    inner.extend(quoted_from.map(|from| &text[from..]));
    out.push(list);
    // A single word has already been added.
    for text in inner.into_iter().filter(|text| depth > 0 && text.contains(char::is_whitespace)) {
        words(text, depth - 1, out);
    }
}

/// The position of the closing bracket for each opening bracket of a kind that is closed.
fn closings(text: &str, open: char, close: char) -> HashMap<usize, usize> {
    let mut opened = Vec::new();
    let mut found = HashMap::new();
    for (at, c) in text.char_indices() {
        if c == open {
            opened.push(at);
        } else if c == close {
            found.extend(opened.pop().map(|from| (from, at)));
        }
    }
    found
}

/// Whether a name is a pattern that contains some literal text.
fn is_pattern(name: &str) -> bool {
    let wild = name.contains(['*', '?']) || name.find('[').is_some_and(|open| name[open..].contains(']'));
    wild && (name.starts_with("./") || name.contains(|c: char| c.is_alphanumeric()))
}

/// Adds the matches of a pattern in this directory. As in a shell, `*` does not match names that start with a dot.
fn matching(folder: &Path, pattern: &str, files: &dyn Files, found: &mut BTreeMap<PathBuf, bool>) {
    let parts: Vec<&str> = pattern.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    let mut paths = BTreeSet::from([folder.to_owned()]);
    for (nth, part) in parts.iter().enumerate() {
        let is_last = nth + 1 == parts.len();
        if *part == "**" && is_last {
            found.extend(paths.into_iter().map(|path| (path, true)));
            return;
        }
        if *part == "**" {
            let mut open: Vec<PathBuf> = paths.iter().cloned().collect();
            while let Some(path) = open.pop().filter(|_| paths.len() < MOST_BELOW) {
                for (name, _) in files.entries(&path).iter().filter(|(name, is_dir)| *is_dir && is_written(name)) {
                    let below = normalize(&path.join(name));
                    if paths.insert(below.clone()) {
                        open.push(below);
                    }
                }
            }
            continue;
        }
        if !is_pattern(part) && !part.contains(['*', '?']) {
            paths = paths.into_iter().map(|path| resolve(&path, part)).collect();
            if is_last {
                let known = paths.into_iter().filter_map(|path| Some((files.stat(&path)? == Stat::Dir, path)));
                found.extend(known.map(|(is_dir, path)| (path, is_dir)));
                return;
            }
            continue;
        }
        let Ok(glob) = GlobBuilder::new(part).literal_separator(true).build() else { return };
        let glob = glob.compile_matcher();
        let mut next = BTreeSet::new();
        for path in &paths {
            for (name, is_dir) in files.entries(path).iter() {
                if !glob.is_match(name) || name.starts_with('.') && !part.starts_with('.') {
                    continue;
                }
                let path = normalize(&path.join(name));
                if is_last {
                    found.insert(path, *is_dir);
                } else if *is_dir {
                    next.insert(path);
                }
            }
        }
        paths = next;
    }
}

/// The entry with this name.
fn named(folder: &Path, name: &str, files: &dyn Files) -> Option<(PathBuf, bool)> {
    let entry = |folder: &Path, name: &str| {
        let entries = files.entries(folder);
        let at = entries.binary_search_by(|(other, _)| other.as_str().cmp(name)).ok()?;
        Some(entries[at].1)
    };
    let trimmed = name.trim_end_matches(['.', '/']);
    // Most words are not names of files.
    let first = trimmed.split('/').find(|part| !matches!(*part, "." | ""))?;
    if first != ".." {
        entry(folder, first)?;
    }
    let path = resolve(folder, trimmed);
    let is_dir = entry(path.parent()?, path.file_name()?.to_str()?)?;
    (!is_dir || name.contains('/')).then_some((path, is_dir))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::MemoryFiles;

    /// The files among these that a text in `t` names.
    fn of(text: &str) -> String {
        let mut files = MemoryFiles::default();
        for path in [
            "t/run.sh",
            "t/lib.sh",
            "t/.env",
            "t/Makefile",
            "t/data/a.json",
            "t/data/b.json",
            "t/data/c.txt",
            "t/data/.hidden.json",
            "t/data/deep/d.json",
            "t/my data/my list.txt",
            "t/it's.txt",
            "shared/web.yaml",
        ] {
            files.add(path, "", false);
        }
        let found = mentions(text, Path::new("t"), &files);
        let shown = |(path, is_dir): (&PathBuf, &bool)| format!("{}{}", path.display(), if *is_dir { "/" } else { "" });
        found.iter().map(shown).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn files_and_folders_named_in_a_text_are_found() {
        for (text, named) in [
            ("cat data/c.txt", "t/data/c.txt"),
            ("make; . ./lib.sh", "t/Makefile t/lib.sh"),
            ("makes a list. See Makefiles", ""),
            ("ls data", ""),
            ("cp -r data/ /tmp", "t/data/"),
            (". ./.env", "t/.env"),
            ("cat /lib.sh \"/lib.sh\" nothing/lib.sh", ""),
            ("kubectl apply -f ../shared/web.yaml", "shared/web.yaml"),
            // After a variable or a command.
            (". $DIR/lib.sh", "t/lib.sh"),
            (". \"${DIR}/lib.sh\"", "t/lib.sh"),
            (". \"$DIR\"/lib.sh", "t/lib.sh"),
            (". \"$(dirname \"$0\")/lib.sh\"", "t/lib.sh"),
            (". $(dirname $0)/../shared/web.yaml", "shared/web.yaml"),
            ("cat \"$(dirname \"$0\")/my data/my list.txt\"", "t/my data/my list.txt"),
            // Patterns.
            ("cat data/*.json", "t/data/a.json t/data/b.json"),
            ("for f in \"$DIR\"/data/?.json; do", "t/data/a.json t/data/b.json"),
            ("x=$(cat data/[ab].json)", "t/data/a.json t/data/b.json"),
            ("cat */a.json d*/c.txt", "t/data/a.json t/data/c.txt"),
            ("cat data/.*.json", "t/data/.hidden.json"),
            ("cp -r data/* /tmp", "t/data/a.json t/data/b.json t/data/c.txt t/data/deep/"),
            ("glob(\"data/**/*.json\")", "t/data/a.json t/data/b.json t/data/deep/d.json"),
            ("cp data/**", "t/data/"),
            ("select * from t; case $x in *) [ -n \"$x\" ];; esac", ""),
            // Names with blanks.
            ("cat \"my data/my list.txt\"", "t/my data/my list.txt"),
            ("open('my data/my list.txt')", "t/my data/my list.txt"),
            ("cat my\\ data/my\\ list.txt", "t/my data/my list.txt"),
            ("cat \"my data\"/*.txt", "t/my data/my list.txt"),
            ("files: [lib.sh, \"my data/my list.txt\"]", "t/lib.sh t/my data/my list.txt"),
            ("# don't\ncat \"my data/my list.txt\" # can't", "t/my data/my list.txt"),
            ("cat \"it's.txt\"", "t/it's.txt"),
            ("bash -c 'cat \"my data/my list.txt\"'", "t/my data/my list.txt"),
            // A computed name may be any file in a directory.
            ("cat data/$x.json", "t/data/"),
            // Directories that a script changes to.
            ("cd data && cat c.txt", "t/data/ t/data/c.txt"),
            ("cd \"$(dirname \"$0\")/data\"\ncat *.json", "t/data/ t/data/a.json t/data/b.json"),
            ("cat d.json; cd deep; cd data", "t/data/ t/data/deep/ t/data/deep/d.json"),
            ("(cd 'my data' && cat 'my list.txt')", "t/my data/ t/my data/my list.txt"),
            ("tar -C data c.txt", "t/data/ t/data/c.txt"),
            ("run: cat c.txt\nworkdir: data", "t/data/c.txt"),
            ("cd ../shared; cat web.yaml", "shared/ shared/web.yaml"),
            ("cd /data; cat c.txt", ""),
        ] {
            assert_eq!(of(text), named, "{text}");
        }
    }

    /// Any text is read to its end.
    #[test]
    fn unclosed_quotes_and_brackets_are_accepted() {
        for text in ["\"", "'", "`", "$(", "${", "\\", "\"$(\"", "'\"'\"$(`\\", "[", "[]", "./", "*", "ä\"ö 'ü"] {
            of(text);
            assert_eq!(of(&format!("{text}\n lib.sh")), "t/lib.sh", "{text}");
        }
    }
}
