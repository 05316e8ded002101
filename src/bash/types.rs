//! Types of Kubernetes' resources, from a table.

use std::sync::LazyLock;

/// `NAME: REST` in every line, sorted by name.
const TABLE: &str = include_str!("tools/kubernetes.types");

/// A type, as the table writes it: `int`, `[Container]`, `PodSpec`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Type(&'static str);

/// What a type consists of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shape {
    Number,
    Boolean,
    /// A text, with all its values, separated by `|`, if they are known.
    Text(Option<&'static str>),
    /// A number or a text.
    Either,
    List(Type),
    /// An object whose keys anybody chooses.
    Map(Type),
    /// An object with the fields of the table.
    Object,
    Unknown,
}

/// The lines of the table, each as the name and the rest.
static LINES: LazyLock<Vec<(&str, &str)>> = LazyLock::new(|| {
    let mut lines = Vec::with_capacity(512);
    let mut begin = 0;
    for end in memchr::memchr_iter(b'\n', TABLE.as_bytes()) {
        // Names are short, lines are not.
        let name = TABLE.as_bytes()[begin..end].iter().position(|byte| *byte == b':').map_or(end, |at| begin + at);
        lines.push((&TABLE[begin..name], TABLE.get(name + 2..end).unwrap_or_default()));
        begin = end + 1;
    }
    lines
});

/// The rest of the line that begins with a name.
fn line(name: &str) -> Option<&'static str> {
    let at = LINES.binary_search_by(|(known, _)| (*known).cmp(name)).ok()?;
    LINES.get(at).map(|(_, rest)| *rest)
}

/// The type of a kind of resources, by its name in the table of kubectl.
pub fn of_kind(kind: &str) -> Option<Type> {
    line(kind)?.split_once(' ').map(|(name, _)| Type(name))
}

/// The API version of a kind's type; in `networking.istio.io/*`, the star stands for the rest.
pub fn version(kind: &str) -> Option<&'static str> {
    line(kind)?.split_once(' ').map(|(_, version)| version)
}

/// Keys of quotas that must be quoted because of their dots.
pub fn quota() -> impl Iterator<Item = &'static str> {
    line("quota").unwrap_or_default().split(' ')
}

/// The names of all fields, some of them repeatedly, and the keys of quotas.
pub fn names() -> impl Iterator<Item = &'static str> {
    let lines = TABLE.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once(": "));
    lines.flat_map(|(_, rest)| rest.split(' ').map(|word| word.split('=').next().unwrap_or(word)))
}

/// Whether a field of this name exists anywhere.
pub fn is_name(name: &str) -> bool {
    let bytes = TABLE.as_bytes();
    let is_whole =
        |at: usize| at > 0 && bytes[at - 1] == b' ' && matches!(bytes.get(at + name.len()), Some(b'=' | b' ' | b'\n'));
    let is_plain = name.len() > 1 && !name.contains(['=', ' ', '\n', ':']);
    is_plain && memchr::memmem::find_iter(bytes, name).any(is_whole)
}

impl Type {
    /// A resource of a kind without a type of its own.
    pub const RESOURCE: Self = Self("Resource");
    /// The metadata of a list.
    pub const LIST: Self = Self("ListMeta");

    /// What it consists of.
    pub fn shape(self) -> Shape {
        let inner = || Self(self.0.get(1..self.0.len() - 1).unwrap_or("any"));
        match self.0 {
            "int" | "num" => Shape::Number,
            "bool" => Shape::Boolean,
            "str" | "quantity" => Shape::Text(None),
            "intstr" => Shape::Either,
            "any" => Shape::Unknown,
            list if list.starts_with('[') => Shape::List(inner()),
            map if map.starts_with('{') => Shape::Map(inner()),
            text => match text.strip_prefix("str(").and_then(|rest| rest.strip_suffix(')')) {
                Some(values) => Shape::Text(Some(values)),
                None => Shape::Object,
            },
        }
    }

    /// Whether manifests may have a number in place of this text.
    pub fn is_quantity(self) -> bool {
        self.0 == "quantity"
    }

    /// The fields of an object, each with its type.
    pub fn fields(self) -> impl Iterator<Item = (&'static str, Self)> {
        let rest = if self.shape() == Shape::Object { line(self.0).unwrap_or_default() } else { "" };
        rest.split(' ').filter_map(|field| field.split_once('=')).map(|(name, kind)| (name, Self(kind)))
    }

    /// Whether an object may have other fields than those of the table.
    pub fn is_open(self) -> bool {
        line(self.0).is_none_or(|rest| rest.ends_with("..."))
    }

    /// The type of a field of an object.
    pub fn field(self, name: &str) -> Option<Self> {
        let rest = if self.shape() == Shape::Object { line(self.0)? } else { return None };
        memchr::memmem::find_iter(rest.as_bytes(), name).find_map(|at| {
            let starts = at == 0 || rest.as_bytes()[at - 1] == b' ';
            let kind = rest.get(at + name.len()..)?.strip_prefix('=').filter(|_| starts)?;
            let end = memchr::memchr(b' ', kind.as_bytes()).unwrap_or(kind.len());
            kind.get(..end).map(Self)
        })
    }

    /// The type itself, or that of the items of a list.
    pub fn item(self) -> Self {
        if let Shape::List(item) = self.shape() { item.item() } else { self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_found_and_every_type_is_known() {
        let lines: Vec<(&str, &str)> =
            TABLE.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once(": ")).collect();
        assert!(lines.len() > 400 && lines.is_sorted_by(|a, b| a.0 < b.0));
        for (name, rest) in &lines {
            assert_eq!(line(name), Some(*rest));
            for (field, kind) in Type(name).fields() {
                let kind = match kind.item().shape() {
                    Shape::Map(kind) => kind.item(),
                    _ => kind.item(),
                };
                assert!(kind.shape() != Shape::Object || line(kind.0).is_some(), "{name}.{field}");
            }
        }
        assert!(line("nothing").is_none() && line("zzz").is_none() && line("#").is_none());
    }

    #[test]
    fn fields_are_followed() {
        let port = of_kind("service").and_then(|kind| kind.field("spec")?.field("ports")).unwrap().item();
        assert_eq!(port.field("port").unwrap().shape(), Shape::Number);
        assert_eq!(port.field("protocol").unwrap().shape(), Shape::Text(Some("TCP|UDP|SCTP")));
        assert_eq!(port.field("targetPort").unwrap().shape(), Shape::Either);
        assert!(port.field("prot").is_none() && !port.is_open() && Type::RESOURCE.is_open());
        assert_eq!(version("deployment"), Some("apps/v1"));
        assert!(quota().any(|key| key == "requests.cpu") && names().any(|name| name == "restartPolicy"));
        assert!(is_name("replicas") && is_name("requests.cpu") && !is_name("eplicas") && !is_name("replicas=int"));
    }
}
