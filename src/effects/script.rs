//! The texts that the steps of a task pass to a shell: the content, its place, and the shell that reads it.

use std::{
    ops::Range,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, OnceLock, PoisonError, Weak},
};

use rustc_hash::FxHashMap;

use crate::{
    bash::{self, program::Program},
    hir::{Arg, ArgKind, BlockRole, Def, Dialect, OperationKind, PhaseKind, Step, Task},
    parallel,
    project::TaskUnit,
    source::{FileId, Files, Source, Sources, Span, resolve},
    template,
    yaml::{SourceMap, Style},
};

/// A text that a step passes to a shell.
#[derive(Debug)]
pub struct ScriptView<'a> {
    /// The phase in which it runs: for the cleanup of a group in verify, this is cleanup.
    pub phase: PhaseKind,
    pub step: &'a Step<Def>,
    pub form: Form,
    /// The key `run`, `inline` or `file`.
    pub key: Span,
    pub value: &'a Arg<Def>,
    pub reader: Reader,
    /// Whether the shell reads the text from its standard input, which the commands in it inherit.
    pub on_stdin: bool,
    /// The directory it runs in, if known.
    pub dir: Option<PathBuf>,
    pub content: Arc<Content>,
}

/// How a script is passed to its step.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Form {
    /// `command`: the text is an argument of the shell.
    Line,
    Inline,
    File {
        path: PathBuf,
        executable: bool,
    },
}

/// The program that reads a text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reader {
    /// `/bin/sh`, which may be any POSIX shell.
    Posix,
    Bash,
    /// The machine's default shell, or a shell that is neither of the above.
    Shell,
    /// There is no shebang line.
    Nothing,
    /// Not a shell: Python, a program.
    Foreign,
}

/// A text and its parsed form.
#[derive(Debug)]
pub struct Content {
    /// The text as the shell will read it, except that each hole is replaced with [`HOLE`]s of the same length.
    pub text: String,
    /// The parser's result, computed on first use.
    parsed: OnceLock<Option<bash::Script>>,
    /// Empty and not sound if the text is not a shell script.
    pub program: Program,
    /// Whether it was read without the parser, which is possible only for texts that a shell can parse.
    pub is_plain: bool,
    place: Place,
    /// The holes of the text, in order.
    pub holes: Vec<Range<usize>>,
    /// The style of the text in YAML; `None` for a file.
    pub style: Option<Style>,
    /// The indentation of each line in the file; `None` if a line of the text does not correspond to a line of the
    /// file.
    indent: Option<String>,
}

#[derive(Debug)]
enum Place {
    File(FileId),
    Scalar(SourceMap),
}

/// Script files by path. A file is cached as long as it is in use; its entry in the sources is permanent.
#[derive(Debug, Default)]
pub struct ScriptFiles(Mutex<FxHashMap<PathBuf, Known>>);

#[derive(Debug)]
struct Known {
    file: FileId,
    script: Weak<ScriptFile>,
}

/// A script file, read once.
#[derive(Debug)]
pub struct ScriptFile {
    pub content: Arc<Content>,
    pub reader: Reader,
    pub executable: bool,
}

/// Replaces each byte of a hole: part of a word, and not used in any real script.
pub const HOLE: char = '\u{1a}';

impl ScriptFiles {
    pub fn get(&self, path: &Path, sources: &Sources, files: &dyn Files) -> Option<Arc<ScriptFile>> {
        let known = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        files.note(path);
        if let Some(script) = known().get(path).and_then(|k| k.script.upgrade()) {
            return Some(script);
        }
        let text = String::from_utf8(files.read(path).ok()?);
        let executable = matches!(files.stat(path), Some(crate::source::Stat::File { executable: true }));
        // A binary program has no text to read.
        let (text, reader) = match text {
            Ok(text) => {
                let reader = shebang(&text).unwrap_or(Reader::Nothing);
                (text, reader)
            }
            Err(_) => (String::new(), Reader::Foreign),
        };
        let indent = (reader != Reader::Foreign).then(String::new);
        let file = {
            let mut all = known();
            let add = || Known { file: sources.add(path, text.as_str()), script: Weak::new() };
            all.entry(path.to_owned()).or_insert_with(add).file
        };
        let content = Arc::new(Content::new(text, reader, Place::File(file), indent));
        let script = Arc::new(ScriptFile { content, reader, executable });
        if let Some(known) = known().get_mut(path) {
            known.script = Arc::downgrade(&script);
        }
        Some(script)
    }
}

impl Content {
    fn new(text: String, reader: Reader, place: Place, indent: Option<String>) -> Self {
        let (holes, style) = (Vec::new(), None);
        let (parsed, plain) = match reader {
            Reader::Foreign => (OnceLock::from(None), None),
            _ => (OnceLock::new(), bash::plain(&text)),
        };
        let is_plain = plain.is_some();
        let mut content = Self { text, parsed, program: Program::default(), is_plain, place, holes, style, indent };
        let program = plain.or_else(|| Some(content.script()?.program()));
        content.program = program.unwrap_or_default();
        if content.text.contains(HOLE) {
            content.program.mark_filled(HOLE);
        }
        content
    }

    /// The parsed script; `None` if it is not a shell script or cannot be parsed.
    pub fn script(&self) -> Option<&bash::Script> {
        self.parsed.get_or_init(|| bash::parse(&self.text)).as_ref()
    }

    /// The place where a range of the text is written.
    pub fn span(&self, range: Range<usize>) -> Span {
        match &self.place {
            Place::File(file) => Span::new(*file, range),
            Place::Scalar(map) => map.span(range),
        }
    }

    /// The edit that inserts `lines` before the line that starts at `at`.
    pub fn before_line(&self, at: usize, lines: &str) -> Option<(Span, String)> {
        let indent = self.indent.as_ref()?;
        Some((self.span(at..at), lines.lines().map(|l| format!("{l}\n{indent}")).collect()))
    }

    /// The edit that inserts a line after the one that ends at `end`, indented like the statement at `start`.
    pub fn after_line(&self, start: usize, end: usize, line: &str) -> Option<(Span, String)> {
        let indent = self.indent.as_ref()?;
        let own = &self.text[self.line_start(start)..start];
        (own.trim().is_empty() && self.text[end..].chars().next().is_none_or(|c| c == '\n'))
            .then(|| (self.span(end..end), format!("\n{indent}{own}{line}")))
    }

    /// The first byte of the line that contains a byte.
    pub fn line_start(&self, at: usize) -> usize {
        self.text[..at].rfind('\n').map_or(0, |i| i + 1)
    }
}

fn path_of(task: &Task<Def>, step: &Step<Def>) -> Option<PathBuf> {
    let is_script = matches!(step.op.kind, OperationKind::Builtin("script"));
    is_script.then(|| Some(resolve(&task.dir, step.arg("file")?.as_literal()?)))?
}

/// The texts that a task's steps pass to shells, in the order written.
pub fn views<'a>(
    unit: &TaskUnit,
    task: &'a Task<Def>,
    scripts: &ScriptFiles,
    sources: &Sources,
    files: &dyn Files,
) -> Vec<ScriptView<'a>> {
    let mut steps = Vec::new();
    for phase in PhaseKind::ALL {
        task.phase(phase).steps.iter().for_each(|s| walk(phase, s, &mut |phase, step| steps.push((phase, step))));
    }
    let views = parallel::map(&steps, 128, |(phase, step)| view(unit, task, *phase, step, scripts, sources, files));
    views.into_iter().flatten().collect()
}

fn walk<'a>(phase: PhaseKind, step: &'a Step<Def>, visit: &mut dyn FnMut(PhaseKind, &'a Step<Def>)) {
    visit(phase, step);
    for block in &step.blocks {
        let phase = match block.role {
            BlockRole::Setup if phase == PhaseKind::Verify => PhaseKind::Setup,
            BlockRole::Cleanup => PhaseKind::Cleanup,
            _ => phase,
        };
        block.steps.iter().for_each(|s| walk(phase, s, visit));
    }
}

fn view<'a>(
    unit: &TaskUnit,
    task: &'a Task<Def>,
    phase: PhaseKind,
    step: &'a Step<Def>,
    scripts: &ScriptFiles,
    sources: &Sources,
    files: &dyn Files,
) -> Option<ScriptView<'a>> {
    let OperationKind::Builtin(operation) = step.op.kind else { return None };
    let find = |name: &str| step.args.iter().find(|(k, _)| k.value == name);
    let keys: &[&str] = match operation {
        "command" => &["run"],
        "script" => &["inline", "file"],
        _ => return None,
    };
    let (key, value) = keys.iter().find_map(|k| find(k))?;
    let dir = match step.arg("workdir").map(Arg::as_literal) {
        Some(dir) => dir.map(|d| resolve(&task.dir, d)),
        None => Some(task.dir.clone()),
    };
    let view = |form, dir, reader, on_stdin, content| ScriptView {
        phase,
        step,
        form,
        key: key.span,
        value,
        reader,
        on_stdin,
        dir,
        content,
    };
    if key.value == "file" {
        let path = path_of(task, step)?;
        let file = scripts.get(&path, sources, files)?;
        let dir = if task.dialect == Dialect::Portable { dir } else { path.parent().map(Path::to_owned) };
        return Some(view(
            Form::File { path, executable: file.executable },
            dir,
            file.reader,
            false,
            Arc::clone(&file.content),
        ));
    }
    let node = unit.tree.node_at(value.span)?;
    let holes: Vec<_> = match task.dialect {
        Dialect::Portable => template::scan(node.text()?).holes().map(|h| h.range.clone()).collect(),
        _ => Vec::new(),
    };
    let text = masked(node.text()?, &holes);
    let own = shebang(text.trim_start()).filter(|_| key.value == "inline");
    let reader = match own {
        Some(reader) => reader,
        None if task.dialect != Dialect::Portable => Reader::Shell,
        None => match step.arg("shell").map(Arg::as_literal) {
            None => Reader::Posix,
            Some(Some(shell)) => named(shell),
            Some(None) => Reader::Shell,
        },
    };
    let free = step.arg("protocol").is_none_or(|p| p.as_literal() == Some("none"))
        && step.arg("args").is_none_or(|a| matches!(&a.kind, ArgKind::List(l) if l.is_empty()));
    let on_stdin = key.value == "inline" && own.is_none() && free;
    let form = if key.value == "run" { Form::Line } else { Form::Inline };
    let map = node.source_map();
    let first = text.len() - text.trim_start_matches('\n').len();
    let indent = margin(&sources.get(unit.file), map.span(first..first))
        .filter(|_| node.style() == Style::Literal)
        .map(str::to_owned);
    let content =
        Content { holes, style: Some(node.style()), ..Content::new(text, reader, Place::Scalar(map), indent) };
    Some(view(form, dir, reader, on_stdin, Arc::new(content)))
}

/// The text with its holes masked.
pub fn masked(text: &str, holes: &[Range<usize>]) -> String {
    let mut masked = text.to_owned();
    for hole in holes {
        let mask: String = std::iter::repeat_n(HOLE, hole.len()).collect();
        masked.replace_range(hole.clone(), &mask);
    }
    masked
}

/// The reader named in the first line.
pub fn shebang(text: &str) -> Option<Reader> {
    let line = text.strip_prefix("#!")?.lines().next()?;
    let mut words = line.split_whitespace();
    let program = words.next()?;
    if !program.ends_with("/env") {
        return Some(named(program));
    }
    words.find(|w| !w.starts_with('-') && !w.contains('=')).map(named)
}

/// The reader for a script that is passed to a program of this name.
pub fn named(shell: &str) -> Reader {
    match shell.rsplit('/').next().unwrap_or(shell) {
        "sh" | "dash" | "ash" => Reader::Posix,
        "bash" => Reader::Bash,
        "zsh" | "ksh" | "mksh" => Reader::Shell,
        _ => Reader::Foreign,
    }
}

impl ScriptView<'_> {
    /// The file of the text, if it is in its own file.
    pub fn path(&self) -> Option<&Path> {
        match &self.form {
            Form::File { path, .. } => Some(path),
            _ => None,
        }
    }

    /// What messages call it.
    pub fn what(&self) -> &'static str {
        match self.form {
            Form::Line => "command",
            _ => "script",
        }
    }

    /// Whether the exit status of this text alone decides whether its step passes: 0 passes it.
    pub fn decides_by_status(&self) -> bool {
        let usual = |expect: &Arg<Def>| match &expect.kind {
            ArgKind::Record(fields) => {
                fields.iter().all(|(name, arg)| name.value == "exitCode" && matches!(arg.kind, ArgKind::Int(0)))
            }
            _ => false,
        };
        self.is_judged() && self.step.expect.as_ref().is_none_or(|(_, expect)| usual(expect))
    }

    /// Whether the text is a shell script whose status and output decide whether its step passes.
    pub fn is_judged(&self) -> bool {
        let json = self.step.arg("protocol").is_some_and(|p| p.as_literal() != Some("none"));
        !json && self.reader != Reader::Foreign
    }
}

/// The text before a span on its line, if it is blank.
pub fn margin(source: &Source, span: Span) -> Option<&str> {
    let before = source.text().get(..span.start as usize)?;
    let line = &before[before.rfind('\n').map_or(0, |i| i + 1)..];
    line.trim().is_empty().then_some(line)
}
