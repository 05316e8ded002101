//! Where a step can appear: the dialects of tasks, the phases of a task, and the blocks of a step that contains others.

/// The dialect of a task file (`decisions.md` §2).
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
    /// The name that `gevals explain` and the schemas use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Legacy => "legacy",
            Self::Steps => "steps",
            Self::Portable => "portable",
        }
    }
}

/// A phase of a task that contains steps.
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

/// The role of a block of steps in the step that contains it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum BlockRole {
    Setup,
    Steps,
    /// One branch of an `anyOf`.
    Branch,
    Cleanup,
}
