//! Which tasks of an eval are run, and in which order.

use std::{fmt, str::FromStr, time::Duration};

use indexmap::{IndexMap, IndexSet};
use regex::Regex;

use crate::{
    plan::{EvalPlan, PlannedTask},
    statistics::{self, Rate, Sequential},
};

/// What the command line selects; the default is all tasks, in the order of the plan.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Matched against task names, unanchored.
    pub name: Option<Regex>,
    pub labels: Labels,
    pub shard: Option<Shard>,
    /// The seed of a random order.
    pub shuffle: Option<u64>,
    /// Runs of tasks of a pack; if there are any, only these are run.
    pub units: Vec<Chosen>,
    /// When to stop starting further units.
    pub enough: Option<Enough>,
}

/// The limits after which no further unit is started; the first one always is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Enough {
    /// The total time of the units.
    pub time: Duration,
    /// The total size of the units in the journal, in bytes.
    pub bytes: u64,
}

/// A unit of a pack.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Chosen {
    pub id: String,
    /// The digest of the pack.
    pub pack: String,
    /// The index of the task in the plan.
    pub index: usize,
    /// Counted from 0.
    pub run: u32,
}

impl Selection {
    /// Whether a task matches, in any shard.
    fn means(&self, plan: &EvalPlan, index: usize) -> bool {
        let task = &plan.tasks[index].task;
        self.name.as_ref().is_none_or(|name| name.is_match(&task.name.value)) && self.labels.of(task)
    }

    /// The plan indexes of all tasks that match, in all shards, in the order of the plan.
    pub fn all(&self, plan: &EvalPlan) -> Vec<usize> {
        (0..plan.tasks.len()).filter(|&index| self.means(plan, index)).collect()
    }

    /// The plan indexes of the tasks to run, in the order in which they run.
    ///
    /// Property: *every task that matches is in exactly one shard of a division.*
    pub fn of(&self, plan: &EvalPlan) -> Vec<usize> {
        if !self.units.is_empty() {
            let tasks: IndexSet<_> = self.units.iter().map(|unit| unit.index).collect();
            return tasks.into_iter().filter(|index| *index < plan.tasks.len()).collect();
        }
        let mut chosen = self.all(plan);
        if let Some(Shard { index, of }) = self.shard {
            let mine = |place: usize| place % of as usize == index as usize - 1;
            chosen = chosen.into_iter().enumerate().filter(|(place, _)| mine(*place)).map(|(_, task)| task).collect();
        }
        if let Some(seed) = self.shuffle {
            fastrand::Rng::with_seed(seed).shuffle(&mut chosen);
        }
        chosen
    }

    /// Whether a run of a task, counted from 0, is to be run.
    pub fn has(&self, index: usize, run: u32) -> bool {
        self.units.is_empty() || self.units.iter().any(|unit| (unit.index, unit.run) == (index, run))
    }

    /// How many runs of a task are selected units; `None` if no units are selected.
    pub fn units_of(&self, index: usize) -> Option<u32> {
        let of = || self.units.iter().filter(|unit| unit.index == index).count() as u32;
        (!self.units.is_empty()).then(of)
    }

    /// Explains why no task was selected.
    pub fn nothing(&self, plan: &EvalPlan) -> String {
        let among = |labels: &Labels| plan.tasks.iter().any(|t| labels.of(&t.task));
        match (&self.name, self.labels.is_empty()) {
            _ if plan.tasks.is_empty() => "the eval selects no tasks".to_owned(),
            (Some(name), true) => format!("no task name matches `{name}`"),
            (None, _) => format!("no task has {}", self.labels.shown()),
            (Some(_), false) if !among(&self.labels) => format!("no task has {}", self.labels.shown()),
            (Some(name), false) => format!("no task whose name matches `{name}` has {}", self.labels.shown()),
        }
    }
}

/// `key=value,key=value`: any of the values of one key, and all of the keys (§2.7 of the upstream behaviour). The key
/// `tag` also matches `metadata.tags`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Labels(IndexMap<String, Vec<String>>);

/// The label key that also matches tags.
const TAG: &str = "tag";

impl Labels {
    /// Whether it matches all tasks.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Matches tasks with any of these tags.
    pub fn tagged(tags: &[String]) -> Self {
        let tags = (TAG.to_owned(), tags.to_vec());
        Self(Some(tags).filter(|(_, tags)| !tags.is_empty()).into_iter().collect())
    }

    /// A description for people, in the words of the options: the labels and the tags that are required.
    fn shown(&self) -> String {
        let (tags, labels): (Vec<_>, Vec<_>) = self.0.iter().partition(|(key, _)| *key == TAG);
        let values = |found: &[(&String, &Vec<String>)], key: bool| -> Vec<String> {
            let pairs = found.iter().flat_map(|(name, values)| values.iter().map(move |value| (name, value)));
            pairs.map(|(name, value)| if key { format!("`{name}={value}`") } else { format!("`{value}`") }).collect()
        };
        let (labels, tags) = (values(&labels, true), values(&tags, false));
        let named = |one: &str, found: &[String]| match found {
            [] => None,
            [value] => Some(format!("the {one} {value}")),
            several => Some(format!("the {one}s {}", several.join(", "))),
        };
        let all: Vec<String> = [named("label", &labels), named("tag", &tags)].into_iter().flatten().collect();
        all.join(" and ")
    }

    fn of(&self, task: &PlannedTask) -> bool {
        self.match_all(&task.labels, &task.tags)
    }

    fn match_all(&self, labels: &IndexMap<String, String>, tags: &[String]) -> bool {
        self.0.iter().all(|(key, values)| {
            let tagged = key == TAG && values.iter().any(|value| tags.contains(value));
            tagged || labels.get(key).is_some_and(|value| values.contains(value))
        })
    }

    /// Adds further labels: another value of the same key widens the selection, another key narrows it.
    pub fn and(mut self, other: Self) -> Self {
        for (key, values) in other.0 {
            let known = self.0.entry(key).or_default();
            known.extend(values.into_iter().filter(|v| !known.contains(v)).collect::<Vec<_>>());
        }
        self
    }
}

impl FromStr for Labels {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut out = Self::default();
        for pair in text.split(',').filter(|_| !text.trim().is_empty()) {
            let (key, value) = pair.split_once('=').map_or((pair.trim(), ""), |(k, v)| (k.trim(), v.trim()));
            if key.is_empty() || value.is_empty() {
                return Err(format!("`{}` is not `key=value`", pair.trim()));
            }
            let values = out.0.entry(key.to_owned()).or_default();
            if !values.iter().any(|v| v == value) {
                values.push(value.to_owned());
            }
        }
        Ok(out)
    }
}

impl fmt::Display for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pairs = self.0.iter().flat_map(|(key, values)| values.iter().map(move |v| format!("{key}={v}")));
        f.write_str(&pairs.collect::<Vec<_>>().join(","))
    }
}

/// `i/n`: the i-th of n parts, counted from 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shard {
    pub index: u32,
    pub of: u32,
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once('/').and_then(|(i, n)| Some((i.trim().parse().ok()?, n.trim().parse().ok()?)));
        match parts {
            Some((index, of)) if 1 <= index && index <= of => Ok(Self { index, of }),
            Some((_, 0)) => Err("the number of shards must not be 0".to_owned()),
            Some((_, of)) => Err(format!("shards are numbered from 1: write `1/{of}` to `{of}/{of}`")),
            None => Err("write `I/N`, such as `1/3` for the first of three".to_owned()),
        }
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.of)
    }
}

/// `p/n`: each task is run n times, and p of its runs must pass.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gate {
    pub passes: u32,
    pub of: u32,
}

impl FromStr for Gate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once('/').and_then(|(p, n)| Some((p.trim().parse().ok()?, n.trim().parse().ok()?)));
        match parts {
            Some((passes, of)) if 1 <= passes && passes <= of => Ok(Self { passes, of }),
            Some((0, _)) => Err("a gate must require at least one passing run".to_owned()),
            Some(_) => Err("a gate cannot require more passes than runs".to_owned()),
            None => Err("write `P/N`, such as `4/5` for four passes of five runs".to_owned()),
        }
    }
}

/// What `--gate` demands of each task: a number of passes out of a number of runs, or a rate that its runs show.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Demand {
    Passes(Gate),
    Rate(Rate),
}

impl FromStr for Demand {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match (text.contains('/'), text.contains(['@', '.', '%'])) {
            (true, _) => text.parse().map(Self::Passes),
            (false, true) => text.parse().map(Self::Rate),
            (false, false) => {
                Err("write `P/N`, such as `4/5` for four passes of five runs, or a rate and a confidence, such as \
                     `0.9@95%`"
                    .to_owned())
            }
        }
    }
}

impl Demand {
    /// Returns how many runs must pass out of how many; `runs` is how often each task is run, if set.
    ///
    /// # Errors
    /// That many runs cannot meet the demand, or `runs` contradicts the gate.
    pub fn gate(self, runs: Option<u32>) -> Result<Gate, String> {
        match (self, runs) {
            (Self::Passes(gate), Some(runs)) if runs != gate.of => {
                Err(format!("`--gate {}/{}` and `--runs` both set the number of runs", gate.passes, gate.of))
            }
            (Self::Passes(gate), _) => Ok(gate),
            (Self::Rate(rate), runs) => {
                let of = runs.or(rate.fewest()).unwrap_or(1);
                rate.needed(of).map(|passes| Gate { passes, of }).ok_or_else(|| too_few(rate, of))
            }
        }
    }

    /// The same demand for runs that stop as soon as it is decided.
    ///
    /// # Errors
    /// The demand cannot be met with at most `most` runs.
    pub fn until_decided(self, most: Option<u32>) -> Result<Sequential, String> {
        match self {
            Self::Passes(_) => self.gate(most).map(|gate| Sequential::passes(gate.passes, gate.of)),
            Self::Rate(rate) => {
                let Some(most) = most else {
                    return Err("set the maximum number of runs with `--max-runs`".to_owned());
                };
                Sequential::rate(rate, most).ok_or_else(|| too_few(rate, most))
            }
        }
    }
}

fn too_few(rate: Rate, runs: u32) -> String {
    let fewest = rate.fewest().unwrap_or(statistics::MOST_RUNS);
    format!("{runs} runs cannot show the gate `{rate}`, even if all of them pass: at least {fewest} are needed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_demand_is_a_number_of_passes_or_a_rate() {
        let gate = |text: &str, runs| text.parse::<Demand>().and_then(|demand| demand.gate(runs));
        assert_eq!(gate("4/5", None), Ok(Gate { passes: 4, of: 5 }));
        assert_eq!(gate("0.9@95%", None), Ok(Gate { passes: 29, of: 29 }));
        assert_eq!(gate("90%", Some(46)), Ok(Gate { passes: 45, of: 46 }));
        for (text, runs, said) in [
            ("0.9@95%", Some(20), "at least 29 are needed"),
            ("4/5", Some(6), "--runs"),
            ("1", None, "P/N"),
            ("x@y", None, "such as `0.9@95%`"),
            ("4/3", None, "cannot require more passes than runs"),
        ] {
            assert!(gate(text, runs).is_err_and(|why| why.contains(said)), "{text}");
        }
        let until = |text: &str, most| text.parse::<Demand>().and_then(|demand| demand.until_decided(most));
        assert_eq!(until("2/3", None), Ok(Sequential::passes(2, 3)));
        assert!(until("0.5@95%", Some(20)).is_ok());
        assert!(until("0.5@95%", None).is_err_and(|why| why.contains("--max-runs")));
        assert!(until("0.5@95%", Some(4)).is_err_and(|why| why.contains("at least 5 are needed")));
    }

    fn labels(text: &str) -> Labels {
        text.parse().unwrap()
    }

    #[test]
    fn labels_are_parsed_as_in_upstream() {
        let task = |pairs: &[(&str, &str)]| pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let core = task(&[("suite", "core"), ("os", "linux")]);
        for (text, matches) in [
            ("", true),
            ("suite=core", true),
            (" suite = core , os=linux ", true),
            ("suite=core,suite=net", true),
            ("suite=net,suite=core,os=mac", false),
            ("suite=net", false),
            ("Suite=core", false),
            ("other=x", false),
        ] {
            assert_eq!(labels(text).match_all(&core, &[]), matches, "{text}");
        }
        assert!(!labels("suite=core").match_all(&IndexMap::new(), &["core".to_owned()]));
        for (text, matches) in
            [("tag=smoke", true), ("tag=slow,tag=smoke", true), ("tag=slow", false), ("tag=smoke,os=mac", false)]
        {
            assert_eq!(labels(text).match_all(&core, &["net".to_owned(), "smoke".to_owned()]), matches, "{text}");
        }
        assert!(labels("tag=a").match_all(&task(&[("tag", "a")]), &[]), "a label of this name");
        assert_eq!(Labels::tagged(&["a".to_owned(), "b".to_owned()]), labels("tag=a,tag=b"));
        assert_eq!(labels("a=b=c,a=b=c").to_string(), "a=b=c");
        assert_eq!(labels("a=1").and(labels("a=2,b=3")).to_string(), "a=1,a=2,b=3");
        for bad in ["a", "=a", "a=", "a=1,", ",", "a=1,,b=2"] {
            assert!(bad.parse::<Labels>().is_err(), "{bad}");
        }
    }

    #[test]
    fn gates_let_some_runs_fail() {
        assert_eq!("4/5".parse(), Ok(Gate { passes: 4, of: 5 }));
        for bad in ["0/3", "4/3", "0/0", "1", "80%"] {
            assert!(bad.parse::<Gate>().is_err(), "{bad}");
        }
    }

    #[test]
    fn shards_are_numbered_from_one() {
        assert_eq!("2/3".parse(), Ok(Shard { index: 2, of: 3 }));
        for bad in ["0/3", "4/3", "1/0", "1", "a/b", "-1/3", "1/3/4", "", "1/99999999999"] {
            assert!(bad.parse::<Shard>().is_err(), "{bad}");
        }
    }
}
