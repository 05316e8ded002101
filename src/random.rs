//! Random values that no other process draws as well.
//!
//! Names, marks and ids keep runs on one machine apart, so their seed is the system's randomness. `fastrand` by itself takes the
//! clock: two processes that start in the same tick then draw the same.

use std::hash::{BuildHasher, RandomState};

/// A number that cannot be guessed from an earlier one of the same process, but is no secret.
pub fn number() -> u64 {
    RandomState::new().hash_one(())
}

/// A generator with a seed of its own.
pub fn generator() -> fastrand::Rng {
    fastrand::Rng::with_seed(number())
}

/// A word of small letters and digits, short enough for any name: eight of 36 are 41 bits.
pub fn word() -> String {
    const LETTERS: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";
    let mut generator = generator();
    std::iter::repeat_with(|| char::from(LETTERS[generator.usize(..LETTERS.len())])).take(8).collect()
}
