//! What assertions require of the agent's calls.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::hir::{Assertion, AssertionKind, CallKind, CallMatcher, CallStatus, Name, SkillMatcher};

/// An assertion about the agent's calls.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AssertionDocument {
    /// As in the eval: `toolsUsed`, `maxToolCalls`, …
    pub key: String,
    pub demand: Demand,
}

/// What is required of the agent's calls.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Demand {
    /// Every matcher matches a call.
    All(Matchers),
    /// At least one matcher matches a call.
    Any(Matchers),
    /// No matcher matches any call.
    None(Matchers),
    MinToolCalls(u64),
    MaxToolCalls(u64),
    CallOrder(Vec<OrderedCallDocument>),
    NoDuplicateCalls(bool),
    SkillsLoaded(Vec<SkillDocument>),
    SkillsNotLoaded(Vec<SkillDocument>),
}

/// Calls that an assertion requires or forbids.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Matchers {
    pub kind: CallKind,
    pub calls: Vec<MatcherDocument>,
}

/// Matches calls.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MatcherDocument {
    pub server: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    /// Each given key must be present with this value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<CallStatus>,
    /// In seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_duration: Option<f64>,
}

/// A call in `callOrder`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OrderedCallDocument {
    pub kind: CallKind,
    pub server: String,
    pub name: String,
}

/// Matches skills.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SkillDocument {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skill: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
}

pub(super) fn assertion_document(assertion: &Assertion) -> AssertionDocument {
    let matchers = |kind: CallKind, calls: &[CallMatcher]| Matchers {
        kind,
        calls: calls
            .iter()
            .map(|m| MatcherDocument {
                server: m.server.value.clone(),
                name: m.name.as_ref().map(|n| n.value.clone()),
                pattern: m.pattern.as_ref().map(|p| p.value.clone()),
                arguments: m.arguments.as_ref().map(|a| a.value.clone()),
                status: m.status.map(|s| s.value),
                max_duration: m.max_duration.map(|d| d.value.as_secs_f64()),
            })
            .collect(),
    };
    let skills = |skills: &[SkillMatcher]| {
        let text = |name: &Option<Name>| name.as_ref().map(|n| n.value.clone());
        skills.iter().map(|s| SkillDocument { skill: text(&s.skill), pattern: text(&s.pattern) }).collect()
    };
    let demand = match &assertion.kind {
        AssertionKind::AllUsed(kind, calls) => Demand::All(matchers(*kind, calls)),
        AssertionKind::AnyUsed(kind, calls) => Demand::Any(matchers(*kind, calls)),
        AssertionKind::NoneUsed(kind, calls) => Demand::None(matchers(*kind, calls)),
        AssertionKind::MinToolCalls(n) => Demand::MinToolCalls(*n),
        AssertionKind::MaxToolCalls(n) => Demand::MaxToolCalls(*n),
        AssertionKind::CallOrder(calls) => Demand::CallOrder(
            calls
                .iter()
                .map(|c| OrderedCallDocument {
                    kind: c.kind,
                    server: c.server.value.clone(),
                    name: c.name.value.clone(),
                })
                .collect(),
        ),
        AssertionKind::NoDuplicateCalls(on) => Demand::NoDuplicateCalls(*on),
        AssertionKind::SkillsLoaded(list) => Demand::SkillsLoaded(skills(list)),
        AssertionKind::SkillsNotLoaded(list) => Demand::SkillsNotLoaded(skills(list)),
    };
    AssertionDocument { key: assertion.key.value.clone(), demand }
}
