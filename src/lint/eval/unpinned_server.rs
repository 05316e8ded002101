//! A server that is fetched for each run, in the version that is current then.

use crate::{
    diagnostic::{Diagnostic, Diagnostics},
    hir::{Expand, Server, Transport},
    lint::EvalView,
    rule,
};

rule! {
    pub static UNPINNED_SERVER = "unpinned-server", Warning;
}

pub fn check(view: &EvalView<'_>, out: &mut Diagnostics) {
    for server in view.unit.mcp.iter().flat_map(|m| &m.servers).filter(|s| !s.disabled) {
        let Some((package, example)) = unpinned(server) else { continue };
        out.push(
            Diagnostic::new(
                &UNPINNED_SERVER,
                package.span,
                format!("`{}` is not pinned to a version", package.display()),
            )
            .help(format!("pin a version, for example `{example}`")),
        );
    }
}

/// The package that the server's command fetches, if no exact version is specified, and an example with a version.
fn unpinned(server: &Server) -> Option<(&Expand, String)> {
    let (package, npm) = fetched(server)?;
    let name = package.display();
    let elsewhere = name.starts_with(['.', '/']) || name.contains(':') || package.has_variables();
    let example = if npm { pin_npm(&name) } else { pin_python(&name) };
    example.filter(|_| !elsewhere).map(|example| (package, example))
}

/// The package that the server's command fetches.
pub fn package(server: &Server) -> Option<&Expand> {
    fetched(server).map(|(package, _)| package)
}

/// The package, and whether it is an npm package.
fn fetched(server: &Server) -> Option<(&Expand, bool)> {
    let Transport::Stdio { command, args, .. } = &server.transport else { return None };
    let command = command.display();
    let npm = match command.rsplit('/').next()? {
        "npx" | "bunx" => true,
        "uvx" => false,
        _ => return None,
    };
    // The package is the value of such an option, or else the first word that is not part of an option.
    let (from, with_value): (&[&str], &[&str]) = match npm {
        true => (&["-p", "--package"], &["-c", "--call", "--registry"]),
        false => (&["--from"], &["-p", "--python", "--with", "--index-url", "--index"]),
    };
    let mut words = args.iter();
    let package = loop {
        let word = words.next()?;
        match word.display().as_str() {
            option if from.contains(&option) => break words.next()?,
            option if with_value.contains(&option) => {
                words.next();
            }
            option if option.starts_with('-') => {}
            _ => break word,
        }
    };
    Some((package, npm))
}

/// An example with a version, if the package has no exact one. A scope also begins with `@`.
fn pin_npm(package: &str) -> Option<String> {
    let (name, version) = package.rsplit_once('@').filter(|(name, _)| !name.is_empty()).unwrap_or((package, ""));
    (!exact(version)).then(|| format!("{name}@1.2.3"))
}

fn pin_python(package: &str) -> Option<String> {
    let (name, version) = package.split_at(package.find(['=', '@', '<', '>', '~', '!']).unwrap_or(package.len()));
    let version = version.strip_prefix("==").or_else(|| version.strip_prefix('@')).unwrap_or_default();
    let pinned = version.starts_with(|c: char| c.is_ascii_digit()) && !version.contains('*');
    (!pinned).then(|| format!("{name}==1.2.3"))
}

/// Whether an npm version is exact: `1.2` is a range.
fn exact(version: &str) -> bool {
    let core = version.split(['-', '+']).next().unwrap_or_default();
    core.split('.').count() == 3 && core.split('.').all(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_version_is_a_pin() {
        for pinned in ["a@1.2.3", "@s/a@2026.8.31", "a@1.0.0-beta.2"] {
            assert_eq!(pin_npm(pinned), None, "{pinned}");
        }
        for loose in ["@s/a", "@s/a@latest", "@s/a@1", "@s/a@^1.2.3", "@s/a@1.x.0"] {
            assert_eq!(pin_npm(loose).as_deref(), Some("@s/a@1.2.3"), "{loose}");
        }
        for pinned in ["a==1", "a@1.2", "a==2026.8.18"] {
            assert_eq!(pin_python(pinned), None, "{pinned}");
        }
        for loose in ["a", "a@latest", "a>=1", "a~=1.2", "a==1.*"] {
            assert_eq!(pin_python(loose).as_deref(), Some("a==1.2.3"), "{loose}");
        }
    }
}
