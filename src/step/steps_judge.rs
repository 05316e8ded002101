//! `llmJudge` of the steps dialect: [`llm`](super::llm) under its name there.

pub use super::llm::run;
