//! Findings as text for people. This is the only file that implements `miette::Diagnostic`.
//!
//! miette never sees a source. It is given an [`Excerpt`]: only the relevant lines, clipped to the width of the screen
//! and without characters that would affect a terminal, and with every underline moved to the new place of its text. So
//! a file of any size and content takes a few lines, and nothing in it can break the output.

use std::{borrow::Cow, fmt, ops::Range, sync::Arc};

use miette::{
    GraphicalReportHandler, GraphicalTheme, LabeledSpan, MietteError, MietteSpanContents, Severity, SourceCode,
    SourceSpan, SpanContents, ThemeStyles,
};
use owo_colors::{OwoColorize, Style};

use super::{Applicability, Diagnostic, Fix, Strength, fix};
use crate::{
    secrets::veil,
    source::{FileId, Position, Source, Sources, Span},
};

/// How findings are printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pretty {
    pub colour: bool,
    /// Whether to draw with characters beyond ASCII.
    pub unicode: bool,
    /// The width of the screen in columns.
    pub width: usize,
    /// The maximum number of findings to print, followed by "and N more".
    pub limit: Option<usize>,
}

impl Default for Pretty {
    fn default() -> Self {
        Self { colour: false, unicode: true, width: 100, limit: Some(50) }
    }
}

impl Pretty {
    /// The marker for text that is not shown.
    fn dots(&self) -> &'static str {
        if self.unicode { "…" } else { "..." }
    }
}

/// Prints each finding with the lines it refers to, its help and its fix.
pub fn print(diagnostics: &[Diagnostic], sources: &Sources, style: &Pretty, out: &mut impl fmt::Write) -> fmt::Result {
    let shown = shown(diagnostics, style);
    for diagnostic in &shown {
        let excerpt = Excerpt::new(diagnostic, sources, style);
        let mut text = String::new();
        handler(&excerpt, style).render_report(&mut text, &excerpt)?;
        // miette indents its headline by two columns; ours starts at the first column.
        out.write_str(text.strip_prefix("  ").unwrap_or(&text))?;
        let labels = diagnostic.labels.len().saturating_sub(LABELS);
        if labels > 0 {
            writeln!(out, "  and {labels} more of these places")?;
        }
        if let Some(also) = also(diagnostic, sources, Some(PLACES)) {
            writeln!(out, "  {}", wrap(&also, 0, style.width.max(40) - 4))?;
        }
        if let Some(fix) = &diagnostic.fix {
            print_fix(fix, sources, style, out)?;
        }
        writeln!(out)?;
    }
    more(diagnostics.len() - shown.len(), out)
}

/// The findings that are shown, errors first. The limit hides warnings and notes, but never an error.
fn shown<'a>(diagnostics: &'a [Diagnostic], style: &Pretty) -> Vec<&'a Diagnostic> {
    let errors = diagnostics.iter().filter(|d| d.strength.is_error()).count();
    let mut shown = errors_first(diagnostics);
    shown.truncate(style.limit.unwrap_or(usize::MAX).max(errors));
    shown
}

/// Errors, then warnings, then notes; each group keeps its order.
pub(super) fn errors_first(diagnostics: &[Diagnostic]) -> Vec<&Diagnostic> {
    let mut sorted: Vec<_> = diagnostics.iter().collect();
    sorted.sort_by_key(|d| d.strength.max(Strength::Verdict));
    sorted
}

/// The maximum number of labels of a finding, and of places of a repeated finding, that are shown.
const LABELS: usize = 6;
const PLACES: usize = 5;

/// The other places of a finding, as text.
pub(super) fn also(diagnostic: &Diagnostic, sources: &Sources, most: Option<usize>) -> Option<String> {
    let places = &diagnostic.places;
    let most = most.unwrap_or(places.len());
    let mut shown: Vec<String> = Vec::new();
    for span in places.iter().take(most) {
        let source = sources.get(span.file);
        let Position { line, column } = source.position(span.start);
        shown.push(format!("{}:{line}:{column}", name(&source)));
    }
    let rest = match places.len().saturating_sub(most) {
        0 => String::new(),
        rest => format!(" and {rest} more"),
    };
    (!places.is_empty()).then(|| format!("also at {}{rest}", shown.join(", ")))
}

/// Prints one line for each finding: `path:line:column: error[rule] message`.
pub fn concise(
    diagnostics: &[Diagnostic],
    sources: &Sources,
    style: &Pretty,
    out: &mut impl fmt::Write,
) -> fmt::Result {
    let shown = shown(diagnostics, style);
    for diagnostic in &shown {
        let source = sources.get(diagnostic.span.file);
        let Position { line, column } = source.position(diagnostic.span.start);
        let level = format!("{}[{}]", diagnostic.strength.level(), diagnostic.rule.name);
        let level = level.style(colour_of(diagnostic.strength, style));
        let message = diagnostic.message.replace('\n', " ");
        let also = also(diagnostic, sources, style.limit.map(|_| PLACES));
        let also = also.map(|also| format!(" ({also})")).unwrap_or_default();
        writeln!(out, "{}:{line}:{column}: {level} {}{}", name(&source), visible(&message), visible(&also))?;
    }
    more(diagnostics.len() - shown.len(), out)
}

/// The last line: `found 3 errors (2 fixable), 1 warning in 12 files`.
pub fn summary(diagnostics: &[Diagnostic], files: usize) -> String {
    let kinds = ["error", "warning", "note"].map(|level| {
        let of_level = || diagnostics.iter().filter(|d| d.strength.level() == level);
        let fixable =
            of_level().filter(|d| d.fix.as_ref().is_some_and(|f| f.applicability == Applicability::Safe)).count();
        let (n, places) = of_level().fold((0, 0), |(n, places), d| (n + 1, places + 1 + d.places.len()));
        let remarks =
            [(fixable > 0).then(|| format!("{fixable} fixable")), (places > n).then(|| format!("at {places} places"))];
        let remarks: Vec<_> = remarks.into_iter().flatten().collect();
        match (n, remarks.is_empty()) {
            (0, _) => None,
            (n, true) => Some(count(n, level)),
            (n, false) => Some(format!("{} ({})", count(n, level), remarks.join(", "))),
        }
    });
    let kinds: Vec<_> = kinds.into_iter().flatten().collect();
    let files = count(files, "file");
    if kinds.is_empty() { format!("no findings in {files}") } else { format!("found {} in {files}", kinds.join(", ")) }
}

fn count(n: usize, noun: &str) -> String {
    format!("{n} {noun}{}", if n == 1 { "" } else { "s" })
}

fn more(hidden: usize, out: &mut impl fmt::Write) -> fmt::Result {
    if hidden > 0 { writeln!(out, "and {hidden} more") } else { Ok(()) }
}

fn handler(excerpt: &Excerpt, style: &Pretty) -> GraphicalReportHandler {
    let mut theme = if style.unicode { GraphicalTheme::unicode_nocolor() } else { GraphicalTheme::none() };
    // miette prints the name of a rule on a separate line. As the icon, it is where rustc users expect it.
    let headline = format!("{}[{}]:", excerpt.strength.level(), excerpt.rule);
    let icons = &mut theme.characters;
    (icons.error, icons.warning, icons.advice) = (headline.clone(), headline.clone(), headline);
    if style.colour {
        let [primary, other] = [colour_of(excerpt.strength, style), Style::new().bright_blue().bold()];
        theme.styles = ThemeStyles {
            error: primary,
            warning: primary,
            advice: primary,
            help: HELP,
            link: Style::new().cyan(),
            linum: Style::new().dimmed(),
            highlights: excerpt.marks.iter().map(|m| if m.primary { primary } else { other }).collect(),
        };
    }
    // `wrap` wraps the lines, because it does not break names.
    GraphicalReportHandler::new_themed(theme)
        .with_width(usize::from(u16::MAX))
        .with_wrap_lines(false)
        .with_links(false)
        .without_syntax_highlighting()
}

const HELP: Style = Style::new().cyan();

fn colour_of(strength: Strength, style: &Pretty) -> Style {
    match strength {
        _ if !style.colour => Style::new(),
        Strength::Hard | Strength::Verdict => Style::new().red().bold(),
        Strength::Warning => Style::new().yellow().bold(),
        Strength::Note => Style::new().blue().bold(),
    }
}

/// The maximum height of a span that is shown in full; only the first line of a taller one is shown.
const TALLEST: usize = 4;

/// One finding as miette sees it: its texts and its lines.
#[derive(Debug)]
struct Excerpt {
    strength: Strength,
    rule: &'static str,
    message: String,
    help: Option<String>,
    /// The lines of all snippets, one snippet after the other.
    text: String,
    snippets: Vec<Snippet>,
    /// In the order of their places in `text`.
    marks: Vec<Mark>,
}

/// Successive lines of one file.
#[derive(Debug)]
struct Snippet {
    name: String,
    /// Their range in [`Excerpt::text`].
    range: Range<usize>,
    /// Their line numbers in their file, from 0.
    lines: Range<usize>,
    /// The position in the snippet's title.
    at: Position,
}

/// An underline.
#[derive(Clone, Debug)]
struct Mark {
    file: FileId,
    source: Arc<Source>,
    /// Bytes of the source, at character boundaries and before the end of a line.
    from: Range<usize>,
    lines: Range<usize>,
    /// Bytes of [`Excerpt::text`].
    to: Range<usize>,
    message: String,
    primary: bool,
}

impl Excerpt {
    fn new(diagnostic: &Diagnostic, sources: &Sources, style: &Pretty) -> Self {
        let width = style.width.max(40);
        let mark = |span: Span, message: &str, primary| Mark::new(span, message, primary, sources);
        let mut marks = vec![mark(diagnostic.span, &diagnostic.label, true)];
        marks.extend(diagnostic.labels.iter().take(LABELS).map(|l| mark(l.span, &l.message, false)));

        let (mut text, mut snippets) = (String::new(), Vec::new());
        for group in group(marks) {
            snippets.push(Snippet::write(group, width, style, &mut text));
        }
        let (snippets, marks): (Vec<_>, Vec<_>) = snippets.into_iter().unzip();
        Self {
            strength: diagnostic.strength,
            rule: diagnostic.rule.name,
            message: wrap(&diagnostic.message, diagnostic.rule.name.len() + 8, width - 4),
            help: diagnostic.help.as_ref().map(|help| wrap(help, 0, width - 8)),
            text,
            snippets,
            marks: marks.into_iter().flat_map(apart).collect(),
        }
    }
}

impl Mark {
    fn new(span: Span, message: &str, primary: bool, sources: &Sources) -> Self {
        let source = sources.get(span.file);
        let text = source.text();
        let start = text.floor_char_boundary(span.start as usize);
        let end = text.ceil_char_boundary((span.end as usize).max(start));
        let first = line_of(&source, start);
        let mut last = line_of(&source, end);
        if last > first && line_start(&source, last) == end {
            last -= 1;
        }
        if last - first >= TALLEST {
            last = first;
        }
        let start = start.clamp(line(&source, first).start, line(&source, first).end);
        let end = end.clamp(start, line(&source, last).end.max(start));
        let message = visible(message).into_owned();
        Self { file: span.file, source, from: start..end, lines: first..last + 1, to: 0..0, message, primary }
    }

    /// Its lines plus one before and one after, without the empty line after a final `\n`.
    fn context(&self) -> Range<usize> {
        let starts = self.source.line_starts().len();
        let last_is_empty = line(&self.source, starts - 1).is_empty();
        let count = starts - usize::from(last_is_empty);
        self.lines.start.saturating_sub(1)..(self.lines.end + 1).min(count).max(self.lines.end)
    }
}

/// Groups marks into snippets: marks whose lines touch. The snippet with the primary mark comes first, then the others of
/// its file.
fn group(mut marks: Vec<Mark>) -> Vec<Vec<Mark>> {
    let home = marks.iter().find(|m| m.primary).map(|m| m.file);
    marks.sort_by_key(|m| (Some(m.file) != home, m.source.path().to_owned(), m.lines.start));
    let mut groups: Vec<(usize, Vec<Mark>)> = Vec::new();
    for mark in marks {
        let context = mark.context();
        match groups.last_mut() {
            Some((end, group)) if group[0].file == mark.file && context.start <= *end => {
                *end = context.end.max(*end);
                group.push(mark);
            }
            _ => groups.push((context.end, vec![mark])),
        }
    }
    groups.sort_by_key(|(_, group)| !group.iter().any(|m| m.primary));
    groups.into_iter().map(|(_, group)| group).collect()
}

impl Snippet {
    /// Appends the lines around `marks` to `text`.
    fn write(mut marks: Vec<Mark>, width: usize, style: &Pretty, text: &mut String) -> (Self, Vec<Mark>) {
        let source = Arc::clone(&marks[0].source);
        let contexts = marks.iter().map(Mark::context);
        let lines = contexts.reduce(|a, b| a.start.min(b.start)..a.end.max(b.end)).unwrap_or(0..1);
        // Line number, frame and gutter; a multi-line mark needs five more columns.
        let room = width.saturating_sub(lines.end.to_string().len() + 4 + 5).max(24);
        let dots = style.dots();
        let from = text.len();
        for number in lines.clone() {
            let whole = line(&source, number);
            let on_line = |m: &&Mark| m.lines.contains(&number);
            let mark = marks.iter().filter(on_line).min_by_key(|m| (!m.primary, m.from.start));
            let anchor = mark.map_or(whole.start, |m| m.from.start.max(whole.start));
            let window = window(source.text(), whole.clone(), anchor, room);
            text.push_str(if window.start > whole.start { dots } else { "" });
            let base = text.len();
            let moved = |offset: usize| {
                let until = offset.clamp(window.start, window.end);
                base + visible(&source.text()[window.start..until]).len()
            };
            for mark in &mut marks {
                if mark.lines.start == number {
                    mark.to.start = moved(mark.from.start);
                }
                if mark.lines.end == number + 1 {
                    mark.to.end = moved(mark.from.end).max(mark.to.start);
                }
            }
            text.push_str(&visible(&veiled(source.text(), &whole, &window)));
            text.push_str(if window.end < whole.end { dots } else { "" });
            text.push('\n');
        }
        let named = marks.iter().min_by_key(|m| (!m.primary, m.to.start)).map_or(0, |m| m.from.start);
        let at = source.position(u32::try_from(named).unwrap_or(u32::MAX));
        (Self { name: name(&source).into_owned(), range: from..text.len(), lines, at }, marks)
    }
}

/// Separates overlapping marks on a line, because underlines share one row. The inner one of two stays whole.
fn apart(mut marks: Vec<Mark>) -> Vec<Mark> {
    marks.sort_by_key(|m| (m.to.start, m.to.end));
    let mut out: Vec<Mark> = Vec::new();
    for mut mark in marks {
        if let Some(last) = out.last_mut().filter(|last| last.lines == mark.lines && mark.lines.len() == 1) {
            if last.to == mark.to {
                last.primary |= mark.primary;
                let parts = [std::mem::take(&mut last.message), mark.message];
                last.message = parts.into_iter().filter(|m| !m.is_empty()).collect::<Vec<_>>().join("\n");
                continue;
            }
            if last.to.start < mark.to.start {
                last.to.end = last.to.end.min(mark.to.start);
            } else {
                mark.to.start = last.to.end;
            }
        }
        out.push(mark);
    }
    out
}

impl fmt::Display for Excerpt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Excerpt {}

impl miette::Diagnostic for Excerpt {
    fn severity(&self) -> Option<Severity> {
        Some(match self.strength {
            Strength::Hard | Strength::Verdict => Severity::Error,
            Strength::Warning => Severity::Warning,
            Strength::Note => Severity::Advice,
        })
    }

    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        self.help.as_ref().map(|help| Box::new(help) as Box<dyn fmt::Display>)
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        Some(self)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        Some(Box::new(self.marks.iter().map(|mark| {
            let message = (!mark.message.is_empty()).then(|| mark.message.clone());
            let span = (mark.to.start, mark.to.len());
            if mark.primary {
                LabeledSpan::new_primary_with_span(message, span)
            } else {
                LabeledSpan::new_with_span(message, span)
            }
        })))
    }
}

impl SourceCode for Excerpt {
    /// Always returns the whole snippet, even if less is requested. If miette requests no context, it wants the title.
    fn read_span<'a>(
        &'a self,
        span: &SourceSpan,
        before: usize,
        after: usize,
    ) -> Result<Box<dyn SpanContents<'a> + 'a>, MietteError> {
        let index = self.snippets.partition_point(|s| s.range.end <= span.offset());
        let snippet = self.snippets.get(index).ok_or(MietteError::OutOfBounds)?;
        if span.offset() + span.len() > snippet.range.end {
            return Err(MietteError::OutOfBounds);
        }
        let (line, column) =
            if before + after == 0 { (snippet.at.line - 1, snippet.at.column - 1) } else { (snippet.lines.start, 0) };
        Ok(Box::new(MietteSpanContents::new_named(
            snippet.name.clone(),
            &self.text.as_bytes()[snippet.range.clone()],
            (snippet.range.start, snippet.range.len()).into(),
            line,
            column,
            snippet.lines.len(),
        )))
    }
}

fn print_fix(fix: &Fix, sources: &Sources, style: &Pretty, out: &mut impl fmt::Write) -> fmt::Result {
    let help = if style.colour { HELP } else { Style::new() };
    let width = style.width.max(40);
    let (title, option) = match fix.applicability {
        Applicability::Safe => ("fix:", "--fix"),
        Applicability::Unsafe => ("unsafe fix:", "--unsafe-fixes"),
    };
    let text = wrap(&format!("{} (`gevals check {option}`)", fix.description), 0, width - title.len() - 3);
    writeln!(out, "  {} {}", title.style(help), text.replace('\n', "\n       "))?;
    let Some((old, new)) = change(fix, sources) else { return Ok(()) };
    let lines = || old.iter().chain(&new);
    let indent = lines().map(|l| l.len() - l.trim_start_matches([' ', '\t']).len()).min().unwrap_or(0);
    // The place of the first difference; a long line is clipped around it.
    let agree = |a: &String, b: &String| a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
    let anchor = old.first().zip(new.first()).map_or(0, |(a, b)| agree(a, b));
    let (red, green) = if style.colour { (Style::new().red(), Style::new().green()) } else { Default::default() };
    for (sign, line, colour) in old.iter().map(|l| ('-', l, red)).chain(new.iter().map(|l| ('+', l, green))) {
        let anchor = line.floor_char_boundary(anchor.max(indent));
        let window = window(line, indent..line.len(), anchor, width - 9 - 2 * style.dots().len());
        let before = if window.start > indent { style.dots() } else { "" };
        let after = if window.end < line.len() { style.dots() } else { "" };
        let shown = visible(&veiled(line, &(0..line.len()), &window)).replace('\t', "    ");
        writeln!(out, "       {}", format_args!("{sign} {before}{shown}{after}").style(colour))?;
    }
    Ok(())
}

/// The lines that `fix` removes and adds, if that is about one line.
fn change(fix: &Fix, sources: &Sources) -> Option<(Vec<String>, Vec<String>)> {
    let file = fix.edits.first()?.span.file;
    if fix.edits.iter().any(|e| e.span.file != file) {
        return None;
    }
    let source = sources.get(file);
    let text = source.text();
    let start = fix.edits.iter().map(|e| e.span.start).min()? as usize;
    let end = fix.edits.iter().map(|e| e.span.end).max()? as usize;
    let (first, last) = (line_of(&source, start), line_of(&source, end));
    if end < start || end > text.len() || last - first > 2 {
        return None;
    }
    let (from, to) = (line(&source, first).start, line(&source, last).end);
    let mut edits = fix.edits.clone();
    for edit in &mut edits {
        edit.span.start = edit.span.start.checked_sub(u32::try_from(from).ok()?)?;
        edit.span.end = edit.span.end.checked_sub(u32::try_from(from).ok()?)?;
    }
    let old = text.get(from..to)?;
    let new = fix::apply(old, &edits).ok()?;
    let (mut old, mut new): (Vec<_>, Vec<_>) = (old.lines().collect(), new.lines().collect());
    while old.last().is_some() && old.last() == new.last() {
        old.pop();
        new.pop();
    }
    let same = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let (old, new) = (&old[same..], &new[same..]);
    let owned = |lines: &[&str]| lines.iter().map(|&l| l.to_owned()).collect();
    (old.len() <= 1 && new.len() <= TALLEST).then(|| (owned(old), owned(new)))
}

fn name(source: &Source) -> Cow<'_, str> {
    match source.path().to_string_lossy() {
        Cow::Borrowed(name) => visible(name),
        Cow::Owned(name) => Cow::Owned(visible(&name).into_owned()),
    }
}

/// The number of the line that contains a byte, from 0.
fn line_of(source: &Source, offset: usize) -> usize {
    source.line_starts().partition_point(|&s| s as usize <= offset).saturating_sub(1)
}

fn line_start(source: &Source, line: usize) -> usize {
    source.line_starts().get(line).map_or(source.text().len(), |&s| s as usize)
}

/// The bytes of a line, without its line ending and without a byte order mark.
fn line(source: &Source, number: usize) -> Range<usize> {
    let (start, end) = (line_start(source, number), line_start(source, number + 1));
    let text = &source.text()[start..end];
    let content = text.strip_suffix('\n').map_or(text, |t| t.strip_suffix('\r').unwrap_or(t));
    let mark = if start == 0 && content.starts_with('\u{feff}') { 3 } else { 0 };
    start + mark..start + content.len()
}

/// The part of a line that is shown, with secrets masked. The text that identifies a secret may be a little before the
/// window.
fn veiled<'t>(text: &'t str, line: &Range<usize>, window: &Range<usize>) -> Cow<'t, str> {
    const BEFORE: usize = 200;
    let from = text.ceil_char_boundary(window.start.saturating_sub(BEFORE)).clamp(line.start, window.start);
    match veil(&text[from..window.end]) {
        Cow::Borrowed(_) => Cow::Borrowed(&text[window.clone()]),
        Cow::Owned(veiled) => Cow::Owned(veiled[window.start - from..].to_owned()),
    }
}

/// The part of a line that is shown: all of it if it fits, otherwise the part around `anchor`. The cost does not depend
/// on the length of the line.
fn window(text: &str, line: Range<usize>, anchor: usize, room: usize) -> Range<usize> {
    let fitting = |text: &str, room: usize| {
        let mut used = 0;
        let fits = text.char_indices().take_while(|(_, c)| {
            used += columns(*c);
            used <= room
        });
        fits.last().map_or(0, |(i, c)| i + c.len_utf8())
    };
    let end = line.start + fitting(&text[line.clone()], room);
    if end == line.end || anchor <= line.start + fitting(&text[line.clone()], room * 2 / 3) {
        return line.start..end;
    }
    let mut used = 0;
    let before = text[line.start..anchor].char_indices().rev().take_while(|(_, c)| {
        used += columns(*c);
        used <= room / 3
    });
    let start = line.start + before.last().map_or(anchor - line.start, |(i, _)| i);
    start..start + fitting(&text[start..line.end], room)
}

/// The approximate width of a character on the screen; an upper estimate.
fn columns(c: char) -> usize {
    match c {
        '\t' => 4,
        c if acts(c) => c.escape_default().count(),
        '\u{1100}'.. => 2,
        _ => 1,
    }
}

/// Whether a character would mislead a terminal or a reader: control characters, and characters that change the text
/// direction or have no width.
fn acts(c: char) -> bool {
    let hides = matches!(
        c,
        '\u{ad}' | '\u{61c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
    );
    hides || (c.is_control() && !matches!(c, '\t' | '\n'))
}

/// `text` with each character that [`acts`] escaped. A prefix of `text` becomes a prefix of the result.
pub(crate) fn visible(text: &str) -> Cow<'_, str> {
    // Most texts are plain, and checking bytes is faster than checking characters.
    if text.bytes().all(|byte| (b' '..=b'~').contains(&byte)) || !text.contains(acts) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if acts(c) { out.extend(c.escape_default()) } else { out.push(c) }
    }
    Cow::Owned(out)
}

/// Wraps lines at spaces. The first line starts after `used` columns. A long word is not broken, so that it can be
/// copied.
fn wrap(text: &str, mut used: usize, width: usize) -> String {
    let text = visible(text);
    let mut out = String::with_capacity(text.len() + 8);
    for (i, line) in text.lines().enumerate() {
        if i > 0 {
            out.push('\n');
            used = 0;
        }
        for (j, word) in line.split(' ').enumerate() {
            let wide: usize = word.chars().map(columns).sum();
            if j > 0 {
                let fits = used + 1 + wide <= width;
                out.push(if fits { ' ' } else { '\n' });
                used = if fits { used + 1 } else { 0 };
            }
            out.push_str(word);
            used += wide;
        }
    }
    out
}
