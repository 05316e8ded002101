//! Attacks on what gevals promises, for real: processes, files and links of somebody who means no good.
#![cfg(all(feature = "run", target_os = "linux"))]
#![expect(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test looks at the world from outside")]

#[path = "support/world.rs"]
#[expect(dead_code, reason = "shared with other tests")]
mod world;

#[path = "attacks/leaks.rs"]
mod leaks;
