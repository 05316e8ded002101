//! Where a step can stand: the dialects of tasks, the phases of a task, and the blocks of a step that holds others.

/// Which idea of a task a file follows (`decisions.md` §2).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Dialect {
    /// Bash tasks: no `apiVersion`, or `mcpchecker/v1alpha1`.
    Legacy,
    /// `mcpchecker/v1alpha2`.
    Steps,
    /// `mcp-eval/v1`.
    Portable,
}

impl Dialect {
    /// As `gevals explain` and schemas write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Legacy => "legacy",
            Self::Steps => "steps",
            Self::Portable => "portable",
        }
    }
}

/// A phase of a task that holds steps.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum PhaseKind {
    Setup,
    Verify,
    Cleanup,
}

impl PhaseKind {
    /// In execution order.
    pub const ALL: [Self; 3] = [Self::Setup, Self::Verify, Self::Cleanup];

    /// The key of the phase in a task.
    pub fn name(self) -> &'static str {
        match self {
            Self::Setup => "setup",
            Self::Verify => "verify",
            Self::Cleanup => "cleanup",
        }
    }
}

/// What a block of steps is to the step that holds it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum BlockRole {
    Setup,
    Steps,
    /// One branch of an `anyOf`.
    Branch,
    Cleanup,
}
