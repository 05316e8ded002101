//! Line-based analysis of Python programs: whether every failure is caught and ignored.

use std::{cell::RefCell, ops::Range};

use rustc_hash::FxHashMap;

/// A line without leading and trailing space, and its indentation.
type Line<'t> = (usize, &'t str);

/// A way in which a program fails.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Failure<'t> {
    Exit,
    /// An exception, with its name if known.
    Raise(&'t str),
}

/// A `try` and the exceptions that it handles without failing.
struct Try<'t> {
    body: Range<usize>,
    /// The exception lists of all `except` clauses whose handlers cannot fail.
    caught: Vec<&'t str>,
}

/// Whether a program can fail deliberately: `sys.exit(1)`, `assert`.
pub fn may_fail(text: &str) -> bool {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.starts_with('#'));
    lines.any(|line| failure(line).is_some()) && !swallows(text)
}

/// Whether a program has possible failures and catches and ignores all of them: `except Exception: print("not yet")`.
pub fn swallows(text: &str) -> bool {
    let lines: Vec<Line<'_>> = text
        .lines()
        .map(|line| (line.len() - line.trim_start().len(), line.trim()))
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
        .collect();
    let tries: Vec<Try<'_>> = (0..lines.len()).filter_map(|at| read(&lines, at)).collect();
    let failures: Vec<(usize, Failure<'_>)> =
        lines.iter().enumerate().filter_map(|(at, (_, line))| Some((at, failure(line)?))).collect();
    let program = Program { lines: &lines, tries: &tries, functions: RefCell::default() };
    !failures.is_empty() && failures.iter().all(|(at, failure)| program.is_caught(*at, *failure, DEPTH))
}

/// The maximum depth of nested calls.
const DEPTH: usize = 16;

struct Program<'p, 't> {
    lines: &'p [Line<'t>],
    tries: &'p [Try<'t>],
    /// By function (the line of its `def`) and failure: whether every caller ignores the failure.
    functions: RefCell<FxHashMap<(usize, Failure<'t>), bool>>,
}

impl<'t> Program<'_, 't> {
    /// Whether a failure in a line is ignored: there, or wherever the function that contains it is called.
    fn is_caught(&self, at: usize, failure: Failure<'t>, depth: usize) -> bool {
        if self.tries.iter().any(|t| t.body.contains(&at) && t.caught.iter().any(|names| catches(names, failure))) {
            return true;
        }
        let indent = self.lines[at].0;
        let outer = |line: &Line<'_>| line.0 < indent && line.1.starts_with("def ");
        let head = self.lines[..at].iter().rposition(outer).filter(|_| depth > 0);
        head.is_some_and(|head| self.is_caught_behind(head, failure, depth - 1))
    }

    /// Whether a failure in a function is ignored wherever the function is called.
    fn is_caught_behind(&self, head: usize, failure: Failure<'t>, depth: usize) -> bool {
        if let Some(known) = self.functions.borrow().get(&(head, failure)) {
            return *known;
        }
        // A recursive call counts as not caught.
        self.functions.borrow_mut().insert((head, failure), false);
        let name = self.lines[head].1[4..].split('(').next().unwrap_or_default();
        let call = format!("{name}(");
        let calls = |line: &str| !line.starts_with("def ") && line.contains(&call);
        let mut places = (0..self.lines.len()).filter(|at| calls(self.lines[*at].1)).peekable();
        let caught = places.peek().is_some() && places.all(|place| self.is_caught(place, failure, depth));
        self.functions.borrow_mut().insert((head, failure), caught);
        caught
    }
}

/// The `try` that begins at a line.
fn read<'t>(lines: &[Line<'t>], at: usize) -> Option<Try<'t>> {
    let (indent, "try:") = lines[at] else { return None };
    let end = |from: usize| (from..lines.len()).find(|line| lines[*line].0 <= indent).unwrap_or(lines.len());
    let body = at + 1..end(at + 1);
    let (mut next, mut caught) = (body.end, Vec::new());
    while let Some((depth, head)) = lines.get(next).filter(|(depth, _)| *depth == indent) {
        let Some(names) = head.strip_prefix("except") else { break };
        let rest = end(next + 1);
        let (names, inline) = names.split_once(':').unwrap_or((names, ""));
        let inner = lines[next + 1..rest].iter().map(|(_, line)| *line).chain([inline]);
        if *depth == indent && inner.clone().all(|line| failure(line).is_none()) {
            caught.push(names.split(" as ").next().unwrap_or_default().trim());
        }
        next = rest;
    }
    Some(Try { body, caught })
}

/// Whether `except NAMES` catches a failure.
fn catches(names: &str, failure: Failure<'_>) -> bool {
    let mut names =
        names.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).filter(|name| !name.is_empty()).peekable();
    if names.peek().is_none() {
        return true;
    }
    names.any(|name| match failure {
        _ if name == "BaseException" => true,
        Failure::Exit => name == "SystemExit",
        Failure::Raise(raised) => name == "Exception" || name == raised,
    })
}

/// How a line may end the program with a failure.
fn failure(line: &str) -> Option<Failure<'_>> {
    let argument = |call: &str| {
        let at = line.find(call)?;
        let inner = line[at + call.len()..].split(')').next().unwrap_or_default().trim();
        (!matches!(inner, "" | "0")).then_some(Failure::Exit)
    };
    let exit = argument("exit(").or_else(|| argument("SystemExit("));
    if exit.is_some() {
        return exit;
    }
    let word = |word: &str| {
        let mut places =
            line.match_indices(word).filter(|(at, _)| !line[..*at].ends_with(|c: char| c.is_ascii_alphanumeric()));
        places.next().map(|(at, _)| line[at + word.len()..].trim_start())
    };
    if word("assert ").is_some() || word("assert(").is_some() {
        return Some(Failure::Raise("AssertionError"));
    }
    if let Some(rest) = line.strip_prefix("raise") {
        let name = rest.trim().split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).next().unwrap_or_default();
        return (!rest.trim().starts_with("SystemExit")).then_some(Failure::Raise(name));
    }
    let others = [
        ("check=True", "CalledProcessError"),
        ("check_call(", "CalledProcessError"),
        ("check_output(", "CalledProcessError"),
        ("raise_for_status", "HTTPError"),
        ("abort(", ""),
        ("unittest", ""),
        ("pytest", ""),
        ("exec(", ""),
    ];
    others.iter().find(|(call, _)| line.contains(call)).map(|(_, raised)| Failure::Raise(raised))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn swallowed_exceptions_are_detected() {
        for text in [
            "try:\n    assert a == b\nexcept Exception as e:\n    print(e)\n",
            "try:\n  assert a\nexcept: pass\n",
            "def main():\n    if a != b:\n        raise SystemExit('no')\n\ntry:\n    main()\nexcept:\n    pass\n",
            "try:\n    if a:\n        raise ValueError(a)\nexcept (OSError, ValueError):\n    print('no')\n    sys.exit(0)\n",
        ] {
            assert!(swallows(text), "{text}");
        }
        for text in [
            "assert a == b\n",
            "try:\n    assert a == b\nexcept Exception as e:\n    print(e)\n    sys.exit(1)\n",
            "try:\n    assert a == b\nexcept OSError:\n    print('no')\n",
            "try:\n    sys.exit(1)\nexcept Exception:\n    pass\n",
            "ok = True\ntry:\n    assert a\nexcept AssertionError:\n    ok = False\nsys.exit(not ok)\n",
            "for n in range(9):\n    try:\n        assert a\n        break\n    except AssertionError:\n        sleep(1)\nelse:\n    sys.exit(1)\n",
            "try:\n    f()\nexcept ValueError:\n    raise\n",
            "print(a)\n",
        ] {
            assert!(!swallows(text), "{text}");
        }
    }

    /// Every line of a function calls the previous function: following each call would not terminate in practice.
    #[test]
    fn nested_calls_do_not_take_exponential_time() {
        const LINES: usize = 400;
        let body = |call: &str| format!("    {call}()\n").repeat(LINES);
        let functions: Vec<String> = (0..5).map(|n| format!("def f{}():\n{}", n + 1, body(&format!("f{n}")))).collect();
        let text =
            format!("def f0():\n    assert a\n{}try:\n    f5()\nexcept Exception:\n    pass\n", functions.concat());
        assert!(swallows(&text));
        assert!(!swallows("def f():\n    assert a\n    f()\n"), "nobody catches it");
    }
}
