//! Parallel work if there is enough of it: starting the threads takes longer than checking a small file.

use rayon::prelude::*;

/// Applies a function to each item and returns the results in order; in one thread if there are fewer items than `least`.
pub fn map<'a, T: Sync, R: Send>(items: &'a [T], least: usize, make: impl Fn(&'a T) -> R + Send + Sync) -> Vec<R> {
    if items.len() < least {
        return items.iter().map(make).collect();
    }
    items.par_iter().with_min_len(least / 2).map(make).collect()
}
