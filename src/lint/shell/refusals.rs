//! A branch of verify that contradicts its own message: `if [ "$n" = 3 ]; then echo "expected 3"; exit 1; fi`.

use rustc_hash::FxHashSet;

use crate::{
    ascii::{Ascii, ascii},
    bash::{
        Word, ast,
        program::{Kind, Program, Statement},
        tools,
    },
    diagnostic::{Diagnostic, Diagnostics},
    hir::PhaseKind,
    lint::{TaskView, prompt::wrong_state::WRONG_STATE, script::Content, shell::comparison},
};

/// A branch that fails, its condition, and whether the condition is true there.
struct Refusal<'s> {
    condition: &'s Statement,
    truth: bool,
    /// Its message, in lowercase.
    said: String,
    /// The first line of the message. Later lines may contain advice.
    first: String,
}

/// Requires a branch that certainly fails, a reason in its `echo` or in the function that it calls, and a condition
/// with a single test. Reported if the message expects a value that leads into the branch, or says that something is
/// missing that exists.
pub fn check(view: &TaskView<'_>, out: &mut Diagnostics) {
    for script in view.effects.scripts.iter().filter(|script| script.view.phase == PhaseKind::Verify) {
        let content = &*script.view.content;
        if !content.program.sound {
            continue;
        }
        let sources = || script.trace.sources.iter().map(|content| &content.program);
        let failing = failing(std::iter::once(&content.program).chain(sources()));
        let mut told: Vec<usize> = Vec::new();
        content.program.walk(&mut |s| {
            for refusal in refusals(s, content, &failing) {
                let found = contradiction(&refusal, content)
                    .or_else(|| of_another(view, &refusal, content))
                    .or_else(|| other_value(view, &refusal, content))
                    .or_else(|| fixed(view, &refusal, content))
                    .or_else(|| denied(view, &refusal, content));
                let Some(message) = found else { continue };
                let span = content.span(refusal.condition.range.clone());
                if !told.contains(&refusal.condition.range.start)
                    && !crate::lint::resources::elsewhere::out_has(out, span)
                {
                    told.push(refusal.condition.range.start);
                    out.push(
                        Diagnostic::new(&WRONG_STATE, span, message)
                            .help("invert the condition, or correct the message"),
                    );
                }
            }
        });
    }
}

/// The functions that end with a failure.
fn failing<'p>(programs: impl Iterator<Item = &'p Program>) -> FxHashSet<&'p str> {
    let mut found = FxHashSet::default();
    for program in programs {
        program.walk(&mut |s| {
            if let Kind::Function { name, body } = &s.kind
                && inside(body).last().is_some_and(is_failure)
            {
                found.insert(name.as_str());
            }
        });
    }
    found
}

/// The content of a list that consists of one group or subshell.
fn inside(list: &[Statement]) -> &[Statement] {
    match list {
        [Statement { kind: Kind::Group(list) | Kind::Subshell(list), .. }] => list,
        list => list,
    }
}

/// Whether this is `exit 1`, `return 1` or `false`.
fn is_failure(statement: &Statement) -> bool {
    match statement.name() {
        "exit" | "return" => statement
            .words()
            .get(1)
            .is_some_and(|word| word.text.bytes().all(|b| b.is_ascii_digit()) && word.text != "0"),
        "false" => true,
        _ => false,
    }
}

fn refusals<'s>(s: &'s Statement, content: &Content, failing: &FxHashSet<&str>) -> Vec<Refusal<'s>> {
    let of = |condition: &'s Statement, truth: bool, body: &'s [Statement]| {
        let body = inside(body);
        let calls = |s: &Statement| failing.contains(s.name());
        body.last().filter(|last| is_failure(last) || calls(last))?;
        let says = body.iter().filter(|s| matches!(s.name(), "echo" | "printf") || calls(s));
        let text = |s: &Statement| content.text.get(s.words().first()?.range.end..s.range.end);
        let lines: Vec<String> = says.filter_map(text).map(|line| line.trim().to_lowercase()).collect();
        let (condition, truth) = match &condition.kind {
            Kind::Not(inner) => (&**inner, !truth),
            _ => (condition, truth),
        };
        Some(Refusal { condition, truth, first: lines.first()?.clone(), said: lines.join(" ") })
    };
    match &s.kind {
        Kind::If { branches, otherwise } => {
            let mut found: Vec<Refusal<'s>> = Vec::new();
            for branch in branches {
                if let [condition] = branch.condition.as_slice() {
                    found.extend(of(condition, true, &branch.body));
                }
            }
            if let ([branch], Some(otherwise)) = (branches.as_slice(), otherwise)
                && let [condition] = branch.condition.as_slice()
            {
                found.extend(of(condition, false, otherwise));
            }
            found
        }
        Kind::Or(pair) => of(&pair[0], false, std::slice::from_ref(&pair[1])).into_iter().collect(),
        Kind::And(pair) => of(&pair[0], true, std::slice::from_ref(&pair[1])).into_iter().collect(),
        _ => Vec::new(),
    }
}

/// What a condition with a single test checks.
enum Asked {
    /// Whether a text equals this one.
    Is(String),
    /// Whether a number compares with this one by the operator.
    Stands(String, f64),
    /// Whether something exists.
    There(Subject),
    /// Whether something is allowed.
    May,
}

/// What is looked for.
enum Subject {
    /// A resource with a name.
    Thing,
    /// The result of a pattern or filter. It may be a fault, so the message must mention it.
    Found(String),
    /// The content of a variable. It may be a list of faults, so the message must not print it.
    Held(String),
}

impl Subject {
    /// Whether a message that something is missing refers to this.
    fn is_meant(&self, said: &str) -> bool {
        match self {
            Self::Thing => true,
            Self::Found(pattern) => {
                let pattern = pattern.to_lowercase();
                let mut words = pattern.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| word.len() > 2);
                !has_one(&pattern, &LACKS) && words.any(|word| crate::lint::analysis::texts::has_word(said, word))
            }
            Self::Held(name) => !is_printed(said, name),
        }
    }
}

fn contradiction(refusal: &Refusal<'_>, content: &Content) -> Option<String> {
    let (asked, truth) = asked(refusal.condition, content)?;
    let truth = truth == refusal.truth;
    let said = &refusal.said;
    match asked {
        Asked::Is(value) => {
            let lower = value.to_lowercase();
            if truth && is_behind(said, &lower, &WANTED) && !is_behind(said, &lower, &UNWANTED) {
                return Some(format!(
                    "this fails if the value is `{value}`, but its message says that `{value}` is expected"
                ));
            }
            (!truth && is_behind(said, &lower, &UNWANTED))
                .then(|| format!("this fails unless the value is `{value}`, but its message rejects `{value}`"))
        }
        Asked::Stands(operator, value) => {
            let met = match operator.as_str() {
                "-eq" | "-ge" | "-le" => true,
                "-ne" | "-gt" | "-lt" => false,
                _ => return None,
            };
            if met == truth && is_behind(said, &value.to_string(), &WANTED) {
                return Some(format!(
                    "this fails if the number is {value}, but its message says that {value} is expected"
                ));
            }
            bound_and_message(operator.as_str(), truth, refusal, content)
        }
        Asked::May => {
            let (lacks, forbids) = (has_one(&refusal.first, &LACKS_RIGHT), has_one(&refusal.first, &HAS_RIGHT));
            match (truth, lacks, forbids) {
                (false, false, true) => Some(
                    "this fails if the permission is missing, but its message says that it must be missing".to_owned(),
                ),
                (true, true, false) => {
                    Some("this fails if the permission is given, but its message says that it is missing".to_owned())
                }
                _ => None,
            }
        }
        Asked::There(subject) => {
            let (lacks, stays) = (has_one(&refusal.first, &LACKS), has_one(&refusal.first, &STAYS));
            let lacks = lacks || refusal.first.trim_start_matches(['"', '\'']).starts_with("no ");
            if !truth && !lacks && complains_of_presence(&refusal.first, &subject, refusal.condition, content) {
                return Some("this fails if nothing is found, but its message says that something is there".to_owned());
            }
            let denied = || matches!(&subject, Subject::Found(pattern) if denies(&refusal.first, pattern));
            (truth && !stays && (lacks && subject.is_meant(said) || denied()))
                .then(|| "this fails if something is found, but its message says that it is missing".to_owned())
        }
    }
}

/// `[ $ready -gt 3 ]`, with the message `only $ready pods run`: the number is too large here, and not too small.
fn bound_and_message(operator: &str, truth: bool, refusal: &Refusal<'_>, content: &Content) -> Option<String> {
    let is_above = match operator {
        "-gt" | "-ge" => truth,
        "-lt" | "-le" => !truth,
        _ => return None,
    };
    let condition = content.text.get(refusal.condition.range.clone())?;
    let words = ast::split(condition, 0);
    let tested: Vec<String> = words.iter().filter_map(|word| Some(word.variable()?.to_lowercase())).collect();
    let [name] = tested.as_slice() else { return None };
    let said = &refusal.said;
    // `too many pods: $ready`
    let many = said.split_once("too many").is_some_and(|(_, rest)| {
        let head = rest.split(['$', ',', ';', '.']).next().unwrap_or_default();
        head.len() < rest.len() && rest[head.len()..].starts_with('$') && is_printed(&rest[head.len()..], name)
    });
    let few = said.split("only ").skip(1).any(|rest| {
        let word = rest.split(' ').next().unwrap_or_default();
        word.starts_with('$') && is_printed(word, name)
    });
    match (is_above, few, many) {
        (true, true, false) => {
            Some("this fails if the number is too large, but its message says that it is too small".to_owned())
        }
        (false, false, true) => {
            Some("this fails if the number is too small, but its message says that it is too large".to_owned())
        }
        _ => None,
    }
}

/// Whether a message denies what a pattern has found: `does not listen on 9090` for `listening on 9090`.
fn denies(said: &str, pattern: &str) -> bool {
    let pattern = pattern.to_lowercase();
    if [" not ", "n't", "no ", "never", "cannot", "fail", "error", "unable"].iter().any(|word| pattern.contains(word))
        || pattern.starts_with("not ")
    {
        return false;
    }
    ["does not ", "doesn't ", "did not ", "didn't "].iter().any(|negation| {
        let Some((_, rest)) = said.split_once(negation) else { return false };
        let mut words = rest.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
        let (Some(verb), Some(object)) = (
            words.next().filter(|verb| verb.len() > 3),
            words.find(|word| word.len() > 3 || word.parse::<u32>().is_ok()),
        ) else {
            return false;
        };
        let begins = pattern.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| word.starts_with(verb));
        begins && crate::lint::analysis::texts::has_word(&pattern, object)
    })
}

/// Whether a message says that something exists that should not, where the condition fails only if nothing is found.
fn complains_of_presence(said: &str, subject: &Subject, condition: &Statement, content: &Content) -> bool {
    let text = content.text.get(condition.range.clone()).unwrap_or_default();
    let name = match subject {
        Subject::Held(name) => name,
        // A wait may fail because of something else that is still there.
        Subject::Thing => {
            let waits = ["wait", "rollout", "timeout", "sleep"].iter().any(|word| text.contains(word));
            return !waits && has_one(said, &PRESENT) && !said.contains(" or ") && !said.contains(" no ");
        }
        // `! helm list -q | grep -qx old`, with the message that `old` is still installed.
        Subject::Found(pattern) => {
            let pattern = pattern.trim_matches(['^', '$', '\'', '"']).to_lowercase();
            let confirms = ["delet", "remov", "gone", "not found", "notfound", "absent", "clean", " -v", "stopped"];
            return pattern.len() > 2
                && crate::lint::analysis::texts::has_word(said, &pattern)
                && !confirms.iter().any(|word| text.to_lowercase().contains(word))
                && has_one(said, &PRESENT)
                && !said.contains(" or ")
                && !said.contains(" no ");
        }
    };
    // The output that is tested: in the condition itself, or in the last assignment before it.
    let assigned = || {
        let before = content.text.get(..condition.range.start)?.to_lowercase();
        let at = before.rfind(&format!("{}=", name.to_lowercase()))?;
        Some(before[at..].lines().next().unwrap_or_default().to_owned())
    };
    let source = if name.is_empty() { Some(text.to_lowercase()) } else { assigned() };
    let Some(source) = source else { return false };
    let is_confirmation = ["delet", "remov", "gone", "killing", "not found", "notfound", "absent", "clean", "-v "];
    if is_confirmation.iter().any(|word| source.contains(word)) || said.contains(" or ") {
        return false;
    }
    let changes = tools::lists_changes(&source);
    let denies = [" no ", "nothing", "not dirty"];
    if has_one(said, &denies) {
        return false;
    }
    let demands = ["expected", "should", "must", "without", "missing"];
    has_one(said, &PRESENT) || changes && has_one(said, &UNCLEAN) && !has_one(said, &demands)
}

/// Whether a command reads one resource, and fails if it does not exist: `gh api repos/…`, `docker inspect web`.
fn reads_one(program: &str, words: &[Word]) -> bool {
    let has = |all: &[&str]| words.iter().skip(1).any(|word| all.contains(&word.text.as_str()));
    match program {
        "gh" => {
            has(&["api", "view"])
                && !has(&["-X", "--method", "-f", "-F", "--field", "--raw-field", "--input", "-q", "--jq"])
        }
        "git" => {
            has(&["rev-parse", "show-ref"]) && has(&["--verify", "-q", "--quiet"])
                || has(&["--exit-code"]) && has(&["ls-remote"])
                || has(&["cat-file"]) && has(&["-e"])
                || has(&["merge-base"]) && has(&["--is-ancestor"])
        }
        "docker" => has(&["inspect"]),
        "helm" => has(&["status"]),
        "aws" => has(&["head-object", "head-bucket"]),
        _ => false,
    }
}

/// `if git merge-base --is-ancestor …; then echo "the branch does not start there"; exit 1; fi`: the branch is reached if the condition holds,
/// and its message denies something. Requires that the message does not speak of what should be gone, and that it or the prompt has the
/// text that a filter looks for.
fn denied(view: &TaskView<'_>, refusal: &Refusal<'_>, content: &Content) -> Option<String> {
    let (Asked::There(subject), truth) = asked(refusal.condition, content)? else { return None };
    let said = refusal.first.trim_matches(['"', '\'', ' ']);
    if truth != refusal.truth || !DENIES.is_match(said) || ABSENT.is_match(said) || has_one(said, &STAYS) {
        return None;
    }
    match &subject {
        Subject::Thing => {}
        Subject::Held(_) => return None,
        Subject::Found(pattern) => {
            let lower = pattern.to_lowercase();
            if DENIES.is_match(&lower) || ABSENT.is_match(&lower) || has_one(&lower, &BAD) {
                return None;
            }
            let plain = lower.trim_matches(['\'', '"', '^', '$', ' ']);
            let prompt = view.effects.prompt.shown().to_lowercase();
            let names = |word: &&str| word.len() > 3 && crate::lint::analysis::texts::has_word(said, word);
            let is_meant = plain.len() > 3
                && (said.contains(plain)
                    || prompt.contains(plain)
                    || lower.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).any(|word| names(&word)));
            if !is_meant {
                return None;
            }
        }
    }
    let shown = said.trim_end_matches(|c: char| !c.is_alphanumeric());
    Some(format!("this fails if the check succeeds, but its message says `{shown}`"))
}

/// `[ "$(git rev-parse v1.0.0)" = … ] || die "v1.0.1 is not main"`: the message and the prompt mention another name of
/// the same shape than the condition, and no other check mentions it.
fn of_another(view: &TaskView<'_>, refusal: &Refusal<'_>, content: &Content) -> Option<String> {
    let condition = content.text.get(refusal.condition.range.clone())?.to_lowercase();
    let prompt = view.effects.prompt.shown().to_lowercase();
    let shape = |word: &str| -> String { word.chars().filter(|c| !c.is_ascii_digit()).collect() };
    let named = |text: &str| -> Vec<String> {
        let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')));
        let words = words.map(|word| word.trim_matches(['.', '-', '_']));
        let is_name = |word: &&str| {
            word.len() > 3
                && word.contains(|c: char| c.is_ascii_digit())
                && word.starts_with(|c: char| c.is_ascii_alphabetic())
        };
        words.filter(is_name).map(str::to_owned).collect()
    };
    let checked = named(&condition);
    for wanted in named(&refusal.said) {
        let other = checked.iter().find(|name| **name != wanted && shape(name) == shape(&wanted));
        let Some(other) = other.filter(|_| !checked.contains(&wanted)) else { continue };
        let lines = |content: &Content| {
            content
                .text
                .to_lowercase()
                .lines()
                .filter(|line| crate::lint::analysis::texts::has_word(line, &wanted))
                .count()
        };
        let mut others = view.scripts.iter().filter(|script| script.phase == PhaseKind::Verify);
        let only_here = lines(content) == 1
            && others.all(|script| std::ptr::eq(&*script.content, content) || lines(&script.content) == 0);
        let in_prompt = crate::lint::analysis::texts::has_word(&prompt, &wanted)
            && !crate::lint::analysis::texts::has_word(&prompt, other);
        if only_here && in_prompt {
            return Some(format!("this checks `{other}`, but its message and the prompt are about `{wanted}`"));
        }
    }
    None
}

/// `[ "$image" = nginx:1.27 ] || die "not nginx:1.26"`: the message and the prompt say another value than the condition.
fn other_value(view: &TaskView<'_>, refusal: &Refusal<'_>, content: &Content) -> Option<String> {
    let (Asked::Is(value), truth) = asked(refusal.condition, content)? else { return None };
    (truth != refusal.truth).then_some(())?;
    let lower = value.to_lowercase();
    let prompt = view.effects.prompt.shown().to_lowercase();
    let part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':' | '/');
    for word in WANTED.iter().chain(&["instead of", "not"]) {
        for (at, _) in refusal.first.match_indices(word) {
            let before = refusal.first[..at].ends_with(|c: char| c.is_ascii_alphanumeric());
            let rest = refusal.first[at + word.len()..].trim_start_matches(['\\', ' ', ':', '=', '(']);
            let quoted = rest.starts_with(['\'', '"', '`']);
            let rest = rest.trim_start_matches(['\'', '"', '`']);
            let wanted = &rest[..rest.find(|c| !part(c)).unwrap_or(rest.len())];
            let wanted = wanted.trim_end_matches(['.', ':', '-']);
            let is_value = quoted || wanted.contains(|c: char| c.is_ascii_digit());
            let says = |value: &str| crate::lint::analysis::texts::has_word(&prompt, value);
            if !before && is_value && wanted.len() > 1 && wanted != lower && says(wanted) && !says(&lower) {
                // As the prompt writes it.
                let shown = view.effects.prompt.shown();
                let own = prompt.find(wanted).and_then(|at| shown.get(at..at + wanted.len()));
                let wanted = own.filter(|own| own.eq_ignore_ascii_case(wanted)).unwrap_or(wanted);
                return Some(format!("this requires `{value}`, but its message and the prompt require `{wanted}`"));
            }
        }
    }
    None
}

/// `if [ "$role" = editor ]; then echo "the role is $role"; exit 1; fi`: the message only repeats the condition.
/// Requires that setup has no such value, that the value does not indicate a problem, and that nothing else tests the
/// variable.
fn fixed(view: &TaskView<'_>, refusal: &Refusal<'_>, content: &Content) -> Option<String> {
    let text = content.text.get(refusal.condition.range.clone())?;
    let words = ast::split(text, 0);
    let words: Vec<&ast::Word> =
        words.iter().filter(|word| !matches!(word.source.as_str(), "[" | "]" | "[[" | "]]" | "test")).collect();
    let ([left, sign, right], Kind::Test) = (words.as_slice(), &refusal.condition.kind) else { return None };
    let equal = match sign.source.as_str() {
        "=" | "==" | "-eq" => true,
        "!=" | "-ne" => false,
        _ => return None,
    };
    // `${image##*:}` is a part of what `$image` prints.
    let part = || {
        let inner = left.source.trim_matches('"').strip_prefix("${")?.strip_suffix('}')?;
        let end = inner.find(['#', '%'])?;
        Some(&inner[..end]).filter(|name| !name.is_empty())
    };
    let name = left.variable().or_else(part)?;
    let printed = |name: &str| is_printed(&refusal.said, name);
    if equal != refusal.truth || !printed(name) {
        return None;
    }
    let value = match (right.literal(), right.variable()) {
        (Some(value), _) => value,
        (None, Some(other)) if printed(other) => {
            return Some(format!("this fails if `${name}` equals `${other}`, but its message only prints both"));
        }
        _ => return None,
    };
    let lower = value.to_lowercase();
    let tests = content.text.match_indices(name).filter(|(at, _)| {
        let line = content.text[content.line_start(*at)..].lines().next().unwrap_or_default();
        line.contains("[ ") || line.contains("[[ ") || line.contains("test ") || line.contains("case ")
    });
    let is_bad = value.len() < 2 && !value.starts_with(|c: char| ('1'..='9').contains(&c)) || has_one(&lower, &BAD);
    let old = crate::lint::analysis::texts::has_word(&crate::lint::analysis::facts::elsewhere(view).rest, &value)
        && !is_replaced(view, &value);
    (!is_bad && !old && tests.count() < 2)
        .then(|| format!("this fails if `${name}` is `{value}`, but its message only prints the value"))
}

/// Whether setup gives a field this value and then another one, so that a check that refuses it holds from the start.
fn is_replaced(view: &TaskView<'_>, value: &str) -> bool {
    let given = crate::lint::analysis::facts::given(view);
    let first = given.iter().position(|fact| fact.text() == value);
    first.and_then(|first| given.get(first..)).is_some_and(|rest| {
        let key = &rest[0].key;
        let is_written = |fact: &crate::lint::analysis::facts::Fact| fact.text() == value;
        rest.iter().rposition(|fact| fact.key == *key).is_some_and(|last| !is_written(&rest[last]))
            && !crate::lint::analysis::texts::has_word(&view.effects.prompt.shown(), value)
            && given.iter().filter(|fact| is_written(fact)).all(|fact| fact.key == *key)
    })
}

/// Whether a lowercase text contains `$role` or `${role}`, and not a longer name.
fn is_printed(said: &str, name: &str) -> bool {
    let (name, part) = (name.to_lowercase(), |c: char| c.is_ascii_alphanumeric() || c == '_');
    said.contains(&format!("${{{name}}}"))
        || said.match_indices(&format!("${name}")).any(|(at, found)| !said[at + found.len()..].starts_with(part))
}

/// What a condition checks, and whether for that or for its opposite.
fn asked(condition: &Statement, content: &Content) -> Option<(Asked, bool)> {
    let text = content.text.get(condition.range.clone())?;
    let quiet = |s: &Statement| {
        matches!(s.name(), "grep" | "egrep" | "fgrep")
            && s.words()
                .iter()
                .any(|word| word.text.starts_with('-') && !word.text.starts_with("--") && word.text.contains('q'))
            && !s.words().iter().any(|word| word.text.starts_with('-') && word.text.contains('v') || word.text == ".")
    };
    // The words of a filter, without its options.
    let found = |filter: &Statement| {
        let words = filter.words().iter().skip(1).filter(|word| !word.text.starts_with('-'));
        let words: Vec<&str> = words.map(|word| word.text.as_str()).collect();
        Some((Asked::There(Subject::Found(words.join(" "))), true))
    };
    match &condition.kind {
        Kind::Test => {}
        Kind::Pipeline(parts) => return parts.last().filter(|last| quiet(last)).and_then(found),
        Kind::Command(_) if quiet(condition) => return found(condition),
        Kind::Command(words)
            if condition.tool() == "kubectl" && words.iter().take(4).any(|word| word.text == "can-i") =>
        {
            return Some((Asked::May, true));
        }
        Kind::Command(words) if condition.tool() == "kubectl" => {
            let gets = words.iter().take(4).any(|word| matches!(word.text.as_str(), "get" | "wait" | "rollout"));
            let gone = words.iter().any(|word| word.text.contains("delete"));
            return (gets && !gone).then_some((Asked::There(Subject::Thing), true));
        }
        Kind::Command(words)
            if matches!(condition.name(), "systemctl" | "id" | "getent" | "command" | "which" | "stat") =>
        {
            let mut texts = words.iter().map(|word| word.text.as_str());
            let asks = condition.name() != "systemctl" || texts.any(|word| matches!(word, "is-active" | "is-enabled"));
            return asks.then_some((Asked::There(Subject::Thing), true));
        }
        Kind::Command(words) if reads_one(condition.name(), words) => {
            return Some((Asked::There(Subject::Thing), true));
        }
        Kind::Command(words) if condition.name() == "jq" => {
            let answers = words.iter().any(|word| word.text.starts_with('-') && word.text.contains('e'));
            return if answers { found(condition) } else { None };
        }
        Kind::Command(_) if condition.name() == "test" => {}
        _ => return None,
    }
    if text.contains("$?") || text.contains("&&") || text.contains("||") {
        return None;
    }
    let words = ast::split(text, 0);
    let words: Vec<&ast::Word> =
        words.iter().filter(|word| !matches!(word.source.as_str(), "[" | "]" | "[[" | "]]" | "test")).collect();
    let negations = words.iter().take_while(|word| word.source == "!").count();
    let asks = negations % 2 == 0;
    match &words[negations..] {
        [sign, word] if matches!(sign.source.as_str(), "-n" | "-z") => {
            // A variable with an error message is empty if there is no error.
            let name = word.variable().unwrap_or_default().to_lowercase();
            let tells = ["err", "bad", "miss", "fail", "wrong", "diff", "left", "remain", "invalid", "unexpected"];
            let held = || (Asked::There(Subject::Held(name.clone())), asks == (sign.source == "-n"));
            (!tells.iter().any(|word| name.contains(word))).then(held)
        }
        [sign, _] if matches!(sign.source.as_str(), "-f" | "-e" | "-d" | "-s" | "-x") => {
            Some((Asked::There(Subject::Thing), asks))
        }
        [left, sign, right] => {
            let value = right.literal().filter(|_| left.source.contains('$'))?;
            match sign.source.as_str() {
                "=" | "==" if !value.is_empty() => Some((Asked::Is(value), asks)),
                "!=" if !value.is_empty() => Some((Asked::Is(value), !asks)),
                operator => {
                    let number: f64 = value.parse().ok()?;
                    let counts = left.variable().is_some_and(|name| comparison::counts(content, name));
                    let held = || Asked::There(Subject::Held(left.variable().unwrap_or_default().to_owned()));
                    match (operator, number) {
                        ("-gt" | "-ne", 0.0) | ("-ge", 1.0) if counts => Some((held(), asks)),
                        ("-eq" | "-le", 0.0) | ("-lt", 1.0) if counts => Some((held(), !asks)),
                        _ => Some((Asked::Stands(operator.to_owned(), number), asks)),
                    }
                }
            }
        }
        _ => None,
    }
}

/// Whether a text contains a value directly after one of these words.
fn is_behind(said: &str, value: &str, words: &[&str]) -> bool {
    let part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    said.match_indices(value).any(|(at, _)| {
        let behind = &said[at + value.len()..];
        let before = &said[..at];
        let whole =
            !before.ends_with(part) && !behind.trim_end_matches('.').starts_with(part) || behind.starts_with(". ");
        let before = before.trim_end_matches([' ', '\'', '"', '`', ':', '(', '\\', '=']);
        whole
            && words.iter().any(|word| {
                before.strip_suffix(word).is_some_and(|rest| !rest.ends_with(|c: char| c.is_ascii_alphabetic()))
            })
    })
}

fn has_one(said: &str, words: &[&str]) -> bool {
    words.iter().any(|word| said.contains(word))
}

/// An expected value follows these.
const WANTED: [&str; 14] = [
    "expected",
    "expect",
    "expecting",
    "should be",
    "must be",
    "not",
    "want",
    "wanted",
    "instead of",
    "at least",
    "exactly",
    "needs",
    "required",
    "!",
];
/// A rejected value follows these.
const UNWANTED: [&str; 11] = [
    "expected not",
    "still",
    "still at",
    "must not be",
    "should not be",
    "unexpected",
    "unexpectedly",
    "not expected",
    "is already",
    "remains",
    "must not",
];
/// Something is missing.
#[rustfmt::skip]
const LACKS: [&str; 27] = [
    "not found", "not exist", "t exist", "not set", "not ready", "not present", "not created", "not running", "not available", "not installed",
    "not defined", "not there", "not configured", "not reachable", "not say", "not have", "not contain ", "not an ", "missing", "no such", "nothing",
    "is gone", " lost", "is empty", "has no ", "have no ", " is no ",
];
/// Something exists that should not; or the message states a requirement or a negation.
#[rustfmt::skip]
const STAYS: [&str; 20] = [
    "should ", "must ", "may ", "expected no", "s expected", "allowed", "exists", "removed", "still ", "not deleted", "not gone", "not cleaned",
    "unexpected", "left behind", "not been", "not terminated", "no longer", "shouldn't", "leftover", "not stopped",
];
/// Something exists that should not.
#[rustfmt::skip]
const PRESENT: [&str; 15] = [
    "still installed", "still deployed", "still exist", "still there", "still present", "still listed", "left behind", "leftover", "left over", "should not exist", "must not exist",
    "should be gone", "is not empty", "which was not asked for", "that nobody asked for",
];
/// Somebody lacks a permission.
#[rustfmt::skip]
const LACKS_RIGHT: [&str; 9] = [
    "cannot", "can't", "can not", "not allowed", "not permitted", "must be able", "should be able", "must be allowed", "should be allowed",
];
/// Somebody has a permission that they should not have.
#[rustfmt::skip]
const HAS_RIGHT: [&str; 8] = [
    "must not", "should not", "shouldn't", "can still", "is still able", "is still allowed", "must never", "may not be able",
];
/// There are changes that should not be there.
const UNCLEAN: [&str; 5] = ["not clean", "dirty", "uncommitted", "unstaged", "untracked"];
/// Values that indicate a problem.
#[rustfmt::skip]
const BAD: [&str; 21] = [
    "fail", "err", "crash", "unknown", "pending", "000", "null", "none", "false", "stop", "terminat", "evict", "lost", "degraded", "unhealthy", "exited",
    "down", "inactive", "missing", "backoff", "<no value>",
];
/// A message that something is not as it should be.
static DENIES: Ascii = ascii(
    r"\b(?:(?:was|were|does|do|did|has|have|had|can|could) not|cannot|can't|wasn't|weren't|doesn't|didn't|hasn't|never|(?:is|are) not (?:at|in|on|there|listed|present|set|created|pushed|tagged|running|up|ready|available))\b",
);
/// Words of messages about something that should be gone or the same.
static ABSENT: Ascii = ascii(
    r"\b(?:delet|remov|gone|drop|clean|stop|terminat|clos|empty|still|already|other|only|unexpected|asked|expected|nobody|want|forbid|wrong|chang|old|same|equal|match|differ|moved|renam|revok|unchanged|touch|longer|again|too|error|fail|exclud|disabl|suspend|paus|halt|block|den[iy]|refus|restrict|isolat|allow|permit|access|reach|abl[ey]|read|intact|alone|untouched|belong|part|member|suppos|meant|need)",
);
