//! `gevals lsp`: the compiler for editors, over the Language Server Protocol 3.17 on standard input and output.
//!
//! One thread reads messages, and this one answers them in order. Changes are compiled with the files on disk as soon
//! as no more messages arrive, or a request depends on them: an answer never refers to an older text.

mod allow;
mod complete;
mod folding;
mod format;
mod hints;
mod hover;
mod lenses;
mod names;
mod navigate;
mod operations;
mod outline;
mod paths;
mod place;
mod reading;
mod schemas;
mod scripts;
mod suite;
mod text;
mod tokens;
mod wire;

use std::{
    cell::{OnceCell, RefCell},
    collections::{BTreeMap, BTreeSet, VecDeque},
    ffi::{OsStr, OsString},
    hash::{Hash as _, Hasher as _},
    io::BufReader,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    rc::Rc,
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    time::Duration,
};

use indexmap::IndexMap;
use rustc_hash::{FxHashMap, FxHasher};
use serde_json::{Value, json};

use self::{
    reading::Reading,
    suite::Suite,
    text::{Encoding, Lines, path_of, uri_of},
};
use super::{again::Again, overlay::Overlay, status};
use crate::{
    Compiled, Options, Plans, compile_with,
    diagnostic::{Applicability, Diagnostic, Fix, Strength, Texts},
    policy::{UNKNOWN_RULE, UNUSED_ALLOW},
    project::{Project, may_be_ours, says_so},
    source::{FileId, Sources, Span, normalize},
};

/// How long to wait for more changes before compiling.
const PAUSE: Duration = Duration::from_millis(15);
/// How long to wait for a message before checking the files that the system has reported.
const IDLE: Duration = Duration::from_millis(250);
/// The number of files that are not open whose findings are published at once. A suite may have thousands, and the
/// editor reads them one by one.
const PART: usize = 100;
/// Error codes of JSON-RPC and of the protocol.
const INVALID_REQUEST: i64 = -32600;
const NO_SUCH_METHOD: i64 = -32601;
const BAD_PARAMS: i64 = -32602;
const INTERNAL: i64 = -32603;
const NOT_INITIALIZED: i64 = -32002;
const CANCELLED: i64 = -32800;

const EXAMPLES: &str = "\
An editor starts this command and communicates with it over the Language Server Protocol on standard
input and output. For example, in Neovim 0.11:

  vim.lsp.config('gevals', {cmd = {'gevals', 'lsp'}, filetypes = {'yaml'}, root_markers = {'.git'}})
  vim.lsp.enable('gevals')

`gevals explain editors` has more examples, also for other editors.

Exit status: 0 the editor has shut it down, 1 the editor has died, 2 usage error, 3 invalid messages
from the editor";

/// Start a language server for editors: findings as you type, fixes, completion, hover, definitions, renaming.
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
            super::complain(&format!("invalid message from the editor: {why}"));
            status::BROKEN
        }
    }
}

/// An open document.
#[derive(Debug)]
struct Document {
    text: String,
    version: Value,
    /// Whether it is a file of gevals, as far as that is recognizable while it is being written.
    is_ours: bool,
}

impl Document {
    fn of(path: &Path, text: String, version: Value) -> Self {
        let is_yaml = path.extension().is_some_and(|end| end == "yaml" || end == "yml");
        let has_kind = || place::tree(&text).is_some_and(|tree| place::kind(&tree).is_some());
        let is_ours = may_be_ours(&text) && (has_kind() || is_yaml && says_so(&text));
        Self { text, version, is_ours }
    }
}

/// A finding in the editor, and its fix.
struct Shown {
    range: std::ops::Range<usize>,
    diagnostic: Value,
    fix: Option<(String, Applicability, Value)>,
    /// The rule, if a comment may allow the finding.
    allowable: Option<&'static str>,
}

/// The findings of a file.
struct Found {
    /// It is equal for equal findings in equal texts.
    mark: u64,
    shown: Vec<Shown>,
}

/// A hash that identifies findings. 0 stands for no findings.
fn mark(found: &[&Diagnostic]) -> u64 {
    let mut hasher = FxHasher::default();
    for one in found {
        (one.rule.name, one.strength, &one.message, one.span, &one.label, &one.help).hash(&mut hasher);
        one.labels.iter().for_each(|label| (label.span, &label.message).hash(&mut hasher));
        if let Some(Fix { description, applicability, edits }) = &one.fix {
            (description, *applicability == Applicability::Safe).hash(&mut hasher);
            edits.iter().for_each(|edit| (edit.span, &edit.text).hash(&mut hasher));
        }
    }
    hasher.finish() | 1
}

#[derive(Default)]
struct Server {
    initialized: bool,
    over: bool,
    encoding: Encoding,
    /// The editor requests the edits of an action only when it is applied.
    resolves: bool,
    roots: Vec<PathBuf>,
    open: BTreeMap<PathBuf, Document>,
    /// Something has changed since the last compilation.
    stale: bool,
    again: Again,
    /// By path as written: comparing paths component by component takes ten times as long.
    found: FxHashMap<OsString, Found>,
    /// What was compiled, and, on demand, how its files are related.
    project: Option<Project>,
    suite: OnceCell<Suite>,
    /// The meaning of the texts of open files, on demand.
    readings: RefCell<BTreeMap<PathBuf, Rc<Reading>>>,
    /// What the editor currently shows for each file: the mark of the findings, and the version of the text.
    published: FxHashMap<OsString, (u64, Option<Value>)>,
    /// The files whose findings in the editor are out of date.
    untold: VecDeque<OsString>,
}

/// The code and message of an error.
type Refusal = (i64, String);

impl Server {
    fn serve(&mut self, messages: &Receiver<Result<Value, String>>) -> Result<u8, String> {
        let mut waiting: VecDeque<Result<Value, String>> = VecDeque::new();
        loop {
            waiting.extend(messages.try_iter());
            let patience = match (self.stale, self.untold.is_empty()) {
                (true, _) => PAUSE,
                (false, false) => Duration::ZERO,
                (false, true) => IDLE,
            };
            let received = waiting.pop_front().map_or_else(|| messages.recv_timeout(patience), Ok);
            let message = match received {
                Err(RecvTimeoutError::Timeout) => {
                    match (self.stale, self.untold.is_empty()) {
                        (true, _) => self.refresh(),
                        (false, false) => self.tell(PART),
                        (false, true) => self.stale = self.initialized && self.again.is_told(),
                    }
                    continue;
                }
                received => received.ok(),
            };
            // An editor that crashes sends no `exit`.
            let Some(message) = message.transpose()? else { return Ok(status::NO) };
            let method = message["method"].as_str().unwrap_or_default().to_owned();
            if method == "exit" {
                return Ok(if self.over { status::OK } else { status::NO });
            }
            if method.is_empty() {
                // A response, which is ignored: no request to the editor depends on it.
                continue;
            }
            let params = &message["params"];
            let Some(id) = message.get("id") else {
                self.notified(&method, params);
                continue;
            };
            // A cancelled request is not worth a compilation.
            let cancels = |later: &Value| later["method"] == "$/cancelRequest" && later["params"]["id"] == *id;
            if method != "shutdown" && waiting.iter().flatten().any(cancels) {
                let error = json!({ "code": CANCELLED, "message": "cancelled" });
                send(&json!({ "jsonrpc": "2.0", "id": id, "error": error }));
                continue;
            }
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
            _ if !self.initialized => return Err((NOT_INITIALIZED, "`initialize` must come first".to_owned())),
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
        if method == "workspace/symbol" {
            let letters = params["query"].as_str().unwrap_or_default();
            let found = self
                .project
                .as_ref()
                .map(|project| outline::of_suite(project, self.again.sources(), letters, self.encoding));
            return Ok(found.unwrap_or_else(|| json!([])));
        }
        let uri = params.pointer("/textDocument/uri").or_else(|| params.pointer("/data/uri"));
        let uri = uri.and_then(Value::as_str).unwrap_or_default();
        let path = path_of(uri).map(|path| normalize(&path));
        let known = path.as_ref().and_then(|path| Some((path, self.open.get(path)?)));
        let at = |text: &str| self.encoding.offset(text, &params["position"]);
        let (path, text) = match known {
            Some((path, document)) => (path.as_path(), document.text.as_str()),
            None if method.starts_with("textDocument/") => return Err((BAD_PARAMS, format!("`{uri}` is not open"))),
            None => return Err((NO_SUCH_METHOD, format!("`{method}` is not supported"))),
        };
        let reading = || self.reading(path, text);
        // Nothing is returned for files that are not of gevals.
        let ours = || Some(reading()).filter(|reading| reading.kind.is_some());
        Ok(match method {
            "textDocument/codeAction" => self.actions(path, text, params),
            "codeAction/resolve" => self.resolved(path, text, params),
            "textDocument/completion" => complete::at(text, at(text), self.encoding, &self.suite().lock(path)),
            "textDocument/hover" => self.hover(path, text, at(text)),
            "textDocument/definition" => self.definition(path, text, at(text)),
            "textDocument/documentHighlight" => self.highlights(path, text, at(text)),
            "textDocument/references" => self.references(path, text, at(text), params),
            "textDocument/prepareRename" => self.prepare_rename(path, text, at(text)),
            "textDocument/rename" => {
                self.rename(path, text, at(text), params["newName"].as_str().unwrap_or_default())?
            }
            "textDocument/formatting" => self.formatted(path, text),
            "textDocument/semanticTokens/full" => tokens::of(text, &reading(), &self.lines(text)),
            "textDocument/documentSymbol" => match ours().as_ref().and_then(|reading| reading.tree()) {
                Some(tree) => outline::of(tree, &self.lines(text)),
                None => json!([]),
            },
            "textDocument/foldingRange" => match ours().as_ref().and_then(|reading| reading.tree()) {
                Some(tree) => folding::of(text, tree, &self.lines(text)),
                None => json!([]),
            },
            "textDocument/codeLens" => match ours().as_ref().and_then(|reading| reading.tree()) {
                Some(tree) => lenses::of(path, tree, self.suite(), &self.lines(text)),
                None => json!([]),
            },
            "textDocument/inlayHint" => {
                let (start, end) = (&params["range"]["start"], &params["range"]["end"]);
                let shown = self.encoding.offset(text, start)..=self.encoding.offset(text, end);
                hints::of(path, shown, &reading(), self.suite(), &self.lines(text))
            }
            other => return Err((NO_SUCH_METHOD, format!("`{other}` is not supported"))),
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
        let lazy = params.pointer("/capabilities/textDocument/codeAction/resolveSupport/properties");
        self.resolves = lazy.and_then(Value::as_array).is_some_and(|lazy| lazy.iter().any(|one| one == "edit"));
        self.initialized = true;
        self.stale = true;
        json!({
            "serverInfo": { "name": "gevals", "version": env!("CARGO_PKG_VERSION") },
            "capabilities": {
                "positionEncoding": self.encoding.name(),
                "textDocumentSync": { "openClose": true, "change": 2, "save": {} },
                "codeActionProvider": { "codeActionKinds": ["quickfix", "source.fixAll"], "resolveProvider": self.resolves },
                "completionProvider": { "triggerCharacters": ["{", ".", " ", "|", "*"] },
                "hoverProvider": true,
                "definitionProvider": true,
                "referencesProvider": true,
                "documentHighlightProvider": true,
                "documentSymbolProvider": true,
                "workspaceSymbolProvider": true,
                "foldingRangeProvider": true,
                "semanticTokensProvider": { "legend": tokens::legend(), "full": true },
                "codeLensProvider": {},
                "inlayHintProvider": true,
                "documentFormattingProvider": true,
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
                let document = Document::of(&path, text, version);
                self.open.insert(path, document);
            }
            ("textDocument/didChange", Some(path)) => {
                let Some(document) = self.open.get_mut(&path) else { return };
                let mut text = std::mem::take(&mut document.text);
                for change in params["contentChanges"].as_array().into_iter().flatten() {
                    let new = change["text"].as_str().unwrap_or_default();
                    match change.get("range").filter(|range| !range.is_null()) {
                        Some(range) => {
                            let start = self.encoding.offset(&text, &range["start"]);
                            let end = self.encoding.offset(&text, &range["end"]).max(start);
                            text.replace_range(start..end, new);
                        }
                        None => new.clone_into(&mut text),
                    }
                }
                *document =
                    Document::of(&path, text, params.pointer("/textDocument/version").cloned().unwrap_or_default());
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
            ("textDocument/didSave", _) => {}
            ("workspace/didChangeWatchedFiles", _) => {
                let changes = params["changes"].as_array().into_iter().flatten();
                let named = changes.filter_map(|change| path_of(change["uri"].as_str()?));
                named.for_each(|path| self.again.note(&normalize(&path)));
            }
            _ => return,
        }
        self.stale = true;
    }

    fn lines<'t>(&self, text: &'t str) -> Lines<'t> {
        Lines::new(text, self.encoding)
    }

    /// The files, with the editor's texts in place of those on disk, and with these texts.
    fn files(&self, texts: &Texts) -> Overlay {
        let mut all: Texts =
            self.open.iter().map(|(path, document)| (path.clone(), document.text.clone().into())).collect();
        all.extend(texts.iter().map(|(path, text)| (path.clone(), text.clone())));
        let named: Vec<PathBuf> =
            self.roots.iter().chain(self.ours().filter(|path| self.is_alone(path))).cloned().collect();
        Overlay::of(&named, all.iter().map(|(path, text)| (path.as_path(), text.clone())))
    }

    /// The open files of gevals.
    fn ours(&self) -> impl Iterator<Item = &PathBuf> {
        self.open.iter().filter(|(_, document)| document.is_ours).map(|(path, _)| path)
    }

    /// Whether a file is outside of the editor's directories. Its directory may be anything, for example a home
    /// directory.
    fn is_alone(&self, path: &Path) -> bool {
        !self.roots.iter().any(|root| path.starts_with(root))
    }

    /// Compiles everything, and publishes the findings.
    fn refresh(&mut self) {
        self.stale = false;
        self.readings.borrow_mut().clear();
        let found = catch_unwind(AssertUnwindSafe(|| self.compile()));
        match found {
            Ok((found, project)) => {
                (self.found, self.project) = (found, project);
                self.suite = OnceCell::new();
            }
            Err(_) => {
                let message = "gevals could not check this text; this is a bug";
                send(
                    &json!({ "jsonrpc": "2.0", "method": "window/logMessage", "params": { "type": 1, "message": message } }),
                );
            }
        }
        // Each version of an open file is answered, even without findings.
        let open: FxHashMap<&OsStr, &Value> =
            self.open.iter().map(|(path, document)| (path.as_os_str(), &document.version)).collect();
        let known = self.found.keys().chain(self.published.keys()).map(OsString::as_os_str);
        let differs = |path: &&OsStr| {
            let is_told = |(mark, version): &(u64, Option<Value>)| {
                *mark == self.mark_of(path) && version.as_ref() == open.get(*path).copied()
            };
            !self.published.get(*path).is_some_and(is_told)
        };
        let differ = known.chain(open.keys().copied()).filter(differs);
        // Open files come first.
        let mut differ: Vec<_> = differ.map(|path| (!open.contains_key(path), path.to_owned())).collect();
        differ.sort_unstable();
        differ.dedup();
        let most = PART + open.len();
        self.untold = differ.into_iter().map(|(_, path)| path).collect();
        self.tell(most);
        self.again.follow();
    }

    fn mark_of(&self, path: &OsStr) -> u64 {
        self.found.get(path).map_or(0, |found| found.mark)
    }

    /// Publishes the findings of the next files that are out of date in the editor.
    fn tell(&mut self, most: usize) {
        for path in self.untold.drain(..most.min(self.untold.len())).collect::<Vec<_>>() {
            let version = self.open.get(Path::new(&path)).map(|document| document.version.clone());
            let now = (self.mark_of(&path), version);
            let found = self.found.get(&path);
            let shown = found.map(|found| found.shown.as_slice()).unwrap_or_default();
            let diagnostics: Vec<&Value> = shown.iter().map(|shown| &shown.diagnostic).collect();
            let mut params = json!({ "uri": uri_of(Path::new(&path)), "diagnostics": diagnostics });
            if let Some(version) = &now.1 {
                params["version"] = version.clone();
            }
            send(&json!({ "jsonrpc": "2.0", "method": "textDocument/publishDiagnostics", "params": params }));
            match found.is_some() || now.1.is_some() {
                true => drop(self.published.insert(path, now)),
                false => drop(self.published.remove(&path)),
            }
        }
    }

    /// The current findings by file, and the project that was compiled; `None` if nothing is open.
    fn compile(&mut self) -> (FxHashMap<OsString, Found>, Option<Project>) {
        // State from a failed compilation is not reused.
        let mut again = std::mem::take(&mut self.again);
        let files = self.files(&Texts::new());
        again.with(&files);
        let compiled = self.look(&files, &|paths, options| again.compile(paths, options, &files));
        let mut found = FxHashMap::default();
        let Some(Compiled { project, diagnostics, .. }) = compiled else { return (found, None) };
        let sources = again.sources();
        let mut by_file: IndexMap<FileId, Vec<&Diagnostic>> = IndexMap::new();
        for diagnostic in &diagnostics {
            by_file.entry(diagnostic.span.file).or_default().push(diagnostic);
        }
        for (file, diagnostics) in by_file {
            let source = sources.get(file);
            let path = normalize(source.path());
            if source.is_given() || !path.is_absolute() {
                continue;
            }
            let mark = mark(&diagnostics);
            let path = path.into_os_string();
            let known = self.found.remove(&path).filter(|known| known.mark == mark);
            let anew = || Found { mark, shown: diagnostics.iter().map(|one| self.shown(one, sources)).collect() };
            found.insert(path, known.unwrap_or_else(anew));
        }
        self.again = again;
        (found, Some(project))
    }

    /// Compiles the directories and the files outside of them, including those that exist only in the editor.
    fn look(&self, files: &Overlay, compile: &dyn Fn(&[PathBuf], &Options) -> Compiled) -> Option<Compiled> {
        let apart = self.ours().filter(|path| self.is_alone(path) || files.is_new(path));
        let named: BTreeSet<&PathBuf> = self.roots.iter().chain(apart).collect();
        if named.is_empty() {
            return None;
        }
        let options = Options { plans: Plans::None, ..Options::default() };
        Some(compile(&named.into_iter().cloned().collect::<Vec<_>>(), &options))
    }

    /// How the files are related.
    fn suite(&self) -> &Suite {
        let suite = || self.project.as_ref().map(|project| Suite::of(project, self.again.sources()));
        self.suite.get_or_init(|| suite().unwrap_or_default())
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
                "codeDescription": { "href": crate::diagnostic::page_of(diagnostic.rule) },
                "source": "gevals",
                "message": format!("{}{label}{help}", diagnostic.message),
                "relatedInformation": related,
            }),
            fix,
            allowable: (diagnostic.strength != Strength::Hard
                && ![UNUSED_ALLOW.name, UNKNOWN_RULE.name].contains(&diagnostic.rule.name))
            .then_some(diagnostic.rule.name),
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
        for shown in self.found.get(path.as_os_str()).into_iter().flat_map(|found| &found.shown) {
            let touches = shown.range.start <= end && start <= shown.range.end;
            if let (true, true, Some((title, applicability, edit))) = (touches, wanted("quickfix"), &shown.fix) {
                let safe = *applicability == Applicability::Safe;
                let title = if safe { title.clone() } else { format!("{title} (unsafe: it may change what runs)") };
                actions.push(json!({
                    "title": title, "kind": "quickfix", "diagnostics": [shown.diagnostic], "isPreferred": safe, "edit": edit,
                }));
            }
        }
        let is_ours = self.open.get(path).is_some_and(|document| document.is_ours);
        for shown in self.found.get(path.as_os_str()).into_iter().flat_map(|found| &found.shown) {
            let touches = is_ours && shown.range.start <= end && start <= shown.range.end;
            if let (true, true, Some(rule)) = (touches, wanted("quickfix"), shown.allowable)
                && let Some((range, new)) = allow::edit(text, shown.range.start, rule)
            {
                let edit = json!({ "changes": { uri_of(path): [{ "range": self.lines(text).range(range), "newText": new }] } });
                actions.push(json!({
                    "title": format!("allow `{rule}` here"), "kind": "quickfix", "diagnostics": [shown.diagnostic], "edit": edit,
                }));
            }
        }
        // Trying all fixes compiles everything several times, and editors ask whenever the cursor moves.
        let is_safe = |shown: &Shown| matches!(shown.fix, Some((_, Applicability::Safe, _)));
        let has_safe = self.found.get(path.as_os_str()).is_some_and(|found| found.shown.iter().any(is_safe));
        if wanted("source.fixAll") && has_safe {
            let action = json!({ "title": "gevals: apply all safe fixes", "kind": "source.fixAll", "data": { "uri": uri_of(path) } });
            let action = if self.resolves { action } else { self.resolved(path, text, &action) };
            actions.extend(Some(action).filter(|action| self.resolves || action.get("edit").is_some()));
        }
        Value::Array(actions)
    }

    /// An action with its edit, if there is something to fix.
    fn resolved(&self, path: &Path, text: &str, action: &Value) -> Value {
        let mut action = action.clone();
        if action["kind"] == "source.fixAll"
            && let Some(mended) = self.mended(path).filter(|mended| mended != text)
        {
            let range = self.lines(text).range(0..text.len());
            action["edit"] = json!({ "changes": { uri_of(path): [{ "range": range, "newText": mended }] } });
        }
        action
    }

    /// The text of a file with all of its safe fixes.
    fn mended(&self, path: &Path) -> Option<String> {
        let look = |texts: &Texts, sources: &Sources| {
            let files = self.files(texts);
            let look = |paths: &[PathBuf], options: &Options| compile_with(paths, options, sources, &files);
            let found = self.look(&files, &look).map(|compiled| compiled.diagnostics).unwrap_or_default();
            Ok::<_, std::convert::Infallible>(found.into_iter().filter(|d| sources.path(d.span) == path).collect())
        };
        let Ok(mended) = crate::diagnostic::mend(false, look);
        mended.texts.get(path).and_then(|bytes| String::from_utf8(bytes.clone()).ok())
    }

    /// The meaning of the text of an open file, cached until something changes.
    fn reading(&self, path: &Path, text: &str) -> Rc<Reading> {
        if let Some(known) = self.readings.borrow().get(path) {
            return Rc::clone(known);
        }
        let reading = Rc::new(Reading::new(path, text, self.suite().lock(path), &self.files(&Texts::new())));
        self.readings.borrow_mut().insert(path.to_owned(), Rc::clone(&reading));
        reading
    }

    /// The edits that write all holes in their canonical form.
    fn formatted(&self, path: &Path, text: &str) -> Value {
        let lines = self.lines(text);
        let edits = format::edits(path, text, &self.reading(path, text)).into_iter();
        edits.map(|(range, new)| json!({ "range": lines.range(range), "newText": new })).collect()
    }
}

/// Asks the editor to report changes of files that are not open.
fn watch_files() {
    let watchers = json!([{ "globPattern": "**/*" }]);
    let registration = json!({ "id": "files", "method": "workspace/didChangeWatchedFiles", "registerOptions": { "watchers": watchers } });
    send(&json!({
        "jsonrpc": "2.0", "id": "gevals-files", "method": "client/registerCapability", "params": { "registrations": [registration] },
    }));
}

/// Errors are ignored: an editor that stops reading has ended, or will.
fn send(message: &Value) {
    let _ = wire::write(&mut std::io::stdout().lock(), message);
}
