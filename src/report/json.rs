//! `json`: the events, one per line.

use super::ReportFormat;

pub(super) const FORMAT: ReportFormat = ReportFormat {
    name: "json",
    summary: "events, one JSON object per line",
    make: |_| {
        Box::new(|event, _| {
            let line = serde_json::to_string(event).unwrap_or_default();
            line + "\n"
        })
    },
};
