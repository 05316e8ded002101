//! Outputs of commands that are compared with a text that the command never prints.

use std::cell::LazyCell;

use base64::Engine as _;

use crate::{
    ascii::{Ascii, ascii},
    bash::{
        ast, fields,
        program::{Kind, Statement},
        tools,
    },
    diagnostic::{Diagnostic, Diagnostics, Strength},
    effects::{
        Followed,
        asked::{self, Demand},
        script::Content,
        shell::Run,
        value::Value,
    },
    hir::{OperationKind, PhaseKind},
    lint::{
        TaskView,
        analysis::{facts, quantity::Quantity, texts},
        script::HOLE,
        shell::{comparison::COMPARES_OTHERWISE, impossible_values::IMPOSSIBLE_VALUE},
    },
    source::Span,
};

/// An output, and a text that it must equal.
pub struct Wanted<'a> {
    pub runs: Vec<&'a Run<'a>>,
    pub text: String,
    pub span: Span,
    /// Whether verify certainly fails with another text.
    pub is_required: bool,
}

/// Location, message, and help.
type Fault = (Span, String, String);

/// Values that are never printed, according to the table of fields.
pub fn impossible(view: &TaskView<'_>, out: &mut Diagnostics) {
    let wanted = wanted(view);
    let mut found: Vec<Fault> = Vec::new();
    for wanted in &wanted {
        found.extend(
            shaped(wanted)
                .or_else(|| of_sql(wanted))
                .or_else(|| object(wanted))
                .or_else(|| address(wanted))
                .or_else(|| row(wanted)),
        );
    }
    found.extend(compared(view).iter().filter(|wanted| !wanted.text.contains(['*', '?', '['])).filter_map(of_secret));
    for followed in verify(view) {
        selected(followed, &mut found);
        phases(followed, &mut found);
        published(view, followed, &mut found);
    }
    never_empty(view, &mut found);
    for wanted in &wanted {
        found.extend(boolean(wanted));
    }
    schedules(view, &wanted, &mut found);
    omitted(view, &mut found);
    let mut told: Vec<Span> = out.iter().map(|known| known.span).collect();
    for (span, message, help) in found {
        if !told.iter().any(|known| known.contains(span) || span.contains(*known)) {
            told.push(span);
            out.push(Diagnostic::new(&IMPOSSIBLE_VALUE, span, message).help(help));
        }
    }
    let others = wanted.iter().filter_map(|wanted| annotated(view, wanted).or_else(|| units(view, wanted)));
    for (span, message, help) in others.chain(field_units(view)) {
        out.push(Diagnostic::new(&IMPOSSIBLE_VALUE, span, message).help(help).strength(Strength::Warning));
    }
}

/// Comparisons whose two sides never have the same form.
pub fn compares(view: &TaskView<'_>, out: &mut Diagnostics) {
    let (mut certain, mut likely): (Vec<Fault>, Vec<Fault>) = Default::default();
    let curl = verify(view).any(|followed| followed.trace.runs.iter().any(|run| run.statement.name() == "curl"));
    certain.extend(wanted(view).iter().filter_map(without_header));
    for followed in verify(view) {
        silent(followed, &mut certain);
        unquoted(&followed.view.content, &mut certain);
        typed(view, followed, curl, &mut certain);
        encoded(view, followed, &mut likely);
        both_differ(view, &followed.view.content, &mut likely);
    }
    let mut told: Vec<Span> = out.iter().map(|known| known.span).collect();
    let all = certain.into_iter().map(|fault| (fault, None));
    for ((span, message, help), strength) in all.chain(likely.into_iter().map(|f| (f, Some(Strength::Warning)))) {
        if !told.iter().any(|known| known.contains(span) || span.contains(*known)) {
            told.push(span);
            let finding = Diagnostic::new(&COMPARES_OTHERWISE, span, message).help(help);
            out.push(match strength {
                Some(strength) => finding.strength(strength),
                None => finding,
            });
        }
    }
    inverted(view, out);
}

fn verify<'a>(view: &TaskView<'a>) -> impl Iterator<Item = &'a Followed<'a>> {
    view.effects.scripts.iter().filter(|followed| followed.view.phase == PhaseKind::Verify)
}

/// `grep -qv PATTERN FILE`, which succeeds if any line of several does not match.
fn inverted(view: &TaskView<'_>, out: &mut Diagnostics) {
    for question in view.asked() {
        let Demand::Matches { pattern, options } = &question.demand else { continue };
        // `grep -qv '^#'` asks for a line that is no comment.
        let is_blank = pattern.trim_end_matches('$').ends_with(['#', '*', '^', '+']) || pattern.len() < 3;
        if options.contains('v')
            && !options.contains('c')
            && question.file.is_some()
            && question.is_wanted() == Some(true)
            && !is_blank
        {
            out.push(
                Diagnostic::new(
                    &COMPARES_OTHERWISE,
                    question.span,
                    format!("`grep -v` succeeds if any line does not contain `{pattern}`"),
                )
                .help("if no line may contain it, negate the command without `-v`: `! grep -q …`")
                .strength(Strength::Warning),
            );
        }
    }
}

/// The outputs that the checks of verify compare with a plain text that is not empty.
fn wanted<'a>(view: &TaskView<'a>) -> Vec<Wanted<'a>> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:,+@ ".contains(c);
    let mut found = compared(view);
    found.retain(|wanted| {
        let empty = matches!(wanted.text.as_str(), "" | "null" | "None");
        !empty && !wanted.runs.is_empty() && wanted.text.chars().all(plain)
    });
    found
}

/// The outputs that the checks of verify compare as a whole: in scripts, and with `stdout` of a step.
pub fn compared<'a>(view: &TaskView<'a>) -> Vec<Wanted<'a>> {
    let mut found = Vec::new();
    for question in view.asked() {
        let text = match &question.demand {
            Demand::Compared { operator, with } if matches!(operator.as_str(), "=" | "==" | "!=") => with.as_str(),
            // As a number, a leading zero is ignored.
            Demand::Compared { operator, with }
                if matches!(operator.as_str(), "-eq" | "-ne") && !with.starts_with('0') =>
            {
                with.as_str()
            }
            Demand::Matches { pattern, options } if !options.contains(['v', 'i', 'c']) => {
                let anchored = pattern.strip_prefix('^').and_then(|rest| rest.strip_suffix('$'));
                match anchored.or(Some(pattern.as_str()).filter(|_| options.contains('x'))) {
                    Some(text) if !text.contains('.') => text,
                    _ => continue,
                }
            }
            _ => continue,
        };
        let is_not =
            matches!(&question.demand, Demand::Compared { operator, .. } if matches!(operator.as_str(), "!=" | "-ne"));
        let is_required = match question.is_wanted() {
            Some(wanted) => wanted != is_not,
            // `if [ "$n" != 3 ]; then failed=1; fi`
            None => is_not && question.is_alone() && notes_failure(&question.content.text, question.statement),
        };
        found.push(Wanted { runs: question.runs.clone(), text: text.to_owned(), span: question.span, is_required });
    }
    for followed in verify(view) {
        let stdout = followed.view.step.expect.as_ref().and_then(|(_, expect)| expect.get("stdout"));
        let arg = stdout.map(|stdout| stdout.get("equals").unwrap_or(stdout));
        if let Some((arg, text)) = arg.and_then(|arg| Some((arg, arg.as_literal()?)))
            && let Some(runs) = asked::only(followed)
        {
            let text = text.trim_end().to_owned();
            found.push(Wanted { runs, text, span: arg.span, is_required: true });
        }
    }
    found
}

/// Whether a test is the condition of an `if` whose body sets a variable for a failure.
fn notes_failure(text: &str, test: &Statement) -> bool {
    let before = text.get(..test.range.start).unwrap_or_default().trim_end();
    let behind = text.get(test.range.end..).unwrap_or_default();
    let body = behind.split("\nfi").next().unwrap_or_default();
    before.ends_with("if") && !body.contains("else") && !body.contains("elif") && FAILS.is_match(body)
}

static FAILS: Ascii = ascii(r"(?i)\b(?:fail\w*|errors?|bad|rc|status|missing|wrong)=\S");

/// Programs that are often run in a container or as another user.
const CLIENTS: [&str; 5] = ["psql", "mysql", "mariadb", "sqlite3", "stat"];

/// The words of a command, or of the command that it runs in a container.
fn words<'r>(run: &'r Run<'_>) -> Vec<&'r str> {
    let mut words: Vec<&str> = run.words.iter().map(|word| word.literal().unwrap_or("\u{1a}")).collect();
    let outer = matches!(run.statement.tool(), "docker" | "kubectl" | "sudo" | "timeout" | "docker-compose");
    match words.iter().position(|word| outer && CLIENTS.contains(word)) {
        Some(at) => words.split_off(at),
        None => words,
    }
}

/// The program and its operation, from the most to the least specific: `helm status`, `helm`.
fn operations(words: &[&str]) -> Vec<String> {
    let Some((name, rest)) = words.split_first() else { return Vec::new() };
    let name = tools::canonical(name.rsplit('/').next().unwrap_or(name));
    let operands: Vec<&str> = tools::operands(name, rest).copied().take(2).collect();
    let mut found: Vec<String> = (1..=operands.len())
        .rev()
        .map(|count| format!("{name} {}", operands.get(..count).unwrap_or_default().join(" ")))
        .collect();
    found.push(name.to_owned());
    // `docker container inspect`
    if operands.first() == Some(&"container") {
        found.extend(operands.get(1).map(|operation| format!("{name} {operation}")));
    }
    found
}

/// Commands that pass on their input.
pub fn passes(run: &Run<'_>) -> bool {
    matches!(run.statement.name(), "head" | "tail" | "sort" | "cat" | "tee" | "xargs")
        || run.statement.name() == "tr" && asked::options(run).contains('d')
}

/// The path of the field that a chain of commands prints (`info.status`), and whether it ends with all items of a list.
fn path(runs: &[&Run<'_>]) -> Option<(String, bool)> {
    let last = runs.iter().rev().find(|run| !passes(run))?;
    let words = words(last);
    let text = match last.statement.tool() {
        "jq" | "yq" => asked::operand(last)?,
        "gh" => asked::value_of(&words, "-q", "--jq")?.to_owned(),
        "docker" => {
            let format = asked::value_of(&words, "-f", "--format")?;
            format.strip_prefix("{{")?.strip_suffix("}}")?.to_owned()
        }
        "kubectl" => asked::value_of(&words, "-o", "--output")?.strip_prefix("jsonpath=")?.to_owned(),
        "stat" => return Some((asked::value_of(&words, "-c", "--format")?.to_owned(), false)),
        "aws" => format!(".{}", asked::value_of(&words, "--query", "--query")?),
        _ => return None,
    };
    let end = text.rsplit('|').next()?.trim().trim_matches(['{', '}', ' ']);
    let plain = |c: char| c.is_ascii_alphanumeric() || "._[]?*-".contains(c);
    if !end.starts_with('.') || !end.chars().all(plain) {
        return None;
    }
    let bare = |part: &str| part.split('[').next().unwrap_or_default().trim_end_matches('?').to_owned();
    let parts: Vec<String> = end.split('.').map(bare).filter(|part| !part.is_empty()).collect();
    let end = end.trim_end_matches('?');
    Some((parts.join("."), end.ends_with("[]") || end.ends_with("[*]")))
}

/// The shape of the field with this path, and the field: the table has it under the path or the end of the path.
fn shape<'p>(operations: &[String], path: &'p str) -> Option<(&'p str, &'static str, &'static str)> {
    let ends = std::iter::once(0).chain(path.match_indices('.').map(|(at, _)| at + 1));
    let ends: Vec<&str> = ends.map(|at| &path[at..]).collect();
    operations.iter().find_map(|operation| {
        ends.iter().find_map(|end| fields::shape(operation, end).map(|(pattern, what)| (*end, pattern, what)))
    })
}

/// The operations whose fields a chain of commands prints.
fn sources(runs: &[&Run<'_>]) -> Vec<String> {
    let mut found = runs.first().map(|run| operations(&words(run))).unwrap_or_default();
    let rules = |run: &&Run<'_>| {
        let filter = if matches!(run.statement.tool(), "jq" | "yq") { asked::operand(run) } else { None };
        filter
            .is_some_and(|filter| filter.contains(".alert") || filter.contains(".rules") || filter.contains(".record"))
    };
    if runs.iter().any(rules) {
        found.push("prometheus".to_owned());
    }
    found
}

fn fits(pattern: &str, text: &str) -> bool {
    Ascii::from(format!("^(?:{pattern})$")).is_match(text)
}

/// `stat -c %a` compared with `0600`, `.status` of `helm list` with `DEPLOYED`.
fn shaped(wanted: &Wanted<'_>) -> Option<Fault> {
    let (path, all) = path(&wanted.runs)?;
    let kind = wanted.runs.first().filter(|run| run.statement.tool() == "kubectl").and_then(|run| kind_of(run));
    let mut sources = sources(&wanted.runs);
    sources.extend(kind.map(str::to_owned));
    let (field, pattern, what) = shape(&sources, &path).filter(|_| !all)?;
    (!fits(pattern, &wanted.text))
        .then(|| (wanted.span, format!("`{field}` is never `{}`", wanted.text), format!("it is {what}")))
}

static EQUALS: Ascii = ascii(r#"\.([A-Za-z_][\w.]*)\s*[!=]=\s*\\?"([^"\\]+)\\?""#);

/// `select(.Status == "enabled")` in a filter.
fn selected(followed: &Followed<'_>, found: &mut Vec<Fault>) {
    for (first, run, filter) in asked::filtered_by(followed) {
        let operations = sources(&[first, run]);
        for part in EQUALS.captures_iter(&filter) {
            let (Some(path), Some(value)) = (part.get(1), part.get(2)) else { continue };
            if let Some((field, pattern, what)) = shape(&operations, path.as_str())
                && !fits(pattern, value.as_str())
            {
                let message = format!("`{field}` is never `{}`", value.as_str());
                found.push((place(run, value.as_str()), message, format!("it is {what}")));
            }
        }
        in_objects(first, run, &filter, found);
    }
}

static ITEM: Ascii = ascii(
    r#"\.(\w+)(?:\[\])?\s*\|\s*(?:index\(\s*\\?"|contains\(\s*\[\s*\\?"|any\(\s*\.\s*==\s*\\?"|inside\(\s*\[\s*\\?")"#,
);

/// `.labels | index("bug")` of an issue: the items are objects.
fn in_objects(first: &Run<'_>, run: &Run<'_>, filter: &str, found: &mut Vec<Fault>) {
    for part in ITEM.captures_iter(filter) {
        let Some(field) = part.get(1).filter(|field| prints_objects(first, field.as_str())) else { continue };
        found.push((place(run, field.as_str()), items_are_objects(field.as_str()), NAME_FIRST.to_owned()));
    }
}

const NAME_FIRST: &str = "select a field of the items: `.name`";

fn items_are_objects(field: &str) -> String {
    format!("the items of `{field}` are objects, so they never equal a text")
}

fn prints_objects(first: &Run<'_>, field: &str) -> bool {
    let json = || words(first).iter().any(|word| word.starts_with("--json"));
    fields::has_objects(first.statement.tool(), field) && (first.statement.tool() != "gh" || json())
}

/// `.labels[]` compared with `bug`.
fn object(wanted: &Wanted<'_>) -> Option<Fault> {
    let (path, all) = path(&wanted.runs)?;
    let field = path.rsplit('.').next().filter(|_| all)?;
    prints_objects(wanted.runs.first()?, field).then(|| (wanted.span, items_are_objects(field), NAME_FIRST.to_owned()))
}

/// `{.data.password}` of a secret compared with the password itself.
fn of_secret(wanted: &Wanted<'_>) -> Option<Fault> {
    let (path, _) = path(&wanted.runs)?;
    let first = wanted.runs.first().filter(|run| run.statement.tool() == "kubectl" && path.starts_with("data."))?;
    let kind = kind_of(first)?;
    let decoded = || base64::engine::general_purpose::STANDARD.decode(&wanted.text).ok().map(String::from_utf8);
    (kind == "secret" && !wanted.text.is_empty() && !matches!(decoded(), Some(Ok(_)))).then(|| {
        let message = format!("the data of a secret is encoded in base64, never `{}`", wanted.text);
        (wanted.span, message, "decode it first: `… | base64 -d`".to_owned())
    })
}

/// `True` for a Boolean field, which jsonpath and jq print as `true`. Only the status of a condition is such a text.
fn boolean(wanted: &Wanted<'_>) -> Option<Fault> {
    let (path, _) = path(&wanted.runs)?;
    let first = wanted.runs.first().filter(|run| run.statement.tool() == "kubectl")?;
    let key = path.rsplit('.').next()?;
    let is_boolean =
        fields::is_boolean("kubectl", key) || matches!(key, "ready" | "readyToUse" | "enabled" | "created");
    let is_text = matches!(wanted.text.as_str(), "True" | "False") && !path.starts_with("data.");
    let gets = first.words.iter().any(|word| word.literal() == Some("get"));
    (is_boolean && is_text && gets).then(|| {
        let lower = wanted.text.to_lowercase();
        (wanted.span, format!("`{key}` is a Boolean, which is printed as `{lower}`"), format!("compare with `{lower}`"))
    })
}

/// A field that every resource of a kind has must be empty: the cluster IP of a headless service is `None`.
fn never_empty(view: &TaskView<'_>, found: &mut Vec<Fault>) {
    for question in view.asked() {
        let (asked::Form::Field(path), Demand::There, [run]) =
            (&question.form, &question.demand, question.runs.as_slice())
        else {
            continue;
        };
        let Some(act) = view.effects.read_by(run).filter(|_| question.is_wanted() == Some(false)) else { continue };
        let always = tools::tool("kubectl").and_then(|tool| tool.always.get(&act.thing.kind)).into_iter().flatten();
        // A service of this type has no cluster IP.
        let is_external = path == "spec.clusterIP" && view.effects.prompt.shown().contains("ExternalName");
        if run.statement.tool() == "kubectl" && always.clone().any(|known| known == path) && !is_external {
            let help = match path.as_str() {
                "spec.clusterIP" => "a headless service has `None` there",
                _ => "compare with the value that it should have",
            };
            let message = format!("every {} has `{path}`, so it is never empty", act.thing.kind);
            found.push((question.span, message, help.to_owned()));
        }
    }
}

/// The kind that `kubectl get` reads.
fn kind_of(run: &Run<'_>) -> Option<&'static str> {
    let words = words(run);
    let mut operands = tools::operands("kubectl", words.get(1..)?).copied();
    let kind = operands.next().filter(|verb| *verb == "get").and_then(|_| operands.next())?;
    Some(tools::tool("kubectl")?.kind(kind.split('/').next()?)?.0)
}

/// `.status.availableReplicas` of a deployment compared with the text `0`: the field is omitted then.
fn omitted(view: &TaskView<'_>, found: &mut Vec<Fault>) {
    for question in view.asked() {
        let Demand::Compared { operator, with } = &question.demand else { continue };
        // A default takes the place of the missing number.
        let defaults = [":-0", ":=0", "// 0"].iter().any(|default| question.content.text.contains(default));
        if with != "0" || !matches!(operator.as_str(), "=" | "==" | "!=") || defaults {
            continue;
        }
        let field = || {
            let kind = kind_of(question.runs.first().filter(|run| run.statement.tool() == "kubectl")?)?;
            let (path, all) = path(&question.runs)?;
            let path = path.strip_prefix("items.").unwrap_or(&path);
            (!all && fields::is_omitted(kind, path)).then(|| path.rsplit('.').next().unwrap_or(path).to_owned())
        };
        if let Some(field) = field() {
            let message = format!("`{field}` is omitted if it is 0: the output is empty, never `0`");
            found.push((question.span, message, "compare with a default: `[ \"${n:-0}\" = 0 ]`".to_owned()));
        }
    }
}

/// `--field-selector=status.phase=Error`: a phase that pods never have.
fn phases(followed: &Followed<'_>, found: &mut Vec<Fault>) {
    for run in followed.trace.runs.iter().filter(|run| run.statement.tool() == "kubectl") {
        let words = words(run);
        let Some(selector) = asked::value_of(&words, "--field-selector", "--field-selector") else { continue };
        let Some(kind) = kind_of(run) else { continue };
        for part in selector.split(',') {
            let Some((path, value)) = part.split_once('=') else { continue };
            let (path, value) = (path.trim_end_matches('!'), value.trim_start_matches('='));
            if let Some((field, pattern, what)) = shape(&[kind.to_owned()], path)
                && !fits(pattern, value)
            {
                found.push((place(run, part), format!("`{field}` is never `{value}`"), format!("it is {what}")));
            }
        }
    }
}

/// `docker port web 80 | grep -qx 8080`: an address and a port are printed.
fn address(wanted: &Wanted<'_>) -> Option<Fault> {
    let [first, others @ ..] = wanted.runs.as_slice() else { return None };
    let words = words(first);
    let prints = others.iter().all(|run| passes(run) && run.statement.name() != "tr")
        && first.statement.tool() == "docker"
        && tools::operands("docker", &words[1..]).next() == Some(&"port")
        && tools::operands("docker", &words[1..]).count() == 3;
    (prints && wanted.text.bytes().all(|b| b.is_ascii_digit())).then(|| {
        let message = format!("`docker port` prints an address and a port, never `{}`", wanted.text);
        (
            wanted.span,
            message,
            format!("compare with `0.0.0.0:{}`, or remove the address: `${{port##*:}}`", wanted.text),
        )
    })
}

/// `helm list | grep -x web`: the lines of a table have several columns.
fn row(wanted: &Wanted<'_>) -> Option<Fault> {
    let [first, others @ ..] = wanted.runs.as_slice() else { return None };
    let words = words(first);
    let tool = first.statement.tool();
    let mut operands = tools::operands(tool, words.get(1..)?).copied();
    let (quiet, help) = match (tool, operands.next()?, operands.next()) {
        ("helm", "list" | "ls", _) => ("q", "print only the names: `helm list -q`"),
        ("kubectl", "get", Some(_)) => {
            ("", "print only the names: `-o jsonpath='{.items[*].metadata.name}'`, or `-o name` with the kind")
        }
        ("docker", "ps" | "images", _) | ("docker", "container" | "image" | "volume" | "network", Some("ls")) => {
            ("q", "print only the names: `--format '{{.Names}}'`")
        }
        _ => return None,
    };
    let formats = |word: &&str| {
        ["-o", "--output", "--format", "--template", "--short", "--quiet"].iter().any(|option| word.starts_with(option))
            || !quiet.is_empty() && word.starts_with('-') && !word.starts_with("--") && word.contains(quiet)
    };
    let plain = !wanted.text.contains(' ') && others.iter().all(|run| passes(run) && run.statement.name() != "tr");
    // A word that is not known may be an option, unless it is the value of one.
    let mut unknown = words.windows(2).filter(|pair| pair[1] == "\u{1a}");
    let open = unknown.any(|pair| !matches!(pair[0], "-n" | "--namespace" | "-l" | "--selector" | "--filter" | "-f"));
    (plain && !open && !words.iter().any(formats)).then(|| {
        let message =
            format!("this prints a table with several columns, and never a line that is only `{}`", wanted.text);
        (wanted.span, message, help.to_owned())
    })
}

/// The client of a database that a command runs, its words and its query.
fn query<'w>(words: &'w [&'w str]) -> Option<(&'static str, &'w str)> {
    let client = match *words.first()? {
        "psql" => "psql",
        "mysql" | "mariadb" => "mysql",
        "sqlite3" => "sqlite3",
        _ => return None,
    };
    let begins = |word: &str, verb: &str| word.get(..verb.len()).is_some_and(|head| head.eq_ignore_ascii_case(verb));
    let query =
        words.iter().skip(1).map(|word| word.trim()).find(|word| begins(word, "select ") || begins(word, "show "))?;
    Some((client, query))
}

/// `psql -c "SELECT …"` without `-t` compared with a value: a header and a row count are printed as well.
fn without_header(wanted: &Wanted<'_>) -> Option<Fault> {
    let [run] = wanted.runs.as_slice() else { return None };
    let words = words(run);
    let (client, _) = query(&words)?;
    let short = |letter: char| {
        words.iter().skip(1).any(|word| {
            word.strip_prefix('-').is_some_and(|rest| !rest.starts_with('-') && rest.len() < 8 && rest.contains(letter))
        })
    };
    let long = |option: &str| words.iter().any(|word| word.contains(option));
    let message = match client {
        "psql" if !short('t') && !short('P') && !long("tuples") && !long("--pset") && !long("csv") => {
            "without `-t`, psql prints a header and the number of rows as well"
        }
        "mysql" if !short('N') && !long("column-names") => "without `-N`, mysql prints the name of the column as well",
        _ => return None,
    };
    let option = if client == "psql" { "use `psql -tA`" } else { "use `mysql -N`" };
    Some((wanted.span, format!("this output is never `{}`: {message}", wanted.text), option.to_owned()))
}

static COLUMN: Ascii = ascii(r"(?i)^select\s+(?:\w+\.)?(\w+)\s+from\b");
static BOOLEAN: Ascii = ascii(r"(?i)^select\s+(?:not\s+)?(?:exists\s*\(|has_\w+_privilege\s*\(|pg_has_role\s*\()");

/// A column of a catalog, or a condition, compared with a value that the client prints in another form.
fn of_sql(wanted: &Wanted<'_>) -> Option<Fault> {
    let [run, others @ ..] = wanted.runs.as_slice() else { return None };
    let words = words(run);
    let (client, query) = query(&words)?;
    let lower = query.to_ascii_lowercase();
    let converts = ["::", "cast(", "case ", "||", "case\n", "upper(", "lower("].iter().any(|sign| lower.contains(sign));
    if converts || !others.iter().all(|run| passes(run)) {
        return None;
    }
    let column = COLUMN.captures(query).and_then(|found| found.get(1).map(|name| name.as_str().to_ascii_lowercase()));
    let field = match BOOLEAN.is_match(query) {
        true => "boolean".to_owned(),
        false => column?,
    };
    // A table of the task may have a column of the same name.
    let catalog = field == "boolean" || lower.contains("information_schema") || lower.contains("pg_");
    let (pattern, what) = fields::shape(client, &field).filter(|_| catalog)?;
    // An unaligned list separates its columns.
    (!wanted.text.contains([' ', ',']) || field != "boolean").then_some(())?;
    (!fits(pattern, &wanted.text)).then(|| {
        let message = match field.as_str() {
            "boolean" => format!("{client} never prints `{}` for a condition", wanted.text),
            field => format!("`{field}` is never `{}`", wanted.text),
        };
        (wanted.span, message, format!("{client} prints {what}"))
    })
}

/// The prompt asks for an annotated tag, and verify for the type `commit`.
fn annotated(view: &TaskView<'_>, wanted: &Wanted<'_>) -> Option<Fault> {
    let [run] = wanted.runs.as_slice() else { return None };
    let words = words(run);
    let name = match words.as_slice() {
        ["git", rest @ ..] => match tools::operands("git", rest).copied().collect::<Vec<_>>().as_slice() {
            ["cat-file", name] if rest.contains(&"-t") => (*name).trim_start_matches("refs/tags/").to_owned(),
            _ => return None,
        },
        _ => return None,
    };
    let said = view.effects.prompt.shown();
    (wanted.text == "commit" && said.to_lowercase().contains("annotated tag") && texts::has_word(&said, &name)).then(
        || {
            let message = "the prompt asks for an annotated tag, whose type is `tag`".to_owned();
            (wanted.span, message, "compare with `tag`; a lightweight tag has the type `commit`".to_owned())
        },
    )
}

static BINARY: Ascii = ascii(r"\b(\d+) ?(KiB|MiB|GiB|Ki|Mi|Gi)\b");

/// `256 MiB` in the prompt, and `256000000` in verify.
fn units(view: &TaskView<'_>, wanted: &Wanted<'_>) -> Option<Fault> {
    let round = |number: &u64| *number >= 1000 && number.is_multiple_of(1000);
    // Several fields may be printed in a line.
    let numbers: Vec<u64> =
        wanted.text.split([' ', ',', '/', ':']).filter_map(|word| word.parse().ok().filter(round)).collect();
    if numbers.is_empty() {
        return None;
    }
    let said = view.effects.prompt.shown();
    BINARY.captures_iter(&said).find_map(|part| {
        let count: u64 = part[1].parse().ok()?;
        let (decimal, binary) = match part[2].as_bytes().first()? {
            b'K' => (1000, 1 << 10),
            b'M' => (1_000_000, 1 << 20),
            _ => (1_000_000_000, 1_u64 << 30),
        };
        let bytes = count.checked_mul(binary)?;
        numbers.contains(&count.checked_mul(decimal)?).then(|| {
            let message = format!("the prompt says {}, which is {bytes} bytes", &part[0]);
            (wanted.span, message, format!("compare with `{bytes}`"))
        })
    })
}

static MONEY: Ascii =
    ascii(r"[$€£] ?(\d+(?:\.\d\d)?)\b|\b(\d+(?:\.\d\d)?) ?(?:[€£]|euros?|dollars?|pounds?|EUR|USD|GBP)");

/// `10 minutes` in the prompt, and `600` for a field in milliseconds; `4.50 euros`, and `4.5` for one in cents.
fn field_units(view: &TaskView<'_>) -> Vec<Fault> {
    let number = |fact: &facts::Fact| fact.text().parse().ok().filter(|number: &f64| *number > 0.0);
    let same = |a: f64, b: f64| (a - b).abs() < 1e-9 * a.max(b);
    let mut found: Vec<Fault> = Vec::new();
    let mut push = |fact: &facts::Fact, unit: &str, written: &str, right: f64| {
        let message = format!("`{}` is in {unit}, and the prompt says {written}", fact.key);
        found.push((fact.span, message, format!("compare with `{right}`")));
    };
    let said = LazyCell::new(|| view.effects.prompt.shown());
    let told = LazyCell::new(|| Quantity::all(&said.to_ascii_lowercase()));
    for fact in facts::asked(view) {
        if let (Some((factor, base, unit)), Some(number)) = (Quantity::unit_of_field(&fact.key), number(fact)) {
            let is_told = |q: &Quantity| match q.unit {
                "" => same(q.number, number),
                unit => unit == base && same(q.amount, number * factor),
            };
            let other = told.iter().find(|(_, q)| q.unit == base && (same(q.amount, number) || same(q.number, number)));
            if let Some((_, other)) = other.filter(|_| !told.iter().any(|(_, q)| is_told(q))) {
                push(fact, unit, &other.text, other.amount / factor);
            }
        }
        if let Some(number) =
            number(fact).filter(|_| crate::effects::words(&fact.key).iter().any(|word| word == "cents"))
        {
            let amounts: Vec<(f64, &str)> = MONEY
                .captures_iter(&said)
                .filter_map(|part| {
                    Some((part.get(1).or_else(|| part.get(2))?.as_str().parse().ok()?, part.get(0)?.as_str()))
                })
                .collect();
            let other = amounts.iter().find(|(amount, _)| same(*amount, number));
            if let Some((amount, written)) =
                other.filter(|_| !amounts.iter().any(|(amount, _)| same(amount * 100.0, number)))
            {
                push(fact, "cents", written, amount * 100.0);
            }
        }
    }
    found
}

static TYPED: Ascii = ascii(
    r#"\.(?:labels|annotations|matchLabels|nodeSelector)(?:\.[A-Za-z0-9_-]+|\[\\?"[^"\\]+\\?"\])\s*[!=]=\s*(true|false|-?\d+)(?:\W|$)"#,
);
static NUMBER: Ascii = ascii(r#"\.(\w+)\s*[!=]=\s*\\?"(\d+)\\?""#);

/// `.metadata.annotations["a"] == true`: these values are strings. `.port == "80"` in a filter that a function gets.
fn typed(view: &TaskView<'_>, followed: &Followed<'_>, curl: bool, found: &mut Vec<Fault>) {
    let own = |span: Span| !curl && facts::asked(view).iter().any(|fact| fact.typed && fact.span.start == span.start);
    let mut of_release: Vec<Fault> = Vec::new();
    let mut push = |run: &Run<'_>, filter: &str| {
        for part in TYPED.captures_iter(filter) {
            let (Some(whole), Some(value)) = (part.get(0), part.get(1)) else { continue };
            let span = place(run, whole.as_str().trim_end_matches(|c: char| !c.is_ascii_alphanumeric()));
            if !own(span) {
                let message = format!("this field contains a string, but {} is not a string", value.as_str());
                found.push((span, message, format!("compare with \"{}\"", value.as_str())));
            }
        }
    };
    for (first, run, filter) in asked::filtered_by(followed) {
        if first.statement.tool() == "kubectl" {
            push(run, &filter);
        }
        let words: Vec<&str> = first.words.iter().take(3).filter_map(Value::literal).collect();
        if words == ["helm", "get", "values"] && !facts::elsewhere(view).rest.contains("set-string") {
            of_release.extend(NUMBER.captures_iter(&filter).filter_map(|part| {
                let (whole, value) = (part.get(0)?, part.get(2)?);
                let message = format!("Helm stores this value as a number, but \"{}\" is a string", value.as_str());
                Some((place(run, whole.as_str()), message, format!("compare with {}", value.as_str())))
            }));
        }
    }
    found.append(&mut of_release);
    if curl || !followed.trace.runs.iter().any(|run| run.statement.tool() == "kubectl") {
        return;
    }
    for run in followed.trace.runs.iter().filter(|run| run.statement.name() == "jq") {
        let Some(filter) = asked::operand(run) else { continue };
        // Literal filters are read as facts.
        if run.statement.words().iter().any(|word| word.text == filter) {
            continue;
        }
        for part in NUMBER.captures_iter(&filter) {
            let (Some(whole), Some(field), Some(value)) = (part.get(0), part.get(1), part.get(2)) else { continue };
            if fields::is_number("kubectl", field.as_str()) {
                let message = format!("this field contains a number, but \"{}\" is a string", value.as_str());
                found.push((place(run, whole.as_str()), message, format!("compare with {}", value.as_str())));
            }
        }
    }
}

/// The place of a text in a script, if it is there once; otherwise, the command.
pub fn place(run: &Run<'_>, text: &str) -> Span {
    let content = run.content;
    let own = content.text.get(run.statement.range.clone()).unwrap_or_default();
    if let Some(at) = own.find(text) {
        let start = run.statement.range.start + at;
        return content.span(start..start + text.len());
    }
    let mut places = content.text.match_indices(text);
    match (places.next(), places.next()) {
        (Some((at, _)), None) => content.span(at..at + text.len()),
        _ => content.span(run.statement.range.clone()),
    }
}

/// What prints nothing, as a command for people.
fn is_silent(run: &Run<'_>) -> Option<&'static str> {
    let words = words(run);
    let has = |options: &[&str]| words.iter().any(|word| options.contains(word));
    match run.statement.name() {
        _ if asked::discards(run) => Some("this command discards its output"),
        "grep" | "egrep" | "fgrep" if asked::options(run).contains('q') || has(&["--quiet", "--silent"]) => {
            Some("`grep -q` prints nothing")
        }
        "cmp" if has(&["-s", "--silent", "--quiet"]) => Some("`cmp -s` prints nothing"),
        "test" => Some("`test` prints nothing"),
        "curl" => {
            let file =
                asked::value_of(&words, "-o", "--output").is_some_and(|file| !matches!(file, "-" | "/dev/stdout"));
            let prints = words.iter().any(|word| {
                matches!(*word, "-w" | "--write-out" | "-v" | "-D" | "--dump-header" | "\u{1a}")
                    || word.starts_with("-w")
            });
            (file && !prints && words.iter().any(|word| matches!(*word, "-o" | "--output")))
                .then_some("`curl -o` writes to a file and prints nothing")
        }
        _ => None,
    }
}

/// `[ "$(grep -q a file)" = 1 ]`: nothing is printed.
fn silent(followed: &Followed<'_>, found: &mut Vec<Fault>) {
    let trace = &followed.trace;
    let commands = trace.runs.iter().filter(|run| run.statement.name() == "test");
    let tests = trace.tests.iter().map(|test| (test.content, test.statement, test.words.as_slice()));
    let all = tests.chain(commands.filter_map(|run| Some((run.content, run.statement, run.words.get(1..)?))));
    for (content, statement, words) in all {
        for triple in words.windows(3) {
            let [left, operator, right] = triple else { continue };
            if !matches!(operator.literal(), Some("=" | "==" | "!=" | "-eq" | "-ne" | "-ge" | "-gt" | "-le" | "-lt")) {
                continue;
            }
            let (printed, other) = match (left.printed(), right.printed()) {
                (Some(printed), None) => (printed, right),
                (None, Some(printed)) => (printed, left),
                _ => continue,
            };
            if other.literal() == Some("") {
                continue;
            }
            if let Some(why) = asked::last_of(followed, printed).and_then(is_silent) {
                found.push((
                    content.span(statement.range.clone()),
                    format!("{why}, so this compares an empty text"),
                    "use the exit status of the command, or let it print what is compared".to_owned(),
                ));
            }
        }
    }
    let step = followed.view.step;
    let stdout = step.expect.as_ref().and_then(|(_, expect)| expect.get("stdout"));
    let wanted = stdout.map(|out| out.get("equals").or_else(|| out.get("contains")).unwrap_or(out));
    if let Some((arg, text)) =
        wanted.and_then(|arg| Some((arg, arg.as_literal()?))).filter(|(_, text)| !text.is_empty())
        && let Some(why) = asked::only(followed).and_then(|runs| runs.last().and_then(|run| is_silent(run)))
    {
        found.push((arg.span, format!("{why}, so the output is never `{text}`"), "check the exit status".to_owned()));
    }
}

/// `[ $message = "hello from helm" ]`: if the value is as expected, it is several words.
fn unquoted(content: &Content, found: &mut Vec<Fault>) {
    content.program.walk(&mut |s| {
        let text = content.text.get(s.range.clone()).unwrap_or_default();
        if !(matches!(s.kind, Kind::Test) || s.name() == "test") || text.starts_with("((") || text.starts_with("[[") {
            return;
        }
        for triple in ast::split(text, s.range.start).windows(3) {
            let [left, operator, right] = triple else { continue };
            let blank = right.literal().is_some_and(|text| text.trim().contains(' ') && !text.contains(HOLE));
            if matches!(operator.source.as_str(), "=" | "==" | "!=") && left.source.starts_with('$') && blank {
                found.push((
                    content.span(left.range.clone()),
                    format!("without quotes, `{}` is split into words: if it equals the text, `[` fails", left.source),
                    format!("write `\"{}\"`", left.source),
                ));
            }
        }
    });
}

/// `[ "$(echo secret | base64)" = "$data" ]`: `echo` adds a newline, which is encoded as well.
fn encoded(view: &TaskView<'_>, followed: &Followed<'_>, found: &mut Vec<Fault>) {
    if !followed.view.content.text.contains("base64") {
        return;
    }
    let given = &facts::elsewhere(view).rest;
    if given.contains("base64") {
        return;
    }
    for test in &followed.trace.tests {
        let chains: Vec<_> =
            test.words.iter().filter_map(Value::printed).filter_map(|chain| asked::chain(followed, chain)).collect();
        let [one, other] = chains.as_slice() else { continue };
        let encodes = |runs: &[&Run<'_>]| match runs {
            [first, rest @ ..] => {
                let adds = first.statement.name() == "echo" && !asked::options(first).contains('n');
                let base64 = rest.first().is_some_and(|run| {
                    run.statement.name() == "base64" && !asked::options(run).contains(['d', 'D', 'i'])
                });
                adds && base64 && rest.iter().skip(1).all(|run| passes(run))
            }
            [] => false,
        };
        let reads = |runs: &[&Run<'_>]| {
            let secret = |path: String| path.starts_with("data.");
            runs.first().is_some_and(|run| run.statement.tool() == "kubectl")
                && path(runs).is_some_and(|(path, _)| secret(path))
        };
        if encodes(one) && reads(other) || encodes(other) && reads(one) {
            found.push((
                test.content.span(test.statement.range.clone()),
                "the encoded text includes the newline that `echo` adds".to_owned(),
                "use `printf '%s'` instead of `echo`".to_owned(),
            ));
        }
    }
}

/// `if [ "$a" != 0 ] && [ "$b" != 3 ]; then exit 1; fi`: this fails only if both are wrong.
fn both_differ(view: &TaskView<'_>, content: &Content, found: &mut Vec<Fault>) {
    content.program.walk(&mut |s| {
        let Kind::If { branches, otherwise: None } = &s.kind else { return };
        let [branch] = branches.as_slice() else { return };
        let ([condition], Some(last)) = (branch.condition.as_slice(), branch.body.last()) else { return };
        let fails = matches!(last.name(), "exit" | "return" | "fail" | "die")
            && !matches!(last.words().get(1).map(|word| word.text.as_str()), None | Some("0"));
        let text = content.text.get(condition.range.clone()).unwrap_or_default();
        if !fails || !text.contains("&&") || text.contains("||") || text.contains(HOLE) || !only_tests(condition) {
            return;
        }
        let words = ast::split(text, condition.range.start);
        let parts: Vec<Vec<&ast::Word>> = words
            .split(|word| word.source == "&&")
            .map(|part| {
                part.iter().filter(|word| !matches!(word.source.as_str(), "[" | "[[" | "]" | "]]" | "test")).collect()
            })
            .collect();
        let compared: Vec<(&str, String)> = parts
            .iter()
            .filter_map(|part| match part.as_slice() {
                [left, operator, right] if matches!(operator.source.as_str(), "!=" | "-ne") => {
                    Some((left.source.trim_matches('"'), right.literal().filter(|text| !text.is_empty())?))
                }
                _ => None,
            })
            .collect();
        let [(left, one), (right, other)] = compared.as_slice() else { return };
        let said = content.text.get(s.range.clone()).unwrap_or_default().to_lowercase();
        let shown = |left: &str| said.matches(&left.to_lowercase()).count() > 1;
        // `// "none"`: the agent may set one field or the other.
        let may_be_absent = |left: &str| {
            let name = left.trim_start_matches(['$', '{']).trim_end_matches('}');
            let values =
                content.text.lines().filter_map(|line| line.trim_start().strip_prefix(name)?.strip_prefix('='));
            values.into_iter().any(|value| value.contains(" // "))
        };
        // Two words may be alternatives: `Running` or `Succeeded`.
        let numbers = one.parse::<i64>().is_ok() && other.parse::<i64>().is_ok();
        // `wrong-state` reports values that are both in the prompt.
        let prompt = view.effects.prompt.shown();
        let named = texts::has_word(&prompt, one) && texts::has_word(&prompt, other);
        let alternatives = named || ["either", "neither", " or ", " nor "].iter().any(|word| said.contains(word));
        if parts.len() == 2
            && left != right
            && one != other
            && left.starts_with('$')
            && right.starts_with('$')
            && !alternatives
            && !(may_be_absent(left) && may_be_absent(right))
            && !is_range(left, right)
            && (numbers || shown(left) && shown(right))
        {
            found.push((
                content.span(condition.range.clone()),
                "this fails only if both values are wrong".to_owned(),
                "if both are required, write `||` between the two conditions".to_owned(),
            ));
        }
    });
}

/// Whether two variables are the two ends of a range, of which a resource has only one: `$MIN` and `$MAX_UNAVAILABLE`.
fn is_range(one: &str, other: &str) -> bool {
    let begins = |name: &str, with: &str| name.trim_start_matches(['$', '{']).to_lowercase().starts_with(with);
    begins(one, "min") && begins(other, "max") || begins(one, "max") && begins(other, "min")
}

fn only_tests(s: &Statement) -> bool {
    match &s.kind {
        Kind::Test => true,
        Kind::And(pair) => pair.iter().all(only_tests),
        _ => s.name() == "test",
    }
}

/// `docker port web 16379`: the port is the one in the container.
fn published(view: &TaskView<'_>, followed: &Followed<'_>, found: &mut Vec<Fault>) {
    for run in followed.trace.runs.iter().filter(|run| run.statement.tool() == "docker") {
        let words = words(run);
        let operands: Vec<&str> = tools::operands("docker", &words[1..]).copied().collect();
        let ["port", _, asked] = operands.as_slice() else { continue };
        let port = asked.split('/').next().unwrap_or(asked);
        if port.is_empty() || !port.bytes().all(|b| b.is_ascii_digit()) {
            continue;
        }
        let said = view.effects.prompt.shown().to_lowercase();
        let on_host = ["host port {}", "port {} of the host", "port {} on the host", "host's port {}", "localhost:{}"]
            .iter()
            .any(|form| texts::has_word(&said, &form.replace("{}", port)));
        let mut ports = view.effects.scripts.iter().flat_map(|script| &script.trace.runs).flat_map(|run| {
            let docker = run.statement.tool() == "docker";
            run.words.windows(2).filter(move |pair| docker && matches!(pair[0].literal(), Some("-p" | "--publish")))
        });
        let inside = |value: &Value| {
            let text = value.literal().unwrap_or_default();
            text.rsplit(':').next().and_then(|port| port.split('/').next()) == Some(port)
        };
        let outside = |value: &Value| value.literal().is_some_and(|text| text.rsplit(':').nth(1) == Some(port));
        let of_setup = ports.clone().any(|pair| outside(&pair[1]));
        let in_container = ports.any(|pair| inside(&pair[1])) || said.contains(&format!("container port {port}"));
        if (on_host || of_setup) && !in_container {
            found.push((
                place(run, asked),
                format!("`docker port` takes the port of the container, and {port} is the port of the host"),
                "pass the port on which the container listens".to_owned(),
            ));
        }
    }
}

static CRON: Ascii = ascii(r#"["']((?:[\d*/,-]+ ){4}[\d*/,-]+)["']"#);

/// `2 30 * * *`: an hour is at most 23.
fn schedules(view: &TaskView<'_>, wanted: &[Wanted<'_>], found: &mut Vec<Fault>) {
    for followed in verify(view) {
        let content = &followed.view.content;
        if !content.text.contains("* *") || !content.text.contains("chedule") && !content.text.contains("cron") {
            continue;
        }
        for part in CRON.captures_iter(&content.text) {
            if let Some(schedule) = part.get(1)
                && let Some(message) = out_of_range(schedule.as_str())
            {
                found.push((content.span(schedule.range()), message, CRON_FIELDS.to_owned()));
            }
        }
    }
    for wanted in wanted.iter().filter(|wanted| wanted.text.contains("* *")) {
        if let Some(message) = out_of_range(&wanted.text) {
            found.push((wanted.span, message, CRON_FIELDS.to_owned()));
        }
    }
    for fact in crate::lint::analysis::facts::asked(view).iter().filter(|fact| fact.key == "schedule") {
        let known = found
            .iter()
            .any(|(span, ..)| span.file == fact.span.file && span.end > fact.span.start && fact.span.end > span.start);
        if let Some(message) = out_of_range(&fact.text()).filter(|_| !known) {
            found.push((fact.span, message, CRON_FIELDS.to_owned()));
        }
    }
}

const CRON_FIELDS: &str = "the fields are minute, hour, day of the month, month, day of the week";

/// The first field of a cron schedule with an impossible number.
fn out_of_range(schedule: &str) -> Option<String> {
    const FIELDS: [(&str, u32, u32); 5] =
        [("minute", 0, 59), ("hour", 0, 23), ("day of the month", 1, 31), ("month", 1, 12), ("day of the week", 0, 7)];
    let parts: Vec<&str> = schedule.split(' ').collect();
    if parts.len() != 5 || !parts.contains(&"*") {
        return None;
    }
    parts.iter().zip(FIELDS).find_map(|(part, (name, low, high))| {
        let mut numbers = part.split(['/', ',', '-']).enumerate();
        // The number after a slash is a step.
        let steps = part.contains('/');
        numbers
            .find_map(|(_, text)| text.parse::<u32>().ok().filter(|number| !(low..=high).contains(number) && !steps))
            .map(|number| format!("the {name} of a schedule is never {number}"))
    })
}

/// The JSON files that setup writes, with their paths.
pub fn written(view: &TaskView<'_>) -> Vec<(String, serde_json::Value)> {
    let mut found = Vec::new();
    let setup = view.effects.scripts.iter().filter(|followed| followed.view.phase == PhaseKind::Setup);
    for run in setup.flat_map(|followed| &followed.trace.runs) {
        let (Some(path), Some(text)) =
            (run.output.as_ref().and_then(Value::literal), run.input.as_ref().and_then(Value::literal))
        else {
            continue;
        };
        found.extend(serde_json::from_str(text).ok().map(|json| (path.to_owned(), json)));
    }
    view.task.setup.steps.iter().for_each(|step| {
        step.walk(&mut |step| {
            let file = matches!(step.op.kind, OperationKind::Builtin("file"));
            let text = |key| step.arg(key).filter(|_| file).and_then(|arg| arg.as_literal());
            if let (Some(path), Some(content)) = (text("path"), text("content")) {
                found.extend(serde_json::from_str(content).ok().map(|json| (path.to_owned(), json)));
            }
        });
    });
    found
}
