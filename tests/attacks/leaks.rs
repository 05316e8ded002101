//! Leaks: files beyond the project, commands in the logs of CI, secrets in what is written.

#[path = "leaks/outside.rs"]
mod outside;

#[path = "leaks/logs.rs"]
mod logs;

#[path = "leaks/secrets.rs"]
mod secrets;
