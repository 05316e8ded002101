pub mod diagnostic;
pub mod host;
pub mod source;
pub mod template;
pub mod ty;
pub mod yaml;
