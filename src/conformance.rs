//! Conformance of a program to a protocol: numbered requirements, whether each is met, which ones are expected to fail,
//! and how to write the result. The module that implements the protocol does the testing.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::builtin::count;

/// Whether a program met a requirement.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Kept {
    Yes,
    No(String),
    /// It could not be tested.
    Untried(String),
}

/// How much a requirement demands (RFC 2119).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Demand {
    Must,
    Should,
}

impl Demand {
    /// The keyword of RFC 2119.
    pub fn name(self) -> &'static str {
        match self {
            Self::Must => "MUST",
            Self::Should => "SHOULD",
        }
    }
}

/// A requirement of a protocol. The meaning of an ID never changes.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    pub id: &'static str,
    pub demand: Demand,
    pub text: &'static str,
}

/// A requirement and its result.
#[derive(Clone, Debug)]
pub struct Requirement {
    pub rule: Rule,
    pub kept: Kept,
}

/// How the result of a requirement counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Counts {
    Passed,
    Failed,
    /// A SHOULD that is not met.
    Advised,
    ExpectedFailure,
    /// It was expected to fail, but did not.
    Stale,
    Untried,
}

/// Which requirements a program is expected to fail, and how strictly it is judged.
#[derive(Clone, Debug, Default)]
pub struct Judgement {
    expected: BTreeSet<String>,
    /// Whether a SHOULD counts as a MUST.
    strict: bool,
}

impl Judgement {
    /// Reads a file of expected failures: one ID per line; `#` starts a comment.
    ///
    /// # Errors
    /// A line is not an ID of `rules`, or appears twice.
    pub fn read(text: &str, rules: &[Rule], strict: bool) -> Result<Self, String> {
        let mut expected = BTreeSet::new();
        for (number, line) in (1..).zip(text.lines()) {
            let id = line.split('#').next().unwrap_or_default().trim();
            if id.is_empty() {
                continue;
            }
            if !rules.iter().any(|rule| rule.id == id) {
                return Err(format!("line {number}: `{id}` is not a requirement; `--list` lists them"));
            }
            if !expected.insert(id.to_owned()) {
                return Err(format!("line {number}: `{id}` is listed twice"));
            }
        }
        Ok(Self { expected, strict })
    }

    /// Creates a judgement without expected failures.
    pub fn of(strict: bool) -> Self {
        Self { strict, ..Self::default() }
    }

    fn counts(&self, requirement: &Requirement) -> Counts {
        let expected = self.expected.contains(requirement.rule.id);
        match &requirement.kept {
            Kept::Untried(_) => Counts::Untried,
            Kept::Yes if expected => Counts::Stale,
            Kept::Yes => Counts::Passed,
            Kept::No(_) if expected => Counts::ExpectedFailure,
            Kept::No(_) if requirement.rule.demand == Demand::Should && !self.strict => Counts::Advised,
            Kept::No(_) => Counts::Failed,
        }
    }

    /// Whether the program meets all requirements except those that are expected to fail.
    pub fn is_met(&self, requirements: &[Requirement]) -> bool {
        !requirements.iter().any(|r| matches!(self.counts(r), Counts::Failed | Counts::Stale))
    }
}

/// Output formats, the default first.
pub const FORMATS: [&str; 3] = ["text", "json", "junit"];

/// Writes results in one of [`FORMATS`], for people, programs and CI; `name` is what was tested.
pub fn write(format: &str, name: &str, requirements: &[Requirement], judgement: &Judgement) -> String {
    match format {
        "json" => document(requirements, judgement),
        "junit" => junit(name, requirements, judgement),
        _ => text(requirements, judgement),
    }
}

/// Lists the requirements, one per line.
pub fn listed(rules: &[Rule]) -> String {
    rules.iter().map(|rule| format!("{:4} {:6} {}\n", rule.id, rule.demand.name(), rule.text)).collect()
}

const STALE: &str = "it is met although it is expected to fail: remove it from the expected failures";

fn text(requirements: &[Requirement], judgement: &Judgement) -> String {
    let mut text = String::new();
    for r in requirements {
        let counts = judgement.counts(r);
        let mark = match counts {
            Counts::Passed => "ok  ",
            Counts::Failed | Counts::Stale => "no  ",
            Counts::Advised => "warn",
            Counts::ExpectedFailure => "xno ",
            Counts::Untried => "-   ",
        };
        let why = match &r.kept {
            Kept::Yes if counts == Counts::Stale => format!("\n           {STALE}"),
            Kept::Yes => String::new(),
            Kept::No(why) => format!("\n           {}", crate::diagnostic::visible(&why.replace('\n', " "))),
            Kept::Untried(why) => format!(" (not tested: {})", crate::diagnostic::visible(&why.replace('\n', " "))),
        };
        text += &format!("{mark} {:4} {}{why}\n", r.rule.id, r.rule.text);
    }
    let number = |wanted: Counts| requirements.iter().filter(|r| judgement.counts(r) == wanted).count();
    let are = |n: usize, what: &str| format!("{} {what}", count(n, "requirement is", "requirements are"));
    let mut verdict: Vec<String> = [(Counts::Failed, "not met"), (Counts::Stale, "met unexpectedly")]
        .into_iter()
        .filter_map(|(counts, what)| Some(are(Some(number(counts)).filter(|n| *n > 0)?, what)))
        .collect();
    if verdict.is_empty() {
        let but = if number(Counts::ExpectedFailure) > 0 { ", except those expected to fail" } else { "" };
        verdict.push(format!("all tested requirements are met{but}"));
    }
    if number(Counts::Advised) > 0 {
        verdict.push(format!(
            "{} not followed",
            count(number(Counts::Advised), "recommendation is", "recommendations are")
        ));
    }
    text + &format!("{}\n", verdict.join("; "))
}

fn document(requirements: &[Requirement], judgement: &Judgement) -> String {
    let list = requirements.iter().map(|r| {
        let (outcome, why) = match &r.kept {
            Kept::Yes => ("passed", None),
            Kept::No(why) => ("failed", Some(why)),
            Kept::Untried(why) => ("untried", Some(why)),
        };
        let mut item = json!({
            "id": r.rule.id,
            "demand": r.rule.demand.name(),
            "requirement": r.rule.text,
            "outcome": outcome,
            "why": why,
        });
        if judgement.expected.contains(r.rule.id) {
            item["expectedFailure"] = true.into();
        }
        item
    });
    format!("{:#}\n", Value::Array(list.collect()))
}

fn junit(name: &str, requirements: &[Requirement], judgement: &Judgement) -> String {
    use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};
    let mut suite = TestSuite::new(name);
    for r in requirements {
        let why = match &r.kept {
            Kept::Yes => STALE,
            Kept::No(why) | Kept::Untried(why) => why,
        };
        let mut status = match judgement.counts(r) {
            Counts::Passed => TestCaseStatus::success(),
            Counts::Failed | Counts::Stale => TestCaseStatus::non_success(NonSuccessKind::Failure),
            Counts::Advised | Counts::ExpectedFailure | Counts::Untried => TestCaseStatus::skipped(),
        };
        match judgement.counts(r) {
            Counts::Passed => {}
            Counts::Stale => drop(status.set_type("StaleExpectation").set_message(why)),
            _ => drop(status.set_type(r.rule.demand.name()).set_message(why)),
        }
        let mut case = TestCase::new(format!("{} {}", r.rule.id, r.rule.text), status);
        case.set_classname("conformance");
        suite.add_test_case(case);
    }
    let mut report = Report::new("gevals conformance");
    report.add_test_suite(suite);
    report.to_string().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: [Rule; 3] = [
        Rule { id: "A1", demand: Demand::Must, text: "it answers" },
        Rule { id: "A2", demand: Demand::Should, text: "it is kind" },
        Rule { id: "A3", demand: Demand::Must, text: "it ends" },
    ];

    fn tried(kept: [Kept; 3]) -> Vec<Requirement> {
        RULES.into_iter().zip(kept).map(|(rule, kept)| Requirement { rule, kept }).collect()
    }

    #[test]
    fn expected_failures_must_fail() {
        let no = || Kept::No("x".to_owned());
        let expects = |text: &str, strict| Judgement::read(text, &RULES, strict).unwrap();
        let met = |kept: [Kept; 3], text: &str, strict| expects(text, strict).is_met(&tried(kept));
        assert!(met([Kept::Yes, Kept::Yes, Kept::Yes], "", true));
        assert!(!met([no(), Kept::Yes, Kept::Yes], "", false));
        assert!(met([no(), Kept::Yes, Kept::Yes], "# known\n A1 # soon\n", false));
        assert!(!met([Kept::Yes, Kept::Yes, Kept::Yes], "A1", false));
        assert!(met([Kept::Yes, no(), Kept::Yes], "", false));
        assert!(!met([Kept::Yes, no(), Kept::Yes], "", true));
        assert!(met([Kept::Yes, no(), Kept::Untried("y".to_owned())], "A2\nA3", true));
        for (text, why) in [("A4", "line 1: `A4` is not a requirement"), ("A1\n\nA1", "line 3: `A1` is listed twice")] {
            assert!(Judgement::read(text, &RULES, false).unwrap_err().starts_with(why));
        }
    }

    #[test]
    fn results_are_written_as_text_json_and_junit() {
        let results = tried([Kept::No("it\u{1b} said <no>".to_owned()), Kept::No("rude".to_owned()), Kept::Yes]);
        let judgement = Judgement::read("A3", &RULES, false).unwrap();
        let said = write("text", "x", &results, &judgement);
        assert_eq!(
            said,
            "no   A1   it answers\n           it\\u{1b} said <no>\nwarn A2   it is kind\n           rude\nno   A3   it ends\n           \
             it is met although it is expected to fail: remove it from the expected failures\n\
             1 requirement is not met; 1 requirement is met unexpectedly; 1 recommendation is not followed\n"
        );
        let list: Value = serde_json::from_str(&write("json", "x", &results, &judgement)).unwrap();
        assert_eq!((&list[0]["outcome"], &list[2]["expectedFailure"]), (&json!("failed"), &json!(true)));
        let report = quick_junit::Report::deserialize_from_str(&write("junit", "x", &results, &judgement)).unwrap();
        let suite = &report.test_suites[0];
        assert_eq!((suite.tests, suite.failures), (3, 2));
    }
}
