//! Files that a script removes and then uses.

use rustc_hash::FxHashMap;

use crate::{
    bash::{
        Word,
        program::{Kind, Statement},
        tools,
    },
    diagnostic::{Diagnostic, Diagnostics},
    effects::shell::Run,
    lint::{
        TaskView,
        script::{Content, ScriptView},
    },
    rule,
};

rule! {
    pub static USED_AFTER_REMOVAL = "used-after-removal", Warning;
}

/// Programs that create no files unless their output is redirected.
const LOOKS: [&str; 14] =
    ["grep", "egrep", "fgrep", "cat", "head", "tail", "wc", "jq", "yq", "awk", "diff", "cmp", "cut", "uniq"];

/// The maximum number of statements to search after a removal.
const AHEAD: usize = 64;

/// The runs of a script, by statement. `None` if a statement runs several times.
type Runs<'a> = FxHashMap<*const Statement, Option<&'a Run<'a>>>;

/// Requires that nothing between the removal and the use creates the file, as far as is known.
pub fn check(view: &TaskView<'_>, out: &mut Diagnostics) {
    for script in view.scripts.iter().filter(|script| script.content.text.contains("rm ")) {
        let Some(followed) = view.followed(script).filter(|_| script.content.program.sound) else { continue };
        let mut runs = Runs::default();
        for run in &followed.trace.runs {
            let of = runs.entry(std::ptr::from_ref(run.statement));
            of.and_modify(|known| *known = None).or_insert(Some(run));
        }
        let mut lists: Vec<&[Statement]> = vec![&script.content.program.body];
        script.content.program.walk(&mut |s| s.lists(&mut |list| lists.push(list)));
        for list in lists {
            in_list(script, &runs, list, out);
        }
    }
}

fn in_list(script: &ScriptView<'_>, runs: &Runs<'_>, list: &[Statement], out: &mut Diagnostics) {
    let content = &script.content;
    for (at, removal) in list.iter().enumerate() {
        if removal.name() != "rm" || removal.background {
            continue;
        }
        for word in tools::operands("rm", &removal.words()[1..]) {
            let names = called(content, runs, removal, word);
            // `D/*` keeps the directory.
            if names.is_empty() || names.iter().any(|name| name.contains(['*', '?', '[', '{', ' ']) || name.len() < 2) {
                continue;
            }
            let search = Search { content, runs, names: &names };
            let found = list[at + 1..].iter().take(AHEAD).map_while(|s| search.statement(s)).flatten().next();
            if let Some(used) = found {
                out.push(
                    Diagnostic::new(
                        &USED_AFTER_REMOVAL,
                        content.span(first_line(content, used)),
                        format!("`{}` is used after it was removed", shown(word)),
                    )
                    .label(content.span(removal.range.clone()), "removed here")
                    .help("remove it at the end, or with `trap '…' EXIT`"),
                );
            }
        }
    }
}

struct Search<'a> {
    content: &'a Content,
    runs: &'a Runs<'a>,
    /// The names of the removed path: as written, and its value.
    names: &'a [String],
}

impl Search<'_> {
    /// The part of a statement that uses the path. `None` if the path may exist again.
    fn statement<'s>(&self, s: &'s Statement) -> Option<Option<&'s Statement>> {
        let text = self.content.text.get(s.range.clone()).unwrap_or_default();
        if s.background || s.written && !text.contains("/dev/null") {
            return None;
        }
        match self.list(&s.nested)? {
            Some(used) => return Some(Some(used)),
            None if matches!(s.kind, Kind::Assignment | Kind::Declaration) => {
                // The variable has another value from here on.
                let variable = self.names.iter().find_map(|name| name.strip_prefix('$')).unwrap_or_default();
                let variable = variable.split('/').next().unwrap_or_default();
                let sets = !variable.is_empty() && text.contains(&format!("{variable}="));
                return (!sets).then_some(None);
            }
            None => {}
        }
        match &s.kind {
            Kind::Command(_) => self.command(s),
            Kind::Test | Kind::Function { .. } => Some(None),
            Kind::Pipeline(parts) => self.list(parts),
            Kind::Group(list) | Kind::Subshell(list) => self.list(list),
            // A use that is conditional on existence does nothing after the removal.
            Kind::And(pair) if self.asks(&pair[0]) => self.guarded(std::slice::from_ref(&pair[1])),
            Kind::If { branches, otherwise: None } => match branches.as_slice() {
                [branch] if branch.condition.len() == 1 && self.asks(&branch.condition[0]) => {
                    self.guarded(&branch.body)
                }
                _ => None,
            },
            // The script handles the failure.
            Kind::Or(pair) if matches!(pair[1].name(), "exit" | "return" | "die" | "fail") => {
                self.list(std::slice::from_ref(&pair[0]))
            }
            _ => None,
        }
    }

    fn list<'s>(&self, list: &'s [Statement]) -> Option<Option<&'s Statement>> {
        for s in list {
            if let Some(used) = self.statement(s)? {
                return Some(Some(used));
            }
        }
        Some(None)
    }

    /// Statements that run if the path exists. If one of them exits, the condition checks that the path is gone.
    fn guarded<'s>(&self, list: &'s [Statement]) -> Option<Option<&'s Statement>> {
        let mut leaves = false;
        list.iter().for_each(|s| s.walk(&mut |s| leaves |= matches!(s.name(), "exit" | "return" | "die" | "fail")));
        if leaves { Some(None) } else { self.list(list) }
    }

    /// Whether a statement tests for existence: `[ -d D ]`.
    fn asks(&self, s: &Statement) -> bool {
        let text = self.content.text.get(s.range.clone()).unwrap_or_default();
        let words: Vec<&str> =
            text.trim_matches(['[', ']', ' ']).trim_start_matches("test ").split_whitespace().collect();
        match words.as_slice() {
            [sign, path] => matches!(*sign, "-d" | "-e" | "-f" | "-s" | "-r") && self.is_it(&plain(path)),
            _ => false,
        }
    }

    fn command<'s>(&self, s: &'s Statement) -> Option<Option<&'s Statement>> {
        let words = s.words();
        let has = |options: &[&str]| words.iter().any(|word| options.contains(&word.text.as_str()));
        let is_it = |word: &Word| called(self.content, self.runs, s, word).iter().any(|name| self.is_it(name));
        // The directory must exist, whatever the program does there.
        let enters = words.windows(2).any(|pair| pair[0].text == "-C" && is_it(&pair[1]))
            || words.iter().any(|word| word.text.strip_prefix("-chdir=").is_some_and(|path| self.is_it(&plain(path))));
        if enters {
            return Some(Some(s));
        }
        let looks = match s.name() {
            // Listing may be a check that it is gone.
            "echo" | "printf" | "test" | "[" | "ls" | "stat" | "set" | "true" | ":" | "rm" => return Some(None),
            // A relative path denotes something else there.
            "cd" => is_it(words.get(1)?) || self.names.iter().all(|name| name.starts_with(['/', '$', '~'])),
            "sed" => !words.iter().any(|word| word.text.starts_with("-i") || word.text == "--in-place"),
            "sort" => !has(&["-o"]),
            "git" => {
                has(&["log", "show", "status", "diff", "rev-parse", "rev-list", "merge-base", "cat-file", "ls-files"])
            }
            name => LOOKS.contains(&name),
        };
        looks.then(|| words.iter().skip(1).any(is_it).then_some(s))
    }

    /// Whether a path is the removed path or inside it.
    fn is_it(&self, path: &str) -> bool {
        self.names
            .iter()
            .any(|name| path.strip_prefix(name.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
    }
}

/// The names that a word denotes: as written, and its value if known.
fn called(content: &Content, runs: &Runs<'_>, s: &Statement, word: &Word) -> Vec<String> {
    let source = content.text.get(word.range.clone()).unwrap_or_default();
    let mut names = vec![plain(source)];
    if let Some(Some(run)) = runs.get(&std::ptr::from_ref(s))
        && let Some(place) = s.words().iter().position(|known| known.range == word.range)
        && let Some(value) = run.words.get(place).filter(|value| value.is_known() && run.words.len() == s.words().len())
    {
        names.push(value.shown().trim_end_matches('/').to_owned());
    }
    names.retain(|name| !name.is_empty());
    names.dedup();
    names
}

/// A word without quotes and braces: `$clone/x` for `"${clone}/x"`.
fn plain(source: &str) -> String {
    let text: String = source.chars().filter(|c| !matches!(c, '"' | '\'')).collect();
    let mut text = text.trim_end_matches('/').to_owned();
    while let Some(at) = text.find("${") {
        let Some(end) = text[at..].find('}') else { break };
        let name = text[at + 2..at + end].to_owned();
        if !crate::bash::ast::is_name(&name) {
            break;
        }
        text.replace_range(at..=at + end, &format!("${name}"));
    }
    text
}

fn shown(word: &Word) -> String {
    word.text.trim_matches('"').to_owned()
}

fn first_line(content: &Content, s: &Statement) -> std::ops::Range<usize> {
    let text = content.text.get(s.range.clone()).unwrap_or_default();
    s.range.start..s.range.start + text.find('\n').unwrap_or(text.len())
}
