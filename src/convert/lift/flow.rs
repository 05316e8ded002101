//! Converts conditions, branches and loops to sequences of steps.

use std::path::Path;

use super::{
    End, Ending, Flow, Lifter, Next, Out, REPORTED, State, TEMPORARY,
    capture::inverse,
    changes_nothing,
    command::{NOT_A_NUMBER, NOT_FOUND, ONE_STATUS, PIPE_DENIED, Purpose, denied, expect_of},
    messages, read_only,
    statement::{self, here_string, runs_commands},
};
use crate::{
    ascii::{Ascii, ascii},
    bash::{
        self,
        ast::{self, Kind, List, Part, Redirect, Simple, Stmt, Word},
        inline::Functions,
        tools::looks,
    },
    builtin::command::ExitCode,
    convert::{
        Label,
        shell::{Text, script_dir, script_dir_prefix},
        step::{self, Step},
    },
    hir::PhaseKind,
    ty::duration,
};

/// How many values a list may have if its author did not write them out.
const LIST: u32 = 50;

/// Loops with more values than this are not written out.
const ROUNDS: usize = 4;

/// Commands that do not remove directories.
const KEEPING: [&str; 20] = [
    "[", "cat", "chmod", "chown", "curl", "docker", "echo", "exit", "git", "grep", "helm", "jq", "kubectl", "oc",
    "printf", "sleep", "test", "touch", "true", ":",
];

/// How deep function calls may be nested.
const DEPTH: usize = 8;

impl<'a> Lifter<'a> {
    /// Converts a whole list, or nothing.
    pub(super) fn seq(&self, list: &[Stmt], mut st: State, end: End) -> Option<Flow> {
        let mut out = Out::none();
        let mut said = Vec::new();
        // Whether statements were skipped that only print information, before an end that fails either way.
        let mut skipped = false;
        let mut at = 0;
        while at < list.len() {
            let mut tried = st.clone();
            let Some(next) = self.next(&list[at..], &mut tried, end) else {
                self.only_tells(&list[at], &st).then_some(())?;
                skipped = true;
                if let Kind::Simple(simple) = &list[at].kind
                    && matches!(self.name(simple), Some("echo" | "printf"))
                {
                    said.push(self.said(simple, &st));
                }
                at += 1;
                continue;
            };
            st = tried;
            match next {
                Next::Idle(message) => {
                    said.extend(message);
                    at += 1;
                }
                Next::Steps(more, n) => {
                    let comments = messages(&list[at].comments);
                    out = out.then(more.told(&comments));
                    at += n;
                }
                Next::End(flow) => {
                    return match flow {
                        Flow::Falls(_) | Flow::Passes(..) if skipped => None,
                        Flow::Fails(more) if skipped && read_only(&out.steps) => {
                            self.shared.note("read-only commands before an exit with failure are omitted");
                            said.extend(more);
                            Some(Flow::Fails(said))
                        }
                        Flow::Falls(more) => Some(Flow::Falls(out.then(more))),
                        Flow::Passes(more, ending) => Some(Flow::Passes(out.then(more), ending)),
                        Flow::Fails(more) if read_only(&out.steps) => {
                            said.extend(more);
                            Some(Flow::Fails(said))
                        }
                        Flow::Fails(_) => None,
                    };
                }
            }
        }
        match end {
            _ if skipped => None,
            End::Falls => Some(Flow::Falls(out)),
            End::Fails if read_only(&out.steps) => Some(Flow::Fails(said)),
            End::Fails => None,
        }
    }

    /// Converts the first statements of a list.
    pub(super) fn next(&self, rest: &[Stmt], st: &mut State, end: End) -> Option<Next> {
        let following = rest.get(1).filter(|s| statement::asks_status(s) && !self.idle(s));
        let Some(following) = following else { return self.first(rest, st, end) };
        // A statement that reads the status of the previous one is converted together with it.
        if let Some(name) = statement::keeps_status(following)
            && let Some(next) = self.kept_status(&rest[0], name, st)
        {
            return Some(next);
        }
        match self.first(rest, st, end)? {
            next @ (Next::Steps(_, 2..) | Next::End(_)) => Some(next),
            Next::Steps(..) | Next::Idle(_) => None,
        }
    }

    /// `{ …; } >> FILE`: converts the list, after a step that opens the file as the shell does. What the list prints is in the report.
    fn logged(&self, body: &[Stmt], file: &Word, append: bool, after: &[Stmt], st: &State) -> Option<Next> {
        // If the file cannot be opened, the list does not start, and the script must end with that failure.
        let ends = st.errexit || after.is_empty() && st.tail;
        (self.phase == PhaseKind::Verify && ends).then_some(())?;
        let path = self.fixed(&st.scope.word(file)?).filter(|path| path.starts_with('/'))?;
        let option = if append { "-a" } else { "--" };
        let words = ["tee", option, &bash::quote(&path)].map(|word| Word::read(word, 0)).to_vec();
        let opened = self.command(&Simple { words, ..Simple::default() }, st, false)?;
        self.shared.note(format!("what was written to `{path}` is now in the report, and the file is empty"));
        let inner = State { tail: after.is_empty() && st.tail, ..st.clone() };
        Some(match self.seq(body, inner, End::Falls)? {
            Flow::Falls(out) => Next::Steps(opened.then(out), 1),
            Flow::Passes(out, ending) => Next::End(Flow::Passes(opened.then(out), ending)),
            flow @ Flow::Fails(_) => Next::End(flow),
        })
    }

    /// `command; NAME=$?`: the exit status becomes an output of the step.
    fn kept_status(&self, stmt: &Stmt, name: &str, st: &mut State) -> Option<Next> {
        (!st.errexit && !st.scope.wild.contains(name) && !self.tallies.contains(name)).then_some(())?;
        let mut out = self.check(stmt, st)?;
        (out.label == Label::Exact).then_some(())?;
        let [step] = out.steps.as_mut_slice() else { return None };
        let step::Kind::Command { expect, .. } = &step.kind else { return None };
        (*expect == step::Expect::default()).then_some(())?;
        let id = self.shared.id(&name.replace('_', "-"));
        step.any_status();
        step.id = Some(id.clone());
        st.scope.set(name, Some(Text::hole(format!("{{steps.{id}.outputs.exitCode}}"), None, true)));
        Some(Next::Steps(out, 2))
    }

    /// Converts the first statements of a list if the statement after the first does not read its status.
    fn first(&self, rest: &[Stmt], st: &mut State, end: End) -> Option<Next> {
        let (stmt, after) = rest.split_first()?;
        if !matches!(stmt.kind, Kind::Simple(_)) && self.may_remove(stmt) {
            st.folders.clear();
        }
        let captures = || self.must_succeed(rest, st).is_some() || self.replaced(stmt, st).is_some();
        if !matches!(stmt.kind, Kind::Assign(_)) && captures() {
            return self.capture(rest, st, end);
        }
        if stmt.background || self.leaks(stmt, after, st) {
            return None;
        }
        if let Kind::Simple(simple) = &stmt.kind
            && matches!(self.name(simple), Some("echo" | "printf" | ":" | "true"))
            && statement::has_effects(simple)
            && simple.redirects.is_empty()
        {
            return None;
        }
        match &stmt.kind {
            Kind::Function { name, body } => {
                st.scope.functions.insert(name.clone(), body.clone());
                Some(Next::Idle(None))
            }
            Kind::Step(name) if self.tallies.contains(name) => self.amiss(after, st),
            Kind::Step(name) => {
                // The exit status of `((…))` depends on the number.
                (!(st.errexit || after.is_empty() && st.tail)).then_some(())?;
                st.scope.set(name, None);
                Some(Next::Idle(None))
            }
            Kind::Assign(assigns) => {
                if let [assign] = assigns.as_slice()
                    && let Some(next) = self.deadline(assign, after, st, end)
                {
                    return Some(next);
                }
                if let [assign] = assigns.as_slice()
                    && self.tallies.contains(&assign.name)
                {
                    if st.scope.knows(&assign.name) {
                        return self.amiss(after, st);
                    }
                    let value = assign.value.as_ref().and_then(|w| st.scope.word(w)).unwrap_or_default();
                    st.scope.set(&assign.name, Some(value));
                    st.scope.set(&format!("#{}", assign.name), Some(Text::literal("0")));
                    return Some(Next::Idle(None));
                }
                if let [assign] = assigns.as_slice()
                    && let Some(value) = &assign.value
                    && !assign.odd
                    && matches!(value.parts.as_slice(), [Part::Command { .. }])
                    && script_dir(&value.source).is_none()
                {
                    return self.capture(rest, st, end);
                }
                // Incrementing a counter that the script itself has initialized cannot fail.
                if let [assign] = assigns.as_slice()
                    && statement::counts_up(assign)
                    && st.scope.counters.contains(&assign.name)
                    && !self.tallies.contains(&assign.name)
                {
                    st.scope.set(&assign.name, None);
                    return Some(Next::Idle(None));
                }
                for assign in assigns {
                    if self.assign(assign, st).is_none() {
                        // An assignment that runs no command can be repeated where its value is needed.
                        let harmless = !assign.export && !statement::is_special(&assign.name) && self.harmless(assign);
                        harmless.then_some(())?;
                        st.scope.set(&assign.name, None);
                        let words = assign.array.as_ref().filter(|_| !st.scope.wild.contains(&assign.name));
                        let known = words.and_then(|w| w.iter().map(|w| st.scope.word(w)).collect::<Option<Vec<_>>>());
                        match known {
                            Some(known) => st.scope.arrays.insert(assign.name.clone(), known),
                            None => st.scope.arrays.remove(&assign.name),
                        };
                    }
                }
                Some(Next::Idle(None))
            }
            Kind::Simple(_) if self.known(stmt, st) == Some(true) => Some(Next::Idle(None)),
            Kind::Simple(simple) => match self.spread(simple, st) {
                Some(spread) => {
                    let stmt = Stmt { kind: Kind::Simple(spread.clone()), ..stmt.clone() };
                    self.simple(&stmt, &spread, after, st, end)
                }
                None => self.simple(stmt, simple, after, st, end),
            },
            Kind::If { branches, otherwise } => {
                self.conditional(branches, otherwise.as_deref().unwrap_or_default(), after, st, end)
            }
            Kind::Or(pair) if self.folder(&pair[0], st).is_some() => {
                let Flow::Fails(said) = self.seq(&pair[1..], State { tail: true, ..st.clone() }, End::Falls)? else {
                    return None;
                };
                Some(Next::Steps(self.enter(&pair[0], st)?.told(&messages(&said)), 1))
            }
            Kind::Or(pair) if self.known(&pair[0], st) == Some(true) => Some(Next::Idle(None)),
            Kind::Or(pair) => {
                let [a, b] = &**pair;
                let inner = State { tail: true, ..st.clone() };
                let flow = self.seq(std::slice::from_ref(b), inner, End::Falls);
                (matches!(flow, Some(Flow::Fails(_))) || !self.exits(a, st)).then_some(())?;
                match flow {
                    Some(Flow::Fails(said)) => Some(Next::Steps(self.check(a, st)?.told(&messages(&said)), 1)),
                    Some(Flow::Falls(o)) if o.steps.is_empty() => {
                        Some(Next::Steps(self.ignored(self.check(a, &soft(st))?), 1))
                    }
                    Some(Flow::Falls(_)) => {
                        let out = self.check(stmt, st)?;
                        Some(Next::Steps(self.as_status(stmt, out, after, st)?, 1))
                    }
                    _ => None,
                }
            }
            Kind::And(pair) => {
                let [a, b] = &**pair;
                (!self.exits(a, st)).then_some(())?;
                let last = after.is_empty() && st.tail;
                if let Some(false) = self.known(a, st)
                    && !last
                {
                    return Some(Next::Idle(None));
                }
                let inner = State { tail: true, ..st.clone() };
                match self.seq(std::slice::from_ref(b), inner, End::Falls)? {
                    // As the last statement, it fails either way.
                    Flow::Fails(said) if !last => Some(Next::Steps(self.deny(a, st)?.told(&messages(&said)), 1)),
                    Flow::Passes(o, ending) if o.steps.is_empty() => {
                        self.or_rest(self.check(a, &soft(st))?, ending, after, st, end)
                    }
                    Flow::Falls(o) if last => Some(Next::Steps(self.check(a, &soft(st))?.then(o), 1)),
                    Flow::Falls(o) if o.steps.is_empty() => {
                        Some(Next::Steps(self.ignored(self.check(a, &soft(st))?), 1))
                    }
                    Flow::Falls(o) if !st.errexit => {
                        let both = self.check(a, &soft(st))?.then(o);
                        Some(Next::Steps(self.ignored(both), 1))
                    }
                    Flow::Falls(o) if !st.fragile => Some(Next::Steps(self.chosen(a, o, Out::none(), st)?, 1)),
                    _ => None,
                }
            }
            Kind::Test(..) if self.known(stmt, st) == Some(true) => Some(Next::Idle(None)),
            Kind::Test(..) | Kind::Pipeline(_) | Kind::Not(_) => {
                let out = self.check(stmt, st)?;
                // `! a` never ends a script under `set -e`.
                let st = if matches!(stmt.kind, Kind::Not(_)) { &soft(st) } else { &*st };
                self.with_status(stmt, out, after, st)
            }
            Kind::Group(list) => {
                let inner = State { tail: after.is_empty() && st.tail, ..st.clone() };
                match self.seq(list, inner, End::Falls)? {
                    Flow::Falls(out) => Some(Next::Steps(out, 1)),
                    flow => Some(Next::End(flow)),
                }
            }
            Kind::Logged { body, file, append } => self.logged(body, file, *append, after, st),
            Kind::For { var, values, body } => self.each(var, values, body, after, st, end),
            Kind::Count { var, rounds, body } => {
                let count = (*rounds)?;
                self.poll(Rounds { count, seen: Some(count), behind: None, by: 1 }, var, body, after, st, end)
            }
            Kind::While { until, condition, body } => self
                .counted_rounds(*until, condition, body, after, st, end)
                .or_else(|| self.wait(*until, condition, body, st)),
            Kind::Subshell(list) => self.with_status(stmt, self.subshell(list, st)?, after, st),
            Kind::Other(_) => None,
        }
    }

    /// `( … )`: what it sets, and where it goes, is forgotten after it.
    fn subshell(&self, list: &[Stmt], st: &State) -> Option<Out> {
        let mut set = Vec::new();
        list.iter().for_each(|stmt| statement::assigned(stmt, &mut set));
        (!set.iter().any(|name| self.tallies.contains(name))).then_some(())?;
        let inner = State { tail: true, function: false, depth: st.depth + 1, ..st.clone() };
        // `(cd x && a && b)` ends at the first failure, as under `set -e`.
        let mut links = Vec::new();
        let flow = match list {
            [one] if self.chained(one, st, &mut links) => {
                let links: List = links.into_iter().cloned().collect();
                self.seq(&links, State { errexit: true, fragile: false, ..inner }, End::Falls)?
            }
            _ => self.seq(list, inner, End::Falls)?,
        };
        match flow {
            Flow::Falls(out) | Flow::Passes(out, Ending::Exit) => Some(out),
            _ => None,
        }
    }

    /// Collects the commands of `cd FOLDER && A && B`.
    fn chained<'s>(&self, stmt: &'s Stmt, st: &State, links: &mut Vec<&'s Stmt>) -> bool {
        match &stmt.kind {
            Kind::And(pair) => self.chained(&pair[0], st, links) && self.chained(&pair[1], st, links),
            Kind::Simple(simple) => {
                let first = links.is_empty();
                links.push(stmt);
                self.name(simple).is_some_and(|name| (!first || name == "cd") && !st.scope.functions.contains_key(name))
            }
            Kind::Test(..) | Kind::Pipeline(_) => {
                let first = links.is_empty();
                links.push(stmt);
                !first
            }
            _ => false,
        }
    }

    /// Whether a variable that is set somewhere inside a statement is read after it: steps do not set variables.
    fn leaks(&self, stmt: &Stmt, after: &[Stmt], st: &State) -> bool {
        let mut names = Vec::new();
        match &stmt.kind {
            Kind::Assign(_) | Kind::Function { .. } => return false,
            // `poll` checks the variables of a loop that waits.
            Kind::For { body, .. } | Kind::Count { body, .. } | Kind::While { body, .. }
                if body.iter().any(|s| matches!(&s.kind, Kind::Simple(s) if self.name(s) == Some("sleep"))) => {}
            _ => statement::assigned(stmt, &mut names),
        }
        self.set_by_functions(stmt, st, &mut names);
        let read = |name: &String| {
            !self.tallies.contains(name) && statement::reads(after.iter().filter(|s| !self.idle(s)), name)
        };
        names.iter().any(read)
    }

    /// Collects the variables that the functions set that a statement calls.
    fn set_by_functions(&self, stmt: &Stmt, st: &State, names: &mut Vec<String>) {
        statement::walk(stmt, &mut |s| {
            if let Kind::Simple(simple) = &s.kind
                && let Some(body) = self.name(simple).and_then(|n| st.scope.functions.get(n))
            {
                body.iter().for_each(|s| statement::assigned_beyond(s, names));
            }
        });
    }

    /// A counter of failures has changed: the check has failed, and the rest of the list only counts, prints or returns.
    fn amiss(&self, after: &[Stmt], st: &State) -> Option<Next> {
        let counts = |s: &Stmt| match &s.kind {
            Kind::Step(name) => self.tallies.contains(name),
            Kind::Assign(assigns) => assigns.iter().all(|a| self.tallies.contains(&a.name)),
            _ => self.is_idle(s, st) || self.only_tells(s, st),
        };
        let returns = |s: &Stmt| matches!(&s.kind, Kind::Simple(s) if st.function && self.name(s) == Some("return"));
        let rest = after.iter().all(|s| counts(s) || returns(s));
        rest.then_some(Next::End(Flow::Fails(Vec::new())))
    }

    /// Whether a statement only prints information for people.
    fn only_tells(&self, stmt: &Stmt, st: &State) -> bool {
        match &stmt.kind {
            Kind::Simple(simple) => {
                let Some(name) = self.name(simple) else { return false };
                if let Some(body) = st.scope.functions.get(name) {
                    return st.depth < DEPTH
                        && body.iter().all(|s| self.only_tells(s, &State { depth: st.depth + 1, ..st.clone() }));
                }
                let words: Vec<&str> = simple.words.iter().map(|w| w.source.as_str()).collect();
                // `echo "got $(kubectl get pod web)"`
                let changes = |part: &Part| matches!(part, Part::Command { text, .. } if !changes_nothing(text));
                let runs = simple.words.iter().flat_map(|word| &word.parts).any(changes);
                let own = ["echo", "printf", "true", ":", "tail", "sort", "column"];
                !statement::has_effects(simple) && !runs && (own.contains(&name) || looks(&words.join(" ")))
            }
            Kind::Pipeline(list) => list.iter().all(|s| self.only_tells(s, st)),
            Kind::Or(pair) | Kind::And(pair) => pair.iter().all(|s| self.only_tells(s, st)),
            _ => false,
        }
    }

    /// Runs `then` or `otherwise`, depending on whether a command succeeds: a step captures its exit status, and each side tests it.
    fn chosen(&self, condition: &Stmt, then: Out, otherwise: Out, st: &State) -> Option<Out> {
        let (condition, then, otherwise) = match &condition.kind {
            Kind::Not(inner) => (&**inner, otherwise, then),
            _ => (condition, then, otherwise),
        };
        let mut out = self.check(condition, st)?;
        (out.label == Label::Exact).then_some(())?;
        let [step] = out.steps.as_mut_slice() else { return None };
        let step::Kind::Command { run, expect, .. } = &step.kind else { return None };
        (*expect == step::Expect::default()).then_some(())?;
        let words: Vec<&str> =
            run.split_whitespace().take(3).filter(|w| !w.starts_with(['-', '\'', '"', '$', '/'])).collect();
        let id = self.shared.id(&words.join("-"));
        step.any_status();
        step.id = Some(id.clone());
        let swap = self.shared.err();
        for (body, operator) in [(then, if swap { "-eq" } else { "-ne" }), (otherwise, "-eq")] {
            if body.steps.is_empty() {
                continue;
            }
            let (label, why) = (body.label, body.why.clone());
            let test = Step::of_status(&id, operator);
            let any = Step::new(step::Kind::AnyOf(vec![test, body.grouped()]));
            out = out.then(Out { steps: vec![any], label, why });
        }
        Some(out)
    }

    /// Whether an assignment runs no command, and yields the same value whenever it is evaluated.
    fn harmless(&self, assign: &ast::Assign) -> bool {
        let fixed = |w: &Word| {
            !w.parts.iter().any(|p| matches!(p, Part::Command { .. })) && !w.source.contains(['`', '$', '+', '('])
                || w.literal().is_some()
        };
        // Variables have the same values when this is evaluated again.
        let plain = |w: &Word| {
            let own = ["RANDOM", "SECONDS", "LINENO", "EPOCHSECONDS", "BASHPID"];
            w.parts.iter().all(|p| match p {
                Part::Text { .. } => true,
                Part::Var { name, default, .. } => {
                    ast::is_name(name)
                        && !own.contains(&name.as_str())
                        && default.as_deref().is_none_or(|d| ast::literal(d).is_some())
                }
                _ => false,
            })
        };
        match (&assign.array, &assign.value) {
            (Some(words), _) => words.iter().all(fixed),
            (None, None) => !assign.local,
            (None, Some(word)) => fixed(word) && assign.odd || plain(word) && !assign.local,
        }
    }

    /// `NAME=value`, if the value can be tracked.
    pub(super) fn assign(&self, assign: &ast::Assign, st: &mut State) -> Option<()> {
        // Programs read these variables by name, so they cannot be moved. If exported, they are passed on to every command.
        let special = statement::is_special(&assign.name) && !assign.export;
        if assign.odd || special || matches!(assign.name.as_str(), "IFS" | "PATH") {
            return None;
        }
        let Some(word) = &assign.value else {
            if assign.export {
                let value = st.scope.get(&assign.name)?;
                value.constant()?;
                let text = self.template(value);
                st.exported.push((assign.name.clone(), text));
            } else {
                st.scope.set(&assign.name, Some(Text::literal("")));
            }
            return Some(());
        };
        let mut value = st.scope.parts(&word.parts, true)?;
        let is_beside = st.scope.is_beside(&word.parts);
        if let Some(override_of) = overridable(word)
            && override_of != assign.name
            && ast::is_name(override_of)
        {
            self.shared.note(format!("the environment variable `{override_of}` overrides `{}`", assign.name));
        }
        if let Some((template, constant)) = self.shared.env.get(&assign.name)
            && *template == value.template()
            && !assign.local
        {
            value = Text::hole(format!("{{env.{}}}", assign.name), constant.clone(), template.contains("default("));
        }
        if assign.export {
            let text = self.template(&value);
            st.exported.push((assign.name.clone(), text));
        }
        st.scope.set(&assign.name, Some(value));
        if is_beside {
            st.scope.beside.insert(assign.name.clone());
        }
        Some(())
    }

    fn simple(&self, stmt: &Stmt, simple: &Simple, after: &[Stmt], st: &mut State, end: End) -> Option<Next> {
        let Some(name) = self.name(simple) else {
            // `if $READY`: a variable that holds `true` or `false`.
            return None;
        };
        let argument = simple.words.get(1);
        match name {
            "echo" | "printf" if !statement::has_effects(simple) => {
                if runs_commands(simple) {
                    return None;
                }
                Some(Next::Idle(Some(self.said(simple, st))))
            }
            // `: >FILE` empties a file.
            ":" | "true" if simple.words.len() == 1 && statement::has_effects(simple) => {
                let words = vec![Word::read("true", 0)];
                let out = self.written_to(&Simple { words, ..simple.clone() }, st)?;
                self.with_status(stmt, out, after, st)
            }
            ":" | "true" if simple.words.len() == 1 => self.is_true(stmt).then_some(Next::Idle(None)),
            "set" => {
                // Directories that were created while errors did not end the script may not exist.
                let ended = st.errexit;
                for word in &simple.words[1..] {
                    let flag = word.literal()?;
                    let on = flag.starts_with('-');
                    match flag.as_str() {
                        "errexit" => st.errexit = true,
                        "pipefail" => st.pipefail = true,
                        "nounset" => st.nounset = true,
                        "xtrace" => {}
                        _ if flag.len() > 1 && (on || flag.starts_with('+')) => {
                            for letter in flag[1..].chars() {
                                match letter {
                                    'e' => st.errexit = on,
                                    'u' => st.nounset = on,
                                    'x' | 'o' | 'E' => {}
                                    _ => return None,
                                }
                            }
                            if !on && flag.contains('o') {
                                return None;
                            }
                        }
                        _ => return None,
                    }
                }
                if st.errexit && !ended {
                    st.folders.clear();
                }
                Some(Next::Idle(None))
            }
            "exit" | "return" if name == "exit" || st.function => {
                let status = self.fixed(&st.scope.word(argument?)?)?;
                match status.as_str() {
                    // In a function, `exit 0` would end the whole script with success.
                    "0" if name == "exit" && st.function => None,
                    "0" => Some(Next::End(Flow::Passes(Out::none(), Ending::Exit))),
                    _ => Some(Next::End(Flow::Fails(Vec::new()))),
                }
            }
            "break" if st.waiting && argument.is_none() => Some(Next::End(Flow::Passes(Out::none(), Ending::Break))),
            "continue" if st.waiting && argument.is_none() => Some(Next::End(Flow::Fails(Vec::new()))),
            "eval" => {
                let out = self.check(stmt, st)?;
                self.with_status(stmt, out, after, st)
            }
            "cd" if st.errexit
                && !st.fragile
                && self.folder(stmt, st).is_some_and(|folder| folder.starts_with('/')) =>
            {
                Some(Next::Steps(self.enter(stmt, st)?, 1))
            }
            "cd" => {
                let text = argument?.source.clone();
                let to = match script_dir(&text) {
                    Some(below) => st.scope.beside(below)?,
                    None => self.fixed(&st.scope.word(argument?)?)?,
                };
                if to == "." {
                    return Some(Next::Idle(None));
                }
                let guarded = st.errexit;
                if !guarded || to.starts_with('/') {
                    return None;
                }
                st.enter(&to);
                Some(Next::Idle(None))
            }
            "shift" if st.function && argument.is_none() => self.shifted(st).map(|()| Next::Idle(None)),
            "." | "source" => self.source(argument?, st).map(|()| Next::Idle(None)),
            "trap" => self.trap(simple, after, st, end),
            // Several pauses are added.
            "sleep" if simple.words.len() == 2 => {
                let text = argument?;
                let seconds = self.fixed(&st.scope.word(text)?)?;
                let seconds = seconds.strip_suffix('s').unwrap_or(&seconds).parse::<u64>().ok()?;
                let step = Step::new(step::Kind::Sleep(duration::format(std::time::Duration::from_secs(seconds))));
                Some(Next::Steps(Out::step(step), 1))
            }
            _ => {
                if st.scope.functions.contains_key(name) {
                    st.folders.clear();
                }
                if let Some(body) = st.scope.functions.get(name) {
                    // `pass() { echo "$1"; exit 0; }`
                    if let Some((last, said)) = body.split_last()
                        && !st.function
                        && said.iter().all(|s| self.idle(s))
                        && exits_well(last)
                    {
                        return Some(Next::End(Flow::Passes(Out::none(), Ending::Exit)));
                    }
                    // The result of the function is its count, not its exit status.
                    if self.counts(body) && !st.errexit && !(after.is_empty() && st.tail) {
                        return match self.call_flow(body, simple, st, false)? {
                            Flow::Fails(said) => Some(Next::End(Flow::Fails(said))),
                            Flow::Falls(out) => Some(Next::Steps(out, 1)),
                            Flow::Passes(..) => None,
                        };
                    }
                    let tail = st.tail || !self.counts(body);
                    // The status that it returns is ignored: it decides only where it exits.
                    if !(st.errexit || after.is_empty() && st.tail) && self.exits(stmt, st) {
                        // Steps cannot express that a failure ends the function, but not the script.
                        (!self.calls(stmt, st, "return")).then_some(())?;
                        if let Flow::Falls(out) = self.call_flow(body, simple, st, false)? {
                            return Some(Next::Steps(out, 1));
                        }
                    }
                    // `set -e` applies in the function as well.
                    let flow = self.call_flow(body, simple, st, tail)?;
                    let prints = matches!(&flow, Flow::Falls(o) if o.steps.is_empty());
                    if st.errexit && st.fragile && !prints {
                        return None;
                    }
                    return match flow {
                        // `exit` in a function ends the script; a returned status may be ignored.
                        Flow::Fails(said) => (ends(body) || self.counts(body)).then_some(Next::End(Flow::Fails(said))),
                        Flow::Falls(out) | Flow::Passes(out, Ending::Exit) => self.with_status(stmt, out, after, st),
                        Flow::Passes(..) => None,
                    };
                }
                let out = self.check(stmt, st)?;
                self.made(name, simple, st);
                self.with_status(stmt, out, after, st)
            }
        }
    }

    /// Updates the directories that exist after a command.
    fn made(&self, name: &str, simple: &Simple, st: &mut State) {
        // Options of `git init`, and branch names.
        const PLAIN: [&str; 8] = ["-q", "--quiet", "-b", "--initial-branch", "main", "master", "trunk", "develop"];
        let words = simple.words[1..].iter().filter(|word| !word.source.starts_with('-'));
        let paths = words.map(|word| Some(st.at(&st.scope.word(word)?.constant()?)));
        match name {
            "mkdir" if simple.words.iter().any(|word| matches!(word.source.as_str(), "-p" | "--parents")) => {
                let paths: Vec<String> = paths.flatten().collect();
                st.folders.extend(paths);
            }
            "rm" | "rmdir" => {
                let paths: Option<Vec<String>> = paths.collect();
                let stays = |folder: &String| {
                    paths.as_ref().is_some_and(|paths| !paths.iter().any(|path| Path::new(folder).starts_with(path)))
                };
                st.folders.retain(stays);
            }
            // `git init [-q] [-b main] FOLDER`: if the script continues, the directory exists.
            "git" if st.errexit => {
                if let [_, verb, options @ .., folder] = simple.words.as_slice()
                    && verb.source == "init"
                    && options.iter().all(|word| PLAIN.contains(&word.source.as_str()))
                    && let Some(folder) = st.scope.word(folder).and_then(|text| self.fixed(&text))
                    && !folder.starts_with('-')
                {
                    st.folders.push(st.at(&folder));
                }
            }
            _ if KEEPING.contains(&name) => {}
            _ => st.folders.clear(),
        }
    }

    /// Whether something in a statement may remove directories.
    fn may_remove(&self, stmt: &Stmt) -> bool {
        let mut found = false;
        statement::walk(stmt, &mut |s| match &s.kind {
            Kind::Simple(simple) => found |= !self.name(simple).is_some_and(|name| KEEPING.contains(&name)),
            Kind::Assign(assigns) => {
                let words = assigns.iter().filter_map(|assign| assign.value.as_ref());
                found |= words.into_iter().any(|word| word.source.contains("rm"));
            }
            Kind::Other(_) => found = true,
            _ => {}
        });
        found && !matches!(stmt.kind, Kind::Function { .. })
    }

    /// Returns what is printed, as far as it is known.
    fn said(&self, simple: &Simple, st: &State) -> String {
        let words = simple.words[1..].iter().filter(|w| !w.source.starts_with('-')).map(|w| {
            let known = st.scope.parts(&w.parts, true).map(|t| t.0.iter().map(shown).collect::<String>());
            let all = || -> Vec<String> {
                let given = (1..).map_while(|nth: usize| st.scope.get(&nth.to_string()));
                given.map(|text| text.0.iter().map(shown).collect()).collect()
            };
            let part = |part: &Part| match part {
                Part::Text { text, .. } => text.clone(),
                Part::Var { name, .. } => match st.scope.get(name) {
                    Some(text) => text.0.iter().map(shown).collect(),
                    None => "…".to_owned(),
                },
                _ => "…".to_owned(),
            };
            let runs = w.parts.iter().any(|part| matches!(part, Part::Command { .. }));
            known.or_else(|| runs.then(|| w.parts.iter().map(part).collect())).unwrap_or_else(|| {
                let source = w.source.trim_matches(['"', '\'']);
                match source.contains("$*") || source.contains("$@") {
                    true => source.replace("$*", &all().join(" ")).replace("$@", &all().join(" ")),
                    false => without_variables(source),
                }
            })
        });
        let words: Vec<String> = words.collect();
        let text = match words.split_first() {
            Some((format, given)) if self.name(simple) == Some("printf") => formatted(format, given),
            _ => words.join(" "),
        };
        COLOR.replace_all(&text, |_| String::new()).replace("\\n", " ")
    }

    /// Handles the exit status of a statement as the list does: together with the following statement, if that one reads the status.
    fn with_status(&self, stmt: &Stmt, out: Out, after: &[Stmt], st: &State) -> Option<Next> {
        if let Some(following) = after.first() {
            let source = |s: &Stmt| match &s.kind {
                Kind::Simple(s) => s.words.iter().map(|w| w.source.trim_matches('"')).collect::<Vec<_>>().join(" "),
                Kind::Test(inner, _) => format!("[ {inner} ]"),
                _ => String::new(),
            };
            if source(following) == "exit $?" {
                return Some(Next::End(Flow::Passes(out, Ending::Exit)));
            }
            // `cmd; if [ $? -ne 0 ]; then …; exit 1; fi`
            if let Kind::If { branches, otherwise } = &following.kind
                && let [(condition, body)] = branches.as_slice()
                && let [condition] = condition.as_slice()
                && !st.errexit
            {
                let test = source(condition).replace('"', "");
                let good = matches!(test.as_str(), "[ $? -eq 0 ]" | "[ $? == 0 ]" | "[ $? = 0 ]");
                let bad = matches!(test.as_str(), "[ $? -ne 0 ]" | "[ $? != 0 ]" | "[ $? -gt 0 ]");
                if good || bad {
                    let inner = State { tail: false, ..st.clone() };
                    let then = self.seq(body, inner.clone(), End::Falls)?;
                    let other = self.seq(otherwise.as_deref().unwrap_or_default(), inner, End::Falls)?;
                    let (pass, fail) = if good { (then, other) } else { (other, then) };
                    return match (pass, fail) {
                        (Flow::Falls(more), Flow::Fails(said)) => {
                            Some(Next::Steps(out.told(&messages(&said)).then(more), 2))
                        }
                        (Flow::Passes(more, ending), Flow::Fails(said)) => {
                            Some(Next::End(Flow::Passes(out.told(&messages(&said)).then(more), ending)))
                        }
                        (Flow::Fails(said), Flow::Falls(more)) => {
                            let out = if st.waiting { self.fails_somehow(out)? } else { denied(out)? };
                            Some(Next::Steps(out.told(&messages(&said)).then(more), 2))
                        }
                        _ => None,
                    };
                }
            }
        }
        Some(Next::Steps(self.as_status(stmt, out, after, st)?, 1))
    }

    fn as_status(&self, stmt: &Stmt, out: Out, after: &[Stmt], st: &State) -> Option<Out> {
        if after.is_empty() && st.tail {
            return Some(out);
        }
        if st.errexit {
            // In a loop that is retried, a failure would have ended the script.
            return if st.fragile { None } else { Some(out) };
        }
        // `helm uninstall web 2>/dev/null`: the author expects that it may fail.
        Some(if is_silenced(stmt) { self.ignored(out) } else { self.ignored_in_passing(out) })
    }

    /// Makes steps pass whatever their command returns, because the script ignores it.
    pub(super) fn ignored(&self, out: Out) -> Out {
        let mut out = forgiving(out);
        if out.steps.is_empty() {
            return out;
        }
        // In cleanup, the labels would permit this mistake.
        if self.phase != PhaseKind::Cleanup && self.shared.err() {
            return out;
        }
        if let [step] = out.steps.as_mut_slice() {
            if self.phase == PhaseKind::Setup {
                step.continue_on_error = true;
                return out;
            }
            if matches!(step.kind, step::Kind::Command { .. }) {
                step.any_status();
                return out;
            }
        }
        // A here-document is written to a file of the run first.
        if let Some((command, files)) = out.steps.split_last_mut()
            && matches!(command.kind, step::Kind::Command { .. })
            && files
                .iter()
                .all(|file| matches!(&file.kind, step::Kind::File { path, .. } if path.starts_with(TEMPORARY)))
        {
            match self.phase {
                PhaseKind::Setup => command.continue_on_error = true,
                _ => command.any_status(),
            }
            return out;
        }
        let comments = std::mem::take(&mut out.steps[0].comments);
        let mut step = Step::new(step::Kind::AnyOf(vec![out.grouped(), Step::pass()]));
        step.comments = comments;
        Out::step(step)
    }

    /// Does the same where the script simply continues: in cleanup a failure is reported, and nothing else changes.
    fn ignored_in_passing(&self, out: Out) -> Out {
        if self.phase == PhaseKind::Cleanup && !out.steps.is_empty() {
            return forgiving(out).but(Label::Stronger, REPORTED);
        }
        self.ignored(out)
    }

    /// Returns steps that pass if and only if the statement succeeds.
    pub(super) fn check(&self, stmt: &Stmt, st: &State) -> Option<Out> {
        let st = &soft(st);
        if stmt.background {
            return None;
        }
        match &stmt.kind {
            Kind::Simple(simple) => {
                let spread = self.spread(simple, st);
                let simple = spread.as_ref().unwrap_or(simple);
                let name = self.name(simple)?;
                if let Some(body) = st.scope.functions.get(name) {
                    (!st.waiting || !self.exits(stmt, st)).then_some(())?;
                    return self.call(body, simple, st);
                }
                if name == "eval" {
                    return self.evaluated(simple, st);
                }
                let idle = matches!(name, "echo" | "printf" | ":" | "true");
                if idle && !statement::has_effects(simple) {
                    return (!runs_commands(simple)).then(Out::none);
                }
                (!idle || !simple.redirects.is_empty()).then_some(())?;
                match here_string(simple) {
                    Some(list) => self.filtered(&list, st, st.pipefail, false),
                    None => self.command(simple, st, false),
                }
            }
            Kind::Pipeline(list) => self.pipeline(list, st),
            Kind::Not(inner) => self.deny(inner, st),
            Kind::And(pair) => Some(self.check(&pair[0], st)?.then(self.check(&pair[1], st)?)),
            Kind::Or(pair) => {
                (!self.exits(&pair[0], st)).then_some(())?;
                let (a, b) = (self.check(&pair[0], st)?, self.check(&pair[1], st)?);
                if b.steps.is_empty() {
                    return Some(self.ignored(a));
                }
                self.either(a, b)
            }
            Kind::Test(inner, double) => self.test(inner, *double, st, true),
            Kind::Subshell(list) => self.subshell(list, st),
            Kind::Group(list) => match self.seq(list, State { tail: true, ..st.clone() }, End::Falls)? {
                Flow::Falls(out) => Some(out),
                _ => None,
            },
            _ => None,
        }
    }

    /// `"$@"` in a function, as the command that the function was given: returns its words.
    fn spread(&self, simple: &Simple, st: &State) -> Option<Simple> {
        let is_all = |word: &Word| st.function && word.source == "\"$@\"";
        simple.words.first().is_some_and(is_all).then_some(())?;
        let given = st.scope.arrays.get("@")?.iter().zip(1..).map(|(text, nth)| match self.fixed(text) {
            Some(word) => Word::read(&bash::quote(&word), 0),
            None => Word::read(&format!("\"${{{nth}}}\""), 0),
        });
        let words: Vec<Word> = given.chain(simple.words[1..].iter().cloned()).collect();
        let named = words.first()?.literal().is_some_and(|name| !name.is_empty());
        named.then(|| Simple { words, ..simple.clone() })
    }

    /// `shift`: drops the first argument of a function.
    fn shifted(&self, st: &mut State) -> Option<()> {
        let given = st.scope.arrays.get_mut("@").filter(|given| !given.is_empty())?;
        given.remove(0);
        let given = given.clone();
        let after = given.len() + 1;
        for (text, n) in given.into_iter().zip(1..) {
            st.scope.set(&n.to_string(), Some(text));
        }
        st.scope.set(&after.to_string(), Some(Text::literal("")));
        Some(())
    }

    /// `eval TEXT`, with a known text: converts the text.
    fn evaluated(&self, simple: &Simple, st: &State) -> Option<Out> {
        let quiet = simple.redirects.iter().all(|r| matches!(r, Redirect::Discard(_) | Redirect::Merge));
        (quiet && simple.env.is_empty() && st.depth < DEPTH).then_some(())?;
        let texts = simple.words[1..].iter().map(|word| self.fixed(&st.scope.word(word)?));
        let text = texts.collect::<Option<Vec<_>>>()?.join(" ");
        let list = ast::read(&bash::parse(&text)?)?;
        let mut set = Vec::new();
        list.iter().for_each(|stmt| statement::assigned(stmt, &mut set));
        set.is_empty().then_some(())?;
        let inner = State { tail: true, function: false, depth: st.depth + 1, ..st.clone() };
        match self.seq(&list, inner, End::Falls)? {
            Flow::Falls(out) => Some(out),
            _ => None,
        }
    }

    /// `cd FOLDER`: returns the directory, if it is known.
    fn folder(&self, stmt: &Stmt, st: &State) -> Option<String> {
        let Kind::Simple(simple) = &stmt.kind else { return None };
        let quiet = simple.redirects.iter().all(|r| matches!(r, Redirect::Discard(_) | Redirect::Merge));
        let [name, word] = simple.words.as_slice() else { return None };
        (name.source == "cd" && quiet && script_dir(&word.source).is_none()).then_some(())?;
        self.fixed(&st.scope.word(word)?).filter(|folder| !folder.is_empty() && !folder.starts_with('-'))
    }

    /// Whether a directory certainly exists: the script has created it, and would have ended if that had failed.
    fn is_there(&self, folder: &str, st: &State) -> bool {
        st.errexit && !st.fragile && folder.starts_with('/') && st.has_made(folder)
    }

    /// Makes the following commands run in that directory, which must exist.
    fn enter(&self, stmt: &Stmt, st: &mut State) -> Option<Out> {
        let folder = self.folder(stmt, st)?;
        let words = ["test", "-d", &bash::quote(&folder)].map(|word| Word::read(word, 0)).to_vec();
        let out = match self.is_there(&folder, st) {
            true => Out::none(),
            false => self.command(&Simple { words, ..Simple::default() }, st, false)?,
        };
        st.enter(&folder);
        Some(out)
    }

    /// Returns steps that pass if and only if the statement fails.
    pub(super) fn deny(&self, stmt: &Stmt, st: &State) -> Option<Out> {
        let st = &soft(st);
        (!self.exits(stmt, st)).then_some(())?;
        match &stmt.kind {
            Kind::Not(inner) => self.check(inner, st),
            Kind::Or(pair) => Some(self.deny(&pair[0], st)?.then(self.deny(&pair[1], st)?)),
            Kind::And(pair) => {
                let (a, b) = (self.deny(&pair[0], st)?, self.deny(&pair[1], st)?);
                self.either(a, b)
            }
            Kind::Test(inner, double) => self.test(inner, *double, st, false),
            Kind::Pipeline(list) => self.denied_pipeline(list, st),
            Kind::Simple(simple) if here_string(simple).is_some() => self.denied_pipeline(&here_string(simple)?, st),
            // A wait also ends with any other non-zero status.
            Kind::Simple(_) if st.waiting => {
                let out = self.check(stmt, st)?;
                (out.steps.len() == 1).then_some(())?;
                self.fails_somehow(out)
            }
            Kind::Simple(_) => denied(self.check(stmt, st)?),
            Kind::Group(list) if list.len() == 1 => self.deny(&list[0], st),
            _ => None,
        }
    }

    /// Returns steps that pass if the last command of a pipeline fails.
    fn denied_pipeline(&self, list: &[Stmt], st: &State) -> Option<Out> {
        let told = |out: Out| if st.pipefail { out.but(Label::Stronger, PIPE_DENIED) } else { out };
        if let Some(out) = self.not_found(list, st) {
            return Some(told(out));
        }
        if let Some(out) = self.one_line(list, Purpose::Status, st, st.pipefail) {
            return self.fails_somehow(out);
        }
        let out = told(self.filtered(list, st, false, false)?);
        let step::Kind::Command { run, .. } = &out.steps.last()?.kind else { return None };
        // `grep` exits with 1 if it finds nothing; other commands may use any status.
        if run.starts_with("grep ") {
            return denied(out);
        }
        self.fails_somehow(out)
    }

    /// `! COMMAND | grep -q TEXT`: the command, with output that does not contain the text.
    fn not_found(&self, list: &[Stmt], st: &State) -> Option<Out> {
        let [Stmt { kind: Kind::Simple(command), .. }, Stmt { kind: Kind::Simple(grep), .. }] = list else {
            return None;
        };
        (self.name(grep)? == "grep" && !matches!(self.name(command)?, "echo" | "printf" | "cat")).then_some(())?;
        let wanted = expect_of(self.wanted(grep, st)?);
        let mut out = self.command(command, st, true)?;
        matches!(out.steps.as_slice(), [Step { kind: step::Kind::Command { .. }, .. }]).then_some(())?;
        out.last()?.any_status();
        self.expecting(
            out,
            &step::Expect { exit_code: ExitCode::Any, not: step::Not::of(&wanted), ..Default::default() },
        )
    }

    /// Returns steps that pass if and only if the last of them fails, with any non-zero status.
    fn fails_somehow(&self, mut out: Out) -> Option<Out> {
        let step::Kind::Command { expect, .. } = &mut out.last()?.kind else { return None };
        (*expect == step::Expect::default()).then_some(())?;
        expect.exit_code = ExitCode::Not(0);
        Some(out.but(Label::Stronger, NOT_FOUND))
    }

    /// Returns a step that passes if the first passes, or else the second.
    fn either(&self, a: Out, b: Out) -> Option<Out> {
        if a.steps.is_empty() {
            return Some(a);
        }
        // If the first fails where the script's condition did not, it runs a second that the script did not run.
        let label = match a.label {
            Label::Exact => b.label,
            Label::Stronger if read_only(&b.steps) => Label::Stronger,
            _ => Label::Weaker,
        };
        let mut why = a.why.clone();
        why.extend(b.why.clone());
        let steps = if self.shared.err() { vec![a.grouped()] } else { vec![a.grouped(), b.grouped()] };
        Some(Out { steps: vec![Step::new(step::Kind::AnyOf(steps))], label, why })
    }

    /// Converts a condition that ends the list with success, and otherwise continues with the rest of the list.
    fn or_rest(&self, condition: Out, ending: Ending, after: &[Stmt], st: &State, end: End) -> Option<Next> {
        if st.waiting && ending == Ending::Exit && end == End::Falls {
            return None;
        }
        match self.seq(after, st.clone(), end)? {
            Flow::Fails(said) => Some(Next::End(Flow::Passes(condition.told(&messages(&said)), ending))),
            // If the list is not the last one, the script continues after it, although it would have ended with success.
            Flow::Falls(_) if !st.tail => None,
            Flow::Falls(rest) if end == End::Falls && rest.steps.is_empty() => {
                Some(Next::End(Flow::Falls(self.ignored(condition))))
            }
            Flow::Falls(rest) if ending == Ending::Exit && !st.waiting => {
                Some(Next::End(Flow::Passes(self.either(condition, rest)?, Ending::Exit)))
            }
            Flow::Passes(rest, other) if other == ending => {
                if rest.steps.is_empty() {
                    return Some(Next::End(Flow::Passes(self.ignored(condition), ending)));
                }
                Some(Next::End(Flow::Passes(self.either(condition, rest)?, ending)))
            }
            _ => None,
        }
    }

    fn conditional(
        &self,
        branches: &[(List, List)],
        otherwise: &[Stmt],
        after: &[Stmt],
        st: &State,
        end: End,
    ) -> Option<Next> {
        let ((condition, body), more) = branches.split_first()?;
        let nested;
        let otherwise = match more {
            [] => otherwise,
            more => {
                let kind = Kind::If { branches: more.to_vec(), otherwise: Some(otherwise.to_vec()) };
                nested =
                    [Stmt { range: condition.first()?.range.clone(), kind, comments: Vec::new(), background: false }];
                &nested
            }
        };
        let [condition] = condition.as_slice() else { return None };
        // A condition whose value is known decides which list is converted.
        if let Some(known) = self.known(condition, st) {
            let chosen: List = if known { body.clone() } else { otherwise.to_vec() };
            let inner = State { tail: after.is_empty() && st.tail, ..st.clone() };
            return match self.seq(&chosen, inner, End::Falls)? {
                Flow::Falls(out) => Some(Next::Steps(out, 1)),
                flow => Some(Next::End(flow)),
            };
        }
        let inner = State { tail: after.is_empty() && st.tail, ..st.clone() };
        let then = self.shared.attempt(|| self.seq(body, inner.clone(), End::Falls));
        let Some(then) = then else {
            // `if A; then …; if B; then exit 0; fi; fi; exit 1`: the body passes, or fails with the rest of the list.
            otherwise.iter().all(|s| self.idle(s)).then_some(())?;
            let Flow::Fails(said) = self.seq(after, st.clone(), end)? else { return None };
            let inner = State { by_output: true, ..inner };
            let Flow::Passes(out, ending) = self.seq(body, inner, End::Fails)? else { return None };
            let out = self.check(condition, st)?.told(&messages(&said)).then(out);
            return Some(Next::End(Flow::Passes(out, ending)));
        };
        let other = self.seq(otherwise, inner, End::Falls)?;
        let check = || self.check(condition, st);
        let deny = || self.deny(condition, st);
        (matches!(other, Flow::Fails(_)) || !self.exits(condition, st)).then_some(())?;
        match (then, other) {
            (Flow::Fails(_), Flow::Fails(said)) if read_only(&check()?.steps) => Some(Next::End(Flow::Fails(said))),
            (Flow::Fails(said), Flow::Falls(o)) => Some(Next::Steps(deny()?.told(&messages(&said)).then(o), 1)),
            (Flow::Falls(o), Flow::Fails(said)) => Some(Next::Steps(check()?.told(&messages(&said)).then(o), 1)),
            (Flow::Fails(said), Flow::Passes(o, e)) => {
                Some(Next::End(Flow::Passes(deny()?.told(&messages(&said)).then(o), e)))
            }
            (Flow::Passes(o, e), Flow::Fails(said)) => {
                Some(Next::End(Flow::Passes(check()?.told(&messages(&said)).then(o), e)))
            }
            (Flow::Passes(o, e), Flow::Falls(f)) if o.steps.is_empty() && f.steps.is_empty() => {
                self.or_rest(check()?, e, after, st, end)
            }
            // The rest of the list fails.
            (Flow::Passes(o, e), Flow::Falls(f)) if f.steps.is_empty() => match self.seq(after, st.clone(), end)? {
                Flow::Fails(said) => Some(Next::End(Flow::Passes(check()?.told(&messages(&said)).then(o), e))),
                _ => None,
            },
            (Flow::Falls(f), Flow::Passes(o, e)) if o.steps.is_empty() && f.steps.is_empty() => {
                let denied = deny()?;
                (denied.label == Label::Exact).then_some(())?;
                self.or_rest(denied, e, after, st, end)
            }
            (Flow::Passes(a, e), Flow::Passes(b, f)) if e == f => {
                Some(Next::End(Flow::Passes(self.one_of(condition, a, b, st)?, e)))
            }
            (Flow::Falls(a), Flow::Falls(b)) => Some(Next::Steps(self.one_of(condition, a, b, st)?, 1)),
            _ => None,
        }
    }

    /// Converts a choice between two lists by a condition.
    fn one_of(&self, condition: &Stmt, a: Out, b: Out, st: &State) -> Option<Out> {
        let check = || self.check(condition, st);
        let deny = || self.deny(condition, st);
        Some(match (a.steps.is_empty(), b.steps.is_empty()) {
            // The condition only compares known values, so it has no effect.
            (true, true) if self.only_compares(condition) => Out::none(),
            (true, true) => self.ignored(check()?),
            (true, false) => match check().filter(|c| c.label == Label::Exact) {
                Some(condition) => self.either(condition, b)?,
                None => match self.chosen(condition, Out::none(), b.clone(), st) {
                    Some(out) => out,
                    None => self.either(check()?, b)?,
                },
            },
            (false, true) => match deny().filter(|d| d.label == Label::Exact) {
                Some(denied) => self.either(denied, a)?,
                None => match self.chosen(condition, a.clone(), Out::none(), st) {
                    Some(out) => out,
                    None => self.either(deny()?.but(Label::Weaker, ONE_STATUS), a)?,
                },
            },
            (false, false) => self.chosen(condition, a, b, st)?,
        })
    }

    /// Whether a condition only compares values that are already known, without running a command.
    pub(super) fn only_compares(&self, condition: &Stmt) -> bool {
        match &condition.kind {
            Kind::Test(inner, _) => !inner.contains(['`', '(', '<', '>']),
            Kind::Not(inner) => self.only_compares(inner),
            Kind::And(pair) | Kind::Or(pair) => pair.iter().all(|s| self.only_compares(s)),
            Kind::Pipeline(list) => match list.as_slice() {
                [first, Stmt { kind: Kind::Simple(last), .. }] => {
                    let quiet = last.redirects.iter().all(|r| matches!(r, Redirect::Discard(_) | Redirect::Merge));
                    self.idle(first) && self.name(last) == Some("grep") && quiet && !runs_commands(last)
                }
                _ => false,
            },
            _ => false,
        }
    }

    /// Returns the value of a text if nothing can change it any more.
    pub(super) fn fixed(&self, text: &Text) -> Option<String> {
        let open = |hole: &str| {
            let name = hole.strip_prefix("{env.").and_then(|t| t.strip_suffix('}'));
            let value = name.and_then(|n| self.shared.env.get(n)).map_or(hole, |(value, _)| value);
            value.contains("default(")
        };
        let open = text.0.iter().any(|p| matches!(p, crate::convert::shell::Piece::Hole { text, .. } if open(text)));
        if open { None } else { text.constant() }
    }

    /// Whether the right side of `==` in `[[ ]]` is a text: without quotes, the value of a variable is a pattern.
    pub(super) fn is_text(&self, word: &Word, st: &State) -> bool {
        let is_bare =
            |part: &Part| matches!(part, Part::Var { quoted: false, .. } | Part::Command { quoted: false, .. });
        let known = || st.scope.word(word).and_then(|text| self.fixed(&text));
        !word.parts.iter().any(is_bare) || known().is_some_and(|text| !text.contains(['*', '?', '[', '\\']))
    }

    /// Whether a condition is true, if that is known at this point.
    pub(super) fn known(&self, condition: &Stmt, st: &State) -> Option<bool> {
        match &condition.kind {
            Kind::Not(inner) => self.known(inner, st).map(|b| !b),
            Kind::Simple(simple) if self.name(simple) == Some("test") && simple.redirects.is_empty() => {
                let [_, flag, folder] = simple.words.as_slice() else { return None };
                let folder = st.scope.word(folder).and_then(|text| self.fixed(&text));
                (flag.source == "-d" && self.is_there(&folder?, st)).then_some(true)
            }
            Kind::Simple(simple) if simple.words.len() == 1 => {
                match self.fixed(st.scope.get(simple.words[0].variable()?)?)?.as_str() {
                    "true" => Some(true),
                    "false" => Some(false),
                    _ => None,
                }
            }
            Kind::Test(inner, _) => {
                let words = statement::words(inner)?;
                let value = |w: &Word| st.scope.parts(&w.parts, true).and_then(|t| self.fixed(&t));
                let number = |text: String| text.parse::<i64>().ok();
                match words.as_slice() {
                    [op, a] if op.source == "-z" => value(a).map(|v| v.is_empty()),
                    [op, a] if op.source == "-n" => value(a).map(|v| !v.is_empty()),
                    [op, a] if op.source == "-d" => value(a).filter(|folder| self.is_there(folder, st)).map(|_| true),
                    [a, op, b] if matches!(op.source.as_str(), "=" | "==") => Some(value(a)? == value(b)?),
                    [a, op, b] if op.source == "!=" => Some(value(a)? != value(b)?),
                    [a, op, b] if op.source == "-eq" => Some(number(value(a)?)? == number(value(b)?)?),
                    [a, op, b] if op.source == "-ne" => Some(number(value(a)?)? != number(value(b)?)?),
                    [a, op, b] if op.source == "-gt" => Some(number(value(a)?)? > number(value(b)?)?),
                    [a, op, b] if op.source == "-lt" => Some(number(value(a)?)? < number(value(b)?)?),
                    [a, op, b] if op.source == "-ge" => Some(number(value(a)?)? >= number(value(b)?)?),
                    [a, op, b] if op.source == "-le" => Some(number(value(a)?)? <= number(value(b)?)?),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// Converts a test: to an expectation on what commands print, or to the command `test`.
    pub(super) fn test(&self, inner: &str, double: bool, st: &State, positive: bool) -> Option<Out> {
        let words = statement::split(inner)?;
        self.test_of(&if double { statement::grouped(words) } else { words }, double, st, positive)
    }

    fn test_of(&self, words: &[Word], double: bool, st: &State, positive: bool) -> Option<Out> {
        let has_command = |w: &Word| w.parts.iter().any(|p| matches!(p, Part::Command { .. }));
        if words.iter().any(has_command)
            && let Some(out) = self.asked(words, double, st, positive)
        {
            return Some(out);
        }
        if double
            && let [first, inner @ .., last] = words
            && (first.source.as_str(), last.source.as_str()) == ("(", ")")
            && statement::outside(inner).is_some()
        {
            return self.test_of(inner, double, st, positive);
        }
        let outside = statement::outside(words)?;
        for (tokens, any) in [(["||", "-o"], positive), (["&&", "-a"], !positive)] {
            if let Some(at) = outside.iter().copied().find(|at| tokens.contains(&words[*at].source.as_str())) {
                let a = self.test_of(&words[..at], double, st, positive)?;
                let b = self.test_of(&words[at + 1..], double, st, positive)?;
                return if any { self.either(a, b) } else { Some(a.then(b)) };
            }
        }
        let (words, positive) = match words.split_first() {
            Some((first, rest)) if first.source == "!" => (rest, !positive),
            _ => (words, positive),
        };
        if words.iter().any(|w| has_command(w) || matches!(w.source.as_str(), "(" | ")")) {
            return None;
        }
        // A word in `[[ ]]` is never split.
        let whole = |w: &Word| -> Option<Word> {
            let bare = w.parts.iter().any(|p| matches!(p, Part::Var { quoted: false, .. }));
            (!double || !bare || !w.source.contains('"')).then_some(())?;
            Some(if double && bare { Word::read(&format!("\"{}\"", w.source), 0) } else { w.clone() })
        };
        let command = |words: &[&Word], operator: Option<&str>| {
            let mut all = vec![Word::read("test", 0)];
            for (i, word) in words.iter().enumerate() {
                let is_operator = i + 1 == words.len() - 1 && words.len() == 3 || i == 0 && words.len() == 2;
                all.push(match operator.filter(|_| is_operator) {
                    Some(operator) => Word::read(operator, 0),
                    None => whole(word)?,
                });
            }
            self.command(&Simple { words: all, ..Simple::default() }, st, false)
        };
        let bare = |w: &Word| {
            let unquoted = w.parts.iter().any(|p| matches!(p, Part::Var { quoted: false, .. }));
            !double && unquoted && st.scope.word(w).is_none_or(|text| text.has_open_hole())
        };
        match words {
            [op, a] => {
                let opposite = match op.source.as_str() {
                    "-z" => Some("-n"),
                    "-n" => Some("-z"),
                    "-f" | "-d" | "-e" | "-s" | "-x" | "-r" | "-w" | "-L" | "-h" => None,
                    _ => return None,
                };
                match (positive, opposite) {
                    (true, _) => command(&[op, a], None),
                    // Without quotes, a value may be empty or several words: then the opposite operator is not the opposite.
                    (false, _) if bare(a) => self.fails_somehow(command(&[op, a], None)?),
                    (false, Some(opposite)) => command(&[op, a], Some(opposite)),
                    (false, None) => denied(command(&[op, a], None)?),
                }
            }
            [a, op, b] => {
                let glob = |w: &Word| w.parts.iter().any(|p| matches!(p, Part::Other));
                // A pattern is matched against the value as a step prints it.
                let asked = match op.source.as_str() {
                    "=" | "==" | "!=" if double && glob(b) => Some(self.globbed(&b.source, st)?),
                    "=~" if double => Some(self.patterned(b, st)?),
                    _ => None,
                };
                if let Some(expect) = asked {
                    let not = step::Not::of(&expect);
                    let wanted = match positive == (op.source != "!=") {
                        true => expect,
                        false => step::Expect { not, ..Default::default() },
                    };
                    return self.value(a, &wanted, st);
                }
                if double && matches!(op.source.as_str(), "=" | "==" | "!=") && !self.is_text(b, st) {
                    return None;
                }
                let (operator, opposite) = match op.source.as_str() {
                    "=" | "==" => ("=", "!="),
                    "!=" => ("!=", "="),
                    // A comparison with something that is not a number always fails.
                    "-eq" | "-ne" | "-ge" | "-gt" | "-le" | "-lt" => {
                        // `[[` reads `010` as 8, and `test` as 10.
                        let open = |w: &Word| st.scope.word(w).is_none_or(|text| text.has_open_hole());
                        if double && (open(a) || open(b)) {
                            return None;
                        }
                        return match positive {
                            true => command(&[a, op, b], None),
                            false if st.waiting => self.fails_somehow(command(&[a, op, b], None)?),
                            false => {
                                Some(command(&[a, op, b], inverse(&op.source))?.but(Label::Stronger, NOT_A_NUMBER))
                            }
                        };
                    }
                    _ => return None,
                };
                (!glob(a) && !glob(b)).then_some(())?;
                // Without quotes, ` failed` is `failed`.
                if (bare(a) || bare(b)) && positive == (op.source == "!=") {
                    return None;
                }
                if !positive && (bare(a) || bare(b)) {
                    return self.fails_somehow(command(&[a, op, b], Some(operator))?);
                }
                command(&[a, op, b], Some(if positive { operator } else { opposite }))
            }
            _ => None,
        }
    }

    /// Inlines a function in place of its call.
    fn call(&self, body: &List, simple: &Simple, st: &State) -> Option<Out> {
        match self.call_flow(body, simple, st, st.tail || !self.counts(body))? {
            Flow::Falls(out) | Flow::Passes(out, Ending::Exit) => Some(out),
            _ => None,
        }
    }

    /// Whether a statement calls a function that may end the script: a following `||` or a surrounding `if` is then not reached.
    fn exits(&self, stmt: &Stmt, st: &State) -> bool {
        self.calls(stmt, st, "exit")
    }

    /// Whether a statement calls a function in which this command occurs.
    fn calls(&self, stmt: &Stmt, st: &State, command: &str) -> bool {
        // Most scripts have no functions, and a chain of thousands is checked at each link.
        if st.scope.functions.is_empty() {
            return false;
        }
        let mut called = Vec::new();
        self.called(stmt, st, &mut called);
        let mut occurs = false;
        for stmt in called.iter().filter_map(|name| st.scope.functions.get(*name)).flatten() {
            let is_it = |s: &Stmt| matches!(&s.kind, Kind::Simple(simple) if self.name(simple) == Some(command));
            statement::walk(stmt, &mut |s| occurs |= is_it(s));
        }
        occurs
    }

    /// Whether a statement is `true` or `:`, without files that could be missing or be emptied.
    fn is_true(&self, stmt: &Stmt) -> bool {
        let Kind::Simple(simple) = &stmt.kind else { return false };
        simple.words.len() == 1 && matches!(self.name(simple), Some("true" | ":")) && !statement::has_effects(simple)
    }

    /// Collects the functions that a statement calls, and those that these call.
    fn called<'s>(&self, stmt: &'s Stmt, st: &'s State, found: &mut Vec<&'s str>) {
        let mut names = Vec::new();
        statement::walk(stmt, &mut |s| {
            if let Kind::Simple(simple) = &s.kind {
                names.extend(self.name(simple));
            }
        });
        for name in names {
            if let Some(body) = st.scope.functions.get(name)
                && !found.contains(&name)
            {
                found.push(name);
                body.iter().for_each(|stmt| self.called(stmt, st, found));
            }
        }
    }

    /// Converts a call of a function. `tail`: the status of its last statement counts.
    fn call_flow(&self, body: &List, simple: &Simple, st: &State, tail: bool) -> Option<Flow> {
        if st.depth >= DEPTH
            || !simple.env.is_empty()
            || !simple.redirects.iter().all(|r| matches!(r, Redirect::Discard(_) | Redirect::Merge))
        {
            return None;
        }
        let mut inner =
            State { function: true, tail, waiting: false, fragile: false, depth: st.depth + 1, ..st.clone() };
        for n in 1..simple.words.len().max(10) {
            // A value that is not known may still be printed.
            let value = simple.words.get(n).map_or_else(|| Some(Text::literal("")), |word| st.scope.word(word));
            inner.scope.set(&n.to_string(), value);
        }
        let all = simple.words[1..].iter().map(|w| st.scope.word(w)).collect::<Option<Vec<_>>>();
        match all {
            Some(all) => drop(inner.scope.arrays.insert("@".to_owned(), all)),
            None => drop(inner.scope.arrays.remove("@")),
        }
        match with_captures(body, simple)? {
            Some(body) => self.seq(&body, inner, End::Falls),
            None => self.seq(body, inner, End::Falls),
        }
    }

    /// Whether a function only counts failures.
    fn counts(&self, body: &List) -> bool {
        let mut counts = false;
        let mut ends = false;
        for stmt in body {
            statement::walk(stmt, &mut |s| match &s.kind {
                Kind::Step(name) => counts |= self.tallies.contains(name),
                Kind::Assign(assigns) => counts |= assigns.iter().any(|a| self.tallies.contains(&a.name)),
                Kind::Simple(simple) => ends |= matches!(self.name(simple), Some("exit" | "return")),
                _ => {}
            });
        }
        counts && !ends
    }

    /// Reads a file of functions and constants.
    fn source(&self, path: &Word, st: &mut State) -> Option<()> {
        let path = match script_dir_prefix(&path.source) {
            Some(below) => st.scope.beside(below)?,
            None => self.fixed(&st.scope.word(path)?)?,
        };
        let base = self.shared.dir.join(st.workdir.as_deref().unwrap_or_default());
        let file = crate::source::resolve(&base, &path);
        let text = String::from_utf8(self.shared.files.read(&file).ok()?).ok()?;
        let mut list = ast::read(&bash::parse(&text)?)?;
        // A function that is defined again later has another body where the others call it.
        let functions = Functions::of(&list, &text).without(&st.scope.own);
        functions.inline(&mut list);
        st.scope.sourced.extend(functions);
        let here = st.scope.dir.clone();
        if let Some(folder) = std::path::Path::new(&path).parent() {
            st.scope.dir = Some(folder.to_path_buf());
        }
        for stmt in &list {
            match &stmt.kind {
                Kind::Function { name, body } => {
                    let known = st.scope.functions.insert(name.clone(), body.clone());
                    known.is_none_or(|known| known == *body).then_some(())?;
                }
                Kind::Assign(assigns) => assigns.iter().try_for_each(|a| self.assign(a, st))?,
                Kind::Simple(simple) if matches!(self.name(simple)?, "set" | "echo" | ":") => {
                    let flags = simple.words.iter().any(|w| w.source.starts_with('-'));
                    // Options that a helper sets apply to the script.
                    if self.name(simple)? == "set" && flags {
                        self.simple(stmt, simple, &[], st, End::Falls)?;
                    }
                }
                _ => return None,
            }
        }
        st.scope.dir = here;
        Some(())
    }

    /// `trap … EXIT`: converts the rest of the list, then the handler.
    fn trap(&self, simple: &Simple, after: &[Stmt], st: &State, end: End) -> Option<Next> {
        let [_, handler, signals @ ..] = simple.words.as_slice() else { return None };
        let text = handler.literal()?;
        let list = ast::read(&bash::parse(&text)?)?;
        let told = signals.iter().all(|s| matches!(s.source.as_str(), "ERR" | "INT" | "TERM" | "HUP"));
        if told && !list.is_empty() && list.iter().all(|s| self.only_tells(s, st)) {
            return Some(Next::Idle(None));
        }
        if !signals.iter().any(|s| s.source == "EXIT") || st.function || st.depth > 0 {
            return None;
        }
        let inner = State { tail: false, errexit: false, ..st.clone() };
        // Under `set -e`, a failure in a trap sets the exit status of the script.
        let guarded = |s: &Stmt| self.always_succeeds(s, st);
        if st.errexit && !list.iter().all(guarded) {
            return None;
        }
        let Flow::Falls(cleanup) = self.trapped(&list, after, inner)? else { return None };
        let rest = State { depth: 1, ..st.clone() };
        let (flow, ending) = match self.seq(after, rest, end)? {
            Flow::Falls(out) => (out, None),
            Flow::Passes(out, ending) => (out, Some(ending)),
            Flow::Fails(_) => return None,
        };
        if cleanup.steps.is_empty() {
            return Some(Next::End(ending.map_or(Flow::Falls(flow.clone()), |e| Flow::Passes(flow, e))));
        }
        let label = flow.label.max(cleanup.label);
        let mut why = flow.why.clone();
        why.extend(cleanup.why.clone());
        let step = Step::new(step::Kind::Group { steps: flow.steps, cleanup: cleanup.steps });
        let out = Out { steps: vec![step], label, why };
        Some(Next::End(ending.map_or(Flow::Falls(out.clone()), |e| Flow::Passes(out, e))))
    }

    /// Whether a statement never fails, whatever the environment: `A || true`, `rm -f FILE`.
    fn always_succeeds(&self, stmt: &Stmt, st: &State) -> bool {
        match &stmt.kind {
            Kind::Or(pair) => {
                let Kind::Simple(then) = &pair[1].kind else { return false };
                matches!(self.name(then), Some("true" | ":" | "echo")) && !statement::has_effects(then)
            }
            Kind::Simple(simple) => match self.name(simple) {
                Some("rm") => simple.words.iter().any(|w| matches!(w.source.as_str(), "-f" | "-rf" | "-fr")),
                Some(name) if simple.words.len() == 1 && st.depth < DEPTH => match st.scope.functions.get(name) {
                    Some(body) => {
                        let inner = State { depth: st.depth + 1, ..st.clone() };
                        body.iter().all(|s| self.always_succeeds(s, &inner))
                    }
                    None => self.is_idle(stmt, st),
                },
                _ => self.is_idle(stmt, st),
            },
            _ => self.is_idle(stmt, st),
        }
    }

    /// Converts what a trap does. Its functions may be defined after it.
    fn trapped(&self, list: &[Stmt], after: &[Stmt], mut st: State) -> Option<Flow> {
        for stmt in after {
            if let Kind::Function { name, body } = &stmt.kind {
                st.scope.functions.insert(name.clone(), body.clone());
            }
        }
        let cleanup = Lifter { shared: self.shared, phase: PhaseKind::Verify, tallies: self.tallies.clone() };
        if let [Stmt { kind: Kind::Simple(simple), .. }] = list
            && let Some(body) = st.scope.functions.get(self.name(simple)?).cloned()
        {
            return cleanup.seq(&body, st, End::Falls);
        }
        cleanup.seq(list, st, End::Falls)
    }

    fn each(
        &self,
        var: &str,
        values: &[Word],
        body: &[Stmt],
        after: &[Stmt],
        st: &mut State,
        end: End,
    ) -> Option<Next> {
        // Programs read `USER` and others by name: `for USER in ann bob` changes it for them as well.
        (!statement::is_special(var)).then_some(())?;
        let fixed = |name: &str| self.fixed(st.scope.get(name)?);
        let range = if let [one] = values { range(one, &fixed) } else { None };
        if body.iter().any(|s| matches!(&s.kind, Kind::Simple(s) if self.name(s) == Some("sleep"))) {
            if let Some((from, to)) = range {
                let count = (to + 1).checked_sub(from)?;
                return self.poll(Rounds { count, seen: Some(count), behind: None, by: 1 }, var, body, after, st, end);
            }
            let all: Option<Vec<_>> = values.iter().map(Word::literal).collect();
            let count = u32::try_from(all?.len()).ok()?;
            return self.poll(Rounds { count, seen: Some(count), behind: None, by: 1 }, var, body, after, st, end);
        }
        // Each value, as it is unless the environment overrides it, and its template.
        let mut list: Vec<(String, String)> = Vec::new();
        let numbers = range.filter(|(from, to)| to.saturating_sub(*from) < LIST);
        for word in values {
            let many = match numbers {
                Some((from, to)) => Some((from..=to).map(|n| n.to_string()).collect()),
                // In the other phases, the agent may have added files.
                None => braced(&word.source)
                    .or_else(|| (self.phase == PhaseKind::Setup).then(|| self.matching(&word.source, st))?),
            };
            if let Some(many) = many {
                list.extend(many.into_iter().map(|w: String| (w.clone(), crate::template::escape(&w))));
                continue;
            }
            let array = word.source.strip_prefix("\"${").and_then(|w| w.strip_suffix("[@]}\""));
            let array = array.or((word.source == "\"$@\"").then_some("@"));
            if let Some(name) = array {
                let items = st.scope.arrays.get(name)?;
                for item in items {
                    list.push((item.constant()?, self.template(item)));
                }
                continue;
            }
            match word.variable().and_then(|v| st.scope.get(v)).and_then(|t| self.fixed(t)) {
                // `for x in $LIST`
                Some(text) if matches!(word.parts.as_slice(), [Part::Var { quoted: false, .. }]) => {
                    (!text.contains(['*', '?', '[', '\\'])).then_some(())?;
                    list.extend(text.split_whitespace().map(|w| (w.to_owned(), crate::template::escape(w))));
                }
                _ => {
                    let text = st.scope.word(word)?;
                    list.push((text.constant()?, self.template(&text)));
                }
            }
        }
        if list.is_empty() {
            return None;
        }
        let mut name = var.to_ascii_lowercase();
        if ["env", "random", "task", "steps", "agent", "stdout", "stderr", "response", "content", "result"]
            .contains(&name.as_str())
            || st.scope.functions.contains_key(&format!("{{{name}}}"))
        {
            name.push_str("_name");
        }
        let (body, skips) = self.skipped(var, body, &mut list, st)?;
        if list.is_empty() {
            return skips.then_some(Next::Idle(None));
        }
        let safe = list.iter().all(|(v, _)| crate::bash::is_safe(v));
        let last = after.is_empty() && st.tail;
        let mut inner = State { tail: last, waiting: false, ..self.carried(body, st) };
        let hole = vec![crate::convert::shell::Piece::Hole {
            text: format!("{{{name}}}"),
            constant: None,
            safe,
            quoted: false,
        }];
        inner.scope.set(var, Some(Text(hole)));
        let flow = self.shared.attempt(|| self.seq(body, inner, End::Falls));
        let Some(flow) = flow else { return self.rounds(var, &list, body, last, st) };
        let Flow::Falls(out) = flow else { return None };
        if out.steps.is_empty() {
            return Some(Next::Idle(None));
        }
        if list.len() > 1 && self.shared.err() {
            list.pop();
        }
        let several = list.len() > 1;
        let values = list.into_iter().map(|(_, template)| template).collect();
        let mut step = Step::new(step::Kind::Foreach { var: name, values, steps: out.steps });
        step.timeout = None;
        let mut lifted = Out { steps: vec![step], label: out.label, why: out.why };
        if last && !st.errexit && several {
            lifted = lifted.but(Label::Stronger, "every iteration must pass, not only the last");
        }
        Some(Next::Steps(lifted, 1))
    }

    /// `[ "$a" = "$b" ] && continue` at the start of a loop: drops the values that end a round at once. Returns the rest of the body,
    /// and whether it starts in this way.
    fn skipped<'b>(
        &self,
        var: &str,
        body: &'b [Stmt],
        list: &mut Vec<(String, String)>,
        st: &State,
    ) -> Option<(&'b [Stmt], bool)> {
        let Some((first, rest)) = body.split_first() else { return Some((body, false)) };
        let continues = |list: &[Stmt]| {
            let (last, before) = list.split_last()?;
            let Kind::Simple(simple) = &last.kind else { return None };
            let ends = simple.words.len() == 1 && self.name(simple) == Some("continue");
            (ends && before.iter().all(|s| self.idle(s))).then_some(())
        };
        let condition = match &first.kind {
            Kind::If { branches, otherwise: None } => match branches.as_slice() {
                [(condition, body)] if continues(body).is_some() => condition.first(),
                _ => None,
            },
            Kind::And(pair) => continues(&pair[1..]).map(|()| &pair[0]),
            _ => None,
        };
        let Some(condition) = condition else { return Some((body, false)) };
        let mut kept = Vec::new();
        for (value, template) in list.drain(..) {
            let mut inner = st.clone();
            inner.scope.set(var, Some(Text::literal(value.clone())));
            if !self.known(condition, &inner)? {
                kept.push((value, template));
            }
        }
        *list = kept;
        Some((rest, true))
    }

    /// The state at the beginning of any round of a loop: what the body sets may have the value of an earlier round.
    fn carried(&self, body: &[Stmt], st: &State) -> State {
        let mut names = Vec::new();
        for stmt in body {
            statement::assigned(stmt, &mut names);
            self.set_by_functions(stmt, st, &mut names);
        }
        let mut inner = st.clone();
        for name in names.iter().filter(|name| !self.tallies.contains(*name)) {
            inner.scope.arrays.remove(name);
            if st.scope.knows(name) {
                inner.scope.set(name, None);
            }
        }
        inner
    }

    /// A loop whose body is different for each value: converts each round on its own.
    fn rounds(&self, var: &str, list: &[(String, String)], body: &[Stmt], last: bool, st: &State) -> Option<Next> {
        (list.len() <= ROUNDS && !st.unrolled).then_some(())?;
        let st = self.carried(body, st);
        let mut all = Out::none();
        for (at, (value, template)) in list.iter().enumerate() {
            (crate::template::escape(value) == *template).then_some(())?;
            let tail = last && at + 1 == list.len();
            let mut inner = State { tail, waiting: false, unrolled: true, ..st.clone() };
            inner.scope.set(var, Some(Text::literal(value.clone())));
            let Flow::Falls(out) = self.seq(body, inner, End::Falls)? else { return None };
            all = all.then(out);
        }
        Some(if all.steps.is_empty() { Next::Idle(None) } else { Next::Steps(all, 1) })
    }

    /// Returns the files of the task that a pattern such as `manifests/*.yaml` matches, in bash's order.
    fn matching(&self, pattern: &str, st: &State) -> Option<Vec<String>> {
        let (folder, name) = pattern.rsplit_once('/').unwrap_or((".", pattern));
        let (start, end) = name.split_once('*')?;
        let plain = |text: &str| text.is_empty() || bash::is_safe(text);
        (plain(start) && plain(end) && bash::is_safe(folder)).then_some(())?;
        let base = self.shared.dir.join(st.workdir.as_deref().unwrap_or_default());
        let mut found: Vec<String> = self.shared.files.list(&crate::source::resolve(&base, folder));
        let fits = |file: &String| {
            file.len() >= name.len() - 1
                && file.starts_with(start)
                && file.ends_with(end)
                && (!file.starts_with('.') || start.starts_with('.'))
                && bash::is_safe(file)
        };
        found.retain(fits);
        found.sort();
        if found.is_empty() || found.len() > LIST as usize {
            return None;
        }
        self.shared.note(format!("`{pattern}` is now a list of the files that match it"));
        let path = |file: String| if pattern.contains('/') { format!("{folder}/{file}") } else { file };
        Some(found.into_iter().map(path).collect())
    }

    /// `until …; do sleep N; done`: waits for as long as a script may take.
    fn wait(&self, until: bool, condition: &[Stmt], body: &[Stmt], st: &State) -> Option<Next> {
        let [condition] = condition else { return None };
        let (pauses, rest): (Vec<_>, Vec<_>) =
            body.iter().partition(|s| matches!(&s.kind, Kind::Simple(s) if self.name(s) == Some("sleep")));
        let [pause] = pauses.as_slice() else { return None };
        let interval = self.interval(pause, st)?;
        for stmt in rest {
            let Some(Next::Idle(_)) = self.next(std::slice::from_ref(stmt), &mut st.clone(), End::Falls) else {
                return None;
            };
        }
        let st = &State { waiting: true, ..self.carried(body, st) };
        let out = if until { self.check(condition, st)? } else { self.deny(condition, st)? };
        Some(Next::Steps(self.eventually(out, 300, interval), 1))
    }

    /// `while [ $n -lt 30 ]; do …; n=$((n + 1)); sleep 2; done`, and `while true; do …; sleep 2; done`.
    fn counted_rounds(
        &self,
        until: bool,
        condition: &[Stmt],
        body: &[Stmt],
        after: &[Stmt],
        st: &mut State,
        end: End,
    ) -> Option<Next> {
        let [condition] = condition else { return None };
        if let Some(next) = self.attempts(until, condition, body, after, st, end) {
            return Some(next);
        }
        if until {
            return None;
        }
        if self.is_true(condition) {
            let pause = body.iter().find(|s| matches!(&s.kind, Kind::Simple(s) if self.name(s) == Some("sleep")))?;
            let rounds = u32::try_from(300 / self.interval(pause, st)?).ok()?;
            return self.poll(Rounds { count: rounds, seen: None, behind: None, by: 1 }, "", body, after, st, end);
        }
        let Kind::Test(inner, _) = &condition.kind else { return None };
        let words = statement::words(inner)?;
        let [a, op, b] = words.as_slice() else { return None };
        let [Part::Var { name, .. }] = a.parts.as_slice() else { return None };
        let from = self.fixed(st.scope.get(name)?)?.parse::<u32>().ok()?;
        let to = self.fixed(&st.scope.word(b)?)?.parse::<u32>().ok()?;
        let one_more = |s: &Stmt| counted(s).is_some_and(|(other, _)| other == name);
        let (more, rest): (Vec<Stmt>, Vec<Stmt>) = body.iter().cloned().partition(one_more);
        let [only] = more.as_slice() else { return None };
        let by = self.increment(only, st)?;
        let count = match op.source.as_str() {
            "-lt" => to.checked_sub(from)?.div_ceil(by),
            "-le" => to.checked_sub(from)? / by + 1,
            _ => return None,
        };
        (count > 0).then_some(())?;
        let is_more = |s: &Stmt| more.contains(s);
        let first = body.first().is_some_and(is_more);
        let last = body.iter().rev().find(|s| !matches!(&s.kind, Kind::Simple(s) if self.name(s) == Some("sleep")));
        let last = last.is_some_and(is_more);
        let seen = if first { Some(from + count * by) } else { last.then_some(from + (count - 1) * by) };
        let behind = (last && !first).then_some(from + count * by);
        self.poll(Rounds { count, seen, behind, by }, name, &rest, after, st, end)
    }

    /// By how much a statement increments its variable.
    fn increment(&self, stmt: &Stmt, st: &State) -> Option<u32> {
        let (_, by) = counted(stmt)?;
        let by = match by.parse::<u32>() {
            Ok(by) => by,
            Err(_) => self.fixed(st.scope.get(&by)?)?.parse().ok()?,
        };
        (1..=3600).contains(&by).then_some(by)
    }

    /// `END=$((SECONDS + 60))` before `while [ $SECONDS -lt $END ]; do …; sleep 2; done`.
    fn deadline(&self, assign: &ast::Assign, after: &[Stmt], st: &mut State, end: End) -> Option<Next> {
        let (Stmt { kind: Kind::While { until: false, condition, body }, .. }, rest) = after.split_first()? else {
            return None;
        };
        let source = assign.value.as_ref().filter(|_| !assign.odd && !assign.export)?.source.trim_matches('"');
        let (now, seconds) = source.strip_prefix("$((")?.strip_suffix("))")?.split_once('+')?;
        let name = |text: &str| text.trim().trim_start_matches('$').to_owned();
        (name(now) == "SECONDS").then_some(())?;
        let seconds = match seconds.trim().parse::<u64>() {
            Ok(seconds) => seconds,
            Err(_) => self.fixed(st.scope.get(&name(seconds))?)?.parse().ok()?,
        };
        let [Stmt { kind: Kind::Test(inner, _), .. }] = condition.as_slice() else { return None };
        let words = statement::words(inner)?;
        let [a, op, b] = words.as_slice() else { return None };
        let variable = |word: &Word| match word.parts.as_slice() {
            [Part::Var { name, .. }] => Some(name.clone()),
            _ => None,
        };
        let compares = variable(a)? == "SECONDS" && variable(b)? == assign.name && op.source == "-lt";
        let reads_time = statement::reads(body.iter().chain(rest), "SECONDS");
        (compares && !reads_time && !statement::reads(body.iter().chain(rest), &assign.name)).then_some(())?;
        let pause = body.iter().find(|s| matches!(&s.kind, Kind::Simple(s) if self.name(s) == Some("sleep")))?;
        let interval = self.interval(pause, st)?;
        seconds.is_multiple_of(interval).then_some(())?;
        let count = u32::try_from(seconds / interval).ok().filter(|count| *count > 0)?;
        let rounds = Rounds { count, seen: None, behind: None, by: 1 };
        match self.poll(rounds, &assign.name, body, rest, st, end)? {
            Next::Steps(out, statements) => Some(Next::Steps(out, statements + 1)),
            next => Some(next),
        }
    }

    /// `until COMMAND; do n=$((n + 1)); if [ $n -ge 10 ]; then exit 1; fi; sleep 3; done`: a wait that ends when the command succeeds.
    fn attempts(
        &self,
        until: bool,
        condition: &Stmt,
        body: &[Stmt],
        after: &[Stmt],
        st: &mut State,
        end: End,
    ) -> Option<Next> {
        let (at, (name, _)) = body.iter().enumerate().find_map(|(at, s)| Some((at, counted(s)?)))?;
        let by = self.increment(&body[at], st)?;
        (!statement::mentions(condition, name)).then_some(())?;
        let endless = !until && self.is_true(condition);
        let from = self.fixed(st.scope.get(name)?)?.parse::<u32>().ok()?;
        let (guard, limit) = body.iter().enumerate().find_map(|(guard, stmt)| {
            let Kind::If { branches, otherwise: None } = &stmt.kind else { return None };
            let [(condition, _)] = branches.as_slice() else { return None };
            let [Stmt { kind: Kind::Test(inner, _), .. }] = condition.as_slice() else { return None };
            let words = statement::words(inner)?;
            let [a, op, b] = words.as_slice() else { return None };
            let compares = op.source == "-ge" || op.source == "-eq" && by == 1;
            (a.variable() == Some(name) && compares).then_some(())?;
            Some((guard, self.fixed(&st.scope.word(b)?)?.parse::<u32>().ok()?))
        })?;
        // The round in which it gives up.
        let count = limit.checked_sub(from)?.div_ceil(by) + u32::from(guard < at);
        (count > 0).then_some(())?;
        if endless {
            // In the last round it checks, and then gives up.
            let waits = |s: &Stmt| matches!(&s.kind, Kind::Simple(s) if self.name(s) == Some("sleep"));
            let behind = body[at.min(guard)..].iter().enumerate().all(|(i, s)| {
                let i = i + at.min(guard);
                i == at || i == guard || waits(s) || self.idle(s)
            });
            behind.then_some(())?;
            let rounds: List = body.iter().enumerate().filter(|(i, _)| *i != at).map(|(_, s)| s.clone()).collect();
            return self.poll(Rounds { count, seen: Some(limit), behind: None, by: 1 }, name, &rounds, after, st, end);
        }
        let stmt = |kind| Stmt { range: condition.range.clone(), kind, comments: Vec::new(), background: false };
        let leave = stmt(Kind::Simple(Simple { words: vec![Word::read("break", 0)], ..Simple::default() }));
        let asked = if until { condition.clone() } else { stmt(Kind::Not(Box::new(condition.clone()))) };
        let mut rounds = vec![stmt(Kind::If { branches: vec![(vec![asked], vec![leave])], otherwise: None })];
        rounds.extend(body.iter().enumerate().filter(|(i, _)| *i != at).map(|(_, s)| s.clone()));
        self.poll(Rounds { count, seen: Some(limit), behind: None, by: 1 }, name, &rounds, after, st, end)
    }

    fn eventually(&self, out: Out, seconds: u64, interval: u64) -> Out {
        let text = |s| duration::format(std::time::Duration::from_secs(s));
        let seconds = if self.shared.err() { seconds.saturating_sub(interval).max(1) } else { seconds };
        let mut step = Step::new(step::Kind::Eventually { interval: text(interval), steps: out.steps });
        step.timeout = Some(text(seconds));
        if let step::Kind::Eventually { steps, .. } = &mut step.kind
            && let Some(first) = steps.first_mut()
        {
            step.comments = std::mem::take(&mut first.comments);
        }
        Out { steps: vec![step], label: out.label, why: out.why }
    }

    fn interval(&self, pause: &Stmt, st: &State) -> Option<u64> {
        let Kind::Simple(simple) = &pause.kind else { return None };
        let text = self.fixed(&st.scope.word(simple.words.get(1)?)?)?;
        text.strip_suffix('s').unwrap_or(&text).parse::<u64>().ok().filter(|n| *n > 0)
    }

    /// Converts a loop that checks, waits and checks again.
    fn poll(&self, rounds: Rounds, var: &str, body: &[Stmt], after: &[Stmt], st: &mut State, end: End) -> Option<Next> {
        let is_pause = |s: &&Stmt| matches!(&s.kind, Kind::Simple(s) if self.name(s) == Some("sleep"));
        let [pause] = body.iter().filter(is_pause).collect::<Vec<_>>()[..] else { return None };
        let interval = self.interval(pause, st)?;
        if st.waiting || end == End::Fails {
            return None;
        }
        // Without a limit of its own, it continues for as long as a script may take.
        let mut hard = var.is_empty();
        let mut said = Vec::new();
        let mut looks: List = Vec::new();
        for stmt in body.iter().filter(|s| !is_pause(s)) {
            match self.gives_up(stmt, var, rounds.seen, st) {
                Some(more) => {
                    hard = true;
                    said = more;
                }
                None => looks.push(stmt.clone()),
            }
        }
        let mut inner = State { tail: false, waiting: true, fragile: st.errexit, ..self.carried(&looks, st) };
        inner.scope.set(var, None);
        let mut flags = Vec::new();
        set_in(&looks, &mut flags);
        for (name, _) in &flags {
            inner.scope.set(name, None);
        }
        let Flow::Passes(out, ending) = self.seq(&looks, inner, End::Fails)? else { return None };
        if out.steps.is_empty() {
            return None;
        }
        let out = self.eventually(out, u64::from(rounds.count) * interval, interval);
        // What the loop has found out is not known after it.
        let mut found = vec![var.to_owned()];
        body.iter().for_each(|s| statement::assigned(s, &mut found));
        let mut behind = st.clone();
        found.iter().for_each(|name| behind.scope.set(name, None));
        let read_from = |from: usize| -> Vec<&String> {
            let rest = || after[from.min(after.len())..].iter().filter(|s| !self.idle(s));
            found.iter().filter(|name| statement::reads(rest(), name)).collect()
        };
        if hard {
            let mut out = out.told(&messages(&said));
            return match ending {
                Ending::Break => {
                    self.captured_by_wait(&read_from(0), &looks, &mut out, st)?;
                    Some(Next::Steps(out, 1))
                }
                Ending::Exit => Some(Next::End(Flow::Passes(out, Ending::Exit))),
            };
        }
        if ending == Ending::Exit {
            return self.or_rest(out, ending, after, &behind, end);
        }
        if read_from(0).is_empty() {
            return Some(Next::Steps(self.ignored(out), 1));
        }
        // If a check after the loop tests why it ended, the loop must succeed.
        let guard = after.iter().position(|s| !self.is_idle(s, &behind))?;
        let one = std::slice::from_ref(&after[guard]);
        let at = |name: &str, value: Option<&str>| {
            let mut inner = State { tail: false, ..behind.clone() };
            let before = st.scope.get(name).cloned().unwrap_or_else(|| Text::literal(""));
            inner.scope.set(name, Some(value.map_or(before, Text::literal)));
            self.seq(one, inner, End::Falls)
        };
        let goes_on = |flow: &Flow| matches!(flow, Flow::Falls(o) if o.steps.is_empty());
        let rest = |said: &[String], st: &mut State| {
            let mut out = out.clone().told(&messages(said));
            self.captured_by_wait(&read_from(guard + 1), &looks, &mut out, st)?;
            Some(Next::Steps(out, guard + 2))
        };
        if let Some((name, value)) = flags.first()
            && statement::mentions(&after[guard], name)
        {
            // `READY=true; break`
            let Flow::Fails(said) = at(name, None)? else { return None };
            return match at(name, Some(value))? {
                Flow::Passes(o, e) if o.steps.is_empty() => {
                    Some(Next::End(Flow::Passes(out.told(&messages(&said)), e)))
                }
                flow if goes_on(&flow) => rest(&said, st),
                _ => None,
            };
        }
        if let Some(last) = rounds.behind
            && statement::mentions(&after[guard], var)
        {
            // `if [ $n -eq 30 ]; then …; exit 1; fi`
            let Flow::Fails(said) = at(var, Some(&last.to_string()))? else { return None };
            let all = (last.checked_sub(rounds.count * rounds.by)?..last)
                .step_by(rounds.by as usize)
                .all(|n| at(var, Some(&n.to_string())).is_some_and(|flow| goes_on(&flow)));
            return if all { rest(&said, st) } else { None };
        }
        rest(&self.same_question(&looks, &after[guard], &behind)?, st)
    }

    /// `for i in 1 2 3; do V=$(COMMAND); [ -n "$V" ] && break; sleep 1; done`, where `V` is read after the loop: the command in the wait
    /// gets an id, and `V` is its output. `None` if another variable of the loop is read.
    fn captured_by_wait(&self, read: &[&String], looks: &[Stmt], out: &mut Out, st: &mut State) -> Option<()> {
        let [name] = read else { return read.is_empty().then_some(()) };
        let mut set = Vec::new();
        looks.iter().for_each(|stmt| statement::assigned(stmt, &mut set));
        (set.iter().filter(|other| other == name).count() == 1).then_some(())?;
        let command = looks.iter().find_map(|stmt| self.captured_command(stmt, name, st))?;
        let step::Kind::Eventually { steps, .. } = &mut out.last()?.kind else { return None };
        let [step] = steps.as_mut_slice() else { return None };
        let step::Kind::Command { run, .. } = &step.kind else { return None };
        (*run == command && step.id.is_none()).then_some(())?;
        let id = self.shared.id(&name.replace('_', "-"));
        st.scope.set(name, Some(Text::hole(format!("{{steps.{id}.outputs.stdout}}"), None, true)));
        step.id = Some(id);
        Some(())
    }

    fn is_idle(&self, stmt: &Stmt, st: &State) -> bool {
        matches!(self.next(std::slice::from_ref(stmt), &mut st.clone(), End::Falls), Some(Next::Idle(_)))
    }

    /// `if [ $i -eq LAST ]; then …; exit 1; fi` in a loop: returns its messages.
    fn gives_up(&self, stmt: &Stmt, var: &str, seen: Option<u32>, st: &State) -> Option<Vec<String>> {
        let Kind::If { branches, otherwise: None } = &stmt.kind else { return None };
        let [(condition, body)] = branches.as_slice() else { return None };
        let [Stmt { kind: Kind::Test(inner, _), .. }] = condition.as_slice() else { return None };
        let words = statement::words(inner)?;
        let [a, op, b] = words.as_slice() else { return None };
        let limit = self.fixed(&st.scope.word(b)?)?.parse::<u32>().ok()?;
        let last = a.variable() == Some(var)
            && matches!(op.source.as_str(), "-eq" | "-ge" | "=" | "==")
            && Some(limit) == seen;
        match self.seq(body, State { tail: false, ..st.clone() }, End::Falls)? {
            Flow::Fails(said) if last => Some(said),
            _ => None,
        }
    }
}

/// How many rounds a loop has, and the value of its variable. A loop that ended early leaves another value.
#[derive(Clone, Copy)]
struct Rounds {
    count: u32,
    /// The value in the last round.
    seen: Option<u32>,
    behind: Option<u32>,
    /// By how much the variable grows in each round.
    by: u32,
}

/// `check "$(COMMAND)" x`: the body of a function with the commands among its arguments in front of it, as values of the variables that
/// the function calls them, or of `$1`. `None` if they would mean something else there, `Some(None)` if there are no commands.
fn with_captures(body: &[Stmt], call: &Simple) -> Option<Option<List>> {
    let is_command = |word: &Word| matches!(word.parts.as_slice(), [Part::Command { quoted: true, .. }]);
    if !call.words.iter().any(is_command) {
        return Some(None);
    }
    let mut own = Vec::new();
    body.iter().for_each(|stmt| statement::assigned(stmt, &mut own));
    let named = |stmt: &Stmt| matches!(&stmt.kind, Kind::Assign(assigns) if assigns.iter().all(|a| a.local && !a.odd && a.array.is_none()));
    let heads = body.iter().take_while(|stmt| named(stmt)).count();
    let (heads, rest) = body.split_at(heads);
    let mut locals: Vec<ast::Assign> = heads
        .iter()
        .flat_map(|stmt| match &stmt.kind {
            Kind::Assign(assigns) => assigns.clone(),
            _ => Vec::new(),
        })
        .collect();
    let stmt = |assign| Stmt { range: 0..0, kind: Kind::Assign(vec![assign]), comments: Vec::new(), background: false };
    let (mut captures, mut aliased) = (Vec::new(), true);
    for (at, word) in call.words.iter().enumerate().filter(|(_, word)| is_command(word)) {
        // What the command reads is the same in the function.
        let other = |name: &String| own.contains(name) || name.bytes().all(|b| b.is_ascii_digit());
        (!read_in(word)?.iter().any(other)).then_some(())?;
        let nth = at.to_string();
        let is_it = |a: &ast::Assign| a.value.as_ref().is_some_and(|w| w.variable() == Some(nth.as_str()));
        let mut alias = locals.iter().filter(|a| is_it(a)).map(|a| a.name.clone());
        let name = match (alias.next(), alias.next()) {
            (Some(name), None) if !rest.iter().any(|s| statement::mentions(s, &nth)) => name,
            _ => nth.clone(),
        };
        let reads_it = |a: &ast::Assign| a.value.as_ref().is_some_and(|w| w.source.contains(&format!("${name}")));
        (name == nth || !locals.iter().any(reads_it)).then_some(())?;
        locals.retain(|a| a.name != name);
        aliased &= name != nth;
        captures.push(ast::Assign {
            name,
            value: Some(word.clone()),
            export: false,
            local: true,
            odd: false,
            array: None,
        });
    }
    let heads = if aliased { [locals, captures] } else { [captures, locals] };
    Some(Some(heads.into_iter().flatten().map(stmt).chain(rest.iter().cloned()).collect()))
}

/// The variables that the commands in a word read. May return too many names, but never too few.
fn read_in(word: &Word) -> Option<Vec<String>> {
    let mut found = Vec::new();
    for part in &word.parts {
        let Part::Command { text, .. } = part else { continue };
        for stmt in ast::read(&bash::parse(text)?)? {
            match &stmt.kind {
                Kind::Simple(simple) if simple.redirects.is_empty() && simple.env.is_empty() => {
                    simple.words.iter().for_each(|word| word.variables(&mut found));
                }
                Kind::Pipeline(list) if list.iter().all(|s| matches!(&s.kind, Kind::Simple(s) if s.env.is_empty())) => {
                    for stmt in list {
                        let Kind::Simple(simple) = &stmt.kind else { continue };
                        simple.words.iter().for_each(|word| word.variables(&mut found));
                    }
                }
                _ => found.extend(ast::names_in(text)),
            }
        }
    }
    Some(found)
}

/// Returns the variable that a statement increments, and by how much: a number or the name of a variable.
fn counted(stmt: &Stmt) -> Option<(&str, String)> {
    match &stmt.kind {
        Kind::Step(name) => Some((name, "1".to_owned())),
        Kind::Assign(assigns) => match assigns.as_slice() {
            [assign] => Some((&assign.name, statement::counts_by(assign)?)),
            _ => None,
        },
        _ => None,
    }
}

/// Renders a part of a message for people; an output is shown by the name of its variable.
fn shown(piece: &crate::convert::shell::Piece) -> String {
    use crate::convert::shell::Piece;
    match piece {
        Piece::Literal(text) => text.clone(),
        Piece::Hole { constant: Some(text), .. } => text.clone(),
        // A comment has no values.
        Piece::Hole { text, .. } if text.starts_with("{steps.") => "…".to_owned(),
        Piece::Hole { text, .. } => text.clone(),
    }
}

/// A text with `…` in place of variables.
fn without_variables(source: &str) -> String {
    let mut parts = source.split('$');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = match part.strip_prefix('{') {
            Some(braced) => braced.find('}').map(|at| at + 2),
            None => Some(part.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(part.len())),
        };
        match end.filter(|end| *end > 0) {
            Some(end) => text += &format!("…{}", &part[end..]),
            None => text += &format!("${part}"),
        }
    }
    text
}

/// Whether a body may end the script with `exit`, and never ends only itself with `return`.
fn ends(body: &[Stmt]) -> bool {
    let mut exits = false;
    let mut returns = false;
    for stmt in body {
        statement::walk(stmt, &mut |s| {
            if let Kind::Simple(simple) = &s.kind {
                let name = simple.words.first().map_or("", |w| w.source.as_str());
                exits |= name == "exit";
                returns |= name == "return";
            }
        });
    }
    exits && !returns
}

/// `exit 0`
fn exits_well(stmt: &Stmt) -> bool {
    let Kind::Simple(simple) = &stmt.kind else { return false };
    let words: Vec<&str> = simple.words.iter().map(|w| w.source.as_str()).collect();
    words == ["exit", "0"] && simple.redirects.is_empty() && !stmt.background
}

/// Returns the state for a command whose status the shell tests: its failure does not end the script.
fn soft(st: &State) -> State {
    State { errexit: false, fragile: false, ..st.clone() }
}

/// A text of `printf` with its arguments in place of `%s` and `%d`.
fn formatted(format: &str, given: &[String]) -> String {
    let mut given = given.iter();
    let mut parts = format.split('%');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.strip_prefix(['s', 'd', 'q', 'b']) {
            Some(rest) => out += &format!("{}{rest}", given.next().map_or("", String::as_str)),
            None => out += &format!("%{part}"),
        }
    }
    given.fold(out, |out, word| out + " " + word)
}

/// What makes a terminal change the color.
static COLOR: Ascii = ascii(r"\\(?:033|e|x1[bB]|u001[bB])\[[0-9;]*m");

/// Whether the messages of a command are discarded.
fn is_silenced(stmt: &Stmt) -> bool {
    let Kind::Simple(simple) = &stmt.kind else { return false };
    simple.redirects.iter().any(|redirect| matches!(redirect, Redirect::Discard(2 | 3)))
}

/// Drops the expectations of steps whose result does not matter.
fn forgiving(mut out: Out) -> Out {
    if out.label == Label::Stronger && out.steps.len() == 1 {
        (out.label, out.why) = (Label::Exact, Vec::new());
    }
    if let [step] = out.steps.as_mut_slice()
        && let step::Kind::Command { expect, .. } = &mut step.kind
    {
        *expect = step::Expect::default();
    }
    out
}

/// Expands `{a,b}` or `shop-{1..3}` to words, if nothing else in it is expanded.
fn braced(source: &str) -> Option<Vec<String>> {
    let (before, rest) = source.split_once('{')?;
    let (inner, behind) = rest.split_once('}')?;
    let plain = |text: &str| text.is_empty() || bash::is_safe(text) && !text.contains("..");
    (plain(before) && plain(behind)).then_some(())?;
    let items: Vec<String> = match inner.split_once("..") {
        Some((from, to)) => {
            let number = |text: &str| text.parse::<u32>().ok().filter(|n| n.to_string() == text);
            let (from, to) = (number(from)?, number(to)?);
            (from <= to && to - from < LIST).then_some(())?;
            (from..=to).map(|n| n.to_string()).collect()
        }
        None => inner.split(',').map(str::to_owned).collect(),
    };
    (items.len() > 1 && items.iter().all(|item| plain(item))).then_some(())?;
    Some(items.iter().map(|item| format!("{before}{item}{behind}")).collect())
}

/// Returns the first and the last number of `{1..30}`, `$(seq 30)` or `$(seq 1 30)`.
fn range(word: &Word, fixed: &dyn Fn(&str) -> Option<String>) -> Option<(u32, u32)> {
    let number = |text: &str| -> Option<u32> {
        let text = text.trim().trim_matches('"');
        match text.strip_prefix('$') {
            Some(name) => fixed(name.trim_matches(['{', '}']))?.parse().ok(),
            // `{01..10}` pads all of its numbers to two digits.
            None => text.parse::<u32>().ok().filter(|n| n.to_string() == text),
        }
    };
    if let Some(range) = word.source.strip_prefix('{').and_then(|t| t.strip_suffix('}')) {
        let (from, to) = range.split_once("..")?;
        let (from, to) = (number(from)?, number(to)?);
        return (from <= to && !range.contains('$')).then_some((from, to));
    }
    let [Part::Command { text, .. }] = word.parts.as_slice() else { return None };
    let words: Vec<&str> = text.split_whitespace().collect();
    match words.as_slice() {
        ["seq", to] => Some((1, number(to)?)),
        ["seq", from, to] => Some((number(from)?, number(to)?)),
        _ => None,
    }
    .filter(|(from, to)| from <= to)
}

/// Collects the variables that are set to a literal, and their values.
fn set_in(list: &[Stmt], found: &mut Vec<(String, String)>) {
    for stmt in list {
        match &stmt.kind {
            Kind::Assign(assigns) => {
                for assign in assigns {
                    if !assign.odd
                        && let Some(value) = assign.value.as_ref().and_then(Word::literal)
                    {
                        found.push((assign.name.clone(), value));
                    }
                }
            }
            Kind::If { branches, otherwise } => {
                branches.iter().for_each(|(_, body)| set_in(body, found));
                otherwise.iter().for_each(|body| set_in(body, found));
            }
            Kind::Group(list) => set_in(list, found),
            _ => {}
        }
    }
}

/// Returns the variable of `${NAME:-default}`, whose value in the environment takes precedence.
fn overridable(word: &Word) -> Option<&str> {
    match word.parts.as_slice() {
        [Part::Var { name, default: Some(_), .. }] => Some(name),
        _ => None,
    }
}
