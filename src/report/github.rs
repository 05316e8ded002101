//! `github`: the text, and an annotation for each check that did not pass, at the line of the check.

use super::{ReportFormat, text::Text};
use crate::{ci, diagnostic::annotation, event::EventKind};

pub(super) const FORMAT: ReportFormat = ReportFormat {
    name: "github",
    summary: "text, and annotations for GitHub Actions",
    make: |input| {
        let mut text = Text::new(input);
        Box::new(move |event, written| {
            // The text contains output of tools and agents, which must not be read as workflow commands.
            let mut out = ci::harmless(&text.take(event, written)).into_owned();
            if matches!(event.kind, EventKind::RunFinished { .. }) {
                for failure in text.failures() {
                    out += &annotation("error", &failure.path, failure.line, &failure.title, &failure.message);
                }
                for (severity, remark) in text.annotated_remarks() {
                    out += &annotation(severity, &remark.path, remark.line, &remark.title, &remark.message);
                }
            }
            out
        })
    },
};
