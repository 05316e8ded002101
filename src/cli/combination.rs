//! An agent with a model: each combination is a separate run with its own results.

use std::path::{Path, PathBuf};

use crate::{
    host::disk::Disk,
    source::{Files, Stat},
};

/// An agent and a model, if they are not the eval's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Combination {
    agent: Option<String>,
    model: Option<String>,
}

/// Every agent with every model; one combination if neither is specified.
pub fn combinations(agents: &[String], models: &[String]) -> Vec<Combination> {
    let or_none = |words: &[String]| match words {
        [] => vec![None],
        words => words.iter().cloned().map(Some).collect(),
    };
    let mut all = Vec::new();
    for agent in or_none(agents) {
        for model in or_none(models) {
            let one = Combination { agent: agent.clone(), model };
            if !all.contains(&one) {
                all.push(one);
            }
        }
    }
    all
}

impl Combination {
    /// Takes the names as on a command line.
    pub fn new(agent: Option<String>, model: Option<String>) -> Self {
        Self { agent, model }
    }

    /// The agent, as on the command line.
    pub fn agent(&self) -> Option<&str> {
        self.agent.as_deref()
    }

    /// The model, as on the command line.
    pub fn model(&self) -> Option<&str> {
        self.model.as_deref()
    }

    /// The name for people.
    pub fn name(&self) -> String {
        [&self.agent, &self.model].into_iter().flatten().map(String::as_str).collect::<Vec<_>>().join(" with ")
    }

    /// The directory of its results. A number distinguishes combinations that would have the same one. An agent is
    /// often named by its file, which may be in the same place: the directory never has the name of an existing file.
    pub fn folder(&self, nth: usize, all: &[Self], within: &Path) -> PathBuf {
        let slug = |one: &Self| {
            let name = one.name().replace(" with ", "+");
            let plain = |c: char| if c.is_ascii_alphanumeric() || "+-_.".contains(c) { c } else { '-' };
            name.chars().map(plain).collect::<String>().trim_matches(['-', '.']).to_owned()
        };
        let own = slug(self);
        let own =
            if all.iter().filter(|one| slug(one) == own).count() > 1 { format!("{own}-{}", nth + 1) } else { own };
        let free = |path: &PathBuf| matches!(Disk.stat(path), None | Some(Stat::Dir));
        let others = (1..).map(|n| format!("{own}-results{}", if n == 1 { String::new() } else { format!("-{n}") }));
        let mut names = std::iter::once(own.clone()).chain(others).map(|name| within.join(name));
        names.find(free).unwrap_or_else(|| within.join(&own))
    }
}
