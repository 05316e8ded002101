//! What is known of a text before anything runs: literal pieces; names, which have the same value everywhere (`{random.id}`, an
//! environment variable); and unknown pieces.

/// A text in pieces.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Value {
    pieces: Vec<Piece>,
}

/// A piece of a text.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Piece {
    Text(String),
    /// A placeholder with this name, which has the same value everywhere in a task.
    Name(String),
    /// The output of a command in its script: an index in [`super::shell::Trace::chains`].
    Printed(usize),
    Unknown,
}

impl Value {
    /// A literal text.
    pub fn text(text: impl Into<String>) -> Self {
        let mut value = Self::default();
        value.push(Piece::Text(text.into()));
        value
    }

    /// A text of which nothing is known.
    pub fn unknown() -> Self {
        Self { pieces: vec![Piece::Unknown] }
    }

    /// A text that is known by a name.
    pub fn name(name: impl Into<String>) -> Self {
        Self { pieces: vec![Piece::Name(name.into())] }
    }

    /// Appends a piece.
    pub fn push(&mut self, piece: Piece) {
        match (self.pieces.last_mut(), piece) {
            (_, Piece::Text(text)) if text.is_empty() => {}
            (Some(Piece::Text(last)), Piece::Text(text)) => last.push_str(&text),
            (Some(Piece::Unknown), Piece::Unknown) => {}
            (_, piece) => self.pieces.push(piece),
        }
    }

    /// Appends a text.
    pub fn append(&mut self, other: &Self) {
        other.pieces.iter().for_each(|piece| self.push(piece.clone()));
    }

    /// Its pieces. There are no adjacent text pieces.
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// The text, if it is completely literal.
    pub fn literal(&self) -> Option<&str> {
        match self.pieces.as_slice() {
            [] => Some(""),
            [Piece::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// The command, if the text is exactly its output.
    pub fn printed(&self) -> Option<usize> {
        match self.pieces.as_slice() {
            [Piece::Printed(chain)] => Some(*chain),
            _ => None,
        }
    }

    /// Whether it contains no unknown piece.
    pub fn is_known(&self) -> bool {
        !self.pieces.iter().any(|piece| matches!(piece, Piece::Unknown | Piece::Printed(_)))
    }

    /// Whether both are certainly the same text.
    pub fn is(&self, other: &Self) -> bool {
        self.is_known() && self == other
    }

    /// Whether both may be the same text.
    pub fn may_be(&self, other: &Self) -> bool {
        if let (Some(a), Some(b)) = (self.literal(), other.literal()) {
            return a == b;
        }
        if let Some(text) = self.literal().or_else(|| other.literal()) {
            let other = if self.literal().is_some() { other } else { self };
            let (begins, ends) = (other.begins(), other.ends());
            if let [before, behind] = other.around_random().as_slice() {
                let drawn = text.strip_prefix(before).and_then(|rest| rest.strip_suffix(behind));
                return drawn.is_some_and(|drawn| {
                    drawn.len() == 8 && drawn.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
                });
            }
            return text.len() >= begins.len() + ends.len() && text.starts_with(begins) && text.ends_with(ends);
        }
        self.is_known() && self == other
            || !(self.is_known() && other.is_known() && self.is_apart(other))
                && self.begins().starts_with_either(other.begins())
                && self.ends().ends_with_either(other.ends())
    }

    /// Whether the literal texts at both beginnings may be of one text.
    pub fn may_begin_as(&self, other: &Self) -> bool {
        self.begins().starts_with_either(other.begins())
    }

    /// The literal texts around `{random.id}`, which is eight letters and digits; empty if there are other pieces.
    fn around_random(&self) -> Vec<&str> {
        let mut around = vec![""];
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => around.last_mut().into_iter().for_each(|last| *last = text),
                Piece::Name(name) if name == "{random.id}" => around.push(""),
                _ => return Vec::new(),
            }
        }
        around
    }

    /// Whether both have the same names in the same order, so that they differ because of their literal pieces.
    fn is_apart(&self, other: &Self) -> bool {
        let names = |value: &Self| -> Vec<Piece> {
            value.pieces.iter().filter(|piece| matches!(piece, Piece::Name(_))).cloned().collect()
        };
        names(self) == names(other) && self != other
    }

    fn begins(&self) -> &str {
        match self.pieces.first() {
            Some(Piece::Text(text)) => text,
            _ => "",
        }
    }

    fn ends(&self) -> &str {
        match self.pieces.last() {
            Some(Piece::Text(text)) => text,
            _ => "",
        }
    }

    /// The text for people: names as written, `…` for unknown pieces.
    pub fn shown(&self) -> String {
        let piece = |piece: &Piece| match piece {
            Piece::Text(text) | Piece::Name(text) => text.clone(),
            Piece::Printed(_) | Piece::Unknown => "…".to_owned(),
        };
        self.pieces.iter().map(piece).collect()
    }

    /// The value with another literal end, if it ends with a literal piece for which `change` returns one.
    pub fn with_end(&self, change: &dyn Fn(&str) -> Option<String>) -> Self {
        let mut pieces = self.pieces.clone();
        if let Some(Piece::Text(text)) = pieces.last_mut()
            && let Some(other) = change(text)
        {
            *text = other;
        }
        pieces.retain(|piece| !matches!(piece, Piece::Text(text) if text.is_empty()));
        Self { pieces }
    }

    /// Splits at a character, where it appears in literal pieces.
    pub fn split(&self, at: char) -> Vec<Self> {
        let mut parts = vec![Self::default()];
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => {
                    for (nth, part) in text.split(at).enumerate() {
                        if nth > 0 {
                            parts.push(Self::default());
                        }
                        if let Some(last) = parts.last_mut() {
                            last.push(Piece::Text(part.to_owned()));
                        }
                    }
                }
                other => {
                    if let Some(last) = parts.last_mut() {
                        last.push(other.clone());
                    }
                }
            }
        }
        parts
    }
}

trait Either {
    fn starts_with_either(&self, other: &str) -> bool;
    fn ends_with_either(&self, other: &str) -> bool;
}

impl Either for str {
    fn starts_with_either(&self, other: &str) -> bool {
        self.starts_with(other) || other.starts_with(self)
    }

    fn ends_with_either(&self, other: &str) -> bool {
        self.ends_with(other) || other.ends_with(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn demo(id: &str) -> Value {
        let mut value = Value::text("demo-");
        value.push(Piece::Name(id.to_owned()));
        value
    }

    #[test]
    fn values_that_are_equal_and_values_that_may_be_equal() {
        let (a, b) = (demo("{random.id}"), demo("{random.id}"));
        assert!(a.is(&b) && a.may_be(&b));
        let mut other = Value::text("test-");
        other.push(Piece::Name("{random.id}".to_owned()));
        assert!(!a.is(&other) && !a.may_be(&other));
        let mut unknown = Value::text("demo-");
        unknown.push(Piece::Unknown);
        assert!(!a.is(&unknown) && a.may_be(&unknown) && !other.may_be(&unknown));
        assert!(Value::unknown().may_be(&a) && !Value::unknown().is(&Value::unknown()));
        // Two names may have the same value.
        assert!(Value::name("$A").may_be(&Value::name("$B")) && !Value::name("$A").is(&Value::name("$B")));
        assert!(
            Value::text("demo-a1b2c3d4").may_be(&a)
                && !Value::text("demo-1").may_be(&a)
                && !Value::text("x").may_be(&a)
        );
    }

    #[test]
    fn pieces_are_split_and_joined() {
        let mut value = Value::text("pod/");
        value.append(&demo("{random.id}"));
        let parts = value.split('/');
        assert_eq!(parts, [Value::text("pod"), demo("{random.id}")]);
        assert_eq!(value.shown(), "pod/demo-{random.id}");
        assert_eq!(Value::text("a b").split(' ').len(), 2);
    }
}
