//! What the checks of a script ask of the world: whose output they look at, in which form it is printed, and what they demand of it.

use super::{
    Act, Followed, Model, Verb,
    script::Content,
    shell::{Run, Trace},
    value::Value,
};
use crate::{
    bash::{flow, program::Statement, tools},
    source::Span,
};

/// A check, and the output that it looks at.
#[derive(Debug)]
pub struct Question<'m> {
    /// Where the check stands, and as what.
    pub span: Span,
    pub content: &'m Content,
    pub statement: &'m Statement,
    /// The commands whose output it looks at, in the order of the pipe; the first reads the world.
    pub runs: Vec<&'m Run<'m>>,
    pub form: Form,
    pub demand: Demand,
}

/// What is printed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Form {
    /// One field, by its path: `spec.replicas`.
    Field(String),
    /// A whole thing, as YAML or JSON.
    Object,
    /// A row for each thing, for people.
    Rows,
    /// A name for each thing.
    Names,
    /// How many of those there are.
    Count,
    /// The status of an answer: three digits.
    Status,
    Other,
}

/// What is demanded of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Demand {
    /// `[ … -ge 3 ]`: the output stands on the left.
    Compared { operator: String, with: String },
    /// `grep -q WORD`: the pattern, and the letters of the options.
    Matches { pattern: String, options: String },
    /// That it is there: `jq -e PATH`, `[ -n … ]`.
    There,
}

/// A statement and the text that it stands in.
type Place<'m> = (&'m Content, &'m Statement);

impl<'m> Question<'m> {
    fn new((content, statement): Place<'m>, form: Form, runs: Vec<&'m Run<'m>>, demand: Demand) -> Self {
        Self { span: content.span(statement.range.clone()), content, statement, runs, form, demand }
    }

    /// Whether the script goes well only where the check succeeds, or only where it fails. `None`: neither is certain.
    pub fn is_wanted(&self) -> Option<bool> {
        let (succeeded, failed) = flow::outcomes(&self.content.program, &self.statement.range);
        (succeeded.zero != failed.zero).then_some(succeeded.zero)
    }
}

impl Demand {
    /// Whether a number meets it. `None`: it is another demand.
    pub fn is_met_by(&self, number: f64) -> Option<bool> {
        let Self::Compared { operator, with } = self else { return None };
        let with: f64 = with.parse().ok()?;
        Some(match operator.as_str() {
            "=" | "==" | "-eq" => number == with,
            "!=" | "-ne" => number != with,
            "-ge" => number >= with,
            "-gt" => number > with,
            "-le" => number <= with,
            "-lt" => number < with,
            _ => return None,
        })
    }
}

impl<'a> Model<'a> {
    /// What a command reads, where it is one thing or one kind of things.
    pub fn read_by(&self, run: &Run<'_>) -> Option<&Act> {
        let start = run.content.span(run.statement.range.clone());
        let mut acts = self.acts.iter().filter(|act| {
            matches!(act.verb, Verb::Reads | Verb::Awaits)
                && act.span.file == start.file
                && act.span.start == start.start
        });
        // In a loop, and of a function that is called again, it is the same.
        let first = acts.next()?;
        acts.all(|act| act.thing == first.thing).then_some(first)
    }
}

/// The questions of a script.
pub fn questions<'m>(followed: &'m Followed<'_>) -> Vec<Question<'m>> {
    let trace = &followed.trace;
    let mut found = Vec::new();
    let tests = trace.tests.iter().map(|test| ((test.content, test.statement), &test.words));
    let commands = trace.runs.iter().filter(|run| run.statement.name() == "test");
    for (place, words) in tests.chain(commands.map(|run| ((run.content, run.statement), &run.words))) {
        test(trace, place, words, &mut found);
    }
    for (content, statement, chain) in &trace.pipelines {
        if let Some((last, runs)) = whole(trace, *chain, 8).as_deref().and_then(<[_]>::split_last) {
            filter((content, statement), last, runs.to_vec(), &mut found);
        }
    }
    for run in trace.runs.iter().filter(|run| matches!(run.statement.name(), "grep" | "egrep" | "fgrep")) {
        // Of a file.
        let operands =
            run.words.iter().skip(1).filter(|word| !word.literal().is_some_and(|word| word.starts_with('-')));
        if operands.count() > 1 {
            filter((run.content, run.statement), run, Vec::new(), &mut found);
        }
    }
    let piped = |at: usize| {
        trace.pipelines.iter().any(|(.., chain)| trace.chains.get(*chain).is_some_and(|runs| runs.contains(&at)))
    };
    for run in trace.runs.iter().enumerate().filter(|(at, _)| !piped(*at)).map(|(_, run)| run) {
        if let Some(runs) = run.input.as_ref().and_then(Value::printed).and_then(|chain| whole(trace, chain, 8)) {
            filter((run.content, run.statement), run, runs, &mut found);
        }
    }
    found
}

/// What the commands of a script hand on, each with the command that reads the world and the form in which it is printed.
pub fn printed<'m>(followed: &'m Followed<'_>) -> impl Iterator<Item = (&'m Run<'m>, Form)> {
    let trace = &followed.trace;
    (0..trace.chains.len()).filter_map(|chain| {
        let runs = whole(trace, chain, 8)?;
        Some((*runs.first()?, form(&runs)))
    })
}

/// The pipelines of a script that begin with a list of things, each with the commands behind it.
pub fn lists<'m>(followed: &'m Followed<'_>) -> impl Iterator<Item = (&'m Run<'m>, Vec<&'m Run<'m>>)> {
    let trace = &followed.trace;
    trace.pipelines.iter().filter_map(|(.., chain)| {
        let runs = whole(trace, *chain, 8)?;
        let (first, others) = runs.split_first()?;
        (read(first) == Form::Rows).then(|| (*first, others.to_vec()))
    })
}

/// The commands of a chain, those before it whose output it only repeats with it: `echo "$x" | …`, `… <<< "$x"`.
fn whole<'m>(trace: &'m Trace<'_>, chain: usize, depth: usize) -> Option<Vec<&'m Run<'m>>> {
    let mut runs: Vec<&Run<'_>> = trace.chains.get(chain)?.iter().filter_map(|at| trace.runs.get(*at)).collect();
    let first = *runs.first()?;
    let repeated = match first.statement.name() {
        "echo" | "printf" => first.words.last().and_then(Value::printed),
        _ => None,
    };
    if let Some(before) = repeated.or_else(|| first.input.as_ref().and_then(Value::printed)) {
        let mut all = whole(trace, before, depth.checked_sub(1)?)?;
        all.extend(runs.drain(usize::from(repeated.is_some())..));
        return Some(all);
    }
    Some(runs)
}

fn test<'m>(trace: &'m Trace<'_>, place: Place<'m>, words: &[Value], found: &mut Vec<Question<'m>>) {
    let literal = |word: &Value| word.literal().unwrap_or_default().to_owned();
    let is_between = |word: &Value| matches!(literal(word).as_str(), "&&" | "||" | "-a" | "-o");
    for part in words.split(is_between) {
        let is_end = |word: &&Value| matches!(literal(word).as_str(), "test" | "!" | "(" | ")");
        let part: Vec<&Value> = part.iter().filter(|word| !is_end(word)).collect();
        let (printed, demand) = match part.as_slice() {
            [left, operator, right] => {
                let (printed, other, turned) = match (left.printed(), right.printed()) {
                    (Some(printed), None) => (printed, right, false),
                    (None, Some(printed)) => (printed, left, true),
                    _ => continue,
                };
                let Some(with) = other.literal().map(str::to_owned) else { continue };
                let operator = match literal(operator).as_str() {
                    "-ge" if turned => "-le".to_owned(),
                    "-gt" if turned => "-lt".to_owned(),
                    "-le" if turned => "-ge".to_owned(),
                    "-lt" if turned => "-gt".to_owned(),
                    operator => operator.to_owned(),
                };
                (printed, Demand::Compared { operator, with })
            }
            [sign, word] if literal(sign) == "-n" => (word.printed().unwrap_or(usize::MAX), Demand::There),
            [word] => (word.printed().unwrap_or(usize::MAX), Demand::There),
            _ => continue,
        };
        if let Some(runs) = whole(trace, printed, 8) {
            found.push(Question::new(place, form(&runs), runs, demand));
        }
    }
}

/// `… | grep -q WORD`, `… | jq -e PATH`.
fn filter<'m>(place: Place<'m>, last: &Run<'_>, runs: Vec<&'m Run<'m>>, found: &mut Vec<Question<'m>>) {
    let options = options(last);
    let operand = operand(last);
    let form_of = form(&runs);
    match last.statement.name() {
        "grep" | "egrep" | "fgrep" => {
            if let Some(pattern) = operand {
                found.push(Question::new(place, form_of, runs, Demand::Matches { pattern, options }));
            }
        }
        "jq" if options.contains('e') || last.words.iter().any(|word| word.literal() == Some("--exit-status")) => {
            if let Some(path) = operand.as_deref().and_then(path).filter(|_| form_of == Form::Object) {
                found.push(Question::new(place, Form::Field(path), runs, Demand::There));
            }
        }
        _ => {}
    }
}

/// The letters of the options of one letter.
pub fn options(run: &Run<'_>) -> String {
    let words = run.words.iter().skip(1).filter_map(Value::literal);
    words.filter(|word| !word.starts_with("--")).filter_map(|word| word.strip_prefix('-')).collect()
}

/// The first operand, where it is literal: a pattern, a filter.
pub fn operand(run: &Run<'_>) -> Option<String> {
    let spelt: Vec<&str> = run.words.get(1..)?.iter().map(|word| word.literal().unwrap_or("\u{1a}")).collect();
    let name = if matches!(run.statement.name(), "jq" | "awk") { run.statement.name() } else { "" };
    tools::operands(name, &spelt).next().filter(|word| !word.contains('\u{1a}')).map(|word| (*word).to_owned())
}

/// `spec.replicas` of `.spec.replicas`, of `{.spec.replicas}`, where it is a plain path.
fn path(text: &str) -> Option<String> {
    let text = text.trim().strip_prefix('{').map_or(text.trim(), |rest| rest.trim_end_matches('}'));
    let inner = text.strip_prefix('.')?;
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '[' | ']');
    (!inner.is_empty() && inner.chars().all(plain) && !inner.contains("[]") && !inner.contains(".."))
        .then(|| inner.to_owned())
}

/// The value of an option: `-o X`, `-oX`, `-o=X`, `--output X`, `--output=X`.
fn value_of<'r>(words: &[&'r str], short: &str, long: &str) -> Option<&'r str> {
    words.iter().enumerate().find_map(|(at, word)| {
        if *word == short || *word == long {
            return words.get(at + 1).copied();
        }
        let behind = word.strip_prefix(long).and_then(|rest| rest.strip_prefix('='));
        behind.or_else(|| word.strip_prefix(short).map(|rest| rest.trim_start_matches('=')))
    })
}

/// Whether the first line of a list says what stands in its columns.
pub fn is_headed(run: &Run<'_>) -> bool {
    let bare = |word: &Value| {
        word.literal().is_some_and(|word| word.starts_with("--no-headers") || word == "--quiet" || word == "-q")
    };
    read(run) == Form::Rows && !run.words.iter().any(bare)
}

/// In which form a chain prints.
fn form(runs: &[&Run<'_>]) -> Form {
    let Some((first, others)) = runs.split_first() else { return Form::Other };
    others.iter().fold(read(first), |form, run| {
        let options = options(run);
        let listed = matches!(form, Form::Rows | Form::Names);
        match run.statement.name() {
            "grep" | "egrep" | "fgrep" if options.contains('c') && listed => Form::Count,
            "grep" | "egrep" | "fgrep" if listed && !options.contains('o') => form,
            "wc" if options.contains('l') && listed => Form::Count,
            "jq" if form == Form::Object => operand(run).as_deref().and_then(path).map_or(Form::Other, Form::Field),
            "tr" if options.contains('d') => form,
            "head" | "tail" | "sort" | "tee" | "cat" => form,
            "xargs" if run.words.len() == 1 => form,
            _ => Form::Other,
        }
    })
}

/// In which form the first command prints.
fn read(run: &Run<'_>) -> Form {
    let words: Vec<&str> = run.words.iter().map(|word| word.literal().unwrap_or_default()).collect();
    // A brace that a task writes as `\{` is one to the shell.
    let value_of = |short: &str, long: &str| value_of(&words, short, long).map(|value| value.replace("\\{", "{"));
    let has = |word: &str| words.contains(&word);
    match run.statement.tool() {
        "kubectl" if has("get") => match value_of("-o", "--output").as_deref() {
            None | Some("wide") => Form::Rows,
            Some("name") => Form::Names,
            Some("json" | "yaml") => Form::Object,
            Some(other) => other.strip_prefix("jsonpath=").and_then(path).map_or(Form::Other, Form::Field),
        },
        "docker" if has("ps") || has("ls") => match () {
            () if words.iter().any(|word| word.starts_with("--format")) => Form::Other,
            () if has("-q") || has("-aq") || has("--quiet") => Form::Names,
            () => Form::Rows,
        },
        "helm" if has("list") || has("ls") || has("status") => match value_of("-o", "--output").as_deref() {
            None if !has("status") => Form::Rows,
            Some("json" | "yaml") if has("status") => Form::Object,
            _ => Form::Other,
        },
        "docker" if has("inspect") => {
            let format = value_of("-f", "--format").unwrap_or_default();
            let inner = format.strip_prefix("{{").and_then(|rest| rest.strip_suffix("}}")).unwrap_or_default();
            path(inner).map_or(Form::Other, Form::Field)
        }
        "curl" => {
            let written = value_of("-w", "--write-out").unwrap_or_default();
            let alone = matches!(written.replace("\\n", "").trim(), "%{http_code}" | "%{response_code}");
            let kept = words.iter().any(|word| {
                *word == "--output" || word.starts_with("-") && !word.starts_with("--") && word.contains(['o', 'O'])
            });
            if alone && kept { Form::Status } else { Form::Other }
        }
        _ => Form::Other,
    }
}
