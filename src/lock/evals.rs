//! A server's evals as they were when they were locked: digests, which show what has changed and reveal no content.

use std::collections::{BTreeMap, BTreeSet};

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use crate::{
    primitive::{Eval, Level},
    ty::canonical,
};

/// The evals of a server, as it listed them when they were locked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LockedEvals {
    /// Of the server, as it reports it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// By their ids.
    #[serde(default)]
    pub evals: IndexMap<String, LockedEval>,
}

/// An eval, without its content.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LockedEval {
    pub level: String,
    pub grading: String,
    /// The tool that it calls, or that it expects to be called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// Of its canonical JSON (RFC 8785).
    pub digest: String,
    /// Digests of its `input` alone, and of what is `expected`.
    pub input: String,
    pub expected: String,
}

/// How the evals of a server have changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EvalChanges {
    pub changed: Vec<ChangedEval>,
    pub renamed: Vec<RenamedEval>,
    pub added: Vec<String>,
    pub removed: Vec<String>,
    /// Tools that had an eval, and have none now.
    pub tools_without_evals: Vec<String>,
}

/// An eval that has changed, with the same id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ChangedEval {
    pub id: String,
    /// Which of its parts have changed: `input`, `expected`, `gradingType`; `name` stands for all others, which decide nothing.
    pub parts: Vec<&'static str>,
    /// Both levels, if the level has changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub level: Option<ChangedLevel>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChangedLevel {
    pub from: String,
    pub to: String,
}

/// An eval that asks and expects the same as an earlier one, with another id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RenamedEval {
    pub from: String,
    pub to: String,
}

impl LockedEvals {
    /// Locks evals that a server of this version ships.
    pub fn of<'e>(version: &str, evals: impl IntoIterator<Item = &'e Eval>) -> Self {
        let locked = |eval: &Eval| LockedEval {
            level: eval.level().to_string(),
            grading: eval.grading.value.to_string(),
            tool: eval.tool().map(str::to_owned),
            digest: eval.digest(),
            input: canonical::digest(&eval.json.get("input")),
            expected: canonical::digest(&eval.json.get("expected")),
        };
        let evals = evals.into_iter().map(|eval| (eval.id.value.clone(), locked(eval)));
        Self { version: version.to_owned(), evals: evals.collect() }
    }

    /// The evals of one level, or all.
    pub fn at(&self, level: Option<Level>) -> Self {
        let is_it = |eval: &LockedEval| level.is_none_or(|level| level.name() == eval.level);
        let evals = self.evals.iter().filter(|(_, eval)| is_it(eval)).map(|(id, eval)| (id.clone(), eval.clone()));
        Self { version: self.version.clone(), evals: evals.collect() }
    }

    /// What is different in `now`.
    pub fn changes(&self, now: &Self) -> EvalChanges {
        let mut changes = EvalChanges::default();
        let mut gone: Vec<&str> = Vec::new();
        for (id, was) in &self.evals {
            match now.evals.get(id) {
                None => gone.push(id),
                Some(is) if is.digest != was.digest => changes.changed.push(was.changed(id, is)),
                Some(_) => {}
            }
        }
        // An eval that asks and expects the same is the same eval. Of several equal ones, the first is paired with the first.
        let mut fresh: BTreeMap<[&str; 3], Vec<&str>> = BTreeMap::new();
        for (id, is) in now.evals.iter().filter(|(id, _)| !self.evals.contains_key(*id)).rev() {
            fresh.entry(is.content()).or_default().push(id);
        }
        let mut taken = BTreeSet::new();
        for from in gone {
            match fresh.get_mut(&self.evals[from].content()).and_then(Vec::pop) {
                Some(to) => {
                    taken.insert(to);
                    changes.renamed.push(RenamedEval { from: from.to_owned(), to: to.to_owned() });
                }
                None => changes.removed.push(from.to_owned()),
            }
        }
        let is_added = |id: &&String| !self.evals.contains_key(*id) && !taken.contains(id.as_str());
        changes.added = now.evals.keys().filter(is_added).cloned().collect();
        let remaining = now.tools();
        changes.tools_without_evals = self.tools().difference(&remaining).map(|tool| (*tool).to_owned()).collect();
        changes
    }

    /// The tools that some eval names.
    fn tools(&self) -> BTreeSet<&str> {
        self.evals.values().filter_map(|eval| eval.tool.as_deref()).collect()
    }
}

impl LockedEval {
    /// What identifies an eval, whatever its id.
    fn content(&self) -> [&str; 3] {
        [&self.grading, &self.input, &self.expected]
    }

    fn changed(&self, id: &str, now: &Self) -> ChangedEval {
        let parts = [
            ("input", self.input != now.input),
            ("expected", self.expected != now.expected),
            ("gradingType", self.grading != now.grading),
        ];
        let mut parts: Vec<&str> = parts.into_iter().filter(|(_, differs)| *differs).map(|(part, _)| part).collect();
        if parts.is_empty() {
            parts.push("name");
        }
        let level = (self.level != now.level).then(|| ChangedLevel { from: self.level.clone(), to: now.level.clone() });
        ChangedEval { id: id.to_owned(), parts, level }
    }
}

impl EvalChanges {
    /// Whether there are no changes.
    pub fn is_empty(&self) -> bool {
        self == &Self::default()
    }

    /// How many evals have changed.
    pub fn len(&self) -> usize {
        self.changed.len() + self.renamed.len() + self.added.len() + self.removed.len()
    }

    /// One line per change.
    pub fn lines(&self) -> Vec<String> {
        let changed = self.changed.iter().map(|changed| {
            let level = changed.level.as_ref().map(|level| format!("; level {} (was {})", level.to, level.from));
            let parts = changed.parts.iter().map(|part| format!("`{part}`")).collect::<Vec<_>>().join(" and ");
            format!("changed: `{}`: {parts}{}", changed.id, level.unwrap_or_default())
        });
        let renamed = self.renamed.iter().map(|renamed| format!("renamed: `{}` to `{}`", renamed.from, renamed.to));
        let added = self.added.iter().map(|id| format!("added: `{id}`"));
        let removed = self.removed.iter().map(|id| format!("removed: `{id}`"));
        let tools = self.tools_without_evals.iter().map(|tool| format!("the tool `{tool}` no longer has any evals"));
        changed.chain(renamed).chain(added).chain(removed).chain(tools).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{diagnostic::Diagnostics, primitive, source::Sources, yaml};

    fn locked(evals: serde_json::Value) -> LockedEvals {
        let text = json!({ "evals": evals }).to_string();
        let (sources, mut out) = (Sources::default(), Diagnostics::default());
        let file = sources.add("evals.json", text.as_str());
        let document = primitive::file(yaml::parse(file, text, &mut out).unwrap(), &mut out);
        assert!(!out.has_hard());
        LockedEvals::of("1", &document.evals)
    }

    fn eval(id: &str, tool: &str, content: &str) -> serde_json::Value {
        json!({
            "id": id, "name": "N", "gradingType": "exact-match",
            "input": {"type": "execution", "toolName": tool, "arguments": {}},
            "expected": {"type": "exact-match", "content": content},
        })
    }

    #[test]
    fn every_kind_of_change_is_distinguished() {
        let mut invocation = eval("level", "a", "x");
        invocation["input"] = json!({"type": "invocation", "messages": [
            {"role": "user", "content": {"type": "text", "text": "Do."}}]});
        invocation["expected"] = json!({"type": "exact-match", "toolName": "a"});
        let mut named = eval("name", "a", "n");
        let then = locked(json!([
            eval("same", "a", "s"),
            eval("expected", "a", "1"),
            eval("input", "b", "i"),
            named,
            eval("level", "a", "x"),
            eval("old", "c", "r"),
            eval("removed", "d", "g"),
        ]));
        named["name"] = "M".into();
        let now = locked(json!([
            eval("same", "a", "s"),
            eval("expected", "a", "2"),
            eval("input", "a", "i"),
            named,
            invocation,
            eval("new", "c", "r"),
            eval("added", "a", "z"),
        ]));
        assert!(then.changes(&then).is_empty() && !then.changes(&now).is_empty());
        assert_eq!(
            then.changes(&now).lines(),
            [
                "changed: `expected`: `expected`",
                "changed: `input`: `input`",
                "changed: `name`: `name`",
                "changed: `level`: `input` and `expected`; level invocation (was execution)",
                "renamed: `old` to `new`",
                "added: `added`",
                "removed: `removed`",
                "the tool `b` no longer has any evals",
                "the tool `d` no longer has any evals",
            ]
        );
        // Only digests are stored, and they can be read back.
        let text = crate::yaml::write(&now).unwrap();
        assert!(!text.contains("Do."), "{text}");
        assert_eq!(serde_yaml::from_str::<LockedEvals>(&text).unwrap(), now);
        let at = now.at(Some(Level::Invocation));
        assert_eq!(at.evals.keys().collect::<Vec<_>>(), ["level"]);
    }

    #[test]
    fn identical_evals_are_matched_one_to_one_when_renamed() {
        let then = locked(json!([eval("a", "t", "x"), eval("b", "t", "x")]));
        let now = locked(json!([eval("c", "t", "x")]));
        assert_eq!(then.changes(&now).lines(), ["renamed: `a` to `c`", "removed: `b`"]);
    }
}
