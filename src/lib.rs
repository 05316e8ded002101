pub mod diagnostic;
pub mod source;
pub mod template;
pub mod ty;
pub mod yaml;
