//! Determines which exit statuses a script can end with. Everything that is not known to succeed is assumed to be able
//! to fail, so *cannot fail* is certain and *can fail* is a guess.

use std::ops::Range;

use super::{
    program::{Kind, Program, Repeat, Statement},
    tools,
};

/// Which exit statuses are possible.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Status {
    pub zero: bool,
    pub other: bool,
}

impl Status {
    const NEVER: Self = Self { zero: false, other: false };
    pub const ZERO: Self = Self { zero: true, other: false };
    pub const OTHER: Self = Self { zero: false, other: true };
    pub const ANY: Self = Self { zero: true, other: true };

    fn or(self, more: Self) -> Self {
        Self { zero: self.zero || more.zero, other: self.other || more.other }
    }

    fn not(self) -> Self {
        Self { zero: self.other, other: self.zero }
    }
}

/// The statuses that a script can end with.
pub fn outcome(program: &Program) -> Status {
    Evaluator::new(program, None).run()
}

/// The statuses that a script can end with after the loop at `range` has run all its rounds without success, or, with
/// `by_break`, after a `break` has ended it. Returns `None` if the loop is never reached.
pub fn outcome_after(program: &Program, range: &Range<usize>, by_break: bool) -> Option<Status> {
    let evaluator = Evaluator { by_break, ..Evaluator::new(program, Some(range.clone())) };
    program.body.iter().any(|s| evaluator.holds(s)).then(|| evaluator.run())
}

/// Like [`outcome_after`], with the statuses of some statements given.
pub fn outcome_after_with(
    program: &Program,
    range: &Range<usize>,
    given: Vec<(Range<usize>, Status)>,
) -> Option<Status> {
    let evaluator = Evaluator { given, ..Evaluator::new(program, Some(range.clone())) };
    program.body.iter().any(|s| evaluator.holds(s)).then(|| evaluator.run())
}

/// For each of several statements: the statuses that a script can end with if the statement at the range succeeds, and
/// if it fails. `others` are programs that the script sources, for their functions.
pub fn both_ways<'r>(
    program: &Program,
    others: &[&Program],
    ranges: impl Iterator<Item = &'r Range<usize>>,
) -> Vec<(Status, Status)> {
    let mut evaluator = Evaluator::new(program, None);
    for other in others {
        other.walk(&mut |s| {
            if let Kind::Function { name, body } = &s.kind {
                evaluator.functions.push((name.as_str(), body.as_slice()));
            }
        });
    }
    let mut outcome = |range: &Range<usize>, given| {
        // Only the paths through the script that lead here count.
        evaluator.focus = Some(range.clone());
        evaluator.given = vec![(range.clone(), given)];
        evaluator.run()
    };
    ranges.map(|range| (outcome(range, Status::ZERO), outcome(range, Status::OTHER))).collect()
}

/// The statuses that a script can end with if the statement at `range` succeeds, and if it fails. Unknown if the script is
/// too long.
pub fn outcomes(program: &Program, range: &Range<usize>) -> (Status, Status) {
    if is_long(program) {
        return (Status::ANY, Status::ANY);
    }
    let mut evaluator = Evaluator::new(program, Some(range.clone()));
    let mut with = |status| {
        evaluator.given = vec![(range.clone(), status)];
        evaluator.run()
    };
    (with(Status::ZERO), with(Status::OTHER))
}

/// The maximum number of statements of a script in which single statements are followed, each of which takes time in
/// proportion to the whole script.
const LONG: usize = 1000;

fn is_long(program: &Program) -> bool {
    program.size > LONG
}

/// Whether nothing after a statement runs, because every path through it ends the script. Unknown, and so `false`, if the
/// script is too long.
pub fn leaves(program: &Program, statement: &Statement) -> bool {
    !is_long(program)
        && Evaluator::new(program, None).statement(statement, Status::ZERO, false, DEPTH).end == Status::NEVER
}

/// The statuses of one statement on its own. Unknown if the script is too long.
pub fn status(program: &Program, statement: &Statement) -> Status {
    if is_long(program) {
        return Status::ANY;
    }
    let flow = Evaluator::new(program, None).statement(statement, Status::ZERO, false, DEPTH);
    flow.end.or(flow.exit).or(flow.returned)
}

/// The statuses of a statement whose failure is tested, on its own. Loops are assumed to end. `others` are programs that
/// the script sources, for their functions. Unknown if the script is too long.
pub fn tested(program: &Program, others: &[&Program], statement: &Statement) -> Status {
    if is_long(program) {
        return Status::ANY;
    }
    let mut evaluator = Evaluator { patient: true, ..Evaluator::new(program, None) };
    for other in others {
        other.walk(&mut |s| {
            if let Kind::Function { name, body } = &s.kind {
                evaluator.functions.push((name.as_str(), body.as_slice()));
            }
        });
    }
    let flow = evaluator.statement(statement, Status::ZERO, true, DEPTH);
    flow.end.or(flow.exit).or(flow.returned)
}

/// The maximum depth of function calls.
const DEPTH: usize = 8;

/// Where control can go from a list of statements.
#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    /// To the statement after it.
    end: Status,
    exit: Status,
    returned: Status,
    /// Out of the enclosing loop.
    breaks: bool,
}

impl Flow {
    fn ends(end: Status) -> Self {
        Self { end, ..Self::default() }
    }

    fn or(self, more: Self) -> Self {
        Self {
            end: self.end.or(more.end),
            exit: self.exit.or(more.exit),
            returned: self.returned.or(more.returned),
            breaks: self.breaks || more.breaks,
        }
    }

    /// Combines the exits and returns so far with those of the next statement.
    fn then(self, next: Self) -> Self {
        Self { end: next.end, ..self.or(next) }
    }

    /// The flow in a separate process, where an exit is a normal end.
    fn inside(self) -> Self {
        Self::ends(self.end.or(self.exit).or(self.returned))
    }
}

struct Evaluator<'p> {
    program: &'p Program,
    functions: Vec<(&'p str, &'p [Statement])>,
    errexit: bool,
    pipefail: bool,
    focus: Option<Range<usize>>,
    /// Whether the loop in focus is left by `break`.
    by_break: bool,
    /// Whether a loop that waits ends by itself.
    patient: bool,
    /// Statements whose status is given.
    given: Vec<(Range<usize>, Status)>,
}

impl<'p> Evaluator<'p> {
    fn new(program: &'p Program, focus: Option<Range<usize>>) -> Self {
        let (mut functions, mut errexit, mut pipefail) = (Vec::new(), false, false);
        program.walk(&mut |s| {
            if let Kind::Function { name, body } = &s.kind {
                functions.push((name.as_str(), body.as_slice()));
            }
            errexit |= s.sets('e', "errexit");
            pipefail |= s.sets('\0', "pipefail");
        });
        Self { program, functions, errexit, pipefail, focus, by_break: false, patient: false, given: Vec::new() }
    }

    fn run(&self) -> Status {
        let flow = self.list(&self.program.body, Status::ZERO, false, DEPTH);
        flow.end.or(flow.exit).or(flow.returned)
    }

    fn function(&self, name: &str) -> Option<&'p [Statement]> {
        self.functions.iter().find(|(n, _)| *n == name).map(|(_, body)| *body)
    }

    /// Whether the statement in focus runs as part of this one, directly or in a function that it calls.
    fn holds(&self, statement: &Statement) -> bool {
        let Some(focus) = &self.focus else { return false };
        let inside = |r: &Range<usize>| r.start <= focus.start && focus.end <= r.end;
        let in_function = || self.functions.iter().any(|(_, body)| body.iter().any(|b| inside(&b.range)));
        if !inside(&statement.range) && !in_function() {
            return false;
        }
        let mut held = false;
        statement.walk(&mut |s| {
            held |= s.range == *focus;
            held |= self.function(s.name()).is_some_and(|body| body.iter().any(|b| inside(&b.range)));
        });
        held && !matches!(statement.kind, Kind::Function { .. })
    }

    fn list(&self, list: &[Statement], before: Status, tested: bool, depth: usize) -> Flow {
        let mut flow = Flow::ends(before);
        for statement in list {
            let next = self.statement(statement, flow.end, tested, depth);
            flow = if self.holds(statement) { next } else { flow.then(next) };
            if flow.end == Status::NEVER {
                break;
            }
        }
        flow
    }

    fn statement(&self, s: &Statement, before: Status, tested: bool, depth: usize) -> Flow {
        let nested = s.nested.iter().any(|n| self.statement(n, Status::ZERO, tested, depth).inside().end.other);
        if s.background {
            return Flow::ends(Status::ZERO);
        }
        // `command <<EOF || true`: with its here-document, the command has the same range as the whole pair.
        let is_whole = |pair: &[Statement; 2]| pair[0].range == s.range;
        let meant = !matches!(&s.kind, Kind::And(pair) | Kind::Or(pair) if is_whole(pair));
        let given = self.given.iter().find(|(range, _)| meant && *range == s.range).map(|(_, status)| *status);
        let flow = match &s.kind {
            _ if given.is_some() => Flow::ends(given.unwrap_or_default()),
            Kind::Command(_) => self.command(s, before, tested, depth),
            Kind::Assignment if nested || tested && (s.fed || s.written) => Flow::ends(Status::ANY),
            Kind::Assignment | Kind::Declaration => Flow::ends(Status::ZERO),
            Kind::Test => Flow::ends(Status::ANY),
            Kind::Unknown => Flow { end: Status::ANY, exit: Status::ANY, ..Flow::default() },
            Kind::Pipeline(parts) => {
                let mut ends = parts.iter().map(|p| self.statement(p, Status::ZERO, tested, depth).inside().end);
                let last = ends.next_back().unwrap_or(Status::ZERO);
                let early: Vec<Status> = if self.pipefail { ends.collect() } else { Vec::new() };
                let fails = early.iter().any(|e| e.other);
                Flow::ends(Status { other: last.other || fails, zero: last.zero && early.iter().all(|e| e.zero) })
            }
            Kind::And(pair) => self.pair(pair, before, false, tested, depth),
            Kind::Or(pair) => self.pair(pair, before, true, tested, depth),
            Kind::Not(inner) => {
                let flow = self.statement(inner, before, true, depth);
                return Flow { end: flow.end.not(), ..flow };
            }
            Kind::If { branches, otherwise } => {
                let mut flow = Flow::default();
                // Whether all earlier conditions may have been false.
                let mut goes_on = true;
                for branch in branches {
                    let condition = self.list(&branch.condition, before, true, depth);
                    let body = self.list(&branch.body, Status::ZERO, tested, depth);
                    if branch.body.iter().any(|s| self.holds(s)) {
                        return body;
                    }
                    if goes_on {
                        flow = flow.or(Flow { end: Status::NEVER, ..condition });
                        flow = if condition.end.zero { flow.or(body) } else { flow };
                        goes_on = condition.end.other;
                    }
                }
                match otherwise {
                    Some(body) if body.iter().any(|s| self.holds(s)) => {
                        return self.list(body, Status::ZERO, tested, depth);
                    }
                    _ if !goes_on => flow,
                    Some(body) => flow.or(self.list(body, Status::ZERO, tested, depth)),
                    None => flow.or(Flow::ends(Status::ZERO)),
                }
            }
            Kind::Loop { repeat, condition, body } => self.repeated(s, *repeat, condition, body, tested, depth),
            Kind::Case(arms) => {
                if let Some(arm) = arms.iter().find(|a| a.iter().any(|s| self.holds(s))) {
                    return self.list(arm, Status::ZERO, tested, depth);
                }
                arms.iter().map(|a| self.list(a, Status::ZERO, tested, depth)).fold(Flow::ends(Status::ZERO), Flow::or)
            }
            Kind::Group(body) => return self.list(body, before, tested, depth),
            Kind::Subshell(body) => self.list(body, before, tested, depth).inside(),
            Kind::Function { .. } => Flow::ends(Status::ZERO),
        };
        // Under `set -e`, a failure ends the script unless the status is tested. The parts of these compound statements
        // have already been handled.
        let made = matches!(s.kind, Kind::And(_) | Kind::Or(_) | Kind::If { .. } | Kind::Loop { .. } | Kind::Case(_));
        if self.errexit && !tested && flow.end.other && !made {
            let exit = flow.exit.or(Status::OTHER);
            return Flow { end: Status { other: false, ..flow.end }, exit, ..flow };
        }
        flow
    }

    /// `a && b`, `a || b`.
    fn pair(&self, pair: &[Statement; 2], before: Status, or: bool, tested: bool, depth: usize) -> Flow {
        let [left, right] = pair;
        let first = self.statement(left, before, true, depth);
        let second = self.statement(right, first.end, tested, depth);
        if self.holds(right) {
            return second;
        }
        let (goes_on, stays) = match or {
            true => (first.end.other, Status { other: false, ..first.end }),
            false => (first.end.zero, Status { zero: false, ..first.end }),
        };
        if goes_on { Flow { end: stays.or(second.end), ..first.or(second) } } else { Flow { end: stays, ..first } }
    }

    fn repeated(
        &self,
        s: &Statement,
        repeat: Repeat,
        condition: &[Statement],
        body: &[Statement],
        tested: bool,
        depth: usize,
    ) -> Flow {
        let asked = self.list(condition, Status::ZERO, true, depth);
        let round = self.list(body, Status::ZERO, tested, depth);
        if !self.given.is_empty() && body.iter().any(|s| self.holds(s)) {
            let end = if round.breaks { round.end.or(Status::ZERO) } else { round.end };
            return Flow { end, breaks: false, ..round };
        }
        if self.focus.as_ref() == Some(&s.range) {
            if self.by_break {
                return Flow::ends(Status::ZERO);
            }
            return Flow::ends(round.end.or(if repeat == Repeat::For { Status::NEVER } else { Status::ZERO }));
        }
        let ends_by_itself = match repeat {
            Repeat::For => true,
            Repeat::While => asked.end.other,
            Repeat::Until => asked.end.zero,
        };
        let end = Status { zero: ends_by_itself || round.breaks, other: ends_by_itself && round.end.other };
        let mut exit = asked.exit.or(round.exit);
        // A loop that waits without counting its rounds is ended by the timeout of the step, which is not a success.
        let mut sleeps = false;
        body.iter().for_each(|s| s.walk(&mut |s| sleeps |= s.name() == "sleep"));
        exit.other |= sleeps && repeat != Repeat::For && !self.patient;
        Flow { end, exit, returned: asked.returned.or(round.returned), breaks: false }
    }

    fn command(&self, s: &Statement, before: Status, tested: bool, depth: usize) -> Flow {
        let words = s.words();
        let given = |last: Status| match words.get(1) {
            None => last,
            Some(word) if !word.literal => Status::ANY,
            Some(word) if word.text == "0" => Status::ZERO,
            Some(_) => Status::OTHER,
        };
        if let Some(body) = self.function(s.name()) {
            let Some(depth) = depth.checked_sub(1) else {
                return Flow { exit: Status::ANY, ..Flow::ends(Status::ANY) };
            };
            let flow = self.list(body, Status::ZERO, tested, depth);
            return Flow { end: flow.end.or(flow.returned), exit: flow.exit, ..Flow::default() };
        }
        match s.name() {
            "exit" => Flow { exit: given(before), ..Flow::default() },
            "return" => Flow { returned: given(before), ..Flow::default() },
            "break" => Flow { breaks: true, ..Flow::default() },
            // `${x:?}` can end the script.
            "true" | ":" | "echo" | "printf" if words.iter().any(|w| w.text.contains("${") && w.text.contains('?')) => {
                Flow { exit: Status::OTHER, ..Flow::ends(Status::ZERO) }
            }
            // A file that cannot be opened; the status of a job; the status of an option.
            "true" | ":" | "echo" | "printf" if tested && (s.fed || s.written) => Flow::ends(Status::ANY),
            "wait" if words.len() > 1 => Flow::ends(Status::ANY),
            "shopt" if words.iter().any(|w| w.text == "-q") => Flow::ends(Status::ANY),
            "true" | ":" | "echo" | "printf" | "sleep" | "set" | "shopt" | "continue" | "wait" | "pwd" | "date"
            | "clear" => Flow::ends(Status::ZERO),
            "false" => Flow::ends(Status::OTHER),
            "trap" if words.iter().any(|w| w.text.contains("exit") || w.text == "ERR") => {
                Flow { exit: Status::ANY, ..Flow::ends(Status::ZERO) }
            }
            "trap" => Flow::ends(Status::ZERO),
            "exec" if words.len() > 1 => Flow { exit: Status::ANY, ..Flow::default() },
            "exec" => Flow::ends(if tested { Status::ANY } else { Status::ZERO }),
            // Commands that list the resources of a system succeed as well; the rules handle these.
            name if !tested && tools::tool(name).is_some_and(|tool| tool.system.is_empty()) && succeeds(name, s) => {
                Flow::ends(Status::ZERO)
            }
            "source" | "." | "eval" | "kill" => Flow { exit: Status::ANY, ..Flow::ends(Status::ANY) },
            _ => Flow::ends(Status::ANY),
        }
    }
}

/// Whether a program succeeds regardless of what it finds, according to its table.
pub fn succeeds(name: &str, s: &Statement) -> bool {
    let known = tools::tool(name).and_then(|tool| Some((tool, tool.command(&s.words()[1..], s.fed)?)));
    // A kind that is not in the table may not exist at all.
    known.is_some_and(|(tool, command)| {
        let knows = |words: &[super::Word]| {
            let operand = tools::operands(name, &words[1..]).nth(1);
            operand.is_some_and(|word| word.literal && word.text.split(',').all(|kind| tool.kind(kind).is_some()))
        };
        command.succeeds && (!command.usage.contains("KIND") || knows(s.words()))
    })
}
