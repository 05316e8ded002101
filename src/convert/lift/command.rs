//! Converts one command: its words, its input and its expected result.

use super::{
    Lifter, Out, PIPEFAIL, State, filters,
    statement::{by_line, here_string, is_special},
};
use crate::{
    bash::{
        self,
        ast::{Kind, Part, Redirect, Simple, Stmt, Word},
        flow,
        tools::{self, fails_with_one},
    },
    builtin::command::ExitCode,
    convert::{
        Label,
        pattern::{self, Grep, Wanted},
        shell::{Piece, Text},
        step::{self, Expect, HttpExpect, Step},
    },
    hir::PhaseKind,
    template,
    ty::duration,
};

/// Built-in commands that are also programs, or that are handled further down.
const ALSO_PROGRAMS: [&str; 8] = ["[", "command", "echo", "false", "printf", "pwd", "test", "true"];

pub(super) const ONE_STATUS: &str = "it expects status 1, but the script accepted any status except 0";
/// `{not: 0}` is not met by 126, by 127 and by a signal.
pub(super) const NOT_FOUND: &str = "a command that is not found or is killed has not failed as expected";
pub(super) const PIPE_STATUS: &str =
    "the command itself must succeed as well, not only the command that reads its output";
pub(super) const PIPE_DENIED: &str = "its output counts even if the command failed";
pub(super) const OUTPUT_STATUS: &str = "the command must succeed as well, not only print this";
/// jq 1.6 succeeds with `-e` if it reads nothing.
const SWALLOWED: &str = "`echo` takes the values `-n`, `-e` and `-E` for options, and jq may succeed without input";
pub(super) const BARE: &str = "a value with several words or surrounding spaces is treated differently";
pub(super) const PLAIN_NUMBER: &str = "only plain decimal numbers are compared";
pub(super) const NOT_A_NUMBER: &str =
    "only plain decimal numbers are compared; the script continued if the value was not a number";

impl<'a> Lifter<'a> {
    /// Returns the literal name of a command.
    pub(super) fn name<'s>(&self, simple: &'s Simple) -> Option<&'s str> {
        match simple.words.first()?.parts.as_slice() {
            [Part::Text { text, .. }] => Some(text),
            _ => None,
        }
    }

    /// Converts a simple command to a step that passes if and only if the command succeeds.
    pub(super) fn command(&self, simple: &Simple, st: &State, captured: bool) -> Option<Out> {
        let name = self.name(simple)?;
        let shells = bash::BUILTINS.contains(&name) && !ALSO_PROGRAMS.contains(&name);
        if shells || st.scope.functions.contains_key(name) {
            return None;
        }
        if name == "command" && simple.words.get(1)?.source != "-v" {
            return None;
        }
        let mut env = st.exported.clone();
        for assign in &simple.env {
            let value = st.scope.parts(&assign.value.as_ref()?.parts, true)?;
            env.push((assign.name.clone(), self.template(&value)));
        }
        let mut input = None;
        let mut merged = false;
        let mut discards = 0;
        for redirect in &simple.redirects {
            match redirect {
                Redirect::Discard(which) => discards |= which,
                Redirect::Merge => merged = true,
                Redirect::ToStderr if !captured => {}
                Redirect::Heredoc(parts) if input.is_none() => input = Some(parts),
                Redirect::Write(target) if !captured => {
                    return self.written_file(simple, target, st).or_else(|| self.written_to(simple, st));
                }
                Redirect::Append(_) if !captured => return self.written_to(simple, st),
                _ => return None,
            }
        }
        if captured && (merged || discards & 1 != 0) {
            return None;
        }
        if let Some(parts) = input {
            return self.fed(simple, parts, st, captured);
        }
        if name == "curl"
            && let Some(out) = self.http(simple, st, captured)
        {
            return Some(out);
        }
        let name = if name == "[" { "test" } else { name };
        let mut words = vec![match name {
            "test" => name.to_owned(),
            _ => self.written(&simple.words[0], st, &mut env)?,
        }];
        for word in &simple.words[1..] {
            // What `echo` prints for a value depends on the shell and on the value.
            let open = st.scope.word(word)?.has_open_hole();
            (!(open && matches!(name, "echo" | "printf"))).then_some(())?;
            words.push(self.written(word, st, &mut env)?);
        }
        if simple.words[0].literal()? == "[" && words.last().is_some_and(|w| w == "]") {
            words.pop();
        }
        // Only a mistake that is visible: without their last word, `test` and `rm` often do the same.
        let placed = words.last().is_some_and(|w| w == "FILE");
        if words.len() > 2 && !placed && !matches!(name, "test" | "rm" | "mkdir") && self.shared.err() {
            words.pop();
        }
        // A limit in a variable is known if nothing can change it any more.
        let known = simple.words.iter().zip(&words).map(|(word, written)| {
            st.scope.word(word).and_then(|text| self.fixed(&text)).unwrap_or_else(|| written.clone())
        });
        let limit = limit(&known.collect::<Vec<_>>());
        let mut step = Step::command(words.join(" "));
        limit.of(&mut step);
        if let step::Kind::Command { workdir, env: own, .. } = &mut step.kind {
            if !(matches!(name, "kubectl" | "oc") && is_placeless(&words)) {
                workdir.clone_from(&st.workdir);
            }
            *own = env;
        }
        Some(Out::step(step))
    }

    /// Renders a word of a command. A value that is not known yet is passed in a variable of the step, never in the text of its
    /// shell.
    fn written(&self, word: &Word, st: &State, env: &mut Vec<(String, String)>) -> Option<String> {
        let text = st.scope.word(word)?;
        self.uses(&text);
        if let Some(literal) = word.literal() {
            // Keeps the author's quotes if every shell reads them the same way.
            let plain = !word.source.contains(['\\', '$', '`']) && !word.source.contains('\n') && !literal.is_empty();
            return Some(if plain { word.source.clone() } else { bash::quote(&literal) });
        }
        if text.0.iter().all(|p| matches!(p, Piece::Literal(_))) {
            return text.constant().map(|text| if bash::is_safe(&text) { text } else { bash::quote(&text) });
        }
        Some(self.open(&text, env))
    }

    /// Renders a text with values as a word of variables, quoted as the author quoted them.
    fn open(&self, text: &Text, env: &mut Vec<(String, String)>) -> String {
        let whole = text.0.iter().all(|p| match p {
            Piece::Literal(text) => !text.contains(['"', '\\', '$', '`']),
            Piece::Hole { safe, quoted, .. } => *safe || *quoted,
        });
        let mut out = String::new();
        // Text directly after a variable could extend its name.
        let mut named = false;
        for piece in &text.0 {
            let was_named = std::mem::take(&mut named);
            match piece {
                Piece::Literal(text) => {
                    let goes_on = was_named && text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
                    match (whole, goes_on) {
                        (true, false) => out += text,
                        (true, true) => out += &format!("\"\"{text}"),
                        (false, false) => out += &bash::quote(text),
                        (false, true) => out += &format!("''{}", bash::quote(text)),
                    }
                }
                // With quotes it is the same single word as without them.
                Piece::Hole { text, quoted, safe, .. } => {
                    let name = self.variable(text, env);
                    named = whole || !quoted && !safe;
                    out += &if named { format!("${name}") } else { format!("\"${name}\"") };
                }
            }
        }
        if whole { format!("\"{out}\"") } else { out }
    }

    /// Returns the variable that carries the value of a hole: that of the task, if it has one, otherwise that of the step.
    fn variable(&self, hole: &str, env: &mut Vec<(String, String)>) -> String {
        let taken = |name: &str, env: &[(String, String)]| env.iter().any(|(other, _)| other == name);
        if let Some(name) = hole.strip_prefix("{env.").and_then(|t| t.strip_suffix('}'))
            && self.shared.env.contains_key(name)
            && !taken(name, env)
        {
            return name.to_owned();
        }
        if let Some((name, _)) = env.iter().find(|(_, value)| value == hole) {
            return name.clone();
        }
        let path = hole.trim_matches(['{', '}']);
        let path = path.strip_prefix("steps.").or_else(|| path.strip_prefix("env.")).unwrap_or(path);
        let own = path.split(['.', ' ', '|', '[']).next().unwrap_or_default();
        let mut name: String =
            own.to_ascii_uppercase().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        while !bash::ast::is_name(&name)
            || is_special(&name)
            || self.shared.env.contains_key(&name)
            || taken(&name, env)
        {
            name.insert_str(0, "THE_");
        }
        env.push((name.clone(), hole.to_owned()));
        name
    }

    /// Records the variables that a text needs.
    pub(super) fn uses(&self, text: &Text) {
        for piece in &text.0 {
            if let Piece::Hole { text, .. } = piece
                && let Some(name) = text.strip_prefix("{env.").and_then(|t| t.strip_suffix('}'))
                && self.shared.env.contains_key(name)
            {
                self.shared.env_used.borrow_mut().insert(name.to_owned());
            }
        }
    }

    pub(super) fn template(&self, text: &Text) -> String {
        self.uses(text);
        text.template()
    }

    /// `cat > FILE <<EOF`, `echo TEXT > FILE`.
    fn written_file(&self, simple: &Simple, target: &Word, st: &State) -> Option<Out> {
        let path = st.scope.word(target)?;
        let known = path.constant()?;
        // The step would create a missing parent directory, where the shell fails.
        let parent = known.rsplit_once('/').map_or("", |(dir, _)| dir);
        if !matches!(parent, "" | "/tmp") && !st.has_made(parent) || known.starts_with("/dev/") {
            return None;
        }
        if simple.redirects.iter().any(|r| !matches!(r, Redirect::Write(_) | Redirect::Heredoc(_)))
            || !simple.env.is_empty()
        {
            return None;
        }
        let heredoc = simple.redirects.iter().find_map(|r| if let Redirect::Heredoc(p) = r { Some(p) } else { None });
        let content = match (self.name(simple)?, heredoc) {
            ("cat", Some(parts)) if simple.words.len() == 1 => st.scope.parts(parts, true)?,
            ("echo", None) if simple.words.len() == 2 && !simple.words[1].source.starts_with('-') => {
                let mut text = st.scope.word(&simple.words[1])?;
                if text.constant().is_none_or(|c| c.contains('\\')) {
                    return None;
                }
                text.0.push(Piece::Literal("\n".to_owned()));
                text
            }
            _ => return None,
        };
        let path = match (&st.workdir, known.starts_with('/')) {
            (Some(dir), false) => format!("{dir}/{}", self.template(&path)),
            _ => self.template(&path),
        };
        let mut content = self.template(&content);
        if self.shared.err() {
            content.push('#');
        }
        Some(Out::step(Step::new(step::Kind::File { path, content: Some(content), mode: None })))
    }

    /// `COMMAND > FILE`, `COMMAND >> FILE`: one line of shell, which opens the file as the script did.
    pub(super) fn written_to(&self, simple: &Simple, st: &State) -> Option<Out> {
        let kind = Kind::Simple(simple.clone());
        let stmt = Stmt { range: 0..0, kind, comments: Vec::new(), background: false };
        self.line_of(&[stmt], Purpose::Status, st, false)
    }

    /// Renders the name of a file after `>`. bash splits it if it is a value without quotes, which other shells do not.
    fn target(&self, file: &Word, st: &State, env: &mut Vec<(String, String)>) -> Option<String> {
        let text = st.scope.word(file)?;
        let bare = text.0.iter().any(|p| matches!(p, Piece::Hole { safe: false, quoted: false, .. }));
        // bash opens some of these itself.
        let device = text.constant().is_some_and(|path| path.starts_with("/dev/"));
        (!bare && !device).then(|| self.written(file, st, env))?
    }

    /// `kubectl apply -f - <<EOF`: a file, and the command that reads it.
    fn fed(&self, simple: &Simple, parts: &[Part], st: &State, captured: bool) -> Option<Out> {
        let name = self.name(simple)?;
        if matches!(name, "psql" | "sqlite3" | "mysql" | "mariadb") {
            return self.queried(simple, parts, st, captured);
        }
        let verbs = ["apply", "create", "delete", "replace"];
        simple.words.iter().filter_map(Word::literal).any(|w| verbs.contains(&w.as_str())).then_some(())?;
        if !matches!(name, "kubectl" | "oc") {
            return None;
        }
        let content = st.scope.parts(parts, true)?;
        let constant = content.constant().unwrap_or_else(|| content.template());
        let path = self.shared.file(&manifest_name(&constant).unwrap_or_else(|| "manifest".to_owned()), "yaml");
        let mut text = self.template(&content);
        if self.shared.err() {
            text = text.replacen("name", "nam", 1);
        }
        let mut simple = simple.clone();
        simple.redirects.retain(|r| !matches!(r, Redirect::Heredoc(_)));
        let out = self.reader(&simple, &path, Input::Exact, st, false)?;
        let file = Step::new(step::Kind::File { path, content: Some(text), mode: None });
        Some(Out { label: out.label, ..Out::step(file).then(out) })
    }

    /// `sqlite3 FILE <<EOF`: a file of statements, and the client that reads it.
    fn queried(&self, simple: &Simple, parts: &[Part], st: &State, captured: bool) -> Option<Out> {
        let mut simple = simple.clone();
        simple.redirects.retain(|r| !matches!(r, Redirect::Heredoc(_)));
        let content = st.scope.parts(parts, true)?;
        // A value that is not constant could contain additional statements.
        content.constant()?;
        let mut out = self.command(&simple, st, captured)?;
        let path = self.shared.file("statements", "sql");
        let step = out.last()?;
        let step::Kind::Command { run, env, .. } = &mut step.kind else { return None };
        let taken = |name: &str| self.shared.env.contains_key(name) || env.iter().any(|(other, _)| other == name);
        let name = ["FILE", "INPUT_FILE", "THE_INPUT_FILE"].into_iter().find(|name| !taken(name))?;
        run.push_str(&format!(" < \"${name}\""));
        step.given(name, path.clone());
        let mut text = self.template(&content);
        if self.shared.err() {
            text.push_str("SELECT 1;\n");
        }
        let file = Step::new(step::Kind::File { path, content: Some(text), mode: None });
        Some(Out { label: out.label, ..Out::step(file).then(out) })
    }

    /// Converts a command so that it reads a file instead of its standard input.
    fn reader(&self, simple: &Simple, path: &str, input: Input, st: &State, captured: bool) -> Option<Out> {
        let mut simple = simple.clone();
        let file = Word::read("FILE", 0);
        match self.name(&simple)? {
            "kubectl" | "oc" => {
                let place = simple.words.iter().position(|w| w.source == "-")?;
                matches!(simple.words[place - 1].source.as_str(), "-f" | "--filename").then_some(())?;
                simple.words[place] = file;
            }
            name => {
                let words: Option<Vec<String>> =
                    simple.words[1..].iter().map(|w| st.scope.word(w).map(known_or_some)).collect();
                reads_input(name, &words?, input).then_some(())?;
                simple.words.push(file);
            }
        }
        let mut out = self.command(&simple, st, captured)?;
        let step = out.last()?;
        let step::Kind::Command { run, env, .. } = &mut step.kind else { return None };
        let at = run.rfind(" FILE")?;
        let taken = |name: &str| self.shared.env.contains_key(name) || env.iter().any(|(other, _)| other == name);
        let name = ["FILE", "INPUT_FILE", "THE_INPUT_FILE"].into_iter().find(|name| !taken(name))?;
        run.replace_range(at + 1..at + 5, &format!("\"${name}\""));
        step.given(name, path.to_owned());
        Some(out)
    }

    /// `A | F`: writes what `A` prints to a file, which `F` reads. With `strict`, each must succeed, as under `pipefail`.
    pub(super) fn filtered(&self, list: &[Stmt], st: &State, strict: bool, captured: bool) -> Option<Out> {
        let (first, filters) = list.split_first()?;
        if let Kind::Simple(simple) = &first.kind
            && let Some(mut list) = here_string(simple)
        {
            list.extend_from_slice(filters);
            return self.filtered(&list, st, strict, captured);
        }
        ends(first).then_some(())?;
        let json = filters.iter().any(|f| matches!(&f.kind, Kind::Simple(s) if self.name(s) == Some("jq")));
        // Even under `pipefail`, a command runs on what another one printed before it failed.
        let acts = |s: &Stmt| matches!(&s.kind, Kind::Simple(s) if matches!(self.name(s), Some("kubectl" | "oc")));
        let late = strict && filters.last().is_some_and(acts);
        (!late || filters.len() == 1).then_some(())?;
        let strict = strict && !late;
        if let (Kind::Simple(first), Some(Stmt { kind: Kind::Simple(grep), .. })) = (&first.kind, filters.first())
            && is_echo(first)
            && self.name(grep) == Some("grep")
            && self.wanted(grep, st).is_some_and(|wanted| takes_option(&expect_of(wanted)))
        {
            return None;
        }
        let (mut out, mut path) = match self.constant(first, st).filter(|_| filters.iter().all(acts)) {
            Some(text) => {
                let path = self.shared.file("manifest", "yaml");
                let file = step::Kind::File { path: path.clone(), content: Some(text), mode: None };
                (Out::step(Step::new(file)), path)
            }
            None => self.printed(first, json, st, strict)?,
        };
        let ids: Vec<String> = out.steps.iter().filter_map(|s| s.id.clone()).filter(|_| late).collect();
        let Kind::Simple(printing) = &first.kind else { return None };
        let words: Vec<&str> = printing.words.iter().map(|w| w.source.as_str()).collect();
        let input = match words[0] {
            "echo" | "printf" => Input::Exact,
            _ if by_line(&words) => Input::Lines,
            _ => Input::Text,
        };
        for (i, filter) in filters.iter().enumerate() {
            let Kind::Simple(simple) = &filter.kind else { return None };
            let last = i + 1 == filters.len();
            let mut more = self.reader(simple, &path, input, st, captured || !last)?;
            if !last {
                let wish = self.name(simple)?.to_owned();
                let file;
                (more, file) = self.kept(more, &wish, "txt", strict)?;
                path = file;
            }
            out = out.then(more);
        }
        out.steps.extend(ids.iter().map(|id| Step::of_status(id, "-eq")));
        let exits = |word: &Word| {
            word.source == "--exit-status"
                || word.source.starts_with('-') && !word.source.starts_with("--") && word.source.contains('e')
        };
        let swallows = is_echo(printing)
            && matches!(&filters.last()?.kind, Kind::Simple(s) if self.name(s) == Some("jq") && s.words.iter().any(exits));
        Some(if swallows { out.but(Label::Stronger, SWALLOWED) } else { out })
    }

    /// `echo "$NAME"`, with a known text that `echo` does not take as an option: returns the text as a template.
    fn constant(&self, stmt: &Stmt, st: &State) -> Option<String> {
        let Kind::Simple(simple) = &stmt.kind else { return None };
        let plain = is_echo(simple) && simple.redirects.is_empty() && simple.env.is_empty();
        let word = handed_on(simple).filter(|_| plain)?;
        let [Part::Var { default: None, quoted: true, .. }] = word.parts.as_slice() else { return None };
        let text = st.scope.word(word)?;
        text.constant().filter(|text| !text.starts_with('-'))?;
        Some(self.template(&text) + "\n")
    }

    /// Writes what a statement prints to a file.
    fn printed(&self, stmt: &Stmt, json: bool, st: &State, strict: bool) -> Option<(Out, String)> {
        let Kind::Simple(simple) = &stmt.kind else { return None };
        let ending = if json { "json" } else { "txt" };
        if matches!(self.name(simple)?, "echo" | "printf") {
            let word = handed_on(simple)?;
            let [Part::Var { name, default: None, quoted: true }] = word.parts.as_slice() else { return None };
            if let Some(path) = st.scope.files.get(name) {
                return Some((Out::none(), path.clone()));
            }
            let text = st.scope.get(name)?;
            text.constant().is_none().then_some(())?;
            let path = self.shared.file(&name.to_ascii_lowercase().replace('_', "-"), ending);
            let content = Some(self.template(text) + "\n");
            return Some((Out::step(Step::new(step::Kind::File { path: path.clone(), content, mode: None })), path));
        }
        let out = self.command(simple, st, true)?;
        self.kept(out, &subject(simple), ending, strict)
    }

    /// Writes what a command prints to a file.
    fn kept(&self, mut out: Out, wish: &str, ending: &str, strict: bool) -> Option<(Out, String)> {
        let step = out.last()?;
        let step::Kind::Command { .. } = &step.kind else { return None };
        let id = self.shared.id(wish);
        step.id = Some(id.clone());
        if !strict {
            step.any_status();
        }
        let path = self.shared.file(&id, ending);
        let content = Some(format!("{{steps.{id}.outputs.stdout}}\n"));
        let file = Step::new(step::Kind::File { path: path.clone(), content, mode: None });
        Some((out.then(Out::step(file)), path))
    }

    /// Converts a pipeline to one line of shell, or else to steps that pass files on. With `strict`, each command must succeed. With
    /// `captured`, the value of the pipeline is used.
    pub(super) fn piped(&self, list: &[Stmt], st: &State, strict: bool, captured: bool) -> Option<Out> {
        let line = self.one_line(list, if captured { Purpose::Value } else { Purpose::Status }, st, strict);
        // Without `pipefail`, a pipeline may be no check at all, but each of its commands is one.
        line.filter(|out| captured || self.phase != PhaseKind::Verify || !cannot_fail(out))
            .or_else(|| self.filtered(list, st, strict, captured))
    }

    /// Converts a pipeline to one line of shell, except one that prints a value: it may be longer than the environment admits.
    pub(super) fn one_line(&self, list: &[Stmt], purpose: Purpose, st: &State, strict: bool) -> Option<Out> {
        let first = list.first()?;
        let echoes = matches!(&first.kind, Kind::Simple(s) if matches!(self.name(s), Some("echo" | "printf")));
        (!echoes && ends(first)).then_some(())?;
        self.line_of(list, purpose, st, strict)
    }

    /// Converts what `$(…)` runs to one line of shell: `A | B`, `B < FILE`, `A || echo TEXT`. With `strict`, each command of a
    /// pipeline must succeed.
    pub(super) fn line(&self, stmt: &Stmt, st: &State, strict: bool) -> Option<Out> {
        let Kind::Or(pair) = &stmt.kind else { return self.line_of(commands_of(stmt), Purpose::Value, st, strict) };
        let Kind::Simple(other) = &pair[1].kind else { return None };
        (self.name(other) == Some("echo") && other.redirects.is_empty()).then_some(())?;
        let mut out = self.line_of(commands_of(&pair[0]), Purpose::Value, st, strict)?;
        let step::Kind::Command { run, shell, env, .. } = &mut out.last()?.kind else { return None };
        let otherwise = self.piece(other, true, Purpose::Value, st, env)?;
        *run += &format!(" || {otherwise}");
        // Shells differ in what `echo` prints.
        *shell = Some("bash".to_owned());
        Some(out)
    }

    /// Converts a pipeline to one line of the shell that it was written for.
    pub(super) fn line_of(&self, list: &[Stmt], purpose: Purpose, st: &State, strict: bool) -> Option<Out> {
        let mut env = st.exported.clone();
        let last = list.len() - 1;
        let mut pieces = Vec::new();
        for (at, stmt) in list.iter().enumerate() {
            let Kind::Simple(simple) = &stmt.kind else { return None };
            (!stmt.background).then_some(())?;
            let its_own = if at == last { purpose } else { Purpose::Value };
            pieces.push(self.piece(simple, at == 0, its_own, st, &mut env)?);
        }
        let words = |piece: &String| piece.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let limit = pieces.iter().map(|piece| limit(&words(piece))).max_by_key(|limit| limit.seconds)?;
        let echoes = pieces[0].starts_with("echo ") || pieces[0].starts_with("printf ");
        if pieces.len() > 1 && self.shared.err() {
            pieces.pop();
        }
        let strict = strict && pieces.len() > 1;
        let run = format!("{}{}", if strict { PIPEFAIL } else { "" }, pieces.join(" | "));
        let mut step = Step::command(run);
        limit.of(&mut step);
        if let step::Kind::Command { shell, workdir, env: own, .. } = &mut step.kind {
            // Every shell reads the rest in the same way.
            *shell = (strict || echoes).then(|| "bash".to_owned());
            workdir.clone_from(&st.workdir);
            *own = env;
        }
        Some(Out::step(step))
    }

    /// Renders one command of a line: the first one, or one that filters its output.
    fn piece(
        &self,
        simple: &Simple,
        first: bool,
        purpose: Purpose,
        st: &State,
        env: &mut Vec<(String, String)>,
    ) -> Option<String> {
        const FILTERS: [&str; 19] = [
            "awk", "base64", "cat", "cut", "egrep", "fgrep", "grep", "head", "jq", "rev", "sed", "sort", "tac", "tail",
            "tr", "uniq", "wc", "xargs", "yq",
        ];
        let name = self.name(simple)?;
        let shells = bash::BUILTINS.contains(&name) && !ALSO_PROGRAMS.contains(&name);
        (!shells && !st.scope.functions.contains_key(name) && simple.env.is_empty()).then_some(())?;
        let filters = FILTERS.contains(&name) && (name != "xargs" || simple.words.len() == 1);
        // `apply -f -` and the like.
        let reads = || purpose == Purpose::Status && simple.words.iter().any(|word| word.source == "-");
        (first || filters || matches!(name, "kubectl" | "oc") && reads()).then_some(())?;
        let words = simple.words.iter().map(|word| self.written(word, st, env)).collect::<Option<Vec<_>>>()?;
        // A command that writes files does not just return a value.
        (!words.iter().any(|word| name == "sed" && word.starts_with("-i"))).then_some(())?;
        let mut text = words.join(" ");
        for redirect in &simple.redirects {
            match redirect {
                Redirect::Discard(2) => {}
                Redirect::Discard(_) if purpose == Purpose::Status => {}
                Redirect::Merge => text += " 2>&1",
                Redirect::Read(file) => text += &format!(" < {}", self.written(file, st, env)?),
                Redirect::Write(file) if purpose == Purpose::Status => {
                    text += &format!(" > {}", self.target(file, st, env)?);
                }
                Redirect::Append(file) if purpose == Purpose::Status => {
                    text += &format!(" >> {}", self.target(file, st, env)?);
                }
                _ => return None,
            }
        }
        Some(text)
    }

    /// Returns a step that prints a value that is not known yet, and passes if the value is as expected.
    pub(super) fn value(&self, word: &Word, wanted: &Expect, st: &State) -> Option<Out> {
        let text = st.scope.parts(&word.parts, true)?;
        let [Piece::Hole { text: hole, constant: None, .. }] = text.0.as_slice() else { return None };
        self.uses(&text);
        let mut own = Vec::new();
        let name = self.variable(hole, &mut own);
        let mut step = Step::command(format!("printenv {name}"));
        own.into_iter().for_each(|(name, value)| step.given(&name, value));
        self.expecting(Out::step(step), wanted)
    }

    /// Converts a request of `curl`, if every option is understood. A step follows redirects, so without `--location` it is
    /// weaker.
    fn http(&self, simple: &Simple, st: &State, captured: bool) -> Option<Out> {
        let mut url = None;
        let (mut method, mut headers, mut body) = (None, Vec::new(), None);
        let (mut fails, mut follows, mut code, mut silent_body) = (false, false, false, false);
        let mut timeout = None;
        let mut words = simple.words[1..].iter();
        while let Some(word) = words.next() {
            let text = st.scope.word(word)?;
            let (known, assumed) = (self.fixed(&text).unwrap_or_default(), text.constant().unwrap_or_default());
            let mut value = || st.scope.word(words.next()?);
            match known.as_str() {
                "--silent" | "--show-error" => {}
                "--fail" => fails = true,
                "--location" => follows = true,
                "-o" | "--output" => silent_body = self.fixed(&value()?)? == "/dev/null",
                "-w" | "--write-out" => code = self.fixed(&value()?)? == "%{http_code}",
                "-X" | "--request" => method = Some(self.fixed(&value()?)?),
                "-H" | "--header" => {
                    let header = value()?;
                    let written = self.template(&header);
                    let (name, value) = written.split_once(':')?;
                    // Without a value, it removes a header.
                    (!value.trim().is_empty()).then_some(())?;
                    headers.push((name.to_owned(), value.trim().to_owned()));
                }
                "-d" | "--data" | "--data-raw" => {
                    let data = value()?;
                    if data.constant().is_none_or(|d| d.starts_with('@')) {
                        return None;
                    }
                    let data = self.template(&data);
                    body = Some(body.map_or_else(|| data.clone(), |before: String| format!("{before}&{data}")));
                }
                "-m" | "--max-time" => timeout = Some(format!("{}s", self.fixed(&value()?)?.parse::<u64>().ok()?)),
                flags if flags.starts_with('-') && flags.len() > 1 && !flags.starts_with("--") => {
                    for flag in flags[1..].chars() {
                        match flag {
                            's' | 'S' => {}
                            'f' => fails = true,
                            'L' => follows = true,
                            _ => return None,
                        }
                    }
                }
                flag if flag.starts_with('-') => return None,
                // curl assumes a scheme, expands brackets and braces, and refuses blanks. A step encodes what needs it.
                _ if url.is_none() && is_url(&assumed) && assumed.bytes().all(is_plain_in_url) => {
                    let starts = |piece: &Piece| matches!(piece, Piece::Literal(start) if is_url(start));
                    (self.fixed(&text).is_some() || text.0.first().is_some_and(starts)).then_some(())?;
                    url = Some(self.template(&text));
                }
                _ => return None,
            }
        }
        if !follows && !self.shared.allow_weaker || code != silent_body || code && fails {
            return None;
        }
        if body.is_some() && !headers.iter().any(|(n, _)| n.eq_ignore_ascii_case("content-type")) {
            headers.push(("Content-Type".to_owned(), "application/x-www-form-urlencoded".to_owned()));
        }
        // With `-X POST`, curl also sends a POST to the address of a redirect; a step sends a GET.
        if follows && method.as_deref().is_some_and(|method| !matches!(method, "GET" | "HEAD")) {
            return None;
        }
        let method = method.unwrap_or_else(|| if body.is_some() { "POST" } else { "GET" }.to_owned());
        // The captured output is the status.
        let status = (!fails).then(|| if code && captured { "code" } else { "any" }.to_owned());
        let expect = HttpExpect { status, ..HttpExpect::default() };
        let mut step = Step::new(step::Kind::Http { url: url?, method, headers, body, expect });
        step.timeout = timeout;
        let out = Out::step(step);
        let out = if fails { out.but(Label::Stronger, "a response must have a 2xx status") } else { out };
        Some(if follows { out } else { out.but(Label::Weaker, "redirects are followed") })
    }

    /// Converts a pipeline: to one step, as for `A | grep -q B` and `cat <<EOF | kubectl apply -f -`, or to steps that pass
    /// files on.
    pub(super) fn pipeline(&self, list: &[Stmt], st: &State) -> Option<Out> {
        self.direct(list, st).or_else(|| self.searched(list, st)).or_else(|| self.piped(list, st, st.pipefail, false))
    }

    /// `A | B | grep -q TEXT`: the line before `grep`, whose output is as `grep` wants it.
    fn searched(&self, list: &[Stmt], st: &State) -> Option<Out> {
        let (Stmt { kind: Kind::Simple(grep), .. }, before) = list.split_last()? else { return None };
        (before.len() > 1 && self.name(grep)? == "grep" && ends(&before[0])).then_some(())?;
        let wanted = expect_of(self.wanted(grep, st)?);
        let mut out = self.line_of(before, Purpose::Value, st, st.pipefail)?;
        if !st.pipefail {
            out.last()?.any_status();
        }
        self.expecting(out, &wanted)
    }

    fn direct(&self, list: &[Stmt], st: &State) -> Option<Out> {
        let [first, last] = list else { return None };
        ends(first).then_some(())?;
        let (Kind::Simple(first), Kind::Simple(last)) = (&first.kind, &last.kind) else { return None };
        if self.name(last)? == "grep" {
            let wanted = self.wanted(last, st)?;
            let out = self.command(first, st, true)?;
            let mut out = self.expecting(out, &expect_of(wanted))?;
            // A loop that waits depends on what it reads, whatever the exit status; and a filter may fail after printing.
            let run: Vec<&str> = first.words.iter().map(|word| word.source.as_str()).collect();
            if (st.waiting || filters(&run.join(" "))) && !st.pipefail {
                out.last()?.any_status();
                return Some(out);
            }
            return Some(if st.pipefail { out } else { out.but(Label::Stronger, PIPE_STATUS) });
        }
        // The last command reads the here-document itself.
        if self.name(first)? == "cat" && first.words.len() == 1 && first.env.is_empty() {
            let [Redirect::Heredoc(parts)] = first.redirects.as_slice() else { return None };
            let mut joined = last.clone();
            joined.redirects.push(Redirect::Heredoc(parts.clone()));
            return self.command(&joined, st, false);
        }
        None
    }

    /// Returns what `grep` searches for. Its output must not be used.
    pub(super) fn wanted(&self, simple: &Simple, st: &State) -> Option<Wanted> {
        let mut how = Grep::default();
        let mut found = None;
        if !simple.env.is_empty()
            || !simple.redirects.iter().all(|r| matches!(r, Redirect::Discard(_) | Redirect::Merge))
        {
            return None;
        }
        let mut words = simple.words[1..].iter();
        while let Some(word) = words.next() {
            // A value that the environment may change is not a pattern.
            let text = self.fixed(&st.scope.word(word)?)?;
            match text.as_str() {
                "--quiet" | "--silent" | "--" => {}
                "-e" => found = Some(self.fixed(&st.scope.word(words.next()?)?)?),
                flags if flags.starts_with('-') && flags.len() > 1 => {
                    for flag in flags[1..].chars() {
                        match flag {
                            // The count is not used.
                            'q' | 's' | 'c' => {}
                            'w' => how.word = true,
                            'E' => how.extended = true,
                            'F' => how.fixed = true,
                            'i' => how.ignore_case = true,
                            'x' => how.line = true,
                            _ => return None,
                        }
                    }
                }
                _ if found.is_none() => found = Some(text),
                _ => return None,
            }
        }
        pattern::grep(&found?, how)
    }

    /// Adds expectations for a command's output.
    pub(super) fn expecting(&self, mut out: Out, wanted: &Expect) -> Option<Out> {
        let step = out.last()?;
        let mut wanted = wanted.clone();
        if self.shared.err() {
            wanted = Expect {
                contains: wanted.equals.as_ref().and_then(|t| t.get(..1)).map(str::to_owned),
                ..Expect::default()
            };
        }
        match &mut step.kind {
            step::Kind::Command { expect, .. } => *expect = expect.clone().and(wanted)?,
            step::Kind::Http { expect, .. } => {
                if wanted.equals.is_some() || wanted.not.is_some() || wanted.exit_code != ExitCode::Is(0) {
                    return None;
                }
                expect.contains = wanted.contains;
                expect.matches = wanted.matches.map(of_body);
                expect.range = wanted.range;
            }
            _ => return None,
        }
        Some(out)
    }
}

fn is_plain_in_url(byte: u8) -> bool {
    byte.is_ascii_graphic() && !br#"[]{}"'|<>\^`"#.contains(&byte)
}

fn is_url(text: &str) -> bool {
    text.starts_with("http://") || text.starts_with("https://")
}

/// A pattern for what `$(…)` captures, as one for a body: `$(…)` removes line feeds at the end.
pub fn of_body(pattern: String) -> String {
    match pattern.strip_suffix('$') {
        Some(rest) if !rest.ends_with('\\') && !rest.starts_with("(?m)") => format!(r"{rest}\n*$"),
        _ => pattern,
    }
}

/// Whether the last step succeeds in any case, as far as is known about its commands.
pub(super) fn cannot_fail(out: &Out) -> bool {
    let Some(Step { kind: step::Kind::Command { run, .. }, .. }) = out.steps.last() else { return false };
    bash::program(run).is_some_and(|program| !flow::outcome(&program).other)
}

/// Whether a command of kubectl does the same in every directory, because it reads no files.
fn is_placeless(words: &[String]) -> bool {
    const VERBS: [&str; 21] = [
        "annotate",
        "auth",
        "autoscale",
        "cordon",
        "create",
        "delete",
        "describe",
        "drain",
        "exec",
        "expose",
        "get",
        "label",
        "logs",
        "patch",
        "rollout",
        "run",
        "scale",
        "set",
        "taint",
        "uncordon",
        "wait",
    ];
    // `create secret tls x --cert=tls.crt` names files without saying so.
    let mut operands = tools::operands("kubectl", words.get(1..).unwrap_or_default()).map(String::as_str);
    let verb = operands.next().is_some_and(|verb| VERBS.contains(&verb));
    let of_files = operands.next().is_some_and(|kind| matches!(kind, "secret" | "configmap" | "cm"));
    let reads = |word: &String| {
        const OPTIONS: [&str; 5] = ["--kubeconfig", "--cert", "--client-", "--key", "--kustomize"];
        let short = word.starts_with("-f") || word.starts_with("-k") || word.starts_with('$');
        short || word.contains("file") || OPTIONS.iter().any(|option| word.starts_with(option))
    };
    verb && !(of_files && words.iter().any(|word| word == "create")) && !words.iter().any(reads)
}

/// Returns a text, or a placeholder if it is not known yet.
fn known_or_some(text: Text) -> String {
    // A safe hole is a plain word, one of those that a loop iterates over.
    let plain = || text.0.iter().all(|p| matches!(p, Piece::Literal(_) | Piece::Hole { safe: true, .. }));
    text.constant().unwrap_or_else(|| if plain() { "x".to_owned() } else { String::new() })
}

/// Returns the one word that `echo` or `printf '%s'` passes on.
pub(super) fn handed_on(simple: &Simple) -> Option<&Word> {
    let formats = ["'%s'", "\"%s\"", "'%s\\n'", "\"%s\\n\""];
    match simple.words.as_slice() {
        [_, word] if is_echo(simple) => Some(word),
        [_, format, word] if !is_echo(simple) && formats.contains(&format.source.as_str()) => Some(word),
        _ => None,
    }
}

pub(super) fn is_echo(simple: &Simple) -> bool {
    simple.words.first().is_some_and(|word| word.source == "echo")
}

/// Whether an expectation admits a value that `echo` takes as an option and does not print.
pub(super) fn takes_option(expect: &Expect) -> bool {
    ["-n", "-e", "-E", "-ne", "-en", "-nE", "-En", "-eE"].iter().any(|option| {
        expect.range == step::Range::default()
            && expect.contains.as_ref().is_none_or(|part| option.contains(part.as_str()))
            && expect.not.as_ref().is_none_or(|not| not.admits(option))
            && expect.matches.as_ref().is_none_or(|m| regex::Regex::new(m).is_ok_and(|m| m.is_match(option)))
    })
}

pub(super) fn expect_of(wanted: Wanted) -> Expect {
    match wanted {
        Wanted::Contains(text) => Expect { contains: Some(template::escape(&text)), ..Expect::default() },
        Wanted::Matches(text) => Expect { matches: Some(template::escape(&text)), ..Expect::default() },
    }
}

/// Inverts a step: it must fail.
pub(super) fn denied(mut out: Out) -> Option<Out> {
    // The steps before it only prepare it, whatever their result.
    let prepares = |s: &Step| match &s.kind {
        step::Kind::Command { expect, .. } => expect.exit_code == ExitCode::Any && !expect.of_text(),
        step::Kind::File { .. } => true,
        _ => false,
    };
    let (step, before) = out.steps.split_last_mut()?;
    let step::Kind::Command { run, expect, .. } = &mut step.kind else { return None };
    if expect.of_text() || expect.exit_code != ExitCode::Is(0) || !before.iter().all(prepares) {
        return None;
    }
    // Other programs, and unknown ones, may fail with any status.
    let in_a_file = run.starts_with("grep ") && !before.is_empty();
    if !fails_with_one(run) && !in_a_file {
        expect.exit_code = ExitCode::Not(0);
        return Some(out.but(Label::Stronger, NOT_FOUND));
    }
    expect.exit_code = ExitCode::Is(1);
    // `test` has no other failure status; neither has `grep` on a file that a step has written.
    let sure = run.starts_with("test ") || run.starts_with("grep ");
    Some(if sure { out } else { out.but(Label::Stronger, ONE_STATUS) })
}

/// Whether a command ends by itself, rather than when nothing reads its output any more: `kubectl logs -f`, `tail -F`.
fn ends(stmt: &Stmt) -> bool {
    let Kind::Simple(simple) = &stmt.kind else { return true };
    let words: Vec<String> = simple.words.iter().map(|word| word.literal().unwrap_or_default()).collect();
    ends_alone(&words)
}

/// The same for the words of a command, which may run another one: `timeout 5 tail -f LOG`, `kubectl exec web -- tail -f LOG`.
fn ends_alone(words: &[String]) -> bool {
    let inner = match words.first().map(String::as_str) {
        Some("timeout") => words.iter().skip(1).position(|word| !word.starts_with('-')).map(|limit| limit + 2),
        Some("kubectl" | "oc" | "docker" | "podman") => words.iter().position(|word| word == "--").map(|at| at + 1),
        _ => None,
    };
    if inner.and_then(|at| words.get(at..)).is_some_and(|inner| !inner.is_empty() && !ends_alone(inner)) {
        return false;
    }
    let name = words.first().and_then(|word| word.rsplit('/').next()).unwrap_or_default();
    let has = |flags: &[&str]| words.iter().any(|word| flags.contains(&word.as_str()));
    // `-fn1`, `-50f`.
    let short =
        |flag: char| words.iter().any(|word| word.starts_with('-') && !word.starts_with("--") && word.contains(flag));
    match name {
        "yes" | "watch" | "stern" => false,
        "tail" => !short('f') && !short('F') && !words.iter().any(|word| word.starts_with("--follow")),
        "journalctl" | "dmesg" => !short('f') && !short('w') && !has(&["--follow"]),
        "kubectl" | "oc" | "docker" | "podman" | "virtctl" | "nerdctl" if has(&["logs", "get", "events", "log"]) => {
            let follows = has(&["logs", "log"]) && has(&["-f"]) || has(&["--follow", "--follow=true"]);
            let watches = has(&["-w", "--watch", "--watch=true", "--watch-only", "--watch-only=true"]);
            !(follows || watches || has(&["events"]) && matches!(name, "docker" | "podman" | "nerdctl"))
        }
        _ => true,
    }
}

/// How long a command may take.
struct Limit {
    /// In seconds. A limit above the usual minute is written into the step.
    seconds: u64,
    /// The command specifies it itself.
    asked: bool,
}

impl Limit {
    fn of(&self, step: &mut Step) {
        step.timeout = (self.seconds > 60).then(|| duration::format(std::time::Duration::from_secs(self.seconds)));
        step.asked = self.asked;
    }
}

fn limit(words: &[String]) -> Limit {
    // The words after `--` belong to another command.
    let own = words.iter().position(|word| word == "--").unwrap_or(words.len());
    let words: Vec<&str> = words[..own].iter().map(|word| word.trim_matches(['"', '\''])).collect();
    let Some(name) = words.first().and_then(|word| word.rsplit('/').next()) else {
        return Limit { seconds: 60, asked: false };
    };
    let value = |flag: &str| {
        words.iter().enumerate().find_map(|(i, w)| {
            let rest = w.strip_prefix(flag)?;
            if rest.is_empty() { words.get(i + 1).copied() } else { rest.strip_prefix('=') }
        })
    };
    let bound = match name {
        "timeout" => words.get(1).copied(),
        "curl" => value("--max-time").or_else(|| value("-m")),
        _ => value("--timeout"),
    };
    let bound = bound.map(|b| b.trim_matches(['"', '\'']));
    let parse = |text: &str| {
        let text = if text.bytes().all(|b| b.is_ascii_digit()) { format!("{text}s") } else { text.to_owned() };
        duration::parse(&text).ok().map(|d| d.as_secs())
    };
    // As long as a script may take: five minutes.
    let whole = 300;
    let bound = (bound, bound.and_then(parse));
    let seconds = match bound {
        (_, Some(0)) | (Some(_), None) => whole,
        // The limit of helm is for each operation in the cluster, and that of a wait may be for each resource.
        (Some(_), Some(_)) if name == "helm" || waits_for_several(&words) => whole,
        (_, Some(seconds)) => (seconds + 10).min(whole),
        (None, None) => {
            let has = |list: &[&str]| words.iter().any(|w| list.contains(w));
            let slow = match name {
                "kubectl" | "oc" => {
                    // A `kubectl run` that is not attached returns at once.
                    let attached =
                        has(&["-i", "-it", "-ti", "--stdin", "--rm", "--attach", "--rm=true", "--attach=true"]);
                    has(&["delete", "rollout", "exec", "drain"]) || has(&["run"]) && attached
                }
                // What neither reaches another machine nor waits.
                "git" => has(&["clone", "fetch", "pull", "push", "ls-remote", "submodule", "gc", "bisect"]),
                "docker" | "podman" => !has(&["ps", "inspect", "port", "version"]),
                "sqlite3" | "find" | "id" | "date" | "echo" | "printf" | "basename" | "dirname" | "readlink"
                | "realpath" | "sha256sum" | "md5sum" | "tr" | "paste" | "comm" | "tee" | "rmdir" | "mktemp"
                | "pgrep" => false,
                "base64" | "awk" | "cut" | "sort" | "uniq" | "test" | "grep" | "cat" | "ls" | "rm" | "mkdir" | "cp"
                | "mv" | "chmod" | "touch" | "jq" | "sed" | "head" | "tail" | "wc" | "true" | "command" | "ln"
                | "diff" | "cmp" | "which" | "stat" => false,
                _ => true,
            };
            if slow { whole } else { 60 }
        }
    };
    Limit { seconds, asked: matches!(bound.1, Some(1..)) }
}

/// Whether a command waits for several resources: `kubectl wait pod/a pod/b`, or those with a label.
fn waits_for_several(words: &[&str]) -> bool {
    let Some(at) = words.iter().position(|word| *word == "wait") else { return false };
    let selects = |word: &&str| {
        matches!(*word, "-l" | "--selector" | "--all") || word.starts_with("--selector=") || word.starts_with("-l=")
    };
    let operands: Vec<&&str> = tools::operands("kubectl", &words[at..]).skip(1).collect();
    let several = match operands.first() {
        Some(first) if first.contains('/') => operands.len() > 1,
        _ => operands.len() > 2,
    };
    matches!(words[0].rsplit('/').next(), Some("kubectl" | "oc")) && (several || words.iter().any(selects))
}

/// Returns the subject of a command, as a name for its step: `pods` for `kubectl get pods -n shop`.
fn subject(simple: &Simple) -> String {
    let words: Vec<String> = simple.words.iter().filter_map(Word::literal).collect();
    let verb = words.iter().position(|w| matches!(w.as_str(), "get" | "logs" | "describe" | "exec"));
    let noun = verb.and_then(|v| words.get(v + 1)).filter(|w| !w.starts_with('-'));
    let own = words.get(1).filter(|w| words[0] == "helm" && !w.starts_with('-'));
    let word = noun.or(own).or(words.first()).map_or("output", String::as_str);
    word.split(['/', '.', ',']).next().filter(|w| !w.is_empty()).unwrap_or("output").to_owned()
}

/// The commands of a pipeline, or the statement itself.
fn commands_of(stmt: &Stmt) -> &[Stmt] {
    match &stmt.kind {
        Kind::Pipeline(list) => list,
        _ => std::slice::from_ref(stmt),
    }
}

/// What a pipeline is run for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Its output.
    Value,
    /// Its exit status, whatever it prints.
    Status,
}

/// How the text in a file may differ from what a command printed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Input {
    /// Not at all.
    Exact,
    /// It is one blank line if there were no lines.
    Lines,
    /// It ends with exactly one line break, however many there were.
    Text,
}

/// Whether a command with these words reads its standard input, and would instead read a file named after them.
fn reads_input(name: &str, words: &[String], input: Input) -> bool {
    // Counts the words that are neither options nor their values.
    let plain = |valued: &[&str]| {
        let mut skip = 0;
        let mut count = 0;
        for word in words {
            if skip > 0 {
                skip -= 1;
            } else if valued.contains(&word.as_str()) {
                skip = 1;
            } else if matches!(word.as_str(), "--arg" | "--argjson") {
                skip = 2;
            } else if !word.starts_with('-') || word == "-" {
                count += 1;
            }
        }
        count
    };
    let has = |flags: &[&str]| words.iter().any(|w| flags.contains(&w.as_str()));
    match name {
        "jq" => {
            let files = ["-n", "--null-input", "--args", "--jsonargs", "--slurpfile", "--rawfile", "-f", "--from-file"];
            let short =
                |letter: char| words.iter().any(|w| w.starts_with('-') && !w.starts_with("--") && w.contains(letter));
            // As a text, the input differs from the file at its end.
            let raw = has(&["--raw-input"]) || short('R');
            plain(&[]) == 1 && !has(&files) && !short('n') && (!raw || input == Input::Exact)
        }
        "grep" | "egrep" | "fgrep" => {
            let pattern = words.iter().find(|w| !w.starts_with('-')).cloned().unwrap_or_default();
            let empty = regex::Regex::new(&pattern).map_or(true, |r| r.is_match(""));
            let inverse = words.iter().any(|w| w.starts_with('-') && w.contains('v')) && input != Input::Exact;
            plain(&[]) == 1
                && !empty
                && !inverse
                && !has(&["-f", "-e", "-r", "-R", "-A", "-B", "-C", "-m"])
                && !words.iter().any(|w| w.starts_with('-') && w.contains(['L', 'l', 'H']))
        }
        "base64" => plain(&[]) == 0 && words.iter().any(|w| matches!(w.as_str(), "-d" | "--decode")),
        "cut" => plain(&["-d", "-f", "-c", "-b"]) == 0 && !words.is_empty(),
        "head" => plain(&["-n"]) == 0 && !words.iter().any(|w| w.starts_with("-c")),
        "sort" | "uniq" => plain(&["-k", "-t"]) == 0 && input != Input::Text && !has(&["-o"]),
        "tail" => plain(&["-n"]) == 0 && input != Input::Text && !words.iter().any(|w| w.starts_with("-f")),
        "awk" => {
            let program = words.last().cloned().unwrap_or_default();
            let odd = ["END", "NR", "BEGIN", "system", "getline", ">", "|", "!"];
            plain(&["-F"]) == 1 && !odd.iter().any(|o| program.contains(o)) && !has(&["-f", "-v"])
        }
        _ => false,
    }
}

/// Returns a name for a manifest, from the kind and the name of its first object.
fn manifest_name(text: &str) -> Option<String> {
    let kind = text.lines().find_map(|l| l.strip_prefix("kind:"))?.trim().to_ascii_lowercase();
    let name = text.lines().find_map(|l| l.trim_start().strip_prefix("name:"))?.trim().trim_matches(['"', '\'']);
    let fits = |t: &str| !t.is_empty() && t.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '.');
    match (fits(&kind), fits(name)) {
        (true, true) => Some(format!("{kind}-{name}")),
        (true, false) => Some(kind),
        _ => None,
    }
}
