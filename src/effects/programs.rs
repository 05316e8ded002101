//! The environment variables that are read by a program inside a script: a jq filter, code in Python, awk, Perl, Ruby or
//! JavaScript, and code for another shell.

use crate::bash::ast;

/// The syntax for reading an environment variable in each language: the text before its name.
const PYTHON: &[&str] = &["os.environ[", "os.environ.get(", "os.getenv(", "environ[", "environ.get(", "getenv("];
const JQ: &[&str] = &["env.", "$ENV.", "$ENV["];
const AWK: &[&str] = &["ENVIRON["];
const NODE: &[&str] = &["process.env.", "process.env["];
const RUBY: &[&str] = &["ENV[", "ENV.fetch("];
const PERL: &[&str] = &["$ENV{"];

/// The names of the environment variables that a program reads. `text` contains its words and its input, as written.
pub(super) fn asked<'t>(program: &str, text: &'t str) -> Vec<&'t str> {
    let forms = match program {
        "python" | "python3" => PYTHON,
        "jq" | "yq" | "gojq" => JQ,
        "awk" | "gawk" | "mawk" => AWK,
        "node" | "deno" | "bun" => NODE,
        "ruby" => RUBY,
        "perl" => PERL,
        _ => return Vec::new(),
    };
    let mut found: Vec<&str> = Vec::new();
    for form in forms {
        for (at, _) in text.match_indices(form) {
            // `my_env.X` is something else.
            let part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.');
            if form.starts_with(|c: char| c.is_ascii_lowercase()) && text[..at].ends_with(part) {
                continue;
            }
            let rest = text[at + form.len()..].trim_start_matches(['"', '\'']);
            let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
            let name = &rest[..end];
            if ast::is_name(name) && !found.contains(&name) {
                found.push(name);
            }
        }
    }
    found
}

/// The variables that shell code reads and does not set itself.
pub(super) fn read_by_shell(text: &str) -> Vec<String> {
    let sets = |name: &str| {
        [format!("{name}="), format!("for {name} "), format!("read {name}"), format!("read -r {name}")]
            .iter()
            .any(|form| text.contains(form.as_str()))
    };
    let mut names: Vec<String> =
        ast::names_in(text).into_iter().filter(|name| ast::is_name(name) && !sets(name)).collect();
    names.sort();
    names.dedup();
    names
}

/// The first expansion in a text that no shell supports, with its place: `${count.index}`, `${{ a }}`.
pub(super) fn bad_expansion(text: &str) -> Option<(usize, &str)> {
    let mut from = 0;
    while let Some(at) = text[from..].find("${").map(|at| from + at) {
        from = at + 2;
        let backslashes = text[..at].bytes().rev().take_while(|b| *b == b'\\').count();
        if backslashes % 2 == 1 {
            continue;
        }
        let rest = &text[at + 2..];
        let name = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
        let end = rest.find('}').unwrap_or(rest.len());
        let behind = rest[name..].chars().next();
        let bad = match behind {
            Some('{') => name == 0,
            Some('.' | ' ' | '(' | '|') => name > 0 && ast::is_name(&rest[..name]),
            _ => false,
        };
        if bad && end < rest.len() && !rest[..end].contains('\n') {
            let double = behind == Some('{') && rest[end + 1..].starts_with('}');
            return Some((at, &text[at..at + 3 + end + usize::from(double)]));
        }
    }
    None
}

/// The first `$(params.version)` in a text, with its place: no program has a name like this.
pub(super) fn dotted_command(text: &str) -> Option<(usize, &str)> {
    text.match_indices("$(").find_map(|(at, _)| {
        let end = text[at..].find(')')?;
        let name = &text[at + 2..at + end];
        let parts = || name.split('.');
        let plain = |part: &str| ast::is_name(&part.replace('-', "_"));
        let dotted = parts().count() > 1 && parts().all(plain) && !name.ends_with(".sh") && !name.ends_with(".py");
        (dotted && !text[..at].ends_with('\\')).then(|| (at, &text[at..=at + end]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn environment_variables_read_by_programs() {
        assert_eq!(asked("python3", "import os\nx = os.environ[\"A\"] + os.environ.get('B', '')"), ["A", "B"]);
        assert_eq!(asked("jq", ".a == env.WANT and $ENV.B == 1"), ["WANT", "B"]);
        assert_eq!(asked("jq", ".env.WANT"), Vec::<&str>::new());
        assert_eq!(asked("awk", "{ print ENVIRON[\"A\"] }"), ["A"]);
        assert_eq!(asked("cat", "os.environ['A']"), Vec::<&str>::new());
        assert_eq!(read_by_shell("until kubectl get pod -n $NS; do n=1; echo $n; done"), ["NS"]);
    }

    #[test]
    fn invalid_shell_expansions_are_detected() {
        for text in ["a ${count.index} b", "${{ github.ref }}", "${f(x)}", "\\\\${a.b}"] {
            assert!(bad_expansion(text).is_some(), "{text}");
        }
        for text in
            ["${a}", "${a:-b.c}", "\\${a.b}", "${a[0]}", "${#a}", "${a%.*}", "${a/ /_}", "$a.b", "${a.b", "${!a}"]
        {
            assert!(bad_expansion(text).is_none(), "{text}");
        }
    }
}
