//! The ways in which findings are written. Adding one is a function here, a line in [`WRITERS`], and a test.

use std::{collections::BTreeMap, fmt::Write};

use serde_json::{Value, json};

use super::{
    Diagnostic, Pretty, Strength, concise,
    pretty::{also, errors_first},
    print, report,
};
use crate::{ci, source::Sources};

/// One way to write findings.
#[derive(Debug)]
pub struct Writer {
    pub name: &'static str,
    pub summary: &'static str,
    /// Nothing else may stand on standard output, and nothing is left out.
    pub machine: bool,
    pub write: fn(&[Diagnostic], &Sources, usize, &Pretty) -> String,
}

/// Every format of `gevals check --format`, the default first.
pub const WRITERS: &[Writer] = &[
    Writer { name: "pretty", summary: "with the source underlined", machine: false, write: pretty },
    Writer { name: "concise", summary: "one line a finding", machine: false, write: lines },
    Writer { name: "json", summary: "one JSON document (`gevals schema diagnostic`)", machine: true, write: document },
    Writer { name: "sarif", summary: "SARIF 2.1.0, for code scanning", machine: true, write: sarif },
    Writer { name: "github", summary: "annotations of GitHub Actions", machine: true, write: github },
    Writer { name: "junit", summary: "JUnit XML, a case a file", machine: true, write: junit },
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

fn sarif(found: &[Diagnostic], sources: &Sources, _: usize, _: &Pretty) -> String {
    let level = |s: Strength| match s {
        Strength::Hard | Strength::Verdict => "error",
        Strength::Warning => "warning",
        Strength::Note => "note",
    };
    let mut rules: BTreeMap<&str, Value> = BTreeMap::new();
    for d in found {
        rules.entry(d.rule.name).or_insert_with(|| {
            json!({
                "id": d.rule.name,
                "shortDescription": { "text": d.rule.summary() },
                "help": { "text": d.rule.page, "markdown": d.rule.page },
                "defaultConfiguration": { "level": level(d.rule.strength) },
            })
        });
    }
    let index: BTreeMap<&str, usize> = rules.keys().enumerate().map(|(i, k)| (*k, i)).collect();
    let location = |path: &str, line, column, end_line, end_column, text: Option<&str>| {
        let mut location = json!({
            "physicalLocation": {
                "artifactLocation": { "uri": uri(path) },
                "region": { "startLine": line, "startColumn": column, "endLine": end_line, "endColumn": end_column },
            },
        });
        if let Some(text) = text {
            location["message"] = json!({ "text": text });
        }
        location
    };
    let data = report(found, sources, 0);
    let results: Vec<Value> = found
        .iter()
        .zip(&data.diagnostics)
        .map(|(d, f)| {
            let text = match &f.help {
                Some(help) => format!("{}; {help}", f.message),
                None => f.message.clone(),
            };
            let related = f
                .labels
                .iter()
                .map(|l| location(&l.path, l.line, l.column, l.end_line, l.end_column, Some(&l.message)));
            // SARIF's `locations` are places that must all be changed to mend one fault.
            let again = f
                .places
                .iter()
                .map(|p| location(&p.path, p.line, p.column, p.end_line, p.end_column, Some("here, too")));
            let mut result = json!({
                "ruleId": d.rule.name,
                "ruleIndex": index[d.rule.name],
                "level": level(d.strength),
                "message": { "text": text },
                "locations": [location(&f.path, f.line, f.column, f.end_line, f.end_column, None)],
                "relatedLocations": related.chain(again).collect::<Vec<_>>(),
            });
            if let Some(fix) = &f.fix {
                result["properties"] =
                    json!({ "fix": { "description": fix.description, "applicability": fix.applicability } });
            }
            result
        })
        .collect();
    let log = json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "columnKind": "unicodeCodePoints",
            "tool": { "driver": {
                "name": "gevals",
                "version": env!("CARGO_PKG_VERSION"),
                "rules": rules.into_values().collect::<Vec<_>>(),
            } },
            "results": results,
        }],
    });
    format!("{log:#}\n")
}

/// A relative path as a URI: separators forward, odd characters escaped.
fn uri(path: &str) -> String {
    let keep = |b: u8| b.is_ascii_alphanumeric() || b"-._~/".contains(&b);
    let path = path.replace('\\', "/");
    path.trim_start_matches("./")
        .bytes()
        .map(|b| if keep(b) { char::from(b).to_string() } else { format!("%{b:02X}") })
        .collect()
}

/// Text behind `::` in a command of GitHub Actions. Other runners may read it, too.
fn data(text: &str) -> String {
    ci::harmless(text).replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

/// An annotation of GitHub Actions at a line.
pub fn annotation(level: &str, path: &str, line: usize, title: &str, message: &str) -> String {
    format!("::{level} file={},line={line},title={}::{}\n", property(path), property(title), data(message))
}

fn github(found: &[Diagnostic], sources: &Sources, _: usize, _: &Pretty) -> String {
    let mut out = String::new();
    // GitHub shows the first ten of each level: errors must not stand behind what fills its lists.
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
