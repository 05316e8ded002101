//! The variables that scripts take from the environment: those with a default, and those that must be set.

use std::collections::{BTreeMap, BTreeSet};

use super::wishes::{some, walk};
use crate::{
    bash::{
        self,
        ast::{self, Kind, Part, Redirect, Stmt},
    },
    convert::test_words,
};

/// Variables for which scripts have a default and which they set nowhere else, with that default: `${NS:-shop}`.
pub fn overridable(scripts: &[String]) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for text in scripts {
        let mut variables = Variables::default();
        variables.script(text);
        let Variables { given, set } = variables;
        found.extend(given.into_iter().filter(|(name, _)| !set.contains(name) && !OWN.contains(&name.as_str())));
    }
    found
}

/// Environment variables without which scripts fail, each with some value: `${NS:?}`, and under `set -u` any that no line sets.
pub fn required(scripts: &[String]) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for text in scripts {
        let mut variables = Variables::default();
        variables.script(text);
        let Variables { given, set } = variables;
        let is_asked = |name: &str| [":?", "?"].iter().any(|sign| text.contains(&format!("${{{name}{sign}")));
        let strict = bash::program(text).is_some_and(|program| program.sets('u', "nounset"));
        let is_global = |name: &String| {
            name.len() > 1 && name.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
        };
        for name in ast::names_in(text).into_iter().filter(is_global) {
            let is_open = !given.contains_key(&name) && !set.contains(&name) && !text.contains(&format!("{name}="));
            if is_asked(&name) || strict && is_open && !OWN.contains(&name.as_str()) {
                let value = some(&name);
                found.insert(name, value);
            }
        }
    }
    found
}

/// Variables that every shell has.
const OWN: [&str; 12] = [
    "PATH",
    "HOME",
    "USER",
    "SHELL",
    "PWD",
    "TMPDIR",
    "KUBECONFIG",
    "RANDOM",
    "SECONDS",
    "BASH_SOURCE",
    "OSTYPE",
    "LINENO",
];

/// The variables of a script: those with a default, and those that it sets.
#[derive(Default)]
struct Variables {
    given: BTreeMap<String, String>,
    set: BTreeSet<String>,
}

impl Variables {
    fn script(&mut self, text: &str) {
        let list = bash::parse(text).and_then(|script| ast::read(&script)).unwrap_or_default();
        list.iter().for_each(|stmt| walk(stmt, &mut |stmt| self.statement(stmt)));
    }

    fn statement(&mut self, stmt: &Stmt) {
        match &stmt.kind {
            Kind::Simple(simple) => {
                if let [name, names @ ..] = simple.words.as_slice()
                    && name.source == "read"
                {
                    self.set.extend(names.iter().map(|word| word.source.clone()));
                }
                let values = simple.env.iter().filter_map(|assign| assign.value.as_ref());
                values.chain(&simple.words).for_each(|word| self.parts(&word.parts));
                for redirect in &simple.redirects {
                    match redirect {
                        Redirect::Write(word)
                        | Redirect::Append(word)
                        | Redirect::Read(word)
                        | Redirect::Herestring(word) => self.parts(&word.parts),
                        Redirect::Heredoc(parts) => self.parts(parts),
                        _ => {}
                    }
                }
            }
            Kind::Assign(assigns) => {
                for assign in assigns {
                    let words = assign.value.iter().chain(assign.array.iter().flatten());
                    words.for_each(|word| self.parts(&word.parts));
                    // `NS="${NS:-shop}"` takes it from the environment as well.
                    let is_own = assign.value.as_ref().is_some_and(|word| {
                        matches!(word.parts.as_slice(), [Part::Var { name, default: Some(_), .. }] if *name == assign.name)
                    });
                    if !is_own {
                        self.set.insert(assign.name.clone());
                    }
                }
            }
            Kind::Test(inner, _) => {
                test_words(inner).unwrap_or_default().iter().for_each(|word| self.parts(&word.parts));
            }
            Kind::For { var, values, .. } => {
                self.set.insert(var.clone());
                values.iter().for_each(|word| self.parts(&word.parts));
            }
            Kind::Count { var, .. } | Kind::Step(var) => drop(self.set.insert(var.clone())),
            _ => {}
        }
    }

    fn parts(&mut self, parts: &[Part]) {
        for part in parts {
            match part {
                Part::Var { name, default: Some(default), .. } => match ast::literal(default) {
                    Some(text) if ast::is_name(name) => drop(self.given.insert(name.clone(), text)),
                    _ => self.parts(default),
                },
                Part::Command { text, .. } => self.script(text),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overridable_variables_of_a_script_are_found() {
        let open = |script: &str| overridable(&[script.to_owned()]).into_iter().collect::<Vec<_>>();
        let is = |name: &str, value: &str| vec![(name.to_owned(), value.to_owned())];
        for script in [
            "kubectl get pods -n \"${NS:-shop}\"",
            "NS=\"${NS:-shop}\"\nkubectl get pods -n \"$NS\"",
            "kubectl get pods -n ${NS:-'shop'}",
            "# for NS=x\nn=$(kubectl get pods -n \"${NS:-\"shop\"}\" | wc -l)",
            "cat <<EOF | kubectl apply -f -\nnamespace: ${NS:-shop}\nEOF",
            "if [[ \"${NS:-shop}\" == shop ]]; then echo yes; fi",
        ] {
            assert_eq!(open(script), is("NS", "shop"), "{script}");
        }
        for script in [
            "NS=shop\necho \"${NS:-x}\"",
            "for NS in a b; do echo \"${NS:-x}\"; done",
            "read -r NS\necho \"${NS:-x}\"",
            "echo '${NS:-x}'",
            "cat <<'EOF'\n${NS:-x}\nEOF",
            "echo \"${NS:-$OTHER}\" \"${1:-x}\" \"${HOME:-/root}\"",
        ] {
            assert_eq!(open(script), [], "{script}");
        }
        let asked = |script: &str| required(&[script.to_owned()]).into_keys().collect::<Vec<_>>();
        assert_eq!(asked(": \"${HOST:?is not set}\""), ["HOST"]);
        assert_eq!(asked("set -euo pipefail\nN=1\necho \"$N $HOST ${A:-} $HOME\""), ["HOST"]);
        assert_eq!(asked("echo \"$HOST\""), [""; 0]);
    }
}
