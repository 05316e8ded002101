//! The repositories of a rehearsal: branches, tags, and the content of each commit.

use std::collections::BTreeMap;

use super::{
    Done, Text,
    disk::{Disk, Node, absolute},
};

/// The maximum number of commits. Longer histories are not followed.
const COMMITS: usize = 50;

/// Repositories by directory.
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

    /// The commit that a word refers to.
    fn commit(&self, word: &str) -> Option<Option<usize>> {
        if word.contains(['~', '^', '@', '{']) {
            return None;
        }
        let (branch, tag) = (word.strip_prefix("refs/heads/"), word.strip_prefix("refs/tags/"));
        Some(match (word, branch, tag) {
            ("HEAD", ..) => self.head(),
            (_, Some(branch), _) => self.branches.get(branch).copied(),
            (_, _, Some(tag)) => self.tags.get(tag).copied(),
            _ => self.tags.get(word).or_else(|| self.branches.get(word)).copied(),
        })
    }
}

impl Repos {
    /// Runs `git` in a directory.
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
        const LOOKS: [&str; 14] = [
            "log",
            "show",
            "diff",
            "status",
            "rev-parse",
            "ls-files",
            "cat-file",
            "rev-list",
            "blame",
            "grep",
            "config",
            "show-ref",
            "ls-tree",
            "for-each-ref",
        ];
        let looks = rest.first().is_some_and(|verb| LOOKS.contains(verb));
        let known = key.as_ref().and_then(|key| self.all.get_mut(key)).filter(|repo| !repo.lost);
        if let (Some(repo), Some(key), Some(place)) = (known, &key, &place) {
            if let Some(done) = run(repo, rest, key, place, disk) {
                return done;
            }
            repo.lost |= !looks;
        }
        if !looks {
            // `git clone URL DIR` creates a directory as well.
            let named = rest.last().filter(|_| rest.first() == Some(&"clone"));
            let made = named.and_then(|word| absolute(place.as_deref(), word));
            key.or(place).into_iter().chain(made).for_each(|path| disk.doubt(&path));
        }
        Done::unknown()
    }

    /// Removes all repositories at and below a path.
    pub fn remove(&mut self, path: &str) {
        self.all.retain(|key, _| !key.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')));
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

/// Runs a command in the repository at `root`, from a directory inside it. Returns `None` if the effect is not known.
fn run(repo: &mut Repo, args: &[&str], root: &str, place: &str, disk: &mut Disk<'_>) -> Option<Done> {
    let quiet = Some(Done { status: Some(true), out: None });
    let (verb, rest) = args.split_first()?;
    let words: Vec<&str> = rest.iter().filter(|word| !word.starts_with('-')).copied().collect();
    let has = |names: &[&str]| rest.iter().any(|word| names.contains(word));
    match *verb {
        "config" => quiet,
        "add" => {
            let inside = |path: &str| path.strip_prefix(root)?.strip_prefix('/').map(str::to_owned);
            if !(has(&["-A", "--all", "."]) || words == ["."]) {
                for word in &words {
                    let path = absolute(Some(place), word)?;
                    let Some(Node::File(text)) = disk.at(&path)? else { return None };
                    repo.staged.insert(inside(&path)?, text);
                }
                return (words.len() == rest.len()).then_some(quiet)?;
            }
            let head = repo.head().map(|at| repo.commits[at].files.clone()).unwrap_or_default();
            let mut here = BTreeMap::new();
            for (path, folder) in disk.below(root)? {
                if !folder {
                    here.insert(inside(&path)?, disk.text(&path));
                }
            }
            // Deleted and ignored files are not supported.
            let plain = place == root && head.keys().all(|path| here.contains_key(path));
            (plain && !here.keys().any(|path| path.ends_with(".gitignore"))).then_some(())?;
            repo.staged.append(&mut here);
            quiet
        }
        "commit" => {
            let at =
                rest.iter().position(|word| word.starts_with('-') && !word.starts_with("--") && word.ends_with('m'))?;
            let subject = rest.get(at + 1)?.lines().next().unwrap_or_default();
            let known = |word: &&str| {
                matches!(*word, "-m" | "-qm" | "-q" | "--quiet" | "--allow-empty") || *word == rest[at + 1]
            };
            if repo.commits.len() >= COMMITS || !rest.iter().all(known) {
                return None;
            }
            let parent = repo.head();
            let before = parent.map(|at| repo.commits[at].files.clone()).unwrap_or_default();
            let mut files = before.clone();
            files.append(&mut repo.staged);
            // If nothing has changed, no commit is created.
            let changed = files.iter().any(|(path, text)| text.is_none() || before.get(path) != Some(text));
            (changed || has(&["--allow-empty"])).then_some(())?;
            repo.commits.push(Commit { subject: subject.to_owned(), files, parent });
            repo.branches.insert(repo.branch.clone(), repo.commits.len() - 1);
            quiet
        }
        "branch" => match (words.as_slice(), rest) {
            ([name], [only]) if name == only && !repo.branches.contains_key(*name) => {
                let head = repo.head()?;
                repo.branches.insert((*name).to_owned(), head);
                quiet
            }
            (_, ["-M" | "-m", name]) if !repo.branches.contains_key(*name) => {
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
            ["-b" | "-c", name] if !repo.branches.contains_key(*name) => {
                if let Some(head) = repo.head() {
                    repo.branches.insert((*name).to_owned(), head);
                }
                repo.branch = (*name).to_owned();
                quiet
            }
            [name] if repo.branches.contains_key(*name) => {
                let (old, new) =
                    (repo.commits[repo.head()?].files.clone(), repo.commits[repo.branches[*name]].files.clone());
                // Uncommitted changes are carried over, or prevent the checkout.
                let at = |path: &String| disk.at(&format!("{root}/{path}"));
                let is_kept =
                    |(path, text): (&String, &Text)| text.is_some() && at(path) == Some(Some(Node::File(text.clone())));
                let is_free = |path: &String| old.contains_key(path) || at(path) == Some(None);
                if !repo.staged.is_empty() || !old.iter().all(is_kept) || !new.keys().all(is_free) {
                    return None;
                }
                for path in old.keys() {
                    disk.remove(&format!("{root}/{path}"));
                }
                for (path, text) in new {
                    disk.write(&format!("{root}/{path}"), text);
                }
                repo.branch = (*name).to_owned();
                quiet
            }
            _ => None,
        },
        "tag" => match rest {
            [name] if !name.starts_with('-') && !repo.tags.contains_key(*name) => {
                let head = repo.head()?;
                repo.tags.insert((*name).to_owned(), head);
                quiet
            }
            ["-a", name, "-m", _] if !repo.tags.contains_key(*name) => {
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
            [word] if has(&["--verify"]) && word.starts_with("refs/") => {
                Some(Done { status: Some(repo.commit(word)?.is_some()), out: None })
            }
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
        "diff" if has(&["--quiet", "--exit-code"]) && repo.staged.is_empty() => {
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
