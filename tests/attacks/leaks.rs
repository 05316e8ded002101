//! Leaks: files outside the project, commands in CI logs, secrets in what is written.

#[path = "leaks/outside.rs"]
mod outside;

#[path = "leaks/logs.rs"]
mod logs;

#[path = "leaks/secrets.rs"]
mod secrets;
