//! Statistics of passes and runs: intervals, tests, gates. Pure functions of numbers; the distributions are those of
//! `statrs`. The expected values in the tests come from SciPy.

use std::fmt;

use statrs::{
    distribution::{Binomial, ContinuousCDF, DiscreteCDF, Normal},
    stats_tests::{Alternative, fishers_exact},
};

/// Default confidence level of an interval.
pub const CONFIDENCE: f64 = 0.95;
/// Default error probability of a test.
pub const ALPHA: f64 = 0.05;
/// Maximum number of runs: a gate that needs more runs is refused.
pub const MOST_RUNS: u32 = 2_000;

/// A confidence interval of a rate.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Interval {
    pub low: f64,
    pub high: f64,
}

impl fmt::Display for Interval {
    /// For example `21–94 %`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Rounded outwards, so that the interval is never wider than shown.
        write!(f, "{}–{} %", (self.low * 100.0).floor(), (self.high * 100.0).ceil())
    }
}

/// Returns the score interval of a rate (E. B. Wilson, *Probable inference, the law of succession, and statistical
/// inference*, JASA 22, 1927), which is accurate for few runs and for rates near 0 and 1. For zero runs, the interval
/// is 0 to 1.
pub fn wilson(passed: u32, runs: u32, confidence: f64) -> Interval {
    if runs == 0 {
        return Interval { low: 0.0, high: 1.0 };
    }
    let (n, z) = (f64::from(runs), normal_quantile(f64::midpoint(1.0, confidence)));
    let rate = f64::from(passed.min(runs)) / n;
    let centre = (rate + z * z / (2.0 * n)) / (1.0 + z * z / n);
    let half = z / (1.0 + z * z / n) * (rate * (1.0 - rate) / n + z * z / (4.0 * n * n)).sqrt();
    Interval {
        low: if passed == 0 { 0.0 } else { (centre - half).max(0.0) },
        high: if passed >= runs { 1.0 } else { (centre + half).min(1.0) },
    }
}

fn normal_quantile(p: f64) -> f64 {
    Normal::standard().inverse_cdf(p.clamp(1e-12, 1.0 - 1e-12))
}

/// Returns the unbiased estimate of the probability that at least one of `k` runs passes, if `passed` of `runs` did (M.
/// Chen et al., *Evaluating large language models trained on code*, 2021, equation 1). `None` if there are fewer runs
/// than `k`.
pub fn pass_at(runs: u32, passed: u32, k: u32) -> Option<f64> {
    all_of(runs, runs.checked_sub(passed)?, k).map(|none| 1.0 - none)
}

/// Returns the unbiased estimate of the probability that all of `k` runs pass (S. Yao et al., *τ-bench*, 2024).
pub fn pass_hat(runs: u32, passed: u32, k: u32) -> Option<f64> {
    all_of(runs, passed, k)
}

/// Returns the probability that `k` items drawn from `all` without replacement are all among `some` of them.
fn all_of(all: u32, some: u32, k: u32) -> Option<f64> {
    (1..=all).contains(&k).then(|| {
        (0..k).map(|i| f64::from(some.saturating_sub(i)) / f64::from(all - i)).product::<f64>().clamp(0.0, 1.0)
    })
}

/// The exact test of Q. McNemar (1947) for pairs: the probability that pairs that differ split at least as unevenly as
/// this if neither side is better. Two-sided.
pub fn mcnemar(one: u32, other: u32) -> f64 {
    let differ = u64::from(one) + u64::from(other);
    match Binomial::new(0.5, differ) {
        Ok(even) if one != other => (2.0 * even.cdf(one.min(other).into())).min(1.0),
        _ => 1.0,
    }
}

/// Passes and runs on two sides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Counts {
    pub passed: u32,
    pub runs: u32,
    pub other_passed: u32,
    pub other_runs: u32,
}

impl Counts {
    /// The exact test of R. A. Fisher for two rates: the probability of a difference at least like this if there is
    /// none. Two-sided.
    pub fn fisher(self) -> f64 {
        let lost = |passed: u32, runs: u32| u64::from(runs.saturating_sub(passed));
        let table = [
            u64::from(self.passed),
            lost(self.passed, self.runs),
            u64::from(self.other_passed),
            lost(self.other_passed, self.other_runs),
        ];
        fishers_exact(&table, Alternative::TwoSided).map_or(1.0, |p| p.clamp(0.0, 1.0))
    }

    /// The smallest value of [`Self::fisher`] that is possible with the same number of passes.
    fn smallest(self) -> f64 {
        let all = self.passed + self.other_passed;
        let of = |passed: u32| Self { passed, other_passed: all - passed, ..self }.fisher();
        of(all.min(self.runs)).min(of(all.saturating_sub(self.other_runs)))
    }
}

/// Returns for each of several comparisons its p-value and whether it shows a difference, so that the probability of
/// even one false difference is at most `alpha`: S. Holm's procedure (1979) over the comparisons that can show a
/// difference at all (R. E. Tarone, *A modified Bonferroni method for discrete data*, Biometrics 46, 1990). A task that
/// always passed on both sides, for example, cannot.
pub fn differences(all: &[Counts], alpha: f64) -> Vec<(f64, bool)> {
    let smallest: Vec<f64> = all.iter().map(|counts| counts.smallest()).collect();
    let testable = |k: usize| smallest.iter().filter(|p| **p <= alpha / k as f64).count();
    let k = (1..=all.len().max(1)).find(|&k| testable(k) <= k).unwrap_or(1);
    let values: Vec<f64> = all.iter().map(|counts| counts.fisher()).collect();
    let family: Vec<usize> = (0..all.len()).filter(|&i| smallest[i] <= alpha / k as f64).collect();
    let told = holm(&family.iter().map(|&i| values[i]).collect::<Vec<_>>(), alpha);
    let mut shown = vec![false; all.len()];
    family.into_iter().zip(told).for_each(|(i, told)| shown[i] = told);
    values.into_iter().zip(shown).collect()
}

/// Returns which of several p-values are significant, by S. Holm's procedure (*A simple sequentially rejective multiple
/// test procedure*, 1979).
pub fn holm(values: &[f64], alpha: f64) -> Vec<bool> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    let mut shown = vec![false; values.len()];
    for (rank, &i) in order.iter().enumerate() {
        if values[i] > alpha / (order.len() - rank) as f64 {
            break;
        }
        shown[i] = true;
    }
    shown
}

/// A pass rate to be shown, with a confidence level: `0.9@95%`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Rate {
    pub at_least: f64,
    pub confidence: f64,
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}%", self.at_least, rounded(self.confidence * 100.0))
    }
}

/// Removes the rounding errors of binary fractions.
fn rounded(n: f64) -> f64 {
    (n * 1e6).round() / 1e6
}

impl std::str::FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let between = |n: f64| (n > 0.0 && n < 1.0).then_some(n);
        let number = |text: &str| match text.trim().strip_suffix('%') {
            Some(percent) => between(percent.trim().parse::<f64>().ok()? / 100.0),
            None => between(text.trim().parse().ok()?),
        };
        let (rate, confidence) = text.split_once('@').unwrap_or((text, "95%"));
        match (number(rate), number(confidence)) {
            (Some(at_least), Some(confidence)) => {
                let rate = Self { at_least, confidence };
                match rate.fewest() {
                    Some(_) => Ok(rate),
                    None => Err(format!("more than {MOST_RUNS} runs would have to pass")),
                }
            }
            _ => Err("write a rate and a confidence, both between 0 and 1 or in percent, such as `0.9@95%`".to_owned()),
        }
    }
}

impl Rate {
    /// The error probability that the confidence level allows.
    fn alpha(self) -> f64 {
        // A binary rounding error must not require an additional run.
        (1.0 - self.confidence) * (1.0 + 1e-9)
    }

    /// Returns how many of this many runs must pass: the fewest passes whose probability at a lower rate is at most the
    /// allowed error. That is where the exact lower bound (C. J. Clopper and E. S. Pearson, 1934, one-sided) reaches
    /// the rate. `None` if not even all passes would suffice.
    pub fn needed(self, runs: u32) -> Option<u32> {
        needed(runs, self.at_least, self.alpha(), 0)
    }

    /// Returns the fewest runs that can show the rate.
    pub fn fewest(self) -> Option<u32> {
        (1..=MOST_RUNS).find(|&runs| self.at_least.powf(f64::from(runs)) <= self.alpha())
    }

    /// Returns the fewest runs with which a task of the true rate `truly` meets the gate with at least the probability
    /// `power`: the runs, the passes, the probability.
    pub fn planned(self, truly: f64, power: f64) -> Option<(u32, u32, f64)> {
        let mut passes = 0;
        (self.fewest()?..=MOST_RUNS).find_map(|runs| {
            passes = needed(runs, self.at_least, self.alpha(), passes)?;
            let likely = at_least(runs, passes, truly);
            (likely >= power).then_some((runs, passes, likely))
        })
    }
}

/// The probability of at least this many passes.
fn at_least(runs: u32, passes: u32, rate: f64) -> f64 {
    match (passes.checked_sub(1), Binomial::new(rate, runs.into())) {
        (None, _) | (_, Err(_)) => 1.0,
        (Some(fewer), Ok(all)) => all.sf(fewer.into()),
    }
}

/// The fewest passes, not below `from`, that have at most the probability `alpha`.
fn needed(runs: u32, rate: f64, alpha: f64, from: u32) -> Option<u32> {
    (from..=runs).find(|&passes| at_least(runs, passes, rate) <= alpha)
}

/// A gate that is evaluated after every run: the number of passes that meet it, by the number of runs so far.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sequential {
    /// Indexed by the number of runs, from 0; `None` if no number of passes suffices.
    enough: Vec<Option<u32>>,
}

impl Sequential {
    /// Creates a gate of `passes` passes in `of` runs.
    pub fn passes(passes: u32, of: u32) -> Self {
        Self { enough: (0..=of).map(|runs| (runs >= passes).then_some(passes)).collect() }
    }

    /// Creates a gate of a rate, in at most `most` runs. Repeated evaluation makes a pass by chance more likely, so
    /// each one requires more: the same nominal error at each (S. J. Pocock, *Group sequential methods*, Biometrika 64,
    /// 1977), and the largest one for which the probability that a task of a lower rate meets the gate at any
    /// evaluation is at most what the gate allows. It is computed exactly, evaluation by evaluation.
    pub fn rate(rate: Rate, most: u32) -> Option<Self> {
        let alpha = rate.alpha();
        rate.fewest().filter(|fewest| *fewest <= most)?;
        let (mut low, mut high) = (0.0, alpha);
        let boundary = |nominal: f64| {
            let mut passes = 0;
            let enough = (0..=most).map(|runs| match needed(runs, rate.at_least, nominal, passes) {
                Some(found) => {
                    passes = found;
                    Some(found)
                }
                None => None,
            });
            Self { enough: enough.collect() }
        };
        let whole = boundary(high);
        if whole.chance(rate.at_least) <= alpha {
            return Some(whole);
        }
        for _ in 0..40 {
            let middle = f64::midpoint(low, high);
            if boundary(middle).chance(rate.at_least) <= alpha { low = middle } else { high = middle }
        }
        Some(boundary(low)).filter(|found| found.enough.iter().any(Option::is_some))
    }

    /// Returns the maximum number of runs.
    pub fn most(&self) -> u32 {
        u32::try_from(self.enough.len().saturating_sub(1)).unwrap_or(u32::MAX)
    }

    /// Returns how many passes meet the gate at the last evaluation.
    pub fn last(&self) -> Option<u32> {
        self.enough.last().copied().flatten()
    }

    /// Returns whether the gate is met, or can no longer be met; `None` if it is undecided.
    pub fn decided(&self, passed: u32, runs: u32) -> Option<bool> {
        let rest = self.enough.get(runs as usize..).unwrap_or_default();
        match rest.first() {
            Some(Some(enough)) if passed >= *enough => Some(true),
            _ => {
                let mut later = (0..).zip(rest).skip(1);
                let reachable = later.any(|(more, enough): (u32, _)| enough.is_some_and(|e| passed + more >= e));
                if reachable { None } else { Some(false) }
            }
        }
    }

    /// Returns the probability that a task of this rate meets the gate.
    pub fn chance(&self, rate: f64) -> f64 {
        // Probabilities of not having met the gate so far, by the number of passes.
        let mut open = vec![1.0];
        let mut met = 0.0;
        for enough in self.enough.iter().skip(1) {
            let mut next = vec![0.0; open.len() + 1];
            for (passed, p) in open.iter().enumerate() {
                next[passed] += p * (1.0 - rate);
                next[passed + 1] += p * rate;
            }
            if let Some(enough) = enough {
                for p in next.iter_mut().skip(*enough as usize) {
                    met += *p;
                    *p = 0.0;
                }
            }
            open = next;
        }
        met
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn near(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-9, "{found} is not {expected}");
    }

    /// SciPy 1.17.1, `binomtest(passed, runs).proportion_ci(confidence, method='wilson')`.
    #[test]
    fn intervals_equal_those_of_scipy() {
        for (passed, runs, confidence, low, high) in [
            (1, 1, 0.95, 0.20654931437723745, 1.0),
            (0, 1, 0.95, 0.0, 0.7934506856227626),
            (5, 5, 0.95, 0.5655175352168251, 1.0),
            (19, 20, 0.95, 0.763868806553258, 0.9911185511992047),
            (20, 20, 0.95, 0.8388748419471808, 1.0),
            (0, 10, 0.95, 0.0, 0.27753279986288926),
            (7, 10, 0.9, 0.4416997958698351, 0.8731234160968021),
            (500, 1000, 0.99, 0.45940700521208483, 0.5405929947879151),
        ] {
            let found = wilson(passed, runs, confidence);
            near(found.low, low);
            near(found.high, high);
        }
        assert_eq!(wilson(0, 0, 0.95), Interval { low: 0.0, high: 1.0 });
        assert_eq!(wilson(1, 1, 0.95).to_string(), "20–100 %");
    }

    /// SciPy 1.17.1, `binomtest(min(b, c), b + c, 0.5).pvalue`.
    #[test]
    fn tests_of_pairs_equal_those_of_scipy() {
        for (one, other, p) in [
            (0, 0, 1.0),
            (1, 0, 1.0),
            (0, 5, 0.0625),
            (6, 0, 0.03125),
            (10, 1, 0.01171875),
            (10, 3, 0.09228515625),
            (3, 3, 1.0),
            (25, 40, 0.08168153394154003),
        ] {
            near(mcnemar(one, other), p);
        }
    }

    fn counts(passed: u32, runs: u32, other_passed: u32, other_runs: u32) -> Counts {
        Counts { passed, runs, other_passed, other_runs }
    }

    /// SciPy 1.17.1, `fisher_exact([[a, n - a], [b, m - b]]).pvalue`.
    #[test]
    fn tests_of_rates_equal_those_of_scipy() {
        for (a, n, b, m, p) in [
            (20, 20, 19, 20, 1.0),
            (20, 20, 9, 20, 0.00014530659691950015),
            (5, 5, 0, 5, 0.007936507936507938),
            (3, 3, 0, 3, 0.10000000000000002),
            (1, 1, 0, 1, 1.0),
            (8, 10, 3, 10, 0.06977851869492736),
            (10, 10, 10, 10, 1.0),
            (0, 4, 0, 9, 1.0),
            (50, 100, 70, 100, 0.005937341166015536),
            (3, 8, 4, 54, 0.039707492465292815),
            (7, 30, 2, 5, 0.5855306932157027),
        ] {
            near(counts(a, n, b, m).fisher(), p);
            near(counts(b, m, a, n).fisher(), p);
        }
    }

    /// By definition, without a search: the sum of all tables that are not more likely.
    #[test]
    fn p_values_of_small_tables_match_the_definition() {
        let choose = |n: u32, k: u32| (0..k).map(|i| f64::from(n - i) / f64::from(i + 1)).product::<f64>();
        for (n, m) in [(1, 1), (1, 7), (5, 5), (4, 9), (20, 3)] {
            for (a, b) in (0..=n).flat_map(|a| (0..=m).map(move |b| (a, b))) {
                let of = |a: u32| choose(n, a) * choose(m, (a + b).min(a + b) - a);
                let all = a + b;
                let weight = |x: u32| choose(n, x) * choose(m, all - x);
                let range = all.saturating_sub(m)..=all.min(n);
                let total: f64 = range.clone().map(weight).sum();
                let own = of(a);
                let sum: f64 = range.map(weight).filter(|w| *w <= own * (1.0 + 1e-7)).sum();
                let found = counts(a, n, b, m).fisher();
                assert!((found - sum / total).abs() < 1e-6, "{a}/{n} {b}/{m}: {found} is not {}", sum / total);
            }
        }
    }

    #[test]
    fn tasks_without_evidence_do_not_weaken_the_test() {
        let steady = counts(5, 5, 5, 5);
        let worse = counts(5, 5, 0, 5);
        let mut all = vec![steady; 50];
        all.push(worse);
        let found = differences(&all, 0.05);
        assert!(found[50].1 && found[..50].iter().all(|(p, shown)| *p == 1.0 && !shown));
        // Seven comparisons that can show a difference share the error: 0.0079 is more than a seventh of it.
        let found = differences(&[[worse].as_slice(), &[counts(4, 5, 1, 5); 6]].concat(), 0.05);
        assert!(!found[0].1, "{found:?}");
        assert!(differences(&[counts(20, 20, 19, 20)], 0.05) == [(1.0, false)]);
        assert!(differences(&[], 0.05).is_empty());
        // Holm: the second one is compared with the whole error, because the first one is significant.
        let found = differences(&[counts(20, 20, 2, 20), counts(20, 20, 14, 20)], 0.05);
        assert!(found[0].1 && found[1].1 && found[1].0 > 0.02, "{found:?}");
    }

    /// Python: `math.comb(c, k) / math.comb(n, k)`.
    #[test]
    fn estimates_for_several_runs_are_unbiased() {
        for (n, c, k, at, hat) in [
            (5, 3, 1, 0.6, 0.6),
            (5, 3, 2, 0.9, 0.3),
            (5, 3, 5, 1.0, 0.0),
            (10, 7, 3, 0.9916666666666667, 0.2916666666666667),
            (20, 1, 10, 0.5, 0.0),
            (100, 95, 10, 1.0, 0.583752366926152),
        ] {
            near(pass_at(n, c, k).unwrap(), at);
            near(pass_hat(n, c, k).unwrap(), hat);
        }
        assert_eq!((pass_at(3, 1, 4), pass_hat(3, 1, 0), pass_at(1, 2, 1)), (None, None, None));
    }

    /// SciPy 1.17.1: the fewest `c` with `binom.sf(c - 1, n, rate) <= 1 - confidence`, and the fewest `n` with that
    /// power.
    #[test]
    fn runs_and_passes_of_gates_equal_those_of_scipy() {
        let rate = |text: &str| text.parse::<Rate>().unwrap();
        for (gate, runs, passes) in [
            ("0.9@95%", 28, None),
            ("0.9@95%", 29, Some(29)),
            ("0.9", 45, Some(45)),
            ("90%@0.95", 46, Some(45)),
            ("0.9@95%", 100, Some(96)),
            ("0.5@95%", 20, Some(15)),
            ("0.8@90%", 10, None),
        ] {
            assert_eq!(rate(gate).needed(runs), passes, "{gate} in {runs}");
        }
        assert_eq!((rate("0.9@95%").fewest(), rate("0.5@95%").fewest()), (Some(29), Some(5)));
        for (gate, truly, power, runs, passes, likely) in [
            ("0.9@95%", 0.99, 0.8, 46, 45, 0.9224689547926131),
            ("0.9@95%", 0.95, 0.8, 179, 168, 0.8129406533471755),
            ("0.8@95%", 0.95, 0.8, 30, 28, 0.81217881314696),
            ("0.5@95%", 0.8, 0.9, 23, 16, 0.9284941648080485),
            ("0.9@95%", 0.98, 0.9, 76, 73, 0.93374341221502),
        ] {
            let (n, c, p) = rate(gate).planned(truly, power).unwrap();
            assert_eq!((n, c), (runs, passes), "{gate} with {truly}");
            near(p, likely);
        }
        assert_eq!(rate("0.9@95%").to_string(), "0.9@95%");
        for bad in ["", "1", "0@95%", "0.9@100%", "0.9@", "x@95%", "4/5", "NaN", "0.9999@99%", "-0.5"] {
            assert!(bad.parse::<Rate>().is_err(), "{bad}");
        }
    }

    #[test]
    fn repeated_checks_of_a_gate_keep_the_error_rate() {
        for (gate, most) in [("0.5@95%", 20), ("0.9@95%", 29), ("0.9@95%", 60), ("0.8@90%", 100), ("0.2@99%", 30)] {
            let rate: Rate = gate.parse().unwrap();
            let found = Sequential::rate(rate, most).unwrap();
            let error = found.chance(rate.at_least);
            assert!(error <= (1.0 - rate.confidence) * 1.000_001 && error > 0.0, "{gate} in {most}: {error}");
            assert!(found.chance(1.0) > 0.999_999 && found.most() == most);
            // For a lower rate, the probability is even smaller.
            assert!(found.chance(rate.at_least * 0.9) < error);
        }
        assert!(Sequential::rate("0.9@95%".parse().unwrap(), 28).is_none());
    }

    #[test]
    fn a_gate_is_decided_as_early_as_possible() {
        let gate = Sequential::passes(2, 3);
        assert_eq!([(0, 0), (1, 1), (0, 1), (1, 2)].map(|(p, n)| gate.decided(p, n)), [None; 4]);
        assert_eq!([(2, 2), (2, 3), (3, 3)].map(|(p, n)| gate.decided(p, n)), [Some(true); 3]);
        assert_eq!([(0, 2), (1, 3), (0, 3)].map(|(p, n)| gate.decided(p, n)), [Some(false); 3]);
        let gate = Sequential::rate("0.5@95%".parse().unwrap(), 20).unwrap();
        let first = (1..=20).find(|&n| gate.decided(n, n) == Some(true)).unwrap();
        assert!((5..10).contains(&first), "{first}");
        let lost = (1..=20).find(|&n| gate.decided(0, n) == Some(false)).unwrap();
        assert!(lost < 10, "{lost}");
    }
}
