//! A plan as JSON: the wire form, indented.

use super::{PlanFormat, View};
use crate::plan::wire;

pub const FORMAT: PlanFormat = PlanFormat { name: "json", summary: "the versioned form, schemas/plan.json", render };

fn render(view: &View<'_>) -> String {
    let mut text = serde_json::to_string_pretty(&wire::document(view.eval, view.plans)).unwrap_or_default();
    text.push('\n');
    text
}
