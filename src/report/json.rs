//! `json`: the events, one per line.

use super::ReportFormat;

pub(super) const FORMAT: ReportFormat = ReportFormat {
    name: "json",
    summary: "the events, one JSON object a line",
    make: |_| {
        Box::new(|event, _| {
            let line = serde_json::to_string(event).unwrap_or_default();
            line + "\n"
        })
    },
};
