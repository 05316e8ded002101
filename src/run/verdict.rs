//! The verdict of a run of a task (`decisions.md` §5).

use super::Only;
use crate::event::{Outcome, Verdict};

/// The facts that decide a verdict.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Why the task could not be carried out as planned: an unmet requirement, a server, the agent, a changed file.
    pub hindered: Option<String>,
    /// Why the run was cut short: by a signal or a limit of the whole eval.
    pub cancelled: Option<String>,
    /// The server that was lost while the agent worked.
    pub lost: Option<String>,
    /// The single phase that was requested: results of the other phases are not expected.
    pub only: Option<Only>,
    /// The setup step that prevented the agent from running.
    pub setup: Option<Judged>,
    pub agent: Option<Judged>,
    /// Top-level verify steps, then assertions.
    pub checks: Vec<Judged>,
    /// Why the agent stopped, if it reports that it was not done.
    pub cut: Option<String>,
    /// What the agent itself did that fails the task whatever was checked: it exceeded one of its limits, or made a call that
    /// cannot be read.
    pub fault: Option<String>,
    /// How a replay diverged from the recording, if that does not make the run broken.
    pub diverged: Vec<String>,
    /// The agent worked, and no call to a server under test succeeded, although calls were not forbidden.
    pub unused: bool,
    /// Whether such a run cannot pass.
    pub must_use: bool,
    /// Whether the world of the run is kept.
    pub kept: bool,
    /// Why, if the task timed out before everything was done.
    pub timed_out: Option<String>,
}

/// The outcome of an action and the reason.
#[derive(Clone, Debug)]
pub struct Judged {
    pub id: String,
    pub outcome: Outcome,
    pub why: String,
    /// How many comparisons it made.
    pub comparisons: u32,
}

/// The verdict and its reason, in one line.
pub fn verdict(facts: &Facts) -> (Verdict, String) {
    let (verdict, reason) = timeless(facts);
    match &facts.timed_out {
        Some(why) if matches!(verdict, Verdict::Broken | Verdict::Unchecked) => {
            (Verdict::Broken, format!("{why}: {reason}"))
        }
        _ => (verdict, reason),
    }
}

fn timeless(facts: &Facts) -> (Verdict, String) {
    let first = |outcome| facts.checks.iter().find(|c| c.outcome == outcome);
    if let Some(why) = &facts.cancelled {
        return (Verdict::Cancelled, why.clone());
    }
    if let Some(why) = &facts.hindered {
        return (Verdict::Broken, why.clone());
    }
    if let Some(setup) = &facts.setup {
        return (Verdict::Broken, setup.line());
    }
    if let Some(why) = &facts.lost {
        return (Verdict::Broken, why.clone());
    }
    match &facts.agent {
        _ if facts.only == Some(Only::Setup) => return (Verdict::Passed, String::new()),
        None if facts.only == Some(Only::Verify) => {}
        None => return (Verdict::Broken, "the agent did not run".to_owned()),
        Some(_) if facts.fault.is_some() => return (Verdict::Failed, facts.fault.clone().unwrap_or_default()),
        Some(agent) if agent.outcome != Outcome::Passed => return (Verdict::Broken, agent.line()),
        Some(_) => {}
    }
    // A step is skipped because another step's output is missing; that other step gives the reason.
    let spoilt = [Outcome::Failed, Outcome::Broken, Outcome::Cancelled, Outcome::Skipped].into_iter().find_map(first);
    match spoilt {
        Some(failed) if failed.outcome == Outcome::Failed => (Verdict::Failed, failed.line()),
        Some(spoilt) => (Verdict::Broken, spoilt.line()),
        None if facts.checks.is_empty() => (Verdict::Unchecked, "nothing was checked".to_owned()),
        None if facts.checks.iter().all(|check| check.comparisons == 0) => {
            (Verdict::Unchecked, "nothing was checked: no step of verify compared anything".to_owned())
        }
        None if facts.unused && facts.must_use => {
            let why = "no call to a server under test succeeded, but `--require-server-use` requires one";
            (Verdict::Failed, why.to_owned())
        }
        None => (Verdict::Passed, String::new()),
    }
}

impl Judged {
    fn line(&self) -> String {
        let how = super::fill::how(self.outcome);
        match self.why.lines().next() {
            None | Some("") => format!("`{}` {how}", self.id),
            Some(line) => format!("`{}` {how}: {line}", self.id),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(outcome: Outcome) -> Judged {
        Judged { id: "x".to_owned(), outcome, why: "why".to_owned(), comparisons: 1 }
    }

    /// The rule of `decisions.md` §5, line by line.
    #[test]
    fn verdicts_follow_the_rule() {
        use Outcome::{Broken, Cancelled, Failed, Passed, Skipped};
        let facts = |agent: Option<Outcome>, checks: &[Outcome]| Facts {
            agent: agent.map(judged),
            checks: checks.iter().map(|o| judged(*o)).collect(),
            ..Facts::default()
        };
        let hollow = || Judged { comparisons: 0, ..judged(Passed) };
        let hollow =
            |more: &[Judged]| Facts { checks: [&[hollow(), hollow()], more].concat(), ..facts(Some(Passed), &[]) };
        let table = [
            (hollow(&[]), Verdict::Unchecked),
            (hollow(&[judged(Passed)]), Verdict::Passed),
            (hollow(&[judged(Failed)]), Verdict::Failed),
            (facts(Some(Passed), &[Passed, Passed]), Verdict::Passed),
            (facts(Some(Passed), &[]), Verdict::Unchecked),
            (facts(Some(Passed), &[Passed, Failed]), Verdict::Failed),
            (facts(Some(Passed), &[Broken, Failed]), Verdict::Failed),
            (facts(Some(Passed), &[Passed, Broken]), Verdict::Broken),
            (facts(Some(Passed), &[Passed, Skipped]), Verdict::Broken),
            (facts(Some(Passed), &[Cancelled]), Verdict::Broken),
            (facts(Some(Broken), &[Passed]), Verdict::Broken),
            (facts(Some(Broken), &[Failed]), Verdict::Broken),
            (facts(None, &[]), Verdict::Broken),
            (Facts { setup: Some(judged(Failed)), ..facts(None, &[]) }, Verdict::Broken),
            (Facts { hindered: Some("no".into()), ..facts(None, &[]) }, Verdict::Broken),
            (Facts { cancelled: Some("SIGINT".into()), ..facts(Some(Passed), &[Passed]) }, Verdict::Cancelled),
            (Facts { timed_out: Some("late".into()), ..facts(Some(Passed), &[Passed]) }, Verdict::Passed),
            (Facts { unused: true, ..facts(Some(Passed), &[Passed]) }, Verdict::Passed),
            (Facts { fault: Some("too much".into()), ..facts(Some(Failed), &[Passed]) }, Verdict::Failed),
            (Facts { unused: true, must_use: true, ..facts(Some(Passed), &[Passed]) }, Verdict::Failed),
            (Facts { unused: true, must_use: true, ..facts(Some(Passed), &[Broken]) }, Verdict::Broken),
            (Facts { unused: false, must_use: true, ..facts(Some(Passed), &[Passed]) }, Verdict::Passed),
            (Facts { timed_out: Some("late".into()), ..facts(Some(Passed), &[Skipped]) }, Verdict::Broken),
            // A single phase: only the setup, or only the verification.
            (Facts { only: Some(Only::Setup), ..facts(None, &[]) }, Verdict::Passed),
            (Facts { only: Some(Only::Setup), setup: Some(judged(Failed)), ..facts(None, &[]) }, Verdict::Broken),
            (Facts { only: Some(Only::Verify), ..facts(None, &[Passed]) }, Verdict::Passed),
            (Facts { only: Some(Only::Verify), ..facts(None, &[Failed]) }, Verdict::Failed),
            (Facts { only: Some(Only::Verify), ..facts(None, &[]) }, Verdict::Unchecked),
        ];
        for (facts, expected) in table {
            let (verdict, reason) = verdict(&facts);
            assert_eq!(verdict, expected, "{facts:?}");
            assert_eq!(reason.is_empty(), expected == Verdict::Passed, "{facts:?}");
        }
        assert_eq!(verdict(&facts(Some(Passed), &[])).1, "nothing was checked");
        assert_eq!(verdict(&hollow(&[])).1, "nothing was checked: no step of verify compared anything");
    }
}
