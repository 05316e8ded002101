//! Converts a whole script: which statements are lifted, which stay, and what those that stay need.

use std::{
    borrow::Cow,
    collections::{BTreeSet, HashMap, HashSet},
    path::PathBuf,
};

use super::{
    BEHIND, Books, End, Flow, Label, Lifter, NOT_PROVED, Next, Out, Shared, State, TEMPORARY, allowed, messages,
    outcome,
    statement::{self, assigned, assigned_beyond, mentions, mentions_itself, prints, reads, sets, touches, walk},
};
use crate::{
    bash::{
        self,
        ast::{self, Kind, List, Part, Stmt, Word},
        flow,
        inline::Functions,
    },
    builtin::command::ExitCode,
    convert::{
        Piece, classify,
        shell::{Scope, Text, script_dir, script_dir_prefix},
        step::{self, Step},
    },
    hir::PhaseKind,
};

/// A script of a task.
#[derive(Clone, Debug)]
pub struct Source {
    pub phase: PhaseKind,
    pub text: String,
    /// The file that contains it, as the task names it.
    pub file: Option<String>,
    /// Where it runs, relative to the task's directory.
    pub workdir: Option<String>,
    /// The path of that file, for the report.
    pub path: Option<PathBuf>,
}

/// The result of lifting a script.
#[derive(Debug)]
pub struct Lifted {
    /// In execution order.
    pub steps: Vec<Step>,
    pub books: Books,
    /// Nothing was lifted: the script stays unchanged.
    pub untouched: bool,
    /// The script continues after failures.
    pub apart: bool,
}

/// Consecutive statements.
struct Chunk {
    from: usize,
    to: usize,
    kind: ChunkKind,
}

impl Chunk {
    fn is_lifted(&self) -> bool {
        matches!(self.kind, ChunkKind::Lifted(_))
    }
}

enum ChunkKind {
    Lifted(Out),
    Idle,
    /// The reason, and the outputs that contain its variables.
    Residual(String, HashMap<String, String>),
}

/// The maximum number of statements of a script that is taken apart.
const LONG: usize = 1000;

/// Takes a script apart. Returns `None` if it is not a script that gevals understands.
pub fn lift(source: &Source, shared: &Shared<'_>) -> Option<Lifted> {
    let first = source.text.lines().next().unwrap_or_default();
    if first.starts_with("#!") && !is_shell(first) || source.text.contains('\r') || source.text.contains('\0') {
        return None;
    }
    let script = bash::parse(&source.text)?;
    let program = script.program();
    if program.size > LONG {
        return None;
    }
    let list = ast::read(&script)?;
    if removes_from_environment(&list) {
        return None;
    }
    let once = classify::called_once(&program);
    let list = outcome::scored(outcome::joined(spliced(list, &once)));
    // Statements that stay in a script stay as they were written.
    let asked = bash::inline::inlined(&list, &source.text);
    let tallies = if source.phase == PhaseKind::Verify { tallies(&list) } else { HashSet::new() };
    let before = (
        shared.ids.borrow().clone(),
        shared.temporary.borrow().clone(),
        shared.places.get(),
        shared.env_used.borrow().clone(),
    );
    let restore = || {
        shared.ids.replace(before.0.clone());
        shared.temporary.replace(before.1.clone());
        shared.places.set(before.2);
        shared.env_used.replace(before.3.clone());
    };
    let is_kept = |stmt: &Stmt| {
        let line = line_of(source, stmt);
        shared.kept.iter().any(|k| k.phase == source.phase && k.file == source.path && k.line == line)
    };
    let kept: BTreeSet<usize> = (0..list.len()).filter(|at| is_kept(&list[*at])).collect();
    let attempt = |tallies: HashSet<String>| {
        let lifter = Lifter { shared, phase: source.phase, tallies };
        let mut forced = kept.clone();
        loop {
            restore();
            match chunks(&lifter, &asked, source, &kept, &forced) {
                Ok(chunks) => break (lifter, chunks),
                Err(more) => {
                    let known = forced.len();
                    forced.extend(more);
                    if forced.len() == known {
                        forced.extend(0..list.len());
                    }
                }
            }
        }
    };
    let counting = !tallies.is_empty();
    let (mut lifter, mut chunks) = attempt(tallies);
    if counting {
        // A script that counts failures continues after them; so must the steps.
        let apart = goes_on(&list);
        let functions = |s: &&Stmt| matches!(s.kind, Kind::Function { .. });
        let callees: Vec<&str> = list
            .iter()
            .filter(functions)
            .filter(|s| lifter.tallies.iter().any(|t| touches(s, t)))
            .filter_map(|s| if let Kind::Function { name, .. } = &s.kind { Some(name.as_str()) } else { None })
            .collect();
        // In the statement itself, or in a function that it calls.
        let touched = |s: &Stmt| {
            lifter.tallies.iter().any(|t| touches(s, t)) || callees.iter().any(|name| mentions_word(s, name))
        };
        let init = |s: &Stmt| matches!(&s.kind, Kind::Assign(a) if a.iter().all(|a| lifter.tallies.contains(&a.name)));
        let first = list.iter().position(|s| touched(s) && !init(s)).unwrap_or(0);
        // Where they are checked, nothing may happen except the end.
        let guards: Vec<_> =
            lifter.tallies.iter().filter_map(|t| list.iter().rposition(|s| touches(s, t) && !prints(s))).collect();
        let fits = chunks.iter().all(|c| match &c.kind {
            ChunkKind::Lifted(out) if guards.contains(&c.from) && !out.steps.is_empty() => false,
            ChunkKind::Residual(..) => !list[c.from..c.to].iter().any(touched),
            ChunkKind::Lifted(out) => apart || c.from <= first || super::read_only(&out.steps),
            ChunkKind::Idle => true,
        });
        if !fits {
            (lifter, chunks) = attempt(HashSet::new());
        }
    }
    let apart = !lifter.tallies.is_empty() && goes_on(&list);
    let lifted = assemble(&lifter, &list, source, chunks, &once)?;
    Some(Lifted { apart, ..lifted })
}

/// Returns variables that start with a literal, change on failures, and are checked once, to end the script.
fn tallies(list: &[Stmt]) -> HashSet<String> {
    let mut found = HashSet::new();
    for (at, stmt) in list.iter().enumerate() {
        let Kind::Assign(assigns) = &stmt.kind else { continue };
        let [assign] = assigns.as_slice() else { continue };
        let literal = assign.value.as_ref().and_then(Word::literal).filter(|_| !assign.odd);
        let empty = assign.array.as_ref().is_some_and(Vec::is_empty);
        let plain = |v: &String| matches!(v.as_str(), "0" | "1" | "true" | "false" | "pass" | "PASS" | "" | "ok");
        if !(empty || literal.as_ref().is_some_and(plain)) || found.contains(&assign.name) {
            continue;
        }
        let name = assign.name.as_str();
        let touching: Vec<usize> =
            (at + 1..list.len()).filter(|i| touches(&list[*i], name) && !prints(&list[*i])).collect();
        let Some((guard, changes)) = touching.split_last() else { continue };
        // Between the initialization and the check it only changes, and nothing else uses it before.
        let changed = |s: &Stmt| changes_only(s, name, literal.as_deref());
        let quiet =
            list[..at].iter().all(|s| !touches(s, name) || matches!(s.kind, Kind::Function { .. }) && changed(s));
        if quiet && !changes.is_empty() && changes.iter().all(|i| changed(&list[*i])) && !sets(&list[*guard], name) {
            found.insert(name.to_owned());
        }
    }
    found
}

/// Whether a statement only changes a variable, away from its initial value, and does nothing else with it.
fn changes_only(stmt: &Stmt, name: &str, first: Option<&str>) -> bool {
    let own = match &stmt.kind {
        Kind::Step(_) => true,
        Kind::Assign(assigns) => assigns.iter().all(|a| {
            let word = a.value.as_ref();
            let more = word.is_some_and(|w| {
                let text: String = w.source.chars().filter(|c| !c.is_whitespace() && *c != '$').collect();
                text.strip_prefix(&format!("(({name}+")).is_some_and(|n| n.trim_end_matches(')').parse::<u32>().is_ok())
            });
            let other = word.and_then(Word::literal).is_some_and(|v| Some(v.as_str()) != first && !v.is_empty());
            // `MISSING="$MISSING $x"` is no longer empty.
            let grows = first == Some("")
                && word.is_some_and(|w| match w.parts.as_slice() {
                    [Part::Var { name: own, default: None, .. }, Part::Text { text, .. }, ..] => {
                        own == name && !text.is_empty()
                    }
                    _ => false,
                });
            a.name != name && !mentions_itself(stmt, name) || a.odd || more || other || grows
        }),
        _ => prints(stmt) || !mentions_itself(stmt, name),
    };
    own && stmt.lists().into_iter().flatten().all(|s| changes_only(s, name, first))
}

/// Whether a script continues after failures, up to its last statement.
fn goes_on(list: &[Stmt]) -> bool {
    let ends = |s: &Stmt| {
        let mut found = false;
        walk(s, &mut |s| {
            if let Kind::Simple(simple) = &s.kind {
                let word = |i: usize| simple.words.get(i).map_or("", |w| w.source.as_str());
                let errexit =
                    word(0) == "set" && (word(1).starts_with('-') && word(1).contains('e') || word(2) == "errexit");
                found |= word(0) == "exit" || errexit;
            }
        });
        found
    };
    let last = list.iter().rposition(|s| !prints(s)).unwrap_or(0);
    let guard = if matches!(&list[last].kind, Kind::Simple(_)) { last.saturating_sub(1) } else { last };
    !list[..guard].iter().any(ends)
}

fn is_shell(first: &str) -> bool {
    let words: Vec<&str> = first.trim_start_matches("#!").split_whitespace().collect();
    let shell = |w: &str| matches!(w.rsplit('/').next(), Some("bash" | "sh"));
    match words.as_slice() {
        [program, rest @ ..] if program.ends_with("/env") => rest.first().is_some_and(|w| shell(w)) && rest.len() == 1,
        [program] => shell(program),
        // The option of `#!/bin/bash -e` is not visible in the script.
        _ => false,
    }
}

/// Replaces calls of functions that are called once with their bodies.
fn spliced(list: List, once: &HashSet<String>) -> List {
    let mut bodies = HashMap::new();
    let mut rest = Vec::new();
    for stmt in list {
        match stmt.kind {
            Kind::Function { ref name, ref body } if once.contains(name) && !own_scope(body) => {
                bodies.insert(name.clone(), body.clone());
            }
            _ => rest.push(stmt),
        }
    }
    let mut out = Vec::new();
    for stmt in rest {
        let body = match &stmt.kind {
            Kind::Simple(simple) if simple.redirects.is_empty() && simple.env.is_empty() => {
                match simple.words.as_slice() {
                    [name] => bodies.get(&name.source),
                    [name, all] if all.source == "\"$@\"" => bodies.get(&name.source),
                    _ => None,
                }
            }
            _ => None,
        };
        match body {
            Some(body) => out.extend(body.iter().cloned()),
            None => out.push(stmt),
        }
    }
    // A call that could not be replaced still needs its function.
    let left: Vec<_> = bodies
        .into_iter()
        .filter(|(name, _)| out.iter().any(|s| mentions_word(s, name)))
        .map(|(name, body)| {
            let range = body.first().map_or(0..0, |s| s.range.clone());
            Stmt { range, kind: Kind::Function { name, body }, comments: Vec::new(), background: false }
        })
        .collect();
    out.splice(0..0, left);
    out
}

/// Whether a body has another meaning outside of its function.
fn own_scope(body: &[Stmt]) -> bool {
    let mut found = false;
    for stmt in body {
        walk(stmt, &mut |s| match &s.kind {
            Kind::Assign(assigns) => found |= assigns.iter().any(|a| a.local),
            Kind::Simple(simple) => {
                let name = simple.words.first().map_or("", |w| w.source.as_str());
                found |=
                    name == "return" || simple.words.iter().any(|w| w.source.contains("$1") || w.source.contains("$@"));
            }
            _ => {}
        });
    }
    found
}

/// Whether a script removes a variable that it does not set: `unset KUBECONFIG`. A step cannot do that for those after it.
fn removes_from_environment(list: &[Stmt]) -> bool {
    let (mut own, mut removed) = (HashSet::new(), Vec::new());
    for stmt in list {
        walk(stmt, &mut |s| match &s.kind {
            Kind::Assign(assigns) => own.extend(assigns.iter().map(|assign| assign.name.as_str())),
            Kind::For { var, .. } | Kind::Count { var, .. } => drop(own.insert(var.as_str())),
            Kind::Other(text) if text.starts_with("unset ") => removed.extend(text.split_whitespace().skip(1)),
            _ => {}
        });
    }
    removed.into_iter().any(|name| ast::is_name(name) && !own.contains(name))
}

fn start(lifter: &Lifter<'_>, source: &Source, list: &[Stmt]) -> State {
    let is_file = source.file.is_some() || source.text.starts_with("#!");
    let mut scope = Scope::default();
    scope.dir = is_file.then(PathBuf::new);
    for stmt in list {
        walk(stmt, &mut |s| {
            if let Kind::Simple(simple) = &s.kind
                && matches!(
                    lifter.name(simple),
                    Some("read" | "mapfile" | "readarray" | "printf" | "unset" | "eval" | "let" | "getopts")
                )
            {
                for word in &simple.words[1..] {
                    if ast::is_name(&word.source) {
                        scope.wild.insert(word.source.clone());
                    }
                }
            }
        });
    }
    let mut set: HashMap<String, bool> = HashMap::new();
    for stmt in list {
        walk(stmt, &mut |s| match &s.kind {
            Kind::Function { name, .. } => drop(scope.own.insert(name.clone())),
            Kind::Assign(assigns) => {
                for assign in assigns {
                    let number =
                        assign.value.as_ref().and_then(Word::literal).is_some_and(|n| n.parse::<u32>().is_ok());
                    let counts = !assign.odd && !assign.export && number || statement::counts_up(assign);
                    set.entry(assign.name.clone()).and_modify(|all| *all &= counts).or_insert(counts);
                }
            }
            Kind::For { var, .. } | Kind::Count { var, .. } => drop(set.insert(var.clone(), false)),
            _ => {}
        });
    }
    scope.counters =
        set.into_iter().filter(|(name, all)| *all && !scope.wild.contains(name)).map(|(name, _)| name).collect();
    State {
        scope,
        errexit: false,
        nounset: false,
        pipefail: false,
        workdir: source.workdir.clone(),
        folders: Vec::new(),
        exported: Vec::new(),
        tail: true,
        fragile: false,
        function: false,
        waiting: false,
        by_output: false,
        unrolled: false,
        as_line: false,
        depth: 0,
    }
}

/// Returns the line of a statement in the script, counted from 1.
fn line_of(source: &Source, stmt: &Stmt) -> usize {
    source.text[..stmt.range.start].matches('\n').count() + 1
}

/// Converts each statement. `Err` contains statements that cannot be lifted after all.
fn chunks(
    lifter: &Lifter<'_>,
    list: &[Stmt],
    source: &Source,
    kept: &BTreeSet<usize>,
    forced: &BTreeSet<usize>,
) -> Result<Vec<Chunk>, Vec<usize>> {
    let mut st = start(lifter, source, list);
    let mut list = Cow::Borrowed(list);
    let mut chunks: Vec<Chunk> = Vec::new();
    // Variables that residual statements have set. Whatever uses them stays with those statements, with everything in between.
    let mut owners: HashMap<String, usize> = HashMap::new();
    let mut spans: Vec<(usize, usize)> = Vec::new();
    let spans_of = |owners: &HashMap<String, usize>, list: &[Stmt], from: usize, to: usize| {
        owners
            .iter()
            .filter(|(name, _)| reads(&list[from..to], name))
            .map(|(_, owner)| (*owner, to))
            .collect::<Vec<_>>()
    };
    let mut at = 0;
    while at < list.len() {
        let mut tried = st.clone();
        let marks = (
            lifter.shared.ids.borrow().clone(),
            lifter.shared.temporary.borrow().clone(),
            lifter.shared.env_used.borrow().clone(),
        );
        let next = if forced.contains(&at) { None } else { lifter.next(&list[at..], &mut tried, End::Falls) };
        let next = match next {
            Some(Next::Steps(out, n)) if !allowed(lifter.shared, &out) || (at..at + n).any(|i| forced.contains(&i)) => {
                None
            }
            Some(Next::End(Flow::Falls(ref out) | Flow::Passes(ref out, _)))
                if !allowed(lifter.shared, out) || forced.range(at..).next().is_some() =>
            {
                None
            }
            Some(Next::End(Flow::Fails(_))) => None,
            next => next,
        };
        match next {
            Some(Next::Idle(_)) => {
                st = tried;
                if let Kind::Assign(assigns) = &list[at].kind {
                    owners.retain(|name, _| !assigns.iter().any(|a| !a.odd && a.name == *name));
                }
                chunks.push(Chunk { from: at, to: at + 1, kind: ChunkKind::Idle });
                at += 1;
                if !st.scope.sourced.is_empty() {
                    st.scope.sourced.inline(&mut list.to_mut()[at..]);
                    st.scope.sourced = Functions::default();
                }
            }
            Some(Next::Steps(out, n)) => {
                st = tried;
                for stmt in &list[at..at + n] {
                    forget(stmt, &mut st, &lifter.tallies);
                }
                // Steps of a cleanup continue after one that failed, where `set -e` ends a script.
                let behind = st.errexit && chunks.iter().any(|chunk| !matches!(chunk.kind, ChunkKind::Idle));
                let more = lifter.phase == PhaseKind::Cleanup && behind;
                let out = if more { out.but(Label::Stronger, BEHIND) } else { out };
                let kind = if out.steps.is_empty() { ChunkKind::Idle } else { ChunkKind::Lifted(out) };
                spans.extend(spans_of(&owners, &list, at, at + n));
                for stmt in &list[at..at + n] {
                    if let Kind::Assign(assigns) = &stmt.kind {
                        owners.retain(|name, _| !assigns.iter().any(|a| !a.odd && a.name == *name));
                    }
                }
                chunks.push(Chunk { from: at, to: at + n, kind });
                at += n;
            }
            Some(Next::End(Flow::Falls(out) | Flow::Passes(out, _))) => {
                spans.extend(spans_of(&owners, &list, at, list.len()));
                chunks.push(Chunk { from: at, to: list.len(), kind: ChunkKind::Lifted(out) });
                at = list.len();
            }
            Some(Next::End(Flow::Fails(_))) | None => {
                lifter.shared.ids.replace(marks.0);
                lifter.shared.temporary.replace(marks.1);
                lifter.shared.env_used.replace(marks.2);
                let stmt = &list[at];
                let why = if kept.contains(&at) { NOT_PROVED.to_owned() } else { reason(stmt) };
                let holes = st.scope.outputs();
                st.folders.clear();
                let to = if takes_all(stmt) { list.len() } else { at + 1 };
                spans.extend(spans_of(&owners, &list, at, to));
                for stmt in &list[at..to] {
                    let mut names = Vec::new();
                    assigned(stmt, &mut names);
                    for name in names {
                        owners.insert(name.clone(), at);
                        st.scope.set(&name, None);
                    }
                }
                chunks.push(Chunk { from: at, to, kind: ChunkKind::Residual(why, holes) });
                at = to;
            }
        }
    }
    let mut more = Vec::new();
    if source.phase == PhaseKind::Cleanup && st.errexit {
        more.extend(guarded(&chunks, &list, source, forced));
    }
    for (owner, to) in spans {
        let lifted = |i: &usize| chunks.iter().any(|c| c.from <= *i && *i < c.to && c.is_lifted());
        more.extend((owner..to).filter(|i| !forced.contains(i)).filter(lifted));
    }
    if more.is_empty() && source.phase == PhaseKind::Verify {
        // On its own, a script that can only succeed is a mistake; with the check after it, it is what its author wrote.
        let parts: Vec<_> = chunks.chunk_by(|a, b| a.is_lifted() == b.is_lifted()).collect();
        let mut before = parts.iter().take(parts.len().saturating_sub(1)).filter(|part| !part[0].is_lifted());
        if let Some(part) = before.find(|part| only_succeeds(&list, part, source)) {
            let lifted = chunks.iter().filter(|c| c.from >= part[0].from && c.is_lifted());
            more.extend(lifted.flat_map(|c| c.from..c.to));
        }
    }
    if more.is_empty() { Ok(chunks) } else { Err(more) }
}

/// In a cleanup that ends at the first failure: the lifted statements from a check on, if it decides whether something is changed after
/// it. Steps of a cleanup run whatever fails before them.
fn guarded(chunks: &[Chunk], list: &[Stmt], source: &Source, forced: &BTreeSet<usize>) -> Vec<usize> {
    let text = |chunk: &Chunk| {
        let texts: Vec<_> =
            list[chunk.from..chunk.to].iter().filter_map(|s| source.text.get(s.range.clone())).collect();
        texts.join("\n")
    };
    let ignores = |step: &Step| match &step.kind {
        step::Kind::Command { expect, .. } => expect.exit_code == ExitCode::Any && !expect.of_text(),
        _ => false,
    };
    let checks = |chunk: &&Chunk| match &chunk.kind {
        ChunkKind::Idle => false,
        // What needs an output is skipped if there is none.
        ChunkKind::Lifted(out) => {
            super::read_only(&out.steps) && !out.steps.iter().all(|step| ignores(step) || step.id.is_some())
        }
        ChunkKind::Residual(..) => super::changes_nothing(&text(chunk)),
    };
    let acts = |chunk: &&Chunk| match &chunk.kind {
        ChunkKind::Idle => false,
        ChunkKind::Lifted(out) => !super::read_only(&out.steps),
        ChunkKind::Residual(..) => !super::changes_nothing(&text(chunk)),
    };
    let Some(check) = chunks.iter().find(checks) else { return Vec::new() };
    if !chunks.iter().any(|chunk| chunk.from > check.from && acts(&chunk)) {
        return Vec::new();
    }
    let after = chunks.iter().filter(|chunk| chunk.from >= check.from && chunk.is_lifted());
    after.flat_map(|chunk| chunk.from..chunk.to).filter(|at| !forced.contains(at)).collect()
}

/// Whether nothing in the statements that stay would make their script fail, although they try something or wait for it.
fn only_succeeds(list: &[Stmt], part: &[Chunk], source: &Source) -> bool {
    let is_residual = |c: &&Chunk| matches!(c.kind, ChunkKind::Residual(..));
    let Some(last) = part.iter().rfind(is_residual) else { return false };
    let stays = |at: usize| part.iter().filter(is_residual).any(|c| (c.from..c.to).contains(&at));
    let sets = |s: &Stmt| matches!(&s.kind, Kind::Simple(s) if s.words.first().is_some_and(|w| w.source == "set"));
    let texts: Vec<&str> = (0..last.to)
        .filter(|at| stays(*at) || sets(&list[*at]))
        .filter_map(|at| source.text.get(list[at].range.clone()))
        .collect();
    let Some(program) = bash::program(&(texts.join("\n") + "\ntrue\n")) else { return false };
    let certain = flow::Status { zero: true, other: false };
    let vain = |s: &bash::program::Statement| {
        matches!(s.kind, bash::program::Kind::Loop { .. })
            && flow::outcome_after(&program, &s.range, false) == Some(certain)
            && program.commands().iter().any(|c| c.name() == "sleep")
    };
    let tries = program.commands().iter().any(|c| flow::status(&program, c).other);
    tries && flow::outcome(&program) == certain || program.body.iter().any(vain)
}

/// Forgets variables that were set inside a statement: they are not known after it.
fn forget(stmt: &Stmt, st: &mut State, tallies: &HashSet<String>) {
    let mut names = Vec::new();
    match &stmt.kind {
        Kind::Assign(_) | Kind::Function { .. } => return,
        Kind::Simple(simple) => {
            let body = simple.words.first().and_then(|w| st.scope.functions.get(&w.source)).cloned();
            body.iter().flatten().for_each(|s| assigned_beyond(s, &mut names));
        }
        _ => {
            assigned(stmt, &mut names);
            let functions: Vec<_> = st.scope.functions.values().flatten().cloned().collect();
            functions.iter().for_each(|s| assigned_beyond(s, &mut names));
        }
    }
    for name in names.into_iter().filter(|n| !tallies.contains(n)) {
        if !st.scope.get(&name).is_some_and(|t| {
            t.0.iter()
                .any(|p| matches!(p, crate::convert::shell::Piece::Hole { text, .. } if text.starts_with("{steps.")))
        }) {
            st.scope.set(&name, None);
        }
    }
}

fn mentions_word(stmt: &Stmt, name: &str) -> bool {
    let mut found = false;
    let of = |word: &Word| word.source.contains(name);
    walk(stmt, &mut |s| {
        found |= match &s.kind {
            Kind::Simple(simple) => {
                let here = |r: &ast::Redirect| matches!(r, ast::Redirect::Herestring(word) if of(word));
                simple.words.iter().any(of) || simple.redirects.iter().any(here)
            }
            Kind::Assign(assigns) => assigns.iter().any(|a| a.value.iter().chain(a.array.iter().flatten()).any(of)),
            Kind::For { values, .. } => values.iter().any(of),
            Kind::Test(text, _) | Kind::Other(text) => text.contains(name),
            _ => false,
        };
    });
    found
}

/// Whether a statement that stays in a script takes all following statements with it: it may end the script, or changes how the rest
/// is read.
fn takes_all(stmt: &Stmt) -> bool {
    const WORDS: [&str; 15] = [
        "trap", "exec", "cd", "pushd", "popd", "eval", "source", ".", "set", "shopt", "umask", "wait", "alias", "kill",
        "jobs",
    ];
    let own = match &stmt.kind {
        // Commands read these variables without naming them.
        Kind::Assign(assigns) => assigns.iter().any(|a| a.export || statement::is_special(&a.name)),
        Kind::Simple(simple) => {
            let literal = |i: usize| simple.words.get(i).and_then(Word::literal);
            match literal(0).as_deref() {
                Some("exit") => !literal(1).is_some_and(|n| n != "0" && n.bytes().all(|b| b.is_ascii_digit())),
                Some(word) => WORDS.contains(&word),
                None => true,
            }
        }
        Kind::Other(text) => text.split_whitespace().any(|w| w == "exit" || WORDS.contains(&w)),
        // The effects of a subshell are limited to it.
        Kind::Subshell(_) => return false,
        _ => false,
    };
    own || stmt.lists().into_iter().flatten().any(takes_all)
}

/// Describes the construct that keeps a statement in its script.
fn reason(stmt: &Stmt) -> String {
    if stmt.background {
        return "it runs in the background".to_owned();
    }
    let name = |s: &Stmt| match &s.kind {
        Kind::Simple(simple) => simple.words.first().map(|w| w.source.clone()),
        _ => None,
    };
    let shown = |s: &Stmt| match &s.kind {
        Kind::Test(inner, _) => Some(format!("[ {inner} ]")),
        _ => name(s),
    };
    let by = |what: &str, condition: &[Stmt]| match condition.first().and_then(shown) {
        Some(text) => format!("{what}: `{}`", cut(&text)),
        None => what.to_owned(),
    };
    match &stmt.kind {
        Kind::Pipeline(list) => match list.last().and_then(name) {
            Some(name) => format!("a pipeline into `{}`", cut(&name)),
            None => "a pipeline into a compound command".to_owned(),
        },
        Kind::Subshell(_) => "a subshell".to_owned(),
        Kind::Other(text) => format!("not supported: `{}`", cut(text)),
        Kind::Assign(assigns) => {
            let inner = assigns.iter().filter_map(|a| a.value.as_ref()).flat_map(|w| &w.parts).find_map(|p| match p {
                Part::Command { text, .. } => Some(text),
                _ => None,
            });
            match inner {
                Some(text) => format!("a value that only a shell can compute: the output of `{}`", cut(text)),
                None => "a value that only a shell can compute".to_owned(),
            }
        }
        Kind::For { body, .. } if body.iter().any(|s| name(s).as_deref() == Some("sleep")) => {
            "a wait that `eventually` cannot express: a command that fails ends the script, or a variable is read later even if the wait was in vain"
                .to_owned()
        }
        Kind::For { values, .. } => {
            let fixed = values.iter().all(|w| w.literal().is_some());
            let values: Vec<&str> = values.iter().map(|w| w.source.as_str()).collect();
            let why =
                if fixed { "whose body steps cannot express" } else { "which is neither a fixed list nor a wait" };
            format!("a loop over `{}`, {why}", cut(&values.join(" ")))
        }
        Kind::Count { .. } => "a counting loop that is not a wait".to_owned(),
        Kind::While { condition, .. } if condition.first().and_then(name).as_deref() == Some("read") => {
            "a loop that reads lines".to_owned()
        }
        Kind::While { condition, .. } => by("a loop that is not a wait", condition),
        Kind::If { branches, .. } => {
            let condition = branches.first().map(|(condition, _)| condition.as_slice()).unwrap_or_default();
            by("a condition that steps cannot express", condition)
        }
        Kind::And(pair) | Kind::Or(pair) => by("a condition that steps cannot express", &pair[..1]),
        Kind::Function { .. } => "a function".to_owned(),
        Kind::Simple(simple) => {
            let runs = simple.words.iter().flat_map(|w| &w.parts).find_map(|p| match p {
                Part::Command { text, .. } => Some(text),
                _ => None,
            });
            let document = simple.redirects.iter().any(|r| matches!(r, ast::Redirect::Heredoc(_)));
            let written = simple.redirects.iter().find_map(|r| match r {
                ast::Redirect::Write(word) | ast::Redirect::Append(word) => Some(word.source.as_str()),
                ast::Redirect::Other => Some("a file"),
                _ => None,
            });
            match (simple.words.first().map(|w| w.source.as_str()), runs, written) {
                (Some("trap"), ..) => "a trap that is still needed".to_owned(),
                (Some("set" | "shopt" | "cd" | "source" | "."), ..) => "it changes the state of the shell".to_owned(),
                (_, Some(text), _) => format!("a command that uses the output of `{}`", cut(text)),
                (_, _, Some(to)) if document => format!("a here-document that is written to `{}`", cut(to)),
                (_, _, Some(to)) => format!("a command whose output is written to `{}`", cut(to)),
                _ if document => "a command that reads a here-document".to_owned(),
                _ if simple.words.iter().all(|w| w.literal().is_some()) => {
                    "a command that steps cannot express".to_owned()
                }
                _ => "a command with words that only a shell can compute".to_owned(),
            }
        }
        _ => "a test of the script's own state".to_owned(),
    }
}

/// Shortens a text to what fits into a report.
fn cut(text: &str) -> String {
    let line = text.trim().lines().next().unwrap_or_default();
    match line.char_indices().nth(60) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line.to_owned(),
    }
}

/// For a script that stays whole: returns the line and the text of its first statement that does something, and a reason for the
/// case that no statement has one.
pub fn whole(text: &str) -> (usize, String, &'static str) {
    let line = |at: usize| text[..at].matches('\n').count() + 1;
    let first = text.lines().next().unwrap_or_default();
    let rest = text.lines().enumerate().find(|(_, l)| !l.trim_start().starts_with('#') && !l.trim().is_empty());
    let plain = rest.map_or((1, String::new()), |(at, line)| (at + 1, line.trim().to_owned()));
    if first.starts_with("#!") && !is_shell(first) {
        return (plain.0, plain.1, "it is not a bash script");
    }
    if text.contains(['\r', '\0']) {
        return (plain.0, plain.1, "its lines do not end with a line feed");
    }
    let script = bash::parse(text);
    if script.as_ref().is_some_and(|script| script.program().size > LONG) {
        return (plain.0, plain.1, "it has more than 1,000 statements");
    }
    let Some(list) = script.and_then(|script| ast::read(&script)) else {
        return (plain.0, plain.1, "a part of it cannot be parsed as bash");
    };
    let prepares = |s: &Stmt| match &s.kind {
        Kind::Simple(simple) => simple
            .words
            .first()
            .is_some_and(|w| matches!(w.source.as_str(), "set" | "source" | "." | "cd" | "shopt" | "echo" | "trap")),
        Kind::Assign(assigns) => assigns.iter().all(|a| a.value.as_ref().is_none_or(|w| w.literal().is_some())),
        Kind::Function { .. } => true,
        _ => false,
    };
    let found = list.iter().find(|s| !prepares(s)).or(list.first());
    let (at, shown) = found.map_or(plain, |stmt| {
        let shown = text[stmt.range.clone()].lines().next().unwrap_or_default().trim().to_owned();
        (line(stmt.range.start), shown)
    });
    (
        at,
        shown,
        "the remaining statements depend on the script's location, on a variable that it removes, or on a function that it does not define",
    )
}

/// Assembles the steps, the counts, and the text of what stays.
fn assemble(
    lifter: &Lifter<'_>,
    list: &[Stmt],
    source: &Source,
    chunks: Vec<Chunk>,
    once: &HashSet<String>,
) -> Option<Lifted> {
    let mut runs: Vec<Chunk> = Vec::new();
    for chunk in chunks {
        match (runs.last_mut(), chunk.kind) {
            // Statements that only print belong to the residual run before them.
            (Some(Chunk { to, kind: ChunkKind::Residual(..), .. }), ChunkKind::Residual(..)) => *to = chunk.to,
            (Some(Chunk { to, kind: ChunkKind::Residual(_, holes), .. }), ChunkKind::Idle)
                if (chunk.to < list.len() || matches!(list[chunk.from].kind, Kind::Simple(_)))
                    // No step keeps a value for statements that only print it.
                    && !list[chunk.from..chunk.to].iter().any(|s| holes.keys().any(|name| mentions(s, name))) =>
            {
                *to = chunk.to;
            }
            (_, kind) => runs.push(Chunk { kind, ..chunk }),
        }
    }
    let mut books = Books::default();
    let mut steps = Vec::new();
    let mut lifted = false;
    let shebang = source.text.lines().next().filter(|l| l.starts_with("#!"));
    // The exit status of the last run is that of the script.
    for (index, run) in runs.iter().enumerate() {
        let slice = &list[run.from..run.to];
        let text: Vec<&str> = slice.iter().map(|s| &source.text[s.range.clone()]).collect();
        let statements = classify::effective_in(&text.join("\n"), once);
        let line = slice.first().map_or(1, |stmt| line_of(source, stmt));
        let shown = text.first().and_then(|t| t.lines().next()).unwrap_or_default().trim().to_owned();
        let piece = |label, why: Option<String>| Piece {
            phase: source.phase,
            file: source.path.clone(),
            line,
            text: shown.clone(),
            label,
            statements,
            why,
        };
        match &run.kind {
            // A test with a known result.
            ChunkKind::Idle => books.tally.add(Label::Exact, statements),
            ChunkKind::Lifted(out) => {
                lifted = true;
                let comments = messages(&slice[0].comments);
                let mut lifted = out.clone().told(&comments).steps;
                let piece_of = books.pieces.len();
                let mut lines = Vec::new();
                lifted.iter_mut().for_each(|step| {
                    step.each(&mut |step| {
                        step.origin = Some(piece_of);
                        if let step::Kind::Command { run, .. } = &step.kind
                            && run.contains(['|', '&', ';', '<', '>', '`'])
                            && !classify::is_pipeline(run)
                        {
                            lines.push(run.clone());
                        }
                    });
                });
                steps.extend(lifted);
                // What needs a shell counts as residual, even as a step of its own.
                let left = lines.len().min(statements);
                books.tally.add(out.label, statements - left);
                books.pieces.push(Piece {
                    statements: statements - left,
                    ..piece(out.label, (!out.why.is_empty()).then(|| out.why.join("; ")))
                });
                if left > 0 {
                    books.tally.add(Label::Residual, left);
                    let why = format!("one line of shell in a step: `{}`", cut(&lines[0]));
                    books.pieces.push(Piece { statements: left, ..piece(Label::Residual, Some(why)) });
                }
            }
            ChunkKind::Residual(why, holes) => {
                // Trailing statements that only print end the script with success.
                let tail = index + 1 == runs.len() && run.to == list.len();
                let script = residual(lifter, list, run, source, shebang, tail, holes)?;
                books.tally.add(Label::Residual, statements);
                books.pieces.push(piece(Label::Residual, Some(why.clone())));
                steps.extend(script);
            }
        }
    }
    // The steps of a cleanup are reversed later.
    if source.phase != PhaseKind::Cleanup {
        write_once(&mut steps);
    }
    Some(Lifted { untouched: !lifted, steps, books, apart: false })
}

/// Drops steps that write what an earlier step has written to another file, unless a script or a command may change one of them.
fn write_once(steps: &mut Vec<Step>) {
    // The texts of all commands, and those of commands that may write a file, with the values that they get.
    let (mut runs, mut writers, mut is_free) = (String::new(), String::new(), true);
    for step in steps.iter() {
        step.walk(&mut |step| match &step.kind {
            step::Kind::Command { run, env, .. } => {
                runs.push_str(run);
                if run.contains(['>', '<']) || run.contains(" -i") {
                    env.iter().for_each(|(_, value)| writers.push_str(value));
                }
            }
            step::Kind::Script { .. } | step::Kind::Kept { .. } => is_free = false,
            _ => {}
        });
    }
    if is_free {
        let is_used = |path: &str| runs.contains(path) || writers.contains(path);
        drop_copies(steps, &mut Vec::new(), &is_used);
    }
}

/// The most copies that are dropped.
const COPIES: usize = 100;

/// `written`: contents and paths of files that exist at this point. `is_used`: whether the path of a file must stay.
fn drop_copies(steps: &mut Vec<Step>, written: &mut Vec<(String, String)>, is_used: &dyn Fn(&str) -> bool) {
    let (mut at, mut dropped) = (0, 0);
    while at < steps.len() && dropped < COPIES {
        steps[at].lists().into_iter().for_each(|list| drop_copies(list, &mut written.clone(), is_used));
        if let step::Kind::File { path, content: Some(content), mode: None } = &steps[at].kind
            && path.starts_with(TEMPORARY)
            && !is_used(path)
        {
            let (path, content) = (path.clone(), content.clone());
            let known = written.iter().find(|(text, _)| *text == content).map(|(_, path)| path.clone());
            match known.filter(|_| at + 1 < steps.len()) {
                Some(known) => {
                    let comments = steps.remove(at).comments;
                    steps[at].comments.splice(0..0, comments);
                    steps.iter_mut().for_each(|step| step.each(&mut |step| step.replace(&path, &known)));
                    dropped += 1;
                    continue;
                }
                None if written.len() < COPIES => written.push((content, path)),
                None => {}
            }
        }
        at += 1;
    }
}

/// Builds a script of the statements that stay, after files that contain the values they need from before.
fn residual(
    lifter: &Lifter<'_>,
    list: &[Stmt],
    run: &Chunk,
    source: &Source,
    shebang: Option<&str>,
    tail: bool,
    holes: &HashMap<String, String>,
) -> Option<Vec<Step>> {
    let slice = &list[run.from..run.to];
    let mut body = String::new();
    for stmt in slice {
        for comment in &stmt.comments {
            body += &format!("# {comment}\n");
        }
        body += source.text[stmt.range.clone()].trim_end_matches('\n');
        body.push('\n');
    }
    if !tail {
        body += "true\n";
    }
    // The settings in effect and the definitions in use, in the order written.
    let mut needs: HashSet<usize> = HashSet::new();
    let mut texts: Vec<Stmt> = slice.to_vec();
    loop {
        let before = needs.len();
        for (index, stmt) in list[..run.from].iter().enumerate() {
            let needed = match &stmt.kind {
                Kind::Simple(simple) => match lifter.name(simple) {
                    Some("set" | "cd" | "umask" | "shopt") => true,
                    // A file of functions is only needed by statements that call them. The functions need what they mention.
                    Some("source" | ".") => {
                        let list = simple.words.get(1).and_then(|word| lifter.sourced(word, source));
                        let names = list.as_deref().and_then(provides);
                        let needed = names.is_none_or(|names| {
                            names.iter().any(|n| texts.iter().any(|s| mentions(s, n) || mentions_word(s, n)))
                        });
                        if needed && !needs.contains(&index) {
                            texts.extend(list.into_iter().flatten());
                        }
                        needed
                    }
                    _ => false,
                },
                Kind::Assign(assigns) => assigns.iter().any(|a| a.export || texts.iter().any(|s| mentions(s, &a.name))),
                Kind::Function { name, .. } => texts.iter().any(|s| mentions_word(s, name)),
                Kind::Step(name) => texts.iter().any(|s| mentions(s, name)),
                Kind::Or(pair) if matches!(&pair[0].kind, Kind::Simple(s) if lifter.name(s) == Some("cd")) => true,
                _ => {
                    let name = statement::captures(stmt).map(|(_, name, _)| name);
                    name.is_some_and(|name| texts.iter().any(|s| mentions(s, name)))
                }
            };
            if needed && needs.insert(index) {
                texts.push(stmt.clone());
            }
        }
        if needs.len() == before {
            break;
        }
    }
    // A function may be defined after its use, as long as it is called later.
    let mut head = String::new();
    let mut env = Vec::new();
    let mut steps = Vec::new();
    let mut order: Vec<usize> = needs.into_iter().collect();
    order.sort_unstable();
    for index in order {
        let stmt = &list[index];
        let text = source.text.get(stmt.range.clone())?;
        if let Some(name) = statement::keeps_status(stmt) {
            let value = (name.to_owned(), holes.get(name)?.clone());
            if !env.contains(&value) {
                env.push(value);
            }
            continue;
        }
        if let Some((inner, name, _)) = statement::captures(stmt) {
            let word = match &inner.kind {
                Kind::Assign(assigns) => assigns[0].value.as_ref().map_or("", |word| word.source.as_str()),
                _ => "",
            };
            if script_dir(word).is_some() {
                head += &text.replace(word, &below(word));
                head.push('\n');
                continue;
            }
            // Captured by an earlier step. It is passed in a file, because an environment variable has less room than a shell
            // variable.
            let hole = holes.get(name)?;
            let line = classify::from_file(name);
            if !head.contains(&line) {
                let path = lifter.shared.file(&name.to_ascii_lowercase().replace('_', "-"), "txt");
                env.push((format!("{name}_FILE"), path.clone()));
                head += &line;
                steps.push(Step::new(step::Kind::File { path, content: Some(format!("{hole}\n")), mode: None }));
            }
            continue;
        }
        // The script is no longer in the directory of its file, but runs there.
        if let Kind::Simple(simple) = &stmt.kind
            && matches!(lifter.name(simple), Some("source" | "."))
            && let Some(word) = simple.words.get(1)
            && let Some(below) = script_dir_prefix(&word.source)
        {
            head += &text.replace(word.source.as_str(), &bash::quote(below));
            head.push('\n');
            continue;
        }
        if let Kind::Function { name, .. } = &stmt.kind
            && !text.contains(name.as_str())
        {
            return None;
        }
        head += text.trim_end_matches('\n');
        head.push('\n');
    }
    let all = format!("{head}{body}");
    // These have another meaning if the script is not a file of its own.
    if all.contains("BASH_SOURCE") || all.contains("$0") || all.contains("dirname \"$0") {
        return None;
    }
    let mut inline = String::new();
    let shell = match (shebang, &source.file) {
        (Some(line), _) => {
            inline += line;
            inline.push('\n');
            None
        }
        (None, _) => Some("bash".to_owned()),
    };
    inline += &all;
    let mut step = Step::new(step::Kind::Script {
        inline: crate::template::escape(&inline),
        shell,
        workdir: source.workdir.clone(),
        env,
    });
    step.timeout = None;
    steps.push(step);
    Some(steps)
}

impl Lifter<'_> {
    /// Returns the statements of a file that a script sources.
    fn sourced(&self, path: &Word, source: &Source) -> Option<List> {
        let path = script_dir_prefix(&path.source).map_or_else(|| path.literal(), |p| Some(p.to_owned()))?;
        let base = self.shared.dir.join(source.workdir.as_deref().unwrap_or_default());
        let text = String::from_utf8(self.shared.files.read(&crate::source::resolve(&base, &path)).ok()?).ok()?;
        ast::read(&bash::parse(&text)?)
    }
}

/// Returns the functions and variables of a file that a script sources; `None` if the file does more than define them.
fn provides(list: &[Stmt]) -> Option<Vec<String>> {
    let mut names = Vec::new();
    for stmt in list {
        match &stmt.kind {
            Kind::Function { name, .. } => names.push(name.clone()),
            Kind::Assign(assigns) if assigns.iter().all(|a| !a.export) => {
                names.extend(assigns.iter().map(|a| a.name.clone()));
            }
            _ => return None,
        }
    }
    Some(names)
}

/// Returns the directory of the script, which is now the one where it runs.
fn below(word: &str) -> String {
    match script_dir(word) {
        Some("") | None => "\"$PWD\"".to_owned(),
        Some(below) => format!("\"$(cd {below} && pwd)\""),
    }
}

/// Whether a statement runs a program that may read any environment variable: the variables of a script are not among them, but those of
/// `spec.env` are.
fn reads_environment(stmt: &Stmt) -> bool {
    const PROGRAMS: [&str; 22] = [
        "make", "npm", "npx", "yarn", "pnpm", "node", "deno", "bun", "python", "python3", "ruby", "perl", "php", "go",
        "cargo", "pytest", "tox", "envsubst", "env", "printenv", "bash", "sh",
    ];
    let mut found = false;
    walk(stmt, &mut |s| {
        let Kind::Simple(simple) = &s.kind else { return };
        let name = simple.words.first().and_then(Word::literal).unwrap_or_default();
        found |= name.starts_with("./") || name.starts_with("../") || PROGRAMS.contains(&name.as_str());
        found |= name == "docker" && simple.words.get(1).and_then(Word::literal).as_deref() == Some("compose");
    });
    found
}

/// Returns constants at the top level of a script, which `spec.env` may contain.
pub fn constants(text: &str) -> HashMap<String, Option<Text>> {
    let mut found: HashMap<String, Option<Text>> = HashMap::new();
    let Some(list) = bash::parse(text).and_then(|s| ast::read(&s)) else { return found };
    let mut scope = Scope::default();
    let mut names = Vec::new();
    list.iter().for_each(|s| assigned(s, &mut names));
    if list.iter().any(reads_environment) {
        return names.into_iter().map(|name| (name, None)).collect();
    }
    for stmt in &list {
        let Kind::Assign(assigns) = &stmt.kind else { continue };
        for assign in assigns {
            let value = assign
                .value
                .as_ref()
                .filter(|_| !assign.odd && !assign.export)
                .and_then(|w| scope.parts(&w.parts, true));
            let once = names.iter().filter(|n| **n == assign.name).count() == 1;
            let value = value.filter(|_| once);
            scope.set(&assign.name, value.clone());
            found.insert(assign.name.clone(), value);
        }
    }
    for name in names {
        found.entry(name).or_insert(None);
    }
    found
}
