//! Attacks on the guarantees of gevals, with real processes, files and signals: one module per guarantee.
#![cfg(all(feature = "run", target_os = "linux"))]
#![expect(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test looks at the world from outside")]

#[path = "attacks/forgery.rs"]
mod forgery;
#[path = "attacks/leaks.rs"]
mod leaks;
#[path = "attacks/loss.rs"]
mod loss;
#[path = "attacks/record.rs"]
mod record;
#[path = "support/world.rs"]
#[expect(dead_code, reason = "shared with other tests")]
mod world;
