//! Variables that the scripts of a task inherit from the environment of gevals, because nothing in the task sets them.

use std::collections::BTreeSet;

use indexmap::IndexMap;

use super::Model;
use crate::{
    bash::{self, tools::Tools},
    hir::{Def, Task},
    source::Span,
};

/// Variables of gevals' environment that the scripts of a task depend on.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Inherited {
    /// Variables that scripts name, each with the first place.
    pub scripts: IndexMap<String, Span>,
    /// Variables that programs read by default: `KUBECONFIG`.
    pub programs: BTreeSet<String>,
}

impl Model<'_> {
    /// The variables that scripts read and that neither they, their steps nor the task set.
    pub fn inherited(&self, task: &Task<Def>, tools: &Tools) -> Inherited {
        let mut found = Inherited::default();
        let declared = |name: &str| task.env.iter().any(|(known, _)| known.value == name);
        let mut read = |name: &str, span: Span| {
            if !is_own(name) && !declared(name) {
                found.scripts.entry(name.to_owned()).or_insert(span);
            }
        };
        self.foreign.iter().for_each(|(name, span)| read(name, *span));
        for trace in self.scripts.iter().map(|script| &script.trace) {
            // `A="${A:-x}"` reads the variable that it sets.
            let inherited = trace.unset.iter().filter(|read| read.provided || !trace.sets.contains(&read.name));
            inherited.for_each(|unset| read(&unset.name, unset.content.span(unset.range.clone())));
            trace.asked.iter().for_each(|(name, content, range)| read(name, content.span(range.clone())));
        }
        for trace in self.scripts.iter().map(|script| &script.trace) {
            let programs = trace.runs.iter().filter_map(|run| tools.tool(run.statement.name()));
            let looked =
                programs.flat_map(|tool| &tool.env).filter(|name| !trace.sets.contains(*name) && !declared(name));
            found.programs.extend(looked.cloned());
        }
        found
    }
}

/// Whether a variable is set by the shell, belongs to the machine, or is set by gevals.
fn is_own(name: &str) -> bool {
    const MACHINE: [&str; 10] = ["HOME", "PATH", "PWD", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "HOSTNAME", "IFS"];
    MACHINE.contains(&name) || bash::sets_by_itself(name)
}
