//! What is in scope at a location of a task.

use std::sync::Arc;

use indexmap::IndexMap;

use crate::{
    hir::{CallKind, Dialect, PhaseKind, Task},
    signature::Values,
    source::Span,
    template::Path,
    ty::Type,
};

/// The location of a hole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    Env,
    Prompt,
    /// An action of a scripted agent, during its run.
    Oracle,
    Phase(PhaseKind),
}

impl Place {
    pub(super) fn describe(self) -> &'static str {
        match self {
            Self::Env => "in `env`",
            Self::Prompt => "in the prompt",
            Self::Oracle => "in an oracle",
            Self::Phase(PhaseKind::Setup) => "in setup",
            Self::Phase(PhaseKind::Verify) => "in verify",
            Self::Phase(PhaseKind::Cleanup) => "in cleanup",
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Scope {
    pub(super) dialect: Dialect,
    pub(super) place: Place,
    /// Outputs, in the order in which they came into scope: by step ID, or by step type in the steps dialect.
    outputs: IndexMap<String, Binding>,
    pub(super) loops: Vec<(String, Type)>,
    /// The step's own values, and whether other names are accepted.
    pub(super) locals: Option<(Values, bool)>,
    /// The earlier calls of a scripted agent, by kind.
    pub(super) calls: Option<Vec<CallKind>>,
}

/// The outputs of a step.
#[derive(Clone, Debug)]
pub(super) struct Binding {
    pub(super) outputs: Values,
    /// Whether there may be outputs that are not known.
    pub(super) open: bool,
    /// The `continueOnError` step that may have failed before this was assigned.
    pub(super) doubt: Option<Span>,
    pub(super) span: Span,
}

impl Binding {
    /// The binding of a step that could not be checked: any output is accepted.
    pub(super) fn unknown(span: Span) -> Self {
        Self { outputs: Arc::default(), open: true, doubt: None, span }
    }
}

impl Scope {
    pub(super) fn new(task: &Task<Path>) -> Self {
        Self {
            dialect: task.dialect,
            place: Place::Phase(PhaseKind::Setup),
            outputs: IndexMap::new(),
            loops: Vec::new(),
            locals: None,
            calls: None,
        }
    }

    /// Enters a phase. In the steps dialect, verify begins without any outputs (§1.6).
    pub(super) fn enter(&mut self, kind: PhaseKind, dialect: Dialect) {
        self.place = Place::Phase(kind);
        if dialect != Dialect::Portable && kind == PhaseKind::Verify {
            self.outputs.clear();
        }
    }

    pub(super) fn get(&self, id: &str) -> Option<&Binding> {
        self.outputs.get(id)
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = &str> {
        self.outputs.keys().map(String::as_str)
    }

    /// Whether this is cleanup, where a step is skipped if an output that it uses is
    /// missing. Elsewhere, that is an error.
    pub(super) fn in_cleanup(&self) -> bool {
        self.place == Place::Phase(PhaseKind::Cleanup)
    }

    pub(super) fn mark(&self) -> usize {
        self.outputs.len()
    }

    pub(super) fn define(&mut self, id: String, binding: Binding) {
        self.outputs.insert(id, binding);
    }

    pub(super) fn truncate(&mut self, mark: usize) {
        self.outputs.truncate(mark);
    }

    pub(super) fn take_since(&mut self, mark: usize) -> Vec<(String, Binding)> {
        self.outputs.split_off(mark.min(self.outputs.len())).into_iter().collect()
    }

    /// Returns the bindings added since `mark`, as the type of one iteration of a loop.
    pub(super) fn record_since(&self, mark: usize) -> Type {
        let fields = self
            .outputs
            .iter()
            .skip(mark)
            .map(|(id, b)| (id.clone(), Type::Record { fields: IndexMap::clone(&b.outputs), open: b.open }));
        Type::Record { fields: fields.collect(), open: false }
    }

    /// Marks the bindings added since `mark` as possibly unassigned.
    pub(super) fn doubt_since(&mut self, mark: usize, span: Span) {
        for (_, binding) in self.outputs.iter_mut().skip(mark) {
            binding.doubt.get_or_insert(span);
        }
    }
}

/// Returns the bindings in scope after an `anyOf`: those that every branch has, with their types joined.
pub(super) fn join(branches: Vec<Vec<(String, Binding)>>) -> Vec<(String, Binding)> {
    let mut branches = branches.into_iter();
    let mut joined = branches.next().unwrap_or_default();
    for branch in branches {
        joined.retain_mut(|(id, binding)| {
            let Some((_, other)) = branch.iter().find(|(other, _)| other == id) else { return false };
            let mut outputs = IndexMap::new();
            for (name, ty) in binding.outputs.iter() {
                match other.outputs.get(name) {
                    Some(ty2) => outputs.insert(name.clone(), ty.join(ty2)),
                    None if other.open => outputs.insert(name.clone(), Type::Any),
                    None => None,
                };
            }
            if binding.open {
                outputs.extend(
                    other.outputs.keys().filter(|k| !binding.outputs.contains_key(*k)).map(|k| (k.clone(), Type::Any)),
                );
            }
            binding.outputs = Arc::new(outputs);
            binding.open &= other.open;
            binding.doubt = binding.doubt.or(other.doubt);
            true
        });
    }
    joined
}
