//! The files and directories that scripts check, where an agent may leave something. These are guesses, which worlds try out.

use super::wishes::{Script, compared_files, file_of, path, walk};
use crate::{
    bash::{
        self,
        ast::{self, Kind, Redirect, Stmt, Word},
    },
    convert::test_words,
};

/// The home directory of the jail.
const HOME: &str = "/tmp";
/// The paths that scripts check, as their authors wrote them; the path of a directory ends in `/`.
pub fn places(text: &str) -> Vec<String> {
    let Some(list) = bash::parse(text).and_then(|script| ast::read(&script)) else { return Vec::new() };
    let script = Script::of(&list);
    let mut found = Found { script: &script, folder: String::new(), paths: Vec::new() };
    list.iter().for_each(|stmt| walk(stmt, &mut |stmt| found.statement(stmt)));
    found.paths
}

struct Found<'a> {
    script: &'a Script,
    /// The directory of the statements after a `cd`.
    folder: String,
    paths: Vec<String>,
}

impl Found<'_> {
    fn statement(&mut self, stmt: &Stmt) {
        match &stmt.kind {
            Kind::Simple(simple) => {
                simple.words.iter().for_each(|word| self.substituted(word));
                if simple.words.first().is_some_and(|name| name.source == "test") {
                    self.tested(&simple.words);
                }
                match simple.words.as_slice() {
                    [cd, to] if cd.source == "cd" => {
                        if let Some(to) = self.path(to) {
                            self.add(format!("{to}/"));
                            self.folder = format!("{to}/");
                        }
                    }
                    _ => {
                        let read = simple.redirects.iter().filter_map(|redirect| match redirect {
                            Redirect::Read(word) => path(&self.script.text(word)?),
                            _ => None,
                        });
                        let compared = compared_files(self.script, simple).into_iter().flatten();
                        let summed = || self.path(simple.words.last()?);
                        const SUMS: [&str; 4] = ["cksum", "md5sum", "sha1sum", "sha256sum"];
                        let is_sum = simple.words.first().is_some_and(|name| SUMS.contains(&name.source.as_str()));
                        let compared = compared.chain(is_sum.then(summed).flatten());
                        for path in file_of(self.script, simple).into_iter().chain(read).chain(compared) {
                            self.add(self.within(&path));
                        }
                    }
                }
            }
            Kind::Assign(assigns) => {
                assigns.iter().filter_map(|assign| assign.value.as_ref()).for_each(|word| self.substituted(word));
            }
            // The directory that should contain a log.
            Kind::Logged { file, .. } => {
                if let Some((folder, _)) = self.path(file).as_deref().and_then(|file| file.rsplit_once('/')) {
                    self.add(format!("{folder}/"));
                }
            }
            Kind::Test(inner, _) => {
                let words = test_words(inner).unwrap_or_default();
                words.iter().for_each(|word| self.substituted(word));
                self.tested(&words);
            }
            _ => {}
        }
    }

    /// `-f FILE`, `-d DIR`.
    fn tested(&mut self, words: &[Word]) {
        for pair in words.windows(2) {
            let end = match pair[0].source.as_str() {
                "-f" | "-s" | "-e" | "-r" | "-w" | "-x" => "",
                "-d" => "/",
                _ => continue,
            };
            if let Some(path) = self.path(&pair[1]) {
                self.add(format!("{path}{end}"));
            }
        }
    }

    /// `$(<FILE)`, and commands in substitutions.
    fn substituted(&mut self, word: &Word) {
        if let Some(text) = word.source.strip_prefix("<(").and_then(|rest| rest.strip_suffix(')')) {
            self.commands(text);
        }
        for part in &word.parts {
            let ast::Part::Command { text, .. } = part else { continue };
            match text.trim().strip_prefix('<') {
                Some(file) => {
                    if let Some(path) = self.path(&Word::read(file.trim(), 0)) {
                        self.add(path);
                    }
                }
                None => self.commands(text),
            }
        }
    }

    fn commands(&mut self, text: &str) {
        let list = bash::parse(text).and_then(|script| ast::read(&script)).unwrap_or_default();
        list.iter().for_each(|stmt| walk(stmt, &mut |stmt| self.statement(stmt)));
    }

    fn path(&self, word: &Word) -> Option<String> {
        let home = word.source.trim_matches('"');
        let home = ["~/", "$HOME/", "${HOME}/"].iter().find_map(|start| home.strip_prefix(start));
        let text = match home {
            Some(rest) => format!("{HOME}/{rest}"),
            None => self.script.text(word)?,
        };
        path(&text).map(|path| self.within(&path))
    }

    fn within(&self, path: &str) -> String {
        if path.starts_with('/') { path.to_owned() } else { format!("{}{path}", self.folder) }
    }

    fn add(&mut self, path: String) {
        if !self.paths.contains(&path) {
            self.paths.push(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_a_script_reads_are_found() {
        for (script, wanted) in [
            ("if [ -f \"check.sh\" ]; then exit 0; fi", &["check.sh"][..]),
            ("[ -d \"/data/up loads\" ] || exit 1", &["/data/up loads/"]),
            ("grep -qx \"hi you\" /root/out 2>/dev/null", &["/root/out"]),
            ("cd /root/repo || exit 1\n! grep -q x site.txt", &["/root/repo/", "/root/repo/site.txt"]),
            ("F=/home/a/.flag\n[[ ! -f \"${F}\" || \"$(<\"${F}\")\" != x ]] && exit 1", &["/home/a/.flag"]),
            ("[[ -f \"$HOME/.done\" ]]", &["/tmp/.done"]),
            ("n=$(jq .a /srv/a | wc -l)", &["/srv/a"]),
            ("test -f out/a && test -d \"out/b\"", &["out/a", "out/b/"]),
            ("[ $(wc -l < out/a) -eq 3 ] && diff -q out/b c", &["out/a", "out/b", "c"]),
            ("L=/ks/a.log\n{\n  date\n} >> ${L} 2>&1", &["/ks/"]),
            ("grep -q x; cat /proc/1/stat; kubectl get x | grep y; [ -f \"$X\" ]", &[]),
        ] {
            assert_eq!(places(script), wanted, "{script}");
        }
    }
}
