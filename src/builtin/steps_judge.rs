//! `llmJudge` of the steps dialect (§6.3 of the upstream behaviour).

use super::{Builtin, llm};
use crate::{
    hir::Dialect,
    signature::{Shape, Signature},
};

/// The step `llmJudge` of the steps dialect (`upstream-behaviour.md`).
pub const BUILTIN: Builtin = Builtin { name: "llmJudge", dialect: Dialect::Steps, signature, meaning: llm::meaning };

fn signature() -> Signature {
    Signature { continues: false, ..llm::judge("llmJudge", Shape::of::<llm::Judge>(), &[&["contains", "exact"]]) }
}
