//! SHA-256 of documents in RFC 8785 form.

use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::ty::canonical::{canonical, digest};

/// Returns the digest of a task's body. Its `actions` and `edges` are empty there and passed one by one, so that large ones
/// need not be in memory as a whole.
pub(super) fn body_digest(
    facts: &impl Serialize,
    actions: impl Iterator<Item = impl Serialize>,
    edges: impl Iterator<Item = impl Serialize>,
) -> String {
    let facts = canonical(facts);
    // Keys are sorted, and everything before the edges is in our own words.
    let hole = |key: &str| facts.windows(key.len()).position(|w| w == key.as_bytes()).map(|at| at + key.len() - 1);
    let (Some(first), Some(second)) = (hole("\"actions\":[]"), hole("\"edges\":[]")) else {
        return named(Sha256::digest(&facts));
    };
    let mut hash = Sha256::new();
    hash.update(&facts[..first]);
    for (i, action) in actions.enumerate() {
        hash.update(if i > 0 { "," } else { "" });
        hash.update(canonical(&action));
    }
    hash.update(&facts[first..second]);
    for (i, edge) in edges.enumerate() {
        hash.update(if i > 0 { "," } else { "" });
        hash.update(canonical(&edge));
    }
    hash.update(&facts[second..]);
    named(hash.finalize())
}

pub(super) fn sha256(value: &impl Serialize) -> String {
    digest(value)
}

fn named(hash: impl AsRef<[u8]>) -> String {
    format!("sha256:{}", hex::encode(hash))
}
