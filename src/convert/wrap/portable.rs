//! Converts tasks to the portable dialect: what they need, their phases, and what their scripts share.

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, HashMap, HashSet},
    path::Path,
    time::Duration,
};

use super::{Converter, Written, find, refusal};
use crate::{
    convert::{
        Context, Label, Piece, Refusal, Target,
        emit::{Entry, Item, Value},
        kubernetes,
        lift::{self, REPORTED, Shared, Source},
        shell::Text,
        step::{self, Step},
    },
    hir::{Dialect, PhaseKind, RequirementKind, Substitute},
    source::resolve,
    ty::duration,
    yaml::Node,
};

/// A task whose steps may wait longer than this gets a timeout with room for them.
const LONG_WAIT: Duration = Duration::from_secs(120);
/// The timeout of a portable task that does not set one.
const USUAL_LIMIT: Duration = Duration::from_secs(300);

impl Converter<'_> {
    pub fn as_portable(&mut self, root: Node<'_>, mistake: Option<usize>) -> Result<(Vec<Entry>, usize), Refusal> {
        // The portable dialect has an escape for braces.
        self.comments.forget("gevals: allow(unexpanded-hole)");
        let mut entries = self.head(root, "mcp-eval/v1");
        let mut metadata = self.metadata(root).unwrap_or_else(|| Entry::new("metadata", Value::Map(Vec::new())));
        let legacy = self.task.dialect == Dialect::Legacy;
        let block = find(root, if legacy { "steps" } else { "spec" })
            .ok_or_else(|| refusal(root.span(), "the task has no steps"))?;
        let above = self.comments.before(block.key.span().start as usize);
        // In the order of the file, so that each comment stays with what follows it.
        let mut over: HashMap<String, Vec<String>> = HashMap::new();
        let mut items: HashMap<(PhaseKind, usize), Vec<String>> = HashMap::new();
        for entry in block.value.entries() {
            let name = entry.name.to_ascii_lowercase();
            over.insert(name.clone(), self.comments.before(entry.key.span().start as usize));
            if let Some(kind) = PhaseKind::ALL.into_iter().find(|k| k.name() == name) {
                for (i, item) in entry.value.items().enumerate() {
                    let mut comments = self.comments.before(item.span().start as usize);
                    comments.extend(self.comments.before(item.span().end as usize));
                    items.insert((kind, i), comments);
                }
            }
            let inside = self.comments.before(entry.value.span().end as usize);
            let behind = self.comments.behind(entry.value.span().end as usize);
            if let Some(comments) = over.get_mut(&name) {
                comments.extend(inside);
                comments.extend(behind);
            }
        }
        let shared = shared(self.cx, self.task, &self.scripts(), mistake);
        let mut phases: Vec<(PhaseKind, Vec<Step>)> = Vec::new();
        for kind in PhaseKind::ALL {
            let mut steps = Vec::new();
            for (i, step) in self.task.phase(kind).steps.iter().enumerate() {
                let mut new = self.portable_step(kind, step, &shared)?;

                if let (Some(first), Some(comments)) = (new.first_mut(), items.get(&(kind, i))) {
                    first.comments.splice(0..0, comments.iter().cloned());
                }
                steps.append(&mut new);
            }
            let apart = std::mem::take(&mut self.apart) && self.task.phase(kind).steps.len() == 1;
            if kind == PhaseKind::Verify && !apart {
                steps = sequence(steps);
            }
            phases.push((kind, steps));
        }
        pruned(&mut phases);
        let alias =
            if self.cx.target == Target::Kubernetes { self.with_operations(&mut phases, &shared) } else { None };
        if let Value::Map(fields) = &mut metadata.value {
            fields.extend(self.limits(&phases));
        }
        entries.push(metadata);
        let mut spec = Vec::new();
        if let Some(entry) = self.imports(alias)? {
            spec.push(entry);
        }
        if let Some(entry) = self.requires(over.get("requires").cloned().unwrap_or_default()) {
            spec.push(entry);
        }
        let used = shared.env_used.borrow();
        let env: Vec<Entry> = shared
            .env
            .iter()
            .filter(|(name, _)| used.contains(*name))
            .map(|(name, (value, _))| Entry::new(name, Value::text(value)))
            .collect();
        if !env.is_empty() {
            spec.push(Entry::new("env", Value::Map(env)));
        }
        drop(used);
        let mut prompt = Entry::new("prompt", self.prompt()?);
        prompt.comments = over.remove("prompt").unwrap_or_default();
        spec.push(prompt);
        let temporary = format!("{phases:?}").contains(lift::TEMPORARY);
        for (kind, mut steps) in phases {
            step::origins(&steps, kind.name(), &mut self.origins);
            if kind == PhaseKind::Cleanup {
                if temporary {
                    let mut step = Step::command("rm -rf \"$DIR\"");
                    step.given("DIR", lift::TEMPORARY.trim_end_matches('/').to_owned());
                    steps.push(step);
                }
                // Cleanup runs in reverse order.
                steps.reverse();
            }
            if steps.is_empty() && kind != PhaseKind::Verify {
                continue;
            }
            let mut entry = Entry::new(kind.name(), step::list(&steps));
            entry.comments = over.remove(kind.name()).unwrap_or_default();
            spec.push(entry);
        }
        let mut spec = Entry::new("spec", Value::Map(spec));
        spec.comments = above;
        for (_, rest) in over {
            spec.comments.extend(rest);
        }
        entries.push(spec);
        for note in shared.notes.borrow().iter() {
            self.note(note.clone());
        }
        Ok((entries, shared.places.get()))
    }

    /// Returns the timeouts of the task: its own, if it has any; otherwise longer ones than the default only if its steps may
    /// wait longer.
    fn limits(&mut self, phases: &[(PhaseKind, Vec<Step>)]) -> Vec<Entry> {
        let waits = |cleanup: bool| -> Duration {
            let of = |(kind, _): &&(PhaseKind, Vec<Step>)| (*kind == PhaseKind::Cleanup) == cleanup;
            phases.iter().filter(of).flat_map(|(_, steps)| steps).map(Step::waits).sum()
        };
        let mut fields = Vec::new();
        let mut unset = false;
        for (key, own, cleanup) in
            [("timeout", &self.task.meta.timeout, false), ("cleanupTimeout", &self.task.meta.cleanup_timeout, true)]
        {
            let needed = waits(cleanup);
            let usual = if cleanup { USUAL_LIMIT.saturating_sub(LONG_WAIT) } else { LONG_WAIT };
            let limit = match own {
                Some(own) => Some(own.value),
                // Cleanup has the whole default timeout for itself, without an agent.
                None if needed > usual => Some(Duration::from_secs((needed + USUAL_LIMIT).as_secs().div_ceil(60) * 60)),
                None => None,
            };
            unset |= limit.is_none() && !cleanup;
            fields.extend(limit.map(|limit| Entry::new(key, Value::text(duration::format(limit)))));
        }
        if unset && self.task.dialect != Dialect::Portable {
            self.note(
                "the task had no timeout of its own; now the eval's timeout or 5m applies: set `metadata.timeout` if its agent needs longer",
            );
        }
        fields
    }

    /// Returns the text of a file, or those of the manifests in a directory.
    fn texts(&self, file: &str) -> Vec<String> {
        let path = resolve(&self.task.dir, file);
        let read = |path: &Path| String::from_utf8(self.cx.files.read(path).ok()?).ok();
        match read(&path) {
            Some(text) => vec![text],
            None => {
                let names = self.cx.files.list(&path);
                let manifests = names.iter().map(|name| path.join(name)).filter(|path| is_manifest(path));
                manifests.filter_map(|path| read(&path)).collect()
            }
        }
    }

    /// Converts commands of kubectl to operations. Returns the alias of the extension if the task does not import it yet.
    fn with_operations(&mut self, phases: &mut [(PhaseKind, Vec<Step>)], shared: &Shared<'_>) -> Option<&'static str> {
        let aliases = || {
            self.task.requires.iter().filter_map(|r| match &r.kind {
                RequirementKind::Extension(name) => Some((r.alias.as_ref().unwrap_or(name).value.as_str(), name)),
                _ => None,
            })
        };
        let is_bundled = |name: &str| {
            let package = self.packages.get(name)?;
            crate::package::bundled(package, Substitute::Auto).map(drop)
        };
        let own = aliases().find(|(_, name)| is_bundled(&name.value).is_some()).map(|(alias, _)| alias.to_owned());
        if own.is_none() && aliases().any(|(alias, _)| alias == kubernetes::ALIAS) {
            self.note(format!(
                "`{}` is another extension here, so kubectl commands are not converted",
                kubernetes::ALIAS
            ));
            return None;
        }
        let constant = |name: &str| {
            let (text, value) = shared.env.get(name)?;
            Some((value.clone()?, text.contains("{env.")))
        };
        let alias = own.as_deref().unwrap_or(kubernetes::ALIAS);
        let lifted = kubernetes::lift(phases, alias, &constant, &|file| self.texts(file));
        self.kubectl = (lifted.operations, lifted.commands);
        if lifted.unplaced {
            let note = "commands without `-n` used the current namespace; operations use `default`";
            self.note(note.to_owned());
        }
        if lifted.reported {
            // It belongs to no particular statement: the statements are already counted.
            self.pieces.push(Piece {
                phase: PhaseKind::Cleanup,
                file: None,
                line: 0,
                text: "kubectl delete … || true".to_owned(),
                label: Label::Stronger,
                statements: 0,
                why: Some(REPORTED.to_owned()),
            });
        }
        (lifted.operations > 0 && own.is_none()).then_some(kubernetes::ALIAS)
    }

    /// Returns the extensions of the task, and `kubernetes` under this alias.
    pub fn imports(&self, kubernetes: Option<&str>) -> Result<Option<Entry>, Refusal> {
        let mut items = Vec::new();
        if let Some(alias) = kubernetes {
            let package = Value::text(format!("builtin:{}", crate::kubernetes::NAME));
            let value = Value::map([("package", package), ("as", Value::text(alias))]);
            items.push(Item { comments: Vec::new(), value });
        }
        for requirement in &self.task.requires {
            let RequirementKind::Extension(name) = &requirement.kind else { continue };
            let package = self.packages.get(&name.value).ok_or_else(|| {
                refusal(
                    name.span,
                    format!(
                        "the package of the extension `{}` is unknown: convert the task together with the eval that declares the extension",
                        name.value
                    ),
                )
            })?;
            let alias = requirement.alias.as_ref().unwrap_or(name);
            let value = Value::map([("package", Value::text(package)), ("as", Value::text(&alias.value))]);
            items.push(Item { comments: Vec::new(), value });
        }
        Ok((!items.is_empty()).then(|| Entry::new("imports", Value::List(items))))
    }

    pub fn requires(&self, comments: Vec<String>) -> Option<Entry> {
        let mut items = Vec::new();
        for requirement in &self.task.requires {
            let mut fields = match &requirement.kind {
                RequirementKind::Extension(_) => continue,
                RequirementKind::McpServer(name) => vec![Entry::new("mcpServer", Value::text(&name.value))],
                RequirementKind::Command(name) => vec![Entry::new("command", Value::text(&name.value))],
                RequirementKind::Judge(_) => vec![Entry::new("judge", Value::bool(true))],
            };
            if let Some(alias) = &requirement.alias {
                fields.push(Entry::new("as", Value::text(&alias.value)));
            }
            items.push(Item { comments: Vec::new(), value: Value::Map(fields) });
        }
        (!items.is_empty()).then(|| Entry { comments, ..Entry::new("requires", Value::List(items)) })
    }
}

/// Whether `kubectl apply` reads a file of a directory.
fn is_manifest(path: &Path) -> bool {
    path.extension().is_some_and(|end| ["json", "yaml", "yml"].iter().any(|known| end == *known))
}

/// Checks continue after one that fails; steps that do more than read must not.
fn sequence(steps: Vec<Step>) -> Vec<Step> {
    if steps.len() < 2 || lift::read_only(&steps[1..]) {
        return steps;
    }
    vec![Step::new(step::Kind::Group { steps, cleanup: Vec::new() })]
}

/// Removes ids that nothing refers to, and files that nothing reads.
fn pruned(phases: &mut [(PhaseKind, Vec<Step>)]) {
    loop {
        let all = format!("{phases:?}");
        let mut unread = false;
        for (_, steps) in phases.iter_mut() {
            unread |= without(steps, &|step| match &step.kind {
                step::Kind::File { path, content: Some(_), .. } => {
                    path.starts_with(lift::TEMPORARY) && all.matches(path.as_str()).count() == 1
                }
                _ => false,
            });
        }
        if !unread {
            break;
        }
    }
    let all = format!("{phases:?}");
    for step in phases.iter_mut().flat_map(|(_, steps)| steps) {
        step.each(&mut |s| {
            let made = matches!(s.kind, step::Kind::Command { .. } | step::Kind::Http { .. });
            if made && s.id.as_ref().is_some_and(|id| !all.contains(&format!("{{steps.{id}."))) {
                s.id = None;
            }
        });
    }
}

/// Removes steps from a list. Returns whether there were any.
fn without(steps: &mut Vec<Step>, gone: &dyn Fn(&Step) -> bool) -> bool {
    let before = steps.len();
    steps.retain(|s| !gone(s));
    let inner = steps.iter_mut().flat_map(Step::lists).map(|list| without(list, gone)).fold(false, |a, b| a | b);
    inner || steps.len() < before
}

/// Collects what the scripts of a task share, mainly the variables that may appear in `spec.env`: those that have the same value
/// wherever they are used.
fn shared<'a>(cx: Context<'a>, task: &Written, scripts: &[Source], mistake: Option<usize>) -> Shared<'a> {
    let constants: Vec<HashMap<String, Option<Text>>> = scripts.iter().map(|s| lift::constants(&s.text)).collect();
    let uses: Vec<HashSet<String>> =
        scripts.iter().map(|s| crate::bash::ast::names_in(&s.text).into_iter().collect()).collect();
    let mut env = BTreeMap::new();
    for (name, value) in constants.iter().flatten() {
        let Some(value) = value else { continue };
        let fits = name.len() > 1 && name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_');
        let text = value.constant().unwrap_or_default();
        let agreed = constants.iter().zip(&uses).all(|(own, used)| match own.get(name) {
            Some(Some(other)) => other == value,
            Some(None) => false,
            None => !used.contains(name),
        });
        let holds_self = value.template().contains(&format!("env.{name} "));
        if fits && agreed && !holds_self && !lift::is_special(name) && !text.is_empty() && !text.contains(['\n', '\''])
        {
            env.insert(name.clone(), (value.template(), value.constant()));
        }
    }
    let mut ids = HashSet::new();
    task.walk(&mut |_, step| ids.extend(step.id.as_ref().map(|i| i.value.clone())));
    Shared {
        files: cx.files,
        dir: task.dir.clone(),
        allow_weaker: cx.allow_weaker,
        kept: cx.kept,
        env,
        env_used: RefCell::default(),
        ids: RefCell::new(ids),
        temporary: RefCell::default(),
        notes: RefCell::default(),
        mistake,
        places: Cell::new(0),
    }
}
