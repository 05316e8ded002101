//! Work side by side where there is enough of it: to start the threads takes longer than to check a small file.

use rayon::prelude::*;

/// What a function makes of each item, in order; by one thread where there are fewer items than `least`.
pub fn map<'a, T: Sync, R: Send>(items: &'a [T], least: usize, make: impl Fn(&'a T) -> R + Send + Sync) -> Vec<R> {
    if items.len() < least {
        return items.iter().map(make).collect();
    }
    items.par_iter().with_min_len(least / 2).map(make).collect()
}
