//! Clients of databases that look elsewhere than setup, or do not use what they are given.

use crate::{
    bash::tools,
    diagnostic::{Diagnostic, Diagnostics},
    effects::{Verb, shell::Run, value::Value},
    hir::PhaseKind,
    lint::{
        TaskView,
        analysis::{checked_resource, texts},
        cleanup::foreign_deletions::DELETES_FOREIGN_RESOURCE,
        resources::elsewhere::UNKNOWN_RESOURCE,
    },
    source::{Span, resolve},
};

/// `psql -d postgres -c "SELECT … events_old"`, where setup creates this table in another database.
pub fn databases(view: &TaskView<'_>, out: &mut Diagnostics) {
    let of = |phase| checked_resource::runs(view, phase).filter(|run| run.statement.tool() == "psql");
    let mut asked = of(PhaseKind::Verify).filter_map(|run| Some((run, database(run)?))).peekable();
    if asked.peek().is_none() {
        return;
    }
    // The tables that setup creates, each with its database.
    let mut made: Vec<(String, Value, Span)> = Vec::new();
    for run in of(PhaseKind::Setup) {
        let Some(database) = database(run) else { continue };
        let place = checked_resource::place(run);
        let acts = view.effects.in_phase(PhaseKind::Setup).filter(|act| {
            act.verb == Verb::Creates
                && matches!(act.thing.kind.as_str(), "table" | "view")
                && act.span.file == place.file
                && act.span.start == place.start
        });
        made.extend(
            acts.filter_map(|act| Some((act.thing.name.as_ref()?.literal()?.to_owned(), database.clone(), place))),
        );
    }
    if made.is_empty() {
        return;
    }
    let said = view.effects.prompt.shown();
    let mut told: Vec<Span> = Vec::new();
    for (run, database) in asked {
        let (text, place) = (sql(run), checked_resource::place(run));
        let Some(name) = database.literal() else { continue };
        let is_elsewhere = |(table, own, _): &&(String, Value, Span)| {
            texts::has_word(&text, table)
                && !made.iter().any(|(other, own, _)| other == table && own.may_be(&database))
                && own.is_known()
        };
        let Some((table, own, created)) = made.iter().find(is_elsewhere) else { continue };
        if !texts::has_word(&said, name) && !text.contains("pg_database") && !told.contains(&place) {
            told.push(place);
            out.push(
                Diagnostic::new(
                    &UNKNOWN_RESOURCE,
                    place,
                    format!(
                        "this looks for `{table}` in the database `{name}`, and setup creates it in `{}`",
                        own.shown()
                    ),
                )
                .label(*created, "created here")
                .help("use the same database"),
            );
        }
    }
}

/// The database that `psql` connects to, if an option names it.
fn database(run: &Run<'_>) -> Option<Value> {
    let mut words = run.words.iter().skip(1);
    while let Some(word) = words.next() {
        let text = word.literal().unwrap_or_default();
        match text {
            "-d" | "--dbname" => return words.next().filter(|value| !value.shown().contains(['/', '='])).cloned(),
            _ if text.starts_with("--dbname=") => return text.split_once('=').map(|(_, name)| Value::text(name)),
            _ if tools::tool("psql").is_some_and(|tool| tool.values.iter().any(|option| option == text)) => {
                words.next();
            }
            _ => {}
        }
    }
    None
}

/// The statements of a client, as far as they are in its words and its input.
fn sql(run: &Run<'_>) -> String {
    let mut text = checked_resource::words(run);
    text.push('\n');
    text.extend(run.input.as_ref().map(Value::shown));
    text
}

/// `psql -v schema=shop_1 -c 'DROP SCHEMA shop'`: the variable is not used, as if the name had been written in its place.
pub fn variables(view: &TaskView<'_>, phase: PhaseKind, out: &mut Diagnostics) {
    for script in view.effects.scripts.iter().filter(|script| script.view.phase == phase) {
        if !script.view.content.text.contains("psql") {
            continue;
        }
        for run in script.trace.runs.iter().filter(|run| run.statement.tool() == "psql") {
            let Some(text) = statements(view, run, script.view.dir.as_deref()) else { continue };
            let unused = set_variables(run).into_iter().find(|name| {
                let forms = [format!(":{name}"), format!(":\"{name}\""), format!(":'{name}'"), format!(":{{?{name}}}")];
                !forms.iter().any(|form| text.contains(form))
            });
            let Some(name) = unused else { continue };
            let rule = if phase == PhaseKind::Cleanup { &DELETES_FOREIGN_RESOURCE } else { &UNKNOWN_RESOURCE };
            let place = checked_resource::place(run);
            let end = run
                .content
                .text
                .get(run.statement.range.clone())
                .map_or(0, |text| text.find('\n').unwrap_or(text.len()));
            let first = run.content.span(run.statement.range.start..run.statement.range.start + end);
            if !crate::lint::resources::elsewhere::out_has(out, place) {
                out.push(
                    Diagnostic::new(
                        rule,
                        first,
                        format!("these statements do not use the variable `{name}` that they are given"),
                    )
                    .help(format!("write `:\"{name}\"` for the name, as in the other scripts; or remove the variable")),
                );
            }
        }
    }
}

/// The variables that `-v NAME=VALUE` sets, without those of psql itself.
fn set_variables(run: &Run<'_>) -> Vec<String> {
    let words: Vec<String> = run.words.iter().map(Value::shown).collect();
    let behind = words
        .windows(2)
        .filter(|pair| matches!(pair[0].as_str(), "-v" | "--set" | "--variable"))
        .map(|pair| pair[1].as_str());
    let joined =
        words.iter().filter_map(|word| ["--set=", "--variable="].iter().find_map(|head| word.strip_prefix(head)));
    let names = behind.chain(joined).filter_map(|pair| Some(pair.split_once('=')?.0.to_owned()));
    names.filter(|name| !name.is_empty() && name.bytes().any(|b| b.is_ascii_lowercase())).collect()
}

/// The statements of a `psql`, also in a file. `None` if they are not known.
fn statements(view: &TaskView<'_>, run: &Run<'_>, dir: Option<&std::path::Path>) -> Option<String> {
    let words: Vec<&str> = run.words.iter().map(|word| word.literal().unwrap_or("\u{1a}")).collect();
    let mut text = String::new();
    let mut known = run.input.as_ref().is_some_and(Value::is_known);
    text.extend(run.input.as_ref().map(Value::shown));
    for (nth, pair) in words.windows(2).enumerate() {
        match pair[0] {
            "-c" | "--command" => {
                let statement = run.words.get(nth + 1).filter(|word| word.is_known())?;
                text.push_str(&statement.shown());
                known = true;
            }
            "-f" | "--file" => {
                let file = view.files.read(&resolve(dir.unwrap_or(&view.task.dir), pair[1])).ok()?;
                let file = String::from_utf8(file).ok()?;
                // It may include others.
                if file.contains("\\i") {
                    return None;
                }
                text.push_str(&file);
                known = true;
            }
            _ => {}
        }
    }
    (known && !text.contains("\\i ")).then_some(text)
}

/// The options of clients that select where they work, or that are variables of their statements.
const PLACES: [(&str, &[&str]); 9] = [
    ("psql", &["-d", "--dbname", "-h", "--host", "-p", "--port"]),
    ("mysql", &["-D", "--database", "-h", "--host", "-P", "--port"]),
    ("redis-cli", &["-n", "-h", "-p", "-u"]),
    ("aws", &["--region", "--profile", "--endpoint-url"]),
    ("gcloud", &["--project", "--region", "--zone"]),
    ("gh", &["-R", "--repo"]),
    ("az", &["-g", "--resource-group"]),
    ("helm", &["--kube-context"]),
    ("kubectl", &["--context", "--kubeconfig"]),
];

/// The options of a client with their values, and the variables that it is given.
fn places<'r>(run: &'r Run<'_>) -> Vec<(String, &'r Value)> {
    let Some((client, options)) = PLACES.iter().find(|(client, _)| *client == run.statement.tool()) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for pair in run.words.windows(2) {
        let Some(option) = pair[0].literal() else { continue };
        if options.contains(&option) && pair[1].is_known() && !pair[1].shown().starts_with('-') {
            found.push((format!("{client} {option}"), &pair[1]));
        }
        if let Some((name, _)) = pair[1].shown().split_once('=').filter(|_| *client == "psql" && option == "-v")
            && name.bytes().any(|b| b.is_ascii_lowercase())
            && pair[1].is_known()
        {
            found.push((format!("{client} -v {name}="), &pair[1]));
        }
    }
    found
}

/// `psql -v schema=shop` in cleanup, where setup and verify pass `schema=shop_1`.
pub fn outliers(view: &TaskView<'_>, phase: PhaseKind, out: &mut Diagnostics) {
    let is_client = |run: &&Run<'_>| PLACES.iter().any(|(client, _)| *client == run.statement.tool());
    let mut own = checked_resource::runs(view, phase).filter(is_client).peekable();
    if own.peek().is_none() {
        return;
    }
    let others: Vec<(String, &Value)> = PhaseKind::ALL
        .into_iter()
        .filter(|other| *other != phase)
        .flat_map(|other| checked_resource::runs(view, other).filter(is_client))
        .flat_map(|run| places(run))
        .collect();
    let said = view.effects.prompt.shown();
    let own: Vec<&Run<'_>> = own.collect();
    for run in &own {
        for (option, value) in places(run) {
            let same: Vec<&Value> =
                others.iter().filter(|(known, _)| *known == option).map(|(_, value)| *value).collect();
            let Some(usual) = same.first().filter(|first| same.len() > 1 && same.iter().all(|other| other.is(first)))
            else {
                continue;
            };
            let shown = value.shown();
            let bare = shown.rsplit('=').next().unwrap_or(&shown);
            // The whole phase may be elsewhere on purpose.
            let is_usual =
                own.iter().any(|run| places(run).iter().any(|(known, value)| *known == option && value.is(usual)));
            let is_alone = own.len() == 1 || is_usual;
            let place = checked_resource::place(run);
            // `shop` is also an ordinary word.
            let is_plain = bare.bytes().all(|b| b.is_ascii_lowercase());
            let is_number = bare.bytes().all(|b| b.is_ascii_digit());
            let is_said = match is_plain {
                _ if is_number => ["database ", "db ", "port ", ":"].iter().any(|lead| {
                    said.match_indices(&format!("{lead}{bare}"))
                        .any(|(at, found)| !said[at + found.len()..].starts_with(|c: char| c.is_ascii_digit()))
                }),
                true => {
                    [format!("`{bare}`"), format!("\"{bare}\"")].iter().any(|quoted| said.contains(quoted))
                        || ["database", "schema"].iter().any(|kind| texts::has_word(&said, &format!("{kind} {bare}")))
                }
                false => said.contains(bare),
            };
            // Databases that every server has.
            let is_common = matches!(bare, "postgres" | "template1" | "mysql" | "default");
            if value.may_be(usual)
                || is_common
                || is_said
                || !is_alone
                || crate::lint::resources::elsewhere::out_has(out, place)
            {
                continue;
            }
            let rule = if phase == PhaseKind::Cleanup { &DELETES_FOREIGN_RESOURCE } else { &UNKNOWN_RESOURCE };
            let option = option.trim_end_matches('=').split(' ').nth(1).unwrap_or_default().to_owned();
            out.push(
                Diagnostic::new(
                    rule,
                    place,
                    format!("`{option} {shown}` is used only here: everywhere else, it is `{}`", usual.shown()),
                )
                .help("use the same value in all scripts"),
            );
            return;
        }
    }
}

/// `redis-cli FLUSHDB`, where the task makes keys of its own on a server that others use as well.
pub fn flushes(view: &TaskView<'_>, out: &mut Diagnostics) {
    const OWN: [&str; 6] = ["docker", "podman", "kubectl", "redis-server", "valkey-server", "compose"];
    let flushes = |run: &Run<'_>| {
        matches!(run.statement.name(), "redis-cli" | "valkey-cli")
            && run
                .words
                .iter()
                .filter_map(Value::literal)
                .any(|word| word.eq_ignore_ascii_case("flushdb") || word.eq_ignore_ascii_case("flushall"))
    };
    for phase in [PhaseKind::Setup, PhaseKind::Cleanup] {
        for run in checked_resource::runs(view, phase).filter(|run| flushes(run)) {
            let words: Vec<String> = run.words.iter().map(Value::shown).collect();
            // A database with a number of its own.
            let numbered = words.windows(2).any(|pair| pair[0] == "-n" && pair[1] != "0");
            let rest = &crate::lint::analysis::facts::elsewhere(view).rest;
            let is_own = OWN.iter().any(|word| rest.contains(word))
                || view.task.env.iter().any(|(_, value)| texts::written(value).contains("{random.port}"));
            let makes_own = view.effects.in_phase(PhaseKind::Setup).any(|act| {
                act.thing.system == "redis"
                    && act.verb == Verb::Creates
                    && act.thing.name.as_ref().is_some_and(|name| name.shown().contains("{random."))
            });
            if makes_own && !numbered && !is_own {
                out.push(
                    Diagnostic::new(
                        &DELETES_FOREIGN_RESOURCE,
                        checked_resource::place(run),
                        "this deletes every key of the server, including those of tasks that run at the same time",
                    )
                    .help("delete by name what the task created: `DEL …`"),
                );
            }
        }
    }
}
