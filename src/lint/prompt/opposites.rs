//! Verify expects the opposite of the prompt in a form that a table explains: columns of the system catalog, verbs of RBAC,
//! ranges of commits, `once`, probes; and a request that sends its own address as a token.

use crate::{
    ascii::{Ascii, ascii},
    diagnostic::{Diagnostic, Diagnostics},
    effects::asked::{Demand, Form},
    hir::{Arg, ArgKind, Def, OperationKind, PhaseKind, Step, Target},
    lint::{
        TaskView,
        analysis::{facts, texts},
        prompt::{disagrees::PROMPT_DISAGREES, wrong_state::WRONG_STATE},
        resources::odd_word::ODD_WORD,
    },
    source::Span,
};

/// A command line of verify and the whole output that it must have.
struct Check {
    command: String,
    wanted: String,
    span: Span,
}

/// Returns the commands of verify whose output is compared with a literal.
fn checks(view: &TaskView<'_>, needle: &str) -> Vec<Check> {
    let mut found = Vec::new();
    view.task.verify.steps.iter().for_each(|step| {
        step.walk(&mut |step| {
            let Some(command) = texts::script(step).filter(|text| text.contains(needle)) else { return };
            let stdout = step.expect.as_ref().and_then(|(_, expect)| expect.get("stdout"));
            let wanted = stdout.map(|out| out.get("equals").unwrap_or(out));
            if let Some((arg, text)) = wanted.and_then(|arg| Some((arg, arg.as_literal()?))) {
                found.push(Check { command, wanted: text.to_owned(), span: arg.span });
            }
        });
    });
    for question in view.asked() {
        let (Some(run), Demand::Compared { operator, with }) = (question.runs.first(), &question.demand) else {
            continue;
        };
        let command: Vec<String> = run.words.iter().map(crate::effects::value::Value::shown).collect();
        let command = command.join(" ");
        if matches!(operator.as_str(), "=" | "==")
            && command.contains(needle)
            && question.runs.len() == 1
            && question.is_wanted() == Some(true)
        {
            found.push(Check { command, wanted: with.clone(), span: question.span });
        }
    }
    found
}

/// A column or a function of SQL, the printed value that means the opposite of a property, and how prompts ask for the
/// property and for its absence.
struct Column {
    name: &'static str,
    opposite: &'static [&'static str],
    asks: &'static Ascii,
    refuses: &'static Ascii,
    means: &'static str,
}

static UNIQUE: Ascii = ascii(r"(?i)\bunique\b");
static NOT_UNIQUE: Ascii = ascii(r"(?i)\b(?:non|not|no longer|longer be|drop|remove)\b[^.\n]{0,30}\bunique\b");
static NOT_NULL: Ascii = ascii(r"(?i)\bnot[ -]null\b|\bmandatory\b");
static NULL: Ascii =
    ascii(r"(?i)\bnullable\b|\ballow\w* null|\bmay be null|\boptional\b|\b(?:drop|remove)\b[^.\n]{0,30}\bnull");
static READ_ONLY: Ascii = ascii(
    r"(?i)\bread[ -]?only\b|\b(?:must|may|can|should)(?: not|not)\b[^.\n]{0,30}\b(?:write|change|modify|insert|update|delete)\b",
);
static WRITABLE: Ascii = ascii(
    r"(?i)\b(?:may|can|must|should) (?:also )?(?:write|insert|update|delete|modify)\b|\bread[- /]?write\b|\b(?:write|full) access\b|\bgrant\w*\b[^.\n]*\b(?:insert|update|delete|write|all)\b",
);
static LOGIN: Ascii = ascii(r"(?i)\blogin role\b|\b(?:can|may|must be able to) log ?in\b");
static NO_LOGIN: Ascii = ascii(r"(?i)\bnologin\b|\b(?:cannot|not|no longer|without)\b[^.\n]{0,20}\blog ?in\b");

const COLUMNS: [Column; 6] = [
    Column { name: "non_unique", opposite: &["1"], asks: &UNIQUE, refuses: &NOT_UNIQUE, means: "not unique" },
    Column { name: "indisunique", opposite: &["f", "false"], asks: &UNIQUE, refuses: &NOT_UNIQUE, means: "not unique" },
    Column { name: "is_nullable", opposite: &["YES"], asks: &NOT_NULL, refuses: &NULL, means: "that null is allowed" },
    Column {
        name: "attnotnull",
        opposite: &["f", "false"],
        asks: &NOT_NULL,
        refuses: &NULL,
        means: "that null is allowed",
    },
    Column {
        name: "has_table_privilege",
        opposite: &["t", "true"],
        asks: &READ_ONLY,
        refuses: &WRITABLE,
        means: "that the role may write",
    },
    Column {
        name: "rolcanlogin",
        opposite: &["f", "false"],
        asks: &LOGIN,
        refuses: &NO_LOGIN,
        means: "that the role cannot log in",
    },
];

static SELECT: Ascii = ascii(r"(?i)\bselect\s+");
static FROM: Ascii = ascii(r"(?i)^from\b");
static WRITES: Ascii = ascii(r"(?i)'[^']*\b(?:insert|update|delete|truncate)\b[^']*'\s*\)$");

/// `SELECT non_unique …` must print `1`, and the prompt asks for a unique index.
fn columns(view: &TaskView<'_>, said: &str, out: &mut Diagnostics) {
    let verify = &crate::lint::analysis::facts::elsewhere(view).verify;
    let named = COLUMNS.iter().filter(|column| verify.contains(column.name));
    let wanted = named.filter(|column| column.asks.is_match(said) && !column.refuses.is_match(said));
    for column in wanted {
        for check in checks(view, column.name) {
            let Some(nth) = place(&check.command, column.name) else { continue };
            let row: Vec<&str> = check.wanted.trim().split(['|', '\t']).collect();
            let value = row.get(nth).map_or("", |value| value.trim());
            if column.opposite.contains(&value) && row.len() == selected(&check.command).len() {
                let message = format!("`{value}` at `{}` means {}", column.name, column.means);
                out.push(
                    Diagnostic::new(&WRONG_STATE, check.span, message)
                        .help("check for the state that the agent must bring about"),
                );
            }
        }
    }
}

/// The index of the only selected column that this name begins.
fn place(command: &str, name: &str) -> Option<usize> {
    let columns = selected(command);
    let is_it = |column: &&str| {
        let own =
            column.rsplit_once('.').map_or(*column, |(table, own)| if table.contains('(') { column } else { own });
        own.strip_prefix(name).is_some_and(|rest| match name {
            "has_table_privilege" => rest.starts_with('(') && WRITES.is_match(column),
            _ => rest.is_empty() || rest.trim_start().to_ascii_lowercase().starts_with("as "),
        })
    };
    let mut places = columns.iter().enumerate().filter(|(_, column)| is_it(column));
    places.next().filter(|_| places.next().is_none()).map(|(nth, _)| nth)
}

/// The columns of the only `SELECT` of a command; empty if there are several.
fn selected(command: &str) -> Vec<&str> {
    let mut begins = SELECT.find_iter(command);
    let (Some(begin), None) = (begins.next(), begins.next()) else { return Vec::new() };
    let rest = &command[begin.end()..];
    let (mut depth, mut quoted, mut start, mut found) = (0_usize, false, 0, Vec::new());
    for (at, c) in rest.char_indices() {
        match c {
            '\'' => quoted = !quoted,
            _ if quoted => {}
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            '"' | ';' if depth == 0 => {
                found.push(rest[start..at].trim());
                return found;
            }
            ',' if depth == 0 => {
                found.push(rest[start..at].trim());
                start = at + 1;
            }
            'f' | 'F' if depth == 0 && rest[..at].ends_with(char::is_whitespace) && FROM.is_match(&rest[at..]) => {
                found.push(rest[start..at].trim());
                return found;
            }
            _ => {}
        }
    }
    found.push(rest[start..].trim());
    found
}

/// The verbs of RBAC.
const VERBS: [&str; 7] = ["get", "list", "watch", "create", "update", "patch", "delete"];
/// Words that stand for several of these verbs, or for one of them.
static MANY: Ascii = ascii(
    r"(?i)\b(?:all|any|anything|everything|full|manage\w*|admin\w*|edit\w*|writ(?:e|ing)|modif\w*|remov\w*|chang\w*|maintain\w*|control\w*|read\w*|view\w*|every|CRUD|scal\w*|restart\w*|dele?t\w*|creat\w*|updat\w*)\b|\*",
);
/// Words for verbs that change nothing.
const LOOKS: [&str; 4] = ["read", "reading", "view", "viewing"];
static CAN: Ascii = ascii(r"\bauth can-i\s+([a-z]+)\s+([a-z]+)");

/// `kubectl auth can-i delete` must succeed, and the prompt says that the account must not be able to delete.
fn forbidden(view: &TaskView<'_>, said: &str, out: &mut Diagnostics) {
    if !FORBIDDEN.is_match(said) {
        return;
    }
    for run in crate::lint::analysis::checked_resource::runs(view, PhaseKind::Verify)
        .filter(|run| run.statement.tool() == "kubectl")
    {
        let words: Vec<&str> = run.words.iter().map(|word| word.literal().unwrap_or_default()).collect();
        let Some(at) = words.iter().position(|word| *word == "can-i") else { continue };
        let verb = words.get(at + 1).copied().filter(|verb| VERBS.contains(verb)).unwrap_or_default();
        let places: Vec<usize> = said.match_indices(verb).map(|(at, _)| at).collect();
        let is_forbidden =
            |at: &usize| FORBIDDEN.find_iter(&said[..*at + verb.len()]).any(|m| m.end() == *at + verb.len());
        let (succeeded, failed) = crate::bash::flow::outcomes(&run.content.program, &run.statement.range);
        if !verb.is_empty() && places.len() == 1 && places.iter().all(is_forbidden) && succeeded.zero && !failed.zero {
            let message = format!("verify expects that `{verb}` is allowed, but the prompt forbids it");
            out.push(
                Diagnostic::new(&PROMPT_DISAGREES, crate::lint::analysis::checked_resource::place(run), message)
                    .help("fail if the command succeeds: `if kubectl auth can-i …; then exit 1; fi`"),
            );
        }
    }
}

/// What an account must not do.
static FORBIDDEN: Ascii = ascii(
    r"(?i)\b(?:must not|may not|should not|cannot|must never|not) (?:be (?:able|allowed) to )?(?:get|list|watch|create|update|patch|delete)\b",
);

/// `kubectl auth can-i delete …` must print `yes`, and the prompt lists other verbs.
fn granted(view: &TaskView<'_>, said: &str, out: &mut Diagnostics) {
    forbidden(view, said, out);
    let is_named = |verb: &str| texts::has_word(said, verb);
    if VERBS.iter().filter(|verb| is_named(verb)).count() < 2 {
        return;
    }
    let mut all: Vec<(String, String, Span)> = Vec::new();
    for check in checks(view, "auth can-i").iter().filter(|check| check.wanted.trim() == "yes") {
        all.extend(CAN.captures(&check.command).map(|found| (found[1].to_owned(), found[2].to_owned(), check.span)));
    }
    view.task.verify.steps.iter().for_each(|step| {
        step.walk(&mut |step| {
            let is_question =
                matches!(&step.op.kind, OperationKind::Extension { operation, .. } if operation == "can-i");
            let text = |key: &str| step.arg(key).and_then(Arg::as_literal);
            let is_allowed = step.arg("allowed").is_none_or(|allowed| matches!(allowed.kind, ArgKind::Bool(true)));
            if let (true, true, Some(verb), Some(resource)) = (is_question, is_allowed, text("verb"), text("resource"))
            {
                all.push((verb.to_owned(), resource.to_owned(), step.key));
            }
        });
    });
    if all.is_empty() {
        return;
    }
    let setup = of_setup(view);
    for (verb, resource, span) in &all {
        let (verb, resource) = (verb.as_str(), resource.trim_end_matches('s'));
        // `secrets` in a prompt that allows what it lists and nothing else.
        let names = |part: &str| said.to_lowercase().contains(part);
        let is_told = resource.split('/').all(|part| names(part.trim_end_matches('s')));
        let is_other = resource.len() > 3 && !is_told && !setup.contains(resource);
        if VERBS.contains(&verb) && is_other && NOTHING_ELSE.is_match(said) {
            let message = format!(
                "verify expects that `{verb}` of `{resource}s` is allowed, but the prompt allows nothing else than it lists"
            );
            out.push(
                Diagnostic::new(&PROMPT_DISAGREES, *span, message)
                    .help("expect `no`, with exit status 1, or `allowed: false`"),
            );
            continue;
        }
        if !VERBS.contains(&verb) || is_named(verb) || setup.contains(verb) {
            continue;
        }
        // The line or the sentence that grants the rights lists these verbs and contains no word for several of them.
        let several = |text: &&str| VERBS.iter().filter(|verb| texts::has_word(text, verb)).count() > 1;
        let around = said.match_indices(resource).filter_map(|(at, _)| {
            let line = said[..at].rfind('\n').map_or(0, |end| end + 1);
            let line = said.get(line..).and_then(|rest| rest.lines().next()).filter(several);
            line.or_else(|| Some(&said[texts::sentence(said, at)]).filter(several))
        });
        let lists: Vec<&str> = around.collect();
        let looks = VERBS[..3].contains(&verb);
        if !lists.is_empty() && lists.iter().all(|text| !MANY.is_match(&without_verbs(text, looks))) {
            let message = format!("verify expects that `{verb}` is allowed, but the prompt grants other verbs only");
            out.push(
                Diagnostic::new(&PROMPT_DISAGREES, *span, message)
                    .help("expect `no`, with exit status 1, or name the verb in the prompt"),
            );
        }
    }
}

static NOTHING_ELSE: Ascii = ascii(
    r"(?i)\b(?:nothing (?:else|more)|no (?:more|other)|not \w+ any other|not any other|but not more|only these|read-only|only read)\b",
);

/// The texts of setup, and of the files that it names.
fn of_setup(view: &TaskView<'_>) -> String {
    let mut all = crate::lint::analysis::facts::data(view).to_owned();
    let mut push = |text: &str| {
        all.push_str(text);
        all.push('\n');
    };
    view.task.walk(&mut |phase, step| {
        if phase == PhaseKind::Setup {
            step.templates(&mut |template| push(&texts::written(template)));
        }
    });
    view.scripts.iter().filter(|s| s.phase == PhaseKind::Setup).for_each(|script| push(&script.content.text));
    all
}

/// A text without the verbs of RBAC.
fn without_verbs(text: &str, looks: bool) -> String {
    let word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '*' | '\'');
    let is_other = |word: &&str| !VERBS.contains(word) && (looks || !LOOKS.contains(word));
    text.split(|c| !word(c)).filter(is_other).collect::<Vec<_>>().join(" ")
}

static PICKS: Ascii = ascii(
    r"(?i)\b(?:cherry-?pick\w*|backport\w*)\b[^;]{0,120}?\b(?:on ?to|to|into)\s+(?:the )?(?:branch )?[`']?([A-Za-z0-9][\w./-]*\w)",
);
static RANGE: Ascii =
    ascii(r#"\b(?:log|rev-list|shortlog)\b[^|;&\n]*?[\s"']([A-Za-z0-9][\w./-]*?\w)\.\.([A-Za-z0-9][\w./-]*)"#);

/// `git log release..main` after commits have been picked onto `release`: it lists what `release` lacks.
fn ranges(view: &TaskView<'_>, said: &str, out: &mut Diagnostics) {
    let targets: Vec<&str> = PICKS.captures_iter(said).filter_map(|found| Some(found.get(1)?.as_str())).collect();
    let [target] = targets.as_slice() else { return };
    let all = checks(view, "..");
    for check in &all {
        let Some(found) = RANGE.captures(&check.command) else { continue };
        let (from, to) = (&found[1], &found[2]);
        let reversed = format!("{to}..{from}");
        let both = all.iter().any(|other| other.command.contains(&reversed));
        if !both && from == *target && texts::has_word(said, to) && !matches!(check.wanted.trim(), "" | "0") {
            let message = format!("`{from}..{to}` lists the commits of `{to}` that `{from}` does not contain");
            out.push(
                Diagnostic::new(&WRONG_STATE, check.span, message)
                    .help(format!("the commits added to `{from}` are `{to}..{from}`")),
            );
        }
    }
}

static ONCE: Ascii = ascii(r"(?i)\b(?:only once|once only|exactly once|just once|not more than once)\b");

/// `Book once only`, and verify counts 2 lines.
fn once(view: &TaskView<'_>, said: &str, out: &mut Diagnostics) {
    let counts: Vec<_> = view
        .asked()
        .iter()
        .filter(|question| {
            let last = question.runs.last().map(|run| run.statement.name());
            question.form == Form::Count || last == Some("wc")
        })
        .collect();
    let [question] = counts.as_slice() else { return };
    let Demand::Compared { operator, with } = &question.demand else { return };
    let Some(number) = with.trim().parse::<u64>().ok().filter(|number| *number > 1) else { return };
    if ONCE.find_iter(said).count() != 1 {
        return;
    }
    let words = ["", "one", "two", "three", "four", "five", "six"];
    let spelt = usize::try_from(number).ok().and_then(|number| words.get(number));
    let named = texts::has_word(said, &number.to_string()) || spelt.is_some_and(|word| texts::has_word(said, word));
    if matches!(operator.as_str(), "=" | "==" | "-eq") && question.is_wanted() == Some(true) && !named {
        out.push(
            Diagnostic::new(
                &PROMPT_DISAGREES,
                question.span,
                format!("verify counts {number}, but the prompt asks for this once only"),
            )
            .help("expect 1, unless setup has already added the others"),
        );
    }
}

static SECRET_HEADER: Ascii = ascii(r"(?i)(?:token|authorization|api-?key|secret)$");
static ADDRESS: Ascii = ascii(r"(?:^|_)(?:URL|URI|HOST|HOSTNAME|ENDPOINT|ADDR|ADDRESS|SERVER_URL|BASE_URL)$");

/// `PRIVATE-TOKEN: "{env.GITLAB_URL}"`: the address of the request as its token.
pub fn tokens(view: &TaskView<'_>, out: &mut Diagnostics) {
    view.task.walk(&mut |_, step| {
        let (Some(ArgKind::Record(headers)), Some(url)) = (step.arg("headers").map(|h| &h.kind), step.arg("url"))
        else {
            return;
        };
        let addresses = variables(url);
        for (name, value) in headers.iter().filter(|(name, _)| SECRET_HEADER.is_match(&name.value)) {
            let used = variables(value);
            if let [variable] = used.as_slice()
                && ADDRESS.is_match(variable)
                && addresses.contains(variable)
            {
                let message = format!("`{variable}` is the address of this request, not a value for `{}`", name.value);
                out.push(
                    Diagnostic::new(&ODD_WORD, value.span, message)
                        .help("use the variable that contains the token, as in the other requests"),
                );
            }
        }
    });
}

/// The variables of the task and of the environment in an argument.
fn variables(arg: &Arg<Def>) -> Vec<&str> {
    let ArgKind::Text(template) = &arg.kind else { return Vec::new() };
    let names = template.holes().filter_map(|hole| match &hole.reference.target {
        Target::TaskEnv(name) | Target::ProcessEnv(name) => Some(name.as_str()),
        _ => None,
    });
    names.collect()
}

/// The maximum number of paths in a step: each is compared with all others.
const PATHS: usize = 64;

/// `$.panels` beside `$.dashboard.panels[0]` and other paths that begin with `$.dashboard`.
pub fn paths(view: &TaskView<'_>, out: &mut Diagnostics) {
    view.task.verify.steps.iter().for_each(|step| step.walk(&mut |step| outlier(step, out)));
}

fn outlier(step: &Step<Def>, out: &mut Diagnostics) {
    if !matches!(step.op.kind, OperationKind::Builtin("http") | OperationKind::Tool { .. }) {
        return;
    }
    let Some((_, expect)) = &step.expect else { return };
    let mut all: Vec<(&str, Span)> = Vec::new();
    collect(expect, &mut all);
    for (path, span) in all.iter().filter(|_| (3..=PATHS).contains(&all.len())) {
        let own = first_name(path);
        let mut others = all.iter().filter(|(_, other)| other != span).map(|(path, _)| *path);
        let Some(root) = others.clone().next().map(first_name).filter(|root| *root != own && !root.is_empty()) else {
            continue;
        };
        let inside = |path: &str| path.strip_prefix(root).and_then(|rest| rest.strip_prefix('.')).map(str::to_owned);
        // The field contains others there: `name` may well be the name of two objects.
        let contains = |path: &str| {
            inside(path).is_some_and(|rest| rest.strip_prefix(own).is_some_and(|rest| rest.starts_with(['.', '['])))
        };
        if !own.is_empty() && others.clone().any(contains) && others.all(|path| inside(path).is_some()) {
            let message =
                format!("`{own}` is at the top level here, and below `{root}` in the other paths of this step");
            out.push(Diagnostic::new(&ODD_WORD, *span, message).help(format!("did you mean `{root}.{own}`?")));
        }
    }
}

/// The name at the beginning of a path.
fn first_name(path: &str) -> &str {
    path.split(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))).next().unwrap_or_default()
}

/// Adds every path in an expectation that is not required to be missing, without its root.
fn collect<'a>(arg: &'a Arg<Def>, found: &mut Vec<(&'a str, Span)>) {
    match &arg.kind {
        ArgKind::Record(fields) => {
            let absent = arg.get("exists").is_some_and(|exists| matches!(exists.kind, ArgKind::Bool(false)));
            if let Some(path) = arg.get("path").filter(|_| !absent)
                && let Some(text) = path.as_literal()
            {
                found.push((text.trim_start_matches('$').trim_start_matches('.'), path.span));
            }
            fields.iter().for_each(|(_, arg)| collect(arg, found));
        }
        ArgKind::List(items) => items.iter().for_each(|arg| collect(arg, found)),
        _ => {}
    }
}

/// Reports checks for the opposite of a property that the prompt asks for.
pub fn states(view: &TaskView<'_>, out: &mut Diagnostics) {
    if view.task.prompt.is_none() {
        return;
    }
    let verify = &crate::lint::analysis::facts::elsewhere(view).verify;
    if !verify.contains("..") && !COLUMNS.iter().any(|column| verify.contains(column.name)) {
        return;
    }
    let said = view.effects.prompt.shown().split_whitespace().collect::<Vec<_>>().join(" ");
    columns(view, &said, out);
    ranges(view, &said, out);
}

/// Reports rights and numbers of which the prompt says something else.
pub fn said_otherwise(view: &TaskView<'_>, out: &mut Diagnostics) {
    if view.task.prompt.is_none() {
        return;
    }
    let said = view.effects.prompt.shown();
    granted(view, &said, out);
    once(view, &said, out);
}

/// Whether a step of setup calls a tool of a server with this text as a whole value.
fn given_to_tool(view: &TaskView<'_>, server: &str, text: &str) -> Option<Span> {
    let mut found = None;
    view.task.walk(&mut |phase, step| {
        if phase == PhaseKind::Setup && is_tool(step, server) {
            step.args.iter().for_each(|(_, arg)| value(arg, text, &mut found));
        }
    });
    found
}

fn is_tool(step: &Step<Def>, server: &str) -> bool {
    matches!(&step.op.kind, OperationKind::Tool { server: own, .. } if own == server)
}

fn value(arg: &Arg<Def>, text: &str, found: &mut Option<Span>) {
    match &arg.kind {
        ArgKind::Record(fields) => fields.iter().for_each(|(_, arg)| value(arg, text, found)),
        ArgKind::List(items) => items.iter().for_each(|arg| value(arg, text, found)),
        _ if arg.as_literal() == Some(text) => *found = Some(arg.span),
        _ => {}
    }
}

static KEEPS: Ascii =
    ascii(r"(?i)\b(?:keep|leave|stay|remain|preserve|untouched|unchanged|do not (?:delete|remove|touch))\b");
static QUOTED: Ascii = ascii(r#""([^"\n]{8,80})"|`([^`\n]{8,80})`"#);

/// A call whose answer must contain a text that is among its own arguments and that setup has passed to the same server.
pub fn echoes(view: &TaskView<'_>, out: &mut Diagnostics) {
    if !view.task.setup.steps.iter().any(|step| matches!(step.op.kind, OperationKind::Tool { .. })) {
        return;
    }
    let said = view.effects.prompt.shown();
    let verify = &crate::lint::analysis::facts::elsewhere(view).verify;
    // A text that the prompt gives and nothing checks.
    let lost = QUOTED.captures_iter(&said).any(|found| {
        let text = found.get(1).or_else(|| found.get(2)).map_or("", |text| text.as_str());
        !text.is_empty() && !verify.contains(text)
    });
    view.task.verify.steps.iter().for_each(|step| {
        step.walk(&mut |step| {
            let OperationKind::Tool { server, .. } = &step.op.kind else { return };
            let content = step.expect.as_ref().and_then(|(_, e)| e.get("content").or_else(|| e.get("text")));
            let Some(content) = content else { return };
            let ArgKind::Record(demands) = &content.kind else { return };
            let [(demand, arg)] = demands.as_slice() else { return };
            let Some(text) = arg.as_literal().filter(|text| text.len() > 3) else { return };
            let plain = !text.contains(['\\', '[', '(', '*', '+', '^', '$', '|', '?']);
            let mut own = None;
            step.args.iter().for_each(|(_, arg)| value(arg, text, &mut own));
            let (true, Some(_)) = (matches!(demand.value.as_str(), "match" | "contains" | "matches") && plain, own)
            else {
                return;
            };
            let Some(given) = given_to_tool(view, server, text).filter(|_| lost || !KEEPS.is_match(&said)) else {
                return;
            };
            out.push(
                Diagnostic::new(
                    &crate::lint::initial::already_true::ALREADY_TRUE,
                    arg.span,
                    format!("setup creates `{text}`, and this call asks for it by this name"),
                )
                .label(given, "created here")
                .help("check for a text that is there only after the agent's change"),
            );
        });
    });
}

static REVISION: [&str; 2] = ["version", "revision"];

/// `helm status web … | jq .version` must be at least 3, after one `helm install` and two `helm upgrade` in setup.
pub fn revisions(view: &TaskView<'_>, out: &mut Diagnostics) {
    let runs = |phase| view.effects.scripts.iter().filter(move |s| s.view.phase == phase).flat_map(|s| &s.trace.runs);
    if !runs(PhaseKind::Setup).any(|run| run.statement.tool() == "helm") {
        return;
    }
    for question in view.asked() {
        let (Form::Field(path), Demand::Compared { operator, .. }) = (&question.form, &question.demand) else {
            continue;
        };
        let Some(asked) = question.runs.first().filter(|run| run.statement.tool() == "helm") else { continue };
        let field = path.rsplit('.').next().unwrap_or_default();
        let words: Vec<&str> = asked.words.iter().filter_map(|word| word.literal()).collect();
        let Some(release) = words.iter().position(|word| *word == "status").and_then(|at| words.get(at + 1)) else {
            continue;
        };
        if !REVISION.contains(&field)
            || !matches!(operator.as_str(), "-ge" | "-gt")
            || question.is_wanted() != Some(true)
        {
            continue;
        }
        let makes = |run: &&crate::effects::shell::Run<'_>| {
            let words: Vec<&str> = run.words.iter().filter_map(|word| word.literal()).collect();
            run.statement.tool() == "helm"
                && words.iter().any(|word| matches!(*word, "install" | "upgrade" | "rollback"))
                && words.contains(release)
        };
        let made: Vec<_> = runs(PhaseKind::Setup).filter(makes).collect();
        let count = u32::try_from(made.len()).unwrap_or(u32::MAX);
        if let Some(last) = made.last().filter(|_| made.iter().all(|run| !run.maybe))
            && question.demand.is_met_by(f64::from(count)) == Some(true)
        {
            out.push(
                Diagnostic::new(
                    &crate::lint::initial::already_true::ALREADY_TRUE,
                    question.span,
                    format!("the release has revision {count} before the agent runs"),
                )
                .label(last.content.span(last.statement.range.clone()), "setup creates it here")
                .help("require a later revision"),
            );
        }
    }
}

/// Fields that are easily confused, each with the word for it.
const SIBLINGS: [(&str, &str); 5] = [
    ("livenessProbe", "liveness"),
    ("readinessProbe", "readiness"),
    ("startupProbe", "startup"),
    ("minReplicas", "minimum"),
    ("maxReplicas", "maximum"),
];

/// `.readinessProbe` in verify, where setup and the prompt are about `livenessProbe` only.
pub fn siblings(view: &TaskView<'_>, out: &mut Diagnostics) {
    let texts = facts::elsewhere(view);
    let read = SIBLINGS.iter().filter(|(field, _)| texts.verify.contains(field)).collect::<Vec<_>>();
    let [(field, word)] = read.as_slice() else { return };
    let said = view.effects.prompt.shown();
    let lower = said.to_lowercase();
    let is_told = |field: &str, word: &str| texts.rest.contains(field) || said.contains(field) || lower.contains(word);
    let end = |name: &str| name.trim_start_matches(|c: char| c.is_ascii_lowercase()).to_owned();
    let mut others = SIBLINGS.iter().filter(|(other, _)| other != field && end(other) == end(field));
    let Some((other, _)) = others.find(|(other, word)| is_told(other, word)).filter(|_| !is_told(field, word)) else {
        return;
    };
    for script in view.scripts.iter().filter(|script| script.phase == PhaseKind::Verify) {
        let Some(at) = script.content.text.find(field) else { continue };
        let message = format!("verify reads `{field}`, but the rest of the task only mentions `{other}`");
        let place = script.content.span(at..at + field.len());
        out.push(Diagnostic::new(&PROMPT_DISAGREES, place, message).help("check what the prompt asks for"));
        return;
    }
}
