pub mod diagnostic;
pub mod source;
pub mod ty;
pub mod yaml;
