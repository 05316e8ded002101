pub mod diagnostic;
#[cfg(feature = "run")]
pub mod mcp;
pub mod secrets;
pub mod source;
pub mod ty;
