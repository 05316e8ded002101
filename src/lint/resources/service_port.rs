//! Ports of services that verify uses, although the service has others.

use rustc_hash::FxHashMap;

use crate::{
    ascii::{Ascii, ascii},
    bash::tools,
    diagnostic::{Diagnostic, Diagnostics},
    effects::{asked, shell::Run, value::Value},
    hir::PhaseKind,
    lint::{TaskView, analysis::texts, resources::elsewhere::UNKNOWN_RESOURCE},
    source::Span,
};

/// The ports of each service that setup creates.
type Ports = FxHashMap<String, Vec<u16>>;

/// `port-forward svc/web 8080:9000`, `http://web.shop.svc:9000/`: setup or the prompt gives the service another port.
pub fn check(view: &TaskView<'_>, out: &mut Diagnostics) {
    let verify =
        || view.effects.scripts.iter().filter(|s| s.view.phase == PhaseKind::Verify).flat_map(|s| &s.trace.runs);
    let mut uses: Vec<(&Run<'_>, String, u16)> = Vec::new();
    for run in verify() {
        uses.extend(forwarded(run).map(|(name, port)| (run, name, port)));
        for word in run.words.iter().map(Value::shown).filter(|word| word.contains(".svc") && word.contains("://")) {
            for url in URL.captures_iter(&word) {
                uses.extend(url[2].parse().ok().map(|port| (run, url[1].to_owned(), port)));
            }
        }
    }
    if uses.is_empty() {
        return;
    }
    let said = view.effects.prompt.shown();
    let known = created(view).unwrap_or_default();
    for (run, name, port) in uses {
        let number = port.to_string();
        let ports = match known.get(&name) {
            Some(ports) if !ports.contains(&port) && !texts::has_word(&said, &number) => ports.clone(),
            Some(_) => continue,
            // `forwards port 9100 to the container port 9113`
            None => match texts::FORWARDS.captures(&said) {
                Some(found) if texts::has_word(&said, &name) && found[2] == number && found[1] != number => {
                    found[1].parse().into_iter().collect()
                }
                _ => continue,
            },
        };
        let listed: Vec<String> = ports.iter().map(u16::to_string).collect();
        let message = format!("the service `{name}` has no port {port}");
        out.push(
            Diagnostic::new(&UNKNOWN_RESOURCE, place(run, &number), message).help(format!(
                "its port is {}; the port of the container is not reachable through it",
                listed.join(", ")
            )),
        );
    }
}

static URL: Ascii = ascii(r"://([a-z0-9-]+)\.[a-z0-9{}.$_-]+\.svc(?:\.cluster\.local)?:(\d+)");

/// The service and its port in `kubectl port-forward svc/NAME LOCAL:PORT`.
fn forwarded(run: &Run<'_>) -> Option<(String, u16)> {
    let words: Vec<&str> = run.words.iter().skip(1).map(|word| word.literal().unwrap_or("\u{1a}")).collect();
    if run.statement.tool() != "kubectl" {
        return None;
    }
    let operands: Vec<&str> = tools::operands("kubectl", &words).copied().collect();
    let ["port-forward", target, ports] = operands.as_slice() else { return None };
    let name = target.strip_prefix("svc/").or_else(|| target.strip_prefix("service/"))?;
    Some((name.to_owned(), ports.rsplit(':').next()?.parse().ok()?))
}

fn place(run: &Run<'_>, text: &str) -> Span {
    let own = run.content.text.get(run.statement.range.clone()).unwrap_or_default();
    match own.rfind(text) {
        Some(at) => run.content.span(run.statement.range.start + at..run.statement.range.start + at + text.len()),
        None => run.content.span(run.statement.range.clone()),
    }
}

/// `None` if setup may change the ports of a service, or creates services that cannot be read.
fn created(view: &TaskView<'_>) -> Option<Ports> {
    if !view.effects.sees(PhaseKind::Setup) {
        return None;
    }
    let mut found = Ports::default();
    for run in view.effects.scripts.iter().filter(|s| s.view.phase == PhaseKind::Setup).flat_map(|s| &s.trace.runs) {
        let words: Vec<&str> = run.words.iter().map(|word| word.literal().unwrap_or_default()).collect();
        if run.statement.tool() != "kubectl" {
            continue;
        }
        match tools::operands("kubectl", words.get(1..)?).copied().collect::<Vec<_>>().as_slice() {
            ["patch" | "edit" | "replace", ..] => return None,
            ["expose", kind, rest @ ..] => {
                let own = rest.first().copied().or_else(|| kind.split_once('/').map(|(_, name)| name))?;
                let name = asked::value_of(&words, "--name", "--name").unwrap_or(own);
                let port = asked::value_of(&words, "--port", "--port").and_then(|port| port.parse::<u16>().ok());
                found.entry(name.to_owned()).or_default().extend(port);
            }
            _ => {}
        }
        let text = run.input.as_ref().map(Value::shown).unwrap_or_default();
        for document in text.split("\n---").filter(|document| document.contains("kind: Service\n")) {
            let (name, ports) = of_document(document)?;
            found.entry(name).or_default().extend(ports);
        }
    }
    found.retain(|_, ports| !ports.is_empty());
    Some(found)
}

static NAME: Ascii = ascii(r"(?m)^metadata:\s*(?:\{\s*|\n  )(?:namespace: *\S+\n  )?name: *([a-z0-9-]+)");
static PORT: Ascii = ascii(r#"(?m)[\s{,-]port: *["']?(\d+)"#);

/// The name and the ports of a service in a manifest.
fn of_document(text: &str) -> Option<(String, Vec<u16>)> {
    let name = NAME.captures(text)?.get(1)?.as_str().to_owned();
    Some((name, PORT.captures_iter(text).filter_map(|port| port[1].parse().ok()).collect()))
}
