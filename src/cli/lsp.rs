//! `gevals lsp`: the compiler in an editor, by the Language Server Protocol 3.17 on standard input and output.
//!
//! One thread reads messages; this one answers them in their order. What was typed is compiled with the files on disk as soon as
//! nothing more arrives, or a request asks what follows from it: an answer never speaks of an older text.

mod complete;
mod place;
mod schemas;
mod text;
mod wire;

use std::{
    collections::{BTreeMap, BTreeSet},
    io::BufReader,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    time::Duration,
};

use serde_json::{Value, json};

use self::{
    place::{Place, Step, Way},
    text::{Encoding, Lines, path_of, uri_of},
};
use super::{again::Again, overlay::Overlay, status};
use crate::{
    Compiled, Options, Plans, compile_with,
    diagnostic::{Applicability, Diagnostic, Fix, Strength, Texts},
    source::{Files, Sources, Span, Stat, normalize, resolve},
    yaml::{Entry, Node, Tree},
};

/// How long to wait for more before what was typed is compiled.
const PAUSE: Duration = Duration::from_millis(15);
/// Errors of JSON-RPC and of the protocol.
const INVALID_REQUEST: i64 = -32600;
const NO_SUCH_METHOD: i64 = -32601;
const BAD_PARAMS: i64 = -32602;
const INTERNAL: i64 = -32603;
const NOT_INITIALIZED: i64 = -32002;

const EXAMPLES: &str = "\
An editor starts it and speaks the Language Server Protocol on standard input and output. For
Neovim 0.11, for example:

  vim.lsp.config('gevals', {cmd = {'gevals', 'lsp'}, filetypes = {'yaml'}, root_markers = {'.git'}})
  vim.lsp.enable('gevals')

`gevals explain editors` has more, for other editors, too.

Exit status: 0 the editor has ended it, 1 the editor has died, 2 used wrongly, 3 its messages cannot
be understood";

/// Serve editors: findings as you type, fixes, completion, hover, definitions, renaming.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {}

pub fn main(_: &Args) -> u8 {
    let (sender, messages) = channel();
    std::thread::spawn(move || {
        let mut input = BufReader::new(std::io::stdin());
        loop {
            match wire::read(&mut input) {
                Ok(Some(message)) => {
                    if sender.send(Ok(message)).is_err() {
                        return;
                    }
                }
                Ok(None) => return,
                Err(error) => return drop(sender.send(Err(error.to_string()))),
            }
        }
    });
    let mut server = Server::default();
    match server.serve(&messages) {
        Ok(exit) => exit,
        Err(why) => {
            super::complain(&format!("the editor cannot be understood: {why}"));
            status::BROKEN
        }
    }
}

/// An open document.
#[derive(Debug)]
struct Document {
    text: String,
    version: Value,
}

/// A finding in the editor, and how it is mended.
struct Shown {
    range: std::ops::Range<usize>,
    diagnostic: Value,
    fix: Option<(String, Applicability, Value)>,
}

#[derive(Default)]
struct Server {
    initialized: bool,
    over: bool,
    encoding: Encoding,
    roots: Vec<PathBuf>,
    open: BTreeMap<PathBuf, Document>,
    /// Something has changed since the last compilation.
    stale: bool,
    again: Again,
    found: BTreeMap<PathBuf, Vec<Shown>>,
    /// What the editor shows for each file by now.
    published: BTreeMap<PathBuf, Value>,
}

/// The code and message of an error.
type Refusal = (i64, String);

impl Server {
    fn serve(&mut self, messages: &Receiver<Result<Value, String>>) -> Result<u8, String> {
        loop {
            let message = match self.stale {
                true => match messages.recv_timeout(PAUSE) {
                    Err(RecvTimeoutError::Timeout) => {
                        self.refresh();
                        continue;
                    }
                    received => received.ok(),
                },
                false => messages.recv().ok(),
            };
            // An editor that dies sends no `exit`.
            let Some(message) = message.transpose()? else { return Ok(status::NO) };
            let method = message["method"].as_str().unwrap_or_default().to_owned();
            if method == "exit" {
                return Ok(if self.over { status::OK } else { status::NO });
            }
            if method.is_empty() {
                // An answer: nothing is asked of the editor that matters.
                continue;
            }
            let params = &message["params"];
            let Some(id) = message.get("id") else {
                self.notified(&method, params);
                continue;
            };
            let answered = catch_unwind(AssertUnwindSafe(|| self.request(&method, params)));
            let answered = answered.unwrap_or_else(|_| Err((INTERNAL, format!("`{method}` failed; this is a bug"))));
            send(&match answered {
                Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
                Err((code, message)) => {
                    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } })
                }
            });
        }
    }

    fn request(&mut self, method: &str, params: &Value) -> Result<Value, Refusal> {
        match method {
            "initialize" => return Ok(self.initialize(params)),
            _ if !self.initialized => return Err((NOT_INITIALIZED, "`initialize` comes first".to_owned())),
            _ if self.over => return Err((INVALID_REQUEST, "the server was shut down".to_owned())),
            "shutdown" => {
                self.over = true;
                return Ok(Value::Null);
            }
            _ => {}
        }
        if self.stale {
            self.refresh();
        }
        let uri = params.pointer("/textDocument/uri").and_then(Value::as_str).unwrap_or_default();
        let path = path_of(uri).map(|path| normalize(&path));
        let known = path.as_ref().and_then(|path| Some((path, self.open.get(path)?)));
        let at = |text: &str| self.encoding.offset(text, &params["position"]);
        let (path, text) = match (method, known) {
            ("textDocument/codeAction" | "textDocument/completion" | "textDocument/hover", Some((path, document)))
            | (
                "textDocument/definition"
                | "textDocument/references"
                | "textDocument/rename"
                | "textDocument/prepareRename"
                | "textDocument/documentSymbol",
                Some((path, document)),
            ) => (path, document.text.as_str()),
            (known, None) if known.starts_with("textDocument/") => {
                return Err((BAD_PARAMS, format!("`{uri}` is not open")));
            }
            (other, _) => return Err((NO_SUCH_METHOD, format!("`{other}` is not supported"))),
        };
        Ok(match method {
            "textDocument/codeAction" => self.actions(path, text, params),
            "textDocument/completion" => complete::at(text, at(text), self.encoding),
            "textDocument/hover" => self.hover(path, text, at(text)),
            "textDocument/definition" => self.definition(path, text, at(text)),
            "textDocument/references" => self.references(path, text, at(text)),
            "textDocument/documentSymbol" => self.symbols(text),
            "textDocument/prepareRename" => match renamed(text, at(text)) {
                Some((_, range)) => self.lines(text).range(range),
                None => Value::Null,
            },
            _ => self.rename(path, text, at(text), params["newName"].as_str().unwrap_or_default())?,
        })
    }

    fn initialize(&mut self, params: &Value) -> Value {
        let folders = params["workspaceFolders"].as_array().into_iter().flatten();
        let folders = folders.filter_map(|folder| folder["uri"].as_str());
        self.roots =
            folders.chain(params["rootUri"].as_str()).filter_map(path_of).map(|path| normalize(&path)).collect();
        self.roots.dedup();
        let offered = params.pointer("/capabilities/general/positionEncodings").and_then(Value::as_array);
        if offered.is_some_and(|offered| offered.iter().any(|one| one == "utf-8")) {
            self.encoding = Encoding::Utf8;
        }
        self.initialized = true;
        self.stale = true;
        json!({
            "serverInfo": { "name": "gevals", "version": env!("CARGO_PKG_VERSION") },
            "capabilities": {
                "positionEncoding": self.encoding.name(),
                "textDocumentSync": { "openClose": true, "change": 2, "save": {} },
                "codeActionProvider": { "codeActionKinds": ["quickfix", "source.fixAll"] },
                "completionProvider": { "triggerCharacters": ["{", ".", " "] },
                "hoverProvider": true,
                "definitionProvider": true,
                "referencesProvider": true,
                "documentSymbolProvider": true,
                "renameProvider": { "prepareProvider": true },
                "workspace": { "workspaceFolders": { "supported": true, "changeNotifications": true } },
            },
        })
    }

    fn notified(&mut self, method: &str, params: &Value) {
        let uri = params.pointer("/textDocument/uri").and_then(Value::as_str).unwrap_or_default();
        let path = path_of(uri).map(|path| normalize(&path));
        match (method, path) {
            ("initialized", _) => watch_files(),
            ("textDocument/didOpen", Some(path)) => {
                let text = params.pointer("/textDocument/text").and_then(Value::as_str).unwrap_or_default().to_owned();
                let version = params.pointer("/textDocument/version").cloned().unwrap_or_default();
                self.open.insert(path, Document { text, version });
            }
            ("textDocument/didChange", Some(path)) => {
                let Some(document) = self.open.get_mut(&path) else { return };
                document.version = params.pointer("/textDocument/version").cloned().unwrap_or_default();
                for change in params["contentChanges"].as_array().into_iter().flatten() {
                    let new = change["text"].as_str().unwrap_or_default();
                    match change.get("range").filter(|range| !range.is_null()) {
                        Some(range) => {
                            let start = self.encoding.offset(&document.text, &range["start"]);
                            let end = self.encoding.offset(&document.text, &range["end"]).max(start);
                            document.text.replace_range(start..end, new);
                        }
                        None => new.clone_into(&mut document.text),
                    }
                }
            }
            ("textDocument/didClose", Some(path)) => drop(self.open.remove(&path)),
            ("workspace/didChangeWorkspaceFolders", _) => {
                let of = |key: &str| -> Vec<PathBuf> {
                    let folders = params["event"][key].as_array().into_iter().flatten();
                    folders.filter_map(|folder| path_of(folder["uri"].as_str()?)).collect()
                };
                let removed = of("removed");
                self.roots.retain(|root| !removed.contains(root));
                self.roots.extend(of("added"));
            }
            ("textDocument/didSave" | "workspace/didChangeWatchedFiles", _) => {}
            _ => return,
        }
        self.stale = true;
    }

    fn lines<'t>(&self, text: &'t str) -> Lines<'t> {
        Lines::new(text, self.encoding)
    }

    /// The files, with what is typed in the place of what is on disk, and these texts besides.
    fn files(&self, texts: &Texts) -> Overlay {
        let mut all: Texts =
            self.open.iter().map(|(path, document)| (path.clone(), document.text.clone().into())).collect();
        all.extend(texts.iter().map(|(path, text)| (path.clone(), text.clone())));
        let named: Vec<PathBuf> =
            self.roots.iter().chain(self.ours().filter(|path| self.is_alone(path))).cloned().collect();
        Overlay::of(&named, all.iter().map(|(path, text)| (path.as_path(), text.clone())))
    }

    /// Open files of gevals.
    fn ours(&self) -> impl Iterator<Item = &PathBuf> {
        let is_ours = |text: &str| place::tree(text).is_some_and(|tree| place::kind(&tree).is_some());
        self.open.iter().filter(move |(_, document)| is_ours(&document.text)).map(|(path, _)| path)
    }

    /// Whether a file lies in none of the editor's folders. Where it lies may be anything, a home for example.
    fn is_alone(&self, path: &Path) -> bool {
        !self.roots.iter().any(|root| path.starts_with(root))
    }

    /// Compiles everything, and shows what is found.
    fn refresh(&mut self) {
        self.stale = false;
        let found = catch_unwind(AssertUnwindSafe(|| self.compile()));
        match found {
            Ok(found) => self.found = found,
            Err(_) => {
                let message = "gevals could not check this text; this is a bug";
                send(
                    &json!({ "jsonrpc": "2.0", "method": "window/logMessage", "params": { "type": 1, "message": message } }),
                );
            }
        }
        // Of open files each version is answered, also by nothing.
        let mut paths: BTreeSet<&PathBuf> = self.published.keys().chain(self.found.keys()).collect();
        paths.extend(self.open.keys());
        let mut published = BTreeMap::new();
        for path in paths {
            let shown = self.found.get(path).into_iter().flatten();
            let diagnostics: Vec<&Value> = shown.map(|shown| &shown.diagnostic).collect();
            let mut params = json!({ "uri": uri_of(path), "diagnostics": diagnostics });
            if let Some(document) = self.open.get(path) {
                params["version"] = document.version.clone();
            }
            if self.published.get(path) != Some(&params) {
                send(&json!({ "jsonrpc": "2.0", "method": "textDocument/publishDiagnostics", "params": params }));
            }
            if self.found.contains_key(path) || self.open.contains_key(path) {
                published.insert(path.clone(), params);
            }
        }
        self.published = published;
    }

    fn compile(&mut self) -> BTreeMap<PathBuf, Vec<Shown>> {
        // What a compilation that fails leaves behind is not to be trusted.
        let mut again = std::mem::take(&mut self.again);
        let files = self.files(&Texts::new());
        again.with(&files);
        let compiled = self.look(&files, &|paths, options| again.compile(paths, options, &files));
        let sources = again.sources();
        let mut found: BTreeMap<PathBuf, Vec<Shown>> = BTreeMap::new();
        for diagnostic in &compiled {
            let source = sources.get(diagnostic.span.file);
            let path = normalize(source.path());
            if !source.is_given() && path.is_absolute() {
                found.entry(path).or_default().push(self.shown(diagnostic, sources));
            }
        }
        self.again = again;
        found
    }

    /// What is found in the folders and in files alone, also in those that exist in the editor alone.
    fn look(&self, files: &Overlay, compile: &dyn Fn(&[PathBuf], &Options) -> Compiled) -> Vec<Diagnostic> {
        let apart = self.ours().filter(|path| self.is_alone(path) || files.is_new(path));
        let named: BTreeSet<&PathBuf> = self.roots.iter().chain(apart).collect();
        if named.is_empty() {
            return Vec::new();
        }
        let options = Options { plans: Plans::None, ..Options::default() };
        compile(&named.into_iter().cloned().collect::<Vec<_>>(), &options).diagnostics
    }

    fn shown(&self, diagnostic: &Diagnostic, sources: &Sources) -> Shown {
        let range = |span: Span| Lines::of(&sources.get(span.file), self.encoding).range(span.range());
        let severity = match diagnostic.strength {
            Strength::Hard | Strength::Verdict => 1,
            Strength::Warning => 2,
            Strength::Note => 3,
        };
        let labels = diagnostic.labels.iter().map(|label| (label.span, label.message.clone()));
        let related: Vec<Value> = labels
            .filter(|(span, _)| sources.get(span.file).path().is_absolute())
            .map(|(span, message)| {
                let uri = uri_of(sources.get(span.file).path());
                json!({ "location": { "uri": uri, "range": range(span) }, "message": message })
            })
            .collect();
        let help = diagnostic.help.as_ref().map(|help| format!("\n{help}")).unwrap_or_default();
        let label = if diagnostic.label.is_empty() { String::new() } else { format!(": {}", diagnostic.label) };
        let fix = diagnostic.fix.as_ref().map(|fix| {
            let changes = self.changes(fix, sources);
            (fix.description.clone(), fix.applicability, changes)
        });
        Shown {
            range: diagnostic.span.range(),
            diagnostic: json!({
                "range": range(diagnostic.span),
                "severity": severity,
                "code": diagnostic.rule.name,
                "source": "gevals",
                "message": format!("{}{label}{help}", diagnostic.message),
                "relatedInformation": related,
            }),
            fix,
        }
    }

    fn changes(&self, fix: &Fix, sources: &Sources) -> Value {
        let mut changes: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        for edit in &fix.edits {
            let source = sources.get(edit.span.file);
            let range = Lines::of(&source, self.encoding).range(edit.span.range());
            changes.entry(uri_of(source.path())).or_default().push(json!({ "range": range, "newText": edit.text }));
        }
        json!({ "changes": changes })
    }

    fn actions(&self, path: &Path, text: &str, params: &Value) -> Value {
        let start = self.encoding.offset(text, &params["range"]["start"]);
        let end = self.encoding.offset(text, &params["range"]["end"]);
        let only = params.pointer("/context/only").and_then(Value::as_array);
        let wanted = |kind: &str| {
            only.is_none_or(|only| {
                only.iter().filter_map(Value::as_str).any(|one| kind == one || kind.starts_with(&format!("{one}.")))
            })
        };
        let mut actions = Vec::new();
        for shown in self.found.get(path).into_iter().flatten() {
            let touches = shown.range.start <= end && start <= shown.range.end;
            if let (true, true, Some((title, applicability, edit))) = (touches, wanted("quickfix"), &shown.fix) {
                let safe = *applicability == Applicability::Safe;
                let title = if safe { title.clone() } else { format!("{title} (look at it: it may change what runs)") };
                actions.push(json!({
                    "title": title, "kind": "quickfix", "diagnostics": [shown.diagnostic], "isPreferred": safe, "edit": edit,
                }));
            }
        }
        if wanted("source.fixAll")
            && let Some(mended) = self.mended(path).filter(|mended| mended != text)
        {
            let range = self.lines(text).range(0..text.len());
            let edit = json!({ "changes": { uri_of(path): [{ "range": range, "newText": mended }] } });
            actions.push(json!({ "title": "gevals: apply all safe fixes", "kind": "source.fixAll", "edit": edit }));
        }
        Value::Array(actions)
    }

    /// The text of a file with all its safe fixes.
    fn mended(&self, path: &Path) -> Option<String> {
        let look = |texts: &Texts, sources: &Sources| {
            let files = self.files(texts);
            let found = self.look(&files, &|paths, options| compile_with(paths, options, sources, &files));
            Ok::<_, std::convert::Infallible>(found.into_iter().filter(|d| sources.path(d.span) == path).collect())
        };
        let Ok(mended) = crate::diagnostic::mend(false, look);
        mended.texts.get(path).and_then(|bytes| String::from_utf8(bytes.clone()).ok())
    }

    fn hover(&self, path: &Path, text: &str, offset: usize) -> Value {
        let said = |range: std::ops::Range<usize>, markdown: String| {
            let contents = json!({ "kind": "markdown", "value": markdown });
            json!({ "contents": contents, "range": self.lines(text).range(range) })
        };
        let shown = self.found.get(path).into_iter().flatten();
        let rule = shown.filter(|shown| shown.range.contains(&offset)).min_by_key(|shown| shown.range.len());
        if let Some(shown) = rule
            && let Some(rule) = shown.diagnostic["code"].as_str().and_then(crate::lint::rule)
        {
            return said(shown.range.clone(), rule.page.to_owned());
        }
        let Some(tree) = place::tree(text) else { return Value::Null };
        if let Some(step) = step_at(text, offset, &tree) {
            let outputs = if step.outputs.is_empty() {
                String::new()
            } else {
                format!("\n\nOutputs: `{}`", step.outputs.join("`, `"))
            };
            let (start, _) = place::hole(text, offset).unwrap_or_default();
            let length = place::path(text, offset).map_or(0, str::len);
            return said(start..start + length, format!("the step `{}`: {}{outputs}", step.id, step.name));
        }
        let Some(Place { way, is_key: true, range }) = place::at(&tree, offset) else { return Value::Null };
        let Some(Way::Key(key)) = way.last() else { return Value::Null };
        let in_list = matches!(way.iter().rev().nth(1), Some(Way::Item(_)));
        if let Some(section) = super::explain::step(key).filter(|_| in_list) {
            return said(range, section);
        }
        let schema = place::kind(&tree).and_then(schemas::of_kind);
        let about = schema.as_ref().and_then(|schema| schemas::description(&schemas::at(schema, &way)));
        about.map_or(Value::Null, |about| said(range, format!("**{key}**: {about}")))
    }

    fn definition(&self, path: &Path, text: &str, offset: usize) -> Value {
        let Some(tree) = place::tree(text) else { return Value::Null };
        let lines = self.lines(text);
        let here = |range: std::ops::Range<usize>| json!({ "uri": uri_of(path), "range": lines.range(range) });
        if let Some(step) = step_at(text, offset, &tree) {
            return here(step.range);
        }
        if let Some(name) = place::path(text, offset).and_then(|path| path.strip_prefix("env.")) {
            let env = ["spec", "env"].iter().try_fold(tree.root(), |node, key| node.get(key));
            return env.and_then(|env| env.entry(name)).map_or(Value::Null, |entry| here(entry.key.span().range()));
        }
        let Some(Place { range, is_key: false, .. }) = place::at(&tree, offset) else { return Value::Null };
        let written = text[range].trim_matches(['"', '\'']);
        let target = resolve(path, written);
        let files = self.files(&Texts::new());
        match files.stat(&target) {
            Some(Stat::File { .. }) if !written.is_empty() => {
                let start = json!({ "line": 0, "character": 0 });
                json!({ "uri": uri_of(&normalize(&target)), "range": { "start": start, "end": start } })
            }
            _ => Value::Null,
        }
    }

    fn references(&self, path: &Path, text: &str, offset: usize) -> Value {
        let Some((id, range)) = renamed(text, offset) else { return Value::Null };
        let all = std::iter::once(range).chain(uses(text, &id));
        let lines = self.lines(text);
        all.map(|range| json!({ "uri": uri_of(path), "range": lines.range(range) })).collect()
    }

    fn rename(&self, path: &Path, text: &str, offset: usize, new: &str) -> Result<Value, Refusal> {
        let Some((id, range)) = renamed(text, offset) else {
            return Err((BAD_PARAMS, "only the id of a step can be renamed".to_owned()));
        };
        let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_".contains(letter);
        if !new.starts_with(|letter: char| letter.is_ascii_alphabetic()) || !new.chars().all(plain) {
            return Err((
                BAD_PARAMS,
                "an id begins with a letter and goes on with letters, digits, `-` and `_`".to_owned(),
            ));
        }
        if place::tree(text).is_some_and(|tree| place::steps(&tree).iter().any(|step| step.id == new && step.id != id))
        {
            return Err((BAD_PARAMS, format!("there is a step `{new}` already")));
        }
        let all = std::iter::once(range).chain(uses(text, &id));
        let lines = self.lines(text);
        let edits: Vec<Value> = all.map(|range| json!({ "range": lines.range(range), "newText": new })).collect();
        Ok(json!({ "changes": { uri_of(path): edits } }))
    }

    fn symbols(&self, text: &str) -> Value {
        let Some(tree) = place::tree(text).filter(|tree| place::kind(tree).is_some()) else { return json!([]) };
        let lines = self.lines(text);
        tree.root().entries().map(|entry| symbol(&lines, entry.name, entry, 0)).collect()
    }
}

/// How deep the outline goes.
const OUTLINE: usize = 6;

/// A key with what stands below it, as the outline has it.
fn symbol(lines: &Lines<'_>, name: &str, entry: Entry<'_>, depth: usize) -> Value {
    let Entry { key, value: node, .. } = entry;
    let mut children = Vec::new();
    if depth + 1 < OUTLINE {
        children.extend(node.entries().map(|entry| symbol(lines, entry.name, entry, depth + 1)));
        // A step is its operation, and its id where it has one.
        for item in node.items() {
            let Some(first) = item.entries().next() else { continue };
            let id = first.value.get("id").and_then(Node::as_str);
            let name = id.map_or_else(|| first.name.to_owned(), |id| format!("{id} ({})", first.name));
            children.push(symbol(lines, &name, first, depth + 1));
        }
    }
    let value = node.text().filter(|value| value.len() < 60 && !value.contains('\n')).unwrap_or_default();
    // `SymbolKind`: a string, an array, an object.
    let kind = match (node.entries().len(), node.items().len()) {
        (0, 0) => 15,
        (0, _) => 18,
        _ => 19,
    };
    json!({
        "name": if name.is_empty() { "?" } else { name }, "detail": value, "kind": kind,
        "range": lines.range(key.span().to(node.span()).range()), "selectionRange": lines.range(key.span().range()),
        "children": children,
    })
}

/// The step that the hole around a byte names.
fn step_at(text: &str, offset: usize, tree: &Tree) -> Option<Step> {
    let id = place::path(text, offset)?.strip_prefix("steps.")?.split(['.', '[']).next()?;
    place::steps(tree).into_iter().find(|step| step.id == id)
}

/// The id of a step at a byte: where it is given, or in a hole. And where it is given.
fn renamed(text: &str, offset: usize) -> Option<(String, std::ops::Range<usize>)> {
    let tree = place::tree(text)?;
    let given = place::steps(&tree).into_iter().find(|step| (step.range.start..=step.range.end).contains(&offset));
    given.or_else(|| step_at(text, offset, &tree)).map(|step| (step.id, step.range))
}

/// Where holes name a step.
fn uses(text: &str, id: &str) -> Vec<std::ops::Range<usize>> {
    let whole = |at: &usize| {
        let behind = text[at + id.len()..].chars().next();
        behind.is_none_or(|letter| !(letter.is_alphanumeric() || "_-".contains(letter)))
            && place::hole(text, at + id.len())
                .is_some_and(|(start, inside)| start + "steps.".len() == *at && inside.starts_with("steps."))
    };
    let found = text.match_indices(id).map(|(at, _)| at).filter(whole);
    found.map(|at| at..at + id.len()).collect()
}

/// Asks the editor to say when files change of which it has none open.
fn watch_files() {
    let watchers = json!([{ "globPattern": "**/*" }]);
    let registration = json!({ "id": "files", "method": "workspace/didChangeWatchedFiles", "registerOptions": { "watchers": watchers } });
    send(&json!({
        "jsonrpc": "2.0", "id": "gevals-files", "method": "client/registerCapability", "params": { "registrations": [registration] },
    }));
}

/// An editor that reads no more has ended, or will.
fn send(message: &Value) {
    let _ = wire::write(&mut std::io::stdout().lock(), message);
}
