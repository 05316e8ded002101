//! What the checks of a script require: the command whose output they check, the form in which it is printed, and the condition that
//! it must meet.

use std::{cell::OnceCell, ops::Range};

use rustc_hash::FxHashSet;

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

/// A check, and the output that it inspects.
#[derive(Debug)]
pub struct Question<'m> {
    /// The place of the check, and its statement.
    pub span: Span,
    pub content: &'m Content,
    pub statement: &'m Statement,
    /// The script that sources this content, if it is not the script itself.
    sourced_by: Option<&'m Content>,
    /// The commands whose output it inspects, in the order of the pipe. The first one reads the world.
    pub runs: Vec<&'m Run<'m>>,
    /// The file that it inspects instead of the output of commands.
    pub file: Option<Value>,
    pub form: Form,
    pub demand: Demand,
    among: Among,
    /// The statuses that the script can end with if the statement succeeds, and if it fails.
    outcomes: OnceCell<(flow::Status, flow::Status)>,
}

/// How a condition is combined with others in its check.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Among {
    Alone,
    /// `[[ A && B ]]`
    All,
    /// `[[ A || B ]]`
    Any,
    /// In parentheses, or with both operators.
    Mixed,
}

/// What is printed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Form {
    /// A single field, by its path: `spec.replicas`.
    Field(String),
    /// A whole resource, as YAML or JSON.
    Object,
    /// One row per resource, for people.
    Rows,
    /// One name per resource.
    Names,
    /// The number of rows or names.
    Count,
    /// The status code of a response: three digits.
    Status,
    Other,
}

/// The condition that the output must meet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Demand {
    /// `[ … -ge 3 ]`, with the output on the left.
    Compared { operator: String, with: String },
    /// `grep -q WORD`: the pattern, and the letters of the options.
    Matches { pattern: String, options: String },
    /// That there is output: `jq -e PATH`, `[ -n … ]`.
    There,
}

/// A statement and the text that contains it.
type Place<'m> = (&'m Content, &'m Statement);

impl<'m> Question<'m> {
    fn new((content, statement): Place<'m>, form: Form, runs: Vec<&'m Run<'m>>, demand: Demand) -> Self {
        let span = content.span(statement.range.clone());
        let outcomes = OnceCell::new();
        Self {
            span,
            content,
            statement,
            sourced_by: None,
            runs,
            file: None,
            form,
            demand,
            among: Among::Alone,
            outcomes,
        }
    }

    /// The statuses that the script can end with if the statement succeeds, and if it fails.
    pub fn outcomes(&self) -> (flow::Status, flow::Status) {
        *self.outcomes.get_or_init(|| match self.sourced_by {
            None => flow::outcomes(&self.content.program, &self.statement.range),
            Some(script) => {
                let (program, by) = script.program.sourcing(&self.content.program);
                let Range { start, end } = self.statement.range;
                flow::outcomes(&program, &(start + by..end + by))
            }
        })
    }

    /// Whether its check contains no other condition.
    pub fn is_alone(&self) -> bool {
        self.among == Among::Alone
    }

    /// Whether the script succeeds only if the condition is met (`true`), or only if it is not (`false`). Returns
    /// `None` if neither is certain.
    pub fn is_wanted(&self) -> Option<bool> {
        let (succeeded, failed) = self.outcomes();
        (succeeded.zero != failed.zero).then_some(succeeded.zero).filter(|wanted| match self.among {
            Among::Alone => true,
            Among::All => *wanted,
            Among::Any => !*wanted,
            Among::Mixed => false,
        })
    }
}

impl Demand {
    /// Whether a number meets the condition. Returns `None` for other conditions.
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

    /// The condition negated with `!`. Returns `None` for the others, whose negation requires that something is absent.
    fn negated(self) -> Option<Self> {
        const OPPOSITES: [(&str, &str); 5] =
            [("=", "!="), ("==", "!="), ("-eq", "-ne"), ("-ge", "-lt"), ("-gt", "-le")];
        let Self::Compared { operator, with } = self else { return None };
        let other = OPPOSITES.iter().find_map(|(a, b)| match operator.as_str() {
            known if known == *a => Some(*b),
            known if known == *b => Some(*a),
            _ => None,
        })?;
        Some(Self::Compared { operator: other.to_owned(), with })
    }
}

impl<'a> Model<'a> {
    /// What a command reads, if it is one resource or one kind of resources.
    pub fn read_by(&self, run: &Run<'_>) -> Option<&Act> {
        // In a loop, or in a function that is called again, the same resource may be read repeatedly.
        let mut acts = self.reads(run);
        let first = acts.next()?;
        acts.all(|act| act.thing == first.thing).then_some(first)
    }

    /// The kind of what a command reads, and whether it is named, if both are always the same.
    pub fn kind_read_by(&self, run: &Run<'_>) -> Option<(&str, bool)> {
        let mut all = self.reads(run).map(|act| (act.thing.kind.as_str(), act.thing.name.is_some()));
        let first = all.next()?;
        all.all(|other| other == first).then_some(first)
    }

    fn reads(&self, run: &Run<'_>) -> impl Iterator<Item = &Act> {
        let start = run.content.span(run.statement.range.clone());
        self.acts.iter().filter(move |act| {
            matches!(act.verb, Verb::Reads | Verb::Awaits)
                && act.span.file == start.file
                && act.span.start == start.start
        })
    }
}

/// The questions that the checks of a script ask.
pub fn questions<'m>(followed: &'m Followed<'_>) -> Vec<Question<'m>> {
    let trace = &followed.trace;
    let mut found = Vec::new();
    let tests = trace.tests.iter().map(|test| ((test.content, test.statement), test.words.as_slice()));
    let commands = trace.runs.iter().filter(|run| run.statement.name() == "test");
    let commands = commands.filter_map(|run| Some(((run.content, run.statement), run.words.get(1..)?)));
    for (place, words) in tests.chain(commands) {
        test(trace, place, words, &mut found);
    }
    for (content, statement, chain) in &trace.pipelines {
        if let Some((last, runs)) = whole(trace, *chain, 8).as_deref().and_then(<[_]>::split_last) {
            filter((content, statement), last, runs.to_vec(), &mut found);
        }
    }
    for run in trace.runs.iter().filter(|run| matches!(run.statement.name(), "grep" | "egrep" | "fgrep")) {
        let spelt = spelt(run);
        let Some(pattern) = tools::searched(&spelt) else { continue };
        let files: Vec<usize> = tools::operands("grep", &spelt)
            .filter(|word| !std::ptr::eq(*word, pattern))
            .filter_map(|word| spelt.iter().position(|known| std::ptr::eq(known, word)))
            .collect();
        if !files.is_empty() {
            let first = found.len();
            filter((run.content, run.statement), run, Vec::new(), &mut found);
            if let ([file], Some(question)) = (files.as_slice(), found.get_mut(first)) {
                question.file = run.words.get(file + 1).cloned();
            }
        }
    }
    let chains = trace.pipelines.iter().filter_map(|(.., chain)| trace.chains.get(*chain));
    let piped: FxHashSet<usize> = chains.flatten().copied().collect();
    for run in trace.runs.iter().enumerate().filter(|(at, _)| !piped.contains(at)).map(|(_, run)| run) {
        if let Some(runs) = run.input.as_ref().and_then(Value::printed).and_then(|chain| whole(trace, chain, 8)) {
            filter((run.content, run.statement), run, runs, &mut found);
        }
    }
    let script = followed.view.content.as_ref();
    for question in found.iter_mut().filter(|question| !std::ptr::eq(question.content, script)) {
        question.sourced_by = Some(script);
    }
    found
}

/// The outputs that the commands of a script pass on, each as the command that reads the world and the form of the
/// output.
pub fn printed<'m>(followed: &'m Followed<'_>) -> impl Iterator<Item = (&'m Run<'m>, Form)> {
    let trace = &followed.trace;
    (0..trace.chains.len()).filter_map(|chain| {
        let runs = whole(trace, chain, 8)?;
        Some((*runs.first()?, form(&runs)))
    })
}

/// The commands of a script that consists of one command or one pipeline.
pub fn only<'m>(followed: &'m Followed<'_>) -> Option<Vec<&'m Run<'m>>> {
    let trace = &followed.trace;
    let [statement] = followed.view.content.program.body.as_slice() else { return None };
    let piped = trace.pipelines.iter().find(|(_, known, _)| std::ptr::eq(*known, statement));
    match piped {
        Some((.., chain)) => whole(trace, *chain, 8),
        None => trace.runs.iter().rfind(|run| std::ptr::eq(run.statement, statement)).map(|run| vec![run]),
    }
}

/// The last command of a chain, whose output is passed on.
pub fn last_of<'m>(followed: &'m Followed<'_>, chain: usize) -> Option<&'m Run<'m>> {
    followed.trace.runs.get(*followed.trace.chains.get(chain)?.last()?)
}

/// The commands of a chain, preceded by those whose output it gets.
pub fn chain<'m>(followed: &'m Followed<'_>, chain: usize) -> Option<Vec<&'m Run<'m>>> {
    whole(&followed.trace, chain, 8)
}

/// Whether a command discards its output: `> /dev/null`.
pub fn discards(run: &Run<'_>) -> bool {
    is_discarded(run.content, run.statement)
}

/// Whether a statement discards its output: `> /dev/null`.
pub fn is_discarded(content: &Content, statement: &Statement) -> bool {
    // The range of a command after `!` does not include its redirections.
    let Some(last) = statement.words().last() else { return false };
    let behind = content.text.get(last.range.end..).unwrap_or_default();
    let behind = behind.split(['\n', ';', '|', ')', '<']).next().unwrap_or_default();
    let behind = behind.replace("2>/dev/null", "").replace("2> /dev/null", "");
    behind.contains("/dev/null") && behind.contains('>')
}

/// The pipelines of a script: commands that each get the output of the one before.
pub fn pipes<'m>(followed: &'m Followed<'_>) -> impl Iterator<Item = Vec<&'m Run<'m>>> {
    piped(followed).chain(fed(followed))
}

fn piped<'m>(followed: &'m Followed<'_>) -> impl Iterator<Item = Vec<&'m Run<'m>>> {
    let trace = &followed.trace;
    (0..trace.chains.len()).filter_map(|chain| whole(trace, chain, 8))
}

/// The commands whose input is the output of others, such as `jq … <<< "$x"`, each after those.
fn fed<'m>(followed: &'m Followed<'_>) -> impl Iterator<Item = Vec<&'m Run<'m>>> {
    let trace = &followed.trace;
    trace.runs.iter().filter_map(|run| {
        let mut runs = whole(trace, run.input.as_ref()?.printed()?, 8)?;
        runs.push(run);
        Some(runs)
    })
}

/// The jq filters that get the unchanged output of another command: that command, the jq run, and the filter.
pub fn filtered_by<'m>(followed: &'m Followed<'_>) -> impl Iterator<Item = (&'m Run<'m>, &'m Run<'m>, String)> {
    let all = piped(followed).chain(fed(followed).filter(|runs| runs.len() == 2));
    all.filter_map(|runs| match runs.as_slice() {
        [first, run, ..] if run.statement.name() == "jq" => operand(run).map(|filter| (*first, *run, filter)),
        _ => None,
    })
}

/// Whether a command prints a whole resource.
pub fn is_object(run: &Run<'_>) -> bool {
    read(run) == Form::Object
}

/// The pipelines of a script that start with a list of resources, each with the commands after it.
pub fn lists<'m>(followed: &'m Followed<'_>) -> impl Iterator<Item = (&'m Run<'m>, Vec<&'m Run<'m>>)> {
    let trace = &followed.trace;
    trace.pipelines.iter().filter_map(|(.., chain)| {
        let runs = whole(trace, *chain, 8)?;
        let (first, others) = runs.split_first()?;
        (read(first) == Form::Rows).then(|| (*first, others.to_vec()))
    })
}

/// The commands of a chain, preceded by those whose output its first command only repeats: `echo "$x" | …`,
/// `… <<< "$x"`.
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
    let has = |signs: [&str; 2]| words.iter().any(|word| signs.contains(&literal(word).as_str()));
    let among = match (has(["&&", "-a"]), has(["||", "-o"])) {
        _ if has(["(", ")"]) => Among::Mixed,
        (false, false) => Among::Alone,
        (true, false) => Among::All,
        (false, true) => Among::Any,
        (true, true) => Among::Mixed,
    };
    let is_between = |word: &Value| matches!(literal(word).as_str(), "&&" | "||" | "-a" | "-o");
    for part in words.split(is_between) {
        let part: Vec<&Value> = part.iter().filter(|word| !matches!(literal(word).as_str(), "(" | ")")).collect();
        let negations = part.iter().take_while(|word| literal(word) == "!").count();
        let (printed, demand) = match &part[negations..] {
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
        let demand = if negations % 2 == 0 { Some(demand) } else { demand.negated() };
        if let Some((runs, demand)) = whole(trace, printed, 8).zip(demand) {
            found.push(Question { among, ..Question::new(place, form(&runs), runs, demand) });
        }
    }
}

/// Adds the question of `… | grep -q WORD` or `… | jq -e PATH`.
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

/// The letters of all one-letter options.
pub fn options(run: &Run<'_>) -> String {
    let words = run.words.iter().skip(1).filter_map(Value::literal).take_while(|word| *word != "--");
    words.filter(|word| !word.starts_with("--")).filter_map(|word| word.strip_prefix('-')).collect()
}

/// The pattern of a grep, or the first operand of another program, if it is literal.
pub fn operand(run: &Run<'_>) -> Option<String> {
    let (name, spelt) = (run.statement.name(), spelt(run));
    let found = match name {
        "grep" | "egrep" | "fgrep" => tools::searched(&spelt),
        _ => tools::operands(name, &spelt).next(),
    };
    found.filter(|word| **word != UNKNOWN).map(|word| (*word).to_owned())
}

/// The words after the name of a command.
fn spelt<'r>(run: &'r Run<'_>) -> Vec<&'r str> {
    run.words.iter().skip(1).map(|word| word.literal().unwrap_or(UNKNOWN)).collect()
}

/// Replaces a word that is not known.
const UNKNOWN: &str = "\u{1a}";

/// `spec.replicas` for `.spec.replicas` or `{.spec.replicas}`, if it is a plain path.
fn path(text: &str) -> Option<String> {
    let text = text.trim().strip_prefix('{').map_or(text.trim(), |rest| rest.trim_end_matches('}'));
    let inner = text.strip_prefix('.')?;
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '[' | ']');
    (!inner.is_empty() && inner.chars().all(plain) && !inner.contains("[]") && !inner.contains(".."))
        .then(|| inner.to_owned())
}

/// The value of an option: `-o X`, `-oX`, `-o=X`, `--output X`, `--output=X`.
pub fn value_of<'r>(words: &[&'r str], short: &str, long: &str) -> Option<&'r str> {
    words.iter().enumerate().find_map(|(at, word)| {
        if *word == short || *word == long {
            return words.get(at + 1).copied();
        }
        let behind = word.strip_prefix(long).and_then(|rest| rest.strip_prefix('='));
        behind.or_else(|| word.strip_prefix(short).map(|rest| rest.trim_start_matches('=')))
    })
}

/// Whether the first line of a list is a header.
pub fn is_headed(run: &Run<'_>) -> bool {
    let bare = |word: &Value| word.literal().is_some_and(|word| word.starts_with("--no-headers"));
    read(run) == Form::Rows && !run.words.iter().any(bare)
}

/// The form in which a chain prints.
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

/// The form in which the first command prints.
fn read(run: &Run<'_>) -> Form {
    let (tool, words) = (run.statement.tool(), spelt(run));
    // A brace that a task writes as `\{` is a plain brace to the shell.
    let value_of = |short: &str, long: &str| value_of(&words, short, long).map(|value| value.replace("\\{", "{"));
    let mut operands = tools::operands(tool, &words).copied().filter(|word| *word != UNKNOWN).peekable();
    // `docker container ls`
    operands.next_if(|word| tool == "docker" && matches!(*word, "container" | "image" | "volume" | "network"));
    let asks = operands.next().unwrap_or_default();
    // Only names, one per resource.
    let brief = || options(run).contains('q') || words.iter().any(|word| matches!(*word, "--quiet" | "--short"));
    match tool {
        "kubectl" if asks == "get" => match value_of("-o", "--output").as_deref() {
            None | Some("wide") => Form::Rows,
            Some("name") => Form::Names,
            Some("json" | "yaml") => Form::Object,
            Some(other) => other.strip_prefix("jsonpath=").and_then(path).map_or(Form::Other, Form::Field),
        },
        "docker" if matches!(asks, "ps" | "ls") => match () {
            () if words.iter().any(|word| word.starts_with("--format")) => Form::Other,
            () if brief() => Form::Names,
            () => Form::Rows,
        },
        "helm" if matches!(asks, "list" | "ls" | "status") => match value_of("-o", "--output").as_deref() {
            None if asks == "status" => Form::Other,
            None if brief() => Form::Names,
            None => Form::Rows,
            Some("json" | "yaml") if asks == "status" => Form::Object,
            _ => Form::Other,
        },
        "helm" if asks == "get" && operands.next() == Some("values") => match value_of("-o", "--output").as_deref() {
            Some("json" | "yaml") => Form::Object,
            _ => Form::Other,
        },
        "docker" if asks == "inspect" => {
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
