//! Checks in verify that decide nothing: whether they succeed or fail, the script ends in the same way.

use std::collections::HashMap;

use super::{TaskView, error_branch, exit_status, script::Content};
use crate::{
    bash::{
        flow,
        program::{Kind, Program, Statement},
        tools,
    },
    diagnostic::{Diagnostic, Diagnostics},
    hir::PhaseKind,
    rule,
    source::Span,
};

rule! {
    pub static STATUS_IGNORED = "status-ignored", Warning;
}

/// Scripts beyond this many commands are not looked at: each check is tried both ways.
const COMMANDS: usize = 400;
/// Checks of a script that are looked at.
const CHECKS: usize = 64;

pub fn check(view: &TaskView<'_>, out: &mut Diagnostics) {
    if exit_status::in_vain(view) {
        return;
    }
    for script in view.scripts.iter().filter(|script| script.phase == PhaseKind::Verify && script.decides_by_status()) {
        let content = &script.content;
        let program = &content.program;
        if !program.sound || program.commands().len() > COMMANDS {
            continue;
        }
        if let Some(trap) = program.commands().into_iter().find(|command| ends_in_success(command)) {
            out.push(
                finding(content.span(trap.range.clone()), "this ends the script with success, whatever came before")
                    .help("leave `exit 0` out: the status of the script stays what it was"),
            );
            continue;
        }
        let mut search = Search { found: Vec::new(), around: Vec::new(), functions: HashMap::new() };
        program.walk(&mut |s| {
            if let Kind::Function { name, body } = &s.kind {
                search.functions.insert(name, body);
            }
        });
        search.list(&program.body);
        let Search { found, around, .. } = search;
        let same = flow::without_effect(program, found.iter().take(CHECKS).map(|(statement, _)| &statement.range));
        for (at, ((statement, fault), same)) in found.into_iter().zip(same).enumerate() {
            let (message, help) = match fault {
                Fault::Always if matches!(statement.name(), "jq" | "yq") => {
                    ("this succeeds whatever it finds", "`jq -e` fails where the answer is false or null")
                }
                Fault::Always => ("this succeeds whatever it finds", "look at what it prints: `| grep -q …`"),
                Fault::Masked => (
                    "this succeeds whatever the command in it does",
                    "declare first, and assign behind it: `local x; x=$(command) || return 1`",
                ),
                Fault::Either if !same => continue,
                Fault::Either => (
                    "whether this succeeds or fails, the script ends in the same way",
                    "write `exit 1` where the check fails, or end with the check",
                ),
            };
            if !is_said(view, content, around.get(at)) {
                out.push(finding(content.span(first_line(content, statement)), message).help(help));
            }
        }
        unreachable(program, content, out);
    }
}

/// Whether a branch says that something is wrong and goes on: that has a rule of its own.
fn is_said(view: &TaskView<'_>, content: &Content, around: Option<&std::ops::Range<usize>>) -> bool {
    let Some(around) = around.filter(|range| !range.is_empty()) else { return false };
    let place = content.span(around.clone());
    let mut said = Diagnostics::default();
    error_branch::check(view, &mut said);
    said.iter().any(|s| s.span.file == place.file && place.start <= s.span.start && s.span.end <= place.end)
}

fn finding(span: Span, message: &str) -> Diagnostic {
    Diagnostic::new(&STATUS_IGNORED, span, message)
}

/// `trap '…; exit 0' EXIT`.
fn ends_in_success(command: &Statement) -> bool {
    let words = command.words();
    let Some(text) = words
        .get(1)
        .filter(|_| command.name() == "trap" && words.iter().any(|word| matches!(word.text.as_str(), "EXIT" | "0")))
    else {
        return false;
    };
    text.text.trim_end().trim_end_matches(';').trim_end().ends_with("exit 0")
}

/// Checks behind a statement that always ends the script.
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
                    "nothing runs this check: the script has ended before",
                )
                .label(content.span(first_line(content, statement)), "every way through this ends the script")
                .help("leave the `exit 0` out where the script is to go on"),
            );
        }
        return;
    }
}

/// What may be wrong with a check.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// Nothing depends on its status.
    Either,
    /// A declaration hides it.
    Masked,
    /// It succeeds whatever it finds.
    Always,
}

struct Search<'p> {
    functions: HashMap<&'p str, &'p [Statement]>,
    found: Vec<(&'p Statement, Fault)>,
    /// What holds the check, as far as it is known.
    around: Vec<std::ops::Range<usize>>,
}

impl<'p> Search<'p> {
    fn list(&mut self, list: &'p [Statement]) {
        list.iter().for_each(|statement| self.statement(statement, false));
    }

    fn statement(&mut self, statement: &'p Statement, tested: bool) {
        match &statement.kind {
            Kind::Command(_) if always(statement, tested) => self.found.push((statement, Fault::Always)),
            Kind::Command(_) | Kind::Test if is_check(statement, tested) || self.is_function(statement) && tested => {
                self.found.push((statement, Fault::Either));
            }
            Kind::Declaration if tested && !statement.nested.is_empty() => self.found.push((statement, Fault::Masked)),
            Kind::Pipeline(parts) => {
                // What a pipeline reads decides by what is made of it.
                if let [first, .., last] = parts.as_slice()
                    && passes_on(last)
                {
                    self.statement(first, tested);
                } else if let [.., last] = parts.as_slice()
                    && is_check(last, tested)
                {
                    self.found.push((statement, Fault::Either));
                } else if let [.., last] = parts.as_slice()
                    && always(last, tested)
                {
                    self.found.push((last, Fault::Always));
                }
            }
            Kind::And(pair) | Kind::Or(pair) => {
                if self.says(&pair[1..]) {
                    self.statement(&pair[0], true);
                }
                self.statement(&pair[1], tested);
            }
            Kind::Not(inner) => self.statement(inner, true),
            Kind::If { branches, otherwise } => {
                let lists = branches.iter().map(|branch| branch.body.as_slice()).chain(otherwise.as_deref());
                if lists.clone().all(|list| self.says(list))
                    && let Some(last) = branches.first().and_then(|branch| branch.condition.last())
                {
                    let known = self.found.len();
                    self.statement(last, true);
                    self.around.resize(known, 0..0);
                    self.around.resize(self.found.len(), statement.range.clone());
                }
                for list in lists {
                    self.list(list);
                }
            }
            Kind::Group(list) | Kind::Subshell(list) => self.list(list),
            Kind::Function { body, .. } => self.list(body),
            _ => {}
        }
    }

    fn is_function(&self, statement: &Statement) -> bool {
        self.functions.contains_key(statement.name())
    }

    /// Whether nothing is done here but to say something, or to leave.
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
                matches!(statement.name(), "echo" | "printf" | "true" | ":" | "exit" | "return" | "sleep") || looks()
            }
            Kind::Group(list) | Kind::Subshell(list) => says(list),
            Kind::Pipeline(parts) => says(parts),
            Kind::And(pair) | Kind::Or(pair) => says(pair.as_slice()),
            _ => false,
        })
    }
}

/// Whether a command that is asked whether something is so says yes in any case.
fn always(statement: &Statement, tested: bool) -> bool {
    let words = statement.words();
    if matches!(statement.name(), "jq" | "yq") {
        let asks = |filter: &str| {
            ["==", "!=", " and ", " or ", "any(", "all(", "contains(", "test(", " > ", " < ", " >= ", "has("]
                .iter()
                .any(|sign| filter.contains(sign))
        };
        let strict = words.iter().skip(1).any(|w| {
            w.text == "--exit-status" || w.text.starts_with('-') && !w.text.starts_with("--") && w.text.contains('e')
        });
        let filter = words.iter().skip(1).find(|word| !word.text.starts_with('-'));
        return !strict
            && filter.is_some_and(|filter| {
                asks(&filter.text) && !filter.text.contains("select(") && !filter.text.contains("error")
            });
    }
    tested && matches!(statement.tool(), "helm" | "kubectl" | "docker") && flow::succeeds(statement.name(), statement)
}

/// Whether the status of a command is what it was asked for; `tested`: somebody asks for it.
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
        "helm" => has(&["status"]) || tested,
        "docker" => tested && has(&["inspect", "exec"]),
        _ => false,
    }
}

/// Whether a command succeeds whatever it reads.
fn passes_on(statement: &Statement) -> bool {
    matches!(statement.name(), "tee" | "cat" | "head" | "tail" | "sort" | "wc" | "uniq" | "sed")
}

fn first_line(content: &Content, statement: &Statement) -> std::ops::Range<usize> {
    let text = content.text.get(statement.range.clone()).unwrap_or_default();
    statement.range.start..statement.range.start + text.find('\n').unwrap_or(text.len())
}
