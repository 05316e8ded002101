//! References to extensions: what a package refers to, and which extensions are bundled (`portable-format.md`,
//! extensions; §7.2 of the upstream behavior).

use std::sync::LazyLock;

use crate::{
    hir::Substitute,
    kubernetes,
    lock::{Lock, LockedExtension},
};

/// What a reference refers to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Package {
    /// `builtin:NAME`, or a package that a bundled extension replaces.
    Bundled(&'static str),
    /// A program, or a directory with `extension.yaml`, as written.
    Local(String),
    /// A release of a repository.
    Release { owner: String, repo: String, version: String },
}

/// Packages in existing suites that a bundled extension replaces: owner and repository, and the bundled extension.
const SUBSTITUTES: &[(&str, &str)] =
    &[("mcpchecker/kubernetes-extension", kubernetes::NAME), ("gevals/ext-kubernetes", kubernetes::NAME)];

/// Parses a reference.
///
/// # Errors
/// What is wrong with the reference, as a predicate.
pub fn package(text: &str, substitute: Substitute) -> Result<Package, String> {
    if let Some(name) = text.strip_prefix("builtin:") {
        let known = (name == kubernetes::NAME).then_some(Package::Bundled(kubernetes::NAME));
        return known.ok_or_else(|| format!("is not a bundled extension: use `builtin:{}`", kubernetes::NAME));
    }
    if let Some(path) = text.strip_prefix("file://") {
        return Ok(Package::Local(path.to_owned()));
    }
    if text.starts_with(['.', '/', '~']) {
        return Ok(Package::Local(text.to_owned()));
    }
    let Some((_, rest)) = text.split_once("github.com/") else {
        return Err("is not a path, `builtin:NAME` or `github.com/OWNER/REPO@VERSION`".to_owned());
    };
    let (name, version) = rest.split_once('@').unwrap_or((rest, "latest"));
    match name.split_once('/') {
        Some((owner, repo)) if !owner.is_empty() && !repo.is_empty() && !repo.contains('/') && !version.is_empty() => {
            let bundled = SUBSTITUTES.iter().find(|(package, _)| *package == name);
            Ok(match bundled.filter(|_| substitute == Substitute::Auto) {
                Some((_, bundled)) => Package::Bundled(bundled),
                None => {
                    Package::Release { owner: owner.to_owned(), repo: repo.to_owned(), version: version.to_owned() }
                }
            })
        }
        _ => Err("is not a release: write `github.com/OWNER/REPO@VERSION`".to_owned()),
    }
}

/// Returns the operations of a bundled extension, if the reference refers to one.
pub fn bundled(text: &str, substitute: Substitute) -> Option<&'static LockedExtension> {
    static KUBERNETES: LazyLock<Option<LockedExtension>> =
        LazyLock::new(|| LockedExtension::from_protocol(&kubernetes::manifest()).ok());
    match package(text, substitute) {
        Ok(Package::Bundled(_)) => KUBERNETES.as_ref(),
        _ => None,
    }
}

/// Returns the operations of an extension by its name in tasks: from the lock, or because it is bundled.
pub fn known<'l>(lock: &'l Lock, name: &str) -> Option<&'l LockedExtension> {
    lock.extensions.get(name).or_else(|| bundled(name, lock.substitute))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(text: &str) -> Result<Package, String> {
        super::package(text, Substitute::Auto)
    }

    #[test]
    fn references_are_parsed() {
        let release = |owner: &str, repo: &str, version: &str| {
            Ok(Package::Release { owner: owner.to_owned(), repo: repo.to_owned(), version: version.to_owned() })
        };
        assert_eq!(package("builtin:kubernetes"), Ok(Package::Bundled("kubernetes")));
        assert_eq!(
            package("https://github.com/mcpchecker/kubernetes-extension@v0.0.3"),
            Ok(Package::Bundled("kubernetes"))
        );
        assert_eq!(package("github.com/gevals/ext-kubernetes@v1"), Ok(Package::Bundled("kubernetes")));
        assert_eq!(package("github.com/acme/thing@v2"), release("acme", "thing", "v2"));
        assert_eq!(package("github.com/acme/thing"), release("acme", "thing", "latest"));
        assert_eq!(package("./ext"), Ok(Package::Local("./ext".to_owned())));
        assert_eq!(package("file://a/b"), Ok(Package::Local("a/b".to_owned())));
        let never = super::package("github.com/gevals/ext-kubernetes@v1", Substitute::Never);
        assert_eq!(never, release("gevals", "ext-kubernetes", "v1"));
        for wrong in ["builtin:kube", "thing", "github.com/acme", "github.com/a/b/c", "github.com/a/b@", "http://x.y/z"]
        {
            assert!(package(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_bundled_manifest_declares_the_effects_of_steps() {
        let kubernetes = bundled("builtin:kubernetes", Substitute::Never).unwrap();
        assert_eq!(kubernetes.operations.len(), kubernetes::operation::OPERATIONS.len());
        let (apply, condition) = (&kubernetes.operations["apply"], &kubernetes.operations["condition"]);
        assert!(apply.action && !apply.check && condition.check && condition.action);
        assert!(condition.input_schema.json()["required"].as_array().unwrap().contains(&"type".into()));
    }
}
