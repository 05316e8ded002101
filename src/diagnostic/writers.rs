//! The output formats for findings. To add one, add a function here, a line in [`WRITERS`], and a test.

use std::{collections::BTreeMap, fmt::Write};

use super::{
    Diagnostic, Pretty, Strength, concise,
    pretty::{also, errors_first},
    print, report,
    sarif::sarif,
};
use crate::{ci, source::Sources};

/// One output format for findings.
#[derive(Debug)]
pub struct Writer {
    pub name: &'static str,
    pub summary: &'static str,
    /// Whether nothing else may be written to standard output, and nothing is left out.
    pub machine: bool,
    pub write: fn(&[Diagnostic], &Sources, usize, &Pretty) -> String,
}

/// Every format of `gevals check --format`, the default first.
pub const WRITERS: &[Writer] = &[
    Writer { name: "pretty", summary: "with the source underlined", machine: false, write: pretty },
    Writer { name: "concise", summary: "one line per finding", machine: false, write: lines },
    Writer { name: "json", summary: "one JSON document (`gevals schema diagnostic`)", machine: true, write: document },
    Writer { name: "sarif", summary: "SARIF 2.1.0, for code scanning", machine: true, write: sarif },
    Writer { name: "github", summary: "annotations of GitHub Actions", machine: true, write: github },
    Writer { name: "junit", summary: "JUnit XML, one case per file", machine: true, write: junit },
];

fn pretty(found: &[Diagnostic], sources: &Sources, _: usize, style: &Pretty) -> String {
    let mut out = String::new();
    let _ = print(found, sources, style, &mut out);
    out
}

fn lines(found: &[Diagnostic], sources: &Sources, _: usize, style: &Pretty) -> String {
    let mut out = String::new();
    let _ = concise(found, sources, style, &mut out);
    out
}

fn document(found: &[Diagnostic], sources: &Sources, files: usize, _: &Pretty) -> String {
    let mut text = serde_json::to_string(&report(found, sources, files)).unwrap_or_default();
    text.push('\n');
    text
}

/// Escapes text after `::` in a GitHub Actions command. Other runners may read it as well.
fn data(text: &str) -> String {
    ci::harmless(text).replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

/// A GitHub Actions annotation at a line.
pub fn annotation(level: &str, path: &str, line: usize, title: &str, message: &str) -> String {
    format!("::{level} file={},line={line},title={}::{}\n", property(path), property(title), data(message))
}

fn github(found: &[Diagnostic], sources: &Sources, _: usize, _: &Pretty) -> String {
    let mut out = String::new();
    // GitHub shows the first ten annotations of each level, so errors come first.
    let found: Vec<_> = errors_first(found).into_iter().cloned().collect();
    for (d, f) in found.iter().zip(report(&found, sources, 0).diagnostics) {
        let level = match d.strength {
            Strength::Hard | Strength::Verdict => "error",
            Strength::Warning => "warning",
            Strength::Note => "notice",
        };
        let help = f.help.map(|h| format!("\nhelp: {h}")).unwrap_or_default();
        let also = also(d, sources, None).map(|also| format!("\n{also}")).unwrap_or_default();
        let _ = writeln!(
            out,
            "::{level} file={},line={},col={},endLine={},endColumn={},title={}::{}",
            property(&f.path),
            f.line,
            f.column,
            f.end_line,
            f.end_column,
            property(d.rule.name),
            data(&format!("{}{help}{also}", f.message)),
        );
    }
    out
}

fn junit(found: &[Diagnostic], sources: &Sources, _: usize, _: &Pretty) -> String {
    use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};
    let mut report_xml = Report::new("gevals check");
    let mut suites: BTreeMap<String, TestSuite> = BTreeMap::new();
    for (d, f) in found.iter().zip(report(found, sources, 0).diagnostics) {
        let mut status = match d.strength.is_error() {
            true => TestCaseStatus::non_success(NonSuccessKind::Failure),
            false => TestCaseStatus::success(),
        };
        let also = also(d, sources, None).map(|also| format!("\n{also}")).unwrap_or_default();
        let text = format!("{}:{}:{}: {}{also}", f.path, f.line, f.column, f.message);
        if d.strength.is_error() {
            status.set_type(d.rule.name).set_message(&f.message).set_description(&text);
        }
        let mut case = TestCase::new(format!("{} at {}:{}", d.rule.name, f.line, f.column), status);
        if !d.strength.is_error() {
            case.set_system_out(text);
        }
        suites.entry(f.path.clone()).or_insert_with(|| TestSuite::new(f.path.clone())).add_test_case(case);
    }
    report_xml.add_test_suites(suites.into_values());
    report_xml.to_string().unwrap_or_default()
}
