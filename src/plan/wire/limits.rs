//! What agents may use.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;

use crate::hir::Bounds;

/// What agents may use; omitted keys have no limit.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LimitsDocument {
    /// The time limit in seconds; only for an eval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_time: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_cost: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tool_calls: Option<u64>,
}

pub(super) fn limits(bounds: &Bounds, time: Option<Duration>) -> Option<LimitsDocument> {
    (time.is_some() || !bounds.is_empty()).then(|| LimitsDocument {
        max_time: time.map(|t| t.as_secs_f64()),
        max_tokens: bounds.tokens,
        max_cost: bounds.cost,
        max_tool_calls: bounds.tool_calls,
    })
}
