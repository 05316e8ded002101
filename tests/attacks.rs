//! What an adversary would do, done for real: other users, processes that overwrite files, signals.
#![cfg(all(feature = "run", target_os = "linux"))]
#![expect(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test looks at the world from outside")]

#[path = "attacks/forgery.rs"]
mod forgery;
#[path = "support/world.rs"]
#[expect(dead_code, reason = "shared with other tests")]
mod world;
