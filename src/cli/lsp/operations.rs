//! The operations of servers and extensions that a file may use, from the lock.

use std::sync::Arc;

use serde_json::Value;

use super::place::{self, Way};
use crate::{
    builtin, check,
    dialect::FileKind,
    hir::Dialect,
    lock::{Lock, LockedOperation, LockedTool},
    package,
    signature::Signature,
    ty::Type,
    yaml::{Node, Tree},
};

/// A word and its description.
pub type Described = (String, String);

/// An operation in the lock.
pub enum Operation<'l> {
    Tool(&'l LockedTool),
    Extension { name: String, operation: &'l LockedOperation },
}

impl Operation<'_> {
    /// The JSON Schema of its input.
    pub fn schema(&self) -> Value {
        match self {
            Self::Tool(tool) => tool.input_schema.json().clone(),
            Self::Extension { operation, .. } => operation.input_schema.json().clone(),
        }
    }

    /// Its signature as a step.
    pub fn signature(&self) -> Signature {
        match self {
            Self::Tool(tool) => builtin::tool::signature(Dialect::Portable, "", Some(&tool.input_schema)),
            Self::Extension { name, operation } => check::extension_signature(name, Dialect::Portable, Some(operation)),
        }
    }
}

/// What the prefix of a step refers to.
enum Prefix<'t> {
    Server(&'t str),
    Extension(&'t str),
}

/// The prefixes that a task declares.
fn prefixes(tree: &Tree) -> Vec<(&str, Prefix<'_>)> {
    let Some(spec) = tree.root().get("spec") else { return Vec::new() };
    let items = |key: &str| spec.get(key).into_iter().flat_map(Node::items);
    let word = |item: Node<'_>, key: &str| item.get(key).and_then(Node::as_str).is_some();
    let mut found = Vec::new();
    for item in items("requires").chain(items("imports")) {
        let alias = item.get("as").and_then(Node::as_str);
        for key in ["mcpServer", "extension", "package"].into_iter().filter(|key| word(item, key)) {
            let Some(name) = item.get(key).and_then(Node::as_str) else { continue };
            found.push(match key {
                "mcpServer" => (alias.unwrap_or(name), Prefix::Server(name)),
                "extension" => (alias.unwrap_or(name), Prefix::Extension(name)),
                _ => (alias.unwrap_or_else(|| check::package_name(name)), Prefix::Extension(name)),
            });
        }
    }
    found
}

/// All operations in the lock that a task can use: `ALIAS.NAME`, with a description.
pub fn all(tree: &Tree, lock: &Lock) -> Vec<Described> {
    let mut found = Vec::new();
    for (alias, prefix) in prefixes(tree) {
        match prefix {
            Prefix::Server(server) => found.extend(
                lock.tools(server)
                    .into_iter()
                    .flatten()
                    .map(|(name, tool)| (format!("{alias}.{name}"), tool.description.clone())),
            ),
            Prefix::Extension(package) => found.extend(
                package::known(lock, package)
                    .into_iter()
                    .flat_map(|extension| &extension.operations)
                    .map(|(name, operation)| (format!("{alias}.{name}"), operation.description.clone())),
            ),
        }
    }
    found
}

/// The operation of a task with this name.
fn operation<'l>(tree: &Tree, name: &str, lock: &'l Lock) -> Option<Operation<'l>> {
    let (alias, inner) = name.split_once('.')?;
    let (_, prefix) = prefixes(tree).into_iter().find(|(known, _)| *known == alias)?;
    match prefix {
        Prefix::Server(server) => lock.tools(server)?.get(inner).map(Operation::Tool),
        Prefix::Extension(package) => {
            let operation = package::known(lock, package)?.operations.get(inner)?;
            Some(Operation::Extension { name: name.to_owned(), operation })
        }
    }
}

/// The operation whose arguments contain the end of a way, and the way within these.
pub fn around<'l, 'w>(tree: &Tree, way: &'w [Way], lock: &'l Lock) -> Option<(Operation<'l>, &'w [Way])> {
    let is = |way: &Way, word: &str| matches!(way, Way::Key(key) if key == word);
    for (nth, part) in way.iter().enumerate().rev() {
        let Way::Key(name) = part else { continue };
        let within = &way[nth + 1..];
        let item = nth > 0 && matches!(way[nth - 1], Way::Item(_));
        // A call of an oracle: `{server, tool, args}`.
        if item && name == "args" && way.iter().any(|part| is(part, "calls")) {
            let call = place::node(tree, &way[..nth])?;
            let word = |key| call.get(key).and_then(Node::as_str);
            let tool = lock.tools(word("server")?)?.get(word("tool")?)?;
            return Some((Operation::Tool(tool), within));
        }
        if item && name.contains('.') {
            let operation = operation(tree, name, lock)?;
            let is_tool = matches!(operation, Operation::Tool(_));
            return match (is_tool, within) {
                (true, [args, within @ ..]) if is(args, "args") => Some((operation, within)),
                (true, _) => None,
                (false, [key, ..]) if is(key, "outputs") || is(key, "expect") => None,
                (false, _) => Some((operation, within)),
            };
        }
    }
    None
}

/// The servers in the lock.
pub fn servers(lock: &Lock) -> Vec<Described> {
    lock.servers.iter().map(|(name, server)| (name.clone(), server.version.clone())).collect()
}

/// The words for `server` and `tool` in an assertion of an eval, or a call of an oracle.
pub fn called(tree: &Tree, way: &[Way], key: &str, lock: &Lock) -> Vec<Described> {
    let server = place::node(tree, way).and_then(|call| call.get("server")).and_then(Node::as_str);
    match key {
        "server" => servers(lock),
        "tool" | "name" => {
            let servers = lock.servers.iter().filter(|(name, _)| server.is_none_or(|server| *name == server));
            let tools = servers.flat_map(|(_, server)| &server.tools);
            tools.map(|(name, tool)| (name.clone(), tool.description.clone())).collect()
        }
        _ => Vec::new(),
    }
}

/// The signature of a step, by its name.
fn signature(tree: &Tree, name: &str, lock: &Lock) -> Option<Arc<Signature>> {
    let Some(FileKind::Task(dialect)) = place::kind(tree) else { return None };
    match builtin::vocabularies().of(dialect).get(name) {
        Some((_, signature)) => Some(Arc::clone(signature)),
        None => operation(tree, name, lock).map(|operation| Arc::new(operation.signature())),
    }
}

/// The outputs of a step that lists none, by the name of its operation.
pub fn outputs(tree: &Tree, name: &str, lock: &Lock) -> Vec<(String, Type)> {
    let signature = signature(tree, name, lock);
    let outputs = signature.map(|signature| signature.implicit_outputs().0).unwrap_or_default();
    outputs.iter().map(|(name, ty)| (name.clone(), ty.clone())).collect()
}

/// The values that only a hole at this place can use: those of its own step, and of the loops around it.
pub fn locals(tree: &Tree, way: &[Way], lock: &Lock) -> Vec<(String, Type)> {
    let mut found = Vec::new();
    for (nth, part) in way.iter().enumerate() {
        let (Way::Key(name), true) = (part, nth > 0 && matches!(way[nth - 1], Way::Item(_))) else { continue };
        let body = place::node(tree, &way[..=nth]);
        if name == "foreach" {
            let var = body.and_then(|body| body.get("var")).and_then(Node::as_str);
            found.extend(var.map(|var| (var.to_owned(), Type::Any)));
        }
        let own = matches!(way.get(nth + 1), Some(Way::Key(key)) if key == "outputs" || key == "expect");
        if let (true, Some(signature)) = (own, signature(tree, name, lock)) {
            found.extend(signature.locals.iter().map(|(name, ty)| (name.clone(), ty.clone())));
        }
    }
    found
}
