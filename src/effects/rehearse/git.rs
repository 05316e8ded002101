//! The repositories of a rehearsal: branches, tags, and what each commit holds.

use std::collections::BTreeMap;

use super::{
    Done, Text,
    disk::{Disk, Node, absolute},
};

/// A longer history is not followed.
const COMMITS: usize = 50;

/// Repositories, by their folders.
#[derive(Default)]
pub struct Repos {
    all: BTreeMap<String, Repo>,
}

#[derive(Default)]
struct Repo {
    lost: bool,
    branch: String,
    branches: BTreeMap<String, usize>,
    tags: BTreeMap<String, usize>,
    commits: Vec<Commit>,
    staged: BTreeMap<String, Text>,
}

#[derive(Clone, Default)]
struct Commit {
    subject: String,
    files: BTreeMap<String, Text>,
    parent: Option<usize>,
}

impl Repo {
    fn head(&self) -> Option<usize> {
        self.branches.get(&self.branch).copied()
    }

    /// The commit that a word names.
    fn commit(&self, word: &str) -> Option<Option<usize>> {
        if word.contains(['~', '^', '@', '{']) {
            return None;
        }
        let short = word.trim_start_matches("refs/heads/").trim_start_matches("refs/tags/");
        Some(match short {
            "HEAD" => self.head(),
            _ => self.branches.get(short).or_else(|| self.tags.get(short)).copied(),
        })
    }
}

impl Repos {
    /// Runs `git` in a folder.
    pub fn run(&mut self, args: &[&str], from: Option<&str>, disk: &mut Disk<'_>) -> Done {
        let mut place = from.map(str::to_owned);
        let mut rest = args;
        loop {
            match rest {
                ["-C", dir, behind @ ..] => {
                    place = absolute(place.as_deref(), dir);
                    rest = behind;
                }
                ["-c", _, behind @ ..] | ["--no-pager", behind @ ..] => rest = behind,
                _ => break,
            }
        }
        if let ["init", options @ ..] = rest {
            return self.init(options, place.as_deref(), disk);
        }
        let key = place.as_deref().and_then(|place| {
            let inside = |known: &&String| place == known.as_str() || place.starts_with(&format!("{known}/"));
            self.all.keys().filter(inside).max_by_key(|known| known.len()).cloned()
        });
        let Some(key) = key else {
            // Somewhere else.
            return Done::unknown();
        };
        let Some(repo) = self.all.get_mut(&key) else { return Done::unknown() };
        if repo.lost {
            return Done::unknown();
        }
        match run(repo, rest, &key, disk) {
            Some(done) => done,
            None => {
                const LOOKS: [&str; 10] =
                    ["log", "show", "diff", "status", "rev-parse", "ls-files", "cat-file", "rev-list", "blame", "grep"];
                repo.lost |= !rest.first().is_some_and(|verb| LOOKS.contains(verb));
                Done::unknown()
            }
        }
    }

    fn init(&mut self, options: &[&str], place: Option<&str>, disk: &mut Disk<'_>) -> Done {
        let mut branch = String::new();
        let mut dir = None;
        let mut rest = options.iter();
        while let Some(option) = rest.next() {
            match *option {
                "-b" | "--initial-branch" => branch = rest.next().copied().unwrap_or_default().to_owned(),
                "-q" | "--quiet" => {}
                _ if option.starts_with("-b") => branch = option[2..].to_owned(),
                _ if option.starts_with("--initial-branch=") => branch = option[17..].to_owned(),
                _ if option.starts_with('-') => return Done::unknown(),
                _ => dir = Some(*option),
            }
        }
        let path = match dir {
            Some(dir) => absolute(place, dir),
            None => place.map(str::to_owned),
        };
        if let Some(path) = path {
            disk.folder(&path);
            self.all.insert(path, Repo { branch, ..Repo::default() });
        }
        Done { status: Some(true), out: None }
    }
}

fn run(repo: &mut Repo, args: &[&str], root: &str, disk: &mut Disk<'_>) -> Option<Done> {
    let quiet = Some(Done { status: Some(true), out: None });
    let (verb, rest) = args.split_first()?;
    let words: Vec<&str> = rest.iter().filter(|word| !word.starts_with('-')).copied().collect();
    let has = |names: &[&str]| rest.iter().any(|word| names.contains(word));
    match *verb {
        "config" => quiet,
        "add" => {
            if !(has(&["-A", "--all", "."]) || words == ["."]) {
                for word in &words {
                    let path = absolute(Some(root), word)?;
                    repo.staged.insert((*word).to_owned(), disk.text(&path));
                }
                return quiet;
            }
            for (path, folder) in disk.below(root)? {
                if !folder {
                    repo.staged.insert(path[root.len() + 1..].to_owned(), disk.text(&path));
                }
            }
            quiet
        }
        "commit" => {
            let at =
                rest.iter().position(|word| word.starts_with('-') && !word.starts_with("--") && word.ends_with('m'));
            let subject = at.and_then(|at| rest.get(at + 1)).map_or("", |text| text.lines().next().unwrap_or_default());
            if repo.commits.len() >= COMMITS || has(&["--amend"]) || rest.iter().any(|word| word.starts_with("-a")) {
                return None;
            }
            let parent = repo.head();
            let mut files = parent.map(|at| repo.commits[at].files.clone()).unwrap_or_default();
            files.append(&mut repo.staged);
            repo.commits.push(Commit { subject: subject.to_owned(), files, parent });
            repo.branches.insert(repo.branch.clone(), repo.commits.len() - 1);
            quiet
        }
        "branch" => match (words.as_slice(), rest) {
            ([name], [only]) if name == only => {
                let head = repo.head()?;
                repo.branches.insert((*name).to_owned(), head);
                quiet
            }
            (_, ["-M" | "-m", name]) => {
                if let Some(head) = repo.head() {
                    repo.branches.remove(&repo.branch.clone());
                    repo.branches.insert((*name).to_owned(), head);
                }
                repo.branch = (*name).to_owned();
                quiet
            }
            (_, ["--show-current"]) => {
                (!repo.branch.is_empty()).then(|| Done::prints(&format!("{}\n", repo.branch)))?
            }
            (_, ["--list", name]) => {
                if name.contains('*') {
                    return None;
                }
                let out = match repo.branches.contains_key(*name) {
                    true if repo.branch == *name => format!("* {name}\n"),
                    true => format!("  {name}\n"),
                    false => String::new(),
                };
                Done::prints(&out)
            }
            _ => None,
        },
        "checkout" | "switch" => match rest
            .iter()
            .filter(|word| **word != "-q" && **word != "--quiet")
            .copied()
            .collect::<Vec<_>>()
            .as_slice()
        {
            ["-b" | "-c", name] => {
                if let Some(head) = repo.head() {
                    repo.branches.insert((*name).to_owned(), head);
                }
                repo.branch = (*name).to_owned();
                quiet
            }
            [name] if repo.branches.contains_key(*name) => {
                let (old, new) = (repo.head(), repo.branches[*name]);
                for path in old.map(|at| repo.commits[at].files.clone()).unwrap_or_default().keys() {
                    disk.remove(&format!("{root}/{path}"));
                }
                for (path, text) in &repo.commits[new].files {
                    disk.write(&format!("{root}/{path}"), text.clone());
                }
                repo.branch = (*name).to_owned();
                quiet
            }
            _ => None,
        },
        "tag" => match rest {
            [name] if !name.starts_with('-') => {
                let head = repo.head()?;
                repo.tags.insert((*name).to_owned(), head);
                quiet
            }
            ["-a", name, "-m", _] => {
                let head = repo.head()?;
                repo.tags.insert((*name).to_owned(), head);
                quiet
            }
            ["-l" | "--list", name] if !name.contains('*') => {
                Done::prints(&repo.tags.get_key_value(*name).map_or_else(String::new, |(name, _)| format!("{name}\n")))
            }
            [] | ["-l" | "--list"] => {
                Done::prints(&repo.tags.keys().map(|name| format!("{name}\n")).collect::<String>())
            }
            _ => None,
        },
        "rev-parse" => match (has(&["--verify"]), words.as_slice(), has(&["--abbrev-ref"])) {
            (true, [word], _) => {
                let found = repo.commit(word)?;
                Some(Done { status: Some(found.is_some()), out: None })
            }
            (_, ["HEAD"], true) if !repo.branch.is_empty() => Done::prints(&format!("{}\n", repo.branch)),
            _ => None,
        },
        "show-ref" => match words.as_slice() {
            [word] if has(&["--verify"]) => Some(Done { status: Some(repo.commit(word)?.is_some()), out: None }),
            _ => None,
        },
        "show" | "cat-file" => match (words.as_slice(), *verb, rest.first()) {
            ([word], "show", first) if first == Some(word) => {
                let (commit, path) = word.split_once(':')?;
                let Some(at) = repo.commit(commit)? else {
                    return Some(Done { status: Some(false), out: Some(String::new()) });
                };
                match repo.commits[at].files.get(path) {
                    Some(text) => Some(Done { status: Some(true), out: text.clone() }),
                    None => Some(Done { status: Some(false), out: Some(String::new()) }),
                }
            }
            ([word], "cat-file", Some(&"-e")) => {
                let (commit, path) = word.split_once(':')?;
                let there = repo.commit(commit)?.is_some_and(|at| repo.commits[at].files.contains_key(path));
                Some(Done { status: Some(there), out: Some(String::new()) })
            }
            _ => None,
        },
        "log" => {
            let one = has(&["-1", "-n1"]) || rest.windows(2).any(|pair| pair == ["-n", "1"]);
            let subject = has(&["--format=%s", "--pretty=%s", "--pretty=format:%s", "--format=format:%s"]);
            let known = |word: &&str| {
                word.starts_with("-1")
                    || word.starts_with("--format=")
                    || word.starts_with("--pretty=")
                    || !word.starts_with('-')
            };
            let from = match words.as_slice() {
                [] => repo.head()?,
                [word] => repo.commit(word)??,
                _ => return None,
            };
            if !subject || !rest.iter().all(known) {
                return None;
            }
            let mut subjects = Vec::new();
            let mut next = Some(from);
            while let Some(at) = next.filter(|_| subjects.len() <= repo.commits.len()) {
                subjects.push(repo.commits[at].subject.clone() + "\n");
                next = repo.commits[at].parent;
            }
            Done::prints(&subjects.into_iter().take(if one { 1 } else { usize::MAX }).collect::<String>())
        }
        "rev-list" => {
            let from = match words.as_slice() {
                [word] if has(&["--count"]) && rest.len() == 2 => repo.commit(word)??,
                _ => return None,
            };
            let count = std::iter::successors(Some(from), |at| repo.commits[*at].parent).take(10_000).count();
            Done::prints(&format!("{count}\n"))
        }
        "status" if has(&["--porcelain", "-s", "--short"]) && rest.len() == 1 && repo.staged.is_empty() => {
            let head = &repo.commits[repo.head()?].files;
            let mut here = BTreeMap::new();
            for (path, folder) in disk.below(root)? {
                if !folder {
                    here.insert(path[root.len() + 1..].to_owned(), disk.text(&path)?);
                }
            }
            let same = here.len() == head.len()
                && here.iter().all(|(path, text)| head.get(path).is_some_and(|known| known.as_ref() == Some(text)));
            same.then(|| Done::prints(""))?
        }
        "diff" if has(&["--quiet", "--exit-code"]) => {
            let files: Vec<&str> = rest.iter().skip_while(|word| **word != "--").skip(1).copied().collect();
            let head = &repo.commits[repo.head()?].files;
            if files.is_empty() || words.iter().any(|word| *word != "HEAD" && !files.contains(word)) {
                return None;
            }
            let mut same = true;
            for file in files {
                let now = disk.text(&absolute(Some(root), file)?)?;
                same &= head.get(file)?.as_ref()? == &now;
            }
            Some(Done { status: Some(same), out: None })
        }
        "ls-files" => match (rest, disk.at(root)) {
            ([], Some(Some(Node::Folder))) if repo.staged.is_empty() => {
                let head = &repo.commits[repo.head()?].files;
                Done::prints(&head.keys().map(|path| format!("{path}\n")).collect::<String>())
            }
            _ => None,
        },
        _ => None,
    }
}
