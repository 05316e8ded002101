//! Random values that differ between processes.
//!
//! Names, marks and IDs keep the runs on one machine apart, so they are seeded from the randomness of the system. By
//! itself, `fastrand` uses the clock as seed: two processes that start in the same tick then get the same values.

use std::hash::{BuildHasher, RandomState};

/// Returns a number that cannot be predicted from earlier ones of the same process, but is not a secret.
pub fn number() -> u64 {
    RandomState::new().hash_one(())
}

/// Returns a generator with a fresh seed.
pub fn generator() -> fastrand::Rng {
    fastrand::Rng::with_seed(number())
}

/// Returns a word of lowercase letters and digits, short enough for any name: eight of 36 characters are 41 bits.
pub fn word() -> String {
    const LETTERS: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";
    let mut generator = generator();
    std::iter::repeat_with(|| char::from(LETTERS[generator.usize(..LETTERS.len())])).take(8).collect()
}
