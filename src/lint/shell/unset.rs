//! Shell variables that are never set, and values that are lost.

use std::collections::BTreeSet;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::{
    bash,
    diagnostic::{Diagnostic, Diagnostics, Strength, nearest},
    hir::Dialect,
    lint::{TaskView, script::Content, task::env::UNDECLARED_PROCESS_VARIABLE},
    rule,
};

rule! {
    pub static UNSET_VARIABLE = "unset-variable", Verdict;
    pub static BAD_EXPANSION = "bad-expansion", Verdict;
    pub static VALUE_LOST_IN_SUBSHELL = "value-lost-in-subshell", Verdict;
}

/// `$NSS` if there is a variable `NS`, variables that only another script sets, and lowercase names that nothing sets.
/// Other names may come from the environment of gevals.
pub fn unset(view: &TaskView<'_>, out: &mut Diagnostics) {
    for followed in view.effects.scripts.iter().filter(|script| !script.trace.opaque) {
        of_script(view, followed, out);
    }
    unexported(view, out);
    inner_shells(view, out);
}

/// `sh -c 'redis-cli GET "$1"'` without further words: the inner shell has no arguments.
fn inner_shells(view: &TaskView<'_>, out: &mut Diagnostics) {
    for script in &view.effects.scripts {
        for run in &script.trace.runs {
            let words = run.statement.words();
            let text = |at: usize| words.get(at).and_then(|word| run.content.text.get(word.range.clone()));
            let Some(last) = words.len().checked_sub(1).filter(|last| *last >= 2) else { continue };
            let (Some(shell), Some(option), Some(program)) = (text(last - 2), text(last - 1), text(last)) else {
                continue;
            };
            let is_shell = crate::bash::tools::SHELLS.contains(&shell.rsplit('/').next().unwrap_or(shell));
            let reads = program.strip_prefix('\'').and_then(|program| {
                program
                    .match_indices('$')
                    .map(|(at, _)| program[at + 1..].trim_start_matches('{'))
                    .find(|rest| rest.starts_with(|c: char| matches!(c, '1'..='9' | '@')))
            });
            let sets = ["set --", "() {", "(){", "awk"].iter().any(|word| program.contains(word));
            if let (true, Some(rest), false) =
                (is_shell && option.starts_with('-') && option.ends_with('c'), reads, sets)
            {
                let name = &rest[..1];
                out.push(
                    Diagnostic::new(
                        &UNSET_VARIABLE,
                        run.content.span(words[last].range.clone()),
                        format!("`${name}` is never set: this shell has no arguments"),
                    )
                    .help(format!("pass arguments after the script: `{shell} {option} '…' {shell} \"${name}\"`")),
                );
            }
        }
    }
}

fn of_script(view: &TaskView<'_>, followed: &crate::effects::Followed<'_>, out: &mut Diagnostics) {
    let trace = &followed.trace;
    let own = followed.view.step.arg("env").and_then(|env| match &env.kind {
        crate::hir::ArgKind::Record(fields) => Some(fields),
        _ => None,
    });
    let declared = view.task.env.iter().map(|(name, _)| name.value.as_str());
    let given = own.into_iter().flatten().map(|(name, _)| name.value.as_str());
    let known: Vec<&str> = declared.chain(given).chain(trace.sets.iter().map(String::as_str)).collect();
    let text = &followed.view.content.text;
    let mut unread = own.into_iter().flatten().map(|(name, _)| name);
    let unread = unread
        .find(|name| {
            !crate::lint::analysis::texts::has_word(text, &name.value)
                && !crate::lint::task::env::read_by_programs(&name.value)
        })
        .filter(|_| trace.sources.is_empty());
    let mut asked = Asked::default();
    for read in &trace.unset {
        let name = read.name.as_str();
        if is_parameter(name)
            || trace.sets.contains(name)
            || crate::lint::task::env::read_by_programs(name)
            || bash::sets_by_itself(name)
        {
            continue;
        }
        let elsewhere = view.effects.scripts.iter().find(|other| {
            !std::ptr::eq(*other, followed)
                && other.trace.sets.contains(name)
                && other.view.step.key != followed.view.step.key
        });
        let same = || known.iter().copied().find(|known| known.eq_ignore_ascii_case(name));
        let near = nearest(name, known.iter().copied()).filter(|near| name.len() > 2 && near.len() > 1).or_else(same);
        let span = read.content.span(read.range.clone());
        let word = if near.is_none() && !read.provided { other_word(text, name, &known) } else { None };
        let mut is_asked = || asked.has(read);
        let finding = match (near, elsewhere) {
            (None, _) if word.is_some() && !is_asked() => Diagnostic::new(
                &UNSET_VARIABLE,
                span,
                format!("`${name}` is not set in the task"),
            )
            .strength(Strength::Warning)
            .here(format!("did you mean `${}`?", word.unwrap_or_default()))
            .help("use the same name in both places; if it comes from the environment of gevals, give it a default"),
            (Some(near), _) if !read.provided => {
                Diagnostic::new(&UNSET_VARIABLE, span, format!("`${name}` is never set"))
                    .here(format!("did you mean `${near}`?"))
                    .help("an unset variable expands to an empty text: declare it under `env`, or give it a default")
            }
            (None, Some(other)) if !read.provided => {
                Diagnostic::new(&UNSET_VARIABLE, span, format!("`${name}` is not set here"))
                    .label(other.view.key, "set in this script, which runs in a separate process")
                    .help("declare it under `env` of the task, or set it in this script as well")
            }
            // Probably only one of the two was renamed. Programs may read either of them from the environment.
            (None, None) if !read.provided && unread.is_some() && !is_asked() => {
                let place = unread.map_or(span, |unread| unread.span);
                Diagnostic::new(&UNSET_VARIABLE, span, format!("`${name}` is not set in the task"))
                    .strength(Strength::Warning)
                    .label(place, "the script does not read this variable")
                    .help("use the same name in both places")
            }
            // The name of a setting in a manifest: the program there is meant to expand it.
            (None, None) if !read.provided && is_setting(read) => {
                let message =
                    format!("the shell expands `${name}` here, and nothing sets it: it is a setting in this manifest");
                Diagnostic::new(&BAD_EXPANSION, span, message)
                    .help("quote the delimiter, `<<'EOF'`, or write a backslash before the `$`")
            }
            // Lowercase variables are local to a script: nothing else sets them.
            (None, None) if !read.provided && is_own(name) && !is_asked() => {
                Diagnostic::new(&UNSET_VARIABLE, span, format!("`${name}` is never set"))
                    .help("an unset variable expands to an empty text: declare it under `env`, or give it a default")
            }
            _ => continue,
        };
        out.push(finding);
    }
}

/// `python3` reads an environment variable that the script sets but does not export.
fn unexported(view: &TaskView<'_>, out: &mut Diagnostics) {
    for script in &view.effects.scripts {
        for asked in &script.trace.unexported {
            let (name, program) = (&asked.name, &asked.program);
            out.push(
                Diagnostic::new(
                    &UNSET_VARIABLE,
                    asked.content.span(asked.range.clone()),
                    format!("`{program}` cannot read `{name}`: the script does not export it"),
                )
                .help(format!("write `export {name}`, or set it for this command: `{name}=\"${name}\" {program} …`")),
            );
        }
        for literal in &script.trace.literal {
            let name = &literal.text;
            let line = literal.content.text.get(literal.range.clone()).unwrap_or_default();
            let program = line.split_whitespace().next().unwrap_or_default();
            // Unless the name is used elsewhere too, the variable is meant here. In SQL, it is always meant.
            let uses = |form: &str| literal.content.text.matches(form).count();
            let alone = uses(&format!("${name}")) + uses(&format!("${{{name}")) == 1;
            let is_sql = matches!(program, "sqlite3" | "psql" | "mysql");
            let is_data = matches!(program, "kubectl" | "oc" | "cat" | "curl" | "jq" | "tee");
            if is_sql || is_data && alone {
                out.push(
                    Diagnostic::new(
                        &UNSET_VARIABLE,
                        literal.content.span(literal.range.clone()),
                        format!("`${name}` is not expanded: the delimiter of this here-document is quoted"),
                    )
                    .help("remove the quotes around the delimiter: `<<EOF`"),
                );
            }
        }
        // Another rule reports a hole after a dollar sign.
        let is_hole = |text: &str| {
            ["env.", "random.", "steps.", "agent.", "task."].iter().any(|root| text[2..].starts_with(root))
        };
        for bad in script.trace.bad.iter().filter(|bad| !is_hole(&bad.text)) {
            let message = match bad.text.strip_prefix("$(") {
                Some(name) => format!("the shell runs `{}` as a command here", name.trim_end_matches(')')),
                None if bad.text == "$$" => "`$$` is the process ID here, but a quote in SQL".to_owned(),
                None => format!("the shell cannot expand `{}` and ends the script here", bad.text),
            };
            out.push(
                Diagnostic::new(&BAD_EXPANSION, bad.content.span(bad.range.clone()), message)
                .help(match bad.in_document {
                    true => "if it belongs to another program, quote the delimiter of the here-document, `<<'EOF'`, or write `\\$`",
                    false => "if it belongs to another program, put it in single quotes, or write `\\$`",
                }),
            );
        }
    }
}

/// Whether the variable is read in a script in which a manifest gives the name a literal value: `DB_HOST: db.shop.svc`.
fn is_setting(read: &crate::effects::shell::Unset<'_>) -> bool {
    let (text, name) = (&read.content.text, read.name.as_str());
    if !text.contains("<<") || !text.contains("kind: ") {
        return false;
    }
    let expands = format!("${name}");
    let braced = format!("${{{name}");
    let is_own = |line: &str| line.contains(&expands) || line.contains(&braced);
    let value =
        |line: &str| line.trim_start().strip_prefix(name).and_then(|rest| rest.strip_prefix(':')).map(str::to_owned);
    let values: Vec<String> = text.lines().filter_map(value).collect();
    // The range of a variable in a here-document is that of its delimiter.
    let behind = text.get(read.range.start..).unwrap_or_default();
    let lines: Vec<&str> = behind.lines().filter(|line| is_own(line)).collect();
    let is_literal = |value: &String| !value.trim().is_empty() && !value.contains('$');
    // `DB_HOST: "$DB_HOST"` takes the value from the environment.
    let is_command = |line: &&str| {
        let line = line.trim_start();
        let key = line.split_once(':').map_or("", |(key, _)| key);
        let is_value =
            !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.'));
        !is_value && !line.starts_with("value:")
    };
    !values.is_empty() && values.iter().all(is_literal) && !lines.is_empty() && lines.iter().all(is_command)
}

/// Whether a name is typical for a script's own variables.
fn is_own(name: &str) -> bool {
    name.len() > 1
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
        && !matches!(
            name,
            "http_proxy" | "https_proxy" | "no_proxy" | "all_proxy" | "ftp_proxy" | "npm_config_registry"
        )
}

/// The variables of which scripts test whether they are set, and so allow for unset ones.
#[derive(Default)]
struct Asked<'s>(FxHashMap<*const Content, FxHashSet<&'s str>>);

impl<'s> Asked<'s> {
    fn has(&mut self, read: &crate::effects::shell::Unset<'s>) -> bool {
        let key = std::ptr::from_ref(read.content);
        self.0.entry(key).or_insert_with(|| Self::of(&read.content.text)).contains(read.name.as_str())
    }

    /// The names in `[ -z "$NAME" ]`, `test -n "${NAME:-}"`, `[[ -v NAME ]]`. `kubectl -n "$NS"` is no test.
    fn of(text: &'s str) -> FxHashSet<&'s str> {
        let mut names = FxHashSet::default();
        for operator in ["-z ", "-n ", "-v "] {
            for (at, _) in text.match_indices(operator) {
                let before = text[..at].trim_end();
                if ["[", "test", "!", "&&", "||", "("].iter().any(|begin| before.ends_with(begin)) {
                    let rest = &text[at + operator.len()..];
                    let rest = ["\"${", "\"$", ""].iter().find_map(|begin| rest.strip_prefix(begin)).unwrap_or(rest);
                    let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
                    names.insert(&rest[..end]);
                }
            }
        }
        names
    }
}

/// Words for the same thing, of which a script may set one and read the other.
const SAME: [(&str, &str); 9] = [
    ("NS", "NAMESPACE"),
    ("DIR", "DIRECTORY"),
    ("REPO", "REPOSITORY"),
    ("DB", "DATABASE"),
    ("SVC", "SERVICE"),
    ("DEPLOY", "DEPLOYMENT"),
    ("IMG", "IMAGE"),
    ("SA", "SERVICE_ACCOUNT"),
    ("CM", "CONFIGMAP"),
];
/// Words that a name may have at its end or not: `REPO`, `REPO_DIR`.
const KINDS: [&str; 5] = ["_DIR", "_NAME", "_PATH", "_FILE", "_FOLDER"];

/// The parts of a name, each by one of the words for the same thing: `ISTIO_NS`, `ISTIO_NAMESPACE`.
fn parts(name: &str) -> Vec<&str> {
    let same = |part| SAME.iter().find(|(_, long)| *long == part).map_or(part, |(short, _)| *short);
    name.split('_').map(same).collect()
}

/// Whether a name that is set and never read is another form of this one: `WANTED`, `WANT`.
fn is_inflected(text: &str, name: &str, known: &str) -> bool {
    let is_form = |long: &str, short: &str| {
        short.len() > 3
            && long.strip_prefix(short).is_some_and(|end| matches!(end, "S" | "D" | "ED" | "s" | "d" | "ed"))
    };
    let reads = [format!("${known}"), format!("${{{known}")];
    (is_form(known, name) || is_form(name, known)) && !reads.iter().any(|read| text.contains(read))
}

/// The variable that is set under another word for the same thing: `NS` for `NAMESPACE`, `REPO` for `REPO_DIR`. `None` if
/// the script derives one from the other.
fn other_word<'k>(text: &str, name: &str, known: &[&'k str]) -> Option<&'k str> {
    let is_same = |known: &str| {
        let longer = |a: &str, b: &str| KINDS.iter().any(|kind| a.strip_suffix(kind) == Some(b));
        SAME.iter().any(|(a, b)| (name, known) == (*a, *b) || (name, known) == (*b, *a))
            || longer(name, known)
            || longer(known, name)
            || parts(name) == parts(known)
            || is_inflected(text, name, known)
    };
    let derived = |set: &str| {
        let assigns = format!("{set}=");
        let value = |at: usize| text[at + assigns.len()..].lines().next().unwrap_or_default();
        let mut lines = text.match_indices(&assigns).map(|(at, _)| value(at));
        lines.any(|line| line.contains(name))
    };
    known.iter().copied().find(|known| is_same(known) && !derived(known))
}

/// `kubectl get … | while read x; do n=$((n+1)); done; [ $n -gt 0 ]`: the loop runs in a subshell.
pub fn lost(view: &TaskView<'_>, out: &mut Diagnostics) {
    for script in &view.effects.scripts {
        for lost in &script.trace.lost {
            out.push(
                Diagnostic::new(
                    &VALUE_LOST_IN_SUBSHELL,
                    lost.content.span(lost.read.clone()),
                    format!("the change to `${}` is lost: it was made in a subshell", lost.name),
                )
                .label(lost.content.span(lost.set.clone()), "changed here, in a pipeline or a subshell")
                .help("feed the loop without a pipe, `done < <(command)`, or print the value from the subshell"),
            );
        }
    }
}

/// Whether [`unset`] reports a variable.
fn is_found(
    view: &TaskView<'_>,
    script: &crate::effects::Followed<'_>,
    read: &crate::effects::shell::Unset<'_>,
) -> bool {
    let mut found = Diagnostics::default();
    of_script(view, script, &mut found);
    found.iter().any(|finding| finding.span == read.content.span(read.range.clone()))
}

/// `{env.NAME}` and `$NAME` that the task does not declare.
pub fn undeclared(view: &TaskView<'_>, out: &mut Diagnostics) {
    crate::lint::task::env::undeclared(view, out);
    if view.task.dialect == Dialect::Portable {
        in_scripts(view, out);
    }
}

/// The same for `$NAME` in scripts that can be analyzed completely.
fn in_scripts(view: &TaskView<'_>, out: &mut Diagnostics) {
    // A task without variables of its own relies on the environment.
    if view.task.env.is_empty() {
        return;
    }
    let mut told: BTreeSet<&str> = BTreeSet::new();
    let mut asked = Asked::default();
    for script in view.effects.scripts.iter().filter(|script| !script.trace.opaque) {
        for read in &script.trace.unset {
            let name = read.name.as_str();
            let known = script.trace.sets.contains(name)
                || crate::lint::task::env::read_by_programs(name)
                || bash::sets_by_itself(name)
                || crate::secrets::is_secret_name(name);
            let is_reported = || is_found(view, script, read);
            if known
                || asked.has(read)
                || read.provided
                || name.len() < 2
                || !name.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
            {
                continue;
            }
            if !is_reported() && told.insert(name) {
                out.push(
                    Diagnostic::new(
                        &UNDECLARED_PROCESS_VARIABLE,
                        read.content.span(read.range.clone()),
                        format!("`${name}` is not set in the task: its value comes from the environment of gevals"),
                    )
                    .help(format!("declare it under `spec.env`, or add a default: `${{{name}:-…}}`")),
                );
            }
        }
    }
}

/// Whether a name is that of a parameter: `$1`.
pub fn is_parameter(name: &str) -> bool {
    matches!(name.as_bytes(), [b'1'..=b'9'])
}
