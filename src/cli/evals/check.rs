//! `gevals evals check`: checks the evals of a server, or of a file for one.

use std::path::Path;

use super::{Fault, Global, Reach, Wanted, list::fault, notices, with_server};
use crate::{
    cli::{complain, print, status},
    compile::policed,
    diagnostic::{self, Diagnostic, Diagnostics, Strength, WRITERS},
    evals::{Server, list},
    host::disk::Disk,
    lock::{self, Lock},
    primitive::{self, Document, EVAL_ID, Tools},
    project,
    source::{Files, Sources},
    yaml,
};

const EXAMPLES: &str = "\
Examples:
  gevals evals check -- my-server                    the evals that a server ships, with its tools
  gevals evals check evals.yaml                      a file, before a server ships it
  gevals evals check evals.yaml -- my-server         the same, with the tools of that server
  gevals evals check --format json https://x.org/mcp

The evals are listed twice: ids must be the same both times. Nothing is run: no tool is called, no
model is used.

Exit status: 0 no errors, 1 errors were found, 2 usage error, unreadable, or the server ships none,
3 the server does not start or does not list them";

/// Check the evals that a server ships, or a file of evals.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// A file of evals, and optionally a server: a URL, or a name in the MCP config.
    #[arg(value_name = "FILE|SERVER", num_args = 0..=2)]
    words: Vec<String>,
    /// Output format of findings.
    #[arg(long, default_value = "pretty", value_parser = clap::builder::PossibleValuesParser::new(WRITERS.iter().map(|w| w.name)))]
    format: String,
    /// Maximum number of findings to show; machine-readable formats show all.
    #[arg(long, value_name = "N", default_value_t = 50)]
    max_findings: usize,
    #[command(flatten)]
    reach: Reach,
}

pub fn main(args: &Args, global: Global) -> u8 {
    let checked = args.reach.wanted(&args.words).and_then(|Wanted { file, server }| {
        let sources = Sources::default();
        let mut out = Diagnostics::default();
        let document = file.map(|path| read(Path::new(path), &sources, &mut out)).transpose()?;
        Ok((file.map(str::to_owned), document, server, sources, out))
    });
    let (file, document, server, sources, mut out) = match checked {
        Ok(checked) => checked,
        Err((code, why)) => {
            complain(&why);
            return code;
        }
    };
    let Some(reached) = server else {
        if let Some(Some(document)) = &document {
            let tools = file.as_deref().and_then(|path| locked(document, Path::new(path)));
            primitive::check(std::slice::from_ref(document), tools.as_ref(), &mut out);
        }
        return show(args, global, out, &sources, 1);
    };
    with_server(reached, async |server| {
        let mut out = out;
        let files = match document {
            // A file that cannot be read has a finding.
            Some(None) => 1,
            Some(Some(document)) => {
                let tools = tools(server).await?;
                beside(&document, &tools, &mut out);
                1
            }
            None => {
                let listed = list(server, None, &sources).await.map_err(fault)?;
                notices(&listed.notices);
                out.extend(listed.findings);
                primitive::check(&listed.documents, Some(&tools(server).await?), &mut out);
                let again = list(server, None, &Sources::default()).await.map_err(fault)?;
                let ids: Vec<&str> = again.evals().map(|eval| eval.id.value.as_str()).collect();
                unstable(&listed.documents, &ids, &mut out);
                listed.documents.len()
            }
        };
        Ok(show(args, global, out, &sources, files))
    })
}

/// Checks evals against a server. `gevals check --fix` contacts no server, so findings that depend on one have no fix.
fn beside(document: &Document, tools: &Tools, out: &mut Diagnostics) {
    let documents = std::slice::from_ref(document);
    let (mut alone, mut found) = (Diagnostics::default(), Diagnostics::default());
    primitive::check(documents, None, &mut alone);
    primitive::check(documents, Some(tools), &mut found);
    for finding in found {
        let is_known = alone.iter().any(|d| std::ptr::eq(d.rule, finding.rule) && d.span == finding.span);
        out.push(if is_known { finding } else { Diagnostic { fix: None, ..finding } });
    }
}

/// The evals of a file; `None` if it cannot be parsed.
pub fn read(path: &Path, sources: &Sources, out: &mut Diagnostics) -> Result<Option<Document>, Fault> {
    let bytes =
        Disk.read(path).map_err(|error| (status::USAGE, format!("cannot read `{}`: {error}", path.display())))?;
    let text = match yaml::decode_utf8(bytes) {
        Ok(text) => text,
        Err(fault) => {
            let file = sources.add(path, fault.text.as_str());
            out.push(fault.diagnostic(file));
            return Ok(None);
        }
    };
    let file = sources.add(path, text.as_str());
    Ok(yaml::parse(file, text, out).ok().map(|tree| primitive::file(tree, out)))
}

/// The tools of the server that a file names, if a `gevals.lock` next to it or above has them.
fn locked(document: &Document, path: &Path) -> Option<Tools> {
    let name = &document.server.as_ref()?.value;
    let dir = path.parent().unwrap_or(Path::new(""));
    let text = dir.ancestors().find_map(|dir| Disk.read(&dir.join(lock::FILE_NAME)).ok())?;
    let lock = Lock::parse(&String::from_utf8_lossy(&text)).ok()?;
    Some(project::locked_tools(name, lock.servers.get(name)?))
}

async fn tools(server: &Server) -> Result<Tools, Fault> {
    server
        .tools()
        .await
        .map_err(|error| (status::BROKEN, format!("`tools/list` of `{}`: {}", server.name, server.lost(&error))))
}

/// Reports IDs that are missing when the same list is read again.
fn unstable(documents: &[Document], again: &[&str], out: &mut Diagnostics) {
    for eval in documents.iter().flat_map(|document| &document.evals) {
        if !again.contains(&eval.id.value.as_str()) {
            let message = format!("the id `{}` is missing when the list is read again", eval.id.value);
            out.push(
                Diagnostic::new(&EVAL_ID, eval.id.span, message)
                    .strength(Strength::Verdict)
                    .help("ids must be stable: results of different runs are compared by id"),
            );
        }
    }
}

fn show(args: &Args, global: Global, out: Diagnostics, sources: &Sources, files: usize) -> u8 {
    let found = diagnostic::gather(policed(out, sources, &Disk));
    let Some(writer) = WRITERS.iter().find(|w| w.name == args.format) else { return status::USAGE };
    let mut style = global.pretty(&std::io::stdout());
    style.limit = (!writer.machine).then_some(args.max_findings);
    let mut text = (writer.write)(&found, sources, files, &style);
    if !writer.machine {
        text += &diagnostic::summary(&found, files);
        text.push('\n');
    }
    print(&text);
    match found.iter().any(|d| d.strength.is_error()) {
        true => status::NO,
        false => status::OK,
    }
}
