//! Properties of single statements of a script: the variables they read and set, the words of their conditions, the directories they
//! name.

use crate::bash::{
    ast::{self, Kind, Part, Redirect, Simple, Stmt, Word},
    tools,
};

/// Collects every variable that a statement may set.
pub fn assigned(stmt: &Stmt, names: &mut Vec<String>) {
    walk(stmt, &mut |s| match &s.kind {
        Kind::Assign(assigns) => names.extend(assigns.iter().map(|a| a.name.clone())),
        Kind::For { var, .. } | Kind::Count { var, .. } => names.push(var.clone()),
        Kind::Step(name) => names.push(name.clone()),
        Kind::Other(text) => {
            let tokens = text.split(|c: char| c.is_whitespace() || ";(){}".contains(c));
            let tokens: Vec<&str> = tokens.collect();
            let named = tokens.iter().filter_map(|t| t.split_once('=').map(|(n, _)| n.trim_end_matches('+')));
            let after = tokens.windows(2).filter(|w| matches!(w[0], "read" | "for" | "mapfile")).map(|w| w[1]);
            names.extend(named.chain(after).filter(|n| ast::is_name(n)).map(str::to_owned));
        }
        Kind::Simple(simple)
            if simple.words.first().is_some_and(|w| {
                matches!(
                    w.source.as_str(),
                    "read" | "mapfile" | "readarray" | "printf" | "unset" | "let" | "eval" | "getopts"
                )
            }) =>
        {
            names.extend(simple.words[1..].iter().map(|w| w.source.clone()).filter(|w| ast::is_name(w)));
        }
        Kind::Simple(simple) => {
            let all = simple.words.iter().flat_map(|word| demands(&word.source));
            names.extend(all.filter(|(_, sign)| *sign == '=').map(|(name, _)| name.to_owned()));
        }
        _ => {}
    });
}

/// The variables that an expansion sets or requires, each with its sign: `${NAME:=value}`, `${NAME?message}`.
fn demands(source: &str) -> impl Iterator<Item = (&str, char)> {
    source.split("${").skip(1).filter_map(|rest| {
        let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))?;
        let (name, operator) = rest.split_at(end);
        let sign = operator.strip_prefix(':').unwrap_or(operator).chars().next()?;
        (matches!(sign, '=' | '?') && ast::is_name(name)).then_some((name, sign))
    })
}

/// Collects every variable that a statement may set and that is not local to it.
pub fn assigned_beyond(stmt: &Stmt, names: &mut Vec<String>) {
    walk(stmt, &mut |s| {
        if let Kind::Assign(assigns) = &s.kind {
            names.extend(assigns.iter().filter(|a| !a.local).map(|a| a.name.clone()));
        }
    });
}

/// Visits a statement and all statements below it. Substitutions are text and are not visited.
pub fn walk<'s>(stmt: &'s Stmt, visit: &mut dyn FnMut(&'s Stmt)) {
    visit(stmt);
    stmt.lists().into_iter().flatten().for_each(|s| walk(s, visit));
}

/// Whether a list reads a variable before it sets it. If that is unclear, the answer is yes.
pub fn reads<'s>(list: impl IntoIterator<Item = &'s Stmt>, name: &str) -> bool {
    for stmt in list {
        if mentions(stmt, name) {
            return true;
        }
        let set = match &stmt.kind {
            Kind::Assign(assigns) => assigns.iter().any(|a| a.name == name && !a.odd && a.value.is_some()),
            Kind::For { var, .. } | Kind::Count { var, .. } => var == name,
            _ => false,
        };
        if set {
            return false;
        }
    }
    false
}

/// Whether a statement reads a variable that was set before it.
pub fn mentions(stmt: &Stmt, name: &str) -> bool {
    match &stmt.kind {
        Kind::For { var, values, .. } if var == name => values.iter().any(|w| in_word(w, name)),
        Kind::Count { var, .. } if var == name => false,
        _ => mentions_itself(stmt, name) || stmt.lists().into_iter().any(|list| reads(list, name)),
    }
}

/// Whether a statement reads or sets a variable.
pub fn touches(stmt: &Stmt, name: &str) -> bool {
    mentions(stmt, name) || sets(stmt, name)
}

/// Whether a statement may set a variable.
pub fn sets(stmt: &Stmt, name: &str) -> bool {
    let mut names = Vec::new();
    assigned(stmt, &mut names);
    names.iter().any(|n| n == name)
}

/// Whether a statement is `echo` or `printf`.
pub fn prints(stmt: &Stmt) -> bool {
    matches!(&stmt.kind, Kind::Simple(s) if s.words.first().is_some_and(|w| matches!(w.source.as_str(), "echo" | "printf")))
}

/// `"$1"`
fn is_argument(word: &Word) -> bool {
    word.variable().is_some_and(|name| name.bytes().all(|b| b.is_ascii_digit()))
}

/// Whether a text reads variables by names that only a run knows: `${!NAME}`, `${!start*}`, `declare -n`.
fn is_indirect(text: &str) -> bool {
    let declares = ["declare -n", "local -n", "typeset -n"].iter().any(|words| text.contains(words));
    declares || text.contains("${!")
}

fn in_word(word: &Word, name: &str) -> bool {
    if is_indirect(&word.source) {
        return true;
    }
    let mut names = Vec::new();
    word.variables(&mut names);
    names.iter().any(|n| n == name) || ast::names_in(&word.source).iter().any(|n| n == name)
}

/// A text without its substitutions: `-n` in `$(kubectl get pods -n shop)` is not the variable `n`. Those with arithmetic
/// stay, because a variable needs no `$` there.
fn without_commands(text: &str) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some(at) = rest.find("$(") {
        let end = ast::closing(&rest[at + 1..], b'(', b')').map_or(rest.len(), |end| at + 2 + end);
        out += &rest[..at];
        if rest[at..end].contains("((") {
            out += &rest[at..end];
        }
        rest = &rest[end..];
    }
    out + rest
}

/// Whether a statement itself mentions a variable, not counting the statements inside it.
pub fn mentions_itself(stmt: &Stmt, name: &str) -> bool {
    let word = |w: &Word| in_word(w, name);
    let bare = |text: &str| text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').any(|w| w == name);
    match &stmt.kind {
        Kind::Simple(Simple { env, words, redirects }) => {
            env.iter().filter_map(|a| a.value.as_ref()).any(word)
                || words.iter().any(word)
                || words.first().is_some_and(|w| {
                    // The arguments of a function appear in its call.
                    w.source == "eval" && !words[1..].iter().all(is_argument)
                        || w.source == "export" && words.iter().any(|w| w.source == name)
                })
                || redirects.iter().any(|r| match r {
                    Redirect::Write(w) | Redirect::Append(w) | Redirect::Read(w) | Redirect::Herestring(w) => word(w),
                    Redirect::Heredoc(parts) => {
                        word(&Word { range: 0..0, source: String::new(), parts: parts.clone() })
                    }
                    Redirect::Other => true,
                    _ => false,
                })
        }
        Kind::Assign(assigns) => assigns.iter().any(|a| {
            let items = a.array.iter().flatten().any(word);
            a.value.as_ref().is_some_and(word)
                || items
                || a.odd && a.array.is_none() && a.name == name
                || a.export && a.name == name
        }),
        Kind::Test(inner, _) => {
            is_indirect(inner) || ast::names_in(inner).iter().any(|n| n == name) || bare(&without_commands(inner))
        }
        Kind::For { values, .. } => values.iter().any(word),
        Kind::Logged { file, .. } => word(file),
        Kind::Step(own) => own == name,
        Kind::Other(text) => is_indirect(text) || ast::names_in(text).iter().any(|n| n == name) || bare(text),
        _ => false,
    }
}

/// Whether a statement reads the exit status of the one before it. The definition of a function does not.
pub fn asks_status(stmt: &Stmt) -> bool {
    let mut found = false;
    if matches!(stmt.kind, Kind::Function { .. }) {
        return false;
    }
    walk(stmt, &mut |s| {
        let asks = |w: &Word| w.source.contains("$?") || w.source.contains("${?}");
        found |= match &s.kind {
            Kind::Simple(simple) => simple.words.iter().any(asks),
            Kind::Assign(assigns) => assigns.iter().filter_map(|a| a.value.as_ref()).any(asks),
            Kind::Test(text, _) | Kind::Other(text) => text.contains("$?"),
            _ => false,
        };
    });
    found
}

/// `NAME=$?`
pub fn keeps_status(stmt: &Stmt) -> Option<&str> {
    let Kind::Assign(assigns) = &stmt.kind else { return None };
    let [assign] = assigns.as_slice() else { return None };
    let kept = matches!(assign.value.as_ref()?.source.as_str(), "$?" | "\"$?\"" | "${?}");
    (kept && !assign.odd && !assign.export).then_some(assign.name.as_str())
}

/// `NAME=$(…)`, also if the command must succeed: `NAME=$(…) || …`, `if ! NAME=$(…); then …; fi`. Returns the assignment, the name, and
/// what runs if the command fails.
pub fn captures(stmt: &Stmt) -> Option<(&Stmt, &str, &[Stmt])> {
    let nothing: &[Stmt] = &[];
    let (inner, otherwise) = match &stmt.kind {
        Kind::Or(pair) => (&pair[0], &pair[1..]),
        Kind::If { branches, otherwise: None } => match branches.as_slice() {
            [(condition, body)] => match condition.as_slice() {
                [Stmt { kind: Kind::Not(inner), .. }] => (&**inner, body.as_slice()),
                _ => return None,
            },
            _ => return None,
        },
        _ => (stmt, nothing),
    };
    let Kind::Assign(assigns) = &inner.kind else { return None };
    let [assign] = assigns.as_slice() else { return None };
    let [Part::Command { .. }] = assign.value.as_ref()?.parts.as_slice() else { return None };
    // `local` has its own exit status.
    (otherwise.is_empty() || !assign.local).then_some((inner, assign.name.as_str(), otherwise))
}

/// Whether a command that prints does more than that: a redirection reads or writes a file, or an expansion sets a variable or may end
/// the script.
pub fn has_effects(simple: &Simple) -> bool {
    let opens =
        |r: &Redirect| matches!(r, Redirect::Write(_) | Redirect::Append(_) | Redirect::Read(_) | Redirect::Other);
    simple.redirects.iter().any(opens)
        || simple.words.iter().any(|word| demands(&word.source).next().is_some() || counts(&word.source))
}

/// Whether an arithmetic expansion changes a variable: `$((n++))`, `$((n = 2))`.
fn counts(source: &str) -> bool {
    source.split("$((").skip(1).any(|rest| {
        let inner = rest.split("))").next().unwrap_or_default();
        let plain = ["==", "!=", "<=", ">="].iter().fold(inner.to_owned(), |text, sign| text.replace(sign, ""));
        plain.contains("++") || plain.contains("--") || plain.contains('=')
    })
}

/// Whether the words of a command run other commands. Calls of `date` are ignored.
pub fn runs_commands(simple: &Simple) -> bool {
    simple.words.iter().flat_map(|w| &w.parts).any(|p| match p {
        Part::Command { text, .. } => !text.starts_with("date") || text.contains(['|', ';', '&', '`', '$']),
        _ => false,
    })
}

/// Returns the words of a test; `None` if it uses `&&` or a similar operator.
pub fn words(inner: &str) -> Option<Vec<Word>> {
    let words = split(inner)?;
    let joined = words.iter().any(|w| matches!(w.source.as_str(), "&&" | "||" | "-a" | "-o" | "(" | ")"));
    (!joined).then_some(words)
}

/// `NAME=$((NAME + 5))`: returns what is added, a number or the name of a variable.
pub fn counts_by(assign: &ast::Assign) -> Option<String> {
    let word = assign.value.as_ref().filter(|_| !assign.odd && !assign.export)?;
    let text: String = word.source.chars().filter(|c| !c.is_whitespace() && *c != '$' && *c != '"').collect();
    let by = text.strip_prefix(&format!("(({}+", assign.name))?.strip_suffix("))")?;
    (ast::is_name(by) || by.bytes().all(|b| b.is_ascii_digit()) && !by.is_empty()).then(|| by.to_owned())
}

/// Whether an assignment adds a number to its variable: `NAME=$((NAME + 1))`.
pub fn counts_up(assign: &ast::Assign) -> bool {
    counts_by(assign).is_some_and(|by| by.parse::<u16>().is_ok())
}

/// Splits the words of a `[[ ]]` test so that parentheses are words of their own; those of a pattern stay in it.
pub fn grouped(words: Vec<Word>) -> Vec<Word> {
    let mut out = Vec::new();
    for word in words {
        let mut source = word.source.as_str();
        let mut behind = 0;
        let open = |text: &str| {
            let bare: String = text.split(['"', '\'']).step_by(2).collect();
            bare.matches('(').count() as isize - bare.matches(')').count() as isize
        };
        while source.starts_with('(') && open(source) > 0 {
            out.push(Word::read("(", 0));
            source = &source[1..];
        }
        while source.ends_with(')') && open(source) < 0 {
            behind += 1;
            source = &source[..source.len() - 1];
        }
        if !source.is_empty() {
            out.push(if source == word.source { word.clone() } else { Word::read(source, 0) });
        }
        out.extend((0..behind).map(|_| Word::read(")", 0)));
    }
    out
}

/// Returns the indexes of words outside of parentheses; `None` if the parentheses are not balanced.
pub fn outside(words: &[Word]) -> Option<Vec<usize>> {
    let mut depth = 0usize;
    let mut found = Vec::new();
    for (at, word) in words.iter().enumerate() {
        match word.source.as_str() {
            "(" => depth += 1,
            ")" => depth = depth.checked_sub(1)?,
            _ if depth == 0 => found.push(at),
            _ => {}
        }
    }
    (depth == 0).then_some(found)
}

/// Splits a test into words. `None` if it has an unquoted `;`.
pub fn split(inner: &str) -> Option<Vec<Word>> {
    let words = ast::split(inner, 0);
    let end = words.last().map_or(0, |word| word.range.end);
    inner[end..].trim().is_empty().then_some(words)
}

/// Whether a command terminates every line that it prints, including the last one.
pub fn by_line(words: &[&str]) -> bool {
    let format =
        words.iter().enumerate().find_map(|(i, w)| match w.strip_prefix("--output=").or(w.strip_prefix("-o")) {
            Some("") => words.get(i + 1).copied(),
            Some(format) => Some(format.trim_start_matches('=')),
            None if *w == "--output" => words.get(i + 1).copied(),
            None => None,
        });
    matches!(words, ["kubectl" | "oc", rest @ ..] if rest.contains(&"get"))
        && format.is_none_or(|f| matches!(f, "name" | "wide") || f.starts_with("custom-columns"))
}

/// Rewrites `F <<< "$V"` as `printf '%s\n' "$V" | F`.
pub fn here_string(simple: &Simple) -> Option<Vec<Stmt>> {
    let at = simple.redirects.iter().position(|r| matches!(r, Redirect::Herestring(_)))?;
    let mut filter = simple.clone();
    let Redirect::Herestring(word) = filter.redirects.remove(at) else { return None };
    let words = vec![Word::read("printf", 0), Word::read("'%s\\n'", 0), word];
    let print = Simple { words, ..Simple::default() };
    let stmt = |simple| Stmt { range: 0..0, kind: Kind::Simple(simple), comments: Vec::new(), background: false };
    Some(vec![stmt(print), stmt(filter)])
}

/// Whether programs read a variable by its name.
pub fn is_special(name: &str) -> bool {
    const PREFIXES: [&str; 33] = [
        "KUBE", "HELM_", "DOCKER_", "COMPOSE_", "GIT_", "AWS_", "GOOGLE_", "AZURE_", "LC_", "SSH_", "SSL_", "XDG_",
        "CURL_", "PYTHON", "NODE_OPT", "NPM_", "BASH", "ETCDCTL_", "OPENSSL_", "GREP_", "JQ_", "CARGO_", "LD_", "TF_",
        "KIND_", "RESTIC_", "BORG_", "MALLOC_", "PERL", "RUBY", "GNUPG", "MAKE", "ZIP",
    ];
    const NAMES: [&str; 61] = [
        "COLUMNS",
        "BLOCK_SIZE",
        "BLOCKSIZE",
        "TIME_STYLE",
        "QUOTING_STYLE",
        "TAR_OPTIONS",
        "GZIP",
        "UNZIP",
        "XZ_OPT",
        "LESS",
        "CDPATH",
        "GLOBIGNORE",
        "NETRC",
        "MYSQL_PWD",
        "MYSQL_HOST",
        "MYSQL_TCP_PORT",
        "MYSQL_UNIX_PORT",
        "MYSQL_HOME",
        "REDISCLI_AUTH",
        "VAULT_ADDR",
        "VAULT_TOKEN",
        "VAULT_NAMESPACE",
        "CONTAINER_HOST",
        "ARGOCD_SERVER",
        "ARGOCD_AUTH_TOKEN",
        "ARGOCD_OPTS",
        "PGSERVICE",
        "PGSSLMODE",
        "POSIXLY_CORRECT",
        "NO_COLOR",
        "GOPATH",
        "PATH",
        "HOME",
        "USER",
        "SHELL",
        "LANG",
        "LANGUAGE",
        "TZ",
        "TERM",
        "IFS",
        "PWD",
        "OLDPWD",
        "TMPDIR",
        "TMP",
        "TEMP",
        "EDITOR",
        "PAGER",
        "HOSTNAME",
        "UID",
        "EUID",
        "PPID",
        "RANDOM",
        "SECONDS",
        "OPTARG",
        "OPTIND",
        "REPLY",
        "CI",
        "GOPATH",
        "GOFLAGS",
        "GOPROXY",
        "NODE_PATH",
    ];
    // A variable named after the program itself is not one that it reads.
    let own = PREFIXES.iter().any(|p| name == p.trim_end_matches('_')) || name == "KUBECTL";
    !own && PREFIXES.iter().any(|p| name.starts_with(p))
        || NAMES.contains(&name)
        || name.to_ascii_lowercase().ends_with("_proxy")
        || tools::reads_variable(name)
}
