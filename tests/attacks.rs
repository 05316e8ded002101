//! Attacks on the guarantees of gevals, with real processes, files and signals: one module per guarantee.
#![cfg(all(feature = "run", target_os = "linux"))]

mod forgery;
mod leaks;
mod loss;
mod record;
