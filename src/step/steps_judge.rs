//! `llmJudge` in the steps dialect: [`llm`](super::llm) under a different name.

pub use super::llm::run;
