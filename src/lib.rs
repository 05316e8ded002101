pub mod diagnostic;
pub mod host;
pub mod source;
pub mod ty;
