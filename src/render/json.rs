//! Plans as JSON: the wire form, indented. Always one document.

use super::{PlanFormat, View};
use crate::plan::wire;

pub const FORMAT: PlanFormat = PlanFormat { name: "json", summary: "the versioned form, schemas/plan.json", render };

fn render(views: &[View<'_>]) -> String {
    let document = wire::document(views.iter().map(|view| (view.eval, view.plans)));
    let mut text = serde_json::to_string_pretty(&document).unwrap_or_default();
    text.push('\n');
    text
}
