//! The program of `builtin:kubernetes`: a client of a Kubernetes API. Its operations are defined in
//! [`crate::kubernetes`].
#![expect(
    clippy::disallowed_methods,
    reason = "a program of its own: its files, clock and environment are the real ones"
)]

mod access;
mod api;
mod call;
mod chosen;
mod compare;
mod config;
mod describe;
mod helm;
pub mod inventory;
mod namespace;
mod object;
mod path;
pub mod plane;
mod pod;
pub mod serve;
pub mod stock;
mod wait;
