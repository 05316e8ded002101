//! Converts `V=$(command)` and the tests of `V` after it to one command with an expected output.

use super::{
    End, Flow, Lifter, Next, Out, State,
    command::{
        BARE, NOT_A_NUMBER, OUTPUT_STATUS, PLAIN_NUMBER, cannot_fail, expect_of, handed_on, is_echo, takes_option,
    },
    is_line, messages,
    statement::{self, by_line, here_string, split},
};
use crate::{
    bash::{
        self,
        ast::{self, Kind, List, Part, Redirect, Stmt, Word},
    },
    convert::{
        Label, pattern,
        shell::{self, Text},
        step::{self, Expect, NOT_EMPTY, Not, Range, Step},
    },
    hir::PhaseKind,
    template,
};

/// A variable that contains what a command printed.
struct Capture {
    var: String,
    out: Out,
    /// The pipeline, if it became one line.
    pipeline: Option<List>,
    /// What the variable contains if the command fails; `None` if the script ends then.
    fallback: Option<Fallback>,
    /// The value of the variable is the number of lines.
    lines: bool,
    /// What replaces an empty value: `V=${V:-0}`.
    default: Option<String>,
    demands: Vec<Demand>,
    comments: Vec<String>,
}

enum Fallback {
    /// Whatever the command has printed.
    Output,
    /// That, and this text: `|| echo 0`.
    Else(String),
    /// Only this text: `V=$(…) || V=0`.
    Instead(String),
}

/// What a test requires of a variable.
#[derive(Clone, Debug)]
struct Demand {
    var: String,
    kind: Ask,
    /// The script continues if the values cannot be compared.
    lenient: bool,
    /// The variable is not quoted.
    bare: bool,
}

#[derive(Clone, PartialEq, Debug)]
enum Ask {
    Text(Expect),
    /// `double`: in `[[ ]]`, which evaluates the value as an expression.
    Number {
        operator: &'static str,
        limit: u64,
        double: bool,
    },
}

impl<'a> Lifter<'a> {
    /// Converts captures and the guards after them. A value that is also read elsewhere must be an output, so one line of shell prints
    /// it.
    pub(super) fn capture(&self, rest: &[Stmt], st: &mut State, end: End) -> Option<Next> {
        let (before, ids, files) =
            (st.clone(), self.shared.ids.borrow().clone(), self.shared.temporary.borrow().clone());
        self.captured(rest, st, end).or_else(|| {
            self.shared.ids.replace(ids);
            self.shared.temporary.replace(files);
            *st = State { as_line: true, ..before };
            let next = self.captured(rest, st, end);
            st.as_line = false;
            next
        })
    }

    fn captured(&self, rest: &[Stmt], st: &mut State, end: End) -> Option<Next> {
        let mut captures: Vec<Capture> = Vec::new();
        let mut at = 0;
        while let Some(stmt) = rest.get(at) {
            let sure = self.must_succeed(&rest[at..], st);
            let capture = match &sure {
                Some((inner, ..)) => self.one_capture(inner, &State { errexit: true, fragile: false, ..st.clone() }),
                None => self.one_capture(stmt, st),
            };
            match capture {
                Some(mut capture) => {
                    if captures.iter().any(|c| c.var == capture.var) {
                        break;
                    }
                    if let Some((_, said, more)) = sure {
                        capture.comments = messages(&said);
                        at += more;
                    }
                    captures.push(capture);
                }
                None if at > 0 && self.idle(stmt) => {}
                None => break,
            }
            at += 1;
        }
        if captures.is_empty() {
            return None;
        }
        // The id of each capture, if something refers to it.
        let mut ids = Vec::new();
        for capture in &captures {
            let id = self.shared.id(&capture.var.replace('_', "-"));
            let whole = !capture.lines
                && !matches!(capture.fallback, Some(Fallback::Else(_) | Fallback::Instead(_)))
                && matches!(capture.out.steps.last().map(|s| &s.kind), Some(step::Kind::Command { .. }));
            let hole = whole.then(|| Text::hole(format!("{{steps.{id}.outputs.stdout}}"), None, true));
            st.scope.set(&capture.var, hole);
            ids.push((id, whole));
        }
        let mut ended = None;
        while let Some(stmt) = rest.get(at) {
            if self.idle(stmt) || self.defaulted(stmt, &mut captures, st) {
                at += 1;
                continue;
            }
            let Some((demands, said, last)) = self.guard(stmt, &rest[at + 1..], &captures, st, end) else { break };
            // A demand that cannot be combined with the others gets a check of its own.
            if last.is_none() && demands.iter().any(|demand| crowded(demand, &captures)) {
                break;
            }
            let mut told = messages(&stmt.comments);
            told.extend(messages(&said));
            for demand in demands {
                let capture = captures.iter_mut().find(|c| c.var == demand.var)?;
                if !told.is_empty() {
                    capture.comments.append(&mut told);
                }
                capture.demands.push(demand);
            }
            at += 1;
            if last.is_some() {
                ended = last;
                break;
            }
        }
        let all = captures.len();
        let mut out = Out::none();
        let texts: Vec<String> = captures.iter().map(|c| format!("{:?}", c.demands)).collect();
        for (i, capture) in captures.into_iter().enumerate() {
            let var = capture.var.clone();
            let (id, whole) = ids[i].clone();
            let compared = texts.iter().any(|t| t.contains(&format!("{{steps.{id}.")));
            let later = rest[at..].iter().filter(|s| !self.idle(s));
            let used = compared
                || format!("{ended:?}").contains(&format!("{{steps.{id}."))
                || ended.is_none() && statement::reads(later, &var);
            if used && (!whole || capture.default.is_some()) {
                return None;
            }
            let comments = capture.comments.clone();
            let loose = used && capture.demands.is_empty() && capture.fallback.is_some();
            let unchecked = !used && capture.demands.is_empty() && capture.fallback.is_none();
            let vain = unchecked && self.phase == PhaseKind::Verify && cannot_fail(&capture.out);
            let mut lifted = match &capture.pipeline {
                _ if loose => capture.out,
                // Only the last command decides, which alone is a check.
                Some(list) if vain => self.filtered(list, st, false, true)?,
                _ => self.built(capture, st)?,
            };
            if used {
                let step = lifted.last()?;
                step.id = Some(id.clone());
                if loose {
                    step.any_status();
                }
                // For commands that the value is piped into. A file that nothing reads is removed at the end.
                let piped = rest[at..].iter().any(|s| pipes(s, &var));
                if piped && ended.is_none() {
                    let path = self.shared.file(&id, "json");
                    let content = Some(format!("{{steps.{id}.outputs.stdout}}\n"));
                    let file = step::Kind::File { path: path.clone(), content, mode: None };
                    lifted.steps.push(Step::new(file));
                    st.scope.files.insert(var.clone(), path);
                }
            } else {
                self.shared.ids.borrow_mut().remove(&id);
            }
            // The first one gets its comments from the list.
            let comments = if i == 0 && all == 1 { comments } else { [messages(&rest[i].comments), comments].concat() };
            out = out.then(lifted.told(&comments));
        }
        match ended {
            None => Some(Next::Steps(out, at)),
            Some(Flow::Falls(more)) => Some(Next::End(Flow::Falls(out.then(more)))),
            Some(Flow::Passes(more, ending)) => Some(Next::End(Flow::Passes(out.then(more), ending))),
            Some(Flow::Fails(_)) => None,
        }
    }

    /// `V=${V:-0}` before any test of `V`: from there on, the captured value has a default.
    fn defaulted(&self, stmt: &Stmt, captures: &mut [Capture], st: &State) -> bool {
        let Kind::Assign(assigns) = &stmt.kind else { return false };
        let [assign] = assigns.as_slice() else { return false };
        let Some([Part::Var { name, default: Some(default), .. }]) = assign.value.as_ref().map(|w| w.parts.as_slice())
        else {
            return false;
        };
        let own = *name == assign.name && !assign.odd && !assign.export && !assign.local;
        let capture = captures.iter_mut().find(|c| own && c.var == *name && c.default.is_none() && !c.lines);
        match (capture, st.scope.parts(default, true).and_then(|text| self.fixed(&text))) {
            (Some(capture), Some(text)) if capture.demands.is_empty() => {
                capture.default = Some(text);
                true
            }
            _ => false,
        }
    }

    /// `V=$(…) || V=0`: returns the assignment of the command, and the text that replaces what it prints.
    pub(super) fn replaced<'s>(&self, stmt: &'s Stmt, st: &State) -> Option<(&'s Stmt, String)> {
        let Kind::Or(pair) = &stmt.kind else { return None };
        let (inner, name, otherwise) = statement::captures(stmt)?;
        let [Stmt { kind: Kind::Assign(assigns), background: false, .. }] = otherwise else { return None };
        let [assign] = assigns.as_slice() else { return None };
        let plain = assign.name == name && !assign.odd && !assign.export && !assign.local && !pair[0].background;
        let text = self.fixed(&st.scope.parts(&assign.value.as_ref().filter(|_| plain)?.parts, true)?)?;
        Some((inner, text))
    }

    /// Whether a statement only prints, unconditionally or depending on known values.
    pub(super) fn idle(&self, stmt: &Stmt) -> bool {
        match &stmt.kind {
            Kind::If { branches, otherwise } => {
                let prints = |list: &[Stmt]| list.iter().all(|s| self.idle(s));
                let branch = |(condition, body): &(ast::List, ast::List)| {
                    condition.iter().all(|s| self.only_compares(s)) && prints(body)
                };
                branches.iter().all(branch) && prints(otherwise.as_deref().unwrap_or_default()) && !stmt.background
            }
            Kind::Simple(simple) => {
                matches!(self.name(simple), Some("echo" | "printf" | ":" | "true"))
                    && !statement::has_effects(simple)
                    && !statement::runs_commands(simple)
                    && !stmt.background
            }
            _ => false,
        }
    }

    /// `V=$(…) || exit 1`, `if ! V=$(…); then exit 1; fi`, and `V=$(…)` before `if [ $? -ne 0 ]; then exit 1; fi`: returns the
    /// assignment, what is printed if its command fails, and how many more statements belong to it.
    pub(super) fn must_succeed<'s>(&self, rest: &'s [Stmt], st: &State) -> Option<(&'s Stmt, Vec<String>, usize)> {
        let (inner, _, otherwise) = statement::captures(rest.first()?)?;
        // Ending a round of a wait is not the same as ending the script.
        (!st.waiting && !rest[0].background).then_some(())?;
        let fails = |list: &[Stmt]| match self.seq(list, State { tail: true, ..st.clone() }, End::Falls)? {
            Flow::Fails(said) => Some(said),
            _ => None,
        };
        if !otherwise.is_empty() {
            return Some((inner, fails(otherwise)?, 0));
        }
        let Kind::Assign(assigns) = &inner.kind else { return None };
        let Kind::If { branches, otherwise: None } = &rest.get(1)?.kind else { return None };
        let [(condition, body)] = branches.as_slice() else { return None };
        let [Stmt { kind: Kind::Test(test, _), .. }] = condition.as_slice() else { return None };
        let asks = matches!(test.replace('"', "").trim(), "$? -ne 0" | "$? != 0" | "$? -gt 0");
        (asks && !assigns[0].local).then_some(())?;
        Some((inner, fails(body)?, 1))
    }

    fn one_capture(&self, stmt: &Stmt, st: &State) -> Option<Capture> {
        let replaced = self.replaced(stmt, st);
        let stmt = replaced.as_ref().map_or(stmt, |(inner, _)| inner);
        let Kind::Assign(assigns) = &stmt.kind else { return None };
        let [assign] = assigns.as_slice() else { return None };
        // A temporary file whose name is in `TMP` is not the directory that some programs look for there.
        let temporary = assign.name == "TMP"
            && assign.value.as_ref().is_some_and(|word| word.source.trim_start_matches('"').starts_with("$(mktemp"));
        let special = statement::is_special(&assign.name) && !temporary;
        if assign.odd || assign.export || special || st.scope.wild.contains(&assign.name) {
            return None;
        }
        let [Part::Command { text, .. }] = assign.value.as_ref()?.parts.as_slice() else { return None };
        let list = ast::read(&bash::parse(text)?)?;
        let [inner] = list.as_slice() else { return None };
        // `local V=$(…)` has the status of `local`.
        let mut fallback = match replaced {
            Some((_, text)) => Some(Fallback::Instead(text)),
            None => (!st.errexit || assign.local).then_some(Fallback::Output),
        };
        if st.errexit && st.fragile && fallback.is_none() && !matches!(inner.kind, Kind::Or(_)) {
            return None;
        }
        let mut inner = inner;
        if let Kind::Or(pair) = &inner.kind {
            let Kind::Simple(other) = &pair[1].kind else { return None };
            fallback = Some(match self.name(other)? {
                "true" | ":" if !statement::has_effects(other) => Fallback::Output,
                "echo" if other.words.len() <= 2 && other.redirects.is_empty() => {
                    let word = other.words.get(1);
                    match word.map_or(Some(String::new()), |w| self.fixed(&st.scope.word(w)?))? {
                        // A line break at the end adds nothing to what is captured.
                        text if text.is_empty() => Fallback::Output,
                        text => Fallback::Else(text),
                    }
                }
                _ => return None,
            });
            if st.as_line && matches!(fallback, Some(Fallback::Else(_))) {
                let fallback = (!st.errexit || assign.local).then_some(Fallback::Output);
                let (var, out) = (assign.name.clone(), self.line(inner, st, st.pipefail)?);
                let (demands, comments) = (Vec::new(), Vec::new());
                return Some(Capture {
                    var,
                    out,
                    pipeline: None,
                    fallback,
                    lines: false,
                    default: None,
                    demands,
                    comments,
                });
            }
            inner = &pair[0];
        }
        // If the status is not checked, the commands of a pipeline need not succeed.
        let strict = st.pipefail && !matches!(fallback, Some(Fallback::Output));
        let capture = |out, fallback, lines| {
            let (var, demands, comments) = (assign.name.clone(), Vec::new(), Vec::new());
            Some(Capture { var, out, pipeline: None, fallback, lines, default: None, demands, comments })
        };
        let line = |fallback| capture(self.line(inner, st, strict)?, fallback, false);
        match &inner.kind {
            Kind::Simple(simple)
                if simple.redirects.iter().any(|r| matches!(r, Redirect::Read(_) | Redirect::Merge)) =>
            {
                line(fallback)
            }
            // A value that is used later is an output, which no request has.
            Kind::Simple(simple) if st.as_line && self.name(simple) == Some("curl") => line(fallback),
            Kind::Simple(simple) => {
                let own = ["echo", "printf", "date", "basename", "dirname", "pwd", "cd"];
                let name = self.name(simple)?;
                if own.contains(&name) || name == "cat" && !(simple.words.len() == 2 && simple.redirects.is_empty()) {
                    return None;
                }
                let out = match here_string(simple) {
                    Some(list) => self.filtered(&list, st, strict, true)?,
                    None => self.command(simple, st, true)?,
                };
                capture(out, fallback, false)
            }
            Kind::Pipeline(_) if st.as_line => line(fallback),
            Kind::Pipeline(list) => {
                let counts = list.iter().rposition(|s| !is_trim(s)).filter(|at| is(&list[*at], "wc -l"));
                match counts {
                    Some(at) if at > 0 => {
                        // `wc` succeeds, whatever it counts.
                        match (&fallback, strict) {
                            (Some(Fallback::Else(_) | Fallback::Instead(_)), true) => return None,
                            (_, false) => fallback = Some(Fallback::Output),
                            _ => {}
                        }
                        match self.counted(&list[..at], st, strict) {
                            Some((out, by_line)) => capture(out, fallback, by_line),
                            None => line(fallback),
                        }
                    }
                    _ => {
                        let capture = capture(self.piped(list, st, strict, true)?, fallback, false)?;
                        let pipeline = (capture.out.steps.len() == 1).then(|| list.clone());
                        Some(Capture { pipeline, ..capture })
                    }
                }
            }
            _ => None,
        }
    }

    /// Converts what `wc -l` counts: with `true` the lines that a command prints, with `false` the number itself.
    fn counted(&self, list: &[Stmt], st: &State, strict: bool) -> Option<(Out, bool)> {
        let Kind::Simple(last) = &list.last()?.kind else { return None };
        let words: Vec<&str> = last.words.iter().map(|w| w.source.as_str()).collect();
        match (list.len(), self.name(last)?) {
            (1, _) => by_line(&words).then_some((self.command(last, st, true)?, true)),
            // Each match is a line. An empty last line is no line of an output.
            (_, "grep") => {
                let letters = |word: &&str| word.starts_with('-') && !word.starts_with("--");
                let plain = |word: &str| word[1..].chars().all(|flag| "EFGiowx".contains(flag));
                let (flags, patterns): (Vec<&str>, Vec<&str>) = words[1..].iter().copied().partition(letters);
                let [pattern] = patterns.as_slice() else { return None };
                let is_empty = |line: &str| line.trim_matches(['"', '\'', '^', '$', '.', '*']).is_empty();
                // Parts of such a pattern may be empty.
                let is_open = pattern.contains(['|', '*', '?', '{']);
                let counts = flags.into_iter().all(plain) && !is_empty(pattern) && !is_open;
                (counts && !pattern.starts_with('-')).then_some(())?;
                Some((self.piped(list, st, strict, true)?, true))
            }
            // A text may be empty.
            (_, "jq") => {
                let raw = |word: &&str| {
                    word.starts_with("--raw")
                        || word.starts_with("--join")
                        || word.starts_with('-') && !word.starts_with("--") && word.contains(['r', 'j'])
                };
                words[1..].iter().all(|word| !raw(word)).then_some(())?;
                Some((self.piped(list, st, strict, true)?, true))
            }
            _ => None,
        }
    }

    /// Converts a test of what commands print: `[ "$(kubectl get …)" = x ]`.
    pub(super) fn asked(&self, words: &[Word], double: bool, st: &State, positive: bool) -> Option<Out> {
        let mut captures: Vec<Capture> = Vec::new();
        let mut plain = Vec::new();
        for word in words {
            let [Part::Command { quoted, .. }] = word.parts.as_slice() else {
                plain.push(word.clone());
                continue;
            };
            let var = format!("it{}", captures.len());
            // The exit status of a command in a test is ignored.
            let assign = ast::Assign {
                name: var.clone(),
                value: Some(word.clone()),
                export: false,
                local: true,
                odd: false,
                array: None,
            };
            let stmt = Stmt { range: 0..0, kind: Kind::Assign(vec![assign]), comments: Vec::new(), background: false };
            captures.push(self.one_capture(&stmt, &State { errexit: false, fragile: false, ..st.clone() })?);
            plain.push(Word::read(&if *quoted { format!("\"${var}\"") } else { format!("${var}") }, 0));
        }
        // `[ "$(a)" = "$(b)" ]`: the second is compared with what the first has printed.
        let mut st = st.clone();
        let read = match (plain.as_slice(), captures.as_slice()) {
            ([a, _, b], [first, _])
                if [a, b].iter().all(|word| word.source.starts_with('"'))
                    && !first.lines
                    && matches!(first.fallback, Some(Fallback::Output))
                    && matches!(first.out.steps.last().map(|s| &s.kind), Some(step::Kind::Command { .. })) =>
            {
                let id = self.shared.id("expected");
                st.scope.set(&first.var, Some(Text::hole(format!("{{steps.{id}.outputs.stdout}}"), None, true)));
                Some((first.var.clone(), id))
            }
            _ => None,
        };
        let st = &st;
        for demand in self.expression(&plain, double, positive, &captures, st)? {
            captures.iter_mut().find(|c| c.var == demand.var)?.demands.push(demand);
        }
        let mut out = Out::none();
        for capture in captures {
            match read.as_ref().filter(|(var, _)| *var == capture.var && capture.demands.is_empty()) {
                Some((_, id)) => {
                    out = out.then(capture.out);
                    let step = out.last()?;
                    step.id = Some(id.clone());
                    step.any_status();
                }
                None => {
                    (!capture.demands.is_empty()).then_some(())?;
                    out = out.then(self.built(capture, st)?);
                }
            }
        }
        Some(out)
    }

    /// Whether a guard after a loop tests the condition that ended the loop: `[ "$V" = x ] && break`, then `[ "$V" != x ] && exit 1`.
    /// Returns what the guard prints otherwise.
    pub(super) fn same_question(&self, body: &[Stmt], guard: &Stmt, st: &State) -> Option<Vec<String>> {
        let st = State { errexit: false, fragile: false, tail: false, ..st.clone() };
        let captures: Vec<Capture> = body.iter().filter_map(|s| self.one_capture(s, &st)).collect();
        let breaks =
            |list: &[Stmt]| list.iter().any(|s| matches!(&s.kind, Kind::Simple(s) if self.name(s) == Some("break")));
        let wanted = body.iter().find_map(|s| match &s.kind {
            Kind::If { branches, .. } => match branches.as_slice() {
                [(condition, then)] if breaks(then) => condition.first(),
                _ => None,
            },
            Kind::And(pair) if breaks(&pair[1..]) => Some(&pair[0]),
            _ => None,
        })?;
        let wanted = self.demands(wanted, true, &captures, &st)?;
        let (asked, said, ended) =
            self.guard(guard, &[], &captures, &State { tail: false, ..st.clone() }, End::Falls)?;
        let same = wanted.iter().map(|d| (&d.var, &d.kind)).eq(asked.iter().map(|d| (&d.var, &d.kind)));
        (ended.is_none() && same).then_some(said)
    }

    /// The command whose whole output a statement assigns to this variable.
    pub(super) fn captured_command(&self, stmt: &Stmt, name: &str, st: &State) -> Option<String> {
        let capture = self.one_capture(stmt, &State { errexit: false, fragile: false, ..st.clone() })?;
        let whole = !capture.lines && !matches!(capture.fallback, Some(Fallback::Else(_) | Fallback::Instead(_)));
        let [step] = capture.out.steps.as_slice() else { return None };
        let step::Kind::Command { run, .. } = &step.kind else { return None };
        (whole && capture.var == name).then(|| run.clone())
    }

    /// Returns the command with all demands as its expectations.
    fn built(&self, capture: Capture, st: &State) -> Option<Out> {
        let Capture { out, fallback, lines, mut demands, .. } = capture;
        let code = |out: &Out| {
            let last = out.steps.last().map(|s| &s.kind);
            matches!(last, Some(step::Kind::Http { expect, .. }) if expect.status.as_deref() == Some("code"))
        };
        if demands.is_empty() {
            let mut out = out;
            if code(&out) {
                out.last()?.any_status();
            }
            return Some(if fallback.is_some() { self.ignored(out) } else { out });
        }
        let run = out.steps.last().and_then(|s| match &s.kind {
            step::Kind::Command { run, .. } => Some(run.as_str()),
            _ => None,
        });
        // A plain decimal number has only digits.
        let is_plain = |d: &Demand| matches!(d.kind, Ask::Number { .. }) && !d.lenient;
        if demands.iter().any(is_plain) && !st.waiting && !run.is_some_and(pads) {
            let digits = Ask::Text(Expect { matches: Some(DIGITS.to_owned()), ..Expect::default() });
            demands.retain(|d| d.kind != digits);
        }
        let filter = run.is_some_and(|run| out.steps.len() > 1 || super::filters(run));
        let several = demands.iter().filter(|demand| matches!(demand.kind, Ask::Number { .. })).count() > 1;
        // The script compares what was printed, whatever the exit status.
        let mut any = false;
        let mut wanted = Expect::default();
        let mut why: Vec<&str> = Vec::new();
        for demand in &demands {
            let counts = lines || run.is_some_and(counts);
            let expect = match (&demand.kind, lines) {
                (Ask::Text(expect), false) => expect.clone(),
                (Ask::Text(expect), true) => match expect.equals.as_deref()?.parse::<u64>() {
                    Ok(n) => line_count("-eq", n)?,
                    Err(_) => return None,
                },
                (Ask::Number { operator, limit, .. }, true) => line_count(operator, *limit)?,
                (Ask::Number { operator, limit, double }, false) => {
                    // A wait must end when the shell ends it: with `007`, with `-1`, and with a word that `[[` reads as 0.
                    let odd = st.waiting && !counts;
                    // Under `set -u` such a word ends the script.
                    let name_ends = odd && *double && (st.nounset || compare(operator, 0, *limit));
                    (!name_ends).then_some(())?;
                    let how = pattern::Numeral {
                        padded: odd || run.is_some_and(pads),
                        odd: odd && !double,
                        octal: odd && *double,
                    };
                    if !counts {
                        why.push(PLAIN_NUMBER);
                    }
                    match *operator {
                        "-eq" if how == pattern::Numeral::default() => {
                            Expect { equals: Some(limit.to_string()), ..Expect::default() }
                        }
                        // No count is less than 0.
                        "-le" if counts && *limit == 0 => Expect { equals: Some("0".to_owned()), ..Expect::default() },
                        // A range includes fractions, which end the script only where it demands the opposite. `[[` reads `010` as 8.
                        // A count is neither.
                        "-ge" | "-gt" | "-le" | "-lt"
                            if counts || demand.lenient && !st.waiting && !(*double && operator.starts_with("-g")) =>
                        {
                            Expect { range: Range::of(operator, *limit)?, ..Expect::default() }
                        }
                        // Two patterns cannot be combined, but ranges of whole numbers can.
                        _ if several && how == pattern::Numeral::default() && Range::of(operator, *limit).is_some() => {
                            let matches = pattern::number("-ge", 0, how).map(|number| template::escape(&number));
                            Expect { range: Range::of(operator, *limit)?, matches, ..Expect::default() }
                        }
                        _ => {
                            let number = pattern::number(operator, *limit, how)?;
                            Expect { matches: Some(template::escape(&number)), ..Expect::default() }
                        }
                    }
                }
            };
            if demand.bare {
                why.push(BARE);
            }
            if demand.lenient && !counts {
                // A value that is not a number would end the wait.
                (!st.waiting).then_some(())?;
                why.retain(|known| *known != PLAIN_NUMBER);
                why.push(if matches!(demand.kind, Ask::Number { .. }) { NOT_A_NUMBER } else { BARE });
            }
            // If the command fails, the script compares this instead.
            match &fallback {
                Some(Fallback::Else(text) | Fallback::Instead(text)) if holds(&demand.kind, &expect, text, lines) => {
                    return None;
                }
                Some(Fallback::Instead(_)) => {}
                // Text after the output does not hide what is searched for in it, but a digit makes another number.
                Some(Fallback::Else(_)) => {
                    let found = match &demand.kind {
                        Ask::Number { operator, .. } => {
                            matches!(*operator, "-ge" | "-gt") && run.is_some_and(|run| run.contains("jsonpath"))
                        }
                        Ask::Text(expect) => {
                            let open = |m: &String| m.starts_with("(?m)") || !m.ends_with('$');
                            expect.contains.is_some() || expect.matches.as_ref().is_some_and(open)
                        }
                    };
                    any |= st.waiting && run.is_some() && found;
                }
                Some(Fallback::Output) => {
                    // Another output may be empty as well.
                    let open = expect.equals.as_deref().is_some_and(|e| e.starts_with("{steps."));
                    let empty = open || holds(&demand.kind, &expect, if lines { "0" } else { "" }, lines);
                    (run.is_some() || !empty).then_some(())?;
                    let speaks = run.is_some_and(speaks_of_failure);
                    any |= run.is_some() && (st.waiting || st.by_output || empty || filter || speaks);
                }
                None => {}
            }
            wanted = wanted.and(expect)?;
        }
        let mut out = out;
        if any && !code(&out) {
            out.last()?.any_status();
        } else if !matches!(fallback, None | Some(Fallback::Instead(_))) {
            why.push(OUTPUT_STATUS);
        }
        let told = |out: Out| why.iter().fold(out, |out, why| out.but(Label::Stronger, why));
        if code(&out) {
            let step::Kind::Http { expect, .. } = &mut out.last()?.kind else { return None };
            expect.status = Some(wanted.equals.filter(|c| c.len() == 3 && c.bytes().all(|b| b.is_ascii_digit()))?);
            return Some(told(out));
        }
        Some(told(self.expecting(out, &wanted)?))
    }

    /// Converts a statement that lets the list continue only if captured variables meet its demands. Returns the demands, what is
    /// printed otherwise, and how the list ends if it ends there.
    fn guard(
        &self,
        stmt: &Stmt,
        after: &[Stmt],
        captures: &[Capture],
        st: &State,
        end: End,
    ) -> Option<(Vec<Demand>, Vec<String>, Option<Flow>)> {
        let last = after.is_empty() && st.tail && end == End::Falls;
        let inner = State { tail: last, ..st.clone() };
        let body = |list: &[Stmt]| self.seq(list, inner.clone(), End::Falls);
        let asks = |s: &Stmt, positive| self.demands(s, positive, captures, st);
        match &stmt.kind {
            Kind::If { branches, otherwise } => {
                // `if A; then exit 0; elif B; then exit 0; else exit 1; fi`
                if let [(a, x), (b, y)] = branches.as_slice()
                    && let ([a], [b]) = (a.as_slice(), b.as_slice())
                    && let (Flow::Passes(o, e), Flow::Passes(p, _)) = (body(x)?, body(y)?)
                    && o.steps.is_empty()
                    && p.steps.is_empty()
                {
                    let Flow::Fails(said) = body(otherwise.as_deref()?)? else { return None };
                    return Some((alternatives(asks(a, true)?, asks(b, true)?)?, said, Some(Flow::Passes(o, e))));
                }
                let [(condition, then)] = branches.as_slice() else { return None };
                let [condition] = condition.as_slice() else { return None };
                match (body(then)?, body(otherwise.as_deref().unwrap_or_default())?) {
                    (Flow::Fails(said), Flow::Falls(o)) if o.steps.is_empty() => {
                        Some((asks(condition, false)?, said, None))
                    }
                    (Flow::Falls(o), Flow::Fails(said)) if o.steps.is_empty() => {
                        Some((asks(condition, true)?, said, None))
                    }
                    (Flow::Fails(said), flow @ Flow::Passes(..)) => Some((asks(condition, false)?, said, Some(flow))),
                    (flow @ Flow::Passes(..), Flow::Fails(said)) => Some((asks(condition, true)?, said, Some(flow))),
                    (Flow::Passes(o, e), Flow::Falls(f)) if f.steps.is_empty() => {
                        let Flow::Fails(said) = self.seq(after, st.clone(), end)? else { return None };
                        Some((asks(condition, true)?, said, Some(Flow::Passes(o, e))))
                    }
                    _ => None,
                }
            }
            Kind::Or(pair) => match body(std::slice::from_ref(&pair[1]))? {
                Flow::Fails(said) => Some((asks(&pair[0], true)?, said, None)),
                _ => None,
            },
            Kind::And(pair) => match body(std::slice::from_ref(&pair[1]))? {
                Flow::Fails(said) if !last => Some((asks(&pair[0], false)?, said, None)),
                flow @ Flow::Passes(..) => {
                    let Flow::Fails(said) = self.seq(after, st.clone(), end)? else { return None };
                    Some((asks(&pair[0], true)?, said, Some(flow)))
                }
                Flow::Falls(o) if last && o.steps.is_empty() => {
                    Some((asks(&pair[0], true)?, Vec::new(), Some(Flow::Falls(o))))
                }
                _ => None,
            },
            Kind::Test(..) | Kind::Pipeline(_) | Kind::Not(_) | Kind::Simple(_) if last => {
                Some((asks(stmt, true)?, Vec::new(), Some(Flow::Falls(Out::none()))))
            }
            Kind::Test(..) | Kind::Pipeline(_) if st.errexit && !st.fragile => {
                Some((asks(stmt, true)?, Vec::new(), None))
            }
            _ => None,
        }
    }

    /// Returns what must be true of each variable for a condition to be true (or false).
    fn demands(&self, stmt: &Stmt, positive: bool, captures: &[Capture], st: &State) -> Option<Vec<Demand>> {
        let joined = |a: Option<Vec<Demand>>, b: Option<Vec<Demand>>| Some([a?, b?].concat());
        match &stmt.kind {
            Kind::Not(inner) => self.demands(inner, !positive, captures, st),
            Kind::And(pair) if positive => {
                joined(self.demands(&pair[0], true, captures, st), self.demands(&pair[1], true, captures, st))
            }
            Kind::Or(pair) if !positive => {
                joined(self.demands(&pair[0], false, captures, st), self.demands(&pair[1], false, captures, st))
            }
            Kind::Or(pair) => {
                alternatives(self.demands(&pair[0], true, captures, st)?, self.demands(&pair[1], true, captures, st)?)
            }
            Kind::And(pair) => {
                alternatives(self.demands(&pair[0], false, captures, st)?, self.demands(&pair[1], false, captures, st)?)
            }
            Kind::Test(inner, double) => self.expression(&split(inner)?, *double, positive, captures, st),
            Kind::Pipeline(list) => {
                let [first, last] = list.as_slice() else { return None };
                let (Kind::Simple(first), Kind::Simple(last)) = (&first.kind, &last.kind) else { return None };
                if self.name(last)? != "grep" {
                    return None;
                }
                let word = handed_on(first)?;
                let found = self.found(word, last, true, captures, st)?;
                let swallowed =
                    is_echo(first) && found.iter().any(|d| matches!(&d.kind, Ask::Text(e) if takes_option(e)));
                (!swallowed).then_some(())?;
                if positive { Some(found) } else { self.found(word, last, false, captures, st) }
            }
            Kind::Simple(simple) if self.name(simple)? == "grep" => {
                let mut simple = simple.clone();
                let here = simple.redirects.iter().position(|r| matches!(r, Redirect::Herestring(_)))?;
                let Redirect::Herestring(word) = simple.redirects.remove(here) else { return None };
                self.found(&word, &simple, positive, captures, st)
            }
            _ => None,
        }
    }

    /// Returns the demand that `grep` finds something in a variable, or does not.
    fn found(
        &self,
        word: &Word,
        grep: &ast::Simple,
        positive: bool,
        captures: &[Capture],
        st: &State,
    ) -> Option<Vec<Demand>> {
        let [Part::Var { name, default: None, quoted: true }] = word.parts.as_slice() else { return None };
        captures.iter().find(|c| c.var == *name && c.default.is_none())?;
        let expect = expect_of(self.wanted(grep, st)?);
        let expect = if positive { expect } else { Expect { not: Some(Not::of(&expect)?), ..Expect::default() } };
        Some(vec![Demand { var: name.clone(), kind: Ask::Text(expect), lenient: false, bare: false }])
    }

    fn expression(
        &self,
        words: &[Word],
        double: bool,
        positive: bool,
        captures: &[Capture],
        st: &State,
    ) -> Option<Vec<Demand>> {
        for (token, joins) in [("||", !positive), ("-o", !positive), ("&&", positive), ("-a", positive)] {
            if let Some(at) = words.iter().position(|w| w.source == token) {
                let a = self.expression(&words[..at], double, positive, captures, st)?;
                let b = self.expression(&words[at + 1..], double, positive, captures, st)?;
                return if joins { Some([a, b].concat()) } else { alternatives(a, b) };
            }
        }
        // An error in `[ ! … ]` makes the whole test false.
        let lenient = !positive;
        let (words, positive) = match words.split_first() {
            Some((first, rest)) if first.source == "!" => (rest, !positive),
            _ => (words, positive),
        };
        let subject = |word: &Word| -> Option<(String, Option<String>, bool)> {
            let [Part::Var { name, default, quoted }] = word.parts.as_slice() else { return None };
            let capture = captures.iter().find(|c| c.var == *name)?;
            let default = match (default, &capture.default) {
                (_, Some(default)) => Some(default.clone()),
                (Some(parts), None) => Some(ast::literal(parts)?),
                (None, None) => None,
            };
            // Without quotes, an empty value leaves nothing to compare.
            Some((name.clone(), default, !quoted && !double))
        };
        let one = |var: String, kind: Ask, lenient: bool| Some(vec![Demand { var, kind, lenient, bare: false }]);
        let text = |expect: Expect| Ask::Text(expect);
        let not_empty = || Expect { matches: Some(NOT_EMPTY.to_owned()), ..Expect::default() };
        let empty = || Expect { equals: Some(String::new()), ..Expect::default() };
        match words {
            [word] => {
                let (var, default, _) = subject(word)?;
                default.is_none().then_some(())?;
                one(var, text(if positive { not_empty() } else { empty() }), false)
            }
            [op, word] if matches!(op.source.as_str(), "-z" | "-n") => {
                let (var, default, bare) = subject(word)?;
                let wants_empty = (op.source == "-z") == positive;
                // `[ -n $V ]` is always true, and the result of `[ -z $V ]` depends on the words of the value.
                if default.is_some_and(|d| !d.is_empty()) || bare {
                    return None;
                }
                one(var, text(if wants_empty { empty() } else { not_empty() }), false)
            }
            [a, op, b] => {
                // Of two variables, the later one can be compared with the earlier one.
                let place = |w: &Word| subject(w).and_then(|(var, ..)| captures.iter().position(|c| c.var == var));
                let (word, other, swapped) = if place(a) >= place(b) { (a, b, false) } else { (b, a, true) };
                let (var, default, bare) = subject(word)?;
                let operator = op.source.as_str();
                match operator {
                    "=" | "==" | "!=" => {
                        let equal = (operator != "!=") == positive;
                        // Without quotes, ` failed` is `failed`.
                        if bare && !equal {
                            return None;
                        }
                        // `[[ public == $V ]]`: without quotes, the value is a pattern.
                        if double && !self.is_text(b, st) {
                            return None;
                        }
                        let glob = double && !swapped && other.parts.iter().any(|p| matches!(p, Part::Other));
                        if glob {
                            let expect = self.globbed(&other.source, st)?;
                            let expect =
                                if equal { expect } else { Expect { not: Not::of(&expect), ..Expect::default() } };
                            return one(var, text(expect), false);
                        }
                        let value = st.scope.parts(&other.parts, true)?;
                        self.uses(&value);
                        if equal
                            && default.is_none()
                            && let [shell::Piece::Hole { text: hole, constant: None, .. }] = value.0.as_slice()
                            && hole.starts_with("{steps.")
                        {
                            let expect = Expect { equals: Some(hole.clone()), ..Expect::default() };
                            return one(var, text(expect), false);
                        }
                        let known = value.constant()?;
                        if default.as_ref().is_some_and(|d| (*d == known) == equal) {
                            return None;
                        }
                        let expect = match (equal, known.is_empty()) {
                            (true, _) => Expect { equals: Some(value.template()), ..Expect::default() },
                            (false, true) => not_empty(),
                            (false, false) => Expect { not: Some(Not::Equals(value.template())), ..Expect::default() },
                        };
                        let kind = text(expect);
                        Some(vec![Demand { var, kind, lenient: bare && operator == "!=", bare }])
                    }
                    "=~" if double && !swapped => {
                        let expect = self.patterned(other, st)?;
                        let expect =
                            if positive { expect } else { Expect { not: Not::of(&expect), ..Expect::default() } };
                        one(var, text(expect), false)
                    }
                    _ => {
                        let limit = self.fixed(&st.scope.word(other)?)?.parse::<u64>().ok()?;
                        let mirrored = if swapped { mirror(operator)? } else { operator };
                        let operator = if positive { same(mirrored)? } else { inverse(mirrored)? };
                        let kind = Ask::Number { operator, limit, double };
                        if let Some(default) = &default
                            && compare(operator, default.parse().ok()?, limit)
                        {
                            return None;
                        }
                        one(var, kind, lenient)
                    }
                }
            }
            _ => None,
        }
    }

    /// Converts a pattern of `[[ … == PATTERN ]]`: `*text*`, `text*`, `v?.[0-9]*`. Quoted variables are texts.
    pub(super) fn globbed(&self, source: &str, st: &State) -> Option<Expect> {
        // Parts without pattern characters, and what is between them.
        let (mut texts, mut gaps) = (vec![String::new()], Vec::new());
        let mut quote = None;
        let mut rest = source;
        while let Some(c) = rest.chars().next() {
            let mut len = c.len_utf8();
            let text = texts.last_mut()?;
            match (quote, c) {
                (None, '"' | '\'') => quote = Some(c),
                (Some(open), _) if c == open => quote = None,
                (Some('"'), '$') => {
                    let name = rest[1..].strip_prefix('{').and_then(|inner| inner.split_once('}'));
                    let letters =
                        |text: &str| text.bytes().take_while(|b| b.is_ascii_alphanumeric() || *b == b'_').count();
                    let (name, size) = match name {
                        Some((name, _)) => (name, name.len() + 3),
                        None => (&rest[1..=letters(&rest[1..])], letters(&rest[1..]) + 1),
                    };
                    text.push_str(&self.fixed(st.scope.get(name)?)?);
                    len = size;
                }
                (None, '*') => {
                    gaps.push(".*".to_owned());
                    texts.push(String::new());
                }
                (None, '?') => {
                    gaps.push(".".to_owned());
                    texts.push(String::new());
                }
                (None, '[') => {
                    let class = rest[1..].split(']').next()?;
                    let plain = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
                    (!class.is_empty() && class.chars().all(plain)).then_some(())?;
                    len = class.len() + 2;
                    gaps.push(rest.get(..len)?.to_owned());
                    texts.push(String::new());
                }
                (Some('"'), '\\') if rest[1..].starts_with(['"', '\\', '$', '`']) => {
                    text.push_str(&rest[1..2]);
                    len = 2;
                }
                (None, '\\' | '$' | '(' | '`' | '~') | (Some('"'), '`') => return None,
                _ => text.push(c),
            }
            rest = rest.get(len..)?;
        }
        // `**` is `*`.
        let any = |gap: &String| gap == ".*";
        (quote.is_none()
            && !gaps.windows(2).zip(&texts[1..]).any(|(pair, text)| text.is_empty() && pair.iter().all(any)))
        .then_some(())?;
        let starts = gaps.first().is_some_and(any) && texts[0].is_empty();
        let ends = gaps.last().is_some_and(any) && texts.last()?.is_empty();
        if let ([_, text, _], true, true) = (texts.as_slice(), starts, ends) {
            (!text.is_empty()).then_some(())?;
            return Some(Expect { contains: Some(template::escape(text)), ..Expect::default() });
        }
        let mut pattern = String::new();
        for (at, text) in texts.iter().enumerate() {
            pattern += &pattern::escaped(text);
            let outer = at == 0 && starts || at + 1 == gaps.len() && ends;
            pattern += gaps.get(at).filter(|_| !outer).map_or("", String::as_str);
        }
        (texts.iter().any(|text| !text.is_empty()) && regex::Regex::new(&pattern).is_ok()).then_some(())?;
        let flags = if pattern.contains(".*") || gaps.iter().any(|gap| gap == ".") { "(?s)" } else { "" };
        let (from, to) = (if starts { "" } else { "^" }, if ends { "" } else { "$" });
        Some(Expect { matches: Some(template::escape(&format!("{flags}{from}{pattern}{to}"))), ..Expect::default() })
    }

    /// Returns what `=~` requires of a text.
    pub(super) fn patterned(&self, other: &Word, st: &State) -> Option<Expect> {
        // `$2` of a function has the value of its argument.
        let given = other.variable().and_then(|name| self.fixed(st.scope.get(name)?));
        let source = given.as_deref().unwrap_or(&other.source);
        let bare = matches!(other.parts.as_slice(), [Part::Var { quoted: false, .. }]);
        (given.is_none() || bare).then_some(())?;
        let other = &Word::read(source, 0);
        let source = other.source.trim_matches(['"', '\'']);
        let quoted = source.len() != other.source.len();
        // Quotes in the middle make a part of the pattern literal; quotes on one side enclose only a part.
        let whole = other.source.len() == source.len() + 2;
        if source.contains(['"', '\'']) || quoted && !whole {
            return None;
        }
        if other.source.contains('$') && !other.source.ends_with('$') || source.matches('$').count() > 1 {
            return None;
        }
        // Without pattern characters it is a literal text.
        let literal = bash::is_safe(source) && !source.contains(['.', '+']);
        Some(match quoted || literal {
            true => Expect { contains: Some(template::escape(source)), ..Expect::default() },
            false => Expect { matches: Some(template::escape(&pattern::whole(source)?)), ..Expect::default() },
        })
    }
}

/// The pattern of `[[ "$V" =~ ^[0-9]+$ ]]`.
const DIGITS: &str = "(?s)^[0-9]+$";

/// Whether a demand cannot be combined with the existing ones.
fn crowded(demand: &Demand, captures: &[Capture]) -> bool {
    let text = |kind: &Ask| match kind {
        Ask::Text(expect) => Some(expect.clone()),
        Ask::Number { .. } => None,
    };
    let Some(own) = text(&demand.kind) else { return false };
    let others = captures.iter().filter(|c| c.var == demand.var && !c.lines).flat_map(|c| &c.demands);
    others.filter_map(|other| text(&other.kind)).try_fold(own, Expect::and).is_none()
}

/// Whether a statement is this command.
fn is(stmt: &Stmt, command: &str) -> bool {
    let Kind::Simple(simple) = &stmt.kind else { return false };
    simple.words.iter().map(|w| w.source.as_str()).collect::<Vec<_>>().join(" ") == command
}

/// Whether a command strips the blanks from a number.
fn is_trim(stmt: &Stmt) -> bool {
    ["tr -d ' '", "tr -d '[:space:]'", "tr -d \"[:space:]\"", "xargs"].iter().any(|t| is(stmt, t))
}

/// Whether a statement passes the value of a variable to another command's input.
fn pipes(stmt: &Stmt, var: &str) -> bool {
    let is_var = |w: &Word| matches!(w.parts.as_slice(), [Part::Var { name, .. }] if name == var);
    let mut found = false;
    statement::walk(stmt, &mut |s| {
        found |= match &s.kind {
            Kind::Pipeline(list) => {
                matches!(&list[0].kind, Kind::Simple(s) if s.words.iter().any(is_var))
            }
            Kind::Simple(simple) => simple.redirects.iter().any(|r| matches!(r, Redirect::Herestring(w) if is_var(w))),
            // The contents of `$(…)` are text here.
            Kind::Assign(assigns) => assigns.iter().filter_map(|a| a.value.as_ref()).any(|w| {
                matches!(w.parts.as_slice(), [Part::Command { text, .. }]
                    if text.contains(&format!("\"${var}\" |")) || text.contains(&format!("<<< \"${var}\""))
                        || text.contains(&format!("<<<\"${var}\"")) || text.contains(&format!("\"${{{var}}}\" |")))
            }),
            _ => false,
        };
    });
    found
}

/// Combines two demands for texts into one that either text meets.
fn alternatives(a: Vec<Demand>, b: Vec<Demand>) -> Option<Vec<Demand>> {
    let ([a], [b]) = (a.as_slice(), b.as_slice()) else { return None };
    if a.var != b.var || a.lenient || b.lenient {
        return None;
    }
    let (Ask::Text(x), Ask::Text(y)) = (&a.kind, &b.kind) else { return None };
    let choices = |e: &Expect| -> Option<String> {
        match (&e.equals, &e.matches) {
            _ if e.range != Range::default() => None,
            (Some(text), None) if !text.contains(['{', '\n']) => Some(pattern::escaped(text)),
            (None, Some(pattern)) => Some(pattern.strip_prefix("^(")?.strip_suffix(")$")?.to_owned()),
            _ => None,
        }
    };
    let matches = Some(format!("^({}|{})$", choices(x)?, choices(y)?));
    Some(vec![Demand {
        var: a.var.clone(),
        kind: Ask::Text(Expect { matches, ..Expect::default() }),
        lenient: false,
        bare: a.bare || b.bare,
    }])
}

/// Whether a text meets a demand.
fn holds(ask: &Ask, expect: &Expect, text: &str, lines: bool) -> bool {
    match ask {
        Ask::Number { operator, limit, .. } => text.parse().is_ok_and(|n| compare(operator, n, *limit)),
        Ask::Text(demand) if lines => demand.equals.as_deref() == Some(text),
        Ask::Text(_) => {
            expect.equals.as_deref().is_none_or(|e| e == text)
                && expect.contains.as_deref().is_none_or(|c| text.contains(c))
                && expect.matches.as_deref().is_none_or(|m| regex::Regex::new(m).is_ok_and(|r| r.is_match(text)))
                && expect.not.as_ref().is_none_or(|not| not.admits(text))
        }
    }
}

fn compare(operator: &str, n: u64, limit: u64) -> bool {
    match operator {
        "-eq" => n == limit,
        "-ne" => n != limit,
        "-ge" => n >= limit,
        "-gt" => n > limit,
        "-le" => n <= limit,
        _ => n < limit,
    }
}

/// Whether a command may print what a script looks for and fail: a message (`2>&1`), or a state (`systemctl is-active`).
fn speaks_of_failure(run: &str) -> bool {
    // These print nothing to standard output if they fail.
    const SILENT: [&str; 20] = [
        "kubectl",
        "oc",
        "virtctl",
        "helm",
        "gh",
        "psql",
        "mysql",
        "sqlite3",
        "aws",
        "az",
        "gcloud",
        "curl",
        "jq",
        "yq",
        "cat",
        "stat",
        "readlink",
        "base64",
        "docker",
        "redis-cli",
    ];
    let is_silent = |program: bash::program::Program| {
        program.commands().iter().all(|command| {
            SILENT.contains(&command.name()) && !command.words().iter().any(|word| word.text == "inspect")
        })
    };
    run.contains("2>&1") || !bash::program(run).is_some_and(is_silent)
}

fn same(operator: &str) -> Option<&'static str> {
    ["-eq", "-ne", "-ge", "-gt", "-le", "-lt"].into_iter().find(|o| *o == operator)
}

/// Returns the comparison that is true where another one is false.
pub(super) fn inverse(operator: &str) -> Option<&'static str> {
    Some(match operator {
        "-eq" => "-ne",
        "-ne" => "-eq",
        "-ge" => "-lt",
        "-gt" => "-le",
        "-le" => "-gt",
        "-lt" => "-ge",
        _ => return None,
    })
}

fn mirror(operator: &str) -> Option<&'static str> {
    Some(match operator {
        "-eq" => "-eq",
        "-ne" => "-ne",
        "-ge" => "-le",
        "-gt" => "-lt",
        "-le" => "-ge",
        "-lt" => "-gt",
        _ => return None,
    })
}

/// Returns the expectation of a number of lines, each of which is terminated.
fn line_count(operator: &str, limit: u64) -> Option<Expect> {
    let none = || Expect { equals: Some(String::new()), ..Expect::default() };
    let lines = |n, exactly| Expect { matches: Some(step::lines(n, exactly)), ..Expect::default() };
    Some(match (operator, limit) {
        ("-eq", 0) | ("-le", 0) | ("-lt", 1) => none(),
        ("-ne", 0) | ("-gt", 0) | ("-ge", 1) => lines(1, false),
        ("-eq", n) => lines(n, true),
        ("-ge", n) => lines(n, false),
        ("-gt", n) => lines(n + 1, false),
        _ => return None,
    })
}

/// Returns the last command of a line.
fn last(run: &str) -> &str {
    run.rsplit(" | ").next().unwrap_or(run)
}

/// Whether a command prints a plain number, or nothing (`grep -c`, `wc -l`).
fn counts(run: &str) -> bool {
    let mut words = last(run).split_whitespace();
    let flag = |word: &str| word == "--count" || !word.starts_with("--") && word.starts_with('-') && word.contains('c');
    let name = words.next();
    // Two commands may print two numbers.
    if run.contains(" || ") {
        return false;
    }
    name == Some("wc") && is_line(run)
        || name == Some("grep") && words.take_while(|word| word.starts_with('-')).any(flag)
}

/// Whether a command pads the numbers that it prints with blanks.
fn pads(run: &str) -> bool {
    matches!(last(run).split_whitespace().next(), Some("psql" | "wc"))
}
