//! Unguessable tokens: only the holder of a token is authorized.

use std::{fmt, io, io::Read};

/// 128 bits from the system's generator of random numbers, as 32 hexadecimal digits.
#[derive(Clone, PartialEq, Eq)]
pub struct Capability(String);

impl Capability {
    /// Creates a token.
    ///
    /// # Errors
    /// The system provides no random numbers.
    #[expect(clippy::disallowed_methods, reason = "only the system's generator is unpredictable")]
    pub fn new() -> io::Result<Self> {
        let mut bytes = [0; 16];
        std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        Ok(Self(hex::encode(bytes)))
    }

    /// Its digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The path of a server, which only holders of the token can reach.
    pub fn path(&self) -> String {
        format!("/{}/mcp", self.0)
    }
}

/// Leaves out the token, so that it never reaches a log by accident.
impl fmt::Debug for Capability {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Capability")
    }
}

/// Compares two texts in constant time: the duration depends on their lengths only.
pub fn is_same(one: &str, other: &str) -> bool {
    let differing = one.bytes().zip(other.bytes()).fold(0, |all, (a, b)| all | (a ^ b));
    one.len() == other.len() && std::hint::black_box(differing) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_unique_and_have_128_bits() {
        let (one, other) = (Capability::new().unwrap(), Capability::new().unwrap());
        assert_ne!(one, other);
        assert!(one.as_str().len() == 32 && one.as_str().bytes().all(|b| b.is_ascii_hexdigit()));
        assert_eq!(format!("{one:?}"), "Capability");
    }

    #[test]
    fn equal_texts_are_recognized() {
        assert!(is_same("", "") && is_same("/a/mcp", "/a/mcp"));
        assert!(!is_same("/a/mcp", "/b/mcp") && !is_same("/a/mcp", "/a/mcpx") && !is_same("a", ""));
    }
}
