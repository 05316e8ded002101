//! Leaks: files outside the project, commands in CI logs, secrets in what is written.

mod outside;

mod logs;

mod secrets;
