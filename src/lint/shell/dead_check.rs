//! Checks in verify that decide nothing: the script ends in the same way whether they succeed or fail.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::{
    bash::{
        ast, flow,
        program::{Kind, Program, Statement},
        tools,
    },
    diagnostic::{Diagnostic, Diagnostics},
    effects::{
        Followed,
        asked::{self, Form},
        value::Value,
    },
    hir::PhaseKind,
    lint::{
        TaskView,
        analysis::python,
        script::Content,
        shell::{embedded, error_branch, exit_status},
        task::contradiction,
    },
    rule,
    source::Span,
};

rule! {
    pub static STATUS_IGNORED = "status-ignored", Warning;
}

/// Scripts with more commands are skipped, because each check is tried both ways.
const COMMANDS: usize = 400;
/// Maximum number of checks examined in a script.
const CHECKS: usize = 64;

pub fn check(view: &TaskView<'_>, out: &mut Diagnostics) {
    if exit_status::in_vain(view) {
        return;
    }
    for span in embedded::never_failing(view) {
        out.push(
            finding(span, "this program reports a problem, but exits with status 0")
                .help("exit with an error: `sys.exit(1)`, or use `assert`"),
        );
    }
    for script in view.scripts.iter().filter(|script| script.phase == PhaseKind::Verify && script.decides_by_status()) {
        let content = &script.content;
        let program = &content.program;
        if !program.sound || program.commands().len() > COMMANDS {
            continue;
        }
        let exits = |name: &str| {
            let mut exits = false;
            program.walk(&mut |s| match &s.kind {
                Kind::Function { name: known, body } if known == name => {
                    exits |= body.last().is_some_and(|last| {
                        last.name() == "exit" && last.words().get(1).is_some_and(|w| w.text == "0")
                    });
                }
                _ => {}
            });
            exits
        };
        if let Some(trap) = program.commands().into_iter().find(|command| ends_in_success(command, &exits)) {
            out.push(
                finding(content.span(trap.range.clone()), "`exit 0` discards the result of the checks before it")
                    .help("remove `exit 0`: the script then exits with the status of its last command"),
            );
            continue;
        }
        let reported = reported(content);
        unread(view, script, &reported, out);
        told_behind_loop(program, content, out);
        of_another(content, out);
        let followed = view.followed(script);
        let mut search = Search {
            found: Vec::new(),
            functions: FxHashMap::default(),
            reported,
            content,
            asked: FxHashSet::default(),
            programs: FxHashSet::default(),
            filters: followed.map(passed_filters).unwrap_or_default(),
        };
        program.walk(&mut |s| {
            if let Kind::Function { name, body } = &s.kind {
                search.functions.insert(name, body);
            }
        });
        let sources: Vec<&Program> =
            followed.iter().flat_map(|followed| &followed.trace.sources).map(|content| &content.program).collect();
        for source in &sources {
            source.walk(&mut |s| {
                if let Kind::Function { name, body } = &s.kind {
                    search.functions.insert(name, body);
                }
            });
        }
        program.walk(&mut |s| search.ask(s));
        if let Some(followed) = followed {
            program.walk(&mut |s| {
                if embedded::program(followed, s).is_some_and(|text| python::may_fail(&text)) {
                    search.programs.insert(s.range.start);
                }
            });
        }
        search.list(&program.body);
        search.at_the_end(&program.body);
        let found = search.found;
        let ways = flow::both_ways(program, &sources, found.iter().take(CHECKS).map(|check| &check.statement.range));
        for (Check { statement, fault, around }, (succeeded, failed)) in found.into_iter().zip(ways) {
            // In a script that fails anyway, a check may only explain the failure.
            if !succeeded.zero && !failed.zero
                || is_looked_at_again(view, content, statement)
                || followed.is_some_and(|followed| asks_nothing(followed, statement))
            {
                continue;
            }
            if ends_with_its_status(content, statement) {
                continue;
            }
            // A later step compares what it prints.
            if matches!(fault, Fault::Always) && view.uses_output_of(script.step) {
                continue;
            }
            let same = succeeded == failed;
            let (message, help) = match fault {
                Fault::Always if matches!(statement.name(), "jq" | "yq") => (
                    "this command succeeds regardless of what it finds",
                    "use `jq -e`, which fails if the result is false or null",
                ),
                Fault::Always => {
                    ("this command succeeds regardless of what it finds", "check its output: `| grep -q …`")
                }
                Fault::Masked => (
                    "this hides the exit status of the command inside it",
                    "declare the variable first, then assign it: `local x; x=$(command) || return 1`",
                ),
                Fault::Either | Fault::Inner if !same => continue,
                Fault::Inner => (
                    "`exit` ends only the subshell here, and the script continues",
                    "feed the loop without a pipe, `done < <(command)`, or append `|| exit 1` to it",
                ),
                Fault::Either => (
                    "the script exits with the same status whether this succeeds or fails",
                    "add `exit 1` for the case that the check fails, or make the check the last command",
                ),
            };
            if !is_said(view, content, around) {
                out.push(finding(content.span(first_line(content, statement)), message).help(help));
            }
        }
        unreachable(program, content, out);
    }
}

/// `if [ $rc -ne 0 ]; then exit $rc; fi`: the status is not 0 there.
fn ends_with_its_status(content: &Content, statement: &Statement) -> bool {
    let text = |range: &std::ops::Range<usize>| content.text.get(range.clone()).unwrap_or_default();
    let test = text(&statement.range);
    let is_nonzero = ["-ne 0", "!= 0", "-gt 0", "!= \"0\"", "!= '0'"].iter().any(|end| test.contains(end));
    let mut passed = false;
    content.program.walk(&mut |s| {
        let Kind::If { branches, .. } = &s.kind else { return };
        for branch in branches.iter().filter(|branch| branch.condition.iter().any(|c| c.range == statement.range)) {
            let last = branch.body.last().filter(|last| matches!(last.name(), "exit" | "return"));
            let operand = last.and_then(|last| last.words().get(1)).map(|word| word.text.trim_matches('"'));
            passed |= is_nonzero && operand.is_some_and(|name| name.starts_with('$') && test.contains(name));
        }
    });
    passed
}

/// A loop that waits until `$state` has the right value, followed only by a message on standard error that contains it.
fn told_behind_loop(program: &Program, content: &Content, out: &mut Diagnostics) {
    let text = |s: &Statement| content.text.get(s.range.clone()).unwrap_or_default();
    let mut lists: Vec<&[Statement]> = vec![&program.body];
    program.walk(&mut |s| s.lists(&mut |list| lists.push(list)));
    for list in lists {
        for (at, s) in list.iter().enumerate() {
            let (Kind::Loop { body, .. }, Some(told)) = (&s.kind, list.get(at + 1)) else { continue };
            if !sleeps(body) || !matches!(told.name(), "echo" | "printf") || !text(told).contains(">&2") {
                continue;
            }
            let mut tested: Vec<&str> = Vec::new();
            body.iter().for_each(|s| {
                s.walk(&mut |s| {
                    if matches!(s.kind, Kind::Test) {
                        tested.extend(names(text(s)));
                    }
                });
            });
            let said = names(text(told));
            let again = list[at + 2..]
                .iter()
                .any(|s| tested.iter().any(|name| said.contains(name) && names(text(s)).contains(name)));
            let ends = list.get(at + 2).is_some_and(|s| matches!(s.name(), "exit" | "return" | "false"));
            if said.iter().any(|name| tested.contains(name)) && !again && !ends {
                out.push(
                    finding(content.span(told.range.clone()), "this reports a problem, but the script continues")
                        .label(content.span(first_line(content, s)), "the result of this loop is not checked")
                        .help("compare the value again after the loop, and `exit 1` if it is wrong"),
                );
            }
        }
    }
}

/// Returns the variables that a text reads.
fn names(text: &str) -> Vec<&str> {
    let part = |c: char| !(c.is_ascii_alphanumeric() || c == '_');
    let behind = text.match_indices('$').map(|(at, _)| text[at + 1..].trim_start_matches('{'));
    behind.filter_map(|rest| rest.split(part).next()).filter(|name| ast::is_name(name)).collect()
}

/// `kubectl wait … || true`, followed by another check of the same resource; `[ -z "$x" ]` after
/// an `exit 1` that depended on it.
fn is_looked_at_again(view: &TaskView<'_>, content: &Content, statement: &Statement) -> bool {
    let place = content.span(statement.range.clone());
    let acts = || view.effects.in_phase(PhaseKind::Verify).filter(|act| act.span.file == place.file);
    let mut given_up = false;
    content.program.walk(&mut |s| {
        if let Kind::Or(pair) = &s.kind {
            given_up |= pair[0].range == statement.range && matches!(pair[1].name(), "true" | ":");
        }
    });
    if given_up && statement.words().iter().any(|word| word.text == "wait") {
        let mut awaited = acts().filter(|act| act.span.start == place.start).peekable();
        return awaited.peek().is_some()
            && awaited.all(|act| acts().any(|later| later.span.start > place.end && later.thing.is(&act.thing)));
    }
    let Some(name) = asked_whether_empty(content, statement) else { return false };
    let mut decided = false;
    content.program.walk(&mut |s| {
        if let Kind::If { branches, .. } = &s.kind {
            let asks = branches.iter().flat_map(|branch| &branch.condition).any(|condition| {
                condition.range.end <= statement.range.start && asked_whether_empty(content, condition) == Some(name)
            });
            s.walk(&mut |inner| {
                decided |= asks && inner.name() == "exit" && inner.words().get(1).is_some_and(|word| word.text != "0");
            });
        }
    });
    decided
}

/// Whether a test is independent of the environment's state: `[ "${DEBUG:-}" ]` is set by the caller of the script.
fn asks_nothing(followed: &Followed<'_>, statement: &Statement) -> bool {
    let mut tests = followed.trace.tests.iter().filter(|test| std::ptr::eq(test.statement, statement)).peekable();
    let is_file = |word: &Value| {
        word.literal()
            .is_some_and(|word| word.len() == 2 && word.starts_with('-') && !matches!(word, "-n" | "-z" | "-a" | "-o"))
    };
    tests.peek().is_some() && tests.all(|test| test.words.iter().all(|word| word.is_known() && !is_file(word)))
}

/// Returns the variable of `[ -z "$x" ]` and `[[ -n "${x}" ]]`.
fn asked_whether_empty<'c>(content: &'c Content, statement: &Statement) -> Option<&'c str> {
    let text = content.text.get(statement.range.clone())?;
    let inner = text.trim_start_matches('[').trim_end_matches(']').trim();
    let name =
        inner.strip_prefix("-z").or_else(|| inner.strip_prefix("-n"))?.trim().trim_matches('"').strip_prefix('$')?;
    let name = name.strip_prefix('{').and_then(|name| name.strip_suffix('}')).unwrap_or(name);
    ast::is_name(name).then_some(name)
}

/// Whether a branch reports a failure and continues, which `error_branch` reports.
fn is_said(view: &TaskView<'_>, content: &Content, around: Option<&std::ops::Range<usize>>) -> bool {
    let Some(around) = around else { return false };
    let place = content.span(around.clone());
    let mut said = Diagnostics::default();
    error_branch::check(view, &mut said);
    said.iter().any(|s| s.span.file == place.file && place.start <= s.span.start && s.span.end <= place.end)
}

fn finding(span: Span, message: &str) -> Diagnostic {
    Diagnostic::new(&STATUS_IGNORED, span, message)
}

/// `trap '…; exit 0' EXIT`.
fn ends_in_success(command: &Statement, exits: &dyn Fn(&str) -> bool) -> bool {
    let words = command.words();
    let Some(text) = words
        .get(1)
        .filter(|_| command.name() == "trap" && words.iter().any(|word| matches!(word.text.as_str(), "EXIT" | "0")))
    else {
        return false;
    };
    let text = text.text.trim_end().trim_end_matches(';').trim_end();
    text.ends_with("exit 0") || exits(text.rsplit([';', ' ']).next().unwrap_or_default())
}

/// Reports checks after a statement that always ends the script.
fn unreachable(program: &Program, content: &Content, out: &mut Diagnostics) {
    for (at, statement) in program.body.iter().enumerate() {
        if !matches!(statement.kind, Kind::If { .. }) || !flow::leaves(program, statement) {
            continue;
        }
        let behind = program.body[at + 1..].iter().find(|statement| {
            let mut checks = false;
            statement.walk(&mut |s| checks |= is_check(s, true));
            checks && !matches!(statement.kind, Kind::Function { .. })
        });
        if let Some(behind) = behind {
            out.push(
                finding(
                    content.span(first_line(content, behind)),
                    "this check never runs: the script has already ended",
                )
                .label(content.span(first_line(content, statement)), "the script ends here in every case")
                .help("remove `exit 0` if the script should continue"),
            );
        }
        return;
    }
}

/// What may be wrong with a check.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// Nothing depends on its exit status.
    Either,
    /// A declaration hides its exit status.
    Masked,
    /// It always succeeds.
    Always,
    /// It exits from a subshell whose exit status is ignored.
    Inner,
}

/// A statement that may be a check without effect.
struct Check<'p> {
    statement: &'p Statement,
    fault: Fault,
    /// The `if` whose condition it is, if every branch prints a message.
    around: Option<&'p std::ops::Range<usize>>,
}

struct Search<'p> {
    functions: FxHashMap<&'p str, &'p [Statement]>,
    found: Vec<Check<'p>>,
    /// Variables that are only printed and decide nothing.
    reported: FxHashSet<String>,
    content: &'p Content,
    /// Functions whose exit status the script uses for more than a message: their checks decide there.
    asked: FxHashSet<&'p str>,
    /// Positions of Python programs that exit with a failure if something is wrong.
    programs: FxHashSet<usize>,
    /// Positions of commands of jq whose filter is a parameter that always holds a question.
    filters: FxHashSet<usize>,
}

impl<'p> Search<'p> {
    fn push(&mut self, statement: &'p Statement, fault: Fault) {
        self.found.push(Check { statement, fault, around: None });
    }

    fn list(&mut self, list: &'p [Statement]) {
        for (nth, statement) in list.iter().enumerate() {
            let known = self.found.len();
            self.statement(statement, false);
            // One of several calls of a function is enough.
            let same = |check: &Check<'_>| check.statement.name() == statement.name();
            if self.is_function(statement) && self.found[..known].iter().any(same) {
                self.found.truncate(known);
            }
            // `rc=$?` saves the exit status, and `if [ $? -ne 0 ]; then exit 1; fi` asks for it.
            let keeps = |next: &Statement| {
                let text = |s: &Statement| self.content.text.get(s.range.clone()).unwrap_or_default();
                match &next.kind {
                    Kind::Assignment | Kind::Declaration => text(next).ends_with("=$?"),
                    Kind::If { branches, .. } => {
                        let mut ends = false;
                        next.walk(&mut |s| ends |= matches!(s.name(), "exit" | "return" | "break"));
                        ends && branches
                            .first()
                            .is_some_and(|first| first.condition.iter().any(|s| text(s).contains("$?")))
                    }
                    Kind::And(pair) | Kind::Or(pair) => text(&pair[0]).contains("$?") && !self.says(&pair[1..]),
                    _ => false,
                }
            };
            if list.get(nth + 1).is_some_and(keeps) {
                self.found.truncate(known);
            }
        }
    }

    fn statement(&mut self, statement: &'p Statement, tested: bool) {
        match &statement.kind {
            Kind::Command(_)
                if self.always(statement, tested)
                    || !tested && !statement.written && lists_one(statement)
                    || self.searches(statement, tested) =>
            {
                self.push(statement, Fault::Always);
            }
            // `((errors++))`
            Kind::Test if self.counts(statement) => {}
            Kind::Command(_) | Kind::Test
                if self.checks(statement, tested)
                    || self.is_function(statement)
                        && (tested || self.ends_in_check(statement) || self.reports_by_status(statement)) =>
            {
                self.push(statement, Fault::Either);
            }
            Kind::Declaration if tested && !statement.nested.is_empty() => self.push(statement, Fault::Masked),
            Kind::Pipeline(_) | Kind::Subshell(_) if !tested && self.exits_inside(statement) => {
                self.push(statement, Fault::Inner);
            }
            Kind::Pipeline(parts) => {
                // If the last part only passes its input on, the first part is the check.
                if let [first, .., last] = parts.as_slice()
                    && passes_on(last)
                {
                    self.statement(first, tested);
                } else if let [.., last] = parts.as_slice()
                    && self.always(last, tested)
                {
                    self.push(last, Fault::Always);
                } else if let [.., last] = parts.as_slice()
                    && self.checks(last, tested)
                {
                    self.push(statement, Fault::Either);
                }
            }
            Kind::And(pair) | Kind::Or(pair) => {
                let known = self.found.len();
                self.statement(&pair[0], true);
                if !self.says(&pair[1..]) {
                    let mut at = 0;
                    self.found.retain(|check| {
                        at += 1;
                        let answers = |s: &Statement| matches!(s.name(), "jq" | "yq");
                        at <= known || check.fault == Fault::Always && answers(check.statement)
                    });
                }
                self.statement(&pair[1], tested);
            }
            // With `set -e`, a failed negation does not end the script.
            Kind::Not(inner) if !tested => self.push(inner, Fault::Either),
            Kind::Not(inner) => self.statement(inner, true),
            Kind::If { branches, otherwise } => {
                let lists = branches.iter().map(|branch| branch.body.as_slice()).chain(otherwise.as_deref());
                if lists.clone().all(|list| self.says(list))
                    && let Some(last) = branches.first().and_then(|branch| branch.condition.last())
                {
                    let known = self.found.len();
                    self.statement(last, true);
                    self.found[known..].iter_mut().for_each(|check| check.around = Some(&statement.range));
                } else {
                    for last in branches.iter().filter_map(|branch| branch.condition.last()) {
                        let last = match &last.kind {
                            Kind::Not(inner) => inner,
                            _ => last,
                        };
                        let last = match &last.kind {
                            Kind::Pipeline(parts) => parts.last().unwrap_or(last),
                            _ => last,
                        };
                        if matches!(last.name(), "jq" | "yq") && self.always(last, true) {
                            self.push(last, Fault::Always);
                        }
                    }
                }
                for list in lists {
                    self.list(list);
                }
            }
            Kind::Group(list) | Kind::Subshell(list) => self.list(list),
            Kind::Function { name, body } if !self.asked.contains(name.as_str()) => self.list(body),
            // A loop that waits may report the current state.
            Kind::Loop { body, .. } if !sleeps(body) => self.list(body),
            Kind::Case(arms) => arms.iter().for_each(|arm| self.list(arm)),
            _ => {}
        }
    }

    /// Whether a command that is used as a check always succeeds.
    fn always(&self, statement: &Statement, tested: bool) -> bool {
        always(statement, tested) || self.filters.contains(&statement.range.start)
    }

    /// Whether a command is a query whose status says nothing about the answer: `psql -c "SELECT … WHERE …" >
    /// /dev/null`.
    fn searches(&self, statement: &Statement, tested: bool) -> bool {
        let name = match self.functions.get(statement.name()) {
            Some(body) => only(body).unwrap_or_default(),
            None => statement.name(),
        };
        matches!(name, "psql" | "mysql" | "sqlite3")
            && statement.words().iter().any(|word| is_search(&word.text) || is_condition(&word.text))
            && (tested || asked::is_discarded(self.content, statement))
    }

    /// Whether a statement calls a function that ends with a check.
    fn ends_in_check(&self, statement: &Statement) -> bool {
        let last = self.functions.get(statement.name()).and_then(|body| last(body));
        last.is_some_and(|last| is_check(last, false))
    }

    /// Whether a statement only increments a variable.
    fn counts(&self, statement: &Statement) -> bool {
        let text = self.content.text.get(statement.range.clone()).unwrap_or_default();
        text.starts_with("((") && contradiction::counter(text).is_some()
    }

    /// Whether a statement calls a function that fails without ending the script: with `return 1`, or with `exit 1` in a subshell.
    fn reports_by_status(&self, statement: &Statement) -> bool {
        fn look(list: &[Statement], inside: bool, fails: &mut bool, exits: &mut bool) {
            // `failed=1; return 1`: the variable decides.
            let notes = list.iter().any(|s| matches!(s.kind, Kind::Assignment));
            for s in list {
                let nonzero = s.words().get(1).is_some_and(|word| word.literal && word.text != "0");
                match s.name() {
                    "return" => *fails |= nonzero && !notes,
                    "exit" => *(if inside { &mut *fails } else { &mut *exits }) |= nonzero,
                    _ => {}
                }
                let inside = inside || matches!(s.kind, Kind::Subshell(_));
                s.lists(&mut |list| look(list, inside, fails, exits));
            }
        }
        let Some(body) = self.functions.get(statement.name()) else { return false };
        let (mut fails, mut exits) = (false, false);
        look(body, false, &mut fails, &mut exits);
        // A function that waits may give up, and the checks after it decide.
        fails && !exits && !sleeps(body)
    }

    /// Whether a command is run for its exit status.
    fn checks(&self, statement: &Statement, tested: bool) -> bool {
        is_check(statement, tested)
            || tested && CALLERS.contains(&statement.tool()) && asked::is_discarded(self.content, statement)
            || !statement.written && self.programs.contains(&statement.range.start)
    }

    /// Whether a function runs its arguments as a command: `"$@"`.
    fn runs_arguments(&self, name: &str) -> bool {
        let mut runs = false;
        self.functions.get(name).into_iter().flat_map(|body| body.iter()).for_each(|s| {
            s.walk(&mut |s| {
                let first = s.words().first().map_or("", |word| word.text.trim_matches('"'));
                runs |= s.name() == "eval" || ["$@", "${@", "$*", "$1", "${1"].iter().any(|all| first.starts_with(all));
            });
        });
        runs
    }

    /// Whether a statement runs in a subshell and may exit from it with a failure.
    fn exits_inside(&self, statement: &Statement) -> bool {
        let parts = match &statement.kind {
            Kind::Pipeline(parts) => {
                parts.iter().filter(|part| matches!(part.kind, Kind::Loop { .. })).collect::<Vec<_>>()
            }
            _ => vec![statement],
        };
        let leaves = |s: &Statement| s.name() == "exit" && s.words().get(1).is_some_and(|word| word.text != "0");
        // A function that ends with `exit` exits as well.
        let by_function = |s: &Statement| self.functions.get(s.name()).and_then(|body| last(body)).is_some_and(leaves);
        let mut exits = false;
        for part in parts {
            part.walk(&mut |s| exits |= leaves(s) || by_function(s));
        }
        exits
    }

    /// Records the functions whose exit status decides more than a message.
    fn ask(&mut self, s: &'p Statement) {
        // `retry 10 swept`: `retry` uses the exit status of `swept`.
        if self.runs_arguments(s.name()) {
            let handed: Vec<&'p str> = s.words()[1..]
                .iter()
                .map(|word| word.text.as_str())
                .filter(|word| self.functions.contains_key(word))
                .collect();
            self.asked.extend(handed);
        }
        let asks: Vec<&'p Statement> = match &s.kind {
            Kind::If { branches, otherwise } => {
                let lists = branches.iter().map(|branch| branch.body.as_slice()).chain(otherwise.as_deref());
                match lists.into_iter().all(|list| self.says(list)) {
                    true => Vec::new(),
                    false => branches.iter().flat_map(|branch| &branch.condition).collect(),
                }
            }
            Kind::And(pair) | Kind::Or(pair) if !self.says(&pair[1..]) => vec![&pair[0]],
            Kind::Loop { condition, .. } => condition.iter().collect(),
            _ => s.nested.iter().collect(),
        };
        for statement in asks {
            statement.walk(&mut |s| {
                if self.functions.contains_key(s.name()) {
                    self.asked.insert(s.name());
                }
            });
        }
    }

    /// The last statement sets the exit status of the script, even if it only prints something.
    fn at_the_end(&mut self, body: &'p [Statement]) {
        let Some(last) = body.last() else { return };
        if matches!(last.kind, Kind::Declaration) && !last.nested.is_empty() {
            self.push(last, Fault::Masked);
            return;
        }
        let deciding = match &last.kind {
            // With `pipefail`, the earlier parts decide as well.
            Kind::Pipeline(_) if self.content.program.sets('\0', "pipefail") => return,
            Kind::Pipeline(parts) => parts.last().unwrap_or(last),
            _ => last,
        };
        let prints = match deciding.name() {
            "jq" | "yq" => flow::succeeds(deciding.name(), deciding),
            "wc" => deciding.fed,
            "psql" | "mysql" => deciding.words().iter().any(|word| is_search(&word.text)),
            _ => self.functions.get(deciding.name()).is_some_and(|body| {
                matches!(only(body), Some("psql" | "mysql"))
                    && deciding.words().iter().any(|word| is_search(&word.text))
            }),
        };
        if prints
            && !last.written
            && !deciding.written
            && !self.found.iter().any(|check| std::ptr::eq(check.statement, deciding))
        {
            self.push(deciding, Fault::Always);
        }
    }

    fn is_function(&self, statement: &Statement) -> bool {
        self.functions.contains_key(statement.name())
    }

    /// Whether a list only prints something or exits.
    fn says(&self, list: &[Statement]) -> bool {
        self.only_says(list, 4)
    }

    fn only_says(&self, list: &[Statement], depth: usize) -> bool {
        let says = |list: &[Statement]| self.only_says(list, depth);
        list.iter().all(|statement| match &statement.kind {
            Kind::Command(_) if self.is_function(statement) => {
                depth > 0 && self.functions.get(statement.name()).is_some_and(|body| self.only_says(body, depth - 1))
            }
            Kind::Command(words) => {
                let looks = || {
                    let words: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
                    !is_check(statement, false) && tools::looks(&words.join(" "))
                };
                // If errors do not end the script, a difference is only shown.
                let shows = matches!(statement.name(), "diff" | "cmp") && !self.content.program.stops_at_errors();
                shows
                    || matches!(statement.name(), "echo" | "printf" | "true" | ":" | "exit" | "return" | "sleep")
                    || looks()
            }
            Kind::Assignment | Kind::Declaration => {
                let names = assigned(self.content, statement);
                statement.nested.is_empty()
                    && !names.is_empty()
                    && names.iter().all(|name| self.reported.contains(name))
            }
            Kind::Group(list) | Kind::Subshell(list) => says(list),
            Kind::Pipeline(parts) => says(parts),
            Kind::And(pair) | Kind::Or(pair) => says(pair.as_slice()),
            _ => false,
        })
    }
}

fn sleeps(list: &[Statement]) -> bool {
    let mut sleeps = false;
    list.iter().for_each(|s| s.walk(&mut |s| sleeps |= s.name() == "sleep"));
    sleeps
}

/// Returns the last statement of a list, without braces around it.
fn last(list: &[Statement]) -> Option<&Statement> {
    match list.last()? {
        Statement { kind: Kind::Group(list), .. } => last(list),
        last => Some(last),
    }
}

/// Returns the command of a function with only one.
fn only(body: &[Statement]) -> Option<&str> {
    match body {
        [Statement { kind: Kind::Group(list), .. }] => only(list),
        [only] => Some(only.name()),
        _ => None,
    }
}

/// `SELECT … WHERE …` succeeds even if it finds nothing.
fn is_search(text: &str) -> bool {
    let text = text.to_lowercase();
    text.trim_start_matches(['"', '\'']).starts_with("select") && text.contains(" where ")
}

/// `SELECT has_table_privilege(…)`, `SELECT EXISTS (…)`: the answer is in the output.
fn is_condition(text: &str) -> bool {
    let text = text.trim_start_matches(['"', '\'']).to_lowercase();
    let rest = text.strip_prefix("select").map(str::trim_start).unwrap_or_default();
    rest.starts_with("has_") || rest.starts_with("pg_has_role") || rest.starts_with("exists")
}

/// Returns the positions of a variable's name.
fn places<'t>(text: &'t str, name: &'t str) -> impl Iterator<Item = usize> + 't {
    let part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.match_indices(name).map(|(at, _)| at).filter(move |at| {
        // `.spec.type` is a field.
        let before = &text[..*at];
        !before.ends_with(part) && !before.ends_with('.') && !text[at + name.len()..].starts_with(part)
    })
}

/// Returns the innermost statement that contains a position.
fn holder(program: &Program, at: usize) -> Option<&Statement> {
    let mut found: Option<&Statement> = None;
    program.walk(&mut |s| {
        if s.range.contains(&at) && found.is_none_or(|known| s.range.len() <= known.range.len()) {
            found = Some(s);
        }
    });
    found
}

/// Returns the variables that a script sets and only reads to print or to count.
fn reported(content: &Content) -> FxHashSet<String> {
    let program = &content.program;
    let mut names: FxHashSet<String> = FxHashSet::default();
    program.walk(&mut |s| names.extend(assigned(content, s)));
    let only = |name: &str| {
        places(&content.text, name).all(|at| {
            let Some(holder) = holder(program, at) else { return is_comment(content, at) };
            match &holder.kind {
                Kind::Assignment | Kind::Declaration => assigned(content, holder).iter().any(|set| set == name),
                Kind::Command(_) => matches!(holder.name(), "echo" | "printf"),
                _ => false,
            }
        })
    };
    names.into_iter().filter(|name| only(name)).collect()
}

/// Returns the variables that an assignment or a declaration sets.
fn assigned(content: &Content, statement: &Statement) -> Vec<String> {
    if !matches!(statement.kind, Kind::Assignment | Kind::Declaration) {
        return Vec::new();
    }
    let text = content.text.get(statement.range.clone()).unwrap_or_default();
    let names = ast::split(text, 0).into_iter().map(|word| {
        let end = word.source.find(['=', '+', '[']).unwrap_or(word.source.len());
        word.source[..end].to_owned()
    });
    let declares =
        |name: &String| matches!(name.as_str(), "export" | "local" | "readonly" | "declare" | "typeset" | "unset");
    names.filter(|name| ast::is_name(name) && !declares(name)).collect()
}

fn is_comment(content: &Content, at: usize) -> bool {
    content.text[content.line_start(at)..at].contains('#')
}

/// `local found=$(kubectl get …)` without a use of `$found`: neither the exit status nor the output decides anything.
fn unread(
    view: &TaskView<'_>,
    script: &crate::lint::script::ScriptView<'_>,
    reported: &FxHashSet<String>,
    out: &mut Diagnostics,
) {
    let content = &script.content;
    let program = &content.program;
    let followed = view.followed(script);
    if followed.is_none_or(|followed| followed.trace.opaque) {
        return;
    }
    let given = |name: &str| view.declares(name) || crate::lint::task::env::read_by_programs(name);
    let mut reads: FxHashSet<usize> = FxHashSet::default();
    for (run, form) in followed.into_iter().flat_map(asked::printed) {
        // `gh issue view 7 --json labels --jq …` is asked for the values.
        let selects = || {
            let is_filter = |word: &str| matches!(word, "-q" | "--jq") || word.starts_with("--jq=");
            run.statement.name() == "gh" && run.words.iter().filter_map(Value::literal).any(is_filter)
        };
        // `… -o jsonpath='{.data.user}' | base64 -d`
        let decodes = || {
            let is_path = |word: &str| word.contains("jsonpath");
            run.statement.tool() == "kubectl" && run.words.iter().filter_map(Value::literal).any(is_path)
        };
        if std::ptr::eq(run.content, &**content)
            && (!matches!(form, Form::Other | Form::Names) || selects() || decodes())
        {
            let holder = |s: &&Statement| s.range.contains(&run.statement.range.start);
            program.walk(&mut |s| {
                if matches!(s.kind, Kind::Assignment) && holder(&s) {
                    reads.insert(s.range.start);
                }
            });
        }
    }
    let errexit = program.stops_at_errors() || exit_status::errexit_line(&content.text);
    let mut lists = Vec::new();
    program.walk(&mut |s| match &s.kind {
        Kind::If { branches, otherwise } => {
            lists.extend(branches.iter().map(|branch| branch.body.as_slice()));
            lists.extend(otherwise.as_deref());
        }
        Kind::Loop { body, .. } | Kind::Function { body, .. } | Kind::Group(body) => lists.push(body.as_slice()),
        _ => {}
    });
    lists.push(program.body.as_slice());
    for list in lists {
        for (nth, statement) in list.iter().enumerate() {
            let masked = matches!(statement.kind, Kind::Declaration);
            // If errors end the script, the command may be a check by itself, unless it reads a resource.
            let plain = matches!(statement.kind, Kind::Assignment)
                && if errexit { reads.contains(&statement.range.start) } else { nth + 1 < list.len() };
            if !(masked || plain) || statement.nested.is_empty() {
                continue;
            }
            let names = assigned(content, statement);
            let [name] = names.as_slice() else { continue };
            let is_read = |at: usize| {
                holder(program, at).map_or(!is_comment(content, at), |holder| {
                    !matches!(holder.kind, Kind::Assignment | Kind::Declaration)
                        || !assigned(content, holder).contains(name)
                })
            };
            // `rc=$?` reads the exit status of the capture.
            let asked = list.get(nth + 1).is_some_and(|next| content.text[next.range.clone()].contains("$?"));
            if !reported.contains(name)
                || name.starts_with('_')
                || given(name)
                || asked
                || content.text[statement.range.clone()].starts_with("export")
                || places(&content.text, name).any(is_read)
            {
                continue;
            }
            // If errors end the script, the exit status matters.
            let message = match plain && errexit {
                true => "the result of this command is ignored",
                false => "the result and the exit status of this command are ignored",
            };
            out.push(
                finding(content.span(first_line(content, statement)), message)
                    .here(format!("`${name}` is never read"))
                    .help("compare it with the expected value, or let the exit status of the command decide"),
            );
        }
    }
}

/// `echo …; if [ $? -ne 0 ]`: the status is that of `echo`.
fn of_another(content: &Content, out: &mut Diagnostics) {
    let mut look = |list: &[Statement]| {
        for pair in list.windows(2) {
            let prints = matches!(pair[0].name(), "echo" | "printf")
                && !pair[0].words().iter().any(|word| word.text.contains("$?"));
            let asks = match &pair[1].kind {
                Kind::If { branches, .. } => branches
                    .first()
                    .and_then(|branch| branch.condition.first())
                    .is_some_and(|condition| content.text[condition.range.clone()].contains("$?")),
                Kind::Test | Kind::Assignment => content.text[pair[1].range.clone()].contains("$?"),
                Kind::And(inner) | Kind::Or(inner) => content.text[inner[0].range.clone()].contains("$?"),
                Kind::Command(words) => pair[1].name() == "exit" && words.get(1).is_some_and(|word| word.text == "$?"),
                _ => false,
            };
            if prints && asks {
                out.push(
                    finding(
                        content.span(first_line(content, &pair[1])),
                        "`$?` is the exit status of the previous command, which only prints",
                    )
                    .label(content.span(first_line(content, &pair[0])), "this always succeeds")
                    .help("save the status directly after the command: `rc=$?`"),
                );
            }
        }
    };
    look(&content.program.body);
    content.program.walk(&mut |s| s.lists(&mut |list| look(list)));
}

/// Whether a command that is used as a check always succeeds.
fn always(statement: &Statement, tested: bool) -> bool {
    let words = statement.words();
    if matches!(statement.name(), "jq" | "yq") {
        let strict = words.iter().skip(1).any(|w| {
            w.text == "--exit-status" || w.text.starts_with('-') && !w.text.starts_with("--") && w.text.contains('e')
        });
        let filter = tools::operands("jq", &words[1..]).next();
        return !strict && filter.is_some_and(|filter| answers(&filter.text));
    }
    tested
        && (matches!(statement.tool(), "helm" | "kubectl" | "docker" | "git" | "gh")
            && flow::succeeds(statement.name(), statement)
            || finds(statement))
}

/// Returns the positions of `jq "$filter"` without `-e`, where each call of the function passes a question.
fn passed_filters(followed: &Followed<'_>) -> FxHashSet<usize> {
    let mut found: FxHashMap<usize, bool> = FxHashMap::default();
    for run in followed.trace.runs.iter().filter(|run| run.statement.name() == "jq") {
        let own = std::ptr::eq(run.content, &*followed.view.content);
        let literal = tools::operands("jq", &run.statement.words()[1..]).next().is_none_or(|word| word.literal);
        if !own
            || literal
            || asked::options(run).contains('e')
            || run.words.iter().any(|word| word.literal() == Some("--exit-status"))
        {
            continue;
        }
        let asks = asked::operand(run).is_some_and(|filter| answers(&filter));
        *found.entry(run.statement.range.start).or_insert(true) &= asks;
    }
    found.into_iter().filter(|(_, asks)| *asks).map(|(at, _)| at).collect()
}

/// Whether a filter of jq ends with a comparison or another question.
pub fn answers(filter: &str) -> bool {
    let asks = |filter: &str| {
        ["==", "!=", " and ", " or ", "any(", "all(", "contains(", "test(", " > ", " < ", " >= ", "has("]
            .iter()
            .any(|sign| filter.contains(sign))
    };
    // A selected value may be printed for other purposes, but not the result of a comparison.
    let answers = !filter.contains("select(") || asks(&outermost(filter));
    let last = filter.rsplit('|').next().unwrap_or_default().trim();
    let finds = ["index(", "startswith(", "endswith(", "inside("].iter().any(|call| last.starts_with(call));
    (asks(filter) && answers || finds) && !filter.contains("error(")
}

/// `find DIRECTORY -name NAME`, whose status is 0 if there is no such file.
fn finds(statement: &Statement) -> bool {
    let acts = |word: &str| matches!(word, "-exec" | "-execdir" | "-delete" | "-ok" | "-quit");
    statement.name() == "find"
        && statement.words().iter().any(|word| matches!(word.text.as_str(), "-name" | "-iname" | "-path"))
        && !statement.words().iter().any(|word| acts(&word.text))
}

/// `git tag -l NAME`: lists the tag if it exists, and succeeds in any case.
fn lists_one(statement: &Statement) -> bool {
    let words: Vec<&str> = statement.words().iter().skip(1).map(|word| word.text.as_str()).collect();
    let operands: Vec<&str> = tools::operands("git", &words).copied().collect();
    let lists = words.iter().any(|word| matches!(*word, "-l" | "--list"));
    statement.name() == "git" && lists && matches!(operands.as_slice(), ["tag" | "branch", _])
}

/// Returns the part of a filter outside of all brackets after its last pipe: `sort == [` for
/// `[.[] | .name] | sort == ["a"]`.
fn outermost(filter: &str) -> String {
    let (mut depth, mut found) = (0_usize, String::new());
    for c in filter.chars() {
        match c {
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            '|' if depth == 0 => found.clear(),
            c if depth == 0 => found.push(c),
            _ => {}
        }
        depth += usize::from(matches!(c, '(' | '[' | '{'));
    }
    found
}

/// Programs that ask another system. If their output is discarded, they are run for their exit status.
const CALLERS: [&str; 24] = [
    "kubectl",
    "docker",
    "helm",
    "curl",
    "wget",
    "nc",
    "ssh",
    "git",
    "gh",
    "aws",
    "gcloud",
    "az",
    "psql",
    "mysql",
    "sqlite3",
    "redis-cli",
    "mongosh",
    "pg_isready",
    "getent",
    "ping",
    "dig",
    "nslookup",
    "openssl",
    "systemctl",
];

/// Programs that are run for their exit status, each with words of which one is required.
const CHECKERS: [(&str, &[&str]); 30] = [
    ("promtool", &["check", "test"]),
    ("amtool", &["check-config"]),
    ("kubeconform", &[]),
    ("kubeval", &[]),
    ("yamllint", &[]),
    ("actionlint", &[]),
    ("hadolint", &[]),
    ("xmllint", &[]),
    ("tflint", &[]),
    ("eslint", &[]),
    ("tsc", &[]),
    ("mypy", &[]),
    ("flake8", &[]),
    ("ruff", &["check"]),
    ("jsonschema", &[]),
    ("pytest", &[]),
    ("shellcheck", &[]),
    ("python", &["pytest", "unittest", "py_compile", "compileall"]),
    ("python3", &["pytest", "unittest", "py_compile", "compileall"]),
    ("node", &["--check", "--test"]),
    ("npm", &["test"]),
    ("pnpm", &["test"]),
    ("yarn", &["test"]),
    ("go", &["test", "vet"]),
    ("cargo", &["test", "check", "clippy"]),
    ("make", &["test", "check"]),
    ("mvn", &["test", "verify"]),
    ("terraform", &["validate"]),
    ("nginx", &["-t"]),
    ("bash", &["-n"]),
];

/// Whether a command is run for its exit status. `tested`: whether the script tests it.
fn is_check(statement: &Statement, tested: bool) -> bool {
    let words = statement.words();
    let has = |options: &[&str]| words.iter().any(|word| options.contains(&word.text.as_str()));
    let short = |letter: char| {
        words.iter().skip(1).any(|w| w.text.starts_with('-') && !w.text.starts_with("--") && w.text.contains(letter))
    };
    match statement.tool() {
        "" => matches!(statement.kind, Kind::Test),
        "test" | "[" | "diff" | "cmp" => true,
        "grep" | "egrep" | "fgrep" => short('q') || tested,
        "jq" => {
            short('e')
                || has(&["--exit-status"])
                || tested
                || words.get(1).is_some_and(|filter| filter.text.contains("=="))
        }
        "curl" => short('f') || has(&["--fail"]),
        "kubectl" => {
            let verb = tools::operands("kubectl", &words[1..]).next().map(|word| word.text.as_str());
            matches!(verb, Some("wait" | "rollout")) || tested && matches!(verb, Some("get"))
        }
        "helm" => has(&["status", "test"]) || tested,
        "docker" => tested && has(&["inspect", "exec"]),
        "git" => {
            has(&["-e", "--verify", "--is-ancestor", "--error-unmatch", "--exit-code", "--quiet"])
                && has(&["cat-file", "rev-parse", "show-ref", "merge-base", "ls-files", "ls-remote", "diff"])
        }
        program => CHECKERS.iter().any(|(known, words)| *known == program && (words.is_empty() || has(words))),
    }
}

/// Whether a command succeeds regardless of its input.
fn passes_on(statement: &Statement) -> bool {
    matches!(statement.name(), "tee" | "cat" | "head" | "tail" | "sort" | "wc" | "uniq" | "sed")
}

fn first_line(content: &Content, statement: &Statement) -> std::ops::Range<usize> {
    let text = content.text.get(statement.range.clone()).unwrap_or_default();
    statement.range.start..statement.range.start + text.find('\n').unwrap_or(text.len())
}
