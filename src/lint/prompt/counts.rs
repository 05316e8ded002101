//! Counts, totals and lines that follow from what setup makes and from the changes that the prompt asks for.

use std::cell::LazyCell;

use crate::{
    ascii::{Ascii, Match, ascii},
    bash::tools,
    diagnostic::{Diagnostic, Diagnostics, Strength},
    effects::{
        self, Verb,
        asked::{self, Demand},
        shell::Run,
        value::Value,
    },
    hir::PhaseKind,
    lint::{
        TaskView,
        analysis::{
            facts,
            orders::{KEEPS, sentence},
            sql_rows::{self, Cell, Query, Selected, Table},
            texts::has_word,
        },
        initial::already_true::ALREADY_TRUE,
        prompt::{
            disagrees::{PROMPT_DISAGREES, disagrees},
            numbers::number,
        },
        shell::{
            answers::{self, Wanted},
            impossible_values::IMPOSSIBLE_VALUE,
        },
    },
    source::Span,
};

/// Verify expects a number, a total or a line that contradicts what setup makes and the prompt changes.
pub fn check(view: &TaskView<'_>, out: &mut Diagnostics) {
    let Some(prompt) = &view.task.prompt else { return };
    let said = view.effects.prompt.shown();
    let mut found: Vec<Fault> = Vec::new();
    let mut wanted = answers::compared(view);
    wanted.retain(|wanted| wanted.is_required && wanted.text.bytes().any(|b| b.is_ascii_digit()));
    let lower = if wanted.is_empty() { String::new() } else { plain(&said) };
    rows(view, &lower, &wanted, &mut found);
    for wanted in &wanted {
        found.extend(things(view, &lower, wanted).or_else(|| issues(view, &lower, wanted)));
        found.extend(objects(view, &said, wanted));
        if let Some((expected, told)) = commits(view, &lower, wanted) {
            out.push(disagrees(wanted.span, &expected, &told, prompt.text.span));
        }
    }
    lines(view, &said, &mut found);
    let mut told: Vec<String> = Vec::new();
    for Fault { span, message, made, help } in found {
        if !told.contains(&message) {
            told.push(message.clone());
            let finding = Diagnostic::new(&PROMPT_DISAGREES, span, message).label(made, "setup makes it here");
            out.push(finding.help(help));
        }
    }
}

/// A prompt in lowercase, without marks in quoted texts.
fn plain(said: &str) -> String {
    QUOTED.replace_all(&said.to_ascii_lowercase(), |quoted| quoted.replace([',', ';', ':', '(', ')'], " ")).into_owned()
}

/// An expectation that setup and the prompt contradict.
struct Fault {
    span: Span,
    message: String,
    /// The place in setup.
    made: Span,
    help: String,
}

/// What a query of a check selects from the tables of setup.
fn query_of(view: &TaskView<'_>, wanted: &Wanted<'_>) -> Option<Query> {
    let (first, others) = wanted.runs.split_first()?;
    let text = effects::sql_of(first, view.tools)?;
    let query = Query::of(text.literal()?).filter(|_| others.iter().all(|run| answers::passes(run)))?;
    let Some(own) = database(first) else { return Some(query) };
    let setup = view.effects.scripts.iter().filter(|script| script.view.phase == PhaseKind::Setup);
    let mut runs = setup.flat_map(|script| &script.trace.runs);
    // A table of the same name in another database.
    let is_same = |run: &Run<'_>| {
        effects::sql_of(run, view.tools).is_some() && database(run).is_none_or(|other| other.may_be(own))
    };
    runs.any(is_same).then_some(query)
}

/// The database that a client is given.
fn database<'r>(run: &'r Run<'_>) -> Option<&'r Value> {
    let name = run.statement.name();
    let is_option = |word: &Value| matches!(word.literal(), Some("-d" | "--dbname" | "-D" | "--database"));
    let after = run.words.iter().position(is_option).and_then(|at| run.words.get(at + 1));
    let words: Vec<&str> = run.words.iter().skip(1).map(|word| word.literal().unwrap_or("…")).collect();
    let operand = || {
        let first = tools::operands(name, &words).next()?;
        run.words.get(words.iter().position(|word| std::ptr::eq(word, first))? + 1)
    };
    match name {
        "psql" | "mysql" | "mariadb" => after.or_else(operand),
        "sqlite3" => operand(),
        _ => None,
    }
}

/// Whether verify changes rows before it counts them.
fn verify_changes(view: &TaskView<'_>) -> bool {
    view.effects.sql.iter().filter(|sql| sql.phase == PhaseKind::Verify).any(|sql| {
        let text = sql.text.shown().to_ascii_lowercase();
        ["insert ", "update ", "delete "].iter().any(|word| text.contains(word))
    })
}

/// Checks of the rows of tables.
fn rows(view: &TaskView<'_>, lower: &str, wanted: &[Wanted<'_>], found: &mut Vec<Fault>) {
    let tables = LazyCell::new(|| sql_rows::tables(view));
    for wanted in wanted {
        let Some(query) = query_of(view, wanted) else { continue };
        let Ok(expected) = wanted.text.parse::<f64>() else { continue };
        if tables.is_empty() || verify_changes(view) {
            return;
        }
        let Some(table) = tables.iter().find(|table| table.name == query.table) else {
            found.extend(sums(lower, &query, &tables, expected, wanted));
            continue;
        };
        let fault = match &query.selected {
            Selected::Count if query.conditions.is_empty() => {
                let subject = Subject::of_table(table, &tables);
                total(lower, &subject, table.rows.len(), wanted, table.span)
            }
            Selected::Columns(columns) => match columns.as_slice() {
                [column] => changed_cell(lower, &query, table, column, expected, wanted),
                _ => None,
            },
            Selected::Sum(column) => unchanged_sum(lower, &query, (table, &tables), column, expected, wanted),
            Selected::Count => None,
        };
        found.extend(fault);
    }
}

/// What is counted, and the words for it.
struct Subject<'t> {
    /// In the singular and in the plural, for messages: ``row of `orders` ``.
    shown: (String, String),
    /// Beginnings of the words for one of them.
    nouns: Vec<String>,
    /// Words for something else.
    others: &'static Ascii,
    more: Vec<String>,
    adds: &'static Ascii,
    removes: &'static Ascii,
    table: Option<&'t Table>,
}

impl<'t> Subject<'t> {
    fn of_table(table: &'t Table, all: &[Table]) -> Self {
        let more = all.iter().filter(|other| other.name != table.name).flat_map(|other| nouns(&other.name)).collect();
        Self {
            shown: (format!("row of `{}`", table.name), format!("rows of `{}`", table.name)),
            nouns: nouns(&table.name),
            others: &OTHERS,
            more,
            adds: &ADDS_ROWS,
            removes: &REMOVES_ROWS,
            table: Some(table),
        }
    }

    /// Whether a text has a word for one or several of these.
    fn is_in(&self, text: &str) -> bool {
        has_any(text, &self.nouns)
    }

    /// Whether a text has a word for something else, but none for these.
    fn is_other(&self, text: &str) -> bool {
        !self.is_in(text) && (self.others.is_match(text) || has_any(text, &self.more))
    }
}

/// The words for a row of a table: `customer` for `customers`.
fn nouns(table: &str) -> Vec<String> {
    let last = table.rsplit('_').next().unwrap_or(table);
    let stem = |word: &str| match word.strip_suffix("ies") {
        Some(stem) => stem.to_owned(),
        None => word.strip_suffix('s').unwrap_or(word).to_owned(),
    };
    let mut found = vec![stem(table)];
    found.extend(Some(stem(last)).filter(|word| *word != found[0]));
    found
}

/// Whether a text has a word with one of these beginnings and an ending of the plural.
fn has_any(text: &str, stems: &[String]) -> bool {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).any(|word| {
        stems.iter().any(|stem| {
            word.strip_prefix(stem.as_str()).is_some_and(|end| matches!(end, "" | "s" | "es" | "y" | "ies"))
        })
    })
}

static OTHERS: Ascii = ascii(
    r"\b(?:tables?|views?|index|indexes|indices|columns?|roles?|users?|schemas?|triggers?|constraints?|databases?|files?|reports?|labels?|branch|branches|tags?|rights?|privileges?|permissions?|keys?|defaults?|fields?|summary|scripts?|quer(?:y|ies)|functions?|sequences?|comments?|director(?:y|ies)|folders?)\b",
);
static ADDS_ROWS: Ascii = ascii(
    r"\b(?:insert|add|append|create|make|register|import|load|populate|seed|fill|copy|duplicate|clone|split|backfill|record|book|place|enter|put|write|save|store|generate|upload|move|replace|upsert|submit|run|execute|apply|migrate|restore|process|rebuild|refresh|sync|synchronize|fix|repair|reset|recover|merge|normalize|roll back|transfer|pay|charge|refund|enrol|enroll|subscribe|reserve|schedule|hire|buy|sell|invite|link|associate|assign|log|lend|return|issue|distribute|post|publish)\b",
);
static REMOVES_ROWS: Ascii = ascii(
    r"\b(?:delete|remove|drop|purge|prune|erase|wipe|truncate|discard|clear|clean|deduplicate|dedupe|merge|move|archive|eliminate|get rid|keep only|only keep|empty|cancel|run|execute|apply|migrate|restore|process|rebuild|refresh|sync|synchronize|fix|repair|reset|recover|replace|normalize|roll back|combine|consolidate|close|retire|dismiss|unsubscribe|withdraw|forget|expire|void|reject|unique|constraint|duplicates?)\b",
);
/// Words that ask for more without a verb.
static MORE: Ascii = ascii(r"\b(?:new|missing|another|additional|extra|more)\s+((?:[\w-]+\s+){0,2}[\w-]+)");
static WISHES: Ascii = ascii(
    r"\b(?:needs?|lacks?|must|should|shall|ought|required?|requires|ensures?|make sure|expect(?:ed|s)?|wants?|wish|instead)\b",
);
static ACTS: Ascii = ascii(
    r"\b(?:set|change|update|raise|increase|lower|reduce|rename|create|add|delete|remove|mark|grant|give|put|label|close|move|insert|drop|turn|correct|convert)\b",
);
static NEGATED: Ascii = ascii(
    r"(?:\b(?:not|never|without|no need to|nor)\b|n't)[^,]*$|\b(?:rights?|permissions?|privileges?|allowed|able|access)\s+to\s+$",
);

/// The number in `the two`, `a`, `3 more`; the rest of the text.
static AMOUNT: Ascii = ascii(
    r"^\s*(?:(?:only|exactly|all|the|these|those|other|last|first|following|remaining)\s+)*(both|a|an|another|this|that|its|single|[a-z]+|\d+)\s",
);

/// The text after a verb until the first preposition or mark.
fn phrase(behind: &str) -> &str {
    let end = ENDS.find_iter(behind).next().map_or(behind.len(), |end| end.start());
    &behind[..end]
}

static ENDS: Ascii = ascii(
    r"[,;:(]|\.\s|\.$|\s(?:for|with|to|in|into|from|on|that|which|whose|who|of|by|so|as|at|under|without|where|if|has|have)\s",
);

/// The text after a verb until the next part of the sentence.
fn clause(behind: &str) -> &str {
    let end = NEXT.find_iter(behind).next().map_or(behind.len(), |end| end.start());
    &behind[..end]
}

static NEXT: Ascii = ascii(
    r"[,;:(]|\.\s|\.$|\s(?:and|then|but)\s+(?:then\s+)?(?:write|set|create|add|update|rename|move|raise|insert|report|tell|close|give|grant|make|put|save|print|leave|keep|change|mark|delete|remove|only|no|do|don't|comment|label)\b",
);

/// The verbs of a prompt that are not in quotes or in names.
fn verbs<'t>(lower: &'t str, verbs: &'static Ascii) -> impl Iterator<Item = Match<'t>> {
    let quoted: Vec<Match<'t>> = QUOTED.find_iter(lower).collect();
    let is_quoted = move |verb: &Match<'t>| quoted.iter().any(|q| q.start() < verb.start() && verb.end() <= q.end());
    let part = |c: char| matches!(c, '-' | '/' | '_' | '@' | '=');
    // `triage` in `acme/triage-sandbox`
    let is_name =
        move |verb: &Match<'t>| lower[..verb.start()].ends_with(part) || lower[verb.end()..].starts_with(part);
    verbs.find_iter(lower).filter(move |verb| !is_quoted(verb) && !is_name(verb))
}

/// The number of things that the prompt adds. `None` if this is not known.
fn added(lower: &str, subject: &Subject<'_>) -> Option<i64> {
    let mut sum = 0;
    for verb in verbs(lower, subject.adds) {
        let (head, behind) = around(lower, verb.start(), verb.end());
        let rest = clause(behind);
        let object = phrase(rest);
        let is_noun = DETERMINERS.is_match(head) || subject.is_in(verb.as_str());
        if NEGATED.is_match(head) || is_noun || subject.is_other(object) || TELLS.is_match(object) {
            continue;
        }
        let is_each = ["each", "every", " per "].iter().any(|word| behind.contains(word));
        let amount = amount(object).filter(|_| subject.is_in(object) && !is_each && !rest.contains(" and "));
        sum += amount.or_else(|| (!is_each).then(|| single(object, subject)).flatten())?;
    }
    let others = MORE.captures_iter(lower).filter_map(|more| more.get(1));
    let is_more = others.into_iter().any(|more| subject.is_in(more.as_str()) || GENERIC.is_match(more.as_str()));
    (sum > 0 || !is_more && !WISHES.is_match(lower)).then_some(sum)
}

/// The words before a noun.
static DETERMINERS: Ascii = ascii(r"\b(?:the|an?|every|each|any|no|this|that|these|those|of|its|their|all)\s+$");
static TELLS: Ascii =
    ascii(r"^\s*(?:the\s+|a\s+|their\s+|its\s+)?(?:number|count|total|sum|average|names?|list|result|answer|right)\b");
static GENERIC: Ascii = ascii(r"\b(?:rows?|records?|entry|entries|lines?|ones?)\b");

/// The text of a sentence before a verb and after it.
fn around(lower: &str, start: usize, end: usize) -> (&str, &str) {
    let whole = sentence(lower, start);
    (&lower[whole.start..start], lower.get(end..whole.end.max(end)).unwrap_or_default())
}

/// The number at the start of the object of a verb: `the two customers`.
fn amount(object: &str) -> Option<i64> {
    let first = AMOUNT.captures_iter(object).next()?;
    let word = first.get(1)?.as_str();
    let number = if word == "both" { Some(2) } else { number(word) };
    i64::try_from(number.filter(|number| *number < 1000)?).ok()
}

/// One, if the object of a verb is a single thing: `the issue "Crash"`, `a customer`.
fn single(object: &str, subject: &Subject<'_>) -> Option<i64> {
    let bare = QUOTED.replace_all(object, |_| "x".to_owned());
    let mut words = bare.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).filter(|word| !word.is_empty());
    let article = matches!(words.next()?, "the" | "a" | "an" | "this" | "that");
    let one = words.take(3).any(|word| subject.nouns.iter().any(|noun| word == noun || *word == format!("{noun}y")));
    (article && one && !bare.contains(" and ") && !bare.contains(" or ")).then_some(1)
}

static QUOTED: Ascii = ascii(r#"("[^"\n]*"|`[^`\n]*`|'[^'\n]*')"#);

/// The number of things that the prompt removes. `None` if this is not known.
fn removed(lower: &str, subject: &Subject<'_>) -> Option<i64> {
    if WISHES.is_match(lower) {
        return None;
    }
    let mut sum = 0;
    for verb in verbs(lower, subject.removes) {
        let (head, behind) = around(lower, verb.start(), verb.end());
        let rest = clause(behind);
        let object = phrase(rest);
        if NEGATED.is_match(head)
            || DETERMINERS.is_match(head)
            || subject.is_in(verb.as_str())
            || subject.is_other(object) && !has_any(object, &subject.more)
        {
            continue;
        }
        // Rows of other tables may be deleted together with those of this one.
        if !subject.is_in(rest) {
            return None;
        }
        let by_number = amount(object);
        let by_row = subject.table.and_then(|table| matching(lower, rest, table, subject));
        sum += match (by_number, by_row, single(object, subject)) {
            (Some(a), Some(b), _) if a != b => return None,
            (None, Some(b), Some(1)) if b != 1 => return None,
            (a, b, one) => a.or(b).or(one)?,
        };
    }
    Some(sum)
}

static BOUNDS: Ascii = ascii(
    r"\b(?:more|less|fewer|than|older|newer|before|after|below|above|under|over|least|most|between|not|except|other|others|but|or|either|duplicates?|twice|starts?|starting|ends?|ending|contains?|containing|begins?|beginning|like|rest)\b",
);

/// The number of rows that a clause describes: `every item with the quantity 0`, `all cancelled orders`.
fn matching(lower: &str, clause: &str, table: &Table, subject: &Subject<'_>) -> Option<i64> {
    if BOUNDS.is_match(clause) {
        return None;
    }
    let mut conditions: Vec<(usize, Cell)> = Vec::new();
    for (at, column) in table.columns.iter().enumerate() {
        let name = column.replace('_', " ");
        for spelt in [column.as_str(), name.as_str()] {
            let Some((before, behind)) = split_at_word(clause, spelt) else { continue };
            let absent = ["without", "with no", "no", "lacking", "lack", "missing"];
            let before = before.trim_end();
            let before = ["a", "an", "any", "the"].iter().find_map(|word| before.strip_suffix(word)).unwrap_or(before);
            let behind = behind.trim_start_matches([' ', '`', '"', '\'', '=']);
            let behind = ["of ", "is ", "are "].iter().find_map(|word| behind.strip_prefix(word)).unwrap_or(behind);
            let word = behind
                .trim_start_matches(['`', '"', '\''])
                .split(|c: char| !(c.is_ascii_alphanumeric() || "_-.".contains(c)));
            let word = word.into_iter().next().unwrap_or_default().trim_end_matches('.');
            if absent.iter().any(|word| before.trim_end().ends_with(word))
                || matches!(word, "null" | "empty" | "missing")
            {
                conditions.push((at, Cell::Null));
            } else if word.parse::<f64>().is_ok() {
                conditions.push((at, Cell::Literal(word.to_owned())));
            }
            break;
        }
        let mut known: Vec<&str> = Vec::new();
        for row in &table.rows {
            if let Some(Cell::Literal(text)) = row.get(at)
                && text.len() > 2
                && text.bytes().any(|b| b.is_ascii_alphabetic())
                && !known.contains(&text.as_str())
                && has_word(clause, &text.to_ascii_lowercase())
            {
                known.push(text);
                conditions.push((at, Cell::Literal(text.clone())));
            }
        }
    }
    if let (Some(at), Some(id)) =
        (table.column("id"), subject.nouns.iter().find_map(|noun| number_behind(clause, noun)))
    {
        conditions.push((at, Cell::Literal(id)));
    }
    // A value that another part of the prompt sets.
    let is_set = |cell: &Cell| match cell {
        Cell::Literal(text) => {
            let text = text.to_ascii_lowercase();
            let set = |at: usize| {
                lower[..at].trim_end_matches(['`', '"', '\'']).ends_with(" to ")
                    || lower[..at].trim_end_matches(['`', '"', '\'']).ends_with(" as ")
            };
            lower.match_indices(text.as_str()).any(|(at, _)| set(at))
        }
        _ => false,
    };
    let [(at, wanted)] = conditions.as_slice() else { return None };
    if is_set(wanted) || wanted.number().is_some() && LOWERS.is_match(lower) {
        return None;
    }
    let mut sum = 0;
    for row in &table.rows {
        match (row.get(*at)?, wanted) {
            (Cell::Unknown, _) => return None,
            (cell, Cell::Null) => sum += i64::from(*cell == Cell::Null),
            (cell, other) => match (cell.number(), other.number()) {
                (Some(a), Some(b)) => sum += i64::from(a == b),
                _ => sum += i64::from(cell == other),
            },
        }
    }
    (sum > 0).then_some(sum)
}

static LOWERS: Ascii = ascii(r"\b(?:lower|reduce|decrease|subtract|zero)\b");

/// The texts before and after a whole word.
fn split_at_word<'t>(text: &'t str, word: &str) -> Option<(&'t str, &'t str)> {
    let part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let at = text
        .match_indices(word)
        .map(|(at, _)| at)
        .find(|at| !text[..*at].ends_with(part) && !text[at + word.len()..].starts_with(part))?;
    Some((&text[..at], &text[at + word.len()..]))
}

/// The number after a word: `order 7`.
fn number_behind(text: &str, word: &str) -> Option<String> {
    let (_, behind) = split_at_word(text, word)?;
    let behind = behind.trim_start().trim_start_matches(['#', '`']);
    let end = behind.find(|c: char| !c.is_ascii_digit()).unwrap_or(behind.len());
    let alone = !behind[end..].trim_start_matches('`').trim_start().starts_with("and ");
    (end > 0 && alone).then(|| behind[..end].to_owned())
}

/// A number of things that differs from the one to which setup and the prompt lead.
fn total(lower: &str, subject: &Subject<'_>, made: usize, wanted: &Wanted<'_>, span: Span) -> Option<Fault> {
    let expected: i64 = wanted.text.parse().ok()?;
    let made = i64::try_from(made).ok()?;
    if !ACTS.is_match(lower) || !subject.is_in(lower) {
        return None;
    }
    let (more, fewer) = (added(lower, subject), removed(lower, subject));
    let name = if made == 1 { &subject.shown.0 } else { &subject.shown.1 };
    let setup = format!("setup makes {made} {name}");
    let (limit, help) = match (more, fewer) {
        (Some(0), Some(0)) if expected != made => {
            (format!("`{made}`"), format!("{setup}, and the prompt asks for no change of their number"))
        }
        (Some(more), Some(fewer)) if expected != made + more - fewer => {
            let mut changes = Vec::new();
            changes.extend((more > 0).then(|| format!("adds {more}")));
            changes.extend((fewer > 0).then(|| format!("removes {fewer}")));
            (format!("`{}`", made + more - fewer), format!("{setup}, and the prompt {}", changes.join(" and ")))
        }
        (Some(0), None) if expected > made => {
            (format!("at most `{made}`"), format!("{setup}, and the prompt adds none"))
        }
        (None, Some(0)) if expected < made => {
            (format!("at least `{made}`"), format!("{setup}, and the prompt removes none"))
        }
        _ => return None,
    };
    let message = format!("verify expects `{expected}`, but setup and the prompt lead to {limit}");
    Some(Fault { span: wanted.span, message, made: span, help })
}

/// A sum over rows that the prompt does not change.
fn unchanged_sum(
    lower: &str,
    query: &Query,
    (table, all): (&Table, &[Table]),
    column: &str,
    expected: f64,
    wanted: &Wanted<'_>,
) -> Option<Fault> {
    let subject = Subject::of_table(table, all);
    let is_named = |name: &str| has_word(lower, name) || has_word(lower, &name.replace('_', " "));
    let named = is_named(column) || query.conditions.iter().any(|(name, ..)| is_named(name));
    if named || added(lower, &subject) != Some(0) || removed(lower, &subject) != Some(0) || !ACTS.is_match(lower) {
        return None;
    }
    let at = table.column(column)?;
    let sum = query.rows(table)?.into_iter().map(|row| row.get(at)?.number()).sum::<Option<f64>>()?;
    ((sum - expected).abs() > 1e-6).then(|| Fault {
        span: wanted.span,
        message: format!("verify expects `{expected}`, but the sum of `{column}` from setup is `{sum}`"),
        made: table.span,
        help: "the prompt does not ask for a change of these rows".to_owned(),
    })
}

/// A total in a table of the agent that is not the sum of any of the rows from setup.
fn sums(lower: &str, query: &Query, tables: &[Table], expected: f64, wanted: &Wanted<'_>) -> Option<Fault> {
    let [(column, true, Cell::Literal(key))] = query.conditions.as_slice() else { return None };
    let Selected::Columns(columns) = &query.selected else { return None };
    let [total] = columns.as_slice() else { return None };
    let is_total = ["total", "sum", "amount"].iter().any(|word| total.contains(word));
    if !is_total || !SUMS.is_match(lower) || COMPUTES.is_match(lower) {
        return None;
    }
    let mut with = tables.iter().filter_map(|table| Some((table, table.column(column)?)));
    let (Some((table, at)), None) = (with.next(), with.next()) else { return None };
    let of_key = |row: &&Vec<Cell>| matches!(row.get(at), Some(Cell::Literal(text)) if text == key);
    let rows: Vec<&Vec<Cell>> = table.rows.iter().filter(of_key).collect();
    if rows.is_empty()
        || rows.len() > 10
        || table.rows.iter().any(|row| row.get(at).is_none_or(|c| *c == Cell::Unknown))
    {
        return None;
    }
    let mut numeric = false;
    for other in (0..table.columns.len()).filter(|other| *other != at) {
        let values: Option<Vec<f64>> = rows.iter().map(|row| row.get(other)?.number()).collect();
        let Some(values) = values else { continue };
        numeric = true;
        let chosen = |bits: usize| -> f64 {
            values.iter().enumerate().filter(|(nth, _)| bits >> nth & 1 == 1).map(|(_, value)| value).sum()
        };
        if (0..1_usize << values.len()).any(|bits| (chosen(bits) - expected).abs() < 1e-6) {
            return None;
        }
    }
    numeric.then(|| Fault {
        span: wanted.span,
        message: format!("verify expects `{expected}`, but no rows of `{key}` from setup have this sum"),
        made: table.span,
        help: format!("the prompt asks for a sum, and `{}` has {} rows with `{key}`", table.name, rows.len()),
    })
}

static SUMS: Ascii = ascii(r"\b(?:sum|total|totals)\b");
/// A total that is computed from several columns, or from changed values.
static COMPUTES: Ascii = ascii(
    r"\b(?:tax|vat|discount|percent|net|gross|fee|fees|multipl\w+|times|average|raise|increase|lower|reduce|convert|cents|price|quantity|product of|minus|plus|insert (?:an?|another) order|add (?:an?|another) order)\b|%",
);

/// `raise the quantity of bolt by 25`, where setup inserts 40 and verify expects 75.
fn changed_cell(
    lower: &str,
    query: &Query,
    table: &Table,
    column: &str,
    expected: f64,
    wanted: &Wanted<'_>,
) -> Option<Fault> {
    let [(_, true, Cell::Literal(key))] = query.conditions.as_slice() else { return None };
    let rows = query.rows(table)?;
    let [row] = rows.as_slice() else { return None };
    let before = row.get(table.column(column)?)?.number()?;
    let (key, name) = (key.to_ascii_lowercase(), column.replace('_', " "));
    let mut results = BY.captures_iter(lower).filter_map(|by| {
        let (verb, object, amount) = (by.get(1)?, by.get(2)?.as_str(), by.get(3)?);
        let behind = lower[amount.end()..].trim_start();
        let relative = ["%", "percent", "each", "times", "per "].iter().any(|word| behind.starts_with(word));
        let about = has_word(object, &key) && (has_word(object, column) || has_word(object, &name));
        if relative || !about || object.contains(" and ") {
            return None;
        }
        let amount: f64 = number(amount.as_str())? as f64;
        let lowers = matches!(verb.as_str(), "lower" | "reduce" | "decrease");
        Some((amount, if lowers { before - amount } else { before + amount }))
    });
    let (Some((amount, after)), None) = (results.next(), results.next()) else { return None };
    // Another part of the prompt changes it as well.
    let is_once = lower.matches(key.as_str()).count() == 1 && !has_word(lower, &wanted.text);
    (is_once && (after - expected).abs() > 1e-6).then(|| Fault {
        span: wanted.span,
        message: format!("verify expects `{expected}`, but setup and the prompt lead to `{after}`"),
        made: table.span,
        help: format!("setup inserts `{before}`, and the prompt changes it by {amount}"),
    })
}

static BY: Ascii = ascii(r"\b(raise|increase|lower|reduce|decrease)\b([^.,;]*?)\sby\s+([a-z]+|\d+)\b");

/// A count of rows that is right before the agent has changed them: `set the status from pending to shipped`, but verify
/// counts those that are pending.
pub fn unchanged(view: &TaskView<'_>, out: &mut Diagnostics) {
    let tables = LazyCell::new(|| sql_rows::tables(view));
    let lower = LazyCell::new(|| plain(&view.effects.prompt.shown()));
    for wanted in answers::compared(view).iter().filter(|wanted| wanted.is_required) {
        let Some(query) = query_of(view, wanted).filter(|query| query.selected == Selected::Count) else { continue };
        let Some(table) = tables.iter().find(|table| table.name == query.table) else { continue };
        let count = query.rows(table).map_or(0, |rows| rows.len());
        let is_counted = count > 0 && wanted.text.parse() == Ok(count);
        let given_up =
            || query.conditions.iter().any(|(column, equal, value)| *equal && gives_up(&lower, &query, column, value));
        if is_counted && !verify_changes(view) && given_up() {
            let message =
                format!("setup already inserts the {count} expected rows, and the prompt asks to change them");
            out.push(
                Diagnostic::new(&ALREADY_TRUE, wanted.span, message).label(table.span, "setup inserts them here").help(
                    "check for the value that the prompt asks for: the task must not pass if the agent does nothing",
                ),
            );
        }
    }
}

/// Whether the prompt asks to replace a value of a column in rows that meet all conditions.
fn gives_up(lower: &str, query: &Query, column: &str, value: &Cell) -> bool {
    let Cell::Literal(old) = value else { return false };
    let old = old.to_ascii_lowercase();
    let texts = || {
        query.conditions.iter().map(|(_, equal, cell)| match cell {
            Cell::Literal(text) if *equal => Some(text.to_ascii_lowercase()),
            _ => None,
        })
    };
    SETS.find_iter(lower).any(|verb| {
        let (_, behind) = around(lower, verb.start(), verb.end());
        let rest = clause(behind);
        let Some((before, after)) = split_at_word(rest, &old) else { return false };
        let named = has_word(rest, column) || has_word(rest, &column.replace('_', " "));
        let to = after.find(" to ").map(|at| after[at + 4..].trim_start_matches(['`', '"', '\'']));
        let other = to.and_then(|to| to.split(|c: char| !(c.is_ascii_alphanumeric() || "_-".contains(c))).next());
        let is_other = other.is_some_and(|new| !new.is_empty() && texts().flatten().all(|text| text != new));
        named
            && is_other
            && !before.contains(" to ")
            && !KEEPS.is_match(rest)
            && texts().all(|text| text.is_some_and(|text| has_word(rest, &text)))
    })
}

static SETS: Ascii = ascii(r"\b(?:set|change|update|mark|switch|turn|move)\b");

/// Kinds of which a namespace contains only those that someone creates, the words for them, and the kinds that create
/// them as well.
const KINDS: [(&str, &str, &[&str]); 3] = [
    (
        "pod",
        "pod",
        &["deployment", "job", "statefulset", "daemonset", "replicaset", "cronjob", "replicationcontroller"],
    ),
    ("deployment", "deployment", &[]),
    ("service", "service", &[]),
];

/// The number of resources of a kind in a namespace that setup creates.
fn things(view: &TaskView<'_>, lower: &str, wanted: &Wanted<'_>) -> Option<Fault> {
    let (first, others) = wanted.runs.split_first()?;
    let counted = others.iter().any(|run| run.statement.name() == "wc")
        && others.iter().all(|run| matches!(run.statement.name(), "wc" | "tr" | "xargs"));
    if first.statement.tool() != "kubectl" || !counted || asked::is_headed(first) {
        return None;
    }
    let selects = |word: &Value| {
        word.literal().is_none_or(|word| {
            ["-l", "--selector", "--field-selector", "-A", "--all-namespaces", "-f", "--ignore-not-found"]
                .iter()
                .any(|option| word.starts_with(option))
        })
    };
    let model = view.effects;
    let act = model.read_by(first).filter(|act| {
        act.thing.name.is_none()
            && !first.words.iter().skip(1).any(|word| !word.is_known() || word.literal().is_some() && selects(word))
    })?;
    let space = act.thing.space.as_ref().filter(|space| space.is_known())?;
    let (kind, noun, makers) = KINDS.iter().find(|(kind, ..)| *kind == act.thing.kind)?;
    if !model.sees(PhaseKind::Setup) {
        return None;
    }
    let mut names: Vec<&Value> = Vec::new();
    let (mut span, mut own_space) = (None, false);
    for act in model.in_phase(PhaseKind::Setup) {
        let thing = &act.thing;
        if thing.system == "helm" {
            return None;
        }
        if thing.system != "kubernetes" || matches!(act.verb, Verb::Reads | Verb::Awaits) {
            continue;
        }
        if thing.kind == "namespace" && thing.name.as_ref().is_some_and(|name| name.is(space)) {
            own_space |= act.verb == Verb::Creates && !act.maybe;
            continue;
        }
        let here = thing.space.as_ref().is_none_or(|other| other.may_be(space));
        let same = thing.kind == *kind
            || thing.kind.is_empty()
            || thing.kind == "all"
            || makers.contains(&thing.kind.as_str());
        if !here || !same {
            continue;
        }
        let name = thing.name.as_ref().filter(|name| name.is_known())?;
        let sure = act.verb == Verb::Creates
            && !act.maybe
            && thing.kind == *kind
            && thing.space.as_ref().is_some_and(|other| other.is(space));
        if !sure {
            return None;
        }
        if !names.contains(&name) {
            names.push(name);
        }
        span.get_or_insert(act.span);
    }
    let words = ["replica", "scale"];
    let makes = makers.iter().chain(&words).any(|word| lower.contains(word));
    if !own_space || makes && !makers.is_empty() {
        return None;
    }
    let subject = Subject {
        shown: ((*kind).to_owned(), format!("{kind}s")),
        nouns: vec![(*noun).to_owned()],
        others: &RESOURCES,
        more: Vec::new(),
        adds: &ADDS_RESOURCES,
        removes: &REMOVES_RESOURCES,
        table: None,
    };
    total(lower, &subject, names.len(), wanted, span?)
}

static RESOURCES: Ascii = ascii(
    r"\b(?:pods?|deployments?|services?|config ?maps?|secrets?|network ?polic(?:y|ies)|ingress(?:es)?|jobs?|cron ?jobs?|roles?|role ?bindings?|service ?accounts?|labels?|annotations?|quotas?|resource ?quotas?|limit ?ranges?|limits?|budgets?|pod ?disruption ?budgets?|namespaces?|volumes?|claims?|autoscalers?|rules?|probes?|environment variables?|keys?|files?|taints?|permissions?|access)\b",
);
static ADDS_RESOURCES: Ascii = ascii(
    r"\b(?:create|add|deploy|launch|run|start|make|provision|set up|restore|recreate|copy|duplicate|clone|install|scale|apply|fix|repair|expose|debug|test|try|move|migrate|split|replace)\b",
);
static REMOVES_RESOURCES: Ascii = ascii(
    r"\b(?:delete|remove|evict|terminate|drain|clean|kill|stop|replace|move|migrate|prune|merge|clear|get rid|fix|repair|apply|tear down|uninstall)\b",
);

/// The number of issues in a repository that setup creates.
fn issues(view: &TaskView<'_>, lower: &str, wanted: &Wanted<'_>) -> Option<Fault> {
    let (list, others) = wanted.runs.split_first()?;
    let words = literal_words(list)?;
    if words.get(..3)? != ["gh", "issue", "list"] {
        return None;
    }
    let jq = |run: &Run<'_>| asked::operand(run).as_deref() == Some("length");
    let counts = match others {
        [run] if run.statement.name() == "jq" => jq(run) && words.contains(&"--json"),
        [run] => run.statement.name() == "wc" && asked::options(run) == "l",
        [] => asked::value_of(&words, "-q", "--jq") == Some("length"),
        _ => false,
    };
    let state = asked::value_of(&words, "-s", "--state").unwrap_or("open");
    let known = ["-R", "--repo", "--state", "-s", "--json", "--limit", "-L", "-q", "--jq"];
    let plain = words
        .iter()
        .filter(|word| word.starts_with('-'))
        .all(|word| known.contains(&word.split('=').next().unwrap_or(word)));
    if !counts || !plain || !matches!(state, "open" | "all") || !view.effects.sees(PhaseKind::Setup) {
        return None;
    }
    let (mut made, mut span, mut own) = (0, None, false);
    for script in view.effects.scripts.iter().filter(|script| script.view.phase == PhaseKind::Setup) {
        for run in script.trace.runs.iter().filter(|run| run.statement.tool() == "gh") {
            let word = |at: usize| run.words.get(at).and_then(Value::literal).unwrap_or_default();
            match (word(1), word(2)) {
                ("repo", "create") => {
                    own |= !run.maybe
                        && !run
                            .words
                            .iter()
                            .any(|word| word.literal().is_some_and(|word| word.starts_with("--template")))
                }
                ("repo" | "label" | "auth", _) | ("issue", "edit" | "comment" | "view" | "list") => {}
                ("issue", "create") if !run.maybe => {
                    made += 1;
                    span.get_or_insert(run.content.span(run.statement.range.clone()));
                }
                _ => return None,
            }
        }
    }
    let subject = Subject {
        shown: ("issue".to_owned(), "issues".to_owned()),
        nouns: vec!["issue".to_owned()],
        others: &PARTS,
        more: Vec::new(),
        adds: &ADDS_ISSUES,
        removes: if state == "open" { &CLOSES } else { &DELETES },
        table: None,
    };
    total(lower, &subject, made, wanted, span.filter(|_| own)?)
}

fn literal_words<'r>(run: &'r Run<'_>) -> Option<Vec<&'r str>> {
    // The repository may be a variable.
    run.words.iter().map(|word| if word.is_known() { Some(word.literal().unwrap_or("…")) } else { None }).collect()
}

static PARTS: Ascii = ascii(
    r"\b(?:labels?|comments?|milestones?|repositor(?:y|ies)|branch|branches|files?|pull requests?|prs?|releases?|tags?|projects?|assignees?)\b",
);
static ADDS_ISSUES: Ascii = ascii(
    r"\b(?:create|file|add|duplicate|transfer|reopen|reopened|copy|split|report|raise|submit|write|make|import|fix)\b",
);
static CLOSES: Ascii =
    ascii(r"\b(?:close|resolve|delete|remove|transfer|fix|merge|move|clean|triage|complete|finish)\b");
static DELETES: Ascii = ascii(r"\b(?:delete|remove|transfer|merge|move|clean)\b");

/// The number of objects below a prefix to which the prompt moves those below another one.
fn objects(view: &TaskView<'_>, said: &str, wanted: &Wanted<'_>) -> Option<Fault> {
    let (list, others) = wanted.runs.split_first()?;
    let words = literal_words(list)?;
    let has = |word: &str| words.contains(&word);
    if list.statement.tool() != "aws" || !(has("list-objects-v2") || has("list-objects")) {
        return None;
    }
    let query = asked::value_of(&words, "--query", "--query").unwrap_or_default();
    let counts = match others {
        [] => matches!(query, "KeyCount" | "length(Contents)" | "length(Contents[])"),
        [run] if run.statement.name() == "jq" && query.is_empty() => {
            let filter = asked::operand(run)?.replace(' ', "");
            matches!(
                filter.as_str(),
                ".Contents|length" | "[.Contents[]]|length" | ".KeyCount" | ".Contents//[]|length"
            )
        }
        _ => false,
    };
    let prefix = asked::value_of(&words, "--prefix", "--prefix").filter(|_| counts)?;
    let mut moves = MOVES.captures_iter(said);
    let (from, to) = moves.next().and_then(|moved| Some((moved.get(1)?, moved.get(2)?.as_str())))?;
    let is_told = to == prefix && said.matches(to).count() == 1 && moves.next().is_none();
    if !is_told || EXCEPT.is_match(&said[sentence(said, from.start())]) {
        return None;
    }
    let (keys, span) = uploaded(view)?;
    let made = keys.iter().filter(|key| key.starts_with(from.as_str()) || key.starts_with(to)).count();
    let expected: usize = wanted.text.parse().ok()?;
    (expected != made && made > 0).then(|| Fault {
        span: wanted.span,
        message: format!("verify expects `{expected}`, but setup and the prompt lead to `{made}`"),
        made: span,
        help: format!("setup uploads {made} objects below `{}`, and the prompt moves them", from.as_str()),
    })
}

static EXCEPT: Ascii =
    ascii(r"(?i)\b(?:except|but|only|older|newer|larger|smaller|unless|if|that|which|without|other than)\b");
static MOVES: Ascii = ascii(
    r#"(?:move|Move|copy|Copy)\s+(?:all\s+)?(?:the\s+)?(?:objects|files|keys|everything)\s+(?:below|under|in|with the prefix)\s+[`"']([^`"'\s]+/)[`"']\s+to\s+[`"']([^`"'\s]+/)[`"']"#,
);

/// The keys of all objects that setup uploads to a bucket of its own, and the place of the first upload.
fn uploaded(view: &TaskView<'_>) -> Option<(Vec<String>, Span)> {
    if !view.effects.sees(PhaseKind::Setup) {
        return None;
    }
    let (mut keys, mut span, mut buckets) = (Vec::new(), None, 0);
    for script in view.effects.scripts.iter().filter(|script| script.view.phase == PhaseKind::Setup) {
        for run in script.trace.runs.iter().filter(|run| run.statement.tool() == "aws") {
            let words = run.words.iter().map(Value::shown).collect::<Vec<String>>();
            let has = |word: &str| words.iter().any(|known| known == word);
            if has("create-bucket") || has("mb") {
                buckets += 1;
            } else if has("cp") && !has("--recursive") && !run.maybe {
                let target = words.iter().rfind(|word| word.starts_with("s3://"))?;
                let key = target.strip_prefix("s3://")?.split_once('/')?.1;
                if key.is_empty() || key.ends_with('/') || key.contains('…') {
                    return None;
                }
                keys.extend((!keys.iter().any(|known| known == key)).then(|| key.to_owned()));
                span.get_or_insert(run.content.span(run.statement.range.clone()));
            } else if !has("wait") && !has("rb") && !words.iter().any(|word| word.starts_with("put-bucket")) {
                return None;
            }
        }
    }
    Some((keys, span.filter(|_| buckets == 1)?))
}

/// `in one single commit`, but verify counts two: the expected number and the words of the prompt.
fn commits(view: &TaskView<'_>, lower: &str, wanted: &Wanted<'_>) -> Option<(String, String)> {
    let [run] = wanted.runs.as_slice() else { return None };
    let words: Vec<String> = run.words.iter().map(Value::shown).collect();
    let has = |word: &str| words.iter().any(|known| known == word);
    if run.statement.tool() != "git" || !has("rev-list") || !has("--count") {
        return None;
    }
    // Only on a branch of the agent, all commits are those from the prompt.
    let tip = words.iter().find_map(|word| word.split_once("..")).map(|(_, tip)| tip).filter(|tip| tip.len() > 3)?;
    let is_own = has_word(lower, &tip.to_ascii_lowercase()) && !has_word(&facts::elsewhere(view).rest, tip);
    if !is_own || tip == "HEAD" || tip.starts_with('.') || REWRITES.is_match(lower) {
        return None;
    }
    let expected = number(&wanted.text)?;
    let mut told = COMMITS.captures_iter(lower).filter_map(|found| {
        let word = found.get(1)?.as_str();
        Some((if word == "single" { 1 } else { number(word)? }, found.get(0)?.as_str()))
    });
    let (first, shown) = told.next()?;
    (told.all(|(other, _)| other == first) && first != expected).then(|| (wanted.text.clone(), shown.to_owned()))
}

static REWRITES: Ascii = ascii(r"\b(?:squash|rebase|merge|cherry-pick|revert|amend)\b");
static COMMITS: Ascii =
    ascii(r"\b(single|one|two|three|four|five|six|\d+)\s+(?:single\s+|separate\s+|new\s+)?commits?\b");

/// A line that setup writes, and the name of its file.
type Line = (String, String, Span);

/// The literal lines that setup writes to files.
fn written(view: &TaskView<'_>) -> Vec<Line> {
    let mut found = Vec::new();
    for script in view.effects.scripts.iter().filter(|script| script.view.phase == PhaseKind::Setup) {
        for run in &script.trace.runs {
            let Some(file) = run.output.as_ref().map(Value::shown) else { continue };
            let text = match run.statement.name() {
                "cat" => run.input.as_ref().and_then(Value::literal).map(str::to_owned),
                "printf" => {
                    let text = run.words.get(1).and_then(Value::literal).filter(|text| !text.contains('%'));
                    text.map(|text| text.replace("\\n", "\n"))
                }
                "echo" => run.words.last().and_then(Value::literal).map(str::to_owned),
                _ => None,
            };
            let file = file.rsplit('/').next().unwrap_or(&file).to_owned();
            let span = run.content.span(run.statement.range.clone());
            let lines = text.iter().flat_map(|text| text.lines()).map(|line| (line.to_owned(), file.clone(), span));
            found.extend(lines);
        }
    }
    found
}

/// The words of a line without the marks between them.
fn parts(line: &str) -> Vec<&str> {
    line.split(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '.'))).filter(|word| !word.is_empty()).collect()
}

/// `grep -x 'north;41'`, where setup writes the line `north,41` and the prompt only copies it.
fn lines(view: &TaskView<'_>, said: &str, found: &mut Vec<Fault>) {
    let known = LazyCell::new(|| written(view));
    for question in view.asked() {
        let Demand::Matches { pattern, options } = &question.demand else { continue };
        let anchored = pattern.strip_prefix('^').and_then(|rest| rest.strip_suffix('$'));
        let whole = anchored.or_else(|| options.contains('x').then_some(pattern.as_str()));
        let Some(line) = whole.filter(|line| {
            !options.contains(['v', 'i', 'c']) && !line.contains(['\\', '*', '[', '(', '|', '+', '?', '$'])
        }) else {
            continue;
        };
        let wanted = parts(line);
        if wanted.len() < 2 || said.contains(line) || FORMATS.is_match(said) || question.is_wanted() != Some(true) {
            continue;
        }
        let named = |file: &str| {
            let words = question.runs.iter().flat_map(|run| &run.words).chain(&question.file);
            words.map(Value::shown).any(|word| word.ends_with(file))
        };
        if known.iter().any(|(text, ..)| text == line) {
            continue;
        }
        let mut same = known.iter().filter(|(text, file, _)| {
            let own = parts(text);
            let (Some((last, rest)), Some((changed, others))) = (own.split_last(), wanted.split_last()) else {
                return false;
            };
            let is_marked = text.replace(*last, "") != line.replace(*changed, "");
            rest == others
                && match last == changed {
                    true => named(file) || COPIES.is_match(said),
                    // The prompt asks for another value at the same place.
                    false => is_marked && named(file) && has_word(said, changed) && !file.is_empty(),
                }
        });
        let (Some((text, _, made)), None) = (same.next(), same.next()) else { continue };
        found.push(Fault {
            span: question.span,
            message: format!("verify requires the line `{line}`, but setup writes it as `{text}`"),
            made: *made,
            help: "use the same separators and spaces in both".to_owned(),
        });
    }
}

static FORMATS: Ascii = ascii(
    r"(?i)\b(?:format|reformat|convert|export|render|translate|separat\w+|delimit\w+|semicolons?|tabs?|spaces?|yaml|json|template|rewrite|normalize)\b",
);
static COPIES: Ascii = ascii(r"(?i)\b(?:copy|copies|move|rename|download|duplicate|mirror|sync)\b");

/// A list in ascending order, where the query sorts in descending order.
pub fn sorted(view: &TaskView<'_>, out: &mut Diagnostics) {
    for wanted in answers::compared(view) {
        let Some((first, others)) = wanted.runs.split_first() else { continue };
        let joined = others.iter().all(|run| matches!(run.statement.name(), "paste" | "tr" | "xargs"));
        let Some(text) = effects::sql_of(first, view.tools).filter(|_| joined) else { continue };
        let Some(Query { selected: Selected::Columns(columns), order: Some((column, down)), .. }) =
            text.literal().and_then(Query::of)
        else {
            continue;
        };
        if columns.first() != Some(&column) || !others.is_empty() && columns.len() > 1 {
            continue;
        }
        let split = |c: char| c == '\n' || !others.is_empty() && matches!(c, ',' | ' ' | ';');
        let item = |line: &str| {
            let end = line.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '.'))).unwrap_or(line.len());
            line[..end].to_owned()
        };
        let items: Vec<String> = wanted.text.split(split).map(item).filter(|item| !item.is_empty()).collect();
        let numbers: Option<Vec<f64>> = items.iter().map(|item| item.parse().ok()).collect();
        let is_sorted = |down: bool| {
            let apart = |less: bool| less != down;
            match &numbers {
                // The column may be a text.
                Some(numbers) => {
                    numbers.windows(2).all(|pair| pair[0] != pair[1] && apart(pair[0] < pair[1]))
                        && items.windows(2).all(|pair| apart(pair[0] < pair[1]))
                }
                None => items.windows(2).all(|pair| {
                    let lower = |at: usize| pair[at].to_ascii_lowercase();
                    lower(0) != lower(1) && apart(lower(0) < lower(1))
                }),
            }
        };
        if items.len() > 1 && is_sorted(!down) {
            let (order, is) = if down { ("descending", "ascending") } else { ("ascending", "descending") };
            out.push(
                Diagnostic::new(
                    &IMPOSSIBLE_VALUE,
                    wanted.span,
                    format!("the query sorts by `{column}` in {order} order, but this list is {is}"),
                )
                // The values of an enumeration have an order of their own.
                .strength(Strength::Warning)
                .help("change the order of the query or of the list"),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_and_clauses_are_read() {
        assert_eq!(amount(" the two customers"), Some(2));
        assert_eq!(amount(" all cancelled orders"), None);
        assert_eq!(phrase(" one row for each customer"), " one row");
        assert_eq!(clause(" every item with the quantity 0, and write"), " every item with the quantity 0");
        assert_eq!(nouns("entries"), ["entr"]);
    }
}
