//! Configured clusters that the eval's own cluster (`world: kube`) replaces.

use crate::{
    diagnostic::{Diagnostic, Diagnostics},
    hir::KubeWorld,
    kubernetes,
    lint::EvalView,
    package::{Package, package},
    rule,
};

rule! {
    pub static OTHER_CLUSTER = "other-cluster", Warning;
}

/// `kubeconfig` and `context` of the bundled extension, and `KUBECONFIG` of any extension.
pub fn check(view: &EvalView<'_>, out: &mut Diagnostics) {
    if view.eval.world.is_none() {
        return;
    }
    let mut found = |span, what: &str| {
        let message = format!("{what} has no effect: `world` determines the cluster");
        out.push(
            Diagnostic::new(&OTHER_CLUSTER, span, message)
                .here("another cluster is configured here")
                .help("remove it, or remove `world` if you want to use that cluster"),
        );
    };
    for extension in &view.eval.extensions {
        let name = extension.package.as_ref().map(|package| package.value.as_str());
        let is_bundled =
            name.is_some_and(|name| matches!(package(name, view.unit.lock.substitute), Ok(Package::Bundled(_))));
        let set = kubernetes::CLUSTER.into_iter().find(|key| extension.config.get(key).is_some());
        if let Some(key) = set.filter(|_| is_bundled) {
            found(extension.span, &format!("`config.{key}` of `{}`", extension.alias.value));
        }
        if let Some((name, _)) = extension.env.iter().find(|(name, _)| name.value == KubeWorld::KUBECONFIG) {
            found(name.span, &format!("`KUBECONFIG` of `{}`", extension.alias.value));
        }
    }
}
