//! Facts about other programs that scripts call: one table for every room that reads scripts. What only one rule needs to
//! know of a program stands in that rule.

/// What is known of a program, in the words of its command line.
#[derive(Debug)]
pub struct Tool {
    /// What it is called, without a folder. Programs with the same command line share an entry; the first name stands for all.
    pub names: &'static [&'static str],
    /// Options whose value is the next word, where it is not written behind `=`. Another option is a word alone.
    pub valued: &'static [&'static str],
    /// Operations that change nothing, as the operands that they begin with.
    pub looks: &'static [&'static [&'static str]],
}

/// All of them.
#[rustfmt::skip]
pub const TOOLS: &[Tool] = &[
    Tool {
        names: &["kubectl", "oc"],
        valued: &[
            "-n", "--namespace", "-f", "--filename", "-k", "--kustomize", "-l", "--selector", "--field-selector", "-o",
            "--output", "-L", "--label-columns", "--sort-by", "--context", "--kubeconfig", "-s", "--server", "--timeout",
            "--grace-period",
        ],
        looks: &[
            &["get"], &["wait"], &["describe"], &["logs"], &["version"], &["api-resources"], &["cluster-info"], &["top"],
            &["explain"], &["whoami"], &["auth", "can-i"], &["rollout", "status"], &["rollout", "history"],
            &["config", "view"], &["config", "current-context"], &["config", "get-contexts"],
        ],
    },
    Tool {
        names: &["helm"],
        valued: &["-n", "--namespace", "-f", "--values", "--set", "--version", "--kube-context", "--kubeconfig", "--timeout"],
        looks: &[&["list"], &["ls"], &["status"], &["get"], &["history"], &["version"]],
    },
    Tool {
        names: &["docker", "podman", "nerdctl"],
        // `-t` of `rm` and `stop`.
        valued: &["-t", "--time", "-H", "--host", "--context"],
        looks: &[&["ps"], &["inspect"], &["images"], &["logs"], &["version"], &["info"]],
    },
    Tool {
        names: &["git"],
        valued: &["-C", "-c"],
        looks: &[&["status"], &["log"], &["diff"], &["show"], &["rev-parse"]],
    },
];

/// Programs that change nothing, whatever they are asked to do.
#[rustfmt::skip]
const LOOKERS: &[&str] = &[
    "test", "[", "grep", "true", "cat", "ls", "head", "tail", "wc", "jq", "diff", "cmp", "command", "which", "stat", "file",
    "egrep", "fgrep", "sha256sum", "du", "printenv", "base64", "cut",
];

/// Shells that read what Bourne's reads, and quote as it does.
pub const SHELLS: [&str; 7] = ["sh", "bash", "dash", "zsh", "ksh", "mksh", "ash"];

/// The entry of a program; `name` is without a folder.
pub fn tool(name: &str) -> Option<&'static Tool> {
    TOOLS.iter().find(|tool| tool.names.contains(&name))
}

/// The name that stands for all programs with the same command line: `kubectl` for `oc`.
pub fn canonical(name: &str) -> &str {
    tool(name).map_or(name, |tool| tool.names[0])
}

/// Whether a program has this option, with a value behind it: one that takes `--namespace` works in a namespace.
pub fn takes(name: &str, option: &str) -> bool {
    tool(name).is_some_and(|tool| tool.valued.contains(&option))
}

/// The words behind the name of a program that are neither options nor values of options.
pub fn operands<'w, W: AsRef<str>>(name: &str, words: &'w [W]) -> impl Iterator<Item = &'w W> {
    let valued = tool(name).map_or(&[][..], |tool| tool.valued);
    let mut value = false;
    words.iter().filter(move |word| {
        let word = word.as_ref();
        let is_value = std::mem::replace(&mut value, valued.contains(&word));
        !is_value && !word.starts_with('-')
    })
}

/// Whether a command, its words written apart by spaces, changes nothing.
pub fn looks(run: &str) -> bool {
    let words: Vec<&str> = run.split_whitespace().collect();
    let Some((&name, rest)) = words.split_first() else { return false };
    if matches!(name, "awk" | "sed") {
        return !run.contains(['>', '|']) && !run.contains(" -i");
    }
    let operands: Vec<&str> = operands(name, rest).copied().collect();
    LOOKERS.contains(&name)
        || tool(name).is_some_and(|tool| tool.looks.iter().any(|operation| operands.starts_with(operation)))
}

/// Whether a command is told to change nothing.
pub fn is_dry<W: AsRef<str>>(words: &[W]) -> bool {
    words.iter().any(|word| word.as_ref().starts_with("--dry-run"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_has_one_entry() {
        let mut names: Vec<_> = TOOLS.iter().flat_map(|tool| tool.names).collect();
        let all = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), all);
    }

    #[test]
    fn values_of_options_are_no_operands() {
        let words = ["-n", "shop", "delete", "pod", "web", "--timeout=3s", "--grace-period", "0"];
        assert_eq!(operands("oc", &words).collect::<Vec<_>>(), [&"delete", &"pod", &"web"]);
        assert_eq!(operands("unknown", &words).count(), 5);
    }

    #[test]
    fn what_looks_changes_nothing() {
        for run in
            ["kubectl -n shop get pods", "oc auth can-i get pods", "podman ps", "git -C x status", "test -e a", "awk 1"]
        {
            assert!(looks(run), "{run}");
        }
        for run in [
            "kubectl delete pod get",
            "kubectl auth reconcile",
            "helm install list",
            "./test",
            "sed -i x f",
            "rm a",
            "",
        ] {
            assert!(!looks(run), "{run}");
        }
    }
}
